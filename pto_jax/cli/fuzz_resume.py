"""Campaigns that are continued: their stores know what they are."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from ..cases.machine_names import is_device
from ..errors import ArgumentError

if TYPE_CHECKING:
    from ..campaign.fuzz.plan import Plan

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
    given = {action.dest for action, _ in given_options(args)} - _INCIDENTAL
    if not args.resume or not args.store or given - _MACHINES.keys() - {"count", "failures"}:
        return None
    file = Path(args.store)
    if not file.exists():
        return None
    from ..campaign.fuzz.plan import Plan
    from ..campaign.fuzz.store import Store

    with Store.open(file) as store:
        campaign = store.campaign()
    plan = Plan.of_json(campaign)
    _check_machines(args, plan, given)
    _check_failures(args, plan, given)
    if args.count is not None and args.count < plan.count:
        raise ArgumentError(
            f"--count: got {args.count} for the campaign in {file}", allowed=f"{plan.count} or more"
        )
    return replace(plan, count=args.count or plan.count)


def _check_machines(args: argparse.Namespace, plan: Plan, given: set[str]) -> None:
    """Raise ArgumentError for devices that nobody on the command line named, and for other machines."""
    named = {f"{prefix}{getattr(args, dest)}" for dest, prefix in _MACHINES.items() if dest in given}
    theirs = {plan.reference, plan.tested}
    aliases = {"interpreter": "oracle"}
    other = sorted({aliases.get(name, name) for name in named} - theirs)
    if other:
        raise ArgumentError(
            f"got {other[0]} for the campaign in {args.store}", allowed=f"{plan.tested}, {plan.reference}"
        )
    untrusted = sorted(name for name in theirs - named if is_device(name))
    if untrusted and not args.trust:
        raise ArgumentError(
            f"got {untrusted[0]} from {args.store} only, a command that is not executed",
            fix="--trust, or name it with --tested",
        )


def _check_failures(args: argparse.Namespace, plan: Plan, given: set[str]) -> None:
    """Raise ArgumentError where the failures would go to a folder that only the store names, anywhere."""
    folder = PurePath(plan.failures or "")
    if "failures" in given:
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
        kept = action.dest in _INCIDENTAL - {"resume", "minutes"} or action.dest in _MACHINES
        if not kept and not (action.dest == "failures" and PurePath(value).is_absolute()):
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
