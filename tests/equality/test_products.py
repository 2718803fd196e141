"""Products of moderate values, whose sums are finite: engine and interpreter, bit by bit.

Random bit patterns meet a NaN or an infinity in almost every sum; here rounding decides every lane.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax import isa, oracle
from pto_jax.ir import DType, Op, Region, RoundMode, TileType, attrs
from pto_jax.isa.samples.operations import legal_samples, to_program
from pto_jax.profiles import profile
from pto_jax.runtime.kernel import Kernel, choices
from pto_jax.runtime.tiles import Tile
from pto_jax.testing.differential import BATCH, Given, arguments, differing, make_case

ROWS = {
    "tmatmul": (("f32", "f32"), ("f32", "bf16")),
    "tmatmul.acc": (("i32", "i8"), ("f32", "f16"), ("f32", "bf16"), ("f32", "f32"), ("f32", "hif8")),
    "tgemv.bias": (("f32", "f32"), ("f32", "f8e5m2")),
    "tmatmul.mx.acc": (("f32", "f8e4m3"), ("f32", "f4e1m2x2")),
    "tgemv.mx.bias": (("f32", "f8e5m2"),),
}


def moderate(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> NDArray[Any]:
    """Words of values near 1; with 8 exponent bits every other element of the batch is near 2**-67, so
    that products are subnormal."""
    if d.name == "f8e8m0":
        return rng.integers(120, 134, shape).astype(np.uint8)
    words = rng.integers(0, 0x60 if d.name == "hif8" else 1 << d.bits, shape, np.uint64)
    if not d.is_float or not d.exponent or d.bits < 8:
        return words.astype(d.word)
    exponent = d.bias + rng.integers(-3, 4, shape)
    if d.exponent == 8:
        exponent[1::2] -= 67
    keep = np.uint64(1 << (d.bits - 1) | (1 << d.mantissa) - 1)
    return np.asarray((words & keep | exponent.astype(np.uint64) << np.uint64(d.mantissa)).astype(d.word))


def moderate_operands(given: Mapping[str, Given], seed: int) -> dict[str, Given]:
    """The operands of a case with moderate values, all of them valid."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, g in given.items():
        words = moderate(rng, g.type.dtype, g.words.shape)
        regions = None if g.regions is None else np.full_like(g.regions, g.words.shape[1:])
        found[name] = replace(g, words=words, regions=regions)
    return found


@pytest.mark.variants(0)
@pytest.mark.parametrize("name", list(ROWS))
def test_every_step_is_rounded_as_the_interpreter_does(name: str) -> None:
    a5 = profile("a5")
    samples = [s for s in legal_samples(isa.instructions()[name], a5) if row(s.types) in ROWS[name]]
    assert {row(s.types) for s in samples} == set(ROWS[name])
    for sample in samples:
        case = make_case(sample, a5)
        given = moderate_operands(case.given, 7)
        case = replace(case, given=given)
        found = jax.vmap(lambda tiles, kernel=case.kernel: kernel(**tiles))(arguments(given))
        for b in range(BATCH):
            expected = case.reference(b)["dst"]
            got = np.asarray(found["dst"].words[b])
            assert not differing(case.dtype("dst"), got, expected).any(), (case.label, b)
            sums = np.abs(expected.view(np.float32))
            assert np.isfinite(sums).mean() > 0.9
            if name == "tmatmul" and b == 1:
                assert ((sums > 0) & (sums < 2.0**-126)).sum() > 10


@pytest.mark.parametrize("name", ["tmatmul.acc", "tmatmul.bias"])
def test_flush_mode_drops_subnormal_operands_sums_and_results(name: str) -> None:
    a5 = profile("a5")
    sample = next(s for s in legal_samples(isa.instructions()[name], a5) if row(s.types) == ("f32", "f32"))
    case = make_case(sample, a5)
    given = moderate_operands(case.given, 9)
    added = name.rpartition(".")[2]
    given[added] = replace(given[added], words=given[added].words & np.uint32(0x807FFFFF))
    kernel = Kernel(case.program, case.kernel.entry, choices(a5, "exact", None, "flush"))
    found = np.asarray(kernel(**arguments(given, 1))["dst"].words)
    tiles = {
        n: oracle.OracleTile(g.type, g.words[1], *g.words.shape[1:])
        for n, g in given.items()
        if isinstance(g.type, TileType)
    }
    expected = oracle.run(case.program, tiles, profile=a5, subnormals="flush")["dst"]
    words = np.ascontiguousarray(expected.data).view(np.uint32)
    np.testing.assert_array_equal(found, words)
    assert ((words & 0x7FFFFFFF) == 0).sum() > 10


@pytest.mark.parametrize("name", ["cpu_sim", "a2a3", "a5"])
def test_f32_modes_round_the_operands_of_both(name: str) -> None:
    sample = next(
        s
        for s in legal_samples(isa.instructions()["tmatmul"], profile(name))
        if row(s.types) == ("f32", "f32")
    )
    (function,) = to_program(sample).functions
    mode = Op("sethf32mode", attributes=attrs(enable=True, mode=RoundMode.RINT))
    program = replace(
        to_program(sample),
        functions=(replace(function, body=Region((mode, *function.body.ops))),),
    )
    rng = np.random.default_rng(11)
    types = {v.name: v.type for v in function.args if isinstance(v.type, TileType)}
    words = {n: moderate(rng, t.dtype, (2, *t.shape))[0] for n, t in types.items()}
    tiles = {n: Tile(jnp.asarray(words[n]), None, None, t) for n, t in types.items()}
    kernel = Kernel(program, function.name, choices(profile(name), "exact", None, "keep"))
    found = np.asarray(kernel(**tiles)["dst"].words)
    given = {n: oracle.OracleTile(t, words[n]) for n, t in types.items()}
    plain, short = (oracle.run(p, given, profile=name)["dst"].data for p in (to_program(sample), program))
    np.testing.assert_array_equal(found, np.ascontiguousarray(short).view(np.uint32))
    assert (plain == short).all() == (name == "cpu_sim")


def row(types: Any) -> tuple[str, str]:
    return str(types["dst"].dtype), str(types["a"].dtype)
