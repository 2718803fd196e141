"""Repeating patterns of 2 or 4 elements, by which tiles are gathered and scattered."""

from ...ir import MaskPattern
from ...profiles import Profile
from ..declare import Attribute, AttrMap
from .forbid import Types

MASK_PATTERN = Attribute(
    "maskPattern",
    MaskPattern,
    None,
    "which of every 2 or 4 elements take part; the digits count from the right",
    ("maskPattern", "mask"),
)
_PERIODS = {
    MaskPattern.P0101: (2, 0),
    MaskPattern.P1010: (2, 1),
    MaskPattern.P0001: (4, 0),
    MaskPattern.P0010: (4, 1),
    MaskPattern.P0100: (4, 2),
    MaskPattern.P1000: (4, 3),
    MaskPattern.P1111: (1, 0),
}


def period(pattern: MaskPattern) -> tuple[int, int]:
    """Element i takes part where ``i % n == k``: the pair (n, k) of a pattern.

    >>> period(MaskPattern.P0100)
    (4, 2)
    """
    return _PERIODS[pattern]


def picked(pattern: MaskPattern, count: int) -> int:
    """How many of the first ``count`` elements take part.

    >>> picked(MaskPattern.P1010, 5)
    2
    """
    n, k = _PERIODS[pattern]
    return (count + n - 1 - k) // n


def with_or_without_pattern(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    """The operation has no pattern where it had one, and one where it had none."""
    if attrs.pop("maskPattern", None) is None:
        attrs["maskPattern"] = MaskPattern.P1111
    return True
