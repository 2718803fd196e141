"""Definedness of accumulators on their way out with a row of parameter words."""

from __future__ import annotations

from .layout import move
from .layout_extract import extract, insert
from .memory import store
from .step import ShadowStep, shadow_rule


@shadow_rule("tmov.fp")
def _move(step: ShadowStep) -> None:
    move(step)


@shadow_rule("textract_fp")
def _extract(step: ShadowStep) -> None:
    extract(step)


@shadow_rule("tinsert_fp")
def _insert(step: ShadowStep) -> None:
    insert(step)


@shadow_rule("tstore_fp")
def _store(step: ShadowStep) -> None:
    store(step)
