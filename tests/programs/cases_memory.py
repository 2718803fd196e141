"""Views of global memory, valid regions, handles over the same bytes, addresses, memrefs."""

import numpy as np

from tests.programs.cases import Arguments, Array, Arrays, Case


def atomic(args: Arguments) -> Arrays:
    y = args["y"].copy()
    for i, row in enumerate(args["x"]):
        y[1 + args["s"] * i :][:8] += row
    return {"y": y}


def views(args: Arguments) -> Arrays:
    x, y, r, c = args["x"], args["y"].copy(), args["r"], args["c"]
    rows = np.lib.stride_tricks.as_strided(x, (16, args["pitch"]), (4 * args["pitch"], 4))
    y[r : r + 4, :8] = 2 * rows[r : r + 4, c : c + 8]
    y[12:16, 8 : 9 + r] = (rows[2:9:2] + rows[r + 2 : r + 9 : 2])[:, : r + 1]
    y[8:12, :8] = x[:64].reshape(4, 16)[:, :8]
    block = 2 * x.reshape(2, 2, 2, 4, 8)[0, r % 2, 1]
    y[0:4, 8:] = block
    y[4:8, :8] = block
    extent, stride = ((4, args["pitch"]), (args["pitch"], 1))[r % 2]
    at = r * args["pitch"] + c + (extent + stride) // 4
    y[4, 8:] = x[at : at + 8]
    return {"y": y}


def regions(args: Arguments) -> Arrays:
    x, y, r, c = args["x"], args["y"].copy(), args["r"], args["c"]
    y[:r, :c] = -2 * x[:r, :c] - 1
    y[16:32] = 2
    y[16 : 16 + r, :c] = 1
    y[16:32, 0] = 3
    y[32:48] = x
    y[36 : max(36, min(44, 32 + r)), 8 : max(8, c)] += 1
    y[32 : 32 + min(r, 4)] += 2
    y[48:64] = 1
    y[48 : 48 + r, :c] = x[:r, :c] + 1
    return {"y": y}


def product(args: Arguments) -> Arrays:
    p, q, r, k, c = args["p"].copy(), args["q"].copy(), args["r"], args["k"], args["c"]
    p[:r, :c] = args["a"][:r, :k] @ args["b"][:k, :c]
    q[:r, :k] = args["a"][:r, :k]
    return {"p": p, "q": q}


def vectors(args: Arguments) -> Arrays:
    x, flat, n = args["x"], args["flat"].copy(), args["n"]
    y = 3 * x
    y[:5] = x[:5] + 2
    rows = np.lib.stride_tricks.as_strided(flat[n:], (8, 8), (4 * 12, 4))
    rows *= 2 if args["flag"] else 3
    flat[120:] = 1
    rows4 = args["rows4"].copy()
    np.lib.stride_tricks.as_strided(rows4[4:], (4, 8), (4 * 12, 4))[:] = 2
    return {"y": y, "flat": flat, "rows4": rows4}


def matrices(args: Arguments) -> Arrays:
    a, b = args["a"].astype(np.float32), args["b"].astype(np.float32)
    return {"z": a @ b @ b}


def aliases(args: Arguments) -> Arrays:
    x, y, r, c, flag = args["x"], args["y"].copy(), args["r"], args["c"], args["flag"]
    t = 2 * (x + 1)
    t[r : r + 8, c : c + 8] += 1
    t[r + 4 : r + 8, c : c + 8] += 2
    t[r : r + 4, 8:] *= 2
    y[:16] = t
    plain = t + (2 if flag else 0)
    y[16:32] = plain
    t = (t.view(np.int32) + 1).view(np.float32)
    chosen = t[r : r + 8, 8:] if flag else plain[:8, :8]
    chosen[:] = 0
    y[32:48] = t + plain
    return {"y": y}


def addresses(args: Arguments) -> Arrays:
    y, memory = args["y"].copy(), np.zeros(16384, np.uint8)

    def tile(at: int, rows: int, cols: int, dtype: str = "f4") -> Array:
        return memory[at:].view(dtype)[: rows * cols].reshape(rows, cols)

    tile(512, 4, 8)[:] = 1
    tile(0, 16, 8)[:] = args["x"]
    tile(64, 4, 8)[:] += 1
    tile(128, 16, 8)[:] *= 2
    tile(0, 8, 16)[:] += 2
    tile(0, 1, 8)[:] = args["x"][8:].sum(1) + 1
    tile(0, 1, 16, "f2")[:] = 0.5
    tile(64, 4, 8)[:] *= -1
    y[:16] = low = tile(0, 16, 8)
    tile(4096, 16, 8)[:] = low
    tile(8192, 16, 8)[:] = 2
    for i in range(args["n"]):
        tile(4096 if i % 2 else 8192, 16, 8)[:] += 1
    tile(args["at"], 4, 8)[:] *= 2
    y[16:32] = tile(4096, 16, 8) + tile(8192, 16, 8)
    return {"y": y}


CASES = (
    Case(
        "views",
        {"x": (256,), "y": (16, 16)},
        views,
        tuple({"r": r, "c": c, "pitch": p} for r, c, p in ((0, 0, 16), (3, 5, 14), (4, 2, 10))),
    ),
    Case(
        "regions",
        {"x": (16, 16), "y": (64, 16)},
        regions,
        tuple({"r": r, "c": c} for r, c in ((16, 16), (10, 13), (3, 1), (1, 9))),
        entry="regions",
    ),
    Case(
        "regions",
        {"a": (16, 16), "b": (16, 16), "p": (16, 16), "q": (16, 16)},
        product,
        tuple({"r": r, "k": k, "c": c} for r, k, c in ((16, 16, 16), (5, 3, 9))),
        entry="product",
        eager=False,
    ),
    Case(
        "memrefs",
        {"x": (16, 8), "flat": (128,), "y": (16, 8), "rows4": (64,)},
        vectors,
        ({"n": 0, "flag": True}, {"n": 30, "flag": False}),
        entry="vectors",
    ),
    Case(
        "memrefs",
        {"there": (64,), "from": (64,), "back": (64,), "work": (512, "i8")},
        lambda args: {"there": args["from"], "back": args["from"]},
        entry="asynchronous",
    ),
    Case(
        "memrefs",
        {"a": (16, 16, "f16"), "b": (16, 16, "f16"), "z": (16, 16)},
        matrices,
        entry="matrices",
        eager=False,
    ),
    Case(
        "aliases",
        {"x": (16, 16), "y": (48, 16)},
        aliases,
        ({"r": 0, "c": 0, "flag": True}, {"r": 3, "c": 7, "flag": False}),
    ),
    Case(
        "addresses",
        {"x": (16, 8), "y": (32, 8)},
        addresses,
        tuple({"n": n, "at": at} for n, at in ((0, 4096), (3, 8288), (4, 64))),
    ),
    Case("atomic", {"x": (4, 8), "y": (34,)}, atomic, ({"s": 0}, {"s": 3}, {"s": 8}), eager=False),
)
