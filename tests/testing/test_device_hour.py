"""The hour on a device: results are kept as they come, and what differs or cannot be done is no success."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from pto_jax import isa
from pto_jax.examples import EXAMPLES
from tools import device_hour
from tools.device_hour import Step

DEVICE = jax.devices("cpu")[0]


def _fails(device: Any) -> Any:
    raise ValueError("no such thing\nhere")


def test_the_steps_are_all_declarations_examples_and_formats() -> None:
    names = {kind: [s.name for s in device_hour.steps((1, 256), [kind])] for kind in device_hour.KINDS}
    assert len(names["examples"]) == len(names["times"]) == 2 * len(EXAMPLES)
    assert len(names["launches"]) == 2 * len(EXAMPLES)
    assert {"tadd", "tcvt", "tmatmul"} < set(names["declarations"]) < set(isa.instructions())
    kinds = [s.kind for s in device_hour.steps((1,))]
    assert [k for i, k in enumerate(kinds) if k not in kinds[:i]] == list(device_hour.KINDS)


def test_results_are_kept_as_they_come_and_not_done_again(tmp_path: Path) -> None:
    file, calls = tmp_path / "hour.json", list[str]()

    def do(name: str, different: int) -> Step:
        def count(device: Any) -> device_hour.Result:
            calls.append(name)
            return {"different": different}

        return Step("copy", name, count)

    first = [do("a", 0), Step("copy", "b", _fails)]
    found = device_hour.run(first, DEVICE, file, 60)
    assert json.loads(file.read_text())["results"] == found
    assert found["copy: b"]["error"] == "ValueError: no such thing" and found["copy: b"]["different"]
    device_hour.run([*first, do("c", 3)], DEVICE, file, 60)
    assert calls == ["a", "c"]
    device_hour.run([do("late", 0)], DEVICE, file, -1)
    assert calls == ["a", "c"]


def test_one_element_that_differs_is_counted_once() -> None:
    a = np.array([[1.0, np.nan], [0.0, -0.0]], np.float32)
    b = np.array([[1.0, np.nan], [-0.0, -0.0]], np.float32)
    assert device_hour._compared({"x": a}, {"x": a}) == {"lanes": 4, "different": 0}
    assert device_hour._compared({"x": b}, {"x": a}) == {"lanes": 4, "different": 1}


@pytest.mark.parametrize(
    ("results", "status"),
    [([0, 0], 0), ([0, 2], 1), ([0, None], 3)],
    ids=["equal", "differs", "time is up"],
)
def test_the_status_says_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], results: Any, status: int
) -> None:
    listed = [Step("copy", str(i), lambda device: {"different": 0}) for i in range(len(results))]
    found = {s.key: {"different": r} for s, r in zip(listed, results, strict=True) if r is not None}
    monkeypatch.setattr(device_hour, "steps", lambda batches, kinds: listed)
    monkeypatch.setattr(device_hour, "run", lambda *args: found)
    assert device_hour.main(["--device", "cpu"]) == status
    assert f"copy: {len(found)} of 2 done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [("[]", "got a file of another kind"), ('{"device": "gpu (H100)", "results": {}}', "got results of gpu")],
)
def test_another_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)
    assert device_hour.main(["--device", "cpu", "--json", str(file), "--only", "copy"]) == 2
    assert message in capsys.readouterr().err and file.read_text() == content


@pytest.mark.slow
def test_a_layer_is_equal_on_one_device() -> None:
    for step in device_hour.steps((2,), ["layers"]):
        if step.name == "int8":
            assert step.do(DEVICE)["different"] == 0
