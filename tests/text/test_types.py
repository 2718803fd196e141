"""Spellings of types."""

import pytest

from pto_jax import ir
from pto_jax.errors import ParseError
from pto_jax.text import parse, types
from pto_jax.text.lexer import Cursor
from pto_jax.text.type_text import print_type
from pto_jax.text.types import TypeReader
from tests.tables import every

LEFT = ir.TileType(
    ir.F16,
    32,
    64,
    16,
    None,
    ir.Loc.LEFT,
    ir.BLayout.COL_MAJOR,
    ir.SLayout.ROW_MAJOR,
    512,
    ir.Pad.NULL,
    ir.Compact.NULL,
)
SPELLINGS: list[tuple[str, ir.Type]] = [
    ("f32", ir.ScalarType(ir.F32)),
    ("index", ir.ScalarType(ir.INDEX)),
    ("ui8", ir.ScalarType(ir.U8)),
    ("f8E4M3FN", ir.ScalarType(ir.F8E4M3)),
    ("dtype", ir.UnknownType("dtype", "scalar")),
    ("_", ir.UnknownType()),
    ("!pto.ptr<f32>", ir.PtrType(ir.F32)),
    ("!pto.ptr<f16, ub>", ir.PtrType(ir.F16, ir.AddressSpace.VEC)),
    ("<bf16>", ir.PtrType(ir.BF16)),
    ("!pto.ptr<T, gm>", ir.UnknownType("!pto.ptr<T,gm>")),
    ("!pto.tensor_view<?x?xf32>", ir.TensorViewType((None, None), ir.F32)),
    ("!pto.tensor_view<1x1x16x1024x1024xf32>", ir.TensorViewType((1, 1, 16, 1024, 1024), ir.F32)),
    ("!pto.partition_tensor_view<16x?xbf16>", ir.PartitionViewType((16, None), ir.BF16)),
    ("!pto.tile_view<32x32xf32>", ir.PartitionViewType((32, 32), ir.F32)),
    ("!pto.partition_tensor_view<MxNxdtype>", ir.UnknownType("!pto.partition_tensor_view<MxNxdtype>")),
    ("!pto.tile<...>", ir.UnknownType("!pto.tile<...>", "tile")),
    ("!pto.tile_buf< ... >", ir.UnknownType("!pto.tile_buf<...>", "tile")),
    ("!pto.tile<f32, 16, 8>", ir.TileType(ir.F32, 16, 8)),
    ("!pto.tile_buf<half, 16, 8>", ir.TileType(ir.F16, 16, 8)),
    (
        "!pto.tile_buf<loc=left, dtype=f16, rows=32, cols=64, v_row=16, v_col=?, blayout=col_major, "
        "slayout=row_major, fractal=512, pad=0>",
        LEFT,
    ),
    (
        "<loc=left, dtype=f16, rows=32, cols=64, blayout=col_major, v_row=16, v_col=-1, slayout=row_major>",
        LEFT,
    ),
    ("!pto.tile_buf<left, 32x64xf16, valid=16x?, slayout=row_major, blayout=col_major>", LEFT),
    ("!pto.tile_buf<vec, 8x64xf32, pad=min>", ir.TileType(ir.F32, 8, 64, pad=ir.Pad.MIN)),
    ("!pto.tile_buf<vec, 8x64xf32, compact=2>", ir.TileType(ir.F32, 8, 64, compact=ir.Compact.ROW_PLUS_ONE)),
    ("!pto.tile_buf<32x64xf32, #pto.address_space<mat>>", ir.TileType(ir.F32, 32, 64, loc=ir.Loc.MAT)),
    (
        "!pto.tile_buf<32x32xf32, strided<[32, 1], offset: [?, ?]>, #pto.address_space<vec>>",
        ir.TileType(ir.F32, 32, 32),
    ),
    (
        "!pto.tile<loc=vec, f32, 16, 16, RowMajor, NoneBox, None, Zero>",
        ir.TileType(ir.F32, 16, 16, pad=ir.Pad.ZERO),
    ),
    ("memref<16x16xf16, #pto.address_space<vec>>", ir.MemRefType((16, 16), ir.F16, ir.AddressSpace.VEC)),
    ("memref<f32>", ir.MemRefType((), ir.F32)),
    ("memref<...>", ir.UnknownType("memref<...>")),
    (
        "memref<1x16xi16, strided<[16, 1], offset: ?>, #pto.address_space<gm>>",
        ir.MemRefType((1, 16), ir.I16, ir.AddressSpace.GM, (16, 1), None),
    ),
    ("vector<4xi16>", ir.VectorType((4,), ir.I16)),
    ("!pto.pipe", ir.OpaqueType("pipe")),
    ("!pto.eventid_array<4>", ir.OpaqueType("eventid_array", "4")),
    ("!pto.event<...>", ir.UnknownType("!pto.event<...>")),
]


def read(text: str) -> ir.Type:
    cursor = Cursor(text, "<type>")
    found = TypeReader(cursor).read()
    assert cursor.found() == "end of text"
    return found


@every(("text", "expected"), SPELLINGS, ids=[t for t, _ in SPELLINGS])
def test_spelling_means(text: str, expected: ir.Type) -> None:
    assert read(text) == expected


@every("t", {print_type(t): t for _, t in SPELLINGS}.values(), ids=print_type)
@every("style", ["long", "short"])
def test_printed_type_reads_back(t: ir.Type, style: str) -> None:
    assert read(print_type(t, "short" if style == "short" else "long")) == t


def test_short_style_is_used_only_where_it_says_everything() -> None:
    assert print_type(ir.TileType(ir.U16, 4, 16), "short") == "!pto.tile<ui16, 4, 16>"
    assert print_type(ir.TileType(ir.I8, 4, 32, 4, 30), "short").startswith("!pto.tile_buf<loc=vec")


def test_line_breaks_inside_a_type() -> None:
    text = "!pto.tile_buf<loc=vec, dtype=f32, // comment\n rows=8,\n cols=8>"
    assert read(text) == ir.TileType(ir.F32, 8, 8)


BROKEN = {
    "!pto.tile_buf<loc=vec, dtype=f32, rows=8>": "without cols",
    "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=8, rows=8>": "got 'rows' twice",
    "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=8, padding=1>": "unknown key 'padding'",
    "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=8, v_rows=1>": "did you mean 'v_row'",
    "!pto.tile_buf<loc=vec, dtype=f32, rows=0, cols=8>": "got rows=0; allowed: an integer from 1",
    "!pto.tile_buf<loc=vec, dtype=f32, rows=-4, cols=8>": "got rows=-4",
    "!pto.tile_buf<loc=vec, dtype=f32, rows=8.0, cols=8>": "got '8.0'; allowed: an integer",
    "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=8, v_row=-2>": "got v_row=-2",
    "!pto.tile_buf<loc=ub, dtype=f32, rows=8, cols=8>": "unknown loc 'ub'; allowed: vec, mat, left",
    "!pto.tile_buf<loc=vec, dtype=f31, rows=8, cols=8>": "unknown element type 'f31'",
    "!pto.tile_buf<loc=vec, dtype=index, rows=8, cols=8>": "tile of 'index'",
    "!pto.tile_buf<vec, 8x8xf32, blayout=diagonal>": "unknown blayout 'diagonal'; allowed: row_major",
    "!pto.tile_buf<vec, 8x8xf32, pad=7>": "unknown pad 7; allowed: 0, 1, 2, 3",
    "!pto.tile_buf<vec, 8x8xf32, valid=8>": "got a 'valid' that is not two sizes",
    "!pto.tile_buf<vec, 8x8xf32, valid=8x8, v_row=8>": "got 'v_row' twice",
    "!pto.tile_buf<vec, 8x8x8xf32>": "two static dimensions",
    "!pto.tile_buf<8x8xf32, #pto.address_space<gm>>": "holds no tiles",
    "!pto.tile<f32, 16>": "without cols",
    "!pto.tile<f32, 16, 16": "allowed: '>' to close '<' of line 1, column 10",
    "!pto.tensor_view<0x8xf32>": "got the dimension 0",
    "!pto.tensor_view<8x8>": "allowed: an element type after the dimensions",
    "!pto.tensor_view<1x1x1x1x1x1xf32>": "of rank 6",
    "!pto.tensor_view<99999999999999999999x8xf32>": "does not fit 64 bits",
    "!pto.tile_bfu<f32, 8, 8>": "did you mean '!pto.tile_buf'",
    "!llvm.ptr": "unknown type '!llvm.ptr'",
    "vector<?xf32>": "vectors are static",
    "memref<8xf32, 17>": "unknown address_space 17",
    "f33": "allowed: a type",
}


@pytest.mark.parametrize(("text", "message"), BROKEN.items(), ids=BROKEN.keys())
def test_broken_type_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        read(text)
    assert message in caught.value.diagnostics[0].message


def test_old_spelling_of_a_rank_agrees_with_the_operands() -> None:
    text = """
    func.func @f(%p: !pto.ptr<f32>, %n: index) {
      %v = pto.make_tensor_view %p, shape = [%n, %n], strides = [%n, %n] : !pto.tensor_view<2xf32>
      %w = pto.subview %v, offsets = [%n, %n], sizes = [8, 8]
        : !pto.tensor_view<2xf32> -> !pto.tile_view<8x8xf32>
      return
    }
    """
    view, window, _ = parse(text).functions[0].body.ops
    assert view.results[0].type == window.ins[0].type == ir.TensorViewType((None, None), ir.F32)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("!pto.ptr<f32, l1>", "!pto.ptr<f32, mat>"),
        ("!pto.ptr<f16, l0a>", "!pto.ptr<f16, left>"),
        ("!pto.ptr<f16, l0b>", "!pto.ptr<f16, right>"),
        ("!pto.ptr<f32, l0c>", "!pto.ptr<f32, acc>"),
        ("!pto.ptr<f32, bt>", "!pto.ptr<f32, bias>"),
        ("!pto.ptr<i64, fb>", "!pto.ptr<i64, scaling>"),
        ("!pto.ptr<!pto.f8E8M0>", "!pto.ptr<!pto.f8E8M0>"),
        ("!pto.hif8", "!pto.hif8"),
        ("!pto.bf16x2", "!pto.bf16x2"),
        ("!pto.tensor_view<8 x 128 x f32>", "!pto.tensor_view<8x128xf32>"),
        ("!pto.tensor_view<? x 16x!pto.hif8>", "!pto.tensor_view<?x16x!pto.hif8>"),
        ("!pto.partition_tensor_view<1x 4 x?xbf16>", "!pto.partition_tensor_view<1x4x?xbf16>"),
        ("!pto.local_array<4x8xf32>", "!pto.local_array<4x8xf32>"),
        ("!pto.struct<f16, !pto.struct<i8, !pto.struct<si32>>>", None),
        ("!pto.multi_tile_buf<vec, 16x32x!pto.f8E8M0, valid=?x8, count=3>", None),
        ("!pto.multi_tile_buf<!pto.tile_buf<vec, 16x16xf16>, count=2>", None),
    ],
)
def test_spellings_of_august_2026(text: str, printed: str | None) -> None:
    program = parse(f'func.func private @f(%a: {text} loc("a")) {{\n return\n}}')
    shown = str(program)
    assert parse(shown) == program and str(parse(shown)) == shown
    assert printed is None or f"%a: {printed})" in shown


def test_declarations_have_types_only() -> None:
    program = parse("func.func private @f(i32, !pto.ptr<f32>) -> i32\nfunc.func public @g() { return }")
    declared, defined = program.functions
    assert (declared.external, defined.external, defined.private) == (True, False, False)
    assert "func.func private @f(i32, !pto.ptr<f32>) -> i32\n" in str(program)
    assert parse(str(program)) == program


ALIASED = """!view = !pto.tensor_view<4x64xf32>
!window = !pto.partition_tensor_view<4x64xf32>
!row = !pto.tile<f32, 4, 64>
#loc = loc("a.py")
func.func @f(%x: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %v = pto.make_tensor_view %x, shape = [%c4, %c64], strides = [%c64, %c0] : !view
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c4, %c64] : !view -> !window
  %t = pto.alloc_tile : !row
  pto.tload ins(%w : !window) outs(%t : !row)
  return
}
"""


@pytest.mark.parametrize("module", [False, True])
def test_aliases_of_types_are_the_types(module: bool) -> None:
    head, _, body = ALIASED.partition("func.func")
    function = f"func.func{body}"
    text = f"{head}module {{\n{function}\n}}" if module else ALIASED
    plain = function.replace("!view", "!pto.tensor_view<4x64xf32>")
    plain = plain.replace("!window", "!pto.partition_tensor_view<4x64xf32>")
    plain = plain.replace("!row", "!pto.tile<f32, 4, 64>")
    assert parse(text) == parse(f"module {{\n{plain}\n}}" if module else plain)
    assert parse(str(parse(text))) == parse(text)
    fragment = parse("!a = !pto.tile<f32, 1, 64>\n!b = !a\n%z = tadd %x, %y : !b")
    assert fragment == parse("%z = tadd %x, %y : !pto.tile<f32, 1, 64>")


@pytest.mark.parametrize("name", ["tile", "tile_buf"])
def test_a_type_that_another_text_had_keeps_its_spelling(name: str) -> None:
    """Types are kept for all texts of a process."""
    types._READ.clear()
    dims = {"tile": "f32, 1, 64", "tile_buf": "vec, 1x64xf32"}[name]
    text = f"%z = tadd %x, %y : !pto.{name}<{dims}>"
    first, second = parse(text), parse(text)
    assert (first, str(first)) == (second, str(second))
    assert [v.type for v in first.functions[0].args] == [v.type for v in second.functions[0].args]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!a.b = !pto.ptr<f32>\n%z = tadd %x, %y : !a.b", "got the type alias !a.b; allowed: a name without"),
        ("!a = !pto.ptr<f32>\n!a = f32\n%z = tadd %x, %y : !a", "got a second type alias !a"),
        ("!row = !pto.tile<f32, 1, 64>\n%z = tadd %x, %y : !roww", "(did you mean '!row'?)"),
        ("!a = !a\n%z = tadd %x, %y : !a", "unknown type '!a'"),
        ("!a\n%z = tadd %x, %y : !a", "'!a'"),
        ("!a =", "a type"),
    ],
)
def test_wrong_aliases_are_one_error(text: str, message: str) -> None:
    with pytest.raises(ParseError) as failed:
        parse(text)
    assert message in str(failed.value)
