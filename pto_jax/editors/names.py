"""Where the names of a text are defined, from its tokens alone: also while it cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..isa.structure import BRANCH, structural_traits
from ..text.tokens import Kind, read_token


class Token(NamedTuple):
    """A token with its text and its place."""

    kind: Kind
    text: str
    start: int
    end: int


class Name(NamedTuple):
    """A mention of a value (``%a``) or a function (``@f``); ``scopes`` are the bodies it stands in."""

    text: str
    start: int
    end: int
    defines: bool
    scopes: tuple[int, ...]


def tokens(source: str) -> Iterator[Token]:
    """The tokens of a text; characters that begin none are left out."""
    position = 1 if source.startswith("\ufeff") else 0
    while True:
        kind, start, end = read_token(source, position)
        if kind is Kind.EOF:
            return
        if kind is not None:
            yield Token(kind, source[start:end], start, end)
        position = end


@dataclass
class Names:
    r"""Every mention of a value or a function in a text, in its order.

    >>> names = Names.of("%a = tabs %x\n%b = tabs %a")
    >>> found = names.at(24)
    >>> found.text, names.definition(found).start
    ('%a', 0)
    """

    mentions: list[Name]
    #: The ends of bodies by their starts; one that is not closed has none.
    ends: Mapping[int, int]

    @classmethod
    def of(cls, source: str) -> Names:
        """The names of a text."""
        reading = _Reading([*tokens(source)])
        return cls(reading.mentions(), reading.ends)

    def at(self, position: int) -> Name | None:
        """The name at a character position, or one that ends there."""
        return next((n for n in self.mentions if n.start <= position <= n.end), None)

    def definition(self, name: Name) -> Name | None:
        """The mention that defines a name: in fragments the first one, where no other does."""
        same = [n for n in self.mentions if n.text == name.text]
        defining = [n for n in same if n.defines and n.scopes == name.scopes[: len(n.scopes)]]
        if name.text.startswith("@"):
            return next((n for n in same if n.defines), None)
        before = [n for n in defining if n.start <= name.start]
        if before or defining:
            return before[-1] if before else defining[0]
        return same[0] if not name.scopes else None

    def visible(self, position: int) -> list[str]:
        """The values that are defined before a position and visible there, the latest first."""

        def inside(name: Name) -> bool:
            return all(start < position <= self.ends.get(start, position) for start in name.scopes)

        before = (n for n in reversed(self.mentions) if n.end < position and n.text.startswith("%"))
        return list(dict.fromkeys(n.text for n in before if inside(n)))


class _Reading:
    """Goes through the tokens of a text and finds the mentions that define."""

    def __init__(self, listed: list[Token]) -> None:
        self.listed = listed
        self.scopes: list[int] = []
        self.ends: dict[int, int] = {}
        self.parentheses = 0
        #: The arguments of a function or a block end with the parenthesis of this depth.
        self.arguments: int | None = None
        self.function = False
        self.found: list[Name] = []
        #: Names of a head, which are visible in the body that follows it.
        self.head: list[int] = []

    def mentions(self) -> list[Name]:
        """Every mention, in the order of the text."""
        for i, token in enumerate(self.listed):
            match token.kind:
                case Kind.L_BRACE:
                    self.opened(i)
                case Kind.R_BRACE if self.scopes:
                    self.ends[self.scopes.pop()] = token.start
                case Kind.L_PAREN:
                    self.parentheses += 1
                    if self.lists_arguments(i):
                        self.arguments = self.parentheses
                        self.function = self.listed[i - 1].kind is Kind.AT_IDENT
                case Kind.R_PAREN:
                    if self.arguments == self.parentheses:
                        self.arguments = None
                    self.parentheses = max(0, self.parentheses - 1)
                case Kind.AT_IDENT:
                    self.mention(token, _FUNCTION in (self.text(i - 1), self.text(i - 2)))
                case Kind.PERCENT_IDENT:
                    self.value(i)
        return self.found

    def text(self, i: int) -> str:
        return self.listed[i].text if 0 <= i < len(self.listed) else ""

    def opened(self, i: int) -> None:
        """A brace: a body, or attributes."""
        self.scopes.append(self.listed[i].start)
        if self.parentheses == 0 and self.text(i - 1) != "attributes":
            for k in self.head:
                name = self.found[k]
                self.found[k] = name._replace(scopes=(*name.scopes, self.listed[i].start))
            self.head = []

    def lists_arguments(self, i: int) -> bool:
        """Whether a parenthesis opens the arguments of a function or a block."""
        before = self.listed[i - 1] if i else None
        if before is not None and before.kind is Kind.CARET_IDENT:
            return self.text(i - 2) not in (",", BRANCH)
        return before is not None and before.kind is Kind.AT_IDENT and self.found[-1].defines

    def value(self, i: int) -> None:
        """A value: bound by a statement, by a head, as an argument, or used."""
        token, following = self.listed[i], self.text(i + 1)
        if self.arguments == self.parentheses and following == ":":
            self.mention(token, True, head=self.function)
        elif self.parentheses or _has_a_body(self.text(i - 1)):
            self.mention(token, following == "=", head=True)
        else:
            self.mention(token, self.bound(i))

    def bound(self, i: int) -> bool:
        """Whether ``%a, %b =`` or ``%r:2 =`` begins here or goes on."""
        while True:
            i += 1
            if self.text(i) == ":" and self.listed[i + 1 : i + 2] and self.text(i + 1).isdigit():
                i += 2
            if self.text(i) != "," or not self.text(i + 1).startswith("%"):
                return self.text(i) == "="
            i += 1

    def mention(self, token: Token, defines: bool, head: bool = False) -> None:
        if defines and head:
            self.head.append(len(self.found))
        self.found.append(Name(token.text, token.start, token.end, defines, tuple(self.scopes)))


#: What stands before the name of a function, at most one word further.
_FUNCTION = "func.func"


def _has_a_body(word: str) -> bool:
    """Whether a word is an operation that binds names for its body."""
    traits = structural_traits(word.removeprefix("pto."))
    return traits is not None and traits.regions is not None and traits.regions.repeats
