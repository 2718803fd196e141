"""Printing tile instructions in the assembly, SSA and destination-passing spellings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

from ..ir import INDEX, Form, Op, ScalarType, TileType, Type, UnknownType, Value
from . import dictionaries, typing
from .names import assembly, trailing
from .type_text import Style, print_results, print_type, print_types

_INDEX = ScalarType(INDEX)
_Operand = tuple[Value, tuple[Value, ...]]
#: The spelling that keeps the one an operation was read in; None where it was not read.
_AS_READ: dict[Form, Literal["as", "ssa", "dps", "as_dst"] | None] = {
    "as": "as",
    "ssa": "ssa",
    "dps": "dps",
    "as_dst": "as_dst",
    "generic": "dps",
    "custom": None,
    "select": None,
}


@dataclass(frozen=True)
class Spelling:
    """A spelling; ``bind`` prints destinations as bound results."""

    form: Literal["as", "ssa", "dps", "as_dst"]
    bind: bool = False


def spelling(op: Op, wanted: Literal["as", "ssa", "dps"] | None, *, fragment: bool = False) -> Spelling:
    """The spelling that says what the operation says, as close to the wanted one as possible.

    A destination that exists already cannot be bound as a result: it is named first. Several
    destinations, or results whose type gives no tile to allocate, have one spelling only. In a fragment
    nothing needs to be allocated.
    """
    form = wanted or _AS_READ[op.form]
    if (op.outs and op.results) or (op.groups and assembly(op.name).scratch):
        return Spelling("dps")
    if op.results:
        allocatable = fragment or all(isinstance(v.type, TileType) and v.type.is_static for v in op.results)
        # Values of a group are bound together.
        allocatable = allocatable and not any("#" in v.name for v in op.results)
        return Spelling("dps" if form == "dps" and allocatable else "as" if form == "as" else "ssa")
    last = trailing(op.name)
    if last is not None:
        fits = len(op.outs) == last
        return Spelling(form if fits and form in ("as", "ssa") else "dps")
    return Spelling("dps" if form in (None, "dps") or len(op.outs) != 1 else "as_dst")


def tile_lines(op: Op, how: Spelling, style: Style, *, fragment: bool) -> Iterator[str]:
    """The lines of one instruction."""
    if how.bind:
        op = replace(op, outs=(), results=op.outs)
    if how.form == "dps":
        if op.results and not op.outs:
            if not fragment:
                for result in op.results:
                    yield f"{result} = pto.alloc_tile : {print_type(result.type, style)}"
            op = replace(op, outs=op.results, results=())
        yield _dps(op, style)
    elif how.form == "as_dst":
        yield _destination_first(op, style)
    else:
        yield _assembly(op, how.form, style)


def print_binding(results: tuple[Value, ...]) -> str:
    """``%a, %b = `` or ``%r:2 = ``, empty without results."""
    if not results:
        return ""
    base = results[0].name.removesuffix("#0")
    if len(results) > 1 and [v.name for v in results] == [f"{base}#{i}" for i in range(len(results))]:
        return f"%{base}:{len(results)} = "
    return ", ".join(map(str, results)) + " = "


# -- operands and their types ------------------------------------------------------------------------


def _operands(op: Op) -> tuple[list[_Operand], list[_Operand]]:
    """Sources and destinations, each with its indices."""
    indices = op.group("offsets") if assembly(op.name).indexed else ()
    ins = op.ins[: len(op.ins) - len(indices)]
    sources: list[_Operand] = [(v, ()) for v in ins]
    destinations: list[_Operand] = [(v, ()) for v in op.outs]
    if indices and op.outs and trailing(op.name) is not None:
        return sources, [(op.outs[0], indices), *destinations[1:]]
    if indices:
        return [(ins[0], indices), *sources[1:]], destinations
    return sources, destinations


def _names(operands: Sequence[_Operand]) -> str:
    return ", ".join(f"{v}[{', '.join(map(str, i))}]" if i else str(v) for v, i in operands)


def _list(operands: Sequence[_Operand]) -> list[Type]:
    """The types of operands; those of indices only when one is not ``index``."""
    plain = all(i.type == _INDEX for _, indices in operands for i in indices)
    out: list[Type] = []
    for value, indices in operands:
        out.append(value.type)
        if not plain:
            out += [i.type for i in indices]
    return out


def _missing(types: Sequence[Type]) -> bool:
    return all(t == UnknownType() for t in types)


def _shortened(op: Op, types: list[Type], destinations: int) -> list[Type]:
    """One type in place of the list where it says the same."""
    if len(types) < 2 or typing.is_scalar(types[0]) or types[0] == UnknownType():
        return types
    given = typing.distribute(op.name, types[:1], types, destinations)
    same = given is not None and all((g or UnknownType()) == t for g, t in zip(given, types, strict=True))
    return types[:1] if same else types


def _attributes(op: Op) -> tuple[str, str]:
    """What stands behind the name (``tsync<TADD>``), and the dictionary."""
    argument = assembly(op.name).argument
    kind = op.attrs.get(argument)
    if not isinstance(kind, str) or not kind.isidentifier() or not kind.isascii():
        return "", dictionaries.print_attributes(op.attributes, op.name)
    rest = tuple((k, v) for k, v in op.attributes if k != argument)
    return f"<{kind}>", dictionaries.print_attributes(rest, op.name)


# -- the three spellings -----------------------------------------------------------------------------


def _assembly(op: Op, form: Literal["as", "ssa"], style: Style) -> str:
    sources, destinations = _operands(op)
    operands = [*sources, *destinations]
    if form == "as" and assembly(op.name).destination_second and destinations:
        operands = [*sources[:1], *destinations, *sources[1:]]
    head = print_binding(op.results)
    head += op.name if form == "as" else "pto." + op.name
    names = _names(operands)
    argument, attributes = _attributes(op)
    text = head + argument + (f" {names}" if names else "") + attributes
    types, results = _list(operands), [v.type for v in op.results]
    if _missing([*types, *results]):
        return text
    if form == "as":
        return text + _assembly_types(op, types, results, style)
    arrow = " -> ()"
    if len(results) == 1:
        arrow = "" if _missing(results) and len(types) > 1 else f" -> {print_type(results[0], style)}"
    elif results:
        arrow = f" -> ({print_types(results, style)})"
    return f"{text} : ({print_types(types, style)}){arrow}"


def _assembly_types(op: Op, types: list[Type], results: list[Type], style: Style) -> str:
    if not types:
        return f" : () -> ({print_types(results, style)})"
    short = _shortened(op, types, 0)
    listed = print_types(short, style)
    if not results or (_missing(results) and len(short) > 1):
        return f" : {listed}"
    if len(short) == 1 and all(r == short[0] for r in results) and not typing.is_scalar(short[0]):
        return f" : {listed}"
    if len(results) == 1:
        return f" : {listed} -> {print_type(results[0], style)}"
    return f" : {listed} -> ({print_types(results, style)})"


def _destination_first(op: Op, style: Style) -> str:
    sources, destinations = _operands(op)
    operands = [*destinations, *sources]
    text = f"pto.{op.name} {_names(operands)}{_attributes(op)[1]}"
    types = _list(operands)
    if _missing(types):
        return text
    return f"{text} : {print_types(_shortened(op, types, len(destinations)), style)}"


def _dps(op: Op, style: Style) -> str:
    sources, destinations = _operands(op)
    spelled = assembly(op.name)
    parameter, name = "", op.name if _missing(_list(sources)) else spelled.tmp_clause or op.name
    if (
        spelled.fp_clause
        and not any(i for _, i in (*sources, *destinations))
        and not _missing(_list(sources))
    ):
        ((fp, _),) = [sources.pop(1)]
        parameter, name = f" fp {fp} : {print_type(fp.type, style)}", spelled.fp_clause
    axis = op.attrs.get("axis") if "maskPattern" in op.attrs and not _missing(_list(sources)) else None
    if isinstance(axis, IntEnum):
        parameter += f', "{axis.name.rpartition("_")[2].lower()}"'
        op = replace(op, attributes=tuple(a for a in op.attributes if a[0] != "axis"))
    if op.groups and spelled.scratch == "behind":
        destinations.append(sources.pop())
    inline = " no_tmp" if op.groups and spelled.scratch == "no_tmp" else ""
    argument, attributes = _attributes(op)
    if attributes and sources and (spelled.inline or "maskPattern" in op.attrs):
        comma = "," if spelled.inline_comma else ""
        inline, attributes = inline + comma + attributes, ""
    parts = [f"pto.{name}{argument}"]
    if sources:
        parts.append(f"ins({_clause(op, sources, inline, style)}{parameter})")
    if destinations:
        parts.append(f"outs({_clause(op, destinations, '', style)})")
    text = " ".join(parts) + attributes
    if op.results:
        text = ", ".join(map(str, op.results)) + " = " + text
        text += print_results([v.type for v in op.results], style)
    return text


def _clause(op: Op, operands: Sequence[_Operand], inline: str, style: Style) -> str:
    types = _list(operands)
    if _missing(types):
        return _names(operands) + inline
    if assembly(op.name).typed_apart and len(operands) > 1 and len(types) == len(operands):
        return ", ".join(
            f"{_names([o])} : {print_type(t, style)}" for o, t in zip(operands, types, strict=True)
        )
    return f"{_names(operands)}{inline} : {print_types(types, style)}"
