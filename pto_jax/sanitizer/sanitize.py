r"""Execution of a program with a report of the uses of undefined data.

>>> import numpy as np
>>> import pto_jax as pto
>>> t = pto.TileType(pto.dtype("f32"), 1, 8)
>>> program = pto.parse("%dst = tadds %src, %s : !pto.tile<1x8xf32>, f32")
>>> tile = OracleTile(t, np.arange(8, dtype=np.float32).reshape(1, 8), 1, 6)
>>> found = sanitize(program, {"src": tile, "s": 0.5})
>>> print("\n".join(found.diagnostics[0].message.split("; ")))
undefined data is a result of the program: %dst, 2 of 8 lanes, row 0, columns 6 to 7
outside the valid region 1x6 of %src (src) (tadds at <text>:1:1)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import errors, profiles
from ..ir import Program
from ..oracle.interpret import OracleTile as OracleTile, run
from ..oracle.numbers import Array
from ..oracle.step import Policy
from .machine import ShadowMachine
from .shadow import Finding

#: The report of an execution without findings.
NOTHING = "sanitizer: no undefined data becomes a scalar or an index, or reaches global memory"


@dataclass(frozen=True, eq=False)
class Sanitized:
    """What an execution gave, and where undefined data mattered in it.

    ``outputs`` are those of :func:`pto_jax.oracle.run`, ``diagnostics`` one error per finding with its place,
    lanes and origin. The text of the report is what ``pto-jax run --sanitize`` prints.
    """

    outputs: dict[str, Any]
    findings: tuple[Finding, ...]
    diagnostics: tuple[errors.Diagnostic, ...]
    machine: ShadowMachine

    def __str__(self) -> str:
        return "\n".join(d.render() for d in self.diagnostics) or NOTHING


def sanitize(  # noqa: PLR0913 - keywords
    program: Program,
    buffers: Mapping[str, Any] | Sequence[Any] = (),
    *,
    profile: profiles.ProfileName | profiles.Profile | None = None,
    entry: str | None = None,
    subnormals: profiles.Subnormals = "keep",
    grid: int = 1,
    partial_launch: bool = False,
    max_steps: int = 1_000_000,
    strict: bool = False,
) -> Sanitized:
    """Execute a program as :func:`pto_jax.oracle.run` does, with a definedness bit per bit of data.

    Undefined are bytes never written, lanes outside a source's valid region, integer quotients by zero and
    shifts by the width or more. What is computed from them is undefined, and a finding where it reaches
    global memory, a scalar, an index or a fragment's result; with ``strict``, every instruction that
    computes an undefined lane is one.

    >>> import numpy as np, pto_jax as pto
    >>> program = pto.parse("%z = tadd %x, %y : !pto.tile<f32, 2, 8>")
    >>> x = pto.oracle.OracleTile(pto.tile_type("f32", 2, 8), np.ones((2, 8), np.float32), v_row=1)
    >>> y = pto.oracle.OracleTile(pto.tile_type("f32", 2, 8), np.ones((2, 8), np.float32))
    >>> report = pto.sanitize(program, (y, y))
    >>> report.findings
    ()
    """
    return shadowed(
        lambda machine: run(
            program,
            buffers,
            profile=profile,
            entry=entry,
            subnormals=subnormals,
            grid=grid,
            partial_launch=partial_launch,
            max_steps=max_steps,
            machine=machine,
        ),
        program,
        strict=strict,
    )


def shadowed(execute: Callable[[Any], dict[str, Any]], program: Program, *, strict: bool) -> Sanitized:
    """What an execution gives on a machine with shadows; ``execute`` takes what makes the machine."""
    machines: list[ShadowMachine] = []

    def machine(policy: Policy, memory: Mapping[str, Array], steps: int) -> ShadowMachine:
        machines.append(ShadowMachine(policy, memory, steps, strict))
        return machines[-1]

    outputs = execute(machine)
    findings = machines[0].findings
    return Sanitized(outputs, tuple(findings), findings.diagnostics(program), machines[0])
