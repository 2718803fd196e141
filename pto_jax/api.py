"""Reading and checking programs: the part of the public interface that needs no JAX."""

import re
from importlib.resources.abc import Traversable
from os import PathLike
from pathlib import Path

from .errors import ArgumentError, Diagnostic, FileError, VerifyError, one_of
from .garbage import seldom_collected
from .ir import TEXT_LANGUAGES, Program, TextLanguage, require_program
from .profiles import ARCHITECTURES, Profile, ProfileName, profile as _profile, profile_of_program


def load(path: str | PathLike[str] | Traversable, *, language: TextLanguage | None = None) -> Program:
    """Read a program from a file of PTO text, in a version of the language as :func:`parse` does.

    Files named ``.cpp``, ``.cc``, ``.cxx`` or ``.cce`` hold C++ that the assembler emitted.
    The file may be a member of an archive, as :mod:`importlib.resources` gives it.
    Raises FileError when the file cannot be read and ParseError when its text is no program.

    >>> from pto_jax.examples import EXAMPLES
    >>> load(EXAMPLES["vector_add"].path).functions[0].name
    'vector_add'
    """
    if isinstance(path, str | PathLike):
        from .files import read_text

        if str(path).endswith(".py"):
            allowed = "PTO text, or C++ that the assembler emitted"
            raise FileError(f"{path}: got Python code", allowed=allowed, fix="str(kernel.program), its text")
        text = read_text(Path(path))
    elif isinstance(path, Traversable):
        text = path.read_text(encoding="utf-8")
    else:
        raise ArgumentError(
            f"path: got {one_of(path)}", allowed="the name of a file", fix='pto.load("k.pto")'
        )
    return parse(text, file=str(path), language=language)


def parse(text: str, file: str = "<text>", *, language: TextLanguage | None = None) -> Program:
    """Read a program from text; ``file`` is the name error messages use. ParseError where it is no program.

    ``language`` is the version of the language: by default that of the module's attribute ``pto.language``,
    else the present one, ``2026-08``. Versions differ in the meaning of omitted attributes
    (``pto-jax isa --changes``). ``c++`` is a kernel that the assembler emitted, which becomes a program with
    addresses, flags and barriers. ArgumentError for an unknown one.

    >>> [op.name for op in parse("tneg %dst, %src : !pto.tile<16x16xf32>").walk()]
    ['tneg']
    """
    from . import text as reader

    _require_text(text)
    if re.fullmatch(r"\S+\.(pto|cpp|cc|cxx|cce)", text):
        got = f"parse: got the name of a file, {text!r}"
        raise ArgumentError(got, allowed="the text of a program", fix=f'pto.load("{text}")')
    if language is not None and language not in TEXT_LANGUAGES:
        raise ArgumentError(f"language: got {language!r}", allowed=", ".join(TEXT_LANGUAGES))
    with seldom_collected():
        return reader.parse(text, file=str(file), language=language)


def _require_text(text: object) -> None:
    if not isinstance(text, str):
        fix = f'pto.load("{text}")' if isinstance(text, PathLike) else ""
        fix = "text.decode()" if isinstance(text, bytes) else fix
        raise ArgumentError(f"parse: got {one_of(text)}", allowed="text", fix=fix)


def verify(
    program: Program,
    profile: ProfileName | Profile | None = None,
    *,
    arch: str | None = None,
    portable: bool = False,
    level: int | None = None,
    auto_sync: bool = False,
    strict: bool = False,
    raise_on_error: bool = False,
) -> list[Diagnostic]:
    """Check a program against a hardware profile; the diagnostics, in the order of the text.

    Without ``profile``, ``arch`` ("a2", "a3" or "a5") selects it as the assembler's option does: a device of
    A5 that the program names decides alone. ``portable`` accepts only what every profile guarantees.
    ``level`` is the level the program is built at: at 3 it places every tile and orders its pipes itself.
    Operations on different pipes that use the same memory unordered give warnings at level 3, and otherwise
    in functions that hold a flag or an event: a tool inserts the synchronisation of all others, and with
    ``auto_sync`` at level 3, too. ``strict`` makes errors of all warnings, and on A2/A3 demands barriers
    between dependent vector instructions. With ``raise_on_error`` findings of severity "error" raise
    VerifyError. ArgumentError for an unknown profile, architecture or level.

    >>> text = "tadd %dst, %a, %b : !pto.tile<16x16xf32>, !pto.tile<16x16xf32>, !pto.tile<16x16xf16>"
    >>> [d.severity for d in verify(parse(text), profile="a5")][:1]
    ['error']
    """
    from .verifier.functions import LEVELS
    from .verifier.programs import Build, verify_program

    if level is not None and level not in LEVELS:
        raise ArgumentError(f"level: got {level}", allowed=", ".join(map(str, LEVELS)))
    selected, build = resolve_profile(program, profile, arch=arch), Build(level, auto_sync, strict)
    with seldom_collected():
        findings = verify_program(program, selected, portable=portable, build=build)
    errors = [d for d in findings if d.severity == "error"]
    if raise_on_error and errors:
        raise VerifyError(errors)
    return findings


def resolve_profile(
    program: Program, given: str | Profile | None = None, *, arch: str | None = None
) -> Profile:
    """The profile to use: the one asked for, else the program's.

    That is A5 where its ``pto.device-spec`` says so, else the one of ``arch``, else that of its
    ``pto.target_arch``, else a2a3. ArgumentError for an unknown profile or architecture.

    >>> resolve_profile(parse("tneg %dst, %src : !pto.tile<16x16xf32>")).name
    'a2a3'
    """
    require_program(program)
    if given is not None:
        return _profile(given)
    if arch is not None and arch not in ARCHITECTURES:
        raise ArgumentError(f"unknown architecture {arch!r}", allowed=", ".join(ARCHITECTURES))
    return profile_of_program(program, arch)
