"""Handles over the bytes of another tile, local memrefs and memref arguments, in every way of executing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

Agree = Callable[..., dict[str, Any]]
RNG = np.random.default_rng(5)
T = "!pto.tile_buf<vec, 16x16xf32>"
COLUMN, ROW = "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>", "!pto.tile_buf<vec, 1x16xf32>"
LONG = "!pto.tile_buf<vec, 8x32xf32>"
I32, I16, BF16 = (f"!pto.tile_buf<vec, 16x16x{d}>" for d in ("i32", "i16", "bf16"))
PART, CORNER = "!pto.tile_buf<vec, 8x8xf32>", "!pto.tile_buf<vec, 4x8xf32>"
W = "!pto.tensor_view<?x?xf32>"
CONSTANTS = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 4, 8, 16, 32, 256))


def text(body: str, args: str = "", result: str = "", t: str = T, rows: int = 16, cols: int = 16) -> str:
    """A kernel that loads %a from %x, executes some operations, and stores a tile to %y."""
    v = f"!pto.partition_tensor_view<{rows}x{cols}xf32>"
    a = "!pto.partition_tensor_view<16x16xf32>"
    return f"""
func.func @main(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>{args}) {{
  {CONSTANTS}
  %half = arith.constant 5.000000e-01 : f32
  %vx = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : {W}
  %vy = pto.make_tensor_view %y, shape = [%c{rows}, %c{cols}], strides = [%c{cols}, %c1] : {W}
  %wx = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c16] : {W} -> {a}
  %wy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c{rows}, %c{cols}] : {W} -> {v}
  %a = pto.alloc_tile : {T}
  pto.tload ins(%wx : {a}) outs(%a : {T})
  {body}
  pto.tstore ins({result or "%a"} : {t}) outs(%wy : {v})
  return
}}"""


def numbers() -> tuple[Any, Any]:
    x = RNG.normal(size=(16, 16)).astype(np.float32)
    return x, np.zeros((16, 16), np.float32)


def double(name: str, t: str) -> str:
    return f"pto.tadd ins(%{name}, %{name} : {t}, {t}) outs(%{name} : {t})"


def words(x: Any, d: str) -> Any:
    return np.ascontiguousarray(x).view(d)


# -- aliases -----------------------------------------------------------------------------------------


def test_writes_through_either_handle_of_another_shape_are_seen_through_the_other(agree: Agree) -> None:
    body = f"""%v = pto.treshape %a : {T} -> {LONG}
    {double("v", LONG)}
    pto.tadds ins(%a, %half : {T}, f32) outs(%a : {T})
    %w = pto.treshape %v : {LONG} -> {T}
    {double("w", T)}"""
    x, y = numbers()
    out = agree(pto.parse(text(body)), x, y)["y"]
    assert (out == ((x + x) + np.float32(0.5)) * 2).all()


def test_another_order_reorders_the_elements(agree: Agree) -> None:
    other = T.replace(">", ", blayout=col_major>")
    x, y = numbers()
    out = agree(pto.parse(text(f"%v = pto.treshape %a : {T} -> {other}", "", "%v", other)), x, y)["y"]
    assert (out == x.T).all()


def test_a_column_is_read_as_a_row(agree: Agree) -> None:
    body = f"""%m = pto.alloc_tile : {COLUMN}
    %tmp = pto.alloc_tile : {T}
    pto.trowsum ins(%a, %tmp : {T}, {T}) outs(%m : {COLUMN})
    %r = pto.treshape %m : {COLUMN} -> {ROW}
    pto.tcolexpand ins(%r : {ROW}) outs(%a : {T})"""
    x, y = np.arange(256, dtype=np.float32).reshape(16, 16), np.zeros((16, 16), np.float32)
    out = agree(pto.parse(text(body)), x, y)["y"]
    assert (out == x.sum(axis=1)).all()


def test_bits_are_seen_as_integers_and_back(agree: Agree) -> None:
    body = f"""%i = pto.bitcast %a : {T} -> {I32}
    %one = arith.constant 1 : i32
    pto.tadds ins(%i, %one : {I32}, i32) outs(%i : {I32})"""
    x, y = numbers()
    out = agree(pto.parse(text(body)), x, y)["y"]
    assert (words(out, "u4") == words(x, "u4") + 1).all()


@pytest.mark.parametrize("narrow", [I16, BF16])
def test_a_narrower_type_sees_the_first_bytes(agree: Agree, narrow: str) -> None:
    """16x16 elements of two bytes are the first half of the tile."""
    body = f"""%n = pto.bitcast %a : {T} -> {narrow}
    pto.tsub ins(%n, %n : {narrow}, {narrow}) outs(%n : {narrow})"""
    x, y = numbers()
    out = agree(pto.parse(text(body)), x, y)["y"]
    assert (out[:8] == 0).all() and (out[8:] == x[8:]).all()


def test_an_alias_keeps_its_storage_when_the_handle_moves(agree: Agree) -> None:
    """tassign changes what a name stands for; the alias made before it still sees the old bytes."""
    body = f"""%z = arith.constant 0 : i64
    %k = arith.constant 4096 : i64
    %t = pto.alloc_tile addr = %z : {T}
    pto.tadd ins(%a, %a : {T}, {T}) outs(%t : {T})
    %v = pto.treshape %t : {T} -> {LONG}
    pto.tassign %t, %k : {T}, i64
    pto.tadds ins(%a, %half : {T}, f32) outs(%t : {T})
    %w = pto.treshape %v : {LONG} -> {T}
    pto.tsub ins(%w, %t : {T}, {T}) outs(%a : {T})"""
    x, y = numbers()
    out = agree(pto.parse(text(body)), x, y)["y"]
    assert (out == (x + x) - (x + np.float32(0.5))).all()


def test_aliases_of_tiles_at_run_time_addresses(agree: Agree) -> None:
    body = f"""%t = pto.alloc_tile addr = %at : {T}
    pto.tadd ins(%a, %a : {T}, {T}) outs(%t : {T})
    %v = pto.treshape %t : {T} -> {LONG}
    {double("v", LONG)}
    %s = pto.subset %t[%c8, %c0] sizes [8, 16] : {T}
    {double("s", "!pto.tile_buf<vec, 8x16xf32>")}"""
    x, y = numbers()
    program = pto.parse(text(body, ", %at: i64", "%t"))
    out = agree(program, x, y, np.int64(2048))["y"]
    assert (out[:8] == 4 * x[:8]).all() and (out[8:] == 8 * x[8:]).all()


# -- windows -----------------------------------------------------------------------------------------

WINDOW = f"""%s = pto.subset %a[%r, %c] sizes [8, 8] : {T}
{double("s", PART)}"""


def test_windows_at_run_time_offsets(agree: Agree) -> None:
    program = pto.parse(text(WINDOW, ", %r: index, %c: index"))
    x, y = numbers()
    for r, c in ((0, 0), (3, 5), (8, 8)):
        wanted = x.copy()
        wanted[r : r + 8, c : c + 8] *= 2
        out = agree(program, x, y, np.int64(r), np.int64(c), eager=r == 3)["y"]
        assert (out == wanted).all()
    checked = pto.compile(program, checks=True)
    _, report = checked(x, y, np.int64(9), np.int64(0))
    assert [v.rule for v in report.broken] == ["window"]
    with pytest.raises(pto.ExecutionError, match="window"):
        oracle.run(program, [x, y, 9, 0])


def test_windows_of_windows_and_aliases_of_what_they_cover(agree: Agree) -> None:
    body = f"""%s = pto.subset %a[%r, %c4] sizes [8, 8] : {T}
    %u = pto.subset %s[%c4, %c0] sizes [4, 8] : {PART}
    {double("u", CORNER)}
    pto.tadds ins(%s, %half : {PART}, f32) outs(%s : {PART})"""
    x, y = numbers()
    out = agree(pto.parse(text(body, ", %r: index")), x, y, np.int64(2))["y"]
    wanted = x.copy()
    wanted[6:10, 4:12] *= 2
    wanted[2:10, 4:12] += np.float32(0.5)
    assert (out == wanted).all()


def test_a_branch_chooses_a_window(agree: Agree) -> None:
    body = f"""%b = pto.alloc_tile : {T}
    pto.tadd ins(%a, %a : {T}, {T}) outs(%b : {T})
    %f = arith.cmpi slt, %r, %c4 : index
    %s = scf.if %f -> ({PART}) {{
      %u = pto.subset %a[%r, %c8] sizes [8, 8] : {T}
      scf.yield %u : {PART}
    }} else {{
      %u = pto.subset %b[%c0, %c0] sizes [8, 8] : {T}
      scf.yield %u : {PART}
    }}
    {double("s", PART)}
    pto.tadd ins(%a, %b : {T}, {T}) outs(%a : {T})"""
    program = pto.parse(text(body, ", %r: index"))
    x, y = numbers()
    for r in (3, 4):
        a, b = x.copy(), x + x
        part = a[r : r + 8, 8:] if r < 4 else b[:8, :8]
        part *= 2
        out = agree(program, x, y, np.int64(r))["y"]
        assert (out == a + b).all()


def test_a_window_has_the_valid_part_of_its_source(agree: Agree) -> None:
    """From row 4 on six of ten valid rows are left, and all eight columns."""
    open_tile = "!pto.tile_buf<vec, 16x16xf32, valid=?x?>"
    body = f"""%t = pto.alloc_tile valid_row = %r valid_col = %c16 : {open_tile}
    pto.tadd ins(%a, %a : {T}, {T}) outs(%t : {open_tile})
    %s = pto.subset %t[%c4, %c8] sizes [8, 8] : {open_tile}
    pto.tmuls ins(%s, %half : {PART}, f32) outs(%s : {PART})
    pto.tmov ins(%t : {open_tile}) outs(%a : {open_tile})"""
    x, y = numbers()
    program = pto.parse(text(body.replace("outs(%a : " + open_tile, f"outs(%a : {T}"), ", %r: index"))
    out = agree(program, x, y, np.int64(10), profile="cpu_sim")["y"]
    assert (out[4:10, 8:] == x[4:10, 8:]).all() and (out[:4] == 2 * x[:4]).all()


def test_an_indexed_handle_begins_at_its_element(agree: Agree) -> None:
    part = T.replace("16x16xf32", "16x16xf32, valid=4x8")
    body = f"""%s = pto.tsubview %a, %r, %c8 : ({T}, index, index) -> {part}
    {double("s", part)}"""
    program = pto.parse(text(body, ", %r: index"))
    x, y = numbers()
    for r in (0, 12):
        out = agree(program, x, y, np.int64(r), profile="cpu_sim")["y"]
        wanted = x.copy()
        wanted[r : r + 4, 8:] *= 2
        assert (out == wanted).all()


def test_a_destination_is_pointed_at_a_window_anew(agree: Agree) -> None:
    body = f"""%s = pto.alloc_tile : {T}
    pto.tadd ins(%a, %a : {T}, {T}) outs(%s : {T})
    scf.if %f {{
      pto.tsubview ins(%a, %c0, %c0 : {T}, index, index) outs(%s : {T})
    }}
    {double("s", T)}"""
    program = pto.parse(text(body, ", %f: i1"))
    x, y = numbers()
    for f in (False, True):
        out = agree(program, x, y, np.bool_(f))["y"]
        assert (out == (x + x if f else x)).all()


# -- local memrefs -----------------------------------------------------------------------------------

MEM = "memref<16x16xf32, #pto.address_space<vec>>"
CONFIG = (
    "{config = #pto.tile_buf_config<blayout=row_major, slayout=none_box, s_fractal_size=512, "
    "pad=#pto.pad_value<null>>}"
)


def test_local_memrefs_are_tiles(agree: Agree) -> None:
    body = f"""%m = memref.alloc() : {MEM}
    %b = pto.bind_tile %m, %c8, %c16 {CONFIG} : {MEM} -> {MEM}
    pto.tadd ins(%a, %a : {T}, {T}) outs(%m : {MEM})
    pto.tadds ins(%b, %half : {MEM}, f32) outs(%b : {MEM})
    pto.tmov ins(%m : {MEM}) outs(%a : {T})
    memref.dealloc %m : {MEM}"""
    x, y = numbers()
    out = agree(pto.parse(text(body)), x, y)["y"]
    assert (out[:8] == 2 * x[:8] + np.float32(0.5)).all() and (out[8:] == 2 * x[8:]).all()


# -- memref arguments --------------------------------------------------------------------------------


def copied(kind: str, before: str = "", source: str = "%x", view: str = "") -> str:
    """A kernel that adds a memref argument to itself."""
    view = view or kind
    return f"""
func.func @main(%x: {kind}, %y: !pto.ptr<f32>, %n: index) {{
  {CONSTANTS}
  {before}
  %v = pto.make_tensor_view %y, shape = [%c4, %c8], strides = [%c8, %c1] : {W}
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c4, %c8] : {W} -> !pto.partition_tensor_view<4x8xf32>
  %t = pto.alloc_tile : {CORNER}
  pto.tload ins({source} : {view}) outs(%t : {CORNER})
  {double("t", CORNER)}
  pto.tstore ins(%t : {CORNER}) outs(%w : !pto.partition_tensor_view<4x8xf32>)
  pto.tstore ins(%t : {CORNER}) outs({source} : {view})
  return
}}"""
