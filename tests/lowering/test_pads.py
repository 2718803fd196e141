"""Pad values of loads and selections: what neither recorded cases nor random operands show."""

import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import Pad, TileType, dtype
from pto_jax.lowering import memory
from pto_jax.oracle import memory as interpreted
from pto_jax.profiles import PROFILE_NAMES, ProfileName

#: Bits of the pad values max and min.
LIMITS = {
    "f32": (0x7F800000, 0xFF800000),
    "bf16": (0x7F80, 0xFF80),
    "i8": (0x7F, 0x80),
    "u16": (0xFFFF, 0),
    "f8e4m3": (0, 0),
    "f8e5m2": (0, 0),
    "hif8": (0, 0),
    "f4e2m1x2": (0, 0),
}
WIDE = {"i64": ((1 << 63) - 1, 1 << 63), "u64": ((1 << 64) - 1, 0)}


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_pads_of_wide_integers_and_small_floats_are_zero_on_hardware(profile: ProfileName) -> None:
    wide = WIDE if profile == "cpu_sim" else dict.fromkeys(WIDE, (0, 0))
    for name, limits in (LIMITS | wide).items():
        for pad, bits in zip((Pad.NULL, Pad.ZERO, Pad.MAX, Pad.MIN), (0, 0, *limits), strict=True):
            t = TileType(dtype(name), 8, 32, 5, 3, pad=pad)
            assert memory.pad_word(t.dtype, pad, profile) == bits, (name, pad)
            assert interpreted.pad_word(t, wide=profile == "cpu_sim") == bits, (name, pad)


@pytest.mark.parametrize(("profile", "wrong"), [("a5", ["wide-pad"]), ("a2a3", []), ("cpu_sim", [])])
def test_a5_has_no_other_pad_of_wide_integers(profile: ProfileName, wrong: list[str]) -> None:
    tile = "!pto.tile_buf<vec, 8x32xi64, valid=8x3, pad=2>"
    view, window = "!pto.tensor_view<8x3xi64>", "!pto.partition_tensor_view<8x3xi64>"
    text = f"""
func.func @k(%x: !pto.ptr<i64>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c3 = arith.constant 3 : index
  %v = pto.make_tensor_view %x, shape = [%c8, %c3], strides = [%c3, %c1] : {view}
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c3] : {view} -> {window}
  %t = pto.alloc_tile : {tile}
  pto.tload ins(%w : {window}) outs(%t : {tile})
  return
}}"""
    found = pto.verify(pto.parse(text), profile=profile)
    assert [d.rule for d in found if d.severity == "error"] == wrong


def test_a_simulated_selection_reads_ones_where_the_mask_has_no_row() -> None:
    """One stream over the valid region: with a byte per mask row the ninth lane's bit is in a second row."""
    tile = "!pto.tile_buf<vec, 1x32xui8, valid=?x?>"
    program = pto.parse(f"pto.tsel ins(%m, %a, %b : {tile}, {tile}, {tile}) outs(%d : {tile})")
    given = {"m": (0, 1), "a": (1, 9), "b": (2, 9), "d": (0, 9)}
    engine, reference = {}, {}
    for argument in program.functions[0].args:
        (value, cols), t = given[argument.name], argument.type
        assert isinstance(t, TileType)
        words = np.full(t.shape, value, np.uint8)
        engine[argument.name] = pto.Tile(jnp.asarray(words), jnp.int32(1), jnp.int32(cols), t)
        reference[argument.name] = oracle.OracleTile(t, words, 1, cols)
    expected = oracle.run(program, reference, profile="cpu_sim")["d"].data
    got = pto.compile(program, profile="cpu_sim")(**engine)["d"].words
    assert np.asarray(got)[0, :10].tolist() == expected[0, :10].tolist() == [2] * 8 + [1, 0]
