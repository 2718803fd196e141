"""Accumulators on their way out with a row of parameter words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import layout, layout_extract
from .memory import tstore
from .rules import Context, GlobalMemory, Inputs, Output, memory_rule, rule

if TYPE_CHECKING:
    from .arrays import Flat


@rule("tmov.fp")
def _move(c: Context, inputs: Inputs) -> Mapping[str, Output]:
    return layout.move(c, inputs)


@rule("textract_fp")
def _extract(c: Context, inputs: Inputs) -> Mapping[str, Output]:
    return layout_extract.extract(c, inputs)


@rule("tinsert_fp")
def _insert(c: Context, inputs: Inputs) -> Mapping[str, Output]:
    return layout_extract.insert(c, inputs)


@memory_rule("tstore_fp")
def _store(c: Context, inputs: Inputs, memory: GlobalMemory) -> Flat:
    return tstore(c, inputs, memory)
