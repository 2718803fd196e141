"""Rules on synchronisation: attributes that must be given, identifiers, and pipes."""

from collections.abc import Iterator
from functools import partial

from ...ir import AddressSpace, MemRefType, PartitionViewType, Pipe, PtrType, ScalarType, TensorViewType
from ...profiles import Profile
from ..declare import AttrMap, Constraint, Finding, Site
from .forbid import Types, assign, forbid, retype

_DIALECT = "PTOAS dialect definition"
#: Pipes that set flags between cores and wait for them.
CORE_PIPES = (Pipe.FIX, Pipe.MTE1, Pipe.MTE2, Pipe.MTE3, Pipe.V)


def core_pipes() -> str:
    """The pipes of flags between cores, as messages list them."""
    return ", ".join(f"PIPE_{p.name}" for p in CORE_PIPES)


_forbid = partial(forbid, source=_DIALECT)


def required(*names: str) -> Constraint:
    """Attributes without a default that must be given."""
    listed = ", ".join(names)

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        attrs.pop(names[-1], None)
        return True

    @_forbid("attributes-required", f"attributes {listed} are given", invalid_if=breaks)
    def rule(site: Site) -> Iterator[Finding]:
        for name in names:
            if site.attrs.get(name) is None:
                yield None, f"attribute {name} is missing; allowed: {listed} given"

    return rule


@_forbid("event-range", "event identifiers 0 to 7", invalid_if=assign(event=8))
def event_range(site: Site) -> Iterator[Finding]:
    """Event identifiers run from 0 to 7."""
    value = site.attrs.get("event")
    if isinstance(value, int) and value not in range(8):
        yield None, f"event {value}; allowed: EVENT_ID0 to EVENT_ID7 (0 to 7)"


def two_pipes(name: str, first: str, second: str) -> Constraint:
    """A flag between a pipe and itself, or on PIPE_ALL, is no synchronisation edge."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        attrs[second] = attrs[first]
        return True

    @_forbid(name, "two different single pipes", severity="warning", invalid_if=breaks, on_lanes=False)
    def rule(site: Site) -> Iterator[Finding]:
        src, dst = site.attrs.get(first), site.attrs.get(second)
        if isinstance(src, Pipe) and src == dst:
            yield None, f"{first} and {second} are both PIPE_{src.name}; allowed: two different pipes"
        for key, pipe in ((first, src), (second, dst)):
            if pipe == Pipe.ALL:
                yield None, f"{key} is PIPE_ALL; allowed: a single pipe"

    return rule


@_forbid("token-range", "buffer tokens 0 to 31", invalid_if=assign(buf=32))
def token_range(site: Site) -> Iterator[Finding]:
    """Buffer tokens run from 0 to 31."""
    value = site.attrs.get("buf")
    if isinstance(value, int) and not 0 <= value <= 31:
        yield None, f"buf {value}; allowed: 0 to 31"


@_forbid("ffts-mode", "ffts_mode 0, 1 or 2", invalid_if=assign(ffts_mode=3))
def _flag_mode(site: Site) -> Iterator[Finding]:
    value = site.attrs.get("ffts_mode")
    if isinstance(value, int) and value not in (0, 1, 2):
        yield None, f"ffts_mode {value}; allowed: 0, 1, 2"


@_forbid(
    "core-flag",
    "numbers 0 to 15 and pipes FIX, MTE1, MTE2, MTE3, V",
    ("a5",),
    invalid_if=assign(event=16),
)
def _flag_number(site: Site) -> Iterator[Finding]:
    number, pipe = site.attrs.get("event"), site.attrs.get("pipe")
    if isinstance(number, int) and not 0 <= number <= 15:
        yield None, f"event {number}; allowed on a5: 0 to 15"
    if isinstance(pipe, Pipe) and pipe not in CORE_PIPES:
        yield None, f"pipe is PIPE_{pipe.name}; allowed: {core_pipes()}"


#: Flags between cores: their modes, and on a5 their numbers and pipes.
CORE_FLAG = (_flag_mode, _flag_number)


def no_memref(name: str, allowed: str, t: MemRefType) -> Constraint:
    """An operand that was a memref before the language dropped them."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        types.update({n: t for n in (name, "result") if n in types})
        return name in types

    @_forbid("memref", f"{name} is {allowed}", invalid_if=breaks, since="2026-08")
    def rule(site: Site) -> Iterator[Finding]:
        value = site.values.get(name)
        if value is not None and isinstance(value.type, MemRefType):
            found = f"{name} is a memref, which the language of 2026-08 removed"
            yield name, f"{found}; allowed: {allowed}"

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
