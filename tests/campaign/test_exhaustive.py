"""Every input of an instruction with small sources: none is left out, and one wrong result is found."""

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from pto_jax.campaign.exhaustive import Row, cases, exhaust, rows
from pto_jax.cases.targets import Engine, Run
from pto_jax.cli.main import main
from pto_jax.devices.machines import machine
from pto_jax.generate.programs import Case
from pto_jax.profiles import PROFILES


def _row(profile: str, name: str, dtype: str, *attrs: str) -> Row:
    found = rows([PROFILES[profile]], (name,), (dtype,))  # type: ignore[index]
    return next(r for r in found if all(a in r.label.split() for a in attrs))


@pytest.mark.slow
def test_one_conversion_and_one_binary_are_exhausted_and_equal() -> None:
    for row in (
        _row("a5", "tcvt", "f16->i8", "rmode=RINT", "sat_mode=OFF"),
        _row("a5", "tadd", "i8"),
        _row("a5", "tadds", "i8"),
        _row("cpu_sim", "tcmp", "i8", "cmpMode=LT"),
    ):
        inputs = set[tuple[int, ...]]()
        for case in cases(row):
            words = [case.inputs[name].words for name in row.sources]
            inputs |= set(zip(*(w.reshape(-1).tolist() for w in np.broadcast_arrays(*words)), strict=True))
        assert len(inputs) == row.inputs == 65536, row.label
        result = exhaust(row, machine("oracle"), machine("jit"))
        assert (result.compared, result.different, result.messages) == (65536, 0, []), str(result)


class _Wrong(Engine):
    """The engine with one wrong bit for one input."""

    wrong: Mapping[str, int]

    def run(self, case: Case) -> Run:
        run = super().run(case)
        (name,) = run.outputs
        hit = np.True_
        for n, w in self.wrong.items():
            hit = hit & (case.inputs[n].words == w)
        output = run.outputs[name]
        words = output.words.copy()
        if words.shape == hit.shape:
            words ^= hit.astype(words.dtype)
        else:
            packed = np.packbits(hit, axis=1, bitorder="little").view(words.dtype)
            words[:, : packed.shape[1]] ^= packed
        return replace(run, outputs={name: replace(output, words=words)})


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (("a5", "tcvt", "f16->i8", "rmode=RINT"), {"src": 0x4A5B}),
        (("a5", "tadd", "i8"), {"src0": 0x7F, "src1": 0x81}),
        (("a5", "tadds", "i8"), {"src": 0x0A, "scalar": 0xFE}),
        (("cpu_sim", "tcmp", "i8", "cmpMode=LT"), {"src0": 0x12, "src1": 0x35}),
    ],
)
def test_one_wrong_result_of_65536_is_named_with_its_input(
    row: tuple[str, ...], wrong: dict[str, int]
) -> None:
    tested = _Wrong("jit")
    object.__setattr__(tested, "wrong", wrong)
    result = exhaust(_row(*row), machine("oracle"), tested)
    assert result.different == 1, str(result)
    (failure,) = result.failures
    assert {name: int(w, 16) for name, w in failure.inputs.items()} == wrong
    assert int(failure.got, 16) != int(failure.wanted, 16)


def test_a_planted_rule_of_the_engine_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(self: Engine, case: Case) -> Run:
        wrong = _Wrong("jit")
        object.__setattr__(wrong, "wrong", {"src": 0x8001})
        monkeypatch.setattr(Engine, "run", original)
        try:
            return wrong.run(case)
        finally:
            monkeypatch.setattr(Engine, "run", run)

    original = Engine.run
    command = "fuzz --exhaustive --only tabs --dtype f16 --profile a5"
    assert main(command.split()) == 0
    assert "65536 of 65536 inputs compared, 0 differ" in capsys.readouterr().out
    monkeypatch.setattr(Engine, "run", run)
    assert main([*command.split(), "--json"]) == 1
    (result,) = json.loads(capsys.readouterr().out)
    assert result["different"] == 1
    assert result["failures"][0]["inputs"] == {"src": "0x8001"}


def test_large_rows_are_named_and_alone_are_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    command = "fuzz --exhaustive --only tadd --dtype f16 --profile a5"
    assert main(command.split()) == 1
    out = capsys.readouterr().out
    assert "a5 tadd f16,f16 -> f16: too large: 4294967296 inputs" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--seed 3", "--seed with --exhaustive"),
        ("--only tmatmul", "no lane-wise instruction"),
        ("--only tadd --dtype f8", "--dtype f8; allowed"),
        ("--tested oracle --against dut:x", "allowed: devices as --tested or --dut"),
    ],
)
def test_options_without_a_meaning_are_errors(
    options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fuzz", "--exhaustive", *options.split()]) == 2
    assert message in capsys.readouterr().err


def test_a_device_gets_every_input_as_a_function_over_pointers() -> None:
    class Device:
        name = "device"

        def run(self, case: Case) -> Run:
            assert not case.program.fragment
            return machine("oracle").run(case)

    row = _row("a5", "tneg", "f16")
    result = exhaust(row, machine("oracle"), Device(), device="dut:./sim")
    assert (result.compared, result.different) == (65536, 0), str(result)


def test_a_device_that_declines_everything_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    device = "python:tests.campaign.devices.devices:Declining"
    command = f"fuzz --exhaustive --only tabs --dtype i8 --profile a5 --tested {device}"
    assert main(command.split()) == 1
    out = capsys.readouterr().out
    assert "a5 tabs i8 -> i8: 0 of 256 inputs compared, 0 differ" in out
    assert "too hard" in out
