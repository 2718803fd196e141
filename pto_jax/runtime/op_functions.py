"""Instructions as Python functions on tiles and arrays, with form and types from the arguments."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from enum import IntEnum
from functools import cache, lru_cache, partial
from typing import Any

import jax
import numpy as np

from .. import errors, isa, profiles
from ..errors import ArgumentError
from ..files import user_code
from ..interpreter import Execution, Operand, TileRef
from ..ir import (
    INDEX,
    TILE_DTYPES,
    AttrValue,
    DType,
    ScalarType,
    TileType,
    Value,
    VectorType,
    attrs,
    dtype as find_element,
    find_dtype,
    from_numpy,
)
from ..isa.reference import every_type
from ..lowering import RULES, JaxMachine, Plan, Semantics
from ..lowering.bits import x64
from . import conversion, interchange, kernel, op_examples, op_types, state
from .kernel import choices
from .tiles import Tile, tile

#: Keywords of every instruction.
OPTIONS = ("dst", "profile", "numerics", "out_of_region", "subnormals", "checks")


def call_forms(instruction: isa.Instruction) -> list[tuple[str, ...]]:
    """The source operands that calls may have, one tuple per overload."""
    return [f for f in instruction.forms if not any(instruction.operand(n).kind in _GLOBAL_MEMORY for n in f)]


def request_of(
    instruction: isa.Instruction,
    sources: Sequence[Any],
    dst: Any,
    attributes: Mapping[str, Any],
    profile: profiles.Profile,
) -> tuple[op_types.Request, dict[str, Any]]:
    """A call as far as types go, and its sources and destination tiles by name."""
    checked = attrs({_key(instruction, k): _member(instruction, k, v) for k, v in attributes.items()})
    sources = [_taken(s, f"{instruction.name}: source {i}") for i, s in enumerate(sources)]
    dst = tuple(_taken(d, "dst") for d in dst) if isinstance(dst, tuple) else _taken(dst, "dst")
    form = _form(instruction, sources)
    by_name = dict(zip(form, sources, strict=True))
    types = tuple(_source(instruction, i, n, s) for i, (n, s) in enumerate(by_name.items()))
    outputs = _destinations(instruction, form, dst)
    destinations = tuple((n, _destination(instruction, d)) for n, d in outputs.items())
    values = {**by_name, **{n: d for n, d in outputs.items() if isinstance(d, Tile) or is_array(d)}}
    return op_types.Request(instruction.name, form, types, destinations, checked, profile), values


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
        raise ArgumentError(op_types.miscounted(instruction, forms, len(sources)))
    kinds = [_kind(instruction, i, s) for i, s in enumerate(sources)]
    for form in fitting:
        if [k == "tile" for k in kinds] == [instruction.operand(n).kind == "tile" for n in form]:
            return form
    raise ArgumentError(op_types.mismatched(instruction, fitting, kinds, [_described(s) for s in sources]))


def _kind(instruction: isa.Instruction, index: int, source: Any) -> str:
    if isinstance(source, Tile) or (hasattr(source, "dtype") and len(getattr(source, "shape", ())) > 0):
        return "tile"
    if isinstance(source, int | float) or is_array(source):
        return "scalar"
    # An element type by position is that of the destination.
    meant = find_dtype(source) is not None if isinstance(source, str) else False
    raise ArgumentError(
        f"{instruction.name}: source {index}: got {type(source).__name__}",
        allowed="a tile, an array or a number",
        fix=f'dst="{source}"' if meant else "",
    )


def _described(source: Any) -> str:
    if isinstance(source, Tile):
        return f"a tile ({source.type})"
    shape = getattr(source, "shape", ())
    return f"an array of shape {tuple(shape)}" if shape else type(source).__name__


def _source(instruction: isa.Instruction, index: int, name: str, source: Any) -> op_types.SourceType:
    what = f"{instruction.name}: source {index}"
    if isinstance(source, Tile):
        return source.single(what).type
    if instruction.operand(name).kind == "tile":
        return _array_type(f"{what} ({name})", source)
    if not hasattr(source, "dtype"):
        return op_types.NumberType(None)
    if instruction.operand(name).kind == "index":
        return op_types.NumberType(INDEX)
    try:
        return op_types.NumberType(from_numpy(source.dtype))
    except ArgumentError:
        raise ArgumentError(
            f"{what} ({name}): got a scalar of {source.dtype}",
            allowed="element types of tiles; a Python number takes the type that the instruction asks for",
        ) from None


def _position(what: str) -> int | None:
    """The position of a source in the call, by its description."""
    number = re.search(r"source (\d+)", what)
    return int(number[1]) if number else None


def _array_type(what: str, array: Any) -> op_types.ArrayType:
    shape = tuple(array.shape)
    if len(shape) != 2:
        mine = user_code.argument("x", _position(what))
        fix = f"{mine}[None, :]" if len(shape) == 1 else "jax.vmap(f) for leading axes" if shape else ""
        raise ArgumentError(f"{what}: got an array of shape {shape}", allowed="[rows, cols]", fix=fix)
    try:
        element = from_numpy(array.dtype)
    except (ArgumentError, TypeError):
        element = None
    if element is None or element not in TILE_DTYPES:
        names = ", ".join(d.numpy.name for d in TILE_DTYPES if d.numpy != d.word or not d.is_float)
        text = ", ".join(dict.fromkeys(names.split(", ")))
        number = "float32" if jax.numpy.issubdtype(array.dtype, np.inexact) else "int32"
        fix = f'{user_code.argument("x", _position(what))}.astype("{number}")'
        raise ArgumentError(f"{what}: got an array of {array.dtype}", allowed=text, fix=fix)
    if 0 in shape:
        raise ArgumentError(f"{what}: got an array of shape {shape}", allowed="at least one row and column")
    return op_types.ArrayType(element, *shape)


# -- destinations --------------------------------------------------------------------------------------


def _destinations(instruction: isa.Instruction, form: tuple[str, ...], dst: Any) -> dict[str, Any]:
    """What a call gives for each destination of the overload, and for optional ones it names."""
    expected = instruction.destinations_of(form)
    spare = len(dst) - len(expected) if isinstance(dst, tuple) else 0
    optional = [o for o in instruction.destinations if o not in expected][: max(spare, 0)]
    every = [o for o in instruction.destinations if o in expected or o in optional]
    tiles = [o for o in every if o.kind != "vector"]
    if isinstance(dst, tuple) and len(dst) == len(every):
        return {o.name: None if o.kind == "vector" else d for o, d in zip(every, dst, strict=True)}
    types = dst if isinstance(dst, tuple) else (dst,) * len(tiles)
    if len(types) != len(tiles) or (dst is not None and len(tiles) > 1 and not isinstance(dst, tuple)):
        description = f"{len(dst)} entries" if isinstance(dst, tuple) else type(dst).__name__
        names = ", ".join(o.name for o in tiles) or "none"
        raise ArgumentError(
            f"{instruction.name}: dst has {description}", allowed=f"one entry per destination ({names})"
        )
    entries = iter(types)
    return {o.name: None if o.kind == "vector" else next(entries) for o in every}


def _destination(instruction: isa.Instruction, dst: Any) -> op_types.DestinationType:
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
            f"{what}: got {description}",
            allowed="a Tile or an array, a TileType, or an element type such as 'f16' or jnp.float16",
            fix=f'dst="{_meant(dst)}"' if isinstance(dst, str) else "",
        ) from None


def _meant(name: str) -> str:
    """The element type that a wrong name comes closest to."""
    letters = next((k for k in ("float8", "fp8") if k in name.lower()), "")
    return "f8e4m3" if letters else errors.nearest(name, [d.name for d in TILE_DTYPES]) or "f16"


def _element(dst: Any) -> DType:
    element = find_element(dst)
    if element not in TILE_DTYPES:
        raise ArgumentError(
            f"got elements of type {element.name}", allowed=", ".join(sorted(d.name for d in TILE_DTYPES))
        )
    return element


# -- attributes ----------------------------------------------------------------------------------------


def _key(instruction: isa.Instruction, key: str) -> str:
    attribute = instruction.attribute(key)
    if attribute is None:
        raise ArgumentError(op_types.unknown_keyword(instruction, key, OPTIONS))
    return attribute.name


def _member(instruction: isa.Instruction, key: str, value: Any) -> AttrValue:
    attribute = instruction.attribute(key)
    if attribute is None:
        raise ArgumentError(op_types.unknown_keyword(instruction, key, OPTIONS))
    if issubclass(attribute.type, IntEnum) and not isinstance(value, attribute.type):
        name = str(value).upper().removeprefix("CAST_")
        if name not in attribute.type.__members__:
            close = errors.nearest(name, attribute.type.__members__)
            raise ArgumentError(
                f"{instruction.name}: got {key}={value!r}",
                allowed=", ".join(attribute.type.__members__),
                fix=f'{key}="{close}"' if close else "",
            )
        return attribute.type[name]
    return tuple(value) if isinstance(value, list) else value


#: The module that users find the functions in.
PUBLIC = "pto_jax.ops"
#: Types of Python's numbers.
_KINDS: dict[type, Callable[[str], float]] = {int: int, float: float}
_NO_GUARD = nullcontext()
_NO_RULES = state.Report((), ())
_GLOBAL_MEMORY = ("gm", "ptr")
_DEFAULTS: dict[str, Any] = {
    "dst": None,
    "profile": "a2a3",
    "numerics": "exact",
    "out_of_region": None,
    "subnormals": "keep",
    "checks": False,
}


def is_function(instruction: isa.Instruction) -> bool:
    """Whether an instruction can be called on tiles and arrays alone."""
    operands = instruction.operands
    return (
        instruction.syntax == "tile"
        and instruction.name in RULES
        and not any(o.kind in _GLOBAL_MEMORY and not o.optional for o in operands)
    )


# -- functions -----------------------------------------------------------------------------------------


@cache
def function(name: str) -> Callable[..., Any]:
    """The function of an instruction, by its name in programs."""
    instruction = isa.instructions()[name]

    prints = not instruction.destinations

    def call(*sources: Any, **options: Any) -> Any:
        results = None if prints else _compiled(instruction, sources, options)
        result, report = _call(instruction, sources, options) if results is None else results
        if options and options.get("checks"):
            return result, _NO_RULES if report is None else report
        if report is not None:
            report.raise_if_broken()
        return result

    call.__name__ = call.__qualname__ = op_types.python_name(instruction)
    call.__module__ = PUBLIC
    call.__doc__ = _help(instruction)
    call.__signature__ = _signature(instruction)  # type: ignore[attr-defined]
    return call


def _signature(instruction: isa.Instruction) -> inspect.Signature:
    """Sources by position, those of longer overloads with a default; options by keyword."""
    forms = call_forms(instruction)
    longest, shortest = max(forms, key=len), min(forms, key=len)
    kind = inspect.Parameter
    parameters = [kind("sources", kind.VAR_POSITIONAL)]
    if all(form == longest[: len(form)] for form in forms):
        parameters = [
            kind(n, kind.POSITIONAL_ONLY, default=kind.empty if i < len(shortest) else None)
            for i, n in enumerate(longest)
        ]
    defaults = {a.name: a.default for a in instruction.attributes}
    defaults |= {name: _DEFAULTS[name] for name in OPTIONS}
    parameters += [kind(name, kind.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
    return inspect.Signature(parameters)


def _help(instruction: isa.Instruction) -> str:
    lines = [instruction.summary, "", op_types.forms_text(instruction, call_forms(instruction)), ""]
    lines += [instruction.semantics, ""]
    lines += [_destination_help(o) for o in instruction.destinations if o.kind == "tile"]
    lines += [f"{a.name}: {a.meaning} (default {_shown(a.default)})" for a in instruction.attributes]
    if len([o for o in instruction.destinations if o.kind == "tile"]) > 1:
        names = ", ".join(o.name for o in instruction.destinations if o.kind == "tile")
        lines.append(f"dst=: a tuple ({names}) of Tiles, TileTypes, element types or None.")
    if instruction.type_vars:
        lines += ["", f"Element types ({', '.join(instruction.type_vars)}):"]
        lines += [f"  {p}: {types}" for p in profiles.PROFILE_NAMES for types in every_type(instruction, p)]
    called = op_examples.example(instruction, small=False)
    if called is not None:
        lines += ["", "Example:", *(f"  {line}" for line in called.statements)]
    return "\n".join(lines)


def _destination_help(operand: isa.Operand) -> str:
    note = f"{operand.note}; " if operand.note else ""
    if operand.role == "inout":
        return f"{operand.name}: {note}read and written, dst= is required"
    size = operand.extent.text if operand.extent is not None else "type and region of the first source"
    left = "not returned unless dst= is a tuple; " if operand.optional and operand.beside is None else ""
    return f"{operand.name}: {note}{left}without dst= it has {size}"


def _shown(value: Any) -> str:
    return value.name if isinstance(value, IntEnum) else str(value)


# -- calls ---------------------------------------------------------------------------------------------


def _call(
    instruction: isa.Instruction, sources: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Any, state.Report | None]:
    """The result of a call and the rules on run-time values that it followed, None where it has none."""
    semantics = _semantics(options)
    request, arguments = _request(instruction, sources, options, semantics)
    typed = op_types.resolve(request)
    values = {}
    for index, v in enumerate((*typed.op.ins, *typed.op.outs)):
        if v.name in arguments:
            values[v.name] = _value(v, arguments[v.name], f"{instruction.name}: source {index}")
    # The guard is for data: constants of the instruction's own rule may go to the device.
    with x64(), jax.transfer_guard("allow"):
        execute = partial(_execute, request, typed, semantics)
        results: tuple[Any, state.Report | None] = conversion.over_batches(execute, values)
        return results


def _semantics(options: Mapping[str, Any]) -> Semantics:
    values = (options.get(n, _DEFAULTS[n]) for n in ("profile", "numerics", "out_of_region", "subnormals"))
    return choices(*values)


def _request(
    instruction: isa.Instruction, sources: Sequence[Any], options: Mapping[str, Any], semantics: Semantics
) -> tuple[op_types.Request, dict[str, Any]]:
    attributes = {n: v for n, v in options.items() if n not in OPTIONS}
    return request_of(instruction, sources, options.get("dst"), attributes, semantics.profile)


# -- calls with arrays that are there ------------------------------------------------------------------


def _compiled(
    instruction: isa.Instruction, sources: tuple[Any, ...], options: Mapping[str, Any]
) -> tuple[Any, state.Report | None] | None:
    """The call as one compiled function of its arrays; None where it has none.

    Tracers, arrays of other libraries and lists take the long way.
    """
    dst = options.get("dst") if options else None
    data = {"dst": dst} if dst is not None and kernel.is_concrete(dst) else {}
    numbers = False
    for source in sources:
        if not kernel.is_concrete(source):
            if type(source) not in _KINDS:
                return None
            numbers = True
    static = tuple((n, v) for n, v in options.items() if n not in data and n != "checks") if options else ()
    try:
        call = _function_of(instruction, static)
    except TypeError:  # An option that has no hash, such as a list, or a tuple with a Tile.
        return None
    try:
        if numbers:
            kinds = (tuple(map(_kind_of, sources)), _kind_of(dst) if data else None)
            pairs = zip(sources, _scalar_types(instruction, static, *kinds), strict=True)
            what = f"{instruction.name}: source"
            sources = tuple(s if d is None else _number(repr(s), _KINDS[type(s)], d, what) for s, d in pairs)
        # The guard is for data: numbers may go to the device.
        with x64(), jax.transfer_guard("allow") if numbers else _NO_GUARD:
            results: tuple[Any, state.Report | None] = call(sources, data)
    except errors.PtoError:  # The long way raises it without the frames of a trace.
        return None
    return results


@lru_cache(maxsize=4096)
def _function_of(instruction: isa.Instruction, static: tuple[tuple[str, Any], ...]) -> Any:
    options = dict(static)
    return jax.jit(lambda sources, data: _call(instruction, sources, {**options, **data}))


@lru_cache(maxsize=4096)
def _number(text: str, kind: Callable[[str], float], declared: DType, what: str) -> Any:
    """A Python number, by its representation (0.0 is not -0.0), as an array of its type."""
    return conversion.as_scalar(kind(text), declared, what)


def _shaped(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _kind_of(x: Any) -> Any:
    """What types of a call follow from: the type of a tile, shape and type of an array, None for a number."""
    if isinstance(x, Tile):
        return x.type
    return None if isinstance(x, int | float) else _shaped(x.shape, x.dtype)


@lru_cache(maxsize=4096)
def _scalar_types(
    instruction: isa.Instruction, static: tuple[tuple[str, Any], ...], sources: tuple[Any, ...], dst: Any
) -> tuple[DType | None, ...]:
    """The element type of each source that is a Python number, for a call with such arguments."""

    def abstract(kind: Any) -> Any:
        if isinstance(kind, TileType):
            return Tile(_shaped(kind.shape, kind.dtype.word), None, None, kind)
        return 0 if kind is None else kind

    options = dict(static) | ({} if dst is None else {"dst": abstract(dst)})
    request, _ = _request(instruction, tuple(map(abstract, sources)), options, _semantics(options))
    types = {v.name: v.type for v in op_types.resolve(request).op.ins}
    declared = (types[n] if k is None else None for n, k in zip(request.form, sources, strict=True))
    return tuple(t.dtype if isinstance(t, ScalarType) else None for t in declared)


def _value(declared: Value, value: Any, what: str) -> Any:
    """A source as the machine takes it: a Tile, or a 0-d array of its type."""
    if isinstance(declared.type, ScalarType):
        return conversion.as_scalar(value, declared.type.dtype, what)
    if isinstance(value, Tile):
        return value
    assert isinstance(declared.type, TileType)
    return tile(value, type=declared.type)


def _execute(
    request: op_types.Request, typed: op_types.Typed, semantics: Semantics, values: Mapping[str, Any]
) -> tuple[Any, state.Report | None]:
    machine = JaxMachine(semantics, Plan([], {}), {}, checks=True)
    types = {v.name: v.type for v in (*typed.op.ins, *typed.op.outs)}
    expected = dict(request.destinations)
    operands: dict[str, Operand] = {}
    for name in typed.bound.values:
        t = types[name]
        if isinstance(t, VectorType):
            continue
        if name not in values:
            assert isinstance(t, TileType)
            operands[name] = TileRef(t, machine.blank(name, t), *_fresh_region(request, name, t, values))
        elif isinstance(t, TileType):
            argument = values[name]
            slot = machine.adopt(name, t, argument.words)
            operands[name] = TileRef(t, slot, argument.valid_rows, argument.valid_cols)
        else:
            assert isinstance(t, ScalarType)
            operands[name] = conversion.opaque_scalar(values[name], t.dtype)
        # A fresh tile of the size that the sources give it has nothing of its own to report.
        if isinstance(t, TileType) and (name in values or isinstance(expected.get(name), TileType)):
            machine.region(typed.op, operands[name], name)
    return _results(typed, machine, operands, types)


def _results(
    typed: op_types.Typed, machine: JaxMachine, operands: Mapping[str, Operand], types: Mapping[str, Any]
) -> tuple[Any, state.Report | None]:
    bound = typed.bound
    vectors = {n: t for n in bound.values if isinstance(t := types[n], VectorType)}
    outputs = machine.execute(Execution(typed.op, bound, operands, bound.attrs, vectors))
    written = [o.name for o in bound.instruction.destinations if o.name in bound.values]
    results = tuple(
        outputs[n] if n in vectors else Tile.of(machine.words(operands[n]), operands[n]) for n in written
    )
    result = results[0] if len(results) == 1 else results or None
    return result, state.Report.of(machine.violations) if machine.violations else None


def _fresh_region(
    request: op_types.Request, name: str, t: TileType, values: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Valid sizes of a new destination: static ones from its type, others as the sources have them."""
    if t.v_row is not None and t.v_col is not None:
        return t.v_row, t.v_col
    tiles = {n: v for n, v in values.items() if isinstance(v, Tile) and n in request.form}
    sizes = {n: (v.valid_rows, v.valid_cols) for n, v in tiles.items()}
    size = op_types.destination_size(request, name, t.dtype, {n: v.type for n, v in tiles.items()}, sizes)
    region = size[1] if size is not None else next(iter(sizes.values()), t.shape)
    rows, cols = (_index(r) if n is None else n for n, r in zip(t.valid, region, strict=True))
    return rows, cols


def _index(size: Any) -> Any:
    return size if isinstance(size, int) else size.astype(np.int32)
