"""System tests of the assembler's form: found, generated, executed and judged by their own comparison."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pto_jax.campaign.st.host import Buffer, Launch, launches
from pto_jax.campaign.st.run import executor, run_system_tests
from pto_jax.campaign.st.suite import system_tests
from pto_jax.cli.main import main
from pto_jax.errors import FileError

HOST = """
#include "acl.h"
struct Case { const char *name; void (*launch)(void *, void *, void *, void *); };
static const Case kCases[] = {
    {"eight", reinterpret_cast<Fn>(LaunchAdd_eight), 1},  // the first
    {"sixteen", (void (*)(void *, void *))LaunchAdd_sixteen, 2},
};
int RunCase(const Case &c, void *stream) {
    if (!ReadFile((dir + "/left.bin").c_str(), size, leftHost, size)) { std::printf("no left.bin"); }
    if (rc == 0 && !ReadFile((dir + "/right.bin").c_str(), size, rightHost, size)) { return 1; }
    aclrtMemcpy(leftDevice, size, leftHost, size, ACL_MEMCPY_HOST_TO_DEVICE);
    aclrtMemcpy(rightDevice, size, rightHost, size, ACL_MEMCPY_HOST_TO_DEVICE);
    c.launch(static_cast<float *>(leftDevice), (void *)rightDevice, outDevice, stream);
    aclrtMemcpy(outHost, size, outDevice, size, ACL_MEMCPY_DEVICE_TO_HOST);
    if (!WriteFile((dir + "/output.bin").c_str(), outHost, size)) { return 1; }
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


@pytest.mark.parametrize("machine", ["engine", "oracle"])
def test_cases_pass_their_own_comparison(suite: Path, machine: str) -> None:
    assert [t.name for t in system_tests(suite)] == ["own"]
    assert kinds(suite, machine) == {"eight": ("pass", ""), "sixteen": ("pass", "")}
    assert kinds(suite, machine, only="own/six") == {"sixteen": ("pass", "")}


def test_the_host_program_says_which_file_is_which_argument() -> None:
    left, right = Buffer("leftDevice", "left.bin"), Buffer("rightDevice", "right.bin")
    out = Buffer("outDevice", None, "output.bin")
    assert launches(HOST, WRAPPERS, ["eight", "sixteen"], "main.cpp") == {
        "eight": Launch("Add_eight", (out, left, right, "2.0f")),
        "sixteen": Launch("Add_sixteen", (out, left, Buffer("rightDevice", "right.bin", None, 32), "2.0f")),
    }


def test_macros_copied_numbers_and_bits_of_floats() -> None:
    wrappers = """
    #define WRAP(name) \\
        void Launch##name(uint16_t *x, void *number, uint16_t *y, void *stream) { \\
            uint16_t s; std::memcpy(&s, number, sizeof(uint16_t)); \\
            name<<<1, nullptr, stream>>>((__gm__ uint16_t *)x, s, to_bits(0x3C00U), (__gm__ uint16_t *)y); \\
        }
WRAP(Scale_one)
    """
    host = """
    {"one", LaunchScale_one},
    ReadFile(dir + "/x.bin", size, x, size); ReadFile(dir + "/s.bin", size, s, size);
    aclrtMemcpy(a, size, x, size, ACL_MEMCPY_HOST_TO_DEVICE);
    tc.launch((uint16_t *)a, s, b, stream);
    aclrtMemcpy(y, size, b, size, ACL_MEMCPY_DEVICE_TO_HOST);
    WriteFile(dir + "/y.bin", y, size);
    """
    launch = launches(host, wrappers, ["one"], "main.cpp")["one"]
    arguments = (Buffer("a", "x.bin"), Buffer("s", "s.bin"), "0x3C00", Buffer("b", None, "y.bin"))
    assert launch == Launch("Scale_one", arguments)


@pytest.mark.parametrize(
    ("host", "wrappers", "message"),
    [
        (HOST, WRAPPERS.replace("LaunchAdd_eight", "LaunchSub_eight8"), "eight: no launch wrapper; known: "),
        (
            HOST.replace("outDevice, stream", "stream"),
            WRAPPERS,
            "no call that launches LaunchAdd_eight with 4",
        ),
        (HOST, WRAPPERS.replace("FACTOR);", "factor());"), "the value of factor\\(\\) is not in the text"),
        (HOST.replace("WriteFile", "Keep"), WRAPPERS, "no result of Add_eight is followed to a file"),
    ],
)
def test_what_is_not_understood_of_a_host_program_is_named(host: str, wrappers: str, message: str) -> None:
    found = launches(host, wrappers, ["eight"], "main.cpp")["eight"]
    assert isinstance(found, FileError) and re.search(f"main.cpp: case .*{message}", str(found))


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


def test_scripts_that_fail_or_hang_are_one_outcome(suite: Path) -> None:
    replaced(suite, "gen_data.py", "import os", "raise SystemExit('no data today')\nimport os")
    ((kind, message),) = kinds(suite).values()
    assert kind == "script" and "gen_data.py: exit status 1: no data today" in message
    replaced(suite, "gen_data.py", "raise SystemExit('no data today')", "import time; time.sleep(60)")
    ((kind, message),) = kinds(suite, limit=2.0).values()
    assert kind == "script" and "no answer within 2 s" in message


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
