"""The files of the reading guide are those that an instruction passes through."""

import ast
import re
import sys
from pathlib import Path
from types import FrameType

import numpy as np

import pto_jax as pto
from pto_jax.ir import F32, TileType
from pto_jax.oracle import OracleTile, run

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/reading_guide.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \d+ \| `(.*?)` \| `(.*?)` \|", GUIDE, re.MULTILINE)
#: Executed when the module is imported.
TABLES = {"TADD", "_arithmetic", "_lanewise"}


def test_the_guide_has_at_most_13_files_that_exist() -> None:
    assert 10 <= len(ROWS) <= 13
    files = re.findall(r"`([\w/]+\.(?:py|md))`", GUIDE)
    assert not [f for f in files if not (ROOT / f).is_file()]


def test_each_file_has_the_definition_that_the_guide_names() -> None:
    for file, name in ROWS:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        targets = (t for s in tree.body if isinstance(s, ast.Assign) for t in s.targets)
        names = {t.id for t in targets if isinstance(t, ast.Name)}
        names |= {s.name for s in tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}
        assert name in names, (file, name)


def test_an_instruction_passes_through_the_files_of_the_guide() -> None:
    (line,) = re.findall(r"```text\n(.*)\n```", GUIDE)
    passed: set[tuple[str, str]] = set()

    def observe(frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            file = (
                Path(code.co_filename).relative_to(ROOT).as_posix().replace("pto_jax/lowering/", "lowering/")
            )
            passed.add((file, code.co_qualname.partition(".")[0]))

    # A shape of its own, so that nothing is in a cache.
    program_text = line.replace("4, 16", "5, 24")
    x = np.linspace(0, 1, 120, dtype=np.float32).reshape(5, 24)
    pto.compile(pto.parse(program_text.replace("tadd", "tsub")), profile="a2a3")
    sys.setprofile(observe)
    try:
        program = pto.parse(program_text)
        assert not pto.verify(program, profile="a2a3")
        z = pto.compile(program, profile="a2a3")(x, x)["z"].array
        tile = TileType(F32, 5, 24)
        by_oracle = run(program, {n: OracleTile(tile, x) for n in "xy"}, profile="a2a3")["z"]
    finally:
        sys.setprofile(None)
    np.testing.assert_array_equal(z, x + x)
    np.testing.assert_array_equal(by_oracle.data, x + x)
    assert {(file, name) for file, name in ROWS if name not in TABLES} <= passed
    assert ("lowering/elementwise.py", "_arithmetic") in passed
