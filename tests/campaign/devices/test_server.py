"""Devices that answer case after case: the protocol, what bad ones become, and lockstep campaigns on them."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Oracle
from pto_jax.devices.conversation import AHEAD, Server, request
from pto_jax.devices.exchange import program_text
from pto_jax.errors import DeviceError, NotExecutableError
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, cases, generate

#: Reads a case; what follows answers it. ``count`` is its number.
READING = """
import os, sys, time
pipe, out = sys.stdin.buffer, sys.stdout.buffer
count = 0
while head := pipe.readline().split():
    text, inputs, results = (int(n) for n in head[4:])
    program, arrays, wanted = pipe.read(text), {}, []
    for _ in range(inputs):
        name, dtype, size, *shape = pipe.readline().decode().split()
        arrays[name] = pipe.read(int(size))
    for _ in range(results):
        name, dtype, size, *shape = pipe.readline().decode().split()
        wanted.append((name, int(size)))
    zeros = b"".join(bytes(size) for _, size in wanted)
    count += 1
"""


@pytest.fixture
def serving(tmp_path: Path) -> Any:
    """A server whose script answers each case by some lines."""

    made: list[Server] = []

    def serving(answer: str, timeout: float = 20) -> Server:
        script = tmp_path / f"server{len(made)}.py"
        indented = "".join(f"    {line}\n" for line in answer.splitlines())
        script.write_text(f"{READING}{indented}    out.flush()\n")
        made.append(Server(shlex.join([sys.executable, "-S", str(script)]), timeout))
        return made[-1]

    yield serving
    for server in made:
        server.close()


@pytest.fixture(scope="module")
def some() -> list[Case]:
    """Fragments of one elementwise instruction."""
    return list(cases(1, 3 * AHEAD, replace(PRESETS["straight"], only=frozenset({"tadd"}), statements=1)))


def kinds(server: Server, some: list[Case]) -> list[str]:
    return [type(a).__name__ for a in server.answers(map(request, some))]


def test_one_process_answers_all_cases_in_order(serving: Any, some: list[Case]) -> None:
    server = serving('out.write(b"declined %d %s\\n" % (count, head[1]))')
    answers = list(server.answers(map(request, some)))
    reasons = [str(a).partition("declines: ")[2] for a in answers]
    assert reasons == [f"{n} {case.id}" for n, case in enumerate(some, 1)]
    with pytest.raises(NotExecutableError, match=f"{len(some) + 1} {some[0].id}"):
        server.run(some[0])


def test_results_are_read_and_compared(serving: Any, some: list[Case]) -> None:
    """Zeros are right where the sum is nothing but zeros, and the valid sizes come back as they are."""
    zeros = (
        replace(case, inputs={n: replace(i, words=np.zeros_like(i.words)) for n, i in case.inputs.items()})
        for case in some
    )
    quiet = next(c for c in zeros if not any(o.words.any() for o in Oracle().run(c).outputs.values()))
    giving = serving('out.write(b"ok\\n" + b"".join(arrays.get(n, bytes(s)) for n, s in wanted))')
    assert compare_case(quiet, Oracle(), giving).kind == "equal"
    wrong = serving('out.write(b"ok\\n" + b"\\1" + zeros[1:])')
    assert compare_case(quiet, Oracle(), wrong).kind == "different"


def test_a_case_between_two_answers_disturbs_neither(serving: Any, some: list[Case]) -> None:
    server = serving('out.write(b"declined %s\\n" % head[1])')
    seen = []
    for number, answer in enumerate(server.answers(map(request, some))):
        seen.append(str(answer).rpartition(" ")[2])
        if number in (2, 3):
            with pytest.raises(NotExecutableError, match=some[40].id):
                server.run(some[40])
    assert seen == [case.id for case in some]


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            'if count == 3: os.kill(os.getpid(), 11)\nout.write(b"declined\\n")',
            r"ended by signal 11 \(SIGSEGV\)",
        ),
        (
            'if count == 3: print("late", file=sys.stderr); sys.exit(5)\nout.write(b"declined\\n")',
            "5 .*: late",
        ),
        (
            'if count == 3: print("hello", flush=True)\nout.write(b"declined\\n")',
            "answered 'hello'; allowed: ok",
        ),
        (
            'if count == 3: out.write(b"x" * 9999)\nelse: out.write(b"declined\\n")',
            "line of more than 4096 bytes",
        ),
        ('out.write(b"failed out of tiles\\n" if count == 3 else b"declined\\n")', "says: out of tiles"),
        (
            'if count == 3: out.write(b"ok\\n"); out.flush(); sys.exit(0)\nout.write(b"declined\\n")',
            "exit status 0 before its answer",
        ),
        (
            'if count == 3: out.close(); os.close(1); time.sleep(9)\nout.write(b"declined\\n")',
            "closed its output",
        ),
    ],
)
def test_what_goes_wrong_fails_one_case(serving: Any, some: list[Case], answer: str, message: str) -> None:
    server = serving(answer)
    answers = list(server.answers(map(request, some[:5])))
    names = [type(a).__name__ for a in answers]
    assert names[2] == "DeviceError" and set(names[:2]) == {"NotExecutableError"}
    with pytest.raises(DeviceError, match=message):
        raise answers[2]


def test_more_bytes_than_were_asked_for_are_an_error_of_the_last_case_too(
    serving: Any, some: list[Case]
) -> None:
    server = serving('out.write(b"ok\\n" + zeros + b"\\n")')
    with pytest.raises(DeviceError, match=r"answered with more than the \d+ bytes asked for; stopped"):
        server.run(some[0])


def test_an_answer_that_is_too_short_is_told(serving: Any, some: list[Case]) -> None:
    asked = list(map(request, some[:2]))
    short = f"the answer before had fewer than the {asked[0].size} bytes asked for"
    with pytest.raises(DeviceError, match=short):
        raise list(serving('out.write(b"ok\\n" + zeros[:-1])').answers(asked))[1]
    with pytest.raises(DeviceError, match=rf"only \d+ of the {asked[0].size} bytes asked for within 1 s"):
        serving('out.write(b"ok\\n" + zeros[:-1])', timeout=1).run(some[0])


@pytest.mark.slow
def test_a_device_that_hangs_is_stopped_and_started_again(serving: Any, some: list[Case]) -> None:
    server = serving('if count == 2: time.sleep(99)\nout.write(b"declined\\n")', timeout=1)
    began = time.monotonic()
    answers = list(server.answers(map(request, some[:3])))
    assert [type(a).__name__ for a in answers] == ["NotExecutableError", "DeviceError", "NotExecutableError"]
    assert "no answer within 1 s" in str(answers[1]) and time.monotonic() - began < 15


def test_a_full_pipe_stops_neither_side(serving: Any, some: list[Case]) -> None:
    """Cases and error messages of more bytes than pipes hold, before anything is answered."""
    server = serving('sys.stderr.write("x" * 300_000)\nout.write(b"declined " + b"y" * 3000 + b"\\n")')
    large = [replace(case, id="z" * 900_000) for case in some[:6]]
    assert kinds(server, large) == ["NotExecutableError"] * 6


def test_a_process_ends_with_its_server(serving: Any, some: list[Case]) -> None:
    server = serving('out.write(b"declined %d\\n" % os.getpid())')
    (answer,) = server.answers([request(some[0])])
    process = int(str(answer).rpartition(" ")[2])
    os.kill(process, 0)
    server.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, signal.SIGCONT)


#: Starts a device that does not read its input, and tells its number.
STARTING = """
import sys, time
from pto_jax.devices.conversation import Conversation
device = Conversation([sys.executable, "-S", "-c", "import time; time.sleep(1000)"], 10)
print(device._process.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="only setpriv gives a signal at a parent's death")
def test_a_device_dies_with_the_worker_that_is_killed() -> None:
    worker = subprocess.Popen([sys.executable, "-c", STARTING], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    device = int(worker.stdout.readline())
    # Whoever is killed before the device itself runs leaves a device that nobody signals.
    end = time.monotonic() + 20
    while b"setpriv" in Path(f"/proc/{device}/cmdline").read_bytes() and time.monotonic() < end:
        time.sleep(0.02)
    worker.kill()
    worker.communicate()
    end = time.monotonic() + 20
    while (status := Path(f"/proc/{device}/stat")).exists() and time.monotonic() < end:
        if status.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.02)
    assert time.monotonic() < end


@pytest.mark.variants(1)
@pytest.mark.parametrize("preset", ["straight", "memory", "cores"])
def test_requests_have_all_results(preset: str) -> None:
    """What the interpreter gives is what a device is asked for, in the arrays that its answer has."""
    for case in (generate(2, index, PRESETS[preset]) for index in range(12)):
        made, expected = request(case), Oracle().run(case)
        named = {slot.name for slot in made.results if not slot.name.endswith(".valid")}
        assert named == set(expected.outputs)
        assert program_text(case).encode() in made.message
        run = made.run(bytes(made.size))
        shapes = {name: (o.dtype, o.words.shape) for name, o in expected.outputs.items()}
        assert {name: (o.dtype, o.words.shape) for name, o in run.outputs.items()} == shapes
