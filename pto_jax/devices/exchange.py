"""Cases as files, the contract of a device under test, and the README of an emitted case.

Program text, inputs and results have the form that ``pto-jax run`` uses. Buffers and tiles are arrays of
their shape. Element types that NumPy lacks are stored as raw unsigned words: tiles with one word per element,
buffers of packed 4-bit types with two elements to a byte (the even one in the low bits). Scalars are arrays
without dimensions. ``NAME.valid`` holds the valid rows and columns of the tile ``NAME`` if it is not valid as
a whole.

All modules that execute devices take names and numbers of the contract from here, as does the text of
``pto-jax fuzz --help-dut``.
"""

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..analysis.provenance import GlobalTypes
from ..cases.expectation import Expectation
from ..cases.targets import Output, Run
from ..errors import DeviceError, FileError
from ..files import load_arrays, save_arrays, write_text
from ..generate.programs import Case
from ..generate.state import Input
from ..ir import DType, Program, ScalarType, TileType, VectorType, attrs, pack_pairs, unpack_pairs
from ..isa.history import spelled_out
from ..profiles import PROFILES
from ..runtime.array_files import REGION, storable
from .contract import INPUTS, MANIFEST, PROGRAM
from .cpp import host, writer

Array = NDArray[Any]


def program_text(case: Case) -> str:
    """The program in the present version of the language, with the case's profile as its target."""
    program = spelled_out(case.program, case.profile)
    target = attrs(program.attrs, **{"pto.target_arch": case.profile.name})
    return str(replace(program, attributes=target, has_module=True))


def write_case(folder: Path, case: Case, **more: Any) -> None:
    """Write the files of a case into a folder that exists; ``more`` are further entries of its manifest."""
    write_text(folder / PROGRAM, program_text(case))
    save_inputs(folder / INPUTS, case)
    write_text(folder / MANIFEST, json.dumps({**manifest(case), **more}, indent=1) + "\n")


def manifest(case: Case) -> dict[str, Any]:
    """What a case is: identity, profile, blocks, and the arguments in order."""
    return {
        "id": case.id,
        "seed": case.seed,
        "index": case.index,
        "profile": case.profile.name,
        "entry": case.entry,
        "grid": case.grid,
        "arguments": [
            {
                "name": name,
                "kind": _kind(i.type),
                "dtype": i.type.dtype.name,
                "shape": list(i.words.shape),
                **({"valid": list(i.valid or i.words.shape)} if isinstance(i.type, TileType) else {}),
            }
            for name, i in case.inputs.items()
        ],
    }


def _kind(t: object) -> str:
    return type(t).__name__.removesuffix("Type").removesuffix("View").lower()


def save_inputs(path: Path, case: Case) -> None:
    """Write the inputs of a case as ``.npz``."""
    save_arrays(str(path), input_arrays(case.inputs))


def save_outputs(path: Path, case: Case, run: Run) -> None:
    """Write the results of a case as ``.npz``."""
    arrays: dict[str, Array] = {}
    for name, output in run.outputs.items():
        arrays[name] = _stored(output.dtype, output.words, _pairs(case, name, output.dtype))
        if output.valid is not None and output.valid != output.words.shape:
            arrays[name + REGION] = np.array(output.valid, np.int32)
    save_arrays(str(path), arrays)


def load_outputs(path: Path, case: Case) -> Run:
    """The results in a file; DeviceError says what is wrong with it."""
    try:
        return outputs_of(case, load_arrays(path))
    except FileError as error:
        # Without the folder, which is another one each time: equal causes have equal messages.
        reason = str(error).removeprefix(f"{path}: ")
        raise DeviceError(f"outputs: {path.name}: {reason}") from None


def input_arrays(inputs: Mapping[str, Input]) -> dict[str, Array]:
    """The inputs of a case as arrays of their own: writing to them leaves the case as it is.

    >>> from pto_jax.ir import BF16
    >>> tile = Input(TileType(BF16, 1, 16), np.full((1, 16), 0x3F80, np.uint16), (1, 5))
    >>> {name: (a.dtype.name, a.shape) for name, a in input_arrays({"x": tile}).items()}
    {'x': ('uint16', (1, 16)), 'x.valid': ('int32', (2,))}
    """
    arrays: dict[str, Array] = {}
    for name, i in inputs.items():
        pairs = i.type.dtype.packed and isinstance(i.type, GlobalTypes)
        arrays[name] = _stored(i.type.dtype, i.words, pairs).copy()
        if isinstance(i.type, TileType) and i.valid is not None and i.valid != i.words.shape:
            arrays[name + REGION] = np.array(i.valid, np.int32)
    return arrays


def outputs_of(case: Case, arrays: Mapping[str, Array]) -> Run:
    """Arrays as results; DeviceError names one that cannot be a result of the case."""
    outputs: dict[str, Output] = {}
    for name, array in arrays.items():
        if name.endswith(REGION) and name.removesuffix(REGION) in arrays:
            continue
        outputs[name] = _output(case, name, array, arrays.get(name + REGION))
    return Run(outputs)


def _output(case: Case, name: str, array: Array, region: Array | None) -> Output:
    argument = case.inputs.get(name)
    t = result_types(case.program).get(name) if argument is None else argument.type
    if t is None or isinstance(t, ScalarType):
        raise DeviceError(f"output {name}: the program has no buffer or tile of this name")
    shape = (
        argument.words.shape if argument is not None else t.shape if isinstance(t, TileType) else array.shape
    )
    d = t.dtype
    if array.dtype.itemsize != d.word.itemsize or array.dtype.kind not in "fiuV":
        raise DeviceError(f"output {name}: got {array.dtype}", allowed=f"{d}, or its words as {d.word}")
    words = np.ascontiguousarray(array).view(d.word)
    if _pairs(case, name, d):
        words = unpack_pairs(words)
    # Memory without a shape of its own, and what lies flat, may have any shape.
    other = array.ndim > 1 and len(shape) > 1 and words.shape != shape
    if other or words.size != np.prod(shape, dtype=np.int64):
        raise DeviceError(f"output {name}: got the shape {array.shape}", allowed=f"{shape}")
    return Output(d, words.reshape(shape), _region(name, t, region) if isinstance(t, TileType) else None)


def _region(name: str, t: TileType, region: Array | None) -> tuple[int, int]:
    if region is None:
        rows, cols = t.valid if t.is_static else t.shape
        assert rows is not None
        assert cols is not None
        return rows, cols
    if region.shape != (2,) or region.dtype.kind not in "iu":
        raise DeviceError(
            f"output {name}{REGION}: got {region.dtype}{list(region.shape)}", allowed="two integers"
        )
    return int(region[0]), int(region[1])


def stored_form(t: TileType | VectorType) -> Array:
    """An array as files have them for a result that is no argument: zeros."""
    shape = t.shape if isinstance(t, TileType) else tuple(n or 0 for n in t.dims)
    return _stored(t.dtype, np.zeros(shape, t.dtype.word), False)


def result_types(program: Program) -> dict[str, Any]:
    """The types of everything that can be a result, by name."""
    types = {v.name: v.type for f in program.functions for op in f.body.ops for v in op.results}
    return types | {a.name: a.type for f in program.functions for a in f.args}


def _pairs(case: Case, name: str, d: DType) -> bool:
    """Whether an array holds two elements to a byte."""
    argument = case.inputs.get(name)
    return d.packed and argument is not None and isinstance(argument.type, GlobalTypes)


def _stored(d: DType, words: Array, pairs: bool) -> Array:
    if pairs:
        return pack_pairs(words)
    if d.name == "i1":
        return words.view(np.bool_)
    return storable(np.ascontiguousarray(words).view(d.numpy).reshape(words.shape))


_WIDTH = 100
_FILES = """\
Case {id}, written by pto-jax {version} for {profile}{blocks}.

case.pto        the program{entry}
{cpp}manifest.json   identity, arguments and results: names, element types, shapes, valid regions, gaps
inputs.npz      the arguments by name
expected.npz    the results; mask.npz: where they are compared
inputs/         the arguments as raw files: NAME.bin
expected/       the results as raw files, with NAME.valid.bin for tiles; mask/: a byte per element
{simulator}
Raw files are little-endian elements in the order of memory: buffers row by row, tiles in the order of
their layout, 4-bit floats two to a byte (the even one in the low bits), a scalar as one element, a truth
value as one byte. NAME.valid.bin has the valid rows and columns as two 32-bit integers. In .npz files,
element types that NumPy lacks are unsigned words; masks are true where an element is compared, with one
truth value per element also where two elements share a byte.
"""
_RULES = """
COMPARISON

Results are to be equal bit by bit where the mask is not 0, valid regions always. Any NaN equals any other
NaN, zeros of different sign differ. A result with "ulp" in the manifest may be that many units in the last
place away.
"""
_CPP = """
C++

case.cpp is for the CPU simulator: its host program fills tiles through memory, executes the program,
writes outputs/ as expected/ is written and compares it with {reference}.
"""


def readme(
    case: Case,
    expected: Expectation,
    simulator: Expectation | str | None,
    differences: Sequence[str],
    mode: writer.Mode | None,
) -> str:
    """The text of a case's README.

    ``simulator`` is what the CPU simulator is compared with where that is not ``expected``, or why there is
    no such thing; ``differences`` says how the two differ, ``mode`` how tiles are placed in C++.
    """
    parts = [_files(case, simulator, mode), _RULES, *_expectations(expected, simulator, differences)]
    if mode is not None:
        other = "cpu_sim/expected/" if isinstance(simulator, Expectation) else "expected/"
        parts += [_CPP.format(reference=other), *(f"{line}\n" for line in host.lines(mode))]
    return "".join(parts)


def _files(case: Case, simulator: Expectation | str | None, mode: writer.Mode | None) -> str:
    cpp = f"{host.SUPPORT}/        a header that its compiler may lack\n"
    other = "cpu_sim/        expected and mask, raw and .npz, of the CPU simulator\n"
    return _FILES.format(
        id=case.id,
        version=__version__,
        profile=case.profile.title,
        blocks=f", {case.grid} blocks" if case.grid > 1 else "",
        entry=f"; {case.entry} is executed" if case.entry else "",
        cpp=""
        if mode is None
        else f"case.cpp        the program in C++ intrinsics, with a host program\n{cpp}",
        simulator=other if isinstance(simulator, Expectation) else "",
    )


def _expectations(
    expected: Expectation, simulator: Expectation | str | None, differences: Sequence[str]
) -> Iterable[str]:
    yield _expectation("expected/ and mask/", expected)
    if isinstance(simulator, Expectation):
        yield _expectation("cpu_sim/expected/ and cpu_sim/mask/", simulator)
    elif simulator is not None:
        yield _paragraph(f"There is nothing to compare the CPU simulator with: {simulator}.")
    if differences:
        yield _paragraph(
            "On the CPU simulator this differs, by the rules of both machines and not by a bug; cpu_sim/ has "
            "what it gives:"
        )
        yield "".join(_item(d) for d in differences)


def _expectation(where: str, expected: Expectation) -> str:
    title = PROFILES[expected.machine].title
    lanes, total = expected.lanes, sum(mask.size for mask in expected.compared.values())
    text = _paragraph(f"{where} hold for: {title}. {lanes} of {total} elements are compared.")
    if expected.ends is not None:
        text += _paragraph(
            f"The public CPU simulator is no reference here and may not survive the case: {expected.ends}."
        )
    return text + "".join(
        _item(f"not compared: {g.output}, {g.elements} elements: {g.reason}") for g in expected.gaps
    )


def _paragraph(text: str) -> str:
    return "\n" + textwrap.fill(text, _WIDTH, break_on_hyphens=False) + "\n"


def _item(text: str) -> str:
    return (
        textwrap.fill(text, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        + "\n"
    )
