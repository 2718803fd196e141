"""Definedness of windows of tiles."""

import numpy as np

from ..oracle.layout_extract import insert as write_window, window
from .quantise import is_plain, parameters
from .shadow import first
from .step import ShadowStep, shadow_rule


@shadow_rule("textract")
def extract(step: ShadowStep) -> None:
    """The destination takes a window of the source."""
    if step.type("src").conv is not None or is_plain(step):
        step.moved("src")
        return
    origin_ids, columns = window(step)
    step.put(first(origin_ids, parameters(step, columns)))


@shadow_rule("tinsert")
def insert(step: ShadowStep) -> None:
    """A window of the destination takes the source."""
    if is_plain(step):
        step.moved("src")
        return
    region = step.valid("src")
    origin_ids = first(step.raw("src", region), parameters(step, np.arange(region[1])[None, :]))
    write_window(step, np.broadcast_to(origin_ids, region))
