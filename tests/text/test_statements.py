"""Statements that differ from an earlier one in names only say what they say when read by themselves."""

import pytest

from pto_jax.errors import ParseError, Span
from pto_jax.ir import Program, TextLanguage, TileType
from pto_jax.text import parse

_TILE = "!pto.tile_buf<vec, 16x16xf32>"
_COMMENT = " //"
_OTHER = "!pto.tile_buf<vec, 16x16xf16>"


def _function(*lines: str) -> str:
    return "\n".join(("func.func @f(%n: index, %m: index, %t: i1) {", *lines, "return", "}", ""))


def _apart(text: str) -> str:
    """The text with a comment behind every line: such lines are read one by one."""
    return text.replace("\n", f"{_COMMENT}\n")


def _said(program: Program) -> list[object]:
    """All that a program says of its operations, with the places of them and of their operands."""

    def place(span: Span | None) -> object:
        assert span is not None
        shown = span.text[span.col - 1 : span.col - 1 + span.length]
        return span.line, span.col, shown.removesuffix(_COMMENT)

    return [
        (
            repr(op),
            op.form,
            op.implied,
            place(op.span),
            [place(v.span) for v in (*op.ins, *op.outs, *op.results)],
        )
        for op in program.walk()
        if not op.regions
    ]


_ALLOCATE = tuple(f"  %{name} = pto.alloc_tile : {_TILE}" for name in ("a", "b", "long_name", "d"))
_ADD = "pto.tadd ins(%{}, %{} : {t}, {t}) outs(%{} : {t})"
ALIKE = {
    "tile instructions": (
        *_ALLOCATE,
        _ADD.format("a", "b", "d", t=_TILE),
        "      " + _ADD.format("long_name", "b", "long_name", t=_TILE),
        _ADD.format("a", "a", "a", t=_TILE) + "\t ",
    ),
    "numbers": tuple(f"%x{i} = arith.addi %{a}, %m : index" for i, a in enumerate(("n", "x0", "x1", "m"))),
    "attributes": (
        *_ALLOCATE[:2],
        f"pto.tcvt ins(%a {{rmode = #pto<round_mode RINT>}} : {_TILE}) outs(%b : {_TILE})",
        f"pto.tcvt ins(%b {{rmode = #pto<round_mode RINT>}} : {_TILE}) outs(%a : {_TILE})",
        f"pto.tcvt ins(%b {{rmode = #pto<round_mode FLOOR>}} : {_TILE}) outs(%a : {_TILE})",
    ),
    "regions": (
        "scf.for %i = %n to %m step %n {",
        "  %x = arith.muli %i, %n : index",
        "}",
        "scf.if %t {",
        "  %x = arith.muli %n, %n : index",
        "} else {",
        "  %y = arith.muli %m, %n : index",
        "}",
    ),
    "a statement over two lines": (
        *_ALLOCATE[:2],
        f"pto.treshape %a : {_TILE}",
        f"pto.treshape %a : {_TILE}",
        f"%c = pto.treshape %a : {_TILE}",
        f"%d = pto.treshape %b : {_TILE}",
        f"  -> {_TILE}",
    ),
    "a percent sign in a text": (
        'pto.print ins("%d", %n : index)',
        'pto.print ins("%e", %m : index)',
        'pto.print ins("100% ", %m : index)',
        'pto.print ins("100%d ", %m : index)',
    ),
    "constants that types follow from": (
        "%c4 = arith.constant 4 : index",
        "%c8 = arith.constant 8 : index",
        "%other = arith.constant 4 : index",
        _ALLOCATE[0],
        f"%v = pto.subview %a[%n, %n] sizes [16, 16] valid [%c4, %c8] : {_TILE}",
        f"%w = pto.subview %a[%n, %n] sizes [16, 16] valid [%c8, %c4] : {_TILE}",
        f"%x = pto.subview %a[%n, %n] sizes [16, 16] valid [%other, %other] : {_TILE}",
    ),
    "calls": ("func.call @g(%n) : (index) -> ()", "func.call @g(%m) : (index) -> ()"),
    "several results": (
        "%r:2 = scf.if %t -> (index, index) {",
        "  scf.yield %n, %m : index, index",
        "} else {",
        "  scf.yield %m, %n : index, index",
        "}",
        "%x = arith.addi %r#0, %n : index",
        "%y = arith.addi %r#1, %n : index",
        "%z = arith.addi %r, %n : index",
        f"%t1 = pto.alloc_tile : {_TILE}",
        f"%s:2 = pto.get_validshape %t1 : {_TILE}",
        f"%u:2 = pto.get_validshape %t1 : {_TILE}",
    ),
    "comments between": (
        "%x = arith.addi %n, %m : index",
        "// %y = arith.addi %n, %m : index",
        "%y = arith.addi %m, %m : index // %x",
        "",
        "%z = arith.addi %m, %y : index",
    ),
}


@pytest.mark.parametrize("lines", ALIKE.values(), ids=ALIKE)
def test_lines_alike_say_what_they_say_by_themselves(lines: tuple[str, ...]) -> None:
    text = _function(*lines)
    assert _said(parse(text)) == _said(parse(_apart(text)))
    assert _said(parse(text.replace("\n", "\r\n"))) == _said(parse(text))


def test_what_lines_alike_share_is_read_once() -> None:
    text = _function(*ALIKE["attributes"])
    first, second, third = (op for op in parse(text).walk() if op.name == "tcvt")
    assert first.attributes is second.attributes
    assert third.attributes != first.attributes
    apart = [op for op in parse(_apart(text)).walk() if op.name == "tcvt"]
    assert apart[0].attributes is not apart[1].attributes


def test_windows_have_the_valid_sizes_of_their_own_constants() -> None:
    *_, first, second, third = (
        op.results[0].type
        for op in parse(_function(*ALIKE["constants that types follow from"])).walk()
        if op.results
    )
    assert [t.valid for t in (first, second, third) if isinstance(t, TileType)] == [(4, 8), (8, 4), (4, 4)]


WRONG = {
    "undefined": ("%y = arith.addi %n, %zz : index",),
    "another type": ("%c = arith.constant 1 : i32", "%y = arith.addi %c, %n : index"),
    "defined twice": ("%x = arith.addi %m, %n : index",),
    "another tile": (
        *_ALLOCATE[:2],
        f"%h = pto.alloc_tile : {_OTHER}",
        _ADD.format("a", "b", "a", t=_TILE),
        _ADD.format("a", "h", "a", t=_TILE),
    ),
    "unreadable behind": ("%y = arith.addi %n, %n : index", "`"),
    "a number of a single value": (
        "%r:2 = scf.if %t -> (index, index) {",
        "  scf.yield %n, %m : index, index",
        "} else {",
        "  scf.yield %m, %n : index, index",
        "}",
        "%y = arith.addi %r#1, %n : index",
        "%z = arith.addi %n#1, %n : index",
    ),
    "goes on": ("%y = arith.addi %n, %n : index", ", %n"),
}


@pytest.mark.parametrize("lines", WRONG.values(), ids=WRONG)
def test_errors_of_lines_alike(lines: tuple[str, ...]) -> None:
    text = _function("%x = arith.addi %n, %m : index", *lines)
    found = []
    for source in (text, _apart(text)):
        with pytest.raises(ParseError) as raised:
            parse(source, file="f.pto")
        (diagnostic,) = raised.value.diagnostics
        found.append(str(diagnostic))
    assert found[0] == found[1]


_SHARED = (*ALIKE["attributes"], *ALIKE["constants that types follow from"][:3], ALIKE["numbers"][0])


def test_texts_share_lines_without_a_difference() -> None:
    """The first text reads its lines, the second compares them with those, the third one takes them."""
    programs = [parse(_function(*_SHARED), file=name) for name in "abc"]
    assert [_said(p) for p in programs] == [_said(programs[0])] * 3
    assert [{op.span.file for op in p.walk() if op.span} for p in programs] == [{"a"}, {"b"}, {"c"}]
    first, *_, last = (next(op for op in p.walk() if op.name == "tcvt") for p in programs)
    assert first.attributes is last.attributes


def test_a_window_has_the_valid_sizes_of_the_constants_of_its_text() -> None:
    lines = ALIKE["constants that types follow from"]
    for size in ("4", "8", "4", "8", "2"):
        program = parse(_function(f"%c4 = arith.constant {size} : index", *lines[1:5]))
        window = next(op for op in program.walk() if op.name == "subview")
        assert isinstance(window.results[0].type, TileType)
        assert window.results[0].type.valid == (int(size), 8)


def test_a_line_means_what_the_aliases_of_its_text_say() -> None:
    types = {}
    for t in (_TILE, _OTHER, _TILE, _OTHER):
        program = parse(
            f"!row = {t}\n" + _function("%a = pto.alloc_tile : !row", "%b = pto.alloc_tile : !row")
        )
        types[t] = {op.results[0].type for op in program.walk() if op.results}
        assert len(types[t]) == 1
    assert types[_TILE] != types[_OTHER]


@pytest.mark.parametrize("names", [("tile", "tile_buf"), ("tile_buf", "tile")])
def test_a_text_has_the_names_of_tiles_that_its_own_lines_have(names: tuple[str, str]) -> None:
    for name in (*names, *names, *names):
        line = f"%a = pto.alloc_tile : !pto.{name}<vec, 16x48xf32>"
        assert parse(_function(line)).tiles == name


@pytest.mark.parametrize("language", ["2026-04", "2026-08"])
def test_a_line_means_what_the_version_of_its_text_says(language: TextLanguage) -> None:
    lines = (*_ALLOCATE[:2], f"pto.tcvt ins(%a : {_TILE}) outs(%b : {_TILE})")
    for other in ("2026-08", "2026-04", None, language, language, language):
        *_, convert, _end = parse(_function(*lines), language=other).walk()
    alone = parse(_apart(_function(*lines)), language=language)
    *_, expected, _end = alone.walk()
    assert (convert, convert.implied) == (expected, expected.implied)
