"""Program to text."""

from collections.abc import Iterator
from typing import Literal

from .. import ir
from ..isa.history import said, unwritten
from . import branches, dictionaries, formats, literals, names
from .custom_text import custom_text, has_parts
from .tile_text import Spelling, print_binding, spelling, tile_lines
from .type_text import Style, print_results, print_type, print_types

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
        named = any(a.name != f"arg{i}" for i, a in enumerate(f.args)) or not f.external
        args = ", ".join(f"{a}: {print_type(a.type)}" if named else print_type(a.type) for a in f.args)
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
                yield f"{indent}{binding}arith.constant {literals.constant_text(op)}"
            case "scf.for":
                yield from self._body(f"{indent}{binding}{_for_head(op)}", op.regions[0], indent)
            case "scf.if" if (handles := branches.selected(op)) is not None:
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
            case "section.cube" | "section.vector":
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
                for head, block in branches.block_heads(op):
                    if head:
                        yield indent.removesuffix(_INDENT) + head
                    yield from self._ops(block.ops, indent)
            case _:
                yield indent + branches.branch_text(op)

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
