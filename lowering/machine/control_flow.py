"""Branches and loops whose course only execution knows, as ``lax`` control flow.

Such a region is a function of everything it changes: memory cells, global buffers, handles of the names
around it, the values it hands on, and the flags of its run-time rules. What that is shows when the region
is executed; an attempt that assumed too little raises :class:`Retry`, and the next one assumes more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.analysis.constant_folding import scalar_dtype
from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.interpreter import Frame, Operand, Scalar, TileRef
from pto_jax.ir import I1, INDEX, DType, Op, ScalarType

from ..scalars import to_native
from .attempts import Attempts, Effects, Retry, alike
from .shapes import Hole, Shape, fill, fits, join, leaves, opened
from .storage import Carried, slot_of
from .tile_memory import Snapshot, TileMemory

if TYPE_CHECKING:
    from jaxtyping import Int64

    from pto_jax.interpreter.machine import Arm, Before, Body

    from ..arrays import Leaf


def _dtypes(op: Op, count: int) -> list[DType]:
    """Types of the scalars among the values an operation hands on."""
    found = [scalar_dtype(v.type) for v in op.results]
    return found if len(found) == count else [INDEX] * count


def branch(machine: TileMemory, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
    """``lax.cond`` over two arms."""
    attempts = Attempts(machine, frame)
    effects = attempts.effects
    sites = attempts.traces.sites
    shape = _scalars(frame.op)

    def run(which: int) -> list[Leaf]:
        with attempts.traced():
            before, names = Snapshot.of(machine), frame.save()
            results = attempts.handed(arms[which]())
            effects.note(machine, frame, before, names, attempts.entry)
            found = [v.site for v in machine.violations]
            effects.expect(sites[which] == found)
            effects.expect(len(shape or ()) == len(results) and all(map(fits, results, shape or ())))
            sites[which][:] = found
            if not effects.complete or shape is None:
                raise Retry(results, which)
            data = effects.leaves(machine, frame)
            data += [leaf for r, s in zip(results, shape, strict=True) for leaf in leaves(r, s)]
            for i, own in enumerate(sites):
                kept = machine.violations if i == which else [site.unbroken() for site in own]
                data += [leaf for v in kept for leaf in v.data]
            return alike(machine, data)

    def handed(which: int) -> tuple[Operand, ...] | None:
        """What an arm hands on, None where all that it changes is known."""
        attempts.rewind()
        try:
            jax.eval_shape(partial(run, which))
        except Retry as retry:
            return retry.ends
        return None

    predicate = to_native(condition, I1)
    while True:
        attempts.rewind()
        try:
            leaving = iter(lax.cond(predicate, partial(run, 0), partial(run, 1)))
        except Retry as retry:
            # An arm is traced after the one before it is found to be complete.
            ends = [retry.ends, handed(1) if retry.which == 0 else None]
            shape = _joined(frame.op, shape, [e for e in ends if e is not None])
            continue
        except NotExecutableError:
            attempts.rewind()
            raise
        attempts.rewind()
        effects.restore(machine, frame, leaving)
        results = tuple(fill(machine, s, leaving) for s in shape or ())
        attempts.leave([*sites[0], *sites[1]], leaving)
        return results


def _joined(op: Op, shape: tuple[Shape, ...] | None, ends: Sequence[tuple[Shape, ...]]) -> tuple[Shape, ...]:
    """The least shape of what the arms of a branch hand on, and of what was assumed."""
    assumed = [] if shape is None or len(shape) != len(ends[0]) else [shape]
    first, *others = [*assumed, *ends]
    for other in others:
        first = tuple(join(a, b, d) for a, b, d in zip(first, other, _dtypes(op, len(first)), strict=True))
    return first


def _scalars(op: Op) -> tuple[Shape, ...] | None:
    """The shape of a branch's results where all of them are scalars, None where it has to show."""
    handed = op.results if op.name.startswith("scf.") else ()
    if not all(isinstance(v.type, ScalarType) for v in handed):
        return None
    return tuple(Hole(scalar_dtype(v.type)) for v in handed)


#: Runs a loop over flat data: the step maps trip and data, ``position`` is where the first value that the
#: loop carries stands in the data.
Step: TypeAlias = "Callable[[Int64[Array, ''], list[Leaf]], list[Leaf]]"
Runner: TypeAlias = "Callable[[Step, list[Leaf], int], list[Leaf]]"


def loop(
    machine: TileMemory, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body
) -> tuple[Operand, ...]:
    """``lax.fori_loop`` over the trips."""
    count = np.int64(trips) if isinstance(trips, int) else to_native(trips, INDEX)

    def run(step: Step, data: list[Leaf], position: int) -> list[Leaf]:
        found: list[Leaf] = lax.fori_loop(np.int64(0), count, step, data)
        return found

    return _looped(machine, frame, inits, _dtypes(frame.op, len(inits)), body, run)


def repeat(
    machine: TileMemory,
    frame: Frame,
    inits: Sequence[Operand],
    before: Before,
    after: Callable[[tuple[Operand, ...]], tuple[Operand, ...]],
) -> tuple[Operand, ...]:
    """``lax.while_loop``; after ``machine.max_steps`` trips it stops and the rule ``steps`` is broken."""

    def body(trip: Scalar, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        again, passed = before(after(operands[1:]))
        return (again, *passed)

    stopped = jnp.zeros((), bool)

    def run(step: Step, data: list[Leaf], position: int) -> list[Leaf]:
        nonlocal stopped
        zero = alike(machine, [jnp.zeros((), np.int64)])[0]
        trips, found = lax.while_loop(
            lambda state: state[1][position] & (state[0] < machine.max_steps),
            lambda state: (state[0] + np.int64(1), step(*state)),
            (zero, data),
        )
        stopped = found[position] & (trips >= machine.max_steps)
        return list(found)

    condition, passed = before(tuple(inits))
    dtypes = [I1, *_dtypes(frame.op, len(passed))]
    results = _looped(machine, frame, (condition, *passed), dtypes, body, run)
    machine.stop(frame.op, "steps", f"at most {machine.max_steps} trips", stopped)
    return results[1:]


def _looped(
    machine: TileMemory,
    frame: Frame,
    inits: Sequence[Operand],
    dtypes: Sequence[DType],
    body: Body,
    run: Runner,
) -> tuple[Operand, ...]:
    attempts = Attempts(machine, frame)
    effects = attempts.effects
    starts = list(inits)
    shape = [opened(i, d) for i, d in zip(starts, dtypes, strict=True)]
    sites = attempts.traces.sites[0]
    in_place = False

    def step(trip: Int64[Array, ""], data: list[Leaf]) -> list[Leaf]:
        nonlocal in_place
        with attempts.traced():
            given = iter(data)
            effects.restore(machine, frame, given)
            operands = tuple(fill(machine, s, given) for s in shape)
            before, names = Snapshot.of(machine), frame.save()
            ends = attempts.handed(body(trip, operands))
            effects.note(machine, frame, before, names, attempts.entry)
            in_place = any(
                machine.cells.get(k) is not words
                for k, words in before.cells.items()
                if k not in attempts.entry.cells
            )
            known, sites[:] = list(sites), [v.site for v in machine.violations]
            effects.expect(known == sites)
            effects.expect(all(map(fits, ends, shape)))
            if not effects.complete:
                raise Retry(ends)
            found = effects.leaves(machine, frame)
            found += [leaf for e, s in zip(ends, shape, strict=True) for leaf in leaves(e, s)]
            for site, new in zip(sites, machine.violations, strict=True):
                found += new.after(site.filled(given)).data
            return alike(machine, found)

    while True:
        attempts.rewind()
        data = effects.leaves(machine, frame)
        position = len(data)
        data += [leaf for i, s in zip(starts, shape, strict=True) for leaf in leaves(i, s)]
        data += [leaf for site in sites for leaf in site.unbroken().data]
        try:
            data = run(step, alike(machine, data), position)
        except Retry as retry:
            starts = [_by_value(machine, i, e) for i, e in zip(starts, retry.ends, strict=True)]
            shape = [
                join(s if fits(i, s) else opened(i, d), e, d)
                for i, s, e, d in zip(starts, shape, retry.ends, dtypes, strict=True)
            ]
            continue
        except NotExecutableError:
            attempts.rewind()
            raise
        _check_by_value(effects, frame, inits, starts, in_place)
        attempts.rewind()
        given = iter(data)
        effects.restore(machine, frame, given)
        results = tuple(fill(machine, s, given) for s in shape)
        attempts.leave(sites, given)
        return results


def _by_value(machine: TileMemory, start: Operand, end: Operand) -> Operand:
    """The first value of what a loop carries, as contents where its body hands contents on."""
    made = isinstance(end, TileRef) and isinstance(end.storage, Carried)
    if not made or isinstance(start.storage, Carried):
        return start
    return replace(start, storage=Carried(start.type, machine.words(start)))


def _check_by_value(
    effects: Effects, frame: Frame, inits: Sequence[Operand], starts: Sequence[Operand], in_place: bool
) -> None:
    """A tile carried by value must not be written through its handle, nor the tile it started as."""
    copied = [i for i, s in zip(inits, starts, strict=True) if i is not s]
    written = any(
        (slot := slot_of(p)) is not None and slot.cell.key in effects.cells
        for i in copied
        for p in (getattr(i.storage, "options", (i.storage,)))
    )
    if copied and (written or in_place):
        message = (
            "carries a new tile from trip to trip and also writes it in place; "
            "allowed: one of the two (give the new tile storage with alloc_tile)"
        )
        raise NotExecutableError(
            Diagnostic("error", message, frame.op.span, frame.op.name, rule="carried-tile")
        )
