"""Kernels on the pages of micro-operations: they are legal, and print what the pages show."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.manual import manual
from pto_jax.manual.micro import distributions, kernels, micro_sessions
from tools import stubs

#: Operations of registers that no kernel of one line shows: streams, special registers, types without arrays.
WITHOUT = {
    "vldas", "vldus", "init_align", "vstus", "vstur", "vstas", "vstar", "pstu", "sprclr", "mem_bar",
    "vmi.constant_mask", "vmi.vsstb",
}  # fmt: skip
QUICK = ("vadd", "vcmp", "vsqz", "vcvt", "vlds", "vsts", "plt_b32", "vmi.vadd")


def test_stored_sessions_are_those_of_the_kernels() -> None:
    stored = stubs.MICRO_SESSIONS.read_text(encoding="utf-8")
    assert stored == stubs.micro_sessions(), "python -m tools.stubs --sessions writes it"


def test_operations_on_registers_have_a_kernel() -> None:
    families = isa.micro_families()
    inside = {
        o.name for f, ops in families.items() if f not in ("cube", "cube_stores", "ub_transfers") for o in ops
    }
    assert inside - kernels().keys() == WITHOUT | {"dsb"}


@pytest.mark.variants(3)
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in sorted(micro_sessions())]
)
def test_the_engine_prints_what_the_page_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"{name}.pto").write_text(kernels()[name].text(), encoding="utf-8")
    *lines, printed = micro_sessions()[name].splitlines()
    names: dict[str, Any] = {"np": np, "pto": pto}
    for line in lines[:-1]:
        exec(line.removeprefix(">>> "), names)
    assert str(eval(lines[-1].removeprefix(">>> "), names)) == printed
    page = manual(name)
    assert printed in page and 'pto.load("' in page


def test_types_are_a_matrix() -> None:
    rows = manual("vshl").split("Element types\n")[1].split("\n\n")[0].splitlines()
    header, *letters = (row.split() for row in rows)
    operation = isa.micro_operations()["vshl"]
    assert [row[0] for row in letters] == list(operation.elements)
    for letter, *cells in letters:
        having = [t for t, cell in zip(header[1:], cells, strict=True) if cell == "x"]
        assert having == [t for t in header[1:] if t in operation.elements[letter]]


@pytest.mark.parametrize("name", ["vlds", "vsts", "vldsx2", "vstsx2", "vpack", "vintlvv2"])
def test_every_distribution_that_is_executed_has_a_kernel(name: str) -> None:
    operation = isa.micro_operations()[name]
    key = "dist" if "dist" in operation.choices else "part"
    drawn = {word for word, _ in distributions(operation)}
    assert drawn <= set(operation.choices[key]) - set(operation.refused)
    assert len(drawn) > len(operation.choices[key]) // 2
