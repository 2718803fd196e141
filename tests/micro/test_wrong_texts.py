"""Wrong texts of micro-operations: each is refused where it is wrong, with what is allowed."""

from pathlib import Path
from typing import NamedTuple

import pytest

import pto_jax as pto

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
