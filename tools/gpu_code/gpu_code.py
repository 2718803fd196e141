"""What would a GPU compute? Code for one, generated, read and executed where there is none.

``python -m tools.gpu_code.gpu_code [--only NAME...] [--target NAME...] [--sample N] [--lane-wise]
[--lanes N] [--examples] [--store FILE] [--json FILE]`` compiles one legal operation per declaration, type row
and profile, batched and in exact numerics, and some programs of several, for the devices of
:mod:`tools.gpu_code.gpu_target`. It fails on code that flushes, contracts or approximates where bits are
promised, and on more launches or scratch memory than :mod:`tools.gpu_code.gpu_limits` has. Then it executes
the kernels' code on this machine, thread by thread, and compares every lane with the interpreter bit for bit:
some thousand lanes per operation, of lane-wise ones as many as ``--lanes`` says. ``--store`` keeps what is
known after every few operations; the same command goes on from there. Exit status: 0 as promised, 1 something
is not, 2 wrong use or no compiler for GPUs here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from pto_jax.errors import ArgumentError
from tools.gpu_code import gpu_target

if TYPE_CHECKING:
    from pto_jax.isa.samples.operations import Sample
    from pto_jax.profiles import Profile
    from tools.gpu_code.gpu_examples import ExampleCode
    from tools.gpu_code.gpu_findings import Finding
    from tools.gpu_code.gpu_store import Store

SHOWN = 40
#: Operations that a process takes at a time: profiles of one instruction often share their code.
CHUNK = 8


@dataclass(frozen=True)
class Work:
    """Which operations are examined, and how.

    All or those of some ``instructions``, only the ``lane_wise`` or not, ``sample`` of them, evenly spread;
    on operands of a ``seed``, lane-wise ones on so many ``lanes``.
    """

    instructions: tuple[str, ...] = ()
    targets: tuple[str, ...] = tuple(gpu_target.TARGETS)
    seed: int = 0
    sample: int | None = None
    lane_wise: bool = False
    lanes: int = 1

    @cached_property
    def operations(self) -> list[tuple[Sample, Profile, int]]:
        """Operations, each with its profile and how many of its label came before it under this profile."""
        from pto_jax.testing.device_check import samples
        from pto_jax.testing.differential import label

        seen: Counter[tuple[str, str]] = Counter()
        listed: list[tuple[Sample, Profile, int]] = []
        for sample, profile in samples(self.instructions):
            if self.lane_wise and sample.instruction.lanes != "same":
                continue
            name = label(sample), profile.name
            listed.append((sample, profile, seen[name]))
            seen[name] += 1
        wanted = min(len(listed), self.sample or len(listed))
        return [listed[i] for i in sorted({i * len(listed) // wanted for i in range(wanted)})]

    @property
    def chains(self) -> bool:
        """Whether programs of several instructions belong to it."""
        return not self.instructions and not self.lane_wise


class _Worker:
    """A process that compiles and executes: its work, and what examines it per target."""

    def __init__(self, work: Work) -> None:
        from tools.gpu_code.gpu_execution import Executor
        from tools.gpu_code.gpu_findings import Examiner

        self.work, self._instruction = work, ""
        folder = gpu_target.prepare()
        self.compilers = {n: gpu_target.Compiler(t, folder) for n, t in gpu_target.TARGETS.items()}
        self._executor = Executor()
        self.examiners = {
            t: Examiner(t, self.compilers[t], self._executor, work.seed, work.lanes) for t in work.targets
        }

    def begin(self, instruction: str) -> None:
        """Forget what other instructions needed: nothing of it is shared."""
        if instruction != self._instruction:
            self._instruction = instruction
            self._executor.forget()
            for compiler in self.compilers.values():
                compiler.forget()


_worker: _Worker | None = None


def _start(work: Work) -> None:
    global _worker
    _worker = _Worker(work)


def _examine_chains() -> list[Finding]:
    from tools.gpu_code.gpu_chains import chains

    assert _worker is not None
    return [e.chain(chain) for e in _worker.examiners.values() for chain in chains(_worker.work.seed)]


def _examine_example(name: str) -> list[ExampleCode]:
    from tools.gpu_code.gpu_examples import examine

    assert _worker is not None
    return [examine(t, _worker.compilers[t], name) for t in _worker.work.targets]


def _examine(places: Sequence[int]) -> list[Finding]:
    assert _worker is not None
    findings = []
    for sample, profile, number in (_worker.work.operations[i] for i in places):
        _worker.begin(sample.instruction.name)
        findings += [e.operation(sample, profile, number) for e in _worker.examiners.values()]
    return findings


def run(work: Work, jobs: int = 1, store: Store | None = None) -> list[Finding]:
    """The findings of the work; those that a store has are taken from there, others are added to it."""
    from pto_jax.testing.differential import label

    keys: list[list[tuple[str, str, str, int]]] = [
        [(label(s), p.name, t, number) for t in work.targets] for s, p, number in work.operations
    ]
    known = store.known if store is not None else {}
    places = [i for i, several in enumerate(keys) if not known.keys() >= set(several)]
    listed = {key for several in keys for key in several}
    findings = [f for key, f in known.items() if key in listed or (work.chains and f.instruction == "chain")]
    # XLA reads its flags when it is loaded: a new process for each, whose operations are its own.
    with ProcessPoolExecutor(jobs, get_context("spawn"), _start, (replace(work),)) as pool:
        chains = work.chains and all(f.instruction != "chain" for f in findings)
        waiting = [pool.submit(_examine_chains)] if chains else []
        waiting += [pool.submit(_examine, places[i : i + CHUNK]) for i in range(0, len(places), CHUNK)]
        for done, future in enumerate(as_completed(waiting), 1):
            new = future.result()
            findings += new
            if store is not None:
                store.add(new)
            if sys.stderr.isatty():
                print(f"\r{done} of {len(waiting)} parts", end="", file=sys.stderr)
    order = {key: i for i, key in enumerate(key for several in keys for key in several)}
    return sorted(findings, key=lambda f: order.get(f.key, -1))


def run_examples(targets: Sequence[str], jobs: int = 1) -> list[ExampleCode]:
    """What the shipped examples launch and need."""
    from pto_jax.examples import EXAMPLES

    with ProcessPoolExecutor(jobs, get_context("spawn"), _start, (Work(targets=tuple(targets)),)) as pool:
        return [code for codes in pool.map(_examine_example, EXAMPLES) for code in codes]


def summary(findings: Sequence[Finding]) -> Iterator[str]:
    """What the findings say, line by line."""
    from pto_jax.testing.differential import BATCH, TILE_LANES

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
        lane_wise = [f for f in own if f.lane_wise]
        if lane_wise:
            equal = sum(f.executed == "equal" for f in lane_wise)
            whole = (min(f.batch for f in lane_wise) - BATCH + 1) * TILE_LANES
            yield f"  lane-wise: {equal} of {len(lane_wise)} equal, {whole} lanes of whole tiles each"
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
        prog="python -m tools.gpu_code.gpu_code",
        description="Generate code for GPUs, without one, and check what it would compute.",
    )
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="only these instructions")
    parser.add_argument("--target", nargs="+", default=tuple(gpu_target.TARGETS), choices=gpu_target.TARGETS)
    parser.add_argument("--sample", type=int, metavar="N", help="only N operations, always the same ones")
    parser.add_argument("--lane-wise", action="store_true", help="only lane-wise instructions")
    parser.add_argument(
        "--lanes", type=int, default=1, metavar="N", help="lanes of each lane-wise operation, in whole tiles"
    )
    parser.add_argument("--examples", action="store_true", help="the shipped examples too")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the operands (default: 0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: one per core)"
    )
    parser.add_argument("--store", metavar="FILE", help="keep findings there, and go on from those it has")
    parser.add_argument("--json", metavar="FILE", help="write all findings to a file")
    return parser


def _checked(args: Any) -> None:
    from pto_jax.testing.device_check import check_names

    check_names(args.only)
    if args.seed < 0 or min(args.jobs, args.lanes, 1 if args.sample is None else args.sample) < 1:
        raise ArgumentError(
            f"--seed {args.seed} --jobs {args.jobs} --lanes {args.lanes} --sample {args.sample}: must not be "
            "negative or 0"
        )
    lacking = gpu_target.missing()
    if lacking is not None:
        raise ArgumentError(lacking)


def _store(args: Any) -> Store | None:
    if args.store is None:
        return None
    from importlib.metadata import version

    from tools.gpu_code.gpu_store import Store

    return Store(args.store, {"seed": args.seed, "lanes": args.lanes, "jax": version("jax")})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks and return the exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    # Nothing here executes on a GPU; a plugin without a device is noisy.
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        _checked(args)
        store = _store(args)
    except ArgumentError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    started = time.monotonic()
    work = Work(tuple(args.only), tuple(args.target), args.seed, args.sample, args.lane_wise, args.lanes)
    findings = run(work, args.jobs, store)
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
