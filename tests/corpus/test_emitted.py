"""Emitted C++ of a checkout: every kernel is read, printed as PTO text, read again, and verified."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import pto_jax as pto
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
    from pto_jax.analysis.resolve import resolve
    from pto_jax.verifier.overlaps import overwrites

    resolved = resolve(pto.load(path), pto.profile("a5" if "a5" in path.parts else "a2a3"))
    assert not [op for f in resolved.program.functions for op in overwrites(resolved, f)]


def test_kernels_are_read_fast() -> None:
    texts = [path.read_text() for path in FILES]
    pto.parse(texts[0], language="c++")
    began = time.process_time()
    for text in texts:
        pto.parse(text, language="c++")
    lines = sum(text.count("\n") for text in texts)
    assert lines / (time.process_time() - began) >= LINES_PER_SECOND
