"""Results as a JUnit file, which continuous integration shows test by test."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from ..files import write_bytes

#: Characters that XML has no form for.
_NONE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


Kind = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True)
class JunitCase:
    """One result: ``failure`` is a finding, ``error`` something that could not be found out."""

    name: str
    kind: Kind
    message: str = ""
    seconds: float = 0.0
    #: More about a failure, below its message.
    text: str = ""


def junit(suite: str, tests: Sequence[JunitCase]) -> bytes:
    """The content of a JUnit file.

    >>> made = junit("diff", [JunitCase("a.pto", "passed"), JunitCase("b.pto", "failure", "y differs")])
    >>> made.decode().splitlines()[1]
    '<testsuites><testsuite name="diff" tests="2" failures="1" errors="0" skipped="0" time="0.000">'
    """
    counts = Counter(t.kind for t in tests)
    root = ElementTree.Element("testsuites")
    numbers = {"tests": len(tests), "failures": counts["failure"], "errors": counts["error"]}
    element = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": suite,
            **{key: str(n) for key, n in numbers.items()},
            "skipped": str(counts["skipped"]),
            "time": f"{sum(t.seconds for t in tests):.3f}",
        },
    )
    element.text = "\n"
    for test in tests:
        result = ElementTree.SubElement(
            element,
            "testcase",
            {"classname": suite, "name": _clean(test.name), "time": f"{test.seconds:.3f}"},
        )
        result.tail = "\n"
        if test.kind != "passed":
            inner = ElementTree.SubElement(result, test.kind, {"message": _clean(test.message)})
            inner.text = _clean(test.text) or None
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def write_junit(path: str | Path, suite: str, tests: Sequence[JunitCase]) -> None:
    """Write a JUnit file; FileError where it cannot be written."""
    write_bytes(path, junit(suite, tests))


def _clean(text: str) -> str:
    return _NONE.sub("?", text)
