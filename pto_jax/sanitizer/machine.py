"""The reference machine with a shadow beside every memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..analysis.addresses import scalar_dtype
from ..interpreter import Execution, Operand, Pointer, Scalar, Scope, TileRef
from ..interpreter.interleaving import LAUNCH
from ..interpreter.operands import LocalPointer
from ..ir import DType, Op, TileType, Value
from ..isa import load_families
from ..isa.effects import kept_apart
from ..isa.micro import MicroCall
from ..oracle.machine import ReferenceMachine
from ..oracle.numbers import Array
from ..oracle.step import Policy, Step, not_executable, place_of
from ..oracle.storage import Place, Window, map_of, storage_size
from .micro import shadows_before, with_shadows
from .shadow import Findings, Origins, Shadow, ShadowBuffer
from .step import SHADOW_RULES, ShadowStep, shadow_of, shadow_step

load_families("pto_jax.sanitizer")

_DIVIDE = "divsi divui remsi remui ceildivsi ceildivui floordivsi".split()
_DIVISIONS = frozenset({f"arith.{name}" for name in _DIVIDE})
_SHIFTS = frozenset({"arith.shli", "arith.shrsi", "arith.shrui"})


@dataclass(frozen=True, eq=False)
class Contents:
    """The words of a tile in a pipe or a window, with their undefined bits and origin ids."""

    words: Array
    bits: Array
    origin_ids: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the three arrays."""
        return self.words.shape

    @property
    def dtype(self) -> Any:
        """NumPy type of the words."""
        return self.words.dtype

    def __getitem__(self, key: Any) -> Contents:
        return Contents(self.words[key], self.bits[key], self.origin_ids[key])


class ShadowMachine(ReferenceMachine):
    """A :class:`ReferenceMachine` that follows definedness; ``findings`` says where it matters.

    Global memory is defined at the start: its contents are the caller's. With ``strict`` every instruction
    whose result depends on undefined data is a finding of its own.
    """

    #: Whether lanes outside a valid region are read as they are stored, which a machine may promise and the
    #: ISA does not.
    keeps_backing = False

    def __init__(
        self, policy: Policy, buffers: Mapping[str, Array], max_steps: int = 1_000_000, strict: bool = False
    ) -> None:
        super().__init__(policy, buffers, max_steps)
        self.strict = strict
        self.origins = Origins()
        self.findings = Findings(self.origins)
        self.memory = {name: Shadow.defined(len(b)) for name, b in buffers.items()}

    def enter(self, core: str) -> None:
        """Turn to the local memory of a core; findings name it where there are several ranks."""
        super().enter(core)
        name, launched, _ = core.partition(LAUNCH)
        self.findings.core = name if launched else ""

    # -- storage ---------------------------------------------------------------------------------------

    def buffer(self) -> ShadowBuffer:
        """An empty run of bytes with a shadow."""
        return ShadowBuffer(self._fill)

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        """Storage of an ``alloc_tile``, whose unwritten bytes have this operation as origin."""
        return self._claimed(op, super().allocate(op, type, address), type)

    def fresh(self, op: Op, result: Value, type: TileType) -> Hashable:
        """New storage of a result, whose unwritten bytes have this operation as origin."""
        return self._claimed(op, super().fresh(op, result, type), type)

    def rebind(self, op: Op, ref: TileRef, type: TileType, address: Scalar) -> Hashable:
        """Storage at another address, whose unwritten bytes have this operation as origin."""
        return self._claimed(op, super().rebind(op, ref, type, address), type)

    def _claimed(self, op: Op, place: Hashable, t: TileType) -> Hashable:
        """Bytes without an origin are from here on those that this operation left unwritten."""
        assert isinstance(place, Place) and isinstance(place.buffer, ShadowBuffer)
        origin_id = self.origins.id_of("never written", op)
        place.buffer.shadow.claim(place.address, storage_size(t), origin_id)
        return place

    def micro(self, op: Op, call: MicroCall, operands: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """The results of a micro-operation, registers with their undefined bits."""
        undefined = shadows_before(self, self, op, call, operands)
        return with_shadows(super().micro(op, call, operands), undefined)

    def contents(self, ref: TileRef) -> Contents:
        """Words, undefined bits and origin ids of a whole tile, each [rows, cols]."""
        t = ref.type
        if isinstance(ref.storage, Window):
            return self.contents(ref.storage.tile)[ref.storage.slices(t)]
        shadow, address = shadow_of(ref)
        at = map_of(t)
        bits, origin_ids = shadow.words(at, t.dtype, address), shadow.origin_ids(at, t.dtype, address)
        return Contents(self.stored(ref), bits, origin_ids)

    def overwrite(self, ref: TileRef, contents: Any) -> None:
        """Replace the words of a whole tile and their shadow; ``contents`` are :class:`Contents`."""
        assert isinstance(contents, Contents)
        if isinstance(ref.storage, Window):
            whole, part = self.contents(ref.storage.tile), ref.storage.slices(ref.type)
            for old, new in zip(_arrays(whole), _arrays(contents), strict=True):
                old[part] = new
            self.overwrite(ref.storage.tile, whole)
            return
        super().overwrite(ref, contents.words)
        self._write_shadow(ref, contents)

    def receive(self, op: Op | None, name: str, type: TileType, contents: Any) -> Place:
        """New storage that holds contents; plain words are defined."""
        value = contents if isinstance(contents, Contents) else _defined(contents)
        place = super().receive(op, name, type, value.words)
        self._write_shadow(TileRef(type, place, type.rows, type.cols), value)
        return place

    def _write_shadow(self, ref: TileRef, contents: Contents) -> None:
        shadow, address = shadow_of(ref)
        shadow.write(map_of(ref.type), contents.bits, contents.origin_ids, ref.type.dtype, address)

    def concatenate(self, parts: Sequence[Any], axis: int) -> Any:
        """Contents joined along an axis."""
        return Contents(*(np.concatenate(layer, axis) for layer in zip(*map(_arrays, parts), strict=True)))

    def gives(self, name: str, ref: TileRef) -> None:
        """Undefined lanes of the valid region of a fragment's result are a finding."""
        rows, cols = int(ref.v_row), int(ref.v_col)
        self.findings.add("result", None, f"%{name}", self.contents(ref).origin_ids[:rows, :cols])

    # -- scalars ---------------------------------------------------------------------------------------

    def begin(self, op: Op, scope: Scope) -> None:
        """Scalar divisions by zero and shifts by the type's width or more are findings."""
        if op.name in _DIVISIONS and int(scope[op.ins[1]]) == 0:
            self._forbidden(op, "division by zero")
        elif op.name in _SHIFTS and not 0 <= int(scope[op.ins[1]]) < scalar_dtype(op.ins[1].type).bits:
            self._forbidden(op, "shift by the width of the type or more")

    def _forbidden(self, op: Op, reason: str) -> None:
        self.findings.add("scalar", op, str(op.results[0]), np.array(self.origins.id_of(reason, op)))

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Scalar:
        """The element at a position in a tile's storage; an undefined one is a finding."""
        value = super().element(op, ref, position, dtype)
        shadow, address = shadow_of(ref)
        origin_ids = shadow.origin_ids(np.array(int(position)), ref.type.dtype, address)
        self.findings.add("scalar", op, str(op.ins[0]), origin_ids)
        return value

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        """Write a scalar to the element at a position in a tile's storage, which is then defined."""
        super().set_element(op, ref, position, value)
        shadow, address = shadow_of(ref)
        shadow.define(np.array([int(position)]), ref.type.dtype, address)

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: DType) -> Scalar:
        """The element that a pointer is at; an undefined one is a finding."""
        value = super().load(op, pointer, dtype)
        shadow, position, address = self._behind(op, pointer)
        origin_ids = shadow.origin_ids(np.array(position), pointer.dtype, address)
        self.findings.add("scalar", op, str(op.ins[0]), origin_ids)
        return value

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Write a scalar to the element that a pointer is at, which is then defined."""
        super().store(op, pointer, value)
        shadow, position, address = self._behind(op, pointer)
        shadow.define(np.array([position]), pointer.dtype, address)

    def _behind(self, op: Op, pointer: Pointer | LocalPointer) -> tuple[Shadow, int, int]:
        """The shadow that a pointer is in, and the element and the byte where it is."""
        if isinstance(pointer, Pointer):
            return self.memory[pointer.buffer], int(pointer.offset), 0
        place = self.local(pointer, op)
        assert isinstance(place.buffer, ShadowBuffer)
        return place.buffer.shadow, 0, place.address

    # -- instructions ----------------------------------------------------------------------------------

    def compute(self, execution: Execution, step: Step) -> None:
        """Execute an instruction's shadow rule, then its rule; NotExecutableError without a shadow rule."""
        rule = SHADOW_RULES.get(execution.instruction.name)
        if rule is None:
            raise not_executable(execution.op, "has no rule in the sanitizer")
        shadow = shadow_step(self, execution, step)
        with np.errstate(all="ignore"):
            self._clobber(shadow)
            rule(shadow)
            self._share(shadow)
        super().compute(execution, step)

    def wrote(self, step: ShadowStep, name: str, positions: Array, origin_ids: Array) -> None:
        """Called for every write to a tile's shadow."""
        if self.strict:
            t = step.type(name)
            lanes = np.zeros(t.shape, np.int32)
            written = np.zeros(int(map_of(t).max(initial=0)) + 1, np.int32)
            positions, origin_ids = np.broadcast_arrays(positions, origin_ids)
            inside = positions < len(written)
            written[positions[inside]] = origin_ids[inside]
            lanes[...] = written[map_of(t)]
            step.sink("read", name, lanes)

    def _clobber(self, step: ShadowStep) -> None:
        """Scratch tiles hold nothing once they are written, and so does an operand with the same bytes."""
        for operand in step.instruction.operands:
            if operand.is_scratch_on(self.policy.profile.name) and step.is_tile(operand.name):
                step.lose("used as scratch", _written(step, operand.name), operand.name)

    def _share(self, step: ShadowStep) -> None:
        """Destinations hold nothing that share bytes with an operand from which they must lie apart."""
        types = {name: step.type(name) for name in step.operands if step.is_tile(name)}
        pairs_apart = kept_apart(step.instruction, step.bound.form, types, self.policy.profile.name)
        pairs = [(a, b) for a, b, _ in pairs_apart if _overlap(step, a, b)]
        for name in (operand.name for operand in step.instruction.destinations):
            other = next((b if a == name else a for a, b in pairs if name in (a, b)), None)
            if other is not None:
                reason = f"{step.shown(name)} shares bytes with {step.shown(other)}"
                step.lose(reason, _written(step, name), name)


def _written(step: Step, name: str) -> Array:
    """The storage positions of the valid region of an operand."""
    rows, cols = step.valid(name)
    return map_of(step.type(name))[:rows, :cols]


def _overlap(step: Step, a: str, b: str) -> bool:
    """Whether the valid regions of two operands share bytes."""
    if place_of(step.tile(a)).buffer is not place_of(step.tile(b)).buffer:
        return False
    first, second = (_bytes(step, name) for name in (a, b))
    return bool(np.intersect1d(first, second).size)


def _bytes(step: Step, name: str) -> Array:
    """The bytes of the valid region of an operand in its buffer."""
    d, address = step.dtype(name), place_of(step.tile(name)).address
    positions = _written(step, name)
    if d.packed:
        return np.asarray(address + (positions >> 1)).ravel()
    return np.asarray((address + positions * d.word.itemsize)[..., None] + np.arange(d.word.itemsize)).ravel()


def _arrays(contents: Contents) -> tuple[Array, Array, Array]:
    return contents.words, contents.bits, contents.origin_ids


def _defined(words: Array) -> Contents:
    return Contents(words, np.zeros_like(words), np.zeros(words.shape, np.int32))
