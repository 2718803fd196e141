"""Parts of programs whose blocks write rows of one buffer."""

import numpy as np

import pto_jax as pto

WIDE, T = "!pto.tensor_view<?x?xf32>", "!pto.tile_buf<vec, 8x16xf32>"
PART, OPEN = "!pto.partition_tensor_view<8x16xf32>", "!pto.tile_buf<vec, 8x16xf32, valid=?x?>"
NUMBERS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 60, 64, 100)
HEAD = "\n".join(
    [f"%c{n} = arith.constant {n} : index" for n in NUMBERS]
    + [
        "%one = arith.constant 1.0 : f32",
        "%b64 = pto.get_block_idx",
        "%b = arith.index_cast %b64 : i64 to index",
    ]
)
COUNT = "%n64 = pto.get_block_num\n%n = arith.index_cast %n64 : i64 to index\n"
VIEW = f"%v = pto.make_tensor_view %y, shape = [%c64, %c16], strides = [%c16, %c1] : {WIDE}\n"
TILE = f"%t = pto.alloc_tile : {T}\npto.texpands ins(%one : f32) outs(%t : {T})\n"
ROW = "%row = arith.muli %b, %c8 : index\n"
Y = np.zeros((64, 16), np.float32)


def store(row: str = "%row", view: str = "%v", tile: str = "%t", t: str = T, name: str = "%w") -> str:
    return (
        f"{name} = pto.partition_view {view}, offsets = [{row}, %c0], sizes = [%c8, %c16]\n"
        f"  : {WIDE} -> {PART}\n"
        f"pto.tstore ins({tile} : {t}) outs({name} : {PART})\n"
    )


def kernel(*body: str, arguments: str = "%y: !pto.ptr<f32>") -> pto.Program:
    text = "\n".join([HEAD, *body])
    return pto.parse(f"func.func @k({arguments}) attributes {{pto.entry}} {{\n{text}\nreturn\n}}", "k.pto")
