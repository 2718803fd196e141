"""Executions of several ranks instruction by instruction, on one machine that tells observers every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import jax
import numpy as np

from ...interpreter.ranks import part
from ...ir import DType, Program
from ...lowering import Buffers, Plan, RankMachine, Semantics
from ...lowering.bits import x64
from ...lowering.canary import cached_code
from ...lowering.machine.program import Observer
from ...lowering.machine.ranks import ObservedRankMachine
from ..execution import contents
from ..state import Report, State
from .tracer import Observers, Scopes, functions_of


class Ranked(Protocol):
    """A kernel on several ranks."""

    @property
    def program(self) -> Program:
        """The functions of all kernels."""

    @property
    def ranks(self) -> int:
        """The number of ranks."""

    @property
    def buffers(self) -> dict[str, DType | None]:
        """The buffers of a call, with the types that arguments give them."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The buffers that are written."""

    @property
    def semantics(self) -> Semantics:
        """Numerics, fills and subnormals."""

    @property
    def max_steps(self) -> int:
        """Trips after which a while loop is stopped."""

    @property
    def seed(self) -> int | None:
        """The order of the ranks, None for that of the text."""

    def execute(
        self,
        machine: RankMachine,
        arrays: Mapping[str, Any],
        values: Mapping[str, Sequence[Any]],
        seed: int | None = None,
    ) -> None:
        """Execute all ranks on a machine."""

    def gathered(self, machine: RankMachine, name: str, source: Any) -> Any:
        """The parts of a buffer as one array."""


def observed(
    kernel: Ranked,
    observer: Observer,
    arrays: Mapping[str, Any],
    numbers: Mapping[str, Sequence[Any]],
) -> tuple[dict[str, Any], State]:
    """The outputs of a kernel, and the tiles that names of each core stand for in the end."""
    scopes = Scopes(functions_of(kernel.program))
    machine = ObservedRankMachine(
        kernel.semantics,
        Plan([], {}),
        Buffers(),
        checks=True,
        whole=False,
        max_steps=kernel.max_steps,
        observer=Observers((scopes, observer)),
    )
    with x64(), cached_code():
        there = {n: jax.numpy.asarray(a) for n, a in arrays.items()}
        kernel.execute(machine, there, numbers, kernel.seed)
        outputs = {name: kernel.gathered(machine, name, there[name]) for name in kernel.outputs}
        state = State.at(machine, scopes.names())
    Report.of(machine.violations).raise_if_broken()
    return outputs, replace(state, scalars={}, buffers={})


def buffers_of(
    kernel: Ranked, words: Mapping[str, Any], arrays: Mapping[str, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Buffers [ranks, ...] of the raw words of their parts, in the shape and type of ``arrays``."""
    found = {}
    with x64():
        for name, d in kernel.buffers.items():
            array = np.asarray(arrays[name])
            packed = d is not None and d.packed
            parts = [contents(words[part(name, r)], array[r], packed=packed) for r in range(kernel.ranks)]
            found[name] = np.stack(parts)
    return found
