"""Accumulators on their way out with a row of parameter words; stores are the machine's."""

from __future__ import annotations

from .layout import move
from .layout_extract import extract, insert
from .rules import rule

rule("tmov.fp")(move)
rule("textract_fp")(extract)
rule("tinsert_fp")(insert)
