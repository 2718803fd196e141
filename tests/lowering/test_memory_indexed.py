"""Indexed transfers: the engine and the interpreter on tables, modes and orders that samples do not have."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.errors import ExecutionError
from pto_jax.ir import BLayout, SLayout, TileType
from pto_jax.testing.differential import differing, random_words

Words = NDArray[Any]
ROWS, COLS, ELEMENTS = 16, 16, 800
BATCH = 3
INDEX = TileType(pto.dtype("i32"), ROWS, COLS)
ROW_INDEX = TileType(pto.dtype("i32"), 1, ROWS)
PLAIN = ((3, 2, 2, 5, 6), (60, 30, 15, 7, 1))
BLOCKED = ((2, 1, 2, 4, 8), (90, 80, 40, 9, 1))


def transfer(op: str, d: str, attributes: str, layout: str = "nd") -> pto.Program:
    """A transfer through a table whose place, shape and strides are scalar arguments."""
    names = [[f"%{kind}{i}" for i in range(5)] for kind in "ns"]
    shape, strides = (", ".join(group) for group in names)
    pointer, ins, outs = f"!pto.ptr<{d}>", "%v, %i", "%t"
    if op == "mscatter":
        ins, outs = "%t, %i", "%v"
    return pto.parse(
        f"""%p = pto.addptr %m, %o : {pointer} -> {pointer}
        %v = pto.make_tensor_view %p, shape = [{shape}], strides = [{strides}]
            {{layout = #pto.layout<{layout}>}} : !pto.tensor_view<?x?x?x?x?x{d}>
        pto.{op} ins({ins}) outs({outs}) {{{attributes}}}"""
    )


def operands(
    data: TileType, index: TileType, table: Sequence[Sequence[int]], seed: int, least: int = -3
) -> dict[str, Words]:
    """A batch of operands: indices around the table's ends, a different table for every element."""
    rng = np.random.default_rng(seed)
    shape, strides = table
    found: dict[str, Any] = {
        "m": random_words(rng, data.dtype, (BATCH, ELEMENTS)),
        "o": rng.integers(0, 20, BATCH),
        "i": rng.integers(least, 70, (BATCH, *index.shape)).astype(np.uint32),
        "t": random_words(rng, data.dtype, (BATCH, *data.shape)),
    }
    for kind, sizes in zip("ns", (shape, strides), strict=True):
        found |= {f"{kind}{i}": np.full(BATCH, n) for i, n in enumerate(sizes)}
    # The last element of the batch has an empty table.
    found["n3"] = np.array([shape[3], shape[3] + 1, 0])
    return found


def check(
    program: pto.Program,
    data: TileType,
    index: TileType,
    profile: str,
    valid: tuple[int, int] | None = None,
    **options: Any,
) -> None:
    """The engine on a batch and the interpreter on its elements; ``valid`` is the region of the indices."""
    nz = data.slayout != SLayout.NONE_BOX
    modes = [
        getattr(v, "name", "") for op in program.walk() for n, v in op.attrs.items() if n.endswith("Oob")
    ]
    # Without a mode a negative index is outside the buffer, where the interpreter stops.
    least = 0 if "UNDEFINED" in (modes or ["UNDEFINED"]) else -3
    given = operands(data, index, BLOCKED if nz else PLAIN, 5, least)
    kernel = pto.compile(program, profile=profile, **options)
    types = {"i": index, "t": data}
    regions = {"i": (5, 13), "t": (5, 13)} if index == INDEX else {"i": (1, 9), "t": (9, 13)}
    regions["i"] = valid or regions["i"]

    def run(words: dict[str, Any]) -> Any:
        made = {
            n: pto.tile(w, type=types[n], valid=regions[n]) if n in types else w for n, w in words.items()
        }
        (out,) = kernel(**made).values()
        return getattr(out, "words", out)

    found = np.asarray(jax.vmap(run)(given))
    for b in range(BATCH):
        single: dict[str, Any] = {
            n: oracle.OracleTile(types[n], w[b], *regions[n]) if n in types else w[b]
            for n, w in given.items()
        }
        (expected,) = oracle.run(program, single, profile=profile, **options).values()
        expected = np.ascontiguousarray(getattr(expected, "data", expected)).view(data.dtype.word)
        different = differing(data.dtype, found[b].view(data.dtype.word), expected)
        assert not different.any(), (b, np.argwhere(different)[:5], found[b][different], expected[different])


@pytest.mark.variants(1)
@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize("profile", ["cpu_sim", "a2a3", "a5"])
@pytest.mark.parametrize(
    ("op", "d", "pick", "attributes"),
    [
        ("mgather", "f32", "elem", "gatherOob = #pto<gather_oob undefined>"),
        ("mgather", "i8", "row", "gatherOob = #pto<gather_oob wrap>"),
        ("mscatter", "f16", "elem", "scatterAtomicOp = #pto<scatter_atomic_op add>"),
        ("mscatter", "i32", "row", "scatterOob = #pto<scatter_oob skip>"),
    ],
)
def test_tables_known_at_run_time(profile: str, op: str, d: str, pick: str, attributes: str) -> None:
    data = TileType(pto.dtype(d), ROWS, 32 if d == "i8" else COLS)
    index = ROW_INDEX if pick == "row" else TileType(INDEX.dtype, *data.shape)
    program = transfer(op, d, f"coalesce = #pto<coalesce {pick}>, {attributes}")
    check(program, data, index, profile)


@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize("profile", ["cpu_sim", "a2a3"])
@pytest.mark.parametrize("valid", [(0, 9), (1, 4), (0, 0)])
@pytest.mark.parametrize("op", ["mgather", "mscatter"])
def test_indices_outside_their_region_are_what_the_profile_reads_there(
    op: str, valid: tuple[int, int], profile: str
) -> None:
    outside = (
        "gatherOob = #pto<gather_oob wrap>" if op == "mgather" else "scatterOob = #pto<scatter_oob wrap>"
    )
    data = TileType(pto.dtype("f32"), ROWS, COLS)
    check(transfer(op, "f32", f"coalesce = #pto<coalesce row>, {outside}"), data, ROW_INDEX, profile, valid)


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("op", "pick", "outside"),
    [
        ("mgather", "row", ""),
        ("mgather", "elem", ""),
        ("mgather", "row", ", gatherOob = #pto<gather_oob wrap>"),
        ("mscatter", "row", ""),
        ("mscatter", "elem", ", scatterOob = #pto<scatter_oob skip>"),
        ("mscatter", "row", ", scatterOob = #pto<scatter_oob clamp>"),
    ],
)
def test_blocked_tables_are_addressed_by_row_and_column(op: str, pick: str, outside: str) -> None:
    data = TileType(pto.dtype("f32"), 16, 16, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)
    program = transfer(op, "f32", f"coalesce = #pto<coalesce {pick}>{outside}", "nz")
    check(program, data, ROW_INDEX if pick == "row" else INDEX, "a2a3")


@pytest.mark.variants(1)
@pytest.mark.parametrize("combine", ["add", "max", "min"])
def test_flush_mode_flushes_what_is_combined(combine: str) -> None:
    data = TileType(pto.dtype("f32"), ROWS, COLS)
    attributes = f"coalesce = #pto<coalesce elem>, scatterAtomicOp = #pto<scatter_atomic_op {combine}>"
    check(transfer("mscatter", "f32", attributes), data, INDEX, "a5", subnormals="flush")


def dense(op: str, attributes: str) -> pto.Program:
    """A transfer through a table of four rows of two elements."""
    ins, outs = ("%v, %i", "%t") if op == "mgather" else ("%t, %i", "%v")
    return pto.parse(
        f"""%one = arith.constant 1 : index
        %n = arith.constant 4 : index
        %w = arith.constant 2 : index
        %zero = arith.constant 0 : index
        %p = pto.addptr %m, %zero : !pto.ptr<f32> -> !pto.ptr<f32>
        %v = pto.make_tensor_view %p, shape = [%n, %w], strides = [%w, %one] : !pto.tensor_view<?x?xf32>
        pto.{op} ins({ins}) outs({outs}) {{{attributes}}}"""
    )


def test_additions_to_one_element_are_rounded_in_the_order_of_the_lanes() -> None:
    # 2^24 + 1 + 1 stays 2^24 from left to right; 1 + 1 + 2^24 does not.
    kernel = pto.compile(
        dense("mscatter", "coalesce = #pto<coalesce elem>, scatterAtomicOp = #pto<scatter_atomic_op add>"),
        profile="cpu_sim",
    )
    values = np.array([[[2.0**24, 1, 1, *[0] * 5]], [[1, 1, 2.0**24, *[0] * 5]]], np.float32)
    places = np.array([[2, 2, 2, 0, 1, 3, 4, 5]], np.int32)
    found = jax.vmap(lambda t: kernel(m=np.zeros(8, np.float32), i=pto.tile(places), t=pto.tile(t))["m"])(
        values
    )
    np.testing.assert_array_equal(found[:, 2], [2.0**24, 2.0**24 + 2])


@pytest.mark.parametrize("op", ["mgather", "mscatter"])
def test_an_index_outside_the_buffer_is_reported(op: str) -> None:
    kernel = pto.compile(dense(op, "coalesce = #pto<coalesce elem>"), profile="a5", checks=True)
    for index, broken in ((7, False), (8, True), (-1, True)):
        tiles = {"i": np.full((1, 8), index, np.int32), "t": np.zeros((1, 8), np.float32)}
        given = {n: pto.tile(words, valid=(1, 1)) for n, words in tiles.items()}
        _, report = kernel(m=np.zeros(8, np.float32), **given)
        if broken:
            with pytest.raises(ExecutionError, match="inside the buffer"):
                report.raise_if_broken()
        else:
            report.raise_if_broken()


@pytest.mark.parametrize(
    ("op", "expected"), [("mgather", [1, 0, 0, 7, *[9] * 4]), ("mscatter", [0, 9, 2, 3, 4, 5, 6, 9])]
)
def test_under_vmap_nothing_is_transferred_outside_the_buffer(op: str, expected: list[int]) -> None:
    kernel = pto.compile(dense(op, "coalesce = #pto<coalesce elem>"), profile="a5")
    buffer, nines = np.arange(8, dtype=np.float32), np.full((1, 8), 9, np.float32)

    def transferred(places: jax.Array) -> Any:
        index, tile = (pto.tile(x, valid=(1, 4)) for x in (places, nines))
        (result,) = kernel(m=buffer, i=index, t=tile).values()
        return getattr(result, "array", result)

    found = jax.vmap(transferred)(np.array([[[1, 8, -1, 7, 0, 0, 0, 0]]], np.int32))
    np.testing.assert_array_equal(found.reshape(-1), expected)


def test_fast_numerics_adds_too() -> None:
    text = "coalesce = #pto<coalesce elem>, scatterAtomicOp = #pto<scatter_atomic_op add>"
    kernel = pto.compile(dense("mscatter", text), profile="a5", numerics="fast")
    places = np.array([[3, 3, 1, 0, 2, 4, 5, 6]], np.int32)
    tile = pto.tile(np.array([[1, 2, 4, *[0] * 5]], np.float32))
    found = kernel(m=np.ones(8, np.float32), i=pto.tile(places), t=tile)["m"]
    np.testing.assert_array_equal(found, [1, 5, 1, 4, 1, 1, 1, 1])


@pytest.mark.variants(2)
@pytest.mark.parametrize("combine", ["add", "max", "min"])
@pytest.mark.parametrize("d", ["i8", "u32"])
def test_integers_that_meet_are_combined_at_once(d: str, combine: str) -> None:
    attributes = f"coalesce = #pto<coalesce elem>, scatterAtomicOp = #pto<scatter_atomic_op {combine}>"
    attributes += ", scatterOob = #pto<scatter_oob skip>"
    program = pto.parse(str(dense("mscatter", attributes)).replace("f32", d))
    kernel, kind = pto.compile(program, profile="cpu_sim"), pto.dtype(d).numpy
    limits: Any = np.iinfo(np.dtype(kind))
    values = np.random.default_rng(3).integers(limits.min, limits.max, (1, 32), kind, endpoint=True)
    table = np.array([limits.min, limits.max, 0, 1, 2, 3, 4, 5], kind)
    places = np.array([[*np.arange(16) % 4, *[7] * 14, 8, 99]], np.int32)
    tiles = {"i": pto.tile(places), "t": pto.tile(values)}
    expected = table.copy()
    method = {"add": np.add, "max": np.maximum, "min": np.minimum}[combine]
    method.at(expected, places[0, :30], values[0, :30])
    np.testing.assert_array_equal(kernel(m=table, **tiles)["m"], expected)
    code = jax.jit(lambda m: kernel(m=m, **tiles)["m"]).lower(table).as_text()
    assert "stablehlo.sort" not in code
