"""Fixes of operations that break a rule: lines that are legal where the operation stands.

Each is tried before it is proposed: the same operands in another order or number, other types of operands,
and types of a legal sample. A tile of another type is a new one, into which the old one is converted or moved
where an instruction does that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from itertools import islice, product

from .. import isa
from ..errors import Diagnostic, VerifyError
from ..ir import FRAGMENT, INDEX, AttrValue, Function, Op, Program, Region, ScalarType, TileType, Type, Value
from ..isa.bind import accepts, bind
from ..isa.declare import Instruction
from ..isa.elementwise_select import TCVT
from ..isa.history import written_out
from ..isa.layout import TMOV
from ..isa.rules.constraints import BLOCK_BITS, element_type, made_anew, spelled, with_dtype
from ..isa.samples.operations import legal_samples
from ..isa.traits import cast_name
from ..isa.views import ALLOC_TILE
from ..profiles import Profile
from ..text import print_program
from ..text.printer import PrintForm
from ..text.type_text import print_type

#: Errors of an operation alone.
Objections = Callable[[Op], Sequence[Diagnostic]]
#: Operations that are tried for one fix, those with another type of one operand, and samples.
_MOST_TRIED, _MOST_EDITED, _MOST_SAMPLES = 300, 80, 12
#: Behind the name of a value that is an operand once more.
_AGAIN = "'"
_FORMS: Mapping[str, PrintForm] = {"as": "as", "as_dst": "as", "ssa": "ssa", "dps": "dps"}


def proposal(
    op: Op, program: Program, profile: Profile, objections: Objections, operand: str | None = None
) -> str:
    """The lines that stand for an operation, in the language of the program; "" where none is known.

    ``operand`` is the one that the message is about, whose type is changed first.
    """
    instruction = isa.find(op.name)
    if instruction is None or op.regions or (op.groups and not instruction.assembly.indexed):
        return ""
    for tried in islice(_candidates(op, instruction, profile, operand), _MOST_TRIED):
        if not objections(tried):
            return _Lines(op, tried, program, objections).text()
    return ""


# -- operations that are tried -------------------------------------------------------------------------


def _candidates(op: Op, instruction: Instruction, profile: Profile, operand: str | None) -> Iterator[Op]:
    """Operations by how little they change."""
    bases = [b for b in (_ordered(op, instruction, form) for form in _nearest_forms(op, instruction)) if b]
    for base in map(_apart, bases if bases and not op.groups else [op]):
        operands = _operands(base, instruction)
        first = operands.get(operand or "", "")
        yield base
        yield from islice(_edited(base, first), _MOST_EDITED)
        yield from islice(_exchanged(base, operand, first, instruction, profile), _MOST_EDITED)
        yield from _with_attributes(base, instruction)
        samples = list(_sampled(base, instruction, profile, operands))
        for types in samples[:2]:
            shaped = _typed(base, {n: _like(types[n], t) for n, t in _types(base).items() if n in types})
            yield from (shaped, *islice(_edited(shaped, first), _MOST_EDITED))
        yield from (_typed(base, types) for types in samples)


def _with_attributes(op: Op, instruction: Instruction) -> Iterator[Op]:
    """The operation without one of its attributes, and with other values of it."""
    for key, value in op.attributes:
        others = tuple((k, v) for k, v in op.attributes if k != key)
        yield replace(op, attributes=others)
        attribute = instruction.attribute(key)
        values: Sequence[AttrValue] = ()
        if attribute is not None and issubclass(attribute.type, IntEnum):
            values = tuple(attribute.type)
        elif isinstance(value, int) and attribute is not None and attribute.type is int:
            values = (value % 8, 0, 1)
        yield from (replace(op, attributes=tuple(sorted({**dict(others), key: v}.items()))) for v in values)


def _apart(op: Op) -> Op:
    """The operation whose operands have a name each: a value that is one twice counts as another."""
    seen = list[str]()

    def named(values: tuple[Value, ...]) -> tuple[Value, ...]:
        names = []
        for value in values:
            names.append(value.name + _AGAIN * seen.count(value.name))
            seen.append(value.name)
        return tuple(replace(v, name=n) for v, n in zip(values, names, strict=True))

    return replace(op, ins=named(op.ins), outs=named(op.outs), results=named(op.results))


def _operands(op: Op, instruction: Instruction) -> dict[str, str]:
    """The values of an operation by the names of operands, empty where they fit no form."""
    try:
        return {n: v.name for n, v in bind(instruction, op).values.items()}
    except VerifyError:
        return {}


def _nearest_forms(op: Op, instruction: Instruction) -> list[tuple[str, ...]]:
    return sorted(instruction.forms, key=lambda form: abs(len(form) - len(op.ins)))


def _ordered(op: Op, instruction: Instruction, form: tuple[str, ...]) -> Op | None:
    """The operation with its values in the places of a form: those of a kind in order, the last one again."""
    sources, destinations, taken = [*op.ins], [*op.outs], set[int]()

    def value(name: str, *pools: Sequence[Value]) -> Value | None:
        fitting = [[v for v in pool if accepts(instruction.operand(name), v.type)] for pool in pools if pool]
        fresh = next((v for v in (fitting[0] if fitting else []) if id(v) not in taken), None)
        chosen = fresh or next((pool[-1] for pool in fitting if pool), None)
        taken.add(id(chosen))
        return chosen

    ins = [value(name, sources, destinations) for name in form]
    needed = [] if op.results else [o.name for o in instruction.destinations if not o.optional]
    outs = [value(name, destinations, sources) for name in needed] if instruction.syntax == "tile" else []
    if instruction.syntax != "tile" or None in ins or None in outs:
        return None
    return replace(op, ins=tuple(v for v in ins if v), outs=tuple(v for v in outs if v))


def _types(op: Op) -> dict[str, Type]:
    return {v.name: v.type for v in (*op.ins, *op.outs, *op.results)}


def _typed(op: Op, types: Mapping[str, Type]) -> Op:
    """The operation with other types of values, by name."""

    def typed(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(replace(v, type=types.get(v.name, v.type)) for v in values)

    return replace(op, ins=typed(op.ins), outs=typed(op.outs), results=typed(op.results))


def _like(sample: Type, actual: Type) -> Type:
    """A type of a sample in the sizes, and if it is a tile's in the valid region, of another one."""
    if isinstance(sample, TileType) and isinstance(actual, TileType):
        return replace(sample, rows=actual.rows, cols=actual.cols, v_row=actual.v_row, v_col=actual.v_col)
    return sample


def _edited(op: Op, first: str) -> Iterator[Op]:
    """The operation with another type of one operand: the element type or the sizes of the others."""
    types = dict(sorted(_types(op).items(), key=lambda item: item[0] != first))
    dtypes = dict.fromkeys(d for d in map(element_type, types.values()) if d is not None)
    regions = dict.fromkeys((t.rows, t.cols, *t.valid) for t in types.values() if isinstance(t, TileType))
    blocks = (BLOCK_BITS // d.bits for d in dtypes)
    numbers = dict.fromkeys((*(n for r in regions for n in r[:2]), *blocks))
    sizes = dict.fromkeys((*regions, *((r, c, r, c) for r, c in product(numbers, numbers))))
    for name, t in types.items():
        for d in dtypes:
            if isinstance(t, TileType | ScalarType) and d != element_type(t):
                yield _typed(op, {name: with_dtype(t, d)})
    for name, t in types.items():
        for rows, cols, v_row, v_col in sizes:
            if isinstance(t, TileType):
                sized = replace(t, rows=rows, cols=cols, v_row=v_row, v_col=v_col)
                yield from (_typed(op, {name: with_dtype(sized, d)}) for d in dtypes if sized != t)


def _exchanged(
    op: Op, operand: str | None, name: str, instruction: Instruction, profile: Profile
) -> Iterator[Op]:
    """The operation with one operand as legal samples have it: the element type, also layout, also sizes."""
    actual = _types(op).get(name)
    if actual is None or operand is None:
        return
    found = [s.types[operand] for s in legal_samples(instruction, profile) if operand in s.types]
    dtypes = dict.fromkeys(d for d in map(element_type, found) if d is not None)
    typed = [with_dtype(actual, d) for d in dtypes] if isinstance(actual, TileType | ScalarType) else []
    for t in dict.fromkeys((*typed, *(_like(t, actual) for t in found), *found)):
        if t != actual:
            yield _typed(op, {name: t})


def _sampled(
    op: Op, instruction: Instruction, profile: Profile, names: Mapping[str, str]
) -> Iterator[dict[str, Type]]:
    """Types of the operands in legal samples, those with most of their element types first."""
    operands = _types(op)
    options = list[tuple[int, int, dict[str, Type]]]()
    for sample in legal_samples(instruction, profile):
        types = {names[n]: t for n, t in sample.types.items() if n in names}
        if set(sample.form) == set(names) - {o.name for o in instruction.destinations}:
            same = sum(element_type(t) == element_type(operands[n]) for n, t in types.items())
            options.append((-same, len(options), types))
    yield from (types for _, _, types in sorted(options, key=lambda o: o[:2])[:_MOST_SAMPLES])


# -- lines ---------------------------------------------------------------------------------------------


class _Lines:
    """The statements of a fix: tiles and numbers that it needs, and the operation on them."""

    def __init__(self, op: Op, legal: Op, program: Program, objections: Objections) -> None:
        self.op, self.legal, self.objections = op, legal, objections
        self.old = {v.name: v.type for v in (*op.ins, *op.outs, *op.results)}
        self.python = op.span is not None and op.span.python
        self.elsewhere = [o for o in program.walk() if o is not op]
        self.used = {v.name for o in self.elsewhere for v in (*o.ins, *o.outs, *o.results)}
        self.free = program.fragment
        self.arguments = {v.name for f in program.functions for v in f.args}
        self.before = list[Op]()

    def text(self) -> str:
        names = dict[str, str]()
        for name, new in _types(self.legal).items():
            base = name.rstrip(_AGAIN)
            renamed = base if new == self.old[base] else self._renamed(base, self.old[base], new)
            if renamed is None:
                return ""
            names[name] = renamed

        def named(values: tuple[Value, ...]) -> tuple[Value, ...]:
            return tuple(replace(v, name=names[v.name]) for v in values)

        final = self.legal
        final = replace(final, ins=named(final.ins), outs=named(final.outs), results=named(final.results))
        ops = [*self.before, final]
        lines = [self._python(o) for o in ops] if self.python else [_printed(o, self.op.form) for o in ops]
        if not all(lines):
            return ""
        return "; ".join(lines) if self.python else "\n".join(("", *lines)) if len(lines) > 1 else lines[0]

    def _renamed(self, name: str, old: Type, new: Type) -> str | None:
        """The name of a value of another type: its own where this operation alone states its type."""
        result = any(v.name == name for v in self.op.results)
        once = sum(v.name == name for v in (*self.op.ins, *self.op.outs, *self.op.results)) == 1
        if name not in self.used and once and not self.python and (self.free or result):
            return name
        fresh = f"{name}_{_difference(old, new)}"
        if Value(fresh, new) in (v for o in self.before for v in o.results):
            return fresh
        while fresh in self.used | self.arguments | {v.name for o in self.before for v in o.results}:
            fresh += "_"
        value, read = Value(fresh, new), any(v.name.rstrip(_AGAIN) == name for v in self.legal.ins)
        if isinstance(new, TileType) and isinstance(old, TileType):
            sizes = self._sizes(name, new)
            if sizes is None:
                return None
            self.before.append(replace(sizes, results=(value,)))
            for mover in (TCVT.name, TMOV) if read else ():
                move = Op(mover, (Value(name, old),), (value,), form="dps", span=self.op.span)
                if not self.objections(move):
                    self.before.append(move)
                    break
            return fresh
        cast = _cast(old, new)
        if cast is None:
            return None
        self.before.append(Op(cast, (Value(name, old),), results=(value,)))
        return fresh

    def _sizes(self, name: str, new: TileType) -> Op | None:
        """An allocation with the run-time sizes of the tile of a name; None where nothing says them."""
        if None not in new.valid:
            return Op(ALLOC_TILE)
        own = next((o for o in self.elsewhere if any(v.name == name for v in o.results)), None)
        if own is None or own.name != ALLOC_TILE:
            return None
        groups = tuple((n, k) for n, k in own.groups if n != "addr")
        ins = tuple(v for n, _ in groups for v in own.group(n))
        tile = own.results[0].type
        same = isinstance(tile, TileType) and [n is None for n in tile.valid] == [
            n is None for n in new.valid
        ]
        return Op(ALLOC_TILE, ins, groups=groups) if same else None

    def _python(self, op: Op) -> str:
        values = (*op.outs, *op.ins)
        names = [v.name for v in (*values, *op.results)]
        if not all(n.isidentifier() for n in names) or (op is self.legal and op.results):
            return ""
        if op.name == ALLOC_TILE:
            t = op.results[0].type
            assert isinstance(t, TileType)
            return "" if None in t.valid else f"{names[0]} = {made_anew(t)}"
        if op.results:
            t = op.results[0].type
            return f'{names[-1]} = pto.cast({op.ins[0].name}, "{t}")' if len(op.results) == 1 else ""
        keywords = [f"{k}={_python_value(v)}" for k, v in op.attributes if k not in op.implied]
        return f"pto.{op.name}({', '.join([*names, *keywords])})"


def _difference(old: Type, new: Type) -> str:
    """What a name says of a new type."""
    if isinstance(old, TileType) and isinstance(new, TileType) and old.dtype == new.dtype:
        return new.loc.name.lower() if old.loc != new.loc else f"{new.rows}x{new.cols}"
    return str(element_type(new))


def _cast(old: Type, new: Type) -> str | None:
    """The operation that makes a number of another type."""
    if not (isinstance(old, ScalarType) and isinstance(new, ScalarType)):
        return None
    if INDEX in (old.dtype, new.dtype) and (old.dtype.is_float or new.dtype.is_float):
        return None
    return cast_name(old.dtype, new.dtype)


def _python_value(value: object) -> str:
    return json.dumps(value.name) if isinstance(value, IntEnum) else repr(value)


def _printed(op: Op, form: str) -> str:
    """The line of an operation, with its tile types in the short spelling."""
    values = {v.name: v for v in (*op.ins, *op.outs)}
    function = Function(FRAGMENT, tuple(values.values()), Region((op,)))
    program = written_out(Program((function,), fragment=True, has_module=False))
    text = print_program(program, _FORMS.get(form)).strip()
    for value in (*op.ins, *op.outs, *op.results):
        if isinstance(value.type, TileType) and value.type.conv is None:
            text = text.replace(print_type(value.type), spelled(value.type))
    return text
