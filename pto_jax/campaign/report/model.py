"""A campaign's report as data: what the page, the text and the JSON show."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...profiles import PROFILE_NAMES, ProfileName
from ..comparison import COMPARED
from ..fuzz import batch, goal
from ..machine_names import device_options
from .coverage import Coverage, coverage
from .evidence import Evidence, evidence
from .read import Block, Contents
from .ulp import Histogram, Histograms, bounds, label

#: Kinds of outcomes in the order they are shown; those that count as failures.
KINDS = ("equal", "refused", "stopped", "undefined", "different", "crashed")
FAILING = ("different", "crashed")
#: Points of the throughput line, and the silence (in blocks' durations, and seconds) that is a pause.
POINTS, PAUSE, SHORTEST = 120, 20.0, 30.0
#: Causes whose failure folders are read.
SHOWN = 200
#: Values of the campaign that the head of the report shows by themselves.
_SHOWN = frozenset({"schema", "versions", "started", "device", "programs", "bins"})
#: What a row of coverage counts.
_PROPERTIES = ("dtypes", "attributes", "regions", "layouts", "operands", "controls")


@dataclass(frozen=True)
class Cause:
    """Failures of one cause, the first of them, and the command that shows it again.

    ``types`` are the element types of the instruction in all of them.
    """

    cause: str
    count: int
    kinds: Mapping[str, int]
    instructions: tuple[str, ...]
    profiles: tuple[str, ...]
    first: batch.Failure
    command: str
    evidence: Evidence
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Throughput:
    """Cases per second over the time in which blocks were executed.

    ``points`` are seconds and rates, ``pauses`` the seconds at which time without any work is left out.
    ``growth`` gives for some of the seconds how many coverage cells, failures and causes there were.
    """

    points: tuple[tuple[float, float], ...] = ()
    pauses: tuple[float, ...] = ()
    seconds: float = 0.0
    growth: tuple[tuple[float, int, int, int], ...] = ()

    @property
    def mean(self) -> float:
        """The mean of the rates, in cases per second."""
        return sum(rate for _, rate in self.points) / len(self.points) if self.points else 0.0


@dataclass(frozen=True)
class Accuracy:
    """ULP distances of one instruction's results; ``bound`` is None where none is declared."""

    instruction: str
    dtype: str
    bound: int | None
    histogram: Histogram

    @property
    def within(self) -> bool:
        """Whether all results are within the bound, and NaNs only where both machines have them."""
        h = self.histogram
        return self.bound is None or (h.worst <= self.bound and not h.nan)


@dataclass(frozen=True)
class CampaignReport:
    """Everything a report shows."""

    name: str
    campaign: Mapping[str, Any]
    cases: int
    blocks: int
    workers: int
    kinds: Mapping[str, int]
    coverage: Coverage
    causes: tuple[Cause, ...]
    throughput: Throughput
    ulp: tuple[Accuracy, ...]
    #: Measured accuracy by numerics, where it was asked for.
    measured: Mapping[str, tuple[Accuracy, ...]]
    #: Operations per cell, and the bins of the campaign's goal.
    cells: Mapping[str, int] = field(default_factory=dict)
    bins: tuple[goal.Bin, ...] = ()
    #: What machines do not execute, and why, with the cases that have it, the most frequent first.
    refusals: Mapping[str, int] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        """The number of cases that both machines executed and whose results were compared."""
        return sum(self.kinds.get(kind, 0) for kind in COMPARED)

    @property
    def failures(self) -> int:
        """The number of failed cases."""
        return sum(c.count for c in self.causes)

    @property
    def title(self) -> str:
        """The machines that were compared."""
        tested, reference = (self.campaign.get(k, "unknown") for k in ("tested", "reference"))
        return f"{tested} against {reference}"

    @property
    def options(self) -> dict[str, str]:
        """What the campaign was asked for, in words."""
        return {k: _words(v) for k, v in sorted(self.campaign.items()) if k not in _SHOWN}

    @property
    def settings(self) -> dict[str, str]:
        """The options, and what the campaign was executed with."""
        versions = {f"version of {k}": str(v) for k, v in (self.campaign.get("versions") or {}).items()}
        return {**self.options, "device": self.campaign.get("device") or "unknown", **versions}

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        pairs, declared = self.coverage.pairs
        return {
            "schema": 1,
            "store": self.name,
            "campaign": dict(self.campaign),
            "cases": self.cases,
            "blocks": self.blocks,
            "workers": self.workers,
            "kinds": dict(self.kinds),
            "compared": self.compared,
            "refusals": dict(self.refusals),
            "failures": [_plain_cause(c) for c in self.causes],
            "coverage": {
                "cells": self.coverage.cells,
                "instructions": self.coverage.reached,
                "pairs": pairs,
                "declared_pairs": declared,
                "rows": [_plain_row(r) for r in self.coverage.rows],
            },
            "throughput": {
                "seconds": self.throughput.seconds,
                "cases_per_second": self.throughput.mean,
                "points": [list(p) for p in self.throughput.points],
                "pauses": list(self.throughput.pauses),
                "growth": [list(p) for p in self.throughput.growth],
            },
            "goal": [
                {"bin": str(b), "at_least": b.at_least, "reached": n}
                for b, n in goal.reached(self.bins, self.cells)
            ],
            "ulp": [_plain_accuracy(a) for a in self.ulp],
            "measured": {n: [_plain_accuracy(a) for a in listed] for n, listed in self.measured.items()},
        }


def report(contents: Contents, measured: Mapping[str, Histograms] | None = None) -> CampaignReport:
    """The report of a store's contents, and of measured accuracy by numerics."""
    return CampaignReport(
        contents.name,
        contents.campaign,
        sum(b.count for b in contents.blocks),
        len(contents.blocks),
        len({b.worker for b in contents.blocks}),
        _ordered(contents.kinds),
        coverage(contents.coverage, _profiles(contents.campaign)),
        tuple(_causes(contents)),
        throughput(contents.blocks),
        accuracies(contents.ulp),
        {name: accuracies(h) for name, h in (measured or {}).items()},
        contents.coverage,
        goal.bins_of_json(contents.campaign.get("bins", {})),
        dict(sorted(contents.refusals.items(), key=lambda item: (-item[1], item[0]))),
    )


def accuracies(histograms: Histograms) -> tuple[Accuracy, ...]:
    """Histograms with their declared bounds, in order."""
    declared_bounds = bounds()
    return tuple(Accuracy(*key, declared_bounds.get(key), histograms[key]) for key in histograms)


def _ordered(kinds: Counter[str]) -> dict[str, int]:
    return {k: kinds[k] for k in (*KINDS, *sorted(set(kinds) - set(KINDS))) if k in kinds}


def _profiles(campaign: Mapping[str, Any]) -> list[ProfileName]:
    """The profiles a campaign may use: those it names, or all."""
    named = campaign.get("profiles") or campaign.get("profile") or ()
    listed = [named] if isinstance(named, str) else list(named)
    return [p for p in PROFILE_NAMES if p in listed] or list(PROFILE_NAMES)


def _causes(contents: Contents) -> Iterator[Cause]:
    """Failures by cause, those with the most first."""
    groups: dict[str, list[batch.Failure]] = {}
    for failure in contents.failures:
        groups.setdefault(failure.cause or f"{failure.kind}: unknown", []).append(failure)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1][0].index))
    for number, (cause, group) in enumerate(ranked):
        kept = next((f for f in group if f.folder), group[0])
        yield Cause(
            cause,
            len(group),
            _ordered(Counter(f.kind for f in group)),
            tuple(sorted({f.instruction for f in group} - {""})),
            tuple(sorted({f.profile for f in group} - {""})),
            kept,
            command(contents.campaign, kept),
            evidence(kept.folder) if number < SHOWN else Evidence(),
            tuple(sorted({str(f.detail.get("types") or "") for f in group} - {""})),
        )


def command(campaign: Mapping[str, Any], failure: batch.Failure) -> str:
    """The shell line that shows a failure again.

    >>> f = batch.Failure(7, "", "different", "", "", "", "", "found/7", {})
    >>> command({}, f)
    'pto-jax replay found/7'
    """
    if failure.folder:
        machines = (str(campaign.get(key, "")) for key in ("reference", "tested"))
        return shlex.join(["pto-jax", "replay", failure.folder, *device_options(*machines)])
    words = ["pto-jax", "fuzz", "--seed", campaign.get("seed", 0), "--start", failure.index, "--count", 1]
    options = {"--against": "reference", "--profile": "profiles", "--preset": "presets"}
    if campaign.get("lockstep"):
        words.append("--lockstep")
    else:
        options["--tested"] = "tested"
    for option, key in options.items():
        values = campaign.get(key) or ()
        for value in [values] if isinstance(values, str) else values:
            words += [option, value]
    if campaign.get("programs"):
        words += ["--programs", *campaign["programs"]]
    return " ".join(shlex.quote(str(w)) for w in words)


def throughput(blocks: Sequence[Block]) -> Throughput:
    """Rates over the time in which blocks were executed; pauses are left out.

    >>> blocks = [Block(100.0 + n, 64, 1.0, "0") for n in range(10)]
    >>> throughput(blocks).seconds, round(throughput(blocks).mean)
    (10.0, 64)
    """
    ordered = sorted(blocks, key=lambda b: b.finished)
    if not ordered:
        return Throughput()
    longest = sorted(b.seconds for b in ordered)[len(ordered) // 2] * PAUSE
    limit = max(SHORTEST, longest, max(b.seconds for b in ordered) * 2)
    clock, last = 0.0, ordered[0].finished - ordered[0].seconds
    times, pauses = [], []
    for block in ordered:
        step = block.finished - last
        if step > limit:
            pauses.append(clock)
            step = block.seconds
        clock, last = clock + step, block.finished
        times.append(clock)
    width = max(clock / POINTS, max(b.seconds for b in ordered), 1e-9)
    bins = max(1, round(clock / width))
    width = max(clock, 1e-9) / bins
    counts = [0.0] * bins
    for end, block in zip(times, ordered, strict=True):
        _spread(counts, width, max(0.0, end - block.seconds), end, block.count)
    points = tuple(((i + 0.5) * width, n / width) for i, n in enumerate(counts))
    return Throughput(points, tuple(pauses), clock, tuple(_growth(ordered, times)))


def _growth(blocks: Sequence[Block], times: Sequence[float]) -> Iterator[tuple[float, int, int, int]]:
    """Coverage cells, failures and causes at the ends of some blocks, of the last one always."""
    cells = failures = causes = 0
    every = max(1, len(blocks) // POINTS)
    yield 0.0, 0, 0, 0
    for number, (block, end) in enumerate(zip(blocks, times, strict=True), 1):
        cells, failures, causes = cells + block.cells, failures + block.failures, causes + block.causes
        if number % every == 0 or number == len(blocks):
            yield end, cells, failures, causes


def _spread(counts: list[float], width: float, start: float, end: float, count: int) -> None:
    """Share the cases of a block among the intervals in which it was executed."""
    last = len(counts) - 1
    first, final = min(int(start / width), last), min(int(end / width), last)
    if first == final or end <= start:
        counts[final] += count
        return
    for i in range(first, final + 1):
        overlap = min(end, (i + 1) * width if i < last else end) - max(start, i * width)
        counts[i] += count * overlap / (end - start)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_words(v)}" for k, v in value.items()) or "none"
    if isinstance(value, list):
        return " ".join(map(_words, value)) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _plain_cause(c: Cause) -> dict[str, Any]:
    first = {k: v for k, v in vars(c.first).items() if k != "cause"}
    return {
        "cause": c.cause,
        "count": c.count,
        "kinds": dict(c.kinds),
        "instructions": list(c.instructions),
        "profiles": list(c.profiles),
        "first": {**first, "detail": dict(c.first.detail)},
        "command": c.command,
        "evidence": {k: list(v) if isinstance(v, tuple) else v for k, v in vars(c.evidence).items()},
    }


def _plain_row(row: Any) -> dict[str, Any]:
    return {
        "instruction": row.instruction,
        "class": row.cls,
        **{k: dict(sorted(getattr(row, k).items())) for k in _PROPERTIES},
        "never": {
            "dtypes": row.missing_dtypes,
            "attributes": row.missing_attributes,
            "regions": row.missing_regions,
        },
    }


def _plain_accuracy(a: Accuracy) -> dict[str, Any]:
    counts = a.histogram.counts
    return {
        "instruction": a.instruction,
        "dtype": a.dtype,
        "bound": a.bound,
        "elements": a.histogram.elements,
        "worst": a.histogram.worst,
        "nan": a.histogram.nan,
        "buckets": {label(start): counts[start] for start in sorted(counts)},
    }
