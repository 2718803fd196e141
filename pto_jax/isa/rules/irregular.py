"""Rules and sample operands of irregular instructions, with the patterns of gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from ...ir import BLayout, DType, MaskPattern, ScalarType, SLayout, TileType, Type, dtype
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..declare import Attribute, AttrMap, Breaker, Constraint, Instruction, Operand, Site
from ..samples.operations import Sample
from . import constraints
from .constraints import HEADERS
from .forbid import Types, first_tile, one_block
from .require import Extent, require

Want = tuple[int | None, int | None]
A5_AND_SIMULATOR: tuple[ProfileName, ...] = ("cpu_sim", "a5")


def _boxed(t: TileType) -> TileType | None:
    return None if t.dtype.packed else replace(t, blayout=BLayout.ROW_MAJOR, slayout=SLayout.ROW_MAJOR)


def plain(
    names: tuple[str, ...], profiles: tuple[ProfileName, ...] = PROFILE_NAMES, source: str = HEADERS
) -> Constraint:
    """Tiles whose storage order is their row-major order; single rows and columns are, either way."""
    return require(
        "layout",
        "it.layout == ND",
        profiles,
        it=names,
        when="it.slayout != none_box or it.rows != 1 and it.cols != 1",
        statement=f"{', '.join(names)}: row_major with none_box",
        source=source,
        invalid_if=first_tile(names, _boxed),
        fix=constraints.row_major_instead,
    )


def single_row(names: tuple[str, ...]) -> Constraint:
    """Tiles of one physical row."""
    return require("one-row", "it.rows == 1", it=names)


def one_of(
    attribute: str,
    allowed: tuple[int, ...],
    source: str,
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES,
) -> Constraint:
    """An integer attribute with few legal values."""
    return require(f"{attribute}-value", f"{attribute} in {allowed}", profiles, source=source)


def room(
    name: str,
    needed: Callable[[Site], Want],
    text: str,
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES,
    source: str = HEADERS,
    severity: Literal["error", "warning"] = "error",
    invalid_if: Breaker | None = None,
) -> Constraint:
    """A tile with at least the physical rows and columns ``needed`` computes (None: not known)."""
    return require(
        f"{name}-room",
        f"{name}.shape >= room",
        profiles,
        let={"room": lambda site: Extent(needed(site))},
        why=text,
        statement=f"{name} holds {text}",
        severity=severity,
        source=source,
        invalid_if=invalid_if or one_block(name),
    )


# -- samples -----------------------------------------------------------------------------------------


def row_cols(d: DType, blocks: int = 1) -> int:
    """Columns of a row that takes a number of 32-byte blocks."""
    return blocks * 256 // d.storage_bits


def sample(
    instruction: Instruction,
    form: tuple[str, ...],
    types: Mapping[str, Type],
    attrs: Mapping[str, object] | None = None,
    constants: Mapping[str, tuple[int, ...]] | None = None,
) -> Sample:
    """A sample operation; constant operands get scalar types where none is given."""
    operands = dict(types)
    for name in constants or {}:
        declared: Operand = instruction.operand(name)
        operands.setdefault(name, ScalarType(dtype(declared.dtype or "i32")))
    return Sample(instruction, operands, form, dict(attrs or {}), dict(constants or {}))  # type: ignore[arg-type]


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
