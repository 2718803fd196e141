"""Flags and events as tokens: initial credits, branches, loops that run never, run-time numbers."""

import pytest

from pto_jax.api import parse, verify
from pto_jax.errors import Diagnostic

HEAD = """
func.func @f(%n: index, %c: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %true = arith.constant 1 : i1
"""


def set_(src: str = "MTE2", dst: str = "V", event: int = 0) -> str:
    return f"pto.set_flag[<PIPE_{src}>, <PIPE_{dst}>, <EVENT_ID{event}>]\n"


def wait(src: str = "MTE2", dst: str = "V", event: int = 0) -> str:
    return set_(src, dst, event).replace("set_flag", "wait_flag")


def dynamic(kind: str, event: str) -> str:
    return f"pto.{kind}_flag_dyn [#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_V>, {event}]\n"


def event(kind: str) -> str:
    ends = "#pto.pipe_event_type<TLOAD>, #pto.pipe_event_type<TVEC>"
    return f"pto.{kind}_event [{ends}, #pto.event<EVENT_ID0>]\n"


def loop(body: str, trips: str = "%n") -> str:
    return f"scf.for %i = %c0 to {trips} step %c1 {{\n{body}}}\n"


def branch(yes: str, no: str = "", condition: str = "%c") -> str:
    return f"scf.if {condition} {{\n{yes}}}" + (f" else {{\n{no}}}\n" if no else "\n")


def tokens(body: str, before: str = "", after: str = "") -> list[Diagnostic]:
    program = parse(f"module {{\n{before}{HEAD}{body}return\n}}\n{after}}}", "p.pto")
    return [d for d in verify(program, "a5") if d.rule == "token"]


SLOT = "%slot = arith.remsi %i, %c2 : index\n"
FIRST = "%first = arith.cmpi eq, %i, %c0 : index\n%later = arith.xori %first, %true : i1\n"
LAST = "%next = arith.addi %i, %c1 : index\n%more = arith.cmpi slt, %next, %n : index\n"
BALANCED = {
    "a pair": set_() + wait(),
    "an event": event("record") + event("wait"),
    "a flag set, its event waited for": set_() + event("wait"),
    "one number between two pairs of pipes": set_() + set_("V", "MTE3") + wait() + wait("V", "MTE3"),
    "two numbers": set_() + set_(event=1) + wait() + wait(event=1),
    "credit before a loop": set_() + loop(wait() + set_()) + wait(),
    "credits of two slots": dynamic("set", "%c0")
    + dynamic("set", "%c1")
    + loop(SLOT + dynamic("wait", "%slot") + dynamic("set", "%slot"))
    + dynamic("wait", "%c0")
    + dynamic("wait", "%c1"),
    "first trip without wait": loop(
        FIRST + branch(wait(), condition="%later") + LAST + branch(set_(), condition="%more")
    ),
    "both branches": branch(set_(), set_()) + wait(),
    "the same condition twice": branch(set_()) + branch(wait()),
    "opposite conditions": "%d = arith.xori %c, %true : i1\n"
    + set_()
    + branch(wait())
    + branch(wait(), condition="%d"),
    "run-time numbers": dynamic("set", "%n") + dynamic("wait", "%n"),
    "a loop of known trips": set_() + loop(wait() + set_(), "%c4") + wait(),
    "barriers alone": "pto.barrier <PIPE_ALL>\n",
}


@pytest.mark.parametrize("name", BALANCED)
def test_balanced_flags_give_no_finding(name: str) -> None:
    assert [str(d) for d in tokens(BALANCED[name])] == []


WRONG = {
    "wait alone": (wait(), "error", "waits for a token that nothing sets"),
    "event alone": (event("wait"), "error", "waits for a token that nothing sets"),
    "wait of another number": (set_(event=1) + wait(event=2) + wait(event=1), "error", "waits for"),
    "wait of other pipes": (set_() + wait("MTE2", "MTE3") + wait(), "error", "waits for"),
    "wait twice": (set_() + wait() + wait(), "error", "waits for"),
    "wait before set": (wait() + set_(), "error", "waits for"),
    "wait in every trip, set before": (set_() + loop(wait(), "%c2"), "error", "waits for"),
    "credit that is missing": (loop(wait() + set_()) + wait(), "error", "waits for"),
    "wait in both branches and behind": (set_() + branch(wait(), wait()) + wait(), "error", "waits for"),
    "set in one branch": (branch(set_()) + wait(), "warning", "where numbers that only execution knows are"),
    "loop that runs never": (loop(set_() + wait() + set_(event=1), "%n") + wait(event=1), "warning", "are 0"),
    "set twice": (set_() + set_() + wait(), "warning", "that set_flag (p.pto:"),
    "set in every trip": (loop(set_(), "%c2") + wait(), "warning", "has set and nothing has waited for"),
    "left over": (set_(), "warning", "nothing waits for up to the end of @f"),
    "credit left over": (set_() + loop(wait() + set_()), "warning", "up to the end of @f"),
    "run-time numbers apart": (dynamic("set", "%c0") + dynamic("wait", "%c1"), "warning", "waits for"),
}


@pytest.mark.parametrize("name", WRONG)
def test_flags_that_stall_or_leak_are_named(name: str) -> None:
    body, severity, message = WRONG[name]
    hit = [d for d in tokens(body) if message in d.message]
    assert hit and hit[0].severity == severity and "allowed: " in hit[0].message
    assert hit[0].span is not None and hit[0].span.line > 8
    assert severity == "error" or all(d.severity == "warning" for d in tokens(body))


def test_calls_are_followed_and_helpers_are_not_judged_alone() -> None:
    helper = f"func.func private @w() {{\n{wait()}return\n}}\n"
    call = "func.call @w() : () -> ()\n"
    assert tokens(set_() + call, after=helper) == []
    assert [d.severity for d in tokens(call, after=helper)] == ["error"]
    assert tokens(set_() + wait(), after=helper) == []


def test_sections_have_flags_of_their_own() -> None:
    body = f"pto.section.cube {{\n{set_('MTE2', 'MTE1')}{wait('MTE2', 'MTE1')}}}\n"
    assert tokens(body) == []
    apart = f"pto.section.cube {{\n{set_('MTE2', 'S')}}}\npto.section.vector {{\n{wait('MTE2', 'S')}}}\n"
    assert {d.severity for d in tokens(apart)} == {"warning"} and len(tokens(apart)) == 2


def test_blocks_and_while_loops_are_followed() -> None:
    graph = f"cf.br ^a\n^a:\n{set_()}cf.br ^b\n^b:\n{wait()}"
    assert tokens(graph) == [] and tokens(graph.replace(wait(), wait() * 2))[0].severity == "error"
    trips = (
        "%r = scf.while (%x = %c0) : (index) -> index {\n%go = arith.cmpi slt, %x, %c2 : index\n"
        "scf.condition(%go) %x : index\n} do {\n^bb0(%y: index):\nBODY"
        "%z = arith.addi %y, %c1 : index\nscf.yield %z : index\n}\n"
    )
    assert tokens(trips.replace("BODY", set_() + wait())) == []
    assert tokens(trips.replace("BODY", wait()))[0].severity == "error"


def test_event_numbers_in_arrays_are_read_as_they_are_written() -> None:
    array = "%a = pto.declare_eventid_array -> !pto.eventid_array<4>\n"
    write = "pto.eventid_array_set %a[%c0], %c2 : !pto.eventid_array<4>\n"
    read = "%e = pto.eventid_array_get %a[%c0] : !pto.eventid_array<4>\n"
    assert tokens(array + write + read + dynamic("set", "%e") + wait(event=2)) == []
    assert tokens(array + write + read + dynamic("set", "%e") + wait(event=0)) != []


def test_loops_of_many_trips_end_in_bounded_time() -> None:
    many = "%m = arith.constant 1000000000 : index\n" + loop(
        loop(wait() + set_(), "%m").replace("%i", "%j"), "%m"
    )
    assert tokens(set_() + many + wait()) == []
