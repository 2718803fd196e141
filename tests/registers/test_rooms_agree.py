"""Every operation on registers, of every element type: the JAX rule and the NumPy rule give equal bits."""

from typing import Any

import numpy as np
import pytest

from pto_jax import isa
from pto_jax.isa.micro import Lanes, MicroCall
from pto_jax.isa.rules.registers import PARTS, element, governed
from pto_jax.lowering import micro as engine
from pto_jax.oracle import micro as oracle

from . import calls
from .calls import mask, mask_for, scalar, vreg

INTEGERS = ("i8", "si16", "ui16", "i32", "ui32")
FLOATS = ("f16", "bf16", "f32")
REAL = ("f16", "f32")
SCALED = ("vadds", "vmuls", "vmaxs", "vmins")
HALVES = ({"part": "LOWER"}, {"part": "HIGHER"})
TURNS = ({"part": "EVEN"}, {"part": "ODD"})


def one(name: str, *sources: str, result: str = "", **attributes: Any) -> MicroCall:
    """Registers (and scalars, marked by ``*``) of element types, governed by a mask."""
    types = tuple(scalar(s[1:]) if s.startswith("*") else vreg(s) for s in sources)
    target = result or sources[0]
    return MicroCall(name, (*types, mask_for(sources[0])), (vreg(target),), attributes)


def _arithmetic() -> list[MicroCall]:
    found = [one(n, t, t) for n in ("vadd", "vsub") for t in (*INTEGERS, "si64", *FLOATS)]
    found += [one("vmul", t, t) for t in ("si16", "ui32", *FLOATS)]
    found += [one("vdiv", t, t) for t in ("si16", "i32", *REAL)]
    found += [one(n, t, t) for n in ("vmax", "vmin") for t in (*INTEGERS, *FLOATS)]
    found += [one(n, t) for n in ("vabs", "vneg") for t in ("i8", "si16", "i32", *REAL)]
    found += [one("vrelu", t) for t in ("si32", *REAL)]
    found += [one(n, t) for n in ("vexp", "vln", "vsqrt", "vrsqrt") for t in REAL]
    found += [one(n, t, t) for n in ("vand", "vor", "vxor") for t in ("i8", "f16", "ui32", "f8e4m3")]
    found += [one("vnot", t) for t in ("i8", "si32")]
    found += [
        one(n, t, f"*{t}") for n in ("vadds", "vmuls", "vmaxs", "vmins") for t in ("si16", "ui32", *FLOATS)
    ]
    found += [one("vlrelu", t, f"*{t}") for t in REAL] + [one("vprelu", t, t) for t in REAL]
    found += [one(n, t, t, t) for n in ("vmula", "vmadd") for t in ("si16", *FLOATS)]
    found += [one("vaxpy", t, t, f"*{t}") for t in REAL]
    found += [one("vexpdif", t, t, result="f32", **p) for t in REAL for p in TURNS]
    found += [one("vmulscvt", "f32", "*f32", result="f16", rnd="A", part=p) for p in ("EVEN", "ODD")]
    found += [
        one(n, t, "s" + t.lstrip("su"))
        for n in ("vshl", "vshr")
        for t in ("i8", "si8", "ui16", "i32", "si32")
    ]
    return found + [one(n, t, "*i16") for n in ("vshls", "vshrs") for t in ("i8", "si16", "ui32")]


def _carries() -> list[MicroCall]:
    m, found = mask(32), []
    for t in ("i32", "ui32"):
        pair = (vreg(t), vreg(t))
        found += [MicroCall(n, (*pair, m), (vreg(t), m)) for n in ("vaddc", "vsubc")]
        found += [MicroCall(n, (*pair, m, m), (vreg(t), m)) for n in ("vaddcs", "vsubcs")]
        found += [MicroCall("vmull", (*pair, m), pair)]
    return found


def _comparisons() -> list[MicroCall]:
    found = []
    for t in (*INTEGERS, *FLOATS):
        for mode in ("eq", "ne", "lt", "le", "gt", "ge"):
            m, r = mask_for(t), vreg(t)
            found.append(MicroCall("vcmp", (r, r, m), (m,), {"mode": mode}))
            found.append(MicroCall("vcmps", (r, scalar(t), m), (m,), {"mode": mode}))
        found.append(MicroCall("vsel", (vreg(t), vreg(t), mask_for(t)), (vreg(t),)))
    return found


def _reductions() -> list[MicroCall]:
    wider = {"i8": "i16", "ui8": "ui16", "si16": "si32", "ui16": "ui32"}
    types = ("i8", "ui8", "si16", "ui16", "i32", "ui32", *REAL)
    found = [one("vcadd", t, result=wider.get(t, t)) for t in types]
    found += [one(n, t) for n in ("vcmax", "vcmin", "vcgadd", "vcgmax", "vcgmin") for t in types]
    found += [one("vcpadd", t) for t in REAL]
    for n in ("vcbmax", "vcbmin"):
        found += [MicroCall(n, (vreg(t), mask_for(t)), (vreg(t), mask_for(t))) for t in types]
    histogram = (vreg("ui16"), vreg("ui8"), mask(8), scalar("i32"))
    return found + [MicroCall(n, histogram, (vreg("ui16"),)) for n in ("dhistv2", "chistv2")]


def _moves() -> list[MicroCall]:
    found = []
    for t in ("i8", "ui16", "f32", "si64"):
        r = vreg(t)
        found += [MicroCall(n, (r, r), (r, r)) for n in ("vintlv", "vdintlv")]
        found += [MicroCall(n, (r, r), (r,), p) for n in ("vintlvv2", "vdintlvv2") for p in HALVES]
        found += [MicroCall("vselr", (r, vreg(f"ui{r.dtype.bits}")), (r,))]
        found += [MicroCall("vbitcast", (r,), (vreg(u),)) for u in ("f16", "ui8", "si32")]
        if t != "si64":
            found += [one("vsqz", t)]
    found += [one("vusqz", t) for t in ("si8", "si16", "i32")]
    for wide, narrow in (("i32", "ui16"), ("ui16", "ui8")):
        found += [
            MicroCall("vpack", (vreg(wide),), (vreg(narrow),), {"part": p}) for p in ("LOWER", "HIGHER")
        ]
    for narrow, wide in (("i16", "i32"), ("ui8", "ui16")):
        found += [
            MicroCall(n, (vreg(narrow), scalar("i16")), (vreg(wide),)) for n in ("vsunpack", "vzunpack")
        ]
    for t in ("si8", "f16", "si32", "f32"):
        found += [MicroCall("vbr", (scalar(t),), (vreg(t),))]
        found += [
            MicroCall("vdup", (s, mask_for(t)), (vreg(t),), a)
            for s in (scalar(t), vreg(t))
            for a in ({}, {"position": "HIGHEST"})
        ]
        found += [MicroCall("vci", (scalar(t),), (vreg(t),), {"order": o}) for o in ("ASC", "DESC")]
    return found


def _masks() -> list[MicroCall]:
    found = []
    for width in (8, 16, 32):
        m = mask(width)
        for pattern in "ALL ALLF VL1 VL3 VL16 VL128 H Q M3 M4".split():
            found += [
                MicroCall(f"{n}_b{width}", (), (m,), {"pattern": f"PAT_{pattern}"}) for n in ("pset", "pge")
            ]
        found += [MicroCall(f"plt_b{width}", (scalar("i32"),), (m, scalar("i32")))]
        found += [MicroCall(f"pltm_b{width}", (scalar("i16"), scalar("i32")), (m,))]
        found += [MicroCall(f"{n}_b{width}", (m, m), (m, m)) for n in ("pintlv", "pdintlv")]
        found += [
            MicroCall(n, (m,), (m,), {"part": p}) for n in ("ppack", "punpack") for p in ("LOWER", "HIGHER")
        ]
        found += [MicroCall(n, (m, m, m), (m,)) for n in ("pand", "por", "pxor", "psel")]
        found += [MicroCall("pnot", (m, m), (m,)), MicroCall("pbitcast", (m,), (mask(32),))]
    return found


#: Pairs of element types with the letters of rounding, whether they saturate, and their parts.
CONVERSIONS: tuple[tuple[str, str, str, bool, int], ...] = (
    *((("f32", t, "RAFCZHO", True, 2)) for t in ("f16", "bf16", "si16", "si64")),
    ("f32", "si32", "RAFCZHO", True, 1),
    *(("f32", t, "RAHZ", True, 4) for t in ("f8e4m3", "f8e5m2")),
    ("f32", "hif8", "AH", True, 4),
    ("f16", "si16", "RAFCZHO", True, 1),
    *(("f16", t, "RAFCZHO", True, 2) for t in ("si8", "ui8")),
    ("f16", "si32", "RAFCZHO", False, 2),
    *((t, "f32", "", False, 2) for t in ("f16", "bf16")),
    *((s, t, "RAFZC", True, 2) for s in ("f16", "bf16") for t in ("f8e4m3", "f8e5m2")),
    ("f16", "hif8", "AH", True, 2),
    ("bf16", "f16", "RAFCZHO", True, 1),
    ("bf16", "si32", "RAFCZHO", True, 2),
    *(("bf16", t, "RAFZC", False, 4) for t in ("f4e1m2x2", "f4e2m1x2")),
    ("ui8", "f16", "", False, 2), ("ui8", "ui16", "", False, 2), ("ui8", "ui32", "", False, 4),
    ("si8", "f16", "", False, 2), ("si8", "si16", "", False, 2), ("si8", "si32", "", False, 4),
    ("ui16", "ui8", "", True, 2), ("ui16", "ui32", "", False, 2),
    ("si16", "f16", "RAFCZHO", False, 1), ("si16", "f32", "", False, 2), ("si16", "ui32", "", False, 2),
    ("si16", "si32", "", False, 2), ("si16", "ui8", "", True, 2),
    ("ui32", "ui8", "", True, 4), ("ui32", "ui16", "", True, 2), ("ui32", "si16", "", True, 2),
    ("si32", "f32", "RAFCZHO", False, 1), ("si32", "ui8", "", True, 4), ("si32", "ui16", "", True, 2),
    ("si32", "si16", "", True, 2), ("si32", "si64", "", False, 2),
    ("si64", "f32", "RAFCZHO", False, 2), ("si64", "si32", "", True, 2),
    *((t, "f32", "", False, 4) for t in ("f8e4m3", "f8e5m2", "hif8")),
    *((t, "bf16", "", False, 4) for t in ("f4e1m2x2", "f4e2m1x2")),
)  # fmt: skip


def conversion(source: str, target: str, **attributes: Any) -> MicroCall:
    return one("vcvt", source, result=target, **attributes)


def _conversions() -> list[MicroCall]:
    found = []
    for s, t, letters, saturates, count in CONVERSIONS:
        packed = [{"part": p} for p in PARTS if p.startswith("P")]
        by_count: dict[int, list[dict[str, str]]] = {1: [{}], 2: list(TURNS), 4: packed}
        parts = by_count[count]
        for k, letter in enumerate(letters or " "):
            rounding = {"rnd": letter} if letters else {}
            for sat in ({"sat": "SAT"}, {"sat": "NOSAT"}) if saturates else ({},):
                # One part with every letter, every part with the first one.
                for part in parts if k == 0 else parts[-1:]:
                    found.append(conversion(s, t, **rounding, **sat, **part))
    return found + [one("vtrc", t, rnd=r) for t in FLOATS for r in "RAFCZ"]


FAMILIES = {
    "arithmetic": _arithmetic,
    "carries": _carries,
    "comparisons": _comparisons,
    "reductions": _reductions,
    "moves": _moves,
    "masks": _masks,
    "conversions": _conversions,
}
CALLS = [call for family in FAMILIES.values() for call in family()]


def label(call: MicroCall) -> str:
    types = "-".join(str(getattr(t, "dtype", t)) for t in (*call.types[:1], *call.results[:1]))
    return "-".join([call.name, types, *(str(v) for v in call.attributes.values())])


def batch(call: MicroCall, size: int = 8) -> list[tuple[np.ndarray, ...]]:
    """Operands of some executions, with all kinds of masks and boundary values."""
    return [tuple(_operand(call, i, k) for i in range(len(call.types))) for k in range(size)]


def _operand(call: MicroCall, i: int, k: int) -> np.ndarray:
    t = call.types[i]
    if isinstance(t, int):
        registers = any(isinstance(u, Lanes) and u.lanes > 1 for u in (*call.types, *call.results))
        lanes = governed(call) if registers else 2048 // t
        return list(calls.masks(lanes, (call.name, i, k)))[(i + k) % 4]
    assert t is not None
    lanes = t.lanes if t.lanes > 1 else 2 * 64
    words = calls.data(t.dtype, lanes, (label(call), i, k))
    if call.name.startswith("vsh"):
        words = words if i == 0 else words % element(call.types[0]).bits
    if t.lanes > 1:
        return words
    small = call.name in ("vsunpack", "vzunpack", "dhistv2", "chistv2")
    return np.asarray(words[k] % 2 if small else words[k], t.dtype.word)


#: The sweep of a default run: every operation once, conversions once per type of the result.
def _short() -> list[MicroCall]:
    seen: set[tuple[str, ...]] = set()
    short = []
    for call in CALLS:
        key = (call.name,) if call.name != "vcvt" else (call.name, label(call).split("-")[1])
        if key not in seen:
            short.append(call)
        seen.add(key)
    return short


def agree(call: MicroCall) -> None:
    cases = batch(call)
    expected = [calls.interpreted(call, *case) for case in cases]
    if not call.types:
        calls.same(call, calls.compiled(call), expected[0])
        return
    stacked = [np.stack(column) for column in zip(*cases, strict=True)]
    got = calls.compiled(call, *stacked, batched=True)
    calls.same(call, got, [np.stack(column) for column in zip(*expected, strict=True)])


@pytest.mark.parametrize("call", _short(), ids=label)
def test_both_rules_give_equal_bits(call: MicroCall) -> None:
    agree(call)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS, ids=label)
def test_both_rules_give_equal_bits_for_every_type_and_attribute(call: MicroCall) -> None:
    agree(call)
    calls.check(call, *batch(call, 1)[0])


def test_every_register_operation_has_two_rules_and_is_tried() -> None:
    declared = {name for name, operation in isa.micro_operations().items() if operation.kind == "register"}
    assert set(engine.RULES) == set(oracle.RULES) == declared
    assert {n for n in declared if not n.startswith("vmi.")} == {c.name for c in CALLS}
