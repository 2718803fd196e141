"""What a campaign is going to do, in one line, before it begins."""

from ...profiles import PROFILE_NAMES
from ..machine_names import DEVICES, is_device
from .plan import Plan
from .progress import duration

#: Programs per second of one process on one core, of machines that compile each program.
_SLOW = {"eager": 0.4, "profile": 0.4, "trace": 0.3, "jit": 0.4, "fast": 1.0, "lockstep": 1.0}
#: What lockstep programs are made of, and what they have not.
_LOCKSTEP = "straight lines of 20 instructions on tiles"
_RATE = "hundreds of programs/s once a minute of compiling is over"
_LEFT_OUT = "control flow, memory, matrix, pipes, cores, 64-bit types"


def announcement(plan: Plan, workers: int, left: int) -> str:
    """The line that a campaign prints at its start; ``left`` programs are still to be executed.

    Machines and programs, what is left out and how to get it, and the rate that slow machines have.

    >>> announcement(Plan(tested="jit", presets=("control",)), 2, 1000)
    'jit against oracle, generated programs (control), all profiles, 2 processes; each program is compiled: \
about 0.8 programs/s, 1000 programs in 20 min 50 s; without --tested, --against and --preset: lockstep, \
20 programs/s'
    """
    profiles = "all profiles" if plan.profiles in ((), PROFILE_NAMES) else " ".join(plan.profiles)
    processes = "1 process" if workers == 1 else f"{workers} processes"
    line = f"{plan.tested} against {plan.reference}, {_programs(plan)}, {profiles}, {processes}"
    return "; ".join([line, *_remarks(plan, workers, left)])


def _programs(plan: Plan) -> str:
    if plan.programs:
        files = "1 file" if len(plan.programs) == 1 else f"{len(plan.programs)} files"
        return f"{files}, mutated" if plan.mutate else files
    what = "functions over pointers" if plan.form == "kernel" else "generated programs"
    return _LOCKSTEP if plan.lockstep else f"{what} ({' '.join(plan.presets) or 'all presets'})"


def _remarks(plan: Plan, workers: int, left: int) -> list[str]:
    kinds = {machine.partition(":")[0] for machine in (plan.reference, plan.tested)}
    if plan.lockstep and is_device(plan.tested):
        return [f"expected results from lockstep, {_RATE}", f"left out: {_LEFT_OUT}: without --lockstep"]
    if plan.lockstep:
        return [f"left out: {_LEFT_OUT}: --tested jit takes them all, about {_rate('jit', workers)}"]
    if plan.tested.startswith("oracle:again"):
        return ["a baseline: each program twice, the second time in another process, with the same results"]
    slow = min(kinds & set(_SLOW), key=_SLOW.__getitem__, default=None)
    if slow is not None:
        seconds = duration(left / (_SLOW[slow] * workers))
        remark = f"each program is compiled: about {_rate(slow, workers)}, {left} programs in {seconds}"
        faster = "without --tested, --against and --preset: lockstep, 20 programs/s"
        return [remark] if plan.programs or kinds & set(DEVICES) else [remark, faster]
    if kinds & set(DEVICES) and workers > 1:
        return [f"up to {workers} programs at the same time, --workers 1: one after the other"]
    return []


def _rate(slow: str, workers: int) -> str:
    return f"{_SLOW[slow] * workers:.2g} programs/s"
