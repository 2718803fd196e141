"""The order of accesses inside vector scopes, of scopes with other pipes, and of transfers in rows."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.analysis.resolve import resolve
from pto_jax.cases.targets import Oracle
from pto_jax.generate.options import MICRO, Options
from pto_jax.generate.programs import cases
from pto_jax.order import judged_program
from pto_jax.schedules.machine import Schedule, ScheduledMachine
from tests.micro.programs import kernel
from tests.micro.test_transfers import LOAD, STORE, program

R = "!pto.vreg<64xf32>"
M = "!pto.mask<b32>"
P = "!pto.ptr<f32, ub>"
ALL = f'%m = pto.pset_b32 "PAT_ALL" : {M}\n'
HEAD = ALL + f"%a = pto.vlds %y_ub[%c0] : {P} -> {R}\n"


def load(name: str, at: str = "%c0", base: str = "x") -> str:
    return f"%{name} = pto.vlds %{base}_ub[{at}] : {P} -> {R}\n"


def store(name: str, at: str = "%c0", base: str = "x", mask: str = "m", dist: str = "") -> str:
    how = f' {{dist = "{dist}"}}' if dist else ""
    return f"pto.vsts %{name}, %{base}_ub[{at}], %{mask}{how} : {R}, {P}, {M}\n"


def bar(kind: str) -> str:
    return f'pto.mem_bar "{kind}"\n'


def first(name: str, count: int) -> str:
    number = f"%{name}_n = arith.constant {count} : i32\n"
    return number + f"%{name}, %{name}_r = pto.plt_b32 %{name}_n : i32 -> {M}, i32\n"


def loop(body: str, trips: str = "%c2") -> str:
    return f"scf.for %k = %c0 to {trips} step %c1 {{\n{body}}}\n"


def flag(source: str, target: str, event: int = 0) -> str:
    ends = f'"PIPE_{source}", "PIPE_{target}", "EVENT_ID{event}"'
    return f"pto.set_flag[{ends}]\npto.wait_flag[{ends}]\n"


def text(body: str, lines: str = "", behind: str = "", flags: tuple[str, str] = ("", "")) -> str:
    """A kernel with flags around its scope; ``lines`` stand before it and ``behind`` after it."""
    made = kernel(body, {"x": "f32", "y": "f32"}, (flags[0] or flag("MTE2", "V")) + lines)
    return made.replace(
        "    pto.mte_ub_gm", behind + (flags[1] or flag("V", "MTE3")) + "    pto.mte_ub_gm", 1
    )


def told(body: str, lines: str = "", behind: str = "", **flags: tuple[str, str]) -> list[str]:
    """What is missing, once for each two operations."""
    found = pto.races(pto.parse(text(body, lines, behind, **flags)))
    return [f"{f.kind}: {f.missing}" for f in found]


SCALAR = "%s = arith.constant 1.0 : f32\n"
SCALAR_STORE = f"pto.store_scalar %s, %x_ub[%c0] : {P}, f32\n"
SCALAR_LOAD = f"%l = pto.load_scalar %x_ub[%c0] : {P} -> f32\n"
#: By the kinds of two accesses of the same bytes: their lines.
PAIRS = {
    ("VST", "VLD"): (store("a"), load("b")),
    ("VLD", "VST"): (load("b"), store("a")),
    ("VST", "VST"): (store("a"), store("a")),
    ("VST", "LD"): (store("a"), SCALAR_LOAD),
    ("VLD", "ST"): (load("b"), SCALAR_STORE),
    ("VST", "ST"): (store("a"), SCALAR_STORE),
    ("ST", "VLD"): (SCALAR_STORE, load("b")),
    ("LD", "VST"): (SCALAR_LOAD, store("a")),
    ("ST", "VST"): (SCALAR_STORE, store("a")),
}
WHOLE = {("V", "V"): "VV_ALL", ("V", "S"): "VS_ALL", ("S", "V"): "SV_ALL"}


@pytest.mark.parametrize(
    ("kinds", "lines"), PAIRS.items(), ids=lambda v: "_".join(v) if isinstance(v, tuple) else ""
)
def test_every_kind_of_barrier_orders_its_accesses_and_no_others(
    kinds: tuple[str, str], lines: tuple[str, str]
) -> None:
    before, behind = lines
    own = "_".join(kinds)
    units = WHOLE[kinds[0][0] if kinds[0][0] == "V" else "S", kinds[1][0] if kinds[1][0] == "V" else "S"]
    start = SCALAR + HEAD
    (found,) = told(start + before + behind)
    assert found.startswith("race: ") and f'try: pto.mem_bar "{own}" before' in found
    allowed = {kind for kind in isa.micro_operations()["mem_bar"].choices["kind"]
               if not told(start + before + bar(kind) + behind)}  # fmt: skip
    assert allowed == {own, units}


def test_what_is_computed_from_a_load_is_stored_behind_it() -> None:
    double = f"%b = pto.vadd %v, %v, %m : {R}, {R}, {M} -> {R}\n"
    assert not told(ALL + load("v") + double + store("b"))
    assert told(HEAD + load("v") + store("a"))
    carried = (
        f"%r = scf.for %k = %c0 to %c2 step %c1 iter_args(%i = %v) -> ({R}) {{\n"
        + double.replace("%v, %v", "%i, %v")
        + f"scf.yield %b : {R}\n}}\n"
    )
    assert not told(ALL + load("v") + carried + store("r"))


def test_loads_that_a_barrier_orders_order_what_is_stored_from_them() -> None:
    lines = ALL + load("a", base="y") + store("a") + bar("VST_VLD") + load("b")
    assert not told(lines + store("b", base="y"))


def test_trips_of_a_loop_are_ordered_like_lines() -> None:
    (found,) = told(HEAD + loop(store("a")))
    assert "vector store -> vector store" in found
    assert not told(HEAD + loop(store("a") + bar("VST_VST")))
    assert not told(HEAD + loop("%o = arith.muli %k, %c64 : index\n" + store("a", "%o")))
    assert told(HEAD + loop("%o = arith.muli %k, %c32 : index\n" + store("a", "%o")))


def test_inactive_lanes_of_a_store_are_no_access() -> None:
    rows = "%o = arith.muli %k, %c32 : index\n"
    assert not told(HEAD + first("t", 32) + loop(rows + store("a", "%o", mask="t")))
    assert told(HEAD + first("t", 33) + loop(rows + store("a", "%o", mask="t")))
    assert not told(HEAD + first("t", 16) + store("a", mask="t") + load("b", "%c16"))
    assert told(HEAD + first("t", 16) + store("a", mask="t") + load("b", "%c8"))


def test_distributions_access_the_bytes_that_they_have() -> None:
    assert not told(HEAD + store("a", dist="1PT_B32") + load("b", "%c8"))
    assert told(HEAD + store("a", "%c8", dist="1PT_B32") + load("b"))
    assert not told(HEAD + store("a", dist="PK_B32") + load("b", "%c32"))
    assert told(HEAD + store("a", dist="PK_B32") + load("b", "%c16"))


def test_a_mask_that_nothing_is_known_of_has_its_first_lane() -> None:
    unknown = f'%q = pto.vcmp %a, %a, %m, "lt" : {R}, {R}, {M} -> {M}\n'
    assert told(HEAD + unknown + store("a", mask="q") + load("b"))
    assert not told(HEAD + unknown + store("a", mask="q") + load("b", "%c8"))


def test_blocks_at_a_stride_meet_what_they_touch() -> None:
    numbers = (
        "%two = arith.constant 2 : i16\n%none = arith.constant 0 : i16\n%next = arith.constant 1 : i16\n"
    )
    types = f": {R}, {P}, i16, i16, {M}\n"
    even = f"pto.vsstb %a, %x_ub, %two, %none, %m {types}"
    odd = f"pto.vsstb %a, %x_ub, %two, %next, %m {types}"
    assert not told(HEAD + numbers + even + odd)
    assert told(HEAD + numbers + even + even)


def test_logical_registers_have_the_same_order() -> None:
    v = "!pto.vmi.vreg<64xf32>"
    lines = (f"%v = pto.vmi.vload %y_ub[%c0] : {P} -> {v}\npto.vmi.vstore %v, %x_ub[%c0] : {v}, {P}\n",
             f"%w = pto.vmi.vload %x_ub[%c0] : {P} -> {v}\n")  # fmt: skip
    assert told(lines[0] + lines[1]) and not told(lines[0] + bar("VST_VLD") + lines[1])


def test_scopes_follow_each_other_in_order() -> None:
    again = "pto.vecscope {\n" + load("b") + "}\n"
    assert not told(HEAD + store("a"), behind=again)
    strict = (
        f"pto.strict_vecscope(%x_ub, %c0) {{\n^bb0(%p: {P}, %i: index):\n{ALL}"
        f"%v = pto.vlds %p[%i] : {P} -> {R}\n"
        f"%w = pto.vlds %p[%i] : {P} -> {R}\n{{bar}}pto.vsts %v, %p[%i], %m : {R}, {P}, {M}\n"
        f"}} : ({P}, index) -> ()\n"
    )
    assert told("", strict.replace("{bar}", "")) and not told("", strict.replace("{bar}", bar("VLD_VST")))


def test_loops_that_are_scopes_are_one_scope() -> None:
    lines = f"scf.for %k = %c0 to %c2 step %c1 {{\n{HEAD}{store('a')}{{bar}}}} {{llvm.loop.aivector_scope}}\n"
    assert told("", lines.replace("{bar}", ""))
    assert not told("", lines.replace("{bar}", bar("VST_VST")))


# -- scopes and other pipes ----------------------------------------------------------------------------


def test_a_scope_is_work_of_the_vector_pipe() -> None:
    scope = ALL + load("v") + store("v", base="y")
    assert not told(scope)
    missing = told(scope, flags=(flag("MTE2", "S"), flag("V", "MTE3")))
    assert not missing  # What the scalar unit waits for, it issues nothing before.
    assert [m for m in told(scope, flags=('pto.dsb "ALL"\n', "")) if "PIPE_MTE2 -> PIPE_V" in m]
    assert [m for m in told(scope, flags=("", 'pto.dsb "ALL"\n')) if "PIPE_V -> PIPE_MTE3" in m]


def test_scalars_behind_a_scope_wait_for_it() -> None:
    scope = HEAD + store("a")
    assert any("PIPE_V -> PIPE_S" in missing for missing in told(scope, behind=SCALAR_LOAD))
    assert not told(scope, behind=flag("V", "S", 3) + SCALAR_LOAD)


def test_buffers_order_scopes_and_transfers() -> None:
    def of(kind: str, pipe: str) -> str:
        return f'pto.{kind}_buf "PIPE_{pipe}", 0, 0\n'

    body = kernel(ALL + load("v") + store("v", base="y"), {"x": "f32", "y": "f32"})
    loads, scope, stores = body.partition("    pto.vecscope {")
    scope, end, rest = (scope + stores).partition("    }\n")
    stores, close, tail = rest.partition("    return")
    bracketed = loads.replace("    %x_at", of("get", "MTE2") + "    %x_at", 1)
    right = (bracketed + of("rls", "MTE2") + of("get", "V") + scope + end + of("rls", "V") + of("get", "MTE3")
             + stores + of("rls", "MTE3") + close + tail)  # fmt: skip
    assert not pto.races(pto.parse(right), sync="as-written")
    wrong = right.replace(of("get", "V"), "").replace(of("rls", "V"), "")
    found = pto.races(pto.parse(wrong), sync="as-written")
    assert {f.missing.partition(";")[0] for f in found} >= {"PIPE_MTE2 -> PIPE_V", "PIPE_V -> PIPE_MTE3"}


# -- transfers in rows ---------------------------------------------------------------------------------


def transfers(*lines: str) -> list[str]:
    made = program("%to = pto.castptr %k32 : i64 -> !pto.ptr<i16, ub>",
                   "%at = pto.castptr %k0 : i64 -> !pto.ptr<i16, ub>", *lines)  # fmt: skip
    return [f.missing.partition(";")[0] for f in pto.races(pto.parse(made), sync="as-written")]


EVEN = f"pto.mte_gm_ub %x, %at, %k0, %k32 nburst(%k3, %k64, %k64) {LOAD}"


def test_transfers_whose_rows_lie_between_each_other_do_not_race() -> None:
    between = f"pto.mte_ub_gm %to, %y, %k32 nburst(%k3, %k64, %k64) {STORE}"
    same = between.replace("%to", "%at")
    assert not transfers(EVEN, between)
    assert transfers(EVEN, same) == ["PIPE_MTE2 -> PIPE_MTE3"]
    wider = between.replace("%k32 nburst", "%k64 nburst")
    assert transfers(EVEN, wider) == ["PIPE_MTE2 -> PIPE_MTE3"]


def test_pads_are_bytes_of_a_transfer() -> None:
    padded = EVEN.replace(f" {LOAD}", f" pad(%pad, %k1, %k0) {LOAD}, pad i16, i64, i64")
    between = f"pto.mte_ub_gm %to, %y, %k32 nburst(%k3, %k64, %k64) {STORE}"
    assert transfers(padded, between) == ["PIPE_MTE2 -> PIPE_MTE3"]


def test_loops_of_registers_are_rows_of_raw_copies() -> None:
    registers = ("pto.set_loop_size_outtoub %k1, %k3 : i64, i64",
                 "pto.set_loop1_stride_outtoub %k64, %k64 : i64, i64")  # fmt: skip
    raw = (
        "pto.copy_gm_to_ubuf %x, %at, %k0, %k1, %k32, %k0, %k0, %no, %k0, %k32, %k32 : !pto.ptr<i16, gm>, "
        "!pto.ptr<i16, ub>, i64, i64, i64, i64, i64, i1, i64, i64, i64"
    )
    between = f"pto.mte_ub_gm %to, %y, %k32 nburst(%k3, %k64, %k64) {STORE}"
    assert not transfers(*registers, raw, between)
    assert transfers(*registers, raw, between.replace("%to", "%at")) == ["PIPE_MTE2 -> PIPE_MTE3"]


def test_raw_stores_in_rows_meet_loads_of_the_same_rows_only() -> None:
    types = ": !pto.ptr<i16, ub>, !pto.ptr<i16, gm>, i64, i64, i64, i64, i64, i64"
    raw = f"pto.copy_ubuf_to_gm {{at}}, %y, %k0, %k3, %k32, %k0, %k64, %k64 {types}"
    assert not transfers(EVEN, raw.format(at="%to"))
    assert transfers(EVEN, raw.format(at="%at")) == ["PIPE_MTE2 -> PIPE_MTE3"]


def test_blocks_with_gaps_lie_between_each_other() -> None:
    types = ": !pto.ptr<i16, ub>, !pto.ptr<i16, ub>, i64, i64, i64, i64"
    move = f"pto.mte_ub_ub %far, {{to}}, %k1 nburst(%k3, %k0, %k1) {types}"
    far = "%far = pto.castptr %k512 : i64 -> !pto.ptr<i16, ub>"
    assert not transfers(far, EVEN, move.format(to="%to"))
    assert transfers(far, EVEN, move.format(to="%at")) == ["PIPE_MTE2 -> PIPE_V"]


@pytest.mark.slow
def test_generated_kernels_have_the_order_that_they_need() -> None:
    for case in cases(1, 20, MICRO):
        assert not pto.races(case.program, "a5"), case.index


VALUES = {"x": np.arange(1024, dtype=np.float32), "y": np.arange(1024, dtype=np.float32) + 5}
KEPT = {"VLD": store("b", "%c128", "y"), "LD": f"pto.store_scalar %l, %y_ub[%c128] : {P}, f32\n"}


@pytest.mark.parametrize("kinds", PAIRS, ids="_".join)
def test_a_race_in_a_scope_has_a_witness(kinds: tuple[str, str]) -> None:
    before, behind = PAIRS[kinds]
    if kinds == ("VST", "VST"):
        behind = store("b").replace("%b,", "%z,")
        before += f"%z = pto.vlds %y_ub[%c64] : {P} -> {R}\n"
    lines = SCALAR + HEAD + before + behind + "".join(KEPT.get(kind, "") for kind in kinds)
    found = pto.races(pto.parse(text(lines)), inputs=VALUES, schedules=4)
    assert found[0].witness.startswith("with accesses of vector scopes ")
    assert " differ, first element " in found[0].witness


def test_a_race_of_a_scope_that_changes_no_bit_says_so() -> None:
    (found,) = pto.races(pto.parse(text(HEAD + loop(store("a")))), inputs=VALUES, schedules=4)
    assert found.witness == "none of 4 legal orders shows other bits on these inputs"


def test_a_scope_that_begins_before_its_bytes_are_there_has_a_witness() -> None:
    late = text(HEAD + store("a", "%c64"), flags=("pto.barrier <PIPE_V>\n", ""))
    found = pto.races(pto.parse(late), inputs=VALUES, schedules=2)
    (loaded,) = [f for f in found if f.second is not None and f.second.operation == "vlds"]
    assert loaded.witness.startswith("with PIPE_MTE2 as late as legal: ")


@pytest.mark.parametrize(
    ("options", "count"),
    [
        pytest.param(MICRO, 60, marks=pytest.mark.slow, id="all operations"),
        # Stores of as many bytes as the last squeeze has left.
        pytest.param(replace(MICRO, only=frozenset({"vstur"})), 8, id="unaligned stores"),
    ],
)
def test_legal_orders_of_scopes_give_the_bits_of_their_text(options: Options, count: int) -> None:
    """Generated kernels have the order that they need: every legal order of their accesses is right."""
    for case in cases(3, count, options):
        judged = judged_program(resolve(case.program, case.profile))
        results = [Oracle("a5").run(case)]
        for seed in (0, 1):
            schedule = Schedule((), seed, scopes=True)
            machine = partial(ScheduledMachine, judged, schedule)
            results.append(Oracle("a5", machine).run(replace(case, program=judged.resolved.program)))
        texts, *others = [{n: o.words.tobytes() for n, o in run.outputs.items()} for run in results]
        assert all(found == texts for found in others), case.index


@pytest.mark.parametrize("missing", [0, 1])
def test_flags_are_suggested_around_a_scope_and_not_inside(missing: int) -> None:
    pipes = (("MTE2", "V"), ("V", "MTE3"))
    flags = [flag(*ends) for ends in pipes]
    flags[missing] = flag("MTE1", "S")
    made = text(ALL + load("v") + store("v", "%c64"), flags=(flags[0], flags[1]))
    line = next(n for n, text in enumerate(made.split("\n"), 1) if "pto.vecscope" in text)
    source, target = pipes[missing]
    found = [f for f in pto.races(pto.parse(made)) if f.missing.startswith(f"PIPE_{source} -> PIPE_{target}")]
    where = f"{'behind' if missing else 'before'} the scope of line {line}"
    assert found and all(where in f.missing for f in found)
    # Nothing that orders pipes stands in a scope: there is no line to paste above an operation inside.
    assert all(bool(f.diagnostic.fix) == bool(missing) for f in found)
    assert not pto.races(pto.parse(text(ALL + load("v") + store("v", "%c64"))))
