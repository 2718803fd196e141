"""Execution stops where a pipe waits for ever, with the message of the verifier."""

from pathlib import Path

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.analysis.resolve import resolve
from pto_jax.interpreter.operands import LocalPointer, Pointer, Scalar
from pto_jax.ir import DType, Op
from pto_jax.order import judged_program
from pto_jax.order.machine import OrderMachine
from pto_jax.schedules.machine import Schedule, ScheduledMachine
from tests.order.test_compiler_texts import MORE
from tests.order.texts import (
    FLAG,
    HEAD,
    add,
    branch,
    dynamic,
    judged,
    load,
    loop,
    section,
    set_,
    store,
    sync,
    wait,
)

BODY = load("a") + sync("MTE2", "V") + add("d", "a") + sync("V", "MTE3") + store("d")


VALUES = {
    "p": np.arange(1024, dtype=np.float32),
    "q": np.zeros(1024, np.float32),
    "g": np.zeros((16, 16), np.float16),
    "h": np.zeros((16, 16), np.float32),
    "sig": np.zeros(1, np.int32),
    "n": 2,
    "c": False,
    "one": 1,
    "words": np.zeros(64, np.int32),
}


def run(body: str, **scalars: object) -> dict[str, object]:
    """Execute a body behind the head of the texts on the reference interpreter."""
    return oracle.run(pto.parse(HEAD + body + "return\n}", "k.pto"), {**VALUES, **scalars}, profile="a2a3")


def test_a_program_with_its_flags_ends() -> None:
    assert run(BODY)["q"][3] == 6  # type: ignore[index]
    credit = set_("V", "MTE2") + loop(wait("V", "MTE2") + BODY + set_("V", "MTE2")) + wait("V", "MTE2")
    assert run(credit, n=5)["q"][3] == 6  # type: ignore[index]


STALLS = {
    "no set": wait("MTE2", "V", 3) + BODY,
    "set in the branch that is not taken": branch(set_("V", "MTE3", 3)) + wait("V", "MTE3", 3),
    "a trip more than tokens": set_("V", "MTE2", 3) + loop(wait("V", "MTE2", 3)),
    "set on the other core": section("cube", set_("MTE2", "V", 3)) + section("vector", wait("MTE2", "V", 3)),
    "run-time number": BODY + "pto.wait_flag_dyn [#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_V>, %n]\n",
}


@pytest.mark.parametrize("name", STALLS)
def test_a_wait_without_a_token_stops_the_execution(name: str) -> None:
    with pytest.raises(pto.ExecutionError) as stopped:
        run(STALLS[name], n=3)
    (finding,) = stopped.value.diagnostics
    assert "waits for a token that nothing sets before: PIPE_" in finding.message
    assert "3] with 0 tokens, wants 1" in finding.message and finding.span is not None


def test_execution_and_the_check_say_the_same() -> None:
    program = pto.parse(HEAD + wait("MTE2", "V", 3) + "return\n}", "k.pto")
    (found,) = [f for f in pto.races(program, "a2a3") if f.kind == "deadlock"]
    with pytest.raises(pto.ExecutionError) as stopped:
        run(wait("MTE2", "V", 3))
    assert stopped.value.diagnostics[0].message == found.diagnostic.message


def test_a_run_time_number_that_no_signal_has_is_a_finding_before_and_an_error_in_execution() -> None:
    text = MORE + dynamic("set", "MTE2", "V", "%n") + dynamic("wait", "MTE2", "V", "%np")
    program = pto.parse(HEAD + text + "return\n}", "k.pto")
    (found,) = pto.races(program, "a2a3")
    with pytest.raises(pto.ExecutionError) as stopped:
        run(text)
    said = stopped.value.diagnostics[0].message
    assert (found.kind, found.diagnostic.severity) == ("deadlock", "warning")
    assert said.replace("PIPE_V, 3]", "PIPE_V, %np]") == found.diagnostic.message


@pytest.mark.parametrize(
    "body",
    [
        "%big = arith.constant 1000 : index\n%less = arith.subi %n, %big : index\n"
        + set_("V", "MTE2", 3)
        + dynamic("wait", "V", "MTE2", "%less"),
        "%far = arith.constant 12 : index\n%high = arith.shrsi %n, %far : index\n"
        + set_("V", "MTE2", 6)
        + dynamic("wait", "V", "MTE2", "%high"),
        loop(dynamic("set", "V", "MTE2", "%k"), "%c4")
        + loop(
            "%word = pto.load_scalar %words[%k] : !pto.ptr<i32> -> i32\n"
            "%at = arith.index_cast %word : i32 to index\n" + dynamic("wait", "V", "MTE2", "%at"),
            "%c4",
        ),
        loop(dynamic("set", "V", "MTE2", "%k")) + loop(dynamic("wait", "V", "MTE2", "%k")),
    ],
    ids=["less", "high bits", "every flag once by a table", "as many as an argument"],
)
def test_what_some_run_time_numbers_make_right_is_not_refused(body: str) -> None:
    program = pto.parse(HEAD + body + "return\n}", "k.pto")
    assert {f.diagnostic.severity for f in pto.races(program, "a2a3", sync="as-written")} == {"warning"}
    with pytest.warns(pto.PtoWarning, match="allowed: "):
        pto.compile(program, profile="a2a3")


def witnesses(body: str) -> list[str]:
    """What legal orders of the pipes show of the races of a body."""
    program = pto.parse(HEAD + body + "return\n}", "k.pto")
    return [f.witness for f in pto.races(program, "a2a3", inputs=VALUES, schedules=6)]


def test_a_witness_shows_the_bits_of_a_legal_order() -> None:
    (raced,) = witnesses(load("a") + add("d", "a") + sync("V", "MTE3") + store("d"))
    assert raced.startswith("with PIPE_MTE2 as late as legal: 1024 of 1024 elements of q differ, first")


def test_a_race_that_changes_no_bit_says_so() -> None:
    same = add("a", "a").replace("tadd", "tmax")
    (harmless,) = witnesses(load("a") + sync("MTE2", "V") + sync("MTE2", "MTE3", 1) + same + store("a"))
    assert harmless == "none of 6 legal orders shows other bits on these inputs"


def test_legal_orders_of_an_ordered_program_give_the_bits_of_its_text() -> None:
    credit = set_("V", "MTE2") + loop(wait("V", "MTE2") + BODY + set_("V", "MTE2")) + wait("V", "MTE2")
    judged = judged_program(resolve(pto.parse(HEAD + credit + "return\n}", "k.pto"), pto.profile("a2a3")))
    expected = run(credit, n=5)["q"]
    for seed in range(8):
        found = oracle.run(
            judged.resolved.program,
            {**VALUES, "n": 5},
            machine=lambda *given, seed=seed: ScheduledMachine(judged, Schedule((), seed), *given),  # type: ignore[misc]
        )
        assert np.array_equal(found["q"], expected)  # type: ignore[arg-type]


def test_a_lookup_of_many_queries_reads_its_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    loaded = OrderMachine.load

    def noted(self: OrderMachine, op: Op, pointer: Pointer | LocalPointer, dtype: DType) -> Scalar:
        calls.append(pointer)
        return loaded(self, op, pointer, dtype)

    monkeypatch.setattr(OrderMachine, "load", noted)
    text = (Path(__file__).parents[1] / "programs" / "hash_table.pto").read_text()
    text = text.replace("?x9", "2x9").replace("[%n, ", "[%c2, ")
    assert not judged(text, "cpu_sim") and 0 < len(calls) < 200
    tile, row = "!pto.tile_buf<vec, 1x64xi32>", "!pto.partition_tensor_view<1x64xi32>"
    stored = (
        f"%t = pto.alloc_tile addr = %a : {tile}\n"
        "%row = pto.partition_view %k, offsets = [%c1, %c0], sizes = [%c1, %c64] : "
        f"!pto.tensor_view<2x64xi32> -> {row}\n"
        f"pto.tstore ins(%t : {tile}) outs(%row : {row})\n"
    )
    named = "%c0 = arith.constant 0 : index\n%a = arith.constant 0 : i64\n"
    before = text.replace("    pto.hashfind", named + FLAG + stored + "    pto.hashfind")
    assert [f.kind for f in judged(before, "cpu_sim")] == ["race"]
