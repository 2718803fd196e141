"""The pages of instructions: one skeleton for all, filled from the declarations and executed examples."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain

import numpy as np

from pto_jax import api, isa, oracle
from pto_jax.cli import examples
from pto_jax.examples import EXAMPLES
from pto_jax.ir import F32, TILE_DTYPES, TileType
from pto_jax.isa.declare import Attribute, Constraint, Contradiction, Decision, Instruction
from pto_jax.isa.history import changes_of
from pto_jax.isa.reference import attribute_cells, other_names, sentences, status, types_text
from pto_jax.isa.rules.constraints import spelled
from pto_jax.manual import example as text_example, sessions
from pto_jax.pictures.cells import array_cells, cells_of, draw
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
#: Transfers that are drawn: a window of a view, with the constants in front.
_NUMBERS = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (1, 3, 4, 8))
_WINDOW = """\
%window = pto.partition_view %{0}, offsets = [%c1, %c4], sizes = [%c3, %c8]
    : !pto.tensor_view<5x16xf32> -> !pto.partition_tensor_view<3x8xf32>
"""
_MOVES = {
    "tload": _WINDOW.format("src") + "pto.tload ins(%window : !pto.partition_tensor_view<3x8xf32>) "
    "outs(%dst : !pto.tile_buf<vec, 4x8xf32, valid=3x8>)",
    "tstore": _WINDOW.format("dst") + "pto.tstore ins(%src : !pto.tile_buf<vec, 4x8xf32, valid=3x8>) "
    "outs(%window : !pto.partition_tensor_view<3x8xf32>)",
    "mgather": "pto.mgather ins(%src, %indexes : !pto.partition_tensor_view<5x8xf32>, "
    "!pto.tile_buf<vec, 1x8xi32, valid=1x4>) outs(%dst : !pto.tile_buf<vec, 4x8xf32>) "
    "{coalesce = #pto<coalesce row>}",
    "mscatter": "pto.mscatter ins(%src, %indexes : !pto.tile_buf<vec, 4x8xf32>, "
    "!pto.tile_buf<vec, 1x8xi32, valid=1x4>) outs(%dst : !pto.partition_tensor_view<5x8xf32>) "
    "{coalesce = #pto<coalesce row>}",
}
#: A blank between operands or types, outside of a type.
_BREAK = re.compile(r"(?<=[,:>)]) (?![^<]*>)")


#: Headers of columns that are aligned to the right.
_RIGHT = ("fast", "exact", "ratio")


def table(header: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    """A table of Markdown; columns of numbers are aligned to the right."""
    for row in (header, ["---:" if name in _RIGHT else "---" for name in header], *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _itemised(sentence: str) -> str:
    """A sentence that lists many cases behind a colon, as a list."""
    head, colon, rest = sentence.partition(": ")
    cases = rest.split("; ")
    if len(cases) < 4 or any(". " in case for case in cases):
        return sentence
    return "\n".join([f"{head}{colon}\n", *(f"- {case}" for case in cases)])


def plain(text: str) -> str:
    r"""A text of a declaration whose signs mean nothing in Markdown, outside of code.

    >>> plain("32*b*R, `a*b`, src <mode> k")
    '32\\*b\\*R, `a*b`, src \\<mode> k'
    """
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if i % 2 else re.sub(r"([*<])", r"\\\1", p) for i, p in enumerate(parts))


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
    # Stored sessions are compared with an execution by the tests of the command line.
    session = sessions().get(i.name) or examples.session(i)
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
        yield from ("```pto", wrapped(text), "```", "")
        return
    program = api.parse(text)
    yield from ("::::{tab-set}", "")
    for form, title in _FORMS.items():
        printed = _short(print_program(program, form).rstrip("\n"), program)
        yield from (f":::{{tab-item}} {title}", "", "```pto", wrapped(printed), "```", "", ":::", "")
    yield from ("::::", "")


def _short(text: str, program: object) -> str:
    """A program with its tile types in the short spelling."""
    for op in program.walk():  # type: ignore[attr-defined]
        for value in (*op.ins, *op.outs, *op.results):
            if isinstance(value.type, TileType) and value.type.conv is None:
                text = text.replace(print_type(value.type), spelled(value.type))
    return text


def wrapped(program: str) -> str:
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
    if i.name in _MOVES:
        return _moved(i.name)
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


def _moved(name: str) -> str:
    """A transfer between global memory and a tile: what it reads, and what it has written."""
    program = api.parse(_NUMBERS + _MOVES[name])
    given: dict[str, object] = {}
    for value in program.functions[0].args:
        t = value.type
        shape = t.shape if isinstance(t, TileType) else t.dims  # type: ignore[union-attr]
        numbers = np.arange(np.prod(shape)).reshape(shape)
        numbers = {"dst": np.full(shape, -1), "indexes": numbers * 3 % 5}.get(value.name, numbers)
        array = numbers.astype(t.dtype.numpy)  # type: ignore[union-attr]
        given[value.name] = oracle.OracleTile(t, array) if isinstance(t, TileType) else array
    written = oracle.run(program, given)
    canvas, top = Canvas(480, f"{name}: {', '.join(given)}"), 0.0
    shown = {**given, **written}
    for argument in sorted(shown, key=["src", "indexes", "dst"].index):
        value = shown[argument]
        array = isinstance(value, np.ndarray)
        top = draw(canvas, array_cells(argument, value, F32) if array else cells_of(value, argument), top)
    return canvas.picture(top + 8).svg


# -- declaration ---------------------------------------------------------------------------------------


def _result(i: Instruction) -> Iterator[str]:
    yield from ("## Result", "", *(f"{_itemised(plain(s))}\n" for s in sentences(i.semantics)))
    for formula in i.formulas:
        yield f"Formula: `{formula.text}`{'' if formula.complete else ', as described above'}.\n"
    if i.domain not in ("none", "custom"):
        yield f"The instruction iterates over the {{term}}`valid region` of {i.domain}.\n"


def _types(i: Instruction) -> Iterator[str]:
    if not i.type_vars or not any(i.types.values()):
        having = ["any" if types_text(i, p) != "-" else "" for p in PROFILE_NAMES]
        yield from ("## Types", "", *table(["", *PROFILE_NAMES], [["element types", *having]]), "")
        return
    yield from ("## Types", "")
    disputed = [d.question for d in i.decisions if isinstance(d, Contradiction)]
    yield from (f"(!) A public test suite disagrees: {plain(question)}\n" for question in disputed)
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
            [
                f"`{o.name}`",
                f"{o.role}, optional" if o.optional else o.role,
                o.kind,
                o.dtype or "any",
                plain(o.note),
            ]
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
    return [", ".join(f"`{k}`" for k in keys), values, default, plain(meaning)]


def _rules(i: Instruction) -> Iterator[str]:
    if not i.constraints:
        return
    yield from ("## Rules", "")
    rows = [
        [f"C{n}", f"`{c.rule}`", plain(c.allowed), _stage(c), plain(c.source)]
        for n, c in enumerate(i.constraints, 1)
    ]
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
        yield from (f":::{{dropdown}} {mark}{plain(d.question)}", "", _decided(d), "", ":::", "")


def _decided(d: Decision) -> str:
    text = f"{plain(d.choice)}\n\nSource: {plain(d.source)}."
    if isinstance(d, Contradiction):
        elsewhere = f"Expected elsewhere ({', '.join(d.profiles)}): {plain(d.other)}."
        text += f"\n\n{elsewhere} Source: {plain(d.other_source)}."
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
