"""The ``conformance`` command: test vectors or system tests on the engine or the interpreter."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from ..errors import ArgumentError
from ..files import write_text
from ..profiles import profile
from ..vectors.conformance import BatchExecutor, ConformanceReport, Executor, run_conformance
from .options import ACCEPTED, REJECTED

if TYPE_CHECKING:
    from ..system_tests.run import SystemTestReport


def conformance(args: argparse.Namespace) -> int:
    """Run the tests that the options name and print the counts; the exit status."""
    if args.st is None and (not args.paths or args.only is not None or args.python is not None):
        raise ArgumentError(
            "conformance: got no PATH, or an option of --st alone",
            allowed="PATH... of vectors, or --st DIR with --only, --python",
        )
    outcome = _vectors(args) if args.st is None else _system_tests(args)
    print(outcome.summary())
    if args.json:
        write_text(args.json, outcome.to_json() + "\n")
    return ACCEPTED if outcome.ok else REJECTED


def _system_tests(args: argparse.Namespace) -> SystemTestReport:
    from ..system_tests.run import executor, run_system_tests

    if args.paths:
        raise ArgumentError(f"conformance --st: got also {args.paths[0]}", allowed="one folder, after --st")
    return run_system_tests(args.st, executor(args.executor), only=args.only, python=args.python)


def _vectors(args: argparse.Namespace) -> ConformanceReport:
    target = profile(args.profile)
    execute: Executor
    together: BatchExecutor | None = None
    if args.executor == "engine":
        from ..vectors.conformance import run_case_engine, run_cases_engine

        execute = partial(run_case_engine, profile=target)
        together = partial(run_cases_engine, profile=target)
    else:
        from ..vectors.conformance import run_case_oracle

        execute = partial(run_case_oracle, profile=target)
    options = {"profile": args.profile, "executor": args.executor}
    return run_conformance(args.paths, execute, options, together)
