"""The ``diff`` command: two programs on the same inputs, and a folder with what shows a difference."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..api import load
from ..campaign.failures import first_difference, new_folder
from ..errors import ArgumentError
from ..files import folder_replacing, read_text, save_arrays, write_text
from ..ir.languages import Language
from ..profiles import ProfileName
from ..runtime.array_files import read_inputs, storable


@dataclass(frozen=True)
class DiffOptions:
    """DiffOptions of the command, as given."""

    before: str
    after: str
    count: int = 16
    seed: int = 0
    inputs: str | None = None
    profile: ProfileName | None = None
    numerics: str = "exact"
    grid: int = 1
    partial_launch: bool = False
    scalars: Mapping[str, int] | None = None
    failures: str = "."
    entry: str | None = None
    language: Language | None = None
    language_after: Language | None = None


def diff(options: DiffOptions) -> bool:
    """Compare two programs and say what was found; whether they are equal on every input."""
    before = load(options.before, language=options.language)
    after = load(options.after, language=options.language_after)
    for name, n, least in (("--count", options.count, 1), ("--seed", options.seed, 0)):
        if n < least:
            raise ArgumentError(f"{name} is {n}; {least} or more is needed")

    from ..campaign import translation

    both = translation.pair(
        before,
        after,
        options.profile,
        options.numerics,
        options.grid,
        options.entry,
        partial_launch=options.partial_launch,
    )
    if options.inputs is not None:
        values, _ = read_inputs(both.before, options.inputs)  # pyright: ignore[reportArgumentType]
        result = translation.compare(both, values)
        origin = f"input from {options.inputs}"
    else:
        result = translation.validate(both, options.count, options.seed, options.scalars)
        origin = f"{result.compared} generated inputs, seed {options.seed}"
    setting = f"profile {both.before.profile.name}, numerics {options.numerics}"
    if result.failure is None:
        print(f"equal: {', '.join(both.results)} on {origin} ({setting})")
        return True
    print(f"different: {result.failure} ({setting})")
    folder = save_failure(options, both.before.profile.name, result.failure)
    print(f"programs, input, outputs and report.json are in {folder}")
    return False


def save_failure(options: DiffOptions, profile: str, failure: Any) -> Path:
    """Write the folder that shows a failure, under a name that is free, and return its path."""
    name = f"diff-{Path(options.before).stem}-{Path(options.after).stem}-seed{options.seed}-{failure.number}"
    final = new_folder(Path(options.failures), name)
    try:
        with folder_replacing(final) as folder:
            _fill(folder, options, profile, failure)
    except BaseException:
        final.rmdir()
        raise
    return final


def _fill(folder: Path, options: DiffOptions, profile: str, failure: Any) -> None:
    write_text(folder / "before.pto", read_text(options.before))
    write_text(folder / "after.pto", read_text(options.after))
    for file, arrays in (
        ("inputs.npz", failure.inputs),
        ("before-outputs.npz", failure.before),
        ("after-outputs.npz", failure.after),
    ):
        save_arrays(folder / file, {n: storable(a) for n, a in arrays.items()})
    command = (
        f"pto-jax diff before.pto after.pto --inputs inputs.npz --profile {profile} "
        f"--numerics {options.numerics} --grid {options.grid}"
        + (f" --entry {shlex.quote(options.entry)}" if options.entry else "")
        + (" --partial-launch" if options.partial_launch else "")
        + (f" --language {options.language}" if options.language else "")
        + (f" --language-after {options.language_after}" if options.language_after else "")
    )
    report = {
        "before": options.before,
        "after": options.after,
        "profile": profile,
        "numerics": options.numerics,
        "grid": options.grid,
        "seed": None if options.inputs else options.seed,
        "input": failure.number,
        "version": __version__,
        "found": str(failure),
        **first_difference(failure.comparison, "buffer", "before_bits", "after_bits"),
        "command": command,
    }
    write_text(folder / "report.json", json.dumps(report, indent=1) + "\n")
