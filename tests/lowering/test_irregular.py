"""Irregular instructions: what neither recorded cases nor random operands show."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import ir
from pto_jax.lowering.bits import x64
from pto_jax.lowering.irregular import advance, philox
from pto_jax.lowering.irregular_quant import _encode, _factor
from pto_jax.profiles import ProfileName


def u32(values: Any) -> Any:
    return jnp.asarray(np.asarray(values, np.uint32))


@pytest.mark.parametrize(
    ("word", "rounds", "expected"),
    [
        (0, 10, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (0xFFFFFFFF, 10, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (0, 7, (0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48)),
    ],
)
def test_philox_gives_the_known_blocks(word: int, rounds: int, expected: tuple[int, ...]) -> None:
    with x64():
        found = philox([u32(word)] * 4, [u32(word)] * 2, rounds)
    assert tuple(int(w) for w in found) == expected


def test_the_counter_carries_through_all_four_words() -> None:
    found = advance([u32(0xFFFFFFFE), u32(0xFFFFFFFF), u32(0xFFFFFFFF), u32(4)], u32([1, 2, 5]))
    assert np.stack(found, axis=1).tolist() == [
        [0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 4],
        [0, 0, 0, 5],
        [3, 0, 0, 5],
    ]


def kernel(
    name: str,
    ins: dict[str, ir.Type],
    outs: dict[str, ir.Type],
    profile: ProfileName = "cpu_sim",
    **attributes: Any,
) -> pto.Kernel:
    """One instruction whose operands are arguments by their names."""
    reads, writes = (tuple(ir.Value(n, t) for n, t in given.items()) for given in (ins, outs))
    op = ir.Op(name, ins=reads, outs=writes, attributes=ir.attrs(attributes), form="dps")
    function = ir.Function(ir.FRAGMENT, (*reads, *writes), ir.Region((op,)))
    program = ir.Program((function,), fragment=True, fragment_results=tuple(outs))
    return pto.compile(program, profile=profile)


def tile(name: str, rows: int, cols: int, **fields: Any) -> ir.TileType:
    return ir.TileType(ir.dtype(name), rows, cols, **fields)


def test_sort_keeps_subnormals_zeros_and_nans_in_order() -> None:
    """XLA's own sort takes subnormals for zeros and has one place for NaNs."""
    words = np.full(32, 0xFF800000, np.uint32)
    words[:8] = [0x80000001, 0x00000001, 0xFFC00000, 0x80000000, 0, 0x7F800000, 0x7FC00000, 0x00000002]
    index = np.arange(32, dtype=np.uint32)
    index[3], index[4] = 4, 3
    sort = kernel("tsort32", {"x": tile("f32", 1, 32), "i": tile("u32", 1, 32)}, {"d": tile("f32", 1, 64)})
    found = sort(x=words.view(np.float32)[None], i=index[None])["d"].array
    records = np.asarray(found).view(np.uint32).reshape(32, 2)
    expected = [0x7FC00000, 0x7F800000, 2, 1, 0, 0x80000000, 0x80000001]
    assert records[:7, 0].tolist() == expected
    assert records[4:6, 1].tolist() == [3, 4]
    assert records[31].tolist() == [0xFFC00000, 2]


def test_the_last_of_many_writers_wins_in_batches_too() -> None:
    """The order in which XLA scatters equal indices is not defined."""
    types: dict[str, ir.Type] = {"s": tile("f32", 4, 8), "i": tile("i32", 4, 8)}
    scatter = kernel("tscatter", types, {"d": tile("f32", 4, 8)})
    source = np.arange(3 * 32, dtype=np.float32).reshape(3, 4, 8)
    index = np.random.default_rng(5).integers(-2, 12, (3, 4, 8)).astype(np.int32)
    index[:, 0, :2] = 32, 100
    found = jax.vmap(lambda s, i, d: scatter(s=s, i=i, d=d)["d"].words)(source, index, -source)
    for b in range(3):
        expected = -source[b].reshape(-1)
        for value, where in zip(source[b].reshape(-1), index[b].reshape(-1), strict=True):
            if 0 <= where < 32:
                expected[where] = value
        np.testing.assert_array_equal(np.asarray(found[b]).view(np.float32).reshape(-1), expected)


def _singles(rng: np.random.Generator) -> NDArray[np.uint32]:
    """float32 words: random ones around the formats' ranges, and all ties between 8-bit codes."""
    exponents = rng.integers(127 - 14, 127 + 12, 4000).astype(np.uint32) << np.uint32(23)
    random = exponents | rng.integers(0, 1 << 23, 4000, np.uint32) | rng.integers(0, 2, 4000, np.uint32) << 31
    values = np.sort(np.arange(0x7F, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32))
    ties = (values[1:] + values[:-1]) / 2
    return np.concatenate([random, ties.view(np.uint32), (-ties).view(np.uint32), values.view(np.uint32)])


@pytest.mark.slow
def test_fp8_codes_are_those_of_the_format() -> None:
    words = _singles(np.random.default_rng(1))
    values = words.view(np.float32)
    expected = np.clip(values, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    expected[(expected & 0x7F) == 0] = 0
    found = np.asarray(_encode(u32(words), ir.MxQuantAlg.OCP_MX_FP8_E4M3))
    np.testing.assert_array_equal(found, expected)
    tiny = np.abs(values) < 2.0**-10
    expected[tiny & np.signbit(values)] = 0x80
    found = np.asarray(_encode(u32(words), ir.MxQuantAlg.NV_MX_FP8_E4M3))
    np.testing.assert_array_equal(found, expected)
    special = _encode(u32([0x7FC00000, 0xFFC00000, 0x7F800000, 0xFF800000]), ir.MxQuantAlg.OCP_MX_FP8_E4M3)
    assert special.tolist() == [0x7F, 0x7F, 0x7E, 0xFE]


@pytest.mark.slow
def test_fp4_codes_are_those_of_the_format() -> None:
    words = _singles(np.random.default_rng(2))
    expected = words.view(np.float32).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 0xF
    found = np.asarray(_encode(u32(words), ir.MxQuantAlg.OCP_MX_FP4_E2M1))
    np.testing.assert_array_equal(found, expected)
    special = _encode(u32([0x7FC00000, 0xFFC00000, 0x7F800000, 0xFF800000]), ir.MxQuantAlg.OCP_MX_FP4_E2M1)
    assert special.tolist() == [7, 7, 7, 15]


def test_factors_are_the_inverse_powers_of_two() -> None:
    exponents = np.arange(255)
    found = np.asarray(_factor(u32(exponents), u32(np.zeros(255)))).view(np.float32)
    np.testing.assert_array_equal(found.astype(np.float64), np.exp2(127.0 - exponents))


def test_printing_works_inside_jit_and_gives_nothing_back(capsys: pytest.CaptureFixture[str]) -> None:
    printing = kernel("tprint", {"x": tile("i16", 2, 16, v_row=1, v_col=3)}, {})
    values = np.arange(-1, 31, dtype=np.int16).reshape(2, 16)
    assert jax.jit(lambda x: printing(x))(values) == {}
    jax.effects_barrier()  # type: ignore[no-untyped-call]
    assert capsys.readouterr().out == "TPRINT 1x3\n      -1        0        1\n"


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("f32", np.array([1.5, -np.inf, 1e-3], np.float32), "    1.50     -inf     0.00"),
        ("f16", np.array([1.5, np.nan, 1e-3], np.float16), "1.5 nan 0.0010004"),
        ("u8", np.array([1, 255, 0], np.uint8), "       1      255        0"),
    ],
)
def test_printed_elements(
    name: str, values: NDArray[Any], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = np.zeros((1, 32), values.dtype)
    words[0, :3] = values
    x = tile(name, 1, 32, v_row=1, v_col=3)
    kernel("tprint", {"x": x}, {}, format=ir.PrintFormat.WIDTH8_PRECISION2)(words)
    jax.effects_barrier()  # type: ignore[no-untyped-call]
    assert capsys.readouterr().out == f"TPRINT 1x3\n{expected}\n"


def test_printing_in_a_batch_prints_every_tile(capsys: pytest.CaptureFixture[str]) -> None:
    printing = kernel("tprint", {"x": tile("i16", 2, 16, v_row=1, v_col=3)}, {})
    values = np.zeros((3, 2, 16), np.int16) + np.arange(3, dtype=np.int16)[:, None, None]
    jax.vmap(lambda x: printing(x))(values)
    jax.effects_barrier()  # type: ignore[no-untyped-call]
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(
        line for n in range(3) for line in ("TPRINT 1x3", " ".join([f"{n:8d}"] * 3))
    )


def test_merging_stops_when_a_list_is_used_up() -> None:
    a = np.array([[9, 0, 7, 1, 5, 2, 3, 3]], np.float32)
    b = np.array([[8, 4, 7, 5, 7, 6, 6, 7]], np.float32)
    tmp, old = np.zeros((1, 16), np.float32), np.full((1, 16), -1, np.float32)
    lists: dict[str, ir.Type] = {"a": tile("f32", 1, 8), "b": tile("f32", 1, 8), "t": tile("f32", 1, 16)}
    outs: dict[str, ir.Type] = {"d": tile("f32", 1, 16), "n": ir.VectorType((4,), ir.dtype("i16"))}
    merge = kernel("tmrgsort", lists, outs, exhausted=True)
    found = merge(a=a, b=b, t=tmp, d=old, n=np.zeros(4, np.int16))
    merged = np.asarray(found["d"].array)[0]
    assert merged.tolist() == [9, 0, 8, 4, 7, 1, 7, 5, 7, 6, 6, 7, -1, -1, -1, -1]
    assert np.asarray(found["n"]).tolist() == [2, 4, 0, 0]


@pytest.mark.parametrize(("profile", "first"), [("cpu_sim", 9.0), ("a2a3", np.nan)])
def test_lists_without_valid_rows_are_merged_as_the_profile_reads_them(
    profile: ProfileName, first: float
) -> None:
    a, b = (np.arange(8, dtype=np.float32)[None] + n for n in (9, 1))
    tmp, old = np.zeros((1, 16), np.float32), np.zeros((1, 16), np.float32)
    lists: dict[str, ir.Type] = {n: tile("f32", 1, 8, v_row=0) for n in "ab"}
    outs: dict[str, ir.Type] = {"d": tile("f32", 1, 16), "n": ir.VectorType((4,), ir.dtype("i16"))}
    merge = kernel("tmrgsort", {**lists, "t": tile("f32", 1, 16)}, outs, profile, exhausted=False)
    found = merge(a=a, b=b, t=tmp, d=old, n=np.zeros(4, np.int16))
    assert np.array_equal(np.asarray(found["d"].array)[0, 0], first, equal_nan=True)


@pytest.mark.parametrize("name", ["i64", "u64"])
def test_wide_lists_that_descend_are_merged_by_all_their_bits(name: str) -> None:
    d, high = ir.dtype(name).numpy, 1 << 60
    a, b = np.array([[3 * high, high + 2, high]], d), np.array([[2 * high, high + 1, 5]], d)
    lists: dict[str, ir.Type] = {n: tile(name, 1, 4, v_col=3) for n in "ab"}
    lists["t"] = tile(name, 1, 8)
    outs: dict[str, ir.Type] = {"d": tile(name, 1, 8, v_col=6), "n": ir.VectorType((4,), ir.dtype("i16"))}
    merge = kernel("tmrgsort", lists, outs, exhausted=False)
    blank = np.zeros((1, 8), d)
    found = merge(
        a=np.pad(a, ((0, 0), (0, 1))),
        b=np.pad(b, ((0, 0), (0, 1))),
        t=blank,
        d=blank,
        n=np.zeros(4, np.int16),
    )
    with x64():
        merged = np.asarray(found["d"].array)[0, :6].tolist()
    assert merged == sorted([*a[0].tolist(), *b[0].tolist()], reverse=True)


@pytest.mark.parametrize(("profile", "beyond"), [("cpu_sim", 2), ("a2a3", -1)])
def test_indices_outside_of_their_own_region_are_read_as_the_profile_reads_them(
    profile: ProfileName, beyond: int
) -> None:
    values, whole = tile("f32", 1, 8, v_col=4), tile("i32", 1, 8, v_col=4)
    ins: dict[str, ir.Type] = {"x": values, "y": values, "i": tile("i32", 1, 8, v_col=2), "j": whole}
    smaller = kernel("tpartargmin", ins, {"d": values, "k": whole}, profile)
    zero, two = np.zeros((1, 8), np.float32), np.full((1, 8), 2, np.int32)
    found = smaller(x=zero, y=zero + 1, i=two, j=two + 1, d=zero, k=two)
    assert np.asarray(found["k"].array)[0, :4].tolist() == [2, 2, beyond, beyond]
