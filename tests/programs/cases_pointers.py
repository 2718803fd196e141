"""Addresses as numbers, pointers to elements of other sizes and into tiles, and a hash table."""

import numpy as np

from tests.programs.cases import Arguments, Array, Arrays, Case

#: Where the first buffer begins, and how far the next one is.
BUFFER = 1 << 40


def numbers(args: Arguments) -> Arrays:
    x, h, y, a = (args[name].copy() for name in "xhya")
    n = args["n"]
    a[0] = BUFFER + 8 * n
    y[0] = x.view(np.uint32)[2 * n + 1]
    if args["flag"]:
        y[n : n + 2] = y[0]
    else:
        x.view(np.uint32)[2 * n : 2 * n + 2] = y[0]
    h.view(np.uint8)[5] = y[:1].view(np.uint8)[3]
    x[3] = h.view(np.uint64)[1]
    return {"x": x, "h": h, "y": y, "a": a}


def tiles(args: Arguments) -> Arrays:
    t, z, n = args["x"].copy(), args["z"].copy(), args["n"]
    t.reshape(-1)[n] = 7
    z[:2] = t.reshape(-1).view(np.int16)[2 * n + 2 : 2 * n + 4]
    return {"y": t + 7, "z": z}


def hashed(key: int) -> int:
    word = 1 << 32
    key = (key ^ key >> 16) * 0x7FEB352D % word
    key = (key ^ key >> 15) * 0x846CA68B % word
    return key ^ key >> 16


def looked_up(args: Arguments) -> Arrays:
    keys, values = (args[name].reshape(-1) for name in ("keys", "values"))
    out = args["out"].copy()
    for at, query in enumerate(args["queries"][: out.shape[0]].reshape(-1)):
        found = -1
        for probe in range(64):
            slot = (hashed(int(query) % (1 << 32)) + probe) % keys.size
            if keys[slot] == query:
                found = values[slot]
            if keys[slot] in (query, -(2**31)):
                break
        out.reshape(-1)[at] = found
    return {"out": out}


#: A key that no search reaches, and one whose search ends at the first of its two slots.
UNREACHED, TWICE = 1000, 2


def table(keys: Array) -> Array:
    """A hash table of 128 slots with 41 keys, small and large ones of both signs.

    A further one stands behind the empty slot at which its search ends, and one stands there twice.
    """
    slots = np.full(128, -(2**31), np.int32)
    for key in [*range(-7, 20), *(k * 77777777 for k in range(-7, 7))]:
        at = hashed(key % (1 << 32))
        while slots[at % 128] not in (-(2**31), key):
            at += 1
        slots[at % 128] = key
    for key in (UNREACHED, TWICE):
        at = hashed(key) % 128 + 1
        assert slots[at] == -(2**31) and slots[at - 1] in (-(2**31), TWICE)
        slots[at] = key
    return slots.reshape(keys.shape)


def queries(given: Array) -> Array:
    expected = [UNREACHED, TWICE, *range(-7, 22), *(k * 77777777 for k in range(-7, 7)), -(2**31)]
    return np.resize(np.array(expected, np.int32), given.shape)


CASES = (
    Case(
        "pointers",
        {"x": (4, "u64"), "h": (8, "u16"), "y": (4, "u32"), "a": (1, "i64")},
        numbers,
        ({"n": 0, "flag": True}, {"n": 2, "flag": True}, {"n": 1, "flag": False}),
        entry="numbers",
        values={"x": lambda x: x * np.uint64(0x0102030405060708), "h": lambda h: h * np.uint16(257)},
    ),
    Case(
        "pointers",
        {"x": (4, 8, "i32"), "y": (4, 8, "i32"), "z": (2, "i16")},
        tiles,
        ({"n": 0}, {"n": 30}),
        entry="tiles",
        values={"x": lambda x: x * np.int32(70001)},
    ),
    Case(
        "hash_table",
        {"keys": (2, 64, "i32"), "values": (128, "i32"), "queries": (6, 9, "i32"), "out": (5, 9, "i32")},
        looked_up,
        ({"n": 5},),
        values={"keys": table, "queries": queries},
    ),
)
