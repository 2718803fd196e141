"""Findings in a file that grows: what was examined before a process ended need not be examined again."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from pto_jax.errors import ArgumentError
from tools.gpu_code.gpu_findings import Finding

#: Operation, profile, target and number: see :attr:`Finding.key`.
Key: TypeAlias = tuple[str, str, str, int]


class Store:
    """A file with a line of settings and a line per finding; one of other settings is refused.

    A last line that was not written to its end is dropped.
    """

    def __init__(self, path: str, settings: Mapping[str, Any]) -> None:
        self._path = Path(path)
        try:
            text = self._path.read_text() if self._path.exists() else ""
            whole = text[: text.rfind("\n") + 1]
            first, *lines = [json.loads(line) for line in whole.splitlines()] or [dict(settings)]
            self.known: dict[Key, Finding] = {f.key: f for f in (Finding(**line) for line in lines)}
            self._path.write_text(whole or json.dumps(dict(settings)) + "\n")
        except (OSError, ValueError, TypeError) as error:
            raise ArgumentError(f"--store {path}: found no file of findings ({error})") from None
        if first != settings:
            raise ArgumentError(f"--store {path}: found results of {first}; allowed: {dict(settings)}")

    def add(self, findings: Iterable[Finding]) -> None:
        """Append findings."""
        lines = [json.dumps(asdict(f)) + "\n" for f in findings]
        with self._path.open("a") as file:
            file.write("".join(lines))
