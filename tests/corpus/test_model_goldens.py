"""Kernels of models against the golden scripts that compute their results by themselves.

PTO_CORPUS names a checkout of August 2026 or later. A script judges with the tolerance of the checkout's
generator of host programs; of a kernel whose vector cores take halves it computes one core's half.

Jitted and in the interpreter, with generated inputs, every fortieth kernel is executed. PTO_MODELS_EVERY says
another number (1 for all, an hour on two cores); ``-s`` prints the table.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.analysis.entries import Argument, arguments, select_entry
from pto_jax.analysis.resolve import with_entry
from pto_jax.ir import DType, PtrType, ScalarType
from tests.corpus import scripts
from tests.corpus.language import SAMPLES
from tests.corpus.launches import NO_CORPUS
from tests.corpus.models import Row, files, measure, summary
from tests.corpus.test_language import _PRESENT, _ROOT

pytestmark = pytest.mark.skipif(not _PRESENT, reason=NO_CORPUS)
FOLDERS = {"Qwen3DecodeA3": "*", "Qwen3DecodeA5": "*"}
#: Folders of which only some scripts compute; the others write inputs.
FOLDERS |= dict.fromkeys(("DeepseekV4DecodeA3", "DeepseekV4DecodeA5"), "[kr]*_[hn]*")
COMPUTING = ("kv_hadamard", "rms_norm")


def _cases() -> list[tuple[Path, Path]]:
    """Golden scripts and their kernels."""
    found = []
    for folder, pattern in FOLDERS.items() if _PRESENT else ():
        root = _ROOT / SAMPLES / folder
        for script in sorted(root.glob(f"{pattern}_golden.py")):
            name = script.name.removesuffix("_golden.py")
            kernel = next(root.glob(f"kernels/**/{name}.pto"), None)
            if kernel is not None and (folder.startswith("Qwen") or name in COMPUTING):
                found.append((script, kernel))
    return found


_CASES = _cases()


def _dtype(argument: Argument) -> DType:
    assert isinstance(argument.type, PtrType)
    return argument.type.dtype


def _fits(found: NDArray[Any], expected: NDArray[Any], limit: float) -> bool:
    if expected.dtype == ml_dtypes.bfloat16:
        return scripts.ulps(found, expected) <= 1
    return bool(np.allclose(found, expected, atol=limit, rtol=limit, equal_nan=True))


@pytest.mark.parametrize(("script", "kernel"), _CASES, ids=[f"{s.parent.name}-{k.stem}" for s, k in _CASES])
def test_within_the_tolerance_of_the_script(script: Path, kernel: Path, tmp_path: Path) -> None:
    program = pto.load(kernel)
    launch = with_entry(program)
    given = arguments(launch, select_entry(launch, None))
    names, generator = {f"v{i + 1}": a for i, a in enumerate(given)}, scripts.generator()
    scalars = {
        a.name: generator._integer_scalar_default_value(kernel.stem, v, "int32_t")
        for v, a in names.items()
        if isinstance(a.type, ScalarType)
    }
    buffers = {v: a for v, a in names.items() if a.name not in scalars}
    lines = [f"int32_t {v} = {scalars[a.name]};" for v, a in names.items() if a.name in scalars]
    for v, a in buffers.items():
        lines.append(f"size_t elemCount_{v} = {a.min_elements or 1 << 16};")
        lines.append(f"size_t fileSize_{v} = elemCount_{v} * sizeof({scripts._C_TYPES[_dtype(a).name]});")
        lines.append(f'ReadFile("./{v}.bin"')
    (tmp_path / "main.cpp").write_text("\n".join(lines))
    (tmp_path / "outputs.txt").write_text("\n".join(v for v, a in buffers.items() if a.written))
    scripts._run(script, tmp_path)
    inputs = {a.name: np.fromfile(tmp_path / f"{v}.bin", _dtype(a).numpy) for v, a in buffers.items()}
    found = pto.compile(program, warn=False, partial_launch=True)(**inputs, **scalars)
    for v, a in buffers.items():
        if a.written:
            expected = np.fromfile(tmp_path / f"golden_{v}.bin", inputs[a.name].dtype)
            got, computed = np.asarray(found[a.name]), np.ones(expected.shape, bool)
            if launch is not program:
                computed = expected != inputs[a.name]
            assert computed.any()
            limit = generator._default_eps_for_cpp_type(scripts._C_TYPES[_dtype(a).name])
            assert _fits(got[computed], expected[computed], limit), a.name


pytestmark = pytest.mark.skipif(not _PRESENT, reason=NO_CORPUS)
EVERY = int(os.environ.get("PTO_MODELS_EVERY", "40"))
#: Kernels without communication, of a hundred, whose executions are equal.
FLOOR = 97


@cache
def rows() -> tuple[Row, ...]:
    """The kernels that are measured."""
    return tuple(measure(files(_ROOT)[::EVERY], _ROOT / SAMPLES))


def test_kernels_execute_alike() -> None:
    print(f"\n{summary(rows())}")
    own = [r for r in rows() if r.kind != "communication"]
    assert sum(r.kind == "equal" for r in own) * 100 >= FLOOR * len(own), summary(rows())


def test_no_kernel_differs_or_crashes() -> None:
    wrong = [r for r in rows() if r.kind in ("different", "crashed", "died", "rejected", "refused")]
    assert not wrong, "\n".join(map(str, wrong))
