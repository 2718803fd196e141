"""Texts and JSON are read within bounds, and messages of errors are short whatever they speak of."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main
from pto_jax.errors import Diagnostic, FileError, Span
from pto_jax.files import MAX_TEXT, parse_json, read_json, read_text


def test_endless_files_end_at_the_limit() -> None:
    with pytest.raises(FileError, match=f"^/dev/zero: got more than {MAX_TEXT} bytes, the limit"):
        read_text("/dev/zero")


def test_endless_pipes_end_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTO_JAX_MAX_FILE_BYTES", "1000")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        try:
            with pipe.open("wb", buffering=0) as file:
                while True:
                    file.write(b"0" * 4096)
        except BrokenPipeError:
            return

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(FileError, match="more than 1000 bytes"):
        read_text(pipe)
    writer.join(10)
    assert not writer.is_alive()


def test_pipes_are_read_to_their_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("text"))
    writer.start()
    assert read_text(tmp_path / "pipe") == "text"
    writer.join()
    with pytest.raises(FileError, match="got a pipe or a device"):
        read_text(tmp_path / "pipe", regular=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested more than 64 levels"),
        ("[" * 65 + "]" * 65, "nested more than 64 levels"),
        ('{"a":' * 900 + "1" + "}" * 900, "nested more than 64 levels"),
        ("[1e999]", "a number is too large"),
        ("[NaN]", "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
        ("9" * 5000, "not JSON"),
        ("{", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_json_is_bounded(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(FileError, match=message) as caught:
        read_json(tmp_path / "a.json")
    assert str(caught.value).startswith(f"{tmp_path}/a.json: ") and "\n" not in str(caught.value)


def test_json_may_be_nested_to_the_limit() -> None:
    assert parse_json("[" * 64 + "]" * 64, "here")


LONG = "n" * 100_000
TEXT = "func.func @f(%x: !pto.ptr<f32>) {\n  return\n}"
MANY = ", ".join(f"%a{i}: index" for i in range(20_000))
BAD = (
    f"func.func @{LONG}(%x: !pto.ptr<f32>) {{\n  func.call @g(%x) : (!pto.ptr<f32>) -> ()\n  return\n}}",
    f"func.func @f(%{LONG}: index) {{\n  %{LONG} = arith.constant 0 : index\n  return\n}}",
    f"func.func @f() {{\n  pto.{LONG} ins(%x : index)\n  return\n}}",
    f"func.func @f({MANY}) {{\n  %a1 = arith.addi %a0, %nothing : index\n  return\n}}",
    f"func.func @f({MANY}) {{\n  return\n",
    f'module attributes {{pto.target_arch = "{LONG}"}} {{\n{TEXT}\n}}',
)


@pytest.mark.variants(2)
@pytest.mark.parametrize("at", range(len(BAD)))
def test_what_texts_call_things_does_not_fill_the_terminal(
    at: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.pto"
    file.write_text(BAD[at])
    for command in ("verify", "run"):
        main([command, str(file)])
        out = "".join(capsys.readouterr())
        assert 0 < len(out) < 40_000, (command, len(out))


def test_an_archive_of_many_arrays_is_one_short_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = {f"array_{i}": np.zeros(1, np.int8) for i in range(3_000)}
    np.savez(tmp_path / "in.npz", **arrays)  # type: ignore[arg-type]
    file = tmp_path / "k.pto"
    file.write_text(TEXT)
    assert main(["run", str(file), "--inputs", str(tmp_path / "in.npz")]) != 0
    assert 0 < len("".join(capsys.readouterr())) < 6_000


def test_the_error_of_many_arguments_is_short() -> None:
    with pytest.raises(pto.ArgumentError) as error:
        pto.compile(pto.parse(TEXT))(**{f"array_{i}": np.zeros(1, np.float32) for i in range(60_000)})
    assert len(str(error.value)) < 5_000


def test_the_middle_of_a_message_and_of_a_line_is_left_out() -> None:
    span = Span("k.pto", 1, 50_000, 3, "a" * 49_999 + "xyz" + "a" * 50_000)
    found = Diagnostic("error", LONG + "; allowed: less", span, LONG)
    shown = found.render()
    assert len(shown) < 4_000 and found.message.endswith("; allowed: less")
    line, caret = shown.splitlines()[-2:]
    assert line[caret.index("^") :].startswith("xyz") and caret.count("^") == 3
    error = pto.VerifyError([found] * 1_000)
    assert len(str(error)) < 25_000 and len(error.diagnostics) == 1_000
