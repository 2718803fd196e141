"""Printing operations by their syntax entry."""

from ..ir import AttrValue, Op, Pipe, PipeEventType, Type, UnknownType, Value
from . import attributes, dictionaries, format_items, formats, type_text

_NO_DIALECT = ("return", "scf.", "arith.", "memref.", "builtin.")
_TIGHT_AFTER = ("(", "[")
_TIGHT_BEFORE = (",", ")", "]")


class _Operands:
    """Hands out the operands of an operation part by part."""

    def __init__(self, op: Op, fmt: formats.Format) -> None:
        self._op = op
        self._grouped = fmt.grouped
        self._left = list(op.ins)
        self.taken: dict[str, tuple[Value, ...]] = {}

    def take(self, item: format_items.OperandItem) -> tuple[Value, ...]:
        if item.out:
            values = self._op.outs
        elif self._grouped:
            values = self._op.group(item.name)
        else:
            count = len(self._left) if item.many else 1
            values, self._left = tuple(self._left[:count]), self._left[count:]
        self.taken[item.name] = values
        return values

    def has(self, item: format_items.OperandItem) -> bool:
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
        item = format_items.OperandItem(name, counts[name] == "many", name in fmt.outs)
        if counts[name] == "one" or operands.has(item):
            operands.take(item)
    return operands.taken


def custom_text(op: Op, fmt: formats.Format, style: type_text.Style) -> str:
    """The operation without the names it binds."""
    inline = {i.name for i in fmt.flat if isinstance(i, format_items.AttrItem)}
    rest = tuple((k, v) for k, v in op.attributes if k not in inline)
    tokens: list[str] = []
    operands = _Operands(op, fmt)
    for item in fmt.items:
        _emit(op, item, operands, rest, style, tokens)
    prefix = "" if op.name.startswith(_NO_DIALECT) else "pto."
    return _join(prefix + formats.SPELLED.get(op.name, op.name), tokens)


def _emit(
    op: Op,
    item: format_items.Item,
    operands: _Operands,
    rest: tuple[tuple[str, AttrValue], ...],
    style: type_text.Style,
    tokens: list[str],
) -> None:
    match item:
        case format_items.Literal(text):
            tokens.append(text)
        case format_items.OperandItem():
            values = operands.take(item)
            if values:
                tokens.append(", ".join(map(str, values)))
        case format_items.TypeItem(targets, _):
            tokens.append(type_text.print_types(_types(op, operands, targets[0]), style))
        case format_items.DictItem():
            text = dictionaries.print_attributes(rest, op.name).strip()
            if text and not item.further:
                tokens.append(text)
        case format_items.AttrItem():
            tokens.append(_attribute(op, item, operands))
        case format_items.ImpliedItem():
            pass
        case format_items.OptionalItem(items, when):
            if _present(op, items, when, operands):
                for inner in items:
                    _emit(op, inner, operands, rest, style, tokens)
        case format_items.AnyOrderItem():
            for inner in _listed(op, item, operands):
                _emit(op, inner, operands, rest, style, tokens)


def _listed(op: Op, item: format_items.AnyOrderItem, operands: _Operands) -> list[format_items.Item]:
    """The parts that the operation has, with commas between them."""
    items: list[format_items.Item] = []
    for part in item.parts:
        if _present(op, part, "", operands):
            items += [*([format_items.Literal(",")] if items else []), *part]
    return items


def _types(op: Op, operands: _Operands, target: str) -> list[Type]:
    if target == "^":
        return [op.results[0].type if op.results else UnknownType()]
    return [v.type for v in operands.taken.get(target, ())]


def _present(op: Op, items: tuple[format_items.Item, ...], when: str, operands: _Operands) -> bool:
    if when == "b":
        return True
    if when == "t":
        return any(
            operands.taken.get(t) for i in items if isinstance(i, format_items.TypeItem) for t in i.targets
        )
    if when:
        untold = when == "n" and any(
            _is_untold(op, operands, i) for i in items if isinstance(i, format_items.TypeItem)
        )
        return untold or bool(op.results) == (when == "r")
    if any(i.name in op.attrs for i in items if isinstance(i, format_items.AttrItem)):
        return True
    return any(operands.has(i) for i in items if isinstance(i, format_items.OperandItem))


def _is_untold(op: Op, operands: _Operands, item: format_items.TypeItem) -> bool:
    """Whether a type is another than the one a reader takes when it is not written."""
    return any(t != formats.OPERAND_TYPES.get(item.targets[0]) for t in _types(op, operands, item.targets[0]))


def _attribute(op: Op, item: format_items.AttrItem, operands: _Operands) -> str:
    value = op.attrs.get(item.name)
    if value is None and item.operand:
        return ", ".join(map(str, operands.take(format_items.OperandItem(item.operand, many=False))))
    if value is None and (declared := dictionaries.declared_attribute(op.name, item.name)) is not None:
        value = declared.default
    match item.kind:
        case "event":
            return f"<{attributes.EVENT_PREFIX}{value}>"
        case "pipe" if isinstance(value, Pipe):
            return f"<{attributes.BY_CLASS[Pipe].word(value)}>"
        case "sync_op" if isinstance(value, PipeEventType):
            return dictionaries.print_value(value)
        case "word":
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
            or (token == "(" and previous in (name, "ins"))
            or (token == ":" and previous in ("offset", "sizes", "strides"))
        )
        if token != "":
            out += token if tight else " " + token
        previous = token
    return out
