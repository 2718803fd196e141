"""What the language of August 2026 added: windows of tiles, multi tiles, arrays, structures, blocks."""

import numpy as np

from tests.programs.cases import Arguments, Arrays, Case


def subviews(args: Arguments) -> Arrays:
    t, r, c, n = args["x"].copy(), args["r"], args["c"], args["n"]
    t[r : r + n] += 1
    t[r : r + 2] *= 2
    part = t[r : r + 8, c : c + 8]
    part *= 2
    part[4:6] += 1
    t[8, :8] += n + 16
    t[:n, 8:] += 1
    return {"y": t}


def boxes(args: Arguments) -> Arrays:
    r, c = args["r"], args["c"]
    return {"p": args["a"][r : r + 16, c : c + 16] @ args["b"][16:, c : c + 16]}


def turns(args: Arguments) -> Arrays:
    added = [sum(i % 3 == k for i in range(args["n"])) for k in range(3)]
    slots = [args["x"] + n for n in added]
    return {"y": np.concatenate([2 * slots[0], *slots[1:]])}


def placed(args: Arguments) -> Arrays:
    y, at = args["x"].copy(), 4 * args["k"]
    y[at : at + args["n"]] += 1
    return {"y": y}


def sums(args: Arguments) -> Arrays:
    x, y, n = args["x"], args["y"].copy(), args["n"]
    for i in range(2):
        for j in range(4):
            y[4 * i + j] = sum(int(v) for k, v in enumerate(x[:n]) if k % 4 == j and (v < 0) == bool(i))
    y[8:11] = 0.5 * (n + 1), 7, 5e9 * (2 if args["flag"] else 1)
    return {"y": y}


def events(args: Arguments) -> Arrays:
    return {"y": np.array([3.0 + i if i < args["n"] else 0.0 for i in range(4)], np.float32)}


def sides(args: Arguments) -> Arrays:
    y, v = args["y"].copy(), int(args["x"][args["n"]])
    if args["flag"]:
        y[int(v < 0)] = 2 * abs(v)
    y[2] = v // 2 if v > 2 else v
    return {"y": y}


def loop(args: Arguments) -> Arrays:
    y = args["y"].copy()
    y[:4] = 2 * args["x"][:4]
    return {"y": y}


def fused(args: Arguments) -> Arrays:
    return {"y": 2 * (args["x"] + 1)}


def positions(args: Arguments) -> Arrays:
    x, first = args["x"].copy().reshape(-1), 16 * args["r"] + 8
    x[first + args["k"]] *= 2
    return {"y": x[first + args["i"]]}


CASES = (
    Case(
        "subviews",
        {"x": (16, 16), "y": (16, 16)},
        subviews,
        ({"r": 0, "c": 0, "n": 4}, {"r": 3, "c": 7, "n": 1}, {"r": 8, "c": 8, "n": 0}),
        entry="subviews",
    ),
    Case(
        "subviews",
        {"a": (32, 32), "b": (32, 32), "p": (16, 16)},
        boxes,
        ({"r": 0, "c": 0}, {"r": 16, "c": 8}, {"r": 16, "c": 16}),
        entry="boxes",
    ),
    Case("multi_tiles", {"x": (4, 8), "y": (12, 8)}, turns, ({"n": 0}, {"n": 5}, {"n": 7}), entry="turns"),
    Case(
        "multi_tiles",
        {"x": (8, 8), "y": (8, 8)},
        placed,
        ({"n": 4, "k": 0}, {"n": 3, "k": 1}),
        entry="placed",
    ),
    Case(
        "local_storage",
        {"x": (16, "i32"), "y": (11,)},
        sums,
        ({"n": 0, "flag": False}, {"n": 11, "flag": True}, {"n": 16, "flag": False}),
        entry="sums",
        eager=False,
    ),
    Case("local_storage", {"y": (4,)}, events, ({"n": 1}, {"n": 4}), entry="events", eager=False),
    Case(
        "blocks",
        {"x": (4, "i32"), "y": (4, "i32")},
        sides,
        tuple({"n": n, "flag": flag} for n, flag in ((0, True), (1, True), (2, False))),
        entry="sides",
        values={"x": lambda x: np.array([-3, 4, 1, 0], x.dtype)},
    ),
    Case("blocks", {"x": (4, "i32"), "y": (6, "i32")}, loop, entry="loop"),
    Case("fusion", {"x": (4, 8), "y": (4, 8)}, fused),
    Case(
        "subviews",
        {"x": (4, 16), "i": (1, 8, "i32"), "y": (1, 8)},
        positions,
        ({"r": 0, "k": 0}, {"r": 1, "k": 17}),
        entry="positions",
        values={"i": lambda i: np.array([[0, 17, 7, 16, 23, 1, 2, 18]], i.dtype)},
    ),
)
