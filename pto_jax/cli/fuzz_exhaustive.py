"""``fuzz --exhaustive``: every input of lane-wise instructions with small sources."""

import argparse
import json

from ..campaign import exhaustive
from ..campaign.fuzz.focus import Focus
from ..campaign.machine_names import is_device
from ..campaign.machines import machine
from ..errors import ArgumentError
from ..profiles import PROFILE_NAMES, PROFILES
from .fuzz_plan import machines_of
from .options import ACCEPTED, REJECTED

_DEVICES = ("dut", "dut_batch", "dut_server")
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
            allowed = "--only --dtype --profile --json --tested --against --dut --dut-batch --dut-server"
            option = name.replace("_", "-")
            raise ArgumentError(f"--{option} with --exhaustive, which draws nothing; allowed: {allowed}")
    if not any(getattr(args, name) for name in ("tested", *_DEVICES)):
        args.tested = "jit"
    against, tested = machines_of(args, lockstep=False)
    if is_device(against):
        raise ArgumentError(f"--against {against} with --exhaustive; devices are tested: --tested, --dut")
    focus = Focus(only=tuple(args.only), dtypes=tuple(args.dtypes))
    profiles = [PROFILES[name] for name in dict.fromkeys(args.profile or PROFILE_NAMES)]
    rows = list(exhaustive.rows(profiles, focus.only, focus.dtypes))
    machines = machine(against), machine(tested, args.dut_timeout)
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
