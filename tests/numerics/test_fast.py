"""Fast numerics round, order and flush as XLA likes; nothing else may differ from exact ones.

The results here are neither near each other nor subnormal, so fast and exact ones agree but for roundings.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.ir import MxQuantAlg, TileType
from pto_jax.isa import instructions
from pto_jax.isa.matrix import operand_types
from pto_jax.isa.samples.operations import Sample, legal_samples, to_program
from pto_jax.profiles import A5

ROW = np.array([[3e38, np.inf, -np.inf, 0, np.nan, -3e38, 2e38, 1e38]], np.float32)


def _both(program: pto.Program, values: Mapping[str, Any]) -> list[dict[str, NDArray[Any]]]:
    """Results of exact and of fast numerics, under jit and vmap."""
    results = []
    for numerics in ("exact", "fast"):
        kernel = pto.compile(program, profile="a5", numerics=numerics)  # type: ignore[arg-type]
        out = jax.jit(jax.vmap(lambda given, k=kernel: k(**given)))({n: x[None] for n, x in values.items()})
        results.append({n: np.asarray(getattr(t, "array", t))[0] for n, t in out.items()})
    return results


@pytest.mark.variants(4)
@pytest.mark.parametrize("divisor", [3e38, -1e38, 2.0**126, np.inf])
@pytest.mark.parametrize(
    "second",
    ["tdivs %x, %s : {0}, f32", "tcolexpanddiv %x, %s : {0}, {0}", "trowexpanddiv %x, %s : {0}, {1}"],
)
def test_a_large_divisor_divides(second: str, divisor: float) -> None:
    text = second.format("!pto.tile<1x8xf32>", "!pto.tile<1x8xf32, blayout=col_major, valid=1x1>")
    given = np.float32(divisor) if "tdivs" in text else np.full((1, 8), divisor, np.float32)
    exact, fast = _both(pto.parse(f"%d = {text}"), {"x": ROW, "s": given})
    np.testing.assert_allclose(fast["d"], exact["d"], rtol=1e-6)
    program = pto.parse(f"%d = {text}")
    kernel = pto.compile(program, profile="a5", numerics="fast")
    constant = np.asarray(jax.jit(lambda x: kernel(x, given)["d"].array)(ROW))
    np.testing.assert_array_equal(constant, fast["d"])


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ["tmatmul.mx", "tgemv.mx.acc"])
def test_scales_of_opposite_exponents_cancel(name: str) -> None:
    form = ("acc", "a", "a_scale", "b", "b_scale") if "acc" in name else ("a", "a_scale", "b", "b_scale")
    row = ("f32", "f8e4m3", "f8e4m3")
    made = operand_types((*form, "dst"), row, (16, 64, 16), A5)
    types = {n: t for n, t in made.items() if isinstance(t, TileType)}
    if "gemv" in name:
        types |= {n: types[n].with_valid(1, types[n].v_col) for n in ("acc", "a", "a_scale", "dst")}
    program = to_program(Sample(instructions()[name], dict(types), form, {}))
    rng = np.random.default_rng(0)
    values = {
        n: rng.integers(0, 0x7F if t.dtype.bits == 8 else 1, t.shape).astype(t.dtype.word)
        for n, t in types.items()
    }
    # 2^127 and 2^-127 beside each other, the first and second group of K opposite.
    values["a_scale"] = np.tile(np.array([254, 0], np.uint8), (16, 1))
    values["b_scale"] = np.tile(np.array([[1], [253]], np.uint8), (1, 16))
    exact, fast = _both(program, {n: x.view(types[n].dtype.numpy) for n, x in values.items()})
    assert np.isfinite(exact["dst"]).all()
    np.testing.assert_allclose(fast["dst"], exact["dst"], rtol=1e-5)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ["tquant.mx", "tquant_dn"])
def test_groups_with_infinities_are_quantised(name: str) -> None:
    samples = legal_samples(instructions()[name], A5)
    sample = next(s for s in samples if s.attrs.get("mx_alg") == MxQuantAlg.NV_MX_FP8_E4M3)
    program = to_program(sample)
    rng = np.random.default_rng(0)
    tiles = {v.name: v.type for v in program.functions[0].args if isinstance(v.type, TileType)}
    values = {n: np.zeros(t.shape, t.dtype.numpy) for n, t in tiles.items()}
    src = np.asarray(rng.normal(size=tiles["src"].shape), np.float32)
    src[::3] *= 2.0**120
    # Whose largest magnitude over 448 is subnormal.
    src[1::3] = (np.abs(src[1::3]) + 1) * np.float32(2.0**-119)
    src[::4, ::8], src[2::4, ::7] = -np.inf, np.inf
    exact, fast = _both(program, values | {"src": src.astype(values["src"].dtype)})
    for result in exact:
        np.testing.assert_array_equal(fast[result], exact[result], result)
