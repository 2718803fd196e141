"""Page pto.trowexpandadd, sections up to the syntax: their requirements, one test each, in the page's order.

Values are those of the reference interpreter, which the engine gives too: in every mode and type of this
page here, with random patterns and regions in the tests of all declarations.
"""

from collections.abc import Iterator
from itertools import product

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.oracle import OracleTile as Tile
from pto_jax.text.type_text import print_type
from tests.seeds.trowexpandadd import (
    COLUMN,
    FULL,
    NUMPY,
    PROFILES,
    TABLE,
    Array,
    add,
    block,
    column_type,
    dps,
    numbers,
    random_tile,
    rules,
    same,
    tile_type,
)

SUPPORTED = [(p, d) for p, names in TABLE.items() for d in names]

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
        expected = oracle.run(program, reference, profile=profile)
        for name in cases:
            words = np.asarray(got[f"d_{name}"].words)
            yield f"{name} {rows}x{cols}", words, expected[f"d_{name}"].data


@pytest.mark.slow
def test_the_engine_gives_the_bits_of_the_interpreter_on_all_profiles() -> None:
    by_profile = [list(engine_and_interpreter(p)) for p in PROFILES]
    for (what, got, expected), *others in zip(*by_profile, strict=True):
        d = what.split("_")[0]
        same(got, expected.view(NUMPY[d]))
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
