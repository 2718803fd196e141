"""The campaign that the options of ``fuzz`` describe, and ``fuzz --exhaustive``.

Imported when the command runs: what it needs imports JAX.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path, PurePath
from typing import Any

from ..campaign import exhaustive
from ..campaign.fuzz.focus import Focus, generated_micro
from ..campaign.fuzz.plan import Plan, form_of, in_lockstep, seconds_of
from ..cases.identity import is_device
from ..devices.machines import DUT_TIMEOUT, machine
from ..errors import ArgumentError, FileError
from ..generate.options import IN_TURN, PRESETS
from ..generate.programs import Ranks
from ..interpreter.rank_calls import check_ranks
from ..profiles import PROFILE_NAMES, PROFILES
from ..text import SUFFIXES
from .options import ACCEPTED, REJECTED, of_command
from .rank_options import given, require_ranks

#: Presets for campaigns with machines that need special programs.
_PRESETS = {"sanitizer": "defined", "lockstep": "straight", "fast": "straight", "races": "ordered"}


def plan_of(args: argparse.Namespace) -> Plan:
    """The campaign that the options say, checked as far as that needs no machine."""
    programs = _programs(args)
    focus = Focus(**{f.name: _named(getattr(args, f.name)) for f in fields(Focus)})
    if programs and str(focus):
        raise ArgumentError(f"got {focus} with --programs", allowed="with generated programs")
    _check_goal(args, focus, bool(programs))
    lockstep = args.lockstep or (_is_plain(args) and focus.in_lockstep(args.profile or ()))
    if lockstep and not focus.in_lockstep(args.profile or ()):
        raise ArgumentError(
            f"got {focus} with --lockstep, which has no such programs", allowed="without --lockstep"
        )
    if lockstep and args.grid:
        raise ArgumentError("got --grid with --lockstep, whose programs run on one block", allowed="either")
    reference, tested = machines_of(args, lockstep)
    _check_devices(args, reference, tested)
    plan = of_command(
        Plan,
        args,
        batch=args.batch or Plan.batch,
        reference=reference,
        tested=tested,
        profiles=tuple(dict.fromkeys(args.profile or ())),
        presets=() if programs or lockstep else _presets(args.preset, focus, reference, tested),
        focus=focus,
        programs=programs,
        ranks=_ranks(args, bool(programs)),
        failures=args.failures or None,
        shrink_seconds=seconds_of(args.shrink_seconds, tested),
        dut_timeout=args.dut_timeout or Plan.dut_timeout,
        form=form_of(args.form, tested, lockstep or bool(programs)),
    )
    result = in_lockstep(plan) if lockstep else plan
    return replace(result, batch=args.batch or result.batch)


def _ranks(args: argparse.Namespace, programs: bool) -> Ranks | None:
    """The processors that execute the user's programs."""
    if args.ranks is None:
        require_ranks(args)
        return None
    if not programs:
        got = "got --ranks without --programs: generated programs say how many they have"
        raise ArgumentError(got, fix="--preset ranks")
    check_ranks(args.ranks)
    options = given(args)
    peers = {
        name: (buffer, (which,) * args.ranks if isinstance(which, int) else which)
        for name, (buffer, which) in options["peers"].items()
    }
    peer_ranks = tuple((name, buffer, which) for name, (buffer, which) in peers.items())
    return Ranks(args.ranks, options["shared"], tuple(options["context"].items()), peer_ranks)


def _check_goal(args: argparse.Namespace, focus: Focus, programs: bool) -> None:
    """Raise ArgumentError for what a goal cannot be combined with."""
    if args.goal is None:
        return
    if programs:
        raise ArgumentError("got --goal with --programs", allowed="with generated programs")
    if focus.only or focus.dtypes or focus.layouts or focus.regions:
        raise ArgumentError(
            f"got {focus} with --goal, whose targets are instructions, types, layouts and regions",
            allowed="--values, --weight",
        )


def _check_devices(args: argparse.Namespace, *machines: str) -> None:
    """Raise ArgumentError for options of devices where there are none."""
    if args.dut_timeout is not None and not any(map(is_device, machines)):
        raise ArgumentError(
            f"got --dut-timeout with {' and '.join(machines)}, no devices",
            allowed="with --dut, --dut-server or a python: executor",
            fix="--case-timeout S",
        )
    if args.trust and not args.resume:
        raise ArgumentError("got --trust without --resume", allowed="where a store names the device")


def _is_plain(args: argparse.Namespace) -> bool:
    """Whether neither machines nor programs are given: then they are those that are fast."""
    devices = (args.dut, args.dut_server)
    options = (args.tested, args.against, *devices, args.preset, args.programs, args.goal, args.grid)
    return not any(options)


def machines_of(args: argparse.Namespace, lockstep: bool) -> tuple[str, str]:
    """Names of the reference and of the tested executor.

    One of them given alone stands beside this engine: the oracle is always the reference, every other one
    is tested. The oracle against itself is executed again in another process.
    """
    devices = {"dut": args.dut, "dut-server": args.dut_server}
    named = [f"{kind}:{command}" for kind, command in devices.items() if command is not None]
    tested = [t for t in (args.tested, *named) if t]
    if len(tested) > 1:
        raise ArgumentError(f"got several executors to test: {'; '.join(tested)}", allowed="one")
    if lockstep:
        tested = tested or ["lockstep"]
        if tested[0].partition(":")[0] != "lockstep" and not is_device(tested[0]):
            allowed = "lockstep lockstep:grouped, a device under test"
            raise ArgumentError(f"--lockstep with {tested[0]} to test", allowed=f"{allowed}")
        if is_device(tested[0]) and args.against not in (None, "oracle", "interpreter"):
            raise ArgumentError(f"--lockstep with a device against {args.against}", allowed="oracle")
    against = args.against
    if tested:
        pair = (against or "oracle", tested[0])
    elif against is None or against.partition(":")[0] in ("oracle", "interpreter"):
        pair = (against or "oracle", "eager")
    else:
        pair = ("eager", against)
    if pair == ("oracle", "oracle"):
        return "oracle", "oracle:again"
    if pair[0] == pair[1]:
        raise ArgumentError(
            f"got {pair[0]} twice", allowed="two executors", fix="another --against or --tested"
        )
    return pair


def _named(texts: Iterable[str]) -> tuple[str, ...]:
    """What an option lists, with spaces or commas between.

    >>> _named(["tadd,tcvt", "tmul"])
    ('tadd', 'tcvt', 'tmul')
    """
    return tuple(name for text in texts for name in text.split(",") if name)


def _presets(presets: list[str] | None, focus: Focus, *machines: str) -> tuple[str, ...]:
    unknown = [p for p in presets or () if p not in PRESETS]
    if unknown:
        raise ArgumentError(f"no preset {', '.join(unknown)}", allowed=" ".join(PRESETS))
    if presets:
        return tuple(presets)
    below = [name for name in focus.only if name in generated_micro()]
    if below:
        others = _presets(None, Focus(), *machines) if len(below) < len(focus.only) else ()
        return (*others, "micro")
    for kind, preset in _PRESETS.items():
        if any(m.partition(":")[0] == kind for m in machines) and preset in PRESETS:
            return (preset,)
    return device_presets()


def device_presets() -> tuple[str, ...]:
    """The presets that machines without limits of their own take in turn."""
    return tuple(p for p in IN_TURN if p not in _PRESETS.values() or p == "straight")


def _programs(args: argparse.Namespace) -> tuple[str, ...]:
    """The files of the programs, in order of their names."""
    if not args.programs:
        for option in ("entry", "mutate"):
            if getattr(args, option) not in (None, False):
                raise ArgumentError(f"got --{option} without --programs", fix="--programs PATH")
        return ()
    for option in ("lockstep", "preset"):
        if getattr(args, option):
            raise ArgumentError(f"got --{option} with --programs", allowed="with generated programs")
    files: dict[str, None] = {}
    for name in args.programs:
        path = Path(name)
        if not path.exists():
            raise FileError(f"{name}: no such file or folder")
        paths = _in_folder(path) if path.is_dir() else [path]
        if not paths:
            raise FileError(f"{name}: no .pto file in this folder", allowed=f"one, or {', '.join(SUFFIXES)}")
        files.update(dict.fromkeys(map(str, paths)))
    return tuple(files)


def _in_folder(folder: Path) -> list[Path]:
    """The PTO texts in a folder, or the C++ kernels of one without texts: others are hosts of its texts."""
    paths = sorted(folder.rglob("*"))
    return [p for p in paths if p.suffix == ".pto"] or [p for p in paths if p.suffix in SUFFIXES]


_DEVICES = ("dut", "dut_server")
#: Options that say something here; what the others steer is not random here.
_ALLOWED = (
    *("exhaustive", "only", "dtypes", "profile", "json", "tested", "against", "dut_timeout", "quiet"),
    *_DEVICES,
)


def fuzz_exhaustive(args: argparse.Namespace) -> int:
    """Execute the rows that the options name and print a line for each; the exit status."""
    for name, value in vars(args).items():
        is_option = any(action.dest == name for action in args.parser._actions)
        if is_option and name not in _ALLOWED and value != args.parser.get_default(name):
            allowed = "--only --dtype --profile --json --tested --against --dut --dut-server"
            option = name.replace("_", "-")
            raise ArgumentError(f"--{option} with --exhaustive, which draws nothing", allowed=f"{allowed}")
    if not any(getattr(args, name) for name in ("tested", *_DEVICES)):
        args.tested = "jit"
    against, tested = machines_of(args, lockstep=False)
    if is_device(against):
        raise ArgumentError(f"--exhaustive: got --against {against}", allowed="devices as --tested or --dut")
    focus = Focus(only=_named(args.only), dtypes=_named(args.dtypes))
    profiles = [PROFILES[name] for name in dict.fromkeys(args.profile or PROFILE_NAMES)]
    rows = list(exhaustive.rows(profiles, focus.only, focus.dtypes))
    _check_devices(args, against, tested)
    machines = machine(against), machine(tested, args.dut_timeout or DUT_TIMEOUT)
    results = []
    try:
        for result in exhaustive.run(rows, *machines, device=tested):
            results.append(result)
            if not args.json:
                print(result, flush=True)
    finally:
        close = getattr(machines[1], "close", None)
        if close is not None:
            close()
    if args.json:
        print(json.dumps([r.to_json() for r in results], indent=2))
    else:
        print(exhaustive.summary(results))
    failed = any(r.is_failure for r in results) or not any(r.compared for r in results)
    return REJECTED if failed else ACCEPTED


# -- campaigns that are continued --------------------------------------------------------------------

#: Options that say how a campaign is executed and reported, and change no result.
_INCIDENTAL = frozenset(
    "store resume trust workers worker_memory quiet max_failures minutes known first_new junit min_compared "
    "scheduler extension explain".split()
)
#: Options that name machines: those of the store have to be the same.
_MACHINES = {
    "tested": "",
    "against": "",
    "dut": "dut:",
    "dut_server": "dut-server:",
}


def plan_of_store(args: argparse.Namespace) -> Plan | None:
    """The plan that a store says, where it is to be continued and no option says another one.

    ``--count`` may make it longer. None where the command line has other options of a plan, which are
    compared with the store's. Devices that only the store names need ``--trust``: ArgumentError without.
    """
    options = {action.dest for action, _ in given_options(args)} - _INCIDENTAL
    if not args.resume or not args.store or options - _MACHINES.keys() - {"count", "failures"}:
        return None
    file = Path(args.store)
    if not file.exists():
        return None
    from ..campaign.fuzz.store import Store

    with Store.open(file) as store:
        campaign = store.campaign()
    plan = Plan.of_json(campaign)
    _check_machines(args, plan, options)
    _check_failures(args, plan, options)
    if args.count is not None and args.count < plan.count:
        raise ArgumentError(
            f"--count: got {args.count} for the campaign in {file}", allowed=f"{plan.count} or more"
        )
    return replace(plan, count=args.count or plan.count)


def _check_machines(args: argparse.Namespace, plan: Plan, options: set[str]) -> None:
    """Raise ArgumentError for devices that nobody on the command line named, and for other machines."""
    names = {f"{prefix}{getattr(args, dest)}" for dest, prefix in _MACHINES.items() if dest in options}
    theirs = {plan.reference, plan.tested}
    aliases = {"interpreter": "oracle"}
    other = sorted({aliases.get(name, name) for name in names} - theirs)
    if other:
        raise ArgumentError(
            f"got {other[0]} for the campaign in {args.store}", allowed=f"{plan.tested}, {plan.reference}"
        )
    untrusted = sorted(name for name in theirs - names if is_device(name))
    if untrusted and not args.trust:
        raise ArgumentError(
            f"got {untrusted[0]} from {args.store} only, a command that is not executed",
            fix="--trust, or name it with --tested",
        )


def _check_failures(args: argparse.Namespace, plan: Plan, options: set[str]) -> None:
    """Raise ArgumentError where the failures would go to a folder that only the store names, anywhere."""
    folder = PurePath(plan.failures or "")
    if "failures" in options:
        if args.failures != plan.failures:
            raise ArgumentError(
                f"--failures: got {args.failures} for the campaign in {args.store}",
                allowed=str(plan.failures),
            )
    elif folder.is_absolute() or ".." in folder.parts:
        raise ArgumentError(f"got the folder {folder} from {args.store} only", fix=f"--failures {folder}")


def resumed(args: argparse.Namespace) -> str:
    """The command that continues a campaign: the store knows the rest."""
    words = ["pto-jax", "fuzz"]
    for action, value in given_options(args):
        keeps = action.dest in _INCIDENTAL - {"resume", "minutes"} or action.dest in _MACHINES
        if not keeps and not (action.dest == "failures" and PurePath(value).is_absolute()):
            continue
        if value is True:
            words.append(action.option_strings[0])
            continue
        for one in value if isinstance(value, list) else [value]:
            words += [action.option_strings[0], str(one)]
    return shlex.join([*words, "--resume"])


def given_options(args: argparse.Namespace) -> Iterator[tuple[argparse.Action, Any]]:
    """The options that have another value than their default."""
    values: Mapping[str, Any] = vars(args)
    for action in args.parser._actions:
        value = values.get(action.dest)
        if action.option_strings and action.dest != "help" and value is not None and value != action.default:
            yield action, value
