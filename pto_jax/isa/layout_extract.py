"""Layout and rearrangement: windows of tiles, taken out of or written into a larger tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..dtypes import INDEX, dtype
from ..profiles import Profile
from ..types import AccToVecMode, BLayout, Loc, ReluPreMode, ScalarType, SLayout, TileType, Type
from .common import SIMULATOR_VALUES, tile_instruction
from .constraints import HARDWARE
from .declare import Attribute, AttrMap, Decision, Finding, Instruction, Operand, Role, Site
from .irregular_rules import matches, sample
from .layout_windows import converted_accumulator, unboxed_vec
from .samples import Sample
from .typesets import BYTE_FLOATS, FLOATS, INT32, STANDARD, Row, Rows, TypeTable, pairs

_CONVERTED: Rows = (("f16", "f32"), ("bf16", "f32"))
_QUANTISED: Rows = (("i8", "f32"), ("u8", "f32"), *((d, "i32") for d in ("i8", "u8", "f16", "i16")))
_A5 = (*FLOATS, *INT32, *BYTE_FLOATS, "f4e2m1x2", "f4e1m2x2", "f8e8m0")


def _equal(names: tuple[str, ...]) -> Rows:
    return tuple((n, n) for n in names)


def _types() -> TypeTable:
    accumulated = (*_CONVERTED, *_QUANTISED)
    return pairs(
        (*_equal(STANDARD), *accumulated),
        (*_equal((*FLOATS, *INT32)), *accumulated),
        (*_equal(_A5), *accumulated),
    )


_VEC, _MAT, _ACC, _LEFT, _RIGHT = Loc.VEC, Loc.MAT, Loc.ACC, Loc.LEFT, Loc.RIGHT
#: Places of source and destination that have a data path.
_PATHS: dict[str, dict[str, tuple[tuple[Loc, Loc], ...]]] = {
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


def _check_path(site: Site) -> Iterator[Finding]:
    dst, src = site.tile("dst"), site.tile("src")
    paths = _PATHS[site.instruction.name].get(site.profile.name)
    if dst is None or src is None or paths is None or (src.loc, dst.loc) in paths:
        return
    known = ", ".join(f"{a.name.lower()} to {b.name.lower()}" for a, b in paths)
    found = f"src is a {src.loc.name.lower()} tile, dst a {dst.loc.name.lower()} tile"
    yield "src", f"{found}; allowed on {site.profile.name}: {known}"


def _breaks_path(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
    t = types["dst"]
    if not isinstance(t, TileType) or t.loc != Loc.VEC:
        return False
    types["dst"] = replace(t, loc=Loc.BIAS)
    return True


def _check_equal(site: Site) -> Iterator[Finding]:
    dst, src = site.tile("dst"), site.tile("src")
    if dst is not None and src is not None and src.loc != Loc.ACC and src.dtype != dst.dtype:
        yield (
            "src",
            f"src has element type {src.dtype}, dst has {dst.dtype}; allowed: one element type, unless "
            "src is an acc tile",
        )


def _breaks_equal(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
    dst, src = types["dst"], types["src"]
    if not isinstance(dst, TileType) or not isinstance(src, TileType):
        return False
    if src.loc == Loc.ACC or src.dtype.name != "f32":
        return False
    types["dst"] = dst.with_dtype(dtype("f16"))
    return True


def _check_window(site: Site) -> Iterator[Finding]:
    """The window lies in the larger tile."""
    small, large = ("dst", "src") if site.instruction.name == "textract" else ("src", "dst")
    t, sizes = site.tile(large), site.valid.get(small, (None, None))
    if t is None:
        return
    for axis, name in enumerate(("indexRow", "indexCol")):
        start, n, limit = site.constant(name), sizes[axis], t.shape[axis]
        unit = ("rows", "columns")[axis]
        if start is not None and (start < 0 or start + (n or 0) > limit):
            yield (
                large,
                f"the window takes {n} {unit} from {start} on, {large} has {limit}; allowed: a window "
                f"within {large}",
            )


def _breaks_window(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
    small = types["dst"], types["src"]
    if not all(isinstance(t, TileType) and t.loc == Loc.VEC for t in small):
        return False
    dst, src = small
    assert isinstance(dst, TileType) and isinstance(src, TileType)
    small_name, large = ("dst", src) if dst.rows < src.rows else ("src", dst)
    types[small_name] = replace(large)
    return True


def _check_aligned(site: Site) -> Iterator[Finding]:
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


def _breaks_aligned(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
    for name in ("dst", "src"):
        t = types[name]
        if not isinstance(t, TileType) or t.loc != Loc.VEC or t.dtype.bits != 32:
            return False
        types[name] = t.with_dtype(dtype("i8"))
    return True


def _plain_types(name: str, row: Row) -> dict[str, Type]:
    """A 16x64 tile and a window of 8x32 elements."""
    small, large = ("dst", "src") if name == "textract" else ("src", "dst")
    d = dtype(row[0])
    return {small: TileType(d, 8, 32), large: TileType(d, 16, 64), "indexRow": _INDEX, "indexCol": _INDEX}


_INDEX = ScalarType(INDEX)


def _matrix_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """Matrix tiles: mat to left, acc to mat with conversion and clamping."""
    form, index = ("src", "indexRow", "indexCol"), {"indexRow": (16,), "indexCol": (16,)}
    indices: dict[str, Type] = {"indexRow": _INDEX, "indexCol": _INDEX}
    nz = TileType(dtype("f16"), 16, 16, loc=Loc.MAT, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)
    acc = replace(nz, dtype=dtype("f32"), loc=Loc.ACC, fractal=1024)
    large = {"rows": 32, "cols": 32, "v_row": -1, "v_col": -1}
    extracts = instruction.name == "textract"
    if extracts:
        left = replace(nz, loc=Loc.LEFT)
        if profile.name == "a2a3":
            left = replace(left, blayout=BLayout.ROW_MAJOR)
        source = TileType(
            dtype("f16"), 32, 32, loc=Loc.MAT, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR
        )
        yield sample(instruction, form, {"src": source, "dst": left, **indices}, constants=index)
    types: dict[str, Type] = {"src": acc, "dst": nz}
    grown = "src" if extracts else "dst"
    t = types[grown]
    assert isinstance(t, TileType)
    types[grown] = replace(t, **large)  # type: ignore[arg-type]
    for relu in ReluPreMode.NO_RELU, ReluPreMode.NORMAL_RELU:
        yield sample(instruction, form, {**types, **indices}, {"reluPreMode": relu}, index)


def _samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    form = ("src", "indexRow", "indexCol")
    for row in instruction.types[profile.name]:
        d = dtype(row[0])
        if row[0] != row[1]:
            continue
        start = 32 if d.storage_bits == 8 else 64 if d.packed else 256 // d.storage_bits
        constants = {"indexRow": (3,), "indexCol": (0 if d.packed else start,)}
        yield sample(instruction, form, _plain_types(instruction.name, row), constants=constants)
    relu = {"reluPreMode": ReluPreMode.NORMAL_RELU}
    constants = {"indexRow": (8,), "indexCol": (16,)}
    yield sample(instruction, form, _plain_types(instruction.name, ("f16", "f16")), relu, constants)
    yield from _matrix_samples(instruction, profile)


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
        "+0: the clamp keeps what is greater than zero, after conversion.",
        SIMULATOR_VALUES,
    ),
    Decision(
        "Which forms are executed today?",
        "Those without quantisation; preQuantScalar is read and verified.",
        "scope of this version",
    ),
)


def _window(name: str, summary: str, semantics: str, role: Role) -> Instruction:
    operands = (
        Operand("dst", role),
        Operand("src", "in", dtype="S"),
        Operand("preQuantScalar", "in", "scalar", None, optional=True, note="accumulator source only"),
        Operand("indexRow", "in", "index", None),
        Operand("indexCol", "in", "index", None),
    )
    made = tile_instruction(
        name,
        summary,
        semantics,
        operands,
        _types(),
        cls="layout",
        type_vars=("T", "S"),
        attributes=(
            Attribute(
                "reluPreMode",
                ReluPreMode,
                ReluPreMode.NO_RELU,
                "clamp at zero",
                ("reluPreMode", "relu_pre_mode"),
            ),
            Attribute(
                "accToVecMode",
                AccToVecMode,
                None,
                "which vector core receives an accumulator; no effect on values",
                ("accToVecMode", "acc_to_vec_mode"),
            ),
        ),
        forms=(("src", "indexRow", "indexCol"), ("src", "preQuantScalar", "indexRow", "indexCol")),
        domain="custom",
        placement=(
            matches(
                "types-converted",
                "one element type unless src is an acc tile",
                _check_equal,
                _breaks_equal,
            ),
            matches("path", "places with a data path", _check_path, _breaks_path, HARDWARE),
            matches("window", "the window lies in the larger tile", _check_window, _breaks_window),
            matches(
                "aligned",
                "windows between vec tiles start at a multiple of 32 bytes",
                _check_aligned,
                _breaks_aligned,
                HARDWARE,
            ),
            converted_accumulator(),
            *((unboxed_vec(),) if name == "textract" else ()),
        ),
        decisions=_MATRIX_DECISIONS,
        sampler=_samples,
    )
    # A parameter word has a type of its own.
    return replace(made, constraints=tuple(c for c in made.constraints if c.rule != "scalar-type"))


TEXTRACT = _window(
    "textract",
    "Copy a window of a tile.",
    "dst(r, c) = src(r + indexRow, c + indexCol) over the valid region of dst, through both physical "
    "layouts. An element outside the valid region of src reads as the profile's fill, one beyond the "
    "physical src as all ones, and so does all of a window that starts outside it. Where the element "
    "types differ, values convert as in tmov (round to nearest even); reluPreMode then makes +0 of "
    "everything that is not greater than zero.",
    "out",
)
TINSERT = _window(
    "tinsert",
    "Write a tile into a window of a larger one.",
    "dst(r + indexRow, c + indexCol) = src(r, c) over the valid region of src, through both physical "
    "layouts; other elements of dst stay, whatever its valid region, and what lies beyond the physical dst "
    "is dropped, all of a window that starts outside it. Where the element types differ, values convert "
    "as in tmov (round to nearest even); "
    "reluPreMode then makes +0 of everything that is not greater than zero.",
    "inout",
)

INSTRUCTIONS: tuple[Instruction, ...] = (TEXTRACT, TINSERT)
