"""Kernels called with arrays that are there lose nothing silently: what is outside raises with its place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.lowering import numpy_steps
from pto_jax.lowering.bits import x64
from pto_jax.runtime import judged_calls
from tests.runtime.conftest import Source

SIZE = 64
DTYPES = {"f32": np.float32, "i32": np.int32, "f16": np.float16}
ARGS = "%x: !pto.ptr<{0}>, %y: !pto.ptr<{0}>, %n: index"


@dataclass(frozen=True)
class Outside:
    """A program that accesses what is not there where %n is ``bad``, and nothing such where ``good``."""

    source: Source
    good: int
    bad: int
    instruction: str
    grid: int = 1


def _moved(d: str, offset: tuple[Any, Any], sizes: tuple[Any, Any] = (2, 16), store: bool = True) -> Source:
    """y or x at a run-time place of 4x16 matrices, through a 2x16 tile."""
    s = Source(ARGS.format(d)).view("%a", "%x", (4, 16), (16, 1)).view("%b", "%y", (4, 16), (16, 1))
    s.window("%p", "%av", (0, 0) if store else offset, sizes)
    s.window("%q", "%bv", offset if store else (0, 0), sizes)
    return s.tile("%t", d, 2, 16).load("%p", "%t").store("%t", "%q")


def _rows(d: str) -> Source:
    """Run-time rows of views that are larger than their buffers."""
    s = Source(ARGS.format(d)).view("%a", "%x", (64, 16), (16, 1)).view("%b", "%y", (64, 16), (16, 1))
    s.window("%p", "%av", (0, 0), ("%n", 16)).window("%q", "%bv", (0, 0), ("%n", 16))
    return s.tile("%t", d, 16, 16, valid=("%n", 16)).load("%p", "%t").store("%t", "%q")


def _loop(d: str) -> Source:
    s = Source(ARGS.format(d)).view("%a", "%x", (4, 16), (16, 1)).view("%b", "%y", (4, 16), (16, 1))
    s.tile("%t", d, 1, 16).do("%c0 = arith.constant 0 : index").do("%c1 = arith.constant 1 : index")
    s.do("scf.for %i = %c0 to %n step %c1 {").window("%p", "%av", ("%i", 0), (1, 16))
    return s.window("%q", "%bv", ("%i", 0), (1, 16)).load("%p", "%t").store("%t", "%q").do("}")


def _blocks(d: str) -> Source:
    """The block's number times %n is the row."""
    s = Source(ARGS.format(d)).view("%a", "%x", (4, 16), (16, 1)).view("%b", "%y", (4, 16), (16, 1))
    s.tile("%t", d, 1, 16).do("%k = pto.get_block_idx").do("%i = arith.index_cast %k : i64 to index")
    s.do("%r = arith.muli %i, %n : index").window("%p", "%av", ("%r", 0), (1, 16))
    return s.window("%q", "%bv", ("%r", 0), (1, 16)).load("%p", "%t").store("%t", "%q")


def _scalar(d: str, line: str) -> Source:
    s = Source(ARGS.format(d)).do("%c0 = arith.constant 0 : index")
    for part in line.format(d).split("; "):
        s.do(part)
    return s


def _called(d: str) -> Source:
    inner = Source("")
    inner.lines = []
    before = (
        f"  func.func private @put(%p: !pto.ptr<{d}>, %v: {d}, %i: index) {{\n"
        f"    pto.store_scalar %v, %p[%i] : !pto.ptr<{d}>, {d}\n    return\n  }}"
    )
    s = Source(ARGS.format(d), before=before).do("%c0 = arith.constant 0 : index")
    s.do(f"%v = pto.load_scalar %x[%c0] : !pto.ptr<{d}> -> {d}")
    return s.do(f"func.call @put(%y, %v, %n) : (!pto.ptr<{d}>, {d}, index) -> ()")


def _element(d: str, write: bool) -> Source:
    """An element of a tile at a run-time place."""
    s = Source(ARGS.format(d)).view("%a", "%x", (2, 32), (32, 1)).view("%b", "%y", (2, 32), (32, 1))
    s.tile("%t", d, 2, 32).load("%a", "%t").do("%c0 = arith.constant 0 : index")
    if write:
        s.do(f"%v = pto.load_scalar %x[%c0] : !pto.ptr<{d}> -> {d}")
        return s.op("tsetval", "%n: index", f"%v: {d}", out="%t").store("%t", "%b")
    s.do(f"%v = pto.tgetval ins(%t, %n : {s.types['%t']}, index) outs : {d}")
    return s.do(f"pto.store_scalar %v, %y[%c0] : !pto.ptr<{d}>, {d}").store("%t", "%b")


def _region(d: str) -> Source:
    """More valid rows than the tile has."""
    s = Source(ARGS.format(d)).view("%a", "%x", (4, 16), (16, 1)).view("%b", "%y", (4, 16), (16, 1))
    s.tile("%t", d, 4, 16, valid=("%n", 16)).load("%a", "%t").store("%t", "%b")
    return s


def _backwards(d: str) -> Source:
    """Rows from the last to the first: the stride is negative, the first row of the view is row %n."""
    s = Source(ARGS.format(d)).do("%c16 = arith.constant 16 : index").do("%f = arith.muli %n, %c16 : index")
    s.do(f"%r = pto.addptr %x, %f : !pto.ptr<{d}> -> !pto.ptr<{d}>")
    s._pointers["%r"] = d
    s.view("%a", "%r", (4, 16), (-16, 1)).view("%b", "%y", (4, 16), (16, 1))
    return s.tile("%t", d, 4, 16).load("%a", "%t").store("%t", "%b")


def _empty(d: str) -> Source:
    """Row %n of four, of which no element is valid."""
    s = Source(ARGS.format(d)).view("%a", "%x", (4, 16), (16, 1)).view("%b", "%y", (4, 16), (16, 1))
    s.do("%none = arith.constant 0 : index").window("%p", "%av", ("%n", 0), ("%none", 16))
    s.window("%q", "%bv", ("%n", 0), ("%none", 16))
    return s.tile("%t", d, 2, 16, valid=("%none", 16)).load("%p", "%t").store("%t", "%q")


def _steps(d: str) -> Source:
    """A loop in a loop, whose inner one begins where the outer one is."""
    s = Source(ARGS.format(d)).view("%a", "%x", (4, 16), (16, 1)).view("%b", "%y", (4, 16), (16, 1))
    s.tile("%t", d, 1, 16).do("%c1 = arith.constant 1 : index").do("%c4 = arith.constant 4 : index")
    s.do("%c0 = arith.constant 0 : index").do("scf.for %i = %c0 to %n step %c1 {")
    s.do("scf.for %j = %i to %n step %c4 {").window("%p", "%av", ("%i", 0), (1, 16))
    s.window("%q", "%bv", ("%j", 0), (1, 16)).load("%p", "%t").store("%t", "%q")
    return s.do("}").do("}")


_LOAD = "%v = pto.load_scalar {}[{}] : !pto.ptr<{{0}}> -> {{0}}"
_STORE = "pto.store_scalar %v, {}[{}] : !pto.ptr<{{0}}>, {{0}}"
_POINTER = "%p = pto.addptr {}, %n : !pto.ptr<{{0}}> -> !pto.ptr<{{0}}>"
FORMS: dict[str, Callable[[str], Outside]] = {
    "store below": lambda d: Outside(_moved(d, ("%n", 0)), 2, 3, "partition_view"),
    "store above": lambda d: Outside(_moved(d, ("%n", 0)), 0, -1, "partition_view"),
    "store beside": lambda d: Outside(_moved(d, (0, "%n")), 0, 1, "partition_view"),
    "load below": lambda d: Outside(_moved(d, ("%n", 0), store=False), 2, 4, "partition_view"),
    "load far away": lambda d: Outside(_moved(d, ("%n", 0), store=False), 0, 2**30, "partition_view"),
    "size of a window": lambda d: Outside(_moved(d, (2, 0), sizes=("%n", 16)), 2, 3, "partition_view"),
    "rows of a buffer": lambda d: Outside(_rows(d), 4, 5, "tload"),
    "loop": lambda d: Outside(_loop(d), 4, 5, "partition_view"),
    "blocks": lambda d: Outside(_blocks(d), 1, 2, "partition_view", grid=4),
    "rows backwards": lambda d: Outside(_backwards(d), 3, 2, "tload"),
    "rows backwards, behind": lambda d: Outside(_backwards(d), 3, 4, "tload"),
    "no rows": lambda d: Outside(_empty(d), 4, -1, "partition_view"),
    "loop in a loop": lambda d: Outside(_steps(d), 4, 5, "partition_view"),
    "scalar load": lambda d: Outside(
        _scalar(d, "; ".join((_LOAD.format("%x", "%n"), _STORE.format("%y", "%c0")))), 63, 64, "load_scalar"
    ),
    "scalar store": lambda d: Outside(
        _scalar(d, "; ".join((_LOAD.format("%x", "%c0"), _STORE.format("%y", "%n")))), 63, -1, "store_scalar"
    ),
    "pointer": lambda d: Outside(
        _scalar(d, "; ".join((_POINTER.format("%y"), _LOAD.format("%x", "%c0"), _STORE.format("%p", "%c0")))),
        5,
        2**30,
        "store_scalar",
    ),
    "called function": lambda d: Outside(_called(d), 63, 64, "store_scalar"),
    "element read": lambda d: Outside(_element(d, write=False), 63, 64, "tgetval"),
    "element written": lambda d: Outside(_element(d, write=True), 63, -1, "tsetval"),
    "valid rows": lambda d: Outside(_region(d), 4, 5, "alloc_tile"),
    "valid rows below zero": lambda d: Outside(_region(d), 0, -1, "alloc_tile"),
}


CASES = [pytest.param(form, d, id=f"{form}-{d}") for form in FORMS for d in DTYPES]


def arrays(d: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.arange(1, SIZE + 1).astype(DTYPES[d])
    return x, np.zeros_like(x)


def test_there_are_fifty_programs() -> None:
    assert len(CASES) >= 50


@pytest.mark.variants(1)
@pytest.mark.parametrize(("form", "d"), CASES)
def test_an_access_outside_raises_with_its_place(form: str, d: str) -> None:
    case = FORMS[form](d)
    program, (x, y) = case.source.program, arrays(d)
    kernel = pto.compile(program, grid=case.grid, partial_launch=True, warn=False)
    kept = kernel(x, y, case.good)["y"]
    for call in (kernel, kernel.eager):
        with pytest.raises(pto.ExecutionError) as caught:
            call(x, y, case.bad)
        first = caught.value.diagnostics[0]
        assert first.instruction == case.instruction and first.span is not None
    unchecked = pto.compile(program, grid=case.grid, partial_launch=True, warn=False, checks=False)
    np.testing.assert_array_equal(unchecked(x, y, case.good)["y"], kept)
    lost = unchecked(x, y, case.bad)["y"]
    np.testing.assert_array_equal(jax.jit(kernel)(x, y, case.bad)["y"], lost)


def test_numbers_of_good_calls_do_not_excuse_others() -> None:
    case = FORMS["store below"]("f32")
    kernel, (x, y) = pto.compile(case.source.program), arrays("f32")
    for n in (case.good, case.bad, case.good, case.bad, case.bad):
        if n == case.good:
            kernel(x, y, n)
            continue
        with pytest.raises(pto.ExecutionError, match="offset 3 and size 2"):
            kernel(x, y, n)
    with pytest.raises(pto.ExecutionError):
        kernel(x[:32], y[:32], case.good)


def test_a_call_inside_jit_tells_nothing_of_calls_outside() -> None:
    case = FORMS["store below"]("f32")
    kernel, (x, y) = pto.compile(case.source.program), arrays("f32")
    bad = np.asarray(case.bad, np.int32)
    jax.jit(lambda c: kernel(x, y, bad)["y"] + c)(np.float32(0))
    with pytest.raises(pto.ExecutionError):
        kernel(x, y, bad)


def test_numbers_that_memory_has_are_judged_in_every_call() -> None:
    line = f"{_LOAD.format('%x', '%c0')}; %i = arith.index_cast %v : {{0}} to index"
    source = _scalar("i32", f"{line}; {_STORE.format('%y', '%i')}")
    kernel, (x, y) = pto.compile(source.program), arrays("i32")
    for first in (3, SIZE, 5, -1):
        x[0] = first
        if 0 <= first < SIZE:
            assert kernel(x, y, 0)["y"][first] == first
            continue
        with pytest.raises(pto.ExecutionError, match=f"offset {first}"):
            kernel(x, y, 0)


@pytest.mark.variants(3)
@pytest.mark.parametrize("form", ["store below", "loop", "loop in a loop", "blocks", "no rows"])
def test_accesses_that_numbers_tell_are_not_waited_for(form: str) -> None:
    """Calls of equal numbers are one function without rules, the one that judges takes the number alone."""
    case = FORMS[form]("f32")
    kernel = pto.compile(case.source.program, grid=case.grid, partial_launch=True, warn=False)
    x, y = map(jax.numpy.asarray, arrays("f32"))
    n = jax.numpy.int32(case.good)
    kernel._calls.made.clear()  # Equal programs are one kernel.
    kernel(x, y, n)
    (judged,) = kernel._calls.made.values()
    assert judged is not None and judged.places == (2,) and len(judged.inside) == 1
    kernel(x, y, n)
    kernel(x=x, y=y, n=n)
    assert len(judged.inside) == 1 and list(judged.results(x, y, n)) == ["y"]


@pytest.mark.variants(3)
@pytest.mark.parametrize("form", ["store below", "loop", "loop in a loop", "blocks", "no rows"])
@pytest.mark.parametrize("limit", [judged_calls.SHORT, 1])
def test_the_first_numbers_are_judged_without_compiling(
    form: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy gives the flags of the compiled code; what takes too many steps is compiled."""
    monkeypatch.setattr(judged_calls, "SHORT", limit)
    case = FORMS[form]("f32")
    kernel = pto.compile(case.source.program, grid=case.grid, partial_launch=True, warn=False)
    x, y = map(jax.numpy.asarray, arrays("f32"))
    kernel._calls.made.clear()  # Equal programs are one kernel.
    kernel(x, y, jax.numpy.int32(case.good))
    (judged,) = kernel._calls.made.values()
    assert judged is not None and len(judged.inside) == 1
    assert judged.flags._cache_size() == (limit == 1)
    for n in (case.good, case.bad):
        numbers = [jax.numpy.int32(n)]
        with x64():
            flags = judged.flags(*numbers)
            soon = numpy_steps.soon(judged.flags.trace(*numbers).jaxpr, numbers, 10**6)[0]
        np.testing.assert_array_equal(soon, flags)
        assert soon.any() == (n == case.bad)


@pytest.mark.variants(2)
@pytest.mark.parametrize("form", ["store below", "loop", "loop in a loop", "blocks", "no rows"])
def test_all_rules_are_judged_apart_from_the_results(form: str) -> None:
    """With ``checks=True`` too; the message is that of the report that a call gives."""
    case = FORMS[form]("f32")
    kernel = pto.compile(case.source.program, grid=case.grid, partial_launch=True, checks=True, warn=False)
    x, y = map(jax.numpy.asarray, arrays("f32"))
    kernel._calls.made.clear()  # Equal programs are one kernel.
    outputs = kernel.checked(x, y, case.good)
    np.testing.assert_array_equal(outputs["y"], kernel(x, y, case.good)[0]["y"])
    (judged,) = kernel._calls.made.values()
    assert judged is not None and len(judged.inside) == 1 and judged.flags._cache_size() == 0
    with pytest.raises(pto.ExecutionError) as error:
        kernel.checked(x, y, case.bad)
    _, report = kernel(x, y, case.bad)
    assert list(error.value.diagnostics) == report.problems()


def test_what_a_message_shows_is_compiled_where_a_rule_is_broken() -> None:
    case = FORMS["store below"]("f32")
    kernel = pto.compile(case.source.program, warn=False)
    x, y = map(jax.numpy.asarray, arrays("f32"))
    kernel._calls.made.clear()  # Equal programs are one kernel.
    kernel(x, y, jax.numpy.int32(case.good))
    (judged,) = kernel._calls.made.values()
    assert judged is not None
    report: Any = judged.report
    assert report._cache_size() == 0
    with pytest.raises(pto.ExecutionError):
        kernel(x, y, jax.numpy.int32(case.bad))
    assert report._cache_size() == 1


def test_every_way_to_call_with_arrays_that_are_there_checks() -> None:
    case = FORMS["store below"]("f32")
    kernel, (x, y) = pto.compile(case.source.program), arrays("f32")
    number = np.asarray(case.bad, np.int32)
    for call in (
        lambda: kernel(x, y, number),
        lambda: kernel(x=x, y=y, n=case.bad),
        lambda: kernel(x.tolist(), jax.numpy.asarray(y), case.bad),
        lambda: kernel.with_state(x, y, case.bad),
        lambda: kernel.map((x[None], y[None], number[None])),
    ):
        with pytest.raises(pto.ExecutionError):
            call()


@pytest.mark.slow
def test_the_batch_indices_of_a_map_are_named() -> None:
    case = FORMS["store below"]("f32")
    kernel, (x, y) = pto.compile(case.source.program), arrays("f32")
    batch = {"x": np.tile(x, (5, 1)), "y": np.tile(y, (5, 1)), "n": np.array([0, 3, 1, 3, 2])}
    with pytest.raises(pto.ExecutionError, match="batch index 1, 3"):
        kernel.map(batch, chunk=5)
    unchecked = pto.compile(case.source.program, checks=False).map(batch)["y"]
    np.testing.assert_array_equal(unchecked[1].reshape(4, 16)[3], x[:16])


def test_transformations_and_closed_over_arrays_do_not_check() -> None:
    case = FORMS["store below"]("f32")
    kernel, (x, y) = pto.compile(case.source.program), arrays("f32")
    bad = np.asarray(case.bad, np.int32)
    lost = pto.compile(case.source.program, checks=False)(x, y, bad)["y"]
    np.testing.assert_array_equal(jax.jit(lambda n: kernel(x, y, n)["y"])(bad), lost)
    np.testing.assert_array_equal(jax.jit(lambda n: kernel(x, y, bad)["y"] + 0 * n)(np.float32(0)), lost)
    np.testing.assert_array_equal(jax.vmap(lambda n: kernel(x, y, n)["y"])(bad[None])[0], lost)
    scanned = jax.lax.scan(lambda c, n: (kernel(x, c, n)["y"], None), y, bad[None])[0]
    np.testing.assert_array_equal(scanned, lost)


@pytest.mark.parametrize("form", ["static", "loop"])
def test_accesses_that_are_certainly_inside_cost_nothing(form: str) -> None:
    if form == "static":
        source = _moved("f32", (1, 0))
    else:
        source = _loop("f32")
        source.lines = [line.replace("to %n step", "to %four step") for line in source.lines]
        source.lines.insert(0, "%four = arith.constant 4 : index")
    checked, plain = (pto.compile(source.program, checks=c) for c in (None, False))
    x, y = (jax.numpy.asarray(a) for a in arrays("f32"))
    n = jax.numpy.int32(0)
    with jax.enable_x64(True):
        code = [k._calls.whole.lower(x, y, n).as_text() for k in (checked, plain)]
    assert code[0] == code[1]
