"""A window whose result has another rank than its view: judged, executed, launched and queried."""

import math

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

Dims = tuple[int, ...]
#: Extents of the view, where its window begins, sizes, extents of the result type (0: known at run time).
RANKS = [
    ((64,), (0,), (64,), (1, 64)),
    ((64,), (16,), (32,), (1, 1, 1, 1, 32)),
    ((64,), (16,), (32,), (1, 0)),
    ((16, 64), (4, 8), (8, 32), (1, 1, 1, 8, 32)),
    ((16, 64), (4, 8), (8, 32), (1, 0, 0)),
    ((4, 16, 64), (2, 4, 8), (1, 8, 32), (8, 32)),
    ((4, 16, 64), (2, 4, 8), (1, 1, 32), (32,)),
    ((1, 2, 4, 16, 64), (0, 1, 2, 4, 8), (1, 1, 1, 8, 32), (8, 32)),
    ((1, 2, 4, 16, 64), (0, 1, 0, 4, 8), (1, 1, 2, 8, 32), (16, 32)),
    ((4, 16, 64), (1, 0, 8), (2, 16, 32), (32, 32)),
]


def strides_of(extents: Dims) -> Dims:
    """Strides of rows that are 8 elements apart more than they are long."""
    found = [1]
    for i, n in enumerate(reversed(extents[1:])):
        found.insert(0, found[0] * n + (8 if i == 0 else 0))
    return tuple(found)


def dims_text(dims: Dims) -> str:
    return "x".join(str(n) if n else "?" for n in dims) + "xf32"


def program(extents: Dims, offsets: Dims, sizes: Dims, dims: Dims, numbers: str) -> pto.Program:
    """``y`` becomes ``x + 1`` in a window; ``numbers``: its offsets and sizes are constants or arguments."""
    strides, v_row, v_col = strides_of(extents), math.prod(sizes[:-1]), sizes[-1]
    lines = [f"%c{n} = arith.constant {n} : index" for n in sorted({*extents, *strides, *offsets, *sizes})]
    lines.append("%one = arith.constant 1.0 : f32")

    def listed(values: Dims, word: str) -> str:
        if numbers == "constants" or word in ("shape", "strides"):
            return ", ".join(f"%c{n}" for n in values)
        return ", ".join(f"%{word}{i}" for i in range(len(values)))

    whole = f"!pto.tensor_view<{'x'.join('?' * len(extents))}xf32>"
    part, tile = f"!pto.partition_tensor_view<{dims_text(dims)}>", f"!pto.tile_buf<vec, {v_row}x{v_col}xf32>"
    for name, pointer in (("a", "x"), ("b", "y")):
        lines.append(
            f"%{name} = pto.make_tensor_view %{pointer}, shape = [{listed(extents, 'shape')}], "
            f"strides = [{listed(strides, 'strides')}] : {whole}"
        )
        lines.append(
            f"%{name}w = pto.partition_view %{name}, offsets = [{listed(offsets, 'offset')}], "
            f"sizes = [{listed(sizes, 'size')}] : {whole} -> {part}"
        )
    lines += [
        f"%t = pto.alloc_tile : {tile}",
        f"pto.tload ins(%aw : {part}) outs(%t : {tile})",
        f"pto.tadds ins(%t, %one : {tile}, f32) outs(%t : {tile})",
        f"pto.tstore ins(%t : {tile}) outs(%bw : {part})",
    ]
    arguments = ["%x: !pto.ptr<f32>", "%y: !pto.ptr<f32>"]
    if numbers == "arguments":
        arguments += [f"%{w}{i}: index" for w in ("offset", "size") for i in range(len(sizes))]
    text = "\n".join(lines)
    return pto.parse(f"func.func @k({', '.join(arguments)}) attributes {{pto.entry}} {{\n{text}\nreturn\n}}")


@pytest.mark.variants(0)
@pytest.mark.parametrize("numbers", ["constants", "arguments"])
@pytest.mark.parametrize(("extents", "offsets", "sizes", "dims"), RANKS, ids=str)
def test_a_window_of_another_rank_has_the_elements_of_its_sizes(
    extents: Dims, offsets: Dims, sizes: Dims, dims: Dims, numbers: str
) -> None:
    given = program(extents, offsets, sizes, dims, numbers)
    assert not [d for d in pto.verify(given) if d.severity == "error"]
    count = extents[0] * strides_of(extents)[0]
    x, y = np.arange(count, dtype=np.float32), np.full(count, -1, np.float32)
    places = np.indices(sizes).reshape(len(sizes), -1) + np.array(offsets)[:, None]
    at = (places * np.array(strides_of(extents))[:, None]).sum(0)
    expected = y.copy()
    expected[at] = x[at] + 1
    scalars = (*offsets, *sizes) if numbers == "arguments" else ()
    kernel = pto.compile(given)
    np.testing.assert_array_equal(kernel(x, y, *scalars)["y"], expected)
    batch = jax.vmap(lambda a: kernel(a, y, *scalars)["y"])(np.stack([x, x + 1]))
    np.testing.assert_array_equal(batch[0], expected)
    np.testing.assert_array_equal(oracle.run(given, (x, y, *scalars))["y"], expected)
    assert not pto.sanitize(given, (x, y, *scalars)).findings
    assert pto.cost(given).lines


BRANCHES = """
func.func @k(%y: !pto.ptr<f32>, %n: index, %which: i1) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %v = pto.make_tensor_view %y, shape = [%c8, %c8, %c16], strides = [%c128, %c16, %c1]
    : !pto.tensor_view<?x?x?xf32>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 8x16xf32>
  pto.texpands ins(%one : f32) outs(%t : !pto.tile_buf<vec, 8x16xf32>)
  %w = scf.if %which -> (!pto.partition_tensor_view<8x16xf32>) {
    %a = pto.partition_view %v, offsets = [%n, %c0, %c0], sizes = [%c1, %c8, %c16]
      : !pto.tensor_view<?x?x?xf32> -> !pto.partition_tensor_view<8x16xf32>
    scf.yield %a : !pto.partition_tensor_view<8x16xf32>
  } else {
    %b = pto.partition_view %v, offsets = [%c0, %c0, %c0], sizes = [%n, %c8, %c16]
      : !pto.tensor_view<?x?x?xf32> -> !pto.partition_tensor_view<8x16xf32>
    scf.yield %b : !pto.partition_tensor_view<8x16xf32>
  }
  pto.tstore ins(%t : !pto.tile_buf<vec, 8x16xf32>) outs(%w : !pto.partition_tensor_view<8x16xf32>)
  return
}
"""


@pytest.mark.parametrize("which", [True, False])
def test_branches_hand_on_windows_with_leading_dimensions_and_without(which: bool) -> None:
    given, y = (
        pto.parse(BRANCHES.replace("%one =", "%c128 = arith.constant 128 : index\n  %one =")),
        np.zeros((8, 8, 16)),
    )
    expected, y = y.astype(np.float32), y.astype(np.float32)
    expected[int(which)] = 1
    for found in (pto.compile(given)(y, 1, which), oracle.run(given, (y, 1, which))):
        np.testing.assert_array_equal(found["y"], expected)


QUERIES = """
func.func @k(%y: !pto.ptr<i32>, %x: !pto.ptr<f32>, %two: index) attributes {{pto.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %v = pto.make_tensor_view %x, shape = [%c4, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%two, %c16]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<{dims}xf32>
  %a = pto.get_tensor_view_dim %w, %{dim} : !pto.partition_tensor_view<{dims}xf32> -> index
  %b = pto.get_tensor_view_stride %w, %{dim} : !pto.partition_tensor_view<{dims}xf32> -> index
  %ai = arith.index_cast %a : index to i32
  %bi = arith.index_cast %b : index to i32
  pto.store_scalar %ai, %y[%c0] : !pto.ptr<i32>, i32
  pto.store_scalar %bi, %y[%c1] : !pto.ptr<i32>, i32
  return
}}
"""


@pytest.mark.parametrize(
    ("dims", "dim", "expected"),
    [("1x?x16", "c0", (1, 64)), ("1x?x16", "c1", (2, 16)), ("16", "c0", (16, 1)), ("1x1x?x?", "c1", (1, 64))],
)
def test_extents_and_strides_are_counted_from_the_last_dimension(
    dims: str, dim: str, expected: tuple[int, int]
) -> None:
    given = pto.parse(QUERIES.format(dims=dims, dim=dim))
    arguments = (np.zeros(2, np.int32), np.zeros(64, np.float32), 2)
    for found in (pto.compile(given)(*arguments), oracle.run(given, arguments)):
        assert tuple(np.asarray(found["y"])) == expected


BLOCKS = """
func.func @k(%y: !pto.ptr<f32>) attributes {{pto.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c128 = arith.constant 128 : index
  %one = arith.constant 1.0 : f32
  %b64 = pto.get_block_idx
  %b = arith.index_cast %b64 : i64 to index
  %v = pto.make_tensor_view %y, {view}
  %t = pto.alloc_tile : !pto.tile_buf<vec, {tile}xf32>
  pto.texpands ins(%one : f32) outs(%t : !pto.tile_buf<vec, {tile}xf32>)
  %w = pto.partition_view %v, {window} -> !pto.partition_tensor_view<{dims}xf32>
  pto.tstore ins(%t : !pto.tile_buf<vec, {tile}xf32>) outs(%w : !pto.partition_tensor_view<{dims}xf32>)
  return
}}
"""
_ONE = "shape = [%c128], strides = [%c1] : !pto.tensor_view<?xf32>"
_ONE_PART = "offsets = [%n], sizes = [%c16] : !pto.tensor_view<?xf32>"
_THREE = "shape = [%c8, %c1, %c16], strides = [%c16, %c16, %c1] : !pto.tensor_view<?x?x?xf32>"
_THREE_PART = "offsets = [%b, %c0, %c0], sizes = [%c1, %c1, %c16] : !pto.tensor_view<?x?x?xf32>"


@pytest.mark.parametrize(
    ("view", "window", "dims"),
    [
        (_ONE, _ONE_PART, "1x16"),
        (_ONE, _ONE_PART, "1x1x1x1x16"),
        (_THREE, _THREE_PART, "1x16"),
        (_THREE, _THREE_PART, "1x1x1x1x16"),
    ],
)
def test_blocks_of_a_launch_write_windows_of_another_rank(view: str, window: str, dims: str) -> None:
    text = BLOCKS.format(view=view, window=window, tile="1x16", dims=dims)
    text = text.replace("  %v =", "  %n = arith.muli %b, %c16 : index\n  %v =")
    program = pto.parse(text)
    y = np.zeros(128, np.float32)
    np.testing.assert_array_equal(pto.compile(program, grid=8)(y)["y"], 1)
    np.testing.assert_array_equal(oracle.run(program, (y,), grid=8)["y"], 1)
    for grid, word in ((7, "writes? 112 of the 128 elements"), (9, "block 8 of 0 to 8")):
        with pytest.raises(pto.VerifyError, match=word):
            pto.compile(program, grid=grid)


WRONG = """
func.func @k(%x: !pto.ptr<f32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %v = pto.make_tensor_view %x, shape = [%c32, %c64], strides = [%c64, %c1] : !pto.tensor_view<32x64xf32>
  %w = pto.partition_view %v, offsets = [{offsets}], sizes = [{sizes}]
    : !pto.tensor_view<32x64xf32> -> !pto.partition_tensor_view<{dims}xf32>
  return
}}
"""


@pytest.mark.parametrize(
    ("offsets", "sizes", "dims", "wrong"),
    [
        ("%c0, %c0", "%c32, %c64", "1x16x64", None),
        ("%c0, %c0", "%c32, %c64", "64", None),
        ("%c0, %c0", "%c32, %c64", "32x32", "sizes[1] = 64, the type says 32"),
        ("%c0", "%c64", "64", "got 1 of offsets for 2 dimensions; allowed: 2"),
        ("%c0, %c0, %c0", "%c1, %c32, %c64", "1x32x64", "got 3 of offsets for 2 dimensions; allowed: 2"),
        ("%c1, %c0", "%c32, %c64", "1x32x64", "window [1, 33) of an extent of 32"),
        ("%c0, %c0", "%c64, %c64", "1x64x64", "window [0, 64) of an extent of 32"),
    ],
)
def test_extents_are_compared_at_equal_ranks_only(
    offsets: str, sizes: str, dims: str, wrong: str | None
) -> None:
    found = pto.verify(pto.parse(WRONG.format(offsets=offsets, sizes=sizes, dims=dims)))
    messages = [d.message for d in found if d.severity == "error"]
    assert [wrong] == [wrong for m in messages if wrong in m] if wrong else not messages, messages
