"""The command ``shrink``."""

import argparse
import math
import sys

from ..files.terminal import one_line
from .options import Adder, add_examples, flag

_STATUS = {"smaller": 0, "as small": 0, "gone": 1, "withheld": 2}


def add(command: Adder) -> None:
    """Define the command."""
    sub = command("shrink", _shrink, "Make the failures in folders smaller, and say what they depend on.")
    sub.add_argument("folder", metavar="DIR", help="a failure folder of fuzz, or a folder of some")
    sub.add_argument(
        "--calls", type=int, default=1000, metavar="N", help="cases on both machines (default: 1000)"
    )
    sub.add_argument("--seconds", type=float, metavar="S", help="per folder (default: no limit)")
    sub.add_argument("--against", metavar="MACHINE", help="another reference than the report's")
    sub.add_argument("--tested", metavar="MACHINE", help="another tested machine than the report's")
    flag(
        sub,
        "--trust",
        "also execute command lines (dut: and alike) and modules (python:) that only DIR names",
    )
    add_examples(sub, ("shrink failures/ --trust --calls 2000", "go on with all failures of a campaign"))
    sub.add_argument("--dut-timeout", type=float, default=60.0, metavar="S", help="seconds (default: 60)")


def _shrink(args: argparse.Namespace) -> int:
    from ..campaign.shrink.further import shrink_folder
    from ..campaign.shrink.reading import folders
    from ..errors import ArgumentError

    for name in ("calls", "seconds", "dut_timeout"):
        if (value := getattr(args, name)) is not None and not value > 0:
            raise ArgumentError(f"--{name.replace('_', '-')} is {value:g}; more than 0 is needed")
    status = 0
    for folder in folders(args.folder):
        found = shrink_folder(
            folder,
            args.calls,
            math.inf if args.seconds is None else args.seconds,
            against=args.against,
            tested=args.tested,
            trust=args.trust,
            timeout=args.dut_timeout,
        )
        if found.verdict == "withheld":
            print(
                f"pto-jax shrink: error: {folder}: not executed: {one_line(found.text)}; allow it with "
                "--trust, or name a machine with --tested or --against",
                file=sys.stderr,
            )
        else:
            print(f"{folder}: {found.verdict}: {found.text}")
        status = max(status, _STATUS[found.verdict])
    return status
