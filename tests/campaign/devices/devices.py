"""Devices for campaigns, in a module that worker processes can import."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pto_jax import isa
from pto_jax.cases.targets import Oracle, Run
from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.generate.programs import Case
from pto_jax.oracle.step import Policy
from pto_jax.vectors.exclusions import LeastNans


def declined(reason: str) -> NotExecutableError:
    return NotExecutableError(Diagnostic("error", f"the device declines: {reason}"))


class Declining:
    """Declines whatever it is given."""

    name = "declining"

    def run(self, case: Case) -> Run:
        raise declined(f"case {case.index} is too hard")


class Partial:
    """The interpreter without some instructions, which it does not name; ``sent`` are those it was given."""

    name = "partial"
    lacking = frozenset("tmul tcvt trowsum texp tmatmul tinsert".split())

    def __init__(self) -> None:
        self.sent: list[frozenset[str]] = []

    def run(self, case: Case) -> Run:
        names = frozenset(op.name for op in case.program.walk() if isa.find(op.name) is not None)
        self.sent.append(names)
        if names & self.lacking:
            raise declined("an instruction that is none of mine")
        return Oracle().run(case)


class NoLoops:
    """The interpreter without loops, which it names."""

    name = "no loops"

    def run(self, case: Case) -> Run:
        if any(op.name == "scf.for" for op in case.program.walk()):
            raise declined("line 7: scf.for is not supported")
        return Oracle().run(case)


class _Zeroed(LeastNans):
    """Undefined memory holds zeros, lanes outside a valid region what they hold, and NaNs other bits."""

    def __init__(self, policy: Policy, buffers: Mapping[str, Any], max_steps: int = 1_000_000) -> None:
        super().__init__(replace(policy, out_of_region="backing"), buffers, max_steps)
        self._fill = 0


class Zeroed:
    """The interpreter with zeros for what nothing defines."""

    name = "zeroed"

    def run(self, case: Case) -> Run:
        return Oracle(machine=_Zeroed).run(case)


class Wrong:
    """The interpreter with a wrong bit in every result that is defined."""

    name = "wrong"

    def run(self, case: Case) -> Run:
        outputs = Oracle().run(case).outputs
        return Run({n: replace(o, words=o.words ^ o.words.dtype.type(1)) for n, o in outputs.items()})
