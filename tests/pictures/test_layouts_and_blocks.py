"""Pictures of the order of elements in memory, and of the stores of blocks."""

import re
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.examples import Example, example
from pto_jax.ir import BLayout, Loc, SLayout, TileType, element_offset
from pto_jax.pictures import grid, layout

LAYOUTS = [(b, s) for b in (BLayout.ROW_MAJOR, BLayout.COL_MAJOR) for s in SLayout]


@pytest.mark.parametrize(("blayout", "slayout"), LAYOUTS, ids=lambda x: x.name)
@pytest.mark.parametrize(("dtype", "fractal"), [("f16", 512), ("i8", 512), ("f32", 1024)])
def test_numbers_are_those_of_memory(blayout: BLayout, slayout: SLayout, dtype: str, fractal: int) -> None:
    t = TileType(dtype, 32, 32, loc=Loc.MAT, blayout=blayout, slayout=slayout, fractal=fractal)
    svg = layout(t).svg
    size = t.dtype.word.itemsize
    for i, j in ((0, 1), (1, 0), (17, 3), (31, 31)):
        number = element_offset(t, i, j)
        at = f"byte {number}" if size == 1 else f"bytes {number * size} to {number * size + size - 1}"
        assert f"element [{i}, {j}]: number {number}, {at}<" in svg
    boxes = 32 // t.box[0] * (32 // t.box[1]) if t.boxed else 1
    assert svg.count('class="frame"') == boxes
    assert svg.count(">box ") == (boxes if t.boxed else 0) and f"layout {t.layout} of" in svg


def test_a_large_tile_shows_its_first_elements_and_at_most_64_boxes() -> None:
    picture = layout(pto.tile_type("f16", 256, 256, loc="mat"))
    assert "the first 16x16 elements" in picture.svg and picture.svg.count(">box ") == 64
    assert "16x16 boxes of 16x16 elements, 512 B each; the first 8x8" in picture.svg
    assert "element [0, 1]: number 1, byte 0<" in layout(pto.tile_type("f4e2m1x2", 4, 64)).svg


def test_what_has_no_layout_is_one_error() -> None:
    with pytest.raises(pto.ArgumentError, match=r"got a str; allowed: a tile type; try: pto\.tile_type"):
        layout("f16")  # type: ignore[arg-type]
    with pytest.raises(pto.ArgumentError, match=r"got vec 4x3xf32: .*allowed: a multiple of 32"):
        layout(TileType("f32", 4, 3))


def stored(name: str, blocks: int | None = None) -> str:
    found: Example = example(name)
    return grid(pto.load(found.path), found.arguments(), grid=blocks or found.grid).svg


def cells(svg: str, words: str) -> int:
    return len(re.findall(rf"\] {words}<", svg))


def test_each_block_has_the_elements_that_it_stores() -> None:
    svg = stored("rmsnorm")
    assert [cells(svg, f"block {n}") for n in range(5)] == [1024] * 4 + [0]
    assert "0 not stored, 0 stored more than once" in svg
    assert "12288 not stored" in stored("rmsnorm", blocks=1)


def test_a_window_leaves_the_rest_grey() -> None:
    svg = stored("masked_tile")
    assert "2615 not stored" in svg and 'class="grey"' in svg


def test_elements_of_several_stores_are_hatched() -> None:
    svg = stored("gemm_splitk")
    assert "16384 stored more than once" in svg and cells(svg, "block 1, stored more than once") > 0


def test_scalars_and_packed_elements_are_stores() -> None:
    assert "result f32[2]" in stored("grid_reduction")
    t, view = "!pto.tile_buf<vec, 1x64xf4e2m1x2>", "!pto.partition_tensor_view<1x64xf4e2m1x2>"
    text = f"""module attributes {{"pto.target_arch" = "a5"}} {{
      func.func @k(%x: {view}, %y: {view}) attributes {{pto.entry}} {{
        %a = pto.alloc_tile : {t}
        pto.tload ins(%x : {view}) outs(%a : {t})
        pto.tstore ins(%a : {t}) outs(%y : {view})
        return }} }}"""
    x = np.zeros((1, 64), np.uint8)
    assert grid(pto.parse(text), {"x": x, "y": x}).label.endswith("y 64 of 64 elements")


@pytest.mark.parametrize("blocks", [0, -1, 1.5, True])
def test_a_wrong_number_of_blocks_is_one_error(blocks: Any) -> None:
    found = example("vector_add")
    with pytest.raises(pto.ArgumentError, match="allowed: 1 or more"):
        grid(pto.load(found.path), found.arguments(), grid=blocks)


def test_unfit_arguments_are_one_error() -> None:
    found = example("vector_add")
    program = pto.load(found.path)
    with pytest.raises(pto.ArgumentError, match="got nothing; allowed"):
        grid(program, {})
    for other in (3, None, "x"):
        with pytest.raises(pto.ArgumentError, match=r"got .*; allowed: the arguments by name, or as a seq"):
            grid(program, other)  # type: ignore[arg-type]
    with pytest.raises(pto.ArgumentError, match="argument z: got a list of rows that differ"):
        grid(program, {**found.arguments(), "z": [[1.0], []]})
    with pytest.raises(pto.ExecutionError):
        grid(program, {n: np.zeros(8, np.float32) for n in ("x", "y", "z")})
    with pytest.raises(pto.ArgumentError, match="writes no buffer"):
        grid(pto.parse("func.func @f(%n: index) attributes {pto.entry} { return }"), [3])
