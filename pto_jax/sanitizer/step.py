"""One instruction on the shadow: operands as origin ids, and the undefined bits of its results.

Most rules compute with origin ids, element by element. Instructions that only move elements need no rule
here: the interpreter's rule is executed with the shadow in place of the data that moves, once for the
undefined bits and, if there are any, once for their origins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from .. import isa
from ..interpreter import Execution, TileRef, View
from ..ir import DType
from ..oracle import storage
from ..oracle.numbers import Array, decode
from ..oracle.step import RULES, Policy, Step, place_of
from .shadow import (
    UNCLAIMED,
    Findings,
    Origins,
    Shadow,
    ShadowBuffer,
    Sink,
    all_bits,
    as_words,
    first,
    first_along,
)


class ShadowState(Protocol):
    """What a step needs of the machine whose memories have a shadow.

    ``memory`` has the shadows of global buffers by name, ``keeps_backing`` says whether lanes outside a valid
    region are read as they are stored, ``strict`` whether undefined results are findings.
    """

    policy: Policy
    keeps_backing: bool
    strict: bool
    origins: Origins
    findings: Findings
    memory: dict[str, Shadow]

    def wrote(self, step: ShadowStep, name: str, positions: Array, origin_ids: Array) -> None:
        """Called for every write to a tile's shadow."""


def shadow_of(ref: TileRef) -> tuple[Shadow, int]:
    """The shadow of a tile's bytes, and its first byte."""
    place = place_of(ref)
    assert isinstance(place.buffer, ShadowBuffer)
    return place.buffer.shadow, place.address


@dataclass(frozen=True)
class ShadowStep(Step):
    """An instruction whose lanes are origin ids; ``real`` has its data as they are before it executes."""

    real: Step = field(kw_only=True)
    machine: ShadowState = field(kw_only=True)
    bound: isa.Bound = field(kw_only=True)

    @property
    def instruction(self) -> isa.Instruction:
        """The declaration."""
        return self.bound.instruction

    # -- sources ---------------------------------------------------------------------------------------

    def outside(self, name: str) -> int:
        """The origin of lanes outside an operand's valid region."""
        rows, cols = self.valid(name)
        return self.origin_of(f"outside the valid region {rows}x{cols} of {self.shown(name)}")

    def shown(self, name: str) -> str:
        """An operand as the program calls it."""
        value = self.bound.values.get(name)
        return name if value is None else f"{value} ({name})"

    def origin_of(self, reason: str) -> int:
        """The id of an origin at this instruction."""
        return self.machine.origins.id_of(reason, self.op)

    def gather(self, name: str, rows: Array, cols: Array) -> Array:
        """Origin ids of single elements; ``rows`` and ``cols`` broadcast."""
        ref = self.tile(name)
        t = ref.type
        shadow, address = shadow_of(ref)
        positions = storage.map_of(t)[np.minimum(rows, t.rows - 1), np.minimum(cols, t.cols - 1)]
        origin_ids = shadow.origin_ids(positions, t.dtype, address)
        inside = self.known(name, rows, cols)
        return origin_ids if inside.all() else np.where(inside, origin_ids, self.outside(name))

    def known(self, name: str, rows: Array, cols: Array) -> Array:
        """Which lanes of an operand are as defined as what is stored there."""
        limits = self.type(name).shape if self.machine.keeps_backing else self.valid(name)
        return np.asarray((rows < limits[0]) & (cols < limits[1]))

    def buffer_shadow(self, view: View) -> Shadow:
        """The shadow of the global buffer that a view is of."""
        return self.machine.memory[view.buffer]

    def stored(self, name: str) -> Array:
        """Origin ids of the whole physical tile, whatever its valid region."""
        ref = self.tile(name)
        shadow, address = shadow_of(ref)
        return shadow.origin_ids(storage.map_of(ref.type), ref.type.dtype, address)

    def scalar(self, name: str, d: DType) -> Array:
        """Scalars are defined: the origin id 0, 1x1."""
        return np.zeros((1, 1), np.int32)

    def bits(self, name: str, rows: Array, cols: Array) -> Array:
        """Undefined bits of elements, all of them outside the valid region."""
        ref = self.tile(name)
        t = ref.type
        shadow, address = shadow_of(ref)
        positions = storage.map_of(t)[np.minimum(rows, t.rows - 1), np.minimum(cols, t.cols - 1)]
        words = shadow.words(positions, t.dtype, address)
        return np.where(self.known(name, rows, cols), words, t.dtype.word.type(all_bits(t.dtype)))

    def bits_over(self, name: str, region: tuple[int, int] | None = None) -> Array:
        """Undefined bits over a region, the destination's by default; none for a scalar."""
        if not self.is_tile(name):
            return np.zeros((1, 1), self.dtype(name).word)
        return self.bits(name, *np.ogrid[tuple(map(slice, region or self.region))])

    def sources(self) -> tuple[str, ...]:
        """The tiles an instruction reads."""
        operands = self.instruction.operands
        return tuple(o.name for o in operands if o.role in ("in", "inout") and self.is_tile(o.name))

    def all_sources(self, region: tuple[int, int] | None = None) -> Array:
        """The sources over a region, combined lane by lane."""
        origins = [self.raw(name, region) for name in self.sources()]
        return first(*origins) if origins else np.zeros((1, 1), np.int32)

    def is_integer(self) -> bool:
        """Whether the destination has an integer element type."""
        return self.dtype().is_integer

    # -- destinations ----------------------------------------------------------------------------------

    def scatter(self, words: Array, positions: Array, name: str = "dst") -> None:
        """Write origin ids at storage positions of a destination."""
        self.write(as_words(words, self.dtype(name)), words, positions, name)

    def write(self, words: Array, origin_ids: Array, positions: Array, name: str = "dst") -> None:
        """Write undefined bits with their origins at storage positions of a destination."""
        ref = self.tile(name)
        shadow, address = shadow_of(ref)
        shadow.write(positions, words, origin_ids, ref.type.dtype, address)
        self.machine.wrote(self, name, positions, origin_ids)

    def put_bits(self, words: Array, origin_ids: Array) -> None:
        """Write undefined bits to the destination's valid region."""
        rows, cols = self.region
        self.write(words, origin_ids, storage.map_of(self.type())[:rows, :cols])

    def lose(self, reason: str, positions: Array, name: str = "dst") -> None:
        """Storage positions of a tile hold nothing that a program may rely on from here on."""
        shadow, address = shadow_of(self.tile(name))
        d, origin_ids = self.dtype(name), np.full(1, self.origin_of(reason), np.int32)
        shadow.write(positions, as_words(origin_ids, d), origin_ids, d, address)

    def define(self, region: tuple[int, int] | None = None, name: str = "dst") -> None:
        """A region is written with defined data."""
        rows, cols = region or self.valid(name)
        self.scatter(np.zeros((1, 1), np.int32), storage.map_of(self.type(name))[:rows, :cols], name)

    def sink(self, sink: Sink, name: str, origin_ids: Array) -> None:
        """Undefined lanes of an operand arrive where they matter."""
        if origin_ids.any():
            self.machine.findings.add(sink, self.op, self.shown(name), origin_ids)

    def marked(self, origin_ids: Array) -> MarkedStep:
        """The step with the origin of the first of some origin ids."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return MarkedStep(**values, origin_id=int(first_along(origin_ids.reshape(-1), 0)))

    def moved(self, *payload: str, **changes: Any) -> None:
        """Execute the interpreter's rule on the shadow of the operands it moves.

        ``changes`` replace fields of the step, so that constants among the data become zero.
        """
        _move(self, frozenset(payload), changes)


@dataclass(frozen=True)
class MarkedStep(ShadowStep):
    """A step whose results are written as words of undefined bits, all of one origin."""

    origin_id: int = field(kw_only=True)

    def scatter(self, words: Array, positions: Array, name: str = "dst") -> None:
        """Write words of undefined bits at storage positions of a destination."""
        self.write(words, np.where(words != 0, np.int32(self.origin_id), np.int32(0)), positions, name)


Rule: TypeAlias = Callable[[ShadowStep], None]
#: What computes the definedness of each instruction's results, by name.
SHADOW_RULES: dict[str, Rule] = {}


def shadow_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as what executes the named instructions on the shadow."""

    def register(function: Rule) -> Rule:
        for name in names:
            if name in SHADOW_RULES:
                raise RuntimeError(f"instruction {name} has two shadow rules")
            SHADOW_RULES[name] = function
        return function

    return register


def shadow_step(machine: ShadowState, execution: Execution, real: Step) -> ShadowStep:
    """The shadow of an instruction that is about to execute."""
    policy = replace(real.policy, flush_subnormals=False)
    return ShadowStep(
        policy,
        real.op,
        real.operands,
        real.attrs,
        real.form,
        real.memory,
        real=real,
        machine=machine,
        bound=execution.bound,
    )


# -- moves -------------------------------------------------------------------------------------------

_Write: TypeAlias = tuple[str, Array, Array]


@dataclass(frozen=True)
class _MoveStep(Step):
    """A step on a layer of the shadow: operands in ``payload`` give bytes of the layer, writes are kept."""

    payload: frozenset[str] = field(kw_only=True)
    layer: Callable[[Shadow], Array] = field(kw_only=True)
    machine: ShadowState = field(kw_only=True)
    writes: list[_Write] = field(kw_only=True)

    def gather(self, name: str, rows: Array, cols: Array) -> Array:
        if name in self.payload:
            return super().gather(name, rows, cols)
        return replace(self, policy=self.machine.policy).real_gather(name, rows, cols)

    def real_gather(self, name: str, rows: Array, cols: Array) -> Array:
        return super().gather(name, rows, cols)

    def cells(self, name: str, positions: Array) -> tuple[Array, Array, DType, int]:
        if name not in self.payload:
            return super().cells(name, positions)
        shadow, address = shadow_of(self.tile(name))
        return self.layer(shadow), positions, self.type(name).dtype, address

    def scalar(self, name: str, d: DType) -> Array:
        return np.zeros((1, 1), d.word)

    def scatter(self, words: Array, positions: Array, name: str = "dst") -> None:
        words, positions = np.broadcast_arrays(words, positions)
        self.writes.append((name, words.copy(), positions))


def _move(step: ShadowStep, payload: frozenset[str], changes: dict[str, Any]) -> None:
    def executed(layer: Callable[[Shadow], Array]) -> list[_Write]:
        writes: list[_Write] = []

        def memory(name: str) -> Array:
            return layer(step.machine.memory[name])

        # All-one bits outside the valid region are what an undefined lane is.
        move = _MoveStep(
            step.policy if step.machine.keeps_backing else replace(step.policy, out_of_region="ones"),
            step.op,
            step.operands,
            step.attrs,
            step.form,
            memory,
            payload=payload,
            layer=layer,
            machine=step.machine,
            writes=writes,
        )
        RULES[step.instruction.name](replace(move, **changes))
        return writes

    bits = executed(lambda shadow: shadow.bits)
    if not any(words.any() for _, words, _ in bits):
        for name, words, positions in bits:
            step.write(words, np.zeros(1, np.int32), positions, name)
        return
    small = _SmallIds(step)
    for (name, words, positions), (_, moved, _) in zip(bits, executed(small.layer), strict=True):
        step.write(words, np.where(words != 0, small.decoded(moved), 0), positions, name)


class _SmallIds:
    """Origin ids as numbers that fit into an element, for one move."""

    def __init__(self, step: ShadowStep) -> None:
        self._layers: dict[int, Array] = {}
        sizes = [step.type(n).dtype for n in step.operands if step.is_tile(n)]
        #: The largest of them; it stands for what is outside a valid region.
        self._limit = 15 if any(d.packed for d in sizes) else 255
        self._numbers: dict[int, int] = {}
        moved = [n for n in step.sources() if step.is_tile(n)]
        self._outside = step.outside(moved[0]) if moved else UNCLAIMED

    def layer(self, shadow: Shadow) -> Array:
        origins = self._layers.get(id(shadow))
        if origins is None:
            origin_ids = np.where(shadow.bits != 0, np.maximum(shadow.origins, 1), 0)
            small = {0: 0}
            for origin_id in np.unique(origin_ids).tolist():
                if origin_id:
                    count = len(self._numbers) + 1
                    number = count if count < self._limit else 1
                    small[origin_id] = self._numbers.setdefault(origin_id, number)
            ids = np.array(sorted(small))
            table = np.array([small[int(n)] for n in ids], np.uint8)
            origins = table[np.searchsorted(ids, origin_ids)]
            if self._limit == 15:
                origins = np.where(shadow.bits & 15 != 0, origins, 0) | np.where(
                    shadow.bits >> 4 != 0, origins << 4, 0
                )
            self._layers[id(shadow)] = origins = np.asarray(origins, np.uint8)
        return origins

    def decoded(self, words: Array) -> Array:
        """Origins of moved elements: that of the first byte that has one."""
        octets = np.ascontiguousarray(words)[..., None].view(np.uint8)
        at = (octets != 0).argmax(-1)
        small = np.take_along_axis(octets, at[..., None], -1)[..., 0]
        if self._limit == 15:
            small = np.where(small & 15 != 0, small & 15, small >> 4)
        table = np.full(256, self._outside, np.int32)
        table[0] = 1
        for origin_id, number in sorted(self._numbers.items(), reverse=True):
            table[number] = origin_id
        return table[small]


BY_ZERO = "division by zero"
TOO_FAR = "shift by the width of the type or more"


def lanewise(step: ShadowStep) -> None:
    """Every lane of the destination depends on the same lane of all sources."""
    step.put(step.all_sources())


def by_zero(step: ShadowStep, divisor: Array) -> Array:
    """Origin ids of integer lanes whose divisor, given as words, is zero."""
    if not step.is_integer():
        return np.zeros((1, 1), np.int32)
    zero = decode(divisor, step.dtype()) == 0
    return np.where(zero, np.int32(step.origin_of(BY_ZERO)), np.int32(0))


def divided(step: ShadowStep, divisor: str) -> None:
    """Integer lanes with a zero divisor are undefined."""
    step.put(first(step.all_sources(), by_zero(step, step.real.words(divisor))))


def shifted(step: ShadowStep, count: str) -> None:
    """Lanes are undefined where the count is none of the type's bits."""
    d = step.dtype()
    bits = decode(step.real.words(count), d)
    far = (bits < 0) | (bits >= d.bits)
    step.put(first(step.all_sources(), np.where(far, np.int32(step.origin_of(TOO_FAR)), np.int32(0))))


def conjunction(step: ShadowStep, *names: str) -> None:
    """A zero bit decides."""
    _bitwise(step, names, lambda word: word)


def disjunction(step: ShadowStep, *names: str) -> None:
    """A one bit decides."""
    _bitwise(step, names, lambda word: ~word)


def bit_by_bit(step: ShadowStep, *names: str) -> None:
    """A bit is undefined where the same bit of any operand is."""
    undefined = step.bits_over(names[0])
    for name in names[1:]:
        undefined = undefined | step.bits_over(name)
    step.put_bits(undefined, step.all_sources())


def _bitwise(step: ShadowStep, names: tuple[str, ...], passing: Callable[[Array], Array]) -> None:
    """``passing`` gives the bits of an operand that let the other one through."""
    a, b = (step.bits_over(n) for n in names)
    x, y = (passing(step.real.raw(n)) for n in names)
    step.put_bits((a & b) | (a & y) | (b & x), step.all_sources())
