"""Programs for several ranks written line by line: views of own and other parts, copies, signals.

>>> k = Text({"x": "f32", "y": "f32", "s": "i32", "ctx": "i64"})
>>> k.put(k.view(k.peer("%y", k.number(0)), "f32", (1, 8)), k.view("%x", "f32", (1, 8)), (1, 8), "f32")
>>> k.notify("%s", 0)
>>> len(str(k).splitlines()) > 20
True
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from ..ir import dtype

_OFFSET = """  func.func private @far(%ctx: !pto.ptr<i64>, %peer: index) -> index {
    %two = arith.constant 2 : index
    %first = arith.constant 4 : index
    %size = arith.constant 4 : i64
    %pair = pto.load_scalar %ctx[%two] : !pto.ptr<i64> -> i64
    %own32 = arith.trunci %pair : i64 to i32
    %own = arith.index_cast %own32 : i32 to index
    %a = arith.addi %first, %own : index
    %here = pto.load_scalar %ctx[%a] : !pto.ptr<i64> -> i64
    %b = arith.addi %first, %peer : index
    %there = pto.load_scalar %ctx[%b] : !pto.ptr<i64> -> i64
    %bytes = arith.subi %there, %here : i64
    %count = arith.divsi %bytes, %size : i64
    %further = arith.index_cast %count : i64 to index
    return %further : index
  }
"""
FENCE = "pto.barrier <PIPE_ALL>\npto.fence.barrier_all #pto.fence_scope<gm>"
Shape = tuple[int, ...]


@dataclass
class Text:
    """A kernel of pointers, a context record and scalars; names of values are made on the way."""

    pointers: dict[str, str]
    scalars: dict[str, str] = field(default_factory=dict)
    arch: str = "a5"
    name: str = "k"
    lines: list[str] = field(default_factory=list)
    constants: dict[tuple[int, str], str] = field(default_factory=dict)
    count: int = 0
    kind: str = ""

    def new(self) -> str:
        """A name that nothing has."""
        self.count += 1
        return f"%v{self.count}"

    def add(self, *lines: str) -> Text:
        """Add lines as they are."""
        for line in lines:
            self.lines += line.splitlines()
        return self

    def number(self, n: int | str, t: str = "index") -> str:
        """A constant, or a value as it is."""
        if isinstance(n, str):
            return n
        return self.constants.setdefault((n, t), f"%c{n}_{t}".replace("-", "m"))

    def of(self, name: str, *args: int | str, t: str = "index") -> str:
        """Arithmetic on two numbers."""
        out, operands = self.new(), ", ".join(self.number(a, t) for a in args)
        self.add(f"{out} = arith.{name} {operands} : {t}")
        return out

    def index(self, scalar: str) -> str:
        """A scalar of 32 bits as an index."""
        out = self.new()
        self.add(f"{out} = arith.index_cast {scalar} : i32 to index")
        return out

    def peer(self, pointer: str, rank: str) -> str:
        """The part of a pointer that a rank (an index) has."""
        far, t = self.new(), self.pointers[pointer.removeprefix("%")]
        self.add(f"{far} = func.call @far(%ctx, {rank}) : (!pto.ptr<i64>, index) -> index")
        bits = dtype(t).bits
        if bits != 32:
            far = self.of("muli", far, 32 // bits) if bits < 32 else self.of("divsi", far, bits // 32)
        out = self.new()
        self.add(f"{out} = pto.addptr {pointer}, {far} : !pto.ptr<{t}> -> !pto.ptr<{t}>")
        return out

    def view(
        self,
        pointer: str,
        t: str,
        shape: Shape,
        offset: int | str = 0,
        strides: Shape = (),
    ) -> str:
        """A window of a pointer from an element on."""
        moved = pointer
        if offset != 0:
            moved = self.new()
            self.add(
                f"{moved} = pto.addptr {pointer}, {self.number(offset)} : !pto.ptr<{t}> -> !pto.ptr<{t}>"
            )
        whole, part = self.new(), self.new()
        steps = strides or tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
        dims = "x".join(map(str, shape))
        sizes, pitches, zeros = (
            ", ".join(self.number(n) for n in ns) for ns in (shape, steps, (0,) * len(shape))
        )
        self.add(
            f"{whole} = pto.make_tensor_view {moved}, shape = [{sizes}], strides = [{pitches}] "
            f": !pto.tensor_view<{dims}x{t}>",
            f"{part} = pto.partition_view {whole}, offsets = [{zeros}], sizes = [{sizes}] "
            f": !pto.tensor_view<{dims}x{t}> -> {self.type(shape, t)}",
        )
        return part

    @staticmethod
    def type(shape: Shape, t: str) -> str:
        """The type of a view."""
        return f"!pto.partition_tensor_view<{'x'.join(map(str, shape))}x{t}>"

    def tile(self, rows: int, cols: int, t: str = "f32") -> str:
        """A new tile of vector memory."""
        out = self.new()
        self.add(f"{out} = pto.alloc_tile : !pto.tile_buf<vec, {rows}x{cols}x{t}>")
        return out

    def put(
        self,
        dst: str,
        src: str,
        shape: Shape,
        t: str,
        tile: str | None = None,
        size: tuple[int, int] | None = None,
        more: str = "",
        *,
        pong: bool = False,
    ) -> None:
        """A copy to another part, through a tile of ``size``, or of the whole view where none is given.

        With ``pong`` through two of them in turn.
        """
        rows, cols = size or (prod(shape[:-1]), shape[-1])
        v, b = self.type(shape, t), f"!pto.tile_buf<vec, {rows}x{cols}x{t}>"
        through = tile or self.tile(rows, cols, t)
        tiles = [through, self.tile(rows, cols, t)] if pong else [through]
        types = ", ".join([b] * len(tiles))
        self.add(f"pto.comm.tput({dst}, {src}, buf({', '.join(tiles)}) : {v}, {v}, {types}) {more}".rstrip())

    def get(self, dst: str, src: str, shape: Shape, t: str, tile: str, size: tuple[int, int]) -> None:
        """A copy from another part."""
        v, b = self.type(shape, t), f"!pto.tile_buf<vec, {size[0]}x{size[1]}x{t}>"
        self.add(f"pto.comm.tget({dst}, {src}, buf({tile}) : {v}, {v}, {b})")

    def load(self, view: str, shape: tuple[int, int], t: str, tile: str) -> None:
        """Load a tile."""
        b = f"!pto.tile_buf<vec, {shape[0]}x{shape[1]}x{t}>"
        self.add(f"pto.tload ins({view} : {self.type(shape, t)}) outs({tile} : {b})")

    def store(self, tile: str, view: str, shape: tuple[int, int], t: str, more: str = "") -> None:
        """Store a tile."""
        b = f"!pto.tile_buf<vec, {shape[0]}x{shape[1]}x{t}>"
        self.add(f"pto.tstore ins({tile} : {b}) outs({view} : {self.type(shape, t)}) {more}".rstrip())

    def binary(self, name: str, a: str, b: str, out: str, shape: tuple[int, int], t: str) -> None:
        """An instruction on two tiles."""
        x = f"!pto.tile_buf<vec, {shape[0]}x{shape[1]}x{t}>"
        self.add(f"pto.{name} ins({a}, {b} : {x}, {x}) outs({out} : {x})")

    def sum(self, total: str, other: str, shape: tuple[int, int], t: str) -> None:
        """Add a tile to another one."""
        x = f"!pto.tile_buf<vec, {shape[0]}x{shape[1]}x{t}>"
        self.add(f"pto.tadd ins({total}, {other} : {x}, {x}) outs({total} : {x})")

    def fence(self) -> None:
        """Publish what was written."""
        self.add(FENCE)

    def notify(self, pointer: str, offset: int | str, value: int | str = 1, how: str = "atomic_add") -> None:
        """Change a signal."""
        view = self.view(pointer, "i32", (1,), offset)
        v = self.number(value, "i32")
        types = f"{self.type((1,), 'i32')}, i32"
        self.add(f"pto.comm.tnotify({view}, {v} : {types}) {{notifyOp = #pto<notify_op {how}>}}")

    def wait(
        self,
        pointer: str,
        offset: int | str,
        value: int | str = 1,
        how: str = "ge",
        shape: Shape = (1,),
        strides: Shape = (),
    ) -> None:
        """Wait for signals."""
        view, v = self.view(pointer, "i32", shape, offset, strides), self.number(value, "i32")
        self.add(
            f"pto.comm.twait({view}, {v} : {self.type(shape, 'i32')}, i32) {{cmp = #pto<wait_cmp {how}>}}"
        )

    def test(self, pointer: str, offset: int, value: int = 1, how: str = "ge") -> str:
        """Look at a signal."""
        view, v, out = self.view(pointer, "i32", (1,), offset), self.number(value, "i32"), self.new()
        self.add(
            f"{out} = pto.comm.ttest({view}, {v} : {self.type((1,), 'i32')}, i32) "
            f"{{cmp = #pto<wait_cmp {how}>}} -> i1"
        )
        return out

    def if_(self, condition: str) -> None:
        """Begin a condition."""
        self.add(f"scf.if {condition} {{")

    def else_(self) -> None:
        """Begin its other arm."""
        self.add("} else {")

    def end(self) -> None:
        """End a condition."""
        self.add("}")

    def equal(self, a: str, b: int | str, how: str = "eq") -> str:
        """Compare two indices."""
        out = self.new()
        self.add(f"{out} = arith.cmpi {how}, {a}, {self.number(b)} : index")
        return out

    def __str__(self) -> str:
        given = {n: f"!pto.ptr<{t}>" for n, t in self.pointers.items()} | self.scalars
        arguments = ", ".join(f"%{n}: {t}" for n, t in given.items())
        constants = [f"{name} = arith.constant {n} : {t}" for (n, t), name in self.constants.items()]
        body = "\n".join(f"    {line}" for line in [*constants, *self.lines, "return"])
        far = _OFFSET if "ctx" in self.pointers else ""
        kind = f" attributes {{pto.kernel_kind = #pto.kernel_kind<{self.kind}>}}" if self.kind else ""
        target = f' attributes {{pto.target_arch = "{self.arch}"}}' if self.arch else ""
        return f"module{target} {{\n  func.func @{self.name}({arguments}){kind} {{\n{body}\n  }}\n{far}}}\n"
