"""What is known of operands: across joins, loops and calls, and where nothing is."""

import pytest

from pto_jax.analysis.addresses import Bytes
from pto_jax.analysis.facts import OperandFacts
from pto_jax.analysis.resolve import resolve
from pto_jax.api import parse
from pto_jax.ir import GlobalLayout, Loc, Op

T = "!pto.tile_buf<vec, 16x64xf32>"
D = "!pto.tile_buf<vec, 16x64xf32, valid=?x?>"
V = "!pto.tensor_view<?x?xf32>"
HEAD = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (0, 1, 2, 4, 8, 16, 64))
HEAD += "".join(f"%a{n} = arith.constant {4096 * n} : i64\n" for n in (0, 1, 2))
ARGUMENTS = "%n: index, %c: i1, %p: !pto.ptr<f32>, %x: i64"


def facts_at(body: str, name: str, others: str = "", last: bool = True) -> OperandFacts:
    """What is known at the last (or first) operation of a name in a function with some constants."""
    program = parse(f"func.func @f({ARGUMENTS}) {{\n{HEAD}{body}return\n}}\n{others}")
    resolved = resolve(program)
    function = resolved.program.functions[0]
    found = [op for op in function.walk() if op.name == name]
    return resolved.facts(function).of(found[-1 if last else 0])


def number_at(body: str, value: str = "r") -> int | None:
    """The number of a value, as an operation at the end of the body sees it."""
    seen = facts_at(f"{body}%seen = arith.addi %{value}, %n : index\n", "arith.addi")
    number = seen.numbers.get(value)
    assert number is None or isinstance(number, int)
    return number


def branches(first: str, second: str, result: str = "r") -> str:
    yields = (f"scf.yield %{v} : index\n" for v in (first, second))
    return f"%{result} = scf.if %c -> (index) {{\n{next(yields)}}} else {{\n{next(yields)}}}\n"


def loop(init: str, body: str, lower: str = "c0", upper: str = "n") -> str:
    return (
        f"%r = scf.for %i = %{lower} to %{upper} step %c1 iter_args(%acc = %{init}) -> (index) {{\n{body}}}\n"
    )


NUMBERS = {
    "constants fold": ("%r = arith.muli %c4, %c16 : index\n", 64),
    "an argument is not known": ("%r = arith.muli %c4, %n : index\n", None),
    "branches that agree": (branches("c4", "c4"), 4),
    "branches that do not": (branches("c4", "c8"), None),
    "one branch that is not known": (branches("c4", "n"), None),
    "a loop that hands on what it got": (loop("c4", "scf.yield %acc : index\n"), 4),
    "a loop that counts": (loop("c4", "%s = arith.addi %acc, %c1 : index\nscf.yield %s : index\n"), None),
    "a loop that may not execute": (loop("c4", "scf.yield %c8 : index\n"), None),
    "a loop that hands on another number": (loop("c4", "scf.yield %c8 : index\n", "c0", "c2"), 8),
    "a number of the second trip": (
        loop("c4", branches("acc", "c8", "s") + "scf.yield %s : index\n", "c0", "c2"),
        None,
    ),
    "while": (
        "%r = scf.while (%b = %c4) : (index) -> index {\nscf.condition(%c) %b : index\n} do {\n"
        "^bb0(%d: index):\nscf.yield %d : index\n}\n",
        4,
    ),
    "while that counts": (
        "%r = scf.while (%b = %c4) : (index) -> index {\nscf.condition(%c) %b : index\n} do {\n"
        "^bb0(%d: index):\n%e = arith.addi %d, %c1 : index\nscf.yield %e : index\n}\n",
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "number"), NUMBERS.values(), ids=NUMBERS.keys())
def test_numbers(body: str, number: int | None) -> None:
    assert number_at(body) == number


def test_carried_numbers_are_not_those_of_the_first_trip() -> None:
    """Inside the loop, too: the swap of two numbers shows on the second trip only."""
    body = (
        "%r, %q = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c4, %b = %c8) -> (index, index) {\n"
        "%s = arith.subi %a, %c1 : index\nscf.yield %b, %a : index, index\n}\n"
    )
    assert facts_at(body, "arith.subi").numbers == {"c1": 1}


ALLOC = f"%t = pto.alloc_tile addr = %a1 valid_row = %c8 valid_col = %c16 : {D}\n"
USE = f"pto.tneg ins(%t : {D}) outs(%t : {D})\n"


def resize(row: str, col: str) -> str:
    return f"pto.set_validshape %t, %{row}, %{col} : {D}\n"


REGIONS = {
    "as allocated": ("", (8, 16)),
    "as set": (resize("c4", "c64"), (4, 64)),
    "one size": (resize("c4", "n"), (4, None)),
    "set on one path": (f"scf.if %c {{\n{resize('c4', 'c16')}}}\n", (None, 16)),
    "set on both": (f"scf.if %c {{\n{resize('c4', 'c2')}}} else {{\n{resize('c4', 'c1')}}}\n", (4, None)),
    "set in a loop": (f"scf.for %i = %c0 to %n step %c1 {{\n{resize('c8', 'c2')}}}\n", (8, None)),
    "set in a loop that executes": (f"scf.for %i = %c0 to %c2 step %c1 {{\n{resize('c4', 'c2')}}}\n", (4, 2)),
}


@pytest.mark.parametrize(("body", "region"), REGIONS.values(), ids=REGIONS.keys())
def test_valid_regions(body: str, region: tuple[int | None, int | None]) -> None:
    assert facts_at(ALLOC + body + USE, "tneg").valid == {"t": region}


def test_a_loop_body_sees_what_its_end_has_set() -> None:
    inside = facts_at(ALLOC + f"scf.for %i = %c0 to %n step %c1 {{\n{USE}{resize('c8', 'c2')}}}\n", "tneg")
    assert inside.valid == {"t": (8, None)}


def test_a_branch_does_not_see_what_the_other_one_has_set() -> None:
    body = f"scf.if %c {{\n{resize('c4', 'c2')}}} else {{\n{USE}}}\n"
    assert facts_at(ALLOC + body, "tneg").valid == {"t": (8, 16)}


def place(address: str) -> str:
    return f"pto.tassign %t, %{address} : {D}, i64\n"


BYTES = {
    "as allocated": ("", (4096, 8192)),
    "placed anew": (place("a2"), (8192, 12288)),
    "placed at run time": (place("x"), None),
    "placed on one path": (f"scf.if %c {{\n{place('a2')}}}\n", (8192, 12288)),
}


@pytest.mark.parametrize(("body", "extent"), BYTES.values(), ids=BYTES.keys())
def test_bytes(body: str, extent: tuple[int, int] | None) -> None:
    where = facts_at(ALLOC + body + USE, "tneg").bytes["t"]
    assert (where.root, where.loc, where.range) == ("t", Loc.VEC, extent)


HANDLES = f"%u = pto.alloc_tile addr = %a0 : {T}\n%v = pto.alloc_tile addr = %a1 : {T}\n"


@pytest.mark.parametrize(
    ("handed", "root"), [(("u", "u"), "u"), (("u", "v"), "u or v")], ids=["one tile", "two tiles"]
)
def test_a_handle_from_a_branch(handed: tuple[str, str], root: str) -> None:
    first, second = handed
    body = (
        f"%r = scf.if %c -> ({T}) {{\nscf.yield %{first} : {T}\n}} else {{\nscf.yield %{second} : {T}\n}}\n"
        f"pto.tneg ins(%r : {T}) outs(%r : {T})\n"
    )
    assert facts_at(HANDLES + body, "tneg").bytes["r"].root == root


def test_windows_of_views_and_their_layout() -> None:
    body = (
        f"%v = pto.make_tensor_view %p, shape = [%c16, %n], strides = [%c64, %c1] "
        f"{{layout = #pto.layout<nd>}} : {V}\n"
        f"%w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c4, %c64] : {V} -> "
        "!pto.partition_tensor_view<?x?xf32>\n"
        f"pto.tload ins(%w : !pto.partition_tensor_view<?x?xf32>) outs(%t : {D})\n"
    )
    assert facts_at(ALLOC + body, "partition_view").extents == {"v": (16, None)}
    loaded = facts_at(ALLOC + body, "tload")
    assert loaded.extents == {"w": (4, 64)} and loaded.layouts == {"w": GlobalLayout.ND}


def test_names_of_a_region_end_with_it() -> None:
    body = (
        "scf.if %c {\n%k = arith.constant 3 : index\n} else {\n%k = arith.muli %n, %n : index\n"
        "%s = arith.addi %k, %n : index\n}\n"
    )
    assert facts_at(body, "arith.addi").numbers == {}


CALLEE = f"func.func private @g(%m: index, %t: {T}) {{\n%s = arith.addi %m, %m : index\n"
CALLEE += f"pto.tneg ins(%t : {T}) outs(%t : {T})\nreturn\n}}\n"


def test_a_called_function_knows_what_its_call_knows() -> None:
    program = parse(
        f"func.func @f({ARGUMENTS}) attributes {{pto.entry}} {{\n{HEAD}{HANDLES}"
        f"func.call @g(%c4, %v) : (index, {T}) -> ()\nreturn\n}}\n{CALLEE}"
    )
    resolved = resolve(program)
    outer, inner = resolved.program.functions
    (call,) = [op for op in outer.walk() if op.name == "call"]
    add, neg = inner.body.ops[:2]
    alone, entered = resolved.facts(inner), resolved.facts(outer).entering(call, inner)
    called = resolved.facts(inner, entered)
    assert alone.of(add).numbers == {} and called.of(add).numbers == {"m": 4}
    assert alone.bytes_of(neg, neg.ins[0]) == Bytes("t", Loc.VEC)
    assert called.bytes_of(neg, neg.ins[0]) == Bytes("v", Loc.VEC, (4096, 8192))


def test_nothing_is_known_of_operations_elsewhere() -> None:
    resolved = resolve(parse(f"func.func @f({ARGUMENTS}) {{\nreturn\n}}"))
    assert resolved.facts(resolved.program.functions[0]).of(Op("tneg")) == OperandFacts(
        {}, {}, {}, {}, {}, {}
    )
