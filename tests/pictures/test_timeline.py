"""Timelines: the order of pipes by flags, events, data and pipes between cores, and the two files."""

import json
from pathlib import Path
from typing import Any

import pytest

import pto_jax as pto
from pto_jax.examples import EXAMPLES, example
from pto_jax.pictures import timeline
from pto_jax.pictures.timeline import Schedule, schedule
from pto_jax.profiles import profile_of_program
from tests.cli.conftest import DOUBLED

T = "!pto.tile_buf<vec, 16x64xf32>"
VIEW = "!pto.partition_tensor_view<16x64xf32>"


def kernel(body: str) -> str:
    """A program over two tiles and windows of two buffers."""
    return f"""module attributes {{"pto.target_arch" = "a3"}} {{
  func.func @k(%x: {VIEW}, %y: {VIEW}, %n: index) attributes {{pto.entry}} {{
    %a = pto.alloc_tile : {T}
    %b = pto.alloc_tile : {T}
    {body}
    return
  }}
}}"""


LOAD = f"pto.tload ins(%x : {VIEW}) outs(%a : {T})\n    "
ADD = f"pto.tadd ins(%a, %a : {T}, {T}) outs(%b : {T})\n    "
STORE = f"pto.tstore ins(%b : {T}) outs(%y : {VIEW})\n    "


LOOP = f"""%c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {{
    {LOAD}{ADD}{STORE}}}"""


def flags(source: str, target: str) -> str:
    pair = f"[<PIPE_{source}>, <PIPE_{target}>, <EVENT_ID0>]"
    return f"pto.set_flag{pair}\n    pto.wait_flag{pair}\n    "


def scheduled(text: str, **arguments: int) -> Schedule:
    parsed = pto.parse(text)
    return schedule(parsed, profile_of_program(parsed), None, None, arguments)


def times(found: Schedule) -> list[tuple[str, float, float]]:
    return [(run.name, run.start, run.end) for run in found.runs]


def test_data_orders_pipes_where_the_assembler_does() -> None:
    found = scheduled(kernel(LOAD + ADD + STORE))
    assert times(found) == [("tload", 0, 32), ("tadd", 32, 2607), ("tstore", 2607, 2607 + found.nominal)]
    assert [(w.source, w.target) for w in found.waits] == [(0, 1), (1, 2)]
    assert (found.instructions, found.missing, found.nominal) == (3, 1, (32 + 2575) / 2)


def test_flags_alone_order_pipes_where_the_program_has_some() -> None:
    found = scheduled(kernel(LOAD + flags("MTE2", "V") + ADD + STORE))
    assert [run.start for run in found.runs] == [0, 32, 0]  # Nothing holds the store back.
    found = scheduled(kernel(LOAD + flags("MTE2", "V") + ADD + flags("V", "MTE3") + STORE))
    assert [run.start for run in found.runs] == [0, 32, 2607]


def test_a_barrier_on_all_pipes_holds_all_back() -> None:
    text = kernel(LOAD + flags("MTE2", "V") + ADD + "pto.barrier #pto.pipe<PIPE_ALL>\n    " + STORE + LOAD)
    assert [run.start for run in scheduled(text).runs] == [0, 32, 2607, 2607]
    text = text.replace("PIPE_ALL", "PIPE_V")
    assert [run.start for run in scheduled(text).runs] == [0, 32, 0, 32]


def test_loops_take_the_numbers_of_arguments() -> None:
    found = scheduled(kernel(LOOP), n=5)
    assert len(found.runs) == 15 and found.notes == []
    # A buffer is loaded again when the instruction before has read it.
    assert found.runs[3].start == found.runs[1].end
    unknown = scheduled(kernel(LOOP))
    assert len(unknown.runs) == 9 and unknown.notes == ["run-time numbers count as 3"]


def test_called_functions_share_the_data_of_their_caller() -> None:
    found = scheduled(DOUBLED, n=2)
    names = [run.name for run in found.runs]
    assert names == ["tload", "tmuls", "tstore"] * 2
    assert found.runs[1].start == found.runs[0].end and found.runs[2].start == found.runs[1].end


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_pipes_of_examples_execute_one_instruction_at_a_time(name: str) -> None:
    text = pto.load(example(name).path)
    found = schedule(text, profile_of_program(text), None, None, {})
    ends: dict[Any, float] = {}
    for run in found.runs:
        assert run.start >= ends.get(run.row, 0) and run.end >= run.start
        ends[run.row] = run.end
    for wait in found.waits:
        assert found.runs[wait.source].end <= found.runs[wait.target].start
    assert found.runs and timeline(text).svg == timeline(text).svg


def test_a_core_waits_for_what_another_one_pushes() -> None:
    text = pto.load(example("pipe_linear").path)
    found = schedule(text, profile_of_program(text), None, None, {})
    assert {run.row.core for run in found.runs} == {"cube", "vector"}
    pushes = [run for run in found.runs if "push" in run.name]
    pops = [run for run in found.runs if "pop" in run.name]
    assert len(pushes) == len(pops) > 0
    for push, pop in zip(
        sorted(pushes, key=lambda r: (r.row.core, r.end)),
        sorted(pops, key=lambda r: (r.row.core != "vector", r.start)),
        strict=True,
    ):
        assert push.row.core != pop.row.core and push.end <= pop.start


def test_the_busiest_pipe_is_bold_and_missing_figures_are_counted() -> None:
    picture = timeline(pto.parse(kernel(LOAD + ADD + STORE)))
    assert 'class="bold" text-anchor="end">V<' in picture.svg and picture.svg.count('class="bold"') == 1
    assert "model doc_formula, 1 of 3 instructions without a figure" in picture.svg
    assert "no figure in this model, drawn as" in picture.svg
    assert picture.svg.count('class="arrow"') == 2
    complete = timeline(pto.parse(kernel(LOAD + ADD)))
    assert "2,607 cycles" in complete.label and "no figure" not in complete.svg.partition("</defs>")[2]


def test_the_trace_has_a_thread_per_pipe_and_a_flow_per_wait(tmp_path: Path) -> None:
    picture = timeline(pto.parse(kernel(LOAD + ADD + STORE)))
    picture.save(tmp_path / "t.json")
    found = json.loads((tmp_path / "t.json").read_text())
    events = found["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    runs = [(e["name"], threads[e["tid"]], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert runs[:2] == [("tload", "MTE2", 0, 32), ("tadd", "V", 32, 2575)]
    assert [e["ph"] for e in events if e["name"] == "wait"] == ["s", "f"] * 2
    assert found["otherData"]["model"] == "doc_formula"


@pytest.mark.slow
def test_a_long_program_is_cut_in_the_picture_and_whole_in_the_trace() -> None:
    picture = timeline(pto.parse(kernel(LOOP)), arguments={"n": 200})
    assert "the first 400 of 600 executions" in picture.svg
    assert picture.trace.count('"ph": "X"') == 600
    endless = timeline(pto.parse(kernel(LOOP)), arguments={"n": 10**6})
    assert "the first 20,000 operations" in endless.svg


def test_bad_input_is_one_error(tmp_path: Path) -> None:
    parsed = pto.parse(kernel(LOAD + ADD))
    with pytest.raises(pto.ArgumentError, match="unknown profile"):
        timeline(parsed, "a9")
    with pytest.raises(pto.ArgumentError, match="model"):
        timeline(parsed, model="guess")
    with pytest.raises(pto.ArgumentError, match="got the argument rows; allowed: n"):
        timeline(parsed, arguments={"rows": 1})
    with pytest.raises(pto.ArgumentError, match=r"argument n: got 1\.5; allowed: an integer"):
        timeline(parsed, arguments={"n": 1.5})  # type: ignore[dict-item]
    with pytest.raises(pto.ArgumentError, match=r'arguments: got a list; .*; try: arguments={"rows": 200}'):
        timeline(parsed, arguments=[1])  # type: ignore[arg-type]
    with pytest.raises(pto.ArgumentError, match="got no instruction of a pipe"):
        timeline(pto.parse(kernel("")))
    with pytest.raises(pto.ArgumentError, match=r"names in \.svg or \.json"):
        timeline(parsed).save(tmp_path / "t.txt")
    with pytest.raises(pto.ArgumentError, match="path: got an int; allowed: the name of a file"):
        timeline(parsed).save(3)  # type: ignore[arg-type]


def test_numbers_that_execute_something_are_assumed_or_the_picture_says_so() -> None:
    head = "%c16 = arith.constant 16 : index\n    %far = arith.constant {} : index\n"
    loop = head + f"    scf.for %i = %far to %n step %c16 {{{{\n    {LOAD}{ADD}{STORE}}}}}"
    found = scheduled(kernel(loop.format(32)))
    assert found.runs and found.notes == ["run-time numbers count as 64"]
    empty = timeline(pto.parse(kernel(loop.format(4096))))
    assert "no instruction is executed with these numbers" in empty.svg
    assert json.loads(empty.trace)["traceEvents"] == []
