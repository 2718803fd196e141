"""``arith.select`` of tiles, pointers and views: what MLIR makes of a branch that hands one of them on."""

from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

TILE, OPEN = "!pto.tile_buf<vec, 8x16xf32>", "!pto.tile_buf<vec, 8x16xf32, valid=?x?>"
VIEW, PART = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<8x16xf32>"
PTR = "!pto.ptr<f32>"
NUMBERS = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 4, 8, 16, 64))
HEAD = f"{NUMBERS}\n%one = arith.constant 1.0 : f32\n%two = arith.constant 2.0 : f32\n"
ARGUMENTS = f"%x: {PTR}, %y: {PTR}, %c: i1, %n: index"
X = np.arange(1024, dtype=np.float32)
Y = -1 - X


def window(name: str, pointer: str, row: str = "%c0") -> str:
    return (
        f"%{name}v = pto.make_tensor_view {pointer}, shape = [%c64, %c16], strides = [%c16, %c1] : {VIEW}\n"
        f"%{name} = pto.partition_view %{name}v, offsets = [{row}, %c0], sizes = [%c8, %c16]"
        f" : {VIEW} -> {PART}\n"
    )


def load(part: str, tile: str, t: str = TILE) -> str:
    return f"pto.tload ins({part} : {PART}) outs({tile} : {t})\n"


def store(tile: str, part: str, t: str = TILE) -> str:
    return f"pto.tstore ins({tile} : {t}) outs({part} : {PART})\n"


def add(tile: str, number: str, t: str = TILE) -> str:
    return f"pto.tadds ins({tile}, {number} : {t}, f32) outs({tile} : {t})\n"


TILES = f"%a = pto.alloc_tile : {TILE}\n%b = pto.alloc_tile : {TILE}\n"
BOTH = window("p", "%x") + window("q", "%y") + TILES + load("%p", "%a") + load("%q", "%b")
BODIES = {
    "a tile that is read and written": BOTH
    + f"%t = arith.select %c, %a, %b : {TILE}\n"
    + add("%t", "%one")
    + add("%a", "%two")
    + store("%a", "%p")
    + store("%b", "%q")
    + store("%t", "%p"),
    "a tile chosen of chosen ones": BOTH
    + f"""%even = arith.cmpi eq, %n, %c0 : index
%s = arith.select %c, %a, %b : {TILE}
%t = arith.select %even, %s, %a : {TILE}
"""
    + add("%t", "%one")
    + store("%s", "%p")
    + store("%t", "%q"),
    "tiles of different valid regions": window("p", "%x")
    + window("q", "%y")
    + f"""%a = pto.alloc_tile valid_row = %c4 valid_col = %c16 : {OPEN}
%b = pto.alloc_tile valid_row = %c8 valid_col = %c2 : {OPEN}
%whole = pto.alloc_tile : {TILE}
pto.texpands ins(%one : f32) outs(%whole : {TILE})
pto.texpands ins(%two : f32) outs(%a : {OPEN})
pto.texpands ins(%two : f32) outs(%b : {OPEN})
%t = arith.select %c, %a, %b : {OPEN}
"""
    + add("%t", "%one", OPEN)
    + f"pto.tadd ins(%whole, %t : {TILE}, {OPEN}) outs(%t : {OPEN})\n"
    + store("%t", "%q", OPEN),
    "a tile of two in turns": BOTH
    + f"""scf.for %i = %c0 to %n step %c1 {{
  %odd = arith.remui %i, %c2 : index
  %here = arith.cmpi eq, %odd, %c0 : index
  %t = arith.select %here, %a, %b : {TILE}
  {add("%t", "%one")}
  %u = arith.select %here, %p, %q : {PART}
  {store("%t", "%u")}
}}
""",
    "a tile carried by a loop": BOTH
    + f"""%t, %u = scf.for %i = %c0 to %n step %c1 iter_args(%r = %a, %s = %b) -> ({TILE}, {TILE}) {{
  {add("%r", "%one")}
  %v = arith.select %c, %s, %r : {TILE}
  scf.yield %v, %r : {TILE}, {TILE}
}}
"""
    + store("%t", "%p")
    + store("%u", "%q"),
    "pointers into two buffers": f"%p = arith.select %c, %x, %y : {PTR}\n"
    + window("w", "%p")
    + f"%t = pto.alloc_tile : {TILE}\n"
    + load("%w", "%t")
    + add("%t", "%one")
    + store("%t", "%w")
    + f"%e = pto.load_scalar %p[%n] : {PTR} -> f32\npto.store_scalar %e, %p[%c16] : {PTR}, f32\n",
    "pointers into one buffer": f"%far = pto.addptr %x, %c64 : {PTR} -> {PTR}\n"
    + f"%p = arith.select %c, %x, %far : {PTR}\n"
    + window("w", "%p")
    + f"%t = pto.alloc_tile : {TILE}\n"
    + load("%w", "%t")
    + add("%t", "%one")
    + store("%t", "%w"),
    "views of two buffers": window("p", "%x")
    + window("q", "%y", "%n")
    + f"%w = arith.select %c, %p, %q : {PART}\n%v = arith.select %c, %qv, %pv : {VIEW}\n"
    + f"%t = pto.alloc_tile : {TILE}\n"
    + load("%w", "%t")
    + add("%t", "%one")
    + store("%t", "%w")
    + f"%z = pto.partition_view %v, offsets = [%c16, %c0], sizes = [%c8, %c16] : {VIEW} -> {PART}\n"
    + store("%t", "%z"),
}


def program(body: str) -> pto.Program:
    return pto.parse(f"func.func @k({ARGUMENTS}) attributes {{pto.entry}} {{\n{HEAD}{body}return\n}}")


def equal(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(np.asarray(found[name]), expected[name], name)


@pytest.mark.variants(1)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_selected_handle_is_the_chosen_one_on_every_machine(body: str) -> None:
    given = program(body)
    assert not pto.verify(given)
    assert str(given).count("arith.select") == body.count("arith.select") and "scf.if" not in str(given)
    assert pto.parse(str(given)) == given
    kernel, expected = pto.compile(given), {}
    cases = [(c, n) for c in (True, False) for n in (0, 3)]
    for c, n in cases:
        expected[c, n] = oracle.run(given, (X, Y, c, n))
        equal(kernel(X, Y, c, n), expected[c, n])
        assert not pto.sanitize(given, (X, Y, c, n)).findings
    chosen, numbers = (np.array(v) for v in zip(*cases, strict=True))
    batch = jax.vmap(kernel, in_axes=(None, None, 0, 0))(X, Y, chosen, numbers)
    for i, case in enumerate(cases):
        equal({name: rows[i] for name, rows in batch.items()}, expected[case])


@pytest.mark.parametrize("condition", ["true", "false"])
def test_a_constant_condition_chooses_when_it_is_compiled(condition: str) -> None:
    body = BODIES["a tile that is read and written"].replace("select %c,", "select %k,")
    given = program(f"%k = arith.constant {condition}\n{body}")
    equal(pto.compile(given)(X, Y, True, 0), oracle.run(given, (X, Y, True, 0)))
    equal(
        oracle.run(given, (X, Y, True, 0)),
        oracle.run(program(body.replace("%k", "%c")), (X, Y, condition == "true", 0)),
    )


def test_blocks_choose_the_window_that_they_write() -> None:
    text = (
        "%b64 = pto.get_block_idx\n%blk = arith.index_cast %b64 : i64 to index\n"
        "%row = arith.muli %blk, %c8 : index\n%even = arith.cmpi ult, %blk, %c4 : index\n"
        + window("p", "%x", "%row")
        + window("q", "%y", "%row")
        + f"%w = arith.select %even, %p, %q : {PART}\n%t = pto.alloc_tile : {TILE}\n"
        + load("%w", "%t")
        + add("%t", "%one")
        + store("%t", "%w")
    )
    given = program(text)
    equal(pto.compile(given, grid=8)(X, Y, True, 0), oracle.run(given, (X, Y, True, 0), grid=8))
    halves = np.where(np.arange(1024) < 512, X + 1, X), np.where(np.arange(1024) < 512, Y, Y + 1)
    equal(oracle.run(given, (X, Y, True, 0), grid=8), dict(zip("xy", halves, strict=True)))


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (f"%t = arith.select %n, %a, %b : {TILE}", "i1"),
        (f"%t = arith.select %c, %a, %n : {TILE}", "index"),
        (f"%t = arith.select %c, %a, %b : {OPEN}", "valid"),
    ],
)
def test_a_selection_of_other_types_is_one_error(line: str, wrong: str) -> None:
    with pytest.raises(pto.PtoError) as raised:
        pto.verify(program(f"{TILES}{line}\n"), raise_on_error=True)
    assert wrong in str(raised.value)
