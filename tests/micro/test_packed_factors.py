"""Products of factors with two 4-bit numbers in a byte."""

from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from tests.micro.cube_programs import LEFT, LEFT_SCALES, RIGHT, RIGHT_SCALES, RNG, Kernel, up

#: Values of the codes 0 to 7; 8 to 15 are the same below zero.
VALUES = {
    "!pto.f4E2M1x2": np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6]),
    "!pto.f4E1M2x2": np.array([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75]),
}


def numbers(element: str, codes: np.ndarray) -> np.ndarray:
    """The numbers of codes."""
    return np.asarray(np.where(codes < 8, 1, -1) * VALUES[element][codes % 8])


def in_bytes(codes: np.ndarray) -> np.ndarray:
    """Two codes in a byte, the first one in the low half."""
    return np.asarray((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8))


def fragments(scales: np.ndarray) -> np.ndarray:
    """Codes of scales [rows, groups] in fragments of 16 rows of two."""
    rows, groups = scales.shape
    whole = np.zeros((up(rows, 16), up(groups, 2)), np.uint8)
    whole[:rows, :groups] = scales
    return np.ascontiguousarray(whole.reshape(-1, 16, whole.shape[1] // 2, 2).transpose(0, 2, 1, 3)).ravel()


def scaled_product(
    kernel: Kernel, types: tuple[str, str], sizes: tuple[int, int, int], turned: bool, **more: Any
) -> None:
    """Lines that multiply factors ``a`` and ``b`` with scales ``x`` and ``y`` into ``c``."""
    m, n, k = sizes
    targets = []
    for gm, element, rows, l1, scales, space in (
        ("a", types[0], m, LEFT, LEFT_SCALES, "l0a"),
        ("b", types[1], n, RIGHT, RIGHT_SCALES, "l0b"),
    ):
        shape = (k, rows // 2) if turned else (rows, k // 2)
        source, target = kernel.at("l1", l1, element), kernel.at(space, 0, element)
        kernel.fractals(
            kernel.gm(gm), source, shape, (shape[1],), (1, 1, up(shape[0], 64 if turned else 16), 0)
        )
        asked = (m, k, 0, 0) if space == "l0a" else (k, n, 0, 0)
        kernel.op(f"mte_l1_{space}", "", source, target, *asked,
                  attributes="{transpose = true}" if turned else "")  # fmt: skip
        name = "x" if gm == "a" else "y"
        kernel.copy(kernel.gm(name), kernel.at("l1", scales, "ui8"), up(rows, 16) * up(k // 32, 2))
        kernel.op(f"mte_l1_{space}_mx", "", kernel.at("l1", scales, element), target, *asked)
        targets.append(target)
    made = kernel.product("mad_mx", targets[0], targets[1], sizes, **more)
    kernel.store(made, kernel.gm("c"), (m, n), "nz2nd")


@pytest.mark.variants(0)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("types", [(a, b) for a in VALUES for b in VALUES], ids=lambda t: f"{t[0]} {t[1]}")
def test_two_numbers_in_a_byte_are_multiplied_with_their_scales(types: tuple[str, str], turned: bool) -> None:
    sizes = (64, 64, 64) if turned else (20, 34, 128)
    kernel = Kernel({"a": types[0], "b": types[1], "x": "ui8", "y": "ui8", "c": "f32"})
    scaled_product(kernel, types, sizes, turned)
    check(kernel, types, sizes, turned)


@pytest.mark.variants(0)
@pytest.mark.parametrize("k", [64, 128])
def test_a_row_of_numbers_in_bytes_is_a_left_factor(k: int) -> None:
    types, sizes = ("!pto.f4E1M2x2", "!pto.f4E2M1x2"), (1, 34, k)
    kernel = Kernel({"a": types[0], "b": types[1], "x": "ui8", "y": "ui8", "c": "f32"})
    scaled_product(kernel, types, sizes, False, end="disable_gemv")
    check(kernel, types, sizes, False)
    # The row without fractals: its bytes are those of the matrix.
    kernel = Kernel({"a": types[0], "b": types[1], "x": "ui8", "y": "ui8", "c": "f32"})
    scaled_product(kernel, types, sizes, False)
    at = next(i for i, line in enumerate(kernel.lines) if line.startswith("pto.mte_l1_l0a "))
    source, target = kernel.at("l1", LEFT, types[0]), kernel.at("l0a", 0, types[0])
    kernel.op("mte_l1_l0a", "", source, target, 0, 0, 1, 1, 1, 1)
    kernel.lines[at] = kernel.lines.pop()
    kernel.copy(kernel.gm("a"), source, k // 2)
    kernel.lines.insert(at, kernel.lines.pop())
    check(kernel, types, sizes, False)


@pytest.mark.variants(1)
@pytest.mark.parametrize("placed", ["addr = {} ", "addr = %elsewhere ", ""], ids=["placed", "moved", "free"])
def test_scales_of_a_pointer_into_a_tile_stand_beside_its_address(placed: str) -> None:
    element, sizes = "!pto.f4E2M1x2", (16, 16, 64)
    kernel = Kernel({"a": element, "b": element, "x": "ui8", "y": "ui8", "c": "f32"})
    scaled_product(kernel, (element, element), sizes, False)
    tile = (
        f"!pto.tile_buf<loc=left, dtype={element}, rows=16, cols=64, v_row=16, v_col=64, blayout=col_major, "
        "slayout=row_major, fractal=512, pad=0>"
    )
    head: dict[str, str] = {}
    for made, name in kernel.head.items():
        if made.endswith("l0a>"):
            at = made.split()[1]
            head["arith.constant 8192 : i64"] = "%elsewhere"
            head[f"pto.alloc_tile {placed.format(at)}: {tile}"] = (
                "%here" if "elsewhere" in placed else "%left"
            )
            if "elsewhere" in placed:
                head[f"pto.tassign %here, {at} : {tile} -> {tile}"] = "%left"
            made = f"pto.tile_buf_addr %left : {tile} -> !pto.ptr<{element}, l0a>"
        head[made] = name
    kernel.head = head
    if placed:
        check(kernel, (element, element), sizes, False)
    else:
        with pytest.raises(pto.NotExecutableError, match=r"got a tile without an address"):
            check(kernel, (element, element), sizes, False)


def check(kernel: Kernel, types: tuple[str, str], sizes: tuple[int, int, int], turned: bool) -> None:
    """Execute a kernel on random factors: interpreted, called and vmapped, against a formula."""
    m, n, k = sizes
    codes = [RNG.integers(0, 16, shape) for shape in ((m, k), (n, k))]
    scales = [RNG.integers(125, 130, (rows, k // 32)) for rows in (m, n)]
    a, b = (in_bytes(c.T if turned else c) for c in codes)
    arrays = {"a": a, "b": b, "c": np.zeros((m, n), np.float32)}
    arrays |= dict(zip("xy", (fragments(s.astype(np.uint8)) for s in scales), strict=True))
    program = kernel.program()
    found = oracle.run(program, arrays)["c"]
    values = [
        numbers(t, c) * np.repeat(2.0 ** (s - 127), 32, axis=1)
        for t, c, s in zip(types, codes, scales, strict=True)
    ]
    assert (found == values[0] @ values[1].T).all()
    compiled = pto.compile(program, warn=False)
    both = {name: np.stack([v, v[::-1], v]) for name, v in arrays.items()}
    for other in (compiled(**arrays)["c"], jax.vmap(lambda v: compiled(**v))(both)["c"][2]):
        assert np.asarray(other).tobytes() == found.tobytes()


def test_a_start_along_k_inside_bytes_of_two_numbers_is_refused() -> None:
    element = "!pto.f4E2M1x2"
    kernel = Kernel({"a": element})
    kernel.op("mte_l1_l0a", "", kernel.at("l1", 0, element), kernel.at("l0a", 0, element), 0, 4, 1, 1, 1, 1)
    with pytest.raises(pto.NotExecutableError, match="got a start of 4 along K of f4e2m1x2; allowed: 0"):
        kernel.run(a=np.zeros(64, np.uint8))
