"""Programs for readers: short tile types, and which lines an instruction is in."""

import re
from collections.abc import Iterator

_TILE = re.compile(
    r"!pto\.tile_buf<loc=(\w+), dtype=([^,]+), rows=(\d+), cols=(\d+), v_row=(\d+|\?), v_col=(\d+|\?), "
    r"blayout=(\w+), slayout=(\w+), fractal=(\d+), pad=(\d+)"
)
_USUAL = {"blayout": "row_major", "slayout": "none_box", "fractal": "512", "pad": "0"}


def brief(program: str) -> str:
    """A program's text with the short spelling of tile types, which says the same.

    >>> long = "v_row=2, v_col=5, blayout=row_major, slayout=none_box, fractal=512, pad=1"
    >>> brief(f"!pto.tile_buf<loc=vec, dtype=f32, rows=2, cols=8, {long}>")
    '!pto.tile_buf<vec, 2x8xf32, valid=2x5, pad=1>'
    """
    return _TILE.sub(_short, program)


def _short(tile: re.Match[str]) -> str:
    loc, dtype, rows, cols, v_row, v_col, *layout = tile.groups()
    valid = "" if (rows, cols) == (v_row, v_col) else f", valid={v_row}x{v_col}"
    pairs = zip(_USUAL.items(), layout, strict=True)
    more = "".join(f", {name}={value}" for (name, usual), value in pairs if value != usual)
    return f"!pto.tile_buf<{loc}, {rows}x{cols}x{dtype}{valid}{more}"


def marked(program: str, instruction: str) -> Iterator[tuple[bool, str]]:
    r"""The lines of a program, each with whether it is one of an instruction.

    >>> list(marked("pto.tadd ins(%a)\npto.tmul ins(%a)", "tmul"))
    [(False, 'pto.tadd ins(%a)'), (True, 'pto.tmul ins(%a)')]
    """
    names = {instruction, f"pto.{instruction}"} if instruction else set()
    for line in program.splitlines():
        yield not names.isdisjoint(line.replace("(", " ").split()), line
