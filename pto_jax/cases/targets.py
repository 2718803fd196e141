"""Executors of cases: this engine in its modes, the interpreter, the sanitizer, and their outcomes.

The interpreter also runs in another process, with another hash seed, another address space and other cases
before, where a case must give the same bits.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from numpy.typing import NDArray

from .. import errors, ir, oracle, profiles
from ..analysis.provenance import GlobalTypes
from ..analysis.resolve import resolve
from ..analysis.roots import is_as_written
from ..errors import DeadlockError, Diagnostic, NotExecutableError, PtoError, UndefinedDataError
from ..extension import load_from_environment
from ..files.terminal import uninterrupted
from ..generate.programs import GENERATED, Case
from ..generate.state import Input
from ..ir import (
    DType,
    MemRefType,
    PartitionViewType,
    PtrType,
    ScalarType,
    TensorViewType,
    TileType,
    VectorType,
    pack_pairs,
    unpack_pairs,
)
from ..lowering.bits import x64
from ..lowering.numerics import Numerics
from ..oracle.machine import ReferenceMachine
from ..oracle.step import Policy
from ..order import judged_program
from ..profiles import Profile, ProfileName, profile as find_profile
from ..runtime import kernel as engine, state, tiles
from ..runtime.debug.tracer import Observers
from ..runtime.ranks import RankKernel
from ..sanitizer.sanitize import sanitize, shadowed
from ..schedules import races, rank_schedules
from ..schedules.machine import Schedule, ScheduledMachine
from ..vectors import compare, manifest
from .code import Code, executed

Words = NDArray[Any]
Buffer: TypeAlias = PtrType | MemRefType | PartitionViewType | TensorViewType
#: The bound of results that follow from inexact ones: their elements are not compared.
UNBOUNDED = -1


@dataclass(frozen=True, eq=False)
class Output:
    """One result: raw words, one per element (4-bit elements too), and a tile's valid sizes."""

    dtype: DType
    words: Words
    valid: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """The results of one case by name, the run-time rules that were found broken, what a device said.

    ``others`` are cases that were executed at the same time, each with its own results.
    """

    outputs: Mapping[str, Output]
    problems: tuple[str, ...] = ()
    log: str = ""
    others: tuple[tuple[Case, Run], ...] = ()


@dataclass(frozen=True)
class Mismatch:
    """An output on which two machines differ: what was found, element by element where it has elements."""

    output: str
    message: str
    comparison: compare.Comparison | None = None


def type_of(case: Case, name: str) -> Buffer | VectorType:
    """Type of a result that is no tile: a vector, or a buffer that is an argument."""
    argument = case.inputs.get(name)
    results = (v.type for op in case.program.walk() for v in op.results if v.name == name)
    t = next(results) if argument is None else argument.type
    assert isinstance(t, PtrType | MemRefType | PartitionViewType | TensorViewType | VectorType)
    return t


def mismatch(case: Case, name: str, output: Output | None, reference: Output, by: str) -> Mismatch | None:
    """How a result differs from the wanted one, which a machine called ``by`` gave; None when it is equal.

    NaNs are equal to each other; results with an ULP bound may differ by it.
    """
    if output is None:
        return Mismatch(name, f"{name}: no such output, {by} has one")
    if output.valid != reference.valid:
        return Mismatch(name, f"{name}: valid region {output.valid}, {by}: {reference.valid}")
    if output.words.shape != reference.words.shape:
        return Mismatch(name, f"{name}: shape {output.words.shape}, {by}: {reference.words.shape}")
    bound = case.ulp.get(name, 0)
    if bound == UNBOUNDED or np.array_equal(output.words, reference.words):
        return None
    rule = manifest.Rule(bound)
    comparison = compare.compare_words(name, reference.dtype, reference.words, output.words, rule)
    if comparison.equal:
        return None
    first = comparison.first
    if first is None:
        return Mismatch(name, f"{name}: {comparison.reason}", comparison)
    at = tuple(int(i) for i in np.unravel_index(first.index, reference.words.shape))
    expected, actual = first.bits
    count = f"{comparison.different} of {comparison.elements} elements differ"
    return Mismatch(name, f"{name}: {count}, first {at}: {actual}, {by}: {expected}", comparison)


#: ``eager``: operation by operation; ``jit``: compiled.
Mode = Literal["eager", "jit"]
#: Calls of a batch.
LANES = 3


class Target(Protocol):
    """Something that executes cases. Their grids may be parts of launches: all machines execute the same.

    ``run`` gives the results, or raises NotExecutableError for what the machine cannot execute,
    ExecutionError where the program breaks a run-time rule; any other exception is a finding about it.
    """

    @property
    def name(self) -> str:
        """The name of the machine in messages."""

    def run(self, case: Case) -> Run:
        """The results of a case, or an exception as the class says."""


def follows_profile(machine: Target) -> bool:
    """Whether undefined memory and NaNs hold what the profile says, as on all machines of this package.

    Devices choose by themselves.
    """
    return getattr(machine, "follows", False)


def executes_ranks(machine: Target) -> bool:
    """Whether a machine executes cases for several processors."""
    return getattr(machine, "on_ranks", False)


@runtime_checkable
class BatchTarget(Target, Protocol):
    """A machine that is faster with many cases at once; what ``run`` would raise stands in the list."""

    def run_all(self, cases: Sequence[Case]) -> list[Run | Exception]:
        """The results of each case, or its exception, in order."""

    def run(self, case: Case) -> Run:
        """The results of one case."""
        (result,) = self.run_all([case])
        if isinstance(result, Exception):
            raise result
        return result


@dataclass(frozen=True)
class Oracle:
    """The reference interpreter, on the case's profile or another one; ``machine`` makes what executes."""

    profile: profiles.ProfileName | None = None
    machine: Callable[..., ReferenceMachine] = ReferenceMachine
    follows: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name of the machine, with its profile where it has one of its own."""
        return "interpreter" if self.profile is None else f"interpreter:{self.profile}"

    def run(self, case: Case) -> Run:
        """The results of the interpreter."""
        if case.ranks is not None:
            return on_ranks(case, _interpreter(case, self.profile)(machine=self.machine))
        arguments, profile = interpreter_arguments(case), self.profile or case.profile
        results = oracle.run(
            case.program,
            arguments,
            profile=profile,
            entry=case.entry,
            grid=case.grid,
            partial_launch=True,
            machine=self.machine,
        )
        return Run(interpreter_outputs(case, results))


@dataclass(frozen=True)
class Engine:
    """The engine in one mode, on the case's profile or another one; ``code`` is for compiled ones."""

    mode: Mode = "eager"
    profile: profiles.ProfileName | None = None
    numerics: Numerics = "exact"
    code: Code = "optimised"
    follows: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The mode, and the profile and numerics where they are not those of the case."""
        parts = [self.mode, self.profile, self.numerics if self.numerics != "exact" else None]
        return "engine:" + ":".join(p for p in [*parts, *_named(self.code)] if p)

    def run(self, case: Case) -> Run:
        """The results of the engine, with run-time rules checked."""
        if case.ranks is not None:
            eager = self.mode == "eager"
            return on_ranks(case, compiled(case, self.profile, self.numerics, eager=eager))
        kernel = _checked(case, self.profile, self.numerics)
        arguments = {name: for_engine(i) for name, i in case.inputs.items()}
        if self.mode == "eager":
            outputs, report, _ = kernel._run((), arguments, jit=False)
        elif self.code == "optimised":
            outputs, report = kernel(**arguments)
        else:
            with x64():
                outputs, report = executed(self.code, lambda values: kernel(**values), arguments)
        return of_engine(case, outputs, report)


def _named(code: Code) -> tuple[str, ...]:
    return () if code == "optimised" else (code,)


def _checked(case: Case, profile: profiles.ProfileName | None, numerics: Numerics = "exact") -> engine.Kernel:
    """A case's program, compiled so that run-time rules are checked."""
    return engine.compile(
        case.program,
        profile or case.profile,
        case.entry,
        numerics=numerics,
        checks=True,
        grid=case.grid,
        warn=False,
        partial_launch=True,
    )


@dataclass(frozen=True)
class Batched:
    """The engine compiled for a batch of three calls: the case's own data in one, other data beside it.

    The other calls are cases of their own, compared as this one. Numbers are the same in all calls. In half
    of the cases the batch has them once, so that both forms of offsets are compiled.
    """

    profile: profiles.ProfileName | None = None
    code: Code = "optimised"

    @property
    def name(self) -> str:
        """The mode, the profile where it is not that of the case, and whether nothing is optimised."""
        return ":".join(["engine:vmap", *filter(None, [self.profile]), *_named(self.code)])

    def run(self, case: Case) -> Run:
        """The results of all calls, with run-time rules checked."""
        kernel, number = _checked(case, self.profile), int(case.id or "0", 16)
        own, shared = number % LANES, number // LANES % 2 == 1
        scalars = {n for n, i in case.inputs.items() if isinstance(i.type, ScalarType)}
        axes = {
            n: None if shared and n in scalars and len(scalars) < len(case.inputs) else 0 for n in case.inputs
        }
        calls = [_with_data(case, (lane - own) % LANES) for lane in range(LANES)]
        lanes = [{n: for_engine(i) for n, i in call.inputs.items()} for call in calls]
        with x64():
            batch = {n: _stacked([x[n] for x in lanes]) if axes[n] == 0 else lanes[0][n] for n in axes}
            run = jax.vmap(lambda values: kernel(**values), in_axes=(axes,), axis_size=LANES)
            results = jax.device_get(executed(self.code, run, batch))
            each = [jax.tree.map(lambda x, lane=lane: x[lane], results) for lane in range(LANES)]
        runs = [of_engine(call, *result) for call, result in zip(calls, each, strict=True)]
        others = tuple((calls[i], runs[i]) for i in range(LANES) if i != own)
        return replace(runs[own], others=others)


def _with_data(case: Case, which: int) -> Case:
    """A case with other contents for all but the first of a batch: inverted or rotated words."""
    if not which:
        return case
    change = (lambda w, d: w ^ w.dtype.type((1 << d.bits) - 1)) if which == 1 else _rotated
    inputs = {
        n: i if isinstance(i.type, ScalarType) else replace(i, words=change(i.words, i.type.dtype))
        for n, i in case.inputs.items()
    }
    return replace(case, inputs=inputs)


def _rotated(words: NDArray[Any], d: DType) -> NDArray[Any]:
    return np.roll(words.reshape(-1), 1).reshape(words.shape)


def _stacked(values: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *values)


@dataclass(frozen=True)
class Sanitizer:
    """The reference interpreter with a definedness bit per bit of data.

    ``run`` raises :class:`UndefinedDataError` where undefined data reaches global memory, a scalar, an index
    or a result; with ``strict`` already where an instruction computes with it.
    """

    strict: bool = False
    profile: profiles.ProfileName | None = None
    follows: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The machine as the command line names it."""
        return ":".join(["sanitizer", *(["strict"] if self.strict else []), *filter(None, [self.profile])])

    def run(self, case: Case) -> Run:
        """The results of a case without undefined data."""
        if case.ranks is not None:
            return on_ranks(case, sanitized(case, self.profile, strict=self.strict))
        execution = sanitize(
            case.program,
            interpreter_arguments(case),
            profile=self.profile or case.profile,
            entry=case.entry,
            grid=case.grid,
            partial_launch=True,
            strict=self.strict,
        )
        if execution.diagnostics:
            raise errors.UndefinedDataError(execution.diagnostics)
        return Run(interpreter_outputs(case, execution.outputs))


def on_ranks(case: Case, outputs: Mapping[str, Any]) -> Run:
    """What several processors gave."""
    return Run({n: Output(d, words) for n, (d, words) in words_of(case, outputs).items()})


def interpreter_arguments(case: Case) -> dict[str, Any]:
    """The inputs of a case as the interpreter takes them."""
    return {name: _for_interpreter(i) for name, i in case.inputs.items()}


def interpreter_outputs(case: Case, outputs: Mapping[str, Any]) -> dict[str, Output]:
    """What the interpreter gave for a case, in the form of all machines."""
    return {name: _of_interpreter(case, name, value) for name, value in outputs.items()}


def _for_interpreter(i: Input) -> Any:
    if isinstance(i.type, TileType):
        return oracle.OracleTile(i.type, i.words.copy(), *(i.valid or (None, None)))
    d = i.type.dtype
    return i.words.view(np.bool_ if d.name == "i1" else d.numpy)


def _of_interpreter(case: Case, name: str, value: Any) -> Output:
    if isinstance(value, oracle.OracleTile):
        d = value.type.dtype
        return Output(d, value.data.view(d.word), value.valid)
    d = type_of(case, name).dtype
    return Output(d, np.ascontiguousarray(value).view(d.word))


def for_engine(i: Input) -> Any:
    """An input as the engine takes it."""
    d = i.type.dtype
    with x64():
        if isinstance(i.type, TileType):
            sizes = (None, None) if i.valid is None else (jax.device_put(np.int32(n)) for n in i.valid)
            rows, cols = sizes
            return tiles.Tile(jax.device_put(i.words), rows, cols, i.type)
        if isinstance(i.type, GlobalTypes) and d.packed:
            return pack_pairs(i.words)
        if isinstance(i.type, ScalarType) and d.name == "i1":
            return bool(i.words)
        if isinstance(i.type, VectorType | GlobalTypes) or d.kind == "index":
            return i.words.view(d.numpy)
        return i.words


def of_engine(case: Case, outputs: Mapping[str, Any], report: state.Report) -> Run:
    """What the engine gave; a fragment's buffer has the argument's name, not that of a written view."""
    resolved = resolve(case.program)
    sources = {n: r for f in case.program.functions for n, r in resolved.origins(f).items()}
    by_name = {}
    for name, value in outputs.items():
        buffers = sources.get(name, ())
        argument = next(iter(buffers)) if len(buffers) == 1 else name
        by_name[argument] = _of_engine(case, argument, value)
    return Run(by_name, tuple(str(d) for d in report.problems()))


def _of_engine(case: Case, name: str, value: Any) -> Output:
    if isinstance(value, tiles.Tile):
        return Output(
            value.type.dtype, np.asarray(value.words), (int(value.valid_rows), int(value.valid_cols))
        )
    t, got = type_of(case, name), np.asarray(value)
    d = t.dtype
    if d.packed and not isinstance(t, VectorType):
        got = unpack_pairs(got)
    return Output(d, np.ascontiguousarray(got).view(d.word))


_HASH_SEED = "PYTHONHASHSEED"


class Again:
    """Executes cases on the interpreter in a process of its own, which the first case starts.

    >>> Again("a5").name
    'interpreter:again:a5'
    """

    follows: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    def __init__(self, profile: ProfileName | None = None) -> None:
        self._oracle = Oracle(profile)
        self._connection: Connection | None = None
        #: The other process, once it is there.
        self.process: BaseProcess | None = None

    @property
    def name(self) -> str:
        """The name of the machine, with ``again`` after its kind."""
        kind, _, profile = self._oracle.name.partition(":")
        return ":".join(filter(None, (kind, "again", profile)))

    def run(self, case: Case) -> Run:
        """What the other process gives, or raises; RuntimeError when it is gone."""
        if self._connection is None:
            self._connection, self.process = _started(self._oracle)
        try:
            self._connection.send_bytes(_packed(case))
            answer = _unpacked(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._connection = None
            raise RuntimeError("the second process of the interpreter ended") from None
        if isinstance(answer, Run):
            return answer
        raise _restored(*answer)


def _started(oracle: Oracle) -> tuple[Connection, BaseProcess]:
    """A new process, which ends with this one, and the connection to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(oracle, theirs), daemon=True)
    with _other_hash_seed(), uninterrupted():
        process.start()
    theirs.close()
    return ours, process


@contextlib.contextmanager
def _other_hash_seed() -> Iterator[None]:
    before = os.environ.get(_HASH_SEED)
    os.environ[_HASH_SEED] = "2" if before == "1" else "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_HASH_SEED]
        else:
            os.environ[_HASH_SEED] = before


def _serve(oracle: Oracle, connection: Connection) -> None:
    """The main function of the other process: cases in, results out, until the connection ends."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    load_from_environment()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            case: Case = _unpacked(connection.recv_bytes())
            try:
                answer: Any = oracle.run(case)
            except Exception as error:
                answer = type(error).__name__, str(error), getattr(error, "diagnostics", ())
            connection.send_bytes(_packed(answer))


_Description = tuple[str, str, tuple[Diagnostic, ...]]


def _restored(kind: str, message: str, diagnostics: tuple[Diagnostic, ...]) -> Exception:
    """An error like that of the other process: the package's own kinds are kept."""
    from .. import errors

    cls = getattr(errors, kind, None)
    if not (isinstance(cls, type) and issubclass(cls, PtoError)):
        return RuntimeError(f"{kind}: {message}")
    result: PtoError = cls.__new__(cls)
    PtoError.__init__(result, message, diagnostics)
    return result


class _Pickler(pickle.Pickler):
    """Profiles go by their names."""

    def persistent_id(self, value: Any) -> str | None:
        return value.name if isinstance(value, Profile) else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: Any) -> Profile:
        return find_profile(name)


def _packed(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def _unpacked(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()


# -- several ranks, and other orders -----------------------------------------------------------------

#: Legal orders that a case is executed in.
ORDERS = 6


def _kernel(case: Case, profile: ProfileName | None, numerics: Numerics = "exact", **more: Any) -> RankKernel:
    assert case.ranks is not None
    kernel: RankKernel = engine.compile(
        case.program,
        profile or case.profile,
        case.entry,
        numerics=numerics,
        grid=case.grid,
        warn=False,
        partial_launch=True,
        **case.ranks.bindings,
        **more,
    )
    return kernel


def _arguments(case: Case) -> dict[str, Any]:
    """The inputs as arrays [ranks, ...], those of 4-bit types with two elements to a byte."""
    return {
        n: pack_pairs(i.words) if i.type.dtype.packed else i.words.view(i.type.dtype.numpy)
        for n, i in case.inputs.items()
    }


def _interpreter(case: Case, profile: ProfileName | None) -> Any:
    kernel = _kernel(case, profile, engine="interpreter")
    return partial(kernel.interpreted, *kernel.prepared((), _arguments(case)))


def compiled(
    case: Case, profile: ProfileName | None = None, numerics: Numerics = "exact", *, eager: bool = False
) -> Mapping[str, Any]:
    """The buffers that this engine gives, compiled or instruction by instruction."""
    kernel = _kernel(case, profile, numerics)
    if eager:
        return kernel.observed(Observers(()), **_arguments(case))[0]
    outputs: Mapping[str, Any] = kernel(**_arguments(case))
    return outputs


def sanitized(case: Case, profile: ProfileName | None = None, *, strict: bool = False) -> Mapping[str, Any]:
    """The buffers that the interpreter gives; UndefinedDataError where undefined data reaches them."""
    execute = _interpreter(case, profile)
    result = shadowed(lambda machine: execute(machine=machine), case.program, strict=strict)
    if result.diagnostics:
        raise UndefinedDataError(result.diagnostics)
    return result.outputs


def judged(case: Case, profile: ProfileName | None = None) -> Mapping[str, Any]:
    """The buffers in the order of the text, after the verdict on a case and executions in other orders.

    UndefinedDataError for a verdict that is wrong: a finding in a program that is right, none where orders
    differ, and none in a generated mutant, which lacks what it needs. NotExecutableError for mutants that
    have one.
    """
    kernel, values = _kernel(case, profile, engine="interpreter"), _arguments(case)
    # Of mutants of a user's program nobody knows whether they need what they lack.
    is_mutant = case.origin[:1] == (GENERATED,)
    diagnostics: list[Diagnostic] = []
    try:
        diagnostics += [f.diagnostic for f in kernel.judge(values).findings]
    except DeadlockError as error:
        diagnostics += error.diagnostics
    if diagnostics and case.origin:
        raise NotExecutableError(diagnostics[:1])
    seed = int(case.id or "0", 16) % (1 << 32)
    execute = _interpreter(case, profile)
    other = None if diagnostics else rank_schedules.difference(execute, ORDERS, seed)
    if diagnostics or other is not None or is_mutant:
        lacks = f"the program {case.origin[-1]}" if is_mutant else "the program is right"
        wrong = "a finding" if diagnostics else f"no finding; {other}" if other else "no finding"
        text = f"{wrong}, though {lacks}" if not other or is_mutant else wrong
        raise UndefinedDataError([*diagnostics, Diagnostic("error", text, rule="ranks")])
    outputs: Mapping[str, Any] = execute()
    return outputs


@dataclass(frozen=True)
class OnMesh:
    """The engine compiled with the ranks as an axis of a mesh, spread over the devices of this process."""

    profile: profiles.ProfileName | None = None
    follows: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name of the machine, with its profile where it has one of its own."""
        return ":".join(filter(None, ("shard_map", self.profile)))

    def run(self, case: Case) -> Run:
        """The buffers of all ranks; NotExecutableError without ranks, and on one device."""
        if case.ranks is None:
            raise _not_on_mesh("a program for one processor")
        ranks = case.ranks.count
        size = next((n for n in range(min(ranks, jax.device_count()), 1, -1) if ranks % n == 0), 1)
        if size == 1:
            text = "the devices of this process cannot share the ranks; try: "
            raise _not_on_mesh(f"{text}XLA_FLAGS=--xla_force_host_platform_device_count={ranks}")
        kernel, by_name = _kernel(case, self.profile), _arguments(case)
        numbers = {n: by_name.pop(n) for n in kernel.scalars}
        mesh = jax.make_mesh((size,), ("rank",), axis_types=(jax.sharding.AxisType.Auto,))
        over = jax.sharding.PartitionSpec("rank")  # type: ignore[no-untyped-call]
        call = jax.shard_map(
            lambda arrays: kernel(**arrays, **numbers), mesh=mesh, in_specs=over, out_specs=over
        )
        with x64():
            return on_ranks(case, jax.device_get(jax.jit(call)(by_name)))


def _not_on_mesh(reason: str) -> NotExecutableError:
    return NotExecutableError(Diagnostic("error", reason, rule="ranks"))


def words_of(case: Case, outputs: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The element type and raw words of every buffer, of those that are arguments."""
    types = {n: i.type.dtype for n, i in case.inputs.items() if not isinstance(i.type, ScalarType)}
    arrays = {n: np.ascontiguousarray(outputs[n]) for n in outputs if n in types}
    words = {n: unpack_pairs(a) if types[n].packed else a for n, a in arrays.items()}
    return {n: (types[n], np.ascontiguousarray(a).view(types[n].word)) for n, a in words.items()}


# -- orders of the check -----------------------------------------------------------------------------

#: What makes results depend on the order of pipes; tiles that share bytes do not.
_KINDS = ("race", "deadlock", "unmatched")


@dataclass(frozen=True)
class LegalOrders:
    """``pto.races`` on the program of a case, then two executions with pipes in orders by chance.

    ``run`` raises UndefinedDataError for a finding, so that a program that is correct must have none. A
    mutant may have lost what it needs: for a finding ``run`` raises NotExecutableError there, and without one
    the bits of the other orders show whether the check has missed a race. Functions that a tool has still to
    synchronise are executed in the order of their text. Of a case for several processors the verdict on its
    ranks is checked, as :func:`.rank_cases.judged` says.
    """

    profile: profiles.ProfileName | None = None
    name: ClassVar[str] = "races"
    follows: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    def run(self, case: Case) -> Run:
        """The results of a case in two orders that its number decides on."""
        if case.ranks is not None:
            return on_ranks(case, judged(case, self.profile))
        profile = profiles.profile(self.profile) if self.profile else case.profile
        results = [f.diagnostic for f in races(case.program, profile, grid=case.grid) if f.kind in _KINDS]
        if results and case.origin:
            raise errors.NotExecutableError(results[:1])
        if results:
            raise errors.UndefinedDataError(results)
        resolved = resolve(case.program, profile)
        order = judged_program(resolved)
        if not all(map(is_as_written, filter(_computes, case.program.functions))):
            return Oracle(profile.name).run(case)

        def execute(schedule: Schedule) -> Run:
            def machine(policy: Policy, buffers: Mapping[str, Any], steps: int) -> ReferenceMachine:
                return ScheduledMachine(order, schedule, policy, buffers, steps)

            return Oracle(profile.name, machine).run(replace(case, program=resolved.program))

        seed = int(case.id or "0", 16) % (1 << 32)
        one, two = (execute(Schedule((), seed, backwards, True)) for backwards in (False, True))
        return replace(one, others=((case, two),))


def _computes(function: ir.Function) -> bool:
    """Whether a function has an operation on tiles."""
    return any(isinstance(v.type, ir.TileType) for op in function.walk() for v in (*op.ins, *op.destinations))
