"""A program of a lockstep batch as a case of its own, which every machine executes."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.targets import Output
from ..generate.programs import Case
from ..generate.state import Input
from ..ir import FRAGMENT, Function, Op, Program, Region, ScalarType, TileType, Value, attrs
from ..isa.history import spelled_out
from ..lockstep import programs, values
from ..lockstep.opcodes import Opcode
from ..lockstep.tables import Table
from ..lowering.lockstep import words_needed
from ..profiles import profile as find_profile

#: Instructions on registers that a decoder keeps.
_STATEMENTS = 1 << 14


def case_id(table: Table, seed: int, index: int) -> str:
    """What identifies a program: a hash of table, seed, index and generator version."""
    opcodes = _digest(table)
    named = f"{table.profile}:{table.rows}x{table.cols}:{opcodes}:{seed}:{index}:{programs.VERSION}"
    return hashlib.sha256(named.encode()).hexdigest()[:16]


@lru_cache(maxsize=8)
def _digest(table: Table) -> str:
    return hashlib.sha256("\n".join(map(str, table.opcodes)).encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class _Statement:
    """An instruction on some registers: its operation, lines of text, and the arguments that only it has."""

    op: Op
    head: str
    lines: str
    scalars: tuple[tuple[str, ScalarType], ...]
    scratch: Mapping[str, Input]


class Decoder:
    """Programs of a table as cases. Instructions on the same registers are made and printed once."""

    def __init__(self, table: Table) -> None:
        self.table, self._profile = table, find_profile(table.profile)
        self._statements: dict[tuple[int, ...], _Statement] = {}
        self._of: dict[int, _Statement] = {}

    def case(self, seed: int, index: int, drawn: programs.Drawn, words: NDArray[np.uint32]) -> Case:
        """The only program of ``drawn``, whose registers start with ``words``, as a fragment."""
        opcodes, slots, scalars, sizes = (a[0].tolist() for a in drawn.programs)
        inputs: dict[str, Input] = {}
        arguments: dict[str, Value] = {}
        results: dict[str, None] = {}
        ops: list[Op] = []
        if len(self._statements) > _STATEMENTS:
            self._statements.clear()
            self._of.clear()
        for t, number in enumerate(opcodes):
            made = self._statement(t, number, slots[t])
            for (name, scalar), word in zip(made.scalars, scalars[t], strict=False):
                inputs[name] = Input(scalar, np.array(word, np.uint32).astype(scalar.dtype.word))
            inputs.update(made.scratch)
            ops.append(made.op)
            arguments.update((v.name, v) for v in (*made.op.ins, *made.op.outs))
            results[made.op.outs[0].name] = None
        for number, kind in enumerate(self.table.kits.kinds[drawn.kits[0]].tolist()):
            name = f"r{number}"
            if name in arguments:
                t, (rows, cols) = self.table.kinds[kind].type, sizes[number]
                inputs[name] = Input(t, tile_words(words[number], t), (rows, cols))
        program = Program(
            (Function(FRAGMENT, tuple(arguments.values()), Region(tuple(ops))),),
            fragment=True,
            fragment_results=tuple(results),
            has_module=False,
        )
        identity = case_id(self.table, seed, index)
        return Case(identity, seed, index, self._profile, program, inputs, {})

    def operation(self, opcode: Opcode) -> Op:
        """An instruction of an opcode, on registers of its own."""
        return self._made(opcode, 0, list(range(len(opcode.kinds)))).op

    def text(self, program: Program) -> str:
        """The text of a program that was made here, as :func:`..devices.exchange.program_text` gives it."""
        made = [self._of[id(op)] for op in program.functions[0].body.ops]
        return "".join([made[0].head, *(s.lines for s in made), "}\n"])

    def _statement(self, place: int, number: int, slots: list[int]) -> _Statement:
        opcode = self.table.opcodes[number]
        own = bool(opcode.tmp or opcode.branch.scalars)
        key = (number, place if own else -1, *slots[: len(opcode.kinds)])
        found = self._statements.get(key)
        if found is None:
            found = self._statements[key] = self._made(opcode, place, slots)
            self._of[id(found.op)] = found
        return found

    def _made(self, opcode: Opcode, place: int, slots: list[int]) -> _Statement:
        branch = opcode.branch
        registers = [Value(f"r{s}", k.type) for s, k in zip(slots, opcode.kinds, strict=False)]
        values = dict(zip(branch.tiles, registers, strict=False))
        scalars, scratch = [], {}
        for name in branch.scalars:
            t = ScalarType(branch.context.dtype(name))
            values[name] = Value(f"s{place}_{name}", t)
            scalars.append((values[name].name, t))
        for name, tile in opcode.tmp:
            values[name] = Value(f"tmp{place}_{name}", tile)
            scratch[values[name].name] = Input(tile, np.zeros(tile.shape, tile.dtype.word))
        ins = tuple(values[n] for n in branch.context.form)
        op = Op(opcode.name, ins, (registers[0],), attributes=attrs(dict(branch.context.attributes)))
        alone = Function(FRAGMENT, (*ins, *op.outs), Region((op,)))
        target = attrs({"pto.target_arch": self.table.profile})
        program = spelled_out(Program((alone,), target, fragment=True), self._profile)
        head, *lines, _ = str(program).splitlines(keepends=True)
        return _Statement(op, head, "".join(lines), tuple(scalars), scratch)


@lru_cache(maxsize=4)
def decoder(table: Table) -> Decoder:
    """The decoder of a table."""
    return Decoder(table)


@lru_cache(maxsize=8)
def pool_of(table: Table, seed: int) -> values.Pool:
    """What the registers of a seed's programs are filled from."""
    return table.pool(values.origin(seed))


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
    needed = words_needed(t)
    used = register[:needed]
    if needed < t.elements:
        used = np.stack([used & np.uint32(0xFF), used >> np.uint32(16)], -1)
    return used.reshape(t.shape).astype(t.dtype.word)
