"""The README of an emitted case: its files, what its results are compared with, and how C++ is built."""

import textwrap
from collections.abc import Iterable, Sequence

from ... import __version__
from ...generate.programs import Case
from ...profiles import PROFILES
from ..cpp import build, writer
from .expectation import Expectation

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
        parts += [_CPP.format(reference=other), *(f"{line}\n" for line in build.lines(mode))]
    return "".join(parts)


def _files(case: Case, simulator: Expectation | str | None, mode: writer.Mode | None) -> str:
    cpp = f"{build.SUPPORT}/        a header that its compiler may lack\n"
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
