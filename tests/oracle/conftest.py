"""A one-instruction runner: tiles and scalars by operand name in, the destination's values out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pto_jax import ir, isa, oracle


@dataclass(frozen=True)
class Scalar:
    value: int | float
    type: ir.DType


def tile(d: str, data: Any, valid: tuple[int, int] | None = None, **fields: Any) -> oracle.OracleTile:
    """A tile of the element type holding ``data`` (values, or raw words where they are unsigned)."""
    element = ir.dtype(d)
    array = np.atleast_2d(np.asarray(data))
    if array.dtype != element.word or element.numpy == element.word:
        array = array.astype(element.numpy)
    rows, cols = array.shape
    v_row, v_col = valid or (rows, cols)
    return oracle.OracleTile(ir.TileType(element, rows, cols, v_row, v_col, **fields), array)


def execute(
    name: str, operands: dict[str, Any], attributes: dict[str, Any] | None = None, **options: Any
) -> oracle.OracleTile:
    """Run one instruction on the given operands (the destination included) and return the destination."""
    instruction = isa.find(name)
    assert instruction is not None
    sources = set(operands) - {"dst"}
    form = next(f for f in instruction.forms if set(f) == sources)
    if list(form) != [n for n in operands if n != "dst"]:
        form = tuple(n for n in operands if n != "dst")
        assert form in instruction.forms

    def value(operand: str) -> ir.Value:
        given = operands[operand]
        t: ir.Type = ir.ScalarType(given.type) if isinstance(given, Scalar) else given.type
        return ir.Value(operand, t)

    op = ir.Op(
        name, tuple(map(value, form)), (value("dst"),), attributes=ir.attrs(attributes or {}), form="dps"
    )
    function = ir.Function(ir.FRAGMENT, tuple(map(value, (*form, "dst"))), ir.Region((op,)))
    program = ir.Program((function,), fragment=True, fragment_results=("dst",))
    given = {n: o.value if isinstance(o, Scalar) else o for n, o in operands.items()}
    result = oracle.run(program, given, **{"profile": "cpu_sim", **options})["dst"]
    assert isinstance(result, oracle.OracleTile)
    return result


@pytest.fixture(name="run_one")
def _run_one() -> Callable[..., oracle.OracleTile]:
    return execute


@pytest.fixture(name="tile")
def _tile() -> Callable[..., oracle.OracleTile]:
    return tile


@pytest.fixture(name="scalar")
def _scalar() -> Callable[[int | float, str], Scalar]:
    return lambda value, d: Scalar(value, ir.dtype(d))
