"""Memory of functions over their lines: bars, peaks, estimated addresses, and values that are overwritten."""

from __future__ import annotations

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
