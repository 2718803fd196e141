"""The instruction at fault, alone on its recorded operands, and what else a failure depends on.

An isolated instruction is a program of its own: its operands are arguments with the contents that they
had in the run of the reference interpreter, and its results are visible. A machine that computes it
wrongly fails that program, whatever becomes of the value in the whole one.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import IntEnum

import numpy as np

from .. import ir, isa
from ..cases import edits
from ..cases.edits import digest, is_legal, with_op
from ..cases.recording import Event, Recording, number, renumbered
from ..cases.targets import Engine
from ..generate import programs, state
from ..generate.programs import Case
from ..ir import AttrValue, Op, attrs
from ..isa import effects, memory_scalar, reinterpret
from ..isa.rules import constraints, tile_legality
from ..lowering.numerics import Numerics
from ..profiles import PROFILE_NAMES, profile
from . import search


def isolate_instruction(
    machines: search.Machines, finding: search.Finding, recording: Recording
) -> tuple[search.Finding, str] | None:
    """A failure of one instruction, which had a part in the failure of the whole, and its name.

    Results are compared as numbers first, for which all NaNs are equal, then as bits.
    """
    tried: set[str] = set()
    for event, bits in ((e, b) for b in (False, True) for e in recording.influencing(_output(finding))):
        probe = isolated(recording, event, bits)
        mark = digest(probe) if probe is not None else ""
        if probe is None or mark in tried:
            continue
        tried.add(mark)
        failure = machines.fails(probe, finding.signature)
        if failure is not None:
            return failure, event.op.name
    return None


def _output(finding: search.Finding) -> str | None:
    differs = finding.outcome.mismatch
    return differs.output if differs is not None else None


def isolated(recording: Recording, event: Event, bits: bool = False) -> programs.Case | None:
    """One execution as a program of its own, where its operands can be arguments.

    With ``bits`` results that are floats are visible as integers.
    """
    op, case = event.op, recording.case
    if None in event.values or op.groups or op.regions:
        return None
    held = {v.name: i for v, i in zip((*op.ins, *op.outs), event.values, strict=True) if i is not None}
    names = {name: ir.Value(name, i.type) for name, i in held.items()}
    names |= {r.name: replace(r, type=_tile_type(r)) for r in op.results}
    constants = [o for o in case.program.walk() if o.name == "arith.constant" and o.results[0].name in held]
    sinks, sink_inputs = _visible(op)
    sinks += _as_bits(edits.renamed(op, names)) if bits else []
    ops = (*constants, *event.modes, edits.renamed(op, names), *sinks)
    defined = {r.name for o in ops for r in o.results}
    inputs = {n: i for n, i in (held | sink_inputs).items() if n not in defined}
    arguments = tuple(ir.Value(n, i.type) for n, i in inputs.items())
    program = ir.Program(
        (ir.Function(ir.FRAGMENT, arguments, ir.Region(ops)),),
        case.program.attributes,
        fragment=True,
        fragment_results=ir.fragment_results(ops, set(inputs)),
        has_module=False,
        tiles=case.program.tiles,
    )
    ulp = _bounds(op, case)
    return replace(case, program=renumbered(program), inputs=inputs, ulp=ulp, grid=1, entry=None, ranks=None)


def _tile_type(value: ir.Value) -> ir.TileType | ir.ScalarType | ir.MemRefType:
    t = value.type
    tile = tile_legality.tile_of_memref(t) if isinstance(t, ir.MemRefType) else None
    return tile or t  # type: ignore[return-value]


def _bounds(op: ir.Op, case: programs.Case) -> dict[str, int]:
    """How far results may be apart: as the case says, at least as the instruction's declaration does."""
    instruction = isa.find(op.name)
    bounds = {}
    for v in op.destinations:
        d = constraints.element_type(v.type)
        declared = instruction.ulp.get(d.name, 0) if instruction is not None and d is not None else 0
        bounds[v.name] = max(declared, case.ulp.get(v.name, 0))
    return {name: n for name, n in bounds.items() if n}


def _visible(op: ir.Op) -> tuple[list[ir.Op], dict[str, state.Input]]:
    """Operations that make scalar results visible, and the tiles they are written to."""
    ops: list[ir.Op] = []
    inputs: dict[str, state.Input] = {}
    for value in op.results:
        if not isinstance(value.type, ir.ScalarType):
            continue
        d, result = value.type.dtype, value
        if d in (ir.I1, ir.INDEX):
            d, result = ir.I32, ir.Value(f"{value.name}_i32", ir.ScalarType(ir.I32))
            how = "arith.index_cast" if value.type.dtype == ir.INDEX else "arith.extui"
            ops.append(ir.Op(how, (value,), results=(result,)))
        t = ir.TileType(d, 1, max(8, 256 // d.word_bits))
        zero, seen = ir.Value(f"{value.name}_at", ir.ScalarType(ir.INDEX)), ir.Value(f"{value.name}_seen", t)
        ops.append(ir.Op("arith.constant", results=(zero,), attributes=ir.attrs(value=0)))
        ops.append(ir.Op(memory_scalar.TSETVAL, (zero, result), (seen,)))
        inputs[seen.name] = state.Input(t, np.zeros(t.shape, d.word))
    return ops, inputs


def _as_bits(op: ir.Op) -> list[ir.Op]:
    """Handles over the float results of an instruction as integers."""
    ops = []
    for value in op.destinations:
        t = value.type
        d = ir.find_dtype(f"i{t.dtype.bits}") if isinstance(t, ir.TileType) and t.dtype.is_float else None
        if isinstance(t, ir.TileType) and d is not None and t.conv is None:
            seen = ir.Value(f"{value.name}_bits", t.with_dtype(d))
            ops.append(ir.Op(reinterpret.BITCAST, (value,), results=(seen,)))
    return ops


def types_of(op: ir.Op) -> str:
    """The element types of an instruction: that of its result, after that of its source where it differs."""
    elements = list(_elements(op))
    if not elements:
        return ""
    source, result = elements[0], elements[-1]
    return result.name if source == result else f"{source.name}->{result.name}"


def _elements(op: ir.Op) -> Iterator[ir.DType]:
    instruction = isa.find(op.name)
    values = [*op.ins[:1], *op.destinations[:1]]
    if instruction is None and isa.find_micro(op.name) is not None:
        # Pointers say nothing about what is computed.
        yield from (v.type.dtype for v in (*op.ins, *op.destinations) if isinstance(v.type, ir.VRegType))
        return
    if instruction is not None and instruction.syntax == "tile":
        bound = effects.operands_of(op)
        first = next((o.name for o in instruction.operands if o.role == "in" and o.name in bound), None)
        values = [bound[first], *op.destinations[:1]] if first is not None else values
    for v in values:
        d = constraints.element_type(v.type)
        if d is not None:
            yield d


# -- what a failure depends on -----------------------------------------------------------------------

#: Cases that are executed to find out.
CALLS = 40
#: What became of a choice; that of the failure itself and those that fail alike are ``FAILS``.
FAILS, ILLEGAL = "fails", "not legal"
Variants = Mapping[str, Mapping[str, str]]


def varied(machines: search.Machines, finding: search.Finding) -> Variants:
    """For every choice in a failing case what becomes of it with each value: the one it has fails.

    The choices are ``profile``, ``numerics`` where this engine is tested, and ``INSTRUCTION ATTRIBUTE``.
    """
    if not finding.outcome.is_failure:
        return {}
    end = machines.steps + CALLS
    table: dict[str, dict[str, str]] = {}
    for what, value, candidate, on in _choices(machines, finding.case):
        if candidate is finding.case and on is machines:
            table.setdefault(what, {})[value] = FAILS
        elif not is_legal(candidate):
            table.setdefault(what, {})[value] = ILLEGAL
        elif on.steps < end:
            other = on.run(candidate)
            alike = other.outcome.is_failure and other.signature == finding.signature
            table.setdefault(what, {})[value] = FAILS if alike else other.outcome.kind
    return {what: values for what, values in table.items() if len(values) > 1}


def depends(variants: Variants) -> str:
    """What a failure depends on, in words.

    >>> depends({"profile": {"a5": "fails", "a2a3": "equal", "cpu_sim": "equal"}})
    'fails with profile a5, not with a2a3, cpu_sim'
    """
    said = []
    for what, values in variants.items():
        failing = [value for value, kind in values.items() if kind == FAILS]
        passing = [value for value, kind in values.items() if kind == "equal"]
        if passing:
            said.append(f"fails with {what} {', '.join(failing)}, not with {', '.join(passing)}")
    return "; ".join(said)


def _choices(machines: search.Machines, case: Case) -> Iterator[tuple[str, str, Case, search.Machines]]:
    for name in PROFILE_NAMES:
        own = name == case.profile.name
        yield "profile", name, case if own else replace(case, profile=profile(name)), machines
    tested = machines.tested
    if isinstance(tested, Engine):
        yield "numerics", tested.numerics, case, machines
        other: Numerics = "fast" if tested.numerics == "exact" else "exact"
        yield (
            "numerics",
            other,
            case,
            replace(machines, tested=replace(tested, numerics=other), calls=math.inf),
        )
    for op in case.program.walk():
        for key, value in op.attributes:
            if isinstance(value, IntEnum | bool):
                for choice in (False, True) if isinstance(value, bool) else tuple(type(value)):
                    result = case if choice == value else _with(case, op, key, choice)
                    yield f"{op.name} {key}", str(getattr(choice, "name", choice)).lower(), result, machines


def _with(case: Case, op: Op, name: str, value: AttrValue) -> Case:
    """The case with another value of an attribute."""
    changed = attrs({**op.attrs, name: value})
    return with_op(case, number(op), lambda o: replace(o, attributes=changed))
