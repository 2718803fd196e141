"""C++ kernels that a compiler engineer edits by hand: right ones, wrong ones, and forms that are not read."""

from typing import Any

import pytest

import pto_jax as pto
from tests.order.texts import HEAD, set_ as flag, told
from tests.text import emitted as cpp

TILES = cpp.tile("v10") + cpp.tile("v11", "1024") + cpp.view("v12", "v1") + cpp.view("v13", "v2")
LOAD, ADD, STORE = "TLOAD(v10, v12);\n", "TADD(v11, v10, v10);\n", "TSTORE(v13, v11);\n"
ALL = "pipe_barrier(PIPE_ALL);\n"


def set_(src: str, dst: str, event: str = "EVENT_ID0") -> str:
    return f"set_flag(PIPE_{src}, PIPE_{dst}, {event});\n"


def wait(src: str, dst: str, event: str = "EVENT_ID0") -> str:
    return set_(src, dst, event).replace("set_", "wait_", 1)


def sync(src: str, dst: str, event: str = "EVENT_ID0") -> str:
    return set_(src, dst, event) + wait(src, dst, event)


def loop(body: str, limit: str = "v4", name: str = "i60") -> str:
    return f"for (int64_t {name} = v93; {name} < {limit}; {name} += v92) {{\n{body}}}\n"


def branch(condition: str, yes: str, no: str = "") -> str:
    return f"if ({condition}) {{\n{yes}}}" + (f" else {{\n{no}}}\n" if no else "\n")


IN, OUT = sync("MTE2", "V"), sync("V", "MTE3")
FREE_IN, FREE_OUT = sync("V", "MTE2", "EVENT_ID1"), sync("MTE3", "V", "EVENT_ID1")
BODY = LOAD + IN + ADD + OUT + STORE + FREE_IN + FREE_OUT
PRIME, DRAIN = set_("V", "MTE2", "EVENT_ID2"), wait("V", "MTE2", "EVENT_ID2")
TOKEN = DRAIN + LOAD + IN + ADD + PRIME
#: What decides a number of a flag, and another number.
COUNTED, CHOSEN = "(event_t)v5", "v4 > v93 ? EVENT_ID0 : EVENT_ID1"
BUFFERS = (
    "get_buf(PIPE_MTE2, 0, false);\n" + LOAD + "rls_buf(PIPE_MTE2, 0, false);\n"
    "get_buf(PIPE_V, 0, false);\n" + ADD + "rls_buf(PIPE_V, 0, false);\n"
)
#: By name: the lines, what is found, the profile.
KERNELS: dict[str, tuple[str, set[str], str]] = {
    "a loop": (loop(BODY), set(), "a2a3"),
    "a loop that overwrites what is read": (loop(BODY.replace(FREE_IN, "")), {"race V->MTE2"}, "a2a3"),
    "a loop that overwrites what is stored": (loop(BODY.replace(FREE_OUT, "")), {"race MTE3->V"}, "a5"),
    "a loop in a loop": (loop(loop(BODY, "v90", "j61")), set(), "a5"),
    "a flag of the outer loop": (
        loop(loop(BODY.replace(FREE_OUT, ""), "v90", "j61") + FREE_OUT),
        {"race MTE3->V"},
        "a2a3",
    ),
    "a token": (PRIME + loop(TOKEN) + DRAIN, set(), "a2a3"),
    "a token in two loops": (PRIME + loop(loop(TOKEN, "v5", "j61")) + DRAIN, set(), "a2a3"),
    "a token that nobody primes": (loop(TOKEN) + DRAIN, {"deadlock"}, "a2a3"),
    "a token that nobody takes": (PRIME + loop(TOKEN), {"unmatched"}, "a2a3"),
    "both arms": (LOAD + branch("v4 < v90", IN, IN) + ADD, set(), "a5"),
    "one arm": (LOAD + branch("v4 < v90", IN) + ADD, {"race MTE2->V"}, "a5"),
    "an arm that is empty": (LOAD + branch("v4 < v90", ALL, OUT) + ADD, {"race MTE2->V"}, "a2a3"),
    "a barrier of all pipes": (loop(LOAD + ALL + ADD + ALL + STORE + ALL), set(), "a2a3"),
    "a barrier of one pipe": (
        loop(LOAD + ALL + ADD + "pipe_barrier(PIPE_V);\n" + STORE + ALL),
        {"race V->MTE3"},
        "a2a3",
    ),
    "a flag in a loop of no trip": (LOAD + loop(IN) + ADD, {"race MTE2->V"}, "a2a3"),
    "a peeled tail": (loop(BODY) + LOAD + IN + ADD + OUT + STORE, set(), "a2a3"),
    "a peeled tail without its flag": (loop(BODY) + LOAD + ADD + OUT + STORE, {"race MTE2->V"}, "a2a3"),
    "a flag set twice": (LOAD + set_("MTE2", "V") + IN + ADD, {"unmatched"}, "a2a3"),
    "a number at run time": (LOAD + sync("MTE2", "V", COUNTED) + ADD, set(), "a2a3"),
    "a number that a condition chooses": (LOAD + sync("MTE2", "V", CHOSEN) + ADD, set(), "a2a3"),
    "a flag of another number": (
        LOAD + set_("MTE2", "V", CHOSEN) + wait("MTE2", "V", "EVENT_ID2") + ADD,
        {"race MTE2->V", "deadlock", "unmatched"},
        "a2a3",
    ),
    "tokens of a buffer": (BUFFERS, set(), "a5"),
    "tokens of two buffers": (BUFFERS.replace("PIPE_V, 0", "PIPE_V, 1"), {"race MTE2->V"}, "a5"),
}


@pytest.mark.variants(8)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_have_their_findings(name: str) -> None:
    lines, found, profile = KERNELS[name]
    program = pto.parse(cpp.file(TILES + lines), file="k.cpp")
    assert set(told(pto.races(program, profile))) == found  # type: ignore[arg-type]


#: Forms that the assembler does not write: one error with the place, never a guess.
OTHERS = {
    "return": (
        branch("v4 == v93", "return;\n") + BODY,
        "got the statement 'return', a form that is not read",
    ),
    "break": (loop(LOAD + branch("v4 == v93", "break;\n") + IN + ADD), "got the statement 'break'"),
    "continue": (loop(branch("v4 == v93", "continue;\n") + BODY), "got the statement 'continue'"),
    "while": (f"while (v4 > v93) {{\n{BODY}}}\n", r"got the statement 'while \( v4 > v93 \)'"),
    "do": (f"do {{\n{BODY}}} while (v4 > v93);\n", "got the statement 'do'"),
    "switch": (f"switch (v5) {{\ndefault:\n{IN}}}\n", r"got the statement 'switch \( v5 \)'"),
    "lambda": ("auto f = [&]() { TADD(v11, v10, v10); };\n", r"got '\['"),
    "event object": ("Event<Op::TLOAD, Op::TVEC> e0;\n", "got the unknown intrinsic 'Event'"),
    "macro": ("#define SYNC(a, b) set_flag(a, b, EVENT_ID0)\n", "inside a section"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_forms_are_one_error_with_their_place(name: str) -> None:
    lines, message = OTHERS[name]
    with pytest.raises(pto.ParseError, match=rf"^k\.cpp:\d+:\d+: error: .*{message}"):
        pto.parse(cpp.file(TILES + lines), file="k.cpp")


@pytest.mark.parametrize("emitted", [True, False], ids=["C++", "PTO text"])
def test_the_other_half_of_a_flag_is_in_the_language_of_the_text(emitted: bool) -> None:
    """The line of a finding, where it says, leaves none."""

    def findings(lines: str) -> list[Any]:
        text = cpp.file(TILES + lines) if emitted else HEAD + lines + "return\n}"
        return pto.races(pto.parse(text, file="k.cpp" if emitted else "k.pto"), "a2a3")

    half = set_ if emitted else flag
    for one, other in (("wait", "set"), ("set", "wait")):
        line = half("MTE2", "V").replace("set_", f"{one}_", 1)
        (found,) = findings(line)
        fix = found.missing.partition("try: ")[2].partition(" on every" if one == "wait" else " behind")[0]
        assert f"{other}_flag" in fix
        assert findings(f"{fix}\n{line}" if one == "wait" else f"{line}{fix}\n") == []
