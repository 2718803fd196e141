"""Arguments of a call: bound to the names of a kernel and checked against their declared types."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jax.core import Tracer

from ..analysis.entries import Argument, GlobalTypes
from ..analysis.provenance import called
from ..analysis.resolve import resolve
from ..errors import ArgumentError, ExecutionError, nearest
from ..files import user_code
from ..ir import (
    FRAGMENT,
    DType,
    Function,
    Op,
    PartitionViewType,
    Program,
    ScalarType,
    TensorViewType,
    TileType,
    Type,
    Value,
    VectorType,
    attrs,
    dims_text,
    from_numpy,
)
from ..isa.effects import traits_of
from ..isa.rules.constraints import spelled
from ..lowering import Accesses
from ..profiles import OPTIONS
from . import conversion, interchange, tiles

MAX_BUFFER_ELEMENTS = 2**31 - 1


#: The usual fix of an argument with further leading dimensions.
_BATCH = "; try: jax.vmap(kernel)"


def type_of(name: str, value: Any) -> Type | None:
    """The type that an argument gives to a fragment's value whose type the text leaves open."""
    if isinstance(value, tiles.Tile):
        return value.type
    array = interchange.received(value, f"argument {name!r}")
    if not hasattr(array, "dtype") or array.ndim == 0:
        return None
    if array.ndim != 2:
        batch = _BATCH if array.ndim > 2 else ""
        raise ArgumentError(
            f"argument {name!r}: got shape {array.shape}",
            allowed=f"a Tile, a [rows, cols] array or a number{batch}",
        )
    return TileType(from_numpy(array.dtype), *array.shape)


def prepare(kernel: str, argument: Argument, value: Any, position: int | None = None) -> Any:
    """An argument of a kernel checked against its declared type, as the traced function takes it.

    ``position`` is that in the call: fixes have the text that stands there.
    """
    try:
        return _prepared(kernel, argument, value)
    except ArgumentError as error:
        mine = user_code.argument(argument.name, position)
        spelled_so = rf"^(?:{re.escape(argument.name)}|x)(?=[.\[])|(?<=^np\.asarray\()\.\.\."
        fix = re.sub(spelled_so, lambda _: mine, error.fix)
        if fix == error.fix:
            raise
        raise ArgumentError(error.got, allowed=error.allowed, fix=fix) from None


def _prepared(kernel: str, argument: Argument, value: Any) -> Any:
    what = f"{'' if kernel == FRAGMENT else f'{kernel}: '}argument {argument.name!r}"
    t = argument.type
    if isinstance(t, GlobalTypes):
        return _prepare_buffer(what, argument, t.dtype, value)
    if isinstance(t, TileType):
        return _prepare_tile(what, t, value)
    if isinstance(t, ScalarType):
        return conversion.as_scalar(value, t.dtype, what)
    if isinstance(t, VectorType):
        vector = conversion.as_array(value, t.dtype, what)
        if vector.shape != t.dims:
            raise _misshapen(what, vector, t, t.dims)
        return vector
    raise ArgumentError(f"{what}: arguments of type {t} are not supported by this version")


def with_scalars(program: Program, function: Function, values: Mapping[str, Any]) -> Program:
    """The program with constants in the place of some scalar arguments of its entry function.

    ArgumentError for names that are no scalar arguments, values that their types do not hold, and a function
    that is called, too, whose arguments cannot change.
    """
    scalars = {a.name: a for a in function.args if isinstance(a.type, ScalarType)}
    kernel = "the program" if program.fragment else function.name
    constants = []
    for name, value in values.items():
        if name not in scalars:
            allowed = ", ".join(scalars) or "nothing, for it has no scalar arguments"
            raise ArgumentError(f"scalars: got {name!r}", allowed=f"{allowed} ({kernel})")
        constants.append(_constant(kernel, scalars[name], value))
    callers = [f.name for f in program.functions for op in f.walk() if called(program, op) is function]
    if constants and callers:
        raise ArgumentError(f"scalars: {function.name} is called by {callers[0]}", allowed="an entry alone")
    rest = tuple(a for a in function.args if a.name not in values)
    body = replace(function.body, ops=(*constants, *function.body.ops))
    fixed = replace(function, args=rest, body=body)
    return replace(program, functions=tuple(fixed if f is function else f for f in program.functions))


def _constant(kernel: str, argument: Value, value: Any) -> Op:
    """The constant that has an argument's name, type and value."""
    assert isinstance(argument.type, ScalarType)
    d = argument.type.dtype
    number = conversion.as_scalar(value, d, f"{kernel}: scalar {argument.name!r}")
    if isinstance(number, Tracer):
        raise ArgumentError(
            f"{kernel}: scalar {argument.name!r}: got a traced value",
            allowed="a number that is known when the kernel is compiled",
            fix="pass it as an argument",
        )
    word = np.asarray(number)
    if not d.is_float:
        constant: int | float = word.item()
    elif np.isnan(constant := float(word.astype(np.float64))):
        # As the reader and the builder have it, so that programs compare equal.
        constant = math.nan
        if word.tobytes() != np.asarray(np.nan, word.dtype).tobytes():
            raise ArgumentError(
                f"{kernel}: scalar {argument.name!r}: got a NaN of other bits than the canonical one",
                allowed="numbers, infinities, np.nan",
                fix="pass it as an argument",
            )
    return Op("arith.constant", results=(argument,), attributes=attrs(value=constant), span=argument.span)


def _misshapen(what: str, array: Any, t: Type, declared: tuple[int, ...]) -> ArgumentError:
    shape = tuple(np.shape(array))
    fix, name = "", what.rpartition("argument ")[2].strip("'")
    if len(shape) > len(declared) and shape[-len(declared) :] == declared:
        fix = "jax.vmap(kernel)"
    elif isinstance(array, Tracer) and shape == declared[1:]:
        # A transformation of JAX took the first axis.
        fix = f"{name}[None]"
    elif shape == declared[::-1]:
        fix = f"{name}.T"
    elif math.prod(shape) == math.prod(declared) and len(shape) < 2:
        fix = f"{name}.reshape{declared}"
    return ArgumentError(f"{what}: got shape {shape}", allowed=str(t), fix=fix)


def _prepare_buffer(what: str, argument: Argument, dtype: DType, value: Any) -> Any:
    if isinstance(value, tiles.Tile):
        raise ArgumentError(f"{what}: got a Tile", allowed=f"{argument.type}", fix="its elements, t.array")
    array = conversion.as_array(value, dtype, what)
    if any(not isinstance(n, int) for n in array.shape):
        raise ArgumentError(
            f"{what}: got the shape ({', '.join(map(str, array.shape))})",
            allowed="sizes that are numbers",
            fix="jax.vmap(kernel), where the axis of the batch may be a symbol",
        )
    size = elements(array, dtype)
    if size > MAX_BUFFER_ELEMENTS:
        raise ArgumentError(f"{what}: got {size} elements", allowed=f"at most {MAX_BUFFER_ELEMENTS}")
    if isinstance(argument.type, TensorViewType | PartitionViewType):
        shape, declared = extents(array, dtype), argument.type.dims
        fits = len(shape) == len(declared) and all(
            d in (None, n) for d, n in zip(declared, shape, strict=True)
        )
        if not fits:
            inner = shape[len(shape) - len(declared) :] if len(shape) > len(declared) else ()
            batch = (
                _BATCH if inner and all(d in (None, n) for d, n in zip(declared, inner, strict=True)) else ""
            )
            raise ArgumentError(f"{what}: got shape {shape}", allowed=f"{argument.type}{batch}")
    return array


def elements(array: Any, dtype: DType) -> int:
    """Elements of an array."""
    return int(math.prod(array.shape)) * (2 if dtype.packed else 1)


def check_accesses(name: str, size: int, accesses: Accesses) -> None:
    """Raise an error where an access that every execution makes is outside a buffer of so many elements.

    A view may be larger than its buffer: only what is accessed counts.
    """
    if accesses.first >= 0 and accesses.last < size:
        return
    op = accesses.before if accesses.first < 0 else accesses.behind
    if traits_of(op).transfer is None:
        position = accesses.first if accesses.first < 0 else accesses.last
        places = f"0 to {size - 1}" if size else "which has none"
        message = f"got offset {position}; allowed: an element of {name}, {places}"
        raise ExecutionError(op.error("offset-range", message))
    place = f"{op.name}{f' at {op.span}' if op.span else ''}"
    allowed = f"at least {accesses.last + 1}, which the program's views need ({place})"
    if accesses.first < 0:
        allowed = f"accesses from 0 on; {place} begins at element {accesses.first}"
    raise ArgumentError(f"argument {name!r}: got {size} elements", allowed=allowed)


def extents(array: Any, dtype: DType) -> tuple[int, ...]:
    """Shape of an array in elements."""
    *lead, last = array.shape or (1,)
    return (*lead, last * 2 if dtype.packed else last)


def _prepare_tile(what: str, t: TileType, argument: Any) -> tiles.Tile:
    if isinstance(argument, tiles.Tile):
        value = argument.single(what)
    else:
        array = conversion.as_array(argument, t.dtype, what)
        if np.shape(array) != t.shape:
            raise _misshapen(what, array, t, t.shape)
        value = tiles.tile(array, type=t if t.is_static else t.with_valid(t.rows, t.cols))
    if value.type.with_valid(None, None) != t.with_valid(None, None):
        raise ArgumentError(f"{what}: got a tile {value.type}", allowed=f"{t}")
    static = (value.type.v_row, value.type.v_col)
    for size, declared in zip(static, t.valid, strict=True):
        if declared is not None and size != declared:
            raise _other_region(what, t, value)
    return value if t.is_static else value.dynamic()


def _other_region(what: str, t: TileType, value: tiles.Tile) -> ArgumentError:
    """A tile whose valid region is not the static one of the program."""
    sizes = [value.valid_rows, value.valid_cols]
    got = "?x?" if any(isinstance(n, Tracer) for n in sizes) else "x".join(str(int(n)) for n in sizes)
    allowed = f"the whole {t.rows}x{t.cols} tile" if t.is_full else dims_text(t.valid)
    fix = spelled(t.with_valid(None, None))
    return ArgumentError(f"{what}: got a valid region of {got}", allowed=allowed, fix=fix)


def bound(
    kernel: str, names: Sequence[str], optional: Iterable[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by name; ArgumentError for one that is missing, unknown or given twice."""
    if len(args) > len(names):
        fix = f"{_callable(kernel)}({', '.join(names)})"
        got = f"{kernel}: got {len(args)} arguments"
        raise ArgumentError(got, allowed=f"{len(names)}: {_list(names)}", fix=fix)
    values = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            free = [n for n in names if n not in kwargs and n not in values]
            close = nearest(name, free) or (free[0] if len(free) == 1 else "")
            fix = f"{close}={user_code.argument(name, otherwise='...')}" if close else ""
            if name in OPTIONS:
                fix = f"pto.compile(program, {name}={value!r})"
            raise ArgumentError(f"{kernel}: got the argument {name!r}", allowed=_list(names), fix=fix)
        if name in values:
            raise ArgumentError(f"{kernel}: argument {name!r} is given twice")
        values[name] = value
    missing = [n for n in names if n not in values and n not in optional]
    if missing:
        got = f"got {_list(list(values))}" if values else "got no arguments"
        fix = f"{_callable(kernel)}({', '.join(names)})"
        raise ArgumentError(f"{kernel}: {got}", allowed=f"also {_list(missing)}", fix=fix)
    return values


def of_every_block(kernel: str, name: str, where: str = "") -> ArgumentError:
    """The error of a number of blocks for which the engine has the value."""
    got = f"{kernel}: argument {name!r}: got a value{where}"
    return ArgumentError(got, allowed="none: every block has its own", fix="leave it out")


def _callable(kernel: str) -> str:
    """The name of a kernel in Python, where its program has one."""
    return kernel if kernel.isidentifier() and kernel != FRAGMENT else "kernel"


def optional(program: Program, function: Function, outputs: Iterable[str]) -> frozenset[str]:
    """Tiles of a fragment that it writes before it reads them: they may be left out."""
    if not program.fragment:
        return frozenset()
    needed: set[str] = set()
    written: set[str] = set()
    resolved = resolve(program)
    for op in function.walk():
        read = {v.name for v in op.ins}
        instruction = resolved.of(op).instruction
        if instruction is not None and instruction.syntax == "tile":
            values = resolved.of(op).fitting().values
            read |= {values[o.name].name for o in instruction.operands if o.role == "inout"}
        needed |= read - written
        written |= {v.name for v in op.destinations}
    return frozenset(outputs) - needed


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
