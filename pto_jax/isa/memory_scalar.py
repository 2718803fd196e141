"""Single elements of tiles and of global memory as scalars."""

from functools import partial

from ..ir import F32, INDEX, U8, Loc, PtrType, ScalarType, TileType, Type, dtype
from ..profiles import PROFILE_NAMES
from .declare import Constraint, Decision, Instruction, Operand
from .rules.constraints import one_element, place
from .rules.forbid import retile, retype, together
from .rules.handles import Shown, custom, whole_numbers
from .rules.require import require
from .traits import Effect, Traits

_DIALECT = "PTOAS dialect definition and verifier"
_SOURCES = ("PTO ISA page of the instruction", _DIALECT)
_INDEX = ScalarType(INDEX)
_TILE = TileType(F32, 4, 64)
_BYTES = TileType(U8, 4, 64, 3, 60)
_OFFSET = Operand("offset", "in", "scalar", note="element number, an index", holds="positions")

_STORAGE = Decision(
    "Which element does an offset name?",
    "The one at that position of the tile's storage, in the order of its layout and whatever its valid "
    "region.",
    _SOURCES[0],
)
_OUTSIDE = Decision(
    "What does an offset outside the memory do?",
    "A constant one is an error of verify, eager execution raises an error; a compiled kernel reads zero "
    "and writes nothing, and checks report it.",
    "pages leave it open; the PTOAS verifier does not look at offsets",
)
#: A name that those who build operations use.
TGETVAL, TSETVAL = "tgetval", "tsetval"
LOAD, STORE = "load_scalar", "store_scalar"


_OFFSET_TYPE = whole_numbers("offset")


def _whole_words(memory: str, value: str) -> Constraint:
    return require(
        "element-size",
        f"{memory}.bits >= 8",
        source="a scalar of the text has a type of 8 bits and more",
        invalid_if=together(retype(memory, "i4"), retype(value, "i4")),
    )


def _in_tile(tile: str) -> Constraint:
    return require(
        "offset-range",
        f"0 <= offset.value <= {tile}.elements - 1",
        statement="an element of the tile",
        source=_SOURCES[0],
        invalid_if=retile(tile, rows=1, v_row=1),
    )


_access = partial(custom, sources=_SOURCES)


def _shown_tile(name: str, value: str, form: tuple[str, ...], tile: TileType, offset: int) -> Shown:
    types: dict[str, Type] = {name: tile, "offset": _INDEX, value: ScalarType(tile.dtype)}
    return Shown(types, form, {}, {"offset": (offset,)})


def _shown_memory(form: tuple[str, ...], d: str) -> Shown:
    types: dict[str, Type] = {"ptr": PtrType(dtype(d)), "offset": _INDEX}
    types["value" if "value" in form else "result"] = ScalarType(dtype(d))
    return Shown(types, form, {}, {"offset": (5,)})


_PTR = Operand("ptr", "in", "ptr")
_TILES = tuple(zip((_TILE, _BYTES), (70, 255), strict=True))

INSTRUCTIONS: tuple[Instruction, ...] = (
    _access(
        TGETVAL,
        "Read one element of a tile as a scalar.",
        "result = element number offset of the tile's storage, as a bit copy.",
        (Operand("src", "in"), _OFFSET, Operand("result", "out", "scalar", type="src")),
        tuple(_shown_tile("src", "result", ("src", "offset"), t, o) for t, o in _TILES),
        constraints=(
            place((Operand("src", "in"),), (Loc.VEC,), PROFILE_NAMES),
            one_element("src", "result", _DIALECT),
            _whole_words("src", "result"),
            _OFFSET_TYPE,
            _in_tile("src"),
        ),
        decisions=(_STORAGE, _OUTSIDE),
        traits=Traits((Effect("read", "tile", "src", indexed=True),)),
    ),
    _access(
        TSETVAL,
        "Write a scalar to one element of a tile.",
        "Element number offset of the tile's storage = val, as a bit copy; every other element stays.",
        (Operand("dst", "inout", keeps=True), _OFFSET, Operand("val", "in", "scalar", type="dst")),
        tuple(_shown_tile("dst", "val", ("offset", "val"), t, o) for t, o in _TILES),
        constraints=(
            place((Operand("dst", "inout"),), (Loc.VEC,), PROFILE_NAMES),
            one_element("dst", "val", _DIALECT),
            _whole_words("dst", "val"),
            _OFFSET_TYPE,
            _in_tile("dst"),
        ),
        decisions=(_STORAGE, _OUTSIDE),
        traits=Traits(
            (Effect("read", "tile", "dst", indexed=True), Effect("write", "tile", "dst", indexed=True))
        ),
        syntax="tile",
    ),
    _access(
        LOAD,
        "Read one element of global memory.",
        "result = ptr[offset], as a bit copy; offset counts elements.",
        (_PTR, _OFFSET, Operand("result", "out", "scalar", type="ptr")),
        tuple(_shown_memory(("ptr", "offset"), d) for d in ("f32", "i32")),
        constraints=(one_element("ptr", "result", _DIALECT), _whole_words("ptr", "result"), _OFFSET_TYPE),
        decisions=(_OUTSIDE,),
        traits=Traits((Effect("read", "global", "ptr", indexed=True),)),
    ),
    _access(
        STORE,
        "Write one element of global memory.",
        "ptr[offset] = value, as a bit copy; offset counts elements.",
        (Operand("value", "in", "scalar", type="ptr"), _PTR, _OFFSET),
        tuple(_shown_memory(("value", "ptr", "offset"), d) for d in ("f32", "i32")),
        constraints=(one_element("ptr", "value", _DIALECT), _whole_words("ptr", "value"), _OFFSET_TYPE),
        decisions=(_OUTSIDE,),
        traits=Traits((Effect("write", "global", "ptr", indexed=True),)),
    ),
)
