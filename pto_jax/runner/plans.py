"""Plans of kernels on several ranks: a JSON file beside the kernels that it names.

>>> import json, pathlib, tempfile
>>> import numpy as np
>>> from pto_jax.examples import EXAMPLES
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> _ = (folder / "add.pto").write_text(EXAMPLES["vector_add"].path.read_text())
>>> launches = [{"kernel": "add.pto", "arguments": {"z": "sum"}}, "host_barrier", {"kernel": "add.pto"}]
>>> _ = (folder / "plan.json").write_text(json.dumps({"ranks": 2, "launches": launches}))
>>> read_plan(folder / "plan.json").ranks
2
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from ..api import load
from ..errors import FileError
from ..files import read_text
from ..profiles import PROFILE_NAMES
from ..runtime.kernel import compile as compile_program
from ..runtime.rank_launches import host_barrier, launches
from ..runtime.ranks import Moves, RankKernel

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
    try:
        found = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise FileError(f"{path}:{error.lineno}: no JSON: {error.msg}") from None
    plan = _Plan(Path(path))
    given = plan.object("the plan", found, _PLAN)
    count = ranks if ranks is not None else given.get("ranks")
    if not isinstance(count, int) or isinstance(count, bool):
        plan.fail("ranks", count, "a number, or --ranks N")
    listed, profile = given.get("launches"), given.get("profile")
    if not isinstance(listed, list) or not listed:
        plan.fail("launches", listed, "a list of one launch or more")
    if profile is not None and profile not in PROFILE_NAMES:
        plan.fail("profile", profile, ", ".join(PROFILE_NAMES))
    sequence = [plan.launch(f"launches[{i}]", one, count, profile) for i, one in enumerate(listed)]
    shared = plan.names("shared", given.get("shared", []))
    return launches(sequence, count, shared=shared, schedule=schedule, moves=moves)


class _Plan:
    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, place: str, found: object, allowed: str) -> NoReturn:
        raise FileError(f"{self.path}: {place}: got {found!r}", allowed=allowed)

    def object(self, place: str, found: Any, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(found, dict):
            self.fail(place, found, "an object")
        other = [key for key in found if keys and key not in keys]
        if other:
            self.fail(f"a key of {place}", other[0], ", ".join(keys))
        return found

    def names(self, place: str, found: Any) -> tuple[str, ...]:
        if not isinstance(found, list) or not all(isinstance(n, str) for n in found):
            self.fail(place, found, "a list of names")
        return tuple(found)

    def launch(self, place: str, found: Any, ranks: int, profile: Any) -> Any:
        """A kernel with what its arguments are, or a meeting of all ranks."""
        if found == BARRIER:
            return host_barrier
        given = self.object(place, found, _LAUNCH)
        kernel, blocks = given.get("kernel"), given.get("blocks", 1)
        if not isinstance(kernel, str):
            self.fail(f"{place}.kernel", kernel, f"the name of a file, or {BARRIER!r} for the launch")
        if not isinstance(blocks, int) or isinstance(blocks, bool) or blocks < 1:
            self.fail(f"{place}.blocks", blocks, "a number of 1 or more")
        arguments = self.object(f"{place}.arguments", given.get("arguments", {}), ())
        compiled = compile_program(
            load(self.path.parent / kernel),
            profile,
            given.get("entry"),
            grid=blocks,
            partial_launch=True,
            warn=False,
            ranks=ranks,
            shared=self.names(f"{place}.shared", given.get("shared", [])),
            context=self.object(f"{place}.context", given.get("context", {}), ()),
            peers=self.peers(place, given.get("peers", {})),
            engine="interpreter",
        )
        return compiled, arguments

    def peers(self, place: str, found: Any) -> Mapping[str, Any]:
        """Arguments that are parts of other ranks: ``["x", 1]`` or ``["x", [1, 0]]``."""
        given = self.object(f"{place}.peers", found, ())
        for name, one in given.items():
            if not isinstance(one, list) or len(one) != 2:
                self.fail(f"{place}.peers.{name}", one, '["x", R] or ["x", [R, ...]]')
        return {name: tuple(one) for name, one in given.items()}
