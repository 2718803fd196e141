"""What the vendor's hardware suites expect where the simulator does something else.

The expectations are written in NumPy here; every one holds in compiled and eager code and in the
interpreter, and what the simulator does is asked beside it.
"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import isa
from pto_jax.ir import TileType
from pto_jax.isa.declare import Contradiction
from pto_jax.manual import manual
from pto_jax.profiles import ProfileName

NAN = np.nan
PROFILES: tuple[ProfileName, ...] = ("cpu_sim", "a2a3", "a5")


def tiles(text: str) -> dict[str, TileType]:
    """The types of the tiles that an operation names, by name."""
    (op,) = pto.parse(text).walk()
    return {v.name: v.type for v in (*op.ins, *op.outs) if isinstance(v.type, TileType)}


def everywhere(text: str, profile: ProfileName, inputs: dict[str, Any], *names: str) -> list[Any]:
    """The results of an operation, which compiled, eager and interpreted execution agree on."""
    program, types = pto.parse(text), tiles(text)
    kernel = pto.compile(program, profile=profile, warn=False)
    for name in names:
        inputs.setdefault(name, np.zeros(types[name].shape, types[name].dtype.numpy))
    compiled, eager = kernel(**inputs), kernel.eager(**inputs)
    given = {n: pto.oracle.OracleTile(types[n], x) if n in types else x for n, x in inputs.items()}
    interpreted = pto.oracle.run(program, given, profile=profile)
    for name in names:
        words = np.asarray(compiled[name].words)
        np.testing.assert_array_equal(words, np.asarray(eager[name].words))
        np.testing.assert_array_equal(words, np.asarray(interpreted[name].data).view(words.dtype))
    return [np.asarray(compiled[name].words).view(types[name].dtype.numpy) for name in names]


@pytest.mark.parametrize(
    ("profile", "best", "taken"),
    [
        ("cpu_sim", "max", [1, 20, 30, 40, 50]),
        ("a2a3", "max", [1, 2, 30, 40, 50]),
        ("a5", "max", [1, 2, 3, 4, 50]),
        ("cpu_sim", "min", [10, 20, 30, 40, 5]),
        ("a2a3", "min", [10, 2, 30, 40, 5]),
        ("a5", "min", [10, 2, 3, 4, 5]),
    ],
)
def test_equal_and_unordered_values_of_tpartarg(profile: ProfileName, best: str, taken: list[int]) -> None:
    """Better, equal, NaN first, NaN second, worse: an equal pair takes src0 on hardware."""
    v, i = "!pto.tile_buf<vec, 1x8xf32, valid=1x5>", "!pto.tile_buf<vec, 1x8xi32, valid=1x5>"
    text = f"pto.tpartarg{best} ins(%a, %b, %i, %j : {v}, {v}, {i}, {i}) outs(%d, %n : {v}, {i})"

    def row(*x: float) -> NDArray[Any]:
        return np.array([[*x, 0, 0, 0]])

    inputs = {
        "a": row(3, 2, NAN, 1, 1).astype(np.float32),
        "b": row(1, 2, 1, NAN, 3).astype(np.float32),
        "i": row(1, 2, 3, 4, 5).astype(np.int32),
        "j": row(10, 20, 30, 40, 50).astype(np.int32),
    }
    (value, index) = everywhere(text, profile, inputs, "d", "n")
    assert index[0, :5].tolist() == taken
    expected = [inputs["ab"[n >= 10]][0, k] for k, n in enumerate(taken)]
    np.testing.assert_array_equal(value[0, :5], np.array(expected, np.float32))


def divided(a: int, b: int) -> tuple[int, int]:
    """Quotient towards zero and remainder; both 0 for a zero divisor."""
    if b == 0:
        return 0, 0
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient, a - quotient * b


@pytest.mark.slow
@pytest.mark.parametrize("d", ["i64", "u64"])
def test_64_bit_division_by_a_routine_on_a5(d: str) -> None:
    kind: Any = np.int64 if d == "i64" else np.uint64
    x, y = (np.array([v], np.int64).astype(kind) for v in ([7, -7, 9, 5], [0, 3, -2, 5]))
    t = f"!pto.tile_buf<vec, 1x4x{d}>"

    def results(name: str, **inputs: Any) -> list[int]:
        operands = ", ".join(f"%{n}" for n in inputs)
        types = ", ".join(t if v.ndim else d for v in inputs.values())
        text = f"pto.{name} ins({operands} : {types}) outs(%d : {t})"
        return everywhere(text, "a5", dict(inputs), "d")[0][0].tolist()  # type: ignore[no-any-return]

    pairs = [divided(a, b) for a, b in zip(x[0].tolist(), y[0].tolist(), strict=True)]
    assert results("tdiv", a=x, b=y) == [q for q, _ in pairs]
    assert results("trem", a=x, b=y) == [r for _, r in pairs]
    assert results("trecip", a=y) == [divided(1, b)[0] for b in y[0].tolist()]
    for scalar in (0, 3):
        s = np.array(scalar, kind)
        assert results("tdivs", a=x, s=s) == [divided(a, scalar)[0] for a in x[0].tolist()]
        assert results("trems", a=x, s=s) == [divided(a, scalar)[1] for a in x[0].tolist()]
        assert results("tdivs", s=s, a=y) == [divided(scalar, b)[0] for b in y[0].tolist()]


def test_other_remainders_take_the_sign_of_the_divisor() -> None:
    t = "!pto.tile_buf<vec, 1x8xi32>"
    x, y = np.array([[7, -7, 9, 5] * 2], np.int32), np.array([[0, 3, -2, 5] * 2], np.int32)
    for profile in PROFILES:
        (rest,) = everywhere(
            f"pto.trem ins(%a, %b : {t}, {t}) outs(%d : {t})", profile, {"a": x, "b": y}, "d"
        )
        assert rest[0].tolist() == [7, 2, -1, 0] * 2


@pytest.mark.parametrize("profile", PROFILES)
def test_a_column_without_partner(profile: ProfileName) -> None:
    t = "!pto.tile_buf<vec, 2x8xf32, valid=2x5>"
    x = np.arange(1, 17, dtype=np.float32).reshape(2, 8)
    (sums,) = everywhere(f"pto.tpairreducesum ins(%a : {t}) outs(%d : {t})", profile, {"a": x}, "d")
    alone = x[:, 4] if profile == "cpu_sim" else np.zeros(2, np.float32)
    expected = np.stack([x[:, 0] + x[:, 1], x[:, 2] + x[:, 3], alone, 0 * alone, 0 * alone], 1)
    np.testing.assert_array_equal(sums[:, :5], expected)


@pytest.mark.parametrize("name", ["tand", "tor"])
@pytest.mark.parametrize("profile", ["a2a3", "a5"])
def test_bits_of_floats(profile: ProfileName, name: str) -> None:
    t = "!pto.tile_buf<vec, 1x16xf16>"
    x, y = np.random.default_rng(1).integers(0, 1 << 16, (2, 1, 16)).astype(np.uint16)
    (bits,) = everywhere(f"pto.{name} ins(%a, %b : {t}, {t}) outs(%d : {t})", profile, {"a": x, "b": y}, "d")
    np.testing.assert_array_equal(bits.view(np.uint16), x & y if name == "tand" else x | y)
    assert not pto.verify(pto.parse(f"%d = {name} %a, %b : !pto.tile<1x8xf32>"), profile=profile)


@pytest.mark.parametrize("d", ["f8e4m3", "f8e5m2", "hif8", "f8e8m0"])
def test_small_floats_are_transposed_on_a5(d: str) -> None:
    t = f"!pto.tile_buf<vec, 32x32x{d}>"
    text = f"pto.ttrans ins(%a : {t}) outs(%d : {t})"
    x = np.random.default_rng(2).integers(0, 256, (32, 32)).astype(np.uint8)
    (turned,) = everywhere(text, "a5", {"a": x}, "d")
    np.testing.assert_array_equal(turned.view(np.uint8), x.T)
    assert any(r.severity == "error" for r in pto.verify(pto.parse(text), profile="a2a3"))


@pytest.mark.instructions("ttrans")
@pytest.mark.parametrize("profile", PROFILES)
def test_a_transposed_tile_leaves_a_larger_destination_alone(profile: ProfileName) -> None:
    src, dst = "!pto.tile_buf<vec, 8x16xf32, valid=5x16>", "!pto.tile_buf<vec, 16x24xf32, valid=16x5>"
    x, before = np.arange(128, dtype=np.float32).reshape(8, 16), np.full((16, 24), -1, np.float32)
    text = f"pto.ttrans ins(%a : {src}) outs(%d : {dst})"
    (turned,) = everywhere(text, profile, {"a": x, "d": before.copy()}, "d")
    np.testing.assert_array_equal(turned, np.concatenate([x[:5].T, before[:, 5:]], axis=1))


@pytest.mark.instructions("tscatter")
@pytest.mark.parametrize(("profile", "outside"), [("cpu_sim", 3.0), ("a2a3", NAN), ("a5", NAN)])
def test_tscatter_of_every_element_is_a_move(profile: ProfileName, outside: float) -> None:
    """It zeroes nothing, and reads beyond the valid region of its source as a move does."""
    tile = "!pto.tile_buf<vec, 4x16xf16, valid=?x?>"
    text = f"pto.tscatter ins(%a {{maskPattern = #pto.mask_pattern<P1111>}} : {tile}) outs(%d : {tile})"
    a, before = np.full((4, 16), 3, np.float16), np.full((4, 16), -1, np.float16)
    types = tiles(text)
    given = {
        "a": pto.oracle.OracleTile(types["a"], a, 2, 8),
        "d": pto.oracle.OracleTile(types["d"], before, 2, 9),
    }
    expected = before.copy()
    expected[:2, :8], expected[:2, 8] = 3, outside
    interpreted = pto.oracle.run(pto.parse(text), given, profile=profile)["d"].data
    inputs = {"a": pto.tile(a, valid=(2, 8)).dynamic(), "d": pto.tile(before, valid=(2, 9)).dynamic()}
    compiled = pto.compile(pto.parse(text), profile=profile, warn=False, checks=False)(**inputs)["d"]
    np.testing.assert_array_equal(np.asarray(compiled.words).view(np.uint16), interpreted.view(np.uint16))
    np.testing.assert_array_equal(interpreted, expected)


@pytest.mark.instructions("tquant.mx")
def test_exponents_of_several_rows_may_stand_in_one_row_on_a5() -> None:
    types = [f"!pto.tile_buf<vec, {t}>" for t in ("2x64xui8", "1x32xui8", "1x8xf32", "1x64xf32")]
    text = f"""pto.tquant.mx ins(%x : !pto.tile_buf<vec, 2x64xf32>) outs(%c, %e, %m, %f : {", ".join(types)})
      {{quant_type = #pto<quant_type MXFP8>}}"""
    x = np.ldexp(np.ones((2, 64), np.float32), np.arange(2)[:, None] * 4)
    given = {"x": x, "e": np.full((1, 32), 255, np.uint8)}
    codes, exponents = everywhere(text, "a5", given, "c", "e", "m", "f")[:2]
    assert exponents[0, :5].tolist() == [119, 119, 123, 123, 255]
    assert len(np.unique(codes)) == 1


def test_index_tiles_of_other_width() -> None:
    v, i = "!pto.tile_buf<vec, 2x32xf16, valid=2x20>", "!pto.tile_buf<vec, 2x24xi32, valid=2x20>"
    text = f"pto.tpartargmax ins(%a, %b, %i, %j : {v}, {v}, {i}, {i}) outs(%d, %n : {v}, {i})"
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 2, 32)).astype(np.float16)
    n, m = rng.integers(0, 99, (2, 2, 24)).astype(np.int32)
    value, index = everywhere(text, "a2a3", {"a": a, "b": b, "i": n, "j": m}, "d", "n")
    first = (a >= b)[:, :20]
    np.testing.assert_array_equal(value[:, :20], np.where(first, a[:, :20], b[:, :20]))
    np.testing.assert_array_equal(index[:, :20], np.where(first, n[:, :20], m[:, :20]))
    rules = {p: {r.rule for r in pto.verify(pto.parse(text), profile=p)} for p in ("cpu_sim", "a2a3")}
    assert "src0Idx-shape" in rules["cpu_sim"] and not rules["a2a3"]
    narrow = text.replace("2x24xi32, valid=2x20", "2x16xi32, valid=2x16")
    assert "src0Idx-lanes" in {r.rule for r in pto.verify(pto.parse(narrow), profile="a2a3")}


@pytest.mark.slow
def test_a_row_times_a_matrix_into_a_whole_fractal() -> None:
    left = "!pto.tile_buf<left, 1x32xf16, slayout=row_major>"
    right = "!pto.tile_buf<right, 32x32xf16, slayout=col_major>"
    bias = "!pto.tile_buf<bias, 1x32xf32>"
    acc = "!pto.tile_buf<acc, 16x32xf32, valid=1x32, blayout=col_major, slayout=row_major, fractal=1024>"
    text = f"pto.tgemv.bias ins(%a, %b, %c : {left}, {right}, {bias}) outs(%d : {acc})"
    assert not [r for r in pto.verify(pto.parse(text), profile="a2a3") if r.severity == "error"]
    rng = np.random.default_rng(4)
    a, b = rng.integers(-8, 8, (1, 32)).astype(np.float16), rng.integers(-8, 8, (32, 32)).astype(np.float16)
    c = rng.integers(-8, 8, (1, 32)).astype(np.float32)
    program = pto.parse(text)
    for run in (pto.compile(program, profile="a2a3", warn=False), pto.compile(program, warn=False).eager):
        out = np.asarray(run(a=a, b=b, c=c, d=np.zeros((16, 32), np.float32))["d"])
        np.testing.assert_array_equal(out[0], a[0].astype(np.float32) @ b.astype(np.float32) + c[0])
        assert not out[1:].any()


def test_contradictions_are_listed_with_both_sources() -> None:
    page = manual("contradictions")
    decisions = [d for i in isa.instructions().values() for d in i.decisions if isinstance(d, Contradiction)]
    assert len(set(decisions)) >= 8
    for d in decisions:
        assert d.other_source and d.source and d.question in page.replace("\n", " ")
