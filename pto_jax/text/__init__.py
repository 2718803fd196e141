"""PTO text: reader and printer; reader of C++ that the assembler emits."""

from typing import Literal

from ..ir import Program, TextLanguage, program
from .programs import ProgramReader

#: Names of files that hold C++.
SUFFIXES = (".cpp", ".cc", ".cxx", ".cce")

__all__ = ["SUFFIXES", "parse", "print_program"]


def parse(text: str, file: str = "<text>", language: TextLanguage | None = None) -> Program:
    """Read a program, or a fragment of instructions.

    ``file`` names the source in messages, ``language`` is the version of the language that the text is in:
    by default the one it names, else the present one; ``c++`` is what the assembler emits, the default for
    files with a name of C++. Raises ParseError with file, line, column and a caret
    line.

    >>> p = parse("%d = tadd %a, %b : !pto.tile<f32, 16, 16>")
    >>> p.fragment, [str(v) for v in p.functions[0].args], p.fragment_results
    (True, ['%a', '%b'], ('d',))
    """
    if language == "c++" or (language is None and file.endswith(SUFFIXES)):
        from .cpp_program import read_cpp

        return read_cpp(text, file)
    return ProgramReader(text, file, language).program()


def print_program(program: Program, form: Literal["as", "ssa", "dps", "generic"] | None = None) -> str:
    """A program as text that reads back as the same program.

    ``form`` chooses the spelling of tile instructions: assembly, SSA or destination-passing; None keeps
    the one each was read in. ``generic`` is MLIR's generic form of the whole program.

    >>> p = parse("pto.tadd ins(%a, %b : !pto.tile_buf<f32, 8, 8>, !pto.tile_buf<f32, 8, 8>)"
    ...           " outs(%d : !pto.tile_buf<f32, 8, 8>)")
    >>> print(print_program(p, "as"))
    %d = tadd %a, %b : !pto.tile<f32, 8, 8>
    <BLANKLINE>
    """
    from .printer import Printer, named_language

    if form == "generic":
        from .generic_text import generic_lines

        attributes = (*program.attributes, *named_language(program))
        return "".join(line + "\n" for line in generic_lines(program, attributes))
    return Printer(program, form).text()


program.register(print_program)
