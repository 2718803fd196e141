"""Rules on addresses, pointers and global-memory windows."""

from collections.abc import Iterator

from ...ir import TileType
from ..declare import Constraint, Finding, Site
from .forbid import forbid

ALIGNMENT = 32
_SOURCE = "pto-isa tassign_check.hpp (static address checks); buffer capacities per profile"


def address_rules(tile: str) -> tuple[Constraint, Constraint]:
    """A constant byte address is aligned, and the tile ends inside its buffer."""

    @forbid("address-aligned", f"addresses are multiples of {ALIGNMENT} bytes", source=_SOURCE)
    def aligned(site: Site) -> Iterator[Finding]:
        value = site.constant("addr")
        if value is not None and value % ALIGNMENT:
            yield "addr", f"address {value} (0x{value:x}); allowed: a multiple of {ALIGNMENT} bytes"

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
