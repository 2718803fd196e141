"""Pipes under control flow that only execution knows: cores enter its regions together."""

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from tests.runtime.test_cores import PRODUCT, A, H, L, R, equal_everywhere, matrices, pipe_program, put

PUSH = f"{PRODUCT}\n pto.tpush_to_aiv(%a : {A}) {{split = 1}}"
POP = f"%t = pto.tpop_from_aic {{split = 1}} -> {H}"
FREE = "pto.tfree_from_aic {split = 1}"
ROW = """%half = arith.muli %s, %c8 : index
    %at = arith.muli %i, %c16 : index
    %row = arith.addi %at, %half : index"""
STORE = f"{POP}\n {ROW}\n {put('t', H, '%row', 8, 16)}\n {FREE}"


def loop(last: str, body: str) -> str:
    return f"scf.for %i = %c0 to {last} step %c1 {{ {body} }}"


@pytest.mark.slow
def test_loops_of_as_many_trips() -> None:
    x, y = matrices()
    text = pipe_program(loop("%n", PUSH), loop("%n", STORE))
    for n in (0, 1, 3):
        out = equal_everywhere(text, x, y, n)["y"]
        assert (out[: 16 * n] == np.tile(x[:16] @ x[:16], (n, 1))).all() and (
            out[16 * n :] == y[16 * n :]
        ).all()


@pytest.mark.slow
def test_branches_inside_loops() -> None:
    x, y = matrices()
    condition = "%even = arith.remsi %i, %c2 : index\n %g = arith.cmpi eq, %even, %c0 : index"

    def guarded(body: str) -> str:
        return loop("%n", f"{condition}\n scf.if %g {{ {body} }}")

    out = equal_everywhere(pipe_program(guarded(PUSH), guarded(STORE)), x, y, 3)["y"]
    assert (out[:16] == out[32:48]).all() and (out[16:32] == y[16:32]).all()


def test_a_loop_that_hands_on_more_than_it_takes_is_refused_with_its_place() -> None:
    x, y = matrices()
    text = pipe_program(loop("%n", f"{PUSH}\n pto.tpush_to_aiv(%a : {A}) {{split = 1}}"), loop("%n", STORE))
    kernel = pto.compile(pto.parse(text), "a5")
    with pytest.raises(pto.NotExecutableError, match="a region that leaves more tiles in a pipe") as found:
        kernel(x, y, 2)
    assert found.value.diagnostics[0].span is not None


@pytest.mark.slow
def test_a_long_loop_of_known_trips_that_leaves_tiles_is_written_out() -> None:
    """The tiles of each trip are taken in the next one."""
    x, y = matrices()
    more = f"{PRODUCT}\n pto.tpush_to_aiv(%a : {A}) {{split = 1}}"
    cube = f"{more}\n {loop('%c256', PUSH)}"
    vector = f"{loop('%c256', f'{POP} {FREE}')}\n %i = arith.constant 0 : index\n {STORE}"
    out = equal_everywhere(pipe_program(cube, vector), x, y, 1)["y"]
    assert (out[:16] == x[:16] @ x[:16]).all()


def test_loops_of_other_trips_break_a_rule() -> None:
    x, y = matrices()
    text = pipe_program(loop("%n", PUSH), f"%k = arith.addi %n, %c1 : index\n {loop('%k', STORE)}")
    program = pto.parse(text)
    with pytest.raises(pto.ExecutionError, match="for ever"):
        oracle.run(program, (x, y, 1), profile="a5")
    _, report = pto.compile(program, "a5", checks=True)(x, y, 1)
    assert [d.rule for d in report.problems()] == ["cores", "cores"]  # one of each vector core


def test_a_loop_beside_a_branch_is_refused() -> None:
    x, y = matrices()
    branch = f"%i = arith.constant 0 : index\n %g = arith.cmpi eq, %n, %c1 : index\n scf.if %g {{ {STORE} }}"
    kernel = pto.compile(pto.parse(pipe_program(loop("%n", PUSH), branch)), "a5")
    with pytest.raises(pto.NotExecutableError, match="allowed: loops and branches that all cores"):
        kernel(x, y, 1)


@pytest.mark.slow
def test_tiles_may_wait_in_the_pipe_from_one_trip_to_the_next() -> None:
    """The producer is one tile ahead: what is in the pipe is carried through the loops."""
    x, y = matrices()
    cube = f"{PUSH}\n {loop('%n', PUSH)}"
    late = f"%i = arith.addi %n, %c0 : index\n {STORE}"
    text = pipe_program(cube, f"{loop('%n', STORE)}\n {late}")
    for n in (0, 2):
        out = equal_everywhere(text, x, y, n)["y"]
        assert (out[: 16 * n + 16] == np.tile(x[:16] @ x[:16], (n + 1, 1))).all()
        assert (out[16 * n + 16 :] == y[16 * n + 16 :]).all()


@pytest.mark.slow
def test_tiles_that_wait_are_those_of_the_branch_that_was_taken() -> None:
    x, y = matrices()
    cube = f"""{PUSH}
    %g = arith.cmpi eq, %n, %c1 : index
    scf.if %g {{ pto.tmatmul.acc ins(%a, %l, %r : {A}, {L}, {R}) outs(%a : {A})
      pto.tpush_to_aiv(%a : {A}) {{split = 1}} }} else {{ pto.tpush_to_aiv(%a : {A}) {{split = 1}} }}"""
    second = (
        STORE.replace("%t", "%u").replace("%half", "%half2").replace("%at", "%at2").replace("%row", "%row2")
    )
    vector = f"""%i = arith.constant 0 : index
    %g = arith.cmpi eq, %n, %c1 : index
    scf.if %g {{ {STORE} }} else {{ {STORE} }}
    %j = arith.constant 1 : index
    {second.replace("%i,", "%j,")}"""
    for n in (0, 1):
        out = equal_everywhere(pipe_program(cube, vector), x, y, n)["y"]
        assert (out[:16] == x[:16] @ x[:16]).all()
        assert (out[16:32] == (1 + n) * (x[:16] @ x[:16])).all()


def while_loop(last: str, body: str, *, before: str = "", start: str = "%c0") -> str:
    """Counts from a start; pipes may also be used in front of the condition."""
    return f"""%end = scf.while (%i = {start}) : (index) -> index {{
      {before}
      %more = arith.cmpi slt, %i, {last} : index
      scf.condition(%more) %i : index
    }} do {{
    ^bb0(%i: index):
      {body}
      %next = arith.addi %i, %c1 : index
      scf.yield %next : index
    }}"""


@pytest.mark.slow
def test_while_loops_of_as_many_trips() -> None:
    x, y = matrices()
    text = pipe_program(while_loop("%n", PUSH), while_loop("%n", STORE))
    for n in (0, 1, 3):
        out = equal_everywhere(text, x, y, n)["y"]
        assert (out[: 16 * n] == np.tile(x[:16] @ x[:16], (n, 1))).all()
        assert (out[16 * n :] == y[16 * n :]).all()


@pytest.mark.slow
def test_while_loops_with_pipes_in_front_of_the_condition() -> None:
    """One tile more than there are trips; the last one is in no body."""
    x, y = matrices()
    text = pipe_program(while_loop("%n", "", before=PUSH), while_loop("%n", "", before=STORE))
    for n in (0, 2):
        out = equal_everywhere(text, x, y, n)["y"]
        assert (out[: 16 * n + 16] == np.tile(x[:16] @ x[:16], (n + 1, 1))).all()
        assert (out[16 * n + 16 :] == y[16 * n + 16 :]).all()


@pytest.mark.slow
def test_tiles_may_wait_in_the_pipe_from_one_trip_of_a_while_loop_to_the_next() -> None:
    x, y = matrices()
    late = f"%i = arith.addi %n, %c0 : index\n {STORE}"
    text = pipe_program(f"{PUSH}\n {while_loop('%n', PUSH)}", f"{while_loop('%n', STORE)}\n {late}")
    for n in (0, 2):
        out = equal_everywhere(text, x, y, n)["y"]
        assert (out[: 16 * n + 16] == np.tile(x[:16] @ x[:16], (n + 1, 1))).all()


@pytest.mark.slow
def test_a_while_loop_whose_course_the_text_shows() -> None:
    x, y = matrices()
    out = equal_everywhere(pipe_program(while_loop("%c3", PUSH), while_loop("%c3", STORE)), x, y, 0)["y"]
    assert (out[:48] == np.tile(x[:16] @ x[:16], (3, 1))).all() and (out[48:] == y[48:]).all()


@pytest.mark.slow
def test_while_loops_of_other_trips_break_a_rule() -> None:
    x, y = matrices()
    last = "%k = arith.addi %n, %c1 : index"
    program = pto.parse(pipe_program(while_loop("%n", PUSH), f"{last}\n {while_loop('%k', STORE)}"))
    with pytest.raises(pto.ExecutionError, match="for ever"):
        oracle.run(program, (x, y, 1), profile="a5")
    _, report = pto.compile(program, "a5", checks=True)(x, y, 1)
    assert {d.rule for d in report.problems()} == {"cores"}
    _, report = pto.compile(
        pto.parse(pipe_program(while_loop("%n", PUSH), while_loop("%n", STORE))), "a5", checks=True
    )(x, y, 1)
    assert not report.problems()


def test_a_while_loop_that_hands_on_more_than_it_takes_is_refused() -> None:
    x, y = matrices()
    more = f"{PUSH}\n pto.tpush_to_aiv(%a : {A}) {{split = 1}}"
    kernel = pto.compile(pto.parse(pipe_program(while_loop("%n", more), while_loop("%n", STORE))), "a5")
    with pytest.raises(pto.NotExecutableError, match="a region that leaves more tiles in a pipe"):
        kernel(x, y, 2)


@pytest.mark.slow
def test_a_while_loop_with_pipes_that_never_ends_stops() -> None:
    x, y = matrices()
    ever = "arith.cmpi eq, %i, %i"
    cube = while_loop("%n", PUSH).replace("arith.cmpi slt, %i, %n", ever)
    vector = while_loop("%n", f"{POP}\n {FREE}").replace("arith.cmpi slt, %i, %n", ever)
    program = pto.parse(pipe_program(cube, vector))
    with pytest.raises(pto.ExecutionError, match="got more than 5 trips"):
        oracle.run(program, (x, y, 1), profile="a5", max_steps=5)
    _, report = pto.compile(program, "a5", checks=True, max_steps=5)(x, y, 1)
    assert {d.rule for d in report.problems()} == {"steps"}


@pytest.mark.slow
def test_short_while_loops_of_unknown_course_are_no_straight_line() -> None:
    x, y = matrices()
    text = pipe_program(while_loop("%n", PUSH), while_loop("%n", STORE))
    out = pto.compile(pto.parse(text), "a5", max_steps=2)(x, y, 1)["y"]
    assert (np.asarray(out)[16:] == y[16:]).all() and (np.asarray(out)[:16] == x[:16] @ x[:16]).all()
