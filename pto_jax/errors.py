"""Every error the package raises, and the places in program text they point at.

All errors derive from :class:`PtoError`, so ``except pto.PtoError`` catches every
complaint about a program, an argument or an execution, and nothing else.
"""

import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from numbers import Integral
from typing import Literal, NamedTuple

Severity = Literal["error", "warning"]

#: Characters of one message, of one line of a text that is shown with it, and findings of one error.
MOST_CHARACTERS, MOST_SHOWN, MOST_FINDINGS = 2_000, 400, 50


def bounded(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text whose middle is left out where it is too long to be read.

    >>> bounded("k" * 60 + "; allowed: m", 24)
    'kkkkkkkkkkkkkkkkkk ... 48 characters ... wed: m'
    """
    if len(text) <= most:
        return text
    head = most * 3 // 4
    tail = most - head
    return f"{text[:head]} ... {len(text) - most} characters ... {text[-tail:]}"


def objection(got: str, allowed: str = "", fix: str = "") -> str:
    """The one form of messages: what something is or has, what is allowed instead, and a fix to paste.

    Parts that the text has already are not added again.

    >>> objection("tadds: got a scalar of type f16", "f32", "pto.tadds(t, t, 1.0)")
    'tadds: got a scalar of type f16; allowed: f32; try: pto.tadds(t, t, 1.0)'
    """
    if allowed and "; allowed" not in got:
        got = f"{got}; allowed: {allowed}"
    blank = "" if fix.startswith("\n") else "\n" if "\n" in fix else " "
    return f"{got}; try:{blank}{fix}" if fix and "; try:" not in got else got


def parts_of(message: str) -> tuple[str, str, str]:
    """What a message of this form got, allows and proposes; "" for a part that it does not have.

    >>> parts_of("grid: got 0; allowed: a positive number; try: grid=1")
    ('grid: got 0', 'a positive number', 'grid=1')
    """
    rest, _, fix = message.rpartition("; try:") if "; try:" in message else (message, "", "")
    got, _, allowed = rest.partition("; allowed: ")
    meant = re.search(r"\(did you mean '([^']+)'", message)
    return got, allowed, textwrap.dedent(fix).strip() or (meant[1] if meant else "")


def nearest(given: object, allowed: Iterable[str]) -> str:
    """The allowed word that is closest to a wrong one, "" where none is.

    >>> nearest("A3", ["cpu_sim", "a2a3", "a5"]), nearest("fastest", ["exact", "fast"]), nearest(3, ["a"])
    ('a2a3', 'fast', '')
    """
    words = {word.lower(): word for word in allowed}
    return next((words[w] for w in get_close_matches(str(given).lower(), list(words), n=1)), "")


def short_list(words: Iterable[object], most: int = 8, where: str = "") -> str:
    """Words for one line of text; of many the first ones, how many more there are, and where they stand.

    >>> short_list("abc", 2), short_list("abc", 2, "pto-jax isa")
    ('a, b, and 1 more', 'a, b, and 1 more (pto-jax isa)')
    """
    every = list(map(str, words))
    place = f" ({where})" if where else ""
    more = [f"and {len(every) - most} more{place}"] if len(every) > most else []
    return ", ".join([*every[:most], *more])


def with_article(word: object) -> str:
    """A noun with its article: types by their letters, too.

    >>> with_article("index"), with_article("f32"), with_article("float"), with_article("u8")
    ('an index', 'an f32', 'a float', 'a u8')
    """
    return f"{'an' if re.match(r'[aeioAEIO]|f[0-9]|ndarray', str(word)) else 'a'} {word}"


def one_of(value: object) -> str:
    """A value by its type, for messages about values of a wrong one.

    >>> one_of([1]), one_of(2), one_of(None)
    ('a list', 'an int', 'None')
    """
    if value is None:
        return "None"
    return with_article(type(value).__name__)


def is_number(value: object, least: int, most: int | None = None) -> bool:
    """Whether an argument is a whole number from ``least`` to ``most``; truth values are none.

    >>> is_number(2, 1), is_number(True, 1), is_number("2", 1), is_number(9, 1, 8)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return least <= int(value) and (most is None or int(value) <= most)


class Span(NamedTuple):
    r"""A location in program text: 1-based line and column, the length in characters, and the source line.

    ``python`` marks a location in the Python code that built the program.

    >>> span = Span("k.pto", 3, 6, 4, "%z = tadd %x")
    >>> print(span, span.caret(), sep="\n")
    k.pto:3:6
    %z = tadd %x
         ^^^^
    """

    file: str
    line: int
    col: int
    length: int = 1
    text: str = ""
    python: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"

    def caret(self) -> str:
        """The source line with a caret line under the place, or "" when it is unknown."""
        if not self.text:
            return ""
        # Of a long line what stands around the place.
        first = max(0, self.col - 1 - MOST_SHOWN // 2) if len(self.text) > MOST_SHOWN else 0
        text, col = self.text[first : first + MOST_SHOWN], self.col - first
        lead = "".join("\t" if c == "\t" else " " for c in text[: col - 1])
        width = max(1, min(self.length, len(text) - col + 1))
        return f"{text}\n{lead}{'^' * width}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a program.

    ``message`` says what the operand or operation has and what is allowed, both from the constructor's
    ``message`` and ``allowed``; ``fix`` is a change that can be pasted, in Python for programs built there,
    else in PTO text. ``got`` is the message without both. ``rule`` is the identifier of the constraint in
    the instruction's declaration (``pto-jax isa NAME`` prints it).

    >>> diagnostic = Diagnostic("error", "got 1 row", instruction="tneg", allowed="8", fix="rows=8")
    >>> print(diagnostic)
    error: tneg: got 1 row; allowed: 8; try: rows=8
    >>> diagnostic.to_json()["fix"]
    'rows=8'
    """

    severity: Severity
    message: str
    span: Span | None = None
    instruction: str | None = None
    operand: str | None = None
    rule: str | None = None
    allowed: str = ""
    fix: str = ""
    got: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        message = objection(self.message, self.allowed, self.fix)
        got, allowed, fix = parts_of(message)
        object.__setattr__(self, "got", bounded(got))
        object.__setattr__(self, "allowed", self.allowed or bounded(allowed))
        object.__setattr__(self, "fix", textwrap.dedent(self.fix).strip() or fix)
        object.__setattr__(self, "message", bounded(message))
        if self.instruction is not None:
            object.__setattr__(self, "instruction", bounded(self.instruction, MOST_SHOWN))

    def __str__(self) -> str:
        place = f"{self.span}: " if self.span else ""
        subject = f"{self.instruction}: " if self.instruction else ""
        operand = f"operand {self.operand}: " if self.operand else ""
        return f"{place}{self.severity}: {subject}{operand}{self.message}"

    def to_json(self, file: str | None = None) -> dict[str, str | int | None]:
        """The parts by name; ``file`` is that of a program whose diagnostic has no location."""
        span = self.span
        return {
            "file": span.file if span else file,
            "line": span.line if span else None,
            "column": span.col if span else None,
            "severity": self.severity,
            "rule": self.rule,
            "instruction": self.instruction,
            "operand": self.operand,
            "got": self.got,
            "allowed": self.allowed or None,
            "fix": self.fix or None,
            "message": self.message,
        }

    def render(self) -> str:
        """The one-line form followed by the source line and a caret, when known."""
        caret = self.span.caret() if self.span else ""
        # The lines of a fix end before the source.
        blank = "\n" if "\n" in self.message else ""
        return f"{self}\n{blank}{caret}" if caret else str(self)


class PtoError(Exception):
    """Base of all errors of the package; ``diagnostics`` holds every finding.

    ``allowed`` and ``fix`` complete the message of an error that is no finding about a program, and are
    attributes of it, as ``got`` is.

    >>> error = PtoError("grid: got 0", allowed="a positive number", fix="grid=1")
    >>> print(error)
    grid: got 0; allowed: a positive number; try: grid=1
    >>> error.got, error.fix
    ('grid: got 0', 'grid=1')
    """

    def __init__(
        self, message: str, diagnostics: Iterable[Diagnostic] = (), *, allowed: str = "", fix: str = ""
    ) -> None:
        listed = tuple(diagnostics)
        message = objection(message, allowed, fix)
        self.got, self.allowed, self.fix = parts_of(message)
        # Several findings stand on lines of their own.
        super().__init__(bounded(message, 2 * MOST_CHARACTERS if not listed else 10 * MOST_CHARACTERS))
        self.diagnostics: tuple[Diagnostic, ...] = listed


class _Located(PtoError):
    def __init__(self, findings: Diagnostic | Iterable[Diagnostic]) -> None:
        listed = (findings,) if isinstance(findings, Diagnostic) else tuple(findings)
        rendered = [d.render() for d in listed[:MOST_FINDINGS]]
        if len(listed) > MOST_FINDINGS:
            rendered.append(f"and {len(listed) - MOST_FINDINGS} more findings")
        super().__init__("\n".join(rendered), listed)
        if listed:
            # Those of the first finding, without the line of the source that is shown below it.
            self.got, self.allowed, self.fix = listed[0].got, listed[0].allowed, listed[0].fix


class ParseError(_Located):
    """Program text that cannot be read; carries file, line, column and a caret line.

    >>> import pto_jax as pto
    >>> try:
    ...     pto.parse("%z = taddx %x")
    ... except pto.ParseError as error:
    ...     print(error.diagnostics[0].span, error.diagnostics[0].fix)
    <text>:1:6 tadd
    """


class VerifyError(_Located):
    """A program that the selected profile does not allow.

    >>> import pto_jax as pto
    >>> try:
    ...     pto.compile(pto.parse("%z = tadd %x, %y : !pto.tile<f8e4m3, 4, 32>"), profile="a2a3")
    ... except pto.VerifyError as error:
    ...     print(error.diagnostics[0].rule, error.diagnostics[0].fix)
    types profile="a5"
    """


class ExecutionError(_Located):
    """A rule on run-time values that a concrete execution broke."""


class DeadlockError(ExecutionError):
    """Ranks that wait for each other for ever: what each core waits for, and where.

    >>> print(DeadlockError([Diagnostic("error", "rank 0, block 0 waits for s[0] ge 1, which is 0")], 1, 2))
    deadlock: 1 of 2 ranks waits for ever
      rank 0, block 0 waits for s[0] ge 1, which is 0
    """

    def __init__(self, findings: Iterable[Diagnostic], ranks: int, of: int) -> None:
        listed = tuple(findings)
        super().__init__(listed)
        lines = [f"deadlock: {ranks} of {of} ranks wait{'s' if ranks == 1 else ''} for ever"]
        for d in listed[:MOST_FINDINGS]:
            place = f"{d.span.file}:{d.span.line}: " if d.span is not None else ""
            lines.append(f"  {place}{d.instruction + ': ' if d.instruction else ''}{d.message}")
        if len(listed) > MOST_FINDINGS:
            lines.append(f"  and {len(listed) - MOST_FINDINGS} more cores")
        self.args = ("\n".join(lines),)


class UndefinedDataError(_Located):
    """Undefined data reached global memory, a scalar, an index or a result of an execution."""


class ArgumentError(PtoError):
    """A call of the Python interface with arguments it does not accept.

    >>> import pto_jax as pto
    >>> try:
    ...     pto.profile("A3")
    ... except pto.ArgumentError as error:
    ...     print(error)
    unknown profile 'A3'; allowed: cpu_sim, a2a3, a5; try: profile="a2a3"
    """


class UnknownNameError(PtoError, AttributeError):
    """A name that a module of the package does not have; its message names the closest of those it has.

    >>> print(UnknownNameError("m", "tgelu", lambda: ["trelu", "tadd"]))
    module 'm' has no attribute 'tgelu'; did you mean trelu?
    """

    def __init__(
        self,
        module: str,
        name: str,
        known: Callable[[], Iterable[str]],
        what: str = "attribute",
        of: str = "module",
    ) -> None:
        super().__init__(f"{of} {module!r} has no {what} {name!r}")
        self._module, self._name, self._known = module, name, known

    def __str__(self) -> str:
        # Importing a module of a package asks the package for its name first: most of these are never read.
        close = get_close_matches(self._name, list(self._known()), n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"dir({self._module}) lists what it has"
        return f"{super().__str__()}; {hint}"


class BuildError(_Located, ArgumentError):
    """A call of the Python front end that builds no operation; names the line of the Python file."""


class FileError(PtoError):
    """A file that cannot be read, or does not hold what its use requires; the message names it.

    >>> import pto_jax as pto
    >>> try:
    ...     pto.load("nowhere.pto")
    ... except pto.FileError as error:
    ...     print(error)
    nowhere.pto: no such file
    """


class DeviceError(PtoError):
    """A device under test that crashed, hung, or gave no usable results; ``output`` is what it said."""

    output: str = ""


class UnusableDeviceError(PtoError):
    """A device under test that does not start: no case can be executed."""


class DifferentiationError(PtoError):
    """Gradient of an exact instruction: integer bit handling has no useful derivative.

    >>> import jax, numpy as np, pto_jax as pto
    >>> try:
    ...     jax.grad(lambda x: pto.ops.tneg(x).array.sum())(np.ones((1, 8), np.float32))
    ... except pto.DifferentiationError as error:
    ...     print(error.fix.partition(" + ")[0])
    x
    """


class ExactnessError(PtoError):
    """Compiled code or NumPy here has other bits than exact numerics promise; the message says which."""


class PtoWarning(UserWarning):
    """A warning of the verifier about a program that compiles: each of :func:`pto_jax.verify`.

    It is shown once per program and profile. ``warnings.simplefilter("error", pto.PtoWarning)`` makes errors
    of warnings, ``"ignore"`` hides them.

    >>> import warnings, pto_jax as pto
    >>> program = pto.parse("%z = tadd %x, %y : !pto.tile<f8e4m3, 2, 32>")
    >>> with warnings.catch_warnings(record=True, action="always") as seen:
    ...     kernel = pto.compile(program, profile="cpu_sim")
    >>> seen[0].category.__name__
    'PtoWarning'
    """


class NotExecutableError(_Located):
    """A declared instruction that this engine parses and verifies but does not execute."""


def brief(error: BaseException) -> str:
    r"""An error by its class and the first line of what it says.

    >>> brief(ValueError("a line\nand another"))
    'ValueError: a line'
    """
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"
