"""A case as C++: the program's functions, and a host program that reads inputs, writes outputs and compares.

>>> from pto_jax.generate.programs import generate
>>> from pto_jax.generate.options import Options
>>> case = generate(1, 0, Options(profiles=("cpu_sim",), only=frozenset({"tadd"}), statements=1))
>>> "TADD(" in source(case, ("x1",), "auto")
True
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...analysis.entries import select_entry
from ...analysis.resolve import resolve
from ...generate.programs import Case
from ...ir import ScalarType, Type
from ...profiles import CPU_SIM
from . import build, operations, places, spelling, support
from .host import Host, main
from .writer import Mode, Unit

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
    unit = Unit(program, resolved, mode, places.Places.of(resolved, function, numbers), operations.write)
    name = unit.name("fragment" if program.fragment else spelling.identifier(function.name))
    host = Host(case, unit, function, name)
    text = host.body(outputs)
    device = "\n\n".join(["\n".join(unit.types.lines()), *unit.functions])
    return Translation(device, text, host.types)


def source(case: Case, outputs: Iterable[str], mode: Mode) -> str:
    """A whole C++ file: the program and a ``main``.

    ``main`` takes the folders of the inputs, of the outputs, and of the expected outputs with their masks.
    """
    made = translate(case, outputs, mode)
    simulator = "." if case.profile is CPU_SIM else SIMULATOR_FOLDER
    return "\n".join(
        [
            header(case, mode),
            *([_BFLOAT16] if "bfloat16_t" in made.device + made.host else []),
            "namespace kernel {",
            made.device,
            made.host,
            "} // namespace kernel",
            main(case, made.results, simulator),
        ]
    )


def header(case: Case, mode: Mode) -> str:
    """What a C++ file starts with: how it is built, includes and helpers."""
    who = "the compiler" if mode == "auto" else "hand"
    lines = [f"Case {case.id} for {case.profile.name}; tiles are placed by {who}.", *build.lines(mode)]
    return "\n".join([*(f"// {line}".rstrip() for line in lines), support.prelude()])


_BFLOAT16 = f"""\
static_assert(!std::is_same_v<bfloat16_t, half>,
              "bfloat16_t is another name of half here: -std=c++23 and -I{build.SUPPORT} are needed");
"""
