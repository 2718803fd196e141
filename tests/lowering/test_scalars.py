"""Operations of ``arith`` on numbers that only execution knows: those of the interpreter, bit by bit."""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest

from pto_jax.cases.code import executed
from pto_jax.ir import DType, dtype
from pto_jax.lowering import Semantics, scalars
from pto_jax.lowering.bits import x64
from pto_jax.oracle.scalars import compute
from pto_jax.profiles import PROFILES

INTEGERS = [dtype(n) for n in ("i1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "index")]
FLOATS = [dtype(n) for n in ("f16", "bf16", "f32")]
INTEGER = "addi subi muli divui ceildivui remui minui maxui andi ori xori shli shrui".split()
#: Operations that unsigned integers have not.
SIGNED = "divsi ceildivsi floordivsi remsi minsi maxsi shrsi".split()
FLOAT = "addf subf mulf divf remf maximumf minimumf maxnumf minnumf".split()
ORDERS = [f"cmpi.{p}" for p in "eq ne ult ule ugt uge".split()]
SIGNED_ORDERS = [f"cmpi.{p}" for p in "slt sle sgt sge".split()]
BOOL = dtype("i1")
FLOAT_ORDERS = [
    f"cmpf.{p}" for p in "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
]


def numbers(d: DType) -> list[Any]:
    """Those at the ends of a range, those at which rules change, and a few others."""
    if d.is_float:
        tiny = float(np.nextafter(np.array(0, d.numpy), np.array(1, d.numpy)))
        most = float(
            np.array(np.finfo(np.float32).max if d.name == "f32" else 6.5e4 if d.name == "f16" else 3e38)
        )
        return [
            0.0,
            -0.0,
            1.0,
            -1.5,
            0.1,
            3.0,
            257.0,
            tiny,
            -tiny,
            most,
            -most,
            math.inf,
            -math.inf,
            math.nan,
        ]
    if d.bits == 1:
        return [False, True]
    low, high = (-(1 << 63), (1 << 63) - 1) if d.kind == "index" else (d.min_int, d.max_int)
    return sorted(
        {low, low + 1, high - 1, high, *(n for n in (-7, -2, -1, 0, 1, 2, 3, 5, 31) if low <= n <= high)}
    )


def found(name: str, operands: Sequence[Sequence[Any]], source: DType, result: DType) -> list[Any]:
    """What the engine gives for each of some operands."""
    semantics = Semantics(PROFILES["a5"])
    columns = [np.array(c, scalars.native(source)) for c in zip(*operands, strict=True)]

    def execute(values: Sequence[Any]) -> Any:
        return jax.vmap(lambda *a: scalars.compute(semantics, name, a, source, result))(*values)

    with x64():
        results: list[Any] = np.asarray(executed("numpy", execute, columns)).tolist()
    return results


def same(a: Any, b: Any) -> bool:
    """Whether two numbers are one, the sign of zero included; NaN is NaN."""
    if isinstance(a, float) or isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(int(a) == int(b))


def differences(name: str, count: int, source: DType, result: DType) -> Iterator[str]:
    operands = list(product(*[numbers(source)] * count))
    if name.startswith("sh") and source == BOOL:
        operands = [(value, False) for value, _ in operands]  # a larger count has no result
    for values, got in zip(operands, found(name, operands, source, result), strict=True):
        expected = compute(f"arith.{name}", values, source, result)
        if not same(got, expected):
            yield f"{name} {values} {source} -> {result}: {got}, interpreter {expected}"


def is_signed(d: DType) -> bool:
    return d.kind != "uint" or d == BOOL


@pytest.mark.variants(4)
@pytest.mark.parametrize("d", INTEGERS, ids=str)
def test_operations_on_integers(d: DType) -> None:
    names = [(n, d) for n in INTEGER + SIGNED * is_signed(d)]
    names += [(n, BOOL) for n in ORDERS + SIGNED_ORDERS * is_signed(d)]
    assert [line for n, result in names for line in differences(n, 2, d, result)] == []


@pytest.mark.variants(1)
@pytest.mark.parametrize("d", FLOATS, ids=str)
def test_operations_on_floats(d: DType) -> None:
    names = [(n, d) for n in FLOAT] + [(n, BOOL) for n in FLOAT_ORDERS]
    assert [line for n, result in names for line in differences(n, 2, d, result)] == []
    assert list(differences("negf", 1, d, d)) == []


def conversions(source: DType) -> Iterator[tuple[str, DType]]:
    """Conversions that a type has, with what they give."""
    index, whole = source.kind == "index", [d for d in INTEGERS if d.kind != "index"]
    if source.is_float:
        yield from ((f"fpto{'s' if is_signed(d) else 'u'}i", d) for d in whole)
        yield from (
            ("extf" if d.bits > source.bits else "truncf", d) for d in FLOATS if d.bits != source.bits
        )
        return
    cast = "index_cast" if is_signed(source) else "index_castui"
    yield from ((cast, d) for d in INTEGERS if (d.kind == "index") != index)
    if not index:
        sign = "s" if is_signed(source) else "u"
        wider, narrower = (f"ext{sign}i", "extui"), ("trunci",)
        for d in whole:
            names = wider if d.bits > source.bits else narrower if d.bits < source.bits else ()
            yield from ((n, d) for n in names)
        yield from ((f"{sign}itofp", d) for d in FLOATS)


@pytest.mark.parametrize("d", [*INTEGERS, *FLOATS], ids=str)
def test_conversions(d: DType) -> None:
    assert [line for n, result in conversions(d) for line in differences(n, 1, d, result)] == []
