"""What must hold for any text given to the parser, the verifier and the printer.

A text is a program, or a PtoError with a place says why not. A program is verified without anything but
findings with a place, and printed as text that reads back as the same program.
"""

import gc
import random
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Literal

from pto_jax.api import verify
from pto_jax.errors import Diagnostic, PtoError
from pto_jax.ir import Program
from pto_jax.profiles import PROFILE_NAMES
from pto_jax.text import parse, print_program
from tests.text.mutation.corpus import FORMS, Form

#: CPU seconds that reading, verifying and printing one text may take together: more is without end.
SECONDS = 5.0
#: What became of a text: no program, a program that its profile does not allow, a legal program.
Verdict = Literal["unreadable", "rejected", "accepted"]


@dataclass(frozen=True)
class Finding:
    """What went wrong with a text; ``where`` is the last place in this package, or the step."""

    kind: str
    where: str
    message: str

    @property
    def cause(self) -> str:
        """Findings with one cause belong together."""
        return f"{self.kind} in {self.where}"


class _TooSlow(BaseException):
    """Raised inside whatever is running when the time is over."""


class _Broken(Exception):
    """A property that does not hold."""


def check(text: str, seed: int = 0) -> Finding | Verdict:
    """The first thing that is wrong, or what became of the text where all is as it must be.

    The seed chooses profile, options of the verifier, and spelling.

    >>> check("%d = tadd %a, %b : !pto.tile<f32, 8, 8>"), check("tadd %d,, %a")
    ('accepted', 'unreadable')
    """
    try:
        # The clock is read inside: entering and leaving may collect garbage.
        with _undisturbed(), limited(3 * SECONDS):
            start = time.thread_time()
            verdict = _everything(text, random.Random(seed))
            seconds = time.thread_time() - start
    except _TooSlow as stop:
        return Finding("slow", _place(stop), f"more than {3 * SECONDS} s of CPU time")
    except MemoryError as error:
        return Finding("memory", _place(error), "more memory than allowed")
    except _Broken as error:
        return Finding("broken", str(error).partition(":")[0], str(error))
    except Exception as error:
        return Finding(type(error).__name__, _place(error), str(error)[:300])
    return Finding("slow", "the whole", f"{seconds:.2f} s of CPU time") if seconds > SECONDS else verdict


def _everything(text: str, rng: random.Random) -> Verdict:
    profile, portable = rng.choice(PROFILE_NAMES), rng.random() < 0.2
    level, form = rng.choice((None, None, 1, 2, 3)), rng.choice(FORMS)
    try:
        program = parse(text, "fuzz.pto")
    except PtoError as error:
        _placed("parse", text, error.diagnostics)
        if not error.diagnostics:
            raise _Broken(f"parse: an error without a finding: {error}") from None
        return "unreadable"
    findings = verify(program, profile, portable=portable, level=level)
    _placed("verify", text, findings)
    if _reads_back(program, None) != program:
        raise _Broken("print as read: reads back as another program")
    if _rejected(findings):
        return "rejected"
    if form is not None:
        # Another spelling may bind a result where this one names a destination; both are legal.
        again = _rejected(verify(_reads_back(program, form), profile, portable=portable, level=level))
        if again:
            raise _Broken(f"print {form}: is rejected: {again[0]}")
    return "accepted"


def _rejected(findings: list[Diagnostic]) -> list[Diagnostic]:
    return [d for d in findings if d.severity == "error"]


def _reads_back(program: Program, form: Form | None) -> Program:
    """The program that a program's text is read as."""
    how = f"print {form or 'as read'}"
    printed = print_program(program, form)
    try:
        again = parse(printed, "printed.pto")
    except PtoError as error:
        raise _Broken(f"{how}: does not read back: {error}") from None
    if print_program(again, form) != printed:
        raise _Broken(f"{how}: prints differently the second time")
    return again


def _placed(step: str, text: str, findings: tuple[Diagnostic, ...] | list[Diagnostic]) -> None:
    lines = text.count("\n") + 1
    for d in findings:
        span = d.span
        if span is None or not d.message:
            raise _Broken(f"{step}: a finding without a place: {d}")
        if not (1 <= span.line <= lines and span.col >= 1 and span.length >= 1):
            raise _Broken(f"{step}: a place outside the text: {d}")
        d.render()


def _place(error: BaseException) -> str:
    """The innermost frame of an error in this package, as module:function."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "pto_jax" in f.filename and not f.filename.endswith("text_check.py")]
    if not ours:
        return "the check"
    module = ours[-1].filename.replace("\\", "/").rpartition("/")[2]
    return f"{module}:{ours[-1].name}"


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without collections of garbage, whose cost depends on everything else that the process holds."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Stop what runs inside after some CPU seconds, where the platform can and in the main thread only."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
