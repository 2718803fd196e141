"""Another name of :mod:`pto_jax.verify`, whose own name the package gives to a function."""

from __future__ import annotations

from .verify import Limits as Limits
from .verify import check_op as check_op
from .verify import run_time_rules as run_time_rules
from .verify import verify_program as verify_program
