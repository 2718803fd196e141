"""A program of a lockstep batch as a case of its own, which every machine executes."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...generate.programs import Case
from ...generate.state import Input
from ...ir.program import FRAGMENT, Function, Op, Program, Region, Value, attrs
from ...ir.types import ScalarType, TileType
from ...lockstep import values
from ...lockstep.opcodes import Opcode
from ...lockstep.programs import STEPS, VERSION, Drawn, contents, draw
from ...lockstep.table import Table
from ...lockstep.values import Array
from ...lowering.lockstep import words_needed
from ...profiles import profile as find_profile
from ..results import Output


def case_id(table: Table, seed: int, index: int) -> str:
    """What identifies a program: a hash of table, seed, index and generator version."""
    opcodes = _digest(table)
    named = f"{table.profile}:{table.rows}x{table.cols}:{opcodes}:{seed}:{index}:{VERSION}"
    return hashlib.sha256(named.encode()).hexdigest()[:16]


@lru_cache(maxsize=8)
def _digest(table: Table) -> str:
    return hashlib.sha256("\n".join(map(str, table.opcodes)).encode()).hexdigest()[:16]


def decode(table: Table, seed: int, index: int, steps: int = STEPS) -> Case:
    """The program of an index as a fragment: registers are its tile arguments, with open valid sizes.

    >>> from pto_jax.lockstep.table import table
    >>> case = decode(table("a5"), 1, 7)
    >>> len(list(case.program.walk())), case.profile.name
    (20, 'a5')
    """
    drawn = draw(np, table, values.origin(seed), np.array([index], np.uint64), steps)
    return as_case(table, seed, index, drawn, contents(table, pool_of(table, seed), drawn)[0])


def as_case(table: Table, seed: int, index: int, drawn: Drawn, words: NDArray[np.uint32]) -> Case:
    """The only program of ``drawn`` as a case.

    ``words`` uint32 [registers, words] are what its registers start with.
    """
    opcodes, slots, scalars, sizes = (a[0] for a in drawn.programs)
    kinds = [table.kinds[k] for k in table.kits.kinds[drawn.kits[0]]]
    handles = [Value(f"r{i}", k.type) for i, k in enumerate(kinds)]
    inputs: dict[str, Input] = {}
    arguments: dict[str, Value] = {}
    results: dict[str, None] = {}
    ops: list[Op] = []
    for t, number in enumerate(opcodes.tolist()):
        opcode = table.opcodes[number]
        ins, dst, more = _operands(opcode, t, [handles[s] for s in slots[t]], scalars[t])
        ops.append(Op(opcode.name, ins, (dst,), attributes=attrs(dict(opcode.branch.context.attributes))))
        inputs.update(more)
        arguments.update((v.name, v) for v in (*ins, dst))
        results[dst.name] = None
    for value, kind, register, valid in zip(handles, kinds, words, sizes, strict=True):
        if value.name in arguments:
            rows, cols = (int(n) for n in valid)
            inputs[value.name] = Input(kind.type, tile_words(register, kind.type), (rows, cols))
    program = Program(
        (Function(FRAGMENT, tuple(arguments.values()), Region(tuple(ops))),),
        fragment=True,
        fragment_results=tuple(results),
        has_module=False,
    )
    profile = find_profile(table.profile)
    return Case(case_id(table, seed, index), seed, index, profile, program, inputs, {})


@lru_cache(maxsize=8)
def pool_of(table: Table, seed: int) -> values.Pool:
    """What the registers of a seed's programs are filled from."""
    return table.pool(values.origin(seed))


def _operands(
    opcode: Opcode, number: int, registers: list[Value], scalars: Array
) -> tuple[tuple[Value, ...], Value, dict[str, Input]]:
    """Sources and destination of one instruction, and the arguments that only it has."""
    branch, inputs = opcode.branch, {}
    values = dict(zip(branch.tiles, registers, strict=False))
    for name, word in zip(branch.scalars, scalars, strict=False):
        t = ScalarType(branch.context.dtype(name))
        values[name] = Value(f"s{number}_{name}", t)
        inputs[values[name].name] = Input(t, np.array(word).astype(t.dtype.word))
    for name, tile in opcode.tmp:
        values[name] = Value(f"tmp{number}_{name}", tile)
        inputs[values[name].name] = Input(tile, np.zeros(tile.shape, tile.dtype.word))
    return tuple(values[n] for n in branch.context.form), registers[0], inputs


def outputs(case: Case, table: Table, registers: NDArray[np.uint32]) -> dict[str, Output]:
    """The results of a decoded case from its final registers [registers, words]."""
    by_name = {}
    for name in case.program.fragment_results:
        argument = case.inputs[name]
        assert isinstance(argument.type, TileType)
        by_name[name] = Output(
            argument.type.dtype,
            tile_words(registers[int(name.removeprefix("r"))], argument.type),
            argument.valid,
        )
    return by_name


def register_words(tile: NDArray[Any], t: TileType) -> NDArray[np.uint32]:
    """The words of a register that holds a tile with these element words."""
    words = tile.reshape(-1).astype(np.uint32)
    if words_needed(t) < t.elements:
        return words[0::2] | words[1::2] << np.uint32(16)
    return words


def tile_words(register: NDArray[np.uint32], t: TileType) -> NDArray[Any]:
    """The element words [rows, cols] of a tile held in a register."""
    used = register[: words_needed(t)]
    if words_needed(t) < t.elements:
        used = np.stack([used & np.uint32(0xFF), used >> np.uint32(16)], -1)
    return used.reshape(t.shape).astype(t.dtype.word)
