"""The instruction reference: support matrix and instruction pages, derived from the declarations."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from enum import IntEnum
from textwrap import fill, indent
from typing import Any, Literal

from ..profiles import PROFILE_NAMES, ProfileName
from . import ALIASES
from .declare import Attribute, Constraint, Contradiction, Decision, Instruction, Operand
from .history import changes_of

Style = Literal["text", "markdown", "json"]
#: Heading, items and how these are set.
Section = tuple[str, Sequence[str], Literal["list", "prose", "program", "table"]]
#: Columns of text pages.
WIDTH = 110
_WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
#: More pairs of element types than so many are shown by what they have in common.
_PAIRS = 12
#: Anything JSON can say.
Json = dict[str, object]


def matrix(instructions: Iterable[Instruction], style: Style = "text") -> str:
    """Class, status, operands and element types per profile of every instruction.

    The element types of several type variables are joined with ``<-``.
    """
    entries = list(instructions)
    if style == "json":
        return json.dumps({i.name: _summary(i) for i in entries}, indent=1)
    if style == "markdown":
        header = ["instruction", "class", "status", "operands", *PROFILE_NAMES]
        cells = [
            [i.name, i.cls, status(i), operands_text(i), *(types_text(i, p) for p in PROFILE_NAMES)]
            for i in entries
        ]
        return "\n".join(_markdown_table(header, cells))
    return "\n".join(line for i in entries for line in _text_rows(i))


def _summary(i: Instruction) -> Json:
    return {
        "class": i.cls,
        "status": status(i),
        "operands": [_operand_record(o) for o in i.operands],
        "types": _types_record(i),
        "profiles": [p for p in PROFILE_NAMES if types_text(i, p) != "-"],
    }


def status(instruction: Instruction) -> str:
    """Whether an instruction is executed, or read and verified only.

    >>> from pto_jax.isa import instructions
    >>> status(instructions()["tadd"]), status(instructions()["grid_tpush"])
    ('executed', 'verified only')
    """
    return "executed" if instruction.executable else "verified only"


def _text_rows(i: Instruction) -> Iterator[str]:
    """The operands, and a line per profile, one line where profiles agree."""
    by_types: dict[str, list[str]] = {}
    for profile in PROFILE_NAMES:
        by_types.setdefault(types_text(i, profile), []).append(profile)
    yield f"{i.name:<24}{i.cls}, {status(i)}"
    yield f"  {'operands':<16}{operands_text(i)}"
    for types, profiles in by_types.items():
        yield f"  {' '.join(profiles):<16}{types}"


def operands_text(instruction: Instruction) -> str:
    """Operands in the order of the intrinsic with their element types, optional ones marked.

    >>> from pto_jax.isa import instructions
    >>> operands_text(instructions()["trowexpandadd"])
    'dst: T, src0: T, src1: T, tmp?'
    """

    def one(o: Operand) -> str:
        kind = [] if o.kind == "tile" else [o.kind]
        described = " ".join([*kind, *([o.dtype] if o.dtype else [])])
        return o.name + ("?" if o.optional else "") + (f": {described}" if described else "")

    return ", ".join(one(o) for o in instruction.operands) or "none"


def types_text(instruction: Instruction, profile: ProfileName, limit: int = 20) -> str:
    """The legal element types on a profile in words.

    >>> from pto_jax.isa import instructions
    >>> types_text(instructions()["taddreluconv"], "a5")
    'f16<-f32 i8<-f16 i8<-i16'
    """
    if not instruction.type_vars:
        absent = any(c.rule == "types" and profile in c.profiles for c in instruction.constraints)
        return "-" if absent else "any"
    rows = instruction.types.get(profile, ())
    text = " ".join("<-".join(r) for r in rows[:limit])
    more = f" ... ({len(rows)} combinations)" if len(rows) > limit else ""
    return text + more if rows else "-"


def every_type(instruction: Instruction, profile: ProfileName) -> list[str]:
    """All legal element types on a profile; many pairs by what they have in common.

    >>> from pto_jax.isa import instructions
    >>> every_type(instructions()["tcvt"], "a2a3")[0]
    'f16 bf16 f32 i16 i32 i64 <- f32'
    """
    rows = instruction.types.get(profile, ())
    if len(instruction.type_vars) != 2 or len(rows) <= _PAIRS:
        return [types_text(instruction, profile, limit=len(rows))]
    by_last: dict[str, list[str]] = {}
    for first, last in rows:
        by_last.setdefault(last, []).append(first)
    by_first: dict[tuple[str, ...], list[str]] = {}
    for last, firsts in by_last.items():
        by_first.setdefault(tuple(firsts), []).append(last)
    return [f"{' '.join(firsts)} <- {' '.join(lasts)}" for firsts, lasts in by_first.items()]


def _types_record(instruction: Instruction) -> Json:
    return {p: [list(r) for r in instruction.types.get(p, ())] for p in PROFILE_NAMES}


def _markdown_table(header: list[str], cells: list[list[str]]) -> Iterator[str]:
    for row in (header, ["---"] * len(header), *cells):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def page(
    instruction: Instruction, style: Style = "text", example: str | None = None, python: str = ""
) -> str:
    """Everything a declaration says about one instruction, what a program needs first.

    ``example`` is an operation in the text, ``python`` a session that calls the instruction.

    >>> from pto_jax.isa import instructions
    >>> print(page(instructions()["taddsc"]).splitlines()[0])
    taddsc: Tile plus scalar plus tile.
    """
    if style == "json":
        shown: Json = {k: v for k, v in (("example", example), ("python", python)) if v}
        return json.dumps(record(instruction) | shown, indent=1)
    title = f"{instruction.name}: {instruction.summary}"
    return "\n".join(rendered(title, _sections(instruction, example, python), style))


def rendered(title: str, sections: Iterable[Section], style: Style) -> Iterator[str]:
    """A page as text of at most :data:`WIDTH` columns, or as markdown. Programs are never wrapped."""
    yield f"# {title}" if style == "markdown" else title
    for heading, items, kind in sections:
        yield ""
        yield f"## {heading}" if style == "markdown" else heading
        if style == "markdown":
            yield ""
        if style == "markdown" and kind == "table":
            yield from _columns(items)
            continue
        for item in items:
            if kind == "program":
                language = "pycon" if item.startswith(">>>") else "mlir"
                yield from (f"```{language}", item, "```") if style == "markdown" else [indent(item, "  ")]
            elif kind == "table":
                yield f"  {item}"
            elif style == "markdown":
                yield item if kind == "prose" else f"- {item}"
            else:
                hanging = "  " if kind == "prose" else "    "
                yield fill(item, WIDTH, initial_indent="  ", subsequent_indent=hanging, **_WHOLE_WORDS)


def _columns(lines: Sequence[str]) -> Iterator[str]:
    r"""Lines of aligned columns as a table of Markdown, or as they are where a cell is empty.

    >>> print(*_columns(["name  meaning", "p*    a pointer"]), sep="\n")
    | name | meaning |
    | --- | --- |
    | p\* | a pointer |
    """
    rows = [re.split(r" {2,}", line) for line in lines]
    if len({len(row) for row in rows}) > 1:
        yield from (f"    {line}" for line in lines)
        return
    for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]):
        cells = (re.sub(r"([*<|_])", r"\\\1", cell) for cell in row)
        yield f"| {' | '.join(cells)} |"


def _sections(i: Instruction, example: str | None, python: str) -> Iterator[Section]:
    yield "Class, pipe and status", [f"{i.cls}, pipe {i.pipe.name}, {status(i)}"], "list"
    names = other_names(i)
    if names:
        yield "Also written", [", ".join(names)], "list"
    if i.operands:
        yield "Operands", [_operand_text(o) for o in i.operands], "list"
    if any(i.forms):
        yield "Source operands in the text", ["(" + ", ".join(f) + ")" for f in i.forms], "list"
    if python:
        yield "Python", [python], "program"
    if example:
        yield "Example", [example], "program"
    if i.type_vars:
        heading = f"Element types ({', '.join(i.type_vars)})"
        yield heading, [f"{p}: {types}" for p in PROFILE_NAMES for types in every_type(i, p)], "list"
    yield "Result", [*sentences(i.semantics), f"Valid region: {_domain_text(i)}."], "prose"
    if i.attributes:
        yield "Attributes", [_attribute_text(a) for a in i.attributes], "list"
    if i.constraints:
        yield "Constraints", [_constraint_text(c) for c in i.constraints], "list"
    if i.apart:
        yield "Tiles that share no bytes", [str(a) for a in i.apart], "list"
    yield "Accuracy", [i.accuracy.text], "list"
    changed = [f"{c.language} {c}" for c in changes_of(i)]
    if changed:
        yield "Changes of the language", changed, "list"
    yield "Sources", list(i.sources), "list"
    if i.decisions:
        yield "Decisions", [_decision_text(d) for d in i.decisions], "list"


def other_names(instruction: Instruction) -> list[str]:
    """Further names that texts may have for an instruction, and the one of Python where it is another.

    >>> from pto_jax.isa import instructions
    >>> other_names(instructions()["tmatmul.acc"]), other_names(instructions()["tadd"])
    (['tmatmul_acc'], [])
    """
    names = [alias for alias, name in ALIASES.items() if name == instruction.name]
    python = instruction.name.replace(".", "_")
    return names if python in (instruction.name, *names) else [*names, f"{python} (in Python)"]


def _decision_text(d: Decision) -> str:
    text = f"{d.question} {d.choice} Source: {d.source}."
    if isinstance(d, Contradiction):
        text += f" Expected elsewhere ({', '.join(d.profiles)}): {d.other}. Source: {d.other_source}."
    return text


def sentences(text: str) -> list[str]:
    """A long text, a line per sentence."""
    return re.split(r"(?<=[.:]) (?=[A-Z])", text)


def _operand_text(o: Operand) -> str:
    parts = [o.role, o.kind, *([o.dtype] if o.dtype else []), *(["optional"] if o.optional else [])]
    return f"{o.name}: {', '.join(parts)}" + (f" ({o.note})" if o.note else "")


def attribute_cells(a: Attribute) -> tuple[tuple[str, ...], str, str, str]:
    """The keys of an attribute, its values, its default and its meaning.

    >>> from pto_jax.isa import instructions
    >>> attribute_cells(instructions()["tcmp"].attributes[0])
    (('cmpMode', 'cmp', 'cmp_mode'), 'EQ, NE, LT, LE, GT, GE', 'EQ', 'relation')
    """
    keys = tuple(dict.fromkeys((a.name, *a.keys)))
    return keys, ", ".join(_values(a)), "none" if a.default is None else _member(a.default), a.meaning


def _attribute_text(a: Attribute) -> str:
    (name, *others), values, default, meaning = attribute_cells(a)
    spelled = f"; also {', '.join(others)}" if others else ""
    return f"{name}: {values}; default {default}; {meaning}{spelled}"


def _values(a: Attribute) -> list[str]:
    return [m.name for m in a.type] if issubclass(a.type, IntEnum) else [a.type.__name__]


def _member(value: object) -> str:
    return value.name if isinstance(value, IntEnum) else str(value)


def _constraint_text(c: Constraint) -> str:
    where = "all profiles" if set(c.profiles) == set(PROFILE_NAMES) else ", ".join(c.profiles)
    return f"{c.rule} ({c.severity}, {c.stage}, {where}): {c.allowed}. Source: {c.source}."


def _domain_text(i: Instruction) -> str:
    return {
        "none": "not applicable",
        "custom": "see the decisions",
    }.get(i.domain, f"iterates over the valid region of {i.domain}")


def _operand_record(o: Operand) -> Json:
    return {
        "name": o.name,
        "role": o.role,
        "kind": o.kind,
        "dtype": o.dtype,
        "optional": o.optional,
        "note": o.note,
    }


def _decision_record(d: Decision) -> Json:
    said: Json = {"question": d.question, "choice": d.choice, "source": d.source}
    if isinstance(d, Contradiction):
        said |= {"other": d.other, "other_source": d.other_source, "profiles": list(d.profiles)}
    return said


def record(i: Instruction) -> Json:
    """The declaration as JSON-ready data."""
    return {
        "name": i.name,
        "class": i.cls,
        "summary": i.summary,
        "semantics": i.semantics,
        "pipe": i.pipe.name,
        "domain": i.domain,
        "status": status(i),
        "operands": [_operand_record(o) for o in i.operands],
        "forms": [list(f) for f in i.forms],
        "attributes": [
            {
                "name": a.name,
                "values": _values(a),
                "default": None if a.default is None else _member(a.default),
                "spellings": list(a.keys),
                "meaning": a.meaning,
            }
            for a in i.attributes
        ],
        "type_vars": list(i.type_vars),
        "types": _types_record(i),
        "constraints": [
            {
                "rule": c.rule,
                "allowed": c.allowed,
                "profiles": list(c.profiles),
                "stage": c.stage,
                "severity": c.severity,
                "source": c.source,
            }
            for c in i.constraints
        ],
        "apart": [asdict(a) for a in i.apart],
        "ulp": dict(i.ulp),
        "also": other_names(i),
        "changes": [asdict(c) for c in changes_of(i)],
        "decisions": [_decision_record(d) for d in i.decisions],
        "sources": list(i.sources),
        "executable": i.executable,
    }
