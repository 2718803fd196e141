"""The committed table of ratios that ``python -m benchmarks --check`` compares a run with.

Only ratios inside of one run are in it, so that a run on another machine of the same kind can be compared.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, cast

from benchmarks.bench_run import Figure
from pto_jax.errors import ArgumentError
from pto_jax.files import read_json, write_text

#: How much worse than the table's a ratio may be.
ALLOWED = 1.25
_COMMITTED = Path(__file__).with_name("bench_table.json")
_RENEW = "try: measure it on this machine, python -m benchmarks --update --table FILE"


def default_table() -> str:
    """The file of the committed table."""
    return str(_COMMITTED)


@dataclass(frozen=True)
class Row:
    """A ratio, its unit, and whether less or more of it is better."""

    value: float
    unit: str
    better: Literal["lower", "higher"]


@dataclass(frozen=True)
class Table:
    """Ratios by name, and what they were measured with: a platform of JAX, a machine, versions, a date."""

    platform: str
    machine: str
    versions: Mapping[str, str]
    date: str
    rows: Mapping[str, Row]

    @classmethod
    def of(cls, figures: Iterable[Figure], found: str, kind: str) -> Table:
        """The table of a run on devices of a platform and a kind."""
        versions = {"python": platform.python_version()}
        versions |= {name: version(name) for name in ("jax", "jaxlib", "numpy")}
        rows = {f.name: Row(round(f.value, 4), f.unit, f.better) for f in figures if f.better}
        if found == "cpu":
            kind = f"{_processor()}, {_cores()} of {os.cpu_count()} cores"
        return cls(found, kind, versions, datetime.now(UTC).date().isoformat(), rows)

    @classmethod
    def read(cls, path: str) -> Table:
        """A table from its file; ArgumentError for a file that holds none."""
        document = json.loads(_COMMITTED.read_text()) if path == default_table() else read_json(path)
        try:
            rows = {
                n: Row(float(r["value"]), r["unit"], _direction(r["better"]))
                for n, r in document["rows"].items()
            }
            return cls(
                document["platform"], document["machine"], dict(document["versions"]), document["date"], rows
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ArgumentError(f"{path}: got no table of benchmarks ({error!r}); {_RENEW}") from error

    def require(self, found: str) -> None:
        """Raise ArgumentError where the table was measured on another kind of device."""
        if found != self.platform:
            raise ArgumentError(
                f"the table was measured on {self.platform} ({self.machine}), got {found}; {_RENEW}"
            )

    def regressions(self, figures: Iterable[Figure]) -> list[str]:
        """A line for each figure that is worse than the table allows."""
        lines = []
        for f in figures:
            row = self.rows.get(f.name)
            if row is None or not f.better:
                continue
            worse = row.value / f.value if row.better == "higher" else f.value / row.value
            if not worse <= ALLOWED:
                lines.append(
                    f"{f.name}: got {f.value:.3g} {f.unit}, the table of {self.date} has {row.value:.3g}; "
                    f"{worse:.2f} times worse; allowed: {ALLOWED}"
                )
        return lines

    def written_over(self, path: str) -> None:
        """Write the table; ratios that this run did not measure stay."""
        kept: Mapping[str, Row] = {}
        if Path(path).exists():
            old = Table.read(path)
            kept = old.rows if old.platform == self.platform else {}
        made = asdict(self) | {"rows": {n: asdict(r) for n, r in {**kept, **self.rows}.items()}}
        write_text(path, json.dumps(made, indent=1) + "\n")


def _direction(given: Any) -> Literal["lower", "higher"]:
    if given not in ("lower", "higher"):
        raise ValueError(f"better is {given!r}")
    return cast("Literal['lower', 'higher']", given)


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    """The processor's name, as the operating system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
