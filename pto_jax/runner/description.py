"""Descriptions of model steps and of plans on several ranks: buffers, and launches of kernels in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ..api import load
from ..errors import ArgumentError, FileError, is_number
from ..files import read_text
from ..files.read import each_once
from ..grids import MAX_LAUNCH
from ..ir import DType, dtype
from ..profiles import PROFILE_NAMES
from ..runtime.kernel import compile as compile_program
from ..runtime.rank_launches import host_barrier, launches
from ..runtime.ranks import Moves, RankKernel

#: The file in the folder that describes the step, where no other is given.
DESCRIPTION = "launches.json"


@dataclass(frozen=True)
class Part:
    """A buffer, or what of it begins at an element.

    >>> Part("weights", offset=64)
    Part(buffer='weights', offset=64)
    """

    buffer: str
    offset: int = 0


@dataclass(frozen=True)
class Launch:
    """One launch: a file of the folder, a function of it, arguments by name or by position, blocks.

    >>> Launch("scale.pto", {"x": Part("a"), "factor": 2.0}, blocks=4, entry="scale").blocks
    4
    """

    kernel: str
    arguments: Mapping[str, Part | float] | Sequence[Part | float]
    blocks: int = 1
    entry: str | None = None


@dataclass(frozen=True)
class Step:
    """Launches in their order, the buffers between them (type and shape), and the profile.

    >>> import pto_jax as pto
    >>> step = Step((Launch("k.pto", ["a", "b"]),), {"b": (pto.dtype("f32"), (64,))}, profile="a5")
    >>> [launch.kernel for launch in step.launches]
    ['k.pto']
    """

    launches: tuple[Launch, ...]
    buffers: Mapping[str, tuple[DType, tuple[int, ...]]] = field(default_factory=dict)
    profile: str | None = None


def read_step(path: str | Path) -> Step:
    """Read the description of a step.

    It is an object with ``launches``: a list of objects with ``kernel`` (a file), ``arguments`` (an object by
    name or a list: the name of a buffer, ``{"buffer": name, "offset": elements}`` or a number), ``blocks``
    (default 1) and ``entry``. ``buffers`` has those that the step makes itself, zeros at first, as
    ``{"shape": [...], "type": "f32"}``; ``profile`` is that of all kernels. FileError for a file that cannot
    be read or says something else.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "launches.json"
    >>> _ = path.write_text('{"launches": [{"kernel": "k.cpp", "arguments": {"x": "a", "n": 4}}]}')
    >>> read_step(path).launches[0].arguments
    {'x': Part(buffer='a', offset=0), 'n': 4}
    """
    return _Reader(str(path)).step(_described(path))


def _described(path: str | Path) -> Any:
    """The value in the file of a description."""
    try:
        return json.loads(read_text(path), object_pairs_hook=each_once)
    except json.JSONDecodeError as error:
        raise FileError(f"{path}:{error.lineno}: got no JSON: {error.msg}", allowed="one object") from None
    except ValueError as error:
        raise FileError(f"{path}: {error}", allowed="each key once") from None
    except RecursionError:
        raise FileError(f"{path}: got JSON that is nested too deeply", allowed="one object") from None


class _Reader:
    def __init__(self, path: str) -> None:
        self.path = path

    def fail(self, place: str, actual: object, allowed: str) -> NoReturn:
        raise FileError(f"{self.path}: {place}: got {actual!r}", allowed=f"{allowed}")

    def step(self, entry: Any) -> Step:
        entries = self.object("the description", entry, ("launches", "buffers", "profile"))
        launches = entries.get("launches")
        if not isinstance(launches, list) or not launches:
            self.fail("launches", launches, "a list of one launch or more")
        buffers = self.object("buffers", entries.get("buffers", {}), None)
        profile = entries.get("profile")
        if profile is not None and profile not in PROFILE_NAMES:
            self.fail("profile", profile, ", ".join(PROFILE_NAMES))
        return Step(
            tuple(self.launch(f"launches[{i}]", launch) for i, launch in enumerate(launches)),
            {name: self.buffer(f"buffers.{name}", b) for name, b in buffers.items()},
            profile,
        )

    def object(self, place: str, entry: Any, keys: Sequence[str] | None) -> dict[str, Any]:
        allowed = "an object" + (f" with {', '.join(keys)}" if keys else "")
        if not isinstance(entry, dict):
            self.fail(place, entry, allowed)
        other = [key for key in entry if keys is not None and key not in keys]
        if other:
            self.fail(f"a key of {place}", other[0], ", ".join(keys or ()))
        return entry

    def launch(self, place: str, found: Any) -> Launch:
        entries = self.object(place, found, ("kernel", "arguments", "blocks", "entry"))
        kernel, entry, blocks = entries.get("kernel"), entries.get("entry"), entries.get("blocks", 1)
        if not isinstance(kernel, str):
            self.fail(f"{place}.kernel", kernel, "the name of a file")
        if entry is not None and not isinstance(entry, str):
            self.fail(f"{place}.entry", entry, "the name of a function")
        if not is_number(blocks, 1, MAX_LAUNCH):
            self.fail(f"{place}.blocks", blocks, f"a number from 1 to {MAX_LAUNCH}")
        listed = entries.get("arguments")
        if isinstance(listed, list):
            parts = [self.argument(f"{place}.arguments[{i}]", a) for i, a in enumerate(listed)]
            return Launch(kernel, parts, blocks, entry)
        arguments = self.object(f"{place}.arguments", listed, None)
        return Launch(
            kernel,
            {name: self.argument(f"{place}.arguments.{name}", a) for name, a in arguments.items()},
            blocks,
            entry,
        )

    def argument(self, place: str, entry: Any) -> Part | float:
        if isinstance(entry, str):
            return Part(entry)
        if isinstance(entry, int | float):
            return entry
        entries = self.object(place, entry, ("buffer", "offset"))
        buffer, offset = entries.get("buffer"), entries.get("offset", 0)
        if not isinstance(buffer, str) or not is_number(offset, 0):
            self.fail(place, entry, 'a buffer, {"buffer": name, "offset": elements}, or a number')
        return Part(buffer, offset)

    def buffer(self, place: str, entry: Any) -> tuple[DType, tuple[int, ...]]:
        entries = self.object(place, entry, ("shape", "type"))
        shape = entries.get("shape")
        if not isinstance(shape, list) or not all(is_number(n, 1) for n in shape):
            self.fail(f"{place}.shape", shape, "a list of extents")
        try:
            return dtype(entries.get("type", "f32")), tuple(shape)
        except ArgumentError as error:
            raise FileError(f"{self.path}: {place}.type: {error}") from None


# -- plans of kernels on several ranks ---------------------------------------------------------------

#: What stands for a meeting of all ranks at the host.
BARRIER = "host_barrier"
_PLAN = ("ranks", "launches", "shared", "profile")
_LAUNCH = ("kernel", "arguments", "blocks", "entry", "shared", "context", "peers")


def read_plan(
    path: str | Path, ranks: int | None = None, *, schedule: int | None = None, moves: Moves = "issue"
) -> RankKernel:
    """The kernels of a plan as one function of buffers by name.

    The file is an object with ``ranks``, ``launches`` (objects with ``kernel``, a file beside the plan,
    ``arguments``, an object by name, ``blocks``, ``entry``, ``shared``, ``context`` and ``peers`` as for
    :func:`pto_jax.compile`; or ``"host_barrier"``), ``shared`` (windows, by the names of buffers) and
    ``profile``. FileError for a file that cannot be read or says something else.
    """
    description, plan = _described(path), _Plan(Path(path))
    entries = plan.object("the plan", description, _PLAN)
    count = ranks if ranks is not None else entries.get("ranks")
    if not isinstance(count, int) or isinstance(count, bool):
        plan.fail("ranks", count, "a number, or --ranks N")
    listed, profile = entries.get("launches"), entries.get("profile")
    if not isinstance(listed, list) or not listed:
        plan.fail("launches", listed, "a list of one launch or more")
    if profile is not None and profile not in PROFILE_NAMES:
        plan.fail("profile", profile, ", ".join(PROFILE_NAMES))
    sequence = [plan.launch(f"launches[{i}]", one, count, profile) for i, one in enumerate(listed)]
    shared = plan.names("shared", entries.get("shared", []))
    with plan.placed():
        return launches(sequence, count, shared=shared, schedule=schedule, moves=moves)


class _Plan:
    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, place: str, actual: object, allowed: str) -> NoReturn:
        raise FileError(f"{self.path}: {place}: got {actual!r}", allowed=allowed)

    def object(self, place: str, entry: Any, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(entry, dict):
            self.fail(place, entry, "an object")
        other = [key for key in entry if keys and key not in keys]
        if other:
            self.fail(f"a key of {place}", other[0], ", ".join(keys))
        return entry

    def names(self, place: str, entry: Any) -> tuple[str, ...]:
        if not isinstance(entry, list) or not all(isinstance(n, str) for n in entry):
            self.fail(place, entry, "a list of names")
        return tuple(entry)

    def launch(self, place: str, found: Any, ranks: int, profile: Any) -> Any:
        """A kernel with what its arguments are, or a meeting of all ranks."""
        if found == BARRIER:
            return host_barrier
        entries = self.object(place, found, _LAUNCH)
        kernel, blocks = entries.get("kernel"), entries.get("blocks", 1)
        if not isinstance(kernel, str):
            self.fail(f"{place}.kernel", kernel, f"the name of a file, or {BARRIER!r} for the launch")
        if not isinstance(blocks, int) or isinstance(blocks, bool) or blocks < 1:
            self.fail(f"{place}.blocks", blocks, "a number of 1 or more")
        arguments = self.object(f"{place}.arguments", entries.get("arguments", {}), ())
        shared = self.names(f"{place}.shared", entries.get("shared", []))
        context = self.object(f"{place}.context", entries.get("context", {}), ())
        peers = self.peers(place, entries.get("peers", {}))
        with self.placed(f"{place}: "):
            program = load(self.path.parent / kernel)
            compiled = compile_program(
                program, profile, entries.get("entry"), grid=blocks, partial_launch=True, warn=False,
                ranks=ranks, shared=shared, context=context, peers=peers, engine="interpreter",
            )  # fmt: skip
        return compiled, arguments

    @contextmanager
    def placed(self, place: str = "") -> Iterator[None]:
        """Errors of arguments and other files as errors of the file that has them."""
        try:
            yield
        except (ArgumentError, FileError) as error:
            raise FileError(f"{self.path}: {place}{error}") from None

    def peers(self, place: str, entry: Any) -> Mapping[str, Any]:
        """Arguments that are parts of other ranks: ``["x", 1]`` or ``["x", [1, 0]]``."""
        entries = self.object(f"{place}.peers", entry, ())
        for name, one in entries.items():
            if not isinstance(one, list) or len(one) != 2:
                self.fail(f"{place}.peers.{name}", one, '["x", R] or ["x", [R, ...]]')
        return {name: tuple(one) for name, one in entries.items()}
