"""The checkout's golden runs by command line: ``pto-jax run FILE --inputs --outputs``.

Buffers are as small as the checkout's generator of host programs makes them: they end with the last element
of the windows that are transferred, however much larger the program's views are. A launch with a golden
script is run on its own profile and on the simulator's; the script's buffers, and its compare script where
there is one, judge the result.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pto_jax import oracle
from pto_jax.analysis.entries import Argument
from pto_jax.cli import main
from pto_jax.interpreter import Execution, Pointer, Scalar, View
from pto_jax.interpreter.operands import LocalPointer
from pto_jax.ir import MemRefType
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.oracle.step import Policy
from tests.corpus import scripts
from tests.corpus.launches import NO_CORPUS, ROOT, Launch, launches
from tests.corpus.test_run import CONTESTED

pytestmark = pytest.mark.skipif(not ROOT, reason=NO_CORPUS)


class _Reach(ReferenceMachine):
    """Notes how many elements of each buffer the windows that are transferred need."""

    def __init__(self, policy: Policy, buffers: Mapping[str, Any], max_steps: int = 1_000_000) -> None:
        super().__init__(policy, buffers, max_steps)
        self.needed: Counter[str] = Counter()

    def _need(self, buffer: str, count: int) -> None:
        self.needed[buffer] = max(self.needed[buffer], count)

    def execute(self, execution: Execution) -> Any:
        for view in execution.operands.values():
            if isinstance(view, View) and all(int(n) > 0 for n in view.shape):
                steps = zip(view.shape, view.strides, strict=True)
                self._need(view.buffer, int(view.offset) + sum((int(n) - 1) * int(s) for n, s in steps) + 1)
        return super().execute(execution)

    def load(self, op: Any, pointer: Pointer | LocalPointer, dtype: Any) -> Scalar:
        if isinstance(pointer, Pointer):
            self._need(pointer.buffer, int(pointer.offset) + 1)
        return super().load(op, pointer, dtype)

    def store(self, op: Any, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        if isinstance(pointer, Pointer):
            self._need(pointer.buffer, int(pointer.offset) + 1)
        super().store(op, pointer, value)


def _allocated(launch: Launch, given: dict[str, int]) -> Callable[[Argument], int]:
    """Sizes of the buffers of a launch with these scalars."""
    made: list[_Reach] = []

    def machine(policy: Policy, buffers: Mapping[str, Any], max_steps: int) -> _Reach:
        made.append(_Reach(policy, buffers, max_steps))
        return made[-1]

    for scalars in launch.settings(given):
        inputs = {**launch.inputs(), **scalars}
        values = {a.name: inputs[a.name] for a in launch.arguments}
        oracle.run(
            launch.program, values, profile=launch.profile, entry=launch.entry, grid=launch.grid,
            machine=machine,
        )  # fmt: skip

    def size(argument: Argument) -> int:
        if isinstance(argument.type, MemRefType):
            return launch.elements(argument)
        return max((m.needed[argument.name] for m in made), default=0) or launch.elements(argument)

    return size


def _case(launch: Launch, folder: Path) -> scripts.Case:
    script, host = scripts.golden_script(launch), scripts.host_folder(launch)
    if script is not None:
        size = _allocated(launch, scripts.script_scalars(launch, script))
        return scripts.from_golden_script(launch, script, folder, size)
    if host is not None:
        return scripts.from_host_folder(launch, host, folder)
    case = scripts.from_fifo_host(launch)
    assert case is not None
    return case


def _has_case(launch: Launch) -> bool:
    if launch.name == CONTESTED:
        return False
    if scripts.golden_script(launch) is not None:
        return True
    host = scripts.host_folder(launch)
    if host is not None:
        return not scripts.is_placeholder(host)
    return scripts.from_fifo_host(launch) is not None


def _file(launch: Launch, folder: Path) -> Path:
    """The program as it is, or with the entry that its launch adds."""
    if launch.entry != "launch":
        return launch.path
    path = folder / "launch.pto"
    path.write_text(str(launch.program), encoding="utf-8")
    return path


def _stored(x: Any) -> Any:
    array = np.asarray(x)
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


_LAUNCHES = [launch for launch in launches() if _has_case(launch)]
_RUNS = [(x, p) for x in _LAUNCHES for p in dict.fromkeys((x.profile, "cpu_sim"))]


@pytest.mark.parametrize(("launch", "profile"), _RUNS, ids=[f"{x.name}-{p}" for x, p in _RUNS])
def test_golden_run_by_command_line(launch: Launch, profile: str, tmp_path: Path) -> None:
    case = _case(launch, tmp_path)
    for n, scalars in enumerate(launch.settings(case.scalars)):
        given = {a.name: _stored({**case.inputs, **scalars}[a.name]) for a in launch.arguments}
        inputs, outputs = tmp_path / f"in{n}.npz", tmp_path / f"out{n}.npz"
        np.savez(inputs, **given)
        options = [
            "--language",
            "2026-04",
            "--entry",
            launch.entry,
            "--profile",
            profile,
            "--grid",
            str(launch.grid),
        ]
        run = ["run", str(_file(launch, tmp_path)), *options]
        assert main.main([*run, "--inputs", str(inputs), "--outputs", str(outputs)]) == 0
        with np.load(outputs) as stored:
            found = {name: stored[name] for name in stored.files}
        for name, expected in case.expected.items():
            got = found[name].view(expected.dtype).reshape(-1)
            if expected.dtype.isbuiltin == 1:
                limit = case.absolute(name)
                np.testing.assert_allclose(got, expected, rtol=limit, atol=limit)
            else:
                assert scripts.ulps(got, expected) <= 1
        if case.compare is not None:
            scripts.accepts(case, launch, found)
