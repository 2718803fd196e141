"""Block scales: exponents in boxes of boxes, and 4-bit codes in pairs, in both executors."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import pack_pairs, unpack_pairs
from pto_jax.sanitizer.sanitize import sanitize
from tests.runtime.conftest import Source

#: Physical rows, valid rows, columns and axis of exponents.
SHAPES = [(16, 16, 32, 1), (32, 20, 4, 1), (4, 4, 32, 0), (2, 2, 64, 0)]


def moved(rows: int, valid: int, cols: int, axis: int, stored: str = "%d") -> pto.Program:
    """Exponents of a buffer in boxes of boxes; both tiles are seen as one row outside of the move.

    ``stored`` is the tile that is stored: %d the boxes, %t the exponents.
    """
    n = rows * cols
    s = Source("%a: !pto.ptr<ui8>, %o: !pto.ptr<ui8>", arch="a5")
    row, boxed = f"!pto.tile_buf<vec, 1x{n}xui8>", f"!pto.tile_buf<vec, 1x{n}xui8, slayout=row_major>"
    src = f"!pto.tile_buf<vec, {rows}x{cols}xui8, valid={valid}x{cols}>"
    dst = f"!pto.tile_buf<vec, {rows}x{cols}xui8, valid={valid}x{cols}, slayout=row_major>"
    for name, pointer in (("%v", "%a"), ("%u", "%o")):
        s.view(name, pointer, (1, n), (n, 1)).window(f"{name}w", f"{name}v", (0, 0), (1, n))
    s.tile("%t", "ui8", 1, n).types["%d"] = boxed
    s.do("%m = pto.alloc_tile : !pto.tile_buf<vec, 1x128xui8>").do(f"%d = pto.alloc_tile : {boxed}")
    s.load("%vw", "%t")
    s.do(f"%s = pto.treshape %t : {row} -> {src}").do(f"%e = pto.treshape %d : {boxed} -> {dst}")
    s.do(
        f"pto.tmov ins(%s : {src}, %m : !pto.tile_buf<vec, 1x128xui8>) outs(%e : {dst}) "
        f"{{grpAxis = #pto<mx_group_axis axis{axis}>}}"
    )
    s.store(stored, "%uw")
    return pto.parse(s.text)


def boxes(e: NDArray[np.uint8], axis: int) -> NDArray[np.uint8]:
    rows, cols = e.shape
    if axis == 0:
        return e.reshape(rows // 2, 2, cols // 16, 16).transpose(2, 0, 3, 1).reshape(-1)
    whole = np.pad(e, ((0, -rows % 16), (0, 0)))
    return whole.reshape(-1, 16, cols // 2, 2).transpose(0, 2, 1, 3).reshape(-1)


@pytest.mark.parametrize(("rows", "valid", "cols", "axis"), SHAPES)
def test_exponents_in_boxes(rows: int, valid: int, cols: int, axis: int) -> None:
    program = moved(rows, valid, cols, axis)
    assert pto.parse(str(program)) == program
    x = np.random.default_rng(rows).integers(0, 256, rows * cols).astype(np.uint8)
    expected = boxes(x[: valid * cols].reshape(valid, cols), axis)
    args = (x, np.zeros_like(x))
    for out in (pto.compile(program)(*args), oracle.run(program, args)):
        np.testing.assert_array_equal(np.asarray(out["o"])[: expected.size], expected)
    assert not sanitize(program, args).findings


def test_rows_behind_the_exponents_are_lost() -> None:
    """Hardware clears them: what a program reads of them after the move is not defined."""
    for rows, lost in ((16, 0), (20, 12 * 32)):
        program = moved(32, rows, 32, 1, stored="%t")
        x = np.zeros(1024, np.uint8)
        found = sanitize(program, (x, x)).findings
        assert bool(found) == bool(lost)
        assert not lost or "put in boxes" in str(sanitize(program, (x, x)))


def codes(x: NDArray[Any], kind: Any) -> NDArray[np.uint8]:
    found = x.astype(ml_dtypes.bfloat16).astype(kind).view(np.uint8)
    packed: NDArray[np.uint8] = pack_pairs(found & np.uint8(15))
    return packed


def converted(source: str, target: str, cols: tuple[int, int]) -> pto.Program:
    s = Source(f"%x: !pto.ptr<{source}>, %y: !pto.ptr<{target}>", arch="a5")
    for name, pointer, n in (("%v", "%x", cols[0]), ("%u", "%y", cols[1])):
        s.view(name, pointer, (4, n), (n, 1)).window(f"{name}w", f"{name}v", (0, 0), (4, n))
    s.tile("%s", source, 4, cols[0]).tile("%d", target, 4, cols[1])
    s.load("%vw", "%s").op("tcvt", "%s", out="%d").store("%d", "%uw")
    return s.program


def test_numbers_become_pairs_and_pairs_numbers() -> None:
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((4, 64)) * 4).astype(ml_dtypes.bfloat16)
    there = converted("bf16", "f4e2m1_pair", (64, 32))
    packed = codes(x, ml_dtypes.float4_e2m1fn)
    args = (x, np.zeros((4, 32), np.uint8))
    for out in (pto.compile(there)(*args), oracle.run(there, args)):
        np.testing.assert_array_equal(np.asarray(out["y"]).reshape(4, 32), packed)
    back = converted("f4e2m1_pair", "bf16", (32, 64))
    both = unpack_pairs(packed)
    expected = both.view(ml_dtypes.float4_e2m1fn).astype(ml_dtypes.bfloat16).view(np.uint16)
    args = (packed, np.zeros((4, 64), ml_dtypes.bfloat16))
    for out in (pto.compile(back)(*args), oracle.run(back, args)):
        np.testing.assert_array_equal(np.asarray(out["y"]).view(np.uint16).reshape(4, 64), expected)


@pytest.mark.slow
@pytest.mark.parametrize("valid", [1, 17, 64])
def test_of_a_last_pair_only_the_valid_number_is_written(valid: int) -> None:
    """Groups run down the rows, so that the columns of codes may be odd."""
    src, dst = f"!pto.tile_buf<vec, 32x64xf16, valid=32x{valid}>", "!pto.tile_buf<vec, 32x32x!pto.f4E2M1x2>"
    exp, line = "!pto.tile_buf<vec, 1x64xui8>", "!pto.tile_buf<vec, 1x64xf16>"
    program = pto.parse(
        f"pto.tquant_dn ins(%src : {src}) outs(%dst, %exp, %max, %scaling : {dst}, {exp}, {line}, {line}) "
        "{mx_alg = #pto<mx_alg OCP_MX_FP4_E2M1>}"
    )
    rng = np.random.default_rng(valid)
    line_of = np.zeros((1, 64), np.float16)
    args = {
        "src": rng.standard_normal((32, 64)).astype(np.float16),
        "dst": rng.integers(0, 256, (32, 32)).astype(np.uint8),
        "exp": np.zeros((1, 64), np.uint8),
        "max": line_of,
        "scaling": line_of,
    }
    (op,) = program.walk()
    types = {v.name: v.type for v in (*op.ins, *op.outs) if isinstance(v.type, pto.TileType)}
    tiles = {name: oracle.OracleTile(types[name], array) for name, array in args.items()}
    expected = oracle.run(program, tiles, profile="a5")["dst"].data
    kernel = pto.compile(program, "a5", warn=False)
    for found in (kernel(**args), kernel.eager(**args)):
        np.testing.assert_array_equal(np.asarray(found["dst"].words), expected)
    numbers, old = unpack_pairs(expected), unpack_pairs(args["dst"])
    assert (numbers[:, valid:] == old[:, valid:]).all() and (numbers[:, :valid] != old[:, :valid]).any()
