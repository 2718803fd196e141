"""Programs ranked by cost, and search spaces by cost and error."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cost import Candidate, Tuning, rank, tune


def adds(rows: int, count: int = 1) -> pto.Program:
    lines = ["%a0 = tadd %a, %b : !pto.tile<1x64xf32>".replace("1x", f"{rows}x")]
    lines += [f"%a{i} = tadd %a{i - 1}, %b : !pto.tile<{rows}x64xf32>" for i in range(1, count)]
    return pto.parse("\n".join(lines))


SCALED = """func.func @scale(%x: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = pto.alloc_tile : !pto.tile<64x64xf32>
  scf.for %i = %c0 to %n step %c1 {
    pto.tadd ins(%t, %t : !pto.tile<64x64xf32>, !pto.tile<64x64xf32>) outs(%t : !pto.tile<64x64xf32>)
  }
  return
}"""


def test_the_cheapest_program_is_first() -> None:
    ranking = rank({"two": adds(16, 2), "large": adds(64), "one": adds(16)})
    assert [v.name for v in ranking] == ["one", "two", "large"]
    assert [v.report.model for v in ranking] == ["tables"] * 3
    assert str(ranking).splitlines()[2].split() == ["1", "one", "56", "56", "none"]


def test_a_program_with_unknown_parts_is_behind_complete_ones() -> None:
    unknown = pto.parse("%d = tpow %a, %b : !pto.tile<1x8xf32>")
    ranking = rank({"unknown": unknown, "known": adds(64)})
    assert [v.name for v in ranking] == ["known", "unknown"]
    assert ranking[1].unknown == {"tpow": 1} and "tpow" in str(ranking)


def test_programs_are_ranked_with_scalar_arguments_and_on_other_hardware() -> None:
    program = pto.parse(SCALED)
    one, two = (rank([program], arguments={"n": n})[0].report.serial for n in (1, 2))
    assert two == 2 * one
    assert rank([adds(16)], profile="a5")[0].report.model == "a5_fit"


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no program": (lambda: rank({}), "got no programs"),
    "no program object": (lambda: rank(["text"]), "got str; allowed: programs and kernels"),
    "arrays": (lambda: rank([pto.parse(SCALED)], arguments={"n": np.arange(3)}), "allowed: numbers"),  # type: ignore[dict-item]
    "an unknown argument": (lambda: tune(pto.parse(SCALED), {"m": (1, 2)}), "got the argument m"),
    "an empty space": (lambda: tune(pto.parse(SCALED), {"n": ()}), "got 0 candidates"),
    "a space that is too large": (
        lambda: tune(pto.parse(SCALED), {"n": range(1000), "x": range(1000)}),
        "got 1000000 candidates; allowed: 1 to 100000",
    ),
    "another number of errors": (
        lambda: tune(pto.parse(SCALED), {"n": (1, 2)}, lambda all: [0.0]),
        r"got shape \(1,\); allowed: \(2,\)",
    ),
    "no legal candidate": (lambda: tune(lambda rows: adds(rows), {"rows": (1 << 20,)}), "every candidate is"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_search_is_one_clear_error(mistake: str) -> None:
    call, message = WRONG[mistake]
    with pytest.raises(pto.ArgumentError, match=message):
        call()


def test_arguments_of_a_program_are_one_evaluation() -> None:
    calls: list[int] = []

    def error(candidates: Sequence[Any]) -> Any:
        calls.append(len(candidates))
        return [1 / (1 + c["n"]) for c in candidates]

    result = tune(pto.parse(SCALED), {"n": (1, 2, 4)}, error)
    assert calls == [3] and result.model == "tables"
    one, two, four = result.candidates
    assert two.overlapped == 2 * one.overlapped and four.serial == 4 * one.serial
    assert result.front == result.candidates
    assert result.best(error=0.4).parameters == {"n": 2}
    assert result.best(cost=two.overlapped).parameters == {"n": 2}
    assert result.best().parameters == {"n": 1}
    with pytest.raises(pto.ArgumentError, match=r"no candidate has an error of at most 0\.1"):
        result.best(error=0.1)


def test_a_function_makes_a_program_of_each_candidate() -> None:
    result = tune(lambda rows: adds(rows), {"rows": (64, 16, 1 << 16)}, lambda all: [0.5] * len(all))
    assert [c.parameters["rows"] for c in result.candidates] == [64, 16]
    assert [c.parameters["rows"] for c in result.front] == [16]
    assert [parameters for parameters, _ in result.refused] == [{"rows": 1 << 16}]
    assert "1 refused, the first: " in str(result)


@pto.kernel(types=(pto.ptr("f32"), pto.ptr("f32")))
def copy(x: Any, y: Any, *, rows: int = 8) -> None:
    t = pto.alloc_tile("f32", rows, 64)
    for i in pto.range(0, 64, rows):
        pto.tload(t, pto.partition_view(pto.make_tensor_view(x, [64, 64], [64, 1]), [i, 0], [rows, 64]))
        pto.tstore(pto.partition_view(pto.make_tensor_view(y, [64, 64], [64, 1]), [i, 0], [rows, 64]), t)


def test_constants_of_a_python_kernel_are_tuned() -> None:
    result = tune(copy.specialise, {"rows": (8, 16, 64)}, profile="a2a3")
    assert len(result.candidates) == 3 and not result.refused
    assert result.best().parameters["rows"] in (8, 16, 64)
    assert rank([copy, copy.specialise(rows=64)])[0].report.complete


def test_the_front_has_what_no_other_beats() -> None:
    points = [(3, 0.1), (1, 0.5), (2, 0.5), (2, 0.2), (5, 0.05), (4, 0.3)]
    result = Tuning(tuple(Candidate({"i": i}, c, c, e) for i, (c, e) in enumerate(points)))
    assert [(c.overlapped, c.error) for c in result.front] == [(1, 0.5), (2, 0.2), (3, 0.1), (5, 0.05)]


def test_files_are_ranked_by_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    from pto_jax.cli.main import main

    for name, program in (("a.pto", adds(64)), ("b.pto", adds(16))):
        (tmp_path / name).write_text(str(program))
    files = [str(tmp_path / n) for n in ("a.pto", "b.pto")]
    assert main(["cost", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "model tables, profile a2a3; cycles"
    assert lines[2].split()[:3] == ["1", files[1], "56"]
    assert main(["cost", *files, "--json", "--model", "cce_stub"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [r["program"] for r in records] == files[::-1] and records[0]["model"] == "cce_stub"
