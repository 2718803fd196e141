"""Reading the generic form of tile instructions, ``"pto.tadd"(%a, %b, %d) : (T, T, T) -> ()``."""

from __future__ import annotations

from ..ir.program import Op
from .names import SOURCE_FIRST
from .reader import Reader
from .tile_syntax import TileOp, TileOperand, finish, give_types, read_operand, read_types
from .tokens import Kind

#: Operand order of the generic form where optional operands exist (``>`` marks destinations); other
#: instructions list their sources and then one destination.
GENERIC_ORDER = {
    "tload": "src >dst",
    "tstore": "src >dst pre_quant_scalar",
    "tmov": "src >dst fp pre_quant_scalar",
    "tcolsum": "src tmp >dst",
    "tcvt": "src >dst tmp",
    "trsqrt": "src >dst tmp",
    "tsort32": "src idx tmp >dst",
    "tquant": "src fp offset >dst",
    "tgather": "src >dst >cdst indices tmp k",
    "tmrgsort": "srcs block_len >dsts tmp >executed",
    **dict.fromkeys(
        [f"trowexpand{k}" for k in ("mul", "sub", "div", "max", "min", "expdif")], "src0 src1 tmp >dst"
    ),
}
SEGMENTS = "operandSegmentSizes"


def read_generic(reader: Reader, head: TileOp) -> Op:
    """``"pto.tadd"(%a, %b, %d) <{...}> {...} : (T, T, T) -> ()``; the quoted name has been passed."""
    c = reader.cursor
    opened = c.start
    c.expect(Kind.L_PAREN, f"after the quoted name of {head.name}")
    operands = c.listed(lambda: read_operand(reader), Kind.R_PAREN)
    c.close(Kind.R_PAREN, opened)
    if c.kind is Kind.LESS:
        opened = c.start
        c.advance()
        reader.attributes.dictionary(head.attributes, head.places, head.name)
        c.close(Kind.GREATER, opened)
    if c.kind is Kind.L_BRACE:
        reader.attributes.dictionary(head.attributes, head.places, head.name)
    c.expect(Kind.COLON, "before the types of the generic form")
    start = c.start
    types = read_types(reader)
    c.expect(Kind.ARROW)
    result_types = read_types(reader)
    give_types(reader, head.name, operands, types, start)
    ins, outs = _segments(reader, head, operands)
    return finish(reader, head, ins, outs, result_types, "generic")


def _segments(
    reader: Reader, head: TileOp, operands: list[TileOperand]
) -> tuple[list[TileOperand], list[TileOperand]]:
    sizes = head.attributes.pop(SEGMENTS, None)
    order = GENERIC_ORDER.get(head.name, "").split()
    if sizes is None:
        if SOURCE_FIRST.get(head.name) == 0 or head.results:
            return operands, []
        if not order or len(order) == len(operands):
            names = order or ["src"] * (len(operands) - 1) + [">dst"]
            return _split(names, operands)
        sizes = tuple(1 if i < len(operands) else 0 for i in range(len(order)))
    if not order and isinstance(sizes, tuple):
        order = ["src"] * (len(sizes) - 1) + [">dst"]
    usable = isinstance(sizes, tuple) and all(isinstance(s, int) and 0 <= s <= len(operands) for s in sizes)
    counts = [int(s) for s in sizes if isinstance(s, int)] if usable and isinstance(sizes, tuple) else []
    if len(counts) != len(order) or sum(counts) != len(operands):
        wanted = ", ".join(name.lstrip(">") for name in order)
        reader.cursor.fail(
            f"found {SEGMENTS} that do not divide {len(operands)} operands; allowed: one size for each of "
            f"({wanted})",
            start=head.start,
            end=reader.cursor.last_end,
        )
    return _split([name for name, n in zip(order, counts, strict=True) for _ in range(n)], operands)


def _split(names: list[str], operands: list[TileOperand]) -> tuple[list[TileOperand], list[TileOperand]]:
    ins = [o for name, o in zip(names, operands, strict=False) if not name.startswith(">")]
    return ins, [o for name, o in zip(names, operands, strict=False) if name.startswith(">")]
