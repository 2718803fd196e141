"""Page pto.trowexpandadd, sections from the constraints to the examples: one test per requirement."""

from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa, oracle
from tests.seeds.tadd import errors
from tests.seeds.trowexpandadd import (
    COLUMN,
    FULL,
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
    tile,
    tile_type,
)
from tests.tables import every

ALL_TYPES = "f32 f16 bf16 i8 u8 i16 u16 i32 u32 i64 u64 f8e4m3 f8e5m2 hif8".split()
SPELLED = {"u8": "ui8", "u16": "ui16", "u32": "ui32", "u64": "ui64", "f8e4m3": "f8E4M3", "f8e5m2": "f8E5M2"}
FULL_COLUMNS = tile("16x16xf32, blayout=col_major")
_DYNAMIC_COLUMN = "16x1xf32, valid=?x?, blayout=col_major"


# --- Constraints -------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("odd", ["dst", "src0", "src1"])
def test_all_three_tiles_have_one_element_type(profile: str, odd: str) -> None:
    types = {"dst": FULL, "src0": FULL, "src1": COLUMN}
    types[odd] = types[odd].replace("f32", "i32")
    assert rules(dps(**types), profile) == {"types-equal"}


@every("profile", PROFILES)
@every("d", ALL_TYPES)
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
    declared = isa.instructions()[op.name].constraints
    (constraint,) = (c for c in declared if c.region and profile in c.profiles and c.rule == rule)
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


@pytest.mark.slow
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
