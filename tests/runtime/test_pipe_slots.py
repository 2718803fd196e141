"""Slots of pipes in global memory, by number and by handle."""

import numpy as np
import pytest

import pto_jax as pto
from tests.runtime.pipes import (
    ACC,
    LEFT,
    MAT,
    RIGHT,
    RNG,
    SLOT,
    VIEW,
    Agree,
    accepted,
    product,
    program,
    vec,
    view,
    whole,
)


def in_memory(cube: bool, body: str) -> str:
    core = "aic" if cube else "aiv"
    return f"""
    %slots = pto.make_tensor_view %s, shape = [%c16, %c16], strides = [%c16, %c1] : {SLOT}
    pto.{core}_initialize_pipe {{id = 1, dir_mask = 2, slot_size = 1024, slot_num = 2}}
      (gm_slot_tensor = %slots : {SLOT})
    {body}
    """


@pytest.mark.slow
def test_slots_in_global_memory_are_written_again_when_they_are_free(agree: Agree) -> None:
    """Ten slots of two: the producer must wait, or tiles that nobody has read are overwritten."""
    tile, mat = vec("f32"), MAT.format("f32")
    send = f"""
    %xv = pto.make_tensor_view %x, shape = [%c160, %c16], strides = [%c16, %c1] : {VIEW}
    %t = pto.alloc_tile : {tile}
    scf.for %i = %c0 to %c10 step %c1 {{
      %row = arith.muli %i, %c16 : index
      %wx = pto.partition_view %xv, offsets = [%row, %c0], sizes = [%c16, %c16] : {VIEW} -> {whole("f32")}
      pto.tload ins(%wx : {whole("f32")}) outs(%t : {tile})
      %e = pto.talloc_to_aic {{id = 1, split = 0}} -> {SLOT}
      %we = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c16, %c16] : {SLOT} -> {whole("f32")}
      pto.tstore ins(%t : {tile}) outs(%we : {whole("f32")})
      pto.tpush_to_aic(%e : {SLOT}) {{id = 1, split = 0}}
    }}
    """
    receive = f"""
    %yv = pto.make_tensor_view %y, shape = [%c160, %c16], strides = [%c16, %c1] : {VIEW}
    %m = pto.alloc_tile : {mat}
    %left = pto.alloc_tile : {LEFT}
    %right = pto.alloc_tile : {RIGHT}
    %acc = pto.alloc_tile : {ACC.format("f32", "")}
    scf.for %i = %c0 to %c10 step %c1 {{
      %row = arith.muli %i, %c16 : index
      %wy = pto.partition_view %yv, offsets = [%row, %c0], sizes = [%c16, %c16] : {VIEW} -> {whole("f32")}
      %e = pto.tpop_from_aiv {{id = 1, split = 0}} -> {SLOT}
      %we = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c16, %c16] : {SLOT} -> {whole("f32")}
      pto.tload ins(%we : {whole("f32")}) outs(%m : {mat})
      pto.tfree_from_aiv(%e : {SLOT}) {{id = 1, split = 0}}
      pto.tmov ins(%m : {mat}) outs(%left : {LEFT})
      pto.tmov ins(%m : {mat}) outs(%right : {RIGHT})
      pto.tmatmul ins(%left, %right : {LEFT}, {RIGHT}) outs(%acc : {ACC.format("f32", "")})
      pto.tstore ins(%acc : {ACC.format("f32", "")}) outs(%wy : {whole("f32")})
    }}
    """
    made = accepted(program("a5", in_memory(True, receive), in_memory(False, send)))
    x = RNG.integers(-4, 5, (10, 16, 16)).astype(np.float32)
    slots = np.zeros((2, 16, 16), np.float32)
    out = agree(made, x.reshape(160, 16), slots, np.zeros((160, 16), np.float32), 0)
    np.testing.assert_array_equal(out["y"], (x @ x).reshape(160, 16))
    np.testing.assert_array_equal(out["s"], x[8:])


@pytest.mark.instructions("talloc_to_aic")
def test_blocks_have_all_slots_of_their_pipes_in_global_memory() -> None:
    """Every block sends two tiles through a pipe of two slots, which lie behind those of the block before."""
    setup = f"""
    %block = pto.get_block_idx
    %b = arith.index_cast %block : i64 to index
    %first = arith.muli %b, %c32 : index
    %words = arith.muli %first, %c16 : index
    %own = pto.addptr %s, %words : !pto.ptr<f32> -> !pto.ptr<f32>
    %slots = pto.make_tensor_view %own, shape = [%c16, %c16], strides = [%c16, %c1] : {SLOT}
    pto.{{}}_initialize_pipe {{{{id = 1, dir_mask = 2, slot_size = 1024, slot_num = 2}}}}
      (gm_slot_tensor = %slots : {SLOT})
    {view("%all", "{}", "f32", "%c160")}
    """
    loop = f"""
    scf.for %i = %c0 to %c2 step %c1 {{
      %rows = arith.muli %i, %c16 : index
      %row = arith.addi %rows, %first : index
      %w = pto.partition_view %allv, offsets = [%row, %c0], sizes = [%c16, %c16] : {VIEW} -> {whole("f32")}
    """
    slot = f"""%part = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c16, %c16] : {SLOT}
        -> {whole("f32")}"""
    tile, mat, acc = vec("f32"), MAT.format("f32"), ACC.format("f32", "")
    send = f"""{setup.format("aiv", "%x")}
    %t = pto.alloc_tile : {tile}
    {loop}
      pto.tload ins(%w : {whole("f32")}) outs(%t : {tile})
      %e = pto.talloc_to_aic {{id = 1, split = 0}} -> {SLOT}
      {slot}
      pto.tstore ins(%t : {tile}) outs(%part : {whole("f32")})
      pto.tpush_to_aic(%e : {SLOT}) {{id = 1, split = 0}}
    }}"""
    receive = f"""{setup.format("aic", "%y")}
    %m = pto.alloc_tile : {mat}
    %left = pto.alloc_tile : {LEFT}
    %right = pto.alloc_tile : {RIGHT}
    %acc = pto.alloc_tile : {acc}
    {loop}
      %e = pto.tpop_from_aiv {{id = 1, split = 0}} -> {SLOT}
      {slot}
      pto.tload ins(%part : {whole("f32")}) outs(%m : {mat})
      pto.tfree_from_aiv(%e : {SLOT}) {{id = 1, split = 0}}
      pto.tmov ins(%m : {mat}) outs(%left : {LEFT})
      pto.tmov ins(%m : {mat}) outs(%right : {RIGHT})
      pto.tmatmul ins(%left, %right : {LEFT}, {RIGHT}) outs(%acc : {acc})
      pto.tstore ins(%acc : {acc}) outs(%w : {whole("f32")})
    }}"""
    made = program("a5", receive, send)
    x = RNG.integers(-4, 5, (10, 16, 16)).astype(np.float32)
    kernel = pto.compile(made, grid=3, partial_launch=True)
    out = kernel(x.reshape(160, 16), np.zeros_like(x), np.zeros((160, 16), np.float32), 0)
    np.testing.assert_array_equal(np.asarray(out["s"])[:6], x[:6])
    np.testing.assert_array_equal(np.asarray(out["y"])[:96], (x @ x)[:6].reshape(96, 16))


@pytest.mark.variants(1)
@pytest.mark.parametrize("split", [1, 2])
def test_each_vector_core_has_its_half_of_a_slot_in_global_memory(agree: Agree, split: int) -> None:
    rows, cols = (8, 16) if split == 1 else (16, 8)
    entry, tile = f"!pto.tensor_view<{rows}x{cols}xf32>", vec("f32", rows, cols)
    setup = "pto.{}_initialize_pipe {{id = 0, dir_mask = 1, slot_size = 1024}} (gm_slot_tensor = %slots : {})"
    cube = f"""
    %slots = pto.make_tensor_view %s, shape = [%c16, %c16], strides = [%c16, %c1] : {SLOT}
    {setup.format("aic", SLOT)}
    {product("f32", ACC.format("f32", ""))}
    %e = pto.talloc_to_aiv {{split = {split}}} -> {SLOT}
    %we = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c16, %c16] : {SLOT} -> {whole("f32")}
    pto.tstore ins(%acc : {ACC.format("f32", "")}) outs(%we : {whole("f32")})
    pto.tpush_to_aiv(%e : {SLOT}) {{split = {split}}}
    """
    vector = f"""
    %slots = pto.make_tensor_view %s, shape = [%c{rows}, %c{cols}], strides = [%c16, %c1] : {entry}
    {setup.format("aiv", entry)}
    %core64 = pto.get_subblock_idx
    %core = arith.index_cast %core64 : i64 to index
    %start = arith.muli %core, %c8 : index
    %yv = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    %wy = pto.partition_view %yv, offsets = [{"%start, %c0" if split == 1 else "%c0, %start"}],
      sizes = [%c{rows}, %c{cols}] : {VIEW} -> {whole("f32", rows, cols)}
    %t = pto.alloc_tile : {tile}
    %e = pto.tpop_from_aic {{split = {split}}} -> {entry}
    %we = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c{rows}, %c{cols}] : {entry}
      -> {whole("f32", rows, cols)}
    pto.tload ins(%we : {whole("f32", rows, cols)}) outs(%t : {tile})
    pto.tfree_from_aic(%e : {entry}) {{split = {split}}}
    pto.tneg ins(%t : {tile}) outs(%t : {tile})
    pto.tstore ins(%t : {tile}) outs(%wy : {whole("f32", rows, cols)})
    """
    made = accepted(program("a5", cube, vector))
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    out = agree(made, x, np.zeros((8, 16, 16), np.float32), np.zeros((16, 16), np.float32), 0)
    np.testing.assert_array_equal(out["y"], -(x @ x))


def slots_in_turn(split: int, push: str = "late", free: str = "late") -> pto.Program:
    """Three slots through a pipe of two: the view is another one after every talloc and every tpop."""
    rows, cols = ((16, 16), (8, 16), (16, 8))[split]
    entry, tile, part = (
        f"!pto.tensor_view<{rows}x{cols}xf32>",
        vec("f32", rows, cols),
        whole("f32", rows, cols),
    )
    acc = ACC.format("f32", "")

    def pipe(slot: str, r: int, c: int) -> str:
        return f"""
        %slots = pto.make_tensor_view %s, shape = [%c{r}, %c{c}], strides = [%c16, %c1] : {slot}
        %pipe = pto.initialize_l2g2l_pipe {{dir_mask = 1, slot_size = 1024, slot_num = 2, flag_base = 0}}
          (%slots : {slot}) -> !pto.pipe
        %e = pto.declare_global -> {slot}
        """

    def placed(place: str, line: str, at: str) -> str:
        return line if place == at else ""

    pushed = f"pto.tpush(%e, %pipe : {SLOT}, !pto.pipe) {{split = {split}}}"
    freed = f"pto.tfree(%e, %pipe : {entry}, !pto.pipe) {{split = {split}}}"
    cube = f"""{pipe(SLOT, 16, 16)}
    {product("f32", acc)}
    scf.for %i = %c0 to %c3 step %c1 {{
      pto.talloc(%e, %pipe : {SLOT}, !pto.pipe) {{split = {split}}}
      %we = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c16, %c16] : {SLOT} -> {whole("f32")}
      {placed(push, pushed, "early")}
      pto.tstore ins(%acc : {acc}) outs(%we : {whole("f32")})
      {placed(push, pushed, "late")}
      pto.tmatmul.acc ins(%acc, %left, %right : {acc}, {LEFT}, {RIGHT}) outs(%acc : {acc})
    }}
    """
    half = """
    %core64 = pto.get_subblock_idx
    %core = arith.index_cast %core64 : i64 to index
    %start = arith.muli %core, %c8 : index
    """
    window = ("%c0, %c0", "%start, %c0", "%c0, %start")[split]
    vector = f"""{pipe(entry, rows, cols)}{half if split else ""}
    %yv = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    %wy = pto.partition_view %yv, offsets = [{window}], sizes = [%c{rows}, %c{cols}] : {VIEW} -> {part}
    %t = pto.alloc_tile : {tile}
    %sum = pto.alloc_tile : {tile}
    pto.tload ins(%wy : {part}) outs(%sum : {tile})
    scf.for %i = %c0 to %c3 step %c1 {{
      pto.tpop(%e, %pipe : {entry}, !pto.pipe) {{split = {split}}}
      %we = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c{rows}, %c{cols}] : {entry} -> {part}
      {placed(free, freed, "early")}
      pto.tload ins(%we : {part}) outs(%t : {tile})
      {placed(free, freed, "late")}
      pto.tadd ins(%sum, %t : {tile}, {tile}) outs(%sum : {tile})
    }}
    pto.tstore ins(%sum : {tile}) outs(%wy : {part})
    """
    return program("a5", cube, vector)


@pytest.mark.variants(1)
@pytest.mark.instructions("declare_global", "talloc")
@pytest.mark.parametrize("split", [0, 1, 2])
def test_a_declared_view_is_each_slot_of_a_pipe_in_its_turn(agree: Agree, split: int) -> None:
    made = accepted(slots_in_turn(split))
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    y = agree(made, x, np.zeros((8, 16, 16), np.float32), np.zeros((16, 16), np.float32), 0)["y"]
    np.testing.assert_array_equal(y, 6 * (x @ x))


@pytest.mark.parametrize("flaw", [{"push": "early"}, {"free": "early"}], ids=str)
def test_slots_that_are_passed_on_too_early_are_races(flaw: dict[str, str]) -> None:
    found = pto.races(slots_in_turn(0, **flaw))
    pairs = {f.second and tuple(sorted((f.first.operation, f.second.operation))) for f in found}
    assert pairs == {("tload", "tstore")}


@pytest.mark.slow
@pytest.mark.instructions("declare_global", "talloc", "initialize_l2g2l_pipe")
def test_every_handle_has_its_own_slots_in_global_memory(agree: Agree) -> None:
    acc, tile, window = ACC.format("f32", ""), vec("f32"), whole("f32")

    def pipes(free: str) -> str:
        return (
            "\n".join(
                f"""
            %slots{n} = pto.make_tensor_view {buffer}, shape = [%c16, %c16], strides = [%c16, %c1] : {SLOT}
            %p{n} = pto.initialize_l2g2l_pipe
              {{dir_mask = 1, slot_size = 1024, slot_num = 2, flag_base = {2 * n}}}
              (%slots{n} : {SLOT}) -> !pto.pipe
            %e{n} = pto.declare_global -> {SLOT}
            """
                for n, buffer in enumerate(("%s", "%y"))
            )
            + free
        )

    def windows(number: int) -> str:
        return (
            f"%w{number} = pto.partition_view %e{number}, offsets = [%c0, %c0], sizes = [%c16, %c16] "
            f": {SLOT} -> {window}"
        )

    cube = pipes(product("f32", acc)) + "".join(
        f"""
        pto.talloc(%e{n}, %p{n} : {SLOT}, !pto.pipe) {{split = 0}}
        {windows(n)}
        pto.tstore ins(%acc : {acc}) outs(%w{n} : {window})
        pto.tpush(%e{n}, %p{n} : {SLOT}, !pto.pipe) {{split = 0}}
        pto.tmatmul.acc ins(%acc, %left, %right : {acc}, {LEFT}, {RIGHT}) outs(%acc : {acc})
        """
        for n in (0, 1)
    )
    vector = pipes(f"%t0 = pto.alloc_tile : {tile}\n%t1 = pto.alloc_tile : {tile}\n") + "".join(
        f"""
        pto.tpop(%e{n}, %p{n} : {SLOT}, !pto.pipe) {{split = 0}}
        {windows(n)}
        pto.tload ins(%w{n} : {window}) outs(%t{n} : {tile})
        """
        for n in (1, 0)
    )
    vector += f"""
    pto.tsub ins(%t1, %t0 : {tile}, {tile}) outs(%t0 : {tile})
    %all = pto.make_tensor_view %y, shape = [%c160, %c16], strides = [%c16, %c1] : {VIEW}
    %third = pto.partition_view %all, offsets = [%c32, %c0], sizes = [%c16, %c16] : {VIEW} -> {window}
    pto.tstore ins(%t0 : {tile}) outs(%third : {window})
    pto.tfree(%e0, %p0 : {SLOT}, !pto.pipe) {{split = 0}}
    pto.tfree(%e1, %p1 : {SLOT}, !pto.pipe) {{split = 0}}
    """
    made = accepted(program("a5", cube, vector))
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    out = agree(made, x, np.zeros((2, 16, 16), np.float32), np.zeros((10, 16, 16), np.float32), 0)
    np.testing.assert_array_equal(out["s"], [x @ x, 0 * x])
    np.testing.assert_array_equal(out["y"][:3], [2 * (x @ x), 0 * x, x @ x])


@pytest.mark.instructions("talloc_to_aiv")
def test_slots_in_global_memory_are_used_in_turn_in_a_loop_of_unknown_length(agree: Agree) -> None:
    """Trip i uses slot i modulo their number, and frees it."""
    setup = (
        f"pto.{{}}_initialize_pipe {{{{dir_mask = 1, slot_size = 1024}}}} (gm_slot_tensor = %slots : {SLOT})"
    )
    view = f"%slots = pto.make_tensor_view %s, shape = [%c16, %c16], strides = [%c16, %c1] : {SLOT}"
    window = (
        f"%we = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c16, %c16] : {SLOT} -> {whole('f32')}"
    )
    cube = f"""{view}
    {setup.format("aic")}
    {product("f32", ACC.format("f32", ""))}
    scf.for %i = %c0 to %n step %c1 {{
      %e = pto.talloc_to_aiv {{split = 0}} -> {SLOT}
      {window}
      pto.tstore ins(%acc : {ACC.format("f32", "")}) outs(%we : {whole("f32")})
      pto.tpush_to_aiv(%e : {SLOT}) {{split = 0}}
    }}"""
    vector = f"""{view}
    {setup.format("aiv")}
    %yv = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    %wy = pto.partition_view %yv, offsets = [%c0, %c0], sizes = [%c16, %c16] : {VIEW} -> {whole("f32")}
    %t = pto.alloc_tile : {vec("f32")}
    %sum = pto.alloc_tile : {vec("f32")}
    pto.tload ins(%wy : {whole("f32")}) outs(%sum : {vec("f32")})
    scf.for %i = %c0 to %n step %c1 {{
      %e = pto.tpop_from_aic {{split = 0}} -> {SLOT}
      {window}
      pto.tload ins(%we : {whole("f32")}) outs(%t : {vec("f32")})
      pto.tfree_from_aic(%e : {SLOT}) {{split = 0}}
      pto.tadd ins(%sum, %t : {vec("f32")}, {vec("f32")}) outs(%sum : {vec("f32")})
    }}
    pto.tstore ins(%sum : {vec("f32")}) outs(%wy : {whole("f32")})"""
    made = accepted(program("a5", cube, vector))
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    for n in (0, 3, 11):
        out = agree(made, x, np.zeros((8, 16, 16), np.float32), np.ones((16, 16), np.float32), n)
        np.testing.assert_array_equal(out["y"], 1 + n * (x @ x))
        for i in range(8):
            np.testing.assert_array_equal(out["s"][i], x @ x if i < n else np.zeros((16, 16)))
