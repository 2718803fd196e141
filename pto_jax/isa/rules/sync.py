"""Rules on synchronisation: attributes that must be given, identifiers, and pipes."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.dtypes import F32
from ...ir.types import AddressSpace, PartitionViewType, Pipe, PtrType, ScalarType, TensorViewType, Type
from ...profiles import Profile
from ..declare import AttrMap, Constraint, Finding, Site

_DIALECT = "PTOAS dialect definition"
_EVENT_IDS = range(8)
#: Pipes that set flags between cores and wait for them.
CORE_PIPES = (Pipe.FIX, Pipe.MTE1, Pipe.MTE2, Pipe.MTE3, Pipe.V)


def core_pipes() -> str:
    """The pipes of flags between cores, as messages list them."""
    return ", ".join(f"PIPE_{p.name}" for p in CORE_PIPES)


def required(*names: str) -> Constraint:
    """Attributes without a default that must be given."""

    def check(site: Site) -> Iterator[Finding]:
        for name in names:
            if site.attrs.get(name) is None:
                yield None, f"attribute {name} is missing; allowed: {', '.join(names)} given"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs.pop(names[-1], None)
        return True

    return Constraint(
        "attributes-required",
        f"attributes {', '.join(names)} are given",
        check,
        source=_DIALECT,
        breaks=breaks,
    )


def event_range(name: str = "event") -> Constraint:
    """Event identifiers run from 0 to 7."""

    def check(site: Site) -> Iterator[Finding]:
        value = site.attrs.get(name)
        if isinstance(value, int) and value not in _EVENT_IDS:
            yield None, f"{name} {value}; allowed: EVENT_ID0 to EVENT_ID7 (0 to 7)"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs[name] = 8
        return True

    return Constraint("event-range", "event identifiers 0 to 7", check, source=_DIALECT, breaks=breaks)


def two_pipes(name: str, first: str, second: str) -> Constraint:
    """A flag between a pipe and itself, or on PIPE_ALL, is no synchronisation edge."""

    def check(site: Site) -> Iterator[Finding]:
        src, dst = site.attrs.get(first), site.attrs.get(second)
        if isinstance(src, Pipe) and src == dst:
            yield None, f"{first} and {second} are both PIPE_{src.name}; allowed: two different pipes"
        for key, pipe in ((first, src), (second, dst)):
            if pipe == Pipe.ALL:
                yield None, f"{key} is PIPE_ALL; allowed: a single pipe"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs[second] = attrs[first]
        return True

    return Constraint(
        name,
        "two different single pipes",
        check,
        severity="warning",
        source=_DIALECT,
        breaks=breaks,
        on_lanes=False,
    )


def token_range() -> Constraint:
    """Buffer tokens run from 0 to 31."""

    def check(site: Site) -> Iterator[Finding]:
        value = site.attrs.get("buf")
        if isinstance(value, int) and not 0 <= value <= 31:
            yield None, f"buf {value}; allowed: 0 to 31"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs["buf"] = 32
        return True

    return Constraint("token-range", "buffer tokens 0 to 31", check, source=_DIALECT, breaks=breaks)


def core_flag() -> tuple[Constraint, ...]:
    """Flags between cores: their modes, and on a5 their numbers and pipes."""

    def mode(site: Site) -> Iterator[Finding]:
        value = site.attrs.get("ffts_mode")
        if isinstance(value, int) and value not in (0, 1, 2):
            yield None, f"ffts_mode {value}; allowed: 0, 1, 2"

    def flag(site: Site) -> Iterator[Finding]:
        number, pipe = site.attrs.get("event"), site.attrs.get("pipe")
        if isinstance(number, int) and not 0 <= number <= 15:
            yield None, f"event {number}; allowed on a5: 0 to 15"
        if isinstance(pipe, Pipe) and pipe not in CORE_PIPES:
            yield (
                None,
                f"pipe is PIPE_{pipe.name}; allowed: {', '.join(f'PIPE_{p.name}' for p in CORE_PIPES)}",
            )

    def wrong_mode(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs["ffts_mode"] = 3
        return True

    def wrong_flag(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs["event"] = 16
        return True

    return (
        Constraint("ffts-mode", "ffts_mode 0, 1 or 2", mode, source=_DIALECT, breaks=wrong_mode),
        Constraint(
            "core-flag",
            "numbers 0 to 15 and pipes FIX, MTE1, MTE2, MTE3, V",
            flag,
            ("a5",),
            source=_DIALECT,
            breaks=wrong_flag,
        ),
    )


def barrier_memory() -> Constraint:
    """The counters of a barrier are 16 or more words of global memory, and the number of cores an i32."""

    def check(site: Site) -> Iterator[Finding]:
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

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        if "cores" not in types:
            return False
        types["cores"] = ScalarType(F32)
        return True

    return Constraint(
        "barrier-memory",
        "16 or more words of global memory, and an i32 number of cores",
        check,
        source=_DIALECT,
        breaks=breaks,
    )
