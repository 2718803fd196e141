"""The picture of the README, a tile before and after a saturating conversion, and those of two tutorials.

``python -m tools.pictures --update`` writes them into ``docs/_static``; a test compares the bytes.
"""

from __future__ import annotations

import linecache
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

import pto_jax as pto
from pto_jax.pictures import Picture
from pto_jax.pictures.cells import cells_of, draw
from pto_jax.pictures.svg import Canvas

DOCS = Path(__file__).parents[1] / "docs"
PICTURE = DOCS / "_static/tile.svg"
TUTORIAL = DOCS / "tutorials/first_kernel.md"
RANKS = DOCS / "tutorials/two_processors.md"
#: Rows x columns of the tile, and those that are valid.
SHAPE, VALID = (4, 16), (3, 10)
PROGRAM = "%z = taddreluconv %x, %x : (!pto.tile<f32, 4, 16>, !pto.tile<f32, 4, 16>) -> !pto.tile<f16, 4, 16>"


def picture() -> Picture:
    """The argument above the result, with the instruction between them."""
    numbers = ((np.arange(64).reshape(SHAPE) * 17 % 49) - 8) * np.float32(1000)
    numbers[1, 4] = np.nan
    x = pto.tile(numbers.astype(np.float32), valid=VALID)
    # The sum of two arguments of which only a part is valid.
    typed = PROGRAM.replace("16>", "16, valid=3x10>")
    z = pto.compile(pto.parse(typed), profile="a2a3")(numbers.astype(np.float32))["z"]
    canvas = Canvas(
        480, "A tile of 4x16 numbers, 3x10 of them valid, before and after a saturating conversion"
    )
    middle = draw(canvas, cells_of(x, "x"), 0)
    canvas.path(f"M240 {middle + 4}v30", "arrow")
    canvas.text(228, middle + 17, "%z = taddreluconv %x, %x", "bold", anchor="end")
    canvas.text(252, middle + 17, "x + x, negative numbers to 0, to f16,", "soft small")
    canvas.text(252, middle + 30, "numbers beyond 65504 become 65504", "soft small")
    return canvas.picture(draw(canvas, cells_of(z, "z"), middle + 34) + 8)


def of_the_tutorial() -> dict[Path, Picture]:
    """On-chip memory and pipes of the kernel that the tutorial defines first."""
    match = re.search(r"^```python\n(.*?)^```$", TUTORIAL.read_text(encoding="utf-8"), re.M | re.S)
    assert match is not None
    source, name = match[1].partition("\n\n\nX = ")[0], "first_kernel.py"
    # The builder names values after the variables of the source.
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {}
    exec(compile(source, name, "exec"), names)
    program = names["narrow"].program
    return {
        DOCS / "_static/narrow-memory.svg": pto.pictures.memory(program),
        DOCS / "_static/narrow-pipes.svg": pto.pictures.timeline(program, arguments={"rows": 40}),
    }


def of_ranks() -> dict[Path, Picture]:
    """Copies and signals of the program on two processors that a tutorial shows first."""
    match = re.search(r":caption: swap\.pto\n\n(.*?)^```$", RANKS.read_text(encoding="utf-8"), re.M | re.S)
    assert match is not None
    peers = {"far_inbox": ("inbox", [1, 0]), "far_arrived": ("arrived", [1, 0])}
    swap = pto.compile(pto.parse(match[1], file="swap.pto"), ranks=2, peers=peers)
    x, signals = np.zeros((2, 64), np.float32), np.zeros((2, 1), np.int32)
    drawn = pto.pictures.ranks(swap, {"x": x, "inbox": x, "arrived": signals, "y": x})
    return {DOCS / "_static/two-ranks.svg": drawn}


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit("usage: python -m tools.pictures --update")
    for path, drawn in {PICTURE: picture(), **of_the_tutorial(), **of_ranks()}.items():
        drawn.save(path)
