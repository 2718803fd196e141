"""Rules of data that leaves an accumulator: stores, on-chip moves, atomics, parameter operands."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ...ir import (
    AccToVecMode,
    AtomicType,
    AttrValue,
    BLayout,
    Loc,
    MemRefType,
    PartitionViewType,
    ReluPreMode,
    ScalarType,
    SLayout,
    StPhase,
    TileType,
    dtype,
)
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..declare import Attribute, AttrMap, Constraint, Finding, Instruction, Operand, Site
from ..samples.operations import Sample
from . import typesets
from .block_scales import SIMULATED_SCALAR, STORED_PLAIN, STORED_QUANTISED
from .constraints import HARDWARE, HEADERS, element_type, size
from .forbid import Types, edit, forbid, retile, retype
from .require import require

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
    type=ScalarType(dtype("u64")),
)


word_type = require("word-type", "preQuantScalar.dtype in (i64, u64)", why="a 64-bit word")


_fp_place = require("fp-place", "fp.loc == scaling", HARDWARE, source=f"{HEADERS}; {VERIFIER}")


_fp_type = require(
    "fp-type",
    "fp.dtype in (i64, u64)",
    why="other words are not executed",
    severity="warning",
    source=f"{HEADERS}; PTOAS programs give other types",
    on_lanes=False,
)


def parameter_rules(used: Callable[[Site], int | None], what: str) -> tuple[Constraint, ...]:
    """The rules on a row of parameter words; ``used`` says how many of them the operation reads."""
    columns = require(
        "fp-columns",
        "fp.cols >= used",
        let={"used": used},
        why=what,
        statement=f"fp has a column for {what}",
        source=f"page of the instruction; {HEADERS}",
        invalid_if=retile("fp", rows=1, cols=4, v_row=1, v_col=4),
    )

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


Paths = Mapping[ProfileName, tuple[tuple[Loc, Loc], ...]]
PairTable = Mapping[ProfileName, typesets.Rows]
DUAL = (AccToVecMode.DUAL_MODE_SPLIT_M, AccToVecMode.DUAL_MODE_SPLIT_N)

RELU = Attribute(
    "reluPreMode",
    ReluPreMode,
    ReluPreMode.NO_RELU,
    "clamp at zero",
    ("reluPreMode", "relu_pre_mode"),
)
ACC_TO_VEC = Attribute(
    "accToVecMode",
    AccToVecMode,
    None,
    "which vector core receives an accumulator; no effect on values",
    ("accToVecMode", "acc_to_vec_mode"),
)
ST_PHASE = Attribute("stPhase", StPhase, StPhase.UNSPECIFIED, "no effect on values", ("stPhase", "st_phase"))
SATURATE = Attribute(
    "saturateInf",
    bool,
    False,
    "control bit 48 of the core: quantisation to floats, except i32 to f16, clamps infinities and makes 0 "
    "of NaN",
)


def nz(t: TileType) -> bool:
    """Whether a tile has the layout NZ."""
    return t.layout == "NZ"


def quantised(site: Site) -> bool:
    """Whether the operation has a parameter word, or a row of them."""
    return "preQuantScalar" in site.values or "fp" in site.values


def written(site: Site, name: str) -> TileType | None:
    """A tile operand whose type says how it is laid out; a memref does not."""
    value = site.values.get(name)
    return None if value is None or isinstance(value.type, MemRefType) else site.tile(name)


def _rows(table: PairTable, site: Site) -> typesets.Rows:
    """The pairs of the profile; a move from acc to vec on A2/A3 is judged by the table of A5."""
    dst = site.tile("dst")
    a5 = site.profile.name == "a2a3" and dst is not None and dst.loc == Loc.VEC
    return table["a5" if a5 else site.profile.name]


def ends(site: Site) -> tuple[TileType, TileType] | None:
    """Source and destination of a move between tiles, where both are known."""
    src, dst = site.tile("src"), site.tile("dst")
    return None if src is None or dst is None else (src, dst)


_SOURCE = f"{HEADERS}; {VERIFIER}"


def paths(table: Paths) -> Constraint:
    """Places of source and destination that have a data path."""
    pathless = {Loc.VEC: Loc.BIAS, Loc.MAT: Loc.ACC}

    def elsewhere(t: TileType) -> TileType | None:
        return replace(t, loc=pathless[t.loc]) if t.loc in pathless else None

    @forbid("path", "places with a data path", HARDWARE, source=_SOURCE, invalid_if=edit("dst", elsewhere))
    def rule(site: Site) -> Iterator[Finding]:
        pair, pairs = ends(site), table.get(site.profile.name)
        if pair is None or pairs is None or (pair[0].loc, pair[1].loc) in pairs:
            return
        names = ", ".join(f"{a.name.lower()} to {b.name.lower()}" for a, b in pairs)
        where = f"src is a {pair[0].loc.name.lower()} tile, dst a {pair[1].loc.name.lower()} tile"
        yield "src", f"{where}; allowed on {site.profile.name}: {names}"

    return rule


def accumulated_types(
    plain: PairTable, quantising: PairTable, known: Callable[[Site], typesets.Rows] | None = None
) -> Constraint:
    """Element types that an accumulator converts to, with and without parameters.

    Pairs outside ``known`` are the business of the rule on the type table.
    """

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        src = types["src"]
        if not isinstance(src, TileType) or src.loc != Loc.ACC:
            return False
        word = "preQuantScalar" in types or "fp" in types
        legal = (quantising if word else plain)[profile.name]
        for other in (*plain[profile.name], *quantising[profile.name], ("u32", "f32"), ("u32", "i32")):
            if other not in legal and other[1] == src.dtype.name:
                return retype("dst", other[0])(types, attrs, profile)
        return False

    @forbid(
        "acc-types",
        "element types that the accumulator's data path converts between",
        HARDWARE,
        source=_SOURCE,
        invalid_if=breaks,
    )
    def rule(site: Site) -> Iterator[Finding]:
        src, d = site.tile("src"), element_type(site.types.get("dst"))
        if src is None or d is None or src.loc != Loc.ACC:
            return
        pair = (d.name, src.dtype.name)
        if known is not None and pair not in known(site):
            return
        legal = _rows(quantising if quantised(site) else plain, site)
        if pair not in legal and not _unsigned_twin(pair, legal):
            how = "with" if quantised(site) else "without"
            names = ", ".join(f"{s} to {t}" for t, s in legal)
            where = f"{how} quantisation on {site.profile.name}"
            yield "dst", f"an acc tile of {src.dtype} becomes {d}; allowed {where}: {names}"

    return rule


def _unsigned_twin(pair: tuple[str, str], legal: typesets.Rows) -> bool:
    """A signless integer of the text stands for an unsigned one."""
    return pair[0].startswith("i") and ("u" + pair[0][1:], pair[1]) in legal


def accumulated_layouts(targets: Mapping[ProfileName, tuple[str, ...]]) -> Constraint:
    """Accumulators are NZ; destinations have one of some layouts."""

    @forbid(
        "acc-layout",
        "an acc tile is NZ; from acc, dst is NZ of 512 bytes on a2a3, and on a5 also ND or DN where the "
        "instruction stores rows or columns",
        HARDWARE,
        source=_SOURCE,
        invalid_if=edit("src", lambda t: replace(t, blayout=BLayout.ROW_MAJOR) if t.loc == Loc.ACC else None),
    )
    def rule(site: Site) -> Iterator[Finding]:
        src, dst = written(site, "src"), written(site, "dst")
        if src is None or src.loc != Loc.ACC:
            return
        if not nz(src):
            yield "src", f"src has layout {src.layout}; allowed in acc: col_major with row_major boxes (NZ)"
        to_vec = dst is not None and dst.loc == Loc.VEC
        legal = targets["a5" if to_vec else site.profile.name]
        if dst is not None and dst.layout not in legal:
            where = f"from acc on {site.profile.name}"
            yield "dst", f"dst has layout {dst.layout}; allowed {where}: {' or '.join(legal)}"
        elif dst is not None and site.profile.name == "a2a3" and not to_vec and dst.fractal != 512:
            yield "dst", f"dst has fractal {dst.fractal}; allowed from acc on a2a3: 512"

    return rule


def _from_accumulator_to_vec(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    src, dst = types["src"], types["dst"]
    if not isinstance(src, TileType) or not isinstance(dst, TileType) or src.loc != Loc.ACC:
        return False
    types["dst"] = replace(dst, loc=Loc.VEC)
    return True


@forbid(
    "acc-to-vec",
    "moves from acc to mat; acc to vec is an assembler's extension on a2a3",
    ("a2a3",),
    severity="warning",
    source=_SOURCE,
    invalid_if=_from_accumulator_to_vec,
    on_lanes=False,
)
def unlisted_path(site: Site) -> Iterator[Finding]:
    """A2/A3 has no header for a move from acc to vec; assemblers accept it."""
    both = ends(site)
    if both is not None and (both[0].loc, both[1].loc) == (Loc.ACC, Loc.VEC):
        yield "src", "src is an acc tile, dst a vec tile; allowed, but the A2/A3 headers have no such move"


def _clamped(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    t = types["src"]
    attrs["reluPreMode"] = ReluPreMode.NORMAL_RELU
    return isinstance(t, TileType) and t.loc != Loc.ACC


@forbid(
    "acc-only",
    "quantisation and ReLU with acc tiles only, accToVecMode from acc to vec only",
    HARDWARE,
    source=_SOURCE,
    invalid_if=_clamped,
)
def accumulator_only(site: Site) -> Iterator[Finding]:
    """Quantisation, ReLU and vector-core routing exist for accumulator tiles."""
    t, dst = site.tile("src"), site.tile("dst")
    if t is None:
        return
    place = t.loc.name.lower()
    if t.loc != Loc.ACC:
        for name in ("preQuantScalar", "fp"):
            if name in site.values:
                yield name, f"a {place} tile with {name}; allowed: an acc tile"
        if site.attrs.get("reluPreMode") == ReluPreMode.NORMAL_RELU:
            yield "src", f"a {place} tile with reluPreMode normal_relu; allowed: an acc tile"
    routed = site.attrs.get("accToVecMode") is not None
    if routed and dst is not None and (t.loc, dst.loc) != (Loc.ACC, Loc.VEC):
        got = f"{place} to {dst.loc.name.lower()}"
        yield "src", f"accToVecMode is given for a move {got}; allowed: acc to vec"


def _quantised_to_both(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["accToVecMode"] = AccToVecMode.DUAL_MODE_SPLIT_M
    words = {"fp", "preQuantScalar"} & set(types)
    return bool(words) and _from_accumulator_to_vec(types, attrs, profile)


def dual_mode(profiles: tuple[ProfileName, ...] = HARDWARE) -> Constraint:
    """Splitting an accumulator over two vector cores neither quantises nor transposes."""

    @forbid(
        "dual-mode",
        "dual modes without quantisation, into ND or NZ, split_n of 4-byte elements in multiples of 32 "
        "columns",
        profiles,
        source=_SOURCE,
        invalid_if=_quantised_to_both,
    )
    def rule(site: Site) -> Iterator[Finding]:
        mode, dst = site.attrs.get("accToVecMode"), site.tile("dst")
        if mode not in DUAL or dst is None:
            return
        got = f"accToVecMode {str(getattr(mode, 'name', mode)).lower()}"
        if quantised(site):
            yield None, f"{got} with quantisation; allowed: single_mode_vec0 or single_mode_vec1"
        shown = written(site, "dst")
        if shown is not None and shown.layout == "DN":
            yield "dst", f"{got} into layout DN; allowed: ND or NZ"
        cols = site.region("src")[1]
        split_n = mode == AccToVecMode.DUAL_MODE_SPLIT_N
        if split_n and dst.dtype.bits == 32 and cols is not None and cols % 32:
            what = f"src has {cols} valid columns with {got}"
            yield "src", f"{what}; allowed with elements of 4 bytes: a multiple of 32"

    return rule


def _as_nz(t: TileType) -> TileType | None:
    """A vec tile in NZ order."""
    unboxed = t.loc == Loc.VEC and not t.boxed
    return replace(t, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR) if unboxed else None


@forbid(
    "window-layout",
    "windows between vec tiles: both ND or both NZ",
    HARDWARE,
    invalid_if=edit("src", _as_nz),
)
def same_layouts(site: Site) -> Iterator[Finding]:
    """Windows between vec tiles keep the layout."""
    src, dst = written(site, "src"), written(site, "dst")
    if src is None or dst is None or (src.loc, dst.loc) != (Loc.VEC, Loc.VEC):
        return
    if src.layout != dst.layout or src.layout not in ("ND", "NZ"):
        got = f"src has layout {src.layout}, dst has {dst.layout}"
        yield "src", f"{got}; allowed between vec tiles on {site.profile.name}: both ND or both NZ"


def accumulator(d: str, rows: int = 16, cols: int = 32) -> TileType:
    """An accumulator tile, for samples."""
    return TileType(
        dtype(d), rows, cols, loc=Loc.ACC, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR, fractal=1024
    )


def boxed(d: str, loc: Loc = Loc.MAT, rows: int = 16, cols: int = 32) -> TileType:
    """An NZ tile, for samples."""
    return TileType(dtype(d), rows, cols, loc=loc, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)


def parameters(cols: int = 32) -> TileType:
    """A row of parameter words, for samples."""
    return TileType(dtype("u64"), 1, cols, loc=Loc.SCALING)


#: Most columns that the accumulator's store path transfers.
MOST_COLUMNS = 4095
_HARDWARE_ADDS = ("f16", "f32", "i16", "i32", "i8", "bf16")
ADDS: Mapping[ProfileName, tuple[str, ...]] = {
    "cpu_sim": typesets.STANDARD,
    "a2a3": _HARDWARE_ADDS,
    "a5": _HARDWARE_ADDS,
}
ATOMIC = Attribute(
    "atomicType", AtomicType, AtomicType.ATOMIC_NONE, "overwrite or add", ("atomicType", "atomic_type")
)


def _added(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    d = element_type(types["dst"])
    attrs["atomicType"] = AtomicType.ATOMIC_ADD
    return d is not None and d.name not in ADDS[profile.name]


def atomic_types(profiles: tuple[ProfileName, ...] = PROFILE_NAMES) -> Constraint:
    """Element types of the window that an atomic store can add to."""
    return require(
        "atomic-type",
        "dst.dtype in added",
        profiles,
        when="atomicType == ATOMIC_ADD",
        let={"added": lambda site: ADDS[site.profile.name]},
        why="the types of atomic_add",
        statement=f"atomic_add on {', '.join(_HARDWARE_ADDS)}; on cpu_sim every integer, f32, f16, bf16",
        invalid_if=_added,
    )


def _wide(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    t, view = types["src"], types["dst"]
    if not isinstance(t, TileType) or t.loc != Loc.ACC or not isinstance(view, PartitionViewType):
        return False
    types["src"] = replace(t, rows=1, cols=MOST_COLUMNS + 1, v_row=1, v_col=16)
    types["dst"] = replace(view, dims=(1, 16))
    return True


accumulator_extent = require(
    "acc-columns",
    f"src.cols <= {MOST_COLUMNS}",
    HARDWARE,
    when="src.loc == acc",
    source=f"{HEADERS}; {VERIFIER}",
    invalid_if=_wide,
)


def used_words(site: Site) -> int | None:
    """How many parameter words a store reads: one per column, on cpu_sim one per row of a col_major tile."""
    t, (rows, cols) = site.tile("src"), site.region("src")
    return rows if t is not None and indexed_by_row(t, site.profile.name) else cols


def indexed_by_row(t: TileType, profile: str) -> bool:
    """Whether a store takes the parameter word of the element's row."""
    return profile == "cpu_sim" and t.blayout.name == "COL_MAJOR"


def stores(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """Conversions of accumulators and their modes."""
    add = {"atomicType": AtomicType.ATOMIC_ADD}
    for index, pair in enumerate(STORED_PLAIN.get(profile.name, STORED_PLAIN["a5"])):
        yield Sample(instruction, _stored(pair), ("src",), _relu(index))
    yield Sample(instruction, _stored(("f16", "f32")), ("src",), {**_relu(1), **add})
    yield Sample(
        instruction, {"dst": PartitionViewType((8, 16), dtype("i16")), "src": TileType(dtype("i16"), 8, 16)},
        ("src",), add,
    )  # fmt: skip
    word = {"preQuantScalar": ScalarType(dtype("u64"))}
    for index, pair in enumerate(STORED_QUANTISED.get(profile.name, SIMULATED_SCALAR)):
        yield Sample(instruction, _stored(pair) | word, ("src", "preQuantScalar"), _relu(index))


def stores_by_column(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """A store with a row of words for each pair of element types."""
    for index, (d, s) in enumerate(instruction.types[profile.name]):
        types = _stored((d, s)) | {"fp": parameters()}
        yield Sample(instruction, types, ("src", "fp"), _relu(index))


def _relu(index: int) -> dict[str, AttrValue]:
    """Every second sample clamps."""
    return {"reluPreMode": ReluPreMode(index % 2)}


def _stored(pair: tuple[str, ...]) -> Types:
    return {"dst": PartitionViewType((16, 32), dtype(pair[0])), "src": accumulator(pair[1])}
