"""What the modules of the command line share: options, and how a command is defined."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from .. import errors, profiles
from ..ir import PRESENT, TEXT_LANGUAGES, TextLanguage

if TYPE_CHECKING:
    from ..runtime.debug.tracer import Detail

T = TypeVar("T")
#: ``uses``: where undefined data matters; ``strict``: every instruction that computes with it.
SanitizeMode = Literal["uses", "strict"]
ACCEPTED, REJECTED, USAGE, INTERRUPTED = 0, 1, 2, 130
#: Makes JAX's persistent cache, where one is configured, keep everything that is compiled.
KEEP_COMPILED = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    # Python source places of every operation make what is kept larger and slower to load.
    "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
}


def build_level(text: str) -> int:
    """The level that an option names, as a number or as the assembler writes it.

    >>> build_level("3"), build_level("Level1")
    (3, 1)
    """
    number = text.lower().removeprefix("level")
    if number not in ("1", "2", "3"):
        raise argparse.ArgumentTypeError(f"got {text!r}; allowed: 1, 2, 3, level1, level2, level3")
    return int(number)


class Adder(Protocol):
    """Adds a command with its one-line summary; gives the parser for its options."""

    def __call__(
        self, name: str, run: Callable[[argparse.Namespace], int], summary: str
    ) -> argparse.ArgumentParser:
        """Add the command ``name``, which ``run`` executes and returns the exit status of."""


def add_examples(sub: argparse.ArgumentParser, *examples: tuple[str, str]) -> None:
    """Show command lines (without ``pto-jax``) and what they do below the options of a command.

    >>> parser = argparse.ArgumentParser("pto-jax fmt")
    >>> add_examples(parser, ("fmt k.pto", "as it is"), ("fmt k.pto --form ssa", "in SSA form"))
    >>> parser.epilog.splitlines()[1]
    '  pto-jax fmt k.pto               as it is'
    """
    width = max(len(line) for line, _ in examples)
    lines = (f"  pto-jax {line:<{width}}    {meaning}" for line, meaning in examples)
    before = [fill(sub.epilog, 100), ""] if sub.epilog else []
    sub.epilog = "\n".join([*before, "examples:", *lines])
    sub.formatter_class = argparse.RawDescriptionHelpFormatter


def flag(group: argparse._ActionsContainer, option: str, meaning: str) -> None:
    """Define an option without a value."""
    group.add_argument(option, action="store_true", help=meaning)


def scalar(text: str) -> tuple[str, int]:
    """A scalar argument written ``name=number``."""
    name, _, number = text.partition("=")
    try:
        return name.removeprefix("%"), int(number, 0)
    except ValueError:
        raise errors.ArgumentError(f"--arg: got {text}", allowed="NAME=N with an integer N") from None


def ulp_bound(text: str) -> tuple[str, int]:
    """A bound in units in the last place, and the name that it is for; none for all.

    >>> ulp_bound("y=2"), ulp_bound("1")
    (('y', 2), ('', 1))
    """
    name, _, number = text.rpartition("=")
    if not number.isdecimal():
        raise errors.ArgumentError(f"--ulp: got {text}", allowed="N or NAME=N with N of 0 or more")
    return name.removeprefix("%"), int(number)


def add_language(sub: argparse.ArgumentParser) -> None:
    """Define the option that says which version of the language the command's files are in."""
    default = f"default: the one that the program names, else {PRESENT}"
    sub.add_argument("--language", choices=TEXT_LANGUAGES, help=f"version of the text language; {default}")


@dataclass(frozen=True)
class Watch:
    """What is watched: a trace in some detail, and the line to stop before."""

    trace: Detail | None = None
    limit: int = 1000
    lanes: int = 4
    stop: str | None = None

    def __post_init__(self) -> None:
        for name, n in (("--trace-limit", self.limit), ("--trace-lanes", self.lanes)):
            if n < 1:
                raise errors.ArgumentError(f"{name}: got {n}", allowed="1 or more")


class Launch(Protocol):
    """What options say of several ranks."""

    @property
    def ranks(self) -> int | None:
        """How many there are; None for one processor."""

    @property
    def shared(self) -> tuple[str, ...]:
        """The buffers that are windows."""

    @property
    def context(self) -> Mapping[str, str]:
        """Context records, with their windows."""

    @property
    def peers(self) -> Mapping[str, tuple[str, int | tuple[int, ...]]]:
        """Arguments that are parts of other ranks."""


@dataclass(frozen=True)
class RunOptions:
    """Options of the command ``run``, as given."""

    file: str | None
    example: str | None
    entry: str | None
    profile: str | None
    numerics: Literal["exact", "fast"]
    inputs: str | None
    outputs: str | None
    dump_state: str | None
    seed: int
    grid: int | None = None
    partial_launch: bool = False
    max_steps: int | None = None
    watch: Watch | None = None
    sanitize: SanitizeMode | None = None
    language: TextLanguage | None = None
    pictures: str | None = None
    ranks: int | None = None
    shared: tuple[str, ...] = ()
    context: Mapping[str, str] = field(default_factory=dict)
    peers: Mapping[str, tuple[str, int | tuple[int, ...]]] = field(default_factory=dict)
    scalars: Mapping[str, Any] = field(default_factory=dict)
    schedule: int | None = None
    moves: Literal["issue", "wait"] = "issue"
    sync: Literal["auto", "as-written", "both"] = "auto"


@dataclass(frozen=True)
class DiffOptions:
    """Options of the command ``diff``, as given."""

    before: str
    after: str | None
    more: tuple[str, ...] = ()
    corpus: bool = False
    series: bool = False
    sync: bool = False
    ulp: Mapping[str, int] = field(default_factory=dict)
    open: bool = False
    exhaustive: bool = False
    json: str | None = None
    junit: str | None = None
    workers: int | None = None
    count: int = 16
    seed: int = 0
    inputs: str | None = None
    profile: profiles.ProfileName | None = None
    numerics: str = "exact"
    grid: int = 1
    partial_launch: bool = False
    scalars: Mapping[str, Any] | None = None
    failures: str = "."
    entry: str | None = None
    language: TextLanguage | None = None
    language_after: TextLanguage | None = None
    ranks: int | None = None
    shared: tuple[str, ...] = ()
    context: Mapping[str, str] = field(default_factory=dict)
    peers: Mapping[str, tuple[str, int | tuple[int, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, n, least in (
            ("count", self.count, 1),
            ("seed", self.seed, 0),
            ("workers", self.workers, 1),
        ):
            if n is not None and n < least:
                raise errors.ArgumentError(f"--{name}: got {n}", allowed=f"{least} or more")


def of_command(cls: type[T], args: argparse.Namespace, **values: Any) -> T:
    """The dataclass ``cls`` of what is given, and of the arguments that have the names of its fields."""
    names = inspect.signature(cls).parameters
    return cls(**{name: getattr(args, name) for name in names if hasattr(args, name)} | values)
