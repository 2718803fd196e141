"""What a campaign is: everything that its results depend on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ArgumentError
from ...lockstep.tables import Tables
from ...profiles import ProfileName
from ..machine_names import is_device
from .focus import Focus

#: Programs of a block where they are made and executed as arrays, and where each is compared alone too.
LOCKSTEP_BATCH, LOCKSTEP_ALONE = 8192, 256
#: Opcodes of a table where each program is compared alone: they compile in about the time that the reference
#: takes for the table's programs. And those for devices, with the programs in a row that use one table.
LOCKSTEP_OPCODES, DEVICE_OPCODES, DEVICE_SPAN = 20, 64, 16384
#: Cases that a failure's machines execute to make it small; what this takes depends on the device.
SHRINK_CALLS, SHRINK_SECONDS, UNHURRIED = 400, 20.0, 1e6
_EVERYTHING = Focus()


@dataclass(frozen=True)
class Plan:
    """Cases ``start`` to ``start + count - 1`` of a seed, in blocks of ``batch``, on two machines.

    Without ``profiles`` a case has one of those that its preset allows. ``presets`` are taken in turn, by
    case index; ``focus`` says what generated programs concentrate on.
    ``programs`` are files that replace generated programs, ``entry`` and ``grid`` what of them
    is executed (all entry functions, generated numbers of blocks). ``lockstep`` makes and executes programs
    as arrays, of tables with at most ``opcodes`` opcodes (None: large tables, for comparison by digests),
    each for ``span`` cases in a row (None: what suits them).
    ``failures`` is the folder for failures, which are shrunk for ``shrink_seconds`` and ``shrink_calls`` of
    the machines each. ``case_timeout`` and ``dut_timeout`` are in seconds.
    """

    seed: int = 0
    start: int = 0
    count: int = 1000
    batch: int = 64
    reference: str = "oracle"
    tested: str = "eager"
    profiles: tuple[ProfileName, ...] = ()
    presets: tuple[str, ...] = ()
    focus: Focus = _EVERYTHING
    programs: tuple[str, ...] = ()
    entry: str | None = None
    grid: int | None = None
    lockstep: bool = False
    opcodes: int | None = None
    span: int | None = None
    failures: str | None = None
    shrink_seconds: float = 20.0
    shrink_calls: int = SHRINK_CALLS
    case_timeout: float = 60.0
    dut_timeout: float = 60.0

    @property
    def end(self) -> int:
        """The index after the last case."""
        return self.start + self.count

    def blocks(self, process: int = 0, processes: int = 1) -> Iterator[tuple[int, int]]:
        """Start and count of the blocks of one process: those whose number it has modulo their number.

        >>> list(Plan(count=150, batch=64).blocks()), list(Plan(count=150, batch=64).blocks(1, 2))
        ([(0, 64), (64, 64), (128, 22)], [(64, 64)])
        """
        for start in range(self.start + process * self.batch, self.end, processes * self.batch):
            yield start, min(self.batch, self.end - start)

    def size(self, process: int = 0, processes: int = 1) -> int:
        """The number of cases of one process.

        >>> plan = Plan(count=150, batch=64)
        >>> plan.size(), plan.size(0, 2), plan.size(1, 2)
        (150, 86, 64)
        """
        whole, rest = divmod(self.count, processes * self.batch)
        return whole * self.batch + min(self.batch, max(0, rest - process * self.batch))

    @property
    def tables(self) -> Tables:
        """The tables of programs that are made as arrays."""
        focus = self.focus
        return Tables(self.profiles, self.opcodes, focus.only, focus.dtypes, focus.regions, self.span)

    def to_json(self) -> dict[str, Any]:
        """As JSON values, which a store keeps and a resumed campaign is compared with."""
        return _lists(dataclasses.asdict(self))

    @staticmethod
    def of_json(values: Mapping[str, Any]) -> Plan:
        """The plan of the values that a store keeps; ArgumentError for values that are none of a plan."""
        told = {f.name: values[f.name] for f in dataclasses.fields(Plan) if f.name in values}
        focus = told.pop("focus", {})
        try:
            made: dict[str, Any] = {k: tuple(v) if isinstance(v, list | dict) else v for k, v in told.items()}
            return Plan(focus=Focus(**{k: tuple(v) for k, v in focus.items()}), **made)
        except (TypeError, AttributeError) as error:
            raise ArgumentError(f"what the store says of its campaign is no plan: {error}") from None


def _lists(values: dict[str, Any]) -> dict[str, Any]:
    """Values with lists in place of tuples, as JSON has them."""
    return {
        k: _lists(v) if isinstance(v, dict) else list(v) if isinstance(v, tuple) else v
        for k, v in values.items()
    }


def in_lockstep(plan: Plan) -> Plan:
    """The plan with programs that are made as arrays, in blocks and tables that take seconds each.

    Programs are compared by digests, each alone with a slow machine, or by a device.

    >>> made = in_lockstep(Plan(tested="lockstep"))
    >>> (made.batch, made.opcodes, made.span), in_lockstep(Plan(tested="dut-server:./sim")).span
    ((256, 20, None), 16384)
    """
    batch, opcodes, span = LOCKSTEP_ALONE, LOCKSTEP_OPCODES, plan.span
    if is_device(plan.tested):
        batch, opcodes, span = DEVICE_SPAN, DEVICE_OPCODES, DEVICE_SPAN
    elif plan.reference.startswith("lockstep"):
        return replace(plan, lockstep=True, batch=LOCKSTEP_BATCH, opcodes=None)
    return replace(plan, lockstep=True, batch=batch, opcodes=opcodes, span=span)
