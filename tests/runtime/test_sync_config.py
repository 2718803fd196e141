"""Synchronisation and configuration in executed programs: no effect on values, or the effect of their state.

Every instruction of the class stands in one program, between the instructions that compute.
"""

from contextlib import nullcontext
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa, oracle
from pto_jax.profiles import PROFILE_NAMES

TILE = "!pto.tile_buf<vec, 8x64xf32>"
WINDOW = "!pto.partition_tensor_view<8x64xf32>"
LEFT = "!pto.tile_buf<left, 16x64xf8E4M3, blayout=col_major, slayout=row_major>"
ROW, CUBE = "!pto.partition_tensor_view<1x256xf32>", "!pto.tile_buf<mat, 16x16xf16>"
#: Instructions without an effect on the values of this program, by name.
IDLE = {
    "tsync": "pto.tsync",
    "talias": f"%same = pto.talias %b : {TILE}",
    "record_event": "pto.record_event [#pto.pipe_event_type<TLOAD>, #pto.pipe_event_type<TVEC>, "
    "#pto.event<EVENT_ID0>]",
    "wait_event": "pto.wait_event [#pto.pipe_event_type<TLOAD>, #pto.pipe_event_type<TVEC>, "
    "#pto.event<EVENT_ID0>]",
    "set_flag": "pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID7>]",
    "wait_flag": "pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID7>]",
    "set_flag_dyn": "pto.set_flag_dyn[<PIPE_V>, <PIPE_MTE3>, %n]",
    "wait_flag_dyn": "pto.wait_flag_dyn[<PIPE_V>, <PIPE_MTE3>, %n]",
    "barrier": "pto.barrier <PIPE_ALL>",
    "barrier_sync": "pto.barrier_sync [#pto.pipe_event_type<TVEC>]",
    "sync.set": "pto.sync.set <PIPE_FIX>, 3",
    "sync.wait": "pto.sync.wait <PIPE_FIX>, 3",
    "get_buf": "pto.get_buf[#pto.pipe_event_type<TLOAD>, 0]",
    "rls_buf": "pto.rls_buf[#pto.pipe_event_type<TLOAD>, 0]",
    "syncall": "pto.syncall",
    "cmo.cacheinvalid": "pto.cmo.cacheinvalid all #pto.address_space<gm>",
    "fence.barrier_all": "pto.fence.barrier_all #pto.fence_scope<gm>",
    "set_intra_block": "pto.set_intra_block <PIPE_V>, 3",
    "wait_intra_block": "pto.wait_intra_block <PIPE_V>, 3",
    "set_cross_block": "pto.set_cross_block <PIPE_FIX>, 0",
    "wait_cross_block": "pto.wait_cross_block <PIPE_FIX>, 0",
    "get_buf_dyn": 'pto.get_buf_dyn "PIPE_V", %n, 0',
    "rls_buf_dyn": 'pto.rls_buf_dyn "PIPE_V", %n, 0',
    "sethf32mode": "pto.sethf32mode {enable = true, mode = CAST_ROUND}",
    "settf32mode": "pto.settf32mode {enable = false}",
    "setfmatrix": f"pto.setfmatrix %image {{mode = FMATRIX_A_MANUAL}} : {CUBE}",
    "set_img2col_rpt": f"pto.set_img2col_rpt %image : {CUBE}",
    "set_img2col_padding": f"pto.set_img2col_padding %image : {CUBE}",
    "set_ffts": "pto.set_ffts %flags : memref<256xi64, #pto.address_space<gm>>",
}


def program(between: str) -> pto.Program:
    """y = |x + x| over a window, with ``between`` after every instruction that computes."""
    return pto.parse(f"""
    func.func @main(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %flags: memref<256xi64, #pto.address_space<gm>>,
                    %n: index) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %c64 = arith.constant 64 : index
      %v = pto.make_tensor_view %x, shape = [%c8, %c64], strides = [%c64, %c1] : !pto.tensor_view<8x64xf32>
      %w = pto.make_tensor_view %y, shape = [%c8, %c64], strides = [%c64, %c1] : !pto.tensor_view<8x64xf32>
      %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c64] : !pto.tensor_view<8x64xf32>
        -> {WINDOW}
      %q = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c8, %c64] : !pto.tensor_view<8x64xf32>
        -> {WINDOW}
      %a = pto.alloc_tile : {TILE}
      %b = pto.alloc_tile : {TILE}
      %image = pto.alloc_tile : {CUBE}
      pto.tload ins(%p : {WINDOW}) outs(%a : {TILE})
      pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%b : {TILE})
      {between}
      pto.tabs ins(%b : {TILE}) outs(%b : {TILE})
      pto.tstore ins(%b : {TILE}) outs(%q : {WINDOW})
      return
    }}""")


def given() -> dict[str, Any]:
    x = np.random.default_rng(1).standard_normal((8, 64), np.float32)
    return {"x": x, "y": np.zeros_like(x), "flags": np.zeros(256, np.int64), "n": 3}


#: Instructions of the class that bind values or places; what they do is shown where those are tested.
BINDING = set(
    "tassign alloc_tile make_tensor_view partition_view get_tensor_view_dim get_tensor_view_stride "
    "tensor_view_addr set_validshape addptr tget_scale_addr declare_eventid_array eventid_array_get "
    "eventid_array_set tprefetch_async make_prefetch_async_context get_prefetch_async_session "
    "tile_buf_addr castptr pointer_cast".split()
)


def test_every_instruction_of_the_class_is_here() -> None:
    names = {n for n, i in isa.instructions().items() if i.cls == "sync_config"}
    assert names >= set(IDLE) | BINDING
    state = {"set_quant_scalar", "set_quant_vector"}
    aliases = {"treshape", "subview", "global_subview", "subset", "bitcast", "bind_tile", "tsubview"}
    aliases |= {"memref.alloc", "memref.dealloc", "memref.reinterpret_cast"}
    queries = {"get_block_idx", "get_block_num", "get_subblock_idx", "get_subblock_num", "print", "trap"}
    queries |= {"get_validshape", "tile_valid_rows", "tile_valid_cols", "ptrtoint", "inttoptr"}
    aliases |= {"alloc_multi_tile", "multi_tile_get", "declare_local_array", "declare_struct"}
    values = {"local_array_get", "local_array_set", "struct_get", "struct_set"}
    values |= {"tgetval", "tsetval", "load_scalar", "store_scalar", "hashfind"}
    assert names <= set(IDLE) | BINDING | state | aliases | values | queries


@pytest.mark.parametrize("name", IDLE)
def test_synchronisation_is_read_verified_and_printed_back(name: str) -> None:
    read = program(IDLE[name])
    assert name in {op.name for op in read.walk()} and pto.parse(str(read)) == read
    for target in PROFILE_NAMES:
        # One operation alone orders nothing; what that leaves unordered is judged elsewhere.
        order = ("hazard", "token")
        found = [(d.rule, d.severity) for d in pto.verify(read, profile=target) if d.rule not in order]
        warned = {"get_buf": "profile", "rls_buf": "profile"} if target == "a2a3" else {}
        # An ordinary tile has no geometry to load.
        warned |= dict.fromkeys(("setfmatrix", "set_img2col_rpt", "set_img2col_padding"), "geometry")
        assert found == ([(warned[name], "warning")] if name in warned else [])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
def test_synchronisation_changes_no_value() -> None:
    everything = program("\n".join(IDLE.values()))
    arguments = given()
    expected = np.abs(arguments["x"] + arguments["x"])
    for target in PROFILE_NAMES:
        np.testing.assert_array_equal(oracle.run(everything, arguments, profile=target)["y"], expected)
    kernel = pto.compile(everything, profile="a5")
    assert kernel.outputs == ("y",)
    jitted = jax.jit(lambda x: kernel(**{**arguments, "x": x})["y"])
    np.testing.assert_array_equal(np.asarray(jitted(arguments["x"])), expected)
    np.testing.assert_array_equal(np.asarray(kernel.eager(**arguments)["y"]), expected)


# --- The modes of f32 multiplications: one state, from where it is set ---------------------------------

A, B, C = (
    "!pto.tile_buf<left, 16x16xf32, blayout=col_major, slayout=row_major>",
    "!pto.tile_buf<right, 16x16xf32, slayout=col_major>",
    "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>",
)
SWITCHES = (
    "",
    "pto.sethf32mode {enable = true, mode = CAST_RINT}",
    "pto.settf32mode {enable = true, mode = CAST_ROUND}",
    "pto.sethf32mode {enable = false}",
)
#: 1 + 2^-12 and 1 + 2^-11 after each switch: A2/A3 keeps 11 bits of the fraction, A5 10.
SHORT = {
    "cpu_sim": [(1 + 2.0**-12, 1 + 2.0**-11)] * 4,
    "a2a3": [
        (1 + 2.0**-12, 1 + 2.0**-11),
        (1.0, 1 + 2.0**-11),
        (1 + 2.0**-11, 1 + 2.0**-11),
        (1 + 2.0**-12, 1 + 2.0**-11),
    ],
    "a5": [(1 + 2.0**-12, 1 + 2.0**-11), (1.0, 1.0), (1.0, 1 + 2.0**-10), (1 + 2.0**-12, 1 + 2.0**-11)],
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize("target", PROFILE_NAMES)
def test_modes_hold_from_where_they_are_set(target: str) -> None:
    lines = [
        f"{switch}\npto.tmatmul ins(%a, %b : {A}, {B}) outs(%c{n} : {C})" for n, switch in enumerate(SWITCHES)
    ]
    fragment = pto.parse("\n".join(lines))
    assert [d for d in pto.verify(fragment, profile=target) if d.severity == "error"] == []
    types = {v.name: v.type for v in fragment.functions[0].args if isinstance(v.type, pto.TileType)}
    a, b = np.zeros((16, 16), np.float32), np.eye(16, dtype=np.float32)
    a[:, 0], a[:, 1] = 1 + 2.0**-12, 1 + 2.0**-11
    values = {"a": a, "b": b, **{f"c{n}": np.zeros_like(b) for n in range(4)}}
    got = pto.compile(fragment, profile=target)(**{n: pto.tile(v, type=types[n]) for n, v in values.items()})
    tiles = {n: oracle.OracleTile(types[n], v) for n, v in values.items()}
    wanted = oracle.run(fragment, tiles, profile=target)
    for n, (first, second) in enumerate(SHORT[target]):
        expected = np.zeros_like(a)
        expected[:, 0], expected[:, 1] = first, second
        np.testing.assert_array_equal(np.asarray(got[f"c{n}"]), expected)
        np.testing.assert_array_equal(wanted[f"c{n}"].data, expected)


@pytest.mark.instructions(
    "make_prefetch_async_context", "get_prefetch_async_session", "tprefetch_async", "wait_async_event"
)
def test_a_prefetch_has_completed_at_once() -> None:
    flat = "!pto.partition_tensor_view<128xf32>"
    text = f"""func.func @k(%x: !pto.ptr<f32>, %w: !pto.ptr<i8>) attributes {{pto.entry}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c128 = arith.constant 128 : index
    %one = arith.constant 1.0 : f32
    %v = pto.make_tensor_view %x, shape = [%c128], strides = [%c1] : !pto.tensor_view<128xf32>
    %p = pto.partition_view %v, offsets = [%c0], sizes = [%c128] : !pto.tensor_view<128xf32> -> {flat}
    %c = pto.make_prefetch_async_context(%w : !pto.ptr<i8>) -> !pto.prefetch_async_context
    %e = pto.tprefetch_async(%p, %c : {flat}, !pto.prefetch_async_context) -> !pto.async_event
    %s = pto.get_prefetch_async_session %c : !pto.prefetch_async_context -> !pto.async_session
    %done = pto.comm.wait_async_event(%e, %s : !pto.async_event, !pto.async_session) -> i1
    scf.if %done {{ pto.store_scalar %one, %x[%c0] : !pto.ptr<f32>, f32 }}
    return }}"""
    read = pto.parse(text)
    assert pto.parse(str(read)) == read and pto.verify(read) == []
    x, w = np.zeros(128, np.float32), np.zeros(8, np.int8)
    kernel = pto.compile(read)
    for out in (kernel(x, w), kernel.eager(x, w), oracle.run(read, (x, w))):
        assert np.asarray(out["x"])[0] == 1


#: Instructions that set a token, and those that take it.
TOKENS = {
    "record_event": "wait_event",
    "set_flag": "wait_flag",
    "set_flag_dyn": "wait_flag_dyn",
}


@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize(("setter", "waiter"), TOKENS.items(), ids=map("-".join, TOKENS.items()))
def test_a_token_is_set_before_it_is_taken(setter: str, waiter: str) -> None:
    pair = f"{IDLE[setter]}\n{IDLE[setter].replace(setter, waiter)}"
    for text, starved in ((pair, False), (IDLE[setter].replace(setter, waiter), True)):
        with pytest.raises(pto.ExecutionError) if starved else nullcontext():
            oracle.run(program(text), given(), profile="a5")


#: Instructions whose number may be a value of the program.
NUMBERED = (
    "set_cross_block",
    "wait_cross_block",
    "sync.set",
    "sync.wait",
    "set_intra_block",
    "wait_intra_block",
)


@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize("name", NUMBERED)
def test_the_number_of_a_flag_may_be_a_value(name: str) -> None:
    arguments, text = given(), program(IDLE[name].rpartition(",")[0] + ", %n")
    expected = np.abs(arguments["x"] + arguments["x"])
    np.testing.assert_array_equal(oracle.run(text, arguments, profile="a5")["y"], expected)
