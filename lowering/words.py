"""Raw words and the scope in which they are computed with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F16, F32, DType

if TYPE_CHECKING:
    from jaxtyping import Int32, Shaped, UInt


def from_words(words: UInt[Array, "*shape"], like: np.dtype[Any]) -> Shaped[Array, "*shape"]:
    """Raw words as an array of the given type. Call inside the 64-bit scope."""
    return words if words.dtype == like else lax.bitcast_convert_type(words, like)


def raw(array: Shaped[Array, "*shape"]) -> UInt[Array, "*shape"]:
    """The raw words of an array; of words, the array."""
    word = np.dtype(f"u{array.dtype.itemsize}")
    return array if array.dtype == word else lax.bitcast_convert_type(array, word)


def moved_as(dtype: DType) -> np.dtype[Any]:
    """The type of the arrays in which elements of global memory are moved: that of arguments and results.

    As words they would have to be copied on the way in and out. Narrow floats stay words, as XLA may
    compute with others on the way.
    """
    kept = dtype == F32 or (dtype.is_integer and dtype.bits >= 8)
    return np.dtype(dtype.numpy if kept else dtype.word)


def moves_intact(dtype: DType) -> bool:
    """Whether an element of the type is one array element, whose bits XLA leaves as they are on the way.

    On CPUs slices of bfloat16 and of 8-bit floats are slices of wider floats.
    """
    return not dtype.packed and (dtype.is_integer or dtype in (F32, F16))


def numbers_of(words: UInt[Array, "*shape"], dtype: DType) -> Shaped[Array, "*shape"]:
    """Words as numbers of their type, to be reshaped: that keeps the bits of any type.

    XLA drops conversions to words and back only where no reshape of words stands between. Elements that are
    no array elements of their own stay words.
    """
    return words if dtype.packed or dtype.bits < 8 else from_words(words, np.dtype(dtype.numpy))


def elements_at(flat: Shaped[Array, " size"], where: Int32[Array, "*shape"]) -> Shaped[Array, "*shape"]:
    """Elements at int32 positions; zero at those that are not below the size, which may be none at all."""
    if flat.shape[0] == 0:
        return jnp.zeros(where.shape, flat.dtype)
    return flat.at[where].get(mode="fill", fill_value=0)


def recast(flat: UInt[Array, " words"], word: np.dtype[Any]) -> UInt[Array, " others"]:
    """The bytes of flat words as words of another size, without those at the end that fill none."""
    old, new = flat.dtype.itemsize, word.itemsize
    if new > old:
        size = new // old
        flat = flat[: flat.shape[0] // size * size].reshape(-1, size)
    return flat if new == old else lax.bitcast_convert_type(flat, word).reshape(-1)


def restored(flat: UInt[Array, " words"], others: UInt[Array, " others"]) -> UInt[Array, " words"]:
    """Flat words of which those that :func:`recast` gives are replaced by others."""
    if others.dtype == flat.dtype:
        return others
    made = recast(others, flat.dtype)
    return flat.at[: made.shape[0]].set(made)


#: Settings of JAX that code of this package is written for, and how each is entered.
_SETTINGS: tuple[tuple[str, Any, Callable[[Any], Any]], ...] = (
    ("jax_numpy_rank_promotion", "allow", jax.numpy_rank_promotion),
    ("jax_numpy_dtype_promotion", "standard", jax.numpy_dtype_promotion),
    # What is executed is a program as a whole, and an instruction as a whole: never an operation of XLA.
    ("jax_disable_jit", False, jax.disable_jit),
    # A trace that shows what a loop carries is left, and begun again.
    ("jax_check_tracer_leaks", False, jax.check_tracer_leaks),
)


def x64() -> Any:
    """The scope in which words are computed with: 64 bits, and the settings that code here is written for.

    The global configuration is never touched.
    """
    wide = jax.enable_x64(True)
    others = [enter(value) for name, value, enter in _SETTINGS if getattr(jax.config, name) != value]
    return _entered((wide, *others)) if others else wide


@contextmanager
def _entered(settings: Sequence[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for setting in settings:
            stack.enter_context(setting)
        yield
