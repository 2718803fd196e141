"""Legal programs made at random from the declarations, with inputs for them.

A case is a function of a seed, an index and options, the same on every machine. Seeded mass production
and the Hypothesis strategies (:mod:`.strategies`) drive one generator, which draws its choices from a
``random.Random``.

>>> case = generate(1, 2)
>>> case.id == generate(1, 2).id, case.program == generate(1, 2).program
(True, True)
>>> from pto_jax.verifier import verify_program
>>> [d for d in verify_program(case.program, case.profile) if d.severity == "error"]
[]
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..ir import FRAGMENT, Function, Op, Program, Region, Value
from ..profiles import Profile, profile as find_profile
from ..types import PartitionViewType
from . import generate_control, generate_tiles
from .generate_operations import Scale
from .generate_options import Options
from .generate_state import Input, State

#: Part of every case id: another version makes other programs of the same seeds.
VERSION = "1"


@dataclass(frozen=True)
class Case:
    """A program, the profile that allows it, and inputs. ``ulp`` bounds the results that need not be exact;
    they are tiles that nothing reads."""

    id: str
    seed: int
    index: int
    profile: Profile
    program: Program
    inputs: Mapping[str, Input]
    ulp: Mapping[str, int]


def case_id(seed: int, index: int) -> str:
    """What identifies a case: a hash of seed, index and generator version."""
    return hashlib.sha256(f"{seed}:{index}:{VERSION}".encode()).hexdigest()[:16]


def generate(seed: int, index: int, options: Options = Options()) -> Case:
    """One case. Equal arguments give equal cases."""
    identity = case_id(seed, index)
    return draw(random.Random(int(identity, 16)), options, identity, seed, index)


def cases(seed: int, count: int, options: Options = Options(), start: int = 0) -> Iterator[Case]:
    """Cases of one seed, from an index on."""
    return (generate(seed, index, options) for index in range(start, start + count))


def draw(rng: random.Random, options: Options, identity: str = "", seed: int = 0, index: int = 0) -> Case:
    """A case whose every choice comes from ``rng``."""
    profile = find_profile(rng.choice(options.profiles))
    fragment = rng.random() >= min(1.0, 4 * options.calls)
    state = State(rng, options, profile, fragment, Scale.draw(rng, options))
    generate_tiles.instruction(state)
    statements(state, rng.randint(1, max(1, options.statements - 1)))
    if not fragment:
        _store_everything(state)
    return Case(identity, seed, index, profile, _program(state), state.inputs, state.loose)


def statements(state: State, count: int) -> None:
    """A list of statements, at least one instruction among them."""
    options, nested = state.options, len(state.levels) <= state.options.depth
    for _ in range(count):
        pick = state.rng.random()
        for share, make in (
            (options.control * nested, lambda: generate_control.control(state, statements)),
            (
                options.calls * (nested and state.entry and not state.fragment),
                lambda: generate_control.call(state, statements),
            ),
            (options.aliasing, lambda: generate_tiles.alias(state)),
            (options.scalars, lambda: generate_tiles.scalar(state)),
            (1.0, lambda: generate_tiles.instruction(state)),
        ):
            if pick < share:
                make()
                break
            pick -= share


def _store_everything(state: State) -> None:
    """Make the tiles of a function visible: they are stored to buffers, where that is legal."""
    for held in state.levels[0].tiles:
        t = held.type
        if held.sizes is None or 0 in held.sizes or t.boxed or t.conv is not None:
            continue
        where = PartitionViewType(held.sizes, t.dtype)
        value = Value(state.name("y"), where)
        op = Op("tstore", (held.value,), (value,))
        if generate_tiles.legal(state, op):
            state.arguments.append(value)
            state.inputs[value.name] = Input(where, state.recipe(t.dtype, held.sizes))
            state.emit(op)


def _program(state: State) -> Program:
    ops = tuple(state.level.ops)
    if not state.fragment:
        main = Function("main", tuple(state.arguments), Region((*ops, Op("return"))), (), _ENTRY)
        return Program((*state.functions, main))
    body = Region(ops)
    used = {v.name for op in ops for inner in op.walk() for v in (*inner.ins, *inner.outs)}
    arguments = tuple(a for a in state.arguments if a.name in used)
    for name in set(state.inputs) - used:
        del state.inputs[name]
    results = _results(ops, {a.name for a in arguments})
    return Program(
        (Function(FRAGMENT, arguments, body),), fragment=True, fragment_results=results, has_module=False
    )


_ENTRY = (("pto.entry", True),)


def _results(ops: tuple[Op, ...], parameters: set[str]) -> tuple[str, ...]:
    """Names a fragment yields, as the reader finds them."""
    visible = parameters | {v.name for op in ops for v in op.results}
    names: dict[str, None] = {}
    for op in ops:
        for inner in op.walk():
            names.update((v.name, None) for v in inner.outs if v.name in visible)
        names.update((v.name, None) for v in op.results)
    return tuple(names)
