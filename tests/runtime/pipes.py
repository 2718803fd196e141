"""Programs of a cube core and vector cores that meet in pipes."""

from collections.abc import Callable
from typing import Any

import numpy as np

import pto_jax as pto

Agree = Callable[..., dict[str, Any]]
VIEW = "!pto.tensor_view<?x?xf32>"
ACC = "!pto.tile_buf<acc, 16x16x{}, blayout=col_major, slayout=row_major, fractal=1024{}>"
MAT = "!pto.tile_buf<mat, 16x16x{}, blayout=col_major, slayout=row_major>"
SLOT = "!pto.tensor_view<16x16xf32>"
LEFT = "!pto.tile_buf<left, 16x16xf32, blayout=col_major, slayout=row_major>"
RIGHT = "!pto.tile_buf<right, 16x16xf32, slayout=col_major>"
RNG = np.random.default_rng(7)


def whole(d: str, rows: int = 16, cols: int = 16) -> str:
    return f"!pto.partition_tensor_view<{rows}x{cols}x{d}>"


def vec(d: str, rows: int = 16, cols: int = 16, more: str = "") -> str:
    return f"!pto.tile_buf<vec, {rows}x{cols}x{d}{more}>"


CONSTANTS = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 8, 10, 16, 32, 160))


def view(name: str, pointer: str, d: str, rows: str = "%c16", cols: str = "%c16") -> str:
    """A view of a buffer and the window of all of it, as ``name``."""
    t = f"!pto.tensor_view<?x?x{d}>"
    return (
        f"{name}v = pto.make_tensor_view {pointer}, shape = [{rows}, {cols}], strides = [{cols}, %c1] : {t}\n"
        f"{name} = pto.partition_view {name}v, offsets = [%c0, %c0], sizes = [{rows}, {cols}] : {t} -> "
        f"{whole(d, int(rows[2:]), int(cols[2:]))}"
    )


def program(arch: str, cube: str, vector: str, x: str = "f32", y: str = "f32", s: str = "f32") -> pto.Program:
    """Two kernels on the buffers x and y and slots, started together."""
    arguments = f"(%x: !pto.ptr<{x}>, %s: !pto.ptr<{s}>, %y: !pto.ptr<{y}>, %n: index)"
    types = f"(!pto.ptr<{x}>, !pto.ptr<{s}>, !pto.ptr<{y}>, index) -> ()"
    kernels = "\n".join(
        f"func.func @{kind}{arguments} attributes {{pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{\n"
        f"{CONSTANTS}\n{body}\nreturn\n}}"
        for kind, body in (("cube", cube), ("vector", vector))
    )
    calls = "\n".join(f"func.call @{kind}(%x, %s, %y, %n) : {types}" for kind in ("cube", "vector"))
    return pto.parse(
        f'module attributes {{pto.target_arch = "{arch}"}} {{\n'
        f"func.func @main{arguments} attributes {{pto.entry}} {{\n{calls}\nreturn\n}}\n{kernels}\n}}"
    )


def accepted(made: pto.Program) -> pto.Program:
    """The program, which is accepted, reads back and lacks no order."""
    assert [d for d in pto.verify(made) if d.severity == "error"] == []
    assert pto.races(made) == []
    assert pto.parse(str(made)) == made
    return made


def product(d: str, acc: str) -> str:
    """%acc = x times the unit matrix in an accumulator, %x of 16x16."""
    mat, left = MAT.format(d), f"!pto.tile_buf<left, 16x16x{d}, blayout=col_major, slayout=row_major>"
    right = f"!pto.tile_buf<right, 16x16x{d}, slayout=col_major>"
    return f"""
    {view("%wx", "%x", d)}
    %mx = pto.alloc_tile : {mat}
    %mu = pto.alloc_tile : {mat}
    %left = pto.alloc_tile : {left}
    %right = pto.alloc_tile : {right}
    %acc = pto.alloc_tile : {acc}
    pto.tload ins(%wx : {whole(d)}) outs(%mx : {mat})
    %uv = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?x{d}>
    pto.tmov ins(%mx : {mat}) outs(%left : {left})
    pto.tmov ins(%mx : {mat}) outs(%right : {right})
    pto.tmatmul ins(%left, %right : {left}, {right}) outs(%acc : {acc})
    """
