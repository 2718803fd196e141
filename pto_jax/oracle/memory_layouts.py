"""Layouts of global memory, convolution tiles in transfers, and the prefetch hint."""

from collections.abc import Sequence
from math import prod

import numpy as np

from ..errors import Diagnostic, ExecutionError
from ..interpreter import View
from ..ir import Conv, GlobalLayout, block_channels
from . import storage
from .numbers import Array
from .step import Step, not_executable, rule

_G = GlobalLayout
_Ints = tuple[int, int, int, int, int]


def dims_of(view: View) -> _Ints:
    """Extents of a view as five dimensions, missing leading ones 1."""
    given = [int(n) for n in view.shape]
    a, b, c, d, e = [1] * (5 - len(given)) + given
    return a, b, c, d, e


def strides_of(view: View) -> _Ints:
    """Strides in elements brought to rank 5: 0 for the missing leading dimensions."""
    given = [int(n) for n in view.strides]
    a, b, c, d, e = [0] * (5 - len(given)) + given
    return a, b, c, d, e


def window_lanes(view: View) -> tuple[int, int]:
    """Rows and columns of a tile that a view has elements for."""
    a, b, c, d, e = dims_of(view)
    match view.layout:
        case _G.DN:
            return d, a * b * c * e
        case _G.NZ:
            return c * d, a * b * e
        case _G.MX_A_ZZ:
            return b * 16, c * 2
        case _G.MX_B_NN:
            return c * 2, b * 16
        case _G.MX_A_ND:
            return c, d * 2
        case _G.MX_A_DN:
            return d, c * 2
        case _G.MX_B_ND:
            return c * 2, d
        case _G.MX_B_DN:
            return d * 2, c
        case _G.NC1HWC0:
            return a * c * d, b * e
        case _G.NDC1HWC0:
            return a * d * e, b * c * block_channels(view.dtype)
        case _G.NCHW:
            return a * b * d * e, c
        case _G.NCDHW:
            return a * c * d * e, b
    return a * b * c * d, e


def _indices(view: View, r: Array, c: Array) -> tuple[tuple[Array, ...], Array]:
    """Five indices of logical element (r, c), and how many elements further it lies."""
    _, d1, d2, d3, d4 = (max(n, 1) for n in dims_of(view))
    zero, block = r * 0, block_channels(view.dtype)
    match view.layout:
        case None | _G.ND | _G.NHWC:
            found = (r // (d1 * d2 * d3), r // (d2 * d3) % d1, r // d3 % d2, r % d3, c)
        case _G.DN:
            found = (c // (d1 * d2 * d4), c // (d2 * d4) % d1, c // d4 % d2, r, c % d4)
        case _G.NZ:
            found = (c // d4 // d1, c // d4 % d1, r // d3, r % d3, c % d4)
        case _G.MX_A_ZZ:
            found = (zero, r // 16, c // 2, r % 16, c % 2)
        case _G.MX_A_ND:
            found = (zero, zero, r, c // 2, c % 2)
        case _G.MX_A_DN:
            found = (zero, zero, c // 2, r, c % 2)
        case _G.MX_B_NN:
            found = (zero, c // 16, r // 2, c % 16, r % 2)
        case _G.MX_B_ND:
            found = (zero, zero, r // 2, c, r % 2)
        case _G.MX_B_DN:
            found = (zero, zero, c, r // 2, r % 2)
        case _G.NC1HWC0:
            found = (r // (d2 * d3), c // d4, r // d3 % d2, r % d3, c % d4)
        case _G.NDC1HWC0:
            found = (r // (d3 * d4), c // (d2 * block), c // block % d2, r // d4 % d3, r % d4)
            return found, c % block
        case _G.NCHW:
            found = (r // (d1 * d3 * d4), r // (d3 * d4) % d1, c, r // d4 % d3, r % d4)
        case _G.NCDHW:
            found = (r // (d2 * d3 * d4), c, r // (d3 * d4) % d2, r // d4 % d3, r % d4)
        case other:
            raise KeyError(other)
    return found, zero


def global_map(view: View, r: Array, c: Array) -> Array:
    """Position in the buffer of logical element (r, c) of a view."""
    indices, further = _indices(view, r, c)
    return placed(view, indices, strides_of(view)) + further


def placed(view: View, indices: Sequence[Array], strides: Sequence[int]) -> Array:
    """Positions in the buffer of elements by their indices, one array per dimension.

    They are Python's own numbers where 64 bits could not hold them.
    """
    farthest = sum(abs(n) * int(np.max(i, initial=0)) for i, n in zip(indices, strides, strict=True))
    if farthest + abs(int(view.offset)) >= 1 << 62:
        indices = [np.asarray(i).astype(object) for i in indices]
    moved = sum(i * n for i, n in zip(indices, strides, strict=True))
    return np.asarray(moved + int(view.offset))


def require_layout(step: Step, view: View) -> None:
    """NotExecutableError for layouts of which no element order is known."""
    try:
        global_map(view, np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64))
    except KeyError:
        assert view.layout is not None
        name = view.layout.name.lower()
        raise not_executable(step.op, f"is not executed between a tile and layout {name}") from None


def check_bounds(step: Step, view: View, at: Array, memory: Array) -> None:
    """ExecutionError where an addressed element is outside the buffer."""
    available = len(memory) * 8 // view.dtype.storage_bits
    if at.size and (at.min() < 0 or at.max() >= available):
        message = (
            f"buffer {view.buffer} has {available} elements of {view.dtype}; "
            f"elements {at.min()} to {at.max()} are addressed"
        )
        raise ExecutionError(Diagnostic("error", message, step.op.span, step.op.name, rule="bounds"))


# -- convolution tiles -------------------------------------------------------------------------------


def load_convolution(step: Step, view: View) -> None:
    """Read a view into the convolution tile dst; ExecutionError where it leaves the buffer."""
    conv = step.type().conv
    assert conv is not None
    at, present, kept = image_positions(step, conv, view)
    memory = step.memory(view.buffer)
    check_bounds(step, view, at[present], memory)
    words = np.zeros(conv.elements, step.dtype().word)
    words[present] = storage.read_words(memory, at[present], view.dtype)
    written = np.flatnonzero(~kept)
    step.scatter(words[written], written)


def store_convolution(step: Step, view: View) -> None:
    """Write the convolution tile src to a view; ExecutionError where it leaves the buffer."""
    conv = step.type("src").conv
    assert conv is not None
    at, _, _ = image_positions(step, conv, view)
    memory = step.memory(view.buffer)
    check_bounds(step, view, at, memory)
    storage.write_words(memory, at, step.stored("src").reshape(-1), view.dtype)


def image_positions(step: Step, conv: Conv, view: View) -> tuple[Array, Array, Array]:
    """For each element of a convolution tile: its place in the buffer, and two flags.

    The flags tell whether it has a place, and whether the tile keeps what it holds there.
    """
    element = np.unravel_index(np.arange(conv.elements), conv.shape)
    layout = conv.layout if view.layout is None else view.layout
    everywhere = np.ones(conv.elements, bool)
    if layout != conv.layout:
        return _converted_positions(step, conv, view, layout)
    _require_shape(step, conv, view, layout)
    further = 0
    if layout == _G.NDC1HWC0:
        *element, further = element  # type: ignore[assignment]
    elif len(element) == 4:
        element = (element[0] // dims_of(view)[1], element[0] % dims_of(view)[1], *element[1:])
    return placed(view, element, strides_of(view)) + further, everywhere, ~everywhere


def _require_shape(step: Step, conv: Conv, view: View, layout: GlobalLayout) -> None:
    have = dims_of(view)
    fits = have == conv.shape[:5]
    if len(conv.shape) == 4:
        fits = (have[0] * have[1], *have[2:]) == conv.shape
    if not fits:
        dims = "x".join(map(str, have))
        message = f"a window of {dims} and a convolution tile of {'x'.join(map(str, conv.shape))}"
        raise ExecutionError(Diagnostic("error", message, step.op.span, step.op.name, rule="bounds"))


def _converted_positions(
    step: Step, conv: Conv, view: View, layout: GlobalLayout
) -> tuple[Array, Array, Array]:
    """Elements by image, channel, depth and position, as a plain layout of five dimensions has them."""
    dims, c0 = dims_of(view), conv.shape[-1]
    order = {_G.NHWC: "dnhwc", _G.NCHW: "dnchw", _G.NCDHW: "ncdhw"}.get(layout)
    if order is None:
        pair = f"{layout.name.lower()} to {conv.layout.name.lower()}"
        raise not_executable(step.op, f"is not executed from {pair}")
    size = dict(zip(order, dims, strict=True))
    i = np.unravel_index(np.arange(conv.elements), conv.shape)
    if conv.layout == _G.NC1HWC0:
        place = {"n": i[0], "c": i[1] * c0 + i[4], "d": 0 * i[0], "h": i[2], "w": i[3]}
    elif conv.layout == _G.NDC1HWC0:
        place = {"n": i[0], "d": i[1], "c": i[2] * c0 + i[5], "h": i[3], "w": i[4]}
    else:
        blocks = -(-size["c"] // c0)
        outer = {"d": size["d"], "c1": blocks, "h": size["h"], "w": size["w"]}
        if prod(outer.values()) != conv.shape[0]:
            _require_shape(step, conv, view, layout)
        d, c1, h, w = np.unravel_index(i[0], tuple(outer.values()))
        place = {"n": i[1] * conv.shape[2] + i[2], "c": c1 * c0 + i[3], "d": d, "h": h, "w": w}
    absent = place["n"] >= size["n"]
    present = ~absent & np.logical_and.reduce([place[k] < size[k] for k in "cdhw"])
    return placed(view, [place[k] for k in order], strides_of(view)), present, absent


@rule("tprefetch")
def _prefetch(step: Step) -> None:
    """The simulator copies linearly with the pitch of the tile; hardware promises nothing."""
    if not step.policy.simulator:
        return
    t, view, (rows, cols) = step.type(), step.view("src"), step.region
    r, c = np.ogrid[:rows, :cols]
    positions = (r * t.cols + c).reshape(-1)
    memory = step.memory(view.buffer)
    at = placed(view, [positions], [1])
    inside = (at >= 0) & (at < len(memory) * 8 // view.dtype.storage_bits)
    step.scatter(storage.read_words(memory, at[inside].astype(np.int64), view.dtype), positions[inside])
