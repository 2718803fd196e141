"""A case as C++: the functions of its program and a host program that checks the outputs.

The host program reads inputs, calls the entry, writes outputs and compares them. The commands that build and
execute it stand here once, for its README and its header.

>>> from pto_jax.generate.programs import generate
>>> from pto_jax.generate.options import Options
>>> case = generate(1, 0, Options(profiles=("cpu_sim",), only=frozenset({"tadd"}), statements=1))
>>> "TADD(" in source(case, ("x1",), "auto")
True
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ... import ir
from ...analysis.entries import select_entry
from ...analysis.resolve import resolve
from ...generate.programs import Case
from ...ir import ScalarType, Type
from ...isa.effects import traits_of
from ...profiles import CPU_SIM
from ...vectors.compare import has_ordered_bits
from . import operations, writer
from .writer import Mode, Unit, Writer, called, identifier, valid_sizes

_INCLUDES = (
    "<cmath> <cstdint> <cstdio> <cstdlib> <cstring> <filesystem> <fstream> <iterator> <limits> <string> "
    "<tuple> <type_traits> <vector>"
)
_HEADERS = """\
#if defined(__clang__) && defined(__CPU_SIM)
// Clang has the types and says nothing about them to the C++ library: limits, which the simulator pads and
// saturates with, and the macro without which it takes bfloat16_t for another name of half.
template <typename T, int EXPONENT, int MANTISSA>
struct Limits : std::numeric_limits<float> {
    static constexpr int digits = MANTISSA + 1;
    static constexpr T value(uint32_t word) { return __builtin_bit_cast(T, static_cast<uint16_t>(word)); }
    static constexpr uint32_t INFINITE = ((1u << EXPONENT) - 1) << MANTISSA;
    static constexpr T min() { return value(1u << MANTISSA); }
    static constexpr T max() { return value(INFINITE - 1); }
    static constexpr T lowest() { return value(0x8000u | (INFINITE - 1)); }
    static constexpr T epsilon() { return value(((1u << (EXPONENT - 1)) - 1 - MANTISSA) << MANTISSA); }
    static constexpr T infinity() { return value(INFINITE); }
    static constexpr T quiet_NaN() { return value(INFINITE | 1u << (MANTISSA - 1)); }
    static constexpr T denorm_min() { return value(1); }
};
namespace std {
template <>
struct numeric_limits<_Float16> : Limits<_Float16, 5, 10> {};
template <>
struct numeric_limits<__bf16> : Limits<__bf16, 8, 7> {};
} // namespace std
#if !defined(__STDCPP_BFLOAT16_T__)
#define __STDCPP_BFLOAT16_T__ 1
#include <pto/common/type.hpp>
#undef __STDCPP_BFLOAT16_T__
#endif
#endif
#if defined(__CPU_SIM) && defined(__PTO_AUTO__)
// Initialises a tile in the vendor's compiler; the simulator's headers use it and do not define it.
#define __cce_tinit(data) (data)
#endif
#if defined(__clang__) && defined(__CPU_SIM) && __has_include(<pto/cpu/parallel.hpp>)
// Clang takes this hint for the permission to sum in any order; without it sums are in the written order.
#include <pto/cpu/parallel.hpp>
#undef PTO_CPU_VECTORIZE_LOOP
#define PTO_CPU_VECTORIZE_LOOP
#endif
#include <pto/pto-inst.hpp>

using namespace pto;
"""
_WINDOWS = """\
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
_FILES = """\
static std::vector<char> read_file(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "%s: cannot be read\\n", path.c_str());
        std::exit(2);
    }
    return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}
static void write_file(const std::string& path, const void* data, std::size_t size)
{
    std::ofstream file(path, std::ios::binary);
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    if (!file) {
        std::fprintf(stderr, "%s: cannot be written\\n", path.c_str());
        std::exit(2);
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
_COMPARISON = """\
//! How the elements of a result compare. Words are NaN whose bits in `magnitude` are from `low` to `high`;
//! `ulp` is how many neighbouring values away a number may be.
struct Rule {
    unsigned bits;
    uint64_t magnitude, low, high, ulp;
};
static uint64_t element(const std::vector<char>& raw, std::size_t index, unsigned bits)
{
    if (bits == 4)
        return static_cast<unsigned char>(raw[index / 2]) >> (index % 2 * 4) & 15u;
    uint64_t word = 0;
    std::memcpy(&word, raw.data() + index * (bits / 8), bits / 8);
    return word;
}
//! Same bits, NaN and NaN, or numbers within the bound; zeros of different sign are different.
static bool agree(uint64_t a, uint64_t b, const Rule& rule)
{
    const uint64_t x = a & rule.magnitude, y = b & rule.magnitude;
    const bool nan_a = rule.low <= x && x <= rule.high, nan_b = rule.low <= y && y <= rule.high;
    if (a == b || nan_a || nan_b || rule.ulp == 0 || (x == 0 && y == 0))
        return a == b || (nan_a && nan_b);
    if ((a != x) != (b != y))
        return x + y + 1 <= rule.ulp;
    return (x > y ? x - y : y - x) <= rule.ulp;
}
//! Compare a result with the expected one where its mask says so; false where they differ.
static bool compare(const std::string& to, const std::string& reference, const std::string& name,
                    const Rule& rule, bool tile)
{
    const std::string expected = reference + "/expected/" + name;
    if (tile && read_file(to + "/" + name + ".valid.bin") != read_file(expected + ".valid.bin")) {
        std::printf("%s: another valid region than expected\\n", name.c_str());
        return false;
    }
    const std::vector<char> found = read_file(to + "/" + name + ".bin");
    const std::vector<char> wanted = read_file(expected + ".bin");
    const std::vector<char> mask = read_file(reference + "/mask/" + name + ".bin");
    if (found.size() != wanted.size()) {
        std::printf("%s: %zu bytes, expected %zu\\n", name.c_str(), found.size(), wanted.size());
        return false;
    }
    std::size_t compared = 0, different = 0, first = 0;
    for (std::size_t i = 0; i < mask.size(); ++i) {
        if (mask[i] == 0)
            continue;
        ++compared;
        if (!agree(element(found, i, rule.bits), element(wanted, i, rule.bits), rule) && different++ == 0)
            first = i;
    }
    std::printf("%s: %zu of %zu compared elements differ", name.c_str(), different, compared);
    if (different != 0)
        std::printf(", first element %zu: 0x%llx, expected 0x%llx", first,
                    static_cast<unsigned long long>(element(found, first, rule.bits)),
                    static_cast<unsigned long long>(element(wanted, first, rule.bits)));
    std::printf(" (%zu not compared)\\n", mask.size() - compared);
    return different == 0;
}
"""


def prelude() -> str:
    """Includes and helpers, the same for all cases."""
    includes = [f"#include {name}" for name in _INCLUDES.split()]
    return "\n".join([*includes, "", _HEADERS, _WINDOWS + writer.PRELUDE + _FILES + _COMPARISON])


_MAIN = """
//! The folder of the expected results and of the masks that say which elements are compared.
#if defined(__CPU_SIM)
static const char* const REFERENCE = "{simulator}";
#else
static const char* const REFERENCE = ".";
#endif
int main(int count, char** arguments)
{{
    const std::string from = count > 1 ? arguments[1] : "inputs", to = count > 2 ? arguments[2] : "outputs";
    const std::string reference = count > 3 ? arguments[3] : REFERENCE;
    std::filesystem::create_directories(to);
    kernel::execute(from, to);
    bool same = true;
{comparisons}
    std::puts(same ? "equal" : "different");
    return same ? 0 : 1;
}}
"""


def main(case: Case, types: Mapping[str, ir.Type], simulator: str) -> str:
    """The function ``main``.

    ``types`` are those of the results, ``simulator`` is the folder of what the CPU simulator is compared
    with.
    """
    lines = []
    for name, t in types.items():
        d = ir.I1 if isinstance(t, ir.ScalarType) else t.dtype  # type: ignore[union-attr]
        tile = "true" if isinstance(t, ir.TileType) else "false"
        spelled = _rule(d, max(0, case.ulp.get(name, 0)))
        lines.append(f'    same &= compare(to, reference, "{name}", {spelled}, {tile});')
    return _MAIN.format(simulator=simulator, comparisons="\n".join(lines))


def _rule(d: ir.DType, ulp: int) -> str:
    """How elements of a type compare, as an initialiser of the C++ struct."""
    bits = d.storage_bits
    magnitude = (1 << (bits if d.name in ("hif8", "f8e8m0") else bits - 1)) - 1
    low, high = 1, 0
    if d.name == "hif8":
        low = high = 0x80
    elif d.name in ("f8e4m3", "f8e8m0"):
        low = high = magnitude
    elif has_ordered_bits(d) and d.bits > 4:
        low, high = (((1 << d.exponent) - 1) << d.mantissa) + 1, magnitude
    bound = ulp if has_ordered_bits(d) else 0
    return f"Rule{{{bits}, {magnitude:#x}, {low:#x}, {high:#x}, {bound}}}"


# -- host program ------------------------------------------------------------------------------------


class Host:
    """Writes the function ``execute``, which calls the program's entry."""

    def __init__(self, case: Case, unit: Unit, function: ir.Function, name: str) -> None:
        self.case, self.unit, self.function, self.name = case, unit, function, name
        self.writer = Writer(unit, function)
        self.lines: list[str] = []
        #: Types of the results that are written.
        self.types: dict[str, ir.Type] = {}

    def line(self, text: str) -> None:
        """Add a line to the function."""
        self.lines.append(f"    {text}")

    def body(self, outputs: Iterable[str]) -> str:
        """The function ``execute``; what the program's functions are is known afterwards."""
        names = list(outputs)
        if self.unit.mode == "manual":
            # The larger of its two memories: the other one has half of the accumulator that is promised.
            self.lines += ["#if defined(__CPU_SIM)", "    NPU_MEMORY_INIT(NPUArch::A5);", "#endif"]
        for argument in self.function.args:
            self.argument(argument)
        results = self.results(names)
        types = {v.name: v.type for v in (*self.function.args, *results)}
        self.types = {name: types[name] for name in names}
        text = self.writer.write(self.name, results)
        self.unit.functions.append(text)
        for value in results:
            self.line(f"{self.writer.type(value.type)} {identifier(value.name)};")
        self.call([identifier(v.name) for v in (*self.function.args, *results)])
        for name, t in self.types.items():
            self.save(name, t)
        head = ["", "static void execute(const std::string& from, const std::string& to)", "{"]
        return "\n".join([*head, *self.lines, "}"])

    def results(self, names: list[str]) -> list[ir.Value]:
        """The tiles that a fragment makes and its caller wants to see."""
        values = {v.name: v for op in self.function.body.ops for v in op.results}
        arguments = {a.name for a in self.function.args}
        return [values[n] for n in names if n in values and n not in arguments]

    def argument(self, value: ir.Value) -> None:
        """Add what reads one of the program's arguments from its file."""
        t, name = value.type, identifier(value.name)
        path = f'from + "/{value.name}.bin"'
        if isinstance(t, ir.ScalarType):
            d = "uint8_t" if t.dtype == ir.I1 else t.dtype.cpp
            self.line(f"const {t.dtype.cpp} {name} = static_cast<{t.dtype.cpp}>(read_scalar<{d}>({path}));")
        elif isinstance(t, ir.VectorType):
            self.line(f"MrgSortExecutedNumList {name} = read_scalar<MrgSortExecutedNumList>({path});")
        elif isinstance(t, ir.TileType):
            self.tile(value, t, name, path)
        elif isinstance(t, ir.PartitionViewType | ir.TensorViewType):
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

    def tile(self, value: ir.Value, t: ir.TileType, name: str, path: str) -> None:
        """Add a tile of the case's valid sizes that is filled from the file ``path``, a C++ expression."""
        rows, cols = self.case.inputs[value.name].valid or t.valid
        sizes = [f"{n}u" for n, static in zip((rows, cols), valid_sizes(t), strict=True) if static is None]
        self.line(f"{self.writer.type(t)} {name}{called(sizes)};")
        if self.unit.mode == "manual":
            self.line(f"TASSIGN({name}, {self.unit.places.take(t, None):#x});")
        self.line(f"fill({name}, {path});")

    def call(self, arguments: list[str]) -> None:
        """Add the call of the entry, in a loop where the case has several blocks."""
        call = f"{self.name}({', '.join(arguments)});"
        if any(traits_of(op).launch == "blocks" for op in self.unit.program.walk()):
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

    def save(self, name: str, t: ir.Type) -> None:
        """Add what writes a result to its file."""
        variable = identifier(name)
        if isinstance(t, ir.TileType):
            self.line(f'save({variable}, to + "/{name}");')
        elif isinstance(t, ir.VectorType):
            self.line(f'write_file(to + "/{name}.bin", &{variable}, sizeof({variable}));')
        else:
            self.line(f'write_file(to + "/{name}.bin", {variable}raw.data(), {variable}raw.size());')


#: The folder of a case with headers that its compiler may lack.
SUPPORT = "support"
#: ``<stdfloat>`` for compilers whose C++ library has none; the simulator takes bfloat16_t from it.
STDFLOAT = """\
// The bfloat16_t of C++23, for compilers that have the type and no <stdfloat> that gives it this name.
#pragma once
namespace std {
using bfloat16_t = __bf16;
}
"""
#: Macros besides ``__CPU_SIM`` by how tiles are placed. Without the second one a tile that no ``TASSIGN``
#: points anywhere has no memory in the simulator, and the first access to it ends the program.
_MACROS = {"auto": ("__CPU_SIM", "__PTO_AUTO__"), "manual": ("__CPU_SIM",)}
#: What compilers were seen to do with the simulator's headers.
COMPILERS = (
    "Clang 19 is known to build it. GCC 12 and Clang 16 fail in a static assertion of the simulator's",
    "headers, Clang 14 has no 16-bit floats on x86-64.",
)


def macros(mode: Mode) -> tuple[str, ...]:
    """Macros to define for the CPU simulator.

    >>> macros("auto")
    ('__CPU_SIM', '__PTO_AUTO__')
    """
    return _MACROS[mode]


def command(mode: Mode) -> str:
    """The command that builds a case in its folder for the CPU simulator; ``PTO_ISA`` names its checkout."""
    defined = " ".join(f"-D{name}" for name in macros(mode))
    return (
        f"clang++-19 -std=c++23 -O1 -ffp-contract=off -DNDEBUG {defined} -I{SUPPORT} "
        '-I"$PTO_ISA/include" case.cpp -rtlib=compiler-rt -o case'
    )


def lines(mode: Mode) -> list[str]:
    """What the C++ file of a case says about building and executing it."""
    needed = " and ".join(f"-D{name}" for name in macros(mode))
    other = "" if mode == "auto" else ", without -D__PTO_AUTO__"
    return [
        "",
        "For the CPU simulator, in this folder. PTO_ISA is a checkout of pto-isa, of which headers are used:",
        "",
        f"    {command(mode)}",
        "    ./case",
        "",
        f"Needed: {needed}{other}; -std=c++23 and -I{SUPPORT} for bf16; -ffp-contract=off",
        "for equal bits; -rtlib=compiler-rt (Debian: libclang-rt-19-dev) where libgcc is older than 13 and",
        "cannot round to bf16. With -O0 also -mllvm -fast-isel=false: the fast selector passes bf16 wrongly.",
        *COMPILERS,
        "",
        "./case [INPUTS [OUTPUTS [REFERENCE]]] names other folders. Exit status 0: the results are as",
        "expected, 1: they differ, 2: a file cannot be read or written.",
    ]


#: Where a case has what the CPU simulator gives, when it is for another machine.
SIMULATOR_FOLDER = "cpu_sim"


@dataclass(frozen=True)
class Translation:
    """The parts of a C++ file.

    ``device`` has the tile types and functions, ``host`` a function ``execute`` that reads the inputs from
    one folder and writes the outputs, whose types are ``results``, to another.
    """

    device: str
    host: str
    results: Mapping[str, Type]


def translate(case: Case, outputs: Iterable[str], mode: Mode) -> Translation:
    """A case in C++ for the CPU simulator.

    NotExecutableError names the operation that cannot be written in it, or that the simulator lacks.
    """
    program = case.program
    function = select_entry(program, case.entry)
    numbers = {
        n: int(i.words)
        for n, i in case.inputs.items()
        if isinstance(i.type, ScalarType) and i.words.size == 1
    }
    resolved = resolve(program)
    unit = Unit(program, resolved, mode, writer.Places.of(resolved, function, numbers), operations.write)
    name = unit.name("fragment" if program.fragment else writer.identifier(function.name))
    host = Host(case, unit, function, name)
    text = host.body(outputs)
    device = "\n\n".join(["\n".join(unit.types.lines()), *unit.functions])
    return Translation(device, text, host.types)


def source(case: Case, outputs: Iterable[str], mode: Mode) -> str:
    """A whole C++ file: the program and a ``main``.

    ``main`` takes the folders of the inputs, of the outputs, and of the expected outputs with their masks.
    """
    translation = translate(case, outputs, mode)
    simulator = "." if case.profile is CPU_SIM else SIMULATOR_FOLDER
    return "\n".join(
        [
            header(case, mode),
            *([_BFLOAT16] if "bfloat16_t" in translation.device + translation.host else []),
            "namespace kernel {",
            translation.device,
            translation.host,
            "} // namespace kernel",
            main(case, translation.results, simulator),
        ]
    )


def header(case: Case, mode: Mode) -> str:
    """What a C++ file starts with: how it is built, includes and helpers."""
    who = "the compiler" if mode == "auto" else "hand"
    head = [f"Case {case.id} for {case.profile.name}; tiles are placed by {who}.", *lines(mode)]
    return "\n".join([*(f"// {line}".rstrip() for line in head), prelude()])


_BFLOAT16 = f"""\
static_assert(!std::is_same_v<bfloat16_t, half>,
              "bfloat16_t is another name of half here: -std=c++23 and -I{SUPPORT} are needed");
"""
