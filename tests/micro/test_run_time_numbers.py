"""Strides, starts and addresses of the cube unit that only execution knows."""

from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from tests.micro.cube_programs import LEFT, RIGHT, Kernel, Typed, matrix

M, N, K = SIZES = (20, 33, 40)


def computed(kernel: Kernel, numbers: dict[str, int], **arrays: np.ndarray) -> Any:
    """The buffers after a kernel, of equal bits called, vmapped over its numbers, and interpreted."""
    program = kernel.program()
    expected = oracle.run(program, {**arrays, **numbers})
    compiled = pto.compile(program, warn=False)
    batch = {n: np.stack([v, v]) for n, v in arrays.items()}
    many = {n: np.array([v, v]) for n, v in numbers.items()}
    with jax.enable_x64(True):
        together = jax.jit(jax.vmap(lambda values: compiled(**values)))({**batch, **many})
    for name, value in expected.items():
        for found in (compiled(**arrays, **numbers)[name], together[name][1]):
            assert np.asarray(found).tobytes() == np.asarray(value).tobytes(), name
    return expected


def staged(
    kernel: Kernel, name: str, address: int, shape: tuple[int, int], stride: Any, *, pitch: Any
) -> Typed:
    """Lines that load a matrix whose rows are ``stride`` bytes apart."""
    target = kernel.at("l1", address, kernel.buffers[name])
    n, d, s, one, col, zero = (
        v if isinstance(v, Typed) else kernel.number(v) for v in (*shape, stride, 1, pitch, 0)
    )
    flag, gm = kernel.number("false", "i1"), kernel.gm(name)
    kernel.lines.append(
        f"pto.mte_gm_l1_frac {gm.name}, {target.name}, nd2nz, shape({n.name}, {d.name}), "
        f"src_layout({s.name}), dst_group({one.name}, {one.name}, {col.name}, {zero.name}), "
        f"ctrl({zero.name}, {flag.name}) : {gm.type}, {target.type}, nd2nz, shape i64, i64, src_layout(i64), "
        "dst_group i64, i64, i64, i64, ctrl i64, i1"
    )
    return target


@pytest.mark.variants(1)
@pytest.mark.parametrize("element", ["i8", "f16"])
def test_strides_of_matrices_and_of_stores_may_be_arguments(element: str) -> None:
    target, size = ("i32", 1) if element == "i8" else ("f32", 2)
    kernel = Kernel({"a": element, "b": element, "c": target}, numbers=("s", "t", "pitch"))
    s, t, pitch = kernel.numbers_of("s", "t", "pitch")
    a = staged(kernel, "a", LEFT, (M, K), s, pitch=32)
    b = staged(kernel, "b", RIGHT, (N, K), s, pitch=pitch)
    left, right = kernel.at("l0a", 0, element), kernel.at("l0b", 0, element)
    blocks = -(-K * size // 32)
    kernel.op("mte_l1_l0a", "", a, left, 0, 0, 2, blocks, 2, 2)
    kernel.op("mte_l1_l0b", "", b, right, 0, 0, 3, blocks, 3, 3)
    kernel.store(kernel.product("mad", left, right, SIZES), kernel.gm("c"), (M, N), "nz2nd", strides=(32, t))
    x, y = matrix(element, (M, 50)), matrix(element, (N, 50))
    zeros = np.zeros((M, 41), np.int32 if target == "i32" else np.float32)
    found = computed(kernel, {"s": 50 * size, "t": 41, "pitch": 48}, a=x, b=y, c=zeros)["c"]
    want = x[:, :K].astype(np.int32) @ y[:, :K].astype(np.int32).T
    assert (found[:, :N] == want).all() and not found[:, N:].any()


@pytest.mark.variants(0)
@pytest.mark.parametrize("turned", [False, True])
def test_starts_of_loads_may_be_arguments_and_numbers_of_loops(turned: bool) -> None:
    kernel = Kernel({"a": "i8", "b": "i8", "c": "i32"}, numbers=("row", "col"))
    row, col = kernel.numbers_of("row", "col")
    source, left = kernel.matrix("a", LEFT, (64, 64)), kernel.at("l0a", 0, "i8")
    _, right = kernel.factors("b", "b", (32, 32, 32))
    kernel.matrix("a", LEFT, (64, 64))
    attributes = "{transpose = true}" if turned else ""
    kernel.op("mte_l1_l0a", "", source, left, row, col, 2, 1, 4, 2, attributes=attributes)
    sizes = (32, 32, 32)
    kernel.store(kernel.product("mad", left, right, sizes), kernel.gm("c"), (32, 32), "nz2nd")
    a, b = matrix("i8", (64, 64)), matrix("i8", (32, 32))
    for at in ((0, 0), (2, 1)):
        found = computed(kernel, dict(zip(("row", "col"), at, strict=True)), a=a, b=b,
                         c=np.zeros((32, 32), np.int32))["c"]  # fmt: skip
        part = a[16 * at[0] : 16 * at[0] + 32, 32 * at[1] : 32 * at[1] + 32].astype(np.int32)
        assert (found == (part.T if turned else part) @ b.T.astype(np.int32)).all()


def test_sizes_that_only_execution_knows_are_refused_by_name() -> None:
    kernel = Kernel({"a": "i8", "b": "i8", "c": "i32"}, numbers=("m",))
    (m,) = kernel.numbers_of("m")
    left, right = kernel.factors("a", "b", SIZES)
    kernel.product("mad", left, right, (m, N, K))
    arrays = {"a": matrix("i8", (M, K)), "b": matrix("i8", (N, K)), "c": np.zeros((M, N), np.int32)}
    with pytest.raises(pto.NotExecutableError, match=r"mad: got a number m that only execution knows"):
        pto.compile(kernel.program(), warn=False)(**arrays, m=20)


@pytest.mark.variants(0)
@pytest.mark.parametrize("at", [128, 65600])
def test_parameters_stand_in_either_part_at_an_address_of_execution(at: int) -> None:
    kernel = Kernel({"a": "f32", "b": "f32", "x": "f32", "y": "f32"}, numbers=("at",))
    made = kernel.product("mad", *kernel.factors("a", "b", (16, 16, 16)), (16, 16, 16))
    row = kernel.at("l1", 294912, "f32")
    kernel.copy(kernel.gm("x"), row, 64)
    kernel.lines.append("%slopes = pto.castptr %at : i64 -> !pto.ptr<f32, fb>")
    slopes = Typed("%slopes", "!pto.ptr<f32, fb>")
    kernel.op("mte_l1_fb", "{}, {}, {} nburst({}, {}, {})", row, slopes, 1, 1, 0, 0)
    kernel.store(made, kernel.gm("y"), (16, 16), ("pre_relu({}, mode = vector_relu)", (slopes,)), "nz2nd")
    a, b = matrix("f32", (16, 16)), matrix("f32", (16, 16))
    steep = np.linspace(-1, 1, 16, dtype=np.float32)
    found = computed(kernel, {"at": at}, a=a, b=b, x=steep, y=np.zeros((16, 16), np.float32))["y"]
    sums = a @ b.T
    assert (found == np.where(sums >= 0, sums, sums * steep)).all()
    with pytest.raises(pto.ExecutionError, match="bytes"):
        pto.compile(kernel.program(), warn=False)(
            a=a, b=b, x=steep, y=np.zeros((16, 16), np.float32), at=30000
        )
