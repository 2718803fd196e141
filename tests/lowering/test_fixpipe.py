"""Quantisation of accumulators under vmap, and their stores next to the interpreter."""

from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax import isa, oracle
from pto_jax.ir import AttrValue, Loc, ReluPreMode, TileType, dtype
from pto_jax.isa.samples.operations import legal_samples
from pto_jax.lowering import Semantics
from pto_jax.lowering.bits import x64
from pto_jax.lowering.quantise import quantise
from pto_jax.lowering.rules import Context
from pto_jax.profiles import ProfileName, profile
from pto_jax.testing.differential import BATCH, arguments, differing, make_case, result_words
from tests.covering import covering
from tests.oracle.conftest import Scalar, execute

RNG = np.random.default_rng(3)
Words = NDArray[Any]


def context(arch: str, src: str, shape: tuple[int, int] = (4, 8), **attrs: AttrValue) -> Context:
    types = (("src", TileType(dtype(src), *shape)),)
    return Context("tstore", types, tuple(attrs.items()), (), Semantics(profile(arch)))


def quantised(c: Context, words: Words, quant: Words, dst: str, *, vector: bool = False) -> Words:
    """A batch of tiles, each with parameter words of its own."""
    with x64():
        run = jax.jit(jax.vmap(lambda w, q: quantise(c, w, q, dtype(dst), vector=vector)))
        return np.asarray(run(words, quant))


def parameter(scale: Words, offset: Words, signed: Words) -> Words:
    word = scale.view(np.uint32).astype(np.uint64)
    result: Words = (
        word | offset.astype(np.uint64) << np.uint64(37) | signed.astype(np.uint64) << np.uint64(46)
    )
    return result


@pytest.mark.parametrize("relu", list(ReluPreMode))
def test_bytes_are_clamped_as_the_word_says_and_stored_by_their_low_bits(relu: ReluPreMode) -> None:
    x = (RNG.standard_normal((16, 4, 8)) * 80).astype(np.float32)
    x[:, 0, :4] = (np.inf, -np.inf, 0.5, -0.5)
    scale = RNG.choice(np.array([1, -1, 0.25, 3e38, 1e-42, 0], np.float32), 16)
    offset, signed = RNG.integers(0, 512, 16), RNG.integers(0, 2, 16)
    with np.errstate(all="ignore"):
        y = np.float32(x * scale[:, None, None]) + offset[:, None, None].astype(np.float32)
        whole = np.rint(y)
    low, high = np.where(signed, -128, 0)[:, None, None], np.where(signed, 127, 255)[:, None, None]
    expected = np.where(np.isnan(whole), 0, np.clip(whole, low, high)).astype(np.int32)
    if relu == ReluPreMode.NORMAL_RELU:
        expected = np.maximum(expected, 0)
    for dst in ("i8", "u8"):
        c = context("cpu_sim", "f32", reluPreMode=relu)
        found = quantised(c, x.view(np.uint32), parameter(scale, offset, signed), dst)
        np.testing.assert_array_equal(found, expected.astype(np.uint8))


def test_short_scales_have_no_subnormals_and_overflow_to_infinity() -> None:
    fields = np.arange(1 << 19, dtype=np.uint64)
    exponent, fraction = (fields >> 10 & 0xFF).astype(int), (fields & 0x3FF).astype(int)
    expected = np.ldexp(1 + fraction / 1024, exponent - 127) * np.where(fields >> 18, -1, 1)
    expected[(exponent == 0) & (fraction == 0)] = 0
    expected[exponent == 255] = np.inf * np.sign(expected[exponent == 255])
    one = np.full((1, 1, fields.size), np.float32(1).view(np.uint32))
    quant = np.asarray(fields << np.uint64(13) | np.uint64(0x1FFF))[None, None]
    found = quantised(context("a5", "f32", (1, fields.size)), one, quant, "f32", vector=True)
    np.testing.assert_array_equal(found.reshape(-1), expected.astype(np.float32).view(np.uint32))


def test_shifts_wrap_and_the_control_bit_saturates_infinities() -> None:
    x = RNG.integers(-(2**31), 2**31, (16, 4, 8), dtype=np.int64).astype(np.int32)
    quant = np.arange(16, dtype=np.uint64) << np.uint64(32) | np.uint64(0xFFFF)
    found = quantised(context("cpu_sim", "i32"), x.view(np.uint32), quant, "i16")
    expected = (x >> (np.arange(16) + 1)[:, None, None]).astype(np.int16)
    np.testing.assert_array_equal(found.view(np.int16), expected)
    x = np.array([[[np.inf, -np.inf, np.nan, 7e4]]], np.float32).view(np.uint32)
    scale = np.array([1], np.float32).view(np.uint32).astype(np.uint64)
    for flag, wanted_bits in ((False, [0x7C00, 0xFC00, 0x7E00, 0x7BFF]), (True, [0x7BFF, 0xFBFF, 0, 0x7BFF])):
        c = context("cpu_sim", "f32", (1, 4), saturateInf=flag)
        np.testing.assert_array_equal(quantised(c, x, scale, "f16")[0, 0], wanted_bits)


@pytest.mark.variants(5)
@pytest.mark.parametrize("arch", ["cpu_sim", "a2a3", "a5"])
@pytest.mark.parametrize(("src", "dst"), [("f32", "i8"), ("i32", "u8"), ("i32", "f16")])
@pytest.mark.parametrize("name", ["tmov.fp", "textract"])
def test_every_field_of_a_word_agrees_with_the_interpreter(
    arch: ProfileName, src: str, dst: str, name: str
) -> None:
    vector = name == "tmov.fp"
    x = RNG.integers(0, 1 << 32, (16, 4, 8)).astype(np.uint32)
    usual = (RNG.standard_normal(x.shape) * 200).astype(np.float32)
    x[::2] = (usual.view(np.uint32) if src == "f32" else usual.astype(np.int32).view(np.uint32))[::2]
    quant = RNG.integers(0, 1 << 63, 16).astype(np.uint64) << np.uint64(32)
    scale = RNG.choice(np.array([1, -1, 0.3, 2.5, 1e30], np.float32), 16).view(np.uint32)
    quant |= scale.astype(np.uint64)
    found = quantised(context(arch, src), x, quant, dst, vector=vector)
    src_type, dst_type = (TileType(dtype(d), 4, 8, loc=Loc.ACC) for d in (src, dst))
    for i in range(16):
        operands: dict[str, Any] = {
            "src": oracle.OracleTile(src_type, x[i].view(src_type.dtype.numpy)),
            "dst": oracle.OracleTile(dst_type, np.zeros((4, 8), dst_type.dtype.numpy)),
        }
        if vector:
            words = np.broadcast_to(quant[i], (1, 8))
            operands["fp"] = oracle.OracleTile(TileType(dtype("u64"), 1, 8, loc=Loc.SCALING), words.copy())
        else:
            operands["preQuantScalar"] = Scalar(int(quant[i]), dtype("u64"))
            operands |= dict.fromkeys(("indexRow", "indexCol"), Scalar(0, dtype("i64")))
        expected = execute(name, operands, profile=arch)
        np.testing.assert_array_equal(found[i], np.asarray(expected.data).view(dst_type.dtype.word))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["cpu_sim", "a2a3", "a5"])
def test_stores_of_accumulators_agree_with_the_interpreter(arch: ProfileName) -> None:
    cases = []
    for name in ("tstore", "tstore_fp"):
        listed = legal_samples(isa.instructions()[name], profile(arch))
        accumulated = covering(s for s in listed if getattr(s.types["src"], "loc", None) == Loc.ACC)
        cases += [make_case(s, profile(arch)) for s in accumulated]
    run = jax.jit(jax.vmap(lambda given: [case.kernel(**g) for case, g in zip(cases, given, strict=True)]))
    for case, results in zip(cases, run([arguments(case.given) for case in cases]), strict=True):
        for b in range(BATCH):
            got, expected = result_words(case.dtype("dst"), results["dst"], b), case.reference(b)["dst"]
            assert not differing(case.dtype("dst"), got, expected).any(), (case.label, b)
