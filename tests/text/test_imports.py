"""Reading and printing need no array library."""

from __future__ import annotations

import subprocess
import sys

import pytest

_CODE = """
import sys
from pto_jax.text import parse, print_program
print_program(parse("%d = tadd %a, %b : !pto.tile<f32, 16, 16>"))
print([m for m in ("jax", "jaxlib") if m in sys.modules])
"""


def loaded(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_jax_is_not_imported() -> None:
    assert loaded(_CODE) == "[]"


@pytest.mark.slow
def test_the_check_sees_an_import() -> None:
    assert loaded("import jax\n" + _CODE) != "[]"
