"""The ``run`` command: arguments from a file or generated, execution, and a description of the result."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import examples
from .api import load, resolve_profile
from .dtypes import DType
from .errors import ArgumentError, FileError, PtoError
from .files import load_arrays, save_arrays
from .ir import Program
from .testing.inputs import ArrayType, shape_of
from .types import ScalarType, TileType, Type

if TYPE_CHECKING:
    from ._sanitize import Mode as Sanitize
    from ._watch import Watch
    from .engine import Kernel

Array = NDArray[Any]
#: In place of an example's name: describe them all.
LIST = "list"
#: An array of this name after a tile's holds its valid rows and columns.
REGION = ".valid"
_SHOWN = 6


class Argument(Protocol):
    """What the command needs to know about an argument of a kernel."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> Type: ...
    @property
    def min_elements(self) -> int | None: ...


class Signature(Protocol):
    """The arguments of a kernel and the names of the buffers it writes."""

    @property
    def arguments(self) -> Sequence[Argument]: ...
    @property
    def outputs(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class Options:
    """Options of the command, as given."""

    file: str | None
    example: str | None
    entry: str | None
    profile: str | None
    numerics: str
    inputs: str | None
    outputs: str | None
    dump_state: str | None
    seed: int
    grid: int | None = None
    partial_launch: bool = False
    max_steps: int | None = None
    watch: Watch | None = None
    sanitize: Sanitize | None = None


def run(options: Options) -> None:
    """Execute a program as the options say, print what it did, write the files asked for."""
    if options.example == LIST:
        print(examples.described())
        return
    example = examples.example(options.example) if options.example is not None else None
    program = load(example.path if example else str(options.file))
    if options.sanitize is not None:
        from ._sanitize import check_options

        check_options(options)
    if options.seed < 0:
        raise ArgumentError(f"--seed is {options.seed}; 0 or more is needed")
    profile = resolve_profile(program, options.profile)

    from .engine import compile as compile_program

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
    for found in kernel.warnings:
        print(found if found.span else f"{options.file or options.example}: {found}", file=sys.stderr)
    names = [a.name for a in kernel.arguments]
    values: dict[str, Any]
    if options.inputs is not None:
        values, given = read_inputs(kernel, options.inputs)
        try:
            kernel.check_accesses(values)
        except PtoError as error:
            raise FileError(f"{options.inputs}: {error}") from None
        origin = f"from {options.inputs}"
    else:
        suited = example if options.entry is None else None
        values, given = generate_inputs(kernel, options.seed, suited), dict(zip(names, names, strict=True))
        origin = f"generated, seed {options.seed}"
    looked = None
    if options.sanitize is not None:
        from ._sanitize import sanitized

        looked = sanitized(kernel, values, options, grid)
        outputs: Mapping[str, Any] | None = looked.outputs
    else:
        outputs = _outputs(kernel, [values[name] for name in names], options)
    if outputs is None:
        return
    arrays = {name: np.asarray(outputs[name]) for name in kernel.outputs}
    print(f"program: {example.summary if example else options.file}")
    print(f"         {instruction_counts(program)}")
    print(f"profile: {profile.name} ({profile.title}), numerics {options.numerics}")
    print(f"input:   {origin}: {', '.join(_describe_input(a, values[a.name]) for a in kernel.arguments)}")
    types = {a.name: a.type.dtype for a in kernel.arguments if isinstance(a.type, ArrayType)}
    for name, array in arrays.items():
        changed = count_changed(np.asarray(values[name]), array) if name in values else ""
        print(describe_array(given.get(name, name), array, types.get(name)) + changed)
    if example is not None and options.entry is None:
        print(f"check:   {describe_check(example, values, arrays)}")
    if options.outputs is not None:
        regions = {f"{given.get(n, n)}{REGION}": r for n in arrays if (r := _partial_region(outputs[n]))}
        stored = {given.get(name, name): storable(a) for name, a in arrays.items()}
        save_arrays(options.outputs, stored | {n: np.array(r, np.int32) for n, r in regions.items()})
    if looked is not None:
        looked.report()


def _outputs(kernel: Kernel, values: Sequence[Array], options: Options) -> Mapping[str, Any] | None:
    """What the kernel wrote; None where a breakpoint ended it. Writes the state asked for."""
    if options.watch is not None:
        from ._watch import watched

        found = watched(kernel, values, options.watch, options.dump_state)
        if found is None:
            return None
        outputs, state = found
    elif options.dump_state is not None:
        outputs, state = kernel.with_state(*values)
    else:
        outputs, report = kernel(*values)
        report.raise_if_broken()
        return dict(outputs)
    if options.dump_state is not None:
        state.save(options.dump_state)
    return outputs


def _partial_region(output: Any) -> tuple[int, int] | None:
    """The valid region of a tile that is not valid as a whole."""
    from .tiles import Tile

    if not isinstance(output, Tile):
        return None
    found = (int(output.valid_rows), int(output.valid_cols))
    return None if found == output.type.shape else found


def describe_check(
    example: examples.Example, values: Mapping[str, Array], arrays: Mapping[str, Array]
) -> str:
    """How far each result of an example is from the same computation in NumPy."""
    apart = example.differences(values, arrays)
    if not any(apart.values()):
        return f"{', '.join(apart)} equal to NumPy"
    return "largest difference from NumPy: " + ", ".join(f"{d:.2g} in {name}" for name, d in apart.items())


def instruction_counts(program: Program) -> str:
    """How often each tile instruction occurs, in order of first use."""
    skipped = ("make_", "partition_", "alloc_", "arith.", "scf.", "return", "section.")
    counts = Counter(op.name for op in program.walk() if not op.name.startswith(skipped))
    return ", ".join(name if n == 1 else f"{name} x{n}" for name, n in counts.items()) or "no instructions"


def read_inputs(kernel: Signature, path: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Argument values from a file, and the name each argument was given under.

    A tile whose valid sizes execution gives takes them from the array ``NAME.valid``; without one it is
    valid as a whole.
    """
    arrays = load_arrays(path)
    values: dict[str, Any] = {}
    given: dict[str, str] = {}
    for i, argument in enumerate(kernel.arguments):
        found = [name for name in dict.fromkeys((argument.name, f"arg{i}")) if name in arrays]
        if not found:
            held = ", ".join(arrays) or "nothing"
            raise FileError(
                f"{path}: no array for argument {argument.name} ({argument.type}); "
                f"call it {argument.name!r} or 'arg{i}'; the file holds {held}"
            )
        if len(found) > 1:
            raise FileError(f"{path}: argument {argument.name} is given twice, as {' and as '.join(found)}")
        given[argument.name] = found[0]
        try:
            values[argument.name] = convert_input(argument, arrays[found[0]])
            if found[0] + REGION in arrays:
                values[argument.name] = _with_region(
                    argument, values[argument.name], arrays[found[0] + REGION]
                )
        except ArgumentError as error:
            raise FileError(f"{path}: {found[0]}: {error}") from None
    regions = {a.name: given[a.name] + REGION for a in kernel.arguments if isinstance(a.type, TileType)}
    unknown = [name for name in arrays if name not in given.values() and name not in regions.values()]
    if unknown:
        names = ", ".join(a.name for a in kernel.arguments) or "none"
        raise FileError(f"{path}: no argument is called {unknown[0]!r}; the arguments are {names}")
    return values, given


def convert_input(argument: Argument, array: Array) -> Array:
    """An array as the value of an argument; raises ArgumentError when it does not fit."""
    from .interchange import received

    t, array = argument.type, received(array, f"argument {argument.name!r}")
    if isinstance(t, ScalarType):
        d = t.dtype
        # As in buffers: types that NumPy lacks are given by their bits.
        bits = d.numpy.kind == "V" and (array.dtype == d.word or array.dtype.kind == "V")
        if bits and array.dtype.itemsize == d.word.itemsize:
            array = array.view(d.numpy)
        return _convert_scalar(d, array)
    d = _buffer_type(argument).dtype
    if array.dtype.kind == "V" and array.dtype != d.numpy and array.dtype.itemsize == d.word.itemsize:
        # NumPy writes bfloat16 and the 8-bit floats to .npz as nameless words.
        array = array.view(d.word)
    same_width = d.is_integer and array.dtype.kind in "iu" and array.dtype.itemsize == d.word.itemsize
    if array.dtype not in (d.numpy, d.word) and not same_width:
        raw = "" if d.numpy == d.word else f", or its bits as {d.word},"
        raise ArgumentError(f"found {array.dtype}, the program declares {d}: {d.numpy}{raw} is needed")
    return array


def _with_region(argument: Argument, array: Array, region: Array) -> Any:
    """A tile with the valid sizes that a file gives."""
    from .tiles import tile

    t = argument.type
    if not isinstance(t, TileType):
        raise ArgumentError(f"the argument has the type {t}; only tiles have a valid region")
    if region.shape != (2,) or region.dtype.kind not in "iu":
        raise ArgumentError(f"{REGION} is {region.dtype}{list(region.shape)}; two integers are needed")
    rows, cols = map(int, region)
    if t.is_static and (rows, cols) != t.valid:
        raise ArgumentError(f"{REGION} is {rows}x{cols}, the program declares {t}")
    return array if t.is_static else tile(array, (rows, cols), type=t)


def _buffer_type(argument: Argument) -> ArrayType:
    if not isinstance(argument.type, ArrayType):
        raise ArgumentError(
            f"argument {argument.name} has the type {argument.type}; "
            "a pointer, memref, tile or scalar type must be written in the program"
        )
    return argument.type


def _convert_scalar(d: DType, array: Array) -> Array:
    if array.size != 1:
        raise ArgumentError(f"found an array of shape {array.shape}; a single {d} value is needed")
    value = array.reshape(())[()]
    if d.is_float:
        if array.dtype.kind not in "fiu" and array.dtype != d.numpy:
            raise ArgumentError(f"found {array.dtype}; the program declares a scalar of type {d}")
        return np.asarray(value).astype(d.numpy)
    if array.dtype.kind not in "iub":
        raise ArgumentError(f"found {array.dtype}; the program declares a scalar of type {d}")
    bits = 64 if d.kind == "index" else d.bits
    low, high = (0, (1 << bits) - 1) if d.kind == "uint" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if not low <= int(value) <= high:
        raise ArgumentError(f"found {value}; a scalar of type {d} is between {low} and {high}")
    return np.asarray(int(value), dtype=d.numpy)


def generate_inputs(kernel: Signature, seed: int, example: examples.Example | None) -> dict[str, Array]:
    """Seeded values for every argument: an example's own; else buffers the program writes are zeros."""
    rng = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    presets = example.arguments(seed) if example else {}
    for argument in kernel.arguments:
        t = argument.type
        if argument.name in presets:
            values[argument.name] = convert_input(argument, presets[argument.name])
            continue
        if isinstance(t, ScalarType):
            values[argument.name] = random_values(rng, t.dtype, (), low=1, high=8)
            continue
        buffer = _buffer_type(argument)
        shape = shape_of(buffer, argument.min_elements)
        written = argument.name in kernel.outputs
        values[argument.name] = (
            np.zeros(shape, buffer.dtype.numpy) if written else random_values(rng, buffer.dtype, shape)
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
    shown = f"{name}: {d or array.dtype}{list(array.shape)}"
    if array.size == 0:
        return f"{shown} empty"
    flat = array.reshape(-1)
    if d is not None and d.word.itemsize == array.dtype.itemsize:
        flat = flat.view(d.numpy)
    first = " ".join(_value(v) for v in flat[:_SHOWN]) + (" ..." if flat.size > _SHOWN else "")
    if d is not None and d.is_float and d.numpy == d.word:
        return f"{shown} = {first} (raw words)"
    floats = flat.dtype.kind not in "iub"
    with np.errstate(invalid="ignore"):  # Signalling NaNs raise the flag.
        numbers = flat.astype(np.float64) if floats else flat
    nan = np.isnan(numbers) if floats else np.zeros(flat.shape, bool)
    rest = numbers[~nan]
    extent = f"min {_value(rest.min())} max {_value(rest.max())}" if rest.size else "no numbers"
    return f"{shown} = {first}  {extent}  nan {int(nan.sum())}"


def count_changed(before: Array | None, after: Array) -> str:
    """How many elements of a buffer have other bits than on entry."""
    if before is None or before.shape != after.shape or before.dtype.itemsize != after.dtype.itemsize:
        return ""
    word = f"u{after.dtype.itemsize}"
    different = np.ascontiguousarray(before).view(word) != np.ascontiguousarray(after).view(word)
    return f"  changed {int(different.sum())} of {after.size}"


def _value(v: Any) -> str:
    return f"{float(v):.6g}" if np.asarray(v).dtype.kind not in "iub" else str(int(v))


def _describe_input(argument: Argument, value: Any) -> str:
    if isinstance(argument.type, ScalarType):
        return f"{argument.name}={_value(value)}"
    return f"{argument.name} {_buffer_type(argument).dtype}{list(np.asarray(value).shape)}"


def storable(array: Array) -> Array:
    """Arrays whose type ``.npz`` cannot name are stored as raw unsigned words."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
