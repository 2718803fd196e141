"""Sequences, triangles, random numbers, histograms; printing."""

import numpy as np

from ..ir import F32, DType, PrintFormat
from ..isa.irregular import counted_byte
from .numbers import Array, decode, encode
from .step import Step, rule


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
