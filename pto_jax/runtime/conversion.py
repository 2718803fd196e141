"""Arrays at the border of the engine: user arrays to raw words and back."""

import contextlib
import math
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from ..errors import ArgumentError
from ..ir import I64, DType
from . import derivatives, interchange

_X64 = "try: call the vmap or jit inside `with jax.enable_x64(True):`"


@cache
def device_array() -> type:
    """The type of JAX's arrays that are no tracers."""
    with jax.ensure_compile_time_eval():
        return type(jax.numpy.zeros(()))


@jax.custom_jvp
def _opaque(x: Array) -> Array:
    """The raw words of an array; differentiating through them would silently give zeros."""
    return lax.bitcast_convert_type(x, np.dtype(f"u{x.dtype.itemsize}"))


@_opaque.defjvp
def _no_derivative(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    derivatives.refuse()


def accepts(dtype: DType, given: np.dtype[Any]) -> bool:
    """Whether an array type holds elements of ``dtype``.

    It does as the type itself, its raw words, or, for integers, the other signedness (program text does not
    always say which).
    """
    if given == dtype.numpy or given == dtype.word:
        return True
    return dtype.is_integer and given.kind in "iu" and given.itemsize * 8 == dtype.word_bits


def as_array(x: Any, dtype: DType, what: str, allowed: str = interchange.ALLOWED) -> Any:
    """``x`` as an array whose type holds ``dtype``; lists and numbers are converted, arrays never.

    Raises ArgumentError naming both types when they differ.
    """
    if isinstance(getattr(x, "dtype", None), DType):
        raise ArgumentError(f"{what}: got a Tile", allowed=f"{dtype.name}; its array is tile.array")
    x = interchange.received(x, what, allowed)
    if not hasattr(x, "dtype"):
        return _converted(x, dtype, what)
    original, x = x, settled(x)
    if not accepts(dtype, np.dtype(x.dtype)):
        expected, narrowed = np.dtype(dtype.numpy).name, narrowing(original, dtype)
        number = re.search(r"'(\w+)'$", what)
        raise ArgumentError(
            f"{what}: got an array of {np.dtype(x.dtype).name}",
            allowed=f"{dtype.name} (array type {expected} or raw {dtype.word.name}){narrowed}",
            fix="" if narrowed else f'{number[1] if number else "x"}.astype("{expected}")',
        )
    _nothing_wraps(original, what)
    return x


def _nothing_wraps(x: Any, what: str) -> None:
    """Refuse integers that vmap hands on as 32-bit ones and that do not fit."""
    wide = interchange.before_narrowing(x)
    if wide is None or wide.dtype.kind not in "iu":
        return
    narrow = np.dtype(x.dtype)
    lost = np.asarray(wide != wide.astype(narrow))
    if lost.any():
        raise ArgumentError(
            f"{what}: got {np.asarray(wide)[lost][0]} in an array of {wide.dtype.name}, which JAX narrows "
            f"to {narrow.name} under vmap; {_X64}"
        )


def narrowing(x: Any, dtype: DType) -> str:
    """The usual fix where JAX may have made a 64-bit array a 32-bit one."""
    narrow, wide = np.dtype(x.dtype), interchange.before_narrowing(x)
    if dtype.bits != 64 or narrow.kind not in "iu" or narrow.itemsize != 4:
        return ""
    note = f" ({wide.dtype.name} given under vmap)" if wide is not None else ""
    return f"; JAX narrows 64-bit arrays unless jax_enable_x64 is set{note}; {_X64}"


def _converted(x: Any, dtype: DType, what: str, expected: str = "") -> np.ndarray[Any, Any]:
    """Python numbers, nested or not, as an array of ``dtype``; only rounding may change a value."""
    try:
        numbers = np.asarray(x)
    except ValueError:
        numbers = np.empty(0, object)
    except TypeError as error:
        # JAX has a list of traced numbers as one of Python objects.
        if not isinstance(x, list | tuple) or not type(error).__module__.startswith("jax"):
            raise
        got = f"{what}: got a {type(x).__name__} of numbers that are traced"
        fix = f"jax.numpy.asarray({what.rpartition(' ')[2].strip(chr(39))})"
        raise ArgumentError(got, allowed="an array", fix=fix) from None
    if numbers.dtype.kind not in _kinds(dtype) and (numbers.size or numbers.dtype == object):
        wide = isinstance(x, int) and not isinstance(x, bool)
        kind = f"an integer of {x.bit_length()} bits" if wide else f"the {type(x).__name__} {x!r:.40}"
        fix = ""
        if isinstance(x, list | tuple):
            with contextlib.suppress(TypeError, ValueError):
                np.asarray(x, dtype.numpy)
                fix = f"np.asarray(..., np.{dtype.numpy.name})"
        if isinstance(x, float) and math.isfinite(x):
            fix = f"int({x!r})"
        raise ArgumentError(f"{what}: got {kind}", allowed=expected or dtype.name, fix=fix)
    with np.errstate(over="ignore"):
        array = numbers.astype(dtype.numpy)
    if dtype.numpy.kind in "biu":
        lost = array.astype(object) != numbers.astype(object)
    else:
        lost = np.isfinite(numbers) & ~np.isfinite(array.astype(np.float32))
    if np.any(lost):
        value = numbers.reshape(-1)[np.argmax(lost)]
        raise ArgumentError(f"{what}: got {value}", allowed=f"numbers that {dtype.name} holds")
    return array


def _kinds(dtype: DType) -> str:
    """Kinds of array types whose numbers may become elements of ``dtype``."""
    if dtype.numpy == np.bool_:
        return "biu"
    return "iu" if dtype.numpy == dtype.word or dtype.is_integer else "iuf"


def as_scalar(x: Any, dtype: DType, what: str) -> Any:
    """``x`` as a 0-d array of ``dtype``; ``index`` takes integers of every width."""
    array = (
        _as_index(x, what) if dtype.kind == "index" else as_array(x, dtype, what, f"a number ({dtype.name})")
    )
    if np.shape(array) != ():
        shape = tuple(np.shape(array))
        raise ArgumentError(
            f"{what}: got shape {shape}",
            allowed=(
                f"a scalar {dtype.name}; one scalar per call: jax.vmap(kernel), called with "
                "positional arguments"
            ),
        )
    return array


def _as_index(x: Any, what: str) -> Any:
    x = interchange.received(x, what, "index (an integer)")
    if not hasattr(x, "dtype"):
        return _converted(x, I64, what, "index (an integer)")
    _nothing_wraps(x, what)
    x = settled(x)
    if np.dtype(x.dtype).kind not in "iu":
        raise ArgumentError(f"{what}: got {x.dtype}", allowed="index (an integer)")
    return x


def settled(x: Any) -> Any:
    """``x`` with the type JAX says it has. Call outside the 64-bit scope.

    Under vmap a 64-bit NumPy array travels as it is while JAX calls it 32-bit; inside the 64-bit scope
    nothing would narrow it any more. A NumPy array or number that a trace captures is a constant, which JAX
    remembers by the object with the type of its first use: the 64-bit scope gets an object of its own.
    """
    if isinstance(x, Tracer):
        return _whole(jax.device_put(x))
    return np.asarray(x).view() if isinstance(x, np.ndarray | np.generic) else _whole(x)


def _whole(x: Any) -> Any:
    """An array that each device of a mesh has all of: one call is not spread over explicit axes.

    Outside of a mesh JAX lets arrays of several shardings meet.
    """
    if jax.sharding.get_abstract_mesh().empty or not isinstance(x, Array):
        return x
    sharding = jax.typeof(x).sharding
    if all(axes is None for axes in sharding.spec):
        return x
    reshard: Any = jax.sharding.reshard
    everywhere: Any = jax.NamedSharding(sharding.mesh, jax.P(*[None] * x.ndim))  # type: ignore[no-untyped-call]
    return reshard(x, everywhere)


def _may_be_sharded(x: Any) -> bool:
    """Whether an array may have axes of a mesh; asking for the type of one takes as long as some calls."""
    return isinstance(x, Tracer) or isinstance(getattr(x, "sharding", None), jax.NamedSharding)


def over_batches(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)``, where the compiler shards what explicit axes of a mesh leave to one call.

    Operations on such axes ask for a sharding wherever it is open, also where only ``vmap`` has given them
    one. In the result only axes of batches are sharded.
    """
    leaves = (x for x in jax.tree.leaves(arguments) if _may_be_sharded(x))
    meshes = (jax.sharding.get_abstract_mesh(), *(jax.typeof(x).sharding.mesh for x in leaves))
    mesh = next((m for m in meshes if m.explicit_axes), None)
    if mesh is None:
        return function(*arguments)
    whole: Any = jax.NamedSharding(mesh, jax.P())  # type: ignore[no-untyped-call]
    automatic: Any = jax.sharding.auto_axes(function, axes=mesh.explicit_axes, out_sharding=whole)
    return automatic(*arguments)


def to_words(x: Any, dtype: DType, elements: bool = False) -> Array:
    """Raw words of an array that :func:`accepts` allows. Call inside the 64-bit scope.

    ``elements`` says that the words of a packed type hold one element each, in the low bits.
    """
    if not isinstance(x, np.ndarray):
        result: Array = _to_words(x, dtype, elements)
        return result
    # NumPy needs no program of XLA for each shape.
    words = np.array(x if x.dtype == np.bool_ else x.view(dtype.word), dtype.word)
    if elements and dtype.packed:
        words &= dtype.word.type((1 << dtype.bits) - 1)
    array: Array = jax.device_put(words)
    return array


@partial(jax.jit, static_argnums=(1, 2))
def _to_words(array: Array, dtype: DType, elements: bool) -> Array:
    if array.dtype == np.bool_:
        return array.astype(dtype.word)
    words = array if array.dtype == dtype.word else _opaque(array)
    return words & dtype.word.type((1 << dtype.bits) - 1) if elements and dtype.packed else words


def opaque_scalar(x: Any, dtype: DType) -> Array:
    """A scalar argument as a traced value of its type that has no derivative."""
    array = jax.numpy.asarray(x)
    if dtype.kind == "index":
        return array.astype(np.int64)
    if array.dtype == np.bool_:
        return array
    return lax.bitcast_convert_type(to_words(array, dtype), dtype.numpy)


def is_float(x: Any) -> bool:
    """Whether an array has elements that JAX differentiates."""
    return hasattr(x, "dtype") and bool(jax.numpy.issubdtype(x.dtype, np.inexact))


def is_traced_float(x: Any) -> bool:
    """Whether a value is traced by a JAX transformation and has elements that JAX differentiates."""
    return isinstance(x, Tracer) and is_float(x)
