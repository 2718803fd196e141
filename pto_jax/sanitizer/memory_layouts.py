"""Definedness of the prefetch hint."""

from ..oracle.storage import map_of
from .step import ShadowStep, shadow_rule


@shadow_rule("tprefetch")
def _prefetch(step: ShadowStep) -> None:
    """The destination is scratch."""
    step.lose("scratch of a prefetch", map_of(step.type()))
