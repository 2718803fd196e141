"""Calls of intrinsics as tile instructions: operands, attributes and types follow from the declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from .. import ir
from ..isa.bind import accepts
from ..isa.declare import Attribute, Instruction, Operand
from .cpp_expressions import Expressions, Thing
from .cpp_names import intrinsic, intrinsics, members, ordered, plain
from .cpp_values import INT64, CType, Named, Number, Unplaced, View
from .names import suggestion


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call and the word that it stands at."""

    thing: Thing
    at: int


@dataclass(frozen=True)
class Intrinsic:
    """A call: its name, its template arguments that are no types, and its arguments."""

    name: str
    at: int
    template: tuple[Thing, ...]
    arguments: tuple[Argument, ...]

    @property
    def operands(self) -> list[Argument]:
        """The arguments that are no enumerations."""
        return [a for a in self.arguments if not isinstance(a.thing, IntEnum)]

    @property
    def choices(self) -> list[IntEnum]:
        """The members of enumerations among the arguments of both kinds."""
        return [t for t in (*self.template, *(a.thing for a in self.arguments)) if isinstance(t, IntEnum)]

    @property
    def literals(self) -> list[int]:
        """The numbers among the template arguments."""
        return [int(t.number or 0) for t in self.template if isinstance(t, Number)]


@dataclass(frozen=True)
class Match:
    """What a call means: the instruction, the overload, arguments by operand, attributes."""

    instruction: Instruction
    form: tuple[str, ...]
    values: Mapping[str, Argument]
    attributes: Mapping[str, ir.AttrValue]


class Calls(Expressions):
    """Reads calls of intrinsics."""

    def call(self) -> None:
        """``TNAME<...>(...);``: one tile instruction."""
        words = self.words
        at = words.index
        name = words.name()
        candidates = intrinsics().get(plain(name))
        if candidates is None:
            words.fail(f"got the unknown intrinsic '{name}'{suggestion(plain(name), list(intrinsics()))}", at)
        template = self.template() if words.text == "<" else ()
        words.expect("(")
        call = Intrinsic(name, at, template, tuple(words.listed(self._argument, ")")))
        words.expect(";")
        match = next((m for i in candidates for m in _matches(i, call)), None)
        if match is None:
            words.fail(f"got {_shown(call)}, which {_wanted(candidates)}", at)
        self._instruction(match, at)

    def template(self) -> tuple[Thing, ...]:
        """The arguments of a template that are no types."""
        words = self.words
        words.take()
        items = words.listed(self._template_argument, ">")
        return tuple(item for item in items if item is not None)

    def _template_argument(self) -> Thing:
        words = self.words
        if words.text in ("true", "false"):
            return Number(INT64, number=int(words.take() == "true"))
        if words.text.isdigit() or words.text == "-":
            at = words.index
            number = self._unary()
            if not isinstance(number, Number):
                words.fail("got no number; allowed: a number", at)
            return number
        at = words.index
        name = words.name()
        if words.text == "<":
            words.go(words.closing(words.index) + 1)
            return None
        kind, _, member = plain(name).rpartition("::")
        value = members().get(f"{'Precision' if kind.endswith('Algorithm') else kind}::{member}")
        if value is None and kind:
            words.fail(f"got the unknown template argument '{name}'", at)
        return value

    def _argument(self) -> Argument:
        words = self.words
        at = words.index
        thing = self.expression()
        if isinstance(thing, Unplaced):
            words.fail(f"got the tile '{thing.name}' without an address; try: TASSIGN before it", at)
        return Argument(thing, at)

    def _instruction(self, match: Match, at: int) -> None:
        """Add the operation of a call."""
        i = match.instruction
        types = _bound_types(match)
        ready = {n: self._operand(i.operand(n), a, types) for n, a in match.values.items()}
        ins = tuple(ready[n] for n in match.form)
        outs = tuple(ready[o.name] for o in i.destinations if o.name in ready)
        attributes = dict(match.attributes)
        for a in i.attributes:
            if a.unwritten and a.name not in attributes and a.default is not None:
                attributes[a.name] = a.default
        grouped = i.syntax == "custom" and any(o.optional for o in i.operands)
        groups = tuple((n, 1) for n in match.form) if grouped else ()
        self.emit(i.name, ins, at=at, outs=outs, attributes=attributes, groups=groups)

    def _operand(self, operand: Operand, argument: Argument, types: Mapping[str, ir.DType]) -> ir.Value:
        thing, at = argument.thing, argument.at
        if isinstance(thing, View | Named):
            return self.mention(thing.value, at)
        number = self.number(thing, at)
        expected = types.get(operand.dtype or "")
        if operand.kind == "index":
            value = self.index(number, at)
        elif expected is None or operand.converts:
            value = number.value if number.value is not None else self.value(number, at)
        else:
            value = self._as_element(number, expected, at)
        return self.mention(value, at)

    def _as_element(self, number: Number, d: ir.DType, at: int) -> ir.Value:
        """A scalar as an element of a tile, which C++ converts it to."""
        if number.value is None:
            to = CType(d, unsigned=d.name.startswith("u"))
            return self.constant(self._folded(number, to, at), d, at=at)
        if number.value.type == ir.ScalarType(d):
            return number.value
        signed = ir.dtype(f"i{d.bits}") if d.name.startswith("u") else d
        if signed == d:
            return self.value(self.converted(number, CType(d), at), at)
        return self.words.fail(
            f"got a scalar of type {number.type.dtype.name} that the program computes for a tile of "
            f"{d.name}; allowed: a constant, or a tile of {signed.name}",
            at,
        )


def _bound_types(match: Match) -> dict[str, ir.DType]:
    """The element type of each type variable, by the tiles and views of a call."""
    dtypes: dict[str, ir.DType] = {}
    for name, argument in match.values.items():
        thing = argument.thing
        if isinstance(thing, View | Named):
            d = getattr(thing.value.type, "dtype", None)
            variable = match.instruction.operand(name).dtype
            if isinstance(d, ir.DType) and variable:
                dtypes.setdefault(variable, d)
    return dtypes


def _matches(instruction: Instruction, call: Intrinsic) -> Iterator[Match]:
    """The overloads of an instruction that a call may mean."""
    attributes = _attributes(instruction, call)
    if attributes is None:
        return
    operands = call.operands
    flags = [a for a in instruction.attributes if a.type is bool and a.name not in attributes]
    for form, names in _overloads(instruction):
        spare = operands[len(names) :]
        extra = dict(zip(flags, spare, strict=False))
        if len(names) > len(operands) or len(extra) < len(spare):
            continue
        values = dict(zip(names, operands, strict=False))
        switches = _switches(extra)
        if switches is not None and all(_fits(instruction.operand(n), a.thing) for n, a in values.items()):
            yield Match(instruction, form, values, {**attributes, **switches})


def _switches(extra: Mapping[Attribute, Argument]) -> dict[str, ir.AttrValue] | None:
    """Attributes that are constants of type bool among the arguments, None where they are others."""
    attributes: dict[str, ir.AttrValue] = {}
    for attribute, argument in extra.items():
        thing = argument.thing
        if not isinstance(thing, Number) or thing.type.dtype != ir.I1 or thing.number is None:
            return None
        attributes[attribute.name] = bool(thing.number)
    return attributes


def _overloads(instruction: Instruction) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The overloads of an instruction, each with its operands in the order of a call."""
    required = [o.name for o in instruction.destinations if not o.optional]
    optional = [o.name for o in instruction.destinations if o.optional]
    for count in range(len(optional) + 1):
        for form in instruction.forms:
            names = {*required, *optional[:count], *form}
            declared = tuple(n for n in ordered(instruction) if n in names)
            yield form, declared
            # A scalar and a tile stand in the order that the program computes them in.
            if not count and len(form) == len(instruction.forms[0]) and form != instruction.forms[0]:
                yield form, (*required, *form)


def _fits(operand: Operand, thing: Thing) -> bool:
    """Whether an argument can stand for an operand."""
    if isinstance(thing, View | Named):
        t = thing.value.type
        if isinstance(t, ir.TileType) and operand.name in ("bias", "acc"):
            return t.loc == (ir.Loc.BIAS if operand.name == "bias" else ir.Loc.ACC)
        return accepts(operand, t)
    return isinstance(thing, Number) and operand.kind in ("scalar", "index")


def _attributes(instruction: Instruction, call: Intrinsic) -> dict[str, ir.AttrValue] | None:
    """The attributes that the enumerations and numbers of a call are, None where one is none."""
    attributes: dict[str, ir.AttrValue] = {}
    for choice in call.choices:
        attribute = _free(instruction.attributes, attributes, type(choice))
        if attribute is None:
            return None
        attributes[attribute.name] = choice
    for number in call.literals:
        attribute = _free(instruction.attributes, attributes, bool) or _free(
            instruction.attributes, attributes, int
        )
        if attribute is None:
            return None
        attributes[attribute.name] = bool(number) if attribute.type is bool else number
    return attributes


def _free(declared: Sequence[Attribute], values: Mapping[str, ir.AttrValue], kind: type) -> Attribute | None:
    """The first attribute of a type that is not given yet and changes values."""
    return next((a for a in declared if a.type is kind and a.name not in values and not a.of_layout), None)


def _shown(call: Intrinsic) -> str:
    """A call with the kinds of its arguments."""
    kinds = []
    for argument in call.arguments:
        thing = argument.thing
        if isinstance(thing, View | Named):
            kinds.append(str(thing.value.type))
        else:
            kinds.append(thing.type.dtype.name if isinstance(thing, Number) else str(thing))
    extra = [str(t) if not isinstance(t, Number) else str(t.number) for t in call.template]
    template = f"<{', '.join(extra)}>" if extra else ""
    return f"{call.name}{template}({', '.join(kinds)})"


def _wanted(candidates: Sequence[Instruction]) -> str:
    """The calls that instructions of one name have."""
    calls = [f"{intrinsic(i)}({', '.join(names)})" for i in candidates for _, names in _overloads(i)]
    return f"is none of: {'; '.join(dict.fromkeys(calls))}"
