"""The ``conformance`` command: test vectors on the engine or the interpreter."""

import argparse
from functools import partial

from ..files import write_text
from ..profiles import profile
from ..vectors.conformance import BatchExecutor, Executor, run_conformance
from .options import ACCEPTED, REJECTED


def conformance(args: argparse.Namespace) -> int:
    """Run the vectors that the options name and print the counts; the exit status."""
    target = profile(args.profile)
    execute: Executor
    together: BatchExecutor | None = None
    if args.executor == "engine":
        from ..vectors.execute_engine import run_case_engine, run_cases_engine

        execute = partial(run_case_engine, profile=target)
        together = partial(run_cases_engine, profile=target)
    else:
        from ..vectors.execute import run_case_oracle

        execute = partial(run_case_oracle, profile=target)
    outcome = run_conformance(
        args.paths,
        execute,
        {"profile": args.profile, "executor": args.executor},
        together,
    )
    print(outcome.summary())
    if args.json:
        write_text(args.json, outcome.to_json() + "\n")
    return ACCEPTED if outcome.ok else REJECTED
