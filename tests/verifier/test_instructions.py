"""An instruction like a legal one is legal only as far as its rules see the same of it."""

from collections.abc import Iterable

import pytest

from pto_jax.analysis.resolve import resolve
from pto_jax.api import parse, verify
from pto_jax.errors import Diagnostic
from pto_jax.isa.check import check_op
from pto_jax.profiles import PROFILE_NAMES, profile
from pto_jax.verifier import programs
from pto_jax.verifier.programs import InstructionRules

_T = "!pto.tile_buf<vec, 16x16xf32>"
_D = "!pto.tile_buf<vec, 16x16xf32, valid=?x?>"
_V, _P = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<16x16xf32>"
_CONSTANTS = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 16, 32, 48)]
_WINDOW = (
    f"%v = pto.make_tensor_view %p, shape = [%c32, %c32], strides = [%c32, %c1] : {_V}",
    *(
        f"%w{n} = pto.partition_view %v, offsets = [%c{n}, %c0], sizes = [%c16, %c16] : {_V} -> {_P}"
        for n in (0, 16, 32, 48)
    ),
)
_ALLOCATED = tuple(f"%{name} = pto.alloc_tile : {_T}" for name in "abc")
#: The lines, and of each instruction without an error (.) or with one (E), in the order of the text.
CASES = {
    "windows at several places": (_WINDOW, "...EE"),
    "valid sizes": (
        [
            f"%t{r} = pto.alloc_tile valid_row = %c{r} valid_col = %c{c} : {_D}"
            for r, c in ((16, 16), (0, 16), (32, 16), (1, 32))
        ],
        "..EE",
    ),
    "attributes": (
        (
            *_ALLOCATED,
            f"pto.tcvt ins(%a {{rmode = #pto<round_mode RINT>}} : {_T}) outs(%b : {_T})",
            f"pto.tcvt ins(%a {{rmode = 3.5}} : {_T}) outs(%b : {_T})",
            f"pto.tcvt ins(%b {{rmode = #pto<round_mode RINT>}} : {_T}) outs(%a : {_T})",
        ),
        "....E.",
    ),
}


def _text(lines: Iterable[str]) -> str:
    return "\n".join(("func.func @f(%p: !pto.ptr<f32>) {", *_CONSTANTS, *lines, "return", "}"))


@pytest.mark.parametrize(("lines", "expected"), CASES.values(), ids=CASES)
def test_findings_of_instructions_alike(lines: Iterable[str], expected: str) -> None:
    program = parse(_text(lines))
    found = verify(program, "a5")
    wrong = {d.span.line for d in found if d.severity == "error" and d.span is not None}
    places = [op.span.line for op in program.walk() if op.span is not None and "." not in op.name][:-1]
    assert "".join("E" if line in wrong else "." for line in places) == expected


def test_a_legal_instruction_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    add = f"pto.tadd ins(%{{}}, %{{}} : {_T}, {_T}) outs(%{{}} : {_T})"
    alike = [add.format(*names) for names in ("abc", "cab", "bca")]
    other = [add.format(*names) for names in ("aab", "bbb")]
    checked: list[str] = []

    def counted(op: object, *args: object, **known: object) -> list[Diagnostic]:
        checked.append(str(op))
        return check_op(op, *args, **known)  # type: ignore[arg-type]

    monkeypatch.setattr("pto_jax.verifier.programs.check_op", counted)
    programs._legal.cache_clear()
    resolved = resolve(parse(_text((*_ALLOCATED, *alike, *other))))
    rules, facts = (
        InstructionRules(resolved, profile("a5"), None, 0),
        resolved.facts(resolved.program.functions[0]),
    )
    for op in resolved.program.walk():
        if op.name == "tadd":
            assert rules.check(op, facts.of(op)) == ([], None)
    # One of three tiles, one that reads a tile twice, and one of a single tile.
    assert len(checked) == 3


def test_what_is_wrong_is_said_of_every_instruction() -> None:
    wrong = "!pto.tile_buf<vec, 16x16xf16>"
    lines = [f"%x{i} = pto.alloc_tile : {wrong}" for i in range(2)]
    lines.append(f"pto.tadd ins(%a, %b : {_T}, {_T}) outs(%b : {_T})")
    lines += [f"pto.tadd ins(%a, %x{i} : {_T}, {wrong}) outs(%b : {_T})" for i in (0, 1, 0)]
    found = [d for d in verify(parse(_text((*_ALLOCATED, *lines))), "a5") if d.rule == "types-equal"]
    assert [d.span.line if d.span else 0 for d in found] == [13, 14, 15]


def test_what_is_legal_in_one_program_is_judged_anew_where_rules_differ() -> None:
    """Legal instructions are kept for all programs of a process, apart by profile, type and attributes."""
    byte = _T.replace("16x16xf32", "16x32xui8")
    text = _text(
        (f"%a = pto.alloc_tile : {byte}", f"pto.tadd ins(%a, %a : {byte}, {byte}) outs(%a : {byte})")
    )
    for _ in range(2):
        for name in PROFILE_NAMES:
            rules = [d.rule for d in verify(parse(text), name) if d.severity == "error"]
            assert rules == (["types"] if name == "a2a3" else []), name
    convert = f"pto.tcvt ins(%a {{{{rmode = {{}}}}}} : {_T}) outs(%b : {_T})"
    for mode, expected in (("#pto<round_mode RINT>", False), ("1", None), ("true", True), ("1", None)):
        found = verify(parse(_text((*_ALLOCATED, convert.format(mode)))), "a5")
        if expected is not None:
            assert any(d.rule == "attribute-value" for d in found) is expected, mode
