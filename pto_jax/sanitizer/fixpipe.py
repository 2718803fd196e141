"""Definedness of accumulators on their way out with a row of parameter words."""

from __future__ import annotations

from .layout import move
from .layout_extract import extract, insert
from .memory import store
from .step import sharing

_sharing = sharing(__name__)
_sharing("tmov.fp", move)
_sharing("textract_fp", extract)
_sharing("tinsert_fp", insert)
_sharing("tstore_fp", store)
