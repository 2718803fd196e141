"""Happens-before by its definition, for comparison with the vector clocks of the product.

The operations that a course executes are the nodes of a graph. What a node comes after is a set of nodes (the
bits of an integer), and every two uses of common bytes are looked at, not the last ones only. Bytes are
compared one by one.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from pto_jax.analysis.resolve import ResolvedProgram
from pto_jax.analysis.roots import roots
from pto_jax.ir import Op, Pipe
from pto_jax.order import judged_program, walk
from pto_jax.order.clocks import PIPES, Use
from pto_jax.order.judge import courses
from pto_jax.order.regions import Region, Space

Agent = tuple[str, Pipe]


@lru_cache(maxsize=1 << 14)
def common(one: Region, two: Region) -> bool:
    """Whether two regions have a byte in common, byte by byte."""
    if one.space != two.space or one.start >= two.end or two.start >= one.end:
        return False
    return bool(np.intersect1d(_bytes(one), _bytes(two)).size)


@lru_cache(maxsize=1 << 12)
def _bytes(region: Region) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    at = region.start + np.arange(region.width, dtype=np.int64)
    for count, pitch in region.dims:
        at = (at[None, :] + (np.arange(count, dtype=np.int64) * pitch)[:, None]).ravel()
    return np.unique(at)


@dataclass
class Graph:
    """Stands for ``order.clocks.Clocks``: what is complete is a set of nodes."""

    vector: bool = False
    trace: object = None
    ops: list[Op] = field(default_factory=list)
    prior: list[int] = field(default_factory=list)
    issued: dict[Agent, int] = field(default_factory=lambda: defaultdict(int))
    waited: dict[Agent, int] = field(default_factory=lambda: defaultdict(int))
    uses: dict[tuple[Agent, Region, bool], list[int]] = field(default_factory=lambda: defaultdict(list))
    spaces: dict[Space, dict[tuple[Agent, bool], list[Use]]] = field(default_factory=dict)
    #: The product collects races while it executes; a graph has them at the end.
    races: dict[object, object] = field(default_factory=dict)
    counts: dict[object, int] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)

    def agent(self, core: str, pipe: Pipe) -> Agent:
        return core, pipe

    def complete(self, core: str, pipe: Pipe) -> int:
        if pipe != Pipe.ALL:
            return self.issued[core, pipe] | self.waited[core, pipe]
        found = 0
        for each in PIPES:
            found |= self.complete(core, each)
        return found

    def before(self, core: str, pipe: Pipe) -> int:
        return self.waited[core, pipe]

    def seen(self, core: str) -> int:
        """What a core has seen of others: blocks are not judged here."""
        return 0

    def see(self, core: str, visible: int) -> None:
        """Nor what they publish."""

    def wait(self, core: str, pipe: Pipe, done: int) -> None:
        for each in PIPES if pipe in (Pipe.S, Pipe.ALL) else (pipe,):
            self.waited[core, each] |= done

    def barrier(self, core: str, pipe: Pipe) -> None:
        self.wait(core, pipe, self.complete(core, pipe))

    def publish(self, core: str) -> None:
        """Publication is not judged here."""

    write_back = publish

    def announce(self, use: Use) -> None:
        """Neither are signals."""

    def execute(self, uses: list[Use]) -> None:
        nodes: dict[Agent, int] = {}
        for use in uses:
            agent = use.core, use.pipe
            if agent not in nodes:
                nodes[agent] = len(self.ops)
                self.ops.append(use.op)
                ordered = 0 if self.vector and use.pipe == Pipe.V else self.issued[agent]
                self.prior.append(self.waited[agent] | ordered)
            self.uses[agent, use.region, use.write].append(nodes[agent])
            self.spaces.setdefault(use.region.space, {}).setdefault((agent, use.write), []).append(use)
        for agent, node in nodes.items():
            self.issued[agent] |= 1 << node | self.prior[node]

    def last_uses(self, space: Space) -> list[Use]:
        return [use for listed in self.spaces.get(space, {}).values() for use in listed[-1:]]

    def unordered(self) -> set[tuple[str, Pipe, Pipe]]:
        """The pairs of pipes that use common bytes without order, with the cores of both."""
        found = set()
        groups = list(self.uses.items())
        for (agent, region, write), nodes in groups:
            if agent[1] == Pipe.S and not write:
                continue
            mask = sum(1 << n for n in set(nodes))
            for (other, near, writes), later in groups:
                alike = agent == other and not (self.vector and agent[1] == Pipe.V)
                if alike or not (write or writes) or not common(region, near):
                    continue
                if any(mask & ((1 << n) - 1) & ~self.prior[n] for n in later):
                    found.add((f"{agent[0]} {other[0]}", agent[1], other[1]))
        return found


@dataclass
class Judgement:
    """What the definition says of a program, and the flags that its courses come to."""

    races: set[tuple[str, Pipe, Pipe]] = field(default_factory=set)
    reached: set[int] = field(default_factory=set)


def by_definition(resolved: ResolvedProgram, *, vector: bool = False) -> Judgement:
    """The races of a program in the courses that the product follows."""
    found = Judgement()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(walk, "Clocks", Graph)
        judged = judged_program(resolved, vector=vector)
        for function in roots(resolved.program):
            for run in courses(judged, function):
                graph: Any = run.clocks
                found.races |= graph.unordered()
                found.reached |= run.reached
    return found
