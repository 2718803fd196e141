"""Texts of every kind of picture are inside of it, beside each other, large enough, and of a clear colour."""

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


@pytest.mark.variants(3)
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


LONG = "a_function_of_a_compiler_with_a_name_of_more_than_eighty_characters_as_tools_write_them"
#: Two tiles of the same bytes that are in use at the same time, and long names.
NAMES = f"""
!view = !pto.tensor_view<?x?xf32>
!window = !pto.partition_tensor_view<16x64xf32>
!a = !pto.tile_buf<vec, 16x64xf32>
!b = !pto.tile_buf<vec, 64x16xf32>
func.func @{LONG}(%{LONG}: !pto.ptr<f32>) attributes {{pto.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %at = arith.constant 0 : i64
  %v = pto.make_tensor_view %{LONG}, shape = [%c16, %c64], strides = [%c64, %c1] : !view
  %a = pto.alloc_tile addr = %at : !a
  %b = pto.alloc_tile addr = %at : !b
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : !view -> !window
  pto.tload ins(%w : !window) outs(%a : !a)
  pto.tneg ins(%b : !b) outs(%b : !b)
  pto.tneg ins(%b : !b) outs(%b : !b)
  pto.tneg ins(%a : !a) outs(%a : !a)
  pto.tneg ins(%b : !b) outs(%b : !b)
  pto.tstore ins(%a : !a) outs(%w : !window)
  return
}}
"""


def test_long_names_lose_their_middle_and_names_of_the_same_bytes_stand_alone() -> None:
    program, x = pto.parse(NAMES), np.ones((16, 64), np.float32)
    drawn = {
        "memory": pto.pictures.memory(program),
        "timeline": pto.pictures.timeline(program),
        "grid": pto.pictures.grid(program, [x], grid=1),
        "tile": pto.pictures.tile(x, name=LONG),
    }
    assert {kind: unreadable(picture.svg) for kind, picture in drawn.items()} == {kind: [] for kind in drawn}
    assert all(LONG[:20] in p.svg for p in drawn.values()) and ">%a<" in drawn["memory"].svg


@pytest.mark.variants(1)
@pytest.mark.parametrize("family", ["registers_moves", "ub_memory"])
def test_lanes_of_registers(family: str, generated: Any) -> None:
    operations: tuple[MicroOperation, ...] = pto.isa.micro_families()[family]
    drawn = [generated.register_pages.picture(o, moves=True) for o in operations]
    assert any(drawn) and [text for svg in drawn if svg for text in unreadable(svg)] == []


@pytest.mark.nightly
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
        ([(116, 20, "left")], "stands out"),
        ([(10, 4, "too high")], "stands out"),
    ],
)
def test_unreadable_texts_are_noticed(drawn: list[tuple[int, int, str]], wrong: str) -> None:
    canvas = Canvas(120, "planted")
    for x, y, text in drawn:
        canvas.text(x, y, text)
    assert wrong in unreadable(canvas.picture(40).svg)[0]
