"""Tiles and arrays as coloured cells, with a mark and a letter for each number that is none.

>>> import numpy as np, pto_jax as pto
>>> half = pto.ops.tcvt(np.full((1, 16), 7e4, np.float32), dst="f16", sat_mode="ON")
>>> picture = pto.pictures.tile(half)
>>> "[0, 15] 65504, bits 0x7bff: at the limit of f16" in picture.svg
True
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, one_of
from ..ir import DType, TileType, from_numpy, unpack_pairs, unpaired
from ..oracle.numbers import is_small, plain
from .svg import CELLS, Canvas, Lattice, Picture, colour, num, short

Array = NDArray[Any]
#: Marks of lanes by their letter: style class and name.
MARKS = {
    "N": ("nan", "NaN"),
    "I": ("inf", "Inf"),
    "U": ("undefined", "undefined"),
    "S": ("ring", "at the limit"),
}


@dataclass(frozen=True, eq=False)
class Cells:
    """Numbers [rows, cols] with their raw words, the valid region and a letter of :data:`MARKS` per lane."""

    title: str
    note: str
    dtype: DType
    numbers: Array
    words: Array
    valid: tuple[int, int]
    marks: Array

    @cached_property
    def limits(self) -> tuple[float, float] | None:
        """The smallest and the largest finite number of the valid region; None where it has none."""
        inside = self.numbers[: self.valid[0], : self.valid[1]]
        inside = inside[~np.isin(self.marks[: self.valid[0], : self.valid[1]], ["N", "I", "U"])]
        return (inside.min().item(), inside.max().item()) if inside.size else None

    def counts(self) -> dict[str, int]:
        """How often each mark occurs in the valid region, drawn or not."""
        letters = self.marks[: self.valid[0], : self.valid[1]]
        return {letter: n for letter in MARKS if (n := int((letters == letter).sum()))}


def tile(
    t: Any, *, undefined: Array | None = None, saturated: Array | None = None, name: str = "tile"
) -> Picture:
    """A tile as a picture: a cell per element, coloured by value, and a frame around the valid region.

    ``t`` is a :class:`pto_jax.Tile`, an :class:`pto_jax.oracle.OracleTile` or an array [rows, cols]; of a
    batch the first tile is drawn. NaN, infinite, undefined and saturated lanes have a mark and a letter;
    lanes outside the valid region are hatched. A lane counts as saturated where it holds the largest or
    smallest finite number of a type of 8 bits or more, unless ``saturated`` (bool [rows, cols]) says which
    do. ``undefined`` (bool [rows, cols]) marks lanes without defined data. Of more than 64 rows or columns
    every second, third ... one is drawn, as the caption states. The title of a cell is its index, value and
    bits. ArgumentError for something else, a traced tile, or masks of another shape.

    >>> import numpy as np, pto_jax as pto
    >>> x = pto.tile(np.arange(32, dtype=np.int32).reshape(4, 8), valid=(3, 5))
    >>> pto.pictures.tile(x)
    <Picture: tile vec 4x8xi32, valid 3x5>
    """
    cells = cells_of(t, name, undefined, saturated)
    canvas = Canvas(480, f"{cells.title}, {cells.note.partition(', layout')[0]}")
    return canvas.picture(draw(canvas, cells, 0) + 8)


def cells_of(t: Any, name: str, undefined: Array | None = None, saturated: Array | None = None) -> Cells:
    """The numbers of a tile or array with their marks; errors as for :func:`tile`."""
    kind, words, valid, batch = _parts(t)
    rows, cols = words.shape
    masks = [
        _mask(mask, (rows, cols), what) for mask, what in ((undefined, "undefined"), (saturated, "saturated"))
    ]
    numbers = plain(words, kind.dtype)
    marks = np.full((rows, cols), "", "U1")
    marks[_at_limit(numbers, kind.dtype) if masks[1] is None else masks[1]] = "S"
    if numbers.dtype.kind == "f":
        marks[np.isnan(numbers)] = "N"
        marks[np.isinf(numbers)] = "I"
    if masks[0] is not None:
        marks[masks[0]] = "U"
    full = kind.with_valid(rows, cols)
    note = f"valid {valid[0]}x{valid[1]}{' (empty)' if 0 in valid else ''}, layout {kind.layout}"
    return Cells(f"{name} {full}", f"{batch}{note}", kind.dtype, numbers, words, valid, marks)


def _parts(t: Any) -> tuple[TileType, Array, tuple[int, int], str]:
    """Type, raw words [rows, cols] and valid region of a tile, and which one of a batch it is."""
    kind = getattr(t, "type", None)
    if isinstance(kind, TileType) and hasattr(t, "data") and hasattr(t, "valid"):
        return kind, np.asarray(t.data).view(kind.dtype.word), t.valid, ""
    if isinstance(kind, TileType) and hasattr(t, "words"):
        leaves = (t.words, t.valid_rows, t.valid_cols)
        try:
            words, *sizes = (np.asarray(x) for x in leaves)
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "jax":
                raise
            raise ArgumentError("picture: got a traced tile", allowed="a tile with values") from None
        if words.ndim > 2 and 0 in words.shape[:-2]:
            raise ArgumentError(f"picture: got no tile (batch {words.shape[:-2]})", allowed="one or more")
        batch = f"tile 0 of {'x'.join(map(str, words.shape[:-2]))}, " if words.ndim > 2 else ""
        rows, cols = (int(n.reshape(-1)[0]) for n in sizes)
        return kind, words.reshape(-1, *kind.shape)[0], (rows, cols), batch
    array = _as_array(t)
    if array.ndim != 2 or array.dtype.kind not in "fiubV":
        got = f"an array {array.dtype}{list(array.shape)}" if hasattr(t, "dtype") else f"a {type(t).__name__}"
        raise ArgumentError(f"picture: got {got}", allowed="a tile, or an array [rows, cols]")
    d = from_numpy(array.dtype)
    kind = TileType(d, *array.shape)
    return kind, np.ascontiguousarray(array).view(d.word), kind.shape, ""


def _as_array(value: Any) -> Array:
    """A value as an array; one of no element type for lists of rows that differ."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.empty((), object)


def _mask(mask: Array | None, shape: tuple[int, int], what: str) -> Array | None:
    if mask is None:
        return None
    array = _as_array(mask)
    if array.shape != shape or array.dtype != bool:
        got = f"{array.dtype}{list(array.shape)}"
        raise ArgumentError(f"picture: {what}: got {got}", allowed=f"bool{list(shape)}")
    return array


@cache
def _finite(d: DType) -> tuple[float, float]:
    """The smallest and the largest finite number of an element type."""
    if not d.is_float:
        return d.min_int, d.max_int
    if is_small(d):
        codes = plain(np.arange(1 << d.bits, dtype=d.word), d)
        codes = codes[np.isfinite(codes)]
        return float(codes.min()), float(codes.max())
    largest = float(ml_dtypes.finfo(d.numpy).max)  # type: ignore[no-untyped-call]
    return -largest, largest


def _at_limit(numbers: Array, d: DType) -> Array:
    """The lanes that hold a limit of their type; those of 4 bits hold it all the time, as zero unsigned."""
    if d.bits < 8 or d.pair_of:
        return np.zeros(numbers.shape, bool)
    low, high = _finite(d)
    limits: Array = (numbers == high) | ((numbers == low) & (low < 0))
    return limits


def array_cells(name: str, array: Array, d: DType) -> Cells:
    """The cells of a buffer: its last axis are the columns; 4-bit elements come as bytes of two."""
    words = np.ascontiguousarray(array)
    if d.packed:
        words = unpack_pairs(words.view(np.uint8))
    words = words.view(d.word)
    shape = words.shape
    cols = shape[-1] if words.ndim > 1 else min(words.size, CELLS)
    if words.ndim == 1 and words.size:
        words = words[: words.size // cols * cols]
    words = words.reshape(-1, cols) if cols else words.reshape(0, 0)
    cells = cells_of(_Words(TileType(d, *words.shape), words), name)
    left = int(np.prod(shape, dtype=np.int64)) - words.size
    note = f"{words.size} elements" + (f", {left} at the end not drawn" if left else "")
    title = f"{name} {d}[{', '.join(map(str, shape))}]"
    return Cells(title, note, d, cells.numbers, words, words.shape, cells.marks)


@dataclass(frozen=True, eq=False)
class _Words:
    """Words of a type, all of them valid."""

    type: TileType
    data: Array

    @property
    def valid(self) -> tuple[int, int]:
        return self.type.shape


def array(name: str, values: Array, d: DType) -> Picture:
    """A buffer as a picture, as :func:`tile` draws tiles.

    >>> import numpy as np, pto_jax as pto
    >>> array("y", np.zeros((2, 8), np.float32), pto.dtype("f32"))
    <Picture: y f32[2, 8], 16 elements>
    """
    given = _as_array(values)
    if not isinstance(d, DType) or not (d.packed or given.dtype in (d.numpy, d.word)):
        got = f"picture: got {given.dtype} as {d if isinstance(d, DType) else one_of(d)}"
        raise ArgumentError(got, allowed="an array, and its element type", fix='pto.dtype("f32")')
    cells = array_cells(name, given, d)
    canvas = Canvas(480, f"{cells.title}, {cells.note}")
    return canvas.picture(draw(canvas, cells, 0) + 8)


# -- drawing -------------------------------------------------------------------------------------------


def draw(canvas: Canvas, cells: Cells, top: float) -> float:
    """Draw title, cells, scale and legend below ``top``; where they end."""
    lattice = Lattice.of(cells.words.shape, top + 50, 44, 22)
    canvas.text(12, top + 20, cells.title, "title")
    canvas.text(12, top + 35, cells.note + lattice.note, "soft small")
    size = lattice.width, lattice.height
    bottom = lattice.draw(canvas, lambda at, x, y: _cell(canvas, cells, at, (x, y), size))
    framed = [min(-(-v // s), n) for v, s, n in zip(cells.valid, lattice.steps, lattice.drawn, strict=True)]
    if all(framed):
        place = lattice.x, lattice.y, framed[1] * size[0], framed[0] * size[1]
        canvas.rect(*place, "frame")
    return _legend(canvas, cells, bottom + 12) if cells.words.size else bottom


def _cell(
    canvas: Canvas, cells: Cells, at: tuple[int, int], corner: tuple[float, float], size: tuple[float, float]
) -> None:
    (x, y), (width, height) = corner, size
    value, letter = cells.numbers[at].item(), str(cells.marks[at])
    outside = at[0] >= cells.valid[0] or at[1] >= cells.valid[1]
    title = _described(cells, at, value, letter, outside=outside)
    if outside:
        canvas.rect(x, y, width, height, "outside", title=title)
        return
    low, high = cells.limits or (0, 0)
    fill, ink = colour(value, low, high) if letter in ("", "S") else ("", "")
    kind = MARKS[letter][0] if letter in ("N", "I", "U") else ""
    canvas.rect(x, y, width, height, kind, fill=fill, title=title)
    if letter == "S":
        gap = min(1.5, height / 5)
        ring = f"M{num(x + gap)} {num(y + gap)}h{num(width - 2 * gap)}v{num(height - 2 * gap)}"
        canvas.parts.append(f'<path d="{ring}h{num(2 * gap - width)}z" fill="none" stroke="{ink}"/>')
    room = int((width - 3) / 4.7)
    shown = short(value, room) if height >= 12 and room >= 3 else ""
    if shown and (longer := short(value, room + 1)) != shown and float(longer) == value:
        shown = longer  # Smaller, and the number itself.
    shown = {"U": "U", "I": shown and ("Inf" if value > 0 else "-Inf")}.get(letter, shown)
    if (shown := shown or letter) and min(width, height) >= 6.5:
        small = shown == letter and height < 12
        style = {"N": "on", "I": "on"}.get(letter, "")
        font = min(height * 0.8, 8.5) if small else min(8.5, (width - 3.5) / (0.62 * len(shown)))
        text = f"font-size:{num(font)}px{f';fill:{ink}' if ink else ''}"
        canvas.parts.append(
            f'<text x="{num(x + width / 2)}" y="{num(y + height / 2 + (2.2 if small else 3))}" '
            f'class="{style}" text-anchor="middle" style="{text}" pointer-events="none">{shown}</text>'
        )


def _described(cells: Cells, at: tuple[int, int], value: Any, letter: str, *, outside: bool) -> str:
    """Index, value and bits of a lane, and what its mark means."""
    d, word = cells.dtype, int(cells.words[at])
    if d.pair_of:
        pair = plain(np.array([word & 15, word >> 4], np.uint8), unpaired(d))
        text = f"{pair[0]:g} and {pair[1]:g}"
    else:
        text = f"{value:.7g}" if isinstance(value, float) else str(value)
    meaning = {"S": f": at the limit of {d}", "U": ": undefined"}.get(letter, "")
    if outside:
        meaning = ", outside the valid region"
    return f"[{at[0]}, {at[1]}] {text}, bits 0x{word:0{-(-d.bits // 4)}x}{meaning}"


def _legend(canvas: Canvas, cells: Cells, y: float) -> float:
    """The colour scale with its numbers, and the marks that occur; where they end."""
    x, entries = 32.0, list(_marks(cells))
    if cells.limits is not None:
        low, high = cells.limits
        parts = 1 if low == high else 32
        for k in range(parts):
            fill, _ = colour(k, 0, parts - 1)
            canvas.rect(x + k * 128 / parts, y, 128 / parts + 0.2, 8, fill=fill)
        numbers = [(0, low, "start"), (64, low / 2 + high / 2, "middle"), (128, high, "end")]
        labels = [(at, short(value, 7), anchor) for at, value, anchor in numbers]
        # Three long numbers are wider than the scale: the ends are enough.
        step = 1 if sum(len(text) for _, text, _ in labels) <= 17 else 2
        for at, text, anchor in labels[::step] if parts > 1 else labels[:1]:
            canvas.text(x + at, y + 19, text, "soft small", anchor=anchor)
        x += 146
    elif all(cells.valid):
        entries.insert(0, ("", "no finite numbers in the valid region"))
    return canvas.legend(entries, y - 2, x=x, line=26)


def _marks(cells: Cells) -> Iterator[tuple[str, str]]:
    """The marks of a legend that occur, as samples and words."""
    for letter, count in cells.counts().items():
        kind, name = MARKS[letter]
        yield f"{kind} {letter}", f"{count} {name}{f' of {cells.dtype}' if letter == 'S' else ''}"
    if cells.valid != cells.words.shape:
        yield "outside", "outside the valid region"
