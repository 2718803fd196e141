"""Ten tile instructions and loops of micro-operations that do the same, over full and partial regions.

The loops follow the public templates of the assembler for a5; lanes that the two leave apart are named.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.cli.main import main
from pto_jax.ir import dtype

from .calls import data
from .expansion import Micro, Tile, program, results, scope

Words = NDArray[Any]
#: The last row is there for loads of whole registers that end behind a row.
ROWS, COLS = 5, 160
#: The default run has the partial region and one element type.
REGIONS = (
    (3, 77),
    pytest.param((4, 160), marks=[pytest.mark.slow, pytest.mark.nightly]),
    pytest.param((1, 1), marks=[pytest.mark.slow, pytest.mark.nightly]),
)


def types(first: str, *others: str) -> list[Any]:
    return [first, *(pytest.param(t, marks=[pytest.mark.slow, pytest.mark.nightly]) for t in others)]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def tile(t: str, region: tuple[int, int], rows: int = ROWS, cols: int = COLS, pad: int = 0) -> Tile:
    return Tile(t, rows, cols, *region, pad=pad)


def contents(t: Tile, seed: object, nan: bool = True) -> Words:
    """Boundary values of the type, with or without NaNs."""
    d = dtype(t.t)
    made = data(d, t.rows * t.cols, seed).reshape(t.rows, t.cols).view(d.numpy)
    if d.is_float and not nan:
        made = np.where(np.isnan(made.astype(np.float32)), made.dtype.type(1.5), made)
    return made


def compare(
    tiles: dict[str, Tile],
    sources: int,
    line: str,
    write: Callable[[Micro], None],
    opens: bool = True,
    **arrays: Words,
) -> None:
    """The tile instruction and the micro-operations write equal bits, and leave the same bytes alone."""
    given = {n: arrays.get(n, np.full((t.rows, t.cols), 7, dtype(t.t).numpy)) for n, t in tiles.items()}
    one = results(program(tiles, sources, line), given)
    other = results(program(tiles, sources, scope(tiles, write, opens=opens)), given)
    assert set(one) == set(other) == set(list(tiles)[sources:])
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], name)


def lanes_of(t: Tile) -> list[tuple[int, int, int]]:
    """Rows, first columns and counts of the registers that hold a valid region."""
    steps = range(0, t.v_col, t.lanes)
    return [(row, col, min(t.lanes, t.v_col - col)) for row in range(t.v_row) for col in steps]


def line(name: str, tiles: dict[str, Tile], sources: list[str], dst: str, attributes: str = "") -> str:
    ins = ", ".join(f"%{s}" for s in sources)
    types = ", ".join(str(tiles[s]) for s in sources)
    return f"pto.{name} ins({ins}{attributes} : {types}) outs(%{dst} : {tiles[dst]})"


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("t", types("f32", "f16", "i32"))
def test_sum(t: str, region: tuple[int, int]) -> None:
    tiles = {n: tile(t, region) for n in ("a", "b", "d")}

    def write(m: Micro) -> None:
        for row, col, count in lanes_of(tiles["d"]):
            mask, x, y = m.first(t, count), m.load("a", row, col), m.load("b", row, col)
            r = m.vreg(t)
            total = m.op(f"vadd {x}, {y}, {mask}", f"{r}, {r}, {m.mask(t)} -> {r}")
            m.store(total, "d", row, col, mask)

    a, b = (contents(tiles["a"], (t, i)) for i in range(2))
    compare(tiles, 2, line("tadd", tiles, ["a", "b"], "d"), write, a=a, b=b)


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("t", types("f16", "f32"))
def test_exponential(t: str, region: tuple[int, int]) -> None:
    tiles = {n: tile(t, region) for n in ("a", "d")}

    def write(m: Micro) -> None:
        for row, col, count in lanes_of(tiles["d"]):
            mask, x, r = m.first(t, count), m.load("a", row, col), m.vreg(t)
            m.store(m.op(f"vexp {x}, {mask}", f"{r}, {m.mask(t)} -> {r}"), "d", row, col, mask)

    compare(tiles, 1, line("texp", tiles, ["a"], "d"), write, a=contents(tiles["a"], t))


def row_sum(m: Micro, t: str, source: Tile) -> None:
    """Registers are reduced one by one and their sums added from left to right."""
    one, r, k = m.first(t, 1), m.vreg(t), m.mask(t)
    for row in range(source.v_row):
        total = m.op(f"vbr {m.constant('0.0', t)}", f"{t} -> {r}")
        for col in range(0, source.v_col, source.lanes):
            mask = m.first(t, min(source.lanes, source.v_col - col))
            reduced = m.op(f"vcadd {m.load('a', row, col)}, {mask}", f"{r}, {k} -> {r}")
            total = m.op(f"vadd {total}, {reduced}, {one}", f"{r}, {r}, {k} -> {r}")
        m.store(total, "d", row, 0, one, f"1PT_B{dtype(t).bits}")


@pytest.mark.variants(0)
@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("t", types("f16", "f32"))
def test_row_sum_of_numbers_whose_sums_are_exact(t: str, region: tuple[int, int]) -> None:
    """The order of a sum is the one thing that the two do not share: see the next test."""
    tiles = {"a": tile(t, region), "d": tile(t, (region[0], 1), cols=16), "tmp": tile(t, region)}
    a = np.random.default_rng(1).integers(-9, 9, (ROWS, COLS)).astype(dtype(t).numpy)
    given = {"a": a, "d": np.zeros((ROWS, 16), a.dtype), "tmp": np.zeros_like(a)}
    text = line("trowsum", tiles, ["a", "tmp"], "d")
    shown = {n: tiles[n] for n in ("a", "tmp", "d")}
    one = results(program(shown, 2, text), given)
    other = results(program(shown, 2, scope(shown, lambda m: row_sum(m, t, tiles["a"]))), given)
    np.testing.assert_array_equal(one["d"], other["d"])
    exact = a[: region[0], : region[1]].astype(np.float64).sum(1)
    assert one["d"].view(a.dtype)[: region[0], 0].astype(float).tolist() == exact.tolist()


def test_row_sums_of_micro_operations_add_neighbours_within_a_register() -> None:
    region = (2, 77)
    tiles = {"a": tile("f32", region), "d": tile("f32", (2, 1), cols=16)}
    a = contents(tiles["a"], "order", nan=False).astype(np.float32)
    a = np.where(np.abs(a) < 1e6, a, 0).astype(np.float32)
    given = {"a": a, "d": np.zeros((ROWS, 16), np.float32)}
    got = results(program(tiles, 1, scope(tiles, lambda m: row_sum(m, "f32", tiles["a"]))), given)["d"]
    for row in range(2):
        total = np.float32(0)
        for col in (0, 64):
            part = np.zeros(64, np.float32)
            part[: min(64, 77 - col)] = a[row, col : min(col + 64, 77)]
            while len(part) > 1:
                part = part[0::2] + part[1::2]
            total = total + part[0]
        assert got.view(np.float32)[row, 0] == total


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("t", types("i8", "f32", "f16"))
def test_row_expand(t: str, region: tuple[int, int]) -> None:
    tiles = {"a": tile(t, (region[0], 1), rows=16, cols=32), "d": tile(t, region)}

    def write(m: Micro) -> None:
        for row, col, count in lanes_of(tiles["d"]):
            mask, r = m.first(t, count), m.vreg(t)
            lane = m.op(f"vdup {m.load('a', row, 0)}, {mask}", f"{r}, {m.mask(t)} -> {r}")
            m.store(lane, "d", row, col, mask)

    compare(tiles, 1, line("trowexpand", tiles, ["a"], "d"), write, a=contents(tiles["a"], t))


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("letter", types("F", "R", "Z"))
def test_conversion_to_f16(region: tuple[int, int], letter: str) -> None:
    """NaN is left out: it becomes 0 in the micro-operation and stays NaN in the tile instruction."""
    tiles = {"a": tile("f32", region), "d": tile("f16", region)}
    mode = {"R": "RINT", "F": "FLOOR", "Z": "TRUNC"}[letter]

    def write(m: Micro) -> None:
        for row, col, count in lanes_of(tiles["a"]):
            mask, x = m.first("f32", count), m.load("a", row, col)
            types = f"{m.vreg('f32')}, !pto.mask<b32> -> {m.vreg('f16')}"
            how = f' {{rnd = "{letter}", sat = "SAT", part = "EVEN"}}'
            half = m.op(f"vcvt {x}, {mask}", types, attributes=how)
            wide = m.op(f"vbitcast {half}", f"{m.vreg('f16')} -> {m.vreg('i32')}")
            packed = m.op(f'vpack {wide}, "LOWER"', f"{m.vreg('i32')} -> {m.vreg('ui16')}")
            back = m.op(f"vbitcast {packed}", f"{m.vreg('ui16')} -> {m.vreg('f16')}")
            m.store(back, "d", row, col, m.first("f16", count))

    how = f"{{rmode = #pto<round_mode {mode}>, sat_mode = #pto<saturation_mode ON>}}"
    text = line("tcvt", tiles, ["a"], "d", how)
    compare(tiles, 1, text, write, a=contents(tiles["a"], letter, nan=False))


@pytest.mark.parametrize(
    "region", [(3, 96), pytest.param((4, 160), marks=[pytest.mark.slow, pytest.mark.nightly])]
)
@pytest.mark.parametrize("mode", types("ge", "eq", "ne", "lt", "le", "gt"))
def test_comparison(region: tuple[int, int], mode: str) -> None:
    """Rows of whole predicates of 16 bytes; the image is packed two registers at a time."""
    tiles = {"a": tile("f32", region), "b": tile("f32", region), "d": tile("i8", (region[0], 32), cols=32)}

    def write(m: Micro) -> None:
        r, k = m.vreg("f32"), m.mask("f32")
        octets = m.op("castptr %d_p", "!pto.ptr<i8, ub> -> !pto.ptr<ui8, ub>")
        for row in range(region[0]):
            for col in range(0, region[1], 128):
                flags = []
                for part in (col, col + 64):
                    mask = m.first("f32", min(max(region[1] - part, 0), 64))
                    x, y = (m.load(n, row, min(part, COLS - 64)) for n in ("a", "b"))
                    flag = m.op(f'vcmp {x}, {y}, {mask}, "{mode}"', f"{r}, {r}, {k} -> {k}")
                    flags.append(m.op(f"pbitcast {flag}", f"{k} -> !pto.mask<b8>"))
                b8 = "!pto.mask<b8>"
                low = m.op(f"pdintlv_b8 {flags[0]}, {flags[1]}", f"{b8}, {b8} -> {b8}, {b8}", 2)[0]
                offset = m.constant(row * 32 + col // 8, "index")
                m.op(f'psts {low}, {octets}[{offset}], "PK"', f"{b8}, !pto.ptr<ui8, ub>, index", 0)

    a, b = (contents(tiles["a"], i) for i in range(2))
    b[:, ::3] = a[:, ::3]
    shown = {"a": a, "b": b, "d": np.full((ROWS, 32), 7, np.int8)}
    text = line("tcmp", tiles, ["a", "b"], "d", f" {{cmpMode = #pto<cmp {mode}>}}")
    one = results(program(tiles, 2, text), shown)["d"]
    other = results(program(tiles, 2, scope(tiles, write)), shown)["d"]
    whole = region[1] // 64 * 8
    np.testing.assert_array_equal(one[: region[0], :whole], other[: region[0], :whole])


@pytest.mark.parametrize("region", REGIONS)
def test_selection(region: tuple[int, int]) -> None:
    tiles = {
        "mask": tile("i8", (region[0], 32), cols=32),
        "a": tile("f32", region),
        "b": tile("f32", region),
        "tmp": tile("i8", (1, 32), rows=1, cols=32),
        "d": tile("f32", region),
    }

    def write(m: Micro) -> None:
        r, b16, b32 = m.vreg("f32"), "!pto.mask<b16>", "!pto.mask<b32>"
        octets = m.op("castptr %mask_p", "!pto.ptr<i8, ub> -> !pto.ptr<ui8, ub>")
        every = m.op('pset_b16 "PAT_ALL"', b16)
        for row, col, count in lanes_of(tiles["d"]):
            offset = m.constant(row * 32 + col // 128 * 16, "index")
            raw = m.op(f'plds {octets}[{offset}], "US"', f"!pto.ptr<ui8, ub>, index -> {b16}")
            halves = m.op(f"pintlv_b16 {raw}, {every}", f"{b16}, {b16} -> {b16}, {b16}", 2)
            chosen = m.op(f"pbitcast {halves[col // 64 % 2]}", f"{b16} -> {b32}")
            x, y = m.load("a", row, col), m.load("b", row, col)
            result = m.op(f"vsel {x}, {y}, {chosen}", f"{r}, {r}, {b32} -> {r}")
            m.store(result, "d", row, col, m.first("f32", count))

    rng = np.random.default_rng(3)
    bits = rng.integers(-128, 128, (ROWS, 32)).astype(np.int8)
    a, b = (contents(tiles["a"], i) for i in range(2))
    text = line("tsel", tiles, ["mask", "a", "b", "tmp"], "d")
    tmp = np.zeros((1, 32), np.int8)
    compare(tiles, 4, text, write, mask=bits, a=a, b=b, tmp=tmp)


@pytest.mark.parametrize(
    "region", [(3, 80), pytest.param((4, 160), marks=[pytest.mark.slow, pytest.mark.nightly])]
)
@pytest.mark.parametrize("t", types("f32", "i32"))
def test_fillpad_with_zeros(region: tuple[int, int], t: str) -> None:
    """The copy of the valid region, and zeros everywhere else."""
    tiles = {"a": tile(t, region, pad=1), "d": tile(t, (ROWS - 1, COLS), pad=1)}

    def write(m: Micro) -> None:
        r, k = m.vreg(t), m.mask(t)
        zero = m.op(f"vbr {m.constant('0.0' if t == 'f32' else 0, t)}", f"{t} -> {r}")
        for row in range(ROWS - 1):
            for col in range(0, COLS, 64):
                inside = min(max(region[1] - col, 0), 64) if row < region[0] else 0
                value = m.load("a", row, min(col, COLS - 64)) if inside else zero
                mask, whole = m.first(t, inside), m.first(t, min(64, COLS - col))
                if inside:
                    value = m.load("a", row, col)
                chosen = m.op(f"vsel {value}, {zero}, {mask}", f"{r}, {r}, {k} -> {r}")
                m.store(chosen, "d", row, col, whole)

    compare(tiles, 1, line("tfillpad", tiles, ["a"], "d"), write, a=contents(tiles["a"], t))


@pytest.mark.parametrize(
    "region", [(3, 8), pytest.param((4, 16), marks=[pytest.mark.slow, pytest.mark.nightly])]
)
@pytest.mark.parametrize("t", types("f32", "i32"))
def test_transpose(region: tuple[int, int], t: str) -> None:
    """A register of a row is scattered over a column."""
    tiles = {
        "a": tile(t, region, rows=8, cols=16),
        "tmp": tile(t, region, rows=8, cols=16),
        "d": tile(t, region[::-1], rows=16, cols=8),
    }

    def write(m: Micro) -> None:
        r, i, k = m.vreg(t), m.vreg("si32"), m.mask(t)
        numbers = m.op(f"vci {m.constant(0, 'i32')}", f"i32 -> {i}", attributes=' {order = "ASC"}')
        for row in range(region[0]):
            mask = m.first(t, region[1])
            at = m.op(f"vmuls {numbers}, {m.constant(8, 'i32')}, {mask}", f"{i}, i32, {k} -> {i}")
            at = m.op(f"vadds {at}, {m.constant(row, 'i32')}, {mask}", f"{i}, i32, {k} -> {i}")
            at = m.op(f"vbitcast {at}", f"{i} -> {m.vreg('ui32')}")
            types = f"{r}, !pto.ptr<{t}, ub>, {m.vreg('ui32')}, {k}"
            m.op(f"vscatter {m.load('a', row, 0)}, %d_p, {at}, {mask}", types, 0)

    compare(tiles, 2, line("ttrans", tiles, ["a", "tmp"], "d"), write, a=contents(tiles["a"], t))


@pytest.mark.parametrize(
    "region", [(1, 32), pytest.param((4, 160), marks=[pytest.mark.slow, pytest.mark.nightly])]
)
def test_sorting_of_blocks_of_32(region: tuple[int, int]) -> None:
    tiles = {
        "a": tile("f32", region),
        "i": tile("ui32", region),
        "d": tile("f32", (region[0], 2 * region[1]), cols=2 * COLS),
    }

    def write(m: Micro) -> None:
        count = m.constant(region[1] // 32, "index")
        kinds = {"d": "f32", "a": "f32", "i": "ui32"}
        for row in range(region[0]):
            places = []
            for name, t in kinds.items():
                offset = m.constant(row * tiles[name].cols, "index")
                pointer = f"!pto.ptr<{t}, ub>"
                places.append(m.op(f"addptr %{name}_p, {offset}", f"{pointer} -> {pointer}"))
            types = ", ".join(f"!pto.ptr<{t}, ub>" for t in kinds.values())
            m.op(f"vbitsort {', '.join(places)}, {count}", f"{types}, index", 0)

    a = np.random.default_rng(4).normal(size=(ROWS, COLS)).astype(np.float32)
    a[:, 3] = a[:, 9]
    index = np.arange(ROWS * COLS, dtype=np.uint32).reshape(ROWS, COLS)
    compare(tiles, 2, line("tsort32", tiles, ["a", "i"], "d"), write, opens=False, a=a, i=index)


# -- folders of both ---------------------------------------------------------------------------------


def lanewise(tiles: dict[str, Tile], write: Callable[[Micro, Any, Any, Any], Any]) -> str:
    """A scope that computes one register of two others, everywhere in the valid region."""

    def body(m: Micro) -> None:
        for row, col, count in lanes_of(tiles["d"]):
            mask = m.first("i32", count)
            made = write(m, m.load("a", row, col), m.load("b", row, col), mask)
            m.store(made, "d", row, col, mask)

    return program(tiles, 2, scope(tiles, body))


def folders(folder: Path) -> None:
    """Three tile programs and their expansions: one equal, one in what the tile defines, one wrong."""
    tiles = {n: tile("i32", (2, 40), 4, 64) for n in ("a", "b", "d")}
    r, k = "!pto.vreg<64xi32>", "!pto.mask<b32>"

    def binary(name: str) -> Callable[[Micro, Any, Any, Any], Any]:
        return lambda m, x, y, mask: m.op(f"{name} {x}, {y}, {mask}", f"{r}, {r}, {k} -> {r}")

    def quotient(m: Micro, x: Any, y: Any, mask: Any) -> Any:
        """Where the divisor is zero this is the dividend."""
        zero = m.op(f'vcmps {y}, {m.constant(0, "i32")}, {mask}, "eq"', f"{r}, i32, {k} -> {k}")
        return m.op(f"vsel {x}, {binary('vdiv')(m, x, y, mask)}, {zero}", f"{r}, {r}, {k} -> {r}")

    pairs = {
        "sum": ("tadd", binary("vadd")),
        "quotient": ("tdiv", quotient),
        "wrong": ("tadd", binary("vor")),
    }
    for name, (tiled, write) in pairs.items():
        for kind in ("tiles", "expanded"):
            (folder / kind).mkdir(exist_ok=True)
            text = program(tiles, 2, line(tiled, tiles, ["a", "b"], "d")) if kind == "tiles" else ""
            (folder / kind / f"{name}.pto").write_text(text or lanewise(tiles, write))


def test_folders_of_tile_programs_and_expansions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders(tmp_path)
    both, out = [str(tmp_path / kind) for kind in ("tiles", "expanded")], tmp_path / "out.json"
    command = ["diff", "--corpus", *both, "--workers", "1", "--count", "4", "--json", str(out)]
    assert main(command) == 1
    assert "3 programs: 1 equal, 2 different" in capsys.readouterr().out
    assert main([*command, "--open"]) == 1
    assert "3 programs: 2 equal, 1 different" in capsys.readouterr().out
    programs = {p["name"]: p for p in json.loads(out.read_text())["programs"]}
    assert programs["sum.pto"].get("open") is None
    wrong = programs["wrong.pto"]
    assert wrong["kind"] == "different" and wrong["parting"].endswith("tadd has no counterpart after")
    left = programs["quotient.pto"]["open"]
    assert re.fullmatch(r"elements that differ .* \d+ of d_g \(undefined: division by zero .*\)", left), left


@pytest.mark.slow
def test_two_programs_say_what_the_tile_leaves_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders(tmp_path)
    files = [str(tmp_path / kind / "quotient.pto") for kind in ("tiles", "expanded")]
    command = ["diff", *files, "--count", "2", "--failures", str(tmp_path)]
    assert main(command) == 1
    assert main([*command, "--open"]) == 0
    assert "that before leaves open" in capsys.readouterr().out
