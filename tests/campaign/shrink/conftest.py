"""A failure folder, and a copy of it that a test may spoil."""

import sys
from pathlib import Path

import pytest

from pto_jax.cases.targets import Oracle
from pto_jax.failures.folder import About, save
from pto_jax.failures.search import Finding
from tests.campaign.shrink.planted import WRONG_ADDITION, failures

#: What code from a folder would make.
MARKER = "executed"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a failure that one of two machines of Python shows."""
    outcome = next(o for o in failures("straight") if o.kind == "different")
    case = outcome.case
    finding = Finding(outcome, Oracle().run(case), WRONG_ADDITION.run(case))
    return save(tmp_path_factory.mktemp("f"), case, finding, About("tadd", "why", "oracle", "eager"))


@pytest.fixture
def folder(failed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in the current folder, where a module waits for its import."""
    made = tmp_path / "failures" / "cause" / "seed6-1"
    made.mkdir(parents=True)
    for file in failed.iterdir():
        (made / file.name).write_bytes(file.read_bytes())
    (tmp_path / "hostile.py").write_text(
        f"import pathlib\npathlib.Path({MARKER!r}).touch()\n"
        "from tests.campaign.shrink.planted import WRONG_ADDITION\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "hostile", raising=False)
    return made
