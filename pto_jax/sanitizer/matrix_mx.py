"""Definedness of block-scaled products."""

from .matrix import product
from .step import shadow_rule

shadow_rule(*"tmatmul.mx tmatmul.mx.acc tmatmul.mx.bias tgemv.mx tgemv.mx.acc tgemv.mx.bias".split())(
    lambda step: product(step)
)
