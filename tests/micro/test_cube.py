"""The cube unit against formulas on matrices: products, loads of every form, transforms of stores."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.ir import dtype
from pto_jax.oracle.numbers import decode
from tests.micro.cube_programs import (
    LEFT,
    LEFT_SCALES,
    RESULTS,
    RIGHT,
    RIGHT_SCALES,
    ROW,
    Kernel,
    Typed,
    size_of,
    up,
)

RNG = np.random.default_rng(11)
ARRAYS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "!pto.hif8": np.uint8,
    "i8": np.int8,
    "ui8": np.uint8,
    "i16": np.int16,
    "i32": np.int32,
}
FLOATS = ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2", "!pto.hif8")
SIZES = ((1, 16, 16), (5, 33, 50), (16, 1, 1), (40, 60, 64))


def matrix(element: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers, so that every order of a sum gives the same."""
    if element == "!pto.hif8":
        small = [c for c in range(256) if decode(np.array([c]), dtype("hif8"))[0] in (-4, -3, -1, 0, 1, 2, 4)]
        return RNG.choice(np.array(small, np.uint8), shape)
    low = 0 if element == "ui8" else -7
    return RNG.integers(low, 8, shape).astype(ARRAYS[element])


def values(array: np.ndarray, element: str) -> np.ndarray:
    """The numbers of a matrix."""
    if element == "!pto.hif8":
        return decode(array, dtype("hif8"))
    return array.astype(np.float64)


def empty(element: str, *shape: int) -> np.ndarray:
    return np.zeros(shape, ARRAYS[element])


# -- products ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    ("left", "right"), [*((t, t) for t in (*FLOATS, "i8", "ui8")), ("f8E4M3FN", "f8E5M2")]
)
def test_products_of_every_element_type(left: str, right: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    sums = "i32" if "i8" in left else "f32"
    kernel = Kernel({"a": left, "b": right, "c": sums})
    made = kernel.product("mad", *kernel.factors("a", "b", sizes), sizes, end="disable_gemv")
    kernel.store(made, kernel.gm("c"), (m, n), "nz2nd")
    a, b = matrix(left, (m, k)), matrix(right, (n, k))
    found = kernel.run(a=a, b=b, c=empty(sums, m, n))["c"]
    assert (found == values(a, left) @ values(b, right).T).all()


@pytest.mark.parametrize("element", ["f32", "f16", "i8"])
def test_a_product_with_one_row_takes_its_left_factor_as_a_run_of_elements(element: str) -> None:
    sums, (n, k) = "i32" if element == "i8" else "f32", (20, 50)
    kernel = Kernel({"a": element, "b": element, "c": sums})
    _, right = kernel.factors("a", "b", (1, n, k))
    row, left = kernel.at("l1", ROW, element), kernel.at("l0a", 1024, element)
    kernel.copy(kernel.gm("a"), row, k * size_of(element))
    kernel.op("load_cbuf_to_ca", "", row, left, 0, 0, 1, 1, 1, 1)
    kernel.store(kernel.product("mad", left, right, (1, n, k)), kernel.gm("c"), (1, n), "nz2nd")
    a, b = matrix(element, (1, k)), matrix(element, (n, k))
    found = kernel.run(a=a, b=b, c=empty(sums, 1, n))["c"]
    assert (found == values(a, element) @ values(b, element).T).all()


def test_products_are_added_from_the_first_k_on_with_one_rounding_each() -> None:
    kernel = Kernel({"a": "f32", "b": "f32", "c": "f32"})
    sizes = (2, 3, 8)
    left, right = kernel.factors("a", "b", sizes)
    kernel.product("mad", left, right, sizes)
    made = kernel.product("mad_acc", left, right, sizes)
    kernel.store(made, kernel.gm("c"), (2, 3), "nz2nd")
    a, b = (RNG.standard_normal(s).astype(np.float32) for s in ((2, 8), (3, 8)))
    total = np.zeros((2, 3), np.longdouble)
    for at in (*range(8), *range(8)):
        total += a[:, at, None].astype(np.longdouble) * b[None, :, at].astype(np.longdouble)
        total = total.astype(np.float32).astype(np.longdouble)
    found = kernel.run(a=a, b=b, c=np.zeros((2, 3), np.float32))["c"]
    assert (found == total.astype(np.float32)).all()


@pytest.mark.parametrize(("mode", "up_at_tie"), [("round_even", False), ("round_away", True)])
def test_factors_of_tf32_have_ten_bits_of_fraction(mode: str, up_at_tie: bool) -> None:
    kernel, sizes = Kernel({"a": "f32", "b": "f32", "c": "f32"}), (3, 1, 1)
    made = kernel.product("mad", *kernel.factors("a", "b", sizes), sizes, end=f"tf32_mode({mode})")
    kernel.store(made, kernel.gm("c"), (3, 1), "nz2nd")
    a = np.array([[1 + 2.0**-11], [1 + 3 * 2.0**-12], [-1 - 2.0**-11]], np.float32)
    found = kernel.run(a=a, b=np.ones((1, 1), np.float32), c=np.zeros((3, 1), np.float32))["c"]
    tie = 1 + 2.0**-10 * up_at_tie
    assert found.ravel().tolist() == [tie, 1 + 2.0**-10, -tie]


@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "i32"])
def test_a_bias_is_widened_and_added_to_every_row(source: str) -> None:
    element, sums, sizes = ("i8", "i32", (5, 40, 33)) if source == "i32" else ("f16", "f32", (5, 40, 33))
    kernel = Kernel({"a": element, "b": element, "x": source, "c": sums})
    left, right = kernel.factors("a", "b", sizes)
    row, bias = kernel.at("l1", ROW, source), kernel.at("bt", 64, sums)
    units = 40 * size_of(source) // 16
    kernel.copy(kernel.gm("x"), row, units * 32)
    # Two bursts with a gap in the destination: only the first one is used as a bias.
    kernel.op("mte_l1_bt", "{}, {}, {} nburst({}, {}, {})", row, bias, units // 2 + units % 2, 2, 0, 0)
    made = kernel.product("mad_bias", left, right, sizes, bias)
    kernel.store(made, kernel.gm("c"), (5, 40), "nz2nd")
    a, b, x = matrix(element, (5, 33)), matrix(element, (40, 33)), matrix(source, (128,))
    found = kernel.run(a=a, b=b, x=x, c=empty(sums, 5, 40))["c"]
    assert (found == values(a, element) @ values(b, element).T + values(x, source)[:40]).all()


def scale_fragments(scales: np.ndarray) -> np.ndarray:
    """Codes of scales [rows, groups] in fragments of 16 rows of two."""
    rows, groups = scales.shape
    whole = np.zeros((up(rows, 16), up(groups, 2)), np.uint8)
    whole[:rows, :groups] = scales
    return np.ascontiguousarray(whole.reshape(-1, 16, whole.shape[1] // 2, 2).transpose(0, 2, 1, 3))


@pytest.mark.parametrize("name", ["mad_mx", "mad_mx_acc", "mad_mx_bias"])
@pytest.mark.parametrize("pair", [("f8E4M3FN", "f8E4M3FN"), ("f8E5M2", "f8E4M3FN")])
@pytest.mark.parametrize("full", [False, True])
def test_block_scales_belong_to_groups_of_32_along_k(name: str, pair: tuple[str, str], full: bool) -> None:
    m, n, k = sizes = (20, 33, 128)
    a, b = matrix(pair[0], (m, k)), matrix(pair[1], (n, k))
    codes = [RNG.integers(125, 130, (rows, k // 32)).astype(np.uint8) for rows in (m, n)]
    kernel = Kernel({"a": pair[0], "b": pair[1], "x": "ui8", "y": "ui8", "z": "f32", "c": "f32"})
    left, right = kernel.factors("a", "b", sizes)
    for gm, address, t, space, target, rows in (
        ("x", LEFT_SCALES, pair[0], "mte_l1_l0a_mx", left, m),
        ("y", RIGHT_SCALES, pair[1], "mte_l1_l0b_mx", right, n),
    ):
        shape = (m, k) if gm == "x" else (k, n)
        bytes_ = scale_fragments(codes[gm == "y"]).size
        kernel.copy(kernel.gm(gm), kernel.at("l1", address, "ui8"), bytes_)
        numbers = (0, 0, up(rows, 16) // 16, 2, 2, 2) if full else (*shape, 0, 0)
        kernel.op(space, "", kernel.at("l1", address, t), target, *numbers)
    more = []
    if name.endswith("bias"):
        more = [kernel.at("bt", 0, "f32")]
        kernel.copy(kernel.gm("z"), kernel.at("l1", ROW, "f32"), 160)
        row = kernel.at("l1", ROW, "f32")
        kernel.op("mte_l1_bt", "{}, {}, {} nburst({}, {}, {})", row, more[0], 5, 1, 0, 0)
    if name.endswith("acc"):
        kernel.product("mad_mx", left, right, sizes)
    kernel.store(kernel.product(name, left, right, sizes, *more), kernel.gm("c"), (m, n), "nz2nd")
    z = matrix("f32", (64,))
    found = kernel.run(a=a, b=b, x=scale_fragments(codes[0]), y=scale_fragments(codes[1]), z=z,
                       c=np.zeros((m, n), np.float32))["c"]  # fmt: skip
    factors = [
        values(v, t) * 2.0 ** (np.repeat(c, 32, axis=1).astype(int) - 127)
        for v, t, c in zip((a, b), pair, codes, strict=True)
    ]
    want = factors[0] @ factors[1].T
    want = want * 2 if name.endswith("acc") else want + z[:n] if name.endswith("bias") else want
    assert (found == want).all()


@pytest.mark.parametrize("saturates", [True, False])
@pytest.mark.parametrize("element", ["f16", "f32", "f8E5M2", "!pto.hif8"])
@pytest.mark.parametrize("by", ["word", "register"])
def test_products_that_saturate_have_finite_factors_and_sums(element: str, saturates: bool, by: str) -> None:
    kernel, sizes = Kernel({"a": element, "b": element, "c": "f32"}), (4, 1, 2)
    left, right = kernel.factors("a", "b", sizes)
    if by == "register" and saturates:
        kernel.op("set_ctrl", "", 0)
    word = {True: "sat", False: "nosat"}[saturates] if by == "word" else ""
    made = kernel.product("mad", left, right, sizes, end=word)
    kernel.store(made, kernel.gm("c"), (4, 1), "nz2nd", "nosat")
    codes = {"!pto.hif8": {np.inf: 0x6F, -np.inf: 0xEF, "nan": 0x80, 1: 0x08}}.get(element)
    rows = [[np.inf, 1], [-np.inf, 1], [np.nan, 1], [1, 1]]
    if codes:
        a = np.array([[codes["nan" if v != v else v] for v in row] for row in rows], np.uint8)
        b = np.array([[codes[1]] * 2], np.uint8)
    else:
        a, b = np.array(rows, ARRAYS[element]), np.ones((1, 2), ARRAYS[element])
    found = kernel.run(a=a, b=b, c=np.zeros((4, 1), np.float32))["c"].ravel()
    if not saturates:
        assert found[0] == np.inf and found[1] == -np.inf and np.isnan(found[2]) and found[3] == 2
        return
    largest = {"f16": 65504, "f32": np.finfo(np.float32).max, "f8E5M2": 57344, "!pto.hif8": 32768}[element]
    want = np.float32(largest) + np.float32(1)
    assert found.tolist() == [want, 2 - want if element != "f32" else -want, 1, 2]


def test_a_finished_sum_saturates_once() -> None:
    kernel, sizes = Kernel({"a": "f32", "b": "f32", "c": "f32"}), (1, 1, 3)
    left, right = kernel.factors("a", "b", sizes)
    made = kernel.product("mad", left, right, sizes, end="disable_gemv sat")
    kernel.store(made, kernel.gm("c"), (1, 1), "nz2nd")
    top = np.finfo(np.float32).max
    for row, want in (([top, top, 0], top), ([top, top, -top], top), ([-top, -top, 0], -top)):
        found = kernel.run(
            a=np.array([row], np.float32), b=np.ones((1, 3), np.float32), c=np.zeros((1, 1), np.float32)
        )
        assert found["c"].item() == want


# -- staging and loads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", ["i8", "f16", "f32"])
@pytest.mark.parametrize("raw", [False, True])
def test_transposed_loads(element: str, raw: bool) -> None:
    m, n, k = 40, 60, 50
    sums, size = "i32" if element == "i8" else "f32", size_of(element)
    kernel = Kernel({"a": element, "b": element, "c": sums})
    square = max(16, 32 // size)
    turned = "{transpose = true}"
    targets = []
    for gm, address, width, space, name in (
        ("a", LEFT, m, "l0a", "load_cbuf_to_ca" if raw else "mte_l1_l0a"),
        ("b", RIGHT, n, "l0b", "load_cbuf_to_cb" if raw else "mte_l1_l0b"),
    ):
        source, target = kernel.at("l1", address, element), kernel.at(space, 0, element)
        deep = up(k, square)
        kernel.fractals(kernel.gm(gm), source, (k, width), (width * size,), (1, 1, deep, 0))
        numbers: tuple[int, ...] = (m, k, 0, 0) if space == "l0a" else (k, n, 0, 0)
        if raw:
            wide = up(width, square)
            numbers = (0, 0, deep // 16, wide * size // 32, deep // 16, wide // 16)
        kernel.op(name, "", source, target, *numbers, attributes=turned)
        targets.append(target)
    # Squares of 32 rows fill up more rows than a product has: its sizes are whole squares, too.
    sizes = (up(m, square), up(n, square), k)
    kernel.store(
        kernel.product("mad", *targets, sizes), kernel.gm("c"), (m, n), "nz2nd", strides=(sizes[0], n)
    )
    a, b = matrix(element, (k, m)), matrix(element, (k, n))
    found = kernel.run(a=a, b=b, c=empty(sums, m, n))["c"]
    assert (found == values(a, element).T @ values(b, element)).all()


def test_a_load_begins_at_a_fractal_and_skips_others() -> None:
    m, n, k = sizes = (16, 16, 32)
    kernel = Kernel({"a": "f16", "b": "f16", "c": "f32"})
    source, left = kernel.matrix("a", LEFT, (64, 96)), kernel.at("l0a", 0, "f16")
    _, right = kernel.factors("b", "b", (n, n, k))
    kernel.matrix("a", LEFT, (64, 96))
    # Rows 32 to 47 and columns 48 to 79 of the matrix.
    kernel.op("mte_l1_l0a", "", source, left, 2, 3, 1, 2, 4, 1)
    kernel.store(kernel.product("mad", left, right, sizes), kernel.gm("c"), (m, n), "nz2nd")
    a, b = matrix("f16", (64, 96)), matrix("f16", (n, k))
    found = kernel.run(a=a, b=b, c=empty("f32", m, n))["c"]
    assert (found == values(a[32:48, 48:80], "f16") @ values(b, "f16").T).all()


@pytest.mark.parametrize("mode", ["nd2nz", "dn2nz"])
@pytest.mark.parametrize("element", ["i8", "f16", "f32"])
def test_matrices_become_fractals_with_zeros_behind_their_columns(mode: str, element: str) -> None:
    n, d, groups, size = 21, 37, 2, size_of(element)
    lanes = 32 // size
    inner, outer = (40, 40 * 24) if mode == "nd2nz" else (24, 24 * 40)
    row, col, group = 2, 50, 50 * -(-d // lanes)
    total = groups * group * 32
    kernel = Kernel({"a": element, "y": "ui8"})
    target = kernel.at("l1", RESULTS, element)
    kernel.op("raw_fill_l1", "", kernel.at("l1", RESULTS, "ui8"), 0, kernel.number(0x5A5A, "i32"), 1,
              total // 32, 0, attributes="{fill_word_bits = 16 : i64}")  # fmt: skip
    source = (inner * size, outer * size)
    kernel.fractals(kernel.gm("a"), target, (n, d), source, (groups, row, col, group), mode)
    kernel.dump("y", RESULTS, total)
    a = matrix(element, (groups, outer))
    found = kernel.run(a=a, y=np.zeros(total, np.uint8))["y"].view(ARRAYS[element])
    want = np.full(total, 0x5A, np.uint8).view(ARRAYS[element])
    for g in range(groups):
        for i in range(n):
            for j in range(up(d, lanes)):
                at = (g * group + i * row + j // lanes * col) * lanes + j % lanes
                position = i * inner + j if mode == "nd2nz" else j * inner + i
                want[at] = a[g, position] if j < d else 0
    assert (found == want).all()


def test_few_channels_are_packed_by_four() -> None:
    n, d, groups = 5, 3, 2
    kernel = Kernel({"a": "f16", "y": "ui8"})
    target = kernel.at("l1", RESULTS, "f16")
    shape, strides = (n, d), (8, 64)
    kernel.fractals(kernel.gm("a"), target, shape, strides, (groups, 1, 1, 3), small="true")
    kernel.dump("y", RESULTS, 192)
    a = matrix("f16", (groups, 8, 4))
    found = kernel.run(a=a, y=np.zeros(192, np.uint8))["y"].view(np.float16).reshape(groups, 48)
    want = np.zeros((groups, 8, 4), np.float16)
    want[:, :n, :d] = a[:, :n, :d]
    assert (found[:, :32] == want.reshape(groups, 32)).all()


def test_more_than_four_channels_are_not_packed() -> None:
    kernel = Kernel({"a": "f16"})
    kernel.fractals(kernel.gm("a"), kernel.at("l1", 0, "f16"), (4, 5), (10,), (1, 1, 1, 1), small="true")
    with pytest.raises(pto.NotExecutableError, match="got 5 channels to be packed; allowed: up to 4"):
        kernel.run(a=np.zeros(64, np.float16))


@pytest.mark.parametrize(("bits", "value"), [(16, 0x7FFF1234), (32, -559038737)])
def test_a_fill_repeats_a_word_and_skips_gaps(bits: int, value: int) -> None:
    kernel = Kernel({"x": "ui8", "y": "ui8"})
    kernel.copy(kernel.gm("x"), kernel.at("l1", RESULTS, "ui8"), 320)
    kernel.op("raw_fill_l1", "", kernel.at("l1", RESULTS, "ui8"), 32, kernel.number(value, "i32"), 2, 2, 1,
              attributes=f"{{fill_word_bits = {bits} : i64}}")  # fmt: skip
    kernel.dump("y", RESULTS, 320)
    x = RNG.integers(0, 256, 320).astype(np.uint8)
    word = np.array([value & (1 << bits) - 1], f"u{bits // 8}").view(np.uint8)
    want = x.copy()
    for begin in (32, 128):
        want[begin : begin + 64] = np.resize(word, 64)
    assert (kernel.run(x=x, y=np.zeros(320, np.uint8))["y"] == want).all()


def test_copies_of_blocks_have_gaps_behind_bursts_and_loops_over_bytes() -> None:
    kernel = Kernel({"x": "ui8", "y": "ui8"})
    l1, ub, ub2 = kernel.at("l1", 0, "ui8"), kernel.at("ub", 0, "ui8"), kernel.at("ub", 4096, "ui8")
    back = kernel.at("l1", 8192, "ui8")
    kernel.op("copy_gm_to_cbuf", "", kernel.gm("x"), l1, 4, 2, 1, 0)
    nburst = "{}, {}, {} nburst({}, {}, {})"
    kernel.op("mte_l1_ub", nburst + " loop({}, {}, {})", l1, ub, 1, 2, 1, 0, 2, 128, 64)
    kernel.lines[-1] = kernel.lines[-1].replace("ub>, i64, i64, i64, i64,", "ub>, i64, i64, i64, i64, loop")
    kernel.op("mte_ub_l1", nburst, ub, back, 2, 2, 0, 1)
    kernel.op("copy_cbuf_to_ubuf", "", back, ub2, 0, 3, 1, 0, 1)
    kernel.op("copy_ubuf_to_cbuf", "", ub2, back, 0, 1, 6, 0, 0)
    kernel.op("mte_l1_ub", nburst, back, ub, 6, 1, 0, 0)
    kernel.op("mte_ub_gm", nburst, ub, kernel.gm("y"), 192, 1, 0, 0)
    x = RNG.integers(0, 256, (16, 32)).astype(np.uint8)
    dense = x.reshape(-1)[: 12 * 32].reshape(4, 3, 32)[:, :2].reshape(8, 32)
    first = np.stack([dense[4 * i + 2 * j] for i in range(2) for j in range(2)])
    found = kernel.run(x=x, y=np.zeros((6, 32), np.uint8))["y"]
    assert (found[::2][:2] == first[:2]).all()


# -- stores ------------------------------------------------------------------------------------------------


def stored(
    sums: np.ndarray,
    target: str,
    *clauses: tuple[str, tuple[Any, ...]] | str,
    start: np.ndarray | None = None,
    before: Any = None,
    **arrays: np.ndarray,
) -> np.ndarray:
    """What a store makes of sums [m, n]: a left factor times the identity, or of integers in bytes.

    ``before`` adds lines to the kernel, and returns further clauses; ``arrays`` are further arguments.
    """
    m, n = sums.shape
    integer = sums.dtype == np.int32
    element = "i8" if integer else "f32"
    names = {str(np.dtype(np.uint64)): "ui64", "float32": "f32"}
    kernel = Kernel(
        {"a": element, "b": element, "y": target} | {k: names[str(v.dtype)] for k, v in arrays.items()}
    )
    clauses = (*(before(kernel) if before else ()), *clauses)
    a, b = (digits(sums), np.tile(DIGITS, n)) if integer else (sums, np.eye(n, dtype=np.float32))
    if integer:
        b = np.zeros((n, n * len(DIGITS)), np.int8)
        for j in range(n):
            b[j, j * len(DIGITS) : (j + 1) * len(DIGITS)] = DIGITS
    sizes = (m, n, a.shape[1])
    end = "disable_gemv" if integer else "disable_gemv nosat"
    made = kernel.product("mad", *kernel.factors("a", "b", sizes), sizes, end=end)
    kernel.store(made, kernel.gm("y"), (m, n), *clauses)
    y = np.zeros((m, n), ARRAYS[target]) if start is None else start
    return kernel.run(a=a, b=b, y=y, **arrays)["y"]


#: Weights of bytes whose sum is any number up to some hundred thousands.
DIGITS = np.array([127] * 12 + [1], np.int8)


def digits(sums: np.ndarray) -> np.ndarray:
    """Bytes whose weighted sums are the numbers."""
    m, n = sums.shape
    out = np.zeros((m, n, len(DIGITS)), np.int8)
    for i in range(m):
        for j in range(n):
            rest, high = int(sums[i, j]), np.zeros(12, int)
            for at in range(12):
                high[at] = int(np.clip(np.fix(rest / 127), -127, 127))
                rest -= 127 * high[at]
            assert -128 <= rest <= 127
            out[i, j] = [*high, rest]
    return out.reshape(m, -1)


FINITE = np.array(
    [[1.5, -2.25, 300.0, -0.0, 0.3, 1e5, -1e5], [17.3, -40.5, 0.5, 1.5, 2.5, -3.5, 6e4]], np.float32
)
WHOLE = np.array([[100, -100, 5, 0, -7, 120000, -120000], [1, 2, 3, -4, 255, 256, 70000]], np.int32)
SCALAR = {"f16": np.float16(0.75), "bf16": np.float32(0.75), "f32": np.float32(0.7)}
EXCEPTIONAL = np.array([[np.inf, -np.inf, np.nan, 1e9, -1e9, 1.0]], np.float32)


def to(values: np.ndarray, target: str) -> np.ndarray:
    """Numbers as results, to nearest even."""
    with np.errstate(over="ignore"):
        return values.astype(ARRAYS[target])


@pytest.mark.parametrize(("mode", "target"), [
    ("qf322f16_pre", "f16"), ("qf322bf16_pre", "bf16"), ("qf322f32_pre", "f32"), ("qf322fp8_pre", "f8E4M3FN"),
    ("qf322fp8_pre", "f8E5M2"), ("deqf16", "f16"), ("qs322bf16_pre", "bf16"),
])  # fmt: skip
@pytest.mark.parametrize("payload", ["f16", "bf16", "f32", "vec"])
def test_scales_of_one_number_or_one_for_a_column(mode: str, target: str, payload: str) -> None:
    sums = WHOLE if mode in ("deqf16", "qs322bf16_pre") else FINITE
    if payload == "vec":
        scales = np.array([1.0, 0.5, -2.0, 1 + 2**-10, 0.0, 0.25, 1e-3], np.float32)[: sums.shape[1]]
        short = (scales.view(np.uint32) >> np.uint32(13) << np.uint32(13)).view(np.float32)
        found = stored(
            sums, target, "nz2nd", before=vector_words(mode), words=scales.view(np.uint32).astype(np.uint64)
        )
    else:
        short = np.float32(SCALAR[payload])
        found = stored(
            sums,
            target,
            "nz2nd",
            before=lambda k: [(f"pre_quant({{}}, mode = {mode}_scalar)", (k.number(float(short), payload),))],
        )
    want = to(sums.astype(np.float32) * short, target)
    assert (found.astype(np.float64) == want.astype(np.float64)).all() or (
        np.isnan(found.astype(float)) == np.isnan(want.astype(float))
    ).all()


def vector_words(mode: str, slopes: bool = False) -> Any:
    """Lines that load an argument as parameters, and the clause that uses them."""

    def lines(kernel: Kernel) -> list[tuple[str, tuple[Any, ...]]]:
        name, at = ("slopes", 65536) if slopes else ("words", 0)
        t = kernel.buffers[name]
        kernel.copy(kernel.gm(name), kernel.at("l1", ROW, t), 7 * size_of(t))
        fb = kernel.at("fb", at, t)
        kernel.op("mte_l1_fb", "{}, {}, {} nburst({}, {}, {})", kernel.at("l1", ROW, t), fb, 1, 1, 0, 0)
        pointer = kernel.at("fb", at, "f32")
        text = f"pre_relu({{}}, mode = {mode})" if slopes else f"pre_quant({{}}, mode = {mode}_vec)"
        return [(text, (pointer,))]

    return lines
