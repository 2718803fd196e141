"""Page Tile Instruction Set, sections up to the shared constraints, in the page's order."""

import json
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main
from tests.seeds.overview import (
    DOUBLE,
    LOAD,
    PROFILES,
    STORE,
    Array,
    found,
    memory_program,
    random_words,
    words,
)
from tests.tables import every

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
    "!pto.tile<16x1xf32, blayout=col_major>) -> !pto.tile<i8, 16, 64>",
    "tdequant": "%d = pto.tdequant %s, %k, %o : (!pto.tile<i8, 16, 64>, !pto.tile<f32, 16, 8>, "
    f"!pto.tile<f32, 16, 8>) -> {_FULL}",
    "trandom": "%d = pto.trandom %a, %b, %c, %e, %f, %g {rounds = 10} : !pto.tile<u32, 2, 256>",
    "thistogram": "%d = pto.thistogram %s, %i {byte = BYTE_1} : (!pto.tile<u16, 2, 32>, "
    "!pto.tile<32x1xui8, blayout=col_major>) -> !pto.tile<u32, 2, 256>",
    "tgather": "%d = pto.tgather %s, %i, %t : (!pto.tile<f32, 2, 32>, !pto.tile<i32, 2, 32>, "
    "!pto.tile<i32, 2, 32>) -> !pto.tile<f32, 2, 32>",
    "tpartadd": f"%d = pto.tpartadd %a, %b : {_FULL}",
    "mgather": "%d = pto.mgather %v, %i {coalesce = #pto<coalesce elem>} : "
    "(!pto.partition_tensor_view<64x64xf32>, "
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


@every("profile", PROFILES)
@every("text", EXAMPLES.values(), ids=EXAMPLES.keys())
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


@pytest.mark.slow
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
