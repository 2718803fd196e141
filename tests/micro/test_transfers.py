"""Transfers of bytes between global memory and the unified buffer."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import ExecutionError, oracle
from tests.micro.programs import executed

HEAD = """module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {
  func.func @k(%x: !pto.ptr<i16, gm>, %y: !pto.ptr<i16, gm>, %n: i64) attributes {pto.kernel} {
    %base = arith.constant 64 : i64
    %ub = pto.castptr %base : i64 -> !pto.ptr<i16, ub>
    %pad = arith.constant -3 : i16
    %no = arith.constant false
    %yes = arith.constant true
"""
LOAD = ": !pto.ptr<i16, gm>, !pto.ptr<i16, ub>, i64, i64, i64, i64, i64"
STORE = ": !pto.ptr<i16, ub>, !pto.ptr<i16, gm>, i64, i64, i64, i64"


def program(*lines: str) -> str:
    """A kernel of some lines, with the numbers ``%k0`` to ``%k512``."""
    numbers = [
        f"    %k{n} = arith.constant {n} : i64" for n in (0, 1, 2, 3, 4, 6, 10, 16, 20, 32, 64, 96, 128, 512)
    ]
    return HEAD + "\n".join([*numbers, *(f"    {line}" for line in lines)]) + "\n    return\n  }\n}\n"


def run(text: str, y: Any, x: Any = None, n: int = 3, made: Any = np.int16) -> np.ndarray:
    """What ``y`` is after a kernel, the same on every executor."""
    x = np.arange(1, 257, dtype=np.int16) if x is None else x
    given = {"x": x, "y": np.asarray(y, made), "n": np.int64(n)}
    expected = np.asarray(oracle.run(pto.parse(text), given)["y"])
    compiled = pto.compile(pto.parse(text))
    assert np.asarray(compiled(**given)["y"]).tobytes() == expected.tobytes()
    return expected


def test_bursts_in_loops_from_the_inner_to_the_outer_one() -> None:
    text = program(
        f"pto.mte_gm_ub %x, %ub, %k0, %k4 nburst(%k2, %k20, %k32) loop(%k3, %k64, %k64) {LOAD}, "
        "loop i64, i64, i64",
        f"pto.mte_ub_gm %ub, %y, %k4 nburst(%k6, %k32, %k4) {STORE}",
    )
    found = run(text, np.zeros(256))
    want = [w + b * 10 + 32 * o + 1 for o in range(3) for b in range(2) for w in range(2)]
    assert found[:12].tolist() == want and not found[12:].any()


@pytest.mark.slow
def test_the_number_of_bursts_may_be_an_argument() -> None:
    text = program(
        f"pto.mte_gm_ub %x, %ub, %k0, %k10 nburst(%n, %k20, %k32) {LOAD}",
        f"pto.mte_ub_gm %ub, %y, %k10 nburst(%n, %k32, %k10) {STORE}",
    )
    for n in (0, 1, 3):
        found = run(text, np.full(256, 5), n=n)
        want = [w + b * 10 + 1 for b in range(n) for w in range(5)]
        assert found[: len(want)].tolist() == want and (found[len(want) :] == 5).all()


@pytest.mark.parametrize(
    ("pads", "types", "left"), [("%pad, %k2, %k1", "i16, i64, i64", 2), ("%pad", "i16", 0)]
)
def test_pads_fill_blocks_of_32_bytes(pads: str, types: str, left: int) -> None:
    text = program(
        f"pto.mte_gm_ub %x, %ub, %k0, %k10 nburst(%k2, %k10, %k32) pad({pads}) {LOAD}, pad {types}",
        f"pto.mte_ub_gm %ub, %y, %k64 nburst(%k1, %k64, %k64) {STORE}",
    )
    after = run(text, np.zeros(256))
    for burst in (0, 1):
        data = [1 + w + 5 * burst for w in range(5)]
        padded = [*[-3] * left, *data, *[-3] * (11 - left)]
        assert after[16 * burst : 16 * burst + 16].tolist() == padded


@pytest.mark.slow
def test_atomic_stores_combine_with_global_memory() -> None:
    for mode, want in (("add", 105), ("max", 100), ("min", 5)):
        text = program(
            f"pto.mte_gm_ub %x, %ub, %k0, %k32 nburst(%k1, %k32, %k32) {LOAD}",
            f"pto.set_atomic_{mode}",
            "pto.set_atomic_s16",
            f"pto.mte_ub_gm %ub, %y, %k32 nburst(%k1, %k32, %k32) {STORE}",
            "pto.set_atomic_none",
        )
        found = run(text, np.full(256, 100), np.full(256, 5, np.int16))
        assert (found[:16] == want).all() and (found[16:] == 100).all()


@pytest.mark.instructions("castptr")
def test_blocks_move_inside_the_unified_buffer_with_gaps() -> None:
    types = ": !pto.ptr<i16, ub>, !pto.ptr<i16, ub>, i64, i64, i64, i64"
    text = program(
        "%at = arith.constant 1024 : i64",
        "%to = pto.castptr %at : i64 -> !pto.ptr<i16, ub>",
        f"pto.mte_gm_ub %x, %ub, %k0, %k512 nburst(%k1, %k512, %k512) {LOAD}",
        f"pto.mte_ub_ub %ub, %to, %k1 nburst(%k3, %k2, %k0) {types}",
        f"pto.mte_ub_gm %to, %y, %k96 nburst(%k1, %k96, %k96) {STORE}",
    )
    found = run(text, np.zeros(256))
    assert found[:48].tolist() == [1 + 48 * b + w for b in range(3) for w in range(16)]


def test_raw_copies_obey_the_registers_of_loops() -> None:
    text = program(
        "pto.set_loop_size_outtoub %k2, %k3 : i64, i64",
        "pto.set_loop1_stride_outtoub %k32, %k32 : i64, i64",
        "pto.set_loop2_stride_outtoub %k128, %k96 : i64, i64",
        "pto.copy_gm_to_ubuf %x, %ub, %k0, %k1, %k32, %k0, %k0, %no, %k0, %k32, %k32 : !pto.ptr<i16, gm>, "
        "!pto.ptr<i16, ub>, i64, i64, i64, i64, i64, i1, i64, i64, i64",
        f"pto.mte_ub_gm %ub, %y, %k64 nburst(%k3, %k64, %k64) {STORE}",
    )
    found = run(text, np.zeros(256))
    want = [1 + 64 * outer + 16 * inner + w for outer in range(2) for inner in range(3) for w in range(16)]
    assert found[:96].tolist() == want


def test_transfers_outside_memory_are_errors() -> None:
    text = program(f"pto.mte_gm_ub %x, %ub, %k0, %k512 nburst(%k4, %k512, %k512) {LOAD}")
    arrays = {"x": np.zeros(256, np.int16), "y": np.zeros(256, np.int16), "n": np.int64(1)}
    with pytest.raises(ExecutionError, match="mte_gm_ub: got bytes"):
        oracle.run(pto.parse(text), arrays)
    with pytest.raises(ExecutionError, match="mte_gm_ub: got bytes"):
        pto.compile(pto.parse(text), warn=False).eager(**arrays)


def test_tiles_and_registers_share_the_unified_buffer() -> None:
    tile = (
        "!pto.tile_buf<loc=vec, dtype=f32, rows=4, cols=16, v_row=4, v_col=16, blayout=row_major, "
        "slayout=none_box, fractal=512, pad=0>"
    )
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%x: !pto.ptr<f32, gm>, %y: !pto.ptr<f32, gm>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %at = arith.constant 512 : i64
    %a = pto.alloc_tile addr = %at : {tile}
    %v = pto.make_tensor_view %x, shape = [%c4, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
    %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c4, %c16]
      : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<4x16xf32>
    pto.tload ins(%p : !pto.partition_tensor_view<4x16xf32>) outs(%a : {tile})
    %ub = pto.castptr %at : i64 -> !pto.ptr<f32, ub>
    pto.vecscope {{
      %t = pto.tile_buf_addr %a : {tile} -> !pto.ptr<f32, ub>
      %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %r = pto.vlds %t[%c0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
      %s = pto.vadd %r, %r, %m : !pto.vreg<64xf32>, !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>
      pto.vsts %s, %ub[%c0], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
    }}
    %w = pto.make_tensor_view %y, shape = [%c4, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
    %q = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c4, %c16]
      : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<4x16xf32>
    pto.tstore ins(%a : {tile}) outs(%q : !pto.partition_tensor_view<4x16xf32>)
    return
  }}
}}
"""
    x = np.arange(64, dtype=np.float32)
    assert (executed(text, {"x": x, "y": np.zeros_like(x)})["y"] == x * 2).all()


MODES = [
    (combine, t)
    for t in ("f32", "f16", "bf16", "s32", "s16", "s8")
    for combine in ("add", "max", "min")
    if t == "s16" or combine == "add"
] + [("max", "f16"), ("min", "s8")]
ELEMENTS: dict[str, tuple[str, Any]] = {
    "f32": ("f32", np.float32),
    "f16": ("f16", np.float16),
    "bf16": ("bf16", ml_dtypes.bfloat16),
    "s32": ("i32", np.int32),
    "s16": ("i16", np.int16),
    "s8": ("i8", np.int8),
}


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("combine", "element"), MODES, ids=[f"set_atomic_{c}-set_atomic_{t}" for c, t in MODES]
)
def test_atomic_stores_of_every_mode_and_type(combine: str, element: str) -> None:
    t, made = ELEMENTS[element]
    n = 32 // np.dtype(made).itemsize
    text = program(
        f"pto.mte_gm_ub %x, %ub, %k0, %k32 nburst(%k1, %k32, %k32) {LOAD}",
        f"pto.set_atomic_{combine}",
        f"pto.set_atomic_{element}",
        f"pto.mte_ub_gm %ub, %y, %k32 nburst(%k1, %k32, %k32) {STORE}",
        "pto.set_atomic_none",
    ).replace("i16", t)
    text = text.replace(f"%pad = arith.constant -3 : {t}\n", "")
    rng = np.random.default_rng(len(element))
    x, y = (rng.integers(-60, 60, 64).astype(made) for _ in range(2))
    found = run(text, y, x, made=made)
    combined: dict[str, Any] = {"add": np.add, "max": np.maximum, "min": np.minimum}
    want = combined[combine](x, y)
    want[n:] = y[n:]
    assert (found == want).all()


def test_copy_ubuf_to_gm_obeys_the_registers_of_loops() -> None:
    text = program(
        f"pto.mte_gm_ub %x, %ub, %k0, %k512 nburst(%k1, %k512, %k512) {LOAD}",
        "pto.set_loop_size_ubtoout %k2, %k3 : i64, i64",
        "pto.set_loop1_stride_ubtoout %k64, %k32 : i64, i64",
        "pto.set_loop2_stride_ubtoout %k32, %k128 : i64, i64",
        "pto.copy_ubuf_to_gm %ub, %y, %k0, %k1, %k32, %k0, %k32, %k32 : !pto.ptr<i16, ub>, "
        "!pto.ptr<i16, gm>, i64, i64, i64, i64, i64, i64",
    )
    found = run(text, np.zeros(256))
    want = np.zeros(256, np.int16)
    for outer in range(2):
        for inner in range(3):
            at, source = 64 * outer + 16 * inner, 16 * outer + 32 * inner
            want[at : at + 16] = np.arange(1, 17) + source
    assert (found == want).all()


def test_set_mov_pad_val_is_what_raw_copies_pad_with() -> None:
    text = program(
        "pto.set_mov_pad_val %pad : i16",
        "pto.copy_gm_to_ubuf %x, %ub, %k0, %k2, %k10, %k1, %k2, %yes, %k0, %k10, %k32 : !pto.ptr<i16, gm>, "
        "!pto.ptr<i16, ub>, i64, i64, i64, i64, i64, i1, i64, i64, i64",
        f"pto.mte_ub_gm %ub, %y, %k64 nburst(%k1, %k64, %k64) {STORE}",
    )
    found = run(text, np.zeros(256))
    for burst in (0, 1):
        have = [1 + w + 5 * burst for w in range(5)]
        assert found[16 * burst : 16 * burst + 16].tolist() == [-3, *have, *[-3] * 10]


def test_ld_dev_and_st_dev_pass_a_number_on_around_a_dsb() -> None:
    text = program(
        "%c3 = arith.constant 3 : index",
        "%c5 = arith.constant 5 : index",
        "%v = pto.ld_dev %x[%c3] : !pto.ptr<i16, gm> -> i16",
        'pto.dsb "DDR"',
        "pto.st_dev %v, %y[%c5] : !pto.ptr<i16, gm>, i16",
        'pto.dcci %y "ENTIRE_DATA_CACHE" : !pto.ptr<i16, gm>',
    )
    found = run(text, np.zeros(256))
    assert found[5] == 4 and np.count_nonzero(found) == 1
