"""Definedness of copies that fill what is not valid."""

from __future__ import annotations

from .step import ShadowStep, shadow_rule


@shadow_rule("tfillpad", "tfillpad_inplace", "tfillpad_expand")
def _fill(step: ShadowStep) -> None:
    step.moved("src", attrs={**step.attrs, "padValue": 0})
