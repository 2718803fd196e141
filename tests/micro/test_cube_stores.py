"""Stores of accumulators against formulas on matrices: quantisation, ReLU, clip, layouts, two cores."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.ir import dtype
from pto_jax.oracle.numbers import decode
from tests.micro.cube_programs import (
    ARRAYS,
    RNG,
    ROW,
    Kernel,
    Typed,
    size_of,
    up,
)

Clause = tuple[str, tuple[Any, ...]]


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
                high[at] = int(np.clip(np.trunc(rest / 127), -127, 127))
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


def test_unit_flags_go_with_one_stride_of_nz2dn() -> None:
    with pytest.raises(
        pto.VerifyError, match=r"unit_flag\(check_only\) with nz2dn of 2; allowed: nz2dn of 1"
    ):
        stored(FINITE, "f32", "unit_flag(check_only)", ("nz2dn({})", (2,)))


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
def test_halves_of_odd_sizes_are_errors(core: str, m: int, n: int, message: str) -> None:
    with pytest.raises(pto.VerifyError, match=message):
        in_two_cores(core, m, n).program()


def test_the_number_of_a_vector_core_is_0_or_1() -> None:
    with pytest.raises(pto.VerifyError, match="core is 2; allowed: 0 to 1"):
        in_two_cores(2, 2, 16).program()
