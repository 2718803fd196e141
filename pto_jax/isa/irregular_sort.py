"""Sorting: blocks of 32 elements with their indices, and merging of sorted record lists.

A record takes 8 bytes: a value first, in 4-byte types the index after it, in 2-byte types a zero and
the two halves of the index.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..ir import I16, U32, TileType, Type, VectorType, dtype
from ..profiles import Profile
from . import assembly, changes, common, declare
from .rules import elementwise, regions, typesets
from .rules.constraints import HARDWARE, HEADERS, SIMULATOR, equal_valid, fixed_type, in_vec, same_as
from .rules.forbid import Types, absent, edit, forbid, shrunk
from .rules.irregular import Want, plain, room, sample, single_row
from .rules.require import require
from .samples.operations import Sample
from .semantics import Apart

RECORD_BYTES = 8
BLOCK = 32


def slots(bits: int) -> int:
    """Elements of a ``bits``-bit type that one record takes.

    >>> slots(32), slots(16)
    (2, 4)
    """
    return RECORD_BYTES * 8 // bits


# -- tsort32 -----------------------------------------------------------------------------------------


def _sorted(s: declare.Sources) -> declare.Size:
    src, (rows, cols) = s.types["src"], s.sizes["src"]
    width = slots(src.dtype.bits)
    return (src.rows, src.cols * width), (rows, cols * width)


def _may_end_short(site: declare.Site) -> bool:
    cols = site.region("src")[1]
    return cols is None or cols % BLOCK != 0


_SORT_OPERANDS = (
    declare.Operand("dst", "out", note="records", extent=declare.Extent("the records of src", _sorted)),
    declare.Operand("src", "in", shown=(3, 1, 4, 1.5, 9, 2, 6, 5)),
    declare.Operand("idx", "in", dtype="u32", note="index of each element of src"),
    declare.Operand(
        "tmp",
        "tmp",
        dtype=None,
        optional=True,
        note="needed on hardware for a short last block",
        implied=declare.Implied("", HARDWARE, _may_end_short),
    ),
)


def _records(site: declare.Site) -> Want:
    src = site.tile("src")
    rows, cols = site.region("src")
    return rows, None if src is None or cols is None else slots(src.dtype.bits) * cols


def _index_rows(site: declare.Site) -> int | None:
    """Rows of indices; on hardware one valid row of them holds for all rows."""
    one_row = site.profile.name != "cpu_sim" and site.region("idx")[0] == 1
    return 1 if one_row else site.region("src")[0]


_index_lanes = require(
    "idx-lanes",
    "idx.cols >= src.valid_cols and idx.rows >= rows",
    let={"rows": _index_rows},
    why="an index for every valid element, on a2a3 and a5 or one valid row of them",
    statement="idx has an index for every valid element of src",
)


# Below the level at which programs place their tiles, tools put tmp in.
_tail = require(
    "tail-needs-tmp",
    f"src.valid_cols % {BLOCK} == 0",
    HARDWARE,
    when=lambda site: "tmp" not in site.values and site.level not in (1, 2),
    why="or tmp",
    statement=f"without tmp the valid columns of src are a multiple of {BLOCK}",
    invalid_if=shrunk("src", cols=1),
)


def _sort_samples(instruction: declare.Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = dtype(name)
        types: dict[str, Type] = {
            "src": TileType(d, 4, 64),
            "idx": TileType(U32, 4, 64),
            "dst": TileType(d, 4, 64 * slots(d.bits)),
        }
        yield sample(instruction, ("src", "idx"), types)
        if i == 0:
            types["tmp"] = TileType(d, 8, 64)
            yield sample(instruction, ("src", "idx", "tmp"), types)


TSORT32 = common.tile_instruction(
    "tsort32",
    "Sort each block of 32 elements of a row, descending, with attached indices.",
    "For each valid row of src and each block of columns 32b to 32b+31 (the last may be shorter): the "
    "pairs (src, idx) by value descending, equal values by unsigned index ascending, are written as "
    "records from column 32*b*R of dst: value and index for 4-byte types, R = 2; value, a zero word, and the "
    "low and the high half of the index for 2-byte types, R = 4. "
    "-0 equals +0; a NaN with sign bit 0 sorts before +infinity, one with sign bit 1 after -infinity, "
    "NaNs of one sign are equal. Values keep their bits. Elements of dst without a record, and records "
    "without an element in dst, are left out.",
    _SORT_OPERANDS,
    typesets.table(("i32", "i16", "f16", "bf16", "f32"), typesets.HALVES, typesets.HALVES),
    cls="irregular",
    domain="src",
    reads=(),
    placement=(in_vec(_SORT_OPERANDS), plain(("dst", "src", "idx"))),
    extra=(
        fixed_type("idx", ("u32",), ("cpu_sim", "a2a3", "a5"), HEADERS),
        same_as("src", HARDWARE, HEADERS),
        _index_lanes,
        room("dst", _records, "the records of all valid elements of src", severity="warning"),
        replace(
            equal_valid(("src", "idx"), "public CPU simulator"),
            rule="idx-region",
            statement="src and idx: equal valid regions, otherwise nothing is written",
            profiles=SIMULATOR,
            severity="warning",
        ),
        _tail,
        elementwise.scratch_bytes(elementwise.bytes_of("src"), "the bytes of src"),
    ),
    decisions=(
        declare.Decision(
            "The simulator places 16-bit blocks 64 elements apart although a block's records take 128.",
            "Blocks do not overlap: 128 elements apart, as the page and the headers have it.",
            f"{common.PAGES}; {HEADERS}",
        ),
        common.formal(
            "Where do NaNs go?",
            "First when positive, last when negative; hardware pads a short block with negative NaNs, which "
            "go last. The simulator's order is not defined for them.",
            HEADERS,
            "behind all numbers in either direction, in source order",
            "asl/tile/model/ordering/sorting.asl",
        ),
        common.formal(
            "Which of equal values goes first?",
            "The one of the lower index.",
            f"{HEADERS}; {common.SIMULATOR_VALUES}",
            "the one that is first in the source, which is the same where indices ascend",
            "asl/tile/model/ordering/sorting.asl",
        ),
        declare.Decision(
            "What happens when the valid regions of src and idx differ?",
            "cpu_sim writes nothing. a2a3 and a5 iterate over src; an idx with one valid row serves every "
            "row.",
            f"{common.SIMULATOR_VALUES}; {HEADERS}",
        ),
        declare.Contradiction(
            "What fills up a last block of fewer than 32 elements?",
            "Elements that sort behind all others: the block's own records come first.",
            HEADERS,
            other="the number 4286578688, the bits of -inf read as an integer, which sorts first",
            other_source="PTOAS tilelang system tests of tsort32 (3 cases, a defect of their generator)",
            key="filler-first",
            profiles=("a5",),
        ),
        declare.Decision(
            "What does hardware write behind the records of a short last block?",
            "Nothing: programs may not rely on the filler records.",
            common.SIMULATOR_VALUES,
        ),
    ),
    sampler=_sort_samples,
    apart=(
        Apart(
            "dst",
            ("src", "idx"),
            f"{HEADERS}: records take more bytes than values; PTOAS memory planning (not in place)",
            HARDWARE,
        ),
    ),
)

# -- tmrgsort ----------------------------------------------------------------------------------------


def _several(site: declare.Site) -> bool:
    return "src1" in site.values


_LISTS = ("src0", "src1", "src2", "src3")
_MERGE_OPERANDS = (
    declare.Operand("dst", "out", extent=regions.JOINED),
    declare.Operand(
        "executed",
        "out",
        "vector",
        dtype="i16",
        optional=True,
        note="records taken from each list; several lists only",
        beside="src1",
    ),
    declare.Operand("src0", "in"),
    declare.Operand("src1", "in", optional=True),
    declare.Operand("src2", "in", optional=True),
    declare.Operand("src3", "in", optional=True),
    declare.Operand(
        "blockLen", "in", "scalar", dtype="u32", optional=True, note="elements per block, indices included"
    ),
    declare.Operand(
        "tmp",
        "tmp",
        optional=True,
        note="scratch of hardware; ignored elsewhere",
        implied=declare.Implied("", HARDWARE, _several),
    ),
)
_MERGE_FORMS = (("src0", "blockLen"), *((*_LISTS[:n], "tmp") for n in (2, 3, 4)))
#: Type of the counts: one per list, zero for absent lists.
EXECUTED = VectorType((4,), I16)


def _breaks_executed(types: Types, attrs: declare.AttrMap, profile: Profile) -> bool:
    if types.pop("executed", None) is None:
        types["executed"] = EXECUTED
    return True


@forbid(
    "executed-given",
    "the counts are a destination exactly where several lists are merged",
    source="PTOAS verifier; pto_instr.hpp",
    invalid_if=_breaks_executed,
)
def _executed_given(site: declare.Site) -> Iterator[declare.Finding]:
    if _several(site) and "executed" not in site.values:
        yield None, "several lists of records; allowed destinations: dst and the counts, vector<4xi16>"
    if not _several(site) and "executed" in site.values:
        yield "executed", "one list of records; allowed destinations: dst only"


def _single_source(site: declare.Site) -> Want:
    return 1, None if _several(site) else site.region("dst")[1]


_block_length = require("block-length", "blockLen.value >= 1 and blockLen.value % 64 == 0", HARDWARE)


def _merge_scratch(site: declare.Site) -> int | None:
    """Room for dst and for the valid records of all lists, all that system tests give."""
    dst = site.tile("dst")
    if dst is None:
        return None
    columns = sum(t.cols if (n := site.region(name)[1]) is None else n for name, t in site.named(*_LISTS))
    return max(dst.bytes, columns * dst.dtype.storage_bits // 8)


def _merge_samples(instruction: declare.Instruction, profile: Profile) -> Iterator[Sample]:
    block = 16 if profile.name == "cpu_sim" else 64
    for i, (name,) in enumerate(instruction.types[profile.name]):
        tile = TileType(dtype(name), 1, 4 * block)
        types: dict[str, Type] = {"src0": tile, "dst": tile}
        yield sample(instruction, _MERGE_FORMS[0], types, constants={"blockLen": (block,)})
        for form in _MERGE_FORMS[1:] if i < 2 else _MERGE_FORMS[1 + i % 3 : 2 + i % 3]:
            part = TileType(dtype(name), 1, 64)
            wide = TileType(dtype(name), 1, 64 * (len(form) - 1))
            operands: dict[str, Type] = dict.fromkeys(form[:-1], part)
            operands |= {"tmp": wide, "dst": wide, "executed": EXECUTED}
            yield sample(instruction, form, operands, {"exhausted": len(form) % 2 == i % 2})


TMRGSORT = common.tile_instruction(
    "tmrgsort",
    "Merge sorted lists of records, descending.",
    "Records take R = 8 / element size elements, the value first; comparisons are of the element type, "
    "and false for NaN. A merge step takes the record whose value is strictly greater than those of all "
    "lower-numbered lists that still have one, so ties go to the lowest list; whole records move. One "
    "source: each complete group of four blocks of blockLen elements that fits the valid columns of dst "
    "is merged into the same columns of dst; a blockLen of 0 or not a multiple of R does nothing. Two to "
    "four sources: the first floor(valid columns / R) records of each are merged into dst until it has "
    "floor(valid columns / R) records or all lists are empty; with exhausted, also until any list given "
    "is empty after a step. executed holds the records taken from each list. The rest of dst stays. "
    "Valid rows are not consulted.",
    _MERGE_OPERANDS,
    typesets.table(typesets.STANDARD, typesets.HALVES, typesets.HALVES),
    cls="irregular",
    domain="custom",
    forms=_MERGE_FORMS,
    attributes=(declare.Attribute("exhausted", bool, False, "stop when any list is used up"),),
    placement=(in_vec(_MERGE_OPERANDS), plain(("dst", *_LISTS))),
    extra=(
        single_row(("dst", *_LISTS)),
        _executed_given,
        room(
            "src0",
            _single_source,
            "the blocks that are merged into the valid columns of dst",
            invalid_if=absent("src1", edit("dst", lambda t: TileType(t.dtype, 1, 2 * t.cols))),
        ),
        _block_length,
        elementwise.scratch_bytes(_merge_scratch, "all source lists, and dst", profiles=HARDWARE),
    ),
    decisions=(
        declare.Decision(
            "The overview names it TMREGSORT with an order argument; which orders exist?",
            "Descending only.",
            f"{HEADERS}; {common.SIMULATOR_VALUES}",
        ),
        common.formal(
            "Where do NaNs go, and are unsorted lists legal?",
            "A comparison with a NaN is false; every list is merged step by step.",
            common.SIMULATOR_VALUES,
            "NaN goes behind all numbers; lists that do not descend are illegal",
            "asl/tile/model/execution/sorting.asl",
        ),
        declare.Decision(
            "Hardware counts only with exhausted; what does executed hold without it?",
            "The counts, always.",
            common.SIMULATOR_VALUES,
        ),
        declare.Decision(
            "Hardware copies all valid columns from tmp, also behind the records; what is there?",
            "The old elements of dst.",
            common.SIMULATOR_VALUES,
        ),
    ),
    changes=(
        changes.rule(
            "one list is whole groups of four blocks",
            "what is behind the last whole group stays as it is in dst",
        ),
    ),
    sampler=_merge_samples,
    assembly=assembly.Assembly(
        generic=assembly.segments(
            "srcs=src0,src1,src2,src3 block_len=blockLen dsts=dst,executed tmp executed"
        ),
        inline=True,
        scratch="no_tmp",
        counted=_LISTS,
    ),
    sized_by=("src0",),
)

INSTRUCTIONS: tuple[declare.Instruction, ...] = (TSORT32, TMRGSORT)
