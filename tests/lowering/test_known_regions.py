"""Tiles whose valid regions are known in advance are computed without what is around it, which stays."""

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.examples import EXAMPLES
from pto_jax.lowering.numerics import Numerics

#: What is computed of tiles x and y, with regions of 5x40 lanes, into z, which begins as x.
_BODIES = {
    "sum": "pto.tadd ins({x}, {y} : {P}, {P}) outs({z} : {P})",
    "in place": "pto.tmul ins({z}, {y} : {P}, {P}) outs({z} : {P})",
    "larger source": "pto.tmax ins({all}, {y} : {W}, {P}) outs({z} : {P})",
    "exp": "pto.texp ins({x} : {P}) outs({z} : {P})",
    "scalar": "pto.tmuls ins({x}, %s : {P}, f32) outs({z} : {P})",
    "relu": "pto.trelu ins({x} : {P}) outs({z} : {P})",
    "rows": """pto.trowmax ins({x}, {y} : {P}, {P}) outs(%c : {C})
               pto.trowexpandexpdif ins({x}, %c : {P}, {C}) outs({z} : {P})
               pto.trowsum ins({z}, {y} : {P}, {P}) outs(%c : {C})
               pto.trowexpanddiv ins({z}, %c : {P}, {C}) outs({z} : {P})""",
    "columns": """pto.tcolmax ins({x} : {P}) outs(%r : {R})
                  pto.tcolexpandsub ins({x}, %r : {P}, {R}) outs({z} : {P})""",
}


def _tile(rows: int, cols: int, shape: str = "8x64", rest: str = "") -> str:
    return f"!pto.tile_buf<vec, {shape}xf32, valid={rows}x{cols}{rest}>"


def _program(body: str) -> pto.Program:
    names = {"x": "%x", "y": "%y", "z": "%z", "all": "%all", "P": _tile(5, 40), "W": _tile(8, 64)}
    names |= {"C": _tile(5, 1, "8x1", ", blayout=col_major"), "R": _tile(1, 40, "1x64")}
    part, whole = "!pto.partition_tensor_view<5x40xf32>", "!pto.partition_tensor_view<8x64xf32>"
    tiles = {"%x": (0, "P"), "%y": (2048, "P"), "%z": (4096, "P"), "%all": (4096, "W")}
    tiles |= {"%c": (6144, "C"), "%r": (8192, "R")}
    allocated = "\n".join(
        f"%p{at} = arith.constant {at} : i64\n" * (name != "%all")
        + f"{name} = pto.alloc_tile addr = %p{at} : {names[kind]}"
        for name, (at, kind) in tiles.items()
    )
    return pto.parse(f"""
      func.func @k(%a: {part}, %b: {part}, %d: {whole}, %s: f32, %o: {whole}) attributes {{pto.entry}} {{
        {allocated}
        pto.tload ins(%a : {part}) outs(%x : {names["P"]})
        pto.tload ins(%b : {part}) outs(%y : {names["P"]})
        pto.tload ins(%d : {whole}) outs(%all : {names["W"]})
        {body.format(**names)}
        pto.tstore ins(%all : {names["W"]}) outs(%o : {whole})
        return
      }}""")


@pytest.mark.variants(1)
@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("name", _BODIES)
def test_lanes_around_a_known_region_stay(name: str, numerics: Numerics) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((3, 5, 40)).astype(np.float32) for _ in range(2))
    d = rng.standard_normal((3, 8, 64)).astype(np.float32)
    if numerics == "exact":
        a[:, 1, 3:6], b[:, 2, 7] = (1e-42, np.nan, -0.0), -1e-40
    zeros = np.zeros_like(d)
    kernel = pto.compile(_program(_BODIES[name]), "a2a3", numerics=numerics, warn=False)
    results = np.asarray(jax.jit(jax.vmap(kernel, (0, 0, 0, None, 0)))(a, b, d, np.float32(3), zeros)["o"])
    calls = ((*call, np.float32(3), zeros[0]) for call in zip(a, b, d, strict=True))
    wanted = np.stack([np.asarray(kernel.eager(*call)["o"]) for call in calls])
    outside = np.ones((8, 64), bool)
    outside[:5, :40] = False
    np.testing.assert_array_equal(results[:, outside], d[:, outside])
    if numerics == "exact":
        np.testing.assert_array_equal(results.view(np.uint32), wanted.view(np.uint32))
    else:
        np.testing.assert_allclose(results, wanted, 1e-5, 1e-6)


def test_trips_that_decide_on_regions_are_written_out() -> None:
    """The last band of 45 rows is one of 13 then, and no tile has more than 100 columns."""
    example = EXAMPLES["softmax"]
    kernel = pto.compile(pto.load(example.path), scalars={"rows": 45, "cols": 100}, warn=False)
    x = example.arguments()["x"]
    text = str(jax.make_jaxpr(kernel)(x, np.zeros_like(x)))
    assert "f64[13,100]" in text and "f64[16,128]" not in text
