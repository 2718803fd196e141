"""The command ``emit``: cases as folders for simulators and boards."""

import argparse

from ..errors import ArgumentError
from ..profiles import PROFILE_NAMES
from .options import Adder, add_examples, of_command


def add(command: Adder) -> None:
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
        "--preset", action="append", metavar="NAME", help="options of the generator; repeatable: in turn"
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
    where.add_argument("--vectors", metavar="DIR", help="also every executed instruction as a test vector")


def _emit(args: argparse.Namespace) -> int:
    from ..campaign.devices.emit import EmitOptions, emit

    if args.inputs is not None and len(args.files) != 1:
        raise ArgumentError(f"--inputs with {len(args.files)} files; it belongs to exactly one FILE")
    if args.files and (args.preset or args.form == "kernel"):
        raise ArgumentError("--preset and --form are for generated programs; give either FILEs or these")
    for name in ("start", "seed"):
        if getattr(args, name) < 0:
            raise ArgumentError(f"--{name} is {getattr(args, name)}; 0 or more is needed")
    if args.count is not None and args.count < 1:
        raise ArgumentError(f"--count is {args.count}; 1 or more is needed")
    presets = tuple(args.preset or ())
    report = emit(of_command(EmitOptions, args, files=tuple(args.files), presets=presets))
    print(report.text())
    return report.status
