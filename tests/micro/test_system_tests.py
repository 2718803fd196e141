"""System tests of one case per folder."""

from pathlib import Path

import pytest

from pto_jax.system_tests.run import executor, run_system_tests

KERNEL = """module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {
  func.func @numbers(%x: !pto.ptr<i64, gm>) attributes {pto.kernel} {
    %block = pto.get_block_idx
    %half = pto.get_subblock_num
    %at = arith.index_cast %block : i64 to index
    %sum = arith.addi %block, %half : i64
    pto.store_scalar %sum, %x[%at] : !pto.ptr<i64, gm>, i64
    return
  }
}
"""
GOLDEN = """import argparse, numpy as np
parser = argparse.ArgumentParser()
parser.add_argument("--output-dir")
folder = parser.parse_args().output_dir
np.zeros(4, np.int64).tofile(folder + "/v1.bin")
np.arange(1, 5).astype(np.int64).tofile(folder + "/golden_v1.bin")
"""
COMPARE = """import sys, numpy as np
sys.exit(0 if np.array_equal(np.fromfile("v1.bin", "i8"), np.fromfile("golden_v1.bin", "i8")) else 2)
"""
MAIN = """\ufeff#include "test_common.h"
namespace {
constexpr size_t kBytes = 32;
}
void LaunchNumbers(int64_t *x, void *stream);
int main() {
    int64_t *host = nullptr, *device = nullptr;
    aclrtStream stream = nullptr;
    aclrtMallocHost((void **)(&host), kBytes);
    aclrtMalloc((void **)&device, kBytes, ACL_MEM_MALLOC_HUGE_FIRST);
    size_t size = kBytes;
    char path[64];
    std::snprintf(path, sizeof(path), "./v%d.bin", 1);
    ReadFile(path, size, host, kBytes);
    aclrtMemcpy(device, kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE);
    LaunchNumbers(device, stream);
    std::fill_n(host, 4, 0);
    aclrtMemcpy(host, kBytes, device, kBytes, ACL_MEMCPY_DEVICE_TO_HOST);
    WriteFile(path, host, kBytes);
    return 0;
}
"""
LAUNCH = """typedef struct { unsigned char v; } hifloat8_t;
extern "C" __global__ [aicore] void numbers(__gm__ int64_t *x);
void LaunchNumbers(int64_t *x, void *stream) {
  numbers<<<BLOCKS, nullptr, stream>>>((__gm__ int64_t *)x);
}
"""


@pytest.mark.variants(1)
@pytest.mark.parametrize(("blocks", "kind"), [(4, "pass"), (3, "differs")])
def test_a_folder_is_a_case_of_as_many_blocks_as_it_launches(tmp_path: Path, blocks: int, kind: str) -> None:
    folder = tmp_path / "group" / "numbers"
    folder.mkdir(parents=True)
    launch = LAUNCH.replace("BLOCKS", str(blocks))
    files = {"kernel.pto": KERNEL, "golden.py": GOLDEN, "compare.py": COMPARE, "main.cpp": MAIN}
    for name, text in {**files, "launch.cpp": launch}.items():
        (folder / name).write_text(text, encoding="utf-8")
    (outcome,) = run_system_tests(tmp_path, executor("oracle")).outcomes
    assert (outcome.test, outcome.kind) == ("group/numbers", kind), outcome.message
