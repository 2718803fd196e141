"""Products, vector instructions, blocks, and cores that meet in pipes and flags."""

import numpy as np

from tests.programs.cases import Arguments, Array, Arrays, Case


def bands(args: Arguments) -> Arrays:
    return {"c": args["a"] @ args["b"] + (args["bias"] if args["flag"] else 0)}


def windows(args: Arguments) -> Arrays:
    a, b = args["a"].astype(np.float32), args["b"].astype(np.float32)
    return {"p": a[16:, :16] @ b[:16, 16:] @ b[:16, :16].T, "q": args["a"][16:, 16:]}


def stores(args: Arguments) -> Arrays:
    positive = np.maximum(args["a"].astype(np.int32) @ args["b"].astype(np.int32), 0)
    return {
        "n": args["n"] + (0.5 * positive).astype(np.float16),
        "m": args["m"] + (2 if args["flag"] else 1) * positive,
    }


def lanes(args: Arguments) -> Arrays:
    x, z, s = args["x"], args["z"], np.float32(args["s"])
    tops, sums = x.max(1, keepdims=True), x.sum(1, keepdims=True)
    filled = np.maximum(x, 0)
    filled[:, 5:] = 0
    rows = (
        x * z - np.maximum(x, z) + np.clip(x, 2, 3) + x + z + s,
        1 / z + abs(z) + 1 / abs(z) - z / 2 + s * z,
        (x - 2 * tops) * sums / z.max(1, keepdims=True),
        filled * x[2],
    )
    return {"y": np.concatenate(rows), "e": np.exp(x)}


def types(args: Arguments) -> Arrays:
    x, factors, i = args["x"], args["f"][:, :1], args["i"].copy()
    i[:4] = np.sign(x) * np.floor(abs(x) + 0.5)
    i[4] = 7 + np.arange(32)
    return {
        "i": i,
        "q": np.clip(np.rint(x * factors), -128, 127).astype(np.int8),
        "r": np.clip(np.rint(x * factors + x[:, :1]), 0, 255).astype(np.uint8),
        "w": np.concatenate([x, x], axis=1).astype(np.float16),
    }


def halves(args: Arguments) -> Arrays:
    x, w = args["x"].reshape(2, 16, 16), args["w"]
    return {"y": np.concatenate([(i + 1) * (band @ w) + i for band in x for i in range(3)])}


def there_and_back(args: Arguments) -> Arrays:
    y, r, c = args["y"].copy(), args["r"], args["c"]
    y[:r, :c] = ((args["x"] + 1) @ args["w"])[:r, :c]
    return {"y": y}


def first_row(args: Arguments) -> str:
    """What a tile of one row with 8 columns prints."""
    valid = there_and_back(args)["y"][0, : min(args["c"], 8)]
    return f"TPRINT 1x{valid.size}\n" + " ".join(f"{n:8.4f}" for n in valid) + "\n"


def square(args: Arguments) -> Arrays:
    return {"y": args["x"] @ args["x"]}


def sections(args: Arguments) -> Arrays:
    product = args["x"] @ args["x"]
    return {"y": np.concatenate([product, -product])}


def corners(args: Arguments) -> Arrays:
    return {"y": args["x"] @ args["w"]}


def rows(args: Arguments) -> Arrays:
    return {"y": -args["x"]}


def power(exponents: Array) -> Array:
    """Powers of two of both signs."""
    return (np.where(exponents % 2, -1, 1) * 2.0**exponents).astype(np.float32)


def half(whole: Array) -> Array:
    return whole / 2


CASES = (
    Case(
        "matrices",
        {"a": (48, 48), "b": (48, 16), "bias": (1, 16), "c": (48, 16)},
        bands,
        ({"flag": True}, {"flag": False}),
        entry="bands",
        eager=False,
        grid=3,
    ),
    Case(
        "matrices",
        {"a": (32, 32, "f16"), "b": (32, 32, "f16"), "p": (16, 16), "q": (16, 16, "f16")},
        windows,
        entry="windows",
        eager=False,
    ),
    Case(
        "synchronised",
        {"a": (16, 32, "i8"), "b": (32, 32, "i8"), "n": (16, 32, "f16"), "m": (16, 32, "i32")},
        stores,
        ({"flag": True}, {"flag": False}),
        eager=False,
    ),
    Case(
        "instructions",
        {"x": (4, 8), "z": (4, 8), "y": (16, 8), "e": (4, 8)},
        lanes,
        ({"s": 1.5},),
        entry="lanes",
        values={"z": power},
        relative={"e": 1e-6},
        eager=False,
    ),
    Case(
        "instructions",
        {
            "x": (4, 32),
            "f": (4, 32),
            "i": (8, 32, "i32"),
            "q": (4, 32, "i8"),
            "r": (4, 32, "u8"),
            "w": (4, 64, "f16"),
        },
        types,
        entry="types",
        eager=False,
        values={"x": half, "f": half},
    ),
    Case("pipes", {"x": (32, 16), "w": (16, 16), "y": (96, 16)}, halves, entry="halves", grid=2),
    Case(
        "pipes",
        {"x": (16, 16), "w": (16, 16), "y": (16, 16)},
        there_and_back,
        tuple({"r": r, "c": c} for r, c in ((16, 16), (9, 5))),
        entry="there_and_back",
        printed=first_row,
    ),
    Case("pipes", {"x": (16, 16), "y": (16, 16)}, square, ({"at": 0},), entry="ring"),
    Case("pipes", {"x": (16, 16), "y": (32, 16)}, sections, entry="sections"),
    Case(
        "slots",
        {"x": (16, 16), "w": (16, 16), "slots": (4096,), "y": (16, 16)},
        corners,
        entry="corners",
    ),
    Case("slots", {"x": (48, 16), "y": (48, 16)}, rows, entry="rows", grid=3),
)
