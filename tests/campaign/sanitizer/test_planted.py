"""Every planted use of undefined data is found where it happens; the repaired programs are silent."""

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.ir import PartitionViewType, Program
from pto_jax.sanitizer.sanitize import Sanitized, sanitize
from tests.campaign.sanitizer.planted import Planted, defects

DEFECTS = defects()


def sanitized(program: Program, planted: Planted) -> Sanitized:
    errors = [d for d in pto.verify(program, planted.profile) if d.severity == "error"]
    assert not errors, str(errors[0])
    buffers = {}
    for argument in program.functions[-1].args:
        t = argument.type
        assert isinstance(t, PartitionViewType)
        shape = tuple(n or 1 for n in t.dims)
        buffers[argument.name] = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(t.dtype.numpy)
    return sanitize(program, buffers, profile=planted.profile)


@pytest.mark.parametrize("planted", DEFECTS, ids=lambda p: p.name)
def test_a_defect_is_found(planted: Planted) -> None:
    text, line = planted.program(repaired=False)
    found = sanitized(pto.parse(text), planted).diagnostics
    assert found, text
    first = found[0]
    assert first.span is not None and (first.instruction, first.span.line) == (planted.instruction, line)
    assert planted.lanes in first.message and planted.origin in first.message


@pytest.mark.parametrize("planted", DEFECTS, ids=lambda p: p.name)
def test_the_repaired_program_is_silent(planted: Planted) -> None:
    text, _ = planted.program(repaired=True)
    assert [str(d) for d in sanitized(pto.parse(text), planted).diagnostics] == []


def test_there_are_fifty_kinds() -> None:
    assert len({p.name for p in DEFECTS}) == len(DEFECTS) >= 50


_T, _V = "!pto.tile_buf<vec, 8x8xf32>", "!pto.partition_tensor_view<8x8xf32>"
_CALL = f"""\
func.func private @twice(%t: {_T}) {{
  %local = pto.alloc_tile : {_T}
  WRITE
  pto.tadd ins(%t, %local : {_T}, {_T}) outs(%t : {_T})
  return
}}
func.func @main(%x: {_V}, %y: {_V}) attributes {{pto.entry}} {{
  %t = pto.alloc_tile : {_T}
  pto.tload ins(%x : {_V}) outs(%t : {_T})
  func.call @twice(%t) : ({_T}) -> ()
  pto.tstore ins(%t : {_T}) outs(%y : {_V})
  return
}}
"""


@pytest.mark.parametrize("repaired", [False, True])
def test_an_unwritten_local_of_a_callee(repaired: bool) -> None:
    write = f"pto.tmov ins(%t : {_T}) outs(%local : {_T})" if repaired else ""
    program = pto.parse(_CALL.replace("WRITE", write))
    found = sanitize(program, {n: np.ones((8, 8), np.float32) for n in "xy"}, entry="main").diagnostics
    if repaired:
        assert not found
    else:
        assert found[0].instruction == "tstore" and "alloc_tile at <text>:2:3" in found[0].message


_A = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
_PIPE = f"""\
func.func private @cube() attributes {{pto.kernel_kind = #pto.kernel_kind<cube>}} {{
  %l = pto.alloc_tile : !pto.tile_buf<left, 16x16xf16, blayout=col_major, slayout=row_major>
  %a = pto.alloc_tile : {_A}
  pto.tpush_to_aiv(%a : {_A}) {{split = 1}}
  return
}}
func.func private @vector(%y: !pto.ptr<f32>) attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  %i0 = arith.constant 0 : index
  %t = pto.tpop_from_aic {{split = 1}} -> !pto.tile_buf<vec, 8x16xf32>
  %e = pto.tgetval ins(%t, %i0 : !pto.tile_buf<vec, 8x16xf32>, index) outs : f32
  pto.store_scalar %e, %y[%i0] : !pto.ptr<f32>, f32
  return
}}
func.func @main(%y: !pto.ptr<f32>) attributes {{pto.entry}} {{
  func.call @cube() : () -> ()
  func.call @vector(%y) : (!pto.ptr<f32>) -> ()
  return
}}
"""


def test_an_unwritten_slot_of_a_pipe() -> None:
    found = sanitize(pto.parse(_PIPE), {"y": np.zeros(8, np.float32)}, entry="main").diagnostics
    assert found[0].instruction == "tgetval" and "alloc_tile at <text>:3:3" in found[0].message
