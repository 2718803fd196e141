"""The sanitizer as a machine of a campaign: a program that uses undefined data is a failure."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UndefinedDataError
from ..generate.programs import Case
from ..profiles import ProfileName
from ..sanitizer.sanitize import sanitize
from .results import Run
from .targets import interpreter_arguments, interpreter_outputs


@dataclass(frozen=True)
class Sanitizer:
    """The reference interpreter with a definedness bit per bit of data.

    ``run`` raises :class:`UndefinedDataError` where undefined data reaches global memory, a scalar, an index
    or a result; with ``strict`` already where an instruction computes with it.
    """

    strict: bool = False
    profile: ProfileName | None = None

    @property
    def name(self) -> str:
        """The machine as the command line names it."""
        return ":".join(["sanitizer", *(["strict"] if self.strict else []), *filter(None, [self.profile])])

    def run(self, case: Case) -> Run:
        """The results of a case without undefined data."""
        execution = sanitize(
            case.program,
            interpreter_arguments(case),
            profile=self.profile or case.profile,
            entry=case.entry,
            grid=case.grid,
            partial_launch=True,
            strict=self.strict,
        )
        if execution.diagnostics:
            raise UndefinedDataError(execution.diagnostics)
        return Run(interpreter_outputs(case, execution.outputs))
