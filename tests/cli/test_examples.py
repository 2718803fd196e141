"""The calls in Python that pages of instructions show, and what they print."""

import doctest
import io
from contextlib import redirect_stdout

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.cli import examples
from pto_jax.cli.main import main
from pto_jax.manual import sessions
from pto_jax.runtime import op_functions

TABLE = isa.instructions()
CALLED = [n for n, i in TABLE.items() if op_functions.is_function(i)]
#: Legal on no profile: the assembler rejects them where the types are.
VERIFIED = {"tmatmul.mx.hif4", "tquant.hif4"}


def problems(name: str) -> str:
    """What doctest reports of the stored example; "" where its call is today's and prints what is stored."""
    session = sessions()[name]
    calls = "".join(e.source for e in doctest.DocTestParser().get_examples(f"{session}\n")).rstrip("\n")
    assert calls == "\n".join(examples.statements(TABLE[name])), "python -m tools.stubs --sessions writes it"
    test = doctest.DocTestParser().get_doctest(f"{session}\n", {"np": np, "pto": pto}, name, None, 0)
    assert test.examples and test.examples[-1].want, name
    printed = io.StringIO()
    # A kernel prints a line feed that sessions leave out.
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=printed.write)
    return printed.getvalue()


@pytest.mark.parametrize("name", CALLED)
@pytest.mark.variants(3)
def test_a_call_prints_what_its_page_shows(name: str) -> None:
    assert problems(name) == ""
    assert len(examples.statements(TABLE[name])[-1]) < 400


def test_every_other_instruction_is_built_in_a_kernel_that_its_page_prints() -> None:
    for name in sorted(set(TABLE) - set(CALLED) - VERIFIED):
        head, shown = examples.statements(TABLE[name])
        assert head.startswith("@pto.kernel") and shown == "print(k)"
        assert problems(name) == "", name
    assert all("pto.verify(" in examples.session(TABLE[name]) for name in VERIFIED)
    assert sessions().keys() == set(TABLE)


@pytest.mark.nightly
@pytest.mark.slow
def test_examples_are_small_and_their_numbers_say_something() -> None:
    sizes = [pair for n in CALLED for pair in _sizes(n)]
    assert np.median(sizes) <= 32
    assert "nan" not in "".join(
        examples.session(TABLE[n]) for n in ("tlog", "tsqrt", "tdiv", "trowexpanddiv")
    )
    assert "9 10 11 12 13 14 15  0  1  2" in examples.session(TABLE["tgatherb"])


def _sizes(name: str) -> list[int]:
    names, _ = examples.executed(examples.statements(TABLE[name])[:-1])
    return [np.asarray(x).size for k, x in names.items() if k not in ("np", "pto", "__builtins__", "k")]


def test_the_command_prints_the_same_call() -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main(["isa", "trowsum"]) == 0
    assert examples.session(TABLE["trowsum"]).replace("\n", "\n  ") in printed.getvalue()


def test_a_tile_prints_its_type_and_valid_elements() -> None:
    x = np.arange(600, dtype=np.float32).reshape(10, 60)
    lines = str(pto.tile(x, valid=(9, 50))).splitlines()
    assert lines[0] == "vec 10x60xf32, valid 9x50" and lines[1].startswith("  0   1   2 ")
    assert lines[1].endswith(" ...") and lines[-1] == "..." and len(lines) == 10
    assert max(map(len, lines)) <= 88
    assert str(pto.tile(x, valid=(0, 3))) == "vec 10x60xf32, valid 0x3"
