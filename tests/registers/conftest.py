"""Which rules a formula is compared with."""

from __future__ import annotations

from typing import Any

import pytest

from . import calls


@pytest.fixture(params=["interpreter", pytest.param("both", marks=pytest.mark.slow)])
def rooms(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter's rule; in a slow run the compiled one too, which has to give the same bits."""
    monkeypatch.setattr(calls, "COMPILED", request.param == "both")
