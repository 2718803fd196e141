"""Definedness of elementwise tile-tile instructions of several steps."""

from __future__ import annotations

from .lanes import lanewise
from .step import ShadowStep, shadow_rule


@shadow_rule(
    "tprelu", "taddrelu", "tsubrelu", "tmuladddst", "tfusedmuladd", "tfusedmuladdrelu", "taddc", "tsubc"
)
@shadow_rule("taddreluconv", "tsubreluconv", "tadddeqrelu")
def _lanes(step: ShadowStep) -> None:
    lanewise(step)
