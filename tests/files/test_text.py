"""Reading texts and JSON: bounded, one line for what cannot be read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pto_jax.errors import FileError
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
