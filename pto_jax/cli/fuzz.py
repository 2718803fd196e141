"""The command ``fuzz``: its options, the plan that they describe, and ``--exhaustive``."""

from __future__ import annotations

import argparse
import errno
import json
import math
import os
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from ..devices import contract
from ..errors import ArgumentError, FileError
from ..files.read import unusable
from ..profiles import PROFILE_NAMES
from .options import Adder, flag
from .rank_options import add_windows

#: The interrupt key ended the command.
_INTERRUPTED = 130
#: What --known cannot do where nothing says which instruction is at fault.
_UNTOLD = "pto-jax fuzz: warning: without shrinking all wrong values of a result are one group for --known"
#: Most worker processes when nothing is said.
_WORKERS = 8
_EXAMPLES = """\
examples, with rates on two cores:
  pto-jax fuzz                                           20 programs/s and more: this engine in lockstep
                                                         against the interpreter, under a minute
  pto-jax fuzz --count 5000 --store run.db               3 minutes; Ctrl-C at any time, then again with
                                                         --resume
  pto-jax fuzz --dut './sim {program} {inputs} {outputs}'
                                                         20 programs/s and more beside the device's time
  pto-jax fuzz --lockstep --dut-server ./sim --count 100000
                                                         a process that answers case after case: compiling
                                                         takes a minute, then hundreds of programs/s
  pto-jax fuzz --only tcvt tquant --dtype f16            these instructions, with an operand of this type
  pto-jax fuzz --exhaustive --only tcvt --dtype f16      all 65,536 inputs of every mode of these conversions
  pto-jax fuzz --dut ./sim --goal goal.toml              aim at coverage targets and list those not reached:
                                                         [[bins]]
                                                         instruction = ["tcvt", "reduce_expand"]
                                                         type = "*"
                                                         region = ["odd", "empty"]
                                                         at_least = 3
  pto-jax fuzz --dut ./sim --programs k.pto --mutate     legal mutations of your programs
  pto-jax fuzz --dut ./sim --weight matrix=0 --explain   the choices of the generator, without a run
  pto-jax fuzz --tested oracle                           the interpreter alone: rate, coverage, determinism
  pto-jax fuzz --tested jit --count 100                  every kind of program, each compiled for one
                                                         to five seconds, 3 minutes
  pto-jax fuzz --lockstep --against lockstep:grouped --count 10000000
                                                         2 minutes to compile, then 50,000 programs/s
  pto-jax fuzz --preset overlaps --tested vmap --count 200
                                                         programs that read and write the same memory, on a
                                                         batch: XLA_FLAGS=--xla_backend_optimization_level=0
                                                         compiles them faster
  pto-jax fuzz --tested races                            programs that order their pipes: no finding of the
                                                         check, and the same bits in another legal order
  pto-jax fuzz --preset ranks --tested races             programs on 2 to 4 processors: no finding and one
                                                         result in all orders, and a finding for mutants
  pto-jax fuzz --preset ranks --tested jit               the same programs, compiled
  pto-jax fuzz --programs ring.pto --ranks 4 --shared y,s --context ctx=y --tested races
                                                         your program on 4 processors, on generated inputs
  pto-jax fuzz --tested races --programs k.pto --mutate
                                                         mutants that lose order: those without a finding
                                                         have to give the same bits
executors: oracle eager jit vmap fast profile:NAME lockstep sanitizer races dut:COMMAND dut-server:COMMAND
  shard_map python:MODULE:NAME; all but lockstep and commands take a profile: oracle:a5
"""


#: Options whose names are those of a focus's fields.
_FOCUS = (
    ("--only", "only", "NAME", "instructions"),
    ("--dtype", "dtypes", "TYPE", "element types, of one operand at least; 'f32->i32': of source and result"),
    ("--layout", "layouts", "LAYOUT", "row col nz zn zz nn, of one tile at least"),
    ("--region", "regions", "KIND", "valid regions: full partial odd empty dynamic"),
    ("--values", "values", "RECIPE", "uniform bits specials ties overflow mixed sorted constant sparse rare"),
    ("--weight", "weights", "NAME=W", "factors for instructions and classes: tcvt=5 matrix=0"),
)


def add(command: Adder) -> None:
    """Define the command."""
    sub = command("fuzz", _fuzz, "Run random programs on two executors and store the cases that differ.")
    sub.set_defaults(parser=sub)
    sub.epilog, sub.formatter_class = _EXAMPLES, argparse.RawDescriptionHelpFormatter
    what = sub.add_argument_group("programs")
    what.add_argument("--seed", type=int, default=0, metavar="S", help="seed of all cases (default: 0)")
    what.add_argument(
        "--count", type=int, metavar="N", help="cases (default: 1000; with --minutes: until these are over)"
    )
    what.add_argument("--start", type=int, default=0, metavar="N", help="index of the first (default: 0)")
    what.add_argument("--profile", action="append", choices=PROFILE_NAMES, help="repeatable; default: all")
    what.add_argument(
        "--preset", action="append", metavar="NAME", help="options of the generator; repeat it to alternate"
    )
    add_windows(sub, scalars=False)
    focus = sub.add_argument_group("focus of generated programs (each option takes several names)")
    for option, dest, metavar, help_text in _FOCUS:
        focus.add_argument(option, dest=dest, nargs="+", default=(), metavar=metavar, help=help_text)
    focus.add_argument(
        "--goal",
        metavar="FILE.toml",
        help="coverage targets; the summary lists those not reached",
    )
    flag(focus, "--explain", "print the choices of the generator, and stop")
    flag(focus, "--full", "with --explain: every value, also of long tables")
    flag(focus, "--json", "with --explain: as JSON, with counts; with --exhaustive: the results as JSON")
    flag(focus, "--list-presets", "print the presets with their purpose, and stop")
    what.add_argument(
        "--programs",
        nargs="+",
        metavar="PATH",
        help="your programs: files, and folders of .pto files or C++ kernels",
    )
    what.add_argument(
        "--form",
        choices=("any", "kernel"),
        help="kernel: functions over pointers, also while shrinking (default for devices under test)",
    )
    flag(
        what,
        "--mutate",
        "your programs unchanged, then with other instructions, attributes, types and sizes",
    )
    flag(
        what,
        "--exhaustive",
        "no random programs: every input of lane-wise instructions whose sources have 16 bits together, for "
        "every legal combination of types and attributes (--only, --dtype, --profile; tested: jit)",
    )
    what.add_argument("--entry", metavar="F", help="function of your programs (default: every entry)")
    what.add_argument("--grid", type=int, metavar="N", help="blocks of programs (default: generated)")
    executors = sub.add_argument_group("executors")
    executors.add_argument(
        "--tested",
        metavar="EXECUTOR",
        help="executor under test (default: lockstep; eager with --preset, --programs or --against)",
    )
    executors.add_argument("--against", metavar="EXECUTOR", help="reference (default: oracle)")
    executors.add_argument("--dut", metavar="CMD", help="test a command line: {program} {inputs} {outputs}")
    executors.add_argument(
        "--dut-server", metavar="CMD", help="test a command line that answers case after case"
    )
    executors.add_argument("--help-dut", action=contract.Help, help="the contract of a device under test")
    for name, seconds in (("--dut-timeout", None), ("--case-timeout", 60.0)):
        executors.add_argument(name, type=float, default=seconds, metavar="S", help="default: 60 seconds")
    flag(executors, "--lockstep", "many programs at once, made as arrays")
    where = sub.add_argument_group("execution")
    where.add_argument(
        "--workers",
        type=int,
        metavar="W",
        help=f"processes (default: one per core, {_WORKERS} at most; 1 where JAX has an accelerator)",
    )
    where.add_argument(
        "--worker-memory",
        type=float,
        default=4096.0,
        metavar="MIB",
        help="a worker that holds more is replaced (default: 4096)",
    )
    where.add_argument("--batch", type=int, metavar="N", help="cases of a block")
    where.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="a Dask cluster executes the blocks: tcp://HOST:PORT, or the file of a scheduler; workers "
        "share this folder, and can join or leave (extra: distributed)",
    )
    where.add_argument("--store", metavar="FILE", help="SQLite file for results")
    flag(
        where,
        "--resume",
        "continue the campaign of the store with its options; a larger --count makes it longer",
    )
    flag(where, "--trust", "allow running the device command that FILE names")
    where.add_argument("--failures", default="failures", metavar="DIR", help="default: failures")
    where.add_argument(
        "--shrink-calls",
        type=int,
        default=400,
        metavar="N",
        help="cases that both executors may run to shrink a failure; 0: no shrinking (default: 400)",
    )
    where.add_argument(
        "--shrink-seconds",
        type=float,
        metavar="S",
        help="seconds per failure; 0: no shrinking (default: 20; of a device, its calls alone count)",
    )
    where.add_argument(
        "--max-failures",
        type=int,
        default=100,
        metavar="N",
        help="stop after N failures; 0: never (default: 100)",
    )
    where.add_argument("--minutes", type=float, metavar="M", help="stop after M minutes; --resume continues")
    checks = sub.add_argument_group("continuous integration")
    checks.add_argument(
        "--known",
        metavar="FILE",
        help="baseline of failure groups, which do not count (report --known writes it)",
    )
    checks.add_argument(
        "--min-compared",
        type=int,
        default=1,
        metavar="N",
        help="exit status 1 with fewer compared cases (default: 1)",
    )
    flag(checks, "--first-new", "stop at the first failure group that --known does not list")
    checks.add_argument(
        "--junit", metavar="OUT.xml", help="write the failure groups as JUnit, those of --known as skipped"
    )
    flag(where, "--quiet", "no progress on stderr")


def _fuzz(args: argparse.Namespace) -> int:
    from ..campaign.fuzz import campaign
    from ..campaign.fuzz.campaign import junit_cases, summary, too_few
    from ..campaign.fuzz.plan import Plan
    from ..campaign.fuzz.progress import ENDLESS
    from ..failures.folders import read_known
    from ..failures.junit import write_junit
    from ..files.terminal import table
    from ..generate.options import DESCRIPTIONS, PRESETS
    from . import fuzz_plan
    from .fuzz_plan import plan_of_store, resumed

    _check_numbers(args)
    if args.list_presets:
        print("\n".join(table([(name, DESCRIPTIONS[name]) for name in PRESETS])))
        return 0
    if args.exhaustive:
        return fuzz_plan.fuzz_exhaustive(args)
    for option, users in (("full", "--explain"), ("json", "--explain or --exhaustive")):
        if getattr(args, option) and not args.explain:
            raise ArgumentError(f"got --{option} alone", allowed=f"with {users}")
    plan = plan_of_store(args)
    if plan is None:
        # Asked for in minutes, a campaign has no last case.
        args.count = args.count or (Plan.count if args.minutes is None else ENDLESS)
        plan = fuzz_plan.plan_of(args)
    if args.explain:
        from ..campaign.fuzz import explanation

        print(
            json.dumps(explanation.to_json(plan), indent=2)
            if args.json
            else explanation.explain(plan, args.full)
        )
        return 0
    _check_folder(plan.failures)
    store = _store(args)
    causes = read_known(args.known) if args.known else frozenset()
    if causes and not (plan.shrink_calls and plan.shrink_seconds):
        print(_UNTOLD, file=sys.stderr)
    setup = campaign.Setup(
        plan,
        store,
        args.resume,
        args.workers or _workers(args.worker_memory),
        args.max_failures,
        args.worker_memory * (1 << 20),
        causes,
        args.first_new,
        math.inf if args.minutes is None else 60 * args.minutes,
        args.scheduler,
    )
    result = campaign.run(setup, None if args.quiet else sys.stderr)
    with result.store:
        if result.ended != campaign.FINISHED:
            if result.ended == campaign.STOPPED:
                args.max_failures += result.failures
            note = f"to continue: {resumed(args)}" if store else "--store FILE would keep what is done"
            print(f"pto-jax fuzz: {result.ended}; {note}", file=sys.stderr)
        print(summary(result.store, causes))
        if result.rate:
            print(f"rate: {result.rate:.1f} cases/s")
        if args.junit:
            write_junit(args.junit, "pto-jax fuzz", junit_cases(result.store, causes, args.min_compared))
        if result.ended == campaign.INTERRUPTED:
            return _INTERRUPTED
        few = too_few(result.store, args.min_compared)
        if few:
            print(f"pto-jax fuzz: error: {few}", file=sys.stderr)
    return int(result.failures > 0 or result.rejected or bool(few))


def _store(args: argparse.Namespace) -> str | None:
    """The file of the store; ArgumentError for options that exclude each other."""
    if args.scheduler is not None and args.workers is not None:
        raise ArgumentError(
            "got --workers with --scheduler, whose cluster has workers", allowed="one of them"
        )
    if args.resume and not args.store:
        raise ArgumentError("got --resume without --store", fix="--store FILE, the store of the campaign")
    return args.store or None


def _check_folder(failures: str | None) -> None:
    """Raise FileError where failures cannot be written to their folder: not at the first of them."""
    if failures is None:
        return
    there = next(p for p in (Path(failures), *Path(failures).absolute().parents) if p.exists())
    if not there.is_dir():
        raise FileError(f"--failures {failures}: {there} is a file", allowed="a folder", fix="--failures DIR")
    if not os.access(there, os.W_OK | os.X_OK):
        denied = os.strerror(errno.EACCES)
        raise FileError(f"--failures {failures}: {there}: {denied}", allowed="a folder that you may write")


def _workers(memory: float) -> int:
    """Worker processes when nothing is said; an accelerator is for one process.

    As many as there are cores, and as many as may hold ``memory`` MiB each.
    """
    platforms = os.environ.get("JAX_PLATFORMS", "")
    accelerator = any(entry_points(group="jax_plugins")) or find_spec("jax_plugins") or find_spec("libtpu")
    if platforms != "cpu" and (platforms or accelerator):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        held = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (max(memory, 1) * (1 << 20))
    except (AttributeError, ValueError, OSError):
        held = float(cores)
    return int(max(1, min(cores, _WORKERS, held)))


def _check_numbers(args: argparse.Namespace) -> None:
    if args.junit and not Path(args.junit).parent.is_dir():
        # Not at the end of the campaign.
        raise unusable(args.junit, "written", FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    least: dict[str, float] = {"seed": 0, "start": 0, "shrink_seconds": 0, "max_failures": 0}
    least["worker_memory"] = least["shrink_calls"] = least["min_compared"] = 0
    for name in ("count", "workers", "batch", "grid"):
        least[name] = 1
    for name, smallest in least.items():
        value = getattr(args, name)
        if value is not None and not value >= smallest:
            raise ArgumentError(f"--{name.replace('_', '-')}: got {value}", allowed=f"{smallest:g} or more")
    if args.minutes is not None and not args.minutes > 0:
        raise ArgumentError(f"--minutes: got {args.minutes:g}", allowed="more than 0")
    for name in ("case_timeout", "dut_timeout"):
        if (seconds := getattr(args, name)) is not None and not seconds > 0:
            raise ArgumentError(f"--{name.replace('_', '-')}: got {seconds:g}", allowed="more than 0 seconds")
    for name in ("seed", "start", "count"):
        if (getattr(args, name) or 0) >= 1 << 62:
            raise ArgumentError(f"--{name}: got {getattr(args, name)}", allowed="less than 2**62")
