"""What stands in ``ins(...)`` besides sources and their types: operands, parameter clauses, axes."""

from dataclasses import dataclass, field
from enum import IntEnum

from ..ir import AttrValue, Loc, ScalarType, TileType, Type
from . import dictionaries, scope, tokens, typing
from .names import assembly
from .reader import Reader


@dataclass
class TileOperand:
    """An operand mention with the indices behind it and the type written for it."""

    mention: scope.Mention
    indices: list[scope.Mention] = field(default_factory=list)
    written: typing.Maybe = None
    index_types: list[Type] = field(default_factory=list)


@dataclass
class TileOp:
    """What the spellings have in common while an instruction is read."""

    name: str
    results: list[scope.Mention]
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
    if c.kind is tokens.Kind.L_SQUARE:
        opened = c.open(tokens.Kind.L_SQUARE)
        operand.indices = reader.mentions()
        c.close(tokens.Kind.R_SQUARE, opened)
    return operand


#: Clauses behind the sources with one parameter each, which stands behind the first source otherwise.
_PARAMETERS = ("fp", "pre_quant")


def parameter_clauses(reader: Reader, head: TileOp, operands: list[TileOperand]) -> list[TileOperand]:
    """``fp %fp : T`` and ``pre_quant %word : i64`` behind the types."""
    c = reader.cursor
    with_fp = assembly(head.name).with_fp
    while c.kind is tokens.Kind.BARE_IDENT and c.text in _PARAMETERS and with_fp:
        fp = c.take() == "fp"
        operand = read_operand(reader)
        c.expect(tokens.Kind.COLON, "and the type of the parameter")
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
        c.fail_since(start, f"found the axis '{word}'; allowed: {', '.join(members) or 'none'}")
    reader.attributes.store(
        head.attributes, head.places, head.name, "axis", members[word], (start, span, start)
    )
