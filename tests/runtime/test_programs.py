"""What a program does besides computing tiles: sections, calls, scalars, handles, addresses."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

Source = Callable[..., Any]
Agree = Callable[..., dict[str, Any]]
X = np.arange(1, 65, dtype=np.float32)
TILE = (
    "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=8, v_row=8, v_col=8, blayout=row_major, "
    "slayout=none_box, fractal=512, pad=0>"
)
WINDOW = "!pto.partition_tensor_view<8x8xf32>"


def copying(source: Source, args: str = "", before: str = "") -> Any:
    """%x and %z seen as 8x8 windows %a and %b."""
    s = source(f"%x: !pto.ptr<f32>, %z: !pto.ptr<f32>{args}", before=before)
    return s.view("%a", "%x", (8, 8), (8, 1)).view("%b", "%z", (8, 8), (8, 1))


def test_sections_execute_in_order(source: Source, agree: Agree) -> None:
    s = copying(source).do("pto.section.vector {").tile("%t", "f32", 8, 8).load("%a", "%t")
    s.op("tneg", "%t", out="%t").store("%t", "%b").do("}").do("pto.section.vector {")
    s.tile("%u", "f32", 8, 8).load("%b", "%u").op("tadd", "%u", "%u", out="%u").store("%u", "%b").do("}")
    assert (agree(s.program, X, 0 * X)["z"] == -2 * X).all()


DOUBLE = f"""
  func.func private @double(%p: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %v = pto.make_tensor_view %p, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
    %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c8]
      : !pto.tensor_view<?x?xf32> -> {WINDOW}
    %t = pto.alloc_tile : {TILE}
    pto.tload ins(%w : {WINDOW}) outs(%t : {TILE})
    pto.tadd ins(%t, %t : {TILE}, {TILE}) outs(%t : {TILE})
    pto.tstore ins(%t : {TILE}) outs(%w : {WINDOW})
    return
  }}
  func.func private @store(%t: {TILE}, %w: {WINDOW}) {{
    pto.tstore ins(%t : {TILE}) outs(%w : {WINDOW})
    return
  }}
  func.func private @negate(%t: {TILE}) -> index {{
    pto.tneg ins(%t : {TILE}) outs(%t : {TILE})
    %n = arith.constant 3 : index
    return %n : index
  }}
  func.func private @forward(%p: !pto.ptr<f32>, %n: index) -> !pto.ptr<f32> {{
    %q = pto.addptr %p, %n : <f32> -> <f32>
    return %q : !pto.ptr<f32>
  }}
"""


def test_a_called_function_has_tiles_of_its_own(source: Source, agree: Agree) -> None:
    s = copying(source, before=DOUBLE).tile("%t", "f32", 8, 8).load("%a", "%t")
    s.do("func.call @double(%x) : (!pto.ptr<f32>) -> ()").do("func.call @double(%x) : (!pto.ptr<f32>) -> ()")
    out = agree(s.store("%t", "%b").program, X, 0 * X)
    assert (out["x"] == 4 * X).all() and (out["z"] == X).all()


def test_calls_pass_tiles_and_views(source: Source, agree: Agree) -> None:
    s = copying(source, before=DOUBLE).tile("%t", "f32", 8, 8).load("%a", "%t")
    s.do(f"%n = func.call @negate(%t) : ({TILE}) -> index").window("%c", "%av", ("%n", 0), (1, 8))
    s.tile("%u", "f32", 1, 8).load("%c", "%u")
    s.do(f"func.call @store(%t, %b) : ({TILE}, {WINDOW}) -> ()").window("%d", "%bv", (0, 0), (1, 8))
    out = agree(s.store("%u", "%d").program, X, 0 * X)["z"].reshape(8, 8)
    assert (out[1:] == -X.reshape(8, 8)[1:]).all() and (out[0] == X.reshape(8, 8)[3]).all()


def test_buffers_written_through_a_returned_pointer_are_outputs(source: Source, agree: Agree) -> None:
    s = copying(source, before=DOUBLE).tile("%t", "f32", 1, 8)
    s.window("%c", "%av", (0, 0), (1, 8)).load("%c", "%t").do("%n = arith.constant 8 : index")
    s.do("%q = func.call @forward(%z, %n) : (!pto.ptr<f32>, index) -> !pto.ptr<f32>")
    s._pointers["%q"] = "f32"
    s.view("%d", "%q", (1, 8), (8, 1)).store("%t", "%d")
    assert pto.compile(s.program).outputs == ("z",)
    assert (agree(s.program, X, 0 * X)["z"][8:16] == X[:8]).all()


def test_an_entry_among_several_functions(source: Source) -> None:
    program = copying(source, before=DOUBLE).program
    assert (np.asarray(pto.compile(program, entry="double")(p=X)["p"]) == 2 * X).all()
    assert pto.compile(program).entry == "main"
    two = pto.parse("func.func @a(%x: i32) {\n return\n}\nfunc.func @b() {\n return\n}")
    with pytest.raises(pto.ArgumentError, match="entry: the program marks none; allowed: a, b"):
        pto.compile(two)


@pytest.mark.slow
def test_get_tensor_view_dim(source: Source, agree: Agree) -> None:
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %m: index, %n: index, %i: index")
    s.view("%a", "%x", ("%m", "%n"), ("%n", 1)).view("%b", "%z", (8, 8), (8, 1)).do(
        "%k = arith.constant 1 : index"
    )
    view = s.types["%av"]
    s.do(f"%r = pto.get_tensor_view_dim %av, %i : {view} -> index")
    s.do(f"%c = pto.get_tensor_view_dim %av, %k : {view} -> index")
    s.window("%aw", "%av", (0, 0), ("%r", "%c")).tile("%t", "f32", 8, 8, valid=("%r", "%c")).load("%aw", "%t")
    out = agree(s.store("%t", "%b").program, X, 0 * X, 8, 4, 1)["z"].reshape(8, 8)
    assert (out[:4, :4] == X[:16].reshape(4, 4)).all() and not out[4:].any() and not out[:, 4:].any()


def test_get_tensor_view_stride(source: Source, agree: Agree) -> None:
    """The stride, a run-time one too, is the column that a window starts at."""
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %n: index, %i: index")
    s.view("%a", "%x", (4, 16), (16, "%n")).view("%b", "%z", (8, 8), (8, 1))
    s.do(f"%s = pto.get_tensor_view_stride %av, %i : {s.types['%av']} -> index")
    s.view("%c", "%x", (4, 16), (16, 1)).window("%w", "%cv", (0, "%s"), (4, 8)).tile("%t", "f32", 4, 8)
    s.load("%w", "%t").window("%d", "%bv", (0, 0), (4, 8)).store("%t", "%d")
    out = agree(s.program, X, 0 * X, 5, 1)["z"].reshape(8, 8)
    assert (out[:4] == X.reshape(4, 16)[:, 5:13]).all()


def test_tensor_view_addr_points_to_the_first_element_of_a_window(source: Source, agree: Agree) -> None:
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %o: index")
    for pointer, name in (("%x", "%a"), ("%z", "%b")):
        s.view(name, pointer, (8, 8), (8, 1)).window(f"{name}w", f"{name}v", ("%o", 3), (1, 1))
        s.do(f"%p{pointer[1:]} = pto.tensor_view_addr {name}w : {s.types[f'{name}w']} -> !pto.ptr<f32>")
        s._pointers[f"%p{pointer[1:]}"] = "f32"
    s.view("%c", "%px", (1, 8), (8, 1)).view("%d", "%pz", (1, 8), (8, 1)).tile("%t", "f32", 1, 8)
    program = s.load("%c", "%t").store("%t", "%d").program
    assert pto.compile(program).outputs == ("z",)
    out = agree(program, X, 0 * X, 2)["z"]
    assert (out[19:27] == X[19:27]).all() and np.count_nonzero(out) <= 8


@pytest.mark.variants(1)
@pytest.mark.parametrize("offset", [0, 8, 30])
def test_addptr_moves_a_pointer(source: Source, agree: Agree, offset: int) -> None:
    for given in (offset, "%o"):
        s = copying(source, ", %o: index").tile("%t", "f32", 1, 8)
        name = s._name(given, "index")
        s.do(f"%q = pto.addptr %x, {name} : <f32> -> <f32>").do(
            f"%r = pto.addptr %q, {name} : <f32> -> <f32>"
        )
        s._pointers["%r"] = "f32"
        s.view("%c", "%r", (1, 4), (8, 1)).tile("%u", "f32", 1, 8, valid=(1, 4)).load("%c", "%u")
        s.window("%d", "%bv", (0, 0), (1, 4)).store("%u", "%d")
        out = agree(s.program, X, 0 * X, offset)["z"]
        assert (out[:4] == X[2 * offset : 2 * offset + 4]).all()


def test_set_validshape_changes_one_handle(source: Source, agree: Agree) -> None:
    s = copying(source, ", %r: index, %c: index").tile("%t", "f32", 8, 8, valid=("%r", "%c"))
    s.load("%a", "%t").do(f"pto.set_validshape %t, %c, %r : {s.types['%t']}")
    out = agree(s.store("%t", "%b").program, X, 0 * X, 8, 3)["z"].reshape(8, 8)
    assert (out[:3, :3] == X.reshape(8, 8)[:3, :3]).all() and not out[3:].any()


@pytest.mark.parametrize("how", ["constant", "sum", "quotient", "remainder", "call"])
def test_addresses_that_fold_to_constants(source: Source, agree: Agree, how: str) -> None:
    allocate = f"""
  func.func private @place(%x: !pto.ptr<f32>, %at: i64) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %v = pto.make_tensor_view %x, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
    %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c8]
      : !pto.tensor_view<?x?xf32> -> {WINDOW}
    %t = pto.alloc_tile addr = %at : {TILE}
    pto.tload ins(%w : {WINDOW}) outs(%t : {TILE})
    return
  }}"""
    s = (
        copying(source, before=allocate)
        .do("%k = arith.constant 384 : i64")
        .do("%m = arith.constant 256 : i64")
    )
    s.do("%sum = arith.subi %k, %m : i64").do("%quotient = arith.divsi %k, %m : i64")
    s.do("%remainder = arith.remsi %k, %m : i64").do("%w32 = arith.constant 32 : i64")
    s.do("%small = arith.muli %quotient, %w32 : i64")
    name = {"constant": "%k", "quotient": "%small", "call": "%m"}.get(how, f"%{how}")
    s.tile("%t", "f32", 8, 8, at=name)
    if how == "call":
        s.do("func.call @place(%x, %m) : (!pto.ptr<f32>, i64) -> ()")
    else:
        s.load("%a", "%t")
    assert (agree(s.store("%t", "%b").program, X, 0 * X)["z"] == X).all()


def test_tassign_moves_a_handle(source: Source, agree: Agree) -> None:
    s = copying(source).tile("%t", "f32", 8, 8, at=0).load("%a", "%t").op("tneg", "%t", out="%t")
    s.do("%far = arith.constant 1024 : i64").do(f"pto.tassign %t, %far : {s.types['%t']}, i64").load(
        "%a", "%t"
    )
    s.tile("%u", "f32", 8, 8, at=0).op("tadd", "%t", "%u", out="%t")
    assert (agree(s.store("%t", "%b").program, X, 0 * X)["z"] == 0).all()


@pytest.mark.slow
def test_addresses_known_only_at_run_time(source: Source) -> None:
    """A tile at a run-time address shares bytes with one at a constant address; it stays in its memory."""
    s = copying(source, ", %at: i64").tile("%t", "f32", 8, 8, at="%at").tile("%u", "f32", 8, 8, at=256)
    s.load("%a", "%u").op("tneg", "%u", out="%u").load("%a", "%t").op("tadd", "%t", "%u", out="%u")
    program = s.store("%u", "%b").program
    kernel = pto.compile(program)
    for at in (0, 128, 256, 512):
        expected = oracle.run(program, (X, X, at))["z"]
        assert np.asarray(kernel(X, X, at)["z"]).tobytes() == expected.tobytes()
        assert np.asarray(kernel.eager(X, X, at)["z"]).tobytes() == expected.tobytes()
    for at in (-32, 4, 196608):
        problems = pto.compile(program, checks=True)(X, X, at)[1].problems()
        assert ("alloc_tile", "address") in {(p.instruction, p.rule) for p in problems}
        with pytest.raises(pto.ExecutionError, match="alloc_tile"):
            kernel.eager(X, X, at)


@pytest.mark.filterwarnings(r"ignore:[\s\S]*nothing has written before")
def test_fresh_tiles_hold_what_the_profile_says(source: Source, agree: Agree) -> None:
    for profile, expected in (("cpu_sim", 0), ("a2a3", 0xFFFFFFFF), ("a5", 0xFFFFFFFF)):
        for at in (None, 0):
            s = copying(source).tile("%t", "f32", 8, 8, at=at).store("%t", "%b")
            out = agree(s.program, X, X.copy(), profile=profile)["z"]
            assert (out.view(np.uint32) == expected).all()


#: (i32 operations, operands): results become valid columns, so they are observable as counts of lanes.
INTEGERS = (
    "addi subi muli divsi divui ceildivsi ceildivui floordivsi remsi remui minsi maxsi minui maxui "
    "andi ori xori shli shrsi shrui"
).split()
PREDICATES = "eq ne slt sle sgt sge ult ule ugt uge".split()
ORDERED = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
EDGES = [0, 1, -1, 7, -7, 3, 31, 33, 2**31 - 1, -(2**31)]


def scalar_program(
    source: Source, d: str, lines: list[tuple[str, str]], first: tuple[str, ...] = ()
) -> pto.Program:
    """Every line's scalar, of the type given with it, becomes one row of %z (one lane) or %f."""
    s = source(f"%z: !pto.ptr<i32>, %f: !pto.ptr<f32>, %a: {d}, %b: {d}")
    count = len(lines)
    for line in first:
        s.do(line)
    s.view("%zw", "%z", (count, 8), (8, 1)).view("%fw", "%f", (count, 8), (8, 1))
    s.tile("%ti", "i32", 1, 8).tile("%tf", "f32", 1, 8)
    for i, (line, t) in enumerate(lines):
        s.do(line.replace("%r", f"%r{i}"))
        name, kind = f"%r{i}", "f" if t == "f32" else "z"
        if t == "i1":
            s.do(f"%e{i} = arith.extui %r{i} : i1 to i32")
            name = f"%e{i}"
        tile = "%tf" if kind == "f" else "%ti"
        s.op("texpands", f"{name}: {'f32' if kind == 'f' else 'i32'}", out=tile)
        s.window(f"%w{i}", f"%{kind}wv", (i, 0), (1, 8)).store(tile, f"%w{i}")
    program: pto.Program = s.program
    return program


def compare(program: pto.Program, count: int, a: Any, b: Any) -> None:
    """The interpreter holds scalars as Python numbers, so any NaN equals any NaN."""
    given = (np.zeros(8 * count, np.int32), np.full(8 * count, np.float32(0)), a, b)
    expected, got = oracle.run(program, given), pto.compile(program)(*given)
    assert set(expected) == set(got)
    for name, value in expected.items():
        found = np.asarray(got[name])
        same = (found.view(np.int32) == value.view(np.int32)) | ((found != found) & (value != value))
        assert same.all(), f"row {np.argmin(same) // 8} of {name} for {a}, {b}"


@pytest.mark.slow
@pytest.mark.instructions(*INTEGERS, "cmpi")
def test_integer_scalars_agree_with_the_interpreter(source: Source) -> None:
    lines = [(f"%r = arith.{name} %a, %b : i32", "i32") for name in INTEGERS]
    lines += [(f"%r = arith.cmpi {p}, %a, %b : i32", "i1") for p in PREDICATES]
    program = scalar_program(source, "i32", lines)
    for a in EDGES:
        for b in EDGES[:: 3 if a in (1, 3, 31) else 1]:
            compare(program, len(lines), a, b)


FLOATS = "addf subf mulf divf remf maximumf minimumf maxnumf minnumf".split()


@pytest.mark.slow
@pytest.mark.instructions(*FLOATS, "negf", "cmpf")
def test_float_scalars_agree_with_the_interpreter(source: Source) -> None:
    lines = [(f"%r = arith.{name} %a, %b : f32", "f32") for name in FLOATS]
    lines += [("%r = arith.negf %a : f32", "f32")]
    lines += [(f"%r = arith.cmpf {p}, %a, %b : f32", "i1") for p in ORDERED]
    program = scalar_program(source, "f32", lines)
    edges = [0.0, -0.0, 1.5, -2.5, 1e-45, -3e-42, 1.1754944e-38, 3e38, float("inf"), float("nan")]
    for i, a in enumerate(edges):
        for b in edges[i % 2 :: 2]:
            compare(program, len(lines), a, b)


CONVERSIONS = "extsi extui extf sitofp uitofp fptosi fptoui bitcast select index_cast trunci truncf".split()


@pytest.mark.instructions(*CONVERSIONS)
def test_scalar_conversions_agree_with_the_interpreter(source: Source) -> None:
    integer = [
        ("%r = arith.extsi %h : i8 to i32", "i32"),
        ("%r = arith.extui %h : i8 to i32", "i32"),
        ("%r = arith.extsi %t : i1 to i32", "i32"),
        ("%r = arith.sitofp %a : i32 to f32", "f32"),
        ("%r = arith.uitofp %a : i32 to f32", "f32"),
        ("%r = arith.bitcast %a : i32 to f32", "f32"),
        ("%r = arith.select %t, %a, %b : i32", "i32"),
        ("%r = arith.index_cast %x : index to i32", "i32"),
    ]
    first = (
        "%h = arith.trunci %a : i32 to i8",
        "%t = arith.trunci %b : i32 to i1",
        "%x = arith.index_cast %a : i32 to index",
    )
    program = scalar_program(source, "i32", integer, first)
    for a in (*EDGES, 2**24 + 1, -(2**30) - 3, 200):
        compare(program, len(integer), a, a >> 1)
    floating = [
        ("%r = arith.fptosi %a : f32 to i32", "i32"),
        ("%r = arith.fptoui %a : f32 to i32", "i32"),
        ("%r = arith.extf %h : f16 to f32", "f32"),
        ("%r = arith.bitcast %a : f32 to i32", "i32"),
    ]
    program = scalar_program(source, "f32", floating, ("%h = arith.truncf %a : f32 to f16",))
    for b in (0.5, -1.5, 1e-41, -1e-45, 3e9, -3e9, 1e20, float("inf"), float("nan"), 65519.9, 6e-8, 2.0**31):
        compare(program, len(floating), b, b)


def test_unsupported_operations_name_their_place(source: Source) -> None:
    s = copying(source, ", %k: f32").do("%e = math.exp %k : f32")
    with pytest.raises(pto.PtoError, match=r"math\.exp") as found:
        pto.compile(s.program)(X, X, 1.0)
    assert found.value.diagnostics[0].span is not None
