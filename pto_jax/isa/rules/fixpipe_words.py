"""Parameter words of quantisation as operands: one for a whole tile, or a row of them."""

from collections.abc import Callable, Iterator

from ...ir import Loc
from ..declare import Constraint, Finding, Operand, Site
from .constraints import HARDWARE, HEADERS, element_type, size
from .forbid import forbid, retile, retype

VERIFIER = "PTOAS verifier"
#: Element types that hold a word.
WORDS = ("u64", "i64")

FP = Operand("fp", "in", dtype=None, note="row of 64-bit parameter words, one per column", holds="parameters")
WORD = Operand(
    "preQuantScalar",
    "in",
    "scalar",
    dtype=None,
    optional=True,
    note="64-bit parameter word",
    holds="parameters",
)


@forbid("word-type", "preQuantScalar is i64 or u64", invalid_if=retype("preQuantScalar", "f32"))
def word_type(site: Site) -> Iterator[Finding]:
    """A parameter word for a whole tile is a 64-bit integer."""
    d = element_type(site.types.get("preQuantScalar"))
    if d is not None and d.name not in WORDS:
        yield "preQuantScalar", f"preQuantScalar has type {d}; allowed: a 64-bit word, i64 or u64"


@forbid(
    "fp-place",
    "fp in scaling",
    HARDWARE,
    source=f"{HEADERS}; {VERIFIER}",
    invalid_if=retile("fp", loc=Loc.VEC),
)
def _fp_place(site: Site) -> Iterator[Finding]:
    t = site.tile("fp")
    if t is not None and t.loc != Loc.SCALING:
        yield "fp", f"fp is a {t.loc.name.lower()} tile; allowed on {site.profile.name}: scaling"


@forbid(
    "fp-type",
    "fp holds 64-bit words",
    severity="warning",
    source=f"{HEADERS}; PTOAS programs give other types",
    invalid_if=retype("fp", "f32"),
    on_lanes=False,
)
def _fp_type(site: Site) -> Iterator[Finding]:
    d = element_type(site.types.get("fp"))
    if d is not None and d.name not in WORDS:
        yield "fp", f"fp has element type {d}; allowed, but only words of i64 or u64 are executed"


def parameter_rules(used: Callable[[Site], int | None], what: str) -> tuple[Constraint, ...]:
    """The rules on a row of parameter words; ``used`` says how many of them the operation reads."""

    @forbid(
        "fp-columns",
        f"fp has a column for {what}",
        source=f"page of the instruction; {HEADERS}",
        invalid_if=retile("fp", rows=1, cols=4, v_row=1, v_col=4),
    )
    def columns(site: Site) -> Iterator[Finding]:
        t, need = site.tile("fp"), used(site)
        if t is not None and need is not None and t.cols < need:
            yield "fp", f"fp has {t.cols} columns; allowed: at least {need}, {what}"

    @forbid(
        "fp-region",
        f"the valid region of fp has a word for {what}",
        severity="warning",
        source="page of the instruction",
        invalid_if=retile("fp", v_row=1, v_col=1),
    )
    def region(site: Site) -> Iterator[Finding]:
        t, need, (rows, cols) = site.tile("fp"), used(site), site.region("fp")
        if t is None or need is None or t.cols < need:
            return
        if rows == 0 or (cols is not None and cols < need):
            yield (
                "fp",
                f"fp has valid region {size(rows)}x{size(cols)}, {need} words are read; allowed, but words "
                "outside it have no reliable value",
            )

    return (_fp_place, _fp_type, columns, region)
