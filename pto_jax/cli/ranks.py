"""The commands ``run`` and ``races`` on several ranks: their arguments, their executions and verdicts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..api import load, resolve_profile
from ..errors import ArgumentError, FileError
from ..examples import example
from ..files import load_arrays, save_arrays, write_text
from .options import ACCEPTED, REJECTED, RunOptions
from .rank_options import given
from .run import count_changed, describe_array, describe_check, random_values

if TYPE_CHECKING:
    from ..runtime.ranks import RankKernel

#: Elements of a generated buffer whose size the text does not say.
_ELEMENTS = 4096
#: Scalars that are known by their names: the number of a rank, and how many there are.
_RANK = ("rank", "my_rank", "rank_id", "rankid", "myrank")
_COUNT = ("n", "n_ranks", "nranks", "num_ranks", "world_size", "ranks", "rank_num", "rank_size")


def run(options: RunOptions) -> None:
    """Execute a program or plan on ranks, print what it wrote and its verdict, write the files asked for."""
    _refuse(options)
    kernel = _kernel(options)
    values = _values(kernel, options)
    arrays, numbers = kernel.prepared((), values)
    outputs = kernel.interpreted(arrays, numbers)
    origin = f"from {options.inputs}" if options.inputs else f"generated, seed {options.seed}"
    names = " -> ".join(
        "host barrier" if c is None else f"{c.entry} ({c.grid} block{'s' if c.grid > 1 else ''})"
        for c in kernel.calls
    )
    print(f"program: {options.file or options.example}: {names} on {kernel.ranks} ranks")
    print(f"profile: {kernel.profile.name} ({kernel.profile.title}), interpreter{_order(options)}")
    print(f"input:   {origin}: {', '.join(_described(n, values[n]) for n in values)}")
    for call in kernel.kernels:
        for record, window in call.recognised:
            print(f"context: {call.entry}: {record} is that of {window}, as the text uses it")
    _print_outputs(kernel, outputs, values)
    if options.example is not None:
        print(f"check:   {describe_check(example(options.example), values, outputs)}")
    print(kernel.judge(values, options.sync))
    if options.outputs is not None:
        from ..runtime.array_files import storable

        save_arrays(options.outputs, {n: storable(a) for n, a in outputs.items()})


def races(args: argparse.Namespace) -> int:
    """Judge a program on ranks and print what is found; the exit status."""
    sync: Literal["auto", "as-written"] = "as-written" if args.sync in ("strict", "as-written") else "auto"
    chosen = RunOptions(
        args.file, None, None, args.profile, "exact", args.inputs, None, None, args.seed, args.grid,
        language=args.language, ranks=args.ranks, **given(args)
    )  # fmt: skip
    kernel = _kernel(chosen)
    report = kernel.judge(_values(kernel, chosen), sync, schedules=args.schedules, seed=args.seed)
    print(report)
    if args.json is not None:
        write_text(args.json, json.dumps([f.as_json() for f in report.findings], indent=2) + "\n")
    return ACCEPTED if report.exact else REJECTED


def _refuse(options: RunOptions) -> None:
    """Options that are not for ranks."""
    clash = {
        "--trace or --break": options.watch is not None,
        "--sanitize": options.sanitize is not None,
        "--dump-state": options.dump_state is not None,
        "--pictures": options.pictures is not None,
        "--numerics fast": options.numerics != "exact",
    }
    for name, is_set in clash.items():
        if is_set:
            raise ArgumentError(f"{name}: not on several ranks; allowed: one rank, without --ranks")


def _order(options: RunOptions) -> str:
    return "" if options.schedule is None else f", schedule {options.schedule}"


def _print_outputs(kernel: RankKernel, outputs: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    for name, array in outputs.items():
        changed = count_changed(np.asarray(values[name]), np.asarray(array))
        print(describe_array(name, np.asarray(array), kernel.buffers[name]) + changed)


def _kernel(options: RunOptions) -> RankKernel:
    from ..runtime.kernel import compile as compile_program

    if (options.file or "").endswith(".json"):
        from ..runner.plans import read_plan

        return read_plan(str(options.file), options.ranks, schedule=options.schedule, moves=options.moves)
    shipped = example(options.example) if options.example is not None else None
    program = load(shipped.path if shipped else str(options.file), language=options.language)
    limits: dict[str, Any] = {} if options.max_steps is None else {"max_steps": options.max_steps}
    kernel: RankKernel = compile_program(
        program,
        profile=resolve_profile(program, options.profile),
        entry=options.entry,
        grid=options.grid or 1,
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
    return kernel


def _values(kernel: RankKernel, options: RunOptions) -> dict[str, Any]:
    """Buffers and scalars: from a file, by options, or generated; the cells of signals are zeros."""
    arrays = load_arrays(options.inputs) if options.inputs is not None else {}
    unknown = [n for n in (*arrays, *options.scalars) if n not in {a.name for a in kernel.arguments}]
    if unknown:
        names = ", ".join(a.name for a in kernel.arguments)
        raise FileError(
            f"{options.inputs or '--arg'}: no argument is called {unknown[0]!r}; allowed: {names}"
        )
    types = {**kernel.buffers, **kernel.scalars}
    known = {n: _typed(a, types[n]) for n, a in arrays.items()}
    if options.example is not None:
        known = {**example(options.example).arguments(options.seed), **known}
    return generate(kernel, options.seed, {**known, **options.scalars})


def _typed(array: Any, d: Any) -> Any:
    """An array of a file, where types that NumPy lacks are nameless words."""
    if d is None or array.dtype.kind != "V" or array.dtype.itemsize != d.word.itemsize:
        return array
    return array.view(d.word)


def generate(kernel: RankKernel, seed: int, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Seeded values for what is not known: numbers of ranks by name, zeros for signals and for results."""
    rng, found = np.random.default_rng(seed), {}
    for argument in kernel.arguments:
        name = argument.name
        if known is not None and name in known:
            found[name] = known[name]
        elif name in kernel.scalars:
            found[name] = _number(rng, kernel, name)
        else:
            found[name] = _buffer(rng, kernel, name, random_values)
    return found


def _number(rng: np.random.Generator, kernel: RankKernel, name: str) -> Any:
    if _plain(name) in _RANK:
        return np.arange(kernel.ranks)
    if _plain(name) in _COUNT and any(_plain(other) in _RANK for other in kernel.scalars):
        return kernel.ranks
    d = kernel.scalars[name]
    return np.asarray(rng.integers(1, 8)).astype(d.numpy if d.kind != "index" else np.int32)


def _plain(name: str) -> str:
    """The name that a front end has numbered."""
    return name.split("__")[0]


def _buffer(rng: np.random.Generator, kernel: RankKernel, name: str, random: Any) -> Any:
    d, size = kernel.buffers[name], kernel.sizes.get(name, _ELEMENTS)
    if name in kernel.windows or name in kernel.signals:
        size = max(size, _ELEMENTS)
    size *= max(call.grid for call in kernel.kernels)
    shape = (kernel.ranks, size // 2 if d is not None and d.packed else size)
    if d is None:
        return np.zeros(shape, np.uint8)
    if name in kernel.signals or (name in kernel.outputs and name not in kernel.read):
        return np.zeros(shape, d.numpy)
    return random(rng, d, shape)


def _described(name: str, value: Any) -> str:
    array = np.asarray(value)
    if array.ndim == 0 or array.dtype == object or (array.ndim == 1 and array.size <= 64):
        return f"{name}={array.tolist()}"
    zeros = " zeros" if array.size and not array.any() else ""
    return f"{name} {array.dtype}{list(array.shape)}{zeros}"
