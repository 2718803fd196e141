"""The public check of a program's order: races, deadlocks, tokens, and witnesses of the races."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from .. import api, ir, order
from ..analysis.resolve import ResolvedProgram, resolve
from ..analysis.roots import orders_itself
from ..errors import ArgumentError, PtoError, PtoWarning, VerifyError, is_number, one_of
from ..isa import effects
from ..oracle import run
from ..oracle.machine import ReferenceMachine
from ..oracle.step import Policy
from ..order import Finding, Place, event_numbers, hangs
from ..profiles import Profile, ProfileName
from ..verifier.overlaps import overwrite_finding, overwrites
from .machine import Schedule, ScheduledMachine, bits

#: How a text is judged: all order has to be in it, a tool inserts what one core needs, or dependent vector
#: instructions need barriers, too.
Mode = Literal["as-written", "inserted", "strict"]
_CUT = (
    "@{} has a course of more than {} operations, which is not followed to its end; try: inputs of a smaller "
    "problem"
)
SYNC = ("auto", "as-written", "inserted", "strict")


def mode_of(program: ir.Program, profile: Profile) -> Mode:
    """The mode that a text asks for: by its flags and events, and on A2/A3 by its barriers of PIPE_V.

    Into C++ that an assembler has emitted nothing is inserted any more.

    >>> import pto_jax as pto
    >>> mode_of(pto.parse("tadd %d, %a, %b : !pto.tile<16x16xf32>"), pto.profile("a2a3"))
    'inserted'
    """
    if not orders_itself(program):
        return "inserted"
    barriers = any(
        (own := effects.traits_of(op).order) is not None
        and own.role == "barrier"
        and op.attrs.get("pipe") == ir.Pipe.V
        for op in program.walk()
    )
    return "strict" if barriers and profile.name == "a2a3" else "as-written"


def races(
    program: ir.Program,
    profile: ProfileName | Profile | None = None,
    *,
    arch: str | None = None,
    sync: str = "auto",
    inputs: Mapping[str, Any] | None = None,
    grid: int | None = None,
    schedules: int = 0,
    seed: int = 0,
) -> list[Finding]:
    """What goes wrong because nothing orders two operations of a program, or because a wait has no end.

    ``sync`` is ``"as-written"`` (all order is in the text), ``"inserted"`` (a tool orders the pipes of each
    core), ``"strict"`` (as written, and dependent vector instructions need a barrier) or ``"auto"``: what the
    text looks like (:func:`mode_of`). ``inputs`` gives arguments by name (numbers and arrays); what is not
    given is assumed, in several courses. With ``schedules``, each race is executed in so many legal orders of
    the pipes on ``inputs``, in ``grid`` blocks (default: one), and its ``witness`` shows the bits that
    differ; ``seed`` chooses the orders. The blocks of a launch of ``grid`` are compared with each other: all,
    or the first two and the last one of many; without it two where the blocks of a program wait for each
    other.

    A PtoWarning names functions that have more operations than are followed.

    ArgumentError for an unknown mode, profile or architecture, and for schedules without inputs;
    VerifyError for a program that is wrong in other ways, so that nothing can be followed.

    >>> import pto_jax as pto
    >>> races(pto.parse("tadd %d, %a, %b : !pto.tile<16x16xf32>"))
    []
    """
    _require_options(sync, inputs, 1 if grid is None else grid, schedules)
    selected = api.resolve_profile(program, profile, arch=arch)
    resolved = resolve(program, selected)
    mode = mode_of(resolved.program, selected) if sync == "auto" else sync
    cut: list[str] = []
    try:
        reports = order.judge(
            resolved,
            cut=cut,
            as_written=sync in ("as-written", "strict"),
            vector=mode == "strict" and selected.name == "a2a3",
            inputs=inputs,
            grid=(2 if _meets_blocks(program) else 1) if grid is None else grid,
        )
        stops = hangs(order.judged_program(resolved))
        more = (*event_numbers(resolved.program), *stops, *overlaps(resolved))
    except Exception:
        # A program that is wrong in other ways may have no execution that could be followed.
        errors = [d for d in api.verify(program, selected) if d.severity == "error"]
        if errors:
            raise VerifyError(errors) from None
        raise
    for name in cut:
        warnings.warn(_CUT.format(name, order.LIMIT), PtoWarning, stacklevel=2)
    reports = [replace(finding, mode=mode) for finding in (*reports, *more)]
    _require_followed(resolved, reports)
    if not schedules or inputs is None:
        return reports
    return witnessed(resolved, reports, inputs, grid or 1, schedules, seed)


def _require_options(sync: str, inputs: object, grid: int, schedules: int) -> None:
    """ArgumentError for options that :func:`races` does not take."""
    if sync not in SYNC:
        raise ArgumentError(f"sync: got {sync!r}", allowed=", ".join(SYNC))
    for name, n, least in (("schedules", schedules, 0), ("grid", grid, 1)):
        if not is_number(n, least):
            raise ArgumentError(f"{name}: got {n!r}", allowed=f"a number from {least} up")
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ArgumentError(f"inputs: got {one_of(inputs)}", allowed="arrays and numbers by name")
    if schedules and inputs is None:
        raise ArgumentError("schedules without inputs", allowed="inputs for every argument")


def _require_followed(resolved: ResolvedProgram, found: Sequence[Finding]) -> None:
    """VerifyError instead of no finding where operands do not fit: nobody knows what is used then."""
    if resolved.diagnostics and not found:
        raise VerifyError(resolved.diagnostics)


def _meets_blocks(program: ir.Program) -> bool:
    """Whether the blocks of a program wait for each other."""
    return any(effects.traits_of(op).meets_blocks for op in program.walk())


def order_changes(
    old: ir.Program, new: ir.Program, profile: ProfileName | Profile | None = None
) -> order.Changes:
    r"""What two versions of a program order differently, where they differ in their synchronisation.

    Both are judged as they are written; where one of them asks for it (:func:`mode_of`), dependent vector
    instructions need barriers, too. ``edges`` are lost or gained order between the same instructions, each
    with its effect; ``findings`` those that only ``new`` has. VerifyError for a program that is wrong in
    other ways, ArgumentError for an unknown profile.

    >>> import pto_jax as pto
    >>> t = "!pto.tile_buf<vec, 16x16xf32>"
    >>> flag = "[<PIPE_V>, <PIPE_M>, <EVENT_ID0>]"
    >>> old = f"pto.set_flag{flag}\npto.wait_flag{flag}\npto.tabs ins(%a : {t}) outs(%b : {t})"
    >>> order_changes(pto.parse(old), pto.parse(old)).edges
    []
    """
    selected = [api.resolve_profile(program, profile) for program in (old, new)]
    both = [resolve(program, p) for program, p in zip((old, new), selected, strict=True)]
    strict = any(mode_of(r.program, p) == "strict" for r, p in zip(both, selected, strict=True))
    try:
        return order.compare(*both, vector=strict)
    except Exception:
        for resolved, p in zip(both, selected, strict=True):
            errors = [d for d in api.verify(resolved.program, p) if d.severity == "error"]
            if errors:
                raise VerifyError(errors) from None
        raise


def overlaps(resolved: ResolvedProgram) -> Iterator[Finding]:
    """The values that are overwritten before their last read, because tiles share bytes."""
    for function in resolved.program.functions:
        for op, lost, written in overwrites(resolved, function):
            finding = overwrite_finding(op, written, lost)
            line = lost.span.line if lost.span is not None else 0
            first = Place(line, lost.instruction, "", "", f"%{lost.name}", "", lost.span)
            at = op.span.line if op.span is not None else 0
            pipe = f"PIPE_{effects.pipe_of(op).name}"
            second = Place(at, op.name, pipe, "", f"%{written.name}", "write", op.span)
            missing = f"bytes of its own for %{written.name}; try: another address"
            yield Finding("overlap", first, second, missing, 1, finding, (op,))


def _outputs(
    resolved: ResolvedProgram, inputs: Mapping[str, Any], grid: int, schedule: Schedule | None
) -> dict[str, Any]:
    """The bits in the order of a schedule, None for that of the text."""
    made: list[ScheduledMachine] = []

    def machine(policy: Policy, buffers: Mapping[str, Any], steps: int) -> ReferenceMachine:
        if schedule is None:
            return ReferenceMachine(policy, buffers, steps)
        made.append(ScheduledMachine(order.judged_program(resolved), schedule, policy, buffers, steps))
        return made[0]

    options: Mapping[str, Any] = {"profile": resolved.profile, "grid": grid, "partial_launch": True}
    outputs = bits(run(resolved.program, inputs, machine=machine, **options))
    contents = tuple(made[0].foreseen.items()) if made else ()
    if schedule is None or contents == schedule.foreseen:
        return outputs
    if schedule.foreseen:
        # Loads have found other bytes than the store has written that was to come before them.
        return _outputs(resolved, inputs, grid, None)
    return _outputs(resolved, inputs, grid, replace(schedule, foreseen=contents))


def witnessed(
    resolved: ResolvedProgram,
    reports: Sequence[Finding],
    inputs: Mapping[str, Any],
    grid: int,
    schedules: int,
    seed: int,
) -> list[Finding]:
    """The findings; a race has the bits that differ in some legal order, or the word that none do."""
    outputs = partial(_outputs, resolved, inputs, grid)
    try:
        expected = outputs(None)
    except PtoError as error:
        text = f"not executed: {str(error).splitlines()[0]}"
        return [replace(f, witness=text) if f.kind == "race" else f for f in reports]
    results: dict[Schedule, str] = {}
    listed = []
    for finding in reports:
        if finding.kind == "race":
            finding = replace(finding, witness=_witness(finding, expected, outputs, results, schedules, seed))
        listed.append(finding)
    return listed


def _witness(
    finding: Finding, expected: Any, outputs: Any, results: dict[Schedule, str], schedules: int, seed: int
) -> str:
    """What the first schedule shows in which other bits come out."""
    first = ir.Pipe[finding.first.pipe.removeprefix("PIPE_")]
    scope = finding.in_scope
    swapped = Schedule((), seed, scopes=True, ahead=id(finding.ops[-1]))
    one = [swapped] if scope else [Schedule((first,), seed)]
    if scope and first == ir.Pipe.S and finding.first.access == "read":
        one = [Schedule((), seed, ahead=id(finding.ops[-1]), loading=id(finding.ops[0])), *one]
    tried = [*one, *(Schedule((), seed + i, scopes=scope) for i in range(1, schedules))]
    for schedule in tried:
        if schedule not in results:
            try:
                results[schedule] = _difference(expected, outputs(schedule))
            except PtoError as error:
                results[schedule] = f"an error, {str(error).splitlines()[0]}"
        if results[schedule]:
            return f"with {schedule}: {results[schedule]}"
    return f"none of {len(tried)} legal orders shows other bits on these inputs"


def _difference(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str:
    for name, words in expected.items():
        wrong = np.flatnonzero((words != actual[name]).any(-1))
        if wrong.size:
            at = int(wrong[0])
            one, two = (bytes(w[at][::-1]).hex() for w in (words, actual[name]))
            return (
                f"{wrong.size} of {len(words)} elements of {name} differ, first element {at}: 0x{two} "
                f"instead of 0x{one} in the order of the text"
            )
    return ""
