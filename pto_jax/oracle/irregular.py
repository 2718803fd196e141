"""NumPy rules of irregular instructions: sequences, histograms, gathers, scatters, partial tiles."""

from collections.abc import Callable, Mapping

import numpy as np

from ..ir import F32, CmpMode, DType, GatherAxis, MaskPattern, PrintFormat, ScatterAxis
from ..isa.irregular import counted_byte
from ..isa.rules.irregular import period
from . import arithmetic, convert, storage
from .numbers import Array, decode, encode
from .step import Lane, Step, compare, rule


@rule("tci")
def _tci(step: Step) -> None:
    """Row 0 only, whatever the valid rows of the destination."""
    d, cols = step.dtype(), step.region[1]
    start = decode(step.words("start"), d)
    count = np.arange(cols).reshape(1, cols)
    number = decode(encode(count.astype(np.float64), d), d) if d.is_float else count.astype(start.dtype)
    step.store(encode(start - number if step.attrs["descending"] else start + number, d), region=(1, cols))


@rule("ttri")
def _ttri(step: Step) -> None:
    d, (rows, cols) = step.dtype(), step.region
    diagonal = int(step.operands["diagonal"])
    i, j = np.ogrid[:rows, :cols]
    ones = j - i >= diagonal if step.attrs["upperOrLower"] else j - i <= diagonal
    step.put(encode(ones.astype(np.float64), d) if d.is_float else ones.astype(d.word))


# -- random numbers ----------------------------------------------------------------------------------

_LANES = 64
_CHUNK = 4 * _LANES
_WORD = (1 << 32) - 1


def philox(counter: int, key: tuple[int, int], rounds: int) -> tuple[int, int, int, int]:
    """The four words of a block of the Philox-4x32 generator.

    >>> [hex(word) for word in philox(0, (0, 0), 10)]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    a, b, c, d = ((counter >> (32 * n)) & _WORD for n in range(4))
    k0, k1 = key
    for _ in range(rounds):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (second >> 32) ^ b ^ k0, second & _WORD, (first >> 32) ^ d ^ k1, first & _WORD
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return a, b, c, d


@rule("trandom")
def _trandom(step: Step) -> None:
    rounds = step.attrs["rounds"]
    assert isinstance(rounds, int)
    key = (_word(step, "key0"), _word(step, "key1"))
    counter = sum(_word(step, f"counter{n}") << (32 * n) for n in range(4))
    (rows, cols), simulator = step.region, step.policy.simulator
    out = np.zeros((rows, cols), np.uint32)
    for row in range(rows):
        for base in range(0, cols, _CHUNK):
            for lane in range(_LANES):
                block = philox((counter + lane) % (1 << 128), key, rounds)
                for q, word in enumerate(block):
                    column = base + (_LANES * q + lane if simulator else 4 * lane + q)
                    if column < cols:
                        out[row, column] = word
            last = base + _CHUNK >= cols
            counter += step.type().cols // 4 if simulator else (cols - 1) % _LANES + 1 if last else _LANES
    step.put(out)


def _word(step: Step, name: str) -> int:
    return int(step.operands[name]) & _WORD


# -- histograms --------------------------------------------------------------------------------------

_BINS = 256


@rule("thistogram")
def _thistogram(step: Step) -> None:
    """Running counts of a byte, over the elements whose higher bytes equal the filter."""
    source, region = step.dtype("src"), step.valid("src")
    words = step.raw("src", region)
    byte = counted_byte(source.bits, step.attrs)
    passes = np.ones(words.shape, bool)
    for above in range(byte + 1, source.bits // 8):
        passes &= _byte(words, above) == _filter(step, above, source, region[0])
    counted = _byte(words, byte)
    counts = np.zeros((region[0], _BINS), np.uint32)
    for row in range(region[0]):
        counts[row] = np.cumsum(np.bincount(counted[row][passes[row]], minlength=_BINS))
    rows, cols = min(region[0], step.type().rows), min(_BINS, step.type().cols)
    step.put(counts[:rows, :cols], region=(rows, cols))


def _byte(words: Array, n: int) -> Array:
    return np.asarray((words >> words.dtype.type(8 * n)) & words.dtype.type(255), np.int64)


def _filter(step: Step, byte: int, source: DType, rows: int) -> Array:
    """The filter of a byte: one per row for 16-bit sources, one for all rows for 32-bit ones."""
    at = np.arange(rows)[:, None] if source.bits == 16 else np.array([[3 - byte]])
    return step.gather("idx", at, np.zeros((1, 1), np.int64)).astype(np.int64)


# -- printing ----------------------------------------------------------------------------------------

_FIELDS = {
    PrintFormat.WIDTH8_PRECISION4: (8, 4),
    PrintFormat.WIDTH8_PRECISION2: (8, 2),
    PrintFormat.WIDTH10_PRECISION6: (10, 6),
}


@rule("tprint")
def _tprint(step: Step) -> None:
    style, d, region = step.attrs["format"], step.dtype("src"), step.valid("src")
    assert isinstance(style, PrintFormat)
    values = decode(step.raw("src", region), d)
    lines = [" ".join(printed(v, d, style) for v in row) for row in values.tolist()]
    print("\n".join([f"TPRINT {region[0]}x{region[1]}", *lines]))


def printed(value: float, d: DType, style: PrintFormat) -> str:
    """One element as it is printed.

    >>> printed(1.5, F32, PrintFormat.WIDTH8_PRECISION2)
    '    1.50'
    """
    width, digits = _FIELDS[style]
    if d.is_integer:
        return f"{value:{width}d}"
    return f"{value:{width}.{digits}f}" if d == F32 else f"{value:g}"


@rule("tgather")
def _tgather(step: Step) -> None:
    if "indices" in step.operands:
        _by_index(step)
    elif "kValue" in step.operands:
        _matches(step)
    else:
        _by_pattern(step)


def _by_index(step: Step) -> None:
    """The flat index is logical, row by row over the physical source; out of range gives zero."""
    source = step.stored("src").reshape(-1)
    index = decode(step.raw("indices"), step.dtype("indices")).astype(np.int64)
    inside = (index >= 0) & (index < source.size)
    elements = source[np.where(inside, index, 0)]
    step.put(np.where(inside, elements, np.zeros_like(elements)))


def chosen(step: Step, count: int) -> Array:
    """Which of the first ``count`` positions the pattern takes."""
    pattern = step.attrs["maskPattern"]
    assert isinstance(pattern, MaskPattern)
    n, k = period(pattern)
    return np.asarray(np.arange(count) % n == k)


def _by_pattern(step: Step) -> None:
    t, (rows, cols) = step.type(), step.valid("src")
    words = step.raw("src", (rows, cols))
    if step.attrs["axis"] == GatherAxis.GATHER_ROW:
        packed = words[:, chosen(step, cols)].reshape(-1)[: t.elements]
        step.scatter(packed, np.arange(len(packed)))
    else:
        picked = words[chosen(step, rows)][: t.rows, : t.cols]
        step.put(picked, region=picked.shape)


def _matches(step: Step) -> None:
    """Numbers of the elements of each row that compare true, and how many they are."""
    t, source, mode = step.type(), step.type("src"), step.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    offset = step.attrs["offset"]
    assert isinstance(offset, int)
    values = step.values("src", step.valid("src"))
    hits = compare(mode, values, step.values("kValue"))
    for row, hits_of_row in enumerate(hits):
        columns = np.flatnonzero(hits_of_row)
        if "cdst" in step.operands and row < step.type("cdst").elements:
            step.scatter(np.array([len(columns)], np.uint32), np.array([row]), "cdst")
        if row < t.rows:
            numbers = (offset + row * source.cols + columns[: t.cols]).astype(np.uint32)
            step.scatter(numbers, storage.map_of(t)[row, : len(numbers)])


BLOCK_BYTES = 32


@rule("tgatherb")
def _tgatherb(step: Step) -> None:
    """Whole blocks; hardware also writes the valid part of a last short one.

    The offsets, which may be in dst's place, are read before anything is written.
    """
    t, (rows, cols) = step.type(), step.region
    source = step.stored("src").reshape(-1).view(np.uint8)
    width = t.dtype.word.itemsize
    per_block = BLOCK_BYTES // width
    blocks = cols // per_block if step.policy.simulator else -(-cols // per_block)
    offsets = step.gather("offset", *np.ogrid[:rows, :blocks])
    for row in range(rows):
        for block in range(blocks):
            offset = int(offsets[row, block])
            if offset + BLOCK_BYTES > source.size:
                continue
            first = block * per_block
            count = min(per_block, cols - first)
            words = source[offset : offset + count * width].copy().view(t.dtype.word)
            step.scatter(words, storage.map_of(t)[row, first : first + count])


@rule("tscatter")
def _tscatter(step: Step) -> None:
    if "indexes" in step.operands:
        _by_offset(step)
    elif step.attrs["maskPattern"] == MaskPattern.P1111:
        step.put(step.raw("src"))
    elif step.attrs["axis"] == ScatterAxis.SCATTER_ROW:
        _over_columns(step)
    else:
        _over_rows(step)


def _clear(step: Step) -> None:
    """Hardware clears all of dst; sources, which may be in the same place, have been read before."""
    if not step.policy.simulator:
        everything = np.arange(step.type().elements)
        step.scatter(np.zeros(everything.shape, step.dtype().word), everything)


def _put(step: Step, words: Array) -> None:
    _clear(step)
    step.put(words)


def _by_offset(step: Step) -> None:
    """One element after the other, so that the last one stays."""
    region, size = step.valid("indexes"), step.type().elements
    offsets = decode(step.raw("indexes", region), step.dtype("indexes")).reshape(-1)
    words = step.raw("src", region).reshape(-1)
    _clear(step)
    for offset, word in zip(offsets.tolist(), words, strict=True):
        if 0 <= offset < size:
            step.scatter(np.array([word]), np.array([offset]))


def _over_columns(step: Step) -> None:
    (rows, cols), source = step.region, step.type("src")
    picked = chosen(step, cols)
    order = np.cumsum(picked) - 1
    i = np.arange(rows)[:, None]
    if step.policy.simulator:
        flat = i * int(picked.sum()) + order
        at = flat // source.cols, flat % source.cols
    else:
        at = i, np.broadcast_to(order, (rows, cols))
    _put(
        step, _where(picked[None, :] & _there(step, *at), step.gather("src", *(np.maximum(x, 0) for x in at)))
    )


def _over_rows(step: Step) -> None:
    rows, cols = step.region
    picked = chosen(step, rows)
    order = np.maximum(np.cumsum(picked) - 1, 0)
    at = order[:, None], np.arange(cols)[None, :]
    _put(step, _where(picked[:, None] & _there(step, *at), step.gather("src", *at)))


def _there(step: Step, rows: Array, columns: Array) -> Array:
    """Elements that hardware has in src; what it has not stays cleared."""
    if step.policy.simulator:
        return np.ones((1, 1), bool)
    v_row, v_col = step.valid("src")
    return np.asarray((rows < v_row) & (columns < v_col))


def _where(picked: Array, words: Array) -> Array:
    return np.where(picked, words, np.zeros_like(words))


def _inside(step: Step, name: str) -> Array:
    """Which lanes of the destination's region a source has."""
    rows, cols = step.valid(name)
    i, j = np.ogrid[tuple(map(slice, step.region))]
    return np.asarray((i < rows) & (j < cols))


def choose(step: Step, names: tuple[str, str], both: Array, neither: int = 0) -> Array:
    """``both`` where both value sources are valid, the valid one's bits elsewhere, else ``neither``."""
    in0, in1 = _inside(step, "src0"), _inside(step, "src1")
    a, b = (step.raw(n) for n in names)
    return np.where(in0 & in1, both, np.where(in0, a, np.where(in1, b, a.dtype.type(neither))))


def _loser(step: Step, sign: int) -> int:
    """On a5 the bits of the finite number farthest in one direction, elsewhere 0."""
    if step.policy.profile.name != "a5":
        return 0
    return convert.extreme(step.dtype(), largest=sign > 0)


def _partial(name: str, lane: Lane, loser: int = 0) -> None:
    """``loser`` is the sign of the number that never wins, 0 where lanes of neither source are zero."""

    @rule(name)
    def execute(step: Step) -> None:
        both = lane(step.dtype(), step.words("src0"), step.words("src1"))
        neither = _loser(step, loser) if loser else 0
        step.put(choose(step, ("src0", "src1"), step.flushed(both, "dst"), neither))


_partial("tpartadd", arithmetic.add)
_partial("tpartmul", arithmetic.multiply)
_partial("tpartmax", arithmetic.larger, -1)
_partial("tpartmin", arithmetic.smaller, 1)


#: Whether src0 wins, by instruction and profile: of NaN every comparison is false.
FIRST_WINS: Mapping[str, Mapping[str, Callable[[Array, Array], Array]]] = {
    "tpartargmax": {
        "cpu_sim": np.greater,
        "a2a3": np.greater_equal,
        "a5": lambda a, b: ~np.less(a, b),
    },
    "tpartargmin": {
        "cpu_sim": np.less,
        "a2a3": np.less_equal,
        "a5": lambda a, b: ~np.greater(a, b),
    },
}


def _partial_arg(name: str) -> None:
    @rule(name)
    def execute(step: Step) -> None:
        d = step.dtype()
        wins = FIRST_WINS[name][step.policy.profile.name]
        first = wins(decode(step.words("src0"), d), decode(step.words("src1"), d))
        places = {}
        for suffix in ("", "Idx"):
            names = (f"src0{suffix}", f"src1{suffix}")
            both = np.where(first, step.raw(names[0]), step.raw(names[1]))
            places[f"dst{suffix}"] = choose(step, names, both)
        # Every source is read before a result is written, which may be one of them.
        rows, cols = step.region
        for target, words in places.items():
            step.scatter(words, storage.map_of(step.type(target))[:rows, :cols], target)


_partial_arg("tpartargmax")
_partial_arg("tpartargmin")
