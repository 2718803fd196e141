"""Statements that differ from an earlier one in the names of values only, which need not be read again.

Generated programs say the same thousands of times: one loop unrolled is the same line with other names. The
first such line is read token by token; the others take from it everything that its text says.
"""

import re
from typing import NamedTuple

from ..ir import Op, Type, Value
from . import scope, tokens
from .lexer import Cursor

#: Longer lines are read as they come.
_MAX_LINE = 2000
_NAME = re.compile(tokens.VALUE_NAME)
#: What stands behind a line that ends a statement: the next one, or the end of the region. No operation goes
#: on with ``%name =``, nor with the name of an operation, while ``%name,`` may be a further operand.
_NEXT = re.compile(rf"[ \t\r]*\n{tokens.BLANKS}(?:{tokens.VALUE_NAME}[ \t]*=|[a-z]+\.|return\b|\}})")


class Line(NamedTuple):
    """A statement that fills the rest of its line: the texts between its names, and the names."""

    texts: tuple[str, ...]
    names: tuple[scope.Mention, ...]
    start: int
    end: int


class _Known(NamedTuple):
    """A statement that was read; its values by their position among the names of its line."""

    op: Op
    used: tuple[tuple[int, Type], ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    results: tuple[int, ...]


class Statements:
    """The statements of one text that were read, by what they say besides names."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._known: dict[tuple[str, ...], _Known] = {}

    def line(self) -> Line | None:
        """The rest of the line at the cursor, None where that is certainly no statement by itself."""
        source, start = self._cursor.source, self._cursor.start
        stop = source.find("\n", start, start + _MAX_LINE)
        if stop < 0:
            return None
        end = start + len(source[start:stop].rstrip())
        if source[end - 1] in "{," or not _NEXT.match(source, end):
            return None
        texts, names, at = list[str](), list[scope.Mention](), start
        for found in _NAME.finditer(source, start, end):
            first, last = found.span()
            texts.append(source[at:first])
            names.append(scope.Mention(source[first + 1 : last], first, last))
            at = last
        return Line((*texts, source[at:end]), tuple(names), start, end)

    def again(self, line: Line, scopes: scope.Scopes) -> Op | None:
        """Pass over a line and give its statement, if one like it was read with operands of these types."""
        known = self._known.get(line.texts)
        if known is None:
            return None
        values: dict[int, Value] = {}
        for at, t in known.used:
            value = scopes.use_again(line.names[at], t)
            if value is None:
                return None
            values[at] = value
        c, op = self._cursor, known.op
        c.seek(line.end)
        for at, result in zip(known.results, op.results, strict=True):
            values[at] = scopes.define(line.names[at], result.type)
        return Op(
            op.name,
            tuple([values[at] for at in known.ins]),
            tuple([values[at] for at in known.outs]),
            tuple([values[at] for at in known.results]),
            op.attributes,
            (),
            op.groups,
            op.form,
            c.span(line.start, line.end),
            op.implied,
        )

    def remember(self, line: Line, types: list[Type | None], op: Op) -> None:
        """Keep the operation that was read of a line; ``types`` are those that its names had before, if any.

        Nothing is kept where more than these types decides what the line means: where it is not all of the
        statement, a name in it is no value of the operation, or an operand had no type.
        """
        c = self._cursor
        if c.last_end != line.end or op.span != c.span(line.start, line.end):
            return
        places = {mention.start: i for i, mention in enumerate(line.names)}
        ins, outs, results = (
            tuple(places.get(c.offset(v.span), -1) if v.span is not None else -1 for v in values)
            for values in (op.ins, op.outs, op.results)
        )
        positions, values = (*ins, *outs, *results), (*op.ins, *op.outs, *op.results)
        if set(positions) != set(range(len(line.names))):
            return
        if any(line.names[at].name != v.name for at, v in zip(positions, values, strict=True)):
            return
        used = {at: types[at] for at in (*ins, *outs)}
        known = tuple((at, t) for at, t in used.items() if t is not None)
        if len(known) == len(used):
            self._known[line.texts] = _Known(op, known, ins, outs, results)
