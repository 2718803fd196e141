"""Exact programs of float32 arithmetic, as CPUs compute it; a second execution where that is in doubt.

CPUs under XLA take subnormal numbers for zeros, and exact arithmetic in float64 takes several times as long.
Few programs ever meet a subnormal number. Here arithmetic is float32 (:class:`.numerics.DoubtingFloat`), and
wherever a subnormal number could have changed a result, the result is a NaN that says so
(:data:`.bits.DOUBT`). Operations hand it on to the buffers that the program writes. If it is in one of them,
anywhere in a batch, the batch is executed again in float64.

That is right for programs of which every operation hands doubts on or has nothing to do with them
(:func:`applies`). A buffer may have the NaN among its own elements: then the second execution costs time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import custom_vmap

from pto_jax.ir import (
    F32,
    AtomicType,
    DType,
    MemRefType,
    Op,
    PartitionViewType,
    Program,
    PtrType,
    ScalarType,
    TensorViewType,
)
from pto_jax.isa import find
from pto_jax.isa.effects import aliased, operands_of, placed, traits_of
from pto_jax.isa.rules.typesets import element_type

from . import bits
from .numerics import FORMATS
from .platforms import by_platform
from .rules import KEEP_DOUBTS
from .slicing import computed_before

if TYPE_CHECKING:
    from jaxtyping import Bool, Shaped

    Results: TypeAlias = Sequence[Shaped[Array, "..."]]
    #: A function of arrays that gives results, and other things.
    Execution: TypeAlias = Callable[..., tuple[Results, Any]]

#: Operations with arithmetic from which on a program takes less time so: to look for doubts takes some, too.
LEAST = 3
#: Parts of a buffer that are combined element by element, which takes vector instructions.
_PARTS = 16
#: Elements of arguments from which on a single execution is worth the code of two.
_LARGE = 1 << 20
#: Attributes that change no numbers.
_HARMLESS = {"layout", "inferred_layout", "rmode", "sat_mode", "padValue"}


@lru_cache(maxsize=1024)
def applies(program: Program) -> bool:
    """Whether a program is executed so: it has some arithmetic, and no operation that loses a doubt."""
    operations = list(program.walk())
    if program.fragment or sum(op.name in KEEP_DOUBTS for op in operations) < LEAST:
        return False
    types = {element_type(v.type) for op in operations for v in op.results if placed(op) is not None}
    return all(_keeps(op) and (len(types) == 1 or not _at_address(op)) for op in operations)


def _at_address(op: Op) -> bool:
    """Whether a tile may lie where one of another type does."""
    place = placed(op)
    return place is not None and place[1] is not None


def _keeps(op: Op) -> bool:
    """Whether doubts in what an operation reads are in what it writes, or it reads none."""
    traits, alias = traits_of(op), aliased(op)
    if alias is not None:
        return element_type(alias[0].type) == element_type(alias[1].type)
    if not traits.effects:
        return traits.fifo is None and traits.alias is None and not _views_otherwise(op)
    instruction = find(op.name)
    if instruction is None or any(e.resource not in ("tile", "global") for e in traits.effects):
        return False
    operands = {n: v.type for n, v in operands_of(op).items() if instruction.operand(n).role != "tmp"}
    if not operands or any(isinstance(v.type, ScalarType) for v in op.results):
        return False
    types = {d for t in operands.values() if (d := element_type(t)) is not None}
    floats = {d for d in types if d.is_float}
    if not floats or not set(op.attrs) - {"atomicType"} <= _HARMLESS:
        return not floats
    if instruction.converts:
        return op.name in KEEP_DOUBTS and all(d.name in FORMATS for d in types)
    if op.name in KEEP_DOUBTS or op.attrs.get("atomicType") == AtomicType.ATOMIC_ADD:
        return types == {F32}
    return instruction.moves is not None and len(floats) == 1


def _views_otherwise(op: Op) -> bool:
    """Whether memory is seen as elements of another type, of which a doubt is none."""
    memory = PtrType, MemRefType, TensorViewType, PartitionViewType
    before, after = ({element_type(v.type) for v in part if isinstance(v.type, memory)}
                     for part in (op.ins, op.results))  # fmt: skip
    return not after <= before


def settle(
    careful: Execution, doubting: Execution, arguments: Sequence[Any], types: Sequence[DType]
) -> tuple[Results, Any]:
    """What ``careful`` gives: results with elements of some types, and things without doubts.

    A single execution of small arrays takes less time than the code of two.
    """

    def searching(*arguments: Any) -> tuple[Results, Any]:
        results, others = doubting(*arguments)
        pairs = [*map(_search, results, types)]
        return tuple(x for x, _ in pairs), (jnp.any(jnp.stack([doubt for _, doubt in pairs])), others)

    alone = sum(np.size(x) for x in arguments) < _LARGE
    result: tuple[Results, Any] = _in_batches(jax.jit(careful), jax.jit(searching), alone)(*arguments)
    return result


def _in_batches(careful: Execution, doubting: Execution, alone: bool = False) -> Execution:
    """Both executions, with one decision for a whole batch; ``alone``: the careful one outside of batches."""

    def chosen(*arguments: Any) -> tuple[Results, Any]:
        results, (doubt, others) = doubting(*arguments)
        both = (lambda _, arguments: careful(*arguments)[0]), (lambda results, _: results)
        return lax.cond(jnp.any(doubt), *both, results, arguments), others

    @custom_vmap
    def run(*arguments: Any) -> tuple[Results, Any]:
        # A user's vmap of a jitted kernel comes here outside of the 64-bit scope.
        with bits.x64():
            if alone:
                return careful(*arguments)
            result: tuple[Results, Any] = by_platform(chosen, cuda=careful)(*arguments)
            return result

    @run.def_vmap
    def _(size: int, batched: Sequence[bool], *arguments: Any) -> tuple[tuple[Results, Any], Any]:
        careful_batch, doubting_batch = (
            jax.vmap(f, [0 if has else None for has in batched], axis_size=size) for f in (careful, doubting)
        )
        result = _in_batches(careful_batch, doubting_batch)(*arguments)
        return result, jax.tree.map(lambda _: True, result)

    return run


def _search(array: Shaped[Array, "*shape"], dtype: DType) -> tuple[Shaped[Array, "*shape"], Bool[Array, ""]]:
    """A buffer that is computed once, numbers of a type or their words, and whether one is in doubt."""
    if dtype.name not in bits.DOUBTS or not array.size:
        return array, jnp.zeros((), bool)
    # Slices of numbers of 16 bits are slices of wider ones on CPUs.
    read = computed_before(array)[0] if dtype == F32 else bits.once(bits.raw(array))
    count = _PARTS if read.size % _PARTS == 0 else 1
    # Of parts, as XLA would store the distances of all.
    parts = jnp.split(read.reshape(-1), count)
    distance = reduce(lax.min, (lax.bitwise_xor(bits.raw(part), bits.doubt(dtype)) for part in parts))
    while distance.shape[0] % _PARTS == 0:
        distance = reduce(lax.min, jnp.split(distance, _PARTS))
    return bits.from_words(read, array.dtype), jnp.min(distance) == 0
