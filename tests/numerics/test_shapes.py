"""Annotations of the lowering say the element types and axes that arrays have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Hold the annotations against calls, in a process of its own."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "tests.numerics.annotated", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.nightly
@pytest.mark.slow
def test_every_instruction_and_the_small_programs_keep_to_the_annotations() -> None:
    done = check()
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-3_000:]


#: A module, an annotation in it, a wrong one, an instruction that it is wrong for, and where that shows.
WRONG = {
    "element type": ("region", "def pack(flags: Mask", "def pack(flags: Words", "tcmp", "region.pack"),
    "axes": (
        "reduce_expand",
        'name: str) -> UInt[Array, "1 cols"]',
        'name: str) -> UInt[Array, "cols 1"]',
        "tcolexpand",
        "first_row",
    ),
    "field": ("rules", "v_row: Size |", "v_row: Word |", "tadd", "Lanes"),
    "rule": (
        "layout",
        "_tpack(c: Context, inputs: Inputs)",
        "_tpack(c: Inputs, inputs: Inputs)",
        "tpack",
        "_tpack",
    ),
}


@pytest.mark.variants(0)
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_annotation_is_noticed(case: str) -> None:
    module, annotation, wrong, instruction, place = WRONG[case]
    done = check("--only", instruction, "--change", module, annotation, wrong)
    assert done.returncode == 1 and "TypeCheckError" in done.stdout and place in done.stdout, done.stderr
