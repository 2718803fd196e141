"""Page Tile Instruction Set, sections from the saturating variants to the C++ intrinsics."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from tests.seeds.overview import (
    DOUBLE,
    FP8,
    LOAD,
    PROFILES,
    STORE,
    Array,
    found,
    memory_program,
    random_words,
    ssa,
)
from tests.tables import every

INTEGERS = [f"{kind}{bits}" for kind in "iu" for bits in (8, 16, 32, 64)]
NUMPY: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    **{d: f"{d[0]}{int(d[1:]) // 8}" for d in INTEGERS},
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
}
LARGEST = {
    "float32": float(np.finfo(np.float32).max),
    "float16": 65504.0,
    "bfloat16": float.fromhex("0x1.fep127"),
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
}
#: Last rows of the table "Type Support by Profile".
A5_ONLY = (*FP8, "hif8", "f4e2m1x2", "f4e1m2x2")
STANDARD = ("f32", "f16", "bf16", *INTEGERS)

#: The three forms of the section "Syntax", as printed.
PRINTED = {
    "Assembly Form (PTO-AS)": "pto.tadd %dst, %src0, %src1 : !pto.tile<f32, 16, 16>",
    "SSA Form (AS Level 1)": (
        "%dst = pto.tadd %src0, %src1\n"
        ": (!pto.tile<f32, 16, 16>, !pto.tile<f32, 16, 16>)\n"
        "-> !pto.tile<f32, 16, 16>"
    ),
    "DPS Form (AS Level 2)": (
        "pto.tadd ins(%src0, %src1 : !pto.tile_buf<f32, 16, 16>, !pto.tile_buf<f32, 16, 16>)\n"
        "outs(%dst : !pto.tile_buf<f32, 16, 16>)"
    ),
}


# --- Saturating variants ------------------------------------------------------------------------------

SATURATING = [("a2a3", d) for d in STANDARD] + [(p, d) for p in ("a5", "cpu_sim") for d in (*STANDARD, *FP8)]


def signs(rows: list[tuple[str, str]]) -> Iterator[Any]:
    """Each row with the sum and with the difference, by turns one of them in the slow tests."""
    for i, row in enumerate(rows):
        for j, (name, sign) in enumerate((("taddc", 1), ("tsubc", -1))):
            yield pytest.param(*row, name, sign, marks=() if (i + j) % 2 == 0 else pytest.mark.slow)


def operands(d: str) -> tuple[Array, Array]:
    """Every pair of some extreme values, and pairs from random words."""
    kind: np.dtype[Any] = np.dtype(NUMPY[d])
    bits = kind.itemsize * 8
    if d in INTEGERS:
        high = 2 ** (bits - d.startswith("i")) - 1
        low = -high - 1 if d.startswith("i") else 0
        extremes = np.array([low, low + 1, low // 2, 0, 1, 5, high // 2, high // 2 + 1, high - 1, high], kind)
    else:
        limit = LARGEST[kind.name]
        special = [limit, limit / 2, 1, 0, -0.0, -limit / 4, -limit, np.inf, -np.inf, np.nan]
        with np.errstate(all="ignore"):
            extremes = np.array(special, np.float32).astype(kind)
    a, b = (random_words(n, bits, (20, 32)).view(kind) for n in (8, 9))
    a[:10, :10], b[:10, :10] = np.meshgrid(extremes, extremes)
    return a, b


def clamped(a: Array, b: Array, sign: int) -> Array:
    """The exact sum, rounded once, between the smallest and the largest representable value."""
    if a.dtype.kind in "iu":
        info = np.iinfo(a.dtype)
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        exact = [min(max(x + sign * y, int(info.min)), int(info.max)) for x, y in pairs]
        return np.array(exact, a.dtype).reshape(a.shape)
    limit = LARGEST[a.dtype.name]
    with np.errstate(all="ignore"):
        if a.dtype == np.float32:
            found_: Array = np.clip(a + sign * b, -limit, limit)
            return found_
        wide = np.clip(a.astype(np.float64) + sign * b.astype(np.float64), -limit, limit)
        # One rounding: f64 holds these sums, f32 more than twice the digits of f16 and bf16.
        return (wide if a.dtype.itemsize == 1 else wide.astype(np.float32)).astype(a.dtype)


def same(got: Array, want: Array) -> None:
    """Equal values; any NaN is equal to any other."""
    assert got.dtype == want.dtype
    if want.dtype.kind not in "iu":
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(got, want)


@pytest.mark.variants(6)
@pytest.mark.parametrize(("profile", "d", "name", "sign"), list(signs(SATURATING)))
def test_two_sources_saturate_at_the_limits_of_the_type(profile: str, d: str, name: str, sign: int) -> None:
    a, b = operands(d)
    call = getattr(pto.ops, name)
    got = np.asarray(call(pto.tile(a), pto.tile(b), profile=profile))
    same(got, clamped(a, b, sign))
    if d in INTEGERS:
        info = np.iinfo(a.dtype)
        reached = [info.max if sign > 0 else info.min] if d.startswith("u") else [info.min, info.max]
        assert all((got == limit).sum() > 10 for limit in reached)
    else:
        assert not np.isinf(got.astype(np.float32)).any()


@pytest.mark.variants(6)
@pytest.mark.parametrize(
    ("profile", "d", "name", "sign"), list(signs([(p, d) for p, d in SATURATING if d not in FP8]))
)
def test_three_sources_wrap(profile: str, d: str, name: str, sign: int) -> None:
    a, b = operands(d)
    c = np.roll(a, 7)
    got = np.asarray(getattr(pto.ops, name)(pto.tile(a), pto.tile(b), pto.tile(c), profile=profile))
    with np.errstate(all="ignore"):
        if d in INTEGERS:
            same(got, a + b + c if sign > 0 else a - b + c)
        else:
            wide = a.astype(np.float32) + sign * b.astype(np.float32) + c.astype(np.float32)
            same(got, wide.astype(a.dtype))
            assert np.isinf(got.astype(np.float32)).any()


@pytest.mark.parametrize("name", ["taddc", "tsubc"])
@pytest.mark.parametrize("d", [*FP8, "hif8"])
def test_saturating_variants_have_the_types_of_the_profile(d: str, name: str) -> None:
    tile = f"16x64x{d}"
    text = ssa(tile, tile, tile, name)
    assert found(text, "a2a3") and found(text, "a5") == [] and found(text, "cpu_sim") == []


# --- Type support by profile --------------------------------------------------------------------------

USES = {
    "alloc_tile": "%t = pto.alloc_tile : !pto.tile_buf<{d}, 16, 64>",
    "tmov": "%d = pto.tmov %a : (!pto.tile<{d}, 16, 64>) -> !pto.tile<{d}, 16, 64>",
    "tload": "%d = pto.tload %v : !pto.partition_tensor_view<16x64x{d}> -> !pto.tile<{d}, 16, 64>",
    "tstore": "pto.tstore %t, %v : !pto.tile<{d}, 16, 64>, !pto.partition_tensor_view<16x64x{d}>",
}


@every("text", USES.values(), ids=USES.keys())
@every(("d", "profile"), [*product((*STANDARD, *A5_ONLY), PROFILES)])
def test_type_support_by_profile(d: str, profile: str, text: str) -> None:
    """ "No" is an error on A2/A3 and a warning on the simulator, which has these types all the same."""
    text = text.format(d=d)
    errors, warnings = found(text, profile), found(text, profile, "warning")
    if d in STANDARD or profile == "a5":
        assert errors == [] and warnings == []
    elif profile == "a2a3":
        assert any(f"element type {d} does not exist on a2a3" in e for e in errors)
    else:
        assert errors == [] and warnings and all(f"{d} on cpu_sim is not portable" in w for w in warnings)


@pytest.mark.parametrize(
    ("printed", "d"),
    [
        ("float", "f32"),
        ("half", "f16"),
        ("bfloat16_t", "bf16"),
        ("hifloat8_t", "hif8"),
        ("float4_e2m1x2_t", "f4e2m1x2"),
        ("float4_e1m2x2_t", "f4e1m2x2"),
        ("int8_t", "i8"),
        ("int16_t", "i16"),
        ("int32_t", "i32"),
    ],
)
def test_element_types_are_known_by_the_names_the_pages_print(printed: str, d: str) -> None:
    assert pto.dtype(printed) == pto.dtype(d)
    assert pto.parse(USES["alloc_tile"].format(d=printed)) == pto.parse(USES["alloc_tile"].format(d=d))


@pytest.mark.parametrize("d", [*STANDARD, *A5_ONLY])
def test_every_supported_type_is_loaded_moved_and_stored_bit_for_bit(d: str) -> None:
    move = "pto.tmov ins(%a : TILE) outs(%b : TILE)\n"
    program = memory_program(d, LOAD + move + STORE)
    t = pto.dtype(d)
    x = random_words(10, t.bits if t.bits > 4 else 8, (8, 64 * t.storage_bits // max(t.storage_bits, 8)))
    out = pto.compile(program, profile="a5")(x, np.zeros_like(x))
    np.testing.assert_array_equal(np.asarray(out["y"]).view(x.dtype), x)


# --- Syntax, C++ intrinsics ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED.keys())
def test_printed_spelling_parses_as_printed_and_runs(text: str) -> None:
    program = pto.parse(text)
    (op,) = program.walk()
    assert op.name == "tadd" and program.fragment_results == ("dst",)
    assert [v.name for v in op.ins] == ["src0", "src1"]
    assert pto.parse(str(program)) == program
    x, y = (np.random.default_rng(n).standard_normal((16, 16), np.float32) for n in (11, 12))
    for profile in PROFILES:
        assert pto.verify(program, profile=profile) == []
    out = pto.compile(program)(src0=x, src1=y)
    np.testing.assert_array_equal(np.asarray(out["dst"]), x + y)


@pytest.mark.parametrize(
    "written",
    ["!pto.tile<...>", "!pto.tile_buf<...>", "!pto.tile<T, R, C>"],
)
def test_tile_operand_types_parse_as_printed(written: str) -> None:
    text = f"%dst = pto.tadd %src0, %src1 : ({written}, {written}) -> {written}"
    program = pto.parse(text)
    assert written in str(program) and pto.parse(str(program)) == program
    assert {d.rule for d in pto.verify(program)} == {"type-given"}


@pytest.mark.parametrize(
    "text",
    [
        "%dst = pto.tload %src : !pto.partition_tensor_view<...> -> !pto.tile<...>",
        "pto.tload ins(%src : !pto.partition_tensor_view<...>) outs(%dst : !pto.tile_buf<...>)",
        "pto.tstore ins(%src : !pto.tile_buf<...>) outs(%dst : !pto.partition_tensor_view<...>)",
    ],
)
def test_global_memory_view_types_parse_as_printed(text: str) -> None:
    program = pto.parse(text)
    assert "!pto.partition_tensor_view<...>" in str(program) and pto.parse(str(program)) == program
    found_ = pto.verify(program)
    assert len(found_) == 2 and all(d.rule == "type-given" and "not given" in d.message for d in found_)


def test_intrinsics_tadd_and_tload_take_destination_and_sources() -> None:
    """``TADD(dst, src0, src1)`` and ``TLOAD(dst, src)`` in the destination-first spelling."""
    body = "tload %a, %px : TILE, WINDOW\ntadd %b, %a, %a : TILE\ntstore %b, %py : TILE, WINDOW\n"
    x = np.random.default_rng(13).standard_normal((8, 64), np.float32)
    out = pto.compile(memory_program("f32", body))(x, np.zeros_like(x))
    np.testing.assert_array_equal(np.asarray(out["y"]), x + x)


def test_optional_events_chain_without_effect_on_values() -> None:
    chained = LOAD + "pto.tsync\n" + DOUBLE + "pto.barrier <PIPE_ALL>\n" + STORE
    x = np.random.default_rng(14).standard_normal((8, 64), np.float32)
    plain = pto.compile(memory_program("f32", LOAD + DOUBLE + STORE))(x, np.zeros_like(x))["y"]
    out = jax.jit(pto.compile(memory_program("f32", chained)))(x, np.zeros_like(x))["y"]
    np.testing.assert_array_equal(np.asarray(out), np.asarray(plain))
