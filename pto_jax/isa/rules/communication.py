"""Parts of the declarations of communication: operands, rules, and how an instruction is put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

from ...profiles import Profile
from ..assembly import AS_DECLARED, Assembly
from ..changes import Change
from ..declare import Attribute, AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from ..traits import Effect, Order, Resource, Traits
from .elements import element_type
from .forbid import Types, forbid, retype
from .handles import NOT_EXECUTED, Shown, custom
from .typesets import TypeTable

SOURCES = ("PTO ISA communication pages", "pto_comm_inst.hpp; PTOAS dialect definition and verifier")
PAGE, DIALECT = SOURCES
_MEMORY: Mapping[str, Resource] = {"tile": "tile", "gm": "global"}


def comm(
    name: str,
    summary: str,
    semantics: str,
    operands: tuple[Operand, ...],
    forms: tuple[tuple[str, ...], ...],
    shown: tuple[Shown, ...],
    attributes: tuple[Attribute, ...] = (),
    constraints: tuple[Constraint, ...] = (),
    decisions: tuple[Decision, ...] = (),
    types: TypeTable | None = None,
    *,
    effects: tuple[Effect, ...] = (),
    order: Order | None = None,
    assembly: Assembly = AS_DECLARED,
    changes: tuple[Change, ...] = (),
    executable: bool = False,
) -> Instruction:
    """Declare an instruction of communication.

    Its views are read, its destination is written, and its tiles are scratch, where ``effects`` says nothing
    else of them.
    """
    listed = {effect.operand for effect in effects}
    derived = (
        Effect(
            "scratch" if o.kind == "tile" else "write" if o.role == "out" else "read", _MEMORY[o.kind], o.name
        )
        for o in operands
        if o.kind in _MEMORY and o.name not in listed
    )
    return custom(
        name,
        summary,
        semantics,
        operands,
        forms,
        shown,
        attributes,
        constraints,
        decisions if executable else (*decisions, NOT_EXECUTED),
        Traits((*derived, *effects), order=order),
        sources=SOURCES,
        cls="communication",
        types=types,
        executable=executable,
        assembly=assembly,
        changes=changes,
    )


def gm(name: str, role: str = "in", note: str = "") -> Operand:
    """An operand in global memory; ``role`` is "in" or "out"."""
    return Operand(name, "out" if role == "out" else "in", "gm", dtype=None, note=note)


def staging(name: str, *, optional: bool = False, note: str = "") -> Operand:
    """A tile that data passes through on its way."""
    return Operand(name, "in", "tile", dtype=None, optional=optional, note=note)


def equal_elements(*names: str) -> Constraint:
    """All operands that are present have one element type."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        return retype([n for n in names if n in types][-1], "f16")(types, attrs, profile)

    @forbid("types-equal", f"{', '.join(names)} have one element type", source=PAGE, invalid_if=breaks)
    def rule(site: Site) -> Iterator[Finding]:
        found = {n: element_type(site.types.get(n)) for n in names}
        first = next((d for d in found.values() if d is not None), None)
        for name, d in found.items():
            if d is not None and first is not None and d != first:
                yield name, f"{name} has element type {d}, {names[0]} has {first}; allowed: one element type"

    return rule


def engine(cls: type[IntEnum]) -> Attribute:
    """The attribute ``engine``: a member of an enumeration, by default that of value 0."""
    return Attribute("engine", cls, cls(0), "engine that moves the data")
