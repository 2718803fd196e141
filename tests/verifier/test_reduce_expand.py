"""Reductions and expansions: what each profile accepts beyond what the declarations' samples show."""

from collections.abc import Callable

import pytest

from pto_jax.errors import Diagnostic

Check = Callable[..., list[Diagnostic]]
PROFILES = ("cpu_sim", "a2a3", "a5")


def tile(text: str) -> str:
    return f"!pto.tile_buf<vec, {text}>"


def dps(name: str, sources: list[str], destinations: list[str], extra: str = "") -> str:
    """An operation on operands of the given types."""
    ins = ", ".join(f"%s{i}" for i, _ in enumerate(sources))
    outs = ", ".join(f"%d{i}" for i, _ in enumerate(destinations))
    return (
        f"pto.{name} ins({ins}{extra} : {', '.join(map(tile, sources))}) "
        f"outs({outs} : {', '.join(map(tile, destinations))})"
    )


def rules(found: list[Diagnostic], severity: str = "error") -> set[str | None]:
    return {d.rule for d in found if d.severity == severity}


COLUMN = "16x1xf32, blayout=col_major"


@pytest.mark.parametrize(
    ("dst", "legal"),
    [
        (COLUMN, "cpu_sim a2a3 a5"),
        ("16x8xf32, valid=16x1", "cpu_sim a2a3 a5"),
        ("16x32xf32", "cpu_sim a2a3 a5"),
        ("16x8xf32, blayout=col_major", "cpu_sim"),
        ("16x8xf32, valid=15x1", "cpu_sim"),
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_where_row_results_are_stored(check: Check, profile: str, dst: str, legal: str) -> None:
    found = rules(check(dps("trowmax", ["16x32xf32"], [dst]), profile))
    assert (found == set()) == (profile in legal.split()), found


@pytest.mark.parametrize("profile", PROFILES)
def test_results_have_room_for_every_line(check: Check, profile: str) -> None:
    assert rules(check(dps("trowsum", ["16x32xf32"], ["8x8xf32"]), profile)) == {"holds-rows"}
    assert rules(check(dps("tcolmin", ["16x32xf32"], ["1x16xf32"]), profile)) == {"holds-cols"}
    (found,) = check(dps("trowsum", ["16x32xf32"], ["8x8xf32"]), profile)
    assert found.message.startswith("dst has 8 rows; allowed: at least 16, the valid rows of src; try: ")


@pytest.mark.parametrize(
    ("name", "types", "legal"),
    [
        ("trowsum", ("f32", "f32"), "cpu_sim a2a3 a5"),
        ("trowsum", ("f32", "f16"), "cpu_sim"),
        ("trowsum", ("i64", "i64"), "a5"),
        ("trowsum", ("bf16", "bf16"), "cpu_sim"),
        ("tcolsum", ("i32", "i32"), "a2a3 a5"),
        ("tcolmax", ("i8", "i8"), "cpu_sim a5"),
        ("tcolprod", ("bf16", "bf16"), "cpu_sim a5"),
        ("trowmin", ("ui8", "ui8"), "cpu_sim a5"),
        ("trowexpand", ("f32", "i32"), "cpu_sim"),
        ("tcolexpand", ("i64", "i64"), "cpu_sim a5"),
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_element_types(check: Check, profile: str, name: str, types: tuple[str, str], legal: str) -> None:
    dst, src = types
    shapes = {"trow": ("32x32", "32x32"), "tcol": ("1x32", "32x32")}[name[:4]]
    if name.endswith("expand"):
        shapes = ("32x32", "32x32" if name == "trowexpand" else "1x32")
    found = rules(check(dps(name, [f"{shapes[1]}x{src}"], [f"{shapes[0]}x{dst}"]), profile))
    assert found == (set() if profile in legal.split() else {"types"})


@pytest.mark.parametrize("profile", PROFILES)
def test_a_scratch_tile_may_be_left_out(check: Check, profile: str) -> None:
    assert check(dps("trowmax", ["16x32xf32"], [COLUMN]), profile) == []
    assert check(dps("trowmax", ["16x32xf32", "16x64xf32"], [COLUMN]), profile) == []


def test_scratch_of_a2a3(check: Check) -> None:
    ints = ["16x32xi32", "1x8xi32"]
    assert check(dps("trowsum", ints, ["16x8xi32, valid=16x1"])) == []
    short = check(dps("trowsum", ["16x32xi32", "1x8xi32, valid=1x4"], ["16x8xi32, valid=16x1"]))
    assert rules(short, "warning") == {"tmp-size"} and not rules(short)
    other = dps("trowsum", ["16x32xi32", "1x8xf32"], ["16x8xi32, valid=16x1"])
    assert rules(check(other)) == {"tmp-type"} and check(other, "a5") == []


def test_adding_in_pairs_needs_half_the_rows(check: Check) -> None:
    pairs = " {isBinary = true}"
    for tmp, broken in (
        ("8x32", set()),
        ("7x32", {"tmp-bytes"}),
        ("7x64", set()),
        ("16x24", {"tmp-columns"}),
    ):
        sources = ["16x32xf32", f"{tmp}xf32"]
        assert rules(check(dps("tcolsum", sources, ["1x32xf32"], pairs))) == broken
        assert check(dps("tcolsum", sources, ["1x32xf32"])) == []


@pytest.mark.parametrize("profile", ["a2a3", "a5"])
def test_empty_sources(check: Check, profile: str) -> None:
    empty = (
        "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=32, v_row=16, v_col=0, blayout=row_major, "
        "slayout=none_box, fractal=512, pad=0>"
    )
    text = f"pto.trowsum ins(%s : {empty}) outs(%d : {tile(COLUMN)})"
    assert rules(check(text, profile)) == {"no-half"}
    assert check(text, "cpu_sim") == []


@pytest.mark.parametrize(
    ("name", "index", "source", "valued", "legal"),
    [
        ("trowargmax", "i32", "f16", False, "cpu_sim a2a3 a5"),
        ("trowargmax", "i16", "f16", False, ""),
        ("trowargmax", "i16", "f16", True, "a2a3 a5"),
        ("trowargmax", "i32", "f16", True, "cpu_sim a2a3 a5"),
        ("trowargmin", "ui32", "bf16", False, "cpu_sim a5"),
        ("tcolargmax", "i32", "f16", True, "cpu_sim"),
        ("tcolargmax", "i16", "f16", True, "a2a3 a5"),
        ("tcolargmin", "i32", "f32", True, "cpu_sim a2a3 a5"),
        ("tcolargmin", "i32", "i32", False, "cpu_sim a5"),
        ("tcolargmin", "i32", "i8", True, "cpu_sim"),
        ("tcolargmin", "i32", "i8", False, "cpu_sim a5"),
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_types_of_positions(
    check: Check, profile: str, name: str, index: str, source: str, valued: bool, legal: str
) -> None:
    rows = name.startswith("trow")
    line = "32x32x{}, valid=32x1" if rows else "1x32x{}"
    destinations = [line.format(source)] * valued + [line.format(index)]
    found = rules(check(dps(name, [f"32x32x{source}"], destinations), profile))
    assert (found == set()) == (profile in legal.split()), found
    assert found <= {"types", "index-type"}


def test_values_have_the_type_of_the_source(check: Check) -> None:
    text = dps("trowargmax", ["16x32xf32"], ["16x8xi32, valid=16x1", "16x8xi32, valid=16x1"])
    (found,) = check(text)
    assert found.rule == "types-equal" and found.operand in ("src", "dstVal")


def test_columns_expand_a_row_of_the_second_source_only(check: Check) -> None:
    row, whole = "1x32xf32", "16x32xf32"
    for profile in PROFILES:
        assert check(dps("tcolexpandsub", [whole, row], [whole]), profile) == []
        assert "no-broadcast" in rules(check(dps("tcolexpandsub", [row, whole], [whole]), profile))
        assert rules(check(dps("tcolexpandadd", [whole, "1x16xf32"], [whole]), profile)) == {"vector-cols"}
    short = dps("tcolexpandadd", [whole, "1x32xf32, valid=1x31"], [whole])
    assert rules(check(short, "a5")) == {"vector-covers"}
    assert rules(check(short, "cpu_sim"), "warning") == {"vector-covers"}
    smaller = dps("tcolexpandadd", ["16x32xf32, valid=15x32", row], [whole])
    assert rules(check(smaller, "a2a3")) == {"valid-equal"}
    assert rules(check(smaller, "cpu_sim"), "warning") == {"region-covers"}


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div", "max", "min", "expdif"])
def test_every_row_expanding_instruction_has_the_rules_of_the_addition(check: Check, operation: str) -> None:
    name, whole, column = f"trowexpand{operation}", "16x32xf32", COLUMN
    for profile in PROFILES:
        assert check(dps(name, [whole, column], [whole]), profile) == []
        assert check(dps(name, [column, whole], [whole]), profile) == []
        assert check(dps(name, [whole, column, whole], [whole]), profile) == []
        any_tmp = profile == "a5" and operation != "add"
        found = rules(check(dps(name, [whole, "16x8xf32", whole], [whole]), profile))
        assert found == (set() if any_tmp else {"tmp-mode"})
    assert rules(check(dps(name, [whole, column, "1x8xf32"], [whole]), "a2a3")) == {"tmp-size"}


@pytest.mark.parametrize("profile", PROFILES)
def test_pairs_are_summed_in_equal_regions(check: Check, profile: str) -> None:
    whole = "16x32xf32"
    assert check(dps("tpairreducesum", [whole], [whole]), profile) == []
    smaller = dps("tpairreducesum", [whole], ["16x32xf32, valid=16x31"])
    assert rules(check(smaller, profile)) == {"valid-equal"}
    columns = "16x32xf32, blayout=col_major"
    assert rules(check(dps("tpairreducesum", [columns], [columns]), profile)) == {"layout"}
