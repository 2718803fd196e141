"""The files that a comparison is about: pairs of programs in two folders, and dumps of a series."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ArgumentError, FileError
from ..text import SUFFIXES


@dataclass(frozen=True)
class Job:
    """Two files to compare, and the name of what they are about."""

    name: str
    before: Path
    after: Path


def pairs(before: Path, after: Path) -> tuple[list[Job], list[str]]:
    """The programs of a folder with those of the same path in another, and those that only the other has.

    A path is the same whatever its suffix: that of PTO text or of C++. Where the other folder has no such
    path, its only program of the same name counts, or the only one of that name with ``_aic`` behind it (a
    mixed program). FileError where one is no folder, or the first has no program.
    """
    for folder in (before, after):
        if not folder.is_dir():
            raise FileError(f"{folder}: {'no folder' if folder.exists() else 'no such folder'}")
    first, second = _programs(before), _programs(after)
    if not first:
        raise FileError(f"{before}: no .pto file in this folder")
    jobs, names = [], set()
    for key in sorted(first):
        other = key if key in second else _of_name(key, second)
        names.add(other)
        match = second.get(other, after / first[key].relative_to(before))
        jobs.append(Job(str(first[key].relative_to(before)), first[key], match))
    return jobs, sorted(str(p.relative_to(after)) for key, p in second.items() if key not in names)


def _programs(folder: Path) -> dict[Path, Path]:
    """The files with programs in a folder, by their paths in it without suffix."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".pto", *SUFFIXES) and p.is_file())
    return {p.relative_to(folder).with_suffix(""): p for p in reversed(files)}


def _of_name(key: Path, paths: Collection[Path]) -> Path:
    """The only path with the name of another one, or with that of its cube kernel."""
    for name in (key.name, f"{key.name}_aic"):
        results = [k for k in paths if k.name == name]
        if len(results) == 1:
            return results[0]
    return key


def dumps(paths: Sequence[Path]) -> list[Path]:
    """The dumps of a series in their order; those of a single folder are its files in order of their names.

    ArgumentError for fewer than two.
    """
    files = list(paths)
    if len(files) == 1 and files[0].is_dir():
        files = sorted(files[0].iterdir())
        files = [p for p in files if p.suffix == ".pto"] or [p for p in files if p.is_dir()]
    missing = next((p for p in files if not p.exists()), None)
    if missing is not None:
        raise FileError(f"{missing}: no such file or folder")
    if len(files) < 2:
        raise ArgumentError(
            "--series: got fewer than two dumps", allowed="files, folders, or one folder of them"
        )
    if len({p.is_dir() for p in files}) > 1:
        raise ArgumentError("--series: files and folders", allowed="all of one kind")
    return files
