"""Whole programs on the reference machine: memory, addresses, views, scalars, arguments."""

from typing import Any

import numpy as np
import pytest

from pto_jax import ir, oracle
from pto_jax.errors import ArgumentError, ExecutionError
from pto_jax.oracle.scalars import compute


class Builder:
    """Collects operations of one function."""

    def __init__(self, *args: ir.Value) -> None:
        self.args = args
        self.ops: list[ir.Op] = []

    def constant(self, n: int) -> ir.Value:
        value = ir.Value(f"c{len(self.ops)}", ir.ScalarType(ir.INDEX))
        self.ops.append(ir.Op("arith.constant", results=(value,), attributes=ir.attrs(value=n)))
        return value

    def view(
        self, pointer: ir.Value, shape: list[int], strides: list[int] | None = None, **fields: Any
    ) -> ir.Value:
        assert isinstance(pointer.type, ir.PtrType)
        steps = strides or [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
        sizes, pitches = [self.constant(n) for n in shape], [self.constant(n) for n in steps]
        value = ir.Value(f"v{len(self.ops)}", ir.TensorViewType(tuple(shape), pointer.type.dtype))
        groups = (("ptr", 1), ("shape", len(shape)), ("strides", len(shape)))
        ins = (pointer, *sizes, *pitches)
        self.ops.append(
            ir.Op("make_tensor_view", ins, results=(value,), groups=groups, attributes=ir.attrs(fields))
        )
        return value

    def window(self, view: ir.Value, offsets: list[int], sizes: list[int]) -> ir.Value:
        assert isinstance(view.type, ir.TensorViewType)
        at, by = [self.constant(n) for n in offsets], [self.constant(n) for n in sizes]
        value = ir.Value(f"w{len(self.ops)}", ir.PartitionViewType(tuple(sizes), view.type.dtype))
        groups = (("view", 1), ("offsets", len(at)), ("sizes", len(by)))
        self.ops.append(ir.Op("partition_view", (view, *at, *by), results=(value,), groups=groups))
        return value

    def alloc(self, t: ir.TileType, address: int | None = None) -> ir.Value:
        ins = () if address is None else (self.constant(address),)
        value = ir.Value(f"t{len(self.ops)}", t)
        self.ops.append(ir.Op("alloc_tile", ins, results=(value,), groups=(("addr", len(ins)),)))
        return value

    def do(self, name: str, ins: tuple[ir.Value, ...], out: ir.Value, **attributes: Any) -> None:
        self.ops.append(ir.Op(name, ins, (out,), attributes=ir.attrs(attributes), form="dps"))

    def program(self, **attributes: Any) -> ir.Program:
        function = ir.Function("kernel", self.args, ir.Region((*self.ops, ir.Op("return"))))
        return ir.Program((function,), attributes=ir.attrs(attributes))


def _pointer(name: str, d: ir.DType) -> ir.Value:
    return ir.Value(name, ir.PtrType(d))


def _copy(
    src: ir.DType, dst: ir.DType, first: ir.TileType, second: ir.TileType, address: int | None
) -> ir.Program:
    """Loads through one tile and stores through another at the same address."""
    x, y = _pointer("x", src), _pointer("y", dst)
    b = Builder(x, y)
    b.do("tload", (b.view(x, list(first.shape)),), b.alloc(first, address))
    b.do("tstore", (b.alloc(second, address),), b.view(y, list(second.shape)))
    return b.program()


def test_tiles_at_one_address_share_bytes() -> None:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    y = np.zeros((8, 16), np.uint16)
    program = _copy(ir.F32, ir.U16, ir.TileType(ir.F32, 8, 8), ir.TileType(ir.U16, 8, 16), 64)
    out = oracle.run(program, {"x": x, "y": y})
    assert list(out) == ["y"]
    np.testing.assert_array_equal(out["y"], x.view(np.uint16))
    assert not y.any()


def test_column_of_one_row() -> None:
    column = ir.TileType(ir.F32, 16, 1, blayout=ir.BLayout.COL_MAJOR)
    x = np.arange(16, dtype=np.float32)
    out = oracle.run(
        _copy(ir.F32, ir.F32, column, ir.TileType(ir.F32, 1, 16), 0), [x, np.zeros(16, np.float32)]
    )
    np.testing.assert_array_equal(out["y"], x)


def test_partial_overlap() -> None:
    x, y = _pointer("x", ir.U32), _pointer("y", ir.U32)
    b = Builder(x, y)
    b.do("tload", (b.view(x, [1, 16]),), b.alloc(ir.TileType(ir.U32, 1, 16), 0))
    b.do("tload", (b.view(x, [1, 8]),), b.alloc(ir.TileType(ir.U32, 1, 8), 32))
    b.do("tstore", (b.alloc(ir.TileType(ir.U32, 1, 16), 0),), b.view(y, [1, 16]))
    x_data = np.arange(16, dtype=np.uint32)
    out = oracle.run(b.program(), [x_data, np.zeros(16, np.uint32)])["y"]
    np.testing.assert_array_equal(out, [*range(8), *range(8)])


@pytest.mark.parametrize(("profile", "byte"), [("cpu_sim", 0x00), ("a2a3", 0xFF), ("a5", 0xFF)])
def test_fresh_tiles(profile: str, byte: int) -> None:
    y = _pointer("y", ir.U8)
    for address in (None, 96):
        b = Builder(y)
        b.do("tstore", (b.alloc(ir.TileType(ir.U8, 1, 32), address),), b.view(y, [1, 32]))
        out = oracle.run(b.program(), [np.zeros(32, np.uint8) + 7], profile=profile)["y"]
        assert (out == byte).all()


def test_profile_comes_from_the_program() -> None:
    y = _pointer("y", ir.U8)
    b = Builder(y)
    b.do("tstore", (b.alloc(ir.TileType(ir.U8, 1, 32)),), b.view(y, [1, 32]))
    zeros = np.zeros(32, np.uint8)
    assert oracle.run(b.program(), [zeros])["y"][0] == 0xFF
    assert oracle.run(b.program(**{"pto.target_arch": "cpu_sim"}), [zeros])["y"][0] == 0


def test_address_past_the_capacity() -> None:
    y = _pointer("y", ir.U8)
    b = Builder(y)
    b.do("tstore", (b.alloc(ir.TileType(ir.U8, 1, 32), 192 * 1024),), b.view(y, [1, 32]))
    with pytest.raises(ExecutionError, match="has 196608 bytes"):
        oracle.run(b.program(), [np.zeros(32, np.uint8)])
    assert oracle.run(b.program(), [np.zeros(32, np.uint8)], profile="a5")


def test_windows_and_strides() -> None:
    x, y = _pointer("x", ir.F16), _pointer("y", ir.F16)
    b = Builder(x, y)
    tile = b.alloc(ir.TileType(ir.F16, 4, 16, 3, 5))
    b.do("tload", (b.window(b.view(x, [8, 20]), [2, 7], [3, 5]),), tile)
    b.do("tstore", (tile,), b.window(b.view(y, [8, 20]), [1, 1], [3, 5]))
    x_data = np.arange(160, dtype=np.float16).reshape(8, 20)
    out = oracle.run(b.program(), {"y": np.zeros((8, 20), np.float16), "x": x_data})["y"]
    expected = np.zeros((8, 20), np.float16)
    expected[1:4, 1:6] = x_data[2:5, 7:12]
    np.testing.assert_array_equal(out, expected)


def test_dn_view_runs_along_columns() -> None:
    x, y = _pointer("x", ir.F32), _pointer("y", ir.F32)
    b = Builder(x, y)
    tile = b.alloc(ir.TileType(ir.F32, 8, 4, blayout=ir.BLayout.COL_MAJOR))
    b.do("tload", (b.view(x, [2, 8, 2], [16, 1, 8], layout=ir.GlobalLayout.DN),), tile)
    b.do("tstore", (tile,), b.view(y, [8, 4]))
    x_data = np.arange(32, dtype=np.float32)
    out = oracle.run(b.program(), [x_data, np.zeros((8, 4), np.float32)])["y"]
    np.testing.assert_array_equal(out, x_data.reshape(4, 8).T)


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("cpu_sim", [1, 2, 3] + [127] * 61),
        ("a2a3", [1, 2, 3] + [127] * 29 + [-1] * 32),
        ("a5", [1, 2, 3] + [127] * 29 + [-1] * 32),
    ],
)
def test_padding(profile: str, expected: list[int]) -> None:
    x, y = _pointer("x", ir.I8), _pointer("y", ir.I8)
    b = Builder(x, y)
    b.do("tload", (b.view(x, [1, 3]),), b.alloc(ir.TileType(ir.I8, 1, 64, 1, 3, pad=ir.Pad.MAX), 0))
    b.do("tstore", (b.alloc(ir.TileType(ir.I8, 1, 64), 0),), b.view(y, [1, 64]))
    out = oracle.run(b.program(), [np.array([1, 2, 3], np.int8), np.zeros(64, np.int8)], profile=profile)["y"]
    assert out.tolist() == expected


def test_four_bit_elements_are_packed_in_memory() -> None:
    codes = np.arange(64, dtype=np.uint8) % 16
    program = _copy(ir.F4E2M1, ir.U8, ir.TileType(ir.F4E2M1, 1, 64), ir.TileType(ir.U8, 1, 32), 0)
    out = oracle.run(program, [codes, np.zeros(32, np.uint8)], profile="a5")["y"]
    np.testing.assert_array_equal(out, codes[0::2] | codes[1::2] << 4)


def test_padded_rows() -> None:
    t = ir.TileType(ir.F32, 2, 8, compact=ir.Compact.ROW_PLUS_ONE)
    x = np.arange(16, dtype=np.float32)
    out = oracle.run(
        _copy(ir.F32, ir.F32, t, ir.TileType(ir.F32, 1, 16), 0),
        [x, np.zeros(16, np.float32)],
        profile="cpu_sim",
    )
    np.testing.assert_array_equal(out["y"], [*range(8), 0, *range(8, 15)])


def test_transfer_outside_the_buffer() -> None:
    program = _copy(ir.F32, ir.F32, ir.TileType(ir.F32, 2, 8), ir.TileType(ir.F32, 2, 8), 0)
    with pytest.raises(ExecutionError, match="got elements 0 to 15 of x; allowed: the buffer of 15"):
        oracle.run(program, [np.zeros(15, np.float32), np.zeros(16, np.float32)])


def test_arguments_are_checked() -> None:
    program = _copy(ir.F32, ir.F32, ir.TileType(ir.F32, 2, 8), ir.TileType(ir.F32, 2, 8), 0)
    ok = np.zeros(16, np.float32)
    with pytest.raises(ArgumentError, match=r"got x; allowed: \(x, y\)"):
        oracle.run(program, {"x": ok})
    with pytest.raises(ArgumentError, match="argument x: got an array of float64; allowed: f32"):
        oracle.run(program, [ok.astype(np.float64), ok])
    with pytest.raises(ArgumentError, match="entry: got 'main'"):
        oracle.run(program, [ok, ok], entry="main")
    with pytest.raises(ArgumentError, match="subnormals"):
        oracle.run(program, [ok, ok], subnormals="drop")  # type: ignore[arg-type]


def test_raw_words_stand_for_values() -> None:
    program = _copy(ir.BF16, ir.BF16, ir.TileType(ir.BF16, 1, 16), ir.TileType(ir.BF16, 1, 16), 0)
    words = np.arange(16, dtype=np.uint16)
    out = oracle.run(program, [words, np.zeros(16, np.uint16)])["y"]
    assert out.dtype == np.uint16
    np.testing.assert_array_equal(out, words)


@pytest.mark.parametrize(
    ("name", "args", "source", "result", "expected"),
    [
        ("arith.addi", (127, 1), ir.I8, ir.I8, -128),
        ("arith.divsi", (-7, 2), ir.I32, ir.I32, -3),
        ("arith.remsi", (-7, 2), ir.I32, ir.I32, -1),
        ("arith.divsi", (5, 0), ir.I32, ir.I32, -1),
        ("arith.remui", (5, 0), ir.I32, ir.I32, 5),
        ("arith.ceildivsi", (7, 2), ir.INDEX, ir.INDEX, 4),
        ("arith.floordivsi", (-7, 2), ir.INDEX, ir.INDEX, -4),
        ("arith.divui", (-1, 2), ir.I8, ir.I8, 127),
        ("arith.shli", (1, 33), ir.I32, ir.I32, 2),
        ("arith.shrui", (-1, 28), ir.I32, ir.I32, 15),
        ("arith.cmpi.ult", (-1, 1), ir.I32, ir.I1, False),
        ("arith.cmpi.slt", (-1, 1), ir.I32, ir.I1, True),
        ("arith.cmpf.olt", (float("nan"), 1.0), ir.F32, ir.I1, False),
        ("arith.cmpf.une", (float("nan"), 1.0), ir.F32, ir.I1, True),
        ("arith.addf", (2048.0, 1.0), ir.F16, ir.F16, 2048.0),
        ("arith.truncf", (1.0 + 2**-9,), ir.F32, ir.BF16, 1.0),
        ("arith.sitofp", (-3,), ir.I32, ir.F32, -3.0),
        ("arith.sitofp", ((1 << 60) + (1 << 36) + 1,), ir.I64, ir.F32, float((1 << 60) + (1 << 37))),
        ("arith.fptosi", (-3.9,), ir.F32, ir.I32, -3),
        ("arith.fptosi", (1e30,), ir.F32, ir.I64, 2**63 - 1),
        ("arith.bitcast", (1.0,), ir.F32, ir.I32, 0x3F800000),
        ("arith.select", (True, 3, 4), ir.I32, ir.I32, 3),
        ("arith.extui", (-1,), ir.I8, ir.I32, 255),
        ("arith.maxnumf", (float("nan"), 1.0), ir.F32, ir.F32, 1.0),
        ("arith.minimumf", (0.0, -0.0), ir.F32, ir.F32, -0.0),
    ],
)
def test_scalar_arithmetic(name: str, args: Any, source: ir.DType, result: ir.DType, expected: Any) -> None:
    found = compute(name, args, source, result)
    assert found == expected and np.signbit(found) == np.signbit(expected)


def test_unknown_scalar_operation() -> None:
    with pytest.raises(ArgumentError, match=r"arith\.frob is not executed"):
        compute("arith.frob", (1,), ir.I32, ir.I32)
