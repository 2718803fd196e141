"""Page pto.trowexpandadd: its requirements, one test each, in the page's order.

Values are those of the reference interpreter, which the engine gives too: in every mode and type of this
page here, with random patterns and regions in the tests of all declarations.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.isa.check import run_time_rules
from pto_jax.oracle import OracleTile as Tile
from pto_jax.text.type_text import print_type
from pto_jax.types import BLayout

Array = np.ndarray[Any, Any]

PROFILES = ("cpu_sim", "a2a3", "a5")
#: The page's list; the simulator executes the A5 types.
TABLE = {
    "cpu_sim": ("f16", "f32", "i16", "i32", "u16", "u32"),
    "a2a3": ("f16", "f32", "i16", "i32"),
    "a5": ("f16", "f32", "i16", "i32", "u16", "u32"),
}
SUPPORTED = [(p, d) for p, names in TABLE.items() for d in names]
ALL_TYPES = "f32 f16 bf16 i8 u8 i16 u16 i32 u32 i64 u64 f8e4m3 f8e5m2 hif8".split()
SPELLED = {"u8": "ui8", "u16": "ui16", "u32": "ui32", "u64": "ui64", "f8e4m3": "f8E4M3", "f8e5m2": "f8E5M2"}
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
FULL_COLUMNS = tile("16x16xf32, blayout=col_major")
COLUMN = tile("16x1xf32, blayout=col_major")
_DYNAMIC_COLUMN = "16x1xf32, valid=?x?, blayout=col_major"


def errors(text: str, profile: str) -> list[str]:
    found = pto.verify(pto.parse(text), profile=profile)
    return [str(d) for d in found if d.severity == "error"]


def rules(text: str, profile: str) -> set[str | None]:
    """The rules that reject a program."""
    return {d.rule for d in pto.verify(pto.parse(text), profile=profile) if d.severity == "error"}


def dps(dst: str, src0: str, src1: str, tmp: str | None = None) -> str:
    """The instruction on operands of the given types."""
    types = [src0, src1] + ([tmp] if tmp else [])
    names = "%src0, %src1" + (", %tmp" if tmp else "")
    return f"pto.trowexpandadd ins({names} : {', '.join(types)}) outs(%dst : {dst})"


SSA = "%dst = pto.trowexpandadd %src0, %src1 : !pto.tile<...>, !pto.tile<...> -> !pto.tile<...>"
DPS = (
    "pto.trowexpandadd ins(%src0, %src1 : !pto.tile_buf<...>, !pto.tile_buf<...>) "
    "outs(%dst : !pto.tile_buf<...>)"
)
PRINTED = {
    "Synchronous form": (
        "%dst = trowexpandadd %src0, %src1 : !pto.tile<...>, !pto.tile<...> -> !pto.tile<...>"
    ),
    "AS Level 1 (SSA)": SSA,
    "AS Level 2 (DPS)": DPS,
    "Auto Mode": f"# Auto mode: compiler/runtime-managed placement and scheduling.\n{SSA}",
    "Manual Mode": (
        "# Manual mode: bind resources explicitly before issuing the instruction.\n"
        "# Optional for tile operands:\n"
        "# pto.tassign %arg0, @tile(0x1000)\n"
        "# pto.tassign %arg1, @tile(0x2000)\n"
        f"{SSA}"
    ),
    "PTO Assembly Form, AS Level 2 (DPS)": f"# AS Level 2 (DPS)\n{DPS}",
}


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED.keys())
def test_printed_spelling_parses_as_printed(text: str) -> None:
    program = pto.parse(text)
    (op,) = program.walk()
    assert op.name == "trowexpandadd" and program.fragment_results == ("dst",)
    assert [v.name for v in op.ins] == ["src0", "src1"]
    assert [v.name for v in op.destinations] == ["dst"]
    assert bool(op.outs) == ("outs" in text)
    assert "<...>" in str(program)
    assert pto.parse(str(program)) == program


def test_the_spellings_with_a_result_are_one_program() -> None:
    program = pto.parse(SSA)
    for text in (PRINTED["Synchronous form"], PRINTED["Auto Mode"], PRINTED["Manual Mode"]):
        other = pto.parse(text, file="other.pto")
        assert other == program and hash(other) == hash(program) and other.digest == program.digest
    assert pto.parse(DPS) != program


# --- Mechanism ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("expanded", ["src1", "src0"])
@pytest.mark.parametrize(("profile", "d"), SUPPORTED)
def test_mode_1_adds_a_scalar_to_each_row(profile: str, d: str, expanded: str) -> None:
    whole, vector = tile_type(d, 16, 32), column_type(d)
    full, scalars = random_tile(1, whole), random_tile(2, vector)
    pair = (full, scalars) if expanded == "src1" else (scalars, full)
    got = add(random_tile(3, whole), *pair, profile)
    with np.errstate(all="ignore"):
        same(got, numbers(full) + numbers(scalars))


@pytest.mark.parametrize("expanded", ["src1", "src0"])
@pytest.mark.parametrize(("profile", "d"), SUPPORTED)
def test_mode_2_adds_a_block_that_repeats_across_the_row(profile: str, d: str, expanded: str) -> None:
    whole, vector = tile_type(d, 16, 96), tile_type(d, 16, block(d))
    full, blocks = random_tile(4, whole), random_tile(5, vector)
    pair = (full, blocks) if expanded == "src1" else (blocks, full)
    got = add(random_tile(6, whole), *pair, profile)
    repeated = np.tile(numbers(blocks), (1, 96 // block(d)))
    with np.errstate(all="ignore"):
        same(got, numbers(full) + repeated)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_block_repeats_from_the_start_of_each_row_when_it_does_not_divide_the_width(profile: str) -> None:
    whole = tile_type("i32", 8, 32).with_valid(8, 19)
    full = Tile(whole, np.zeros((8, 32), np.uint32))
    blocks = Tile(tile_type("i32", 8, 8), np.arange(64, dtype=np.uint32).reshape(8, 8))
    old = Tile(whole, np.full((8, 32), 7, np.uint32))
    want = np.full((8, 32), 7)
    want[:, :19] = np.tile(blocks.data, (1, 4))[:, :19]
    np.testing.assert_array_equal(add(old, full, blocks, profile), want)


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("d", TABLE["a2a3"])
def test_the_same_legal_input_gives_equal_bits_on_all_profiles(d: str, mode: int) -> None:
    whole = tile_type(d, 16, 64).with_valid(11, 53)
    width = 1 if mode == 1 else block(d)
    vector = (column_type(d) if mode == 1 else tile_type(d, 16, width)).with_valid(11, width)
    old, full, values = (random_tile(seed, t) for seed, t in enumerate((whole, whole, vector)))
    first, *others = (add(old, full, values, p) for p in PROFILES)
    for other in others:
        np.testing.assert_array_equal(first, other)


REGIONS = ((16, 64), (11, 53), (1, 1), (0, 64))


def every_mode() -> dict[str, tuple[pto.TileType, pto.TileType, bool]]:
    """Full and expanded operand per instruction of one program: types of all profiles, modes, both orders."""
    found = {}
    for d, mode, first in product(TABLE["a2a3"], (1, 2), (False, True)):
        vector = column_type(d) if mode == 1 else tile_type(d, 16, block(d))
        types = tile_type(d, 16, 64).with_valid(None, None), vector.with_valid(None, None)
        found[f"{d}_{mode}_{first:d}"] = (*types, first)
    return found


def engine_and_interpreter(profile: str) -> Iterator[tuple[str, Array, Array]]:
    """Words after every instruction of one program, for each region."""
    cases = every_mode()
    lines, given = [], {}
    for seed, (name, (full, vector, first)) in enumerate(cases.items()):
        pair = [(f"f_{name}", full), (f"v_{name}", vector)][:: -1 if first else 1]
        types = ", ".join(print_type(t) for _, t in pair)
        operands = ", ".join(f"%{n}" for n, _ in pair)
        lines.append(f"pto.trowexpandadd ins({operands} : {types}) outs(%d_{name} : {print_type(full)})")
        data = [(f"f_{name}", full), (f"v_{name}", vector), (f"d_{name}", full)]
        given.update({n: random_tile(3 * seed + i, t) for i, (n, t) in enumerate(data)})
    program = pto.parse("\n".join(lines))
    kernel_ = jax.jit(pto.compile(program, profile=profile))
    for rows, cols in REGIONS:
        regions = {
            n: (rows, min(cols, t.type.cols) if n[0] != "v" else t.type.cols) for n, t in given.items()
        }
        tiles = {n: pto.tile(t.data, type=t.type, valid=regions[n]) for n, t in given.items()}
        got = kernel_(**tiles)
        reference = {n: Tile(t.type, t.data, *regions[n]) for n, t in given.items()}
        wanted = oracle.run(program, reference, profile=profile)
        for name in cases:
            words = np.asarray(got[f"d_{name}"].words)
            yield f"{name} {rows}x{cols}", words, wanted[f"d_{name}"].data


def test_the_engine_gives_the_bits_of_the_interpreter_on_all_profiles() -> None:
    by_profile = [list(engine_and_interpreter(p)) for p in PROFILES]
    for (what, got, wanted), *others in zip(*by_profile, strict=True):
        d = what.split("_")[0]
        same(got, wanted.view(NUMPY[d]))
        for _, other, _ in others:
            np.testing.assert_array_equal(got, other, what)


@pytest.mark.parametrize("profile", PROFILES)
def test_sums_round_once_and_integers_wrap(profile: str) -> None:
    half = Tile(tile_type("f16", 16, 16), np.full((16, 16), 0x6800, np.uint16))
    small = Tile(column_type("f16"), np.full((16, 1), 0x3C00, np.uint16))
    assert (add(half, half, small, profile) == 0x6800).all()
    top = Tile(tile_type("i16", 16, 16), np.full((16, 16), 0x7FFF, np.uint16))
    one = Tile(column_type("i16"), np.full((16, 1), 1, np.uint16))
    assert (add(top, top, one, profile) == 0x8000).all()


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_valid_region_of_dst_is_the_iteration_domain(profile: str, mode: int) -> None:
    """Lanes elsewhere keep their bytes; lanes outside the sources' regions are not read."""
    whole = tile_type("f32", 16, 32).with_valid(5, 13)
    width = 1 if mode == 1 else 8
    vector = (column_type("f32") if mode == 1 else tile_type("f32", 16, width)).with_valid(5, width)
    full, other, old = (random_tile(s, t) for s, t in ((7, whole), (8, vector), (9, whole)))
    got = add(old, full, other, profile)
    outside = np.ones((16, 32), bool)
    outside[:5, :13] = False
    np.testing.assert_array_equal(got[outside], old.data[outside])
    changed = full.data.copy(), other.data.copy()
    changed[0][outside] ^= 0xFFFF
    changed[1][5:] ^= 0xFFFF
    again = add(old, Tile(whole, changed[0]), Tile(vector, changed[1]), profile)
    np.testing.assert_array_equal(got, again)


@pytest.mark.parametrize("profile", PROFILES)
def test_an_empty_destination_is_left_alone(profile: str) -> None:
    whole, vector = tile_type("f32", 16, 16).with_valid(0, 16), column_type("f32").with_valid(0, 1)
    old, full, scalars = (random_tile(s, t) for s, t in ((20, whole), (21, whole), (22, vector)))
    np.testing.assert_array_equal(add(old, full, scalars, profile), old.data)


# --- Syntax with tmp ---------------------------------------------------------------------------------


def test_tmp_is_an_optional_third_source() -> None:
    with_tmp = pto.parse(dps(FULL, FULL, COLUMN, tmp=FULL))
    (op,) = with_tmp.walk()
    assert [v.name for v in op.ins] == ["src0", "src1", "tmp"]
    assert pto.parse(str(with_tmp)) == with_tmp
    ssa = (
        "%dst = pto.trowexpandadd %src0, %src1, %tmp : "
        "(!pto.tile<16x16xf32>, !pto.tile<16x1xf32, blayout=col_major>, !pto.tile<16x16xf32>) "
        "-> !pto.tile<16x16xf32>"
    )
    (op,) = pto.parse(ssa).walk()
    assert [v.name for v in op.ins] == ["src0", "src1", "tmp"]
    intrinsic = (
        "trowexpandadd %dst, %src0, %src1, %tmp : !pto.tile<16x16xf32>, !pto.tile<16x16xf32>, "
        "!pto.tile<16x1xf32, blayout=col_major>, !pto.tile<16x16xf32>"
    )
    (op,) = pto.parse(intrinsic).walk()
    assert [v.name for v in (*op.outs, *op.ins)] == ["dst", "src0", "src1", "tmp"]
    assert rules(intrinsic, "a2a3") == set()


# --- Constraints -------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("odd", ["dst", "src0", "src1"])
def test_all_three_tiles_have_one_element_type(profile: str, odd: str) -> None:
    types = {"dst": FULL, "src0": FULL, "src1": COLUMN}
    types[odd] = types[odd].replace("f32", "i32")
    assert rules(dps(**types), profile) == {"types-equal"}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("d", ALL_TYPES)
def test_element_types_per_profile(profile: str, d: str) -> None:
    written = SPELLED.get(d, d)
    width = max(32, 256 // pto.dtype(d).bits)
    whole = f"!pto.tile_buf<vec, {width}x{width}x{written}>"
    column = f"!pto.tile_buf<vec, {width}x1x{written}, blayout=col_major>"
    found = rules(dps(whole, whole, column), profile)
    assert (found == set()) == (d in TABLE[profile]), found
    if d not in TABLE[profile]:
        assert found & {"types", "type-exists"}


@pytest.mark.parametrize("profile", PROFILES)
def test_dst_is_row_major(profile: str) -> None:
    assert rules(dps(FULL_COLUMNS, FULL, COLUMN), profile) == {"layout"}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("other", ["16x8xf32, valid=16x4", "16x1xf32, blayout=col_major"])
def test_one_source_has_the_valid_shape_of_dst(profile: str, other: str) -> None:
    found = rules(dps(FULL, tile("16x8xf32"), tile(other)), profile)
    assert found == {"full-operand"}


@pytest.mark.parametrize("profile", PROFILES)
def test_both_sources_with_the_valid_shape_of_dst(profile: str) -> None:
    text = dps(FULL, FULL, FULL)
    found = [(d.rule, d.severity) for d in pto.verify(pto.parse(text), profile=profile)]
    assert found == [("one-full-operand", "warning" if profile == "cpu_sim" else "error")]


def test_both_matching_on_the_simulator_is_the_lane_wise_sum() -> None:
    t = tile_type("f32", 16, 8)
    a, b = random_tile(10, t), random_tile(11, t)
    with np.errstate(all="ignore"):
        same(add(a, a, b, "cpu_sim"), numbers(a) + numbers(b))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("order", [0, 1])
def test_the_full_operand_is_row_major(profile: str, order: int) -> None:
    sources = [FULL_COLUMNS, COLUMN]
    found = rules(dps(FULL, *(sources if order == 0 else sources[::-1])), profile)
    assert found == {"full-layout"}


@pytest.mark.parametrize("order", [0, 1], ids=["src1 expanded", "src0 expanded"])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("expanded", "legal"),
    [
        ("16x1xf32, blayout=col_major", True),
        ("24x1xf32, valid=16x1, blayout=col_major", True),
        ("24x1xf32, blayout=col_major", False),
        ("16x1xf32, valid=15x1, blayout=col_major", False),
        ("16x2xf32, blayout=col_major", False),
        ("16x8xf32, blayout=col_major", False),
        ("16x8xf32", True),
        ("24x32xf32, valid=16x8", True),
        ("16x8xf32, valid=16x1", False),
        ("16x8xf32, valid=16x7", False),
        ("16x8xf32, valid=15x8", False),
        ("24x8xf32", False),
        ("1x16xf32", False),
    ],
)
def test_the_expanded_operand_has_one_of_two_shapes(
    profile: str, expanded: str, legal: bool, order: int
) -> None:
    sources = [FULL, tile(expanded)]
    found = rules(dps(FULL, *(sources if order == 0 else sources[::-1])), profile)
    assert found == (set() if legal else {"expanded-operand"})


@pytest.mark.parametrize(("d", "columns"), [("f16", 16), ("i16", 16), ("f32", 8), ("i32", 8)])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_block_is_16_values_of_16_bits_or_8_of_32(profile: str, d: str, columns: int) -> None:
    whole = tile(f"16x64x{d}")
    for count in (8, 16, 32):
        found = rules(dps(whole, whole, tile(f"16x64x{d}, valid=16x{count}")), profile)
        assert (found == set()) == (count == columns)


@pytest.mark.parametrize("profile", PROFILES)
def test_run_time_sizes_are_not_guessed(profile: str) -> None:
    dynamic = tile("16x16xf32, valid=?x?")
    assert rules(dps(dynamic, dynamic, COLUMN), profile) == set()
    assert rules(dps(FULL, dynamic, tile("16x1xf32, valid=15x1, blayout=col_major")), profile) == {
        "expanded-operand"
    }


def broken(rule: str, profile: str, types: tuple[str, ...], **sizes: tuple[int, int]) -> bool:
    """Whether run-time valid sizes break a rule, asked as an engine asks."""
    program = pto.parse(dps(*types))
    (op,) = program.walk()
    (constraint,) = (c for c in run_time_rules(op, pto.profile(profile)) if c.rule == rule)
    assert constraint.region is not None
    named = {v.name: v.type for v in (*op.ins, *op.outs) if isinstance(v.type, pto.TileType)}
    return bool(constraint.region.broken(sizes, named))


def test_rules_on_run_time_sizes() -> None:
    types = tuple(tile(t) for t in ("16x16xf32, valid=?x?", "16x16xf32, valid=?x?", _DYNAMIC_COLUMN))
    legal = {"dst": (5, 16), "src0": (5, 16), "src1": (5, 1)}
    for rule in ("full-operand", "one-full-operand", "full-layout", "expanded-operand"):
        assert not broken(rule, "a2a3", types, **legal)
    assert broken("full-operand", "a5", types, **{**legal, "src0": (5, 15)})
    assert broken("one-full-operand", "a5", types, **{**legal, "dst": (5, 1), "src0": (5, 1)})
    assert broken("full-layout", "a5", types, dst=(5, 1), src0=(5, 8), src1=(5, 1))
    assert broken("expanded-operand", "a5", types, **{**legal, "src1": (4, 1)})
    big = (*types, tile("8x8xf32"))
    for rows, fits in ((8, True), (9, False), (0, True)):
        sizes = {"dst": (rows, 16), "src0": (rows, 16), "src1": (rows, 1), "tmp": (8, 8)}
        assert broken("tmp-size", "a2a3", big, **sizes) != fits


def test_execution_reports_the_run_time_sizes_that_break_a_rule() -> None:
    text = dps(*(tile(t) for t in ("16x16xf32, valid=?x?", "16x16xf32, valid=?x?", _DYNAMIC_COLUMN)))
    kernel_ = pto.compile(pto.parse(text), profile="a2a3", checks=True)
    ones: Array = np.ones((16, 16), np.float32)
    column = pto.tile(ones[:, :1], valid=(5, 1), type=column_type("f32"))
    full, legal, short = (pto.tile(ones, valid=region) for region in ((5, 16), (5, 16), (5, 15)))
    out, report = kernel_(full, column, legal)
    assert not report.problems() and np.asarray(out["dst"])[4, 15] == 2
    _, report = kernel_(full, column, short)
    assert [d.rule for d in report.problems()] == ["full-operand"]
    with pytest.raises(pto.ExecutionError, match="exactly one source with dst's valid region"):
        kernel_.eager(full, column, short)


# --- Temporary tile ----------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_tmp_goes_with_mode_1_only(profile: str) -> None:
    assert rules(dps(FULL, FULL, COLUMN, tmp=FULL), profile) == set()
    assert rules(dps(FULL, FULL, tile("16x8xf32"), tmp=FULL), profile) == {"tmp-mode"}
    assert rules(dps(FULL, COLUMN, FULL, tmp=FULL), profile) == set()


@pytest.mark.parametrize("d", ["f32", "f16"])
@pytest.mark.parametrize(
    ("rows", "least"), [(1, 256), (8, 256), (9, 512), (240, 7680), (241, 7936), (255, 8192), (256, 7680)]
)
def test_size_of_tmp_on_a2a3(rows: int, least: int, d: str) -> None:
    physical, unit = -(-rows // 16) * 16, block(d)
    whole = tile(f"{physical}x{unit * 2}x{d}, valid={rows}x{unit * 2}")
    column = tile(f"{physical}x1x{d}, valid={rows}x1, blayout=col_major")

    def found(size: int, profile: str) -> set[str | None]:
        return rules(dps(whole, whole, column, tmp=tile(f"{size // 32}x{unit}x{d}")), profile)

    assert found(least, "a2a3") == found(8192, "a2a3") == set()
    assert found(least - 32, "a2a3") == {"tmp-size"}
    assert found(32, "a5") == found(32, "cpu_sim") == set()


ROWS = (1, 8, 9, 240, 241, 255, 256)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_number_of_rows_with_the_tmp_that_always_suffices(profile: str) -> None:
    whole, column = "256x16xi32, valid=?x?", "256x1xi32, valid=?x?, blayout=col_major"
    program = pto.parse(dps(tile(whole), tile(whole), tile(column), tmp=tile("256x8xi32")))
    assert pto.verify(program, profile=profile) == []
    kernel_ = pto.compile(program, profile=profile)
    types = {v.name: v.type for v in program.functions[0].args if isinstance(v.type, pto.TileType)}
    x, y = (np.random.default_rng(n).integers(-9, 9, (256, w), np.int32) for n, w in ((1, 16), (2, 1)))
    old = np.full((256, 16), 77, np.int32)

    def one(rows: Any) -> Any:
        given = {"src0": (x, 16), "src1": (y, 1), "dst": (old, 16)}
        tiles = {n: pto.tile(a, type=types[n], valid=(rows, w)) for n, (a, w) in given.items()}
        return kernel_(**tiles, tmp=pto.tile(x[:, :8]))["dst"].words

    found = np.asarray(jax.vmap(one)(np.array(ROWS, np.int32))).view(np.int32)
    for rows, got in zip(ROWS, found, strict=True):
        np.testing.assert_array_equal(got[:rows], (x + y)[:rows])
        assert (got[rows:] == 77).all()


@pytest.mark.parametrize("profile", PROFILES)
def test_tmp_has_no_part_in_the_result(profile: str) -> None:
    whole, vector = tile_type("f32", 16, 16), column_type("f32")
    old, full, values = (random_tile(s, t) for s, t in ((12, whole), (13, whole), (14, vector)))
    plain = add(old, full, values, profile)
    for seed in (15, 16):
        scratch = random_tile(seed, tile_type("f32", 16, 64))
        np.testing.assert_array_equal(add(old, full, values, profile, scratch), plain)


def kernel(address: int, source: str = COLUMN, tmp: bool = False, called: bool = False) -> str:
    """A kernel that has a tile at an address, and adds (itself or in a function it calls)."""
    names = "%b, %t" if tmp else "%b"
    types = f"{source}, {FULL}" if tmp else source
    operation = f"pto.trowexpandadd ins(%a, {names} : {FULL}, {types}) outs(%a : {FULL})"
    inner = f"func.func private @inner() {{ %a = pto.alloc_tile : {FULL}\n%b = pto.alloc_tile : {source}\n"
    inner += f"%t = pto.alloc_tile : {FULL}\n{operation}\nreturn }}"
    body = (
        "func.call @inner() : () -> ()"
        if called
        else f"%a = pto.alloc_tile : {FULL}\n%b = pto.alloc_tile : {source}\n"
        f"%t = pto.alloc_tile : {FULL}\n{operation}"
    )
    place = f"%c = arith.constant {address} : i64\n%p = pto.alloc_tile addr = %c : {FULL}"
    functions = f"func.func @f() {{\n{place}\n{body}\nreturn }}"
    return "module {\n" + functions + (f"\n{inner}" if called else "") + "\n}"


@pytest.mark.parametrize(
    ("address", "free"),
    [(0, True), (187392, True), (187424, False), (188416, False), (192512, False), (195584, False)],
)
@pytest.mark.parametrize("called", [False, True])
def test_hidden_scratch_of_mode_1_on_a2a3(address: int, free: bool, called: bool) -> None:
    assert rules(kernel(address, called=called), "a2a3") == (set() if free else {"hidden-scratch"})
    for profile in ("cpu_sim", "a5"):
        assert rules(kernel(address, called=called), profile) == set()


def test_no_hidden_scratch_with_tmp_or_in_mode_2() -> None:
    assert rules(kernel(188416, tmp=True), "a2a3") == set()
    assert rules(kernel(188416, source=tile("16x8xf32")), "a2a3") == set()


def test_automatic_allocation_ends_below_the_hidden_scratch() -> None:
    def text(rows: int) -> str:
        big = f"%big = pto.alloc_tile : !pto.tile_buf<vec, {rows}x64xf32>"
        return kernel(0).replace("return }", f"{big}\nreturn }}")

    assert rules(text(736), "a2a3") == set()
    assert rules(text(737), "a2a3") == {"hidden-scratch"}


def test_messages_name_what_was_found_and_what_is_allowed() -> None:
    (found,) = errors(dps(FULL, FULL, FULL), "a5")
    assert "both sources" in found and "allowed: exactly one" in found
    (found,) = errors(dps(FULL, FULL, COLUMN, tmp=tile("1x8xf32")), "a2a3")
    assert "32 bytes" in found and "at least 512" in found and "tmp" in found
    (found,) = errors(kernel(188416), "a2a3")
    assert "[188416, 196608)" in found and "%p" in found


# --- Target-profile restrictions, examples -----------------------------------------------------------


@pytest.mark.parametrize("source", [COLUMN, tile("16x8xf32")], ids=["mode 1", "mode 2"])
def test_portable_programs(source: str) -> None:
    portable = pto.verify(pto.parse(dps(FULL, FULL, source)), portable=True)
    assert portable == []
    unsigned = FULL.replace("f32", "ui32"), source.replace("f32", "ui32")
    found = pto.verify(pto.parse(dps(unsigned[0], *unsigned)), portable=True, profile="a5")
    assert [d.rule for d in found if d.severity == "error"] == ["types"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("manual", [False, True], ids=["auto", "manual"])
def test_the_examples_of_the_page(profile: str, manual: bool) -> None:
    """16x16 float tiles and a column of 16; with addresses 0x1000, 0x2000 and 0x3000 in the manual one."""
    places = {"src0": 0x1000, "dst": 0x2000, "src1": 0x3000} if manual else {}
    lines = []
    for name, t in (("src0", FULL), ("src1", COLUMN), ("dst", FULL)):
        address = places.get(name)
        if address is not None:
            lines.append(f"%at_{name} = arith.constant {address} : i64")
        lines.append(f"%{name} = pto.alloc_tile {f'addr = %at_{name}' if address is not None else ''} : {t}")
    lines += [
        f"%one = arith.constant 1.5 : f32\npto.texpands ins(%one : f32) outs(%src0 : {FULL})",
        f"%v = pto.alloc_tile : {FULL}\npto.texpands ins(%one : f32) outs(%v : {FULL})",
        f"%t = pto.alloc_tile : {FULL}",
        f"pto.trowsum ins(%v, %t : {FULL}, {FULL}) outs(%src1 : {COLUMN})",
        f"pto.trowexpandadd ins(%src0, %src1 : {FULL}, {COLUMN}) outs(%dst : {FULL})",
        "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%c16 = arith.constant 16 : index",
        "%view = pto.make_tensor_view %p, shape = [%c16, %c16], strides = [%c16, %c1]"
        " : !pto.tensor_view<16x16xf32>",
        "%w = pto.partition_view %view, offsets = [%c0, %c0], sizes = [%c16, %c16]"
        " : !pto.tensor_view<16x16xf32> -> !pto.partition_tensor_view<16x16xf32>",
        f"pto.tstore ins(%dst : {FULL}) outs(%w : !pto.partition_tensor_view<16x16xf32>)",
    ]
    text = "module { func.func @f(%p: !pto.ptr<f32>) {\n" + "\n".join(lines) + "\nreturn } }"
    assert errors(text, profile) == []
    out = oracle.run(pto.parse(text), {"p": np.zeros((16, 16), np.float32)}, profile=profile)
    np.testing.assert_array_equal(out["p"], np.full((16, 16), 1.5 + 16 * 1.5, np.float32))
    if profile == "a2a3":
        made = pto.compile(pto.parse(text), profile=profile)(np.zeros((16, 16), np.float32))
        np.testing.assert_array_equal(np.asarray(made["p"]), out["p"])
