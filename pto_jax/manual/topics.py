"""Pages of the manual on topics: language, types, profiles, events, contradictions."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, get_args

from .. import isa
from ..ir import (
    CONV_RANKS,
    F16,
    F32,
    FRACTALS,
    I1,
    I8,
    INDEX,
    TILE_DTYPES,
    AddressSpace,
    BLayout,
    Compact,
    DType,
    GlobalLayout,
    Loc,
    Pad,
    Pipe,
    SLayout,
    TileType,
)
from ..isa.declare import Contradiction
from ..isa.effects import EVENT_PIPES
from ..isa.reference import Section, Style, rendered
from ..isa.rules.tile_legality import TYPE_RULES
from ..isa.traits import Through
from ..profiles import KIB, PROFILES, Profile
from ..text.attributes import BY_CLASS, ENUMERATIONS
from ..text.control import CONTROL
from ..text.formats import format_names
from ..text.type_text import print_dtype
from ..text.types import MAX_RANK, OPAQUE

Kind = Literal["list", "prose", "program", "table"]


@dataclass(frozen=True)
class Part:
    """A section; items of the kind "program" are sessions in Python and texts that verify on ``profile``."""

    heading: str
    items: Sequence[str]
    kind: Kind = "list"
    profile: str = "a2a3"


@dataclass(frozen=True)
class Topic:
    """A page about something that is no instruction; ``also`` are further names it is found by.

    ``title`` is the heading on the site, the name by default.
    """

    name: str
    summary: str
    parts: tuple[Part, ...]
    also: tuple[str, ...] = ()
    title: str = ""

    def programs(self) -> Iterator[tuple[str, str]]:
        """Every program of the page with its profile."""
        for part in self.parts:
            if part.kind == "program":
                yield from ((part.profile, text) for text in part.items if not text.startswith(">>>"))

    def page(self, style: Style = "text") -> str:
        """The page as text, markdown or JSON."""
        if style == "json":
            sections = [{"heading": p.heading, "kind": p.kind, "items": list(p.items)} for p in self.parts]
            return json.dumps({"name": self.name, "summary": self.summary, "sections": sections}, indent=1)
        parts: list[Section] = [(p.heading, p.items, p.kind) for p in self.parts]
        return "\n".join(rendered(f"{self.name}: {self.summary}", parts, style))


def program(name: str) -> str:
    """A program of the manual, kept beside it in a file."""
    return (files("pto_jax.manual") / f"{name}.pto").read_text(encoding="utf-8").rstrip("\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)
    ]


def contradictions() -> dict[Contradiction, tuple[str, ...]]:
    """Each contradiction with the instructions that it is about, in the order of the reference."""
    table: dict[Contradiction, tuple[str, ...]] = {}
    for instruction in isa.instructions().values():
        for decision in instruction.decisions:
            if isinstance(decision, Contradiction):
                table[decision] = (*table.get(decision, ()), instruction.name)
    return table


def _lines(c: Contradiction, names: Sequence[str]) -> Iterator[str]:
    yield f"instructions: {', '.join(names)}"
    yield f"profiles: {', '.join(c.profiles)}"
    yield f"here: {c.choice} Source: {c.source}."
    yield f"there: {c.other}. Source: {c.other_source}."


def contradictions_topic() -> Topic:
    """The page; instructions that were added count too."""
    parts = (Part(c.question, list(_lines(c, names))) for c, names in contradictions().items())
    summary = "Points on which public tests or specifications differ from the decision of this project."
    return Topic("contradictions", summary, tuple(parts), ("contradiction",))


def _kib(size: int) -> str:
    return f"{size // KIB} KiB" if size else "-"


def _capacities() -> list[str]:
    rows = [
        [loc.name.lower(), *(_kib(p.capacity[loc]) for p in PROFILES.values())]
        for loc in Loc
        if any(p.capacity[loc] for p in PROFILES.values())
    ]
    return table(["memory", *PROFILES], rows)


_FP8 = {"yes": "exist", "warn": "exist, with a warning", "no": "do not exist"}
_FRESH = {"zero": "zeros", "ones": "all-one bits"}
_READ = {"ones": "all-one bits (float NaN, integer -1)", "backing": "the stored bits"}


def _facts(p: Profile) -> str:
    scratch = (
        f"; instructions without tmp use the bytes {p.ub_scratch[0]} to {p.ub_scratch[1]} of vec"
        if p.ub_scratch
        else ""
    )
    return (
        f"{p.name}: {p.title} (pto.target_arch {', '.join(p.arch)}); lanes outside a source's valid region "
        f"read as {_READ[p.out_of_region]}; a fresh tile holds {_FRESH[p.fresh_tile]}; 8-bit floats "
        f"{_FP8[p.fp8]}; left tiles are {p.left_blayout.name.lower()}{scratch}"
    )


PROFILES_TOPIC = Topic(
    "profiles",
    "Hardware profiles: capacities, fills, what exists.",
    (
        Part(
            "Which profile",
            [
                "--profile or profile=, else the program's pto.target_arch (a3 and a2a3 are a2a3, a5 is a5), "
                "else a5 where the program has registers, and a2a3 otherwise.",
            ],
            "prose",
        ),
        Part("Capacities per core", _capacities(), "table"),
        Part("Differences", [_facts(p) for p in PROFILES.values()]),
        Part(
            "Portable programs",
            ["`pto-jax verify --portable FILE` accepts only what every profile guarantees."],
            "prose",
        ),
    ),
    ("profile", "capacity", "capacities", *PROFILES),
)


def _row(d: DType) -> list[str]:
    raw = d.bits == 4 or (d.numpy == d.word and not d.is_integer)
    exists = ["yes" if p.has_dtype(d) else "-" for p in PROFILES.values()]
    return [d.name, print_dtype(d), str(d.bits), f"{d.word} (raw bits)" if raw else str(d.numpy), *exists]


TYPES_TOPIC = Topic(
    "types",
    "Element types, pointers, views of global memory, scalars.",
    (
        Part(
            "Element types of tiles",
            table(["name", "printed as", "bits", "array type", *PROFILES], [_row(d) for d in TILE_DTYPES]),
            "table",
        ),
        Part(
            "Notes",
            [
                "Which types an instruction takes stands on its page, per profile.",
                "i32 of a scalar may stand for u32 beside a tile of u32; ui32 states which is meant.",
                "Types of 4 bits are two elements to a byte in global memory, the first in the low bits.",
            ],
        ),
        Part(
            "Types in programs",
            [
                "!pto.tile_buf<vec, 16x64xf32>: a tile (`pto-jax isa tile`)",
                "!pto.ptr<f32>: a pointer into global memory; !pto.ptr<f32, SPACE> with SPACE one of "
                + ", ".join(s.name.lower() for s in AddressSpace if s != AddressSpace.ZERO),
                "!pto.multi_tile_buf<vec, 16x64xf32, count=2>: tiles of one type, used in turn",
                "!pto.local_array<4x8xf32>, !pto.struct<f16, !pto.struct<i8>>: scalars that a core keeps",
                f"!pto.tensor_view<128x?xf32>: a tensor in global memory of rank 1 to {MAX_RANK}",
                "!pto.partition_tensor_view<16x64xf32>: a window of a tensor",
                f"{INDEX}: sizes, offsets and loop variables; {I1}: a truth value",
                "i8 to i64, ui8 to ui64, f16, bf16, f32: scalars",
                "memref<16x64xf32, #pto.address_space<vec>>: a buffer of older programs",
                "vector<4xi16>: what a few instructions return beside tiles",
                "without data: " + ", ".join(f"!pto.{name}" for name in OPAQUE),
            ],
        ),
        Part("Views", [program("views")], "program"),
        Part(
            "Layouts of views",
            ["{layout = #pto.layout<NAME>}, NAME one of: " + ", ".join(g.name.lower() for g in GlobalLayout)],
        ),
    ),
    ("type", "dtype", "dtypes", "ptr", "tensor_view", "partition_tensor_view", "view", "scalar", "index"),
)


_FRAGMENT = "%sum = tadd %a, %b : !pto.tile<f32, 16, 64>"


def _attribute_words() -> list[str]:
    return [f"{e.text(next(iter(e.cls)))}: {', '.join(e.word(m) for m in e.cls)}" for e in ENUMERATIONS]


GRAMMAR_TOPIC = Topic(
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
                ", ".join(sorted(n for n in format_names() if n.startswith("arith."))),
                ", ".join(sorted(CONTROL)) + ", func.call",
            ],
        ),
        Part("Loops, branches, calls", [program("control_flow")], "program"),
        Part("Attributes", [program("attributes")], "program"),
        Part("Values of attributes", _attribute_words()),
    ),
    ("syntax", "language", "text", "module", "func", "scf", "arith", "attributes", "spellings", "fragment"),
)


_LAYOUT_USE = {
    "ND": "rows one after the other; what vec instructions take",
    "DN": "columns one after the other; columns of numbers (16x1)",
    "NZ": "boxes down the columns, row_major inside; left (a5, cpu_sim), mat, acc",
    "ZN": "boxes along the rows, col_major inside; right",
    "ZZ": "boxes along the rows, row_major inside; left (a2a3), scaleleft",
    "NN": "boxes down the columns, col_major inside; scaleright",
}


def _words(cls: type) -> str:
    return ", ".join(m.name.lower() for m in cls)  # type: ignore[attr-defined]


def _layouts() -> list[str]:
    rows = []
    for blayout in BLayout:
        for slayout in SLayout:
            name = TileType(F32, 16, 64, blayout=blayout, slayout=slayout).layout
            rows.append([name, blayout.name.lower(), slayout.name.lower(), _LAYOUT_USE[name]])
    return table(["name", "blayout", "slayout", "order of the elements, and where it is used"], rows)


def _boxes() -> list[str]:
    rows = []
    for fractal in FRACTALS:
        for slayout in (SLayout.ROW_MAJOR, SLayout.COL_MAJOR):
            boxes = [
                "x".join(map(str, TileType(d, 1, 1, slayout=slayout, fractal=fractal).box))
                for d in (F32, F16, I8)
            ]
            rows.append([str(fractal), slayout.name.lower(), *boxes])
    return table(["fractal", "slayout", "f32", "f16", "i8"], rows)


TILE_TOPIC = Topic(
    "tile",
    "Tile types: spellings, parameters, layouts, valid regions.",
    (
        Part(
            "In short",
            [
                "A tile is rows x cols elements in an on-chip memory. Physical sizes are static; the valid "
                "region, its leading v_row x v_col part, may be given at run time.",
                "Four spellings of one type: all parameters by key, as programs print it; place and "
                "dimensions; the positional one of the documentation; dimensions alone.",
            ],
            "prose",
        ),
        Part("Spellings", [program("tile_spellings")], "program"),
        Part(
            "Parameters",
            [
                f"loc, or the first word: {_words(Loc)} (default vec; capacities: `pto-jax isa profiles`)",
                "dtype: an element type (`pto-jax isa types`)",
                "rows, cols: physical sizes, static and positive",
                "v_row, v_col, or valid=ROWSxCOLS: the valid region; ? where alloc_tile's valid_row and "
                "valid_col give it at run time (default: all rows and columns)",
                f"blayout: {_words(BLayout)} (default row_major): order of rows or of boxes",
                f"slayout: {_words(SLayout)} (default none_box): order inside boxes",
                f"fractal: {', '.join(map(str, FRACTALS))} (default 512): bytes of a box: matrix operands, "
                "accumulators, MX scales",
                f"pad: {_words(Pad)} or 0 to {max(Pad)} (default null): what loads put beside the data",
                f"compact: {_words(Compact)} (default null)",
                "Without a key, after the sizes: blayout, slayout, fractal, pad. Valid sizes have a key.",
            ],
        ),
        Part("Valid regions", [program("valid_regions")], "program"),
        Part("Layouts", _layouts(), "table"),
        Part("Rows x columns of a box", _boxes(), "table"),
        Part(
            "A number per row",
            [
                "Rows of a row_major tile are whole blocks of 32 bytes, so 16 numbers, one per row, are a "
                "col_major column. Reductions write such columns, trowexpand* read them. Lane-wise "
                "instructions of a2a3 and a5 take row_major tiles: treshape names the same bytes as a row.",
            ],
            "prose",
        ),
        Part("A column as a row", [program("column_as_row")], "program"),
        Part("Matrix operands", [program("matrix_operands")], "program"),
        Part("Rules", [f"{r.name}: {r.statement}" for r in TYPE_RULES]),
        Part(
            "Convolution tiles",
            [
                "!pto.conv_tile<mat, 1x2x8x8x16xf16, layout=nc1hwc0>: a flat tile with its layout: "
                + ", ".join(layout.name.lower() for layout in CONV_RANKS),
                "padding=LxRxTxB is left, right, top and bottom; filter, stride, dilation and fmap are "
                "height and width, as in filter=3x2.",
                "Its array is one row of all elements in the order of the dimensions, [1, 2048] here.",
            ],
        ),
    ),
    ("tile_buf", "tiles", "layout", "layouts", "blayout", "slayout", "fractal", "valid", "conv_tile"),
    "Tile types",
)


#: What stands on both sides of an order, by the means of it.
_ORDERS: dict[Through, str] = {
    "flag": "two pipes of a core, by a flag of hardware with a number",
    "event": "two classes of operations of a core, by an event with a number",
    "token": "the operations of a core that use one buffer, by a token with a number",
    "pipe": "a whole pipe, or all of them, and what follows",
    "operation": "one operation, by the event that it returns or the tile that it works on, and what follows",
    "core": "the cube core and the vector cores of a block",
    "cores": "all cores",
    "signal": "processors, by a number in global memory",
    "transfer": "asynchronous copies and those who wait for them",
}


def _pipes() -> list[str]:
    """The instructions of each pipe, by their classes."""
    classes: dict[Pipe, set[str]] = defaultdict(set)
    for i in isa.instructions().values():
        if i.syntax == "tile":
            classes[i.pipe].add(i.cls)
    words = BY_CLASS[Pipe]
    rows = [[words.word(p), ", ".join(sorted(classes[p])) or "none alone"] for p in Pipe]
    return table(["pipe", "classes of the tile instructions that it executes"], rows)


def _moving() -> list[str]:
    names = [i.name for i in isa.instructions().values() if i.pipe_rule is not None]
    return [f"By the places of its tiles another pipe may execute: {', '.join(names)}."]


def _event_classes() -> list[str]:
    word = BY_CLASS[Pipe].word
    return table(["class", "pipe"], [[e.name, word(p)] for e, p in EVENT_PIPES.items()])


def _means() -> list[str]:
    """The instructions of each means of order, by their roles."""
    roles: dict[Through, dict[str, list[str]]] = {t: defaultdict(list) for t in get_args(Through)}
    for i in isa.instructions().values():
        if i.traits.order is not None:
            roles[i.traits.order.through][i.traits.order.role].append(i.name)
    return [
        f"{through} ({_ORDERS[through]}): "
        + "; ".join(f"{role} {', '.join(names)}" for role, names in descriptions.items())
        for through, descriptions in roles.items()
        if descriptions
    ]


def events_topic() -> Topic:
    """The page; instructions that were added count too."""
    return Topic(
        "events",
        "Order: pipes, events, flags, barriers, cores.",
        (
            Part(
                "In short",
                [
                    "The pipes of a core run side by side; each executes its own operations in the order of "
                    "the program. Data that one pipe writes and another reads are ordered by an event, a "
                    "flag or a barrier. Programs that leave this to a tool (`pto-jax verify --auto-sync`, "
                    "levels 1 and 2) have none.",
                    "Results do not depend on them here: operations take effect in the order of the program. "
                    "`pto-jax verify` warns of uses of the same memory on two pipes that nothing orders, in "
                    "functions that hold a flag or an event (into others a tool inserts them), and "
                    "at level 3 without --auto-sync. A wait for a token that nothing sets is an error; "
                    "a token that is set twice or left over is a warning. With --strict warnings reject, "
                    "and on a2a3 dependent vector instructions need a barrier of PIPE_V.",
                ],
                "prose",
            ),
            Part("Events of operations", [program("events")], "program"),
            Part("Flags between pipes, events between classes", [program("flags")], "program"),
            Part("Pipes", _pipes(), "table"),
            Part("Pipes by place", _moving(), "prose"),
            Part("Classes of operations in events", _event_classes(), "table"),
            Part("Means, and the instructions that signal, wait, or hold back (barrier)", _means()),
        ),
        ("event", "flags", "flag", "pipe", "sync", "synchronisation", "synchronization", "hazard", "hazards"),
    )
