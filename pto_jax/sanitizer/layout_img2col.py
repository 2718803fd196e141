"""Definedness of image-to-column."""

from dataclasses import replace

from ..isa.layout_img2col import IMG2COL_STATE
from .step import ShadowStep, shadow_rule


@shadow_rule("timg2col")
def _image_to_column(step: ShadowStep) -> None:
    """Taps outside the image are defined."""
    conv, state = step.type("src").conv, step.attrs.get(IMG2COL_STATE)
    if conv is None:
        return
    ref = step.tile("src")
    unpadded = replace(conv, geometry=replace(conv.geometry, pad_value=0))
    operands = {**step.operands, "src": replace(ref, type=replace(ref.type, conv=unpadded))}
    attrs = {**step.attrs, IMG2COL_STATE: (*state[:-1], 0)} if isinstance(state, tuple) else step.attrs
    step.moved("src", operands=operands, attrs=attrs)
