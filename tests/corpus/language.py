"""What a checkout of the assembler says about the texts it holds: which builds accept and which reject them.

Test programs carry RUN lines; samples are built by a script whose rules stand here, system tests by their
CMake files. A build is judged with the parser and the verifier alone.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pto_jax.api import parse, resolve_profile, verify
from pto_jax.errors import ParseError, PtoError
from pto_jax.ir import Program
from pto_jax.text import print_program

SAMPLES, LIT, SYSTEM_TESTS = "test/samples", "test/lit/pto", "test/tilelang_st/npu/a5/src/st"
_SYNC = re.compile(r"--enable-(insert-sync|bufid_sync|inject-barrier-all-sync|graph-sync-solver)")
_ADDRESS = re.compile(r" addr = %[A-Za-z0-9_]+")
_DYNAMIC = re.compile(r"rows=(\d+), cols=(\d+), v_row=\?, v_col=\?")
_A5_FOLDER = re.compile(r"(Qwen|Deepseek)\w*A5|TquantMx(Dn)?")
_A3_FOLDER = re.compile(r"(Qwen|Deepseek)\w*A3|TPipe|TAxpy|TColArgM(ax|in)|TConcatIdx|TRowArgM(ax|in)")
#: Samples of other folders that are built for A5 only.
_A5_SAMPLES = {"decode_projection_incore_0", "rmsnorm_incore_0", "movfp_fixpipe_reuse-pto", "gemvmx-pto"}


@dataclass(frozen=True)
class Build:
    """One text and the command that builds it.

    ``fails`` says that the command must report an error, ``error`` the text of it, as far as the file looks
    for one.
    """

    text: str = field(repr=False)
    arch: str | None = None
    level: int = 2
    auto_sync: bool = False
    fails: bool = False
    error: str = ""


@dataclass(frozen=True)
class Verdict:
    """The first error of parser and verifier: its stage ("" for none), message, rule and instruction."""

    stage: str = ""
    message: str = ""
    rule: str = ""
    instruction: str = ""


@lru_cache(maxsize=8)
def _parsed(text: str) -> Program | ParseError:
    try:
        return parse(text)
    except ParseError as error:
        return error


def judge(build: Build) -> Verdict:
    """Parse, print and read back, verify."""
    program = _parsed(build.text)
    if isinstance(program, ParseError):
        return Verdict("parse", _first(str(program)))
    try:
        profile = resolve_profile(program, arch=build.arch)
        found = verify(program, profile, level=build.level, auto_sync=build.auto_sync)
    except PtoError as error:
        return Verdict("verify", _first(str(error)))
    errors = [d for d in found if d.severity == "error"]
    if not errors:
        return Verdict("", read_back(build.text))
    return Verdict("verify", str(errors[0]), errors[0].rule or "", errors[0].instruction or "")


@lru_cache(maxsize=8)
def read_back(text: str) -> str:
    """What is wrong with the printed program, "" where it reads back as the same one."""
    program = _parsed(text)
    assert not isinstance(program, ParseError)
    printed = print_program(program)
    try:
        same = parse(printed) == program
    except ParseError as error:
        return f"printed text does not read: {_first(str(error))}"
    return "" if same else "printed text reads as another program"


def _first(message: str) -> str:
    return message.splitlines()[0]


def sample_builds(path: Path) -> list[Build]:
    """The builds that a sample is tried with, in order; one that is accepted is enough."""
    text, folders = path.read_text(encoding="utf-8"), path.parts
    a5 = any(_A5_FOLDER.fullmatch(f) for f in folders) or path.stem in _A5_SAMPLES
    a3 = any(_A3_FOLDER.fullmatch(f) for f in folders)
    arch = "a5" if a5 else "a3" if a3 else None
    fails = path.stem.endswith(("_invalid", "_xfail"))
    model = any(f.startswith(("Qwen", "Deepseek")) for f in folders)
    build = Build(text, arch, 3 if model else 2, auto_sync=True, fails=fails)
    if fails:
        return [build]
    if not model:
        return [build, Build(text, arch, 3, auto_sync=True), Build(text, arch, 3)]
    bare = _ADDRESS.sub("", text)
    static = re.sub(r" valid_row = %\w+ valid_col = %\w+", "", bare)
    static = _DYNAMIC.sub(r"rows=\1, cols=\2, v_row=\1, v_col=\2", static)
    return [build, Build(bare, arch, 2, auto_sync=True), Build(static, arch, 2, auto_sync=True)]


def system_test_build(path: Path) -> Build:
    """How the CMake file beside a system test builds it."""
    cmake = path.with_name("CMakeLists.txt")
    options = cmake.read_text(encoding="utf-8") if cmake.is_file() else ""
    level = re.search(r"PTO_LEVEL level(\d)", options)
    text = path.read_text(encoding="utf-8")
    return Build(text, "a5", int(level[1]) if level else 2, "DISABLE_INSERT_SYNC" not in options)


def lit_builds(path: Path) -> list[Build]:
    """The builds of a test program that use the assembler's tile language, one for each RUN command."""
    text = path.read_text(encoding="utf-8")
    files = {"%s": text, **_sections(text)}
    found: list[Build] = []
    for command, check in _commands(text):
        if command[0] == "sed" and "%s" in command and ">" in command:
            files[command[command.index(">") + 1]] = _edited(command, text)
        elif "ptoas" in command[:2]:
            found += _build(command, files, path, _looked_for(check, files["%s"]))
    return found


def _build(command: list[str], files: dict[str, str], path: Path, error: str) -> Iterator[Build]:
    """The build a command does; none where it is for another backend."""
    line = " ".join(command)
    if "--pto-backend=vpto" in line:
        return
    inputs = [files[w] for w in command if w in files]
    inputs += [(path.parent / w[3:]).read_text(encoding="utf-8") for w in command if w.startswith("%S/")]
    arch = re.search(r"--pto-arch[= ](\S+)", line)
    level = re.search(r"--pto-level[= ]level(\d)", line)
    auto_sync, fails = _SYNC.search(line) is not None, command[0] == "not"
    for text in inputs[:1]:
        number = int(level[1]) if level else 2
        yield Build(text, arch[1] if arch else None, number, auto_sync, fails, error if fails else "")


def _commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The words of every command of the RUN lines up to its pipe, and those behind it."""
    lines = re.findall(r"^\s*//\s*RUN:\s*(.*?)\s*$", text, re.MULTILINE)
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    for line in joined.splitlines():
        for command in line.split(" && "):
            words = shlex.split(command)
            end = words.index("|") if "|" in words else len(words)
            if words[:end]:
                yield words[:end], words[end + 1 :]


def _looked_for(check: list[str], text: str) -> str:
    """The text that FileCheck looks for, its lines joined."""
    if "FileCheck" not in check:
        return ""
    prefix = next((w.partition("=")[2] for w in check if w.startswith("--check-prefix")), "CHECK")
    lines = re.findall(rf"^\s*//\s*{prefix}(?:-SAME|-NEXT|-DAG)?:\s*(.*?)\s*$", text, re.MULTILINE)
    return " ".join(lines)


def _sections(text: str) -> dict[str, str]:
    """The files that ``split-file`` makes of a text."""
    parts = re.split(r"^//--- *(\S+) *\n", text, flags=re.MULTILINE)
    return {f"%t/{name}": body for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _edited(command: list[str], text: str) -> str:
    """What ``sed -E 's/a/b/g'`` makes of a text."""
    for script in command:
        edit = re.fullmatch(r"s/(.*?)/(.*?)/g?", script)
        text = re.sub(edit[1], edit[2], text) if edit else text
    return text
