"""Calls of intrinsics are read as the instructions that they are written for: one table, both ways."""

from collections.abc import Iterator

import pytest

from pto_jax import ir, isa
from pto_jax.devices.cpp import intrinsics
from pto_jax.devices.cpp.writer import Call
from pto_jax.errors import NotExecutableError
from pto_jax.isa.bind import bind
from pto_jax.isa.declare import Instruction
from pto_jax.isa.samples.operations import legal_samples, to_program
from pto_jax.profiles import profile
from pto_jax.text.cpp_expressions import scalar_of
from pto_jax.text.cpp_statements import Statements
from pto_jax.text.cpp_tokens import Words
from pto_jax.text.cpp_values import INT64, Named, Number, Pointer, View

#: Instructions whose call has what no operation of the same words has, and why.
UNREAD = {
    "tquant": "the offset is a pointer",
    "tquant.mx": "destinations are pointers",
    "tquant_dn": "destinations are pointers",
    "tconcatidx": "the call of another instruction",
    "timg2col": "the mode is not written",
    "trandom": "a statement of several calls",
    "ttri": "the upper or lower half is a number of the text",
}


def calls(instruction: Instruction) -> Iterator[tuple[ir.Op, Call]]:
    """Legal operations of an instruction as calls, as the writer of C++ has them."""
    for name in ("a2a3", "a5"):
        for sample in legal_samples(instruction, profile(name)):
            op = next(op for op in to_program(sample).walk() if op.name == instruction.name)
            if op.groups:
                continue
            bound = bind(instruction, op)
            types = dict.fromkeys(bound.values, "Tile<TileType::Vec, float, 1, 1>")
            yield op, Call(op, bound, {n: f"x_{n}" for n in bound.values}, types, "manual")


def read(call: Call, text: str) -> ir.Op:
    """The operation that a call is read as."""
    reader = Statements(Words(text, "<call>"))
    for name, value in call.bound.values.items():
        reader.known[f"x_{name}"] = _thing(value)
    reader.statement()
    return reader.ops[-1]


def _thing(value: ir.Value) -> Named | View | Number:
    t = value.type
    if isinstance(t, ir.ScalarType):
        return Number(scalar_of(t.dtype) or INT64, value)
    if isinstance(t, ir.PartitionViewType | ir.TensorViewType):
        return View(value, Pointer(value))
    return Named(value)


TILE = [i for i in isa.instructions().values() if i.syntax == "tile" and i.executable]


@pytest.mark.parametrize("instruction", TILE, ids=lambda i: i.name)
def test_a_call_is_read_as_the_operation_it_was_written_for(instruction: Instruction) -> None:
    if instruction.name in UNREAD:
        return
    for op, call in list(calls(instruction))[:12]:
        try:
            text = f"{intrinsics.text(call)};"
        except NotExecutableError:
            continue
        if "__builtin_bit_cast" in text or intrinsics.needs_scratch(call):
            continue
        got = read(call, text)
        expected = bind(instruction, op)
        assert got.name == op.name, text
        assert {n: v.name for n, v in bind(instruction, got).values.items()} == {
            n: v.name for n, v in expected.values.items()
        }, text
        kept = {a.name for a in instruction.attributes if not a.of_layout}
        assert {n: v for n, v in bind(instruction, got).attrs.items() if n in kept} == {
            n: v for n, v in expected.attrs.items() if n in kept
        }, text
