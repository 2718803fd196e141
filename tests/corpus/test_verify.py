"""Public programs are accepted or rejected as their own headers say; PTO_CORPUS names a checkout.

A program's RUN lines give the profile, the level and whether synchronisation is inserted; a run is expected
to fail where its line says ``not`` or the text it looks for is an error. A program without RUN lines is
expected to be accepted on the profile of its header.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from pto_jax.api import verify
from pto_jax.errors import Diagnostic
from pto_jax.isa import find
from pto_jax.profiles import Profile, profile_of_arch
from pto_jax.text import parse

_ROOT = os.environ.get("PTO_CORPUS", "")
_FILES = sorted(Path(_ROOT).glob("**/*.pto")) if _ROOT else []
TOTAL, _REJECTED = 226, 20

pytestmark = pytest.mark.skipif(
    not _FILES, reason="PTO_CORPUS does not name a folder with .pto programs (a PTOAS checkout has 226)"
)


@dataclass(frozen=True)
class Run:
    """One way a program is built, and the text of the error it is expected to give ("" for none)."""

    profile: Profile
    level: int | None = None
    auto_sync: bool = False
    fails: bool = False
    error: str = ""


def runs(text: str, arch: object) -> list[Run]:
    """What the RUN lines of a program say."""
    found = []
    for line in re.findall(r"^//\s*RUN:\s*(.*)$", text, re.MULTILINE):
        given = re.search(r"--pto-arch[= ](\S+)", line)
        level = re.search(r"--pto-level[= ]level(\d)", line)
        prefix = re.search(r"--check-prefix=(\S+)", line)
        expected = re.escape(prefix[1] if prefix else "CHECK")
        errors = re.findall(rf"^//\s*{expected}(?:-DAG|-NEXT|-SAME)?:(.*error:.*)$", text, re.MULTILINE)
        looks = bool(errors) and "FileCheck" in line
        found.append(
            Run(
                profile_of_arch(given[1] if given else arch),
                int(level[1]) if level else None,
                "--enable-insert-sync" in line,
                line.startswith("not ") or looks,
                errors[0] if errors else "",
            )
        )
    return found or [Run(profile_of_arch(arch))]


def findings(path: Path) -> list[tuple[Run, list[Diagnostic]]]:
    """The errors of every run of a program."""
    text = path.read_text(encoding="utf-8")
    program = parse(text, str(path), "2026-04")
    return [
        (
            run,
            [
                d
                for d in verify(program, run.profile, level=run.level, auto_sync=run.auto_sync)
                if d.severity == "error"
            ],
        )
        for run in runs(text, program.attrs.get("pto.target_arch"))
    ]


def lacks_instruction(path: Path, found: list[Diagnostic]) -> bool:
    """Whether a text that is only meant to be encoded uses instructions its profile does not have."""
    encoded = "RUN:" not in path.read_text(encoding="utf-8")
    return encoded and any(d.rule == "types" and "does not exist" in d.message for d in found)


@pytest.mark.parametrize("path", _FILES, ids=[str(f.relative_to(_ROOT)) for f in _FILES])
def test_every_run_ends_as_the_program_says(path: Path) -> None:
    for run, found in findings(path):
        if not run.fails and lacks_instruction(path, found):
            continue
        assert bool(found) == run.fails, (run, [str(d) for d in found])
        named = re.search(r"'pto\.([\w.]+)' op", run.error)
        instruction = find(named[1]) if named else None
        if instruction is not None and instruction.cls != "pipes":
            # Pipe errors are reported where the pipe is used, not where it is lowered to.
            assert instruction.name in {d.instruction for d in found}, (run, [str(d) for d in found])


def test_206_programs_are_accepted_and_20_rejected() -> None:
    if len(_FILES) != TOTAL:
        pytest.skip(f"the checkout has {len(_FILES)} programs, not {TOTAL}")
    first = {path: findings(path)[0] for path in _FILES}
    assert sum(run.fails for run, _ in first.values()) == _REJECTED
    wrong = [p for p, (run, found) in first.items() if bool(found) != run.fails]
    assert all(lacks_instruction(p, first[p][1]) for p in wrong), wrong
    assert len(wrong) <= 1


#: Tests of how arrays of event numbers are emitted, which set another number than they wait for.
_OTHER_NUMBER, _TOKENS = ("eventid_array_get_set_get", "eventid_array_no_cse"), {"deadlock", "unmatched"}


def test_programs_that_order_their_pipes_have_no_hazards() -> None:
    from pto_jax.analysis.resolve import resolve
    from pto_jax.analysis.roots import is_as_written
    from pto_jax.order import judge

    checked = 0
    for path in _FILES:
        program = parse(path.read_text(encoding="utf-8"), str(path), "2026-04")
        if any(map(is_as_written, program.functions)):
            checked += 1
            found = {f.kind for f in judge(resolve(program), as_written=False)}
            assert found == (_TOKENS if path.stem in _OTHER_NUMBER else set()), path
    assert checked
