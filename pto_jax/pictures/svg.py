"""SVG from strings: a canvas, the colours of both themes, and the picture that a caller gets.

>>> canvas = Canvas(120, "one box")
>>> canvas.rect(10, 10, 100, 20, "first", title="16 bytes")
>>> picture = canvas.picture(40)
>>> picture.svg.startswith("<svg"), "16 bytes" in picture.svg
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from ..files import write_text
from ..files.read import require_name

_LIGHT = (
    "--ink:#1f2733;--soft:#5d6879;--line:#cfd5df;--paper:#ffffff;--outside:#f0f2f6;--hatch:#b9c2cf;"
    "--first:#4a7fb5;--reuse:#3c9a80;--over:#cf2f2f;--nan:#cf2f2f;--inf:#e67700;--other:#8b95a5;--on:#ffffff"
)
_DARK = (
    "--ink:#e6eaf1;--soft:#a3adbd;--line:#3b4554;--paper:#161b23;--outside:#222933;--hatch:#56616f;"
    "--first:#3f74aa;--reuse:#2d8069;--over:#e05252;--nan:#e05252;--inf:#e67700;--other:#6c7788;--on:#ffffff"
)
_STYLE = (
    f".pto{{{_LIGHT}}}@media (prefers-color-scheme:dark){{.pto{{{_DARK}}}}}"
    f"[data-theme=light] .pto{{{_LIGHT}}}[data-theme=dark] .pto{{{_DARK}}}"
    ".pto text{fill:var(--ink);font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;"
    "font-variant-numeric:tabular-nums}"
    ".pto .title{font-size:13px;font-weight:600}.pto .soft{fill:var(--soft)}.pto .small{font-size:10px}"
    ".pto .tiny{font-size:8.5px}.pto .bold{font-weight:700}.pto .on{fill:var(--on)}"
    ".pto .bad{fill:var(--over)}"
    ".pto .paper{fill:var(--paper)}.pto .outside{fill:url(#pto-hatch)}.pto .undefined{fill:url(#pto-cross)}"
    ".pto .nan{fill:var(--nan)}.pto .inf{fill:var(--inf)}.pto .first{fill:var(--first)}"
    ".pto .reuse{fill:var(--reuse)}.pto .over{fill:var(--over)}.pto .other{fill:var(--other)}"
    ".pto .grey{fill:var(--line)}.pto .again{fill:url(#pto-again)}"
    ".pto .twice{fill:url(#pto-twice)}"
    ".pto .tint{fill:var(--hatch);fill-opacity:.35}.pto .clear{fill:transparent}"
    ".pto .row{fill:var(--outside)}"
    ".pto .frame{fill:none;stroke:var(--ink);stroke-width:1.6}.pto .thin{fill:none;stroke:var(--line)}"
    ".pto .ring{fill:none;stroke:var(--ink);stroke-width:1.5}"
    ".pto .limit{fill:none;stroke:var(--over);stroke-width:1.4;stroke-dasharray:5 3}"
    ".pto .arrow{fill:none;stroke:var(--ink);stroke-opacity:.55;marker-end:url(#pto-tip)}"
    ".pto .walk{fill:none;stroke:var(--over);stroke-width:1.6;stroke-linejoin:round;stroke-opacity:.45}"
)
_DEFS = (
    '<pattern id="pto-hatch" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<rect width="5" height="5" style="fill:var(--outside)"/>'
    '<path d="M-1 1L1 -1M0 5L5 0M4 6L6 4" style="stroke:var(--hatch)"/></pattern>'
    '<pattern id="pto-cross" width="4" height="4" patternUnits="userSpaceOnUse">'
    '<rect width="4" height="4" style="fill:var(--paper)"/>'
    '<path d="M0 0L4 4M4 0L0 4" style="stroke:var(--soft);stroke-width:.8"/></pattern>'
    '<pattern id="pto-again" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<path d="M-1 1L1 -1M0 5L5 0M4 6L6 4" style="stroke:#fff;stroke-width:1.3"/></pattern>'
    '<pattern id="pto-twice" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<rect width="5" height="5" style="fill:var(--other)"/>'
    '<path d="M-1 1L1 -1M0 5L5 0M4 6L6 4" style="stroke:#fff;stroke-width:1.3"/></pattern>'
    '<marker id="pto-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
    'orient="auto"><path d="M0 1L7 4L0 7z" style="fill:var(--ink)"/></marker>'
)
#: Sizes of letters by style class, and the widths of a letter on average and of a capital, per size.
_SIZES = {"title": 13.0, "small": 10.0, "tiny": 8.5}
_MEAN, _WIDE = 0.56, 0.66
#: Colours of numbers, from the smallest to the largest: dark blue over green to yellow.
_SCALE = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
#: Colours of blocks, which repeat where a launch has more.
BLOCKS = ("#4a7fb5", "#e0883a", "#3c9a80", "#b0578d", "#8a6fc1", "#a8963a", "#5aa7c4", "#c2604f")


@dataclass(frozen=True)
class Picture:
    """An SVG picture: ``svg`` is its text, which notebooks show and :meth:`save` writes.

    Its colours follow the light or dark theme of the reader. ``label`` is the description for readers that
    show no pictures.

    >>> import numpy as np, pto_jax as pto
    >>> pto.pictures.tile(pto.tile(np.eye(4, 8, dtype=np.float32)))
    <Picture: tile vec 4x8xf32, valid 4x8>
    """

    svg: str
    label: str

    def __repr__(self) -> str:
        return f"<Picture: {self.label}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the picture to a file, which is replaced as a whole.

        ArgumentError for a name that does not end in .svg, FileError for a file that cannot be written.
        """
        require_name(path)
        if Path(path).suffix.lower() != ".svg":
            fix = f"{Path(path).stem or 'picture'}.svg"
            raise ArgumentError(f"picture: got the file name {path}", allowed="names in .svg", fix=fix)
        write_text(path, self.svg)


@dataclass
class Canvas:
    """Shapes in the order in which they are drawn; lengths are units of the picture's view box."""

    width: float
    label: str
    parts: list[str] = field(default_factory=list)

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: str = "",
        *,
        fill: str = "",
        title: str = "",
        radius: float = 0,
    ) -> None:
        """A rectangle of a style class or a colour; readers see the title where the pointer rests."""
        look = (f' class="{kind}"' if kind else "") + (f' fill="{fill}"' if fill else "")
        corner = f' rx="{num(radius)}"' if radius else ""
        end = f"><title>{escape(title, quote=False)}</title></rect>" if title else "/>"
        self.parts.append(
            f'<rect x="{num(x)}" y="{num(y)}" width="{num(width)}" height="{num(height)}"{corner}{look}{end}'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        kind: str = "",
        *,
        anchor: str = "start",
        turn: float = 0,
        fill: str = "",
    ) -> None:
        """A line of text whose baseline is at ``y``, turned by degrees around its anchor.

        A text from left to right that is too long for the picture loses its middle.
        """
        size = next((n for k, n in _SIZES.items() if k in kind.split()), 12.0)
        if anchor == "start" and not turn and len(text) * _MEAN * size > self.width - x:
            text = cut(text, int((self.width - x - 4) / (_WIDE * size)))
        look = f' class="{kind}"' if kind else ""
        look += f' text-anchor="{anchor}"' if anchor != "start" else ""
        look += f' transform="rotate({num(turn)} {num(x)} {num(y)})"' if turn else ""
        look += f' style="fill:{fill}"' if fill else ""
        self.parts.append(f'<text x="{num(x)}" y="{num(y)}"{look}>{escape(text, quote=False)}</text>')

    def path(self, d: str, kind: str, title: str = "") -> None:
        """A path by its commands."""
        end = f"><title>{escape(title, quote=False)}</title></path>" if title else "/>"
        self.parts.append(f'<path d="{d}" class="{kind}"{end}')

    def legend(
        self, entries: Iterable[tuple[str, str]], y: float, *, x: float = 12.0, line: float = 18.0
    ) -> float:
        """Samples with words, in lines of the picture's width; where they end.

        A sample is a style class, a colour, a class and a letter as in ``nan N``, or "" for words alone.
        """
        left = x if x < 40 else 32.0
        for sample, words in entries:
            width = (34 if sample else 18) + 5.4 * len(words)
            if x + width - 12 > self.width and x > left:
                x, y = left, y + line
            kind, _, letter = sample.partition(" ")
            if kind:
                is_colour = kind.startswith("#")
                self.rect(x, y, 12, 12, "" if is_colour else kind, fill=kind if is_colour else "", radius=2)
            if letter:
                on = "on " if kind in ("nan", "inf") else ""
                self.text(x + 6, y + 9, letter, f"{on}tiny bold", anchor="middle")
            self.text(x + (17 if sample else 0), y + 10, words, "soft small")
            x += width
        return y + line

    def picture(self, height: float) -> Picture:
        """The picture of what was drawn, on paper of the theme's colour."""
        w, h = num(self.width), num(height)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="pto" viewBox="0 0 {w} {h}" width="{w}" '
            f'height="{h}" role="img" aria-label="{escape(self.label)}" style="max-width:100%;height:auto">\n'
            f'<style>{_STYLE}</style><defs>{_DEFS}</defs>\n<rect class="paper" width="{w}" height="{h}" '
            'rx="6"/>\n'
        )
        return Picture(head + "\n".join(self.parts) + "\n</svg>\n", self.label)


#: Cells per axis; of more rows or columns, every second, third ... one is drawn.
CELLS = 64


@dataclass(frozen=True)
class Lattice:
    """Cells of a matrix below ``y``; ``steps`` are the distances of the rows and columns that are drawn."""

    shape: tuple[int, int]
    steps: tuple[int, int]
    y: float
    width: float
    height: float
    x: float = 32.0

    @staticmethod
    def of(shape: tuple[int, int], y: float, widest: float, tallest: float) -> Lattice:
        """The largest cells that fit, up to some size."""
        steps = max(-(-shape[0] // CELLS), 1), max(-(-shape[1] // CELLS), 1)
        rows, cols = (max(-(-n // s), 1) for n, s in zip(shape, steps, strict=True))
        width = min(widest, 434 / cols)
        return Lattice(shape, steps, y, width, min(width, tallest, max(480 / rows, 6.5)))

    @property
    def drawn(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return -(-self.shape[0] // self.steps[0]), -(-self.shape[1] // self.steps[1])

    @property
    def note(self) -> str:
        """Which rows and columns are drawn; "" for all."""
        names = {1: "every", 2: "every 2nd", 3: "every 3rd"}
        rows, cols = (names.get(step, f"every {step}th") for step in self.steps)
        return "" if self.steps == (1, 1) else f", drawn: {rows} row and {cols} column"

    def draw(self, canvas: Canvas, paint: Callable[[tuple[int, int], float, float], None]) -> float:
        """Label rows and columns and ``paint`` each cell by its index and corner; where the cells end."""
        rows, cols = self.drawn
        if not (rows and cols):
            canvas.text(self.x, self.y + 12, "no elements", "soft")
            return self.y + 20
        # As many labels as have room beside each other, and one below the other.
        wide = 5.3 * len(str(cols * self.steps[1])) + 3
        for j in ticks(cols, max(min(8, int(cols * self.width / wide)), 1)):
            at = self.x + (j + 0.5) * self.width
            canvas.text(at, self.y - 3, str(j * self.steps[1]), "soft tiny", anchor="middle")
        for i in ticks(rows, max(min(8, int(rows * self.height / 9)), 1)):
            at = self.y + (i + 0.5) * self.height + 3
            canvas.text(self.x - 4, at, str(i * self.steps[0]), "soft tiny", anchor="end")
        for i in range(rows):
            for j in range(cols):
                index = i * self.steps[0], j * self.steps[1]
                paint(index, self.x + j * self.width, self.y + i * self.height)
        return self.y + rows * self.height


def num(x: float) -> str:
    """A length with two decimals at most.

    >>> num(3.0), num(2.345), num(-0.001)
    ('3', '2.35', '0')
    """
    text = f"{x:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def colour(value: float, low: float, high: float) -> tuple[str, str]:
    """The colour of a number between two others, and that of text on it.

    >>> colour(0, 0, 1), colour(1, 0, 1)
    (('#440154', '#ffffff'), ('#fde725', '#1f2733'))
    """
    # Halves, as the difference of the largest float and its negative is none.
    at = 0.5 if high <= low else (value / 2 - low / 2) / (high / 2 - low / 2)
    at = min(max(at, 0.0), 1.0) * (len(_SCALE) - 1)
    i = min(int(at), len(_SCALE) - 2)
    red, green, blue = (round(a + (b - a) * (at - i)) for a, b in zip(_SCALE[i], _SCALE[i + 1], strict=True))
    bright = 0.299 * red + 0.587 * green + 0.114 * blue > 111
    return f"#{red:02x}{green:02x}{blue:02x}", "#1f2733" if bright else "#ffffff"


def cut(text: str, room: int) -> str:
    """A text in at most so many characters, without its middle where it is longer.

    >>> cut("TFILLPAD_EXPAND_u16", 12), cut("rows", 12)
    ('TFILLP...u16', 'rows')
    """
    keep = max(room - 3, 4)
    tail = keep // 3
    return text if len(text) <= room else f"{text[: keep - tail]}...{text[-tail:]}"


def short(value: Any, room: int) -> str:
    """A number in at most so many characters; "" where none are enough.

    >>> short(65504.0, 5), short(0.123456, 5), short(-70000.0, 5), short(float("nan"), 5), short(128, 2)
    ('65504', '0.123', '-7e4', 'NaN', '')
    """
    if isinstance(value, int):
        return text if len(text := str(value)) <= room else short(float(value), room) if room > 3 else ""
    if value != value:
        return "NaN" if room >= 3 else ""
    if value in (float("inf"), float("-inf")):
        return ("Inf" if value > 0 else "-Inf") if room >= 4 else ""
    for digits in (6, 5, 4, 3, 2, 1):
        text = f"{value:.{digits}g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
        if len(text) <= room:
            return text
    return ""


def size_text(count: int) -> str:
    """A number of bytes in the unit that suits it.

    >>> size_text(512), size_text(196608), size_text(1536)
    ('512 B', '192 KiB', '1.5 KiB')
    """
    return f"{count} B" if count < 1024 else f"{count / 1024:.4g} KiB"


def ticks(count: int, most: int) -> Sequence[int]:
    """Positions from 0 on that are labelled: at most so many, at a distance that is 1, 2, 4 or 5 times 10**n.

    >>> list(ticks(16, 8)), list(ticks(3, 8))
    ([0, 2, 4, 6, 8, 10, 12, 14], [0, 1, 2])
    """
    step = next(s for n in range(12) for s in (10**n, 2 * 10**n, 4 * 10**n, 5 * 10**n) if count <= most * s)
    return range(0, count, step)
