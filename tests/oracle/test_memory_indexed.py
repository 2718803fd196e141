"""Indexed transfers and single elements where no recorded case tells."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pto_jax import oracle, parse
from pto_jax.errors import ExecutionError
from pto_jax.ir import BLayout, SLayout, dtype
from pto_jax.oracle import OracleTile
from pto_jax.profiles import PROFILE_NAMES
from pto_jax.text.type_text import print_type

Make = Callable[..., Any]
_TEXT = {"f32": "f32", "f16": "f16", "i8": "i8", "i16": "i16", "i32": "i32", "u32": "ui32"}


def viewed(name: str, d: str, shape: Sequence[int], strides: Sequence[int], offset: int, layout: str) -> str:
    """A table at an offset of a buffer."""
    lines = [f"%o = arith.constant {offset} : index"]
    lists = []
    for kind, numbers in (("n", shape), ("s", strides)):
        names = [f"%{kind}{i}" for i in range(len(numbers))]
        lines += [f"{v} = arith.constant {n} : index" for v, n in zip(names, numbers, strict=True)]
        lists.append(", ".join(names))
    kind = f"!pto.tensor_view<{'?x' * len(shape)}{_TEXT[d]}>"
    pointer = f"!pto.ptr<{_TEXT[d]}>"
    lines.append(f"%p = pto.addptr %{name}, %o : {pointer} -> {pointer}")
    lines.append(
        f"%v = pto.make_tensor_view %p, shape = [{lists[0]}], strides = [{lists[1]}] "
        f"{{layout = #pto.layout<{layout}>}} : {kind}"
    )
    return "\n".join(lines)


def transfer(  # noqa: PLR0913 - keywords
    op: str,
    memory: Any,
    indexes: OracleTile,
    data: OracleTile,
    profile: str = "cpu_sim",
    *,
    shape: Sequence[int],
    strides: Sequence[int] | None = None,
    offset: int = 0,
    layout: str = "nd",
    attributes: str = "",
    **options: Any,
) -> Any:
    """Run one indexed transfer between a buffer and a tile; returns what it wrote."""
    steps = strides or [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    d = data.type.dtype.name
    made = viewed("m", d, shape, steps, offset, layout)
    ins, outs = ("%v, %i", "%t") if op == "mgather" else ("%t, %i", "%v")
    program = parse(f"{made}\npto.{op} ins({ins}) outs({outs}) {{{attributes}}}")
    given = {"m": np.asarray(memory, dtype(d).numpy), "i": indexes, "t": data}
    found = oracle.run(program, given, profile=profile, **options)
    return found["m"] if op == "mscatter" else found["t"].data


def number(*values: int) -> np.ndarray[Any, Any]:
    return np.array([values])


@pytest.mark.parametrize(
    ("profile", "mode", "expected"),
    [
        ("cpu_sim", "undefined", [1, 6, 17, 23]),
        ("cpu_sim", "clamp", [1, 6, 6, 6]),
        ("cpu_sim", "wrap", [1, 6, 3, 1]),
        ("cpu_sim", "zero", [1, 6, 0, 0]),
        ("a5", "wrap", [1, 6, 3, 3]),
        ("a2a3", "clamp", [1, 6, 6, 6]),
    ],
)
def test_indices_beyond_the_table(tile: Make, profile: str, mode: str, expected: list[int]) -> None:
    """The table has 7 elements; -1 is 2^64 - 1 on the simulator and 2^32 - 1 on hardware."""
    last = 23 if mode == "undefined" else -1
    found = transfer(
        "mgather",
        np.arange(24),
        tile("i32", [[1, 6, 17, last]]),
        tile("i32", [[9, 9, 9, 9]]),
        profile,
        shape=[1, 7],
        attributes=f"coalesce = #pto<coalesce elem>, gatherOob = #pto<gather_oob {mode}>",
    )
    np.testing.assert_array_equal(found, [expected])


@pytest.mark.parametrize("d", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_every_integer_type_indexes_on_the_simulator(tile: Make, d: str) -> None:
    indexes = tile(d, np.array([[3, 0, 2, -1]]).astype(dtype(d).numpy))
    out = tile("i16", np.zeros((1, 4)))
    found = transfer(
        "mgather", [5, 6, 7, 8], indexes, out, shape=[4], attributes="gatherOob = #pto<gather_oob zero>"
    )
    np.testing.assert_array_equal(found, [[8, 5, 7, 0]])


@pytest.mark.parametrize("profile", PROFILE_NAMES)
@pytest.mark.parametrize("column", [False, True])
def test_rows_follow_the_strides_of_the_table(tile: Make, profile: str, column: bool) -> None:
    """Lanes outside the valid region stay; the index list is read in storage order, either way."""
    listed: dict[str, Any] = {"valid": (3, 1), "blayout": BLayout.COL_MAJOR} if column else {"valid": (1, 3)}
    rows = number(2, 0, 2, 1)
    found = transfer(
        "mgather",
        np.arange(64),
        tile("u32", rows.T if column else rows, **listed),
        tile("i32", np.full((4, 4), -1), (3, 2)),
        profile,
        shape=[3, 2],
        strides=[10, 3],
        offset=5,
        attributes="coalesce = #pto<coalesce row>",
    )
    np.testing.assert_array_equal(found[:3, :2], [[25, 28], [5, 8], [25, 28]])
    assert (found[3] == -1).all() and (found[:, 2:] == -1).all()


@pytest.mark.parametrize(("profile", "expected"), [("cpu_sim", 2), ("a2a3", 5), ("a5", 5)])
def test_how_many_rows_a_table_of_higher_rank_has(tile: Make, profile: str, expected: int) -> None:
    found = transfer(
        "mgather",
        np.arange(48),
        tile("i32", [[9]]),
        tile("i32", [[0]]),
        profile,
        shape=[2, 3, 4],
        attributes="coalesce = #pto<coalesce row>, gatherOob = #pto<gather_oob clamp>",
    )
    assert found[0, 0] == expected * 4


@pytest.mark.parametrize(
    ("profile", "indexes", "data", "by_row"),
    [
        ("cpu_sim", (4, 4), (4, 4), False),
        ("a2a3", (1, 4), (4, 4), True),
        ("a5", (1, 4), (4, 4), True),
        ("a5", (4, 4), (4, 4), False),
        ("a2a3", (1, 4), (1, 4), False),
        ("a5", (1, 1), (1, 1), True),
    ],
)
def test_what_an_index_picks_unless_it_is_said(
    tile: Make, profile: str, indexes: tuple[int, int], data: tuple[int, int], by_row: bool
) -> None:
    ones = tile("i32", np.ones(indexes))
    found = transfer("mgather", np.arange(64), ones, tile("i32", np.zeros(data)), profile, shape=[8, 8])
    assert found[0, 0] == (8 if by_row else 1)


def test_tables_of_boxes_are_addressed_by_logical_position(tile: Make) -> None:
    """Sixteen rows of two blocks of eight columns; a row starts at its first block."""
    at: dict[str, Any] = {"shape": [1, 2, 1, 16, 8], "strides": [256, 128, 128, 8, 1], "layout": "nz"}
    boxed: dict[str, Any] = {"blayout": BLayout.COL_MAJOR, "slayout": SLayout.ROW_MAJOR}
    out = tile("f32", np.zeros((16, 16)), (1, 9), **boxed)
    rows = transfer(
        "mgather",
        np.arange(256),
        tile("i32", [[3]]),
        out,
        "a2a3",
        attributes="coalesce = #pto<coalesce row>",
        **at,
    )
    np.testing.assert_array_equal(rows[0, :9], [24, 25, 26, 27, 28, 29, 30, 31, 152])
    numbers = tile("i32", [[17, 16 + 9, 0, 0, 0, 0, 0, 0, 255]])
    elements = transfer(
        "mgather", np.arange(256), numbers, out, "a2a3", attributes="coalesce = #pto<coalesce elem>", **at
    )
    np.testing.assert_array_equal(elements[0, :9], [9, 137, 0, 0, 0, 0, 0, 0, 255])


@pytest.mark.parametrize("mode", ["undefined", "clamp", "wrap", "zero"])
def test_an_empty_table_reads_as_zero(tile: Make, mode: str) -> None:
    out = tile("i32", [[7, 7]])
    attributes = f"gatherOob = #pto<gather_oob {mode}>"
    found = transfer("mgather", [1, 2], tile("i32", [[0, 1]]), out, shape=[0, 4], attributes=attributes)
    np.testing.assert_array_equal(found, [[0, 0]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("undefined", [0, 10, 2, 13, 14]),
        ("skip", [0, 10, 0, 13, 0]),
        ("clamp", [0, 10, 0, 14, 0]),
        ("wrap", [12, 10, 0, 14, 0]),
    ],
)
def test_stores_beyond_the_table(tile: Make, mode: str, expected: list[int]) -> None:
    """The table is elements 0 to 3 and every place of the buffer can be reached without a mode."""
    memory = np.zeros(5)
    indexes = [[1, 1, 4, 3, 2**31 - 1]] if mode != "undefined" else [[1, 1, 2, 3, 4]]
    values = [[9, 10, 12, 13, 14]] if mode != "undefined" else [[9, 10, 2, 13, 14]]
    attributes = f"scatterOob = #pto<scatter_oob {mode}>, scatterConflict = #pto<scatter_conflict last>"
    found = transfer(
        "mscatter", memory, tile("i32", indexes), tile("i32", values), shape=[4], attributes=attributes
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op", ["mgather", "mscatter"])
@pytest.mark.parametrize(("profile", "index", "reached"), [("a5", -1, 2**32 - 1), ("cpu_sim", 8, 8)])
def test_elements_outside_the_buffer_are_errors(
    tile: Make, op: str, profile: str, index: int, reached: int
) -> None:
    """As in calls of compiled kernels; lanes outside the valid region reach nothing."""
    row = [[0, index, index, 0, 0, 0, 0, 0]]
    ones, attributes = tile("i32", np.ones((1, 8)), (1, 2)), "coalesce = #pto<coalesce elem>"
    with pytest.raises(ExecutionError, match=rf"{op}: got elements {reached} to {reached} of m; .*8 "):
        transfer(op, np.arange(8), tile("i32", row), ones, profile, shape=[4], attributes=attributes)
    narrow = tile("i32", np.ones((1, 8)), (1, 1))
    transfer(op, np.arange(8), tile("i32", row), narrow, profile, shape=[4], attributes=attributes)


def combined(tile: Make, op: str, d: str, old: float, new: list[float], **options: Any) -> Any:
    attributes = f"coalesce = #pto<coalesce elem>, scatterAtomicOp = #pto<scatter_atomic_op {op}>"
    zeros = tile("i32", np.zeros((1, len(new))))
    return transfer("mscatter", [old], zeros, tile(d, [new]), shape=[1], attributes=attributes, **options)[0]


def test_additions_are_made_one_after_the_other(tile: Make) -> None:
    assert combined(tile, "add", "i8", 100, [27, 1, 1]) == -127
    assert combined(tile, "add", "f16", 2048, [1, 1, 1]) == 2048
    assert combined(tile, "add", "f16", 1, [1, 1, 2048]) == 2052
    tiny = 1e-40
    assert combined(tile, "add", "f32", tiny, [tiny]) > 0
    assert combined(tile, "add", "f32", tiny, [tiny], subnormals="flush") == 0


def test_the_table_stays_unless_it_compares_less(tile: Make) -> None:
    assert combined(tile, "max", "f32", 1, [np.nan, 3, 2]) == 3
    assert np.isnan(combined(tile, "min", "f32", np.nan, [1.0, 2.0]))
    assert np.signbit(combined(tile, "max", "f32", -0.0, [0.0]))
    assert combined(tile, "min", "i32", 5, [7, -2, 3], profile="a5") == -2


@pytest.mark.parametrize(("profile", "expected"), [("cpu_sim", 50), ("a5", 30)])
def test_rows_are_compared_with_the_element_of_their_number_on_the_simulator(
    tile: Make, profile: str, expected: int
) -> None:
    memory = np.array([0, 50, 0, 0, 30, 0, 0, 0])
    found = transfer(
        "mscatter",
        memory,
        tile("i32", [[1]]),
        tile("i32", [[20, 5, 6, 7]]),
        profile,
        shape=[2, 4],
        attributes="coalesce = #pto<coalesce row>, scatterAtomicOp = #pto<scatter_atomic_op max>",
    )
    assert found[4] == expected and (found[:4] == memory[:4]).all()


# -- single elements ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ({"blayout": BLayout.COL_MAJOR, "slayout": SLayout.ROW_MAJOR}, 4 * 16 + 1),
        ({"blayout": BLayout.COL_MAJOR}, 1 * 16 + 1),
        ({}, 33),
    ],
)
def test_an_element_of_a_tile_is_counted_in_storage_order(
    tile: Make, order: dict[str, Any], expected: int
) -> None:
    """Whatever the valid region: boxes of 16x8, columns of 32, rows of 16."""
    source = tile("f32", np.arange(512).reshape(32, 16), (1, 1), **order)
    target = tile("f32", np.zeros((1, 8)))
    program = parse(
        f"%x = pto.tgetval ins(%s, %o : {print_type(source.type)}, index) outs : f32\n"
        f"pto.tsetval ins(%k, %x : index, f32) outs(%d : {print_type(target.type)})"
    )
    found = oracle.run(program, {"s": source, "o": 33, "d": target, "k": 5})["d"]
    np.testing.assert_array_equal(found.data, [[0, 0, 0, 0, 0, expected, 0, 0]])


def test_scalars_of_memory_keep_their_bits() -> None:
    program = parse(
        "%o = arith.constant 2 : index\n%q = pto.addptr %p, %o : !pto.ptr<f16> -> !pto.ptr<f16>\n"
        "%x = pto.load_scalar %q[%k] : !pto.ptr<f16> -> f16\n"
        "pto.store_scalar %x, %r[%o] : !pto.ptr<f16>, f16"
    )
    words = np.array([0, 0, 0x7D01, 0x8001], np.uint16)
    for k in (0, 1):
        given = {"p": words.view(np.float16), "r": np.zeros(3, np.float16), "k": k}
        found = oracle.run(program, given)
        assert set(found) == {"r"} and found["r"].view(np.uint16)[2] == words[2 + k]


@pytest.mark.parametrize("k", [-1, 3])
def test_a_scalar_outside_its_memory_is_refused(tile: Make, k: int) -> None:
    load = parse("%x = pto.load_scalar %p[%k] : !pto.ptr<f32> -> f32")
    with pytest.raises(ExecutionError, match=f"offset {k} in buffer p of 3 elements"):
        oracle.run(load, {"p": np.zeros(3, np.float32), "k": k})
    write = parse("pto.tsetval ins(%k, %x : index, f32) outs(%d : !pto.tile<f32, 1, 3>)")
    with pytest.raises(ExecutionError, match=f"offset {k} in a tile of 3 elements"):
        oracle.run(write, {"d": tile("f32", np.zeros((1, 3))), "k": k, "x": 1.0})
