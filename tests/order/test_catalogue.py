"""The catalogue of synchronisation errors as small kernels with their verdicts, and correct ones beside them.

Numbers are those of a catalogue of reports. Those of several blocks (29, 30, 38) are in
:mod:`tests.order.test_blocks`; those that need several processors, and asynchronous copies (39), in
:mod:`tests.ranks.test_verdicts`; 47 is a kernel of :mod:`tests.order.test_kernels`, 54 a test of two versions
(:mod:`tests.order.test_changes`).
"""

import pytest

import pto_jax as pto
from tests.order.texts import (
    ACC,
    BARRIER,
    FENCE,
    FLAG,
    HEAD,
    IDX,
    LEFT,
    MAT,
    RIGHT,
    SIG,
    F,
    G,
    T,
    W,
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

HALF = "!pto.tile_buf<vec, 16x64xf32, valid=16x32>"
TO_LEFT = f"%l = pto.alloc_tile addr = %a0 : {LEFT}\npto.tmov ins(%m : {MAT}) outs(%l : {LEFT})\n"
TO_MAT = f"pto.tload ins(%g : {G}) outs(%m : {MAT})\n"
CI = f"pto.tci ins(%one : i32) outs(%i : {IDX})\n"
TMP = "%t = pto.alloc_tile addr = %a2 : !pto.tile_buf<vec, 1x512xi32>\n"
CI_TMP = TMP + f"pto.tci ins(%one, %t : i32, !pto.tile_buf<vec, 1x512xi32>) outs(%i : {IDX})\n"
WORDS = (
    "%vi = pto.make_tensor_view %words, shape = [%c1, %c64], strides = [%c64, %c1] : "
    "!pto.tensor_view<?x?xi32>\n"
    "%wi = pto.partition_view %vi, offsets = [%c0, %c0], sizes = [%c1, %c64] : !pto.tensor_view<?x?xi32> -> "
    "!pto.partition_tensor_view<1x64xi32>\n"
)
STORE_I = f"pto.tstore ins(%i : {IDX}) outs(%wi : !pto.partition_tensor_view<1x64xi32>)\n"
ADD_I = f"pto.tadds ins(%i, %one : {IDX}, i32) outs(%i : {IDX})\n"
TABLE = (
    "%ix = pto.alloc_tile addr = %a3 : !pto.tile_buf<vec, 1x16xi32>\n"
    "%vx = pto.partition_view %vi, offsets = [%c0, %c0], sizes = [%c1, %c16] : !pto.tensor_view<?x?xi32> -> "
    "!pto.partition_tensor_view<1x16xi32>\n"
    "pto.tload ins(%vx : !pto.partition_tensor_view<1x16xi32>) outs(%ix : !pto.tile_buf<vec, 1x16xi32>)\n"
)
SCATTER = (
    f"pto.mscatter ins(%a, %ix : {T}, !pto.tile_buf<vec, 1x16xi32>) outs(%o : {W}) "
    "{coalesce = #pto<coalesce row>}\n"
)
GATHER = (
    f"pto.mgather ins(%w, %ix : {W}, !pto.tile_buf<vec, 1x16xi32>) outs(%a : {T}) "
    f"{{coalesce = #pto<coalesce row>}}\n"
)
STORE_ACC = f"pto.tstore ins(%acc : {ACC}) outs(%h : {F})\n"
VEC = "!pto.tile_buf<vec, 16x16xf32>"
LOAD_H = f"%hv = pto.alloc_tile addr = %a0 : {VEC}\nLpto.tload ins(%h : {F}) outs(%hv : {VEC})\n"
PUSH = f"pto.tpush_to_aiv(%acc : {ACC}) {{split = 0}}\n"
POP = f"%pp = pto.tpop_from_aic {{split = 0}} -> {VEC}\n"
FREE = "pto.tfree_from_aic {split = 0}\n"
STORE_POP = f"pto.tstore ins(%pp : {VEC}) outs(%h : {F})\n"
NEG_POP = f"pto.tneg ins(%pp : {VEC}) outs(%pp : {VEC})\n"
FLAG_V = sync("MTE3", "MTE2", 7)
POPPED = section("cube", PUSH) + section("vector", POP + "SYNC" + STORE_POP + "BACK" + FREE)
TPUT = f"pto.comm.tput(%o, %w, buf(%d) : {W}, {W}, {T}) {{atomicType = #pto<atomic_type atomic_none>}}\n"
NOTIFY = f"pto.comm.tnotify(%sig, %one : {SIG}, i32) {{notifyOp = #pto<notify_op set>}}\n"
SUBBLOCK = "%sub = pto.get_subblock_idx\n"
SCALAR = "pto.store_scalar %one, %words[%c0] : !pto.ptr<i32>, i32\n"
CACHE = "pto.cmo.cacheinvalid all #pto.address_space<gm>\n"
SLOT = "%slot = arith.remsi %k, %c2 : index\n%odd = arith.cmpi eq, %slot, %c1 : index\n"
TURN = SLOT + f"%t = arith.select %odd, %a, %b : {T}\n"
OTHER = f"%u = arith.select %odd, %b, %a : {T}\n"
LOAD_T, ADD_T = load("t"), add("d", "t")


def subview(name: str, first: str) -> str:
    return f"%{name} = pto.tsubview %a, %c0, %{first} : ({T}, index, index) -> {HALF}\n"


C32 = "%c32 = arith.constant 32 : index\n"
NEG_L = f"pto.tneg ins(%l : {HALF}) outs(%l : {HALF})\n"
PART = (
    "%wp = pto.partition_view %v2, offsets = [%c0, %c32], sizes = [%c16, %c32] : "
    "!pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x32xf32>\n"
)
STORE_R = f"pto.tstore ins(%r : {HALF}) outs(%wp : !pto.partition_tensor_view<16x32xf32>)\n"

#: By number and name: the body, the profile, and what is found of it.
WRONG: dict[str, tuple[str, str, list[str]]] = {
    "1 load, add": (load("a") + FLAG + add("d", "a"), "a2a3", ["race MTE2->V"]),
    "2 add, store": (add("d", "a") + FLAG + store("d"), "a2a3", ["race V->MTE3"]),
    "3 store, overwritten": (store("a") + FLAG + add("a", "b"), "a2a3", ["race MTE3->V"]),
    "4 next trip": (loop(load("a") + sync("MTE2", "V") + add("d", "a")), "a2a3", ["race V->MTE2"]),
    "5 one slot guarded": (
        set_("V", "MTE2")
        + loop(
            wait("V", "MTE2")
            + load("a")
            + load("b")
            + sync("MTE2", "V")
            + add("d", "a")
            + set_("V", "MTE2")
            + add("e", "b")
        )
        + wait("V", "MTE2"),
        "a2a3",
        ["race V->MTE2"],
    ),
    "6 one number for two slots": (
        set_("V", "MTE2")
        + loop(
            TURN + OTHER + wait("V", "MTE2") + LOAD_T + sync("MTE2", "V") + set_("V", "MTE2") + add("d", "u"),
            "%c4",
        )
        + wait("V", "MTE2"),
        "a2a3",
        ["race V->MTE2"],
    ),
    "7 loop that may not run": (
        load("a") + loop(sync("MTE2", "V")) + add("d", "a"),
        "a2a3",
        ["race MTE2->V"],
    ),
    "8 one branch": (load("a") + branch(sync("MTE2", "V")) + add("d", "a"), "a2a3", ["race MTE2->V"]),
    "9 subview and parent": (C32 + subview("l", "c0") + NEG_L + FLAG + store("a"), "a2a3", ["race V->MTE3"]),
    "11 product, move, move": (
        f"%l = pto.alloc_tile addr = %a0 : {LEFT}\n%r = pto.alloc_tile addr = %a0 : {RIGHT}\n"
        f"pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%acc : {ACC})\n"
        + FLAG
        + f"pto.tmov ins(%acc : {ACC}) outs(%m : {MAT})\npto.tmov ins(%m : {MAT}) outs(%l : {LEFT})\n",
        "a2a3",
        ["race M->FIX", "race FIX->MTE1", "race M->MTE1"],
    ),
    "12 mat overwritten": (loop(TO_MAT + sync("MTE2", "MTE1") + TO_LEFT), "a2a3", ["race MTE1->MTE2"]),
    "13 numbers of the scalar unit": (CI + FLAG + ADD_I, "a2a3", ["race S->V"]),
    "14 numbers of the vector unit": (WORDS + CI_TMP + sync("S", "MTE3") + STORE_I, "a2a3", ["race V->MTE3"]),
    "15 scatter guarded as a store": (
        WORDS + TABLE + load("a") + sync("MTE2", "MTE3") + SCATTER,
        "a5",
        ["race MTE2->V", "race MTE2->V"],
    ),
    "16 popped and stored": (POPPED.replace("SYNC", "").replace("BACK", ""), "a5", ["race V->MTE3"]),
    "16 freed before it is read": (
        POPPED.replace("SYNC", sync("V", "MTE3")).replace("BACK", ""),
        "a5",
        ["race MTE3->V"],
    ),
    "16 popped and computed with": (
        section("cube", PUSH) + section("vector", POP + FLAG_V + NEG_POP + FREE),
        "a2a3",
        ["race MTE2->V"],
    ),
    "17 bracket in a bracket": (
        buffer("get", "TLOAD") + buffer("get", "TLOAD") + load("a") + buffer("rls", "TLOAD"),
        "a5",
        ["unmatched"],
    ),
    "17 bracket without an end": (buffer("get", "TLOAD") + load("a"), "a5", ["unmatched"]),
    "18 wait alone": (wait("V", "MTE3", 2), "a2a3", ["deadlock"]),
    "18 set on some paths": (branch(set_("V", "MTE3", 2)) + wait("V", "MTE3", 2), "a2a3", ["deadlock"]),
    "19 wait three times": (
        set_("V", "MTE3") + branch(wait("V", "MTE3"), wait("V", "MTE3")) + wait("V", "MTE3"),
        "a2a3",
        ["deadlock"],
    ),
    "20 set moved out of an if": (
        set_("V", "MTE3") + branch(wait("V", "MTE3")) + set_("V", "MTE3") + wait("V", "MTE3"),
        "a2a3",
        ["unmatched"],
    ),
    "22 hidden number of a copy": (set_("MTE2", "MTE3") + TPUT + wait("MTE2", "MTE3"), "a2a3", ["unmatched"]),
    "23 a flag of one pipe": (
        load("a") + sync("MTE2", "V") + sync("V", "V") + add("d", "a"),
        "a5",
        ["deadlock"],
    ),
    "23 a barrier of another core": (section("vector", "pto.barrier <PIPE_FIX>\n"), "a5", ["deadlock"]),
    "23 a flag of another core": (section("vector", sync("M", "V")), "a5", ["deadlock"]),
    "24 cube stores, vector loads": (
        section("cube", STORE_ACC) + section("vector", LOAD_H.replace("L", "")),
        "a2a3",
        ["race FIX->MTE2"],
    ),
    "25 one wait for each vector core": (
        section("cube", "pto.sync.wait <PIPE_FIX>, 1\n" * 2)
        + section("vector", SUBBLOCK + "pto.sync.set <PIPE_MTE3>, 1\n"),
        "a2a3",
        ["deadlock"],
    ),
    "26 one vector core signalled": (
        section("cube", "pto.set_intra_block <PIPE_FIX>, 1\n")
        + section("vector", SUBBLOCK + "pto.wait_intra_block <PIPE_MTE2>, 17\n"),
        "a5",
        ["deadlock"],
    ),
    "26 the second vector core is not signalled": (
        section("cube", "pto.set_intra_block <PIPE_FIX>, 2\n")
        + section("vector", SUBBLOCK + "pto.wait_intra_block <PIPE_MTE2>, 2\n"),
        "a5",
        ["deadlock"],
    ),
    "26 the second vector core is not waited for": (
        section("cube", "pto.wait_intra_block <PIPE_FIX>, 3\n")
        + section("vector", SUBBLOCK + "pto.set_intra_block <PIPE_MTE3>, 3\n"),
        "a5",
        ["unmatched"],
    ),
    "27 pops without pushes": (
        section("cube", PUSH) + section("vector", POP + FREE + POP.replace("pp", "p2")),
        "a2a3",
        ["deadlock"],
    ),
    "27 more pushes than slots": (
        section("cube", PUSH * 10) + section("vector", POP + FREE),
        "a2a3",
        ["deadlock"],
    ),
    "31 stored, then sent": (store("a", "w") + FLAG + TPUT, "a2a3", ["race MTE3->MTE2"]),
    "32 staging used behind a copy": (TPUT + FLAG + add("d", "a"), "a2a3", ["race MTE3->V"]),
    "32 staging written before a copy": (add("d", "a") + FLAG + TPUT, "a2a3", ["race V->MTE2"]),
    "33 notified before it is stored": (store("a") + NOTIFY, "a2a3", ["race MTE3->S"]),
    "34 notified while it is read": (load("a") + FLAG + NOTIFY, "a2a3", ["race MTE2->S"]),
    "35 accumulator not drained": (
        STORE_ACC + "pto.barrier <PIPE_MTE3>\npto.barrier <PIPE_MTE2>\n" + NOTIFY,
        "a2a3",
        ["race FIX->S"],
    ),
    "36 drained and not published": (TPUT + BARRIER + NOTIFY, "a2a3", ["race MTE3->S"]),
    "37 in the cache only": (SCALAR + FENCE + NOTIFY, "a2a3", ["race S->S"]),
    "48 indexes read by the scalar unit": (
        WORDS + TABLE + sync("MTE2", "V") + GATHER,
        "a2a3",
        ["race MTE2->S"],
    ),
    "49 bytes that a store still reads": (
        store("a") + sync("V", "MTE3") + f"%z = pto.alloc_tile addr = %a0 : {T}\n" + add("z", "b"),
        "a2a3",
        ["race MTE3->V"],
    ),
    "50 pieces sent, then notified": (TPUT + NOTIFY, "a2a3", ["race MTE3->S"]),
    "52 flags moved out of an if": (
        loop(wait("V", "MTE3") + branch(store("a")) + set_("V", "MTE3"), "%c4") + wait("V", "MTE3"),
        "a2a3",
        ["deadlock"],
    ),
    "53 number 8": (sync("MTE2", "V", 8), "a2a3", ["unmatched"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_found(name: str) -> None:
    body, profile, expected = WRONG[name]
    found = told(judged(body, profile))
    assert set(expected) <= set(found), found


RIGHT_ONES: dict[str, tuple[str, str]] = {
    "26 the first vector core alone": (
        section("cube", "pto.set_intra_block <PIPE_FIX>, 1\n")
        + section(
            "vector",
            SUBBLOCK
            + "%none = arith.constant 0 : i64\n%is_first = arith.cmpi eq, %sub, %none : i64\n"
            + "scf.if %is_first {\n  pto.wait_intra_block <PIPE_MTE3>, 1\n}\n",
        ),
        "a5",
    ),
    "26 both vector cores by one signal": (
        section("cube", "pto.set_intra_block <PIPE_FIX>, 2\n")
        + section("vector", SUBBLOCK + "pto.wait_intra_block <PIPE_MTE2>, 2\n"),
        "a2a3",
    ),
    # One source says that A2/A3 keeps one token for both; kernels that work on boards have it everywhere.
    "21 one number to two pipes": (
        set_("V", "MTE3") + set_("V", "MTE2") + wait("V", "MTE3") + wait("V", "MTE2"),
        "a2a3",
    ),
    "1 halves apart": (
        C32 + PART + subview("l", "c0") + subview("r", "c32") + FLAG + NEG_L + STORE_R,
        "a2a3",
    ),
    "2 transitive": (
        load("a") + sync("MTE2", "V") + add("d", "a") * 3 + sync("V", "MTE3") + store("d") + store("a"),
        "a2a3",
    ),
    "3 through a third pipe": (
        load("a")
        + sync("MTE2", "V")
        + add("d", "a")
        + sync("V", "MTE3")
        + store("d")
        + sync("MTE3", "MTE2")
        + load("a"),
        "a2a3",
    ),
    "4 ping-pong": (
        set_("V", "MTE2")
        + set_("V", "MTE2", 1)
        + loop(
            TURN
            + dynamic("wait", "V", "MTE2", "%slot")
            + LOAD_T
            + sync("MTE2", "V")
            + ADD_T
            + dynamic("set", "V", "MTE2", "%slot")
        )
        + wait("V", "MTE2")
        + wait("V", "MTE2", 1),
        "a2a3",
    ),
    "5 both branches": (load("a") + branch(sync("MTE2", "V"), BARRIER) + add("d", "a"), "a2a3"),
    "5 branches apart": (FLAG + branch(load("a"), add("a", "b")), "a2a3"),
    "6 one number between two pairs": (
        load("a") + set_("MTE2", "V") + set_("V", "MTE3") + wait("MTE2", "V") + wait("V", "MTE3"),
        "a2a3",
    ),
    "7 one pipe": (FLAG + load("a") + load("a"), "a2a3"),
    "8 the scalar unit waits": (add("d", "a") + sync("V", "S") + store("d"), "a2a3"),
    "9 buffer tokens": (
        buffer("get", "TLOAD")
        + load("a")
        + buffer("rls", "TLOAD")
        + buffer("get", "TVEC")
        + add("d", "a")
        + buffer("rls", "TVEC"),
        "a5",
    ),
    "9 first pushes without a free": (
        section("cube", PUSH * 2) + section("vector", POP + POP.replace("pp", "p2")),
        "a2a3",
    ),
    "10 notified without data": (NOTIFY, "a2a3"),
    "11 one fence for all": (
        store("a") + TPUT.replace("%w,", "%w,") + SCALAR + CACHE + FENCE + NOTIFY * 2,
        "a2a3",
    ),
    "13 windows apart": (
        C32
        + PART
        + f"%r = pto.tsubview %a, %c0, %c32 : ({T}, index, index) -> {HALF}\n"
        + FLAG
        + STORE_R
        + sync("MTE3", "MTE2")
        + load("b", "w"),
        "a2a3",
    ),
    "16 in order": (POPPED.replace("SYNC", sync("V", "MTE3")).replace("BACK", sync("MTE3", "V")), "a5"),
    "16 copied out of the pipe": (
        section("cube", PUSH) + section("vector", POP + sync("MTE2", "V") + NEG_POP + FREE),
        "a2a3",
    ),
    "23 flags and barriers of its own": (
        section("vector", "pto.barrier <PIPE_ALL>\n" + load("a") + sync("MTE2", "V") + add("d", "a")),
        "a5",
    ),
    "23 a barrier of its own core": (section("cube", "pto.barrier <PIPE_FIX>\n"), "a5"),
    "24 with a flag": (
        section("cube", STORE_ACC + "pto.sync.set <PIPE_FIX>, 2\n")
        + section("vector", LOAD_H.replace("L", "pto.sync.wait <PIPE_MTE2>, 2\n")),
        "a2a3",
    ),
    "15 scatter on MTE3": (WORDS + TABLE + load("a") + sync("MTE2", "MTE3") + SCATTER, "a2a3"),
    "28 pushes that are popped": (
        section("cube", PUSH * 2) + section("vector", (POP + FREE) + (POP + FREE).replace("pp", "p2")),
        "a2a3",
    ),
}


@pytest.mark.parametrize("name", RIGHT_ONES)
def test_a_correct_kernel_is_not_reported(name: str) -> None:
    body, profile = RIGHT_ONES[name]
    assert [str(f) for f in judged(body, profile)] == []


@pytest.mark.parametrize(("wait", "found"), [("pto.tsync<TLOAD>\n", ["race V->MTE3"]), ("", [])])
def test_a_function_that_waits_for_operations_is_judged_as_it_is_written(wait: str, found: list[str]) -> None:
    """A page shows such waits in manual mode; without them a tool inserts all order."""
    body = load("a") + wait + add("d", "a")
    assert told(judged(body + store("d"), as_written=False)) == found
    assert told(judged(body + "pto.tsync<TADD>\n" + store("d"), as_written=False)) == (
        [] if wait else ["race MTE2->V"]
    )


@pytest.mark.parametrize("address", [0, 1024, 2048], ids=["all", "most", "half"])
@pytest.mark.parametrize("mode", ["as written", "inserted"])
def test_10_a_value_that_is_overwritten_before_its_last_read_is_an_overlap(address: int, mode: str) -> None:
    flag = sync("MTE2", "V") if mode == "as written" else ""
    start = f"%at = arith.constant {address} : i64\n"
    body = start + load("a") + flag + f"%z = pto.alloc_tile addr = %at : {T}\n"
    # What is never read under its own name would be another handle of the tile at its bytes.
    body += add("z", "b") + add("e", "z")
    (overlap,) = pto.races(pto.parse(HEAD + body + add("d", "a") + "return\n}", "k.pto"), "a2a3")
    assert overlap.kind == "overlap" and overlap.second is not None
    assert (overlap.first.value, overlap.second.value) == ("%a", "%z")
    assert pto.races(pto.parse(HEAD + body + "return\n}", "k.pto"), "a2a3") == []
