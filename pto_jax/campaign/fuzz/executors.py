"""Which executor a campaign has."""

from __future__ import annotations

from ..machine_names import is_device
from ..recorder import Recorder
from .executor import Beat, Executor
from .executor_cases import CaseExecutor
from .plan import Plan


def make(plan: Plan, recorder: Recorder, beat: Beat) -> Executor:
    """The executor of a campaign; the recorder is called once for each failure.

    Raises PtoError for machines and programs that there are not.
    """
    if plan.lockstep and is_device(plan.tested):
        from ..lockstep.devices import DeviceExecutor

        return DeviceExecutor(plan, recorder, beat)
    if plan.lockstep:
        from ..lockstep.executor import LockstepExecutor

        return LockstepExecutor(plan, recorder)
    return CaseExecutor(plan, recorder, beat)
