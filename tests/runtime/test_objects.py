"""Kernels, programs and tiles as objects: what they show, equality, copies and pickles."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.examples import EXAMPLES
from pto_jax.profiles import PROFILES

X = np.arange(32, dtype=np.float32).reshape(4, 8)
CODES = np.arange(64, dtype=np.uint8).reshape(1, 64)


@pto.kernel(types=(pto.ptr("f32"), pto.ptr("f32")))
def scaled(x: Any, y: Any, *, factor: float = 2.0) -> None:
    t = pto.alloc_tile("f32", 4, 8)
    pto.tload(t, pto.GlobalTensor(x, (4, 8)))
    pto.tmuls(t, t, factor)
    pto.tstore(pto.GlobalTensor(y, (4, 8)), t)


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (lambda: pto.tile(X[:2]), "Tile(vec 2x8xf32, [[0 1 ... 6 7] [8 9 ... 14 15]])"),
        (lambda: pto.tile(X, valid=(1, 3)), "Tile(vec 4x8xf32, valid 1x3, [[0 1 2]])"),
        (lambda: pto.tile(X, valid=(0, 3)), "Tile(vec 4x8xf32, valid 0x3, empty)"),
        (lambda: pto.tile(CODES % 16, dtype="i4"), "Tile(vec 1x64xi4, [[ 0 1 ... -2 -1]])"),
        (lambda: pto.tile(CODES, dtype="hif8"), "Tile(vec 1x64xhif8, [[0 2.3842e-07 ... 0.21875 0.23438]])"),
        (lambda: pto.tile(CODES % 16, dtype="f4e1m2x2"),
         "Tile(vec 1x64xf4e1m2x2, [[0 0.25 ... -1.5 -1.75]])"),
        (lambda: pto.tile(X.astype(jnp.bfloat16)[:1, :2].repeat(8, 1)),
         "Tile(vec 1x16xbf16, [[0 0 ... 1 1]])"),
        (lambda: jax.vmap(lambda r: pto.tile(X, valid=(r, 8)))(np.array([1, 3])),
         "Tile(2 of vec 4x8xf32, valid 1..3x8, [[[0 ... 7] ... [24 ... 31]] [[0 ... 7] ... [24 ... 31]]])"),
        (lambda: jax.eval_shape(pto.tile, X), "Tile(vec 4x8xf32, traced)"),
    ],
)  # fmt: skip
def test_a_tile_shows_its_type_region_and_a_few_values(made: Any, shown: str) -> None:
    assert repr(made()) == shown


def test_a_traced_tile_has_a_representation() -> None:
    seen: list[str] = []

    def show(x: Any, rows: Any) -> Any:
        seen.append(repr(pto.tile(x, valid=(rows, 8))))
        return pto.tile(x)

    jax.jit(show)(X, 2)
    assert seen == ["Tile(vec 4x8xf32, valid ?x?, traced)"]
    assert "traced" in repr(jax.tree.unflatten(jax.tree.structure(pto.tile(X)), [object()]))


def _tangents(t: pto.Tile) -> pto.Tile:
    """The gradient that JAX has for integer words: a tile of arrays of type float0."""
    found: pto.Tile = jax.grad(lambda t: t.array.sum(), allow_int=True)(t)
    return found


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (_tangents, "no values"),
        (lambda t: jax.tree.map(lambda _: None, t), "no values"),
        (lambda t: jax.tree.map(lambda _: np.zeros(3), t), "no values"),
        (lambda t: jax.tree.map(lambda _: object(), t), "traced"),
    ],
)
@pytest.mark.parametrize("tile", [pto.tile(X), pto.tile(X).dynamic()], ids=["whole", "sizes"])
def test_a_tile_of_other_leaves_has_a_representation(tile: pto.Tile, other: Any, shown: str) -> None:
    t = other(tile)
    assert shown in repr(t) and str(t) == repr(t) and t._repr_svg_() is None


def test_the_shape_of_a_tile_is_that_of_its_array() -> None:
    made = pto.tile(X, valid=(2, 3))
    assert (made.shape, made.ndim, made.dtype) == ((4, 8), 2, pto.dtype("f32"))
    batch = jax.vmap(pto.tile)(np.stack([X, X, X]))
    assert batch.shape == np.asarray(batch).shape == (3, 4, 8) and batch.ndim == 3


def test_elements_of_a_tile_are_those_of_its_array() -> None:
    made = pto.tile(X, valid=(2, 3))
    assert made[1, 2] == 10 and (made[2:, ::2] == X[2:, ::2]).all() and len(made) == 4
    np.testing.assert_array_equal(np.stack(list(made)), X)
    assert made.astype(np.float16).dtype == np.float16 and (made.astype(int) == X).all()
    assert float(jax.jit(lambda t: t[0, 1])(made)) == 1


def test_a_notebook_shows_values_and_the_valid_region() -> None:
    shown = pto.tile(np.where(X == 9, np.nan, X), valid=(2, 3))._repr_svg_()
    assert shown is not None and "vec 4x8xf32" in shown and "valid 2x3" in shown
    assert shown.count('class="outside"><title') == 32 - 6 and shown.count('class="nan"><title') == 1
    batch = jax.vmap(pto.tile)(np.zeros((3, 2, 200), np.float32))._repr_svg_()
    assert batch is not None and "tile 0 of 3, valid 2x200" in batch and "every 4th column" in batch
    assert pto.tile(CODES, dtype="hif8")._repr_svg_() is not None
    assert jax.eval_shape(pto.tile, X)._repr_svg_() is None


def test_tiles_are_equal_where_type_region_and_words_are() -> None:
    made = pto.tile(X, valid=(2, 3))
    assert made == pto.tile(X, valid=(2, 3)) and made != pto.tile(X, valid=(2, 4)) and made != X.tolist()
    assert pto.tile(X) == pto.tile(jnp.asarray(X)) and pto.tile(X) != pto.tile(X + 1)
    assert pto.tile(X) != pto.tile(X.view(np.int32))
    nan = pto.tile(np.full((1, 8), np.nan, np.float32))
    assert nan == pto.tile(np.full((1, 8), np.nan, np.float32))


def test_traced_tiles_have_no_equality() -> None:
    with pytest.raises(pto.ArgumentError, match=r"== of traced tiles \(vec 4x8xf32\).*\.array == b\.array"):
        jax.jit(lambda x: pto.tile(x) == pto.tile(x))(X)
    assert jax.jit(lambda t: t == t)(pto.tile(X))


def test_a_tile_of_a_tile_has_its_contents_and_another_region() -> None:
    made = pto.tile(pto.tile(X, valid=(2, 3)), valid=(1, 8))
    assert (np.asarray(made) == X).all() and (int(made.valid_rows), int(made.valid_cols)) == (1, 8)


def test_a_tile_is_no_buffer() -> None:
    with pytest.raises(pto.ArgumentError, match=r"argument 'x': got a Tile.*t\.array"):
        scaled(pto.tile(X), X)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_kernels_programs_and_arguments_show_one_short_line(name: str) -> None:
    program, grid = pto.load(EXAMPLES[name].path), EXAMPLES[name].grid
    kernel = pto.compile(program, checks=True, grid=grid)
    for text in (repr(kernel), repr(program), *map(repr, kernel.arguments)):
        # Checkouts are in folders with names of any length.
        shown = text.replace(str(EXAMPLES[name].path), "")
        assert len(shown) < 400 and "\n" not in shown and "DType" not in shown
    function = kernel.function
    assert repr(kernel).startswith(f"<Kernel {function.name}({function.args[0].name}: ")
    options = "checks=True" + (f", grid={grid}" if grid > 1 else "")
    assert f"profile='{kernel.profile.name}', numerics='exact', {options}>" in repr(kernel)
    assert f"@{function.name}(" in repr(program) and "operations>" in repr(program)


def test_what_kernels_show() -> None:
    kernel = scaled.compile(profile="a5", out_of_region="backing", grid=2)
    assert repr(kernel) == (
        "<Kernel scaled(x: ptr<f32>, y: ptr<f32>) -> (y), profile='a5', numerics='exact', "
        "out_of_region='backing', grid=2>"
    )
    assert repr(kernel.arguments[1]) == "Argument(y: ptr<f32>, at least 32 elements, written)"
    assert repr(scaled.specialise(factor=3.0)) == "<kernel @scaled(x: ptr<f32>, y: ptr<f32>), factor=3.0>"


def test_the_representation_of_a_program_is_not_its_identity() -> None:
    one, other = (pto.parse(f"%d = pto.{op} %a, %b : !pto.tile<f32, 1, 8>") for op in ("tadd", "tsub"))
    assert repr(one) == repr(other) and one.digest != other.digest and one != other


def same_kernel(kernel: Any) -> None:
    for made in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel), copy.copy(kernel)):
        assert made is kernel and hash(made) == hash(kernel)


def test_kernels_pickle_to_the_memoised_kernel() -> None:
    same_kernel(scaled.compile())
    same_kernel(pto.compile(pto.parse("%d = pto.tadd %a, %b : !pto.tile<f32, 1, 8>"), checks=True))
    assert copy.deepcopy(scaled.compile())(X, 0 * X)["y"][0, 1] == 2


def test_programs_and_tiles_survive_pickles_and_copies() -> None:
    program = scaled.program
    for made in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program)):
        assert made == program and hash(made) == hash(program) and str(made) == str(program)
    for tile in (pto.tile(X), pto.tile(X, valid=(2, 3)), pto.tile(CODES, dtype="hif8")):
        assert pickle.loads(pickle.dumps(tile)) == tile == copy.deepcopy(tile)
    for profile in PROFILES.values():
        assert pickle.loads(pickle.dumps(profile)) is profile is copy.deepcopy(profile)


_LONG = np.arange(1, 9, dtype=np.int64).reshape(1, 8) << 33


def test_tiles_of_64_bits_survive_pickles_and_copies() -> None:
    for tile in (
        pto.tile(_LONG),
        pto.tile(_LONG, valid=(1, 5)),
        jax.vmap(pto.tile)(pto.tile(_LONG).array[None]),
    ):
        for made in (pickle.loads(pickle.dumps(tile)), copy.deepcopy(tile), copy.copy(tile)):
            assert made == tile and made.words.dtype == np.uint64
            np.testing.assert_array_equal(np.asarray(made), np.asarray(tile))


def test_words_of_a_tile_that_jax_has_narrowed_are_an_error() -> None:
    tile = jax.device_get(pto.tile(_LONG))
    calls: dict[str, Callable[[], Any]] = {
        "device_put": lambda: jax.device_put(tile),
        "jit": lambda: jax.jit(lambda t: t)(tile),
        "instruction": lambda: jax.jit(lambda t: pto.ops.tadd(t, t, profile="cpu_sim"))(tile),
        "vmap": lambda: jax.vmap(lambda t: t)(jax.tree.map(lambda x: x[None], tile)),
        "loop": lambda: jax.lax.map(lambda t: t, jax.tree.map(lambda x: x[None], tile)),
    }
    for name, call in calls.items():
        with pytest.raises(pto.ArgumentError, match=r"got words of uint32; allowed: uint64 .*JAX narrows"):
            call()
        with jax.enable_x64(True):
            assert np.asarray(jax.tree.leaves(call())[0]).dtype == np.uint64, name


def test_kernels_of_a_module_pickle_by_name_with_their_constants() -> None:
    assert pickle.loads(pickle.dumps(scaled)) is scaled is copy.deepcopy(scaled)
    other = pickle.loads(pickle.dumps(scaled.specialise(factor=3.0)))
    assert other.constants == {"factor": 3.0} and other(X, 0 * X)["y"][0, 1] == 3


def test_a_local_kernel_says_why_it_cannot_be_pickled() -> None:
    @pto.kernel(types=(pto.ptr("f32"),))
    def local(x: Any) -> None:
        pto.alloc_tile("f32", 4, 8)

    assert copy.deepcopy(local) is local
    with pytest.raises(pto.ArgumentError, match=r"test_objects\.py:\d+.*@local.*kernel\.program"):
        pickle.dumps(local)
    assert pickle.loads(pickle.dumps(local.program)) == local.program
