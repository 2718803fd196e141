"""What a campaign found, in a few lines."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping

from ..comparison import COMPARED
from ..junit import JunitCase, Kind
from ..known import named
from .goal import bins_of_json, goal_lines
from .store import Store

#: Causes that are shown, and the length of a line.
CAUSES, WIDTH = 10, 160
#: Bins of a goal that are named because they are not reached.
UNREACHED = 40
_KINDS = ("equal", "refused", "stopped", "undefined", "different", "crashed")


def summary(store: Store, known: frozenset[str] = frozenset()) -> str:
    """Counts per kind, failures by cause, with a mark at those that are known, coverage, the store.

    >>> from collections import Counter
    >>> from .batch import Batch
    >>> store = Store.create(None, {"seed": 1, "reference": "oracle", "tested": "jit"})
    >>> store.add(Batch(0, 2, Counter(equal=2), Counter({"tadd|f32|-|full|row": 2})), "0", 0.1)
    >>> print(summary(store))
    jit against oracle, seed 1
    2 cases: 2 equal
    2 compared
    coverage: 1 cells, 1 instructions, 1 element types
    store: in memory
    """
    return "\n".join(_lines(store, known))


def _lines(store: Store, known: frozenset[str]) -> Iterator[str]:
    campaign = store.campaign()
    yield f"{campaign.get('tested')} against {campaign.get('reference')}, seed {campaign.get('seed')}"
    kinds = store.kinds()
    order = [*_KINDS, *sorted(set(kinds) - set(_KINDS))]
    counts = ", ".join(f"{kinds[k]} {k}" for k in order if kinds[k])
    yield f"{kinds.total()} cases: {counts or 'none executed'}"
    yield f"{compared(store)} compared"
    yield from refusal_lines(store.refusals(), CAUSES)
    yield from _causes(store, known)
    cells = [c.split("|") for c in store.coverage()]
    instructions, types = len({c[0] for c in cells}), len({c[1] for c in cells} - {"-"})
    yield f"coverage: {len(cells)} cells, {instructions} instructions, {types} element types"
    if bins := bins_of_json(campaign.get("bins", {})):
        yield from goal_lines(bins, store.coverage(), UNREACHED)
    yield f"store: {store.name}"


def compared(store: Store) -> int:
    """The number of cases that both machines executed and whose results were compared."""
    kinds = store.kinds()
    return sum(kinds[kind] for kind in COMPARED)


def refusal_lines(refusals: Mapping[str, int], limit: int) -> Iterator[str]:
    """What machines do not execute, and why, with the cases that have it.

    >>> list(refusal_lines({"too many tiles": 3}, 10))
    ['not executed (1), with the cases that have it:', '      3  too many tiles']
    """
    ranked = sorted(refusals.items(), key=lambda item: (-item[1], item[0]))
    if ranked:
        yield f"not executed ({len(ranked)}), with the cases that have it:"
    yield from (f"{n:>7}  {reason}" for reason, n in ranked[:limit])
    if len(ranked) > limit:
        yield f"         and {len(ranked) - limit} more"


def _causes(store: Store, known: frozenset[str]) -> Iterator[str]:
    query = """SELECT cause, count(*), min(case_index), case_id, folder FROM failure
               GROUP BY cause ORDER BY count(*) DESC, min(case_index)"""
    grouped = list(store.rows(query))
    types = _types(store)
    if grouped:
        yield f"failures by cause ({len(grouped)}):"
    for cause, count, index, identity, folder in grouped[:CAUSES]:
        first = (cause or "unknown").splitlines()[0]
        shown = first if len(first) <= WIDTH else first[: WIDTH - 3] + "..."
        yield f"{count:>7}  {shown}{'  (known)' if named(cause or '') in known else ''}"
        on = f"on {', '.join(sorted(types[cause]))}; " if types[cause] else ""
        yield f"         {on}case {identity}, index {index}{f', {folder}' if folder else ''}"
    if len(grouped) > CAUSES:
        yield f"         and {len(grouped) - CAUSES} more"


def junit_cases(store: Store, known: frozenset[str], least: int) -> list[JunitCase]:
    """A campaign as tests: all its programs together, of which ``least`` have to be compared.

    And each cause of failures, known ones skipped, and each reason for not executing programs, skipped.
    """
    query = """SELECT cause, count(*), case_id, min(case_index), message, folder FROM failure
               GROUP BY cause ORDER BY min(case_index)"""
    kinds = store.kinds()
    few = too_few(store, least)
    name = f"{kinds.total()} programs: {compared(store)} compared, {kinds['equal']} equal"
    tests = [JunitCase(name, "failure" if few else "passed", few)]
    for reason, count in sorted(store.refusals().items()):
        tests.append(JunitCase(f"not executed: {reason}", "skipped", f"{count} programs"))
    for cause, count, identity, index, message, folder in store.rows(query):
        text = f"{count} failures, first case {identity}, index {index}\n{message}\n{folder or ''}"
        first = next(iter((message or "").splitlines()), "")
        kind: Kind = "skipped" if named(cause or "") in known else "failure"
        tests.append(JunitCase(named(cause or ""), kind, first, text=text))
    return tests


def too_few(store: Store, least: int) -> str:
    """What is wrong where fewer cases were compared than have to be; nothing where there are enough."""
    found, cases = compared(store), store.kinds().total()
    if not cases or found >= least:
        return ""
    return f"{found} of {cases} cases were compared; --min-compared is {least}"


def _types(store: Store) -> dict[str, set[str]]:
    """The element types of each cause's failures."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for cause, detail in store.rows("SELECT cause, detail FROM failure"):
        types = json.loads(detail or "{}").get("types")
        if isinstance(types, str) and types:
            found[cause].add(types)
    return found
