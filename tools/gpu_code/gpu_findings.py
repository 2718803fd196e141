"""What the code of one operation for a GPU shows, and what of it is wrong."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from pto_jax.errors import brief
from pto_jax.isa.samples.operations import Sample
from pto_jax.profiles import Profile
from pto_jax.testing.differential import (
    BATCH,
    Case,
    arguments,
    batch_of,
    batch_size,
    differing,
    label,
    make_case,
)
from tools.gpu_code import gpu_execution, gpu_program, gpu_target, gpu_translation
from tools.gpu_code.gpu_limits import allowed, launches, scratch

#: PTX that changes bits: what it is, and how it is written.
MARKS = {
    "flush": re.compile(r"\b[a-z][\w.]*\.ftz\b[\w.]*"),
    "approximation": re.compile(r"\b(?:div\.full|[a-z]\w*\.approx)[\w.]*"),
    "contraction": re.compile(r"\bfma\.[\w.]*"),
    "matrix unit": re.compile(r"\b(?:wg)?mma\.[\w.]*"),
}


@dataclass
class Finding:
    """One operation on one target. ``executed`` is "equal", "differs" or why it is "refused".

    ``number`` counts operations of one label and profile. A ``lane_wise`` one computes lanes of equal places.
    """

    operation: str
    instruction: str
    profile: str
    target: str
    number: int = 0
    lane_wise: bool = False
    batch: int = 0
    launches: int = 0
    scratch: int = 0
    arguments: int = 0
    marks: dict[str, int] = field(default_factory=dict)
    executed: str = ""
    lanes: int = 0
    different: int = 0
    nan_bits: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells it from the others."""
        return self.operation, self.profile, self.target, self.number

    @property
    def where(self) -> str:
        """Operation, profile and target as one text."""
        return f"{self.operation} [{self.profile}, {self.target}]"


@dataclass(frozen=True)
class Examiner:
    """Examines operations on a target, on operands of a seed.

    Lane-wise operations get so many lanes in whole tiles. An exception is a problem of its operation.
    """

    target: str
    compiler: gpu_target.Compiler
    executor: gpu_execution.Executor
    seed: int = 0
    lanes: int = 1

    def operation(self, sample: Sample, profile: Profile, number: int) -> Finding:
        """Compile an operation, judge its code and execute it."""
        instruction = sample.instruction
        lane_wise = instruction.lanes == "same"
        finding = Finding(label(sample), instruction.name, profile.name, self.target, number, lane_wise)
        batch = batch_of(self.lanes) if lane_wise else BATCH
        return self._examined(finding, lambda: make_case(sample, profile, self.seed, batch))

    def chain(self, chain: Case) -> Finding:
        """:meth:`operation` of a program of several instructions."""
        return self._examined(Finding(chain.label, "chain", chain.profile.name, self.target), lambda: chain)

    def _examined(self, finding: Finding, make: Callable[[], Case]) -> Finding:
        try:
            case = make()
            operands = arguments(case.given)
            finding.batch = batch_size(case.given)
            leaves, structure = jax.tree.flatten(operands)
            code = self.compiler.compile(_function(case, structure), leaves)
            _judge(finding, code)
            self._execute(finding, case, code, [np.asarray(leaf) for leaf in leaves])
        except Exception as error:
            # One operation that cannot be compiled must not hide the others.
            finding.problems.append(brief(error))
        return finding

    def _execute(
        self, finding: Finding, case: Case, code: gpu_target.Code, leaves: Sequence[NDArray[Any]]
    ) -> None:
        """Execute the code here and compare every lane with the interpreter."""
        try:
            executions = self.executor.results(code, leaves)
        except gpu_translation.Refused as refusal:
            finding.executed = f"refused: {refusal}"
            return
        _compare(finding, case, executions)
        finding.executed = "differs" if finding.different else "equal"
        if finding.different:
            finding.problems.append(f"bits: {finding.different} of {finding.lanes} lanes differ")


def _names(case: Case) -> list[str]:
    return list(case.kernel.outputs)


def _function(case: Case, structure: Any) -> Callable[..., list[Any]]:
    """The batched operation as a function of flat arrays that gives the words of every result."""

    def words(tiles: Mapping[str, Any]) -> list[Any]:
        results = case.kernel(**tiles)
        return [getattr(results[n], "words", results[n]) for n in _names(case)]

    return lambda *leaves: jax.vmap(words)(jax.tree.unflatten(structure, leaves))


def _judge(finding: Finding, code: gpu_target.Code) -> None:
    """What the code launches, keeps and approximates, against what is promised."""
    program = gpu_program.read(code.hlo)
    finding.launches, finding.scratch = program.launches(), code.scratch
    finding.arguments = code.arguments
    for what, pattern in MARKS.items():
        for mark in pattern.findall(code.ptx):
            finding.marks[mark] = finding.marks.get(mark, 0) + 1
            if not allowed(finding.instruction, mark):
                text = f"{what}: {mark}"
                finding.problems += [text] if text not in finding.problems else []
    if finding.launches > launches(finding.instruction):
        finding.problems.append(f"launches: {finding.launches}, allowed {launches(finding.instruction)}")
    if finding.scratch > scratch(finding.instruction) * finding.arguments:
        finding.problems.append(f"scratch: {finding.scratch} bytes for {finding.arguments} of arguments")


def _compare(finding: Finding, case: Case, executions: Sequence[Sequence[NDArray[np.uint8]]]) -> None:
    """Lanes differ that differ in any of the executions."""
    for index in range(finding.batch):
        reference = case.reference(index)
        for place, name in enumerate(_names(case)):
            wanted, d, ulp = reference[name], case.dtype(name), case.ulp(name)
            arrays = (e[place].view(d.word).reshape(finding.batch, *wanted.shape)[index] for e in executions)
            bad, other = np.zeros(wanted.shape, bool), np.zeros(wanted.shape, bool)
            for got in arrays:
                bad |= differing(d, got, wanted, ulp)
                other |= got != wanted
            finding.lanes += bad.size
            finding.different += int(bad.sum())
            finding.nan_bits += int((other & ~bad).sum()) if not ulp else 0
