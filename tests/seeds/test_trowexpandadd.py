"""Page pto.trowexpandadd: its printed spellings are read as printed."""

from __future__ import annotations

import pytest

import pto_jax as pto

SSA = "%dst = pto.trowexpandadd %src0, %src1 : !pto.tile<...>, !pto.tile<...> -> !pto.tile<...>"
DPS = (
    "pto.trowexpandadd ins(%src0, %src1 : !pto.tile_buf<...>, !pto.tile_buf<...>) "
    "outs(%dst : !pto.tile_buf<...>)"
)
PRINTED = {
    "Synchronous form": (
        "%dst = trowexpandadd %src0, %src1 : !pto.tile<...>, !pto.tile<...> -> !pto.tile<...>"
    ),
    "AS Level 1 (SSA)": SSA,
    "AS Level 2 (DPS)": DPS,
    "Auto Mode": f"# Auto mode: compiler/runtime-managed placement and scheduling.\n{SSA}",
    "Manual Mode": (
        "# Manual mode: bind resources explicitly before issuing the instruction.\n"
        "# Optional for tile operands:\n"
        "# pto.tassign %arg0, @tile(0x1000)\n"
        "# pto.tassign %arg1, @tile(0x2000)\n"
        f"{SSA}"
    ),
    "PTO Assembly Form, AS Level 2 (DPS)": f"# AS Level 2 (DPS)\n{DPS}",
}


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED.keys())
def test_printed_spelling_parses_as_printed(text: str) -> None:
    program = pto.parse(text)
    (op,) = program.walk()
    assert op.name == "trowexpandadd" and program.fragment_results == ("dst",)
    assert [v.name for v in op.ins] == ["src0", "src1"]
    assert [v.name for v in op.destinations] == ["dst"]
    assert bool(op.outs) == ("outs" in text)
    assert "<...>" in str(program)
    assert pto.parse(str(program)) == program


def test_the_spellings_with_a_result_are_one_program() -> None:
    program = pto.parse(SSA)
    for text in (PRINTED["Synchronous form"], PRINTED["Auto Mode"], PRINTED["Manual Mode"]):
        other = pto.parse(text, file="other.pto")
        assert other == program and hash(other) == hash(program) and other.digest == program.digest
    assert pto.parse(DPS) != program
