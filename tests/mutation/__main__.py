"""Prints what the campaign makes of every mutant, or chooses its cases."""

import argparse
import sys
import time

import jax

from tests.mutation.campaign import campaign, select, verdict
from tests.mutation.mutants import table


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutants of the lowering against the campaign.")
    parser.add_argument("--select", action="store_true", help="choose the cases from the pool (minutes)")
    parser.add_argument("--only", default="", help="mutants with this in their name")
    given = parser.parse_args()
    # A kernel that is kept there was lowered by the code as it is.
    jax.config.update("jax_enable_compilation_cache", False)  # type: ignore[no-untyped-call]
    start = time.process_time()
    if given.select:
        verdicts = select()
    else:
        entries = campaign()
        ready = time.process_time() - start
        print(f"{len(entries)} cases, {ready:.1f} s for the engine as it is", flush=True)
        verdicts = []
        for mutant in (m for m in table() if given.only in str(m)):
            verdicts.append(verdict(mutant, entries))
            print(verdicts[-1], flush=True)
    alive = sum(v.entry is None for v in verdicts)
    print(f"{len(verdicts) - alive} mutants killed, {alive} survive, {time.process_time() - start:.1f} s")
    return int(any(v.entry is None and not v.mutant.survives for v in verdicts))


if __name__ == "__main__":
    sys.exit(main())
