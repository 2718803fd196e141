"""Self-test of compiled code for the properties that exact results need, once per platform.

What makes a compiler give them up stands in many places: ``XLA_FLAGS``, a file that it names, settings of
JAX, a new version. So nobody reads settings: small functions are compiled and executed as any program is,
and their words compared. Numbers are arguments, as XLA computes with constants by itself.
"""

from __future__ import annotations

import os
import threading
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from pto_jax import errors
from pto_jax.errors import ExactnessError, FileError

from .bits import DOUBT, x64
from .platforms import compiled_soonest, unoptimised
from .slicing import with_slice

if TYPE_CHECKING:
    from jaxtyping import Float64, Shaped, UInt32

    Numbers = Float64[Array, " numbers"]

#: The issue of XLA that :func:`.slicing.computed_before` keeps from kernels.
UPDATE_BUG = "https://github.com/openxla/xla/issues/49176"
FIX = (
    "start Python without what asks XLA for fast math or for other passes (XLA_FLAGS, a file that it names, "
    'jax.config), or numerics="fast"'
)


@dataclass(frozen=True)
class Check:
    """A function of arrays whose result is known bit for bit, and what is lost where it differs."""

    name: str
    function: Callable[..., Shaped[Array, "..."]]
    arguments: tuple[NDArray[Any], ...]
    expected: NDArray[Any]
    lost: str
    #: The platforms whose code rests on it, by JAX's names; None for all.
    platforms: tuple[str, ...] | None = None
    #: Whether the result is one of compiled code, which nothing follows.
    last: bool = False

    @property
    def words(self) -> NDArray[Any]:
        """What is expected, as words of 32 bits."""
        return self.expected.reshape(-1).view(np.uint32)


def _numbers(*values: float) -> NDArray[Any]:
    return np.array(values, np.float64)


def _difference_of_sum(x: Numbers, y: Numbers) -> Numbers:
    """What rounding takes from a sum: 0 in one order, ``y`` in another."""
    return lax.sub(lax.add(x, y), x)


def _nan_seen(x: Numbers) -> Numbers:
    return lax.select(lax.ne(x, x), lax.full_like(x, 7), x)


def _infinity_seen(x: Numbers) -> Numbers:
    return lax.select(lax.eq(lax.abs(x), lax.full_like(x, np.inf)), lax.full_like(x, 7), x)


def _negated_difference(x: Numbers, y: Numbers) -> Numbers:
    return lax.neg(lax.sub(x, y))


def _settled(x: Numbers) -> Numbers:
    """Rounded to float32 and back."""
    return lax.convert_element_type(lax.convert_element_type(x, np.float32), np.float64)


def _multiple_of_subnormal(x: Numbers) -> Numbers:
    """How many of the smallest float32 subnormals a number has, rounded to even."""
    return lax.round(lax.mul(x, np.float64(2.0**149)), lax.RoundingMethod.TO_NEAREST_EVEN)


def _sums_of_words(x: UInt32[Array, " n"], y: UInt32[Array, " n"]) -> UInt32[Array, " n"]:
    """The words of float32 sums."""
    total = lax.add(*(lax.bitcast_convert_type(w, np.float32) for w in (x, y)))
    return lax.bitcast_convert_type(total, np.uint32)


def _updated(words: Shaped[Array, "1 n"], independent: bool = False) -> Shaped[Array, " n"]:
    """An array that is updated by products of its own elements, some of which are overwritten."""
    line = words.reshape(-1)
    products = lax.mul(words[:, :-_SHIFT], words[:, _SHIFT:]).reshape(-1)
    return with_slice(line, products, (_SHIFT,), independent)


_SOME = _numbers(5.0, 7.0, 11.0, 1e300)
_SPECIAL = _numbers(np.nan, np.inf, -np.inf, -0.0)
#: NaNs, and numbers that they are added to.
_NANS = np.full(4, DOUBT)
_ADDED = np.array([1.0, -2.5, np.inf, 0.0], np.float32).view(np.uint32)
#: Words of many vector registers, and a shift by less than one.
_WORDS, _SHIFT = np.arange(1, 513, dtype=np.uint32), 8
_UPDATED = np.concatenate([_WORDS[:_SHIFT], _WORDS[:-_SHIFT] * _WORDS[_SHIFT:]])
#: What is computed; a check is added here. Divisors and their quotients are such that a product with the
#: reciprocal differs.
CHECKS = (
    Check(
        "order of sums",
        _difference_of_sum,
        (_numbers(1.0, -1.0, 3.0, 1e16), _numbers(2.0**-60, 2.0**-54, 2.0**-53, 1.0)),
        _numbers(0.0, 0.0, 0.0, 0.0),
        "sums are reordered",
    ),
    Check("NaN", _nan_seen, (_SPECIAL,), _numbers(7.0, np.inf, -np.inf, -0.0), "tests for NaN are left out"),
    Check(
        "infinities",
        _infinity_seen,
        (_SPECIAL,),
        _numbers(np.nan, 7.0, 7.0, -0.0),
        "tests for infinities are left out",
    ),
    Check(
        "signs of zeros",
        _negated_difference,
        (_numbers(0.0, 1.0, 2.0), _numbers(0.0, 1.0, 3.0)),
        _numbers(-0.0, -0.0, 1.0),
        "signs of zeros are ignored",
    ),
    Check(
        "division",
        lax.div,
        (_SOME, _numbers(3.0, 49.0, 0.1, 3.3)),
        _SOME / _numbers(3.0, 49.0, 0.1, 3.3),
        "quotients are products with reciprocals",
    ),
    Check("square root", lax.sqrt, (_SOME,), np.sqrt(_SOME), "square roots are approximated"),
    Check(
        "rounding to float32",
        _settled,
        (_numbers(5.0, 7.0, 11.0) / 3,),
        (_numbers(5.0, 7.0, 11.0) / 3).astype(np.float32).astype(np.float64),
        "roundings to float32 are left out",
        # On GPUs words stand between the two conversions.
        ("cpu",),
    ),
    Check(
        "subnormal numbers",
        _multiple_of_subnormal,
        (_numbers(0.5 * 2.0**-149, 1.5 * 2.0**-149, -0.25 * 2.0**-149, 2.0**-126),),
        _numbers(0.0, 2.0, -0.0, 2.0**23),
        "subnormal numbers are flushed on the way",
    ),
    Check(
        "NaN in sums",
        lambda x, y: lax.concatenate([_sums_of_words(x, y), _sums_of_words(y, x)], 0),
        (_NANS, _ADDED),
        np.concatenate([_NANS, _NANS]),
        "sums with NaN lose its bits",
        # Certified sums in `folds`.
        ("cpu", "rocm"),
    ),
    Check(
        "updates",
        _updated,
        (_WORDS[None],),
        _UPDATED,
        f"updates of an array read what they have overwritten ({UPDATE_BUG})",
        last=True,
    ),
)


def overwrites(platform: str) -> bool:
    """Whether compiled code may read what it has overwritten, where nothing here prevents it."""
    update = Check("update", partial(_updated, independent=True), (_WORDS[None],), _UPDATED, "", last=True)
    (words,) = _apart(partial(_computed, (update,), jax.local_devices(backend=platform)[0]))
    return not np.array_equal(words, update.words)


def checks(platform: str) -> tuple[Check, ...]:
    """The checks that count on a platform."""
    return tuple(c for c in CHECKS if c.platforms is None or platform in c.platforms)


def failures(platform: str) -> tuple[str, ...]:
    """What compiled code of a platform has lost, by JAX's name; nothing for a platform that is not here."""
    with _lock:
        return _failures(platform, compiled_soonest())


_lock = threading.Lock()


@cache
def _failures(platform: str, soonest: bool) -> tuple[str, ...]:
    try:
        device = jax.local_devices(backend=platform)[0]
    except RuntimeError:  # Code for it is only written, as for an export.
        return ()
    results = _apart(partial(_computed, checks(platform), device, soonest))
    pairs = zip(checks(platform), results, strict=True)
    return tuple(c.lost for c, words in pairs if not np.array_equal(c.words, words))


def _apart(function: Callable[[], list[NDArray[Any]]]) -> list[NDArray[Any]]:
    """What a function gives in a thread of its own, which has no traces, meshes and settings of this one."""
    results: list[NDArray[Any]] = []
    raised: list[Exception] = []

    def run() -> None:
        try:
            results.extend(function())
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="pto_jax canary")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return results


def _flags() -> np.uint32:
    """A number that tells flags in a file from others: JAX's cache knows the file by its name."""
    name = os.environ.get("XLA_FLAGS", "").strip()
    is_file = bool(name) and not name.startswith("-") and Path(name).is_file()
    return np.uint32(zlib.crc32(Path(name).read_bytes() if is_file else b""))


def _computed(checked: Sequence[Check], device: Any, soonest: bool = False) -> list[NDArray[Any]]:
    """The words of what the checks give on a device, compiled together, without optimisations if ``soonest``.

    What need not come last is one array with the flags.
    """

    def pto_canary(arguments: Any) -> Any:
        results = [c.function(*operands) for c, operands in zip(checked, arguments, strict=True)]
        joined = [(c, r) for c, r in zip(checked, results, strict=True) if not c.last]
        words = [lax.bitcast_convert_type(r, np.uint32).reshape(-1) for _, r in joined]
        last = [r for c, r in zip(checked, results, strict=True) if c.last]
        return _as_rows([*words, lax.full((1,), flags)]), last

    flags = _flags()

    quiet = jax.debug_nans(False), jax.debug_infs(False), jax.transfer_guard("allow"), jax.disable_jit(False)
    with ExitStack() as settings:
        # Arrays that are bound to a device are compiled with a sharding, most kernels' are not.
        for setting in (x64(), jax.default_device(device), cached_code(), *quiet):
            settings.enter_context(setting)
        jit = partial(jax.jit, compiler_options=unoptimised()) if soonest else jax.jit
        joined, last = jax.device_get(jit(pto_canary)([c.arguments for c in checked]))
    rows, own = iter(joined), iter(last)
    return [next(own) if c.last else next(rows)[: c.words.size] for c in checked]


def _as_rows(lines: Sequence[UInt32[Array, " _"]]) -> UInt32[Array, "lines _"]:
    """Lines of words as rows of one array: a choice between them is one kernel, a concatenation many."""
    shape = len(lines), max(line.size for line in lines)
    number = lax.broadcasted_iota(np.int32, shape, 0)
    rows = lax.full(shape, np.uint32(0))
    for i, line in enumerate(lines):
        padded = lax.pad(line, np.uint32(0), ((0, shape[1] - line.size, 0),))
        rows = lax.select(lax.eq(number, np.int32(i)), lax.broadcast_in_dim(padded, shape, (1,)), rows)
    return rows


@contextmanager
def cached_code() -> Iterator[None]:
    """One clear error where an entry of JAX's persistent cache holds the code of another program."""
    try:
        yield
    except AssertionError as error:
        folder = jax.config.values["jax_compilation_cache_dir"]
        if not folder or not _raised_by_jax(error):
            raise
        raise FileError(
            f"{folder}: an entry of JAX's compilation cache is not the code of its program ({error})",
            allowed="entries as JAX has written them",
            fix="empty this folder",
        ) from None


def _is_own(file: str) -> bool:
    own = Path(__file__).resolve().parent, Path(errors.__file__).resolve().parent
    return any(folder in Path(file).resolve().parents for folder in own)


def _raised_by_jax(error: AssertionError) -> bool:
    """Whether an assertion of JAX failed, not one of this package or of a caller.

    JAX removes its frames from tracebacks, so that the last one left may be the call of JAX.
    """
    last = traceback.extract_tb(error.__traceback__)[-1]
    jax_asserts = Path(jax.__file__).parent in Path(last.filename).parents
    is_call = _is_own(last.filename) and not (last.line or "").startswith("assert ")
    return jax_asserts or is_call


def require(platform: str) -> None:
    """Raise ExactnessError where compiled code of a platform does not have what exact results rest on."""
    lost = failures(platform)
    if lost:
        names = ", ".join(lost)
        raise ExactnessError(f'numerics="exact" cannot keep its bits on {platform}: {names}', fix=FIX)
