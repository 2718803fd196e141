"""The data of a campaign's report, from its store and its failure folders.

The store may belong to a campaign that still writes to it. Files of a failure folder are read and never
executed; an unreadable file is left out, with the reason.
"""

import contextlib
import json
import shlex
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...cases.comparison import COMPARED
from ...cases.identity import device_options
from ...cases.ulp import Histogram, Histograms, bounds, label
from ...errors import FileError
from ...files import load_arrays, read_json, read_text
from ...profiles import PROFILE_NAMES, ProfileName
from ...runtime.array_files import REGION
from ..fuzz import batch, goal, store
from ..fuzz.batch import Failure
from .coverage import Coverage, coverage

#: The version of the tables that is understood.
SCHEMA = 1


@dataclass(frozen=True)
class Block:
    """A finished block of cases: when it was finished (seconds of Unix time), and how long it took.

    ``cells`` are the coverage cells that no block before it had, ``failures`` its failures, ``causes`` those
    that no block before it had.
    """

    finished: float
    count: int
    seconds: float
    worker: str
    cells: int = 0
    failures: int = 0
    causes: int = 0


@dataclass
class Contents:
    """Everything a store says. ``coverage`` counts cells (:mod:`..fuzz.coverage`)."""

    name: str
    campaign: dict[str, Any]
    blocks: list[Block] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    coverage: Counter[str] = field(default_factory=Counter)
    ulp: Histograms = field(default_factory=Histograms)
    failures: list[Failure] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)


def read(path: str | Path) -> Contents:
    """What a store says at this moment; nothing is written. Raises FileError for a file that is none."""
    where = Path(path)
    store.header(where)
    with store.complaints(path), contextlib.closing(_opened(where)) as database:
        database.execute("BEGIN")
        store.check(database, path, SCHEMA)
        return _read(database, str(path))


def _opened(path: Path) -> sqlite3.Connection:
    """A connection that cannot write.

    Where the folder cannot be written either, the write-ahead log has no place; the file is then read as it
    is.
    """
    address = path.resolve().as_uri()
    database = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=store.BUSY, isolation_level=None)
    try:
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        database.close()
        database = sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True, isolation_level=None)
    except sqlite3.Error:
        database.close()
        raise
    return database


def _read(database: sqlite3.Connection, name: str) -> Contents:
    campaign = {key: json.loads(value) for key, value in database.execute("SELECT key, value FROM campaign")}
    contents = Contents(name, campaign)
    failing: defaultdict[int, list[str]] = defaultdict(list)
    query = """SELECT start, case_index, case_id, kind, profile, instruction, cause, message, folder, detail
               FROM failure ORDER BY case_index"""
    for start, index, *texts, folder, detail in database.execute(query):
        fields: tuple[Any, ...] = (int(index), *(text or "" for text in texts))
        failure = replace(Failure(*fields), folder=folder or None, detail=json.loads(detail or "{}"))
        contents.failures.append(failure)
        failing[int(start)].append(failure.cause)
    causes = set[str]()
    columns = ("start", "finished", "count", "seconds", "worker", "kinds", "coverage", "ulp", "refusals")
    query = f"SELECT {store.selected(database, 'batch', *columns)} FROM batch ORDER BY finished, start"
    for start, finished, count, seconds, worker, kinds, cell_counts, ulp, refusals in database.execute(query):
        cells, here = len(contents.coverage), failing[int(start)]
        contents.kinds.update(json.loads(kinds))
        contents.coverage.update(json.loads(cell_counts))
        contents.refusals.update(json.loads(refusals or "{}"))
        new = (len(contents.coverage) - cells, len(here), len(set(here) - causes))
        causes.update(here)
        contents.blocks.append(Block(float(finished), int(count), float(seconds), str(worker), *new))
        if ulp and ulp != "{}":
            contents.ulp.merge(Histograms.from_json(ulp))
    return contents


#: The largest program that is shown, in bytes; arrays, elements of an input, and elements that differ.
PROGRAM, ARRAYS, ELEMENTS, DIFFERENT = 1 << 15, 32, 8, 6
_Array = NDArray[Any]


@dataclass(frozen=True)
class Evidence:
    """Texts of a failure; ``missing`` says why they are not all there.

    ``message`` is that of the shrunk program; ``only`` says what the failure depends on, ``origin`` what the
    program was made of.
    """

    program: str = ""
    message: str = ""
    inputs: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    only: str = ""
    origin: tuple[str, ...] = ()
    missing: str = ""


def evidence(folder: str | Path | None) -> Evidence:
    """What a folder shows; nothing where there is none.

    >>> evidence(None).program, evidence("nowhere").missing
    ('', 'nowhere/report.json: no such file')
    """
    if folder is None:
        return Evidence()
    where = Path(folder)
    try:
        content = read_json(where / "report.json", regular=True)
        program = read_text(where / "shrunk.pto", PROGRAM, regular=True)
        inputs = _numbers(where / "inputs.npz")
        results = (where / name for name in ("expected.npz", "got.npz"))
        # A machine that crashed gave no results.
        expected, got = (_numbers(file) if file.is_file() else {} for file in results)
    except FileError as error:
        return Evidence(missing=str(error).splitlines()[0])
    about: Mapping[str, Any] = content if isinstance(content, dict) else {}
    origin = about.get("origin")
    return Evidence(
        program,
        _text(about, "message"),
        tuple(_inputs(inputs)),
        tuple(_differences(expected, got)),
        _text(about, "only"),
        tuple(map(str, origin)) if isinstance(origin, list) else (),
    )


def _text(about: Mapping[str, Any], key: str) -> str:
    value = about.get(key)
    return value if isinstance(value, str) else ""


def _numbers(file: Path) -> Mapping[str, _Array]:
    """The arrays of a file; FileError where one has elements that no result has."""
    arrays = load_arrays(file)
    for name, array in arrays.items():
        if array.dtype.kind not in "biufV" or array.dtype.itemsize not in (1, 2, 4, 8):
            raise FileError(
                f"{file}: {name} has elements of type {array.dtype}", allowed="numbers of 1 to 8 bytes"
            )
    return arrays


def _inputs(arrays: Mapping[str, _Array]) -> Iterator[str]:
    for name, array in islice(arrays.items(), ARRAYS):
        size = "x".join(map(str, array.shape)) or "scalar"
        yield f"{name}  {array.dtype} {size}: {_elements(array)}"
    if len(arrays) > ARRAYS:
        yield f"{len(arrays) - ARRAYS} more"


def _elements(array: _Array) -> str:
    """The first elements; of a large array that is nearly empty those that are not 0, with their places.

    >>> _elements(np.eye(4, dtype=np.int8)[1:]), _elements(np.arange(3))
    ('[0, 1] 1  [1, 2] 1  [2, 3] 1  others 0', '0 1 2')
    """
    places = np.argwhere(_raw_words(array) != 0)
    if array.size > ELEMENTS >= len(places):
        counts = [
            f"[{', '.join(map(str, place))}] {_shown(array[tuple(place)])}" for place in places.tolist()
        ]
        return "  ".join([*counts, "others 0"]) if counts else "all 0"
    more = " ..." if array.size > ELEMENTS else ""
    return " ".join(map(_shown, array.reshape(-1)[:ELEMENTS])) + more


def _differences(arrays: Mapping[str, _Array], got: Mapping[str, _Array]) -> Iterator[str]:
    """The first elements of each result that differ in a bit, in its valid region, other NaNs aside."""
    for name, expected in islice(arrays.items(), ARRAYS):
        actual = got.get(name)
        if name.endswith(REGION) or actual is None:
            continue
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            yield f"{name}: {actual.dtype} {actual.shape}, expected {expected.dtype} {expected.shape}"
            continue
        differs = _raw_words(expected) != _raw_words(actual)
        if expected.dtype.kind == "f":
            differs &= ~(np.isnan(expected) & np.isnan(actual))
        valid = arrays.get(name + REGION)
        if valid is not None and valid.shape == (2,) and valid.dtype.kind in "iu" and differs.ndim == 2:
            differs[int(valid[0]) :] = False
            differs[:, int(valid[1]) :] = False
        places = np.argwhere(differs)
        for place in places[:DIFFERENT]:
            at = tuple(map(int, place))
            where = ", ".join(map(str, at))
            yield f"{name}[{where}]: {_shown(actual[at])}, expected {_shown(expected[at])}"
        if len(places) > DIFFERENT:
            yield f"{name}: {len(places) - DIFFERENT} more of {differs.size} elements differ"


def _raw_words(array: _Array) -> _Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _shown(value: Any) -> str:
    """An element as a number, with its bits where it is a float."""
    if value.dtype.kind == "f":
        word = int(value.view(f"u{value.dtype.itemsize}"))
        return f"{float(value):.9g} (0x{word:0{2 * value.dtype.itemsize}x})"
    return str(value)


#: Kinds of outcomes in the order they are shown; those that count as failures.
KINDS = ("equal", "refused", "stopped", "undefined", "different", "crashed")
FAILING = ("different", "crashed")
#: Points of the throughput line, and the silence (in blocks' durations, and seconds) that is a pause.
POINTS, PAUSE, SHORTEST = 120, 20.0, 30.0
#: Causes whose failure folders are read.
SHOWN = 200
#: Values of the campaign that the head of the report shows by themselves.
_SHOWN = frozenset({"schema", "versions", "started", "device", "programs", "bins", "notes"})
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
            "measured": {n: [_plain_accuracy(a) for a in rows] for n, rows in self.measured.items()},
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
    names = [named] if isinstance(named, str) else list(named)
    return [p for p in PROFILE_NAMES if p in names] or list(PROFILE_NAMES)


def _causes(contents: Contents) -> Iterator[Cause]:
    """Failures by cause, those with the most first."""
    groups: dict[str, list[batch.Failure]] = {}
    for failure in contents.failures:
        groups.setdefault(failure.cause or f"{failure.kind}: unknown", []).append(failure)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1][0].index))
    for number, (cause, group) in enumerate(ranked):
        example = next((f for f in group if f.folder), group[0])
        yield Cause(
            cause,
            len(group),
            _ordered(Counter(f.kind for f in group)),
            tuple(sorted({f.instruction for f in group} - {""})),
            tuple(sorted({f.profile for f in group} - {""})),
            example,
            command(contents.campaign, example),
            evidence(example.folder) if number < SHOWN else Evidence(),
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
