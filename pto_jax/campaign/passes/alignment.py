"""The instruction at which two executions part, found by what they compute and not by names.

Instructions of the two executions are partners where they write the same contents, and of the rest those of
the same name and sizes in the same order. From the store that differs the way goes back, from partners that
write different contents to those that made what they read, until something else than contents differs.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from ...ir import Op
from .trace import Event, Span, Trace

#: Instructions without a partner of the same contents that are aligned by their names.
_ALIGNED = 3000


@dataclass(frozen=True)
class Parting:
    """Where two programs part: an operation of each, or of one where the other has no counterpart."""

    before: Op | None
    after: Op | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{place(self.after)} has no counterpart before"
        if self.after is None:
            return f"{place(self.before)} has no counterpart after"
        return f"{place(self.after)} computes something else than {place(self.before)}"


def parting(before: Trace, after: Trace, ends: tuple[Span, Span]) -> Parting | None:
    """Where two executions part whose memory differs in a part of it (of the one, and of the other).

    None where nothing that was seen explains it.
    """
    search = _Search(before, after, *_partners(before.events, after.events))
    start = search.last_difference(*ends)
    return start if start is None or isinstance(start, Parting) else search.back(*start)


@dataclass(frozen=True)
class _Search:
    """Two executions, with the numbers of the instructions that are partners."""

    before: Trace
    after: Trace
    there: dict[int, int]
    here: dict[int, int]

    def last_difference(self, ours: Span, theirs: Span) -> tuple[int, int] | Parting | None:
        """The first partners that write different contents to some memory, or what has no partner there."""
        first = [n for n, e in enumerate(self.before.events) if _writes(e, ours)]
        second = [n for n, e in enumerate(self.after.events) if _writes(e, theirs)]
        for number in first:
            if number not in self.there:
                return Parting(self.before.events[number].op, None)
            other = self.there[number]
            if _exactly(self.before.events[number]) != _exactly(self.after.events[other]):
                return number, other
        extra = next((n for n in second if n not in self.here), None)
        return None if extra is None else Parting(None, self.after.events[extra].op)

    def back(self, a: int, b: int) -> Parting:
        """From partners that differ to those that made the difference."""
        while True:
            ours, theirs = self.before.events[a], self.after.events[b]
            parted = Parting(ours.op, theirs.op)
            if ours.op.name != theirs.op.name or len(ours.sources) != len(theirs.sources):
                return parted
            pairs = zip(ours.sources, theirs.sources, strict=True)
            other = next(((x, y) for (m, x), (n, y) in pairs if m != n), None)
            if other is None or other[0] is None or other[1] is None:
                return parted
            made, also = self.before.writer(other[0], a), self.after.writer(other[1], b)
            if made is not None and made not in self.there:
                return Parting(self.before.events[made].op, None)
            if also is not None and also not in self.here:
                return Parting(None, self.after.events[also].op)
            if made is None or also is None or self.there[made] != also or not self._differ(made, also):
                return parted
            a, b = made, also

    def _differ(self, a: int, b: int) -> bool:
        return self.before.events[a].contents != self.after.events[b].contents


def _writes(event: Event, span: Span) -> bool:
    return any(span.overlaps(written) for _, written in event.results)


def _partners(ours: Sequence[Event], theirs: Sequence[Event]) -> tuple[dict[int, int], dict[int, int]]:
    """The numbers of partners, both ways: equal contents in their order, then equal names in theirs."""
    waiting: defaultdict[Any, deque[int]] = defaultdict(deque)
    for number, event in enumerate(theirs):
        waiting[_exactly(event)].append(number)
    pairs: dict[int, int] = {}
    for number, event in enumerate(ours):
        if same := waiting[_exactly(event)]:
            pairs[number] = same.popleft()
    taken = set(pairs.values())
    left = [n for n in range(len(ours)) if n not in pairs][:_ALIGNED]
    right = [n for n in range(len(theirs)) if n not in taken][:_ALIGNED]
    names = [ours[n].token for n in left], [theirs[n].token for n in right]
    for kind, a, end, b, last in SequenceMatcher(None, *names, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and end - a == last - b):
            pairs.update(zip(left[a:end], right[b:last], strict=True))
    return pairs, {b: a for a, b in pairs.items()}


def _exactly(event: Event) -> tuple[Any, ...]:
    """What an instruction is called and wrote, with the place of what is in global memory."""
    places = (span if isinstance(span.memory, int) else None for _, span in event.results)
    return (event.token, event.contents, *places)


def place(op: Op | None) -> str:
    """An operation with its file and line; nothing for none."""
    if op is None:
        return ""
    return op.name if op.span is None else f"{op.span.file}:{op.span.line}: {op.name}"
