"""Kernels in the style of the C++ that the assembler emits, written for these tests."""

HELPERS = """
// --- ptoas-generated code ---
template <typename View>
static __aicore__ inline auto PTOAS__GLOBAL_TENSOR_DATA(View &view) -> decltype(view.data()) {
    return view.data();
}
enum class PTOAutoSyncTailMode : int { kBarrierAll = 0, kSetWaitMte3ToSEvent0 = 1 };
static __aicore__ inline void
ptoas_auto_sync_tail(PTOAutoSyncTailMode mode = PTOAutoSyncTailMode::kBarrierAll) {
    switch (mode) {
    case PTOAutoSyncTailMode::kSetWaitMte3ToSEvent0:
        set_flag(PIPE_MTE3, PIPE_S, EVENT_ID0);
        break;
    default:
        pipe_barrier(PIPE_ALL);
    }
}
template <typename Ptr>
static __aicore__ inline void PTOAS__DCCI_SINGLE_CACHE_LINE(Ptr ptr) {
    dcci((__gm__ void *)ptr, cache_line_t::SINGLE_CACHE_LINE);
}
"""
HEAD = """/* A licence. */
#include <cstdint>
#ifndef __gm__
#define __gm__
#endif
#if defined(__CPU_SIM)
#define DSB_DDR 0
static inline void dsb(int) {}
#endif  // __CPU_SIM
using namespace pto;
"""


def tile(
    name: str, address: str = "0", kind: str = "float, 16, 16", place: str = "Vec", more: str = ""
) -> str:
    """A tile with run-time valid sizes v90 and v91 at an address."""
    layout = {
        "Vec": "BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512",
        "Mat": "BLayout::ColMajor, -1, -1, SLayout::RowMajor, 512",
        "Left": "BLayout::RowMajor, -1, -1, SLayout::RowMajor, 512",
        "Right": "BLayout::RowMajor, -1, -1, SLayout::ColMajor, 512",
        "Acc": "BLayout::ColMajor, -1, -1, SLayout::RowMajor, 1024",
        "Column": "BLayout::ColMajor, -1, -1, SLayout::NoneBox, 512",
    }[place]
    where = "Vec" if place == "Column" else place
    t = f"Tile<TileType::{where}, {kind}, {layout}, PadValue::{more or 'Null'}, CompactMode::Null>"
    sizes = "(v90, v92)" if place == "Column" else "(v90, v91)"
    placed = f"uint64_t {name}a = (uint64_t){address};\n    TASSIGN({name}, {name}a);\n"
    return f"{t}\n        {name} = {t}{sizes};\n    {placed}"


def view(
    name: str, pointer: str, shape: str = "1, 1, 1, 16, 16", stride: str = "256, 256, 256, 16, 1"
) -> str:
    """A view of floats with static extents."""
    s, d = f"pto::Shape<{shape}>", f"pto::Stride<{stride}>"
    t = f"GlobalTensor<float, {s}, {d}, pto::Layout::ND>"
    sizes = f"{s} {name}s = {s}();\n    {d} {name}d = {d}();\n"
    return f"{sizes}    {t}\n        {name} = {t}({pointer}, {name}s, {name}d);\n"


def kernel(
    body: str,
    args: str = "__gm__ float *v1, __gm__ float *v2, __gm__ int32_t *v3, int64_t v4, int32_t v5",
    section: str = "VEC",
    name: str = "k",
) -> str:
    """A kernel function with constants and a section."""
    return f"""
static __aicore__ void {name}({args}) {{
    const int64_t v90 = 16;
    const int64_t v91 = 16;
    const int64_t v92 = 1;
    const int64_t v93 = 0;
    const float v94 = 0.333333343f;
    const int32_t v95 = 7;
    using T = float;

#if defined(__DAV_{section}__)
    {body}
#endif  // __DAV_{section}__

    ptoas_auto_sync_tail(PTOAutoSyncTailMode::kBarrierAll);
    return;
}}
"""


def file(body: str, **options: str) -> str:
    """A whole file with one kernel."""
    return HEAD + HELPERS + kernel(body, **options)


ENTRY = """
// --- Kernel entry point ---
extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t *args) {
    int32_t __pypto_spmd_block_idx = get_block_idx(args);
    // Unpack tensor: x
    __gm__ ChipTensor *x_tensor = reinterpret_cast<__gm__ ChipTensor *>(args[0]);
    __gm__ float *x = reinterpret_cast<__gm__ float *>(x_tensor->buffer.addr) + x_tensor->start_offset;
    __gm__ float *y = reinterpret_cast<__gm__ float *>(args[1]);
    __gm__ int32_t *table = reinterpret_cast<__gm__ int32_t *>(args[2]);
    union { uint64_t u64; int64_t val; } rows_conv;
    rows_conv.u64 = args[3];
    int64_t rows = rows_conv.val;

    // Forward to ptoas-generated function
    k(x, y, table, rows, __pypto_spmd_block_idx);
}
"""
