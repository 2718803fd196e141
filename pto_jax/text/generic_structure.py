"""Reading MLIR's generic form of functions, control flow, calls, and operations with a syntax of their own.

``%r = "scf.if"(%c)[^next] <{key = value}> ({ ... }, { ... }) {key = value} : (T) -> (T)``. The parts stand in
this order for every operation; what they mean is told by the readers below.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from .. import ir, isa
from ..ir import I1, AttrValue, Op, Region, ScalarType, Symbol, TileType, Type, UnknownType, Value
from ..isa.assembly import Segment
from ..isa.bind import accepts
from ..isa.declare import Instruction
from ..isa.traits import BRANCH, BRANCH_IF, FUSION, FUSION_END, structural_traits
from . import control, custom, formats, lexer, tile_syntax
from .dictionaries import Places
from .lexer import Kind
from .reader import Mention, Reader, Scopes
from .tile_syntax import TileOp, TileOperand, finish, give_types, read_operand, read_types

#: Attributes that say nothing here.
_SILENT = ("fastmath", "overflowFlags", "arg_attrs", "res_attrs")
#: Sizes and offsets as MLIR writes them beside operands; this number stands for an operand.
_STATIC, _DYNAMIC = ("static_offsets", "static_sizes", "static_strides"), -(1 << 63)
#: Comparisons of floats in the order of their numbers; those of integers are numbered as they are listed.
NUMBERED = {n: p if n != "arith.cmpf" else (p[-2], *p[:-2], p[-1]) for n, p in formats.PREDICATES.items()}


@dataclass
class Parts:
    """The parts of an operation; ``value`` is that of a constant, in the Python type of its PTO type."""

    name: str
    results: list[Mention]
    start: int
    operands: list[Mention] = field(default_factory=list)
    successors: list[str] = field(default_factory=list)
    attributes: dict[str, AttrValue] = field(default_factory=dict)
    places: Places = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    result_types: list[Type] = field(default_factory=list)
    value: AttrValue = None


def read_parts(reader: Reader, name: str, results: list[Mention], start: int) -> Parts:
    """The parts of the operation whose quoted name has been passed."""
    c, parts = reader.cursor, Parts(name, results, start)
    parts.operands = c.enclosed(Kind.L_PAREN, reader.mention, f"after the quoted name of {name}")
    if c.kind is Kind.L_SQUARE:
        parts.successors = c.enclosed(Kind.L_SQUARE, lambda: c.expect(Kind.CARET_IDENT, "a block")[1:])
    if c.kind is Kind.LESS:
        opened = c.open(Kind.LESS)
        _dictionary(reader, parts)
        c.close(Kind.GREATER, opened)
    if c.kind is Kind.L_PAREN:
        structure = structural_traits(name)
        isolated = structure is not None and structure.regions is not None and structure.regions.isolated
        parts.regions = c.enclosed(Kind.L_PAREN, lambda: reader.region([], label=True, isolated=isolated))
    if c.kind is Kind.L_BRACE:
        _dictionary(reader, parts)
    c.expect(Kind.COLON, "before the types of the generic form")
    parts.types = reader.type_list()
    c.expect(Kind.ARROW)
    parts.result_types = reader.type_list()
    _count(reader, parts, len(parts.operands), parts.types)
    return parts


def _dictionary(reader: Reader, parts: Parts) -> None:
    """An attribute dictionary; the value of a constant keeps its type."""
    c = reader.cursor
    if parts.name == "arith.constant":
        opened = c.open(Kind.L_BRACE)
        c.expect_word("value")
        c.expect(Kind.EQUAL)
        parts.value, _ = control.constant_value(reader)
        c.close(Kind.R_BRACE, opened)
        return
    reader.attributes.dictionary(parts.attributes, parts.places, parts.name)
    for name in _SILENT:
        parts.attributes.pop(name, None)


def _count(reader: Reader, parts: Parts, expected: int, types: list[Type]) -> None:
    if len(types) != expected:
        reader.cursor.fail_since(
            parts.start, f"got {len(types)} type(s) for {expected} operand(s) of {parts.name}"
        )


def read_structure(reader: Reader, parts: Parts) -> Op:
    """The operation that parts are those of."""
    make = _READERS.get(parts.name)
    if make is None:
        return _by_syntax(reader, parts)
    ins = tuple(reader.scopes.use(m, t) for m, t in zip(parts.operands, parts.types, strict=True))
    span = reader.cursor.span(parts.start, reader.cursor.last_end)
    return make(reader, parts, Op(parts.name, ins=ins, regions=tuple(parts.regions), span=span))


def _by_syntax(reader: Reader, parts: Parts) -> Op:
    """An operation that has a syntax of its own, from the operands that its syntax names."""
    if parts.types and not isinstance(parts.types[0], TileType):
        parts.name = formats.OF_VIEWS.get(parts.name, parts.name)
    fmt = formats.find_format(parts.name)
    assert fmt is not None, parts.name
    draft, left = (
        custom.Draft(attributes=parts.attributes),
        list(zip(parts.operands, parts.types, strict=True)),
    )
    for (name, count), n in zip(fmt.operands, _sizes(reader, fmt, parts), strict=True):
        if n or count == "many":
            taken, left = left[:n], left[n:]
            draft.groups[name] = [m for m, _ in taken]
            draft.types[name] = [t for _, t in taken]
    # The operation has its operands in the order of its syntax.
    draft.groups = {n: draft.groups[n] for n in fmt.order if n in draft.groups}
    if parts.result_types:
        draft.types["^"] = parts.result_types
    numbers, number = NUMBERED.get(parts.name, ()), draft.attributes.get("predicate")
    if isinstance(number, int) and 0 <= number < len(numbers):
        draft.attributes["predicate"] = numbers[number]
    for name in _STATIC:
        sizes = draft.attributes.pop(name, ())
        if isinstance(sizes, tuple) and any(n != _DYNAMIC for n in sizes):
            reader.cursor.fail_since(parts.start, f"got numbers in {name}; allowed: operands")
    return custom.finish(reader, fmt, parts.results, draft, parts.start)


def _sizes(reader: Reader, fmt: formats.Format, parts: Parts) -> list[int]:
    """How many values each operand has: as the operation says, else as its syntax leaves no choice."""
    count, segments = len(parts.operands), parts.attributes.pop(SEGMENTS, None)
    kinds = [kind for _, kind in fmt.operands]
    if kinds == ["many"]:
        return [count]
    if isinstance(segments, tuple):
        sizes = [n for n in segments if isinstance(n, int)]
        if len(sizes) >= len(kinds) and not any(sizes[len(kinds) :]) and sum(sizes) == count:
            return sizes[: len(kinds)]
    more, chosen = count - kinds.count("one"), {"one": 1, "many": 0, "optional": 0}
    if more and kinds.count("many") == 1:
        chosen["many"], more = more, 0
    elif more and "many" not in kinds and kinds.count("optional") == more:
        chosen["optional"], more = 1, 0
    if segments is not None or more:
        expected = ", ".join(name for name, _ in fmt.operands)
        reader.cursor.fail_since(
            parts.start,
            f"got {count} operand(s) of {parts.name}; allowed: {SEGMENTS} = array<i32: ...> with one size "
            f"for each of ({expected})",
        )
    return [chosen[kind] for kind in kinds]


def _constant(reader: Reader, parts: Parts, op: Op) -> Op:
    results = _results(reader, parts)
    if len(results) == 1:
        reader.scopes.set_constant(results[0], parts.value)
    return replace(op, results=results, attributes=(("value", parts.value),))


def _results(reader: Reader, parts: Parts) -> tuple[Value, ...]:
    control.need(reader, parts.results, len(parts.result_types), parts.name, parts.start)
    return control.define(reader, parts.results, parts.result_types)


def _for(reader: Reader, parts: Parts, op: Op) -> Op:
    _regions(reader, parts, 1)
    if len(op.ins) < 3 or len(parts.regions[0].args) != len(op.ins) - 2:
        reader.cursor.fail_since(
            parts.start,
            f"got {len(op.ins)} operand(s) and {len(parts.regions[0].args)} block argument(s) of scf.for; "
            "allowed: lower bound, upper bound, step and initial values, and the counter and carried values",
        )
    groups = (("lb", 1), ("ub", 1), ("step", 1), ("inits", len(op.ins) - 3))
    return _structured(reader, parts, replace(op, groups=groups))


def _if(reader: Reader, parts: Parts, op: Op) -> Op:
    if len(parts.regions) == 2 and not parts.regions[1].ops:
        parts.regions.pop()
    if len(op.ins) != 1 or op.ins[0].type != ScalarType(I1):
        reader.cursor.fail_since(parts.start, "got scf.if without one condition of type i1")
    return _structured(reader, parts, op)


def _switch(reader: Reader, parts: Parts, op: Op) -> Op:
    cases = parts.attributes.get("cases")
    cases = cases if isinstance(cases, tuple) else ()
    _regions(reader, parts, len(cases) + 1)
    parts.regions = [*parts.regions[1:], parts.regions[0]]
    return _structured(reader, parts, replace(op, attributes=(("cases", cases),)))


def _structured(reader: Reader, parts: Parts, op: Op) -> Op:
    """An operation each of whose regions hands over its results."""
    control.need(reader, parts.results, len(parts.result_types), parts.name, parts.start)
    op = replace(op, regions=tuple(parts.regions))
    return control.complete(reader, op, parts.results, parts.result_types, parts.start)


def _once(reader: Reader, parts: Parts, op: Op) -> Op:
    _regions(reader, parts, 1)
    return _structured(reader, parts, op)


def _while(reader: Reader, parts: Parts, op: Op) -> Op:
    _regions(reader, parts, 2)
    before, after = op.regions
    control.check_yield(reader, before, parts.result_types, "scf.while", "scf.condition")
    control.check_yield(reader, after, parts.types, "scf.while")
    results = _results(reader, parts)
    return replace(op, results=results)


def _fusion(reader: Reader, parts: Parts, op: Op) -> Op:
    _regions(reader, parts, 1)
    control.check_yield(reader, op.regions[0], parts.result_types, FUSION, FUSION_END)
    results = _results(reader, parts)
    return replace(op, results=results)


def _end(reader: Reader, parts: Parts, op: Op) -> Op:
    return op


def _section(reader: Reader, parts: Parts, op: Op) -> Op:
    _regions(reader, parts, 1)
    return op


def _strict_scope(reader: Reader, parts: Parts, op: Op) -> Op:
    _regions(reader, parts, 1)
    arguments = [a.type for a in op.regions[0].args]
    control.count(reader, arguments, len(parts.operands), "captured value", parts.start)
    return op


def _regions(reader: Reader, parts: Parts, expected: int) -> None:
    if len(parts.regions) != expected:
        reader.cursor.fail_since(
            parts.start, f"got {len(parts.regions)} region(s) of {parts.name}; allowed: {expected}"
        )


def _call(reader: Reader, parts: Parts, op: Op) -> Op:
    callee = parts.attributes.get("callee")
    if not isinstance(callee, Symbol):
        reader.cursor.fail_since(parts.start, "got a call without callee = @name")
    results = _results(reader, parts)
    return replace(op, results=results, attributes=(("callee", callee),))


def _branch(reader: Reader, parts: Parts, op: Op) -> Op:
    conditions = int(op.name == BRANCH_IF)
    sizes = parts.attributes.get(SEGMENTS)
    counts = (
        list(sizes)[conditions:] if isinstance(sizes, tuple) and conditions else [len(op.ins) - conditions]
    )
    if len(counts) != len(parts.successors) or len(counts) != 1 + conditions:
        reader.cursor.fail_since(
            parts.start,
            f"got {len(parts.successors)} block(s) of {op.name}; allowed: {1 + conditions}"
            + f", and {SEGMENTS} = array<i32: 1, ...> with the values of each" * conditions,
        )
    groups = [("condition", 1)] * conditions
    groups += [(f"to{i}", n) for i, n in enumerate(counts) if isinstance(n, int)]
    return replace(op, attributes=(("targets", tuple(parts.successors)),), groups=tuple(groups))


_READERS: dict[str, Callable[[Reader, Parts, Op], Op]] = {
    "arith.constant": _constant,
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "scf.execute_region": _once,
    "scf.index_switch": _switch,
    "call": _call,
    FUSION: _fusion,
    FUSION_END: _end,
    **dict.fromkeys(("section.cube", "section.vector", "vecscope"), _section),
    "strict_vecscope": _strict_scope,
    BRANCH: _branch,
    BRANCH_IF: _branch,
}


# -- functions -----------------------------------------------------------------------------------------


def read_function(reader: Reader) -> ir.Function:
    """``"func.func"() <{sym_name = "f", function_type = (T) -> ()}> ({ ... }) : () -> ()``."""
    c = reader.cursor
    start = c.start
    c.advance()
    span = c.span(start, c.last_end)
    reader.scopes = Scopes(c, open_names=False)
    parts = read_parts(reader, "func.func", [], start)
    result = parts.attributes
    name, kind = result.pop("sym_name", None), result.pop("function_type", None)
    private = result.pop("sym_visibility", None) == "private"
    if not isinstance(name, str) or not isinstance(kind, tuple) or len(parts.regions) != 1:
        c.fail_since(start, 'got a func.func without sym_name = "f", function_type = (T) -> () and a region')
    takes, gives = (tuple(t for t in part if isinstance(t, Type)) for part in kind if isinstance(part, tuple))
    (body,) = parts.regions
    external = private and not body.ops
    args = body.args
    if external:
        args = tuple(Value(f"arg{i}", t) for i, t in enumerate(takes))
    if tuple(a.type for a in args) != takes:
        c.fail_since(start, f"got the type of @{name} and block arguments of other types")
    attributes = ir.attrs(result)
    return ir.Function(name, args, replace(body, args=()), gives, attributes, private, span, external)


SEGMENTS = "operandSegmentSizes"
_Split = tuple[list[TileOperand], list[TileOperand]]


def read_generic(reader: Reader, head: TileOp) -> Op:
    """``"pto.tadd"(%a, %b, %d) <{...}> {...} : (T, T, T) -> ()``; the quoted name has been passed."""
    c = reader.cursor
    role = f"after the quoted name of {head.name}"
    operands = c.enclosed(lexer.Kind.L_PAREN, lambda: read_operand(reader), role)
    if c.kind is lexer.Kind.LESS:
        opened = c.open(lexer.Kind.LESS)
        reader.attributes.dictionary(head.attributes, head.places, head.name)
        c.close(lexer.Kind.GREATER, opened)
    if c.kind is lexer.Kind.L_BRACE:
        reader.attributes.dictionary(head.attributes, head.places, head.name)
    c.expect(lexer.Kind.COLON, "before the types of the generic form")
    start = c.start
    types = read_types(reader)
    c.expect(lexer.Kind.ARROW)
    result_types = read_types(reader)
    give_types(reader, head.name, operands, types, start)
    ins, outs = _segments(reader, head, operands)
    return finish(reader, head, ins, outs, result_types, "generic")


def _segments(reader: Reader, head: TileOp, operands: list[TileOperand]) -> _Split:
    """Sources in the order of an overload, and destinations."""
    sizes = head.attributes.pop(SEGMENTS, None)
    instruction = isa.find(head.name)
    assert instruction is not None
    if sizes is not None:
        if len(operands) == 3:
            tile_syntax.name_by_tiles(head, [operands[0], operands[2]])
            instruction = isa.instructions()[head.name]
        parts = segments_of(instruction)
        if head.results:
            results = {o.name for o in instruction.destinations}
            parts = tuple(part for part in parts if not results.intersection(part.operands))
        names = _sized(reader, head, parts, sizes, len(operands))
        quantising = isa.find(instruction.assembly.with_fp) if "fp" in names else None
        if quantising is not None:
            head.name, instruction = quantising.name, quantising
        return _split(instruction, names, operands)
    if instruction.trailing == 0 or head.results:
        return operands, []
    return _Assignment(reader, head, instruction, operands).split()


def segments_of(instruction: Instruction) -> tuple[Segment, ...]:
    """The segments of an instruction's operands.

    They are the declared ones, or each operand of the longest overload and its destinations.
    """
    form = max(instruction.forms, key=len)
    destinations = [o.name for o in instruction.destinations if not o.optional or o.beside is not None]
    names = dict.fromkeys((*form, *destinations))
    return instruction.assembly.generic or tuple(Segment(n, (n,)) for n in names)


def _sized(reader: Reader, head: TileOp, parts: tuple[Segment, ...], sizes: object, count: int) -> list[str]:
    """The operand that each of ``count`` values stands for by the sizes of the segments."""
    extents = sizes if isinstance(sizes, tuple) else ()
    if len(extents) < len(parts):
        parts = tuple(part for part in parts if not part.later)
    names: list[str] = []
    for part, n in zip(parts, extents, strict=False):
        names += part.operands[:n] if isinstance(n, int) and n >= 0 else ()
    whole = len(extents) == len(parts) and sum(n for n in extents if isinstance(n, int)) == count
    if not whole or len(names) != count:
        expected = ", ".join(part.name for part in parts)
        reader.cursor.fail_since(
            head.start,
            f"got {SEGMENTS} that do not divide {count} operands; allowed: one size for each of ({expected})",
        )
    return names


def _split(instruction: Instruction, names: list[str], operands: list[TileOperand]) -> _Split:
    """Sources and destinations; the sources in the order of the overload that has them, if one does."""
    written = {o.name for o in instruction.destinations}
    read = [n for n in names if n not in written]
    same = [list(f) for f in instruction.forms if sorted(f) == sorted(read)]
    form = read if read in same or not same else same[0]
    ins = [operands[names.index(n)] for n in form]
    return ins, [o for name, o in zip(names, operands, strict=True) if name in written]


class _Assignment:
    """The operands of an operation that gives no sizes of segments: one assignment must fit them."""

    def __init__(
        self, reader: Reader, head: TileOp, instruction: Instruction, operands: list[TileOperand]
    ) -> None:
        self.reader, self.head, self.instruction, self.operands = reader, head, instruction, operands
        self.parts = segments_of(instruction)
        #: The segment of an operand; the last one where several may hold it.
        self.segment = {name: i for i, part in enumerate(self.parts) for name in part.operands}

    def split(self) -> _Split:
        """Sources and destinations.

        Where no overload has as many operands, the instructions without segments of their own name their
        destinations last, and the verifier tells what is allowed.
        """
        lists = [n for n in self.overloads() if len(n) == len(self.operands)]
        fitting = [n for n in lists if self.fits(n)] or lists
        splits = [_split(self.instruction, names, self.operands) for names in fitting]
        if splits and all(s == splits[0] for s in splits):
            return splits[0]
        if not splits and not self.instruction.assembly.generic:
            cut = max(0, len(self.operands) - sum(not o.optional for o in self.instruction.destinations))
            return self.operands[:cut], self.operands[cut:]
        return self.refuse(fitting)

    def overloads(self) -> list[list[str]]:
        """The operands of each overload in the order of the generic form.

        First with all its destinations, then without the optional ones, where no list before has as many
        operands of these kinds.
        """
        lists: list[list[str]] = []
        required = [o.name for o in self.instruction.destinations if not o.optional]
        for form in self.instruction.forms:
            lists.append(self.ordered(form, [o.name for o in self.instruction.destinations_of(form)]))
        shorter = [self.ordered(form, required) for form in self.instruction.forms]
        taken = [n for n in lists if len(n) == len(self.operands) and self.fits(n)]
        return lists if taken else [*lists, *(n for n in shorter if n not in lists)]

    def ordered(self, form: tuple[str, ...], destinations: list[str]) -> list[str]:
        """The operands of an overload in the order of the generic form; none where it lacks one of them."""
        if not self.instruction.assembly.generic:
            return [*form, *destinations]
        allowed = {*form, *destinations}
        if not allowed <= self.segment.keys():
            return []
        return [
            n
            for i, part in enumerate(self.parts)
            for n in part.operands
            if n in allowed and self.segment[n] == i
        ]

    def fits(self, names: list[str]) -> bool:
        """Whether the operands are of the kinds that these declared ones have."""
        types = [o.written or self.reader.scopes.known_type(o.mention.name) for o in self.operands]
        return all(
            accepts(self.instruction.operand(n), t or UnknownType())
            for n, t in zip(names, types, strict=True)
        )

    def refuse(self, fitting: list[list[str]]) -> NoReturn:
        """Report operands that several overloads have, or none."""
        c, message = self.reader.cursor, f"got {len(self.operands)} operand(s) of {self.head.name}"
        lists = fitting or [n for n in self.overloads() if n]
        forms = " or ".join(dict.fromkeys(f"({', '.join(n)})" for n in lists))
        if fitting:
            sizes = " or ".join(dict.fromkeys(self.sizes(n) for n in fitting))
            expected = ", ".join(part.name for part in self.parts)
            message += f" that may be {forms}; allowed: {SEGMENTS} = {sizes}, the sizes of ({expected})"
        else:
            message += f"; allowed in the generic form without {SEGMENTS}: {forms}"
        c.fail_since(self.head.start, message)

    def sizes(self, names: list[str]) -> str:
        """The sizes of the segments that say which operands these are."""
        counts = [sum(self.segment[n] == i for n in names) for i, _ in enumerate(self.parts)]
        return f"array<i32: {', '.join(map(str, counts))}>"
