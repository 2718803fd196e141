"""A launch of other blocks than a program is written for is an error, never a silent part of a result."""

from typing import Literal

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import grids, oracle
from pto_jax.examples import EXAMPLES
from pto_jax.ir import dtype as find_dtype
from tests.runtime.launch_texts import COUNT, OPEN, PART, ROW, TILE, VIEW, WIDE, T, Y, kernel, store


def problem(program: pto.Program, grid: int) -> str | None:
    """What compiling says of a launch."""
    try:
        pto.compile(program, grid=grid)
    except pto.VerifyError as error:
        (diagnostic,) = error.diagnostics
        assert diagnostic.rule == "launch" and diagnostic.instruction == "get_block_idx"
        return diagnostic.message
    return None


TILES = kernel(VIEW, TILE, ROW, store())


# -- seen in the text --------------------------------------------------------------------------------


def test_too_few_blocks_are_an_error_that_names_view_elements_and_grid() -> None:
    with pytest.raises(pto.VerifyError) as raised:
        pto.compile(TILES)
    assert str(raised.value).splitlines()[0] == (
        "k.pto:17:1: error: get_block_idx: 1 block (grid=1) writes 128 of the 1024 elements of view %v "
        "(argument y); allowed: a grid that covers it; try: grid=8 (--grid 8)"
    )
    assert "7 blocks (grid=7) write 896 of the 1024" in str(problem(TILES, 7))
    assert (np.asarray(pto.compile(TILES, grid=8)(Y)["y"]) == 1).all()


def test_too_many_blocks_are_an_error_that_names_where_they_leave() -> None:
    assert problem(TILES, 9) == (
        "block 8 of 0 to 8 (grid=9) leaves view %v (argument y) of 64x16 elements, in tstore at k.pto:28:1; "
        "allowed: blocks with windows inside it; try: grid=8 (--grid 8)"
    )


IN_TURNS = f"""
scf.for %r = %row to %c64 step %stride {{
  {store("%r")}
}}"""
GUARDED = f"""
%col = arith.remsi %b, %c4 : index
%used = arith.cmpi slt, %col, %c2 : index
scf.if %used {{
  %half = arith.divsi %b, %c4 : index
  %pair = arith.muli %half, %c2 : index
  %which = arith.addi %pair, %col : index
  %row = arith.muli %which, %c8 : index
  {store()}
}}"""
SIZED = f"""
%left = arith.subi %c60, %row : index
%rows = arith.minsi %left, %c8 : index
%v60 = pto.make_tensor_view %y, shape = [%c60, %c16], strides = [%c16, %c1] : {WIDE}
%u = pto.alloc_tile valid_row = %rows valid_col = %c16 : {OPEN}
pto.texpands ins(%one : f32) outs(%u : {OPEN})
%w = pto.partition_view %v60, offsets = [%row, %c0], sizes = [%rows, %c16]
  : {WIDE} -> !pto.partition_tensor_view<?x16xf32>
pto.tstore ins(%u : {OPEN}) outs(%w : !pto.partition_tensor_view<?x16xf32>)
"""
SEARCHED = f"""
%got = scf.while (%i = %c0) : (index) -> index {{
  %next = arith.muli %i, %c8 : index
  %first = arith.muli %b, %c8 : index
  %below = arith.cmpi slt, %next, %first : index
  scf.condition(%below) %i : index
}} do {{
^bb0(%i: index):
  %j = arith.addi %i, %c1 : index
  scf.yield %j : index
}}
%at = arith.muli %got, %c8 : index
{store("%at")}"""
CHUNK = f"""
%size = arith.divsi %c8, %n : index
%first = arith.muli %b, %size : index
%last = arith.addi %first, %size : index
scf.for %i = %first to %last step %c1 {{
  %r = arith.muli %i, %c8 : index
  {store("%r")}
}}"""
TRIANGLE = f"""
%end = arith.addi %b, %c1 : index
scf.for %i = %b to %end step %c1 {{
  scf.for %j = %c0 to %i step %c1 {{
    %far = arith.addi %i, %j : index
    %r = arith.muli %far, %c8 : index
    {store("%r")}
  }}
}}"""
SUBBLOCK = f"""
%s64 = pto.get_subblock_idx
%m64 = pto.get_subblock_num
%s = arith.index_cast %s64 : i64 to index
%m = arith.index_cast %m64 : i64 to index
%both = arith.muli %b, %m : index
%unit = arith.addi %both, %s : index
%row = arith.muli %unit, %c8 : index
{store()}"""


@pytest.mark.parametrize(
    ("body", "grid", "written", "expected"),
    {
        "in two dimensions, some blocks idle": (VIEW + TILE + GUARDED, 2, 256, 14),
        "a last block of fewer rows": (ROW + SIZED, 3, 384, 8),
        "a while loop finds the window": (VIEW + TILE + SEARCHED, 1, 128, 8),
        "a number of blocks that does not divide": (COUNT + VIEW + TILE + CHUNK, 3, 768, 4),
        "loops as long as the block's number": (VIEW + TILE + TRIANGLE, 2, 128, 5),
        "two vector cores": (VIEW + TILE + SUBBLOCK, 1, 256, 4),
    }.values(),
    ids=str,
)
def test_windows_are_followed_through(body: str, grid: int, written: int, expected: int) -> None:
    found = problem(kernel(body), grid)
    total = 960 if body.startswith(ROW) else 1024
    assert found is not None and f"write {written} of the {total} " in found.replace("writes", "write")
    assert f"try: grid={expected} " in found
    assert problem(kernel(body), expected) is None


def test_a_call_and_a_view_of_another_layout_are_followed() -> None:
    """Blocks of a fractal layout count where the tile fills their window."""
    nz, boxed = "!pto.tensor_view<?x?x?x?x?xf32>", "!pto.partition_tensor_view<1x1x1x16x8xf32>"
    acc = "!pto.tile_buf<vec, 16x8xf32, blayout=col_major, slayout=row_major>"
    text = f"""
    func.func @part(%y: !pto.ptr<f32>, %at: index) {{
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %c16 = arith.constant 16 : index
      %n = arith.constant 128 : index
      %c0 = arith.constant 0 : index
      %v = pto.make_tensor_view %y, shape = [%c1, %c1, %c4, %c16, %c8], strides = [%n, %n, %n, %c8, %c1]
        {{layout = #pto.layout<nz>}} : {nz}
      %t = pto.alloc_tile : {acc}
      %w = pto.partition_view %v, offsets = [%c0, %c0, %at, %c0, %c0], sizes = [%c1, %c1, %c1, %c16, %c8]
        : {nz} -> {boxed}
      pto.tstore ins(%t : {acc}) outs(%w : {boxed})
      return
    }}
    func.func @k(%y: !pto.ptr<f32>) attributes {{pto.entry}} {{
      %b64 = pto.get_block_idx
      %b = arith.index_cast %b64 : i64 to index
      func.call @part(%y, %b) : (!pto.ptr<f32>, index) -> ()
      return
    }}"""
    program = pto.parse(text)
    found = grids.judge(program, "k", 3).problem
    assert found is not None and "3 blocks (grid=3) write 384 of the 512 elements of view %v" in found.message
    assert grids.judge(program, "k", 4) == grids.Judgement()


def test_blocks_that_add_are_all_needed() -> None:
    """Split along k: seven of eight blocks touch every element of the result, and its sums are wrong."""
    program = pto.load(EXAMPLES["gemm_splitk"].path)
    assert "grid=8 (--grid 8)" in str(problem(program, 1))
    found = problem(program, 7)
    assert (
        found is not None and "7 blocks (grid=7) add to view %c_view (argument c) a part of what 8" in found
    )


# -- no evidence -------------------------------------------------------------------------------------

OTHER = f"%o = pto.make_tensor_view %y, shape = [%c8, %c16], strides = [%c16, %c1] : {WIDE}\n"
TWICE = "%twice = arith.muli %b, %c16 : index\n"
MOVED = f"""
%at = arith.muli %b, %c64 : index
%p = pto.addptr %y, %at : !pto.ptr<f32> -> !pto.ptr<f32>
%o = pto.make_tensor_view %p, shape = [%c64, %c16], strides = [%c16, %c1] : {WIDE}
{store("%c0", "%o")}"""
STOPPED = f"""
%far = arith.cmpi sge, %b, %c4 : index
scf.if %far {{
  pto.trap
}}
{store()}"""
LOADED = f"""
%k = pto.load_scalar %y[%b] : !pto.ptr<f32> -> f32
%z = arith.constant 0.0 : f32
%wanted = arith.cmpf oeq, %k, %z : f32
scf.if %wanted {{
  {store()}
}}"""


@pytest.mark.parametrize(
    ("body", "grid"),
    {
        "a grid-stride loop": (
            COUNT + VIEW + TILE + ROW + "%stride = arith.muli %n, %c8 : index" + IN_TURNS,
            3,
        ),
        "every block writes the same": (VIEW + TILE + ROW + store("%c0"), 1),
        "blocks in turn": (VIEW + TILE + "%m = arith.remsi %b, %c2 : index" + store("%m"), 2),
        "the next window leaves the view": (VIEW + TILE + TWICE + store("%twice"), 4),
        "a view of its own": (OTHER + TILE + ROW + store("%c0", "%o"), 1),
        "a view that moves with the block": (TILE + MOVED, 1),
        "further blocks would stop": (VIEW + TILE + ROW + STOPPED, 4),
        "what is loaded decides": (VIEW + TILE + ROW + LOADED, 1),
    }.values(),
    ids=str,
)
def test_no_evidence(body: str, grid: int) -> None:
    assert problem(kernel(body), grid) is None


def test_programs_that_do_not_ask_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids.judgement, "_judged", lambda *a: pytest.fail("followed"))
    silent = kernel(VIEW, TILE, store("%c0"))
    text = str(silent).replace("%b64 = pto.get_block_idx", "%b64 = arith.constant 0 : i64")
    assert problem(pto.parse(text), 1) is None


@pytest.mark.parametrize("name", EXAMPLES)
def test_shipped_launches_are_right(name: str) -> None:
    example = EXAMPLES[name]
    program = pto.load(example.path)
    (entry,) = program.entries
    scalars = {
        n: int(x)
        for n, x in example.arguments(0).items()
        if np.issubdtype(np.asarray(x).dtype, np.integer) and np.ndim(x) == 0
    }
    for facts in (None, grids.Facts(scalars)):
        assert grids.judge(program, entry.name, example.grid, facts).problem is None


def test_what_is_too_long_to_follow_is_not_judged_and_costs_little() -> None:
    long = f"""
    %far = arith.constant 1000000 : index
    scf.for %i = %c0 to %far step %c1 {{
      %m = arith.remsi %i, %c2 : index
      scf.for %j = %c0 to %far step %c1 {{
        %r = arith.addi %row, %m : index
        {store()}
      }}
    }}"""
    program = kernel(VIEW, TILE, ROW, long)
    # Followed trip by trip, the loops would take longer than anybody waits.
    assert grids.judge(program, "k", 1) == grids.Judgement()
    assert grids.judge(program, "k", 1_000_000) == grids.Judgement()


def test_the_fix_is_looked_for_up_to_a_bound() -> None:
    """A view of a million windows: the error stands, its fix has no number."""
    big = "%m = arith.constant 8388608 : index\n"
    view = f"%v = pto.make_tensor_view %y, shape = [%m, %c16], strides = [%c16, %c1] : {WIDE}\n"
    found = problem(kernel(big, view, TILE, ROW, store()), 1)
    assert found is not None and found.endswith("allowed: a grid that covers it; try: a larger grid")


def test_a_partial_launch_is_not_judged() -> None:
    found = pto.compile(TILES, grid=3, partial_launch=True)(Y)["y"]
    assert (np.asarray(found)[:24] == 1).all() and not np.asarray(found)[24:].any()
    assert oracle.run(TILES, [Y], grid=3, partial_launch=True)["y"].tobytes() == np.asarray(found).tobytes()


# -- decided by arguments ----------------------------------------------------------------------------


# -- bits through blocks -----------------------------------------------------------------------------


@pytest.mark.variants(4)
@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "f8E4M3FN", "i16"])
def test_blocks_copy_every_bit_pattern(dtype: str, numerics: Literal["exact", "fast"]) -> None:
    """NaNs with payloads and subnormals come out as they went in, alone and in a batch."""
    view, part, t = (x.replace("16xf32", f"32x{dtype}").replace("f32", dtype) for x in (WIDE, PART, T))
    windows = (
        f"%{n}v = pto.make_tensor_view %{n}, shape = [%c64, %c32], strides = [%c32, %c1] : {view}\n"
        f"%{n}w = pto.partition_view %{n}v, offsets = [%row, %c0], sizes = [%c8, %c32] : {view} -> {part}\n"
        for n in "xy"
    )
    copy = f"""%t = pto.alloc_tile : {t}
    pto.tload ins(%xw : {part}) outs(%t : {t})
    pto.tstore ins(%t : {t}) outs(%yw : {part})"""
    program = kernel(ROW, *windows, copy, arguments=", ".join(f"%{n}: !pto.ptr<{dtype}>" for n in "xy"))
    compiled = pto.compile(program, "a5", numerics=numerics, grid=8)
    array = find_dtype(dtype.lower().removesuffix("fn")).numpy
    x = np.random.default_rng(0).bytes(64 * 32 * array.itemsize)
    words = np.frombuffer(x, array).reshape(64, 32)
    zeros = np.zeros_like(words)
    assert np.asarray(compiled(words, zeros)["y"]).tobytes() == x
    batch = np.stack([words, words[::-1]])
    found = jax.vmap(lambda x, y: compiled(x, y)["y"])(batch, np.stack([zeros, zeros]))
    assert np.asarray(found).tobytes() == batch.tobytes()
