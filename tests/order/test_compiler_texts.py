"""Texts that compiler engineers write: each right one beside the same text with one flag or barrier wrong."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.order.test_catalogue import LOAD_H, STORE_ACC
from tests.order.texts import (
    ACC,
    BARRIER,
    HEAD,
    LEFT,
    MAT,
    RIGHT,
    G,
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


class Pair(NamedTuple):
    """A right text, the wrong one, what is found there, and the profile."""

    right: str
    wrong: str
    found: set[str]
    profile: str = "a2a3"


IN, OUT = sync("MTE2", "V"), sync("V", "MTE3")
FREE_IN, FREE_OUT = sync("V", "MTE2", 1), sync("MTE3", "V", 1)
BODY = load("a") + IN + add("d", "a") + OUT + store("d") + FREE_IN + FREE_OUT
LOADED, USED = set_("MTE2", "V"), wait("MTE2", "V")


def named(body: str, name: str, trips: str = "%n", step: str = "%c1", first: str = "%c0") -> str:
    """A loop with a counter of its own name."""
    return f"scf.for %{name} = {first} to {trips} step {step} {{\n{body}}}\n"


def callee(lines: str, inside: str, arguments: str = f"%t: {T}, %u: {T}") -> str:
    """A text that calls g."""
    return HEAD + lines + f"return\n}}\nfunc.func private @g({arguments}) {{\n{inside}return\n}}\n"


CALL = f"func.call @g(%a, %d) : ({T}, {T}) -> ()\n"
ADDED = f"pto.tadd ins(%t, %t : {T}, {T}) outs(%u : {T})\n"
HANDED = set_("V", "MTE2", 5) + loop(wait("V", "MTE2", 5) + load("a") + IN + CALL) + wait("V", "MTE2", 5)
SLOT = "%slot = arith.remsi %k, %c2 : index\n"
TURN = SLOT + "%odd = arith.cmpi eq, %slot, %c1 : index\n" + f"%t = arith.select %odd, %b, %a : {T}\n"
NESTED = (
    "%n41 = arith.constant 41 : index\n%o77 = arith.constant 1777 : i32\n"
    "%is41 = arith.cmpi eq, %n, %n41 : index\n%is77 = arith.cmpi eq, %one, %o77 : i32\n"
    + branch(branch("INNER", IN, "%is77"), IN, "%is41")
)
MORE = "%np = arith.addi %n, %c1 : index\n"
LOW = "%low = arith.remsi %n, %c2 : index\n%high = arith.addi %low, %c2 : index\n"
SUM = (
    "%sum = arith.addi %k, %n : index\n%one2 = arith.remsi %sum, %c2 : index\n"
    "%two2 = arith.subi %c1, %one2 : index\n"
)
OTHER = (
    "%oe = arith.index_cast %one : i32 to index\n%o5 = arith.addi %oe, %c4 : index\n"
    "%op = arith.addi %o5, %c1 : index\n"
)
AFTER = load("a") + IN + add("d", "a")
LAST = "%more = arith.subi %n, %c1 : index\n"
LEFT_OF = f"%l = pto.alloc_tile addr = %a0 : {LEFT}\n%r = pto.alloc_tile addr = %a0 : {RIGHT}\n"
MATS = f"pto.tload ins(%g : {G}) outs(%m : {MAT})\n"
TO_LEFT = f"pto.tmov ins(%m : {MAT}) outs(%l : {LEFT})\n"
TO_RIGHT = f"pto.tmov ins(%m : {MAT}) outs(%r : {RIGHT})\n"
PRODUCT = f"pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%acc : {ACC})\n"
HALF = "!pto.partition_tensor_view<8x64xf32>"
HT = "!pto.tile_buf<vec, 8x64xf32>"
HALVES = (
    "%c8 = arith.constant 8 : index\n%c7 = arith.constant 7 : index\n"
    f"%up8 = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c64] "
    f": !pto.tensor_view<?x?xf32> -> {HALF}\n"
    f"%low8 = pto.partition_view %v, offsets = [%FIRST, %c0], sizes = [%c8, %c64] "
    f": !pto.tensor_view<?x?xf32> -> {HALF}\n"
    f"%ha = pto.alloc_tile addr = %a0 : {HT}\n%hb = pto.alloc_tile addr = %a1 : {HT}\n"
    f"pto.tstore ins(%ha : {HT}) outs(%up8 : {HALF})\npto.tload ins(%low8 : {HALF}) outs(%hb : {HT})\n"
    + sync("V", "M", 7)
)
WHILE = (
    "%wh = scf.while (%x = %c0) : (index) -> index {\n%go = arith.cmpi slt, %x, %n : index\n"
    "scf.condition(%go) %x : index\n} do {\n^bb0(%y: index):\nBODY%next = arith.addi %y, %c1 : index\n"
    "scf.yield %next : index\n}\n"
)
SWAP = (
    f"%f:2 = scf.for %k = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> ({T}, {T}) {{\nBODY"
    f"scf.yield %y, %x : {T}, {T}\n}}\n"
)
LOAD_X = load("x")
ADD_X = f"pto.tadd ins(%x, %x : {T}, {T}) outs(%d : {T})\n"
PICK = "%e0 = arith.select %c, %c0, %c1 : index\n"
#: A prefetch into the other one of two slots; the last slot is that of the number of trips.
AHEAD = (
    LAST + load("a") + set_("MTE2", "V")
    + loop(SLOT + "%next = arith.subi %c1, %slot : index\n%odd = arith.cmpi eq, %slot, %c1 : index\n"
           + f"%t = arith.select %odd, %b, %a : {T}\n%u = arith.select %odd, %a, %b : {T}\n"
           + load("u") + dynamic("set", "MTE2", "V", "%next") + dynamic("wait", "MTE2", "V", "%slot")
           + add("d", "t") + sync("V", "MTE2", 1), "%more")
    + "%least = arith.maxsi %more, %c0 : index\n%end = arith.remsi %least, %c2 : index\n"
    + f"%high = arith.cmpi eq, %end, %c1 : index\n%t = arith.select %high, %b, %a : {T}\n"
    + dynamic("wait", "MTE2", "V", "%end") + add("e", "t")
)  # fmt: skip
MANY = "%many = arith.cmpi sgt, %n, %c4 : index\n%id = arith.select %many, %c1, %c0 : index\n" + branch(
    load("a") + set_("MTE2", "V", 1), load("a") + set_("MTE2", "V", 0), "%many"
)
LEAST = MANY.replace("arith.select %many, %c1, %c0", "arith.minsi %n, %c1")
PARITY = (
    "%end = arith.remsi %n, %c2 : index\n%high = arith.cmpi eq, %end, %c1 : index\n"
    "%wide = arith.index_cast %end : index to i64\n%at = arith.muli %wide, %a1 : i64\n"
    f"%t = pto.alloc_tile addr = %at : {T}\n"
)


def picked(kind: str) -> str:
    return dynamic(kind, "MTE2", "V", "%e0")


EVEN = "%two = arith.remsi %k, %c2 : index\n%is = arith.cmpi eq, %two, %c0 : index\n"
CUBE, HV = STORE_ACC, LOAD_H.split("L", 1)[0]
LOAD_HV = LOAD_H.split("L", 1)[1]
SET_C, WAIT_V = "pto.sync.set <PIPE_FIX>, 2\n", "pto.sync.wait <PIPE_MTE2>, 2\n"
SET_V, WAIT_C = "pto.sync.set <PIPE_MTE2>, 4\n", "pto.sync.wait <PIPE_FIX>, 4\n"


def crossed(cube: str, vector: str) -> str:
    return section("cube", cube) + section("vector", HV + vector)


PAIRS: dict[str, Pair] = {
    "a loop with its four flags": Pair(loop(BODY), loop(BODY.replace(FREE_IN, "")), {"race V->MTE2"}),
    "the store is still under way": Pair(
        loop(BODY), loop(BODY.replace(FREE_OUT, "")), {"race MTE3->V"}
    ),
    "an inner loop between": Pair(
        loop(load("a") + IN + named(add("d", "a"), "j") + FREE_IN),
        loop(load("a") + IN + FREE_IN + named(add("d", "a"), "j")),
        {"race V->MTE2"},
    ),
    "a token through two loops": Pair(
        set_("V", "MTE2", 3)
        + loop(named(wait("V", "MTE2", 3) + load("a") + IN + add("d", "a") + set_("V", "MTE2", 3), "j"))
        + wait("V", "MTE2", 3),
        set_("V", "MTE2", 3)
        + loop(named(wait("V", "MTE2", 3) + load("a") + IN + add("d", "a") + set_("V", "MTE2", 3), "j")
               + wait("V", "MTE2", 3)),
        {"deadlock", "unmatched"},
    ),
    "a token that is primed in the outer loop": Pair(
        loop(set_("V", "MTE2", 3) + named(wait("V", "MTE2", 3) + load("a") + IN + add("d", "a")
                                          + set_("V", "MTE2", 3), "j") + wait("V", "MTE2", 3)),
        loop(set_("V", "MTE2", 3) + named(wait("V", "MTE2", 3) + load("a") + IN + add("d", "a")
                                          + set_("V", "MTE2", 3), "j")),
        {"unmatched"},
    ),
    "a peeled tail": Pair(
        LAST + loop(BODY, "%more") + BODY,
        LAST + loop(BODY, "%more").replace(FREE_OUT, "") + BODY,
        {"race MTE3->V"},
    ),
    "a tail that lacks its flag": Pair(
        LAST + loop(BODY, "%more") + BODY,
        LAST + loop(BODY, "%more") + BODY.replace(IN, ""),
        {"race MTE2->V"},
    ),
    "a tail of no trip": Pair(
        load("a") + loop(add("e", "e")) + IN + add("d", "a"),
        load("a") + loop(IN) + add("d", "a"),
        {"race MTE2->V"},
    ),
    "a preload and a prefetch": Pair(
        load("a") + LOADED + loop(USED + add("d", "a") + FREE_IN + load("a") + LOADED) + USED,
        load("a") + LOADED + loop(USED + add("d", "a") + load("a") + LOADED) + USED,
        {"race V->MTE2"},
    ),
    "a prefetch that nobody waits for": Pair(
        load("a") + LOADED + loop(USED + add("d", "a") + FREE_IN + load("a") + LOADED) + USED,
        load("a") + LOADED + loop(USED + add("d", "a") + FREE_IN + load("a") + LOADED),
        {"unmatched"},
    ),
    "numbers of flags from the counter": Pair(
        dynamic("set", "V", "MTE2", "%c0") + dynamic("set", "V", "MTE2", "%c1")
        + loop(TURN + dynamic("wait", "V", "MTE2", "%slot") + load("t") + IN + add("d", "t")
               + dynamic("set", "V", "MTE2", "%slot"))
        + dynamic("wait", "V", "MTE2", "%c0") + dynamic("wait", "V", "MTE2", "%c1"),
        dynamic("set", "V", "MTE2", "%c0") + dynamic("set", "V", "MTE2", "%c1")
        + loop(TURN + dynamic("wait", "V", "MTE2", "%slot") + load("t") + IN
               + dynamic("set", "V", "MTE2", "%slot") + add("d", "t"))
        + dynamic("wait", "V", "MTE2", "%c0") + dynamic("wait", "V", "MTE2", "%c1"),
        {"race V->MTE2"},
    ),
    "a number that an argument says": Pair(
        load("a") + dynamic("set", "MTE2", "V", "%n") + dynamic("wait", "MTE2", "V", "%n") + add("d", "a"),
        "%np = arith.addi %n, %c1 : index\n" + dynamic("set", "MTE2", "V", "%np")
        + load("a") + dynamic("set", "MTE2", "V", "%n") + dynamic("wait", "MTE2", "V", "%np") + add("d", "a"),
        {"race MTE2->V"},
    ),
    "a number that no signal has": Pair(
        MORE + load("a") + dynamic("set", "MTE2", "V", "%np") + dynamic("wait", "MTE2", "V", "%np")
        + add("d", "a"),
        MORE + load("a") + dynamic("set", "MTE2", "V", "%n") + dynamic("wait", "MTE2", "V", "%np")
        + add("d", "a"),
        {"race MTE2->V", "deadlock"},
    ),
    "a number of one half": Pair(
        LOW + load("a") + dynamic("set", "MTE2", "V", "%low") + dynamic("wait", "MTE2", "V", "%low")
        + add("d", "a"),
        LOW + load("a") + dynamic("set", "MTE2", "V", "%high") + dynamic("wait", "MTE2", "V", "%low")
        + add("d", "a"),
        {"race MTE2->V", "deadlock", "unmatched"},
    ),
    "the other number of two": Pair(
        loop(SUM + load("a") + dynamic("set", "MTE2", "V", "%one2") + dynamic("wait", "MTE2", "V", "%one2")
             + add("d", "a") + FREE_IN),
        loop(SUM + load("a") + dynamic("set", "MTE2", "V", "%one2") + dynamic("wait", "MTE2", "V", "%two2")
             + add("d", "a") + FREE_IN),
        {"race MTE2->V", "deadlock", "unmatched"},
    ),
    "numbers that may be equal": Pair(
        AFTER + OTHER + dynamic("set", "V", "MTE2", "%n") + dynamic("wait", "V", "MTE2", "%op"),
        AFTER + OTHER + dynamic("set", "V", "MTE2", "%oe") + dynamic("wait", "V", "MTE2", "%op"),
        {"deadlock"},
    ),
    "a number that a condition chooses": Pair(
        PICK + load("a") + picked("set") + picked("wait") + add("d", "a"),
        PICK + load("a") + picked("set") + dynamic("wait", "MTE2", "V", "%c0") + add("d", "a"),
        {"race MTE2->V", "deadlock", "unmatched"},
    ),
    "the last slot of a prefetch": Pair(
        AHEAD, AHEAD.replace("%end = arith.remsi %least", "%end = arith.remsi %n"), {"deadlock", "unmatched"}
    ),
    "a number that a comparison chooses": Pair(
        MANY + dynamic("wait", "MTE2", "V", "%id") + add("d", "a"),
        MANY.replace("%many, %c1, %c0", "%many, %c0, %c1") + dynamic("wait", "MTE2", "V", "%id")
        + add("d", "a"),
        {"race MTE2->V", "deadlock", "unmatched"},
    ),
    "a number of at most one": Pair(
        LEAST.replace("sgt, %n, %c4", "sge, %n, %c1") + dynamic("wait", "MTE2", "V", "%id") + add("d", "a"),
        LEAST + dynamic("wait", "MTE2", "V", "%id") + add("d", "a"),
        {"race MTE2->V", "deadlock", "unmatched"},
    ),
    "a tile at the address of a slot": Pair(
        PARITY + branch(load("b") + IN, load("a") + IN, "%high") + add("d", "t"),
        PARITY + branch(load("b"), load("a"), "%high") + FREE_IN + add("d", "t"),
        {"race MTE2->V"},
    ),
    "both arms": Pair(
        load("a") + branch(IN + add("d", "a"), IN + add("e", "a")),
        load("a") + branch(IN + add("d", "a"), add("e", "a")),
        {"race MTE2->V"},
    ),
    "a load in one arm": Pair(
        branch(load("a") + IN, "") + add("d", "a"),
        branch(load("a"), IN) + add("d", "a"),
        {"race MTE2->V"},
    ),
    "an arm of every other trip": Pair(
        loop(EVEN + branch(BODY, BODY, "%is")),
        loop(EVEN + branch(BODY, BODY.replace(FREE_OUT, ""), "%is")),
        {"race MTE3->V"},
    ),
    "a function that computes": Pair(
        callee(load("a") + IN + CALL, ADDED), callee(load("a") + CALL + IN, ADDED), {"race MTE2->V"}
    ),
    "a function that waits": Pair(
        callee(load("a") + LOADED + CALL, USED + ADDED),
        callee(load("a") + LOADED + CALL, ADDED + USED),
        {"race MTE2->V"},
    ),
    "a function in a loop that hands its token back": Pair(
        callee(HANDED, ADDED + set_("V", "MTE2", 5)),
        callee(HANDED, set_("V", "MTE2", 5) + ADDED),
        {"race V->MTE2"},
    ),
    "a cube core and a vector core": Pair(
        crossed(CUBE + SET_C, WAIT_V + LOAD_HV), crossed(SET_C + CUBE, WAIT_V + LOAD_HV), {"race FIX->MTE2"}
    ),
    "cores in a loop with a reply": Pair(
        crossed(loop(WAIT_C + CUBE + SET_C) + WAIT_C, SET_V + loop(WAIT_V + LOAD_HV + SET_V)),
        crossed(loop(CUBE + SET_C), loop(WAIT_V + LOAD_HV)),
        {"race MTE2->FIX"},
    ),
    "a barrier of all pipes": Pair(
        loop(load("a") + BARRIER + add("d", "a") + BARRIER + store("d") + BARRIER),
        loop(load("a") + BARRIER + add("d", "a") + "pto.barrier <PIPE_V>\n" + store("d") + BARRIER),
        {"race V->MTE3"},
    ),
    "a barrier in one arm": Pair(
        load("a") + branch(BARRIER, IN) + add("d", "a"),
        load("a") + branch(BARRIER, sync("V", "MTE2")) + add("d", "a"),
        {"race MTE2->V"},
    ),
    "tokens of buffers": Pair(
        loop(buffer("get", "TLOAD") + load("a") + buffer("rls", "TLOAD")
             + buffer("get", "TVEC") + add("d", "a") + buffer("rls", "TVEC")),
        loop(buffer("get", "TLOAD") + load("a") + buffer("rls", "TLOAD") + add("d", "a")),
        {"race MTE2->V", "race V->MTE2"},
        "a5",
    ),
    "tokens of two buffers": Pair(
        buffer("get", "TLOAD", 1) + load("a") + buffer("rls", "TLOAD", 1)
        + buffer("get", "TVEC", 1) + add("d", "a") + buffer("rls", "TVEC", 1),
        buffer("get", "TLOAD", 1) + load("a") + buffer("rls", "TLOAD", 1)
        + buffer("get", "TVEC", 2) + add("d", "a") + buffer("rls", "TVEC", 2),
        {"race MTE2->V"},
        "a5",
    ),
    "products in a loop": Pair(
        LEFT_OF + loop(MATS + sync("MTE2", "MTE1") + TO_LEFT + TO_RIGHT + sync("MTE1", "M") + PRODUCT
                       + sync("MTE1", "MTE2") + sync("M", "MTE1")),
        LEFT_OF + loop(MATS + sync("MTE2", "MTE1") + TO_LEFT + TO_RIGHT + sync("MTE1", "M") + PRODUCT
                       + sync("MTE1", "MTE2")),
        {"race M->MTE1"},
    ),
    "a result behind its products": Pair(
        LEFT_OF + MATS + sync("MTE2", "MTE1") + TO_LEFT + TO_RIGHT + sync("MTE1", "M") + PRODUCT
        + sync("M", "FIX") + STORE_ACC,
        LEFT_OF + MATS + sync("MTE2", "MTE1") + TO_LEFT + TO_RIGHT + sync("MTE1", "M") + sync("M", "FIX")
        + PRODUCT + STORE_ACC,
        {"race M->FIX"},
    ),
    "a flag before what it announces": Pair(
        load("a") + LOADED + add("e", "b") + USED + add("d", "a"),
        LOADED + load("a") + add("e", "b") + USED + add("d", "a"),
        {"race MTE2->V"},
    ),
    "a flag that is set twice": Pair(
        load("a") + LOADED + USED + load("b") + LOADED + USED + add("d", "a", "b"),
        load("a") + LOADED + load("b") + LOADED + USED + add("d", "a", "b"),
        {"unmatched", "race MTE2->V"},
    ),
    "a flag that is waited for twice": Pair(
        load("a") + LOADED + USED + add("d", "a"),
        load("a") + LOADED + branch(USED) + USED + add("d", "a"),
        {"deadlock"},
    ),
    "over three pipes and back": Pair(
        loop(load("a") + IN + add("d", "a") + OUT + store("d") + sync("MTE3", "MTE2", 2) + FREE_OUT),
        loop(load("a") + IN + set_("V", "MTE3") + add("d", "a") + wait("V", "MTE3") + sync("MTE3", "MTE2", 2)
             + FREE_OUT),
        {"race V->MTE2"},
    ),
    "a condition that repeats": Pair(
        WHILE.replace("BODY", BODY), WHILE.replace("BODY", BODY.replace(FREE_IN, "")), {"race V->MTE2"}
    ),
    "handles that change places": Pair(
        SWAP.replace("BODY", LOAD_X + IN + ADD_X + FREE_IN),
        SWAP.replace("BODY", LOAD_X + IN + ADD_X),
        {"race V->MTE2"},
    ),
    "halves of a buffer": Pair(
        HALVES.replace("%FIRST", "%c8"), HALVES.replace("%FIRST", "%c7"), {"race MTE3->MTE2"}
    ),
    "two numbers that lead to a branch in a branch": Pair(
        load("a") + NESTED.replace("INNER", IN) + add("d", "a"),
        load("a") + NESTED.replace("INNER", "pto.barrier <PIPE_V>\n") + add("d", "a"),
        {"race MTE2->V"},
    ),
    "steps of two": Pair(
        loop(BODY).replace("step %c1", "step %c2"),
        loop(BODY.replace(OUT, "")).replace("step %c1", "step %c2"),
        {"race V->MTE3"},
    ),
    "two loops one after the other": Pair(
        loop(BODY) + loop(BODY).replace("%k", "%k2"),
        loop(load("a") + IN + add("d", "a") + FREE_IN) + loop(store("d") + OUT).replace("%k", "%k2"),
        {"race V->MTE3"},
    ),
    "three loops deep": Pair(
        named(named(named(BODY, "j3"), "j2"), "j1"),
        named(named(named(BODY.replace(FREE_OUT, ""), "j3"), "j2") + FREE_OUT, "j1"),
        {"race MTE3->V"},
    ),
    "a barrier of the outer loop only": Pair(
        named(named(BODY, "j2") + BARRIER, "j1"),
        named(named(BODY.replace(FREE_IN, ""), "j2") + BARRIER, "j1"),
        {"race V->MTE2"},
    ),
}  # fmt: skip


def _texts() -> Iterator[Any]:
    for name, pair in PAIRS.items():
        yield pytest.param(pair.right, set(), pair.profile, id=f"{name}-right")
        yield pytest.param(pair.wrong, pair.found, pair.profile, id=f"{name}-wrong")


@pytest.mark.variants(14)
@pytest.mark.parametrize(("text", "found", "profile"), list(_texts()))
def test_right_texts_have_no_finding_and_wrong_ones_theirs(text: str, found: set[str], profile: str) -> None:
    assert set(told(judged(text, profile))) == found
