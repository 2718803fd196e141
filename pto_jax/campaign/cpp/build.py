"""How an emitted C++ case is built and executed: the one source of what its README and its header say."""

from .writer import Mode

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
