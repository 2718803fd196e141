"""Accuracy of this engine's transcendental instructions, measured against float64.

Wanted is the declared formula of the operands, rounded once to the element type: float64 has 29 bits more
than float32, so that its own error matters only next to a tie. Operands are random, spread evenly over the
exponents for which the results are normal numbers, as the declaration gives them.

>>> from pto_jax.ir import BF16
>>> [hex(w) for w in rounded(BF16, np.array([1.0, 1.00390625, 1.01171875, -3e38]))]
['0x3f80', '0x3f80', '0x3f82', '0xff62']
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...cases.targets import Engine
from ...cases.ulp import Histograms
from ...generate.programs import Case
from ...generate.state import Input
from ...ir import F32, DType, TileType, dtype
from ...isa import instructions
from ...isa.rules.constraints import element_type
from ...isa.samples.operations import Sample, legal_samples, to_program
from ...isa.semantics import Formula, Range
from ...lowering.numerics import Numerics
from ...profiles import CPU_SIM
from ...vectors.compare import is_nan, ulp_distance

#: Elements per instruction and element type, at least.
ELEMENTS = 1 << 14
DTYPES = ("f32", "f16", "bf16")
_SEED = 1
_Floats = NDArray[np.float64]


def measured() -> list[str]:
    """Names of the instructions whose accuracy is measured."""
    return [name for name, i in instructions().items() if i.accuracy.ranges]


def measure(numerics: Numerics, names: Iterable[str] | None = None, elements: int = ELEMENTS) -> Histograms:
    """Distances between this engine's results and the correctly rounded ones, in ULP.

    ``numerics`` is that of :func:`pto_jax.compile`; each instruction (by default all :func:`measured` ones)
    is measured in every type that has it, on at least ``elements`` elements.
    """
    histograms = Histograms()
    machine = Engine("jit", None, numerics)
    for name in measured() if names is None else names:
        for d in map(dtype, DTYPES):
            sample = _sample(name, d)
            if sample is not None:
                _measure(histograms, machine, sample, elements)
    return histograms


def drawn(r: Range, rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> NDArray[Any]:
    """Random words of a type from a range of magnitudes."""
    magnitude = np.exp2(rng.uniform(r.low, r.high, shape))
    sign = rng.choice([-1.0, 1.0], shape) if r.signed else 1.0
    return rounded(d, magnitude * sign)


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


def _measure(histograms: Histograms, machine: Engine, sample: Sample, elements: int) -> None:
    program, dst = to_program(sample), sample.types["dst"]
    formula, ranges = sample.instruction.formula(sample.form), sample.instruction.accuracy.ranges
    assert isinstance(dst, TileType)
    assert formula is not None
    d, rng = dst.dtype, np.random.default_rng(_SEED)
    names = [n for n in sample.form if n != "tmp"]
    for index in range(-(-elements // dst.elements)):
        inputs = {a.name: _zeros(a.type) for a in program.functions[0].args}
        for name, r in zip(names, ranges, strict=True):
            t: Any = inputs[name].type
            inputs[name] = Input(t, drawn(r, rng, d, inputs[name].words.shape))
        case = Case("", _SEED, index, CPU_SIM, program, inputs, {})
        expected = reference(formula, d, {n: inputs[n].words for n in names})
        _count(histograms, sample, expected, machine.run(case).outputs["dst"].words)


def reference(formula: Formula, d: DType, operands: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Words of a formula's float64 value on the words of its operands, in the order of the text.

    Every step is rounded to the formula's working type, the result of the last one to the element type then.
    """
    working = d if formula.working == "element" else F32

    def step(values: _Floats) -> _Floats:
        return _values(working, rounded(working, values))

    numbers = {name: _values(d, words) for name, words in operands.items()}
    return rounded(d, step(formula.evaluate(numbers, rounded=step)))


def _values(d: DType, words: NDArray[Any]) -> _Floats:
    # The product makes signaling NaNs quiet: some hosts' pow gives NaN for one to the power of 0, others 1.
    values: _Floats = words.view(d.numpy).astype(np.float64) * 1.0
    return values


def _zeros(t: Any) -> Input:
    return Input(t, np.zeros(t.shape if isinstance(t, TileType) else (), t.dtype.word))


def _count(histograms: Histograms, sample: Sample, expected: NDArray[Any], words: NDArray[Any]) -> None:
    d = element_type(sample.types["dst"])
    assert d is not None
    nan_wanted, nan_found = is_nan(d, expected), is_nan(d, words)
    numbers = ~(nan_wanted | nan_found)
    distances = ulp_distance(d, expected[numbers], words[numbers])
    histograms.add(sample.instruction.name, d.name, distances, int((nan_wanted ^ nan_found).sum()))
