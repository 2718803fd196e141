"""Names that may stand for the same data: handles, addresses, regions and calls."""

import pytest

from pto_jax.analysis.provenance import AliasClasses
from pto_jax.api import parse

T = "!pto.tile_buf<vec, 16x64xf32>"
CASES = {
    "two tiles": ("", False),
    "two handles": (f"%x = pto.bitcast %a : {T} -> {T}\n%y = pto.bitcast %x : {T} -> {T}\n", True),
    "two tiles with addresses": (
        f"%x = pto.alloc_tile addr = %k : {T}\n%y = pto.alloc_tile addr = %k : {T}\n",
        True,
    ),
    "two tiles without": (f"%x = pto.alloc_tile : {T}\n%y = pto.alloc_tile : {T}\n", False),
    "a result and its source": (f"%x = pto.bitcast %a : {T} -> {T}\n%y = tneg %x : {T}\n", False),
    "from a branch": (
        f"%x = pto.bitcast %a : {T} -> {T}\n%y = scf.if %c -> ({T}) {{\nscf.yield %x : {T}\n}} else {{\n"
        f"scf.yield %b : {T}\n}}\n",
        True,
    ),
    "carried by a loop": (
        f"%x = pto.bitcast %a : {T} -> {T}\n"
        f"%y = scf.for %i = %n to %n step %n iter_args(%h = %b) -> ({T}) {{\nscf.yield %x : {T}\n}}\n",
        True,
    ),
    "through a call": (
        f"%x = pto.bitcast %a : {T} -> {T}\n%y = func.call @g(%x) : ({T}) -> {T}\n",
        True,
    ),
}


@pytest.mark.parametrize(("body", "same"), CASES.values(), ids=CASES.keys())
def test_classes(body: str, same: bool) -> None:
    arguments = f"%c: i1, %n: index, %k: i64, %a: {T}, %b: {T}"
    own = "" if body else f", %x: {T}, %y: {T}"
    program = parse(
        f"func.func @f({arguments}{own}) {{\n{body}return\n}}\n"
        f"func.func private @g(%t: {T}) -> {T} {{\nreturn %t : {T}\n}}"
    )
    classes = AliasClasses(program)
    assert (classes.of("f", "x") == classes.of("f", "y")) is same
