"""The printer: programs as text, instructions in assembly, SSA or destination-passing syntax."""

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

from .. import ir
from ..ir import INDEX, Form, Op, ScalarType, TileType, Type, UnknownType, Value
from ..isa.history import said, unwritten
from . import control, dictionaries, formats, names, tile_syntax
from .custom import custom_text, has_parts
from .dictionaries import print_float
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


def spelling(op: Op, style: Literal["as", "ssa", "dps"] | None, *, fragment: bool = False) -> Spelling:
    """The spelling that says what the operation says, as close to the wanted one as possible.

    A destination that exists already cannot be bound as a result: it is named first. Several
    destinations, or results whose type gives no tile to allocate, have one spelling only. In a fragment
    nothing needs to be allocated.
    """
    form = style or _AS_READ[op.form]
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
    if len(types) < 2 or tile_syntax.is_scalar(types[0]) or types[0] == UnknownType():
        return types
    full = tile_syntax.distribute(op.name, types[:1], types, destinations)
    same = full is not None and all((g or UnknownType()) == t for g, t in zip(full, types, strict=True))
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
    sources = print_types(short, style)
    if not results or (_missing(results) and len(short) > 1):
        return f" : {sources}"
    if len(short) == 1 and all(r == short[0] for r in results) and not tile_syntax.is_scalar(short[0]):
        return f" : {sources}"
    if len(results) == 1:
        return f" : {sources} -> {print_type(results[0], style)}"
    return f" : {sources} -> ({print_types(results, style)})"


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


PrintForm = Literal["as", "ssa", "dps"]
_INDENT = "  "


def named_language(program: ir.Program) -> ir.Attrs:
    """The version of a text, where a reader of the present one would understand something else."""
    changed = unwritten(ir.PRESENT)
    if any(op.name in changed and said(op.name, op.attrs, changed) for op in program.walk()):
        return ((ir.LANGUAGE_KEY, program.language or ir.LANGUAGES[0]),)
    return ()


class Printer:
    """Prints one program; remembers which names a fragment has mentioned so far."""

    def __init__(self, program: ir.Program, form: PrintForm | None) -> None:
        self.program = program
        self.form = form
        self._mentioned: set[str] = set()

    def text(self) -> str:
        """The program's text, every line ended by a newline."""
        lines: list[str] = []
        language = named_language(self.program)
        attributes = dictionaries.print_attributes((*self.program.attributes, *language))
        module = bool(attributes) if self.program.fragment else self.program.has_module or bool(language)
        if module:
            lines.append("module" + (f" attributes{attributes}" if attributes else "") + " {")
        indent = _INDENT if module else ""
        for number, child in enumerate(self.program.children):
            said = dictionaries.print_attributes(child)
            lines.append(f"{indent}module" + (f" attributes{said}" if said else "") + " {")
            lines += self._functions(indent + _INDENT, number)
            lines.append(indent + "}")
        lines += self._functions(indent, None)
        if module:
            lines.append("}")
        return "".join(line + "\n" for line in lines)

    def _functions(self, indent: str, child: int | None) -> Iterator[str]:
        for function in self.program.functions:
            if function.child != child:
                continue
            if self.program.fragment:
                yield from self._ops(function.body.ops, indent, top=True)
            else:
                yield from self._function(function, indent)

    def _function(self, f: ir.Function, indent: str) -> Iterator[str]:
        names = any(a.name != f"arg{i}" for i, a in enumerate(f.args)) or not f.external
        args = ", ".join(f"{a}: {print_type(a.type)}" if names else print_type(a.type) for a in f.args)
        private = "private " if f.private else ""
        attributes = dictionaries.print_attributes(f.attributes)
        attributes = f" attributes{attributes}" if attributes else ""
        results = print_results(f.results)
        head = f"{indent}func.func {private}{dictionaries.print_symbol(f.name)}({args}){results}{attributes}"
        if f.external:
            yield head
        else:
            yield from self._body(head, f.body, indent)

    def _ops(self, ops: tuple[ir.Op, ...], indent: str, *, top: bool = False) -> Iterator[str]:
        for op in ops:
            yield from self._op(op, indent, top=top)
            if self.program.fragment:
                self._mentioned.update(v.name for o in op.walk() for v in (*o.ins, *o.outs, *o.results))

    def _op(self, op: ir.Op, indent: str, *, top: bool) -> Iterator[str]:
        binding = print_binding(op.results)
        match op.name:
            case "arith.constant":
                yield f"{indent}{binding}arith.constant {constant_text(op)}"
            case "scf.for":
                yield f"{indent}{binding}{_for_head(op)} {{"
                yield from self._inside(op.regions[0], indent)
                yield indent + "}" + dictionaries.print_attributes(op.attributes)
            case "scf.if" if (handles := control.selected(op)) is not None:
                t = print_type(op.results[0].type)
                yield f"{indent}{binding}arith.select {op.ins[0]}, {handles[0]}, {handles[1]} : {t}"
            case "scf.if":
                arrow = f" -> ({_types_of(op.results)})" if op.results else ""
                yield f"{indent}{binding}scf.if {op.ins[0]}{arrow} {{"
                yield from self._inside(op.regions[0], indent)
                for branch in op.regions[1:]:
                    yield indent + "} else {"
                    yield from self._inside(branch, indent)
                yield indent + "}"
            case "scf.while":
                yield from self._while(op, indent, binding)
            case "scf.execute_region" | "scf.index_switch":
                yield from self._alternatives(op, indent, binding)
            case "call":
                callee = op.attrs["callee"]
                name = dictionaries.print_symbol(getattr(callee, "name", ""))
                args = ", ".join(map(str, op.ins))
                types = f"({_types_of(op.ins)}) -> ({_types_of(op.results)})"
                yield f"{indent}{binding}func.call {name}({args}) : {types}"
            case "fusion_region" | "yield" | "cf.br" | "cf.cond_br" | "cf.graph":
                yield from self._group(op, indent, binding)
            case "strict_vecscope":
                args = ", ".join(f"{a}: {print_type(a.type)}" for a in op.regions[0].args)
                yield f"{indent}pto.{op.name}({', '.join(map(str, op.ins))}) {{"
                yield from [f"{indent}^bb0({args}):"] if args else []
                yield from self._inside(op.regions[0], indent)
                yield f"{indent}}} : ({_types_of(op.ins)}) -> ()"
            case "section.cube" | "section.vector" | "vecscope":
                yield from self._body(f"{indent}pto.{op.name}", op.regions[0], indent)
            case _:
                for line in self._plain(op, binding, top=top):
                    yield indent + line

    def _plain(self, op: ir.Op, binding: str, *, top: bool) -> Iterator[str]:
        style: Style = "long"
        if self.form in ("as", "ssa") or (self.form is None and self._is_short(op)):
            style = "short"
        fmt = formats.find_format(op.name)
        if fmt is not None and op.form == "custom" and has_parts(op, fmt):
            yield binding + custom_text(op, fmt, style)
            return
        yield from tile_lines(op, self._spelling(op, top=top), style, fragment=self.program.fragment)

    def _is_short(self, op: ir.Op) -> bool:
        """Whether tile types are those of the documentation pages: where a text had these, and in fragments.

        The assembler, for which programs of functions are, knows the long ones only.
        """
        if op.form not in ("as", "as_dst", "ssa"):
            return False
        return self.program.fragment if self.program.tiles is None else self.program.tiles == "tile"

    def _spelling(self, op: ir.Op, *, top: bool) -> Spelling:
        if formats.find_format(op.name) is not None and op.name not in formats.TWO_SPELLINGS:
            return Spelling("dps")
        if self.form is None or self.form == "dps":
            return spelling(op, self.form, fragment=self.program.fragment)
        can_bind = (
            self.program.fragment
            and top
            and op.outs
            and not op.results
            and all(isinstance(v.type, TileType | UnknownType) for v in op.outs)
            and names.trailing(op.name) is None
            and not {v.name for v in op.outs} & (self._mentioned | {v.name for v in op.ins})
        )
        if can_bind:
            return Spelling(self.form, bind=True)  # pyright: ignore[reportArgumentType]
        return spelling(op, self.form)  # pyright: ignore[reportArgumentType]

    def _body(self, head: str, region: ir.Region, indent: str) -> Iterator[str]:
        yield head + " {"
        yield from self._inside(region, indent)
        yield indent + "}"

    def _inside(self, region: ir.Region, indent: str) -> Iterator[str]:
        yield from self._ops(region.ops, indent + _INDENT)

    def _while(self, op: ir.Op, indent: str, binding: str) -> Iterator[str]:
        before, after = op.regions
        carried = ", ".join(f"{a} = {v}" for a, v in zip(before.args, op.ins, strict=True))
        types = f"({_types_of(op.ins)}) -> ({_types_of(op.results)})"
        yield f"{indent}{binding}scf.while ({carried}) : {types} {{"
        yield from self._inside(before, indent)
        yield indent + "} do {"
        if after.args:
            args = ", ".join(f"{a}: {print_type(a.type)}" for a in after.args)
            yield f"{indent}^bb0({args}):"
        yield from self._inside(after, indent)
        yield indent + "}"

    def _group(self, op: ir.Op, indent: str, binding: str) -> Iterator[str]:
        """A fused group of operations, the blocks of a body, and what ends them."""
        match op.name:
            case "fusion_region":
                yield f"{indent}{binding}pto.fusion_region {{"
                yield from self._inside(op.regions[0], indent)
                yield indent + "}" + (f" : {_types_of(op.results)}" if op.results else "")
            case "yield":
                yield f"{indent}pto.yield({', '.join(map(str, op.ins))}) : ({_types_of(op.ins)}) -> ()"
            case "cf.graph":
                for head, block in control.block_heads(op):
                    if head:
                        yield indent.removesuffix(_INDENT) + head
                    yield from self._ops(block.ops, indent)
            case _:
                yield indent + control.branch_text(op)

    def _alternatives(self, op: ir.Op, indent: str, binding: str) -> Iterator[str]:
        arrow = f" -> ({_types_of(op.results)})" if op.results else ""
        cases = op.attrs.get("cases")
        labels = [f"case {n}" for n in cases] if isinstance(cases, tuple) else []
        labels += ["default"] if op.ins else []
        yield f"{indent}{binding}{op.name}{f' {op.ins[0]}' if op.ins else ''}{arrow}" + (
            "" if labels else " {"
        )
        for label, region in zip(labels or [""], op.regions, strict=True):
            if label:
                yield f"{indent}{label} {{"
            yield from self._inside(region, indent)
            yield indent + "}"


def _types_of(values: tuple[ir.Value, ...]) -> str:
    return print_types([v.type for v in values])


def _for_head(op: ir.Op) -> str:
    variable, *carried = op.regions[0].args
    lower, upper, step = op.ins[:3]
    head = f"scf.for {variable} = {lower} to {upper} step {step}"
    if carried:
        pairs = ", ".join(f"{a} = {v}" for a, v in zip(carried, op.group("inits"), strict=True))
        head += f" iter_args({pairs}) -> ({print_types([a.type for a in carried])})"
    if not isinstance(variable.type, ir.ScalarType) or variable.type.dtype.name != "index":
        head += f" : {print_type(variable.type)}"
    return head


_FLOAT_BITS = {"f16": ("<e", "<H", 0), "f32": ("<f", "<I", 0), "bf16": ("<f", "<I", 16)}


def constant_text(op: ir.Op) -> str:
    """The value of a constant, with its type unless that is plain: ``true``, ``8 : index``."""
    value = op.attrs["value"]
    t: ir.Type = op.results[0].type if op.results else ir.UnknownType()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        items = ", ".join(_number(v, t) for v in value)
        return f"dense<[{items}]> : {print_type(t)}"
    return f"{_number(value, t)} : {print_type(t)}"


def _number(value: object, t: ir.Type) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return _bits(value, t)
    if isinstance(value, float):
        return print_float(value)
    return str(int(value)) if isinstance(value, int) else str(value)


def _bits(value: float, t: ir.Type) -> str:
    """An infinity or NaN, which MLIR writes as the bits of its type."""
    name = t.dtype.name if isinstance(t, ir.ScalarType | ir.VectorType) else "f32"
    number, word, shift = _FLOAT_BITS.get(name, _FLOAT_BITS["f32"])
    (raw,) = struct.unpack(word, struct.pack(number, value))
    return f"0x{raw >> shift:X}"
