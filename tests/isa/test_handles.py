"""Pipes, communication and configuration: what the text says, what is rejected, what is not executed."""

import re
from pathlib import Path

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa, oracle
from pto_jax.cli.main import main
from pto_jax.interpreter import launch
from pto_jax.isa import communication, pipes, sync_events, sync_handles
from pto_jax.isa.samples.operations import legal_samples, to_program
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.oracle.step import Policy
from pto_jax.profiles import PROFILES
from tests.tables import every

NAMES = [i.name for i in communication.INSTRUCTIONS]
NAMES += ["grid_tpush"]
EXECUTED = [
    i.name
    for m in (sync_handles, sync_events, sync_events, pipes, pipes)
    for i in m.INSTRUCTIONS
    if i.name not in NAMES
]
VEC, MAT, ACC = (
    "!pto.tile_buf<vec, 16x16xf32>",
    "!pto.tile_buf<mat, 16x16xf32, blayout=col_major, slayout=row_major>",
    "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>",
)
OPEN = "!pto.tile_buf<vec, 16x16xf32, valid=?x?>"
V, STAGED = "!pto.partition_tensor_view<4x64xf32>", "!pto.tile_buf<vec, 4x64xf32>"
FLAT = "!pto.partition_tensor_view<1x256xf32>"

TEXTS = [
    'pto.reserve_buffer {auto = true, location = #pto.address_space<vec>, name = "f", size = 64} -> i32',
    'pto.import_reserved_buffer {name = "f", peer_func = @other} -> i32',
    f"pto.tpush_to_aiv(%t : {ACC}) {{split = 1}}",
    f"pto.tpush(%t, %p : {ACC}, !pto.pipe) {{split = 0}}",
    f"pto.tpush %t, %p : {ACC}, !pto.pipe",
    f"%t = pto.tpop %p {{split = 1}} : (!pto.pipe) -> {VEC}",
    f"pto.tpop(%t, %p : {VEC}, !pto.pipe) {{split = 1}}",
    "pto.tfree %p : !pto.pipe",
    "pto.tfree(%p : !pto.pipe) {split = 0}",
    f"pto.tfree(%t, %p : {VEC}, !pto.pipe) {{split = 1}}",
    "pto.tfree(%e, %p : !pto.tensor_view<16x16xf32>, !pto.pipe) {split = 0}",
    "pto.talloc(%e, %p : !pto.tensor_view<16x16xf32>, !pto.pipe) {split = 0}",
    f"pto.tpush(%t, %p : {VEC}, !pto.pipe) {{split = 2}} aiv_subblockid(%core)",
    f"pto.tpop(%t, %p : {VEC}, !pto.pipe) {{split = 4}} aiv_subblockid(%core)",
    "%e = pto.declare_global -> !pto.tensor_view<16x16xf32>",
    "%e = pto.talloc_to_aiv {id = 3, split = 0} -> !pto.tensor_view<16x16xf32>",
    "%e = pto.talloc_to_aic {split = 2} -> !pto.tensor_view<16x8xf32>",
    "pto.tpush_to_aiv(%e : !pto.tensor_view<16x16xf32>) {id = 3, split = 0}",
    f"pto.tpush_to_aic(%t : {VEC}) {{split = 1}} aiv_subblockid(%core)",
    f"%t = pto.tpop_from_aic(%r, %c) {{id = 1, split = 3}} aiv_subblockid(%core) -> {OPEN}",
    "%e = pto.tpop_from_aiv {split = 0} -> !pto.tensor_view<16x16xf32>",
    "pto.tfree_from_aic(%e : !pto.tensor_view<16x16xf32>) {id = 7, split = 0}",
    f"pto.tfree_from_aiv(%t : {MAT}) {{split = 0}}",
    "pto.aic_initialize_pipe {dir_mask = 1, slot_size = 512} "
    "(gm_slot_tensor = %s : !pto.tensor_view<?x8xf32>)",
    "pto.aiv_initialize_pipe {id = 2, dir_mask = 2, slot_num = 3, slot_size = 512} "
    "(gm_slot_buffer = %s : !pto.ptr<f32>, v2c_consumer_buf = %b : i32)",
    "pto.aic_initialize_pipe {acc_push_epilogue = #pto.acc_push_epilogue<layout = nz2dn, quant = req8_vec, "
    "relu = normal_relu>, dir_mask = 1, nosplit = true, slot_size = 256} (c2v_consumer_buf = %b : i32)",
    "pto.set_quant_scalar(%s : f32) {id = 0}",
    "pto.set_quant_vector(%q : !pto.tile_buf<scaling, 1x16xf32>) {id = 1}",
    "%v = pto.talloc %p {split = 0} : (!pto.pipe) -> !pto.partition_tensor_view<16x16xf32>",
    "pto.comm.tput %dst, %src, %t : !pto.partition_tensor_view<4x64xf32>, "
    "!pto.partition_tensor_view<4x64xf32>, !pto.tile_buf<vec, 4x64xf32>",
    "pto.tnotify %s, %v {op = SET} : !pto.partition_tensor_view<1x8xi32>, i32",
    "pto.twait %s, %v {cmp = GE} : !pto.partition_tensor_view<1x8xi32>, i32",
    "%b = pto.ttest %s, %v {cmp = GE} : (!pto.partition_tensor_view<1x8xi32>, i32) -> i1",
    "pto.comm.tgather %g, %dst : !pto.group<4>, !pto.partition_tensor_view<4x64xf32>",
    "treduce %g, %t, %t, %dst {op = #pto.reduce_op<Sum>} : !pto.group, !pto.tile_buf<vec, 4x64xf32>, "
    "!pto.tile_buf<vec, 4x64xf32>, !pto.partition_tensor_view<4x64xf32>",
    "tbroadcast %g, %src : !pto.group<...>, !pto.partition_tensor_view<4x64xf32>",
    "tnotify %s, %v {op = #pto.notify_op<AtomicAdd>} : !pto.partition_tensor_view<1x8xi32>, i32",
    "twait %s, %v {cmp = #pto.cmp<EQ>} : !pto.partition_tensor_view<1x8xi32>, i32",
    f"pto.comm.tput(%d, %s, buf(%a, %b) : {V}, {V}, {STAGED}, {STAGED}) "
    "{atomicType = #pto<atomic_type atomic_add>}",
    "pto.comm.tget(%d, %s, buf(%a) : !pto.partition_tensor_view<?x64xf32>, "
    f"!pto.partition_tensor_view<?x64xf32>, {STAGED})",
    f"pto.comm.tbroadcast(%s, recv(%a), group(%g0, %g1) : {V}, {STAGED}, {V}, {V}) {{root = 1 : i32}}",
    f"pto.comm.tgather(%d, recv(%a, %b), group(%g0) : {V}, {STAGED}, {STAGED}, {V}) {{root = 0 : i32}}",
    f"pto.comm.tscatter(%s, recv(%a), group(%g0, %g1) : {V}, {STAGED}, {V}, {V}) {{root = 0}}",
    f"pto.comm.treduce(%d, %c, recv(%a), group(%g0, %g1) : {V}, {STAGED}, {STAGED}, {V}, {V}) "
    "{reduceOp = #pto<reduce_op max>, root = 0}",
    "pto.comm.tnotify(%s, %v : !pto.partition_tensor_view<1xi32>, i32) {notifyOp = #pto<notify_op set>}",
    "pto.comm.twait(%s, %v : !pto.partition_tensor_view<2xi32>, i32) {cmp = #pto<wait_cmp ge>}",
    "%ok = pto.comm.ttest(%s, %v : !pto.partition_tensor_view<1xi32>, i32) {cmp = #pto<wait_cmp eq>} -> i1",
    "%x = pto.comm.build_async_session(%t, %w : !pto.tile_buf<vec, 1x64xi32>, !pto.ptr<i8>) "
    "{sync_id = 0 : i32} -> !pto.async_session",
    f"%e = pto.comm.tput_async(%d, %s, %x : {FLAT}, {FLAT}, !pto.async_session) -> !pto.async_event",
    "%ok = pto.comm.wait_async_event(%e, %x : !pto.async_event, !pto.async_session) -> i1",
    "pto.syncall",
    "pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>",
    "pto.syncall(%w, %n : !pto.ptr<i32>, i32) mode = #pto.sync_all_mode<soft>, core_type = "
    "#pto.sync_core_type<aiv_only>",
    "pto.cmo.cacheinvalid all #pto.address_space<gm>",
    "pto.cmo.cacheinvalid %p single_cache_line : !pto.partition_tensor_view<2x1xi32>",
    "pto.fence.barrier_all #pto.fence_scope<local_memory>",
    "pto.set_cross_block <PIPE_FIX>, 15",
    "pto.wait_cross_block <PIPE_MTE2>, %e",
    "pto.set_intra_block <PIPE_V>, 31",
    "pto.wait_intra_block <PIPE_MTE3>, 17 {ffts_mode = 1 : i32}",
    "pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID3>]",
    "pto.get_buf[#pto.pipe<PIPE_V>, 31, 1]",
    "pto.rls_buf[#pto.pipe_event_type<TLOAD>, 0]",
    "pto.get_buf_dyn[#pto.pipe<PIPE_MTE2>, %e, 0]",
    "pto.rls_buf_dyn[#pto.pipe_event_type<TVEC>, %e]",
    "pto.set_ffts %f : !pto.ptr<i64>",
    "pto.setfmatrix %c {mode = FMATRIX_B_MANUAL} : !pto.fmatrix_config",
    'pto.set_quant_scalar %s {out_type = "i8"} : f32',
    "%e = pto.tprefetch_async %v, %c : (!pto.partition_tensor_view<1x256xf32>, !pto.prefetch_context) -> "
    "!pto.async_event",
]


@every("text", TEXTS)
@every("form", [None, "ssa", "dps"])
def test_texts_are_read_accepted_and_printed_back(text: str, form: str | None) -> None:
    from pto_jax.text import print_program

    program = pto.parse(text)
    assert [d for d in pto.verify(program, profile="a5") if d.severity == "error"] == []
    printed = print_program(program, form=form)  # type: ignore[arg-type]
    assert pto.parse(printed) == program or form is not None
    assert [op.name for op in pto.parse(printed).walk()] == [op.name for op in program.walk()]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (
            'pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]',
            "pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]",
        ),
        ('pto.wait_flag["MTE2", <PIPE_V>, 5]', "pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID5>]"),
        ('pto.get_buf "PIPE_V", 3, 1', "pto.get_buf[#pto.pipe<PIPE_V>, 3, 1]"),
        ('pto.rls_buf "TLOAD", 3', "pto.rls_buf[#pto.pipe_event_type<TLOAD>, 3]"),
        ('pto.get_buf_dyn "PIPE_MTE2", %e', "pto.get_buf_dyn[#pto.pipe<PIPE_MTE2>, %e]"),
        ('pto.barrier "PIPE_ALL"', "pto.barrier <PIPE_ALL>"),
    ],
)
def test_pipes_and_events_are_also_written_in_quotes(text: str, same: str) -> None:
    assert pto.parse(text) == pto.parse(same)
    assert str(pto.parse(text)) == str(pto.parse(same))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pto.cmo.cacheinvalid all #pto.address_space<vec>", "space is vec; allowed: gm"),
        ("pto.cmo.cacheinvalid %p single_cache_line : !pto.ptr<f32, ub>", "addr points to vec; allowed: gm"),
        ("pto.set_cross_block <PIPE_S>, 0", "pipe is PIPE_S; allowed: PIPE_FIX, PIPE_MTE1, PIPE_MTE2"),
        ("pto.set_cross_block <PIPE_V>, 16", "event 16; allowed on a5: 0 to 15"),
        ("pto.set_intra_block <PIPE_V>, 32", "event 32; allowed on a5: 0 to 31"),
        ("pto.sync.set <PIPE_M>, 0", "pipe is PIPE_M; allowed on a5: PIPE_FIX"),
        ("pto.sync.wait <PIPE_V>, 1 {ffts_mode = 3 : i32}", "ffts_mode is 3; allowed: 0, 1, 2"),
        ("pto.get_buf[#pto.pipe<PIPE_V>, 32]", "buf is 32; allowed: 0 to 31"),
        ("pto.set_ffts %f : !pto.ptr<f32>", "ffts has element type f32; allowed: i64, u64, i8"),
        (
            "pto.syncall(%w : !pto.tensor_view<15xi32>) mode = #pto.sync_all_mode<soft>, core_type = "
            "#pto.sync_core_type<mix>",
            "workspace has 15 words; allowed: 16 or more",
        ),
        (
            "pto.syncall(%w : !pto.ptr<i32>) mode = #pto.sync_all_mode<hard>, core_type = "
            "#pto.sync_core_type<mix>",
            "workspace is given; allowed: only with mode SOFT",
        ),
    ],
)
def test_what_orders_cores_and_memory_is_judged(text: str, message: str) -> None:
    found = [d.message for d in pto.verify(pto.parse(text), profile="a5") if d.severity == "error"]
    assert any(message in m for m in found), found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"pto.comm.tput(%d, %s, buf(%a) : {V}, {V.replace('<4x', '<2x')}, {STAGED})",
            "src has extents 2x64, dst",
        ),
        (
            "pto.comm.tput(%d, %s, buf(%a) : !pto.tensor_view<?x64xf32>, !pto.tensor_view<?x64xf32>, "
            f"{STAGED})",
            "dst has extents ?x64; allowed: known positive ones; or ? in a partition_tensor_view",
        ),
        (
            f"pto.comm.tget(%d, %s, buf(%a, %b) : {V}, {V}, {STAGED}, {STAGED.replace(' 4x', ' 2x')})",
            "allowed: equal types",
        ),
        (
            f"pto.comm.tbroadcast(%s, recv(%a), group(%g0, %g1) : {V}, {STAGED}, {V}, {V}) {{root = 2}}",
            "root = 2 of 2 ranks; allowed: 0 to 1",
        ),
        (
            f"pto.comm.tbroadcast(%s, recv(%a), group(%g) : {V}, {STAGED}, {V.replace('<4x', '<8x')}) "
            "{root = 0}",
            "allowed: equal types",
        ),
        (f"pto.comm.tgather(%d, recv(%a), group() : {V}, {STAGED}) {{root = 0}}", "group"),
        (
            f"pto.comm.treduce(%d, %c, recv(%a), group(%g) : {V}, {STAGED.replace(' 4x', ' 2x')}, {STAGED}, "
            f"{V}) "
            "{reduceOp = #pto<reduce_op sum>, root = 0}",
            "allowed: equal types",
        ),
        (
            "pto.comm.twait(%s, %v : !pto.partition_tensor_view<?xi32>, i32) {cmp = #pto<wait_cmp ge>}",
            "signal has extents ?; allowed: known positive ones",
        ),
        (
            "pto.comm.tnotify(%s, %v : !pto.partition_tensor_view<1xf32>, i32) "
            "{notifyOp = #pto<notify_op set>}",
            "signal has element type f32",
        ),
        ("pto.comm.tnotify(%s, %v : !pto.partition_tensor_view<1xi32>, i32)", "attribute op is missing"),
    ],
)
def test_communication_is_judged(text: str, message: str) -> None:
    try:
        found = [d.message for d in pto.verify(pto.parse(text), profile="a5") if d.severity == "error"]
    except pto.ParseError as error:
        found = [str(error)]
    assert any(message in m for m in found), found


def test_collectives_have_names_of_their_own() -> None:
    for name in ("pto.comm.tgather", "COMM_TGATHER", "comm.tgather"):
        found = isa.find(name)
        assert found is not None and found.name == "comm.tgather"
    assert isa.find("TGATHER") is not isa.find("COMM_TGATHER")
    assert isa.find("pto.comm.tput") is isa.find("tput")


def test_configuration_and_pipes_are_executed() -> None:
    assert {"tpush", "tpop", "tfree", "tpush_to_aic", "setfmatrix"} <= set(EXECUTED)
    for name in EXECUTED:
        instruction = isa.instructions()[name]
        assert instruction.executable and not any("executed?" in d.question for d in instruction.decisions)


NOT_EXECUTED = [
    i for i in isa.instructions().values() if not i.executable and (not i.type_vars or any(i.types.values()))
]


@pytest.mark.parametrize("instruction", NOT_EXECUTED, ids=lambda i: i.name)
def test_execution_ends_with_the_place_of_the_instruction(instruction: isa.Instruction) -> None:
    """Both machines share the interpreter that raises the error."""
    sample, target = next((s, p) for p in PROFILES.values() for s in legal_samples(instruction, p))
    program = pto.parse(str(to_program(sample)), file="kernel.pto")
    (op,) = (op for op in program.walk() if op.name == instruction.name)
    assert op.span is not None
    machine = ReferenceMachine(Policy(target, "ones", False), {})
    (function,) = program.functions
    with pytest.raises(pto.NotExecutableError) as found:
        launch(program, machine, function, [None] * len(function.args))
    place = f"kernel.pto:{op.span.line}:{op.span.col}: error: "
    assert str(found.value).startswith(f"{place}{instruction.name}: is not executed by this version")


ALLOCATED = """module {
func.func @main(%n: i32, %out: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
  %p = pto.initialize_l2l_pipe {dir_mask = 1, slot_size = 64, slot_num = 8, flag_base = 0}(%n : i32)
    -> !pto.pipe
  %v = pto.talloc %p {split = 0} : (!pto.pipe) -> !pto.partition_tensor_view<16x16xf32>
  return
}
}
"""


def refused_by_every_way_to_run(
    path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program is verified, and each way to run it ends with the place and the reason."""
    path.write_text(text, encoding="utf-8")
    program = pto.load(path)
    assert [d for d in pto.verify(program) if d.rule != "unwritten"] == []
    refused, out = re.escape(f"{path}:{message}"), np.zeros(4, np.float32)
    with pytest.raises(pto.NotExecutableError, match=refused):
        oracle.run(program, {"n": 0, "out": out})
    with pytest.raises(pto.NotExecutableError, match=refused):
        pto.compile(program)(0, out)
    assert main(["verify", str(path)]) == 0 and main(["run", str(path)]) == 1
    assert re.search(refused, capsys.readouterr().err)


@pytest.mark.slow
def test_a_program_with_a_slot_in_global_memory_is_verified_and_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "5:3: error: talloc: got a pipe without a cube core"
    refused_by_every_way_to_run(tmp_path / "pipe.pto", ALLOCATED, message, capsys)


@pytest.mark.filterwarnings(r"ignore:[\s\S]*nothing has written before")
@pytest.mark.parametrize(
    ("kind", "name", "op"),
    [
        ("cube", "tpush_to_aiv", f"pto.tpush_to_aiv(%t : {ACC}) {{split = 0}}"),
        ("cube", "tpop_from_aiv", f"%r = pto.tpop_from_aiv {{split = 0}} -> {MAT}"),
        ("vector", "tpush_to_aic", f"pto.tpush_to_aic(%t : {VEC}) {{split = 1}}"),
        ("vector", "tpop_from_aic", f"%r = pto.tpop_from_aic {{split = 1}} -> {VEC}"),
    ],
)
def test_a_pipe_with_one_end_is_refused(
    kind: str, name: str, op: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"""module {{
func.func @main(%n: i32, %out: !pto.ptr<f32>) attributes {{pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{
  %t = pto.alloc_tile : {ACC if kind == "cube" else VEC}
  pto.{"aic" if kind == "cube" else "aiv"}_initialize_pipe {{dir_mask = 3, slot_size = 1024}}
    (gm_slot_buffer = %out : !pto.ptr<f32>, c2v_consumer_buf = %n : i32, v2c_consumer_buf = %n : i32)
  {op}
  return
}}
}}
"""
    other = "vector" if kind == "cube" else "cube"
    message = f"6:3: error: {name}: got a pipe without a {other} core"
    refused_by_every_way_to_run(tmp_path / "half.pto", text, message, capsys)


EVENTS = """
func.func @main(%x: !pto.ptr<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %a = pto.declare_eventid_array -> !pto.eventid_array<4>
  pto.eventid_array_set %a[%c1], %c2 : !pto.eventid_array<4>
  pto.eventid_array_set %a[%n], %c1 : !pto.eventid_array<4>
  %e = pto.eventid_array_get %a[%c1] : !pto.eventid_array<4>
  %o = pto.eventid_array_get %a[%n] : !pto.eventid_array<4>
  pto.set_flag_dyn [#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_V>, %e]
  pto.wait_flag_dyn [#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_V>, %e]
  %shift = arith.muli %e, %c8 : index
  %more = arith.addi %shift, %o : index
  %v = pto.make_tensor_view %x, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.partition_view %v, offsets = [%c0, %more], sizes = [%c1, %c8]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x8xf32>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
  pto.tstore ins(%t : !pto.tile_buf<vec, 1x8xf32>) outs(%w : !pto.partition_tensor_view<1x8xf32>)
  return
}
"""


@pytest.mark.parametrize(("n", "start"), [(0, 17), (1, 9)])
def test_event_arrays_hold_what_was_set(n: int, start: int) -> None:
    """The identifiers read back move a store: element 1 is 2, or 1 where the second write meets it."""
    written = oracle.run(pto.parse(EVENTS), {"x": np.ones(32, np.float32), "n": n}, profile="cpu_sim")["x"]
    assert np.flatnonzero(written == 0).tolist() == list(range(start, start + 8))


def test_scale_tiles_have_storage_of_their_own() -> None:
    left = "!pto.tile_buf<left, 16x64xf8E4M3, blayout=col_major, slayout=row_major>"
    scale = "!pto.tile_buf<scaleleft, 16x2xf8e8m0, slayout=row_major, fractal=32>"
    program = pto.parse(f"%s = pto.tget_scale_addr %a : ({left}) -> {scale}")
    assert [d.rule for d in pto.verify(program, profile="a2a3") if d.severity == "error"].count("types") == 1
    assert all(d.severity != "error" for d in pto.verify(program, profile="a5"))
