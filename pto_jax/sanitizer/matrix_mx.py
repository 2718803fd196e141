"""Definedness of block-scaled products."""

from __future__ import annotations

from .matrix import product
from .step import sharing

_sharing = sharing(__name__)
_sharing("tmatmul.mx tmatmul.mx.acc tmatmul.mx.bias tgemv.mx tgemv.mx.acc tgemv.mx.bias", product)
