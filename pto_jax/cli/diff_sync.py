"""``diff --sync``: what two versions of a program, or two folders of them, order differently."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import __version__
from ..api import load
from ..errors import ArgumentError, PtoError
from ..files import write_text
from ..order import Changes
from ..schedules import order_changes
from ..validation.jobs import Job, pairs
from .options import DiffOptions

#: Effects in the order of what matters most.
_EFFECTS = (("lost", "race now"), ("lost", "redundant"), ("gained", "race before"), ("gained", "stricter"))
#: Options of ``diff`` that execute programs, or compare their values.
_OTHER = (
    *("corpus", "series", "more", "ulp", "open", "junit", "workers", "inputs", "entry", "scalars", "ranks"),
    *("partial_launch",),
)


@dataclass(frozen=True)
class _Verdict:
    """What became of one program: its changes, or why they are not known.

    ``skipped``: the old version cannot be read, either.
    """

    job: Job
    changes: Changes
    error: str = ""
    skipped: bool = False

    @property
    def is_worse(self) -> bool:
        """Whether the new version has a finding that the old one does not have, or cannot be read."""
        return bool(self.changes.findings or (self.error and not self.skipped))

    def as_json(self) -> dict[str, object]:
        named: dict[str, object] = {
            "name": self.job.name,
            "old": str(self.job.before),
            "new": str(self.job.after),
        }
        return named | ({"error": self.error} if self.error else self.changes.as_json())


def diff_sync(options: DiffOptions) -> bool:
    """Compare the order of two files or folders, and print it; whether the new ones have no new finding.

    ArgumentError for options of another comparison, FileError and ParseError for a file that is unreadable.
    """
    _check(options)
    before, after = Path(options.before), Path(str(options.after))
    folders = before.is_dir() or after.is_dir()
    jobs, more = pairs(before, after) if folders else ([Job(after.name, before, after)], [])
    verdicts = []
    for job in jobs:
        verdict = _judge(job, options, keep=folders)
        verdicts.append(verdict)
        for line in _lines(verdict):
            print(line, flush=True)
    if folders:
        print(_summary(verdicts, more))
    if options.json:
        report = {
            "version": __version__,
            "programs": [v.as_json() for v in verdicts],
            "only_new": more,
            "summary": {f"{change}, {effect}": n for (change, effect), n in _count(verdicts).items()},
        }
        write_text(options.json, json.dumps(report, indent=1) + "\n")
    return not any(v.is_worse for v in verdicts)


def _check(options: DiffOptions) -> None:
    if options.after is None:
        raise ArgumentError("--sync: got one file or folder", allowed="two, OLD and NEW")
    defaults = DiffOptions("", None)
    for name in _OTHER:
        if getattr(options, name) and getattr(options, name) != getattr(defaults, name):
            option = "a third file" if name == "more" else f"--{name.replace('_', '-')}"
            option = "--arg" if name == "scalars" else option
            raise ArgumentError(f"{option} with --sync", allowed="--json, --profile, --language")


def _judge(job: Job, options: DiffOptions, *, keep: bool) -> _Verdict:
    """The verdict on a program; of folders, what is wrong with a file is part of it."""
    read = 0
    try:
        old = load(job.before, language=options.language)
        read = 1
        new = load(job.after, language=options.language_after)
        return _Verdict(job, order_changes(old, new, options.profile))
    except PtoError as error:
        if not keep:
            raise
        return _Verdict(job, Changes(), str(error).splitlines()[0], skipped=not read)


def _lines(verdict: _Verdict) -> Iterator[str]:
    """What is printed of a program."""
    changes, name = verdict.changes, verdict.job.name
    if verdict.error:
        yield f"{name}: {'skipped' if verdict.skipped else 'not compared'}: {verdict.error}"
        return
    for edge in changes.edges:
        yield f"{name}: {edge}"
    races = {race for edge in changes.edges for race in edge.races}
    for finding in changes.findings:
        if finding not in races:
            yield f"{name}: new: {finding}"
    if any(changes.apart):
        old, new = changes.apart
        yield f"{name}: instructions only in the old program: {old}, only in the new one: {new}"
    counts = ", ".join(f"{n} {o} -> {c}" for n, (o, c) in changes.operations.items() if o != c)
    yield f"{name}: {_counted(_count([verdict]))}{f'; {counts}' if counts else ''}"


def _count(verdicts: list[_Verdict]) -> Counter[tuple[str, str]]:
    return sum((v.changes.effects() for v in verdicts), Counter[tuple[str, str]]())


def _counted(count: Counter[tuple[str, str]]) -> str:
    """Edges by change and effect.

    >>> _counted(Counter({("lost", "race now"): 1, ("lost", "redundant"): 2}))
    '3 edges lost (1 race now, 2 redundant)'
    """
    parts = []
    for change in ("lost", "gained"):
        counts = [(effect, count[change, effect]) for c, effect in _EFFECTS if c == change]
        total = sum(n for _, n in counts)
        if total:
            text = ", ".join(f"{n} {effect}" for effect, n in counts if n)
            parts.append(f"{total} edge{'' if total == 1 else 's'} {change} ({text})")
    return ", ".join(parts) or "the same order"


def _summary(verdicts: list[_Verdict], more: list[str]) -> str:
    """The last line about folders."""
    changed = sum(bool(v.changes.edges) for v in verdicts)
    worse = sum(bool(v.changes.findings) for v in verdicts)
    skipped = sum(v.skipped for v in verdicts)
    errors = sum(bool(v.error) for v in verdicts) - skipped
    text = f"{len(verdicts)} programs: {changed} with other order, {worse} with new findings"
    text += f", {errors} not compared" if errors else ""
    text += f", {skipped} skipped" if skipped else ""
    text += f", {len(more)} only in the new folder" if more else ""
    return f"{text}; {_counted(_count(verdicts))}"
