"""Emitted C++ of a checkout: every kernel is read, printed as PTO text, read again, and verified."""

import os
import random
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pto_jax as pto
from pto_jax.analysis.resolve import ResolvedProgram, resolve
from pto_jax.analysis.roots import roots
from pto_jax.ir import Op
from pto_jax.isa import effects
from pto_jax.order import judge, judged_program
from pto_jax.order.judge import courses
from pto_jax.order.signals import Signals
from tests.order.graph import by_definition
from tests.order.test_campaign import without
from tests.tables import every

ROOT = os.environ.get("PTO_CORPUS", "")
MARK = "// --- ptoas-generated code ---"
FILES = (
    [p for p in sorted(Path(ROOT).glob("**/*.cpp")) if MARK in p.read_text(errors="replace")] if ROOT else []
)
#: Lines of emitted C++ that are read in a second of processor time.
LINES_PER_SECOND = 10_000

pytestmark = pytest.mark.skipif(not FILES, reason="PTO_CORPUS does not name a folder with emitted C++")


@every("path", FILES)
def test_a_kernel_is_read_printed_and_read_again(path: Path) -> None:
    program = pto.load(path)
    assert any(f.body.ops for f in program.functions)
    assert pto.parse(str(program)) == program
    lines = path.read_text().splitlines()
    assert all(op.span is not None and lines[op.span.line - 1] == op.span.text for op in program.walk())


@pytest.mark.slow
@every("path", FILES)
def test_no_kernel_is_rejected(path: Path) -> None:
    errors = [d for d in pto.verify(pto.load(path)) if d.severity == "error"]
    assert not errors, errors[0].render()


@pytest.mark.slow
@every("path", FILES)
def test_no_kernel_loses_a_value(path: Path) -> None:
    from pto_jax.verifier.overlaps import overwrites

    resolved = resolved_file(path)
    assert not [op for f in resolved.program.functions for op in overwrites(resolved, f)]


def test_kernels_are_read_fast() -> None:
    texts = [path.read_text() for path in FILES]
    pto.parse(texts[0], language="c++")
    began = time.process_time()
    for text in texts:
        pto.parse(text, language="c++")
    lines = sum(text.count("\n") for text in texts)
    assert lines / (time.process_time() - began) >= LINES_PER_SECOND


def resolved_file(path: Path) -> ResolvedProgram:
    return resolve(pto.load(path), pto.profile("a5" if "a5" in path.parts else "a2a3"))


def channels(resolved: ResolvedProgram) -> list[list[Op]]:
    """The sets and waits that hand tokens to each other, in every place of their own."""
    group: dict[int, set[int]] = {}

    def flag(original: Any, signals: Signals, op: Op, role: str, core: str, number: Any) -> None:
        tokens = set(map(id, (t.op for t in signals.present.values())))
        original(signals, op, role, core, number)
        taken = tokens - {id(t.op) for t in signals.present.values()}
        if role == "wait" and taken:
            joined = {id(op)}.union(*(group.get(i, {i}) for i in (id(op), *taken)))
            group.update(dict.fromkeys(joined, joined))

    with pytest.MonkeyPatch.context() as patched:
        original = Signals._flag
        patched.setattr(Signals, "_flag", lambda s, *given: flag(original, s, *given))
        judged = judged_program(resolved)
        for function in roots(resolved.program):
            courses(judged, function)
    ops = {id(op): op for op in resolved.program.walk()}
    return [[ops[i] for i in ops if i in members] for members in {id(g): g for g in group.values()}.values()]


@pytest.mark.slow
def test_needed_flags_and_lost_tokens_are_found() -> None:
    """Of places drawn at random a whole flag is taken away, or one of its sets and waits."""
    draw, seen = random.Random(29), Counter[str]()
    for path in draw.sample(FILES, min(len(FILES), 60)):
        resolved = resolved_file(path)
        for ops in draw.sample(every_one := channels(resolved), min(len(every_one), 2)):
            profile: Any = resolved.profile
            less = partial(without, resolved.program)
            source, target = (pipe.name for pipe in effects.ends_of(ops[0]) if pipe is not None)
            shorter = resolve(less(*ops), profile)
            pairs = {(f.first.pipe, f.second.pipe) for f in judge(shorter) if f.kind == "race" and f.second}
            # Another flag may order the same, or the pipes share bytes for a few run-time numbers only.
            if (f"PIPE_{source}", f"PIPE_{target}") not in pairs and by_definition(shorter).races:
                seen["missed"] += 1
            kinds = {f.kind for f in judge(resolve(less(draw.choice(ops)), profile))}
            seen["token" if kinds & {"deadlock", "unmatched"} else "no token"] += 1
            seen["flag"] += 1
    assert seen["missed"] <= 0.02 * seen["flag"] and seen["token"] >= 0.99 * seen["flag"], seen
