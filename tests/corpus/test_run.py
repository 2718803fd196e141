"""The public programs that compute something run, and agree with the checkout's scripts and the oracle.

Every launch is executed by the jitted engine on its own profile and on cpu_sim. Where the checkout has a
golden script or a host program that knows the result, inputs and expected buffers are taken from there and
compared within its tolerance; every buffer also equals the reference interpreter's bit for bit. Printing
programs print what the reference interpreter prints. At the end the table of checks is printed
(``pytest -s``).

TPushTPop/test5 loads a tile over half of another that is still needed: its host program expects the
result of separate tiles, which byte-exact storage does not give. It is compared with the reference
interpreter only.
"""

import contextlib
import io
import re
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import TileType
from tests.corpus import scripts
from tests.corpus.launches import FILES, NO_CORPUS, ROOT, Launch, launches

pytestmark = pytest.mark.skipif(not ROOT, reason=NO_CORPUS)

_LAUNCHES = launches()
_PROFILES = [(launch, p) for launch in _LAUNCHES for p in dict.fromkeys((launch.profile, "cpu_sim"))]
CONTESTED = "test/samples/TPushTPop/test5/kernel.pto"
# Program, profile, how it was checked, largest error.
_TABLE: list[tuple[str, str, str, str]] = []
# The scripts' files; big ones, so they are gone with the process.
_FOLDER = tempfile.TemporaryDirectory()


@lru_cache(maxsize=1)
def _case(launch: Launch) -> scripts.Case | None:
    """What the checkout says about a launch; the profiles of a launch share it."""
    folder = Path(tempfile.mkdtemp(dir=_FOLDER.name))
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
        jax.effects_barrier()  # type: ignore[no-untyped-call]
    return found, text.getvalue()


def _blocks(text: str) -> list[str]:
    """The printed tiles, in no order: JAX promises none between the prints of a compiled program."""
    return sorted(text.split("TPRINT"))


def _error(case: scripts.Case, name: str, found: NDArray[Any]) -> tuple[bool, str]:
    """Whether a buffer is within the tolerance of its script, and the largest error."""
    expected = case.expected[name]
    if expected.dtype == ml_dtypes.bfloat16:
        distance = scripts.ulps(found.reshape(-1), expected)
        return distance <= 1, f"{distance} ulp"
    limit = case.absolute(name)
    worst = np.max(np.abs(found.reshape(-1).astype(np.float64) - expected.astype(np.float64)))
    return np.allclose(expected, found.reshape(-1), atol=limit, rtol=limit, equal_nan=True), f"{worst:.3g}"


@pytest.mark.parametrize(("launch", "profile"), _PROFILES, ids=[f"{x.name}-{p}" for x, p in _PROFILES])
def test_runs_and_agrees(launch: Launch, profile: str) -> None:
    case = _case(launch)
    kernel = pto.compile(launch.program, profile, entry=launch.entry, grid=launch.grid, warn=False)
    how, error = "oracle", "0"
    for given in _calls(launch, case):
        expected, printed = _reference(launch, profile, given)
        found, text = _engine(kernel, given)
        assert sorted(found) == sorted(expected)
        for name, x in found.items():
            assert x.tobytes() == np.asarray(expected[name]).tobytes(), name
        if launch.prints:
            how = "oracle (printed)"
            assert _blocks(text) == _blocks(printed) != [""]
            assert _engine(kernel.eager, given)[1] == printed
        if case is not None and launch.name != CONTESTED:
            how = case.how
            results = {n: _error(case, n, found[n]) for n in case.expected}
            error = ", ".join(shown for _, shown in results.values())
            assert all(fits for fits, _ in results.values()), results
            assert any(case.expected[n].tobytes() != given[n].tobytes() for n in results)
            if case.compare is not None:
                scripts.accepts(case, launch, found)
    _TABLE.append((launch.name, profile, how, error))


_HOSTS = sorted({f.parent for f in Path(ROOT).glob("**/npu_validation/launch_*.cpp")}) if ROOT else []


@pytest.mark.parametrize("host", _HOSTS, ids=[h.parent.name for h in _HOSTS])
def test_a_host_program_that_launches_several_programs(host: Path, tmp_path: Path) -> None:
    """The programs in the order of the host program, each getting the buffers the others wrote."""
    files, golden = scripts.host_files(host, tmp_path)
    calls, names = scripts.chain(host)
    scalars: dict[str, Any] = scripts.host_scalars(host)
    programs = {x.entry: x for x in _LAUNCHES if x.path.parent == host.parent}
    for profile in ("a2a3", "cpu_sim"):
        memory = {d: files.get(v, np.zeros(1024, np.float32)) for d, v in names.items()}
        for entry, given in calls:
            kernel = pto.compile(programs[entry].program, profile, entry=entry, warn=False)
            order = [a.name for a in kernel.arguments]
            values = [memory[x] if x in memory else scalars[x] for x in given]
            written = kernel(*values)
            memory |= {given[order.index(n)]: np.asarray(x) for n, x in written.items()}
        worst = 0.0
        for device, v in names.items():
            if v in golden:
                limit = scripts.compare_eps(host)
                np.testing.assert_allclose(memory[device], golden[v], rtol=limit, atol=limit)
                worst = max(worst, float(np.max(np.abs(memory[device] - golden[v]))))
        how = f"{host.relative_to(ROOT)}/golden.py, launched in turn"
        _TABLE.extend((programs[entry].name, profile, how, f"{worst:.3g}") for entry, _ in calls)


_PRINTING = [x for x in _LAUNCHES if scripts.printing_inputs(x)]


@pytest.mark.parametrize("launch", _PRINTING, ids=[x.name for x in _PRINTING])
def test_pipe_programs_print_their_products(launch: Launch) -> None:
    given = scripts.printing_inputs(launch)
    assert given is not None
    kernel = pto.compile(launch.program, launch.profile, entry=launch.entry, warn=False)
    blocks = _engine(kernel.eager, given)[1].split("TPRINT")[1:]
    _TABLE.append((launch.name, launch.profile, "the product its host program announces", "0"))
    printed = [np.array(re.findall(r"-?\d+\.\d+", b), np.float32) for b in blocks]
    if "gm_src" in given:
        np.testing.assert_array_equal(np.concatenate(printed), given["gm_src"])
        return
    trips = 4 if "gm_b_all" in given else 1
    assert sum(b.size for b in printed) == trips * 256
    # Every vector core prints its part of each product in turn; the cores take turns where one waits.
    values = [float(b[0]) for b in printed]
    assert all((b == v).all() for b, v in zip(printed, values, strict=True))
    assert sorted(values) == sorted([t + 1.0 for t in range(trips)] * (len(values) // trips))
    assert list(dict.fromkeys(values)) == sorted(set(values))


def test_a_tile_loaded_over_another_one_replaces_its_bytes() -> None:
    """TPushTPop/test5 loads bytes [0, 32768) over a tile at byte 16384 and then multiplies that."""
    (launch,) = [x for x in _LAUNCHES if x.name == CONTESTED]
    case = scripts.from_fifo_host(launch)
    assert case is not None
    out, _, right = case.inputs.values()
    # Boxes of 16x8 f32 elements, ordered by columns of boxes.
    stored = right.reshape(64, 16, 8).swapaxes(0, 1).reshape(-1)
    left = stored[4096:5120].reshape(8, 16, 8).swapaxes(0, 1).reshape(16, 64)
    expected = out.reshape(16, 128) + left @ right.reshape(64, 128)
    found = pto.compile(launch.program, entry=launch.entry, warn=False)(**case.inputs)
    np.testing.assert_array_equal(np.asarray(found[next(iter(case.expected))]).reshape(16, 128), expected)


@pytest.fixture(scope="module", autouse=True)
def _table() -> Iterator[None]:
    """Shows what was checked and how, when all rows are there."""
    yield
    if not _TABLE:
        return
    width = max(len(name) for name, *_ in _TABLE)
    for name, profile, how, error in sorted(_TABLE):
        print(f"{name:{width}}  {profile:8} {error:>18}  {how}")
    run = {launch.path for launch in _LAUNCHES}
    named = {name for name, _, how, _ in _TABLE if not how.startswith("oracle")}
    confirmed = {launch.path for launch in _LAUNCHES if launch.name in named}
    print(
        f"{len(FILES)} programs: {len(run)} are run, {len(FILES) - len(run)} only read and verified; in this "
        f"session scripts or host programs confirmed {len(confirmed)}, the reference interpreter all others"
    )
