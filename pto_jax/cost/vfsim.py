"""Model ``vfsim`` (A5): cycles of micro-operations in a vector scope, by their issue intervals and latencies.

A vector unit issues to two execution ports, two ports for loads and one for stores. The figure of an
operation is the interval after which its port takes another one of the same kind; the latency until its
result can be used stands beside it, and how long after its producers it can start (forwarding). Queues,
intervals between two kinds on a port and the start of a scope are not in it.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from ..ir import Op, VRegType
from .work import Figure, Model, lacks, no_data

VFSIM: Final = "vfsim"
SOURCE = (
    "pto-isa cost model for A5: include/pto/costmodel/a5/VfSim/params (isa.csv, initiation_interval.csv, "
    "uarch.csv, forwarding.csv), imported there from VfSimulator at 38f974a5"
)
#: Cycles that an operation starts before the latency of its producer ends, where no pair has a figure.
_BYPASS = 3
#: Comparisons are measured by the one for equality; a conversion has two types.
_COMPARED, _CONVERTED = "vcmp", "vcvt"


class Timing(NamedTuple):
    """Cycles until a result can be used, and until the port takes another operation of the kind.

    ``forwarding``: by the operation that reads the result, cycles between the starts of both.
    """

    latency: int
    interval: int = 1
    ports: int = 2
    forwarding: Mapping[str, int] = {}


@cache
def _timings() -> Mapping[tuple[str, str], Timing]:
    """The lines of the table file, by operation and element types."""
    text = files("pto_jax.cost").joinpath("vfsim.csv").read_text(encoding="utf-8")
    timings: dict[tuple[str, str], Timing] = {}
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        pairs = (entry.split(":") for entry in row["forwarding"].split())
        forwarding = {name: int(cycles) for cycles, names in pairs for name in names.split("+")}
        latency, interval, ports = (int(row[column]) for column in ("latency", "interval", "ports"))
        timings[row["operation"], row["types"]] = Timing(latency, interval, ports, forwarding)
    return timings


def timing(op: Op) -> Timing | None:
    """The latency and the interval of a micro-operation; None where no table has them.

    >>> from pto_jax.ir import F32, Value
    >>> v = Value("v", VRegType(64, F32))
    >>> timing(Op("vexp", (v,), results=(v,)))[:3], timing(Op("vln", (v,), results=(v,)))
    ((16, 4, 2), None)
    """
    elements = [v.type.dtype.name for v in (*op.results, *op.ins) if isinstance(v.type, VRegType)]
    if not elements or (op.name == _COMPARED and op.attrs.get("mode") != "eq"):
        return None
    types = f"{elements[-1]} {elements[0]}" if op.name == _CONVERTED else elements[0]
    return _timings().get((op.name, types))


def forwarding(producer: Op, consumer: Op) -> int | None:
    """Cycles from the start of an operation until one that reads its result can start; None without figures.

    >>> from pto_jax.ir import F32, Value
    >>> v = Value("v", VRegType(64, F32))
    >>> load, add = Op("vlds", results=(v,)), Op("vadd", (v, v), results=(v,))
    >>> forwarding(load, add), forwarding(add, add)
    (6, 3)
    """
    first = timing(producer)
    if first is None or timing(consumer) is None:
        return None
    return first.forwarding.get(consumer.name, max(0, first.latency - _BYPASS))


@dataclass
class Chains:
    """When operations of a region can start at the earliest, if nothing but operands holds them back."""

    starts: dict[str, tuple[Op, int]] = field(default_factory=dict)
    before: dict[int, Op] = field(default_factory=dict)
    end: int = 0
    last: Op | None = None

    def add(self, op: Op) -> Mapping[str, int]:
        """Take up the next operation; how long after its producers it starts."""
        measured, start = timing(op), 0
        waits: dict[str, int] = {}
        if measured is None:
            return waits
        for value in op.ins:
            producer, begun = self.starts.get(value.name, (None, 0))
            cycles = None if producer is None else forwarding(producer, op)
            if producer is None or cycles is None:
                continue
            waits[producer.name] = max(cycles, waits.get(producer.name, 0))
            if begun + cycles > start:
                start = begun + cycles
                self.before[id(op)] = producer
        self.starts.update((result.name, (op, start)) for result in op.results)
        if start + measured.latency > self.end:
            self.end, self.last = start + measured.latency, op
        return waits

    def longest(self) -> str:
        """The names of the operations that take longest, one after another."""
        names: list[str] = []
        op = self.last
        while op is not None:
            names.append(op.name)
            op = self.before.get(id(op))
        return " ".join(reversed(names))


def figure(op: Op, waits: Mapping[str, int]) -> Figure:
    """What the model says about a micro-operation: of f32 and f16, as far as the tables have it."""
    measured = timing(op)
    if measured is None:
        return no_data(VFSIM, f"{VFSIM} has no figure for {op.name}")
    ports = "1 port" if measured.ports == 1 else f"{measured.ports} ports"
    after = {f"after {name}": cycles for name, cycles in waits.items()}
    terms = {"latency": measured.latency, "ports": measured.ports, **after}
    counts = (f"{cycles} {name}" for name, cycles in after.items())
    note = ", ".join((f"interval; latency {measured.latency}", ports, *counts))
    return Figure(VFSIM, measured.interval, terms, note=note)


MODEL = Model(
    VFSIM,
    "Issue intervals and latencies of micro-operations; nothing of tile instructions.",
    ("a5",),
    frozenset(),
    lambda work: lacks(VFSIM, work),
    SOURCE,
)
