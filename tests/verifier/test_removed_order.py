"""Of programs that order their pipes by hand, every operation that orders is taken away once.

Each loss is a race, a token that never comes or one too many, and is named. What the table counts is what
``verify`` sees; the rest orders nothing that is not ordered otherwise.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pto_jax.api import load, parse, verify
from pto_jax.examples import EXAMPLES
from pto_jax.ir import Op, Program, Region
from pto_jax.isa.effects import traits_of

_PROGRAMS = Path(__file__).parents[1] / "programs"
_TILE = "!pto.tile_buf<vec, 16x64xf32{}>"
_WINDOW = "!pto.partition_tensor_view<16x64xf32>"


def _double_buffered(placed: bool) -> str:
    """Two tiles in turn, with initial credits, numbers by trip, and what is stored loaded again."""
    t = _TILE.format("")
    address = [f" addr = %z{i}" if placed else "" for i in range(3)]

    def flag(kind: str, src: str, dst: str, event: str) -> str:
        return f"pto.{kind}_flag_dyn [#pto.pipe<PIPE_{src}>, #pto.pipe<PIPE_{dst}>, {event}]\n"

    def pair(src: str, dst: str, event: str = "%c0") -> str:
        return flag("set", src, dst, event) + flag("wait", src, dst, event)

    def stage(tile: str, event: str) -> str:
        return (
            flag("wait", "V", "MTE2", event)
            + f"pto.tload ins(%w : {_WINDOW}) outs(%{tile} : {t})\n"
            + pair("MTE2", "V", event)
            + f"pto.tadd ins(%{tile}, %sum : {t}, {t}) outs(%sum : {t})\n"
            + flag("set", "V", "MTE2", event)
        )

    credits = flag("set", "V", "MTE2", "%c0") + flag("set", "V", "MTE2", "%c1")
    ends = credits.replace("set", "wait")
    return f"""
func.func @k(%w: {_WINDOW}, %o: {_WINDOW}, %n: index, %zero: f32) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z0 = arith.constant 0 : i64
  %z1 = arith.constant 4096 : i64
  %z2 = arith.constant 8192 : i64
  %a = pto.alloc_tile{address[0]} : {t}
  %b = pto.alloc_tile{address[1]} : {t}
  %sum = pto.alloc_tile{address[2]} : {t}
  pto.texpands ins(%zero : f32) outs(%sum : {t})
  {credits}scf.for %i = %c0 to %n step %c1 {{
  {stage("a", "%c0")}{stage("b", "%c1")}}}
  {ends}{pair("V", "MTE3")}pto.tstore ins(%sum : {t}) outs(%o : {_WINDOW})
  {pair("MTE3", "MTE2")}pto.tload ins(%o : {_WINDOW}) outs(%a : {t})
  {pair("MTE2", "MTE3")}pto.tstore ins(%a : {t}) outs(%w : {_WINDOW})
  return
}}"""


#: Programs, with the numbers of operations that order, and of those whose loss ``verify`` sees.
TABLE = {
    "gemm_splitk": (26, 26),
    "add_relu_convert": (4, 4),
    "double buffered, placed": (18, 18),
    "double buffered": (18, 18),
    "synchronised": (13, 10),
}


def _program(name: str) -> Program:
    if name.startswith("double"):
        return parse(_double_buffered(name.endswith("placed")))
    return load(EXAMPLES[name].path if name in EXAMPLES else _PROGRAMS / f"{name}.pto")


def _orders(op: Op) -> bool:
    """Whether pipes of one core follow an operation; a core may give itself a flag between cores."""
    order = traits_of(op).order
    return order is not None and order.through in ("flag", "event", "token", "pipe", "operation", "core")


def _without(region: Region, lost: Op) -> Region:
    ops = tuple(
        replace(op, regions=tuple(_without(r, lost) for r in op.regions)) if op.regions else op
        for op in region.ops
        if op is not lost
    )
    return replace(region, ops=ops)


def losses(program: Program) -> Iterator[Program]:
    """The program without each of the operations that order its pipes."""
    for lost in filter(_orders, program.walk()):
        functions = tuple(replace(f, body=_without(f.body, lost)) for f in program.functions)
        yield replace(program, functions=functions)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", TABLE)
def test_an_operation_that_is_taken_away_is_missed(name: str) -> None:
    program = _program(name)
    orders = {"hazard", "token"}
    assert [str(d) for d in verify(program) if d.rule in orders] == []
    lost = [any(d.rule in orders for d in verify(less)) for less in losses(program)]
    assert (len(lost), sum(lost)) == TABLE[name]
