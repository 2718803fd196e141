"""The recorded list of constructs is that of the public programs; PTO_CORPUS names a checkout."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pto_jax.ir import Function, Op, Program
from pto_jax.text import parse
from tests.corpus.launches import FILES, NO_CORPUS, ROOT, launches, reachable
from tests.corpus.test_verify import TOTAL, findings
from tests.programs.constructs import constructs, recorded, rejections

pytestmark = pytest.mark.skipif(not ROOT, reason=NO_CORPUS)

_HEAD = """\
# What occurs in the 226 public programs of the assembler: constructs of programs that are executed, and
# constructs that are only read and verified. tests/programs/constructs.py says what the lines mean.
"""


def corpus_constructs() -> tuple[set[str], set[str]]:
    """The constructs of launched entries and what they call, and all others."""
    everything, executed = set[str](), set[str]()
    programs: dict[Path, tuple[Program, set[int]]] = {}
    for launch in launches():
        _, ids = programs.setdefault(launch.path, (launch.program, set()))
        ids |= {id(x) for x in _executed(launch.program, launch.function)}
    for path in FILES:
        program, ids = programs.get(path) or (
            parse(path.read_text(encoding="utf-8"), str(path), language="2026-04"),
            set[int](),
        )
        for owner, line in constructs(program):
            everything.add(line)
            if id(owner) in ids:
                executed.add(line)
        for run, diagnostics in findings(path):
            everything |= rejections(diagnostics) if run.fails else set()
    return executed, everything - executed


def _executed(program: Program, function: Function) -> Iterator[Op | Function]:
    """The operations that a launch of a function may execute, and the functions they belong to."""
    ops = list(reachable(program, function))
    yield from ops
    inside = {id(op) for op in ops}
    yield from (f for f in program.functions if f is function or any(id(op) in inside for op in f.walk()))


def test_the_recorded_constructs_are_those_of_the_checkout() -> None:
    """``python -m tests.corpus.test_constructs`` prints the list anew."""
    if len(FILES) != TOTAL:
        pytest.skip(f"the checkout has {len(FILES)} programs, not {TOTAL}")
    for status, found in zip(("executed", "read"), corpus_constructs(), strict=True):
        assert sorted(found ^ recorded(status)) == [], status


if __name__ == "__main__":
    executed, read = corpus_constructs()
    rows = [f"executed {line}" for line in sorted(executed)] + [f"read {line}" for line in sorted(read)]
    print(_HEAD + "\n".join(rows))
