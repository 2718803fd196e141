"""Passes with a bug: programs with other names, in which one instruction is changed."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import TypeAlias

import pto_jax as pto
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.edits import entry_of, rewritten, with_entry
from pto_jax.cases.targets import Oracle, Run
from pto_jax.devices.exchange import program_text
from pto_jax.generate.options import PRESETS, Options
from pto_jax.generate.programs import Case, generate
from pto_jax.ir import Op, Program, TileType, attrs
from pto_jax.validation.trace import _computes
from pto_jax.verifier.programs import verify_program

#: Kernels on buffers; their sizes stand in the text, as in what compilers print.
KERNELS: Options = replace(PRESETS["straight"], functions=1.0, regions=("full", "partial", "odd"))
_SIBLINGS = {
    "tadd": "tsub",
    "tsub": "tadd",
    "tmul": "tadd",
    "tmax": "tmin",
    "tmin": "tmax",
    "tand": "tor",
    "tor": "txor",
    "trowmax": "trowmin",
    "trowmin": "trowmax",
    "tcolmax": "tcolmin",
    "tadds": "tmuls",
    "tcolmin": "tcolmax",
    "tmuls": "tadds",
    "tsubs": "tadds",
    "tmaxs": "tmins",
    "tmins": "tmaxs",
    "tabs": "tneg",
    "tneg": "tabs",
    "trowexpandadd": "trowexpandmul",
    "tshls": "tshrs",
    "trelu": "tneg",
}
Change: TypeAlias = Callable[[random.Random, Op, Program], tuple[Op, ...] | None]


def _swapped(rng: random.Random, op: Op, program: Program) -> tuple[Op, ...] | None:
    if len(op.ins) < 2 or op.ins[0].type != op.ins[1].type or op.ins[0].name == op.ins[1].name:
        return None
    return (replace(op, ins=(op.ins[1], op.ins[0], *op.ins[2:])),)


def _other_tile(rng: random.Random, op: Op, program: Program) -> tuple[Op, ...] | None:
    """A source is another tile of the same type, as if registers were mixed up."""
    tiles = [i for i, v in enumerate(op.ins) if isinstance(v.type, TileType)]
    if not tiles:
        return None
    at = rng.choice(tiles)
    others = {
        v.name: v
        for o in program.walk()
        for v in (*o.outs, *o.results)
        if v.type == op.ins[at].type and v.name != op.ins[at].name
    }
    if not others:
        return None
    return (replace(op, ins=(*op.ins[:at], rng.choice(list(others.values())), *op.ins[at + 1 :])),)


def _dropped(rng: random.Random, op: Op, program: Program) -> tuple[Op, ...] | None:
    return () if op.outs and not op.results else None


def _sibling(rng: random.Random, op: Op, program: Program) -> tuple[Op, ...] | None:
    return (replace(op, name=_SIBLINGS[op.name]),) if op.name in _SIBLINGS else None


def _attribute(rng: random.Random, op: Op, program: Program) -> tuple[Op, ...] | None:
    values = [(n, v) for n, v in op.attributes if isinstance(v, IntEnum)]
    if not values:
        return None
    name, old = rng.choice(values)
    return (
        replace(op, attributes=attrs({**op.attrs, name: rng.choice([v for v in type(old) if v != old])})),
    )


def _constant(rng: random.Random, op: Op, program: Program) -> tuple[Op, ...] | None:
    value = op.attrs.get("value")
    if op.name != "arith.constant" or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return (replace(op, attributes=attrs({**op.attrs, "value": value + 1})),)


def _twice(rng: random.Random, op: Op, program: Program) -> tuple[Op, ...] | None:
    return (op, op) if op.outs and not op.results and set(op.outs) & set(op.ins) else None


CHANGES: dict[str, Change] = {
    "sources are swapped": _swapped,
    "a source is another tile": _other_tile,
    "an instruction is left out": _dropped,
    "an instruction is another one": _sibling,
    "an attribute is another one": _attribute,
    "a constant is larger": _constant,
    "an instruction is executed twice": _twice,
}


@dataclass(frozen=True)
class Planted:
    """The texts of a program before and after a pass, what the bug is, and lines that locate it.

    ``before`` are lines of the text before, ``after`` of the text after.
    """

    what: str
    texts: tuple[str, str]
    before: frozenset[int]
    after: frozenset[int]


def renamed(text: str) -> str:
    """A text with other names of values."""
    return re.sub(r"%(\w)", r"%after_\1", text)


def kernel(seed: int, index: int) -> Case | None:
    """A kernel that writes something, whose inputs the interpreter accepts."""
    case = generate(seed, index, KERNELS)
    fits = compare_case(case, Oracle(), Oracle()).kind == "equal"
    return case if fits and Oracle().run(case).outputs else None


def plant(case: Case, change: str, rng: random.Random) -> Planted | None:
    """A bug in a program, where one of this kind shows with the case's own inputs."""
    function = entry_of(case)
    ops = list(function.walk())
    order = {id(op): number for number, op in enumerate(ops)}
    for op in rng.sample(ops, len(ops)):
        made = CHANGES[change](rng, op, case.program)
        if made is None:
            continue
        body = rewritten(function.body, partial(_in_place_of, op, made))
        wrong = with_entry(case, replace(function, body=body))
        if any(d.severity == "error" for d in verify_program(wrong.program, wrong.profile)):
            continue
        if compare_case(replace(wrong, program=case.program), Oracle(), _Of(wrong)).kind != "different":
            continue
        texts = program_text(case), renamed(program_text(wrong))
        return Planted(change, texts, *_lines(texts, order[id(op)], len(made)))
    return None


def _in_place_of(old: Op, made: tuple[Op, ...], op: Op) -> tuple[Op, ...]:
    return made if op is old else (op,)


@dataclass(frozen=True)
class _Of:
    """The interpreter, which executes another program."""

    case: Case
    name: str = "after"

    def run(self, case: Case) -> Run:
        return Oracle().run(self.case)


def _lines(texts: tuple[str, str], number: int, count: int) -> tuple[frozenset[int], frozenset[int]]:
    """Lines of the changed instruction in both texts, with those of instructions that use its numbers."""
    before, after = (list(pto.parse(text).entries[0].walk()) for text in texts)
    ours = set(_shown(before, before[number]))
    theirs = {line for op in after[number : number + count] for line in _shown(after, op)}
    return frozenset(ours), frozenset(theirs)


def _shown(ops: list[Op], op: Op) -> Iterator[int]:
    """The line of an operation; of one that only computes numbers or handles, those that use it."""
    assert op.span is not None
    yield op.span.line
    if _computes(op):
        return
    for other in ops:
        if {v.name for v in op.results} & {v.name for o in other.walk() for v in (*o.ins, *o.outs)}:
            yield from _shown(ops, other)
