"""Layout and rearrangement: windows of tiles, taken out of or written into a larger tile."""

from collections.abc import Iterator
from dataclasses import replace

from ..ir import INDEX, BLayout, Loc, ReluPreMode, ScalarType, TileType, Type, dtype
from ..profiles import Profile
from .assembly import Assembly, segments
from .changes import form
from .common import SIMULATOR_VALUES, tile_instruction
from .declare import AttrMap, Constraint, Decision, Finding, Instruction, Operand, Role, Site
from .layout_img2col import CONV_WINDOW, weight_windows, weights
from .memory_convolution import conv_tiles
from .rules import fixpipe
from .rules.block_scales import MOVED_PLAIN, MOVED_QUANTISED, SIMULATED_SCALAR
from .rules.constraints import HARDWARE, SIMULATOR
from .rules.fixpipe import WORD, word_type
from .rules.forbid import Types, edit, forbid, retile
from .rules.handles import inserted, moved
from .rules.irregular import sample
from .rules.layout_moves import cube_layouts
from .rules.regions import OPEN
from .rules.require import require
from .rules.typesets import BYTE_FLOATS, FLOATS, INT32, PAIRS, STANDARD, Row, Rows, TypeTable, pairs
from .samples.operations import Sample

_A5 = (*FLOATS, *INT32, *BYTE_FLOATS, "f4e2m1x2", "f4e1m2x2", *PAIRS, "f8e8m0")


def _equal(names: tuple[str, ...]) -> Rows:
    return tuple((n, n) for n in names)


def _types() -> TypeTable:
    a5 = (*MOVED_PLAIN["a5"], *MOVED_QUANTISED["a5"])
    return pairs(
        (*_equal(STANDARD), *SIMULATED_SCALAR),
        (*_equal((*FLOATS, *INT32)), *MOVED_PLAIN["a2a3"], *MOVED_QUANTISED["a2a3"]),
        tuple(dict.fromkeys((*_equal(_A5), *a5))),
    )


_VEC, _MAT, _ACC, _LEFT, _RIGHT = Loc.VEC, Loc.MAT, Loc.ACC, Loc.LEFT, Loc.RIGHT
#: Places of source and destination that have a data path.
PATHS: dict[str, fixpipe.Paths] = {
    "textract": {
        "a2a3": ((_VEC, _VEC), (_MAT, _LEFT), (_MAT, _RIGHT), (_ACC, _MAT)),
        "a5": (
            (_VEC, _VEC),
            (_MAT, _LEFT),
            (_MAT, _RIGHT),
            (_ACC, _MAT),
            (_ACC, _VEC),
            (_VEC, _MAT),
            (_MAT, Loc.SCALELEFT),
            (_MAT, Loc.SCALERIGHT),
            (_MAT, Loc.SCALING),
        ),
    },
    "tinsert": {
        "a2a3": ((_VEC, _VEC), (_ACC, _MAT)),
        "a5": ((_VEC, _VEC), (_ACC, _MAT), (_ACC, _VEC), (_VEC, _MAT)),
    },
}


def _rows(site: Site) -> Rows:
    return site.instruction.types[site.profile.name]


_types_converted = require("types-converted", "src.dtype == dst.dtype", when="src.loc != acc")


_STARTS = ("indexRow", "indexCol")
#: The window, the tile it lies in and where it starts: of tinsert, and of textract.
_WINDOWS = (("src", "dst", _STARTS), ("dst", "src", _STARTS))


def _breaks_window(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    dst, src = types["dst"], types["src"]
    if not isinstance(dst, TileType) or not isinstance(src, TileType) or dst.rows == src.rows:
        return False
    name, large = ("dst", src) if dst.rows < src.rows else ("src", dst)
    return retile(name, rows=large.rows, v_row=large.rows)(types, attrs, profile)


@forbid("window", "the window lies in the larger tile", stage="run-time", invalid_if=_breaks_window)
def _window_inside(site: Site) -> Iterator[Finding]:
    small, large, starts = _WINDOWS[site.instruction.name.startswith("textract")]
    t, sizes = site.tile(large), site.region(small)
    if t is None or t.conv is not None:
        return
    for axis, name in enumerate(starts):
        start, n, limit = site.constant(name), sizes[axis], t.shape[axis]
        unit = ("rows", "columns")[axis]
        if start is not None and (start < 0 or start + (n or 0) > limit):
            got = f"the window takes {n} {unit} from {start} on, {large} has {limit}"
            yield large, f"{got}; allowed: a window within {large}"


def window_inside(extracts: bool) -> Constraint:
    """The window lies in the larger tile, as far as its place is known."""
    return replace(_window_inside, window=_WINDOWS[extracts])


def _breaks_aligned(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    def bytewise(t: TileType) -> TileType | None:
        return t.with_dtype(dtype("i8")) if t.loc == Loc.VEC and t.dtype.bits == 32 else None

    return all(edit(name, bytewise)(types, attrs, profile) for name in ("dst", "src"))


@forbid(
    "aligned",
    "windows between vec tiles start at a multiple of 32 bytes",
    HARDWARE,
    invalid_if=_breaks_aligned,
)
def _aligned(site: Site) -> Iterator[Finding]:
    dst, src, col = site.tile("dst"), site.tile("src"), site.constant("indexCol")
    if dst is None or src is None or col is None:
        return
    window = site.valid["dst" if site.instruction.name == "textract" else "src"]
    if (src.loc, dst.loc) != (Loc.VEC, Loc.VEC) or src.layout != "ND" or window == (1, 1):
        return
    if col * src.dtype.storage_bits % 256:
        yield (
            "indexCol",
            f"the window starts at column {col} of {src.dtype}, {col * src.dtype.storage_bits // 8} bytes; "
            f"allowed on {site.profile.name}: a multiple of 32 bytes, unless it is a single element",
        )


def _plain_types(name: str, row: Row) -> dict[str, Type]:
    """A 16x64 tile and a window of 8x32 elements."""
    small, large = ("dst", "src") if name == "textract" else ("src", "dst")
    d = dtype(row[0])
    return {small: TileType(d, 8, 32), large: TileType(d, 16, 64), **INDICES}


_INDEX = ScalarType(INDEX)
INDICES: dict[str, Type] = {"indexRow": _INDEX, "indexCol": _INDEX}
CORNER = {"indexRow": (16,), "indexCol": (32,)}


def _matrix_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """Matrix tiles: mat to left, and the conversions on the way out of an accumulator."""
    form: tuple[str, ...] = ("src", "indexRow", "indexCol")
    if instruction.name == "textract":
        left = fixpipe.boxed("f16", Loc.LEFT)
        if profile.name == "a2a3":
            left = replace(left, blayout=BLayout.ROW_MAJOR)
        types: dict[str, Type] = {"src": fixpipe.boxed("f16", rows=32, cols=64), "dst": left, **INDICES}
        yield sample(instruction, form, types, constants=CORNER)
    for index, pair in enumerate(MOVED_PLAIN.get(profile.name, MOVED_PLAIN["a5"])):
        relu = {"reluPreMode": ReluPreMode(1 - index % 2)}
        yield sample(instruction, form, windows(instruction.name, pair), relu, CORNER)
    form = ("src", "preQuantScalar", "indexRow", "indexCol")
    for index, pair in enumerate(MOVED_QUANTISED.get(profile.name, SIMULATED_SCALAR)):
        types = windows(instruction.name, pair) | {"preQuantScalar": ScalarType(dtype("u64"))}
        yield sample(instruction, form, types, {"reluPreMode": ReluPreMode(index % 2)}, CORNER)


def windows(name: str, pair: Row) -> dict[str, Type]:
    """An accumulator and a matrix tile of other elements, one of them a window of the other."""
    if name.startswith("textract"):
        return {"src": fixpipe.accumulator(pair[1], 32, 64), "dst": fixpipe.boxed(pair[0]), **INDICES}
    return {"src": fixpipe.accumulator(pair[1]), "dst": fixpipe.boxed(pair[0], rows=32, cols=64), **INDICES}


def _samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    form = ("src", "indexRow", "indexCol")
    for row in instruction.types[profile.name]:
        d = dtype(row[0])
        if row[0] != row[1]:
            continue
        start = 32 if d.storage_bits == 8 else 64 if d.packed else 256 // d.storage_bits
        constants = {"indexRow": (3,), "indexCol": (0 if d.packed else start,)}
        yield sample(instruction, form, _plain_types(instruction.name, row), constants=constants)
    if profile.name == "cpu_sim":
        relu = {"reluPreMode": ReluPreMode.NORMAL_RELU}
        constants = {"indexRow": (8,), "indexCol": (16,)}
        yield sample(instruction, form, _plain_types(instruction.name, ("f16", "f16")), relu, constants)
    yield from _matrix_samples(instruction, profile)
    if instruction.name == "textract":
        yield from weight_windows(instruction)


_MATRIX_DECISIONS = (
    Decision(
        "Where does the window have to lie: in the valid region or in the physical tile?",
        "In the physical tile; the simulator's assertion on valid extents is no rule.",
        f"instruction page; {SIMULATOR_VALUES}",
    ),
    Decision(
        "What does an index known only at run time do that leaves the tile?",
        "A window that starts outside the tile reads as all ones and writes nothing; of another one, the "
        "elements beyond the tile do.",
        "no source defines it",
    ),
    Decision(
        "What does the clamp at zero make of NaN and -0?",
        "+0: the clamp keeps what is greater than zero, before the conversion.",
        SIMULATOR_VALUES,
    ),
    Decision(
        "Which word quantises a window?",
        "The one word given; in the fp forms that of the element's column in the accumulator.",
        SIMULATOR_VALUES,
    ),
    Decision(
        "May a right tile be larger than its 64 KiB memory?",
        "Up to 128 KiB on a2a3, with a warning.",
        "pto-isa system tests of textract (105 and 128 KiB on a2a3); pto-isa headers (buffer limits)",
    ),
)


def _window(name: str, summary: str, semantics: str, role: Role) -> Instruction:
    operands = (
        Operand("dst", role, extent=OPEN if role == "out" else None, keeps=role == "inout"),
        Operand("src", "in", dtype="S", conv=name == "textract"),
        WORD,
        Operand("indexRow", "in", "index", dtype=None, shown=(1,)),
        Operand("indexCol", "in", "index", dtype=None),
    )
    instruction = tile_instruction(
        name,
        summary,
        semantics,
        operands,
        _types(),
        cls="layout",
        type_vars=("T", "S"),
        attributes=(fixpipe.RELU, fixpipe.ACC_TO_VEC, fixpipe.SATURATE),
        forms=(("src", "indexRow", "indexCol"), ("src", "preQuantScalar", "indexRow", "indexCol")),
        domain="custom",
        placement=(
            _types_converted,
            fixpipe.paths(PATHS[name]),
            fixpipe.accumulated_types(MOVED_PLAIN, MOVED_QUANTISED, known=_rows),
            fixpipe.accumulated_layouts({"a2a3": ("NZ",), "a5": ("NZ", "ND")}),
            fixpipe.accumulator_only,
            fixpipe.same_layouts,
            *((cube_layouts,) if name == "textract" else ()),
            fixpipe.dual_mode(("a5",)),
            word_type,
            *((weights, conv_tiles("src", (Loc.MAT,), SIMULATOR)) if name == "textract" else ()),
            window_inside(extracts=name == "textract"),
            _aligned,
        ),
        decisions=_MATRIX_DECISIONS,
        sampler=_samples,
        moves="copy",
        sized_by=("src",),
        assembly=Assembly(
            with_fp=f"{name}_fp", generic=segments("src indexRow indexCol dst fp preQuantScalar")
        ),
        changes=(form(f"{name}_fp", "clauses fp %fp : type and pre_quant %word : i64 behind the sources"),),
    )
    # A parameter word has a type of its own.
    constraints = tuple(c for c in instruction.constraints if c.rule != "scalar-type")
    return replace(instruction, constraints=constraints, pipe_rule=moved if role == "out" else inserted)


_CONVERSION = (
    "reluPreMode first makes +0 of everything that is not greater than zero; element types that differ "
    "then convert as in tmov. With preQuantScalar, elements are quantised by that word instead, as in "
    "tmov.fp; cpu_sim ignores the word for element types without a mode."
)
TEXTRACT = _window(
    "textract",
    "Copy a window of a tile.",
    "dst(r, c) = src(r + indexRow, c + indexCol) over the valid region of dst, through both physical "
    "layouts. An element outside the valid region of src reads as the profile's fill, one beyond the "
    "physical src as all ones, and so does all of a window that starts outside it. "
    f"{_CONVERSION} {CONV_WINDOW}",
    "out",
)
TINSERT = _window(
    "tinsert",
    "Write a tile into a window of a larger one.",
    "dst(r + indexRow, c + indexCol) = src(r, c) over the valid region of src, through both physical "
    "layouts; other elements of dst stay, whatever its valid region, and what lies beyond the physical dst "
    "is dropped, all of a window that starts outside it. "
    f"{_CONVERSION}",
    "inout",
)

INSTRUCTIONS: tuple[Instruction, ...] = (TEXTRACT, TINSERT)
