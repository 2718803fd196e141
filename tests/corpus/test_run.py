"""The public programs that compute something run, and agree with the checkout's scripts and the oracle.

Every launch is executed by the jitted engine on its own profile and on cpu_sim. Where the checkout has a
golden script or a host program that knows the result, inputs and expected buffers are taken from there and
compared within its tolerance; every buffer also equals the reference interpreter's bit for bit. Printing
programs print what the reference interpreter prints. The last test shows the table (``pytest -s``).

TPushTPop/test5 loads a tile over half of another that is still needed: its host program expects the
result of separate tiles, which byte-exact storage does not give. It is compared with the reference
interpreter only.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.types import TileType
from tests.corpus import scripts
from tests.corpus.launches import NO_CORPUS, ROOT, Launch, launches

pytestmark = pytest.mark.skipif(not ROOT, reason=NO_CORPUS)

_LAUNCHES = launches()
_PROFILES = [(launch, p) for launch in _LAUNCHES for p in dict.fromkeys((launch.profile, "cpu_sim"))]
CONTESTED = "test/samples/TPushTPop/test5/kernel.pto"
# Program, profile, how it was checked, largest error.
_TABLE: list[tuple[str, str, str, str]] = []


def _case(launch: Launch, folder: Path) -> scripts.Case | None:
    """What the checkout says about a launch."""
    script, host = scripts.golden_script(launch), scripts.host_folder(launch)
    if script is not None:
        return scripts.from_golden_script(launch, script, folder)
    if host is not None and not scripts.is_placeholder(host):
        return scripts.from_host_folder(launch, host, folder)
    return scripts.from_fifo_host(launch)


def _calls(launch: Launch, case: scripts.Case | None) -> Iterator[dict[str, Any]]:
    buffers = case.inputs if case else scripts.printing_inputs(launch) or launch.inputs()
    for scalars in launch.settings(case.scalars if case else None):
        yield {a.name: {**buffers, **scalars}[a.name] for a in launch.arguments}


def _reference(launch: Launch, profile: str, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Buffers and printed text of the reference interpreter."""
    tiles = {a.name: a.type for a in launch.arguments if isinstance(a.type, TileType)}
    inputs = {n: oracle.OracleTile(tiles[n], x) if n in tiles else x for n, x in given.items()}
    with contextlib.redirect_stdout(io.StringIO()) as text:
        found = oracle.run(launch.program, inputs, profile=profile, entry=launch.entry, grid=launch.grid)
    return found, text.getvalue()


def _engine(call: Any, given: dict[str, Any]) -> tuple[dict[str, NDArray[Any]], str]:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        found = {n: np.asarray(x) for n, x in call(**given).items()}
        jax.effects_barrier()
    return found, text.getvalue()


def _blocks(text: str) -> list[str]:
    """The printed tiles, in no order: JAX promises none between the prints of a compiled program."""
    return sorted(text.split("TPRINT"))


def _error(case: scripts.Case, name: str, found: NDArray[Any]) -> tuple[bool, str]:
    """Whether a buffer is within the tolerance of its script, and the largest error."""
    wanted = case.expected[name]
    if wanted.dtype == ml_dtypes.bfloat16:
        distance = scripts.ulps(found.reshape(-1), wanted)
        return distance <= 1, f"{distance} ulp"
    limit = case.absolute(name)
    worst = np.max(np.abs(found.reshape(-1).astype(np.float64) - wanted.astype(np.float64)))
    return np.allclose(wanted, found.reshape(-1), atol=limit, rtol=limit, equal_nan=True), f"{worst:.3g}"


@pytest.mark.parametrize(("launch", "profile"), _PROFILES, ids=[f"{x.name}-{p}" for x, p in _PROFILES])
def test_runs_and_agrees(launch: Launch, profile: str, tmp_path: Path) -> None:
    case = _case(launch, tmp_path)
    kernel = pto.compile(launch.program, profile, entry=launch.entry, grid=launch.grid)
    how, error = "oracle", "0"
    for given in _calls(launch, case):
        wanted, printed = _reference(launch, profile, given)
        found, text = _engine(kernel, given)
        assert sorted(found) == sorted(wanted)
        for name, x in found.items():
            assert x.tobytes() == np.asarray(wanted[name]).tobytes(), name
        if launch.prints:
            how = "oracle (printed)"
            assert _blocks(text) == _blocks(printed) != [""]
            assert _engine(kernel.eager, given)[1] == printed
        if case is not None and launch.name != CONTESTED:
            how = case.how
            results = {n: _error(case, n, found[n]) for n in case.expected}
            error = ", ".join(shown for _, shown in results.values())
            assert all(fits for fits, _ in results.values()), results
            if case.compare is not None:
                scripts.accepts(case, launch, found)
    _TABLE.append((launch.name, profile, how, error))
