"""A page of the manual: sections of sentences, tables and programs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from ..isa.reference import Section, Style, rendered

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
