"""The opcodes of lockstep execution, derived from the declarations.

An opcode is an instruction with element types, operand shapes and attributes. Registers hold tiles of
``rows * cols`` elements at most: of the shape itself, or half as high and twice as wide where a row would
not fill a block of memory (8-bit types), or with one valid column or row for what reductions write and
expansions read. Left out are instructions on global memory, with several destinations or positions as
operands, 64-bit and sub-byte types, and results without an exact value.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from itertools import product
from typing import Literal, TypeAlias, TypeVar

from .. import ir, isa
from ..isa.check import check_op
from ..isa.declare import Instruction, Operand
from ..isa.effects import kept_apart
from ..lowering import RULES, Semantics
from ..lowering.lockstep import SCALARS, SLOTS, Branch
from ..lowering.rules import Context
from ..profiles import Profile, ProfileName, profile as find_profile

#: What the valid region of a register is: that of the program, its first column or its first row.
Role: TypeAlias = Literal["tile", "column", "row"]
_BLOCK_BITS = 256
#: Element types for operands whose type the declaration leaves open.
_OPEN = (ir.U8, ir.I32, ir.U16)
_BITS = (8, 16, 32)
_CLASSES = ("elementwise", "tile_scalar", "reduce_expand", "layout", "irregular")


@dataclass(frozen=True)
class Kind:
    """What a register can hold: a tile type with open valid sizes, and its role."""

    type: ir.TileType
    role: Role = "tile"

    @property
    def limits(self) -> tuple[int, int]:
        """The largest valid sizes."""
        t = self.type
        return t.rows if self.role != "row" else 1, t.cols if self.role != "column" else 1


@dataclass(frozen=True)
class Opcode:
    """One opcode: its branch, and what the register in each slot must hold (destination first).

    ``tmp`` gives the types of scratch operands, which no engine reads.
    """

    branch: Branch
    kinds: tuple[Kind, ...]
    tmp: tuple[tuple[str, ir.TileType], ...]

    @property
    def name(self) -> str:
        """The name of the instruction."""
        return self.branch.context.instruction

    @property
    def instruction(self) -> Instruction:
        """The declaration of the instruction."""
        return isa.instructions()[self.name]

    @property
    def dtype(self) -> ir.DType:
        """Element type of the destination."""
        return self.kinds[0].type.dtype

    @property
    def apart(self) -> tuple[bool, ...]:
        """Which slots hold another register than the destination's, as bytes of both must not be shared."""
        context = self.branch.context
        flags = kept_apart(
            self.instruction, context.form, dict(context.types), context.semantics.profile.name
        )
        pairs = {frozenset((name, other)) for name, other, _ in flags}
        return tuple(frozenset((self.branch.tiles[0], name)) in pairs for name in self.branch.tiles)

    def __str__(self) -> str:
        types = " ".join(f"{n}:{t}" for n, t in self.branch.context.types)
        attributes = " ".join(f"{k}={getattr(v, 'name', v)}" for k, v in self.branch.context.attributes)
        return f"{self.name} {types} {attributes}".strip()


@cache
def catalogue(profile: ProfileName, rows: int = 16, cols: int = 16) -> tuple[Opcode, ...]:
    """Every opcode of a profile for tiles of ``rows * cols`` elements.

    >>> found = catalogue("a5")
    >>> len({o.name for o in found}) >= 60, len({o.dtype for o in found}) >= 8
    (True, True)
    """
    instructions, p = isa.instructions(), find_profile(profile)
    return tuple(o for name in names(profile) for o in _opcodes(instructions[name], p, rows, cols))


@cache
def names(profile: ProfileName) -> tuple[str, ...]:
    """The instructions of a profile that may have opcodes."""
    declarations = isa.instructions().values()
    return tuple(i.name for i in declarations if _fits(i) and i.types.get(profile))


def one_opcode(name: str, profile: ProfileName, rows: int, cols: int, dtype: str, draw: str) -> Opcode | None:
    """One of an instruction's opcodes for tiles of ``rows * cols`` elements, by the hash of ``draw``.

    With operands of element type ``dtype`` if it has such; None where it has no opcode. Unlike
    :func:`catalogue`, it checks few of them.

    >>> str(one_opcode("tabs", "a5", 16, 16, "f32", "first"))
    'tabs src:vec 16x16xf32 valid ?x? dst:vec 16x16xf32 valid ?x?'
    """
    instruction, p = isa.instructions()[name], find_profile(profile)
    variants = _shuffled(_variants(instruction, p), draw)
    for bound, form in sorted(variants, key=lambda v: all(d.name != dtype for d in v[0].values())):
        operands = [*(instruction.operand(n) for n in form), *instruction.destinations_of(form)]
        shapes = ((rows, cols), (rows // 2, cols * 2))
        # Where operands may have several kinds, the first legal arrangement or the second.
        skipped = zlib.crc32(f"{draw}:kinds".encode()) % _arrangements_of(instruction)
        last = None
        for kinds in _arrangements(operands, bound, shapes):
            defaults, *others = _attributes(instruction)
            tried = [*_shuffled([defaults, *others], draw)[:1], defaults, *others]
            legal = next((a for a in tried if _legal(instruction, p, form, kinds, a)), None)
            if legal is not None:
                last = _opcode(instruction, p, form, kinds, legal)
                if skipped == 0:
                    break
                skipped -= 1
        if last is not None and not instruction.ulp.get(last.dtype.name):
            return last
    return None


_Item = TypeVar("_Item")


def _shuffled(items: Iterable[_Item], draw: str) -> list[_Item]:
    originals = list(items)
    order = sorted(range(len(originals)), key=lambda i: zlib.crc32(f"{draw}:{i}".encode()))
    return [originals[i] for i in order]


def _fits(instruction: Instruction) -> bool:
    computable = instruction.syntax == "tile" and instruction.executable and instruction.name in RULES
    return computable and instruction.cls in _CLASSES and bool(instruction.types)


def _opcodes(instruction: Instruction, profile: Profile, rows: int, cols: int) -> Iterator[Opcode]:
    shapes = ((rows, cols), (rows // 2, cols * 2))
    for bound, form in _variants(instruction, profile):
        yield from _typed(instruction, profile, form, bound, shapes)


def _variants(
    instruction: Instruction, profile: Profile
) -> Iterator[tuple[dict[str, ir.DType], tuple[str, ...]]]:
    """Element types and overloads of an instruction."""
    for row in instruction.types.get(profile.name, ()):
        bound = dict(zip(instruction.type_vars, map(ir.dtype, row), strict=True))
        if all(d.bits in _BITS for d in bound.values()):
            for form in _forms(instruction):
                yield bound, form


def _forms(instruction: Instruction) -> Iterator[tuple[str, ...]]:
    """Overloads with one destination and operands that are tiles or scalars.

    Of those that differ in scratch operands only, the shortest.
    """
    seen: set[tuple[str, ...]] = set()
    for form in sorted(instruction.forms, key=len):
        operands = [instruction.operand(n) for n in form]
        data = tuple(o.name for o in operands if o.role != "tmp")
        kinds = {o.kind for o in (*operands, *instruction.destinations_of(form))}
        single = len(instruction.destinations_of(form)) == 1
        # Only accumulator tiles have parameters.
        parameters = any(o.holds == "parameters" for o in operands)
        if data in seen or not kinds <= {"tile", "scalar"} or parameters or not single:
            continue
        tiles = sum(instruction.operand(n).kind == "tile" for n in data)
        if tiles < SLOTS and len(data) - tiles <= SCALARS:
            seen.add(data)
            yield form


_Shapes: TypeAlias = "tuple[tuple[int, int], ...]"


def _typed(
    instruction: Instruction,
    profile: Profile,
    form: tuple[str, ...],
    bound: Mapping[str, ir.DType],
    shapes: _Shapes,
) -> Iterator[Opcode]:
    """The opcodes of an overload with given element types: one per legal attribute value."""
    operands = [*(instruction.operand(n) for n in form), *instruction.destinations_of(form)]
    missing = _arrangements_of(instruction)
    for kinds in _arrangements(operands, bound, shapes):
        legal = [a for a in _attributes(instruction) if _legal(instruction, profile, form, kinds, a)]
        for attributes in legal:
            opcode = _opcode(instruction, profile, form, kinds, attributes)
            if not instruction.ulp.get(opcode.dtype.name):
                yield opcode
        missing -= bool(legal)
        if missing == 0:
            return


def _arrangements_of(instruction: Instruction) -> int:
    """Legal arrangements of operands that are opcodes of their own."""
    return 2 if instruction.lanes == "line" else 1


_Kinds: TypeAlias = "dict[str, Kind | ir.ScalarType]"


def _arrangements(
    operands: list[Operand], bound: Mapping[str, ir.DType], shapes: _Shapes
) -> Iterator[_Kinds]:
    """Types of the operands to be tried: tiles of one shape, at most one of them of another kind."""
    first = next(iter(bound.values()))
    for choice in product(*(_dtypes(o, bound, first) for o in operands)):
        types = dict(zip((o.name for o in operands), choice, strict=True))
        tiles = [o.name for o in operands if o.kind == "tile"]
        scalars: _Kinds = {n: ir.ScalarType(d) for n, d in types.items() if n not in tiles}
        for shape in shapes:
            plain = {n: _tile(types[n], shape) for n in tiles}
            for other in (None, *tiles):
                for kind in (None,) if other is None else _others(types[other], shape):
                    candidates = {**plain, **({other: kind} if other is not None else {})}
                    arrangement = {n: k for n, k in candidates.items() if k is not None}
                    if len(arrangement) == len(tiles):
                        yield {**scalars, **arrangement}


def _dtypes(operand: Operand, bound: Mapping[str, ir.DType], first: ir.DType) -> tuple[ir.DType, ...]:
    if operand.dtype is None:
        return _OPEN if operand.kind == "tile" else (first,)
    d = bound.get(operand.dtype) or ir.find_dtype(operand.dtype)
    return (d or first,)


def _tile(d: ir.DType, shape: tuple[int, int], role: Role = "tile") -> Kind | None:
    rows, cols = shape
    if rows < 1 or cols * d.word_bits % _BLOCK_BITS:
        return None
    return Kind(ir.TileType(d, rows, cols, None, None), role)


def _others(d: ir.DType, shape: tuple[int, int]) -> Iterator[Kind | None]:
    rows, cols = shape
    yield _tile(d, shape, "column")
    yield _tile(d, shape, "row")
    if d.bits == 8:
        yield _tile(d, (rows, 2 * cols))
    if rows * d.word_bits % _BLOCK_BITS == 0:
        yield Kind(ir.TileType(d, rows, 1, None, None, blayout=ir.BLayout.COL_MAJOR), "column")


def _attributes(instruction: Instruction) -> Iterator[dict[str, ir.AttrValue]]:
    """The defaults, and each attribute with each of its other values."""
    defaults = {a.name: a.default for a in instruction.attributes}
    yield defaults
    for attribute in instruction.attributes:
        values: tuple[ir.AttrValue, ...] = ()
        if issubclass(attribute.type, IntEnum):
            values = tuple(attribute.type)
        elif attribute.type is bool:
            values = (False, True)
        yield from ({**defaults, attribute.name: v} for v in values if v != attribute.default)


def _legal(
    instruction: Instruction,
    profile: Profile,
    form: tuple[str, ...],
    kinds: _Kinds,
    attributes: Mapping[str, ir.AttrValue],
) -> bool:
    """Whether the operation is legal on full tiles."""
    (dst,) = instruction.destinations_of(form)
    types = {n: (k.type if isinstance(k, Kind) else k) for n, k in kinds.items()}
    ins = tuple(ir.Value(n, types[n]) for n in form)
    op = ir.Op(instruction.name, ins, (ir.Value(dst.name, types[dst.name]),), attributes=ir.attrs(attributes))
    valid = {n: k.limits for n, k in kinds.items() if isinstance(k, Kind)}
    return all(d.severity != "error" for d in check_op(op, profile, valid=valid))


def _opcode(
    instruction: Instruction,
    profile: Profile,
    form: tuple[str, ...],
    kinds: _Kinds,
    attributes: Mapping[str, ir.AttrValue],
) -> Opcode:
    (dst,) = instruction.destinations_of(form)
    data = [n for n in form if instruction.operand(n).role != "tmp"]
    tiles = (dst.name, *(n for n in data if isinstance(kinds[n], Kind)))
    types: list[tuple[str, ir.TileType | ir.ScalarType]] = []
    held: list[Kind] = []
    scratch: list[tuple[str, ir.TileType]] = []
    for name in (*form, dst.name):
        kind = kinds[name]
        types.append((name, kind.type if isinstance(kind, Kind) else kind))
        if isinstance(kind, Kind) and name not in (*data, dst.name):
            scratch.append((name, replace(kind.type, v_row=kind.type.rows, v_col=kind.type.cols)))
    for name in tiles:
        kind = kinds[name]
        assert isinstance(kind, Kind)
        held.append(kind)
    semantics = Semantics(profile, out_of_region=profile.out_of_region)
    context = Context(instruction.name, tuple(types), tuple(sorted(attributes.items())), form, semantics)
    scalars = tuple(n for n in data if n not in tiles)
    return Opcode(Branch(context, tiles, scalars), tuple(held), tuple(scratch))
