"""Threads of a block that meet at barriers, as contexts of one thread of this machine.

Hundreds of threads of the operating system that wait for each other take milliseconds per barrier; a change
of context is a call. A thread that arrives at a barrier goes on with the next one, and the last to arrive
with itself. A barrier that not every thread reaches is noticed: nobody can go on.
"""

import ctypes
from typing import Any

import numpy as np

#: A barrier is three numbers: threads that have arrived, how often all have, and how many all are.
BARRIERS = """@pto_block = global [3 x i32] zeroinitializer
@pto_warps = global [32 x [3 x i32]] zeroinitializer
@pto_exchange = global [1024 x i32] zeroinitializer
@pto_contexts = global ptr null
@pto_bytes = global i64 0
@pto_threads = global i32 0
@pto_current = global i32 0
@pto_waits = global i32 0
@pto_stuck = global i32 0
@pto_ended = global [1024 x i32] zeroinitializer
@pto_buffers = global [64 x ptr] zeroinitializer
declare i32 @swapcontext(ptr, ptr)
define ptr @pto_context(i32 %t) {
 %base = load ptr, ptr @pto_contexts
 %bytes = load i64, ptr @pto_bytes
 %number = zext i32 %t to i64
 %offset = mul i64 %number, %bytes
 %p = getelementptr i8, ptr %base, i64 %offset
 ret ptr %p
}
define void @pto_yield() {
entry:
 %t = load i32, ptr @pto_current
 %n = load i32, ptr @pto_threads
 %t1 = add i32 %t, 1
 %around = icmp eq i32 %t1, %n
 %waits = load i32, ptr @pto_waits
 %waits1 = add i32 %waits, 1
 store i32 %waits1, ptr @pto_waits
 %limit = mul i32 %n, 4
 %stuck = icmp ugt i32 %waits1, %limit
 %following = select i1 %around, i32 0, i32 %t1
 %next = select i1 %stuck, i32 %n, i32 %following
 %flag = zext i1 %stuck to i32
 store i32 %flag, ptr @pto_stuck
 store i32 %next, ptr @pto_current
 %own = call ptr @pto_context(i32 %t)
 %other = call ptr @pto_context(i32 %next)
 %r = call i32 @swapcontext(ptr %own, ptr %other)
 ret void
}
define void @pto_wait(ptr %arrivals) {
entry:
 store i32 0, ptr @pto_waits
 %rounds = getelementptr i32, ptr %arrivals, i32 1
 %size = getelementptr i32, ptr %arrivals, i32 2
 %count = load i32, ptr %arrivals
 %all = load i32, ptr %size
 %round = load i32, ptr %rounds
 %count1 = add i32 %count, 1
 %last = icmp eq i32 %count1, %all
 br i1 %last, label %open, label %hold
open:
 store i32 0, ptr %arrivals
 %round1 = add i32 %round, 1
 store i32 %round1, ptr %rounds
 ret void
hold:
 store i32 %count1, ptr %arrivals
 br label %again
again:
 call void @pto_yield()
 %now = load i32, ptr %rounds
 %same = icmp eq i32 %now, %round
 br i1 %same, label %again, label %end
end:
 ret void
}
define void @pto_barrier() {
 call void @pto_wait(ptr @pto_block)
 ret void
}
define void @pto_warp_barrier(i32 %t) {
 %w = lshr i32 %t, 5
 %b = getelementptr [32 x [3 x i32]], ptr @pto_warps, i32 0, i32 %w
 call void @pto_wait(ptr %b)
 ret void
}
define i32 @pto_start() {
entry:
 %n = load i32, ptr @pto_threads
 %own = call ptr @pto_context(i32 %n)
 br label %thread
thread:
 %t = phi i32 [ 0, %entry ], [ %t, %go ], [ %t1, %following ]
 %place = getelementptr [1024 x i32], ptr @pto_ended, i32 0, i32 %t
 %ended = load i32, ptr %place
 %over = icmp ne i32 %ended, 0
 br i1 %over, label %following, label %go
go:
 store i32 %t, ptr @pto_current
 %other = call ptr @pto_context(i32 %t)
 %r = call i32 @swapcontext(ptr %own, ptr %other)
 %stuck = load i32, ptr @pto_stuck
 %bad = icmp ne i32 %stuck, 0
 br i1 %bad, label %end, label %thread
following:
 %t1 = add i32 %t, 1
 %more = icmp slt i32 %t1, %n
 br i1 %more, label %thread, label %end
end:
 %result = phi i32 [ 0, %following ], [ 1, %go ]
 ret i32 %result
}
"""
#: Bytes of a thread's stack and of a context, more than any system's; threads of a warp.
_STACK, _CONTEXT, _WARP = 1 << 18, 8192, 32


class _Context(ctypes.Structure):
    """The beginning of libc's ``ucontext_t`` on Linux."""

    _fields_ = (
        ("flags", ctypes.c_ulong),
        ("link", ctypes.c_void_p),
        ("stack", ctypes.c_void_p),
        ("stack_flags", ctypes.c_int),
        ("stack_bytes", ctypes.c_size_t),
    )


def entry(symbol: str, buffers: int) -> str:
    """The function that a thread of a cooperative kernel begins with, given its number."""
    loads = "".join(
        f" %a{i} = getelementptr [64 x ptr], ptr @pto_buffers, i32 0, i32 {i}\n %p{i} = load ptr, ptr %a{i}\n"
        for i in range(buffers)
    )
    names = "".join(f"ptr %p{i}, " for i in range(buffers))
    return f"""define void @enter_{symbol}(i32 %t) {{
{loads} call void @run_{symbol}({names}i32 %t)
 %place = getelementptr [1024 x i32], ptr @pto_ended, i32 0, i32 %t
 store i32 1, ptr %place
 ret void
}}
"""


def run(engine: Any, symbol: str, threads: int, buffers: list[int]) -> bool:
    """Execute the threads of a kernel on buffers at these addresses; False: some wait for ever."""
    libc = ctypes.CDLL(None)
    contexts = np.zeros((threads + 1, _CONTEXT), np.uint8)
    stacks = np.empty((threads, _STACK), np.uint8)
    start = ctypes.c_void_p(engine.get_function_address(f"enter_{symbol}"))
    for t in range(threads):
        place = contexts[t].ctypes.data
        libc.getcontext(ctypes.c_void_p(place))
        context = _Context.from_address(place)
        context.link = contexts[threads].ctypes.data
        context.stack, context.stack_bytes = stacks[t].ctypes.data, _STACK
        libc.makecontext(ctypes.c_void_p(place), start, 1, t)
    warps = -(-threads // _WARP)
    counts = [threads, *(min(_WARP, threads - _WARP * i) for i in range(warps))]
    _numbers(engine, "pto_block", 3)[:] = 0, 0, counts[0]
    _numbers(engine, "pto_warps", 3 * warps)[:] = [n for count in counts[1:] for n in (0, 0, count)]
    _numbers(engine, "pto_ended", threads)[:] = [0] * threads
    for name, number in (("pto_threads", threads), ("pto_waits", 0), ("pto_stuck", 0)):
        _numbers(engine, name, 1)[0] = number
    _addresses(engine, "pto_contexts", 1)[0] = contexts.ctypes.data
    _addresses(engine, "pto_bytes", 1)[0] = _CONTEXT
    _addresses(engine, "pto_buffers", len(buffers))[:] = buffers
    begin = ctypes.CFUNCTYPE(ctypes.c_int32)(engine.get_function_address("pto_start"))
    return int(begin()) == 0


def _numbers(engine: Any, name: str, count: int) -> Any:
    return (ctypes.c_int32 * count).from_address(engine.get_global_value_address(name))


def _addresses(engine: Any, name: str, count: int) -> Any:
    return (ctypes.c_uint64 * count).from_address(engine.get_global_value_address(name))
