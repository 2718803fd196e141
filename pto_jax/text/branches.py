"""Blocks of a function that branches lead to, and selections of handles, read and printed.

A body of several blocks is one operation, whose regions are the blocks; ``labels`` are their names, and each
branch holds the labels that it leads to.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..ir import (
    I1,
    MemRefType,
    Op,
    PartitionViewType,
    PtrType,
    Region,
    ScalarType,
    TensorViewType,
    TileType,
    Value,
)
from ..isa.structure import BRANCH, BRANCH_IF, GRAPH
from . import scope, tokens, type_text
from .reader import Reader

_Target = tuple[str, list[Value]]
_HANDLES = TileType | PtrType | TensorViewType | PartitionViewType | MemRefType


def read_branch(reader: Reader, results: list[scope.Mention], start: int) -> Op:
    """``cf.br ^next(%a, %b : T, T)``."""
    label, values = _target(reader)
    return _branch(reader, BRANCH, (), [(label, values)], start)


def read_branch_if(reader: Reader, results: list[scope.Mention], start: int) -> Op:
    """``cf.cond_br %c, ^then(%a : T), ^else``."""
    c = reader.cursor
    condition = reader.scopes.use(reader.mention(), ScalarType(I1))
    c.expect(tokens.Kind.COMMA, "before the block of a true condition")
    first = _target(reader)
    c.expect(tokens.Kind.COMMA, "before the block of a false condition")
    return _branch(reader, BRANCH_IF, (condition,), [first, _target(reader)], start)


def _target(reader: Reader) -> _Target:
    c = reader.cursor
    label = c.expect(tokens.Kind.CARET_IDENT, "a block")[1:]
    if c.kind is not tokens.Kind.L_PAREN:
        return label, []
    opened = c.open(tokens.Kind.L_PAREN)
    mentions = reader.mentions()
    c.expect(tokens.Kind.COLON, "before the types of the values")
    types = c.listed(reader.types.read, tokens.Kind.R_PAREN)
    if len(types) != len(mentions):
        c.fail(f"found {len(types)} type(s) for {len(mentions)} value(s)", start=opened, end=c.start)
    c.close(tokens.Kind.R_PAREN, opened)
    return label, [reader.scopes.use(m, t) for m, t in zip(mentions, types, strict=True)]


def _branch(
    reader: Reader, name: str, condition: tuple[Value, ...], targets: list[_Target], start: int
) -> Op:
    groups = [("condition", len(condition))] if condition else []
    groups += [(f"to{i}", len(values)) for i, (_, values) in enumerate(targets)]
    return Op(
        name,
        ins=(*condition, *(v for _, values in targets for v in values)),
        attributes=(("targets", tuple(label for label, _ in targets)),),
        groups=tuple(groups),
        span=reader.cursor.span(start, reader.cursor.last_end),
    )


def read_blocks(reader: Reader, first: list[Op]) -> Op:
    """The blocks of a body whose first block has just been read, at the label of the second one."""
    c = reader.cursor
    start = c.start
    labels, regions = [""], [Region(tuple(first))]
    while c.at(tokens.Kind.CARET_IDENT):
        at = c.start
        label = c.take()[1:]
        if label in labels:
            c.fail_since(at, f"found a second block ^{label}; allowed: one of each name")
        args: list[Value] = []
        if c.at(tokens.Kind.L_PAREN):
            args = c.enclosed(tokens.Kind.L_PAREN, reader.argument)
        c.expect(tokens.Kind.COLON, "after the block label")
        ops: list[Op] = []
        while c.kind not in (tokens.Kind.R_BRACE, tokens.Kind.CARET_IDENT, tokens.Kind.EOF):
            ops.append(reader.statement())
            reader.location()
        labels.append(label)
        regions.append(Region(tuple(ops), tuple(args)))
    for op in (op for region in regions for op in region.ops):
        targets = op.attrs.get("targets")
        for target in targets if op.name in (BRANCH, BRANCH_IF) and isinstance(targets, tuple) else ():
            if target not in labels[1:]:
                position = reader.position(op.span) if op.span is not None else start
                known = ", ".join(f"^{n}" for n in labels[1:])
                c.fail(f"found a branch to the unknown block ^{target}; known: {known}", start=position)
    return Op(
        GRAPH, regions=tuple(regions), attributes=(("labels", tuple(labels)),), span=c.span(start, c.last_end)
    )


def selection(op: Op) -> Op:
    r"""An operation; the selection of one of two tiles, pointers or views as the branch that hands it on.

    >>> from pto_jax.text import parse
    >>> body = "%r = arith.select %c, %a, %b : !pto.ptr<f32>"
    >>> parse(body).functions[0].body.ops[0].name, str(parse(body)) == body + "\n"
    ('scf.if', True)
    """
    if op.name != "arith.select" or not isinstance(op.ins[1].type, _HANDLES):
        return op
    ends = [Op("scf.yield", ins=(v,), span=op.span) for v in op.ins[1:]]
    regions = tuple(Region((end,)) for end in ends)
    return replace(op, name="scf.if", ins=op.ins[:1], regions=regions, groups=(), form="select")


def selected(op: Op) -> tuple[Value, Value] | None:
    """The two handles of a branch that was written as a selection, None where it is none (any more)."""
    if op.form != "select" or len(op.results) != 1:
        return None
    ends = [r.ops[0] if len(r.ops) == 1 else None for r in op.regions]
    handed = [e.ins for e in ends if e is not None and e.name == "scf.yield" and len(e.ins) == 1]
    return (handed[0][0], handed[1][0]) if len(handed) == 2 else None


def branch_text(op: Op) -> str:
    """A branch as programs write it."""
    targets = op.attrs["targets"]
    shown = [f"{v}" for v in op.group("condition")]
    for i, label in enumerate(targets if isinstance(targets, tuple) else ()):
        values = op.group(f"to{i}")
        types = ", ".join(type_text.print_type(v.type) for v in values)
        shown.append(f"^{label}" + (f"({', '.join(map(str, values))} : {types})" if values else ""))
    return f"{op.name} {', '.join(shown)}"


def block_heads(op: Op) -> Iterator[tuple[str, Region]]:
    """The line that opens each block ("" for the first one), and its region."""
    labels = op.attrs["labels"]
    for label, region in zip(labels if isinstance(labels, tuple) else (), op.regions, strict=True):
        args = ", ".join(f"{a}: {type_text.print_type(a.type)}" for a in region.args)
        yield (f"^{label}" + (f"({args})" if args else "") + ":") if label else "", region
