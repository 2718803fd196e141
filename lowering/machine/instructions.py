"""Executing one instruction: its operands as arrays, its rule, its results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.interpreter import Execution, Pointer, Scalar, TileRef, View
from pto_jax.ir import DType, ScalarType, TileType
from pto_jax.isa.declare import Constraint, Operand
from pto_jax.profiles import ProfileName

from .. import scalars
from ..rules import MEMORY_RULES, RULES, VALUE, Context, GlobalMemory, Inputs, Lanes, MemoryRule, jitted
from ..words import from_words
from . import planning, tile_memory

if TYPE_CHECKING:
    from jaxtyping import Bool, Shaped

    from ..arrays import Word


@dataclass
class InstructionMachine(tile_memory.TileMemory):
    """Executes instructions on its memory.

    In a program traced as a whole the values of freshly written float32 tiles are kept besides their words,
    as XLA drops whichever of the two nobody reads.
    """

    def execute(self, execution: Execution) -> dict[str, Shaped[Array, "..."]]:
        """Execute an instruction and write its destinations; returns vectors outside tile memory by name.

        Raises NotExecutableError for an instruction without a rule.
        """
        name = execution.instruction.name
        if name in MEMORY_RULES:
            self._transfer(execution, MEMORY_RULES[name])
            return {}
        if name not in RULES:
            raise NotExecutableError(
                Diagnostic("error", "is not executed by this version", execution.op.span, name)
            )
        return self._compute(execution)

    def _transfer(self, e: Execution, rule: MemoryRule) -> None:
        """Execute an instruction between tiles and the buffer of a view."""
        view = next(o for o in e.operands.values() if isinstance(o, View))
        context = self.context(e)
        self._check(e)
        require = partial(self.require, e.op) if self.checks else None
        place = planning.key_of(e.op), view.buffer
        memory = GlobalMemory(
            view,
            self.buffers[view.buffer],
            require,
            self.constants.get(view.buffer),
            self.offsets.get(place),
            place in self.independent,
        )
        words = rule(context, self.inputs(e, context), memory)
        target = e.operands[e.instruction.destinations[0].name]
        if words is not None and isinstance(target, TileRef):
            self.write(target, words)
        elif words is not None:
            self.buffers[view.buffer] = words

    def _compute(self, e: Execution) -> dict[str, Shaped[Array, "..."]]:
        """Execute an instruction on tiles and scalars."""
        context = self.context(e)
        self._check(e)
        results = jitted(context)(self.inputs(e, context))
        for name, words in results.items():
            if name not in e.vectors and not name.startswith(VALUE):
                self.write(e.tile(name), words, results.get(VALUE + name))
        return {n: from_words(results[n], t.dtype.numpy) for n, t in e.vectors.items()}

    def inputs(self, e: Execution, context: Context) -> Inputs:
        """Lanes of the tiles and words of the scalars an instruction is given."""
        inputs: dict[str, Lanes | Word] = {}
        for name, operand in e.operands.items():
            if e.instruction.operand(name).role == "tmp" or isinstance(operand, View | Pointer):
                continue
            if isinstance(operand, TileRef):
                inputs[name] = self.lanes(operand)
            else:
                number = scalars.converted(operand, _written(e, name), context.dtype(name))
                inputs[name] = scalars.to_word(number, context.dtype(name))
        return inputs

    def _check(self, e: Execution) -> None:
        if not self.checks or self.rules is not None:
            return
        for c, broken in region_rules(e, self.semantics.profile.name):
            assert c.region is not None
            tiles = [(n, ref) for n in c.region.operands if isinstance(ref := e.operands.get(n), TileRef)]
            found = "valid regions " + ", ".join(f"{n} {{}}x{{}}" for n, _ in tiles)
            sizes = tuple(tile_memory.as_number(n) for _, ref in tiles for n in (ref.v_row, ref.v_col))
            flag = jnp.asarray(broken, bool)
            self.violations.append(tile_memory.Violation(e.op, c.rule, c.allowed, flag, found, sizes))

    def context(self, e: Execution) -> Context:
        """The static part of an execution: types with known valid sizes, attributes, form, sources covered.

        A source is covered where its valid region is known to contain the destination's.
        """
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


def _written(e: Execution, name: str) -> DType | None:
    """The type that the text gives a scalar operand, None where it gives none."""
    value = dict(zip(e.form, e.op.ins, strict=False)).get(name)
    return value.type.dtype if value is not None and isinstance(value.type, ScalarType) else None


def scalar_dtype(e: Execution, operand: Operand) -> DType:
    """Element type of a scalar operand: as the text gives it, for one that converts that of the tiles."""
    written = _written(e, operand.name)
    if written is not None and not operand.converts:
        return written
    reference = next(n for n in ("src", "src0", "base", "dst") if n in e.operands)
    return e.tile(reference).type.dtype


def region_rules(e: Execution, profile: ProfileName) -> list[tuple[Constraint, Bool[Array, ""] | bool]]:
    """Run-time rules on valid regions, and whether they are broken."""
    tiles = {n: ref for n, ref in e.operands.items() if isinstance(ref, TileRef)}
    sizes = {n: (ref.v_row, ref.v_col) for n, ref in tiles.items()}
    types = {n: ref.type for n, ref in tiles.items()}
    return [
        (c, c.region.broken(sizes, types))
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
