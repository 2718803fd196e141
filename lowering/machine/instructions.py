"""Executing one instruction: its operands as arrays, its rule, its results."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.interpreter import Execution, Pointer, Scalar, TileRef, View
from pto_jax.ir.dtypes import DType
from pto_jax.ir.types import Coalesce, ScalarType, TileType
from pto_jax.isa.declare import Operand
from pto_jax.isa.rules.memory_indexed import coalescing
from pto_jax.profiles import ProfileName

from .. import memory, memory_indexed, region, scalars
from ..rules import RULES, VALUE, Context, Inputs, Lanes, jitted
from ..words import from_words
from .tile_memory import TileMemory, Violation


@dataclass
class InstructionMachine(TileMemory):
    """Executes instructions on its memory.

    In a program traced as a whole the values of freshly written float32 tiles are kept besides their words,
    as XLA drops whichever of the two nobody reads.
    """

    def execute(self, execution: Execution) -> dict[str, Array]:
        if execution.instruction.name == "tload":
            self._tload(execution)
        elif execution.instruction.name == "tprefetch":
            self._tprefetch(execution)
        elif execution.instruction.name in ("tstore", "tstore_fp"):
            self._tstore(execution)
        elif execution.instruction.name == "mgather":
            self._mgather(execution)
        elif execution.instruction.name == "mscatter":
            self._mscatter(execution)
        else:
            return self._compute(execution)
        return {}

    def _tload(self, e: Execution) -> None:
        ref, view = e.tile("dst"), e.operands["src"]
        assert isinstance(view, View)
        lanes, buffer = self.lanes(ref), self.buffers[view.buffer]
        self._in_bounds(e, "dst", lanes, view, buffer)
        self.write(ref, memory.tload(self.context(e), lanes, view, buffer))

    def _tprefetch(self, e: Execution) -> None:
        ref, view = e.tile("dst"), e.operands["src"]
        assert isinstance(view, View)
        if self.semantics.profile.name == "cpu_sim":
            context, lanes = self.context(e), self.lanes(ref)
            self.write(ref, memory.tprefetch(context, lanes, view, self.buffers[view.buffer]))

    def _tstore(self, e: Execution) -> None:
        ref, view = e.tile("src"), e.operands["dst"]
        assert isinstance(view, View)
        old, context = self.buffers[view.buffer], self.context(e)
        self._in_bounds(e, "src", self.lanes(ref), view, old)
        self.buffers[view.buffer] = memory.tstore(context, self.inputs(e, context), view, old)

    def _mgather(self, e: Execution) -> None:
        view, context = e.operands["src"], self.context(e)
        assert isinstance(view, View)
        inputs, buffer = self.inputs(e, context), self.buffers[view.buffer]
        at = memory_indexed.places(context, inputs, view, "dst", self._picked(e, "dst"))
        self._in_buffer(e, at, view, buffer)
        self.write(e.tile("dst"), memory_indexed.mgather(context, inputs, at, buffer))

    def _mscatter(self, e: Execution) -> None:
        view, context, pick = e.operands["dst"], self.context(e), self._picked(e, "src")
        assert isinstance(view, View)
        inputs, buffer = self.inputs(e, context), self.buffers[view.buffer]
        at = memory_indexed.places(context, inputs, view, "src", pick)
        self._in_buffer(e, at, view, buffer)
        self.buffers[view.buffer] = memory_indexed.mscatter(context, inputs, at, pick, buffer)

    def _picked(self, e: Execution, data: str) -> Coalesce:
        return coalescing(e.attrs, self.semantics.profile.name, e.tile("indexes").type, e.tile(data).type)

    def _in_buffer(self, e: Execution, at: memory_indexed.Places, view: View, buffer: Array) -> None:
        if self.checks:
            self._check(e)
            allowed = f"elements inside the buffer of {buffer.shape[0]} elements"
            self._require_elements(e, view, buffer, allowed, *at.reach())

    def _in_bounds(self, e: Execution, tile: str, lanes: Lanes, view: View, buffer: Array) -> None:
        """The run-time rules on a transfer: its window has the lanes, and the buffer the elements."""
        if not self.checks:
            return
        context = self.context(e)
        t, window = context.tile(tile), memory.window_of(context, view, tile)
        if memory.is_inside(t, window, buffer):
            return
        allowed = f"transfers inside the window and the buffer of {buffer.shape[0]} elements"
        lanes_of = (*region.sizes(t, lanes), *window.lanes())
        exceeded = memory.exceeded(t, lanes, window)
        self.require(e.op, "in-bounds", allowed, exceeded, "{}x{} lanes for a window of {}x{}", lanes_of)
        self._require_elements(e, view, buffer, allowed, *memory.transferred(t, lanes, window))

    def _require_elements(
        self, e: Execution, view: View, buffer: Array, allowed: str, first: Array, last: Array
    ) -> None:
        outside = (first < np.int64(0)) | (last >= np.int64(buffer.shape[0]))
        found = f"elements {{}} to {{}} of {view.buffer}"
        self.require(e.op, "in-bounds", allowed, (first <= last) & outside, found, (first, last))

    def _compute(self, e: Execution) -> dict[str, Array]:
        if e.instruction.name not in RULES:
            raise NotExecutableError(
                Diagnostic("error", "is not executed by this version", e.op.span, e.instruction.name)
            )
        context = self.context(e)
        if self.checks:
            self._check(e)
        results = jitted(context)(self.inputs(e, context))
        for name, words in results.items():
            if name not in e.vectors and not name.startswith(VALUE):
                self.write(e.tile(name), words, results.get(VALUE + name))
        return {n: from_words(results[n], t.dtype.numpy) for n, t in e.vectors.items()}

    def inputs(self, e: Execution, context: Context) -> Inputs:
        """Lanes of the tiles and words of the scalars an instruction is given."""
        inputs: dict[str, Lanes | Array] = {}
        for name, operand in e.operands.items():
            if e.instruction.operand(name).role == "tmp" or isinstance(operand, View | Pointer):
                continue
            if isinstance(operand, TileRef):
                inputs[name] = self.lanes(operand)
            else:
                inputs[name] = scalars.to_word(operand, context.dtype(name))
        return inputs

    def _check(self, e: Execution) -> None:
        for rule, allowed, broken in region_rules(e, self.semantics.profile.name):
            self.violations.append(Violation(e.op, rule, allowed, jnp.asarray(broken, bool)))

    def context(self, e: Execution) -> Context:
        types: list[tuple[str, TileType | ScalarType]] = []
        for name, operand in e.operands.items():
            declared = e.instruction.operand(name)
            if isinstance(operand, TileRef):
                types.append((name, operand.type.with_valid(_static(operand.v_row), _static(operand.v_col))))
            elif not isinstance(operand, View | Pointer):
                types.append((name, ScalarType(scalar_dtype(e, declared))))
        return Context(
            e.instruction.name,
            tuple(types),
            tuple(sorted(e.attrs.items(), key=lambda kv: kv[0])),
            e.form,
            self.semantics,
            frozenset(_covered(e)),
            self.whole,
        )


def scalar_dtype(e: Execution, operand: Operand) -> DType:
    """Element type of a scalar operand: as the text gives it."""
    value = dict(zip(e.form, e.op.ins, strict=False)).get(operand.name)
    if value is not None and isinstance(value.type, ScalarType):
        return value.type.dtype
    reference = next(n for n in ("src", "src0", "base", "dst") if n in e.operands)
    return e.tile(reference).type.dtype


def region_rules(e: Execution, profile: ProfileName) -> list[tuple[str, str, Array | bool]]:
    """Run-time rules on valid regions: (rule, what is allowed, broken?)."""
    tiles = {n: ref for n, ref in e.operands.items() if isinstance(ref, TileRef)}
    sizes = {n: (ref.v_row, ref.v_col) for n, ref in tiles.items()}
    types = {n: ref.type for n, ref in tiles.items()}
    return [
        (c.rule, c.allowed, c.region.broken(sizes, types))
        for c in e.instruction.constraints
        if c.severity == "error" and profile in c.profiles and c.region is not None
        if c.region.applies(sizes)
    ]


def _static(size: Scalar) -> int | None:
    return int(size) if isinstance(size, int | np.integer) else None


def _contains(outer: Scalar, extent: int, inner: Scalar) -> bool:
    if outer is inner:
        return True
    if not isinstance(outer, int):
        return False
    return outer >= extent or (isinstance(inner, int) and outer >= inner)


def _covered(e: Execution) -> list[str]:
    """Sources whose valid region is known to contain the one the instruction iterates over."""
    domain = e.instruction.domain if e.instruction.domain in e.operands else "dst"
    over = e.operands.get(domain)
    if not isinstance(over, TileRef):
        return []
    names = []
    for name, ref in e.operands.items():
        if not isinstance(ref, TileRef):
            continue
        rows = _contains(ref.v_row, over.type.rows, over.v_row)
        if rows and _contains(ref.v_col, over.type.cols, over.v_col):
            names.append(name)
    return names
