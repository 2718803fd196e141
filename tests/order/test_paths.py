"""Paths that few numbers lead to, loops with tiles and flags in turns, and every two pipes of a core."""

from itertools import permutations

import pytest

import pto_jax as pto
from pto_jax.analysis.resolve import resolve
from pto_jax.order import judge
from pto_jax.order.judge import courses, judged_program
from pto_jax.order.numbers import ASSUMED
from tests.order.test_catalogue import FREE, POP, PUSH, STORE_ACC, SUBBLOCK, TO_LEFT, TO_MAT, TPUT
from tests.order.texts import (
    ACC,
    BARRIER,
    FLAG,
    HEAD,
    LEFT,
    MAT,
    RIGHT,
    F,
    T,
    add,
    branch,
    buffer,
    dynamic,
    judged,
    load,
    loop,
    section,
    set_,
    store,
    sync,
    told,
    wait,
)
from tests.text import emitted as cpp

SYNC = sync("MTE2", "V")
STEP = load("a") + SYNC + add("d", "a")
PARITY = "%slot = arith.remsi %k, %c2 : index\n%odd = arith.cmpi eq, %slot, %c1 : index\n"
TURN = PARITY + f"%t = arith.select %odd, %b, %a : {T}\n"
THREE = "%c3 = arith.constant 3 : index\n"
THIRD = (
    "%slot = arith.remsi %k, %c3 : index\n%odd = arith.cmpi eq, %slot, %c1 : index\n"
    "%two = arith.cmpi eq, %slot, %c2 : index\n"
    f"%t0 = arith.select %odd, %b, %a : {T}\n%t = arith.select %two, %e, %t0 : {T}\n"
)
PLACED = (
    "%slot = arith.remsi %k, %c2 : index\n%size = arith.constant 4096 : index\n"
    "%off = arith.muli %slot, %size : index\n%at = arith.index_cast %off : index to i64\n"
    f"%t = pto.alloc_tile addr = %at : {T}\n"
)


def primed(count: int) -> str:
    return "".join(set_("V", "MTE2", i) for i in range(count))


def drained(count: int) -> str:
    return "".join(wait("V", "MTE2", i) for i in range(count))


def turns(number: str = "slot") -> str:
    """A tile in turns, with the flag of a number."""
    begin, end = (dynamic(kind, "V", "MTE2", f"%{number}") for kind in ("wait", "set"))
    return begin + load("t") + SYNC + add("d", "t") + end


def compared(what: str, number: int, kind: str = "eq") -> str:
    return f"%nr = arith.constant {number} : index\n%is = arith.cmpi {kind}, %{what}, %nr : index\n"


def unless(body: str) -> str:
    """A body where a condition does not hold."""
    return branch("pto.barrier <PIPE_V>\n", body, "%is")


UP = "%up = arith.addi %k, %c1 : index\n%last = arith.cmpi eq, %up, %n : index\n"
OTHER = "%seven = arith.constant 7 : i32\n%small = arith.cmpi slt, %one, %seven : i32\n"
SWITCH = "scf.index_switch %n\ncase 0 {\n" + SYNC + "scf.yield\n}\ncase 7 {\nMIDDLE"
SWITCH += "scf.yield\n}\ndefault {\n" + BARRIER + "scf.yield\n}\n"
BACK = sync("V", "MTE2", 1)
WORDS = "".join(
    f"%w{n} = arith.index_cast %l{n} : i32 to index\n".join(
        (f"%l{n} = pto.load_scalar %words[%c{n}] : !pto.ptr<i32> -> i32\n", "")
    )
    for n in (1, 2)
)
MOST = "%most = arith.constant 1002 : index\n"
#: Two trips use a slot before the next two use the other one.
EVERY = (
    MOST + primed(2)
    + loop("%two = arith.divsi %k, %c2 : index\n%slot = arith.remsi %two, %c2 : index\n"
           "%rest = arith.remsi %k, %c2 : index\n%first = arith.cmpi eq, %rest, %c0 : index\n"
           f"%odd = arith.cmpi eq, %slot, %c1 : index\n%t = arith.select %odd, %b, %a : {T}\n"
           + branch(dynamic("wait", "V", "MTE2", "%slot") + load("t") + SYNC, condition="%first")
           + add("d", "t")
           + branch("LAST", dynamic("set", "V", "MTE2", "%slot"), "%first"), "%most")
    + drained(2)
)  # fmt: skip
#: Three slots in turns, by a number that is carried and begins again.
CARRIED = (
    THREE + MOST + primed(3)
    + "%end = scf.for %k = %c0 to %most step %c1 iter_args(%slot = %c0) -> (index) {\n"
    + "%i1 = arith.cmpi eq, %slot, %c1 : index\n%i2 = arith.cmpi eq, %slot, %c2 : index\n"
    + f"%t1 = arith.select %i1, %b, %a : {T}\n%t = arith.select %i2, %e, %t1 : {T}\n"
    + dynamic("wait", "V", "MTE2", "%slot") + load("t") + SYNC
    + "BODY%next = arith.addi %slot, %c1 : index\n%wrap = arith.cmpi eq, %next, %c3 : index\n"
    + "%new = arith.select %wrap, %c0, %next : index\nscf.yield %new : index\n}\n"
    + drained(3)
)  # fmt: skip
GIVEN = dynamic("set", "V", "MTE2", "%slot")
HALF = load("a") + unless(SYNC) + add("d", "a") + BACK
#: What is found where it is judged by all numbers: the body, and the findings.
WRONG: dict[str, tuple[str, set[str]]] = {
    "a number of the text": (compared("n", 42) + load("a") + unless(SYNC) + add("d", "a"), {"race MTE2->V"}),
    "a number that is loaded": (
        "%w1 = pto.load_scalar %words[%c0] : !pto.ptr<i32> -> i32\n"
        "%wi = arith.index_cast %w1 : i32 to index\n"
        + compared("wi", 42)
        + load("a")
        + unless(SYNC)
        + add("d", "a"),
        {"race MTE2->V"},
    ),
    "a number beyond those that are assumed": (
        compared("n", 1000, "sgt") + load("a") + unless(SYNC) + add("d", "a"),
        {"race MTE2->V"},
    ),
    "a remainder": (
        THREE
        + "%c9 = arith.constant 9 : index\n%rest = arith.remsi %n, %c9 : index\n"
        + compared("rest", 5)
        + load("a")
        + unless(SYNC)
        + add("d", "a"),
        {"race MTE2->V"},
    ),
    "a sum and a product": (
        "%x1 = arith.muli %n, %c4 : index\n%x2 = arith.addi %x1, %c2 : index\n"
        + compared("x2", 46)
        + load("a")
        + unless(SYNC)
        + add("d", "a"),
        {"race MTE2->V"},
    ),
    "a difference of numbers that are loaded": (
        WORDS + "%far = arith.subi %w2, %w1 : index\n" + compared("far", 127) + HALF,
        {"race MTE2->V"},
    ),
    "a negative number that is loaded in a loop": (
        loop(WORDS + compared("w1", 0, "slt") + HALF),
        {"race MTE2->V"},
    ),
    "a difference in one trip": (
        loop(
            WORDS + "%far = arith.subi %w2, %w1 : index\n%beyond = arith.addi %far, %k : index\n"
            + compared("beyond", 1000) + HALF,
            "%c4",
        ),
        {"race MTE2->V"},
    ),
    "a difference inside of a choice": (
        WORDS + "%far = arith.subi %w2, %w1 : index\n" + compared("far", 127)
        + branch(compared("n", 77).replace("%is", "%both").replace("%nr", "%mr")
                 + load("a") + unless(SYNC).replace("%is", "%both") + add("d", "a") + BACK,
                 condition="%is"),
        {"race MTE2->V"},
    ),
    "the smaller one of two large numbers": (
        WORDS + "%least = arith.minsi %w1, %w2 : index\n%part = arith.divsi %least, %c16 : index\n"
        "%other = arith.addi %n, %c64 : index\n%is = arith.cmpi sgt, %part, %other : index\n" + HALF,
        {"race MTE2->V"},
    ),
    "two numbers at once": (
        OTHER
        + compared("n", 4, "sgt")
        + load("a")
        + branch(SYNC, branch(SYNC, condition="%is"), "%small")
        + add("d", "a"),
        {"race MTE2->V"},
    ),
    "a case of a switch": (load("a") + SWITCH.replace("MIDDLE", "") + add("d", "a"), {"race MTE2->V"}),
    "one trip of 64": (
        loop(compared("k", 17) + load("a") + unless(SYNC) + add("d", "a") + BACK, "%c64"),
        {"race MTE2->V"},
    ),
    "one trip of 1000": (
        "%most = arith.constant 1000 : index\n"
        + loop(compared("k", 17) + load("a") + unless(SYNC) + add("d", "a") + BACK, "%most"),
        {"race MTE2->V"},
    ),
    "one of two trips that use a slot": (
        EVERY.replace("LAST", GIVEN).replace("} else {\n" + GIVEN, ""),
        {"race V->MTE2"},
    ),
    "three slots that are carried": (CARRIED.replace("BODY", GIVEN + add("d", "t")), {"race V->MTE2"}),
    "a barrier in every other trip": (
        loop(PARITY + branch(BARRIER, condition="%odd") + STEP),
        {"race V->MTE2"},
    ),
    "a barrier in the first trip": (loop(compared("k", 0) + branch(BARRIER, condition="%is") + STEP),
                                    {"race V->MTE2"}),
    "two tiles, three flags": (
        THREE + primed(3) + loop(TURN + "%id = arith.remsi %k, %c3 : index\n" + turns("id")) + drained(3),
        {"race V->MTE2"},
    ),
    "three tiles, two tokens": (
        THREE + primed(2) + loop(THIRD + turns()) + drained(3),
        {"deadlock"},
    ),
    "tiles at addresses in turns": (loop(PLACED + load("t") + SYNC + add("d", "t")), {"race V->MTE2"}),
    "a flag before the loads of an inner loop": (
        loop(load("a") + loop(SYNC).replace("%k", "%j") + add("d", "a") + BACK, "%c4"),
        {"race MTE2->V"},
    ),
    "a run-time number that no flag has": (
        "%c9 = arith.constant 9 : index\n"
        + dynamic("set", "V", "MTE3", "%c9")
        + dynamic("wait", "V", "MTE3", "%c9"),
        {"unmatched"},
    ),
    "run-time numbers up to 15": (
        loop(dynamic("set", "V", "MTE3", "%k") + dynamic("wait", "V", "MTE3", "%k"), "%c16"),
        {"unmatched"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_few_numbers_lead_to_is_found(name: str) -> None:
    body, expected = WRONG[name]
    assert set(told(judged(body))) == expected


#: Kernels that are right for all numbers.
CORRECT = {
    "three tiles, two flags": THREE
    + primed(2)
    + loop(THIRD + "%id = arith.remsi %k, %c2 : index\n" + turns("id"))
    + drained(2),
    "three tiles, three flags": THREE + primed(3) + loop(THIRD + turns()) + drained(3),
    "tiles at addresses in turns": primed(2) + loop(PLACED + turns()) + drained(2),
    "two trips that use a slot": EVERY.replace("LAST", ""),
    "three slots that are carried": CARRIED.replace("BODY", add("d", "t") + GIVEN),
    "a number that is carried": primed(2)
    + "%end = scf.for %k = %c0 to %n step %c1 iter_args(%slot = %c0) -> (index) {\n"
    + f"%odd = arith.cmpi eq, %slot, %c1 : index\n%t = arith.select %odd, %b, %a : {T}\n"
    + turns()
    + "%other = arith.subi %c1, %slot : index\nscf.yield %other : index\n}\n"
    + drained(2),
    "tiles that are carried": primed(2)
    + f"%end:2 = scf.for %k = %c0 to %n step %c1 iter_args(%t = %a, %u = %b) -> ({T}, {T}) {{\n"
    + PARITY
    + turns()
    + f"scf.yield %u, %t : {T}, {T}\n}}\n"
    + drained(2),
    "the last trip hands nothing on": compared("n", 0)
    + unless(
        set_("V", "MTE2")
        + loop(
            UP
            + wait("V", "MTE2")
            + STEP
            + branch("pto.barrier <PIPE_V>\n", set_("V", "MTE2"), "%last")
        )
    ),
    "not in the first trip": loop(
        compared("k", 0, "sgt") + branch(BARRIER, condition="%is") + STEP
    ),
    "two conditions that exclude each other": compared("n", 4, "slt")
    + "%not = arith.cmpi sge, %n, %nr : index\n"
    + branch(load("a") + set_("MTE2", "V"), condition="%is")
    + branch("pto.barrier <PIPE_V>\n", wait("MTE2", "V") + add("d", "a"), "%not"),
    "rotated": load("a")
    + set_("MTE2", "V")
    + loop(wait("MTE2", "V") + add("d", "a") + BACK + load("a") + set_("MTE2", "V"))
    + wait("MTE2", "V")
    + add("e", "a"),
    "a case of a switch": load("a") + SWITCH.replace("MIDDLE", sync("MTE2", "V", 2)) + add("d", "a"),
    "one trip of 64": loop(
        compared("k", 17) + load("a") + branch(BARRIER, SYNC, "%is") + add("d", "a") + BACK, "%c64"
    ),
    "a long loop of nothing": STEP + loop("", "%c64"),
    "a loop of nothing in another": STEP + loop(loop("").replace("%k", "%j")),
    "a branch of nothing": STEP + branch("", "") + loop(branch("", "")),
}  # fmt: skip


@pytest.mark.parametrize("name", CORRECT)
def test_what_is_right_for_all_numbers_is_not_reported(name: str) -> None:
    assert [str(f) for f in judged(CORRECT[name])] == []


PRODUCT = f"pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%acc : {ACC})\n"
OPERANDS = f"%l = pto.alloc_tile addr = %a0 : {LEFT}\n%r = pto.alloc_tile addr = %a0 : {RIGHT}\n"
MOVED = TO_LEFT.partition("\n")[2]
TO_MATRIX = f"pto.tmov ins(%acc : {ACC}) outs(%m : {MAT})\n"
ELEMENT = f"%f1 = arith.constant 1.0 : f32\npto.tsetval ins(%c0, %f1 : index, f32) outs(%a : {T})\n"
#: An operation of each pipe of the vector core that reads %a or writes it.
ON_A = {
    ("MTE2", "w"): load("a"),
    ("V", "r"): add("d", "a"),
    ("V", "w"): add("a", "b"),
    ("MTE3", "r"): store("a"),
    ("S", "r"): f"%got = pto.tgetval ins(%a, %c0 : {T}, index) outs : f32\n",
    ("S", "w"): ELEMENT,
}
PAIRS = [(one, two) for one, two in permutations(ON_A, 2) if one[0] != two[0] and "w" in (one[1], two[1])]


@pytest.mark.parametrize(("one", "two"), PAIRS, ids=lambda v: "".join(v))
def test_every_two_pipes_of_a_vector_core(one: tuple[str, str], two: tuple[str, str]) -> None:
    (p, q), (first, second) = (one[0], two[0]), (ON_A[one], ON_A[two])
    # What the scalar unit reads is there before it issues anything else.
    wrong = [] if one == ("S", "r") else [f"race {p}->{q}"]
    for between in (FLAG, sync(q, p) if q != "S" and p != "S" else FLAG):
        assert told(judged(first + between + second)) == wrong
    assert told(judged(sync(p, q) + first + second)) == wrong
    for between in (
        sync(p, q),
        BARRIER + FLAG,
        sync(p, "S") + sync("S", q) if "S" not in (p, q) else BARRIER,
    ):
        assert told(judged(first + between + second, as_written=True)) == []


CUBE = {
    ("MTE2", "MTE1"): (TO_MAT, MOVED),
    ("MTE1", "M"): (MOVED, PRODUCT),
    ("M", "FIX"): (PRODUCT, STORE_ACC),
    ("FIX", "MTE1"): (TO_MATRIX, MOVED),
    ("FIX", "MTE2"): (TO_MATRIX, TO_MAT),
}


@pytest.mark.parametrize("pipes", CUBE, ids=lambda v: "-".join(v))
def test_every_two_pipes_of_a_cube_core(pipes: tuple[str, str]) -> None:
    (p, q), (first, second) = pipes, CUBE[pipes]
    assert told(judged(OPERANDS + first + FLAG + second)) == [f"race {p}->{q}"]
    assert told(judged(OPERANDS + second + FLAG + first)) == [f"race {q}->{p}"]
    assert told(judged(OPERANDS + loop(first + sync(p, q) + second))) == [f"race {q}->{p}"]
    guarded = set_(q, p, 1) + loop(wait(q, p, 1) + first + sync(p, q) + second + set_(q, p, 1))
    assert told(judged(OPERANDS + guarded + wait(q, p, 1))) == []


TILE = "!pto.tile_buf<vec, 16x16xf32>"
LOADED = f"pto.tload ins(%h : {F}) outs(%hv : {TILE})\n"
HV = f"%hv = pto.alloc_tile addr = %a0 : {TILE}\n"


def test_as_many_slots_on_both_cores_are_no_deadlock_whatever_the_length_of_the_loops() -> None:
    trips = "%most = arith.constant 192 : index\n"
    cube = section("cube", OPERANDS + loop(PRODUCT + sync("M", "FIX") + PUSH + sync("FIX", "M", 1), "%most"))
    inner = loop(POP + FREE, "%c4").replace("%k", "%j")
    for vector, found in (
        (loop(POP + FREE, "%most"), set()),
        (loop(loop(inner, "%c16").replace("%k", "%outer"), "%c3"), set()),
        (loop(inner, "%c16"), {"deadlock"}),
    ):
        assert set(told(judged(trips + THREE + cube + section("vector", vector)))) == found


def test_a_later_line_without_a_loop_is_no_earlier_pass() -> None:
    """Both vector cores store to the same elements."""
    (found,) = judged(SUBBLOCK + store("a"))
    assert told([found]) == ["race MTE3->MTE3"] and "earlier pass" not in str(found)
    (found,) = judged(SUBBLOCK + loop(store("a") + "pto.barrier <PIPE_ALL>\n"))
    assert told([found]) == ["race MTE3->MTE3"]


def test_a_core_that_is_a_pass_ahead_misses_the_flag_back() -> None:
    cube = loop(STORE_ACC + "pto.sync.set <PIPE_FIX>, 2\n")
    vector = HV + loop("pto.sync.wait <PIPE_MTE2>, 2\n" + LOADED)
    (found,) = judged(section("cube", cube) + section("vector", vector))
    assert told([found]) == ["race MTE2->FIX"] and "in an earlier pass of the loop" in str(found)
    cube = loop("pto.sync.wait <PIPE_FIX>, 4\n" + STORE_ACC + "pto.sync.set <PIPE_FIX>, 2\n")
    vector = HV + loop("pto.sync.wait <PIPE_MTE2>, 2\n" + LOADED + "pto.sync.set <PIPE_MTE2>, 4\n")
    vector = vector.replace(HV, HV + "pto.sync.set <PIPE_MTE2>, 4\n")
    assert "race MTE2->FIX" not in told(judged(section("cube", cube) + section("vector", vector)))


def bracketed(kind: str, body: str, number: int = 1) -> str:
    return buffer("get", kind, number) + body + buffer("rls", kind, number)


def taken(pipe: str, number: str, body: str) -> str:
    get, rls = (f'pto.{kind}_buf_dyn "PIPE_{pipe}", %{number}, 0\n' for kind in ("get", "rls"))
    return get + body + rls


@pytest.mark.parametrize("turn", [PLACED, TURN], ids=["address", "select"])
def test_buffer_tokens_alone_order_a_program(turn: str) -> None:
    """Nothing is inserted into a function with buffer tokens, and run-time numbers tell them apart."""
    right = loop(bracketed("TLOAD", load("a")) + bracketed("TVEC", add("d", "a")))
    assert told(judged(right, "a5", as_written=False)) == []
    outside = bracketed("TLOAD", load("a")) + add("d", "a")
    assert told(judged(outside, "a5", as_written=False)) == ["race MTE2->V"]
    dyn = loop(turn + taken("MTE2", "slot", load("t")) + taken("V", "slot", add("d", "t")))
    assert told(judged(dyn, "a5", as_written=False)) == []
    other = "%s1 = arith.subi %c1, %slot : index\n"
    wrong = loop(turn + other + taken("MTE2", "slot", load("t")) + taken("V", "s1", add("d", "t")))
    assert set(told(judged(wrong, "a5", as_written=False))) == {"race MTE2->V"}


def test_flags_in_a_function_that_is_called() -> None:
    call = f"func.call @g(%a, %d) : ({T}, {T}) -> ()\n"
    body = f"pto.tadd ins(%t, %t : {T}, {T}) outs(%u : {T})\n"

    def program(lines: str, inside: str) -> str:
        called = f"func.func private @g(%t: {T}, %u: {T}) {{\n{inside}return\n}}\n"
        return HEAD + lines + "return\n}\n" + called

    for lines, inside, found in (
        (load("a") + set_("MTE2", "V") + call, wait("MTE2", "V") + body, []),
        (load("a") + FLAG + call, body, ["race MTE2->V"]),
        (loop(load("a") + call), SYNC + body, ["race V->MTE2"]),
        (load("a") + SYNC + call + BACK + load("a") + call, body, ["race MTE2->V"]),
    ):
        assert told(judged(program(lines, inside))) == found


def test_arrays_and_multi_tiles_of_fragments_are_arguments() -> None:
    tiles = f"!pto.multi_tile_buf<{T}, count=2>"
    text = (
        f"%t = pto.multi_tile_get %m[%i] : {tiles} -> {T}\n"
        "pto.local_array_set %x[%i, %i], %v : !pto.local_array<4x8xf32>, f32\n"
        f"pto.tload ins(%w : !pto.partition_tensor_view<16x64xf32>) outs(%t : {T})\n"
        "pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]\n" + add("t", "t")
    )
    resolved = resolve(pto.parse(text), pto.profile("a2a3"))
    assert told(list(judge(resolved, as_written=True))) == ["race MTE2->V"]


@pytest.mark.parametrize("nested", [False, True])
def test_a_function_is_executed_by_the_core_of_the_section_that_calls_it(nested: bool) -> None:
    calls = {name: f"func.call @{name}(%a, %d) : ({T}, {T}) -> ()\n" for name in ("g", "h")}
    bodies = {"h": calls["g"].replace("%a, %d", "%t, %u"), "g": f"pto.texp ins(%t : {T}) outs(%u : {T})\n"}
    functions = [
        f"func.func private @{n}(%t: {T}, %u: {T}) {{\n{body}return\n}}\n" for n, body in bodies.items()
    ]
    call = calls["h" if nested else "g"]

    def program(before: str, behind: str) -> str:
        body = section("vector", load("a") + before + call + behind + store("d"))
        return "\n".join([HEAD + body + "return\n}", *functions])

    to_store = sync("V", "MTE3")
    assert told(judged(program(SYNC, to_store))) == []
    assert told(judged(program("", to_store))) == ["race MTE2->V"]
    assert told(judged(program(SYNC, ""))) == ["race V->MTE3"]
    assert told(judged(program("", ""), as_written=False)) == []


def test_nothing_is_inserted_into_emitted_text() -> None:
    """A kernel that the assembler has emitted without a flag is judged as it stands."""
    body = cpp.tile("v10") + cpp.tile("v11", "1024") + cpp.view("v12", "v1") + "TLOAD(v10, v12);\n"
    body += "TADD(v11, v10, v10);\n"
    program = pto.parse(cpp.file(body), file="k.cpp")
    (found,) = pto.races(program, "a2a3")
    assert told([found]) == ["race MTE2->V"] and found.mode == "as-written"
    assert any(d.rule == "hazard" for d in pto.verify(program, "a2a3"))
    assert pto.races(pto.parse(str(program)), "a2a3") == []


def test_courses_that_take_the_same_way_are_followed_once() -> None:
    program = pto.parse(HEAD + loop(STEP) + "return\n}", "k.pto")
    order = judged_program(resolve(program, pto.profile("a2a3")))
    ways = [run.course.numbers[0] for run in courses(order, program.functions[0])]
    assert ways == [*ASSUMED, 16]


LOW = "%low = arith.remsi %n, %c2 : index\n"
NUMBERED = "%up = arith.addi %n, %c1 : index\n" + load("a") + dynamic("set", "MTE2", "V", "%n")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (NUMBERED + dynamic("wait", "MTE2", "V", "%up"), "pto.set_flag_dyn [<PIPE_MTE2>, <PIPE_V>, %up]"),
        (LOW + dynamic("set", "MTE2", "V", "%low"), "pto.wait_flag_dyn [<PIPE_MTE2>, <PIPE_V>, %low]"),
        (
            set_("MTE2", "MTE3") + TPUT + wait("MTE2", "MTE3"),
            "pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]",
        ),
        (
            "pto.wait_event[<TLOAD>, <TVEC>, <EVENT_ID3>]\n",
            "pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID3>]",
        ),
    ],
    ids=["a wait", "a signal", "a copy with its own flag", "an event"],
)
def test_the_other_half_of_a_flag_can_be_pasted(body: str, line: str) -> None:
    (found,) = judged(body)
    assert f"try: {line} " in found.missing
    assert pto.parse(HEAD + body + line + "\nreturn\n}")
