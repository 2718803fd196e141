"""The command ``diff``: two programs on the same inputs, or folders and series from a compiler pass."""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import __version__
from ..api import load
from ..errors import ArgumentError
from ..failures.folders import first_difference, new_folder
from ..failures.junit import JunitCase, Kind, write_junit
from ..files import folder_replacing, read_text, save_arrays, write_text
from ..runtime.array_files import read_inputs, storable
from ..text import SUFFIXES
from ..validation.files import Comparing, Verdict, compare_all, counted, lines, series
from ..validation.jobs import dumps, pairs
from . import rank_options
from .options import DiffOptions

_KINDS: dict[str, Kind] = {"different": "failure", "rejected": "failure", "skipped": "skipped"}
#: What is no success of a comparison.
_NOTHING = "no program was compared"


def diff_corpus(options: DiffOptions) -> bool:
    """Compare folders or a series of dumps, and say what was found; whether no program differs."""
    _check(options)
    how = Comparing(
        options.count,
        options.seed,
        options.profile,
        options.grid,
        options.ulp,
        options.language,
        options.language_after,
        options.open,
    )
    terminal = sys.stderr.isatty()
    seen: list[Verdict] = []

    def report(verdict: Verdict) -> None:
        seen.append(verdict)
        if verdict.is_failure or verdict.warnings or verdict.open:
            for line in lines(verdict):
                print(line, file=sys.stderr, flush=True)
        elif terminal and len(seen) % 10 == 0:
            print(counted(seen), file=sys.stderr, flush=True)

    if options.series:
        paths = [options.before, *([options.after] if options.after else []), *options.more]
        files = dumps([Path(p) for p in paths])
        verdicts = series(files, how, report)
        more: list[str] = []
    else:
        jobs, more = pairs(Path(options.before), Path(str(options.after)))
        workers = options.workers or len(os.sched_getaffinity(0))
        verdicts = compare_all(jobs, how, workers, report)
    return _told(options, verdicts, more)


def _told(options: DiffOptions, verdicts: Sequence[Verdict], more: Sequence[str]) -> bool:
    """Print and write the verdicts; whether some programs were compared and none differs."""
    _print(verdicts, more)
    if options.json:
        write_text(options.json, json.dumps(_report(options, verdicts, more), indent=1) + "\n")
    tests = [_test(v) for v in verdicts]
    if all(v.kind == "skipped" for v in verdicts):
        print(f"pto-jax diff: error: {_NOTHING}", file=sys.stderr)
        tests.append(JunitCase(_NOTHING, "failure", _NOTHING))
    if options.junit:
        write_junit(options.junit, "pto-jax diff", tests)
    return all(t.kind in ("passed", "skipped") for t in tests)


def _check(options: DiffOptions) -> None:
    if options.corpus and options.series:
        raise ArgumentError("--corpus and --series", allowed="one of them")
    for option in ("ranks", "exhaustive"):
        if getattr(options, option):
            raise ArgumentError(f"got --{option} with --corpus or --series", allowed="with two programs")
    if options.corpus and (options.after is None or options.more):
        raise ArgumentError("--corpus: got one folder, or more than two", allowed="BEFORE and AFTER")
    if options.numerics != "exact":
        raise ArgumentError(
            "--numerics: got fast with --corpus or --series", allowed="exact, as the interpreter has"
        )
    for name, values in (("inputs", options.inputs), ("entry", options.entry), ("arg", options.scalars)):
        if values:
            raise ArgumentError(f"got --{name} with --corpus or --series", allowed="with two programs")


def _print(verdicts: Sequence[Verdict], more: Sequence[str]) -> None:
    failures = [v for v in verdicts if v.is_failure]
    if failures:
        print("first program that differs:")
        for line in lines(failures[0]):
            print(f"  {line}")
    print(counted(verdicts))
    skipped = [v for v in verdicts if v.kind == "skipped"]
    for verdict in skipped[:10]:
        print(f"  {next(lines(verdict))}")
    if len(skipped) > 10:
        print(f"  and {len(skipped) - 10} more that are skipped")
    if more:
        print(f"only after: {len(more)} programs, {more[0]} first")


def _report(options: DiffOptions, verdicts: Sequence[Verdict], more: Sequence[str]) -> dict[str, object]:
    return {
        "version": __version__,
        "before": options.before,
        "after": [options.after, *options.more],
        "seed": options.seed,
        "inputs": options.count,
        "first": next((v.name for v in verdicts if v.is_failure), None),
        "programs": [v.to_json() for v in verdicts],
        "only_after": list(more),
    }


def _test(verdict: Verdict) -> JunitCase:
    kind = _KINDS.get(verdict.kind, "passed")
    return JunitCase(verdict.name, kind, verdict.message, verdict.seconds, verdict.parting)


def diff(options: DiffOptions) -> bool:
    """Compare programs and say what was found; whether they are equal on every input."""
    if options.corpus or options.series:
        return diff_corpus(options)
    if options.after is None or options.more:
        raise ArgumentError("got one program, or more than two", allowed="two; any number with --series")
    if options.exhaustive and (options.inputs is not None or options.ranks is not None):
        raise ArgumentError("got --exhaustive with --inputs or --ranks", allowed="with generated inputs")
    for option in ("json", "junit", "workers"):
        if getattr(options, option) is not None:
            raise ArgumentError(f"got --{option} with two programs", allowed="with --corpus or --series")
    if options.ranks is not None:
        return _on_ranks(options)
    return _two(options, options.after)


def _on_ranks(options: DiffOptions) -> bool:
    from .ranks import diff

    equal, failure, profile = diff(options)
    if failure is not None:
        save_failure(options, profile, failure)
    return equal


def _two(options: DiffOptions, file: str) -> bool:
    before = load(options.before, language=options.language)
    after = load(file, language=options.language_after)

    from ..validation import translation
    from ..validation.files import locate, new_warnings, only_change

    choices = (options.profile, options.numerics, options.grid, options.entry, options.partial_launch)
    both = translation.pair(before, after, *choices, options.scalars)
    both = replace(both, ulp=_of_results(options.ulp, getattr(both.before, "outputs", ())), open=options.open)
    if options.inputs is not None:
        values, _ = read_inputs(both.before, options.inputs)  # pyright: ignore[reportArgumentType]
        result = translation.compare(both, values)
        origin = f"input from {options.inputs}"
    else:
        result = translation.validate(both, options.count, options.seed, options.scalars, options.exhaustive)
        origin = f"{result.compared} generated inputs, seed {options.seed}"
        if result.enumerated:
            origin += f", with every value of {', '.join(result.enumerated)}"
    for finding in new_warnings(before, after, both.before.profile):
        print(finding.render())
    if result.left:
        print(result.left)
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
    save_failure(options, both.before.profile.name, result.failure)
    return False


def _of_results(ulp: Mapping[str, int], results: Sequence[str]) -> Mapping[str, int]:
    """The bounds of results; ArgumentError for one of a result that the programs do not have."""
    for name, bound in ulp.items():
        if name and results and name not in results:
            fix = f"--ulp {results[0]}={bound}"
            raise ArgumentError(f"--ulp: got {name}", allowed=", ".join(results), fix=fix)
    return ulp


def save_failure(options: DiffOptions, profile: str, failure: Any) -> None:
    """Write the folder that shows a failure, under a name that is free, and say where it is."""
    stems = f"{Path(options.before).stem}-{Path(str(options.after)).stem}"
    name = f"diff-{stems}-seed{options.seed}-{failure.number}"
    final = new_folder(Path(options.failures), name)
    try:
        with folder_replacing(final) as folder:
            _fill(folder, options, profile, failure)
    except BaseException:
        final.rmdir()
        raise
    print(f"programs, input, outputs and report.json are in {final}")


def _suffix(file: str) -> str:
    """What a copy of a program's file is named: C++ is known by its name."""
    return Path(file).suffix if file.endswith(SUFFIXES) else ".pto"


def _fill(folder: Path, options: DiffOptions, profile: str, failure: Any) -> None:
    files = [f"before{_suffix(options.before)}", f"after{_suffix(str(options.after))}"]
    for name, file in zip(files, (options.before, str(options.after)), strict=True):
        write_text(folder / name, read_text(file))
    for file, arrays in (
        ("inputs.npz", failure.inputs),
        ("before-outputs.npz", failure.before),
        ("after-outputs.npz", failure.after),
    ):
        save_arrays(folder / file, {n: storable(a) for n, a in arrays.items()})
    command = (
        f"pto-jax diff {' '.join(files)} --inputs inputs.npz --profile {profile} "
        f"--numerics {options.numerics} --grid {options.grid}"
        + (" --open" if options.open else "")
        + (f" --entry {shlex.quote(options.entry)}" if options.entry else "")
        + (" --partial-launch" if options.partial_launch else "")
        + "".join(
            f" --arg {n}={number}" for n, number in (options.scalars or {}).items() if n not in failure.inputs
        )
        + "".join(f" --ulp {f'{n}=' if n else ''}{bound}" for n, bound in options.ulp.items())
        + "".join(f" {shlex.quote(word)}" for word in rank_options.written(options))
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
