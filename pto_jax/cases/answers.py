"""What machines give for cases, whatever they do: results of the right form, or an exception for each case.

>>> from pto_jax.generate.programs import generate
>>> class Forgetful:
...     name = "forgetful"
...     def run(self, case): ...
>>> print(attempt(Forgetful(), generate(1, 0)))
run: got None; allowed: a pto_jax.cases.targets.Run; try: return outputs_of(case, arrays)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import DeviceError, Diagnostic, NotExecutableError, UnusableDeviceError
from ..generate.programs import Case
from ..generate.state import Input
from .targets import BatchTarget, Output, Run, Target, executes_ranks, follows_profile

_FIX = "return outputs_of(case, arrays)"


def attempts(machine: Target, cases: Sequence[Case]) -> Iterable[Run | Exception]:
    """What a machine gives for some cases, in order; one by one as they are asked for, where it can."""
    if isinstance(machine, BatchTarget) and all(case.ranks is None for case in cases):
        return _together(machine, cases)
    return (attempt(machine, case) for case in cases)


def attempt(machine: Target, case: Case) -> Run | Exception:
    """What a machine gives for a case."""
    try:
        if case.ranks is not None and not executes_ranks(machine):
            return NotExecutableError(Diagnostic("error", "a program for several processors", rule="ranks"))
        return _result("run", machine.run(_protected(machine, case)))
    except UnusableDeviceError:
        raise
    except Exception as error:
        # Any exception is a finding about the machine that raised it.
        return error


def _together(machine: BatchTarget, cases: Sequence[Case]) -> Iterator[Run | Exception]:
    """As many answers as there are cases: all are errors where a list has another length."""
    try:
        answers: Any = machine.run_all([_protected(machine, case) for case in cases])
        if isinstance(answers, Sequence) and len(answers) != len(cases):
            raise _another_number(len(answers), len(cases))
        following = iter(answers)
    except UnusableDeviceError:
        raise
    except Exception as error:
        yield from [error] * len(cases)
        return
    yield from _each(following, len(cases))


def _each(answers: Iterator[Any], count: int) -> Iterator[Run | Exception]:
    """The answers of an iterator; those that it does not give are errors, and the last of too many."""
    given, nothing = 0, object()
    while given < count:
        try:
            answer = next(answers, nothing)
            if answer is nothing:
                raise _another_number(given, count)
            given += 1
            if given == count and next(answers, nothing) is not nothing:
                raise _another_number(f"more than {count}", count)
        except UnusableDeviceError:
            raise
        except Exception as error:
            yield from [error] * max(1, count - given)
            return
        yield answer if isinstance(answer, Exception) else _result("run_all", answer)


def _another_number(got: int | str, cases: int) -> DeviceError:
    return DeviceError(f"run_all: got {got} results for {cases} cases", allowed="one for each, in order")


def _protected(machine: Target, case: Case) -> Case:
    """The case for a device: what it writes to its inputs does not reach the other machine."""
    if follows_profile(machine):
        return case
    return replace(case, inputs={name: _read_only(i) for name, i in case.inputs.items()})


def _read_only(i: Input) -> Input:
    words: Any = i.words
    if isinstance(words, np.generic):
        return i
    words = words.view()
    words.flags.writeable = False
    return replace(i, words=words)


def _result(method: str, result: object) -> Run | Exception:
    """A result of the right form, or an error that says what else it is."""
    if not isinstance(result, Run):
        allowed = "a pto_jax.cases.targets.Run"
        return DeviceError(f"{method}: got {_kind(result)}", allowed=allowed, fix=_FIX)
    outputs: Any = result.outputs
    if not isinstance(outputs, Mapping):
        return DeviceError(f"{method}: outputs: got {_kind(outputs)}", allowed="Outputs by name")
    for name, output in outputs.items():
        if not isinstance(output, Output):
            got = _kind(output)
            return DeviceError(f"{method}: output {name}: got {got}", allowed="an Output", fix=_FIX)
        words: Any = output.words
        if not isinstance(words, np.ndarray | np.generic) or words.dtype != output.dtype.word:
            got = f"elements of {words.dtype}" if hasattr(words, "dtype") else _kind(words)
            allowed = f"a NumPy array of {output.dtype.word}, the words of {output.dtype}"
            return DeviceError(f"{method}: output {name}: words: got {got}", allowed=allowed, fix=_FIX)
    return result


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
