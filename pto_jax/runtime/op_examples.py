"""A call of each function of :mod:`pto_jax.ops` on small tiles, as Python source that can be executed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from itertools import product

from .. import errors, isa
from ..ir import INDEX, DType, Pipe, ScalarType, TileType, Type, attrs
from ..isa.samples.operations import Sample, legal_samples
from ..profiles import PROFILES, Profile
from .op_types import (
    ArrayType,
    DestinationType,
    NumberType,
    Request,
    SourceType,
    python_name,
    resolve,
    spelled,
)

#: Element types, the best known one first, of instructions on numbers and on bits.
_NUMBERS, _BITS = ("f32", "f16", "i32"), ("i32", "i16", "i8")
_BITWISE = frozenset(("and", "or", "xor", "not", "shl", "shr"))
#: Sizes of tiles in examples, and how many combinations of them are tried.
_SIZES, _COMBINATIONS = (1, 2, 4, 8, 16, 32, 64), 400
#: Elements of the first and of other sources, of conversions, and of tables in memory.
_FIRST, _OTHER = (1, -2, 0.5, 4, 3, -0.25, 8, 7), (2, 3, 0.5, 0.25, 3, 5, -4, 7)
_WHOLE, _OTHER_WHOLE = (1, 2, 3, 4, 5, 6, 7, 100), (3, 1, 2, 4, 4, 0, 7, 9)
_CONVERTED, _POSITIONS = (1e6, -1e6, 1.5, 2.5, "np.nan", 0.1, 300, -0.0), (3, 0, 2, 1)
#: Bytes of a mask: every second element; the scale 1.0 as a word of parameters.
_MASK, _SCALE = 0b01010101, 0x3F800000
#: Arrays of all elements, by a name: small factors, no two equal neighbours, and counted from 1.
_PRODUCTS, _MIXED, _LATER = ("products",), ("mixed",), ("later",)
_COUNTED = {
    "products": "(np.arange({}) % 5)",
    "mixed": "(np.arange({}) * 7 % 16)",
    "later": "(np.arange({}) + 1)",
}


@dataclass(frozen=True)
class Call:
    """A call as Python source: the sources that are assigned before it, by name, and the expression."""

    sources: tuple[tuple[str, str], ...]
    expression: str
    results: int = 1

    @property
    def statements(self) -> tuple[str, ...]:
        """The assignments, and a line that prints the results."""
        printed = {0: "{}", 1: "print({})"}.get(self.results, 'print(*{}, sep="\\n")')
        return *(f"{name} = {value}" for name, value in self.sources), printed.format(self.expression)


@cache
def example(instruction: isa.Instruction, *, small: bool = True) -> Call | None:
    """A legal call, on the first profile that has one; None where :func:`pto_jax.tile` makes no such tile.

    The search for small tiles takes up to 0.2 s; without it the sizes are those of the samples.

    >>> print(*example(isa.instructions()["tadds"]).statements, sep="; ")
    src = np.float32([[1, -2, 0.5, 4, 3, -0.25, 8, 7]]); print(pto.ops.tadds(src, 0.5))
    """
    for profile in (PROFILES["a2a3"], PROFILES["a5"], PROFILES["cpu_sim"]):
        for sample in sorted(map(_partial, legal_samples(instruction, profile)), key=_rank):
            call = _call(sample, profile)
            if call is not None and small:
                return next((smaller for s in _smaller(sample) if (smaller := _call(s, profile))), call)
            if call is not None:
                return call
    return None


def _rank(sample: Sample) -> tuple[object, ...]:
    """The order in which samples are tried: few operands, conversions, small tiles, known types."""
    bits = any(f.operation in _BITWISE for f in sample.instruction.formulas)
    names = _BITS if bits else _NUMBERS
    tiles = {n: t for n, t in sample.types.items() if isinstance(t, TileType)}
    d = next((tiles[n].dtype.name for n in sample.form if n in tiles), "")
    rank = names.index(d) if d in names else len(names)
    same = len({t.dtype for t in tiles.values()}) == 1
    first = (same, rank) if sample.instruction.converts else (False, 0)
    lacking = any(sample.instruction.operand(n).lacking != (0, 0) for n in tiles)
    partial = not lacking and sum(not t.is_full for t in tiles.values())
    areas = [t.rows * t.cols for t in tiles.values()]
    return len(sample.form), first, partial, min(areas, default=0), rank, sum(areas)


def _partial(sample: Sample) -> Sample:
    """The sample with the valid regions that its operands have in examples."""
    types = dict(sample.types)
    for name, t in types.items():
        rows, cols = sample.instruction.operand(name).lacking
        if isinstance(t, TileType) and (rows or cols) and t.cols > cols:
            types[name] = t.with_valid(t.rows - rows, t.cols - cols)
    return replace(sample, types=types)


def _smaller(sample: Sample) -> Iterator[Sample]:
    """The sample with its sizes replaced by smaller ones, the smallest first.

    Equal rows stay equal, and equal columns do; where lanes move, the larger ones stay larger.
    """
    tiles = [t for t in sample.types.values() if isinstance(t, TileType)]
    least = 1 if sample.instruction.lanes == "same" else 2
    axes = [sorted({t.shape[axis] for t in tiles}) for axis in (0, 1)]
    choices = [[n] if n == 1 else [s for s in _SIZES if least <= s <= n] for n in (*axes[0], *axes[1])]
    cut = len(axes[0])

    def cost(sizes: tuple[int, ...]) -> tuple[object, ...]:
        rows, cols = dict(zip(axes[0], sizes, strict=False)), dict(zip(axes[1], sizes[cut:], strict=True))
        parts = (sizes[:cut], sizes[cut:])
        ordered = least == 1 or all(part == tuple(sorted(set(part))) for part in parts)
        return not ordered, sum(rows[t.rows] * cols[t.cols] for t in tiles), sizes

    for sizes in sorted(product(*choices), key=cost)[:_COMBINATIONS]:
        rows, cols = dict(zip(axes[0], sizes, strict=False)), dict(zip(axes[1], sizes[cut:], strict=True))
        yield replace(sample, types={k: _resized(t, rows, cols) for k, t in sample.types.items()})


def _resized(t: Type, rows: dict[int, int], cols: dict[int, int]) -> Type:
    """A tile of other sizes; of its valid region as many rows and columns are left out, or one is kept."""
    if not isinstance(t, TileType) or t.v_row is None or t.v_col is None:
        return t
    new_rows, new_cols = rows[t.rows], cols[t.cols]
    region = []
    for size, valid, new in ((t.rows, t.v_row, new_rows), (t.cols, t.v_col, new_cols)):
        region.append(max(1, new - (size - valid) if size - valid < 4 else valid * new // size))
    return replace(t, rows=new_rows, cols=new_cols, v_row=region[0], v_col=region[1])


def _call(sample: Sample, profile: Profile) -> Call | None:
    """A sample as a call with the least that its destinations need; None where it is no call."""
    instruction = sample.instruction
    types = {n: _open(sample.types[n]) for n in sample.form}
    if not all(
        isinstance(t, ScalarType) or (isinstance(t, TileType) and t.conv is None) for t in types.values()
    ):
        return None
    names = [o.name for o in instruction.destinations_of(sample.form) if o.name in sample.types]
    for destinations, text in _destinations(instruction, {n: sample.types[n] for n in names}):
        request = Request(
            instruction.name,
            sample.form,
            tuple(map(_source, types.values())),
            tuple(zip(names, destinations, strict=True)),
            attrs(sample.attrs),
            profile,
        )
        try:
            legal = not resolve(request).errors
        except (errors.ArgumentError, errors.VerifyError):
            continue
        if legal:
            options = [f"dst={text}"] if text else []
            options += [f"{k}={_word(v)}" for k, v in sample.attrs.items() if _is_said(instruction, k, v)]
            options += [f'profile="{profile.name}"'] if profile.name != "a2a3" else []
            return _written(sample, types, options, len(names))
    return None


def _open(t: Type) -> Type:
    """A plain tile of which a part is valid as :func:`pto_jax.tile` makes it: with its sizes as data."""
    if not isinstance(t, TileType) or t.is_full or t != TileType(t.dtype, *t.shape, *t.valid):
        return t
    return t.with_valid(None, None)


def _written(sample: Sample, types: dict[str, Type], options: list[str], results: int) -> Call:
    instruction = sample.instruction
    numbers = [n for n in types if instruction.operand(n).holds == "numbers"]
    texts = {n: _value(sample, n, t, numbers.index(n) if n in numbers else 0) for n, t in types.items()}
    sources = tuple((n, text) for n, text in texts.items() if isinstance(types[n], TileType))
    arguments = [n if isinstance(types[n], TileType) else text for n, text in texts.items()]
    return Call(sources, f"pto.ops.{python_name(instruction)}({', '.join([*arguments, *options])})", results)


def _is_array(t: TileType) -> bool:
    """Whether an array of NumPy stands for a tile of this type."""
    return t.is_full and not (t.dtype.is_float and t.dtype.numpy == t.dtype.word)


def _spelled(t: TileType) -> str:
    return spelled(t).replace("'", '"')


def _source(t: Type) -> SourceType:
    if not isinstance(t, TileType):
        return NumberType(None)
    return ArrayType(t.dtype, t.rows, t.cols) if _is_array(t) else t


# -- numbers -------------------------------------------------------------------------------------------


def _value(sample: Sample, name: str, t: Type, index: int) -> str:
    """An expression for a source of a type."""
    instruction = sample.instruction
    if isinstance(t, ScalarType):
        start = sample.constants.get(name) if instruction.operand(name).kind == "index" else None
        shown = instruction.operand(name).shown or start
        return f"{shown[0]:g}" if shown else "0" if t.dtype == INDEX else "2" if t.dtype.is_integer else "0.5"
    assert isinstance(t, TileType)
    raw = t.dtype.is_float and t.dtype.numpy == t.dtype.word
    numbers = (0,) if raw else _numbers(instruction, name, t.dtype, index)
    array = _array(t, numbers, t.dtype.numpy.name)
    if _is_array(t):
        return array
    if None in t.valid:
        region = sample.types[name]
        assert isinstance(region, TileType)
        return f"pto.tile({array}, valid={region.valid})"
    return f"pto.tile({array}, type={_spelled(t)})"


def _numbers(instruction: isa.Instruction, name: str, d: DType, index: int) -> tuple[object, ...]:
    """The first elements of a source, which repeat; none for those that count upwards."""
    operand = instruction.operand(name)
    by_kind = {"mask": (_MASK,), "positions": _POSITIONS, "parameters": (_SCALE,)}
    if operand.shown or operand.holds in by_kind:
        return operand.shown or by_kind[operand.holds]
    if instruction.pipe == Pipe.M or any(o.holds == "parameters" for o in instruction.operands):
        return _PRODUCTS
    if instruction.lanes != "same":
        return () if instruction.moves else _LATER if index else _MIXED if instruction.lanes == "line" else ()
    if instruction.converts and d.is_float and d.bits > 8:
        return _CONVERTED
    whole = d.is_integer or d.bits <= 8
    numbers = (_OTHER_WHOLE if index else _WHOLE) if whole else (_OTHER if index else _FIRST)
    ranges = instruction.accuracy.ranges
    positive = name in instruction.positive or (index < len(ranges) and not ranges[index].signed)
    divisor = name in instruction.divisor
    return tuple(n or 8 if divisor else abs(n) if positive else n for n in numbers)


def _array(t: TileType, numbers: tuple[object, ...], element: str) -> str:
    """An array of the shape of a tile; without numbers its elements count from 0."""
    if not numbers or numbers[0] in _COUNTED:
        count = _COUNTED[str(numbers[0])] if numbers else "np.arange({})"
        return f'{count.format(t.rows * t.cols)}.reshape({t.rows}, {t.cols}).astype("{element}")'
    if len(numbers) == 1:
        return f'np.full(({t.rows}, {t.cols}), {numbers[0]}, "{element}")'
    texts = [n if isinstance(n, str) else repr(n) if str(n) == "-0.0" else f"{n:g}" for n in numbers]
    row = f"[{', '.join(texts[: t.cols])}]" + (f" * {t.cols // len(texts)}" if t.cols > len(texts) else "")
    rows = f"[{row}]" + (f" * {t.rows}" if t.rows > 1 else "")
    return f"np.float32({rows})" if element == "float32" else f'np.array({rows}, "{element}")'


# -- destinations and attributes -----------------------------------------------------------------------


def _destinations(
    instruction: isa.Instruction, types: dict[str, Type]
) -> Iterator[tuple[list[DestinationType], str]]:
    """What a call may give for its destinations, the shortest first, with its expression."""
    tiles = {n: t for n, t in types.items() if isinstance(t, TileType)}
    read = any(instruction.operand(n).role == "inout" for n in types)
    if not read:
        yield [None] * len(types), ""
    if tiles and len(tiles) == len(types):
        arrays = [_array(t, (1,), t.dtype.numpy.name) for t in tiles.values()]
        if read:
            yield [ArrayType(t.dtype, t.rows, t.cols) for t in tiles.values()], _several(arrays)
        yield [t.dtype for t in tiles.values()], _several([f'"{t.dtype.name}"' for t in tiles.values()])
        yield [*tiles.values()], _several([_spelled(t) for t in tiles.values()])
        yield [ArrayType(t.dtype, t.rows, t.cols) for t in tiles.values()], _several(arrays)


def _several(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _is_said(instruction: isa.Instruction, key: str, value: object) -> bool:
    attribute = instruction.attribute(key)
    return attribute is not None and value is not None and value != attribute.default


def _word(value: object) -> str:
    return f'"{value.name}"' if isinstance(value, IntEnum) else repr(value)
