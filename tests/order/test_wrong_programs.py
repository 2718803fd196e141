"""Programs that the verifier rejects: `races` and `memory` name its errors, without a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

import pto_jax as pto
from pto_jax.cli.main import main

FLAGS = (
    "pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]\npto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]\n"
)
#: A pointer to addresses, a view of one, tiles of two sizes in one sum, a tile beyond every memory.
WRONG = (
    "%p = pto.inttoptr %n : i64 -> !pto.ptr<index>\n%c0 = arith.constant 0 : index\n"
    "%x = pto.load_scalar %p[%c0] : !pto.ptr<index> -> index\n",
    "%p = pto.inttoptr %n : i64 -> !pto.ptr<f32>\n%c1 = arith.constant 1 : index\n"
    "%v = pto.make_tensor_view %p, shape = [%c1], strides = [%c1] : !pto.tensor_view<1xf32>\n",
    "%s = pto.alloc_tile : !pto.tile<f32, 16, 16>\n%t = pto.alloc_tile : !pto.tile<f32, 8, 8>\n"
    "pto.tadd ins(%s, %t : !pto.tile<f32, 16, 16>, !pto.tile<f32, 8, 8>) "
    "outs(%s : !pto.tile<f32, 16, 16>)\n",
    "%t = pto.alloc_tile : !pto.tile<f32, 4096, 4096>\n",
)


@pytest.mark.parametrize("body", WRONG)
@pytest.mark.parametrize("sync", ["auto", "as-written", "strict"])
def test_a_rejected_program_gives_findings_or_the_verifiers_errors(
    body: str, sync: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.pto"
    path.write_text(f"func.func @k(%n: i64) attributes {{pto.entry}} {{\n{FLAGS}{body}return\n}}\n")
    assert [d for d in pto.verify(pto.load(path)) if d.severity == "error"]
    assert main(["races", str(path), "--sync", sync]) in (0, 1, 2)
    assert main(["memory", str(path)]) in (0, 1, 2)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err


def test_functions_that_call_the_next_one_twice_take_no_time() -> None:
    """26 functions make 67 million calls: one error, at once."""
    twice = "".join(
        f"func.func private @g{i}() {{\n" + f"func.call @g{i + 1}() : () -> ()\n" * 2 + "return\n}\n"
        for i in range(25)
    )
    last = "func.func private @g25() {\nreturn\n}\n"
    program = pto.parse(twice + last + "func.func @f() {\nfunc.call @g0() : () -> ()\nreturn\n}")
    (error,) = pto.verify(program)
    assert error.message == "an execution of @g0 makes 67108862 calls; allowed: 10000"
    with pytest.warns(pto.PtoWarning, match="@f has a course of more than 40000 operations"):
        assert pto.races(program) == []


def test_a_course_that_is_not_followed_to_its_end_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.pto"
    body = "".join(f"%s{i} = arith.addi %n, %n : i64\n" for i in range(700))
    loops = "".join(f"scf.for %k{i} = %c0 to %c9 step %c1 {{\n" for i in range(4)) + body + "}\n" * 4
    numbers = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (0, 1, 9))
    path.write_text(f"func.func @k(%n: i64) {{\n{numbers}{FLAGS}{loops}return\n}}\n")
    assert main(["races", str(path)]) == 0
    assert "warning: @k has a course of more than 40000 operations" in capsys.readouterr().err
