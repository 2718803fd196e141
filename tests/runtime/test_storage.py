"""Handles over the bytes of another tile, local memrefs and memref arguments, in every way of executing."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import pto_jax as pto
from pto_jax import oracle

Agree = Callable[..., dict[str, Any]]
RNG = np.random.default_rng(5)
T = "!pto.tile_buf<vec, 16x16xf32>"
COLUMN, ROW = "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>", "!pto.tile_buf<vec, 1x16xf32>"
LONG = "!pto.tile_buf<vec, 8x32xf32>"
I32, I16, F16 = (f"!pto.tile_buf<vec, 16x16x{d}>" for d in ("i32", "i16", "f16"))
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
    return RNG.normal(size=(16, 16)).astype(np.float32), np.zeros((16, 16), np.float32)


def bits(x: Any, d: str) -> Any:
    return np.ascontiguousarray(x).view(d)


def double(name: str, t: str) -> str:
    return f"pto.tadd ins(%{name}, %{name} : {t}, {t}) outs(%{name} : {t})"


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
    assert (bits(out, "u4") == bits(x, "u4") + 1).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("narrow", "kind", "value", "word"), [(I16, "i16", "3", 0x0003), (F16, "f16", "5.0e-01", 0x3800)]
)
def test_a_narrower_type_sees_the_first_bytes(
    agree: Agree, narrow: str, kind: str, value: str, word: int
) -> None:
    """16x16 elements of two bytes are the first half of the tile."""
    body = f"""%n = pto.bitcast %a : {T} -> {narrow}
    %v = arith.constant {value} : {kind}
    pto.texpands ins(%v : {kind}) outs(%n : {narrow})"""
    x, y = numbers()
    out = agree(pto.parse(text(body)), x, y)["y"]
    assert (bits(out[:8], "u2") == word).all() and (out[8:] == x[8:]).all()


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_windows_at_run_time_offsets(agree: Agree) -> None:
    program = pto.parse(text(WINDOW, ", %r: index, %c: index"))
    x, y = numbers()
    for r, c in ((0, 0), (3, 5), (8, 8)):
        expected = x.copy()
        expected[r : r + 8, c : c + 8] *= 2
        out = agree(program, x, y, np.int64(r), np.int64(c), eager=r == 3)["y"]
        assert (out == expected).all()
    checked = pto.compile(program, checks=True)
    _, report = checked(x, y, np.int64(9), np.int64(0))
    assert [d.rule for d in report.problems()] == ["window"]
    with pytest.raises(pto.ExecutionError, match="window"):
        oracle.run(program, [x, y, 9, 0])


@pytest.mark.slow
def test_windows_of_windows_and_aliases_of_what_they_cover(agree: Agree) -> None:
    body = f"""%s = pto.subset %a[%r, %c4] sizes [8, 8] : {T}
    %u = pto.subset %s[%c4, %c0] sizes [4, 8] : {PART}
    {double("u", CORNER)}
    pto.tadds ins(%s, %half : {PART}, f32) outs(%s : {PART})"""
    x, y = numbers()
    out = agree(pto.parse(text(body, ", %r: index")), x, y, np.int64(2))["y"]
    expected = x.copy()
    expected[6:10, 4:12] *= 2
    expected[2:10, 4:12] += np.float32(0.5)
    assert (out == expected).all()


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_indexed_handle_begins_at_its_element(agree: Agree) -> None:
    part = T.replace("16x16xf32", "16x16xf32, valid=4x8")
    body = f"""%s = pto.tsubview %a, %r, %c8 : ({T}, index, index) -> {part}
    {double("s", part)}"""
    program = pto.parse(text(body, ", %r: index"))
    x, y = numbers()
    for r in (0, 12):
        out = agree(program, x, y, np.int64(r), profile="cpu_sim")["y"]
        expected = x.copy()
        expected[r : r + 4, 8:] *= 2
        assert (out == expected).all()
    _, report = pto.compile(program, "cpu_sim", checks=True)(x, y, np.int64(13))
    assert [d.rule for d in report.problems()] == ["window"]
    with pytest.raises(pto.ExecutionError, match="window"):
        oracle.run(program, [x, y, 13], profile="cpu_sim")


@pytest.mark.slow
def test_an_indexed_handle_begins_between_the_words_of_another_type(agree: Agree) -> None:
    """Element 17 of two bytes is the upper half of the first word of its row."""
    part = I16.replace("16x16xi16", "16x16xi16, valid=1x3")
    body = f"""%n = pto.bitcast %a : {T} -> {I16}
    %s = pto.tsubview %n, %r, %c1 : ({I16}, index, index) -> {part}
    %v = arith.constant 7 : i16
    pto.texpands ins(%v : i16) outs(%s : {part})"""
    x, y = numbers()
    out = agree(pto.parse(text(body, ", %r: index")), x, y, np.int64(1), profile="cpu_sim")["y"]
    expected = bits(x, "u2").reshape(-1)
    expected[17:20] = 7
    assert (bits(out, "u2").reshape(-1) == expected).all()


def test_a_window_with_a_pitch_is_seen_through_types_of_its_order_only(agree: Agree) -> None:
    seen = PART.replace("f32", "i32")
    body = f"""%s = pto.subset %a[%c0, %c8] sizes [8, 8] : {T}
    %i = pto.bitcast %s : {PART} -> {seen}
    %one = arith.constant 1 : i32
    pto.tadds ins(%i, %one : {seen}, i32) outs(%i : {seen})"""
    x, y = numbers()
    out = agree(pto.parse(text(body)), x, y)["y"]
    assert (bits(out[:8, 8:], "u4") == bits(x[:8, 8:], "u4") + 1).all()
    for line in (
        f"%v = pto.treshape %s : {PART} -> !pto.tile_buf<vec, 4x16xf32>",
        f"%v = pto.tsubview %s, %c0, %c0 : ({PART}, index, index) -> {PART}",
    ):
        program = pto.parse(text(f"%s = pto.subset %a[%c0, %c8] sizes [8, 8] : {T}\n{line}"))
        message = "got an alias of a window with its own pitch; allowed: of a whole tile"
        for run in (pto.compile(program), lambda x, y, p=program: oracle.run(p, [x, y])):
            with pytest.raises(pto.NotExecutableError, match=message) as found:
                run(x, y)
            assert found.value.diagnostics[0].span is not None


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


OUT, GM = "!pto.partition_tensor_view<4x8xf32>", "#pto.address_space<gm>"

# -- memref arguments --------------------------------------------------------------------------------


def doubled(kind: str, before: str = "", source: str = "%x", view: str = "") -> str:
    """A kernel that loads a tile from a memref argument, and stores its double there and to %y."""
    view = view or kind
    return f"""
func.func @main(%x: {kind}, %y: !pto.ptr<f32>, %n: index) {{
  {CONSTANTS}
  {before}
  %v = pto.make_tensor_view %y, shape = [%c4, %c8], strides = [%c8, %c1] : {W}
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c4, %c8] : {W} -> {OUT}
  %t = pto.alloc_tile : {CORNER}
  pto.tload ins({source} : {view}) outs(%t : {CORNER})
  {double("t", CORNER)}
  pto.tstore ins(%t : {CORNER}) outs(%w : {OUT})
  pto.tstore ins(%t : {CORNER}) outs({source} : {view})
  return
}}"""


STRIDED = f"memref<4x8xf32, strided<[16, 1], offset: 2>, {GM}>"
OPEN = f"memref<?x?xf32, {GM}>"
LAID = f"memref<?x?xf32, strided<[?, ?], offset: ?>, {GM}>"
CAST = "memref.reinterpret_cast %x to offset: [%n], sizes: [%c4, %c8], strides: [%c16, %c1]"
MEMREFS = {
    "static": (doubled(f"memref<4x8xf32, {GM}>"), 0, 8),
    "dynamic": (doubled(OPEN), 0, 8),
    "strided": (doubled(STRIDED), 2, 16),
    "cast": (doubled(OPEN, f"%r = {CAST} : {OPEN} to {LAID}", "%r", LAID), 3, 16),
}


@pytest.mark.variants(0)
@pytest.mark.parametrize("name", MEMREFS)
def test_memref_arguments(name: str, agree: Agree) -> None:
    program, offset, pitch = MEMREFS[name]
    flat, y = np.arange(96, dtype=np.float32), np.zeros(32, np.float32)
    x: Any = flat[:32].reshape(4, 8) if name == "static" else flat.reshape(-1, 8)
    x = flat if name == "strided" else x
    out = agree(pto.parse(program), x, y, np.int64(3), profile="cpu_sim")
    at = offset + pitch * np.arange(4)[:, None] + np.arange(8)
    assert (out["y"].reshape(4, 8) == 2 * x.reshape(-1)[at]).all()
    expected = x.reshape(-1).copy()
    expected[at] *= 2
    assert (out["x"].reshape(-1) == expected).all()


def test_a_window_of_constant_sizes_of_a_global_view(agree: Agree) -> None:
    body = f"""%s = pto.subview %vx, offsets = [%c4, %c8], sizes = [4, 8] : {W} -> {OUT}
    %t = pto.alloc_tile : {CORNER}
    pto.tload ins(%s : {OUT}) outs(%t : {CORNER})"""
    x, y = numbers()
    out = agree(pto.parse(text(body, "", "%t", CORNER, 4, 8)), x, y[:4, :8].copy())["y"]
    assert (out == x[4:8, 8:]).all()


# -- fragments, and how storage is carried ------------------------------------------------------------


def test_a_handle_at_the_end_of_a_fragment_is_a_result() -> None:
    handles = f"%v = pto.subset %a[%z, %o] sizes [8, 8] : {T}\n%w = pto.treshape %a : {T} -> {LONG}"
    program = pto.parse(f"%z = arith.constant 0 : index\n%o = arith.constant 1 : index\n{handles}")
    x = numbers()[0]
    found = pto.compile(program)(x)
    assert set(found) == {"v", "w"} and (np.asarray(found["v"].array) == x[:8, 1:9]).all()
    assert (np.asarray(found["w"].array) == x.reshape(8, 32)).all()


def arrays_of(jaxpr: Any) -> set[tuple[tuple[int, ...], str]]:
    """Shape and type of everything that any equation of a program makes."""
    found = set()
    for eqn in jaxpr.eqns:
        found |= {(v.aval.shape, v.aval.dtype.name) for v in eqn.outvars if hasattr(v.aval, "shape")}
        for inner in jaxprs_in_params(eqn.params):
            found |= arrays_of(inner)
    return found


LOOP = """scf.for %i = %c0 to %n step %c1 {{
  pto.tadd ins(%a, %b : {T}, {T}) outs(%b : {T})
  {more}
}}"""


@pytest.mark.filterwarnings(r"ignore:[\s\S]*nothing has written before")
def test_storage_that_nobody_reinterprets_is_carried_as_typed_rows_and_columns() -> None:
    x, y = numbers()
    for at, more, typed in (
        ("", "", True),
        (" addr = %k", "", True),
        ("", f"%v = pto.bitcast %b : {T} -> {I16}\n{double('v', I16)}", False),
    ):
        loop = LOOP.format(T=T, more=more)
        body = f"%k = arith.constant 0 : i64\n%b = pto.alloc_tile{at} : {T}\n{double('b', T)}\n{loop}"
        kernel = pto.compile(pto.parse(text(body, ", %n: index", "%b")))
        found = arrays_of(jax.make_jaxpr(kernel)(x, y, np.int64(3)).jaxpr)
        names = {name for _, name in found}
        assert ((16, 16), "uint32") in found and "uint8" not in names and ("uint16" not in names) == typed
