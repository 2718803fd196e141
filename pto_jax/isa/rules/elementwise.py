"""Rules of elementwise instructions: precision, and the presence and size of scratch tiles.

The assembler of August 2026 rejects scratch tiles that are too small; programs of earlier versions get a
warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from ...ir import Precision
from ...profiles import Profile, ProfileName
from ..changes import DIALECT
from ..declare import AttrMap, Breaker, Constraint, Finding, Implied, Operand, Site
from .constraints import HARDWARE, HEADERS, element_type, same_as
from .forbid import Types, assign, edit, forbid, one_block, retile
from .require import Extent, require
from .typesets import HALVES

#: Rows and columns, None where nothing is needed or known.
Want = tuple[int, int] | None
_A2A3: tuple[ProfileName, ...] = ("a2a3",)
Severity = Literal["error", "warning"]


def scratch(
    needed: Callable[[Site], Want],
    text: str,
    source: str,
    *,
    severity: Severity = "error",
) -> Constraint:
    """The scratch tile has at least the valid rows and columns ``needed`` computes."""
    return require(
        "tmp-size",
        "tmp.region >= room",
        _A2A3,
        let={"room": lambda site: None if (want := needed(site)) is None else Extent(want)},
        why=text,
        statement=f"scratch tile tmp holds {text}",
        severity=severity,
        source=f"{source}; {DIALECT}",
        invalid_if=retile("tmp", v_row=0, v_col=0),
        on_lanes=False,
        since="2026-08",
    )


def scratch_bytes(
    needed: Callable[[Site], int | None],
    text: str,
    invalid_if: Breaker | None = None,
    profiles: tuple[ProfileName, ...] = _A2A3,
    severity: Severity = "error",
) -> Constraint:
    """The scratch tile takes at least the bytes ``needed`` computes."""
    return require(
        "tmp-bytes",
        "tmp.bytes >= needed",
        profiles,
        let={"needed": needed},
        why=text,
        statement=f"scratch tile tmp holds {text}",
        severity=severity,
        source=f"{HEADERS}; {DIALECT}",
        invalid_if=invalid_if or one_block("tmp"),
        on_lanes=False,
        since="2026-08",
    )


def region_of_dst(site: Site) -> Want:
    """The valid rows and columns of dst, None where they are not known."""
    rows, cols = site.region("dst")
    return None if rows is None or cols is None else (rows, cols)


def bytes_of(name: str) -> Callable[[Site], int | None]:
    """The bytes of a tile."""

    def of(site: Site) -> int | None:
        t = site.tile(name)
        return None if t is None else t.bytes

    return of


def same_region(other: str, profiles: tuple[ProfileName, ...], needed: Callable[[Site], bool]) -> Constraint:
    """Tmp has the valid region of another operand, as the assembler demands, where ``needed`` says so."""
    return require(
        "tmp-region",
        f"tmp.region == {other}.region",
        profiles,
        when=needed,
        source=DIALECT,
        invalid_if=edit("tmp", lambda t: None if not t.v_row else t.with_valid(t.v_row - 1, t.v_col)),
        on_lanes=False,
        since="2026-08",
    )


#: Integers are computed without scratch, and the assembler takes none for them.
_NONE_FOR_INTEGERS = require(
    "tmp-integers",
    "not tmp.given",
    HARDWARE,
    when="dst.integer",
    why="tmp is for floats",
    source=DIALECT,
    on_lanes=False,
    since="2026-08",
)


def _high(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["precision"] = Precision.HIGH_PRECISION
    return "tmp" not in types


precise_with_tmp = require(
    "tmp-precision",
    "tmp.given",
    HARDWARE,
    when="precision == HIGH_PRECISION",
    why="scratch of the precise form",
    source=DIALECT,
    invalid_if=_high,
    on_lanes=False,
    since="2026-08",
)


TMP = Operand(
    "tmp",
    "tmp",
    optional=True,
    dtype=None,
    note="scratch of A2/A3; ignored elsewhere",
    implied=Implied("dst"),
)
WHOLE_TMP = replace(TMP, implied=Implied("dst", whole=True))
_OF_DST = same_as("dst", ("a2a3",), HEADERS)
#: Scratch of the destination's type with a lane for each of its valid ones.
LANE_SCRATCH = (
    _OF_DST,
    scratch(region_of_dst, "the valid region of dst", HEADERS),
    scratch_bytes(bytes_of("dst"), "the bytes of dst", edit("dst", lambda t: replace(t, rows=8 * t.rows))),
)


def _lines(rows: int) -> Callable[[Site], Want]:
    def lines(site: Site) -> Want:
        cols = site.region("dst")[1]
        return None if cols is None else (rows, cols)

    return lines


#: A2/A3 keeps quotients and a corrected divisor, of a scalar the quotients only.
REMAINDER_SCRATCH = (_OF_DST, scratch(_lines(2), "two rows of dst's valid columns", HEADERS))
SCALAR_REMAINDER_SCRATCH = (_OF_DST, scratch(_lines(1), "a row of dst's valid columns", HEADERS))


def _row_of_src(site: Site) -> int | None:
    t = site.tile("src")
    return None if t is None else t.cols * t.dtype.storage_bits // 8


#: Scratch of a selection between a tile and a scalar.
SELECTION_SCRATCH = (
    replace(_OF_DST, since="2026-08", source=DIALECT),
    scratch_bytes(_row_of_src, "a row of src"),
)


def _of_floats(site: Site) -> bool:
    d = element_type(site.types.get("dst"))
    return d is None or not d.is_integer


#: Powers of floats are computed in scratch, on every chip; those of integers in none.
POWER_TMP = replace(TMP, implied=Implied("dst", HARDWARE, _of_floats, whole=True))
POWER_SCRATCH = (_NONE_FOR_INTEGERS, same_region("dst", HARDWARE, _of_floats))


def _other_precision(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    d = element_type(types.get("dst"))
    if d is None or d.name in HALVES:
        return False
    attrs["precision"] = Precision.HIGH_PRECISION if d.is_integer else Precision.DEFAULT
    return True


@forbid(
    "precision-types",
    "bf16 with HIGH_PRECISION only, integers with DEFAULT only",
    ("a5",),
    invalid_if=_other_precision,
)
def precision_types(site: Site) -> Iterator[Finding]:
    """On A5 the power functions take bf16 with HIGH_PRECISION only, integers with DEFAULT only."""
    d, precision = element_type(site.types.get("dst")), site.attrs.get("precision")
    if d is None:
        return
    if d.name == "bf16" and precision != Precision.HIGH_PRECISION:
        yield "dst", "bf16 with precision DEFAULT; allowed on a5: precision HIGH_PRECISION"
    if d.is_integer and precision == Precision.HIGH_PRECISION:
        yield "dst", f"{d} with precision HIGH_PRECISION; allowed on a5: precision DEFAULT"


precise_power = require(
    "precision-exists",
    "precision == DEFAULT",
    ("a2a3",),
    source=DIALECT,
    invalid_if=assign(precision=Precision.HIGH_PRECISION),
    since="2026-08",
)
