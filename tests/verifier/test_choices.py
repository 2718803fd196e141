"""Handles that ``arith.select`` or a branch chooses: both are meant, and one condition chooses alike."""

import pytest

from pto_jax.api import parse, verify
from tests.verifier.test_hazards import BACK, HEAD, TO_STORE, TO_V, T, W, add, load, loop, store, sync

VIEW = "!pto.tensor_view<?x?xf32>"


def choice(
    name: str, yes: str, no: str, condition: str = "c", kind: str = T, spelling: str = "select"
) -> str:
    if spelling == "select":
        return f"%{name} = arith.select %{condition}, %{yes}, %{no} : {kind}\n"
    return (
        f"%{name} = scf.if %{condition} -> ({kind}) {{\nscf.yield %{yes} : {kind}\n}} else {{\n"
        f"scf.yield %{no} : {kind}\n}}\n"
    )


ODD = "%r = arith.remui %i, %c2 : index\n%odd = arith.cmpi eq, %r, %c0 : index\n"
#: Two tiles in turns: one is filled while the other is computed with.
TURNS = ODD + choice("now", "a", "b", "odd") + choice("next", "b", "a", "odd")
#: Three windows apart of one buffer.
WINDOWS = (
    f"%x64 = pto.make_tensor_view %p, shape = [%c64, %c64], strides = [%c64, %c1] : {VIEW}\n"
    "%c32 = arith.constant 32 : index\n"
) + "".join(
    f"%w{i} = pto.partition_view %x64, offsets = [%c{row}, %c0], sizes = [%c16, %c64] : {VIEW} -> {W}\n"
    for i, row in enumerate((0, 16, 32))
)


def to(window: str, tile: str = "a") -> str:
    return f"pto.tstore ins(%{tile} : {T}) outs(%{window} : {W})\n"


def out_of(window: str, tile: str = "b") -> str:
    return f"pto.tload ins(%{window} : {W}) outs(%{tile} : {T})\n"


CROSS = sync("V", "M", 7)  # Some flag, so that the function is judged as it is written.
HAZARDS = {
    "the first of two": choice("t", "a", "b") + load("t") + CROSS + add("d", "a"),
    "the second of two": choice("t", "a", "b") + load("t") + CROSS + add("d", "b"),
    "the third of three": choice("s", "a", "b")
    + choice("t", "s", "d", "e")
    + load("t")
    + CROSS
    + add("a", "d"),
    "a write of one that is read": choice("t", "a", "b") + CROSS + add("d", "t") + load("b"),
    "a chosen one and another choice": choice("t", "a", "b")
    + choice("u", "b", "d", "e")
    + load("t")
    + CROSS
    + add("a", "u"),
    "turns with flags for one pass only": loop(TURNS + load("next") + CROSS + add("d", "now"), "%n"),
    "a window of the chosen one": choice("t", "a", "b")
    + f"%h = pto.subset %t[%c0, %c0] sizes [16, 16] : {T}\n"
    + load("b")
    + CROSS
    + f"pto.tneg ins(%h : {T.replace('16x64', '16x16')}) outs(%h : {T.replace('16x64', '16x16')})\n",
    "the first of two windows": WINDOWS + choice("z", "w1", "w2", kind=W) + CROSS + to("z") + out_of("w2"),
    "the second of two windows": WINDOWS + choice("z", "w1", "w2", kind=W) + CROSS + to("z") + out_of("w1"),
}
APART = {
    "neither of two": choice("t", "a", "b") + load("t") + CROSS + add("d", "d"),
    "the other one by one condition": choice("t", "a", "b")
    + choice("u", "b", "a")
    + load("t")
    + CROSS
    + add("d", "u"),
    "ordered": choice("t", "a", "b") + load("t") + TO_V + add("d", "a") + TO_STORE + store("d"),
    "turns with flags of both": loop(
        TURNS + load("next") + add("d", "now") + TO_V + BACK + sync("V", "MTE2", 3), "%n"
    ),
    "known": "%yes = arith.cmpi eq, %c1, %c1 : index\n"
    + choice("t", "a", "b", "yes")
    + load("t")
    + CROSS
    + add("d", "b"),
    "neither window": WINDOWS + choice("z", "w1", "w2", kind=W) + CROSS + to("z") + out_of("w0"),
}
E = "%e = arith.cmpi eq, %n, %c1 : index\n"


def judged(body: str, spelling: str) -> list[str]:
    text = HEAD + E + body + "return\n}"
    if spelling == "branch":
        lines = []
        for line in text.splitlines():
            words = line.replace(",", " ").split()
            if words[2:3] == ["arith.select"]:
                kind = line.split(" : ")[1]
                line = choice(words[0][1:], words[4][1:], words[5][1:], words[3][1:], kind, "branch")
            lines.append(line)
        text = "\n".join(lines)
    found = verify(parse(text, "p.pto"), "a5", level=3)
    assert not [d for d in found if d.severity == "error"], found
    return [d.message for d in found if d.rule == "hazard"]


@pytest.mark.parametrize("spelling", ["select", "branch"])
@pytest.mark.parametrize("name", HAZARDS)
def test_either_handle_may_clash(name: str, spelling: str) -> None:
    assert judged(HAZARDS[name], spelling)


@pytest.mark.parametrize("spelling", ["select", "branch"])
@pytest.mark.parametrize("name", APART)
def test_handles_chosen_apart_do_not_clash(name: str, spelling: str) -> None:
    assert judged(APART[name], spelling) == []


@pytest.mark.parametrize("same", [True, False])
def test_chosen_operands_may_share_bytes(same: bool) -> None:
    t = "!pto.tile_buf<vec, 16x16xf32>"
    lines = [f"%{n} = pto.alloc_tile : {t}" for n in "abt"]
    chosen = f"%d = arith.select %c, %a, %{'a' if same else 'b'} : {t}"
    use = f"pto.ttrans ins(%a, %t : {t}, {t}) outs(%d : {t})"
    body = "\n".join([*lines, chosen, use])
    text = f"func.func @f(%c: i1) {{\n{body}\nreturn\n}}"
    found = [(d.severity, "may share" in d.message) for d in verify(parse(text)) if d.rule == "overlap"]
    assert found == [("error", False) if same else ("warning", True)]


@pytest.mark.parametrize("spelling", ["select", "branch"])
def test_a_chain_of_choices_doubles_nothing(spelling: str) -> None:
    """Each step chooses between both results of the one before; each tile is both at the end."""
    tile = "!pto.tile_buf<vec, 8x8xf32>"
    lines = f"%a0 = pto.alloc_tile : {tile}\n%b0 = pto.alloc_tile : {tile}\n"
    for i in range(60):
        for name, yes, no in ((f"a{i + 1}", f"a{i}", f"b{i}"), (f"b{i + 1}", f"b{i}", f"a{i}")):
            lines += choice(name, yes, no, f"c{i % 3}" if name[0] == "a" else f"d{i}", tile, spelling)
    conditions = ", ".join(f"%{c}: i1" for c in ("c0", "c1", "c2", *(f"d{i}" for i in range(60))))
    last = f"pto.ttrans ins(%a60, %a60 : {tile}, {tile}) outs(%b60 : {tile})\n"
    text = f"func.func @k(%p: !pto.ptr<f32>, {conditions}) {{\n{lines}{last}return\n}}"
    shared = [d for d in verify(parse(text), "a5") if d.rule == "overlap"]
    assert {d.severity for d in shared} == {"warning"}
    assert all("may share bytes" in d.message and len(d.message) < 300 for d in shared)
