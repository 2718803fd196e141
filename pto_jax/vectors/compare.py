"""Comparing computed bytes with recorded ones, element by element.

Equality is bit-exact unless a :class:`Rule` says otherwise. Two policies are fixed: a NaN equals every
other NaN where ``any_nan`` is set, and zeros of different sign differ whatever the ULP bound. Elements
that the recorded execution left alone must be bit-equal under every rule.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import DType, TileType
from .cases import element_offsets, unpack_elements
from .manifest import GmOperand, OtherOperand, Rule, TileOperand, VectorOperand

EXACT = Rule(ulp=0, any_nan=False)


@dataclass(frozen=True)
class Difference:
    """The first element that differs: its place and both values."""

    operand: str
    index: int
    position: tuple[int, int] | None
    expected_bits: int
    actual_bits: int
    expected: float | int | None
    actual: float | int | None
    ulp: int | None
    dtype: DType

    @property
    def bits(self) -> tuple[str, str]:
        """The expected and the actual bits, hexadecimal."""
        digits = max(1, self.dtype.bits // 4)
        return f"0x{self.expected_bits:0{digits}x}", f"0x{self.actual_bits:0{digits}x}"

    def __str__(self) -> str:
        expected, actual = self.bits
        place = f"element {self.index}" if self.position is None else "({}, {})".format(*self.position)
        text = (
            f"{self.operand} {place}: expected {expected} ({_show(self.expected)}), "
            f"got {actual} ({_show(self.actual)})"
        )
        return text if self.ulp is None else f"{text}, {self.ulp} ULP apart"


@dataclass(frozen=True)
class Comparison:
    """Result for one operand.

    ``max_ulp`` is the largest distance of compared float elements that are no NaN; ``reason`` is set when the
    data could not be compared at all (size, type); ``places`` are the elements of words that differ.
    """

    operand: str
    equal: bool
    elements: int = 0
    different: int = 0
    max_ulp: int = 0
    first: Difference | None = None
    reason: str = ""
    places: tuple[int, ...] = field(default=(), repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.equal:
            return f"{self.operand}: equal ({self.elements} elements, at most {self.max_ulp} ULP)"
        if self.first is None:
            return f"{self.operand}: {self.reason}"
        return f"{self.different} of {self.elements} elements differ, first {self.first}"


def compare_operand(
    operand: TileOperand | GmOperand | VectorOperand | OtherOperand, actual: NDArray[Any], rule: Rule
) -> Comparison:
    """Compare an operand's bytes after execution with the recorded ones.

    The whole stored tile or buffer is compared, except elements marked ``undef``. The rule's tolerance
    applies where the instruction wrote: in a tile's valid region, and wherever the recorded bytes changed.
    """
    expected = operand.after if operand.after is not None else operand.before
    if expected is None:
        return Comparison(operand.name, False, reason="nothing is recorded for this operand")
    actual = np.asarray(actual)
    if actual.dtype != np.uint8 or actual.shape != expected.shape:
        return Comparison(
            operand.name,
            False,
            reason=f"got {actual.dtype} of shape {actual.shape}, expected {expected.size} raw bytes",
        )
    if isinstance(operand, OtherOperand):
        same = bool(np.array_equal(actual, expected))
        return Comparison(operand.name, same, expected.size, reason="" if same else "raw bytes differ")
    tile = operand.type if isinstance(operand, TileOperand) else None
    undef = operand.undef if isinstance(operand, TileOperand) else None
    want, got = (unpack_elements(operand.dtype, raw) for raw in (expected, actual))
    written = want != unpack_elements(operand.dtype, operand.before)
    if tile is not None:
        valid = element_offsets(tile)[: tile.v_row, : tile.v_col]
        written[valid] = True
    return compare_words(operand.name, operand.dtype, want, got, rule, written=written, skip=undef, tile=tile)


def compare_words(
    name: str,
    d: DType,
    expected: NDArray[Any],
    actual: NDArray[Any],
    rule: Rule = EXACT,
    *,
    written: NDArray[np.bool_] | None = None,
    skip: NDArray[np.bool_] | None = None,
    tile: TileType | None = None,
) -> Comparison:
    """Compare two arrays of raw words of element type ``d``.

    ``written`` marks where the rule's tolerance applies (everywhere by default), ``skip`` elements that
    are not compared. ``tile`` turns storage positions into rows and columns for the report.

    >>> from pto_jax.ir import F32
    >>> one = np.array([0x3F800000], np.uint32)
    >>> print(compare_words("dst", F32, one, one + np.uint32(2), Rule(ulp=1)).first)
    dst element 0: expected 0x3f800000 (1.0), got 0x3f800002 (1.000000238418579), 2 ULP apart
    """
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        first, second = (f"{a.dtype}{list(a.shape)}" for a in (actual, expected))
        return Comparison(name, False, reason=f"got {first}, expected {second}")
    want, got = expected.reshape(-1), actual.reshape(-1)
    compared = np.ones(want.size, bool) if skip is None else ~skip.reshape(-1)
    same = want == got
    distance = np.zeros(want.size, np.int64)
    if has_ordered_bits(d):
        tolerant = np.ones(want.size, bool) if written is None else written.reshape(-1)
        nan_want, nan_got = is_nan(d, want), is_nan(d, got)
        numbers = ~(nan_want | nan_got)
        distance[numbers] = ulp_distance(d, want[numbers], got[numbers])
        both_zero = (want & _magnitude(d) == 0) & (got & _magnitude(d) == 0)
        same |= tolerant & numbers & (distance <= rule.ulp) & ~both_zero
        if rule.any_nan:
            same |= tolerant & nan_want & nan_got
    bad = np.flatnonzero(compared & ~same)
    return Comparison(
        name,
        bad.size == 0,
        int(compared.sum()),
        int(bad.size),
        int(distance[compared].max(initial=0)),
        None if bad.size == 0 else _difference(name, d, want, got, int(bad[0]), tile),
        places=tuple(bad.tolist()),
    )


def has_ordered_bits(d: DType) -> bool:
    """Whether the bits below the sign order the values, so that ULP distances make sense."""
    return d.is_float and d.exponent > 0


def _magnitude(d: DType) -> int:
    unsigned = d.name == "f8e8m0"
    return (1 << d.bits) - 1 if unsigned else (1 << (d.bits - 1)) - 1


def is_nan(d: DType, words: NDArray[Any]) -> NDArray[np.bool_]:
    """Which words are NaN in the float type ``d``.

    >>> from pto_jax.ir import F8E4M3
    >>> is_nan(F8E4M3, np.array([0x7F, 0x7E], np.uint8))
    array([ True, False])
    """
    if d.name == "hif8":
        return np.asarray(words == 0x80)
    if not has_ordered_bits(d) or d.bits == 4:
        return np.zeros(words.shape, bool)
    magnitude = words & _magnitude(d)
    if d.name in ("f8e4m3", "f8e8m0"):
        return np.asarray(magnitude == _magnitude(d))
    return np.asarray(magnitude > ((1 << d.exponent) - 1) << d.mantissa)


def ulp_distance(d: DType, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """Steps between neighbouring values from ``a`` to ``b``; the two zeros are one step apart.

    >>> from pto_jax.ir import F16
    >>> ulp_distance(F16, np.array([0x3C00, 0x8000], np.uint16), np.array([0x3C03, 0], np.uint16))
    array([3, 1])
    """

    def key(words: NDArray[Any]) -> NDArray[np.int64]:
        magnitude = (words & _magnitude(d)).astype(np.int64)
        return np.where(words > _magnitude(d), -magnitude - 1, magnitude)

    return np.asarray(np.abs(key(a) - key(b)))


def number(d: DType, bits: int) -> float | int | None:
    """The value of raw bits, None where this module has no decoder (hif8)."""
    if d.name in ("f4e2m1x2", "f4e1m2x2"):
        magnitude, sign = bits & 7, -1.0 if bits & 8 else 1.0
        exponent, fraction = magnitude >> d.mantissa, magnitude & ((1 << d.mantissa) - 1)
        normal = int(exponent > 0)
        significand = (normal << d.mantissa) + fraction
        return sign * float(np.ldexp(significand, max(exponent, 1) - d.bias - d.mantissa))
    if d.name == "hif8":
        return None
    if d.name == "i4":
        return (bits & 15) - 16 * (bits >> 3 & 1)
    value = np.array(bits, dtype=d.word).view(d.numpy)[()]
    return float(value) if d.is_float else int(value)


def _difference(
    name: str, d: DType, want: NDArray[Any], got: NDArray[Any], index: int, tile: TileType | None
) -> Difference:
    expected, actual = int(want[index]), int(got[index])
    position = None
    if tile is not None:
        at = np.argwhere(element_offsets(tile) == index)
        position = (int(at[0][0]), int(at[0][1])) if len(at) else None
    ulp = None
    both = np.array([expected, actual], dtype=d.word)
    if has_ordered_bits(d) and not is_nan(d, both).any():
        ulp = int(ulp_distance(d, both[:1], both[1:])[0])
    return Difference(name, index, position, expected, actual, number(d, expected), number(d, actual), ulp, d)


def _show(value: float | int | None) -> str:
    return "?" if value is None else repr(value)
