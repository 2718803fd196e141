"""Options of commands for several ranks: windows, context records, peers, scalars, orders."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from ..errors import ArgumentError
from .options import Launch

#: Options whose values have another name.
_OPTIONS = {"moves": "async"}


def add_windows(sub: argparse.ArgumentParser, *, scalars: bool = True) -> argparse._ArgumentGroup:
    """Define the options that say what arguments are on several ranks; ``scalars``: ``--arg``, too."""
    group = sub.add_argument_group("several ranks")
    group.add_argument("--ranks", type=int, metavar="N", help="processors that execute the program")
    group.add_argument("--shared", default="", metavar="A,B", help="buffers that are windows of all ranks")
    group.add_argument(
        "--context",
        action="append",
        default=[],
        metavar="CTX=X",
        help="CTX is the context record of window X",
    )
    group.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="A=X:R",
        help="A is rank R's part of X; R,R,..: by rank",
    )
    if scalars:
        group.add_argument(
            "--arg",
            action="append",
            default=[],
            metavar="NAME=N",
            help="a scalar argument; NAME=N,N,..: one for each rank",
        )
    return group


def add_options(sub: argparse.ArgumentParser) -> None:
    """Define the options of ``run`` for ranks."""
    group = add_windows(sub)
    group.add_argument("--schedule", type=int, metavar="SEED", help="another order of all cores, by its seed")
    group.add_argument(
        "--async",
        dest="moves",
        choices=("issue", "wait"),
        default="issue",
        help="when asynchronous copies move their data (default: issue)",
    )
    group.add_argument(
        "--sync",
        choices=("auto", "as-written", "both"),
        default="auto",
        help="order of the pipes of a core in the verdict (default: as the text looks)",
    )


def given(args: argparse.Namespace) -> dict[str, Any]:
    """The options of ranks as their values."""
    return {
        "shared": tuple(n.strip().removeprefix("%") for n in args.shared.split(",") if n.strip()),
        "context": _once("--context", (_pair("--context", "CTX=X", text) for text in args.context)),
        "peers": _once("--peer", map(_peer, args.peer)),
        "scalars": _once("--arg", map(_scalar, getattr(args, "arg", ()))),
    }


def _once(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """What an option says of arguments; ArgumentError where it says two things of one."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ArgumentError(f"{option}: got {name!r} twice", allowed="each argument once")
        values[name] = value
    return values


def require_ranks(args: argparse.Namespace, **defaults: Any) -> None:
    """ArgumentError for options of ranks where nothing says how many there are.

    ``defaults`` are further options of ranks by the names of their values.
    """
    for name, default in {"shared": "", "context": [], "peer": [], **defaults}.items():
        if getattr(args, name) != default:
            option = _OPTIONS.get(name, name)
            raise ArgumentError(f"got --{option} without --ranks", allowed="both", fix="--ranks 2")


def written(launch: Launch) -> list[str]:
    """The words of a command line that say the same of ranks."""
    if launch.ranks is None:
        return []
    peers = [
        f"--peer={n}={x}:{r if isinstance(r, int) else ','.join(map(str, r))}"
        for n, (x, r) in launch.peers.items()
    ]
    shared = [f"--shared={','.join(launch.shared)}"] if launch.shared else []
    records = [f"--context={n}={x}" for n, x in launch.context.items()]
    return [f"--ranks={launch.ranks}", *shared, *records, *peers]


_NUMBERS = "NAME=N or NAME=N,N,..."


def is_plan(file: str | None) -> bool:
    """Whether a file is a plan of kernels on several ranks."""
    return (file or "").endswith(".json")


def _pair(option: str, form: str, text: str) -> tuple[str, str]:
    name, _, value = (part.strip() for part in text.partition("="))
    if not name or not value:
        fix = f"{option} {name}=4" if form == _NUMBERS and name else ""
        raise ArgumentError(f"{option}: got {text}", allowed=form, fix=fix)
    return name.removeprefix("%"), value.removeprefix("%")


def _peer(text: str) -> tuple[str, tuple[str, int | tuple[int, ...]]]:
    form = "A=X:R or A=X:R,R,..."
    name, value = _pair("--peer", form, text)
    buffer, _, numbers = value.partition(":")
    try:
        ranks = tuple(map(int, numbers.split(",")))
    except ValueError:
        raise ArgumentError(f"--peer: got {text}", allowed=form) from None
    return name, (buffer, ranks[0] if len(ranks) == 1 else ranks)


def _scalar(text: str) -> tuple[str, Any]:
    name, value = _pair("--arg", _NUMBERS, text)
    try:
        numbers = [float(n) if "." in n else int(n, 0) for n in value.split(",")]
    except ValueError:
        raise ArgumentError(f"--arg: got {text}", allowed=_NUMBERS, fix=f"--arg {name}=4") from None
    return name, numbers[0] if len(numbers) == 1 else numbers
