"""Reader of tile instructions in assembly, SSA, destination-passing and generic syntax.

``ins(...)`` may hold parameter clauses and axes besides operands and their types, and a type list may be
shorter than the operands.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from .. import errors, ir, isa
from ..ir import AttrValue, Loc, ScalarType, TileType, Type, UnknownType
from . import dictionaries, lexer, reader
from .lexer import Kind
from .names import assembly, trailing
from .reader import Reader

Maybe = Type | None


def takes_scalar(name: str, index: int, count: int) -> bool | None:
    """Whether read operand ``index`` of ``count`` is a scalar by declaration; None when that is open."""
    declaration = isa.find(name)
    if declaration is None:
        return None
    kinds = {
        declaration.operand(form[index]).kind in ("scalar", "index")
        for form in declaration.forms
        if len(form) == count
    }
    return kinds.pop() if len(kinds) == 1 else None


def is_scalar(t: Maybe) -> bool:
    """Whether a type, as far as it is known, is that of a scalar."""
    return isinstance(t, ScalarType) or (isinstance(t, UnknownType) and t.kind == "scalar")


def distribute(
    name: str, written: Sequence[Type], types: Sequence[Maybe], destinations: int = 0
) -> list[Maybe] | None:
    """The written type of each operand, None for operands without one.

    ``types`` has the type of each operand as far as its definition gives it; the first
    ``destinations`` operands are destinations. A single type is the type of every tile, also where the only
    operand is a scalar. Returns None when the number of types fits no reading.
    """
    count = len(types)
    of_result = (
        count == 1 and not destinations and not is_scalar(types[0]) and not any(map(is_scalar, written))
    )
    if len(written) == count and not (of_result and takes_scalar(name, 0, 1)):
        return list(written)
    if not written:
        return [None] * count
    if len(written) > 1:
        return None
    only = written[0]
    out: list[Maybe] = []
    for i, definition in enumerate(types):
        scalar = takes_scalar(name, i - destinations, count - destinations) if i >= destinations else False
        if scalar is None:
            scalar = is_scalar(definition)
        out.append(only if scalar == is_scalar(only) else None)
    return out


@dataclass
class TileOperand:
    """An operand mention with the indices behind it and the type written for it."""

    mention: reader.Mention
    indices: list[reader.Mention] = field(default_factory=list)
    written: Maybe = None
    index_types: list[Type] = field(default_factory=list)


@dataclass
class TileOp:
    """What the spellings have in common while an instruction is read."""

    name: str
    results: list[reader.Mention]
    start: int
    attributes: dict[str, AttrValue] = field(default_factory=dict)
    places: dictionaries.Places = field(default_factory=dict)
    #: The names of its sources, where the text says which they are.
    named: tuple[str, ...] = ()
    without_tmp: bool = False


def read_operand(reader: Reader) -> TileOperand:
    """``%v`` or ``%v[%r, %c]``."""
    c = reader.cursor
    operand = TileOperand(reader.mention())
    if c.kind is lexer.Kind.L_SQUARE:
        opened = c.open(lexer.Kind.L_SQUARE)
        operand.indices = reader.mentions()
        c.close(lexer.Kind.R_SQUARE, opened)
    return operand


#: Clauses behind the sources with one parameter each, which stands behind the first source otherwise.
_PARAMETERS = ("fp", "pre_quant")


def parameter_clauses(reader: Reader, head: TileOp, operands: list[TileOperand]) -> list[TileOperand]:
    """``fp %fp : T`` and ``pre_quant %word : i64`` behind the types."""
    c = reader.cursor
    with_fp = assembly(head.name).with_fp
    while c.kind is lexer.Kind.BARE_IDENT and c.text in _PARAMETERS and with_fp:
        fp = c.take() == "fp"
        operand = read_operand(reader)
        c.expect(lexer.Kind.COLON, "and the type of the parameter")
        operand.written = reader.types.read()
        operands = [*operands[:1], operand, *operands[1:]]
        head.name = with_fp if fp else head.name
    return operands


def name_by_tiles(head: TileOp, operands: list[TileOperand]) -> None:
    """A move with a second tile is another instruction, unless that tile holds parameters of the first.

    Parameters are in the scaling buffer, or belong to an accumulator.
    """
    tiles = [o.written for o in operands if isinstance(o.written, TileType)]
    other = assembly(head.name).with_tmp
    if other and len(tiles) == len(operands) == 2:
        first, second = tiles
        if first.loc != Loc.ACC and second.loc != Loc.SCALING:
            head.name = other


def parameter_first(operands: list[TileOperand], types: list[Type]) -> None:
    """A 64-bit parameter word that stands behind two indices belongs behind the first source."""
    names = [t.dtype.name if isinstance(t, ScalarType) else "" for t in types]
    if names[1:3] == ["index", "index"] and names[3:] in (["i64"], ["u64"]):
        operands.insert(1, operands.pop())
        types.insert(1, types.pop())


def read_axis(reader: Reader, head: TileOp) -> None:
    """``"row"`` or ``"col"`` behind the types: what a mask packs or spreads."""
    c = reader.cursor
    start, span = c.start, c.here()
    word = c.string("an axis")
    declared = dictionaries.declared_attribute(head.name, "axis")
    axes = declared.type if declared is not None and issubclass(declared.type, IntEnum) else ()
    members = {m.name.rpartition("_")[2].lower(): m for m in axes}
    if word not in members:
        c.fail_since(start, f"got the axis '{word}'; allowed: {', '.join(members) or 'none'}")
    reader.attributes.store(
        head.attributes, head.places, head.name, "axis", members[word], (start, span, start)
    )


_VIEWS = (ir.TensorViewType, ir.PartitionViewType, ir.MemRefType, ir.PtrType)


def read_tile_op(reader: Reader, head: TileOp, *, prefixed: bool) -> ir.Op:
    """Read the instruction whose name has just been passed."""
    c = reader.cursor
    if c.kind is Kind.LESS and not head.results:
        _operation_argument(reader, head)
    if c.kind is Kind.BARE_IDENT and c.text in ("ins", "outs") and c.peek()[0] is Kind.L_PAREN:
        return _read_dps(reader, head)
    return _read_assembly(reader, head, prefixed=prefixed)


def _operation_argument(reader: Reader, head: TileOp) -> None:
    """``pto.tsync<TADD>``: the instruction class to wait for."""
    c = reader.cursor
    opened, span = c.start, c.here()
    c.advance()
    start = c.start
    word = c.expect(Kind.BARE_IDENT, "an instruction name")
    c.close(Kind.GREATER, opened)
    reader.attributes.store(head.attributes, head.places, head.name, "op", word, (opened, span, start))


# -- destination-passing form ------------------------------------------------------------------------


def _read_dps(reader: Reader, head: TileOp) -> ir.Op:
    c = reader.cursor
    ins = _clause(reader, head) if c.accept_word("ins") else []
    name_by_tiles(head, ins)
    outs = _clause(reader, head, written=True) if c.accept_word("outs") else []
    spelled = assembly(head.name)
    if spelled.scratch == "behind" and len(outs) == 2:
        ins.append(outs.pop())
        head.named = (*spelled.counted[: len(ins) - 1], "tmp")
    elif head.without_tmp:
        head.named = spelled.counted[: len(ins)]
    if c.kind is Kind.L_BRACE:
        reader.attributes.dictionary(head.attributes, head.places, head.name)
    result_types: list[ir.Type] = []
    if c.accept(Kind.ARROW):
        result_types = read_types(reader)
    return finish(reader, head, ins, outs, result_types, "dps")


def _clause(reader: Reader, head: TileOp, *, written: bool = False) -> list[TileOperand]:
    """``(%a, %b {key = value} : T, T)``, or every operand with its own type.

    ``written`` says that the operands are destinations.
    """
    c = reader.cursor
    opened = c.open(Kind.L_PAREN)
    operands: list[TileOperand] = []
    typed = 0
    while c.kind is not Kind.R_PAREN:
        if c.kind is Kind.PERCENT_IDENT:
            operands.append(read_operand(reader))
        elif c.kind is Kind.L_BRACE:
            reader.attributes.dictionary(head.attributes, head.places, head.name)
        elif assembly(head.name).scratch == "no_tmp" and c.accept_word("no_tmp"):
            head.without_tmp = True
            continue
        elif c.kind is not Kind.COLON or len(operands) == typed:
            c.unexpected("a value '%name'" + (", ':' and types, or ')'" if operands else ""))
        if c.accept(Kind.COLON):
            part = operands[typed:]
            more = _clause_types(reader, head, part, written)
            operands[typed:] = part
            typed = len(operands)
            if not written:
                operands = parameter_clauses(reader, head, operands)
            if not more:
                break
        elif not (c.accept(Kind.COMMA) or c.at_word("no_tmp")) and c.kind not in (Kind.L_BRACE, Kind.R_PAREN):
            c.unexpected("',', ':' and types, or ')'")
    c.close(Kind.R_PAREN, opened)
    return operands


def _clause_types(reader: Reader, head: TileOp, operands: list[TileOperand], written: bool) -> bool:
    """The types after a colon; whether a comma and a further value follow them."""
    c = reader.cursor
    start = c.start
    types = [reader.types.read()]
    more = False
    while not more and c.accept(Kind.COMMA):
        more = c.kind is Kind.PERCENT_IDENT
        if c.kind is Kind.STRING_LIT:
            read_axis(reader, head)
        elif not more:
            types.append(reader.types.read())
    if assembly(head.name).with_fp and len(types) == len(operands) == 4:
        parameter_first(operands, types)
    destinations = len(operands) if written else 0
    give_types(reader, head.name, operands, types, start, destinations=destinations)
    return more


# -- assembly and SSA form ---------------------------------------------------------------------------


def _read_assembly(reader: Reader, head: TileOp, *, prefixed: bool) -> ir.Op:
    c = reader.cursor
    operands: list[TileOperand] = []
    while c.kind is Kind.PERCENT_IDENT and (operands or c.peek()[0] not in (Kind.EQUAL,)):
        operands.append(read_operand(reader))
        if not c.accept(Kind.COMMA):
            break
        if c.kind not in (Kind.PERCENT_IDENT, Kind.L_BRACE):
            c.unexpected("a value '%name'")
    _assembly_attributes(reader, head)
    start, types = c.start, list[ir.Type]()
    result_types: list[ir.Type] = []
    if c.accept(Kind.COLON):
        start = c.start
        types = read_types(reader)
        if c.accept(Kind.ARROW):
            result_types = read_types(reader)
    _assembly_attributes(reader, head)
    if head.results or trailing(head.name) is not None:
        return _with_results(reader, head, operands, (types, result_types, start), prefixed=prefixed)
    return _destination_first(reader, head, operands, (types, result_types, start))


def _assembly_attributes(reader: Reader, head: TileOp) -> None:
    c = reader.cursor
    while True:
        if c.kind is Kind.L_BRACE:
            reader.attributes.dictionary(head.attributes, head.places, head.name)
        elif c.kind is Kind.HASH_IDENT and c.peek()[0] is Kind.EQUAL:
            reader.attributes.trailing(head.attributes, head.places, head.name)
            c.accept(Kind.COMMA)
        else:
            return


_Types = tuple[list[ir.Type], list[ir.Type], int]


def _with_results(
    reader: Reader, head: TileOp, operands: list[TileOperand], typed: _Types, *, prefixed: bool
) -> ir.Op:
    types, result_types, start = typed
    surplus = len(types) - len(operands)
    if head.results and not result_types and surplus == len(head.results) and types:
        types, result_types = types[: len(operands)], types[len(operands) :]
    elif head.results and not result_types and len(types) == 1 and not is_scalar(types[0]):
        result_types = [ir.UnknownType() if v else types[0] for v in _vectors(head)]
    if assembly(head.name).destination_second and not head.results and not prefixed:
        operands, types = _destination_last(reader, operands, types)
    give_types(reader, head.name, operands, types, start)
    destinations = 0 if head.results else trailing(head.name) or 0
    if len(operands) < destinations:
        reader.cursor.fail_since(
            head.start, f"got {head.name} without operands; it names its sources and then a destination"
        )
    cut = len(operands) - destinations
    form: ir.Form = "ssa" if prefixed else "as"
    return finish(reader, head, operands[:cut], operands[cut:], result_types, form)


def _destination_last(
    reader: Reader, operands: list[TileOperand], types: list[ir.Type]
) -> tuple[list[TileOperand], list[ir.Type]]:
    """Operands and types of the assembly spelling with the destination, a view, moved behind the sources.

    Documentation writes ``%src, %mem, %idx`` and the type of the view first.
    """
    mention_types = [reader.scopes.known_type(o.mention.name) for o in operands]
    if len(types) == len(operands):
        mention_types = [k or t for k, t in zip(mention_types, types, strict=True)]
    views = [i for i, t in enumerate(mention_types) if isinstance(t, _VIEWS)]
    second = not views or views == [1] or (views == [0] and len(operands) > 1)
    if len(operands) < 2 or not second:
        return operands, types
    if len(types) == len(operands):
        at = next((i for i, t in enumerate(types) if isinstance(t, _VIEWS)), 1)
        types = [*types[:at], *types[at + 1 :], types[at]]
    return [operands[0], *operands[2:], operands[1]], types


def _vectors(head: TileOp) -> list[bool]:
    """For each bound result whether it is a vector, which a type of tiles says nothing about."""
    instruction = isa.find(head.name)
    kinds = [o.kind for o in instruction.destinations] if instruction is not None else []
    return [i < len(kinds) and kinds[i] == "vector" for i in range(len(head.results))]


def _destination_first(reader: Reader, head: TileOp, operands: list[TileOperand], typed: _Types) -> ir.Op:
    types, result_types, start = typed
    if not operands:
        reader.cursor.fail_since(
            head.start,
            f"got '{head.name}' without operands and without a result; allowed: "
            f"'%d = {head.name} %a ...', '{head.name} %d, %a ...' or '{head.name} ins(...) outs(...)'",
        )
    if len(result_types) == 1 and len(types) == len(operands) - 1:
        types, result_types = [*result_types, *types], []
    if len(result_types) > 1:
        reader.cursor.fail_since(
            head.start, f"got {len(result_types)} result types for an instruction without a bound result"
        )
    give_types(reader, head.name, operands, types, start, destinations=1)
    if result_types:
        reader.scopes.use(operands[0].mention, result_types[0])
    return finish(reader, head, operands[1:], operands[:1], [], "as_dst")


def read_types(reader: Reader) -> list[ir.Type]:
    """``T, T``, ``(T, T)`` or ``()``."""
    c = reader.cursor
    is_list = c.kind is Kind.L_PAREN
    types = reader.type_list()
    while not is_list and c.accept(Kind.COMMA):
        types.append(reader.types.read())
    return types


# -- shared ------------------------------------------------------------------------------------------


def give_types(
    reader: Reader,
    name: str,
    operands: list[TileOperand],
    types: list[ir.Type],
    start: int,
    *,
    destinations: int = 0,
) -> None:
    """Attach written types to operands; a list may also name the types of the indices."""
    flat = sum(1 + len(o.indices) for o in operands)
    if len(types) == flat and flat != len(operands):
        rest = list(types)
        for operand in operands:
            operand.written = rest.pop(0)
            operand.index_types = [rest.pop(0) for _ in operand.indices]
        return
    mention_types = [reader.scopes.known_type(o.mention.name) for o in operands]
    full = distribute(name, types, mention_types, destinations)
    if full is None:
        reader.cursor.fail_since(
            start,
            f"got {len(types)} type(s) for {len(operands)} operand(s) of {name}; allowed: one type for "
            "each operand, or one for all tiles",
        )
    for operand, written in zip(operands, full, strict=True):
        operand.written = written


def finish(
    reader: Reader,
    head: TileOp,
    ins: list[TileOperand],
    outs: list[TileOperand],
    result_types: list[ir.Type],
    form: ir.Form,
) -> ir.Op:
    """The operation of a tile instruction whose parts are read; looks up its uses, defines its results."""
    c = reader.cursor
    span = c.span(head.start, c.last_end)
    if form == "as_dst":
        written = [reader.scopes.use(o.mention, o.written) for o in outs]
        read = [reader.scopes.use(o.mention, o.written) for o in ins]
    else:
        read = [reader.scopes.use(o.mention, o.written) for o in ins]
        written = [reader.scopes.use(o.mention, o.written) for o in outs]
    indices = [_index(reader, o, i) for o in (*ins, *outs) for i in range(len(o.indices))]
    groups = tuple((name, 1) for name in head.named) if len(head.named) == len(ins) else ()
    if indices and assembly(head.name).indexed:
        groups = _index_groups(reader, head, len(ins), len(indices), span)
    attributes, implied = reader.completed(head.name, head.attributes)
    return ir.Op(
        head.name,
        ins=(*read, *indices),
        outs=tuple(written),
        results=_define(reader, head, result_types),
        attributes=attributes,
        groups=groups,
        form=form,
        span=span,
        implied=implied,
    )


def _index_groups(
    reader: Reader, head: TileOp, sources: int, indices: int, span: errors.Span
) -> tuple[tuple[str, int], ...]:
    names = assembly(head.name).indexed
    if sources != len(names):
        reader.cursor.fail(
            f"got {sources} source operand(s) beside the indices; allowed: {', '.join(names)}",
            start=head.start,
            end=head.start + span.length,
        )
    return (*((name, 1) for name in names), ("offsets", indices))


def _index(reader: Reader, operand: TileOperand, i: int) -> ir.Value:
    written = operand.index_types[i] if operand.index_types else None
    return reader.scopes.use(operand.indices[i], written, ir.ScalarType(ir.INDEX))


def _define(reader: Reader, head: TileOp, types: Sequence[ir.Type]) -> tuple[ir.Value, ...]:
    c = reader.cursor
    if len(types) > len(head.results) or (types and len(types) != len(head.results)):
        c.fail_since(head.start, f"got {len(types)} result type(s) for {len(head.results)} bound result(s)")
    padded: list[ir.Type] = [*types, *(ir.UnknownType() for _ in range(len(head.results) - len(types)))]
    return tuple(reader.scopes.define(m, t) for m, t in zip(head.results, padded, strict=True))
