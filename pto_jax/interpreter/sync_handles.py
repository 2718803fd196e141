"""Registers of image-to-column, addresses of scales, and configuration that no instruction reads."""

from typing import Literal

from ..ir import FmatrixMode, Op
from ..isa.layout_img2col import IMG2COL_STATE
from .fifo import scale_of
from .interpreter import Interpreter, executes
from .scope import Scope


@executes("syncall")
def _without_effect(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Blocks are executed one after another: there is nothing to wait for."""


@executes("set_quant_scalar", "set_quant_vector")
def _set_scale(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(scale_of(op.attrs.get("id", 0)), scope[op.ins[0]])


#: What instructions load into the registers of image-to-column.
_LOADS: dict[str, Literal["sizes", "padding"]] = {"setfmatrix": "sizes", "set_img2col_padding": "padding"}


@executes("setfmatrix", "set_img2col_padding", "set_img2col_rpt")
def _set_image(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    mode = interpreter.reading.of(op).fitting().attrs["mode"]
    assert isinstance(mode, FmatrixMode)
    state = interpreter.mode(op, IMG2COL_STATE).configured(_LOADS.get(op.name), mode, op.ins[0].type)
    interpreter.modes[IMG2COL_STATE] = state


@executes("tget_scale_addr")
def _scale_address(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Scales have storage of their own; nothing moves."""
    for result in op.results:
        scope.bind(result, interpreter.fresh(op, result, {}))
