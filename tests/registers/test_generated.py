"""Generated kernels of micro-operations: the engine, alone and in a batch, and the interpreter."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.oracle.interpret import run
from pto_jax.text import print_program

from . import generated
from .calls import data
from .expansion import words


def agree(seed: int) -> None:
    text = generated.kernel(seed)
    assert text == generated.kernel(seed)
    inputs = [
        data(pto.dtype("i32"), generated.ROWS * 64, (seed, k)).reshape(-1, 64).view(np.int32)
        for k in range(3)
    ]
    before = np.zeros((generated.ROWS, 64), np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.PtoWarning)
        program = pto.parse(text)
        kernel = pto.compile(program, profile="a5")
        wanted = [run(program, {"a_g": a, "d_g": before}, profile="a5")["d_g"] for a in inputs]
        got = jax.vmap(lambda a: kernel(a, before)["d_g"])(np.stack(inputs))
        alone = kernel(inputs[0], before)["d_g"]
    np.testing.assert_array_equal(words(got), words(np.stack(wanted)), text)
    np.testing.assert_array_equal(words(alone), words(wanted[0]), text)


@pytest.mark.parametrize("seed", range(2))
def test_a_generated_kernel_gives_equal_bits_everywhere(seed: int) -> None:
    agree(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 42))
def test_generated_kernels_give_equal_bits_everywhere(seed: int) -> None:
    agree(seed)


def test_generated_kernels_print_as_they_are_read() -> None:
    for seed in range(20):
        program = pto.parse(generated.kernel(seed))
        shown = print_program(program)
        assert print_program(pto.parse(shown)) == shown
