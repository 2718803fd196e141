"""Accuracy of this engine's transcendental instructions, measured against float64.

Wanted is the function of the operands, rounded once to the element type: float64 has 29 bits more than
float32, so that its own error matters only next to a tie. Operands are random, spread evenly over the
exponents for which the results are normal numbers.

>>> from pto_jax.ir.dtypes import BF16
>>> [hex(w) for w in rounded(BF16, np.array([1.0, 1.00390625, 1.01171875, -3e38]))]
['0x3f80', '0x3f80', '0x3f82', '0xff62']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...generate.programs import Case
from ...generate.state import Input
from ...ir.dtypes import DType, dtype
from ...ir.types import TileType
from ...isa import instructions
from ...isa.rules.constraints import element_type
from ...isa.samples.operations import Sample, legal_samples, to_program
from ...profiles import CPU_SIM
from ...vectors.compare import is_nan, ulp_distance
from ..targets import Engine
from .ulp import Histograms

#: Elements per instruction and element type, at least.
ELEMENTS = 1 << 14
DTYPES = ("f32", "f16", "bf16")
_SEED = 1
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """Operands of magnitude ``2**low`` to ``2**high``, of either sign where ``signed``."""

    low: float
    high: float
    signed: bool = True

    def draw(self, rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> NDArray[Any]:
        """Words of a type."""
        magnitude = np.exp2(rng.uniform(self.low, self.high, shape))
        sign = rng.choice([-1.0, 1.0], shape) if self.signed else 1.0
        return rounded(d, magnitude * sign)


@dataclass(frozen=True)
class Measured:
    """A function on float64, and the ranges of an instruction's operands (scratch tiles left out).

    ``difference`` says that the function takes the operands' difference, rounded to the element type.
    """

    function: Callable[..., _Floats]
    ranges: tuple[Range, ...]
    difference: bool = False


_POSITIVE = Range(-14, 15, signed=False)
_FACTOR, _EXPONENT = Range(-7, 7), Range(-14, 3.2)
_POWER = (Range(-3, 3, signed=False), Range(-3, 2))
MEASURED = {
    "texp": Measured(np.exp, (_EXPONENT,)),
    "tlog": Measured(np.log, (_POSITIVE,)),
    "tpow": Measured(np.power, _POWER),
    "tpows": Measured(np.power, _POWER),
    "tsqrt": Measured(np.sqrt, (_POSITIVE,)),
    "trsqrt": Measured(lambda a: 1 / np.sqrt(a), (_POSITIVE,)),
    "trecip": Measured(lambda a: 1 / a, (Range(-14, 14),)),
    "tdiv": Measured(np.divide, (_FACTOR, _FACTOR)),
    "tdivs": Measured(np.divide, (_FACTOR, _FACTOR)),
    "trowexpandexpdif": Measured(np.exp, (Range(-7, 2), Range(-7, 2)), difference=True),
    "tcolexpandexpdif": Measured(np.exp, (Range(-7, 2), Range(-7, 2)), difference=True),
}


def measure(numerics: str, names: Iterable[str] = tuple(MEASURED), elements: int = ELEMENTS) -> Histograms:
    """Distances between this engine's results and the correctly rounded ones, in ULP.

    ``numerics`` is that of :func:`pto_jax.compile`; each instruction is measured in every type that
    has it, on at least ``elements`` elements.
    """
    found = Histograms()
    machine = Engine("jit", None, numerics)
    for name in names:
        for d in map(dtype, DTYPES):
            sample = _sample(name, d)
            if sample is not None:
                _measure(found, machine, sample, MEASURED[name], elements)
    return found


def rounded(d: DType, values: _Floats) -> NDArray[Any]:
    """Words of the nearest values of a type with at most 24 bits of precision, ties to even."""
    exponents = np.frexp(np.where(np.isfinite(values), values, 0.0))[1] - 1
    unit = np.maximum(exponents, 1 - d.bias) - d.mantissa
    # Both scalings are exact, so that the only rounding is the one to an integer.
    nearest = np.ldexp(np.rint(np.ldexp(values, -unit)), unit)
    with np.errstate(over="ignore"):
        words: NDArray[Any] = nearest.astype(np.float32).astype(d.numpy).view(d.word)
    return words


def _sample(name: str, d: DType) -> Sample | None:
    """The operation of an instruction in a type, one without optional operands where there is one."""
    samples = legal_samples(instructions()[name], CPU_SIM)
    usable = (s for s in samples if element_type(s.types["dst"]) == d and _broadcasts(s))
    return min(usable, key=lambda s: len(s.form), default=None)


def _broadcasts(sample: Sample) -> bool:
    """Whether every operand has the shape of the result, or extent 1 where it differs."""
    dst = sample.types["dst"]
    tiles = [t for n in sample.form if n != "tmp" and isinstance(t := sample.types[n], TileType)]
    assert isinstance(dst, TileType)
    return all(a in (1, b) for t in tiles for a, b in zip(t.shape, dst.shape, strict=True))


def _measure(found: Histograms, machine: Engine, sample: Sample, what: Measured, elements: int) -> None:
    program, dst = to_program(sample), sample.types["dst"]
    assert isinstance(dst, TileType)
    d, rng = dst.dtype, np.random.default_rng(_SEED)
    names = [n for n in sample.form if n != "tmp"]
    for index in range(-(-elements // dst.elements)):
        inputs = {a.name: _zeros(a.type) for a in program.functions[0].args}
        for name, r in zip(names, what.ranges, strict=True):
            t: Any = inputs[name].type
            inputs[name] = Input(t, r.draw(rng, d, inputs[name].words.shape))
        case = Case("", _SEED, index, CPU_SIM, program, inputs, {})
        given = [inputs[n].words.view(d.numpy).astype(np.float64) for n in names]
        if what.difference:
            first, second = given
            given = [rounded(d, first - second).view(d.numpy).astype(np.float64)]
        _count(found, sample, rounded(d, what.function(*given)), machine.run(case).outputs["dst"].words)


def _zeros(t: Any) -> Input:
    return Input(t, np.zeros(t.shape if isinstance(t, TileType) else (), t.dtype.word))


def _count(found: Histograms, sample: Sample, wanted: NDArray[Any], words: NDArray[Any]) -> None:
    d = element_type(sample.types["dst"])
    assert d is not None
    nan_wanted, nan_found = is_nan(d, wanted), is_nan(d, words)
    numbers = ~(nan_wanted | nan_found)
    distances = ulp_distance(d, wanted[numbers], words[numbers])
    found.add(sample.instruction.name, d.name, distances, int((nan_wanted ^ nan_found).sum()))
