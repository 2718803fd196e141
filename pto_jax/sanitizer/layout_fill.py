"""Definedness of copies that fill what is not valid."""

from .step import ShadowStep, shadow_rule


@shadow_rule("tfillpad", "tfillpad_inplace", "tfillpad_expand")
def _fill(step: ShadowStep) -> None:
    step.moved("src", attrs={**step.attrs, "padValue": 0})
