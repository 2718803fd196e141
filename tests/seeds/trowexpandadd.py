"""What tests of the page pto.trowexpandadd share: types, the instruction on them, its interpreted words."""

from typing import Any

import numpy as np

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import BLayout
from pto_jax.oracle import OracleTile as Tile
from pto_jax.text.type_text import print_type
from tests.seeds.tadd import errors

Array = np.ndarray[Any, Any]

PROFILES = ("cpu_sim", "a2a3", "a5")
#: The page's list; the simulator executes the A5 types.
TABLE = {
    "cpu_sim": ("f16", "f32", "i16", "i32", "u16", "u32"),
    "a2a3": ("f16", "f32", "i16", "i32"),
    "a5": ("f16", "f32", "i16", "i32", "u16", "u32"),
}
NUMPY: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    **{f"{kind}{bits}": np.dtype(f"{kind}{bits // 8}") for kind in "iu" for bits in (16, 32)},
}


def tile(text: str) -> str:
    return f"!pto.tile_buf<vec, {text}>"


def tile_type(d: str, rows: int, cols: int) -> pto.TileType:
    return pto.TileType(pto.dtype(d), rows, cols)


FULL = tile("16x16xf32")
COLUMN = tile("16x1xf32, blayout=col_major")


def rules(text: str, profile: str) -> set[str | None]:
    """The rules that reject a program."""
    return {d.rule for d in pto.verify(pto.parse(text), profile=profile) if d.severity == "error"}


def dps(dst: str, src0: str, src1: str, tmp: str | None = None) -> str:
    """The instruction on operands of the given types."""
    types = [src0, src1] + ([tmp] if tmp else [])
    names = "%src0, %src1" + (", %tmp" if tmp else "")
    return f"pto.trowexpandadd ins({names} : {', '.join(types)}) outs(%dst : {dst})"


def add(dst: Tile, src0: Tile, src1: Tile, profile: str, tmp: Tile | None = None) -> Array:
    """Words of the destination after the instruction, computed by the reference interpreter."""
    given = {"src0": src0, "src1": src1, **({"tmp": tmp} if tmp else {}), "dst": dst}
    target, first, second = (print_type(t.type) for t in (dst, src0, src1))
    text = dps(target, first, second, print_type(tmp.type) if tmp else None)
    program = pto.parse(text)
    assert not errors(text, profile)
    before = {n: t.data.copy() for n, t in given.items()}
    result = oracle.run(program, given, profile=profile)["dst"]
    for name, tile in given.items():
        np.testing.assert_array_equal(tile.data, before[name])
    words: Array = np.ascontiguousarray(result.data).view(dst.type.dtype.word)
    return words


def column_type(d: str, rows: int = 16) -> pto.TileType:
    return pto.TileType(pto.dtype(d), rows, 1, blayout=BLayout.COL_MAJOR)


def block(d: str) -> int:
    """Values in 32 bytes."""
    return 256 // pto.dtype(d).bits


def random_tile(seed: int, t: pto.TileType) -> Tile:
    """Random bits; floats are NaN, infinite or subnormal now and then."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**t.dtype.bits, t.shape, t.dtype.word, endpoint=False)
    return Tile(t, words)


def numbers(tile: Tile) -> Array:
    found: Array = np.ascontiguousarray(tile.data).view(NUMPY[tile.type.dtype.name])
    return found


def same(got: Array, want: Array) -> None:
    """Equal words of ``want``'s type, any NaN being equal to any other."""
    nan = np.isnan(want) if want.dtype.kind == "f" else np.zeros(want.shape, bool)
    np.testing.assert_array_equal(got[~nan], np.ascontiguousarray(want).view(got.dtype)[~nan])
    if nan.any():
        assert np.isnan(got.view(want.dtype)[nan]).all()
