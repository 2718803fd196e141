"""Rows that are sorted in blocks and merged: the engine finds the greatest records at once."""

from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.lowering import irregular_sort

N = 128
#: A row is sorted and merged; the first records and the whole row are stored.
TEXT = """module attributes {{pto.target_arch = "a3"}} {{
  func.func @sorts(%x: !pto.ptr<{d}>, %i: !pto.ptr<ui32>, %few: !pto.ptr<{d}>, %all: !pto.ptr<{d}>,
      %block: i32) attributes {{pto.entry, pto.kernel_kind = #pto.kernel_kind<vector>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %few_words = arith.constant {few} : index
    %n = arith.constant {n} : index
    %words = arith.constant {words} : index
    %xv = pto.make_tensor_view %x, shape = [%c1, %n], strides = [%n, %c1] : {v}
    %iv = pto.make_tensor_view %i, shape = [%c1, %n], strides = [%n, %c1] : {vi}
    %fv = pto.make_tensor_view %few, shape = [%c1, %few_words], strides = [%few_words, %c1] : {v}
    %av = pto.make_tensor_view %all, shape = [%c1, %words], strides = [%words, %c1] : {v}
    %xw = pto.partition_view %xv, offsets = [%c0, %c0], sizes = [%c1, %n] : {v} -> {xp}
    %iw = pto.partition_view %iv, offsets = [%c0, %c0], sizes = [%c1, %n] : {vi} -> {ip}
    %fw = pto.partition_view %fv, offsets = [%c0, %c0], sizes = [%c1, %few_words] : {v} -> {fp}
    %aw = pto.partition_view %av, offsets = [%c0, %c0], sizes = [%c1, %words] : {v} -> {rp}
    %xt = pto.alloc_tile : {x}
    %it = pto.alloc_tile : {i}
    %lists = pto.alloc_tile : {r}
    %merged = pto.alloc_tile : {r}
    %ft = pto.alloc_tile : {f}
    pto.tload ins(%xw : {xp}) outs(%xt : {x})
    pto.tload ins(%iw : {ip}) outs(%it : {i})
    pto.tload ins(%aw : {rp}) outs(%merged : {r})
    pto.tsort32 ins(%xt, %it : {x}, {i}) outs(%lists : {r})
    pto.tmrgsort ins(%lists, %block : {r}, i32) outs(%merged : {r})
    %best = pto.subset %merged[%c0, %c0] sizes [1, {few}] : {r}
    pto.tmov ins(%best : {f}) outs(%ft : {f})
    pto.tstore ins(%ft : {f}) outs(%fw : {fp})
    pto.tstore ins(%merged : {r}) outs(%aw : {rp})
    return
  }}
}}
"""


def _program(d: str) -> pto.Program:
    words = N * (2 if d == "f32" else 4)
    sizes = {"x": f"{N}x{d}", "i": f"{N}xui32", "f": f"{words // 8}x{d}", "r": f"{words}x{d}"}
    types = {name: f"!pto.tile_buf<vec, 1x{size}>" for name, size in sizes.items()}
    types |= {f"{name}p": f"!pto.partition_tensor_view<1x{size}>" for name, size in sizes.items()}
    types |= {"v": f"!pto.tensor_view<?x?x{d}>", "vi": "!pto.tensor_view<?x?xui32>"}
    return pto.parse(TEXT.format(d=d, n=N, words=words, few=words // 8, **types))


def _values(kind: str, d: str, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    """Values of which the kind tells what is odd, and their indices."""
    x = rng.standard_normal(N).astype(d.replace("f", "float"))
    index = np.arange(N, dtype=np.uint32)
    match kind:
        case "equal":
            x = np.sign(x) * x.dtype.type(2)
        case "zeros and subnormals":
            x = rng.choice(np.array([0, -0.0, 6e-8, -6e-8, 1], x.dtype), N)
            x = x * np.float32(1e-37) if d == "f32" else x
        case "infinities":
            x[rng.random(N) < 0.5] = np.inf
            x[rng.random(N) < 0.3] = -np.inf
        case "nan":
            x[rng.random(N) < 0.2] = np.nan
        case "indices that descend":
            x, index = np.sign(x), index[::-1].copy()
    return x, index


KINDS = ("plain", "equal", "zeros and subnormals", "infinities", "nan", "indices that descend")


def _wanted(program: pto.Program, *given: Any) -> dict[str, Any]:
    names = ("x", "i", "few", "all", "block")
    return oracle.run(program, dict(zip(names, (np.copy(g) for g in given), strict=True)), profile="a2a3")


@pytest.mark.slow
@pytest.mark.parametrize("d", ["f32", "f16"])
def test_sorted_rows_are_what_the_instructions_make(d: str) -> None:
    program, rng = _program(d), np.random.default_rng(0)
    words, few = N * (2 if d == "f32" else 4), N * (2 if d == "f32" else 4) // 8
    kernel, block = pto.compile(program, profile="a2a3", warn=False), np.int32(words // 4)
    rows = [_values(kind, d, rng) for kind in KINDS]
    x, i = (np.stack(a) for a in zip(*rows, strict=True))
    old = np.full((len(KINDS), words), 7, x.dtype)
    calls = [kernel(x[n], i[n], old[n, :few], old[n], block) for n in range(len(KINDS))]
    batch = jax.vmap(kernel, (0, 0, 0, 0, None))(x, i, old[:, :few], old, block)
    for n, kind in enumerate(KINDS):
        expected = _wanted(program, x[n], i[n], old[n, :few], old[n], block)
        for name in ("few", "all"):
            for got in (calls[n][name], batch[name][n]):
                np.testing.assert_array_equal(
                    np.asarray(got).view(np.uint16),
                    np.asarray(expected[name]).view(np.uint16),
                    f"{kind}, {name}",
                )


@pytest.mark.variants(1)
@pytest.mark.parametrize("block", [0, 2, 32, 1000])
def test_a_merge_of_other_lists_is_not_the_order_of_the_row(block: int) -> None:
    program, (x, i) = _program("f32"), _values("plain", "f32", np.random.default_rng(0))
    old = np.full(2 * N, 7, np.float32)
    got = pto.compile(program, profile="a2a3", warn=False)(x, i, old[: N // 4], old, np.int32(block))
    expected = _wanted(program, x, i, old[: N // 4], old, np.int32(block))
    for name in ("few", "all"):
        np.testing.assert_array_equal(np.asarray(got[name]), expected[name])


@pytest.mark.slow
def test_no_more_records_are_ordered_than_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, greatest = [], irregular_sort._greatest

    def noted(d: Any, run: int, count: int, *row: Any) -> Any:
        counts.append((run, count))
        return greatest(d, run, count, *row)

    monkeypatch.setattr(irregular_sort, "_greatest", noted)
    irregular_sort._first_of.cache_clear()
    kernel = pto.compile(_program("f32"), profile="a5", warn=False)
    x, i = _values("plain", "f32", np.random.default_rng(0))
    jax.jit(lambda x: kernel(x, i, x[: N // 4], np.zeros(2 * N, np.float32), np.int32(64)))(x)
    irregular_sort._first_of.cache_clear()
    assert (N, N // 8) in counts
