"""Cases as files: program text, inputs and results as arrays by name, in the form ``pto-jax run`` uses.

Buffers and tiles are arrays of their shape; element types that NumPy lacks are stored as raw unsigned
words, tiles with one word per element, buffers of packed 4-bit types with two elements to a byte (the
even one in the low bits). Scalars are arrays without dimensions. ``NAME.valid`` holds the valid rows and
columns of the tile ``NAME`` where it is not valid as a whole.

The contract of a device under test: its names and numbers, and the text of ``pto-jax fuzz --help-dut``.

What executes devices (:mod:`.dut`, :mod:`.exchange`) takes the names from here, so that the text is true.

The README of an emitted case: its files, what its results are compared with, and how C++ is built.
"""

import argparse
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
from .cpp import host, writer

#: Files of a case's folder.
PROGRAM, INPUTS, OUTPUTS, MANIFEST = "case.pto", "inputs.npz", "outputs.npz", "manifest.json"
#: A device's way to say, for one case of many, that it does not execute it.
DECLINE_FILE = "declined.txt"
#: The first word of a server's answers: the results follow; it does not execute the case; it failed.
OK, DECLINES, FAILED = "ok", "declined", "failed"
#: Exit status that declines a case.
DECLINED = 77
#: Seconds after which a device under test counts as hanging.
TIMEOUT = 60.0
#: Placeholders that a command needs, and all of them with their meaning.
NEEDED = ("program", "inputs", "outputs")
PLACEHOLDERS = {
    "program": f"path of the program, {PROGRAM}; its pto.target_arch is the profile",
    "inputs": f"path of the arguments, {INPUTS}",
    "outputs": f"path that the command writes the results to, {OUTPUTS}",
    "grid": "number of blocks to execute",
    "profile": "name of the profile: cpu_sim, a2a3 or a5",
    "folder": f"folder of all these files and of {MANIFEST}",
}
#: A device that adds 32-bit integers, as a script.
EXAMPLE = """\
import sys
import numpy as np
import pto_jax as pto

program, inputs, outputs = sys.argv[1:]
ops = list(pto.load(program).walk())
if any(op.name != "tadd" or op.destinations[0].type.dtype.name != "i32" for op in ops):
    sys.exit(77)  # declined: this device knows one instruction for one type
tiles = dict(np.load(inputs))
for op in ops:
    a, b, d = (tiles[v.name] for v in (*op.ins, *op.destinations))
    dst = op.destinations[0]
    rows, cols = tiles.get(f"{dst.name}.valid", dst.type.valid)
    d[:rows, :cols] = a[:rows, :cols] + b[:rows, :cols]  # other lanes keep what they hold
np.savez(outputs, **tiles)
"""
#: A program for it, and the same device inside the campaign's process.
PROGRAM_TEXT = "tadd %d, %a, %b : !pto.tile<16x64xi32, valid=13x50>\n"
CLASS = """\
from pto_jax.devices.exchange import input_arrays, outputs_of

class Adder:
    name = "adder"

    def run(self, case):
        tiles = input_arrays(case.inputs)  # the arrays of inputs.npz
        rows, cols = tiles.get("d.valid", case.inputs["d"].type.valid)
        tiles["d"][:rows, :cols] = tiles["a"][:rows, :cols] + tiles["b"][:rows, :cols]
        return outputs_of(case, tiles)
"""
#: The same device as a process that answers case after case, in Python and in C++.
SERVER = """\
import sys
import numpy as np
import pto_jax as pto

pipe, answers = sys.stdin.buffer, sys.stdout.buffer
while head := pipe.readline().split():
    text, inputs, results = (int(n) for n in head[4:])
    ops, arrays = list(pto.parse(pipe.read(text).decode()).walk()), {}
    for _ in range(inputs):
        name, dtype, size, *shape = pipe.readline().decode().split()
        elements = np.frombuffer(bytearray(pipe.read(int(size))), dtype)
        arrays[name] = elements.reshape([int(n) for n in shape])
    wanted = [pipe.readline().decode().split()[0] for _ in range(results)]
    known = all(op.name == "tadd" and op.destinations[0].type.dtype.name == "i32" for op in ops)
    for op in ops if known else ():
        a, b, d = (arrays[v.name] for v in (*op.ins, *op.destinations))
        rows, cols = arrays[f"{op.destinations[0].name}.valid"]
        d[:rows, :cols] = a[:rows, :cols] + b[:rows, :cols]  # other lanes keep what they hold
    found = b"".join(arrays[name].tobytes() for name in wanted)
    answers.write(b"ok\\n" + found if known else b"declined another instruction\\n")
    answers.flush()
"""
CPP = """\
#include <cstdint>
#include <iostream>
#include <map>
#include <sstream>

int main() {
  std::istream &in = std::cin;
  std::string line, name, type;
  while (std::getline(in, line)) {
    std::istringstream head(line.substr(line.find(' ', line.find(' ', 5) + 1)));  // behind ID and PROFILE
    size_t grid, text, inputs, results, size, columns = 0;
    head >> grid >> text >> inputs >> results;
    std::string program(text, ' '), found;
    in.read(&program[0], text);
    std::map<std::string, std::string> arrays;
    for (; inputs-- && in >> name >> type >> size && std::getline(in, line);) {
      in.read(&(arrays[name] = std::string(size, ' '))[0], size);
      if (name == "d") columns = std::stoi(line.substr(line.rfind(' ')));
    }
    auto of = [&](const char *which) { return reinterpret_cast<int32_t *>(&arrays[which][0]); };
    bool known = program.find("tadd %d, %a, %b :") != std::string::npos;
    for (int i = 0; known && i < of("d.valid")[0]; ++i)
      for (int j = 0; j < of("d.valid")[1]; ++j)
        of("d")[i * columns + j] = of("a")[i * columns + j] + of("b")[i * columns + j];
    for (; results-- && in >> name && std::getline(in, line);) found += arrays[name];
    std::cout << (known ? "ok\\n" + found : "declined another program\\n") << std::flush;
  }
}
"""
_TEXT = """\
A device under test is anything that executes PTO programs: a simulator, a compiler with what executes its
output, a board. pto-jax fuzz gives it programs with inputs and compares its results with another machine's.

COMMAND, ONCE PER CASE:  --dut 'CMD'  or  --tested 'dut:CMD'
The words of CMD are split as a shell splits them, without a shell; {{{{ and }}}} are braces. It is executed
in the working directory of pto-jax. What stands in braces is replaced:

{placeholders}

{{program}}, {{inputs}} and {{outputs}} are needed. Programs of several blocks are given only to commands that
ask for {{grid}} or {{folder}}.

COMMAND, ONCE PER BATCH:  --dut-batch 'CMD'  or  --tested 'dut-batch:CMD'
{{folder}} is a folder of case folders 000000, 000001, ..., each with {program}, {inputs} and {manifest}. The
command works through them in the order of their names and writes {outputs} into each, or
{declined} with a reason. A process that ends early, or answers no case for the time-out, fails the first
case without an answer and is started again for those after it.

COMMAND, STARTED ONCE:  --dut-server 'CMD'  or  --tested 'dut-server:CMD'
A case costs the device's own time. CMD has no placeholders; it is started once in each worker, reads cases
from its standard input until that ends, and writes an answer to each to its standard output, in their order.
A case is a line of words, the program, the arguments, and what is wanted:

    case ID PROFILE GRID TEXT INPUTS RESULTS
    (the program: TEXT bytes)
    NAME TYPE BYTES SIZE...        (for each of INPUTS arrays, followed by its BYTES bytes)
    NAME TYPE BYTES SIZE...        (for each of RESULTS arrays, followed by nothing)

An answer is the line "{ok}", followed by the bytes of the RESULTS arrays in their order and nothing else, or
the line "{declines} REASON" or "{fails} REASON"; it has to be flushed. TYPE is NumPy's name of the elements,
which are little-endian and row by row; what else arrays are stands below. NAME.valid stands behind every tile
NAME, among the results too. Several cases are sent before the first of them is answered. A process that ends,
answers otherwise or keeps silent for the time-out fails the first case without an answer and is started again
for those after it.

WHAT IS DECLINED
Only cases that both machines execute count: in coverage, in goals, and for --min-compared N (1). Where a
program is declined its instructions are tried in small programs; those that are declined there too, or that
the reason names, are left out of the program and of all that follow, with the operations that need them.

EXIT STATUS AND TIME
0: the results are there. {status}: declined, the device does not execute such programs; no failure. Anything
else, a signal, and no answer within --dut-timeout seconds (default: {timeout:g}) are failures of the case;
their message ends with the last lines of the command's error stream. The output stream is that of a server.
Making a failure small takes up to --shrink-calls cases (400), and the first three of a cause are made small:
where the start of a command takes long, a server or --shrink-calls 50 shows the first failures sooner.

ARRAYS
{inputs} has one array per argument of the program by its name, without the %; {outputs} gets one per buffer
and tile that the program writes, under the same names. More arrays are allowed there.
- Buffers and tiles are arrays of their shape, rows and columns in logical order whatever the layout.
- f16, f32, f64 and integers have their NumPy types. Types that NumPy lacks (bf16, f8e4m3, f8e5m2, hif8,
  f8e8m0, 4-bit floats, i4) are raw words: unsigned integers of their width, one per element. Results may be
  of any NumPy type of the right width; their bits count.
- Buffers of 4-bit floats have two elements to a byte, the even one in the low bits; tiles have one per byte.
- Scalars are arrays without dimensions, i1 is bool.
- NAME.valid has the valid rows and columns of the tile NAME as two integers. Without it the tile has those of
  its type (TileType.valid), and where the type leaves them open (?, None) the whole tile.
- Lanes of a tile outside its valid region keep what they held, and are compared too.
- Results are equal bit by bit; any NaN equals any other; instructions without an exact definition have a
  bound in units in the last place (pto-jax isa NAME).
- What has no defined value may be anything: what follows from memory that nothing wrote, from lanes that a
  source does not have, or from the bits of a NaN that is read as another type.
{manifest} has the id, seed, index, profile, entry function, number of blocks, and the arguments in order.

IN PYTHON
Functions for both sides: pto_jax.load(path) reads a program; pto_jax.devices.exchange has
input_arrays(case.inputs), outputs_of(case, arrays), save_inputs and save_outputs.
pto_jax.devices.conversation writes and reads the raw files of pto-jax emit.

--tested python:MODULE:NAME takes a class or object with a string `name` and a method `run(case)` that gives a
pto_jax.cases.targets.Run, which outputs_of makes. case has program, inputs, profile, grid and entry.
NotExecutableError (pto_jax.errors) declines; any other exception is a failure. A method
`run_all(cases)`, which gives a list of Run and exceptions, is called with many cases at once. With `follows`
True it holds in undefined memory what the profile says, and is compared there too.

EXAMPLE: a device that adds 32-bit integers, device.py

{example}
A program for it, add.pto, on which it agrees with the interpreter, until its + becomes something else:

{text}
    pto-jax fuzz --programs add.pto --count 100 --dut 'python device.py {{program}} {{inputs}} {{outputs}}'

The same as a server, server.py, for --dut-server 'python server.py':

{server}
And in C++, server.cpp, for --dut-server ./server after g++ -O2 -std=c++17 server.cpp -o server:

{cpp}
The same in the campaign's process, adder.py, for --tested python:adder:Adder (with PYTHONPATH=.):

{cls}"""


def text() -> str:
    """The contract, as ``pto-jax fuzz --help-dut`` prints it.

    >>> "exit status" in text().lower(), "{folder}" in text()
    (True, True)
    """
    width = max(map(len, PLACEHOLDERS)) + 4
    placeholders = [f"  {f'{{{name}}}':{width}}{meaning}" for name, meaning in PLACEHOLDERS.items()]
    return _TEXT.format(
        placeholders="\n".join(placeholders),
        program=PROGRAM,
        inputs=INPUTS,
        outputs=OUTPUTS,
        manifest=MANIFEST,
        declined=DECLINE_FILE,
        status=DECLINED,
        timeout=TIMEOUT,
        example=textwrap.indent(EXAMPLE, "    "),
        text=textwrap.indent(PROGRAM_TEXT, "    "),
        cls=textwrap.indent(CLASS, "    "),
        server=textwrap.indent(SERVER, "    "),
        cpp=textwrap.indent(CPP, "    "),
        ok=OK,
        declines=DECLINES,
        fails=FAILED,
    )


class Help(argparse.Action):
    """Prints the contract and ends the command, as ``--help`` does."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the contract and end the process with status 0."""
        print(text(), end="")
        parser.exit()


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
    """The inputs of a case as arrays.

    >>> from pto_jax.ir import BF16
    >>> tile = Input(TileType(BF16, 1, 16), np.full((1, 16), 0x3F80, np.uint16), (1, 5))
    >>> {name: (a.dtype.name, a.shape) for name, a in input_arrays({"x": tile}).items()}
    {'x': ('uint16', (1, 16)), 'x.valid': ('int32', (2,))}
    """
    arrays: dict[str, Array] = {}
    for name, i in inputs.items():
        pairs = i.type.dtype.packed and isinstance(i.type, GlobalTypes)
        arrays[name] = _stored(i.type.dtype, i.words, pairs)
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
        raise DeviceError(f"output {name}: found {array.dtype}, elements of {d} are {d.word} words")
    words = np.ascontiguousarray(array).view(d.word)
    if _pairs(case, name, d):
        words = unpack_pairs(words)
    if words.size != np.prod(shape, dtype=np.int64):
        raise DeviceError(f"output {name}: found shape {array.shape}, {shape} elements are needed")
    return Output(d, words.reshape(shape), _region(name, t, region) if isinstance(t, TileType) else None)


def _region(name: str, t: TileType, region: Array | None) -> tuple[int, int]:
    if region is None:
        rows, cols = t.valid if t.is_static else t.shape
        assert rows is not None
        assert cols is not None
        return rows, cols
    if region.shape != (2,) or region.dtype.kind not in "iu":
        raise DeviceError(f"output {name}{REGION}: found {region.dtype}{list(region.shape)}, not 2 integers")
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
