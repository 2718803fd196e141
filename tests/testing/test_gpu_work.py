"""What the check of GPU code examines: which operations, on which operands, and what it need not do again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pto_jax import isa
from pto_jax.errors import ArgumentError
from pto_jax.isa.samples.operations import legal_samples
from pto_jax.profiles import A2A3, A5
from pto_jax.testing.differential import BATCH, batch_of, batch_size, label, make_case
from tools.gpu_code import gpu_code, gpu_execution
from tools.gpu_code.gpu_execution import Executor
from tools.gpu_code.gpu_findings import Finding
from tools.gpu_code.gpu_store import Store
from tools.gpu_code.gpu_target import Code
from tools.gpu_code.gpu_translation import Refused

CODE = Code("HloModule m", (), "", 0, 0)
SETTINGS = {"seed": 0, "lanes": 1}


def _sample(name: str = "tadd") -> Any:
    return next(legal_samples(isa.instructions()[name], A5))


def test_a_larger_batch_has_whole_tiles_random_bits_and_subnormals() -> None:
    case = make_case(_sample(), A5, 3, batch_of(16384))
    assert batch_size(case.given) == 11
    for given in case.given.values():
        assert given.regions is not None
        whole = (given.regions == (32, 64)).all(1)
        assert whole.sum() * 2048 >= 16384 and whole[BATCH:].all()
        magnitude = given.words & np.uint32(0x7FFFFFFF)
        tiny = (magnitude < 0x00800000) & (magnitude > 0)
        assert tiny[BATCH + 1].mean() > 0.4 and tiny[BATCH].mean() < 0.02
        specials = np.isin(magnitude[BATCH], [0, 0x7F800000, 0x3F800000])
        assert not specials.any()


def test_the_usual_batch_has_the_operands_of_a_larger_one_without_them() -> None:
    small, usual = make_case(_sample(), A5, 3, BATCH), make_case(_sample(), A5, 3)
    for name, given in small.given.items():
        np.testing.assert_array_equal(given.words, usual.given[name].words)


def test_lane_wise_work_is_that_of_lane_wise_instructions() -> None:
    work = gpu_code.Work(("tadd", "trowsum"), lane_wise=True)
    every = gpu_code.Work(("tadd", "trowsum"))
    names = [{s.instruction.name for s, *_ in w.operations} for w in (work, every)]
    assert names == [{"tadd"}, {"tadd", "trowsum"}]
    assert gpu_code.Work().chains and not every.chains and not gpu_code.Work(lane_wise=True).chains


def test_operations_of_one_label_are_numbered() -> None:
    keys = [(label(s), p.name, n) for s, p, n in gpu_code.Work(("tcvt", "thistogram")).operations]
    assert len(set(keys)) == len(keys) and any(n > 0 for *_, n in keys)


def test_a_sample_of_the_work_is_spread_over_it() -> None:
    every, some = (gpu_code.Work(("tadd",), sample=n).operations for n in (None, 3))
    assert [every.index(o) for o in some] == [0, len(every) // 3, 2 * len(every) // 3]


class _Execution:
    """Counts how often it is told to run; refuses arguments that are zero."""

    runs = 0

    def __init__(self, *_: Any) -> None:
        self.host, self.is_coarse = self, False

    def run(self, arguments: Any, coarse: int) -> list[Any]:
        type(self).runs += 1
        if not arguments[0].any():
            raise Refused("zeros")
        return [arguments[0] + 1]


def test_equal_code_is_executed_once_for_equal_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_execution, "Execution", _Execution)
    monkeypatch.setattr(_Execution, "runs", 0)
    executor, one, zero = Executor(), [np.ones(3, np.uint8)], [np.zeros(3, np.uint8)]
    for _ in range(2):
        assert executor.results(CODE, one)[0][0].tolist() == [2, 2, 2]
        with pytest.raises(Refused, match="zeros"):
            executor.results(Code("HloModule m", (), "", 0, 0), zero)
    assert _Execution.runs == 2
    executor.results(CODE, [np.array([1, 1, 2], np.uint8)])
    executor.results(Code("HloModule other", (), "", 0, 0), one)
    assert _Execution.runs == 4
    executor.forget()
    executor.results(CODE, one)
    assert _Execution.runs == 5


def _finding(number: int) -> Finding:
    return Finding("tadd []", "tadd", "a5", "h100", number, True, 35, executed="equal", marks={"x": 1})


def test_a_store_has_what_was_added_but_no_line_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"
    store = Store(str(path), SETTINGS)
    store.add([_finding(0), _finding(1)])
    assert list(Store(str(path), SETTINGS).known.values()) == [_finding(0), _finding(1)]
    path.write_text(path.read_text()[:-5])
    again = Store(str(path), SETTINGS)
    assert list(again.known) == [("tadd []", "a5", "h100", 0)]
    again.add([_finding(1)])
    assert len(Store(str(path), SETTINGS).known) == 2


@pytest.mark.parametrize(
    "text", ['{"seed": 1, "lanes": 1}\n', "not a store\n", '{"seed": 0, "lanes": 1}\n[1]\n']
)
def test_a_store_of_other_settings_and_another_file_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "findings.jsonl"
    path.write_text(text)
    with pytest.raises(ArgumentError, match="--store"):
        Store(str(path), SETTINGS)
    assert path.read_text() == text


def test_what_a_store_has_is_not_examined_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    work = gpu_code.Work(("tneg",), targets=("h100",))
    findings = [Finding(label(s), "tneg", p.name, "h100", n, executed="equal") for s, p, n in work.operations]
    store = Store(str(tmp_path / "findings.jsonl"), SETTINGS)
    store.add(findings[2:])
    asked: list[Any] = []

    class Pool:
        def __init__(self, *_: Any) -> None: ...

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, function: Any, places: Any) -> Any:
            asked.extend(places)
            return [findings[i] for i in places]

    monkeypatch.setattr(gpu_code, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(gpu_code, "as_completed", lambda waiting: [_Done(w) for w in waiting])
    store = Store(str(tmp_path / "findings.jsonl"), SETTINGS)
    assert gpu_code.run(work, 1, store) == findings and asked == [0, 1]
    assert len(Store(str(tmp_path / "findings.jsonl"), SETTINGS).known) == len(findings)
    line = next(iter(gpu_code.summary(findings)))
    assert f"{len(findings)} equal" in line


class _Done:
    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self) -> Any:
        return self._value


def test_the_summary_says_how_many_lanes_lane_wise_operations_had() -> None:
    shown = list(gpu_code.summary([_finding(0), _finding(1)]))
    assert "  lane-wise: 2 of 2 equal, 65536 lanes of whole tiles each" in shown


def test_profiles_of_an_operation_have_equal_operands() -> None:
    (a, b) = (make_case(_sample(), p, 3).given for p in (A2A3, A5))
    assert all(np.array_equal(a[n].words, b[n].words) for n in a)
