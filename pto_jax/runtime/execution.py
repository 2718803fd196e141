"""Executing a kernel's program on a JAX machine: arguments to operands, memory to results."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import ir, profiles
from ..analysis.entries import Argument
from ..analysis.provenance import GlobalTypes
from ..interpreter import Operand, Pointer, Scope, TileRef, View, launch, memref_view
from ..lowering import (
    ACCESS_RULES,
    JaxMachine,
    Semantics,
    disjoint_parts,
    independent,
    inside,
    near,
    offsets,
    plan,
    varying_axes,
)
from ..lowering.machine.observed import ObservedMachine, Observer
from ..lowering.slicing import computed_before
from ..lowering.words import from_words
from . import conversion, tiles
from .arguments import extents
from .state import Report, State


class Executable(Protocol):
    """What is executed: a program with its entry, and the choices it is executed under."""

    @property
    def program(self) -> ir.Program:
        """The program, with all ir."""

    @property
    def entry(self) -> str:
        """Name of the function that is executed."""

    @property
    def function(self) -> ir.Function:
        """That function."""

    @property
    def profile(self) -> profiles.Profile:
        """The hardware profile."""

    @property
    def semantics(self) -> Semantics:
        """Numerics, fills and subnormals."""

    @property
    def grid(self) -> int:
        """How many blocks are executed."""

    @property
    def max_steps(self) -> int:
        """Trips after which a while loop is stopped."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What the function takes."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what is returned."""


#: Which run-time rules are followed: none, those on accesses, all.
Check: TypeAlias = Literal["nothing", "accesses", "all"]


@dataclass(frozen=True)
class Mode:
    """How a program is executed: with run-time rules, keeping the final state, traced as a whole.

    ``nested``: traced inside another function, where an argument may be computed from another one.
    """

    check: Check
    keep_state: bool
    whole: bool
    nested: bool = False


def execute(
    kernel: Executable, mode: Mode, prepared: Mapping[str, Any], observer: Observer | None = None
) -> tuple[dict[str, Any], Report, State]:
    """Execute the program on a JAX machine; traced whole under jit, executed directly when eager."""
    make = JaxMachine if observer is None else partial(ObservedMachine, observer=observer)
    machine = make(
        kernel.semantics,
        plan(kernel.program, kernel.entry, kernel.profile, kernel.grid),
        {},
        checks=mode.check != "nothing",
        rules=ACCESS_RULES if mode.check == "accesses" else None,
        whole=mode.whole,
        max_steps=kernel.max_steps,
        axes=_axes(prepared),
        near=near(kernel.program, kernel.entry, kernel.grid),
        inside=inside(kernel.program, kernel.entry, kernel.grid),
        offsets=offsets(kernel.program, kernel.entry, kernel.grid),
        independent=independent(kernel.program, kernel.entry, kernel.grid),
        disjoint=lambda sizes: disjoint_parts(
            kernel.program, kernel.entry, kernel.grid, tuple(sorted(sizes.items()))
        ),
    )
    operands = [
        _operand(machine, a, _apart(mode, kernel, a, prepared.get(a.name)), a.name not in kernel.outputs)
        for a in kernel.arguments
    ]
    scope = Scope()
    returned = launch(kernel.program, machine, kernel.function, operands, scope, kernel.grid)
    report = Report.of(machine.violations)
    state = State.of(machine, scope) if mode.keep_state else State({}, {})
    if kernel.program.fragment:
        results = zip(kernel.outputs, returned, strict=True)
        return {n: _result(machine, prepared, value) for n, value in results}, report, state
    outputs = {name: _buffer(machine, prepared, name) for name in kernel.outputs}
    return outputs, report, state


def _axes(prepared: Mapping[str, Any]) -> frozenset[str]:
    """The mesh axes that some argument varies over."""
    return frozenset().union(*(varying_axes(x) for x in jax.tree.leaves(dict(prepared))))


def _buffer(machine: JaxMachine, prepared: Mapping[str, Any], name: str) -> Array:
    """A buffer's contents in the shape and type it came in."""
    source, words = prepared[name], machine.buffers[name]
    if machine.packed[name]:
        words = words[0::2] | (words[1::2] << np.uint8(4))
    return from_words(words, np.dtype(source.dtype)).reshape(source.shape)


def _flat(value: Any, dtype: ir.DType) -> Array:
    """The raw words of an array, flat; XLA sees through conversions that no reshape stands between."""
    words: Array = conversion.to_words(jnp.reshape(value, -1), dtype)
    return words


def _apart(mode: Mode, kernel: Executable, argument: Argument, value: Any) -> Any:
    """An argument's value; of a buffer that is written, one that no other argument is computed from."""
    written = argument.name in kernel.outputs and isinstance(argument.type, GlobalTypes)
    return computed_before(value)[0] if written and mode.nested and value is not None else value


def _operand(machine: JaxMachine, argument: Argument, value: Any, constant: bool) -> Operand:
    t = argument.type
    if isinstance(t, ir.MemRefType):
        machine.bind_buffer(argument.name, t.dtype, _flat(value, t.dtype), constant)
        return memref_view(argument.name, t, extents(value, t.dtype))
    if isinstance(t, ir.PtrType):
        machine.bind_buffer(argument.name, t.dtype, _flat(value, t.dtype), constant)
        return Pointer(argument.name, t.dtype)
    if isinstance(t, ir.TensorViewType | ir.PartitionViewType):
        machine.bind_buffer(argument.name, t.dtype, _flat(value, t.dtype), constant)
        shape = extents(value, t.dtype)
        strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        return View(argument.name, t.dtype, 0, shape, strides)
    if isinstance(t, ir.TileType):
        if value is None:
            slot = machine.blank(argument.name, t)
            return TileRef(t, slot, _or(t.v_row, t.rows), _or(t.v_col, t.cols))
        slot = machine.adopt(argument.name, t, value.words)
        ref = TileRef(t, slot, value.valid_rows, value.valid_cols)
        machine.region(ir.Op(f"argument %{argument.name}"), ref)
        return ref
    if isinstance(t, ir.VectorType):
        return value
    assert isinstance(t, ir.ScalarType)
    return conversion.opaque_scalar(value, t.dtype)


def _or(size: int | None, otherwise: int) -> int:
    return otherwise if size is None else size


def _result(machine: JaxMachine, prepared: Mapping[str, Any], ref: Operand) -> Any:
    """A fragment's result: a Tile, a vector, or the buffer behind a written view."""
    if isinstance(ref, View | Pointer):
        return _buffer(machine, prepared, ref.buffer)
    if isinstance(ref, Array):
        return ref
    assert isinstance(ref, TileRef)
    return tiles.Tile.of(machine.words(ref), ref)
