"""Unordered uses of the same bytes by different pipes, and everything that orders them."""

import random

import pytest

from pto_jax.analysis.addresses import Bytes
from pto_jax.api import parse, verify
from pto_jax.errors import Diagnostic
from pto_jax.ir import F8E8M0, F32, DType, Loc, Op, Pipe, TileType, Value
from pto_jax.isa.effects import pipe_of
from pto_jax.verifier.unwritten import Numbers

T = "!pto.tile_buf<vec, 16x64xf32>"
W = "!pto.partition_tensor_view<16x64xf32>"
HEAD = f"""
func.func @f(%p: !pto.ptr<f32>, %n: index, %c: i1, %x: i64) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %a0 = arith.constant 0 : i64
  %a1 = arith.constant 4096 : i64
  %a2 = arith.constant 8192 : i64
  %v = pto.make_tensor_view %p, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x?xf32> -> {W}
  %a = pto.alloc_tile addr = %a0 : {T}
  %b = pto.alloc_tile addr = %a1 : {T}
  %d = pto.alloc_tile addr = %a2 : {T}
"""


def load(tile: str) -> str:
    return f"pto.tload ins(%w : {W}) outs(%{tile} : {T})\n"


def add(dst: str, src: str) -> str:
    return f"pto.tadd ins(%{src}, %{src} : {T}, {T}) outs(%{dst} : {T})\n"


def store(tile: str) -> str:
    return f"pto.tstore ins(%{tile} : {T}) outs(%w : {W})\n"


def flag(kind: str, src: str, dst: str, event: int = 0) -> str:
    return f"pto.{kind}_flag[<PIPE_{src}>, <PIPE_{dst}>, <EVENT_ID{event}>]\n"


def sync(src: str, dst: str, event: int = 0) -> str:
    return flag("set", src, dst, event) + flag("wait", src, dst, event)


def event(kind: str, src: str, dst: str) -> str:
    a, b = f"#pto.pipe_event_type<{src}>", f"#pto.pipe_event_type<{dst}>"
    return f"pto.{kind}_event [{a}, {b}, #pto.event<EVENT_ID0>]\n"


def loop(body: str, trips: str = "%n") -> str:
    return f"scf.for %i = %c0 to {trips} step %c1 {{\n{body}}}\n"


def branch(yes: str, no: str = "") -> str:
    return f"scf.if %c {{\n{yes}}}" + (f" else {{\n{no}}}\n" if no else "\n")


def hazards(body: str, level: int | None = 3, auto_sync: bool = False) -> list[Diagnostic]:
    program = parse(HEAD + body + "return\n}", "p.pto")
    return [d for d in verify(program, "a5", level=level, auto_sync=auto_sync) if d.rule == "hazard"]


TO_V, TO_STORE, BACK = sync("MTE2", "V"), sync("V", "MTE3"), sync("MTE3", "MTE2")
PART = T.replace(">", ", valid=16x16>")
HALF_TILE = T.replace(">", ", valid=8x64>")


def indexed(name: str, col: str) -> str:
    """A handle whose valid region is a window of %a."""
    return f"%{name} = pto.tsubview %a, %c0, %{col} : ({T}, index, index) -> {PART}\n"


def of_parts(first: str, second: str) -> str:
    load = f"pto.tload ins(%w : {W}) outs(%r : {PART})\n"
    return (
        indexed("l", first) + indexed("r", second) + f"pto.tneg ins(%l : {PART}) outs(%l : {PART})\n" + load
    )


ORDERED = {
    "nothing shared": load("a") + add("d", "b"),
    "one pipe": add("b", "a") + add("d", "b") + add("a", "d"),
    "two reads": add("d", "a") + store("a"),
    "flags": load("a") + TO_V + add("d", "a") + TO_STORE + store("d"),
    "through a third pipe": load("a") + TO_V + sync("V", "MTE3", 1) + store("a"),
    "events": load("a") + event("record", "TLOAD", "TVEC") + event("wait", "TLOAD", "TVEC") + add("d", "a"),
    "barrier": load("a")
    + "pto.barrier <PIPE_ALL>\n"
    + add("d", "a")
    + "pto.barrier <PIPE_ALL>\n"
    + store("d"),
    "tsync": load("a") + "pto.tsync\n" + add("d", "a") + "pto.tsync\n" + store("d"),
    "tsync of a tile": load("a") + f"pto.tsync ins(%a : {T})\n" + add("d", "a"),
    "dynamic event": load("a")
    + "pto.set_flag_dyn [#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_V>, %n]\n"
    + "pto.wait_flag_dyn [#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_V>, %n]\n"
    + add("d", "a"),
    "buffer tokens": "pto.get_buf[#pto.pipe_event_type<TLOAD>, 0]\n"
    + load("a")
    + "pto.rls_buf[#pto.pipe_event_type<TLOAD>, 0]\npto.get_buf[#pto.pipe_event_type<TVEC>, 0]\n"
    + add("d", "a")
    + "pto.rls_buf[#pto.pipe_event_type<TVEC>, 0]\n",
    "loop": loop(load("a") + TO_V + add("d", "a") + TO_STORE + store("d") + BACK),
    "loop with flags set before it": flag("set", "V", "MTE2")
    + loop(flag("wait", "V", "MTE2") + load("a") + TO_V + add("d", "a") + flag("set", "V", "MTE2"))
    + flag("wait", "V", "MTE2"),
    "loop that executes": load("a") + loop("pto.barrier <PIPE_ALL>\n", "%c2") + add("d", "a"),
    "both branches": load("a") + branch(TO_V, "pto.barrier <PIPE_ALL>\n") + add("d", "a"),
    "load in a branch": branch(load("a")) + TO_V + add("d", "a"),
    "windows apart": f"%l = pto.subset %a[%c0, %c0] sizes [16, 16] : {T}\n"
    f"%r = pto.subset %a[%c0, %c16] sizes [16, 16] : {T}\n"
    + "pto.tneg ins(%l : !pto.tile_buf<vec, 16x16xf32>) outs(%l : !pto.tile_buf<vec, 16x16xf32>)\n"
    + "pto.tload ins(%w : !pto.partition_tensor_view<16x64xf32>) "
    "outs(%r : !pto.tile_buf<vec, 16x16xf32>)\n".replace("16x64xf32>) ", "16x64xf32>) "),
    "indexed windows apart": of_parts("c0", "c16"),
    "another run-time address in every pass": loop(
        "%j = arith.index_cast %i : index to i64\n%k = arith.muli %j, %a1 : i64\n"
        "%y = arith.addi %x, %k : i64\n"
        f"%u = pto.tassign %a, %y : {T} -> {T}\n" + load("u") + TO_V + add("d", "u")
    ),
}
UNORDERED = {
    "one run-time address in every pass": (
        loop(f"%u = pto.tassign %a, %x : {T} -> {T}\n" + load("u") + TO_V + add("d", "u")),
        ("tload", "writes %u", "V"),
    ),
    "read after write": (load("a") + add("d", "a"), ("tadd", "reads %a", "MTE2")),
    "write after read": (add("d", "a") + load("a"), ("tload", "writes %a", "V")),
    "write after write": (add("a", "d") + load("a"), ("tload", "writes %a", "V")),
    "flag of another event": (
        load("a") + flag("set", "MTE2", "V", 1) + flag("wait", "MTE2", "V", 0) + add("d", "a"),
        ("tadd", "reads %a", "MTE2"),
    ),
    "flag set too early": (
        flag("set", "MTE2", "V") + load("a") + flag("wait", "MTE2", "V") + add("d", "a"),
        ("tadd", "reads %a", "MTE2"),
    ),
    "flag to another pipe": (load("a") + sync("MTE2", "MTE3") + add("d", "a"), ("tadd", "reads %a", "MTE2")),
    "barrier of one pipe": (
        load("a") + "pto.barrier <PIPE_V>\n" + add("d", "a"),
        ("tadd", "reads %a", "MTE2"),
    ),
    "one branch only": (load("a") + branch(TO_V) + add("d", "a"), ("tadd", "reads %a", "MTE2")),
    "next pass of a loop": (
        loop(load("a") + TO_V + add("d", "a")),
        ("tload", "writes %a", "V"),
    ),
    "loop that may not execute": (
        load("a") + loop("pto.barrier <PIPE_ALL>\n") + add("d", "a"),
        ("tadd", "reads %a", "MTE2"),
    ),
    "another handle": (
        load("a")
        + "%o = pto.alloc_tile addr = %a0 : !pto.tile_buf<vec, 64x16xf32>\n"
        + "pto.tneg ins(%o : !pto.tile_buf<vec, 64x16xf32>) outs(%o : !pto.tile_buf<vec, 64x16xf32>)\n",
        ("tneg", "reads %o", "MTE2"),
    ),
    "indexed windows that meet": (of_parts("c2", "c16"), ("tload", "writes %r", "V")),
    "another shape": (
        load("a")
        + f"%o = pto.treshape %a : {T} -> !pto.tile_buf<vec, 64x16xf32>\n"
        + "pto.tneg ins(%o : !pto.tile_buf<vec, 64x16xf32>) outs(%o : !pto.tile_buf<vec, 64x16xf32>)\n",
        ("tneg", "reads %o", "MTE2"),
    ),
    "yielded tile": (
        load("a")
        + f"%y = scf.if %c -> ({T}) {{ scf.yield %a : {T} }} else {{ scf.yield %a : {T} }}\n"
        + add("d", "y"),
        ("tadd", "reads %y", "MTE2"),
    ),
    "run-time address": (
        f"%u = pto.tassign %a, %x : {T} -> {T}\n" + load("u") + add("d", "u"),
        ("tadd", "reads %u", "MTE2"),
    ),
}


@pytest.mark.parametrize("name", ORDERED)
def test_ordered_programs_give_no_warning(name: str) -> None:
    assert [str(d) for d in hazards(ORDERED[name])] == []


@pytest.mark.parametrize("name", UNORDERED)
def test_unordered_uses_are_reported_with_both_places(name: str) -> None:
    body, (instruction, use, pipe) = UNORDERED[name]
    found = hazards(body)[0]
    assert found.severity == "warning" and found.instruction == instruction
    assert use in found.message and f"on PIPE_{pipe}" in found.message and "p.pto:" in found.message
    assert found.span is not None and found.span.line > 15


def test_the_pass_of_a_loop_is_named() -> None:
    (found, *_) = hazards(UNORDERED["next pass of a loop"][0])
    assert "in an earlier pass of the loop" in found.message


def test_calls_are_followed() -> None:
    helper = f"func.func private @use(%t: {T}, %o: {T}) {{\n{add('o', 't')}return\n}}"
    call = f"func.call @use(%a, %d) : ({T}, {T}) -> ()\n"
    for between, count in (("", 1), (TO_V, 0)):
        text = f"module {{\n{HEAD}{load('a')}{between}{call}return\n}}\n{helper}\n}}"
        found = [d for d in verify(parse(text), "a5", level=3) if d.rule == "hazard"]
        assert len(found) == count


def test_the_assembler_orders_functions_without_flags_and_events() -> None:
    body = load("a") + add("d", "a")
    assert len(hazards(body)) == 1
    for more in ("", "pto.barrier <PIPE_ALL>\n", "pto.sync.set <PIPE_V>, 0\n"):
        assert hazards(body + more + store("d"), level=None) == []
        assert hazards(body + more + store("d"), auto_sync=True) == []
    for pair in (TO_STORE, event("record", "TVEC", "TSTORE_VEC") + event("wait", "TVEC", "TSTORE_VEC")):
        assert len(hazards(body + pair, level=None)) == 1 and len(hazards(body + pair, auto_sync=True)) == 1


def test_tiles_without_addresses_are_memory_of_their_own() -> None:
    bare = HEAD.replace(" addr = %a0", "").replace(" addr = %a1", "").replace(" addr = %a2", "")
    # Without the first flag the store is not ordered after the load of the same window either.
    for between, names in ((TO_STORE, ["tadd", "tstore"]), (TO_V + TO_STORE, [])):
        text = (
            bare
            + load("a")
            + between.removesuffix(TO_STORE)
            + add("d", "a")
            + TO_STORE
            + store("d")
            + "return\n}"
        )
        listed = [d for d in verify(parse(text), "a5") if d.rule == "hazard"]
        assert [d.instruction for d in listed] == names
        handle = text.replace(store("d"), f"%h = pto.bitcast %d : {T} -> {T}\n" + store("h"))
        assert [d.instruction for d in verify(parse(handle), "a5") if d.rule == "hazard"] == names


def test_a_call_between_functions_of_both_kinds_is_ordered_by_neither() -> None:
    helper = f"func.func private @use(%t: {T}, %o: {T}) {{\n{add('o', 't')}return\n}}"
    call = f"func.call @use(%a, %d) : ({T}, {T}) -> ()\n"
    for body, count in (
        (load("a") + call, 0),
        (load("a") + call + TO_STORE, 1),
        (load("a") + TO_V + call, 0),
    ):
        text = f"module {{\n{HEAD}{body}return\n}}\n{helper}\n}}"
        assert len([d for d in verify(parse(text), "a5") if d.rule == "hazard"]) == count


VIEW = "pto.partition_view %v, offsets = [{}, %c0], sizes = [{}, %c64] : !pto.tensor_view<?x?xf32> -> " + W
HALF = W.replace("16x64", "8x64")


def window(name: str, row: str, rows: str = "%c8", t: str = HALF) -> str:
    return f"%{name} = {VIEW.format(row, rows).replace(W, t)}\n"


def transfers(first: str, second: str, between: str = "", pair: str = TO_V) -> str:
    """A store of a tile, then a load of another one, and flags that order neither after the other."""
    half = T.replace(">", ", valid=8x64>")
    made = "%c8 = arith.constant 8 : index\n" + first + second + pair
    stored = f"pto.tstore ins(%a : {half}) outs(%p1 : {HALF})\n"
    loaded = f"pto.tload ins(%p2 : {HALF}) outs(%b : {half})\n"
    return made.replace("%a = ", "%a_ = ") + stored + between + loaded


GLOBAL = {
    "one window": (window("p1", "%c0"), window("p2", "%c0"), 1),
    "windows that meet": (window("p1", "%c0"), window("p2", "%c2"), 1),
    "windows apart": (window("p1", "%c0"), window("p2", "%c8"), 0),
    "one run-time row": (window("p1", "%n"), window("p2", "%n"), 1),
    "rows that only execution knows": (window("p1", "%n"), window("p2", "%c0"), 0),
}


@pytest.mark.parametrize("name", GLOBAL)
def test_a_load_of_what_a_store_wrote_needs_an_order(name: str) -> None:
    first, second, count = GLOBAL[name]
    head = HEAD.replace(
        f"%a = pto.alloc_tile addr = %a0 : {T}", f"%a = pto.alloc_tile addr = %a0 : {HALF_TILE}"
    )
    head = head.replace(
        f"%b = pto.alloc_tile addr = %a1 : {T}", f"%b = pto.alloc_tile addr = %a1 : {HALF_TILE}"
    )
    for between, reports in (("", count), (BACK, 0), ("pto.barrier <PIPE_ALL>\n", 0), (TO_STORE, count)):
        text = head + transfers(first, second, between) + "return\n}"
        listed = [d for d in verify(parse(text), "a5") if d.rule == "hazard"]
        assert [d.instruction for d in listed] == ["tload"] * reports
        assert all("global memory of %p" in d.message and "PIPE_MTE3" in d.message for d in listed)


@pytest.mark.slow
def test_windows_of_a_loop_are_others_in_every_trip() -> None:
    row = "%r = arith.muli %i, %c16 : index\n%p1 = " + VIEW.format("%r", "%c16") + "\n"
    moves = load("a").replace("%w", "%p1") + sync("MTE2", "MTE3") + store("a").replace("%w", "%p1")
    flags = flag("set", "MTE3", "MTE2", 2) + flag("wait", "MTE3", "MTE2", 2)
    same, meets = row.replace("%i", "%c0"), row.replace("%i, %c16", "%i, %c2")
    tiles = sync("V", "MTE2", 5)
    for body, at_least in ((row, 0), (same, 1), (meets, 1)):
        listed = hazards(loop(body + moves + tiles).replace("%a :", "%a :"), level=None)
        listed = [d for d in listed if "global" in d.message]
        assert len(listed) >= at_least and (at_least or not listed)
    assert [d for d in hazards(loop(same + moves + flags), level=None) if "global" in d.message] == []


def test_dependent_vector_instructions_need_a_barrier_on_a2a3_when_strict() -> None:
    def strict(body: str, profile: str = "a2a3", **options: bool) -> list[Diagnostic]:
        program = parse(HEAD + TO_V + body + "return\n}")
        return [d for d in verify(program, profile, **options) if "PIPE_V and" in d.message]  # type: ignore[arg-type]

    chain = add("d", "a") + add("b", "d")
    assert [(d.severity, d.instruction) for d in strict(chain, strict=True)] == [("error", "tadd")]
    assert "a barrier of PIPE_V" in strict(chain, strict=True)[0].message
    assert strict(chain) == [] and strict(chain, "a5", strict=True) == []
    for between in (
        "pto.barrier <PIPE_V>\n",
        "pto.barrier <PIPE_ALL>\n",
        sync("V", "MTE3") + sync("MTE3", "V"),
    ):
        assert strict(add("d", "a") + between + add("b", "d"), strict=True) == []
    assert strict(add("d", "a") + add("b", "a"), strict=True) == []
    assert len(strict(add("d", "a") + "pto.barrier <PIPE_MTE2>\n" + add("b", "d"), strict=True)) == 1


def test_moves_run_on_the_pipe_of_their_places() -> None:
    m = "!pto.tile_buf<mat, 32x32xf16, blayout=col_major, slayout=row_major>"
    left = "!pto.tile_buf<left, 32x32xf16, blayout=col_major, slayout=row_major>"
    move = (
        f"%m = pto.alloc_tile addr = %a0 : {m}\n%l = pto.alloc_tile addr = %a0 : {left}\n"
        f"pto.tmov ins(%m : {m}) outs(%l : {left})\n"
    )
    g = "!pto.partition_tensor_view<32x32xf16>"
    head = HEAD.replace("%n: index", f"%n: index, %g: {g}")
    body = move + f"pto.tload ins(%g : {g}) outs(%m : {m})\n"
    for between, count in (("", 1), (sync("MTE1", "MTE2"), 0), (sync("V", "MTE2"), 1)):
        lines = body.splitlines(keepends=True)
        text = head + "".join(lines[:3]) + between + lines[3] + "return\n}"
        assert len([d for d in verify(parse(text), "a5", level=3) if d.rule == "hazard"]) == count


@pytest.mark.parametrize(("dtype", "pipe"), [(F32, Pipe.FIX), (F8E8M0, Pipe.MTE1)])
def test_parameters_of_stores_and_scales_of_factors_take_different_pipes(dtype: DType, pipe: Pipe) -> None:
    """A tile in the scaling buffer holds the one or, of exponents, the other."""
    source, target = (Value("t", TileType(dtype, 32, 32, loc=loc)) for loc in (Loc.MAT, Loc.SCALING))
    assert pipe_of(Op("tmov", (source,), (target,), form="dps")) == pipe


@pytest.mark.nightly
@pytest.mark.slow
def test_the_index_of_addresses_finds_all_bytes_that_meet() -> None:
    """Of many tiles only those in the same blocks of addresses are compared."""
    rng = random.Random(0)
    numbers = Numbers()
    for _ in range(1500):
        begin = rng.choice((-64, 0, 4000, 200_000, 1 << 20, 1 << 40)) + rng.randrange(9000)
        span = (begin, begin + rng.choice((0, 1, 32, 5000, 300_000))) if rng.random() < 0.7 else None
        numbers.of(Bytes(f"r{rng.randrange(300)}", rng.choice((Loc.VEC, Loc.MAT)), span))
    for i, found in enumerate(numbers.known):
        meet = [j for j, other in enumerate(numbers.known) if i == j or other.overlaps(found)]
        assert sorted(numbers.near(i)) == meet


def test_a_second_handle_moves_nothing_and_denotes_the_same_bytes() -> None:
    body = add("a", "d") + f"pto.talias ins(%a : {T}) outs(%b : {T})\n"
    assert hazards(body) == []
    assert len(hazards(body + store("b"))) == 1 and hazards(body + TO_STORE + store("b")) == []
