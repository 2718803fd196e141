"""The entry of a kernel whose text has a cube part and a vector part, and no entry."""

from collections.abc import Sequence
from dataclasses import replace

from .. import isa
from ..ir import I64, Function, KernelKind, Op, Program, Region, ScalarType, Symbol, Value
from .provenance import called

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
    callees = {f.name for op in program.walk() if (f := called(program, op)) is not None}
    for parts in ([f for f in bodies if not f.private], [f for f in bodies if f.name not in callees]):
        if len(parts) == 2 and _of_both_kinds(parts):
            cube, vector = sorted(parts, key=lambda f: f.attrs.get(_KIND) != KernelKind.CUBE)
            return cube, vector
    return None


def _of_both_kinds(functions: Sequence[Function]) -> bool:
    return {KernelKind.CUBE, KernelKind.VECTOR} <= {f.attrs.get(_KIND) for f in functions}


def _is_integer(value: Value) -> bool:
    return isinstance(value.type, ScalarType) and not value.type.dtype.is_float and value.type.dtype.bits > 1


def _core_number(wanted: Value) -> list[Op]:
    """Operations that make a value the number of the vector core."""
    asks = next(i.name for i in isa.instructions().values() if i.traits.launch == "subblock")
    if wanted.type == ScalarType(I64):
        return [Op(asks, results=(wanted,))]
    number = Value(f"{wanted.name}_i64", ScalarType(I64))
    assert isinstance(wanted.type, ScalarType)
    cast = "arith.index_cast" if wanted.type.dtype.kind == "index" else "arith.trunci"
    return [Op(asks, results=(number,)), Op(cast, ins=(number,), results=(wanted,))]


def _name(program: Program, parts: Sequence[Function]) -> str:
    """What the names of both parts begin with, where that is no function's name."""
    first, second = (f.name for f in parts)
    common = first[: next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)]
    name = common.removesuffix("ai").rstrip("_") or "launch"
    while program.function(name) is not None:
        name += "_launch"
    return name
