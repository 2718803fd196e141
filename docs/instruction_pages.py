"""The pages of instructions: one skeleton for all, filled from the declarations and executed examples."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain

from pto_jax import api, isa
from pto_jax.cli import examples
from pto_jax.examples import EXAMPLES
from pto_jax.ir import TILE_DTYPES, TileType
from pto_jax.isa.declare import Attribute, Constraint, Contradiction, Decision, Instruction
from pto_jax.isa.history import changes_of
from pto_jax.isa.reference import attribute_cells, other_names, sentences, status, types_text
from pto_jax.isa.rules.constraints import spelled
from pto_jax.manual import example as text_example
from pto_jax.pictures.cells import cells_of, draw
from pto_jax.pictures.svg import Canvas
from pto_jax.profiles import PROFILE_NAMES, ProfileName
from pto_jax.runtime import op_examples, op_functions
from pto_jax.text import print_program
from pto_jax.text.type_text import print_type

#: Classes of instructions as headings.
CLASSES = {
    "elementwise": "Elementwise",
    "tile_scalar": "A tile and a scalar",
    "reduce_expand": "Reductions and expansions",
    "matrix": "Matrix products",
    "layout": "Layouts and moves",
    "irregular": "Gather, scatter, sort and quantisation",
    "memory": "Loads and stores",
    "communication": "Communication between NPUs",
    "pipes": "Pipes between cores",
    "sync_config": "Handles, synchronisation and modes",
}
_FORMS = {"as": "assembly", "ssa": "SSA", "dps": "destination-passing"}
#: Columns of wrapped programs; rows of types that are listed one by one.
_COLUMNS, _COMBINATIONS = 84, 16
#: A blank between operands or types, outside of a type.
_BREAK = re.compile(r"(?<=[,:>)]) (?![^<]*>)")


def table(header: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    """A table of Markdown."""
    for row in (header, ["---"] * len(header), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def page(i: Instruction, picture: str = "") -> str:
    """The page of an instruction; ``picture`` is the name of the file with its picture."""
    declared = (part(i) for part in (_result, _types, _operands, _rules, _decisions, _sources))
    head = [f"# {i.name}", "", i.summary, "", _facts(i)]
    return "\n".join([*head, *_python(i, picture), *_text(i), *chain.from_iterable(declared), ""])


def _facts(i: Instruction) -> str:
    """Class, pipe, profiles and accuracy in one line."""
    names = other_names(i)
    facts = [CLASSES[i.cls], f"{{term}}`pipe` {i.pipe.name}", profiles(i), i.accuracy.text.partition(":")[0]]
    facts += [status(i)] if not i.executable else []
    facts += ["also written " + ", ".join(f"`{n}`" for n in names)] if names else []
    return " | ".join(facts) + "\n"


def profiles(i: Instruction) -> str:
    """The profiles that have an instruction."""
    having = [p for p in PROFILE_NAMES if types_text(i, p) != "-"]
    return ", ".join(having) or "on no profile"


# -- examples ------------------------------------------------------------------------------------------


def _python(i: Instruction, picture: str) -> Iterator[str]:
    session = examples.session(i)
    if session:
        yield from ("## Python", "", "```pycon", session, "```", "")
    if picture:
        yield from (f"![The operands and results of this call]({picture})", "")


def _text(i: Instruction) -> Iterator[str]:
    text = text_example(i)
    if text is None:
        return
    yield from ("## PTO text", "")
    if i.syntax != "tile":
        yield from ("```pto", _wrapped(text), "```", "")
        return
    program = api.parse(text)
    yield from ("::::{tab-set}", "")
    for form, title in _FORMS.items():
        printed = _short(print_program(program, form).rstrip("\n"), program)
        yield from (f":::{{tab-item}} {title}", "", "```pto", _wrapped(printed), "```", "", ":::", "")
    yield from ("::::", "")


def _short(text: str, program: object) -> str:
    """A program with its tile types in the short spelling."""
    for op in program.walk():  # type: ignore[attr-defined]
        for value in (*op.ins, *op.outs, *op.results):
            if isinstance(value.type, TileType) and value.type.conv is None:
                text = text.replace(print_type(value.type), spelled(value.type))
    return text


def _wrapped(program: str) -> str:
    """A program whose long lines are broken between operands and types."""
    lines = []
    for line in program.splitlines():
        current = ""
        for part in _BREAK.split(line):
            if current and len(current) + 1 + len(part) > _COLUMNS:
                lines.append(current)
                current = "   "
            current = f"{current} {part}" if current else part
        lines.append(current)
    return "\n".join(lines)


def picture(i: Instruction) -> str:
    """The sources and results of the example as coloured cells, "" where no lane moves."""
    call = op_examples.example(i) if op_functions.is_function(i) else None
    if call is None or (i.lanes == "same" and not i.converts) or not call.results:
        return ""
    lines = [f"{name} = {value}" for name, value in call.sources]
    names, _ = examples.executed((*lines, f"result = {call.expression}"))
    results = names["result"] if isinstance(names["result"], tuple) else (names["result"],)
    written = [o.name for o in i.destinations]
    shown = [(name, names[name]) for name, _ in call.sources]
    shown += [(name, tile) for name, tile in zip(written, results, strict=False) if hasattr(tile, "words")]
    canvas, top = Canvas(480, f"{i.name}: {', '.join(name for name, _ in shown)}"), 0.0
    for name, tile in shown:
        top = draw(canvas, cells_of(tile, name), top)
    return canvas.picture(top + 8).svg


# -- declaration ---------------------------------------------------------------------------------------


def _result(i: Instruction) -> Iterator[str]:
    yield from ("## Result", "", *(f"{s}\n" for s in sentences(i.semantics)))
    for formula in i.formulas:
        yield f"Formula: `{formula.text}`{'' if formula.complete else ', as described above'}.\n"
    if i.domain not in ("none", "custom"):
        yield f"The instruction iterates over the {{term}}`valid region` of {i.domain}.\n"


def _types(i: Instruction) -> Iterator[str]:
    if not i.type_vars or not any(i.types.values()):
        return
    yield from ("## Types", "")
    disputed = [d.question for d in i.decisions if isinstance(d, Contradiction)]
    yield from (f"(!) A public test suite disagrees: {question}\n" for question in disputed)
    rows = {p: [tuple(r) for r in i.types.get(p, ())] for p in PROFILE_NAMES}
    every = list(dict.fromkeys(r for p in PROFILE_NAMES for r in rows[p]))
    if len(i.type_vars) == 1:
        names = [d.name for d in TILE_DTYPES if (d.name,) in every]
        cells = [[p, *("x" if (n,) in rows[p] else "" for n in names)] for p in PROFILE_NAMES]
        yield from (*table(["", *names], cells), "")
    elif len(i.type_vars) == 2 and len(every) > _COMBINATIONS:
        yield from _matrices(i.type_vars, rows)
    else:
        cells = [[*r, *("x" if r in rows[p] else "" for p in PROFILE_NAMES)] for r in every]
        yield from (*table([*map(_variable, i.type_vars), *PROFILE_NAMES], cells), "")


def _variable(name: str) -> str:
    return f"*{name}*"


def _matrices(variables: tuple[str, ...], rows: dict[ProfileName, list[tuple[str, ...]]]) -> Iterator[str]:
    """A matrix of two type variables for each profile, in tabs."""
    yield from ("::::{tab-set}", "")
    for profile, pairs in rows.items():
        if not pairs:
            continue
        columns = [d.name for d in TILE_DTYPES if any(d.name == first for first, _ in pairs)]
        lines = [d.name for d in TILE_DTYPES if any(d.name == last for _, last in pairs)]
        cells = [[last, *("x" if (first, last) in pairs else "" for first in columns)] for last in lines]
        head = f"*{variables[1]}* \\ *{variables[0]}*"
        yield from (f":::{{tab-item}} {profile}", "", *table([head, *columns], cells), "", ":::", "")
    yield from ("::::", "")


def _operands(i: Instruction) -> Iterator[str]:
    if i.operands:
        rows = [
            [f"`{o.name}`", f"{o.role}, optional" if o.optional else o.role, o.kind, o.dtype or "any", o.note]
            for o in i.operands
        ]
        yield from ("## Operands", "", *table(["operand", "role", "kind", "type", ""], rows), "")
    if len(i.forms) > 1:
        listed = "; ".join("(" + ", ".join(f) + ")" for f in i.forms)
        yield f"Source operands in the text: {listed}.\n"
    if i.attributes:
        yield from (
            "## Attributes",
            "",
            *table(["attribute", "values", "default", ""], map(_attribute, i.attributes)),
            "",
        )


def _attribute(a: Attribute) -> list[str]:
    keys, values, default, meaning = attribute_cells(a)
    return [", ".join(f"`{k}`" for k in keys), values, default, meaning]


def _rules(i: Instruction) -> Iterator[str]:
    if not i.constraints:
        return
    yield from ("## Rules", "")
    rows = [[f"C{n}", f"`{c.rule}`", c.allowed, _stage(c), c.source] for n, c in enumerate(i.constraints, 1)]
    yield from (*table(["", "rule", "allowed", "checked", "source"], rows), "")
    yield from (f"Memory: {apart}.\n" for apart in i.apart)


def _stage(c: Constraint) -> str:
    where = "" if set(c.profiles) == set(PROFILE_NAMES) else f", {' '.join(c.profiles)}"
    return f"{c.severity}{', at run time' if c.stage == 'run-time' else ''}{where}"


def _decisions(i: Instruction) -> Iterator[str]:
    if i.decisions:
        yield from (f"## Decisions and sources ({len(i.decisions)})", "")
    for d in i.decisions:
        mark = "(!) " if isinstance(d, Contradiction) else ""
        yield from (f":::{{dropdown}} {mark}{d.question}", "", _decided(d), "", ":::", "")


def _decided(d: Decision) -> str:
    text = f"{d.choice}\n\nSource: {d.source}."
    if isinstance(d, Contradiction):
        text += f"\n\nExpected elsewhere ({', '.join(d.profiles)}): {d.other}. Source: {d.other_source}."
    return text


def _sources(i: Instruction) -> Iterator[str]:
    changed = [f"{c.language}: {c}" for c in changes_of(i)]
    if changed:
        yield from (f"Changes of the language: {'; '.join(changed)}.", "")
    yield from (f"Sources: {'; '.join(i.sources)}.", "")
    if shown := examples_with().get(i.name):
        links = ", ".join(f"[{name}](../../gallery/{name}.md)" for name in shown)
        yield from (f"Examples with this instruction: {links}.", "")


@cache
def examples_with() -> dict[str, list[str]]:
    """The shipped examples that have an instruction, by its name."""
    table: dict[str, list[str]] = defaultdict(list)
    for name, example in EXAMPLES.items():
        for instruction in {op.name for op in api.load(example.path).walk()}:
            table[instruction].append(name)
    return table


# -- index ---------------------------------------------------------------------------------------------


def index() -> str:
    """All instructions by class: name, one sentence, pipe and profiles."""
    by_class: dict[str, list[Instruction]] = defaultdict(list)
    for instruction in isa.instructions().values():
        by_class[instruction.cls].append(instruction)
    lines = ["# Instructions", "", "`pto-jax isa NAME` prints the same facts.", ""]
    for cls, title in CLASSES.items():
        rows = [
            [f"[{i.name}]({i.name}.md)", i.summary, i.pipe.name, *_ticks(i)] for i in by_class.get(cls, ())
        ]
        lines += [f"## {title}", "", *table(["instruction", "", "pipe", *PROFILE_NAMES], rows), ""]
    return "\n".join(lines)


def _ticks(i: Instruction) -> list[str]:
    if not i.executable:
        return ["verified"] * len(PROFILE_NAMES)
    return ["x" if types_text(i, p) != "-" else "" for p in PROFILE_NAMES]
