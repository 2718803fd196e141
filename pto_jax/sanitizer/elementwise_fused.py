"""Definedness of elementwise tile-tile instructions of several steps."""

from .lanes import lanewise
from .step import shadow_rule

shadow_rule(*"tprelu tsubrelu tmuladddst tfusedmuladd tfusedmuladdrelu taddc tsubc".split())(
    lambda step: lanewise(step)
)
shadow_rule("taddrelu", "taddreluconv", "tsubreluconv", "tadddeqrelu")(lambda step: lanewise(step))
