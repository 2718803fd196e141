"""Control flow: loops, branches, what they hand on."""

import numpy as np

from tests.programs.cases import Arguments, Array, Arrays, Case


def loops(args: Arguments) -> Arrays:
    x, n, m = args["x"], args["n"], args["m"]
    total = np.zeros((4, 8), np.float32)
    for i in range(n):
        band = x[4 * i : 4 * i + 4]
        total += m * band + (10 * band if m else 0)
        if i < 2:
            total += (2 if args["flag"] else 1) * (x[i + 1] + x[i + 3])
        else:
            total[:i, :m] += 100
            total *= x[4 * i + 3] if i == m else 1
    if args["flag"]:
        first = x[:4] * 2**m
        total -= (first + x[4:8] if m < n else -first) + 10
    return {"y": total + 100}


def carried(args: Arguments) -> Arrays:
    x, z, y, n, flag = args["x"], args["z"], args["y"].copy(), args["n"], args["flag"]
    one, other = x[:4], z[:4]
    for _ in range(n):
        one, other = one + other, one
    y[:4], y[4:8] = one, -other if n % 2 else other

    many = n > 2
    some = x if many else z
    first, second = (some, x) if flag else (z, some)
    first, second = (first, second) if many else (second, first)
    y[8:12] = first[8:12] + 2 * second[12:16]

    a, b = (x[:4] + 1, z[:4]) if flag else (x[:4], z[:4] + 1)
    difference = 2 * x[:4] - z[:4] if many else x[:4] - 2 * z[:4]
    y[12:16] = a + b + difference + 2

    w, going = 1, True
    while w < 4 and going:
        if w * w >= 2 * n:
            b, going = 2 * (b + 1), False
        else:
            b, w = 2 * (b + 2), w + 1
    y[16:20] = b - x[w] if going else b + x[w]

    added, row = {1: (1, 8), 3: (0, 12)}.get(n, (2, 4))
    y[20:24] = a = 2 * (x[:4] + added) + z[row : row + 4]

    windows = [x[:4], *(x[back : back + 4] for back in (24, 20, 16, 12))]
    y[24:28] = (windows[n - 1] if n else a) + windows[n]
    y[28:32] = windows[n] if many or not flag else y[28:32]
    return {"y": y}


def calls(args: Arguments) -> Arrays:
    x, y, n = args["x"], args["y"].copy(), args["n"]
    t = x[: 4 * n].reshape(n, 4, 8).sum(0) * (3 if args["flag"] else 1)
    u = x[4 * n : 4 * n + 4]
    y[:4], y[4:8] = t, u
    y[8:12] = 2
    y[8:10] += t[:2] + u[:2] if args["flag"] else 0
    return {"y": y}


def named_rows(args: Arguments) -> list[int]:
    rows: list[int] = args["rows"].tolist()
    return rows[: next(i for i, row in enumerate(rows) if row < 0)]


def row_list(args: Arguments) -> Arrays:
    x, rows, named = args["x"], args["rows"].copy(), named_rows(args)
    rows[3], rows[7] = sum(range(*rows[4:7])), len(named)
    total, line = x[named].sum(0), x[named[-1]].copy()
    top = total[:3].max()
    line[int(total[3]) % 8] = top
    return {"y": np.stack([total, line if top > 0 else -line]), "rows": rows}


def row_list_text(args: Arguments) -> str:
    line, top = row_list(args)["y"][1], row_list(args)["y"][0, :3].max()
    counted = f"rows = {len(named_rows(args))}\n"
    return counted + ("TPRINT 1x8\n" + " ".join(f"{n:8.4f}" for n in line) if top > 0 else "")


def trips_text(args: Arguments) -> str:
    rows = [" ".join(f"{n:8d}" for n in row) for row in args["x"][: args["n"]]]
    trips = "".join(f"trip {i}\nTPRINT 1x8\n{row}\n" for i, row in enumerate(rows))
    return trips + 3 * ("TPRINT 1x16\n" + " ".join(["0.25"] * 16) + "\n") + "half 0.50"


def rounding(args: Arguments) -> Arrays:
    x, w = args["x"], args["w"]
    fraction, exponent = np.frexp(x)
    scaled = fraction * 2.0**12
    even = np.ldexp(np.rint(scaled) / 2**12, exponent).astype(np.float32)
    away = np.sign(x) * np.ldexp(np.floor(abs(scaled) + 0.5) / 2**12, exponent).astype(np.float32)
    return {"y": np.concatenate([x @ w, even @ w, away @ w, x @ w])}


def near_one(whole: Array) -> Array:
    """Numbers with 11 and 12 bits behind the point, of both signs."""
    return np.where(whole % 3, 1, -1).astype(np.float32) + whole / 4096


#: Row numbers up to a negative one; from the fifth on the bounds and the step of a loop.
LISTS = ((2, 5, 2, -1, -3, 8, 1, 0), (7, 0, 3, -1, 2, 2, 1, 0), (1, -1, 6, 4, 0, 7, 3, 0))

CASES = (
    Case(
        "loops",
        {"x": (32, 8), "y": (4, 8)},
        loops,
        tuple({"n": n, "m": m, "flag": f} for n, m, f in ((4, 2, True), (3, 3, False), (0, 1, True))),
    ),
    Case(
        "carried",
        {"x": (32, 8), "z": (32, 8), "y": (32, 8)},
        carried,
        tuple({"n": n, "flag": f} for n, f in ((0, True), (1, False), (3, True), (4, False))),
    ),
    Case(
        "calls",
        {"x": (32, 8), "y": (16, 8)},
        calls,
        tuple({"n": n, "flag": f} for n, f in ((3, True), (0, True), (7, False))),
    ),
    Case(
        "scalars",
        {"x": (8, 8), "y": (2, 8)},
        row_list,
        tuple({"rows": np.array(rows, np.int32)} for rows in LISTS),
        entry="list",
        printed=row_list_text,
    ),
    Case(
        "scalars",
        {"x": (4, 8, "i32")},
        lambda args: {},
        ({"n": 3},),
        entry="printing",
        printed=trips_text,
    ),
    Case(
        "scalars",
        {"x": (16, 16), "w": (16, 16), "y": (64, 16)},
        rounding,
        entry="rounding",
        eager=False,
        values={"x": near_one, "w": lambda w: np.roll(2 * np.eye(16, dtype=np.float32), 3, 0)},
    ),
)
