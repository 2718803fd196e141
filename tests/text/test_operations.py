"""Operations with their own syntax, control flow and functions."""

import math

import pytest

from pto_jax import ir
from pto_jax.errors import ParseError
from pto_jax.text import parse, print_program
from pto_jax.text.control import CONTROL
from pto_jax.text.formats import PREDICATES, find_format, format_names
from tests.programs.cases import FOLDER
from tests.tables import every

VIEWS = """
module attributes {pto.target_arch = "a5", "pto.device-spec" = "Ascend950"} {
  func.func @views(%p: !pto.ptr<f32>, %n: index, %addr: i64) attributes {pto.entry} {
    %q = pto.addptr %p, %n : <f32> -> <f32>
    %c = pto.castptr %addr : i64 -> !pto.ptr<f32>
    %v = pto.make_tensor_view %q, shape = [%n, %n], strides = [%n, %n] {layout = #pto.layout<dn>}
      : !pto.tensor_view<?x?xf32>
    %w = pto.partition_view %v, offsets = [%n, %n], sizes = [%n, %n]
      : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x16xf32>
    %s = pto.subview %v, offsets = [%n, %n], sizes = [16, 16]
      : !pto.tensor_view<?x?xf32> -> !pto.tile_view<16x16xf32>
    %d = pto.get_tensor_view_dim %v, %n : !pto.tensor_view<?x?xf32> -> index
    %e = pto.get_tensor_view_stride %v, %n : !pto.tensor_view<?x?xf32> -> index
    %a = pto.tensor_view_addr %v : !pto.tensor_view<?x?xf32> -> !pto.ptr<f32>
    %t0 = pto.alloc_tile : !pto.tile_buf<f32, 16, 16>
    %t1 = pto.alloc_tile addr = %addr : !pto.tile_buf<f32, 16, 16>
    %t2 = pto.alloc_tile valid_row = %n valid_col = %n : !pto.tile_buf<vec, 16x16xf32, valid=?x?>
    %t3 = pto.alloc_tile addr = %addr valid_row = %n valid_col = %n
      : !pto.tile_buf<vec, 16x16xf32, valid=?x?>
    %t4 = pto.alloc_tile valid_col = %n : !pto.tile_buf<vec, 16x16xf32, valid=16x?>
    %t5 = pto.declare_tile -> !pto.tile_buf<f32, 16, 16>
    pto.set_validshape %t2, %n, %n : !pto.tile_buf<vec, 16x16xf32, valid=?x?>
    %u = pto.subset %t0[%n, %n] sizes [8, 8] : !pto.tile_buf<f32, 16, 16>
    %r = pto.treshape %t0 : !pto.tile_buf<f32, 16, 16> -> !pto.tile_buf<f32, 8, 32>
    %b = pto.bitcast %t0 : !pto.tile_buf<f32, 16, 16> -> !pto.tile_buf<i32, 16, 16>
    %z = pto.tassign %t0, %addr : !pto.tile_buf<f32, 16, 16> -> !pto.tile_buf<f32, 16, 16>
    pto.tassign %t0, %addr : !pto.tile_buf<f32, 16, 16>, i64
    %g = pto.tile_buf_addr %t0 : !pto.tile_buf<f32, 16, 16> -> !pto.ptr<f32, vec>
    %x = pto.tgetval ins(%t0, %n : !pto.tile_buf<f32, 16, 16>, index) outs : f32
    %y = pto.load_scalar %p[%n] : !pto.ptr<f32> -> f32
    pto.store_scalar %y, %p[%n] : !pto.ptr<f32>, f32
    pto.print ins("x = %f\\n", %x : f32)
    pto.trap
    %m = memref.alloc() : memref<16x16xf32, #pto.address_space<vec>>
    %l = pto.bind_tile %m, %n, %n {config = #pto.tile_buf_config<blayout=1 : i32, s_fractal_size=512>}
      : memref<16x16xf32, #pto.address_space<vec>> -> memref<16x16xf32, #pto.address_space<vec>>
    %k = memref.reinterpret_cast %m to offset: [%n], sizes: [%n, %n], strides: [%n, %n]
      : memref<16x16xf32, #pto.address_space<vec>>
      to memref<8x8xf32, strided<[16, 1], offset: ?>, #pto.address_space<vec>>
    %o = pto.pointer_cast(%addr) %n, %n : memref<16x16xf32, #pto.address_space<vec>>
    memref.dealloc %m : memref<16x16xf32, #pto.address_space<vec>>
    return
  }
}
"""
SYNC = """
func.func @sync(%id: index, %ffts: memref<256xi64>) {
  %i = pto.get_block_idx
  %n = pto.get_block_num
  %j = pto.get_subblock_idx
  %m = pto.get_subblock_num
  %k = arith.addi %i, %j : i64
  pto.barrier <PIPE_ALL>
  pto.barrier #pto.pipe<PIPE_V>
  pto.barrier_sync [#pto.pipe_event_type<TVEC>]
  pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
  pto.wait_flag[#pto.pipe<PIPE_MTE2>, #pto<pipe PIPE_V>, #pto.event<EVENT_ID0>]
  pto.set_flag_dyn [#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_V>, %id]
  pto.wait_flag_dyn [<PIPE_MTE2>, <PIPE_V>, %id]
  pto.record_event [#pto.sync_op_type<TLOAD>, #pto.pipe_event_type<TVEC>, #pto<event EVENT_ID3>]
  pto.wait_event[#pto.pipe_event_type<TLOAD>, #pto.pipe_event_type<TVEC>, <EVENT_ID3>]
  pto.sync.set <PIPE_FIX>, 0 {ffts_mode = 1 : i32}
  pto.sync.wait <PIPE_V>, %id
  pto.get_buf[#pto.pipe_event_type<TLOAD>, 0]
  pto.rls_buf[#pto.pipe_event_type<TLOAD>, 0] {mode = 1}
  pto.set_ffts %ffts : memref<256xi64>
  pto.get_buf_dyn[#pto.pipe<PIPE_V>, %id, 1]
  pto.rls_buf_dyn[#pto.pipe<PIPE_V>, %id, 1]
  pto.set_cross_block <PIPE_FIX>, 0
  pto.wait_cross_block <PIPE_FIX>, %id
  pto.set_intra_block <PIPE_V>, 3
  pto.wait_intra_block <PIPE_V>, %id
  pto.cmo.cacheinvalid all #pto.address_space<gm>
  pto.cmo.cacheinvalid %ffts single_cache_line : memref<256xi64>
  pto.fence.barrier_all #pto.fence_scope<all>
  pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<aic_only>
  %e = pto.declare_eventid_array -> !pto.eventid_array<4>
  pto.eventid_array_set %e[%id], %id : !pto.eventid_array<4>
  %f = pto.eventid_array_get %e[%id] : !pto.eventid_array<4>
  pto.section.cube {
    pto.barrier <PIPE_M>
  }
  pto.vecscope {
  }
  pto.strict_vecscope(%id) {
  ^bb0(%scoped: index):
  } : (index) -> ()
  pto.section.vector {
  }
  return
}
"""
PIPES = """
func.func @pipes(%g: !pto.ptr<f32>, %m: memref<128xf32, #pto.address_space<gm>>, %n: index, %f: f32,
    %v1: !pto.partition_tensor_view<4x16xf32>, %n32: i32)
    attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
  %a = pto.reserve_buffer {name = "fifo", size = 8192, location = <vec>, auto = true} -> i32
  %b = pto.import_reserved_buffer{name = "fifo", peer_func = @vector} -> i32
  %e = pto.declare_global -> !pto.tensor_view<16x16xf32>
  pto.aic_initialize_pipe {id = 2, dir_mask = 3, slot_size = 1024, acc_push_epilogue =
    #pto.acc_push_epilogue<layout = nz2nd, quant = deqf16_scalar, relu = no_relu>}
    (gm_slot_tensor = %e : !pto.tensor_view<16x16xf32>)
  pto.aic_initialize_pipe {dir_mask = 3, slot_size = 1024, nosplit = true}
    (gm_slot_buffer = %g : !pto.ptr<f32>, c2v_consumer_buf = %a : i32, v2c_consumer_buf = %b : i32)
  pto.aiv_initialize_pipe {dir_mask = 3, slot_size = 1024}
    (c2v_consumer_buf = %a : i32, v2c_consumer_buf = %b : i32)
  %p = pto.initialize_l2g2l_pipe {dir_mask = 1, slot_size = 1024, slot_num = 8, flag_base = 0}
    (%m : memref<128xf32, #pto.address_space<gm>>, %a : i32) -> !pto.pipe
  %q = pto.initialize_l2l_pipe {dir_mask = 1, slot_size = 1024, slot_num = 8} (%a : i32) -> !pto.pipe
  %t = pto.declare_tile -> !pto.tile_buf<f32, 16, 16>
  pto.tpush_to_aiv(%t : !pto.tile_buf<f32, 16, 16>) {split = 1}
  pto.tpush_to_aic(%t : !pto.tile_buf<f32, 16, 16>) {split = 1}
  %u = pto.tpop_from_aic {split = 1} -> !pto.tile_buf<f32, 8, 16>
  %v = pto.tpop_from_aiv(%n, %n) {split = 2} -> !pto.tile_buf<vec, 8x16xf32, valid=?x?>
  pto.tfree_from_aic {split = 1}
  pto.tfree_from_aiv {split = 2}
  pto.tpush(%t, %p : !pto.tile_buf<f32, 16, 16>, !pto.pipe) {split = 0}
  pto.tpop(%t, %p : !pto.tile_buf<f32, 16, 16>, !pto.pipe) {split = 0}
  pto.tfree(%p : !pto.pipe) {split = 0}
  pto.talloc(%e, %p : !pto.tensor_view<16x16xf32>, !pto.pipe) {split = 0}
  pto.tpush(%e, %p : !pto.tensor_view<16x16xf32>, !pto.pipe) {split = 0}
  pto.tfree(%e, %p : !pto.tensor_view<16x16xf32>, !pto.pipe) {split = 0}
  %e1 = pto.talloc_to_aiv {id = 2, split = 0} -> !pto.tensor_view<16x16xf32>
  %e2 = pto.talloc_to_aic {id = 2, split = 0} -> !pto.tensor_view<16x16xf32>
  pto.tfree_from_aic(%e1 : !pto.tensor_view<16x16xf32>) {id = 2, split = 0}
  pto.set_quant_scalar(%f : f32) {id = 2}
  pto.set_quant_vector(%t : !pto.tile_buf<f32, 16, 16>) {id = 2}
  pto.comm.tput(%v1, %v1, buf(%t) : !pto.partition_tensor_view<4x16xf32>,
    !pto.partition_tensor_view<4x16xf32>, !pto.tile_buf<f32, 16, 16>)
  pto.comm.tget(%v1, %v1, buf(%t, %t) : !pto.partition_tensor_view<4x16xf32>,
    !pto.partition_tensor_view<4x16xf32>, !pto.tile_buf<f32, 16, 16>, !pto.tile_buf<f32, 16, 16>)
  pto.comm.tnotify(%v1, %n32 : !pto.partition_tensor_view<4x16xf32>, i32) {notifyOp = #pto<notify_op set>}
  pto.comm.twait(%v1, %n32 : !pto.partition_tensor_view<4x16xf32>, i32) {cmp = #pto<wait_cmp ge>}
  %ok = pto.comm.ttest(%v1, %n32 : !pto.partition_tensor_view<4x16xf32>, i32) {cmp = #pto<wait_cmp ge>} -> i1
  pto.comm.tbroadcast(%v1, recv(%t), group(%v1, %v1) : !pto.partition_tensor_view<4x16xf32>,
    !pto.tile_buf<f32, 16, 16>, !pto.partition_tensor_view<4x16xf32>, !pto.partition_tensor_view<4x16xf32>)
  pto.comm.tscatter(%v1, recv(%t, %t), group(%v1) : !pto.partition_tensor_view<4x16xf32>,
    !pto.tile_buf<f32, 16, 16>, !pto.tile_buf<f32, 16, 16>, !pto.partition_tensor_view<4x16xf32>)
  pto.comm.tgather(%v1, recv(%t), group(%v1) : !pto.partition_tensor_view<4x16xf32>,
    !pto.tile_buf<f32, 16, 16>, !pto.partition_tensor_view<4x16xf32>)
  pto.comm.treduce(%v1, %t, recv(%t), group(%v1) : !pto.partition_tensor_view<4x16xf32>,
    !pto.tile_buf<f32, 16, 16>, !pto.tile_buf<f32, 16, 16>, !pto.partition_tensor_view<4x16xf32>)
  %s = pto.build_async_session(%t, %m : !pto.tile_buf<f32, 16, 16>, memref<128xf32, #pto.address_space<gm>>)
    -> !pto.async_session
  %x = pto.tput_async(%m, %m, %s : memref<128xf32, #pto.address_space<gm>>,
    memref<128xf32, #pto.address_space<gm>>, !pto.async_session) -> !pto.async_event
  %y = pto.tget_async(%m, %m, %s : memref<128xf32, #pto.address_space<gm>>,
    memref<128xf32, #pto.address_space<gm>>, !pto.async_session) -> !pto.async_event
  %h = pto.make_prefetch_async_context(%m : memref<128xf32, #pto.address_space<gm>>)
    -> !pto.prefetch_async_context
  %o = pto.tprefetch_async(%m, %h : memref<128xf32, #pto.address_space<gm>>, !pto.prefetch_async_context)
    -> !pto.async_event
  %r = pto.get_prefetch_async_session %h : !pto.prefetch_async_context -> !pto.async_session
  %w = pto.wait_async_event(%x, %s : !pto.async_event, !pto.async_session) -> i1
  %z = pto.test_async_event(%y, %s : !pto.async_event, !pto.async_session) -> i1
  return
}
"""
CONTROL_FLOW = """
func.func private @helper(%x: i32) -> i32 {
  return %x : i32
}
func.func @flow(%n: index, %k: i32, %c: i1) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %f = arith.constant 1.0e-6 : f32
  %no = arith.constant false
  %vec = arith.constant dense<[128, 64, 0, 0]> : vector<4xi16>
  %all = arith.constant dense<7> : vector<4xi16>
  %neg = arith.negf %f : f32
  %x = func.call @helper(%k) : (i32) -> i32
  call @helper(%k) : (i32) -> i32
  scf.for %i = %zero to %n step %one {
    %j = arith.index_cast %i : index to i32
    scf.yield
  }
  %last = scf.for %i = %zero to %n step %one iter_args(%acc = %zero) -> (index) {
    %next = arith.addi %acc, %i : index
    scf.yield %next : index
  }
  scf.for %i = %k to %k step %k : i32 {
  }
  %r:2 = scf.if %c -> (index, i1) {
    scf.yield %zero, %c : index, i1
  } else {
    scf.yield %one, %no : index, i1
  }
  %a, %b = scf.if %c -> (index, i1) {
    scf.yield %zero, %c : index, i1
  } else {
    scf.yield %r#0, %r#1 : index, i1
  }
  scf.if %c {
  } else {
  }
  %w:2 = scf.while (%i = %zero, %go = %c) : (index, i1) -> (index, i1) {
    %lt = arith.cmpi slt, %i, %n : index
    scf.condition(%lt) %i, %go : index, i1
  } do {
  ^bb0(%i: index, %go: i1):
    %next = arith.addi %i, %one : index
    scf.yield %next, %go : index, i1
  }
  %sel = arith.select %c, %r, %w#0 : index
  %case, %yes = scf.index_switch %n -> (index, i1)
  case 2 { scf.yield %zero, %c : index, i1 }
  case -1 { scf.yield %one, %c : index, i1 }
  default { scf.yield %n, %c : index, i1 }
  scf.index_switch %n default { }
  %inner = scf.execute_region -> index { scf.yield %case : index }
  scf.execute_region { }
  return
}
"""
TILE = "!pto.tile_buf<vec, 16x16xf32>"
OPEN = "!pto.tile_buf<vec, 16x16xf32, valid=?x?>"
HANDLES = f"""
func.func @handles(%p: !pto.ptr<f32>, %n: index, %i: i32) attributes {{pto.entry}} {{
  %c8 = arith.constant 8 : index
  %t = pto.alloc_tile : {TILE}
  %o = pto.alloc_tile valid_row = %n valid_col = %n : {OPEN}
  %part = pto.subview %t[%c8, %n] sizes [8, 8] : {TILE}
  %typed = pto.subview %t[%c8, %n] sizes [8, 8] : {TILE} -> !pto.tile_buf<vec, 8x8xf32, valid=0x8>
  %cut = pto.subview %o[%n, %c8] sizes [8, 8] valid [%n, %c8]
    : {OPEN} -> !pto.tile_buf<vec, 8x8xf32, valid=?x8>
  %known = pto.subview %o[%n, %c8] sizes [8, 16] valid [%n, %c8] : {OPEN}
  %rows, %cols = pto.get_validshape %cut : !pto.tile_buf<vec, 8x8xf32, valid=?x8>
  %r = pto.tile_valid_rows %o : {OPEN} -> index
  %c = pto.tile_valid_cols %o : {OPEN} -> index
  %a = pto.ptrtoint %p : !pto.ptr<f32> -> i64
  %q = pto.inttoptr %a : i64 -> !pto.ptr<f32>
  %u = builtin.unrealized_conversion_cast %i : i32 to ui32
  %v = pto.make_tensor_view %p, shape = [%n, %c8], strides = [%c8, %n] : !pto.tensor_view<? x 8 x f32>
  %w = pto.partition_view %v, offsets = [%n, %n], sizes = [%n, %c8] : !pto.tensor_view<?x8xf32>
  return
}}
"""
FILES = ("subviews", "multi_tiles", "local_storage", "blocks", "fusion")
PROGRAMS = {name: (FOLDER / f"{name}.pto").read_text(encoding="utf-8") for name in FILES}
PROGRAMS |= {"handles": HANDLES, "views": VIEWS, "sync": SYNC, "pipes": PIPES, "control": CONTROL_FLOW}


def function(text: str, index: int = 0) -> ir.Function:
    return parse(text).functions[index]


def by_name(program: ir.Program) -> dict[str, ir.Op]:
    """The last operation of each name."""
    return {op.name: op for op in program.walk()}


@every("text", PROGRAMS.values(), ids=PROGRAMS.keys())
@every("form", [None, "as", "ssa", "dps"])
def test_program_reads_back(text: str, form: str | None) -> None:
    program = parse(text)
    printed = print_program(program, form)  # type: ignore[arg-type]
    assert parse(printed) == program
    assert print_program(parse(printed), form) == printed  # type: ignore[arg-type]


def test_every_operation_of_the_table_is_covered() -> None:
    seen = {name for text in PROGRAMS.values() for name in by_name(parse(text))}
    missing = {n for n in (*format_names(), *CONTROL) if n not in seen}
    assert not {n for n in missing if not n.startswith("arith.")}


@every("name", [n for n in format_names() if n.startswith("arith.")])
def test_arithmetic_reads_back(name: str) -> None:
    fmt = find_format(name)
    assert fmt is not None
    if name in PREDICATES:
        lines = [f"%r{i} = {name} {p}, %a, %b : f32" for i, p in enumerate(PREDICATES[name])]
    elif name == "arith.select":
        lines = ["%r = arith.select %c, %a, %b : f32"]
    elif name == "arith.negf":
        lines = ["%r = arith.negf %a : f32"]
    elif " to " in "".join(getattr(i, "text", "") and f" {i.text} " for i in fmt.items if hasattr(i, "text")):
        lines = [f"%r = {name} %a : i32 to index"]
    else:
        lines = [f"%r = {name} %a, %b : i32"]
    program = parse("\n".join(lines))
    assert all(op.name == name and op.results for op in program.walk())
    assert parse(print_program(program)) == program


def test_views_have_grouped_operands() -> None:
    ops = by_name(parse(VIEWS))
    view = ops["make_tensor_view"]
    assert view.groups == (("ptr", 1), ("shape", 2), ("strides", 2))
    assert view.attrs == {"layout": ir.GlobalLayout.DN}
    assert ops["partition_view"].groups == (("view", 1), ("offsets", 2), ("sizes", 2))
    assert ops["alloc_tile"].groups == (("valid_col", 1),)
    assert ops["get_tensor_view_dim"].groups == () and len(ops["get_tensor_view_dim"].ins) == 2
    allocs = [op.groups for op in parse(VIEWS).walk() if op.name == "alloc_tile"]
    assert allocs[:2] == [(), (("addr", 1),)]
    assert allocs[3] == (("addr", 1), ("valid_row", 1), ("valid_col", 1))


def test_result_of_subset_has_the_sizes_and_the_rest_of_its_source() -> None:
    op = by_name(parse(VIEWS))["subset"]
    source, result = op.ins[0].type, op.results[0].type
    assert isinstance(source, ir.TileType) and isinstance(result, ir.TileType)
    assert (result.shape, result.valid, result.dtype) == ((8, 8), (8, 8), source.dtype)
    assert op.attrs == {"sizes": (8, 8)}


def test_module_and_function_attributes() -> None:
    program = parse(VIEWS)
    assert program.attrs == {"pto.target_arch": "a5", "pto.device-spec": "Ascend950"}
    assert program.entries == program.functions
    assert function(PIPES).attrs == {"pto.kernel_kind": ir.KernelKind.CUBE}


def test_synchronisation_attributes_are_members() -> None:
    ops = by_name(parse(SYNC))
    assert ops["set_flag"].attrs == {"src": ir.Pipe.MTE2, "dst": ir.Pipe.V, "event": 0}
    assert ops["wait_flag"].attrs == ops["set_flag"].attrs
    assert ops["record_event"].attrs == {
        "src_op": ir.PipeEventType.TLOAD,
        "dst_op": ir.PipeEventType.TVEC,
        "event": 3,
    }
    assert ops["sync.set"].attrs == {"pipe": ir.Pipe.FIX, "event": 0, "ffts_mode": 1}
    assert [v.name for v in ops["sync.wait"].ins] == ["id"]
    assert ops["rls_buf"].attrs == {"op_type": ir.PipeEventType.TLOAD, "buf": 0, "mode": 1}
    assert str(ops["get_block_idx"].results[0].type) == "i64"


def test_pipe_attributes() -> None:
    ops = by_name(parse(PIPES))
    assert ops["reserve_buffer"].attrs == {
        "name": "fifo",
        "size": 8192,
        "location": ir.AddressSpace.VEC,
        "auto": True,
    }
    assert ops["import_reserved_buffer"].attrs["peer_func"] == ir.Symbol("vector")
    assert ops["aic_initialize_pipe"].groups[0] == ("gm_slot_buffer", 1)
    assert ops["aiv_initialize_pipe"].groups == (("c2v_consumer_buf", 1), ("v2c_consumer_buf", 1))


def test_constants_have_the_value_of_their_type() -> None:
    text = """
    %a = arith.constant 8 : index
    %b = arith.constant -1.5 : f16
    %c = arith.constant true
    %d = arith.constant 1 : i1
    %e = arith.constant dense<7> : vector<4xi16>
    %f = arith.constant 0x7F800000 : f32
    %g = arith.constant 0x7FC0 : bf16
    %h = arith.constant -1 : i64
    """
    program = parse(text)
    values = [op.attrs["value"] for op in program.walk()]
    assert values[:6] == [8, -1.5, True, True, (7, 7, 7, 7), math.inf]
    assert isinstance(values[6], float) and math.isnan(values[6])
    assert values[7] == -1
    assert parse(print_program(program)) == program


def test_structured_control_flow() -> None:
    ops = function(CONTROL_FLOW, 1).body.ops
    loops = [op for op in ops if op.name == "scf.for"]
    carried = loops[1]
    assert carried.groups == (("lb", 1), ("ub", 1), ("step", 1), ("inits", 1))
    assert [a.name for a in carried.regions[0].args] == ["i", "acc"]
    assert str(loops[2].regions[0].args[0].type) == "i32"
    while_op = next(op for op in ops if op.name == "scf.while")
    assert [r.name for r in while_op.results] == ["w#0", "w#1"]
    assert [a.name for a in while_op.regions[1].args] == ["i", "go"]
    select = next(op for op in ops if op.name == "arith.select")
    assert [v.name for v in select.ins] == ["c", "r#0", "w#0"]


def test_the_last_region_of_a_switch_is_the_default() -> None:
    switch = next(op for op in function(CONTROL_FLOW, 1).body.ops if op.name == "scf.index_switch")
    assert switch.attrs["cases"] == (2, -1) and len(switch.regions) == 3
    assert [r.ops[0].ins[0].name for r in switch.regions] == ["zero", "one", "n"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("case 1 { } case 1 { } default { }", "a second case 1"),
        ("case 1 { }", "allowed: 'default'|default"),
        ("-> (index) default { }", "does not end with scf.yield"),
    ],
)
def test_a_switch_that_is_none_is_refused(text: str, found: str) -> None:
    with pytest.raises(ParseError, match=found):
        parse(f"func.func @f(%n: index) {{ scf.index_switch %n {text} return }}")


def test_results_that_are_not_bound_keep_their_types() -> None:
    calls = [op for op in function(CONTROL_FLOW, 1).walk() if op.name == "call"]
    assert [op.attrs["callee"] for op in calls] == [ir.Symbol("helper")] * 2
    assert isinstance(calls[1].results[0].type, ir.ScalarType)


def test_functions_without_a_module_stay_without() -> None:
    program = parse(SYNC)
    assert not program.has_module and not program.fragment
    assert print_program(program).startswith("func.func @sync(")
    assert print_program(parse("module {\n}\n")) == "module {\n}\n"


def test_results_of_a_fragment_are_bound_names_and_visible_destinations() -> None:
    text = """
    %v = pto.alloc_tile : !pto.tile_buf<f32, 8, 8>
    scf.for %i = %lo to %hi step %one {
      %inner = tadd %a, %a : !pto.tile<f32, 8, 8>
      pto.tadd %v, %inner, %a : !pto.tile<f32, 8, 8>
    }
    pto.tadd %out, %v, %a : !pto.tile<f32, 8, 8>
    """
    program = parse(text)
    assert program.fragment_results == ("v", "out")
    assert [a.name for a in program.functions[0].args] == ["lo", "hi", "one", "a", "out"]


def test_an_unbound_condition_is_a_truth_value() -> None:
    program = parse(
        """
        %r = scf.while (%a = %n) : (index) -> (index) {
          scf.condition(%go) %a : index
        } do {
        ^bb0(%b: index):
          scf.yield %b : index
        }
        """
    )
    assert [(v.name, str(v.type)) for v in program.functions[0].args] == [("n", "index"), ("go", "i1")]


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("arith.addi %i, %i overflow<nsw, nuw> : i32", "arith.addi %i, %i : i32"),
        ("arith.shrui %i, %i exact {x = 1} : i32", "arith.shrui %i, %i {x = 1} : i32"),
        ("arith.mulf %f, %f fastmath<contract, nnan> : f32", "arith.mulf %f, %f : f32"),
        ("arith.negf %f fastmath<fast> : f32", "arith.negf %f : f32"),
        ("arith.cmpf olt, %f, %f fastmath<none> : f32", "arith.cmpf olt, %f, %f : f32"),
        ("arith.extui %i nneg : i32 to i64", "arith.extui %i : i32 to i64"),
    ],
)
def test_flags_of_arithmetic_are_read_and_change_nothing(written: str, printed: str) -> None:
    program = parse(f"func.func @f(%i: i32, %f: f32) {{\n%r = {written}\nreturn }}")
    assert f"%r = {printed}\n" in print_program(program)


def test_an_unknown_flag_of_arithmetic_is_an_error() -> None:
    with pytest.raises(ParseError, match="got 'fast'; allowed: nsw, nuw, none"):
        parse("func.func @f(%i: i32) {\n%r = arith.addi %i, %i overflow<fast> : i32\nreturn }")


def test_modules_have_names() -> None:
    function = "func.func @f(%n: index) { return }"
    for text in (f"module @k {{ {function} }}", f"module @k attributes {{}} {{ {function} }}"):
        assert parse(text) == parse(f"module {{ {function} }}")
    nested = f"module @k {{ module @a {{ {function} }} module @b {{ {function.replace('@f', '@g')} }} }}"
    assert len(parse(nested).children) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module attributes {x = dense<1> : i32} { }", "got '}'; allowed: '<'"),
        (
            "pto.tabs ins( : !pto.tile<1x8xf32>) outs(%b : !pto.tile<1x8xf32>)",
            "got ':'; allowed: a value '%name'",
        ),
    ],
    ids=["dense of a scalar type", "types of no operand"],
)
def test_types_without_what_they_are_of_are_errors(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(text)
