"""Types of the operands of one instruction, as its declaration decides them for a call from Python.

A call gives tiles, whose types are fixed, arrays, which stand for tiles of their shape, and numbers. What
it leaves open is tried in the order of the declaration: arrays as plain row_major tiles, then in the places
and element orders of the declaration's samples; a destination in the size its declaration derives from the
sources. What the rules of the instruction accept is taken, where it is one type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import TypeAlias

from .. import ir, isa, profiles
from ..errors import ArgumentError, Diagnostic, VerifyError
from ..isa.declare import Size, Sources
from ..isa.rules.regions import OPEN_SIZE
from ..isa.samples.operations import legal_samples
from ..verifier.programs import check_op
from . import conversion, op_messages
from .op_request import ArrayType, DestinationType, NumberType, Request

#: Place and element order of a tile: loc, blayout, slayout, fractal.
_Position: TypeAlias = tuple[ir.Loc, ir.BLayout, ir.SLayout, int]
_Positions: TypeAlias = "dict[str, _Position]"
_PLAIN: _Position = (ir.Loc.VEC, ir.BLayout.ROW_MAJOR, ir.SLayout.NONE_BOX, 512)


@dataclass(frozen=True)
class Typed:
    """A call with all its types, and what the rules say about it."""

    op: ir.Op
    findings: tuple[Diagnostic, ...]

    @cached_property
    def errors(self) -> list[Diagnostic]:
        """What makes the call illegal."""
        return [d for d in self.findings if d.severity == "error"]

    @cached_property
    def bound(self) -> isa.Bound:
        """The operands under the names of the declaration."""
        return isa.bind(isa.instructions()[self.op.name], self.op)

    @cached_property
    def outs(self) -> tuple[ir.Type, ...]:
        """Types of the destinations, in order."""
        return tuple(v.type for v in self.op.outs)

    @cached_property
    def elements(self) -> tuple[ir.DType | None, ...]:
        """Element types of the destinations, in order; None where the type has no elements."""
        return tuple(getattr(t, "dtype", None) for t in self.outs)


@lru_cache(maxsize=8192)
def resolve(request: Request) -> Typed:
    """The types of a call's operands.

    Raises ArgumentError where a destination's type is needed, VerifyError where no types are legal.
    """
    tried = list(_typed(request, {}))
    if request.is_open and all(t.errors for t in tried):
        for positions in _other_positions(request, tried[0].op):
            tried += [t for t in _typed(request, positions) if t not in tried]
    legal = [t for t in tried if not t.errors]
    if not legal:
        best = min(tried, key=lambda t: len(t.errors))
        raise VerifyError([op_messages.noted(d, request, best.op) for d in best.errors])
    return _chosen(request, legal)


def _chosen(request: Request, legal: Sequence[Typed]) -> Typed:
    """One of several legal calls.

    Destinations must have one element type, and, where nothing is warned of, one type.
    """
    for i, (name, destination) in enumerate(request.destinations):
        for choice in _defaults(request, name, legal[0].op) if destination is None else ():
            having = [t for t in legal if t.elements[i] == choice]
            if having:
                legal = having
                break
    fewest = min(len(t.findings) for t in legal)
    clean = [t for t in legal if len(t.findings) == fewest]
    if len({t.elements for t in clean}) == 1:
        legal = clean
    if len({t.outs for t in legal}) > 1:
        raise ArgumentError(op_messages.ambiguous(request, [t.op for t in legal]))
    return legal[0]


def _defaults(request: Request, name: str, op: ir.Op) -> list[ir.DType]:
    """Element types that a destination has unless it is given another one, the first choice first."""
    types = {v.name: v.type for v in op.ins}
    bound = {n: t.dtype.name for n, t in types.items() if isinstance(t, ir.TileType)}
    bound |= _variables(request.instruction, types)
    return [ir.dtype(bound.get(d, d)) for d in request.instruction.operand(name).default]


def _typed(request: Request, positions: _Positions) -> Iterator[Typed]:
    """The call with sources in the given positions, for every type its open destinations may have."""
    sources = dict(zip(request.form, request.sources, strict=True))
    tiles: dict[str, ir.TileType] = {}
    for name, source in sources.items():
        if not isinstance(source, NumberType):
            tiles[name] = _tile_type(request, name, source, positions)
    choices = [_destination(request, n, d, tiles, positions) for n, d in request.destinations]
    names = [n for n, _ in request.destinations]
    # Scratch is an address for the assembler to know; a call from Python places nothing.
    asked = {f"{o.name}-given" for o in request.instruction.operands if o.role == "tmp"}
    for outs in product(*choices):
        every: dict[str, ir.Type] = {**tiles, **dict(zip(names, outs, strict=True))}
        ins = tuple(
            ir.Value(
                n, every.get(n) or _scalar(request, n, g, every) if isinstance(g, NumberType) else tiles[n]
            )
            for n, g in sources.items()
        )
        values = tuple(ir.Value(n, t) for n, t in zip(names, outs, strict=True))
        op = ir.Op(request.name, ins, values, attributes=request.attributes, form="dps")
        yield Typed(op, tuple(d for d in check_op(op, request.profile) if d.rule not in asked))


def _tile_type(
    request: Request, name: str, given: ir.TileType | ArrayType, positions: _Positions
) -> ir.TileType:
    if isinstance(given, ir.TileType):
        return given
    named = ir.find_dtype(request.instruction.operand(name).dtype or "")
    holds = named is not None and conversion.accepts(named, given.dtype.numpy)
    return _at(positions.get(name, _PLAIN), named if named and holds else given.dtype, given.rows, given.cols)


def _at(position: _Position, d: ir.DType, rows: int, cols: int) -> ir.TileType:
    loc, blayout, slayout, fractal = position
    return ir.TileType(d, rows, cols, loc=loc, blayout=blayout, slayout=slayout, fractal=fractal)


def _scalar(request: Request, name: str, given: NumberType, types: Mapping[str, ir.Type]) -> ir.ScalarType:
    """A number has the declared type, or that of a tile that must have the same one."""
    operand = request.instruction.operand(name)
    declared: ir.DType | None = ir.INDEX if operand.kind == "index" else ir.find_dtype(operand.dtype or "")
    if declared is None and operand.dtype is not None:
        same = (t for n, t in types.items() if request.instruction.operand(n).dtype == operand.dtype)
        declared = next((t.dtype for t in same if isinstance(t, ir.TileType)), None)
    if declared is None:
        sampled = _sampled_scalar(request.name, request.profile, name)
        declared = sampled or next((t.dtype for t in types.values() if isinstance(t, ir.TileType)), ir.F32)
    if given.dtype is None or conversion.accepts(declared, given.dtype.numpy) or declared == ir.INDEX:
        return ir.ScalarType(declared)
    return ir.ScalarType(given.dtype)


# -- destinations --------------------------------------------------------------------------------------


def _destination(
    request: Request,
    name: str,
    given: DestinationType,
    tiles: Mapping[str, ir.TileType],
    positions: _Positions,
) -> list[ir.Type]:
    """The types a destination may have, those the declaration names first in front."""
    operand = request.instruction.operand(name)
    if operand.kind == "vector":
        return [operand.vector]
    if isinstance(given, ir.TileType | ArrayType):
        return [_tile_type(request, name, given, positions)]
    if operand.role == "inout":
        raise ArgumentError(op_messages.required(request, name, "reads"))
    types: list[ir.Type] = []
    for d in [given] if given is not None else _elements(request, operand, tiles):
        t = _new(request, operand, d, tiles, positions)
        if t is None:
            raise ArgumentError(op_messages.required(request, name, "size"))
        types.append(t)
    return types


def _new(
    request: Request,
    operand: isa.Operand,
    d: ir.DType,
    tiles: Mapping[str, ir.TileType],
    positions: _Positions,
) -> ir.TileType | None:
    """The type of a destination of the size that the declaration gives it."""
    reference = tiles.get(_reference(request.instruction, operand, tuple(tiles)) or "")
    if reference is None:
        return None
    sizes = {n: tuple(OPEN_SIZE if s is None else s for s in t.valid) for n, t in tiles.items()}
    size = destination_size(request, operand.name, d, tiles, sizes)
    if size is None:
        return None
    (rows, cols), valid = size
    static = [s if isinstance(s, int) else None for s in valid]
    if operand.name in positions:
        t = _at(positions[operand.name], d, rows, cols)
    elif operand.extent is None and not positions:
        t = reference.with_dtype(d)
    else:
        t = _at((reference.loc, *_PLAIN[1:]), d, rows, cols)
    return t.with_valid(*static)


def destination_size(
    request: Request, name: str, d: ir.DType, tiles: Mapping[str, ir.TileType], sizes: Mapping[str, object]
) -> Size | None:
    """Physical and valid rows and columns of a destination that the call leaves open."""
    operand = request.instruction.operand(name)
    reference = _reference(request.instruction, operand, tuple(tiles))
    if operand.extent is None:
        return (tiles[reference].shape, sizes[reference]) if reference else None  # type: ignore[return-value]
    attributes = {a.name: a.default for a in request.instruction.attributes}
    attributes.update(request.attributes)
    return operand.extent.rule(Sources(tiles, sizes, attributes, d))  # type: ignore[arg-type]


def _reference(instruction: isa.Instruction, operand: isa.Operand, names: Sequence[str]) -> str | None:
    """The source a destination resembles.

    That is the first with its element type, else the first that has one of the declaration's types.
    """
    sources = [o for o in instruction.operands if o.name in names and o.role == "in" and o.kind == "tile"]
    same = [o for o in sources if operand.dtype is not None and o.dtype == operand.dtype]
    typed = [o for o in sources if o.dtype in instruction.type_vars]
    return next((o.name for o in (*same, *typed, *sources)), None)


def _elements(request: Request, operand: isa.Operand, tiles: Mapping[str, ir.TileType]) -> list[ir.DType]:
    """The element types that the declaration's table, or its default, leaves for a destination."""
    instruction = request.instruction
    named = ir.find_dtype(operand.dtype or "")
    if named is not None:
        return [named]
    destinations = {n: d for n, d in request.destinations if isinstance(d, ir.TileType)}
    bound = _variables(instruction, {**tiles, **destinations})
    if operand.dtype in bound:
        return [ir.dtype(bound[operand.dtype])]
    if operand.dtype in instruction.type_vars:
        at = instruction.type_vars.index(operand.dtype)
        rows = instruction.types.get(request.profile.name, ())
        fitting = [
            r
            for r in rows
            if all(bound.get(v, x) == x for v, x in zip(instruction.type_vars, r, strict=True))
        ]
        if fitting:
            return list(dict.fromkeys(ir.dtype(r[at]) for r in fitting))
    beside = tiles.get(operand.beside or "") or next(iter(tiles.values()), None)
    return [beside.dtype if beside is not None else ir.F32]


def _variables(instruction: isa.Instruction, types: Mapping[str, ir.Type]) -> dict[str, str]:
    """The element type of each type variable that some tile decides."""
    bound: dict[str, str] = {}
    for name, t in types.items():
        variable = instruction.operand(name).dtype
        if variable in instruction.type_vars and isinstance(t, ir.TileType):
            bound.setdefault(variable, t.dtype.name)
    return bound


# -- positions -----------------------------------------------------------------------------------------


def _other_positions(request: Request, plain: ir.Op) -> Iterator[_Positions]:
    """Where operands may be instead of in plain tiles.

    Where the first tile of the call is, and where the declaration's samples have them. Samples in the plain
    places go first: where there are any, it is not the places that are wrong, and others would mean another
    operation.
    """
    tiles = {v.name: v.type for v in (*plain.ins, *plain.outs) if isinstance(v.type, ir.TileType)}
    first = next((t for t in request.sources if isinstance(t, ir.TileType)), None)
    if first is not None:
        position = (first.loc, first.blayout, first.slayout, first.fractal)
        yield dict.fromkeys(tiles, position)
    sampled = _sampled(request.name, request.profile)
    at_home = [s for s in sampled if all(s[n][0] == t.loc for n, t in tiles.items() if n in s)]
    yield from at_home or sampled


# -- samples -------------------------------------------------------------------------------------------


@cache
def _sampled(name: str, profile: profiles.Profile) -> tuple[_Positions, ...]:
    """Places and element orders of an instruction's tiles in its legal samples."""
    arrangements: list[_Positions] = []
    for sample in legal_samples(isa.instructions()[name], profile):
        tiles = {n: t for n, t in sample.types.items() if isinstance(t, ir.TileType)}
        if any(t.conv is not None for t in tiles.values()):
            continue
        positions = {n: (t.loc, t.blayout, t.slayout, t.fractal) for n, t in tiles.items()}
        if positions not in arrangements:
            arrangements.append(positions)
    return tuple(arrangements)


@cache
def _sampled_scalar(name: str, profile: profiles.Profile, operand: str) -> ir.DType | None:
    """The type of a number whose declaration leaves it free, in the first sample that has it."""
    for sample in legal_samples(isa.instructions()[name], profile):
        t = sample.types.get(operand)
        if isinstance(t, ir.ScalarType):
            return t.dtype
    return None
