"""Instructions that came with the language of August 2026, against NumPy, and second handles over tiles."""

from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

Arrays = dict[str, np.ndarray[Any, Any]]


def results(text: str, arrays: Arrays, profile: str) -> list[np.ndarray[Any, Any]]:
    """What ``%d`` of a fragment is, jitted, instruction by instruction, and on the interpreter."""
    program = pto.parse(text)
    assert [d for d in pto.verify(program, profile) if d.severity == "error"] == []
    assert pto.parse(str(program)) == program
    types = {v.name: v.type for op in program.walk() for v in (*op.ins, *op.outs)}
    kernel = pto.compile(program, profile=profile, warn=False)
    tiles = {n: oracle.OracleTile(t, arrays[n]) for n, t in types.items() if isinstance(t, pto.TileType)}
    found = oracle.run(program, tiles, profile=profile)["d"].data
    out = [kernel(**arrays)["d"].array, kernel.eager(**arrays)["d"].array, found]
    return [np.asarray(x).view(arrays["d"].dtype) for x in out]


def agree(text: str, arrays: Arrays, expected: np.ndarray[Any, Any], profile: str) -> None:
    assert (expected != arrays["d"]).any()
    for found in results(text, arrays, profile):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("d", ["f32", "f16", "i16"])
def test_taddrelu_is_the_sum_where_it_is_above_zero(d: str) -> None:
    kind = pto.dtype(d).numpy
    rng = np.random.default_rng(1)
    a, b = ((rng.standard_normal((4, 32)) * 100).astype(kind) for _ in range(2))
    a[0, :4], b[0, :4] = [1, -1, 0, 5], [-1, 0, 0, 6]
    if kind.kind == "f":
        a[1, 0] = np.nan
        with np.errstate(invalid="ignore"):
            expected = np.where(a + b > 0, a + b, kind.type(0))
    else:
        a[1, :2], b[1, :2] = [32767, -32768], [1, -1]
        expected = np.maximum(a.astype(np.int32) + b, 0).astype(kind)
    tile = f"!pto.tile_buf<vec, 4x32x{d}>"
    text = f"pto.taddrelu ins(%a, %b : {tile}, {tile}) outs(%d : {tile})"
    agree(text, {"a": a, "b": b, "d": np.full((4, 32), 3, kind)}, expected, "a2a3")


def test_taddrelu_is_no_instruction_of_a5() -> None:
    tile = "!pto.tile_buf<vec, 4x32xf32>"
    text = f"pto.taddrelu ins(%a, %b : {tile}, {tile}) outs(%d : {tile})"
    (found,) = [d for d in pto.verify(pto.parse(text), "a5") if d.severity == "error"]
    assert "a5" in found.message


@pytest.mark.variants(2)
@pytest.mark.parametrize("profile", ["a2a3", "a5", "cpu_sim"])
@pytest.mark.parametrize("index", ["i8", "i16", "i32"])
def test_tconcatidx_takes_the_columns_that_the_counts_say(profile: str, index: str) -> None:
    kind = pto.dtype(index).numpy
    size = kind.itemsize
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((8, 16)).astype(np.float32) for _ in range(2))
    old = np.full((8, 24), 9, np.float32)
    wide = 32 // size
    i, j = np.zeros((8, wide), kind), np.zeros((8, wide), kind)
    first, second = [0, 3, 12, 20, 5, -1, 1, 12], [4, 0, 20, 2, 9, 3, 30, 12]
    i[:, 0], j[:, 0] = np.array(first) * size, np.array(second) * size
    expected = old.copy()
    for r in range(8):
        # The valid regions are 12 columns of a, 16 of b and 20 of the destination.
        n0 = min(max(first[r], 0), 12, 20)
        n1 = min(max(second[r], 0), 16, 20 - n0)
        expected[r, : n0 + n1] = np.concatenate([a[r, :n0], b[r, :n1]])
    counts = f"!pto.tile_buf<vec, 8x{wide}x{index}, valid=8x1>"
    types = ["!pto.tile_buf<vec, 8x16xf32, valid=8x12>", "!pto.tile_buf<vec, 8x16xf32>", counts, counts]
    text = (
        f"pto.tconcatidx ins(%a, %b, %i, %j : {', '.join(types)}) "
        "outs(%d : !pto.tile_buf<vec, 8x24xf32, valid=8x20>)"
    )
    agree(text, {"a": a, "b": b, "i": i, "j": j, "d": old}, expected, profile)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ("8x8xf32, valid=8x1", "i has element type f32; allowed: i8, i16, i32"),
        ("8x8xi32, valid=4x1", "valid rows, dst has 8; allowed: equal ones"),
        ("8x8xi32, valid=8x0", "has no valid column; allowed: 1 or more"),
    ],
)
def test_counts_of_tconcatidx_are_judged(counts: str, message: str) -> None:
    t = "!pto.tile_buf<vec, 8x16xf32>"
    text = (
        f"pto.tconcatidx ins(%a, %b, %i, %i : {t}, {t}, !pto.tile_buf<vec, {counts}>, "
        f"!pto.tile_buf<vec, {counts}>) outs(%d : {t})"
    )
    found = [d.message for d in pto.verify(pto.parse(text), "a5") if d.severity == "error"]
    assert any(message.removeprefix("i ") in m for m in found), found


VIEWS = (
    "vec, 16x8xf32",
    "vec, 8x16xi32",
    "vec, 8x32xi16",
    "vec, 8x16xf32, blayout=col_major",
)


@pytest.mark.parametrize("view", VIEWS)
def test_an_alias_sees_the_bytes_through_its_own_type(view: str) -> None:
    base, alias = "!pto.tile<f32, 8, 16>", f"!pto.tile_buf<{view}>"
    text = f"""
pto.tadd ins(%a, %a : {base}, {base}) outs(%t : {base})
%v = pto.talias %t : {base} -> {alias}
pto.tadd ins(%v, %v : {alias}, {alias}) outs(%v : {alias})
pto.tmov ins(%v : {alias}) outs(%u : {alias})
pto.tmul ins(%t, %a : {base}, {base}) outs(%w : {base})
"""
    program = pto.parse(text)
    kernel = pto.compile(program, profile="cpu_sim")
    a = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    found = kernel(a=a)
    given = {}
    for v in program.functions[0].args:
        assert isinstance(v.type, pto.TileType)
        zeros = np.zeros(v.type.shape, v.type.dtype.word)
        given[v.name] = oracle.OracleTile(v.type, a if v.name == "a" else zeros)
    wanted = oracle.run(program, given, profile="cpu_sim")
    for name in ("t", "u", "w"):
        expected = np.ascontiguousarray(wanted[name].data).view(wanted[name].type.dtype.word)
        np.testing.assert_array_equal(np.asarray(found[name].words), expected, name)


def test_a_layout_for_a_memref_that_is_no_local_memory() -> None:
    memref = "memref<16x16xf16, #pto.address_space<vec>>"
    kernel = pto.compile(pto.parse(f"%t = pto.bind_tile %m : {memref} -> {memref}"), warn=False)
    message = r"bind_tile: got a memref that is an argument; allowed: one that the function allocates"
    with pytest.raises(pto.NotExecutableError, match=message):
        kernel(np.zeros((16, 16), np.float16))
