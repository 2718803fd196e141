"""The commands ``replay``, ``emit`` and ``shrink``."""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ArgumentError, PtoError
from ..files.terminal import one_line
from ..profiles import PROFILE_NAMES
from .options import Adder, add_examples, flag, of_command

_STATUS = {"reproduced": 1, "different": 1, "gone": 0, "refused": 2}


def add(command: Adder) -> None:
    """Define the command."""
    sub = command("replay", _replay, "Run the failure in a folder again; exit status 1 if it still occurs.")
    sub.add_argument("folder", metavar="DIR", help="a failure folder of fuzz, or a folder of some")
    sub.add_argument("--against", metavar="EXECUTOR", help="another reference than the report's")
    sub.add_argument("--tested", metavar="EXECUTOR", help="another executor than the report's")
    flag(sub, "--original", "the program before it was shrunk")
    flag(
        sub,
        "--trust",
        "also execute command lines (dut: and alike) and modules (python:) that only DIR names",
    )
    add_examples(
        sub,
        ("replay failures/", "compare the recorded results; run nothing that the folders name"),
        ("replay failures/0001 --tested jit", "on an executor of your choice"),
    )
    sub.add_argument("--dut-timeout", type=float, metavar="S", help="seconds (default: 60)")


def _replay(args: argparse.Namespace) -> int:
    from ..devices.machines import DUT_TIMEOUT
    from ..failures.folder import read_folders, replay

    timeout = DUT_TIMEOUT if args.dut_timeout is None else args.dut_timeout
    if not timeout > 0:
        raise ArgumentError(f"--dut-timeout: got {timeout}", allowed="more than 0")

    def judged(folder: Path) -> int:
        result = replay(folder, args.against, args.tested, args.original, timeout, args.trust)
        for machine in result.withheld:
            _withheld(args, folder, machine)
        print(result.text, file=sys.stderr if result.verdict == "refused" else sys.stdout)
        return 2 if result.withheld else _STATUS[result.verdict]

    return _each(args, read_folders(args.folder), judged)


def _each(args: argparse.Namespace, folders: Sequence[Path], judged: Callable[[Path], int]) -> int:
    """The worst status of some folders; one that is damaged is told, and the others follow."""
    status = 0
    for folder in folders:
        try:
            status = max(status, judged(folder))
        except ArgumentError:
            raise
        except PtoError as error:
            text = one_line(str(error).partition("\n")[0])
            print(f"pto-jax {args.name}: error: {text}", file=sys.stderr)
            status = 2
    return status


def _withheld(args: argparse.Namespace, folder: Path, machine: str) -> None:
    print(
        f"pto-jax {args.name}: error: {folder}: not executed: {one_line(machine)}; allow it with --trust, or "
        "name a machine with --tested or --against",
        file=sys.stderr,
    )


def add_emit(command: Adder) -> None:
    """Define the command."""
    sub = command("emit", _emit, "Write cases as folders: program, C++, inputs and expected outputs.")
    sub.epilog = (
        "Cases that cannot be written are skipped and listed with the reason. Exit status 0: some were "
        "written, 1: none was, 2: wrong use."
    )
    add_examples(
        sub,
        (
            "emit --seed 1 --count 100 --out cases/ --cpp auto",
            "generated programs with a host program in C++",
        ),
        ("emit k.pto --inputs in.npz --out cases/", "one program with its inputs"),
    )
    what = sub.add_argument_group("programs")
    what.add_argument("files", nargs="*", metavar="FILE", help=".pto files; generated programs without")
    what.add_argument("--inputs", metavar="IN.npz", help="inputs of the one FILE (default: generated)")
    what.add_argument("--entry", metavar="F", help="function of the FILEs (default: every entry)")
    what.add_argument("--grid", type=int, metavar="N", help="blocks of the FILEs (default: generated)")
    what.add_argument("--seed", type=int, default=0, metavar="S", help="seed of all cases (default: 0)")
    what.add_argument(
        "--count", type=int, metavar="N", help="cases (default: one per FILE and entry, or 10 generated ones)"
    )
    what.add_argument("--start", type=int, default=0, metavar="N", help="index of the first (default: 0)")
    what.add_argument(
        "--preset", action="append", metavar="NAME", help="options of the generator; repeat it to alternate"
    )
    what.add_argument(
        "--form",
        choices=("any", "kernel"),
        default="any",
        help="kernel: functions over pointers (default: any)",
    )
    what.add_argument("--profile", choices=PROFILE_NAMES, help="default: the program's, or any")
    where = sub.add_argument_group("results")
    where.add_argument("--out", required=True, metavar="DIR", help="folder of the case folders")
    where.add_argument(
        "--cpp",
        choices=("auto", "manual"),
        help="also C++ for the CPU simulator; manual: with addresses and synchronisation",
    )
    where.add_argument(
        "--vectors", metavar="DIR", help="also executed instructions as test vectors (with --profile)"
    )


def _emit(args: argparse.Namespace) -> int:
    from ..campaign.emit import EmitOptions, emit

    if args.inputs is not None and len(args.files) != 1:
        raise ArgumentError(f"--inputs: got {len(args.files)} files", allowed="one FILE")
    if args.files and (args.preset or args.form == "kernel"):
        raise ArgumentError("got FILEs with --preset or --form kernel", allowed="either")
    if args.vectors and args.profile is None:
        got = "got --vectors without --profile: vectors do not say theirs, and conformance takes one for all"
        raise ArgumentError(got, fix="--profile cpu_sim")
    for name in ("start", "seed"):
        if getattr(args, name) < 0:
            raise ArgumentError(f"--{name}: got {getattr(args, name)}", allowed="0 or more")
    if args.count is not None and args.count < 1:
        raise ArgumentError(f"--count: got {args.count}", allowed="1 or more")
    presets = tuple(args.preset or ())
    report = emit(of_command(EmitOptions, args, files=tuple(args.files), presets=presets))
    print(report.text())
    return report.status


_SHRINK_STATUS = {"smaller": 0, "as small": 0, "gone": 1, "different": 1, "withheld": 2}


def add_shrink(command: Adder) -> None:
    """Define the command."""
    sub = command("shrink", _shrink, "Shrink stored failures, and list the conditions of each.")
    sub.add_argument("folder", metavar="DIR", help="a failure folder of fuzz, or a folder of some")
    sub.add_argument(
        "--calls", type=int, default=1000, metavar="N", help="cases on both executors (default: 1000)"
    )
    sub.add_argument("--seconds", type=float, metavar="S", help="per folder (default: no limit)")
    sub.add_argument("--against", metavar="EXECUTOR", help="another reference than the report's")
    sub.add_argument("--tested", metavar="EXECUTOR", help="another executor than the report's")
    flag(
        sub,
        "--trust",
        "also execute command lines (dut: and alike) and modules (python:) that only DIR names",
    )
    add_examples(sub, ("shrink failures/ --trust --calls 2000", "continue with all failures of a campaign"))
    sub.add_argument("--dut-timeout", type=float, default=60.0, metavar="S", help="seconds (default: 60)")


def _shrink(args: argparse.Namespace) -> int:
    from ..failures.folder import read_folders, shrink_folder

    for name in ("calls", "seconds", "dut_timeout"):
        if (value := getattr(args, name)) is not None and not value > 0:
            raise ArgumentError(f"--{name.replace('_', '-')}: got {value:g}", allowed="more than 0")

    def judged(folder: Path) -> int:
        result = shrink_folder(
            folder,
            args.calls,
            math.inf if args.seconds is None else args.seconds,
            against=args.against,
            tested=args.tested,
            trust=args.trust,
            timeout=args.dut_timeout,
        )
        if result.verdict == "withheld":
            _withheld(args, folder, result.text)
        else:
            print(f"{folder}: {result.verdict}: {result.text}")
        return _SHRINK_STATUS[result.verdict]

    return _each(args, read_folders(args.folder), judged)
