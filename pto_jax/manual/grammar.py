"""The page on the text language: programs, operations, control flow, attributes."""

from ..text.attributes import ENUMERATIONS
from ..text.control import CONTROL
from ..text.formats import format_names
from .topics import Part, Topic, program

_FRAGMENT = "%sum = tadd %a, %b : !pto.tile<f32, 16, 64>"


def _operations(prefix: str) -> str:
    return ", ".join(sorted(n for n in format_names() if n.startswith(prefix)))


def _attribute_words() -> list[str]:
    return [f"{e.text(next(iter(e.cls)))}: {', '.join(e.word(m) for m in e.cls)}" for e in ENUMERATIONS]


TOPIC = Topic(
    "grammar",
    "The text language: programs, operations, control flow, attributes.",
    (
        Part(
            "Programs",
            [
                'module [attributes {pto.target_arch = "a3"}] { functions }: a program. Without the module, '
                "functions alone.",
                "func.func [private] @name(%arg: type, ...) [-> type] [attributes {pto.entry}] { operations; "
                "return }. Execution starts at the function marked pto.entry, the only one, or --entry.",
                "Operations alone: a fragment. Its undefined values are its arguments, its last results are "
                "its results. Types may be left out; they come from the arguments.",
                "// to the end of the line is a comment. Every %name is defined once.",
                "!row = !pto.tile<f32, 1, 64> before the module or the operations names a type: %a : !row.",
            ],
        ),
        Part("A fragment", [_FRAGMENT], "program"),
        Part("A whole program: softmax of 13x37", [program("softmax_13x37")], "program"),
        Part(
            "Operations",
            [
                "Assembly: %dst = NAME %src, ... : type. One type stands for all tiles.",
                "SSA: %dst = pto.NAME %src, ... : (types) -> type.",
                "Destination-passing: pto.NAME ins(%src, ... : types) outs(%dst : type), as programs of the "
                "assembler are; writes into an allocated tile. `pto-jax fmt --form as|ssa|dps` converts.",
                "The order of the sources stands on the instruction's page. Types: `pto-jax isa tile` and "
                "`pto-jax isa types`.",
            ],
        ),
        Part("The three spellings", [program("spellings")], "program"),
        Part(
            "Scalars and control flow",
            [
                "%c = arith.constant 16 : index, 1.0 : f32, 0x7F800000 : f32 (the bits), true.",
                _operations("arith."),
                ", ".join(sorted(CONTROL)) + ", func.call",
            ],
        ),
        Part("Loops, branches, calls", [program("control_flow")], "program"),
        Part("Attributes", [program("attributes")], "program"),
        Part("Values of attributes", _attribute_words()),
    ),
    ("syntax", "language", "text", "module", "func", "scf", "arith", "attributes", "spellings", "fragment"),
)
