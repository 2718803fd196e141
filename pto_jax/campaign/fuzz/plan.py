"""The plan of a campaign: everything that its results depend on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ...cases.identity import is_device, versions
from ...errors import ArgumentError
from ...extension import loaded
from ...files import read_bytes
from ...generate.options import PRESETS
from ...generate.programs import VERSION, Ranks
from ...lockstep.opcodes import names
from ...lockstep.tables import Aim, Tables
from ...profiles import PROFILE_NAMES, ProfileName
from .focus import Focus
from .goal import ANY, Bin

#: Programs of a block where they are made and executed as arrays, and where each is compared alone too.
LOCKSTEP_BATCH, LOCKSTEP_ALONE = 8192, 256
#: Opcodes of a table where each program is compared alone: they compile in about the time that the reference
#: takes for the table's programs. And those for devices, with the programs in a row that use one table.
LOCKSTEP_OPCODES, DEVICE_OPCODES, DEVICE_SPAN = 20, 64, 16384
#: Cases that a failure's machines execute to make it small; what this takes depends on the device.
SHRINK_CALLS, SHRINK_SECONDS, UNHURRIED = 400, 20.0, 1e6
_EVERYTHING = Focus()
#: Programs as they come, or functions over pointers only.
Form = Literal["any", "kernel"]


@dataclass(frozen=True)
class Plan:
    """Cases ``start`` to ``start + count - 1`` of a seed, in blocks of ``batch``, on two executors.

    Without ``profiles`` a case has one of those that its preset allows. ``presets`` are taken in turn, by
    case index; ``focus`` says what generated programs concentrate on, the file ``goal`` at which bins of
    coverage they are aimed, and ``form`` whether they are functions over pointers.
    ``programs`` are files that replace generated programs, with ``mutate`` mutated after their first
    turn; ``entry``, ``grid`` and ``ranks`` say what of them is executed (all entry functions, generated
    numbers of blocks, one processor). ``lockstep`` makes and executes programs as arrays, of tables with at
    most ``opcodes`` opcodes (None: large tables, for comparison by digests), each for ``span`` cases in a row
    (None: what suits them).
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
    goal: str | None = None
    form: Form = "any"
    programs: tuple[str, ...] = ()
    mutate: bool = False
    entry: str | None = None
    grid: int | None = None
    ranks: Ranks | None = None
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

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Start and count of the blocks.

        >>> list(Plan(count=150, batch=64).blocks())
        [(0, 64), (64, 64), (128, 22)]
        """
        for start in range(self.start, self.end, self.batch):
            yield start, min(self.batch, self.end - start)

    @property
    def tables(self) -> Tables:
        """The tables of programs that are made as arrays."""
        focus = self.focus
        result = Tables(self.profiles, self.opcodes, focus.only, focus.dtypes, focus.regions, self.span)
        if self.goal is None:
            return result
        from .goal import read_goal

        return replace(result, aims=aims(self.goal, read_goal(self.goal, self.profiles or PROFILE_NAMES)))

    def to_json(self) -> dict[str, Any]:
        """As JSON values, which a store keeps and a resumed campaign is compared with."""
        values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return values

    @staticmethod
    def of_json(values: Mapping[str, Any]) -> Plan:
        """The plan of the values that a store keeps; ArgumentError for values that are none of a plan."""
        fields = {f.name: values[f.name] for f in dataclasses.fields(Plan) if f.name in values}
        for name, value in fields.items():
            check = _CHECKS.get(name)
            if check is None or not check(value):
                raise ArgumentError(
                    f"the store holds a damaged plan of its campaign: {name} is {value!r:.60}"
                )
        focus, ranks = fields.pop("focus", {}), fields.pop("ranks", None)
        table: dict[str, Any] = {k: tuple(v) if isinstance(v, list | dict) else v for k, v in fields.items()}
        table["ranks"] = None if ranks is None else Ranks.of_json(ranks)
        return Plan(focus=Focus(**{k: tuple(v) for k, v in focus.items()}), **table)


#: The choices of valid regions in lockstep that have each kind.
_REGIONS = {
    "full": ("full",),
    "partial": ("partial", "uneven"),
    "odd": ("partial", "uneven"),
    "empty": ("empty",),
}


def aims(goal: str, bins: Sequence[Bin]) -> tuple[Aim, ...]:
    """What programs in lockstep are aimed at: instruction, type and region of those bins they can reach.

    Attributes and operands take turns. ArgumentError where they reach none.

    >>> aims("g.toml", [Bin(("tcvt", "f16", "*", "odd", "*", "*", "*"))])[0].regions
    ('partial', 'uneven')
    """
    table: dict[Aim, None] = {}
    for b in bins:
        by_arrays = any(b["instruction"] in names(p) for p in PROFILE_NAMES)
        plain = by_arrays and b["control"] in (ANY, "straight") and b["layout"] in (ANY, "row", "col")
        if plain and b["region"] in (ANY, *_REGIONS):
            dtype = "" if b["type"] == ANY else b["type"]
            table[Aim(b["instruction"], dtype, _REGIONS.get(b["region"], ()))] = None
    if not table:
        raise ArgumentError(
            f"{goal}: programs in lockstep reach none of its targets", fix="leave out --lockstep"
        )
    return tuple(table)


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


def form_of(form: Form | None, tested: str, other: bool) -> Form:
    """The form of generated programs: functions over pointers for commands when nothing is said.

    ``other`` programs are the user's, or made as arrays, and have a form of their own.

    >>> form_of(None, "dut:./sim {program}", False), form_of(None, "jit", False)
    ('kernel', 'any')
    """
    if other and form == "kernel":
        raise ArgumentError(
            "got --form kernel with --programs or --lockstep", allowed="with generated programs"
        )
    return form or ("kernel" if tested.startswith("dut") and not other else "any")


def seconds_of(seconds: float | None, tested: str) -> float:
    """Seconds for which a failure is made small: with a device its calls alone count."""
    if seconds is not None:
        return seconds
    return UNHURRIED if is_device(tested) else SHRINK_SECONDS


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value < 1 << 62


def _names(value: Any) -> bool:
    return isinstance(value, list | dict) and all(isinstance(v, str) for v in value)


def _focus(value: Any) -> bool:
    fields = {f.name for f in dataclasses.fields(Focus)}
    return isinstance(value, dict) and value.keys() <= fields and all(map(_names, value.values()))


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _seconds(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= UNHURRIED


def _ranks(value: Any) -> bool:
    try:
        return value is None or bool(Ranks.of_json(value))
    except ValueError:
        return False


def _text(value: Any) -> bool:
    return isinstance(value, str)


#: What the fields of a plan may be in a store that anyone may have written.
_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("seed", "start", "shrink_calls"), _whole(0)),
    **dict.fromkeys(("count", "batch"), _whole(1)),
    **dict.fromkeys(("grid", "opcodes", "span"), _or_none(_whole(1))),
    **dict.fromkeys(("reference", "tested"), _text),
    **dict.fromkeys(("entry", "failures", "goal"), _or_none(_text)),
    **dict.fromkeys(("shrink_seconds", "case_timeout", "dut_timeout"), _seconds),
    "profiles": lambda value: _names(value) and set(value) <= set(PROFILE_NAMES),
    "presets": lambda value: _names(value) and set(value) <= set(PRESETS),
    "programs": _names,
    "focus": _focus,
    "ranks": _ranks,
    "form": lambda value: value in get_args(Form),
    **dict.fromkeys(("lockstep", "mutate"), lambda value: isinstance(value, bool)),
}


# -- parts of one campaign ---------------------------------------------------------------------------

#: What is known about a campaign, and does not decide about its results.
INCIDENTAL = frozenset({"device", "started", "rejected", "notes", "bins"})


def identity(plan: Plan) -> dict[str, Any]:
    """Everything that the rows of a store depend on, as JSON values."""
    files = {file: _digest(file) for file in plan.programs}
    plain = {**plan.to_json(), "programs": files}
    if plan.goal is not None:
        plain["goal_digest"] = _digest(plan.goal)
    if loaded():
        plain["extensions"] = {file: _digest(file) for file in loaded()}
    return {
        **plain,
        # A store holds all blocks; earlier versions wrote stores of one of several processes.
        "process": 0,
        "processes": 1,
        "generator": VERSION,
        "versions": versions(),
    }


def differences(
    stored: Mapping[str, Any], plan: Mapping[str, Any], ignored: Iterable[str] = INCIDENTAL
) -> list[str]:
    """What differs, one text each.

    >>> differences({"seed": 1, "versions": {"jax": "0.10"}}, {"seed": 2, "versions": {"jax": "0.11"}})
    ['seed: 1, not 2', 'versions.jax: 0.10, not 0.11']
    """
    lines = []
    left = set(ignored) | {"schema"}
    for key in [k for k in dict.fromkeys((*plan, *stored)) if k not in left]:
        a, b = stored.get(key), plan.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            lines += [f"{key}.{text}" for text in differences(a, b, ())]
        elif a != b:
            lines.append(f"{key}: {_shown(a)}, not {_shown(b)}")
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _digest(file: str) -> str:
    return hashlib.sha256(read_bytes(file, regular=True)).hexdigest()[:16]
