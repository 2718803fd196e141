"""Code of their own for some platforms: chosen when code is generated, traced only then."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec

import pto_jax as pto
from pto_jax import isa
from pto_jax.ir import TileType
from pto_jax.isa.samples.operations import Sample, legal_samples
from pto_jax.lowering import platforms, rules
from pto_jax.lowering.platforms import by_platform
from pto_jax.profiles import PROFILES
from pto_jax.testing.differential import arguments, computes, make_case

X = np.arange(8, dtype=np.float32).reshape(2, 4)
#: As StableHLO spells what the two branches below add.
PRIMARY, CUDA = "dense<1.000000e+00>", "dense<2.000000e+00>"

VIEW = "!pto.tensor_view<?x?xf32>"
WINDOW = "!pto.partition_tensor_view<1x64xf32>"
TILE = "!pto.tile_buf<vec, 1x64xf32>"
LOOP = f"""func.func @loop(%x: !pto.ptr<f32>) attributes {{pto.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %one = arith.constant 1.0 : f32
  %view = pto.make_tensor_view %x, shape = [%c1, %c64], strides = [%c64, %c1] : {VIEW}
  %window = pto.partition_view %view, offsets = [%c0, %c0], sizes = [%c1, %c64] : {VIEW} -> {WINDOW}
  %t = pto.alloc_tile : {TILE}
  pto.tload ins(%window : {WINDOW}) outs(%t : {TILE})
  scf.for %i = %c0 to %c2 step %c1 {{
BODY
  }}
  pto.tstore ins(%t : {TILE}) outs(%window : {WINDOW})
  return
}}"""


def _chosen() -> Callable[[Any], Any]:
    return by_platform(lambda x: {"sum": x + np.float32(1)}, cuda=lambda x: {"sum": x + np.float32(2)})


def _mapped(x: Any) -> Any:
    return jax.vmap(_chosen())(x)["sum"]


def _mapped_twice(x: Any) -> Any:
    return jax.vmap(jax.vmap(_chosen()), in_axes=1)(x)["sum"]


def _sharded(x: Any) -> Any:
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec: Any = PartitionSpec("d")  # type: ignore[no-untyped-call]

    def loop(part: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, total: _chosen()(total)["sum"], part)

    return jax.shard_map(loop, mesh=mesh, in_specs=spec, out_specs=spec)(x)


def _scanned(x: Any) -> Any:
    return jax.lax.scan(lambda total, row: (_chosen()(total)["sum"], row), x[0], x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: _chosen()(x)["sum"],
    "vmap": _mapped,
    "vmap of vmap": _mapped_twice,
    "jit in vmap": lambda x: jax.vmap(jax.jit(_chosen()))(x)["sum"],
    "scan": _scanned,
    "shard_map": _sharded,
    "checkpoint": lambda x: jax.checkpoint(_chosen())(x)["sum"],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_platform_gets_its_code(name: str) -> None:
    traced = jax.jit(FUNCTIONS[name]).trace(X)
    cpu, cuda = (traced.lower(lowering_platforms=(p,)).as_text() for p in ("cpu", "cuda"))
    assert PRIMARY in cpu and CUDA not in cpu
    assert CUDA in cuda and PRIMARY not in cuda
    other = traced.lower(lowering_platforms=("rocm",)).as_text()
    assert PRIMARY in other and CUDA not in other


def test_an_export_for_several_platforms_has_all_code_and_computes_here() -> None:
    exported = export.export(jax.jit(_mapped), platforms=("cpu", "cuda"))(X)
    assert PRIMARY in exported.mlir_module() and CUDA in exported.mlir_module()
    call: Any = exported.call
    np.testing.assert_array_equal(call(X), X + 1)


@pytest.mark.variants(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_on_this_platform(name: str) -> None:
    got = FUNCTIONS[name](X)
    expected = {"shard_map": X + 3, "scan": X[0] + 2, "vmap of vmap": X.T + 1}.get(name, X + 1)
    np.testing.assert_array_equal(jax.tree.leaves(got)[0], expected)
    np.testing.assert_array_equal(jax.tree.leaves(jax.jit(FUNCTIONS[name])(X))[0], expected)


def test_only_code_that_is_needed_is_traced_and_once() -> None:
    calls: list[str] = []

    def primary(x: Any) -> Any:
        calls.append("primary")
        return x

    def cuda(x: Any) -> Any:
        calls.append("cuda")
        return x

    function = by_platform(primary, cuda=cuda)
    traced = jax.jit(lambda x: jax.vmap(function)(x) + function(x[0])).trace(X)
    traced.lower()
    assert calls == ["primary"]
    traced.lower(lowering_platforms=("cuda",))
    assert calls == ["primary", "cuda", "cuda"]  # of the batch, and of one row


def test_a_derivative_that_nobody_asks_for_is_no_error() -> None:
    function = by_platform(lambda x: x & np.uint32(1), cuda=lambda x: x)

    def value(x: Any) -> Any:
        words = jax.lax.bitcast_convert_type(x, np.uint32)
        return jnp.sum(x) + jnp.sum(function(words))

    np.testing.assert_array_equal(jax.grad(value)(X[0]), np.ones(4, np.float32))


def _lowered(text: str, platform: str) -> str:
    kernel = pto.compile(pto.parse(text), profile="a5")
    tile = np.ones((16, 16), np.float32)
    traced = jax.jit(jax.vmap(lambda *tiles: kernel(*tiles)["d"].words))
    tiles = [tile[None]] * len(kernel.arguments)
    return str(traced.trace(*tiles).lower(lowering_platforms=(platform,)).as_text())


@pytest.mark.parametrize(
    ("instruction", "operation"),
    [("tadd %a, %b", "add"), ("tsub %a, %b", "add"), ("tmul %a, %b", "multiply"), ("tmax %a, %b", "compare")],
)
def test_gpu_code_has_native_arithmetic(instruction: str, operation: str) -> None:
    text = f"%d = {instruction} : !pto.tile<16x16xf32>"
    lines = [
        re.findall(rf"stablehlo\.{operation} .*", _lowered(text, platform)) for platform in ("cuda", "cpu")
    ]
    native, portable = (
        any(": tensor<1x16x16xf32>" in line or "(tensor<1x16x16xf32>" in line for line in of) for of in lines
    )
    assert native and not portable


@pytest.mark.parametrize("instruction", ["tdiv %a, %b", "tsqrt %a", "trsqrt %a", "texp %a"])
def test_what_gpus_approximate_in_float32_is_float64(instruction: str) -> None:
    text = _lowered(f"%d = {instruction} : !pto.tile<16x16xf32>", "cuda")
    lines = re.findall(r"stablehlo\.(?:divide|sqrt|rsqrt|exponential) .*", text)
    assert lines and all("xf64>" in line for line in lines)


def _has_floats(sample: Sample) -> bool:
    return any(isinstance(t, TileType) and t.dtype.is_float for t in sample.types.values())


def _cases() -> Iterator[Any]:
    """One operation on floats per instruction that computes with them."""
    for name, instruction in isa.instructions().items():
        if name in rules.RULES and computes(instruction):
            pairs = ((s, p) for p in PROFILES.values() for s in legal_samples(instruction, p))
            found = next((pair for pair in pairs if _has_floats(pair[0])), None)
            if found is not None:
                yield make_case(*found)


@pytest.mark.nightly
@pytest.mark.slow
def test_every_instruction_has_gpu_code_with_the_same_results() -> None:
    cases = list(_cases())
    assert len(cases) > 100
    for case in cases:
        tiles = arguments(case.given, 0)
        traced = jax.jit(lambda tiles, kernel=case.kernel: kernel(**tiles)).trace(tiles)
        assert traced.lower(lowering_platforms=("cuda",)).as_text()


def test_native_arithmetic_is_for_exact_numerics_and_floats() -> None:
    for numerics in ("exact", "fast"):
        for d in ("f32", "i32"):
            kernel = pto.compile(pto.parse(f"%d = tadd %a, %b : !pto.tile<16x16x{d}>"), numerics=numerics)
            tile = np.ones((16, 16), np.dtype(d.replace("f", "float").replace("i", "int")))
            text = str(jax.jit(kernel).trace(tile, tile).jaxpr)
            assert ("pto_platform" in text) == (numerics == "exact" and d == "f32")
    assert rules.Semantics(PROFILES["a5"]).native is False


def test_short_loops_are_written_out_in_traces_for_gpus() -> None:
    rows = "\n".join(f"        pto.tadds ins(%t, %one : {TILE}, f32) outs(%t : {TILE})" for _ in range(20))
    x = np.arange(64, dtype=np.float32)
    texts = []
    for platform in ("cpu", "gpu"):
        kernel = pto.compile(
            pto.parse(LOOP.replace("BODY", rows).replace("@loop", f"@{platform}")), warn=False
        )
        with platforms.expecting(platform):
            lowered = jax.jit(kernel).lower(x)
        texts.append(str(lowered.as_text()))
        np.testing.assert_array_equal(np.asarray(lowered.compile()(x)["x"]), x + 40)
    # One more loop keeps the buffer apart from other arguments.
    assert [text.count("stablehlo.while") for text in texts] == [2, 1]
    assert platforms.expected() == jax.default_backend()
