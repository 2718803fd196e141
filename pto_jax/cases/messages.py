"""Words that messages of one cause share."""

from __future__ import annotations

import re

#: What differs between messages of one cause, and the length of what is left.
_INCIDENTAL = (
    (re.compile(r"(?<![\w.])(?:~?/[\w.+@-]+)+/?|\b[A-Za-z]:\\\\\S+"), "PATH"),
    (re.compile(r"\b0x[0-9a-fA-F]+"), "0xN"),
    (re.compile(r"%\w+"), "%"),
    (re.compile(r"\b[rs]?\d+(?:\.\d+)?\b"), "N"),
)


_LONGEST = 120


def normalised(message: str) -> str:
    """The last words of an error, without paths, addresses, names of values and numbers.

    >>> normalised(": loading | sim.cc:81: no tile %t3 at 0x7f00 in /tmp/x1/case.pto")
    'sim.cc:N: no tile % at 0xN in PATH'
    """
    lines = [part for part in re.split(r"\n| \| ", message.lstrip(": ")) if part.strip()]
    text = lines[-1].strip() if lines else ""
    for pattern, plain in _INCIDENTAL:
        text = pattern.sub(plain, text)
    return text[:_LONGEST].rstrip()
