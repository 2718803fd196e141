"""Every construct of the public programs occurs in a program of this folder, executed where theirs are.

``constructs.txt`` lists the constructs; tests/corpus compares it with a checkout of the programs.
"""

import re
from functools import cache

import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.analysis.resolve import resolve
from pto_jax.analysis.roots import is_as_written
from pto_jax.interpreter import Scope
from pto_jax.ir import Function, Op, Program
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.order import judge
from pto_jax.text import print_program
from tests.programs.cases import FOLDER, load
from tests.programs.constructs import constructs, recorded, rejections
from tests.programs.test_programs import CASES

#: Programs that are only read and verified, for the profile of their header.
TEXTS = ("read_a3", "read_a5", "spellings")
PROGRAMS = sorted({case.program for case in CASES})
_HEADER = re.compile(r"// (?P<profile>\w+)(?: level (?P<level>\d))?(?P<sync> synchronised)?: (?P<rules>.*)\n")
_REJECTED = (FOLDER / "rejected.pto").read_text(encoding="utf-8").split("// -----\n")[1:]


@cache
def executed_constructs() -> frozenset[str]:
    """The constructs of the operations that the reference interpreter comes to in all calls of the cases."""
    reached = set[int]()

    class Recorder(ReferenceMachine):
        def begin(self, op: Op, scope: Scope) -> None:
            reached.add(id(op))
            super().begin(op, scope)

    for case in CASES:
        for arguments in case.arguments():
            oracle.run(case.parsed, arguments, entry=case.entry, grid=case.grid, machine=Recorder)
    return frozenset(
        line
        for name in PROGRAMS
        for owner, line in constructs(load(name))
        if id(owner) in reached or (isinstance(owner, Function) and reached & {id(op) for op in owner.walk()})
    )


def read_constructs() -> set[str]:
    """The constructs of all texts of this folder."""
    programs = [load(name) for name in (*PROGRAMS, *TEXTS)] + [pto.parse(text) for text in _REJECTED]
    return {line for program in programs for _, line in constructs(program)}


@pytest.mark.slow
def test_every_construct_that_public_programs_execute_is_executed_here() -> None:
    assert sorted(recorded("executed") - executed_constructs()) == []
    assert len(recorded("executed")) > 400


def test_every_other_construct_of_public_programs_is_read_here() -> None:
    broken = {line for text in _REJECTED for line in rejections(verification(text)[1])}
    assert sorted(recorded("read") - read_constructs() - broken) == []
    assert len(recorded("read")) > 200


@pytest.mark.parametrize("name", (*PROGRAMS, *TEXTS))
def test_programs_are_accepted_and_read_back_in_every_form(name: str) -> None:
    program = load(name)
    assert [str(d) for d in pto.verify(program) if d.severity == "error"] == []
    reads_back(program)


def test_another_spelling_is_the_same_program() -> None:
    short, long = load("spellings").functions
    assert short.body == long.body and short.args == long.args


def test_a_program_that_orders_its_pipes_has_no_hazards() -> None:
    program = load("synchronised")
    assert any(map(is_as_written, program.functions)) and judge(resolve(program), as_written=False) == []


def verification(text: str) -> tuple[set[str], list[pto.Diagnostic]]:
    """The rules that a text says it breaks, and what verification finds."""
    header = _HEADER.match(text)
    assert header is not None, text
    level = int(header["level"]) if header["level"] else None
    diagnostics = pto.verify(pto.parse(text), header["profile"], level=level, auto_sync=bool(header["sync"]))
    return {f"rejected {rule}" for rule in header["rules"].split(", ")}, diagnostics


@pytest.mark.parametrize("text", _REJECTED, ids=[text.splitlines()[0][3:] for text in _REJECTED])
def test_programs_are_rejected_by_the_rules_they_name(text: str) -> None:
    rules, diagnostics = verification(text)
    assert rejections(diagnostics) == rules
    reads_back(pto.parse(text))


def reads_back(program: Program) -> None:
    for form in (None, "as", "ssa", "dps"):
        printed = print_program(program, form)
        again = pto.parse(printed)
        assert again == program
        assert print_program(again, form) == printed


SMALL = """func.func @small(%x: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
  %p0 = arith.constant 0 : i64
  %p32 = arith.constant 32 : i64
  %a = pto.alloc_tile addr = %p0 : !pto.tile_buf<vec, 2x8xf32>
  %b = pto.alloc_tile addr = %p32 : !pto.tile_buf<vec, 2x8xi32, valid=1x8>
  scf.for %i = %n to %n step %n {
    %j = arith.addi %i, %n : index
    %q = pto.addptr %x, %j : !pto.ptr<f32> -> !pto.ptr<f32>
    pto.tneg ins(%a : !pto.tile_buf<vec, 2x8xf32>) outs(%a : !pto.tile_buf<vec, 2x8xf32>)
  }
  return
}"""


def test_the_constructs_of_a_small_program() -> None:
    assert {line for _, line in constructs(pto.parse(SMALL))} == {
        "addresses part of each, other element type",
        "function pto.entry=True",
        "function runs on one core",
        "function takes index",
        "function takes pointer",
        "handle of addptr: function argument",
        "handle of instruction: alloc_tile at an address (constant)",
        "handle written by instruction: alloc_tile at an address (constant)",
        "number addptr 1: argument, counter",
        "number alloc_tile addr: constant",
        "number scf.for lb: argument",
        "number scf.for step: argument",
        "number scf.for ub: argument",
        "operation addptr (pointer, index) -> (pointer)",
        "operation alloc_tile (addr integer) -> (vec)",
        "operation arith.addi (index, index) -> (index)",
        "operation arith.constant () -> (integer)",
        "operation scf.for (lb index, ub index, step index) -> ()",
        "operation tneg dps (vec) -> (vec)",
        "place alloc_tile",
        "place arithmetic",
        "place scf.for",
        "place scf.for > addptr",
        "place scf.for > arithmetic",
        "place scf.for > instruction",
        "tile vec ND",
        "tile vec ND, valid rows: some, valid columns: all",
    }
