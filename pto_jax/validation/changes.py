"""What the texts of two programs say differently: warnings that are new, and a change of one operation."""

import re
from collections import Counter

from ..api import verify
from ..errors import Diagnostic
from ..ir import Op, PartitionViewType, Program, PtrType, TensorViewType
from ..isa import effects
from ..profiles import Profile, ProfileName

_VIEWS = (PtrType, TensorViewType, PartitionViewType)


def new_warnings(before: Program, after: Program, profile: Profile | ProfileName | None) -> list[Diagnostic]:
    """The warnings about one program that the other one does not get, wherever the texts have them."""
    old = Counter(map(_said, verify(before, profile)))
    listed = []
    for finding in verify(after, profile):
        if old[_said(finding)]:
            old[_said(finding)] -= 1
        elif finding.severity == "warning":
            listed.append(finding)
    return listed


def _said(finding: Diagnostic) -> tuple[str | None, ...]:
    """A finding without the places that it names."""
    return (
        finding.severity,
        finding.rule,
        finding.instruction,
        re.sub(r"\([^()\s]*:\d+:\d+\)", "", finding.message),
    )


def only_change(before: Program, after: Program) -> str:
    """The tile, view or loop that differs where two programs are the same apart from one; else nothing.

    Such an operation computes nothing that could be seen to differ, only its users do.
    """
    first, second = list(before.walk()), list(after.walk())
    if len(first) != len(second):
        return ""
    pairs = zip(first, second, strict=True)
    changed = [(a, b) for a, b in pairs if _without_uses(a) != _without_uses(b)]
    if len(changed) != 1:
        return ""
    old, new = changed[0]
    if not new.regions and not any(
        effects.loc_of(v.type) is not None or isinstance(v.type, _VIEWS) for v in new.results
    ):
        return ""
    return f"the only change: {_place(old)}, {_place(new)}"


def _without_uses(op: Op) -> tuple[object, ...]:
    """What an operation says by itself: the types of its operands are said where those are made."""
    names = [[v.name for v in values] for values in (op.ins, op.outs)]
    return op.name, names, op.attributes, op.groups, [(v.name, v.type) for v in op.results]


def _place(op: Op) -> str:
    text = op.span.text.strip() if op.span is not None else ""
    return f"{op.name} ({op.span})" + (f": {text}" if text else "")
