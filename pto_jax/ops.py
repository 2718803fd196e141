"""Every instruction as a function on tiles.

``pto.ops.tadd(a, b)`` takes the sources in text order and gives the destination tile. Functions are made
from the declarations; ``help(pto.ops.tadd)`` prints what the declaration says.

Keyword arguments of all of them: ``dst`` (a Tile whose lanes outside the valid region are kept, or a
TileType for a fresh tile; default: type and valid region of the first source tile), ``profile`` (default
"a2a3"), ``numerics``, ``out_of_region``, ``subnormals`` as for :func:`pto_jax.compile`, and the
instruction's attributes by name. They work under jit and vmap; on concrete tiles a broken run-time rule
raises ExecutionError. ``tprint`` has no destination and returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cache, lru_cache
from typing import Any

import jax
import numpy as np

from . import arrays, isa
from .dtypes import F32, INDEX, DType, find_dtype, from_numpy
from .engine import choices
from .errors import ArgumentError, VerifyError
from .ir import AttrValue, Op, Value, attrs
from .lowering import RULES, JaxMachine, Plan, Semantics
from .profiles import OutOfRegion, Profile, Subnormals
from .state import Report
from .tiles import Tile
from .types import ScalarType, TileType, Type, VectorType
from .verifier import check_op
from .walk import Execution, Operand, TileRef

_GLOBAL_MEMORY = ("gm", "ptr")


def _is_function(instruction: isa.Instruction) -> bool:
    operands = instruction.operands
    return (
        instruction.syntax == "tile"
        and instruction.name in RULES
        and not any(o.kind in _GLOBAL_MEMORY and not o.optional for o in operands)
    )


def names() -> tuple[str, ...]:
    """The instructions that exist as functions of this module."""
    return tuple(_python_name(i) for i in isa.instructions().values() if _is_function(i))


def _python_name(instruction: isa.Instruction) -> str:
    """``tmatmul_acc`` for tmatmul.acc."""
    return instruction.name.replace(".", "_")


def __getattr__(name: str) -> Callable[..., Any]:
    instruction = isa.find(name) if not name.startswith("_") else None
    if instruction is None or _python_name(instruction) != name or not _is_function(instruction):
        raise AttributeError(f"module {__name__!r} has no instruction {name!r}; ops.names() lists them")
    return _function(instruction.name)


def __dir__() -> list[str]:
    return sorted([*globals(), *names()])


@cache
def _function(name: str) -> Callable[..., Any]:
    instruction = isa.instructions()[name]
    name = _python_name(instruction)

    def call(*sources: Any, **options: Any) -> Any:
        return _call(instruction, sources, options)

    forms = " or ".join(f"{name}({', '.join(form)})" for form in instruction.forms)
    attributes = "".join(
        f"\n{a.name}: {a.meaning} (default {_shown(a.default)})" for a in instruction.attributes
    )
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{instruction.summary}\n\n{forms}\n\n{instruction.semantics}{attributes}"
    return call


def _shown(value: AttrValue) -> str:
    return value.name if isinstance(value, IntEnum) else str(value)


def _call(instruction: isa.Instruction, sources: tuple[Any, ...], options: dict[str, Any]) -> Any:
    semantics = choices(
        options.pop("profile", "a2a3"),
        options.pop("numerics", "exact"),
        options.pop("out_of_region", None),
        options.pop("subnormals", "keep"),
    )
    given = options.pop("dst", None)
    attributes = {_key(instruction, k): _member(instruction, k, v) for k, v in options.items()}
    destinations = _destinations(instruction, sources, given)
    first = next((s for s in sources if isinstance(s, Tile)), None)
    first = first or next((d for d in destinations.values() if isinstance(d, Tile)), None)
    tiles = [t.type if isinstance(t, Tile) else None for t in sources]
    tiles += [_tile_type(d) for d in destinations.values()]
    ins = tuple(Value(f"arg{i}", _type(instruction, i, s, tiles)) for i, s in enumerate(sources))
    outs = tuple(Value(n, d.type if isinstance(d, Tile) else d) for n, d in destinations.items())
    op = Op(instruction.name, ins, outs, attributes=attrs(attributes), form="dps")
    bound = _checked(op, semantics.profile)
    values: dict[str, Any] = dict(destinations)
    for i, (v, s) in enumerate(zip(ins, sources, strict=True)):
        values[v.name] = _value(v, s, f"{op.name}: source {i}")
    # The guard is for data: constants of the instruction's own rule may go to the device.
    with arrays.x64(), jax.transfer_guard("allow"):
        return _execute(op, bound, semantics, values, first)


def _key(instruction: isa.Instruction, key: str) -> str:
    attribute = instruction.attribute(key)
    if attribute is None:
        known = ", ".join(a.name for a in instruction.attributes) or "none"
        raise ArgumentError(f"{instruction.name}: unknown keyword {key!r}; its attributes: {known}")
    return attribute.name


def _member(instruction: isa.Instruction, key: str, value: Any) -> AttrValue:
    attribute = instruction.attribute(key)
    assert attribute is not None
    if issubclass(attribute.type, IntEnum) and not isinstance(value, attribute.type):
        name = str(value).upper().removeprefix("CAST_")
        if name not in attribute.type.__members__:
            known = ", ".join(attribute.type.__members__)
            raise ArgumentError(f"{instruction.name}: {key}={value!r} found, allowed: {known}")
        return attribute.type[name]
    return value  # type: ignore[no-any-return]


def _wanted(instruction: isa.Instruction, sources: tuple[Any, ...], given: Any) -> tuple[isa.Operand, ...]:
    """The destinations of the overload that the sources fit, and further ones that are given."""
    tiles = [isinstance(s, Tile) for s in sources]
    form = next(
        (f for f in instruction.forms if [instruction.operand(n).kind == "tile" for n in f] == tiles), ()
    )
    wanted = instruction.destinations_of(form)
    spare = len(given) - len(wanted) if isinstance(given, tuple) else 0
    further = [o for o in instruction.destinations if o not in wanted][: max(spare, 0)]
    return tuple(o for o in instruction.destinations if o in wanted or o in further)


def _destinations(
    instruction: isa.Instruction, sources: tuple[Any, ...], given: Any
) -> dict[str, Tile | TileType | VectorType]:
    """Destination tiles or types; those not given take the first source tile's type and region."""
    wanted = _wanted(instruction, sources, given)
    tiles = [o for o in wanted if o.kind != "vector"]
    if isinstance(given, tuple) and len(given) == len(tiles) < len(wanted):
        entries = iter(given)
        given = tuple(None if o.kind == "vector" else next(entries) for o in wanted)
    listed = given if isinstance(given, tuple) else (given,) * len(wanted)
    if len(listed) != len(wanted):
        raise ArgumentError(
            f"{instruction.name}: dst has {len(listed)} entries, it has {len(wanted)} destinations"
        )
    reference = next((o for o in instruction.operands if o.role == "in" and o.kind == "tile"), None)
    first = next((s for s in sources if isinstance(s, Tile)), None)
    found: dict[str, Tile | TileType | VectorType] = {}
    for operand, dst in zip(wanted, listed, strict=True):
        if operand.kind == "vector":
            found[operand.name] = operand.vector
        elif isinstance(dst, Tile):
            found[operand.name] = dst.single(f"{instruction.name}: dst")
        elif isinstance(dst, TileType):
            found[operand.name] = dst
        elif dst is not None:
            raise ArgumentError(
                f"{instruction.name}: dst must be a Tile or a TileType, found {type(dst).__name__}"
            )
        elif operand.role == "inout":
            raise ArgumentError(f"{instruction.name}: dst=Tile is required, the instruction reads it")
        elif first is None or reference is None or operand.dtype != reference.dtype:
            raise ArgumentError(
                f"{instruction.name}: dst= is required, its type does not follow from the sources"
            )
        else:
            found[operand.name] = first.type
    return found


def _tile_type(destination: Any) -> TileType | None:
    given = destination.type if isinstance(destination, Tile) else destination
    return given if isinstance(given, TileType) else None


def _type(instruction: isa.Instruction, index: int, source: Any, tiles: Sequence[TileType | None]) -> Type:
    if isinstance(source, Tile):
        return source.single(f"{instruction.name}: source {index}").type
    if not hasattr(source, "dtype") and isinstance(source, int | float):
        return ScalarType(_scalar_dtype(instruction, index, tiles))
    if hasattr(source, "dtype") and getattr(source, "shape", None) == ():
        declared = _scalar_dtype(instruction, index, tiles)
        if arrays.accepts(declared, np.dtype(source.dtype)):
            return ScalarType(declared)
        return ScalarType(_named(source.dtype, f"{instruction.name}: source {index}", declared))
    raise ArgumentError(
        f"{instruction.name}: source {index} must be a Tile (pto.tile makes one) or a scalar, "
        f"found {type(source).__name__}"
    )


def _value(declared: Value, source: Any, what: str) -> Any:
    if isinstance(declared.type, ScalarType):
        return arrays.as_scalar(source, declared.type.dtype, what)
    return source


def _named(given: Any, what: str, declared: DType) -> DType:
    try:
        return from_numpy(given)
    except ArgumentError:
        raise ArgumentError(f"{what}: found a scalar of {given}, allowed: {declared.name}") from None


def _scalar_dtype(instruction: isa.Instruction, index: int, tiles: Sequence[TileType | None]) -> DType:
    """A Python number takes the declared type, or that of a tile that must have the same one.

    ``tiles`` are the types of the sources (None for scalars), then of the destinations.
    """
    for form in instruction.forms:
        names = (*form, *(o.name for o in instruction.destinations_of(form)))
        if len(names) != len(tiles) or instruction.operand(form[index]).kind not in ("scalar", "index"):
            continue
        if instruction.operand(form[index]).kind == "index":
            return INDEX
        wanted = instruction.operand(form[index]).dtype
        declared = find_dtype(wanted or "")
        if declared is not None:
            return declared
        for name, t in zip(names, tiles, strict=True):
            if t is not None and wanted is not None and instruction.operand(name).dtype == wanted:
                return t.dtype
    return next((t.dtype for t in tiles if t is not None), F32)


@lru_cache(maxsize=8192)
def _checked(op: Op, profile: Profile) -> isa.Bound:
    errors = [d for d in check_op(op, profile) if d.severity == "error"]
    if errors:
        raise VerifyError(errors)
    return isa.bind(isa.instructions()[op.name], op)


def _execute(
    op: Op, bound: isa.Bound, semantics: Semantics, values: Mapping[str, Any], first: Tile | None
) -> Any:
    machine = JaxMachine(semantics, Plan([], {}), {}, checks=True)
    operands: dict[str, Operand] = {}
    vectors: dict[str, VectorType] = {}
    for name, value in bound.values.items():
        if isinstance(value.type, VectorType):
            vectors[name] = value.type
            continue
        operands[name] = _operand(machine, name, value, values[value.name], first)
        if isinstance(operands[name], TileRef):
            machine.region(op, operands[name])
    made = machine.execute(Execution(op, bound.instruction, operands, bound.attrs, bound.form, vectors))
    Report.of(machine.violations).raise_if_broken()
    written = [o.name for o in bound.instruction.destinations if o.name in bound.values]
    results = tuple(
        made[n] if n in vectors else Tile.of(machine.words(operands[n]), operands[n]) for n in written
    )
    return results[0] if len(results) == 1 else results or None


def _operand(machine: JaxMachine, name: str, value: Value, given: Any, first: Tile | None) -> Operand:
    t = value.type
    if isinstance(given, Tile):
        assert isinstance(t, TileType)
        return TileRef(t, machine.adopt(name, t, given.words), given.valid_rows, given.valid_cols)
    if isinstance(given, TileType):
        region = (first.valid_rows, first.valid_cols) if first is not None else given.shape
        sizes = (r if n is None else n for n, r in zip(given.valid, region, strict=True))
        return TileRef(given, machine.blank(name, given), *sizes)
    assert isinstance(t, ScalarType)
    return arrays.opaque_scalar(given, t.dtype)


__all__ = ["OutOfRegion", "Subnormals", "names"]
