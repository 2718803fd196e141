"""What the trips of loops access, and windows at regular distances, against one trip after the other."""

from collections.abc import Sequence
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.lowering.machine import planning
from pto_jax.lowering.machine.affine import Access, Affine, Fixed, Trip, are_independent
from pto_jax.lowering.machine.strided import Windows
from tests.micro.programs import kernel

#: Bytes that the accesses of a test stay in.
MEMORY = 256


def access(trips: Sequence[Trip], writes: bool, start: int, factors: Sequence[int], size: int) -> Access:
    found = Affine(start)
    for trip, factor in zip(trips, factors, strict=True):
        found = found.plus(Affine.of(trip, factor))
    return Access("ub", writes, found, size, tuple(trips))


def begin(a: Access, numbers: dict[Trip, int]) -> int:
    assert a.start is not None
    return a.start.constant + sum(f * numbers[s] for s, f in a.start.terms if isinstance(s, Trip))


def executed(accesses: Sequence[Access], at_once: bool) -> tuple[list[object], list[object]]:
    """What each read sees and what remains: every byte is the write that made it."""
    memory: list[object] = [None] * MEMORY
    reads: dict[tuple[int, tuple[int, ...]], object] = {}

    def execute(i: int, numbers: dict[Trip, int]) -> None:
        a = accesses[i]
        own = tuple(numbers[t] for t in a.trips)
        first = begin(a, numbers)
        if a.writes:
            memory[first : first + a.size] = [(i, own, k) for k in range(a.size)]
        else:
            reads[i, own] = tuple(memory[first : first + a.size])

    def trips(a: Access) -> list[dict[Trip, int]]:
        counts = product(*(range(t.count) for t in a.trips))
        return [dict(zip(a.trips, numbers, strict=True)) for numbers in counts]

    if at_once:
        for kind in (False, True):
            for i, a in enumerate(accesses):
                for numbers in trips(a) if a.writes == kind else []:
                    execute(i, numbers)
    else:
        outer = accesses[0].trips[0]
        groups: list[list[int]] = []
        for i, a in enumerate(accesses):
            if groups and accesses[groups[-1][0]].trips == a.trips:
                groups[-1].append(i)
            else:
                groups.append([i])
        for number in range(outer.count):
            for group in groups:
                inner = accesses[group[0]].trips[1:]
                for rest in product(*(range(t.count) for t in inner)):
                    for i in group:
                        execute(i, {outer: number, **dict(zip(inner, rest, strict=True))})
    return [reads[key] for key in sorted(reads)], memory


def drawn(rng: np.random.Generator, same: bool) -> list[Access]:
    """Accesses of a loop of up to four trips, some of them in a loop inside; ``same``: all move alike."""
    outer = Trip(int(rng.integers(1, 5)))
    inner = Trip(int(rng.integers(1, 4)))
    steps = rng.choice([0, 4, 8, -8, 12, 24], 2)
    found = []
    nested = False
    for _ in range(int(rng.integers(2, 5))):
        nested = (nested or bool(rng.integers(0, 2))) and not same
        trips = [outer, inner] if nested else [outer]
        factors = [int(n) for n in (steps if rng.random() < 0.8 or same else rng.choice([0, 4, 8, 16], 2))]
        start = 96 + 4 * int(rng.integers(0, 12))
        found.append(
            access(trips, bool(rng.integers(0, 2)), start, factors[: len(trips)], int(rng.choice([4, 8])))
        )
    return found


@pytest.mark.slow
def test_accesses_that_are_independent_give_the_same_in_any_order_of_trips() -> None:
    rng, proven = np.random.default_rng(3), 0
    for _ in range(3000):
        accesses = drawn(rng, same=False)
        if are_independent(accesses):
            proven += 1
            assert executed(accesses, at_once=True) == executed(accesses, at_once=False), accesses
    assert proven > 300


@pytest.mark.slow
def test_a_loop_whose_accesses_move_alike_is_refused_only_where_the_order_counts() -> None:
    rng, refused = np.random.default_rng(4), 0
    for _ in range(1000):
        accesses = drawn(rng, same=True)
        equal = executed(accesses, at_once=True) == executed(accesses, at_once=False)
        overwritten = any(a.writes and b.writes for a in accesses for b in accesses if a is not b)
        # A store over itself is refused, whatever comes of it.
        overwritten |= any(a.writes and not are_independent([a]) for a in accesses)
        if not are_independent(accesses) and not overwritten:
            refused += 1
            assert not equal, accesses
    assert refused > 50


def test_numbers_that_only_execution_knows_are_compared_where_they_are_the_same() -> None:
    trip, place, other = Trip(4), Affine.of(Fixed(lambda: 0)), Affine.of(Fixed(lambda: 0))
    moving = Affine.of(trip, 8)

    def pair(a: Affine, b: Affine) -> list[Access]:
        return [Access("ub", False, a, 8, (trip,)), Access("ub", True, b, 8, (trip,))]

    assert are_independent(pair(place.plus(moving), place.plus(moving)))
    assert are_independent(pair(place.plus(Affine(64)).plus(moving), place.plus(moving)))
    assert not are_independent(pair(other.plus(moving), place.plus(moving)))
    assert not are_independent(pair(place.plus(Affine(-8)).plus(moving), place.plus(moving)))
    elsewhere = [Access("ub", False, None, 0, (trip,)), Access("l1", True, moving, 8, (trip,))]
    assert are_independent(elsewhere)
    assert not are_independent([elsewhere[0], Access("ub", True, moving, 8, (trip,))])


MOVING = """
  %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
  %p, %q = scf.for %r = %c0 to %c4 step %c1 iter_args(%p0 = %x_ub, %q0 = %y_ub)
      -> (!pto.ptr<f32, ub>, !pto.ptr<f32, ub>) {
    %p1, %q1 = scf.for %i = %c0 to %c4 step %c1 iter_args(%p2 = %p0, %q2 = %q0)
        -> (!pto.ptr<f32, ub>, !pto.ptr<f32, ub>) {
      %a, %p3 = pto.vlds %p2[%c64] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>, !pto.ptr<f32, ub>
      %q3 = pto.vsts %a, %q2[%c64], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
        -> !pto.ptr<f32, ub>
      scf.yield %p3, %q3 : !pto.ptr<f32, ub>, !pto.ptr<f32, ub>
    }
    scf.yield %p1, %q1 : !pto.ptr<f32, ub>, !pto.ptr<f32, ub>
  }"""


def test_pointers_that_loops_move_stay_in_known_bytes() -> None:
    program = pto.parse(kernel(MOVING, {"x": "f32", "y": "f32"}))
    found = {key[0]: where for (key, _), where in planning.spans(program, "k").items()}
    assert (found["vlds"], found["vsts"]) == (((0, 4096), 32), ((4096, 8192), 32))


def test_pointers_that_a_loop_swaps_are_anywhere() -> None:
    swapped = MOVING.replace("scf.yield %p1, %q1", "scf.yield %q1, %p1")
    program = pto.parse(kernel(swapped, {"x": "f32", "y": "f32"}))
    found = {key[0]: where for (key, _), where in planning.spans(program, "k").items()}
    assert found["vlds"][0] is None
    assert found["vsts"][0] is None


WINDOWS = [
    ((4,), (8,), 8),
    ((4,), (-8,), 8),
    ((4,), (12,), 5),
    ((4,), (3,), 8),
    ((4,), (0,), 8),
    ((3, 2), (32, 8), 8),
    ((2, 3), (8, 32), 8),
    ((3, 2), (-32, 16), 4),
    ((3, 2), (20, 0), 6),
    ((2, 2, 2), (64, 8, 24), 7),
    ((1, 3), (5, 9), 4),
    ((3, 3), (10, 14), 4),
]


@pytest.mark.parametrize(("counts", "distances", "size"), WINDOWS)
@pytest.mark.parametrize("first", [40, -20, 120])
@pytest.mark.variants(0)
def test_windows_at_regular_distances(
    counts: tuple[int, ...], distances: tuple[int, ...], size: int, first: int
) -> None:
    rng = np.random.default_rng(5)
    flat = rng.integers(0, 1 << 16, 160, np.uint16)
    numbers = np.indices(counts).reshape(len(counts), -1)
    starts = first + np.array(distances) @ numbers
    places = (starts[:, None] + np.arange(size)).reshape(*counts, size)
    inside = (places >= 0) & (places < len(flat))
    taken = np.where(inside, flat[places % len(flat)], 0)
    distinct = len(np.unique(places)) == places.size
    words = rng.integers(0, 1 << 16, places.shape, np.uint16)
    active = rng.integers(0, 2, places.shape).astype(bool)
    for start in (first, jnp.asarray(np.int64(first))):
        with jax.enable_x64(True):
            windows = Windows(start, counts, distances, size)
            assert (np.asarray(windows.taken(jnp.asarray(flat))) == taken).all()
            for chosen in (None, active) if distinct else ():
                expected = flat.copy()
                kept = inside if chosen is None else inside & chosen
                expected[places[kept]] = words[kept]
                mask = None if chosen is None else jnp.asarray(chosen)
                assert (
                    np.asarray(windows.put(jnp.asarray(flat), jnp.asarray(words), mask)) == expected
                ).all()
