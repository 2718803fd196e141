"""Which declared operand each value of an operation stands for."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .. import errors, ir
from .declare import Instruction, Operand


class Bound(NamedTuple):
    """Values by declared operand name, attributes with defaults, and the overload that matched."""

    instruction: Instruction
    values: Mapping[str, ir.Value]
    attrs: Mapping[str, ir.AttrValue]
    form: tuple[str, ...]


def accepts(operand: Operand, t: ir.Type) -> bool:
    """Whether a value of type ``t`` can stand for the operand, by its kind alone."""
    if isinstance(t, ir.UnknownType):
        return t.kind == "any" or (t.kind == "tile") == (operand.kind == "tile")
    match operand.kind:
        case "tile":
            return isinstance(t, ir.TileType | ir.MemRefType)
        case "scalar" | "index":
            return isinstance(t, ir.ScalarType)
        case "gm":
            return isinstance(t, ir.TensorViewType | ir.PartitionViewType | ir.MemRefType)
        case "entry":
            return isinstance(t, ir.TileType | ir.TensorViewType)
        case "memory":
            return isinstance(t, ir.PtrType | ir.TensorViewType | ir.PartitionViewType | ir.MemRefType)
        case "ptr":
            return isinstance(t, ir.PtrType | ir.MemRefType)
        case "vector":
            return isinstance(t, ir.VectorType)
        case "handle":
            return isinstance(t, ir.OpaqueType | ir.MultiTileType | ir.LocalArrayType | ir.StructType)
        case "event":
            return True


def _describe(instruction: Instruction, form: tuple[str, ...]) -> str:
    return "(" + ", ".join(f"{n}: {instruction.operand(n).kind}" for n in form) + ")"


def bind(instruction: Instruction, op: ir.Op) -> Bound:
    """Bind an operation's values to the declared operands.

    Raises VerifyError naming the accepted operand lists when none of them fits.
    """
    if op.groups:
        chosen, values = _by_group(instruction, op)
    else:
        chosen, values = _by_position(instruction, op)
    destinations = _destinations(instruction, len(op.destinations))
    if chosen is None or destinations is None:
        raise errors.VerifyError(_mismatch(instruction, op))
    values.update(zip((o.name for o in destinations), op.destinations, strict=True))
    if not op.attributes:
        return Bound(instruction, values, instruction.defaults, chosen)
    attrs = dict(instruction.defaults)
    for key, value in op.attributes:
        attribute = instruction.attribute(key)
        attrs[attribute.name if attribute else key] = value
    return Bound(instruction, values, attrs, chosen)


def _destinations(instruction: Instruction, count: int) -> Sequence[Operand] | None:
    """The destinations that ``count`` values stand for: the required ones and the first optional ones."""
    if count == len(instruction.destinations):
        return instruction.destinations
    spare = count - sum(not o.optional for o in instruction.destinations)
    chosen = []
    for operand in instruction.destinations:
        if not operand.optional or spare > 0:
            chosen.append(operand)
            spare -= operand.optional
    return chosen if spare == 0 else None


def _by_position(instruction: Instruction, op: ir.Op) -> tuple[tuple[str, ...] | None, dict[str, ir.Value]]:
    fitting = [f for f in instruction.forms if len(f) == len(op.ins)]
    chosen: tuple[str, ...] | None
    if len(fitting) > 1:
        exact = (
            f
            for f in fitting
            if all(accepts(instruction.operand(n), v.type) for n, v in zip(f, op.ins, strict=True))
        )
        chosen = next(exact, fitting[0])
    else:
        chosen = next(iter(fitting), None)
    return chosen, dict(zip(chosen or (), op.ins, strict=False))


def _by_group(instruction: Instruction, op: ir.Op) -> tuple[tuple[str, ...] | None, dict[str, ir.Value]]:
    """Groups carry operand names; a group of several values binds its first one."""
    values: dict[str, ir.Value] = {}
    start = 0
    for name, size in op.groups:
        if size and instruction.has_operand(name):
            values.setdefault(name, op.ins[start])
        start += size
    return (tuple(values) if instruction.required_sources <= values.keys() else None), values


def _mismatch(instruction: Instruction, op: ir.Op) -> errors.Diagnostic:
    expected = " or ".join(_describe(instruction, f) for f in instruction.forms)
    got = ", ".join(f"{v}: {v.type}" for v in op.ins)
    return errors.Diagnostic(
        "error",
        f"got {len(op.ins)} source operand(s) ({got}) and {len(op.destinations)} destination(s); "
        f"allowed: {expected} with {len(instruction.destinations)} destination(s)",
        op.span,
        instruction.name,
        rule="operands",
    )
