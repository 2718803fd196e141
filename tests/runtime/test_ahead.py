"""Kernels ahead of time: lowered and exported, with arrays and tiles."""

from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.run import generate_inputs
from pto_jax.examples import EXAMPLES
from pto_jax.runtime.tiles import _type_of_text, _type_text

ADD = pto.compile(pto.load(EXAMPLES["vector_add"].path))
TADD = pto.compile(pto.parse("%d = tadd %a, %b : !pto.tile<8x8xf32>"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)


def symbolic(*shape: Any, dtype: Any = np.float32) -> Any:
    """An array that has no values, for sizes that may be symbols."""
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def test_shapes_follow_from_the_program_or_are_given() -> None:
    ones = [jnp.ones(4096, jnp.float32)] * 3
    for lowered in (ADD.lower(), ADD.lower(*ones), ADD.lower(z=ones[0], x=ones[0], y=ones[0])):
        assert "stablehlo" in lowered.as_text()
    assert (ADD.lower().compile()(*ones)["z"] == 2).all()


@pytest.mark.slow
def test_a_kernel_is_exported_for_several_platforms() -> None:
    exported: Any = ADD.export(platforms=("cpu", "cuda"))
    assert exported.platforms == ("cpu", "cuda")
    assert (exported.call(*[jnp.ones(4096, jnp.float32)] * 3)["z"] == 2).all()


@pytest.mark.nightly
@pytest.mark.slow
def test_an_export_for_gpus_holds_the_kernels_of_merges() -> None:
    kernel = pto.compile(pto.load(EXAMPLES["topk"].path), grid=4)
    inputs: Any = generate_inputs(kernel, 0, EXAMPLES["topk"])
    exported: Any = kernel.export(**inputs, platforms=("cpu", "cuda"))
    assert "__gpu$xla.gpu.triton" in exported.mlir_module()
    for name, got in exported.call(**inputs).items():
        np.testing.assert_array_equal(got, kernel(**inputs)[name])


def test_tiles_are_exported() -> None:
    exported: Any = TADD.export()
    made = exported.call(X, X)["d"]
    assert isinstance(made, pto.Tile) and (np.asarray(made) == 2 * X).all()


@pytest.mark.parametrize(
    "t",
    [
        pto.tile_type("f16", 16, 64, valid=(3, 5)),
        pto.tile_type("i8", 32, 64, loc="left"),
        pto.TileType("f32", 16, 64, None, 7),
        pto.tile_type("f4e2m1x2", 1, 64, pad="zero"),
    ],
)
def test_the_types_of_exported_tiles_are_text(t: Any) -> None:
    text = _type_text((t,))
    assert b"!pto.tile_buf<" in text and _type_of_text(text) == (t,)


def test_shapes_that_the_program_leaves_open_are_asked_for() -> None:
    kernel = pto.compile(pto.load(EXAMPLES["softmax"].path))
    match = (
        r"does not say the shape of argument 'x' \(ptr<f32>\); allowed: .*jax\.ShapeDtypeStruct\(\(64, 64\)"
    )
    with pytest.raises(pto.ArgumentError, match=match):
        kernel.lower()
    shape: Any = jax.eval_shape(lambda: jnp.zeros((64, 64), jnp.float32))
    assert kernel.lower(shape, shape, 64, 64) is not None


@pytest.mark.variants(0)
@pytest.mark.parametrize("name", ["softmax", "mx_matmul", "pipe_linear", "topk"])
def test_a_batch_of_kernels_is_exported_with_a_symbolic_axis(name: str) -> None:
    example = EXAMPLES[name]
    kernel = pto.compile(pto.load(example.path), grid=example.grid, warn=False)
    values = list(generate_inputs(kernel, 0, example).values())  # pyright: ignore[reportArgumentType]
    (batch,) = jax.export.symbolic_shape("batch")
    axes = tuple(0 if np.ndim(v) else None for v in values)
    shapes = [symbolic(batch, *v.shape, dtype=v.dtype) if np.ndim(v) else v for v in values]
    exported = jax.export.export(jax.jit(jax.vmap(kernel, axes)))(*shapes)
    artefact: Any = jax.export.deserialize(exported.serialize())
    call = artefact.call
    expected = kernel(*values)
    for count in (1, 3):
        found = call(*(np.stack([v] * count) if np.ndim(v) else v for v in values))
        for n, one in expected.items():
            np.testing.assert_array_equal(np.asarray(found[n]), np.stack([one] * count))


def test_a_buffer_of_symbolic_size_is_one_clear_error() -> None:
    kernel = pto.compile(pto.load(EXAMPLES["vector_add"].path))
    shape = symbolic(*jax.export.symbolic_shape("b"))
    with pytest.raises(
        pto.ArgumentError, match=r"argument 'x': got the shape \(b\); allowed: sizes that are"
    ):
        kernel.export(shape, shape, shape)


@pytest.mark.parametrize(("name", "dtype"), [("i64", np.int64), ("u64", np.uint64)])
def test_arguments_of_64_bits_are_lowered_and_exported_outside_of_the_64_bit_mode(
    name: str, dtype: Any
) -> None:
    text = f"%z = tadds %x, %n : (!pto.tile<{name}, 4, 8>, {name}) -> !pto.tile<{name}, 4, 8>"
    kernel = pto.compile(pto.parse(text), "cpu_sim")
    x = np.arange(32, dtype=dtype).reshape(4, 8)
    exported = kernel.export()
    assert [a.dtype for a in exported.in_avals] == [x.dtype, x.dtype]
    with jax.enable_x64(True):
        calls: list[Any] = [kernel.lower().compile(), exported.call]
        for call in calls:
            np.testing.assert_array_equal(call(x, x.dtype.type(1 << 40))["z"].array, x + (1 << 40))
