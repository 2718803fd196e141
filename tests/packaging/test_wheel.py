"""The wheel holds exactly the package's files, also from the sdist, and runs elsewhere and from a zip."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "pto_jax", "lowering")


def command(*args: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{args} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def expected_files() -> set[str]:
    """Files the wheel must hold, as the tree has them; ``lowering/`` appears inside the package."""
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "pto_jax").rglob("*")
        if path.suffix in (".py", ".pyi", ".pto", ".html", ".css", ".json", ".csv") or path.name == "py.typed"
    }
    package = {name for name in package if not name.startswith("pto_jax/lowering/")}
    lowering = {f"pto_jax/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "lowering").rglob("*.py")}
    return package | lowering


def clean_copy(copy: Path) -> Path:
    """The tree without build leftovers."""
    copy.mkdir(exist_ok=True)
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        elif source.exists():
            shutil.copy2(source, copy / name)
    (copy / "README.md").touch()
    return copy


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built by way of the sdist from a clean copy of the tree."""
    copy = clean_copy(tmp_path_factory.mktemp("tree"))
    out = tmp_path_factory.mktemp("dist")
    command("-m", "build", "--no-isolation", "--outdir", out, copy, cwd=copy)
    assert list(out.glob("*.tar.gz"))
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel unpacked as an installer would, in a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


@pytest.mark.slow
def test_the_wheel_holds_the_files_of_the_tree(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}
        metadata = {n.split("/", 1)[1] for n in archive.namelist() if ".dist-info/" in n}
    assert names == expected_files()
    assert {"METADATA", "entry_points.txt", "licenses/LICENSE"} <= metadata


def test_type_checkers_follow_an_editable_install(tmp_path: Path) -> None:
    """It is a path in a .pth file, under which the package lies as it is installed, with its stubs."""
    copy = clean_copy(tmp_path / "tree")
    build = f"from setuptools.build_meta import build_editable; build_editable({str(tmp_path)!r})"
    command("-c", build, cwd=copy)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".pth"))
        path = Path(archive.read(name).decode().strip())
    assert (
        path == copy and (path / "pto_jax" / "ops.pyi").exists() and (path / "pto_jax" / "py.typed").exists()
    )
    assert (path / "pto_jax" / "lowering" / "__init__.py").exists()


@pytest.mark.slow
def test_the_installed_package_runs_in_another_folder(installed: Path, tmp_path: Path) -> None:
    code = "\n".join(
        [
            "import pto_jax as pto, pto_jax.lowering, pathlib",
            "from pto_jax.cli.main import main",
            f"assert pathlib.Path(pto.__file__).is_relative_to({str(installed)!r}), pto.__file__",
            "assert pto_jax.lowering.__name__ == 'pto_jax.lowering'",
            "raise SystemExit(main(['run', '--example', 'vector_add']))",
        ]
    )
    printed = command("-c", code, cwd=tmp_path, PYTHONPATH=str(installed), JAX_PLATFORMS="cpu")
    assert "z: f32[64, 64]" in printed


def test_every_package_folder_is_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    own = (path.parent.relative_to(ROOT).parts for path in (ROOT / "pto_jax").rglob("__init__.py"))
    lowering = (path.parent.relative_to(ROOT).parts for path in (ROOT / "lowering").rglob("__init__.py"))
    assert set(listed) == {".".join(p) for p in own} | {".".join(("pto_jax", *p)) for p in lowering}


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
