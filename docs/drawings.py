"""The pages with drawings of layouts and of valid regions, executed when the site is built."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import pto_jax as pto
from pto_jax.ir import Loc
from pto_jax.pictures.cells import cells_of, draw
from pto_jax.pictures.svg import Canvas
from pto_jax.profiles import ProfileName

#: Layouts with the parameters that give them, the memory that has them, and a sentence.
LAYOUTS = (
    ("ND", "row_major", "none_box", "vec", "Rows one after the other: the layout of vector instructions."),
    ("DN", "col_major", "none_box", "vec", "Columns one after the other: one value per row, for example."),
    ("NZ", "col_major", "row_major", "mat", "Boxes down the columns, rows inside a box."),
    ("ZN", "row_major", "col_major", "right", "Boxes along the rows, columns inside a box."),
    ("ZZ", "row_major", "row_major", "left", "Boxes along the rows, rows inside a box."),
    ("NN", "col_major", "col_major", "mat", "Boxes down the columns, columns inside a box."),
)
#: Valid rows and columns of source and destination, and a title.
REGIONS = (
    (
        "The source is larger",
        (4, 8),
        (2, 5),
        "The elements outside the destination's region keep their bytes.",
    ),
    ("Both are equal", (3, 5), (3, 5), "Every element of the region is computed."),
    ("The source is smaller", (2, 5), (4, 8), "The missing elements are what the profile reads there."),
)
PROFILES: tuple[ProfileName, ...] = ("cpu_sim", "a2a3")
_LAYOUT_PAGE = """\
# Layouts

A 32x32 tile of f16 in each layout. The numbers count the elements in the order of memory, frames are boxes,
and the line joins the first 40 elements.
"""
_REGION_PAGE = """\
# Valid regions in pictures

`tadds` adds 100 to a source with the numbers 0 to 31. The destination holds -1 before. An instruction
computes the valid region of its destination.
"""


def pages() -> Iterator[tuple[str, str]]:
    """Both pages with their pictures."""
    parts = [_LAYOUT_PAGE]
    for name, blayout, slayout, loc, text in LAYOUTS:
        t = pto.tile_type("f16", 32, 32, loc=loc, blayout=blayout, slayout=slayout)
        assert t.layout == name and t.loc == Loc[loc.upper()]
        yield f"reference/tables/layout-{name}.svg", pto.pictures.layout(t).svg
        parts += [f"## {name}", "", text, "", f"![The order of elements in {name}](layout-{name}.svg)", ""]
    yield "reference/tables/layouts.md", "\n".join(parts)
    yield from _regions()


def _regions() -> Iterator[tuple[str, str]]:
    parts = [_REGION_PAGE]
    for number, (title, source, target, text) in enumerate(REGIONS):
        parts += [f"## {title}", "", text, ""]
        for profile in PROFILES:
            file = f"region-{number}-{profile}.svg"
            yield f"reference/tables/{file}", _region(source, target, profile)
            parts += [f"![{title}, on {profile}]({file})", ""]
    yield "reference/tables/regions.md", "\n".join(parts)


def _region(source: tuple[int, int], target: tuple[int, int], profile: ProfileName) -> str:
    """The source and the destination, whose words outside its region are shown as well."""
    x = pto.tile(np.arange(32, dtype=np.float32).reshape(4, 8), valid=source)
    before = pto.tile(np.full((4, 8), -1, np.float32), valid=target)
    after = pto.ops.tadds(x, 100.0, dst=before, profile=profile)
    canvas = Canvas(480, f"tadds on {profile}: source valid {source}, destination valid {target}")
    top = draw(canvas, cells_of(x, "src"), 0)
    return canvas.picture(draw(canvas, cells_of(after, f"dst on {profile}:"), top) + 8).svg
