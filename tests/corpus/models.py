"""Executes the model kernels of a checkout on generated inputs and says what became of each.

Every kernel has a process of its own, with a time limit and a limit of its memory; the processes are copies
of one that has imported the package, so that times hold everything but the imports. Run as

    PTO_CORPUS=CHECKOUT python -m tests.corpus.models [--every N] [--first K] [--only TEXT] [--seconds S]
"""

import argparse
import multiprocessing
import os
import resource
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import numpy as np

from pto_jax import isa
from pto_jax.campaign.fuzz.executor_cases import Programs
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Run, for_engine, of_engine
from pto_jax.devices.machines import machine
from pto_jax.errors import ExecutionError, NotExecutableError, PtoError
from pto_jax.generate.programs import Case
from pto_jax.ir import Op
from pto_jax.runtime.kernel import compile as compile_kernel
from pto_jax.runtime.state import Report
from tests.corpus.language import SAMPLES

#: Folders of samples that hold kernels of models.
FOLDERS = ("Deepseek*", "Qwen*")
#: Time and memory of one kernel, and how often inputs are drawn for it.
SECONDS, GIB, ATTEMPTS = 120.0, 10.0, 20

#: ``communication``: talks to other ranks; ``rejected``: not read or not verified; ``stopped``: every input
#: that was drawn breaks a rule at run time.
Kind = Literal[
    "equal", "communication", "rejected", "refused", "stopped", "different", "crashed", "time-out", "died"
]


@dataclass(frozen=True)
class Row:
    """What became of a kernel.

    Times in seconds: ``text`` for reading and verifying, ``jit`` for tracing, compiling and the first
    execution, ``cpu`` for the processor's share of both, ``oracle`` for the interpreter's; ``attempt`` is the
    number of the inputs, from 0.
    """

    name: str
    kind: Kind
    message: str = ""
    text: float = 0.0
    jit: float = 0.0
    cpu: float = 0.0
    oracle: float = 0.0
    attempt: int = 0

    @property
    def first_result(self) -> float:
        """Seconds from text to the first jitted result."""
        return self.text + self.jit


class _Jitted:
    """The engine as a user calls it: compiled, without a report on run-time rules."""

    name = "jit"
    seconds = cpu = 0.0

    def run(self, case: Case) -> Run:
        """The results of a case; the seconds of tracing, compiling and executing are kept."""
        arguments = {name: for_engine(i) for name, i in case.inputs.items()}
        start, used = time.monotonic(), time.process_time()
        kernel = compile_kernel(
            case.program, case.profile, case.entry, grid=case.grid, warn=False, partial_launch=True
        )
        outputs = {name: np.asarray(x) for name, x in kernel(**arguments).items()}
        self.seconds, self.cpu = time.monotonic() - start, time.process_time() - used
        return of_engine(case, outputs, Report((), ()))


class _Known:
    """A machine whose results are there already."""

    def __init__(self, name: str, result: Run) -> None:
        self.name, self.result = name, result

    def run(self, case: Case) -> Run:
        """The results."""
        return self.result


def files(checkout: Path) -> list[Path]:
    """The model kernels of a checkout, the short ones first."""
    root = checkout / SAMPLES
    found = [p for folder in FOLDERS for p in root.glob(f"{folder}/**/*.pto")]
    return sorted(found, key=lambda p: (p.stat().st_size, p))


def execute(path: Path, name: str) -> Row:
    """Execute one kernel in this process."""
    start, used = time.monotonic(), time.process_time()
    try:
        programs = Programs.of(Plan(seed=1, programs=(str(path),), tested="jit"))
    except PtoError as error:
        if "signals of other processors" in str(error):
            return Row(name, "communication")
        return Row(name, "rejected", str(error).splitlines()[-1])
    text, cpu = time.monotonic() - start, time.process_time() - used
    if any(map(_communicates, (op for s in programs.subjects for op in s.program.walk()))):
        return Row(name, "communication")
    rows = [_subject(programs, i, name) for i in range(len(programs.subjects))]
    row = next((r for r in rows if r.kind != "equal"), max(rows, key=lambda r: r.jit))
    return replace(row, text=text, cpu=row.cpu + cpu)


def _communicates(op: Op) -> bool:
    """Whether an operation is one of the page on communication between ranks."""
    instruction = isa.find(op.name)
    return instruction is not None and instruction.cls.startswith("communication")


def _subject(programs: Programs, index: int, name: str) -> Row:
    reference, tested = machine("oracle"), _Jitted()
    message = ""
    for attempt in range(ATTEMPTS):
        case, start = programs.case(index, attempt), time.monotonic()
        try:
            expected = reference.run(case)
        except NotExecutableError as error:
            return Row(name, "refused", str(error).splitlines()[0], attempt=attempt)
        except ExecutionError as error:
            message = message or str(error).splitlines()[0]
            continue
        seconds = time.monotonic() - start
        found = compare_case(case, _Known(reference.name, expected), tested)
        first = (found.message.splitlines() or [""])[0]
        return Row(name, found.kind, first, 0.0, tested.seconds, tested.cpu, seconds, attempt)
    return Row(name, "stopped", message, attempt=ATTEMPTS)


def _child(path: Path, name: str, gib: float, out: Connection) -> None:
    size = int(gib * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        row = execute(path, name)
    except Exception as error:
        # Whatever a kernel raises is its result.
        row = Row(name, "crashed", f"{type(error).__name__}: {error}".splitlines()[0])
    out.send(row)
    out.close()


def measure(paths: Sequence[Path], root: Path, seconds: float = SECONDS, gib: float = GIB) -> Iterator[Row]:
    """The row of each kernel, one process at a time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.corpus.language", "pto_jax.cases.targets"])
    for path in paths:
        name = str(path.relative_to(root))
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(path, name, gib, send))
        process.start()
        send.close()
        try:
            yield receive.recv() if receive.poll(seconds) else Row(name, "time-out", f"{seconds:.0f} s")
        except EOFError:
            process.join()
            yield Row(name, "died", f"exit status {process.exitcode}")
        process.kill()
        process.join()


def summary(rows: Sequence[Row]) -> str:
    """The table of counts, messages by frequency, and times."""
    kinds = Counter(r.kind for r in rows)
    lines = [", ".join(f"{n} {kind}" for kind, n in kinds.most_common()) + f" of {len(rows)}"]
    messages = Counter((r.kind, _general(r.message)) for r in rows if r.kind != "equal")
    lines += [f"{n:5} {kind}: {message}" for (kind, message), n in messages.most_common()]
    timed = [r for r in rows if r.jit]
    if timed:
        longest = max(timed, key=lambda r: r.first_result)
        median, cpu = (
            statistics.median(x) for x in zip(*((r.first_result, r.cpu) for r in timed), strict=True)
        )
        found = f"median {median:.1f} s ({cpu:.1f} s of processor), longest {longest.first_result:.1f} s"
        lines.append(f"text to first result: {found} ({longest.cpu:.1f} s of processor): {longest.name}")
    return "\n".join(lines)


def _general(message: str) -> str:
    """A message without its place."""
    return message.split(" error: ", 1)[-1][:100]


def main() -> None:
    """Measure the kernels that the command line chooses and print the table."""
    parser = argparse.ArgumentParser(description="Execute the model kernels of a checkout.")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth kernel only")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="begin with kernel K")
    parser.add_argument("--only", default="", metavar="TEXT", help="kernels with a text in their path")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    args = parser.parse_args()
    checkout = Path(os.environ["PTO_CORPUS"])
    chosen = [p for p in files(checkout) if args.only in str(p)][args.first :: args.every]
    rows: list[Row] = []
    for row in measure(chosen, checkout / SAMPLES, args.seconds):
        rows.append(row)
        times = f"{row.text:5.1f} {row.jit:6.1f} {row.cpu:6.1f} {row.oracle:6.1f} {row.attempt:2}"
        print(f"{row.kind:13} {times} {row.name}  {row.message}", flush=True)
    print(summary(rows))


if __name__ == "__main__":
    main()
