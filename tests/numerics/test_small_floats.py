"""Every code of the element types of at most 8 bits, in the engine and in the reference interpreter.

Values come from ml_dtypes where it has the type, and from the definition of the format otherwise. Encoding
is checked on every value, on every tie between neighbours, next to both, and beyond the largest value.
"""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.ir import DType, TileType, dtype
from pto_jax.lowering import bits, convert
from pto_jax.lowering.bits import x64
from pto_jax.oracle import OracleTile, numbers, run
from pto_jax.text.type_text import print_type

Array = NDArray[Any]
PEERS: dict[str, Any] = {
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
    "f4e2m1x2": ml_dtypes.float4_e2m1fn,
}
FLOATS = (*PEERS, "hif8", "f4e1m2x2")
#: Code of what lies beyond the largest value without saturation, and of NaN.
BEYOND = {"f8e4m3": 0x7F, "f8e5m2": 0x7C, "f8e8m0": 0xFF, "hif8": 0x6F, "f4e2m1x2": 0x7, "f4e1m2x2": 0x7}
NAN = {"f8e4m3": 0x7F, "f8e5m2": 0x7E, "f8e8m0": 0xFF, "hif8": 0x80, "f4e2m1x2": 0, "f4e1m2x2": 0}


def codes(d: DType) -> Array:
    return np.arange(1 << d.bits, dtype=np.uint8)


def hif8_value(code: int) -> float:
    """Sign, a prefix that says how many bits the exponent takes (none to 4), exponent, fraction."""
    sign, rest = (-1.0 if code >> 7 else 1.0), f"{code & 0x7F:07b}"
    if rest.startswith("0000"):
        subnormal = int(rest[4:], 2)
        return sign * 2.0 ** (subnormal - 23) if subnormal else np.nan if code else 0.0
    prefix, width = next(
        (p, w) for p, w in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0)) if rest.startswith(p)
    )
    field, fraction = rest[len(prefix) :][:width], rest[len(prefix) + width :]
    exponent = int("1" + field[1:], 2) * (-1 if field[0] == "1" else 1) if width else 0
    if exponent == 15 and fraction == "1":
        return sign * np.inf
    return float(sign * 2.0**exponent * (1 + int(fraction, 2) / 2 ** len(fraction)))


def values(d: DType) -> Array:
    """The value of every code, independent of both implementations."""
    if d.name in PEERS:
        return np.asarray(codes(d).view(PEERS[d.name]).astype(np.float64))
    if d.name == "hif8":
        return np.array([hif8_value(c) for c in range(256)])
    assert d.name == "f4e1m2x2"
    return np.concatenate([np.arange(8), -np.arange(8.0)]) / 4


@pytest.mark.parametrize("name", FLOATS)
def test_every_code_decodes_to_its_value(name: str) -> None:
    d = dtype(name)
    with x64():
        engine = np.asarray(jax.jit(lambda w: bits.decode(w, d))(codes(d)))
        single = np.asarray(jax.jit(lambda w: bits.to_single(w, d))(codes(d))).view(np.float32)
    expected = values(d)
    for found in (engine, single.astype(np.float64), numbers.decode(codes(d), d)):
        np.testing.assert_array_equal(found, expected)
        assert (np.signbit(found) == np.signbit(expected))[expected == 0].all()


def test_every_i4_code_is_sign_extended() -> None:
    d, expected = dtype("i4"), codes(dtype("i4")).view(ml_dtypes.int4).astype(np.int8)
    np.testing.assert_array_equal(numbers.decode(codes(d), d), expected)
    np.testing.assert_array_equal(np.asarray(convert.integer(jnp.asarray(codes(d)), d)), expected)
    np.testing.assert_array_equal(numbers.encode(expected, d), codes(d))


def encoded(x: Array, d: DType, saturate: bool = False) -> tuple[Array, Array]:
    """Codes of float32 numbers by the engine and by the interpreter."""
    with x64():
        engine = jax.jit(lambda v: bits.narrow(v, d, saturate=saturate))(x.astype(np.float32).view(np.uint32))
    return np.asarray(engine), numbers.encode(x, d, saturate=saturate)


def magnitudes(d: DType) -> tuple[Array, Array]:
    """The finite values that are not negative in ascending order, and their codes."""
    found = values(d)
    listed = np.flatnonzero(np.isfinite(found) & ~np.signbit(found)).astype(np.uint8)
    order = listed[np.argsort(found[listed])]
    return found[order], order


@pytest.mark.parametrize("name", FLOATS)
def test_every_value_encodes_to_its_code(name: str) -> None:
    d = dtype(name)
    for found in encoded(values(d), d):
        number = ~np.isnan(values(d))
        np.testing.assert_array_equal(found[number], codes(d)[number])
        assert (found[~number] == NAN[name]).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", FLOATS)
def test_what_lies_between_two_codes_is_rounded_to_nearest_even(name: str) -> None:
    d = dtype(name)
    finite, order = magnitudes(d)
    low, high = order[:-1], order[1:]
    ties = (finite[1:] + finite[:-1]) / 2
    below = np.nextafter(ties.astype(np.float32), np.float32(0)).astype(np.float64)
    above = np.nextafter(ties.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    even = np.where(low % 2 == 0, low, high)
    negative = np.uint8(0 if name == "f8e8m0" else 1 << (d.bits - 1))
    for x, expected in ((ties, even), (below, low), (above, high)):
        for found in encoded(x, d):
            np.testing.assert_array_equal(found, expected)
        if negative:
            signed = expected | np.where((expected == 0) & (name == "hif8"), np.uint8(0), negative)
            for found in encoded(-x, d):
                np.testing.assert_array_equal(found, signed)


@pytest.mark.parametrize("name", PEERS)
def test_random_numbers_round_as_ml_dtypes_rounds(name: str) -> None:
    d = dtype(name)
    rng = np.random.default_rng(3)
    words = rng.integers(0, 1 << 32, 4096, np.uint32)
    spread = 127 if name == "f8e8m0" else 20
    fields = rng.integers(127 - spread + 1, 127 + spread, 4096).astype(np.uint32) << np.uint32(23)
    near = ((words & np.uint32(0x807FFFFF)) | fields).view(np.float32)
    x = np.abs(near) if name == "f8e8m0" else near
    expected = x.astype(PEERS[name]).view(np.uint8)
    for found in encoded(x.astype(np.float64), d):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", FLOATS)
def test_beyond_the_largest_value(name: str) -> None:
    """Saturating conversions give the largest finite value; others infinity, or NaN, or what there is."""
    d = dtype(name)
    finite, order = magnitudes(d)
    largest, top = float(finite[-1]), int(order[-1])
    # The code after the largest of hif8 would be 1.5 * 2^15, and 2^128 for scales.
    step = {"hif8": largest / 2, "f8e8m0": largest}.get(name, finite[-1] - finite[-2])
    above = np.nextafter(np.float32(largest + step / 2), np.float32(np.inf))
    x = np.array([largest, above, 3.3e38, np.inf])
    plain = np.array([top, *[BEYOND[name]] * 3])
    if name == "f8e8m0":
        for found in encoded(np.array([0.0, -0.0, -1.0, -np.inf]), d):
            assert found.tolist() == [0, 0, 0xFF, 0xFF]
    # No conversion saturates scales, and they have no sign.
    signs = (1.0,) if name == "f8e8m0" else (1.0, -1.0)
    ways = [(False, plain)] if name == "f8e8m0" else [(False, plain), (True, np.full(4, top))]
    for sign in signs:
        for saturate, expected in ways:
            for found in encoded(sign * x, d, saturate):
                np.testing.assert_array_equal(found, expected | (0 if sign > 0 else 1 << (d.bits - 1)))
    for found in encoded(np.array([np.nan, -np.nan]), d, saturate=name != "f8e8m0"):
        assert (found == NAN[name]).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", [*(n for n in FLOATS if n != "f8e8m0"), "i4"])
def test_every_code_is_converted_to_f32_and_back(name: str) -> None:
    """By ``tcvt``, in a tile of every code."""
    d = dtype(name)
    small, wide = TileType(d, 1, max(len(codes(d)), 64)), TileType(dtype("f32"), 1, max(len(codes(d)), 64))
    given = np.resize(codes(d), small.shape)
    signed = codes(d).view(ml_dtypes.int4).astype(np.float64) if name == "i4" else values(d)
    wanted = np.resize(signed, wide.shape)
    there = np.asarray(pto.ops.tcvt(pto.tile(given, dtype=name), dst=wide, profile="cpu_sim"))
    back = np.asarray(pto.ops.tcvt(pto.tile(there), dst=small, profile="cpu_sim").words)
    np.testing.assert_array_equal(there, wanted.astype(np.float32))
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(back[number], given[number])
    assert name == "i4" or (back[~number] == NAN[name]).all()
    for source, result, expected in ((small, wide, there), (wide, small, back)):
        text = f"pto.tcvt ins(%s : {print_type(source)}) outs(%d : {print_type(result)})"
        data = given if source is small else there
        fresh = np.zeros(result.shape, result.dtype.word)
        tiles = {"s": OracleTile(source, data), "d": OracleTile(result, fresh)}
        made = run(pto.parse(text), tiles, profile="cpu_sim")["d"].data
        np.testing.assert_array_equal(np.ascontiguousarray(made).view(expected.dtype), expected)


@pytest.mark.variants(5)
@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("profile", ["cpu_sim", "a5"])
@pytest.mark.parametrize(
    ("name", "first", "second", "count"),
    [("tadd", 0x7E, 0x7E, 2), ("tsub", 0x7E, 0xFE, 2), ("tmul", 0x7E, 0x7E, 2), ("taddc", 0x7E, 0x7E, 3)],
)
def test_arithmetic_has_one_nan(
    name: str, first: int, second: int, count: int, profile: Any, numerics: Any
) -> None:
    """448 + 448 and -448 + -448 are the same NaN, and so is what a NaN of either sign gives."""
    if profile == "a5" and name in ("tsub", "tmul"):
        name, second = "tadd", first
    pairs = [
        (first, second),
        (first ^ 0x80, second ^ (0x80 if name != "tmul" else 0)),
        (0xFF, 0x38),
        (0x38, 0xFF),
    ]
    t = TileType(dtype("f8e4m3"), 1, 32)
    sources = [np.array([[p[i] for p in pairs] * 8], np.uint8) for i in range(2)]
    sources += [np.zeros((1, 32), np.uint8)] * (count - 2)
    operands = ", ".join(f"%{c}" for c in "abc"[:count])
    types = ", ".join([print_type(t)] * count)
    program = pto.parse(f"%d = {name} {operands} : {types}")
    given = dict(zip("abc", sources, strict=False))
    kernel = pto.compile(program, profile=profile, numerics=numerics)
    out = jax.jit(
        lambda x: kernel(**{n: jax.lax.bitcast_convert_type(w, jnp.float8_e4m3fn) for n, w in x.items()})
    )
    got = np.asarray(jax.lax.bitcast_convert_type(out(given)["d"].array, np.uint8))
    assert got.tolist() == [[0x7F] * 32]
    made = run(program, {n: OracleTile(t, w) for n, w in given.items()}, profile=profile)["d"]
    assert np.asarray(made.data).view(np.uint8).tolist() == [[0x7F] * 32]


_REPEATS = {
    "tcolexpand": "pto.tcolexpand ins(%x : {T}) outs(%y : {T})",
    "trowexpand": "pto.trowexpand ins(%x : {T}) outs(%y : {T})",
    "texpands": "pto.texpands ins(%s : bf16) outs(%y : {T})",
}


@pytest.mark.variants(2)
@pytest.mark.parametrize("how", ["jit", "vmap", "ranks"])
@pytest.mark.parametrize("name", _REPEATS)
def test_repeated_subnormal_numbers_of_bfloat16_keep_their_bits(name: str, how: str) -> None:
    """A CPU with instructions for bfloat16 repeats a number by way of float32, without subnormal ones."""
    tile = "!pto.tile_buf<vec, 16x16xbf16>"
    view = "!pto.partition_tensor_view<16x16xbf16>"
    body = _REPEATS[name].format(T=tile)
    program = pto.parse(
        f"""func.func @k(%a: {view}, %s: bf16, %o: {view}) attributes {{pto.entry}} {{
          %x = pto.alloc_tile : {tile}
          %y = pto.alloc_tile : {tile}
          pto.tload ins(%a : {view}) outs(%x : {tile})
          {body}
          pto.tstore ins(%y : {tile}) outs(%o : {view})
          return
        }}"""
    )
    kernel = pto.compile(program, "a5", warn=False)
    words = np.random.default_rng(0).integers(0, 1 << 16, (3, 16, 16), dtype=np.uint16) & np.uint16(0x807F)
    a, s = words.view(ml_dtypes.bfloat16), words[:, 0, 1].view(ml_dtypes.bfloat16)
    zeros = np.zeros_like(a)
    expected = [
        np.asarray(kernel.eager(*call)["o"]).view(np.uint16) for call in zip(a, s, zeros, strict=True)
    ]
    if how == "vmap":
        results = np.asarray(jax.jit(jax.vmap(kernel))(a, s, zeros)["o"])
    elif how == "ranks":
        ranks = pto.compile(program, "a5", ranks=1, warn=False)
        calls = zip(a[:, None], s[:, None], zeros[:, None], strict=True)
        results = np.concatenate([np.asarray(ranks(*call)["o"]) for call in calls])
    else:
        results = np.stack([np.asarray(kernel(*call)["o"]) for call in zip(a, s, zeros, strict=True)])
    np.testing.assert_array_equal(results.view(np.uint16), expected)
    assert (results.view(np.uint16) & np.uint16(0x7FFF)).any()
