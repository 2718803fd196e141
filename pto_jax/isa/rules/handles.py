"""Rules and samples of instructions on handles: pipes, sessions, events, and integer attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict, Unpack

from ...ir import AttrValue, OpaqueType, Pipe, Type
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from .. import declare
from ..assembly import Assembly
from ..changes import Change
from ..samples.operations import Sample
from ..traits import PLAIN, Traits
from .forbid import assign, forbid, give
from .typesets import TypeTable

#: Why an instruction has no execution.
NOT_EXECUTED = declare.Decision(
    "Is the instruction executed?",
    "No: it is read, printed and verified; a program that reaches it ends with an error that says so.",
    "scope of this engine: one processor",
)


def number_in(
    name: str, allowed: Callable[[int], bool], words: str, wrong: int, source: str, rule: str = ""
) -> declare.Constraint:
    """An integer attribute has one of some values; ``wrong`` is one it must not have."""
    invalid = assign(**{name: wrong})

    @forbid(rule or name.replace("_", "-"), f"{name}: {words}", source=source, invalid_if=invalid)
    def number(site: declare.Site) -> Iterator[declare.Finding]:
        value = site.attrs.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and not allowed(value):
            yield None, f"{name} = {value}; allowed: {words}"

    return number


def handle(name: str, opaque: str, source: str) -> declare.Constraint:
    """An operand or result is a handle of one kind."""
    other = give(name, OpaqueType("event" if opaque != "event" else "pipe"))

    @forbid(f"{name}-handle", f"{name} is a !pto.{opaque}", source=source, invalid_if=other)
    def rule(site: declare.Site) -> Iterator[declare.Finding]:
        t = site.types.get(name)
        if isinstance(t, OpaqueType) and t.name != opaque:
            yield name, f"{name} is {t}; allowed: !pto.{opaque}"

    return rule


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


def handle_operand(name: str, *, out: bool = False, note: str = "") -> declare.Operand:
    """An operand that is a handle, read or written (``out``)."""
    return declare.Operand(name, "out" if out else "in", "handle", dtype=None, note=note)


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
