"""What an execution leaves besides its outputs: broken run-time rules, and the machine's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import Array
from jax.core import Tracer

from ..errors import Diagnostic, ExecutionError, Span, objection, short_list
from ..files import save_arrays
from ..interpreter import Operand, Scope, TileRef
from .tiles import Tile

if TYPE_CHECKING:
    from ..lowering import JaxMachine
    from ..lowering.machine.tile_memory import Violation


@dataclass(frozen=True)
class RuleLocation:
    """The place of a run-time rule in a program."""

    instruction: str
    rule: str
    allowed: str
    span: Span | None
    found: str = ""


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Report:
    """Run-time rules of an execution.

    One flag per site, true where the rule was broken, and the numbers that were found there the first time.
    Flags and numbers have the batch shape of the call.

    >>> import pto_jax as pto
    >>> text = "%v = tgetval ins(%a, %n : !pto.tile<2x8xf32>, index) outs : f32"
    >>> kernel = pto.compile(pto.parse(text), checks=True)
    >>> outputs, report = kernel(np.ones((2, 8), np.float32), 16)
    >>> report
    <Report: 1 of 1 run-time rules broken: tgetval offset-range>
    >>> report.problems()[0].message.partition(";")[0]
    'got offset 16'
    """

    flags: tuple[Array, ...]
    sites: tuple[RuleLocation, ...]
    values: tuple[tuple[Array, ...], ...] = ()

    @classmethod
    def of(cls, violations: Sequence[Violation]) -> Report:
        """The report of the rules that an execution followed, in order."""
        sites = (RuleLocation(v.op.name, v.rule, v.allowed, v.op.span, v.found) for v in violations)
        values = tuple(v.values for v in violations)
        return cls(tuple(v.broken for v in violations), tuple(sites), values)

    def joined(self, other: Report) -> Report:
        """One report of the rules of both."""
        if not other.sites:
            return self
        return Report(self.flags + other.flags, self.sites + other.sites, self.values + other.values)

    def __repr__(self) -> str:
        if any(isinstance(f, Tracer) for f in self.flags):
            return f"<Report of {len(self.sites)} run-time rules, traced>"
        broken = self.problems()
        if not broken:
            return f"<Report: none of {len(self.sites)} run-time rules broken>"
        rules = short_list([f"{d.instruction} {d.rule}" for d in broken], 4)
        return f"<Report: {len(broken)} of {len(self.sites)} run-time rules broken: {rules}>"

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[RuleLocation, ...]]:
        """Flags and numbers as the leaves of a JAX pytree; the sites are static."""
        return (self.flags, self.values), self.sites

    @classmethod
    def tree_unflatten(cls, sites: tuple[RuleLocation, ...], data: Any) -> Report:
        """The report of the sites with other flags and numbers."""
        flags, values = data
        return cls(tuple(flags), sites, tuple(map(tuple, values)))

    def problems(self, first: int = 0) -> list[Diagnostic]:
        """One error per broken rule, naming the instruction, its line and the batch indices.

        ``first`` is the index of the first call of the batch.
        """
        problems = []
        for flag, site, values in zip(self.flags, self.sites, self.values, strict=True):
            broken = np.asarray(flag)
            if not broken.any():
                continue
            where = ""
            if broken.ndim:
                places = np.argwhere(broken) + np.eye(1, broken.ndim, dtype=np.int64) * first
                texts = [str(tuple(map(int, i)) if broken.ndim > 1 else int(i[0])) for i in places]
                more = f" and {len(texts) - 8} more" if len(texts) > 8 else ""
                where = f"; batch index {', '.join(texts[:8])}{more}"
            one = tuple(np.argwhere(broken)[0])
            numbers = [np.asarray(n)[one].item() for n in values]
            got = f"got {site.found.format(*numbers)}" if site.found else "the run-time rule is broken"
            message = objection(got, site.allowed) + where
            problems.append(Diagnostic("error", message, site.span, site.instruction, rule=site.rule))
        return problems

    def raise_if_broken(self) -> None:
        """Raise ExecutionError with every broken rule; nothing under a trace."""
        if not self.sites or any(isinstance(f, Tracer) for f in self.flags):
            return
        problems = self.problems()
        if problems:
            raise ExecutionError(problems)


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class PackedReport:
    """A report of one call as two arrays, as a compiled function hands few results over sooner than many.

    ``flags`` are those of the sites in order, ``numbers`` those found there; None where there are no sites.
    """

    flags: Array | None
    numbers: Array | None
    sites: tuple[tuple[RuleLocation, int], ...]

    @classmethod
    def of(cls, report: Report) -> PackedReport:
        """The same of a report, whose flags have no batch shape."""
        if not report.sites:
            return cls(None, None, ())
        numbers = [n for values in report.values for n in values]
        counts = map(len, report.values)
        return cls(
            jax.numpy.stack(report.flags),
            jax.numpy.stack(numbers) if numbers else None,
            tuple(zip(report.sites, counts, strict=True)),
        )

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[tuple[RuleLocation, int], ...]]:
        """The arrays as the leaves of a JAX pytree; the sites are static."""
        return (self.flags, self.numbers), self.sites

    @classmethod
    def tree_unflatten(cls, sites: tuple[tuple[RuleLocation, int], ...], data: Any) -> PackedReport:
        """The report of the sites with other arrays."""
        flags, numbers = data
        return cls(flags, numbers, sites)

    @property
    def kept(self) -> bool | None:
        """Whether no rule was broken; None under a trace, where nobody knows yet."""
        if isinstance(self.flags, Tracer):
            return None
        return self.flags is None or not np.asarray(self.flags).any()

    def raise_if_broken(self) -> None:
        """Raise ExecutionError with every broken rule; nothing under a trace."""
        if self.kept is False:
            self._report(np.asarray(self.flags)).raise_if_broken()

    def _report(self, flags: np.ndarray[Any, Any]) -> Report:
        numbers = iter(() if self.numbers is None else np.asarray(self.numbers))
        values = tuple(tuple(next(numbers) for _ in range(count)) for _, count in self.sites)
        return Report(tuple(flags), tuple(site for site, _ in self.sites), values)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False)
class State:
    """Tiles by the name of their handle, and memory cells as raw words.

    ``scalars`` and ``buffers`` are those of an execution that was stopped: of :meth:`Kernel.stop_at` numbers,
    and arrays as they were passed; of an observer raw words, one element each. ``str(state)`` lists all.

    >>> import pto_jax as pto
    >>> kernel = pto.compile(pto.parse("%d = tneg %a : !pto.tile<1x8xf32>"))
    >>> outputs, state = kernel.with_state(np.ones((1, 8), np.float32))
    >>> state.tiles["d"]
    Tile(vec 1x8xf32, [[-1 -1 ... -1 -1]])
    """

    tiles: dict[str, Tile]
    cells: dict[str, Array]
    scalars: dict[str, Any] = field(default_factory=dict)
    buffers: dict[str, Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<State: {len(self.tiles)} tiles, {len(self.scalars)} scalars, {len(self.buffers)} buffers>"

    def __str__(self) -> str:
        tiles = [f"tile %{name}  {t!r}" for name, t in self.tiles.items()]
        scalars = [f"scalar %{name} = {n}" for name, n in self.scalars.items()]
        buffers = [f"buffer {name}  {b.dtype}{list(b.shape)}" for name, b in self.buffers.items()]
        return "\n".join([*tiles, *scalars, *buffers]) or "no values"

    @staticmethod
    def of(machine: JaxMachine, scope: Scope) -> State:
        """What an execution leaves: the tiles that names of ``scope`` stand for, and the memory cells."""
        return State(_tiles(machine, scope.names()), dict(machine.cells))

    @staticmethod
    def at(machine: JaxMachine, names: Mapping[str, Operand]) -> State:
        """What an execution has in the middle, where every value is known."""
        numbers = {n: v for n, v in names.items() if isinstance(v, int | float | np.generic | Array)}
        return State(_tiles(machine, names), dict(machine.cells), numbers, dict(machine.buffers))

    def save(self, path: str | Path) -> None:
        """Write the arrays to an .npz file, which is replaced as a whole; FileError when that cannot be done.

        Their names are ``tile/<name>`` (element type where NumPy has it, else words), ``tile/<name>/valid``
        (int32: rows, columns), ``cell/<name>``, ``scalar/<name>`` and ``buffer/<name>``.
        """
        stored: dict[str, np.ndarray[Any, Any]] = {}
        for name, t in self.tiles.items():
            plain = np.dtype(t.dtype.numpy).kind in "fiu"
            stored[f"tile/{name}"] = np.asarray(t) if plain else np.asarray(t.words)
            stored[f"tile/{name}/valid"] = np.array([t.valid_rows, t.valid_cols], np.int32)
        stored.update({f"cell/{name}": np.asarray(words) for name, words in self.cells.items()})
        stored.update({f"scalar/{name}": _plain(np.asarray(n)) for name, n in self.scalars.items()})
        stored.update({f"buffer/{name}": np.asarray(words) for name, words in self.buffers.items()})
        save_arrays(path, stored)


def _tiles(machine: JaxMachine, names: Mapping[str, Operand]) -> dict[str, Tile]:
    """The tiles among what names stand for."""
    return {name: tile_of(machine, o) for name, o in names.items() if isinstance(o, TileRef)}


def tile_of(machine: JaxMachine, ref: TileRef) -> Tile:
    """A tile in the memory of an executor, with the valid region of the moment."""
    rows, cols = (np.int32(n) if isinstance(n, int) else n for n in (ref.v_row, ref.v_col))
    return Tile(machine.words(ref), _scalar(rows), _scalar(cols), ref.type.with_valid(None, None))


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array whose type .npz files can name: raw words where it cannot."""
    return array if array.dtype.kind in "fiub" else array.view(f"u{array.dtype.itemsize}")


def _scalar(n: Any) -> Array:
    return jax.numpy.asarray(n, np.int32)
