"""JAX rules of operations on logical registers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F32, CmpMode, dtype, unpaired
from pto_jax.isa.micro import MicroCall
from pto_jax.isa.rules.registers import element, lanes, listed
from pto_jax.isa.vmi import OLD_CONVERSIONS, OLD_REDUCTIONS, SAME

from . import bits, registers
from .micro import RegisterCall, memory_rule, regrouped, rule
from .numerics import Integer
from .registers import LANE_RULES, converted, elements, numbers, zeroed

if TYPE_CHECKING:
    from jaxtyping import Int64

    from .machine.local_memory import Place
    from .machine.tile_memory import TileMemory
    from .registers import Active, Lanes


def _masked(operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """The operands with a mask of all lanes where they have none."""
    if operands[-1].dtype == np.bool_:
        return operands
    return (*operands, jnp.ones(operands[0].shape, bool))


def _as_registers(name: str) -> None:
    function = LANE_RULES[name]

    @rule(f"vmi.{name}")
    def execute(call: RegisterCall, *operands: Array) -> tuple[Array, ...]:
        return function(replace(call, name=name), *(operands if name == "vselr" else _masked(operands)))


for _name in SAME:
    _as_registers(_name)


@rule("vmi.vabs")
def _absolute(call: RegisterCall, *operands: Array) -> tuple[Array, ...]:
    """Of bf16 the sign bit is cleared, for want of an operation on registers."""
    words, mask = _masked(operands)
    if element(call.types[0]).name == "bf16":
        return (zeroed(mask, words & np.uint16(0x7FFF)),)
    return LANE_RULES["vabs"](replace(call, name="vabs"), words, mask)


def _bitwise(name: str) -> None:
    function = LANE_RULES[name]

    @rule(f"vmi.{name}")
    def execute(call: RegisterCall, *operands: Array) -> tuple[Array, ...]:
        """Masks are joined whole, under no other one."""
        if operands[0].dtype != np.bool_:
            return function(replace(call, name=name), *_masked(operands))
        flags = operands[0]
        if name == "vnot":
            return (~flags,)
        join = {"vand": lax.bitwise_and, "vor": lax.bitwise_or, "vxor": lax.bitwise_xor}[name]
        return (join(flags, operands[1]),)


for _name in ("vand", "vor", "vxor", "vnot"):
    _bitwise(_name)


@rule("vmi.vcmp", "vmi.vcmps")
def _compare(call: RegisterCall, x: Lanes, y: Lanes, seed: Active) -> tuple[Active, ...]:
    """Integers without a sign have none; ``one`` differs from ``ne`` in that NaN is not unequal."""
    t = lanes(call.types[0])
    a = call.arithmetic(dtype(f"u{t.dtype.bits}") if t.signless else t.dtype)
    x, y = jnp.broadcast_arrays(x, y)
    name = str(call.attributes["cmp"])
    if isinstance(a, Integer):
        return (a.compare_words(CmpMode[name[-2:].upper()], x, y) & seed,)
    holds = a.compare_words(CmpMode[name[-2:].upper()], x, y)
    if name == "one":
        holds = holds & ~(bits.is_nan(x, a.dtype) | bits.is_nan(y, a.dtype))
    return (holds & seed,)


@rule("vmi.vsel")
def _select(call: RegisterCall, mask: Active, x: Lanes, y: Lanes) -> tuple[Lanes, ...]:
    return (bits.where(mask, x, y),)


@rule("vmi.vexpdif")
def _exponential(call: RegisterCall, *operands: Array) -> tuple[Lanes, ...]:
    x, y, mask = _masked(operands)
    x, y = (bits.to_single(v, element(call.types[0])) for v in (x, y))
    single = replace(lanes(call.types[0]), dtype=F32)
    inner = replace(call, name="vexpdif", types=(single, single, call.types[-1]))
    return LANE_RULES["vexpdif"](inner, x, y, mask)


@rule("vmi.vintlv")
def _interleave(call: RegisterCall, x: Lanes, y: Lanes, mask: Active) -> tuple[Lanes, ...]:
    return registers.interleaved(x, y)


@rule("vmi.vdintlv")
def _separate(call: RegisterCall, x: Lanes, y: Lanes, mask: Active) -> tuple[Lanes, ...]:
    return registers.separated(x, y)


@rule("vmi.vci")
def _count_up(call: RegisterCall, base: Lanes) -> tuple[Lanes, ...]:
    t, groups = lanes(call.results[0]), int(call.attributes.get("group", 1))
    one = replace(call, name="vci", results=(replace(t, lanes=t.lanes // groups),))
    return (jnp.tile(LANE_RULES["vci"](one, base)[0], groups),)


@rule("vmi.vbrc", "vmi.group_broadcast")
def _broadcast(call: RegisterCall, value: Lanes) -> tuple[Lanes, ...]:
    t = lanes(call.results[0])
    slots = lax.convert_element_type(value.reshape(-1), t.dtype.word)
    each = t.lanes // slots.shape[0]
    return (jnp.broadcast_to(slots[:, None], (slots.shape[0], each)).reshape(-1),)


@rule("vmi.vcvt", *(f"vmi.{name}" for name in OLD_CONVERSIONS))
def _convert(call: RegisterCall, words: Lanes) -> tuple[Lanes, ...]:
    source, target = element(call.types[0]), element(call.results[0])
    sign = OLD_CONVERSIONS.get(call.name.removeprefix("vmi."), "")
    one = dtype(f"{sign}{source.bits}") if sign and source.is_integer else unpaired(source)
    letter = str(call.attributes["rounding"])
    # Nearest has ties away from zero in the only rounding besides H that the format has.
    letter = "A" if target.name == "hif8" and letter == "R" else letter
    saturate = call.attributes["saturate"] == "SAT"
    lanes = converted(numbers(words, source), one, unpaired(target), letter, saturate=saturate)
    return (elements(lanes, target),)


@rule("vmi.vinterpret_cast")
def _reinterpret(call: RegisterCall, words: Lanes) -> tuple[Lanes, ...]:
    return (regrouped(words, element(call.results[0]).word_bits),)


# -- reductions --------------------------------------------------------------------------------------


@rule("vmi.vcadd", "vmi.vcmax", "vmi.vcmin", *(f"vmi.{name}" for name in OLD_REDUCTIONS))
def _reduce(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    name = call.name.removeprefix("vmi.")
    name = OLD_REDUCTIONS.get(name, name)
    groups = int(call.attributes.get("group") or call.attributes.get("num_groups") or 1)
    a = call.arithmetic(element(call.types[0]))
    if name == "vcadd":
        return (registers.tree_sum(a, zeroed(mask, words).reshape(groups, -1)).reshape(-1),)
    largest = name == "vcmax"
    filled = bits.where(mask, words, registers.neutral(a.dtype, largest)).reshape(groups, -1)
    return (registers.extreme(a, filled, largest).reshape(-1),)


@rule("vmi.vdhist", "vmi.vchist")
def _histogram(call: RegisterCall, counts: Lanes, samples: Lanes, mask: Active) -> tuple[Lanes, ...]:
    name = "chistv2" if call.name == "vmi.vchist" else "dhistv2"
    return LANE_RULES[name](replace(call, name=name), counts, samples, mask, jnp.zeros((), np.uint32))


# -- masks -------------------------------------------------------------------------------------------


def _number(count: Any) -> Int64[Array, ""]:
    """A scalar of any width as a number with a sign."""
    word = jnp.asarray(count)
    signed = lax.bitcast_convert_type(word, np.dtype(f"i{word.dtype.itemsize}"))
    return lax.convert_element_type(signed, np.int64)


@rule("vmi.create_mask")
def _first(call: RegisterCall, count: Array) -> tuple[Active, ...]:
    return (lax.iota(np.int64, lanes(call.results[0]).lanes) < _number(count),)


@rule("vmi.constant_mask")
def _listed(call: RegisterCall) -> tuple[Active, ...]:
    return (jnp.asarray(np.array(listed(str(call.attributes["value"]), lanes(call.results[0]).lanes))),)


@rule("vmi.create_group_mask")
def _first_of_groups(call: RegisterCall, count: Array) -> tuple[Active, ...]:
    total = lanes(call.results[0]).lanes
    size = int(call.attributes.get("group_size") or total // int(call.attributes["num_groups"]))
    return (jnp.asarray(np.arange(total) % size) < _number(count),)


@rule("vmi.plt")
def _below(call: RegisterCall, count: Array) -> tuple[Array, ...]:
    total = np.uint32(lanes(call.results[0]).lanes)
    left = jnp.where(count < total, np.uint32(0), count - total)
    return lax.iota(np.uint32, int(total)) < count, left


@rule("vmi.pset", "vmi.pge")
def _pattern(call: RegisterCall) -> tuple[Active, ...]:
    total, name = lanes(call.results[0]).lanes, str(call.attributes["pattern"])
    count = total if name == "PAT_ALL" else int(name[len("PAT_VL") :])
    return (jnp.asarray(np.arange(total) < count),)


# -- memory ------------------------------------------------------------------------------------------


def _places(call: MicroCall, count: int, size: int, strides: tuple[Any, ...]) -> Any:
    """The elements behind a pointer that lanes are, constant with the strides; None for one run."""
    at = np.arange(count, dtype=np.int64)
    groups, single = call.attributes.get("group"), call.attributes.get("dist_mode") == "brc"
    step, *more = (s if isinstance(s, int) else _number(s) for s in strides) if strides else (0,)
    if groups:
        each = count // int(groups)
        return at // each * step + (0 if single else at % each)
    if strides:
        block = 32 // size
        return (at // block * step + sum(more)) * block + at % block
    return np.zeros_like(at) if single else None


def _gathered(base: Place, at: Any, width: int) -> Lanes:
    """Elements of ``width`` bits at positions in such elements."""
    unit = base.unit(width // 8)
    pieces = width // unit
    return regrouped(base.gather(at[:, None] * pieces + np.arange(pieces), unit).reshape(-1), width)


def _scattered(base: Place, at: Any, words: Lanes, active: Active) -> None:
    width = words.dtype.itemsize * 8
    unit = base.unit(width // 8)
    pieces = width // unit
    where = at[:, None] * pieces + np.arange(pieces)
    mask = jnp.broadcast_to(active[:, None], where.shape)
    base.scatter(where, regrouped(words, unit).reshape(where.shape), mask, unique=False)


@memory_rule("vmi.vload", "vmi.load")
def _load(
    call: MicroCall, machine: TileMemory, source: Place, offset: Any, **strides: Any
) -> tuple[Lanes, ...]:
    """Of two results the first has the even lanes."""
    t, width, parts = lanes(call.results[0]), source.dtype.word_bits, len(call.results)
    at = _places(call, t.lanes * parts, width // 8, tuple(strides.values()))
    words = source.read(t.lanes * parts, width) if at is None else _gathered(source, at, width)
    words = lax.convert_element_type(words, t.dtype.word)
    return tuple(words[part::parts] for part in range(parts))


def _by_turns(first: Array, second: Array) -> Array:
    return jnp.stack([first, second], axis=1).reshape(-1)


@memory_rule("vmi.vstore", "vmi.store", "vmi.vsstb")
def _store(
    call: MicroCall, machine: TileMemory, value: Lanes, dest: Place, offset: Any, **operands: Any
) -> tuple[()]:
    """Elements of the pointer's type have the low bits of lanes; the last operand may be a mask."""
    high = operands.pop("high", None)
    *strides, last = operands.values() or (None,)
    masked = getattr(last, "dtype", None) == np.bool_
    mask = last if masked else None
    if high is not None:
        value = _by_turns(value, high)
        mask = None if mask is None else _by_turns(mask, mask)
    words = lax.convert_element_type(value, dest.dtype.word)
    strides += [] if masked or last is None else [last]
    at = _places(call, value.shape[0], words.dtype.itemsize, tuple(strides))
    if at is None:
        dest.write(words, mask)
    else:
        _scattered(dest, at, words, jnp.ones(words.shape, bool) if mask is None else mask)
    return ()


@memory_rule("vmi.vgather", "vmi.vgatherb")
def _gather(
    call: MicroCall, machine: TileMemory, source: Place, offsets: Lanes, mask: Active
) -> tuple[Lanes, ...]:
    word, width = element(call.results[0]).word, source.dtype.word_bits
    at = jnp.where(mask, lax.convert_element_type(offsets, np.int64), np.int64(0))
    if call.name == "vmi.vgatherb":
        octets = source.gather(at[:, None] + np.arange(width // 8), 8)
        words = regrouped(octets.reshape(-1), width)
    else:
        words = _gathered(source, at, width)
    return (zeroed(mask, lax.convert_element_type(words, word)),)


@memory_rule("vmi.vscatter")
def _scatter(
    call: MicroCall, machine: TileMemory, value: Lanes, dest: Place, offsets: Lanes, mask: Active
) -> tuple[()]:
    words = lax.convert_element_type(value, dest.dtype.word)
    _scattered(dest, lax.convert_element_type(offsets, np.int64), words, mask)
    return ()
