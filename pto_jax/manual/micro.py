"""The page on micro-operations: vector registers, predicates, and addresses of the unified buffer."""

from collections.abc import Iterator

from .. import isa
from ..isa.micro import MicroOperation
from .topics import Part, Topic, program, table

_SHORT = [
    "Micro-operations are the level of the A5 vector core below tile instructions. Values are registers of "
    "256 bytes, predicates of 256 bits and addresses of the unified buffer, which tiles share with them by "
    "bytes. A program may hold both. Everything that makes or takes a register stands in one pto.vecscope.",
    "The same operations with the prefix vmi. work on any number of logical lanes.",
    "Cube code (mad, copies of L0 and L1), SIMT code and the A3 form (pto.ub) are refused by name.",
]
_TYPES = [
    ["!pto.vreg<64xf32>", "256 bytes as lanes of an element type; i16 has no sign, si16 and ui16 have one"],
    ["!pto.mask<b32>", "a bit per byte of a register; lane i of a b32 mask is bit 4 i"],
    ["!pto.align", "what an unaligned stream keeps between its operations"],
    ["!pto.ptr<f32, ub>", "a byte address in the unified buffer; addptr counts elements"],
    ["!pto.vmi.vreg<512xf32>", "logical lanes; !pto.vmi.mask<512xpred> has a bit for each"],
]
_RULES = [
    "Inactive lanes of a result are zero; bytes of inactive lanes are not stored.",
    "Floats round to nearest even once per operation and keep subnormals; integers wrap.",
    "The post-update form returns a second pointer: it accesses the given one and returns it moved.",
    "Contents of the unified buffer before the first write are undefined; `--sanitize` reports their use.",
]


def _family(family: str, found: list[MicroOperation]) -> Part:
    rows = [[o.name, o.text, o.types, o.summary] for o in found]
    return Part(f"Operations: {family}", table(["operation", "operands", "types", "meaning"], rows), "table")


def _families() -> Iterator[Part]:
    by_source: dict[str, list[MicroOperation]] = {}
    for operation in isa.micro_operations().values():
        by_source.setdefault(operation.source, []).append(operation)
    return (_family(source, found) for source, found in by_source.items())


def _decisions() -> list[str]:
    found = {d: None for o in isa.micro_operations().values() for d in o.decisions}
    return [f"{d.question} {d.choice} ({d.source})" for d in found]


def operation_page(operation: MicroOperation) -> Topic:
    """The page of one micro-operation.

    >>> print(operation_page(isa.micro_operations()["vadd"]).page().splitlines()[0])
    vadd: Sum of lanes.
    """
    kinds = [[letter, " ".join(found)] for letter, found in operation.elements.items()]
    words = [[name, " ".join(found)] for name, found in operation.choices.items()]
    parts = (
        Part("Meaning", [operation.semantics] if operation.semantics else []),
        Part("Operands and their types", [operation.text, operation.types]),
        Part("Element types", table(["letter", "types"], kinds) if kinds else [], "table"),
        Part("Attributes and strings", table(["name", "values"], words) if words else [], "table"),
        Part("Not executed", [f"{word}: no source says what it does" for word in operation.refused]),
        Part("Accuracy", [f"within {operation.ulp} ULP"] if operation.ulp else []),
        Part("Decisions", [f"{d.question} {d.choice} ({d.source})" for d in operation.decisions]),
        Part("Source", [operation.source] if operation.source else []),
        Part("See also", ["`pto-jax isa micro`: types, rules of all operations, a kernel"]),
    )
    return Topic(operation.name, operation.summary, tuple(p for p in parts if p.items))


def topic() -> Topic:
    """The page."""
    return Topic(
        "micro",
        "Micro-operations: vector registers, masks, addresses.",
        (
            Part("In short", _SHORT, "prose"),
            Part("A kernel", [program("micro")], "program", "a5"),
            Part("Types", table(["type", "meaning"], _TYPES), "table"),
            Part("Rules of all operations", _RULES),
            *_families(),
            Part("Decisions where sources are silent or differ", _decisions()),
        ),
        ("vpto", "vmi", "vreg", "mask", "vecscope", "registers", "micro-operations"),
    )
