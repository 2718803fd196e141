"""Loops whose trips are executed at once: which ones are, and that their bits are those of trip by trip."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.lowering.machine import together
from tests.micro.programs import executed, kernel

RNG = np.random.default_rng(11)
F32, V = "!pto.ptr<f32, ub>", "!pto.vreg<64xf32>"
MASK = '%m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>\n'


@pytest.fixture(name="at_once")
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """For each loop that is tried, whether its trips are executed at once."""
    found: list[bool] = []
    loop = together.loop

    def noted(*args: Any) -> Any:
        results = loop(*args)
        if together._has_registers(args[1].op):
            found.append(results is not None)
        return results

    monkeypatch.setattr(together, "loop", noted)
    yield found


def load(name: str, pointer: str, at: str) -> str:
    return f"%{name} = pto.vlds %{pointer}[%{at}] : {F32} -> {V}\n"


def store(name: str, pointer: str, at: str, mask: str = "m") -> str:
    return f"pto.vsts %{name}, %{pointer}[%{at}], %{mask} : {V}, {F32}, !pto.mask<b32>\n"


def add(name: str, a: str, b: str, mask: str = "m") -> str:
    return f"%{name} = pto.vadd %{a}, %{b}, %{mask} : {V}, {V}, !pto.mask<b32> -> {V}\n"


def trips(body: str, count: str = "c1024", step: str = "c64") -> str:
    return f"scf.for %i = %c0 to %{count} step %{step} {{\n{body}}}\n"


def plus(name: str, a: str, n: int) -> str:
    """An index less or more a number."""
    return f"%k{name} = arith.constant {n} : index\n%{name} = arith.addi %{a}, %k{name} : index\n"


def times(name: str, a: str, n: int) -> str:
    return f"%k{name} = arith.constant {n} : index\n%{name} = arith.muli %{a}, %k{name} : index\n"


def outer(body: str, count: int = 4) -> str:
    return f"%rows = arith.constant {count} : index\nscf.for %r = %c0 to %rows step %c1 {{\n{body}}}\n"


COUNTED = (
    "%n0 = arith.constant 1000 : i32\n"
    "%left = scf.for %i = %c0 to %c1024 step %c64 iter_args(%n = %n0) -> (i32) {\n"
    "%p, %rest = pto.plt_b32 %n : i32 -> !pto.mask<b32>, i32\n"
    + load("a", "x_ub", "i")
    + add("s", "a", "a", "p")
    + store("s", "y_ub", "i", "p")
    + "scf.yield %rest : i32\n}\n"
)
MOVED = (
    "%q, %w = scf.for %i = %c0 to %c16 step %c1 iter_args(%p = %x_ub, %o = %y_ub)"
    f" -> ({F32}, {F32}) {{\n"
    f"%a, %p2 = pto.vlds %p[%c64] : {F32} -> {V}, {F32}\n"
    + add("s", "a", "a")
    + f"%o2 = pto.vsts %s, %o[%c64], %m : {V}, {F32}, !pto.mask<b32> -> {F32}\n"
    + f"scf.yield %p2, %o2 : {F32}, {F32}\n}}\n"
    + load("z", "x_ub", "c0")
    + f"%w2 = pto.addptr %w, %back : {F32} -> {F32}\n"
    + store("z", "w2", "c0")
)
ROWS = times("row", "r", 256) + trips(
    "%e = arith.addi %row, %i : index\n"
    + load("a", "x_ub", "e")
    + add("s", "a", "a")
    + store("s", "y_ub", "e"),
    "c256",
)
REDUCED = (
    load("acc0", "x_ub", "c0")
    + "%t = scf.for %i = %c0 to %c1024 step %c64 iter_args(%acc = %acc0) -> (!pto.vreg<64xf32>) {\n"
    + load("a", "x_ub", "i")
    + add("s", "acc", "a")
    + "scf.yield %s : !pto.vreg<64xf32>\n}\n"
    + store("t", "y_ub", "c0")
)
#: Bodies of scopes on x and y of 1024 f32, and which of their loops are executed at once, in the order in
#: which they are tried.
PROGRAMS: dict[str, tuple[str, list[bool]]] = {
    "a window per trip": (
        trips(load("a", "x_ub", "i") + add("s", "a", "a") + store("s", "y_ub", "i")),
        [True],
    ),
    "in place": (trips(load("a", "x_ub", "i") + add("s", "a", "a") + store("s", "x_ub", "i")), [True]),
    "the next window, which a later trip writes": (
        trips(
            plus("next", "i", 64)
            + load("a", "x_ub", "i")
            + load("b", "x_ub", "next")
            + add("s", "a", "b")
            + store("s", "x_ub", "i"),
            "c512",
        ),
        [True],
    ),
    "half of the next window": (
        trips(plus("half", "i", 32) + load("a", "x_ub", "half") + store("a", "x_ub", "i"), "c512"),
        [True],
    ),
    "the window that the trip before has written": (
        trips(
            plus("next", "i", 64) + load("a", "x_ub", "i") + add("s", "a", "a") + store("s", "x_ub", "next"),
            "c512",
        ),
        [False],
    ),
    "half of what the trip before has written": (
        trips(plus("half", "i", 32) + load("a", "x_ub", "i") + store("a", "x_ub", "half"), "c512"),
        [False],
    ),
    "stores closer than their width": (
        plus("c56", "c0", 56) + trips(load("a", "x_ub", "i") + store("a", "y_ub", "i"), "c512", "c56"),
        [False],
    ),
    "loads closer than their width": (
        trips(load("a", "x_ub", "i") + times("o", "i", 8) + store("a", "y_ub", "o"), "c128", "c8"),
        [True],
    ),
    "stores with gaps": (
        trips(load("a", "x_ub", "i") + add("s", "a", "a") + store("s", "y_ub", "i"), step="c128"),
        [True],
    ),
    "backwards": (
        trips(
            "%o = arith.subi %last, %i : index\n" + load("a", "x_ub", "i") + store("a", "y_ub", "o"),
        ),
        [True],
    ),
    "one window for all trips": (
        trips(load("a", "x_ub", "i") + store("a", "y_ub", "c0")),
        [False],
    ),
    "the same window for all loads": (
        trips(load("a", "x_ub", "c8") + store("a", "y_ub", "i")),
        [True],
    ),
    "two stores, the second one over the first": (
        trips(
            load("a", "x_ub", "i")
            + add("s", "a", "a")
            + store("a", "y_ub", "i")
            + '%h = pto.pset_b32 "PAT_VL8" : !pto.mask<b32>\n'
            + store("s", "y_ub", "i", "h"),
        ),
        [True],
    ),
    "two stores, of which the next trip overwrites one": (
        trips(
            plus("next", "i", 64)
            + load("a", "x_ub", "i")
            + add("s", "a", "a")
            + store("a", "y_ub", "i")
            + store("s", "y_ub", "next"),
            "c512",
        ),
        [False],
    ),
    "two stores, of which the second overwrites that of the trip before": (
        trips(
            plus("next", "i", 64)
            + load("a", "x_ub", "i")
            + add("s", "a", "a")
            + store("a", "y_ub", "next")
            + store("s", "y_ub", "i"),
            "c512",
        ),
        [True],
    ),
    "a store and a load of what it wrote": (
        trips(
            load("a", "x_ub", "i")
            + store("a", "y_ub", "i")
            + 'pto.mem_bar "VST_VLD"\n'
            + load("b", "y_ub", "i")
            + add("s", "b", "a")
            + store("s", "x_ub", "i"),
        ),
        [False],
    ),
    "counted down": (COUNTED, [True]),
    "pointers that move": (MOVED, [True]),
    "a register handed on": (REDUCED, [False]),
    "loops in each other": (outer(ROWS), [True]),
    "rows added to one": (
        outer(
            times("row", "r", 256)
            + trips(
                "%e = arith.addi %row, %i : index\n"
                + load("a", "x_ub", "e")
                + load("b", "y_ub", "i")
                + add("s", "a", "b")
                + store("s", "y_ub", "i"),
                "c256",
            )
        ),
        [False, True],
    ),
    "columns of rows": (
        trips(
            outer(
                times("row", "r", 256)
                + "%e = arith.addi %row, %i : index\n"
                + load("a", "x_ub", "e")
                + add("s", "a", "a")
                + store("s", "y_ub", "e")
            ),
            "c256",
        ),
        [True],
    ),
    "a scalar of each trip": (
        trips(
            f"%f = pto.load_scalar %x_ub[%i] : {F32} -> f32\n"
            + load("a", "x_ub", "i")
            + f"%s = pto.vadds %a, %f, %m : {V}, f32, !pto.mask<b32> -> {V}\n"
            + store("s", "y_ub", "i"),
        ),
        [True],
    ),
    "a scalar that a trip before has written": (
        trips(
            f"%f = pto.load_scalar %y_ub[%c8] : {F32} -> f32\n"
            + load("a", "x_ub", "i")
            + f"%s = pto.vadds %a, %f, %m : {V}, f32, !pto.mask<b32> -> {V}\n"
            + store("s", "y_ub", "i"),
        ),
        [False],
    ),
    "a condition": (
        trips(
            "%c = arith.cmpi slt, %i, %c256 : index\nscf.if %c {\n"
            + load("a", "x_ub", "i")
            + store("a", "y_ub", "i")
            + "}\n",
        ),
        [False],
    ),
    "elements": (
        trips(
            times("o", "i", 64)
            + load("a", "x_ub", "o")
            + f'pto.vsts %a, %y_ub[%i], %m {{dist = "1PT_B32"}} : {V}, {F32}, !pto.mask<b32>\n',
            "c16",
            "c1",
        ),
        [True],
    ),
    "a quotient of a number that wraps": (
        "%eight = arith.constant 8 : index\n%i16 = arith.constant 16 : i8\n"
        + trips(
            times("k", "i", 16)
            + "%t = arith.index_cast %k : index to i8\n%h = arith.divsi %t, %i16 : i8\n"
            + "%d = arith.index_cast %h : i8 to index\n%g = arith.addi %d, %eight : index\n"
            + times("e", "g", 64)
            + load("a", "x_ub", "e")
            + add("s", "a", "a")
            + store("s", "y_ub", "e"),
            "twelve",
            "c1",
        ),
        [False],
    ),
    "a quotient of a number that fits": (
        "%i16 = arith.constant 16 : i8\n"
        + trips(
            times("k", "i", 16)
            + "%t = arith.index_cast %k : index to i8\n%h = arith.divsi %t, %i16 : i8\n"
            + "%d = arith.index_cast %h : i8 to index\n"
            + times("e", "d", 64)
            + load("a", "x_ub", "e")
            + store("a", "y_ub", "e"),
            "c8",
            "c1",
        ),
        [True],
    ),
    "narrow counters": (
        "%i32 = arith.constant 64 : i32\n%n0 = arith.constant 0 : i32\n"
        "%left = scf.for %i = %c0 to %c16 step %c1 iter_args(%n = %n0) -> (i32) {\n"
        + "%e = arith.index_cast %n : i32 to index\n"
        + load("a", "x_ub", "e")
        + store("a", "y_ub", "e")
        + "%n1 = arith.addi %n, %i32 : i32\nscf.yield %n1 : i32\n}\n",
        [False],
    ),
}


def text_of(body: str, more: str = "") -> str:
    lines = "%last = arith.constant 960 : index\n%back = arith.constant -64 : index\n"
    lines += "%twelve = arith.constant 12 : index\n"
    return kernel(MASK + lines + more + body, {"x": "f32", "y": "f32"})


def drawn() -> dict[str, np.ndarray]:
    return {name: RNG.standard_normal(1024).astype(np.float32) for name in "xy"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_which_loops_are_executed_at_once(name: str, at_once: list[bool]) -> None:
    body, expected = PROGRAMS[name]
    # A program of its own: others are traced already.
    compiled = pto.compile(pto.parse(text_of(body, "%own = arith.constant 7 : index\n")), warn=False)
    jax.eval_shape(compiled, *drawn().values())
    assert at_once[: len(expected)] == expected


@pytest.mark.filterwarnings("ignore::pto_jax.errors.PtoWarning")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.variants(1)
def test_loops_of_registers(name: str) -> None:
    executed(text_of(PROGRAMS[name][0]), drawn())


@pytest.mark.variants(0)
@pytest.mark.filterwarnings("ignore::pto_jax.errors.PtoWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_of_registers_eagerly_and_jitted(name: str) -> None:
    executed(text_of(PROGRAMS[name][0]), drawn(), everywhere=True)


@pytest.mark.slow
def test_a_trip_that_leaves_the_memory_is_an_error_with_its_address(at_once: list[bool]) -> None:
    # Trip 9 is the first one that stores behind the 256 KiB: at 4096 + 9 * 64 * 120 * 4.
    body = trips(times("o", "i", 120) + load("a", "x_ub", "i") + store("a", "y_ub", "o"))
    program, arrays = pto.parse(text_of(body)), drawn()
    compiled = pto.compile(program, warn=False)
    for call in (compiled, compiled.eager):
        with pytest.raises(pto.ExecutionError, match="got byte 280576; allowed: bytes 0 to 262143 of"):
            call(**arrays)
    with pytest.raises(pto.ExecutionError, match=r"bytes \[280576, 280832\)"):
        oracle.run(program, arrays)
    assert at_once[0]


def dynamic(body: str) -> str:
    """A kernel whose loop has as many trips as an argument says."""
    text = kernel(MASK + body, {"x": "f32", "y": "f32"}, size=65536)
    return text.replace("%y: !pto.ptr<f32, gm>)", "%y: !pto.ptr<f32, gm>, %n: index, %base: i32)")


BASED = (
    f"%wide = arith.extsi %base : i32 to i64\n%b = pto.castptr %wide : i64 -> {F32}\n"
    "scf.for %i = %c0 to %n step %c1 {\n"
    + times("e", "i", 64)
    + load("a", "b", "e")
    + add("s", "a", "a")
    + store("s", "b", "e")
    + "}\n"
)
TAIL = (
    times("all", "n", 64) + "%k = arith.index_cast %all : index to i32\n"
    "%five = arith.constant 5 : i32\n%n0 = arith.subi %k, %five : i32\n"
    "%left = scf.for %i = %c0 to %n step %c1 iter_args(%c = %n0) -> (i32) {\n"
    "%p, %rest = pto.plt_b32 %c : i32 -> !pto.mask<b32>, i32\n"
    + times("e", "i", 64)
    + load("a", "x_ub", "e")
    + add("s", "a", "a", "p")
    + store("s", "y_ub", "e", "p")
    + "scf.yield %rest : i32\n}\n"
)


POINTERS = (
    f"%ends:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %x_ub, %q = %y_ub) -> ({F32}, {F32}) {{\n"
    f"%a, %p1 = pto.vlds %p[%c64] : {F32} -> {V}, {F32}\n"
    + add("s", "a", "a")
    + f"%q1 = pto.vsts %s, %q[%c64], %m : {V}, {F32}, !pto.mask<b32> -> {F32}\n"
    + f"scf.yield %p1, %q1 : {F32}, {F32}\n}}\n"
    + load("last", "x_ub", "c0")
    + f"pto.vsts %last, %ends#1[%c0], %m : {V}, {F32}, !pto.mask<b32>\n"
)
NESTED = (
    "scf.for %i = %c0 to %n step %c1 {\n"
    + times("row", "i", 128)
    + "scf.for %j = %c0 to %c128 step %c64 {\n%e = arith.addi %row, %j : index\n"
    + load("a", "x_ub", "e")
    + store("a", "y_ub", "e")
    + "}\n}\n"
)
#: A trip reads what the one before has written.
CHAINED = (
    "scf.for %i = %c0 to %n step %c1 {\n"
    + times("e", "i", 64)
    + load("a", "x_ub", "e")
    + plus("f", "e", 64)
    + store("a", "x_ub", "f")
    + "}\n"
)
IN_CHUNKS = {"based": BASED, "tail": TAIL, "pointers": POINTERS, "nested": NESTED, "chained": CHAINED}


@pytest.mark.variants(0)
@pytest.mark.parametrize("name", IN_CHUNKS)
def test_trips_that_only_execution_knows_are_executed_in_chunks(
    name: str, at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of 16 trips: none, one that is not full, several; alone and in a batch of other counts."""
    monkeypatch.setattr(together, "CHUNKS", (16,))
    program = pto.parse(dynamic(IN_CHUNKS[name]))
    compiled = pto.compile(program, warn=False)
    counts = np.array([0, 1, 16, 33, 100])
    x, y = (RNG.standard_normal((5, 16384)).astype(np.float32) for _ in range(2))
    base = np.full(5, 65536)
    together_found = jax.jit(jax.vmap(compiled))(x, y, counts, base)
    alone = jax.jit(compiled)
    for k, count in enumerate(counts):
        given = {"x": x[k], "y": y[k], "n": int(count), "base": 65536}
        found = alone(*given.values())
        for result, value in oracle.run(program, given).items():
            expected = np.asarray(value).tobytes()
            assert np.asarray(found[result]).tobytes() == expected, (result, count)
            assert np.asarray(together_found[result][k]).tobytes() == expected, (result, count)
    assert at_once[0] == (name != "chained")


@pytest.mark.slow
def test_trips_behind_the_last_one_break_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the last chunk that are too many would leave the memory."""
    monkeypatch.setattr(together, "CHUNKS", (16,))
    body = BASED.replace("%wide = arith.extsi", "%own = arith.constant 1 : index\n%wide = arith.extsi")
    compiled = pto.compile(pto.parse(dynamic(body)), warn=False, checks=True)
    x, y = (RNG.standard_normal(16384).astype(np.float32) for _ in range(2))
    _, report = compiled(x, y, 2, 262144 - 512)
    assert not report.problems()
    _, report = compiled(x, y, 3, 262144 - 512)
    assert "bytes from 262144 on" in str(report.problems()[0])
