"""The command ``step``: kernels of a folder executed in the order that a description gives."""

import argparse
import sys
import warnings

from ..errors import ArgumentError, PtoWarning
from ..files import load_arrays, save_arrays
from ..profiles import PROFILE_NAMES
from .options import ACCEPTED, Adder, add_examples


def add(command: Adder) -> None:
    """Define the command."""
    sub = command("step", _step, "Execute the kernels of a folder in order, with buffers that they share.")
    sub.add_argument("folder", metavar="FOLDER", help="kernels (.pto, .cpp) and launches.json")
    sub.add_argument("--launches", metavar="FILE", help="description (default: FOLDER/launches.json)")
    sub.add_argument("--inputs", metavar="IN.npz", help="buffers by name; others are zeros as described")
    sub.add_argument("--outputs", metavar="OUT.npz", help="write every buffer at the end")
    sub.add_argument("--profile", choices=PROFILE_NAMES, help="default: that of the description or the texts")
    sub.add_argument(
        "--executor",
        choices=("engine", "interpreter"),
        default="engine",
        help="compiled, or without compilation (default: engine)",
    )
    add_examples(
        sub,
        ("step build/ --inputs in.npz --outputs out.npz", "a model step without a board"),
        ("step build/ --executor interpreter", "nothing is compiled"),
    )


def _step(args: argparse.Namespace) -> int:
    from ..runner import Launch, run
    from ..runtime.array_files import storable

    arrays = load_arrays(args.inputs) if args.inputs else {}

    def show(number: int, launch: Launch, written: tuple[str, ...]) -> None:
        blocks = f"{launch.blocks} block{'' if launch.blocks == 1 else 's'}"
        print(f"{number}: {launch.kernel}, {blocks}: writes {', '.join(written) or 'nothing'}", flush=True)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PtoWarning)
        result = run(
            args.folder, arrays, args.launches, profile=args.profile, executor=args.executor, observer=show
        )
    for warning in caught:
        print(f"pto-jax step: warning: {warning.message}", file=sys.stderr)
    if not result:
        raise ArgumentError("the step has no buffers", fix="--inputs IN.npz")
    if args.outputs:
        save_arrays(args.outputs, {name: storable(a) for name, a in result.items()})
    print(f"buffers: {', '.join(result)}")
    return ACCEPTED
