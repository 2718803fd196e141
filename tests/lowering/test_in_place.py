"""No compiled kernel reads what it has just overwritten (https://github.com/openxla/xla/issues/49176)."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.examples import EXAMPLES
from pto_jax.ir import F32, U32, TileType
from pto_jax.lowering import Semantics, lockstep, slicing
from pto_jax.lowering.bits import x64
from pto_jax.lowering.machine import grid, planning
from pto_jax.lowering.rules import Context
from pto_jax.oracle.interpret import run as interpret
from pto_jax.profiles import profile
from tests.lowering.in_place import OFFSETS, InPlaceProgram

Arrays = NDArray[Any]


def _bits(array: Any) -> Arrays:
    words: Arrays = np.asarray(array)
    return words.view(f"u{words.dtype.itemsize}")


def wrong_forms(program: InPlaceProgram, numerics: str = "exact") -> list[str]:
    """The ways of calling a compiled program that give other bits than the interpreter."""
    text, n = pto.parse(program.text), int(program.rng.integers(OFFSETS))
    kernel = pto.compile(text, grid=program.grid, numerics=numerics, partial_launch=True, warn=False)

    def expected(x: Arrays, y: Arrays) -> Arrays:
        return _bits(interpret(text, [x, y, n], grid=program.grid, partial_launch=True)["y"])

    x, y = program.arrays(3)
    batch = jax.jit(jax.vmap(lambda x, y: kernel(x, y, n)["y"]))(x, y)
    one = jax.jit(lambda both: kernel(both, both, n)["y"])(y[0])
    results = {
        "call": (kernel(x[0], y[0], n)["y"], expected(x[0], y[0])),
        "jit(vmap)": (batch, np.stack([expected(a, b) for a, b in zip(x, y, strict=True)])),
        "one array for both buffers": (one, expected(y[0], y[0])),
    }
    return [form for form, (result, right) in results.items() if (_bits(result) != right).any()]


#: Seeds of programs of which each was wrong in some form.
WRONG_ONCE = [(10, 1), (13, 3), (21, 1), (29, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "blocks"), WRONG_ONCE)
def test_no_kernel_reads_what_it_has_overwritten(seed: int, blocks: int) -> None:
    assert wrong_forms(InPlaceProgram(np.random.default_rng(seed), blocks)) == []


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("seed", range(1000, 1030))
def test_no_random_kernel_reads_what_it_has_overwritten(seed: int, blocks: int) -> None:
    assert wrong_forms(InPlaceProgram(np.random.default_rng(seed), blocks)) == []


def _parsed(text: str, **replacements: str) -> pto.Program:
    for word, meaning in (replacements | TYPES).items():
        text = text.replace(word, meaning)
    return pto.parse(text)


def _shifted(update: Any) -> list[str]:
    """The ways in which an update of an array by its own elements is wrong."""
    words = np.arange(1, 25, dtype=np.uint32)
    right = np.concatenate([words[:8], words[:16] * words[8:]])

    def flat(words: Any) -> Any:
        line = words.reshape(24)
        return update(line, line[0:16] * line[8:24], (8,))

    def reshaped(words: Any) -> Any:
        return update(words.reshape(24), (words[:, 0:16] * words[:, 8:24]).reshape(16), (8,))

    def is_wrong(function: Any) -> bool:
        one = jax.jit(function)(words[None])
        some = jax.jit(jax.vmap(function))(np.stack([words[None]] * 3))
        return bool((one != right).any() or (some != right).any())

    return [f.__name__ for f in (flat, reshaped) if is_wrong(f)]


@pytest.mark.slow
def test_an_update_is_right_and_without_its_guard_as_wrong_as_xla_is(monkeypatch: Any) -> None:
    assert _shifted(slicing.with_slice) == []
    wrong = _shifted(lambda whole, part, starts: lax.dynamic_update_slice(whole, part, starts))
    monkeypatch.setattr(slicing, "computed_before", lambda *arrays: arrays)
    assert set(_shifted(slicing.with_slice)) <= set(wrong)
    # What is left to prove where XLA is right: that the guard was what kept these programs right.
    if wrong:
        jax.clear_caches()  # type: ignore[no-untyped-call]
        assert wrong_forms(InPlaceProgram(np.random.default_rng(10))) != []


@pytest.mark.variants(2)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.float32, jnp.bfloat16, np.int16])
def test_arrays_are_computed_before_what_uses_them_and_keep_their_bits(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    array = rng.integers(0, 255, (3, 5, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
    with x64():
        one, number = jax.jit(lambda a: slicing.computed_before(a, 7))(array)
        batch = jax.jit(jax.vmap(lambda a: slicing.computed_before(a)[0]))(array)
        empty = slicing.computed_before(jnp.zeros((0, 3), dtype))[0]
    assert (_bits(one) == _bits(array)).all() and (_bits(batch) == _bits(array)).all()
    assert int(number) == 7 and empty.shape == (0, 3)
    compiled = jax.jit(lambda a: slicing.computed_before(a + a)[0]).lower(array).compile().as_text()
    assert compiled is not None and " while(" in compiled


SUBVIEWS = """module attributes {pto.target_arch = "a5"} {
func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %vx = pto.make_tensor_view %x, shape = [%c8, %c32], strides = [%c32, %c1] : !view
  %wx = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c8, %c32] : !view -> !window
  %vy = pto.make_tensor_view %y, shape = [%c8, %c32], strides = [%c32, %c1] : !view
  %wy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c8, %c32] : !view -> !window
  %t = pto.alloc_tile : !whole
  %a = pto.subview %t[%c0, %c0] sizes [4, 16] : !whole -> !part
  %b = pto.subview %t[ROW, COLUMN] sizes [4, 16] : !whole -> !part
  pto.tload ins(%wx : !window) outs(%t : !whole)
  pto.tmul ins(%a, %b : !part, !part) outs(%b : !part)
  pto.tadd ins(%b, %a : !part, !part) outs(%a : !part)
  pto.tstore ins(%t : !whole) outs(%wy : !window)
  return
} }"""
TYPES = {
    "!whole": "!pto.tile_buf<vec, 8x32xf32>",
    "!part": "!pto.tile_buf<vec, 4x16xf32>",
    "!view": "!pto.tensor_view<?x?xf32>",
    "!window": "!pto.partition_tensor_view<8x32xf32>",
    "!small_window": "!pto.partition_tensor_view<8x8xf32>",
    "!small_tile": "!pto.tile_buf<vec, 8x8xf32>",
}


@pytest.mark.variants(1)
@pytest.mark.parametrize(("row", "column"), [("%c1", "%c8"), ("%n", "%c8"), ("%c1", "%c0")])
def test_windows_of_one_tile_that_overlap_are_computed_from_what_was_there(row: str, column: str) -> None:
    program = _parsed(SUBVIEWS, ROW=row, COLUMN=column)
    x = np.random.default_rng(0).integers(-9, 9, (3, 256)).astype(np.float32)
    y = np.zeros_like(x)
    right = np.stack([interpret(program, [a, b, 1])["y"] for a, b in zip(x, y, strict=True)])
    kernel = pto.compile(program)
    assert (np.asarray(kernel(x[0], y[0], 1)["y"]) == right[0]).all()
    assert (np.asarray(jax.jit(jax.vmap(lambda a, b: kernel(a, b, 1)["y"]))(x, y)) == right).all()


def test_blocks_put_together_take_nothing_that_they_have_overwritten() -> None:
    part = grid.Part(np.array([0, 4, 8]), 4, np.repeat(np.arange(3, dtype=np.int32), 4))
    gaps = grid.Part(np.array([0, 5, 10]), 4, np.full(20, 0, np.int32))

    def turned(part: grid.Part, words: Any) -> Any:
        return part.put(words, part.taken(words, U32)[::-1])

    words = np.arange(20, dtype=np.uint32)
    for p in (part, gaps):
        assert (jax.jit(lambda w, p=p: turned(p, w))(words) == turned(p, jnp.asarray(words))).all()


PARTS = """module attributes {pto.target_arch = "a5"} {
func.func @k(%y: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %to = arith.constant OFFSET : index
  %v = pto.make_tensor_view %y, shape = [%c32, %c8], strides = [%c8, %c1] : !view
  %from = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c8] : !view -> !small_window
  %into = pto.partition_view %v, offsets = [%to, %c0], sizes = [%c8, %c8] : !view -> !small_window
  %t = pto.alloc_tile : !small_tile
  pto.tload ins(%from : !small_window) outs(%t : !small_tile)
  pto.tstore ins(%t : !small_tile) outs(%into : !small_window)
  return
} }"""


@pytest.mark.parametrize(("offset", "independent"), [(8, True), (20, True), (7, False), (0, False)])
def test_windows_that_never_meet_are_updated_in_place(offset: int, independent: bool) -> None:
    program = _parsed(PARTS, OFFSET=str(offset))
    assert bool(planning.independent(program, "k")) is independent
    compiled = (
        jax.jit(pto.compile(program)._calls.whole).lower(np.zeros(256, np.float32), 0).compile().as_text()
    )
    assert compiled is not None and (" while(" in compiled) is not independent


def test_lockstep_with_one_opcode_reads_nothing_that_it_has_overwritten() -> None:
    tile = TileType(F32, 16, 16)
    context = Context("ttrans", (("dst", tile), ("src", tile)), (), ("src",), Semantics(profile("a5")))
    branches = (lockstep.Branch(context, ("dst", "src"), ()),)
    words = np.arange(3 * 512, dtype=np.uint32).reshape(3, 2, 256)
    slots = np.array([[[0, 0, 0, 0]], [[1, 1, 0, 0]], [[1, 0, 0, 0]]], np.int32)
    sizes = np.full((3, 2, 2), 16, np.int32)
    programs = lockstep.Programs(np.zeros((3, 1), np.int32), slots, np.zeros((3, 1, 2), np.uint32), sizes)
    with x64():
        run = partial(lockstep.run_switched, branches)
        results = np.asarray(jax.jit(lambda p, r: lax.map(lambda both: run(*both), (p, r)))(programs, words))
    expected = words.reshape(3, 2, 16, 16).copy()
    for number, (destination, source) in enumerate([(0, 0), (1, 1), (1, 0)]):
        expected[number, destination] = words.reshape(3, 2, 16, 16)[number, source].T
    assert (results == expected.reshape(3, 2, 256)).all()


@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("donated", [False, True], ids=["kept", "donated"])
def test_a_choice_over_a_whole_buffer_needs_no_copy_of_it(numerics: str, donated: bool) -> None:
    """A part with a valid region of run time, in a buffer that the source is computed from."""
    example = EXAMPLES["masked_tile"]
    program = pto.parse(example.path.read_text())
    kernel = pto.compile(program, numerics=numerics)
    y = np.random.default_rng(0).normal(size=(40, 80)).astype(np.float32)
    x = np.roll(y, 7, axis=(0, 1)) + y[::-1]
    expected = interpret(program, [x, y, 29, 50])["y"]

    def nested(y: Any) -> Any:
        return kernel(jnp.roll(y, 7, axis=(0, 1)) + y[::-1], y, 29, 50)["y"]

    call = jax.jit(nested, donate_argnums=0 if donated else ())
    assert np.array_equal(call(jnp.asarray(y)), expected)
    compiled: Any = jax.jit(nested).lower(y).compile().as_text()
    assert "dynamic-update-slice" not in compiled
