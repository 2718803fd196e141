"""Memory of functions over their lines; `races` and `memory` name errors of programs that are rejected."""

import json
from pathlib import Path

import pytest

import pto_jax as pto
from pto_jax.analysis.resolve import resolve
from pto_jax.cli.main import main
from pto_jax.order.memory import Memory
from tests.order.texts import FLAG, HEAD, T, add, load, set_, store, sync, wait

CHAIN = load("a") + sync("MTE2", "V") + add("b", "a") + add("d", "b") + sync("V", "MTE3") + store("d")


def memory(text: str) -> Memory:
    """The memory of the only function of a text."""
    resolved = resolve(pto.parse(text, "k.pto"), pto.profile("a2a3"))
    return Memory.of(resolved, resolved.program.functions[0])


def test_bars_have_the_addresses_of_the_text() -> None:
    (vec,) = memory(HEAD + CHAIN + "return\n}").buffers
    assert [(b.name, b.start, b.end, b.estimated) for b in vec.bars] == [
        ("a", 0, 4096, False),
        ("b", 4096, 8192, False),
        ("d", 8192, 12288, False),
    ]
    assert vec.peak.bytes == 8192 and vec.peak.tiles == ("%a", "%b") and not vec.estimated


def test_tiles_without_addresses_take_turns_by_their_lifetimes() -> None:
    bare = HEAD
    for i in range(4):
        bare = bare.replace(f"pto.alloc_tile addr = %a{i} : {T}", f"pto.alloc_tile : {T}")
    (vec,) = memory(bare + CHAIN + "return\n}").buffers
    assert vec.estimated and [(b.name, b.start) for b in vec.bars] == [("a", 0), ("d", 0), ("b", 4096)]
    assert vec.peak.bytes == 8192


def test_the_command_names_the_least_that_the_verifier_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, t = tmp_path / "k.pto", "!pto.tile_buf<vec, 600x64xf32>"
    half = t.replace("f32", "f16")
    path.write_text(
        f"func.func @f(%out: !pto.tensor_view<600x64xf16>) {{\n%one = arith.constant 1.0 : f32\n"
        f"%x = pto.alloc_tile : {t}\n%y = pto.alloc_tile : {half}\n"
        f"pto.texpands ins(%one : f32) outs(%x : {t})\npto.tcvt ins(%x : {t}) outs(%y : {half})\n"
        f"pto.tstore ins(%y : {half}) outs(%out : !pto.tensor_view<600x64xf16>)\nreturn\n}}\n"
    )
    assert main(["verify", str(path)]) == main(["memory", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "peak 230400 of 196608 bytes (117 %)" in shown
    assert "at least 153600 bytes: a destination may take the bytes of a source that ends" in shown


def test_the_command_shows_the_peak_and_exits_with_1_for_lost_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.pto"
    path.write_text(HEAD + CHAIN + "return\n}", encoding="utf-8")
    picture = tmp_path / "memory.svg"
    assert main(["memory", str(path), "--svg", str(picture)]) == 0
    assert picture.read_text().startswith("<svg ")
    assert main(["memory", str(path), "--svg", str(tmp_path / "none/memory.svg")]) == 2
    shown = capsys.readouterr().out
    assert "peak 8192 of 196608 bytes (4 %) at line" in shown and "%a, %b" in shown and "####" in shown
    half = f"%z = pto.alloc_tile addr = %half : {T}\n"
    lost = (
        "%half = arith.constant 2048 : i64\n"
        + half
        + load("a")
        + sync("MTE2", "V")
        + add("z", "b")
        + add("d", "a")
    )
    path.write_text(HEAD + lost + "return\n}", encoding="utf-8")
    assert main(["memory", str(path)]) == 1
    assert "shares bytes with %a" in capsys.readouterr().out
    assert main(["memory", str(tmp_path / "none.pto")]) == 2
    assert main(["races", str(path), "--json", str(tmp_path / "o.json")]) == 1
    (found,) = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert found["kind"] == "overlap" and found["first"]["value"] == "%a" and found["second"]["value"] == "%z"


def test_a_program_that_uses_no_tile_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.pto"
    path.write_text(HEAD + "return\n}", encoding="utf-8")
    assert main(["memory", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: no tile is in use\n"


def test_the_command_races_names_its_mode_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "k.pto", tmp_path / "o.json"
    path.write_text(HEAD + load("a") + add("d", "a") + "return\n}", encoding="utf-8")
    assert main(["races", str(path)]) == 0 and "nothing found (inserted, a2a3)" in capsys.readouterr().out
    assert main(["races", str(path), "--sync", "as-written", "--json", str(out)]) == 1
    assert "1 finding (as-written, a2a3)" in capsys.readouterr().out
    (found,) = json.loads(out.read_text(encoding="utf-8"))
    assert found["kind"] == "race" and found["count"] >= 1 and found["mode"] == "as-written"
    assert found["first"]["pipe"] == "PIPE_MTE2" and found["second"]["pipe"] == "PIPE_V"
    assert found["first"]["operation"] == "tload" and found["second"]["line"] == found["first"]["line"] + 1
    assert "PIPE_MTE2 -> PIPE_V; try: pto.set_flag" in found["missing"]
    path.write_text(
        HEAD + FLAG + "pto.barrier <PIPE_V>\n" + add("d", "a") + add("e", "d") + "return\n}", encoding="utf-8"
    )
    assert main(["races", str(path)]) == 1 and "(strict, a2a3)" in capsys.readouterr().out
    assert main(["races", str(path), "--profile", "a5"]) == 0
    path.write_text(HEAD + wait("V", "MTE3") + set_("V", "MTE3") + "return\n}", encoding="utf-8")
    assert main(["races", str(path), "--json", str(out)]) == 1
    assert {f["kind"] for f in json.loads(out.read_text(encoding="utf-8"))} == {"deadlock", "unmatched"}
    path.write_text("no program", encoding="utf-8")
    assert main(["races", str(path)]) == 2 and main(["races", str(path), "--grid", "0"]) == 2


FLAGS = (
    "pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]\npto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]\n"
)
#: A pointer to addresses, a view of one, tiles of two sizes in one sum, a tile beyond every memory.
WRONG = (
    "%p = pto.inttoptr %n : i64 -> !pto.ptr<index>\n%c0 = arith.constant 0 : index\n"
    "%x = pto.load_scalar %p[%c0] : !pto.ptr<index> -> index\n",
    "%p = pto.inttoptr %n : i64 -> !pto.ptr<f32>\n%c1 = arith.constant 1 : index\n"
    "%v = pto.make_tensor_view %p, shape = [%c1], strides = [%c1] : !pto.tensor_view<1xf32>\n",
    "%s = pto.alloc_tile : !pto.tile<f32, 16, 16>\n%t = pto.alloc_tile : !pto.tile<f32, 8, 8>\n"
    "pto.tadd ins(%s, %t : !pto.tile<f32, 16, 16>, !pto.tile<f32, 8, 8>) "
    "outs(%s : !pto.tile<f32, 16, 16>)\n",
    "%t = pto.alloc_tile : !pto.tile<f32, 4096, 4096>\n",
    f"%z = arith.constant 0 : i64\n%a = pto.alloc_tile addr = %z : {T}\n%b = pto.alloc_tile addr = %z : {T}\n"
    f"pto.tneg ins(%a : {T}) outs(%a : {T})\npto.tneg ins(%b : {T}) outs(%b : {T})\n"
    f"pto.tsubview ins(%a, %b : {T}, {T}) outs(%a : {T})\npto.tneg ins(%a : {T}) outs(%b : {T})\n",
)


def test_operations_that_nobody_can_follow_are_named() -> None:
    with pytest.raises(pto.VerifyError, match="got 2 source operand"):
        pto.races(pto.parse(f"pto.tsubview ins(%a, %b : {T}, {T}) outs(%d : {T})\n"))


@pytest.mark.parametrize("body", WRONG)
@pytest.mark.parametrize("sync", ["auto", "as-written", "strict"])
def test_a_rejected_program_gives_findings_or_the_verifiers_errors(
    body: str, sync: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.pto"
    path.write_text(f"func.func @k(%n: i64) attributes {{pto.entry}} {{\n{FLAGS}{body}return\n}}\n")
    assert [d for d in pto.verify(pto.load(path)) if d.severity == "error"]
    assert main(["races", str(path), "--sync", sync]) in (0, 1, 2)
    assert main(["memory", str(path)]) in (0, 1, 2)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err


@pytest.mark.slow
def test_functions_that_call_the_next_one_twice_take_no_time() -> None:
    """26 functions make 67 million calls: one error, at once."""
    twice = "".join(
        f"func.func private @g{i}() {{\n" + f"func.call @g{i + 1}() : () -> ()\n" * 2 + "return\n}\n"
        for i in range(25)
    )
    last = "func.func private @g25() {\nreturn\n}\n"
    program = pto.parse(twice + last + "func.func @f() {\nfunc.call @g0() : () -> ()\nreturn\n}")
    (error,) = pto.verify(program)
    assert error.message == "an execution of @g0 makes 67108862 calls; allowed: 10000"
    with pytest.warns(pto.PtoWarning, match="@f has a course of more than 40000 operations"):
        assert pto.races(program) == []


@pytest.mark.slow
def test_a_course_that_is_not_followed_to_its_end_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.pto"
    body = "".join(f"%s{i} = arith.addi %n, %n : i64\n" for i in range(700))
    loops = "".join(f"scf.for %k{i} = %c0 to %c9 step %c1 {{\n" for i in range(4)) + body + "}\n" * 4
    numbers = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (0, 1, 9))
    path.write_text(f"func.func @k(%n: i64) {{\n{numbers}{FLAGS}{loops}return\n}}\n")
    assert main(["races", str(path)]) == 0
    assert "warning: @k has a course of more than 40000 operations" in capsys.readouterr().err
