"""The programs that ``python -m benchmarks`` measures, and what the command line sets for JAX's cache."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from benchmarks import bench, bench_compile, bench_examples, bench_programs, bench_registers
from benchmarks.bench_run import Run
from benchmarks.bench_table import Table, default_table
from pto_jax.cli.options import KEEP_COMPILED
from pto_jax.examples import EXAMPLES
from tests.cli.conftest import Commands
from tests.files.test_write import small_disk


def test_the_looped_program_has_about_100_instructions_and_is_legal() -> None:
    program = pto.parse(bench_programs.looped_program())
    count = sum(op.name.startswith("t") for op in program.walk())
    assert 80 <= count <= 110 and sum(op.name == "scf.for" for op in program.walk()) == 4
    assert not [d for d in pto.verify(program) if d.severity == "error"]


@pytest.mark.slow
def test_a_new_process_measures_its_first_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In this process, which has imported what a new one has to.
    exec(bench_compile._FIRST_RESULT, {})
    assert float(capsys.readouterr().out) > 0
    monkeypatch.setattr(bench_compile, "_FIRST_RESULT", "import os; print(os.environ['SECONDS'])")
    assert bench_compile._first_result({**os.environ, "SECONDS": "1.5"}) == 1.5


@pytest.mark.slow
def test_loops_of_registers_are_measured_against_a_tile_of_the_same_sum() -> None:
    x, y = (np.random.default_rng(n).standard_normal(bench_registers.ELEMENTS, np.float32) for n in (1, 2))
    programs = [bench_registers.tiled(), *map(bench_registers.looped, bench_registers.LOOPS.values())]
    for program in programs:
        found = pto.compile(program, warn=False)(x, y, np.zeros_like(x))["z"]
        assert (np.asarray(found) == x + y).all()


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_examples_are_measured_against_computes_the_same(name: str) -> None:
    example = EXAMPLES[name]
    given = example.arguments(1)
    by_hand = {k: np.asarray(v) for k, v in bench_examples.BY_HAND[name](given).items()}
    apart = example.differences(given, by_hand)
    assert set(apart) <= set(by_hand) and max(apart.values()) <= example.bound


def test_unknown_benchmarks_are_named(benchmarks: Commands) -> None:
    assert benchmarks("nope") == 2
    assert "no benchmark nope; allowed: add_relu_convert" in benchmarks.err


@pytest.mark.parametrize("configured", [True, False])
def test_a_configured_cache_keeps_everything(
    configured: bool, commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*KEEP_COMPILED, "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    if configured:
        monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "cache")
    assert commands("isa", "tadd") == 0
    assert all((name in os.environ) == configured for name in KEEP_COMPILED)


@pytest.fixture
def benchmarks(commands: Commands) -> Commands:
    """Runs ``python -m benchmarks``."""
    commands.main = bench.main
    return commands


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Two ratios and a time that the one benchmark of these tests finds, for a test to change."""
    values = {"a": 2.0, "b": 0.5, "seconds": 3.0}

    def case(run: Run) -> None:
        """Three figures."""
        run.add("a", values["a"], "x jnp's time", "<= 1.5", "lower")
        run.add("b", values["b"], "of copy bandwidth", ">= 0.8", "higher")
        run.add("seconds", values["seconds"], "s")

    monkeypatch.setattr(bench, "CASES", {"case": case})
    return values


def test_a_run_is_compared_with_the_table_by_its_ratios(
    measured: dict[str, float], benchmarks: Commands, tmp_path: Path
) -> None:
    table = str(tmp_path / "table.json")
    assert benchmarks("--update", "--table", table) == 0
    kept = json.loads(Path(table).read_text())
    assert set(kept["rows"]) == {"a", "b"} and kept["platform"] == "cpu"
    assert kept["date"] and kept["machine"] and {"jax", "jaxlib", "numpy", "python"} == set(kept["versions"])
    measured |= {"a": 2.49, "b": 0.41, "seconds": 300.0}
    assert benchmarks("--check", "--table", table) == 0
    measured |= {"a": 2.6, "b": 0.3}
    assert benchmarks("--check", "--table", table) == 1
    lines = [line for line in benchmarks.err.splitlines() if line.startswith("regression: ")]
    assert len(lines) == 2
    assert lines[0].startswith("regression: a: got 2.6 x jnp's time, the table of ")
    assert lines[0].endswith("has 2; 1.30 times worse; allowed: 1.25") and "1.67 times" in lines[1]


def test_what_was_worse_once_is_measured_again(
    measured: dict[str, float], benchmarks: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, case = str(tmp_path / "table.json"), bench.CASES["case"]
    benchmarks("--update", "--table", table)

    def slow_at_first(run: Run) -> None:
        """The same figures, first a bad one."""
        case(run)
        measured["a"], measured["b"] = 1.9, 0.1

    monkeypatch.setattr(bench, "CASES", {"case": slow_at_first})
    measured["a"] = 9.0
    assert benchmarks("--check", "--table", table, "--json", str(tmp_path / "out.json")) == 0
    found = {f["name"]: f["value"] for f in json.loads((tmp_path / "out.json").read_text())["figures"]}
    assert found == {"a": 1.9, "b": 0.5, "seconds": 3.0}


def test_ratios_of_other_runs_stay_in_the_table(
    measured: dict[str, float], benchmarks: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = str(tmp_path / "table.json")
    benchmarks("--update", "--table", table)

    def other(run: Run) -> None:
        """Another ratio."""
        run.add("c", 1.0, "x", "", "lower")

    monkeypatch.setattr(bench, "CASES", {"other": other})
    benchmarks("--update", "--table", table)
    assert set(Table.read(table).rows) == {"a", "b", "c"}


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"rows": {"a": {"value": 1, "unit": "x", "better": "no"}}}', "no"]
)
def test_a_file_that_is_no_table_is_named(content: str, benchmarks: Commands, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text(content)
    assert benchmarks("--check", "--table", str(table)) == 2
    assert str(table) in benchmarks.err and len(benchmarks.err.splitlines()) == 1


def test_a_table_of_another_kind_of_device_is_refused(benchmarks: Commands, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text(Path(default_table()).read_text().replace('"platform": "cpu"', '"platform": "gpu"'))
    assert benchmarks("--check", "--table", str(table)) == 2
    assert "was measured on gpu" in benchmarks.err and "got cpu" in benchmarks.err
    assert "--update --table" in benchmarks.err


def test_the_committed_table_has_ratios_that_are_measured() -> None:
    table = Table.read(default_table())
    names = {f"{n} {numerics} over jnp" for n in EXAMPLES for numerics in ("exact", "fast")}
    names |= {f"{name}, sizes known" for name in names}
    listed = {name for name, row in table.rows.items() if row.unit == "x jnp's time"}
    assert listed and listed <= names and table.platform == "cpu" and table.date


@pytest.mark.variants(1)
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_ratios_are_drawn(
    suffix: str, measured: dict[str, float], benchmarks: Commands, tmp_path: Path
) -> None:
    picture = tmp_path / f"ratios.{suffix}"
    assert benchmarks("--plot", str(picture)) == 0
    begins = {"png": b"\x89PNG", "svg": b"<?xml"}[suffix]
    assert picture.read_bytes().startswith(begins)


def test_a_picture_needs_its_library_and_a_known_suffix(
    benchmarks: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert benchmarks("--plot", str(tmp_path / "a.txt")) == 2
    assert "allowed: a file that ends in .pdf, .png, .svg" in benchmarks.err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert benchmarks("--plot", str(tmp_path / "a.png")) == 2
    assert "--plot needs matplotlib; try: pip install 'pto_jax[plot]'" in benchmarks.err


def test_a_full_disk_leaves_the_previous_figures(
    measured: dict[str, float], benchmarks: Commands, tmp_path: Path
) -> None:
    benchmarks.file("out", "before")
    with small_disk(20):
        assert benchmarks("--json", "out") == 2
    assert benchmarks.err == "python -m benchmarks: error: out: cannot be written: File too large\n"
    assert (tmp_path / "out").read_text() == "before"


@pytest.mark.slow
def test_the_module_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nope"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert ran.returncode == 2 and ran.stderr.startswith("python -m benchmarks: error: no benchmark nope")
