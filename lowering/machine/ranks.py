"""The JAX executor on several ranks: one trace in which signals, addresses and courses are numbers.

The words of context records and of signals are known while a program is traced, as long as only numbers are
written to them; so a wait is decided there, and what is left of a program is data. What the trace cannot know
is refused where a rank waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pto_jax.errors import NotExecutableError
from pto_jax.interpreter import Execution, Pointer, Scalar, TileRef, View
from pto_jax.interpreter.interleaving import LAUNCH
from pto_jax.interpreter.operands import LocalPointer
from pto_jax.ir import DType, Op
from pto_jax.isa import find
from pto_jax.isa.effects import traits_of

from ..rules import MemoryRule
from . import pieces
from .program import JaxMachine, ObservedMachine
from .storage import Plan


@dataclass
class Words:
    """The words of a buffer as far as they are numbers; ``constant``: nothing writes it."""

    values: np.ndarray[Any, Any]
    known: np.ndarray[Any, Any] = field(init=False)
    constant: bool = False

    def __post_init__(self) -> None:
        self.values = self.values.copy()
        self.known = np.ones(self.values.shape, bool)


@dataclass
class RankMachine(JaxMachine):
    """Executes the programs of all ranks; ``words_of`` has buffers whose words may be numbers.

    ``plans`` are those of the kernels, by their place in what a rank executes. The words of ``assumed``
    buffers began as zeros only by assumption.
    """

    words_of: dict[str, Words] = field(default_factory=dict)
    assumed: frozenset[str] = frozenset()
    plans: dict[int, Plan] = field(default_factory=dict)

    def enter(self, core: str) -> None:
        """Turn to the memory of a core, and to the plan of the kernel that it executes."""
        super().enter(core)
        if LAUNCH in core:
            self.plan = self.plans[int(core.rpartition(LAUNCH)[2])]

    def numbers_of(self, names: Sequence[str]) -> np.ndarray[Any, Any] | None:
        """The words of some buffers where all are numbers in the end; None where some are data."""
        words = [self.words_of.get(name) for name in names]
        if self.assumed.isdisjoint(names) and all(w is not None and w.known.all() for w in words):
            return np.stack([w.values for w in words if w is not None])
        return None

    @property
    def core_name(self) -> str:
        """What people call the core, whichever kernel it executes."""
        return self.core.partition(LAUNCH)[0]

    def unrolls(self, op: Op, trips: int) -> bool:
        """Loops in which ranks meet, or compute whom they meet, are written out."""
        return any(map(_meets, op.walk())) or super().unrolls(op, trips)

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: DType) -> Any:
        """The element that a pointer is at: a number where it is known."""
        if isinstance(pointer, LocalPointer):
            return super().load(op, pointer, dtype)
        words, at = self.words_of.get(pointer.buffer), pointer.offset
        if words is not None and words.constant and not isinstance(at, int):
            message = 'got a rank that depends on data; allowed: known ones; try: engine="interpreter"'
            raise NotExecutableError(op.error("ranks", message))
        inside = words is not None and isinstance(at, int) and 0 <= at < len(words.values)
        sure = words is not None and (words.constant or self.depth == 0) and not pointer.cast
        if words is not None and sure and inside and words.known[at]:
            return int(words.values[at])
        return super().load(op, pointer, dtype)

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Write a scalar; a number is known from here on."""
        super().store(op, pointer, value)
        if isinstance(pointer, LocalPointer):
            return
        words, at = self.words_of.get(pointer.buffer), pointer.offset
        if words is None:
            return
        if not isinstance(at, int) or pointer.cast:
            words.known[:] = False
        elif 0 <= at < len(words.values):
            number = self.known(value)
            words.known[at] = number is not None and self.depth == 0
            if number is not None:
                words.values[at] = number

    def _transfer(self, e: Execution, rule: MemoryRule) -> None:
        super()._transfer(e, rule)
        target = e.operands[e.instruction.destinations[0].name]
        if isinstance(target, View) and target.buffer in self.words_of:
            self._forget_words(target)
        elif isinstance(target, Pointer) and target.buffer in self.words_of:
            self.words_of[target.buffer].known[:] = False

    def bind_part(self, name: str, dtype: DType, source: pieces.Source, first: int, count: int) -> None:
        """Make a run of an argument's elements a buffer."""
        if dtype.packed:
            self.bind_buffer(name, dtype, source.words(first, count))
            return
        self.packed[name], self.dtypes[name] = False, dtype
        self.parts.runs[name] = [pieces.Run(source, first, count)]

    @property
    def parts(self) -> pieces.Buffers:
        """The buffers, which are runs until somebody looks."""
        assert isinstance(self.buffers, pieces.Buffers)
        return self.buffers

    def copy(self, op: Op, dst: View, src: View) -> bool:
        """Note a copy of one run of elements to another one."""
        runs = [self._run(view) for view in (dst, src)]
        to, of = runs
        if to is None or of is None or self.depth or dst.dtype.word != src.dtype.word:
            return False
        if dst.buffer in self.words_of or src.buffer in self.words_of or to[1] != of[1]:
            return False
        self.parts.copy_run(dst.buffer, to[0], src.buffer, *of)
        return True

    def _run(self, view: View) -> tuple[int, int] | None:
        """The first element and the number of those of a view, where they follow one another."""
        numbers = [view.offset, *view.shape, *view.strides]
        d = self.dtypes.get(view.buffer)
        if not all(isinstance(n, int) for n in numbers) or d is None or d.packed or d.word != view.dtype.word:
            return None
        count = 1
        for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
            if size != 1 and stride != count:
                return None
            count *= size
        inside = count > 0 and view.offset >= 0 and view.offset + count <= self.parts.size(view.buffer)
        return (view.offset, count) if inside else None

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self.parts.settle()
        with super()._inside():
            yield

    def _forget_words(self, view: View) -> None:
        """The words of a window are data."""
        known = self.words_of[view.buffer].known
        numbers = [view.offset, *view.shape, *view.strides]
        if not all(isinstance(n, int) for n in numbers):
            known[:] = False
            return
        at = np.array([view.offset], np.int64)
        for size, stride in zip(view.shape, view.strides, strict=True):
            at = (at[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
        known[at[(at >= 0) & (at < len(known))]] = False


@dataclass
class ObservedRankMachine(ObservedMachine, RankMachine):
    """Executes like :class:`RankMachine` step by step, with known numbers, and tells ``observer``."""

    def counter(self, value: int) -> Scalar:
        """A Python number: addresses in windows of other ranks are computed from it."""
        return value

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: DType) -> Any:
        """The element that a pointer is at, an integer as a Python number."""
        value = super().load(op, pointer, dtype)
        return value if dtype.is_float else self.known(value)

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Any:
        """The element of a tile, an integer as a Python number."""
        value = super().element(op, ref, position, dtype)
        return value if dtype.is_float else self.known(value)

    def bind_part(self, name: str, dtype: DType, source: pieces.Source, first: int, count: int) -> None:
        """The words of the elements: observers see buffers as they are."""
        self.bind_buffer(name, dtype, source.words(first, count))

    def copy(self, op: Op, dst: View, src: View) -> bool:
        """Nothing is noted: observers see every transfer."""
        return False


def _meets(op: Op) -> bool:
    traits, instruction = traits_of(op), find(op.name)
    communicates = instruction is not None and instruction.cls == "communication"
    return communicates or traits.calls or (traits.order is not None and traits.order.through == "cores")
