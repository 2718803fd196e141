"""What the programs of a campaign are made of, by a sample of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import isa
from ...files.terminal import table
from ...generate.programs import Case
from ...ir import F32, Program, TileType
from ...isa.views import MAKE_TENSOR_VIEW
from ...lockstep.programs import STEPS
from ..lockstep import covered_cells
from . import coverage, executor_cases
from .plan import Plan

#: Programs that are made to be counted; tables of lockstep, and programs of each.
SAMPLE, TABLES, OF_A_TABLE = 400, 24, 64
_SHOWN = 12
#: Words of f32: infinity, and the least normal number.
_INFINITE, _NORMAL = 0x7F800000, 0x00800000
_PARTS = (
    "instruction",
    "element type",
    "attribute",
    "valid region",
    "layout",
    "optional operands",
    "surrounded by",
)


@dataclass(frozen=True)
class _Property:
    """How often programs have each value of a property; of ``total`` programs, or of all that are counted."""

    name: str
    counts: Counter[str]
    total: int | None = None


@dataclass(frozen=True)
class Explanation:
    """What the programs of a campaign are made of."""

    what: str
    properties: tuple[_Property, ...]


def explain(plan: Plan, full: bool = False) -> str:
    """A table for each property of the operations, how many of 100 have each value, rarest last.

    ``plan`` says the programs; some hundred are made and none is executed. ``full`` shows the middle of long
    tables, too.

    >>> from pto_jax.campaign.fuzz.focus import Focus
    >>> focus = Focus(only=("tabs",), dtypes=("f16",))
    >>> plan = Plan(lockstep=True, opcodes=20, profiles=("a5",), focus=focus)
    >>> print(explain(plan))
    24 tables in lockstep, of each 64 programs of 20 instructions
    instruction: 1
      tabs  100.0 %
    element type: 1
      f16  100.0 %
    attribute: 1
      -  100.0 %
    valid region: 4
      full     43.7 %
      odd      30.5 %
      empty    15.5 %
      partial  10.4 %
    layout: 1
      row  100.0 %
    optional operands: 1
      -  100.0 %
    """
    return "\n".join(_lines_of(explained(plan), None if full else _SHOWN))


def explained(plan: Plan) -> Explanation:
    """What :func:`explain` shows: each property with how often it has each value, most frequent first."""
    return _lockstep(plan) if plan.lockstep else _generated(plan)


def to_json(plan: Plan) -> dict[str, Any]:
    """All values of all properties as JSON values: counts, and of how many."""
    result = explained(plan)
    return {
        "programs": result.what,
        "properties": {
            p.name: {"of": p.total, "counts": dict(p.counts.most_common())} for p in result.properties
        },
    }


def _generated(plan: Plan) -> Explanation:
    source = executor_cases.source_of(plan)
    cases = [source.case(index, 0) for index in range(plan.start, plan.start + SAMPLE)]
    cells: Counter[str] = Counter()
    for case in cases:
        cells.update(coverage.of_program(case.program))
    having = Counter(name for case in cases for name in {op.name for op in case.program.walk()})
    names = isa.instructions().keys() | isa.micro_operations().keys()
    instructions = Counter({n: count for n, count in having.items() if n in names})
    return Explanation(
        f"{SAMPLE} programs, {cells.total() / SAMPLE:.1f} instructions in each",
        (
            _Property("programs with the instruction", instructions, SAMPLE),
            *_of_cells(cells, _PARTS[1:]),
            _Property("programs", _properties(cases), SAMPLE),
            _Property("elements of f32 arguments", _values(cases)),
            _Property("lines of f32 tiles that are arguments", _lines(cases)),
        ),
    )


def _properties(cases: list[Case]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for case in cases:
        names = {op.name for op in case.program.walk()}
        counted[f"profile {case.profile.name}"] += 1
        counted["several blocks"] += case.grid > 1
        counted["several functions"] += len(case.program.functions) > 1
        counted["control flow"] += any(name.startswith("scf.") for name in names)
        counted["a fragment"] += case.program.fragment
        counted["steps of a view known at run time"] += _open_steps(case.program)
    return counted


def _open_steps(program: Program) -> bool:
    """Whether a view has steps that the text does not say."""
    said = {v.name for op in program.walk() if "value" in op.attrs for v in op.results}
    views = (op for op in program.walk() if op.name == MAKE_TENSOR_VIEW)
    return any(v.name not in said for op in views for v in op.ins[-dict(op.groups)["strides"] :])


def _lines(cases: list[Case]) -> Counter[str]:
    """How many NaNs and infinities the rows of f32 tiles have: results show a single one best."""
    counted: Counter[str] = Counter()
    for case in cases:
        for array in case.inputs.values():
            if isinstance(array.type, TileType) and array.type.dtype == F32:
                result = ((array.words & np.uint32(_INFINITE)) == _INFINITE).sum(axis=-1)
                counted["no NaN or infinity"] += int((result == 0).sum())
                counted["one or two"] += int(((result == 1) | (result == 2)).sum())
                counted["more of them"] += int((result > 2).sum())
    return counted


def _values(cases: list[Case]) -> Counter[str]:
    """What kinds of numbers the f32 arguments have, one kind each: the first that fits."""
    counted: Counter[str] = Counter()
    for case in cases:
        for array in case.inputs.values():
            if array.type.dtype == F32:
                size = array.words.reshape(-1) & np.uint32(0x7FFFFFFF)
                kinds = {
                    "zero": size == 0,
                    "NaN": size > _INFINITE,
                    "infinity": size == _INFINITE,
                    "subnormal": size < _NORMAL,
                    "tie between two of f16": size & 0x1FFF == 0x1000,
                    "tie between two of bf16": size & 0xFFFF == 0x8000,
                }
                results = np.select(list(kinds.values()), range(len(kinds)), len(kinds))
                for name, n in zip(
                    (*kinds, "other"), np.bincount(results, minlength=len(kinds) + 1), strict=True
                ):
                    counted[name] += int(n)
    return counted


def _lockstep(plan: Plan) -> Explanation:
    cells: Counter[str] = Counter()
    for turn in range(1, TABLES + 1):
        start = turn * plan.tables.span
        cells += covered_cells(plan.tables.of(start), plan.seed, start, start + OF_A_TABLE)
    what = f"{TABLES} tables in lockstep, of each {OF_A_TABLE} programs of {STEPS} instructions"
    return Explanation(what, tuple(_of_cells(cells, _PARTS[:-1])))


def _of_cells(cells: Counter[str], parts: Sequence[str]) -> Iterator[_Property]:
    for part in parts:
        counted: Counter[str] = Counter()
        for cell, count in cells.items():
            counted[cell.split("|")[_PARTS.index(part)]] += count
        yield _Property(part, counted)


def _lines_of(explanation: Explanation, shown: int | None) -> Iterator[str]:
    """The lines of the table, of long properties the most and the least frequent values only."""
    yield explanation.what
    for p in explanation.properties:
        total = p.total or p.counts.total()
        ranked = [(n, f"{100 * c / total:.1f} %") for n, c in p.counts.most_common() if c]
        yield f"{p.name}: {len(ranked)}"
        if shown is not None and len(ranked) > 2 * shown:
            ranked = [*ranked[:shown], ("...", ""), *ranked[-shown:]]
        for line in table(ranked):
            yield f"  {line}"
