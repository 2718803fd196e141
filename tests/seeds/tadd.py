"""What tests of the page pto.tadd share: its table, its spellings, and a program around the addition."""

from typing import Any

import numpy as np

import pto_jax as pto

Array = np.ndarray[Any, Any]

PROFILES = ("cpu_sim", "a2a3", "a5")
HARDWARE = ("a2a3", "a5")
#: The page's table, then what it leaves open: unsigned types on A5, hif8 on the simulator only.
TABLE = {
    "f32": (True, True, True),
    "f16": (True, True, True),
    "bf16": (True, True, True),
    "i32": (True, True, True),
    "i16": (True, True, True),
    "i8": (True, False, True),
    "u8": (True, False, True),
    "i64": (True, False, False),
    "u64": (True, False, False),
    "f8e4m3": (True, False, True),
    "f8e5m2": (True, False, True),
    "u16": (True, False, True),
    "u32": (True, False, True),
    "hif8": (True, False, False),
    "f8e8m0": (False, False, False),
    "f4e2m1x2": (False, False, False),
    "f4e1m2x2": (False, False, False),
    "i4": (False, False, False),
}

#: Every spelling the page prints, with the names it reads and the names it gives.
PRINTED = {
    "Assembly Form (PTO-AS)": "%dst = tadd %src0, %src1 : !pto.tile<...>",
    "AS Level 1 - SSA Form": (
        "%dst = pto.tadd %src0, %src1 : (!pto.tile<...>, !pto.tile<...>) -> !pto.tile<...>"
    ),
    "AS Level 2 - DPS Form": (
        "pto.tadd ins(%src0, %src1 : !pto.tile_buf<...>, !pto.tile_buf<...>)\n"
        "          outs(%dst : !pto.tile_buf<...>)"
    ),
    "MLIR - SSA Form": (
        "%result = pto.tadd %src0, %src1 : "
        "(!pto.tile<f32, 16, 16>, !pto.tile<f32, 16, 16>) -> !pto.tile<f32, 16, 16>"
    ),
    "MLIR - DPS Form": (
        "pto.tadd ins(%src0, %src1 : !pto.tile_buf<f32, 16, 16>, !pto.tile_buf<f32, 16, 16>)\n"
        "          outs(%result : !pto.tile_buf<f32, 16, 16>)"
    ),
}


def errors(text: str, profile: str, portable: bool = False) -> list[str]:
    found = pto.verify(pto.parse(text), profile=profile, portable=portable)
    return [str(d) for d in found if d.severity == "error"]


def random_values(kinds: dict[str, Any], seed: int, d: str, shape: tuple[int, int] = (8, 32)) -> Array:
    """Values over the whole range of a type, from random words; ``kinds`` has its NumPy type."""
    kind: np.dtype[Any] = np.dtype(kinds[d])
    words = np.random.default_rng(seed).integers(0, 256, (*shape, kind.itemsize), dtype=np.uint8)
    values: Array = words.view(kind)[..., 0]
    return values


def warnings(text: str, profile: str) -> list[str]:
    return [str(d) for d in pto.verify(pto.parse(text), profile=profile) if d.severity == "warning"]


def ssa(src0: str, src1: str, dst: str) -> str:
    """A fragment with three tile types given by their parameters."""
    return f"%dst = pto.tadd %src0, %src1 : (!pto.tile<{src0}>, !pto.tile<{src1}>) -> !pto.tile<{dst}>"


def random_words(seed: int, bits: int, shape: tuple[int, int] = (8, 32)) -> Array:
    """Words over the whole range: NaN, infinities, subnormals and extremes are among them."""
    return np.random.default_rng(seed).integers(0, 2**bits, shape, dtype=f"u{bits // 8}", endpoint=False)


def type_of(d: str, shape: tuple[int, int], valid: tuple[int, int] | None = None) -> pto.TileType:
    rows, cols = shape
    v_row, v_col = valid or shape
    return pto.TileType(pto.dtype(d), rows, cols, v_row, v_col)


def words(t: pto.Tile) -> Array:
    return np.asarray(t.words)


TILE = "!pto.tile_buf<f32, 16, 16>"
POINTER = "!pto.ptr<f32>"
VIEW = "!pto.tensor_view<?x?xf32>"
WINDOW = "!pto.partition_tensor_view<16x16xf32>"
ALLOCATED = "".join(f"%{n} = pto.alloc_tile : {TILE}\n" for n in ("src0", "src1", "dst"))

ADD = f"pto.tadd ins(%src0, %src1 : {TILE}, {TILE}) outs(%dst : {TILE})"


def manual_program(
    placement: str = ALLOCATED, before: str = "", add: str = ADD, after: str = "", others: str = ""
) -> pto.Program:
    """Load two tiles, add them, store the sum; ``placement`` allocates %src0, %src1 and %dst."""
    windows = "".join(
        f"""%v{n} = pto.make_tensor_view %{n}, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
        %p{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%c16, %c16] : {VIEW} -> {WINDOW}
        """
        for n in ("ga", "gb", "gc")
    )
    return pto.parse(f"""
      {others}
      func.func @manual(%ga: {POINTER}, %gb: {POINTER}, %gc: {POINTER}) attributes {{pto.entry}} {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c16 = arith.constant 16 : index
        {windows}
        {placement}
        pto.tload ins(%pga : {WINDOW}) outs(%src0 : {TILE})
        pto.tload ins(%pgb : {WINDOW}) outs(%src1 : {TILE})
        {before}
        {add}
        {after}
        pto.tstore ins(%dst : {TILE}) outs(%pgc : {WINDOW})
        return
      }}""")


def check_sum(program: pto.Program, profile: str) -> None:
    rng = np.random.default_rng(11)
    x, y, z = (rng.standard_normal((16, 16), np.float32) for _ in range(3))
    out = pto.compile(program, profile=profile)(x, y, z)
    assert list(out) == ["gc"]
    np.testing.assert_array_equal(np.asarray(out["gc"]), x + y)
