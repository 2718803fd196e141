"""Programs that compute in float32: every element is the exact one, or in doubt, and a doubt is settled."""

from collections.abc import Callable

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.examples import EXAMPLES
from pto_jax.ir import F32
from pto_jax.lowering import bits, doubts, formulas
from pto_jax.lowering.numerics import DoubtingFloat, ExactFloat
from pto_jax.runtime import execution

_BOUNDARIES = np.array(
    [
        *(0, 1, 0x7FFFFF, 0x800000, 0x800001, 0x1000000, 0xC000000, 0xD000000, 0xD800000, 0x1F800000),
        *(0x20000000, 0x33800000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x40490FDB, 0x5F000000, 0x7F000000),
        *(0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7FD50000, 0x7F800001, 0x7FFFFFFF),
    ],
    np.uint32,
)
_EVERY = np.concatenate([_BOUNDARIES, _BOUNDARIES | np.uint32(1 << 31)])


def _pairs() -> tuple[np.ndarray, np.ndarray]:
    """Pairs of words: boundaries with each other, then random ones, also of small and of near numbers."""
    rng = np.random.default_rng(0)
    x, y = (w.reshape(-1) for w in np.meshgrid(_EVERY, _EVERY))
    some = rng.integers(0, 1 << 32, (4, 1 << 16), dtype=np.uint32)
    small = some[2:] & np.uint32(0x8FFFFFFF)
    near = some[0], some[0] ^ np.uint32(1 << 31) ^ (some[1] & np.uint32(3))
    return tuple(np.concatenate(parts) for parts in zip((x, y), some[:2], small, near, strict=True))


_FORMULAS: dict[str, Callable[..., object]] = {
    "add": lambda a, x, y: a.add(x, y),
    "sub": lambda a, x, y: a.sub(x, y),
    "mul": lambda a, x, y: a.mul(x, y),
    "div": lambda a, x, y: a.div(x, y),
    "fmod": lambda a, x, y: a.fmod(x, y),
    "twice": lambda a, x, y: a.add(x, x),
    "square": lambda a, x, y: a.mul(x, x),
    "zero": lambda a, x, y: a.add(a.const(0.0), y),
    "product and sum": lambda a, x, y: a.add(a.round_to_type(a.mul(x, y)), x),
    "quotient and sum": lambda a, x, y: a.add(a.round_to_type(a.div(x, y)), x),
    "exponential": lambda a, x, y: formulas.exponential(a, x),
    "root": lambda a, x, y: formulas.function(a, formulas.reciprocal_root, x),
}


@pytest.mark.parametrize("name", _FORMULAS)
def test_a_result_is_exact_or_in_doubt(name: str) -> None:
    formula = _FORMULAS[name]

    def words(a: ExactFloat, *operands: jax.Array) -> jax.Array:
        return a.encode(formula(a, *(a.decode(bits.raw(w)) for w in operands)))  # type: ignore[arg-type]

    pairs = [w.view(np.float32) for w in _pairs()]
    with bits.x64():
        quick, exact = (
            np.asarray(jax.jit(lambda *p, a=a: words(a, *p))(*pairs))
            for a in (DoubtingFloat(), ExactFloat(F32))
        )
    doubtful = quick == bits.DOUBT
    np.testing.assert_array_equal(quick[~doubtful], exact[~doubtful])
    magnitude = (w.view(np.uint32) & np.uint32(0x7FFFFFFF) for w in pairs)
    usual = np.logical_and(*((m > 0x30000000) & (m < 0x50000000) for m in magnitude))
    assert not doubtful[usual & (exact != F32.canonical_nan)].any()
    assert usual.sum() > 1000 and doubtful.any()


def _doubting(example: str, arguments: tuple[np.ndarray, ...]) -> tuple[dict[str, np.ndarray], ...]:
    """The results of an example before they are settled, and those in float64."""
    e = EXAMPLES[example]
    kernel = pto.compile(pto.load(e.path), grid=e.grid, warn=False)
    assert doubts.applies(kernel.program)
    mode = execution.Mode("nothing", keep_state=False, whole=True)

    def run(semantics: object, *values: jax.Array) -> dict[str, jax.Array]:
        prepared = kernel.prepared(values, {})
        return execution.executed(kernel, semantics, mode, prepared)[0]  # type: ignore[arg-type]

    with bits.x64():
        return tuple(
            {n: np.asarray(v) for n, v in jax.jit(lambda *v, s=s: run(s, *v))(*arguments).items()}
            for s in (execution.replace(kernel.semantics, doubting=True), kernel.semantics)
        )
