"""Where windows of views and tiles begin, and whether they lie inside what they are windows of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..dtypes import I1, INDEX, DType
from ..fold import fold
from ..ir import Op
from .machine import Machine
from .operands import NOWHERE, Scalar, View


def scalar(machine: Machine, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
    """An ``arith`` operation, folded when every operand is a Python integer."""
    known = fold(name, args, result)
    return known if known is not None else machine.scalar(name, args, source, result)


def advanced(machine: Machine, base: Scalar, index: Scalar, stride: Scalar = 1) -> Scalar:
    """``base + index * stride``, NOWHERE where the product or the sum leaves 64 bits.

    Numbers of a program wrap; addresses do not, as an address that wrapped would be another element's.
    """
    if _is(index, 0) or _is(stride, 0):
        return base
    if all(isinstance(n, int) for n in (base, index, stride)):
        return address(base, index, stride)
    return machine.address(base, index, stride)


def address(base: int, index: int, stride: int) -> int:
    """:func:`advanced` for numbers.

    >>> address(5, 2, 10), address(0, 1 << 58, 64) == NOWHERE, address(NOWHERE, 5, 1) == NOWHERE
    (25, True, True)
    """
    product = index * stride
    inside = all(-(1 << 63) <= n < 1 << 63 for n in (product, base + product))
    return base + product if inside and base != NOWHERE else NOWHERE


def window(
    machine: Machine, op: Op, name: str, view: View, offsets: Sequence[Scalar], sizes: Sequence[Scalar]
) -> View:
    """The window of a view called ``name``."""
    require_inside(machine, op, f"%{name}", offsets, sizes, view.shape)
    offset = view.offset
    for index, stride in zip(offsets, view.strides, strict=True):
        offset = advanced(machine, offset, index, stride)
    return replace(view, offset=offset, shape=tuple(sizes))


def require_inside(
    machine: Machine,
    op: Op,
    what: str,
    offsets: Sequence[Scalar],
    sizes: Sequence[Scalar],
    extents: Sequence[Scalar],
) -> None:
    """The run-time rule that a window lies inside what it is a window of, dimension by dimension."""
    if not machine.checks:
        return
    for axis, numbers in enumerate(zip(offsets, sizes, extents, strict=True)):
        found = f"offset {{}} and size {{}} in dimension {axis} of {what}, whose extent is {{}}"
        broken = _leaves(machine, *(_settled(machine, n) for n in numbers))
        machine.require(op, "window", f"a window inside {what}", broken, found, numbers)


def _leaves(machine: Machine, offset: Scalar, size: Scalar, extent: Scalar) -> Scalar:
    """Whether a window is not inside an extent; no sum is formed that could leave 64 bits."""
    if all(isinstance(n, int) for n in (offset, size, extent)):
        return not (0 <= offset <= extent - size and 0 <= size <= extent)
    last = scalar(machine, "arith.subi", (extent, size), INDEX, INDEX)
    conditions = [
        scalar(machine, f"arith.cmpi.{order}", pair, INDEX, I1)
        for order, pair in (
            ("slt", (offset, 0)),
            ("slt", (size, 0)),
            ("sgt", (size, extent)),
            ("sgt", (offset, last)),
        )
    ]
    broken = conditions[0]
    for condition in conditions[1:]:
        broken = scalar(machine, "arith.ori", (broken, condition), I1, I1)
    return broken


def _settled(machine: Machine, n: Scalar) -> Scalar:
    known = machine.known(n)
    return n if known is None else known


def _is(a: Scalar, n: int) -> bool:
    return isinstance(a, int) and a == n
