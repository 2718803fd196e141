"""The table of system tests and their outcomes."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Literal

from ...files.terminal import table

#: ``differs``: the comparison fails; ``contradiction``: it does, and passes where an instruction computes
#: what a decision is against; ``construct``: the text needs what is not there or not allowed; ``error``: the
#: execution stopped; ``host``: the host program could not be followed; ``script``: a script failed.
Kind = Literal["pass", "differs", "contradiction", "construct", "error", "host", "script"]
KINDS: tuple[Kind, ...] = ("pass", "differs", "contradiction", "construct", "error", "host", "script")
_SHOWN = 30


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    test: str
    case: str
    kind: Kind
    message: str = ""


@dataclass(frozen=True)
class SystemTestReport:
    """The outcomes of a run, in order."""

    outcomes: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        """Every case passes its own comparison, but for named contradictions, and at least one was run."""
        kinds = Counter(o.kind for o in self.outcomes)
        return kinds["pass"] > 0 and kinds["pass"] + kinds["contradiction"] == len(self.outcomes)

    def table(self) -> str:
        """A line per test with its counts, and a total."""
        tests = dict.fromkeys(o.test for o in self.outcomes)
        groups = [(t, [o for o in self.outcomes if o.test == t]) for t in tests]
        rows = [["test", "cases", *KINDS]]
        for name, group in (*groups, ("total", list(self.outcomes))):
            count = Counter(o.kind for o in group)
            rows.append([name, str(len(group)), *(str(count[k]) for k in KINDS)])
        return "\n".join(table(rows))

    def summary(self) -> str:
        """The table, and the first cases that do not pass, with their reasons."""
        lines = [self.table(), ""]
        wrong = [o for o in self.outcomes if o.kind != "pass"]
        lines += [f"{o.kind}: {o.test}/{o.case}: {o.message}" for o in wrong[:_SHOWN]]
        if len(wrong) > _SHOWN:
            lines.append(f"... and {len(wrong) - _SHOWN} more; --json has all")
        passed = len(self.outcomes) - len(wrong)
        lines.append(f"{'passed' if self.ok else 'FAILED'}: {passed} of {len(self.outcomes)} cases pass")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Totals and every case, as JSON."""
        totals = Counter(o.kind for o in self.outcomes)
        cases = [asdict(o) for o in self.outcomes]
        return json.dumps({"ok": self.ok, "totals": {k: totals[k] for k in KINDS}, "cases": cases}, indent=1)
