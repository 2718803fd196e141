"""Random legal programs from the declarations, with inputs.

A case is a function of a seed, an index and options, the same on every machine. Seeded mass production
and the Hypothesis strategies (:mod:`.strategies`) drive one generator, which draws its choices from a
``random.Random``.

>>> case = generate(1, 2)
>>> case.id == generate(1, 2).id, case.program == generate(1, 2).program
(True, True)
>>> from pto_jax.verifier.programs import verify_program
>>> [d for d in verify_program(case.program, case.profile) if d.severity == "error"]
[]
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import ir, profiles
from ..api import parse
from ..errors import short_list
from ..interpreter.rank_calls import MAX_RANKS
from ..isa import history, queries
from ..isa.memory import TSTORE
from . import (
    buffers,
    control,
    cores,
    cores as generate_cores,
    cube,
    handles,
    micro,
    operations,
    ordered,
    overlaps,
    ranks,
    tiles,
    windows,
)
from .operations import legal
from .options import STRAIGHT, Options
from .state import Input, State

#: Part of every case id: another version makes other programs of the same seeds.
VERSION = "9"
#: The origin of mutants on ranks, each of which needs what it lacks.
GENERATED = "ranks"
#: Programs that are drawn for a case until one has what it should have.
_TRIES = 120


@dataclass(frozen=True)
class Ranks:
    """Processors that execute a case: how many, the windows, context records with theirs, and parts.

    ``peers`` are arguments that are parts of other ranks: the argument, the buffer, and the rank whose part
    each rank has. Inputs of such a case have a leading axis of ranks, scalars too.

    >>> Ranks.of_json({"count": 2, "shared": ["y"], "peers": [["a", "y", [1, 0]]]}).peers
    (('a', 'y', (1, 0)),)
    """

    count: int
    shared: tuple[str, ...] = ()
    context: tuple[tuple[str, str], ...] = ()
    peers: tuple[tuple[str, str, tuple[int, ...]], ...] = ()

    @property
    def bindings(self) -> dict[str, Any]:
        """The keywords with which :func:`pto_jax.compile` takes them."""
        peers = {name: (buffer, ranks) for name, buffer, ranks in self.peers}
        return {"ranks": self.count, "shared": self.shared, "context": dict(self.context), "peers": peers}

    def unnamed(self, function: ir.Function) -> list[ir.Value]:
        """The buffers that no argument is called by: those of parts, and windows, which are bytes."""
        types = {a.name: a.type for a in function.args}
        windows = dict.fromkeys((*self.shared, *(w for _, w in self.context)), ir.PtrType(ir.I8))
        parts = {buffer: types[name] for name, buffer, _ in self.peers if name in types}
        return [ir.Value(n, t) for n, t in {**windows, **parts}.items() if n not in types]

    @staticmethod
    def of_json(value: Any) -> Ranks:
        """The processors that a file describes; ValueError for what describes none."""
        if not isinstance(value, dict) or type(value.get("count")) is not int:
            raise ValueError
        if not 1 <= value["count"] <= MAX_RANKS:
            raise ValueError
        try:
            shared = tuple(map(str, value.get("shared", ())))
            context = tuple((str(record), str(window)) for record, window in value.get("context", ()))
            peers = tuple((str(n), str(b), tuple(map(int, r))) for n, b, r in value.get("peers", ()))
        except TypeError:
            raise ValueError from None
        return Ranks(value["count"], shared, context, peers)


@dataclass(frozen=True)
class Case:
    """A program, the profile that allows it, and inputs.

    ``ulp`` bounds the results that need not be exact; they are tiles that nothing reads.
    """

    id: str
    seed: int
    index: int
    profile: profiles.Profile
    program: ir.Program
    inputs: Mapping[str, Input]
    ulp: Mapping[str, int]
    grid: int = 1
    entry: str | None = None
    #: What it was made of and how, where it was made of another program.
    origin: tuple[str, ...] = ()
    #: None: one processor.
    ranks: Ranks | None = None

    def __repr__(self) -> str:
        inputs = short_list([f"{name}: {i.type}" for name, i in self.inputs.items()])
        return f"<Case {self.id}, {self.profile.name}: {self.program!r}, inputs {inputs or 'none'}>"


def case_id(seed: int, index: int) -> str:
    """What identifies a case: a hash of seed, index and generator version."""
    return hashlib.sha256(f"{seed}:{index}:{VERSION}".encode()).hexdigest()[:16]


def generate(seed: int, index: int, options: Options = STRAIGHT) -> Case:
    """One case. Equal arguments give equal cases."""
    identity = case_id(seed, index)
    rng = random.Random(int(identity, 16))
    case = draw(rng, options, identity, seed, index)
    for _ in range(_TRIES):
        if not options.having or any(op.name in options.having for op in case.program.walk()):
            break
        case = draw(rng, options, identity, seed, index)
    return case


def cases(seed: int, count: int, options: Options = STRAIGHT, start: int = 0) -> Iterator[Case]:
    """Cases of one seed, from an index on."""
    return (generate(seed, index, options) for index in range(start, start + count))


def draw(rng: random.Random, options: Options, identity: str = "", seed: int = 0, index: int = 0) -> Case:
    """A case whose every choice comes from ``rng``, but for those that take turns."""
    profile, turn = _turn(rng, options, seed, index)
    if options.ranks and rng.random() < options.ranks:
        return _on_ranks(rng, options, Case(identity, seed, index, profile, _NOTHING, {}, {}))
    if options.cube:
        state = State(rng, options, profile, False, operations.Scale.draw(rng, options))
        program = cube.kernel(state)
        return Case(identity, seed, index, profile, program, state.inputs, state.loose, 1, "main")
    if options.micro:
        state = State(rng, options, profile, False, operations.Scale.draw(rng, options))
        program = micro.kernel(state, turn)
        return Case(identity, seed, index, profile, program, state.inputs, state.loose, 1, "main")
    cores = rng.random() < options.cores
    overlapping = not cores and rng.random() < options.overlaps
    fragment = not (cores or overlapping) and rng.random() >= options.functions
    state = State(rng, options, profile, fragment, operations.Scale.draw(rng, options))
    state.moving = state.chance(0.1)
    several = not fragment and state.chance(options.blocks)
    grid = (options.grid or rng.randint(2, 3)) if several else 1
    state.fixed = grid > 1 and state.chance(0.5)
    state.tile_arguments = fragment or (grid == 1 and state.chance(options.tile_arguments))
    if cores:
        state.tile_arguments = False
        generate_cores.cores(state, grid)
    elif overlapping:
        state.tile_arguments = False
        if grid > 1:
            _number_block(state)
        overlaps.overlapping(state, grid)
    else:
        _one_core(state, grid, turn)
    # What is unwritten would mean something else in texts of another version.
    program, entry = history.written_out(_program(state)), None if fragment else "main"
    return Case(identity, seed, index, profile, program, state.inputs, state.loose, grid, entry)


def _on_ranks(rng: random.Random, options: Options, case: Case) -> Case:
    """A case for several processors, right or a mutant, whose data are small numbers."""
    drawn = ranks.draw(rng, mutant=rng.random() < options.mutants)
    program = history.written_out(parse(drawn.text))
    numbers = np.random.default_rng(rng.getrandbits(64))
    inputs = {"rank": Input(ir.ScalarType(ir.I32), np.arange(drawn.count, dtype=np.uint32))}
    for name, count in drawn.elements.items():
        d, shape = ir.dtype(drawn.types[name]), (drawn.count, count)
        data = numbers.integers(1, 30, shape) if name == "x" else np.zeros(shape)
        inputs[name] = Input(ir.PtrType(d), data.astype(d.numpy).view(d.word))
    (function,) = program.entries
    inputs = {a.name: inputs[a.name] for a in function.args if a.name in inputs}
    origin = (GENERATED, f"lacks {drawn.lacks}") if drawn.lacks else ()
    return replace(
        case,
        program=program,
        inputs=inputs,
        entry=function.name,
        origin=origin,
        grid=drawn.grid,
        ranks=Ranks(drawn.count, ("y", "s"), (("ctx", "y"),)),
    )


def _turn(rng: random.Random, options: Options, seed: int, index: int) -> tuple[profiles.Profile, int]:
    """The profile of a case and the first of its turns: every profile sees all of them."""
    if not options.turns:
        return profiles.profile(rng.choice(options.profiles)), 0
    lap, place = divmod(index, len(options.profiles))
    order = random.Random(f"{seed}:{lap}").sample(options.profiles, len(options.profiles))
    return profiles.profile(order[place]), random.Random(seed).getrandbits(32) + options.turns * lap


def _one_core(state: State, grid: int, turn: int) -> None:
    """Instructions and other statements, for a core that executes everything."""
    if grid > 1:
        _number_block(state)
    bound = max(1, state.options.statements)
    chosen = min(bound, state.options.turns)
    for number in range(turn, turn + chosen):
        tiles.instruction(state, number)
    if not chosen:
        tiles.instruction(state)
    rest = bound - max(1, chosen)
    statements(state, min(rest, state.rng.randint(1, bound)))
    if not state.fragment:
        _store_everything(state, grid)


def statements(state: State, count: int) -> None:
    """A list of statements, at least one instruction among them."""
    options, nested = state.options, len(state.levels) <= state.options.depth
    callable_here = nested and state.entry and not state.fragment
    choices: tuple[tuple[float, Callable[[State], None]], ...] = (
        (options.control * nested, lambda s: control.control(s, statements)),
        (options.calls * callable_here, lambda s: control.call(s, statements)),
        (options.aliasing, handles.alias),
        (options.scalars, handles.scalar),
        (options.memory, buffers.memory),
        (options.output, handles.output),
        (1.0, tiles.instruction),
    )
    for _ in range(count):
        pick = state.rng.random()
        for share, make in choices:
            if pick < share:
                make(state)
                break
            pick -= share


def _number_block(state: State) -> None:
    """Name the number of the block and how many there are, as indices."""
    state.block = cores.number_of(state, queries.GET_BLOCK_IDX)
    state.level.scalars += [state.block, cores.number_of(state, queries.GET_BLOCK_NUM)]


def _store_everything(state: State, grid: int) -> None:
    """Make the tiles of a function visible: they are stored to buffers, where that is legal.

    Every block has rows of its own.
    """
    for held in state.levels[0].tiles:
        t = held.type
        if held.sizes is None or 0 in held.sizes or t.boxed or t.conv is not None or t.dtype.packed:
            continue
        rows, cols = held.sizes
        where = ir.PartitionViewType((rows, cols), t.dtype)
        if not legal(state.profile, ir.Op(TSTORE, (held.value,), (ir.Value("y", where),))):
            continue
        value = windows.tensor_argument(state, ir.TensorViewType((rows * grid, cols), t.dtype))
        start = state.constant(0)
        if state.block is not None:
            start, size = ir.Value(state.name("k"), ir.ScalarType(ir.INDEX)), state.constant(rows)
            state.emit(ir.Op("arith.muli", (state.block, size), results=(start,)))
        window = windows.part(state, value, where, (start, state.constant(0)))
        state.emit(ir.Op(TSTORE, (held.value,), (window,)))


def _program(state: State) -> ir.Program:
    ops = tuple(state.level.ops)
    if state.chance(state.options.sync):
        apart = any(f.attrs.get("pto.kernel_kind") for f in state.functions)
        apart = apart or any(inner.name.startswith("section.") for op in ops for inner in op.walk())
        ops = control.synchronised(state, ops, apart=apart)
        state.functions = [control.synchronised_function(state, f, apart=apart) for f in state.functions]
    elif state.options.ordered:
        ops, state.functions = ordered.ordered(state, ops, state.functions)
    if not state.fragment:
        main = ir.Function("main", tuple(state.arguments), ir.Region((*ops, ir.Op("return"))), (), _ENTRY)
        return ir.Program((*state.functions, main))
    body = ir.Region(ops)
    by_name = {a.name: a for a in state.arguments}
    used = dict.fromkeys(v.name for op in ops for inner in op.walk() for v in (*inner.ins, *inner.outs))
    arguments = tuple(by_name[name] for name in used if name in by_name)
    state.inputs = {a.name: state.inputs[a.name] for a in arguments}
    results = ir.fragment_results(ops, {a.name for a in arguments})
    return ir.Program(
        (ir.Function(ir.FRAGMENT, arguments, body),),
        fragment=True,
        fragment_results=results,
        has_module=False,
    )


_ENTRY = (("pto.entry", True),)
_NOTHING = ir.Program(())
