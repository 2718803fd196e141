"""What every command does for its users: examples in its help, colours on terminals only, completion."""

import argparse
import io
import re
import shlex
import subprocess
import sys

import pytest

from pto_jax.cli.commands import parser
from pto_jax.cli.completion import SHELLS
from pto_jax.cli.main import WITHOUT_VALUE, main
from pto_jax.files.terminal import in_colour
from pto_jax.isa import instructions
from tests.cli.conftest import Commands, commands as commands

COMMANDS = next(a.choices for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
BAD = "%d = tadd %a, %b : !pto.tile<16x16xu64>"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_examples_that_are_read(name: str) -> None:
    sub = COMMANDS[name]
    shown = sub.format_help().partition("examples")[2]
    lines = re.findall(r"^  pto-jax (\S.*?)(?:   .*)?$", shown, re.MULTILINE)
    assert lines and all(line.split()[0] == name for line in lines)
    for line in lines:
        parser().parse_args([WITHOUT_VALUE.get(w, w) for w in shlex.split(line.split(" > ")[0])])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "terminal", "coloured"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_colours_are_for_terminals_without_no_color(
    environment: dict[str, str],
    terminal: bool,
    coloured: bool,
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = Terminal() if terminal else io.StringIO()
    assert in_colour(out) == coloured
    monkeypatch.setattr(sys, "stdout", out)
    commands.file("bad.pto", BAD)
    assert main(["verify", "bad.pto"]) == 1
    shown = out.getvalue()
    assert ("\x1b[1;31merror\x1b[0m: tadd: " in shown) == coloured and ("\x1b" in shown) == coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", shown).startswith("bad.pto:1:1: error: tadd: ")


def test_in_colour_texts_still_cannot_steer_the_terminal(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    commands.file("bad.pto", "module { \x1b[31mred\u202e\n")
    assert commands("verify", "bad.pto") == 1
    assert set(re.findall(r"\x1b\[[\d;]*m", commands.out)) <= {"\x1b[1;31m", "\x1b[1;32m", "\x1b[0m"}
    assert "\\x1b[31mred\\u202e" in commands.out


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_commands_options_and_names(shell: str, commands: Commands) -> None:
    assert commands("completion", shell) == 0
    for word in (*COMMANDS, "profile", "a2a3", "softmax", "tmatmul.mx", "events"):
        assert word in commands.out, word
    assert all(name in commands.out for name in instructions())


def test_bash_completes_with_the_script(commands: Commands) -> None:
    assert commands("completion", "bash") == 0
    commands.file("pto-jax.bash", commands.out)

    def completed(*words: str) -> set[str]:
        listed = " ".join(f"'{w}'" for w in ("pto-jax", *words))
        line = (
            f"source pto-jax.bash; COMP_WORDS=({listed}); COMP_CWORD={len(words)}; "
            f"_shtab_pto_jax pto-jax '{words[-1]}' ''; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    assert completed("ver") == {"verify"}
    assert {"tmatmul", "tmatmul.mx.acc"} <= completed("isa", "tmat")
    assert completed("run", "--example", "softm") == {"softmax"}
    assert completed("verify", "--profile", "a") == {"a2a3", "a5"}


def test_without_shtab_it_is_one_clear_line(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert commands("completion", "bash") == 2
    assert "try: pip install 'pto_jax[completion]'" in commands.err
