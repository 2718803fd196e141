"""Pages of the manual on micro-operations: all of them by their purpose, and one for each."""

from .. import isa
from ..isa.micro import MicroOperation
from .micro_kernels import examples, kernel_of, micro_sessions
from .topics import Part, Topic, program, table

#: Where the operations of each module of declarations stand on the page.
FAMILIES = {
    "predicates": "Masks of a pattern or a count",
    "registers": "Arithmetic, logic, comparison, selection",
    "registers_moves": "Moves of lanes and of bits of masks",
    "registers_reduce": "Reductions and histograms",
    "registers_convert": "Conversions",
    "ub_memory": "Loads and stores of registers and masks",
    "ub_transfers": "Transfers of the unified buffer, sorting, settings",
    "cube": "Cube unit: staging, factors, products",
    "cube_stores": "Cube unit: stores of accumulators",
    "vmi": "Logical registers",
}
_SHORT = [
    "Micro-operations are the level of the A5 vector core below tile instructions. Values are registers of "
    "256 bytes, predicates of 256 bits and addresses of the unified buffer, which tiles share with them by "
    "bytes. A program may hold both. Everything that makes or takes a register stands in one pto.vecscope; "
    "where a text has none, operations in a row share one, as the assembler makes it.",
    "The same operations with the prefix vmi. work on any number of logical lanes.",
    "Operations of the cube unit stage matrices in L1, load fractals of both factors, multiply and store "
    "accumulators. They stand outside of vector scopes.",
    "Compilers write such programs, and `pto.parse` reads them. SIMT code, raw forms of cube code and the A3 "
    "form (pto.ub) are rejected.",
]
_TYPES = [
    ["!pto.vreg<64xf32>", "256 bytes as lanes of an element type; i16 has no sign, si16 and ui16 have one"],
    ["!pto.mask<b32>", "a bit per byte of a register; lane i of a b32 mask is bit 4 i"],
    ["!pto.align", "what an unaligned stream keeps between its operations"],
    ["!pto.ptr<f32, ub>", "a byte address in the unified buffer; addptr counts elements"],
    ["!pto.vmi.vreg<512xf32>", "logical lanes; !pto.vmi.mask<512xpred> has a bit for each"],
]
_LETTERS = [
    ["T, U, D", "a register; the operation's page has its element types"],
    ["M, MD", "a mask for the lanes of T, of D"],
    ["m, m16", "a mask of any width, of one bit per 16 bits"],
    ["sT", "a scalar of the element type of T"],
    ["p*, pT", "a pointer into the unified buffer; g*, gT into global memory, @l1 into that memory"],
    ["al, as", "the state of a stream of unaligned loads, of stores"],
    ["x, n, i32", "an index, any integer, that scalar"],
    ["-", "anything, also words in quotes"],
    ["?", "behind a name: it may be absent"],
]
_RULES = [
    "Inactive lanes of a result are zero; bytes of inactive lanes are not stored.",
    "Floats round to nearest even once per operation and keep subnormals; integers wrap.",
    "The post-update form returns a second pointer: it accesses the given one and returns it moved.",
    "Contents of the unified buffer before the first write are undefined; `--sanitize` reports their use.",
]


def _families() -> list[Part]:
    heads = ["operation", "meaning", "operands", "types"]
    return [
        Part(
            FAMILIES[family],
            table(heads, [[o.name, o.summary, o.text or "-", o.types or "-"] for o in operations]),
            "table",
        )
        for family, operations in sorted(isa.micro_families().items(), key=lambda f: [*FAMILIES].index(f[0]))
    ]


def _decisions() -> list[str]:
    decisions = {d: None for o in isa.micro_operations().values() for d in o.decisions}
    return [f"{d.question} {d.choice} ({d.source})" for d in decisions]


def operation_page(operation: MicroOperation) -> Topic:
    """The page of one micro-operation.

    >>> print(operation_page(isa.micro_operations()["vadd"]).page().splitlines()[0])
    vadd: Sum of lanes.
    """
    shown = [examples()[operation.name]] if operation.name in examples() else []
    kernel = kernel_of(operation)
    session = micro_sessions().get(operation.name)
    words = [[name, " ".join(types)] for name, types in operation.choices.items()]
    parts = (
        Part("Meaning", [operation.semantics] if operation.semantics else []),
        Part("Operands and their types", [operation.text, operation.types]),
        Part("Example", shown, "program", "a5"),
        Part("Kernel", [kernel.text().rstrip()] if kernel is not None and session else [], "program", "a5"),
        Part("Python", [session] if session else [], "program"),
        Part("Element types", type_matrix(operation), "table"),
        Part("Attributes and strings", table(["name", "values"], words) if words else [], "table"),
        Part("Not executed", [f"{word}: no source states its result" for word in operation.refused]),
        Part("Accuracy", [f"within {operation.ulp} ULP"] if operation.ulp else []),
        Part("Decisions", [f"{d.question} {d.choice} ({d.source})" for d in operation.decisions]),
        Part("Source", [operation.source] if operation.source else []),
        Part("See also", ["`pto-jax isa micro`: types, rules of all operations, a kernel"]),
    )
    return Topic(operation.name, operation.summary, tuple(p for p in parts if p.items))


def type_matrix(operation: MicroOperation) -> list[str]:
    """A row for each letter of the types of an operation, a column for each element type."""
    types = list(dict.fromkeys(t for listed in operation.elements.values() for t in listed))
    rows = [
        [letter, *("x" if t in listed else "-" for t in types)]
        for letter, listed in operation.elements.items()
    ]
    return table(["letter", *types], rows) if rows else []


def micro_topic() -> Topic:
    """The page."""
    return Topic(
        "micro",
        "Operations of A5 below tiles: vector registers, masks, addresses, the cube unit.",
        (
            Part("In short", _SHORT, "prose"),
            Part("A kernel", [program("micro")], "program", "a5"),
            Part("Types", table(["type", "meaning"], _TYPES), "table"),
            Part("Letters of the lists below", table(["letter", "meaning"], _LETTERS), "table"),
            Part("Rules of all operations", _RULES),
            *_families(),
            Part("Decisions where sources are silent or differ", _decisions()),
        ),
        ("vpto", "vmi", "vreg", "mask", "vecscope", "registers", "micro-operations", "cube"),
        "Micro-operations",
    )
