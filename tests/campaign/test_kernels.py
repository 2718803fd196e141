"""Programs as functions over pointers: they do the same, and devices are given nothing else."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.campaign.fuzz.executor_cases import Generated
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.kernels import NAME, as_kernel, form_for, kernel, kernels_only
from pto_jax.cases.targets import Oracle, Run
from pto_jax.devices.exchange import program_text
from pto_jax.errors import DeadlockError
from pto_jax.failures.folder import read, shrink_folder
from pto_jax.failures.recorder import Keeper
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, generate
from pto_jax.generate.state import Input
from pto_jax.ir import MemRefType, PtrType, ScalarType, dtype


def is_kernel(case: Case) -> bool:
    """Whether a case is a function whose arguments are memory and numbers, in text too."""
    again = pto.parse(program_text(case))
    kinds = PtrType | MemRefType | ScalarType
    return not again.fragment and all(isinstance(a.type, kinds) for a in again.entries[0].args)


@pytest.mark.variants(0)
@pytest.mark.parametrize("preset", [p for p in PRESETS if p != "defined"])
def test_kernels_do_what_their_programs_do(preset: str) -> None:
    made = 0
    for index in range(14):
        case = generate(5, index, kernels_only(PRESETS[preset]))
        kernel = as_kernel(case)
        if kernel is None:
            continue
        made += 1
        assert is_kernel(kernel)
        try:
            expected = Oracle().run(case)
        except DeadlockError:  # A mutant of the preset for ranks.
            with pytest.raises(DeadlockError):
                Oracle().run(kernel)
            continue
        found = Oracle().run(kernel)
        assert expected.outputs.keys() == found.outputs.keys()
        for name, output in expected.outputs.items():
            np.testing.assert_array_equal(output.words.reshape(-1), found.outputs[name].words.reshape(-1))
    assert made >= 11


def test_tiles_become_pointers_to_their_valid_regions() -> None:
    t = pto.TileType("i32", 4, 8)
    a = Input(t.with_valid(None, None), np.arange(32, dtype=np.uint32).reshape(4, 8), (2, 3))
    program = pto.parse("tadd %d, %a, %a : !pto.tile<4x8xi32, valid=?x?>")
    kernel = as_kernel(Case("id", 0, 0, pto.profile("a5"), program, {"a": a, "d": a}, {}))
    assert kernel is not None and kernel.entry == NAME and is_kernel(kernel)
    assert Oracle().run(kernel).outputs["d"].words.tolist() == [0, 2, 4, 16, 18, 20]


@pytest.mark.parametrize(
    "text",
    [
        "tadd %d, %a, %a : !pto.tile<4x8xi32, valid=0x8>",
        "tmov ins(%a : !pto.tile_buf<mat, 16x16xf16>) outs(%d : !pto.tile_buf<left, 16x16xf16>)",
    ],
)
def test_what_cannot_be_a_kernel_is_none(text: str) -> None:
    program = pto.parse(text)
    inputs = {
        v.name: Input(v.type, np.zeros(v.type.shape, v.type.dtype.word))  # type: ignore[union-attr,arg-type]
        for v in program.functions[0].args
    }
    assert as_kernel(Case("id", 0, 0, pto.profile("a5"), program, inputs, {})) is None


@pytest.mark.slow
def test_campaigns_of_kernels_have_nothing_else() -> None:
    presets = ("straight", "control", "memory", "aliases")
    source = Generated.of(Plan(seed=5, presets=presets, form="kernel"))
    made = [source.case(index) for index in (*range(24), 98)]
    assert all(map(is_kernel, made)) and [c.index for c in made] == [*range(24), 98]
    # What is made without a form stays what it was.
    plain = Generated.of(Plan(seed=5, presets=presets))
    assert all(plain.case(i).program == generate(5, i, PRESETS[presets[i % 4]]).program for i in range(4))


@pytest.mark.variants(0)
@pytest.mark.parametrize("preset", PRESETS)
def test_tools_place_and_order_the_kernels_of_campaigns(preset: str) -> None:
    for index in range(8):
        case = kernel(5, index, kernels_only(PRESETS[preset]))
        program = pto.parse(program_text(case))
        found = pto.verify(program, case.profile, level=2)
        assert not [str(d) for d in found if d.severity == "error"]


def test_smaller_kernels_are_what_tools_build() -> None:
    made = "pto.alloc_tile : !pto.tile_buf<vec, 16x16xf32>"
    text = f"func.func @k(%p: !pto.ptr<f32>) attributes {{pto.entry}} {{\n  %t = {made}\n  return\n}}"
    memory = {"p": Input(PtrType(dtype("f32")), np.zeros(4, np.uint32))}
    case = Case("id", 0, 0, pto.profile("a5"), pto.parse(text), memory, {}, 1, "k")
    placed = text.replace("alloc_tile :", "alloc_tile addr = %a :").replace(
        "%t =", "%a = arith.constant 0 : i64\n  %t ="
    )
    by_hand = replace(case, program=pto.parse(placed))
    tools, any_form = form_for(case, kernels=True), form_for(by_hand, kernels=True)
    assert tools is not None and tools(case) == case and tools(by_hand) is None
    assert any_form is not None and any_form(by_hand) == by_hand


class Strict:
    """Executes kernels only, and gets one bit of what tmul writes wrong."""

    name = "strict"

    def __init__(self) -> None:
        self.seen: list[Case] = []

    def run(self, case: Case) -> Run:
        self.seen.append(case)
        run = Oracle().run(case)
        if not any(op.name == "tmuls" for op in case.program.walk()):
            return run
        return Run({n: replace(o, words=o.words ^ o.words.dtype.type(1)) for n, o in run.outputs.items()})


DEVICE = Strict()


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("tested", "kernels"), [("oracle:again", True), (f"python:{__name__}:DEVICE", False)]
)
def test_failures_are_made_small_as_kernels(tmp_path: Path, tested: str, kernels: bool) -> None:
    """Where that is asked for, and where a device was given one: also when a folder is made smaller."""
    options = kernels_only(
        replace(PRESETS["straight"], only=frozenset({"tmuls", "tadd", "tmov"}), statements=4)
    )
    device = Strict()
    made = (k for i in range(200) if (k := as_kernel(generate(2, i, options))) is not None)
    found = (compare_case(k, Oracle(), device) for k in made)
    (outcome,) = islice((o for o in found if o.is_failure), 1)
    device.seen.clear()
    keeper = Keeper(tmp_path, 60, "oracle", tested, calls=150, kernels=kernels)
    record = keeper(outcome, Oracle(), device)
    assert device.seen and all(map(is_kernel, device.seen))
    assert record.folder is not None and record.instruction == "tmuls"
    small = read(record.folder).case
    assert is_kernel(small) and sum(op.name == "tmuls" for op in small.program.walk()) == 1
    assert not any(op.name in ("tadd", "tmov") for op in small.program.walk())
    assert compare_case(small, Oracle(), device).kind == "different"
    if not kernels:
        assert shrink_folder(record.folder, 40, trust=True).verdict in ("smaller", "as small")
        assert all(map(is_kernel, DEVICE.seen)) and is_kernel(read(record.folder).case)
