"""Definedness of accumulators on their way out with a row of parameter words."""

from __future__ import annotations

from .layout import move
from .layout_extract import extract, insert
from .memory import store
from .step import shadow_rule

shadow_rule("tmov.fp")(lambda step: move(step))
shadow_rule("textract_fp")(lambda step: extract(step))
shadow_rule("tinsert_fp")(lambda step: insert(step))
shadow_rule("tstore_fp")(lambda step: store(step))
