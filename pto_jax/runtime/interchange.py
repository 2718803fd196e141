"""Arrays of other libraries: what users pass, as arrays of NumPy or JAX in native byte order."""

from typing import Any

import jax
import jax.dlpack
import numpy as np
from jax.core import Tracer

from ..errors import ArgumentError
from ..lowering.primitives import untraced

#: What arguments may be, for messages.
ALLOWED = (
    "an array of NumPy or JAX, an object with __dlpack__ or __array__ (torch, CuPy, pandas), "
    "numbers in nested lists"
)


def received(x: Any, what: str, allowed: str = ALLOWED) -> Any:
    """``x`` as an array of NumPy or JAX; Python numbers and lists stay as they are.

    Random keys, structured and masked arrays, and objects that are no arrays, raise ArgumentError.
    """
    if isinstance(x, jax.Array):
        if not isinstance(x.dtype, np.dtype):
            raise ArgumentError(
                f"{what}: got an array of {x.dtype}", allowed="an array of numbers, as jax.random.key_data(x)"
            )
        return x
    if not isinstance(x, np.ndarray | np.generic):
        x = _foreign(x, what, allowed)
    return _native(x, what) if isinstance(x, np.ndarray | np.generic) else x


def before_narrowing(x: Any) -> np.ndarray[Any, Any] | np.generic | None:
    """The 64-bit NumPy array that vmap hands on as a traced 32-bit one, None where it does not."""
    inner = untraced(x) if isinstance(x, Tracer) else None
    return inner if inner is not None and inner.dtype.itemsize > np.dtype(x.dtype).itemsize else None


def _foreign(x: Any, what: str, allowed: str) -> Any:
    if hasattr(x, "__dlpack__"):
        return _through_dlpack(x, what)
    if hasattr(x, "__array__"):
        try:
            return np.asarray(x)
        except (TypeError, ValueError, RuntimeError) as error:
            got = f"{what}: got {_named(x)} that gives no array ({type(error).__name__}: {error})"
            raise ArgumentError(got, allowed=allowed) from error
    if isinstance(x, bool | int | float | list | tuple):
        return x
    raise ArgumentError(f"{what}: got {_named(x)}", allowed=allowed)


def _through_dlpack(x: Any, what: str) -> Any:
    """NumPy reads every stride, JAX the types NumPy lacks and other devices' memory."""
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError):
        pass
    try:
        with jax.enable_x64(True):
            # A copy: the other library may change its memory while a call is still under way.
            return jax.numpy.array(jax.dlpack.from_dlpack(x), copy=True)
    except Exception as error:  # Every library and JAX's runtime raise errors of their own.
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ArgumentError(
            f"{what}: got {_named(x)} that DLPack refuses ({reason})",
            allowed="arrays that DLPack passes on",
            fix="a contiguous tensor without gradient, as in x.detach().contiguous()",
        ) from None


def _native(x: Any, what: str) -> Any:
    """A NumPy array in the byte order of this machine; other orders are swapped, the numbers stay."""
    d = x.dtype
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentError(
            f"{what}: got a masked array", allowed="an array without a mask, as in x.filled(0)"
        )
    if d.names is not None:
        fields = ", ".join(d.names)
        raise ArgumentError(
            f"{what}: got a structured array with the fields {fields}",
            allowed=f"one field of it, as in x[{d.names[0]!r}]",
        )
    if d.kind in "OSUMm":
        raise ArgumentError(f"{what}: got an array of {d}", allowed="an array of numbers")
    return x if d.isnative else x.astype(d.newbyteorder("="))


def _named(x: Any) -> str:
    """What a value is, in a message."""
    if x is None:
        return "None"
    if isinstance(x, str):
        return f"the text {x!r:.40}"
    module = type(x).__module__.partition(".")[0]
    return f"{'' if module == 'builtins' else module + '.'}{type(x).__name__}"
