"""Where the texts of a picture are, by the widths of a common font, and what makes them unreadable."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from pto_jax.pictures import svg

_SVG = "{http://www.w3.org/2000/svg}"
#: Widths of characters in thousandths of the size of Helvetica, of which other fonts differ little.
_WIDTHS = {
    278: " !,./:;I[]\\|ftj",
    222: "il'`",
    333: '()-r"',
    500: "ckvxyszJ",
    556: "0123456789abdeghnopquL_?#$",
    584: "+<=>~*^·",
    667: "ABEKPSVXY&",
    722: "CDHNRUTFZw",
    778: "GOQ",
    833: "mM",
    889: "%W",
}
_WIDTH = {character: width / 1000 for width, characters in _WIDTHS.items() for character in characters}
_SIZES = {"title": 13.0, "small": 10.0, "tiny": 8.5}
#: Texts may touch, and stand out of a cell, by so many units.
SLACK = 1.0
SMALLEST, LETTER = 6.0, 5.0


@dataclass(frozen=True)
class Label:
    """A text with the rectangle that it covers."""

    text: str
    size: float
    left: float
    top: float
    right: float
    bottom: float

    def over(self, other: Label) -> bool:
        """Whether two texts cover each other."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        tall = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide > SLACK and tall > SLACK


def text_width(text: str, size: float) -> float:
    """The width of a text, of unknown characters as wide as a capital."""
    return size * sum(_WIDTH.get(c, 0.72) for c in text)


def labels(picture: str) -> Iterator[Label]:
    """The texts of a picture."""
    for node in ElementTree.fromstring(picture).iter(f"{_SVG}text"):
        kinds = node.get("class", "").split()
        size = next((_SIZES[k] for k in kinds if k in _SIZES), 12.0)
        own = re.search(r"font-size:([\d.]+)px", node.get("style", ""))
        size = float(own[1]) if own else size
        text = "".join(node.itertext())
        width = text_width(text, size) * (1.06 if {"title", "bold"} & set(kinds) else 1)
        x, y = float(node.get("x", 0)), float(node.get("y", 0))
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[node.get("text-anchor", "start")]
        box = (left, y - 0.72 * size, left + width, y + 0.2 * size)
        turn = re.match(r"rotate\((-?[\d.]+)", node.get("transform", ""))
        yield Label(text, size, *_turned(box, x, y, float(turn[1]) if turn else 0.0))


def _turned(
    box: tuple[float, float, float, float], x: float, y: float, degrees: float
) -> tuple[float, float, float, float]:
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    corners = [(a - x, b - y) for a in box[::2] for b in box[1::2]]
    xs = [x + a * cos - b * sin for a, b in corners]
    ys = [y + a * sin + b * cos for a, b in corners]
    return min(xs), min(ys), max(xs), max(ys)


def unreadable(picture: str) -> list[str]:
    """What is wrong with the texts of a picture: outside of it, over each other, too small."""
    root = ElementTree.fromstring(picture)
    _, _, width, height = map(float, root.get("viewBox", "0 0 0 0").split())
    found, listed = [], sorted(labels(picture), key=lambda label: label.left)
    for i, label in enumerate(listed):
        inside = label.left >= -SLACK and label.right <= width + SLACK
        if not (inside and label.top >= -SLACK and label.bottom <= height + SLACK):
            found.append(f"{label.text!r} stands out of the picture")
        if label.size < (LETTER if len(label.text) == 1 else SMALLEST):
            found.append(f"{label.text!r} has {label.size} units")
        for other in listed[i + 1 :]:
            if other.left >= label.right:
                break
            if label.over(other):
                found.append(f"{label.text!r} and {other.text!r} are over each other")
    return found


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    """The ratio of the brightness of two colours, from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(two)))
    return (light + 0.05) / (dark + 0.05)


def themes() -> dict[str, dict[str, str]]:
    """The colours of the light and of the dark theme by name."""
    listed = {"light": svg._LIGHT, "dark": svg._DARK}
    return {theme: dict(re.findall(r"--(\w+):(#\w+)", text)) for theme, text in listed.items()}
