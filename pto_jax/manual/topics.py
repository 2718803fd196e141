"""Pages of the manual on topics beside instructions: profiles, types, contradictions of public sources."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from .. import isa
from ..ir import I1, INDEX, TILE_DTYPES, AddressSpace, DType, GlobalLayout, Loc
from ..isa.declare import Contradiction
from ..isa.reference import Section, Style, rendered
from ..profiles import KIB, PROFILES, Profile
from ..text.type_text import print_dtype
from ..text.types import MAX_RANK, OPAQUE

Kind = Literal["list", "prose", "program", "table"]


@dataclass(frozen=True)
class Part:
    """A section; items of the kind "program" are texts that parse and verify on ``profile``."""

    heading: str
    items: Sequence[str]
    kind: Kind = "list"
    profile: str = "a2a3"


@dataclass(frozen=True)
class Topic:
    """A page about something that is no instruction; ``also`` are further names it is found by."""

    name: str
    summary: str
    parts: tuple[Part, ...]
    also: tuple[str, ...] = ()

    def programs(self) -> Iterator[tuple[str, str]]:
        """Every program of the page with its profile."""
        for part in self.parts:
            if part.kind == "program":
                yield from ((part.profile, text) for text in part.items)

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


def _lines(c: Contradiction) -> Iterator[str]:
    yield f"profiles: {', '.join(c.profiles)}"
    yield f"here: {c.choice} Source: {c.source}."
    yield f"there: {c.other}. Source: {c.other_source}."


def contradictions_topic() -> Topic:
    """The page; instructions that were added count too."""
    parts = (
        Part(f"{', '.join(names)}: {c.question}", list(_lines(c))) for c, names in contradictions().items()
    )
    summary = "Public tests and specifications that say something else than is decided, with both sources."
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
                "else a2a3.",
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
                "i32 of a scalar may stand for u32 where it meets a tile of u32; ui32 says which is meant.",
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
