"""Lines of programs that order their pipes by hand, and what the check says about them."""

from pto_jax.analysis.resolve import resolve
from pto_jax.api import parse
from pto_jax.order import Finding, event_numbers, hangs, judge, judged_program
from pto_jax.profiles import profile as profile_of

T = "!pto.tile_buf<vec, 16x64xf32>"
W = "!pto.partition_tensor_view<16x64xf32>"
MAT = "!pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>"
LEFT = "!pto.tile_buf<left, 16x16xf16, blayout=row_major, slayout=row_major>"
RIGHT = "!pto.tile_buf<right, 16x16xf16, blayout=row_major, slayout=col_major>"
ACC = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
G = "!pto.partition_tensor_view<16x16xf16>"
F = "!pto.partition_tensor_view<16x16xf32>"
SIG = "!pto.partition_tensor_view<1xi32>"
IDX = "!pto.tile_buf<vec, 1x64xi32>"
HEAD = f"""
func.func @f(%p: !pto.ptr<f32>, %q: !pto.ptr<f32>, %g: {G}, %h: {F}, %sig: {SIG}, %n: index, %c: i1,
             %one: i32, %words: !pto.ptr<i32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %a0 = arith.constant 0 : i64
  %a1 = arith.constant 4096 : i64
  %a2 = arith.constant 8192 : i64
  %a3 = arith.constant 12288 : i64
  %v = pto.make_tensor_view %p, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x?xf32> -> {W}
  %v2 = pto.make_tensor_view %q, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %o = pto.partition_view %v2, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x?xf32> -> {W}
  %a = pto.alloc_tile addr = %a0 : {T}
  %b = pto.alloc_tile addr = %a1 : {T}
  %d = pto.alloc_tile addr = %a2 : {T}
  %e = pto.alloc_tile addr = %a3 : {T}
  %m = pto.alloc_tile addr = %a0 : {MAT}
  %m2 = pto.alloc_tile addr = %a1 : {MAT}
  %acc = pto.alloc_tile addr = %a0 : {ACC}
  %i = pto.alloc_tile addr = %a1 : {IDX}
"""
BARRIER = "pto.barrier <PIPE_ALL>\n"
FENCE = "pto.fence.barrier_all #pto.fence_scope<all>\n"


def load(tile: str, view: str = "w") -> str:
    return f"pto.tload ins(%{view} : {W}) outs(%{tile} : {T})\n"


def add(dst: str, src: str, other: str = "") -> str:
    return f"pto.tadd ins(%{src}, %{other or src} : {T}, {T}) outs(%{dst} : {T})\n"


def store(tile: str, view: str = "o") -> str:
    return f"pto.tstore ins(%{tile} : {T}) outs(%{view} : {W})\n"


def set_(src: str, dst: str, event: int = 0) -> str:
    return f"pto.set_flag[<PIPE_{src}>, <PIPE_{dst}>, <EVENT_ID{event}>]\n"


def wait(src: str, dst: str, event: int = 0) -> str:
    return set_(src, dst, event).replace("set_", "wait_", 1)


def sync(src: str, dst: str, event: int = 0) -> str:
    return set_(src, dst, event) + wait(src, dst, event)


def dynamic(kind: str, src: str, dst: str, event: str) -> str:
    return f"pto.{kind}_flag_dyn [#pto.pipe<PIPE_{src}>, #pto.pipe<PIPE_{dst}>, {event}]\n"


def loop(body: str, trips: str = "%n") -> str:
    return f"scf.for %k = %c0 to {trips} step %c1 {{\n{body}}}\n"


def branch(yes: str, no: str = "", condition: str = "%c") -> str:
    return f"scf.if {condition} {{\n{yes}}}" + (f" else {{\n{no}}}\n" if no else "\n")


def buffer(kind: str, what: str, number: int = 3) -> str:
    return f"pto.{kind}_buf[#pto.pipe_event_type<{what}>, {number}]\n"


def section(kind: str, body: str) -> str:
    return f"pto.section.{kind} {{\n{body}}}\n"


#: Some flag, so that nothing is inserted.
FLAG = sync("V", "M", 7)


def judged(
    body: str, profile: str = "a2a3", *, as_written: bool = True, strict: bool = False
) -> list[Finding]:
    """The findings about a body behind :data:`HEAD`."""
    text = body if "func.func" in body else HEAD + body + "return\n}"
    resolved = resolve(parse(text, "k.pto"), profile_of(profile))
    stops = hangs(judged_program(resolved))
    return [*judge(resolved, as_written=as_written, vector=strict), *event_numbers(resolved.program), *stops]


def told(found: list[Finding]) -> list[str]:
    """Kinds, with the pipes of races."""
    return [
        f"race {f.first.pipe[5:]}->{f.second.pipe[5:]}"
        if f.kind == "race" and f.second is not None
        else f.kind
        for f in found
    ]
