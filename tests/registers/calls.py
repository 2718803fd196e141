"""Calls of operations on registers, their data, and both rooms' rules on them."""

import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.cases.code import executed
from pto_jax.ir import BF16_PAIR, F4E1M2_PAIR, F4E2M1_PAIR, DType, dtype
from pto_jax.isa.micro import Lanes, MicroCall
from pto_jax.lowering import bits, micro as engine
from pto_jax.lowering.rules import Semantics
from pto_jax.oracle import micro as oracle
from pto_jax.profiles import profile

engine.load_rules()
oracle.load_rules()
Words = NDArray[Any]
#: Whether :func:`check` compiles the JAX rule; the fixture ``rooms`` sets it.
COMPILED = True
_PAIRS = {"f4e1m2x2": F4E1M2_PAIR, "f4e2m1x2": F4E2M1_PAIR, "bf16x2": BF16_PAIR}


def vreg(name: str, lanes: int = 0) -> Lanes:
    """The type of a register as programs spell it; ``i16`` has no sign."""
    d = _PAIRS.get(name) or dtype(name)
    return Lanes(d, name.startswith("i") and d.is_integer, lanes or 2048 // d.word_bits)


def mask(bits: int) -> int:
    return bits


def mask_for(name: str) -> int:
    return min(vreg(name).dtype.word_bits, 32)


def scalar(name: str) -> Lanes:
    return Lanes(dtype(name))


def numbers(words: Words, d: DType | str) -> Words:
    """Values of words in float64, or as integers; written down here for the formulas of tests."""
    d = dtype(d) if isinstance(d, str) else d
    if d.name == "bf16":
        return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    values = words.view(d.numpy)
    return values.astype(np.float64) if d.is_float else values


_EDGES = {
    32: (0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x3F000000, 0x3FC00000, 0x40200000, 0x7F7FFFFF, 0x7F800000,
         0x7FC00001, 0x42C80000, 0x477FE000, 0x477FF000, 0x4F000000, 0x5F000000, 0x33000000, 0x3F880000,
         0x3F980000, 0x38800000, 0x7FFFFFFF, 0x46FFFE00, 0x43800000, 0x41200000),
    16: (0, 1, 0x3FF, 0x400, 0x3C00, 0x3800, 0x3E00, 0x4100, 0x7BFF, 0x7C00, 0x7E01, 0x3F80, 0x3FC0, 0x4040,
         0x7F7F, 0x7F80, 0x7FC1, 0x5BFF, 0x7FFF),
    8: (0, 1, 7, 8, 0x38, 0x39, 0x3C, 0x6E, 0x6F, 0x7B, 0x7C, 0x7E, 0x7F),
    64: (0, 1, 2**31 - 1, 2**31, 2**24 + 1, 2**53 + 1, 2**62 + 1, 2**63 - 1),
}  # fmt: skip


def data(d: DType, lanes: int, seed: object) -> Words:
    """Words with every boundary of the format, of both signs, and random ones; half of them moderate."""
    rng = np.random.default_rng(zlib.crc32(repr(seed).encode()))
    words = rng.integers(0, 2**64, lanes, dtype=np.uint64).astype(d.word)
    if d.is_float and d.bits >= 16:
        exponents = rng.integers(d.bias - 4, d.bias + 9, lanes // 2).astype(d.word)
        field = d.word.type(((1 << d.exponent) - 1) << d.mantissa)
        words[1::2] = (words[1::2] & ~field) | (exponents << d.word.type(d.mantissa))
    edges = np.array(_EDGES[d.word_bits], np.uint64)
    edges = np.concatenate([edges, edges | np.uint64(1 << (d.word_bits - 1))]).astype(d.word)
    places = rng.permutation(lanes)[: min(len(edges), lanes * 2 // 3)]
    words[places] = rng.permutation(edges)[: len(places)]
    return words


def image_of(lanes: Sequence[bool] | Words) -> Words:
    """The image of a mask, with zeros between its lanes."""
    made = np.zeros(256, bool)
    made[:: 256 // len(lanes)] = lanes
    return made


def masks(lanes: int, seed: object) -> Iterator[Words]:
    """All lanes, none, a tail and a random choice, as images."""
    rng = np.random.default_rng(zlib.crc32(repr(seed).encode()))
    yield image_of(np.ones(lanes, bool))
    yield image_of(np.zeros(lanes, bool))
    yield image_of(np.arange(lanes) < lanes // 3 + 1)
    yield image_of(rng.integers(0, 2, lanes).astype(bool))


def interpreted(call: MicroCall, *operands: Words) -> tuple[Words, ...]:
    """The results of the NumPy rule."""
    with np.errstate(all="ignore"):
        return tuple(np.asarray(v) for v in oracle.RULES[call.name](call, *operands))


def compiled(call: MicroCall, *operands: Words, batched: bool = False) -> tuple[Words, ...]:
    """The results of the JAX rule, jitted; ``batched`` operands have an axis more."""
    with bits.x64():
        return tuple(np.asarray(v) for v in _jitted(_static(call), batched)(*operands))


def traced(call: MicroCall, *operands: Words) -> tuple[Words, ...]:
    """The results of the JAX rule, whose trace NumPy executes."""
    with bits.x64():
        return tuple(np.asarray(v) for v in executed("numpy", _rule(_static(call)), operands))


def _static(call: MicroCall) -> engine.RegisterCall:
    given = tuple(sorted(call.attributes.items()))
    return engine.RegisterCall(call.name, call.types, call.results, given, Semantics(profile("a5")))


@cache
def _rule(call: engine.RegisterCall) -> Any:
    """Equal calls have one function, which is traced once."""
    return lambda values: engine.RULES[call.name](call, *values)


@cache
def _jitted(call: engine.RegisterCall, batched: bool) -> Any:
    def run(*values: Any) -> Any:
        return engine.RULES[call.name](call, *values)

    return jax.jit(jax.vmap(run) if batched else run)


@pytest.fixture(params=["traced", pytest.param("compiled", marks=[pytest.mark.slow, pytest.mark.nightly])])
def rooms(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy executes the JAX rule; in a nightly run it is compiled."""
    monkeypatch.setitem(globals(), "COMPILED", request.param == "compiled")


def check(call: MicroCall, *operands: Words) -> tuple[Words, ...]:
    """The results of one call, once both rules have given the same bits."""
    expected = interpreted(call, *operands)
    same(call, (compiled if COMPILED else traced)(call, *operands), expected)
    return expected


def same(call: MicroCall, got: Sequence[Words], expected: Sequence[Words]) -> None:
    assert len(got) == len(expected) == len(call.results), call
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape, (call, a.dtype, b.dtype, a.shape, b.shape)
        different = np.argwhere(a != b)
        assert not len(different), (call, different[0], a[tuple(different[0])], b[tuple(different[0])])
