"""Slips in kernels written in Python: each is one error at its line, and its fix passes when it is pasted."""

import contextlib
import linecache
import re
import textwrap
from itertools import count
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main

HEAD = """\
import jax, jax.numpy as jnp, math, numpy as np, pto_jax as pto
X = np.ones((16, 64), np.float32)

@pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32"), "n": "index"})
def k(x, y, n):
    t = pto.alloc_tile("f32", 16, 64)
    u = pto.alloc_tile("f32", 16, 64)
    v = pto.GlobalTensor(x, (16, 64))
    w = pto.GlobalTensor(y, (16, 64))
    pto.tload(t, v)
    pto.tload(u, v)
BODY
    pto.tstore(w, t)
"""
_NUMBER = count()


def built(source: str) -> Any:
    """What a file of Python with this source defines as ``k``."""
    name = f"<slips {next(_NUMBER)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {}
    exec(compile(source, name, "exec"), names)
    return names["k"]


def verified(body: str) -> list[str]:
    """The errors of a kernel with these lines, raised or listed, as one list."""
    source = HEAD.replace("BODY", textwrap.indent(body, "    "))
    program = built(source).program
    errors = [d for d in pto.verify(program, profile="a2a3") if d.severity == "error"]
    if errors:
        raise pto.VerifyError(errors)
    return []


def refused(body: str) -> pto.PtoError:
    with pytest.raises(pto.PtoError) as caught:
        verified(body)
    message = str(caught.value)
    assert re.match(r"<slips \d+>:\d+:\d+: error: ", message), message
    assert not re.search(r"\b([a-z]{2,}) \1\b|\ba (index|i8|i16|i32|i64|u8|f\d+)\b|%\d+\b", message), message
    return caught.value


#: A line with a slip, what its message got, and the lines that its fix becomes.
LINES = {
    "a branch that is not called": (
        "with pto.if_:\n    pass",
        "pto.if_: got the function without a call",
        "with FIX:\n    pto.tneg(t, t)",
    ),
    "the other side that is not called": (
        "with pto.if_(n > 0):\n    pass\nwith pto.else_:\n    pass",
        "pto.else_: got the function without a call",
        "with pto.if_(n > 0):\n    pass\nwith FIX:\n    pto.tneg(t, t)",
    ),
    "a range that is not called": (
        "for i in pto.range:\n    pass",
        "got the function without a call",
        "for i in FIX:\n    pto.tneg(t, t)",
    ),
    "a branch without with": (
        "pto.if_(n > 0)\npto.tneg(t, t)",
        "pto.if_(n > 0): got no block",
        "FIX\n    pto.tneg(t, t)",
    ),
    "a section without with": (
        'pto.section("vector")\npto.tneg(t, t)',
        "got no block",
        "FIX\n    pto.tneg(t, t)",
    ),
    "a range without for": ("pto.range(n)", "pto.range(n): got no block", "FIX\n    pto.tneg(t, t)"),
    "with for a range": ("with pto.range(4) as i:\n    pass", "got one block", "FIX\n    pto.tneg(t, t)"),
    "with for a switch": ("with pto.switch(n):\n    pass", "got one block", "FIX\n    pto.tneg(t, t)"),
    "a while without its body": (
        "l = pto.while_(n)\nwith l.test() as (x,):\n    l.condition(x > 0, x)",
        "got only a part of its regions",
        "l = pto.while_(n)\nwith l.test() as (x,):\n    l.condition(x > 0, x)\nFIX\n    l.give(x - 1)",
    ),
    "a switch without a default": (
        "s = pto.switch(n)\nwith s.case(1):\n    pass",
        "got only a part of its regions",
        "s = pto.switch(n)\nwith s.case(1):\n    pass\nFIX\n    pto.tneg(t, t)",
    ),
    "a branch with values on one side": (
        "with pto.if_(n > 0) as b:\n    b.give(n)",
        "got only a part of its regions",
        "with pto.if_(n > 0) as b:\n    b.give(n)\nFIX\n    b.give(3)",
    ),
    "a value of a branch with one side": (
        "with pto.if_(n > 0) as b:\n    b.give(n)\nb.result",
        "is not complete",
        "with pto.if_(n > 0) as b:\n    b.give(n)\nFIX\n    b.give(3)\nb.result",
    ),
    "a case by its text": (
        's = pto.switch(n)\nwith s.case("1"):\n    pass',
        "case: got '1'",
        "s = pto.switch(n)\nwith s.case(FIX):\n    pass\nwith s.default():\n    pass",
    ),
    "a condition of the other side": (
        "with pto.if_(n > 0):\n    pass\nwith pto.else_(n > 1):\n    pass",
        "got 1 argument(s) by position",
        "with pto.if_(n > 0):\n    pass\nwith FIX:\n    pass",
    ),
    "no condition": ("with pto.if_():\n    pass", "pto.if_: got no condition", "with FIX:\n    pass"),
    "bounds by the names of Python": (
        "for i in pto.range(start=0, stop=4):\n    pass",
        "got the keyword 'start'",
        "for i in FIX:\n    pto.tneg(t, t)",
    ),
    "bounds of two types": (
        'm = pto.cast(n, "i32")\nfor i in pto.range(m, n):\n    pass',
        "upper bound: got n",
        'm = pto.cast(n, "i32")\nfor i in pto.range(m, FIX):\n    pass',
    ),
    "enumerate": (
        "for j, i in enumerate(pto.range(4)):\n    pass",
        "the body of a loop is built once",
        "FIX\n    pto.tneg(t, t)",
    ),
    "list": ("for i in list(pto.range(4)):\n    pass", "the body of a loop is built once", "FIX\n    pass"),
    "reversed": (
        "for i in reversed(pto.range(4)):\n    pass",
        "the body of a loop is built once",
        "FIX\n    pass",
    ),
    "len of a loop": ("len(pto.range(4))", "the body of a loop is built once", "FIX\n    pass"),
    "one name for the values of a region": (
        "l = pto.while_(n)\nwith l.test() as q:\n    l.condition(q > 0, q)",
        "under one name; allowed: a name for each",
        "l = pto.while_(n)\nwith l.test() FIX\n    l.condition(x0 > 0, x0)\nwith l.do() FIX\n    l.give(x0)",
    ),
    "a comparison of tiles": ("c = t > u", "t > u: got the tile t", "FIX"),
    "an equality of tiles": ("if t != u:\n    pass", "t != u: got the tile t", "FIX"),
    "a comparison with a number": ("c = 0 < t", "0 < t: got the tile t", "FIX"),
    "a product": (
        'z = pto.alloc_tile("f32", 64, 32)\nz @ t if False else t @ z',
        "t @ z: got the tile t",
        "FIX",
    ),
    "a tile and a number of the program": ("q = n + t", "n + t: got the tile t", "FIX"),
    "a tile as a condition": ("if t:\n    pass", "got the tile t as a truth value", "FIX\n    pass"),
    "a tile as a condition of the program": (
        "with pto.if_(t):\n    pass",
        "if_: got t",
        "with pto.if_(FIX):\n    pass",
    ),
    "a tile as a bound": (
        "for i in pto.range(t):\n    pass",
        "range: got t",
        "for i in pto.range(FIX):\n    pass",
    ),
    "a sum": ("t.sum()", "got the attribute 'sum' of the tile t", "FIX"),
    "a maximum of NumPy": ("np.max(t)", "np.max: got the kernel tile t", "FIX"),
    "a transpose": ("r = t.T", "got the attribute 'T' of the tile t", "FIX"),
    "a conversion": ('t.astype("f16")', "got the attribute 'astype' of the tile t", "FIX"),
    "a conversion as of a scalar": ('pto.cast(t, "bf16")', "cast: got t", "FIX"),
    "an element type": ("t.dtype", "got the attribute 'dtype' of the tile t", "FIX"),
    "jnp of a tile": ("jnp.exp(t)", "jnp.exp: got the kernel tile t", "FIX"),
    "an assignment to a view": ("w[0, 0] = t", "got an assignment to w", "FIX"),
    "an assignment to a whole view": ("w[:] = t", "got an assignment to w", "FIX"),
    "the length of a view": ("len(v)", "len(v): got a view", "FIX"),
    "an offset too few": ("pto.tload(t, v[0])", "got 1 numbers; allowed: 2", "pto.tload(t, FIX)"),
    "an offset too many": ("pto.tload(t, v[0, 0, 0])", "got 3 numbers; allowed: 2", "pto.tload(t, FIX)"),
    "an offset of i32": (
        'm = pto.cast(n, "i32")\npto.tload(t, v[m, 0])',
        "offsets: got m: i32; allowed: an index",
        'm = pto.cast(n, "i32")\npto.tload(t, v[FIX, 0])',
    ),
    "an offset of f32": (
        'm = pto.cast(n, "f32")\npto.tload(t, v[m, 0])',
        "offsets: got m: f32; allowed: an index",
        'm = pto.cast(n, "f32")\npto.tload(t, v[FIX, 0])',
    ),
    "an offset as text": ('pto.tload(t, v["0", 0])', "offsets: got '0'", "pto.tload(t, v[FIX, 0])"),
    "a pointer for a view": ("pto.tload(t, x)", "got x: ptr<f32>; allowed: a view", "FIX"),
    "a pointer to store to": ("pto.tstore(x, t)", "got x: ptr<f32>; allowed: a view", "FIX"),
    "an element of a pointer that is set": ("x[n] = 1.0", "got the pointer x; allowed: stores", "FIX"),
    "no shape": ("pto.GlobalTensor(x)", "got no shape", "FIX"),
    "a shape without brackets": ("pto.GlobalTensor(x, 16, 64)", "shape: got 16", "FIX"),
    "a number as the shape": ("pto.GlobalTensor(x, 1024)", "shape: got 1024", "FIX"),
    "shape first": ("pto.GlobalTensor((16, 64), x)", "got x: ptr<f32>", "FIX"),
    "a negative shape": ("pto.GlobalTensor(x, (-16, 64))", "shape: got -16; allowed: 0 or more", "FIX"),
    "strides too few": ("pto.GlobalTensor(x, (16, 64), (1,))", "got 1 strides of 2 dimensions", "FIX"),
    "a keyword of another function": (
        'pto.GlobalTensor(x, (16, 64), dtype="f32")',
        "got the keyword 'dtype'",
        "FIX",
    ),
    "no strides": ("pto.make_tensor_view(x, [16, 64])", "got no strides", "FIX"),
    "no sizes": ("pto.partition_view(v, [0, 0])", "got no sizes", "FIX"),
    "keywords in the singular": (
        "pto.partition_view(v, offset=[0, 0], size=[16, 64])",
        "got no offsets",
        "FIX",
    ),
    "a list for a tile": ('pto.alloc_tile("f32", [16, 64])', "got no rows and columns", "FIX"),
    "the type last": ('pto.alloc_tile(16, 64, "f32")', "allowed: dtype, rows, cols", "FIX"),
    "the shape first": ('pto.alloc_tile((16, 64), "f32")', "allowed: dtype, rows, cols", "FIX"),
    "a keyword for the shape": (
        'pto.alloc_tile("f32", shape=(16, 64))',
        "got shape=(16, 64)",
        'pto.alloc_tile("f32", FIX)',
    ),
    "columns": ('pto.alloc_tile("f32", 16, columns=64)', "got columns=64", 'pto.alloc_tile("f32", 16, FIX)'),
    "rows only": ('pto.alloc_tile("f32", 16)', "got no rows and columns", "FIX"),
    "rows as text": ('pto.alloc_tile("f32", "16", 64)', "rows: got '16'", 'pto.alloc_tile("f32", FIX, 64)'),
    "rows of run time": ('pto.alloc_tile("f32", n, 64)', "rows: got n: index", "FIX"),
    "a valid region of floats": (
        'pto.alloc_tile("f32", 16, 64, valid=(3.0, 64))',
        "valid: got (3.0, 64)",
        'pto.alloc_tile("f32", 16, 64, FIX)',
    ),
    "a type of torch": (
        'pto.alloc_tile("torch.float32", 16, 64)',
        "unknown element type 'torch.float32'",
        "pto.alloc_tile(FIX, 16, 64)",
    ),
    "a type of Python": (
        "pto.alloc_tile(float, 16, 64)",
        "unknown element type",
        "pto.alloc_tile(FIX, 16, 64)",
    ),
    "an address as text": (
        'pto.alloc_tile("f32", 16, 64, addr="0x4000")',
        "addr: got '0x4000'",
        'pto.alloc_tile("f32", 16, 64, addr=FIX)',
    ),
    "a hexadecimal text": (
        'for i in pto.range("0x10"):\n    pass',
        "range: got '0x10'",
        "for i in pto.range(FIX):\n    pass",
    ),
    "the destination by out": ("pto.tadd(t, u, out=t)", "got the keyword 'out'", "FIX"),
    "a scalar by value": ("pto.tadds(t, t, value=1.0)", "got the keyword 'value'", "FIX"),
    "a list of operands": ("pto.tadd([t, t, u])", "allowed: tadd(dst, src0, src1)", "FIX"),
    "an event for a tile": ("e = pto.tadd(t, t, u)\npto.tadd(t, e, u)", "got the event of tadd", "FIX"),
    "the number of the flag first": (
        'pto.set_flag("EVENT_ID0", "V", "MTE3")',
        "src: got 'EVENT_ID0'",
        'FIX\npto.wait_flag("V", "MTE3", 0)',
    ),
    "no number of the flag": (
        'pto.set_flag("MTE2", "V")',
        "got no event",
        'FIX\npto.wait_flag("MTE2", "V", 0)',
    ),
    "no pipe": ("pto.barrier()", "got no pipe", "FIX"),
    "no offset": ("q = pto.load_scalar(x)", "got no offset", "q = FIX"),
    "a store with the pointer first": ("pto.store_scalar(x, 0, 1.0)", "operand value: got x", "FIX"),
    "a tile that is printed": ("pto.print(t)", "format: got t", "FIX"),
    "a number that is printed": ("pto.print(n)", "format: got n", "FIX"),
    "a number beside a float": ("q = n > 0.5", "got 0.5 beside an index", "q = FIX"),
    "one of several numbers": ("q = n in (1, 2)", "n in (1, 2): n is known when the program runs", "q = FIX"),
    "the largest of three": ("q = max(n, 4, 8)", "max(n, 4, 8): n is known when the program runs", "q = FIX"),
    "NumPy of a number": ("q = np.minimum(n, 4)", "np.minimum(n, 4): n is known", "q = FIX"),
    "a choice of NumPy": ("q = np.where(n > 2, n, 4)", "known when the program runs", "q = FIX"),
    "a method of a number": ('q = n.astype("f32")', "got the attribute 'astype' of the number n", "q = FIX"),
    "a power of two": ("q = 2 ** n", "2 ** n: n is known when the program runs", "q = FIX"),
    "quotient and remainder": ("q = divmod(n, 2)", "divmod(n, 2): n is known", "q = FIX"),
    "one of two numbers": ("q = {1: 2, 3: 4.5}[n]", "n is known when the program runs", "q = FIX"),
    "one of three numbers": ("q = [1, 2, 3][n]", "[1, 2, 3][n]: n is known", "q = FIX"),
    "numbers in order": ("a, b = sorted([n, 3])", "sorted([n, 3]): n is known", "a, b = FIX"),
    "the largest of a list": ("q = max([n, 3])", "max([n, 3]): n is known", "q = FIX"),
    "a choice of Python": ("q = n if n > 2 else 3", "n > 2: n is known when the program runs", "q = FIX"),
    "an integer": ("q = int(n)", "int(n): n is known when the program runs", "q = FIX"),
    "an integer of a float": (
        'f = pto.cast(n, "f32")\nq = int(f)',
        "int(f): f is known",
        'f = pto.cast(n, "f32")\nq = FIX + n',
    ),
    "a float": ("q = float(n)", "float(n): n is known when the program runs", "q = FIX"),
    "a rounded number": ("q = round(n, 2)", "round(n, 2): n is known when the program runs", "q = FIX"),
    "a passing loop of numbers": (
        "for i in pto.range(4):\n    q = math.sqrt(i)",
        "math.sqrt(i): i is known when the program runs; allowed: a loop of Python",
        "FIX\n    q = math.sqrt(i)",
    ),
    "a function of JAX on a tile": ("jax.nn.relu(t)", "jax.nn.relu: got the kernel tile t", "FIX"),
    "an operation of lax": ("jax.lax.add(t, u)", "jax.lax.add: got the kernel tile t", "FIX"),
    "a tile and a number of JAX": ("jnp.maximum(t, 0)", "jnp.maximum: got the kernel tile t", "FIX"),
    "an array of a tile": ("np.asarray(t)", "np.asarray: got the kernel tile t; allowed: arrays", "FIX"),
    "a tile that is inverted": (
        't = pto.alloc_tile("i32", 16, 64)\nq = ~t',
        "~t: got the kernel tile t",
        'i = pto.alloc_tile("i32", 16, 64)\npto.tnot(i, i)',
    ),
    "a function of JAX on a view": (
        "jnp.exp(v)",
        "jnp.exp(v): got the view v of global memory",
        "tile = t\nFIX",
    ),
    "a function of JAX on a pointer": ("jnp.exp(x)", "jnp.exp(x): got the pointer x", "tile = t\nFIX"),
    "an event in a sum": ("e = pto.tadd(t, t, u)\nq = e * 2.0", "e * 2.0: got the event of tadd", "FIX"),
    "a call in a sum": ("q = pto.tadd(t, t, u) - 1", "got the event of tadd", "FIX"),
    "a format with a number": ('pto.print(f"n is {n}")', "got no scalar", "FIX"),
    "a loop that is left at once": (
        "for i in pto.range(1, n):\n    pto.tneg(t, t)\n    break",
        "the loop is still open",
        "FIX",
    ),
    "a loop that is left": (
        "for i in pto.range(4):\n    v\n    with pto.if_(i > n):\n        break\n    pto.tneg(u, u)",
        "break: got a jump out of a block",
        "FIX",
    ),
    "a pass that is left": (
        "for i in pto.range(4):\n    with pto.if_(i > n):\n        continue\n    pto.tneg(u, u)",
        "continue: got a jump out of a block",
        "for i in pto.range(4):\nFIX4",
    ),
    "a function that is left": (
        "with pto.if_(n > 3):\n    pto.tneg(t, t)\n    return\npto.tneg(u, u)",
        "return: got a jump out of a block",
        "FIX",
    ),
    "a tile that is returned": ("return t", "entry @k returns vec 16x64xf32", "FIX"),
    "a dict that is returned": ('return {"y": t}', "return: got {'y': ", "pto.tstore(w, t)\nFIX"),
    "an element of a number": ("q = n[0]", "n[0]: n is known when the program runs", "q = FIX"),
}


@pytest.mark.parametrize(("line", "got", "fixed"), LINES.values(), ids=LINES)
def test_the_fix_of_a_slip_passes_when_it_is_pasted(line: str, got: str, fixed: str) -> None:
    error = refused(line)
    assert got in str(error)
    assert error.fix
    indented = textwrap.indent(error.fix, "    ")
    assert verified(fixed.replace("FIX4", indented).replace("FIX", error.fix)) == []


#: Slips that no fix repairs.
PLAIN = {
    "for i in zip(pto.range(4), pto.range(4)):\n    pass": "the body of a loop is built once",
    "l = pto.range(4)\nfor i in l:\n    pass\nl.result": "has 0 results; allowed: results of regions",
    'for i in pto.range("0xzz"):\n    pass': "range: got '0xzz'; allowed: a scalar or a Python number",
    'for i in pto.range("inf"):\n    pass': "range: got 'inf'; allowed: a scalar or a Python number",
    "q = X[n]": "X[n]: n is known when the program runs",
    "q = X + n": "X + n: n is known when the program runs",
    "q = jnp.exp(n)": "jnp.exp(n): n is known when the program runs",
    "pto.tadds(t, t, 10 ** 400)": "scalar: got 1000000000000000000000",
    "q = pto.select(n > 0, t, u)": "select: got t: vec 16x64xf32; allowed: a scalar",
    "len(x)": "len(x): got a pointer, which has no length",
    "list(x)": "got the pointer x to iterate over",
    'pto.tadd(t, t, u, wait="MTE2")': "got 'MTE2' to wait for; allowed: events",
}


@pytest.mark.parametrize(("line", "got"), PLAIN.items(), ids=PLAIN)
def test_a_slip_without_a_fix_is_one_clear_error(line: str, got: str) -> None:
    assert got in str(refused(line))


#: Lines in which Python needs a number when the program is built.
NUMBERS = (
    "q = math.sqrt(n)",
    "q = np.zeros(n)",
    "q = jnp.zeros((n, 2))",
    'q = "%d" % n',
    "q = X[n]",
    "q = hex(n)",
)


@pytest.mark.parametrize("line", NUMBERS)
def test_a_number_that_python_needs_becomes_a_keyword_of_the_kernel(line: str) -> None:
    error = refused(line)
    assert "n is known when the program runs; allowed: a keyword-only parameter" in str(error)
    source = HEAD.replace("BODY", textwrap.indent(line, "    "))
    before, _, rest = source.partition("@pto.kernel")
    fixed = before + error.fix + rest.partition("def k(x, y, n):")[2]
    assert list(built(fixed).specialise(n=3).program.walk())


#: Uses of values that nothing of Python stands for.
USES = {
    "t.shape = (64, 16)": "t.shape: got the kernel tile t (property 'shape' of t has no setter)",
    "t.padding = 3": "t.padding: got the kernel tile t (t has no attribute 'padding')",
    "t()": "t: got the kernel tile t (t is not callable)",
    "with t: pass": "t: got the kernel tile t (t does not support the context manager protocol)",
    "divmod(t, 2)": "divmod: got the kernel tile t; allowed: arrays",
    "del t[0]": "t[0]: got the kernel tile t",
    "q = {t: 1}[u]": "{t: 1}[u]: got the kernel tile u",
    "a, b = n": "a, b: n is known when the program runs (cannot unpack non-iterable n)",
    "q = v[0, 0] + 1": "v[0, 0] + 1: got a part of a program (unsupported operand",
    "q = pto.range(n) + 1": "pto.range(n) + 1: got a part of a program (unsupported operand",
    "import os; os.path.join('a', n)": "os.path.join('a', n): n is known when the program runs",
    "q = t + None": "t + None: got the tile t",
    "q = t if n > 0 else u": "n > 0: n is known when the program runs",
    "q = n()": "n(): n is known when the program runs (n is not callable)",
    'q = {"a": t}[n]': '{"a": t}[n]: n is known when the program runs',
    "q = x == y": "x == y: got the pointer x",
    "for i in range(4):\n    with pto.if_(n > i):\n        break": "break: got a jump out of a block",
    "with pto.if_(n > 0):\n    if X.size:\n        return": "return: got a jump out of a block",
}


@pytest.mark.parametrize(("line", "got"), USES.items(), ids=USES)
def test_a_use_as_a_value_of_python_is_one_clear_error(line: str, got: str) -> None:
    assert got in str(refused(line))


def test_errors_of_the_author_stay_as_they_are() -> None:
    for line, kind in {"{1: 2}[3]": KeyError, 'raise ValueError(f"{n}")': ValueError, "len(3)": TypeError,
                       "(lambda a: a)()": TypeError, "np.zeros(-1)": ValueError}.items():  # fmt: skip
        with pytest.raises(kind) as caught:
            verified(f"def inner(a, b): return a\n{line}")
        assert not isinstance(caught.value, pto.PtoError)
    # A call of a function of the author that does not fit is no use of a tile.
    with pytest.raises(TypeError, match="missing 1 required"):
        verified("def inner(a, b): return a\ninner(t)")


#: Loops with jumps, and what is added to ones by the fix for n = 2.
JUMPS = {
    "for i in pto.range(6):\n    pto.tadds(t, t, 1.0)\n    with pto.if_(i == n):\n        break": (3, "FIX"),
    "for i in pto.range(1, 9, 2):\n    with pto.if_(i > n):\n        pto.tadds(t, t, 9.0)\n        break\n"
    "    pto.tadds(t, t, 1.0)": (10, "FIX"),
    "for i in pto.range(5):\n    with pto.if_(i > n):\n        continue\n    pto.tadds(t, t, 1.0)": (
        3, "for i in pto.range(5):\nFIX4"),
    "for i in pto.range(n, 9):\n    pto.tadds(t, t, 1.0)\n    break": (1, "FIX"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "result"), JUMPS.items(), ids=JUMPS)
def test_the_fix_of_a_jump_computes_what_the_jump_means(body: str, result: tuple[int, str]) -> None:
    fix = refused(body).fix
    fixed = result[1].replace("FIX4", textwrap.indent(fix, "    ")).replace("FIX", fix)
    kernel = built(HEAD.replace("BODY", textwrap.indent(fixed, "    ")))
    x = np.ones((16, 64), np.float32)
    np.testing.assert_array_equal(kernel(x, x, 2)["y"], x + result[0])


def test_a_jump_that_passes_nothing_over_is_allowed() -> None:
    lines = "for i in pto.range(4):\n    with pto.if_(i > 2):\n        pto.tneg(t, t)\n        continue"
    assert verified(lines) == []
    assert verified(f"{lines}\nfor j in range(4):\n    if j > 2: break\n    pto.tneg(t, t)") == []
    # Sections are executed in any case: what is built decides Python.
    section = 'with pto.section("vector"):\n    pto.tneg(t, t)\n    pto.tstore(w, t)\n    return'
    assert verified(section) == []
    assert (
        verified('for j in range(4):\n    with pto.section("vector"):\n        pto.tneg(t, t)\n        break')
        == []
    )
    with pytest.raises(pto.BuildError, match="return: got a jump"):
        verified(textwrap.indent(section, "    ").replace("    with", "with pto.if_(n > 0):\n    with", 1))


def test_numbers_of_numpy_beside_numbers_of_the_program_are_constants() -> None:
    body = "a = np.int64(2) * n\nb = n + np.int32(3)\nc = np.int32(3) < n\nd = np.uint8(200) // n"
    assert verified(body) == []
    assert verified('pto.alloc_tile("f32", np.int64(16), np.int32(64))') == []


#: A definition with a slip, what its message got, and the definition with ``FIX`` in its place.
DEFINITIONS = {
    "async": (
        '@pto.kernel(types={"x": pto.ptr("f32")})\nasync def k(x):\n    pass',
        "got an async function",
        '@pto.kernel(types={"x": pto.ptr("f32")})\nFIX\n    pass',
    ),
    "no types": (
        "@pto.kernel\ndef k(x):\n    pass",
        "got no type of the argument 'x'",
        "@pto.kernel(FIX)\ndef k(x):\n    pass",
    ),
    "too few types": (
        '@pto.kernel(types=[pto.ptr("f32")])\ndef k(x, y):\n    pass',
        "got 1 types for 2 argument(s)",
        "@pto.kernel(FIX)\ndef k(x, y):\n    pass",
    ),
    "text for types": (
        '@pto.kernel(types="f32")\ndef k(x):\n    pass',
        "got the types 'f32'",
        "@pto.kernel(FIX)\ndef k(x):\n    pass",
    ),
    "a name that no argument has": (
        '@pto.kernel(types={"x": "index", "outt": "index"})\ndef k(x, out):\n    pass',
        "got a type of 'outt'",
        '@pto.kernel(types={"x": "index", "FIX": "index"})\ndef k(x, out):\n    pass',
    ),
    "an array for a type": (
        '@pto.kernel(types={"x": np.ones(4, np.int32)})\ndef k(x):\n    pass',
        "x: got an array",
        '@pto.kernel(types={"x": FIX})\ndef k(x):\n    pass',
    ),
    "a class for a type": (
        "@pto.kernel()\ndef k(x: np.ndarray):\n    pass",
        "x: got the class ndarray",
        "@pto.kernel()\ndef k(x: FIX):\n    pass",
    ),
    "a pointer that is not called": (
        '@pto.kernel(types={"x": pto.ptr})\ndef k(x):\n    pass',
        "x: got <function ptr",
        '@pto.kernel(types={"x": FIX})\ndef k(x):\n    pass',
    ),
    "a pointer without a type": (
        '@pto.kernel(types={"x": pto.ptr()})\ndef k(x):\n    pass',
        "pto.ptr: got no dtype",
        '@pto.kernel(types={"x": FIX})\ndef k(x):\n    pass',
    ),
    "a type as a tuple": (
        'T = pto.tile_type("f32", (16, 64))',
        "got no cols",
        "T = FIX\n@pto.kernel\ndef k():\n    pto.alloc_tile(T)",
    ),
    "a view as a tuple": (
        'T = pto.tensor_view("f32", (16, 64))',
        "got the extent (16, 64)",
        'T = FIX\n@pto.kernel(types={"x": T})\ndef k(x):\n    pass',
    ),
    "a default": (
        '@pto.kernel(types={"n": "index"})\ndef k(n=3):\n    pass',
        "got the default 3 of n",
        '@pto.kernel(types={"n": "index"})\nFIX\n    pass',
    ),
    "a chip for the target": (
        '@pto.kernel(arch="ascend950")\ndef k():\n    pass',
        "arch: got 'ascend950'",
        "@pto.kernel(FIX)\ndef k():\n    pass",
    ),
    "a number for the name": (
        "@pto.kernel(name=3)\ndef k():\n    pass",
        "name: got 3",
        "@pto.kernel(FIX)\ndef k():\n    pass",
    ),
    "a constant with a typo": (
        "@pto.kernel\ndef k(*, blocks=3):\n    pass\nk = k.specialise(block=4)",
        "got no keyword-only parameter 'block'",
        "@pto.kernel\ndef k(*, blocks=3):\n    pass\nk = k.specialise(FIX)",
    ),
    "f32 for a pointer": (
        '@pto.kernel(types={"x": "f32"})\ndef k(x):\n    pto.GlobalTensor(x, (16, 64))',
        "ptr: got x: f32",
        "@pto.kernel(FIX)\ndef k(x):\n    pto.GlobalTensor(x, (16, 64))",
    ),
}


@pytest.mark.parametrize(("source", "got", "fixed"), DEFINITIONS.values(), ids=DEFINITIONS)
def test_the_fix_of_a_definition_passes_when_it_is_pasted(source: str, got: str, fixed: str) -> None:
    head = "import numpy as np, pto_jax as pto\n"
    with pytest.raises(pto.PtoError) as caught:
        assert built(head + source + "\n").program is None
    assert got in str(caught.value) and str(caught.value).startswith("<slips ")
    assert built(head + fixed.replace("FIX", caught.value.fix) + "\n").program.functions


@pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32"), "n": "index"})
def negated(x: Any, y: Any, n: Any, *, factor: int = 1) -> None:
    t = pto.alloc_tile("f32", 16, 64)
    pto.tload(t, pto.GlobalTensor(x, (16, 64)))
    pto.tmuls(t, t, -1.0 * factor)
    pto.tstore(pto.GlobalTensor(y, (16, 64)), t)


X = np.ones((16, 64), np.float32)
NAMES = {"negated": negated, "x": X, "y": X, "n": 3, "pto": pto, "np": np}
#: A call with a slip, what its message got, and the call that its fix becomes.
CALLS = {
    "a launch in brackets": ("negated[(1, 1)](x, y, n)", "got the grid (1, 1) in brackets", "FIX"),
    "a constant in the call": ("negated(x, y, n, factor=2)", "got the argument 'factor'", "FIX"),
    "a chip for the profile": (
        'negated(x, y, n, profile="Ascend910B")',
        "unknown profile 'Ascend910B'",
        "negated(x, y, n, FIX)",
    ),
    "an attribute with a typo": (
        "negated.programm",
        "kernel 'negated' has no attribute 'programm'",
        "negated.program",
    ),
}


@pytest.mark.parametrize(("call", "got", "fixed"), CALLS.values(), ids=CALLS)
def test_the_fix_of_a_call_passes_when_it_is_pasted(call: str, got: str, fixed: str) -> None:
    with pytest.raises(pto.PtoError) as caught:
        eval(call, NAMES)
    assert got in str(caught.value)
    assert eval(fixed.replace("FIX", caught.value.fix), NAMES)


def test_a_list_of_traced_numbers_is_made_an_array() -> None:
    listed = X.tolist()
    with pytest.raises(pto.PtoError, match="argument 'x': got a list of numbers that are traced") as caught:
        jax.jit(lambda x: negated(x, X, 3)["y"])(listed)
    fixed = eval(f"lambda x: negated({caught.value.fix}, y, 3)['y']", {**NAMES, "jax": jax})
    np.testing.assert_array_equal(jax.jit(fixed)(listed), -X)


def test_an_object_that_gives_no_array_is_named_with_its_error() -> None:
    class Broken:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise ValueError("on another device")

    with pytest.raises(
        pto.ArgumentError, match=r"x': got .*Broken that gives no array \(ValueError: on another"
    ):
        negated(Broken(), X, 3)


@pytest.mark.parametrize(("grid", "fix"), [("4", "grid=4"), ((2, 2), "grid=4"), (0, "grid=1")], ids=str)
def test_a_grid_of_other_languages_becomes_a_number_of_blocks(grid: Any, fix: str) -> None:
    with pytest.raises(pto.ArgumentError) as caught:
        negated(X, X, 3, grid=grid)
    assert caught.value.fix == fix and eval(f"negated.compile({fix}).grid", NAMES) == int(fix[5:])


#: Command lines with a slip, what the message got, and its fix.
COMMANDS = {
    "no file": (["run"], "got no program", "--example add_relu_convert"),
    "a command with a typo": (["veriffy", "k.pto"], "got 'veriffy'", "verify"),
    "a profile in capitals": (["verify", "k.pto", "--profile", "A5"], "got 'A5'", "a5"),
    "no placeholders": (["fuzz", "--dut", "true"], "{program} {inputs} {outputs} is missing",
                        "'true {program} {inputs} {outputs}'"),
    "an option with a typo": (["fuzz", "--dutt", "true"], "got the unknown arguments --dutt", "--dut"),
    "UTF-16": (["verify", "wide.pto"], "not UTF-8 text (byte 0 is 0xff)",
               "iconv -f UTF-16 -t UTF-8 -o utf8.pto wide.pto"),
}  # fmt: skip


@pytest.mark.variants(2)
@pytest.mark.parametrize(("line", "got", "fix"), COMMANDS.values(), ids=COMMANDS)
def test_the_fix_of_a_command_line(
    line: list[str], got: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    text = "%z = tneg %x : !pto.tile<f32, 16, 64>\n"
    Path("wide.pto").write_bytes(text.encode("utf-16"))
    Path("k.pto").write_text(text)
    with contextlib.suppress(SystemExit):
        assert main(line) == 2
    said = capsys.readouterr().err
    assert got in said and said.rstrip().endswith(f"; try: {fix}")


@pytest.mark.parametrize("text", ["\ufeffTEXT", "TEXT\r\n", "\tTEXT"], ids=["mark", "crlf", "tabs"])
def test_files_of_other_editors_are_read(text: str, tmp_path: Path) -> None:
    file = tmp_path / "k.pto"
    line = "%z = tneg %x : !pto.tile<f32, 16, 64>"
    file.write_bytes(text.replace("TEXT", line).encode())
    assert pto.load(file) == pto.parse(line)


FLAGS = """\
pto.set_flag("MTE2", "V", 0)
pto.wait_flag("MTE2", "V", 0)
pto.tneg(t, t)
"""


def test_the_fix_of_a_warning_of_order_takes_the_place_of_its_line() -> None:
    source = HEAD.replace("BODY", textwrap.indent(FLAGS, "    "))
    for _ in range(4):
        found = [d for d in pto.verify(built(source).program, profile="a2a3") if d.rule == "hazard"]
        if not found:
            return
        (span, fix) = found[0].span, found[0].fix
        assert span is not None and "pto.set_flag(" in fix and fix.endswith(span.text.strip())
        lines = source.splitlines()
        lines[span.line - 1] = textwrap.indent(fix, "    ")
        source = "\n".join(lines) + "\n"
    pytest.fail("the warnings stay")
