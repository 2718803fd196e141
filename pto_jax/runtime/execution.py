"""Execution of a kernel's program by the JAX executor: arguments to operands, memory to results.

A launch whose number of blocks depends on arguments is judged at the call. Warnings of the verifier are
issued once.
"""

import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from .. import ir, profiles
from ..analysis import entries, provenance
from ..analysis.entries import Argument
from ..analysis.provenance import GlobalTypes
from ..errors import Diagnostic, ExecutionError, PtoWarning, Span
from ..garbage import seldom_collected
from ..grids.judgement import Facts, judge
from ..interpreter import Operand, Pointer, Scope, TileRef, View, launch, memref_view
from ..ir import MemRefType, PartitionViewType, Program, ScalarType, TensorViewType
from ..isa import effects, queries
from ..lowering import (
    ACCESS_RULES,
    JaxMachine,
    Semantics,
    disjoint_parts,
    doubts,
    independent,
    inside,
    near,
    offsets,
    plan,
    platforms,
    spans,
    varying_axes,
)
from ..lowering.bits import from_words
from ..lowering.machine.program import ObservedMachine, Observer
from ..lowering.slicing import as_array, computed_before
from . import conversion, tiles
from .arguments import extents
from .state import Report, RuleLocation, State


class Executable(Protocol):
    """What is executed: a program with its entry, and the choices it is executed under."""

    @property
    def program(self) -> ir.Program:
        """The program with its functions."""

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


@seldom_collected()
def execute(
    kernel: Executable, mode: Mode, prepared: Mapping[str, Any], observer: Observer | None = None
) -> tuple[dict[str, Any], Report, State]:
    """Execute the program on a JAX machine; traced whole under jit, executed directly when eager."""
    if not _may_doubt(kernel, mode, prepared):
        return run_once(kernel, kernel.semantics, mode, prepared, observer)
    leaves, structure = jax.tree.flatten(dict(prepared))

    def run(doubting: bool, *leaves: Array) -> tuple[tuple[Array, ...], tuple[Report, State]]:
        semantics, again = replace(kernel.semantics, doubting=doubting), jax.tree.unflatten(structure, leaves)
        outputs, report, state = run_once(kernel, semantics, mode, again)
        return tuple(outputs[name] for name in kernel.outputs), (report, state)

    types = {a.name: a.type.dtype for a in kernel.arguments if isinstance(a.type, GlobalTypes)}
    of_results = [types[name] for name in kernel.outputs]
    outputs, (report, state) = doubts.settle(partial(run, False), partial(run, True), leaves, of_results)
    return dict(zip(kernel.outputs, outputs, strict=True)), report, state


def _may_doubt(kernel: Executable, mode: Mode, prepared: Mapping[str, Any]) -> bool:
    """Whether the program is executed as :mod:`..lowering.doubts` says."""
    exact = kernel.semantics.numerics == "exact" and kernel.semantics.subnormals == "keep"
    results = mode.whole and not mode.keep_state and kernel.outputs
    here = platforms.expected() == "cpu" and not _axes(prepared)
    return bool(exact and results and here) and doubts.applies(kernel.program)


def run_once(
    kernel: Executable,
    semantics: Semantics,
    mode: Mode,
    prepared: Mapping[str, Any],
    observer: Observer | None = None,
) -> tuple[dict[str, Any], Report, State]:
    """The program under some semantics: outputs by name, run-time rules, and the final state."""
    make = JaxMachine if observer is None else partial(ObservedMachine, observer=observer)
    machine = make(
        semantics,
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
        spans=spans(kernel.program, kernel.entry, kernel.grid),
        disjoint=lambda sizes: disjoint_parts(
            kernel.program, kernel.entry, kernel.grid, tuple(sorted(sizes.items()))
        ),
    )
    operands = [_bound(machine, mode, kernel, a, prepared.get(a.name)) for a in kernel.arguments]
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
    words, source = machine.buffers[name], prepared[name]
    if machine.semantics.numerics == "fast" and not machine.packed[name]:
        # Subnormal numbers may become zeros.
        return from_words(words, np.dtype(source.dtype)).reshape(source.shape)
    return contents(words, source, packed=machine.packed[name])


def contents(words: Array, source: Any, *, packed: bool) -> Array:
    """A buffer's raw words in the shape and type it came in."""
    if packed:
        words = words[0::2] | (words[1::2] << np.uint8(4))
    return as_array(words, np.dtype(source.dtype)).reshape(source.shape)


def _flat(value: Any, dtype: ir.DType) -> Array:
    """The raw words of an array, flat; XLA sees through conversions that no reshape stands between."""
    words: Array = conversion.to_words(jnp.reshape(value, -1), dtype)
    return words


def _bound(machine: JaxMachine, mode: Mode, kernel: Executable, argument: Argument, value: Any) -> Operand:
    """What an argument is in the program; no other one is computed from a buffer that is written."""
    name, constant = argument.name, argument.name not in kernel.outputs
    if constant or not mode.nested or value is None or not isinstance(argument.type, GlobalTypes):
        return _operand(machine, argument, value, constant)
    _operand(machine, argument, value, constant)
    passed = machine.buffers[name]
    operand = _operand(machine, argument, computed_before(value)[0], constant)
    machine.passed[name] = machine.buffers[name], passed
    return operand


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
        return None if value is None else jnp.asarray(value)
    assert isinstance(t, ir.ScalarType)
    # The number of a block is that of the launch where none is given.
    return None if value is None else conversion.opaque_scalar(value, t.dtype)


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


_VIEWS = (TensorViewType, PartitionViewType, MemRefType)
_NOTHING = Report((), (), ())
RULE = "launch"


class Launch(Protocol):
    """What is judged; ``launch_is_open`` where compiling could not decide."""

    @property
    def program(self) -> Program:
        """The program with its functions."""

    @property
    def entry(self) -> str:
        """The name of the function that is executed."""

    @property
    def grid(self) -> int:
        """The number of blocks."""

    @property
    def arguments(self) -> tuple[entries.Argument, ...]:
        """The arguments of the function, in order."""

    @property
    def launch_is_open(self) -> bool:
        """Whether the arguments decide if the blocks are those the program needs."""


def launched(kernel: Launch, prepared: Mapping[str, Any], check: bool) -> Report:
    """The rule that a launch has the blocks its program needs, as arguments decide it.

    With ``check`` their values count: of scalars that a transformation traces, by a callback. Without, only
    the shapes of arrays do, which are known wherever a kernel is traced, and a broken rule is an error: to
    follow a program for every new value of a scalar would cost more than many kernels do.
    """
    if not kernel.launch_is_open:
        return _NOTHING
    types = {a.name: a.type for a in kernel.arguments}
    shapes = {n: extents(prepared[n], t.dtype) for n, t in types.items() if isinstance(t, _VIEWS)}
    if not check:
        problem = _judged(kernel, Facts(extents=shapes)) if shapes else None
        if problem is not None:
            raise ExecutionError(problem)
        return _NOTHING
    scalars = {n: prepared[n] for n, t in types.items() if isinstance(t, ScalarType) and n in prepared}
    if any(isinstance(x, Tracer) for x in scalars.values()):
        return _called_back(kernel, scalars, shapes)
    arrays = {n: prepared[n] for n, t in types.items() if isinstance(t, provenance.GlobalTypes)}
    contents = {n: partial(jax.device_get, x) for n, x in arrays.items() if not isinstance(x, Tracer)}
    problem = _judged(kernel, Facts(_integers(kernel, scalars), shapes, contents))
    if problem is None:
        return _NOTHING
    return _report(problem.span, problem.message, jax.numpy.ones((), bool))


def _judged(kernel: Launch, facts: Facts) -> Diagnostic | None:
    return judge(kernel.program, kernel.entry, kernel.grid, facts).problem


def _integers(kernel: Launch, scalars: Mapping[str, Any]) -> dict[str, int]:
    integers = [
        a.name for a in kernel.arguments if isinstance(a.type, ScalarType) and not a.type.dtype.is_float
    ]
    return {n: int(jax.device_get(scalars[n])) for n in integers if n in scalars}


def _called_back(kernel: Launch, scalars: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> Report:
    """One flag for values that only execution has; the report cannot name them."""

    def broken(values: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        facts = Facts(_integers(kernel, values), shapes)
        return np.asarray(_judged(kernel, facts) is not None)

    shape = jax.eval_shape(lambda: jax.numpy.ones((), bool))
    flag = jax.pure_callback(broken, shape, dict(scalars), vmap_method="sequential")
    asked = next(op for op in kernel.program.walk() if effects.traits_of(op).launch == "block")
    blocks = f"{kernel.grid} block{'s' if kernel.grid > 1 else ''} (grid={kernel.grid})"
    allowed = f"{blocks} that write what the views declare; allowed: a grid that covers them"
    return _report(asked.span, allowed, flag)


def _report(span: Span | None, allowed: str, flag: jax.Array) -> Report:
    return Report((flag,), (RuleLocation(queries.GET_BLOCK_IDX, RULE, allowed, span),), ((),))


_LISTED = 5
_shown: set[tuple[object, ...]] = set()


def warn_once(key: tuple[object, ...], messages: Sequence[str | Diagnostic]) -> None:
    """Issue PtoWarnings at the line of the user's that led here, once per key and process.

    A finding in a Python file has its own line.
    """
    if key in _shown:
        return
    level = _users_level()
    for message in messages:
        span = message.span if isinstance(message, Diagnostic) else None
        if isinstance(message, Diagnostic) and span is not None and span.file.endswith(".py"):
            text = str(replace(message, span=None)).removeprefix("warning: ")
            warnings.warn_explicit(text, PtoWarning, span.file, span.line)
        else:
            warnings.warn(str(message), PtoWarning, stacklevel=level)
    # Where a filter makes an error of it, the next time is an error too.
    _shown.add(key)


def warn_of(findings: Sequence[Diagnostic], key: tuple[object, ...]) -> None:
    """The verifier's warnings about a program that is compiled, the first few of many."""
    lines: list[str | Diagnostic] = [*findings[:_LISTED]]
    if len(findings) > _LISTED:
        lines.append(f"{len(findings) - _LISTED} more warnings; pto.verify lists all")
    warn_once(key, lines)


def _users_level() -> int:
    """The stack level, for the caller's call of warn, of the first frame outside this package and JAX."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("pto_jax", "jax")
