"""The commands ``run``, ``races`` and ``diff`` on several ranks: arguments, executions and verdicts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from ..analysis.entries import moved_windows
from ..api import load, resolve_profile
from ..errors import ArgumentError, DeadlockError, ExecutionError, FileError
from ..examples import example
from ..files import load_arrays, save_arrays, write_text
from ..interpreter.operands import BLOCK_NUMBERS
from ..ir import TextLanguage
from .options import ACCEPTED, REJECTED, DiffOptions, RunOptions, Watch
from .rank_options import given, is_plan
from .run import (
    Execution,
    check_options,
    count_changed,
    describe_array,
    describe_check,
    draw,
    random_values,
    watched,
)

if TYPE_CHECKING:
    from ..runtime.ranks import RankKernel
    from ..validation.translation import Failure

T = TypeVar("T")
#: How much larger generated buffers become, and whether their integers are numbers of ranks.
_LARGER = ((16, False), (256, False), (256, True))


def run(options: RunOptions) -> None:
    """Execute a program or plan on ranks, print what it wrote and its verdict, write the files asked for."""
    _refuse(options)
    kernel = kernel_of(options)

    def execute(values: dict[str, Any]) -> tuple[Execution | None, Mapping[str, Any] | None]:
        looked = sanitized(kernel, values, options) if options.sanitize is not None else None
        return looked, looked.outputs if looked is not None else _outputs(kernel, values, options)

    values, (looked, outputs) = _executed(kernel, options, execute)
    if outputs is None:
        return
    origin = f"from {options.inputs}" if options.inputs else f"generated, seed {options.seed}"
    names = " -> ".join(
        "host barrier" if c is None else f"{c.entry} ({c.grid} block{'s' if c.grid > 1 else ''})"
        for c in kernel.calls
    )
    print(f"program: {options.file or options.example}: {names} on {kernel.ranks} ranks")
    print(f"profile: {kernel.profile.name} ({kernel.profile.title}), {_executor(options)}{_order(options)}")
    print(f"input:   {origin}: {', '.join(_described(n, values[n]) for n in values)}")
    for call in kernel.kernels:
        for record, window in call.recognised:
            print(f"context: {call.entry}: {record} is that of {window}, as the text uses it")
    _print_outputs(kernel, outputs, values)
    if options.example is not None:
        print(f"check:   {describe_check(example(options.example), values, outputs)}")
    print(kernel.judge(values, options.sync))
    if options.outputs is not None:
        save_arrays(options.outputs, _storable(outputs))
    if options.pictures is not None:
        draw(options.pictures, kernel, outputs)  # pyright: ignore[reportArgumentType]
    if looked is not None:
        looked.report()


def _outputs(kernel: RankKernel, values: Mapping[str, Any], options: RunOptions) -> Mapping[str, Any] | None:
    """What the kernels wrote; None where a breakpoint ended them. Writes the state asked for."""
    if options.watch is None and options.dump_state is None:
        return kernel.interpreted(*kernel.prepared((), values))
    from ..runtime.debug.inspection import buffers_of

    def typed(words: Mapping[str, Any]) -> dict[str, Any]:
        return _storable(buffers_of(kernel, words, kernel.prepared((), values)[0]))  # pyright: ignore[reportArgumentType]

    arguments = [values[a.name] for a in kernel.arguments]
    watch = options.watch or Watch()
    execution = watched(kernel, arguments, watch, options.dump_state, options.pictures, typed)  # pyright: ignore[reportArgumentType]
    if execution is None:
        return None
    outputs, state = execution
    if options.dump_state is not None:
        state.save(options.dump_state)
    return {n: np.asarray(a) for n, a in outputs.items()}


def _storable(arrays: Mapping[str, Any]) -> dict[str, Any]:
    from ..runtime.array_files import storable

    return {n: storable(a) for n, a in arrays.items()}


def sanitized(kernel: RankKernel, values: Mapping[str, Any], options: RunOptions) -> Execution:
    """Execute on the interpreter with a definedness bit per bit of data."""
    from ..sanitizer.sanitize import shadowed

    arrays, numbers = kernel.prepared((), values)
    strict = options.sanitize == "strict"
    execution = shadowed(
        lambda machine: kernel.interpreted(arrays, numbers, machine=machine), kernel.program, strict=strict
    )
    return Execution(execution.outputs, execution)


def races(args: argparse.Namespace) -> int:
    """Judge a program on ranks and print what is found; the exit status."""
    sync: Literal["auto", "as-written"] = "as-written" if args.sync in ("strict", "as-written") else "auto"
    chosen = RunOptions(
        args.file, None, None, args.profile, "exact", args.inputs, None, None, args.seed, args.grid,
        language=args.language, ranks=args.ranks, **given(args)
    )  # fmt: skip
    kernel = kernel_of(chosen)
    judge = partial(kernel.judge, sync=sync, schedules=args.schedules, seed=args.seed)
    report = _executed(kernel, chosen, judge)[1]
    print(report)
    if args.json is not None:
        write_text(args.json, json.dumps([f.as_json() for f in report.findings], indent=2) + "\n")
    return ACCEPTED if report.exact else REJECTED


def diff(options: DiffOptions) -> tuple[bool, Failure | None, str]:
    """Compare two programs on ranks and say what was found.

    Whether they are equal on every input, the input on which they are not, and the name of the profile.
    """
    from ..validation.translation import RankPair, compared

    if options.numerics != "exact":
        raise ArgumentError("--numerics fast: not on several ranks, which the interpreter executes")
    before, after = (kernel_of(_as_run(options, f, language)) for f, language in _two(options))
    both, profile = RankPair.of(before, after, options.ulp), before.profile.name
    setting = f"({before.ranks} ranks, profile {profile})"
    count = 1 if options.inputs is not None else options.count
    values: dict[str, Any] = {}
    for number in range(count):
        drawn = values_of(before, options.inputs, options.scalars or {}, options.seed + number)
        values = {n: np.asarray(v) for n, v in drawn.items()}
        failure = compared(both, number, values)
        if failure is not None:
            print(f"different: {failure} {setting}")
            return False, failure, profile
    lost = both.lost(values)
    for finding in lost:
        print(f"different: only the program after is schedule-dependent: {finding}")
    if not lost:
        generated = f"{count} generated inputs, seed {options.seed}"
        origin = f"input from {options.inputs}" if options.inputs else generated
        print(f"equal: {', '.join(both.pair.results)} on {origin} {setting}")
    return not lost, None, profile


def _two(options: DiffOptions) -> list[tuple[str, TextLanguage | None]]:
    return [(options.before, options.language), (str(options.after), options.language_after)]


def _as_run(options: DiffOptions, file: str, language: TextLanguage | None) -> RunOptions:
    """The options of an execution of one of two programs."""
    return RunOptions(
        file, None, options.entry, options.profile, "exact", None, None, None, options.seed, options.grid,
        language=language, ranks=options.ranks, shared=options.shared, context=options.context,
        peers=options.peers,
    )  # fmt: skip


def _refuse(options: RunOptions) -> None:
    """ArgumentError for options that are not for ranks, or not for each other."""
    if options.sanitize is not None:
        check_options(options)
    if options.seed < 0:
        raise ArgumentError(f"--seed: got {options.seed}", allowed="0 or more")
    clash = {
        "--numerics fast": options.numerics != "exact",
    }
    for name, is_set in clash.items():
        if is_set:
            raise ArgumentError(f"{name}: not on several ranks; allowed: one rank, without --ranks")


def _executor(options: RunOptions) -> str:
    steps = options.watch is not None or options.dump_state is not None
    return "engine, step by step" if steps else "interpreter"


def _order(options: RunOptions) -> str:
    return "" if options.schedule is None else f", schedule {options.schedule}"


def _print_outputs(kernel: RankKernel, outputs: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    for name, array in outputs.items():
        changed = count_changed(np.asarray(values[name]), np.asarray(array))
        print(describe_array(name, np.asarray(array), kernel.buffers[name]) + changed)


def kernel_of(options: RunOptions) -> RankKernel:
    """The kernel that options name: a plan, an example or a program."""
    from ..runtime.kernel import compile as compile_program

    if is_plan(options.file):
        from ..runner.description import read_plan

        _refuse_beside_a_plan(options)
        return read_plan(str(options.file), options.ranks, schedule=options.schedule, moves=options.moves)
    shipped = example(options.example) if options.example is not None else None
    program = load(shipped.path if shipped else str(options.file), language=options.language)
    limits: dict[str, Any] = {} if options.max_steps is None else {"max_steps": options.max_steps}
    kernel: RankKernel = compile_program(
        program,
        profile=resolve_profile(program, options.profile),
        entry=options.entry,
        grid=1 if options.grid is None else options.grid,
        partial_launch=True,
        warn=False,
        ranks=shipped.ranks if options.ranks is None and shipped else options.ranks,
        shared=options.shared or (shipped.shared if shipped else ()),
        context=options.context or (shipped.context if shipped else {}),
        peers=options.peers,
        engine="interpreter",
        schedule=options.schedule,
        moves=options.moves,
        **limits,
    )
    _require_windows(kernel)
    return kernel


def _refuse_beside_a_plan(options: RunOptions) -> None:
    """ArgumentError for options that a plan says itself."""
    values: dict[str, tuple[Any, str]] = {
        "entry": (options.entry, f'"entry": "{options.entry}" for the launch'),
        "profile": (options.profile, f'"profile": "{options.profile}"'),
        "grid": (
            None if options.grid in (None, 1) else options.grid,
            f'"blocks": {options.grid} for the launch',
        ),
        "shared": (options.shared, f'"shared": {json.dumps(options.shared)} for the launch'),
        "context": (options.context, f'"context": {json.dumps(dict(options.context))} for the launch'),
        "peer": (options.peers, f'"peers": {json.dumps(dict(options.peers))} for the launch'),
        "language": (options.language, "the version in the text"),
        "max-steps": (options.max_steps, "none"),
    }
    for name, (value, fix) in values.items():
        if value:
            got = f"got --{name} with the plan {options.file}"
            raise ArgumentError(got, allowed="the field of the plan", fix=f"{fix} in the plan")


def _require_windows(kernel: RankKernel) -> None:
    """ArgumentError for a context record of several windows that no option gives one of them."""
    call, names = kernel.kernels[0], {a.name for a in kernel.arguments}
    for name, windows in moved_windows(call.program, call.function).items():
        if len(windows) > 1 and name in names:
            got = f"context: got the record {name!r} of {', '.join(windows)} without its window"
            raise ArgumentError(got, allowed="one of them", fix=f"--context {name}={windows[0]}")


def _executed(
    kernel: RankKernel, options: RunOptions, execute: Callable[[dict[str, Any]], T]
) -> tuple[dict[str, Any], T]:
    """The arguments of an execution and what it gives.

    Of generated buffers nobody says the sizes: they grow where accesses leave them, and tables then hold
    numbers of ranks, which most programs take for places.
    """
    presets = example(options.example).arguments(options.seed) if options.example is not None else {}
    values = partial(values_of, kernel, options.inputs, options.scalars, options.seed, presets)
    drawn = options.inputs is None and options.example is None and options.watch is None
    try:
        first = values()
        return first, execute(first)
    except DeadlockError:
        raise
    except ExecutionError:
        for times, careful in _LARGER if drawn else ():
            try:
                more = values(times=times, careful=careful)
                return more, execute(more)
            except DeadlockError:
                raise
            except ExecutionError:
                continue
        raise


def values_of(
    kernel: RankKernel,
    inputs: str | None,
    scalars: Mapping[str, Any],
    seed: int,
    presets: Mapping[str, Any] | None = None,
    *,
    times: int = 1,
    careful: bool = False,
) -> dict[str, Any]:
    """Buffers and scalars: from a file, by options, or generated; the cells of signals are zeros."""
    arrays = load_arrays(inputs) if inputs is not None else {}
    own = next((n for n in (*arrays, *scalars) if n in BLOCK_NUMBERS), None)
    if own is not None:
        # Lists of examples need no JAX.
        from ..runtime.arguments import of_every_block

        raise of_every_block(kernel.entry, own)
    unknown = [n for n in (*arrays, *scalars) if n not in {a.name for a in kernel.arguments}]
    if unknown:
        names = ", ".join(a.name for a in kernel.arguments)
        raise FileError(f"{inputs or '--arg'}: no argument is called {unknown[0]!r}", allowed=names)
    types = {**kernel.buffers, **kernel.scalars}
    typed = {n: _typed(a, types[n]) for n, a in arrays.items()}
    return generate(kernel, seed, {**(presets or {}), **typed, **scalars}, times=times, careful=careful)


def _typed(array: Any, d: Any) -> Any:
    """An array of a file, where types that NumPy lacks are nameless words."""
    if d is None or array.dtype.kind != "V" or array.dtype.itemsize != d.word.itemsize:
        return array
    return array.view(d.word)


def generate(
    kernel: RankKernel,
    seed: int,
    values: Mapping[str, Any] | None = None,
    *,
    times: int = 1,
    careful: bool = False,
) -> dict[str, Any]:
    """Seeded values for what is not known: numbers of ranks by name, zeros for signals and for results.

    Buffers are ``times`` as large as the least; ``careful``: integers are numbers of ranks.
    """
    rng, arrays = np.random.default_rng(seed), {}
    for argument in kernel.arguments:
        name = argument.name
        if values is not None and name in values:
            arrays[name] = values[name]
        elif name in kernel.scalars:
            arrays[name] = _number(rng, kernel, name)
        else:
            arrays[name] = _buffer(rng, kernel, name, times, careful)
    return arrays


def _number(rng: np.random.Generator, kernel: RankKernel, name: str) -> Any:
    from ..generate import rank_inputs

    number = rank_inputs.number(kernel, name)
    if number is not None:
        return number
    d = kernel.scalars[name]
    return np.asarray(rng.integers(1, 8)).astype(d.numpy if d.kind != "index" else np.int32)


def _buffer(rng: np.random.Generator, kernel: RankKernel, name: str, times: int, careful: bool) -> Any:
    from ..generate import rank_inputs

    d, (ranks, size) = kernel.buffers[name], rank_inputs.shape(kernel, name, times)
    shape = (ranks, size // 2 if d is not None and d.packed else size)
    if rank_inputs.begins_empty(kernel, name):
        return np.zeros(shape, np.uint8 if d is None else d.numpy)
    if careful and d is not None and d.is_integer and not d.packed:
        return rng.integers(0, ranks, shape).astype(d.numpy)
    return random_values(rng, d, shape)  # type: ignore[arg-type]


def _described(name: str, value: Any) -> str:
    array = np.asarray(value)
    if array.ndim == 0 or array.dtype == object or (array.ndim == 1 and array.size <= 64):
        return f"{name}={array.tolist()}"
    zeros = " zeros" if array.size and not array.any() else ""
    return f"{name} {array.dtype}{list(array.shape)}{zeros}"
