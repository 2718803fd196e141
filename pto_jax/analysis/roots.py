"""Where the walks over a program begin, which core executes its operations, and who orders its pipes."""

from collections.abc import Iterator, Mapping

from ..ir import Function, KernelKind, Op, Program, Region
from ..isa import effects
from . import provenance

#: What hands tokens between the pipes of a core.
_TOKENS = ("flag", "event")


def roots(program: Program) -> list[Function]:
    """The functions that no other one calls."""
    inner = provenance.callees(program)
    return [function for function in program.functions if function.name not in inner]


def cores_of(program: Program) -> Mapping[int, KernelKind]:
    """By the identities of operations: the kind of core that executes them, where the text says it."""
    kinds: dict[int, KernelKind] = {}
    for function in program.functions:
        kind = function.attrs.get("pto.kernel_kind")
        kinds.update(_inside(function.body, kind if isinstance(kind, KernelKind) else None))
    return kinds


def runs_on_both(program: Program) -> bool:
    """Whether the text names both kinds of cores for operations."""
    functions = {f.attrs.get("pto.kernel_kind") for f in program.functions}
    sections = {t.core for f in program.functions for t in effects.traits_in(f) if t.regions is not None}
    # Most programs name one of them, so that it need not be asked of which operations.
    return len((functions | sections) - {None}) > 1 and len(set(cores_of(program).values())) > 1


def hands_token(op: Op) -> bool:
    """Whether an operation is a flag or an event between pipes."""
    order = effects.traits_of(op).order
    return order is not None and order.through in _TOKENS


def is_as_written(function: Function) -> bool:
    """Whether a function orders its pipes itself, so that nothing is inserted into it.

    It has a flag or an event, which the assembler's inserter leaves alone, a buffer token, which the
    inserter of buffer tokens leaves alone (BufidSyncPass), or waits for operations, which the tadd page does
    in manual mode only; in automatic mode the compiler inserts those waits.
    """
    orders = (traits.order for traits in effects.traits_in(function))
    return any(order is not None and order.through in (*_TOKENS, "token", "operation") for order in orders)


def orders_itself(program: Program) -> bool:
    """Whether some function of a program orders its pipes itself, or nobody inserts anything any more."""
    return program.emitted or any(map(is_as_written, program.functions))


def _inside(region: Region, kind: KernelKind | None) -> Iterator[tuple[int, KernelKind]]:
    for op in region.ops:
        if kind is not None:
            yield id(op), kind
        for inner in op.regions:
            section = _section(op)
            yield from _inside(inner, kind if section is None else section)


def _section(op: Op) -> KernelKind | None:
    traits = effects.traits_of(op)
    return traits.core if traits.regions is not None else None
