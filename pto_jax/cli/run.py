"""The command ``run``: arguments, execution, results, ``--sanitize``, ``--trace`` and ``--break``."""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .. import errors, examples
from ..analysis import entries
from ..analysis.provenance import GlobalTypes
from ..api import load, resolve_profile
from ..errors import ArgumentError, UndefinedDataError, nearest
from ..files import save_arrays
from ..files.read import unusable
from ..generate.inputs import shape_of
from ..interpreter.operands import BLOCK_NUMBERS
from ..ir import (
    ArrayType,
    DType,
    PartitionViewType,
    Program,
    PtrType,
    ScalarType,
    TensorViewType,
    TileType,
    Type,
    pack_pairs,
    unpack_pairs,
)
from ..runtime.array_files import (
    REGION,
    Argument,
    Array,
    Signature,
    buffer_type,
    convert_input,
    read_inputs,
    storable,
)
from ..runtime.debug.tracer import Breakpoint, Observers, Stopped, Tracer
from .options import RunOptions, Watch

if TYPE_CHECKING:
    from ..runtime.kernel import Kernel
    from ..runtime.state import State
    from ..sanitizer.sanitize import Sanitized


class Observable(Protocol):
    """A kernel that is executed step by step: of one processor, or of several."""

    @property
    def program(self) -> Program:
        """The program with its functions."""

    @property
    def arguments(self) -> tuple[entries.Argument, ...]:
        """What it takes, in order."""

    def observed(self, observer: Any, /, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], State]:
        """Execute step by step and tell an observer."""


def watched(
    kernel: Observable,
    values: Sequence[Any],
    watch: Watch,
    dump_state: str | None,
    pictures: str | None = None,
    typed: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None,
) -> tuple[Mapping[str, Any], State] | None:
    """Execute a kernel under observation; None where a breakpoint ended it and saved what there was.

    ``typed`` makes arrays of the raw words of buffers.
    """
    stop = Breakpoint.named(kernel.program, watch.stop) if watch.stop is not None else None
    tracer = None
    if watch.trace is not None:
        tracer = Tracer(print, watch.limit, detail=watch.trace, lanes=watch.lanes)
    observers = Observers(tuple(o for o in (stop, tracer) if o is not None))
    try:
        outputs, state = _observed(kernel, observers, values, tracer)
    except Stopped as stopped:
        assert stop is not None and stop.op.span is not None
        source = Path(kernel.program.source)
        path = dump_state or f"{source.stem}-line{stop.op.span.line}.npz"
        words = stopped.state.buffers
        buffers = typed(words) if typed is not None else _typed(kernel, values, words)  # type: ignore[arg-type]
        memory = replace(stopped.state, buffers=buffers)
        memory.save(path)
        held = f"{len(memory.tiles)} tiles, {len(memory.scalars)} scalars, {len(memory.buffers)} buffers"
        print(f"{stopped}; {held} are in {path}")
        if pictures is not None:
            draw(pictures, kernel, memory.buffers, memory.tiles)
        return None
    if stop is not None:
        times = f"{stop.reached} times" if stop.reached else "never"
        raise ArgumentError(f"--break {watch.stop}: the program ended; it reached that line {times}")
    return outputs, state


def draw(
    folder: str, kernel: Observable, arrays: Mapping[str, Any], tiles: Mapping[str, Any] | None = None
) -> None:
    """Write a picture of each buffer and tile to a folder, which is made where it is missing."""
    from ..pictures import array, tile

    types = {a.name: a.type.dtype for a in kernel.arguments if isinstance(a.type, ArrayType)}
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, "made", error) from None
    pictures = {n: array(n, np.asarray(a), types[n]) for n, a in arrays.items() if n in types}
    pictures |= {n: tile(t, name=f"%{n}") for n, t in (tiles or {}).items()}
    for name, picture in pictures.items():
        picture.save(Path(folder) / f"{name.replace('/', '-')}.svg")
    print(f"pictures: {len(pictures)} in {folder}")


def _observed(
    kernel: Observable, observers: Observers, values: Sequence[Any], tracer: Tracer | None
) -> tuple[Mapping[str, Any], State]:
    try:
        return kernel.observed(observers, *values)
    finally:
        if tracer is not None:
            tracer.finish()


def _typed(kernel: Kernel, values: Sequence[Any], buffers: Mapping[str, Any]) -> dict[str, Any]:
    """Buffers as arrays of their element type where .npz files have it, in the shape they came in."""
    arrays = {}
    for argument, value in zip(kernel.arguments, values, strict=True):
        if isinstance(argument.type, GlobalTypes) and argument.name in buffers:
            d, words = argument.type.dtype, np.asarray(buffers[argument.name])
            plain = d.numpy.kind in "fiub"
            array = words.view(d.numpy) if plain else words
            arrays[argument.name] = array if d.packed else array.reshape(np.shape(value))
    return arrays


def check_options(options: RunOptions) -> None:
    """The interpreter executes: options of the engine mean nothing to it."""
    clash = {
        "--numerics fast": options.numerics != "exact",
        "--trace or --break": options.watch is not None,
        "--dump-state": options.dump_state is not None,
    }
    for name, is_set in clash.items():
        if is_set:
            raise ArgumentError(
                f"got {name} with --sanitize, which the reference interpreter executes", allowed="either"
            )


@dataclass(frozen=True, eq=False)
class Execution:
    """What the program wrote, and what the sanitizer found."""

    outputs: Mapping[str, Any]
    found: Sanitized

    def report(self) -> None:
        """Say that nothing was found, or raise UndefinedDataError."""
        if self.found.diagnostics:
            raise UndefinedDataError(self.found.diagnostics)
        print(self.found)


def sanitized(kernel: Kernel, values: Mapping[str, Any], options: RunOptions, grid: int) -> Execution:
    """Execute a program on the interpreter with the values of a kernel's arguments."""
    from ..sanitizer.sanitize import sanitize

    limits: dict[str, Any] = {} if options.max_steps is None else {"max_steps": options.max_steps}
    types = {a.name: a.type for a in kernel.arguments}
    packed = {name for name, t in types.items() if _is_packed(t)}
    execution = sanitize(
        kernel.program,
        {name: _given(v, types[name]) for name, v in values.items()},
        profile=kernel.profile.name,
        entry=kernel.entry,
        grid=grid,
        partial_launch=options.partial_launch,
        strict=options.sanitize == "strict",
        **limits,
    )
    outputs = {n: _shown(v, packed=n in packed) for n, v in execution.outputs.items()}
    return Execution(outputs, execution)


def _is_packed(t: Type) -> bool:
    return isinstance(t, PtrType | TensorViewType | PartitionViewType) and t.dtype.packed


def _given(value: Any, t: Type) -> Any:
    """An argument as the interpreter takes it: 4-bit elements one per byte, tiles as its own."""
    from ..oracle import OracleTile
    from ..runtime.tiles import Tile

    if isinstance(value, Tile):
        return OracleTile(value.type, np.asarray(value.words), int(value.valid_rows), int(value.valid_cols))
    if isinstance(t, TileType):
        return OracleTile(t, np.asarray(value).reshape(t.shape))
    if not _is_packed(t):
        return value
    return unpack_pairs(np.asarray(value).view(np.uint8))


def _shown(value: Any, *, packed: bool) -> Any:
    """A result as a kernel gives it."""
    import jax

    from ..lowering.bits import x64
    from ..oracle import OracleTile
    from ..runtime.tiles import Tile

    if isinstance(value, OracleTile):
        words = value.data.view(value.type.dtype.word)
        with x64():
            rows, cols = (jax.device_put(np.int32(n)) for n in value.valid)
            return Tile(jax.device_put(words), rows, cols, value.type)
    return pack_pairs(value.view(np.uint8)) if packed else value


#: In place of an example's name: describe them all.
LIST = "list"
_SHOWN = 6


def run(options: RunOptions) -> None:
    """Execute a program as the options say, print what it did, write the files asked for."""
    if options.example == LIST:
        print(examples.described())
        return
    example = examples.example(options.example) if options.example is not None else None
    program = load(example.path if example else str(options.file), language=options.language)
    if options.sanitize is not None:
        check_options(options)
    if options.seed < 0:
        raise errors.ArgumentError(f"--seed: got {options.seed}", allowed="0 or more")
    profile = resolve_profile(program, options.profile)

    from ..runtime.kernel import compile as compile_program

    limits: dict[str, Any] = {} if options.max_steps is None else {"max_steps": options.max_steps}
    grid = options.grid if options.grid is not None else example.grid if example else 1
    kernel = compile_program(
        program,
        profile=profile.name,
        entry=options.entry,
        numerics=options.numerics,
        checks=True,
        grid=grid,
        warn=False,
        partial_launch=options.partial_launch,
        **limits,
    )
    for warning in kernel.warnings:
        print(warning if warning.span else f"{options.file or options.example}: {warning}", file=sys.stderr)
    names = [a.name for a in kernel.arguments]
    values: dict[str, Any]
    keys: dict[str, str]
    if options.inputs is not None:
        values, keys = read_inputs(kernel, options.inputs)  # pyright: ignore[reportArgumentType]
        try:
            kernel.check_accesses(values)
        except errors.PtoError as error:
            raise errors.FileError(f"{options.inputs}: {error}") from None
        origin = f"from {options.inputs}"
    else:
        suited = example if options.entry is None else None
        values = generate_inputs(kernel, options.seed, suited)  # pyright: ignore[reportArgumentType]
        keys = dict(zip(names, names, strict=True))
        origin = f"generated, seed {options.seed}"
    values |= _scalars(kernel, options.scalars)
    looked = None
    if options.sanitize is not None:
        looked = sanitized(kernel, values, options, grid)
        outputs: Mapping[str, Any] | None = looked.outputs
    else:
        outputs = _outputs(kernel, [values.get(name) for name in names], options)
    if outputs is None:
        return
    arrays: dict[str, Any] = {str(name): np.asarray(outputs[name]) for name in kernel.outputs}
    title = f"program: {example.summary if example else options.file}"
    print(textwrap.fill(title, 96, subsequent_indent=" " * 9, break_on_hyphens=False, break_long_words=False))
    print(f"         {instruction_counts(program)}")
    print(f"profile: {profile.name} ({profile.title}), numerics {options.numerics}")
    print(
        f"input:   {origin}: "
        + ", ".join(describe_input(a, values[a.name]) for a in kernel.arguments if a.name in values)
    )
    types = {a.name: a.type.dtype for a in kernel.arguments if isinstance(a.type, ArrayType)}
    for name, array in arrays.items():
        changed = count_changed(np.asarray(values[name]), array) if name in values else ""
        print(describe_array(keys.get(name, name), array, types.get(name)) + changed)
    if example is not None and options.entry is None:
        print(f"check:   {describe_check(example, values, arrays)}")
    if options.outputs is not None:
        regions = {f"{keys.get(n, n)}{REGION}": r for n in arrays if (r := _partial_region(outputs[n]))}
        stored = {keys.get(name, name): storable(a) for name, a in arrays.items()}
        save_arrays(options.outputs, stored | {n: np.array(r, np.int32) for n, r in regions.items()})
    if options.pictures is not None:
        written = {name: outputs[name] for name in kernel.outputs}
        tiles = {name: t for name, t in written.items() if hasattr(t, "valid_rows")}
        draw(options.pictures, kernel, arrays, tiles)
    if looked is not None:
        looked.report()


def _outputs(kernel: Kernel, values: Sequence[Array | None], options: RunOptions) -> Mapping[str, Any] | None:
    """What the kernel wrote; None where a breakpoint ended it. Writes the state asked for."""
    if options.watch is not None:
        execution = watched(kernel, values, options.watch, options.dump_state, options.pictures)  # pyright: ignore[reportArgumentType]
        if execution is None:
            return None
        outputs, state = execution
    elif options.dump_state is not None:
        outputs, state = kernel.with_state(*values)
    else:
        return kernel.once(*values)
    if options.dump_state is not None:
        state.save(options.dump_state)
    return outputs


def _partial_region(output: Any) -> tuple[int, int] | None:
    """The valid region of a tile that is not valid as a whole."""
    from ..runtime.tiles import Tile

    if not isinstance(output, Tile):
        return None
    region = (int(output.valid_rows), int(output.valid_cols))
    return None if region == output.type.shape else region


def describe_check(
    example: examples.Example, values: Mapping[str, Array], arrays: Mapping[str, Array]
) -> str:
    """How far each result of an example is from the same computation in NumPy."""
    apart = example.differences(values, arrays)
    if not any(apart.values()):
        return f"{', '.join(apart)} equal to NumPy"
    return "largest difference from NumPy: " + ", ".join(f"{d:.2g} in {name}" for name, d in apart.items())


def _scalars(kernel: Signature, given: Mapping[str, Any]) -> dict[str, Array]:
    """Scalar arguments of one processor that options give."""
    scalars = {a.name: a for a in kernel.arguments if isinstance(a.type, ScalarType)}
    for name, value in given.items():
        if name not in scalars:
            close = nearest(name, scalars) or (next(iter(scalars)) if len(scalars) == 1 else "")
            fix = f"--arg {close}={value}" if close else ""
            allowed = ", ".join(scalars) or "no scalar arguments"
            raise ArgumentError(f"--arg: got {name!r}", allowed=allowed, fix=fix)
        if isinstance(value, list):
            got = f"--arg {name}: got {len(value)} numbers"
            raise ArgumentError(got, allowed="one, or one for each rank", fix=f"--ranks {len(value)}")
    return {name: _scalar(scalars[name], value) for name, value in given.items()}


def _scalar(argument: Argument, value: Any) -> Array:
    try:
        return convert_input(argument, np.asarray(value))
    except ArgumentError as error:
        got = f"--arg {argument.name}: {error.got}"
        raise ArgumentError(got, allowed=error.allowed, fix=error.fix) from None


def instruction_counts(program: Program) -> str:
    """How often each tile instruction occurs, in order of first use."""
    skipped = ("make_", "partition_", "alloc_", "arith.", "scf.", "return", "section.")
    counts = Counter(op.name for op in program.walk() if not op.name.startswith(skipped))
    return ", ".join(name if n == 1 else f"{name} x{n}" for name, n in counts.items()) or "no instructions"


def generate_inputs(kernel: Signature, seed: int, example: examples.Example | None) -> dict[str, Array]:
    """Seeded values for every argument: an example's own; else buffers that are only written are zeros."""
    rng = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    presets = example.arguments(seed) if example else {}
    for argument in kernel.arguments:
        t = argument.type
        if argument.name in presets:
            values[argument.name] = convert_input(argument, presets[argument.name])
            continue
        if argument.name in BLOCK_NUMBERS:
            continue
        if isinstance(t, ScalarType):
            values[argument.name] = random_values(rng, t.dtype, (), low=1, high=8)
            continue
        buffer = buffer_type(argument)
        shape = shape_of(buffer, argument.min_elements)
        only_written = argument.name in kernel.outputs and not argument.read
        values[argument.name] = (
            np.zeros(shape, buffer.dtype.numpy) if only_written else random_values(rng, buffer.dtype, shape)
        )
    return values


def random_values(
    rng: np.random.Generator, d: DType, shape: tuple[int, ...], low: int = -100, high: int = 100
) -> Array:
    """Ordinary values of an element type: normal floats, small integers, any bits for raw types."""
    if d.name == "i1":
        return np.asarray(rng.integers(0, 2, shape), dtype=bool)
    if d.kind == "index" or (d.is_integer and d.numpy != d.word) or d.kind == "uint":
        return np.asarray(rng.integers(max(low, 0) if d.kind == "uint" else low, high + 1, shape)).astype(
            d.numpy
        )
    if d.numpy == d.word:
        return np.asarray(rng.integers(0, 1 << d.word_bits, shape)).astype(d.numpy)
    return np.asarray(4.0 * rng.standard_normal(shape)).astype(d.numpy)


def describe_array(name: str, array: Array, d: DType | None) -> str:
    """Name, type, shape, first values, range and NaN count of a buffer, on one line."""
    text = f"{name}: {d or array.dtype}{list(array.shape)}"
    if array.size == 0:
        return f"{text} empty"
    flat = array.reshape(-1)
    if d is not None and d.word.itemsize == array.dtype.itemsize:
        flat = flat.view(d.numpy)
    first = " ".join(_value(v) for v in flat[:_SHOWN]) + (" ..." if flat.size > _SHOWN else "")
    if d is not None and d.is_float and d.numpy == d.word:
        return f"{text} = {first} (raw words)"
    floats = flat.dtype.kind not in "iub"
    with np.errstate(invalid="ignore"):  # Signalling NaNs raise the flag.
        numbers = flat.astype(np.float64) if floats else flat
    nan = np.isnan(numbers) if floats else np.zeros(flat.shape, bool)
    rest = numbers[~nan]
    extent = f"min {_value(rest.min())} max {_value(rest.max())}" if rest.size else "no numbers"
    return f"{text} = {first}  {extent}  nan {int(nan.sum())}"


def count_changed(before: Array | None, after: Array) -> str:
    """How many elements of a buffer have other bits than on entry."""
    if before is None or before.shape != after.shape or before.dtype.itemsize != after.dtype.itemsize:
        return ""
    word = f"u{after.dtype.itemsize}"
    different = np.ascontiguousarray(before).view(word) != np.ascontiguousarray(after).view(word)
    return f"  changed {int(different.sum())} of {after.size}"


def _value(v: Any) -> str:
    return f"{float(v):.6g}" if np.asarray(v).dtype.kind not in "iub" else str(int(v))


def describe_input(argument: Argument, value: Any) -> str:
    """Name and value of a scalar, or name, type and shape of an array."""
    if isinstance(argument.type, ScalarType):
        return f"{argument.name}={_value(value)}"
    array = np.asarray(value)
    zeros = " zeros" if array.size and not array.tobytes().strip(b"\0") else ""
    return f"{argument.name} {buffer_type(argument).dtype}{list(array.shape)}{zeros}"
