"""Benchmarks: ratios inside one run, always with the copy bandwidth measured in the same run.

``python -m benchmarks --help``, from the root of a checkout. Times are medians of several calls after a
warm-up, or the least of calls taken in turn; bandwidth counts every byte that a case must read and write
once.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import jax

from benchmarks import (
    bench_compile,
    bench_examples,
    bench_kernels,
    bench_plot,
    bench_registers,
    bench_table,
)
from benchmarks.bench_run import Figure, Run
from pto_jax.errors import ArgumentError, FileError
from pto_jax.examples import EXAMPLES
from pto_jax.files import write_text


def lockstep(run: Run) -> None:
    """Distinct random programs per second, made, executed and hashed in lockstep."""
    from benchmarks.bench_lockstep import figures

    for name, value, unit, target in figures():
        run.add(name, value, unit, target)


def campaign(run: Run) -> None:
    """Campaigns of a fixed seed: cases per second, time to the first, a worker's memory, coverage."""
    from benchmarks.bench_campaign import DECLINING, measured
    from pto_jax.campaign.fuzz.plan import Plan, in_lockstep

    usual = in_lockstep(Plan(tested="lockstep"))
    nothing = "python:benchmarks.bench_campaign:Nothing"
    # Braces are doubled, as in a command line with placeholders.
    script = DECLINING.replace("{", "{{").replace("}", "}}")
    server = f"dut-server:{shlex.join([sys.executable, '-S', '-c', script])}"
    device = in_lockstep(Plan(tested=server))
    straight = ("straight",)
    for name, plan, workers, target in (
        ("default", usual, 1, ""),
        (
            "lockstep, a server that costs nothing, 2 workers",
            replace(device, count=6 * device.batch),
            2,
            ">= 1000",
        ),
        ("a device that costs nothing", Plan(count=512, tested=nothing), 1, ""),
        ("oracle twice", Plan(count=256, tested="interpreter", presets=straight), 1, ""),
        ("oracle and engine", Plan(count=64, batch=16, presets=straight), 1, ""),
    ):
        result = measured(plan, workers)
        run.add(f"campaign, {name}: rate", result.rate, "cases/s", target)
        run.add(f"campaign, {name}: to the first result", result.first, "s")
        run.add(f"campaign, {name}: peak of the worker", result.memory / (1 << 20), "MiB")
        run.add(f"campaign, {name}: coverage", result.cells, "cells")


CASES: dict[str, Callable[[Run], None]] = {
    "add_relu_convert": bench_kernels.add_relu_convert,
    "exact_over_fast": bench_kernels.exact_over_fast,
    "tile_cost": bench_kernels.tile_cost,
    "call_overhead": bench_kernels.call_overhead,
    "access_checks": bench_kernels.access_checks,
    "map_cost": bench_kernels.map_cost,
    "ranks": bench_kernels.ranks,
    "register_loops": bench_registers.register_loops,
    "editor": bench_compile.editor,
    "compile_time": bench_compile.compile_time,
    "compile_curve": bench_compile.compile_curve,
    "compile_loops": bench_compile.compile_loops,
    "examples": bench_examples.shipped_examples,
    "lockstep": lockstep,
    "campaign": campaign,
}


#: Before the name of an example, one benchmark.
EXAMPLE = "example:"


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    result = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure pto_jax; ratios inside one run can be compared between computers.",
        epilog="examples: python -m benchmarks examples --json figures.json; python -m benchmarks --check",
        allow_abbrev=False,
    )
    result.add_argument("names", nargs="*", metavar="NAME", help="which (default: all; example:softmax: one)")
    result.add_argument("--json", metavar="OUT", help="write the figures as JSON")
    result.add_argument(
        "--check", action="store_true", help="exit 1 where a ratio is 25 %% worse than the table's"
    )
    result.add_argument("--update", action="store_true", help="write the ratios to the table")
    result.add_argument("--table", metavar="FILE", help="the table (default: benchmarks/bench_table.json)")
    result.add_argument("--plot", metavar="FILE", help="draw the ratios: .png, .svg or .pdf, by matplotlib")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks that a command line names; the exit status: 1 worse than the table, 2 wrong use."""
    command = parser()
    args = command.parse_args(argv)
    try:
        return measure(args.names, args.json, args.check, args.update, args.table, args.plot)
    except (ArgumentError, FileError, OSError) as error:
        print(f"{command.prog}: error: {error}", file=sys.stderr)
        return 2


def measure(
    names: Sequence[str],
    json_out: str | None,
    check: bool = False,
    update: bool = False,
    table: str | None = None,
    plot: str | None = None,
) -> int:
    """Run the named benchmarks (all without names); the exit status.

    With ``check`` it is 1 where a ratio is worse than that of the table; ``update`` writes the ratios to it.
    """
    singles = {f"{EXAMPLE}{n}": partial(bench_examples.shipped_example, name=n) for n in EXAMPLES}
    unknown = [n for n in names if n not in CASES and n not in singles]
    if unknown:
        names_allowed = f"{', '.join(CASES)}, {EXAMPLE}NAME"
        raise ArgumentError(f"no benchmark {', '.join(unknown)}; allowed: {names_allowed}")
    path = table or bench_table.default_table()
    known = bench_table.Table.read(path) if check else None
    if plot is not None:
        bench_plot.require(plot)
    device = jax.devices()[0]
    if known is not None:
        known.require(device.platform)
    print(f"device: {device.device_kind}, {jax.device_count()} device(s); jax {jax.__version__}")
    run = Run()
    for name in names or CASES:
        case = CASES.get(name) or singles[name]
        print(f"{name}: {(getattr(case, 'func', case).__doc__ or '').splitlines()[0]}", flush=True)
        _measure(case, run, known)
    if json_out:
        listed = [asdict(f) for f in run.figures]
        write_text(json_out, json.dumps({"device": device.device_kind, "figures": listed}, indent=1) + "\n")
    if plot is not None:
        bench_plot.draw(plot, run.figures, f"{device.device_kind}, jax {jax.__version__}")
    if update:
        bench_table.Table.of(run.figures, device.platform, device.device_kind).written_over(path)
    regressions = known.regressions(run.figures) if known is not None else []
    for line in regressions:
        print(f"regression: {line}", file=sys.stderr)
    return 1 if regressions else 0


def _measure(case: Callable[[Run], None], run: Run, known: bench_table.Table | None) -> None:
    """Add a case's figures; where ratios are worse than the table's, the better ones of two runs."""
    before = len(run.figures)
    case(run)
    if known is None or not known.regressions(run.figures[before:]):
        return
    print("  worse than the table; once more:", flush=True)
    first, run.figures[before:] = run.figures[before:], []
    case(run)
    earlier = {f.name: f for f in first}
    run.figures[before:] = [_better(f, earlier.get(f.name)) for f in run.figures[before:]]


def _better(figure: Figure, other: Figure | None) -> Figure:
    if other is None or not figure.better:
        return figure
    choose = max if figure.better == "higher" else min
    return replace(figure, value=choose(figure.value, other.value))
