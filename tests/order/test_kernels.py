"""Kernels that went wrong on boards, written anew from public reports: the findings name the cause."""

import pytest

import pto_jax as pto
from tests.order.test_catalogue import GATHER, TABLE, TPUT, WORDS
from tests.order.texts import HEAD, T, add, branch, dynamic, load, loop, set_, store, sync, told, wait

SLOTS = (
    "%slot = arith.remsi %k, %c2 : index\n%up = arith.addi %k, %c1 : index\n"
    "%next = arith.remsi %up, %c2 : index\n"
    "%odd = arith.cmpi eq, %slot, %c1 : index\n"
    f"%now = arith.select %odd, %b, %a : {T}\n%then = arith.select %odd, %a, %b : {T}\n"
    "%more = arith.cmpi slt, %up, %n : index\n"
)
PREFETCH = dynamic("wait", "V", "MTE2", "%next") + load("then") + dynamic("set", "MTE2", "V", "%next")
STEP = dynamic("wait", "MTE2", "V", "%slot") + add("d", "now") + dynamic("set", "V", "MTE2", "%slot")
PRELOAD = wait("V", "MTE2", 0) + load("a") + set_("MTE2", "V", 0)
#: Tiles in turns, the first one loaded before the loop and the next one in every trip.
PRIMED = set_("V", "MTE2", 0) + set_("V", "MTE2", 1)
BUFFERED = (
    PRELOAD
    + loop(SLOTS + branch(PREFETCH, condition="%more") + STEP)
    + wait("V", "MTE2", 0)
    + wait("V", "MTE2", 1)
)

#: By the public report: the body, and what is found of it.
KERNELS = {
    "assembler 1519: tokens of the preload are primed twice": (
        "%some = arith.cmpi sgt, %n, %c0 : index\n"
        + PRIMED
        + set_("MTE2", "V", 0)
        + set_("MTE2", "V", 1)
        + BUFFERED,
        {"unmatched", "race MTE2->V"},
    ),
    "assembler 861: rows are gathered by indexes that are not there yet": (
        WORDS + TABLE + sync("MTE2", "V") + GATHER + sync("MTE2", "MTE3") + store("a"),
        {"race MTE2->S"},
    ),
    "assembler 1149: a pass moves flags out of an if and leaves the copy": (
        set_("MTE3", "V")
        + loop(
            wait("MTE3", "V")
            + add("d", "a")
            + set_("V", "MTE3")
            + branch(wait("V", "MTE3") + store("d") + set_("MTE3", "V"))
        )
        + wait("MTE3", "V"),
        {"deadlock", "unmatched"},
    ),
    "assembler 706: what was stored is sent before it is there": (
        load("a") + sync("MTE2", "V") + add("b", "a") + sync("V", "MTE3") + store("b", "w") + TPUT,
        {"race MTE3->MTE2"},
    ),
    "assembler 844: a tile is loaded again while it is computed with": (
        loop(load("a") + sync("MTE2", "V") + add("d", "a") + sync("V", "MTE3") + store("d")),
        {"race V->MTE2", "race MTE3->V"},
    ),
    "assembler 1118: one of two buffers is guarded": (
        set_("V", "MTE2")
        + loop(
            wait("V", "MTE2")
            + load("a")
            + sync("MTE2", "V")
            + add("d", "a")
            + set_("V", "MTE2")
            + load("b")
            + sync("MTE2", "V", 1)
            + add("e", "b")
        )
        + wait("V", "MTE2"),
        {"race V->MTE2"},
    ),
    "pypto 1821: reused bytes that a store still reads": (
        load("a")
        + sync("MTE2", "V")
        + add("d", "a")
        + sync("V", "MTE3")
        + store("d")
        + f"%z = pto.alloc_tile addr = %a2 : {T}\n"
        + add("z", "a"),
        {"race MTE3->V"},
    ),
}


def kinds(body: str) -> set[str]:
    """What is found of a body."""
    return set(told(pto.races(pto.parse(HEAD + body + "return\n}", "k.pto"), "a2a3", sync="as-written")))


@pytest.mark.parametrize("name", KERNELS)
def test_the_cause_is_named(name: str) -> None:
    body, expected = KERNELS[name]
    assert expected <= kinds(body), kinds(body)


REPAIRED = {
    "assembler 1519": branch(PRIMED + BUFFERED, condition="%some"),
    "assembler 861": WORDS + TABLE + sync("MTE2", "S") + GATHER + sync("MTE2", "MTE3") + store("a"),
    "assembler 1149": loop(branch(add("d", "a") + sync("V", "MTE3") + store("d") + sync("MTE3", "V"))),
    "assembler 706": load("a")
    + sync("MTE2", "V")
    + add("b", "a")
    + sync("V", "MTE3")
    + store("b", "w")
    + sync("MTE3", "MTE2")
    + TPUT,
    "assembler 844": set_("V", "MTE2")
    + set_("MTE3", "V", 1)
    + loop(
        wait("V", "MTE2")
        + load("a")
        + sync("MTE2", "V")
        + wait("MTE3", "V", 1)
        + add("d", "a")
        + set_("V", "MTE2")
        + sync("V", "MTE3")
        + store("d")
        + set_("MTE3", "V", 1)
    )
    + wait("V", "MTE2")
    + wait("MTE3", "V", 1),
    "assembler 1118": set_("V", "MTE2")
    + set_("V", "MTE2", 1)
    + loop(
        wait("V", "MTE2")
        + load("a")
        + sync("MTE2", "V")
        + add("d", "a")
        + set_("V", "MTE2")
        + wait("V", "MTE2", 1)
        + load("b")
        + sync("MTE2", "V", 1)
        + add("e", "b")
        + set_("V", "MTE2", 1)
    )
    + wait("V", "MTE2")
    + wait("V", "MTE2", 1),
    "pypto 1821": load("a")
    + sync("MTE2", "V")
    + add("d", "a")
    + sync("V", "MTE3")
    + store("d")
    + f"%z = pto.alloc_tile addr = %a2 : {T}\n"
    + sync("MTE3", "V")
    + add("z", "a"),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_the_repaired_kernel_is_not_reported(name: str) -> None:
    body = "%some = arith.cmpi sgt, %n, %c0 : index\n" + REPAIRED[name]
    program = pto.parse(HEAD + body + "return\n}", "k.pto")
    assert [str(f) for f in pto.races(program, "a2a3", sync="as-written")] == []


@pytest.mark.parametrize(("signal", "severity"), [(True, "warning"), (False, "error")])
def test_a_wait_that_only_drawn_numbers_come_to_is_an_error_where_the_text_has_no_signal(
    signal: bool, severity: str
) -> None:
    """Public products of matrices hand tokens on in inner loops, whose trips only their arguments say."""
    inner = loop(add("d", "d") + (set_("V", "MTE2", 3) if signal else ""), "%inner").replace("%k", "%j")
    body = "%big = arith.constant 512 : index\n%trips = arith.divsi %n, %big : index\n"
    body += "%most = arith.constant 1048576 : index\n%inner = arith.divsi %n, %most : index\n"
    body += loop(wait("V", "MTE2", 3) + load("a") + sync("MTE2", "V", 1) + inner, "%trips")
    program = pto.parse(HEAD + (set_("V", "MTE2", 3) if signal else "") + body + "return\n}")
    (found,) = [d for d in pto.verify(program, "a2a3") if "waits for a token" in d.message]
    assert found.severity == severity
