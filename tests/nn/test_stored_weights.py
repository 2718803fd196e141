"""Weights that are stored as codes: values, gradients, symbolic batches and files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import export

import pto_jax as pto
from pto_jax import nn

DRAW = np.random.default_rng(7)
FORMATS = ("int8", "fp8", "mx")


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return DRAW.standard_normal(shape).astype(np.float32)


def symbolic(*shape: Any, dtype: Any = np.float32) -> Any:
    """An array that has no values, for sizes that may be symbols."""
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def same(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(np.asarray(a).view(np.uint32), np.asarray(b).view(np.uint32))


@pytest.mark.variants(0)
@pytest.mark.parametrize("format", FORMATS)
def test_stored_weights_give_the_bits_of_the_weights(format: Any) -> None:
    x, w, bias = normal(2, 5, 33), normal(33, 7), normal(7)
    stored = nn.quantise(w, format=format, axis=0)
    expected = nn.linear(x, w, bias, format=format)
    same(nn.linear(x, stored, bias), expected)
    same(jax.jit(nn.linear)(x, stored, bias), expected)
    same(jax.vmap(lambda x: nn.linear(x, stored, bias))(x), expected)
    two = nn.Quantised(*(jnp.stack([a, a]) for a in stored))
    same(jax.vmap(lambda x, w: nn.linear(x, w, bias))(x, two), expected)


@pytest.mark.slow
def test_one_scale_serves_all_columns() -> None:
    x, w = normal(3, 33), normal(33, 7)
    scale = nn.calibrate(w)
    same(nn.linear(x, nn.quantise(w, scale)), nn.linear(x, w, w_scale=scale))


@pytest.mark.variants(1)
@pytest.mark.parametrize("format", FORMATS)
def test_the_gradient_of_stored_weights_is_that_of_their_values(format: Any) -> None:
    x, w, bias = normal(3, 33), normal(33, 7), normal(7)
    stored = nn.quantise(w, format=format, axis=0)
    values = nn.dequantise(*stored, axis=0)
    cotangent = normal(3, 7)

    def loss(x: Any, bias: Any) -> Any:
        return (nn.linear(x, stored, bias) * cotangent).sum()

    gx, gb = jax.jit(jax.grad(loss, (0, 1)))(x, bias)
    np.testing.assert_allclose(gx, cotangent @ np.asarray(values).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gb, cotangent.sum(0), rtol=1e-6)


def test_a_scale_of_stored_weights_has_the_derivative_of_the_product() -> None:
    x, w = normal(3, 33), normal(33, 7)
    codes, scale = nn.quantise(w, axis=0)
    found = jax.grad(lambda s: nn.linear(x, nn.Quantised(codes, s)).sum())(scale)
    np.testing.assert_allclose(found, (x @ np.asarray(codes, np.float32)).sum(0, keepdims=True), rtol=1e-4)


@pytest.mark.variants(1)
@pytest.mark.parametrize(("format", "part"), [("fp8", 0), ("mx", 0), ("mx", 1)])
def test_a_derivative_of_codes_is_an_error(format: Any, part: int) -> None:
    x, stored = normal(3, 33), nn.quantise(normal(33, 7), format=format, axis=0)

    def loss(a: Any) -> Any:
        return nn.linear(x, nn.Quantised(*(a if i == part else b for i, b in enumerate(stored)))).sum()

    with pytest.raises(pto.DifferentiationError, match="codes have no derivative"):
        jax.grad(loss)(stored[part])
    with pytest.raises(TypeError, match="real- or complex-valued inputs"):
        jax.grad(lambda w: nn.linear(x, w).sum())(nn.quantise(normal(33, 7), axis=0))
    jax.grad(lambda x: nn.linear(x, jax.lax.stop_gradient(stored)).sum())(x)


W = normal(64, 8)
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "scales of rows": (
        lambda: nn.linear(normal(3, 64), nn.quantise(W)),
        r"got scales \[64, 1\] of codes \[64, 8\].*allowed: \[1, 8\]; "
        r"try: nn.quantise\(w, format='int8', axis=0\)",
    ),
    "groups along columns": (
        lambda: nn.linear(normal(3, 64), nn.quantise(W, format="mx")),
        r"got scales \[64, 1\].*allowed: \[2, 8\]",
    ),
    "another format": (
        lambda: nn.linear(normal(3, 64), nn.quantise(W, axis=0), format="bf16"),
        "got codes of format 'int8' for a layer of format 'bf16'; try: format='int8'",
    ),
    "a second scale": (
        lambda: nn.linear(normal(3, 64), nn.quantise(W, axis=0), w_scale=1.0),
        "got a scale for weights that have one",
    ),
    "codes of another type": (
        lambda: nn.linear(normal(3, 64), nn.Quantised(jnp.asarray(W), jnp.ones((1, 8)))),
        "got codes of float32 with scales of float32",
    ),
    "a profile without the format": (
        lambda: nn.linear(normal(3, 64), nn.quantise(W, format="fp8", axis=0), profile="a2a3"),
        "profile 'a2a3' has no products of format 'fp8'",
    ),
    "codes as an input": (lambda: nn.linear(nn.quantise(W), W), r"linear: x: got \(codes, scale\)"),
}


@pytest.mark.variants(2)
@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_weights_are_one_clear_error(mistake: str) -> None:
    call, message = WRONG[mistake]
    with pytest.raises(pto.ArgumentError, match=message):
        call()


# -- symbolic batches ----------------------------------------------------------------------------------


def exported(f: Callable[..., Any], *shapes: Any, vjp_order: int = 0) -> Any:
    blob = export.export(jax.jit(f))(*shapes).serialize(vjp_order=vjp_order)
    return export.deserialize(blob)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_layer_is_exported_with_a_symbolic_batch() -> None:
    b, t = export.symbolic_shape("b, t")
    w, bias = nn.quantise(normal(33, 7), axis=0), normal(7)

    def layer(x: Any) -> Any:
        return nn.linear(x, w, bias)

    call = exported(layer, symbolic(b, t, 33), vjp_order=1)
    for shape in ((1, 1, 33), (5, 7, 33), (8, 8, 33)):
        x = normal(*shape)
        same(call.call(x), layer(x))
    gradient = jax.grad(lambda x: call.call(x).sum())(x)
    same(gradient, jax.grad(lambda x: layer(x).sum())(x))


@pytest.mark.nightly
@pytest.mark.variants(0)
@pytest.mark.parametrize("format", [*FORMATS, "f16", "bf16", "f32"])
def test_every_format_is_exported_with_a_symbolic_batch(format: Any) -> None:
    (b,) = export.symbolic_shape("b")
    w, bias = normal(300, 70), normal(70)
    for dtype in (np.float32, jnp.bfloat16):

        def layer(x: Any) -> Any:
            return nn.linear(x, w, bias, format=format)

        call = exported(layer, symbolic(b, 300, dtype=dtype))
        for rows in (1, 31, 32, 150):
            x = jnp.asarray(normal(rows, 300), dtype)
            np.testing.assert_array_equal(np.asarray(call.call(x)), np.asarray(layer(x)))


@pytest.mark.slow
def test_scales_of_a_symbolic_batch_are_those_of_its_rows() -> None:
    (b,) = export.symbolic_shape("b")
    w = normal(33, 7)

    def layer(x: Any, scale: Any) -> Any:
        return nn.linear(x, w, scale=scale)

    shapes = symbolic(b, 33), symbolic(b, 1)
    x, scale = normal(40, 33), np.abs(normal(40, 1)) + 0.01
    same(exported(layer, *shapes).call(x, scale), layer(x, scale))


@pytest.mark.parametrize("shape", ["16, b", "b, b"])
def test_other_symbolic_sizes_of_a_layer_are_an_error(shape: str) -> None:
    x = symbolic(*export.symbolic_shape(shape))
    with pytest.raises(pto.ArgumentError, match="allowed: sizes that are numbers"):
        export.export(jax.jit(lambda x: nn.linear(x, x.T)))(x)


# -- files ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_weights_come_back_from_a_file(tmp_path: Path) -> None:
    w = normal(40, 6)
    weights: dict[str, Any] = {
        "first": {f: nn.quantise(w, format=f, axis=0) for f in FORMATS},  # type: ignore[arg-type]
        "second": {"w": jnp.asarray(w, jnp.bfloat16), "bias": w[0], "count": np.int64(3)},
        "small": np.arange(6).astype(ml_dtypes.int4).reshape(2, 3),
        "four": w.astype(ml_dtypes.float4_e2m1fn),
        "turned": w.T,
        "empty": np.zeros((0, 3), np.float16),
    }
    file = tmp_path / "w.safetensors"
    nn.save_weights(file, weights)
    read = nn.load_weights(file)
    structures: list[Any] = [jax.tree.structure(a) for a in (read, weights)]
    assert structures[0] == structures[1]
    for a, b in zip(jax.tree.leaves(weights), jax.tree.leaves(read), strict=True):
        a = np.asarray(a)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.ascontiguousarray(a).tobytes() == b.tobytes()
    same(nn.linear(w.T[:, :40], read["first"]["mx"]), nn.linear(w.T[:, :40], weights["first"]["mx"]))


def test_other_programs_read_codes_by_their_types(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    nn.save_weights(file, {"w": nn.quantise(normal(64, 6), format="mx", axis=0)})
    content = file.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert {n: (e["dtype"], e["shape"]) for n, e in header.items() if n != "__metadata__"} == {
        "w.codes": ("F8_E4M3", [64, 6]),
        "w.scale": ("F8_E8M0", [2, 6]),
    }


def test_files_of_other_programs_are_read(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"model.0.weight": W, "model.0.bias": W[0]}, tmp_path / "other.safetensors")
    read = nn.load_weights(tmp_path / "other.safetensors")
    np.testing.assert_array_equal(read["model"]["0"]["weight"], W)


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"a.b": W}, "got the name 'a.b'"), ({"a": "text"}, "a: "), ({"a": {1: W}}, "got the name 1")],
)
def test_what_is_no_weight_is_refused(weights: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        nn.save_weights(tmp_path / "w.safetensors", weights)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"12345678", b"\xff" * 64, b"\x02\0\0\0\0\0\0\0{}x"])
def test_a_damaged_file_is_one_clear_error(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    file.write_bytes(content)
    with pytest.raises(pto.FileError, match="no weights of the format safetensors"):
        nn.load_weights(file)


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    with pytest.raises(pto.FileError, match=r"pip install 'pto_jax\[weights\]'"):
        nn.save_weights(tmp_path / "w.safetensors", {"w": W})
