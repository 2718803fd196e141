"""A case as C++: the program's functions, and a host program that reads inputs and writes outputs.

>>> from pto_jax.testing.generate import generate
>>> from pto_jax.testing.generate_options import Options
>>> case = generate(1, 0, Options(profiles=("cpu_sim",), only=frozenset({"tadd"}), statements=1))
>>> "TADD(" in source(case, ("x1",), "auto")
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ...analysis import select_entry
from ...dtypes import I1
from ...ir import Function, Value
from ...testing.generate import Case
from ...types import PartitionViewType, ScalarType, TensorViewType, TileType, Type, VectorType
from . import scalars
from .places import Places
from .spelling import identifier, valid_sizes
from .writer import Mode, Unit, Writer, called

SUPPORT = """\
constexpr int ANY = DYNAMIC;
using AnyShape = Shape<ANY, ANY, ANY, ANY, ANY>;
using AnyStride = Stride<ANY, ANY, ANY, ANY, ANY>;
//! A window of global memory whose extents and strides are given when it is made.
template <typename T, Layout L = Layout::ND>
using View = GlobalTensor<T, AnyShape, AnyStride, L>;
template <typename V>
AICORE inline AnyShape shape(V& v)
{
    return AnyShape(v.GetShape(0), v.GetShape(1), v.GetShape(2), v.GetShape(3), v.GetShape(4));
}
template <typename V>
AICORE inline AnyStride stride(V& v)
{
    return AnyStride(v.GetStride(0), v.GetStride(1), v.GetStride(2), v.GetStride(3), v.GetStride(4));
}
#if defined(__CPU_SIM)
template <typename T>
constexpr std::size_t bytes()
{
    return static_cast<std::size_t>(T::Rows) * T::Cols * sizeof(typename T::DType) /
           (IsTwinType<typename T::DType>() ? 2 : 1);
}
#endif
//! A tile that nothing was written to holds zeros on the simulator and anything on hardware.
template <typename T>
AICORE inline void clear(T& tile)
{
#if defined(__CPU_SIM)
    std::memset(static_cast<void*>(tile.data()), 0, bytes<T>());
#endif
}
"""
_HOST = """\
static std::vector<char> read_file(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "%s: cannot be read\\n", path.c_str());
        std::exit(1);
    }
    return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}
static void write_file(const std::string& path, const void* data, std::size_t size)
{
    std::ofstream file(path, std::ios::binary);
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    if (!file) {
        std::fprintf(stderr, "%s: cannot be written\\n", path.c_str());
        std::exit(1);
    }
}
template <typename T>
static T read_scalar(const std::string& path)
{
    const std::vector<char> raw = read_file(path);
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
}
#if defined(__CPU_SIM)
template <typename T>
static void fill(T& tile, const std::string& path)
{
    const std::vector<char> raw = read_file(path);
    std::memcpy(static_cast<void*>(tile.data()), raw.data(), bytes<T>());
}
template <typename T>
static void save(T& tile, const std::string& path)
{
    const uint32_t valid[2] = {tile.GetValidRow(), tile.GetValidCol()};
    write_file(path + ".bin", tile.data(), bytes<T>());
    write_file(path + ".valid.bin", valid, sizeof(valid));
}
#endif
"""
INCLUDES = (
    "<cmath> <cstdint> <cstdio> <cstdlib> <cstring> <fstream> <iterator> <limits> <string> <tuple> "
    "<type_traits> <vector>"
)


@dataclass(frozen=True)
class Translation:
    """The parts of a C++ file: ``device`` has the tile types and functions, ``host`` a function ``execute``
    that reads the inputs from one folder and writes the outputs to another."""

    device: str
    host: str


def translate(case: Case, outputs: Iterable[str], mode: Mode) -> Translation:
    """A case in C++; NotExecutableError names the operation that cannot be written in it."""
    program = case.program
    function = select_entry(program, case.entry)
    known = {
        n: int(i.words)
        for n, i in case.inputs.items()
        if isinstance(i.type, ScalarType) and i.words.size == 1
    }
    unit = Unit(program, case.profile, mode, Places.of(program, case.profile, known))
    name = unit.name("fragment" if program.fragment else identifier(function.name))
    host = _Host(case, unit, function, name).body(outputs)
    return Translation("\n\n".join(["\n".join(unit.types.lines()), *unit.functions]), host)


def source(case: Case, outputs: Iterable[str], mode: Mode) -> str:
    """A whole C++ file: the program and a ``main`` that takes a folder of inputs and one for outputs."""
    made = translate(case, outputs, mode)
    return "\n".join(
        [
            header(case, mode),
            "namespace kernel {",
            made.device,
            made.host,
            "} // namespace kernel",
            "",
            "int main(int count, char** arguments)",
            "{",
            '    kernel::execute(count > 1 ? arguments[1] : "inputs", count > 2 ? arguments[2] : "outputs");',
            "    return 0;",
            "}",
            "",
        ]
    )


def header(case: Case, mode: Mode) -> str:
    """What a C++ file starts with: includes and helpers."""
    who = "the compiler" if mode == "auto" else "hand"
    title = f"// Case {case.id} for {case.profile.name}; tiles are placed by {who}."
    return "\n".join([title, prelude()])


def prelude() -> str:
    """Includes and helpers, the same for all cases."""
    includes = [f"#include {name}" for name in INCLUDES.split()]
    return "\n".join(
        [
            *includes,
            "",
            "#include <pto/pto-inst.hpp>",
            "",
            "using namespace pto;",
            "",
            SUPPORT + scalars.PRELUDE + _HOST,
        ]
    )


class _Host:
    """Writes the function that calls the program's entry."""

    def __init__(self, case: Case, unit: Unit, function: Function, name: str) -> None:
        self.case, self.unit, self.function, self.name = case, unit, function, name
        self.writer = Writer(unit, function)
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def body(self, outputs: Iterable[str]) -> str:
        """The function ``execute``; what the program's functions are is known afterwards."""
        names = list(outputs)
        for argument in self.function.args:
            self.argument(argument)
        made = self.results(names)
        text = self.writer.write(self.name, made)
        self.unit.functions.append(text)
        for value in made:
            self.line(f"{self.writer.type(value.type)} {identifier(value.name)};")
        self.call([identifier(v.name) for v in (*self.function.args, *made)])
        types = {v.name: v.type for v in (*self.function.args, *made)}
        for name in names:
            self.save(name, types[name])
        head = ["", "static void execute(const std::string& from, const std::string& to)", "{"]
        return "\n".join([*head, *self.lines, "}"])

    def results(self, names: list[str]) -> list[Value]:
        """The tiles that a fragment makes and its caller wants to see."""
        made = {v.name: v for op in self.function.body.ops for v in op.results}
        arguments = {a.name for a in self.function.args}
        return [made[n] for n in names if n in made and n not in arguments]

    def argument(self, value: Value) -> None:
        t, name = value.type, identifier(value.name)
        path = f'from + "/{value.name}.bin"'
        if isinstance(t, ScalarType):
            d = "uint8_t" if t.dtype == I1 else t.dtype.cpp
            self.line(f"const {t.dtype.cpp} {name} = static_cast<{t.dtype.cpp}>(read_scalar<{d}>({path}));")
        elif isinstance(t, VectorType):
            self.line(f"MrgSortExecutedNumList {name} = read_scalar<MrgSortExecutedNumList>({path});")
        elif isinstance(t, TileType):
            self.tile(value, t, name, path)
        elif isinstance(t, PartitionViewType | TensorViewType):
            dims = self.case.inputs[value.name].words.shape
            strides = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
            shape = ", ".join(map(str, [1] * (5 - len(dims)) + list(dims)))
            steps = ", ".join(map(str, [0] * (5 - len(dims)) + strides))
            self.line(f"std::vector<char> {name}raw = read_file({path});")
            self.line(
                f"View<{t.dtype.cpp}> {name}(reinterpret_cast<__gm__ {t.dtype.cpp}*>({name}raw.data()), "
                f"AnyShape({shape}), AnyStride({steps}));"
            )
        else:
            self.line(f"std::vector<char> {name}raw = read_file({path});")
            spelled = self.writer.type(t)
            self.line(f"{spelled} {name} = reinterpret_cast<{spelled}>({name}raw.data());")

    def tile(self, value: Value, t: TileType, name: str, path: str) -> None:
        rows, cols = self.case.inputs[value.name].valid or t.valid
        given = [f"{n}u" for n, known in zip((rows, cols), valid_sizes(t), strict=True) if known is None]
        self.line(f"{self.writer.type(t)} {name}{called(given)};")
        if self.unit.mode == "manual":
            self.line(f"TASSIGN({name}, {self.unit.places.take(t, None):#x});")
        self.line(f"fill({name}, {path});")

    def call(self, arguments: list[str]) -> None:
        call = f"{self.name}({', '.join(arguments)});"
        if any(op.name == "get_block_num" for op in self.unit.program.walk()):
            self.lines += ["#if defined(__CPU_SIM)", "    cpu_sim::EnsureRuntimeInitialized();"]
            self.lines += [f"    cpu_sim::runtime_config().num_cores = {self.case.grid};", "#endif"]
        if self.case.grid == 1:
            self.line(call)
            return
        self.line(f"for (uint32_t block = 0; block < {self.case.grid}; ++block) {{")
        self.lines += ["#if defined(__CPU_SIM)", "        NPU_MEMORY_CLEAR();"]
        self.lines += [
            "        cpu_sim::set_execution_context(block, 0);",
            "#endif",
            f"        {call}",
            "    }",
        ]

    def save(self, name: str, t: Type) -> None:
        variable = identifier(name)
        if isinstance(t, TileType):
            self.line(f'save({variable}, to + "/{name}");')
        elif isinstance(t, VectorType):
            self.line(f'write_file(to + "/{name}.bin", &{variable}, sizeof({variable}));')
        else:
            self.line(f'write_file(to + "/{name}.bin", {variable}raw.data(), {variable}raw.size());')
