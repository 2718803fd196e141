"""The package imported from its wheel, a zip archive; reading and printing need no array library."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Files of the package that are data, by their ending.
_DATA = (".py", ".pto", ".json", ".css", ".html", ".typed")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("zipped") / "pto_jax.whl"
    with zipfile.ZipFile(found, "w") as made:
        for folder, name in ((ROOT / "pto_jax", "pto_jax"), (ROOT / "lowering", "pto_jax/lowering")):
            for path in sorted(folder.rglob("*")):
                inside = path.relative_to(folder)
                link = folder.name == "pto_jax" and inside.parts[0] == "lowering"
                if path.is_file() and path.suffix in _DATA and not link:
                    made.write(path, f"{name}/{inside}")
    return found


_USE = """
import json
import pto_jax as pto
from pto_jax.cli.main import main
from importlib.resources import files
from pto_jax.examples import EXAMPLES

assert ".whl" in pto.__file__, pto.__file__
assert all(pto.load(e.path).functions for e in EXAMPLES.values())
assert json.loads((files("pto_jax.editors") / "pto.tmLanguage.json").read_text())["scopeName"]
for command in (["run", "--example", "vector_add"], ["isa", "tile"], ["isa", "tadd"]):
    assert main(command) == 0, command
"""


@pytest.mark.slow
def test_data_of_the_package_are_read_from_an_archive(archive: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-c", _USE], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and "equal to NumPy" in done.stdout, done.stderr


_CODE = """
import sys
from pto_jax.text import parse, print_program
print_program(parse("%d = tadd %a, %b : !pto.tile<f32, 16, 16>"))
print([m for m in ("jax", "jaxlib") if m in sys.modules])
"""


def loaded(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_jax_is_not_imported() -> None:
    assert loaded(_CODE) == "[]"


@pytest.mark.slow
def test_the_check_sees_an_import() -> None:
    assert loaded("import jax\n" + _CODE) != "[]"
