"""Traced programs executed by NumPy, operation by operation: nothing is compiled.

A random program is executed once, so compiling it would take nearly all of a campaign's time. Operations
that NumPy has with the same results are NumPy's, the others JAX's own, one at a time. Where platforms have
code of their own, NumPy executes that of any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray

from .bits import x64
from .primitives import ClosedJaxpr, Literal, by_jax, scanned

# -- traces, step by step ----------------------------------------------------------------------------


#: Executes one equation on the values of its operands.
Step: TypeAlias = Callable[[Any, list[Any]], list[Any]]


class TooLongError(Exception):
    """A trace takes more steps than NumPy is to execute, or one that only JAX has."""


@dataclass
class Interpreter:
    """Executes traces: control flow itself, other primitives by a table of steps or else by JAX.

    ``array`` makes the arrays that values are kept as. ``others`` executes what the table does not have;
    ``left`` is how many equations may still be executed.
    """

    array: Callable[[Any], Any]
    steps: Mapping[str, Step]
    others: Step = by_jax
    left: float = math.inf

    def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """What a function of a tree of arrays gives, traced as a whole."""
        with np.errstate(all="ignore"):
            traced, shape = jax.make_jaxpr(function, return_shape=True)(argument)
            flat = self.evaluate(traced, map(self.array, jax.tree.leaves(argument)))
        return jax.tree.unflatten(jax.tree.structure(shape), flat)

    def evaluate(self, traced: ClosedJaxpr, arguments: Iterable[Any]) -> list[Any]:
        """The results of a trace."""
        jaxpr = traced.jaxpr
        self.left -= len(jaxpr.eqns)
        if self.left < 0:
            raise TooLongError
        environment: dict[Any, Any] = dict(zip(jaxpr.constvars, map(self.array, traced.consts), strict=True))
        environment.update(zip(jaxpr.invars, arguments, strict=True))

        def read(v: Any) -> Any:
            return self.array(v.val) if isinstance(v, Literal) else environment[v]

        for eqn in jaxpr.eqns:
            results = self._step(eqn.primitive.name)(eqn, [read(v) for v in eqn.invars])
            environment.update(zip(eqn.outvars, map(self.array, results), strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _step(self, name: str) -> Step:
        match name:
            case "cond":
                return self._cond
            case "while":
                return self._while
            case "scan":
                return self._scan
        return self.steps.get(name, self.others)

    def _cond(self, eqn: Any, values: list[Any]) -> list[Any]:
        branches = eqn.params["branches"]
        return self.evaluate(branches[min(max(int(values[0]), 0), len(branches) - 1)], values[1:])

    def _while(self, eqn: Any, values: list[Any]) -> list[Any]:
        p = eqn.params
        n, m = p["cond_nconsts"], p["body_nconsts"]
        fixed, own, carried = values[:n], values[n : n + m], values[n + m :]
        while (goes_on := np.asarray(self.evaluate(p["cond_jaxpr"], [*fixed, *carried])[0])).any():
            new = self.evaluate(p["body_jaxpr"], [*own, *carried])
            # Of a batch those whose condition is false keep what they carry.
            carried = new if goes_on.all() else [*map(partial(_kept, goes_on), new, carried)]
        return carried

    def _scan(self, eqn: Any, values: list[Any]) -> list[Any]:
        p = eqn.params
        n, m, body = scanned(p)
        length = p["length"]
        fixed, carried, rows = values[:n], values[n : n + m], values[n + m :]
        outputs: list[Any] = [None] * length
        for i in reversed(range(length)) if p["reverse"] else range(length):
            results = self.evaluate(body, [*fixed, *carried, *(x[i] for x in rows)])
            carried, outputs[i] = results[:m], results[m:]
        stacked = [
            np.stack([np.asarray(row[k]) for row in outputs])
            if length
            else np.zeros(v.aval.shape, v.aval.dtype)
            for k, v in enumerate(eqn.outvars[m:])
        ]
        return [*carried, *stacked]


def _kept(goes_on: Any, new: Any, old: Any) -> Any:
    """The new value where the flags of a batch, the first axes, are true."""
    shape = goes_on.shape + (1,) * (np.ndim(new) - goes_on.ndim)
    return np.where(goes_on.reshape(shape), new, old)


Values: TypeAlias = "list[NDArray[Any]]"


class _Kernel(Exception):
    """A device's own kernel, which NumPy cannot execute."""


def _kernel(eqn: Any, values: Values) -> Values:
    raise _Kernel


@lru_cache(maxsize=4096)
def traced(code: Callable[..., Any], types: tuple[tuple[tuple[int, ...], Any], ...]) -> ClosedJaxpr:
    """The trace of code for arrays of some shapes and types."""
    # The context in which the types of its results were computed, so that JAX need not trace again.
    with x64(), jax.sharding.use_abstract_mesh(jax.sharding.get_abstract_mesh()):
        return jax.make_jaxpr(code)(*(jax.ShapeDtypeStruct(*t) for t in types))  # type: ignore[no-untyped-call]


@cache
def by_numpy(platform: str) -> Interpreter:
    """What executes traces with the code of a platform, by JAX's names."""
    return _interpreter(platform)


def soon(traced: ClosedJaxpr, arguments: Iterable[Any], limit: int) -> list[Any]:
    """The results of a trace that takes ``limit`` equations at most; TooLongError for others."""

    def others(eqn: Any, values: Values) -> Values:
        raise TooLongError

    with np.errstate(all="ignore"):
        return _interpreter("cpu", others, limit).evaluate(traced, map(np.asarray, arguments))


def _interpreter(platform: str, others: Step = by_jax, left: float = math.inf) -> Interpreter:
    def inner(name: str) -> Step:
        return lambda eqn, values: interpreter.evaluate(eqn.params[name], values)

    def chosen(eqn: Any, values: Values) -> Values:
        choice, types = eqn.params["choice"], tuple((v.shape, v.dtype) for v in values)
        try:
            return interpreter.evaluate(traced(choice.code(platform), types), values)
        except _Kernel:
            return interpreter.evaluate(traced(choice.primary, types), values)

    def index(eqn: Any, values: Values) -> Values:
        ways = [way is None or platform in way for way in eqn.params["platforms"]]
        return [np.asarray(ways.index(True), np.int32)]

    own = {
        "jit": inner("jaxpr"),
        "pjit": inner("jaxpr"),
        "custom_jvp_call": inner("call_jaxpr"),
        "custom_vmap_call": inner("call"),
        "pto_platform": chosen,
        "pallas_call": _kernel,
        "platform_index": index,
    }
    interpreter = Interpreter(np.asarray, {**_STEPS, **own}, others, left)
    return interpreter


# -- operations on elements --------------------------------------------------------------------------


def _lanes(function: Callable[..., Any]) -> Step:
    return lambda eqn, values: [np.asarray(function(*values))]


def _convert(eqn: Any, values: Values) -> Values:
    (x,), target = values, np.dtype(eqn.params["new_dtype"])
    if x.dtype.kind == "f" and target.kind in "iu":
        # XLA clamps and takes NaN as zero, C leaves both undefined.
        limits = np.iinfo(target)
        inside = (x > float(limits.min)) & (x < float(limits.max))
        whole = np.where(inside, x, 0).astype(target)
        whole = np.where(x >= float(limits.max), limits.max, whole)
        return [np.where(x <= float(limits.min), limits.min, whole).astype(target)]
    return [x != 0 if target.kind == "b" else x.astype(target)]


def _bitcast(eqn: Any, values: Values) -> Values:
    (x,), target = values, np.dtype(eqn.params["new_dtype"])
    if x.dtype.itemsize == target.itemsize:
        return [x.view(target)]
    shape = (*x.shape, -1) if x.dtype.itemsize > target.itemsize else x.shape[:-1]
    return [np.frombuffer(x.tobytes(), target).reshape(shape)] if x.size else by_jax(eqn, values)


def _shift_left(x: NDArray[Any], by: NDArray[Any]) -> Any:
    legal = _legal(x, by)
    return np.where(legal, np.left_shift(x, np.where(legal, by, 0)), x.dtype.type(0))


def _shift_logical(x: NDArray[Any], by: NDArray[Any]) -> Any:
    legal, bits = _legal(x, by), np.dtype(f"u{x.dtype.itemsize}")
    shifted = np.asarray(np.right_shift(x.view(bits), np.where(legal, by, 0).astype(bits))).view(x.dtype)
    return np.where(legal, shifted, x.dtype.type(0))


def _shift_arithmetic(x: NDArray[Any], by: NDArray[Any]) -> Any:
    legal, bits = _legal(x, by), np.dtype(f"i{x.dtype.itemsize}")
    count = np.where(legal, by, x.dtype.itemsize * 8 - 1).astype(bits)
    return np.asarray(np.right_shift(x.view(bits), count)).view(x.dtype)


def _legal(x: NDArray[Any], by: NDArray[Any]) -> Any:
    return (by >= 0) & (by < x.dtype.itemsize * 8)


def _rem(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y).astype(y.dtype)))


def _div(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind == "f":
        return np.divide(x, y)
    safe = np.where(y == 0, 1, y).astype(y.dtype)
    return np.where(y == 0, ~np.zeros_like(x), (x - np.fmod(x, safe)) // safe)


def _round(eqn: Any, values: Values) -> Values:
    to_even = eqn.params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN
    return [np.asarray(np.rint(values[0]))] if to_even else by_jax(eqn, values)


def _sign(eqn: Any, values: Values) -> Values:
    return by_jax(eqn, values) if values[0].dtype.kind == "f" else [np.asarray(np.sign(values[0]))]


def _select(which: NDArray[Any], *cases: NDArray[Any]) -> Any:
    if which.dtype.kind == "b":
        return np.where(which, cases[1], cases[0])
    return np.choose(which, cases)


# -- shapes ------------------------------------------------------------------------------------------


def _iota(eqn: Any, values: Values) -> Values:
    p = eqn.params
    line = np.arange(p["shape"][p["dimension"]]).astype(p["dtype"])
    spread = [-1 if i == p["dimension"] else 1 for i in range(len(p["shape"]))]
    return [np.broadcast_to(line.reshape(spread), p["shape"])]


def _broadcast(eqn: Any, values: Values) -> Values:
    p, (x,) = eqn.params, values[:1]
    shape = [1] * len(p["shape"])
    for axis, size in zip(p["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return [np.broadcast_to(x.reshape(shape), p["shape"])]


def _slice(eqn: Any, values: Values) -> Values:
    p = eqn.params
    steps = p["strides"] or (1,) * values[0].ndim
    bounds = zip(p["start_indices"], p["limit_indices"], steps, strict=True)
    return [values[0][tuple(slice(*b) for b in bounds)]]


def _window(whole: NDArray[Any], shape: tuple[int, ...], starts: Values) -> tuple[slice, ...]:
    at = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, whole.shape, shape, strict=True)]
    return tuple(slice(s, s + m) for s, m in zip(at, shape, strict=True))


def _dynamic_slice(eqn: Any, values: Values) -> Values:
    return [values[0][_window(values[0], eqn.params["slice_sizes"], values[1:])]]


def _dynamic_update(eqn: Any, values: Values) -> Values:
    whole = values[0].copy()
    whole[_window(whole, values[1].shape, values[2:])] = values[1]
    return [whole]


def _places(
    whole: NDArray[Any], starts: NDArray[Any], axes: Sequence[int], sizes: Sequence[int], clips: bool
) -> tuple[list[Any], Any]:
    """Index arrays [*batch, *sizes] of windows of an array, and which windows [*batch] lie inside."""
    batch, rank, inside = starts.shape[:-1], whole.ndim, np.ones(starts.shape[:-1], np.bool_)
    index: list[Any] = []
    for axis, size in enumerate(sizes):
        first: Any = np.zeros(batch, np.int64)
        if axis in axes:
            first, last = starts[..., axes.index(axis)].astype(np.int64), whole.shape[axis] - size
            inside = inside if clips else inside & (first >= 0) & (first <= last)
            first = np.clip(first, 0, max(last, 0))
        line = np.arange(size).reshape([size if i == axis else 1 for i in range(rank)])
        index.append(first.reshape(*batch, *[1] * rank) + line)
    return index, inside


def _gather(eqn: Any, values: Values) -> Values:
    p, (whole, starts) = eqn.params, values
    d, clips = p["dimension_numbers"], "CLIP" in str(p["mode"])
    if d.operand_batching_dims or not whole.size:
        return by_jax(eqn, values)
    index, inside = _places(whole, starts, d.start_index_map, p["slice_sizes"], clips)
    batch = starts.ndim - 1
    if p["fill_value"] is None and not inside.all():
        return by_jax(eqn, values)
    slices = whole[tuple(index)]
    if not inside.all():
        slices = np.where(inside.reshape(*inside.shape, *[1] * whole.ndim), slices, p["fill_value"])
    slices = slices.squeeze(tuple(batch + i for i in d.collapsed_slice_dims)).astype(whole.dtype)
    return [np.moveaxis(slices, range(batch, slices.ndim), d.offset_dims)]


def _scatter(update: Callable[[NDArray[Any], tuple[Any, ...], Any], None]) -> Step:
    def step(eqn: Any, values: Values) -> Values:
        p, (whole, starts, new) = eqn.params, values
        d, clips = p["dimension_numbers"], "CLIP" in str(p["mode"])
        if d.operand_batching_dims or not whole.size or not new.size:
            return by_jax(eqn, values)
        windows = iter([new.shape[i] for i in d.update_window_dims])
        sizes = [1 if i in d.inserted_window_dims else next(windows) for i in range(whole.ndim)]
        index, inside = _places(whole, starts, d.scatter_dims_to_operand_dims, sizes, clips)
        batch = starts.ndim - 1
        new = np.moveaxis(new, d.update_window_dims, range(batch, new.ndim)).reshape(*inside.shape, *sizes)
        at = tuple(np.broadcast_to(i, new.shape)[inside] for i in index)
        result = whole.copy()
        update(result, at, new[inside])
        return [result]

    return step


def _put(whole: NDArray[Any], at: tuple[Any, ...], new: Any) -> None:
    whole[at] = new


def _pad(eqn: Any, values: Values) -> Values:
    widths = eqn.params["padding_config"]
    if any(low < 0 or high < 0 or between for low, high, between in widths):
        return by_jax(eqn, values)
    return [np.pad(values[0], [(low, high) for low, high, _ in widths], constant_values=values[1])]


def _reduce(function: Callable[..., Any]) -> Step:
    def step(eqn: Any, values: Values) -> Values:
        x, axes = values[0], tuple(eqn.params["axes"])
        if x.dtype.kind == "f" or 0 in x.shape:
            return by_jax(eqn, values)
        return [np.asarray(function(x, axis=axes)).astype(x.dtype)]

    return step


def _same(eqn: Any, values: Values) -> Values:
    return values


def _argmax(eqn: Any, values: Values) -> Values:
    (x,), p = values, eqn.params
    if x.dtype.kind == "f" or not x.size:
        return by_jax(eqn, values)
    return [np.argmax(x, axis=p["axes"][0]).astype(p["index_dtype"])]


_STEPS: dict[str, Step] = {
    "device_put": _same,
    "stop_gradient": _same,
    "argmax": _argmax,
    "convert_element_type": _convert,
    "bitcast_convert_type": _bitcast,
    "and": _lanes(np.bitwise_and),
    "or": _lanes(np.bitwise_or),
    "xor": _lanes(np.bitwise_xor),
    "not": _lanes(np.invert),
    "shift_left": _lanes(_shift_left),
    "shift_right_logical": _lanes(_shift_logical),
    "shift_right_arithmetic": _lanes(_shift_arithmetic),
    "add": _lanes(np.add),
    "sub": _lanes(np.subtract),
    "mul": _lanes(np.multiply),
    "div": _lanes(_div),
    "rem": _lanes(_rem),
    "neg": _lanes(np.negative),
    "abs": _lanes(np.abs),
    "min": _lanes(np.minimum),
    "max": _lanes(np.maximum),
    "clamp": _lanes(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "floor": _lanes(np.floor),
    "ceil": _lanes(np.ceil),
    "sqrt": _lanes(np.sqrt),
    "round": _round,
    "sign": _sign,
    "eq": _lanes(np.equal),
    "ne": _lanes(np.not_equal),
    "lt": _lanes(np.less),
    "le": _lanes(np.less_equal),
    "gt": _lanes(np.greater),
    "ge": _lanes(np.greater_equal),
    "select_n": _lanes(_select),
    "iota": _iota,
    "broadcast_in_dim": _broadcast,
    "reshape": lambda eqn, values: [values[0].reshape(eqn.params["new_sizes"])],
    "squeeze": lambda eqn, values: [values[0].squeeze(eqn.params["dimensions"])],
    "transpose": lambda eqn, values: [values[0].transpose(eqn.params["permutation"])],
    "concatenate": lambda eqn, values: [np.concatenate(values, eqn.params["dimension"])],
    "pure_callback": by_jax,
    "stack": lambda eqn, values: [np.stack(values, eqn.params["axis"])],
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "gather": _gather,
    "scatter": _scatter(_put),
    "scatter-add": _scatter(np.add.at),
    "scatter-max": _scatter(np.maximum.at),
    "pad": _pad,
    "reduce_or": _reduce(np.bitwise_or.reduce),
    "reduce_and": _reduce(np.bitwise_and.reduce),
    "reduce_max": _reduce(np.max),
    "reduce_min": _reduce(np.min),
    "reduce_sum": _reduce(np.sum),
}
