"""Parts of the declarations of communication: operands, rules, and how an instruction is put together."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Unpack

from ...profiles import Profile
from .. import declare, traits
from . import elements, handles
from .forbid import Types, forbid, retype

SOURCES = ("PTO ISA communication pages", "pto_comm_inst.hpp; PTOAS dialect definition and verifier")
PAGE, DIALECT = SOURCES
_MEMORY: Mapping[str, traits.Resource] = {"tile": "tile", "gm": "global"}


def comm(
    name: str,
    summary: str,
    semantics: str,
    operands: tuple[declare.Operand, ...],
    shown: tuple[handles.Shown, ...],
    attributes: tuple[declare.Attribute, ...] = (),
    constraints: tuple[declare.Constraint, ...] = (),
    decisions: tuple[declare.Decision, ...] = (),
    *,
    effects: tuple[traits.Effect, ...] = (),
    order: traits.Order | None = None,
    executable: bool = False,
    **parts: Unpack[handles.CustomParts],
) -> declare.Instruction:
    """Declare an instruction of communication.

    Its views are read, its destination is written, and its tiles are scratch, where ``effects`` says nothing
    else of them.
    """
    listed = {effect.operand for effect in effects}
    derived = (
        traits.Effect(
            "scratch" if o.kind == "tile" else "write" if o.role == "out" else "read", _MEMORY[o.kind], o.name
        )
        for o in operands
        if o.kind in _MEMORY and o.name not in listed
    )
    return handles.custom(
        name,
        summary,
        semantics,
        operands,
        shown,
        attributes,
        constraints,
        decisions if executable else (*decisions, handles.NOT_EXECUTED),
        traits.Traits((*derived, *effects), order=order),
        sources=SOURCES,
        cls="communication",
        executable=executable,
        **parts,
    )


def gm(name: str, role: str = "in", note: str = "") -> declare.Operand:
    """An operand in global memory; ``role`` is "in" or "out"."""
    return declare.Operand(name, "out" if role == "out" else "in", "gm", note=note)


def staging(name: str, *, optional: bool = False, note: str = "") -> declare.Operand:
    """A tile that data passes through on its way."""
    return declare.Operand(name, "in", "tile", optional=optional, note=note)


def equal_elements(*names: str) -> declare.Constraint:
    """All operands that are present have one element type."""

    def breaks(types: Types, attrs: declare.AttrMap, profile: Profile) -> bool:
        return retype([n for n in names if n in types][-1], "f16")(types, attrs, profile)

    @forbid("types-equal", f"{', '.join(names)} have one element type", source=PAGE, invalid_if=breaks)
    def rule(site: declare.Site) -> Iterator[declare.Finding]:
        found = {n: elements.element_type(site.types.get(n)) for n in names}
        first = next((d for d in found.values() if d is not None), None)
        for name, d in found.items():
            if d is not None and first is not None and d != first:
                yield name, f"{name} has element type {d}, {names[0]} has {first}; allowed: one element type"

    return rule


def engine(cls: type[IntEnum]) -> declare.Attribute:
    """The attribute ``engine``: a member of an enumeration, by default that of value 0."""
    return declare.Attribute("engine", cls, cls(0), "engine that moves the data")
