"""Files of the checkout that are not judged as their builds say, each with its reason."""

from __future__ import annotations

REMAINING: dict[str, str] = {}
