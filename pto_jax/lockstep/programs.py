"""Random programs as arrays, drawn from (seed, index) by the same operations in NumPy and in JAX."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from ..lowering.lockstep import SCALARS, SLOTS, Programs
from . import values
from .tables import CHOICES, PLACES, Table, region
from .values import U32, Array, Module, stream

#: Instructions of a program.
STEPS = 20
#: Part of every case id: another version makes other programs of the same seeds.
VERSION = "lockstep-3"
_SCALAR_RECIPES = np.array([0, 1, 2, 3, 4, 2, 2, 1], U32)
# Numbers of the streams a program draws from; instructions and registers have a range of their own.
_KIT, _REGION, _ROWS, _COLS, _ODD = range(5)
_FILL, _UNEVEN, _INSTRUCTION = 32, 48, 128
_PER_INSTRUCTION = 16


class Drawn(NamedTuple):
    """Programs with what their registers start with.

    ``programs`` as the engine takes them; per program: ``kits`` and ``regions`` (a number in REGIONS)
    int32 [n]; ``keys`` uint32 [n, registers], what each register is filled by.
    """

    programs: Programs
    kits: Array
    regions: Array
    keys: Array


def draw(xp: Module, table: Table, start: Array, index: Array, steps: int = STEPS) -> Drawn:
    """The programs of some indices (uint64 [n]) of the seed whose :func:`values.origin` is ``start``.

    In JAX, call inside the 64-bit scope.
    """
    keys = values.key(start, index)
    kits = table.kits
    of = tuple(k[:, None] for k in keys)

    def once(number: int) -> Array:
        return stream(of, xp.arange(number, number + 1, dtype=U32))[:, 0]

    kit = (once(_KIT) % U32(len(kits.kinds))).astype(np.int32)
    shares = xp.asarray(table.region_shares)
    regions = xp.asarray(kits.regions)[kit, shares[(once(_REGION) % U32(16)).astype(np.int32)]]
    sizes = _sizes(xp, table, kit, regions, once, of)
    registers = xp.arange(kits.kinds.shape[1], dtype=U32)
    fills = stream(of, registers + U32(_FILL))
    opcodes, slots, scalars = _instructions(xp, table, kit, regions, keys, steps)
    return Drawn(Programs(opcodes, slots, scalars, sizes), kit, regions, fills)


def _sizes(xp: Module, table: Table, kit: Array, regions: Array, once: Array, of: Array) -> Array:
    """Valid sizes of the registers, int32 [n, registers, 2]."""
    limits = xp.asarray(table.limits)[xp.asarray(table.kits.kinds)[kit]]
    rows = U32(1) + once(_ROWS) % U32(table.rows)
    cols = U32(1) + once(_COLS) % U32(table.cols)
    nothing = once(_ODD)
    empty, full = regions == np.int32(2), regions == np.int32(0)
    # Of the regions without an element, a third has no rows, a third no columns, a third neither.
    gone = (nothing >> U32(1)) % U32(3)
    rows = xp.where(full, U32(table.rows), xp.where(empty & (gone != U32(1)), U32(0), rows))
    cols = xp.where(full, U32(table.cols), xp.where(empty & (gone != U32(0)), U32(0), cols))
    odd = xp.where(full, U32(0), nothing & U32(1))
    rows, cols, odd = (a.astype(np.int32)[:, None] for a in (rows, cols, odd))
    shared = xp.stack(region(limits, rows, cols, odd, (table.rows, table.cols), xp), -1)
    numbers = xp.arange(limits.shape[1] * 2, dtype=U32) + U32(_UNEVEN)
    free = stream(of, numbers).reshape(limits.shape) % (limits.astype(U32) + U32(1))
    return xp.where((regions == np.int32(3))[:, None, None], free.astype(np.int32), shared)


def _instructions(
    xp: Module, table: Table, kit: Array, regions: Array, keys: tuple[Array, Array], steps: int
) -> tuple[Array, Array, Array]:
    """Opcodes [n, steps], slots [n, steps, SLOTS] and scalars [n, steps, SCALARS]."""
    number = xp.arange(steps, dtype=U32) * U32(_PER_INSTRUCTION) + U32(_INSTRUCTION)
    of = tuple(k[:, None] for k in keys)
    pick = stream(of, number)
    choice = (pick % U32(CHOICES)).astype(np.int32)
    opcodes = xp.asarray(table.kits.choices)[kit[:, None], regions[:, None], choice]
    kinds = xp.asarray(table.slot_kinds)[opcodes]
    shifts = np.arange(SLOTS, dtype=U32) * U32(2) + U32(16)
    place = ((pick[:, :, None] >> shifts) % U32(PLACES)).astype(np.int32)
    slots = _apart(xp, table, kit, opcodes, kinds, place)
    further = number[:, None] + np.arange(1, SCALARS + 1, dtype=U32)
    hashed = stream(tuple(k[:, None, None] for k in keys), further)
    recipe = xp.asarray(_SCALAR_RECIPES)[(values.mix(hashed) & U32(7)).astype(np.int32)]
    dtypes = xp.asarray(table.scalar_dtypes)[opcodes]
    return opcodes, slots, values.fill(xp, table.formats, dtypes, recipe, hashed)


def _apart(xp: Module, table: Table, kit: Array, opcodes: Array, kinds: Array, place: Array) -> Array:
    """Registers at some places of a kit; where one must not be the destination's, that of a later place."""
    places, kit, marks = xp.asarray(table.kits.places), kit[:, None, None], xp.asarray(table.apart)[opcodes]
    slots = places[kit, kinds, place]
    for _ in range(PLACES - 1):
        place = xp.where(marks & (slots == slots[:, :, :1]), (place + 1) % PLACES, place)
        slots = places[kit, kinds, place]
    return slots


def contents(table: Table, pool: values.Pool, drawn: Drawn) -> NDArray[np.uint32]:
    """What the registers of programs start with, uint32 [n, registers, words], by NumPy."""
    kinds = table.kind_pools[table.kits.kinds[drawn.kits]]
    tile, first, flips = values.pick(drawn.keys, table.words)
    at = first[..., None] + np.arange(table.words, dtype=U32)
    from_tile = (kinds[..., None], tile[..., None], at)
    registers: NDArray[np.uint32] = pool.words[from_tile] ^ (pool.free[from_tile] & flips[..., None])
    return registers


def contents_of_one(table: Table, words: Array, free: Array, drawn: Drawn) -> Array:
    """What the registers of one program start with, uint32 [registers, words], by JAX.

    A slice for each, as one gather for all takes many times longer on a CPU.
    """
    kinds = jnp.asarray(table.kind_pools)[jnp.asarray(table.kits.kinds)[drawn.kits]]
    tile, first, flips = values.pick(drawn.keys, table.words)
    places = jnp.stack([kinds, tile.astype(np.int32), first.astype(np.int32)], -1)
    rows = []
    for register in range(kinds.shape[0]):
        at = tuple(places[register])
        taken, loose = (lax.dynamic_slice(a, at, (1, 1, table.words))[0] for a in (words, free))
        rows.append(taken ^ (loose & flips[register]))
    return lax.concatenate(rows, 0)
