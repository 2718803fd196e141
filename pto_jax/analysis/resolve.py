r"""A program bound to its declarations, with its types completed and its facts on request.

>>> from pto_jax.api import parse
>>> program = parse("%c4 = arith.constant 4 : index\n%d = tadd %a, %b : !pto.tile<16x16xf32>")
>>> resolved = resolve(program)
>>> constant, add = resolved.program.functions[0].body.ops
>>> sorted(resolved.of(add).values), [str(v) for v in resolved.of(add).written()]
(['dst', 'src0', 'src1'], ['%d'])

:func:`fill` takes the types that a fragment leaves open from its arguments, and :func:`with_entry` adds the
entry of a kernel whose text has a cube part and a vector part only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from .. import errors, isa, profiles
from ..ir import (
    I64,
    Function,
    KernelKind,
    Op,
    Program,
    Region,
    ScalarType,
    Symbol,
    TileType,
    Type,
    UnknownType,
    Value,
    find_dtype,
)
from ..isa.effects import accesses, written
from ..isa.traits import Effect, Resource
from . import provenance
from .facts import ANYWHERE, Entered, FunctionFacts, solve
from .provenance import RegionWrites, callees, region_writes
from .scopes import with_scopes


def is_open(program: Program) -> bool:
    """Whether any value of the program has a type that was not given."""
    for function in program.functions:
        types = [a.type for a in function.args]
        for op in function.walk():
            types += [v.type for v in (*op.ins, *op.outs, *op.results)]
        if UnknownType in set(map(type, types)):
            return True
    return False


def fill(program: Program, arguments: Mapping[str, Type]) -> Program:
    """The program with open types replaced.

    Arguments take the types in ``arguments``. A destination takes the type and region of the instruction's
    first source tile; where the declaration says that the element types differ, the type must be
    written and VerifyError says so. A scalar takes the element type of the tile it is combined with.
    """
    return replace(program, functions=tuple(_function(f, arguments) for f in program.functions))


def complete(program: Program) -> Program:
    """The program with the types filled in that follow from types it gives; others stay open."""
    try:
        return fill(program, {})
    except errors.VerifyError:
        # A type that cannot follow from others is the verifier's to report, with all other findings.
        return program


def _function(function: Function, arguments: Mapping[str, Type]) -> Function:
    types: dict[str, Type] = {}
    for a in function.args:
        t = arguments.get(a.name) if isinstance(a.type, UnknownType) else a.type
        if t is not None and not isinstance(t, UnknownType):
            types[a.name] = t
    ops = tuple(_op(op, types) for op in function.body.ops)
    args = tuple(replace(a, type=types.get(a.name, a.type)) for a in function.args)
    return replace(function, args=args, body=Region(ops, function.body.args))


def _op(op: Op, types: dict[str, Type]) -> Op:
    def typed(value: Value) -> Value:
        if isinstance(value.type, UnknownType):
            return replace(value, type=types.get(value.name, value.type))
        types.setdefault(value.name, value.type)
        return value

    def with_types(op: Op) -> Op:
        ins, outs, results = (tuple(map(typed, values)) for values in (op.ins, op.outs, op.results))
        return replace(op, ins=ins, outs=outs, results=results)

    op = with_types(op)
    instruction = isa.find(op.name)
    if instruction is None or instruction.syntax == "custom":
        return op
    bound = isa.bind(instruction, op)
    source = next((v.type for v in bound.values.values() if isinstance(v.type, TileType)), None)
    for name, value in bound.values.items():
        if isinstance(value.type, UnknownType) and source is not None:
            same = (v.type for n, v in bound.values.items() if _same_variable(instruction, name, n))
            partner = next((t for t in same if isinstance(t, TileType)), source)
            types[value.name] = _infer(instruction, name, value, source, partner, op)
    return with_types(op)


def _same_variable(instruction: isa.Instruction, a: str, b: str) -> bool:
    return instruction.operand(a).dtype == instruction.operand(b).dtype


def _infer(
    instruction: isa.Instruction, name: str, value: Value, source: TileType, partner: TileType, op: Op
) -> Type:
    """``partner`` is a tile that must have the operand's element type."""
    operand = instruction.operand(name)
    if operand.kind == "vector":
        return operand.vector
    if operand.kind == "scalar":
        return ScalarType(find_dtype(operand.dtype or "") or partner.dtype)
    reference = next((o for o in instruction.operands if o.role == "in" and o.kind == "tile"), None)
    if reference is not None and operand.role in ("out", "inout") and operand.dtype == reference.dtype:
        return source
    raise errors.VerifyError(
        errors.Diagnostic(
            "error",
            f"got no type, and none follows from the sources ({source}); allowed: the type in the text",
            value.span or op.span,
            instruction.name,
            f"%{value.name}",
            "type-given",
        )
    )


#: Programs that are remembered: a few, as one is consumed several times in a row, and facts take more memory
#: than the program that they are of.
REMEMBERED = 8


class ResolvedOp(NamedTuple):
    """An operation with its declaration and what its operands stand for in it.

    Both are None for an operation that is no instruction; ``bound`` is None, too, where the operands do not
    fit the declaration, and ``problems`` say why.
    """

    op: Op
    instruction: isa.Instruction | None
    bound: isa.Bound | None
    problems: tuple[errors.Diagnostic, ...] = ()

    @property
    def values(self) -> Mapping[str, Value]:
        """The values by declared operand name; none where they do not fit the declaration."""
        return self.bound.values if self.bound is not None else {}

    def fitting(self) -> isa.Bound:
        """What the operands stand for; VerifyError naming what is accepted where they do not fit."""
        if self.bound is None:
            raise errors.VerifyError(self.problems)
        return self.bound

    def accesses(self) -> Iterator[tuple[Effect, Value]]:
        """The effects on what operands name, with the operands' values: sources first."""
        return accesses(self.op, self._named)

    def written(self, *resources: Resource) -> Iterator[Value]:
        """The values whose memory the operation writes: any, or that of some resources."""
        return written(self.op, *resources, values=self._named)

    @property
    def _named(self) -> Mapping[str, Value] | None:
        """The values where the operation is an instruction; others are bound by their own declaration."""
        return None if self.instruction is None else self.values


@dataclass(frozen=True, eq=False)
class ResolvedProgram:
    """A program with its types and vector scopes completed, its operations bound, and what follows from them.

    Everything is computed when it is first asked for, once. Facts are those of the operations of ``program``,
    which is another object than the one that was resolved where types or scopes had to be added.
    """

    program: Program
    profile: profiles.Profile | None = None
    #: Whether a type is left open that does not follow from others.
    is_open: bool = False
    _ops: dict[int, ResolvedOp] = field(default_factory=dict, repr=False)
    _facts: dict[tuple[int, Entered], FunctionFacts] = field(default_factory=dict, repr=False)
    _origins: dict[int, tuple[Function, Mapping[str, frozenset[str]]]] = field(
        default_factory=dict, repr=False
    )
    _regions: dict[int, RegionWrites] = field(default_factory=dict, repr=False)

    @property
    def diagnostics(self) -> tuple[errors.Diagnostic, ...]:
        """What is wrong with the operands of its instructions, in the order of the text."""
        return tuple(problem for op in self.program.walk() for problem in self.of(op).problems)

    def of(self, op: Op) -> ResolvedOp:
        """What an operation says."""
        entry = self._ops.get(id(op))
        # The entry keeps its operation alive, so that no other one has its identity.
        if entry is None:
            entry = self._ops[id(op)] = _resolved(op)
        return entry

    def values(self, op: Op) -> Mapping[str, Value]:
        """The values of an operation by declared operand name; none where they do not fit."""
        return self.of(op).values

    def origins(self, function: Function) -> Mapping[str, frozenset[str]]:
        """For every pointer and view of a function: the arguments it may come from."""
        if id(function) not in self._origins:
            self._origins[id(function)] = function, provenance.roots(self.program, function)
        return self._origins[id(function)][1]

    def writes_inside(self, op: Op) -> RegionWrites:
        """What the regions of one of the program's operations write, by the names around them."""
        entry = self._regions.get(id(op))
        if entry is None:
            entry = self._regions[id(op)] = region_writes(op, lambda inner: self.of(inner).written())
        return entry

    def facts(self, function: Function, entered: Entered = ANYWHERE) -> FunctionFacts:
        """What is known of the operands of a function's operations, when it is entered in some way."""
        entry = self._facts.get((id(function), entered))
        if entry is None:
            entry = self._facts[id(function), entered] = solve(function, self.values, entered)
        return entry


def resolve(program: Program, profile: profiles.Profile | None = None) -> ResolvedProgram:
    """What follows from the text of a program; computed once for as long as the program is in use.

    A profile decides on legality only, so that it may be left out where that is not asked.
    """
    results = _remembered(_ByIdentity(program))
    return results if profile is None else replace(results, profile=profile)


def _resolved(op: Op) -> ResolvedOp:
    instruction = isa.find(op.name)
    if instruction is None:
        return ResolvedOp(op, None, None)
    try:
        return ResolvedOp(op, instruction, isa.bind(instruction, op))
    except errors.VerifyError as error:
        return ResolvedOp(op, instruction, None, tuple(error.diagnostics))


class _ByIdentity:
    """A program as a key: equal programs from different texts have operations of their own."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.program is other.program

    def __hash__(self) -> int:
        return id(self.program)


@lru_cache(maxsize=REMEMBERED)
def _remembered(key: _ByIdentity) -> ResolvedProgram:
    program, left_open = key.program, is_open(key.program)
    if left_open:
        program = complete(program)
        left_open = is_open(program)
    return ResolvedProgram(with_scopes(program), is_open=left_open)


_KIND = "pto.kernel_kind"


def with_entry(program: Program) -> Program:
    """The program with an entry that executes both parts of a kernel; any other program as it is.

    The parts are the only two public functions with bodies, or the only two that no other calls, one for each
    kind of core, and no function is marked as an entry. A launch gives both the same arguments: those that
    have the same name and type. What only the vector part takes besides them cannot come from the launch: a
    last integer is the vector core's number.

    >>> from pto_jax.api import parse
    >>> part = "func.func @k_{}(%n: i32) attributes {{pto.kernel_kind = #pto.kernel_kind<{}>}} {{ return }}"
    >>> text = part.format("aic", "cube") + part.format("aiv", "vector")
    >>> [f.name for f in with_entry(parse(text)).entries]
    ['k']
    """
    parts = _parts(program)
    if parts is None:
        return program
    cube, vector = parts
    shared = {(a.name, a.type) for a in cube.args}
    own = [a for a in vector.args if (a.name, a.type) not in shared]
    taken = {a.name for a in cube.args}
    if any(a.name in taken for a in own):
        return program
    number = own.pop() if own and own[-1] is vector.args[-1] and _is_integer(own[-1]) else None
    asked = [] if number is None else _core_number(number)
    calls = [Op("call", ins=f.args, attributes=(("callee", Symbol(f.name)),)) for f in parts]
    body = Region((*asked, *calls, Op("return")))
    name = _name(program, parts)
    entry = Function(name, (*cube.args, *own), body, attributes=(("pto.entry", True),), span=cube.span)
    return replace(program, functions=(*program.functions, entry))


def _parts(program: Program) -> tuple[Function, Function] | None:
    """The cube part and the vector part, if the program consists of them."""
    bodies = [f for f in program.functions if not f.external]
    if any(f.is_entry for f in bodies) or not _of_both_kinds(bodies):
        return None
    inner = callees(program)
    for parts in ([f for f in bodies if not f.private], [f for f in bodies if f.name not in inner]):
        if len(parts) == 2 and _of_both_kinds(parts):
            cube, vector = sorted(parts, key=lambda f: f.attrs.get(_KIND) != KernelKind.CUBE)
            return cube, vector
    return None


def _of_both_kinds(functions: Sequence[Function]) -> bool:
    return {KernelKind.CUBE, KernelKind.VECTOR} <= {f.attrs.get(_KIND) for f in functions}


def _is_integer(value: Value) -> bool:
    return isinstance(value.type, ScalarType) and not value.type.dtype.is_float and value.type.dtype.bits > 1


def _core_number(result: Value) -> list[Op]:
    """Operations that make a value the number of the vector core."""
    asks = next(i.name for i in isa.instructions().values() if i.traits.launch == "subblock")
    if result.type == ScalarType(I64):
        return [Op(asks, results=(result,))]
    number = Value(f"{result.name}_i64", ScalarType(I64))
    assert isinstance(result.type, ScalarType)
    cast = "arith.index_cast" if result.type.dtype.kind == "index" else "arith.trunci"
    return [Op(asks, results=(number,)), Op(cast, ins=(number,), results=(result,))]


def _name(program: Program, parts: Sequence[Function]) -> str:
    """What the names of both parts begin with, where that is no function's name."""
    first, second = (f.name for f in parts)
    common = first[: next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)]
    name = common.removesuffix("ai").rstrip("_") or "launch"
    while program.function(name) is not None:
        name += "_launch"
    return name
