"""Kernels on several ranks: pure functions of arrays with a leading axis of ranks.

A compiled call is one trace of all ranks, blocks and cores. Signals and the numbers that say who meets whom
are known while it is traced, so the order of everything is static; what depends on data is executed by the
interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
from jax.core import Tracer

from .. import profiles
from ..analysis import entries
from ..analysis.entries import Argument
from ..errors import ArgumentError, is_number, short_list
from ..interpreter import steering
from ..interpreter.interleaving import Interleaving
from ..interpreter.operands import BLOCK_NUMBERS
from ..interpreter.rank_calls import Number, Part, RankCall, world_of
from ..interpreter.ranks import context, part
from ..ir import I64, DType, Program, PtrType, ScalarType, Type
from ..lowering import (
    ACCESS_RULES,
    Buffers,
    Plan,
    RankMachine,
    Semantics,
    Source,
    Words,
    plan,
    varying_axes,
)
from ..lowering.bits import x64
from ..lowering.canary import cached_code
from ..lowering.machine.program import Observer
from ..oracle.interpret import run_ranks
from ..schedules import rank_schedules, ranks
from ..schedules.ranks import RankReport
from . import arguments, conversion
from .debug import inspection
from .debug.inspection import Trace
from .execution import contents, warn_once
from .state import PackedReport, Report, State

Engine: TypeAlias = Literal["compiled", "interpreter"]
ENGINES = ("compiled", "interpreter")
#: When asynchronous copies move their data: where they are issued, or where they are waited for.
Moves: TypeAlias = Literal["issue", "wait"]
MOVES = ("issue", "wait")
#: How the pipes of one core are ordered in a verdict.
Sync: TypeAlias = Literal["auto", "as-written", "both"]
SYNC = ("auto", "as-written", "both")
#: Compiled functions of one kernel, by shapes and numbers.
MOST_COMPILED = 64


@dataclass(frozen=True, eq=False)
class RankKernel:
    """Programs on several ranks as one function; made by :func:`pto_jax.compile` with ``ranks``.

    ``calls`` are the kernels that every rank executes one after the other, None where all meet. A call takes
    one array [ranks, ...] per buffer and one number, or one per rank, for each scalar; it gives the buffers
    that were written.

    >>> import numpy as np
    >>> import pto_jax as pto
    >>> from pto_jax.examples import EXAMPLES
    >>> kernel = pto.compile(pto.load(EXAMPLES["vector_add"].path), ranks=2)
    >>> one, zero = np.ones((2, 4096), np.float32), np.zeros((2, 4096), np.float32)
    >>> kernel(one, one, zero)["z"].shape
    (2, 4096)
    """

    calls: tuple[RankCall | None, ...]
    semantics: Semantics
    engine: Engine = "compiled"
    checks: bool | None = None
    max_steps: int = 1_000_000
    seed: int | None = None
    moves: Moves = "issue"
    warn: bool = True
    #: The verdicts on calls, by what they depend on; the last one under None.
    _reports: dict[Any, RankReport] = field(default_factory=dict, repr=False)
    _compiled: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """ArgumentError for a keyword that has another value than those that are allowed."""
        for name, value, allowed in (("engine", self.engine, ENGINES), ("moves", self.moves, MOVES)):
            if value not in allowed:
                raise ArgumentError(f"{name}: got {value!r}", allowed=", ".join(allowed))
        if self.seed is not None and not is_number(self.seed, 0):
            raise ArgumentError(f"schedule: got {self.seed!r}", allowed="a seed, a number from 0")

    def require_static(self) -> None:
        """NotExecutableError where data decides the order of ranks that are to be compiled."""
        for call in self.kernels if self.engine == "compiled" else ():
            steering.require_static(call.program, call.function, call.grid, frozenset(call.records))

    @property
    def kernels(self) -> tuple[RankCall, ...]:
        """The kernels, without host barriers."""
        return tuple(call for call in self.calls if call is not None)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.kernels[0].ranks

    @property
    def profile(self) -> profiles.Profile:
        """The profile that the programs were verified for."""
        return self.semantics.profile

    @cached_property
    def buffers(self) -> dict[str, DType | None]:
        """The buffers of a call, in order; None for a window that no argument names."""
        types: dict[str, DType | None] = {}
        for call in self.kernels:
            types |= {n: d for n, d in call.buffers.items() if types.get(n) is None}
            for name in call.shared:
                types.setdefault(name, None)
        return types

    @cached_property
    def scalars(self) -> dict[str, DType]:
        """The scalars of a call, in order."""
        dtypes: dict[str, DType] = {}
        for call in self.kernels:
            dtypes |= {n: d for n, d in call.numbers.items() if n not in dtypes}
        return dtypes

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """What a call takes, in order: the arguments of the first kernel, then what others add."""
        order: dict[str, Type | None] = {}
        for call in self.kernels:
            for a in call.function.args:
                binding = call.bindings.get(a.name)
                if isinstance(binding, Part):
                    order.setdefault(binding.buffer, a.type)
                elif isinstance(binding, Number) and binding.values is None:
                    order.setdefault(binding.name, a.type)
        for name, d in self.buffers.items():
            order.setdefault(name, None if d is None else PtrType(d))
        return tuple(Argument(n, t or PtrType(I64), written=n in self.outputs) for n, t in order.items())

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The buffers that are written, in order."""
        return tuple(dict.fromkeys(n for call in self.kernels for n in call.outputs))

    def __repr__(self) -> str:
        names = " -> ".join("host barrier" if c is None else c.entry for c in self.calls)
        arguments = short_list([f"{a.name}: {a.type}" for a in self.arguments])
        return (
            f"<RankKernel {names}({arguments}) -> ({short_list(self.outputs)}), ranks={self.ranks}, "
            f"profile={self.profile.name!r}, engine={self.engine!r}>"
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Execute all ranks; the written buffers by name, arrays [ranks, ...].

        With ``checks=True`` also a :class:`RankReport`. ArgumentError for arguments that do not
        fit, DeadlockError where ranks wait for each other for ever, ExecutionError for accesses outside of a
        buffer or a window, NotExecutableError where the order of the ranks depends on data.
        """
        kind = self._kind(args, kwargs)
        results = self._again(kind, args, kwargs)
        if results is not None:
            results[1].raise_if_broken()
            return {n: results[0][n] for n in self.outputs}
        axis = self._axis(args, kwargs)
        if axis is not None:
            return self._on_mesh(axis, args, kwargs)
        arrays, numbers = self.prepared(args, kwargs)
        if self.engine == "interpreter":
            outputs = self.interpreted(arrays, numbers)
        else:
            with x64(), cached_code():
                outputs, broken = self._call(arrays, numbers, kind)
            broken.raise_if_broken()
        report = self._judged(kind, arrays, numbers)
        return (outputs, report) if self.checks else outputs

    @property
    def report(self) -> RankReport | None:
        """The verdict on the last call of another kind than those before; None before the first one."""
        return self._reports.get(None)

    def _judged(
        self, kind: Any, arrays: Mapping[str, Any], numbers: Mapping[str, Sequence[Any]]
    ) -> RankReport | None:
        """The verdict on a call, with a warning the first time; None where values are traced."""
        if kind is None or not (self.warn or self.checks):
            return None
        if kind not in self._reports:
            self._reports[kind] = self._reports[None] = self._judge(arrays, numbers, "auto")
            for finding in self._reports[kind].findings:
                warn_once((id(self), id(finding)), [f"schedule-dependent: {finding}"])
        return self._reports[kind]

    def _axis(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """The mesh axis of ranks that the arrays of a call vary over, under ``shard_map``."""
        parts = [x for x in (*args, *kwargs.values()) if isinstance(x, Tracer) and x.ndim]
        axes = frozenset[str]().union(*(varying_axes(x) for x in parts if x.shape[0] < self.ranks))
        sizes = {axis: jax.lax.axis_size(axis) for axis in axes}
        return next((axis for axis, size in sizes.items() if size > 1 and self.ranks % size == 0), None)

    def _on_mesh(self, axis: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The same under ``shard_map``: devices exchange their parts, and each keeps what is its own."""
        values = dict(zip(self._names, args, strict=False)) | dict(kwargs)
        lead = self.ranks // jax.lax.axis_size(axis)

        def whole(value: Any) -> Any:
            array = jax.numpy.asarray(value)
            own = axis in varying_axes(array) and array.ndim and array.shape[0] == lead
            return jax.lax.all_gather(array, axis, tiled=True) if own else value

        outputs = self(**{n: whole(v) for n, v in values.items()})
        results = outputs[0] if self.checks else outputs
        first = jax.lax.axis_index(axis) * lead
        slices = {n: jax.lax.dynamic_slice_in_dim(a, first, lead) for n, a in results.items()}
        return (slices, outputs[1]) if self.checks else slices

    def _again(self, kind: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The results of a call like an earlier one; None for another one."""
        compiled = self._compiled.get(kind) if kind is not None and not self.checks else None
        if compiled is None:
            return None
        values = {**dict(zip(self._names, args, strict=False)), **kwargs}
        with x64(), cached_code():
            return compiled({n: values[n] for n in self.buffers}, {})

    def _kind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a compiled function depends on: shapes, scalars, and signals; None where values are traced."""
        if len(args) + len(kwargs) != len(self._names):
            return None
        parts: list[Any] = []
        for name, value in (*zip(self._names, args, strict=False), *kwargs.items()):
            kind = type(value)
            if kind in (int, bool, float) and name in self.scalars:
                parts.append((name, value))
            elif kind is list and name in self.scalars and all(type(n) in (int, bool, float) for n in value):
                parts.append((name, tuple(value)))
            elif kind is np.ndarray or kind is conversion.device_array():
                signal = name in self.signals or name in self.scalars
                parts.append(
                    (name, value.shape, value.dtype, np.asarray(value).tobytes() if signal else None)
                )
            else:
                return None
        return tuple(parts)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments)

    # -- arguments -----------------------------------------------------------------------------------

    def prepared(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """The buffers and the scalars of a call by name, checked; ArgumentError where one does not fit."""
        names = [a.name for a in self.arguments]
        what = self.kernels[0].entry
        own = next((n for n in kwargs if n in BLOCK_NUMBERS and n not in names), None)
        if own is not None:
            raise arguments.of_every_block(what, own)
        bound = arguments.bound(what, names, (), args, kwargs)
        arrays = {n: self._array(what, n, bound[n], d) for n, d in self.buffers.items()}
        numbers = {
            n: numbers_of(f"{what}: argument {n!r}", bound[n], d, self.ranks) for n, d in self.scalars.items()
        }
        return arrays, numbers

    def _array(self, kernel: str, name: str, value: Any, d: DType | None) -> Any:
        what = f"{kernel}: argument {name!r}"
        array = value if d is None else conversion.as_array(value, d, what)
        array = np.asarray(array) if not hasattr(array, "shape") else array
        if not array.shape or array.shape[0] != self.ranks:
            shape = tuple(array.shape)
            allowed = f"a leading axis of {self.ranks} ranks"
            raise ArgumentError(
                f"{what}: got shape {shape}", allowed=allowed, fix=f"np.stack([...]) of {self.ranks} parts"
            )
        return array

    # -- the interpreter -----------------------------------------------------------------------------

    def interpreted(
        self, arrays: Mapping[str, Any], numbers: Mapping[str, Sequence[Any]], **watching: Any
    ) -> dict[str, Any]:
        """Execute in NumPy, in the order of the seed."""
        if any(isinstance(x, Tracer) for x in (*arrays.values(), *(n for v in numbers.values() for n in v))):
            raise ArgumentError(
                "engine='interpreter': got a traced value; allowed: arrays that are there",
                fix='engine="compiled"',
            )
        results = run_ranks(
            self.calls,
            {n: np.asarray(a) for n, a in arrays.items()},
            [{n: numbers[n] for n in call.numbers} for call in self.kernels],
            profile=self.profile,
            out_of_region=self.semantics.out_of_region,
            flush=self.semantics.subnormals == "flush",
            late=self.moves == "wait",
            max_steps=self.max_steps,
            **{"seed": self.seed, **watching},
        )
        return {n: results[n] for n in self.outputs}

    def judge(
        self, values: Mapping[str, Any], sync: Sync = "auto", *, schedules: int = 0, seed: int = 0
    ) -> RankReport:
        """The verdict on one call, from an execution by the interpreter in the order of the text.

        ``sync`` is "auto" (texts without flags: a tool orders the pipes of a core), "as-written" or "both".
        With ``schedules`` the ranks are executed in so many other legal orders, which ``seed`` chooses; the
        report's ``witness`` shows the bits that differ.

        >>> import numpy as np
        >>> import pto_jax as pto
        >>> from pto_jax.examples import EXAMPLES
        >>> kernel = pto.compile(pto.load(EXAMPLES["vector_add"].path), ranks=2)
        >>> one = np.ones((2, 4096), np.float32)
        >>> kernel.judge({"x": one, "y": one, "z": one}).exact
        True
        """
        if sync not in SYNC:
            raise ArgumentError(f"sync: got {sync!r}", allowed=", ".join(SYNC))
        for name, number in (("schedules", schedules), ("seed", seed)):
            if not is_number(number, 0):
                raise ArgumentError(f"{name}: got {number!r}", allowed="a number from 0")
        arrays, numbers = self.prepared((), values)
        report = self._judge(arrays, numbers, sync)
        if not schedules:
            return report
        witness = rank_schedules.witness(partial(self.interpreted, arrays, numbers), schedules, seed)
        return replace(report, witness=witness)

    def _judge(
        self, arrays: Mapping[str, Any], numbers: Mapping[str, Sequence[Any]], sync: Sync
    ) -> RankReport:
        execute = partial(replace(self, seed=None).interpreted, arrays, numbers)
        return ranks.judge(self.calls, execute, self.profile, sync)

    # -- compiled ------------------------------------------------------------------------------------

    @property
    def windows(self) -> frozenset[str]:
        """The buffers that ranks reach in each other."""
        return frozenset(name for call in self.kernels for name in call.shared)

    @cached_property
    def read(self) -> frozenset[str]:
        """The buffers that some rank reads."""
        return frozenset(self._names_of(lambda a: a.read))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The elements that buffers need, as far as the texts say it."""
        elements: dict[str, int] = {}
        for call in self.kernels:
            for a in entries.arguments(call.program, call.function):
                binding = call.bindings.get(a.name)
                if isinstance(binding, Part) and a.min_elements:
                    elements[binding.buffer] = max(elements.get(binding.buffer, 0), a.min_elements)
        return elements

    def _names_of(self, chosen: Callable[[Argument], bool]) -> Iterator[str]:
        for call in self.kernels:
            for a in entries.arguments(call.program, call.function):
                binding = call.bindings.get(a.name)
                if isinstance(binding, Part) and chosen(a):
                    yield binding.buffer

    @cached_property
    def signals(self) -> frozenset[str]:
        """The buffers that hold signals: their integers are known in a trace, or zeros at first."""
        return frozenset(name for call in self.kernels for name in _signals(call))

    def _call(
        self, arrays: Mapping[str, Any], numbers: Mapping[str, Sequence[Any]], kind: Any
    ) -> tuple[dict[str, Any], Any]:
        known = {n: tuple(v) for n, v in numbers.items() if all(isinstance(x, int) for x in v)}
        traced = {n: list(v) for n, v in numbers.items() if n not in known}
        signals = {n: _words(arrays[n]) for n in self.signals}
        assumed = sorted(n for n in self.signals if isinstance(arrays[n], Tracer))
        if assumed and self.warn:
            text = (
                f"{', '.join(assumed)}: got signals under a transformation, which hides their numbers; "
                "they count as zeros"
            )
            warn_once((id(self), "signals"), [text])
        shapes = tuple((n, tuple(a.shape), str(a.dtype)) for n, a in arrays.items())
        key = shapes, tuple(known.items()), tuple((n, w.tobytes()) for n, w in signals.items())
        function = self._compiled.get(key)
        if function is None:
            if len(self._compiled) >= MOST_COMPILED:
                self._compiled.clear()
            call = partial(self._trace, known, signals, frozenset(assumed))
            function = self._compiled[key] = jax.jit(partial(conversion.over_batches, call))
        made: tuple[dict[str, Any], PackedReport] = function(dict(arrays), traced)
        if kind is not None and not traced:
            self._compiled[kind] = function
        return {n: made[0][n] for n in self.outputs}, made[1]

    def _trace(
        self,
        known: Mapping[str, Sequence[int]],
        signals: Mapping[str, Any],
        assumed: frozenset[str],
        arrays: Mapping[str, Any],
        traced: Mapping[str, Sequence[Any]],
    ) -> tuple[dict[str, Any], PackedReport]:
        """All ranks as one function of arrays."""
        machine = RankMachine(
            self.semantics,
            Plan([], {}),
            Buffers(),
            checks=self.checks is not False,
            rules=None if self.checks else ACCESS_RULES,
            whole=True,
            max_steps=self.max_steps,
            assumed=frozenset(part(n, r) for n in assumed for r in range(self.ranks)),
        )
        self.execute(machine, arrays, {**known, **traced}, signals=signals)
        outputs = {name: self.gathered(machine, name, arrays[name]) for name in self.outputs}
        return outputs, PackedReport.of(Report.of(machine.violations))

    def execute(
        self,
        machine: RankMachine,
        arrays: Mapping[str, Any],
        values: Mapping[str, Sequence[Any]],
        seed: int | None = None,
        signals: Mapping[str, Any] | None = None,
    ) -> None:
        """Execute all ranks on a machine, in the order of the text or of a seed.

        ``signals`` has the integers of signals where arrays are traced.
        """
        machine.plans = {
            n: plan(c.program, c.entry, self.profile, c.grid)
            for n, c in enumerate(self.calls)
            if c is not None
        }
        known = {n: _words(arrays[n]) for n in self.signals} if signals is None else signals
        self._bind(machine, arrays, known)
        shapes = {
            n: arguments.extents(a[0], d or _raw(a)) for n, a in arrays.items() for d in [self.buffers[n]]
        }
        sequences = [
            [
                None if c is None else c.launch(r, shapes, {n: values[n] for n in c.numbers})
                for c in self.calls
            ]
            for r in range(self.ranks)
        ]
        world = world_of(self.kernels, late=self.moves == "wait")
        Interleaving(world, machine, sequences, seed).run()

    def _bind(self, machine: RankMachine, arrays: Mapping[str, Any], signals: Mapping[str, Any]) -> None:
        """Give a machine the parts of all buffers, and the context records."""
        for name, d in self.buffers.items():
            array, t = arrays[name], d or _raw(arrays[name])
            size = math.prod(array.shape[1:])
            source = Source(array.reshape(-1), partial(conversion.to_words, dtype=t))
            for rank in range(self.ranks):
                machine.bind_part(part(name, rank), t, source, rank * size, size)
                if name in signals:
                    machine.words_of[part(name, rank)] = Words(signals[name][rank])
        for name in dict.fromkeys(n for call in self.kernels for n in call.records):
            for rank in range(self.ranks):
                words = np.array(context(rank, self.ranks), np.int64)
                machine.bind_buffer(part(name, rank), I64, jax.numpy.asarray(words.view(np.uint64)))
                machine.words_of[part(name, rank)] = Words(words, constant=True)

    # -- instruction by instruction ------------------------------------------------------------------

    @cached_property
    def program(self) -> Program:
        """The functions of all kernels as one program, for what asks for lines."""
        programs = dict.fromkeys(call.program for call in self.kernels)
        functions = tuple(f for program in programs for f in program.functions)
        return replace(self.kernels[0].program, functions=functions)

    @property
    def entry(self) -> str:
        """What errors call the kernels."""
        return self.kernels[0].entry

    def observed(self, observer: Observer, /, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], State]:
        """Execute instruction by instruction, in the order of ``schedule``; an observer is told every step.

        The outputs by name, and the tiles of every core. Whatever the order depends on is known here.
        """
        return inspection.observed(self, observer, *self.prepared(args, kwargs))  # pyright: ignore[reportArgumentType]

    def trace(self, /, *args: Any, start: int = 1, limit: int = 1000, **kwargs: Any) -> Trace:
        """Execute instruction by instruction; the steps of all ranks, as :meth:`Kernel.trace` gives them.

        The core of a step says its rank.

        >>> import numpy as np
        >>> import pto_jax as pto
        >>> from pto_jax.examples import EXAMPLES
        >>> kernel = pto.compile(pto.load(EXAMPLES["vector_add"].path), ranks=2)
        >>> one, zero = np.ones((2, 4096), np.float32), np.zeros((2, 4096), np.float32)
        >>> kernel.trace(one, one, zero)[0].core
        'rank 0 (block 0)'
        """
        return inspection.trace(self, args, kwargs, start, limit)  # pyright: ignore[reportArgumentType]

    def gathered(self, machine: RankMachine, name: str, source: Any) -> Any:
        """The parts of a buffer as one array in the shape it came in."""
        names = [part(name, rank) for rank in range(self.ranks)]
        numbers = machine.numbers_of(names)
        if numbers is not None:
            return jax.numpy.asarray(numbers.view(source.dtype)).reshape(source.shape)
        if not machine.packed[names[0]]:
            return machine.parts.gathered(names, np.dtype(source.dtype)).reshape(source.shape)
        return jax.numpy.stack([contents(machine.buffers[n], source[0], packed=True) for n in names])


def numbers_of(what: str, value: Any, d: DType, ranks: int) -> list[Any]:
    """A scalar of each rank, as ``d`` holds it: Python numbers of integers that are known.

    ArgumentError for what is neither one number nor one for each rank.
    """
    if np.shape(value) not in ((), (ranks,)):
        raise ArgumentError(f"{what}: got shape {np.shape(value)}", allowed=f"one number, or {ranks} numbers")
    if not isinstance(value, Tracer) and not d.is_float and np.asarray(value).dtype.kind in "iub":
        # Integers may come as an array of any integer type.
        values = np.broadcast_to(value, ranks).tolist()
        for number in (min(values), max(values)):
            conversion.as_scalar(int(number), d, what)
        return [bool(n) for n in values] if d.bits == 1 else values
    numbers = [conversion.as_scalar(v, d, what) for v in (value if np.ndim(value) else [value] * ranks)]
    if d.is_float or any(isinstance(v, Tracer) for v in numbers):
        return numbers
    return [bool(v) if d.bits == 1 else int(np.asarray(v)) for v in numbers]


def with_numbers(call: RankCall, what: str, values: Mapping[str, Any]) -> RankCall:
    """The call with numbers in the place of scalars, which it then does not take."""
    types = {a.name: a.type for a in call.function.args if a.name in call.bindings}
    bindings = dict(call.bindings)
    for name, value in values.items():
        t = types.get(name)
        if not isinstance(t, ScalarType):
            names = ", ".join(n for n, other in types.items() if isinstance(other, ScalarType)) or "none"
            raise ArgumentError(f"{what}: got {name!r}", allowed=f"scalars of {call.entry}: {names}")
        numbers = numbers_of(f"{what}: scalar {name!r}", value, t.dtype, call.ranks)
        bindings[name] = Number(name, tuple(numbers))
    return replace(call, bindings=bindings)


def _raw(array: Any) -> DType:
    from ..ir import from_numpy

    return from_numpy(np.dtype(array.dtype))


def _words(array: Any) -> Any:
    """The integers of a buffer [ranks, elements]; zeros where nobody knows them yet."""
    if isinstance(array, Tracer):
        return np.zeros((array.shape[0], int(np.prod(array.shape[1:], dtype=np.int64))), np.int32)
    return np.asarray(array).reshape(array.shape[0], -1).view(np.int32)


def _signals(call: RankCall) -> Iterator[str]:
    """The buffers that hold signals."""
    for name in steering.signals(call.program, call.function):
        binding = call.bindings.get(name)
        if isinstance(binding, Part):
            yield binding.buffer
