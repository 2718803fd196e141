"""Generated cases on the engine and on the reference interpreter, and where they differ.

>>> from pto_jax.testing.generate import generate
>>> run_case(generate(1, 0)).kind
'equal'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray

from .. import engine, oracle
from ..arrays import x64
from ..dtypes import DType
from ..errors import ExecutionError, NotExecutableError
from ..tiles import Tile
from ..types import PartitionViewType, ScalarType, TensorViewType, TileType, VectorType
from .compare import is_nan, ulp_distance
from .generate import Case
from .generate_state import Input
from .interpret_trace import run_traced

#: ``eager``: operation by operation; ``trace``: the program traced as a whole, executed without compiling
#: it; ``jit``: compiled.
Mode = Literal["eager", "trace", "jit"]
#: ``refused``: the program needs what this version does not execute; ``stopped``: a run-time rule was found
#: broken, and results that there are agree; ``different``: the machines do not agree; ``crashed``: one of
#: them raised something else.
Kind = Literal["equal", "refused", "stopped", "different", "crashed"]
Results: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What became of one case; the message says what was found, with the first element that differs."""

    kind: Kind
    mode: Mode
    case: Case
    message: str = ""
    output: str = ""

    @property
    def is_failure(self) -> bool:
        return self.kind in ("different", "crashed")

    def __str__(self) -> str:
        c = self.case
        inputs = "\n".join(
            f"{name} {i.type}{'' if i.valid is None else f' valid {i.valid}'}: "
            f"{' '.join(f'{int(w):x}' for w in i.words.reshape(-1)[:8])} ..."
            for name, i in c.inputs.items()
        )
        head = f"case {c.id} (seed {c.seed}, index {c.index}), {c.profile.name}, {self.mode}: {self.kind}"
        return f"{head}\n{self.message}\n{c.program}\n{inputs}"


@dataclass
class Tally:
    """Counts of a campaign."""

    kinds: Counter[str] = field(default_factory=Counter)
    instructions: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.kinds[f"{outcome.mode} {outcome.kind}"] += 1
        self.instructions.update(op.name for op in outcome.case.program.walk())


def run_cases(
    cases: Iterable[Case], mode: Callable[[Case], Mode] = lambda case: "eager", tally: Tally | None = None
) -> Iterator[Outcome]:
    """The failures among some cases."""
    for case in cases:
        outcome = run_case(case, mode(case))
        if tally is not None:
            tally.add(outcome)
        if outcome.is_failure:
            yield outcome


def run_case(case: Case, mode: Mode = "eager") -> Outcome:
    """One case on both machines."""
    wanted, stop = _attempt(lambda: _reference(case))
    broken: list[str] = []
    found, halt = _attempt(lambda: _engine(case, mode, broken))
    refused = next((e for e in (stop, halt) if isinstance(e, NotExecutableError)), None)
    if refused is not None:
        return Outcome("refused", mode, case, str(refused))
    if isinstance(stop, ExecutionError) or isinstance(halt, ExecutionError):
        both = isinstance(stop, ExecutionError) and (isinstance(halt, ExecutionError) or bool(broken))
        message = f"interpreter: {stop}; engine: {halt or broken}"
        return Outcome("stopped" if both else "different", mode, case, message)
    if stop or halt:
        who = "interpreter" if stop else "engine"
        return Outcome("crashed", mode, case, f"{who}: {type(stop or halt).__name__}: {stop or halt}")
    assert wanted is not None and found is not None
    for name, value in wanted.items():
        message = _difference(case, name, found.get(name), value)
        if message:
            return Outcome("different", mode, case, "; ".join([f"{name}: {message}", *broken]), name)
    return Outcome("stopped" if broken else "equal", mode, case, "; ".join(broken))


def _attempt(run: Callable[[], Results]) -> tuple[Results | None, Exception | None]:
    try:
        return run(), None
    except Exception as error:
        # Any exception is a finding about the machine that raised it.
        return None, error


def _reference(case: Case) -> Results:
    given = {name: _for_interpreter(i) for name, i in case.inputs.items()}
    entry = None if case.program.fragment else "main"
    return oracle.run(case.program, given, profile=case.profile, entry=entry, grid=case.grid)


def _for_interpreter(i: Input) -> Any:
    if isinstance(i.type, TileType):
        return oracle.OracleTile(i.type, i.words.copy(), *(i.valid or (None, None)))
    d = i.type.dtype
    return i.words.view(np.bool_ if d.name == "i1" else d.numpy)


def _engine(case: Case, mode: Mode, broken: list[str]) -> Results:
    entry = None if case.program.fragment else "main"
    kernel = engine.compile(case.program, case.profile, entry, checks=True, grid=case.grid)
    given = {name: _for_engine(i) for name, i in case.inputs.items()}
    if mode == "eager":
        outputs, report, _ = kernel._run((), given, jit=False)
    elif mode == "trace":
        outputs, report = run_traced(kernel, given)
    else:
        outputs, report = kernel(**given)
    broken += [str(d) for d in report.problems()]
    found: Results = outputs
    return found


def _for_engine(i: Input) -> Any:
    d = i.type.dtype
    with x64():
        if isinstance(i.type, TileType):
            sizes = (None, None) if i.valid is None else (jax.device_put(np.int32(n)) for n in i.valid)
            rows, cols = sizes
            return Tile(jax.device_put(i.words), rows, cols, i.type)
        if isinstance(i.type, PartitionViewType | TensorViewType) and d.packed:
            return i.words[..., 0::2] | i.words[..., 1::2] << np.uint8(4)
        if isinstance(i.type, ScalarType) and d.name == "i1":
            return bool(i.words)
        if isinstance(i.type, VectorType | PartitionViewType | TensorViewType) or d.kind == "index":
            return i.words.view(d.numpy)
        return i.words


def _difference(case: Case, name: str, found: Any, wanted: Any) -> str:
    """What differs between two results, or nothing."""
    if found is None:
        return "no such output of the engine"
    if isinstance(wanted, oracle.OracleTile):
        sizes = (int(found.valid_rows), int(found.valid_cols))
        if sizes != wanted.valid:
            return f"valid region {sizes}, interpreter: {wanted.valid}"
        d = wanted.type.dtype
        return _words_differ(d, np.asarray(found.words), wanted.data.view(d.word), case.ulp.get(name, 0))
    t = next(a.type for f in case.program.functions for a in f.args if a.name == name)
    assert isinstance(t, PartitionViewType | TensorViewType | VectorType)
    d = t.dtype
    got, want = np.asarray(found), np.asarray(wanted)
    if d.packed and not isinstance(t, VectorType):
        got = np.stack([got & 15, got >> 4], axis=-1).reshape(want.shape)
    return _words_differ(d, np.ascontiguousarray(got).view(d.word), want.view(d.word), case.ulp.get(name, 0))


def _words_differ(d: DType, got: NDArray[Any], want: NDArray[Any], ulp: int) -> str:
    if got.shape != want.shape:
        return f"shape {got.shape}, interpreter: {want.shape}"
    differs = got != want
    if d.is_float:
        differs &= ~(is_nan(d, got) & is_nan(d, want))
        if ulp:
            differs &= ~(ulp_distance(d, got, want) <= ulp)
    if not differs.any():
        return ""
    at = tuple(int(n) for n in np.argwhere(differs)[0])
    digits = d.bits // 4
    return (
        f"{int(differs.sum())} of {differs.size} elements differ, first {at}: "
        f"0x{int(got[at]):0{digits}x}, interpreter: 0x{int(want[at]):0{digits}x}"
    )
