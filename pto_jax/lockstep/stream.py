"""Streams of programs through the lockstep engine: drawn, executed and hashed on the device.

One compiled function per table, mode and chunk size; a chunk is the unit that is held in memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec
from numpy.typing import NDArray

from ..lowering.bits import x64
from ..lowering.lockstep import Branch, Programs, run_grouped, run_switched
from . import values
from .programs import STEPS, Drawn, contents_of_one, draw
from .tables import Table
from .values import U32, Array

Mode = Literal["switch", "grouped"]
#: Programs that are executed by one call, on each device.
CHUNK = 4096
#: Region kinds that are counted, of an instruction's destination.
FILLED = ("full", "partial", "empty", "odd")


class Digests(NamedTuple):
    """What is kept of some programs.

    ``words`` uint64 [n] are hashes of all registers; ``coverage`` int64 [opcodes, len(FILLED)] counts how
    often each opcode ran on a destination with each kind of region.
    """

    words: NDArray[np.uint64]
    coverage: NDArray[np.int64]


@dataclass(frozen=True)
class Runner:
    """The lockstep engine for a table in one mode, on some devices of the default backend.

    ``chunk`` programs per device and call; ``block`` programs of one opcode at once in grouped mode.

    >>> from .tables import table
    >>> Runner(table("a5")).name
    'lockstep:switch'
    """

    table: Table
    mode: Mode = "switch"
    devices: int = 1
    chunk: int = CHUNK
    steps: int = STEPS
    block: int = 16

    @property
    def name(self) -> str:
        """The name of the machine in reports."""
        return f"lockstep:{self.mode}"

    def digests(self, seed: int, start: int, count: int) -> Digests:
        """The digests of the programs from ``start`` on; memory does not grow with the chunk count."""
        words = np.zeros(count, np.uint64)
        coverage = np.zeros((len(self.table.opcodes), len(FILLED)), np.int64)
        for place, hashes, counts in self._chunks(seed, start, count):
            words[place : place + len(hashes)] = hashes[: count - place]
            coverage += counts
        return Digests(words, coverage)

    def _chunks(
        self, seed: int, start: int, count: int
    ) -> Iterator[tuple[int, NDArray[np.uint64], NDArray[np.int64]]]:
        """Results by place. A call runs while the results of the one before it are fetched."""
        run, size = _digester(self), self.chunk * self.devices
        constants = _given(self.table, seed)
        pending: tuple[int, Any] | None = None
        for place in range(0, count, size):
            here = np.arange(size, dtype=np.uint64)
            with x64():
                started = run(*constants, here + np.uint64(start + place), np.int32(min(count - place, size)))
            if pending is not None:
                yield self._fetched(*pending, count)
            pending = (place, started)
        if pending is not None:
            yield self._fetched(*pending, count)

    def _fetched(
        self, place: int, result: tuple[Array, Array], count: int
    ) -> tuple[int, NDArray[np.uint64], NDArray[np.int64]]:
        words, counts = (np.asarray(a) for a in result)
        return place, words[: count - place], counts.sum(0, dtype=np.int64)

    def registers(self, programs: Programs, contents: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Final registers of some programs whose registers start with ``contents``.

        Both uint32 [n, registers, words]; n is at most ``chunk``.
        """
        spare = self.chunk - len(contents)

        def padded(rows: Array) -> Array:
            return np.concatenate([rows, np.zeros((spare, *rows.shape[1:]), rows.dtype)])

        with x64():
            registers = _finisher(self)(Programs(*map(padded, programs)), padded(contents))
            return np.asarray(registers)[: len(contents)]


def branches(table: Table) -> tuple[Branch, ...]:
    """The branches of a table's opcodes, in its order."""
    return tuple(o.branch for o in table.opcodes)


@lru_cache(maxsize=16)
def _given(table: Table, seed: int) -> tuple[Array, Array, Array]:
    """Start of the counter, and the pool of a seed, on the device."""
    start = values.origin(seed)
    pool = table.pool(start)
    with x64():
        return start, jax.device_put(pool.words), jax.device_put(pool.free)


def _digests(runner: Runner, drawn: Drawn, pool: tuple[Array, Array]) -> Array:
    """The digests of the programs drawn."""
    table, codes = runner.table, branches(runner.table)

    def begin(single: Drawn) -> Array:
        return contents_of_one(table, *pool, single)

    if runner.mode == "grouped":
        return digest(run_grouped(codes, drawn.programs, lax.map(begin, drawn), runner.block))
    return lax.map(lambda single: digest(run_switched(codes, single.programs, begin(single))), drawn)


def digest(registers: Array) -> Array:
    """A hash uint64 [...] of registers [..., registers, words]: every bit changes it."""
    shape = registers.shape[-2:]
    lanes = np.arange(shape[0] * shape[1], dtype=U32).reshape(shape)
    odd = (values.mix(lanes) | U32(1)).astype(np.uint64)
    folded = lax.convert_element_type(registers ^ (registers >> U32(15)), np.uint64)
    return jnp.sum(folded * odd, axis=(-1, -2), dtype=np.uint64)


def _cells(xp: Any, table: Table, programs: Programs) -> Array:
    """Opcode and kind of region of every instruction, as one number."""
    kinds = xp.asarray(table.slot_kinds)[programs.opcodes][..., 0]
    sizes = xp.take_along_axis(programs.sizes, programs.slots[..., :1], axis=1)
    full = xp.all(sizes == xp.asarray(table.limits)[kinds], axis=-1)
    empty = xp.any(sizes == np.int32(0), axis=-1)
    odd = xp.any(sizes % np.int32(2) != 0, axis=-1)
    partial = xp.where(odd, np.int32(3), np.int32(1))
    region = xp.where(empty, np.int32(2), xp.where(full, np.int32(0), partial))
    return programs.opcodes * np.int32(len(FILLED)) + region


def _covered(table: Table, programs: Programs, there: Array) -> Array:
    """Counts int32 [opcodes, len(FILLED)] over the first ``there`` programs of a chunk."""
    cells = _cells(jnp, table, programs)
    counted = jnp.broadcast_to((jnp.arange(cells.shape[0]) < there)[:, None], cells.shape)
    flat = jnp.zeros(len(table.opcodes) * len(FILLED), np.int32).at[cells].add(counted.astype(np.int32))
    return flat.reshape(-1, len(FILLED))


def coverage(table: Table, programs: Programs) -> NDArray[np.int64]:
    """The counts of :class:`Digests` for programs drawn by NumPy."""
    counts = np.bincount(_cells(np, table, programs).ravel(), minlength=len(table.opcodes) * len(FILLED))
    return counts.reshape(-1, len(FILLED)).astype(np.int64)


@lru_cache(maxsize=64)
def _digester(runner: Runner) -> Callable[..., tuple[Array, Array]]:
    def run(start: Array, words: Array, free: Array, index: Array, there: Array) -> tuple[Array, Array]:
        drawn = draw(jnp, runner.table, start, index, runner.steps)
        hashes = _digests(runner, drawn, (words, free))
        return hashes, _covered(runner.table, drawn.programs, there)[None]

    if runner.devices == 1:
        return jax.jit(run)

    def shard(start: Array, words: Array, free: Array, index: Array, there: Array) -> tuple[Array, Array]:
        before = lax.axis_index("programs") * np.int32(runner.chunk)
        return run(start, words, free, index, there - before)

    # Only the indices and the results are divided.
    mesh = Mesh(np.array(jax.devices()[: runner.devices]), ("programs",))
    part, whole = PartitionSpec("programs"), PartitionSpec()  # type: ignore[no-untyped-call]
    into = (whole, whole, whole, part, whole)
    return jax.jit(jax.shard_map(shard, mesh=mesh, in_specs=into, out_specs=(part, part)))


# Each keeps compiled code of many megabytes, and campaigns go from table to table.
@lru_cache(maxsize=4)
def _finisher(runner: Runner) -> Callable[[Programs, Array], Array]:
    codes = branches(runner.table)
    if runner.mode == "grouped":
        return jax.jit(lambda programs, begin: run_grouped(codes, programs, begin, runner.block))

    def one(both: tuple[Programs, Array]) -> Array:
        return run_switched(codes, *both)

    return jax.jit(lambda programs, begin: lax.map(one, (programs, begin)))
