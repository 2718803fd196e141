"""The process in which campaign processes meet: ``python -m pto_jax.campaign.fuzz.meeting JSON``."""

import json
import sys
from typing import Any


def meet(coordinator: str, process: int | None, processes: int | None, plan: int, seconds: int) -> None:
    """Wait ``seconds`` for all processes; print which one this is, and whether all have the same plan."""
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    jax.distributed.initialize(coordinator, processes, process, initialization_timeout=seconds)
    plans = np.asarray(multihost_utils.process_allgather(np.uint32(plan)))
    answer: dict[str, Any] = {
        "process": jax.process_index(),
        "processes": jax.process_count(),
        "equal": bool((plans == plans.reshape(-1)[0]).all()),
    }
    print(json.dumps(answer), flush=True)
    jax.distributed.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    meet(**json.loads(sys.argv[1]))
