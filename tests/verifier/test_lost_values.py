"""A value is lost where another tile is written over it, not where a window of its own tile is."""

import pytest

import pto_jax as pto
from pto_jax.api import parse, verify
from tests.text import emitted

T, ROWS = "!pto.tile_buf<vec, 16x64xf32>", "!pto.tile_buf<vec, 4x64xf32>"
LINE, COLUMN = "!pto.tile_buf<vec, 1x64xf32>", "!pto.tile_buf<vec, 64x1xf32, blayout=col_major>"
ROW, WHOLE_WORDS = "!pto.tile_buf<vec, 1x1024xf32>", "!pto.tile_buf<vec, 16x64xi32>"
WORDS, OTHER = "!pto.tile_buf<vec, 4x64xi32>", "!pto.tile_buf<vec, 8x16xf32>"
W = "!pto.partition_tensor_view<16x64xf32>"
HEAD = f"""
func.func @f(%w: {W}, %n: index, %at: i64, %c: i1) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c15 = arith.constant 15 : index
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0 : i32
  %a0 = arith.constant 0 : i64
  %a1024 = arith.constant 1024 : i64
  %a2048 = arith.constant 2048 : i64
  %a16384 = arith.constant 16384 : i64
  %a20480 = arith.constant 20480 : i64
  %base = arith.addi %a0, %a1024 : i64
  %t = pto.alloc_tile addr = %a0 : {T}
  %d = pto.alloc_tile addr = %a16384 : {T}
  pto.tload ins(%w : {W}) outs(%t : {T})
"""


def tile(name: str, kind: str, address: str = "a1024") -> str:
    return f"%{name} = pto.alloc_tile addr = %{address} : {kind}\n"


def fill(name: str, kind: str) -> str:
    return f"pto.texpands ins(%one : f32) outs(%{name} : {kind})\n"


def read(name: str, kind: str) -> str:
    return f"pto.tabs ins(%{name} : {kind}) outs(%{name}r : {kind})\n"


def into(name: str, kind: str) -> str:
    """A place for what is read."""
    return tile(f"{name}r", kind, "a20480" if name == "u" else "a16384")


def copy(kind: str, row: int, col: int, name: str = "u") -> str:
    return f"pto.textract ins(%t, %c{row}, %c{col} : {T}, index, index) outs(%{name} : {kind})\n"


def loop(body: str, trips: str = "c15") -> str:
    return f"scf.for %i = %c0 to %{trips} step %c1 {{\n{body}}}\n"


STORE = f"pto.tstore ins(%t : {T}) outs(%w : {W})\n"
U = tile("u", ROWS) + into("u", ROWS)
SUBVIEW = f"%u = pto.subview %t[%c4, %c0] sizes [4, 64] : {T} -> {ROWS}\n" + into("u", ROWS)
ROW_I = f"%s = pto.subview %t[%i, %c0] sizes [1, 64] : {T} -> {LINE}\n" + tile("sr", LINE, "a20480")
TWIN = tile("u", T, "a0") + into("u", T)
SUM = f"pto.tadd ins(%t, %t : {T}, {T}) outs(%u : {T})\n"
FIRST = tile("u", LINE, "a0") + into("u", LINE)
#: Nothing is lost: what is replaced is read no more, or is read as what replaces it.
RIGHT = {
    "a window by subview": SUBVIEW + fill("u", ROWS) + STORE,
    "a window by subview that is read, too": SUBVIEW + fill("u", ROWS) + read("u", ROWS) + STORE,
    "a window at an address": U + fill("u", ROWS) + STORE,
    "a line at an address": tile("u", LINE) + fill("u", LINE) + STORE,
    "a window at a computed address": tile("u", ROWS, "base")
    + into("u", ROWS)
    + fill("u", ROWS)
    + read("u", ROWS)
    + STORE,
    "a window placed by tassign": f"%u = pto.alloc_tile addr = %a20480 : {ROWS}\n"
    f"%v = pto.tassign %u, %a1024 : {ROWS}, i64 -> {ROWS}\n" + fill("v", ROWS) + STORE,
    "a window in a loop": loop(U + fill("u", ROWS) + STORE),
    "a window that is scaled in its tile": loop(
        U + read("u", ROWS) + f"pto.tneg ins(%ur : {ROWS}) outs(%u : {ROWS})\n" + STORE
    ),
    "a window that is scaled in a tile that was read": U
    + loop(fill("t", T) + read("t", T) + f"pto.tneg ins(%u : {ROWS}) outs(%u : {ROWS})\n"),
    "a window behind a branch": f"scf.if %c {{\n{U}{fill('u', ROWS)}}}\n{STORE}",
    "renewed before it is read": tile("u", OTHER)
    + into("u", OTHER)
    + fill("u", OTHER)
    + read("u", OTHER)
    + fill("t", T)
    + STORE,
    "a sum that has a name of its own": TWIN + loop(SUM) + STORE,
    "a sum that is read by both names": TWIN + SUM + read("u", T) + STORE,
    "another handle of the whole tile": TWIN + fill("u", T) + STORE,
    "turns in the same bytes": TWIN + loop(fill("t", T) + read("t", T) + fill("u", T) + read("u", T)),
    "elements copied onto themselves": U + copy(ROWS, 4, 0) + read("u", ROWS) + STORE,
    "another form of a tile, filled": tile("u", ROW, "a0") + fill("u", ROW) + STORE,
    "another form of a tile, computed from it": loop(
        tile("u", ROW, "a0")
        + into("u", ROW)
        + f"pto.tneg ins(%u : {ROW}) outs(%u : {ROW})\n"
        + read("u", ROW)
        + STORE
    ),
    "another form of a tile, by way of another tile": tile("u", ROW, "a0")
    + into("u", ROW)
    + read("u", ROW)
    + f"pto.tneg ins(%ur : {ROW}) outs(%u : {ROW})\n"
    + read("u", ROW)
    + STORE,
    "the row that was read": loop(ROW_I + read("s", LINE) + FIRST + fill("u", LINE) + read("u", LINE), "c15"),
}
#: The value of the tile that is read later is lost.
LOST = {
    "another shape": tile("u", OTHER) + into("u", OTHER) + fill("u", OTHER) + read("u", OTHER) + STORE,
    "another shape that nobody reads": tile("u", OTHER) + fill("u", OTHER) + STORE,
    "another tile of its type at its bytes": TWIN + fill("u", T) + read("u", T) + STORE,
    "another tile of its type in a loop": TWIN + loop(read("t", T) + fill("u", T) + read("u", T)),
    "one of three tiles in turns": TWIN
    + tile("v", T, "a0")
    + into("v", T)
    + fill("u", T)
    + read("t", T)
    + fill("v", T)
    + read("v", T)
    + read("u", T),
    "another form of a tile, used itself": tile("u", ROW, "a0")
    + into("u", ROW)
    + fill("u", ROW)
    + read("u", ROW)
    + STORE,
    "words at the bytes of numbers": tile("u", WHOLE_WORDS, "a0")
    + f"pto.texpands ins(%zero : i32) outs(%u : {WHOLE_WORDS})\n"
    + into("u", WHOLE_WORDS)
    + f"pto.tneg ins(%u : {WHOLE_WORDS}) outs(%ur : {WHOLE_WORDS})\n"
    + STORE,
    "a column in the place of a row that is a window": tile("u", LINE, "a0")
    + fill("u", LINE)
    + read("t", T)
    + tile("v", COLUMN, "a0")
    + fill("v", COLUMN)
    + STORE,
    "another type": tile("u", WORDS)
    + into("u", WORDS)
    + f"pto.tneg ins(%u : {WORDS}) outs(%u : {WORDS})\n"
    + STORE,
    "a tile of its row pitch that is used itself": U + fill("u", ROWS) + read("u", ROWS) + STORE,
    "a tile of its row pitch that is used behind it": U + fill("u", ROWS) + STORE + read("u", ROWS),
    "a tile in a loop": loop(U + read("t", T) + fill("u", ROWS) + read("u", ROWS)),
    "a tile in a branch": f"scf.if %c {{\n{U}{fill('u', ROWS)}{read('u', ROWS)}}}\n{STORE}",
    "half beyond its end": tile("u", T, "a2048") + into("u", T) + fill("u", T) + read("u", T) + STORE,
    "its own small tile by a larger one": U + fill("u", ROWS) + fill("t", T) + read("t", T) + read("u", ROWS),
    "other elements copied over it": U + copy(ROWS, 8, 0) + read("u", ROWS) + STORE,
    "a row that is read later": loop(
        ROW_I + read("s", LINE) + tile("u", LINE) + into("u", LINE) + fill("u", LINE) + read("u", LINE), "c15"
    ),
    "rows that only execution knows": loop(
        ROW_I + read("s", LINE) + FIRST + fill("u", LINE) + read("u", LINE), "n"
    )
    + STORE,
    "one of two tiles": tile("v", OTHER, "a16384")
    + U.replace(ROWS, OTHER)
    + f"%x = arith.select %c, %u, %v : {OTHER}\n"
    + fill("x", OTHER)
    + read("u", OTHER)
    + STORE,
    "a row that only execution knows": tile("u", LINE)
    + into("u", LINE)
    + fill("u", LINE)
    + read("u", LINE)
    + ROW_I.replace("%i", "%n")
    + read("s", LINE),
    "scratch": tile("u", ROWS)
    + tile("x", "!pto.tile_buf<vec, 4x1xf32, blayout=col_major>", "a20480")
    + tile("y", ROWS, "a16384")
    + fill("y", ROWS)
    + f"pto.trowsum ins(%y, %u : {ROWS}, {ROWS}) "
    "outs(%x : !pto.tile_buf<vec, 4x1xf32, blayout=col_major>)\n" + STORE,
}


def overlaps(body: str) -> list[str]:
    text = HEAD + into("t", T) + body + "return\n}"
    program = parse(text, "k.pto")
    found = verify(program, "a2a3", level=3)
    assert not [d for d in found if d.severity == "error"], found
    shown = [d.message for d in found if d.rule == "overlap"]
    assert shown == [f.diagnostic.message for f in pto.races(program, "a2a3") if f.kind == "overlap"]
    return shown


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_read_as_it_was_written_is_no_finding(name: str) -> None:
    assert overlaps(RIGHT[name]) == []


@pytest.mark.parametrize("name", LOST)
def test_a_value_that_is_lost_is_found(name: str) -> None:
    (message,) = overlaps(LOST[name])
    assert "shares bytes with" in message and "is read later" in message


@pytest.mark.parametrize("used", [False, True])
def test_windows_that_the_assembler_writes_as_tiles_at_addresses(used: bool) -> None:
    kind = "Tile<TileType::Vec, float, 4, 16, BLayout::RowMajor, 4, 16, SLayout::NoneBox, 512, "
    kind += "PadValue::Null, CompactMode::Null>"
    window = f"{kind} v20;\n{kind} v21 = v20;\nuint64_t v22 = (uint64_t)256;\nTASSIGN(v21, v22);\n"
    body = emitted.tile("v10") + "TEXPANDS(v10, v94);\n" + window + "TEXPANDS(v21, v94);\n"
    body += "TADD(v21, v21, v21);\n" + emitted.view("v30", "v1") + "TSTORE(v30, v10);\n"
    body += "TNEG(v21, v21);\n" if used else ""
    program = pto.parse(emitted.file(body), language="c++")
    found = [f for f in pto.races(program, "a2a3") if f.kind == "overlap"]
    assert [f.first.value for f in found] == (["%v10"] if used else [])
