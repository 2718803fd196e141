"""NumPy rules of reductions, positions of extremes, and expansions with arithmetic."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from ..ir import DType
from . import arithmetic as lane, quantise, storage
from .numbers import Array, decode, encode
from .step import Lane, Step, other_rule, rule

Along = Literal["row", "col"]


def lines(step: Step, along: Along) -> Array:
    """Words of the source's valid region, one reduced line per row of the result."""
    words = step.words("src", step.valid("src"))
    return words if along == "row" else words.T


def write_lines(step: Step, along: Along, words: Array, name: str = "dst") -> None:
    """Store one word per line: in column 0 for rows, in row 0 for columns.

    Lines that the destination has no place for are dropped.
    """
    positions = storage.map_of(step.type(name))
    places = positions[:, 0] if along == "row" else positions[0, :]
    count = min(len(words), len(places))
    step.scatter(words[:count], places[:count], name)


def first_lanes(step: Step, along: Along) -> Array:
    """The first lane of every line, also where no lane of it is valid."""
    rows, cols = step.valid("src")
    if along == "row":
        return step.gather("src", np.arange(rows), np.zeros(rows, np.int64))
    return step.gather("src", np.zeros(cols, np.int64), np.arange(cols))


def is_empty(step: Step) -> bool:
    """Whether the valid region of src has no lanes."""
    return 0 in step.valid("src")


def _rounded(x: Array, d: DType) -> Array:
    return decode(encode(x, d), d)


def _fold(
    values: Array, start: int, combine: Callable[[Array, Array], Array], accumulator: DType | None
) -> Array:
    """Left fold over each line; floats are rounded to the accumulator type at every step."""
    total = np.full(values.shape[0], start, values.dtype)
    for i in range(values.shape[1]):
        total = combine(total, values[:, i])
        if accumulator is not None:
            total = _rounded(total, accumulator)
    return total


def _accumulate(step: Step, along: Along, start: int, combine: Callable[[Array, Array], Array]) -> None:
    if is_empty(step) and not step.policy.simulator:
        return
    source, target = step.dtype("src"), step.dtype()
    values = decode(lines(step, along), source)
    if target.is_integer:
        total = _fold(values.astype(np.uint64 if target.name == "u64" else np.int64), start, combine, None)
    else:
        wide = start == 0 and along == "row"
        total = _fold(values, start, combine, None if wide else target)
    _store(step, along, encode(total, target))


def _store(step: Step, along: Along, words: Array) -> None:
    write_lines(step, along, step.flushed(words, "dst"))


rule("trowsum")(lambda step: _accumulate(step, "row", 0, lambda a, x: a + x))


@rule("tcolsum")
def _tcolsum(step: Step) -> None:
    if step.attrs["isBinary"] and not step.policy.simulator:
        _add_in_pairs(step)
    else:
        _accumulate(step, "col", 0, lambda a, x: a + x)


rule("trowprod")(lambda step: _accumulate(step, "row", 1, lambda a, x: a * x))

rule("tcolprod")(lambda step: _accumulate(step, "col", 1, lambda a, x: a * x))


def _add_in_pairs(step: Step) -> None:
    """Rows are halved until one is left; an odd last one goes to the first sum (A5: to the last one)."""
    if is_empty(step):
        return
    d = step.dtype()
    last = step.policy.profile.name == "a5"
    partial = list(decode(lines(step, "col").T, d))
    if len(partial) == 1 and last:
        partial = [partial[0] + np.zeros_like(partial[0])]
    while len(partial) > 1:
        sums = [_added(a, b, d) for a, b in zip(partial[::2], partial[1::2], strict=False)]
        if len(partial) % 2:
            at = len(sums) - 1 if last else 0
            sums[at] = _added(partial[-1], sums[at], d)
        partial = sums
    _store(step, "col", encode(partial[0], d))


def _added(a: Array, b: Array, d: DType) -> Array:
    return _rounded(a + b, d) if d.is_float else np.asarray(a + b)


def select(step: Step, along: Along, *, largest: bool) -> tuple[Array, Array]:
    """Words and positions of the first strict extreme of every line."""
    words = lines(step, along)
    values = decode(words, step.dtype("src"))
    best, at = values[:, 0], np.zeros(len(values), np.int64)
    for i in range(1, values.shape[1]):
        better = values[:, i] > best if largest else values[:, i] < best
        best, at = np.where(better, values[:, i], best), np.where(better, i, at)
    return words[np.arange(len(words)), at], at


def _extreme(step: Step, along: Along, *, largest: bool) -> None:
    source, target = step.dtype("src"), step.dtype()
    if not is_empty(step):
        words, _ = select(step, along, largest=largest)
    elif step.policy.simulator and largest:
        words = step.flushed(first_lanes(step, along), "src")
    else:
        return
    _store(step, along, quantise.cast_words(words, source, target))


rule("trowmax")(lambda step: _extreme(step, "row", largest=True))

rule("trowmin")(lambda step: _extreme(step, "row", largest=False))

rule("tcolmax")(lambda step: _extreme(step, "col", largest=True))

rule("tcolmin")(lambda step: _extreme(step, "col", largest=False))


@rule("tpairreducesum")
def _tpairreducesum(step: Step) -> None:
    """The simulator clears the whole tile first and adds 0 to a last column; hardware adds pairs."""
    d, values = step.dtype(), step.values("src")
    if step.policy.simulator:
        everything = storage.map_of(step.type())
        step.scatter(np.zeros(everything.shape, d.word), everything)
    even, odd = values[:, ::2], values[:, 1::2]
    partners = np.zeros_like(even)
    partners[:, : odd.shape[1]] = odd
    result = np.zeros(step.region, d.word)
    count = even.shape[1] if step.policy.simulator else odd.shape[1]
    result[:, :count] = encode(even + partners, d)[:, :count]
    step.store(result)


@rule("trowexpand")
def _trowexpand(step: Step) -> None:
    _expand(step, step.gather("src", np.arange(step.region[0])[:, None], np.zeros((1, 1), np.int64)))


@rule("tcolexpand")
def _tcolexpand(step: Step) -> None:
    _expand(step, step.gather("src", np.zeros((1, 1), np.int64), np.arange(step.region[1])[None, :]))


def _expand(step: Step, words: Array) -> None:
    step.put(quantise.cast_words(words, step.dtype("src"), step.dtype()))


def _exponential_of_difference(d: DType, a: Array, b: Array) -> Array:
    """The difference is rounded to the element type before the exponential."""
    return lane.precise(np.exp)(d, lane.subtract(d, a, b))


OPERATIONS: dict[str, Lane] = {
    "add": lane.add,
    "sub": lane.subtract,
    "mul": lane.multiply,
    "div": lane.divide,
    "max": lane.larger,
    "min": lane.smaller,
    "expdif": _exponential_of_difference,
}


def repeated(step: Step, name: str) -> Array:
    """Lane (r, c) of dst reads lane (r, c modulo the source's valid columns)."""
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    return step.flushed(step.gather(name, rows, cols % max(step.valid(name)[1], 1)), name)


def row_zero(step: Step, name: str) -> Array:
    """Words [1, cols] of the first row of an operand, over the destination's valid columns."""
    rows, cols = np.ogrid[:1, : step.region[1]]
    return step.flushed(step.gather(name, rows, cols), name)


def _by_rows(operation: str, compute: Lane) -> None:
    @rule(f"trowexpand{operation}")
    def execute(step: Step) -> None:
        step.store(compute(step.dtype(), repeated(step, "src0"), repeated(step, "src1")))


def _other_by_rows(operation: str, compute: Lane) -> None:
    @other_rule("column-zero", f"trowexpand{operation}")
    def execute(step: Step) -> None:
        """One scalar per row, whatever the layout of the expanded operand."""
        rows, cols = np.ogrid[tuple(map(slice, step.region))]
        words = step.flushed(step.gather("src1", rows, cols * 0), "src1")
        step.store(compute(step.dtype(), step.words("src0"), words))


def _by_columns(operation: str, compute: Lane) -> None:
    @rule(f"tcolexpand{operation}")
    def execute(step: Step) -> None:
        step.store(compute(step.dtype(), step.words("src0"), row_zero(step, "src1")))


for _name, _compute in OPERATIONS.items():
    _by_rows(_name, _compute)
    _other_by_rows(_name, _compute)
    _by_columns(_name, _compute)


def _positions(step: Step, along: Along, *, largest: bool) -> None:
    """The simulator takes the first lane of a line without valid lanes; hardware writes nothing."""
    if 0 not in step.valid("src"):
        words, at = select(step, along, largest=largest)
    elif step.policy.simulator:
        words = step.flushed(first_lanes(step, along), "src")
        at = np.zeros(len(words), np.int64)
    else:
        return
    if step.is_tile("dstVal"):
        write_lines(step, along, words, "dstVal")
    write_lines(step, along, encode(at, step.dtype()))


rule("trowargmax")(lambda step: _positions(step, "row", largest=True))

rule("trowargmin")(lambda step: _positions(step, "row", largest=False))

rule("tcolargmax")(lambda step: _positions(step, "col", largest=True))

rule("tcolargmin")(lambda step: _positions(step, "col", largest=False))
