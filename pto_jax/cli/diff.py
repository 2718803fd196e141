"""The ``diff`` command: two programs on the same inputs, and a folder with what shows a difference."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import __version__
from ..api import load
from ..campaign.failures import first_difference, new_folder
from ..errors import ArgumentError
from ..files import folder_replacing, read_text, save_arrays, write_text
from ..runtime.array_files import read_inputs, storable
from .options import DiffOptions


def diff(options: DiffOptions) -> bool:
    """Compare programs and say what was found; whether they are equal on every input."""
    for name, n, smallest in (
        ("count", options.count, 1),
        ("seed", options.seed, 0),
        ("workers", options.workers, 1),
    ):
        if n is not None and n < smallest:
            raise ArgumentError(f"--{name} is {n}; {smallest} or more is needed")
    if options.corpus or options.series:
        from .diff_corpus import diff_corpus

        return diff_corpus(options)
    if options.after is None or options.more:
        raise ArgumentError("two programs are needed; more of them with --series")
    for option in ("json", "junit", "workers"):
        if getattr(options, option) is not None:
            raise ArgumentError(f"--{option} is for --corpus and --series")
    return _two(options, options.after)


def _two(options: DiffOptions, file: str) -> bool:
    before = load(options.before, language=options.language)
    after = load(file, language=options.language_after)

    from ..campaign import translation
    from ..campaign.passes.changes import new_warnings, only_change
    from ..campaign.passes.files import locate

    both = translation.pair(
        before,
        after,
        options.profile,
        options.numerics,
        options.grid,
        options.entry,
        partial_launch=options.partial_launch,
    )
    both = replace(both, ulp=options.ulp)
    if options.inputs is not None:
        values, _ = read_inputs(both.before, options.inputs)  # pyright: ignore[reportArgumentType]
        result = translation.compare(both, values)
        origin = f"input from {options.inputs}"
    else:
        result = translation.validate(both, options.count, options.seed, options.scalars)
        origin = f"{result.compared} generated inputs, seed {options.seed}"
    for finding in new_warnings(before, after, both.before.profile):
        print(finding.render())
    setting = f"profile {both.before.profile.name}, numerics {options.numerics}"
    if result.failure is None:
        print(f"equal: {', '.join(both.results)} on {origin} ({setting})")
        return True
    print(f"different: {result.failure} ({setting})")
    where = locate(both, result.failure)
    if where is not None:
        print(f"the programs part where {where}")
    change = only_change(before, after)
    if change:
        print(change)
    folder = save_failure(options, both.before.profile.name, result.failure)
    print(f"programs, input, outputs and report.json are in {folder}")
    return False


def save_failure(options: DiffOptions, profile: str, failure: Any) -> Path:
    """Write the folder that shows a failure, under a name that is free, and return its path."""
    stems = f"{Path(options.before).stem}-{Path(str(options.after)).stem}"
    name = f"diff-{stems}-seed{options.seed}-{failure.number}"
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
    write_text(folder / "after.pto", read_text(str(options.after)))
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
        + "".join(f" --ulp {f'{n}=' if n else ''}{bound}" for n, bound in options.ulp.items())
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
