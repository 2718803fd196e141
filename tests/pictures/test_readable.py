"""Texts of every kind of picture are inside of it, beside each other, large enough, and of a clear colour."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.examples import EXAMPLES
from pto_jax.isa.micro import MicroOperation
from pto_jax.pictures.svg import Canvas, colour
from tests.docs.test_generated import generated as generated
from tests.pictures.geometry import contrast, themes, unreadable

SHAPES = ((1, 8), (2, 8), (16, 16), (3, 200), (16, 64), (64, 128), (128, 8))
LAYOUTS = ((16, 16), (32, 32), (64, 64), (16, 256), (512, 16), (128, 256))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("d", ["f32", "f16", "bf16", "i8", "u16", "i32", "i64", "f8e4m3"])
def test_tiles(d: str, shape: tuple[int, int]) -> None:
    words = np.random.default_rng(3).integers(0, 1 << 16, shape)
    for array in (words, words - (1 << 15), words % 7 - 3):
        with np.errstate(over="ignore"):
            values = array.astype(pto.dtype(d).numpy)
        for valid in (shape, (max(shape[0] - 1, 1), shape[1] - 1)):
            t = pto.tile(values, valid=valid)
            assert unreadable(pto.pictures.tile(t).svg) == []


@pytest.mark.parametrize(
    ("shape", "loc"), list(product(LAYOUTS, ("vec", "mat", "left", "right", "acc"))), ids=str
)
def test_layouts(shape: tuple[int, int], loc: str) -> None:
    # Boxes of bytes have 32 columns.
    for d in ("f32",) if loc == "acc" else ("f32", "f16", "i8")[: 3 if min(shape) >= 32 else 2]:
        t = pto.tile_type(d, *shape, loc=loc)
        assert unreadable(pto.pictures.layout(t).svg) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_memory_and_timeline_of_examples(name: str) -> None:
    program = pto.load(EXAMPLES[name].path)
    assert unreadable(pto.pictures.memory(program).svg) == []
    assert unreadable(pto.pictures.timeline(program).svg) == []


@pytest.mark.parametrize("family", ["registers_moves", "ub_memory"])
def test_lanes_of_registers(family: str, generated: Any) -> None:
    operations: tuple[MicroOperation, ...] = pto.isa.micro_families()[family]
    drawn = [generated.register_pages.picture(o, moves=True) for o in operations]
    assert any(drawn) and [text for svg in drawn if svg for text in unreadable(svg)] == []


@pytest.mark.slow
def test_every_picture_of_the_site(generated: Any) -> None:
    def pictures() -> Iterator[tuple[str, str]]:
        yield from generated.pages()
        yield from generated.gallery()

    wrong = {n: found for n, svg in pictures() if n.endswith(".svg") and (found := unreadable(svg))}
    assert wrong == {}


def test_colours_are_clear_in_both_themes() -> None:
    for name, colours in themes().items():
        for ink in ("ink", "soft", "over"):
            assert contrast(colours[ink], colours["paper"]) >= 4.0, (name, ink)
        assert contrast(colours["ink"], colours["outside"]) >= 4.5, name
        for ground in ("first", "reuse", "over", "nan"):
            assert contrast(colours["on"], colours[ground]) >= 3.0, (name, ground)
    for step in range(101):
        ground, ink = colour(step, 0, 100)
        assert contrast(ground, ink) >= 3.8, step


@pytest.mark.parametrize(
    ("drawn", "wrong"),
    [
        ([(10, 20, "first"), (14, 22, "second")], "over each other"),
        ([(90, 20, "too far to the right")], "stands out"),
        ([(10, 4, "too high")], "stands out"),
    ],
)
def test_unreadable_texts_are_noticed(drawn: list[tuple[int, int, str]], wrong: str) -> None:
    canvas = Canvas(120, "planted")
    for x, y, text in drawn:
        canvas.text(x, y, text)
    assert wrong in unreadable(canvas.picture(40).svg)[0]
