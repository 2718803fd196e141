"""What regions write, followed to the names around them."""

import pytest

from pto_jax.analysis.provenance import Origin
from pto_jax.analysis.resolve import resolve
from pto_jax.api import parse

T = "!pto.tile_buf<vec, 16x64xf32>"
W = "!pto.partition_tensor_view<16x64xf32>"


def neg(target: str) -> str:
    return f"pto.tneg ins(%a : {T}) outs(%{target} : {T})\n"


def view(target: str) -> str:
    return f"%{target} = pto.bitcast %b : {T} -> {T}\n"


CASES: dict[str, tuple[str, tuple[Origin, ...]]] = {
    "a tile around it": (neg("b"), ("b",)),
    "in the order of the text, once each": (neg("b") + neg("a") + neg("b"), ("b", "a")),
    "through a handle": (view("v") + neg("v"), ("b",)),
    "through a handle of a handle": (
        view("v") + f"%u = pto.bitcast %v : {T} -> {T}\n" + neg("u"),
        ("b",),
    ),
    "a tile of its own": (f"%t = pto.alloc_tile : {T}\n" + neg("t"), (0,)),
    "a tile of its own that is only read": (
        f"%t = pto.alloc_tile : {T}\npto.tneg ins(%t : {T}) outs(%b : {T})\n",
        ("b",),
    ),
    "a buffer": (f"pto.tstore ins(%a : {T}) outs(%w : {W})\n", ("w",)),
    "a new result": (f"%r = tneg %a : {T}\n", ("r",)),
    "what a loop inside carries": (
        f"%l = scf.for %i = %n to %n step %n iter_args(%h = %b) -> ({T}) {{\n"
        f"{neg('h')}scf.yield %h : {T}\n}}\n",
        ("b",),
    ),
}


@pytest.mark.parametrize(("body", "origins"), CASES.values(), ids=CASES.keys())
def test_writes_inside_a_branch(body: str, origins: tuple[Origin, ...]) -> None:
    resolved = resolve(
        parse(
            f"func.func @f(%c: i1, %n: index, %a: {T}, %b: {T}, %w: {W}) {{\n"
            f"scf.if %c {{\n{body}}}\nreturn\n}}"
        )
    )
    branch = resolved.program.functions[0].body.ops[0]
    found = resolved.writes_inside(branch)
    assert found.origins == origins
    assert [op.name for op in found.allocations] == ["alloc_tile"] * body.count("alloc_tile")
    assert resolved.writes_inside(branch) is found
