"""What a failure depends on: the profile, the numerics, the attributes of its instructions."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import IntEnum

from ..cases.edits import is_legal, with_op
from ..cases.recording import number
from ..cases.targets import Engine
from ..generate.programs import Case
from ..ir import AttrValue, Op, attrs
from ..lowering.numerics import Numerics
from ..profiles import PROFILE_NAMES, profile
from . import search

#: Cases that are executed to find out.
CALLS = 40
#: What became of a choice; that of the failure itself and those that fail alike are ``FAILS``.
FAILS, ILLEGAL = "fails", "not legal"
Variants = Mapping[str, Mapping[str, str]]


def varied(machines: search.Machines, finding: search.Finding) -> Variants:
    """For every choice in a failing case what becomes of it with each value: the one it has fails.

    The choices are ``profile``, ``numerics`` where this engine is tested, and ``INSTRUCTION ATTRIBUTE``.
    """
    if not finding.outcome.is_failure:
        return {}
    end = machines.steps + CALLS
    table: dict[str, dict[str, str]] = {}
    for what, value, candidate, on in _choices(machines, finding.case):
        if candidate is finding.case and on is machines:
            table.setdefault(what, {})[value] = FAILS
        elif not is_legal(candidate):
            table.setdefault(what, {})[value] = ILLEGAL
        elif on.steps < end:
            other = on.run(candidate)
            alike = other.outcome.is_failure and other.signature == finding.signature
            table.setdefault(what, {})[value] = FAILS if alike else other.outcome.kind
    return {what: values for what, values in table.items() if len(values) > 1}


def depends(variants: Variants) -> str:
    """What a failure depends on, in words.

    >>> depends({"profile": {"a5": "fails", "a2a3": "equal", "cpu_sim": "equal"}})
    'fails with profile a5, not with a2a3, cpu_sim'
    """
    said = []
    for what, values in variants.items():
        failing = [value for value, kind in values.items() if kind == FAILS]
        passing = [value for value, kind in values.items() if kind == "equal"]
        if passing:
            said.append(f"fails with {what} {', '.join(failing)}, not with {', '.join(passing)}")
    return "; ".join(said)


def _choices(machines: search.Machines, case: Case) -> Iterator[tuple[str, str, Case, search.Machines]]:
    for name in PROFILE_NAMES:
        own = name == case.profile.name
        yield "profile", name, case if own else replace(case, profile=profile(name)), machines
    tested = machines.tested
    if isinstance(tested, Engine):
        yield "numerics", tested.numerics, case, machines
        other: Numerics = "fast" if tested.numerics == "exact" else "exact"
        yield (
            "numerics",
            other,
            case,
            replace(machines, tested=replace(tested, numerics=other), calls=math.inf),
        )
    for op in case.program.walk():
        for key, value in op.attributes:
            if isinstance(value, IntEnum | bool):
                for choice in (False, True) if isinstance(value, bool) else tuple(type(value)):
                    result = case if choice == value else _with(case, op, key, choice)
                    yield f"{op.name} {key}", str(getattr(choice, "name", choice)).lower(), result, machines


def _with(case: Case, op: Op, name: str, value: AttrValue) -> Case:
    """The case with another value of an attribute."""
    changed = attrs({**op.attrs, name: value})
    return with_op(case, number(op), lambda o: replace(o, attributes=changed))
