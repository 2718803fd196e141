"""Arguments of kernels on several ranks: arrays with a leading axis, numbers of ranks, zeros for signals.

Buffers have as many elements as the text needs, windows and signals at least :data:`ELEMENTS`, for every
block. What holds signals, and what is only written, begins with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import I8, DType, PtrType, ScalarType, Type
from .inputs import Style, draw, draw_scalar
from .state import Input

if TYPE_CHECKING:
    from ..runtime.ranks import RankKernel

#: Elements of a generated buffer whose size the text does not say.
ELEMENTS = 4096
#: Elements of all ranks up to which buffers grow that are accessed behind their ends.
LARGEST = 1 << 24
#: Scalars that are known by their names: the number of a rank, and how many there are.
_RANK = ("rank", "my_rank", "rank_id", "rankid", "myrank")
_COUNT = ("n", "n_ranks", "nranks", "num_ranks", "world_size", "ranks", "rank_num", "rank_size")


def number(kernel: RankKernel, name: str) -> Any:
    """A scalar that its name decides: one number for each rank, or how many there are; None for others."""
    plain = _plain(name)
    if plain in _RANK:
        return np.arange(kernel.ranks)
    ranked = any(_plain(other) in _RANK for other in kernel.scalars)
    return kernel.ranks if ranked and plain in _COUNT else None


def _plain(name: str) -> str:
    """The name that a front end has numbered."""
    return name.split("__")[0]


def shape(kernel: RankKernel, name: str, times: int = 1) -> tuple[int, int]:
    """The shape [ranks, elements] of a generated buffer, ``times`` as large as the least."""
    size = kernel.sizes.get(name, ELEMENTS)
    if name in kernel.windows or name in kernel.signals:
        size = max(size, ELEMENTS)
    size *= max(call.grid for call in kernel.kernels)
    return kernel.ranks, max(size, min(size * times, LARGEST // kernel.ranks))


def begins_empty(kernel: RankKernel, name: str) -> bool:
    """Whether a buffer begins with zeros: signals, what is only written, and what no argument names."""
    unread = name in kernel.outputs and name not in kernel.read
    return unread or name in kernel.signals or kernel.buffers[name] is None


def drawn(
    kernel: RankKernel, rng: np.random.Generator, style: Style, pool: Sequence[int], careful: bool = False
) -> Iterator[tuple[str, Input]]:
    """An input [ranks, ...] for every argument; ``careful``: integers are numbers of ranks."""
    types: dict[str, Type] = {a.name: a.type for a in kernel.arguments}
    for name, d in kernel.buffers.items():
        t, size = d or I8, shape(kernel, name)
        if begins_empty(kernel, name):
            words = np.zeros(size, t.word)
        elif careful and t.is_integer and not t.packed:
            words = rng.integers(0, kernel.ranks, size).astype(t.numpy).view(t.word)
        else:
            words = _words(rng, t, size, style)
        declared = types.get(name)
        held = declared if d is not None and declared is not None else PtrType(t)
        yield name, Input(held, words)  # type: ignore[arg-type]
    for name, d in kernel.scalars.items():
        yield name, Input(ScalarType(d), _scalar(kernel, rng, name, d, style, pool, careful))


def _words(rng: np.random.Generator, d: DType, size: tuple[int, int], style: Style) -> Any:
    """Words of a buffer; of packed types one element each."""
    if d.packed:
        return rng.integers(0, 1 << d.bits, size).astype(d.word)
    return np.ascontiguousarray(draw(rng, d, size, style)).view(d.word)


def _scalar(
    kernel: RankKernel,
    rng: np.random.Generator,
    name: str,
    d: DType,
    style: Style,
    pool: Sequence[int],
    careful: bool,
) -> Any:
    """The words of a scalar, one for each rank."""
    value = number(kernel, name)
    if value is None and careful and d.is_integer:
        value = int(rng.integers(0, kernel.ranks + 1))
    if value is None:
        value = draw_scalar(rng, d, style, pool)
    values = np.broadcast_to(np.asarray(value), (kernel.ranks,))
    return np.ascontiguousarray(values.astype(d.numpy)).view(d.word)
