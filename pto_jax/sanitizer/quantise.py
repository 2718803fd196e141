"""Definedness of the quantisation on the way out of an accumulator."""

import numpy as np

from ..oracle.numbers import Array
from ..oracle.quantise import has_relu
from .step import ShadowStep


def is_plain(step: ShadowStep) -> bool:
    """Whether an instruction moves bits, and changes none of them."""
    quantises = step.is_tile("fp") or "preQuantScalar" in step.operands
    same = step.dtype("src") == step.dtype()
    return same and not quantises and not has_relu(step)


def parameters(step: ShadowStep, columns: Array) -> Array:
    """The words of the parameter row that quantise some columns."""
    if not step.is_tile("fp"):
        return np.zeros((1, 1), np.int32)
    return step.gather("fp", np.zeros((1, 1), np.int64), columns)
