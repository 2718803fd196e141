"""Loads and stores of logical registers: groups, blocks, lanes by turns, single elements, anywhere.

Each form is executed at a constant address with a constant stride, which the compiled function takes as
slices, and where only execution knows both.
"""

from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from tests.micro.programs import executed, kernel
from tests.micro.test_memory import data

P = "!pto.ptr<ui16, ub>"
#: 96 lanes in six groups of 16, which are 32 bytes.
R, M = "!pto.vmi.vreg<96xui16>", "!pto.vmi.mask<96xpred>"
X = data(16, 2048)
AT = np.arange(96)


def after(body: str, lines: str, known: bool) -> np.ndarray:
    """What ``y`` is after a kernel on 2048 words ``x`` and zeros, the same on every executor."""
    given: dict[str, Any] = {"x": X, "y": np.zeros(2048, np.uint16), "n": np.array([64, 40, 1, 2], np.int32)}
    given["n"] = np.resize(given["n"], 1024)
    text = kernel(body, {"x": "ui16", "y": "ui16", "n": "i32"}, lines)
    if known:
        # Batches are not checked for accesses; what is traced for a call is.
        jax.eval_shape(pto.compile(pto.parse(text), checks=True), *given.values())
    return executed(text, given, everywhere=not known)["y"]


def numbers(number: int, slot: int, known: bool) -> str:
    """A line that defines ``%s`` as a number, one of the text or one of a buffer in global memory."""
    if known:
        return f"%s = arith.constant {number} : index\n"
    return (
        f"%w = pto.ld_dev %n[%c{slot}] : !pto.ptr<i32, gm> -> i32\n%s = arith.index_cast %w : i32 to index\n"
    )


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_groups_of_lanes_are_loaded_and_stored_at_a_stride(known: bool) -> None:
    lines = numbers(40, 1, known)
    body = (
        f"%v = pto.vmi.vload %x_ub[%c16], %s {{group = 6}} : {P} -> {R}\n"
        f"pto.vmi.vstore %v, %y_ub[%c32], %s {{group = 6}} : {R}, {P}\n"
        f"pto.vmi.store %v, %y_ub[%c1024] : {R}, {P}"
    )
    found, want = after(body, lines, known), np.zeros(2048, np.uint16)
    at = AT // 16 * 40 + AT % 16
    want[32 + at] = X[16 + at]
    want[1024:1120] = X[16 + at]
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_blocks_of_lanes_are_loaded_and_stored_at_a_stride(known: bool) -> None:
    """The stride of blocks counts 32 bytes; a store of blocks has a mask."""
    lines = numbers(2, 3, known) + "%b = arith.index_cast %s : index to i16\n"
    body = (
        f"%n40 = arith.constant 40 : index\n%m = pto.vmi.create_mask %n40 : index -> {M}\n"
        f"%v = pto.vmi.vload %x_ub[%c16], %b : {P} -> {R}\n"
        f"pto.vmi.vsstb %v, %y_ub[%c64], %b, %m : {R}, {P}, {M}\n"
        f"pto.vmi.vstore %v, %y_ub[%c1024], %m : {R}, {P}, {M}"
    )
    found, want = after(body, lines, known), np.zeros(2048, np.uint16)
    at = AT // 16 * 32 + AT % 16
    want[64 + at[:40]] = X[16 + at[:40]]
    want[1024:1064] = X[16 + at[:40]]
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_one_element_is_loaded_into_all_lanes(known: bool) -> None:
    """A group of one lane is one element, too."""
    body = (
        f'%v = pto.vmi.vload %x_ub[%s] {{dist_mode = "brc"}} : {P} -> {R}\n'
        f"pto.vmi.vstore %v, %y_ub[%c0] : {R}, {P}\n"
        f"%g = pto.vmi.vload %x_ub[%s], %c3 {{group = 96}} : {P} -> {R}\n"
        f"pto.vmi.vstore %g, %y_ub[%c512], %c2 {{group = 96}} : {R}, {P}"
    )
    found, want = after(body, numbers(64, 0, known), known), np.zeros(2048, np.uint16)
    want[:96] = X[64]
    want[512 + 2 * AT] = X[64 + 3 * AT]
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_element_of_each_group_is_loaded_into_its_lanes(known: bool) -> None:
    body = (
        f'%v = pto.vmi.vload %x_ub[%c16], %s {{dist_mode = "brc", group = 6}} : {P} -> {R}\n'
        f"pto.vmi.vstore %v, %y_ub[%c0] : {R}, {P}"
    )
    found = after(body, numbers(40, 1, known), known)
    np.testing.assert_array_equal(found[:96], X[16 + AT // 16 * 40])


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_second_stride_of_blocks_moves_all_of_them(known: bool) -> None:
    """It counts blocks of 32 bytes; a store has the mask behind it, or none."""
    lines = numbers(2, 3, known) + "%b = arith.index_cast %s : index to i16\n"
    body = (
        f"%n40 = arith.constant 40 : index\n%m = pto.vmi.create_mask %n40 : index -> {M}\n"
        "%r = arith.constant 3 : i16\n"
        f"%v = pto.vmi.vload %x_ub[%c16], %b, %r : {P} -> {R}\n"
        f"pto.vmi.vstore %v, %y_ub[%c64], %b, %r, %m : {R}, {P}, {M}\n"
        f"pto.vmi.vstore %v, %y_ub[%c512], %b, %m : {R}, {P}, {M}\n"
        f"pto.vmi.vstore %v, %y_ub[%c1024], %b, %r : {R}, {P}"
    )
    found, want = after(body, lines, known), np.zeros(2048, np.uint16)
    at = AT // 16 * 32 + AT % 16
    loaded = X[16 + 48 + at]
    want[64 + 48 + at[:40]] = loaded[:40]
    want[512 + at[:40]] = loaded[:40]
    want[1024 + 48 + at] = loaded
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_lanes_by_turns_are_those_of_two_registers(known: bool) -> None:
    """A mask governs the lanes of both registers."""
    mode = '{dist_mode = "dintlv"}'
    body = (
        f"%n40 = arith.constant 40 : index\n%m = pto.vmi.create_mask %n40 : index -> {M}\n"
        f"%even, %odd = pto.vmi.vload %x_ub[%s] {mode} : {P} -> {R}, {R}\n"
        f"pto.vmi.vstore %even, %y_ub[%c0] : {R}, {P}\n"
        f"pto.vmi.vstore %odd, %even, %y_ub[%c256] {mode} : {R}, {R}, {P}\n"
        f"pto.vmi.vstore %even, %odd, %y_ub[%c512], %m {mode} : {R}, {R}, {P}, {M}"
    )
    found, want = after(body, numbers(64, 0, known), known), np.zeros(2048, np.uint16)
    even, odd = X[64:256:2], X[65:256:2]
    want[:96] = even
    want[256:448] = np.stack([odd, even], axis=1).reshape(-1)
    want[512:592] = X[64:144]
    np.testing.assert_array_equal(found, want)
