"""Filling in the types that a fragment leaves open, from the arguments it is called with."""

from collections.abc import Mapping
from dataclasses import replace

from .. import errors, isa
from ..ir import Function, Op, Program, Region, ScalarType, TileType, Type, UnknownType, Value, find_dtype


def is_open(program: Program) -> bool:
    """Whether any value of the program has a type that was not given."""
    for function in program.functions:
        values = list(function.args)
        for op in function.walk():
            values += [*op.ins, *op.outs, *op.results]
        if any(isinstance(v.type, UnknownType) for v in values):
            return True
    return False


def fill(program: Program, given: Mapping[str, Type]) -> Program:
    """The program with open types replaced.

    Arguments take the types in ``given``. A destination takes the type and region of the instruction's
    first source tile; where the declaration says that the element types differ, the type must be
    written and VerifyError says so. A scalar takes the element type of the tile it is combined with.
    """
    return replace(program, functions=tuple(_function(f, given) for f in program.functions))


def complete(program: Program) -> Program:
    """The program with the types filled in that follow from types it gives; others stay open."""
    if not is_open(program):
        return program
    try:
        return fill(program, {})
    except errors.VerifyError:
        # A type that cannot follow from others is the verifier's to report, with all other findings.
        return program


def _function(function: Function, given: Mapping[str, Type]) -> Function:
    known: dict[str, Type] = {}
    for a in function.args:
        t = given.get(a.name) if isinstance(a.type, UnknownType) else a.type
        if t is not None and not isinstance(t, UnknownType):
            known[a.name] = t
    ops = tuple(_op(op, known) for op in function.body.ops)
    args = tuple(replace(a, type=known.get(a.name, a.type)) for a in function.args)
    return replace(function, args=args, body=Region(ops, function.body.args))


def _op(op: Op, known: dict[str, Type]) -> Op:
    def typed(value: Value) -> Value:
        if isinstance(value.type, UnknownType):
            return replace(value, type=known.get(value.name, value.type))
        known.setdefault(value.name, value.type)
        return value

    op = replace(
        op,
        ins=tuple(map(typed, op.ins)),
        outs=tuple(map(typed, op.outs)),
        results=tuple(map(typed, op.results)),
    )
    instruction = isa.find(op.name)
    if instruction is None or instruction.syntax == "custom":
        return op
    bound = isa.bind(instruction, op)
    source = next((v.type for v in bound.values.values() if isinstance(v.type, TileType)), None)
    for name, value in bound.values.items():
        if isinstance(value.type, UnknownType) and source is not None:
            same = (v.type for n, v in bound.values.items() if _same_variable(instruction, name, n))
            partner = next((t for t in same if isinstance(t, TileType)), source)
            known[value.name] = _infer(instruction, name, value, source, partner, op)
    return replace(
        op,
        ins=tuple(map(typed, op.ins)),
        outs=tuple(map(typed, op.outs)),
        results=tuple(map(typed, op.results)),
    )


def _same_variable(instruction: isa.Instruction, a: str, b: str) -> bool:
    return instruction.operand(a).dtype == instruction.operand(b).dtype


def _infer(
    instruction: isa.Instruction, name: str, value: Value, source: TileType, partner: TileType, op: Op
) -> Type:
    """``partner`` is a tile that must have the operand's element type."""
    operand = instruction.operand(name)
    if operand.kind == "vector":
        return operand.vector
    if operand.kind == "scalar":
        return ScalarType(find_dtype(operand.dtype or "") or partner.dtype)
    reference = next((o for o in instruction.operands if o.role == "in" and o.kind == "tile"), None)
    if reference is not None and operand.role in ("out", "inout") and operand.dtype == reference.dtype:
        return source
    raise errors.VerifyError(
        errors.Diagnostic(
            "error",
            f"type not given; it does not follow from the sources ({source}), so it must be written",
            value.span or op.span,
            instruction.name,
            f"%{value.name}",
            "type-given",
        )
    )
