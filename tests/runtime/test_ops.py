"""Instructions as functions on tiles, and tiles as users hold them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa, ops
from pto_jax.ir import INDEX, CmpMode, RoundMode, ScalarType, TileType
from pto_jax.isa.samples.operations import Sample, legal_samples
from pto_jax.profiles import PROFILE_NAMES, PROFILES, ProfileName

RNG = np.random.default_rng(3)
_START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _the_same_data_in_any_order() -> None:
    """Tests draw from one generator; each starts it anew, whatever ran before in this process."""
    RNG.bit_generator.state = _START


def tile(t: TileType, fill: int | None = None) -> pto.Tile:
    word = t.dtype.word
    high = (1 << t.dtype.bits) - 1
    data = (
        RNG.integers(0, high, t.shape, dtype=np.uint64, endpoint=True)
        if fill is None
        else np.full(t.shape, fill)
    )
    return pto.tile(data.astype(word), type=t)


def operands(sample: Sample) -> list[Any]:
    given: list[Any] = []
    for name in sample.form:
        t = sample.types[name]
        if isinstance(t, TileType):
            given.append(tile(t))
        else:
            assert isinstance(t, ScalarType)
            given.append(0 if t.dtype == INDEX else 2 if t.dtype.is_integer else 1.5)
    return given


def test_names_lists_every_executable_instruction_on_tiles() -> None:
    assert {"tadd", "tadds", "tcvt", "tcmp", "tsel", "taddreluconv", "texpands", "tmov"} <= set(ops.names())
    assert not {"tload", "tstore", "alloc_tile", "tassign", "tsync"} & set(ops.names())
    assert set(ops.names()) <= set(dir(ops)) and len(ops.names()) >= 50


def test_functions_are_found_by_name() -> None:
    assert all(ops.function(name) is getattr(ops, name) for name in ops.names())
    with pytest.raises(pto.ArgumentError, match=r"no function is called 'tnegg'; close: tneg; ops\.names"):
        ops.function("tnegg")
    with pytest.raises(pto.ArgumentError, match=r"no function is called '_find'; ops.names"):
        ops.function("_find")


#: Every eighth instruction is always called; compiling all of them takes minutes.
_NAMES = [pytest.param(n, marks=() if i % 8 == 0 else pytest.mark.slow) for i, n in enumerate(ops.names())]


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", _NAMES)
def test_every_instruction_is_a_function(name: str) -> None:
    instruction = isa.find(name)
    assert instruction is not None
    tried = 0
    for profile in PROFILES:
        sample = next(iter(legal_samples(instruction, PROFILES[profile])), None)
        if sample is None:
            continue
        tried += 1
        given = operands(sample)
        before = [np.asarray(g).tobytes() for g in given if isinstance(g, pto.Tile)]
        written = [sample.types.get(o.name) for o in instruction.destinations_of(sample.form)]
        keep = [tile(t) for t in written if isinstance(t, TileType)]
        dst: Any = keep[0] if len(keep) == 1 else tuple(keep)
        result = getattr(ops, name)(*given, dst=dst, profile=profile, **sample.attrs)
        made = result if isinstance(result, tuple) else () if result is None else (result,)
        assert [t.type.with_valid(None, None) for t in made] == [t.type.with_valid(None, None) for t in keep]
        assert before == [np.asarray(g).tobytes() for g in given if isinstance(g, pto.Tile)]
    assert tried
    function = getattr(ops, name)
    assert function.__name__ == name and instruction.summary in function.__doc__


def test_tprint_prints_inside_jit_and_returns_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def traced(x: Any) -> Any:
        t = pto.tile(x, valid=(1, 2))
        assert ops.tprint(t, format="WIDTH8_PRECISION2") is None
        return ops.tadd(t, t).array

    doubled = jax.jit(traced)(np.full((2, 8), 1.5, np.float32))
    jax.effects_barrier()  # type: ignore[no-untyped-call]
    assert capsys.readouterr().out == "TPRINT 1x2\n    1.50     1.50\n"
    assert doubled[0, 1] == 3


def f32(*rows: Any, **options: Any) -> pto.Tile:
    return pto.tile(np.array(rows, np.float32), **options)


ONES = f32([1.0] * 8, [1.0] * 8)
INTS = pto.tile(np.ones((2, 8), np.int32))


def test_results_take_type_and_region_of_the_first_source() -> None:
    partial = f32([1.0] * 8, [1.0] * 8, valid=(1, 5))
    out = ops.tadd(partial, ONES)
    assert (int(out.valid_rows), int(out.valid_cols)) == (1, 5)
    assert np.asarray(out)[0, :5].tolist() == [2.0] * 5
    assert ops.tadd(ONES, ONES).type.is_full


def test_dst_keeps_lanes_outside_its_region() -> None:
    dst = f32([7.0] * 8, [7.0] * 8, valid=(1, 3))
    out = np.asarray(ops.tadd(ONES, ONES, dst=dst))
    assert out[0].tolist() == [2.0] * 3 + [7.0] * 5 and out[1].tolist() == [7.0] * 8
    assert (np.asarray(dst) == 7).all()


def test_dst_may_be_a_type() -> None:
    half = TileType(pto.dtype("f16"), 2, 16)
    wide = pto.tile(np.full((2, 16), 1.5, np.float32))
    out = ops.tcvt(wide, dst=half, rmode="RINT")
    assert out.type == half and np.asarray(out).dtype == np.float16 and (np.asarray(out) == 1.5).all()
    with pytest.raises(pto.ArgumentError, match="dst= is required"):
        ops.tcvt(wide)


def test_sources_outside_their_region_read_the_fill() -> None:
    partial = f32([1.0] * 8, [1.0] * 8, valid=(2, 4))
    assert np.isnan(np.asarray(ops.tadd(partial, ONES, dst=ONES))[:, 4:]).all()
    assert (np.asarray(ops.tadd(partial, ONES, dst=ONES, out_of_region="backing")) == 2).all()
    assert (np.asarray(ops.tadd(partial, ONES, dst=ONES, profile="cpu_sim")) == 2).all()


@pytest.mark.parametrize("mode", ["FLOOR", "floor", "CAST_FLOOR", RoundMode.FLOOR])
def test_spellings_of_attributes(mode: Any) -> None:
    source = f32([1.75, -1.25] * 4)
    out = ops.tcvt(source, dst=TileType(pto.dtype("i32"), 1, 8), rmode=mode)
    assert np.asarray(out).tolist() == [[1, -2] * 4]


@pytest.mark.parametrize("mode", ["LT", "lt", CmpMode.LT])
def test_spellings_of_comparisons(mode: Any) -> None:
    row = pto.tile(np.arange(64, dtype=np.float32)[None])
    mask = ops.tcmps(row, 8.0, dst=TileType(pto.dtype("u8"), 1, 32, v_col=8), cmpMode=mode)
    assert np.asarray(mask)[0, :8].tolist() == [255] + [0] * 7


def test_scalars_are_traced_and_batchable() -> None:
    out = jax.vmap(lambda s: ops.tadds(ONES, s).words)(jnp.arange(3, dtype=np.float32))
    assert np.asarray(out).view(np.float32)[:, 0, 0].tolist() == [1, 2, 3]
    for s in (2, 2.0, np.float32(2), jnp.float32(2), np.array(2, np.float32)):
        assert np.asarray(ops.tadds(ONES, s))[0, 0] == 3


def test_scalars_take_the_type_of_the_tile_they_are_combined_with() -> None:
    mask = pto.tile(np.full((1, 32), 1, np.uint8), type=TileType(pto.dtype("u8"), 1, 32, v_col=2))
    source = pto.tile(np.ones((1, 16), np.int16))
    out = ops.tsels(mask, source, pto.tile(np.zeros((1, 16), np.int16)), -7, dst=source.type)
    assert np.asarray(out)[0, :9].tolist() == [1] + [-7] * 7 + [1]
    filled = ops.texpands(3, dst=TileType(pto.dtype("i32"), 1, 8))
    assert np.asarray(filled).tolist() == [[3] * 8]


def test_under_jit_and_vmap_with_different_valid_sizes() -> None:
    data = RNG.standard_normal((3, 4, 8)).astype(np.float32)
    rows, cols = np.array([4, 2, 0]), np.array([8, 3, 5])
    tiles = jax.vmap(lambda x, r, c: pto.tile(x, valid=(r, c)))(data, rows, cols)
    assert np.asarray(tiles.v_row).tolist() == rows.tolist() and np.asarray(tiles.v_row).dtype == np.int32
    dst = pto.tile(np.zeros((4, 8), np.float32))

    def work(t: pto.Tile) -> pto.Tile:
        kept = pto.Tile(dst.words, t.v_row, t.v_col, t.type)
        result: pto.Tile = ops.tmul(t, ops.tadds(t, 1.0), dst=kept)
        return result

    for function in (jax.vmap(work), jax.jit(jax.vmap(work))):
        out = function(tiles)
        assert np.asarray(out.v_row).tolist() == rows.tolist()
        for b in range(3):
            expected = np.zeros((4, 8), np.float32)
            inside = data[b, : rows[b], : cols[b]]
            expected[: rows[b], : cols[b]] = inside * (inside + np.float32(1))
            assert (np.asarray(out.words[b]).view(np.float32) == expected).all()


def test_batches_are_made_by_vmap_and_used_by_vmap() -> None:
    batch = jax.vmap(pto.tile)(np.ones((3, 2, 8), np.float32))
    assert batch.type.is_full and np.asarray(batch).shape == (3, 2, 8)
    dynamic = batch.dynamic()
    assert np.shape(dynamic.valid_rows) == (3,) and not dynamic.type.is_static
    assert np.asarray(jax.vmap(ops.tadd)(dynamic, batch)).tolist() == (np.ones((3, 2, 8)) * 2).tolist()
    with pytest.raises(pto.ArgumentError, match=r"source 0: got a batch of tiles of shape \(3,\).*jax.vmap"):
        ops.tadd(batch, ONES)
    with pytest.raises(pto.ArgumentError, match=r"dst: got a batch"):
        ops.tadd(ONES, ONES, dst=batch)


def test_tiles_are_pytrees() -> None:
    leaves, structure = jax.tree.flatten(ONES)
    assert len(leaves) == 1 and jax.tree.unflatten(structure, leaves) == ONES
    assert jax.eval_shape(lambda t: ops.tadd(t, t), ONES).type == ONES.type
    carried, _ = jax.lax.scan(lambda t, _: (ops.tadd(t, ONES), None), ONES, length=3)
    assert (np.asarray(carried) == 4).all()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: ops.tadd(ONES, np.ones((2, 8))), pto.ArgumentError, "got an array of float64; allowed: "),
        (
            lambda: ops.tadds(ONES, "a"),
            pto.ArgumentError,
            "source 1: got str; allowed: a tile, an array or a number",
        ),
        (lambda: ops.tadds(ONES, True), pto.ArgumentError, "source 1: got the bool True; allowed: f32"),
        (lambda: ops.tadds(ONES, np.float64(1)), pto.ArgumentError, "a scalar of float64; allowed: "),
        (lambda: ops.tadds(INTS, 1.5), pto.ArgumentError, "got the float 1.5; allowed: i32"),
        (
            lambda: ops.tadds(INTS, 2**31),
            pto.ArgumentError,
            "got 2147483648; allowed: numbers that i32 h",
        ),
        (lambda: ops.tadds(INTS, np.int16(3)), pto.VerifyError, "tadds"),
        (lambda: ops.tadd(ONES), pto.ArgumentError, "got 1 source operand"),
        (lambda: ops.tadd(ONES, ONES, ONES), pto.ArgumentError, "got 3 source operand"),
        (lambda: ops.tadd(ONES, INTS), pto.VerifyError, "tadd"),
        (lambda: ops.tadd(ONES, f32([1.0] * 8)), pto.VerifyError, "no implicit broadcasting"),
        (
            lambda: ops.tadd(ONES, ONES, dst=3),
            pto.ArgumentError,
            "dst: got int 3; allowed: a Tile",
        ),
        (lambda: ops.tadd(ONES, ONES, dst=(ONES, ONES)), pto.ArgumentError, "dst has 2 entries"),
        (lambda: ops.tadd(ONES, ONES, mode=1), pto.ArgumentError, "got the keyword 'mode'"),
        (lambda: ops.tadd(ONES, ONES, profile="a9"), pto.ArgumentError, "unknown profile 'a9'"),
        (lambda: ops.tadd(ONES, ONES, profile=["a5"]), pto.ArgumentError, r"unknown profile \['a5'\]"),
        (lambda: ops.tcvt(ONES, dst=ONES, rmode="UP"), pto.ArgumentError, "got rmode='UP'; allowed: "),
        (lambda: ops.tmuladddst(ONES, ONES), pto.ArgumentError, "dst= is required, the instruction reads"),
        (lambda: ops.tload, AttributeError, "tload works on more than tiles and numbers"),  # type: ignore[attr-defined]
        (lambda: ops.tnothing, AttributeError, "no instruction 'tnothing'"),  # type: ignore[attr-defined]
    ],
)
def test_errors(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (np.ones(8, np.float32), {}, r"got shape \(8,\); allowed: a \[rows, cols\] array"),
        (np.ones((1, 8)), {}, "no PTO element type has the array type float64"),
        (np.ones((1, 8), np.bool_), {}, "got elements of type i1; allowed: "),
        ([[1.0], [2.0, 3.0]], {}, "got the list .*; allowed: f32"),
        (np.ones((4, 8), np.float32), {"valid": (5, 8)}, "got 5 valid rows; allowed: 0 to 4"),
        (np.ones((4, 8), np.float32), {"valid": (4, -1)}, "got -1 valid cols; allowed: 0 to 8"),
        (np.ones((4, 8), np.float32), {"valid": (jnp.int32(9), 8)}, "got 9 valid rows"),
        (np.ones((4, 8), np.float32), {"valid": (1.0, 8)}, r"valid rows: got the float 1\.0; allowed: index"),
        (np.ones((4, 8), np.float32), {"valid": (1, 2**40)}, "got 1099511627776 valid cols; allowed: 0 to 8"),
        (np.ones((4, 8), np.float32), {"valid": (np.int64(2**32), 8)}, "got 4294967296 valid rows"),
        (np.ones((4, 8), np.float32), {"valid": (1, 8, 1)}, r"allowed: \(rows, cols\)"),
        (np.ones((4, 8), np.float32), {"valid": 5}, r"allowed: \(rows, cols\)"),
        (np.ones((4, 8), np.float32), {"dtype": "f99"}, "unknown element type 'f99'"),
        (
            np.ones((4, 8), np.float32),
            {"dtype": "f16"},
            r'got an array of float32; allowed: f16 .*; try: x\.astype\("float16"\)',
        ),
        (
            np.ones((4, 8), np.float32),
            {"dtype": "f16", "type": TileType(pto.dtype("f32"), 4, 8)},
            "dtype: got f16 for a tile of f32; allowed: none",
        ),
        (pto.tile(np.ones((4, 8), np.float32)), {"dtype": "f16"}, "dtype: got f16 for a tile of f32"),
        (np.ones((4, 8), np.float32), {"type": "f32"}, "allowed: a TileType"),
        (np.ones((4, 8), np.float32), {"type": TileType(pto.dtype("f32"), 8, 8)}, r"allowed: \(8, 8\)"),
        (np.ones((4, 8), np.float32), {"type": TileType(pto.dtype("f32"), 4, 8, None, None)}, "try: valid="),
    ],
)
def test_arrays_that_make_no_tile(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        pto.tile(given, **options)


@pytest.mark.parametrize("d", "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split())
def test_valid_sizes_of_every_integer_type(d: str) -> None:
    size: Any = np.dtype(d).type(3)
    x = np.ones((4, 8), np.float32)
    for tile in (pto.tile(x, valid=(size, size)), jax.jit(lambda n: pto.tile(x, valid=(n, n)))(size)):
        assert (int(tile.valid_rows), int(tile.valid_cols)) == (3, 3)


@pytest.mark.parametrize(
    ("d", "array"),
    [
        ("f32", np.float32), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("i8", np.int8),
        ("u16", np.uint16), ("i64", np.int64), ("f8e4m3", ml_dtypes.float8_e4m3fn),
        ("f8e5m2", ml_dtypes.float8_e5m2), ("f8e8m0", ml_dtypes.float8_e8m0fnu),
    ],
)  # fmt: skip
def test_tiles_hold_arrays_of_their_type_or_its_words(d: str, array: Any) -> None:
    element = pto.dtype(d)
    raw = RNG.integers(0, 2**element.bits, (2, 32), dtype=np.uint64, endpoint=False).astype(element.word)
    if element.numpy == "float32":
        raw[0, 0] = 0x7F800001  # a signalling NaN
    for made in (pto.tile(raw.view(array)), pto.tile(raw, dtype=d), pto.tile(jnp.asarray(raw.view(array)))):
        if d == "i64" and made.type.dtype != element:
            continue
        assert made.dtype == element and np.asarray(made).dtype == array
        assert np.asarray(made).tobytes() == raw.tobytes() == np.asarray(made.array).tobytes()
    assert np.asarray(pto.tile(raw, dtype=d), np.float64).dtype == np.float64


@pytest.mark.parametrize("d", ["hif8", "i4", "f4e2m1x2", "f4e1m2x2"])
def test_types_without_an_array_type_hold_raw_words(d: str) -> None:
    raw = np.arange(64, dtype=np.uint8).reshape(1, 64) & (0xFF if d == "hif8" else 0xF)
    made = pto.tile(raw, dtype=d)
    assert np.asarray(made).dtype == np.uint8 and (np.asarray(made) == raw).all()


def test_flush_mode_and_fast_numerics_are_options_of_ops() -> None:
    tiny = f32([1e-40] * 8)
    assert (np.asarray(ops.tadd(tiny, tiny)) > 0).all()
    assert (np.asarray(ops.tadd(tiny, tiny, subnormals="flush")) == 0).all()
    assert (np.asarray(ops.tadd(ONES, ONES, numerics="fast")) == 2).all()


def test_functions_on_device_arrays_transfer_nothing_of_the_users() -> None:
    """Under ``transfer_guard("disallow")``, where only explicit transfers are allowed."""
    whole, part = pto.tile(jnp.ones((8, 64))), pto.tile(jnp.ones((8, 64)), valid=(3, 64))
    number, fresh = jnp.float32(2), pto.TileType(pto.dtype("f16"), 8, 64)
    with jax.transfer_guard("disallow"):
        made = [
            ops.tadds(whole, number),
            ops.tadd(part, part),
            ops.tcvt(whole, dst=fresh),
            ops.tneg(pto.tile(whole.array)),
        ]
    assert [float(np.asarray(t)[0, 0]) for t in made] == [3, 2, 1, -1]


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_scratch_that_the_assembler_asks_for_may_be_left_out(profile: ProfileName) -> None:
    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    indices = np.arange(64, dtype=np.int32)[::-1].reshape(4, 16).copy()
    found = pto.ops.tgather(x, indices, profile=profile)
    np.testing.assert_array_equal(found.array, x.reshape(-1)[indices])
