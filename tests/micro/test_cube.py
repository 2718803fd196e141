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


Clause = tuple[str, tuple[Any, ...]]


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
    if element == "!pto.hif8":
        a = np.array([[0x6F, 8], [0xEF, 8], [0x80, 8], [8, 8]], np.uint8)
        b = np.full((1, 2), 8, np.uint8)
    else:
        rows = [[np.inf, 1], [-np.inf, 1], [np.nan, 1], [1, 1]]
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
    kernel = Kernel({"x": "ui8", "y": "ui8", "z": "ui8"})
    l1, back, last = (kernel.at("l1", at, "ui8") for at in (0, 8192, 16384))
    ub, other, out = (kernel.at("ub", at, "ui8") for at in (0, 4096, 8192))
    nburst = "{}, {}, {} nburst({}, {}, {})"
    kernel.op("copy_gm_to_cbuf", "", kernel.gm("x"), l1, 4, 2, 1, 0)
    kernel.op("mte_l1_ub", nburst + " loop({}, {}, {})", l1, ub, 1, 2, 1, 0, 2, 128, 64)
    kernel.lines[-1] = kernel.lines[-1].replace("ub>, i64, i64, i64, i64,", "ub>, i64, i64, i64, i64, loop")
    kernel.op("mte_ub_l1", nburst, ub, back, 2, 2, 0, 1)
    kernel.op("copy_cbuf_to_ubuf", "", back, other, 0, 2, 1, 2, 1)
    kernel.op("copy_ubuf_to_cbuf", "", other, last, 0, 2, 1, 1, 0)
    for source, name, blocks in ((back, "y", 5), (last, "z", 2)):
        kernel.op("mte_l1_ub", nburst, source, out, blocks, 1, 0, 0)
        kernel.op("mte_ub_gm", nburst, out, kernel.gm(name), 32 * blocks, 1, 0, 0)
    x = RNG.integers(0, 256, (12, 32)).astype(np.uint8)
    found = kernel.run(x=x, y=np.zeros((5, 32), np.uint8), z=np.zeros((2, 32), np.uint8))
    dense = x.reshape(4, 3, 32)[:, :2].reshape(8, 32)
    assert (found["y"][[0, 1, 3, 4]] == dense[[0, 2, 4, 6]]).all()
    assert (found["z"] == dense[[0, 4]]).all()


# -- stores ------------------------------------------------------------------------------------------------


def stored(
    sums: np.ndarray,
    target: str,
    *clauses: Clause | str,
    start: np.ndarray | None = None,
    strides: tuple[int, int] | None = None,
    shape: tuple[int, int] | None = None,
    before: Any = None,
    **arrays: np.ndarray,
) -> np.ndarray:
    """What a store makes of sums [m, n], or of the first ``shape`` of them.

    ``before`` adds lines to the kernel and returns clauses; ``arrays`` are further arguments.
    """
    m, n = sums.shape
    element = "i8" if sums.dtype == np.int32 else "f32"
    more = {name: {"uint64": "ui64", "float32": "f32"}[str(v.dtype)] for name, v in arrays.items()}
    kernel = Kernel({"a": element, "b": element, "y": target} | more)
    own = before(kernel) if before else []
    if element == "i8":
        a, b = digits(sums), np.kron(np.eye(n, dtype=np.int8), DIGITS)
    else:
        a, b = exceptional(sums)
    sizes = (m, n, a.shape[1])
    end = "disable_gemv" if element == "i8" else "disable_gemv nosat"
    made = kernel.product("mad", *kernel.factors("a", "b", sizes), sizes, end=end)
    kernel.store(made, kernel.gm("y"), shape or (m, n), *own, *clauses, strides=strides)
    y = np.zeros((m, n), ARRAYS[target]) if start is None else start
    return kernel.run(a=a, b=b, y=y, **arrays)["y"]


def exceptional(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors [m, k] and [n, k] of numbers that may be infinite or NaN."""
    m, n = sums.shape
    if np.isfinite(sums).all():
        # A product with the identity makes +0 of -0.
        return sums, np.eye(n, dtype=np.float32)
    assert m == 1
    return np.ones((1, 1), np.float32), np.ascontiguousarray(sums.T)


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
    [[1.5, -2.25, 300.0, -1e-9, 0.3, 1e5, -1e5], [17.3, -40.5, 0.5, 1.5, 2.5, -3.5, 6e4]], np.float32
)
WHOLE = np.array([[100, -100, 5, 0, -7, 120000, -120000], [1, 2, 3, -4, 255, 256, 70000]], np.int32)
EXCEPTIONAL = np.array([[np.inf, -np.inf, np.nan, 1e9, -1e9, 1.0, -1.0]], np.float32)
SCALES = np.array([1.0, 0.5, -2.0, 1 + 2**-10, 0.0, 0.25, 1e-3], np.float32)
SLOPES = np.array([0.5, 0.25, 2.0, -1.0, 0.0, 0.125, 0.3], np.float32)


def shorter(scales: np.ndarray) -> np.ndarray:
    """Scales as words of parameters have them, with ten bits of fraction."""
    return (scales.view(np.uint32) >> np.uint32(13) << np.uint32(13)).view(np.float32)


def words_of(scales: np.ndarray, offsets: Any = 0, signed: Any = 0, shifts: Any = 0) -> np.ndarray:
    """Words of parameters, one for a column."""
    fields = (np.asarray(v, np.int64) for v in (offsets, signed, shifts))
    offset, sign, shift = (np.broadcast_to(v, scales.shape).astype(np.uint64) for v in fields)
    words = scales.view(np.uint32).astype(np.uint64) | (shift << np.uint64(32))
    return np.asarray(words | ((offset & np.uint64(511)) << np.uint64(37)) | (sign << np.uint64(46)))


def parameters(mode: str) -> Any:
    """Lines that load words of parameters, and the clause with them."""
    return lambda kernel: [(f"pre_quant({{}}, mode = {mode})", (loaded(kernel, "words", 0),))]


def slopes() -> Any:
    """Lines that load a slope for every column, and the clause with them."""
    return lambda kernel: [("pre_relu({}, mode = vector_relu)", (loaded(kernel, "slopes", 65536 + 64),))]


def loaded(kernel: Kernel, name: str, at: int) -> Typed:
    """An argument in the memory of parameters."""
    t = kernel.buffers[name]
    row = kernel.at("l1", ROW, t)
    kernel.copy(kernel.gm(name), row, 7 * size_of(t))
    kernel.op("mte_l1_fb", "{}, {}, {} nburst({}, {}, {})", row, kernel.at("fb", at, t), 1, 1, 0, 0)
    return kernel.at("fb", at, "f32")


def slope(value: float, element: str = "f32") -> Any:
    """The clause with one slope for all columns."""
    return lambda kernel: [("pre_relu({}, mode = scalar_relu)", (kernel.number(value, element),))]


def clip(limit: float, element: str) -> Any:
    """The clause with a limit and without ReLU."""
    return lambda kernel: [("pre_relu(mode = no_relu, clip = {})", (kernel.number(limit, element),))]


def both(first: Any, second: Any) -> Any:
    """Two clauses, one after the other."""
    return lambda kernel: [*first(kernel), *second(kernel)]


def number(mode: str, value: float, element: str = "f32") -> Any:
    """The clause with one number for all columns."""
    return lambda kernel: [(f"pre_quant({{}}, mode = {mode})", (kernel.number(value, element),))]


def to(values: np.ndarray, target: str) -> np.ndarray:
    """Numbers as results, to nearest even."""
    with np.errstate(all="ignore"):
        return np.asarray(values.astype(ARRAYS[target]))


def same(found: np.ndarray, want: np.ndarray) -> bool:
    """Whether arrays of floats are equal, NaN included, and zeros have equal signs."""
    a, b = (np.asarray(v).astype(np.float64) for v in (found, want))
    return np.array_equal(a, b, equal_nan=True) and bool((np.signbit(a) == np.signbit(b))[~np.isnan(a)].all())


SCALED = [
    ("qf322f16_pre", "f16"), ("qf322bf16_pre", "bf16"), ("qf322f32_pre", "f32"), ("qf322fp8_pre", "f8E4M3FN"),
    ("qf322fp8_pre", "f8E5M2"), ("deqf16", "f16"), ("qs322bf16_pre", "bf16"),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "target"), SCALED)
@pytest.mark.parametrize("payload", ["f16", "bf16", "f32", "words"])
def test_a_scale_is_one_number_or_a_short_float_for_each_column(mode: str, target: str, payload: str) -> None:
    sums = WHOLE if mode in ("deqf16", "qs322bf16_pre") else FINITE
    if payload == "words":
        scale: Any = shorter(SCALES)
        found = stored(sums, target, "nz2nd", before=parameters(f"{mode}_vec"), words=words_of(SCALES))
    else:
        value = {"f16": 0.75, "bf16": -0.375, "f32": 0.7}[payload]
        scale = np.float32(value)
        found = stored(sums, target, "nz2nd", before=number(f"{mode}_scalar", value, payload))
    assert same(found, to(sums.astype(np.float32) * scale, target))


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_results_of_hif8_are_the_nearest_codes(scale: float) -> None:
    codes = decode(np.arange(256, dtype=np.uint8), dtype("hif8"))
    whole = np.where(np.isfinite(codes), codes, 0.0).astype(np.float32)
    sums = (whole[None, :60] / np.float32(scale)).astype(np.float32)
    found = stored(sums, "!pto.hif8", "nz2nd", before=number("qf322hif8_pre_scalar", scale))
    assert (found == np.where(sums == 0, 0, np.arange(60))).all()


@pytest.mark.parametrize("target", ["i8", "ui8"])
@pytest.mark.parametrize("source", ["f32", "i32"])
def test_bytes_are_rounded_moved_by_an_offset_and_clamped(source: str, target: str) -> None:
    sums, mode = (FINITE, "qf322b8_pre") if source == "f32" else (WHOLE, "req8")
    low, high = (-128, 127) if target == "i8" else (0, 255)
    found = stored(sums, target, "nz2nd", before=number(f"{mode}_scalar", 0.7))
    y = np.rint(sums.astype(np.float32) * np.float32(0.7))
    assert (found == np.clip(y, low, high)).all()

    offsets, signed = np.array([0, 3, -100, 7, -255, 255, 1]), np.array([0, 1, 0, 1, 1, 0, 0])
    words = words_of(SCALES, offsets, signed)
    found = stored(sums, target, "nz2nd", before=parameters(f"{mode}_vec"), words=words)
    y = np.rint(sums.astype(np.float32) * shorter(SCALES)).clip(-256, 255) + offsets
    want = np.clip(y, np.where(signed, -128, 0), np.where(signed, 127, 255)).astype(np.int64)
    assert (found.astype(np.uint8) == want.astype(np.uint8)).all()


def test_bytes_of_exceptional_numbers() -> None:
    found = stored(EXCEPTIONAL, "i8", "nz2nd", before=number("qf322b8_pre_scalar", 1.0))
    assert found.tolist() == [[127, -128, 0, 127, -128, 1, -1]]


def test_shifts_make_16_bits() -> None:
    shifts = np.array([0, 1, 2, 3, 4, 15, 0])
    words = words_of(SCALES, shifts=shifts)
    found = stored(WHOLE, "i16", "nz2nd", before=parameters("deqs16_vec"), words=words)
    assert (found == np.clip(WHOLE >> (shifts + 1), -32768, 32767)).all()


@pytest.mark.parametrize(
    ("mode", "target"), [("f32_f16", "f16"), ("f32_bf16", "bf16"), ("", "f16"), ("", "bf16")]
)
def test_plain_conversions_ignore_their_number(mode: str, target: str) -> None:
    found = stored(FINITE, target, "nz2nd", before=number(mode, 3.0) if mode else None)
    assert same(found, to(FINITE, target))


@pytest.mark.parametrize("source", [FINITE, WHOLE], ids=["f32", "i32"])
def test_sums_are_stored_as_they_are(source: np.ndarray) -> None:
    assert (
        stored(source, str(source.dtype).replace("float", "f").replace("int", "i"), "nz2nd") == source
    ).all()


# -- ReLU, clip, saturation --------------------------------------------------------------------------------


def relu(x: np.ndarray, slope: Any) -> np.ndarray:
    """Numbers with a slope below zero."""
    return np.where(x >= 0, x, np.float32(slope) * x)


def test_relu_before_the_conversion() -> None:
    want = to(np.where(FINITE > 0, FINITE, np.float32(0)), "f16")
    assert same(stored(FINITE, "f16", "pre_relu(mode = normal_relu)", "nz2nd"), want)
    for element, value in (("f16", 0.25), ("bf16", -0.5), ("f32", 0.3)):
        found = stored(FINITE, "f16", "nz2nd", before=slope(value, element))
        assert same(found, to(relu(FINITE, value), "f16")), element
    found = stored(FINITE, "f32", "nz2nd", before=slopes(), slopes=SLOPES)
    assert same(found, relu(FINITE, SLOPES))


def test_relu_comes_behind_the_scale() -> None:
    transform = both(parameters("qf322f16_pre_vec"), slopes())
    found = stored(FINITE, "f16", "nz2nd", before=transform, words=words_of(SCALES), slopes=SLOPES)
    assert same(found, to(relu(FINITE * shorter(SCALES), SLOPES), "f16"))


def test_relu_of_whole_numbers() -> None:
    assert (stored(WHOLE, "i32", "pre_relu(mode = normal_relu)", "nz2nd") == np.maximum(WHOLE, 0)).all()
    found = stored(WHOLE, "i8", "pre_relu(mode = normal_relu)", "nz2nd", before=number("req8_scalar", 1.0))
    assert (found == np.clip(WHOLE, 0, 127)).all()
    with pytest.raises(
        pto.NotExecutableError, match="got scalar_relu in front of results of i8; allowed: no_relu"
    ):
        stored(WHOLE, "i8", "nz2nd", before=both(number("req8_scalar", 1.0), slope(0.5)))


@pytest.mark.parametrize(
    ("target", "mode", "limit", "element"),
    [
        ("f16", "qf322f16_pre", 8.0, "f16"),
        ("i8", "qf322b8_pre", 20, "i8"),
        ("i8", "qf322b8_pre", -5, "i16"),
        ("ui8", "qf322b8_pre", 100, "i16"),
        ("ui8", "qf322b8_pre", 65535, "ui16"),
    ],
)
def test_a_clip_limits_results_from_above(target: str, mode: str, limit: float, element: str) -> None:
    transform = both(number(f"{mode}_scalar", 1.0), clip(limit, element))
    found = stored(FINITE, target, "nz2nd", before=transform)
    y = FINITE if target == "f16" else np.rint(FINITE).clip(*((-128, 127) if target == "i8" else (0, 255)))
    assert (found == to(np.where(y > limit, limit, y).astype(np.float32), target)).all()


HIGHEST = {
    "f16": 65504.0,
    "bf16": float(np.array(0x7F7F, np.uint16).view(ml_dtypes.bfloat16)),
    "f8E4M3FN": 448.0,
    "f8E5M2": 57344.0,
}
#: Whether an overflow becomes an infinity.
INFINITE = {"f16": True, "bf16": True, "f8E4M3FN": False, "f8E5M2": True}


@pytest.mark.parametrize("target", HIGHEST)
@pytest.mark.parametrize("word", ["sat", "sat(preserve_nan)", "nosat", "", "bits 48", "bits 48, 50"])
def test_what_becomes_of_overflow_infinities_and_nan(target: str, word: str) -> None:
    mode = {"f16": "qf322f16_pre", "bf16": "qf322bf16_pre"}.get(target, "qf322fp8_pre")
    sums = np.array([[np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1.0, -0.5]], np.float32)

    def before(kernel: Kernel) -> Any:
        if word.startswith("bits"):
            kernel.op("set_ctrl", "", 1 << 50 if "50" in word else 0)
        return number(f"{mode}_scalar", 1.0)(kernel)

    found = stored(sums, target, "nz2nd", *([word] if word[:3] in ("sat", "nos") else []), before=before)
    top, nan = HIGHEST[target], np.nan
    if word in ("nosat", ""):
        over = np.inf if INFINITE[target] else nan
        want = [over, -over, nan, over, -over, 1, -0.5]
    else:
        want = [top, -top, nan if "nan" in word or "50" in word else 0, top, -top, 1, -0.5]
    assert np.array_equal(found.astype(np.float64).ravel(), want, equal_nan=True)


@pytest.mark.parametrize("word", ["sat", "nosat"])
def test_results_of_f32_keep_infinities_and_nan(word: str) -> None:
    assert same(stored(EXCEPTIONAL, "f32", "nz2nd", word), EXCEPTIONAL)


# -- layouts, loops, destinations --------------------------------------------------------------------------


def test_layouts_of_stores() -> None:
    sums = RNG.standard_normal((5, 40)).astype(np.float32)
    for clauses in ((), ("nz2nd",)):
        assert (stored(sums, "f32", *clauses) == sums).all()
    found = stored(sums, "f32", ("nz2dn({})", (1,)), strides=(16, 6), start=np.zeros((40, 6), np.float32))
    assert (found[:, :5] == sums.T).all() and not found[:, 5:].any()
    for split, group in ((0, 16), (1, 8)):
        pitch = 5 * group + 2
        start = np.zeros((up(40, group) // group, pitch), np.float32)
        found = stored(sums, "f32", ("nz2nz({})", (split,)), strides=(16, pitch), start=start)
        padded = np.pad(sums, ((0, 0), (0, len(start) * group - 40)))
        want = padded.reshape(5, -1, group).transpose(1, 0, 2).reshape(len(start), -1)
        assert (found[:, : 5 * group] == want).all() and not found[:, 5 * group :].any(), split


def test_other_strides_of_nz2dn_are_not_executed() -> None:
    with pytest.raises(pto.NotExecutableError, match=r"got nz2dn\(2\), .*; allowed: nz2dn\(1\)"):
        stored(FINITE, "f32", ("nz2dn({})", (2,)))


def test_a_loop_repeats_a_store_with_strides_of_its_own() -> None:
    sums = RNG.standard_normal((40, 20)).astype(np.float32)
    start = np.zeros((2, 100), np.float32)
    # Two rectangles of 5 rows and 20 columns, the second one 16 rows below.
    found = stored(
        sums,
        "f32",
        "nz2nd",
        ("loop3({}, {}, {})", (2, 16, 100)),
        strides=(48, 20),
        start=start,
        shape=(5, 20),
    )
    assert (found.reshape(2, 5, 20) == np.stack([sums[:5], sums[16:21]])).all()


@pytest.mark.parametrize("operation", ["add", "max", "min"])
@pytest.mark.parametrize("target", ["f32", "f16", "bf16", "i32", "i16", "i8"])
def test_atomic_stores_combine_with_what_is_there(operation: str, target: str) -> None:
    sums = WHOLE if target[0] == "i" else np.round(FINITE)
    mode = {"i16": "deqs16_vec", "i8": "req8_scalar"}.get(target)
    old = RNG.integers(-50, 50, sums.shape).astype(ARRAYS[target])
    words = {"words": words_of(SCALES)} if target == "i16" else {}
    before = (parameters(mode) if words else number(mode, 0.01)) if mode else None
    plain = stored(sums, target, "nz2nd", before=before, **words)
    clause = f"atomic(type = {target.replace('i', 's')}, op = {operation})"
    found = stored(sums, target, "nz2nd", clause, start=old, before=before, **words)
    with np.errstate(all="ignore"):
        combined = {"add": np.add, "max": np.maximum, "min": np.minimum}[operation](old, plain)
    assert (found == combined).all() and not (found == plain).all()


def test_atomic_stores_have_the_type_of_their_destination() -> None:
    with pytest.raises(pto.VerifyError, match="got an atomic store of f16 into f32"):
        stored(FINITE, "f32", "nz2nd", "atomic(type = f16, op = add)")


def in_two_cores(core: int | str, m: int, n: int) -> Kernel:
    """A product on the cube core that goes to vector cores, each of which stores its half or all of it."""
    kernel = Kernel({"a": "f32", "b": "f32", "y": "f32", "z": "f32"})
    ub, sizes = kernel.at("ub", 256, "f32"), (m, n, n)
    made = kernel.product("mad", *kernel.factors("a", "b", sizes), sizes)
    rows, cols = (m // 2, n) if core == "split_m" else (m, n // 2) if core == "split_n" else (m, n)
    kernel.store(made, ub, (m, n), "nz2nd", strides=(up(m, 16), cols), core=core)
    cube = [
        "pto.section.cube {",
        *kernel.lines,
        *(f"pto.set_intra_block <PIPE_FIX>, {k}" for k in (1, 17)),
        "}",
    ]
    kernel.lines = []
    zero, one = kernel.number(0), kernel.number(1)
    for name, flag, subblock in (("y", 1, zero), ("z", 17, one)):
        kernel.lines.append(f"%at{name} = arith.cmpi eq, %s, {subblock.name} : i64")
        kernel.lines += [f"scf.if %at{name} {{", f"pto.wait_intra_block <PIPE_MTE3>, {flag}"]
        text = "{}, {}, {} nburst({}, {}, {})"
        kernel.op("mte_ub_gm", text, ub, kernel.gm(name), rows * cols * 4, 1, 0, 0)
        kernel.lines.append("}")
    vector = ["pto.section.vector {", "%s = pto.get_subblock_idx", *kernel.lines, "}"]
    kernel.lines = [*cube, *vector]
    return kernel


@pytest.mark.parametrize("core", ["split_m", "split_n", 0, 1])
def test_stores_into_the_unified_buffers_of_two_vector_cores(core: int | str) -> None:
    m, n = 10, 64
    a = RNG.standard_normal((m, n)).astype(np.float32)
    shape = {"split_m": (5, 64), "split_n": (10, 32)}.get(str(core), (m, n))
    y, z = (np.full(shape, 7, np.float32) for _ in range(2))
    found = in_two_cores(core, m, n).run(a=a, b=np.eye(n, dtype=np.float32), y=y, z=z)
    halves = {"split_m": (a[:5], a[5:]), "split_n": (a[:, :32], a[:, 32:])}
    if isinstance(core, str):
        assert all((found[name] == half).all() for name, half in zip("yz", halves[core], strict=True))
    else:
        assert (found["yz"[core]] == a).all() and not (found["zy"[core]] == a).all()


@pytest.mark.parametrize(("core", "m", "n", "message"), [
    ("split_m", 5, 64, "got split_m of 5; allowed: a multiple of 2"),
    ("split_n", 4, 48, "got split_n of 48; allowed: a multiple of 32"),
])  # fmt: skip
def test_halves_of_odd_sizes_are_not_executed(core: str, m: int, n: int, message: str) -> None:
    a, b, y = np.zeros((m, n), np.float32), np.eye(n, dtype=np.float32), np.zeros((m, n), np.float32)
    with pytest.raises(pto.NotExecutableError, match=message):
        in_two_cores(core, m, n).run(a=a, b=b, y=y, z=y.copy())


def test_the_number_of_a_vector_core_is_0_or_1() -> None:
    with pytest.raises(pto.VerifyError, match="core is 2; allowed: 0 to 1"):
        in_two_cores(2, 2, 16).program()


# -- definedness -------------------------------------------------------------------------------------------


def test_undefined_factors_make_rows_and_columns_of_results_undefined() -> None:
    kernel, sizes = Kernel({"a": "f32", "b": "f32", "y": "f32", "z": "f32"}), (20, 20, 8)
    left, right = kernel.factors("a", "b", sizes)
    made = kernel.product("mad", left, right, sizes)
    # Loads copied rows 20 to 31 of the fractals, which nobody wrote.
    kernel.store(made, kernel.gm("y"), (20, 20), "nz2nd", strides=(32, 20))
    clean = {"a": np.ones((20, 8), np.float32), "b": np.ones((20, 8), np.float32)}
    arrays = {**clean, "y": np.zeros((20, 20), np.float32), "z": np.zeros((21, 21), np.float32)}
    assert pto.sanitize(kernel.program(), arrays).findings == ()
    made = kernel.product("mad", left, right, (21, 21, 8))
    kernel.store(made, kernel.gm("z"), (21, 21), "nz2nd", strides=(32, 21))
    (finding,) = pto.sanitize(kernel.program(), arrays).findings
    assert finding.operand == "z" and finding.origin.reason == "never written"
    # The bytes of the last row and the last column.
    assert len(finding.lanes) == 41


def test_undefined_biases_sums_and_parameters_arrive_in_results() -> None:
    for case in ("bias", "sums", "quant", "none"):
        kernel, sizes = Kernel({"a": "f32", "b": "f32", "y": "f32"}), (16, 16, 8)
        left, right = kernel.factors("a", "b", sizes)
        bias = [kernel.at("bt", 0, "f32")] if case == "bias" else []
        name = {"bias": "mad_bias", "sums": "mad_acc"}.get(case, "mad")
        clause = [("pre_quant({}, mode = qf322f32_pre_vec)", (kernel.at("fb", 0, "f32"),))] * (
            case == "quant"
        )
        kernel.store(
            kernel.product(name, left, right, sizes, *bias), kernel.gm("y"), (16, 16), *clause, "nz2nd"
        )
        arrays = {n: np.ones((16, 8), np.float32) for n in "ab"} | {"y": np.zeros((16, 16), np.float32)}
        found = pto.sanitize(kernel.program(), arrays).findings
        assert len(found) == (case != "none"), case


def test_squares_that_are_not_whole_are_not_transposed() -> None:
    kernel = Kernel({"a": "i8"})
    source, target = kernel.at("l1", 0, "i8"), kernel.at("l0a", 0, "i8")
    kernel.op("mte_l1_l0a", "", source, target, 0, 0, 1, 1, 2, 1, attributes="{transpose = true}")
    with pytest.raises(
        pto.NotExecutableError, match="got 16 x 32 elements to transpose; allowed: squares of 32"
    ):
        kernel.run(a=np.zeros(64, np.int8))


def test_factors_of_tf32_that_saturate_are_finite_when_they_are_rounded() -> None:
    kernel, sizes = Kernel({"a": "f32", "b": "f32", "c": "f32"}), (3, 1, 1)
    made = kernel.product("mad", *kernel.factors("a", "b", sizes), sizes, end="sat tf32_mode(round_even)")
    kernel.store(made, kernel.gm("c"), (3, 1), "nz2nd")
    top = np.finfo(np.float32).max
    a, b = np.array([[top], [-np.inf], [np.nan]], np.float32), np.full((1, 1), 0.5, np.float32)
    assert kernel.run(a=a, b=b, c=np.zeros((3, 1), np.float32))["c"].ravel().tolist() == [
        top / 2,
        -top / 2,
        0,
    ]
