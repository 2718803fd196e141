"""Printing a program in MLIR's generic form."""

from collections.abc import Iterator, Sequence

from .. import ir, isa
from ..errors import VerifyError
from ..isa.traits import BRANCH, BRANCH_IF
from . import control, custom, dictionaries, formats
from .generic_structure import NUMBERED, SEGMENTS, segments_of
from .names import assembly, trailing
from .printer import Spelling, constant_text, print_binding, tile_lines
from .type_text import print_type, print_types

#: Structured operations whose regions end with a yield that their own syntax leaves out.
_ENDED = ("scf.for", "scf.if", "scf.execute_region", "scf.index_switch")
_SPELLED = {"return": "func.return", "call": "func.call", **formats.SPELLED}
_FOREIGN = ("func.", "arith.", "scf.", "cf.", "memref.", "builtin.")
_Segments = list[tuple[ir.Value, ...]]


def generic_lines(program: ir.Program, attributes: ir.Attrs) -> Iterator[str]:
    """The lines of a program, whose module has these attributes."""
    if not program.has_module and not program.children and not attributes:
        yield from _functions(program, None, "")
        return
    yield '"builtin.module"() ({'
    for number, child in enumerate(program.children):
        yield '  "builtin.module"() ({'
        yield from _functions(program, number, "    ")
        yield f"  }}){dictionaries.print_attributes(child)} : () -> ()"
    yield from _functions(program, None, "  ")
    yield f"}}){dictionaries.print_attributes(attributes)} : () -> ()"


def _functions(program: ir.Program, child: int | None, indent: str) -> Iterator[str]:
    for function in program.functions:
        if function.child == child:
            if program.fragment:
                yield from _ops(function.body.ops, indent)
            else:
                yield from _function(function, indent)


def _function(f: ir.Function, indent: str) -> Iterator[str]:
    kind = f"({print_types([a.type for a in f.args])}) -> {_listed(f.results)}"
    said = f"function_type = {kind}, sym_name = {dictionaries.print_value(f.name)}"
    if f.private:
        said += ', sym_visibility = "private"'
    yield f'{indent}"func.func"() <{{{said}}}> ({{'
    if not f.external:
        yield from _region(f.body, indent, f.args)
    yield f"{indent}}}){dictionaries.print_attributes(f.attributes)} : () -> ()"


def _region(
    region: ir.Region, indent: str, args: Sequence[ir.Value] = (), *, ended: bool = False
) -> Iterator[str]:
    """What stands between the braces of a region."""
    graph = region.ops[0] if len(region.ops) == 1 and region.ops[0].name == "cf.graph" else None
    heads = dict(enumerate(control.block_heads(graph))) if graph is not None else {}
    args = (*args, *region.args)
    if args:
        label = next(
            n for n in ("bb0", "entry", "_entry") if all(not h.startswith(f"^{n}") for h, _ in heads.values())
        )
        yield f"{indent}^{label}({', '.join(f'{a}: {print_type(a.type)}' for a in args)}):"
    for head, block in heads.values():
        if head:
            yield indent + head
        yield from _ops(block.ops, indent + "  ")
    if graph is None:
        yield from _ops(region.ops, indent + "  ")
        if ended and not (region.ops and region.ops[-1].name == "scf.yield"):
            yield f'{indent}  "scf.yield"() : () -> ()'


def _ops(ops: Sequence[ir.Op], indent: str) -> Iterator[str]:
    for op in ops:
        yield from _op(op, indent)


def _op(op: ir.Op, indent: str) -> Iterator[str]:
    result = _segments(op)
    if result is None:
        yield from (
            indent + line
            for line in tile_lines(op, Spelling("ssa" if op.results else "dps"), "long", fragment=True)
        )
        return
    segments, sizes = result
    values = [v for segment in segments for v in segment]
    indices = _indices(op)
    names = ", ".join(f"{v}{indices.get(i, '')}" for i, v in enumerate(values))
    targets = op.attrs.get("targets") if op.name in (BRANCH, BRANCH_IF) else None
    blocks = f"[{', '.join(f'^{t}' for t in targets)}]" if isinstance(targets, tuple) else ""
    head = (
        f'{indent}{print_binding(op.results)}"{_spelled(op.name)}"({names}){blocks}{_properties(op, sizes)}'
    )
    tail = f" : ({print_types([v.type for v in values])}) -> {_listed([r.type for r in op.results])}"
    if not op.regions:
        yield head + tail
        return
    regions = list(op.regions)
    if op.name == "scf.if" and len(regions) == 1:
        regions.append(ir.Region(()))
    if op.name == "scf.index_switch":
        regions.insert(0, regions.pop())
    for i, region in enumerate(regions):
        yield f"{indent}}}, {{" if i else f"{head} ({{"
        empty = op.name == "scf.if" and i == 1 and len(op.regions) == 1
        yield from _region(region, indent, ended=op.name in _ENDED and not empty)
    yield f"{indent}}}){tail}"


def _spelled(name: str) -> str:
    spelled = _SPELLED.get(name, name)
    return spelled if spelled.startswith(_FOREIGN) else f"pto.{spelled}"


def _listed(types: Sequence[ir.Type]) -> str:
    return print_type(types[0]) if len(types) == 1 else f"({print_types(types)})"


def _properties(op: ir.Op, sizes: str) -> str:
    """The attributes, and the sizes of the segments where they are needed."""
    if op.name == "arith.constant":
        return f" <{{value = {constant_text(op)}}}>"
    table = {k: v for k, v in op.attributes if not (k == "targets" and op.name in (BRANCH, BRANCH_IF))}
    numbers, predicate = NUMBERED.get(op.name, ()), table.get("predicate")
    if predicate in numbers:
        table["predicate"] = numbers.index(str(predicate))
    text = dictionaries.print_attributes(table.items(), op.name).strip()
    cases = table.get("cases")
    if op.name == "scf.index_switch" and isinstance(cases, tuple):
        joined = ", ".join(map(str, cases))
        text = f"{{cases = array<i64{': ' if joined else ''}{joined}>}}"
    parts = [p for p in (text[1:-1], f"{SEGMENTS} = array<i32: {sizes}>" if sizes else "") if p]
    return f" <{{{', '.join(parts)}}}>" if parts else ""


def _segments(op: ir.Op) -> tuple[_Segments, str] | None:
    """The operands in the order of the generic form, and the sizes of the segments where not all are one.

    None for a documented overload that the generic form does not have.
    """
    fmt, instruction = formats.find_format(op.name), isa.find(op.name)
    if (
        fmt is not None
        and op.form != "select"
        and custom.has_parts(op, fmt)
        and len(op.results) <= fmt.results
    ):
        by_name = custom.operands_by_name(op, fmt)
        kinds = [kind for _, kind in fmt.operands]
        results = [by_name.get(name, ()) for name, _ in fmt.operands]
        plain = kinds == ["many"] or all(kind == "one" for kind in kinds)
        return results, "" if plain else _sizes(results)
    if instruction is None:
        sizes = [len(op.group(n)) for n, _ in op.groups] if op.name == BRANCH_IF else []
        return [(v,) for v in op.ins], ", ".join(map(str, sizes))
    return None if fmt is not None else _declared(op, instruction)


def _sizes(segments: _Segments) -> str:
    return ", ".join(str(len(s)) for s in segments)


def _declared(op: ir.Op, instruction: isa.Instruction) -> tuple[_Segments, str] | None:
    """As above for a tile instruction, whose segments its declaration has."""
    plain: _Segments = [(v,) for v in (*_sources(op), *op.outs)]
    if op.results or not (instruction.assembly.generic or any(o.optional for o in instruction.operands)):
        return plain, ""
    try:
        left = dict(isa.bind(instruction, op).values)
    except VerifyError:
        return plain, ""
    parts = segments_of(instruction)
    result: _Segments = [tuple(left.pop(n) for n in part.operands if n in left) for part in parts]
    if left:
        return None
    return (result, _sizes(result)) if sum(map(len, result)) == len(plain) else (plain, "")


def _indices(op: ir.Op) -> dict[int, str]:
    """Behind the operand at a position: the indices of the place in global memory that it names."""
    indices = op.group("offsets") if assembly(op.name).indexed else ()
    at = len(_sources(op)) if op.outs and trailing(op.name) is not None else 0
    return {at: f"[{', '.join(map(str, indices))}]"} if indices else {}


def _sources(op: ir.Op) -> tuple[ir.Value, ...]:
    indices = op.group("offsets") if assembly(op.name).indexed else ()
    return op.ins[: len(op.ins) - len(indices)]
