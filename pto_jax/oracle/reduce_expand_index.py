"""Positions of extreme values."""

import numpy as np

from .numbers import encode
from .reduce_expand import Along, first_lanes, select, write_lines
from .step import Step, rule


def _positions(step: Step, along: Along, *, largest: bool) -> None:
    """The simulator takes the first lane of a line without valid lanes; hardware writes nothing."""
    if 0 not in step.valid("src"):
        words, at = select(step, along, largest=largest)
    elif step.policy.simulator:
        words = step.flushed(first_lanes(step, along), "src")
        at = np.zeros(len(words), np.int64)
    else:
        return
    if step.is_tile("dstVal"):
        write_lines(step, along, words, "dstVal")
    write_lines(step, along, encode(at, step.dtype()))


rule("trowargmax")(lambda step: _positions(step, "row", largest=True))

rule("trowargmin")(lambda step: _positions(step, "row", largest=False))

rule("tcolargmax")(lambda step: _positions(step, "col", largest=True))

rule("tcolargmin")(lambda step: _positions(step, "col", largest=False))
