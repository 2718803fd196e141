"""Definedness checked without its rules: programs run with different fills of everything undefined.

What differs between two fills depends on undefined data, so the shadow has to say so.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pto_jax import oracle
from pto_jax.cases.targets import interpreter_arguments
from pto_jax.errors import ExecutionError, NotExecutableError
from pto_jax.generate.programs import Case
from pto_jax.interpreter import Execution
from pto_jax.ir import Op, TileType
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.oracle.step import Policy, Step
from pto_jax.oracle.storage import Buffer, Place
from pto_jax.sanitizer.machine import Contents, ShadowMachine
from pto_jax.sanitizer.step import ShadowStep

Array = NDArray[Any]
#: Bytes of a number of undefined ones.
Fill = Callable[[int], Array]


#: Where what is undefined decides what else happens, and a shadow of one execution says nothing of others.
STEERED = frozenset("tgetval load_scalar hashfind tconcat tscatter mscatter".split())


def fills(seed: int) -> list[Fill]:
    rng = np.random.default_rng(seed)
    return [
        lambda n: np.zeros(n, np.uint8),
        lambda n: np.full(n, 0xFF, np.uint8),
        lambda n: rng.integers(0, 256, n, np.uint8),
        lambda n: rng.integers(0, 256, n, np.uint8),
    ]


class Spoiler:
    """Chooses undefined lanes among the arguments of a program, the same for every run of it."""

    def __init__(self, seed: int, share: float) -> None:
        self.seed, self.share = seed, share

    def bits(self, name: str, words: Array) -> Array:
        """Undefined bits of an argument."""
        rng = np.random.default_rng([self.seed, *name.encode()])
        pick = rng.random()
        lanes = rng.random(words.shape) < (0.05 if pick < self.share / 2 else 1.0 / max(1, words.size))
        return np.where(lanes & (pick < self.share), np.invert(np.zeros_like(words)), np.zeros_like(words))


@dataclass(eq=False)
class _Filled(Buffer):
    make: Fill = field(default=lambda n: np.zeros(n, np.uint8))

    def reserve(self, size: int) -> None:
        have = len(self.bytes)
        super().reserve(size)
        if size > have:
            self.bytes[have:] = self.make(size - have)


@dataclass(frozen=True)
class _FilledStep(Step):
    make: Fill = field(kw_only=True)

    def gather(self, name: str, rows: Array, cols: Array) -> Array:
        words = super().gather(name, rows, cols)
        v_row, v_col = self.valid(name)
        inside = np.broadcast_to((rows < v_row) & (cols < v_col), words.shape)
        if inside.all():
            return words
        other = self.make(words.nbytes).view(words.dtype).reshape(words.shape)
        return np.where(inside, words, other & 15 if self.dtype(name).packed else other)


class FilledMachine(ReferenceMachine):
    """The interpreter with other contents of everything that is undefined."""

    def __init__(
        self, policy: Policy, buffers: Mapping[str, Array], steps: int, make: Fill, spoiler: Spoiler
    ) -> None:
        super().__init__(policy, buffers, steps)
        self.make, self.spoiler = make, spoiler
        self.made: list[Buffer] = []
        for name, memory in buffers.items():
            memory[:] = self._other(name, memory)

    def _other(self, name: str, words: Array) -> Array:
        bits = self.spoiler.bits(name, words)
        other = self.make(words.nbytes).view(words.dtype).reshape(words.shape)
        return np.asarray(words & ~bits | other & bits)

    def receive(self, op: Op | None, name: str, type: TileType, contents: Any) -> Place:
        if op is None:
            contents = self._other(name, contents)
            contents = contents & 15 if type.dtype.packed else contents
        return super().receive(op, name, type, contents)

    def buffer(self) -> Buffer:
        self.made.append(_Filled(0, make=self.make))
        return self.made[-1]

    def step(self, execution: Execution) -> Step:
        s = super().step(execution)
        return _FilledStep(s.policy, s.op, s.operands, s.attrs, s.form, s.memory, s.made, make=self.make)


@dataclass(frozen=True)
class _Recorded(Step):
    writes: list[tuple[str, Array]] = field(kw_only=True)

    def scatter(self, words: Array, positions: Array, name: str = "dst") -> None:
        super().scatter(words, positions, name)
        self.writes.append((name, positions))


class CheckedMachine(ShadowMachine):
    """The sanitizer's machine; ``wrong`` names instructions whose shadow is written elsewhere than their
    data."""

    def __init__(self, policy: Policy, buffers: Mapping[str, Array], steps: int, spoiler: Spoiler) -> None:
        super().__init__(policy, buffers, steps)
        self.spoiler = spoiler
        self.made: list[Any] = []
        for name, memory in buffers.items():
            self.memory[name].bits = spoiler.bits(name, memory)
        self.wrong: list[str] = []
        self.shadow_writes: list[tuple[str, Array, Array]] = []

    def buffer(self) -> Any:
        self.made.append(super().buffer())
        return self.made[-1]

    def receive(self, op: Op | None, name: str, type: TileType, contents: Any) -> Place:
        if op is not None:
            return super().receive(op, name, type, contents)
        bits = self.spoiler.bits(name, contents)
        bits = bits & 15 if type.dtype.packed else bits
        return super().receive(op, name, type, Contents(contents, bits, (bits != 0).astype(np.int32)))

    def wrote(self, step: ShadowStep, name: str, positions: Array, origin_ids: Array) -> None:
        at, lanes = np.broadcast_arrays(positions, origin_ids)
        self.shadow_writes.append((name, at, lanes))

    def compute(self, execution: Execution, step: Step) -> None:
        self.shadow_writes.clear()
        s, writes = step, list[tuple[str, Array]]()
        recorded = _Recorded(s.policy, s.op, s.operands, s.attrs, s.form, s.memory, s.made, writes=writes)
        super().compute(execution, recorded)
        if execution.instruction.name == "tprefetch":
            return
        data = {(name, int(p)) for name, positions in writes for p in positions.flat}
        shadow = {(n, int(p)) for n, positions, _ in self.shadow_writes for p in positions.flat}
        lost = {(n, int(p)) for n, positions, c in self.shadow_writes for p in positions[c != 0].flat}
        # A load without a pad value clears lanes on the simulator, which makes none of them defined.
        missing = set() if execution.instruction.name == "tload" else data - shadow
        if missing or shadow - data - lost:
            more = f"{len(missing)} of {len(data)} without a shadow, {len(shadow - data - lost)} too many"
            self.wrong.append(f"{execution.instruction.name} ({self.policy.profile.name}): {more}")


@dataclass
class Report:
    """What the fills of some programs showed."""

    kinds: Counter[str] = field(default_factory=Counter)
    #: Undefined bits that the shadow calls defined, and bits it calls undefined that no fill changed.
    missed: list[str] = field(default_factory=list)
    undefined: int = 0
    unchanged: int = 0


def check(case: Case, report: Report, share: float = 0.0) -> None:
    """Run a case with every fill and compare all memory with the shadow.

    A ``share`` of the arguments has undefined lanes from the start.
    """
    machines: list[CheckedMachine] = []
    spoiler = Spoiler(case.index, share)

    def checked(policy: Policy, memory: Mapping[str, Array], steps: int) -> CheckedMachine:
        machines.append(CheckedMachine(policy, memory, steps, spoiler))
        return machines[-1]

    try:
        _run(case, checked)
    except (ExecutionError, NotExecutableError):
        report.kinds["refused"] += 1
        return
    machine = machines[0]
    report.missed += [f"{case.index}: {text}" for text in machine.wrong]
    if any(f.op is not None and f.op.name in STEERED for f in machine.findings):
        report.kinds["steered by undefined data"] += 1
        return
    images = [_image(case, make, spoiler) for make in fills(case.index)]
    shadow = [b.shadow.bits for b in machine.made] + [s.bits for s in machine.memory.values()]
    report.kinds["undefined" if any(b.any() for b in shadow) else "defined"] += 1
    for n, bits in enumerate(shadow):
        changed = np.zeros_like(bits)
        for image in images[1:]:
            changed |= image[n] ^ images[0][n]
        report.undefined += int(np.unpackbits(bits).sum())
        report.unchanged += int(np.unpackbits(bits & ~changed).sum())
        if (changed & ~bits).any():
            names = " ".join(sorted({op.name for op in case.program.walk() if op.name.startswith("t")}))
            report.missed.append(f"{case.index} ({case.profile.name}): memory {n} of {len(shadow)}: {names}")


def _run(case: Case, machine: Callable[..., ReferenceMachine]) -> None:
    oracle.run(
        case.program,
        interpreter_arguments(case),
        profile=case.profile,
        entry=case.entry,
        grid=case.grid,
        partial_launch=True,
        machine=machine,
    )


def _image(case: Case, make: Fill, spoiler: Spoiler) -> list[Array]:
    """All memory at the end, tiles first."""
    made: list[FilledMachine] = []

    def filled(policy: Policy, memory: Mapping[str, Array], steps: int) -> FilledMachine:
        made.append(FilledMachine(policy, memory, steps, make, spoiler))
        return made[-1]

    _run(case, filled)
    return [b.bytes for b in made[0].made] + list(made[0].buffers.values())
