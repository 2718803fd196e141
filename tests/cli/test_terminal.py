"""What the command line prints: no traceback, no steering characters, one line when printing fails."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pto_jax.api import load
from pto_jax.cli import main
from pto_jax.examples import example
from pto_jax.files.terminal import escaped
from tests.cli.conftest import Commands

ROOT = Path(__file__).parents[2]
ESCAPE = "\x1b[31mred\u202e"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A shell line with ``$PTO`` for the command."""
    environment = {"PTO": f"{sys.executable} -m pto_jax", "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        ["bash", "-c", line], env={**os.environ, **environment}, capture_output=True, check=False
    )


def test_a_full_device_is_one_line() -> None:
    done = shell("$PTO isa > /dev/full")
    assert done.stderr == b"pto-jax isa: error: standard output: No space left on device\n"
    assert done.returncode == 2


def test_a_reader_that_leaves_is_no_error() -> None:
    # More than a pipe holds.
    done = shell("$PTO isa --json | head -c 1; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"{", b"")


def test_closed_streams_are_no_error() -> None:
    done = shell("$PTO run none.pto 2>&-; echo $?")
    assert (done.stdout, done.stderr) == (b"2\n", b"")


def test_an_encoding_without_the_characters_escapes_them(tmp_path: Path) -> None:
    path = tmp_path / "no\u202ename.pto"
    path.write_text("pto.tneg\u202e")
    done = shell(f"$PTO verify '{path}'", PYTHONIOENCODING="ascii")
    assert done.returncode == 1 and done.stderr == b"" and rb"no\u202ename.pto:1:" in done.stdout


#: Presses the interrupt key when a module is imported, then runs a command.
INTERRUPTED = """
import builtins, os, signal, sys
# As in a terminal: what runs in the background ignores the key, and its children do.
signal.signal(signal.SIGINT, signal.default_int_handler)
real, awaited, number = builtins.__import__, [sys.argv[1]], int(sys.argv[2])
def imported(name, *more, **others):
    if awaited and name == awaited[0]:
        os.kill(os.getpid(), number if awaited.pop() else 0)
    return real(name, *more, **others)
builtins.__import__ = imported
sys.argv = ["pto-jax", "run", "--example", "vector_add"]
from pto_jax.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("module", "status", "line"),
    [("argparse", None, b""), ("jax", 130, b"pto-jax run: interrupted\n")],
)
def test_signals_during_imports_end_without_a_traceback(
    number: int, module: str, status: int | None, line: bytes
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, str(int(number))],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    status = -number if status is None else status
    assert (done.returncode, done.stderr, done.stdout) == (status, line, b"")


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (RecursionError("deep"), 2, "error: the input is nested too deeply"),
        (MemoryError(), 2, "error: not enough memory"),
        (OSError(28, "No space left on device", "there"), 2, "error: there: No space left on device"),
        (OSError("odd"), 2, "error: input or output: odd"),
    ],
)
def test_what_goes_wrong_in_a_command_is_one_line(
    error: BaseException, status: int, line: str, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("pto_jax.api.load", fail)
    assert commands("fmt", "x.pto") == status
    assert commands.err == f"pto-jax fmt: {line}\n"


def test_defects_of_the_package_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pto_jax.api.load", fail)
    with pytest.raises(ZeroDivisionError):
        main.main(["fmt", "x.pto"])


def test_terminal_escapes_in_names_and_programs_are_escaped(commands: Commands) -> None:
    assert commands("run", f"{ESCAPE}.pto") == 2
    assert commands.err == "pto-jax run: error: \\x1b[31mred\\u202e.pto: no such file\n"
    commands.file("bad.pto", f"module {{ {ESCAPE}\n")
    assert commands("verify", "bad.pto") == 1
    assert "\x1b" not in commands.out + commands.err and "\\x1b[31mred\\u202e" in commands.out
    assert commands("verify", "a\nb.pto") == 2 and commands.err.count("\n") == 2


def test_names_that_are_no_text_are_escaped(commands: Commands) -> None:
    name = os.fsdecode(b"no\xff.pto")
    (commands.folder / name).write_text(example("vector_add").path.read_text())
    assert commands("verify", name) == 0 and "no\\udcff.pto: accepted" in commands.out
    assert commands("run", name, "--outputs", os.fsdecode(b"\xfe.npz")) == 0, commands.err
    assert (commands.folder / os.fsdecode(b"\xfe.npz")).exists()


def test_redrawn_lines_pass_and_others_do_not() -> None:
    assert escaped("a\tb\nc") == "a\tb\nc" and escaped("a\rb\x9b") == "a\\rb\\x9b"


def test_streams_without_bytes_can_be_printed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    path = example("vector_add").path
    assert main.main(["fmt", str(path)]) == 0
    assert load(path).digest == cli_parse(out.getvalue())


def cli_parse(text: str) -> str:
    from pto_jax.api import parse

    return parse(text).digest
