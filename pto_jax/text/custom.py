"""Reader and printer of operations with a syntax entry in :mod:`.formats`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import NoReturn

from .. import ir
from ..ir import (
    INDEX,
    AttrValue,
    Op,
    PartitionViewType,
    Pipe,
    PipeEventType,
    ScalarType,
    TensorViewType,
    Type,
    UnknownType,
    Value,
)
from . import attributes, control, dictionaries, formats, type_text
from .attributes import enumeration, event
from .formats import IMPLIED_TYPES, OPERAND_TYPES, Format
from .lexer import Cursor, Kind
from .names import suggestion
from .reader import Mention, Reader


@dataclass
class Draft:
    """What has been read of an operation: the mentions and types of its operands (``^``: of the result)."""

    groups: dict[str, list[Mention]] = field(default_factory=dict)
    types: dict[str, list[ir.Type]] = field(default_factory=dict)
    attributes: dict[str, ir.AttrValue] = field(default_factory=dict)
    places: dictionaries.Places = field(default_factory=dict)
    implied: str = ""


def read_custom(reader: Reader, fmt: Format, results: list[Mention], start: int) -> ir.Op:
    """Read the operation whose name has just been passed."""
    draft = Draft()
    for item, behind in zip_longest(fmt.items, fmt.items[1:]):
        if isinstance(item, formats.LiteralItem) and isinstance(behind, formats.OperandItem):
            _require_operand(reader, item.text, behind.name)
        _read_item(reader, fmt, item, draft)
    return finish(reader, fmt, results, draft, start)


def _require_operand(reader: Reader, text: str, name: str) -> None:
    """The text goes on with what stands before an operand."""
    if reader.cursor.text != text:
        reader.cursor.unexpected(f"'{text}' and the operand {name}")


def finish(reader: Reader, fmt: Format, results: list[Mention], draft: Draft, start: int) -> ir.Op:
    """The operation that was read; looks up its uses, defines its results."""
    end = reader.cursor.last_end
    ins: list[ir.Value] = []
    outs: list[ir.Value] = []
    groups: list[tuple[str, int]] = []
    for name, mentions in draft.groups.items():
        types = draft.types.get(name, [])
        default = OPERAND_TYPES.get(name)
        for i, mention in enumerate(mentions):
            written = types[i] if i < len(types) else None
            (outs if name in fmt.outs else ins).append(reader.scopes.use(mention, written, default))
        groups += [] if name in fmt.outs else [(name, len(mentions))]
    outcome = _results(reader, fmt, results, draft, ins, start)
    attributes, implied = reader.completed(fmt.name, draft.attributes)
    op = ir.Op(
        fmt.name,
        ins=tuple(ins),
        outs=tuple(outs),
        results=outcome,
        attributes=attributes,
        groups=tuple(groups) if fmt.grouped else (),
        span=reader.cursor.span(start, end),
        implied=implied,
    )
    return control.selection(op)


def _results(
    reader: Reader, fmt: Format, results: list[Mention], draft: Draft, ins: list[ir.Value], start: int
) -> tuple[ir.Value, ...]:
    c = reader.cursor
    if fmt.lists_results:
        types = draft.types.get("^", [])
        control.need(reader, results, len(types), fmt.name, start)
        return control.define(reader, results, types)
    if len(results) > fmt.results or (fmt.results > 1 and len(results) == 1):
        have = {0: "no value", 1: "one value"}.get(fmt.results, f"{fmt.results} values")
        first = results[0]
        c.fail(
            f"got {len(results)} result(s) for '{fmt.name}', which has {have}",
            start=first.start,
            end=first.end,
        )
    written = draft.types.get("^")
    if not results and written:
        results = [reader.unused()]
    if not results:
        return ()
    if fmt.results > 1:
        return tuple(reader.scopes.define(r, ScalarType(INDEX)) for r in results)
    result_type = written[0] if written else _implied(reader, draft, ins, start)
    rank = len(draft.groups.get("shape", ()))
    if isinstance(result_type, ir.TensorViewType) and result_type.dims == (rank,) and rank > 1:
        result_type = ir.TensorViewType((None,) * rank, result_type.dtype)
    return (reader.scopes.define(results[0], result_type),)


def _implied(reader: Reader, draft: Draft, ins: list[Value], start: int) -> Type:
    if draft.implied in IMPLIED_TYPES:
        return IMPLIED_TYPES[draft.implied]
    source = ins[0].type if ins else UnknownType()
    if draft.implied == "part" and isinstance(source, TensorViewType | PartitionViewType):
        sizes = draft.groups.get("sizes", ())
        return ir.PartitionViewType(tuple(map(reader.scopes.constant, sizes)), source.dtype)
    if draft.implied != "window" or not isinstance(source, ir.TileType):
        return source
    extents = draft.attributes["sizes"]
    if not isinstance(extents, tuple) or len(extents) != 2:
        reader.cursor.fail_since(
            start, "got a window of a tile without two sizes; allowed: sizes [rows, cols]"
        )
    rows, cols = (int(s) for s in extents if isinstance(s, int))
    valid: list[int | None] = [rows, cols]
    for axis, name in enumerate(("valid_row", "valid_col")):
        for mention in draft.groups.get(name, ()):
            size = reader.scopes.constant(mention)
            valid[axis] = None if size is None else min(size, (rows, cols)[axis])
    return replace(source, rows=rows, cols=cols, v_row=valid[0], v_col=valid[1])


def _read_item(reader: Reader, fmt: Format, item: formats.Item, draft: Draft) -> None:
    c = reader.cursor
    match item:
        case formats.LiteralItem(text):
            # No token of another kind is the same characters.
            if c.text != text:
                _unexpected(c, fmt, text)
            c.advance()
        case formats.OperandItem(name, many, _):
            draft.groups[name] = reader.mentions() if many else [reader.mention()]
        case formats.TypeItem(targets, many):
            _read_types(reader, targets, many, draft)
        case formats.DictItem():
            if c.kind is Kind.L_BRACE:
                reader.attributes.dictionary(draft.attributes, draft.places, fmt.name)
        case formats.FlagsItem():
            _read_flags(c)
        case formats.AttrItem():
            _read_attribute(reader, fmt, item, draft)
        case formats.ImpliedItem(rule):
            draft.implied = rule
        case formats.OptionalItem():
            _read_optional(reader, fmt, item, draft)
        case formats.AnyOrderItem(parts):
            _read_any_order(reader, fmt, parts, draft)


def _read_optional(reader: Reader, fmt: Format, item: formats.OptionalItem, draft: Draft) -> None:
    when = item.when
    if "|" in when and reader.cursor.kind is Kind.BARE_IDENT:
        _read_named(reader, fmt, when, draft)
        return
    match when:
        case "t":
            present = not _targets(item).isdisjoint(draft.groups)
        case "m":
            last = next(reversed(draft.groups), "")
            present = last in _targets(item) and _present(reader.cursor, fmt, item.items)
        case _:
            present = "|" in when or _present(reader.cursor, fmt, item.items)
    for inner in item.items if present else ():
        _read_item(reader, fmt, inner, draft)


def _targets(item: formats.OptionalItem) -> frozenset[str]:
    """The operands whose types an optional part gives."""
    return frozenset(t for i in item.items for t in getattr(i, "targets", ()))


def _read_named(reader: Reader, fmt: Format, when: str, draft: Draft) -> None:
    """Operands with their names, all those of one form in any order."""
    c, start = reader.cursor, reader.cursor.start
    forms = [form.split(",") for form in when.split("|")]
    text = " or ".join(", ".join(form) for form in forms)
    values: dict[str, list[Mention]] = {}
    while c.kind is Kind.BARE_IDENT:
        name = c.text
        if not any(name in form for form in forms):
            c.unexpected(f"an operand of {text}")
        if name in values:
            c.fail(f"got {name} a second time; allowed: once")
        c.advance()
        values[name] = c.enclosed(Kind.L_PAREN, reader.mention)
        if not c.accept(Kind.COMMA):
            break
    form = next((form for form in forms if set(form) == set(values)), None)
    if form is None:
        c.fail_since(start, f"got the operands {', '.join(values)}; allowed: all of {text}")
    operands = [n for n in fmt.order if n not in draft.groups]
    draft.groups.update((n, values[name]) for n, name in zip(operands, form, strict=False))


def _read_flags(c: Cursor) -> None:
    while (words := formats.FLAGS.get(c.text)) is not None:
        c.advance()
        if words:
            c.enclosed(Kind.LESS, partial(_flag, c, words))


def _flag(c: Cursor, words: Sequence[str]) -> None:
    if c.text not in words:
        c.unexpected(", ".join(words))
    c.advance()


def _unexpected(c: Cursor, fmt: Format, text: str) -> NoReturn:
    """An error where a word is expected; where clauses stand before it, with these in their order."""
    clauses = fmt.clauses
    if text != ":" or not clauses:
        c.unexpected(f"'{text}'")
    word = c.peek()[1] if c.text == "," else c.text
    label = ", ".join(clauses)
    what = "out of its place" if word in clauses else f"as a clause{suggestion(word, clauses)}"
    c.fail(f"got '{word}' {what}; allowed: {label}, in this order, and ':'")


def _read_any_order(
    reader: Reader, fmt: Format, parts: tuple[tuple[formats.Item, ...], ...], draft: Draft
) -> None:
    """Parts that begin with a word each; their operands are kept in the order of the syntax."""
    c = reader.cursor
    words = {part[0].text: part for part in parts if isinstance(part[0], formats.LiteralItem)}
    left = dict(words)
    while c.kind is Kind.BARE_IDENT:
        if c.text not in left:
            said = "a second time" if c.text in words else f"{suggestion(c.text, left)}"
            c.fail(f"got '{c.text}' {said}".rstrip() + f"; allowed: {', '.join(left) or 'no more'}")
        for item in left.pop(c.text):
            _read_item(reader, fmt, item, draft)
        if not c.accept(Kind.COMMA):
            break
        if c.kind is not Kind.BARE_IDENT:
            c.unexpected(f"one of {', '.join(left)} after ','")
    names = [i.name for part in parts for i in part if isinstance(i, formats.OperandItem)]
    draft.groups = {n: draft.groups[n] for n in names if n in draft.groups}


def _present(c: Cursor, fmt: Format, items: tuple[formats.Item, ...]) -> bool:
    """Whether the text goes on with an optional part: judged by its first token, behind a comma by two."""
    match items:
        case (formats.LiteralItem(","), formats.LiteralItem(text), *_):
            return c.text == "," and c.peek()[1] == text
        case (formats.LiteralItem(","), formats.AttrItem(name, "word"), *_):
            return c.text == "," and c.peek()[1] in fmt.words(name)
        case (formats.LiteralItem(text), *_):
            return c.text == text
        case (formats.OperandItem(), formats.LiteralItem(",")):
            return c.kind is Kind.PERCENT_IDENT and c.peek()[1] == ","
        case (formats.AttrItem(name, "word"), *_):
            return c.text in fmt.words(name)
    return c.kind is Kind.PERCENT_IDENT and c.peek()[0] not in (Kind.EQUAL,)


def _read_types(reader: Reader, targets: tuple[str, ...], many: bool, draft: Draft) -> None:
    c = reader.cursor
    if not many:
        result = reader.types.read()
        for target in targets:
            draft.types[target] = [result]
        return
    start = c.start
    types = [reader.types.read()]
    while c.accept(Kind.COMMA):
        types.append(reader.types.read())
    if targets == ("^",):
        draft.types["^"] = types
        return
    mentions = draft.groups[targets[0]]
    if len(types) != len(mentions):
        c.fail_since(
            start,
            f"got {len(types)} type(s) for {len(mentions)} value(s); allowed: one type for each value",
        )
    draft.types[targets[0]] = types


def _pipe(reader: Reader) -> ir.AttrValue:
    return enumeration(reader.cursor, ir.Pipe, "pipe")


def _sync_op(reader: Reader) -> ir.AttrValue:
    return enumeration(reader.cursor, ir.PipeEventType, "pipe_event_type")


def _token(reader: Reader) -> ir.AttrValue:
    """What a buffer token is for: an operation class or a pipe."""
    c = reader.cursor
    pipe = c.text.strip('"').startswith("PIPE_") if c.kind is not Kind.HASH_IDENT else c.text == "#pto.pipe"
    return _pipe(reader) if pipe else _sync_op(reader)


def _integers(reader: Reader) -> ir.AttrValue:
    c = reader.cursor
    return tuple(c.enclosed(Kind.L_SQUARE, lambda: _positive(c)))


def _numbers(c: Cursor) -> ir.AttrValue:
    return tuple(c.listed(lambda: c.integer("the number of a field"), Kind.R_SQUARE))


def _positive(c: Cursor) -> int:
    start = c.start
    size = c.integer("a size")
    if not 0 < size < 1 << 31:
        c.fail_since(start, f"got the size {size}; allowed: a positive integer below 2^31")
    return size


_ATTRIBUTE_KINDS: dict[str, Callable[[Reader], ir.AttrValue]] = {
    "pipe": _pipe,
    "sync_op": _sync_op,
    "event": lambda reader: event(reader.cursor),
    "token": lambda reader: _token(reader),
    "value": lambda reader: reader.attributes.value(),
    "int": lambda reader: reader.cursor.integer("a number"),
    "integers": _integers,
    "numbers": lambda reader: _numbers(reader.cursor),
}


def _read_attribute(reader: Reader, fmt: Format, item: formats.AttrItem, draft: Draft) -> None:
    c = reader.cursor
    if item.operand and c.kind is Kind.PERCENT_IDENT:
        draft.groups[item.operand] = [reader.mention()]
        return
    start, span = c.start, c.here()
    if item.kind == "again":
        word = str(draft.attributes.get(item.name))
        if c.text != word:
            c.unexpected(f"'{word}', as before")
        c.advance()
        return
    if item.kind == "word":
        value: ir.AttrValue = _word(c, fmt, item.name)
    elif item.kind == "string":
        value = c.string(item.name)
    else:
        value = _ATTRIBUTE_KINDS[item.kind](reader)
    at = (start, span, start)
    reader.attributes.store(draft.attributes, draft.places, fmt.name, item.name, value, at)


def _word(c: Cursor, fmt: Format, attribute: str) -> str:
    allowed = fmt.words(attribute)
    if c.kind is not Kind.BARE_IDENT or c.text not in allowed:
        close = suggestion(c.text, allowed)
        c.fail(f"got {c.found()} as the {attribute} of {fmt.name}{close}; allowed: {', '.join(allowed)}")
    return c.take()


_NO_DIALECT = ("return", "scf.", "arith.", "memref.", "builtin.")
#: Words of syntaxes that open a list.
_LISTS = frozenset(
    "ins nburst loop pad l2_cache_ctl unit_flag tf32_mode shape src_layout dst_group ctrl dst_mode pre_quant "
    "pre_relu nz2dn nz2nz sat loop3 atomic".split()
)
_TIGHT_AFTER = ("(", "[")
_TIGHT_BEFORE = (",", ")", "]")


class _Operands:
    """Hands out the operands of an operation part by part."""

    def __init__(self, op: Op, fmt: formats.Format) -> None:
        self._op = op
        self._grouped = fmt.grouped
        self._left = list(op.ins)
        self.taken: dict[str, tuple[Value, ...]] = {}

    def take(self, item: formats.OperandItem) -> tuple[Value, ...]:
        if item.out:
            values = self._op.outs
        elif self._grouped:
            values = self._op.group(item.name)
        else:
            count = len(self._left) if item.many else 1
            values, self._left = tuple(self._left[:count]), self._left[count:]
        self.taken[item.name] = values
        return values

    def has(self, item: formats.OperandItem) -> bool:
        return bool(self._op.group(item.name) if self._grouped else self._left)


def has_parts(op: Op, fmt: formats.Format) -> bool:
    """Whether an operation has the parts of its syntax; those with two spellings may have none."""
    if fmt.name not in formats.TWO_SPELLINGS:
        return True
    return bool(op.outs) == bool(fmt.outs) and (bool(op.groups) or not fmt.grouped)


def operands_by_name(op: Op, fmt: formats.Format) -> dict[str, tuple[Value, ...]]:
    """The operands of an operation by the names that its syntax has for them."""
    operands, counts = _Operands(op, fmt), dict(fmt.operands)
    for name in fmt.order:
        item = formats.OperandItem(name, counts[name] == "many", name in fmt.outs)
        if counts[name] == "one" or operands.has(item):
            operands.take(item)
    return operands.taken


def custom_text(op: Op, fmt: formats.Format, style: type_text.Style) -> str:
    """The operation without the names it binds."""
    inline = {i.name for i in fmt.flat if isinstance(i, formats.AttrItem)}
    rest = tuple((k, v) for k, v in op.attributes if k not in inline)
    tokens: list[str] = []
    operands = _Operands(op, fmt)
    for item in fmt.items:
        _emit(op, item, operands, rest, style, tokens)
    prefix = "" if op.name.startswith(_NO_DIALECT) else "pto."
    return _join(prefix + formats.SPELLED.get(op.name, op.name), tokens)


def _emit(  # noqa: C901 - one case per item
    op: Op,
    item: formats.Item,
    operands: _Operands,
    rest: tuple[tuple[str, AttrValue], ...],
    style: type_text.Style,
    tokens: list[str],
) -> None:
    match item:
        case formats.LiteralItem(text):
            tokens.append(text)
        case formats.OperandItem():
            values = operands.take(item)
            if values:
                tokens.append(", ".join(map(str, values)))
        case formats.TypeItem(("^",), True):
            tokens.append(type_text.print_types([v.type for v in op.results], style))
        case formats.TypeItem(targets, _):
            tokens.append(type_text.print_types(_types(op, operands, targets[0]), style))
        case formats.DictItem():
            text = dictionaries.print_attributes(rest, op.name).strip()
            if text and not item.further:
                tokens.append(text)
        case formats.AttrItem():
            tokens.append(_attribute(op, item, operands))
        case formats.ImpliedItem() | formats.FlagsItem():
            pass
        case formats.OptionalItem(items, when):
            if _text_present(op, items, when, operands):
                for inner in items:
                    _emit(op, inner, operands, rest, style, tokens)
        case formats.AnyOrderItem():
            for inner in _listed(op, item, operands):
                _emit(op, inner, operands, rest, style, tokens)


def _listed(op: Op, item: formats.AnyOrderItem, operands: _Operands) -> list[formats.Item]:
    """The parts that the operation has, with commas between them."""
    items: list[formats.Item] = []
    for part in item.parts:
        if _text_present(op, part, "", operands):
            items += [*([formats.LiteralItem(",")] if items else []), *part]
    return items


def _types(op: Op, operands: _Operands, target: str) -> list[Type]:
    if target == "^":
        return [op.results[0].type if op.results else UnknownType()]
    return [v.type for v in operands.taken.get(target, ())]


def _text_present(op: Op, items: tuple[formats.Item, ...], when: str, operands: _Operands) -> bool:
    if when == "b" or "|" in when:
        return True
    if when == "m":
        types = (
            t for i in items if isinstance(i, formats.TypeItem) for t in _types(op, operands, i.targets[0])
        )
        return any(isinstance(t, ir.MaskType) for t in types)
    if when == "t":
        return any(operands.taken.get(t) for i in items if isinstance(i, formats.TypeItem) for t in i.targets)
    if when:
        untold = when == "n" and any(
            _is_untold(op, operands, i) for i in items if isinstance(i, formats.TypeItem)
        )
        return untold or bool(op.results) == (when == "r")
    if any(i.name in op.attrs for i in items if isinstance(i, formats.AttrItem)):
        return True
    return any(operands.has(i) for i in items if isinstance(i, formats.OperandItem))


def _is_untold(op: Op, operands: _Operands, item: formats.TypeItem) -> bool:
    """Whether a type is another than the one a reader takes when it is not written."""
    return any(t != formats.OPERAND_TYPES.get(item.targets[0]) for t in _types(op, operands, item.targets[0]))


def _attribute(op: Op, item: formats.AttrItem, operands: _Operands) -> str:
    value = op.attrs.get(item.name)
    if value is None and item.operand:
        return ", ".join(map(str, operands.take(formats.OperandItem(item.operand, many=False))))
    if value is None and (declared := dictionaries.declared_attribute(op.name, item.name)) is not None:
        value = declared.default
    match item.kind:
        case "event":
            return f"<{attributes.EVENT_PREFIX}{value}>"
        case "pipe" if isinstance(value, Pipe):
            return f"<{attributes.BY_CLASS[Pipe].word(value)}>"
        case "sync_op" if isinstance(value, PipeEventType):
            return dictionaries.print_value(value)
        case "word" | "again":
            return str(value)
        case "numbers" if isinstance(value, tuple):
            return ", ".join(map(str, value))
        case "string":
            return attributes.quoted(str(value))
        case _:
            return dictionaries.print_value(value)


def _join(name: str, tokens: list[str]) -> str:
    """Tokens with blanks where they read well."""
    out = name
    previous = name
    for token in tokens:
        tight = (
            token in _TIGHT_BEFORE
            or previous in _TIGHT_AFTER
            or (token == "[" and previous.startswith(("%", name)) and previous != "=")
            or (token == "(" and previous in (name, *_LISTS))
            or (token == ":" and previous in ("offset", "sizes", "strides"))
        )
        if token != "":
            out += token if tight else " " + token
        previous = token
    return out
