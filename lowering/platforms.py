"""One function with different code per platform, chosen when code is generated.

``lax.platform_dependent`` traces every branch wherever it is called, which every program would pay for on the
one platform it runs on. Here the primary code alone is traced; another platform's is traced when a program
is lowered for it: under an outer jit, vmap or shard_map, and for each platform of an export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np
from jax import Array, lax

from . import primitives
from .bits import x64

if TYPE_CHECKING:
    from jaxtyping import Shaped

    from .bits import Size

#: A function of arrays that gives arrays.
Flat: TypeAlias = "Callable[..., Sequence[Shaped[Array, '...']]]"
#: Called with the name of a platform where code for it is generated; it raises where there can be none.
Before: TypeAlias = "Callable[[str], object]"
#: Platforms that code of their own is registered for, by JAX's names.
PLATFORMS = ("cuda",)


class _Choice:
    """The code of each platform, as functions of flat arrays; a key, as it equals itself only."""

    def __init__(self, primary: Flat, others: Mapping[str, Flat], before: Before | None) -> None:
        self.primary, self._others, self._before = jax.jit(primary), others, before

    def announce(self, platforms: Sequence[str]) -> None:
        """Say that code for some platforms is generated."""
        if self._before is not None:
            for platform in platforms:
                self._before(platform)

    def code(self, platform: str) -> Flat:
        """The code for a platform."""
        return self._others.get(platform, self.primary)

    @cached_property
    def executed(self) -> Flat:
        """The choice as a function that compiles for the platform its arguments are on."""
        return jax.jit(partial(_choose.bind, choice=self))

    @lru_cache(maxsize=16)  # noqa: B019 - a choice lives as long as what is compiled with it
    def mapped(self, axes: tuple[int | None, ...]) -> _Choice:
        """The choice over a batch, whose axis comes first in all results."""
        others = {name: jax.vmap(code, axes) for name, code in self._others.items()}
        return _Choice(jax.vmap(self.primary, axes), others, self._before)


def _executed(*leaves: Shaped[Array, "..."], choice: _Choice) -> Sequence[Shaped[Array, "..."]]:
    # Without jit the choice would be executed by itself, for ever.
    with jax.disable_jit(False):
        return choice.executed(*leaves)


_expected: ContextVar[str | None] = ContextVar("expected", default=None)


def expected() -> str:
    """The platform that a trace is probably for, by JAX's names ("cpu", "gpu"); bits do not depend on it."""
    return _expected.get() or jax.default_backend()


@contextmanager
def expecting(platform: str) -> Iterator[None]:
    """Traces in this context are for a platform that need not be here."""
    token = _expected.set(platform)
    try:
        yield
    finally:
        _expected.reset(token)


#: Options of XLA for code that is compiled soonest: the same HLO, in instructions that nothing improves. That
#: takes a fourth of the processor time, and such code takes two to four times as long as optimised one.
_UNOPTIMISED: Mapping[str, bool | str] = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": "1",
}
_soonest: ContextVar[bool] = ContextVar("soonest", default=False)


@cache
def unoptimised() -> dict[str, Any]:
    """The options of a compiler that is done soonest: those that this XLA has."""
    lowered = jax.jit(lambda: 0).lower()

    def accepted(options: dict[str, Any]) -> bool:
        with suppress(jax.errors.JaxRuntimeError):
            lowered.compile(compiler_options=options)
            return True
        return False

    options: dict[str, Any] = dict(_UNOPTIMISED)
    return options if accepted(options) else {n: v for n, v in options.items() if accepted({n: v})}


def compiled_soonest() -> bool:
    """Whether the code that is generated now is compiled so."""
    return _soonest.get()


@contextmanager
def soonest() -> Iterator[None]:
    """Code that is generated in this context is executed once, and compiled with :func:`unoptimised`."""
    token = _soonest.set(True)
    try:
        yield
    finally:
        _soonest.reset(token)


def apart(
    code: Callable[[Shaped[Array, "..."]], Shaped[Array, "..."]],
    words: Shaped[Array, "..."],
    size: Size | int | None,
) -> Shaped[Array, "..."]:
    """``code(words)``; on CPUs compiled for itself, where only execution knows ``size``, 0 or more.

    A loop that pads or places a result computes it inside, behind a branch and so without vector
    instructions. XLA merges no loops with those in a conditional, and cannot know that it is always taken.
    The code must close over no constant array: under vmap inside shard_map it would vary twice.
    """
    if size is None or isinstance(size, int) or expected() != "cpu":
        return code(words)
    shape = jax.eval_shape(code, words)

    def never(words: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        # Derived from an input: shard_map tracks over which axes results vary.
        some = lax.convert_element_type(words.reshape(-1)[0], shape.dtype)
        return lax.broadcast(some, shape.shape)

    result: Array = lax.cond(lax.ge(size, np.int32(0)), code, never, words)
    return result


def by_platform(
    primary: Callable[..., Any], *, before: Before | None = None, **others: Callable[..., Any]
) -> Callable[..., Any]:
    """A function of trees of arrays with code of its own for some of :data:`PLATFORMS`, else ``primary``.

    All give trees of the same structure, shapes and types, whatever the values of the arguments. ``before``
    is called with the name of each platform that code is generated for.
    """
    results: dict[Any, Any] = {}

    def flat(code: Callable[..., Any], structure: Any) -> Flat:
        def call(*leaves: Shaped[Array, "..."]) -> Sequence[Shaped[Array, "..."]]:
            # Batching and lowering come here outside of the 64-bit scope.
            with x64():
                flat_results, results[structure] = jax.tree.flatten(
                    code(*jax.tree.unflatten(structure, leaves))
                )
            return tuple(flat_results)

        call.__name__ = getattr(primary, "__name__", "pto")
        return call

    @cache
    def choice(structure: Any) -> _Choice:
        rest = {n: flat(code, structure) for n, code in others.items()}
        return _Choice(flat(primary, structure), rest, before)

    def choose(*trees: Any) -> Any:
        leaves, structure = jax.tree.flatten(trees)
        flat_results = _choose.bind(*leaves, choice=choice(structure))
        return jax.tree.unflatten(results[structure], flat_results)

    return choose


def _types(*leaves: Any, choice: _Choice) -> Sequence[Any]:
    # The context that batching and lowering have, so that they need not trace again.
    with x64(), jax.sharding.use_abstract_mesh(jax.sharding.get_abstract_mesh()):
        return choice.primary.trace(*leaves).jaxpr.out_avals  # type: ignore[no-any-return]


def _batch(
    leaves: Sequence[Shaped[Array, "..."]], axes: Sequence[Any], *, choice: _Choice
) -> tuple[Sequence[Shaped[Array, "..."]], Sequence[int]]:
    results = _choose.bind(*leaves, choice=choice.mapped(tuple(axes)))
    return results, [0] * len(results)


def _lower(platform: str) -> Any:
    def code(*leaves: Shaped[Array, "..."], choice: _Choice) -> Sequence[Shaped[Array, "..."]]:
        with x64():
            return choice.code(platform)(*leaves)

    lowered = primitives.lowered(code)

    def announced(context: Any, *leaves: Any, choice: _Choice) -> Any:
        choice.announce(context.module_context.platforms)
        with primitives.triton_kernels() if platform in PLATFORMS else nullcontext():
            return lowered(context, *leaves, choice=choice)

    return announced


_choose: Any = primitives.primitive(
    "pto_platform",
    evaluate=_executed,
    types=_types,
    batch=_batch,
    lower={platform: _lower(platform) for platform in (primitives.EVERY, *PLATFORMS)},
    multiple_results=True,
)
