"""Irregular instructions where no recorded case tells: hardware profiles, NaNs, several destinations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pto_jax import ir, isa, oracle, parse
from pto_jax.oracle import OracleTile
from pto_jax.oracle.irregular import philox

Make = Callable[..., Any]


def run(name: str, operands: dict[str, Any], profile: str, **attributes: Any) -> dict[str, Any]:
    """Run one instruction on operands by declared name, all destinations included."""
    instruction = isa.instructions()[name]
    written = [o.name for o in instruction.destinations if o.name in operands]
    sources = [n for n in operands if n not in written]
    form = next(f for f in instruction.forms if sorted(f) == sorted(sources))

    def value(operand: str) -> ir.Value:
        given, declared = operands[operand], instruction.operand(operand)
        t: ir.Type
        if isinstance(given, OracleTile):
            t = given.type
        elif declared.kind == "vector":
            t = declared.vector
        else:
            first = next(o for o in operands.values() if isinstance(o, OracleTile))
            t = ir.ScalarType(ir.dtype(declared.dtype) if declared.dtype != "T" else first.type.dtype)
        return ir.Value(operand, t)

    op = ir.Op(name, tuple(map(value, form)), tuple(map(value, written)), attributes=ir.attrs(attributes))
    function = ir.Function(ir.FRAGMENT, tuple(map(value, (*form, *written))), ir.Region((op,)))
    program = ir.Program((function,), fragment=True, fragment_results=tuple(written))
    return oracle.run(program, operands, profile=profile)


def zeros(tile: Make, d: str, rows: int, cols: int, **fields: Any) -> OracleTile:
    made = tile(d, np.zeros((rows, cols), ir.dtype(d).word), **fields)
    assert isinstance(made, OracleTile)
    return made


# -- making values -----------------------------------------------------------------------------------


def test_sequences_wrap_and_ignore_valid_rows(tile: Make) -> None:
    dst = tile("i8", np.full((1, 32), 7), valid=(0, 4))
    out = run("tci", {"start": 126, "dst": dst}, "cpu_sim")["dst"]
    assert out.data[0, :6].tolist() == [126, 127, -128, -127, 7, 7]
    down = run("tci", {"start": 1, "dst": zeros(tile, "u16", 1, 16)}, "a5", descending=True)["dst"]
    assert down.data[0, :3].tolist() == [1, 0, 65535]


def test_long_float_sequences_round_the_count_first(tile: Make) -> None:
    out = run("tci", {"start": 0.0, "dst": zeros(tile, "bf16", 1, 512)}, "cpu_sim")["dst"]
    assert out.data[0, [255, 257, 259]].astype(float).tolist() == [255.0, 256.0, 260.0]


@pytest.mark.parametrize("diagonal", [2**31 - 1, -(2**31)])
def test_triangles_of_extreme_diagonals(tile: Make, diagonal: int) -> None:
    for upper in (0, 1):
        dst = zeros(tile, "f32", 4, 8)
        out = run("ttri", {"diagonal": diagonal, "dst": dst}, "a5", upperOrLower=upper)["dst"]
        assert (out.data == float((diagonal > 0) != bool(upper))).all()


@pytest.mark.parametrize(
    ("counter", "rounds", "words"),
    [
        (0, 10, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (0, 7, "5f6fb709 0d893f64 4f121f81 4f730a48"),
        ((1 << 128) - 1, 10, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ],
)
def test_generator_known_answers(counter: int, rounds: int, words: str) -> None:
    key = (0xFFFFFFFF, 0xFFFFFFFF) if counter else (0, 0)
    assert " ".join(f"{w:08x}" for w in philox(counter, key, rounds)) == words


def test_random_words_per_profile(tile: Make) -> None:
    def out(profile: str) -> Any:
        operands: dict[str, Any] = {f"key{n}": 0 for n in range(2)}
        operands |= {f"counter{n}": 0 for n in range(4)}
        operands["dst"] = zeros(tile, "u32", 2, 256, valid=(2, 130))
        return run("trandom", operands, profile)["dst"].data

    simulated, hardware = out("cpu_sim"), out("a5")
    block = philox(0, (0, 0), 10)
    assert hardware[0, :4].tolist() == list(block)
    assert simulated[0, [0, 64, 128]].tolist() == list(block[:3])
    assert simulated[1, 0] == philox(256 // 4, (0, 0), 10)[0]
    assert hardware[1, 0] == philox(129 % 64 + 1, (0, 0), 10)[0]
    assert not hardware[:, 130:].any()


def test_histogram_attributes(tile: Make) -> None:
    src = tile("u16", np.array([[0x0102, 0x0203] + [0x01FF] * 14], np.uint16), valid=(1, 3))
    idx = tile("u8", np.full((32, 1), 1), valid=(1, 1), blayout=ir.BLayout.COL_MAJOR)

    def counts(**attributes: Any) -> Any:
        operands = {"src": src, "idx": idx, "dst": zeros(tile, "u32", 1, 256)}
        return run("thistogram", operands, "a5", **attributes)["dst"].data[0]

    high, low = counts(), counts(isMSB=False)
    assert high[[0, 1, 2, 255]].tolist() == [0, 2, 3, 3]
    assert low[[1, 2, 254, 255]].tolist() == [0, 1, 1, 2]
    assert counts(isMSB=True, byte=ir.HistByte.BYTE_0).tolist() == low.tolist()


def test_printing(tile: Make, capsys: pytest.CaptureFixture[str]) -> None:
    values = tile("f32", np.array([[1.25, -2.0, 1e3, np.inf] + [0] * 4], np.float32), valid=(1, 4))
    run("tprint", {"src": values}, "a2a3", format=ir.PrintFormat.WIDTH8_PRECISION2)
    run("tprint", {"src": tile("i8", np.full((1, 32), -3), valid=(1, 2))}, "a2a3")
    assert capsys.readouterr().out.splitlines() == [
        "TPRINT 1x4",
        "    1.25    -2.00  1000.00      inf",
        "TPRINT 1x2",
        "      -3       -3",
    ]


# -- sorting -----------------------------------------------------------------------------------------


def test_sorting_puts_nans_at_the_ends(tile: Make) -> None:
    bits = np.array([0x3F800000, 0xFFC00001, 0x7FC00002, 0x80000000, 0, 0x7F800000, 0xFF800000, 0x7FC00001])
    idx = tile("u32", np.arange(8)[::-1], valid=(1, 8))
    operands = {
        "src": tile("f32", bits.astype(np.uint32)[None]),
        "idx": idx,
        "tmp": zeros(tile, "f32", 1, 32),
        "dst": zeros(tile, "f32", 1, 16),
    }
    for profile in ("cpu_sim", "a2a3"):
        words = run("tsort32", operands, profile)["dst"].data.view(np.uint32)[0]
        assert [hex(w) for w in words[0::2]] == [
            "0x7fc00001", "0x7fc00002", "0x7f800000", "0x3f800000", "0x0", "0x80000000", "0xff800000",
            "0xffc00001",
        ]  # fmt: skip
        assert words[1::2].tolist() == [0, 5, 2, 7, 3, 4, 1, 6]


def test_one_row_of_indices(tile: Make) -> None:
    src = tile("f16", np.tile(np.arange(32), (2, 1)))
    operands = {"src": src, "idx": tile("u32", [np.arange(32)]), "dst": zeros(tile, "f16", 2, 128)}
    assert not run("tsort32", operands, "cpu_sim")["dst"].data.any()
    out = run("tsort32", operands, "a5")["dst"].data
    assert out[1, :8].tolist() == [31, 0, np.uint16(31).view(np.float16), 0, 30, 0, *out[0, 6:8]]


def _records(tile: Make, values: list[float], first: int, cols: int = 16) -> OracleTile:
    words = np.zeros((1, cols), np.uint32)
    words[0, 0 : 2 * len(values) : 2] = np.array(values, np.float32).view(np.uint32)
    words[0, 1 : 2 * len(values) : 2] = np.arange(first, first + len(values))
    made = tile("f32", words, valid=(1, 2 * len(values)))
    assert isinstance(made, OracleTile)
    return made


@pytest.mark.parametrize(
    ("exhausted", "order", "counts"),
    [(False, [0, 10, 1, 20, 11, 21], [2, 2, 2, 0]), (True, [0, 10, 1], [2, 1, 0, 0])],
)
def test_merging_lists(tile: Make, exhausted: bool, order: list[int], counts: list[int]) -> None:
    operands = {
        "src0": _records(tile, [5, 3], 0),
        "src1": _records(tile, [5, 1], 10),
        "src2": _records(tile, [2, 1], 20),
        "tmp": zeros(tile, "f32", 1, 48),
        "dst": zeros(tile, "f32", 1, 16),
        "executed": np.full(4, 9, np.int16),
    }
    found = run("tmrgsort", operands, "a2a3", exhausted=exhausted)
    assert found["executed"].tolist() == counts and found["executed"].dtype == np.int16
    assert found["dst"].data.view(np.uint32)[0, 1 : 2 * len(order) : 2].tolist() == order
    assert not found["dst"].data[0, 2 * len(order) :].any()


def test_a_nan_record_waits_for_its_turn(tile: Make) -> None:
    operands = {
        "src0": _records(tile, [4, np.nan, 2], 0),
        "src1": _records(tile, [3, 1], 10),
        "tmp": zeros(tile, "f32", 1, 32),
        "dst": zeros(tile, "f32", 1, 16),
        "executed": np.zeros(4, np.int16),
    }
    out = run("tmrgsort", operands, "cpu_sim")["dst"].data.view(np.uint32)[0]
    assert out[1:10:2].tolist() == [0, 1, 10, 2, 11]


@pytest.mark.parametrize("length", [0, 3, 64])
def test_blocks_that_do_not_fit_are_left_alone(tile: Make, length: int) -> None:
    src = tile("f32", np.arange(32)[None])
    operands = {"src0": src, "blockLen": length, "dst": tile("f32", np.full((1, 32), 7))}
    assert (run("tmrgsort", operands, "cpu_sim")["dst"].data == 7).all()


# -- gathering and scattering ------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["a2a3", "a5"])
def test_gathering_matches(tile: Make, profile: str) -> None:
    src = tile("f16", [[3, 1, np.nan, 2] + [9] * 12, [0, 5, 5, 5] + [9] * 12], valid=(2, 4))
    operands = {
        "src": src,
        "kValue": 1.0,
        "tmp": zeros(tile, "u8", 32, 64),
        "dst": tile("i32", np.full((2, 8), -1)),
        "cdst": tile("i32", np.full((1, 8), -1)),
    }
    found = run("tgather", operands, profile, cmpMode=ir.CmpMode.GT, offset=100)
    assert found["dst"].data[:, :4].tolist() == [[100, 103, -1, -1], [117, 118, 119, -1]]
    assert found["cdst"].data[0, :3].tolist() == [2, 3, -1]


def test_gathered_elements_come_from_storage(tile: Make) -> None:
    src = tile("i16", np.arange(32).reshape(2, 16), valid=(1, 1))
    indices = tile("i16", [[17, -1, 32, 3] + [0] * 12])
    out = run("tgather", {"src": src, "indices": indices, "dst": zeros(tile, "i16", 1, 16)}, "a5")["dst"]
    assert out.data[0, :4].tolist() == [17, 0, 0, 3]


def test_patterns_restart_at_every_row(tile: Make) -> None:
    src = tile("i32", np.arange(16).reshape(2, 8), valid=(2, 5))
    options = {"maskPattern": ir.MaskPattern.P1010, "axis": ir.GatherAxis.GATHER_ROW}
    out = run("tgather", {"src": src, "dst": zeros(tile, "i32", 1, 8)}, "a5", **options)["dst"]
    assert out.data[0].tolist() == [1, 3, 9, 11, 0, 0, 0, 0]


def test_short_last_block(tile: Make) -> None:
    src = tile("i32", np.arange(32).reshape(2, 16))
    offset = tile("u32", [[4, 0xFFFFFFF0, 96, 0, 0, 0, 0, 0]])

    def out(profile: str) -> Any:
        dst = tile("i32", np.full((1, 24), -1), valid=(1, 18))
        return run("tgatherb", {"src": src, "offset": offset, "dst": dst}, profile)["dst"].data[0]

    assert out("cpu_sim").tolist() == [*range(1, 9), *[-1] * 16]
    assert out("a2a3").tolist() == [*range(1, 9), *[-1] * 8, 24, 25, *[-1] * 6]


def test_scattering_clears_on_hardware(tile: Make) -> None:
    operands = {
        "src": tile("i16", [[1, 2, 3, 4] + [0] * 12], valid=(1, 4)),
        "indexes": tile("i16", [[5, 5, -1, 99] + [0] * 12], valid=(1, 4)),
        "dst": tile("i16", np.full((1, 16), 7)),
    }
    kept = run("tscatter", operands, "cpu_sim")["dst"].data[0]
    cleared = run("tscatter", operands, "a5")["dst"].data[0]
    assert kept.tolist() == [7] * 5 + [2] + [7] * 10
    assert cleared.tolist() == [0] * 5 + [2] + [0] * 10


def test_spreading_reads_padding_on_the_simulator_only(tile: Make) -> None:
    src = tile("i32", np.arange(16).reshape(2, 8), valid=(2, 2))
    options = {"maskPattern": ir.MaskPattern.P0101, "axis": ir.ScatterAxis.SCATTER_ROW}
    operands = {"src": src, "dst": zeros(tile, "i32", 2, 8, valid=(2, 4))}
    assert run("tscatter", operands, "cpu_sim", **options)["dst"].data[1, :4].tolist() == [2, 0, 3, 0]
    assert run("tscatter", operands, "a2a3", **options)["dst"].data[1, :4].tolist() == [8, 0, 9, 0]


# -- quantisation ------------------------------------------------------------------------------------


def test_quantised_specials(tile: Make) -> None:
    src = tile("f32", [[np.nan, np.inf, -np.inf, 2.5, 3.5, 1e9, -0.5, 0]])
    scale = tile("f32", np.ones((8, 1)), valid=(1, 1), blayout=ir.BLayout.COL_MAJOR)
    out = run("tquant", {"src": src, "scale": scale, "dst": zeros(tile, "i8", 1, 32)}, "a2a3")["dst"]
    assert out.data[0, :7].tolist() == [0, 127, -128, 2, 4, 127, 0]
    operands = {"src": src, "scale": scale, "offset": scale, "dst": zeros(tile, "u8", 1, 32)}
    out = run("tquant", operands, "a5", quant_type=ir.QuantType.INT8_ASYM)["dst"]
    assert out.data[0, :7].tolist() == [0, 255, 0, 4, 4, 255, 0]


def test_interleaved_exponents(tile: Make) -> None:
    values = np.ones((64, 32), np.float32)
    values[32:] *= 8
    operands = {
        "src": tile("f32", values),
        "dst": zeros(tile, "i8", 64, 32),
        "exp": zeros(tile, "u8", 1, 64),
        "max": zeros(tile, "f32", 1, 64),
        "scaling": zeros(tile, "f32", 1, 64),
    }
    found = run("tquant_dn", operands, "a5", interleave=True)
    assert found["exp"].data[0, :4].tolist() == [119, 122, 119, 122]
    assert found["max"].data[0, [0, 31, 32]].tolist() == [1, 1, 8]
    assert (found["dst"].data.view(np.uint8) == 0x78).all()


def test_exponents_in_one_row(tile: Make) -> None:
    values = np.ldexp(np.ones((2, 64), np.float32), np.arange(2)[:, None] * 4)
    operands = {
        "src": tile("f32", values),
        "dst": zeros(tile, "i8", 2, 64),
        "exp": tile("u8", np.full((1, 32), 255)),
        "max": zeros(tile, "f32", 1, 8),
        "scaling": zeros(tile, "f32", 1, 8),
    }
    found = run("tquant.mx", operands, "a5", mx_alg=ir.MxQuantAlg.NV_MX_FP8_E4M3)
    assert found["exp"].data[0, :5].tolist() == [119, 119, 123, 123, 255]
    assert found["scaling"].data[0, 2] == 16.0


@pytest.mark.parametrize("profile", ["cpu_sim", "a5"])
def test_only_the_simulator_clears_four_bit_destinations(tile: Make, profile: str) -> None:
    operands = {
        "src": tile("bf16", np.full((2, 64), 6.0), valid=(1, 64)),
        "dst": tile("f4e2m1x2", np.full((2, 64), 5)),
        "exp": zeros(tile, "u8", 2, 32),
        "max": zeros(tile, "f32", 1, 8),
        "scaling": zeros(tile, "f32", 1, 8),
    }
    out = run("tquant.mx", operands, profile, mx_alg=ir.MxQuantAlg.OCP_MX_FP4_E2M1)["dst"].data
    assert out[0].tolist() == [7] * 64
    assert out[1].tolist() == [0 if profile == "cpu_sim" else 5] * 64


def test_the_vector_type_follows_from_the_declaration() -> None:
    assert isa.instructions()["tmrgsort"].operand("executed").vector == ir.VectorType((4,), ir.dtype("i16"))


def test_sources_are_read_before_any_result_is_written() -> None:
    """The tiles of values and of indices change places."""
    t = ir.TileType(ir.dtype("i32"), 1, 8)
    listed = [", ".join(["!pto.tile<1x8xi32>"] * n) for n in (4, 2)]
    program = parse(f"pto.tpartargmin ins(%v, %v, %i, %i : {listed[0]}) outs(%i, %v : {listed[1]})")
    values, indices = np.arange(8, dtype=np.int32)[None], np.full((1, 8), 50, np.int32)
    found = oracle.run(program, {"v": OracleTile(t, values), "i": OracleTile(t, indices)}, profile="cpu_sim")
    assert np.array_equal(found["i"].data, values) and np.array_equal(found["v"].data, indices)
