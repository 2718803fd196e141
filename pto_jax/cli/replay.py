"""The command ``replay``."""

import argparse
import sys

from ..files.terminal import one_line
from .options import Adder, add_examples, flag

_STATUS = {"reproduced": 1, "different": 1, "gone": 0, "refused": 2}


def add(command: Adder) -> None:
    """Define the command."""
    sub = command("replay", _replay, "Execute the failure in a folder again; exit status 1 while it shows.")
    sub.add_argument("folder", metavar="DIR", help="a failure folder of fuzz, or a folder of some")
    sub.add_argument("--against", metavar="MACHINE", help="another reference than the report's")
    sub.add_argument("--tested", metavar="MACHINE", help="another tested machine than the report's")
    flag(sub, "--original", "the program it was found with")
    flag(
        sub,
        "--trust",
        "also execute command lines (dut: and alike) and modules (python:) that only DIR names",
    )
    add_examples(
        sub,
        ("replay failures/", "what folders recorded, nothing that they name is executed"),
        ("replay failures/0001 --tested jit", "on a machine of your choice"),
    )
    sub.add_argument("--dut-timeout", type=float, metavar="S", help="seconds (default: 60)")


def _replay(args: argparse.Namespace) -> int:
    from ..campaign.machines import DUT_TIMEOUT
    from ..campaign.shrink.reading import folders
    from ..campaign.shrink.replay import replay
    from ..errors import ArgumentError

    timeout = DUT_TIMEOUT if args.dut_timeout is None else args.dut_timeout
    if not timeout > 0:
        raise ArgumentError(f"--dut-timeout is {timeout}; more than 0 is needed")
    status = 0
    for folder in folders(args.folder):
        result = replay(folder, args.against, args.tested, args.original, timeout, args.trust)
        for machine in result.withheld:
            print(
                f"pto-jax replay: error: {folder}: not executed: {one_line(machine)}; allow it with --trust, "
                "or name a machine with --tested or --against",
                file=sys.stderr,
            )
        print(result.text, file=sys.stderr if result.verdict == "refused" else sys.stdout)
        status = max(status, 2 if result.withheld else _STATUS[result.verdict])
    return status
