"""MLIR's generic form of whole programs: written by hand as MLIR prints it, and printed and read back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pto_jax import isa
from pto_jax.examples import EXAMPLES
from pto_jax.ir import Op, Program
from pto_jax.isa.samples.operations import legal_samples, to_program
from pto_jax.profiles import ProfileName, profile as find_profile
from pto_jax.text import parse, print_program

HERE = Path(__file__).parent
CUSTOM, GENERIC = ((HERE / name).read_text(encoding="utf-8") for name in ("module.pto", "module_generic.pto"))
PROGRAMS = sorted(p for p in (HERE.parent / "programs").glob("*.pto") if p.stem != "rejected")


def test_the_generic_form_of_a_module_is_the_same_program() -> None:
    assert parse(GENERIC) == parse(CUSTOM)
    assert parse(print_program(parse(CUSTOM), "generic")) == parse(CUSTOM)


def test_attributes_may_stand_behind_regions_as_older_versions_print_them() -> None:
    text = '"builtin.module"() ({ "func.func"() ({ ^bb0(%a: index): "func.return"() : () -> () }) '
    text += (
        '{function_type = (index) -> (), sym_name = "k"} : () -> () }) {pto.target_arch = "a3"} : () -> ()'
    )
    custom = 'module attributes {pto.target_arch = "a3"} { func.func @k(%a: index) { return } }'
    assert parse(text) == parse(custom)


def test_the_language_that_a_generic_module_names_is_that_of_its_body() -> None:
    body = "%d = pto.tcvt %a : !pto.tile<f32, 8, 8> -> !pto.tile<f16, 8, 8>"
    custom = parse(f'module attributes {{pto.language = "2026-08"}} {{ {body} }}')
    assert parse(f'"builtin.module"() ({{ {body} }}) {{pto.language = "2026-08"}} : () -> ()') == custom
    assert parse(body, language="2026-04") != custom


def meaning(op: Op) -> object:
    """What an operation says, whatever the order of its operands."""
    instruction = isa.find(op.name)
    if instruction is None:
        return op.name, op.ins, op.results, op.attributes
    bound = isa.bind(instruction, op)
    return op.name, bound.values, bound.attrs, op.results


def operations(program: Program) -> Iterator[object]:
    return map(meaning, program.walk())


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_programs_read_back_from_the_generic_form(path: Path) -> None:
    program = parse(path.read_text(encoding="utf-8"), str(path))
    assert list(operations(parse(print_program(program, "generic")))) == list(operations(program))


def test_shipped_examples_read_back_from_the_generic_form() -> None:
    for example in EXAMPLES.values():
        program = parse(example.path.read_text(encoding="utf-8"))
        assert parse(print_program(program, "generic")) == program, example.name


@pytest.mark.parametrize("profile", ["a2a3", "a5"])
def test_every_instruction_reads_back_from_the_generic_form(profile: ProfileName) -> None:
    for instruction in isa.instructions().values():
        for sample in [*legal_samples(instruction, find_profile(profile))][:3]:
            program = to_program(sample)
            text = print_program(program, "generic")
            assert list(operations(parse(text))) == list(operations(program)), text
