"""Registers in the memory of tiles: a load or a store goes on behind a tile, into the next one."""

from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

T, VIEW, PART = (f"!pto.{kind}<{more}4x32xf32>" for kind, more in
                 (("tile_buf", "vec, "), ("tensor_view", ""), ("partition_tensor_view", "")))  # fmt: skip
R, M, P = "!pto.vreg<64xf32>", "!pto.mask<b32>", "!pto.ptr<f32, ub>"
ONE = np.arange(128, dtype=np.float32)
TWO = 1000 + ONE
#: Bytes that are never written on a5.
UNWRITTEN = np.frombuffer(b"\xff" * 4, np.float32)


def program(lines: str, placed: bool) -> pto.Program:
    """Two tiles side by side, ``lines`` in a scope with pointers to them, and both tiles stored."""
    indices = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (0, 1, 3, 4, 32, 96, 128))
    text = [indices, "%n32 = arith.constant 32 : i32"]
    for k, name in enumerate("xy"):
        address = f"addr = %at{k} " if placed else ""
        text += [
            f"%v{name} = pto.make_tensor_view %{name}, shape = [%c4, %c32], strides = [%c32, %c1] : {VIEW}",
            f"%p{name} = pto.partition_view %v{name}, offsets = [%c0, %c0], sizes = [%c4, %c32]"
            f" : {VIEW} -> {PART}",
            f"%at{k} = arith.constant {512 * k} : i64",
            f"%t{name} = pto.alloc_tile {address}: {T}",
            f"pto.tload ins(%p{name} : {PART}) outs(%t{name} : {T})",
        ]
    text += ["pto.barrier <PIPE_ALL>", "pto.vecscope {"]
    text += [f"%{name}_ub = pto.tile_buf_addr %t{name} : {T} -> {P}" for name in "xy"]
    text += [f'%all = pto.pset_b32 "PAT_ALL" : {M}', f"%row, %rest = pto.plt_b32 %n32 : i32 -> {M}, i32"]
    text += [lines, "}", "pto.barrier <PIPE_ALL>"]
    text += [f"pto.tstore ins(%t{name} : {T}) outs(%p{name} : {PART})" for name in "xy"]
    head = 'module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {\n'
    arguments = "%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index"
    body = "\n".join(text)
    return pto.parse(f"{head}func.func @k({arguments}) attributes {{pto.kernel}} {{\n{body}\nreturn\n}}\n}}")


def results(lines: str, placed: bool = True, n: int = 4) -> np.ndarray:
    """Both tiles behind the lines, in a row; all executors agree."""
    made = program(lines, placed)
    pto.verify(made, raise_on_error=True)
    arrays: dict[str, Any] = {"x": ONE, "y": TWO, "n": np.int64(n)}
    expected = oracle.run(made, arrays)
    kernel = pto.compile(made, warn=False)
    with jax.enable_x64(True):
        batch = {name: np.stack([v, v]) for name, v in arrays.items()}
        ways = [kernel(**arrays), kernel.eager(**arrays), jax.jit(lambda a: kernel(**a))(arrays)]
        ways += [jax.tree.map(lambda v: v[1], jax.jit(jax.vmap(lambda a: kernel(**a)))(batch))]
    for found in ways:
        for name, value in expected.items():
            assert np.asarray(found[name]).tobytes() == np.asarray(value).tobytes(), name
    return np.concatenate([np.asarray(expected[name]).reshape(-1) for name in "xy"])


def load(at: str, name: str = "x") -> str:
    return f"%v = pto.vlds %{name}_ub[%{at}] : {P} -> {R}\n"


def store(at: str, name: str = "y", mask: str = "all") -> str:
    return f"pto.vsts %v, %{name}_ub[%{at}], %{mask} : {R}, {P}, {M}\n"


BOTH = np.concatenate([ONE, TWO])


@pytest.mark.slow
def test_a_load_at_the_end_of_a_tile_has_the_next_tile_behind_it() -> None:
    np.testing.assert_array_equal(results(load("c96") + store("c0")), np.r_[ONE, BOTH[96:160], TWO[64:]])


@pytest.mark.slow
def test_what_nothing_has_written_is_behind_the_last_tile() -> None:
    behind = np.r_[TWO[96:], np.repeat(UNWRITTEN, 32)]
    found = results(load("c96", "y") + store("c0", "x"))
    assert found.tobytes() == np.r_[behind, ONE[64:], TWO].tobytes()


@pytest.mark.variants(1)
@pytest.mark.parametrize("mask", ["all", "row"])
def test_a_store_at_the_end_of_a_tile_goes_on_in_the_next_one(mask: str) -> None:
    found = results(load("c0") + store("c96", "x", mask))
    size = 64 if mask == "all" else 32
    np.testing.assert_array_equal(found, np.r_[ONE[:96], ONE[:size], BOTH[96 + size :]])


@pytest.mark.variants(0)
@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("bound", ["n", "c4"])
def test_rows_shorter_than_a_register_in_a_loop(rows: int, bound: str) -> None:
    body = f"%at = arith.muli %i, %c32 : index\n{load('at')}{store('at', 'y', 'row')}"
    found = results(f"scf.for %i = %c0 to %{bound} step %c1 {{\n{body}}}", n=rows)
    count = 32 * (rows if bound == "n" else 4)
    np.testing.assert_array_equal(found, np.r_[ONE, ONE[:count], TWO[count:]])


def test_an_access_far_behind_a_tile_is_one_of_the_memory() -> None:
    np.testing.assert_array_equal(results(load("c128") + store("c0", "x")), np.r_[TWO[:64], ONE[64:], TWO])


@pytest.mark.slow
def test_inactive_lanes_behind_a_tile_without_an_address_are_no_accesses() -> None:
    found = results(load("c0") + store("c96", "x", "row"), placed=False)
    np.testing.assert_array_equal(found, np.r_[ONE[:96], ONE[:32], TWO])


@pytest.mark.parametrize("lines", [load("c96") + store("c0"), load("c0") + store("c96", "x")])
def test_nothing_is_behind_a_tile_without_an_address(lines: str) -> None:
    made = program(lines, placed=False)
    arrays = {"x": ONE, "y": TWO, "n": np.int64(4)}
    for run in (lambda: oracle.run(made, arrays), lambda: pto.compile(made, warn=False)(**arrays)):
        with pytest.raises(pto.ExecutionError, match=r"of (a|the) tile.* with addr at its pto.alloc_tile"):
            run()


def test_the_sanitizer_says_that_bytes_behind_the_last_tile_are_undefined() -> None:
    arrays = {"x": ONE, "y": TWO, "n": np.int64(4)}
    report = pto.sanitize(program(load("c96", "y") + store("c0", "x"), placed=True), arrays)
    (finding,) = report.findings
    assert finding.op is not None and (finding.sink, finding.op.name) == ("memory", "tstore")
    assert (len(finding.lanes), finding.total) == (32, 128)
    assert not pto.sanitize(program(load("c96") + store("c0"), placed=True), arrays).findings


SYNC = 'pto.{}_flag["PIPE_{}", "PIPE_{}", "EVENT_ID0"]\n'


def pair(source: str, target: str) -> str:
    return SYNC.format("set", source, target) + SYNC.format("wait", source, target)


#: Uses of a tile by its handle and by a pointer into it, in two orders, and the pipes between them.
BY_POINTER = f"""pto.vecscope {{
%all = pto.pset_b32 "PAT_ALL" : {M}
%r = pto.vlds %tx_ub[%c32] : {P} -> {R}
pto.vsts %r, %ty_ub[%c0], %all : {R}, {P}, {M}
}}
"""
HANDLES = f"pto.tload ins(%px : {PART}) outs(%tx : {T})\n", f"pto.tstore ins(%ty : {T}) outs(%py : {PART})\n"


def raced(placed: bool, source: bool, before: str, behind: str) -> set[str]:
    """The pipes between which nothing orders a load, a scope with pointers to tiles, and a store."""
    head, *_ = str(program("", placed)).partition("pto.barrier")
    lines = [line for line in head.splitlines() if "tload" not in line]
    for n in "xy":
        base = f"%t{n}_ub" if source else f"%b{n}"
        lines.append(f"{base} = pto.tile_buf_addr %t{n} : {T} -> {P}")
        lines += [] if source else [f"%t{n}_ub = pto.addptr {base}, %c0 : {P} -> {P}"]
    text = "\n".join([*lines, HANDLES[0] + before + BY_POINTER + behind + HANDLES[1], "return", "}", "}"])
    found = pto.races(pto.parse(text), "a5")
    return {f"{f.first.pipe[5:]}->{f.second.pipe[5:]}" for f in found if f.second is not None}


@pytest.mark.parametrize("placed", [False, True], ids=["planned", "placed"])
@pytest.mark.parametrize("source", [True, False], ids=["address", "moved"])
def test_a_pointer_into_a_tile_is_ordered_with_its_handle(placed: bool, source: bool) -> None:
    loaded, stored = pair("MTE2", "V"), pair("V", "MTE3")
    assert raced(placed, source, loaded, stored) == set()
    assert raced(placed, source, "", pair("MTE2", "V") + stored) == {"MTE2->V"}
    assert raced(placed, source, loaded, pair("MTE2", "MTE3")) == {"V->MTE3"}


@pytest.mark.parametrize(("count", "config", "raced"), [
    (4 | 4 << 16, 0x300, True), (4 | 4 << 16, 0x1300, True), (4 << 16, 0x100, False), (4, 0x100, True),
])  # fmt: skip
def test_a_merge_waits_for_its_lists(count: int, config: int, raced: bool) -> None:
    lists = "".join(f"%c{n}x = arith.constant {n} : i64\n" for n in (0, 64, 128, 192, 512, 1024))
    names = "c0x c64x c128x c192x c1024x".split()
    lists += "".join(f"%l{k} = pto.castptr %{name} : i64 -> {P}\n" for k, name in enumerate(names))
    lists += f"%count = arith.constant {count} : i64\n%config = arith.constant {config} : i64\n"
    lists += "%one = arith.constant 1 : i64\n"
    copy = "pto.mte_gm_ub %x, %l0, %c0x, %c64x\nnburst(%one, %c64x, %c64x)\n"
    copy += f": !pto.ptr<f32, gm>, {P}, i64, i64, i64, i64, i64\n"
    merge = f"pto.vmrgsort4 %l4, %l0, %l1, %l2, %l3, %count, %config : {', '.join([P] * 5)}, i64, i64\n"
    head = 'module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {\n'
    head += "func.func @k(%x: !pto.ptr<f32, gm>) attributes {pto.kernel} {\n"
    order = pair("MTE2", "V")
    right, wrong = (
        pto.parse(head + lists + body + "return\n}\n}")
        for body in (copy + order + merge, order + copy + merge)
    )
    assert pto.races(right) == []
    assert [f.kind for f in pto.races(wrong)] == ["race"] * raced


INDEX = "!pto.vreg<64xi32>"
#: Operations whose lanes say which elements they access, with the pipe that has to be waited for.
INDEXED = {
    "a gather": (f"%g = pto.vgather2 %l0, %i, %all : {P}, {INDEX}, {M} -> {R}\n", "MTE2->V"),
    "a scatter": (f"pto.vscatter %r, %l0, %i, %all : {R}, {P}, {INDEX}, {M}\n", "MTE2->V"),
}


@pytest.mark.parametrize("name", INDEXED)
def test_elements_that_lanes_choose_wait_for_a_copy(name: str) -> None:
    """Two of them in a scope may choose others, so that no barrier is missed between them."""
    line, pipes = INDEXED[name]
    lists = "".join(f"%c{n}x = arith.constant {n} : i64\n" for n in (0, 1, 256))
    lists += f"%zero = arith.constant 0 : i32\n%l0 = pto.castptr %c0x : i64 -> {P}\n"
    lists += "%one = arith.constant 1.0 : f32\n"
    copy = "pto.mte_gm_ub %x, %l0, %c0x, %c256x\nnburst(%c1x, %c256x, %c256x)\n"
    copy += f": !pto.ptr<f32, gm>, {P}, i64, i64, i64, i64, i64\n"
    scope = f'pto.vecscope {{\n%all = pto.pset_b32 "PAT_ALL" : {M}\n%i = pto.vci %zero : i32 -> {INDEX}\n'
    scope += f"%r = pto.vdup %one, %all : f32, {M} -> {R}\n{line}{line.replace('%g', '%h')}}}\n"
    head = 'module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {\n'
    head += "func.func @k(%x: !pto.ptr<f32, gm>) attributes {pto.kernel} {\n"
    order = pair("MTE2", "V")
    right, wrong = (
        pto.parse(head + lists + body + "return\n}\n}")
        for body in (copy + order + scope, order + copy + scope)
    )
    assert [str(f) for f in pto.races(right)] == []
    found = {f"{f.first.pipe[5:]}->{f.second.pipe[5:]}" for f in pto.races(wrong) if f.second is not None}
    assert found == {pipes}
