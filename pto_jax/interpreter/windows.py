"""Where windows of views and tiles begin, and whether they lie inside what they are windows of."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

from ..analysis.addresses import fold
from ..ir import I1, INDEX, AttrValue, BLayout, Compact, DType, GlobalLayout, MemRefType, Op, TileType
from ..isa.rules.windows import window_axes
from .machine import Machine
from .operands import NOWHERE, Execution, Scalar, TileRef, View


def scalar(machine: Machine, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
    """An ``arith`` operation, folded when every operand is a Python integer."""
    constant = fold(name, args, source, result)
    return constant if constant is not None else machine.scalar(name, args, source, result)


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
    """The window of a view called ``name``.

    Behind the last element of a view its buffer may go on: programs are launched on more rows than their
    views declare. Elsewhere a window that leaves its view would have elements of another row.
    """
    inner = replace(view, offset=_start(machine, view, offsets), shape=tuple(sizes), root=view.root or view)
    require_inside(machine, op, f"%{name}", offsets, sizes, view.shape, inner)
    return inner


def _start(machine: Machine, view: View, indices: Sequence[Scalar]) -> Scalar:
    offset = view.offset
    for index, stride in zip(indices, view.strides, strict=True):
        offset = advanced(machine, offset, index, stride)
    return offset


def require_inside(
    machine: Machine,
    op: Op,
    what: str,
    offsets: Sequence[Scalar],
    sizes: Sequence[Scalar],
    extents: Sequence[Scalar],
    view: View | None = None,
) -> None:
    """The run-time rule that a window lies inside what it is a window of, dimension by dimension.

    A window of global memory (``view``) may go on in the buffer along the slowest dimension, that before
    which all extents are 1.
    """
    if not machine.checks:
        return
    faster: Scalar = view is None
    leaves: Scalar | None = None
    for axis, numbers in enumerate(zip(offsets, sizes, extents, strict=True)):
        got = f"offset {{}} and size {{}} in dimension {axis} of {what}, whose extent is {{}}"
        offset, size, extent = (_settled(machine, n) for n in numbers)
        broken = _exceeds(machine, offset, size, extent)
        if view is not None and faster is not True and broken is not False:
            leaves = _leaves_buffer(machine, view) if leaves is None else leaves
            broken = _both(machine, broken, either(machine, leaves, faster))
        broken = either(machine, broken, *(_compared(machine, "slt", n, 0) for n in (offset, size)))
        machine.require(op, "window", f"a window inside {what}", broken, got, numbers)
        faster = either(machine, faster, _compared(machine, "ne", extent, 1))


def require_fitting(machine: Machine, e: Execution) -> None:
    """Follow the rules on windows of global memory that have the shape of a tile's valid region.

    They are judged where their types leave sizes open and some element is valid; what a smaller window does
    not have is outside of it, which the transfer itself judges. The sizes of a memref are those of its array.
    """
    for tile, view in (c.fits for c in e.instruction.constraints if c.fits and machine.checks):
        ref, window, declared = e.operands[tile], e.operands[view], e.bound.values[view].type
        if not isinstance(ref, TileRef) or not isinstance(window, View) or ref.type.conv is not None:
            continue
        if isinstance(declared, MemRefType) or None not in getattr(declared, "dims", ()):
            continue
        if e.op.group("offsets"):
            continue
        layout = e.attrs.get("layout")
        have, want = _shapes(machine, window, window.layout if layout is None else layout, ref)
        larger = [_compared(machine, "sgt", h, w) for h, w in zip(have, want, strict=True)]
        some = (_compared(machine, "sgt", n, 0) for n in (ref.v_row, ref.v_col))
        broken = _both(machine, either(machine, *larger), *some)
        sizes = "x".join(["{}"] * len(have)) + ("" if len(have) > 1 else " elements")
        allowed = f"{view} has the shape of the valid region of {tile}"
        got = f"a window of {sizes} for a valid region of {sizes}"
        machine.require(e.op, "window-size", allowed, broken, got, (*have, *want))


def _shapes(
    machine: Machine, window: View, layout: AttrValue | None, ref: TileRef
) -> tuple[list[Scalar], list[Scalar]]:
    """What a window and a valid region are compared by: rows and columns, or elements without a layout."""

    def times(numbers: Iterable[Scalar]) -> Scalar:
        return reduce(lambda a, b: scalar(machine, "arith.muli", (a, b), INDEX, INDEX), numbers, 1)

    sizes = [_settled(machine, n) for n in window.shape]
    valid = [_settled(machine, n) for n in (ref.v_row, ref.v_col)]
    if not isinstance(layout, GlobalLayout) and len(sizes) > 2:
        return [times(sizes)], [times(valid)]
    of_five = [1] * (5 - len(sizes)) + sizes
    axes = window_axes(len(sizes), layout if isinstance(layout, GlobalLayout) else None)
    pairs = [(times(of_five[i] for i in a), v) for a, v in zip(axes, valid, strict=True) if a is not None]
    return [have for have, _ in pairs], [want for _, want in pairs]


def _exceeds(machine: Machine, offset: Scalar, size: Scalar, extent: Scalar) -> Scalar:
    """Whether a window ends behind an extent; no sum is formed that could leave 64 bits."""
    last = scalar(machine, "arith.subi", (extent, size), INDEX, INDEX)
    larger = _compared(machine, "sgt", size, extent)
    return either(machine, larger, _compared(machine, "sgt", offset, last))


def _leaves_buffer(machine: Machine, view: View) -> Scalar:
    """Whether the last element of a view is not in its buffer."""
    elements = machine.elements(view.buffer, view.dtype)
    if elements is None:
        return True
    last = _start(machine, view, [scalar(machine, "arith.subi", (n, 1), INDEX, INDEX) for n in view.shape])
    last = _settled(machine, last)
    return either(machine, _compared(machine, "slt", last, 0), _compared(machine, "sge", last, elements))


def _compared(machine: Machine, order: str, a: Scalar, b: Scalar) -> Scalar:
    return scalar(machine, f"arith.cmpi.{order}", (a, b), INDEX, I1)


def either(machine: Machine, *conditions: Scalar) -> Scalar:
    """Whether one of some conditions holds."""
    return _combined(machine, "arith.ori", True, conditions)


def _both(machine: Machine, *conditions: Scalar) -> Scalar:
    return _combined(machine, "arith.andi", False, conditions)


def _combined(machine: Machine, name: str, decisive: bool, conditions: Sequence[Scalar]) -> Scalar:
    """Conditions joined; the ``decisive`` one decides alone, the other one does not count."""
    if any(c is decisive for c in conditions):
        return decisive
    unknown = [c for c in conditions if not isinstance(c, bool)]
    if not unknown:
        return not decisive
    result = unknown[0]
    for c in unknown[1:]:
        result = machine.scalar(name, (result, c), I1, I1)
    return result


def _settled(machine: Machine, n: Scalar) -> Scalar:
    number = machine.known(n)
    return n if number is None else number


def _is(a: Scalar, n: int) -> bool:
    return isinstance(a, int) and a == n


def flat(machine: Machine, op: Op, ref: TileRef) -> TileRef:
    """The tile of the whole's shape that begins where a window of it does; other handles as they are."""
    part = machine.window_of(ref)
    if part is None:
        return ref
    whole = flat(machine, op, part[0])
    elements = elements_before(machine, whole.type, *part[1:])
    storage = machine.offset(op, whole, whole.type, elements)
    return TileRef(whole.type, storage, ref.v_row, ref.v_col)


def elements_before(machine: Machine, t: TileType, row: Scalar, col: Scalar) -> Scalar:
    """How many elements lie between the beginning of a tile and a row and column of it."""
    of_row, of_col = pitches(t)
    return advanced(machine, advanced(machine, 0, row, of_row), col, of_col)


def pitches(t: TileType) -> tuple[int, int]:
    """How many elements lie between two rows, and two columns, of a tile's storage; in boxes on average.

    >>> from ..ir import F32
    >>> pitches(TileType(F32, 16, 64))
    (64, 1)
    """
    padding = t.compact == Compact.ROW_PLUS_ONE
    rows, cols = t.box
    return (t.cols + padding, rows) if t.blayout == BLayout.ROW_MAJOR else (cols, t.rows + padding)
