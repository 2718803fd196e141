"""What importing brings in: reading and verifying need no JAX, and ``lowering`` has one name."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECK = "import sys\nloaded = sorted(m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib'))\n"
REPORT = "raise SystemExit(f'JAX was imported: {loaded[:3]}' if loaded else 0)"
READ_AND_VERIFY = """
import pto_jax as pto
from pto_jax.examples import EXAMPLES
program = pto.load(EXAMPLES["vector_add"].path)
for profile in pto.PROFILES:
    pto.verify(program, profile=profile)
pto.verify(pto.parse("%d = tadd %a, %b : !pto.tile<16x16xf32>"), portable=True)
str(program)
"""


def python(code: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_read_and_verify_need_no_jax() -> None:
    done = python(READ_AND_VERIFY + CHECK + REPORT)
    assert done.returncode == 0, done.stderr


#: Commands that read programs and execute none, on a file K and an output O.
WITHOUT_JAX = (
    *("verify K", "verify K --json", "verify K --memory O.svg", "fmt K", "races K", "memory K"),
    *("cost K", "cost K --timeline O.svg", "cost K --timeline O.json", "diff --sync K K", "isa", "isa tile"),
    *("isa tadd", "isa set_flag", "isa --changes", "isa --contradictions", "run --example list"),
)


@pytest.mark.slow
def test_commands_that_execute_no_program_need_no_jax(tmp_path: Path) -> None:
    code = (
        "import shlex\nfrom pto_jax.cli.main import main\nfrom pto_jax.examples import EXAMPLES\n"
        f"names = {{'K': str(EXAMPLES['gemm_splitk'].path), 'O.svg': {str(tmp_path / 'o.svg')!r}, "
        f"'O.json': {str(tmp_path / 'o.json')!r}}}\n"
        f"for line in {WITHOUT_JAX!r}:\n"
        "    assert main([names.get(word, word) for word in shlex.split(line)]) == 0, line\n"
        "    assert not {'jax', 'jaxlib'} & sys.modules.keys(), line\n"
        "from pto_jax.editors import language_server\n"
    )
    done = python("import sys\n" + code + CHECK + REPORT)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_reading_a_line_loads_few_modules_and_compiling_it_no_others_than_it_needs() -> None:
    """Every module costs milliseconds in each new process."""
    code = (
        "import sys, pto_jax as pto\ncount = lambda: sum(m.startswith('pto_jax') for m in sys.modules)\n"
        "program = pto.parse('%z = tadd %x, %y : !pto.tile<f32, 4, 16>')\nread = count()\n"
        "pto.compile(program)\nprint(read, count())\n"
    )
    read, compiled = map(int, python(code).stdout.split())
    assert read <= 100 and compiled <= 210


@pytest.mark.slow
def test_the_purity_check_can_fail() -> None:
    done = python("import pto_jax as pto\npto.compile\n" + CHECK + REPORT)
    assert done.returncode != 0 and "JAX was imported" in done.stderr


@pytest.mark.slow
def test_executing_needs_nothing_that_checks_annotations() -> None:
    code = "import sys, numpy as np, pto_jax as pto\n"
    code += "pto.ops.tadd(np.ones((1, 8), np.float32), np.ones((1, 8), np.float32))\n"
    done = python(code + "raise SystemExit(str({'jaxtyping', 'beartype'} & sys.modules.keys()))")
    assert done.stderr.strip() == "set()", done.stderr


@pytest.mark.slow
def test_lowering_is_not_importable_by_itself() -> None:
    done = python("import lowering")
    assert done.returncode != 0 and "pto_jax.lowering" in done.stderr
    assert python("import pto_jax.lowering").returncode == 0


def test_an_unpickled_program_prints_itself() -> None:
    """Also where nothing else of the package was used."""
    import pto_jax as pto

    text = "%d = tadd %a, %b : !pto.tile<f32, 16, 16>"
    done = python(f"import pickle\nprint(pickle.loads({pickle.dumps(pto.parse(text))!r}))")
    assert done.stdout.strip() == text, done.stderr


def test_public_names_resolve_and_are_listed() -> None:
    import pto_jax as pto

    for name in pto.__all__:
        assert getattr(pto, name) is not None
        assert name in dir(pto)


@pytest.mark.slow
def test_functions_keep_their_names_after_their_modules_are_imported() -> None:
    code = (
        "import pto_jax.runtime.tiles, pto_jax.verifier.programs, pto_jax as pto\n"
        "from pto_jax.runtime.tiles import Tile\n"
        "assert callable(pto.tile) and callable(pto.verify) and pto.Tile is Tile\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_unknown_names_are_attribute_errors() -> None:
    done = python("import pto_jax\npto_jax.nonsense")
    assert "module 'pto_jax' has no attribute 'nonsense'" in done.stderr


def test_completion_shows_public_names_only_and_needs_no_jax() -> None:
    done = python("import pto_jax as pto\nprint(*dir(pto))\n" + CHECK + REPORT)
    assert done.returncode == 0, done.stderr
    shown = {n for n in done.stdout.split() if not n.startswith("__")}
    assert {"alloc_tile", "range", "tload", "tile_type", "tile", "builder", "ops"} <= shown
    assert not shown & {"Any", "TYPE_CHECKING", "find_spec", "import_module", "annotations", "_PUBLIC"}


def test_every_name_that_completion_shows_is_there() -> None:
    import pto_jax as pto

    for module in (pto, pto.ops, pto.builder):
        assert all(getattr(module, name) is not None for name in dir(module) if not name.startswith("__"))
    assert set(dir(pto.ops)) == {"names", "function", *pto.ops.names()}
    assert set(dir(pto.builder)) == {*pto.builder.__all__, *pto.builder.names()}
