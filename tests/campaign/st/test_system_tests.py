"""System tests of the assembler's form: found, generated, executed and judged by their own comparison."""

import json
import sys
from pathlib import Path

import pytest

from pto_jax.cli.main import main
from pto_jax.errors import FileError
from pto_jax.system_tests import cpp_program
from pto_jax.system_tests.cpp_program import Pointer, read
from pto_jax.system_tests.host import HostProgram
from pto_jax.system_tests.run import executor, run_system_tests, system_tests

HOST = """
#include "acl/acl.h"
#define CHECK(call)                           \\
    do {                                      \\
        const aclError status = (call);       \\
        if (status != ACL_SUCCESS) {          \\
            goto cleanup;                     \\
        }                                     \\
    } while (0)
void LaunchAdd_eight(float *x, float *y, float *z, void *stream);
using Launch = void (*)(float *, float *, float *, void *);
enum class Kind { Plain, Other = 4 };
struct Case {
    const char *name;
    union { Launch plain; void (*other)(float *, float *, float *, void *); };
    Kind kind = Kind::Plain;
    size_t count;
    size_t right;
};
static const Case kCases[] = {
    {"eight", LaunchAdd_eight, Kind::Plain, 8, 8},  // the first
    {"sixteen", .other = LaunchAdd_sixteen, Kind::Other, 16, 8 + 16},
};
static constexpr size_t kCount = sizeof(kCases) / sizeof(kCases[0]);
static int RunCase(const Case &c, aclrtStream stream) {
    int rc = 1;
    const size_t sizes[] = {c.count * sizeof(float), c.right * sizeof(float), c.count * sizeof(float)};
    void *host[3] = {}; void *device[3] = {};
    const std::string folder = std::string("./") + c.name;
    const char *names[] = {"left", "right"};
    size_t size = 0;
    for (size_t i = 0; i < 3; ++i) {
        aclrtMallocHost(&host[i], sizes[i]);
        CHECK(aclrtMalloc((void **)&device[i], sizes[i], ACL_MEM_MALLOC_HUGE_FIRST));
    }
    for (size_t i = 0; i < 2; i++) {
        if (!ReadFile(folder + "/" + names[i] + ".bin", size, host[i], sizes[i])) {
            std::fprintf(stderr, "no %s.bin\\n", names[i]);
            goto cleanup;
        }
        CHECK(aclrtMemcpy(device[i], sizes[i], host[i], size, ACL_MEMCPY_HOST_TO_DEVICE));
    }
    switch (c.kind) {
        case Kind::Plain:
            c.plain(static_cast<float *>(device[0]), (float *)device[1], (float *)device[2], stream);
            break;
        default: {
            Launch launch = reinterpret_cast<Launch>(c.other);
            launch((float *)device[0], (float *)device[1], (float *)device[2], stream);
        }
    }
    aclrtMemcpy(host[2], sizes[2], device[2], sizes[2], ACL_MEMCPY_DEVICE_TO_HOST);
    rc = WriteFile((folder + "/output.bin").c_str(), host[2], sizes[2]) ? 0 : 2;
cleanup:
    for (void *memory : device) { if (memory != nullptr) { aclrtFree(memory); } }
    return rc;
}
int main(int argc, char *argv[]) {
    const char *only = (argc > 1) ? argv[1] : nullptr;
    int rc = 0;
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);
    for (size_t i = 0; i < kCount; ++i) {
        if (only != nullptr && std::strcmp(kCases[i].name, only) != 0) { continue; }
        rc = RunCase(kCases[i], stream);
        if (rc != 0) { break; }
    }
    return rc;
}
"""
WRAPPERS = """
static constexpr float FACTOR = 2.0f;
extern "C" __global__ AICORE void Add_eight(__gm__ float *c, __gm__ float *a, __gm__ float *b, float f);
void LaunchAdd_eight(float *x, float *y, float *z, void *stream) {
    Add_eight<<<1, nullptr, stream>>>((__gm__ float *)z, (__gm__ float *)x, (__gm__ float *)y, FACTOR);
}
void LaunchAdd_sixteen(float *x, float *y, float *z, void *stream) {
    float *rest = (float *)y;
    Add_sixteen<<<1, nullptr, stream>>>(
        (__gm__ float *)z, (__gm__ float *)x, (__gm__ float *)(rest + 2 * 4), 2.0f);
}
"""
KERNEL = """
func.func @Add_{name}(%c: !pto.ptr<f32>, %a: !pto.ptr<f32>, %b: !pto.ptr<f32>, %f: f32) {{
  %c1 = arith.constant 1 : index
  %n = arith.constant {n} : index
  %c0 = arith.constant 0 : index
  {views}
  %x = pto.alloc_tile : !pto.tile_buf<vec, 1x{n}xf32>
  %y = pto.alloc_tile : !pto.tile_buf<vec, 1x{n}xf32>
  pto.tload ins(%ap : !pto.partition_tensor_view<1x{n}xf32>) outs(%x : !pto.tile_buf<vec, 1x{n}xf32>)
  pto.tload ins(%bp : !pto.partition_tensor_view<1x{n}xf32>) outs(%y : !pto.tile_buf<vec, 1x{n}xf32>)
  pto.tmuls ins(%x, %f : !pto.tile_buf<vec, 1x{n}xf32>, f32) outs(%x : !pto.tile_buf<vec, 1x{n}xf32>)
  pto.tadd ins(%x, %y : !pto.tile_buf<vec, 1x{n}xf32>, !pto.tile_buf<vec, 1x{n}xf32>)
    outs(%x : !pto.tile_buf<vec, 1x{n}xf32>)
  pto.tstore ins(%x : !pto.tile_buf<vec, 1x{n}xf32>) outs(%cp : !pto.partition_tensor_view<1x{n}xf32>)
  return
}}
"""
VIEW = """
  %{v}v = pto.make_tensor_view %{v}, shape = [%c1, %n], strides = [%n, %c1] : !pto.tensor_view<?x?xf32>
  %{v}p = pto.partition_view %{v}v, offsets = [%c0, %c0], sizes = [%c1, %n]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x{n}xf32>"""
CASES = "CASES = [dict(name='eight', n=8, skip=0), dict(name='sixteen', n=16, skip=8)]\n"
GENERATE = """
import os, numpy as np
from cases import CASES
from shared import start
for case in CASES:
    n = case["n"]
    os.makedirs(case["name"], exist_ok=True)
    left = np.arange(n, dtype=np.float32) + start
    right = np.arange(n + case["skip"], dtype=np.float32)
    left.tofile(case["name"] + "/left.bin")
    right.tofile(case["name"] + "/right.bin")
    (left * 2 + right[case["skip"]:]).tofile(case["name"] + "/golden.bin")
"""
COMPARE = """
import sys, numpy as np
from cases import CASES
for case in CASES:
    if len(sys.argv) > 1 and case["name"] != sys.argv[1]:
        continue
    want, have = (np.fromfile(f"{case['name']}/{f}.bin", np.float32) for f in ("golden", "output"))
    if not np.array_equal(want, have):
        print(f"{case['name']}: worst difference {abs(want - have).max()}")
        sys.exit(2)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with one system test of two cases, written as the assembler's are."""
    folder = tmp_path / "st" / "own"
    folder.mkdir(parents=True)
    (tmp_path / "st" / "shared.py").write_text("start = 3\n")
    views = {n: "".join(VIEW.format(v=v, n=n) for v in "abc") for n in (8, 16)}
    kernels = [KERNEL.format(name=m, n=n, views=views[n]) for m, n in (("eight", 8), ("sixteen", 16))]
    text = 'module attributes {pto.target_arch = "a5"} {' + "".join(kernels) + "}\n"
    files = {"own.pto": text, "main.cpp": HOST, "launch.cpp": WRAPPERS, "cases.py": CASES}
    for name, content in (files | {"gen_data.py": GENERATE, "compare.py": COMPARE}).items():
        (folder / name).write_text(content)
    return tmp_path


def kinds(suite: Path, machine: str = "oracle", **options: object) -> dict[str, tuple[str, str]]:
    report = run_system_tests(suite, executor(machine), **options)  # type: ignore[arg-type]
    return {o.case: (o.kind, o.message) for o in report.outcomes}


def replaced(suite: Path, name: str, old: str, new: str) -> None:
    path = suite / "st" / "own" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.variants(0)
@pytest.mark.parametrize("machine", ["engine", "oracle"])
def test_cases_pass_their_own_comparison(suite: Path, machine: str) -> None:
    assert [t.name for t in system_tests(suite)] == ["own"]
    assert kinds(suite, machine) == {"eight": ("pass", ""), "sixteen": ("pass", "")}
    assert kinds(suite, machine, only="own/six") == {"sixteen": ("pass", "")}


def test_scripts_are_executed_by_the_interpreter_that_is_named(suite: Path) -> None:
    other = suite / "python"
    other.write_text(f'#!/bin/sh\necho "$1" >> {suite}/words\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    assert main(["conformance", "--st", str(suite), "--executor", "oracle", "--python", str(other)]) == 0
    assert (suite / "words").read_text().split() == ["-c", "gen_data.py", "compare.py"]


def test_an_interpreter_that_is_none_is_an_error(
    suite: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["conformance", "--st", str(suite), "--python", str(tmp_path / "nothing")]) == 2
    assert "nothing: no Python interpreter; allowed: the path of one" in capsys.readouterr().err
    assert main(["conformance", "k.npz", "--python", "python3"]) == 2
    assert "--st DIR with --only, --python" in capsys.readouterr().err


def launched(
    main: str, wrappers: str, folder: Path, case: str = "one"
) -> list[tuple[str, tuple[object, ...]]]:
    """The launches of a host program: pointers as the bytes that they point to."""
    seen: list[tuple[str, tuple[object, ...]]] = []

    def launch(kernel: str, given: tuple[object, ...], blocks: int) -> None:
        values = [read(g, 4).tolist() if isinstance(g, Pointer) else g for g in given]
        seen.append((kernel, tuple(values)))

    HostProgram(main, wrappers, "main.cpp").run("one", folder, launch)
    return seen


MAIN = "int main(int argc, char *argv[]) {{ size_t size = 0; void *stream = nullptr; {} return 0; }}"


def test_macros_copied_numbers_and_bits_of_floats(tmp_path: Path) -> None:
    wrappers = """
    #define WRAP(name) \\
        extern "C" __global__ AICORE void name(__gm__ uint16_t *, uint16_t, float, half); \\
        void Launch##name(uint16_t *x, void *number, void *stream) { \\
            uint16_t s; std::memcpy(&s, number, sizeof(uint16_t)); \\
            name<<<1, nullptr, stream>>>((__gm__ uint16_t *)x, s, from_bits(0x3FC00000U), 0x3C00); \\
        }
    inline float from_bits(uint32_t bits) { float x; memcpy(&x, &bits, sizeof(float)); return x; }
    WRAP(Scale)
    """
    (tmp_path / "s.bin").write_bytes(b"\x07\x01")
    body = """
    uint16_t number = 0; uint16_t *memory = nullptr;
    aclrtMalloc((void **)&memory, 8, ACL_MEM_MALLOC_HUGE_FIRST);
    memory[1] = 0x0203;
    std::ifstream file("s.bin", std::ios::binary);
    if (!file) { return 1; }
    file.read(reinterpret_cast<char *>(&number), 2);
    auto_launch(memory, &number, stream);
    """.replace("auto_launch", "LaunchScale")
    launch = launched(MAIN.format(body), wrappers, tmp_path)
    assert launch == [("Scale", ([0, 0, 3, 2], 0x107, 1.5, 0x3C00))]


def test_rows_are_padded_in_memory_of_the_host(tmp_path: Path) -> None:
    """What a helper of the program does to a buffer reaches the kernel."""
    host = """
    static void Pad(const void *source, void *target, size_t rows, size_t cols, size_t wide) {
        const char *from = static_cast<const char *>(source);
        char *to = static_cast<char *>(target);
        for (size_t r = 0; r < rows; ++r) {
            memcpy(to + r * wide, from + r * cols, cols);
            memset(to + r * wide + cols, 9, wide - cols);
        }
    }
    """
    body = """
    void *file = nullptr, *padded = nullptr, *device = nullptr;
    aclrtMallocHost(&file, 2); aclrtMallocHost(&padded, 4); aclrtMalloc(&device, 4, ACL_ANY);
    if (!ReadFile("x.bin", size, file, 2)) { return 1; }
    Pad(file, padded, 2, size / 2, 2);
    aclrtMemcpy(device, 4, padded, 4, ACL_MEMCPY_HOST_TO_DEVICE);
    Launch(device, stream);
    """
    wrappers = "void Launch(void *x, void *stream) { K<<<1, nullptr, stream>>>((__gm__ uint8_t *)x); }"
    (tmp_path / "x.bin").write_bytes(bytes([1, 2]))
    assert launched(host + MAIN.format(body), wrappers, tmp_path) == [("K", ([1, 9, 2, 9],))]


@pytest.mark.parametrize(
    ("main", "wrappers", "message"),
    [
        (MAIN.format("Launch(nullptr);"), "", "the value of Launch is not in the text"),
        (MAIN.format("while (true) { size = 1; }"), "", "no end after [0-9]+ steps"),
        (MAIN.format('std::fprintf(stderr, "no %s", "luck"); return 3;'), "", "fails: no luck"),
        (MAIN.format(""), "", "launches no kernel"),
        (MAIN.format("int *p = nullptr; p[0] = 1;"), "", "is not followed"),
        (MAIN.format("size = (;"), "", "main.cpp:1: got ';'; allowed: an expression"),
        (MAIN.format("size = 1"), "", "main.cpp:1: got 'return'; allowed: ';'"),
        (MAIN.format("L(stream);"), "void L(void *s);", "L is declared, but not in the text"),
        ("int main(int argc) { L(1); }", "void L(strange *s) {}", "launch.cpp:1: got 'strange'"),
        ("int x = @;", "", "main.cpp:1: got '@'; allowed: an expression"),
    ],
)
def test_what_is_not_understood_of_a_host_program_is_named(
    main: str, wrappers: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpp_program, "LIMIT", 10_000)
    with pytest.raises(FileError, match=message):
        launched(main, wrappers, tmp_path)


@pytest.mark.slow
def test_a_wrong_result_differs_with_the_words_of_the_comparison(suite: Path) -> None:
    replaced(
        suite,
        "own.pto",
        "tmuls ins(%x, %f : !pto.tile_buf<vec, 1x8",
        "tadds ins(%x, %f : !pto.tile_buf<vec, 1x8",
    )
    outcome = kinds(suite)
    assert outcome["eight"][0] == "differs" and "eight: worst difference 8.0" in outcome["eight"][1]
    assert outcome["sixteen"] == ("pass", "")


def test_what_a_text_needs_is_named(suite: Path) -> None:
    replaced(
        suite,
        "own.pto",
        "pto.tmuls ins(%x, %f : !pto.tile_buf<vec, 1x8",
        "pto.tmulz ins(%x, %f : !pto.tile_buf<vec, 1x8",
    )
    outcomes = kinds(suite)
    assert {k for k, _ in outcomes.values()} == {"construct"} and "tmulz" in outcomes["eight"][1]


@pytest.mark.slow
def test_scripts_that_fail_or_hang_are_one_outcome(suite: Path) -> None:
    replaced(suite, "gen_data.py", "import os", "raise SystemExit('no data today')\nimport os")
    ((kind, message),) = kinds(suite).values()
    assert kind == "script" and "gen_data.py: exit status 1: no data today" in message
    replaced(suite, "gen_data.py", "raise SystemExit('no data today')", "import time; time.sleep(60)")
    ((kind, message),) = kinds(suite, limit=2.0).values()
    assert kind == "script" and "no answer within 2 s" in message


@pytest.mark.slow
def test_the_command(suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    command = ["conformance", "--st", str(suite), "--executor", "oracle"]
    assert main([*command, "--json", str(out)]) == 0
    assert "passed: 2 of 2 cases pass" in capsys.readouterr().out
    assert json.loads(out.read_text())["totals"]["pass"] == 2
    replaced(suite, "cases.py", "n=8", "n=16")
    assert main(command) == 1
    assert main(["conformance", "--st", str(tmp_path / "nothing")]) == 2
    assert main(["conformance", "--only", "x"]) == 2 and main([*command, "x.npz"]) == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["conformance", "--st", str(empty)]) == 2
    assert "no system test; a test is a folder with a .pto file and cases.py" in capsys.readouterr().err
