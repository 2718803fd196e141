"""Shared ways to write and check small programs."""

from collections.abc import Callable

import pytest

from pto_jax.api import parse
from pto_jax.errors import Diagnostic
from pto_jax.profiles import profile
from pto_jax.verifier.programs import Limits, verify_program

Check = Callable[..., list[Diagnostic]]


@pytest.fixture
def check() -> Check:
    """Parse a text and verify it on a profile."""

    def run(
        text: str, profile_name: str = "a2a3", *, portable: bool = False, limits: Limits | None = None
    ) -> list[Diagnostic]:
        program = parse(text, file="p.pto")
        return verify_program(program, profile(profile_name), portable=portable, limits=limits or Limits())

    return run
