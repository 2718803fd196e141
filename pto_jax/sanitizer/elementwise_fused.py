"""Definedness of elementwise tile-tile instructions of several steps."""

from __future__ import annotations

from .lanes import lanewise
from .step import sharing

_sharing = sharing(__name__)
_sharing("tprelu tsubrelu tmuladddst tfusedmuladd tfusedmuladdrelu taddc tsubc", lanewise)
_sharing("taddrelu taddreluconv tsubreluconv tadddeqrelu", lanewise)
