"""Another name of :mod:`pto_jax.verify`, whose own name the package gives to a function."""

from __future__ import annotations

from .verify import (
    Limits as Limits,
    check_op as check_op,
    run_time_rules as run_time_rules,
    verify_program as verify_program,
)
