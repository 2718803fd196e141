"""Arguments of kernels: arrays of other libraries, and the message for what is no argument."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto

Source = Callable[..., Any]
ONES = np.ones((8, 64), np.float32)


class Exporting:
    """What torch and CuPy tensors are to others: a type of their own, and DLPack."""

    def __init__(self, array: Any, fails: str = "") -> None:
        self.array, self.fails = array, fails
        self.dtype, self.shape = "tensor.dtype", array.shape

    def __dlpack__(self, **options: Any) -> Any:
        if self.fails:
            raise BufferError(self.fails)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Framed:
    """What pandas objects are to others."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.array, dtype)


@pytest.fixture(name="add", scope="module")
def _add() -> pto.Kernel:
    """Twice its argument, of any element type."""
    return pto.compile(pto.parse("%d = tadd %a, %a"), profile="a5")


@pytest.fixture(name="stored")
def _stored(source: Source) -> pto.Kernel:
    """A kernel on buffers and scalars, for errors only."""
    s = source("%x: !pto.ptr<f32>, %n: i64, %i: index, %f: f32").view("%a", "%x", (8, 64), (64, 1))
    return pto.compile(s.tile("%t", "f32", 8, 64).load("%a", "%t").store("%t", "%a").program)


@pytest.mark.parametrize(
    "wrap",
    [
        Exporting,
        Framed,
        lambda x: x.astype(x.dtype.newbyteorder(">")),
        lambda x: Exporting(np.asfortranarray(x)),
        lambda x: Exporting(np.stack([x, x], -1)[..., 0]),
        lambda x: x.tolist(),
    ],
    ids=["dlpack", "__array__", "big-endian", "transposed", "strided", "lists"],
)
def test_arrays_of_other_libraries_and_byte_orders(add: pto.Kernel, wrap: Callable[[Any], Any]) -> None:
    x = np.arange(512, dtype=np.float32).reshape(8, 64)
    made = pto.tile(wrap(x))
    assert made.type.dtype.name == "f32" and (np.asarray(made) == x).all()
    if not isinstance(wrap(x), list):
        assert (np.asarray(add(wrap(x))["d"]) == 2 * x).all()


@pytest.mark.parametrize("wrap", [Exporting, Framed, lambda x: x.astype(x.dtype.newbyteorder(">"))])
def test_functions_take_arrays_of_other_libraries(wrap: Callable[[Any], Any]) -> None:
    x = np.arange(512, dtype=np.float32).reshape(8, 64)
    np.testing.assert_array_equal(pto.ops.tadd(wrap(x), wrap(x)).array, 2 * x)
    np.testing.assert_array_equal(
        pto.ops.tadds(wrap(x), wrap(np.array(1, np.float32)), dst=wrap(x)).array, x + 1
    )
    np.testing.assert_array_equal(pto.ops.tadd(wrap(x), wrap(x), dst=np.float32).array, 2 * x)


@pytest.mark.parametrize("d", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int64, np.uint8])
def test_element_types_through_dlpack(d: Any) -> None:
    with jax.enable_x64(True):
        given = (jnp.arange(512) % 16).reshape(8, 64).astype(d)
    made = pto.tile(Exporting(given))
    assert np.asarray(made).dtype == d and (np.asarray(made) == np.asarray(given)).all()


FIELDS = np.zeros((8, 64), [("re", np.float16), ("im", np.float16)])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "argument 'x': got None; allowed: an array of NumPy or JAX, an object with __dlpack__ or "),
        ("ones", "argument 'x': got the text 'ones'; allowed: an array of NumPy or JAX"),
        ({"a": 1}, "argument 'x': got dict; allowed: an array of NumPy or JAX"),
        ([[1.0, 2.0], [3.0]], "argument 'x': got the list .*; allowed: f32$"),
        (["1"], "argument 'x': got the list .*; allowed: f32"),
        (np.array(["a"]), "argument 'x': got an array of <U1; allowed: an array of numbers"),
        (np.array([None]), "argument 'x': got an array of object; allowed: an array of numbers"),
        (np.array(["2020"], "M8[s]"), r"got an array of datetime64\[s\]; allowed: an array of numbers"),
        (FIELDS, "a structured array with the fields re, im; allowed: one field of it, as in x\\['re'\\]"),
        (np.ma.masked_less(ONES, 0), r"got a masked array; allowed: .*, as in x\.filled\(0\)"),
        (jax.random.key(0), r"got an array of key<fry>; allowed: .*, as jax\.random\.key_data\(x\)"),
        (ONES.astype(">f8"), "got an array of float64; allowed: f32"),
        (ONES.astype(complex), "got an array of complex128; allowed: f32"),
        (
            Exporting(ONES, fails="requires gradient"),
            r"got .*Exporting that DLPack refuses \(requires gradient\); allowed: .*; try: .*detach",
        ),
        (pto.Tile(jnp.zeros((8, 64), np.uint32), None, None, pto.TileType(pto.dtype("f32"), 8, 64)),
         "got a Tile; allowed: ptr<f32>; try: its elements, t.array"),
    ],
)  # fmt: skip
def test_what_is_no_buffer(stored: pto.Kernel, value: Any, message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        stored(value, 1, 1, 1.0)


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ("%d = tneg %a", np.ones((4, 8, 64), np.float32), r"got shape \(4, 8, 64\); .*: jax.vmap\(ker"),
        ("%d = tneg %a : !pto.tile<8x64xf32>", np.ones((4, 8, 64), np.float32), r"jax.vmap\(kernel\)$"),
        ("%d = tneg %a : !pto.tile<8x64xf32>", np.ones((4, 9, 64), np.float32), "allowed: vec 8x64xf32$"),
        ("%d = tneg %a", np.ones(64, np.float32), r"allowed: a Tile, a \[rows, cols\] array or a number$"),
        ("%d = tneg %a", "text", "argument 'a': got the text 'text'; allowed: an array"),
    ],
)  # fmt: skip
def test_tiles_of_another_shape(text: str, value: Any, message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        pto.compile(pto.parse(text))(value)


def test_a_batch_is_no_tile_and_no_scalar(stored: pto.Kernel) -> None:
    with pytest.raises(pto.ArgumentError, match=r"try: jax.vmap\(pto.tile\)\(x\)"):
        pto.tile(np.ones((4, 8, 64), np.float32))
    with pytest.raises(pto.ArgumentError, match=r"argument 'f': got shape \(8,\); .*: jax.vmap\(kernel\)"):
        stored(ONES, 1, 1, np.ones(8, np.float32))


def test_integers_that_vmap_narrows(stored: pto.Kernel) -> None:
    """A batch of int64 reaches the kernel as int32; numbers that fit are what they were."""
    batched = jax.vmap(stored, in_axes=(None, 0, 0, None))
    small, large = np.arange(2), np.array([1, 2**40])
    with pytest.raises(pto.ArgumentError, match=r"'n': got an array of int32; .*\(int64 given under vmap\)"):
        batched(ONES, small, small, 1.0)
    with jax.enable_x64(True), pytest.raises(pto.ArgumentError, match="'f': got an array of int64"):
        jax.vmap(stored, in_axes=(None, 0, 0, 0))(ONES, large, large, large)
    with pytest.raises(pto.ArgumentError, match=r"'i': got 1099511627776 in an array of int64, which JAX"):
        jax.vmap(stored, in_axes=(None, None, 0, None))(ONES, 1, large, 1.0)
