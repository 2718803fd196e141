"""Compiling programs to kernels: pure functions of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import jax

from .. import launches
from ..analysis import type_inference
from ..analysis.entries import (
    Argument,
    GlobalTypes,
    arguments,
    fragment_outputs,
    select_entry,
    written_buffers,
)
from ..analysis.parts import with_entry
from ..analysis.resolve import resolve
from ..api import resolve_profile
from ..errors import ArgumentError, Diagnostic, VerifyError
from ..ir.dtypes import DType
from ..ir.program import Function, Program, short_list
from ..ir.types import Type, UnknownType
from ..lowering import MAX_STEPS, Accesses, Semantics, accesses
from ..lowering.machine.observed import Observer
from ..lowering.words import x64
from ..profiles import Profile, profile as find_profile
from . import conversion
from .arguments import check_accesses, elements, prepare, type_of
from .derivatives import without_derivative
from .execution import Mode, execute
from .launch_rule import launched
from .notices import require_exact, warn_of
from .state import Report, State


@dataclass(frozen=True)
class Kernel:
    """A program as a pure function; made by :func:`compile`, memoised and hashable.

    Call it with one argument per program argument, by position or name. Buffers are arrays of any shape
    (4-bit types: bytes, two elements each) that hold what the program accesses: views may be larger;
    scalars are numbers or 0-d arrays (traced, so they batch); tiles of a fragment are :class:`Tile` or
    [rows, cols] arrays. The result maps each written buffer's name to its new contents in the shape and
    type it came in, or each result of a fragment to a Tile. With ``checks`` the result is
    ``(outputs, report)``. Composes with jit, vmap, shard_map and lax control flow.

    ``places`` tells apart equal programs from different texts, whose diagnostics name different lines;
    with ``partial_launch`` nobody asks whether the program needs another number of blocks.
    Raises ArgumentError for arguments that do not fit, VerifyError when types filled in from the
    arguments are illegal.

    >>> import numpy as np
    >>> import pto_jax as pto
    >>> kernel = pto.compile(pto.parse("%d = tneg %a : !pto.tile<1x8xf32>"))
    >>> kernel
    <Kernel fragment(a: vec 1x8xf32) -> (d), profile='a2a3', numerics='exact'>
    >>> jax.vmap(kernel)(np.ones((3, 1, 8), np.float32))["d"].array[:, 0, 0]
    Array([-1., -1., -1.], dtype=float32)
    """

    program: Program
    entry: str
    semantics: Semantics
    checks: bool = False
    places: str = ""
    max_steps: int = MAX_STEPS
    grid: int = 1
    partial_launch: bool = False
    #: Whether a fragment whose types follow from its arguments shows the verifier's warnings when called.
    warn: bool = field(default=False, compare=False)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What the verifier warns of; of a fragment with open types, nothing before it has arguments."""
        return () if self._open else _verified(self.program, self.profile, self.places)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Copies are the memoised kernel itself, with what it has compiled."""
        return _kernel, tuple(getattr(self, f.name) for f in fields(self))

    def __repr__(self) -> str:
        s = self.semantics
        options = [f"profile={s.profile.name!r}", f"numerics={s.numerics!r}"]
        if s.out_of_region != s.profile.out_of_region:
            options.append(f"out_of_region={s.out_of_region!r}")
        options += [f"subnormals={s.subnormals!r}"] if s.subnormals != "keep" else []
        options += ["checks=True"] if self.checks else []
        options += [f"grid={self.grid}"] if self.grid != 1 else []
        listed = short_list([f"{a.name}: {a.type}" for a in self.arguments])
        outputs = short_list(self.outputs)
        return f"<Kernel {self.entry}({listed}) -> ({outputs}), {', '.join(options)}>"

    @cached_property
    def function(self) -> Function:
        """The function that is executed."""
        function = self.program.function(self.entry)
        assert function is not None
        return function

    @property
    def profile(self) -> Profile:
        """The target profile that the program was verified for."""
        return self.semantics.profile

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """Name, type and required size of every argument, in order."""
        return arguments(self.program, self.function)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results, in order (jit sorts the keys of dictionaries it returns)."""
        if self.program.fragment:
            return fragment_outputs(self.program)
        return written_buffers(self.program, self.function)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Execute the program on one value for each argument, by position or name.

        The new contents of the buffers it writes, or a fragment's tiles, by name; with ``checks`` the pair of
        them and a :class:`Report`. Raises ArgumentError for arguments that do not fit, VerifyError where the
        types they give are illegal, and without ``checks`` ExecutionError where ``max_steps`` stops a loop.
        """
        outputs, report, _ = self._run(args, kwargs, jit=True, check=self.checks)
        if self.checks:
            return outputs, report
        # Without checks the report only has loops that were stopped, for programs with while loops.
        report.raise_if_broken()
        return outputs

    def eager(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Execute instruction by instruction, each from the compile cache.

        Raises ExecutionError where a run-time rule is broken.
        """
        outputs, report, _ = self._run(args, kwargs, jit=False)
        report.raise_if_broken()
        return outputs

    def eager_unchecked(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Execute like :meth:`eager`, computing the formula where a run-time rule is broken."""
        return self._run(args, kwargs, jit=False, check=False)[0]

    def with_state(self, /, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], State]:
        """The outputs, and every tile and memory space as the program left it.

        Raises ExecutionError where a run-time rule is broken.
        """
        outputs, report, state = self._run(args, kwargs, jit=True, keep_state=True)
        report.raise_if_broken()
        return outputs, state

    def observed(self, observer: Observer, /, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], State]:
        """Like :meth:`with_state`, eagerly, telling an observer (:mod:`pto_jax.debug.tracer`) every step."""
        outputs, report, state = self._run(args, kwargs, jit=False, keep_state=True, observer=observer)
        report.raise_if_broken()
        return outputs, state

    def _run(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        jit: bool,
        check: bool = True,
        keep_state: bool = False,
        observer: Observer | None = None,
    ) -> tuple[dict[str, Any], Report, State]:
        bound = self._bind(args, kwargs)
        kernel = self._typed(bound)
        prepared = {a.name: prepare(a, bound[a.name]) for a in kernel.arguments if a.name in bound}
        if check or jit:
            kernel._check_accesses(prepared)
        mode = Mode(check, keep_state, whole=jit)
        run = _jitted(kernel, mode)
        if not jit:
            run = partial(execute, kernel, mode, observer=observer)  # pyright: ignore[reportArgumentType]
        with x64():
            rule = launched(kernel, prepared, check)  # pyright: ignore[reportArgumentType]
            results, report, state = kernel._without_derivative(run, prepared, keep_state)
        report = report.joined(rule)
        ordered = {name: results[name] for name in kernel.outputs if name in results}
        return ordered, report, state

    def check_accesses(self, values: Mapping[str, Any]) -> None:
        """Raise an error where an access that every execution makes is outside its buffer."""
        self._check_accesses({a.name: prepare(a, values[a.name]) for a in self.arguments if a.name in values})

    def _check_accesses(self, prepared: Mapping[str, Any]) -> None:
        for name, (dtype, access) in self._accesses.items():
            check_accesses(name, elements(prepared[name], dtype), access)

    @cached_property
    def _accesses(self) -> dict[str, tuple[DType, Accesses]]:
        """What every execution accesses of each buffer, where that is constant."""
        if self._open:
            return {}
        by_name = accesses(self.program, self.entry, self.grid)
        types = {a.name: a.type.dtype for a in self.arguments if isinstance(a.type, GlobalTypes)}
        return {name: (types[name], by_name[name]) for name in types if name in by_name}

    def _without_derivative(self, run: Any, prepared: Mapping[str, Any], keep_state: bool) -> Any:
        """Execute so that a gradient which is stopped outside is no error, one that is used is.

        Words have no tangents: a tile or integer result could not say that its derivative is used, so
        that differentiated arguments are an error there at once (:func:`arrays.to_words`).
        """
        floats = {n: x for n, x in prepared.items() if conversion.is_traced_float(x)}
        results_are_floats = not self.program.fragment and all(
            conversion.is_float(prepared[n]) for n in self.outputs
        )
        if not floats or keep_state or not results_are_floats:
            return run(prepared)
        stopped = {n: jax.lax.stop_gradient(x) for n, x in floats.items()}
        results, report, state = run({**prepared, **stopped})
        return without_derivative(self.entry, results, floats), report, state

    def _typed(self, given: Mapping[str, Any]) -> Kernel:
        """The kernel with the types a fragment leaves open taken from the arguments, verified."""
        if not self._open:
            return self
        types: list[tuple[str, Type]] = []
        for a in self.arguments:
            if isinstance(a.type, UnknownType) and a.name in given:
                type_ = type_of(a.name, given[a.name])
                if type_ is not None:
                    types.append((a.name, type_))
        return _filled(self, tuple(types), self.warn)

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = [a.name for a in self.arguments]
        if len(args) > len(names):
            raise ArgumentError(
                f"{self.entry}: {len(args)} arguments given, it takes {len(names)}: {_list(names)}"
            )
        values = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names:
                raise ArgumentError(f"{self.entry}: no argument {name!r}; it takes: {_list(names)}")
            if name in values:
                raise ArgumentError(f"{self.entry}: argument {name!r} is given twice")
            values[name] = value
        missing = [n for n in names if n not in values and n not in self._optional]
        if missing:
            raise ArgumentError(f"{self.entry}: missing argument(s): {_list(missing)}")
        return values

    @cached_property
    def _open(self) -> bool:
        return resolve(self.program).is_open

    @cached_property
    def launch_is_open(self) -> bool:
        """Whether only arguments tell if the launch has the blocks that the program needs."""
        judgement = launches.judge(self.program, self.entry, self.grid)
        return judgement.open and not self.partial_launch

    @cached_property
    def _optional(self) -> frozenset[str]:
        """Tiles of a fragment that it writes before it reads them: they may be left out."""
        if not self.program.fragment:
            return frozenset()
        needed: set[str] = set()
        written: set[str] = set()
        resolved = resolve(self.program)
        for op in self.function.walk():
            read = {v.name for v in op.ins}
            instruction = resolved.of(op).instruction
            if instruction is not None and instruction.syntax == "tile":
                values = resolved.of(op).fitting().values
                read |= {values[o.name].name for o in instruction.operands if o.role == "inout"}
            needed |= read - written
            written |= {v.name for v in op.destinations}
        return frozenset(self.outputs) - needed


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


@lru_cache(maxsize=1024)
def _filled(kernel: Kernel, types: tuple[tuple[str, Type], ...], warn: bool) -> Kernel:
    program = type_inference.fill(kernel.program, dict(types))
    findings = _verified(program, kernel.profile, kernel.places)
    if warn:
        warn_of(findings, (program, kernel.places, kernel.profile))
    return replace(kernel, program=program)


@lru_cache(maxsize=1024)
def _jitted(kernel: Kernel, mode: Mode) -> Any:
    return jax.jit(partial(execute, kernel, mode))  # pyright: ignore[reportArgumentType]


def compile(  # noqa: PLR0913 - keywords
    program: Program,
    profile: str | Profile | None = None,
    entry: str | None = None,
    numerics: str = "exact",
    out_of_region: str | None = None,
    subnormals: str = "keep",
    checks: bool = False,
    max_steps: int = MAX_STEPS,
    grid: int = 1,
    partial_launch: bool = False,
    warn: bool = True,
) -> Kernel:
    """A program as a pure function of arrays.

    ``profile`` is cpu_sim, a2a3 or a5 (default: the text's target, else a2a3). ``numerics`` is "exact"
    (every instruction as if executed alone, the same bits in every execution mode) or "fast".
    ``out_of_region`` overrides what source lanes outside a valid region read: "ones" or "backing" (the
    sanitizer, ``pto-jax run --sanitize``, says where they are read).
    ``subnormals="flush"`` models hardware in flush mode. ``checks`` makes calls return
    ``(outputs, report)`` with the run-time rules that were broken. A while loop is stopped after
    ``max_steps`` trips (ExecutionError). ``grid`` blocks are executed, one after another; with
    ``partial_launch`` nobody asks whether these are the blocks that the program is written for.

    What :func:`pto_jax.verify` warns of is shown once per program and profile as
    :class:`pto_jax.PtoWarning`, except with ``warn=False``; ``Kernel.warnings`` has it in any case.
    Raises VerifyError when the profile does not allow the program, or when the text shows that more blocks
    would write further elements of its views, or that blocks leave them. Where that depends on arguments,
    eager execution and ``checks`` report it.

    >>> import numpy as np
    >>> import pto_jax as pto
    >>> k = pto.compile(pto.parse("%d = pto.tadd %a, %b : !pto.tile<f32, 1, 8>"))
    >>> k(np.ones((1, 8), np.float32), np.ones((1, 8), np.float32))["d"].array[0, 0].item()
    2.0
    """
    semantics = choices(resolve_profile(program, profile), numerics, out_of_region, subnormals)
    resolved = resolve(with_entry(program))
    program = resolved.program
    function = select_entry(program, entry)
    if not resolved.is_open:
        findings = _verified(program, semantics.profile, program.places)
        if warn:
            warn_of(findings, (program, program.places, semantics.profile))
    for name, n in (("max_steps", max_steps), ("grid", grid)):
        if n < 1:
            raise ArgumentError(f"{name}: found {n}, allowed: a positive number")
    judgement = launches.judge(program, function.name, grid)
    if judgement.problem is not None and not partial_launch:
        raise VerifyError(judgement.problem)
    return _kernel(
        program, function.name, semantics, checks, program.places, max_steps, grid, partial_launch, warn
    )


def choices(profile: str | Profile, numerics: str, out_of_region: str | None, subnormals: str) -> Semantics:
    """Checked execution options; ``out_of_region`` defaults to the profile's fill."""
    target = find_profile(profile)
    fill = out_of_region or target.out_of_region
    _choice("numerics", numerics, ("exact", "fast"))
    if numerics == "exact":
        require_exact()
    _choice("subnormals", subnormals, ("keep", "flush"))
    if fill == "poison":
        message = (
            "out_of_region: found 'poison', allowed: ones, backing; undefined lanes are followed by the "
            "sanitizer: pto-jax run --sanitize, pto_jax.sanitize"
        )
        raise ArgumentError(message)
    _choice("out_of_region", fill, ("ones", "backing"))
    return Semantics(target, numerics, fill, subnormals)  # type: ignore[arg-type]


@lru_cache(maxsize=4096)
def _kernel(*fields: Any) -> Kernel:
    return Kernel(*fields)


@lru_cache(maxsize=4096)
def _verified(program: Program, target: Profile, places: str) -> tuple[Diagnostic, ...]:
    """The warnings about a program; VerifyError where there are errors."""
    # Equal programs may stand in different places, which the diagnostics name.
    from ..verifier.programs import verify_program

    findings = verify_program(program, target)
    errors = [d for d in findings if d.severity == "error"]
    if errors:
        raise VerifyError(errors)
    return tuple(findings)


def _choice(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ArgumentError(f"{name}: found {value!r}, allowed: {', '.join(allowed)}")
