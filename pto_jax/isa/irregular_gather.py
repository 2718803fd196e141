"""Gathering and scattering inside on-chip tiles: by index, offset or pattern, or the indices of matches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .. import ir
from ..ir import U32, MaskPattern, ScatterAxis, TileType, Type, dtype
from ..profiles import PROFILE_NAMES, Profile, ProfileName
from . import assembly, changes, common, declare, elementwise_select
from .common import PAGES, SIMULATOR_VALUES, tile_instruction
from .declare import Attribute, Decision, Finding, Instruction, Operand, Site
from .rules import elementwise, irregular, regions, typesets
from .rules.constraints import HARDWARE, HEADERS, SIMULATOR, element_type, fixed_type, in_vec, same_as, size
from .rules.forbid import Types, assign, edit, forbid, one_block, present, retype, together
from .rules.irregular import MASK_PATTERN, period, picked, with_or_without_pattern
from .rules.require import require
from .samples.operations import Sample
from .semantics import Apart

# -- tgather -----------------------------------------------------------------------------------------

_BYTES_2_4 = ("i16", "u16", "i32", "u32", "f16", "bf16", "f32")
_COMPARED = {"a2a3": ("f32", "f16", "i32"), "a5": (*typesets.INT32, "f16", "f32")}
_INDEXED: dict[ProfileName, tuple[str, ...]] = {
    "cpu_sim": typesets.STANDARD,
    "a2a3": _BYTES_2_4,
    "a5": (*typesets.STANDARD, *typesets.BYTE_FLOATS),
}
_INDICES: dict[ProfileName, tuple[str, ...]] = {
    "cpu_sim": ("i32", "u32"),
    "a2a3": ("i32", "u32"),
    "a5": ("i32", "u32", "i16", "u16"),
}


#: What an index is, of gathers and scatters by index.
INDEXED = (
    common.formal(
        "What is an index of the index form?",
        "An offset of an element into the tile's storage.",
        common.SIMULATOR_VALUES,
        "a row, whose column is kept, as one of the pages has it",
        "asl/tile/model/execution/indexed-rearrangement.asl",
    ),
    common.formal(
        "An index is out of range, or two indices of a scatter are equal: what happens?",
        "Gathers give 0 and scatters write nothing for an index out of range; of equal ones the last wins.",
        common.SIMULATOR_VALUES,
        "illegal before any effect",
        "asl/tile/model/execution/indexed-rearrangement.asl",
    ),
)


def _gathered(s: declare.Sources) -> declare.Size | None:
    """The size of what indices or a pattern pick; matches have none that is known before."""
    if "indices" in s.types:
        return s.types["indices"].shape, s.sizes["indices"]
    pattern, src = s.attrs.get("maskPattern"), s.types["src"]
    if not isinstance(pattern, ir.MaskPattern):
        return None
    step, (rows, cols) = period(pattern)[0], s.sizes["src"]
    if s.attrs.get("axis") == ir.GatherAxis.GATHER_COL:
        count = picked(pattern, src.rows)
        return ((count, src.cols), (count, cols)) if src.v_row == src.rows else None
    # Rows are packed without gaps, so that those of dst are those of src only where they are whole.
    count = src.cols // step
    return ((src.rows, count), (rows, count)) if src.v_col == count * step else None


_GATHER_OPERANDS = (
    declare.Operand("dst", "out", extent=declare.Extent("the picked elements of src", _gathered)),
    declare.Operand(
        "cdst",
        "out",
        dtype=None,
        optional=True,
        note="matches per row; comparison form only",
        beside="kValue",
        extent=regions.OPEN,
    ),
    declare.Operand("src", "in"),
    declare.Operand(
        "indices",
        "in",
        "tile",
        dtype=None,
        optional=True,
        note="flat element index",
        holds="positions",
        within="src",
    ),
    declare.Operand(
        "kValue",
        "in",
        "scalar",
        optional=True,
        note="threshold; comparison form only",
        holds="positions",
    ),
    declare.Operand(
        "tmp",
        "tmp",
        dtype=None,
        optional=True,
        note="scratch of A2/A3; ignored elsewhere",
        used_on=("a2a3",),
    ),
)


def gather_form(site: declare.Site) -> str:
    """Which of the three gathers an operation is: ``index``, ``compare`` or ``mask``."""
    return "index" if "indices" in site.values else "compare" if "kValue" in site.values else "mask"


@forbid("types", "element types of the form on the profile", invalid_if=retype("src", "i4"))
def _gather_types(site: declare.Site) -> Iterator[declare.Finding]:
    src, dst = element_type(site.types.get("src")), element_type(site.types.get("dst"))
    if src is None or dst is None:
        return
    form, legal = gather_form(site), [r[0] for r in site.instruction.types[site.profile.name]]
    if form == "index":
        legal = [d for d in legal if d in _INDEXED[site.profile.name]]
    if form == "compare":
        legal = list(_COMPARED.get(site.profile.name, ()))
    if src.name not in legal:
        names = ", ".join(legal) or "nothing (the form does not exist there)"
        where = f"in the {form} form on {site.profile.name}"
        yield "src", f"src has element type {src}; allowed {where}: {names}"
    elif form == "compare":
        if dst.name not in ("i32", "u32"):
            yield "dst", f"dst has element type {dst}; allowed for indices that are written: i32, u32"
    elif form == "index" and dst != src:
        yield "dst", f"dst has element type {dst}, src has {src}; allowed: one element type for both"
    elif dst.bits != src.bits or (dst.is_float and dst.name not in legal):
        yield "dst", f"dst has element type {dst}, src has {src}; allowed: element types of one size"


@forbid("mask-given", "maskPattern with a single source only", invalid_if=with_or_without_pattern)
def _mask_given(site: declare.Site) -> Iterator[declare.Finding]:
    form, pattern = gather_form(site), site.attrs.get("maskPattern")
    if form == "mask" and pattern is None:
        yield "src", "a single source without maskPattern; allowed: maskPattern, or indices, or a threshold"
    if form != "mask" and pattern is not None:
        yield "src", f"maskPattern in the {form} form; allowed with a single source only"


def _breaks_counts(types: Types, attrs: declare.AttrMap, profile: Profile) -> bool:
    if types.pop("cdst", None) is None:
        types["cdst"] = ir.TileType(ir.I32, 1, 8)
    return True


@forbid("counts-given", "cdst in the comparison form only", invalid_if=_breaks_counts)
def _counts_given(site: declare.Site) -> Iterator[declare.Finding]:
    compare = gather_form(site) == "compare"
    if compare != ("cdst" in site.values):
        got = "dst and cdst" if "cdst" in site.values else "dst alone"
        allowed = "dst and cdst (matches per row)" if compare else "dst"
        yield None, f"destinations {got} in the {gather_form(site)} form; allowed: {allowed}"
    dst, cdst = element_type(site.types.get("dst")), element_type(site.types.get("cdst"))
    if compare and cdst is not None and dst is not None and cdst != dst:
        yield "cdst", f"cdst has element type {cdst}, dst has {dst}; allowed: one element type for both"


@forbid(
    "compare-mode",
    "the comparison form compares with EQ or GT, integers on a2a3 with EQ",
    HARDWARE,
    invalid_if=present("cdst", assign(cmpMode=ir.CmpMode.LE)),
)
def _compare_mode(site: declare.Site) -> Iterator[declare.Finding]:
    if gather_form(site) != "compare":
        return
    mode, src = site.attrs.get("cmpMode"), element_type(site.types.get("src"))
    if mode not in (ir.CmpMode.EQ, ir.CmpMode.GT):
        got = mode.name if isinstance(mode, ir.CmpMode) else mode
        yield None, f"cmpMode is {got}; allowed in the comparison form: EQ, GT"
    elif site.profile.name == "a2a3" and src is not None and src.is_integer and mode != ir.CmpMode.EQ:
        yield "src", f"{src} compared with GT; allowed on a2a3: EQ"


_threshold = require("scalar-type", "kValue.element == src.element", HARDWARE)


def _with_tmp(change: declare.Breaker) -> declare.Breaker:
    """An edit of the indices, of which tmp has the type."""

    def breaks(types: Types, attrs: declare.AttrMap, profile: Profile) -> bool:
        done = change(types, attrs, profile)
        if "tmp" in types and "indices" in types:
            types["tmp"] = types["indices"]
        return done

    return breaks


def _index_types(site: declare.Site) -> tuple[str, ...]:
    """The element types of indices on the profile; of 64-bit elements, the first two."""
    src = element_type(site.types.get("src"))
    return _INDICES[site.profile.name][: 2 if src is not None and src.bits == 64 else None]


_index_type = require(
    "indices-type",
    "indices.dtype in types",
    let={"types": _index_types},
    statement="integer indices of the profile",
    invalid_if=_with_tmp(retype("indices", "f32")),
)


def _breaks_dense(types: Types, attrs: declare.AttrMap, profile: Profile) -> bool:
    if "cdst" in types or attrs.get("axis") == ir.GatherAxis.GATHER_COL:
        return False
    return edit("dst", lambda t: t.with_valid(t.v_row, t.cols - 1))(types, attrs, profile)


def _packs(site: declare.Site) -> bool:
    """Whether results follow each other in the storage of dst."""
    form = gather_form(site)
    return form == "index" or (form == "mask" and site.attrs.get("axis") == ir.GatherAxis.GATHER_ROW)


# Packed results run on through dst's storage, so its rows must be valid to the end.
_dense = require(
    "dense",
    "dst.valid_cols == dst.cols",
    HARDWARE,
    when=_packs,
    statement="all columns of dst are valid where results are packed",
    invalid_if=_breaks_dense,
)


def _packed(site: declare.Site) -> int | None:
    pattern, (r, c) = site.attrs.get("maskPattern"), site.region("src")
    if not isinstance(pattern, ir.MaskPattern) or r is None or c is None:
        return None
    if site.attrs.get("axis") == ir.GatherAxis.GATHER_COL:
        return picked(pattern, r)
    return r * picked(pattern, c)


_packed_into_a_block = present("maskPattern", one_block("dst"))


@forbid("mask-room", "dst has room for the picked elements", invalid_if=_packed_into_a_block)
def _mask_room(site: declare.Site) -> Iterator[declare.Finding]:
    dst, count = site.tile("dst"), _packed(site)
    if gather_form(site) != "mask" or dst is None or count is None:
        return
    if site.attrs.get("axis") == ir.GatherAxis.GATHER_COL:
        cols = site.valid["src"][1] or 0
        if dst.rows < count or dst.cols < cols:
            yield "dst", f"dst is {dst.rows}x{dst.cols}; allowed: room for {count} picked rows of {cols}"
    elif dst.elements < count:
        yield "dst", f"dst has {dst.elements} elements; allowed: room for {count} picked ones"


def _by_index(site: declare.Site) -> bool:
    return gather_form(site) == "index"


_indices_with_tmp = require(
    "tmp-given",
    "tmp.given",
    ("a2a3",),
    when=_by_index,
    why="as large as the indices",
    source=changes.DIALECT,
    since="2026-08",
    on_lanes=False,
)


def _gather_scratch(site: declare.Site) -> int | None:
    src, tmp, dst = site.tile("src"), site.tile("tmp"), site.tile("dst")
    if src is None or tmp is None or dst is None:
        return None
    if _by_index(site):
        return None
    return src.elements * dst.dtype.bits // 8 + src.rows * src.dtype.bits // 8


def _gather_samples(instruction: declare.Instruction, profile: Profile) -> Iterator[Sample]:
    patterns = list(ir.MaskPattern)
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = ir.dtype(name)
        tile = ir.TileType(d, 8, max(irregular.row_cols(d), 8))
        if name in _INDEXED[profile.name]:
            index = ir.TileType(ir.U32 if i % 2 else ir.I32, *tile.shape)
            types: dict[str, ir.Type] = {"src": tile, "indices": index, "tmp": index, "dst": tile}
            yield irregular.sample(instruction, ("src", "indices", "tmp"), types)
        if d.name in _BYTES_2_4 or profile.name == "a5":
            pattern, wide = patterns[i % 7], replace(tile, cols=4 * tile.cols, v_col=4 * tile.cols)
            axis = ir.GatherAxis.GATHER_COL if i % 3 == 1 and d.bits < 64 else ir.GatherAxis.GATHER_ROW
            out = replace(wide, rows=picked(pattern, 8), v_row=picked(pattern, 8))
            if axis == ir.GatherAxis.GATHER_ROW:
                out = replace(wide, cols=wide.cols // period(pattern)[0], v_col=-1)
            yield irregular.sample(
                instruction, ("src",), {"src": wide, "dst": out}, {"maskPattern": pattern, "axis": axis}
            )
        if name in _COMPARED.get(profile.name, ()):
            yield _compare_sample(instruction, d, ir.CmpMode.EQ if d.is_integer else ir.CmpMode.GT)
    if profile.name == "a5":
        tile, index = ir.TileType(ir.dtype("f32"), 4, 16), ir.TileType(ir.I16, 4, 16)
        yield irregular.sample(instruction, ("src", "indices"), {"src": tile, "indices": index, "dst": tile})


def _compare_sample(instruction: declare.Instruction, d: ir.DType, mode: ir.CmpMode) -> Sample:
    types: dict[str, ir.Type] = {
        "src": ir.TileType(d, 4, 32),
        "kValue": ir.ScalarType(d),
        "tmp": ir.TileType(ir.U8, 32, 64),
        "dst": ir.TileType(ir.I32, 4, 32),
        "cdst": ir.TileType(ir.I32, 1, 8),
    }
    return irregular.sample(instruction, ("src", "kValue", "tmp"), types, {"cmpMode": mode, "offset": 7})


_GATHER_TYPES = typesets.table(typesets.STANDARD, _BYTES_2_4, (*typesets.STANDARD, *typesets.BYTE_FLOATS))
TGATHER = common.tile_instruction(
    "tgather",
    "Collect elements by index, by a repeating pattern, or the indices of matching elements.",
    "Index form: dst[i,j] = the element of src at row n / cols, column n mod cols (static columns of src) "
    "for n = indices[i,j]; 0 where n is negative or not below the physical size of src. The valid region "
    "of src is not consulted. Mask form, GATHER_ROW: the elements of the valid region of src whose column "
    "fits the pattern are packed in row-major order from the start of dst's storage on, across its rows. "
    "GATHER_COL: the rows of src that fit the pattern are copied to consecutive rows of dst, over the valid "
    "columns of src. Bits are copied; elements that do not fit dst are dropped, others stay. Comparison "
    "form: for each valid row r of src, the numbers offset + r * cols + c (static columns of src) of its "
    "valid columns c with src[r,c] <mode> kValue are packed from column 0 of row r of dst; the element r of "
    "cdst in storage order is how many they are. Comparisons with NaN are false.",
    _GATHER_OPERANDS,
    _GATHER_TYPES,
    cls="irregular",
    domain="custom",
    forms=(
        ("src", "indices"),
        ("src", "indices", "tmp"),
        ("src",),
        ("src", "kValue"),
        ("src", "kValue", "tmp"),
    ),
    attributes=(
        MASK_PATTERN,
        declare.Attribute(
            "axis",
            ir.GatherAxis,
            ir.GatherAxis.GATHER_ROW,
            "what the mask form packs",
            ("axis", "gatherType"),
        ),
        elementwise_select.CMP_MODE,
        declare.Attribute("offset", int, 0, "number of the first element; comparison form"),
    ),
    placement=(),
    assembly=assembly.Assembly(
        generic=assembly.segments("src dst cdst indices tmp k=kValue"), inline_comma=True
    ),
)
TGATHER = replace(
    TGATHER,
    sampler=_gather_samples,
    apart=(
        Apart(
            "dst",
            ("src",),
            f"{HEADERS}: indices may name any element; PTOAS memory planning (not in place)",
            HARDWARE,
            ("src", "indices"),
        ),
    ),
    constraints=(
        _gather_types,
        _threshold,
        in_vec(_GATHER_OPERANDS),
        irregular.plain(("dst", "src", "cdst", "indices"), HARDWARE),
        _index_type,
        _mask_given,
        _counts_given,
        _compare_mode,
        _dense,
        _mask_room,
        *(replace(c, breaks=_with_tmp(c.breaks)) for c in regions.covers(("indices",), "dst") if c.breaks),
        _indices_with_tmp,
        elementwise.same_region("indices", ("a2a3",), _by_index),
        same_as("indices", ("a2a3",), changes.DIALECT, since="2026-08"),
        elementwise.scratch_bytes(_gather_scratch, "comparison results", severity="warning"),
    ),
    decisions=(
        *INDEXED,
        declare.Decision(
            "Pages wrap or clamp an index out of range; what is the value?",
            "0, on every profile (hardware does not check).",
            common.SIMULATOR_VALUES,
        ),
        declare.Decision(
            "Does a source element outside the valid region of src read as the profile's fill?",
            "No: the index addresses the tile's storage, and the stored bits are taken on every profile.",
            f"{common.SIMULATOR_VALUES}; {HEADERS}",
        ),
        declare.Decision(
            "Does the pattern run on across rows?",
            "No: it restarts at column 0 of every row; results are packed across rows.",
            common.SIMULATOR_VALUES,
        ),
        declare.Decision(
            "GATHER_COL of the hardware headers expects a source 2 or 4 times as tall; which rows count?",
            "The rows that fit the pattern, as the simulator.",
            common.SIMULATOR_VALUES,
        ),
        declare.Decision(
            "The C++ comparison form has a tile of thresholds per row, the text a scalar.",
            "A scalar of the source's type, compared in that type.",
            "PTOAS dialect definition",
        ),
        declare.Decision(
            "A5 numbers rows in steps of 64 elements, A2/A3 in steps of the static columns.",
            "The static columns, on both; they agree where a row is a whole number of 64 elements.",
            HEADERS,
        ),
        *TGATHER.decisions,
    ),
)


# -- tgatherb ----------------------------------------------------------------------------------------

_BLOCK_OPERANDS = (
    Operand("dst", "inout", note="blocks that are not found keep their old elements", keeps=True),
    Operand("src", "in"),
    Operand(
        "offset",
        "in",
        dtype="u32",
        note="byte offset of each 32-byte block",
        holds="positions",
        within="src",
        shown=(32, 0),
    ),
)
_SIZES_1_2_4 = (*typesets.FLOATS, *typesets.INT32)


def _offsets(site: Site) -> irregular.Want:
    dst, (r, c) = site.tile("dst"), site.region("dst")
    if dst is None or c is None:
        return r, None
    blocks = c * dst.dtype.bits // 256 if site.profile.name == "cpu_sim" else -(-c * dst.dtype.bits // 256)
    return r, blocks


def _block_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for (name,) in instruction.types[profile.name]:
        d = dtype(name)
        tile = TileType(d, 4, irregular.row_cols(d, 3))
        types: dict[str, Type] = {"src": tile, "offset": TileType(U32, 4, 8), "dst": tile}
        yield irregular.sample(instruction, ("src", "offset"), types)


TGATHERB = tile_instruction(
    "tgatherb",
    "Gather blocks of 32 bytes by byte offset.",
    "For each valid row r of dst and each block b of 32 bytes that lies in its valid columns: the 32 bytes "
    "of src's storage from byte offset[r,b] on become the block; a block that would leave the physical "
    "bytes of src is skipped. Offsets need no alignment. a2a3 and a5: a last block that is partly valid "
    "is written in its valid columns.",
    _BLOCK_OPERANDS,
    typesets.table(_SIZES_1_2_4, _SIZES_1_2_4, _SIZES_1_2_4),
    cls="irregular",
    reads=(),
    placement=(in_vec(_BLOCK_OPERANDS), irregular.plain(("dst", "src", "offset"))),
    extra=(
        fixed_type("offset", ("u32", "i32"), PROFILE_NAMES, HEADERS),
        irregular.room("offset", _offsets, "an offset for every block of the valid region of dst"),
    ),
    decisions=(
        Decision(
            "The page reads one element per offset; what does an offset address?",
            "A block of 32 bytes.",
            f"{HEADERS}; {SIMULATOR_VALUES}",
        ),
        Decision(
            "The page clamps offsets out of range; what is the value?",
            "The block of dst stays as it is, on every profile.",
            SIMULATOR_VALUES,
        ),
    ),
    sampler=_block_samples,
)

# -- tscatter ----------------------------------------------------------------------------------------

_SCATTERED: dict[ProfileName, tuple[str, ...]] = {
    "cpu_sim": typesets.STANDARD,
    "a2a3": (*typesets.INT32, *typesets.FLOATS),
    "a5": typesets.STANDARD,
}
_SCATTER_OPERANDS = (
    Operand("dst", "inout", note="cpu_sim keeps elements that nothing is scattered to", keeps=True),
    Operand("src", "in"),
    Operand(
        "indexes",
        "in",
        dtype=None,
        optional=True,
        note="flat element offset into dst",
        holds="positions",
        within="dst",
    ),
)


@forbid(
    "indexes-type",
    "integer offsets; on hardware of 4 bytes for 4- and 8-byte data, else of 2",
    invalid_if=retype("indexes", "f32"),
)
def _offset_type(site: Site) -> Iterator[Finding]:
    d, src = element_type(site.types.get("indexes")), element_type(site.types.get("src"))
    if d is None or src is None:
        return
    if site.profile.name == "cpu_sim":
        if not d.is_integer:
            yield "indexes", f"indexes have element type {d}; allowed: an integer type"
        return
    expected = 32 if src.bits >= 32 else 16
    if not d.is_integer or d.bits != expected:
        yield "indexes", f"indexes have element type {d}; allowed for {src}: i{expected}, u{expected}"


@forbid("mask-given", "either indexes or maskPattern", invalid_if=irregular.with_or_without_pattern)
def _pattern_given(site: Site) -> Iterator[Finding]:
    pattern = site.attrs.get("maskPattern")
    if ("indexes" in site.values) == (pattern is not None):
        got = "neither indexes nor" if pattern is None else "both indexes and"
        yield None, f"{got} maskPattern; allowed: one of them"


@forbid(
    "mask-region",
    "the valid region of src are the places of dst that the pattern picks; on a2a3 and a5 it may be smaller",
    invalid_if=present("maskPattern", edit("src", lambda t: t.with_valid(t.rows, t.cols - 1))),
)
def _mask_region(site: Site) -> Iterator[Finding]:
    """The picked places of dst are as many as src has elements."""
    pattern = site.attrs.get("maskPattern")
    (rs, cs), (rd, cd) = site.region("src"), site.region("dst")
    if not isinstance(pattern, MaskPattern) or "indexes" in site.values:
        return
    over_rows = site.attrs.get("axis") == ScatterAxis.SCATTER_COL
    expected = (
        (None if rd is None else irregular.picked(pattern, rd), cd)
        if over_rows
        else (rd, None if cd is None else irregular.picked(pattern, cd))
    )
    fewer = site.profile.name in HARDWARE and pattern != MaskPattern.P1111
    pairs = [(h, w) for h, w in zip((rs, cs), expected, strict=True) if h is not None and w is not None]
    if any(h > w or (h < w and not fewer) for h, w in pairs):
        places = f"{size(expected[0])}x{size(expected[1])} places of dst that {pattern.name} picks"
        allowed = f"at most the {places}" if fewer else f"the {places}"
        yield "src", f"src has valid region {size(rs)}x{size(cs)}; allowed: {allowed}"


_eight_bytes = present("maskPattern", together(retype("src", "i64"), retype("dst", "i64")))


_mask_size = require(
    "mask-size", "src.bits in (16, 32)", SIMULATOR, when="not indexes.given", invalid_if=_eight_bytes
)


def _scatter_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    patterns = list(MaskPattern)
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = dtype(name)
        tile = TileType(d, 4, max(irregular.row_cols(d), 8))
        index = TileType(dtype(("u" if i % 2 else "i") + ("32" if d.bits >= 32 else "16")), *tile.shape)
        big = replace(tile, rows=8, v_row=8)
        yield irregular.sample(instruction, ("src", "indexes"), {"src": tile, "indexes": index, "dst": big})
        if d.bits not in (16, 32) and profile.name == "cpu_sim":
            continue
        pattern, factor = patterns[i % 7], irregular.period(patterns[i % 7])[0]
        axis = ScatterAxis.SCATTER_COL if i % 3 == 1 else ScatterAxis.SCATTER_ROW
        wide = TileType(d, tile.rows, tile.cols * factor)
        if axis == ScatterAxis.SCATTER_COL:
            wide = TileType(d, tile.rows * factor, tile.cols)
        attrs = {"maskPattern": pattern, "axis": axis}
        yield irregular.sample(instruction, ("src",), {"src": tile, "dst": wide}, attrs)


TSCATTER = tile_instruction(
    "tscatter",
    "Scatter elements to flat offsets, or spread them by a repeating pattern.",
    "a2a3 and a5 first zero every physical element of dst, but with P1111. Index form: for (i,j) over the "
    "valid region of indexes in row-major order, the element of dst's storage at offset indexes[i,j] becomes "
    "src[i,j]; the last writer wins, offsets that are negative or not below the physical size of dst are "
    "dropped. Mask form over the valid region of dst: SCATTER_ROW: the columns that fit the pattern take the "
    "elements of src in order, the others 0; cpu_sim takes them in row-major order through the whole "
    "physical src, a2a3 and a5 start at column 0 of src in every row. SCATTER_COL: the rows that fit the "
    "pattern take the rows of src in order, the others 0. On a2a3 and a5 places beyond the valid region of "
    "src are 0. P1111 copies src over the valid region of dst.",
    _SCATTER_OPERANDS,
    typesets.table(*(_SCATTERED[p] for p in PROFILE_NAMES)),
    cls="irregular",
    domain="custom",
    forms=(("src", "indexes"), ("src",)),
    attributes=(
        irregular.MASK_PATTERN,
        Attribute(
            "axis",
            ScatterAxis,
            ScatterAxis.SCATTER_ROW,
            "what the mask form spreads",
            ("axis", "scatterType"),
        ),
    ),
    placement=(in_vec(_SCATTER_OPERANDS), irregular.plain(("dst", "src", "indexes"), HARDWARE)),
    extra=(
        _offset_type,
        _pattern_given,
        _mask_size,
        _mask_region,
        *regions.covers(("src",), "indexes"),
    ),
    decisions=(
        Decision(
            "One page takes the index as a row of dst, the other as a flat offset; which is it?",
            "A flat offset into the storage of dst.",
            f"{HEADERS}; {SIMULATOR_VALUES}",
        ),
        Decision(
            "Hardware zeroes dst first, the simulator does not; which holds?",
            "Each on its own profile; P1111 is a move on a2a3 and a5, which zeroes nothing.",
            f"{HEADERS}; {SIMULATOR_VALUES}",
        ),
        *INDEXED,
        Decision(
            "Two indexes are equal: which element stays?",
            "The last one in row-major order, also on a5, which leaves it open.",
            SIMULATOR_VALUES,
        ),
        Decision(
            "The simulator reads padding when src has fewer valid than physical columns.",
            "Reproduced on cpu_sim; a2a3 and a5 read the valid columns.",
            f"{SIMULATOR_VALUES}; {PAGES}",
        ),
        Decision(
            "May src be smaller than the places that the pattern picks?",
            "On a2a3 and a5, where the other places become 0 as all of dst does first; not on cpu_sim.",
            f"pto-isa system tests of tscatter; {HEADERS}",
        ),
        Decision(
            "Does A2/A3 have the mask form?",
            "Yes: its header implements it, though a page states A5 only.",
            HEADERS,
        ),
    ),
    sampler=_scatter_samples,
    sized_by=("indexes", "src"),
    apart=(Apart("dst", ("src", "indexes"), f"{HEADERS}: dst is zeroed first; page tscatter", HARDWARE),),
)

INSTRUCTIONS: tuple[declare.Instruction, ...] = (TGATHER, TGATHERB, TSCATTER)
