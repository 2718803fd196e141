"""How a declaration says what became of an instruction from one version of the language to the next."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..ir import AttrValue, Language, Type
from ..profiles import Profile

#: ``default``: a text that leaves an attribute out says something else; ``new`` and ``removed``: the name;
#: ``form``: operands, attributes or their spelling; ``rule``: what is legal.
Kind = Literal["default", "new", "removed", "form", "rule"]
#: The assembler's dialect, which most changes have as their source.
DIALECT = "PTOAS dialect definition and verifier, August 2026"


@dataclass(frozen=True)
class Change:
    """One change: what was, what is since ``language``, and where that is written.

    Of a name that was removed ``after`` says what to write instead.
    """

    language: Language
    kind: Kind
    before: str
    after: str
    source: str = DIALECT

    def __str__(self) -> str:
        said = " -> ".join(filter(None, (self.before, self.after)))
        return self.kind + (f": {said}" if said else "")


#: The value that an attribute which is not there has; None where the types do not say it.
Meaning: TypeAlias = Callable[[Mapping[str, Type], Mapping[str, AttrValue], Profile], AttrValue]


def _unknown(types: Mapping[str, Type], attrs: Mapping[str, AttrValue], profile: Profile) -> AttrValue:
    return None


#: As what a value of an attribute acts, from the types of the operands, the value and the profile.
Acting: TypeAlias = "Callable[[Mapping[str, Type], AttrValue, Profile], AttrValue]"


def _itself(types: Mapping[str, Type], value: AttrValue, profile: Profile) -> AttrValue:
    return value


@dataclass(frozen=True)
class Default:
    """What a text of a version, and of later ones, says that leaves an attribute out.

    Programs that are no text, and texts of earlier versions, say what ``before`` describes; so do texts that
    have one of the attributes ``unless``. ``meant`` gives the value that says the same, from the types of the
    operands, the attributes and the profile; ``acts`` as what a value acts for these types there.
    """

    language: Language
    value: AttrValue
    before: str
    source: str = DIALECT
    unless: tuple[str, ...] = ()
    meant: Meaning = field(default=_unknown, repr=False, compare=False)
    acts: Acting = field(default=_itself, repr=False, compare=False)


def new(after: str = "") -> Change:
    """The instruction came with the version of August 2026; ``after`` says what it is where that helps."""
    return Change("2026-08", "new", "", after, DIALECT)


def removed(instead: str) -> Change:
    """The assembler dropped the name in August 2026; texts with it are still read."""
    return Change("2026-08", "removed", "", instead, DIALECT)


def form(before: str, after: str) -> Change:
    """Operands, attributes or their spelling changed in August 2026."""
    return Change("2026-08", "form", before, after, DIALECT)


def rule(before: str, after: str) -> Change:
    """What is legal changed in August 2026."""
    return Change("2026-08", "rule", before, after, DIALECT)
