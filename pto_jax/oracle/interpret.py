"""Entry points of the reference interpreter, on one processor and on several ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import api, grids, ir, profiles
from ..analysis import resolve
from ..analysis.entries import fragment_outputs, written_buffers
from ..errors import ArgumentError, ExecutionError, one_of
from ..interpreter import Operand, Pointer, TileRef, View, launch, memref_view
from ..interpreter.interleaving import Interleaving, Make
from ..interpreter.interpreter import Interpreter
from ..interpreter.operands import BLOCK_NUMBERS
from ..interpreter.rank_calls import RankCall, world_of
from ..interpreter.ranks import Watch, context, part
from ..ir import DType
from . import storage
from .machine import ReferenceMachine
from .numbers import Array
from .step import Policy


@dataclass(frozen=True, eq=False)
class OracleTile:
    """A tile with its contents: ``data`` is the whole physical tile as an array [rows, cols].

    It is of the element type or of its raw words; ``v_row`` and ``v_col`` default to the type's valid region.

    >>> import numpy as np, pto_jax as pto
    >>> OracleTile(pto.tile_type("f32", 2, 8), np.zeros((2, 8), np.float32), v_col=5).valid
    (2, 5)
    """

    type: ir.TileType
    data: Array
    v_row: int | None = None
    v_col: int | None = None

    @property
    def valid(self) -> tuple[int, int]:
        """Valid rows and columns: given ones before those of the type, else the whole tile's."""

        def size(dynamic: int | None, static: int | None, full: int) -> int:
            return dynamic if dynamic is not None else full if static is None else static

        t = self.type
        return size(self.v_row, t.v_row, t.rows), size(self.v_col, t.v_col, t.cols)


def run(  # noqa: PLR0913 - keywords
    program: ir.Program,
    buffers: Mapping[str, Any] | Sequence[Any] = (),
    *,
    profile: str | profiles.Profile | None = None,
    entry: str | None = None,
    out_of_region: profiles.OutOfRegion | None = None,
    subnormals: profiles.Subnormals = "keep",
    grid: int = 1,
    partial_launch: bool = False,
    max_steps: int = 1_000_000,
    machine: Callable[[Policy, Mapping[str, Array], int], ReferenceMachine] = ReferenceMachine,
) -> dict[str, Any]:
    """Execute a program; returns the global buffers it may write by argument name.

    ``buffers`` gives arguments by name or in order: arrays for pointers and views (4-bit types: one element
    in a byte, where kernels have two), numbers for scalars, :class:`OracleTile` for the tiles of a fragment
    (whose results come back as tiles). The profile is the one given, else the program's ``pto.target_arch``,
    else a2a3. ``grid`` blocks are executed one after another: an ExecutionError where the program needs
    another number of them, unless it is a ``partial_launch``. ``max_steps`` bounds the trips of a while loop.
    ``machine`` makes the machine that executes, for callers that watch it.

    >>> import numpy as np, pto_jax as pto
    >>> x = OracleTile(pto.tile_type("f32", 2, 8), np.ones((2, 8), np.float32))
    >>> run(pto.parse("%z = tadd %x, %y : !pto.tile<f32, 2, 8>"), (x, x))["z"].data[0, :3]
    array([2., 2., 2.], dtype=float32)
    """
    selected = api.resolve_profile(program, profile)
    region = out_of_region or selected.out_of_region
    if region not in ("ones", "backing"):
        raise ArgumentError(
            f"out_of_region: got {region!r}; `pto-jax run --sanitize` reports undefined lanes",
            allowed="ones, backing",
        )
    if subnormals not in ("keep", "flush"):
        raise ArgumentError(f"subnormals: got {subnormals!r}", allowed="keep, flush")
    grids.require_blocks(grid)
    program = resolve.with_entry(program)
    function = _entry(program, entry)
    arguments = _arguments(function, buffers)
    numbers = [n for n in BLOCK_NUMBERS if arguments.get(n) is not None]
    if numbers and grid > 1:
        raise ArgumentError(f"argument {numbers[0]}: got a value for {grid} blocks", allowed="none")
    if resolve.is_open(program):
        tiles = {n: o.type.with_valid(*o.valid) for n, o in arguments.items() if isinstance(o, OracleTile)}
        program = resolve.fill(program, tiles)
        function = _entry(program, entry)
    if not partial_launch and grids.asks(program):
        _check_launch(program, function, arguments, grid)
    memory = {v.name: _bytes(v, arguments[v.name]) for v in function.args if _in_memory(v, arguments[v.name])}
    reference = machine(Policy(selected, region, subnormals == "flush"), memory, max_steps)
    operands = [_operand(v, arguments[v.name], reference) for v in function.args]
    returned = launch(program, reference, function, operands, grid=grid)
    reference.finish()
    written = written_buffers(program, function)
    outputs: dict[str, Any] = {
        v.name: _like(memory[v.name], np.asarray(arguments[v.name]), _element(v))
        for v in function.args
        if v.name in written
    }
    pairs = zip(fragment_outputs(program), returned, strict=True) if program.fragment else ()
    for name, operand in pairs:
        if isinstance(operand, TileRef):
            reference.gives(name, operand)
            outputs[name] = _tile(operand, reference)
        elif isinstance(operand, np.ndarray):
            outputs[name] = operand
    return outputs


def _check_launch(
    program: ir.Program, function: ir.Function, arguments: Mapping[str, Any], grid: int
) -> None:
    """An error where more blocks would write further elements of the views, or these leave them."""
    types = {v.name: v.type for v in function.args}
    numbers = [n for n, t in types.items() if isinstance(t, ir.ScalarType) and not t.dtype.is_float]
    views = [n for n, t in types.items() if isinstance(t, _VIEWS)]
    buffers = [n for n, t in types.items() if isinstance(t, (ir.PtrType, *_VIEWS))]
    facts = grids.Facts(
        {n: int(np.asarray(arguments[n])) for n in numbers if arguments[n] is not None},
        {n: np.shape(arguments[n]) for n in views},
        {n: partial(np.asarray, arguments[n]) for n in buffers},
    )
    problem = grids.judge(program, function.name, grid, facts).problem
    if problem is not None:
        raise ExecutionError(problem)


def _entry(program: ir.Program, name: str | None) -> ir.Function:
    names = ", ".join(f.name for f in program.functions)
    if name is not None:
        function = program.function(name)
        if function is None:
            raise ArgumentError(f"entry: got {name!r}", allowed=names)
        return function
    entries = program.entries
    if len(entries) != 1:
        raise ArgumentError(f"entry: the program marks {len(entries) or 'none'}", allowed=names)
    return entries[0]


def _arguments(function: ir.Function, values: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    names = [v.name for v in function.args]
    if hasattr(values, "dtype") or isinstance(values, str | bytes) or not isinstance(values, Sized):
        text = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
        got = f"function {function.name}: got {'an array' if hasattr(values, 'dtype') else one_of(values)}"
        raise ArgumentError(got, allowed="the arguments by name, or as a sequence", fix=text)
    by_name = dict(values) if isinstance(values, Mapping) else dict(zip(names, values, strict=False))
    count = len(values)
    optional = {n for n in names if n in BLOCK_NUMBERS}
    if count > len(names) or not set(names) - optional <= set(by_name) <= set(names):
        what = ", ".join(map(str, by_name)) if isinstance(values, Mapping) else f"{count} arguments"
        text = ", ".join(names)
        got = f"function {function.name}: got {what or 'nothing'}"
        raise ArgumentError(got, allowed=f"({text})", fix=f"({text}{',' if len(names) == 1 else ''})")
    return {**dict.fromkeys(optional), **by_name}


_VIEWS = (ir.TensorViewType, ir.PartitionViewType, ir.MemRefType)


def _in_memory(value: ir.Value, argument: Any) -> bool:
    return not isinstance(argument, OracleTile) and isinstance(value.type, (ir.PtrType, *_VIEWS))


def _element(value: ir.Value) -> ir.DType:
    assert isinstance(value.type, ir.PtrType | ir.TensorViewType | ir.PartitionViewType | ir.MemRefType)
    return value.type.dtype


def _bytes(value: ir.Value, argument: Any) -> Array:
    """A copy of an array argument as memory; 4-bit elements arrive one per byte and are packed."""
    d = _element(value)
    try:
        array = np.ascontiguousarray(argument)
    except ValueError:
        got = f"argument {value.name}: got {one_of(argument)} of rows that differ"
        raise ArgumentError(got, allowed=f"an array of {d}") from None
    if array.dtype not in (d.numpy, d.word):
        raise ArgumentError(f"argument {value.name}: got an array of {array.dtype}", allowed=f"{d}")
    words = array.reshape(-1).view(d.word)
    memory = np.zeros(d.storage_bytes(len(words)), np.uint8)
    storage.write_words(memory, np.arange(len(words)), words, d)
    return memory


def _like(memory: Array, array: Array, d: ir.DType) -> Array:
    words = storage.read_words(memory, np.arange(array.size), d)
    return words.view(array.dtype).reshape(array.shape)


def _operand(value: ir.Value, argument: Any, machine: ReferenceMachine) -> Operand:
    if isinstance(argument, OracleTile):
        return _load_tile(value, argument, machine)
    if isinstance(value.type, ir.PtrType):
        return Pointer(value.name, value.type.dtype)
    if isinstance(value.type, ir.MemRefType):
        return memref_view(value.name, value.type, np.shape(argument))
    if isinstance(value.type, _VIEWS):
        shape = np.shape(argument)
        strides = tuple(int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape)))
        return View(value.name, _element(value), 0, shape, strides)
    if isinstance(value.type, ir.TileType):
        t = value.type
        plain = t == ir.TileType(t.dtype, *t.shape)
        example = f'pto.oracle.OracleTile(pto.tile_type("{t.dtype}", {t.rows}, {t.cols}), {value.name})'
        got = f"argument {value.name}: got {one_of(argument)}"
        raise ArgumentError(got, allowed=f"an OracleTile of {t}", fix=example if plain else "")
    return argument


def _load_tile(value: ir.Value, tile: OracleTile, machine: ReferenceMachine) -> TileRef:
    t, data = tile.type, np.ascontiguousarray(tile.data)
    if isinstance(value.type, ir.TileType) and value.type.dtype != t.dtype:
        raise ArgumentError(f"argument {value.name}: got a tile {t}", allowed=f"{value.type}")
    if data.shape != t.shape or data.dtype not in (t.dtype.numpy, t.dtype.word):
        raise ArgumentError(
            f"argument {value.name}: got {data.dtype} of shape {data.shape}",
            allowed=f"{t.dtype.numpy} of shape {t.shape}",
        )
    place = machine.receive(None, value.name, t, data.view(t.dtype.word))
    return TileRef(t, place, *tile.valid)


def _tile(ref: TileRef, machine: ReferenceMachine) -> OracleTile:
    words = machine.stored(ref)
    return OracleTile(ref.type, words.view(ref.type.dtype.numpy), int(ref.v_row), int(ref.v_col))


# -- several ranks -----------------------------------------------------------------------------------


def run_ranks(  # noqa: PLR0913 - keywords
    calls: Sequence[RankCall | None],
    arrays: Mapping[str, Any],
    numbers: Sequence[Mapping[str, Sequence[Any]]],
    *,
    profile: profiles.Profile,
    out_of_region: str | None = None,
    flush: bool = False,
    seed: int | None = None,
    late: bool = False,
    max_steps: int = 1_000_000,
    machine: Callable[[Policy, Mapping[str, Array], int], ReferenceMachine] = ReferenceMachine,
    watch: Watch | None = None,
    make: Make = Interpreter,
) -> dict[str, Array]:
    """The buffers after kernels on all ranks, as arrays [ranks, ...].

    ``calls`` are executed by every rank in their order; at None all ranks meet. ``arrays`` are the buffers,
    ``numbers`` the scalars of each call with one value for each rank. ``seed`` chooses the order of the
    cores, ``late`` moves the data of asynchronous copies where they are waited for. DeadlockError where no
    core goes on; ArgumentError for a buffer that is missing or of another type.
    """
    kernels = [call for call in calls if call is not None]
    world = world_of(kernels, late=late)
    types: dict[str, DType] = {}
    for call in kernels:
        for name, d in call.buffers.items():
            types.setdefault(name, d)
    memory: dict[str, Array] = {}
    arguments = {n: _checked(n, arrays, types.get(n), world.count) for n in world.buffers}
    for name, array in arguments.items():
        for rank in range(world.count):
            memory[part(name, rank)] = _flat_bytes(array[rank])
    for call in kernels:
        for name in call.records:
            for rank in range(world.count):
                memory[part(name, rank)] = np.array(context(rank, world.count), np.int64).view(np.uint8)
    policy = Policy(profile, out_of_region or profile.out_of_region, flush)
    reference = machine(policy, memory, max_steps)
    if watch is not None:
        world.watch = watch
    shapes = {n: _extents(a.shape[1:], types.get(n)) for n, a in arguments.items()}
    values = iter(numbers)
    launched = [(call, next(values) if call is not None else {}) for call in calls]
    sequences = [
        [None if call is None else call.launch(rank, shapes, own) for call, own in launched]
        for rank in range(world.count)
    ]
    Interleaving(world, reference, sequences, seed, make).run()
    reference.finish()
    return {
        n: np.stack([_array(memory[part(n, r)], a[r]) for r in range(world.count)])
        for n, a in arguments.items()
    }


def _checked(name: str, arrays: Mapping[str, Any], d: DType | None, count: int) -> Array:
    if name not in arrays:
        raise ArgumentError(f"got no buffer {name!r}", allowed=", ".join(arrays) or "none")
    array = np.ascontiguousarray(arrays[name])
    if array.ndim == 0 or array.shape[0] != count:
        raise ArgumentError(
            f"buffer {name!r}: got shape {array.shape}; allowed: a leading axis of {count} ranks"
        )
    if d is not None and array.dtype.itemsize != d.word.itemsize:
        raise ArgumentError(f"buffer {name!r}: got an array of {array.dtype}", allowed=f"{d}")
    return array


def _extents(shape: tuple[int, ...], d: DType | None) -> tuple[int, ...]:
    """The shape of a part in elements: two of 4 bits are one byte of the array."""
    if d is None or not d.packed or not shape:
        return shape
    return (*shape[:-1], 2 * shape[-1])


def _flat_bytes(array: Array) -> Array:
    """A copy of a part as memory."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()


def _array(memory: Array, like: Array) -> Array:
    return memory.view(like.dtype).reshape(like.shape)
