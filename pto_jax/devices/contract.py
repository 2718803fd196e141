"""The contract of a device under test: its names and numbers, and the text of ``pto-jax fuzz --help-dut``.

What executes devices takes the names from here, so that the text is true. The command line imports this
file before it knows that anything is executed.
"""

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any

#: Files of a case's folder.
PROGRAM, INPUTS, OUTPUTS, MANIFEST = "case.pto", "inputs.npz", "outputs.npz", "manifest.json"


#: A device's way to say, for one case of many, that it does not execute it.


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
    sys.exit(77)  # declined: this device has one instruction for one type
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
A device under test is anything that executes PTO programs: a simulator, a compiler with its target, a board.
pto-jax fuzz gives it programs with inputs and compares its results with those of the interpreter.

COMMAND, ONCE PER CASE:  --dut 'CMD'  or  --tested 'dut:CMD'
The words of CMD are split as a shell splits them, without a shell; {{{{ and }}}} are braces. It is executed
in the working directory of pto-jax. These words are replaced:

{placeholders}

{{program}}, {{inputs}} and {{outputs}} are needed. Programs of several blocks are given only to commands that
ask for {{grid}} or {{folder}}.

COMMAND, STARTED ONCE:  --dut-server 'CMD'  or  --tested 'dut-server:CMD'
A case costs the device's own time. CMD has no placeholders; it is started once in each worker, reads cases
from its standard input until that ends, and writes an answer to each to its standard output, in their order.
A case is a line of words, the program, the arguments, and the results that are asked for:

    case ID PROFILE GRID TEXT INPUTS RESULTS
    (the program: TEXT bytes)
    NAME TYPE BYTES SIZE...        (for each of INPUTS arrays, followed by its BYTES bytes)
    NAME TYPE BYTES SIZE...        (for each of RESULTS arrays, followed by nothing)

An answer is the line "{ok}", followed by the bytes of the RESULTS arrays in their order and nothing else, or
the line "{declines} REASON" or "{fails} REASON"; it has to be flushed. TYPE is NumPy's name of the elements,
which are little-endian and row by row; ARRAYS below has the rest. NAME.valid stands behind every tile
NAME, among the results too. Several cases are sent before the first of them is answered. A process that ends,
answers otherwise or keeps silent for the time-out fails the first case without an answer and is started again
for those after it.

PROGRAMS
Generated programs are functions over pointers, as assemblers and boards take them: constants, views of global
memory, tiles, loads, instructions, stores. --form any adds instructions without a function, whose tiles are
arguments; --programs FILE gives programs of yours.

DECLINED CASES
Only cases that both executors run count: in coverage, in goals, and for --min-compared N (1). Where a
program is declined its instructions are tried in small programs; those that are declined there too, or that
the reason names, are left out of the program and of all that follow, with the operations that need them.

EXIT STATUS AND TIME
0: the results are there. {status}: declined, the device does not execute such programs; no failure. Anything
else, a signal, and no answer within --dut-timeout seconds (default: {timeout:g}) are failures of the case;
their message ends with the last lines of the command's error stream. The output stream is that of a server.
Shrinking a failure takes up to --shrink-calls cases (400), and the first three of a group are shrunk:
where the start of a command takes long, a server or --shrink-calls 50 shows the first failures sooner.

ARRAYS
{inputs} has one array per argument of the program by its name, without the %; {outputs} gets one per buffer
and tile that the program writes, under the same names. Its other arguments are allowed there, too: buffers
hold what they held.
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
- Undefined values may be anything: results of memory that nothing wrote, of lanes that a source does not
  have, or of the bits of a NaN that is read as another type.
{manifest} has the id, seed, index, profile, entry function, number of blocks, and the arguments in order.

IN PYTHON
Functions for both sides: pto_jax.load(path) reads a program; pto_jax.devices.exchange has
input_arrays(case.inputs), outputs_of(case, arrays), save_inputs and save_outputs.
pto_jax.devices.conversation writes and reads the raw files of pto-jax emit.

--tested python:MODULE:NAME takes a class or object with a string `name` and a method `run(case)` that gives a
pto_jax.cases.targets.Run, which outputs_of makes. case has program, inputs, profile, grid and entry.
NotExecutableError (pto_jax.errors) declines; any other exception is a failure. A method
`run_all(cases)`, which gives a list of Run and exceptions, is called with many cases at once. With `follows`
True it holds the values of the profile in undefined memory, and is compared there too.

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
