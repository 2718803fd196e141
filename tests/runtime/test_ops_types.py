"""What types operands of ``pto.ops`` have: arrays in place of tiles, destinations that a call leaves out."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa, ops
from pto_jax.errors import ArgumentError, VerifyError
from pto_jax.ir import ScalarType, TileType, Type, attrs
from pto_jax.isa.samples.operations import Sample, legal_samples
from pto_jax.profiles import PROFILES, Profile
from pto_jax.runtime.op_types import ArrayType, NumberType, Request, SourceType, resolve
from tests.tables import every

#: Instructions whose destination is also read, whose destination's size no source says, and whose
#: destination's element type the sources do not say (on one profile only: the name with it).
READS = frozenset(
    "tmuladddst tfusedmuladd tfusedmuladdrelu taxpy tinsert tinsert_fp tgatherb tscatter".split()
)
SIZE = frozenset(
    "texpands trowexpand tcolexpand tfillpad_expand textract textract_fp timg2col tci ttri trandom "
    "tquant_mx tquant_dn tmov_zz".split()
)
ELEMENT = frozenset("tcvt tpack tmov_fp/cpu_sim tmov_fp/a5 tadddeqrelu/cpu_sim tdequant/cpu_sim".split())
#: The fill value is a part of the destination's type.
PAD = frozenset("tfillpad tfillpad_inplace".split())

X = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
H = (X[:, :32] % 7).astype(np.float16)


def source(t: Type) -> SourceType:
    if isinstance(t, ScalarType):
        return NumberType(None)
    assert isinstance(t, TileType)
    return ArrayType(t.dtype, t.rows, t.cols) if t.conv is None and t.is_full else t


def request(sample: Sample, profile: Profile, **given: Any) -> Request:
    instruction = sample.instruction
    named = [o for o in instruction.destinations_of(sample.form) if o.name in sample.types]
    return Request(
        instruction.name,
        sample.form,
        tuple(source(sample.types[n]) for n in sample.form),
        tuple((o.name, given.get(o.name)) for o in named),
        attrs(sample.attrs),
        profile,
    )


def first_samples(name: str) -> Iterator[tuple[Sample, Profile]]:
    instruction = isa.find(name)
    assert instruction is not None
    for profile in PROFILES.values():
        sample = next(iter(legal_samples(instruction, profile)), None)
        if sample is not None:
            yield sample, profile


@every("name", ops.names())
def test_every_instruction_takes_arrays_and_says_which_destination_it_needs(name: str) -> None:
    for sample, profile in first_samples(name):
        asked = request(sample, profile)
        reason = (
            "reads dst before" if name in READS
            else "no source says how many rows" if name in SIZE
            else "element type of dst does not follow" if {name, f"{name}/{profile.name}"} & ELEMENT
            else "dst has pad null" if name in PAD
            else ""
        )  # fmt: skip
        if reason:
            kind = VerifyError if name in PAD else ArgumentError
            with pytest.raises(kind, match=reason):
                resolve(asked)
        else:
            typed = resolve(asked)
            assert not typed.errors and len(typed.outs) == len(asked.destinations)
        if name not in READS | PAD:
            expected = {n: t for n, _ in asked.destinations if isinstance(t := sample.types[n], TileType)}
            typed = resolve(request(sample, profile, **expected))
            assert not typed.errors and set(expected.values()) <= set(typed.outs)


@pytest.mark.parametrize("name", ["tcvt", "tpack", "tadddeqrelu", "tdequant"])
def test_an_element_type_is_enough_where_only_it_is_open(name: str) -> None:
    for sample, profile in first_samples(name):
        expected = sample.types["dst"]
        assert isinstance(expected, TileType)
        (made,) = resolve(request(sample, profile, dst=expected.dtype)).outs
        assert made == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: ops.tcmp(X, X), "vec 16x32xu8 valid 16x8"),
        (lambda: ops.tcmps(X, 1.0, profile="a5"), "vec 16x32xu8 valid 16x8"),
        (lambda: ops.tcmp(X, X, dst="i8"), "vec 16x32xi8 valid 16x8"),
        (lambda: ops.trowsum(X), "vec 16x1xf32 DN"),
        (lambda: ops.trowmax(H, profile="cpu_sim"), "vec 16x1xf16 DN"),
        (lambda: ops.trowmax(H, dst="f32", profile="cpu_sim"), "vec 16x1xf32 DN"),
        (lambda: ops.tcolsum(X), "vec 1x64xf32"),
        (lambda: ops.trowargmax(X), "vec 16x1xi32 DN"),
        (lambda: ops.tcolargmin(X, dst="u32"), "vec 1x64xu32"),
        (lambda: ops.ttrans(X), "vec 64x16xf32"),
        (lambda: ops.ttrans(X[:3]), "vec 64x8xf32 valid 64x3"),
        (lambda: ops.tconcat(X, X[:, :8]), "vec 16x72xf32"),
        (lambda: ops.tsel(ops.tcmp(X, X), X, X), "vec 16x64xf32"),
        (lambda: ops.taddreluconv(X, X), "vec 16x64xf16"),
        (lambda: ops.tquant(X, X[:, :1], quant_type="INT8_SYM"), "vec 16x64xi8"),
        (lambda: ops.tgather(X, maskPattern="P0101"), "vec 16x32xf32"),
        (lambda: ops.tgather(X, *[np.zeros((8, 8), np.int32)] * 2), "vec 8x8xf32"),
        (lambda: ops.tsort32(X, np.zeros((16, 64), np.int32)), "vec 16x128xf32"),
        (lambda: ops.trowexpandadd(X[:, :1], X), "vec 16x64xf32"),
        (lambda: ops.tmatmul(H, H.T), "acc 16x16xf32 NZ"),
        (lambda: ops.tmatmul(H, H.T, profile="a5"), "acc 16x16xf32 NZ"),
        (lambda: ops.tmatmul_acc(np.zeros((16, 16), np.float32), H, H.T), "acc 16x16xf32 NZ"),
        (lambda: ops.tmov(X), "vec 16x64xf32"),
        (lambda: ops.tcvt(X, dst=jnp.float16), "vec 16x64xf16"),
        (lambda: ops.tcvt(X, dst=np.dtype(np.int16)), "vec 16x64xi16"),
        (lambda: ops.tcvt(X, dst=ml_dtypes.bfloat16), "vec 16x64xbf16"),
        (lambda: ops.tcvt(X, dst="f8e4m3", profile="a5"), "vec 16x64xf8e4m3"),
        (lambda: ops.tcvt(pto.tile(X, type=pto.TileType("f32", 16, 64, 3, 5)), dst="f16"),
         "vec 16x64xf16 valid 3x5"),
        (lambda: ops.texpands(3.0, dst=pto.TileType(np.float16, 2, 16)), "vec 2x16xf16"),
        (lambda: ops.tmuladddst(X, X, dst=X), "vec 16x64xf32"),
    ],
)  # fmt: skip
def test_types_of_destinations(call: Callable[[], pto.Tile], expected: str) -> None:
    made = jax.eval_shape(call)
    assert str(made.type) == expected


def test_several_destinations_take_a_tuple() -> None:
    values, positions = ops.trowargmax(X, dst=(None, "u32"))
    assert str(values.type) == "vec 16x1xf32 DN" and str(positions.type) == "vec 16x1xu32 DN"
    assert (
        np.asarray(positions).tolist() == [[63]] * 16
        and np.asarray(values)[:, 0].tolist() == X[:, 63].tolist()
    )


@pytest.mark.slow
def test_arrays_give_what_tiles_give() -> None:
    expected = np.asarray(ops.tadd(pto.tile(X), pto.tile(X)))
    for made in (
        ops.tadd(X, X),
        ops.tadd(pto.tile(X), X),
        ops.tadd(jnp.asarray(X), pto.tile(X)),
        jax.jit(ops.tadd)(X, X),
        jax.jit(lambda x: ops.tadd(x, pto.tile(x)))(X),
    ):
        assert made.type.is_full and (np.asarray(made) == expected).all()
    batch = jax.vmap(ops.tadd)(np.stack([X, X + 1]), np.stack([X, X]))
    assert batch.shape == (2, 16, 64) and (np.asarray(batch)[1] == 2 * X + 1).all()
    product = np.asarray(ops.tmatmul(H, H.T))
    assert (product == H.astype(np.float32) @ H.T.astype(np.float32)).all()
    scaled = jax.vmap(lambda s: ops.tmuls(X, s).array)(jnp.arange(2, dtype=np.float32))
    assert (np.asarray(scaled)[1] == X).all()


def test_an_array_as_destination_is_what_it_starts_from() -> None:
    mask = np.full((16, 64), 7, np.float32)
    kept = np.asarray(ops.tadd(pto.tile(X), pto.tile(X), dst=pto.tile(mask, valid=(2, 64))))
    assert (kept[:2] == 2 * X[:2]).all() and (kept[2:] == 7).all()
    assert (np.asarray(ops.tmuladddst(X, X, dst=mask)) == X * X + 7).all()


def test_valid_sizes_of_a_new_destination_follow_its_sources() -> None:
    partial = pto.tile(X, valid=(3, 9))
    sizes = {"trowsum": (3, 1), "ttrans": (9, 3), "tcmps": (3, 2)}
    for name, expected in sizes.items():
        extra = (1.0,) if name == "tcmps" else ()
        made = getattr(ops, name)(partial, *extra)
        assert (int(made.valid_rows), int(made.valid_cols)) == expected, name


def test_a_column_is_computed_on_as_a_row() -> None:
    column = ops.trowsum(X)
    with pytest.raises(pto.VerifyError, match=r"treshape.*in Python: the row tile\.array\.reshape\(1, -1\)"):
        ops.tmuls(column, 2.0)
    doubled = ops.tmuls(column.array.reshape(1, -1), 2.0).array.reshape(-1, 1)
    np.testing.assert_array_equal(doubled, 2 * np.asarray(column))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.tadd(X[None], X), r"source 0 \(src0\): got an array of shape \(1, 16, 64\).*jax.vmap"),
        (lambda: ops.tadd(X[0], X), r"got an array of shape \(64,\).*X\[0\]\[None, :\]"),
        (lambda: ops.tadd(X.astype(np.float64), X), r"of float64; .*X.astype\(np.float64\).astype"),
        (lambda: ops.tadd(X > 0, X), "array of bool; allowed: float32"),
        (lambda: ops.tadd(X[:0], X), "at least one row and column"),
        (lambda: ops.tadd(X[:3, :5], X[:3, :5]), r"pad the array, .*pto.tile\(padded, valid=\(3, 5\)\)"),
        (lambda: ops.tadd(X, 2.0), r"source 1 \(src1\): got float; allowed: a tile.*try: pto.ops.tadds"),
        (lambda: ops.tadds(X, X), r"\(scalar\): got an array of shape \(16, 64\); .*try: pto.ops.tadd"),
        (lambda: ops.tadds(X, pto.tile(X)), r"got a tile \(vec 16x64xf32\)"),
        (lambda: ops.tdivs(X, X), r"allowed: tdivs\(src, scalar: number\) or tdivs\(scalar: number, src\)"),
        (lambda: ops.tadd(X), r"got 1 source operand; allowed: tadd\(src0, src1\)"),
        (lambda: ops.tadds(X, scalar=2.0), "got the keyword 'scalar', which is an operand"),
        (lambda: ops.tadd(X, X, profil="a5"), "got the keyword 'profil'.*try: profile="),
        (lambda: ops.tcvt(X), "allowed on a2a3: f16, bf16, f32, i16, i32, i64; for example dst='f16'"),
        (lambda: ops.tcvt(X, dst="f99"), "got 'f99'; .*an element type such as 'f16' or jnp.float16"),
        (lambda: ops.tcvt(X, dst=np.float64), "float64.*an element type such as"),
        (lambda: ops.texpands(1.0), r"for example dst=pto.tile_type\('f32', 32, 64\)"),
        (lambda: ops.trowargmax(X, dst=("u32",) * 3), r"dst has 3 entries; allowed: .*\(dstVal, dst\)"),
        (lambda: ops.tmatmul(H, H), r"b has 16 rows, a has 32 columns.*loc='right'"),
        (lambda: ops.tneg(np.ones((512, 512), np.float32)),
         r"the largest that fits: 96x512; cut the arrays into such tiles and jax\.vmap over them"),
        (lambda: ops.tmov(pto.tile(H, type=pto.tile_type("f16", 16, 32, loc="mat"))),
         r"the type of dst does not follow.*left 16x32xf16 ZZ.*dst=pto.tile_type\("),
        (lambda: ops.tmov_fp(np.zeros((16, 32), np.float32), np.zeros((1, 32), np.uint64), dst="i8",
                             profile="a5"), r"allowed on a5: vec 16x32xi8, mat 16x32xi8 NZ; for example"),
        (lambda: ops.tfillpad(X), "allowed: zero, max, min, or padValue is given"),
    ],
)  # fmt: skip
def test_messages_say_what_to_write(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(pto.PtoError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pto.TileType("f99", 2, 16), "unknown element type 'f99'"),
        (lambda: pto.TileType("f16", 2, 16, loc="left"),  # type: ignore[arg-type]
         "loc: got 'left'.*pto.tile_type takes names"),
        (lambda: pto.TileType("f16", "2", 16),  # type: ignore[arg-type]
         "rows: got '2'; allowed: an integer"),
    ],
)  # fmt: skip
def test_tile_types_are_checked_when_they_are_made(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_functions_say_what_they_take() -> None:
    import inspect

    assert str(inspect.signature(ops.tadds)).startswith("(src, scalar, /, *, dst=None")
    assert next(iter(inspect.signature(ops.tdivs).parameters)) == "sources"
    assert "cmpMode" in inspect.signature(ops.tcmp).parameters
    for text in ("trowargmax(src) or trowargmax(src, tmp)", "tuple (dstVal, dst)", "rows of src and one"):
        assert text in (ops.trowargmax.__doc__ or "")
    assert "read and written, dst= is required" in (ops.taxpy.__doc__ or "")


def shown_call(name: str) -> str:
    """The example that ``help`` shows, as statements."""
    return (ops.function(name).__doc__ or "").partition("Example:\n  ")[2].replace("\n  ", "\n")


#: Its source is a convolution tile, which a kernel loads.
NO_CALL = frozenset({"timg2col"})


@pytest.mark.slow
def test_help_shows_types_of_every_profile_and_a_legal_call() -> None:
    text = ops.tcvt.__doc__ or ""
    assert "  a2a3: f32 i32 <- bf16 i64\n" in text and "  a5: f32 <- f8e4m3 f8e5m2 hif8\n" in text
    for name in set(ops.names()) - NO_CALL:
        assert shown_call(name).splitlines()[-1].partition("pto.ops.")[2].startswith(f"{name}(")
    assert all(not shown_call(name) for name in NO_CALL)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ops.names()) - NO_CALL))
def test_the_call_that_help_shows_is_executed(name: str) -> None:
    exec(shown_call(name), {"np": np, "pto": pto})
