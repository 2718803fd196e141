"""Reading convolution tiles: ``!pto.conv_tile<mat, 1x2x3x4x8xf32, layout=nc1hwc0, filter=3x3>``."""

from ..ir import Conv, GlobalLayout, Loc, TileType, conv_tile, read_geometry
from . import attributes, shapes, tokens

CONV_NAME = "conv_tile"
_MAX_RANK = 6


def read_conv_tile(reader: shapes.ShapeReader, start: int) -> TileType:
    """The type after its name: a place, dimensions and element type, a layout, and the geometry."""
    c = reader.cursor
    opened = c.open(tokens.Kind.LESS, f"after !pto.{CONV_NAME}")
    loc = Loc.MAT
    if c.kind is tokens.Kind.BARE_IDENT and attributes.member(Loc, c.text) is not None:
        loc = Loc[c.take().upper()]
        c.expect(tokens.Kind.COMMA)
    dims, element = reader.shaped("the dimensions of a convolution tile, as in 1x2x3x4x8xf32")
    if None in dims or len(dims) > _MAX_RANK:
        c.fail_since(
            start,
            f"found a convolution tile of {len(dims)} dimensions; allowed: 1 to {_MAX_RANK} static ones",
        )
    layout: GlobalLayout | None = None
    given: dict[str, str] = {}
    while c.accept(tokens.Kind.COMMA):
        at, key = c.start, c.expect(tokens.Kind.BARE_IDENT, "a key of a convolution tile, as in filter=3x3")
        c.expect(tokens.Kind.EQUAL)
        if key in given or (key == "layout" and layout is not None):
            c.fail_since(at, f"found '{key}' twice in a convolution tile")
        if key == "layout":
            layout = attributes.enumeration(c, GlobalLayout, "layout")
        else:
            given[key] = _value(reader)
    geometry = read_geometry(given)
    if isinstance(geometry, str):
        c.fail_since(start, geometry)
    if layout is None:
        c.unexpected("layout=... of the convolution tile")
    c.close(tokens.Kind.GREATER, opened)
    return conv_tile(element, Conv(layout, tuple(d or 0 for d in dims), geometry), loc)


def _value(reader: shapes.ShapeReader) -> str:
    """A number, or sizes with ``x`` between them, as written."""
    c = reader.cursor
    start = c.start
    while c.kind in (tokens.Kind.INTEGER_LIT, tokens.Kind.BARE_IDENT) and (c.start in (start, c.last_end)):
        c.advance()
    if c.last_end <= start:
        c.unexpected("a number, or sizes as in 3x3")
    return c.source[start : c.last_end]
