"""The lockstep engine as a machine that executes cases."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import jax
import numpy as np
from jax import lax
from numpy.typing import NDArray

from ..cases.targets import BatchTarget, Output, Run
from ..errors import NotExecutableError
from ..generate.programs import Case
from ..generate.state import Input
from ..ir import FRAGMENT, Function, Op, Program, Region, ScalarType, TileType, Value, attrs
from ..isa.history import spelled_out
from ..lockstep import programs, values
from ..lockstep.encode import Encoded, encode
from ..lockstep.opcodes import Opcode
from ..lockstep.tables import Table
from ..lowering.bits import x64
from ..lowering.lockstep import SCALARS, SLOTS, Branch, Programs, run_grouped, run_switched, words_needed
from ..profiles import profile as find_profile


@dataclass(frozen=True)
class Lockstep(BatchTarget):
    """All cases of a batch at once, by one interpreter compiled for the opcodes they use.

    Executes straight-line fragments of instructions on tiles; the others are refused.

    >>> from pto_jax.generate.programs import generate
    >>> found = Lockstep().run_all([generate(1, 2)])
    """

    grouped: bool = False
    follows: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name of the machine, with its mode where programs are grouped."""
        return "lockstep:grouped" if self.grouped else "lockstep"

    def run_all(self, cases: Sequence[Case]) -> list[Run | Exception]:
        """The outputs of each case, in order, NotExecutableError for those that lockstep does not execute."""
        results: list[Run | Exception] = []
        encoded: list[Encoded] = []
        places: list[int] = []
        for place, case in enumerate(cases):
            try:
                encoded.append(encode(case))
                places.append(place)
                results.append(Run({}))
            except NotExecutableError as error:
                results.append(error)
        if encoded:
            for place, program, registers in zip(places, encoded, self._execute(encoded), strict=True):
                results[place] = Run(_outputs(program, registers))
        return results

    def _execute(self, encoded: Sequence[Encoded]) -> NDArray[np.uint32]:
        """Final registers [n, registers, words]."""
        used = sorted({i.branch for e in encoded for i in e.instructions}, key=repr)
        branches: tuple[Branch | None, ...] = (None, *used)
        programs, registers = _arrays(encoded, {b: i for i, b in enumerate(branches)})
        with x64():
            return np.asarray(_runner(branches, self.grouped)(programs, registers))[: len(encoded)]


@lru_cache(maxsize=64)
def _runner(branches: tuple[Branch | None, ...], grouped: bool) -> Callable[..., Any]:
    if grouped:
        return jax.jit(lambda programs, registers: run_grouped(branches, programs, registers, 4))

    def one(both: tuple[Programs, Any]) -> Any:
        return run_switched(branches, *both)

    return jax.jit(lambda programs, registers: lax.map(one, (programs, registers)))


def _arrays(
    encoded: Sequence[Encoded], numbers: dict[Branch | None, int]
) -> tuple[Programs, NDArray[np.uint32]]:
    """The programs, made equally long with instructions that do nothing, and their registers.

    Sizes are powers of two, so that few of them are compiled.
    """
    n = _rounded(len(encoded))
    steps = _rounded(max(len(e.instructions) for e in encoded))
    held = _rounded(max(len(e.types) for e in encoded))
    words = _rounded(max(words_needed(t) for e in encoded for t in e.types))
    opcodes, scalars = np.zeros((n, steps), np.int32), np.zeros((n, steps, SCALARS), np.uint32)
    slots, sizes = np.zeros((n, steps, SLOTS), np.int32), np.zeros((n, held, 2), np.int32)
    registers = np.zeros((n, held, words), np.uint32)
    for i, e in enumerate(encoded):
        for j, instruction in enumerate(e.instructions):
            opcodes[i, j] = numbers[instruction.branch]
            slots[i, j, : len(instruction.slots)] = instruction.slots
            scalars[i, j, : len(instruction.scalars)] = instruction.scalars
        sizes[i, : len(e.sizes)] = e.sizes
        for j, (t, tile) in enumerate(zip(e.types, e.contents, strict=True)):
            registers[i, j, : words_needed(t)] = register_words(tile, t)
    return Programs(*map(jax.device_put, (opcodes, slots, scalars, sizes))), registers


def _rounded(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _outputs(program: Encoded, registers: NDArray[np.uint32]) -> dict[str, Output]:
    outputs = {}
    for name, number in program.results.items():
        t = program.types[number]
        outputs[name] = Output(t.dtype, tile_words(registers[number], t), program.sizes[number])
    return outputs


#: Instructions on registers that a decoder keeps.
_STATEMENTS = 1 << 14


def case_id(table: Table, seed: int, index: int) -> str:
    """What identifies a program: a hash of table, seed, index and generator version."""
    opcodes = _digest(table)
    name = f"{table.profile}:{table.rows}x{table.cols}:{opcodes}:{seed}:{index}:{programs.VERSION}"
    return hashlib.sha256(name.encode()).hexdigest()[:16]


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
            statement = self._statement(t, number, slots[t])
            for (name, scalar), word in zip(statement.scalars, scalars[t], strict=False):
                inputs[name] = Input(scalar, np.array(word, np.uint32).astype(scalar.dtype.word))
            inputs.update(statement.scratch)
            ops.append(statement.op)
            arguments.update((v.name, v) for v in (*statement.op.ins, *statement.op.outs))
            results[statement.op.outs[0].name] = None
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
        statements = [self._of[id(op)] for op in program.functions[0].body.ops]
        return "".join([statements[0].head, *(s.lines for s in statements), "}\n"])

    def _statement(self, place: int, number: int, slots: list[int]) -> _Statement:
        opcode = self.table.opcodes[number]
        own = bool(opcode.tmp or opcode.branch.scalars)
        key = (number, place if own else -1, *slots[: len(opcode.kinds)])
        statement = self._statements.get(key)
        if statement is None:
            statement = self._statements[key] = self._made(opcode, place, slots)
            self._of[id(statement.op)] = statement
        return statement

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
    words = register[:needed]
    if needed < t.elements:
        words = np.stack([words & np.uint32(0xFF), words >> np.uint32(16)], -1)
    return words.reshape(t.shape).astype(t.dtype.word)
