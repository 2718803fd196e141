"""Folders of programs before and after a pass, and series of dumps after several passes."""

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import ArgumentError, FileError
from .files import Comparing, Verdict, compare_files

#: Told of each verdict as soon as it is known.
Told = Callable[[Verdict], None]


@dataclass(frozen=True)
class Job:
    """Two files to compare, and the name of what they are about."""

    name: str
    before: Path
    after: Path


def pairs(before: Path, after: Path) -> tuple[list[Job], list[str]]:
    """The programs of a folder with those of the same path in another, and those that only the other has.

    FileError where one is no folder, or the first has no program.
    """
    for folder in (before, after):
        if not folder.is_dir():
            raise FileError(f"{folder}: {'no folder' if folder.exists() else 'no such folder'}")
    first, second = ({p.relative_to(f) for p in f.rglob("*.pto") if p.is_file()} for f in (before, after))
    if not first:
        raise FileError(f"{before}: no .pto file in this folder")
    jobs = [Job(str(path), before / path, after / path) for path in sorted(first)]
    return jobs, sorted(str(path) for path in second - first)


def compare_all(jobs: Sequence[Job], how: Comparing, workers: int, told: Told) -> list[Verdict]:
    """The verdicts on some programs, in their order; ``workers`` processes find them."""
    found: dict[str, Verdict] = {}
    if workers == 1 or len(jobs) == 1:
        for job in jobs:
            found[job.name] = compare_files(job.name, job.before, job.after, how)
            told(found[job.name])
    else:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            started: dict[Future[Verdict], Job] = {
                pool.submit(compare_files, job.name, job.before, job.after, how): job for job in jobs
            }
            for future in as_completed(started):
                name = started[future].name
                error = future.exception()
                found[name] = future.result() if error is None else Verdict(name, "skipped", f"{error}")
                told(found[name])
    return [found[job.name] for job in jobs]


def dumps(given: Sequence[Path]) -> list[Path]:
    """The dumps of a series in their order; those of a single folder are its files in order of their names.

    ArgumentError for fewer than two.
    """
    listed = list(given)
    if len(listed) == 1 and listed[0].is_dir():
        listed = sorted(listed[0].iterdir())
        listed = [p for p in listed if p.suffix == ".pto"] or [p for p in listed if p.is_dir()]
    missing = next((p for p in listed if not p.exists()), None)
    if missing is not None:
        raise FileError(f"{missing}: no such file or folder")
    if len(listed) < 2:
        raise ArgumentError("--series needs two dumps or more: files, folders, or one folder of them")
    if len({p.is_dir() for p in listed}) > 1:
        raise ArgumentError("--series: files and folders; allowed: all of one kind")
    return listed


def series(listed: Sequence[Path], how: Comparing, told: Told) -> list[Verdict]:
    """For each program of a series of dumps, which of them is the first that differs from the first one.

    The dumps between are searched by halves, as if what is broken once stays broken.
    """
    names = [""]
    if listed[0].is_dir():
        names = [job.name for job in pairs(listed[0], listed[-1])[0]]
    verdicts = []
    for name in names:
        verdicts.append(_bisected(name, [p / name if name else p for p in listed], how))
        told(verdicts[-1])
    return verdicts


def _bisected(name: str, files: Sequence[Path], how: Comparing) -> Verdict:
    shown = name or str(files[0])
    last = compare_files(shown, files[0], files[-1], how)
    if not last.is_failure:
        return last
    good, bad, found = 0, len(files) - 1, last
    while bad - good > 1:
        middle = (good + bad) // 2
        verdict = compare_files(shown, files[0], files[middle], how)
        if verdict.is_failure:
            bad, found = middle, verdict
        else:
            good = middle
    # The step itself says where, unless it only shows on the program of the beginning.
    step = compare_files(shown, files[good], files[bad], how)
    found = step if step.is_failure else found
    return replace(found, message=f"first in {files[bad]}, not in {files[good]}: {found.message}")


def counted(verdicts: Sequence[Verdict]) -> str:
    """How many programs have each kind of verdict.

    >>> counted([Verdict("a", "equal"), Verdict("b", "same"), Verdict("c", "equal")])
    '3 programs: 2 equal, 1 same'
    """
    counts = Counter(v.kind for v in verdicts)
    kinds = [f"{counts[k]} {k}" for k in ("equal", "same", "different", "rejected", "skipped") if counts[k]]
    return f"{len(verdicts)} programs: {', '.join(kinds)}"


def lines(verdict: Verdict) -> Iterator[str]:
    """A verdict in words: what differs, and where."""
    yield f"{verdict.name}: {verdict.kind}" + (f": {verdict.message}" if verdict.message else "")
    yield from (f"    {line}" for line in (verdict.parting, verdict.change, *verdict.warnings) if line)
