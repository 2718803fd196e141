"""Programs on several ranks, written line by line: views of own and other parts, signals, copies."""

from __future__ import annotations

from dataclasses import dataclass, field

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
        self.count += 1
        return f"%v{self.count}"

    def add(self, *lines: str) -> Text:
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
        out, given = self.new(), ", ".join(self.number(a, t) for a in args)
        self.add(f"{out} = arith.{name} {given} : {t}")
        return out

    def index(self, scalar: str) -> str:
        out = self.new()
        self.add(f"{out} = arith.index_cast {scalar} : i32 to index")
        return out

    def peer(self, pointer: str, rank: str) -> str:
        """The part of a pointer that a rank (an index) has."""
        far, out, t = self.new(), self.new(), self.pointers[pointer.removeprefix("%")]
        self.add(
            f"{far} = func.call @far(%ctx, {rank}) : (!pto.ptr<i64>, index) -> index",
            f"{out} = pto.addptr {pointer}, {far} : !pto.ptr<{t}> -> !pto.ptr<{t}>",
        )
        return out

    def view(
        self,
        pointer: str,
        t: str,
        shape: tuple[int, ...],
        offset: int | str = 0,
        strides: tuple[int, ...] = (),
    ) -> str:
        """A window of a pointer from an element on."""
        moved = pointer
        if offset != 0:
            moved = self.new()
            self.add(
                f"{moved} = pto.addptr {pointer}, {self.number(offset)} : !pto.ptr<{t}> -> !pto.ptr<{t}>"
            )
        whole, part = self.new(), self.new()
        steps = strides or tuple(_product(shape[i + 1 :]) for i in range(len(shape)))
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
    def type(shape: tuple[int, ...], t: str) -> str:
        return f"!pto.partition_tensor_view<{'x'.join(map(str, shape))}x{t}>"

    def tile(self, rows: int, cols: int, t: str = "f32") -> str:
        out = self.new()
        self.add(f"{out} = pto.alloc_tile : !pto.tile_buf<vec, {rows}x{cols}x{t}>")
        return out

    def put(
        self,
        dst: str,
        src: str,
        shape: tuple[int, ...],
        t: str,
        tile: str,
        size: tuple[int, int],
        more: str = "",
    ) -> None:
        v, b = self.type(shape, t), f"!pto.tile_buf<vec, {size[0]}x{size[1]}x{t}>"
        self.add(f"pto.comm.tput({dst}, {src}, buf({tile}) : {v}, {v}, {b}) {more}".rstrip())

    def get(
        self, dst: str, src: str, shape: tuple[int, ...], t: str, tile: str, size: tuple[int, int]
    ) -> None:
        v, b = self.type(shape, t), f"!pto.tile_buf<vec, {size[0]}x{size[1]}x{t}>"
        self.add(f"pto.comm.tget({dst}, {src}, buf({tile}) : {v}, {v}, {b})")

    def load(self, view: str, shape: tuple[int, int], t: str, tile: str) -> None:
        b = f"!pto.tile_buf<vec, {shape[0]}x{shape[1]}x{t}>"
        self.add(f"pto.tload ins({view} : {self.type(shape, t)}) outs({tile} : {b})")

    def store(self, tile: str, view: str, shape: tuple[int, int], t: str, more: str = "") -> None:
        b = f"!pto.tile_buf<vec, {shape[0]}x{shape[1]}x{t}>"
        self.add(f"pto.tstore ins({tile} : {b}) outs({view} : {self.type(shape, t)}) {more}".rstrip())

    def binary(self, name: str, a: str, b: str, out: str, shape: tuple[int, int], t: str) -> None:
        x = f"!pto.tile_buf<vec, {shape[0]}x{shape[1]}x{t}>"
        self.add(f"pto.{name} ins({a}, {b} : {x}, {x}) outs({out} : {x})")

    def fence(self) -> None:
        self.add(FENCE)

    def notify(self, pointer: str, offset: int | str, value: int | str = 1, how: str = "atomic_add") -> None:
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
        shape: tuple[int, ...] = (1,),
        strides: tuple[int, ...] = (),
    ) -> None:
        view, v = self.view(pointer, "i32", shape, offset, strides), self.number(value, "i32")
        self.add(
            f"pto.comm.twait({view}, {v} : {self.type(shape, 'i32')}, i32) {{cmp = #pto<wait_cmp {how}>}}"
        )

    def test(self, pointer: str, offset: int, value: int = 1, how: str = "ge") -> str:
        view, v, out = self.view(pointer, "i32", (1,), offset), self.number(value, "i32"), self.new()
        self.add(
            f"{out} = pto.comm.ttest({view}, {v} : {self.type((1,), 'i32')}, i32) "
            f"{{cmp = #pto<wait_cmp {how}>}} -> i1"
        )
        return out

    def if_(self, condition: str) -> None:
        self.add(f"scf.if {condition} {{")

    def else_(self) -> None:
        self.add("} else {")

    def end(self) -> None:
        self.add("}")

    def equal(self, a: str, b: int | str, how: str = "eq") -> str:
        out = self.new()
        self.add(f"{out} = arith.cmpi {how}, {a}, {self.number(b)} : index")
        return out

    def __str__(self) -> str:
        given = {n: f"!pto.ptr<{t}>" for n, t in self.pointers.items()} | self.scalars
        arguments = ", ".join(f"%{n}: {t}" for n, t in given.items())
        constants = [f"{name} = arith.constant {n} : {t}" for (n, t), name in self.constants.items()]
        body = "\n".join(f"    {line}" for line in [*constants, *self.lines, "return"])
        far = _OFFSET if "ctx" in self.pointers else ""
        attributes = f" attributes {{pto.kernel_kind = #pto.kernel_kind<{self.kind}>}}" if self.kind else ""
        return (
            f'module attributes {{pto.target_arch = "{self.arch}"}} {{\n  func.func @{self.name}({arguments})'
            f"{attributes} {{\n{body}\n  }}\n{far}}}\n"
        )


def _product(numbers: tuple[int, ...]) -> int:
    found = 1
    for n in numbers:
        found *= n
    return found


def ring(shape: tuple[int, int] = (1, 64), blocks: bool = False, tile: tuple[int, int] | None = None) -> Text:
    """Every rank puts its part into the next one's, says so, and waits for that of the one before."""
    pointers = {"x": "f32", "y": "f32", "s": "i32", "ctx": "i64"}
    scalars = {"rank": "i32", "n": "i32"} | ({"__pypto_spmd_block_idx": "i32"} if blocks else {})
    k = Text(pointers, scalars, name="ring")
    own, n = k.index("%rank"), k.index("%n")
    peer = k.of("remui", k.of("addi", own, 1), n)
    block = k.index("%__pypto_spmd_block_idx") if blocks else 0
    at = k.of("muli", block, shape[0] * shape[1]) if blocks else 0
    size = tile or shape
    staging = k.tile(*size)
    dst, src = k.view(k.peer("%y", peer), "f32", shape, at), k.view("%x", "f32", shape, at)
    k.put(dst, src, shape, "f32", staging, size)
    k.fence()
    k.notify(k.peer("%s", peer), block)
    k.wait("%s", block)
    return k
