"""Versions of the text language, and the table of the changes between them.

The table has changes that concern no single instruction, and names that later versions do not read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from functools import cache
from typing import NamedTuple, TypeAlias

from ..errors import objection
from ..ir import LANGUAGES, PRESENT, AttrValue, Language, Op, Program, attrs
from ..profiles import Profile
from . import instructions
from .changes import Change, new, removed
from .declare import Instruction
from .effects import operands_of

#: Constructs by what programs call them.
CONSTRUCTS: tuple[tuple[str, Change], ...] = (
    ("memref", removed("tile, view and pointer types; arguments of memref type are still read")),
    ("materialize_tile", removed("alloc_tile, or the tile itself")),
    ("slot_marker", removed("nothing: the assembler placed it")),
    ("declare_tile_memref", removed("a declared tile")),
    (
        "!pto.f4E2M1x2, !pto.f4E1M2x2",
        new("bytes of two numbers in vec and global memory; f4e2m1x2 and f4e1m2x2 are one number each"),
    ),
)


def gone(name: str) -> Change | None:
    """What became of a name that is read in no version any more, None for other names.

    >>> gone("slot_marker").kind
    'removed'
    """
    return next((change for construct, change in CONSTRUCTS if construct == name), None)


#: What texts leave out and say all the same: attributes by the name of the instruction, each with its value
#: and the attributes beside which it is not said.
Unwritten: TypeAlias = "Mapping[str, tuple[tuple[str, AttrValue, tuple[str, ...]], ...]]"


def since(instruction: Instruction) -> Language:
    """The first version that has an instruction."""
    return next((c.language for c in instruction.changes if c.kind == "new"), LANGUAGES[0])


@cache
def unwritten(language: Language) -> Unwritten:
    """What texts of a version say without writing it, by instruction.

    >>> unwritten("2026-04"), [(a, v.name) for a, v, _ in unwritten("2026-08")["tcvt"]]
    ({}, [('sat_mode', 'OFF')])
    """
    defaults = {}
    for name, instruction in instructions().items():
        values = tuple(
            (attribute.name, last.value, last.unless)
            for attribute in instruction.attributes
            for last in [d for d in attribute.unwritten if d.language <= language][-1:]
        )
        if values:
            defaults[name] = values
    return defaults


def said(name: str, attributes: Mapping[str, AttrValue], language: Unwritten) -> dict[str, AttrValue]:
    """What an operation with some attributes says besides, in a version."""
    return {
        key: value
        for key, value, unless in language.get(name, ())
        if key not in attributes and not any(other in attributes for other in unless)
    }


def _changed(program: Program, change: Callable[[Op], Op]) -> Program:
    """A program with other operations, those of regions before those that hold them."""

    def changed(op: Op) -> Op:
        return change(replace(op, regions=tuple(replace(r, ops=ops(r.ops)) for r in op.regions)))

    def ops(old: tuple[Op, ...]) -> tuple[Op, ...]:
        return tuple(map(changed, old))

    bodies = (replace(f.body, ops=ops(f.body.ops)) for f in program.functions)
    functions = (replace(f, body=body) for f, body in zip(program.functions, bodies, strict=True))
    return replace(program, functions=tuple(functions))


def written_out(program: Program) -> Program:
    """A program whose operations say what those of a present text do, implied where it does not write it."""

    def written(op: Op) -> Op:
        more = said(op.name, op.attrs, unwritten(PRESENT))
        attributes = tuple(sorted({**more, **op.attrs}.items())) if more else op.attributes
        return replace(op, attributes=attributes, implied=(*op.implied, *more))

    return _changed(program, written)


def as_written(program: Program) -> Program:
    """A program without the attributes that its text leaves out, where the present version means the same."""

    def bare(op: Op) -> Op:
        own = {k: v for k, v in op.attrs.items() if k not in op.implied}
        meant = said(op.name, own, unwritten(PRESENT))
        more = {k: op.attrs[k] for k in op.implied if k in op.attrs and op.attrs[k] != meant.get(k)}
        return replace(op, attributes=attrs({**own, **more}))

    return _changed(program, bare)


def spelled_out(program: Program, profile: Profile) -> Program:
    """A program of which a text of the present version says the same, with attributes for what that takes."""
    changed = unwritten(PRESENT)
    if not any(op.name in changed for op in program.walk()):
        return program

    def spelled(op: Op) -> Op:
        missing = said(op.name, op.attrs, changed) if op.name in changed else {}
        return replace(op, attributes=attrs({**op.attrs, **_meant(op, missing, profile)})) if missing else op

    return _changed(program, spelled)


def _meant(op: Op, missing: Iterable[str], profile: Profile) -> dict[str, AttrValue]:
    """The values that missing attributes of an operation have, where its types say them."""
    types = {name: value.type for name, value in operands_of(op).items()}
    declared = {a.name: a.unwritten for a in instructions()[op.name].attributes}
    values = {name: declared[name][-1].meant(types, op.attrs, profile) for name in missing}
    return {name: value for name, value in values.items() if value is not None}


class LeftOut(NamedTuple):
    """An attribute that an operation leaves out: its value here, and what it is elsewhere."""

    op: Op
    attribute: str
    value: AttrValue
    elsewhere: str

    def __str__(self) -> str:
        here = f"{self.op.name}: {self.attribute} is left out, which means {_shown(self.value)}"
        return objection(f"{here} here and {self.elsewhere}", fix=f"{self.attribute} = {_shown(self.value)}")


def left_out(program: Program, profile: Profile) -> Iterator[LeftOut]:
    """The attributes that mean something else in another version of the language, and act otherwise.

    >>> import pto_jax as pto
    >>> text = "%z = tcvt %x : !pto.tile<f32, 1, 16> -> !pto.tile<f16, 1, 16>"
    >>> print(next(left_out(pto.parse(text), pto.PROFILES["a5"])))
    tcvt: sat_mode is left out, which means OFF here and ON in 2026-04 and in Python; try: sat_mode = OFF
    """
    for op in program.walk():
        for attribute in instructions()[op.name].attributes if op.name in unwritten(PRESENT) else ():
            implied = attribute.name in op.implied
            missing = said(op.name, op.attrs, unwritten(PRESENT))
            if not attribute.unwritten or not (implied or attribute.name in missing):
                continue
            last, types = attribute.unwritten[-1], {n: v.type for n, v in operands_of(op).items()}
            others = {n: v for n, v in op.attrs.items() if n != attribute.name}
            meant = last.meant(types, others, profile)
            here, there = (last.value, meant) if implied else (meant, last.value)
            if meant is None or last.acts(types, here, profile) == last.acts(types, there, profile):
                continue
            where = "2026-04 and in Python" if implied else f"texts since {last.language}"
            yield LeftOut(op, attribute.name, here, f"{_shown(there)} in {where}")


def _shown(value: AttrValue) -> str:
    return value.name if isinstance(value, IntEnum) else str(value)


def changes() -> tuple[tuple[str, Change], ...]:
    """Every change with the construct that it is about: defaults first, then by instruction.

    >>> [name for name, change in changes() if change.kind == "default"]
    ['tcvt', 'thistogram']
    """
    rows = [(name, c) for name, i in instructions().items() for c in changes_of(i)]
    rows += CONSTRUCTS
    return tuple(sorted(rows, key=lambda row: row[1].kind != "default"))


def changes_of(instruction: Instruction) -> tuple[Change, ...]:
    """Every change of an instruction, those of defaults first."""
    return (*_defaults(instruction), *instruction.changes)


def _defaults(instruction: Instruction) -> list[Change]:
    lines = []
    for attribute in instruction.attributes:
        for d in attribute.unwritten:
            value = getattr(d.value, "name", d.value)
            lines.append(
                Change(d.language, "default", f"no {attribute.name}: {d.before}", f"{value}", d.source)
            )
    return lines
