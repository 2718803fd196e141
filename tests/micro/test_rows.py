"""Streams, masks, special registers, logical memory and sorted lists, one row for each operation."""

from typing import Any

import numpy as np
import pytest

from tests.micro.programs import executed, kernel
from tests.micro.test_memory import data

ALL32 = '%all = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>\n'
R32, M32, P32, P8 = "!pto.vreg<64xui32>", "!pto.mask<b32>", "!pto.ptr<ui32, ub>", "!pto.ptr<ui8, ub>"
ALIGN = "!pto.align"
V = f"%v = pto.vlds %x_ub[%c0] : {P32} -> {R32}\n"


def words(body: str, **more: Any) -> np.ndarray:
    """What ``y`` is after a kernel on 1024 words ``x`` and zeros, the same on every executor."""
    given = {"x": WORDS, "y": np.zeros(1024, np.uint32), **more}
    return executed(kernel(body, dict.fromkeys(given, "ui32")), given)["y"]


WORDS = data(32, 1024)


def test_vgatherb_loads_blocks_at_offsets_in_bytes() -> None:
    body = (
        f"{ALL32}%at = pto.vlds %i_ub[%c0] : {P32} -> {R32}\n"
        f"%v = pto.vgatherb %x_ub, %at, %all : {P32}, {R32}, {M32} -> {R32}\n"
        f"%w = pto.vadd %v, %v, %all : {R32}, {R32}, {M32} -> {R32}\n"
        f"pto.vsts %w, %y_ub[%c0], %all : {R32}, {P32}, {M32}"
    )
    offsets = np.zeros(1024, np.uint32)
    offsets[:8] = [32 * n for n in (3, 0, 7, 7, 1, 100, 2, 5)]
    found = words(body, i=offsets)
    want = np.concatenate([WORDS[o // 4 : o // 4 + 8] for o in offsets[:8]])
    assert (found[:64] == 2 * want).all() and not found[64:].any()


SQUEEZE = f"pto.vsqz %v, %third : {R32}, {M32} -> {R32}\n"
STUR = f'"POST_UPDATE" : {ALIGN}, {R32}, {P32} -> {ALIGN}\n'
STREAM = f'{V}%third = pto.pset_b32 "PAT_M3" : {M32}\npto.sprclr "AR"\n%a0 = pto.init_align : {ALIGN}\n'
TWICE = f"%s0 = {SQUEEZE}%a1 = pto.vstur %a0, %s0, %y_ub, {STUR}%s1 = {SQUEEZE}CLEAR" + (
    f"%a2 = pto.vstur %a1, %s1, %y_ub, {STUR}pto.vstar %a2, %y_ub : {ALIGN}, {P32}"
)
TRIPS = (
    f"%e = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %a0) -> ({ALIGN}) {{\n%s0 = {SQUEEZE}"
    f"CLEAR%b = pto.vstur %a, %s0, %y_ub, {STUR}scf.yield %b : {ALIGN}\n}}\n"
    f"pto.vstar %e, %y_ub : {ALIGN}, {P32}"
)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [TWICE, TRIPS], ids=["twice", "loop"])
def test_vstur_stores_the_squeezed_lanes_one_behind_the_other(stream: str) -> None:
    """The address register counts the bytes of the lanes that squeezes have kept, until it is cleared."""
    third = WORDS[:64:3]
    found = words(STREAM + stream.replace("CLEAR", ""))
    assert (found[:44] == [*third, *third]).all() and not found[44:].any()
    found = words(STREAM + stream.replace("CLEAR", 'pto.sprclr "AR"\n'))
    assert (found[:22] == third).all() and not found[22:].any()


def test_vstur_stores_bytes_of_the_mask_of_vusqz() -> None:
    t, m = "!pto.vreg<128xi16>", "!pto.mask<b16>"
    p = "!pto.ptr<i16, ub>"
    body = (
        f'%v = pto.vlds %x_ub[%c0] : {p} -> {t}\n%five = pto.pset_b16 "PAT_VL4" : {m}\npto.sprclr "AR"\n'
        f"%n = pto.vusqz %v, %five : {t}, {m} -> {t}\n%a0 = pto.init_align : {ALIGN}\n"
        f'%a1 = pto.vstur %a0, %v, %y_ub, "NO_POST_UPDATE" : {ALIGN}, {t}, {p} -> {ALIGN}\n'
        f"pto.vstar %a1, %y_ub : {ALIGN}, {p}"
    )
    x = data(16, 2048).astype(np.int16)
    found = executed(kernel(body, {"x": "i16", "y": "i16"}), {"x": x, "y": np.zeros_like(x)})["y"]
    assert (found[:4] == x[:4]).all() and not found[4:].any()


@pytest.mark.variants(1)
@pytest.mark.parametrize(("name", "offset", "at"), [("sprsti", 1, 1), ("sprsts", 8, 2)])
def test_the_address_register_is_stored(name: str, offset: int, at: int) -> None:
    """An immediate counts in units of 4 bytes, a number in bytes."""
    body = (
        f"{STREAM}%s0 = {SQUEEZE}%a1 = pto.vstur %a0, %s0, %x_ub, {STUR}"
        f"pto.vstar %a1, %x_ub : {ALIGN}, {P32}\n"
        f'%k = arith.constant {offset} : i32\npto.{name} "AR", %y_ub[%k] : {P32}, i32'
    )
    found = words(body)
    assert np.flatnonzero(found).tolist() == [at] and found[at] == 22 * 4


@pytest.mark.parametrize("name", ["pldi", "psti"])
def test_masks_at_immediate_offsets(name: str) -> None:
    body = f"""
      %p = pto.pldi %x_ub[%c1], "NORM" : {P8}, index -> !pto.mask<b8>
      pto.psti %p, %y_ub[%c2], "NORM" : !pto.mask<b8>, {P8}, index"""
    x = data(8, 4096)
    found = executed(kernel(body, {"x": "ui8", "y": "ui8"}), {"x": x, "y": np.zeros_like(x)})["y"]
    want = np.zeros_like(x)
    want[64:96] = x[32:64]
    assert (found == want).all(), name


def test_pstu_stores_one_bit_of_each_lane() -> None:
    types = f"{ALIGN}, {M32}, {P32} -> {ALIGN}, {P32}\n"
    zero = "%none = arith.constant 0 : i32\n"
    body = (
        f'%m = pto.pset_b32 "PAT_M4" : {M32}\n%n = pto.pset_b32 "PAT_VL3" : {M32}\n'
        f"%a0 = pto.init_align : {ALIGN}\n%a1, %q1 = pto.pstu %a0, %m, %y_ub : {types}"
        f"%a2, %q2 = pto.pstu %a1, %n, %q1 : {types}{zero}"
        f"pto.vstas %a2, %q2, %none : {ALIGN}, {P32}, i32"
    )
    found = words(body).view(np.uint8)
    assert found[:16].tolist() == [0x11] * 8 + [7] + [0] * 7 and not found[16:].any()


def test_mem_bar_orders_a_store_and_a_load() -> None:
    body = (
        f'{ALL32}{V}pto.vsts %v, %y_ub[%c0], %all : {R32}, {P32}, {M32}\npto.mem_bar "VST_VLD"\n'
        f"%w = pto.vlds %y_ub[%c32] : {P32} -> {R32}\npto.vsts %w, %y_ub[%c128], %all : {R32}, {P32}, {M32}"
    )
    given = {"x": WORDS, "y": np.zeros(1024, np.uint32)}
    text = kernel(body, dict.fromkeys(given, "ui32"), "pto.barrier <PIPE_ALL>")
    text = text.replace("    pto.mte_ub_gm", "    pto.barrier <PIPE_ALL>\n    pto.mte_ub_gm")
    found = executed(text, given)["y"]
    assert (found[128:160] == WORDS[32:64]).all() and not found[160:].any()


L, LM = "!pto.vmi.vreg<40xui32>", "!pto.vmi.mask<40xpred>"
LOGICAL = (
    f"%n = arith.constant 30 : index\n%m = pto.vmi.create_mask %n : index -> {LM}\n"
    f"%r = pto.vmi.vload %x_ub[%c0] : {P32} -> {L}\n%at = pto.vmi.load %i_ub[%c0] : {P32} -> {L}\n"
)
OFFSETS = np.random.default_rng(3).permutation(1024).astype(np.uint32)


@pytest.mark.parametrize(("name", "step"), [("vmi.vgather", 1), ("vmi.vgatherb", 4)])
def test_logical_gathers(name: str, step: int) -> None:
    body = (
        f"{LOGICAL}%v = pto.{name} %x_ub, %at, %m : {P32}, {L}, {LM} -> {L}\n"
        f"pto.vmi.vstore %v, %y_ub[%c0] : {L}, {P32}"
    )
    found = words(body, i=OFFSETS * np.uint32(step))
    want = np.where(np.arange(40) < 30, WORDS[OFFSETS[:40]], 0)
    assert (found[:40] == want).all() and not found[40:].any()


@pytest.mark.parametrize("name", ["vmi.vscatter"])
def test_logical_scatters(name: str) -> None:
    body = f"{LOGICAL}pto.{name} %r, %y_ub, %at, %m : {L}, {P32}, {L}, {LM}"
    want = np.zeros(1024, np.uint32)
    want[OFFSETS[:30]] = WORDS[:30]
    assert (words(body, i=OFFSETS) == want).all()


def test_vmi_vsstb_stores_blocks_at_a_stride() -> None:
    r, m = "!pto.vmi.vreg<64xui32>", "!pto.vmi.mask<64xpred>"
    body = (
        f"%n = arith.constant 50 : index\n%m = pto.vmi.create_mask %n : index -> {m}\n"
        f"%three = arith.constant 3 : i16\n%v = pto.vmi.vload %x_ub[%c0] : {P32} -> {r}\n"
        f"pto.vmi.vsstb %v, %y_ub[%c0], %three, %m : {r}, {P32}, {m}"
    )
    found = words(body)
    for block in range(8):
        lanes = np.arange(8 * block, 8 * block + 8)
        assert (found[24 * block : 24 * block + 8] == np.where(lanes < 50, WORDS[lanes], 0)).all()
        assert not found[24 * block + 8 : 24 * block + 24].any()


REDUCED = {
    "vmi.vcmax": ("f32", np.max),
    "vmi.vcmin": ("f32", np.min),
    "vmi.group_reduce_maxf": ("f32", np.max),
    "vmi.group_reduce_minf": ("f32", np.min),
    "vmi.group_reduce_maxi": ("si32", np.max),
    "vmi.group_reduce_mini": ("si32", np.min),
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", REDUCED)
def test_extremes_of_groups_of_lanes(name: str) -> None:
    t, reduce = REDUCED[name]
    r, m = f"!pto.vmi.vreg<64x{t}>", "!pto.vmi.mask<64xpred>"
    group = "num_groups" if "group" in name else "group"
    body = (
        f"%n = arith.constant 64 : index\n%m = pto.vmi.create_mask %n : index -> {m}\n"
        f"%v = pto.vmi.vload %x_ub[%c0] : !pto.ptr<{t}, ub> -> {r}\n"
        f"%s = pto.{name} %v, %m {{group = 4 : i64}} : {r}, {m} -> !pto.vmi.vreg<4x{t}>\n"
        f"pto.vmi.vstore %s, %y_ub[%c0] : !pto.vmi.vreg<4x{t}>, !pto.ptr<{t}, ub>"
    ).replace("group =", f"{group} =")
    x = np.random.default_rng(5).integers(-(2**30), 2**30, 1024).astype(np.int32)
    x = x.astype(np.float32) if t == "f32" else x
    found = executed(kernel(body, {"x": t, "y": t}), {"x": x, "y": np.zeros_like(x)})["y"]
    assert (found[:4] == reduce(x[:64].reshape(4, 16), 1)).all() and not found[4:].any()


@pytest.mark.slow
@pytest.mark.parametrize("stops", [False, True])
def test_vmrgsort4_merges_lists_and_get_vms4_sr_counts_what_it_takes(stops: bool) -> None:
    """Two lists of 5 and 7 records of a score and an index; a merge may end with the first list that ends."""
    rng = np.random.default_rng(9)
    scores = [np.sort(rng.permutation(40)[:n])[::-1].astype(np.float32) for n in (5, 7)]
    records = np.zeros((2, 32, 2), np.float32)
    for k, own in enumerate(scores):
        records[k, : len(own), 0] = own
        records[k, : len(own), 1] = np.arange(len(own), dtype=np.uint32).view(np.float32) + k
    p, g = "!pto.ptr<f32, ub>", "!pto.ptr<i16, gm>"
    counts = "\n".join(f"pto.st_dev %n{k}, %n[%c{k}] : {g}, i16" for k in range(4))
    lines = f"""
      %second = pto.addptr %x_ub, %c64 : {p} -> {p}
      %lengths = arith.constant {5 | 7 << 16} : i64
      %config = arith.constant {1 | 3 << 8 | stops << 12} : i64
      pto.vmrgsort4 %y_ub, %x_ub, %second, %x_ub, %x_ub, %lengths, %config : {p}, {p}, {p}, {p}, {p}, i64, i64
      %n0, %n1, %n2, %n3 = pto.get_vms4_sr : i16, i16, i16, i16
      {counts}"""
    text = kernel("", {"x": "f32", "y": "f32", "n": "i16"}, lines)
    # The numbers go to global memory past the buffer's place.
    text = text[: text.index("    pto.mte_ub_gm %n_ub")] + "    return\n  }\n}\n"
    x = np.resize(records.reshape(-1), 1024)
    found = executed(text, {"x": x, "y": np.zeros(1024, np.float32), "n": np.zeros(2048, np.int16)})
    merged = sorted([(-s, k, i) for k, own in enumerate(scores) for i, s in enumerate(own)])
    if stops:
        ends = [max(at for at, (_, k, _) in enumerate(merged) if k == which) for which in (0, 1)]
        merged = merged[: min(ends) + 1]
    want = np.array([records[k, i] for _, k, i in merged], np.float32).reshape(-1)
    assert found["y"][: len(want)].tobytes() == want.tobytes() and not found["y"][len(want) :].any()
    taken = [sum(k == which for _, k, _ in merged) for which in range(4)]
    assert found["n"][:4].tolist() == taken
