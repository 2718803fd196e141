"""Buffers of no element: windows of nothing are executed, every access is outside and never a traceback."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.oracle.interpret import run as interpret

VIEW, TILE = "!pto.tensor_view<?x?xf32>", "!pto.tile_buf<vec, 2x16xf32>"


def _window(buffer: str, rows: str, stride: str, column: str) -> str:
    shape = "?x16" if rows == "%n" else "2x16"
    return f"""%v{buffer} = pto.make_tensor_view %{buffer}, shape = [{rows}, %c16], strides = [{stride}, %c1]
  : {VIEW}
%w{buffer} = pto.partition_view %v{buffer}, offsets = [%c0, {column}], sizes = [{rows}, %c16]
  : {VIEW} -> !pto.partition_tensor_view<{shape}xf32>"""


def _load(rows: str, stride: str, column: str) -> str:
    shape = "?x16" if rows == "%n" else "2x16"
    window = f"!pto.partition_tensor_view<{shape}xf32>"
    return f"{_window('x', rows, stride, column)}\npto.tload ins(%wx : {window}) outs(%t : TILE)"


def _store(rows: str, stride: str, column: str, attributes: str = "") -> str:
    shape = "?x16" if rows == "%n" else "2x16"
    window = f"!pto.partition_tensor_view<{shape}xf32>"
    return f"""pto.texpands ins(%one : f32) outs(%t : TILE)
{_window("y", rows, stride, column)}
pto.tstore ins(%t : TILE) outs(%wy : {window}){attributes}"""


#: What accesses an element that is not there, whatever the argument n.
OUTSIDE = {
    "load": _load("%c2", "%c16", "%c0"),
    "load of run time": _load("%c2", "%n", "%n"),
    "store": _store("%c2", "%c16", "%c0"),
    "store of run time": _store("%c2", "%n", "%n"),
    "sum": _store("%c2", "%c16", "%n", " {atomicType = #pto<atomic_type atomic_add>}"),
    "scalar load": "%s = pto.load_scalar %x[%n] : !pto.ptr<f32> -> f32",
    "scalar store": "pto.store_scalar %one, %y[%n] : !pto.ptr<f32>, f32",
}
OPEN = "!pto.tile_buf<vec, 2x16xf32, valid=?x16>"
NOTHING = {
    "load": _load("%n", "%c16", "%c0").replace("TILE", OPEN),
    "store": _store("%n", "%c16", "%c0").replace("TILE", OPEN),
}


def _program(body: str) -> pto.Program:
    alloc = f"pto.alloc_tile valid_row = %n : {OPEN}" if OPEN in body else f"pto.alloc_tile : {TILE}"
    return pto.parse(f"""module attributes {{pto.target_arch = "a5"}} {{
func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) attributes {{pto.entry}} {{
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c2 = arith.constant 2 : index
%c16 = arith.constant 16 : index
%one = arith.constant 1.0 : f32
%t = {alloc}
{body.replace("TILE", TILE)}
return
}} }}""")


def _ways(program: pto.Program) -> dict[str, Callable[[], Any]]:
    none, batch = np.zeros(0, np.float32), np.zeros((3, 0), np.float32)
    kernel = pto.compile(program, warn=False)
    blocks = pto.compile(program, warn=False, grid=3, partial_launch=True)
    return {
        "call": lambda: kernel(none, none, 0),
        "eager": lambda: kernel.eager(none, none, 0),
        "blocks": lambda: blocks(none, none, 0),
        "interpreter": lambda: interpret(program, [none, none, 0]),
        "jit": lambda: jax.jit(kernel)(none, none, 0),
        "vmap": lambda: jax.vmap(kernel, in_axes=(0, 0, None))(batch, batch, 0),
    }


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", OUTSIDE)
def test_an_access_to_a_buffer_of_no_element_is_an_error_or_has_no_effect(name: str) -> None:
    for way, execute in _ways(_program(OUTSIDE[name])).items():
        if way in ("jit", "vmap") and ("run time" in name or name in ("sum", "scalar load", "scalar store")):
            assert all(not np.asarray(array).size for array in execute().values())
        else:
            with pytest.raises(pto.PtoError, match=r"0 elements|which has none"):
                execute()


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", NOTHING)
def test_a_window_of_nothing_in_a_buffer_of_no_element_is_executed(name: str) -> None:
    for execute in _ways(_program(NOTHING[name])).values():
        assert all(not np.asarray(array).size for array in execute().values())
