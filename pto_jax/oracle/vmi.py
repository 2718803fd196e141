"""NumPy rules of operations on logical registers."""

from dataclasses import replace
from typing import Any

import numpy as np

from ..ir import F32, CmpMode, dtype, unpaired
from ..isa.micro import Lanes, MicroCall
from ..isa.rules.registers import element, lanes, listed
from ..isa.vmi import OLD_CONVERSIONS, OLD_REDUCTIONS, SAME
from . import arithmetic as lane, registers
from .micro import Memory, memory_rule, rule
from .numbers import Array, decode, encode
from .registers import LANE_RULES, converted, elements, numbers, zeroed
from .step import compare


def _with_mask(operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """The operands with a mask of all lanes where they have none."""
    if operands[-1].dtype == np.bool_:
        return operands
    return (*operands, np.ones(len(operands[0]), np.bool_))


def _as_registers(name: str) -> None:
    @rule(f"vmi.{name}")
    def execute(call: MicroCall, *operands: Array) -> tuple[Array, ...]:
        arguments = operands if name == "vselr" else _with_mask(operands)
        return LANE_RULES[name](replace(call, name=name), *arguments)


for _name in SAME:
    _as_registers(_name)


@rule("vmi.vabs")
def _absolute(call: MicroCall, words: Array, mask: Array | None = None) -> tuple[Array, ...]:
    """Of bf16 the sign bit is cleared, for want of an operation on registers."""
    words, mask = _with_mask((words,) if mask is None else (words, mask))
    d = element(call.types[0])
    result = words & d.word.type(0x7FFF) if d.name == "bf16" else lane.absolute(d, words)
    return (zeroed(mask, result),)


def _bitwise(name: str, operation: Any) -> None:
    @rule(f"vmi.{name}")
    def execute(call: MicroCall, *operands: Array) -> tuple[Array, ...]:
        if operands[0].dtype == np.bool_:
            return (operation(*operands),)
        *sources, mask = _with_mask(operands)
        return (zeroed(mask, operation(*sources)),)


_bitwise("vand", np.bitwise_and)
_bitwise("vor", np.bitwise_or)
_bitwise("vxor", np.bitwise_xor)
_bitwise("vnot", np.bitwise_not)


@rule("vmi.vcmp", "vmi.vcmps")
def _compare(call: MicroCall, a: Array, b: Array, seed: Array) -> tuple[Array, ...]:
    """Integers without a sign have none; an o before the comparison: NaN is not unequal either."""
    t = lanes(call.types[0])
    d = dtype(f"u{t.dtype.bits}") if t.signless else t.dtype
    x, y = decode(a, d), decode(b, d)
    name = str(call.attributes["cmp"])
    holds = compare(CmpMode[name[-2:].upper()], x, y)
    if len(name) == 3:
        holds = holds & ~(np.isnan(x) | np.isnan(y))
    return (holds & seed,)


@rule("vmi.vsel")
def _select(call: MicroCall, mask: Array, a: Array, b: Array) -> tuple[Array, ...]:
    return (np.where(mask, a, b),)


@rule("vmi.vexpdif")
def _exponential(call: MicroCall, *operands: Array) -> tuple[Array, ...]:
    a, b, mask = _with_mask(operands)
    d = element(call.types[0])
    a, b = (encode(decode(v, d), F32) for v in (a, b))
    return (zeroed(mask, lane.precise(np.exp)(F32, lane.subtract(F32, a, b))),)


@rule("vmi.vintlv")
def _interleave(call: MicroCall, a: Array, b: Array, mask: Array) -> tuple[Array, ...]:
    return registers.interleaved(a, b)


@rule("vmi.vdintlv")
def _separate(call: MicroCall, a: Array, b: Array, mask: Array) -> tuple[Array, ...]:
    return registers.separated(a, b)


@rule("vmi.vci")
def _count_up(call: MicroCall, base: Array) -> tuple[Array, ...]:
    t, groups = lanes(call.results[0]), int(call.attributes.get("group", 1))
    one = replace(call, name="vci", results=(replace(t, lanes=t.lanes // groups),))
    return (np.tile(LANE_RULES["vci"](one, base)[0], groups),)


@rule("vmi.vbrc", "vmi.group_broadcast")
def _broadcast(call: MicroCall, value: Array) -> tuple[Array, ...]:
    t = lanes(call.results[0])
    slots = value.reshape(-1).astype(t.dtype.word)
    return (np.repeat(slots, t.lanes // len(slots)),)


@rule("vmi.vcvt", *(f"vmi.{name}" for name in OLD_CONVERSIONS))
def _convert(call: MicroCall, words: Array) -> tuple[Array, ...]:
    source, target = element(call.types[0]), element(call.results[0])
    sign = OLD_CONVERSIONS.get(call.name.removeprefix("vmi."), "")
    one = dtype(f"{sign}{source.bits}") if sign and source.is_integer else unpaired(source)
    letter = str(call.attributes["rounding"])
    if target.name == "hif8" and letter == "R":
        letter = "A"
    saturate = call.attributes["saturate"] == "SAT"
    result = converted(numbers(words, source), one, unpaired(target), letter, saturate=saturate)
    return (elements(result, target),)


@rule("vmi.vinterpret_cast")
def _reinterpret(call: MicroCall, words: Array) -> tuple[Array, ...]:
    return (np.ascontiguousarray(words).view(element(call.results[0]).word),)


# -- reductions --------------------------------------------------------------------------------------


@rule("vmi.vcadd", "vmi.vcmax", "vmi.vcmin", *(f"vmi.{name}" for name in OLD_REDUCTIONS))
def _reduce(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    d, name = element(call.types[0]), call.name.removeprefix("vmi.")
    name = OLD_REDUCTIONS.get(name, name)
    groups = int(call.attributes.get("group") or call.attributes.get("num_groups") or 1)
    if name == "vcadd":
        return (registers.tree_sum(d, zeroed(mask, words).reshape(groups, -1))[:, 0],)
    largest = name == "vcmax"
    filled = np.where(mask, words, registers.neutral(d, largest)).reshape(groups, -1)
    return (registers.extreme(d, filled, largest)[:, 0],)


@rule("vmi.vdhist", "vmi.vchist")
def _histogram(call: MicroCall, counts: Array, samples: Array, mask: Array) -> tuple[Array, ...]:
    bins = np.bincount(samples[mask], minlength=256)
    bins = np.cumsum(bins) if call.name == "vmi.vchist" else bins
    return (counts + bins[: len(counts)].astype(counts.dtype),)


# -- masks -------------------------------------------------------------------------------------------


def _number(count: Any) -> int:
    word = np.asarray(count)
    return int(word.view(f"i{word.dtype.itemsize}"))


@rule("vmi.create_mask")
def _first(call: MicroCall, count: Array) -> tuple[Array, ...]:
    return (np.arange(lanes(call.results[0]).lanes) < _number(count),)


@rule("vmi.constant_mask")
def _listed(call: MicroCall) -> tuple[Array, ...]:
    return (np.array(listed(str(call.attributes["value"]), lanes(call.results[0]).lanes)),)


@rule("vmi.create_group_mask")
def _first_of_groups(call: MicroCall, count: Array) -> tuple[Array, ...]:
    total = lanes(call.results[0]).lanes
    size = int(call.attributes.get("group_size") or total // int(call.attributes["num_groups"]))
    return (np.arange(total) % size < _number(count),)


@rule("vmi.plt")
def _below(call: MicroCall, count: Array) -> tuple[Array, ...]:
    total, number = lanes(call.results[0]).lanes, int(count)
    return np.arange(total) < number, np.asarray(max(0, number - total), np.uint32)


@rule("vmi.pset", "vmi.pge")
def _pattern(call: MicroCall) -> tuple[Array, ...]:
    total, count = lanes(call.results[0]).lanes, str(call.attributes["pattern"]).removeprefix("PAT_VL")
    return (np.arange(total) < (int(count) if count.isdigit() else total),)


# -- memory ------------------------------------------------------------------------------------------


def _places(call: MicroCall, count: int, size: int, strides: list[Any]) -> Array:
    """The bytes behind a pointer at which lanes begin."""
    at = np.arange(count, dtype=np.int64)
    groups, single = call.attributes.get("group"), call.attributes.get("dist_mode") == "brc"
    if groups:
        each = count // int(groups)
        return (at // each * _number(strides[0]) + (0 if single else at % each)) * size
    if strides:
        block, repeat = (_number(s) for s in (*strides, np.int16(0))[:2])
        return 32 * (at * size // 32 * block + repeat) + at * size % 32
    return np.zeros_like(at) if single else at * size


def _loaded(t: Lanes, memory: Memory, source: Any, at: Array) -> Array:
    size = source.dtype.storage_bits // 8
    data = memory.read(source, at[:, None] + np.arange(size))
    return np.ascontiguousarray(data).view(f"u{size}")[:, 0].astype(t.dtype.word)


@memory_rule("vmi.vload", "vmi.load")
def _load(
    call: MicroCall, memory: Memory, source: Any, offset: Any, stride: Any = None, repeat: Any = None
) -> tuple[Array, ...]:
    t, parts = lanes(call.results[0]), len(call.results)
    strides = [s for s in (stride, repeat) if s is not None]
    at = _places(call, t.lanes * parts, source.dtype.storage_bits // 8, strides)
    return tuple(_loaded(t, memory, source, at[part::parts]) for part in range(parts))


def _written(memory: Memory, dest: Any, at: Array, value: Array, mask: Array | None) -> tuple[()]:
    """Lanes, of which an element of the pointer's type has the low bits."""
    size = dest.dtype.storage_bits // 8
    data = np.ascontiguousarray(value.astype(f"u{size}")).view(np.uint8).reshape(-1, size)
    places = slice(None) if mask is None else np.flatnonzero(mask)
    memory.write(dest, at[places, None] + np.arange(size), data[places])
    return ()


@memory_rule("vmi.vstore", "vmi.store", "vmi.vsstb")
def _store(
    call: MicroCall, memory: Memory, value: Array, dest: Any, offset: Any, high: Array | None = None,
    **behind: Any,
) -> tuple[()]:  # fmt: skip
    """Behind the offset are strides, and the mask as the last operand."""
    if high is not None:
        value = np.stack([value, high], -1).reshape(-1)
    mask = next((b for b in behind.values() if np.asarray(b).dtype == np.bool_), None)
    strides = [b for b in behind.values() if b is not mask]
    if mask is not None and high is not None:
        mask = np.repeat(mask, 2)
    return _written(
        memory, dest, _places(call, len(value), dest.dtype.storage_bits // 8, strides), value, mask
    )


@memory_rule("vmi.vgather", "vmi.vgatherb")
def _gather(call: MicroCall, memory: Memory, source: Any, offsets: Array, mask: Array) -> tuple[Array, ...]:
    size = 1 if call.name == "vmi.vgatherb" else source.dtype.storage_bits // 8
    words = np.zeros(len(offsets), lanes(call.results[0]).dtype.word)
    words[mask] = _loaded(lanes(call.results[0]), memory, source, offsets[mask].astype(np.int64) * size)
    return (words,)


@memory_rule("vmi.vscatter")
def _scatter(
    call: MicroCall, memory: Memory, value: Array, dest: Any, offsets: Array, mask: Array
) -> tuple[()]:
    return _written(memory, dest, offsets.astype(np.int64) * (dest.dtype.storage_bits // 8), value, mask)
