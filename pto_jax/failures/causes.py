"""Names of failure groups: failures that one defect explains have the same name.

A cause says which instruction is at fault and how its results differ; where they differ as numbers, with
which attributes that matter. Element types are said beside it (:func:`types_at_fault`). A crash is named
after the signal, the exit status or the exception, and the first line of stderr. A cause is a function of
the failure alone, so that campaigns on many computers group alike.
"""

from enum import IntEnum

from ..ir import AttrValue, Op
from . import differences, isolation, reduce
from .reduce import relevant

#: Other instructions that a cause names.
_OTHERS = 3


def cause_of(blame: reduce.Blame) -> str:
    """The cause of a failure whose instruction has been found."""
    finding = blame.representative
    if not finding.outcome.is_failure:
        return "not reproduced when it was executed again"
    how = differences.difference(finding.outcome, finding.wanted, finding.found)
    if finding.outcome.kind == "crashed":
        return str(how)
    ops = [op for op in finding.case.program.walk() if op.name != "arith.constant"]
    at_fault = _at_fault(blame)
    if at_fault is None:
        return f"{blame.instruction or 'unknown instruction'}: {how}"
    others = sorted({op.name for op in ops} - {at_fault.name})
    listed = ", ".join(others) if len(others) <= _OTHERS else "other instructions"
    among = f" with {listed}" if others else ""
    subject = _described(at_fault) if how.is_numeric else at_fault.name
    return f"{subject}{among}: {how}"


def types_at_fault(blame: reduce.Blame) -> str:
    """The element types of the instruction at fault, as they stand in the smallest program."""
    op = _at_fault(blame)
    return "" if op is None else isolation.types_of(op)


def _at_fault(blame: reduce.Blame) -> Op | None:
    return next((o for o in blame.representative.case.program.walk() if o.name == blame.instruction), None)


def _described(op: Op) -> str:
    """An instruction with the attributes that are not at their defaults.

    >>> from pto_jax.ir import F32, I8, RoundMode, TileType, Value, attrs
    >>> a, b = (Value(n, TileType(d, 1, 32)) for n, d in (("a", F32), ("b", I8)))
    >>> _described(Op("tcvt", (a,), (b,), attributes=attrs(rmode=RoundMode.FLOOR)))
    'tcvt rmode=floor'
    """
    attributes = [f"{name}={_word(value)}" for name, value in relevant(op)]
    return " ".join([op.name, *attributes])


def _word(value: AttrValue) -> str:
    if isinstance(value, IntEnum):
        return value.name.lower()
    return "x".join(map(_word, value)) if isinstance(value, tuple) else str(value)
