"""Page Tile Instruction Set: its requirements, in the page's order."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli import main

Array = np.ndarray[Any, Any]

PROFILES = ("cpu_sim", "a2a3", "a5")
HARDWARE = ("a2a3", "a5")
INTEGERS = [f"{kind}{bits}" for kind in "iu" for bits in (8, 16, 32, 64)]
NUMPY: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    **{d: f"{d[0]}{int(d[1:]) // 8}" for d in INTEGERS},
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
}
FP8 = ("f8e4m3", "f8e5m2")
LARGEST = {
    "float32": float(np.finfo(np.float32).max),
    "float16": 65504.0,
    "bfloat16": float.fromhex("0x1.fep127"),
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
}
#: Last rows of the table "Type Support by Profile".
A5_ONLY = (*FP8, "hif8", "f4e2m1x2", "f4e1m2x2")
STANDARD = ("f32", "f16", "bf16", *INTEGERS)

_FULL = "!pto.tile<f32, 16, 64>"
_LEFT = "!pto.tile<left, 16x64xf16, blayout=col_major, slayout=row_major>"
_VECTOR = "!pto.tile<left, 1x64x{}, blayout=col_major, slayout=row_major>"
_RIGHT = "!pto.tile<right, 64x16x{}, slayout=col_major>"
_ACC = "!pto.tile<acc, {}x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
_SCALES = "!pto.tile<scaleleft, 1x2xf8e8m0, slayout=row_major, fractal=32>"
#: Examples of the table "Instruction Classes", each as a legal instruction.
EXAMPLES = {
    "tassign": "pto.tassign %t, %address : !pto.tile<f32, 16, 64>, i64",
    "tsync": "pto.tsync %e0, %e1",
    "talias": "%same = pto.talias %t : !pto.tile<f32, 16, 64>",
    "tadd": "%d = pto.tadd %a, %b : !pto.tile<f32, 16, 64>",
    "tmul": "%d = pto.tmul %a, %b : !pto.tile<f32, 16, 64>",
    "tpow": "%d = pto.tpow %a, %b : !pto.tile<f32, 16, 64>",
    "tcmp": "%d = pto.tcmp %a, %b {cmpMode = #pto.cmp<gt>} : "
    "(!pto.tile<f32, 16, 64>, !pto.tile<f32, 16, 64>) -> !pto.tile<u8, 16, 32>",
    "tcvt": "%d = pto.tcvt %a {rmode = #pto<round_mode RINT>} : "
    "(!pto.tile<f32, 16, 64>) -> !pto.tile<f16, 16, 64>",
    "tsel": "%d = pto.tsel %m, %a, %b : (!pto.tile<u8, 16, 32>, !pto.tile<f32, 16, 64>, "
    "!pto.tile<f32, 16, 64>) -> !pto.tile<f32, 16, 64>",
    "trelu": "%d = pto.trelu %a : !pto.tile<f32, 16, 64>",
    "tadds": "%d = pto.tadds %a, %s : (!pto.tile<f32, 16, 64>, f32) -> !pto.tile<f32, 16, 64>",
    "taxpy": "pto.taxpy %d, %a, %s : !pto.tile<f32, 16, 64>, !pto.tile<f32, 16, 64>, f32",
    "tmuls": "%d = pto.tmuls %a, %s : (!pto.tile<f32, 16, 64>, f32) -> !pto.tile<f32, 16, 64>",
    "tpows": "%d = pto.tpows %a, %s : (!pto.tile<f32, 16, 64>, f32) -> !pto.tile<f32, 16, 64>",
    "tlrelu": "%d = pto.tlrelu %a, %s : (!pto.tile<f32, 16, 64>, f32) -> !pto.tile<f32, 16, 64>",
    "tcmps": "%d = pto.tcmps %a, %s {cmpMode = #pto.cmp<lt>} : "
    "(!pto.tile<f32, 16, 64>, f32) -> !pto.tile<u8, 16, 32>",
    "tload": "%d = pto.tload %v : !pto.partition_tensor_view<16x64xf32> -> !pto.tile<f32, 16, 64>",
    "tstore": "pto.tstore %t, %v : !pto.tile<f32, 16, 64>, !pto.partition_tensor_view<16x64xf32>",
    "tmov": "%d = pto.tmov %a : !pto.tile<f32, 16, 64>",
    "sethf32mode": "pto.sethf32mode {enable = true, mode = CAST_ROUND}",
    "settf32mode": "pto.settf32mode {enable = false}",
    "setfmatrix": "pto.setfmatrix %c {mode = FMATRIX_A_MANUAL} : !pto.fmatrix_config",
    "set_img2col_rpt": "pto.set_img2col_rpt %c : !pto.fmatrix_config",
    "set_img2col_padding": "pto.set_img2col_padding %c : !pto.fmatrix_config",
    "tget_scale_addr": f"%s = pto.get_scale_addr %a : ({_VECTOR.format('f8E4M3')}) -> {_SCALES}",
    "trowsum": f"%d = pto.trowsum %a, %t : ({_FULL}, {_FULL}) -> !pto.tile<16x1xf32, blayout=col_major>",
    "tcolmax": f"%d = pto.tcolmax %a : ({_FULL}) -> !pto.tile<f32, 1, 64>",
    "trowexpand": f"%d = pto.trowexpand %a : {_FULL}",
    "tcolexpand": f"%d = pto.tcolexpand %a : (!pto.tile<f32, 1, 64>) -> {_FULL}",
    "tgemv": f"%d = pto.tgemv %a, %b : ({_VECTOR.format('f16')}, {_RIGHT.format('f16')}) -> {_ACC.format(1)}",
    "tgemv.mx": f"%d = pto.tgemv_mx %a, %s, %b, %t : ({_VECTOR.format('f8E4M3')}, {_SCALES}, "
    f"{_RIGHT.format('f8E4M3')}, "
    "!pto.tile<scaleright, 2x16xf8e8m0, blayout=col_major, slayout=col_major, fractal=32>) -> "
    f"{_ACC.format(1)}",
    "tmatmul": f"%d = pto.tmatmul %a, %b : ({_LEFT}, {_RIGHT.format('f16')}) -> {_ACC.format(16)}",
    "tmatmul.acc": f"%d = pto.tmatmul_acc %c, %a, %b : ({_ACC.format(16)}, {_LEFT}, {_RIGHT.format('f16')}) "
    f"-> {_ACC.format(16)}",
    "tmatmul.bias": f"%d = pto.tmatmul_bias %a, %b, %c : ({_LEFT}, {_RIGHT.format('f16')}, "
    f"!pto.tile<bias, 1x16xf32>) -> {_ACC.format(16)}",
    "ttrans": f"%d = pto.ttrans %a, %t : ({_FULL}, {_FULL}) -> !pto.tile<f32, 64, 16>",
    "tconcat": f"%d = pto.tconcat %a, %b : ({_FULL}, {_FULL}) -> !pto.tile<f32, 16, 128>",
    "tpack": "%d = pto.tpack %a : (!pto.tile<u32, 16, 64>) -> !pto.tile<u16, 16, 64>",
    "textract": f"%d = pto.textract %a[%r, %c] : ({_FULL}, index, index) -> !pto.tile<f32, 8, 32>",
    "tinsert": f"pto.tinsert %d, %a, %r, %c : {_FULL}, !pto.tile<f32, 8, 32>, index, index",
    "tsort32": "%d = pto.tsort32 %s, %i : (!pto.tile<f32, 1, 64>, !pto.tile<u32, 1, 64>) -> "
    "!pto.tile<f32, 1, 128>",
    "tmrgsort": "%d = pto.tmrgsort %s, %n : (!pto.tile<f32, 1, 256>, i32) -> !pto.tile<f32, 1, 256>",
    "tquant": f"%d = pto.tquant %s, %k {{quant_type = #pto<quant_type INT8_SYM>}} : ({_FULL}, "
    "!pto.tile<16x8xf32, valid=16x1>) -> !pto.tile<i8, 16, 64>",
    "tdequant": "%d = pto.tdequant %s, %k, %o : (!pto.tile<i8, 16, 64>, !pto.tile<f32, 16, 8>, "
    f"!pto.tile<f32, 16, 8>) -> {_FULL}",
    "trandom": "%d = pto.trandom %a, %b, %c, %e, %f, %g {rounds = 10} : !pto.tile<u32, 2, 256>",
    "thistogram": "%d = pto.thistogram %s, %i {byte = BYTE_1} : (!pto.tile<u16, 2, 32>, "
    "!pto.tile<32x1xui8, blayout=col_major>) -> !pto.tile<u32, 2, 256>",
    "tgather": "%d = pto.tgather %s, %i, %t : (!pto.tile<f32, 2, 32>, !pto.tile<i32, 2, 32>, "
    "!pto.tile<i32, 2, 32>) -> !pto.tile<f32, 2, 32>",
    "tpartadd": f"%d = pto.tpartadd %a, %b : {_FULL}",
    "mgather": "%d = pto.mgather %v, %i : (!pto.partition_tensor_view<64x64xf32>, "
    f"!pto.tile<16x64xi32>) -> {_FULL}",
    "mscatter": f"pto.mscatter %s, %i, %v : {_FULL}, !pto.tile<16x64xi32>, "
    "!pto.partition_tensor_view<64x64xf32>",
    "timg2col": "%d = pto.timg2col %s : (!pto.conv_tile<mat, 1x1x4x4x16xf16, layout=nc1hwc0, filter=1x1, "
    "channels=16>) -> !pto.tile<left, 16x16xf16, blayout=col_major, slayout=row_major>",
}
#: Examples that only some profiles have: block scales and what only A5 or the simulator implements.
ELSEWHERE = {
    "tget_scale_addr": ("cpu_sim", "a5"),
    "tgemv.mx": ("cpu_sim", "a5"),
    "tpack": ("a5",),
    "trandom": ("cpu_sim", "a5"),
    "thistogram": ("cpu_sim", "a5"),
    "timg2col": ("cpu_sim", "a5"),
}

#: The three forms of the section "Syntax", as printed.
PRINTED = {
    "Assembly Form (PTO-AS)": "pto.tadd %dst, %src0, %src1 : !pto.tile<f32, 16, 16>",
    "SSA Form (AS Level 1)": (
        "%dst = pto.tadd %src0, %src1\n"
        ": (!pto.tile<f32, 16, 16>, !pto.tile<f32, 16, 16>)\n"
        "-> !pto.tile<f32, 16, 16>"
    ),
    "DPS Form (AS Level 2)": (
        "pto.tadd ins(%src0, %src1 : !pto.tile_buf<f32, 16, 16>, !pto.tile_buf<f32, 16, 16>)\n"
        "outs(%dst : !pto.tile_buf<f32, 16, 16>)"
    ),
}


def found(text: str, profile: str, severity: str = "error", portable: bool = False) -> list[str]:
    listed = pto.verify(pto.parse(text), profile=profile, portable=portable)
    return [str(d) for d in listed if d.severity == severity]


def ssa(src0: str, src1: str, dst: str, name: str = "tadd") -> str:
    """A fragment with three tile types given by their parameters."""
    return f"%dst = pto.{name} %src0, %src1 : (!pto.tile<{src0}>, !pto.tile<{src1}>) -> !pto.tile<{dst}>"


def words(t: pto.Tile) -> Array:
    return np.asarray(t.words)


def random_words(seed: int, bits: int, shape: tuple[int, int] = (8, 32)) -> Array:
    return np.random.default_rng(seed).integers(0, 2**bits, shape, dtype=f"u{max(bits, 8) // 8}")


def memory_program(d: str, body: str, rows: int = 8, cols: int = 64, dynamic: bool = False) -> pto.Program:
    """Windows %px and %py on the pointers %x and %y, tiles %a and %b, and ``body``."""
    view, window = f"!pto.tensor_view<?x?x{d}>", f"!pto.partition_tensor_view<{rows}x{cols}x{d}>"
    tile = f"!pto.tile_buf<{d}, {rows}, {cols}{', valid=?x?' if dynamic else ''}>"
    allocation = f"pto.alloc_tile {'valid_row = %rows valid_col = %cols ' if dynamic else ''}: {tile}"
    views = "".join(
        f"""
        %v{n} = pto.make_tensor_view %{n}, shape = [%h, %w], strides = [%w, %c1] : {view}
        %p{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%h, %w] : {view} -> {window}"""
        for n in ("x", "y")
    )
    arguments = ["%x: !pto.ptr<DTYPE>", "%y: !pto.ptr<DTYPE>"]
    arguments += ["%rows: index", "%cols: index"] if dynamic else []
    return pto.parse(f"""
      func.func @move({", ".join(arguments).replace("DTYPE", d)}) {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %h = arith.constant {rows} : index
        %w = arith.constant {cols} : index{views}
        %a = {allocation}
        %b = {allocation}
        {body.replace("WINDOW", window).replace("TILE", tile)}
        return
      }}""")


LOAD = "pto.tload ins(%px : WINDOW) outs(%a : TILE)\n"
STORE = "pto.tstore ins(%b : TILE) outs(%py : WINDOW)\n"
DOUBLE = "pto.tadd ins(%a, %a : TILE, TILE) outs(%b : TILE)\n"

# --- Instruction overview, data flow, classes ---------------------------------------------------------


def test_data_flows_from_global_memory_through_tiles_back_to_global_memory() -> None:
    x = np.random.default_rng(1).standard_normal((8, 64), np.float32)
    y = np.zeros((8, 64), np.float32)
    k = pto.compile(memory_program("f32", LOAD + DOUBLE + STORE))
    out = k(x, y)
    assert k.outputs == ("y",) and list(out) == ["y"]
    np.testing.assert_array_equal(np.asarray(out["y"]), x + x)
    assert not y.any()


def test_tiles_carry_their_valid_region_and_layout() -> None:
    t = pto.tile(np.zeros((16, 64), np.float32), valid=(12, 60))
    u = pto.ops.tadd(t, t)
    for each in (t, u):
        assert (int(each.valid_rows), int(each.valid_cols)) == (12, 60)
        assert each.type.shape == (16, 64) and each.type.layout == "ND"


def test_a_result_may_be_a_changed_valid_region() -> None:
    shrink = (
        "%r = arith.constant 3 : index\n%c = arith.constant 5 : index\npto.set_validshape %b, %r, %c : TILE\n"
    )
    program = memory_program("f32", LOAD + shrink + DOUBLE + STORE, dynamic=True)
    x = np.random.default_rng(2).standard_normal((8, 64), np.float32)
    y = np.full((8, 64), 7, np.float32)
    want = y.copy()
    want[:3, :5] = (x + x)[:3, :5]
    out = pto.compile(program)(x, y, 8, 64)
    np.testing.assert_array_equal(np.asarray(out["y"]), want)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_example_of_an_instruction_class(text: str, profile: str) -> None:
    program = pto.parse(text)
    (op,) = program.walk()
    assert EXAMPLES[op.name] == text
    assert pto.parse(str(program)) == program
    if profile in ELSEWHERE.get(op.name, PROFILES):
        assert found(text, profile) == []
    else:
        assert any(op.name in e and profile in e for e in found(text, profile))


def test_memory_instructions_read_from_or_write_to_global_memory() -> None:
    """Only what the store covers changes; what the load covers stays."""
    k = pto.compile(memory_program("i32", LOAD + DOUBLE + STORE, dynamic=True))
    x, y = (np.arange(512, dtype=np.int32).reshape(8, 64) + n for n in (0, 1000))
    before = x.copy()
    out = k(x, y, 5, 9)
    want = y.copy()
    want[:5, :9] = 2 * x[:5, :9]
    np.testing.assert_array_equal(np.asarray(out["y"]), want)
    np.testing.assert_array_equal(x, before)


# --- Inputs: source tiles are read-only ---------------------------------------------------------------

BINARY = "tadd tsub tmul tdiv tmax tmin trem tfmod tpow tprelu taddc tsubc tsubrelu".split()
ACCUMULATING = "tmuladddst tfusedmuladd tfusedmuladdrelu".split()
UNARY = "tabs tneg trelu texp tlog tsqrt trsqrt trecip".split()
SCALAR = "tadds tsubs tmuls tdivs tmaxs tmins trems tfmods tpows tlrelu taxpy".split()
BITWISE = "tand tor txor tshl tshr".split()
BITWISE_SCALAR = "tands tors txors tshls tshrs".split()
F32, F16, I16, I32, MASK = (f"!pto.tile<8x32x{d}>" for d in ("f32", "f16", "i16", "i32", "u8"))
PART = {d: f"!pto.tile<8x32x{d}, valid=?x?>" for d in ("f32", "f16", "i16")}


def every_instruction() -> list[tuple[str, str, str, str]]:
    """Name, operands, their types, destination element type. %e and %f have the destination's region."""
    pair, equal, part = "%a, %b", "%e, %f", PART["f32"]
    listed = [(n, pair, f"{F32}, {F32}", "f32") for n in (*BINARY, *ACCUMULATING)]
    listed += [(n, "%a", F32, "f32") for n in UNARY]
    listed += [(n, "%a, %s", f"{F32}, f32", "f32") for n in SCALAR]
    listed += [(n, "%i, %j", f"{I16}, {I16}", "i16") for n in BITWISE]
    listed += [(n, "%i, %k", f"{I16}, i16", "i16") for n in BITWISE_SCALAR]
    listed += [("tnot", "%i", I16, "i16"), ("texpands", "%s", "f32", "f32")]
    listed += [(n, "%e, %s, %f", f"{part}, f32, {part}", "f32") for n in ("taddsc", "tsubsc")]
    listed += [(n, equal, f"{part}, {part}", "f16") for n in ("taddreluconv", "tsubreluconv")]
    listed += [("tadddeqrelu", "%n, %n, %s", f"{I32}, {I32}, f32", "f16"), ("tcvt", "%e", part, "f16")]
    listed += [("tsel", "%m, %a, %b", f"{MASK}, {F32}, {F32}", "f32")]
    return [*listed, ("tsels", "%m, %a, %s", f"{MASK}, {F32}, f32", "f32"), ("tmov", "%a", F32, "f32")]


INSTRUCTIONS = every_instruction()
SOURCES = {"a": 32, "b": 32, "e": 32, "f": 32, "i": 16, "j": 16, "n": 32, "m": 8}
TYPES = {"i": "i16", "j": "i16", "n": "i32", "m": "u8"}


class Everything:
    """One program with each instruction once, run with a small and with the full destination region."""

    def __init__(self) -> None:
        lines = [
            f"pto.{n} ins({ins} : {types}) outs(%d_{n} : {PART[d]})" for n, ins, types, d in INSTRUCTIONS
        ]
        lines += [
            f"pto.{n} ins(%a, {other} {{cmpMode = #pto.cmp<lt>}} : {F32}, {t}) outs(%d_{n} : {MASK})"
            for n, other, t in (("tcmp", "%b", F32), ("tcmps", "%s", "f32"))
        ]
        self.kernel = pto.compile(pto.parse("\n".join(lines)), profile="cpu_sim")
        self.sources = {n: random_words(seed, bits) for seed, (n, bits) in enumerate(SOURCES.items())}
        self.old = {n: random_words(50 + i, pto.dtype(d).bits) for i, (n, _, _, d) in enumerate(INSTRUCTIONS)}
        self.small, self.after_small = self.run((5, 9))
        self.full, self.after_full = self.run((8, 32))

    def run(self, region: tuple[int, int]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Destinations by instruction and sources by name, after the program ran."""
        given: dict[str, Any] = {"s": 1.5, "k": 3}
        for n, w in self.sources.items():
            valid = region if n in "ef" else None
            given[n] = pto.tile(w, dtype=TYPES.get(n, "f32"), valid=valid)
        for n, _, _, d in INSTRUCTIONS:
            given[f"d_{n}"] = pto.tile(self.old[n], dtype=d, valid=region)
        for n in ("tcmp", "tcmps"):
            given[f"d_{n}"] = pto.tile(np.zeros((8, 32), np.uint8))
        outputs, state = self.kernel.with_state(**given)
        results = {n.removeprefix("d_"): words(t) for n, t in outputs.items()}
        return results, {n: words(state.tiles[n]) for n in self.sources}


@pytest.fixture(scope="module")
def everything() -> Everything:
    return Everything()


def test_source_tiles_are_read_only_operands_of_every_instruction(everything: Everything) -> None:
    names = {i[0] for i in INSTRUCTIONS} | {"tcmp", "tcmps"}
    assert len(names) == 58 and names == set(everything.full)
    for after in (everything.after_small, everything.after_full):
        for n, before in everything.sources.items():
            np.testing.assert_array_equal(after[n], before, err_msg=n)


@pytest.mark.parametrize("name", [i[0] for i in INSTRUCTIONS])
def test_elementwise_operations_iterate_over_the_valid_region_of_the_destination(
    name: str, everything: Everything
) -> None:
    """Other lanes keep their bytes; the lanes inside do not depend on how large the region is."""
    got, full, old = everything.small[name], everything.full[name], everything.old[name]
    inside = np.zeros(got.shape, bool)
    inside[:5, :9] = True
    np.testing.assert_array_equal(got[~inside], old[~inside])
    if name != "tsel":  # The simulator reads its mask as one stream of the region's bits.
        np.testing.assert_array_equal(got[inside], full[inside])
    assert (full != old)[inside].any() and (full != old)[~inside].any()


# --- Shared constraints -------------------------------------------------------------------------------


def test_every_instruction_states_regions_layouts_profiles_and_what_is_not_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in (*(i[0] for i in INSTRUCTIONS), "tcmp", "tcmps", "tload", "tstore"):
        assert main(["isa", name, "--json"]) == 0
        entry = json.loads(capsys.readouterr().out)
        rules = {c["rule"] for c in entry["constraints"]}
        assert entry["domain"] in ("dst", "src", "src0", "custom"), name
        assert set(entry["types"]) == set(PROFILES), name
        assert "types" in rules, name
        if name not in ("tload", "tstore", "tmov"):
            assert {"location", "layout"} <= rules, name
        assert all(c["allowed"] and c["source"] and c["severity"] for c in entry["constraints"]), name


# --- Valid region model -------------------------------------------------------------------------------

COVERS = ssa("16x64xf32, valid=12x64", "16x64xf32", "16x64xf32")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_lane_is_read_whether_or_not_it_is_in_the_valid_region_of_its_source(profile: str) -> None:
    """The page leaves the value open on hardware, the pto.tadd page says all-one bits."""
    x = np.arange(8 * 32, dtype=np.int32).reshape(8, 32)
    small = pto.tile(x, valid=(5, 9))
    full = pto.TileType(pto.dtype("i32"), 8, 32)
    got = np.asarray(pto.ops.tsub(small, pto.tile(np.zeros_like(x)), dst=full, profile=profile))
    want = np.full_like(x, -1) if profile in HARDWARE else x.copy()
    want[:5, :9] = x[:5, :9]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("profile", PROFILES)
def test_programs_must_not_rely_on_out_of_region_lanes(profile: str) -> None:
    assert found(COVERS, profile) == []
    (warning,) = found(COVERS, profile, "warning")
    assert "no value may be relied on" in warning
    portable = found(COVERS, profile, portable=True)
    assert len(portable) == 1 and "src0" in portable[0]
    assert found(ssa(*["16x64xf32"] * 3), profile, portable=True) == []


# --- Constraints --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "src1"),
    [
        ("shape", "8x64xf32"),
        ("layout", "f32, 16, 64, col_major"),
        ("role", "16x64xf32, loc=mat"),
        ("valid region", "16x64xf32, valid=17x64"),
        ("element type", "16x64xi32"),
    ],
)
def test_legality_depends_on_more_than_dtype(part: str, src1: str) -> None:
    assert found(ssa("16x64xf32", "16x64xf32", "16x64xf32"), "a2a3") == []
    assert found(ssa("16x64xf32", src1, "16x64xf32"), "a2a3"), part


SCALES = {
    "scaleleft": "rows=16, cols=2, blayout=row_major, slayout=row_major",
    "scaleright": "rows=2, cols=16, blayout=col_major, slayout=col_major",
}


@pytest.mark.parametrize(("loc", "shape"), SCALES.items())
def test_mx_block_scale_tiles_are_gated_by_profile(loc: str, shape: str) -> None:
    alloc = f"%t = pto.alloc_tile : !pto.tile_buf<loc={loc}, dtype=f8e8m0, {shape}, fractal=32>"
    rejected = found(alloc, "a2a3")
    assert any(f"{loc} tile" in e and "allowed on a2a3: vec, mat, left, right" in e for e in rejected)
    assert any("f8e8m0" in e for e in rejected)
    assert found(alloc, "a5") == [] and found(alloc, "a5", "warning") == []
    assert found(alloc, "cpu_sim") == [] and any("a5 only" in w for w in found(alloc, "cpu_sim", "warning"))
    assert found(alloc, "a5", portable=True)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loc", ["left", "right"])
def test_left_and_right_tiles_of_ordinary_types_exist_everywhere(loc: str, profile: str) -> None:
    """Only the block-scale format is gated: matmul needs both on every profile."""
    inner = "row_major" if loc == "left" else "col_major"
    text = f"loc={loc}, dtype=f16, rows=16, cols=16, blayout=row_major, slayout={inner}"
    assert found(f"%t = pto.alloc_tile : !pto.tile_buf<{text}>", profile) == []


@pytest.mark.parametrize(
    ("size", "profiles"),
    [((1, 8), PROFILES), ((3, 40), PROFILES), ((120, 96), PROFILES), ((7, 512), PROFILES)],
)
def test_tile_instructions_work_on_whole_tiles_not_on_vector_registers(
    size: tuple[int, int], profiles: tuple[str, ...]
) -> None:
    x, y = (np.random.default_rng(n).standard_normal(size, np.float32) for n in (5, 6))
    for profile in profiles:
        np.testing.assert_array_equal(
            np.asarray(pto.ops.tadd(pto.tile(x), pto.tile(y), profile=profile)), x + y
        )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ["tadd", "tmul", "tmax", "tdiv", "taddc"])
@pytest.mark.parametrize("small", ["f32, 16, 1, col_major", "f32, 1, 64", "f32, 1, 8", "f32, 16, 8"])
@pytest.mark.parametrize("which", [0, 1], ids=["src0", "src1"])
def test_no_implicit_broadcasting(which: int, small: str, name: str, profile: str) -> None:
    types = ["f32, 16, 64"] * 3
    types[which] = small
    text = ssa(types[0], types[1], types[2], name)
    rejected = [e for e in found(text, profile) if "broadcasting" in e]
    assert len(rejected) == 1 and f"operand src{which}" in rejected[0] and "16x64" in rejected[0]
    with pytest.raises(pto.VerifyError, match="broadcasting"):
        pto.compile(pto.parse(text), profile=profile)


def test_no_implicit_broadcasting_of_tiles_given_to_functions() -> None:
    whole = np.ones((16, 64), np.float32)
    column = pto.TileType(pto.dtype("f32"), 16, 1, blayout=type(pto.tile(whole).type.blayout).COL_MAJOR)
    for small in (
        pto.tile(np.ones((1, 64), np.float32)),
        pto.tile(np.ones((16, 1), np.float32), type=column),
    ):
        for profile in PROFILES:
            with pytest.raises(pto.VerifyError, match="broadcasting"):
                pto.ops.tadd(pto.tile(whole), small, profile=profile)


@pytest.mark.parametrize("valid", [(16, 1), (1, 64)])
def test_a_valid_column_or_row_is_not_broadcast_either(valid: tuple[int, int]) -> None:
    x = np.random.default_rng(7).standard_normal((16, 64), np.float32)
    whole = pto.TileType(pto.dtype("f32"), 16, 64)
    out = np.asarray(pto.ops.tadd(pto.tile(x), pto.tile(x, valid=valid), dst=whole))
    rows, cols = valid
    np.testing.assert_array_equal(out[:rows, :cols], (x + x)[:rows, :cols])
    assert np.isnan(out[rows:]).all() and np.isnan(out[:, cols:]).all()


# --- Cases that are not allowed -----------------------------------------------------------------------


@pytest.mark.parametrize("src1", ["64x16xf32", "32x32xf32", "1x1024xf32"])
def test_no_implicit_reshaping(src1: str) -> None:
    for profile in PROFILES:
        assert found(ssa("16x64xf32", src1, "16x64xf32"), profile), src1


def test_no_valid_region_repair() -> None:
    """The destination keeps its own region, whatever the sources have."""
    small = pto.tile(np.ones((16, 64), np.float32), valid=(4, 4))
    dst = pto.tile(np.zeros((16, 64), np.float32), valid=(8, 32))
    out = pto.ops.tadd(small, small, dst=dst)
    assert (int(out.valid_rows), int(out.valid_cols)) == (8, 32)
    got = np.asarray(out)
    assert (got[:4, :4] == 2).all() and np.isnan(got[4:8, :32]).all() and not got[8:].any()


def test_support_gaps_of_a_target_are_not_universal_rules() -> None:
    """What one profile lacks is an error there and for portable programs, and fine on the others."""
    text = ssa(*["16x64xi8"] * 3)
    assert found(text, "a2a3") and found(text, "a5") == [] and found(text, "cpu_sim") == []
    (portable,) = found(text, "a5", portable=True)
    assert "not portable: a2a3" in portable


@pytest.mark.parametrize("d", FP8)
def test_fp8_element_types_are_for_a5(d: str) -> None:
    text = ssa(*[f"16x64x{d}"] * 3)
    assert any(f"element type {d} does not exist on a2a3" in e for e in found(text, "a2a3"))
    assert found(text, "a5") == [] and found(text, "a5", "warning") == []
    assert found(text, "cpu_sim") == []
    warned = found(text, "cpu_sim", "warning")
    assert warned and all("not portable" in w and d in w for w in warned)
    x = pto.tile(np.full((8, 32), 0x38, np.uint8), dtype=d)
    with pytest.raises(pto.VerifyError, match=d):
        pto.ops.tadd(x, x, profile="a2a3")
    pto.ops.tadd(x, x, profile="a5")


# --- Saturating variants ------------------------------------------------------------------------------

SATURATING = [("a2a3", d) for d in STANDARD] + [(p, d) for p in ("a5", "cpu_sim") for d in (*STANDARD, *FP8)]


def operands(d: str) -> tuple[Array, Array]:
    """Every pair of some extreme values, and pairs from random words."""
    kind: np.dtype[Any] = np.dtype(NUMPY[d])
    bits = kind.itemsize * 8
    if d in INTEGERS:
        high = 2 ** (bits - d.startswith("i")) - 1
        low = -high - 1 if d.startswith("i") else 0
        extremes = np.array([low, low + 1, low // 2, 0, 1, 5, high // 2, high // 2 + 1, high - 1, high], kind)
    else:
        limit = LARGEST[kind.name]
        special = [limit, limit / 2, 1, 0, -0.0, -limit / 4, -limit, np.inf, -np.inf, np.nan]
        with np.errstate(all="ignore"):
            extremes = np.array(special, np.float32).astype(kind)
    a, b = (random_words(n, bits, (20, 32)).view(kind) for n in (8, 9))
    a[:10, :10], b[:10, :10] = np.meshgrid(extremes, extremes)
    return a, b


def clamped(a: Array, b: Array, sign: int) -> Array:
    """The exact sum, rounded once, between the smallest and the largest representable value."""
    if a.dtype.kind in "iu":
        info = np.iinfo(a.dtype)
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        exact = [min(max(x + sign * y, int(info.min)), int(info.max)) for x, y in pairs]
        return np.array(exact, a.dtype).reshape(a.shape)
    limit = LARGEST[a.dtype.name]
    with np.errstate(all="ignore"):
        if a.dtype == np.float32:
            found_: Array = np.clip(a + sign * b, -limit, limit)
            return found_
        wide = np.clip(a.astype(np.float64) + sign * b.astype(np.float64), -limit, limit)
        # One rounding: f64 holds these sums, f32 more than twice the digits of f16 and bf16.
        return (wide if a.dtype.itemsize == 1 else wide.astype(np.float32)).astype(a.dtype)


def same(got: Array, want: Array) -> None:
    """Equal values; any NaN is equal to any other."""
    assert got.dtype == want.dtype
    if want.dtype.kind not in "iu":
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("name", "sign"), [("taddc", 1), ("tsubc", -1)])
@pytest.mark.parametrize(("profile", "d"), SATURATING)
def test_two_sources_saturate_at_the_limits_of_the_type(profile: str, d: str, name: str, sign: int) -> None:
    a, b = operands(d)
    call = getattr(pto.ops, name)
    got = np.asarray(call(pto.tile(a), pto.tile(b), profile=profile))
    same(got, clamped(a, b, sign))
    if d in INTEGERS:
        info = np.iinfo(a.dtype)
        reached = [info.max if sign > 0 else info.min] if d.startswith("u") else [info.min, info.max]
        assert all((got == limit).sum() > 10 for limit in reached)
    else:
        assert not np.isinf(got.astype(np.float32)).any()


@pytest.mark.parametrize(("name", "sign"), [("taddc", 1), ("tsubc", -1)])
@pytest.mark.parametrize(("profile", "d"), [(p, d) for p, d in SATURATING if d not in FP8])
def test_three_sources_wrap(profile: str, d: str, name: str, sign: int) -> None:
    a, b = operands(d)
    c = np.roll(a, 7)
    got = np.asarray(getattr(pto.ops, name)(pto.tile(a), pto.tile(b), pto.tile(c), profile=profile))
    with np.errstate(all="ignore"):
        if d in INTEGERS:
            same(got, a + b + c if sign > 0 else a - b + c)
        else:
            wide = a.astype(np.float32) + sign * b.astype(np.float32) + c.astype(np.float32)
            same(got, wide.astype(a.dtype))
            assert np.isinf(got.astype(np.float32)).any()


@pytest.mark.parametrize("name", ["taddc", "tsubc"])
@pytest.mark.parametrize("d", [*FP8, "hif8"])
def test_saturating_variants_have_the_types_of_the_profile(d: str, name: str) -> None:
    tile = f"16x64x{d}"
    text = ssa(tile, tile, tile, name)
    assert found(text, "a2a3") and found(text, "a5") == [] and found(text, "cpu_sim") == []


# --- Type support by profile --------------------------------------------------------------------------

USES = {
    "alloc_tile": "%t = pto.alloc_tile : !pto.tile_buf<{d}, 16, 64>",
    "tmov": "%d = pto.tmov %a : (!pto.tile<{d}, 16, 64>) -> !pto.tile<{d}, 16, 64>",
    "tload": "%d = pto.tload %v : !pto.partition_tensor_view<16x64x{d}> -> !pto.tile<{d}, 16, 64>",
    "tstore": "pto.tstore %t, %v : !pto.tile<{d}, 16, 64>, !pto.partition_tensor_view<16x64x{d}>",
}


@pytest.mark.parametrize("text", USES.values(), ids=USES.keys())
@pytest.mark.parametrize(("d", "profile"), [*product((*STANDARD, *A5_ONLY), PROFILES)])
def test_type_support_by_profile(d: str, profile: str, text: str) -> None:
    """ "No" is an error on A2/A3 and a warning on the simulator, which has these types all the same."""
    text = text.format(d=d)
    errors, warnings = found(text, profile), found(text, profile, "warning")
    if d in STANDARD or profile == "a5":
        assert errors == [] and warnings == []
    elif profile == "a2a3":
        assert any(f"element type {d} does not exist on a2a3" in e for e in errors)
    else:
        assert errors == [] and warnings and all(f"{d} on cpu_sim is not portable" in w for w in warnings)


@pytest.mark.parametrize(
    ("printed", "d"),
    [
        ("float", "f32"),
        ("half", "f16"),
        ("bfloat16_t", "bf16"),
        ("hifloat8_t", "hif8"),
        ("float4_e2m1x2_t", "f4e2m1x2"),
        ("float4_e1m2x2_t", "f4e1m2x2"),
        ("int8_t", "i8"),
        ("int16_t", "i16"),
        ("int32_t", "i32"),
    ],
)
def test_element_types_are_known_by_the_names_the_pages_print(printed: str, d: str) -> None:
    assert pto.dtype(printed) == pto.dtype(d)
    assert pto.parse(USES["alloc_tile"].format(d=printed)) == pto.parse(USES["alloc_tile"].format(d=d))


@pytest.mark.parametrize("d", [*STANDARD, *A5_ONLY])
def test_every_supported_type_is_loaded_moved_and_stored_bit_for_bit(d: str) -> None:
    move = "pto.tmov ins(%a : TILE) outs(%b : TILE)\n"
    program = memory_program(d, LOAD + move + STORE)
    t = pto.dtype(d)
    x = random_words(10, t.bits if t.bits > 4 else 8, (8, 64 * t.storage_bits // max(t.storage_bits, 8)))
    out = pto.compile(program, profile="a5")(x, np.zeros_like(x))
    np.testing.assert_array_equal(np.asarray(out["y"]).view(x.dtype), x)


# --- Syntax, C++ intrinsics ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED.keys())
def test_printed_spelling_parses_as_printed_and_runs(text: str) -> None:
    program = pto.parse(text)
    (op,) = program.walk()
    assert op.name == "tadd" and program.fragment_results == ("dst",)
    assert [v.name for v in op.ins] == ["src0", "src1"]
    assert pto.parse(str(program)) == program
    x, y = (np.random.default_rng(n).standard_normal((16, 16), np.float32) for n in (11, 12))
    for profile in PROFILES:
        assert pto.verify(program, profile=profile) == []
    out = pto.compile(program)(src0=x, src1=y)
    np.testing.assert_array_equal(np.asarray(out["dst"]), x + y)


@pytest.mark.parametrize(
    "written",
    ["!pto.tile<...>", "!pto.tile_buf<...>", "!pto.tile<T, R, C>"],
)
def test_tile_operand_types_parse_as_printed(written: str) -> None:
    text = f"%dst = pto.tadd %src0, %src1 : ({written}, {written}) -> {written}"
    program = pto.parse(text)
    assert written in str(program) and pto.parse(str(program)) == program
    assert {d.rule for d in pto.verify(program)} == {"type-given"}


@pytest.mark.parametrize(
    "text",
    [
        "%dst = pto.tload %src : !pto.partition_tensor_view<...> -> !pto.tile<...>",
        "pto.tload ins(%src : !pto.partition_tensor_view<...>) outs(%dst : !pto.tile_buf<...>)",
        "pto.tstore ins(%src : !pto.tile_buf<...>) outs(%dst : !pto.partition_tensor_view<...>)",
    ],
)
def test_global_memory_view_types_parse_as_printed(text: str) -> None:
    program = pto.parse(text)
    assert "!pto.partition_tensor_view<...>" in str(program) and pto.parse(str(program)) == program
    found_ = pto.verify(program)
    assert len(found_) == 2 and all(d.rule == "type-given" and "not given" in d.message for d in found_)


def test_intrinsics_tadd_and_tload_take_destination_and_sources() -> None:
    """``TADD(dst, src0, src1)`` and ``TLOAD(dst, src)`` in the destination-first spelling."""
    body = "tload %a, %px : TILE, WINDOW\ntadd %b, %a, %a : TILE\ntstore %b, %py : TILE, WINDOW\n"
    x = np.random.default_rng(13).standard_normal((8, 64), np.float32)
    out = pto.compile(memory_program("f32", body))(x, np.zeros_like(x))
    np.testing.assert_array_equal(np.asarray(out["y"]), x + x)


def test_optional_events_chain_without_effect_on_values() -> None:
    chained = LOAD + "pto.tsync\n" + DOUBLE + "pto.barrier <PIPE_ALL>\n" + STORE
    x = np.random.default_rng(14).standard_normal((8, 64), np.float32)
    plain = pto.compile(memory_program("f32", LOAD + DOUBLE + STORE))(x, np.zeros_like(x))["y"]
    out = jax.jit(pto.compile(memory_program("f32", chained)))(x, np.zeros_like(x))["y"]
    np.testing.assert_array_equal(np.asarray(out), np.asarray(plain))
