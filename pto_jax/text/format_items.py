"""The notation for the syntax of an operation, and the items that a line of it is.

A line is a sequence of items separated by blanks:

``$name``       one operand                     ``$name*``     operands separated by commas
``$name>``      the operand that is written
``!name``       the type of that operand        ``!name*``     the types of those operands
``!a&b&^``      one type for several (``^``: the result)
``^``           the type of the result          ``{}``         an attribute dictionary, may be absent
``{+}``         a further dictionary, which is read and never printed
``@name:kind``  an attribute in its own place   ``@a:int|$b``  an attribute or an operand
``(? ... ?)``   may be absent; ``(?r``: printed when there is a result, ``(?n``: when there is none, and
                where the type is another than :data:`~.formats.OPERAND_TYPES` says, ``(?b``: always; ``(?t``:
                present exactly where the operands of its types are
``(& ... &)``   parts separated by ``;``: any of them, in any order, with commas between
``=i64``        the result has this type, which is not written; ``=$a``: the type of operand ``a``;
                ``=part``: a window of the sizes that are constants; ``=window``: that of the first operand
                with the sizes, and the valid sizes, given; ``=indices``: two results of type index
anything else   itself
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    """A text that stands as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class OperandItem:
    """``$name``: one operand, or (``many``) operands separated by commas; ``out`` is one that is written."""

    name: str
    many: bool
    out: bool = False


@dataclass(frozen=True, slots=True)
class TypeItem:
    """The type of operands; ``^`` among the targets is the result."""

    targets: tuple[str, ...]
    many: bool


@dataclass(frozen=True, slots=True)
class DictItem:
    """``{}``: an attribute dictionary, which may be absent; a ``further`` one is not printed."""

    further: bool = False


@dataclass(frozen=True, slots=True)
class AttrItem:
    """An attribute; where ``operand`` is given an operand may stand in its place."""

    name: str
    kind: str
    operand: str = ""


@dataclass(frozen=True, slots=True)
class ImpliedItem:
    """How the type of a result that is not written follows."""

    rule: str


@dataclass(frozen=True, slots=True)
class OptionalItem:
    """``(? ... ?)``: items that may be absent; ``when`` is the condition under which they are printed."""

    items: tuple[Item, ...]
    when: str


@dataclass(frozen=True, slots=True)
class AnyOrderItem:
    """``(& ... &)``: parts that begin with a word each, separated by commas, in any order."""

    parts: tuple[tuple[Item, ...], ...]


Item: TypeAlias = (
    Literal | OperandItem | TypeItem | DictItem | AttrItem | ImpliedItem | OptionalItem | AnyOrderItem
)


def items_of(syntax: str) -> tuple[Item, ...]:
    """The items of a line.

    >>> items_of("$view , $index {}")[0]
    OperandItem(name='view', many=False, out=False)
    """
    return _read(syntax.split())


def _item(text: str) -> Item:
    if text in ("{}", "{+}"):
        return DictItem(further=text == "{+}")
    if text == "^":
        return TypeItem(("^",), many=False)
    match text[0], text[1:]:
        case "$", name if name:
            return OperandItem(name.rstrip("*>"), name.endswith("*"), name.endswith(">"))
        case "!", name if name:
            return TypeItem(tuple(name.removesuffix("*").split("&")), name.endswith("*"))
        case "=", rule if rule:
            return ImpliedItem(rule)
        case "@", rest:
            attribute, _, operand = rest.partition("|$")
            name, _, kind = attribute.partition(":")
            return AttrItem(name, kind, operand)
        case _:
            return Literal(text)


def _read(words: list[str]) -> tuple[Item, ...]:
    items: list[Item] = []
    while words:
        word = words.pop(0)
        if word in ("?)", "&)", ";"):
            break
        if word == "(&":
            items.append(_any_order(words))
            continue
        items.append(OptionalItem(_read(words), word[2:]) if word.startswith("(?") else _item(word))
    return tuple(items)


def _any_order(words: list[str]) -> AnyOrderItem:
    parts, count = [], words.index("&)") + 1
    inside, words[:] = words[:count], words[count:]
    while inside:
        parts.append(_read(inside))
    return AnyOrderItem(tuple(parts))
