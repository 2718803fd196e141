"""The device check passes on the CPU, sees an injected wrong bit, and refuses wrong use."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import pytest
from jax import Array

from pto_jax import isa
from pto_jax.ir import F32
from pto_jax.isa.samples.operations import legal_samples
from pto_jax.lowering import rules
from pto_jax.profiles import A2A3, A5
from pto_jax.runtime import kernel
from pto_jax.testing import device_check, differential
from pto_jax.testing.device_check import Outcome

CPU = jax.devices("cpu")[0]


@pytest.fixture
def wrong_tneg(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A lowering of tneg with one wrong bit in one lane, and no compiled code from before or after."""
    right = rules.RULES["tneg"]

    def wrong(context: rules.Context, inputs: rules.Inputs) -> Mapping[str, Array]:
        made = right(context, inputs)["dst"]
        words = made.words if isinstance(made, rules.Result) else made
        return {"dst": words.at[0, 3].set(words[0, 3] ^ 1)}

    def forget() -> None:
        kernel._jitted.cache_clear()
        rules.jitted.cache_clear()

    monkeypatch.setitem(rules.RULES, "tneg", wrong)
    forget()
    yield
    forget()


@pytest.mark.slow
def test_a_subset_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert device_check.main(["--device", "cpu", "--only", "tneg", "--seed", "3", "--jobs", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("device: cpu (cpu), JAX ") and "seed 3" in shown
    assert "a2a3: 1 instructions, " in shown and "NaN lanes: " in shown
    assert "f32 tmul -> tadd: 1048576 lanes, 0 differ" in shown
    assert "\npassed: " in shown and "DIFFERS" not in shown


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.usefixtures("wrong_tneg")
def test_one_wrong_bit_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(device_check, "EXACTNESS", ())
    assert device_check.main(["--only", "tneg", "--jobs", "1"]) == 1
    shown = capsys.readouterr().out
    assert "DIFFERS tneg " in shown and "first (0, 3): 0x" in shown and "\nFAILED: " in shown


def test_a_contracted_formula_differs() -> None:
    (chain,) = (c for c in device_check.EXACTNESS if c.name == "tmul -> tadd")
    found, note = device_check.check_exactness(chain, 0, CPU, tiles=4)
    assert found.lanes == 4 * 32 * 64 and found.different == 0
    assert "naive jitted jnp differs in " in note and "differs in 0" not in note

    def contracted(a: Any, b: Any, c: Any) -> Any:
        return (a.astype(np.float64) * b + c).astype(np.float32)

    other = device_check.Exactness(chain.name, chain.text, contracted)
    found, _ = device_check.check_exactness(other, 0, CPU, tiles=4)
    assert found.different > 0 and found.failures


def test_a_crash_is_a_failure_of_its_operation_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*args: Any) -> None:
        raise RuntimeError("no memory\nmore text")

    monkeypatch.setattr(differential, "arguments", crash)
    sample = next(legal_samples(isa.instructions()["tneg"], A2A3))
    (failure,) = device_check.check_sample(sample, A2A3, 0, CPU).failures
    assert failure.startswith("tneg [") and failure.endswith("[a2a3]: RuntimeError: no memory")


def test_nan_bits_are_counted_but_no_difference() -> None:
    found = Outcome()
    quiet, other, one = 0x7FC00000, 0xFFC00001, 0x3F800000
    expected = np.array([quiet, quiet, one, one], np.uint32)
    found.compare("dst", F32, np.array([quiet, other, one, one + 1], np.uint32), expected, ulp=1)
    assert (found.nan, found.nan_bits, found.different, found.ulp) == (2, 1, 0, 1)
    found.compare("dst", F32, np.array([quiet, other, one, one + 1], np.uint32), expected)
    assert found.different == 1 and found.failures[0].endswith(
        "first (3,): 0x3f800001 (1.0000001192092896), wanted 0x3f800000 (1.0)"
    )


def test_seeds_choose_the_operands() -> None:
    sample = next(legal_samples(isa.instructions()["tadd"], A2A3))
    first, again, other = (
        differential.make_case(sample, A2A3, seed).given["src0"].words for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nonsense"], "--only nonsense: got no such instruction"),
        (["--seed", "-1"], "allowed: "),
        (["--jobs", "0"], "allowed: "),
    ],
)
def test_wrong_use(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert device_check.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="needs a machine without GPU")
def test_a_missing_device_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert device_check.main(["--device", "gpu"]) == 2
    assert "--device gpu: JAX has no such device here" in capsys.readouterr().err


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ["tquant.mx", "tquant_dn"])
def test_pairs_of_exponents_are_equal_for_every_number_of_groups(name: str) -> None:
    """Run-time regions, which no text may give them, have odd numbers of groups."""
    paired = [s for s in legal_samples(isa.instructions()[name], A5) if s.attrs.get("interleave")]
    assert len(paired) > 1
    for sample in (paired[0], paired[-1]):
        outcome = device_check.check_sample(sample, A5, 0, CPU)
        assert outcome.lanes and not outcome.failures, outcome
