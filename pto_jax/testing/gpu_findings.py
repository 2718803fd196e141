"""What the code of one operation for a GPU shows, and what of it is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ..isa.samples.operations import Sample
from ..profiles import Profile
from .differential import BATCH, Case, arguments, differing, label, make_case
from .gpu_chains import Chain
from .gpu_execution import Execution
from .gpu_limits import allowed, launches, scratch
from .gpu_program import read
from .gpu_target import Code, Compiler
from .gpu_translation import Refused

#: PTX that changes bits: what it is, and how it is written.
MARKS = {
    "flush": re.compile(r"\b[a-z][\w.]*\.ftz\b[\w.]*"),
    "approximation": re.compile(r"\b(?:div\.full|[a-z]\w*\.approx)[\w.]*"),
    "contraction": re.compile(r"\bfma\.[\w.]*"),
    "matrix unit": re.compile(r"\b(?:wg)?mma\.[\w.]*"),
}
#: By how many units the coarse reciprocal of a GPU may be off in the last of its 20 places, as executed here.
COARSE = (0, -1, 1)


@dataclass
class Finding:
    """One operation on one target. ``executed`` is "equal", "differs" or why it is "refused"."""

    operation: str
    instruction: str
    profile: str
    target: str
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
    def where(self) -> str:
        """Operation, profile and target as one text."""
        return f"{self.operation} [{self.profile}, {self.target}]"


def examine(name: str, compiler: Compiler, sample: Sample, profile: Profile, seed: int) -> Finding:
    """Compile an operation for a target, judge its code and execute it. An exception is a problem too."""
    finding = Finding(label(sample), sample.instruction.name, profile.name, name)
    return _examined(finding, compiler, lambda: make_case(sample, profile, seed))


def examine_chain(name: str, compiler: Compiler, chain: Chain) -> Finding:
    """:func:`examine` of a program of several instructions."""
    return _examined(Finding(chain.label, "chain", chain.profile.name, name), compiler, lambda: chain)


def _examined(finding: Finding, compiler: Compiler, make: Callable[[], Case | Chain]) -> Finding:
    try:
        case = make()
        given = arguments(case.given)
        leaves, structure = jax.tree.flatten(given)
        code = compiler.compile(_function(case, structure), leaves)
        _judge(finding, code)
        _execute(finding, case, code, [np.asarray(leaf) for leaf in leaves])
    except Exception as error:
        # One operation that cannot be compiled must not hide the others.
        text = str(error).splitlines()
        finding.problems.append(f"{type(error).__name__}: {text[0] if text else ''}")
    return finding


def _names(case: Case | Chain) -> list[str]:
    return list(case.kernel.outputs)


def _function(case: Case | Chain, structure: Any) -> Callable[..., list[Any]]:
    """The batched operation as a function of flat arrays that gives the words of every result."""

    def words(tiles: Mapping[str, Any]) -> list[Any]:
        results = case.kernel(**tiles)
        return [getattr(results[n], "words", results[n]) for n in _names(case)]

    return lambda *leaves: jax.vmap(words)(jax.tree.unflatten(structure, leaves))


def _judge(finding: Finding, code: Code) -> None:
    """What the code launches, keeps and approximates, against what is promised."""
    program = read(code.hlo)
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


def _execute(finding: Finding, case: Case | Chain, code: Code, leaves: Sequence[NDArray[Any]]) -> None:
    """Execute the code here and compare every lane with the interpreter."""
    try:
        execution = Execution(read(code.hlo), code.llvm)
        for coarse in COARSE if execution.host.is_coarse else COARSE[:1]:
            _compare(finding, case, execution.run(leaves, coarse))
    except Refused as refusal:
        finding.executed = f"refused: {refusal}"
        return
    finding.executed = "differs" if finding.different else "equal"
    if finding.different:
        finding.problems.append(f"bits: {finding.different} of {finding.lanes} lanes differ")


def _compare(finding: Finding, case: Case | Chain, results: Sequence[NDArray[np.uint8]]) -> None:
    for index in range(BATCH):
        reference = case.reference(index)
        for name, result in zip(_names(case), results, strict=True):
            wanted, d = reference[name], case.dtype(name)
            got = result.view(d.word).reshape(BATCH, *wanted.shape)[index]
            bad = differing(d, got, wanted, case.ulp(name))
            finding.lanes += bad.size
            finding.different += int(bad.sum())
            finding.nan_bits += int(((got != wanted) & ~bad).sum()) if not case.ulp(name) else 0
