"""Reading the parameters of a tile type: long, short, positional and memref-like spellings."""

from dataclasses import dataclass, field
from typing import Any

from ..ir import AddressSpace, BLayout, Compact, DType, Loc, Pad, SLayout, TileType, find_dtype, unpaired
from .attributes import enumeration, member, words
from .names import suggestion
from .shapes import Dims, ShapeReader
from .tokens import Kind

TILE_NAMES = ("tile_buf", "tile")
KEYS = (
    "loc", "dtype", "rows", "cols", "v_row", "v_col", "valid",
    "blayout", "slayout", "fractal", "pad", "compact",
)  # fmt: skip
_ENUMERATIONS = {"loc": Loc, "blayout": BLayout, "slayout": SLayout, "pad": Pad, "compact": Compact}
#: Parameters without a key, in the order of the C++ template.
_POSITIONS = ("dtype", "rows", "cols", "blayout", "slayout", "fractal", "pad")
MAX_SIZE = (1 << 31) - 1
#: What error messages show for the spellings of a tile type, and of valid sizes.
SPELLINGS = "!pto.tile<f32, 16, 64> or !pto.tile_buf<vec, 16x64xf32>"
_VALID_BY_KEY = "valid sizes have a key: valid=13x37, valid=?x?, or v_row=?, v_col=37"


@dataclass
class _Fields:
    """Parameters found so far, and where each stands."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)


def read_tile_body(reader: ShapeReader, name: str, start: int, last: str = "") -> TileType:
    """The parameters between the angle brackets, as a type; up to the key ``last``, where one is given."""
    c = reader.cursor
    fields = _Fields()
    while True:
        _read_parameter(reader, fields)
        if not c.accept(Kind.COMMA) or (last and c.at_word(last)):
            break
    missing = [k for k in ("dtype", "rows", "cols") if k not in fields.values]
    if missing and (last or c.kind is Kind.GREATER):
        absent = f"found a !pto.{name} without {', '.join(missing)}"
        c.fail(f"{absent}; allowed: {SPELLINGS}", start=start, end=c.end)
    if missing:
        c.unexpected("',' and further parameters of the tile type, or '>'")
    if reader.dialects_own and fields.values.get("loc", Loc.VEC) != Loc.VEC:
        # Operands of products count numbers.
        fields.values["dtype"] = unpaired(fields.values["dtype"])
    return TileType(**fields.values)


def _read_parameter(reader: ShapeReader, fields: _Fields) -> None:
    c = reader.cursor
    start = c.start
    if c.kind is Kind.BARE_IDENT and c.peek()[0] is Kind.EQUAL:
        _read_keyed(reader, fields)
    elif c.kind is Kind.HASH_IDENT:
        space = enumeration(c, AddressSpace, "address_space")
        if space.name not in Loc.__members__:
            c.fail_since(
                start, f"found a tile in the address space {space.name.lower()}, which holds no tiles"
            )
        _store(reader, fields, "loc", Loc[space.name], start)
    elif c.at_word("strided"):
        reader.strided()
    elif c.kind is Kind.BARE_IDENT and "loc" not in fields.values and member(Loc, c.text) is not None:
        _store(reader, fields, "loc", member(Loc, c.take()), start)
    elif c.kind in (Kind.QUESTION, Kind.INTEGER_LIT) and c.peek()[0] is Kind.BARE_IDENT:
        if "rows" in fields.values:
            c.unexpected(f"a parameter of the tile type, as in key=value; {_VALID_BY_KEY}")
        _read_dims(reader, fields)
    else:
        _read_positional(reader, fields)


def _read_dims(reader: ShapeReader, fields: _Fields) -> None:
    c = reader.cursor
    start = c.start
    dims, element = reader.shaped("the dimensions of a tile, as in 16x16xf32")
    if len(dims) != 2 or None in dims:
        c.fail_since(
            start,
            f"found a tile that does not have two static dimensions; allowed: 16x16xf32; {_VALID_BY_KEY}",
        )
    for key, value in zip(("dtype", "rows", "cols"), (element, *dims), strict=True):
        _store(reader, fields, key, value, start)


def _read_keyed(reader: ShapeReader, fields: _Fields) -> None:
    c = reader.cursor
    start, key = c.start, c.text
    if key not in KEYS:
        close = suggestion(key, KEYS)
        c.fail(f"found the unknown key '{key}' in a tile type{close}; allowed: {', '.join(KEYS)}")
    c.advance()
    c.advance()
    if key != "valid":
        _store(reader, fields, key, _read_value(reader, key), start)
        return
    for part, size in zip(("v_row", "v_col"), _valid(reader), strict=True):
        _store(reader, fields, part, size, start)


def _store(reader: ShapeReader, fields: _Fields, key: str, value: object, start: int) -> None:
    """Keep a parameter; one that is already there is an error naming both places."""
    c = reader.cursor
    if key in fields.values:
        first = c.span(*fields.places[key])
        c.fail_since(
            start, f"found '{key}' twice in a tile type (first on line {first.line}, column {first.col})"
        )
    if isinstance(value, DType) and value.name in ("index", "i1"):
        c.fail_since(
            c.last_end - len(value.name),
            f"found a tile of '{value.name}'; tiles hold numbers of at least 4 bits",
        )
    if isinstance(value, int) and key in ("rows", "cols", "v_row", "v_col") and value > MAX_SIZE:
        c.fail_since(start, f"found {key}={value}; allowed: at most {MAX_SIZE}")
    fields.values[key] = value
    fields.places[key] = (start, c.last_end)


def _read_positional(reader: ShapeReader, fields: _Fields) -> None:
    c = reader.cursor
    start = c.start
    key = next((k for k in _POSITIONS if k not in fields.values), None)
    if key is None or c.kind is Kind.GREATER:
        c.unexpected(f"a parameter of the tile type, as in key=value; {_VALID_BY_KEY}")
    if key == "dtype" and find_dtype(c.text.removeprefix("!pto.")) is None:
        c.unexpected("an element type, dimensions (16x16xf32) or key=value")
    if c.kind is Kind.QUESTION or (c.kind is Kind.INTEGER_LIT and not _is_code(key, c.text)):
        c.unexpected(f"{_expected(key)}; {_VALID_BY_KEY}")
    _store(reader, fields, key, _read_value(reader, key), start)


def _is_code(key: str, text: str) -> bool:
    """Whether a number without a key may be the value at its position."""
    cls = _ENUMERATIONS.get(key)
    return cls is None or text in [str(int(m)) for m in cls]


def _expected(key: str) -> str:
    cls = _ENUMERATIONS.get(key)
    return (
        f"a {key} ({words(cls)})" if cls is not None else f"an integer (the value of {key}, which is static)"
    )


def _read_value(reader: ShapeReader, key: str) -> Any:
    c = reader.cursor
    if key == "dtype":
        return reader.dtype()
    if key in ("rows", "cols"):
        return _size(reader, key, smallest=1)
    if key in ("v_row", "v_col"):
        return None if c.accept(Kind.QUESTION) else _dynamic(_size(reader, key, smallest=-1))
    if key == "fractal":
        if c.kind is Kind.BARE_IDENT and c.text.lower() == "none":
            c.advance()
            return 512
        return _size(reader, key, smallest=1)
    return enumeration(c, _ENUMERATIONS[key], key)


def _size(reader: ShapeReader, key: str, smallest: int) -> int:
    c = reader.cursor
    start = c.start
    size = c.integer(f"the value of {key}")
    if not smallest <= size <= MAX_SIZE:
        least = "0 (or ?)" if smallest < 0 else str(smallest)
        c.fail_since(start, f"found {key}={size}; allowed: an integer from {least} to {MAX_SIZE}")
    return size


def _dynamic(size: int) -> int | None:
    return None if size == -1 else size


def _valid(reader: ShapeReader) -> Dims:
    c = reader.cursor
    start = c.start
    dims, element = reader.dims("the valid sizes, as in 16x?", least=0)
    if len(dims) != 2 or element:
        c.fail_since(start, "found a 'valid' that is not two sizes; allowed: 16x16, 16x?")
    return dims
