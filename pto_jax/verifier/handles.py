"""Handles that may be used in some places only, whatever instruction uses them."""

from collections.abc import Iterable, Iterator

from .. import isa
from ..analysis.resolve import ResolvedProgram
from ..errors import Diagnostic, Span
from ..ir import Function, MultiTileType, Op, StructType, Value
from ..isa.tile_queries import INTTOPTR
from .errors import error_of


def handle_findings(resolved: ResolvedProgram) -> Iterator[Diagnostic]:
    """Multi tiles, structures and pointers made of integers that are used where they must not be."""
    program = resolved.program
    for function in program.functions:
        if not program.fragment:
            yield from _handed_on(function.args, function.span)
            for op in function.walk():
                yield from _operation(op)
        yield from _addresses(resolved, function)


def _operation(op: Op) -> Iterator[Diagnostic]:
    if isa.find(op.name) is None:
        yield from _handed_on((*op.ins, *op.results), op.span, op.name)
    for region in op.regions:
        yield from _handed_on(region.args, op.span)


def _handed_on(values: Iterable[Value], span: Span | None, name: str | None = None) -> Iterator[Diagnostic]:
    """Values that only the operation that declares them may hand to others."""
    for value in values:
        if isinstance(value.type, MultiTileType | StructType):
            message = (
                f"{value} is {value.type}; allowed: multi tiles and structures are used in the function that "
                "declares them, by their own operations only"
            )
            yield Diagnostic("error", message, value.span or span, name, rule="direct")


def _addresses(resolved: ResolvedProgram, function: Function) -> Iterator[Diagnostic]:
    """A pointer made of an integer is only the place of a scalar that is loaded or stored."""
    made: set[str] = set()
    for op in function.walk():
        for value in op.ins if made else ():
            accesses = resolved.of(op).accesses()
            if value.name in made and not any(e.indexed and v == value for e, v in accesses):
                message = f"{value} is a pointer made of an integer; allowed: to load and store scalars"
                yield error_of(op, "integer-pointer", message, value)
        if op.name == INTTOPTR:
            made.update(v.name for v in op.results)
