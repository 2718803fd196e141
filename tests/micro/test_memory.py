"""Loads and stores of registers and masks, against what the chapters say of bytes."""

from typing import Any

import jax
import numpy as np
import pytest

from pto_jax.lowering import bits
from tests.micro.programs import executed, kernel

RNG = np.random.default_rng(7)
#: The shortest integer types by their bits.
U = {8: "ui8", 16: "ui16", 32: "ui32"}


def data(bits: int, count: int) -> np.ndarray:
    """Random words, none of them zero."""
    return RNG.integers(1, 1 << min(bits, 31), count).astype(f"u{bits // 8}")


def source(dist: str, bits: int, memory: np.ndarray) -> np.ndarray:
    """The bytes of a register by the table of distributions."""
    raw = memory.view(np.uint8)
    if dist == "NORM":
        return raw[:256]
    if dist == "BRC_BLK":
        return np.tile(raw[:32], 8)
    if dist == "UNPK4":
        return np.pad(raw[:64, None], ((0, 0), (0, 3))).reshape(-1)
    name, _, width = dist.partition("_B")
    size = int(width) // 8
    units = raw.reshape(-1, size)
    count = 256 // size
    chosen = {
        "BRC": lambda: units[[0] * count],
        "US": lambda: units[np.arange(count) // 2],
        "DS": lambda: units[np.arange(count) * 2],
        "UNPK": lambda: np.stack([units[: count // 2], np.zeros_like(units[: count // 2])], 1),
        "E2B": lambda: units[np.arange(count) // (32 // size)],
    }[name]()
    return chosen.reshape(-1)


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("dist", "bits"),
    [
        *((d, 32) for d in ("NORM", "BRC_B32", "BRC_BLK", "UNPK_B32", "E2B_B32", "BRC_B16")),
        *((d, 16) for d in ("BRC_B16", "US_B16", "DS_B16", "UNPK_B16", "E2B_B16")),
        *((d, 8) for d in ("BRC_B8", "US_B8", "DS_B8", "UNPK_B8", "UNPK4")),
    ],
)
def test_load_distributions(dist: str, bits: int) -> None:
    lanes, t = 2048 // bits, U[bits]
    body = f"""
      %m = pto.pset_b{bits} "PAT_ALL" : !pto.mask<b{bits}>
      %v = pto.vlds %x_ub[%c32] {{dist = "{dist}"}} : !pto.ptr<{t}, ub> -> !pto.vreg<{lanes}x{t}>
      pto.vsts %v, %y_ub[%c0], %m : !pto.vreg<{lanes}x{t}>, !pto.ptr<{t}, ub>, !pto.mask<b{bits}>"""
    x = data(bits, 8192 // bits * 4)
    found = executed(kernel(body, {"x": t, "y": t}), {"x": x, "y": np.zeros_like(x)})
    assert (found["y"].view(np.uint8)[:256] == source(dist, bits, x[32:])).all()


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("dist", "bits", "written"),
    [
        ("NORM_B32", 32, 256),
        ("1PT_B32", 32, 4),
        ("PK_B16", 16, 128),
        ("PK_B32", 32, 128),
        ("PK_B64", 32, 128),
        ("PK4_B32", 32, 64),
    ],
)
def test_store_distributions(dist: str, bits: int, written: int) -> None:
    lanes, t = 2048 // bits, U[bits]
    body = f"""
      %m = pto.pset_b{bits} "PAT_VL8" : !pto.mask<b{bits}>
      %v = pto.vlds %x_ub[%c0] : !pto.ptr<{t}, ub> -> !pto.vreg<{lanes}x{t}>
      pto.vsts %v, %y_ub[%c32], %m {{dist = "{dist}"}} : !pto.vreg<{lanes}x{t}>, !pto.ptr<{t}, ub>,
        !pto.mask<b{bits}>"""
    x = data(bits, 8192 // bits * 4)
    y = np.full_like(x, 0xEE)
    found = executed(kernel(body, {"x": t, "y": t}), {"x": x, "y": y})["y"].view(np.uint8)
    raw, at = x.view(np.uint8)[:256], 32 * bits // 8
    if dist.startswith("NORM"):
        want = raw[:32]
    elif dist.startswith("1PT"):
        want = raw[:4]
    elif dist == "PK4_B32":
        want = raw[: 8 * 4 : 4]
    else:
        unit = int(dist.rpartition("_B")[2]) // 8
        # Eight lanes of the register are active; a pair of 64 bits has two of them.
        count = 8 * bits // 8 // unit
        want = raw.reshape(-1, unit)[:count, : unit // 2].reshape(-1)
    assert (found[at : at + len(want)] == want).all()
    outside = np.ones(len(found), bool)
    outside[at : at + len(want)] = False
    assert (found[outside] == y.view(np.uint8)[outside]).all()
    assert len(want) <= written


def test_interleaving_pairs_of_registers() -> None:
    body = """
      %m = pto.pset_b16 "PAT_ALL" : !pto.mask<b16>
      %a, %b, %p = pto.vldsx2 %x_ub[%c256], "DINTLV_B16" : !pto.ptr<ui16, ub>, index
        -> !pto.vreg<128xui16>, !pto.vreg<128xui16>, !pto.ptr<ui16, ub>
      %c, %d = pto.vldsx2 %p[%c0], "BDINTLV" : !pto.ptr<ui16, ub>, index
        -> !pto.vreg<128xui16>, !pto.vreg<128xui16>
      pto.vstsx2 %b, %a, %y_ub[%c0], "INTLV_B16", %m : !pto.vreg<128xui16>, !pto.vreg<128xui16>,
        !pto.ptr<ui16, ub>, index, !pto.mask<b16>
      pto.vsts %d, %y_ub[%c256], %m : !pto.vreg<128xui16>, !pto.ptr<ui16, ub>, !pto.mask<b16>"""
    x = data(16, 2048)
    y = executed(kernel(body, {"x": "ui16", "y": "ui16"}), {"x": x, "y": np.zeros_like(x)})["y"]
    assert (y[:256].reshape(-1, 2) == x[:256].reshape(-1, 2)[:, ::-1]).all()
    assert (y[256:384] == x[256:512].reshape(8, 2, 16)[:, 1].reshape(-1)).all()


def test_strided_blocks_are_loaded_by_any_bit_and_stored_by_element() -> None:
    body = """
      %s = arith.constant 2 : i16
      %r = arith.constant 1 : i16
      %n = arith.constant 12 : i32
      %m, %rest = pto.plt_b32 %n : i32 -> !pto.mask<b32>, i32
      %v = pto.vsldb %x_ub, %s, %r, %m : !pto.ptr<ui32, ub>, i16, i16, !pto.mask<b32> -> !pto.vreg<64xui32>
      pto.vsstb %v, %y_ub, %r, %r, %m : !pto.vreg<64xui32>, !pto.ptr<ui32, ub>, i16, i16, !pto.mask<b32>
      %all = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      pto.vsts %v, %y_ub[%c512], %all : !pto.vreg<64xui32>, !pto.ptr<ui32, ub>, !pto.mask<b32>"""
    x, y = data(32, 1024), np.full(1024, 7, np.uint32)
    found = executed(kernel(body, {"x": "ui32", "y": "ui32"}), {"x": x, "y": y})["y"]
    loaded = np.zeros(64, np.uint32)
    for block in (0, 1):
        loaded[block * 8 : block * 8 + 8] = x[8 + 16 * block : 16 + 16 * block]
    assert (found[512:576] == loaded).all()
    assert (found[8:20] == loaded[:12]).all()
    assert (found[20:512] == 7).all() and (found[:8] == 7).all()


def test_unaligned_streams_write_what_they_count() -> None:
    body = """
      %three = arith.constant 3 : i32
      %five = arith.constant 5 : i32
      %p = pto.addptr %x_ub, %c3 : !pto.ptr<ui8, ub> -> !pto.ptr<ui8, ub>
      %q = pto.addptr %y_ub, %c1 : !pto.ptr<ui8, ub> -> !pto.ptr<ui8, ub>
      %a0 = pto.vldas %p : !pto.ptr<ui8, ub> -> !pto.align
      %v, %a1, %p1 = pto.vldus %p, %a0, %c256 : !pto.ptr<ui8, ub>, !pto.align, index
        -> !pto.vreg<256xui8>, !pto.align, !pto.ptr<ui8, ub>
      %w, %a2 = pto.vldus %p1, %a1 : !pto.ptr<ui8, ub>, !pto.align -> !pto.vreg<256xui8>, !pto.align
      %s0 = pto.init_align : !pto.align
      %s1, %q1 = pto.vstus %s0, %three, %v, %q : !pto.align, i32, !pto.vreg<256xui8>, !pto.ptr<ui8, ub>
        -> !pto.align, !pto.ptr<ui8, ub>
      %s2, %q2 = pto.vstus %s1, %five, %w, %q1 : !pto.align, i32, !pto.vreg<256xui8>, !pto.ptr<ui8, ub>
        -> !pto.align, !pto.ptr<ui8, ub>
      %zero32 = arith.constant 0 : i32
      pto.vstas %s2, %q2, %zero32 : !pto.align, !pto.ptr<ui8, ub>, i32"""
    x, y = data(8, 4096), np.full(4096, 9, np.uint8)
    found = executed(kernel(body, {"x": "ui8", "y": "ui8"}), {"x": x, "y": y})["y"]
    assert found[:10].tolist() == [9, *x[3:6], *x[259:264], 9]


def test_counts_of_nothing_write_nothing() -> None:
    """A stream of no lanes, of less than none, and a sort of no groups."""
    body = """
      %none = arith.constant 0 : i32
      %less = arith.constant -2 : i32
      %v = pto.vlds %x_ub[%c0] : !pto.ptr<ui32, ub> -> !pto.vreg<64xui32>
      %s0 = pto.init_align : !pto.align
      %s1, %q1 = pto.vstus %s0, %none, %v, %y_ub : !pto.align, i32, !pto.vreg<64xui32>, !pto.ptr<ui32, ub>
        -> !pto.align, !pto.ptr<ui32, ub>
      %s2, %q2 = pto.vstus %s1, %less, %v, %y_ub : !pto.align, i32, !pto.vreg<64xui32>, !pto.ptr<ui32, ub>
        -> !pto.align, !pto.ptr<ui32, ub>"""
    sort = """
    %scores = pto.addptr %z_ub, %c128 : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>
    pto.vbitsort %z_ub, %scores, %x_ub, %c0
      : !pto.ptr<f32, ub>, !pto.ptr<f32, ub>, !pto.ptr<ui32, ub>, index"""
    x, y = data(32, 1024), np.full(1024, 9, np.uint32)
    z = np.arange(1024, dtype=np.float32)
    text = kernel(body, {"x": "ui32", "y": "ui32", "z": "f32"}, sort)
    after = executed(text, {"x": x, "y": y, "z": z})
    assert (after["y"] == 9).all() and (after["z"] == z).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("bits", "op"),
    [
        pytest.param(bits, op, marks=pytest.mark.instructions(op))
        for bits, op in ((32, "vgather2"), (16, "vgather2"), (32, "vgather2_bc"))
    ],
)
def test_gathers_take_elements_where_the_mask_is_set(bits: int, op: str) -> None:
    lanes, t = 2048 // bits, U[bits]
    body = f"""
      %m = pto.pset_b{bits} "PAT_M3" : !pto.mask<b{bits}>
      %all = pto.pset_b{bits} "PAT_ALL" : !pto.mask<b{bits}>
      %at = pto.vlds %i_ub[%c0] : !pto.ptr<{t}, ub> -> !pto.vreg<{lanes}x{t}>
      %v = pto.{op} %x_ub, %at, %m : !pto.ptr<{t}, ub>, !pto.vreg<{lanes}x{t}>, !pto.mask<b{bits}>
        -> !pto.vreg<{lanes}x{t}>
      pto.vsts %v, %y_ub[%c0], %all : !pto.vreg<{lanes}x{t}>, !pto.ptr<{t}, ub>, !pto.mask<b{bits}>"""
    x = data(bits, 32768 // bits)
    i = RNG.integers(0, len(x), len(x)).astype(x.dtype)
    given: dict[str, Any] = {"x": x, "i": i, "y": np.zeros_like(x)}
    found = executed(kernel(body, dict.fromkeys(given, t)), given)["y"][:lanes]
    assert (found == np.where(np.arange(lanes) % 3 == 0, x[i[:lanes]], 0)).all()


def test_the_last_lane_of_a_scatter_stays() -> None:
    body = """
      %m = pto.pset_b32 "PAT_VL16" : !pto.mask<b32>
      %at = pto.vlds %i_ub[%c0] : !pto.ptr<ui32, ub> -> !pto.vreg<64xui32>
      %v = pto.vlds %x_ub[%c0] : !pto.ptr<ui32, ub> -> !pto.vreg<64xui32>
      pto.vscatter %v, %y_ub, %at, %m : !pto.vreg<64xui32>, !pto.ptr<ui32, ub>, !pto.vreg<64xui32>,
        !pto.mask<b32>"""
    x, i = data(32, 1024), np.tile(np.arange(4, dtype=np.uint32), 256)
    given = {"x": x, "i": i, "y": np.zeros_like(x)}
    found = executed(kernel(body, dict.fromkeys(given, "ui32")), given)["y"]
    assert (found[:4] == x[12:16]).all() and not found[4:].any()


def test_masks_are_images_of_256_bits() -> None:
    body = """
      %m = pto.pset_b16 "PAT_M4" : !pto.mask<b16>
      pto.psts %m, %y_ub[%c0], "NORM" : !pto.mask<b16>, !pto.ptr<ui8, ub>, index
      pto.psts %m, %y_ub[%c32], "PK" : !pto.mask<b16>, !pto.ptr<ui8, ub>, index
      %u = pto.plds %y_ub[%c32], "US" : !pto.ptr<ui8, ub>, index -> !pto.mask<b16>
      pto.psts %u, %y_ub[%c64], "NORM" : !pto.mask<b16>, !pto.ptr<ui8, ub>, index
      %d = pto.plds %x_ub[%c0], "DS" : !pto.ptr<ui8, ub>, index -> !pto.mask<b8>
      pto.psts %d, %y_ub[%c128], "NORM" : !pto.mask<b8>, !pto.ptr<ui8, ub>, index
      %n = pto.plds %x_ub[%c0], "NORM" : !pto.ptr<ui8, ub>, index -> !pto.mask<b8>
      pto.psts %n, %y_ub[%c256], "NORM" : !pto.mask<b8>, !pto.ptr<ui8, ub>, index"""
    x = data(8, 4096)
    found = executed(kernel(body, {"x": "ui8", "y": "ui8"}), {"x": x, "y": np.zeros_like(x)})["y"]
    assert (found[:32] == 1).all()
    assert (found[32:48] == 0x11).all()
    assert (found[64:96] == 3).all()
    bits = np.unpackbits(x[:64], bitorder="little")[::2]
    assert (found[128:160] == np.packbits(bits, bitorder="little")).all()
    assert (found[256:288] == x[:32]).all() and not found[288:].any()


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_eager_and_jitted_execution_agree(bits: int) -> None:
    lanes, t = 2048 // bits, U[bits]
    body = f"""
      %n = arith.constant 300 : i32
      %end = scf.for %i = %c0 to %c512 step %c{lanes} iter_args(%left = %n) -> (i32) {{
        %m, %rest = pto.plt_b{bits} %left : i32 -> !pto.mask<b{bits}>, i32
        %v, %p = pto.vlds %x_ub[%i] : !pto.ptr<{t}, ub> -> !pto.vreg<{lanes}x{t}>, !pto.ptr<{t}, ub>
        %w = pto.vlds %p[%c0] : !pto.ptr<{t}, ub> -> !pto.vreg<{lanes}x{t}>
        pto.vsts %w, %y_ub[%i], %m : !pto.vreg<{lanes}x{t}>, !pto.ptr<{t}, ub>, !pto.mask<b{bits}>
        scf.yield %rest : i32
      }}"""
    x = data(bits, 8192 // bits * 4)
    found = executed(kernel(body, {"x": t, "y": t}), {"x": x, "y": np.zeros_like(x)}, everywhere=True)["y"]
    assert (found[:300] == x[:300]).all() and not found[300:].any()


@pytest.mark.parametrize(("narrow", "wide", "other"), [(8, 32, 16), (16, 32, 8), (32, 64, 16), (8, 64, 32)])
def test_words_that_become_wider_and_then_narrower_keep_their_bytes(
    narrow: int, wide: int, other: int
) -> None:
    """XLA makes one cast of both, which its verifier rejects, where the wider words are a cast."""
    types = [np.dtype(f"u{width // 8}") for width in (narrow, wide, other)]
    words = (np.arange(64) * 0x3D).astype(types[0])

    def cast(flat: Any) -> Any:
        return bits.recast(bits.recast(flat, types[1]), types[2])

    with bits.x64():
        assert np.asarray(jax.jit(cast)(words)).tobytes() == words.tobytes()


def test_special_registers_are_zero_before_the_first_operation() -> None:
    store = 'pto.sprsts "AR", %x_ub[%none] : !pto.ptr<i32, ub>, i32'
    body = f"%none = arith.constant 0 : i32\nscf.for %k = %c0 to %c2 step %c1 {{\n  {store}\n}}\n"
    found = executed(kernel(body, {"x": "i32"}), {"x": np.full(1024, 7, np.int32)})
    assert found["x"][:2].tolist() == [0, 7]
