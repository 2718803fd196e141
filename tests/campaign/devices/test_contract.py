"""The contract of a device under test: what ``fuzz --help-dut`` says is what devices meet."""

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from pto_jax.campaign.fuzz.executor_cases import Programs
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Oracle
from pto_jax.cli import main
from pto_jax.devices import contract
from pto_jax.devices.conversation import Server
from pto_jax.devices.dut import Command
from pto_jax.devices.machines import DUT_TIMEOUT
from pto_jax.generate.programs import Case


@pytest.fixture(scope="module")
def help_text() -> str:
    return contract.text()


def example(help_text: str, name: str) -> str:
    """The indented block after the line that names a file."""
    start = help_text.index("\n", help_text.index(name))
    block = re.match(r"\n+((?:    .*\n|\n)+)", help_text[start:])
    assert block is not None
    return textwrap.dedent(block[1])


@pytest.fixture
def case(tmp_path: Path, help_text: str) -> Case:
    file = tmp_path / "add.pto"
    text = next(line for line in help_text.splitlines() if line.startswith("    tadd "))
    file.write_text(text)
    return Programs.of(Plan(programs=(str(file),))).case(0, 0)


def test_the_command_prints_the_contract(capsys: pytest.CaptureFixture[str], help_text: str) -> None:
    assert main.main(["fuzz", "--help-dut"]) == 0
    assert capsys.readouterr().out == help_text


def test_the_text_has_the_names_and_numbers_that_devices_meet(help_text: str) -> None:
    names = [f"{{{n}}}" for n in contract.PLACEHOLDERS]
    names += [contract.PROGRAM, contract.INPUTS, contract.MANIFEST, contract.OUTPUTS]
    assert [n for n in names if n not in help_text] == []
    assert f"\n0: the results are there. {contract.DECLINED}: declined" in help_text
    assert f"sys.exit({contract.DECLINED})" in contract.EXAMPLE
    assert f"(default: {DUT_TIMEOUT:g})" in help_text
    assert max(map(len, help_text.splitlines())) <= 113


def test_a_command_takes_the_placeholders_of_the_contract() -> None:
    command = " ".join(["true", *(f"{{{n}}}" for n in contract.PLACEHOLDERS)])
    assert Command(command, 1)._template.used == set(contract.PLACEHOLDERS)


@pytest.mark.variants(1)
@pytest.mark.parametrize(("plus", "kind"), [(" + b", "equal"), (" - b", "different")])
def test_the_script_of_the_contract_agrees_until_it_is_wrong(
    tmp_path: Path, help_text: str, case: Case, plus: str, kind: str
) -> None:
    script = example(help_text, "device.py\n")
    assert len(script.strip().splitlines()) == 15
    assert script.count(" + b") == 1
    (tmp_path / "device.py").write_text(script.replace(" + b", plus))
    command = re.search(r"--dut '(python device.py .*)'", help_text)
    assert command is not None
    words = command[1].replace("python device.py", shlex.join([sys.executable, str(tmp_path / "device.py")]))
    outcome = compare_case(case, Oracle(), Command(words, 60))
    assert outcome.kind == kind, outcome.message


@pytest.mark.variants(1)
@pytest.mark.parametrize(("plus", "kind"), [(" + b", "equal"), (" - b", "different")])
def test_the_server_of_the_contract_agrees_until_it_is_wrong(
    tmp_path: Path, help_text: str, case: Case, plus: str, kind: str
) -> None:
    script = example(help_text, "'python server.py':")
    assert script.count(" + b") == 1
    (tmp_path / "server.py").write_text(script.replace(" + b", plus))
    device = Server(shlex.join([sys.executable, str(tmp_path / "server.py")]), 60)
    outcome = compare_case(case, Oracle(), device)
    assert outcome.kind == kind, outcome.message
    negation = tmp_path / "neg.pto"
    negation.write_text("tneg %d, %a : !pto.tile<16x64xi32>\n")
    other = Programs.of(Plan(programs=(str(negation),))).case(0, 0)
    assert compare_case(other, Oracle(), device).kind == "refused"
    device.close()


@pytest.mark.slow
@pytest.mark.parametrize(("plus", "kind"), [(" + of", "equal"), (" - of", "different")])
def test_the_server_in_cpp_agrees_until_it_is_wrong(
    tmp_path: Path, help_text: str, case: Case, plus: str, kind: str
) -> None:
    text = example(help_text, "server.cpp -o server:")
    assert text.count(" + of") == 1
    (tmp_path / "server.cpp").write_text(text.replace(" + of", plus))
    words = ["c++", "-O2", "-std=c++17", "-Wall", "-Werror", "server.cpp", "-o", "server"]
    subprocess.run(words, cwd=tmp_path, check=True)
    device = Server(str(tmp_path / "server"), 60)
    assert [compare_case(case, Oracle(), device).kind for _ in range(2)] == [kind] * 2
    device.close()


@pytest.mark.parametrize(("plus", "kind"), [("+ tiles", "equal"), ("- tiles", "different")])
def test_the_class_of_the_contract_agrees_until_it_is_wrong(
    help_text: str, case: Case, plus: str, kind: str
) -> None:
    text = example(help_text, "PYTHONPATH=.):")
    assert text.count("+ tiles") == 1
    names: dict[str, Any] = {}
    exec(text.replace("+ tiles", plus), names)
    assert compare_case(case, Oracle(), names["Adder"]()).kind == kind


def test_the_script_of_the_contract_declines_what_it_does_not_know(tmp_path: Path, help_text: str) -> None:
    (tmp_path / "device.py").write_text(example(help_text, "device.py\n"))
    (tmp_path / "neg.pto").write_text("tneg %d, %a : !pto.tile<16x64xi32>\n")
    case = Programs.of(Plan(programs=(str(tmp_path / "neg.pto"),))).case(0, 0)
    command = shlex.join([sys.executable, str(tmp_path / "device.py")]) + " {program} {inputs} {outputs}"
    assert compare_case(case, Oracle(), Command(command, 60)).kind == "refused"
