"""Which irregular instructions are legal: recorded cases, overloads, and what the messages say."""

from pathlib import Path

import pytest

import pto_jax as pto
from pto_jax.ir import MaskPattern
from pto_jax.isa import instructions
from pto_jax.isa.rules.irregular import period, picked
from pto_jax.profiles import PROFILE_NAMES, profile
from pto_jax.vectors.cases import case_instruction, case_program
from pto_jax.vectors.manifest import load_file
from pto_jax.verifier.programs import verify_program

GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = (
    "tci ttri trandom thistogram tprint tsort32 tmrgsort tgather tgatherb tscatter tquant tquant.mx "
    "tquant_dn tquant.hif4 tdequant tpartadd tpartmul tpartmax tpartmin tpartargmax tpartargmin"
).split()
RECORDED = [n for n in NAMES if n not in ("tprint", "tquant.mx", "tquant.hif4")]
A5_ONLY = ("trandom", "thistogram", "tquant.mx", "tquant_dn")


def test_every_instruction_of_the_class_is_declared() -> None:
    assert {n for n, i in instructions().items() if i.cls == "irregular"} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_profiles_of_each_instruction(name: str) -> None:
    types = instructions()[name].types
    missing = ["a2a3"] if name in A5_ONLY else list(PROFILE_NAMES) if name == "tquant.hif4" else []
    assert [p for p in PROFILE_NAMES if not types.get(p)] == missing


@pytest.mark.parametrize("file", RECORDED)
def test_recorded_operations_break_no_rule(file: str) -> None:
    seen: set[str] = set()
    for case in load_file(GOLDEN / f"{file}.npz"):
        instruction, program = case_instruction(case), case_program(case)
        assert instruction is not None and program.functions[0].body.ops[0].name == instruction.name
        errors = [d for d in verify_program(program, profile("cpu_sim")) if d.severity == "error"]
        assert not errors, (case.id, errors)
        seen.add(instruction.name)
    assert seen == ({"tquant", "tquant.mx"} if file == "tquant" else {file})


@pytest.mark.parametrize(
    "text",
    [
        "%d = tci %s {descending = true} : !pto.tile<1x32xi32>",
        "%d = pto.tci %s {descending = false} : i32 -> !pto.tile<1x32xi32>",
        "%d = ttri %s {upperOrLower = 1} : !pto.tile<4x32xf16>",
        "%d = trandom %a, %b, %c, %e, %f, %g {rounds = 7} : !pto.tile<2x32xui32>",
        "%d = thistogram %s, %i {byte = BYTE_0} : !pto.tile<2x32xui16>, "
        "!pto.tile<32x1xui8, blayout=col_major> -> !pto.tile<2x256xui32>",
        "%d = tsort32 %s, %i, %t : !pto.tile<1x32xf32>, !pto.tile<1x32xui32>, !pto.tile<1x32xf32> -> "
        "!pto.tile<1x64xf32>",
        "%d = tmrgsort %s, %n : !pto.tile<1x256xf32>, i32 -> !pto.tile<1x256xf32>",
        "%d, %ex = tmrgsort %a, %b, %t {exhausted = true} : !pto.tile<1x64xf32>, !pto.tile<1x64xf32>, "
        "!pto.tile<1x128xf32> -> !pto.tile<1x128xf32>, vector<4xi16>",
        "%d = tgather %s {maskPattern = #pto.mask_pattern<P0101>} : !pto.tile<1x32xf32>",
        "%d, %n = tgather %s, %k, %t {cmpMode = #pto<cmp gt>, offset = 3} : !pto.tile<2x32xf32>, f32, "
        "!pto.tile<4x32xui8> -> !pto.tile<2x32xi32>, !pto.tile<1x8xi32>",
        "tscatter %d, %s, %i : !pto.tile<2x32xf32>, !pto.tile<2x32xf32>, !pto.tile<2x32xi32>",
        "%d = tquant %s, %k {quant_type = #pto<quant_type INT8_SYM>} : !pto.tile<8x32xf32>, "
        "!pto.tile<8x8xf32> -> !pto.tile<8x32xi8>",
        "%q, %e, %m, %f = tquant.mx %s {mx_alg = NvMxFp8E4M3, grp_axis = 1} : !pto.tile<2x32xf32> -> "
        "!pto.tile<2x32xi8>, !pto.tile<2x32xui8>, !pto.tile<1x8xf32>, !pto.tile<1x8xf32>",
        "%d, %i = tpartargmin %a, %b, %c, %e : !pto.tile<2x32xf32>, !pto.tile<2x32xf32>, "
        "!pto.tile<2x32xi32>, !pto.tile<2x32xi32> -> !pto.tile<2x32xf32>, !pto.tile<2x32xi32>",
        "tprint %s : !pto.tile<2x32xf32>",
    ],
)
def test_spellings_are_read_and_printed(text: str) -> None:
    program = pto.parse(text)
    assert pto.parse(str(program)) == program
    open_types = {"type-given"}
    assert {d.rule for d in pto.verify(program, "a5") if d.severity == "error"} <= open_types


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (
            "%d, %n = tgather %s, %k : !pto.tile<2x32xf32>, f32 -> !pto.tile<2x32xi32>, !pto.tile<1x8xi32>",
            "cpu_sim",
            "the form does not exist there",
        ),
        (
            "%d = tgather %s : !pto.tile<2x32xf32>",
            "a5",
            "a single source without maskPattern",
        ),
        (
            "%d = tgather %s, %k : !pto.tile<2x32xf32>, f32 -> !pto.tile<2x32xi32>",
            "a5",
            "dst and cdst (matches per row)",
        ),
        (
            "%d = tmrgsort %a, %b, %t : !pto.tile<1x64xf32>",
            "a2a3",
            "dst and the counts, vector<4xi16>",
        ),
        (
            "%n = arith.constant 48 : i32 %d = tmrgsort %s, %n : !pto.tile<1x256xf32>, i32 -> "
            "!pto.tile<1x256xf32>",
            "a2a3",
            "a multiple of 64",
        ),
        (
            "%d = tquant %s, %k {quant_type = #pto<quant_type MXFP8>} : !pto.tile<8x32xf32>, "
            "!pto.tile<8x8xf32> -> !pto.tile<8x32xi8>",
            "a5",
            "tquant.mx makes the others",
        ),
        (
            "%d = tquant.hif4 %s : !pto.tile<8x64xbf16> -> !pto.tile<8x64xf4e1m2x2>",
            "a5",
            "the instruction does not exist there",
        ),
        (
            "%d = thistogram %s, %i : !pto.tile<2x32xui16>, !pto.tile<2x32xui8> -> !pto.tile<2x256xui32>",
            "a2a3",
            "the instruction does not exist there",
        ),
    ],
)
def test_what_is_rejected_and_why(text: str, target: str, message: str) -> None:
    errors = [d.message for d in pto.verify(pto.parse(text), target) if d.severity == "error"]
    assert any(message in e for e in errors), errors


def test_pattern_digits_count_from_the_right() -> None:
    for pattern in MaskPattern:
        n, k = period(pattern)
        digits = pattern.name[1:]
        expected = [i for i in range(12) if digits[::-1][i % 4] == "1"]
        assert [i for i in range(12) if i % n == k] == expected
        assert [picked(pattern, count) for count in (0, 1, 5, 12)] == [
            sum(i < count for i in expected) for count in (0, 1, 5, 12)
        ]
