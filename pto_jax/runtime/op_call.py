"""Python arguments of an instruction: which form they fit, and what they say about types."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import jax
import numpy as np

from .. import isa, profiles
from ..errors import ArgumentError
from ..ir import INDEX, TILE_DTYPES, AttrValue, DType, TileType, attrs, dtype as find_element, from_numpy
from . import interchange, op_messages, op_request
from .tiles import Tile

#: Keywords of every instruction.
OPTIONS = ("dst", "profile", "numerics", "out_of_region", "subnormals", "checks")
_GLOBAL_MEMORY = ("gm", "ptr")


def call_forms(instruction: isa.Instruction) -> list[tuple[str, ...]]:
    """The source operands that calls may have, one tuple per overload."""
    return [f for f in instruction.forms if not any(instruction.operand(n).kind in _GLOBAL_MEMORY for n in f)]


def request_of(
    instruction: isa.Instruction,
    sources: Sequence[Any],
    dst: Any,
    attributes: Mapping[str, Any],
    profile: profiles.Profile,
) -> tuple[op_request.Request, dict[str, Any]]:
    """A call as far as types go, and its sources and destination tiles by name."""
    checked = attrs({_key(instruction, k): _member(instruction, k, v) for k, v in attributes.items()})
    sources = [_taken(s, f"{instruction.name}: source {i}") for i, s in enumerate(sources)]
    dst = tuple(_taken(d, "dst") for d in dst) if isinstance(dst, tuple) else _taken(dst, "dst")
    form = _form(instruction, sources)
    named = dict(zip(form, sources, strict=True))
    types = tuple(_source(instruction, i, n, s) for i, (n, s) in enumerate(named.items()))
    outputs = _destinations(instruction, form, dst)
    destinations = tuple((n, _destination(instruction, d)) for n, d in outputs.items())
    values = {**named, **{n: d for n, d in outputs.items() if isinstance(d, Tile) or is_array(d)}}
    return op_request.Request(instruction.name, form, types, destinations, checked, profile), values


def is_array(x: Any) -> bool:
    """Whether a value is an array, of any rank: NumPy's, JAX's, a tracer, or the shape of one."""
    return isinstance(x, np.ndarray | np.generic | jax.Array | jax.ShapeDtypeStruct)


def _taken(x: Any, what: str) -> Any:
    """An array of another library or byte order as one of NumPy or JAX; all else as it is."""
    foreign = hasattr(x, "__dlpack__") or hasattr(x, "__array__")
    if isinstance(x, np.ndarray):
        foreign = not x.dtype.isnative
    elif isinstance(x, Tile | type) or is_array(x):
        foreign = False
    return interchange.received(x, what) if foreign else x


# -- sources -------------------------------------------------------------------------------------------


def _form(instruction: isa.Instruction, sources: Sequence[Any]) -> tuple[str, ...]:
    forms = call_forms(instruction)
    fitting = [f for f in forms if len(f) == len(sources)]
    if not fitting:
        raise ArgumentError(op_messages.miscounted(instruction, forms, len(sources)))
    kinds = [_kind(instruction, i, s) for i, s in enumerate(sources)]
    for form in fitting:
        if [k == "tile" for k in kinds] == [instruction.operand(n).kind == "tile" for n in form]:
            return form
    raise ArgumentError(op_messages.mismatched(instruction, fitting, kinds, [_described(s) for s in sources]))


def _kind(instruction: isa.Instruction, index: int, source: Any) -> str:
    if isinstance(source, Tile) or (hasattr(source, "dtype") and len(getattr(source, "shape", ())) > 0):
        return "tile"
    if isinstance(source, int | float) or is_array(source):
        return "scalar"
    raise ArgumentError(
        f"{instruction.name}: source {index} must be a tile, an array or a number, found "
        f"{type(source).__name__}; inside @pto.kernel the instruction is "
        f"pto.{op_messages.python_name(instruction)}"
    )


def _described(source: Any) -> str:
    if isinstance(source, Tile):
        return f"a tile ({source.type})"
    shape = getattr(source, "shape", ())
    return f"an array of shape {tuple(shape)}" if shape else type(source).__name__


def _source(instruction: isa.Instruction, index: int, name: str, source: Any) -> op_request.SourceType:
    what = f"{instruction.name}: source {index}"
    if isinstance(source, Tile):
        return source.single(what).type
    if instruction.operand(name).kind == "tile":
        return _array_type(f"{what} ({name})", source)
    if not hasattr(source, "dtype"):
        return op_request.NumberType(None)
    if instruction.operand(name).kind == "index":
        return op_request.NumberType(INDEX)
    try:
        return op_request.NumberType(from_numpy(source.dtype))
    except ArgumentError:
        raise ArgumentError(
            f"{what} ({name}): found a scalar of {source.dtype}, allowed: element types of tiles; a Python "
            "number takes the type that the instruction asks for"
        ) from None


def _array_type(what: str, array: Any) -> op_request.ArrayType:
    shape = tuple(array.shape)
    if len(shape) != 2:
        fix = "reshape it, for example x[None, :]" if len(shape) == 1 else "use jax.vmap for leading axes"
        raise ArgumentError(f"{what}: found an array of shape {shape}, allowed: [rows, cols]; {fix}")
    try:
        element = from_numpy(array.dtype)
    except (ArgumentError, TypeError):
        element = None
    if element is None or element not in TILE_DTYPES:
        names = ", ".join(d.numpy.name for d in TILE_DTYPES if d.numpy != d.word or not d.is_float)
        listed = ", ".join(dict.fromkeys(names.split(", ")))
        raise ArgumentError(
            f"{what}: found an array of {array.dtype}, allowed: {listed}; x.astype(...) converts it"
        )
    if 0 in shape:
        raise ArgumentError(f"{what}: found an array of shape {shape}, allowed: at least one row and column")
    return op_request.ArrayType(element, *shape)


# -- destinations --------------------------------------------------------------------------------------


def _destinations(instruction: isa.Instruction, form: tuple[str, ...], dst: Any) -> dict[str, Any]:
    """What a call gives for each destination of the overload, and for optional ones it names."""
    wanted = instruction.destinations_of(form)
    spare = len(dst) - len(wanted) if isinstance(dst, tuple) else 0
    optional = [o for o in instruction.destinations if o not in wanted][: max(spare, 0)]
    every = [o for o in instruction.destinations if o in wanted or o in optional]
    tiles = [o for o in every if o.kind != "vector"]
    if isinstance(dst, tuple) and len(dst) == len(every):
        return {o.name: None if o.kind == "vector" else d for o, d in zip(every, dst, strict=True)}
    listed = dst if isinstance(dst, tuple) else (dst,) * len(tiles)
    if len(listed) != len(tiles) or (dst is not None and len(tiles) > 1 and not isinstance(dst, tuple)):
        description = f"{len(dst)} entries" if isinstance(dst, tuple) else type(dst).__name__
        names = ", ".join(o.name for o in tiles) or "none"
        raise ArgumentError(
            f"{instruction.name}: dst has {description}; allowed: one entry per destination ({names})"
        )
    entries = iter(listed)
    return {o.name: None if o.kind == "vector" else next(entries) for o in every}


def _destination(instruction: isa.Instruction, dst: Any) -> op_request.DestinationType:
    what = f"{instruction.name}: dst"
    if dst is None or isinstance(dst, TileType):
        return dst
    if isinstance(dst, Tile):
        return dst.single(what).type
    if is_array(dst):
        return _array_type(what, dst)
    try:
        return _element(dst)
    except (ArgumentError, TypeError):
        description = repr(dst) if isinstance(dst, str) else f"{type(dst).__name__} {dst!r}"
        raise ArgumentError(
            f"{what} must be a Tile or an array, a TileType, or an element type such as 'f16' or "
            f"jnp.float16; found {description}"
        ) from None


def _element(dst: Any) -> DType:
    element = find_element(dst)
    if element not in TILE_DTYPES:
        raise ArgumentError(f"no tile has elements of type {element.name}")
    return element


# -- attributes ----------------------------------------------------------------------------------------


def _key(instruction: isa.Instruction, key: str) -> str:
    attribute = instruction.attribute(key)
    if attribute is None:
        raise ArgumentError(op_messages.unknown_keyword(instruction, key, OPTIONS))
    return attribute.name


def _member(instruction: isa.Instruction, key: str, value: Any) -> AttrValue:
    attribute = instruction.attribute(key)
    if attribute is None:
        raise ArgumentError(op_messages.unknown_keyword(instruction, key, OPTIONS))
    if issubclass(attribute.type, IntEnum) and not isinstance(value, attribute.type):
        name = str(value).upper().removeprefix("CAST_")
        if name not in attribute.type.__members__:
            names = ", ".join(attribute.type.__members__)
            raise ArgumentError(f"{instruction.name}: {key}={value!r} found, allowed: {names}")
        return attribute.type[name]
    return tuple(value) if isinstance(value, list) else value
