"""Rules of elementwise instructions: scratch tiles, and what a precision is legal with."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...ir import Precision
from ...profiles import Profile
from ..changes import DIALECT
from ..declare import AttrMap, Finding, Operand, Site
from ..operands import Implied
from .constraints import HARDWARE, HEADERS, element_type, same_as
from .forbid import Types, assign, edit, forbid
from .scratch import (
    Want,
    bytes_of,
    none_for_integers,
    same_region,
    scratch,
    scratch_bytes,
    valid_region,
)
from .typesets import HALVES

TMP = Operand(
    "tmp",
    "tmp",
    optional=True,
    dtype=None,
    note="scratch of A2/A3; ignored elsewhere",
    implied=Implied("dst"),
)
WHOLE_TMP = replace(TMP, implied=Implied("dst", whole=True))
_OF_DST = same_as("tmp", "dst", ("a2a3",), HEADERS)
#: Scratch of the destination's type with a lane for each of its valid ones.
LANE_SCRATCH = (
    _OF_DST,
    scratch("tmp", valid_region("dst"), "the valid region of dst", HEADERS),
    scratch_bytes(
        "tmp", bytes_of("dst"), "the bytes of dst", edit("dst", lambda t: replace(t, rows=8 * t.rows))
    ),
)


def _lines(rows: int) -> Callable[[Site], Want]:
    def lines(site: Site) -> Want:
        cols = site.region("dst")[1]
        return None if cols is None else (rows, cols)

    return lines


#: A2/A3 keeps quotients and a corrected divisor, of a scalar the quotients only.
REMAINDER_SCRATCH = (_OF_DST, scratch("tmp", _lines(2), "two rows of dst's valid columns", HEADERS))
SCALAR_REMAINDER_SCRATCH = (_OF_DST, scratch("tmp", _lines(1), "a row of dst's valid columns", HEADERS))


def _row_of_src(site: Site) -> int | None:
    t = site.tile("src")
    return None if t is None else t.cols * t.dtype.storage_bits // 8


#: Scratch of a selection between a tile and a scalar.
SELECTION_SCRATCH = (
    replace(_OF_DST, since="2026-08", source=DIALECT),
    scratch_bytes("tmp", _row_of_src, "a row of src"),
)


def _of_floats(site: Site) -> bool:
    d = element_type(site.types.get("dst"))
    return d is None or not d.is_integer


#: Powers of floats are computed in scratch, on every chip; those of integers in none.
POWER_TMP = replace(TMP, implied=Implied("dst", HARDWARE, _of_floats, whole=True))
POWER_SCRATCH = (none_for_integers("dst"), same_region("dst", HARDWARE, _of_floats))


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


@forbid(
    "precision-exists",
    "precision DEFAULT",
    ("a2a3",),
    source=DIALECT,
    invalid_if=assign(precision=Precision.HIGH_PRECISION),
    since="2026-08",
)
def precise_power(site: Site) -> Iterator[Finding]:
    """A2/A3 has one algorithm for powers."""
    if site.attrs.get("precision") == Precision.HIGH_PRECISION:
        yield None, "precision HIGH_PRECISION; allowed on a2a3: DEFAULT"
