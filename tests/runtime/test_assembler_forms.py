"""Forms that the assembler of August 2026 accepts: jitted, operation by operation, on the interpreter."""

from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def everywhere(text: str, arrays: dict[str, Any], profile: str = "a5") -> Array:
    """What ``%d`` of a fragment is, the same three times."""
    program = pto.parse(text)
    assert [d for d in pto.verify(program, profile) if d.severity == "error"] == []
    types = {v.name: v.type for op in program.walk() for v in (*op.ins, *op.outs) if v.name in arrays}
    kernel = pto.compile(program, profile=profile, warn=False)
    given = {
        n: oracle.OracleTile(t, arrays[n]) if isinstance(t, pto.TileType) else arrays[n]
        for n, t in types.items()
    }
    found = [kernel(**arrays)["d"].array, kernel.eager(**arrays)["d"].array]
    found.append(oracle.run(program, given, profile=profile)["d"].data)
    first, *others = (np.asarray(x).view(np.asarray(arrays["d"]).dtype) for x in found)
    for other in others:
        np.testing.assert_array_equal(first, other)
    return np.asarray(first)


def launched(text: str, **buffers: Array) -> dict[str, Array]:
    """What a program leaves in its buffers, the same three times."""
    program = pto.parse(text)
    kernel = pto.compile(program, warn=False)
    runs = [kernel(**buffers), kernel.eager(**buffers), oracle.run(program, buffers)]
    first, *others = ({k: np.asarray(v) for k, v in r.items()} for r in runs)
    for other in others:
        for name, array in first.items():
            np.testing.assert_array_equal(other[name], array)
    return first


@pytest.mark.variants(3)
@pytest.mark.parametrize("op", ["tcmp", "tcmps"])
@pytest.mark.parametrize(("d", "cols", "written"), [("f32", 40, 16), ("f16", 16, 16), ("i8", 32, 32)])
def test_a5_comparisons_write_whole_predicates(op: str, d: str, cols: int, written: int) -> None:
    kind = pto.dtype(d).numpy
    a = np.arange(2 * 64, dtype=np.float32).reshape(2, 64).astype(kind) % kind.type(7)
    tile, mask = f"!pto.tile_buf<vec, 2x64x{d}, valid=2x{cols}>", "!pto.tile_buf<vec, 2x64xi8>"
    second, types = ("%b", tile) if op == "tcmp" else ("%s", d)
    text = f"pto.{op} ins(%a, {second} {{cmpMode = #pto<cmp lt>}} : {tile}, {types}) outs(%d : {mask})"
    b = np.full_like(a, 3) if op == "tcmp" else kind.type(3)
    arrays = {"a": a, second[1:]: b, "d": np.full((2, 64), -1, np.int8)}
    found = everywhere(text, arrays)
    bits = np.zeros((2, 8 * written), bool)
    bits[:, :cols] = a[:, :cols] < 3
    np.testing.assert_array_equal(
        found[:, :written].view(np.uint8), np.packbits(bits, axis=1, bitorder="little")
    )
    assert (found[:, written:] == -1).all()


@pytest.mark.parametrize(("count", "factor"), [(3, 8), (35, 8)])
def test_counts_of_shifts_have_a_type_of_their_own(count: int, factor: int) -> None:
    tile = "!pto.tile_buf<vec, 2x8xi32>"
    a = np.arange(16, dtype=np.int32).reshape(2, 8)
    text = f"pto.tshls ins(%a, %s : {tile}, i16) outs(%d : {tile})"
    found = everywhere(text, {"a": a, "s": np.int16(count), "d": np.zeros((2, 8), np.int32)})
    np.testing.assert_array_equal(found, a * factor)


@pytest.mark.slow
def test_a_slope_is_rounded_to_the_type_of_the_tile() -> None:
    tile = "!pto.tile_buf<vec, 1x16xf16>"
    slope = np.float32(0.1)
    a = -np.arange(16, dtype=np.float16).reshape(1, 16)
    text = f"pto.tlrelu ins(%a, %s : {tile}, f32) outs(%d : {tile})"
    found = everywhere(text, {"a": a, "s": slope, "d": np.zeros((1, 16), np.float16)})
    expected = (a.astype(np.float32) * np.float32(np.float16(slope))).astype(np.float16)
    np.testing.assert_array_equal(found, expected)


def test_a_scalar_of_another_kind_is_an_error() -> None:
    tile = "!pto.tile_buf<vec, 2x8xi32>"
    program = pto.parse(f"pto.tshls ins(%a, %s : {tile}, f32) outs(%d : {tile})")
    (found,) = [d for d in pto.verify(program, "a5") if d.severity == "error"]
    assert "operand scalar: scalar has type f32" in str(found) and "scalar scalar" not in found.message


def test_tfillpad_fills_a_larger_tile() -> None:
    src, dst = "!pto.tile_buf<vec, 3x16xi16, valid=3x5>", "!pto.tile_buf<vec, 4x32xi16, pad=2>"
    a = np.arange(48, dtype=np.int16).reshape(3, 16)
    text = f"pto.tfillpad ins(%a : {src}) outs(%d : {dst})"
    found = everywhere(text, {"a": a, "d": np.zeros((4, 32), np.int16)})
    expected = np.full((4, 32), 32767, np.int16)
    expected[:3, :5] = a[:, :5]
    np.testing.assert_array_equal(found, expected)
    smaller = pto.parse(f"pto.tfillpad ins(%a : {dst}) outs(%d : {src})")
    assert any("at least 4x32, the size of src" in d.message for d in pto.verify(smaller, "a5"))


@pytest.mark.parametrize(
    ("op", "d"),
    [("tpartmax", "f32"), ("tpartmin", "f16"), ("tpartmax", "i16"), ("tpartmin", "i64"), ("tpartmin", "u64")],
)
def test_partial_extremes_of_lanes_that_neither_source_has(op: str, d: str) -> None:
    """On a5 they hold the finite number that never wins; on a2a3 one source has every lane."""
    kind = pto.dtype(d).numpy
    rng = np.random.default_rng(3)
    a, b = ((rng.standard_normal((4, 32)) * 50).astype(kind) for _ in range(2))
    types = [f"!pto.tile_buf<vec, 4x32x{d}, valid={v}>" for v in ("2x32", "4x16")]
    whole = f"!pto.tile_buf<vec, 4x32x{d}>"
    text = f"pto.{op} ins(%a, %b : {', '.join(types)}) outs(%d : {whole})"
    found = everywhere(text, {"a": a, "b": b, "d": np.ones((4, 32), kind)})
    about: Any = np.finfo if kind.kind == "f" else np.iinfo
    lowest, largest = about(kind).min, about(kind).max
    expected = np.full((4, 32), lowest if op == "tpartmax" else largest, kind)
    expected[:2] = a[:2]
    expected[2:, :16] = b[2:, :16]
    expected[:2, :16] = (np.maximum if op == "tpartmax" else np.minimum)(a, b)[:2, :16]
    np.testing.assert_array_equal(found, expected)
    assert any("one equal to the 4x32 of dst" in e.message for e in pto.verify(pto.parse(text), "a2a3"))


@pytest.mark.parametrize(
    ("profile", "mask", "expected"),
    [
        ("a2a3", "1x32xu8", [255, 1, 170]),
        ("a5", "1x32xu8, valid=1x2", [255, 1, 170]),
        ("a5", "1x8xu32, valid=1x1", [255, 1, 0, 0, 170]),
        ("a5", "1x32xu8", [255, 1, *[0] * 14, 170]),
    ],
)
def test_the_last_mask_element_of_a_row_has_zeros_behind_its_bits(
    profile: str, mask: str, expected: list[int]
) -> None:
    tile = "!pto.tile_buf<vec, 1x64xf32, valid=1x9>"
    text = f"pto.tcmp ins(%a, %a : {tile}, {tile}) outs(%d : !pto.tile_buf<vec, {mask}>)"
    before = np.full(32, 170, np.uint8).view(pto.dtype(mask.split("x")[2].split(",")[0]).numpy)
    found = everywhere(text, {"a": np.zeros((1, 64), np.float32), "d": before.reshape(1, -1)}, profile)
    assert found.view(np.uint8)[0, : len(expected)].tolist() == expected


def test_hif8_keeps_infinities() -> None:
    src, dst = "!pto.tile_buf<vec, 1x32xf32>", "!pto.tile_buf<vec, 1x32x!pto.hif8>"
    a = np.zeros((1, 32), np.float32)
    a[0, :4] = [np.inf, -np.inf, 1e30, np.nan]
    text = f"pto.tcvt ins(%a : {src}) outs(%d : {dst})"
    found = everywhere(text, {"a": a, "d": np.ones((1, 32), np.uint8)})
    assert found[0, :5].tolist() == [0x6F, 0xEF, 0x6F, 0x80, 0]


@pytest.mark.slow
def test_what_is_behind_the_last_group_of_blocks_stays() -> None:
    tile = "!pto.tile_buf<vec, 1x320xf32>"
    records = np.zeros((1, 320), np.float32)
    records[0, ::2] = np.random.default_rng(4).permutation(160)
    blocks = records.reshape(5, 32, 2)
    records = np.concatenate([x[np.argsort(-x[:, 0])] for x in blocks]).reshape(1, 320)
    text = f"pto.tmrgsort ins(%a, %n : {tile}, i32) outs(%d : {tile})"
    old = np.full((1, 320), 7, np.float32)
    found = everywhere(text, {"a": records, "n": np.int32(64), "d": old})
    values = records[0, :256:2]
    np.testing.assert_array_equal(found[0, :256:2], np.sort(values)[::-1])
    assert (found[0, 256:] == 7).all()


WINDOWS = """
module attributes {{pto.target_arch = "{arch}"}} {{
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {{pto.entry}} {{
    %c0 = arith.constant 0 : index
    {constants}
    %a = pto.make_tensor_view %x, shape = [{shape}], strides = [{strides}] : !pto.tensor_view<{view}xf32>
    %b = pto.make_tensor_view %y, shape = [{out}], strides = [{outs}] : !pto.tensor_view<{outv}xf32>
    %p = pto.partition_view %a, offsets = [{zeros}], sizes = [{shape}]
      : !pto.tensor_view<{view}xf32> -> !pto.partition_tensor_view<{view}xf32>
    %q = pto.partition_view %b, offsets = [{outz}], sizes = [{out}]
      : !pto.tensor_view<{outv}xf32> -> !pto.partition_tensor_view<{outv}xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, {tile}>
    pto.tload ins(%p : !pto.partition_tensor_view<{view}xf32>) outs(%t : !pto.tile_buf<vec, {tile}>)
    pto.tstore ins(%t : !pto.tile_buf<vec, {tile}>) outs(%q : !pto.partition_tensor_view<{outv}xf32>)
    return
  }}
}}
"""


def windows(
    arch: str, shape: tuple[int, ...], strides: tuple[int, ...], out: tuple[int, ...], tile: str
) -> str:
    """A kernel that loads a whole view into a tile and stores its valid region."""
    outs = tuple(int(np.prod(out[i + 1 :])) for i in range(len(out)))
    numbers = sorted({*shape, *strides, *out, *outs} - {0})

    def names(values: Ints) -> str:
        return ", ".join(f"%c{n}" for n in values)

    return WINDOWS.format(
        arch=arch,
        constants="\n    ".join(f"%c{n} = arith.constant {n} : index" for n in numbers),
        shape=names(shape),
        strides=names(strides),
        view="x".join(map(str, shape)),
        zeros=names((0,) * len(shape)),
        out=names(out),
        outs=names(outs),
        outv="x".join(map(str, out)),
        outz=names((0,) * len(out)),
        tile=tile,
    )


@pytest.mark.variants(2)
@pytest.mark.parametrize("arch", ["a3", "a5"])
@pytest.mark.parametrize("rank", [2, 5])
def test_the_first_rows_and_columns_of_a_larger_window_are_loaded(arch: str, rank: int) -> None:
    lead = (1,) * (rank - 2)
    text = windows(arch, (*lead, 6, 16), (*(96,) * (rank - 2), 16, 1), (4, 5), "8x8xf32, valid=4x5")
    x = np.arange(96, dtype=np.float32)
    found = launched(text, x=x, y=np.zeros(20, np.float32))["y"]
    np.testing.assert_array_equal(found.reshape(4, 5), x.reshape(6, 16)[:4, :5])
    small = windows(arch, (3, 16), (16, 1), (4, 5), "8x8xf32, valid=4x5")
    assert any("at least the valid rows" in d.message for d in pto.verify(pto.parse(small)))


def test_a_view_without_a_layout_has_the_fractals_of_a_vec_tile_on_a5() -> None:
    tile = "16x32xf32, blayout=col_major, slayout=row_major"
    shape, strides = (4, 1, 16, 1, 8), (128, 128, 8, 8, 1)
    text = windows("a5", shape, strides, shape, tile)
    x = np.arange(512, dtype=np.float32)
    np.testing.assert_array_equal(launched(text, x=x, y=np.zeros(512, np.float32))["y"], x)


def test_a_product_takes_the_valid_part_of_a_wider_factor() -> None:
    left = "!pto.tile_buf<left, 16x32xf32, valid=16x16, blayout=col_major, slayout=row_major>"
    right = "!pto.tile_buf<right, 16x32xf32, valid=16x16, slayout=col_major>"
    acc = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, (16, 32)).astype(np.float32) for _ in range(2))
    arrays = {"a": a, "b": b, "d": np.zeros((16, 16), np.float32)}
    found = everywhere(f"pto.tmatmul ins(%a, %b : {left}, {right}) outs(%d : {acc})", arrays)
    np.testing.assert_array_equal(found, a[:, :16] @ b[:, :16])
    other = right.replace("valid=16x16", "valid=16x8")
    program = pto.parse(f"pto.tmatmul ins(%a, %b : {left}, {other}) outs(%d : {acc})")
    assert "shapes" in [d.rule for d in pto.verify(program, "a5")]


def test_a_transposition_takes_the_valid_rows_and_columns_of_its_source() -> None:
    tile, whole = "!pto.tile_buf<vec, 8x8xf32, valid=2x8>", "!pto.tile_buf<vec, 8x8xf32>"
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    text = f"pto.ttrans ins(%a, %t : {tile}, {whole}) outs(%d : {tile})"
    found = everywhere(text, {"a": x, "t": 0 * x, "d": -x})
    expected = -x
    expected[:, :2] = x[:2].T
    np.testing.assert_array_equal(found, expected)
    assert [d.severity for d in pto.verify(pto.parse(text), "a5") if d.rule == "valid-mirrored"] == [
        "warning"
    ]


def test_an_accumulator_is_inserted_with_parameters_into_rows_of_vec() -> None:
    acc = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
    words, rows = "!pto.tile_buf<scaling, 1x16xui64>", "!pto.tile_buf<vec, 32x32xi8>"
    half = int(np.float32(0.5).view(np.uint32))
    x = np.arange(256, dtype=np.float32).reshape(16, 16) - 100
    text = f"""%c16 = arith.constant 16 : index
    pto.tinsert ins(%a, %c16, %c16 : {acc}, index, index fp %f : {words}) outs(%d : {rows})"""
    given = {"a": x, "f": np.full((1, 16), half | 1 << 46, np.uint64), "d": np.zeros((32, 32), np.int8)}
    found = everywhere(text, given)
    assert not found[:16].any() and not found[:, :16].any()
    np.testing.assert_array_equal(found[16:, 16:], np.clip(np.round(x / 2), -128, 127))


@pytest.mark.variants(0)
@pytest.mark.parametrize("arch", ["a3", "a5"])
@pytest.mark.parametrize("pick", ["row", "elem"])
def test_a_table_is_gathered_into_mat_by_indexes_in_global_memory(arch: str, pick: str) -> None:
    mat = "!pto.tile_buf<mat, 32x16xf16, blayout=col_major, slayout=row_major>"
    acc = "!pto.tile_buf<acc, 32x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
    order = "col_major" if arch == "a5" else "row_major"
    left = f"!pto.tile_buf<left, 32x16xf16, blayout={order}, slayout=row_major>"
    right = "!pto.tile_buf<right, 16x16xf16, slayout=col_major>"
    unit = "!pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>"
    shapes = {"x": "64x16xf16", "i": "1x32xi32" if pick == "row" else "32x16xi32", "w": "32x16xf16"}
    shapes |= {"e": "16x16xf16", "y": "32x16xf32"}
    views, windows = "", {}
    for name, shape in shapes.items():
        rows, cols, _ = shape.split("x")
        windows[name] = f"!pto.partition_tensor_view<{shape}>"
        views += f"""
        %{name}v = pto.make_tensor_view %{name}, shape = [%c{rows}, %c{cols}], strides = [%c{cols}, %c1]
          : !pto.tensor_view<{shape}>
        %{name}w = pto.partition_view %{name}v, offsets = [%c0, %c0], sizes = [%c{rows}, %c{cols}]
          : !pto.tensor_view<{shape}> -> {windows[name]}"""
    given = "xi" if pick == "row" else "xiw"
    types = ", ".join(windows[n] for n in given)
    arguments = ", ".join(f"%{n}: !pto.ptr<{s.split('x')[2]}>" for n, s in shapes.items())
    text = f"""module attributes {{pto.target_arch = "{arch}"}} {{
    func.func @k({arguments}) attributes {{pto.entry, pto.kernel_kind = #pto.kernel_kind<cube>}} {{
      {"".join(f"%c{n} = arith.constant {n} : index" + chr(10) for n in (0, 1, 16, 32, 64))}{views}
      %m = pto.alloc_tile : {mat}
      %u = pto.alloc_tile : {unit}
      %l = pto.alloc_tile : {left}
      %r = pto.alloc_tile : {right}
      %a = pto.alloc_tile : {acc}
      pto.mgather ins({", ".join(f"%{n}w" for n in given)} : {types}) outs(%m : {mat})
        {{coalesce = #pto<coalesce {pick}>}}
      pto.tload ins(%ew : {windows["e"]}) outs(%u : {unit})
      pto.tmov ins(%m : {mat}) outs(%l : {left})
      pto.tmov ins(%u : {unit}) outs(%r : {right})
      pto.tmatmul ins(%l, %r : {left}, {right}) outs(%a : {acc})
      pto.tstore ins(%a : {acc}) outs(%yw : {windows["y"]})
      return }} }}"""
    assert [d for d in pto.verify(pto.parse(text)) if d.severity == "error"] == []
    rng = np.random.default_rng(5)
    x = rng.integers(-9, 10, (64, 16)).astype(np.float16)
    i = rng.integers(0, 64 if pick == "row" else 1024, (1, 32) if pick == "row" else (32, 16)).astype(
        np.int32
    )
    y, w = np.zeros((32, 16), np.float32), np.zeros((32, 16), np.float16)
    out = launched(text, x=x, i=i, w=w, e=np.eye(16, dtype=np.float16), y=y)
    expected = x[i[0]] if pick == "row" else x.reshape(-1)[i]
    assert list(out) == ["y"]
    np.testing.assert_array_equal(out["y"], expected)
    wrong = text.replace(f"coalesce {pick}", "coalesce " + ("elem" if pick == "row" else "row"))
    assert "index-view" in [d.rule for d in pto.verify(pto.parse(wrong))]


@pytest.mark.variants(1)
@pytest.mark.parametrize(("rule", "scale"), [("ocp", 2.0**-8), ("nv", 2.0**-7)])
def test_block_scaled_quantisation_follows_the_attributes_of_the_text(rule: str, scale: float) -> None:
    """A largest element of 1.875 * 2^0: its exponent, or the one that keeps it within 448."""
    src, dst, exp = (f"!pto.tile_buf<vec, {t}>" for t in ("64x32xf32", "64x32xui8", "2x32xui8"))
    aux = "!pto.tile_buf<vec, 2x32xf32>"
    x = np.full((64, 32), 0.5, np.float32)
    x[5::32] = 1.875
    text = f"""pto.tquant.mx ins(%x : {src}) outs(%c, %d, %m, %f : {dst}, {exp}, {aux}, {aux})
      {{quant_type = #pto<quant_type MXFP8>, quantScaleAlg = #pto<quant_scale_alg {rule}>,
        grpAxis = #pto<mx_group_axis axis0>}}"""
    given = {"c": np.zeros((64, 32), np.uint8), "d": np.zeros((2, 32), np.uint8)}
    given |= {n: np.zeros((2, 32), np.float32) for n in "mf"}
    exponents = everywhere(text, {"x": x, **given})
    np.testing.assert_array_equal(exponents, 127 + np.log2(scale))
    read = pto.parse(text)
    assert pto.parse(str(read)) == read and "axis0" in str(read)
