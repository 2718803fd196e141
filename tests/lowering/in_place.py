"""Random programs that load and store overlapping windows of one buffer, and tiles that share bytes."""

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

#: Elements of each buffer, and the largest run-time offset.
SIZE, OFFSETS = 512, 20
TYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i32": np.int32,
    "i16": np.int16,
    "u8": np.uint8,
}
#: Types that the instructions below compute with; others are only moved.
COMPUTED = ("f32", "f16", "i32", "i16")
BINARY = ("pto.tadd", "pto.tsub", "pto.tmul", "pto.tmax", "pto.tmin")
TILES = 3


@dataclass
class InPlaceProgram:
    """The text of a kernel ``k(%x, %y, %n)`` that stores to y what it computes from y, and sometimes x."""

    rng: Generator
    grid: int = 1
    dtype: str = ""
    rows: int = 0
    cols: int = 0
    lines: list[str] = field(default_factory=list)
    names: int = 0

    def __post_init__(self) -> None:
        rng = self.rng
        self.dtype = str(rng.choice(list(TYPES)))
        self.rows = int(rng.integers(1, 5))
        self.cols = max(int(rng.choice([8, 16, 32])), 32 // np.dtype(TYPES[self.dtype]).itemsize)
        self._allocate(placed=rng.random() < 0.4)
        loop = self.grid == 1 and rng.random() < 0.25
        if loop:
            trips = self._constant(int(rng.integers(1, 4)))
            self.lines.append(f"scf.for %i = %c0 to {trips} step %c1 {{")
        for _ in range(int(rng.integers(1, 5))):
            self._step()
        if loop:
            self.lines.append("}")

    @property
    def text(self) -> str:
        """The module."""
        pointer = f"!pto.ptr<{self.dtype}>"
        lines = "\n".join(self.lines)
        return f"""module attributes {{pto.target_arch = "a5"}} {{
func.func @k(%x: {pointer}, %y: {pointer}, %n: index) attributes {{pto.entry}} {{
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%block_number = pto.get_block_idx
%block = arith.index_cast %block_number : i64 to index
{lines}
return
}} }}"""

    def arrays(self, *batch: int) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
        """Values of x and y."""
        low = -50 if self.dtype[0] != "u" else 0
        x, y = self.rng.integers(low, 50, (2, *batch, SIZE)).astype(np.float32)
        return x.astype(TYPES[self.dtype]), y.astype(TYPES[self.dtype])

    def _name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def _add(self, text: str) -> str:
        name = self._name()
        self.lines.append(f"{name} = {text}")
        return name

    def _constant(self, number: int) -> str:
        return self._add(f"arith.constant {number} : index")

    @property
    def _tile(self) -> str:
        return f"!pto.tile_buf<vec, {self.rows}x{self.cols}x{self.dtype}>"

    @property
    def _window(self) -> str:
        return f"!pto.partition_tensor_view<{self.rows}x{self.cols}x{self.dtype}>"

    def _allocate(self, placed: bool) -> None:
        for i in range(TILES):
            address = ""
            if placed:
                number = 32 * (i + int(self.rng.integers(0, 3)) * int(self.rng.integers(1, 3)))
                address = f" addr = {self._add(f'arith.constant {number} : i64')}"
            self.lines.append(f"%t{i} = pto.alloc_tile{address} : {self._tile}")

    def _view(self, buffer: str) -> str:
        """A window of a buffer: with another pitch or offset each time, which may be that of run time."""
        rng, offset = self.rng, self._constant(int(self.rng.integers(0, 60)))
        if rng.random() < 0.4:
            offset = self._add(f"arith.addi %n, {offset} : index")
        if self.grid > 1:
            step = self._constant(int(rng.integers(0, 3)) * self.cols)
            further = self._add(f"arith.muli %block, {step} : index")
            offset = self._add(f"arith.addi {offset}, {further} : index")
        pointer = f"!pto.ptr<{self.dtype}>"
        begin = self._add(f"pto.addptr %{buffer}, {offset} : {pointer} -> {pointer}")
        rows, cols = self._constant(self.rows), self._constant(self.cols)
        pitch = self._constant(int(rng.choice([self.cols, self.cols + 8, self.cols * 2, 8])))
        view = f"!pto.tensor_view<?x?x{self.dtype}>"
        whole = self._add(
            f"pto.make_tensor_view {begin}, shape = [{rows}, {cols}], strides = [{pitch}, %c1] : {view}"
        )
        return self._add(
            f"pto.partition_view {whole}, offsets = [%c0, %c0], sizes = [{rows}, {cols}] "
            f": {view} -> {self._window}"
        )

    def _load(self, buffer: str, tile: int) -> None:
        view = self._view(buffer)
        self.lines.append(f"pto.tload ins({view} : {self._window}) outs(%t{tile} : {self._tile})")

    def _step(self) -> None:
        rng, t = self.rng, self._tile
        first, second, result = (int(rng.integers(TILES)) for _ in range(3))
        self._load("y", first)
        if rng.random() < 0.3:
            self._load(str(rng.choice(["x", "y"])), second)
        if self.dtype in COMPUTED and rng.random() < 0.8:
            name = rng.choice(BINARY)
            self.lines.append(f"{name} ins(%t{first}, %t{second} : {t}, {t}) outs(%t{result} : {t})")
        else:
            result = first
        view = self._view("y")
        self.lines.append(f"pto.tstore ins(%t{result} : {t}) outs({view} : {self._window})")
