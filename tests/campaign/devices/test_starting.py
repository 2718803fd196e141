"""Devices that cannot start end a campaign with their own words; failures as they are found are kept."""

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pto_jax.cli.main import main
from pto_jax.devices import conversation
from pto_jax.devices.conversation import Server, request
from pto_jax.errors import DeviceError, UnusableDeviceError
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import cases

BROKEN = "import sys; print('no licence for this machine', file=sys.stderr); sys.exit(3)"
READING = "import sys; sys.stdin.buffer.readline(); sys.exit(3)"


def command(script: str) -> str:
    return shlex.join([sys.executable, "-S", "-c", script])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(conversation, "IDLE", 1.0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pto_jax.cli.fuzz._workers", lambda memory: 1)
    yield


@pytest.mark.variants(0)
@pytest.mark.parametrize("lockstep", [(), ("--lockstep",)], ids=["alone", "lockstep"])
def test_a_server_that_cannot_start_ends_the_campaign(
    lockstep: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["fuzz", *lockstep, "--dut-server", command(BROKEN), "--count", "40", "--quiet"])
    out, err = capsys.readouterr()
    assert status in (1, 2) and not out
    (line,) = err.splitlines()
    assert "does not start, 3 tries: exit status 3 before its answer: no licence for this machine" in line


@pytest.mark.slow
def test_a_server_that_ends_on_every_case_is_a_finding() -> None:
    """It starts: whatever it does with the cases is their result."""
    server = Server(command(READING), 20, must_start=True)
    some = list(cases(1, 5, PRESETS["straight"]))
    assert all(isinstance(a, DeviceError) for a in server.answers(map(request, some)))
    broken = Server(command(BROKEN), 20, must_start=True)
    with pytest.raises(UnusableDeviceError, match="no licence"):
        list(broken.answers(map(request, some)))


def test_a_server_that_has_answered_is_started_again_and_again() -> None:
    script = "import os,sys; n=os.path.exists('n'); open('n','w'); n and sys.exit(3); sys.stdin.readline()"
    server = Server(command(f"{script}; print('declined', flush=True)"), 20, must_start=True)
    some = list(cases(1, 6, PRESETS["straight"]))
    answers = [type(a).__name__ for a in server.answers(map(request, some))]
    assert answers[0] == "NotExecutableError" and set(answers[1:]) == {"DeviceError"}


@pytest.mark.variants(0)
@pytest.mark.parametrize("option", ["--shrink-calls", "--shrink-seconds"])
def test_failures_that_are_not_made_small_are_kept(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    device = "python:tests.campaign.devices.devices:Wrong"
    given = ["--tested", device, "--only", "tadd", "--count", "3", option, "0", "--quiet"]
    assert main(["fuzz", *given]) == 1
    assert "3 different" in capsys.readouterr().out
    (first, *_) = sorted(Path("failures").glob("*/*/report.json"))
    report = json.loads(first.read_text())
    assert report["kind"] == "different" and (first.parent / "got.npz").exists()
    assert (first.parent / "shrunk.pto").read_text() == (first.parent / "original.pto").read_text()
    assert main(["replay", str(first.parent), "--tested", device]) == 1
    assert "reproduced" in capsys.readouterr().out
