"""Accumulators on their way out with a row of parameter words."""

import numpy as np

from . import layout_extract, memory, quantise
from .step import Step, rule


@rule("tmov.fp")
def _move(step: Step) -> None:
    parameters = quantise.row_parameters(step, np.arange(step.region[1])[None, :])
    step.put(quantise.outgoing(step, step.raw("src"), step.dtype(), parameters))


@rule("textract_fp")
def _extract(step: Step) -> None:
    words, columns = layout_extract.window(step)
    step.put(quantise.outgoing(step, words, step.dtype(), quantise.row_parameters(step, columns)))


@rule("tinsert_fp")
def _insert(step: Step) -> None:
    region = step.valid("src")
    parameters = quantise.row_parameters(step, np.arange(region[1])[None, :])
    layout_extract.insert(step, quantise.outgoing(step, step.raw("src", region), step.dtype(), parameters))


@rule("tstore_fp")
def _store(step: Step) -> None:
    rows, cols = step.valid("src")
    columns = np.arange(cols)[None, :]
    if step.policy.simulator and step.type("src").blayout.name == "COL_MAJOR":
        # The simulator picks the word by row in tiles of this block layout.
        columns = np.arange(rows)[:, None]
    memory.store(step, quantise.row_parameters(step, columns))
