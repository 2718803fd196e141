"""Programs that compute in float32: every element is the exact one, or in doubt, and a doubt is settled."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import pytest
from jax import export

import pto_jax as pto
from benchmarks import bench_programs
from pto_jax.examples import EXAMPLES
from pto_jax.ir import BF16, F32
from pto_jax.lowering import bits, doubts, formulas, rules
from pto_jax.lowering.numerics import DoubtingFloat, ExactFloat
from pto_jax.runtime import execution

_BOUNDARIES = np.array(
    [
        *(0, 1, 0x7FFFFF, 0x800000, 0x800001, 0x1000000, 0xC000000, 0xD000000, 0xD800000, 0x1F800000),
        *(0x20000000, 0x33800000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x40490FDB, 0x5F000000, 0x7F000000),
        *(0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7FD50000, 0x7F800001, 0x7FFFFFFF),
    ],
    np.uint32,
)
_EVERY = np.concatenate([_BOUNDARIES, _BOUNDARIES | np.uint32(1 << 31)])


def _pairs() -> tuple[np.ndarray, ...]:
    """Pairs of words: boundaries with each other, then random ones, also of small and of near numbers."""
    rng = np.random.default_rng(0)
    x, y = (w.reshape(-1) for w in np.meshgrid(_EVERY, _EVERY))
    some = rng.integers(0, 1 << 32, (4, 1 << 16), dtype=np.uint32)
    small = some[2:] & np.uint32(0x8FFFFFFF)
    near = some[0], some[0] ^ np.uint32(1 << 31) ^ (some[1] & np.uint32(3))
    return tuple(np.concatenate(parts) for parts in zip((x, y), some[:2], small, near, strict=True))


_FORMULAS: dict[str, Callable[..., object]] = {
    "add": lambda a, x, y: a.add(x, y),
    "sub": lambda a, x, y: a.sub(x, y),
    "mul": lambda a, x, y: a.mul(x, y),
    "div": lambda a, x, y: a.div(x, y),
    "fmod": lambda a, x, y: a.fmod(x, y),
    "twice": lambda a, x, y: a.add(x, x),
    "square": lambda a, x, y: a.mul(x, x),
    "zero": lambda a, x, y: a.add(a.const(0.0), y),
    "product and sum": lambda a, x, y: a.add(a.round_to_type(a.mul(x, y)), x),
    "quotient and sum": lambda a, x, y: a.add(a.round_to_type(a.div(x, y)), x),
    "exponential": lambda a, x, y: formulas.exponential(a, x),
    "root": lambda a, x, y: formulas.function(a, formulas.reciprocal_root, x),
}


@pytest.mark.variants(3)
@pytest.mark.parametrize("name", _FORMULAS)
def test_a_result_is_exact_or_in_doubt(name: str) -> None:
    formula = _FORMULAS[name]

    def words(a: ExactFloat, *operands: jax.Array) -> jax.Array:
        return a.encode(formula(a, *(a.decode(bits.raw(w)) for w in operands)))  # type: ignore[arg-type]

    pairs = [w.view(np.float32) for w in _pairs()]
    with bits.x64():
        quick, exact = (
            np.asarray(jax.jit(lambda *p, a=a: words(a, *p))(*pairs))
            for a in (DoubtingFloat(), ExactFloat(F32))
        )
    doubtful = quick == bits.DOUBT
    np.testing.assert_array_equal(quick[~doubtful], exact[~doubtful])
    magnitude = (w.view(np.uint32) & np.uint32(0x7FFFFFFF) for w in pairs)
    usual = np.logical_and(*((m > 0x30000000) & (m < 0x50000000) for m in magnitude))
    assert not doubtful[usual & (exact != F32.canonical_nan)].any()
    assert usual.sum() > 1000 and doubtful.any()


_KINDS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "plain": lambda rng, shape: rng.standard_normal(shape),
    "small": lambda rng, shape: rng.standard_normal(shape) * 2.0 ** rng.integers(-149, -60, shape),
    "zeros": lambda rng, shape: rng.standard_normal(shape) * rng.choice([0.0, -0.0, 1.0], shape),
    "boundaries": lambda rng, shape: rng.choice(_EVERY, shape).view(np.float32),
    "one subnormal": lambda rng, shape: _with_one(rng, shape, 1e-40),
    "one NaN": lambda rng, shape: _with_one(rng, shape, np.nan),
    "one infinity": lambda rng, shape: _with_one(rng, shape, np.inf),
}


def _with_one(rng: np.random.Generator, shape: tuple[int, ...], value: float) -> np.ndarray:
    x = rng.standard_normal(shape)
    x.reshape(-1)[rng.integers(x.size)] = value
    return x


def _kernel(name: str) -> pto.Kernel:
    if name in EXAMPLES:
        return pto.compile(pto.load(EXAMPLES[name].path), grid=EXAMPLES[name].grid, warn=False)
    return pto.compile(
        bench_programs.chain(("tmul", "tadd", "tsub", "tdiv", "tfmod")[: int(name)]), warn=False
    )


def _batch(name: str, kind: str, size: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(f"{name} {kind}".encode()))
    if name not in EXAMPLES:
        return [_KINDS[kind](rng, (size, 64, 64)).astype(np.float32) for _ in range(3)]
    arguments = [EXAMPLES[name].arguments(seed) for seed in range(size)]
    batch = {n: np.stack([a[n] for a in arguments]) for n in arguments[0]}
    batch["x"] = _KINDS[kind](rng, batch["x"].shape).astype(batch["x"].dtype)
    return list(batch.values())


@cache
def _executions(name: str) -> tuple[Callable[..., Any], ...]:
    """A program on a batch, with results as words: by one of the two executions alone, and by both."""
    kernel, mode = _kernel(name), execution.Mode("nothing", keep_state=False, whole=True)

    def alone(semantics: rules.Semantics, *values: jax.Array) -> list[jax.Array]:
        outputs = execution.run_once(kernel, semantics, mode, kernel.prepared(values, {}))[0]
        return [bits.raw(x) for x in outputs.values()]

    def both(*values: jax.Array) -> list[jax.Array]:
        return [bits.raw(x) for x in kernel(*values).values()]

    semantics = (replace(kernel.semantics, doubting=doubting) for doubting in (True, False))
    functions: list[Callable[..., Any]] = [*(partial(alone, s) for s in semantics), both]
    return tuple(jax.jit(jax.vmap(f)) for f in functions)


_PROGRAMS = ["4", *(pytest.param(n, marks=pytest.mark.slow) for n in ("rmsnorm", "grid_reduction"))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("name", _PROGRAMS)
def test_programs_are_exact_or_in_doubt_and_settled(name: str, kind: str) -> None:
    with bits.x64():
        executions = [f(*_batch(name, kind)) for f in _executions(name)]
    for x, y, z in zip(*(map(np.asarray, e) for e in executions), strict=True):
        doubtful = x == bits.doubt(F32 if x.dtype == np.uint32 else BF16)
        np.testing.assert_array_equal(x[~doubtful], y[~doubtful])
        assert not doubtful.any() or kind != "plain"
        np.testing.assert_array_equal(z, y)


@pytest.mark.parametrize(("platform", "marked"), [("cpu", True), ("cuda", False)])
def test_code_for_other_platforms_has_no_doubts(platform: str, marked: bool) -> None:
    batch = _batch("4", "plain")
    text = export.export(jax.jit(jax.vmap(_kernel("4"))), platforms=[platform])(*batch).mlir_module()
    assert (f"dense<{int(bits.DOUBT)}>" in text) == marked


def test_batches_of_batches_share_what_they_share() -> None:
    kernel = _kernel("4")
    x, y, z = (np.ones((2, 3, 64, 64), np.float32) for _ in range(3))
    y[1, 2, 5, 7] = 1e-40
    nested = jax.vmap(jax.vmap(kernel), (0, 0, None))(x, y, z[0])
    single = [kernel(*(v[i, j] for v in (x, y, z)))["z"] for i in range(2) for j in range(3)]
    np.testing.assert_array_equal(np.asarray(nested["z"]).reshape(6, -1), np.stack(single).reshape(6, -1))


_ELEMENTS = {"x": "f32", "i": "i32", "y": "f32", "n": "i16"}
_STEPS = ("tmul", "x"), ("tadd", "y"), ("tsub", "y")


def test_only_programs_that_keep_every_doubt_are_executed_so() -> None:
    for name, applies in {"rmsnorm": True, "grid_reduction": True, "softmax": False, "topk": False}.items():
        assert doubts.applies(_kernel(name).program) is applies
    text = str(bench_programs.chain(("tmul", "tadd", "tadd")))
    assert doubts.applies(pto.parse(text))
    for instruction in ("tmax", "tmin"):
        assert not doubts.applies(pto.parse(text.replace("pto.tmul", f"pto.{instruction}")))
    # Words of a buffer that are taken as integers may have been computed.
    cast = "    %words = pto.castptr %z : !pto.ptr<f32> -> !pto.ptr<i32>\n    %c0 ="
    assert not doubts.applies(pto.parse(text.replace("    %c0 =", cast, 1)))
    assert not doubts.applies(pto.parse(text.replace("f32", "f16")))
    assert not doubts.applies(pto.parse(str(bench_programs.chain(("tadd",)))))


@pytest.mark.slow
def test_integers_are_converted_beside_doubts() -> None:
    tiles = {name: f"!pto.tile_buf<vec, 16x16x{d}>" for name, d in _ELEMENTS.items()}
    views = {name: f"!pto.partition_tensor_view<16x16x{d}>" for name, d in _ELEMENTS.items()}
    load = "pto.tload ins(%{0} : {1}) outs(%{0}t : {2})"
    store = "pto.tstore ins(%{0}t : {2}) outs(%{0} : {1})"
    f = tiles["x"]
    lines = [
        *(f"%{name}t = pto.alloc_tile : {t}" for name, t in tiles.items()),
        *(load.format(name, views[name], tiles[name]) for name in "xi"),
        *(f"pto.{op} ins(%xt, %{y}t : {f}, {f}) outs(%yt : {f})" for op, y in _STEPS),
        f"pto.tcvt ins(%it : {tiles['i']}) outs(%nt : {tiles['n']})",
        *(store.format(name, views[name], tiles[name]) for name in "yn"),
    ]
    arguments = ", ".join(f"%{name}: {view}" for name, view in views.items())
    body = "\n".join(lines)
    program = pto.parse(f"func.func @k({arguments}) attributes {{pto.entry}} {{\n{body}\nreturn\n}}")
    assert doubts.applies(program)
    kernel = pto.compile(program, "a5", warn=False)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 16, 16)).astype(np.float32)
    integers = rng.integers(-(1 << 20), 1 << 20, (3, 16, 16), dtype=np.int32)
    outputs = np.zeros_like(x), integers.astype(np.int16)
    batch = jax.vmap(kernel)(x, integers, *outputs)
    alone = [kernel.eager(*call) for call in zip(x, integers, *outputs, strict=True)]
    assert sorted(batch) == ["n", "y"]
    for name, results in batch.items():
        np.testing.assert_array_equal(np.asarray(results), [np.asarray(r[name]) for r in alone])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_doubt_is_found_in_a_buffer_of_raw_words(name: str) -> None:
    batch, kernel = _batch(name, "one subnormal"), jax.jit(jax.vmap(_kernel(name)))
    words = [x.view(f"u{x.itemsize}") if x.dtype.kind not in "iu" else x for x in batch]
    for x, y in zip(kernel(*batch).values(), kernel(*words).values(), strict=True):
        assert y.dtype == bits.raw(x).dtype
        np.testing.assert_array_equal(np.asarray(bits.raw(x)), np.asarray(y))
