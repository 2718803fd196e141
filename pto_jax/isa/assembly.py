"""How the text spells the operands of a tile instruction, where that does not follow from their roles."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Segment:
    """A part of the operand list of the generic form: its name there, and the operands that it may hold.

    A part that is ``later`` is listed by newer assemblers only.
    """

    name: str
    operands: tuple[str, ...]
    later: bool = False


@dataclass(frozen=True)
class Assembly:
    """The spelling of an instruction's operands.

    ``trailing`` is the number of destinations that stand behind the sources of an operation without results,
    where the kinds of the destinations do not say it. ``destination_second``: the assembly spelling has the
    destination behind the first source. Where ``indexed`` names operands, ``%v[%r, %c]`` is a place in global
    memory, and these are the sources that stand before the indices; elsewhere indices are operands like any
    other. ``generic`` lists the segments of the generic form; by default each operand is one, sources first.
    In ``ins(...)`` the attributes stand behind the sources where ``inline`` (behind a comma where
    ``inline_comma``), and each operand has its type behind it where ``typed_apart``. ``argument`` is the
    attribute that is written as ``<value>`` behind the name. ``with_fp`` is the instruction that one with a
    clause ``fp %fp : type`` behind its sources is, ``fp_clause`` on that instruction the name that it is
    written by. ``with_tmp`` is the instruction that one with a second tile outside of the scaling buffer is,
    and that one's ``tmp_clause`` the name that it is written by. ``scratch`` says that ``tmp`` may stand
    ``behind`` the destinations, or that its absence is written ``no_tmp``: the other sources are then the
    first ones of ``counted``.
    """

    trailing: int | None = None
    destination_second: bool = False
    indexed: tuple[str, ...] = ()
    generic: tuple[Segment, ...] = ()
    inline: bool = False
    inline_comma: bool = False
    typed_apart: bool = False
    argument: str = ""
    with_fp: str = ""
    fp_clause: str = ""
    with_tmp: str = ""
    tmp_clause: str = ""
    scratch: Literal["", "behind", "no_tmp"] = ""
    counted: tuple[str, ...] = ()


def segments(text: str) -> tuple[Segment, ...]:
    """The segments of the generic form: one word each, ``name`` or ``name=operand,operand``.

    ``name=`` holds no operand of these declarations, and ``+`` in front says that it is a later part.

    >>> segments("src +fp=scale")
    (Segment(name='src', operands=('src',), later=False), Segment(name='fp', operands=('scale',), later=True))
    >>> segments("pad=")
    (Segment(name='pad', operands=(), later=False),)
    """
    parts = (word.removeprefix("+").partition("=") for word in text.split())
    return tuple(
        Segment(
            name,
            tuple((listed if operands else name).split(",")) if listed or not operands else (),
            word[0] == "+",
        )
        for word, (name, operands, listed) in zip(text.split(), parts, strict=True)
    )


#: Spelled as the roles of the operands say.
AS_DECLARED = Assembly()
