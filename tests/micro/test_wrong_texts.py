"""Wrong texts of micro-operations are refused where they are wrong; memrefs in the place of pointers."""

from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

import pto_jax as pto
from tests.micro.cube_programs import Kernel, matrix
from tests.micro.programs import executed, kernel

HEAD = """module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {
  func.func @k(%x: !pto.ptr<f32, gm>) attributes {pto.kernel} {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %z = arith.constant 0 : i64
    %n = arith.constant 64 : i32
    %f = arith.constant 1.0 : f32
    %p = pto.castptr %z : i64 -> !pto.ptr<f32, ub>
"""
#: A mask and a register, at the beginning of a scope.
LINES = """    pto.vecscope {
      %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %a = pto.vlds %p[%c0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
"""
END = "\n    return\n  }\n}\n"


class Wrong(NamedTuple):
    """A wrong text, how its message begins, and the line that it is about; 0 for one behind the lines."""

    text: str
    message: str
    line: int


def wrong_texts() -> dict[str, Wrong]:
    """The blocks of ``wrong_texts.txt`` by their names."""
    content = Path(__file__).with_name("wrong_texts.txt").read_text(encoding="utf-8")
    found = {}
    for block in content.split("\n\n")[1:]:
        title, *lines = block.strip("\n").split("\n")
        name, _, message = title.partition(": ")
        in_scope = not name.endswith("(no scope)")
        before = HEAD + LINES if in_scope else HEAD
        body = "\n".join(line[2:] for line in lines) + ("\n    }" if in_scope else "")
        marked = [i for i, line in enumerate(lines, 1) if line.startswith(">")]
        found[name] = Wrong(before + body + END, message, before.count("\n") + marked[0] if marked else 0)
    return found


WRONG = wrong_texts()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_text_is_an_error_where_it_is_wrong(name: str) -> None:
    wrong = WRONG[name]
    try:
        found = [d for d in pto.verify(pto.parse(wrong.text)) if d.severity == "error"]
    except pto.ParseError as error:
        found = list(error.diagnostics)
    first = str(found[0])
    assert f"error: {wrong.message}" in first
    assert not wrong.line or first.startswith(f"<text>:{wrong.line}:"), first


def test_there_are_wrong_texts_of_every_kind() -> None:
    assert len(WRONG) >= 200
    assert sum(bool(w.line) for w in WRONG.values()) >= 190


TILE = "!pto.tile_buf<vec, 4x16xf32>"
MEMREFS = (
    "memref<4x16xf32, #pto.address_space<vec>>",
    "memref<64xf32, strided<[1]>, #pto.address_space<vec>>",
)


@pytest.mark.variants(1)
@pytest.mark.parametrize("memref", MEMREFS)
def test_the_address_of_a_tile_may_be_a_memref(memref: str) -> None:
    body = f"""
      %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %p = pto.tile_buf_addr %t : {TILE} -> {memref}
      %v = pto.vlds %p[%c0] : {memref} -> !pto.vreg<64xf32>
      %w = pto.vadd %v, %v, %m : !pto.vreg<64xf32>, !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>
      pto.vsts %w, %p[%c0], %m : !pto.vreg<64xf32>, {memref}, !pto.mask<b32>"""
    text = kernel(body, {"x": "f32"}, f"    %t = pto.alloc_tile addr = %zero : {TILE}")
    x = np.arange(1024, dtype=np.float32)
    after = executed(text, {"x": x}, everywhere=True)["x"]
    np.testing.assert_array_equal(after, np.where(np.arange(1024) < 64, 2 * x, x))


def with_memrefs(text: str, element: str) -> str:
    """The text with memrefs of a global buffer in the place of pointers."""
    return text.replace(f"!pto.ptr<{element}, gm>", f"memref<?x{element}, #pto.address_space<gm>>")


def test_transfers_of_memrefs_are_those_of_pointers() -> None:
    body = """
      %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %v = pto.vlds %x_ub[%c64] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
      pto.vsts %v, %x_ub[%c0], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>"""
    text, x = kernel(body, {"x": "f32"}), np.arange(1024, dtype=np.float32)
    results = [executed(t, {"x": x}, everywhere=True)["x"] for t in (text, with_memrefs(text, "f32"))]
    assert results[0].tobytes() == results[1].tobytes() != x.tobytes()


def test_the_cube_unit_takes_memrefs() -> None:
    sizes, unit = (16, 16, 32), Kernel({"a": "f16", "b": "f16", "y": "f32"})
    sums = unit.product("mad", *unit.factors("a", "b", sizes), sizes)
    unit.store(sums, unit.gm("y"), sizes[:2])
    program = pto.parse(with_memrefs(with_memrefs(unit.text, "f16"), "f32"))
    assert "memref" in str(program)
    pto.verify(program, raise_on_error=True)
    a, b = matrix("f16", (16, 32)), matrix("f16", (16, 32))
    want = a.astype(np.float32) @ b.astype(np.float32).T
    arrays = {"a": a.ravel(), "b": b.ravel(), "y": np.zeros(256, np.float32)}
    for run in (lambda **given: pto.oracle.run(program, given), jax.jit(pto.compile(program))):
        found = run(**arrays)["y"]
        np.testing.assert_array_equal(np.asarray(found).reshape(16, 16), want)
