"""Operands that must not share bytes: errors where that is known, undefined where only execution knows."""

from itertools import combinations

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.api import parse
from pto_jax.isa import find, instructions
from pto_jax.isa.effects import kept_apart
from pto_jax.isa.samples.operations import legal_samples, to_program
from pto_jax.profiles import PROFILE_NAMES, ProfileName, profile
from pto_jax.sanitizer.sanitize import sanitize
from pto_jax.verifier.programs import verify_program
from tests.tables import every

T = "!pto.tile_buf<vec, 8x32xi16>"
F = "!pto.tile_buf<vec, 8x32xf32>"
#: Destination and source that share bytes: the statement of an operation, and the profiles that forbid it.
IN_PLACE = {
    "txor-src0": (T, "pto.txor ins(%a, %b, %t : T, T, T) outs(%a : T)", {"a2a3"}),
    "txor-src1": (T, "pto.txor ins(%a, %b, %t : T, T, T) outs(%b : T)", {"a2a3"}),
    "txor-tmp": (T, "pto.txor ins(%a, %b, %t : T, T, T) outs(%t : T)", {"a2a3"}),
    "txor-tmp-is-src1": (T, "pto.txor ins(%a, %b, %b : T, T, T) outs(%c : T)", {"a2a3"}),
    "txors": (T, "pto.txors ins(%a, %s, %t : T, i16, T) outs(%a : T)", {"a2a3"}),
    "tands": (T, "pto.tands ins(%a, %s : T, i16) outs(%a : T)", {"a2a3", "a5"}),
    "tors": (T, "pto.tors ins(%a, %s : T, i16) outs(%a : T)", {"a2a3", "a5"}),
    "tfmod": (F, "pto.tfmod ins(%a, %b : T, T) outs(%a : T)", {"a2a3"}),
    "tfmods": (F, "pto.tfmods ins(%a, %f : T, f32) outs(%a : T)", {"a2a3"}),
    "trecip": (F, "pto.trecip ins(%a : T) outs(%a : T)", {"a2a3"}),
    "tdivs-scalar-first": (F, "pto.tdivs ins(%f, %a : f32, T) outs(%a : T)", {"a2a3"}),
    "ttrans": (
        "!pto.tile_buf<vec, 16x16xf32>",
        "pto.ttrans ins(%a, %t : T, T) outs(%a : T)",
        {"cpu_sim", "a2a3", "a5"},
    ),
    "tdivs-tile-first": (F, "pto.tdivs ins(%a, %f : T, f32) outs(%a : T)", set()),
    "tadd": (F, "pto.tadd ins(%a, %b : T, T) outs(%a : T)", set()),
}


def program(t: str, body: str, places: dict[str, str] | None = None) -> str:
    """A kernel with tiles a, b, c and t, at the addresses of ``places`` or where a tool places them."""
    at = {f"%at_{n} = arith.constant {p} : i64" for n, p in (places or {}).items() if not p.startswith("%")}
    made = [
        f"%{n} = pto.alloc_tile"
        + (f" addr = {places[n] if places[n].startswith('%') else '%at_' + n}" if places else "")
        + f" : {t}"
        for n in "abct"
    ]
    lines = ["%s = arith.constant 3 : i16", "%f = arith.constant 3.0 : f32", *sorted(at), *made]
    lines += [body.replace(": T", f": {t}").replace(", T", f", {t}")]
    return "func.func @k(%m: i64) { " + "\n".join(lines) + "\nreturn }"


def shared(text: str, name: str) -> list[str]:
    found = verify_program(parse(text), profile(name))
    return [d.message for d in found if d.rule == "overlap" and d.severity == "error"]


@every("name", PROFILE_NAMES)
@every("case", IN_PLACE)
def test_one_handle_as_two_operands_that_lie_apart_is_an_error(case: str, name: str) -> None:
    t, body, forbidden = IN_PLACE[case]
    found = shared(program(t, body), name)
    assert bool(found) == (name in forbidden), found
    assert all(f"allowed on {name}" in message and "try" in message for message in found)


@pytest.mark.parametrize("offset", [0, 32, 480, 512])
def test_addresses_prove_whole_and_partial_overlaps(offset: int) -> None:
    places = {"a": "0", "b": "4096", "c": str(offset), "t": "8192"}
    found = shared(program(T, "pto.txor ins(%a, %b, %t : T, T, T) outs(%c : T)", places), "a2a3")
    assert bool(found) == (offset < 512)


def test_windows_and_casts_of_one_tile_share_its_bytes() -> None:
    window = "%c0 = arith.constant 0 : index %c4 = arith.constant 4 : index "
    half = "!pto.tile_buf<vec, 4x32xi16>"
    for first, second, error in (("%c0", "%c0", True), ("%c0", "%c4", False)):
        views = f"%v = pto.subview %a[{first}, %c0] sizes [4, 32] : {T} -> {half} "
        views += f"%w = pto.subview %a[{second}, %c0] sizes [4, 32] : {T} -> {half} "
        body = window + views + f"pto.tands ins(%v, %s : {half}, i16) outs(%w : {half})"
        assert bool(shared(program(T, body), "a5")) == error
    body = f"%v = pto.bitcast %a : {T} -> !pto.tile_buf<vec, 8x32xui16> "
    body += "pto.tands ins(%a, %s : T, i16) outs(%w : T)".replace("%w", "%x")
    cast = f"%x = pto.bitcast %v : !pto.tile_buf<vec, 8x32xui16> -> {T} "
    assert shared(program(T, body.replace("pto.tands", cast + "pto.tands")), "a5")


def test_an_operation_on_nothing_may_share_bytes() -> None:
    empty = "!pto.tile_buf<vec, 8x32xi16, valid=0x32>"
    assert shared(program(empty, "pto.tands ins(%a, %s : T, i16) outs(%a : T)"), "a5") == []


#: Instructions with several tiles as results.
SEVERAL = [n for n, i in instructions().items() if len([o for o in i.destinations if o.kind == "tile"]) > 1]


@every("name", SEVERAL)
def test_results_of_one_operation_share_no_bytes(name: str) -> None:
    """Nothing says which is written first, and implementations differ."""
    for chip in PROFILE_NAMES:
        for sample in legal_samples(instructions()[name], profile(chip)):
            written = [
                o.name for o in sample.instruction.destinations if o.kind == "tile" and o.name in sample.types
            ]
            apart = kept_apart(sample.instruction, sample.form, sample.types, chip)
            assert set(combinations(written, 2)) <= {p for a, b, _ in apart for p in ((a, b), (b, a))}


@pytest.mark.parametrize(
    ("name", "first", "second"), [("tinterleave", "dst0", "dst1"), ("tquant_dn", "max", "scaling")]
)
def test_one_handle_as_two_results_is_an_error(name: str, first: str, second: str) -> None:
    text = str(to_program(next(legal_samples(instructions()[name], profile("a5")))))
    assert shared(text, "a5") == []
    assert shared(text.replace(f"%{second}", f"%{first}"), "a5")


def test_only_declared_operands_lie_apart_and_each_names_its_source() -> None:
    for instruction in instructions().values():
        names = {o.name for o in instruction.operands if o.kind == "tile"}
        for apart in instruction.apart:
            assert {apart.operand, *apart.others} <= names and apart.source and apart.profiles
            assert apart.operand not in apart.others


def test_pages_show_which_operands_share_no_bytes() -> None:
    from pto_jax.isa.reference import page

    txor = find("txor")
    assert txor is not None
    text = " ".join(page(txor).split())
    assert "dst shares no bytes with src0, src1 (a2a3; page txor" in text


# -- the sanitizer -----------------------------------------------------------------------------------------

_VIEW = """%c1 = arith.constant 1 : index
%c8 = arith.constant 8 : index
%c32 = arith.constant 32 : index
%c0 = arith.constant 0 : index
%v = pto.make_tensor_view %x, shape = [%c8, %c32], strides = [%c32, %c1] : !pto.tensor_view<?x?xi16>
%w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c32]
  : !pto.tensor_view<?x?xi16> -> !pto.partition_tensor_view<8x32xi16>"""
_W = "!pto.partition_tensor_view<8x32xi16>"


def run(body: str, stored: str, m: int, name: ProfileName) -> list[str]:
    """What the sanitizer says of a kernel whose tile c is at an address that only execution knows."""
    at = "\n".join(f"%at_{n} = arith.constant {p} : i64" for n, p in (("a", 0), ("b", 1024), ("t", 2048)))
    made = "\n".join(f"%{n} = pto.alloc_tile addr = {'%m' if n == 'c' else '%at_' + n} : {T}" for n in "abct")
    loads = "\n".join(f"pto.tload ins(%w : {_W}) outs(%{n} : {T})" for n in "ab")
    text = f"""func.func @k(%x: !pto.ptr<i16>, %m: i64) attributes {{pto.entry}} {{
{_VIEW}
%s = arith.constant 3 : i16
{at}
{made}
{loads}
{body.replace(": T", f": {T}").replace(", T", f", {T}")}
pto.tstore ins(%{stored} : {T}) outs(%w : {_W})
return }}"""
    arguments = {"x": np.ones(256, np.int16), "m": np.int64(m)}
    return [str(d) for d in sanitize(pto.parse(text), arguments, profile=name).diagnostics]


XOR = "pto.txor ins(%a, %b, %t : T, T, T) outs(%c : T)"


@pytest.mark.parametrize(("m", "shares"), [(0, True), (256, True), (4096, False), (2048 + 64, True)])
def test_an_overlap_that_only_execution_knows_makes_the_destination_undefined(m: int, shares: bool) -> None:
    found = run(XOR, "c", m, "a2a3")
    assert bool(found) == shares
    assert all("shares bytes with" in message for message in found)
    assert run(XOR, "c", m, "a5") == []


@pytest.mark.parametrize(("m", "shares"), [(0, True), (480, True), (4096, False)])
def test_scratch_poisons_the_operand_whose_bytes_it_takes(m: int, shares: bool) -> None:
    body = f"%d = pto.alloc_tile : {T}\npto.txor ins(%a, %b, %c : T, T, T) outs(%d : T)"
    found = run(body, "d", m, "a2a3")
    assert bool(found) == shares
    assert all("used as scratch" in message for message in found)
    assert run(body, "d", m, "a5") == []


@pytest.mark.parametrize(
    ("valid", "name", "warns"),
    [
        ("48x64", "a2a3", True),
        ("48x64", "a5", True),
        ("48x64", "cpu_sim", False),
        ("64x64", "cpu_sim", True),
        ("48x40", "a2a3", False),
        ("?x64", "a2a3", True),
    ],
)
def test_a_tile_filled_into_itself_has_something_to_fill(valid: str, name: str, warns: bool) -> None:
    t = f"!pto.tile_buf<vec, 64x64xf32, valid={valid}, pad=max>"
    sizes = "valid_row = %n " if "?" in valid else ""
    made = f"%n = arith.constant 48 : index %a = pto.alloc_tile {sizes}: {t} %b = pto.alloc_tile {sizes}: {t}"

    def warnings(dst: str) -> list[str]:
        text = f"func.func @k() {{ {made} pto.tfillpad ins(%a : {t}) outs(%{dst} : {t}) return }}"
        return [d.severity for d in verify_program(parse(text), profile(name)) if d.rule == "fills-nothing"]

    assert warnings("a") == (["warning"] if warns else [])
    assert warnings("b") == []
