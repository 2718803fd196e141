"""Page pto.tadd, sections from the constraints to the examples: one test per requirement."""

from itertools import pairwise, product

import numpy as np
import pytest

import pto_jax as pto
from tests.seeds.tadd import (
    ALLOCATED,
    HARDWARE,
    PRINTED,
    PROFILES,
    TABLE,
    TILE,
    check_sum,
    errors,
    manual_program,
    random_words,
    ssa,
    type_of,
    warnings,
    words,
)
from tests.tables import every

# --- Constraints and exceptions ----------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("types", "named"),
    [
        (("f32", "f16", "f32"), ("f32", "f16")),
        (("f16", "f32", "f32"), ("f32", "f16")),
        (("f32", "f32", "i32"), ("f32", "i32")),
        (("i32", "i32", "i16"), ("i32", "i16")),
        (("i32", "u32", "i32"), ("i32", "u32")),
        (("f16", "bf16", "f16"), ("f16", "bf16")),
    ],
    ids=lambda x: "-".join(x),
)
def test_verifier_rejects_type_mismatches(
    types: tuple[str, ...], named: tuple[str, ...], profile: str
) -> None:
    text = ssa(*(f"16x64x{d}" for d in types))
    found = errors(text, profile)
    assert found
    for message in found:
        assert "element type" in message and all(f" {d}" in message for d in named)
    with pytest.raises(pto.VerifyError, match="element type"):
        pto.compile(pto.parse(text), profile=profile)


def test_operations_on_tiles_of_different_types_are_rejected() -> None:
    a, b = pto.tile(np.ones((8, 32), np.float32)), pto.tile(np.ones((8, 32), np.int32))
    with pytest.raises(pto.VerifyError, match=r"i32.*f32|f32.*i32"):
        pto.ops.tadd(a, b)
    with pytest.raises(pto.VerifyError, match=r"f16.*f32|f32.*f16"):
        pto.ops.tadd(a, a, dst=type_of("f16", (8, 32)))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loc", ["mat", "left", "right", "acc"])
def test_tile_type_of_the_destination_must_be_one_the_vector_pipeline_has(loc: str, profile: str) -> None:
    text = ssa("16x64xf32", "16x64xf32", f"16x64xf32, loc={loc}")
    found = [e for e in errors(text, profile) if "vec" in e]
    assert bool(found) == (profile in HARDWARE)
    assert all(f"{loc} tile" in e and "operand dst" in e for e in found)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("small", ["16x8xf32", "1x64xf32", "8x64xf32", "16x56xf32"])
@pytest.mark.parametrize("which", [0, 1], ids=["src0", "src1"])
def test_shapes_without_a_lane_for_every_element_are_rejected(small: str, which: int, profile: str) -> None:
    types = ["16x64xf32", "16x64xf32", "16x64xf32"]
    types[which] = small
    found = errors(ssa(*types), profile)
    assert len(found) == 1
    assert f"operand src{which}" in found[0] and "broadcasting" in found[0] and small[:-4] in found[0]


def test_a_partition_view_is_no_tile() -> None:
    text = (
        "%dst = pto.tadd %src0, %src1 : (!pto.tile<16x64xf32>, "
        "!pto.partition_tensor_view<16x64xf32>) -> !pto.tile<16x64xf32>"
    )
    for profile in PROFILES:
        (found,) = errors(text, profile)
        assert "operand src1" in found and "partition_tensor_view<16x64xf32>" in found and "a tile" in found


def test_reading_destination_lanes_outside_its_valid_region_is_reported() -> None:
    """Undefined behaviour: a warning on each profile, an error for portable programs."""
    text = (
        "%sum = pto.tadd %a, %b : (!pto.tile<16x64xf32>, !pto.tile<16x64xf32>)"
        " -> !pto.tile<16x64xf32, valid=12x64>\n"
        "%out = pto.tadd %sum, %b : (!pto.tile<16x64xf32, valid=12x64>, !pto.tile<16x64xf32>)"
        " -> !pto.tile<16x64xf32>"
    )
    for profile in PROFILES:
        assert errors(text, profile) == []
        (found,) = [w for w in warnings(text, profile) if "does not cover" in w]
        assert found.startswith("<text>:2:") and "12x64" in found
    portable = errors(text, "a2a3", portable=True)
    assert len(portable) == 1 and portable[0].startswith("<text>:2:")


@pytest.mark.parametrize("profile", PROFILES)
def test_lanes_of_a_fresh_destination_outside_its_valid_region(profile: str) -> None:
    a = pto.tile(np.ones((8, 32), np.float32))
    got = words(pto.ops.tadd(a, a, dst=type_of("f32", (8, 32), (5, 9)), profile=profile))
    want = np.full((8, 32), 0 if profile == "cpu_sim" else 0xFFFFFFFF, np.uint32)
    want[:5, :9] = np.float32(2).view(np.uint32)
    np.testing.assert_array_equal(got, want)


# --- Target-profile restrictions ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@every(("d", "profile"), [*product(TABLE, PROFILES)])
def test_target_profile_table(d: str, profile: str) -> None:
    legal = TABLE[d][PROFILES.index(profile)]
    text = ssa(*[f"16x64x{d}"] * 3)
    found = errors(text, profile)
    if legal:
        assert found == []
        pto.compile(pto.parse(text), profile=profile)
        return
    assert any(d in e and "allowed" in e for e in found)
    with pytest.raises(pto.VerifyError):
        pto.compile(pto.parse(text), profile=profile)


@pytest.mark.parametrize("d", [d for d in TABLE if not all(TABLE[d])])
def test_a_portable_program_uses_only_types_every_profile_has(d: str) -> None:
    found = errors(ssa(*[f"16x64x{d}"] * 3), "cpu_sim", portable=True)
    assert any("not portable" in e for e in found) or not any(TABLE[d])
    assert found


@pytest.mark.parametrize("d", ["f8e4m3", "f8e5m2", "hif8"])
def test_simulated_small_floats_come_with_a_warning(d: str) -> None:
    found = warnings(ssa(*[f"16x64x{d}"] * 3), "cpu_sim")
    assert found and all("portable" in w and d in w for w in found)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("layout", ["col_major, none_box", "col_major, row_major", "col_major, col_major"])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["src0", "src1", "dst"])
def test_row_major_is_required_of_every_operand_on_hardware_and_of_none_on_the_simulator(
    which: int, layout: str, profile: str
) -> None:
    types = ["f32, 16, 64"] * 3
    types[which] += f", {layout}"
    found = errors(ssa(*types), profile)
    if profile == "cpu_sim":
        assert found == []
        return
    assert len(found) == 1
    assert f"operand {('src0', 'src1', 'dst')[which]}" in found[0]
    assert "col_major" in found[0] and f"allowed on {profile}: row_major" in found[0]


def test_layouts_do_not_change_values_on_the_simulator() -> None:
    layouts = ["row_major", "col_major", "col_major, row_major", "row_major, col_major"]
    a, b = (random_words(n, 16, (32, 32)).view(np.int16) for n in (13, 14))
    for first, second in pairwise(layouts):
        text = ssa(f"i16, 32, 32, {first}", f"i16, 32, 32, {second}", f"i16, 32, 32, {first}")
        out = pto.compile(pto.parse(text), profile="cpu_sim")(a, b)["dst"]
        np.testing.assert_array_equal(np.asarray(out), a + b)


# --- Examples ----------------------------------------------------------------------------------------

AUTO = """
func.func private @add_tiles(%dst: !pto.tile<f32, 16, 16>, %src0: !pto.tile<f32, 16, 16>,
                             %src1: !pto.tile<f32, 16, 16>) {
  tadd %dst, %src0, %src1 : !pto.tile<f32, 16, 16>
  return
}
"""


def test_auto_mode_example() -> None:
    """``add_tiles(dst, src0, src1)`` as a function on tiles, and called from a program."""
    x, y = (np.random.default_rng(n).standard_normal((16, 16), np.float32) for n in (15, 16))
    out = pto.ops.tadd(pto.tile(x), pto.tile(y), dst=pto.tile(np.zeros((16, 16), np.float32)))
    np.testing.assert_array_equal(np.asarray(out), x + y)
    call = f"func.call @add_tiles(%dst, %src0, %src1) : ({TILE}, {TILE}, {TILE}) -> ()"
    check_sum(manual_program(add=call, others=AUTO), "a2a3")


ADDRESSES = "".join(
    f"%addr_{n} = arith.constant {address} : i64\n"
    for n, address in (("src0", 0x1000), ("src1", 0x2000), ("dst", 0x3000))
)
PLACEMENTS = {
    "alloc_tile": ADDRESSES
    + "".join(f"%{n} = pto.alloc_tile addr = %addr_{n} : {TILE}\n" for n in ("src0", "src1", "dst")),
    "tassign": ADDRESSES
    + ALLOCATED
    + "".join(f"pto.tassign %{n}, %addr_{n} : {TILE}, i64\n" for n in ("src0", "src1", "dst")),
    "tassign with a result": ADDRESSES
    + ALLOCATED.replace(" = ", "_here = ")
    + "".join(
        f"%{n} = pto.tassign %{n}_here, %addr_{n} : {TILE} -> {TILE}\n" for n in ("src0", "src1", "dst")
    ),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("placement", PLACEMENTS.values(), ids=PLACEMENTS.keys())
def test_manual_mode_example(placement: str, profile: str) -> None:
    """TASSIGN to 0x1000, 0x2000, 0x3000; TLOAD, TLOAD, TSYNC, TADD, TSYNC, TSTORE."""
    program = manual_program(placement, before="pto.tsync", after="pto.tsync")
    assert pto.verify(program, profile=profile) == []
    check_sum(program, profile)


def test_manual_placement_decides_what_is_shared() -> None:
    """With src1 bound to the address of src0 the second load replaces the first operand."""
    program = manual_program(PLACEMENTS["alloc_tile"].replace("8192", "4096"))
    x, y = (np.random.default_rng(n).standard_normal((16, 16), np.float32) for n in (17, 18))
    with pytest.warns(pto.PtoWarning, match="tload: writes %src1 .* %src0 is read later"):
        kernel = pto.compile(program)
        out = kernel(x, y, np.zeros((16, 16), np.float32))["gc"]
    np.testing.assert_array_equal(np.asarray(out), y + y)


@pytest.mark.parametrize("name", ["MLIR - SSA Form", "MLIR - DPS Form"])
@pytest.mark.parametrize("profile", PROFILES)
def test_mlir_examples_run(name: str, profile: str) -> None:
    program = pto.parse(PRINTED[name])
    assert pto.verify(program, profile=profile) == []
    x, y = (np.random.default_rng(n).standard_normal((16, 16), np.float32) for n in (19, 20))
    out = pto.compile(program, profile=profile)(x, y)
    assert list(out) == ["result"] and out["result"].type.shape == (16, 16)
    np.testing.assert_array_equal(np.asarray(out["result"]), x + y)
