"""Rows or elements of a table in global memory, at the places that an index tile gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import Scalar, View
from pto_jax.ir import Coalesce, DType, GatherOob, GlobalLayout, ScatterAtomicOp, ScatterOob
from pto_jax.isa.rules.memory_indexed import coalescing

from . import bits, convert, irregular, memory_layouts, region, slicing
from .bits import elements_at
from .machine import storage
from .machine.addresses import NEAR, begin, distance, product, reach, wide
from .memory import Combine, accumulate, at_once, is_number, overwrite, varying
from .rules import Context, GlobalMemory, Inputs, memory_rule

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Int32, Int64, UInt, UInt64

    from .bits import Flat, Mask, Words

#: Numbers from here on address nothing: buffers are smaller.
BEYOND = np.uint64(NEAR)


@dataclass(frozen=True)
class Table:
    """A view brought to rank 5; ``nz`` is addressed by logical row and column."""

    base: Scalar
    shape: tuple[Scalar, ...]
    strides: tuple[Scalar, ...]
    nz: bool

    @staticmethod
    def of(view: View, profile: str) -> Table:
        """The table of a view; ``nz`` is that of NZ views on the profile a2a3 only."""
        lead = memory_layouts.RANK - len(view.shape)
        strides = (0,) * lead + view.strides
        nz = profile == "a2a3" and view.layout == GlobalLayout.NZ
        return Table(begin(view.offset, strides), (1,) * lead + view.shape, strides, nz)

    def capacity(self, profile: str, pick: Coalesce) -> UInt64[Array, ""]:
        """How many rows or elements indices may name, uint64."""
        if pick == Coalesce.ELEM:
            extents = self.shape
        elif profile == "cpu_sim":
            extents = self.shape[3:4]
        else:
            extents = self.shape[2:4] if self.nz else self.shape[:4]
        return lax.convert_element_type(jnp.asarray(wide(product(extents)), np.int64), np.uint64)

    def positions(
        self, pick: Coalesce, n: UInt64[Array, "*#lanes"], cols: Int64[Array, "*#lanes"]
    ) -> Int64[Array, "..."]:
        """Buffer positions of the lanes of rows or elements ``n``, int64."""
        number = lax.convert_element_type(jnp.minimum(n, BEYOND), np.int64)
        if self.nz:
            return self._blocked(pick, number, cols)
        if pick == Coalesce.ELEM:
            return jnp.asarray(self.base + number)
        further = distance(number, self.strides[3]) + distance(cols, self.strides[4])
        return jnp.asarray(self.base + further)

    def _blocked(
        self, pick: Coalesce, number: Int64[Array, "*#lanes"], cols: Int64[Array, "*#lanes"]
    ) -> Int64[Array, "..."]:
        d0, d1, _, d3, d4 = (wide(memory_layouts.positive(n)) for n in self.shape)
        rows = number
        if pick == Coalesce.ELEM:
            width = d0 * d1 * d4
            rows, cols = number // width, number % width
        block = cols // d4
        indices = (block // d1, block % d1, rows // d3, rows % d3, cols % d4)
        return jnp.asarray(self.base + sum(map(distance, indices, self.strides)))


def _numbers(c: Context, inputs: Inputs, pick: Coalesce, shape: tuple[int, int]) -> UInt64[Array, "_ _"]:
    """The indices as unsigned numbers: one per row, or one per lane of ``shape``."""
    dtype = c.dtype("indexes")
    if pick == Coalesce.ROW:
        line = storage.to_physical(irregular.source(c, inputs, "indexes"), c.tile("indexes")).reshape(1, -1)
        words = region.fit(line, (1, shape[0]), region.all_ones(dtype)).reshape(-1, 1)
    else:
        words = irregular.source(c, inputs, "indexes", shape)
    if c.profile == "cpu_sim":
        return lax.convert_element_type(
            lax.convert_element_type(convert.integer(words, dtype), np.int64), np.uint64
        )
    return lax.convert_element_type(lax.convert_element_type(words, np.uint32), np.uint64)


@dataclass(frozen=True)
class Places:
    """Where the lanes of a transfer are: buffer positions, for the lanes that are ``moved`` at all.

    ``rows`` are the positions of the elements that have the indices as numbers.
    """

    where: Int64[Array, "rows cols"]
    moved: Mask
    rows: Int64[Array, "rows cols"]

    def reach(self) -> tuple[Int64[Array, ""], Int64[Array, ""]]:
        """The first and the last position that is addressed, int64; the last one is less where none is."""
        return reach(self.where, self.moved)

    def targets(self, buffer: Flat) -> Int32[Array, "rows cols"]:
        """int32 positions; the buffer's size for lanes that reach no element of it."""
        return jnp.where(self.moved, memory_layouts.within(self.where, buffer), np.int32(buffer.shape[0]))


def places(c: Context, inputs: Inputs, memory: GlobalMemory, data: str, pick: Coalesce) -> Places:
    """The places of the valid lanes of a tile."""
    shape, table = c.tile(data).shape, Table.of(memory.view, c.profile)
    n, capacity = _numbers(c, inputs, pick, shape), table.capacity(c.profile, pick)
    mode = c.attrs["gatherOob" if data == "dst" else "scatterOob"]
    assert isinstance(mode, GatherOob | ScatterOob)
    moved = irregular.inside(c, inputs, data) & (capacity > np.uint64(0))
    if mode.name in ("ZERO", "SKIP"):
        moved &= n < capacity
    elif mode.name == "CLAMP":
        n = jnp.minimum(n, jnp.maximum(capacity, np.uint64(1)) - np.uint64(1))
    elif mode.name == "WRAP":
        n = lax.rem(n, jnp.broadcast_to(jnp.maximum(capacity, np.uint64(1)), n.shape))
    cols = lax.broadcasted_iota(np.int64, (1, shape[1]), 1)
    where = table.positions(pick, n, cols)
    rows = table.base + lax.convert_element_type(jnp.minimum(n, BEYOND), np.int64)
    result = Places(jnp.broadcast_to(where, shape), moved, jnp.broadcast_to(rows, shape))
    if memory.require is not None:
        allowed = f"elements inside the buffer of {memory.buffer.shape[0]} elements"
        memory.require_elements(allowed, *result.reach())
    return result


def _picked(c: Context, data: str) -> Coalesce:
    """What an index picks: a row or an element of the table."""
    return coalescing(c.attrs, c.semantics.profile.name, c.tile("indexes"), c.tile(data))


@memory_rule("mgather")
def mgather(c: Context, inputs: Inputs, memory: GlobalMemory) -> Words:
    """The new words of the destination tile; elements outside the buffer read zero."""
    at = places(c, inputs, memory, "dst", _picked(c, "dst"))
    elements = elements_at(memory.buffer, at.targets(memory.buffer))
    return region.merge(c, inputs, elements)


@memory_rule("mscatter")
def mscatter(c: Context, inputs: Inputs, memory: GlobalMemory) -> Flat:
    """The buffer after the stores, lane after lane in row-major order."""
    buffer, pick = memory.buffer, _picked(c, "src")
    at = places(c, inputs, memory, "src", pick)
    if buffer.shape[0] == 0:
        return buffer
    dtype, words = c.dtype("src"), region.lanes(inputs, "src").words.reshape(-1)
    where, words = slicing.computed_before(at.targets(buffer).reshape(-1), words)
    op = c.attrs["scatterAtomicOp"]
    if op == ScatterAtomicOp.NONE:
        return overwrite(buffer, where, words)
    if op == ScatterAtomicOp.ADD:
        return accumulate(c, dtype, buffer, where, words)
    combine = largest if op == ScatterAtomicOp.MAX else smallest
    if c.profile == "cpu_sim" and pick == Coalesce.ROW:
        compared = memory_layouts.within(at.rows, buffer).reshape(-1)
        return _one_by_one(c, dtype, buffer, where, compared, words, combine)
    if is_number(dtype):
        return at_once("max" if op == ScatterAtomicOp.MAX else "min", dtype, buffer, where, words)
    return accumulate(c, dtype, buffer, where, words, combine)


def largest(
    c: Context, dtype: DType, old: UInt[Array, "*shape"], new: UInt[Array, "*shape"]
) -> UInt[Array, "*shape"]:
    """The new word where it is above the old one; a NaN is above nothing and nothing is above it."""
    old, new = region.flush(c, old, dtype), region.flush(c, new, dtype)
    return jnp.where(_below(dtype, old, new), new, old)


def smallest(
    c: Context, dtype: DType, old: UInt[Array, "*shape"], new: UInt[Array, "*shape"]
) -> UInt[Array, "*shape"]:
    """The new word where it is below the old one."""
    old, new = region.flush(c, old, dtype), region.flush(c, new, dtype)
    return jnp.where(_below(dtype, new, old), new, old)


def _below(dtype: DType, a: UInt[Array, "*shape"], b: UInt[Array, "*shape"]) -> Bool[Array, "*shape"]:
    if dtype.is_float:
        return bits.decode(a, dtype) < bits.decode(b, dtype)
    return convert.integer(a, dtype) < convert.integer(b, dtype)


def _one_by_one(
    c: Context,
    dtype: DType,
    buffer: Flat,
    where: Int32[Array, " lanes"],
    compared: Int32[Array, " lanes"],
    new: UInt[Array, " lanes"],
    combine: Combine,
) -> Flat:
    """Every lane in order combines with the element at ``compared`` and goes to the one at ``where``."""

    def step(i: Int[Array, ""], current: Flat) -> Flat:
        old = elements_at(current, compared[i])
        return current.at[where[i]].set(combine(c, dtype, old, new[i]), mode="drop")

    stored: Array = lax.fori_loop(np.int32(0), np.int32(where.shape[0]), step, varying(buffer, new, where))
    return stored
