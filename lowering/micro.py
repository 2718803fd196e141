"""Micro-operations in JAX: the table of rules, and what they get.

A rule of a register operation takes the call and the operands in the order of the text: registers and scalars
as raw words, masks as images of 256 truth values. A rule of an operation that accesses memory takes the
operands by name; a pointer is a :class:`.machine.local_memory.Place`. Both return the results as a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.ir import DType
from pto_jax.isa import MICRO_FAMILIES, load_families
from pto_jax.isa.micro import Lanes, MicroCall

from . import canary
from .bits import recast
from .numerics import Float, Integer
from .platforms import by_platform
from .rules import Semantics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Shaped, UInt

Rule: TypeAlias = "Callable[..., tuple[Any, ...]]"
#: Rules of operations on registers, and of those that access memory, by name.
RULES: dict[str, Rule] = {}
MEMORY_RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule on registers."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def memory_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule on memory and registers."""

    def register(function: Rule) -> Rule:
        MEMORY_RULES.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass(frozen=True)
class RegisterCall:
    """A :class:`MicroCall` with the choices that it is computed under; equal ones are compiled once."""

    name: str
    types: tuple[Lanes | int | None, ...]
    results: tuple[Lanes | int | None, ...]
    given: tuple[tuple[str, Any], ...]
    semantics: Semantics

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes and strings by name."""
        return dict(self.given)

    @property
    def rounds(self) -> bool:
        """Whether it may compute with floats, exactly."""
        types = (t for t in (*self.types, *self.results) if isinstance(t, Lanes))
        return self.semantics.numerics == "exact" and any(t.dtype.is_float for t in types)

    def arithmetic(self, d: DType) -> Float | Integer:
        """The arithmetic of an element type."""
        return self.semantics.arithmetic(d)


@lru_cache(maxsize=4096)
def jitted(call: RegisterCall) -> Callable[..., tuple[Any, ...]]:
    """The rule of a call as one jitted function; code for CUDA has native arithmetic."""

    def run(operands: tuple[Any, ...]) -> tuple[Any, ...]:
        return RULES[call.name](call, *operands)

    def native(operands: tuple[Any, ...]) -> tuple[Any, ...]:
        return RULES[call.name](replace(call, semantics=replace(call.semantics, native=True)), *operands)

    run.__name__ = f"pto_{call.name}"
    function = by_platform(run, before=canary.require, cuda=native) if call.rounds else jax.jit(run)
    return lambda *operands: tuple(function(operands))


def computed(call: MicroCall, semantics: Semantics, *operands: Any) -> tuple[Any, ...]:
    """The results of an operation on registers."""
    attributes = tuple(sorted(call.attributes.items()))
    return jitted(RegisterCall(call.name, call.types, call.results, attributes, semantics))(*operands)


@cache
def load_rules() -> None:
    """Import the families of this package."""
    assert __package__
    load_families(__package__, MICRO_FAMILIES)


def regrouped(words: UInt[Array, " n"], width: int) -> UInt[Array, " m"]:
    """Flat little-endian words as words of another width."""
    return recast(words, np.dtype(f"u{width // 8}"))


def image(bits: Shaped[Array, " lanes"]) -> Shaped[Array, " 256"]:
    """The image of the lanes of a mask, false between them."""
    count = bits.shape[0]
    return jnp.pad(bits[:, None], ((0, 0), (0, 256 // count - 1))).reshape(256)


def register_width(call: MicroCall) -> int:
    """Bits of an element of the register that an operation loads or stores."""
    register = next(t for t in (*call.results, *call.types) if isinstance(t, Lanes) and t.lanes > 1)
    return register.dtype.word_bits


def result_width(call: MicroCall) -> int:
    """Bits of an element of the first result."""
    t = call.results[0]
    assert isinstance(t, Lanes)
    return t.dtype.word_bits
