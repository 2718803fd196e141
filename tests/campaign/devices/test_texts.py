"""What a device is sent is the text as its author wrote it, in the present version of the language."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pto_jax.api import parse
from pto_jax.campaign.fuzz.executor_cases import Programs
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.kernels import as_kernel
from pto_jax.cases.recording import numbered, record
from pto_jax.cases.targets import Oracle, Output, Run
from pto_jax.devices.exchange import program_text
from pto_jax.failures import folder
from pto_jax.failures.isolation import isolated
from pto_jax.failures.reduce import shrink
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, cases
from pto_jax.ir import LANGUAGE_KEY
from pto_jax.isa.history import left_out, spelled_out
from pto_jax.isa.rules.conversions import conversions
from pto_jax.oracle import OracleTile, run
from pto_jax.profiles import PROFILE_NAMES, PROFILES, ProfileName

TILE = "!pto.tile_buf<loc=vec, dtype={d}, rows=16, cols=64, v_row=16, v_col=64, blayout=row_major, \
slayout=none_box, fractal=512, pad=0>"
F32, F16, I8 = (TILE.format(d=d) for d in ("f32", "f16", "i8"))
#: Operations that bind their results, with the types that the assembler knows.
BOUND = f"""
module attributes {{pto.target_arch = "a5"}} {{
  %a = pto.tadd %x, %x : ({F32}, {F32}) -> {F32}
  %b = pto.tcvt %a : ({F32}) -> {F16}
  pto.tcvt ins(%b {{sat_mode = #pto<saturation_mode ON>}} : {F16}) outs(%d : {I8})
}}
"""


def of_text(text: str, tmp_path: Path) -> Case:
    file = tmp_path / "own.pto"
    file.write_text(text)
    return Programs.of(Plan(seed=1, programs=(str(file),))).case(0, 0)


@dataclass(frozen=True)
class Wrong:
    """The interpreter with a wrong bit where a program has a conversion; ``texts`` are those it is sent."""

    texts: list[str]
    name: str = "wrong"

    def run(self, case: Case) -> Run:
        self.texts.append(program_text(case))
        outputs = Oracle().run(case).outputs
        if "tcvt" not in self.texts[-1]:
            return Run(outputs)
        return Run({n: Output(o.dtype, o.words ^ o.words.dtype.type(1), o.valid) for n, o in outputs.items()})


def test_tile_types_of_bound_results_are_sent_as_the_file_has_them(tmp_path: Path) -> None:
    case = of_text(BOUND, tmp_path)
    text = program_text(case)
    assert "!pto.tile<" not in text and text.count(F32) >= 4
    assert parse(text) == parse(BOUND)


def test_tile_types_of_the_documentation_stay_what_they_are(tmp_path: Path) -> None:
    fragment = "%b = tcvt %a : !pto.tile<f32, 16, 64> -> !pto.tile<f16, 16, 64>\n"
    assert "!pto.tile<f32, 16, 64>" in str(parse(fragment))


def test_a_failure_is_shrunk_and_replayed_in_the_spelling_of_its_author(tmp_path: Path) -> None:
    texts: list[str] = []
    case, device = of_text(BOUND, tmp_path), Wrong(texts)
    made = shrink(case, Oracle(), device, seconds=30)
    assert made.outcome.is_failure and len(texts) > 3
    about = folder.About(made.instruction, "cause", "oracle", "python:x")
    where = folder.save(tmp_path, case, made.finding, about)
    replayed = (folder.read(where), folder.read(where, original=True))
    texts += [program_text(failure.case) for failure in replayed]
    assert all("!pto.tile<" not in text and LANGUAGE_KEY not in text for text in texts)


@pytest.mark.slow
def test_programs_of_functions_have_the_types_of_the_assembler() -> None:
    """Generated ones bind some of their results."""
    options = replace(PRESETS["straight"], results=1.0, functions=1.0, tile_arguments=0.0)
    for case in cases(2, 12, options):
        kernel = as_kernel(case) or case
        assert kernel.program.fragment or "!pto.tile<" not in program_text(kernel)


@pytest.mark.variants(1)
@pytest.mark.parametrize("target", PROFILE_NAMES)
def test_attributes_are_written_out_in_the_present_language(target: ProfileName) -> None:
    """Whatever a conversion or histogram leaves out: no device knows versions of the language."""
    only = frozenset({"tcvt", "thistogram"} if target != "a2a3" else {"tcvt"})
    options = replace(PRESETS["straight"], only=only, profiles=(target,), attributes=0.3, statements=4)
    seen = set()
    for case in cases(7, 40, options):
        text = program_text(case)
        assert LANGUAGE_KEY not in text
        again = replace(case, program=parse(text))
        assert compare_case(again, Oracle(), Oracle()).kind == "equal"
        before, after = (Oracle().run(c).outputs for c in (case, again))
        for name, output in before.items():
            assert (output.words == after[name].words).all(), text
        seen |= {*re.findall("saturation_mode ON|saturation_mode OFF", text)}
    assert seen == {"saturation_mode ON", "saturation_mode OFF"}


def test_shrinking_keeps_what_an_operation_means(tmp_path: Path) -> None:
    """A saturation mode that is left out is another one: what is sent has one in every program."""
    case = of_text(BOUND, tmp_path)
    texts: list[str] = []
    shrink(case, Oracle(), Wrong(texts), seconds=30)
    having = [line for text in texts for line in text.splitlines() if "tcvt" in line]
    assert having and all("sat_mode" in line for line in having)


def test_isolated_operations_keep_the_spelling(tmp_path: Path) -> None:
    recording = record(numbered(of_text(BOUND, tmp_path)))
    for event in recording.events:
        probe = isolated(recording, event)
        assert probe is None or "!pto.tile<" not in program_text(probe)


def test_a_program_that_says_everything_stays_the_same_object() -> None:
    case = next(cases(1, 1, replace(PRESETS["straight"], only=frozenset({"tadd"}))))
    assert spelled_out(case.program, case.profile) is case.program


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_conversion_that_leaves_its_saturation_out_is_sent_with_the_mode_that_it_has(
    target: ProfileName,
) -> None:
    """For every pair: OFF is sent only where it does what the profile's default does."""
    for (src, dst), row in conversions(target).items():
        text = f"%z = tcvt %x : !pto.tile<{src}, 1, 64> -> !pto.tile<{dst}, 1, 64>"
        (op,) = spelled_out(parse(text, language="2026-04"), PROFILES[target]).walk()
        assert row.saturation(op.attrs["sat_mode"]) == row.saturation(None), (src, dst)


def test_what_is_sent_has_the_bits_of_the_program() -> None:
    program = parse("%z = tcvt %x : !pto.tile<f32, 1, 16> -> !pto.tile<f16, 1, 16>", language="2026-04")
    x = OracleTile(program.functions[0].args[0].type, np.full((1, 16), 1e6, np.float32))
    sent = parse(str(spelled_out(program, PROFILES["a5"])))
    for each in (program, sent):
        assert run(each, (x,), profile="a5")["z"].data[0, 0] == 65504


@pytest.mark.parametrize(
    ("language", "target", "note"),
    [
        ("2026-08", "a5", "tcvt: sat_mode is left out, which means OFF here and ON in 2026-04 and in Python"),
        ("2026-04", "a5", "tcvt: sat_mode is left out, which means ON here and OFF in texts since 2026-08"),
        ("2026-08", "a2a3", ""),  # OFF has no effect there
        ("2026-08", "cpu_sim", ""),
    ],
)
def test_an_attribute_that_another_version_reads_otherwise_is_noted(
    language: Any, target: ProfileName, note: str
) -> None:
    text = "%z = tcvt %x : !pto.tile<f32, 1, 16> -> !pto.tile<f16, 1, 16>"
    notes = list(map(str, left_out(parse(text, language=language), PROFILES[target])))
    assert [n.partition("; try:")[0] for n in notes] == ([note] if note else [])
    for each in notes:
        fixed = text.replace("%x :", f"%x {{{each.partition('; try: ')[2]}}} :")
        assert list(left_out(parse(fixed, language=language), PROFILES[target])) == []
