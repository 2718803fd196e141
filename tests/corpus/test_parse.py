"""Public programs read and read back; PTO_CORPUS names a checkout that holds them."""

import os
from pathlib import Path

import pytest

from pto_jax.text import parse, print_program
from tests.text.test_generic_modules import operations

_ROOT = os.environ.get("PTO_CORPUS", "")
_FILES = sorted(Path(_ROOT).glob("**/*.pto")) if _ROOT else []

pytestmark = pytest.mark.skipif(
    not _FILES, reason="PTO_CORPUS does not name a folder with .pto programs (a PTOAS checkout has 226)"
)


@pytest.mark.parametrize("path", _FILES, ids=[str(f.relative_to(_ROOT)) for f in _FILES])
def test_program_reads_back_in_every_form(path: Path) -> None:
    program = parse(path.read_text(encoding="utf-8"), str(path), "2026-04")
    assert list(program.walk())
    for form in (None, "as", "ssa", "dps"):
        printed = print_program(program, form)
        assert parse(printed) == program
        assert print_program(parse(printed), form) == printed
    generic = print_program(program, "generic")
    assert list(operations(parse(generic, language="2026-04"))) == list(operations(program))
