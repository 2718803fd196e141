"""Warnings of compiling: the verifier's, once per program and profile."""

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main
from pto_jax.examples import EXAMPLES
from pto_jax.runtime import execution

_T, _PART = "!pto.tile<f32, 8, 8>", "!pto.tile<f32, 8, 8, v_row=4>"
#: tneg reads rows of %a that are not valid: a warning on every profile.
WARNED = f"pto.tneg ins(%a : {_PART}) outs(%d : {_T})"
_OPEN = "%d = tadd %a, %b"
_COUNT = itertools.count()


def warned(text: str = WARNED) -> pto.Program:
    """A program that no other test has compiled: its file is part of it."""
    return pto.parse(text, file=f"file{next(_COUNT)}.pto")


@pytest.fixture(autouse=True)
def _nothing_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_shown", set())


@pytest.fixture(name="seen")
def _seen() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield seen


def test_a_warning_names_the_place_in_the_program_and_points_at_the_users_line(
    seen: list[warnings.WarningMessage],
) -> None:
    program = warned()
    kernel = pto.compile(program, profile="a5")
    (found,) = seen
    (diagnostic,) = pto.verify(program, "a5")
    assert found.category is pto.PtoWarning and str(found.message) == str(diagnostic)
    assert str(found.message).startswith(f"file{next(_COUNT) - 1}.pto:1:")
    assert found.filename == __file__
    assert Path(__file__).read_text().splitlines()[found.lineno - 1].strip().startswith("kernel = pto.comp")
    assert kernel.warnings == (diagnostic,)


def test_once_per_program_and_profile(seen: list[warnings.WarningMessage]) -> None:
    program = warned()
    for _ in range(2):
        pto.compile(program, profile="a5")
        pto.compile(program, profile="a5", numerics="fast", checks=True)
    assert len(seen) == 1
    pto.compile(program, profile="cpu_sim")
    pto.compile(warned(), profile="a5")
    assert len(seen) == 3


def test_internal_compiles_are_silent(seen: list[warnings.WarningMessage]) -> None:
    kernel = pto.compile(warned(), profile="a5", warn=False)
    assert not seen and len(kernel.warnings) == 1


def test_a_filter_that_makes_errors_does_so_every_time() -> None:
    program = warned()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pto.PtoWarning)
        for _ in range(2):
            with pytest.raises(pto.PtoWarning, match="tneg"):
                pto.compile(program, profile="a5")


def test_a_fragment_without_types_warns_when_it_is_called(seen: list[warnings.WarningMessage]) -> None:
    part = pto.TileType(pto.dtype("f32"), 8, 8, v_row=4)
    tile, whole = pto.tile(np.ones((8, 8), np.float32), type=part), np.ones((8, 8), np.float32)
    kernel = pto.compile(pto.parse(_OPEN, file=f"open{next(_COUNT)}.pto"), profile="a5")
    assert not seen and not kernel.warnings
    for _ in range(2):
        jax.eval_shape(lambda b: kernel(whole, tile)["d"].words, whole)
    assert {(w.category, w.filename) for w in seen} == {(pto.PtoWarning, __file__)}
    assert len(seen) == len({str(w.message) for w in seen})


def test_many_warnings_are_counted(seen: list[warnings.WarningMessage]) -> None:
    pto.compile(warned("\n".join([WARNED] * 8)), profile="a5")
    assert [str(w.message) for w in seen][5:] == ["3 more warnings; pto.verify lists all"]


def test_the_command_prints_warnings_with_their_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "warned.pto"
    path.write_text(WARNED)
    assert main(["run", str(path), "--profile", "cpu_sim", "--sanitize"]) in (0, 1)
    printed = capsys.readouterr().err.splitlines()
    assert printed[0].startswith(f"{path}:1:") and ": warning: tneg: " in printed[0]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_have_no_warnings(name: str) -> None:
    assert not pto.verify(pto.load(EXAMPLES[name].path))
