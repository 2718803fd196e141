"""The order of a tile's elements in memory.

>>> import pto_jax as pto
>>> layout(pto.tile_type("f16", 32, 32, loc="mat"))
<Picture: layout NZ of mat 32x32xf16: boxes of 16x16, 512 bytes each>
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import ArgumentError, with_article
from ..ir import TileType, element_offset
from ..isa.rules.tile_legality import TYPE_RULES
from ..profiles import PROFILES
from .svg import Canvas, Picture, num, size_text

#: Boxes per axis, elements per axis, and elements that the line joins.
BOXES, ELEMENTS, JOINED = 8, 32, 40
#: The size of the smallest numbers.
SMALLEST = 8.0
_LEFT, _TOP = 32.0, 66.0
_NAMES = {
    "ND": "rows one after the other",
    "DN": "columns one after the other",
    "NZ": "boxes in columns, rows inside",
    "ZN": "boxes in rows, columns inside",
    "ZZ": "boxes in rows, rows inside",
    "NN": "boxes in columns, columns inside",
}


def layout(tile_type: TileType) -> Picture:
    """The memory order of a tile type: the number of each element, frames of boxes, and the first elements.

    The line joins the first 40 elements in the order of memory. Of a tile of more than 1024 elements or
    8x8 boxes, the picture has the leading part. For boxed layouts a second part numbers the boxes, with size
    and bytes of one. ArgumentError for something else and for types that no profile has.

    >>> import pto_jax as pto
    >>> picture = layout(pto.tile_type("f32", 8, 4, blayout="col_major"))
    >>> "element [1, 2]: number 17, bytes 68 to 71" in picture.svg
    True
    """
    t = _checked(tile_type)
    box = t.stored_box
    size = f"boxes of {box[0]}x{box[1]}, {_bytes(t, box)} each" if t.boxed else _NAMES[t.layout]
    canvas = Canvas(480, f"layout {t.layout} of {_plain(t)}: {size}")
    canvas.text(12, 22, f"layout {t.layout} of {_plain(t)}", "title")
    canvas.text(
        12, 38, _NAMES[t.layout] + (f", {size.replace(' each', '')}" if t.boxed else ""), "soft small"
    )
    part = _Part.of(t)
    words = f"numbers: place in memory, in elements of {_bytes(t, (1, 1))}"
    if part.step > 1:
        words += (
            f", of every {'2nd' if part.step == 2 else '3rd' if part.step == 3 else f'{part.step}th'} column"
        )
    if (part.rows, part.cols) != t.shape:
        words += f"; the first {part.rows}x{part.cols} elements"
    canvas.text(12, 52, words, "soft small")
    bottom = _elements(canvas, part)
    if t.boxed and (t.rows > box[0] or t.cols > box[1]):
        bottom = _boxes(canvas, t, bottom + 22)
    return canvas.picture(bottom + 14)


def _checked(t: object) -> TileType:
    if not isinstance(t, TileType):
        raise ArgumentError(
            f"layout: got {with_article(type(t).__name__)}",
            allowed="a tile type",
            fix='pto.tile_type("f32", 16, 64)',
        )
    if t.conv is not None:
        raise ArgumentError(f"layout: got the convolution tile {t}", allowed="tiles of rows and columns")
    # Capacities differ; what else a type breaks it breaks on every profile.
    rules = [rule for rule in TYPE_RULES if rule.name != "tile-capacity"]
    broken = [
        [f.message for rule in rules for f in rule.findings(t, p) if f.severity == "error"]
        for p in PROFILES.values()
    ]
    if all(broken):
        raise ArgumentError(f"layout: got {t}: {broken[0][0]}")
    return t


def _plain(t: TileType) -> str:
    """The type without its valid region and layout."""
    return str(t.with_valid(*t.shape)).removesuffix(f" {t.layout}")


def _bytes(t: TileType, box: tuple[int, int]) -> str:
    bits = box[0] * box[1] * t.dtype.storage_bits
    return f"{bits} bits" if bits % 8 else f"{bits // 8} bytes" if bits != 8 else "1 byte"


@dataclass(frozen=True)
class _Part:
    """The leading part that is drawn, and the size of its cells."""

    type: TileType
    rows: int
    cols: int
    width: float
    height: float

    @staticmethod
    def of(t: TileType) -> _Part:
        # Numbers of four digits are read where there are few of them.
        most = ELEMENTS if t.elements <= ELEMENTS**2 else max(ELEMENTS // 2, *t.stored_box)
        rows, cols = (
            min(n, most, BOXES * b if t.boxed else n) for n, b in zip(t.shape, t.stored_box, strict=True)
        )
        width = min(40.0, (480 - _LEFT - 14) / cols)
        return _Part(t, rows, cols, width, min(width, 22.0))

    @property
    def step(self) -> int:
        """The distance of the columns whose numbers are written, so that they can be read."""
        return math.ceil(self._room / self.width)

    @property
    def font(self) -> float:
        """The size of the numbers."""
        return min(9.0, self.step * self.width / self._room * SMALLEST, self.height * 0.8)

    @property
    def _room(self) -> float:
        """The width of the longest number in the smallest size."""
        digits = len(str(max(element_offset(self.type, self.rows - 1, self.cols - 1), 9)))
        return 0.62 * SMALLEST * digits + 2

    def middle(self, i: int, j: int) -> tuple[float, float]:
        """The middle of an element's cell."""
        return _LEFT + (j + 0.5) * self.width, _TOP + (i + 0.5) * self.height


def _elements(canvas: Canvas, part: _Part) -> float:
    """Cells with their numbers, frames of boxes and the line; where they end."""
    t, w, h = part.type, part.width, part.height
    places: dict[int, tuple[int, int]] = {}
    bits = t.dtype.storage_bits
    font, step = part.font, part.step
    for i in range(part.rows):
        for j in range(part.cols):
            number = element_offset(t, i, j)
            places[number] = i, j
            first, last = number * bits // 8, max(((number + 1) * bits - 1) // 8, number * bits // 8)
            at = f"byte {first}" if first == last else f"bytes {first} to {last}"
            title = f"element [{i}, {j}]: number {number}, {at}"
            x, y = part.middle(i, j)
            odd = t.boxed and (i // t.stored_box[0] + j // t.stored_box[1]) % 2
            canvas.rect(x - w / 2, y - h / 2, w - 0.5, h - 0.5, "row", title=title)
            if odd:
                canvas.rect(x - w / 2, y - h / 2, w - 0.5, h - 0.5, "tint", title=title)
    _line(canvas, part, places)
    for number, (i, j) in places.items():
        if j % step:
            continue
        x, y = part.middle(i, j)
        # A number that is wider than its cell begins in it.
        anchor, x = ("middle", x) if step == 1 else ("start", x - w / 2 + 1.5)
        canvas.parts.append(
            f'<text x="{num(x)}" y="{num(y + font * 0.36)}" text-anchor="{anchor}" pointer-events="none" '
            f'style="font-size:{num(font)}px">{number}</text>'
        )
    for i, j, rows, cols in _frames(part):
        canvas.rect(_LEFT + j * w, _TOP + i * h, cols * w - 0.5, rows * h - 0.5, "frame")
    for axis, count in ((0, part.rows), (1, part.cols)):
        for k in (0, count - 1) if count > 1 else (0,):
            x, y = part.middle(k if axis == 0 else 0, k if axis == 1 else 0)
            if axis == 0:
                canvas.text(_LEFT - 4, y + 3, str(k), "soft tiny", anchor="end")
            else:
                canvas.text(x, _TOP - 3, str(k), "soft tiny", anchor="middle")
    return _TOP + part.rows * h


def _line(canvas: Canvas, part: _Part, places: dict[int, tuple[int, int]]) -> None:
    """The line through the first elements in memory order, as far as they are drawn one after the other."""
    points = []
    for number in range(JOINED):
        if number not in places:
            break
        points.append("{} {}".format(*map(num, part.middle(*places[number]))))
    if len(points) > 1:
        canvas.path("M" + "L".join(points), "walk")


def _frames(part: _Part) -> Iterator[tuple[int, int, int, int]]:
    """Row, column and size of each box that is drawn; of a layout without boxes the whole part."""
    rows, cols = part.type.stored_box if part.type.boxed else (part.rows, part.cols)
    for i in range(0, part.rows, rows):
        for j in range(0, part.cols, cols):
            yield i, j, min(rows, part.rows - i), min(cols, part.cols - j)


def _boxes(canvas: Canvas, t: TileType, top: float) -> float:
    """The boxes of a tile as numbered rectangles with the byte that each begins at; where they end."""
    (height, width), bits = t.stored_box, t.dtype.storage_bits
    rows, cols = min(-(-t.rows // height), BOXES), min(-(-t.cols // width), BOXES)
    whole = (-(-t.rows // height), -(-t.cols // width))
    count = (
        f"{whole[0]}x{whole[1]} boxes of {height}x{width} elements, {size_text(height * width * bits // 8)}"
    )
    canvas.text(
        12,
        top,
        f"{count} each" + (f"; the first {rows}x{cols}" if whole != (rows, cols) else ""),
        "soft small",
    )
    w, h = min(72.0, (480 - _LEFT - 14) / cols), 30.0
    for i in range(rows):
        for j in range(cols):
            first = element_offset(t, i * height, j * width)
            x, y = _LEFT + j * w, top + 8 + i * h
            canvas.rect(x, y, w - 2, h - 2, "row")
            canvas.rect(x, y, w - 2, h - 2, "ring")
            canvas.text(
                x + w / 2 - 1, y + 13, f"box {first // (height * width)}", "small bold", anchor="middle"
            )
            canvas.text(x + w / 2 - 1, y + 24, f"byte {first * bits // 8}", "soft tiny", anchor="middle")
    return top + 8 + rows * h
