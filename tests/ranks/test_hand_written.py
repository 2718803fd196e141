"""Kernels as users write them, with views as arguments and peers by name, beside slips of one line.

Lines have names in their comments. A slip loses, moves, doubles or edits a line; its findings are those of
two lines, by their names.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.errors import DeadlockError
from pto_jax.runtime.ranks import RankKernel

TILE = "!pto.tile_buf<vec, 1x64xf32>"
NUMBERS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "less": -1}
NAMES = {n: name for name, n in NUMBERS.items()}
#: Kinds of findings with the names of their lines; a part of a deadlock's message; "" for nothing, where a
#: slip is right, too.
Findings = set[tuple[str, str, str]]
Verdict = Findings | str


def row(name: str) -> str:
    """The type of a row: of an argument, or of a part of a larger view."""
    return f"!pto.{'partition_' if name.endswith('_p') else ''}tensor_view<1x64xf32>"


def cell(name: str) -> str:
    return row(name).replace("1x64xf32", "1xi32")


def put(dst: str, src: str, name: str = "put", more: str = "") -> str:
    return f"pto.comm.tput(%{dst}, %{src}, buf(%t) : {row(dst)}, {row(src)}, {TILE}){more} // {name}\n"


def get(dst: str, src: str, name: str = "get") -> str:
    return f"pto.comm.tget(%{dst}, %{src}, buf(%t) : {row(dst)}, {row(src)}, {TILE}) // {name}\n"


def tell(to: str, name: str = "tell", value: int = 1, how: str = "atomic_add") -> str:
    operands = f"%{to}, %{NAMES[value]} : {cell(to)}, i32"
    return f"pto.comm.tnotify({operands}) {{notifyOp = #pto<notify_op {how}>}} // {name}\n"


def wait(on_: str, name: str = "wait", value: int = 1, how: str = "ge") -> str:
    operands = f"%{on_}, %{NAMES[value]} : {cell(on_)}, i32"
    return f"pto.comm.twait({operands}) {{cmp = #pto<wait_cmp {how}>}} // {name}\n"


def fence(name: str = "fence") -> str:
    return f"pto.fence.barrier_all #pto.fence_scope<gm> // {name}\n"


def load(src: str, tile: str = "t", name: str = "load") -> str:
    return f"pto.tload ins(%{src} : {row(src)}) outs(%{tile} : {TILE}) // {name}\n"


def store(dst: str, tile: str = "t", name: str = "store", more: str = "") -> str:
    return f"pto.tstore ins(%{tile} : {TILE}) outs(%{dst} : {row(dst)}){more} // {name}\n"


def read(src: str, dst: str = "z", name: str = "read") -> str:
    return load(src, "u", name) + store(dst, "u", "keep")


def add(src: str, name: str = "add") -> str:
    """Add a row to the tile %u."""
    return load(src, "t", name) + f"pto.tadd ins(%u, %t : {TILE}, {TILE}) outs(%u : {TILE})\n"


def part(name: str, whole: str, at: str, shape: str = "1x64xf32", of: str = "4x64xf32") -> str:
    """A row of a larger view, from a row on."""
    sizes = [f"%i{n}" for n in shape.split("x")[:-1]]
    window = f"offsets = [{', '.join([f'%{at}', '%i0'][: len(sizes)])}], sizes = [{', '.join(sizes)}]"
    types = f"!pto.tensor_view<{of}> -> !pto.partition_tensor_view<{shape}>"
    return f"%{name} = pto.partition_view %{whole}, {window} : {types} // {name}\n"


def gather(ranks: int) -> str:
    """The root gets the rows of all ranks."""
    group, whole = ", ".join(f"%y{r}" for r in range(ranks)), "!pto.tensor_view<4x64xf32>"
    types = ", ".join([whole, TILE, *[row("y")] * ranks])
    return f"pto.comm.tgather(%all, recv(%t), group({group}) : {types}) {{root = 0 : i32}} // gather\n"


def session() -> str:
    scratch = "!pto.tile_buf<vec, 1x256xi8>"
    return (
        f"%sc = pto.alloc_tile : {scratch}\n"
        f"%q = pto.comm.build_async_session(%sc, %ws : {scratch}, !pto.ptr<i8>) {{sync_id = 0 : i32}} "
        "-> !pto.async_session\n"
    )


def copy(dst: str, src: str, event: str, name: str) -> str:
    """A copy that goes on beside the core."""
    return (
        f"%{event} = pto.comm.tput_async(%{dst}, %{src}, %q : {row(dst)}, {row(src)}, !pto.async_session) -> "
        f"!pto.async_event // {name}\n"
    )


def done(event: str, name: str) -> str:
    types = "!pto.async_event, !pto.async_session"
    return f"%d{event} = pto.comm.wait_async_event(%{event}, %q : {types}) -> i1 // {name}\n"


def flag(src: str, dst: str, name: str) -> str:
    kinds = ("set", "wait")
    return "".join(f"pto.{k}_flag[<PIPE_{src}>, <PIPE_{dst}>, <EVENT_ID0>] // {name}\n" for k in kinds)


def on(rank: int, body: str, otherwise: str = "") -> str:
    return f"scf.if %is{rank} {{\n{body}}}" + (f" else {{\n{otherwise}}}\n" if otherwise else "\n")


def text(arguments: str, body: str) -> str:
    """A kernel of rows, cells (behind ``|``) and other arguments (behind a second one)."""
    rows, cells, others = (*arguments.split("|"), "", "")[:3]
    given = [f"%{n}: {row('')}" for n in rows.split()] + [f"%{n}: {cell('')}" for n in cells.split()]
    given += [o.strip() for o in others.split(";") if o.strip()]
    lines = [f"%{name} = arith.constant {n} : i32" for name, n in NUMBERS.items()]
    lines += [f"%i{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 4, 64)]
    lines += [f"%is{n} = arith.cmpi eq, %rank, %{NAMES[n]} : i32" for n in range(4)]
    lines += [
        "%true = arith.constant true",
        "%r = arith.index_cast %rank : i32 to index",
        *(f"%{t} = pto.alloc_tile : {TILE}" for t in "tu"),
    ]
    head = f"func.func @k({', '.join([*given, '%rank: i32'])}) {{"
    return "\n".join(
        ['module attributes {pto.target_arch = "a5"} {', head, *lines, f"{body}return\n}}\n}}\n"]
    )


def after(n: int, *names: str) -> dict[str, Any]:
    """``far_NAME`` is the next rank's part, ``back_NAME`` that of the rank before."""
    ways = {"far": 1, "back": -1}
    return {f"{w}_{x}": (x, [(r + d) % n for r in range(n)]) for x in names for w, d in ways.items()}


def of(rank: int, *names: str) -> dict[str, Any]:
    """``NAME<rank>`` is the part of one rank."""
    return {f"{name}{rank}": (name, rank) for name in names}


class Case(NamedTuple):
    """A right kernel: its arguments, lines, ranks, peers, results by NumPy, and slips with their verdicts."""

    arguments: str
    body: str
    ranks: int
    peers: dict[str, Any]
    result: Callable[[Any], Any]
    slips: dict[tuple[str, ...], Verdict]
    types: str = "f32"
    sync: Any = "auto"
    grid: int = 1


DRAIN = "pto.fence.barrier_all #pto.fence_scope<gm>"
EARLY: Findings = {("race", "put", "read")}
LATE: Findings = {("race", "read", "put")}
UNFENCED: Findings = {("race", "put", "tell"), ("race", "put", "read")}

CASES = {
    "push": Case(
        "x y z far_y | s far_s",
        put("far_y", "x") + fence() + tell("far_s") + wait("s") + read("y"),
        3,
        after(3, "y", "s"),
        lambda x: np.roll(x, 1, 0),
        {
            ("lose", "fence"): UNFENCED,
            ("lose", "wait"): EARLY | LATE,
            ("lose", "tell"): "waits for s[0] of rank 0 ge 1, which is 0",
            ("move", "tell", "put"): EARLY,
            ("edit", "wait", "%one", "%two"): "ge 2, which is 1",
            ("edit", "wait", "%one", "%zero"): EARLY | LATE,
            ("edit", "wait", "cmp ge", "cmp le"): EARLY | LATE,
            ("edit", "wait", "cmp ge", "cmp ne"): "waits for s[0] of rank 1 ne 1, which is 1",
            ("edit", "wait", "cmp ge", "cmp gt"): "gt 1, which is 1",
            ("edit", "tell", "%far_s", "%s"): EARLY | LATE,
            ("edit", "read", "%y", "%far_y"): "",
            ("double", "put"): "",
            ("double", "tell"): "",
            ("double", "fence"): "",
        },
    ),
    # What only its own rank reaches may be on its way while a signal is told.
    "arrival": Case(
        "x z | s far_s",
        load("x", "u", "fetch") + tell("far_s") + wait("s") + store("z", "u", "keep"),
        3,
        after(3, "s"),
        lambda x: x,
        {
            ("lose", "tell"): "waits for s[0] of rank 0",
            ("move", "wait", "tell"): "3 of 3 ranks wait for ever",
            ("lose", "wait"): "",
        },
    ),
    "pull": Case(
        "x w y z far_y back_y | s back_s d far_d",
        put("y", "x", "show") + fence("shown") + tell("back_s", "ready") + wait("s", "wait")
        + get("z", "far_y") + fence("drained") + tell("far_d", "done") + wait("d", "wait for all")
        + put("y", "w", "over"),
        3,
        after(3, "y", "s", "d"),
        lambda x: np.roll(x, -1, 0),
        {
            ("lose", "shown"): {("race", "show", "ready"), ("race", "show", "get")},
            ("lose", "wait"): {("race", "show", "get"), ("race", "get", "show")},
            ("lose", "drained"): {("race", "get", "done"), ("race", "get", "over")},
            ("lose", "wait for all"): {("race", "get", "over"), ("race", "over", "get")},
            ("lose", "done"): "waits for d[0] of rank 0 ge 1, which is 0",
            ("move", "done", "get"): {("race", "get", "over")},
            ("edit", "get", "%far_y", "%y"): "",
            ("edit", "ready", "back_s", "far_d"): "for ever",
        },
    ),
    "load from there, store there": Case(
        "x y z far_x far_y | s far_s",
        load("far_x", "t", "fetch") + store("far_y", "t", "put") + fence() + tell("far_s")
        + wait("s") + read("y"),
        3,
        after(3, "x", "y", "s"),
        lambda x: x,
        {
            ("lose", "fence"): UNFENCED | {("race", "fetch", "tell")},
            ("lose", "wait"): EARLY | LATE,
            ("edit", "put", "%far_y", "%far_x"): "",
            ("edit", "put", "%far_y", "%x"): {("race", "put", "fetch"), ("race", "fetch", "put")},
        },
    ),
    "a token from rank to rank": Case(
        "x acc0 z | s far_s",
        on(0, "", wait("s", "turn"))
        + load("acc0", "u", "take") + add("x", "own") + store("acc0", "u", "give") + fence()
        + tell("far_s", "pass") + on(0, wait("s", "end") + read("acc0")),
        4,
        of(0, "acc") | after(4, "s"),
        lambda x: x.sum(0, keepdims=True),
        {
            ("lose", "fence"): {("race", "give", "pass"), ("race", "take", "pass"), ("race", "give", "take"),
                                ("race", "give", "give"), ("race", "take", "give"),
                                ("race", "give", "read")},
            ("lose", "turn"): {("race", "give", "take"), ("race", "give", "give"), ("race", "take", "give"),
                               ("race", "give", "read")},
            ("lose", "pass"): "waits for s[0] of rank 1 ge 1",
            ("lose", "end"): {("race", "read", "give")},
            ("edit", "pass", "%far_s", "%s"): "for ever",
        },
    ),
    "a row for everyone at the root": Case(
        "x z | c0 c | %all0: !pto.tensor_view<4x64xf32>; %all: !pto.tensor_view<4x64xf32>",
        part("mine_p", "all0", "r") + put("mine_p", "x") + fence() + tell("c0")
        + on(0, wait("c", "wait", 4) + part("last_p", "all", "i3") + read("last_p")),
        4,
        of(0, "all", "c"),
        lambda x: x[3:],
        {
            ("lose", "fence"): UNFENCED,
            ("edit", "wait", "%four", "%three"): EARLY,
            ("edit", "wait", "%four", "%five"): "ge 5, which is 4",
            ("edit", "wait", "cmp ge", "cmp eq"): "",
            ("edit", "mine_p", "[%r,", "[%i3,"): {("race", "put", "put")},
        },
    ),
    "two producers": Case(
        "x y y0 v v0 z | a a0 b b0",
        on(1, put("y0", "x", "first") + fence("f1") + tell("a0", "tell first"))
        + on(2, put("v0", "x", "second") + fence("f2") + tell("b0", "tell second"))
        + on(0, wait("a", "wait first") + wait("b", "wait second") + load("y", "u", "read first")
             + add("v", "read second") + store("z", "u", "keep")),
        3,
        of(0, "y", "v", "a", "b"),
        lambda x: x[1:2] + x[2:],
        {
            ("lose", "wait first"): {("race", "first", "read first")},
            ("lose", "wait second"): {("race", "second", "read second")},
            ("edit", "tell second", "%b0", "%a0"): "waits for b[0] of rank 0 ge 1, which is 0",
            ("edit", "second", "%v0", "%y0"): {("race", "first", "second")},
            ("move", "wait first", "read second"): {("race", "first", "read first")},
            ("lose", "f2"): {("race", "second", "tell second"), ("race", "second", "read second")},
        },
    ),
    "relay": Case(
        "x y y1 y2 z | s s1 s2",
        on(0, put("y1", "x", "first") + fence("f1") + tell("s1", "tell first"))
        + on(1, wait("s", "relayed") + put("y2", "y", "second") + fence("f2") + tell("s2", "tell second"))
        + on(2, wait("s", "arrived") + read("y")),
        3,
        of(1, "y", "s") | of(2, "y", "s"),
        lambda x: np.stack([0 * x[0], 0 * x[0], x[0]]),
        {
            ("lose", "f1"): {("race", "first", "tell first"), ("race", "first", "second")},
            ("lose", "f2"): {("race", "second", "tell second"), ("race", "second", "read")},
            ("lose", "relayed"): {("race", "first", "second")},
            ("lose", "arrived"): {("race", "second", "read")},
            ("edit", "tell first", "%s1", "%s2"): "waits for s[0] of rank 1",
        },
    ),
    "request and reply": Case(
        "x y y0 y1 z | s s0 s1",
        on(0, put("y1", "x", "ask") + fence("asked") + tell("s1", "tell ask")
           + wait("s", "wait reply") + read("y"))
        + on(1, wait("s", "wait ask") + load("y", "u", "take") + add("x", "own") + store("y0", "u", "reply")
             + fence("replied") + tell("s0", "tell reply")),
        2,
        of(0, "y", "s") | of(1, "y", "s"),
        lambda x: x.sum(0, keepdims=True),
        {
            ("lose", "asked"): {("race", "ask", "tell ask"), ("race", "ask", "take")},
            ("lose", "wait ask"): {("race", "ask", "take")},
            ("lose", "replied"): {("race", "reply", "tell reply"), ("race", "reply", "read"),
                                  ("race", "take", "tell reply")},
            ("move", "wait reply", "ask"): "deadlock: 2 of 2 ranks wait for ever",
            ("edit", "read", "%y", "%y1"): "",
        },
    ),
    "steps of three": Case(
        "x y y0 v v0 z | c c0",
        on(1, put("y0", "x", "first") + fence("f1") + tell("c0", "tell first", 3))
        + on(2, put("v0", "x", "second") + fence("f2") + tell("c0", "tell second", 3))
        + on(0, wait("c", "wait", 6) + load("y", "u", "read first") + add("v", "read second")
             + store("z", "u", "keep")),
        3,
        of(0, "y", "v", "c"),
        lambda x: x[1:2] + x[2:],
        {
            ("edit", "wait", "%six", "%four"): "",
            ("edit", "wait", "%six", "%three"): {("race", "first", "read first"),
                                                 ("race", "second", "read second")},
            ("edit", "tell second", "%three", "%one"): "ge 6, which is 4",
            ("edit", "tell second", "%three", "%six"): {("race", "first", "read first")},
            ("edit", "tell second", "op atomic_add", "op set"): "ge 6, which is 3",
        },
    ),
    "a cell for everyone": Case(
        "x z | | %all0: !pto.tensor_view<4x64xf32>; %all: !pto.tensor_view<4x64xf32>; "
        "%c0: !pto.tensor_view<4xi32>; %c: !pto.tensor_view<4xi32>",
        part("mine_p", "all0", "r") + part("sig_p", "c0", "r", "1xi32", "4xi32")
        + put("mine_p", "x") + fence() + tell("sig_p")
        + on(0, part("wait", "c", "i0", "4xi32", "4xi32").replace("%wait", "%some")
             + wait("some_p").replace("%some_p", "%some").replace("w<1xi32>", "w<4xi32>")
             + part("last_p", "all", "i3") + read("last_p")),
        4,
        of(0, "all", "c"),
        lambda x: x[3:],
        {
            ("lose", "wait"): LATE,
            ("edit", "wait", "[%i4]", "[%i3]", "partition_tensor_view<4", "partition_tensor_view<3"): EARLY,
            ("edit", "sig_p", "[%r]", "[%i0]"): "for ever",
            ("edit", "wait", "cmp ge", "cmp eq"): "",
        },
    ),
    "sums of whole numbers": Case(
        "x acc acc0 z | c c0",
        put("acc0", "x", "put", " {atomicType = #pto<atomic_type atomic_add>}") + fence() + tell("c0")
        + on(0, wait("c", "wait", 4) + read("acc")),
        4,
        of(0, "acc", "c"),
        lambda x: x.sum(0, keepdims=True),
        {
            ("edit", "put", "atomic_add", "atomic_none"): {("race", "put", "put")},
            ("edit", "wait", "%four", "%two"): EARLY,
            ("lose", "fence"): UNFENCED,
        },
        "i32",
    ),
    "everyone tells everyone": Case(
        "x y z far_y | s s0 s1 s2",
        put("far_y", "x") + fence() + "".join(tell(f"s{r}", f"tell {r}") for r in range(3))
        + wait("s", "wait", 3) + read("y"),
        3,
        of(0, "s") | of(1, "s") | of(2, "s") | after(3, "y"),
        lambda x: np.roll(x, 1, 0),
        {
            ("lose", "tell 1"): "waits for s[0] of rank 1 ge 3, which is 0",
            ("edit", "wait", "%three", "%two"): EARLY,
            # A signal has a barrier behind it, which publishes nothing.
            ("move", "fence", "wait"): {("race", "put", "tell 0"), ("visibility", "put", "tell 1"),
                                        ("visibility", "put", "tell 2"), ("race", "put", "read")},
            ("move", "tell 2", "put"): EARLY,
        },
    ),
    "a root that gathers": Case(
        "x y z y0 y1 y2 | c c0 d d1 d2 | %all: !pto.tensor_view<4x64xf32>",
        put("y", "x", "show") + fence("shown") + tell("c0", "ready")
        + on(0, wait("c", "wait", 3)
             + gather(3) + fence("drained") + tell("d1", "free 1") + tell("d2", "free 2")
             + part("last_p", "all", "i2") + read("last_p"),
             wait("d", "wait for the root") + put("y", "x", "over")),
        3,
        of(0, "y", "c") | of(1, "y", "d") | of(2, "y", "d"),
        lambda x: x[2:],
        {
            ("lose", "shown"): {("race", "show", "ready"), ("race", "show", "gather")},
            ("edit", "wait", "%three", "%two"): {("race", "show", "gather")},
            ("lose", "drained"): {("race", "gather", "free 1"), ("race", "gather", "over")},
            ("lose", "wait for the root"): {("race", "over", "gather")},
            ("lose", "free 2"): "waits for d[0] of rank 2 ge 1, which is 0",
        },
    ),
    "two copies of the engine": Case(
        "x y z far_y v far_v | s far_s | %ws: !pto.ptr<i8>",
        session() + copy("far_y", "x", "e", "first") + copy("far_v", "x", "f", "second") + done("f", "over")
        + fence() + tell("far_s") + wait("s") + load("y", "u", "read") + add("v", "read second")
        + store("z", "u", "keep"),
        2,
        after(2, "y", "v", "s"),
        lambda x: 2 * np.roll(x, 1, 0),
        {
            ("edit", "over", "(%f,", "(%e,"): {("race", "second", "read second")},
            ("lose", "over"): {("race", "first", "read"), ("race", "second", "read second")},
            ("move", "tell", "over"): {("race", "first", "read"), ("race", "second", "read second")},
            ("lose", "wait"): {("race", "first", "read"), ("race", "second", "read second"),
                               ("race", "read", "first"), ("race", "read second", "second")},
        },
    ),
    "a poll": Case(
        "x y z y1 | s s1",
        on(0, put("y1", "x") + fence() + tell("s1"))
        + on(1, "scf.while () : () -> () {\n"
             + wait("s", "poll").replace("pto.comm.twait", "%there = pto.comm.ttest")
             .replace(" //", " -> i1 //")
             + "%again = arith.xori %there, %true : i1\nscf.condition(%again)\n} do {\nscf.yield\n}\n"
             + read("y")),
        2,
        of(1, "y", "s"),
        lambda x: np.stack([0 * x[0], x[0]]),
        {
            ("lose", "fence"): UNFENCED,
            ("lose", "tell"): "for ever",
            ("edit", "poll", "%one", "%two"): "for ever",
            ("edit", "poll", "%one", "%zero"): EARLY,
        },
    ),
    "flags and signals": Case(
        "x z far_y y | s far_s",
        load("x", "t", "fetch") + flag("MTE2", "MTE3", "f") + store("far_y", "t", "put") + fence()
        + tell("far_s")
        + wait("s") + load("y", "u", "read") + flag("MTE2", "MTE3", "g") + store("z", "u", "keep"),
        2,
        after(2, "y", "s"),
        lambda x: np.roll(x, 1, 0),
        {
            ("lose", "f"): {("race", "fetch", "put")},
            ("lose", "g"): {("race", "read", "keep")},
            ("edit", "fence", DRAIN, "pto.barrier <PIPE_ALL>"): {("visibility", "put", "tell")},
            ("edit", "fence", DRAIN, "pto.barrier <PIPE_MTE2>"): UNFENCED,
        },
        sync="as-written",
    ),
    "blocks of a rank": Case(
        "| s far_s | %x: !pto.tensor_view<4x64xf32>; %y: !pto.tensor_view<4x64xf32>; "
        "%far_y: !pto.tensor_view<4x64xf32>; %z: !pto.tensor_view<4x64xf32>; %__pypto_spmd_block_idx: i32",
        "%b = arith.index_cast %__pypto_spmd_block_idx : i32 to index\n"
        + part("x_p", "x", "b") + part("far_p", "far_y", "b") + put("far_p", "x_p") + fence() + tell("far_s")
        + wait("s", "wait", 4)
        + part("y_p", "y", "b") + part("z_p", "z", "b") + read("y_p", "z_p"),
        2,
        after(2, "y", "s"),
        lambda x: np.roll(x, 1, 0),
        {
            ("lose", "fence"): UNFENCED,
            ("edit", "wait", "%four", "%three"): EARLY,
            ("edit", "wait", "%four", "%five"): "ge 5, which is 4",
            ("edit", "far_p", "[%b", "[%i0"): {("race", "put", "put")},
        },
        grid=4,
    ),
}  # fmt: skip


def slipped(body: str, slip: tuple[str, ...]) -> str:
    """The lines with one slip."""
    lines = body.splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if line.endswith(f"// {slip[1]}\n")]
    match slip[0]:
        case "lose":
            lines = [line for i, line in enumerate(lines) if i not in at]
        case "double":
            lines.insert(at[0], lines[at[0]])
        case "move":
            moved = lines.pop(at[0])
            lines.insert(next(i for i, line in enumerate(lines) if line.endswith(f"// {slip[2]}\n")), moved)
        case _:
            for old, new in zip(slip[2::2], slip[3::2], strict=True):
                assert any(old in lines[i] for i in at), (old, slip)
                lines = [line.replace(old, new) if i in at else line for i, line in enumerate(lines)]
    assert lines != body.splitlines(keepends=True)
    return "".join(lines)


def made(name: str, slip: tuple[str, ...] = (), **options: Any) -> tuple[str, RankKernel, dict[str, Any]]:
    """The text of a case, its kernel and its arguments."""
    case = CASES[name]
    k = text(case.arguments, slipped(case.body, slip) if slip else case.body)
    k = k.replace("xf32", f"x{case.types}")
    program = pto.parse(k, file=f"{name.replace(' ', '_')}.pto")
    shapes = {a.name: getattr(a.type, "dims", (4096,)) for a in program.functions[0].args}
    peers = {n: p for n, p in case.peers.items() if n in shapes}
    kernel: RankKernel = pto.compile(
        program, ranks=case.ranks, peers=peers, warn=False, grid=case.grid, partial_launch=True, **options
    )
    shapes |= {buffer: shapes[n] for n, (buffer, _) in peers.items()}
    rng, values = np.random.default_rng(5), dict[str, Any]()
    for n, d in kernel.buffers.items():
        assert d is not None
        values[n] = np.zeros((case.ranks, *shapes[n]), d.numpy)
    for n in {"x", "w"} & values.keys():
        values[n] = rng.integers(-9, 10, values[n].shape).astype(values[n].dtype)
    return k, kernel, {**values, "rank": np.arange(case.ranks)}


@pytest.mark.variants(3)
@pytest.mark.parametrize("name", CASES)
def test_a_right_kernel_is_exact_and_has_the_result_of_its_replay(name: str) -> None:
    _, kernel, values = made(name, engine="interpreter")
    report = kernel.judge(values, CASES[name].sync)
    assert report.exact, str(report)
    x = values["x"]
    expected = CASES[name].result(x.reshape(len(x), -1, 64).squeeze())
    results = [kernel(**values)["z"], made(name)[1](**values)["z"]]
    results += [made(name, engine="interpreter", schedule=seed)[1](**values)["z"] for seed in range(4)]
    for result in results:
        np.testing.assert_array_equal(np.asarray(result)[: len(expected)].reshape(expected.shape), expected)


@pytest.mark.parametrize(("name", "slip"), [(n, slip) for n, case in CASES.items() for slip in case.slips])
def test_a_slip_is_found_with_its_lines(name: str, slip: tuple[str, ...]) -> None:
    k, kernel, values = made(name, slip, engine="interpreter")
    verdict = CASES[name].slips[slip]
    if isinstance(verdict, str) and verdict:
        with pytest.raises(DeadlockError) as error:
            kernel(**values)
        assert verdict in str(error.value)
        return
    lines = k.splitlines()
    listed = {
        (f.kind, *(lines[p.span.line - 1].rpartition(" // ")[2] for p in (f.first, f.second)))  # type: ignore[union-attr]
        for f in kernel.judge(values, CASES[name].sync).findings
    }
    assert listed == (verdict or set())
