"""``diff --corpus`` and ``diff --series``: many programs before and after a pass."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..campaign.junit import JunitCase, Kind, write_junit
from ..campaign.passes.corpus import compare_all, counted, dumps, lines, pairs, series
from ..campaign.passes.files import Comparing, Verdict
from ..errors import ArgumentError
from ..files import write_text
from .options import DiffOptions

_KINDS: dict[str, Kind] = {"different": "failure", "rejected": "failure", "skipped": "skipped"}


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
    )
    terminal = sys.stderr.isatty()
    seen: list[Verdict] = []

    def told(verdict: Verdict) -> None:
        seen.append(verdict)
        if verdict.is_failure or verdict.warnings:
            for line in lines(verdict):
                print(line, file=sys.stderr, flush=True)
        elif terminal and len(seen) % 10 == 0:
            print(counted(seen), file=sys.stderr, flush=True)

    if options.series:
        given = [options.before, *([options.after] if options.after else []), *options.more]
        listed = dumps([Path(p) for p in given])
        verdicts = series(listed, how, told)
        more: list[str] = []
    else:
        jobs, more = pairs(Path(options.before), Path(str(options.after)))
        workers = options.workers or len(os.sched_getaffinity(0))
        verdicts = compare_all(jobs, how, workers, told)
    _print(verdicts, more)
    if options.json:
        write_text(options.json, json.dumps(_report(options, verdicts, more), indent=1) + "\n")
    if options.junit:
        write_junit(options.junit, "pto-jax diff", [_test(v) for v in verdicts])
    return not any(v.is_failure for v in verdicts)


def _check(options: DiffOptions) -> None:
    if options.corpus and options.series:
        raise ArgumentError("--corpus and --series; allowed: one of them")
    if options.corpus and (options.after is None or options.more):
        raise ArgumentError("--corpus needs two folders, BEFORE and AFTER")
    if options.numerics != "exact":
        raise ArgumentError("--numerics fast: not with --corpus or --series, which execute the interpreter")
    for name, given in (("inputs", options.inputs), ("entry", options.entry), ("arg", options.scalars)):
        if given:
            raise ArgumentError(f"--{name} is for two programs; leave out --corpus and --series")


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
