"""Blocks gathered by byte offset, and scattering by offset or by a repeating pattern.

The other gathers are in :mod:`.irregular_gather`.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..ir import U32, MaskPattern, ScatterAxis, TileType, Type, dtype
from ..profiles import PROFILE_NAMES, Profile, ProfileName
from .common import PAGES, SIMULATOR_VALUES, tile_instruction
from .declare import Attribute, Decision, Finding, Instruction, Operand, Site
from .irregular_gather import INDEXED
from .rules import irregular, regions, typesets
from .rules.constraints import HARDWARE, HEADERS, SIMULATOR, element_type, fixed_type, in_vec, size
from .rules.forbid import edit, forbid, present, retype, together
from .rules.require import require
from .samples.operations import Sample
from .semantics import Apart

# -- tgatherb ----------------------------------------------------------------------------------------

_BLOCK_OPERANDS = (
    Operand("dst", "inout", note="blocks that are not found keep their old elements"),
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
    Operand("dst", "inout", note="cpu_sim keeps elements that nothing is scattered to"),
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
def _index_type(site: Site) -> Iterator[Finding]:
    d, src = element_type(site.types.get("indexes")), element_type(site.types.get("src"))
    if d is None or src is None:
        return
    if site.profile.name == "cpu_sim":
        if not d.is_integer:
            yield "indexes", f"indexes have element type {d}; allowed: an integer type"
        return
    wanted = 32 if src.bits >= 32 else 16
    if not d.is_integer or d.bits != wanted:
        yield "indexes", f"indexes have element type {d}; allowed for {src}: i{wanted}, u{wanted}"


@forbid("mask-given", "either indexes or maskPattern", invalid_if=irregular.with_or_without_pattern)
def _mask_given(site: Site) -> Iterator[Finding]:
    pattern = site.attrs.get("maskPattern")
    if ("indexes" in site.values) == (pattern is not None):
        found = "neither indexes nor" if pattern is None else "both indexes and"
        yield None, f"{found} maskPattern; allowed: one of them"


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
    wanted = (
        (None if rd is None else irregular.picked(pattern, rd), cd)
        if over_rows
        else (rd, None if cd is None else irregular.picked(pattern, cd))
    )
    fewer = site.profile.name in HARDWARE and pattern != MaskPattern.P1111
    pairs = [(h, w) for h, w in zip((rs, cs), wanted, strict=True) if h is not None and w is not None]
    if any(h > w or (h < w and not fewer) for h, w in pairs):
        places = f"{size(wanted[0])}x{size(wanted[1])} places of dst that {pattern.name} picks"
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
    "a2a3 and a5 first zero every physical element of dst. Index form: for (i,j) over the valid region of "
    "indexes in row-major order, the element of dst's storage at offset indexes[i,j] becomes src[i,j]; the "
    "last writer wins, offsets that are negative or not below the physical size of dst are dropped. Mask "
    "form over the valid region of dst: SCATTER_ROW: the columns that fit the pattern take the elements "
    "of src in order, the others 0; cpu_sim takes them in row-major order through the whole physical src, "
    "a2a3 and a5 start at column 0 of src in every row. SCATTER_COL: the rows that fit the pattern take the "
    "rows of src in order, the others 0. On a2a3 and a5 places beyond the valid region of src are 0. P1111 "
    "copies src over the valid region of dst.",
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
        _index_type,
        _mask_given,
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
            "Each on its own profile.",
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
            "Yes: its header implements it, though a page says A5 only.",
            HEADERS,
        ),
    ),
    sampler=_scatter_samples,
    sized_by=("indexes", "src"),
    apart=(Apart("dst", ("src", "indexes"), f"{HEADERS}: dst is zeroed first; page tscatter", HARDWARE),),
)

INSTRUCTIONS: tuple[Instruction, ...] = (TGATHERB, TSCATTER)
