"""Definedness of accumulators on their way out with a row of parameter words."""

from . import layout, layout_extract, memory
from .step import shadow_rule

shadow_rule("tmov.fp")(lambda step: layout.move(step))
shadow_rule("textract_fp")(lambda step: layout_extract.extract(step))
shadow_rule("tinsert_fp")(lambda step: layout_extract.insert(step))
shadow_rule("tstore_fp")(lambda step: memory.store(step))
