"""Errors of operations, as every part of the verifier reports them."""

from ..errors import Diagnostic
from ..ir import Op, Value


def error_of(op: Op, rule: str, message: str, value: Value | None = None) -> Diagnostic:
    """An operation breaks a rule: at one of its values where that is what is wrong, else at all of it."""
    place = value.span if value is not None and value.span is not None else op.span
    return Diagnostic("error", message, place, op.name, rule=rule)
