"""Parts of declarations of communication: operands, and rules on views, staging tiles and all NPUs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from typing import Unpack

from ...ir import F32, PartitionViewType, TensorViewType, TileType, Type, dims_text
from ...profiles import Profile
from .. import declare, traits
from ..declare import AttrMap, Constraint, Finding, Operand, Site
from . import handles, typesets
from .forbid import Types, assign, forbid, give, present, retile, retype

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
    **parts: Unpack[handles.CustomParts],
) -> declare.Instruction:
    """Declare an instruction of communication.

    Its views are read, its destination is written, and its tiles are scratch, where ``effects`` says nothing
    else of them.
    """
    covered = {effect.operand for effect in effects}
    derived = (
        traits.Effect(
            "scratch" if o.kind == "tile" else "write" if o.role == "out" else "read", _MEMORY[o.kind], o.name
        )
        for o in operands
        if o.kind in _MEMORY and o.name not in covered
    )
    return handles.custom(
        name,
        summary,
        semantics,
        operands,
        shown,
        attributes,
        constraints,
        decisions,
        traits.Traits((*derived, *effects), order=order),
        sources=SOURCES,
        cls="communication",
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
        dtypes = {n: typesets.element_type(site.types.get(n)) for n in names}
        first = next((d for d in dtypes.values() if d is not None), None)
        for name, d in dtypes.items():
            if d is not None and first is not None and d != first:
                yield name, f"{name} has element type {d}, {names[0]} has {first}; allowed: one element type"

    return rule


def engine(cls: type[IntEnum]) -> declare.Attribute:
    """The attribute ``engine``: a member of an enumeration, by default that of value 0."""
    return declare.Attribute("engine", cls, cls(0), "engine that moves the data")


#: The views of all ranks, in the form that lists them.
MEMBERS = Operand("members", "in", "gm", optional=True, note="views of all ranks, in their order")


def _dims(t: Type | None) -> tuple[int | None, ...] | None:
    return t.dims if isinstance(t, TensorViewType | PartitionViewType) else None


def known_extents(*names: str, open_windows: bool = False) -> Constraint:
    """Extents stand in the types and are positive; those of windows may be open where ``open_windows``."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(names[0])
        if not isinstance(t, PartitionViewType):
            return False
        opened = TensorViewType((None, *t.dims[1:]), t.dtype) if open_windows else _opened(t)
        types.update(dict.fromkeys(names if open_windows else names[:1], opened))
        return True

    @forbid("extents", "known positive extents", source=DIALECT, invalid_if=breaks)
    def rule(site: Site) -> Iterator[Finding]:
        for name in names:
            t = site.types.get(name)
            dims = _dims(t)
            if dims is None:
                continue
            may_be_open = open_windows and isinstance(t, PartitionViewType)
            if any(d is not None and d <= 0 for d in dims) or (None in dims and not may_be_open):
                also = "; or ? in a partition_tensor_view" if open_windows else ""
                yield name, f"{name} has extents {dims_text(dims)}; allowed: known positive ones{also}"

    return rule


def _opened(t: PartitionViewType) -> PartitionViewType:
    return replace(t, dims=(None, *t.dims[1:]))


@forbid(
    "shape-equal",
    "dst and src have one shape",
    source=DIALECT,
    invalid_if=give("src", PartitionViewType((2, 64), F32)),
)
def equal_extents(site: Site) -> Iterator[Finding]:
    """Two views have one shape, open in the same places."""
    dst, src = _dims(site.types.get("dst")), _dims(site.types.get("src"))
    if dst is not None and src is not None and dst != src:
        yield "src", f"src has extents {dims_text(src)}, dst has {dims_text(dst)}; allowed: equal ones"


def second_tile(first: str, second: str = "pong") -> Constraint:
    """The second staging tile has the type of the first one."""
    taller = retile(second, rows=2, v_row=2)

    @forbid(f"{second}-type", f"{second} has the type of {first}", source=DIALECT, invalid_if=taller)
    def rule(site: Site) -> Iterator[Finding]:
        a, b = site.types.get(first), site.types.get(second)
        if isinstance(a, TileType) and isinstance(b, TileType) and a != b:
            yield second, f"{second} is {b}, {first} is {a}; allowed: equal types"

    return rule


def group_members(view: str, *, same_type: bool) -> Constraint:
    """All ranks have views of one type, and the root is one of them."""
    outside = present("members", assign(root=9))

    @forbid("group-members", "views of one type, and a root", source=DIALECT, invalid_if=outside)
    def rule(site: Site) -> Iterator[Finding]:
        views, root = site.op.group("members"), site.attrs.get("root")
        if not views:
            if "group" not in site.values:
                yield None, "no group; allowed: group(%view, ...) with a view of every rank"
            return
        first = views[0].type
        for v in views[1:]:
            if v.type != first:
                yield "members", f"{v} is {v.type}, {views[0]} is {first}; allowed: one type for all ranks"
        whole = site.types.get(view)
        if same_type and whole is not None and whole != first:
            yield view, f"{view} is {whole}, the views of the group are {first}; allowed: equal types"
        if isinstance(root, int) and not 0 <= root < len(views):
            yield None, f"root = {root} of {len(views)} ranks; allowed: 0 to {len(views) - 1}"

    return rule
