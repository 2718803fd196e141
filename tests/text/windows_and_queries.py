"""A program of operations on handles that the language of August 2026 added, for the tests of text."""

from __future__ import annotations

TILE = "!pto.tile_buf<vec, 16x16xf32>"
OPEN = "!pto.tile_buf<vec, 16x16xf32, valid=?x?>"
HANDLES = f"""
func.func @handles(%p: !pto.ptr<f32>, %n: index, %i: i32) attributes {{pto.entry}} {{
  %c8 = arith.constant 8 : index
  %t = pto.alloc_tile : {TILE}
  %o = pto.alloc_tile valid_row = %n valid_col = %n : {OPEN}
  %part = pto.subview %t[%c8, %n] sizes [8, 8] : {TILE}
  %typed = pto.subview %t[%c8, %n] sizes [8, 8] : {TILE} -> !pto.tile_buf<vec, 8x8xf32, valid=0x8>
  %cut = pto.subview %o[%n, %c8] sizes [8, 8] valid [%n, %c8]
    : {OPEN} -> !pto.tile_buf<vec, 8x8xf32, valid=?x8>
  %known = pto.subview %o[%n, %c8] sizes [8, 16] valid [%n, %c8] : {OPEN}
  %rows, %cols = pto.get_validshape %cut : !pto.tile_buf<vec, 8x8xf32, valid=?x8>
  %r = pto.tile_valid_rows %o : {OPEN} -> index
  %c = pto.tile_valid_cols %o : {OPEN} -> index
  %a = pto.ptrtoint %p : !pto.ptr<f32> -> i64
  %q = pto.inttoptr %a : i64 -> !pto.ptr<f32>
  %u = builtin.unrealized_conversion_cast %i : i32 to ui32
  %v = pto.make_tensor_view %p, shape = [%n, %c8], strides = [%c8, %n] : !pto.tensor_view<? x 8 x f32>
  %w = pto.partition_view %v, offsets = [%n, %n], sizes = [%n, %c8] : !pto.tensor_view<?x8xf32>
  return
}}
"""
