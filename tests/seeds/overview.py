"""What tests of the page Tile Instruction Set share: findings, random words, a kernel around a body."""

from typing import Any

import numpy as np

import pto_jax as pto

Array = np.ndarray[Any, Any]

PROFILES = ("cpu_sim", "a2a3", "a5")
FP8 = ("f8e4m3", "f8e5m2")


def found(text: str, profile: str, severity: str = "error", portable: bool = False) -> list[str]:
    listed = pto.verify(pto.parse(text), profile=profile, portable=portable)
    return [str(d) for d in listed if d.severity == severity]


def ssa(src0: str, src1: str, dst: str, name: str = "tadd") -> str:
    """A fragment with three tile types given by their parameters."""
    return f"%dst = pto.{name} %src0, %src1 : (!pto.tile<{src0}>, !pto.tile<{src1}>) -> !pto.tile<{dst}>"


def words(t: pto.Tile) -> Array:
    return np.asarray(t.words)


def random_words(seed: int, bits: int, shape: tuple[int, int] = (8, 32)) -> Array:
    return np.random.default_rng(seed).integers(0, 2**bits, shape, dtype=f"u{max(bits, 8) // 8}")


def memory_program(d: str, body: str, rows: int = 8, cols: int = 64, dynamic: bool = False) -> pto.Program:
    """Windows %px and %py on the pointers %x and %y, tiles %a and %b, and ``body``."""
    view, window = f"!pto.tensor_view<?x?x{d}>", f"!pto.partition_tensor_view<{rows}x{cols}x{d}>"
    tile = f"!pto.tile_buf<{d}, {rows}, {cols}{', valid=?x?' if dynamic else ''}>"
    allocation = f"pto.alloc_tile {'valid_row = %rows valid_col = %cols ' if dynamic else ''}: {tile}"
    views = "".join(
        f"""
        %v{n} = pto.make_tensor_view %{n}, shape = [%h, %w], strides = [%w, %c1] : {view}
        %p{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%h, %w] : {view} -> {window}"""
        for n in ("x", "y")
    )
    arguments = ["%x: !pto.ptr<DTYPE>", "%y: !pto.ptr<DTYPE>"]
    arguments += ["%rows: index", "%cols: index"] if dynamic else []
    return pto.parse(f"""
      func.func @move({", ".join(arguments).replace("DTYPE", d)}) {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %h = arith.constant {rows} : index
        %w = arith.constant {cols} : index{views}
        %a = {allocation}
        %b = {allocation}
        {body.replace("WINDOW", window).replace("TILE", tile)}
        return
      }}""")


LOAD = "pto.tload ins(%px : WINDOW) outs(%a : TILE)\n"
STORE = "pto.tstore ins(%b : TILE) outs(%py : WINDOW)\n"
DOUBLE = "pto.tadd ins(%a, %a : TILE, TILE) outs(%b : TILE)\n"
