"""Type checkers know the functions that are made from declarations."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pto_jax as pto
from pto_jax import isa
from tools.stubs import ops_stub, stubs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ACCEPTED = """
import jax.numpy as jnp
import numpy as np
import pto_jax as pto
from pto_jax import nn

x = np.ones((16, 64), np.float32)
half: pto.Tile = pto.ops.tcvt(x, dst="f16", rmode="RINT", profile="a5")
both = pto.ops.tadds(half, 1.0, numerics="fast", checks=True)
total, report = both
print(report.problems(), total.array, pto.ops.function("tcosh")(x))
pto.compile(pto.parse("%d = tneg %a"), profile="a5", numerics="fast").map(x[None], out=x[None])
y = nn.linear(x, x.T, format="fp8", profile="a5")
print(pto.straight_through(lambda x: pto.ops.tneg(x).array, lambda x: -x)(y), jnp.ones(3))
codes, scale = nn.quantise(x, nn.calibrate(x, percentile=99.9), format="int8")


@pto.kernel(types=(pto.ptr("f32"),))
def kernel(p: pto.Handle) -> None:
    t = pto.alloc_tile("f32", 16, 64)
    loaded = pto.tload(t, pto.GlobalTensor(p, (16, 64)))
    pto.tadds(t, src=t, scalar=2.0, wait=loaded)
    pto.TCVT(t, t, rmode="rint")
"""
REJECTED = (
    'pto.ops.tadd(x, x, profile="a9")',
    'pto.ops.tcvt(x, dst="i32", rmode="NEAREST")',
    'pto.ops.tcvt(x, dst="i32", rmod="RINT")',
    "pto.tnegg(x, x)",
    "pto.ops.tnegg(x)",
    "pto.ops.tadd(x)",
    'pto.ops.tadd(x, x, numerics="quick")',
    'pto.compile(program, profile="a9")',
    'pto.verify(program, profile="a9")',
    'pto.nn.linear(x, x, format="int7")',
    'pto.ops.tadd(x, x).words.missing_attribute_of_a_tile_s_array + pto.tile(x).nothing',
)  # fmt: skip


@pytest.mark.parametrize("path", stubs(), ids=lambda p: str(p.name))
def test_the_committed_stubs_are_those_of_the_declarations(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == stubs()[path], "python -m tools.stubs writes it"


def test_every_function_and_attribute_is_listed() -> None:
    text = ops_stub()
    assert set(re.findall(r"^def (t\w+)\(", text, re.MULTILINE)) == set(pto.ops.names())
    for attribute in isa.instructions()["tcvt"].attributes:
        assert re.search(rf"^def tcvt\(.*{attribute.name}: _\w+ = \.\.\.", text, re.MULTILINE)


def _script(folder: Path) -> tuple[Path, list[int]]:
    """Scripts of a user's: what is right, and what is wrong with the lines that are."""
    (folder / "readme.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL)))
    (folder / "accepted.py").write_text(ACCEPTED)
    head = ["import numpy as np", "import pto_jax as pto", 'program = pto.parse("")', "x = np.ones((1, 8))"]
    (folder / "rejected.py").write_text("\n".join([*head, *REJECTED]) + "\n")
    return folder, [len(head) + i + 1 for i in range(len(REJECTED))]


@pytest.mark.nightly
@pytest.mark.slow
def test_mypy_accepts_and_rejects(tmp_path: Path) -> None:
    folder, wrong = _script(tmp_path)
    (folder / "mypy.ini").write_text("[mypy]\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "readme.py", "accepted.py", "rejected.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"^(\w+\.py):(\d+): error", done.stdout, re.MULTILINE)
    assert {f for f, _ in errors} == {"rejected.py"}, done.stdout
    assert sorted({int(n) for _, n in errors}) == wrong, done.stdout


@pytest.mark.slow
def test_pyright_accepts_and_rejects(tmp_path: Path) -> None:
    pytest.importorskip("basedpyright", reason="a package of the extra dev, which CI has")
    folder, wrong = _script(tmp_path)
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard"}))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    places = ((Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["severity"]) for d in found)
    errors = [(file, line) for file, line, severity in places if severity == "error"]
    assert {f for f, _ in errors} == {"rejected.py"}, done.stdout
    assert sorted({n for _, n in errors}) == wrong, done.stdout
