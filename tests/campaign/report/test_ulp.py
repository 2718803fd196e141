"""ULP histograms lose nothing; the measured accuracy is that of right results and shows wrong ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax import isa
from pto_jax.campaign.report import measure as module
from pto_jax.campaign.report.measure import measure, measured, rounded
from pto_jax.cases.targets import Output, Run
from pto_jax.cases.ulp import SMALL, Histogram, Histograms, bounds, label
from pto_jax.generate.programs import Case
from pto_jax.ir import F32, DType, dtype
from pto_jax.isa import instructions
from pto_jax.isa.semantics import Formula
from pto_jax.profiles import A2A3
from pto_jax.text import parse

NAN, ONE, INF = 0x7FC00000, 0x3F800000, 0x7F800000
TILE = "!pto.tile<f32, 8, 8>"


def case(text: str) -> Case:
    return Case("id", 1, 0, A2A3, parse(text), {}, {})


def run(*words: int, name: str = "d", valid: tuple[int, int] = (1, 8)) -> Run:
    filled = np.zeros((8, 8), np.uint32)
    filled[0, : len(words)] = words
    return Run({name: Output(F32, filled, valid)})


def counted(text: str, expected: Run, found: Run) -> Histograms:
    histograms = Histograms()
    histograms.add_case(case(text), expected, found)
    return histograms


def bucket(distance: int) -> int:
    return distance if distance < SMALL else 1 << (distance.bit_length() - 1)


def test_buckets_hold_the_distances_they_name() -> None:
    distances = [0, 1, 2, 3, 4, 7, 8, 1023, 1024, 2**31 - 1, 2**31, 2**32 - 1]
    histograms = Histograms()
    histograms.add("texp", "f32", distances)
    counts = histograms["texp", "f32"].counts
    for distance in distances:
        start = bucket(distance)
        assert counts[start] == sum(bucket(d) == start for d in distances)
        assert start <= distance <= (start if start < 4 else 2 * start - 1), label(start)
    assert histograms["texp", "f32"].worst == 2**32 - 1


def test_results_are_counted_where_they_are_valid() -> None:
    expected = run(ONE, ONE, NAN, NAN, INF, ONE)
    found = run(ONE + 1, ONE - 9, NAN + 1, ONE, NAN, ONE)
    found.outputs["d"].words[1] = 77
    histogram = counted(f"%d = texp %a : {TILE}", expected, found)["texp", "f32"]
    assert histogram == Histogram(histogram.counts, nan=2, worst=9)
    assert dict(histogram.counts) == {0: 4, 1: 1, 8: 1}
    assert histogram.elements == 8


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (f"%d = tlog %a : {TILE}", [("tlog", "f32")]),
        (f"%d = tsqrt %a : {TILE}", [("tsqrt", "f32")]),
        (f"%d = tadd %a, %b : {TILE}", []),
        (f"texp %d, %a : {TILE}, {TILE}\ntadd %d, %d, %a : {TILE}, {TILE}, {TILE}", []),
        (f"tadd %d, %d, %a : {TILE}, {TILE}, {TILE}\ntexp %d, %a : {TILE}, {TILE}", [("texp", "f32")]),
    ],
)
def test_the_last_writer_decides(text: str, keys: list[tuple[str, str]]) -> None:
    assert list(counted(text, run(ONE), run(ONE))) == keys


def test_results_that_cannot_be_compared_are_left_out() -> None:
    text = f"%d = texp %a : {TILE}"
    assert not len(counted(text, run(ONE), run(ONE, name="e")))
    assert not len(counted(text, run(ONE), run(ONE, valid=(2, 8))))


def test_merging_and_json_keep_every_count() -> None:
    parts = [Histograms() for _ in range(3)]
    whole = Histograms()
    numbers = np.random.default_rng(3).integers(0, 1 << 20, (3, 100))
    for part, distances in zip(parts, numbers, strict=True):
        for histograms in (part, whole):
            histograms.add("texp", "f16", distances, nan=2)
            histograms.add("tlog", "f32", distances // 1024)
    merged = Histograms()
    for part in reversed(parts):
        merged.merge(Histograms.from_json(part.to_json()))
    assert merged == whole
    assert merged.to_json() == whole.to_json()
    assert whole["texp", "f16"].elements == 306


@pytest.mark.parametrize("text", ["", "[]", "3", '{"texp": {}}', '{"texp|f32": {"buckets": {"x": 1}}}'])
def test_foreign_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no ULP histograms"):
        Histograms.from_json(text)


def test_every_declared_bound_is_known() -> None:
    declared = {(n, d) for n, i in instructions().items() for d in i.ulp}
    assert declared and declared < set(bounds())
    assert bounds()["texp", "f32"] == 1 and bounds()["tsqrt", "f32"] == 0


@pytest.mark.parametrize("d", ["f32", "f16"])
def test_rounding_is_that_of_numpy(d: str) -> None:
    rng = np.random.default_rng(2)
    values = rng.standard_normal(4000) * np.exp2(rng.uniform(-30, 14, 4000))
    t = dtype(d)
    assert np.array_equal(rounded(t, values), values.astype(t.numpy).view(t.word))


def test_exact_results_are_correctly_rounded() -> None:
    found = measure("exact", ["tsqrt"], elements=2048)
    assert list(found) == [("tsqrt", "bf16"), ("tsqrt", "f16"), ("tsqrt", "f32")]
    for key in found:
        assert found[key].worst == found[key].nan == 0 and found[key].elements == 2048


def test_another_function_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(formula: Formula, d: DType, operands: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        (words,) = operands.values()
        return rounded(d, np.sqrt(words.view(d.numpy).astype(np.float64)) * (1 + 2.0**-9))

    monkeypatch.setattr(module, "reference", off)
    monkeypatch.setattr(module, "DTYPES", ("f16",))
    assert measure("exact", ["tsqrt"], elements=2048)["tsqrt", "f16"].worst >= 2


def test_everything_with_a_bound_is_measured() -> None:
    """Quotients of an expanded operand are left out: each lane is one of tdiv."""
    assert {name for name, _ in bounds()} - set(measured()) == {"trowexpanddiv", "tcolexpanddiv"}
    assert set(measured()) <= set(isa.instructions())
