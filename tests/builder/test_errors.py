"""Wrong calls: the line of the Python file, what was found, what is allowed."""

import re
from collections.abc import Callable
from typing import Any

import pytest

import pto_jax as pto
from pto_jax import builder as b

TILE = b.tile_type("f32", 16, 16)
TYPES = {"t": TILE, "n": "index", "x": "f32", "p": b.ptr("f32"), "c": "i1"}


def carried_without_next(a: Any) -> None:
    for _i, _total in b.range(4, carried=[a.n]):
        pass


def inner_value(a: Any) -> None:
    for i in b.range(4):
        last = i + 1
    b.tadds(a.t, a.t, last)


def inner_event(a: Any) -> None:
    with b.if_(a.c):
        event = b.tneg(a.t, a.t)
    b.tsync(event)


def left_loop(a: Any) -> None:
    for _i in b.range(4):
        b.tneg(a.t, a.t)
        break


def wrong_branch(a: Any) -> None:
    with b.if_(a.c) as branch:
        branch.give(a.n)
    with b.else_():
        branch.give(a.x)


def late_else(a: Any) -> None:
    with b.if_(a.c):
        pass
    b.tneg(a.t, a.t)
    with b.else_():
        pass


def open_result(a: Any) -> None:
    with b.if_(a.c) as branch:
        branch.give(a.n)
    branch.results  # noqa: B018


def python_if(a: Any) -> None:
    if a.n < 3:
        b.tneg(a.t, a.t)


CASES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no tile": (lambda a: b.tadd(a.t, a.t, 3), "tadd: operand src1: got 3; allowed: a tile"),
    "scalar for a tile": (lambda a: b.tadd(a.t, a.n, a.t), "operand src0: got n: index; allowed: a tile"),
    "operands missing": (lambda a: b.tadd(a.t, a.t), r"got \(t: .*\); allowed: tadd\(dst, src0, src1\)"),
    "overloads": (lambda a: b.txor(a.t), r"txor\(dst, src0, src1\) or txor\(dst, src0, src1, tmp\)"),
    "keyword": (lambda a: b.tadd(a.t, a.t, src2=a.t), "keyword 'src2'; allowed: operands dst, src0, src1"),
    "member": (lambda a: b.tcmp(a.t, a.t, a.t, cmp="less"), "cmpMode: got 'less'; allowed: eq, ne, lt"),
    "pipe": (lambda a: b.barrier("X"), "barrier: pipe: got 'X'; allowed: PIPE_S, PIPE_V"),
    "attribute type": (lambda a: b.tcolsum(a.t, a.t, a.t, isBinary=2), "isBinary: got 2; allowed: bool"),
    "event": (lambda a: b.set_flag("V", "S", "E1"), "event: got 'E1'; allowed: int"),
    "operand of own syntax": (lambda a: b.make_tensor_view(a.p, [4]), "got no strides; allowed: make_ten"),
    "kind of own syntax": (lambda a: b.addptr(a.n, 4), "operand ptr: got n: index; allowed: a pointer"),
    "more of own syntax": (lambda a: b.addptr(a.p, 4, 5), "got 3 arguments by position; allowed: addptr"),
    "predicate": (lambda a: b.arith_cmpi("lt", a.n, 3), "predicate: got 'lt'; allowed: eq, ne, slt"),
    "result type": (lambda a: b.treshape(a.t), r"got no type for the result.*\(type=\)"),
    "type": (lambda a: b.declare_tile(type="tile<8>"), "type: got the type 'tile<8>'; allowed: a type"),
    "not a type": (lambda a: b.declare_tile(type=8), "type: got 8; allowed: a type"),
    "number": (lambda a: b.tassign(a.t, 1.5), "addr: got 1.5; allowed: an i64 value or a number that fits"),
    "large number": (lambda a: b.constant(300, "i8"), "constant: got 300; allowed: an i8 value"),
    "truth": (lambda a: b.constant(1, "i1"), "constant: got 1; allowed: True or False"),
    "two types": (
        lambda a: a.n + a.x,
        r"\+: got n: index, and x: f32.*; try: pto.cast\(a.n, .f32.\) \+ a.x",
    ),
    "float bits": (lambda a: a.x & a.x, "a.x & a.x: got an f32; allowed: integers and index"),
    "true division": (lambda a: a.n / 2, "a.n / 2: got an index; allowed: floats; try: a.n // 2"),
    "condition": (lambda a: b.if_(a.n), "if_: got n: index; allowed: i1"),
    "python if": (python_if, "a.n < 3: a.n is known when the program runs; try: with pto.if_"),
    "python number": (lambda a: list(range(a.n)), "a.n is known when .*; try: pto.range\\(a.n\\)"),
    "slice": (lambda a: b.tload(a.t, b.GlobalTensor(a.p, (16, 16))[0:16, 0]), "a slice of .*partition_view"),
    "tile size": (lambda a: b.alloc_tile("f32", a.n, 16), "rows: got .*allowed: a positive Python integer"),
    "tile type": (lambda a: b.alloc_tile("f32"), "got no rows and columns; allowed: alloc_tile"),
    "element type": (lambda a: b.alloc_tile("f31", 8, 8), "unknown element type 'f31'; allowed: f32"),
    "bounds": (lambda a: b.range(a.n, b.cast(a.n, "i32")), "upper bound: got .* i32; allowed: index"),
    "carried": (carried_without_next, "carries values; allowed: loop.give"),
    "value of a loop": (
        inner_value,
        r"last is assigned in the loop \(.*test_errors.py:\d+:\d+\) and used after it",
    ),
    "event of a branch": (inner_event, "is defined in the branch .* and ends with it"),
    "break": (left_loop, "the loop is still open; allowed: regions that run to their end"),
    "types of branches": (wrong_branch, "got x: f32, for scf.if .*; allowed: index"),
    "else later": (late_else, "without a branch before it"),
    "result too early": (open_result, "is not complete; allowed: results after its last region"),
    "wait": (lambda a: b.tneg(a.t, a.t, wait=3), "tsync: got 3 to wait for; allowed: events"),
    "callee": (lambda a: b.call("nothing", a.t, results="f33"), "type: got the type 'f33'"),
}


class Arguments:
    def __init__(self, values: tuple[Any, ...]) -> None:
        self.t, self.n, self.x, self.p, self.c = values


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_call_names_its_line_and_what_is_allowed(name: str) -> None:
    make, message = CASES[name]
    builder = pto.Builder()
    with pytest.raises(pto.BuildError) as raised, builder.function("f", TYPES) as f:
        make(Arguments(f.args))
    (found,) = raised.value.diagnostics
    # Without the source line below the message, which holds the expected text.
    assert re.search(message, str(found)), str(found)
    assert found.span is not None and found.span.file == __file__ and "^" in str(raised.value)
    assert isinstance(raised.value, pto.ArgumentError)


def test_nothing_is_built_outside_a_program() -> None:
    with pytest.raises(pto.BuildError, match=r"no program is being built here; allowed: .*@pto.kernel"):
        b.tsync()


def test_an_error_leaves_no_half_built_function_behind() -> None:
    builder = pto.Builder()
    for _ in range(2):
        with pytest.raises(KeyError), builder.function("f", TYPES) as f, b.if_(f.args[4]):
            raise KeyError
    with builder.function("f", TYPES):
        pass
    assert len(builder.program.functions) == 1
    with pytest.raises(pto.BuildError, match="second function @f"), builder.function("f"):
        pass


def test_a_failed_call_adds_nothing() -> None:
    builder = pto.Builder()
    with builder.function("f", TYPES) as f:
        tile, *_ = f.args
        with pytest.raises(pto.BuildError):
            b.tadds(tile, tile, 5.0, tile)
        with pytest.raises(pto.BuildError):
            b.set_validshape(tile, 5, b)
    assert [op.name for op in builder.program.walk()] == ["return"]


@pto.kernel(types=(b.ptr("f32"),))
def illegal(p: Any) -> None:
    a = b.alloc_tile("f32", 16, 16, addr=0)
    h = b.alloc_tile("f16", 16, 16, addr=1024)
    b.tload(a, b.GlobalTensor(p, (16, 16)))
    b.tadd(h, a, a)
    b.tsync()


def test_the_verifier_names_lines_of_the_python_file() -> None:
    line = illegal.function.__code__.co_firstlineno + 5
    found = {d.rule: d for d in pto.verify(illegal.program, profile="a5", level=3)}
    assert {"types-equal", "hazard"} <= found.keys()
    for rule in ("types-equal", "hazard"):
        span = found[rule].span
        assert span is not None and (span.file, span.line, span.text.strip()) == (
            __file__,
            line,
            "b.tadd(h, a, a)",
        )
    assert f"{__file__}:{line - 1}:5" in found["hazard"].message
    with pytest.raises(pto.VerifyError, match=f"test_errors.py:{line}:5: error: tadd"):
        illegal.compile(profile="a5")


def test_functions_that_are_no_kernels() -> None:
    with pytest.raises(pto.BuildError, match=r"got no type of the argument 'x'.*types="):

        @pto.kernel
        def untyped(x):  # type: ignore[no-untyped-def]
            pass

    with pytest.raises(pto.BuildError, match=r"got 1 types for 2 argument\(s\)"):
        pto.kernel(types=["index"])(lambda x, y: None)
    with pytest.raises(pto.BuildError, match="'grid', an option of calls; allowed: another name"):
        pto.kernel(types=["index"])(lambda grid: None)
    with pytest.raises(pto.BuildError, match=r"the parameter \*args"):
        pto.kernel(lambda *args: None)
    with pytest.raises(pto.BuildError, match=r"got no value of 'n'; allowed: kernel.specialise"):
        str(pto.kernel(types=[])(lambda *, n: None))


def test_calls_between_kernels_are_checked() -> None:
    @pto.kernel(types=["index"])
    def again(n: Any) -> None:
        again(n)

    with pytest.raises(pto.BuildError, match="the call of @again is recursive; allowed: calls without cycl"):
        str(again)
    helper = pto.kernel(types=["index"], name="helper")(lambda n: None)
    for arguments, message in (
        ((1, 2), r"got 2 argument\(s\) of @helper; allowed: 1"),
        ((1.5,), "argument 0 of @helper: got 1.5; allowed: an index value"),
    ):
        with pytest.raises(pto.BuildError, match=message), pto.Builder().function("f"):
            helper(*arguments)
    with pytest.raises(pto.BuildError, match=r"argument 0 of @helper.*f32; allowed: index"):  # noqa: SIM117
        with pto.Builder().function("f", {"x": "f32"}) as f:
            helper(f.args[0])
