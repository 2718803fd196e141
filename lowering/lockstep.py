"""Lockstep: many different programs as arrays, executed by one compiled interpreter.

A register holds one tile as a fixed number of uint32 words. An instruction is an opcode (a position in a
tuple of :class:`Branch`), the registers of its operands, destination first, and two scalar words. A
register's valid sizes do not change while a program runs.

:func:`run_switched` executes one program: a loop over its instructions around one ``lax.switch``, whose
operands are taken out of the register file before it and whose result is put back after it, so that no
branch copies the file. It must be mapped over programs with ``lax.map``; under vmap every instruction would
run every branch. :func:`run_grouped` executes a batch step by step: the instructions of a step are sorted
by opcode and executed in blocks that have one opcode each. Both compute with the rules that ``compile``
uses and give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import TileType

from .rules import Context, Lanes, jitted
from .slicing import computed_before

if TYPE_CHECKING:
    from jaxtyping import Int, Int32, UInt32

    from .bits import Word, Words

#: The words of one register, and of several or of those of several programs.
Register: TypeAlias = "UInt32[Array, ' words']"
Registers: TypeAlias = "UInt32[Array, '*programs registers words']"
#: Registers that an instruction names, and scalars that it has at most.
SLOTS, SCALARS = 4, 2


@dataclass(frozen=True)
class Branch:
    """What one opcode computes: an instruction on operands of given types.

    ``tiles`` names the operand in each slot, the destination first; ``scalars`` the operands that are
    scalar words. Valid sizes in the context's types are not used: registers have their own.
    """

    context: Context
    tiles: tuple[str, ...]
    scalars: tuple[str, ...]


class Programs(NamedTuple):
    """Programs of equal length, or one of them: then without the leading axis.

    ``opcodes`` int32 [n, steps]; ``slots`` int32 [n, steps, SLOTS], registers of the operands; ``scalars``
    uint32 [n, steps, SCALARS]; ``sizes`` int32 [n, registers, 2], valid rows and columns.
    """

    opcodes: Int32[Array | np.ndarray, "*n steps"]
    slots: Int32[Array | np.ndarray, "*n steps slots"]
    scalars: UInt32[Array | np.ndarray, "*n steps scalars"]
    sizes: Int32[Array | np.ndarray, "*n registers 2"]


def words_needed(t: TileType) -> int:
    """uint32 words that hold a tile of a type; bytes of tiles with many elements share words.

    >>> from pto_jax.ir import F32, U8
    >>> words_needed(TileType(F32, 16, 16)), words_needed(TileType(U8, 16, 32))
    (256, 256)
    """
    return -(-t.elements // 2) if _is_packed(t) else t.elements


def _is_packed(t: TileType) -> bool:
    """Whether two elements share a word: one-byte elements in tiles of 512 and more."""
    return t.dtype.word_bits == 8 and t.elements >= 512 and t.elements % 2 == 0


def take_tile(words: Register, t: TileType) -> Words:
    """The element words [rows, cols] of a tile held in a register [words]."""
    contents = words[: words_needed(t)]
    if _is_packed(t):
        contents = lax.bitcast_convert_type(contents, np.uint16)
    return lax.convert_element_type(contents, t.dtype.word).reshape(t.shape)


def put_tile(tile: Words, t: TileType, register: Register) -> Register:
    """A register [words] with its leading words replaced by a tile's element words [rows, cols]."""
    if _is_packed(t):
        pairs = lax.convert_element_type(tile, np.uint16).reshape(-1, 2)
        words = lax.bitcast_convert_type(pairs, np.uint32)
    else:
        words = lax.convert_element_type(tile, np.uint32).reshape(-1)
    if words.shape == register.shape:
        return words
    return lax.concatenate((words, register[words.shape[0] :]), 0)


#: ``(operands, their valid sizes, scalars) -> destination``: what one opcode computes.
Step: TypeAlias = "Callable[[Registers, Int32[Array, 'operands 2'], UInt32[Array, ' scalars']], Register]"


def step(branch: Branch | None) -> Step:
    """The function of one opcode; None keeps the destination as it is."""
    if branch is None:
        return lambda operands, sizes, scalars: operands[0]
    context = branch.context
    rule = jitted(context)

    def run(
        operands: Registers,
        sizes: Int32[Array, "operands 2"],
        scalars: UInt32[Array, " scalars"],
    ) -> Register:
        inputs: dict[str, Lanes | Word] = {}
        for i, name in enumerate(branch.tiles):
            words = take_tile(operands[i], context.tile(name))
            inputs[name] = Lanes(words, sizes[i, 0], sizes[i, 1])
        for i, name in enumerate(branch.scalars):
            inputs[name] = lax.convert_element_type(scalars[i], context.dtype(name).word)
        (destination,) = branch.tiles[:1]
        result = rule(inputs)[destination]
        return put_tile(result, context.tile(destination), operands[0])

    return run


def run_switched(branches: tuple[Branch | None, ...], program: Programs, registers: Registers) -> Registers:
    """The registers [registers, words] after one program. Call inside the 64-bit scope."""
    steps = [step(b) for b in branches]

    def execute(i: Int[Array, ""], registers: Registers) -> Registers:
        opcode, slots, scalars = (
            lax.dynamic_index_in_dim(a, i, 0, keepdims=False)
            for a in (program.opcodes, program.slots, program.scalars)
        )
        new = lax.switch(opcode, steps, registers[slots], program.sizes[slots], scalars)
        if len(steps) == 1:
            # JAX makes no conditional of one branch, which would keep it out of the update.
            (new,) = computed_before(new)
        written: Array = lax.dynamic_update_index_in_dim(registers, new, slots[0], 0)
        return written

    return _loop(program.opcodes.shape[0], execute, registers)


def _loop(
    count: int | Int32[Array, ""],
    body: Callable[[Int[Array, ""], Registers], Registers],
    registers: Registers,
) -> Registers:
    done: Array = lax.fori_loop(np.int32(0), jnp.asarray(count, np.int32), body, registers)
    return done


class _Blocks(NamedTuple):
    """The programs of one step, sorted by opcode: where each opcode's programs and its blocks begin."""

    order: Int32[Array, " n"]
    begin: Int32[Array, " edges"]
    first: Int32[Array, " edges"]
    total: Int32[Array, ""]


def _blocks(opcodes: Int32[Array, " n"], kinds: int, size: int) -> _Blocks:
    order = lax.convert_element_type(jnp.argsort(opcodes, stable=True), np.int32)
    edges = jnp.searchsorted(opcodes[order], jnp.arange(kinds + 1, dtype=np.int32))
    begin = lax.convert_element_type(edges, np.int32)
    blocks = (begin[1:] - begin[:-1] + np.int32(size - 1)) // np.int32(size)
    first = jnp.concatenate([jnp.zeros(1, np.int32), jnp.cumsum(blocks, dtype=np.int32)])
    return _Blocks(order, begin, first, first[-1])


def run_grouped(
    branches: tuple[Branch | None, ...],
    programs: Programs,
    registers: Registers,
    size: int = 16,
) -> Registers:
    """The registers [n, registers, words] after n programs; blocks have ``size`` programs.

    Call inside the 64-bit scope.
    """
    steps = [jax.vmap(step(b)) for b in branches]
    n = programs.opcodes.shape[0]

    def execute(i: Int[Array, ""], registers: Registers) -> Registers:
        opcodes, slots, scalars = (
            lax.dynamic_index_in_dim(a, i, 1, keepdims=False)
            for a in (programs.opcodes, programs.slots, programs.scalars)
        )
        blocks = _blocks(opcodes, len(branches), size)

        def block(b: Int[Array, ""], registers: Registers) -> Registers:
            opcode = jnp.searchsorted(blocks.first, b, side="right").astype(np.int32) - np.int32(1)
            place = blocks.begin[opcode] + (b - blocks.first[opcode]) * np.int32(size)
            place = place + jnp.arange(size, dtype=np.int32)
            there = blocks.order[jnp.minimum(place, np.int32(n - 1))]
            mine = slots[there]
            operands = registers[there[:, None], mine]
            sizes = programs.sizes[there[:, None], mine]
            new = lax.switch(opcode, steps, operands, sizes, scalars[there])
            # Places after the group's end belong to the next block; they are not written.
            target = jnp.where(place < blocks.begin[opcode + 1], there, np.int32(n))
            return registers.at[target, mine[:, 0]].set(new, mode="drop")

        return _loop(blocks.total, block, registers)

    return _loop(programs.opcodes.shape[1], execute, registers)
