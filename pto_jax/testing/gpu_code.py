"""What would a GPU compute? Code for one, generated, read and executed where there is none.

``python -m pto_jax.testing.gpu_code [--only NAME...] [--target NAME...] [--sample N] [--examples]
[--json FILE]`` compiles one legal operation per declaration, type row and profile, batched and in exact
numerics, and some programs of several, for the devices of :mod:`pto_jax.testing.gpu_target`. It fails on
code that flushes, contracts or approximates where bits are promised, and on more launches or scratch memory
than :mod:`pto_jax.testing.gpu_limits` has. Then it executes the kernels' code on this machine, thread by
thread, and compares every lane with the interpreter bit for bit. Exit status: 0 as promised, 1 something is
not, 2 wrong use or no compiler for GPUs here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cached_property, partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError
from . import gpu_target

if TYPE_CHECKING:
    from ..isa.samples.operations import Sample
    from ..profiles import Profile
    from .gpu_examples import ExampleCode
    from .gpu_findings import Finding

SHOWN = 40
#: Operations that a process takes at a time: profiles of one instruction often share their code.
CHUNK = 8


class _Worker:
    """A process that compiles: its operations, and a compiler per target."""

    def __init__(self, names: Sequence[str]) -> None:
        folder = gpu_target.prepare()
        self._names = names
        self.compilers = {n: gpu_target.Compiler(t, folder) for n, t in gpu_target.TARGETS.items()}

    @cached_property
    def samples(self) -> list[tuple[Sample, Profile]]:
        """The legal operations of the instructions, each with a profile."""
        from .device_check import samples

        return list(samples(self._names))


_worker: _Worker | None = None


def _start(names: Sequence[str]) -> None:
    global _worker
    _worker = _Worker(names)


def _examine_chains(targets: Sequence[str], seed: int) -> list[Finding]:
    from .gpu_chains import chains
    from .gpu_findings import examine_chain

    assert _worker is not None
    return [examine_chain(t, _worker.compilers[t], chain) for t in targets for chain in chains(seed)]


def _examine_example(targets: Sequence[str], name: str) -> list[ExampleCode]:
    from .gpu_examples import examine

    assert _worker is not None
    return [examine(t, _worker.compilers[t], name) for t in targets]


def _examine(places: Sequence[int], targets: Sequence[str], seed: int) -> list[Finding]:
    from .gpu_findings import examine

    assert _worker is not None
    chosen = ((t, *_worker.samples[i]) for t in targets for i in places)
    return [examine(t, _worker.compilers[t], sample, profile, seed) for t, sample, profile in chosen]


def run(
    names: Sequence[str], targets: Sequence[str], seed: int = 0, sample: int | None = None, jobs: int = 1
) -> list[Finding]:
    """The findings of instructions, by default all; ``sample`` takes so many operations, evenly spread."""
    from .device_check import samples

    count = len(list(samples(names)))
    wanted = min(count, sample or count)
    places = sorted({i * count // wanted for i in range(wanted)}) if wanted else []
    chunks = [places[i : i + CHUNK] for i in range(0, len(places), CHUNK)]
    findings: list[Finding] = []
    # XLA reads its flags when it is loaded: a new process for each.
    with ProcessPoolExecutor(jobs, get_context("spawn"), _start, (names,)) as pool:
        waiting = [pool.submit(_examine_chains, targets, seed)] if not names else []
        waiting += [pool.submit(_examine, chunk, targets, seed) for chunk in chunks]
        for done, future in enumerate(waiting, 1):
            findings += future.result()
            if sys.stderr.isatty():
                print(f"\r{done} of {len(waiting)} parts", end="", file=sys.stderr)
    return findings


def run_examples(targets: Sequence[str], jobs: int = 1) -> list[ExampleCode]:
    """What the shipped examples launch and need."""
    from ..examples import EXAMPLES

    with ProcessPoolExecutor(jobs, get_context("spawn"), _start, ((),)) as pool:
        return [code for found in pool.map(partial(_examine_example, targets), EXAMPLES) for code in found]


def summary(findings: Sequence[Finding]) -> Iterator[str]:
    """What the findings say, line by line."""
    for target in dict.fromkeys(f.target for f in findings):
        own = [f for f in findings if f.target == target]
        executed = Counter(f.executed.split(":")[0] for f in own)
        names = {k: len({f.instruction for f in own if f.executed.startswith(k)}) for k in executed}
        lanes = sum(f.lanes for f in own)
        yield (
            f"{target}: {len(own)} operations of {len({f.instruction for f in own})} instructions; executed "
            f"here: {executed['equal']} equal ({names.get('equal', 0)} instructions, {lanes} lanes), "
            f"{executed['differs']} differ, {executed['refused']} not executable"
        )
        reasons = Counter(
            f.executed.removeprefix("refused: ") for f in own if f.executed.startswith("refused")
        )
        yield from (f"  not executable here, {reason}: {n}" for reason, n in reasons.most_common(8))
        several = Counter(f.launches for f in own)
        yield f"  launches per call: {', '.join(f'{k}: {n}' for k, n in sorted(several.items()))}"
    wrong = [(f.where, problem) for f in findings for problem in f.problems]
    yield from (f"WRONG {where}: {problem}" for where, problem in wrong[:SHOWN])
    if len(wrong) > SHOWN:
        yield f"... and {len(wrong) - SHOWN} more"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pto_jax.testing.gpu_code",
        description="Generate code for GPUs, without one, and check what it would compute.",
    )
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="only these instructions")
    parser.add_argument("--target", nargs="+", default=tuple(gpu_target.TARGETS), choices=gpu_target.TARGETS)
    parser.add_argument("--sample", type=int, metavar="N", help="only N operations, always the same ones")
    parser.add_argument("--examples", action="store_true", help="the shipped examples too")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the operands (default: 0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: one per core)"
    )
    parser.add_argument("--json", metavar="FILE", help="write all findings to a file")
    return parser


def _checked(args: Any) -> None:
    from .. import isa
    from .differential import computes

    names = [name for name, i in isa.instructions().items() if computes(i)]
    for name in args.only:
        if name not in names:
            raise ArgumentError(f"--only {name}: found no such instruction; known: {', '.join(names)}")
    if args.seed < 0 or args.jobs < 1 or (args.sample is not None and args.sample < 1):
        raise ArgumentError(
            f"--seed {args.seed} --jobs {args.jobs} --sample {args.sample}: must not be negative or 0"
        )
    lacking = gpu_target.missing()
    if lacking is not None:
        raise ArgumentError(lacking)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks and return the exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    # Nothing here executes on a GPU; a plugin without a device is noisy.
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        _checked(args)
    except ArgumentError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    started = time.monotonic()
    findings = run(args.only, args.target, args.seed, args.sample, args.jobs)
    examples = run_examples(args.target, args.jobs) if args.examples else []
    above = (f"WRONG {e.name} [{e.target}]: {p}" for e in examples for p in e.problems)
    print("\n".join([*summary(findings), *map(str, examples), *above]))
    everything: list[Finding | ExampleCode] = [*findings, *examples]
    wrong = sum(len(f.problems) for f in everything)
    print(f"FAILED: {wrong} problems" if wrong else "passed", f"({time.monotonic() - started:.0f} s)")
    if args.json:
        from pathlib import Path

        Path(args.json).write_text(json.dumps([asdict(f) for f in everything], indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
