"""Smaller shapes and valid regions, all tiles and windows of a program together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from ...generate.programs import Case
from ...generate.state import Input
from ...ir import PartitionViewType, TensorViewType, TileType, Type, Value
from .edits import entry_of, renamed, rewritten, with_entry
from .search import Search

#: A change of types; it gives the same type for equal types.
Change = Callable[[Type], Type]
_SIZES = (1, 2, 4, 8, 16, 32, 64)


def shrink_sizes(search: Search) -> None:
    """Small shapes, then small valid regions."""
    progress = True
    while progress:
        progress = any(search.first(_shapes(search, axes)) for axes in ("rc", "r", "c"))
    progress = True
    while progress:
        progress = any(search.first(_regions(search.case, axis)) for axis in (0, 1))


def settle_regions(search: Search) -> None:
    """Valid regions that are known before execution, and full ones, where the failure shows with them."""
    search.attempt(_static(search.case))
    search.attempt(_full(search.case))


def _tiles(case: Case) -> Iterator[TileType]:
    for op in case.program.walk():
        for v in (*op.ins, *op.outs, *op.results):
            if isinstance(v.type, TileType):
                yield v.type


def _changed(case: Case, change: Change, cut: Callable[[str, Input, Type], Input]) -> Case:
    """The case with other types, and inputs cut to them."""
    function = entry_of(case)
    names: dict[str, Value] = {a.name: replace(a, type=change(a.type)) for a in function.args}
    for op in function.walk():
        names |= {r.name: replace(r, type=change(r.type)) for r in op.results}
        names |= {a.name: replace(a, type=change(a.type)) for r in op.regions for a in r.args}
    args = tuple(names[a.name] for a in function.args)
    body = rewritten(function.body, lambda op: (renamed(op, names),))
    inputs = {n: cut(n, i, names[n].type) for n, i in case.inputs.items()}
    return replace(with_entry(case, replace(function, args=args, body=body)), inputs=inputs)


def _static(case: Case) -> Case:
    """Valid sizes of arguments in their types, where they all agree."""
    sizes: dict[TileType, tuple[int, int] | None] = {}
    for i in case.inputs.values():
        if isinstance(i.type, TileType) and i.valid is not None:
            sizes[i.type] = i.valid if sizes.get(i.type, i.valid) == i.valid else None

    def change(t: Type) -> Type:
        valid = sizes.get(t) if isinstance(t, TileType) else None
        return t.with_valid(*valid) if valid is not None and isinstance(t, TileType) else t

    return _changed(case, change, _retyped)


def _full(case: Case) -> Case:
    """Whole tiles valid, known before execution."""

    def change(t: Type) -> Type:
        return t.with_valid(t.rows, t.cols) if isinstance(t, TileType) else t

    return _changed(case, change, _retyped)


def _retyped(name: str, i: Input, t: Type) -> Input:
    if not isinstance(t, TileType):
        return i
    return Input(t, i.words, None if t.is_static else i.valid)


def _shapes(search: Search, axes: str) -> Iterator[Case]:
    """The case with one size of rows, columns or both replaced by a smaller one, in all types."""
    case = search.case
    sizes = {n for t in _tiles(case) for n in _of(t, axes)}
    for old in sorted(sizes, reverse=True):
        for new in (*(n for n in _SIZES if n < old), *((old // 2,) if old > 2 * _SIZES[-1] else ())):
            for at in _places(search, old, new):
                yield _reshaped(case, axes, {old: new}, at)


def _of(t: TileType, axes: str) -> tuple[int, ...]:
    return t.shape if axes == "rc" else (t.rows,) if axes == "r" else (t.cols,)


def _places(search: Search, old: int, new: int) -> Iterator[tuple[int, int]]:
    """Where a smaller part may begin: at the origin, or so that it has the first element that differs."""
    yield (0, 0)
    first = search.best.outcome.first
    if first is None:
        return
    shape = search.best.wanted.outputs[first.operand].words.shape if search.best.wanted is not None else ()
    if len(shape) < 2:
        return
    row, col = (int(n) for n in np.unravel_index(first.index, shape)[-2:])
    place = (row // new * new, col // new * new)
    if place != (0, 0):
        yield place


def _reshaped(case: Case, axes: str, sizes: Mapping[int, int], at: tuple[int, int]) -> Case:
    def one(n: int | None, axis: str) -> int | None:
        return sizes.get(n, n) if n is not None and axis in axes else n

    def change(t: Type) -> Type:
        if isinstance(t, TileType) and t.conv is None:
            rows, cols = one(t.rows, "r") or 0, one(t.cols, "c") or 0
            v_row = t.v_row if t.v_row is None else min(t.v_row, rows)
            v_col = t.v_col if t.v_col is None else min(t.v_col, cols)
            return replace(t, rows=rows, cols=cols, v_row=v_row, v_col=v_col)
        if isinstance(t, PartitionViewType | TensorViewType) and len(t.dims) >= 2:
            return replace(t, dims=(*t.dims[:-2], one(t.dims[-2], "r"), one(t.dims[-1], "c")))
        return t

    def cut(name: str, i: Input, t: Type) -> Input:
        if t == i.type or not isinstance(t, TileType | PartitionViewType | TensorViewType):
            return i
        dims = t.shape if isinstance(t, TileType) else tuple(n or 0 for n in t.dims)
        start = [min(s, old - new) for s, old, new in zip(at, i.words.shape[-2:], dims[-2:], strict=True)]
        rows, cols = (slice(s, s + n) for s, n in zip(start, dims[-2:], strict=True))
        words = np.ascontiguousarray(i.words[..., rows, cols])
        valid = i.valid and (
            min(max(i.valid[0] - start[0], 0), dims[-2]),
            min(max(i.valid[1] - start[1], 0), dims[-1]),
        )
        return Input(t, words, valid)

    return _changed(case, change, cut)


def _regions(case: Case, axis: int) -> Iterator[Case]:
    """The case with one valid size replaced by a smaller one."""
    static = {t.valid[axis] for t in _tiles(case)}
    dynamic = {i.valid[axis] for i in case.inputs.values() if i.valid is not None}
    for old in sorted((n for n in static | dynamic if n is not None), reverse=True):
        for new in (n for n in (1, 2, 4, 8, old // 2, old - 1) if 0 < n < old):
            yield _cropped(case, axis, old, new)


def _cropped(case: Case, axis: int, old: int, new: int) -> Case:
    def smaller(valid: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
        rows, cols = valid
        return (new if rows == old else rows, cols) if axis == 0 else (rows, new if cols == old else cols)

    def change(t: Type) -> Type:
        return t.with_valid(*smaller(t.valid)) if isinstance(t, TileType) and t.conv is None else t

    def cut(name: str, i: Input, t: Type) -> Input:
        if i.valid is None:
            return _retyped(name, i, t)
        rows, cols = smaller(i.valid)
        return Input(i.type, i.words, (rows or 0, cols or 0))

    return _changed(case, change, cut)
