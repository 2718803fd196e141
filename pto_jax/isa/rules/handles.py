"""Rules of instructions on handles: pipes, sessions, events, addresses, pointers, windows, flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypedDict, Unpack

from ...ir import (
    INDEX,
    AddressSpace,
    AttrValue,
    Loc,
    MemRefType,
    OpaqueType,
    PartitionViewType,
    Pipe,
    PtrType,
    ScalarType,
    TensorViewType,
    TileType,
    Type,
)
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from .. import declare
from ..assembly import Assembly
from ..changes import Change
from ..declare import AttrMap, Constraint, Finding, Site
from ..samples.operations import Sample
from ..traits import PLAIN, Traits
from .forbid import Types, forbid, give, retype
from .require import require
from .typesets import TypeTable, element_type

#: Why an instruction has no execution.
NOT_EXECUTED = declare.Decision(
    "Is the instruction executed?",
    "No: it is read, printed and verified; a program that reaches it ends with an error that says so.",
    "scope of this engine: one processor",
)


def handle(name: str, opaque: str, source: str) -> declare.Constraint:
    """An operand or result is a handle of one kind."""
    other = give(name, OpaqueType("event" if opaque != "event" else "pipe"))

    @forbid(f"{name}-handle", f"{name} is a !pto.{opaque}", source=source, invalid_if=other)
    def rule(site: declare.Site) -> Iterator[declare.Finding]:
        t = site.types.get(name)
        if isinstance(t, OpaqueType) and t.name != opaque:
            yield name, f"{name} is {t}; allowed: !pto.{opaque}"

    return rule


def of_class(
    rule: str, statement: str, name: str, cls: type[Type], words: str, other: Type, source: str
) -> declare.Constraint:
    """An operand or result has a class of types; ``other`` is a type of none."""

    @forbid(rule, statement, source=source, invalid_if=give(name, other))
    def check(site: declare.Site) -> Iterator[declare.Finding]:
        t = site.types.get(name)
        if t is not None and not isinstance(t, cls):
            yield name, f"{name} is {t}; allowed: {words}"

    return check


def only_on(profiles: tuple[ProfileName, ...], source: str) -> declare.Constraint:
    """An instruction that other profiles do not have, whatever its element types."""
    words = " and ".join(profiles)
    others = tuple(p for p in PROFILE_NAMES if p not in profiles)

    @forbid(
        "types",
        f"profile {words}",
        others,  # pyright: ignore[reportArgumentType]
        source=source,
        invalid_if=lambda types, attrs, profile: False,
    )
    def rule(site: declare.Site) -> Iterator[declare.Finding]:
        yield None, f"the profile {site.profile.name} does not have the instruction; allowed: {words}"

    return rule


def handle_operand(name: str, *, note: str = "", result: Type | None = None) -> declare.Operand:
    """An operand that is a handle, read, or the ``result`` of a type."""
    role: declare.Role = "in" if result is None else "out"
    return declare.Operand(name, role, "handle", dtype=None, note=note, type=result)


@dataclass(frozen=True)
class Shown:
    """One sample operation: operand types, attributes, constants, and where it is legal.

    ``form`` lists its sources in order; None: those of ``types``, in that order.
    """

    types: Mapping[str, Type]
    form: tuple[str, ...] | None = None
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    constants: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    grouped: bool = False
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES


def sampler(*shown: Shown) -> declare.Sampler:
    """A sampler that yields the given operations on the profiles that have them."""

    def samples(instruction: declare.Instruction, profile: Profile) -> Iterator[Sample]:
        for s in shown:
            if profile.name in s.profiles:
                form = s.form
                if form is None:
                    form = tuple(n for n in s.types if instruction.operand(n).role != "out")
                yield Sample(instruction, s.types, form, s.attrs, s.constants, s.grouped)

    return samples


class CustomParts(TypedDict, total=False):
    """What :func:`custom` hands on by name, as builders of families do too."""

    forms: tuple[tuple[str, ...], ...]
    pipe_rule: declare.PipeRule | None
    phases: declare.PhaseRule | None
    assembly: Assembly
    changes: tuple[Change, ...]


def custom(
    name: str,
    summary: str,
    semantics: str,
    operands: tuple[declare.Operand, ...],
    shown: tuple[Shown, ...] = (),
    attributes: tuple[declare.Attribute, ...] = (),
    constraints: tuple[declare.Constraint, ...] = (),
    decisions: tuple[declare.Decision, ...] = (),
    traits: Traits = PLAIN,
    *,
    sources: tuple[str, ...],
    cls: declare.InstructionClass = "sync_config",
    types: TypeTable | None = None,
    pipe: Pipe = Pipe.S,
    executable: bool = True,
    syntax: Literal["tile", "custom"] = "custom",
    **parts: Unpack[CustomParts],
) -> declare.Instruction:
    """The declaration of an instruction that computes no tile, most of them with a syntax of their own.

    ``shown`` are its sample operations; without any there is one of its attributes alone. Without a table of
    types, the element types of operands are free.
    """
    if not types:
        operands = tuple(replace(o, dtype=None) if o.dtype == "T" else o for o in operands)
    return declare.Instruction(
        name,
        cls,
        summary,
        semantics,
        operands,
        types or {},
        ("T",) if types else (),
        attributes,
        constraints,
        domain="none",
        pipe=pipe,
        decisions=decisions,
        sources=sources,
        syntax=syntax,
        executable=executable,
        sampler=sampler(*shown) if shown else None,
        traits=traits,
        **parts,
    )


def stored(source: Loc | None, target: Loc | None) -> Pipe | None:
    """What leaves the core: from accumulators on FIX, from elsewhere on MTE3."""
    if source is None:
        return None
    return Pipe.FIX if source == Loc.ACC else Pipe.MTE3


def moved(source: Loc | None, target: Loc | None) -> Pipe | None:
    """A move between two memories; within one memory the declared pipe holds.

    >>> moved(Loc.ACC, Loc.VEC).name, moved(Loc.MAT, Loc.LEFT).name, moved(Loc.VEC, Loc.VEC)
    ('FIX', 'MTE1', None)
    """
    return _moved(source, target, Pipe.FIX)


def loaded(source: Loc | None, target: Loc | None) -> Pipe | None:
    """A move of a tile: parameters of stores go where stores of accumulators read them.

    >>> loaded(Loc.MAT, Loc.SCALING).name, loaded(Loc.MAT, Loc.SCALELEFT).name
    ('FIX', 'MTE1')
    """
    return Pipe.FIX if (source, target) == (Loc.MAT, Loc.SCALING) else moved(source, target)


def inserted(source: Loc | None, target: Loc | None) -> Pipe | None:
    """A move into a part of a tile: what vector memory gives goes through MTE3."""
    return _moved(source, target, Pipe.MTE3)


def _moved(source: Loc | None, target: Loc | None, other: Pipe) -> Pipe | None:
    if source == target:
        return None
    if source == Loc.ACC:
        return Pipe.FIX
    if source == Loc.MAT:
        return Pipe.V if target == Loc.VEC else Pipe.MTE1
    return other


ALIGNMENT = 32
_DIALECT = "PTOAS dialect definition and verifier"
_BYTE = 8
_SOURCE = "pto-isa tassign_check.hpp (static address checks); buffer capacities per profile"


def whole_numbers(*names: str) -> Constraint:
    """Operands, or groups of them, are indices or integers."""

    @forbid("offset-type", "an index", source=_DIALECT, invalid_if=retype(names[0], "f32"))
    def rule(site: Site) -> Iterator[Finding]:
        grouped = dict(site.op.groups)
        for name in names:
            types = [v.type for v in site.op.group(name)] if name in grouped else [site.types.get(name)]
            for d in map(element_type, types):
                if d is not None and d != INDEX and (not d.is_integer or d.bits < _BYTE):
                    yield name, f"{name} has type {d}; allowed: index, or an integer"

    return rule


def address_rules(tile: str) -> tuple[Constraint, Constraint]:
    """A constant byte address is aligned, and the tile ends inside its buffer."""
    aligned = require("address-aligned", f"addr.value % {ALIGNMENT} == 0", why="bytes", source=_SOURCE)

    @forbid("address-range", "the tile ends inside its on-chip buffer", source=_SOURCE)
    def inside(site: Site) -> Iterator[Finding]:
        value, t = site.constant("addr"), site.types.get(tile)
        if value is None or not isinstance(t, TileType):
            return
        capacity = site.profile.capacity[t.loc]
        if value < 0 or value + t.bytes > capacity:
            buffer = f"the {t.loc.name.lower()} buffer of {site.profile.name}"
            covered = f"the tile covers bytes [{value}, {value + t.bytes})"
            yield "addr", f"{covered}; allowed in {buffer}: [0, {capacity})"

    return aligned, inside


_DIALECT = "PTOAS dialect definition"
#: Pipes that set flags between cores and wait for them.
CORE_PIPES = (Pipe.FIX, Pipe.MTE1, Pipe.MTE2, Pipe.MTE3, Pipe.V)


def core_pipes() -> str:
    """The pipes of flags between cores, as messages list them."""
    return ", ".join(f"PIPE_{p.name}" for p in CORE_PIPES)


_forbid = partial(forbid, source=_DIALECT)
_require = partial(require, source=_DIALECT)


def required(*names: str) -> Constraint:
    """Attributes without a default that must be given."""
    text = ", ".join(names)

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        attrs.pop(names[-1], None)
        return True

    @_forbid("attributes-required", f"attributes {text} are given", invalid_if=breaks)
    def rule(site: Site) -> Iterator[Finding]:
        for name in names:
            if site.attrs.get(name) is None:
                yield None, f"attribute {name} is missing; allowed: {text} given"

    return rule


event_range = _require("event-range", "0 <= event <= 7", why="EVENT_ID0 to EVENT_ID7")


def _to_itself(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["dst"] = attrs["src"]
    return True


@_forbid(
    "pipes-differ", "two different single pipes", severity="warning", invalid_if=_to_itself, on_lanes=False
)
def two_pipes(site: Site) -> Iterator[Finding]:
    """A flag between a pipe and itself, or on PIPE_ALL, is no synchronisation edge."""
    src, dst = site.attrs.get("src"), site.attrs.get("dst")
    if isinstance(src, Pipe) and src == dst:
        yield None, f"src and dst are both PIPE_{src.name}; allowed: two different pipes"
    for key, pipe in (("src", src), ("dst", dst)):
        if pipe == Pipe.ALL:
            yield None, f"{key} is PIPE_ALL; allowed: a single pipe"


token_range = _require("token-range", "0 <= buf <= 31")


_flag_mode = _require("ffts-mode", "ffts_mode in (0, 1, 2)")


_flag_number = _require("core-flag", "0 <= event <= 15", ("a5",))
_flag_pipe = _require("core-pipe", f"pipe in ({core_pipes()})", ("a5",))


#: Flags between cores: their modes, and on a5 their numbers and pipes.
CORE_FLAG = (_flag_mode, _flag_number, _flag_pipe)


def no_memref(name: str, allowed: str, t: MemRefType) -> Constraint:
    """An operand that was a memref before the language dropped them."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        types.update({n: t for n in (name, "result") if n in types})
        return name in types

    @_forbid("memref", f"{name} is {allowed}", invalid_if=breaks, since="2026-08")
    def rule(site: Site) -> Iterator[Finding]:
        value = site.values.get(name)
        if value is not None and isinstance(value.type, MemRefType):
            got = f"{name} is a memref, which the language of 2026-08 removed"
            yield name, f"{got}; allowed: {allowed}"

    return rule


@_forbid(
    "barrier-memory",
    "16 or more words of global memory, and an i32 number of cores",
    invalid_if=retype("cores", "f32"),
)
def barrier_memory(site: Site) -> Iterator[Finding]:
    """The counters of a barrier are 16 or more words of global memory, and the number of cores an i32."""
    t, cores = site.types.get("workspace"), site.types.get("cores")
    if isinstance(t, PtrType) and t.space is not AddressSpace.GM:
        yield "workspace", f"workspace points to {t.space.name.lower()}; allowed: gm"
    if isinstance(t, TensorViewType | PartitionViewType) and None not in t.dims:
        count = 1
        for n in t.dims:
            count *= n or 0
        if count < 16:
            yield "workspace", f"workspace has {count} words; allowed: 16 or more"
    if isinstance(cores, ScalarType) and cores.dtype.name != "i32":
        yield "cores", f"cores has type {cores.dtype}; allowed: i32"
