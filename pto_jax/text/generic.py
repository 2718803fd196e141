"""Reading the generic form of tile instructions, ``"pto.tadd"(%a, %b, %d) : (T, T, T) -> ()``."""

from typing import NoReturn

from .. import isa
from ..ir import Op, UnknownType
from ..isa.assembly import Segment
from ..isa.bind import accepts
from ..isa.declare import Instruction
from . import lexer, tile_syntax
from .reader import Reader
from .tile_syntax import TileOp, TileOperand, finish, give_types, read_operand, read_types

SEGMENTS = "operandSegmentSizes"
_Split = tuple[list[TileOperand], list[TileOperand]]


def read_generic(reader: Reader, head: TileOp) -> Op:
    """``"pto.tadd"(%a, %b, %d) <{...}> {...} : (T, T, T) -> ()``; the quoted name has been passed."""
    c = reader.cursor
    role = f"after the quoted name of {head.name}"
    operands = c.enclosed(lexer.Kind.L_PAREN, lambda: read_operand(reader), role)
    if c.kind is lexer.Kind.LESS:
        opened = c.open(lexer.Kind.LESS)
        reader.attributes.dictionary(head.attributes, head.places, head.name)
        c.close(lexer.Kind.GREATER, opened)
    if c.kind is lexer.Kind.L_BRACE:
        reader.attributes.dictionary(head.attributes, head.places, head.name)
    c.expect(lexer.Kind.COLON, "before the types of the generic form")
    start = c.start
    types = read_types(reader)
    c.expect(lexer.Kind.ARROW)
    result_types = read_types(reader)
    give_types(reader, head.name, operands, types, start)
    ins, outs = _segments(reader, head, operands)
    return finish(reader, head, ins, outs, result_types, "generic")


def _segments(reader: Reader, head: TileOp, operands: list[TileOperand]) -> _Split:
    """Sources in the order of an overload, and destinations."""
    sizes = head.attributes.pop(SEGMENTS, None)
    instruction = isa.find(head.name)
    assert instruction is not None
    if sizes is not None:
        if len(operands) == 3:
            tile_syntax.name_by_tiles(head, [operands[0], operands[2]])
            instruction = isa.instructions()[head.name]
        parts = segments_of(instruction)
        if head.results:
            results = {o.name for o in instruction.destinations}
            parts = tuple(part for part in parts if not results.intersection(part.operands))
        names = _sized(reader, head, parts, sizes, len(operands))
        quantising = isa.find(instruction.assembly.with_fp) if "fp" in names else None
        if quantising is not None:
            head.name, instruction = quantising.name, quantising
        return _split(instruction, names, operands)
    if instruction.trailing == 0 or head.results:
        return operands, []
    return _Assignment(reader, head, instruction, operands).split()


def segments_of(instruction: Instruction) -> tuple[Segment, ...]:
    """The segments of an instruction's operands.

    They are the declared ones, or each operand of the longest overload and its destinations.
    """
    form = max(instruction.forms, key=len)
    destinations = [o.name for o in instruction.destinations if not o.optional or o.beside is not None]
    names = dict.fromkeys((*form, *destinations))
    return instruction.assembly.generic or tuple(Segment(n, (n,)) for n in names)


def _sized(reader: Reader, head: TileOp, parts: tuple[Segment, ...], sizes: object, count: int) -> list[str]:
    """The operand that each of ``count`` values stands for by the sizes of the segments."""
    listed = sizes if isinstance(sizes, tuple) else ()
    if len(listed) < len(parts):
        parts = tuple(part for part in parts if not part.later)
    names: list[str] = []
    for part, n in zip(parts, listed, strict=False):
        names += part.operands[:n] if isinstance(n, int) and n >= 0 else ()
    whole = len(listed) == len(parts) and sum(n for n in listed if isinstance(n, int)) == count
    if not whole or len(names) != count:
        wanted = ", ".join(part.name for part in parts)
        reader.cursor.fail_since(
            head.start,
            f"got {SEGMENTS} that do not divide {count} operands; allowed: one size for each of ({wanted})",
        )
    return names


def _split(instruction: Instruction, names: list[str], operands: list[TileOperand]) -> _Split:
    """Sources and destinations; the sources in the order of the overload that has them, if one does."""
    written = {o.name for o in instruction.destinations}
    read = [n for n in names if n not in written]
    same = [list(f) for f in instruction.forms if sorted(f) == sorted(read)]
    form = read if read in same or not same else same[0]
    ins = [operands[names.index(n)] for n in form]
    return ins, [o for name, o in zip(names, operands, strict=True) if name in written]


class _Assignment:
    """The operands of an operation that gives no sizes of segments: one assignment must fit them."""

    def __init__(
        self, reader: Reader, head: TileOp, instruction: Instruction, operands: list[TileOperand]
    ) -> None:
        self.reader, self.head, self.instruction, self.operands = reader, head, instruction, operands
        self.parts = segments_of(instruction)
        #: The segment of an operand; the last one where several may hold it.
        self.segment = {name: i for i, part in enumerate(self.parts) for name in part.operands}

    def split(self) -> _Split:
        """Sources and destinations.

        Where no overload has as many operands, the instructions without segments of their own name their
        destinations last, and the verifier tells what is allowed.
        """
        lists = [n for n in self.overloads() if len(n) == len(self.operands)]
        fitting = [n for n in lists if self.fits(n)] or lists
        splits = [_split(self.instruction, names, self.operands) for names in fitting]
        if splits and all(s == splits[0] for s in splits):
            return splits[0]
        if not splits and not self.instruction.assembly.generic:
            cut = max(0, len(self.operands) - sum(not o.optional for o in self.instruction.destinations))
            return self.operands[:cut], self.operands[cut:]
        return self.refuse(fitting)

    def overloads(self) -> list[list[str]]:
        """The operands of each overload in the order of the generic form.

        First with all its destinations, then without the optional ones, where no list before has as many
        operands of these kinds.
        """
        lists: list[list[str]] = []
        required = [o.name for o in self.instruction.destinations if not o.optional]
        for form in self.instruction.forms:
            lists.append(self.ordered(form, [o.name for o in self.instruction.destinations_of(form)]))
        shorter = [self.ordered(form, required) for form in self.instruction.forms]
        taken = [n for n in lists if len(n) == len(self.operands) and self.fits(n)]
        return lists if taken else [*lists, *(n for n in shorter if n not in lists)]

    def ordered(self, form: tuple[str, ...], destinations: list[str]) -> list[str]:
        """The operands of an overload in the order of the generic form; none where it lacks one of them."""
        if not self.instruction.assembly.generic:
            return [*form, *destinations]
        listed = {*form, *destinations}
        if not listed <= self.segment.keys():
            return []
        return [
            n
            for i, part in enumerate(self.parts)
            for n in part.operands
            if n in listed and self.segment[n] == i
        ]

    def fits(self, names: list[str]) -> bool:
        """Whether the operands are of the kinds that these declared ones have."""
        types = [o.written or self.reader.scopes.known_type(o.mention.name) for o in self.operands]
        return all(
            accepts(self.instruction.operand(n), t or UnknownType())
            for n, t in zip(names, types, strict=True)
        )

    def refuse(self, fitting: list[list[str]]) -> NoReturn:
        """Report operands that several overloads have, or none."""
        c, found = self.reader.cursor, f"got {len(self.operands)} operand(s) of {self.head.name}"
        lists = fitting or [n for n in self.overloads() if n]
        listed = " or ".join(dict.fromkeys(f"({', '.join(n)})" for n in lists))
        if fitting:
            sizes = " or ".join(dict.fromkeys(self.sizes(n) for n in fitting))
            wanted = ", ".join(part.name for part in self.parts)
            found += f" that may be {listed}; allowed: {SEGMENTS} = {sizes}, the sizes of ({wanted})"
        else:
            found += f"; allowed in the generic form without {SEGMENTS}: {listed}"
        c.fail_since(self.head.start, found)

    def sizes(self, names: list[str]) -> str:
        """The sizes of the segments that say which operands these are."""
        counts = [sum(self.segment[n] == i for n in names) for i, _ in enumerate(self.parts)]
        return f"array<i32: {', '.join(map(str, counts))}>"
