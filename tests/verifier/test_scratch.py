"""Scratch tiles: where tools put one in, where a program has to give one, and how large it is."""

import pytest

from pto_jax.api import parse, verify
from pto_jax.isa import instructions
from pto_jax.isa.check import check_op
from pto_jax.isa.samples.operations import Sample, legal_samples, to_program
from pto_jax.profiles import PROFILE_NAMES, ProfileName, profile
from tests.tables import every

TABLE = instructions()
IMPLIED = [(i.name, o.name) for i in TABLE.values() for o in i.operands if o.implied is not None]


def without(name: str, operand: str, profile_name: ProfileName) -> list[Sample]:
    """The samples of an instruction that leave an operand out."""
    made = legal_samples(TABLE[name], profile(profile_name))
    return [s for s in made if operand not in s.form]


def rules(sample: Sample, profile_name: ProfileName, level: int | None) -> set[str | None]:
    op = to_program(sample).functions[0].body.ops[-1]
    return {d.rule for d in check_op(op, profile(profile_name), level=level) if d.severity == "error"}


@every(("name", "operand"), IMPLIED)
@every("profile_name", PROFILE_NAMES)
def test_programs_that_place_their_tiles_give_scratch(
    name: str, operand: str, profile_name: ProfileName
) -> None:
    implied = TABLE[name].operand(operand).implied
    assert implied is not None
    samples = without(name, operand, profile_name)
    missing = [s for s in samples if f"{operand}-given" in rules(s, profile_name, 3)]
    assert not missing or profile_name in implied.profiles
    for sample in samples:
        assert f"{operand}-given" not in rules(sample, profile_name, 2) | rules(sample, profile_name, None)
    always = {
        "trowsum",
        "trowargmax",
        "tcolargmin",
        "txor",
        "txors",
        "tprelu",
        "trem",
        "trems",
        "tsel",
        "tsels",
    }
    if name in always | {"tci", "ttrans", "tpow", "tpows"}:
        assert bool(missing) == (profile_name in implied.profiles)


def text(body: str, language: str = "2026-08") -> str:
    return f'module attributes {{pto.language = "{language}"}} {{ func.func @f() {{\n{body}return\n}} }}'


def found(
    body: str, level: int | None, profile_name: ProfileName = "a2a3", language: str = "2026-08"
) -> set[tuple[str | None, str]]:
    program = parse(text(body, language))
    return {(d.rule, d.severity) for d in verify(program, profile_name, level=level)}


T = "!pto.tile_buf<vec, 16x32x{}>"
OPEN = "!pto.tile_buf<vec, 16x32x{}, valid=?x?>"


def converted(source: str, target: str, attributes: str, tile: str = T) -> str:
    s, d = tile.format(source), tile.format(target)
    return (
        f"%s = pto.declare_tile -> {s}\n%d = pto.declare_tile -> {d}\n"
        f"pto.tcvt ins(%s{attributes} : {s}) outs(%d : {d})\n"
    )


def test_conversions_in_steps_need_scratch() -> None:
    off = " {sat_mode = #pto<saturation_mode OFF>}"
    missing = {("tmp-given", "error")}
    for pair in (("f32", "i16"), ("f16", "i16"), ("f16", "i8")):
        assert missing <= found(converted(*pair, off), 3)
        # Texts of August 2026 that say nothing say OFF.
        assert missing <= found(converted(*pair, ""), 3)
        assert not missing & found(converted(*pair, off.replace("OFF", "ON")), 3)
        assert not missing & found(converted(*pair, off), 3, "a5")
        assert not missing & found(converted(*pair, off), 2)
        assert missing <= found(converted(*pair, off, OPEN), 2)
        assert not missing & found(converted(*pair, ""), 3, language="2026-04")
    assert not missing & found(converted("f32", "f16", off), 3)


def test_tools_make_scratch_of_sizes_that_types_state() -> None:
    dst = "!pto.tile_buf<vec, 16x1xf32, blayout=col_major, valid=?x1>"
    src = OPEN.format("f32")
    body = (
        f"%s = pto.declare_tile -> {src}\n%d = pto.declare_tile -> {dst}\n"
        f"pto.trowsum ins(%s : {src}) outs(%d : {dst})\n"
    )
    assert found(body, 2) == {("tmp-given", "error")}
    assert not found(body, None) and not found(body, 2, "a5")
    (wrong,) = [d for d in verify(parse(text(body)), "a2a3", level=1) if d.severity == "error"]
    assert wrong.message.startswith("tmp is missing, and src has the valid region ?x?; allowed without it:")


def selection(tmp: str) -> str:
    data, mask, scratch = T.format("i16"), T.format("ui8"), f"!pto.tile_buf<vec, {tmp}>"
    tiles = {"t": data, "m": mask, "s": scratch}
    made = "".join(f"%{n} = pto.declare_tile -> {t}\n" for n, t in tiles.items())
    return f"{made}pto.tsel ins(%m, %t, %t, %s : {mask}, {data}, {data}, {scratch}) outs(%t : {data})\n"


@pytest.mark.parametrize(
    ("tmp", "rule"), [("1x2xi32", "tmp-bytes"), ("1x32xi16", "tmp-type"), ("1x8xi32", ""), ("1x4xf32", "")]
)
def test_scratch_that_is_too_small_is_an_error_since_august(tmp: str, rule: str) -> None:
    broken = {(rule, "error")} if rule else set()
    assert found(selection(tmp), None) == broken
    assert found(selection(tmp), None, language="2026-04") == {(rule, "warning") for rule, _ in broken}
    assert not found(selection(tmp), None, "a5")


@pytest.mark.parametrize("columns", [33, 32])
def test_a_short_last_block_is_sorted_through_scratch(columns: int) -> None:
    source = f"!pto.tile_buf<vec, 1x64xf16, valid=1x{columns}>"
    index, records = source.replace("f16", "ui32"), f"!pto.tile_buf<vec, 1x256xf16, valid=1x{4 * columns}>"
    tiles = {"s": source, "i": index, "d": records}
    made = "".join(f"%{n} = pto.declare_tile -> {t}\n" for n, t in tiles.items())
    body = f"{made}pto.tsort32 ins(%s, %i : {source}, {index}) outs(%d : {records})\n"
    short = columns % 32 != 0
    assert not found(body, 2)
    assert {rule for rule, _ in found(body, 3, "a5")} == ({"tail-needs-tmp", "tmp-given"} if short else set())
    assert {rule for rule, _ in found(body, None)} == ({"tail-needs-tmp"} if short else set())


def test_sums_in_pairs_need_scratch_on_every_chip() -> None:
    source, result = T.format("f32"), "!pto.tile_buf<vec, 1x32xf32>"
    body = f"%s = pto.declare_tile -> {source}\n%d = pto.declare_tile -> {result}\n"
    body += f"pto.tcolsum ins(%s : {source}) outs(%d : {result})"
    for profile_name in PROFILE_NAMES:
        pairs = found(body + " {isBinary = true}\n", 3, profile_name)
        assert pairs == (set() if profile_name == "cpu_sim" else {("tmp-given", "error")})
        assert not found(body + "\n", 3, profile_name)


MEMREF = "memref<16x16x{}, #pto.address_space<{}>>"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (
            "syncall",
            f"%m = memref.alloc() : {MEMREF.format('i32', 'gm')}\n"
            f"pto.syncall(%m : {MEMREF.format('i32', 'gm')}) mode = #pto.sync_all_mode<soft>, "
            "core_type = #pto.sync_core_type<mix>\n",
        ),
        (
            "tassign",
            f"%n = arith.constant 32 : i64\n%m = memref.alloc() : {MEMREF.format('f16', 'vec')}\n"
            f"pto.tassign %m, %n : {MEMREF.format('f16', 'vec')}, i64\n",
        ),
    ],
)
def test_memrefs_were_legal_before_august(name: str, body: str) -> None:
    assert ("memref", "error") in found(body, None, "a5")
    assert ("memref", "warning") in found(body, None, "a5", "2026-04")
    (wrong,) = [d for d in verify(parse(text(body)), "a5") if d.rule == "memref"]
    assert wrong.instruction == name and "which the language of 2026-08 removed; allowed: a" in wrong.message


def test_rules_that_august_dropped_hold_before() -> None:
    tiles = {
        "a": T.format("f32"),
        "s": "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>",
        "d": T.format("ui8"),
    }
    made = "".join(f"%{n} = pto.declare_tile -> {t}\n" for n, t in tiles.items())
    ins = f"ins(%a, %s : {tiles['a']}, {tiles['s']})"
    body = f"{made}pto.tquant {ins} outs(%d : {tiles['d']}) {{quant_type = #pto<quant_type INT8_SYM>}}\n"
    assert found(body, None) == {("quant-sign", "warning")}
    assert found(body, None, language="2026-04") == {("quant-dst", "error")}
