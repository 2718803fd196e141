"""Destinations that overlap: writes follow one order, on every executor."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from tests.micro.cube_programs import LEFT, Kernel, matrix

SIZES = (18, 33, 16)
BURSTS = "{}, {}, {} nburst({}, {}, {})"
X = np.random.default_rng(2).integers(-(2**31), 2**31, 512).astype(np.int32)


def same_everywhere(kernel: Kernel, numbers: Mapping[str, int] | None = None, **arrays: np.ndarray) -> Any:
    """The buffers after a kernel, of equal bits called, vmapped and interpreted."""
    program, given = kernel.program(), dict(numbers or {})
    expected = oracle.run(program, {**arrays, **given})
    compiled = pto.compile(program, warn=False)
    with jax.enable_x64(True):
        batch = {n: np.stack([v, v[::-1]]) for n, v in arrays.items()}
        together = jax.jit(jax.vmap(lambda values: compiled(**values, **given)))(batch)
    for name, value in expected.items():
        for found in (compiled(**arrays, **given)[name], together[name][0]):
            assert np.asarray(found).tobytes() == np.asarray(value).tobytes(), name
    return expected


def stores(element: str, target: str) -> tuple[Kernel, Any, dict[str, np.ndarray]]:
    """A kernel with random sums, and the factors of these."""
    m, n, k = SIZES
    kernel = Kernel({"a": element, "b": element, "y": target})
    made = kernel.product("mad", *kernel.factors("a", "b", SIZES), SIZES)
    return kernel, made, {"a": matrix(element, (m, k)), "b": matrix(element, (n, k))}


@pytest.mark.variants(1)
@pytest.mark.parametrize("mode", ["", "add"])
@pytest.mark.parametrize("stride", [0, 7])
@pytest.mark.parametrize("layout", [("nz2nd", ()), ("nz2dn({})", (1,))], ids=["rows", "columns"])
def test_the_last_row_of_a_store_stays_and_atomic_rows_all_count(layout: Any, stride: int, mode: str) -> None:
    kernel, made, arrays = stores("i8", "i32")
    clauses = [f"atomic(type = s32, op = {mode})"] if mode else []
    kernel.store(made, kernel.gm("y"), SIZES[:2], layout, *clauses, strides=(32, stride))
    found = same_everywhere(kernel, **arrays, y=np.arange(-450, 450, dtype=np.int32))["y"]
    if not stride and layout[0] == "nz2nd":
        sums = arrays["a"].astype(np.int32) @ arrays["b"].T.astype(np.int32)
        assert (found[:33] == (sums.sum(0) + np.arange(-450, -417) if mode else sums[-1])).all()


@pytest.mark.variants(0)
@pytest.mark.parametrize("mode", ["", "add"])
def test_groups_of_columns_are_written_row_by_row(mode: str) -> None:
    for split, stride in ((0, 16), (1, 100)):
        kernel, made, arrays = stores("f16", "f32")
        clauses = [f"atomic(type = f32, op = {mode})"] if mode else []
        layout = ("nz2nz({})", (split,))
        kernel.store(made, kernel.gm("y"), SIZES[:2], layout, *clauses, strides=(32, stride))
        same_everywhere(kernel, **arrays, y=np.linspace(-9, 9, 900, dtype=np.float32))


@pytest.mark.slow
def test_trips_of_a_store_into_one_place_add_up() -> None:
    kernel, made, arrays = stores("i8", "i32")
    loop, add = ("loop3({}, {}, {})", (3, 0, 0)), "atomic(type = s32, op = add)"
    kernel.store(made, kernel.gm("y"), (1, 33), "nz2nd", loop, add, strides=(32, 33))
    found = same_everywhere(kernel, **arrays, y=np.zeros(33, np.int32))["y"]
    assert (found == 3 * (arrays["a"][:1].astype(np.int32) @ arrays["b"].T.astype(np.int32))).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("pitch", [1, 2])
def test_fractals_of_a_load_are_written_row_by_row(pitch: int, turned: bool) -> None:
    kernel = Kernel({"a": "i8", "b": "i8", "c": "i32"})
    sizes = (16, 16, 64)
    _, right = kernel.factors("b", "b", sizes)
    source, left = kernel.matrix("a", LEFT, (64, 64)), kernel.at("l0a", 0, "i8")
    attributes = "{transpose = true}" if turned else ""
    kernel.op("mte_l1_l0a", "", source, left, 0, 0, 4, 2, 4, pitch, attributes=attributes)
    kernel.store(kernel.product("mad", left, right, sizes), kernel.gm("c"), sizes[:2], "nz2nd")
    same_everywhere(
        kernel, a=matrix("i8", (64, 64)), b=matrix("i8", (16, 64)), c=np.zeros((16, 16), np.int32)
    )


def transferred(*lines: str) -> Kernel:
    """A kernel with 2 KiB of ``x`` in the unified buffer, and the numbers ``%n`` and ``%d``."""
    kernel = Kernel({"x": "i32", "y": "i32"}, numbers=("n", "d"))
    ub = kernel.at("ub", 0, "i32")
    kernel.op("mte_gm_ub", "{}, {}, {}, {} nburst({}, {}, {})", kernel.gm("x"), ub, 0, 2048, 1, 0, 0)
    kernel.lines += lines
    return kernel


@pytest.mark.variants(1)
@pytest.mark.parametrize("known", [True, False], ids=["constants", "arguments"])
@pytest.mark.parametrize("stride", [0, 4])
@pytest.mark.parametrize("mode", ["", "add"])
def test_bursts_into_global_memory_are_written_in_order(mode: str, stride: int, known: bool) -> None:
    kernel = transferred(*([f"pto.set_atomic_{mode}", "pto.set_atomic_s32"] if mode else []))
    ub, (n, d) = kernel.at("ub", 0, "i32"), kernel.numbers_of("n", "d")
    kernel.op("mte_ub_gm", BURSTS, ub, kernel.gm("y"), 64, *((4, 64, stride) if known else (n, 64, d)))
    found = same_everywhere(kernel, {"n": 4, "d": stride}, x=X, y=X[::-1].copy())["y"]
    if mode == "add" and not stride:
        assert (found[:16] == X[::-1][:16] + X[:64].reshape(4, 16).sum(0, dtype=np.int32)).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize("known", [True, False], ids=["constants", "arguments"])
def test_bursts_into_the_unified_buffer_are_written_in_order(known: bool) -> None:
    kernel = Kernel({"x": "i32", "y": "i32"}, numbers=("n", "d"))
    ub, (n, d) = kernel.at("ub", 0, "i32"), kernel.numbers_of("n", "d")
    burst = (4, 64, 32) if known else (n, 64, d)
    kernel.op("mte_gm_ub", "{}, {}, {}, {} nburst({}, {}, {})", kernel.gm("x"), ub, 0, 64, *burst)
    kernel.op("mte_ub_gm", BURSTS, ub, kernel.gm("y"), 160, 1, 0, 0)
    found = same_everywhere(kernel, {"n": 4, "d": 32}, x=X, y=X[::-1].copy())["y"]
    want = np.zeros(40, np.int32)
    for burst_number in range(4):
        want[8 * burst_number : 8 * burst_number + 16] = X[16 * burst_number : 16 * burst_number + 16]
    assert (found[:40] == want).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize("gaps", [(0, 0), (-1, 0), (-2, 1)])
def test_a_move_inside_the_unified_buffer_reads_everything_first(gaps: tuple[int, int]) -> None:
    kernel = transferred()
    kernel.op("mte_ub_ub", BURSTS, kernel.at("ub", 256, "i32"), kernel.at("ub", 320, "i32"), 2, 4, *gaps)
    kernel.op("mte_ub_gm", BURSTS, kernel.at("ub", 0, "i32"), kernel.gm("y"), 1024, 1, 0, 0)
    found = same_everywhere(kernel, {"n": 0, "d": 0}, x=X, y=np.zeros(512, np.int32))["y"]
    want = X[:256].copy()
    for burst in range(4):
        source, target = 64 + 8 * burst * (2 + gaps[0]), 80 + 8 * burst * (2 + gaps[1])
        want[target : target + 16] = X[source : source + 16]
    assert (found[:256] == want).all()


def test_an_atomic_store_without_a_type_or_with_parts_of_elements_is_refused() -> None:
    for lines, burst, message in (
        (["pto.set_atomic_add"], (64, 1, 64, 64), "atomic"),
        (["pto.set_atomic_add", "pto.set_atomic_s32"], (62, 2, 64, 64), "multiple of 4"),
        (["pto.set_atomic_add", "pto.set_atomic_s32"], (64, 2, 64, 66), "multiple of 4"),
    ):
        kernel = transferred(*lines)
        kernel.op("mte_ub_gm", BURSTS, kernel.at("ub", 0, "i32"), kernel.gm("y"), *burst)
        given = {"x": X, "y": X.copy(), "n": 0, "d": 0}
        for execute in (oracle.run, lambda program, v: pto.compile(program, warn=False).eager(**v)):
            with pytest.raises(pto.PtoError, match=message):
                execute(kernel.program(), given)


def test_more_bytes_than_the_memories_have_are_an_error_where_their_number_is_an_argument() -> None:
    kernel = Kernel({"x": "i32", "y": "i32"}, numbers=("n", "d"))
    (n,) = kernel.numbers_of("n")
    kernel.op("mte_ub_gm", BURSTS, kernel.at("ub", 0, "i32"), kernel.gm("y"), 64, n, 64, 0)
    compiled = pto.compile(kernel.program(), warn=False)
    compiled(x=X, y=np.zeros(16, np.int32), n=1, d=0)
    with pytest.raises(pto.ExecutionError, match=r"mte_ub_gm: .*allowed: 64 bytes in all"):
        compiled(x=X, y=np.zeros(16, np.int32), n=2, d=0)
