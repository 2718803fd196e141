"""The tables of instruction rules, and the context and inputs of a rule.

A rule is a pure function ``rule(context, inputs) -> {destination: words}``. Everything static is in the
hashable :class:`Context`; ``inputs`` are arrays. Each (context) is one inner jitted function
(:func:`jitted`), so that a program traces every distinct instruction once and eager execution compiles
it once.

Instructions between tiles and global memory have memory rules, ``rule(context, inputs, memory) -> words``,
which see the view that the instruction names, whose offset may be traced, and its whole buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import jax
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import Scalar, View
from pto_jax.ir import AttrValue, DType, Pad, ScalarType, SLayout, TileType
from pto_jax.isa import find
from pto_jax.isa.common import divides_in_software
from pto_jax.profiles import OutOfRegion, Profile, Subnormals

from . import canary
from .numerics import Float, Integer, Numerics, SoftwareDivision, arithmetic
from .platforms import by_platform

if TYPE_CHECKING:
    from jaxtyping import Bool, Int64, UInt

    from .bits import Elements, Flat, Size, Values, Word, Words
    from .machine.ranges import Range


@dataclass(frozen=True)
class Semantics:
    """The choices a program is executed under.

    ``native`` and ``doubting`` are no choices of the user's: exact float arithmetic may be the device's own
    (:func:`compiled`), or that of :mod:`.doubts`.
    """

    profile: Profile
    numerics: Numerics = "exact"
    out_of_region: OutOfRegion = "ones"
    subnormals: Subnormals = "keep"
    native: bool = False
    doubting: bool = False

    def arithmetic(self, dtype: DType) -> Float | Integer:
        """The arithmetic of an element type under the chosen numerics."""
        if divides_in_software(self.profile.name, dtype):
            return SoftwareDivision(dtype)
        return arithmetic(dtype, self.numerics, self.native, self.doubting)


@runtime_checkable
class Row(Protocol):
    """The contents of a tile of one row, of which any number of words can be computed.

    It is what the tile has where it is ``certain``.
    """

    @property
    def certain(self) -> Bool[Array, ""]:
        """Whether it is the contents: a constant as a rule, so that nothing else is computed."""

    def first(self, count: int) -> UInt[Array, "1 {count}"]:
        """The first ``count`` words."""


class Lanes(NamedTuple):
    """A tile as a rule sees it: logical words [rows, cols] and the valid sizes where they are traced.

    ``value`` is the float64 value of the words, for float32 tiles an exact instruction has just written:
    a chain of instructions then rounds once per step instead of encoding and decoding. ``row`` gives the
    words of a tile of one row, so that no more of them need be computed than are read.
    ``inside`` has the words of the valid region and anything around it: a rule that reads nothing else does
    not depend on what the tile had there before. With it ``value`` is that of the valid region only.
    """

    words: Words
    v_row: Size | None = None
    v_col: Size | None = None
    value: Values | None = None
    row: Row | None = None
    inside: Words | None = None

    @property
    def valid(self) -> Words:
        """The words of the valid region, with anything around it."""
        return self.words if self.inside is None else self.inside


#: Tiles and scalars (0-d words) by declared operand name.
Inputs: TypeAlias = "Mapping[str, Lanes | Word]"


class Result(NamedTuple):
    """New words of a destination, with their values (float64) or a :class:`Row` of them, if available.

    ``inside`` and ``value`` as in :class:`Lanes`.
    """

    words: Words
    value: Values | None = None
    row: Row | None = None
    inside: Words | None = None


#: New words of a destination, or a :class:`Result`.
Output: TypeAlias = Any
#: The results of a rule by name.
Outputs: TypeAlias = "dict[str, Output]"


@dataclass(frozen=True)
class Context:
    """What is static about one execution of an instruction.

    ``types`` have the static valid sizes that are known at this site (None: traced); ``covered`` names
    the sources whose valid region is known to contain the destination's, so that they need no fill.
    ``carry`` asks for more than words (:class:`Result`), where the caller can use it.
    """

    instruction: str
    types: tuple[tuple[str, TileType | ScalarType], ...]
    attributes: tuple[tuple[str, AttrValue], ...]
    form: tuple[str, ...]
    semantics: Semantics
    covered: frozenset[str] = frozenset()
    carry: bool = False

    @cached_property
    def _types(self) -> dict[str, TileType | ScalarType]:
        return dict(self.types)

    @cached_property
    def attrs(self) -> dict[str, AttrValue]:
        """Attributes by name, with defaults."""
        return dict(self.attributes)

    @property
    def profile(self) -> str:
        """The profile's name."""
        return self.semantics.profile.name

    @property
    def rounds(self) -> bool:
        """Whether the instruction may compute with floats, exactly; one without a result prints them."""
        instruction = find(self.instruction)
        if instruction is None or not instruction.destinations or self.semantics.numerics != "exact":
            return False
        return any(t.dtype.is_float for _, t in self.types)

    def has(self, name: str) -> bool:
        """Whether there is a tile or scalar operand of this declared name."""
        return name in self._types

    def tile(self, name: str) -> TileType:
        """The type of the tile operand ``name``."""
        t = self._types[name]
        assert isinstance(t, TileType), name
        return t

    def dtype(self, name: str) -> DType:
        """The element type of a tile operand or the type of a scalar one."""
        return self._types[name].dtype

    def arithmetic(self, name: str = "dst") -> Float | Integer:
        """The arithmetic of an operand's element type."""
        return self.semantics.arithmetic(self.dtype(name))

    @cached_property
    def cropped(self) -> Context:
        """The same execution of tiles that end with their valid regions, where nothing else counts."""
        if not self.carry or self.semantics.out_of_region != "ones":
            return self
        names = REGIONAL.get(self.instruction, ())
        return replace(self, types=tuple((n, _cropped(t) if n in names else t) for n, t in self.types))


def _cropped(t: TileType | ScalarType) -> TileType | ScalarType:
    if not isinstance(t, TileType) or t.conv or t.slayout != SLayout.NONE_BOX or t.pad != Pad.NULL:
        return t
    if t.dtype.bits < 8 or 0 in t.valid:
        return t
    rows, cols = (n if v is None else min(n, v) for n, v in zip(t.shape, t.valid, strict=True))
    return replace(t, rows=rows, cols=cols)


Rule: TypeAlias = "Callable[[Context, Inputs], Mapping[str, Output]]"
RULES: dict[str, Rule] = {}
#: Instructions whose results are in doubt wherever one of their operands is (:mod:`.doubts`).
KEEP_DOUBTS: set[str] = set()
#: The tiles of instructions of which the valid region counts and nothing else, not the tile's extents either.
REGIONAL: dict[str, Sequence[str]] = {}


def rule(*names: str, keeps_doubts: bool = False, regional: Sequence[str] = ()) -> Callable[[Rule], Rule]:
    """Register the rule of one or more instructions; ``regional`` are their tiles of :data:`REGIONAL`."""

    def register(fn: Rule) -> Rule:
        for name in names:
            _require_new(name)
            RULES[name], REGIONAL[name] = fn, regional
        KEEP_DOUBTS.update(names if keeps_doubts else ())
        return fn

    return register


class Require(Protocol):
    """Notes where a run-time rule is broken."""

    def __call__(
        self, rule: str, allowed: str, broken: Scalar, found: str = "", values: Sequence[Scalar] = ()
    ) -> None:
        """``found`` is a format of what was found, for ``values``."""


@dataclass(frozen=True)
class GlobalMemory:
    """Global memory as an instruction sees it: the view it names, and the flat words of the view's buffer.

    ``require`` is None where run-time rules are not followed; ``constant`` are the numbers of a buffer that
    nothing writes, where they are at hand; ``offsets`` is where the view begins, in any execution.
    ``independent`` tells that the program reads nothing of the buffer that the instruction writes.
    ``passed`` are the words that a buffer which nothing has changed is a copy of, None where there are none.
    """

    view: View
    buffer: Flat
    require: Require | None = None
    constant: Elements | None = None
    offsets: Range | None = None
    independent: bool = False
    passed: Flat | None = None

    def require_elements(self, allowed: str, first: Int64[Array, ""], last: Int64[Array, ""]) -> None:
        """The run-time rule that the elements from ``first`` to ``last`` (int64) are in the buffer."""
        if self.require is not None:
            outside = lax.bitwise_or(lax.lt(first, np.int64(0)), lax.ge(last, np.int64(self.buffer.shape[0])))
            got = f"elements {{}} to {{}} of {self.view.buffer}"
            broken = lax.bitwise_and(lax.le(first, last), outside)
            self.require("in-bounds", allowed, broken, got, (first, last))


#: Gives the new words of the destination, which is a tile (also a :class:`Result`) or the buffer; None where
#: nothing is written.
MemoryRule: TypeAlias = "Callable[[Context, Inputs, GlobalMemory], Words | Flat | Result | None]"
MEMORY_RULES: dict[str, MemoryRule] = {}


_MemoryRule = TypeVar("_MemoryRule", bound="MemoryRule")


def memory_rule(*names: str, regional: Sequence[str] = ()) -> Callable[[_MemoryRule], _MemoryRule]:
    """Register the rule of one or more instructions between tiles and global memory, as :func:`rule`."""

    def register(fn: _MemoryRule) -> _MemoryRule:
        for name in names:
            _require_new(name)
            MEMORY_RULES[name], REGIONAL[name] = fn, regional
        return fn

    return register


def _require_new(name: str) -> None:
    if name in RULES or name in MEMORY_RULES:
        raise RuntimeError(f"instruction {name} has two lowering rules")


_Result = TypeVar("_Result")


def compiled(
    context: Context, fn: Callable[[Context, Inputs], _Result], name: str
) -> Callable[[Inputs], _Result]:
    """A function of a context as one jitted function; code for CUDA has native arithmetic."""

    def run(inputs: Inputs) -> _Result:
        return fn(context, inputs)

    def native(inputs: Inputs) -> _Result:
        return fn(replace(context, semantics=replace(context.semantics, native=True)), inputs)

    run.__name__ = name
    if not context.rounds:
        return jax.jit(run)
    others = {} if context.semantics.doubting else {"cuda": native}
    return by_platform(run, before=canary.require, **others)


@lru_cache(maxsize=8192)
def jitted(context: Context) -> Callable[[Inputs], Mapping[str, Output]]:
    """The rule of a context as one jitted function."""
    return compiled(context, RULES[context.instruction], f"pto_{context.instruction}")
