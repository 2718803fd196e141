"""Programs of one tile instruction, and of the micro-operations that do the same."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.ir import dtype
from pto_jax.oracle.interpret import run

ADDRESS = 32768


@dataclass(frozen=True)
class Tile:
    """A tile in the text: element type as spelled, physical size, valid size, padding value."""

    t: str
    rows: int
    cols: int
    v_row: int
    v_col: int
    pad: int = 0

    def __str__(self) -> str:
        sizes = f"rows={self.rows}, cols={self.cols}, v_row={self.v_row}, v_col={self.v_col}"
        layout = f"blayout=row_major, slayout=none_box, fractal=512, pad={self.pad}"
        return f"!pto.tile_buf<loc=vec, dtype={self.t}, {sizes}, {layout}>"

    @property
    def lanes(self) -> int:
        """Lanes of a register of the element type."""
        return 2048 // dtype(self.t).word_bits


@dataclass
class Micro:
    """Writes micro-operations, one after another, of offsets that are known."""

    tiles: Mapping[str, Tile]
    lines: list[str] = field(default_factory=list)
    names: int = 0

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def constant(self, number: float | str, t: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = arith.constant {number} : {t}")
        return name

    def op(self, text: str, types: str, results: int = 1, attributes: str = "") -> Any:
        """``text`` is the operation with operands; ``types`` stands behind the colon."""
        names = [self.name() for _ in range(results)]
        given = f"{', '.join(names)} = " if results else ""
        self.lines.append(f"{given}pto.{text}{attributes} : {types}")
        return names[0] if results == 1 else names

    def first(self, t: str, count: int) -> str:
        """A mask of the first lanes."""
        bits = min(dtype(t).word_bits, 32)
        count_name = self.constant(count, "i32")
        mask, _ = self.op(f"plt_b{bits} {count_name}", f"i32 -> !pto.mask<b{bits}>, i32", 2)
        return str(mask)

    def mask(self, t: str) -> str:
        return f"!pto.mask<b{min(dtype(t).word_bits, 32)}>"

    def vreg(self, t: str) -> str:
        return f"!pto.vreg<{2048 // dtype(t).word_bits}x{t}>"

    def load(self, tile: str, row: int, col: int, dist: str = "") -> str:
        t = self.tiles[tile].t
        offset = self.constant(row * self.tiles[tile].cols + col, "index")
        attributes = f' {{dist = "{dist}"}}' if dist else ""
        value = self.op(f"vlds %{tile}_p[{offset}]{attributes}", f"!pto.ptr<{t}, ub> -> {self.vreg(t)}")
        return str(value)

    def store(
        self, value: str, tile: str, row: int, col: int, mask: str, dist: str = "", of: str = ""
    ) -> None:
        t = self.tiles[tile].t
        offset = self.constant(row * self.tiles[tile].cols + col, "index")
        attributes = f' {{dist = "{dist}"}}' if dist else ""
        types = f"{self.vreg(of or t)}, !pto.ptr<{t}, ub>, {self.mask(of or t)}"
        self.op(f"vsts {value}, %{tile}_p[{offset}], {mask}{attributes}", types, 0)


def program(tiles: Mapping[str, Tile], sources: int, body: str) -> str:
    """A kernel that loads the first tiles, does something, and stores the others; whole tiles are moved."""
    constants = sorted({0, 1, *(n for t in tiles.values() for n in (t.rows, t.cols, t.v_row, t.v_col))})
    lines = [f"%c{n} = arith.constant {n} : index" for n in constants]
    arguments, loads, stores = [], [], []
    for k, (name, t) in enumerate(tiles.items()):
        arguments.append(f"%{name}_g: !pto.ptr<{t.t}>")
        view, window = (
            f"!pto.tensor_view<?x?x{t.t}>",
            f"!pto.partition_tensor_view<{t.v_row}x{t.v_col}x{t.t}>",
        )
        lines += [
            f"%{name}_a = arith.constant {k * ADDRESS} : i64",
            f"%{name}_v = pto.make_tensor_view %{name}_g, shape = [%c{t.rows}, %c{t.cols}], "
            f"strides = [%c{t.cols}, %c1] : {view}",
            f"%{name}_w = pto.partition_view %{name}_v, offsets = [%c0, %c0], "
            f"sizes = [%c{t.v_row}, %c{t.v_col}] : {view} -> {window}",
            f"%{name} = pto.alloc_tile addr = %{name}_a : {t}",
        ]
        if k < sources:
            loads.append(f"pto.tload ins(%{name}_w : {window}) outs(%{name} : {t})")
        else:
            stores.append(f"pto.tstore ins(%{name} : {t}) outs(%{name}_w : {window})")
    kind = "attributes {pto.entry, pto.kernel_kind = #pto.kernel_kind<vector>}"
    inner = "\n".join([*lines, *loads, body, *stores, "return"])
    return (
        f'module attributes {{pto.target_arch = "a5"}} {{\nfunc.func @k({", ".join(arguments)}) {kind} {{\n'
        f"{inner}\n}}\n}}"
    )


def scope(tiles: Mapping[str, Tile], write: Callable[[Micro], None], *, opens: bool = True) -> str:
    """A vector scope with pointers to all tiles, or the lines alone, for what stands in none."""
    micro = Micro(tiles)
    write(micro)
    pointers = [f"%{n}_p = pto.tile_buf_addr %{n} : {t} -> !pto.ptr<{t.t}, ub>" for n, t in tiles.items()]
    lines = [*pointers, *micro.lines]
    return "\n".join(["pto.vecscope {", *lines, "}"] if opens else lines)


def results(text: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The words that a kernel writes, after both executors gave the same."""
    given = {f"{name}_g": array for name, array in arrays.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.PtoWarning)
        parsed = pto.parse(text)
        got = pto.compile(parsed, profile="a5")(**given)
        expected = run(parsed, given, profile="a5")
    for name, array in got.items():
        np.testing.assert_array_equal(words(array), words(expected[name]), name)
    return {name.removesuffix("_g"): words(array) for name, array in got.items()}


def words(array: Any) -> NDArray[Any]:
    a = np.asarray(array)
    return a.view(f"u{a.dtype.itemsize}")
