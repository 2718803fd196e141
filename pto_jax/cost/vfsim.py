"""Model ``vfsim`` (A5): cycles of micro-operations in a vector scope, by their issue intervals and latencies.

A vector unit issues to two execution ports, two ports for loads and one for stores. The figure of an
operation is the interval after which its port takes another one of the same kind; the latency until its
result can be used stands beside it. Queues, forwarding between kinds and the start of a scope are not in it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ..ir import Op, VRegType
from .work import Figure, Model, lacks, no_data

VFSIM: Final = "vfsim"
SOURCE = (
    "pto-isa cost model for A5: include/pto/costmodel/a5/VfSim/params (isa.csv, initiation_interval.csv, "
    "uarch.csv), imported there from VfSimulator at 38f974a5"
)


class Timing(NamedTuple):
    """Cycles until a result can be used, and until the port takes another operation of the kind."""

    latency: int
    interval: int = 1
    ports: int = 2


# Instructions by name: the figures are published ones, a line for each instruction.
_BOTH: Mapping[str, Timing] = {
    **dict.fromkeys("vadd vsub vadds".split(), Timing(7)),
    **dict.fromkeys("vmul vmuls".split(), Timing(8)),
    **dict.fromkeys("vmax vmin vmaxs vmins vand vsel vshls vshrs vbr".split(), Timing(6)),
    "vabs": Timing(5),
    "vdup": Timing(6, ports=1),
    "vlds": Timing(9),
    "vsts": Timing(9, ports=1),
}
#: By element type, where its widths differ.
_TIMINGS: Mapping[tuple[str, str], Timing] = {
    ("vexp", "f32"): Timing(16, 4),
    ("vexp", "f16"): Timing(21, 8),
    ("vdiv", "f32"): Timing(17, 4),
    ("vdiv", "f16"): Timing(22, 8),
    **dict.fromkeys((("vcmax", "f32"), ("vcmin", "f32")), Timing(16, ports=1)),
    **dict.fromkeys((("vcmax", "f16"), ("vcmin", "f16")), Timing(17, 2, ports=1)),
    ("vcadd", "f32"): Timing(22, ports=1),
    ("vcadd", "f16"): Timing(24, ports=1),
    ("vcgmax", "f32"): Timing(13),
    ("vcgmax", "f16"): Timing(14, 2),
}
#: Conversions, by both element types.
_CONVERSIONS: Mapping[tuple[str, str], Timing] = {
    ("f16", "f32"): Timing(7),
    ("f32", "f16"): Timing(7),
    ("f32", "i32"): Timing(8, 2),
    ("i32", "f32"): Timing(8, 2),
}
#: Comparisons are measured by the one for equality.
_COMPARED, _CONVERTED = "vcmp", "vcvt"


def timing(op: Op) -> Timing | None:
    """The latency and the interval of a micro-operation; None where no table has them.

    >>> from pto_jax.ir import F32, Value
    >>> v = Value("v", VRegType(64, F32))
    >>> timing(Op("vexp", (v,), results=(v,))), timing(Op("vln", (v,), results=(v,)))
    (Timing(latency=16, interval=4, ports=2), None)
    """
    elements = [v.type.dtype.name for v in (*op.results, *op.ins) if isinstance(v.type, VRegType)]
    if not elements:
        return None
    if op.name == _CONVERTED:
        return _CONVERSIONS.get((elements[-1], elements[0]))
    if elements[0] not in ("f32", "f16"):
        return None
    if op.name == _COMPARED:
        return Timing(6) if op.attrs.get("mode") == "eq" else None
    return _BOTH.get(op.name) or _TIMINGS.get((op.name, elements[0]))


def figure(op: Op) -> Figure:
    """What the model says about a micro-operation: of f32 and f16, as far as the tables have it."""
    found = timing(op)
    if found is None:
        return no_data(VFSIM, f"{VFSIM} has no figure for {op.name}")
    ports = "1 port" if found.ports == 1 else f"{found.ports} ports"
    terms = {"latency": found.latency, "ports": found.ports}
    return Figure(VFSIM, found.interval, terms, note=f"interval; latency {found.latency}, {ports}")


MODEL = Model(
    VFSIM,
    "Issue intervals and latencies of micro-operations; nothing of tile instructions.",
    ("a5",),
    frozenset(),
    lambda work: lacks(VFSIM, work),
    SOURCE,
)
