"""Layout and rearrangement: transposition, concatenation, interleaving and narrowing of tiles."""

from collections.abc import Iterator
from dataclasses import replace

from ..ir import Loc, TileType, dtype
from ..profiles import PROFILE_NAMES, Profile
from . import changes, declare, layout_img2col, memory_convolution
from .common import DST, SIMULATOR_VALUES, SRC0, SRC1, UNARY, tile_instruction
from .declare import AttrMap, Decision, Finding, Instruction, Operand, Site
from .rules.constraints import HEADERS, SIMULATOR, element_type, equal_valid, in_vec, row_major
from .rules.forbid import Types, forbid, retype
from .rules.irregular import row_cols, sample
from .rules.layout_moves import columns_fit, columns_sum, equal_rows, even_columns, halves, mirrored
from .rules.regions import JOINED, TRANSPOSED, UNWOVEN, like
from .rules.require import require
from .rules.typesets import FLOATS, INT32, Rows, pairs, table
from .samples.operations import Sample
from .semantics import Apart

_MOVED = (*FLOATS, *INT32)
#: Types of one byte that a5 moves as raw bits.
_BYTES = ("f8e4m3", "f8e5m2", "hif8", "f8e8m0")

# -- transposition -----------------------------------------------------------------------------------


def _transposed(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types[profile.name]):
        n = row_cols(dtype(name))
        src, dst = TileType(dtype(name), n, 2 * n), TileType(dtype(name), 2 * n, n)
        form = ("src", "tmp") if i % 2 else ("src",)
        yield sample(
            instruction, form, {n: t for n, t in (("src", src), ("tmp", dst)) if n in form} | {"dst": dst}
        )
    yield from layout_img2col.converted(instruction, profile)


_TURNED = (replace(UNARY[0], conv=True, extent=TRANSPOSED), replace(UNARY[1], conv=True))
TTRANS = tile_instruction(
    "ttrans",
    "Transpose a tile, or convert the layout of a convolution tile.",
    "dst(c, r) = src(r, c) for r, c in the valid region of src, through both physical layouts. Elements "
    "without a place in the physical dst are dropped; all others stay, whatever the valid region. "
    + layout_img2col.CONV_TRANSPOSITION,
    (*_TURNED, Operand("tmp", "tmp", dtype=None, optional=True, implied=declare.Implied(""))),
    table(_MOVED, _MOVED, (*_MOVED, *_BYTES)),
    cls="layout",
    domain="custom",
    placement=(in_vec(UNARY), row_major(UNARY)),
    extra=(mirrored, layout_img2col.conversion, memory_convolution.conv_tiles("src", (Loc.VEC,), SIMULATOR)),
    decisions=(
        Decision(
            "The page prints the instruction without tmp, the C++ interface has it; which is legal?",
            "Both. tmp is never read or written as far as values go.",
            f"pto_instr.hpp; {SIMULATOR_VALUES}",
        ),
        Decision(
            "What becomes of channels and images that fill up the last block?",
            "They keep their elements, as recorded.",
            SIMULATOR_VALUES,
        ),
        Decision(
            "Does hardware transpose the valid region or the whole tile?",
            "The valid region of src, whose extents the hardware headers pass.",
            f"{HEADERS}; {SIMULATOR_VALUES}",
        ),
    ),
    sampler=_transposed,
    moves="copy",
    sized_by=("src",),
    apart=(
        Apart(
            "dst",
            ("src",),
            f"{HEADERS}: elements are copied one after another; PTOAS memory planning (not in place)",
            PROFILE_NAMES,
        ),
    ),
)

# -- concatenation -----------------------------------------------------------------------------------

_INDEX_TYPES = INT32
_CONCAT = (
    replace(DST, extent=JOINED),
    Operand("dstIdx", "out", dtype=None, optional=True, beside="src0Idx", extent=like("src0Idx")),
    SRC0,
    SRC1,
    Operand("src0Idx", "in", dtype=None, optional=True, holds="positions", shown=(6,)),
    Operand("src1Idx", "in", dtype=None, optional=True, holds="positions", shown=(4,)),
)


_rows = require(
    "rows",
    "it.rows >= dst.valid_rows",
    it=("src0", "src1", "src0Idx", "src1Idx", "dstIdx"),
    statement="every tile has the valid rows of dst",
)


@forbid("counts-type", "one integer type for all counts", invalid_if=retype("src1Idx", "f32"))
def _counts_type(site: Site) -> Iterator[Finding]:
    first = element_type(site.types.get("src0Idx"))
    for name in ("src0Idx", "src1Idx", "dstIdx"):
        d = element_type(site.types.get(name))
        if d is not None and first is not None and (d.name not in _INDEX_TYPES or d != first):
            names = ", ".join(_INDEX_TYPES)
            yield name, f"{name} has element type {d}; allowed: one type for all counts, of {names}"


def _breaks_counts_given(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    types["dstIdx"] = TileType(dtype("i32"), 8, 8, v_col=1)
    return "src0Idx" not in types


_counts_given = require(
    "counts-given", "not dstIdx.given", when="not src0Idx.given", invalid_if=_breaks_counts_given
)


def _concatenated(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = dtype(name)
        tile, dst = TileType(d, 8, row_cols(d)), TileType(d, 8, row_cols(d, 2))
        types: Types = {"src0": tile, "src1": tile, "dst": dst}
        yield sample(instruction, ("src0", "src1"), types)
        index = dtype(_INDEX_TYPES[i % len(_INDEX_TYPES)])
        counts = TileType(index, 8, row_cols(index), v_col=1)
        types |= {"src0Idx": counts, "src1Idx": counts}
        if i % 2:
            types["dstIdx"] = counts
        yield sample(instruction, ("src0", "src1", "src0Idx", "src1Idx"), types)


TCONCAT = tile_instruction(
    "tconcat",
    "Concatenate the rows of two tiles, optionally with a number of columns per row.",
    "For each valid row r of dst: dst(r, c) = src0(r, c) for c < n0 and dst(r, n0 + c) = src1(r, c) for "
    "c < n1; other elements stay, and elements beyond the columns of dst are dropped. n0 and n1 are the "
    "valid columns of src0 and src1. With counts, n0 = src0Idx(r, 0) / s and n1 = src1Idx(r, 0) / s, s the "
    "bytes of an element of the counts; a negative count is 0, a count beyond the physical columns of its "
    "source is those columns. On a2a3 and a5 the counts are further cut so that n0 and n0 + n1 are at most "
    "the valid columns of dst. dstIdx(r, 0) = src0Idx(r, 0) + src1Idx(r, 0), wrapping, on cpu_sim and "
    "(n0 + n1) * s, wrapping, elsewhere; its other elements stay. With counts, sources are read as "
    "stored, their valid regions are not consulted.",
    _CONCAT,
    table(_MOVED, _MOVED, _MOVED),
    cls="layout",
    forms=(("src0", "src1"), ("src0", "src1", "src0Idx", "src1Idx")),
    domain="custom",
    placement=(in_vec(_CONCAT), row_major(_CONCAT)),
    extra=(
        _rows,
        _counts_type,
        _counts_given,
        equal_rows,
        columns_sum,
        columns_fit,
    ),
    decisions=(
        Decision(
            "May dst have more valid columns than the sources together?",
            "Yes on a2a3 and a5, where the columns behind them stay; not on cpu_sim, whose code asserts it.",
            f"pto-isa system tests of tconcat; {SIMULATOR_VALUES}",
        ),
        Decision(
            "Are counts measured in elements of the data or of the counts?",
            "The number stored is divided by the bytes of an element of the counts.",
            SIMULATOR_VALUES,
        ),
        Decision(
            "Simulator and hardware headers differ in cutting counts and in dstIdx; which holds?",
            "Each on its own profile.",
            f"{HEADERS}; {SIMULATOR_VALUES}",
        ),
        Decision(
            "What does a negative count, or one beyond the columns of its source, give?",
            "Nothing, and all physical columns; sources leave it undefined.",
            "no source defines it",
        ),
    ),
    sampler=_concatenated,
)

_CONCAT_BY = tuple(replace(o, optional=False) for o in _CONCAT if o.name != "dstIdx")
_CONCAT_TYPES = ("i8", "i16", "i32", "f16", "f32", "bf16")


def _concatenated_by(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d, index = dtype(name), dtype(("i8", "i16", "i32")[i % 3])
        counts = TileType(index, 8, row_cols(index), v_col=1)
        types: Types = dict.fromkeys(("src0", "src1"), TileType(d, 8, row_cols(d)))
        types |= {"src0Idx": counts, "src1Idx": counts, "dst": TileType(d, 8, row_cols(d, 2))}
        yield sample(instruction, ("src0", "src1", "src0Idx", "src1Idx"), types)


@forbid("counts", "counts of i8, i16 or i32, and equal valid rows", invalid_if=retype("src1Idx", "f32"))
def _counts(site: Site) -> Iterator[Finding]:
    rows = site.valid.get("dst", (None, None))[0]
    for name in ("src0", "src1", "src0Idx", "src1Idx"):
        region = site.valid.get(name, (None, None))
        if None not in (rows, region[0]) and region[0] != rows:
            yield name, f"{name} has {region[0]} valid rows, dst has {rows}; allowed: equal ones"
        if name.endswith("Idx"):
            t = site.tile(name)
            if region[1] == 0:
                yield name, f"{name} has no valid column; allowed: 1 or more"
            if t is not None and t.dtype.name not in ("i8", "i16", "i32"):
                yield name, f"{name} has element type {t.dtype}; allowed: i8, i16, i32"


TCONCATIDX = tile_instruction(
    "tconcatidx",
    "Concatenate the rows of two tiles, with a number of columns per row.",
    "For each valid row r of dst: the first n0 columns of src0, then the first n1 of src1; other elements "
    "stay. n0 is src0Idx(r, 0) / s, at most the valid columns of src0 and of dst; n1 is src1Idx(r, 0) / s, "
    "at most the valid columns of src1 and those that are left of dst; s are the bytes of an element of the "
    "counts, a negative count is 0.",
    _CONCAT_BY,
    table(*(tuple(_CONCAT_TYPES) for _ in range(3))),
    cls="layout",
    domain="custom",
    placement=(in_vec(_CONCAT_BY), row_major(_CONCAT_BY)),
    extra=(_counts,),
    decisions=(
        Decision(
            "The manual calls the counts columns, pto-isa divides them. Which are they?",
            "Divided by the bytes of an element of the counts, as in tconcat; the golden script of the "
            "public sample says so too (counts of 32 for 8 columns of f32).",
            f"{SIMULATOR_VALUES} of tconcat; PTOAS sample TConcatIdx",
        ),
    ),
    sampler=_concatenated_by,
    changes=(changes.new("tconcat with counts of columns"),),
)

# -- interleaving ------------------------------------------------------------------------------------

_DST0, _DST1 = Operand("dst0", "out", extent=UNWOVEN), Operand("dst1", "out", extent=UNWOVEN)
_FOUR = (_DST0, _DST1, SRC0, SRC1)
_A5_ONLY = table(_MOVED, (), _MOVED)
_TEXT_ORDER = Decision(
    "The C++ interface names the second tile of each pair first; what is the order here?",
    "dst0, dst1 and src0, src1, as the assembly syntax of the pages.",
    "instruction page (assembly syntax)",
)


def _woven(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types.get(profile.name, ())):
        d = dtype(name)
        tile, wide = TileType(d, 8, row_cols(d)), TileType(d, 8, row_cols(d, 2))
        types: Types = dict.fromkeys(("src0", "src1", "dst0", "dst1"), tile)
        yield sample(instruction, ("src0", "src1"), types)
        if instruction.name == "tdeinterleave" and i % 3 == 0:
            yield sample(instruction, ("src0",), {"src0": wide, "dst0": tile, "dst1": tile})


TINTERLEAVE = tile_instruction(
    "tinterleave",
    "Interleave the columns of two tiles into two tiles.",
    "With C the valid columns of dst0, the row r of src0 and src1 makes the sequence s[2k] = src0(r, k), "
    "s[2k + 1] = src1(r, k); dst0(r, j) = s[j] and dst1(r, j) = s[C + j] for j < C, over the valid rows of "
    "dst0. Where C is odd, which a5 allows, dst1 begins one element before, at a column of src0.",
    _FOUR,
    _A5_ONLY,
    cls="layout",
    domain="custom",
    placement=(in_vec(_FOUR), row_major(_FOUR)),
    extra=(
        equal_valid(("dst0", "dst1", "src0", "src1"), HEADERS),
        replace(even_columns, profiles=("cpu_sim",)),
    ),
    decisions=(
        _TEXT_ORDER,
        Decision(
            "The page's introduction deals even and odd elements to dst0 and dst1; its formula does not.",
            "The formula: dst0 is the first half of the sequence, dst1 the second.",
            SIMULATOR_VALUES,
        ),
        Decision(
            "Is an odd number of columns legal?",
            "Yes on a5; not on cpu_sim, whose code asserts it.",
            f"pto-isa system tests of tinterleave; {SIMULATOR_VALUES}",
        ),
    ),
    sampler=_woven,
)


_UNWOVEN = (_DST0, _DST1, SRC0, replace(SRC1, optional=True))
TDEINTERLEAVE = tile_instruction(
    "tdeinterleave",
    "Split the even and odd columns of one or two tiles.",
    "With C the valid columns of dst0, s is the first C columns of row r of src0 followed by those of src1, "
    "or the first 2C columns of a single source; dst0(r, k) = s[2k] and dst1(r, k) = s[2k + 1] for k < C, "
    "over the valid rows of dst0.",
    _UNWOVEN,
    _A5_ONLY,
    cls="layout",
    domain="custom",
    forms=(("src0", "src1"), ("src0",)),
    placement=(in_vec(_UNWOVEN), row_major(_UNWOVEN)),
    extra=(equal_valid(("dst0", "dst1", "src1"), HEADERS), halves, even_columns),
    decisions=(
        _TEXT_ORDER,
        Decision(
            "Is an odd number of result columns legal with a single source?",
            "No: the simulator refuses it; only the number of source columns is checked elsewhere.",
            HEADERS,
        ),
    ),
    sampler=_woven,
)

# -- narrowing ---------------------------------------------------------------------------------------

_WIDE, _HALF, _BYTE = ("i32", "u32", "f32"), ("i16", "u16", "f16", "bf16"), ("i8", "u8")
_PACKED: Rows = tuple((d, s) for s in (*_WIDE, *_HALF) for d in ((*_HALF, *_BYTE) if s in _WIDE else _BYTE))
_PACK = (DST, Operand("src", "in", dtype="S"))


def _packed_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for narrow, wide in instruction.types.get(profile.name, ())[::3]:
        cols = row_cols(dtype(narrow))
        yield sample(
            instruction,
            ("src",),
            {"src": TileType(dtype(wide), 8, cols), "dst": TileType(dtype(narrow), 8, cols)},
        )


TPACK = tile_instruction(
    "tpack",
    "Keep the low bytes of every element.",
    "dst(r, c) = the low bytes of src(r, c), as many as an element of dst has, over the valid region of "
    "dst. Bits are cut, no value is converted.",
    _PACK,
    pairs((), (), _PACKED),
    cls="layout",
    type_vars=("T", "S"),
    placement=(in_vec(_PACK), row_major(_PACK)),
    extra=(equal_valid(("dst", "src"), HEADERS),),
    decisions=(
        Decision(
            "The page leaves the arithmetic open and says both narrow and convert; which holds?",
            "The low bytes of the bits, as the A5 header stores them.",
            HEADERS,
        ),
    ),
    sampler=_packed_samples,
)

INSTRUCTIONS: tuple[Instruction, ...] = (TTRANS, TCONCAT, TCONCATIDX, TINTERLEAVE, TDEINTERLEAVE, TPACK)
