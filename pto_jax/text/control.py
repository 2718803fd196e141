"""Readers of constants, structured control flow, calls, sections, and branches between blocks.

A body of several blocks is one operation, whose regions are the blocks; ``labels`` are their names, and each
branch holds the labels that it leads to.
"""

import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..ir import (
    I1,
    INDEX,
    AttrValue,
    DType,
    MemRefType,
    Op,
    PartitionViewType,
    PtrType,
    Region,
    ScalarType,
    TensorViewType,
    TileType,
    Type,
    Value,
    VectorType,
)
from ..isa.traits import BRANCH, BRANCH_IF, FUSION, FUSION_END, GRAPH
from . import lexer, reader, type_text
from .lexer import Kind
from .reader import Mention, Reader

Results = list[Mention]
#: The largest constant vector; a splat of it is stored element by element.
MAX_ELEMENTS = 1 << 16


def read_constant(reader: Reader, results: Results, start: int) -> Op:
    """``arith.constant 8 : index``, ``true``, ``1.0 : f32``, ``dense<[1, 2]> : vector<2xi16>``."""
    value, written = constant_value(reader)
    need(reader, results, 1, "arith.constant", start)
    bound = define(reader, results, [written])
    reader.scopes.set_constant(bound[0], value)
    return Op(
        "arith.constant",
        results=bound,
        attributes=(("value", value),),
        span=reader.cursor.span(start, reader.cursor.last_end),
    )


def constant_value(reader: Reader) -> tuple[AttrValue, Type]:
    """The value of a constant, in the Python type of its PTO type, and that type."""
    c = reader.cursor
    value: AttrValue
    value_start = c.start
    raw = c.source[c.start : c.end]
    if c.kind is Kind.BARE_IDENT and c.text in ("true", "false"):
        value = c.take() == "true"
        written: Type = ScalarType(I1)
        if c.accept(Kind.COLON):
            written = reader.types.read()
    else:
        value = _dense(reader) if c.accept_word("dense") else _number(reader)
        c.expect(Kind.COLON, "before the type of the constant")
        written = reader.types.read()
    return _constant(reader, value, written, (value_start, raw)), written


#: Names of numbers that programs write by their bits.
_BY_BITS = {"inf": 0x7F800000, "infinity": 0x7F800000, "nan": 0x7FC00000}


def _number(reader: Reader) -> AttrValue:
    """A number; ParseError for what other languages write otherwise, with the spelling of this one."""
    c = reader.cursor
    start, negative = c.start, c.kind is Kind.MINUS
    word = c.peek()[1] if negative else c.source[c.start : c.end]
    bits = _BY_BITS.get(word.lower())
    if bits is not None:
        fix = f"0x{bits | negative << 31:08X} : f32"
        c.fail(f"got {word!r}", start=start, allowed="the bits of the number", fix=fix)
    value = c.number("a number, true, false or dense<...>")
    exponent = re.match(r"[eE][+-]?\d+", c.source[c.last_end :])
    if isinstance(value, int) and exponent:
        whole = c.source[start : c.last_end]
        fix = f"{whole}.0{exponent[0]}"
        c.fail(f"got {whole}{exponent[0]}", start=start, allowed="a decimal point", fix=fix)
    return value


def _dense(reader: Reader) -> tuple[AttrValue, ...]:
    c = reader.cursor
    opened = c.open(Kind.LESS, "after dense")
    if c.kind is Kind.L_SQUARE:
        items = c.enclosed(Kind.L_SQUARE, lambda: c.number("a number"))
    else:
        items = [c.number("a number or [numbers]")]
    c.close(Kind.GREATER, opened)
    return tuple(items)


def _constant(reader: Reader, value: AttrValue, t: Type, at: tuple[int, str]) -> AttrValue:
    """The value in the Python type that its PTO type asks for."""
    c = reader.cursor
    start, raw = at
    if isinstance(value, tuple):
        if not isinstance(t, VectorType):
            c.fail(f"got dense<...> of type {t}; allowed: a vector type", start=start)
        count = math.prod(t.dims)
        if count > MAX_ELEMENTS:
            c.fail(f"got a constant of {count} elements; allowed: at most {MAX_ELEMENTS}", start=start)
        if len(value) not in (1, count):
            c.fail(
                f"got {len(value)} numbers for {t}; allowed: one number, or one for each element",
                start=start,
            )
        items = tuple(_scalar(reader, v, t.dtype, start, "") for v in value)
        return items * count if len(items) == 1 else items
    if not isinstance(t, ScalarType):
        c.fail(f"got a number of type {t}; allowed: index, an integer or a float type", start=start)
    return _scalar(reader, value, t.dtype, start, raw)


def _scalar(reader: Reader, value: AttrValue, dtype: DType, start: int, raw: str) -> AttrValue:
    c = reader.cursor
    if isinstance(value, bool):
        if dtype.name != "i1":
            c.fail(f"got a truth value of type {dtype}; allowed: i1", start=start)
        return value
    if dtype.is_float:
        if isinstance(value, int) and raw[:2].lower() == "0x":
            return _float_of_bits(reader, value, dtype, start)
        if isinstance(value, int):
            got = f"got the integer {value} of type {dtype}"
            c.fail(got, start=start, allowed="a number with a decimal point", fix=f"{value}.0")
        return value
    if isinstance(value, float):
        c.fail(f"got a number with a decimal point of type {dtype}; allowed: an integer", start=start)
    if not isinstance(value, int):
        c.fail(f"got {value!r}; allowed: a number", start=start)
    if dtype.name == "i1":
        return value != 0
    bits = dtype.bits
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        allowed = f"{-(1 << (bits - 1))} to {(1 << bits) - 1}"
        c.fail(f"got {value}, which does not fit {dtype}", start=start, allowed=allowed)
    return value


def _float_of_bits(reader: Reader, bits: int, dtype: DType, start: int) -> float:
    """A float written as its bits; only these reach infinities and NaN."""
    codes = {"f16": ("<H", "<e"), "f32": ("<I", "<f"), "bf16": ("<I", "<f")}
    if dtype.name not in codes or not 0 <= bits < 1 << dtype.bits:
        reader.cursor.fail(f"got bits that do not fit {dtype}; allowed for f16, bf16 and f32", start=start)
    word, number = codes[dtype.name]
    raw = bits << 16 if dtype.name == "bf16" else bits
    value = float(struct.unpack(number, struct.pack(word, raw))[0])
    return math.nan if math.isnan(value) else value


# -- structured control flow -------------------------------------------------------------------------


def read_for(reader: Reader, results: Results, start: int) -> Op:
    """``scf.for %i = %lb to %ub step %s [iter_args(%a = %init) -> (T)] { ... }``."""
    c = reader.cursor
    variable = reader.mention()
    c.expect(Kind.EQUAL)
    bounds = [reader.mention()]
    for word, usual in (("to", "%c16"), ("step", "%c1")):
        if not c.accept_word(word):
            c.fail(f"got {c.found()}", allowed=f"'{word}'", fix=f"{word} {usual}")
        bounds.append(reader.mention())
    carried: list[tuple[Mention, Mention]] = []
    types: list[Type] = []
    if c.accept_word("iter_args"):
        carried = _assignments(reader)
        c.expect(Kind.ARROW, "before the types of the carried values")
        types = reader.type_list()
        count(reader, types, len(carried), "carried value", start)
    counter: Type = ScalarType(INDEX)
    if c.accept(Kind.COLON):
        counter = reader.types.read()
    ins = [reader.scopes.use(b, counter) for b in bounds]
    ins += [reader.scopes.use(m, t) for (_, m), t in zip(carried, types, strict=True)]
    need(reader, results, len(types), "scf.for", start)
    args = [(variable, counter), *((m, t) for (m, _), t in zip(carried, types, strict=True))]
    groups = (("lb", 1), ("ub", 1), ("step", 1), ("inits", len(carried)))
    body, entries = reader.region(args), dict[str, AttrValue]()
    if c.kind is Kind.L_BRACE:
        reader.attributes.dictionary(entries, {}, None)
    attributes = tuple(sorted(entries.items()))
    loop = Op("scf.for", ins=tuple(ins), regions=(body,), groups=groups, attributes=attributes)
    return complete(reader, loop, results, types, start)


def _assignments(reader: Reader) -> list[tuple[Mention, Mention]]:
    c = reader.cursor

    def pair() -> tuple[Mention, Mention]:
        name = reader.mention()
        c.expect(Kind.EQUAL)
        return name, reader.mention()

    return c.enclosed(Kind.L_PAREN, pair)


def read_if(reader: Reader, results: Results, start: int) -> Op:
    """``[%r =] scf.if %c [-> (T)] { ... } [else { ... }]``."""
    c = reader.cursor
    condition = reader.scopes.use(reader.mention(), ScalarType(I1))
    types = reader.type_list() if c.accept(Kind.ARROW) else []
    need(reader, results, len(types), "scf.if", start)
    regions = [reader.region([])]
    if c.accept_word("else"):
        regions.append(reader.region([]))
    elif types:
        c.unexpected("'else' (an scf.if with results has both branches)")
    branch = Op("scf.if", ins=(condition,), regions=tuple(regions))
    return complete(reader, branch, results, types, start)


def read_while(reader: Reader, results: Results, start: int) -> Op:
    """``scf.while (%a = %i) : (T) -> (T) { ... scf.condition } do { ^bb0(%b: T): ... scf.yield }``."""
    c = reader.cursor
    carried = _assignments(reader) if c.kind is Kind.L_PAREN else []
    c.expect(Kind.COLON, "before the types of the carried values")
    before_types = reader.type_list()
    count(reader, before_types, len(carried), "carried value", start)
    c.expect(Kind.ARROW)
    after_types = reader.type_list()
    need(reader, results, len(after_types), "scf.while", start)
    ins = [reader.scopes.use(m, t) for (_, m), t in zip(carried, before_types, strict=True)]
    before = reader.region([(m, t) for (m, _), t in zip(carried, before_types, strict=True)])
    check_yield(reader, before, after_types, "scf.while", "scf.condition")
    c.expect_word("do")
    after = reader.region([], label=True)
    check_yield(reader, after, before_types, "scf.while")
    return Op(
        "scf.while",
        ins=tuple(ins),
        results=define(reader, results, after_types),
        regions=(before, after),
        span=c.span(start, c.last_end),
    )


def read_execute_region(reader: Reader, results: Results, start: int) -> Op:
    """``[%r =] scf.execute_region [-> (T)] { ... scf.yield }``."""
    c = reader.cursor
    types = reader.type_list() if c.accept(Kind.ARROW) else []
    need(reader, results, len(types), "scf.execute_region", start)
    op = Op("scf.execute_region", regions=(reader.region([]),))
    return complete(reader, op, results, types, start)


def read_index_switch(reader: Reader, results: Results, start: int) -> Op:
    """``[%r =] scf.index_switch %i [-> (T)] case 2 { ... } ... default { ... }``.

    The last region is the default's.
    """
    c = reader.cursor
    index = reader.scopes.use(reader.mention(), ScalarType(INDEX))
    types = reader.type_list() if c.accept(Kind.ARROW) else []
    need(reader, results, len(types), "scf.index_switch", start)
    cases: list[int] = []
    regions: list[Region] = []
    while c.at_word("case"):
        c.advance()
        at = c.start
        number = c.integer("the number of the case")
        if number in cases:
            c.fail_since(at, f"got a second case {number}; allowed: one of each number")
        cases.append(number)
        regions.append(reader.region([]))
    c.expect_word("default")
    regions.append(reader.region([]))
    attributes = (("cases", tuple(cases)),)
    op = Op("scf.index_switch", ins=(index,), attributes=attributes, regions=tuple(regions))
    return complete(reader, op, results, types, start)


def read_fusion(reader: Reader, results: Results, start: int) -> Op:
    """``[%r =] pto.fusion_region { ... pto.yield(%v) : (T) -> () } [: T]``."""
    c = reader.cursor
    region = reader.region([])
    types = [reader.types.read()] if c.accept(Kind.COLON) else []
    while types and c.accept(Kind.COMMA):
        types.append(reader.types.read())
    need(reader, results, len(types), FUSION, start)
    check_yield(reader, region, types, FUSION, FUSION_END)
    return Op(
        FUSION,
        results=define(reader, results, types),
        regions=(region,),
        span=c.span(start, c.last_end),
    )


def read_fusion_end(reader: Reader, results: Results, start: int) -> Op:
    """``pto.yield(%v) : (T) -> ()``."""
    c = reader.cursor
    opened = c.open(Kind.L_PAREN)
    mentions = reader.mentions()
    c.close(Kind.R_PAREN, opened)
    c.expect(Kind.COLON, "before the types of the values")
    types = reader.type_list()
    count(reader, types, len(mentions), "value", start)
    c.expect(Kind.ARROW)
    reader.type_list()
    ins = tuple(reader.scopes.use(m, t) for m, t in zip(mentions, types, strict=True))
    return Op(FUSION_END, ins=ins, span=c.span(start, c.last_end))


def complete(reader: Reader, op: Op, results: Results, types: list[Type], start: int) -> Op:
    """The operation with its results, which each of its regions hands over, and its place."""
    for region in op.regions:
        check_yield(reader, region, types, op.name)
    span = reader.cursor.span(start, reader.cursor.last_end)
    regions = tuple(map(_without_end, op.regions))
    return replace(op, regions=regions, results=define(reader, results, types), span=span)


def _without_end(region: Region) -> Region:
    """A region without the ``scf.yield`` of nothing that may stand at its end."""
    ends = region.ops and region.ops[-1].name == "scf.yield" and not region.ops[-1].ins
    return replace(region, ops=region.ops[:-1]) if ends else region


def check_yield(
    reader: Reader, region: Region, types: Sequence[Type], parent: str, terminator: str = "scf.yield"
) -> None:
    """The last operation of a branch or body hands over what the results need."""
    c = reader.cursor
    last = region.ops[-1] if region.ops else None
    if last is None or last.name != terminator:
        if types or terminator != "scf.yield":
            message = f"got a region of {parent} that does not end with {terminator}"
            c.fail_since(c.last_end - 1, f"{message}; allowed: {terminator} as its last operation")
        return
    got = [v.type for v in (last.ins[1:] if terminator == "scf.condition" else last.ins)]
    if len(got) != len(types) or any(g != t for g, t in zip(got, types, strict=True)):
        text = ", ".join(str(t) for t in got) or "nothing"
        expected = ", ".join(str(t) for t in types) or "nothing"
        place = last.span
        begin = c.last_end - 1 if place is None else reader.position(place)
        c.fail(
            f"got {terminator} of ({text}); {parent} takes ({expected}) here",
            start=begin,
            end=begin + (place.length if place else 1),
        )


def read_section(name: str) -> Callable[[Reader, Results, int], Op]:
    """The reader of ``pto.section.cube { ... }`` or ``pto.section.vector { ... }``."""

    def read(reader: Reader, results: Results, start: int) -> Op:
        need(reader, results, 0, name, start)
        region = reader.region([])
        return Op(name, regions=(region,), span=reader.cursor.span(start, reader.cursor.last_end))

    return read


def read_strict_scope(reader: Reader, results: Results, start: int) -> Op:
    """``pto.strict_vecscope(%a, %b) { ^bb0(%x: T, %y: U): ... } : (T, U) -> ()``."""
    c = reader.cursor
    opened = c.open(Kind.L_PAREN, "before the captured values")
    captured = reader.mentions()
    c.close(Kind.R_PAREN, opened)
    region = reader.region([], label=True, isolated=True)
    c.expect(Kind.COLON, "before the types of the captured values")
    types = reader.type_list()
    c.expect(Kind.ARROW)
    reader.type_list()
    count(reader, types, len(captured), "captured value", start)
    count(reader, [a.type for a in region.args], len(captured), "captured value", start)
    need(reader, results, 0, "strict_vecscope", start)
    ins = tuple(reader.scopes.use(m, t) for m, t in zip(captured, types, strict=True))
    return Op("strict_vecscope", ins=ins, regions=(region,), span=c.span(start, c.last_end))


def read_call(reader: Reader, results: Results, start: int) -> Op:
    """``[%r =] func.call @f(%a) : (T) -> (R)``."""
    c = reader.cursor
    callee = reader.attributes.symbol()
    opened = c.open(Kind.L_PAREN, "after the name of the function")
    arguments = reader.mentions()
    c.close(Kind.R_PAREN, opened)
    c.expect(Kind.COLON, "before the type of the call")
    types = reader.type_list()
    c.expect(Kind.ARROW)
    result_types = reader.type_list()
    count(reader, types, len(arguments), "argument", start)
    need(reader, results, len(result_types), "call", start)
    return Op(
        "call",
        ins=tuple(reader.scopes.use(m, t) for m, t in zip(arguments, types, strict=True)),
        results=define(reader, results, result_types),
        attributes=(("callee", callee),),
        span=c.span(start, c.last_end),
    )


def count(reader: Reader, types: list[Type], expected: int, what: str, start: int) -> None:
    """So many types as values were named."""
    if len(types) != expected:
        reader.cursor.fail_since(start, f"got {len(types)} type(s) for {expected} {what}(s)")


def need(reader: Reader, results: Results, available: int, name: str, start: int) -> None:
    """As many names are bound as the operation has results (or none)."""
    if results and len(results) != available:
        reader.cursor.fail(
            f"got {len(results)} name(s) for the {available} result(s) of {name}",
            start=results[0].start,
            end=start,
        )


def define(reader: Reader, results: Results, types: list[Type]) -> tuple[Value, ...]:
    """The results of an operation under the names that the text binds, if it does."""
    results = results or [reader.unused() for _ in types]
    return tuple(reader.scopes.define(m, t) for m, t in zip(results, types, strict=True))


CONTROL: dict[str, Callable[[Reader, Results, int], Op]] = {
    "arith.constant": read_constant,
    "scf.for": read_for,
    "scf.if": read_if,
    "scf.while": read_while,
    "scf.execute_region": read_execute_region,
    "scf.index_switch": read_index_switch,
    "call": read_call,
    FUSION: read_fusion,
    FUSION_END: read_fusion_end,
    "vecscope": read_section("vecscope"),
    "strict_vecscope": read_strict_scope,
    "section.cube": read_section("section.cube"),
    "section.vector": read_section("section.vector"),
}


_Target = tuple[str, list[Value]]
_HANDLES = TileType | PtrType | TensorViewType | PartitionViewType | MemRefType


def read_branch(reader: Reader, results: list[reader.Mention], start: int) -> Op:
    """``cf.br ^next(%a, %b : T, T)``."""
    label, values = _target(reader)
    return _branch(reader, BRANCH, (), [(label, values)], start)


def read_branch_if(reader: Reader, results: list[reader.Mention], start: int) -> Op:
    """``cf.cond_br %c, ^then(%a : T), ^else``."""
    c = reader.cursor
    condition = reader.scopes.use(reader.mention(), ScalarType(I1))
    c.expect(lexer.Kind.COMMA, "before the block of a true condition")
    first = _target(reader)
    c.expect(lexer.Kind.COMMA, "before the block of a false condition")
    return _branch(reader, BRANCH_IF, (condition,), [first, _target(reader)], start)


def _target(reader: Reader) -> _Target:
    c = reader.cursor
    label = c.expect(lexer.Kind.CARET_IDENT, "a block")[1:]
    if c.kind is not lexer.Kind.L_PAREN:
        return label, []
    opened = c.open(lexer.Kind.L_PAREN)
    mentions = reader.mentions()
    c.expect(lexer.Kind.COLON, "before the types of the values")
    types = c.listed(reader.types.read, lexer.Kind.R_PAREN)
    if len(types) != len(mentions):
        c.fail(f"got {len(types)} type(s) for {len(mentions)} value(s)", start=opened, end=c.start)
    c.close(lexer.Kind.R_PAREN, opened)
    return label, [reader.scopes.use(m, t) for m, t in zip(mentions, types, strict=True)]


def _branch(
    reader: Reader, name: str, condition: tuple[Value, ...], targets: list[_Target], start: int
) -> Op:
    groups = [("condition", len(condition))] if condition else []
    groups += [(f"to{i}", len(values)) for i, (_, values) in enumerate(targets)]
    return Op(
        name,
        ins=(*condition, *(v for _, values in targets for v in values)),
        attributes=(("targets", tuple(label for label, _ in targets)),),
        groups=tuple(groups),
        span=reader.cursor.span(start, reader.cursor.last_end),
    )


def read_blocks(reader: Reader, first: list[Op]) -> Op:
    """The blocks of a body whose first block has just been read, at the label of the second one."""
    c = reader.cursor
    start = c.start
    labels, regions = [""], [Region(tuple(first))]
    while c.at(lexer.Kind.CARET_IDENT):
        at = c.start
        label = c.take()[1:]
        if label in labels:
            c.fail_since(at, f"got a second block ^{label}; allowed: one of each name")
        args: list[Value] = []
        if c.at(lexer.Kind.L_PAREN):
            args = c.enclosed(lexer.Kind.L_PAREN, reader.argument)
        c.expect(lexer.Kind.COLON, "after the block label")
        ops: list[Op] = []
        while c.kind not in (lexer.Kind.R_BRACE, lexer.Kind.CARET_IDENT, lexer.Kind.EOF):
            ops.append(reader.statement())
            reader.location()
        labels.append(label)
        regions.append(Region(tuple(ops), tuple(args)))
    for op in (op for region in regions for op in region.ops):
        targets = op.attrs.get("targets")
        for target in targets if op.name in (BRANCH, BRANCH_IF) and isinstance(targets, tuple) else ():
            if target not in labels[1:]:
                position = reader.position(op.span) if op.span is not None else start
                blocks = ", ".join(f"^{n}" for n in labels[1:])
                c.fail(f"got a branch to the unknown block ^{target}; allowed: {blocks}", start=position)
    return Op(
        GRAPH, regions=tuple(regions), attributes=(("labels", tuple(labels)),), span=c.span(start, c.last_end)
    )


def selection(op: Op) -> Op:
    r"""An operation; the selection of one of two tiles, pointers or views as the branch that hands it on.

    >>> from pto_jax.text import parse
    >>> body = "%r = arith.select %c, %a, %b : !pto.ptr<f32>"
    >>> parse(body).functions[0].body.ops[0].name, str(parse(body)) == body + "\n"
    ('scf.if', True)
    """
    if op.name != "arith.select" or not isinstance(op.ins[1].type, _HANDLES):
        return op
    ends = [Op("scf.yield", ins=(v,), span=op.span) for v in op.ins[1:]]
    regions = tuple(Region((end,)) for end in ends)
    return replace(op, name="scf.if", ins=op.ins[:1], regions=regions, groups=(), form="select")


def selected(op: Op) -> tuple[Value, Value] | None:
    """The two handles of a branch that was written as a selection, None where it is none (any more)."""
    if op.form != "select" or len(op.results) != 1:
        return None
    ends = [r.ops[0] if len(r.ops) == 1 else None for r in op.regions]
    handed = [e.ins for e in ends if e is not None and e.name == "scf.yield" and len(e.ins) == 1]
    return (handed[0][0], handed[1][0]) if len(handed) == 2 else None


def branch_text(op: Op) -> str:
    """A branch as programs write it."""
    targets = op.attrs["targets"]
    operands = [f"{v}" for v in op.group("condition")]
    for i, label in enumerate(targets if isinstance(targets, tuple) else ()):
        values = op.group(f"to{i}")
        types = ", ".join(type_text.print_type(v.type) for v in values)
        operands.append(f"^{label}" + (f"({', '.join(map(str, values))} : {types})" if values else ""))
    return f"{op.name} {', '.join(operands)}"


def block_heads(op: Op) -> Iterator[tuple[str, Region]]:
    """The line that opens each block ("" for the first one), and its region."""
    labels = op.attrs["labels"]
    for label, region in zip(labels if isinstance(labels, tuple) else (), op.regions, strict=True):
        args = ", ".join(f"{a}: {type_text.print_type(a.type)}" for a in region.args)
        yield (f"^{label}" + (f"({args})" if args else "") + ":") if label else "", region
