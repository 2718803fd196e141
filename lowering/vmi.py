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
from pto_jax.isa.vmi import OLD_CONVERSIONS, OLD_REDUCTIONS

from . import bits, registers
from .micro import RegisterCall, memory_rule, regrouped, rule
from .numerics import Integer
from .registers import LANE_RULES, converted, elements, numbers, zeroed

if TYPE_CHECKING:
    from jaxtyping import Int64

    from .machine.local_memory import Place
    from .machine.tile_memory import TileMemory
    from .registers import Active, Lanes

_PLAIN = (
    "vadd vsub vmul vdiv vmax vmin vneg vrelu vexp vln vsqrt vrsqrt vadds vmuls vmaxs vmins vlrelu vprelu "
    "vmula vmadd vaxpy vshl vshr vshls vshrs vaddc vaddcs vsubc vsubcs vmull vselr"
)


#: The operands of sums whose last one may be the carry: without a mask.
_CARRIED = {"vaddcs": 3, "vsubcs": 3}


def _masked(operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """The operands with a mask of all lanes where they have none."""
    if operands[-1].dtype == np.bool_:
        return operands
    return (*operands, jnp.ones(operands[0].shape, bool))


def _as_registers(name: str) -> None:
    function, unmasked = LANE_RULES[name], _CARRIED.get(name)

    @rule(f"vmi.{name}")
    def execute(call: RegisterCall, *operands: Array) -> tuple[Array, ...]:
        if len(operands) == unmasked:
            operands = (*operands, jnp.ones(operands[0].shape, bool))
        return function(replace(call, name=name), *(operands if name == "vselr" else _masked(operands)))


for _name in _PLAIN.split():
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
    """Integers without a sign have none; a letter before the comparison says what unordered floats give."""
    t = lanes(call.types[0])
    a = call.arithmetic(dtype(f"u{t.dtype.bits}") if t.signless else t.dtype)
    x, y = jnp.broadcast_arrays(x, y)
    name = str(call.attributes["cmp"])
    if isinstance(a, Integer):
        return (a.compare_words(CmpMode[name[-2:].upper()], x, y) & seed,)
    unordered = bits.is_nan(x, a.dtype) | bits.is_nan(y, a.dtype)
    if name in ("uno", "ord"):
        return ((unordered if name == "uno" else ~unordered) & seed,)
    holds = a.compare_words(CmpMode[name[-2:].upper()], x, y)
    if len(name) == 3:
        holds = holds | unordered if name[0] == "u" else holds & ~unordered
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
def _interleave(call: RegisterCall, x: Lanes, y: Lanes, mask: Active | None = None) -> tuple[Lanes, ...]:
    return registers.interleaved(x, y)


@rule("vmi.vdintlv")
def _separate(call: RegisterCall, x: Lanes, y: Lanes, mask: Active | None = None) -> tuple[Lanes, ...]:
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
def _convert(call: RegisterCall, words: Lanes, mask: Active | None = None) -> tuple[Lanes, ...]:
    source, target = element(call.types[0]), element(call.results[0])
    sign = OLD_CONVERSIONS.get(call.name.removeprefix("vmi."), "")
    one = dtype(f"{sign}{source.bits}") if sign and source.is_integer else unpaired(source)
    letter = str(call.attributes["rounding"])
    # Nearest has ties away from zero in the only rounding besides H that the format has.
    letter = "A" if target.name == "hif8" and letter == "R" else letter
    saturate = call.attributes["saturate"] == "SAT"
    made = converted(numbers(words, source), one, unpaired(target), letter, saturate=saturate)
    made = elements(made, target)
    return (made if mask is None else zeroed(mask, made),)


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
    total, name = lanes(call.results[0]).lanes, str(call.attributes["pattern"])[len("PAT_") :]
    if name[0] == "M":
        return (jnp.asarray(np.arange(total) % int(name[1:]) == 0),)
    count = {"ALL": total, "ALLF": 0, "H": total // 2, "Q": total // 4}.get(name)
    return (jnp.asarray(np.arange(total) < (int(name[2:]) if count is None else count)),)


# -- memory ------------------------------------------------------------------------------------------


def _places(call: MicroCall, count: int, size: int, stride: Any) -> Any:
    """The elements behind a pointer that lanes are, constant with the stride; None for one run."""
    at = np.arange(count, dtype=np.int64)
    groups = call.attributes.get("group")
    step = 0 if stride is None else stride if isinstance(stride, int) else _number(stride)
    if groups:
        each = count // int(groups)
        return at // each * step + at % each
    if stride is not None:
        block = 32 // size
        return at // block * block * step + at % block
    return np.zeros_like(at) if call.attributes.get("dist_mode") == "brc" else None


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
    shown = jnp.broadcast_to(active[:, None], where.shape)
    base.scatter(where, regrouped(words, unit).reshape(where.shape), shown, unique=False)


@memory_rule("vmi.vload", "vmi.load")
def _load(
    call: MicroCall, machine: TileMemory, source: Place, offset: Any, stride: Any = None
) -> tuple[Lanes, ...]:
    t, width = lanes(call.results[0]), source.dtype.word_bits
    at = _places(call, t.lanes, width // 8, stride)
    words = source.read(t.lanes, width) if at is None else _gathered(source, at, width)
    return (lax.convert_element_type(words, t.dtype.word),)


def _stored(call: MicroCall, dest: Place, value: Lanes, stride: Any, mask: Active | None) -> tuple[()]:
    """Lanes, of which an element of the pointer's type has the low bits."""
    words = lax.convert_element_type(value, dest.dtype.word)
    at = _places(call, value.shape[0], words.dtype.itemsize, stride)
    if at is None:
        dest.write(words, mask)
    else:
        _scattered(dest, at, words, jnp.ones(words.shape, bool) if mask is None else mask)
    return ()


@memory_rule("vmi.vstore", "vmi.store")
def _store(
    call: MicroCall, machine: TileMemory, value: Lanes, dest: Place, offset: Any, extra: Any = None
) -> tuple[()]:
    """The operand behind the offset is a stride or the mask."""
    if getattr(extra, "dtype", None) == np.bool_:
        return _stored(call, dest, value, None, extra)
    return _stored(call, dest, value, extra, None)


@memory_rule("vmi.vsstb")
def _store_blocks(
    call: MicroCall, machine: TileMemory, value: Lanes, dest: Place, offset: Any, stride: Any, mask: Active
) -> tuple[()]:
    return _stored(call, dest, value, stride, mask)


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
