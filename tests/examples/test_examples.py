"""Every shipped example: accepted, run by its name, equal to the interpreter and close to NumPy."""

import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.cli.main import main
from pto_jax.examples import EXAMPLES, ON_RANKS, Example, example
from pto_jax.examples.describe import difference
from pto_jax.text import print_program

#: Profiles whose matrix buffers a program is written for; all others run everywhere without a warning.
PROFILES = {
    **dict.fromkeys(
        ("gemm_splitk", "swiglu_ffn", "gqa_decode", "int8_matmul", "pipe_linear", "indexer"), "cpu_sim a2a3"
    ),
    "flash_attention": "cpu_sim a5",
    "mx_matmul": "a5",
    "mx_expert": "a5",
}
EXACT = ("vector_add", "add_relu_convert", "masked_tile", "conversion_chain", "topk")


@functools.cache
def program(name: str) -> pto.Program:
    return pto.load(example(name).path)


def interpreted(found: Example, given: dict[str, NDArray[Any]]) -> dict[str, Any]:
    return oracle.run(program(found.name), given, grid=found.grid)


def words(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def test_every_program_in_the_folder_is_an_example() -> None:
    assert {path.stem for path in Path(str(example("vector_add").path)).parent.glob("*.pto")} == set(EXAMPLES)


#: Examples that take seconds to compile.
LARGE = frozenset(
    "gqa_decode flash_attention grid_reduction indexer mx_expert pipe_linear gemm_splitk softmax swiglu_ffn"
    " topk".split()
)


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in LARGE else ()) for n in EXAMPLES]
)
def test_examples_run_by_name_with_the_bits_of_the_interpreter(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out = example(name), tmp_path / "out.npz"
    assert main(["run", "--example", name, "--outputs", str(out)]) == 0
    text = capsys.readouterr().out
    assert f"program: {found.summary}" in " ".join(text.split()) and "check:   " in text
    assert ("equal to NumPy" in text) == (name in EXACT)
    given = found.arguments()
    expected = interpreted(found, given)
    with np.load(out) as written:
        assert set(written.files) == set(expected)
        for key, array in expected.items():
            assert words(written[key]) == words(array), key
    apart = found.differences(given, expected)
    assert 0 <= max(apart.values()) <= found.bound and (found.bound == 0) == (name in EXACT)


BATCHES: dict[str, dict[str, list[int]]] = {
    "softmax": {"rows": [45, 1, 16], "cols": [100, 45, 7]},
    "grid_reduction": {"rows": [200, 80, 1]},
    "gqa_decode": {"length": [200, 64, 1]},
    "indexer": {"length": [200, 65, 0]},
    "mx_expert": {"expert": [2, 0, 3]},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BATCHES)
def test_examples_run_in_a_batch_of_different_sizes(name: str) -> None:
    found, sizes = example(name), BATCHES[name]
    made = [found.arguments(seed) for seed in range(3)]
    for key, values in sizes.items():
        for given, value in zip(made, values, strict=True):
            given[key] = np.asarray(value)
    kernel = pto.compile(program(name), grid=found.grid)
    batch = jax.vmap(kernel)(*(np.stack([given[a.name] for given in made]) for a in kernel.arguments))
    for i, given in enumerate(made):
        expected = interpreted(found, given)
        assert max(found.differences(given, expected).values()) <= found.bound
        for key, array in expected.items():
            assert words(batch[key][i]) == words(array), (key, i)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_accepted_without_a_warning(name: str) -> None:
    for profile in PROFILES.get(name, "cpu_sim a2a3 a5").split():
        assert pto.verify(program(name), profile=profile) == []
    runs_everywhere = "cpu_sim a2a3" in PROFILES.get(name, "cpu_sim a2a3 a5")
    assert (pto.verify(program(name), portable=True) == []) == runs_everywhere
    for profile in ("a2a3", "a5") if runs_everywhere else ():
        assert {d.rule for d in pto.verify(program(name), profile=profile)} <= {"left-layout"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_survive_every_spelling(name: str) -> None:
    for form in ("as", "ssa", "dps"):
        assert pto.parse(print_program(program(name), form=form)) == program(name)


def test_the_hand_synchronised_example_needs_every_wait() -> None:
    assert pto.verify(program("gemm_splitk"), level=3) == []
    lines = example("gemm_splitk").path.read_text().splitlines()
    loop = range(lines.index("    // Every flag that was set is waited for once."))
    waits = [i for i, line in enumerate(lines) if "wait_flag" in line and (i in loop or "PIPE_FIX" in line)]
    assert len(waits) == 9
    for i in waits:
        findings = pto.verify(pto.parse("\n".join(lines[:i] + lines[i + 1 :])))
        assert any("nothing orders" in d.message for d in findings), lines[i]
        assert {d.rule for d in findings} <= {"hazard", "token"}


def test_the_number_of_blocks_does_not_change_a_grid_stride_reduction_much() -> None:
    found, given = example("grid_reduction"), example("grid_reduction").arguments(3)
    for grid in (1, 3, 20):
        result = oracle.run(program("grid_reduction"), given, grid=grid)
        assert found.differences(given, result)["result"] <= found.bound


def test_examples_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--example", "list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    everything = {**EXAMPLES, **ON_RANKS}
    assert [line.split()[0] for line in listed] == list(everything)
    assert all(e.summary in line for line, e in zip(listed, everything.values(), strict=True))
    assert main(["run", "--example", "nothing"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "; allowed: " + ", ".join(list(everything)[:8]) in error
    assert f"and {len(everything) - 8} more (pto-jax run --example list)" in error


def test_arguments_given_as_raw_words_are_checked_too() -> None:
    found = example("mx_matmul")
    given = found.arguments()
    raw = {n: a.view(np.uint8) if a.dtype.itemsize == 1 else a for n, a in given.items()}
    expected = interpreted(found, given)
    assert found.differences(raw, expected) == found.differences(given, expected)


def test_differences_see_what_is_no_number() -> None:
    one, nan = np.ones(2), np.array([1, np.nan])
    assert difference(one, one) == difference(nan, nan) == 0
    assert difference(one, nan) == difference(nan, one) == np.inf
    assert difference(np.array([np.inf]), np.array([np.inf])) == 0
    assert difference(np.array([1.5, 7], np.float32), np.array([2.0])) == 0.5
