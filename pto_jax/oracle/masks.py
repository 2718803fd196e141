"""Packed comparison masks: bit j of a row is bit ``j % W`` of its word ``j // W``, low bits first."""

import numpy as np

from ..ir import BLayout, CmpMode
from . import storage
from .numbers import Array
from .step import Step


def compare(mode: CmpMode, a: Array, b: Array) -> Array:
    """An exact comparison; NaN is only unequal."""
    match mode:
        case CmpMode.EQ:
            return np.asarray(a == b)
        case CmpMode.NE:
            return np.asarray(a != b)
        case CmpMode.LT:
            return np.asarray(a < b)
        case CmpMode.LE:
            return np.asarray(a <= b)
        case CmpMode.GT:
            return np.asarray(a > b)
        case CmpMode.GE:
            return np.asarray(a >= b)


def compare_within(mode: CmpMode, a: Array, b: Array) -> Array:
    """The simulator's scalar comparison: equality within 1e-9 in float64, the others exact."""
    if mode not in (CmpMode.EQ, CmpMode.NE):
        return compare(mode, a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    distance = np.abs(x - y)
    if mode == CmpMode.EQ:
        return np.asarray(distance < 1e-9)
    return np.asarray(np.isnan(x) | np.isnan(y) | (distance > 1e-9))


def _packed(bits: Array, width: int) -> Array:
    """Rows of booleans as rows of ``width``-bit words."""
    rows, cols = bits.shape
    words = -(-cols // width)
    padded = np.zeros((rows, words * width), np.uint8)
    padded[:, :cols] = bits
    octets = np.packbits(padded, axis=1, bitorder="little")
    return octets.reshape(rows, words, width // 8).view(f"<u{width // 8}")[..., 0]


def write_rows(step: Step, bits: Array, *, clear: bool) -> None:
    """Mask row i holds comparison row i; words past the mask's valid columns are dropped.

    On a5 a row ends with a whole predicate: 32 bytes where bytes are compared, 16 where wider elements are.
    """
    t = step.type()
    if step.policy.profile.name == "a5":
        predicate = 8 * (32 if step.type("src0").dtype.bits == 8 else 16)
        bits = np.pad(bits, ((0, 0), (0, -bits.shape[1] % predicate)))
    words = _packed(bits, t.dtype.word_bits)
    if clear:
        column = t.blayout == BLayout.COL_MAJOR and not t.boxed
        cleared = np.arange(t.rows if column else t.elements)
        step.scatter(np.zeros(cleared.shape, t.dtype.word), cleared)
    region = (min(len(words), t.rows), min(words.shape[1], step.region[1]))
    step.put(words[: region[0], : region[1]], region=region)


def write_stream(step: Step, bits: Array, cols: int) -> None:
    """The simulator's scalar form: bytes of all physical source rows run on through the mask rows."""
    t, (rows, width) = step.type(), step.region
    image = np.zeros((bits.shape[0], cols // 8 * 8), np.uint8)
    image[:, : bits.shape[1]] = bits[:, : image.shape[1]]
    stream = np.packbits(image, axis=1, bitorder="little").reshape(-1)
    everything = np.arange(t.elements)
    step.scatter(np.zeros(everything.shape, t.dtype.word), everything)
    count = min(len(stream), rows * width)
    at = np.arange(count)
    positions = storage.map_of(t)[at // max(width, 1), at % max(width, 1)]
    step.scatter(stream[:count].astype(t.dtype.word), positions)


def places_in_rows(step: Step) -> tuple[Array, Array, Array]:
    """Row, column and bit in the mask of each lane of the region, every row starting at a mask row."""
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    width = step.dtype("mask").word_bits
    return rows, cols // width, cols % width


def places_in_stream(step: Step) -> tuple[Array, Array, Array]:
    """The simulator's tile form: one run of bits over the region, eight per mask element."""
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    index = rows * step.region[1] + cols
    octet, width = index // 8, max(step.valid("mask")[1], 1)
    return octet // width, octet % width, index % 8


def selected(step: Step, places: tuple[Array, Array, Array]) -> Array:
    """Selection bits over the destination's region."""
    rows, cols, bit = places
    words = step.gather("mask", rows, cols)
    return np.asarray((words >> bit.astype(words.dtype)) & 1 == 1)
