"""What a person who waits is shown."""

import io
from collections import Counter

from pto_jax.campaign.fuzz.batch import Batch, alone, crash
from pto_jax.campaign.fuzz.progress import Progress
from tests.campaign.blocks import joined


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def block(start: int, count: int = 50) -> Batch:
    return Batch(start, count, Counter(equal=count), Counter({f"tadd|f32|-|full|{start}": 1}))


def test_a_log_gets_a_line_with_the_first_result_and_every_five_seconds() -> None:
    now, stream = [100.0], io.StringIO()
    progress = Progress(1000, stream, done=100, failures=2, cells={"known"}, clock=lambda: now[0])
    for second in range(1, 13):
        now[0] = 100.0 + second
        # A piece of a block counts as soon as it is there.
        failed = alone(crash(1, 99, "SIGSEGV"))
        progress.update(block(second) if second % 3 == 0 else failed if second == 10 else None)
    progress.say("a note")
    progress.clear()
    assert stream.getvalue().splitlines() == [
        "first result after 3.0 s",
        "150/1000 cases (15%), 10.0 programs/s, 2 failures, 2 coverage cells, 1 min 25 s left",
        "251/1000 cases (25%), 15.1 programs/s, 3 failures, 4 coverage cells, 50 s left",
        "a note",
    ]


def test_a_terminal_has_one_line_that_is_redrawn_and_removed() -> None:
    now, stream = [0.0], Terminal()
    progress = Progress(100, stream, clock=lambda: now[0])
    now[0] = 0.1
    progress.update(block(0))
    assert stream.getvalue() == ""
    now[0] = 1.0
    failed = joined([block(50, 49), alone(crash(1, 99, "the process ended with SIGSEGV"))])
    progress.update(failed)
    line = "100/100 cases (100%), 100 programs/s, 1 failures, 2 coverage cells, 0 s left"
    assert stream.getvalue() == f"\r{line}"
    progress.say("a note")
    assert stream.getvalue() == f"\r{line}\r{' ' * len(line)}\ra note\n"
    progress.clear()
    assert stream.getvalue().endswith("a note\n")


def test_failures_that_are_made_small_are_said() -> None:
    now, stream = [0.0], io.StringIO()
    progress = Progress(100, stream, clock=lambda: now[0])
    progress.update(block(0))
    now[0], progress.shrinking = 10.0, 2
    progress.update()
    assert ", 0 failures, 2 being shrunk, 1 coverage cells," in stream.getvalue()


def test_nothing_is_shown_when_nobody_waits() -> None:
    progress = Progress(10, None)
    progress.update(block(0, 10))
    progress.say("a note")
    progress.clear()
    assert (progress.done, progress.failures) == (10, 0)
