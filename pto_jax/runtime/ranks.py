"""Kernels on several ranks: pure functions of arrays with a leading axis of ranks.

A compiled call is one trace of all ranks, blocks and cores. Signals and the numbers that say who meets whom
are known while it is traced, so the order of everything is static; what depends on data is executed by the
interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
from jax.core import Tracer

from .. import profiles
from ..analysis.entries import Argument
from ..errors import ArgumentError, NotExecutableError
from ..interpreter.interleaving import Interleaving
from ..interpreter.rank_calls import Part, RankCall, world_of
from ..interpreter.ranks import context, part
from ..ir import I64, DType, Op, PtrType, ScalarType, Type, short_list
from ..isa.effects import traits_of
from ..lowering import ACCESS_RULES, Plan, RankMachine, Semantics, Words, plan
from ..lowering.bits import x64
from ..lowering.canary import cached_code
from ..oracle.ranks import run_ranks
from . import arguments, conversion
from .execution import contents
from .state import PackedReport, Report

Engine: TypeAlias = Literal["compiled", "interpreter"]
ENGINES = ("compiled", "interpreter")
#: When asynchronous copies move their data: where they are issued, or where they are waited for.
Moves: TypeAlias = Literal["issue", "wait"]
#: Compiled functions of one kernel, by shapes and numbers.
MOST_COMPILED = 64


@dataclass(frozen=True, eq=False)
class RankKernel:
    """Programs on several ranks as one function; made by :func:`pto_jax.compile` with ``ranks``.

    ``calls`` are the kernels that every rank executes one after the other, None where all meet. A call takes
    one array [ranks, ...] per buffer and one number, or one per rank, for each scalar; it gives the buffers
    that were written. Scalars of several kernels are named ``kernel.scalar`` where they are not the same.

    >>> import numpy as np
    >>> import pto_jax as pto
    >>> from pto_jax.examples import EXAMPLES
    >>> kernel = pto.compile(pto.load(EXAMPLES["vector_add"].path), ranks=2)
    >>> a, b, c = np.ones((2, 4096), np.float32), np.ones((2, 4096), np.float32), np.zeros((2, 4096), np.float32)
    >>> kernel(a, b, c)["c"].shape
    (2, 4096)
    """

    calls: tuple[RankCall | None, ...]
    semantics: Semantics
    engine: Engine = "compiled"
    checks: bool | None = None
    max_steps: int = 1_000_000
    seed: int | None = None
    moves: Moves = "issue"
    _compiled: dict[Any, Any] = field(default_factory=dict, repr=False)

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
        found: dict[str, DType] = {}
        for call in self.kernels:
            found |= {n: d for n, d in call.numbers.items() if n not in found}
        return found

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """What a call takes, in order: the arguments of the first kernel, then what others add."""
        order: dict[str, Type | None] = {}
        for call in self.kernels:
            for a in call.function.args:
                binding = call.bindings.get(a.name)
                name = binding.buffer if isinstance(binding, Part) else a.name
                if name in self.buffers or (name in self.scalars and isinstance(a.type, ScalarType)):
                    order.setdefault(name, a.type)
        for name, d in self.buffers.items():
            order.setdefault(name, None if d is None else PtrType(d))
        return tuple(Argument(n, t or PtrType(I64), written=n in self.outputs) for n, t in order.items())

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The buffers that are written, in order."""
        return tuple(dict.fromkeys(n for call in self.kernels for n in call.outputs))

    def __repr__(self) -> str:
        names = " -> ".join("barrier" if c is None else c.entry for c in self.calls)
        taken = short_list([f"{a.name}: {a.type}" for a in self.arguments])
        return (
            f"<RankKernel {names}({taken}) -> ({short_list(self.outputs)}), ranks={self.ranks}, "
            f"profile={self.profile.name!r}, engine={self.engine!r}>"
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Execute all ranks; the written buffers by name, arrays [ranks, ...].

        With ``checks=True`` the pair of them and a report. ArgumentError for arguments that do not fit,
        DeadlockError where ranks wait for each other for ever, ExecutionError for accesses outside of a buffer
        or a window, NotExecutableError where the order of the ranks depends on data.
        """
        arrays, numbers = self._prepared(args, kwargs)
        if self.engine == "interpreter":
            outputs, report = self.interpreted(arrays, numbers), Report((), (), ())
        else:
            with x64(), cached_code():
                outputs, report = self._call(arrays, numbers)
        if self.checks:
            return outputs, report
        report.raise_if_broken()
        return outputs

    # -- arguments -----------------------------------------------------------------------------------

    def _prepared(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        names = [a.name for a in self.arguments]
        what = self.kernels[0].entry
        given = arguments.bound(what, names, (), args, kwargs)
        arrays = {n: self._array(what, n, given[n], d) for n, d in self.buffers.items()}
        numbers = {n: self._numbers(what, n, given[n], d) for n, d in self.scalars.items()}
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

    def _numbers(self, kernel: str, name: str, value: Any, d: DType) -> list[Any]:
        """A scalar of each rank: Python numbers of integers that are known."""
        what = f"{kernel}: argument {name!r}"
        if not isinstance(value, Tracer) and np.asarray(value).dtype.kind in "iub" and not d.is_float:
            # Numbers of ranks come as arrays of any integer type.
            value = np.asarray(value).tolist()
        if not np.ndim(value):
            values = [value] * self.ranks
        elif np.shape(value) == (self.ranks,):
            values = list(value)
        else:
            allowed = f"one number, or {self.ranks} numbers"
            raise ArgumentError(f"{what}: got shape {np.shape(value)}", allowed=allowed)
        found = [conversion.as_scalar(v, d, what) for v in values]
        if d.is_float or any(isinstance(v, Tracer) for v in found):
            return found
        return [bool(v) if d.bits == 1 else int(np.asarray(v)) for v in found]

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
        made = run_ranks(
            self.calls,
            {n: np.asarray(a) for n, a in arrays.items()},
            [{n: numbers[n] for n in call.numbers} for call in self.kernels],
            profile=self.profile,
            out_of_region=self.semantics.out_of_region,
            flush=self.semantics.subnormals == "flush",
            seed=self.seed,
            late=self.moves == "wait",
            max_steps=self.max_steps,
            **watching,
        )
        return {n: made[n] for n in self.outputs}

    # -- compiled ------------------------------------------------------------------------------------

    @cached_property
    def _signals(self) -> frozenset[str]:
        """The buffers whose integers ranks wait for: those of 32 bits that a signal may be in."""
        return frozenset().union(*map(_signals, self.kernels))

    def _call(
        self, arrays: Mapping[str, Any], numbers: Mapping[str, Sequence[Any]]
    ) -> tuple[dict[str, Any], Any]:
        known = {n: tuple(v) for n, v in numbers.items() if all(isinstance(x, int) for x in v)}
        traced = {n: list(v) for n, v in numbers.items() if n not in known}
        signals = {n: _words(arrays[n]) for n in self._signals}
        shapes = tuple((n, tuple(a.shape), str(a.dtype)) for n, a in arrays.items())
        key = shapes, tuple(known.items()), tuple((n, w.tobytes()) for n, w in signals.items())
        function = self._compiled.get(key)
        if function is None:
            if len(self._compiled) >= MOST_COMPILED:
                self._compiled.clear()
            function = self._compiled[key] = jax.jit(partial(self._trace, known, signals))
        made: tuple[dict[str, Any], PackedReport] = function(dict(arrays), traced)
        return {n: made[0][n] for n in self.outputs}, made[1]

    def _trace(
        self,
        known: Mapping[str, Sequence[int]],
        signals: Mapping[str, Any],
        arrays: Mapping[str, Any],
        traced: Mapping[str, Sequence[Any]],
    ) -> tuple[dict[str, Any], PackedReport]:
        """All ranks as one function of arrays."""
        world = world_of(self.kernels, late=self.moves == "wait")
        machine = RankMachine(
            self.semantics,
            Plan([], {}),
            {},
            checks=self.checks is not False,
            rules=None if self.checks else ACCESS_RULES,
            whole=True,
            max_steps=self.max_steps,
        )
        for name, d in self.buffers.items():
            for rank in range(self.ranks):
                own = part(name, rank)
                flat = conversion.to_words(arrays[name][rank].reshape(-1), d or _raw(arrays[name]))
                machine.bind_buffer(own, d or _raw(arrays[name]), flat, name not in self.outputs)
                if name in signals:
                    machine.words_of[own] = Words(signals[name][rank])
        for name in dict.fromkeys(n for call in self.kernels for n in call.records):
            for rank in range(self.ranks):
                words = np.array(context(rank, self.ranks), np.int64)
                machine.bind_buffer(part(name, rank), I64, jax.numpy.asarray(words.view(np.uint64)))
                machine.words_of[part(name, rank)] = Words(words, constant=True)
        machine.plan = _joined(self.kernels, self.profile)
        shapes = {
            n: arguments.extents(a[0], d or _raw(a)) for n, a in arrays.items() for d in [self.buffers[n]]
        }
        values = {**known, **traced}
        sequences = [
            [
                None if c is None else c.launch(r, shapes, {n: values[n] for n in c.numbers})
                for c in self.calls
            ]
            for r in range(self.ranks)
        ]
        Interleaving(world, machine, sequences).run()
        outputs = {name: self._gathered(machine, name, arrays[name]) for name in self.outputs}
        return outputs, PackedReport.of(Report.of(machine.violations))

    def _gathered(self, machine: RankMachine, name: str, source: Any) -> Any:
        """The parts of a buffer as one array in the shape it came in."""
        names = [part(name, rank) for rank in range(self.ranks)]
        parts = [contents(machine.buffers[n], source[0], packed=machine.packed[n]) for n in names]
        return jax.numpy.stack(parts)


def _raw(array: Any) -> DType:
    from ..ir import from_numpy

    return from_numpy(np.dtype(array.dtype))


def _words(array: Any) -> Any:
    """The integers of a buffer [ranks, elements]; zeros where nobody knows them yet."""
    if isinstance(array, Tracer):
        return np.zeros((array.shape[0], int(np.prod(array.shape[1:], dtype=np.int64))), np.int32)
    return np.asarray(array).reshape(array.shape[0], -1).view(np.int32)


def _signals(call: RankCall) -> frozenset[str]:
    """The buffers of 32-bit integers, where the program has a signal."""
    waits = any(_is_signal(op) for op in call.program.walk())
    return frozenset(n for n, d in call.buffers.items() if waits and d.is_integer and d.storage_bits == 32)


def _is_signal(op: Op) -> bool:
    order = traits_of(op).order
    return order is not None and order.through == "signal"


def _joined(calls: Sequence[RankCall], profile: profiles.Profile) -> Plan:
    """The cells of the tiles of all kernels: those of one where there is one."""
    (first, *more) = dict.fromkeys((call.program, call.entry, call.grid) for call in calls)
    assert not more
    return plan(first[0], first[1], profile, first[2])
