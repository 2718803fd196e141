"""A call of one instruction from Python: the types of its operands, and messages where none fit.

A call gives tiles, whose types are fixed, arrays, which stand for tiles of their shape, and numbers. What
it leaves open is tried in the order of the declaration: arrays as plain row_major tiles, then in the places
and element orders of the declaration's samples; a destination in the size its declaration derives from the
sources. What the rules of the instruction accept is taken, where it is one type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import TypeAlias

from .. import errors, ir, isa, profiles
from ..errors import ArgumentError, Diagnostic, VerifyError, nearest, objection
from ..files import user_code
from ..ir import F32, Attrs, DType, Op, TileType, element_order
from ..isa.declare import Size, Sources
from ..isa.rules.regions import OPEN_SIZE
from ..isa.samples.operations import legal_samples
from ..verifier.programs import check_op
from . import conversion

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
        raise VerifyError([noted(d, request, best.op) for d in best.errors])
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
        raise ArgumentError(ambiguous(request, [t.op for t in legal]))
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


def _tile_type(request: Request, name: str, t: ir.TileType | ArrayType, positions: _Positions) -> ir.TileType:
    if isinstance(t, ir.TileType):
        return t
    dtype = ir.find_dtype(request.instruction.operand(name).dtype or "")
    holds = dtype is not None and conversion.accepts(dtype, t.dtype.numpy)
    return _at(positions.get(name, _PLAIN), dtype if dtype and holds else t.dtype, t.rows, t.cols)


def _at(position: _Position, d: ir.DType, rows: int, cols: int) -> ir.TileType:
    loc, blayout, slayout, fractal = position
    return ir.TileType(d, rows, cols, loc=loc, blayout=blayout, slayout=slayout, fractal=fractal)


def _scalar(request: Request, name: str, number: NumberType, types: Mapping[str, ir.Type]) -> ir.ScalarType:
    """A number has the declared type, or that of a tile that must have the same one."""
    operand = request.instruction.operand(name)
    declared: ir.DType | None = ir.INDEX if operand.kind == "index" else ir.find_dtype(operand.dtype or "")
    if declared is None and operand.dtype is not None:
        same = (t for n, t in types.items() if request.instruction.operand(n).dtype == operand.dtype)
        declared = next((t.dtype for t in same if isinstance(t, ir.TileType)), None)
    if declared is None:
        sampled = _sampled_scalar(request.name, request.profile, name)
        declared = sampled or next((t.dtype for t in types.values() if isinstance(t, ir.TileType)), ir.F32)
    if number.dtype is None or conversion.accepts(declared, number.dtype.numpy) or declared == ir.INDEX:
        return ir.ScalarType(declared)
    return ir.ScalarType(number.dtype)


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
        raise ArgumentError(required(request, name, "reads"))
    types: list[ir.Type] = []
    for d in [given] if given is not None else _elements(request, operand, tiles):
        t = _new(request, operand, d, tiles, positions)
        if t is None:
            raise ArgumentError(required(request, name, "size"))
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
    dtype = ir.find_dtype(operand.dtype or "")
    if dtype is not None:
        return [dtype]
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


@dataclass(frozen=True)
class ArrayType:
    """An array that stands for a tile: its element type and shape."""

    dtype: DType
    rows: int
    cols: int


@dataclass(frozen=True)
class NumberType:
    """A number; ``dtype`` is None for those of Python, which take the type the instruction asks for."""

    dtype: DType | None


#: What a call gives for a source; for a destination (None: nothing, a DType: its element type).
SourceType: TypeAlias = TileType | ArrayType | NumberType
DestinationType: TypeAlias = TileType | ArrayType | DType | None


@dataclass(frozen=True)
class Request:
    """A call as far as types go: sources in the order of ``form``, destinations by name."""

    name: str
    form: tuple[str, ...]
    sources: tuple[SourceType, ...]
    destinations: tuple[tuple[str, DestinationType], ...]
    attributes: Attrs
    profile: profiles.Profile

    @cached_property
    def instruction(self) -> isa.Instruction:
        """The declaration of the instruction."""
        return isa.instructions()[self.name]

    @cached_property
    def is_open(self) -> bool:
        """Whether anything is left to the instruction."""
        arguments = (*self.sources, *(d for n, d in self.destinations if not self.is_vector(n)))
        return not all(isinstance(t, TileType | NumberType) for t in arguments)

    def is_vector(self, name: str) -> bool:
        """Whether an operand is a vector of the declaration's own type, not a tile."""
        return self.instruction.operand(name).kind == "vector"


_CAPACITY = "tile-capacity"
_SHAPES = frozenset({"tile-alignment", "tile-boxes"})


def python_name(instruction: isa.Instruction) -> str:
    """``tmatmul_acc`` for tmatmul.acc."""
    return instruction.name.replace(".", "_")


def spelled(t: TileType) -> str:
    """A tile type as a Python expression.

    >>> import pto_jax as pto
    >>> spelled(TileType("f16", 16, 64)), spelled(pto.tile_type("f16", 16, 64, loc="left"))
    ("pto.tile_type('f16', 16, 64)", "pto.tile_type('f16', 16, 64, loc='left')")
    """
    parts: dict[str, object] = {}
    if t.loc.value:
        parts["loc"] = t.loc.name.lower()
    blayout, slayout, fractal = element_order(t.loc)
    if (t.blayout, t.slayout) != (blayout, slayout):
        parts |= {"blayout": t.blayout.name.lower(), "slayout": t.slayout.name.lower()}
    if t.fractal != fractal:
        parts["fractal"] = t.fractal
    if not t.is_full:
        parts["valid"] = t.valid
    if t.pad.value:
        parts["pad"] = t.pad.name.lower()
    words = "".join(f", {k}={v!r}" for k, v in parts.items())
    return f"pto.tile_type({t.dtype.name!r}, {t.rows}, {t.cols}{words})"


def forms_text(instruction: isa.Instruction, forms: Sequence[tuple[str, ...]]) -> str:
    """The calls an instruction takes; sources that are numbers say so."""

    def source(name: str) -> str:
        return name if instruction.operand(name).kind == "tile" else f"{name}: number"

    name = python_name(instruction)
    return " or ".join(f"{name}({', '.join(map(source, f))})" for f in forms)


# -- sources -------------------------------------------------------------------------------------------


def miscounted(instruction: isa.Instruction, forms: Sequence[tuple[str, ...]], count: int) -> str:
    """The message for a call with ``count`` sources, which none of the ``forms`` takes."""
    sources = "1 source operand" if count == 1 else f"{count} source operands"
    expected = min((len(f) for f in forms), key=lambda n: abs(n - count), default=count)
    message = f"{instruction.name}: got {sources}"
    return objection(message, forms_text(instruction, forms), user_code.call_with(count, expected))


def mismatched(
    instruction: isa.Instruction,
    forms: Sequence[tuple[str, ...]],
    kinds: Sequence[str],
    described: Sequence[str],
) -> str:
    """Why sources fit none of the forms that take as many; ``kinds`` are "tile" or "scalar"."""
    if len(forms) > 1:
        operands = ", ".join(described)
        return f"{instruction.name}: got ({operands}); allowed: {forms_text(instruction, forms)}"
    index = next(i for i, n in enumerate(forms[0]) if _kind(instruction, n) != kinds[i])
    name = forms[0][index]
    expected = "a tile or a [rows, cols] array" if kinds[index] == "scalar" else "a number or a 0-d array"
    message = f"{instruction.name}: source {index} ({name}): got {described[index]}; allowed: {expected}"
    other = _sibling(instruction, kinds)
    return objection(message, fix=f"pto.ops.{other}" if other else "")


def _kind(instruction: isa.Instruction, name: str) -> str:
    return "tile" if instruction.operand(name).kind == "tile" else "scalar"


def _sibling(instruction: isa.Instruction, kinds: Sequence[str]) -> str | None:
    """The instruction of nearly the same name that takes such sources: tadds for tadd."""
    for name in (f"{instruction.name}s", instruction.name.removesuffix("s")):
        other = isa.instructions().get(name)
        forms = other.forms if other not in (None, instruction) and other.syntax == "tile" else ()
        if other is not None and any([_kind(other, n) for n in f] == list(kinds) for f in forms):
            return python_name(other)
    return None


def unknown_keyword(instruction: isa.Instruction, key: str, options: Sequence[str]) -> str:
    """The message for a keyword that is no attribute; ``options`` are those of every instruction."""
    attributes = [a.name for a in instruction.attributes]
    if any(key == o.name for o in instruction.operands):
        problem = f"got the keyword {key!r}, which is an operand"
        return f"{instruction.name}: {problem}; allowed: sources by position, destinations as dst="
    near = nearest(key, (*attributes, *options))
    allowed = f"attributes {', '.join(attributes) or 'none'}, and {', '.join(options)}"
    fix = f"{near}={user_code.argument(key, otherwise='...')}" if near else ""
    return objection(f"{instruction.name}: got the keyword {key!r}", allowed, fix)


# -- destinations --------------------------------------------------------------------------------------


def required(request: Request, name: str, reason: str) -> str:
    """Why the destination ``name`` must be given: the instruction "reads" it, or nothing says its "size"."""
    if reason == "reads":
        return (
            f"{request.name}: dst= is required, the instruction reads {name} before it writes it; allowed: "
            "the tile or [rows, cols] array to start from"
        )
    return (
        f"{request.name}: dst= is required, no source says how many rows and columns {name} has; "
        f"allowed: a tile type, for example {_example(request)}"
    )


def _example(request: Request) -> str:
    """``dst=`` with the destination types of a legal sample."""
    samples = legal_samples(request.instruction, request.profile)
    names = [n for n, _ in request.destinations if not request.is_vector(n)]
    elements = [getattr(t, "dtype", None) for t in request.sources]
    others = None
    for sample in samples:
        types = [t for n in names if isinstance(t := sample.types.get(n), TileType) and t.conv is None]
        if len(types) < len(names) or len(sample.form) != len(request.form):
            continue
        having = [getattr(sample.types.get(n), "dtype", None) for n in request.form]
        if all(e in (None, h) for e, h in zip(elements, having, strict=True)):
            return _keyword(types)
        others = others or types
    return _keyword(others or [TileType(F32, 16, 64)] * len(names))


def _keyword(types: Sequence[TileType]) -> str:
    names = ", ".join(map(spelled, types))
    return f"dst={names}" if len(types) == 1 else f"dst=({names})"


def ambiguous(request: Request, ops: Sequence[Op]) -> str:
    """Which destination types several legal calls have."""
    for i, (name, _) in enumerate(request.destinations):
        types = list(dict.fromkeys(t for op in ops if isinstance(t := op.outs[i].type, TileType)))
        elements = list(dict.fromkeys(t.dtype.name for t in types))
        if len(types) < 2:
            continue
        several = len([n for n, _ in request.destinations if not request.is_vector(n)]) > 1
        if len(elements) > 1:
            example = repr(elements[0])
            what, names = "element type", ", ".join(elements)
        else:
            example = spelled(types[0])
            what, names = "type", ", ".join(map(str, types))
        entry = f"the entry of {name} in dst=(...)" if several else f"dst={example}"
        return (
            f"{request.name}: dst= is required, the {what} of {name} does not follow from the sources; "
            f"allowed on {request.profile.name}: {names}; for example {entry}"
        )
    return f"{request.name}: dst= is required"


def noted(d: errors.Diagnostic, request: Request, op: Op) -> errors.Diagnostic:
    """A finding about an operand whose type was left open, with how to give it."""
    arguments = {**dict(zip(request.form, request.sources, strict=True)), **dict(request.destinations)}
    types = {v.name: v.type for v in (*op.ins, *op.outs)}
    if d.operand is None or d.operand not in arguments:
        return d
    left, t = arguments[d.operand], types[d.operand]
    if not isinstance(t, TileType):
        return d
    if d.rule == _CAPACITY:
        note = "; cut the arrays into such tiles and jax.vmap over them (pto.nn.linear does it for products)"
    elif d.rule == "layout" and isinstance(left, TileType) and left.cols == 1:
        note = "; in Python: the row tile.array.reshape(1, -1), whose result reshapes back"
    elif isinstance(left, ArrayType) and d.rule in _SHAPES:
        note = f"; pad the array, its valid part is pto.tile(padded, valid=({left.rows}, {left.cols}))"
    elif isinstance(left, ArrayType):
        note = f"; the array counts as {spelled(t)}, pto.tile(x, type=...) gives it another type"
    elif left is None and d.rule != "types":
        note = f"; without dst= {d.operand} is {spelled(t)}"
    else:
        return d
    return replace(d, message=d.message + note)
