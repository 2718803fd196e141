"""Legality of one operation: the declaration's rules applied to its operands and attributes."""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import chain
from types import MappingProxyType
from typing import TypeAlias

from .. import ir, profiles
from ..errors import Diagnostic, Span, VerifyError, nearest
from .bind import Bound, accepts, bind
from .declare import Attribute, Constraint, Instruction, Operand, Site
from .rules.constraints import element_type
from .rules.tile_legality import check_type, describe, tile_of_memref

Valid: TypeAlias = tuple[int | None, int | None]
#: Bytes [start, end) of the unified buffer.
Scratch: TypeAlias = tuple[int, int]
_NOTHING: Mapping[str, Valid] = MappingProxyType({})
_NO_CONSTANTS: Mapping[str, int] = MappingProxyType({})
_NO_SHAPES: Mapping[str, tuple[int | None, ...]] = MappingProxyType({})
_NO_LAYOUTS: Mapping[str, ir.GlobalLayout] = MappingProxyType({})
#: The level from which on a program places its tiles and orders its pipes itself.
EXPLICIT = 3
_KINDS = {
    "tile": "a tile",
    "scalar": "a scalar",
    "index": "a scalar",
    "gm": "a view of global memory",
    "ptr": "a pointer",
    "event": "an event",
    "vector": "a vector",
    "handle": "a handle",
    "entry": "a tile or a view of global memory",
    "memory": "a pointer or a view of global memory",
}


def check_op(
    op: ir.Op,
    profile: profiles.Profile,
    *,
    valid: Mapping[str, Valid] = _NOTHING,
    constants: Mapping[str, int] = _NO_CONSTANTS,
    shapes: Mapping[str, tuple[int | None, ...]] = _NO_SHAPES,
    layouts: Mapping[str, ir.GlobalLayout] = _NO_LAYOUTS,
    types: bool = True,
    bound: Bound | None = None,
    language: ir.Language = ir.PRESENT,
    level: int | None = None,
    first: bool = False,
) -> list[Diagnostic]:
    """Everything the declaration of an instruction objects to in one operation.

    ``valid`` gives valid regions, ``constants`` integer values, ``shapes`` and ``layouts`` what is known of
    views, each by value name; static types are seen without them. ``types`` also checks the operands' types
    themselves. ``bound`` is what its operands stand for, where that is known already. ``language`` is the
    version of the text, ``level`` that of the build. With ``first`` nothing is sought behind the first error.
    The operation need not belong to a program.

    >>> from pto_jax.profiles import profile
    >>> a, b = ir.Value("a", ir.TileType(ir.F32, 16, 16)), ir.Value("b", ir.TileType(ir.F16, 16, 16))
    >>> [d.rule for d in check_op(ir.Op("tadd", (a, b), (a,)), profile("a5"))]
    ['types-equal']
    """
    from . import find

    instruction = find(op.name)
    if instruction is None:
        return [unsupported(op)]
    attributes = list(_attributes(instruction, op))
    try:
        bound = bound or bind(instruction, op)
    except VerifyError as error:
        return attributes + list(error.diagnostics)
    site = build_site(bound, op, profile, valid, constants, shapes, layouts, level)
    findings = chain(
        attributes,
        _operands(instruction, bound, op),
        _types(bound, profile, op) if types else (),
        *(_findings(c, site, language) for c in instruction.constraints if profile.name in c.profiles),
        _implied(site, level) if level is not None and language == ir.PRESENT else (),
    )
    return _up_to_error(findings) if first else list(findings)


def _up_to_error(findings: Iterable[Diagnostic]) -> list[Diagnostic]:
    kept = list[Diagnostic]()
    for finding in findings:
        kept.append(finding)
        if finding.severity == "error":
            break
    return kept


def unsupported(op: ir.Op) -> Diagnostic:
    """The diagnostic for an operation without a declaration."""
    return Diagnostic(
        "error",
        f"instruction {op.name} is not supported by this version; `pto-jax isa` lists the "
        "instructions that are",
        op.span,
        op.name,
        rule="supported",
    )


def build_site(
    bound: Bound,
    op: ir.Op,
    profile: profiles.Profile,
    valid: Mapping[str, Valid] = _NOTHING,
    constants: Mapping[str, int] = _NO_CONSTANTS,
    shapes: Mapping[str, tuple[int | None, ...]] = _NO_SHAPES,
    layouts: Mapping[str, ir.GlobalLayout] = _NO_LAYOUTS,
    level: int | None = None,
) -> Site:
    """The operation as constraints see it: operands of the right kind with known types."""
    types: dict[str, ir.Type] = {}
    regions: dict[str, Valid] = {}
    variables: dict[str, str] = {}
    for name, value in bound.values.items():
        operand = bound.instruction.operand(name)
        t = _seen(operand, value.type)
        if t is None:
            continue
        types[name] = t
        d = element_type(t)
        if d is not None and operand.dtype in bound.instruction.type_vars:
            variables.setdefault(operand.dtype, d.name)
        if isinstance(t, ir.TileType):
            regions[name] = valid.get(value.name, t.valid)
    return Site(
        bound.instruction,
        profile,
        op,
        bound.values,
        types,
        bound.attrs,
        variables,
        regions,
        constants,
        shapes,
        layouts,
        level,
    )


def _seen(operand: Operand, t: ir.Type) -> ir.Type | None:
    if isinstance(t, ir.UnknownType) or not accepts(operand, t):
        return None
    if operand.kind == "tile" and isinstance(t, ir.MemRefType):
        return tile_of_memref(t)
    return t


def hidden_scratch(
    op: ir.Op, profile: profiles.Profile, valid: Mapping[str, Valid] = _NOTHING, bound: Bound | None = None
) -> Scratch | None:
    """The byte range of the unified buffer that an operation overwrites without naming it.

    ``valid`` and ``bound`` as for :func:`check_op`.

    >>> from pto_jax.profiles import profile
    >>> t = ir.Value("t", ir.TileType(ir.F32, 16, 16))
    >>> s = ir.Value("s", ir.TileType(ir.F32, 16, 1, blayout=ir.BLayout.COL_MAJOR))
    >>> hidden_scratch(ir.Op("trowexpandadd", (t, s), (t,)), profile("a2a3"))
    (188416, 196608)
    """
    if bound is None:
        from . import find

        instruction = find(op.name)
        if instruction is None:
            return None
        try:
            bound = bind(instruction, op)
        except VerifyError:
            return None
    overwrites = bound.instruction.hidden_scratch
    if profile.ub_scratch is None or overwrites is None:
        return None
    return profile.ub_scratch if overwrites(build_site(bound, op, profile, valid)) else None


def inserted_scratch(op: ir.Op, profile: profiles.Profile, bound: Bound | None) -> int:
    """The bytes of the scratch tiles that tools put in where an operation leaves them out, large ones only.

    ``bound`` as for :func:`check_op`, None where its operands do not fit.
    """
    if bound is None or not bound.instruction.inserted:
        return 0
    site, size = build_site(bound, op, profile), 0
    for operand, implied in bound.instruction.inserted:
        if operand.name in site.values:
            continue
        like = site.tile(implied.of)
        if like is not None and profile.name in implied.profiles and implied.needed(site):
            size += like.bytes
    return size


def _implied(site: Site, level: int) -> Iterator[Diagnostic]:
    """Scratch that is missing and that no tool puts in: at the level at which programs place their tiles."""
    for operand in site.instruction.operands:
        implied = operand.implied
        if implied is None or operand.name in site.values or site.profile.name not in implied.profiles:
            continue
        message, sizes = "", site.region(implied.of)
        if not implied.needed(site):
            continue
        if level == EXPLICIT:
            message = f"{operand.name} is missing at level {level}; allowed: {operand.name} with an address"
        elif None in sizes and implied.of in site.types:
            got = f"{operand.name} is missing, and {implied.of} has the valid region {ir.dims_text(sizes)}"
            message = f"{got}; allowed without it: sizes that the type states, as tools make it of them"
        if message:
            yield Diagnostic(
                "error", message, site.op.span, site.instruction.name, operand.name, f"{operand.name}-given"
            )


def _findings(constraint: Constraint, site: Site, language: ir.Language) -> Iterator[Diagnostic]:
    since, until = constraint.since, constraint.until
    if until is not None and language >= until:
        return
    earlier = since is not None and language < since
    if earlier and constraint.severity == "warning":
        return
    severity = "warning" if earlier else constraint.severity
    on = "" if constraint.profiles == profiles.PROFILE_NAMES else f" on {site.profile.name}"
    for operand, got, *allowed in constraint.check(site):
        value = site.values.get(operand) if operand else None
        if not allowed and "allowed" not in got and constraint.allowed:
            allowed = [constraint.allowed]
        message = f"{got}; allowed{on}: {allowed[0]}" if allowed else got
        fix = constraint.fix(site, operand) if constraint.fix is not None and operand else None
        place, name = _place(value, site.op), site.instruction.name
        yield Diagnostic(severity, message, place, name, operand, constraint.rule, fix=fix or "")


def _place(value: ir.Value | None, op: ir.Op) -> Span | None:
    return value.span if value is not None and value.span is not None else op.span


def _operands(instruction: Instruction, bound: Bound, op: ir.Op) -> Iterator[Diagnostic]:
    for name, value in chain(bound.values.items(), _further(instruction, op)):
        operand = instruction.operand(name)
        if isinstance(value.type, ir.UnknownType):
            written = f" (written {value.type.text})" if value.type.text else ""
            message = f"type not given for {value}{written}; allowed: {_KINDS[operand.kind]} with a full type"
            rule = "type-given"
        elif not accepts(operand, value.type):
            message = f"{value} is {describe(value.type)}; allowed: {_KINDS[operand.kind]}"
            rule = "operand-kind"
        elif isinstance(value.type, ir.TileType) and value.type.conv is not None and not operand.conv:
            message = f"{value} is a convolution tile ({value.type}); allowed: an ordinary tile"
            rule = "convolution"
        elif _in_place(operand, value.type, instruction) and value in op.results and not op.outs:
            message = f"{value} is a new result; allowed: a destination that is there, as in outs({value})"
            rule = "destination"
        else:
            continue
        if operand.kind not in ("event", "handle") or rule != "type-given":
            yield Diagnostic("error", message, _place(value, op), instruction.name, name, rule)
    fresh = [o.name for o in instruction.destinations if o.role == "inout"]
    if fresh and op.results and not op.outs:
        yield Diagnostic(
            "warning",
            f"{fresh[0]} is read and written, but a new result has no defined old value; give a "
            "destination tile",
            op.span,
            instruction.name,
            fresh[0],
            "old-value",
        )


def _further(instruction: Instruction, op: ir.Op) -> Iterator[tuple[str, ir.Value]]:
    """The values of groups behind the first ones, by the operand that each is one of."""
    for name, size in op.groups:
        if size > 1 and instruction.has_operand(name):
            yield from ((name, value) for value in op.group(name)[1:])


def _in_place(operand: Operand, t: ir.Type, instruction: Instruction) -> bool:
    """Whether what an instruction writes is memory that it does not make: elements of a view, or a memref."""
    if operand.kind == "tile":
        return instruction.syntax == "tile" and isinstance(t, ir.MemRefType)
    effects = instruction.traits.effects
    return any((e.access, e.resource, e.operand) == ("write", "global", operand.name) for e in effects)


def _types(bound: Bound, profile: profiles.Profile, op: ir.Op) -> Iterator[Diagnostic]:
    seen: set[tuple[str, str]] = set()
    for name, value in bound.values.items():
        for finding in check_type(value.type, profile):
            # The rule on the instruction's types says which it has instead.
            if finding.rule == "type-exists" and finding.severity == "error" and _typed(bound, name):
                continue
            if (finding.rule, finding.message) not in seen:
                seen.add((finding.rule, finding.message))
                place = _place(value, op)
                yield Diagnostic(
                    finding.severity,
                    finding.message if place is None else finding.written(python=place.python),
                    place,
                    bound.instruction.name,
                    name,
                    finding.rule,
                )


def _typed(bound: Bound, name: str) -> bool:
    """Whether the instruction's table of types covers an operand."""
    return (
        bool(bound.instruction.types) and bound.instruction.operand(name).dtype in bound.instruction.type_vars
    )


def _attributes(instruction: Instruction, op: ir.Op) -> Iterator[Diagnostic]:
    """Attributes nobody knows are legal text, as everywhere in MLIR; values of known ones are checked."""
    for key, value in op.attributes:
        attribute = instruction.attribute(key)
        if attribute is None:
            names = [a.name for a in instruction.attributes]
            yield Diagnostic(
                "warning",
                f"unknown attribute {key}, which has no effect",
                op.span,
                instruction.name,
                rule="attribute-known",
                allowed=", ".join(names) or "none",
                fix=nearest(key, names),
            )
        elif not attribute.takes(value):
            message = f"{key} = {value}; allowed: {_values(attribute)}"
            yield Diagnostic("error", message, op.span, instruction.name, None, "attribute-value")


def _values(attribute: Attribute) -> str:
    if issubclass(attribute.type, IntEnum):
        return ", ".join(m.name for m in attribute.type)
    words: dict[type, str] = {bool: "true, false", int: "an integer", str: "text", tuple: "integers"}
    return words.get(attribute.type, "a function, as in @name")
