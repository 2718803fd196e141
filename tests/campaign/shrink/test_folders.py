"""Failure folders: what is in them, executing them again, and broken ones."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Oracle
from pto_jax.cli.main import main
from pto_jax.failures.folder import EXPECTED, GOT, INPUTS, REPORT, SHRUNK, read, read_folders
from pto_jax.failures.recorder import Keeper
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, cases
from tests.campaign.shrink.planted import WRONG_ADDITION, Planted, failures, last_column

TESTED = "python:tests.campaign.shrink.planted:WRONG_ADDITION"

#: Presets that differ the most.
QUICK = frozenset({"control", "cores", "memory"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    keeper = Keeper(tmp_path_factory.mktemp("failures"), 20, "oracle", TESTED)
    outcome = next(failures("everything"))
    record = keeper(outcome, Oracle(), WRONG_ADDITION)
    assert record.folder is not None and record.instruction == "tadd"
    assert Path(record.folder).name == f"seed{outcome.case.seed}-{outcome.case.index}"
    return Path(record.folder)


@pytest.mark.slow
def test_folders_are_found_alone_by_cause_and_all(folder: Path) -> None:
    for path in (folder, folder.parent, folder.parent.parent):
        assert read_folders(path) == [folder]


def test_a_folder_says_what_failed(folder: Path) -> None:
    report = json.loads((folder / REPORT).read_text())
    assert (report["instruction"], report["kind"], report["tested"]) == ("tadd", "different", TESTED)
    assert set(report["versions"]) == {"pto_jax", "jax", "jaxlib", "numpy", "python"}
    assert report["command"] == f"pto-jax replay {folder} --tested {TESTED}"
    outcome = next(failures("everything"))
    assert (report["seed"], report["index"]) == (outcome.case.seed, outcome.case.index)
    first = report["first"]
    row, col = first["position"]
    with np.load(folder / EXPECTED) as expected, np.load(folder / GOT) as found:
        name = first["output"]
        both = [a[name].view(f"u{a[name].dtype.itemsize}")[row, col] for a in (expected, found)]
    assert [int(first["expected"], 16), int(first["got"], 16)] == both
    assert (folder / SHRUNK).read_text().count("pto.") - (folder / SHRUNK).read_text().count("!pto.") == 2


def test_a_folder_replays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--original"]):
        assert main(["replay", str(folder), "--trust", *more]) == 1
        shown = capsys.readouterr().out
        assert (
            "reproduced: different" in shown and "> " in shown and "ULP" in shown
        ) or "expected 0x" in shown
    assert main(["replay", str(folder), "--tested", "oracle"]) == 0
    assert "does not show any more" in capsys.readouterr().out
    assert main(["replay", str(folder.parent), "--tested", TESTED]) == 1
    assert capsys.readouterr().out.startswith("case ")
    assert main(["replay", str(folder), "--against", TESTED, "--tested", "oracle"]) == 1


def _spoil_report(folder: Path) -> str:
    (folder / REPORT).write_text("{")
    return "not JSON"


def _spoil_key(folder: Path) -> str:
    report = json.loads((folder / REPORT).read_text())
    (folder / REPORT).write_text(json.dumps(report | {"profile": "a9"}))
    return "profile: got 'a9'; allowed: cpu_sim a2a3 a5"


def _spoil_part(folder: Path) -> str:
    report = json.loads((folder / REPORT).read_text())
    (folder / REPORT).write_text(json.dumps(report | {"shrunk": {"grid": 0}}))
    return "shrunk: got {'grid': 0}; allowed: entry"


def _spoil_inputs(folder: Path) -> str:
    with np.load(folder / INPUTS) as held:
        arrays = {n: a.reshape(-1) for n, a in held.items()}
    np.savez(folder / INPUTS, **arrays)
    return "has the shape"


def _lose_inputs(folder: Path) -> str:
    np.savez(folder / INPUTS, other=np.zeros(3))
    return "got no array"


def _lose_program(folder: Path) -> str:
    (folder / SHRUNK).unlink()
    return "no such file"


@pytest.mark.parametrize(
    "spoil", [_spoil_report, _spoil_key, _spoil_part, _spoil_inputs, _lose_inputs, _lose_program]
)
def test_a_broken_folder_is_a_clear_error(
    spoil: object, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert callable(spoil)
    told = spoil(tmp_path)
    assert main(["replay", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pto-jax replay: error: ") and told in error, error


def test_wrong_use_is_a_clear_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(folder / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["replay", str(folder), "--tested", "nothing"]) == 2
    assert "allowed: oracle" in capsys.readouterr().err
    assert main(["replay", str(folder), "--dut-timeout", "0"]) == 2


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "preset", [pytest.param(p, marks=() if p in QUICK else pytest.mark.slow) for p in PRESETS]
)
def test_cases_survive_text_and_files(preset: str, tmp_path: Path) -> None:
    """What is read from a folder gives the same results as what was written."""
    from pto_jax.failures.folder import About, save
    from pto_jax.failures.search import Finding

    def results(case: Case) -> dict[str, object]:
        run = Oracle().run(case)
        return {n: (o.valid, o.words.tobytes()) for n, o in run.outputs.items()}

    for case in cases(8, 12, PRESETS[preset]):
        outcome = compare_case(case, Oracle(), Oracle())
        if outcome.kind != "equal":
            continue
        path = save(tmp_path, case, Finding(outcome), About("", "none", "oracle", "oracle"))
        for original in (False, True):
            again = read(path, original).case
            assert {n: i.valid for n, i in again.inputs.items()} == {
                n: i.valid for n, i in case.inputs.items() if n in again.inputs
            }
            assert results(again) == results(case), case.index


@pytest.mark.slow
def test_folders_per_cause_are_limited(tmp_path: Path) -> None:
    machine = Planted("tadd", last_column)
    outcomes = list(islice(failures("straight", machine), 4))
    keeper = Keeper(tmp_path, 20, "oracle", "planted", each=2)
    records = [keeper(o, Oracle(), machine) for o in outcomes]
    made = [r.folder for r in records if r.folder is not None]
    assert {r.cause for r in records} == {"tadd: not written"} and len(records) == 4
    assert [r.folder for r in records[2:]] == [None, None]
    assert sorted(made) == sorted(map(str, tmp_path.glob("*/*"))) and len(made) == 2
    # Recording a failure again writes the same folder.
    again = Keeper(tmp_path, 20, "oracle", "planted", each=2)
    assert [again(o, Oracle(), machine) for o in outcomes] == records
    assert sorted(made) == sorted(map(str, tmp_path.glob("*/*")))
    nowhere = Keeper(None, 20, "oracle", "planted")
    assert nowhere(outcomes[0], Oracle(), machine).folder is None
