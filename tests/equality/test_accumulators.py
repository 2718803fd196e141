"""Where the accumulator of a product enters the sum: first on a2a3 and a5, last on cpu_sim."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax import isa
from pto_jax.isa.samples.operations import Sample, legal_samples
from pto_jax.lowering import products
from pto_jax.lowering.bits import x64
from pto_jax.profiles import PROFILES
from pto_jax.testing.differential import BATCH, arguments, make_case
from tests.equality.test_products import moderate_operands

NAMES = [f"{base}{mx}.acc" for base in ("tmatmul", "tgemv") for mx in ("", ".mx")]


def _samples(name: str, profile: str) -> Iterator[Sample]:
    """A sample of every type of the left factor."""
    shown = set()
    for sample in legal_samples(isa.instructions()[name], PROFILES[profile]):
        left = sample.types["a"].dtype  # type: ignore[union-attr]
        if left not in shown:
            shown.add(left)
            yield sample


@pytest.mark.variants(0)
@pytest.mark.parametrize("profile", ["a5", "a2a3", "cpu_sim"])
@pytest.mark.parametrize("name", NAMES)
def test_engine_and_interpreter_agree_on_where_the_accumulator_enters(name: str, profile: str) -> None:
    for sample in _samples(name, profile):
        case = make_case(sample, PROFILES[profile])
        given = moderate_operands(case.given, 3)
        acc = given["acc"].words
        if acc.dtype == np.uint32 and case.dtype("dst").is_float:
            # Lanes whose sums begin with -0, an infinity, a NaN, a subnormal, and what swallows products.
            acc[:, ::5, ::3] = 0x80000000
            acc[0, :4, 0] = (0x7F800000, 0x7FC00001, 1, 0x4B800000)
        for name_, g in given.items():
            if name_ in ("a", "b") and g.regions is not None:
                g.regions[1] = np.minimum(g.regions[1], 7 if name_ == "a" else 999)
        object.__setattr__(case, "given", given)
        out = jax.jit(jax.vmap(lambda tiles, k=case.kernel: k(**tiles)))(arguments(given))["dst"]
        for i in range(BATCH):
            np.testing.assert_array_equal(
                np.asarray(out.words[i]), case.reference(i)["dst"], f"{sample.types['a']} element {i}"
            )


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("profile", "total"), [("a2a3", 16777216.0), ("a5", 16777216.0), ("cpu_sim", 16777224.0)]
)
def test_small_products_after_a_large_accumulator(profile: Any, total: float) -> None:
    sample = next(s for s in _samples("tmatmul.acc", profile) if s.types["a"].dtype.name == "f16")  # type: ignore[union-attr]
    case = make_case(sample, PROFILES[profile])
    tiles = {n: np.zeros(g.words.shape[1:], g.type.dtype.numpy) for n, g in case.given.items()}  # type: ignore[union-attr]
    tiles["a"][:, :8], tiles["b"][:8], tiles["acc"][:] = 1, 1, 2.0**24
    assert (np.asarray(case.kernel(**tiles)["dst"].array) == total).all()


def _words(shape: tuple[int, ...], seed: int, low: int = 120, high: int = 134) -> NDArray[np.uint32]:
    rng = np.random.default_rng(seed)
    fields = rng.integers(low, high, shape).astype(np.uint32) << np.uint32(23)
    return (rng.integers(0, 1 << 32, shape, np.uint64).astype(np.uint32) & np.uint32(0x807FFFFF)) | fields


@pytest.mark.variants(0)
@pytest.mark.parametrize("special", [None, 0x80000000, 1, 0x7F800000, 0x7FC00000])
def test_the_product_of_a_library_starts_with_words(special: int | None) -> None:
    x, y, start = _words((3, 32, 64), 1), _words((3, 64, 48), 2), _words((3, 32, 48), 3)
    if special is not None:
        start[1, 5, 7] = special
    precision = products.Precision(46, exact=False)
    with x64():
        careful = jax.jit(lambda *o: products._careful(precision, *o[:2], start=o[2]))(x, y, start)
        native = jax.jit(lambda *o: products._native(precision, *o[:2], start=o[2]))(x, y, start)
        taken = bool(jax.jit(lambda *o: products._attempt(precision, o[:2], begin=o[2])[1])(x, y, start))
    np.testing.assert_array_equal(np.asarray(native), np.asarray(careful))
    assert taken == (special is None)
