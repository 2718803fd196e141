"""The programs that ``python -m benchmarks`` measures."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.bench_run import COLS, ROWS
from pto_jax import ops, text
from pto_jax.ir import Program

# Instructions by name: these are the programs that are measured.
#: One instruction, and chains whose exact and fast numerics are compared.
ADDITION = ("tadd",)
CHAINS = {
    "tadd": ADDITION,
    "tmul": ("tmul",),
    "tmul tadd": ("tmul", "tadd"),
    "chain of 8": ("tmul", "tadd") * 4,
}
FRAGMENT = "%d = pto.tadd %a, %b : !pto.tile<f32, 1, 8>"


def function() -> Callable[..., Any]:
    """The instruction of the fragment as a function of pto.ops."""
    return ops.tadd


def program(body: list[str], buffers: dict[str, str], tiles: dict[str, str]) -> Program:
    """A kernel over ROWS x COLS buffers: views of every buffer, tiles, and the given instructions."""
    args = ", ".join(f"%{n}: !pto.ptr<{d}>" for n, d in buffers.items())
    lines = [
        'module attributes {"pto.target_arch" = "a3"} {',
        f"  func.func @bench({args}) {{",
        "    %c0 = arith.constant 0 : index",
        "    %c1 = arith.constant 1 : index",
        f"    %r = arith.constant {ROWS} : index",
        f"    %c = arith.constant {COLS} : index",
    ]
    for n, d in buffers.items():
        view, window = f"!pto.tensor_view<?x?x{d}>", _window(d)
        lines += [
            f"    %v{n} = pto.make_tensor_view %{n}, shape = [%r, %c], strides = [%c, %c1] : {view}",
            f"    %p{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%r, %c]"
            f" : {view} -> {window}",
        ]
    lines += [f"    %{n} = pto.alloc_tile : {_tile(d)}" for n, d in tiles.items()]
    return text.parse(
        "\n".join([*lines, *(f"    {line}" for line in body), "    return", "  }", "}"]), "<bench>"
    )


def _window(d: str) -> str:
    return f"!pto.partition_tensor_view<{ROWS}x{COLS}x{d}>"


def _tile(d: str) -> str:
    return f"!pto.tile_buf<vec, {ROWS}x{COLS}x{d}>"


def load(tile: str, buffer: str, d: str) -> str:
    """A load of a whole buffer into a tile."""
    return f"pto.tload ins(%p{buffer} : {_window(d)}) outs(%{tile} : {_tile(d)})"


def store(tile: str, buffer: str, d: str) -> str:
    """A store of a tile over a whole buffer."""
    return f"pto.tstore ins(%{tile} : {_tile(d)}) outs(%p{buffer} : {_window(d)})"


def apply(name: str, sources: str, out: str, d: str, to: str) -> str:
    """An instruction on tiles named by a letter each."""
    listed = ", ".join(f"%{s}" for s in sources)
    types = ", ".join(_tile(d) for _ in sources)
    return f"pto.{name} ins({listed} : {types}) outs(%{out} : {_tile(to)})"


def add_relu_convert() -> Program:
    """Two f32 tiles through taddreluconv to f16."""
    body = [load("a", "x", "f32"), load("b", "y", "f32"), apply("taddreluconv", "ab", "d", "f32", "f16")]
    body.append(store("d", "z", "f16"))
    return program(body, {"x": "f32", "y": "f32", "z": "f16"}, {"a": "f32", "b": "f32", "d": "f16"})


def chain(instructions: Sequence[str]) -> Program:
    """Instructions on f32 tiles a and b one after another, each written to a, between loads and a store."""
    body = [load("a", "x", "f32"), load("b", "y", "f32")]
    body += [apply(i, "ab", "a", "f32", "f32") for i in instructions]
    body.append(store("a", "z", "f32"))
    return program(body, dict.fromkeys("xyz", "f32"), dict.fromkeys("ab", "f32"))


def straight(count: int) -> str:
    """The text of a kernel of ``count`` instructions, one after another."""
    names = ("tadd", "tmul", "tmax", "tsub", "tmin", "tdiv")
    return str(chain([names[i % len(names)] for i in range(count - 3)]))


def looped_program() -> str:
    """A kernel of about 100 instructions in loops whose trips an argument gives."""
    lines = [
        'module attributes {"pto.target_arch" = "a3"} {',
        "  func.func @looped(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) {",
        *(f"    %c{n} = arith.constant {n} : index" for n in (0, 1, 16, 64, 256)),
    ]
    view, window = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<16x64xf32>"
    tile, column = "!pto.tile_buf<vec, 16x64xf32>", "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>"
    for b in "xy":
        lines.append(
            f"    %v{b} = pto.make_tensor_view %{b}, shape = [%c256, %c64], strides = [%c64, %c1] : {view}"
        )
    lines += [f"    %{t} = pto.alloc_tile : {tile}" for t in "ab"]
    lines.append(f"    %r = pto.alloc_tile : {column}")
    names = (
        *("tadd", "tmul", "tmax", "trowsum", "trowexpandsub", "texp", "tsub", "tmin"),
        *("trowmax", "trowexpandadd"),
    )
    for _ in range(4):
        lines += ["    scf.for %i = %c0 to %n step %c1 {", "      %row = arith.muli %i, %c16 : index"]
        for b in "xy":
            lines.append(
                f"      %w{b} = pto.partition_view %v{b}, offsets = [%row, %c0], sizes = [%c16, %c64]"
                f" : {view} -> {window}"
            )
        lines.append(f"      pto.tload ins(%wx : {window}) outs(%a : {tile})")
        for i in range(20):
            name = names[i % len(names)]
            if name in ("trowsum", "trowmax"):
                operands = f"ins(%a, %b : {tile}, {tile}) outs(%r : {column})"
            elif name.startswith("trowexpand"):
                operands = f"ins(%a, %r : {tile}, {column}) outs(%b : {tile})"
            elif name == "texp":
                operands = f"ins(%b : {tile}) outs(%b : {tile})"
            else:
                operands = f"ins(%a, %b : {tile}, {tile}) outs(%a : {tile})"
            lines.append(f"      pto.{name} {operands}")
        lines += [f"      pto.tstore ins(%a : {tile}) outs(%wy : {window})", "    }"]
    return "\n".join([*lines, "    return", "  }", "}"])
