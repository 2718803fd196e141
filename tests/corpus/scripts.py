"""What the checkout says about inputs and results: golden scripts and host programs beside the programs.

A golden script expects to run in a folder with the source of a generated host program, from which it reads
the sizes of the buffers, their types and the integer arguments. That folder is made here from the program's
own arguments, by the rules of the checkout's generator: argument i is called v<i+1>, integers have the
generator's default values. The scripts run as they are, in a process of their own.
"""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from pto_jax.analysis.entries import Argument
from pto_jax.ir import MemRefType, PtrType, ScalarType
from tests.corpus.launches import ROOT, Launch

Arrays = dict[str, NDArray[Any]]
_C_TYPES = {"f32": "float", "bf16": "uint16_t", "f16": "aclFloat16", "i32": "int32_t", "i16": "int16_t"}


# A script that takes the cosines and sines in another order than the program declares them.
EXCHANGED = {"qwen3_decode_incore_4": {"v2": "v3", "v3": "v2", "v7": "v8", "v8": "v7"}}


@dataclass(frozen=True)
class Case:
    """Inputs of one call and what comes out of it; ``how`` names what said so."""

    how: str
    inputs: Arrays
    scalars: dict[str, int]
    expected: Arrays
    absolute: Callable[[str], float]
    compare: Path | None = None
    folder: Path | None = None


@cache
def generator() -> Any:
    """The checkout's generator of host programs, which knows default values and tolerances."""
    path = Path(ROOT) / "test/npu_validation/scripts/generate_testcase.py"
    spec = importlib.util.spec_from_file_location("generate_testcase", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tolerance(launch: Launch) -> Callable[[str], float]:
    """Allowed absolute and relative error of a buffer where no compare script gives one."""
    types = {a.name: a.type.dtype.name for a in launch.arguments if isinstance(a.type, PtrType | MemRefType)}
    return lambda name: float(generator()._default_eps_for_cpp_type(_C_TYPES.get(types[name], "int32_t")))


def golden_script(launch: Launch) -> Path | None:
    """``<case>_golden.py`` beside the program: of its own name, else of the Python file that builds it."""
    folder = launch.path.parent
    own = folder / f"{launch.key}_golden.py"
    if own.is_file():
        return own
    for script in sorted(folder.glob(f"{launch.key}_*_golden.py")):
        source = script.with_name(script.name.replace("_golden", ""))
        if source.is_file() and launch.entry in source.read_text(encoding="utf-8"):
            return script
    return None


def script_scalars(launch: Launch, script: Path) -> dict[str, int]:
    """The integer arguments that a golden script expects: the generator's default values."""
    case = script.name.removesuffix("_golden.py")
    return {
        a.name: generator()._integer_scalar_default_value(case, f"v{i + 1}", "int32_t")
        for i, a in enumerate(launch.arguments)
        if isinstance(a.type, ScalarType)
    }


def from_golden_script(
    launch: Launch, script: Path, folder: Path, elements: Callable[[Argument], int] | None = None
) -> Case:
    """Run a golden script in a folder made for the program; ``elements`` gives the sizes of the buffers."""
    elements = elements or launch.elements
    names = {f"v{i + 1}": a for i, a in enumerate(launch.arguments)}
    case = script.name.removesuffix("_golden.py")
    lines, buffers = [], []
    scalars = script_scalars(launch, script)
    for v, a in names.items():
        if isinstance(a.type, ScalarType):
            lines.append(f"int32_t {v} = {scalars[a.name]};")
            continue
        assert isinstance(a.type, PtrType | MemRefType)
        buffers.append((v, a))
        lines.append(f"size_t elemCount_{v} = {elements(a)};")
        lines.append(f"size_t fileSize_{v} = elemCount_{v} * sizeof({_C_TYPES[a.type.dtype.name]});")
        lines.append(f'ReadFile("./{v}.bin"')
    (folder / "main.cpp").write_text("\n".join(lines))
    written = [v for v, a in buffers if a.written]
    (folder / "outputs.txt").write_text("\n".join(written))
    _run(script, folder)
    dtypes = {v: a.type.dtype.numpy for v, a in buffers if isinstance(a.type, PtrType | MemRefType)}
    compare = script.with_name(f"{case}_compare.py")
    order = EXCHANGED.get(case, {})
    return Case(
        str(script.relative_to(ROOT)),
        {names[v].name: np.fromfile(folder / f"{order.get(v, v)}.bin", dtypes[v]) for v, _ in buffers},
        scalars,
        {names[v].name: np.fromfile(folder / f"golden_{v}.bin", dtypes[v]) for v in written},
        tolerance(launch),
        compare if compare.is_file() else None,
        folder,
    )


def _run(script: Path, folder: Path) -> None:
    path = os.pathsep.join(
        [str(script.parent), str(Path(ROOT) / "test/samples"), os.environ.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (script, done.stdout, done.stderr)


def accepts(case: Case, launch: Launch, outputs: Mapping[str, NDArray[Any]]) -> None:
    """Let the checkout's compare script judge outputs."""
    assert case.compare is not None and case.folder is not None
    for i, a in enumerate(launch.arguments):
        if a.name in outputs:
            outputs[a.name].tofile(case.folder / f"v{i + 1}.bin")
    _run(case.compare, case.folder)


# -- folders with a whole host program ----------------------------------------------------------------


def host_folder(launch: Launch) -> Path | None:
    """The npu_validation folder whose host program runs this program whole (``*-pto-new``)."""
    folder = launch.path.parent / "npu_validation"
    return folder if launch.path.stem.endswith("-pto-new") and (folder / "golden.py").is_file() else None


def is_placeholder(folder: Path) -> bool:
    """Whether a compare script ignores failures: its golden values are constants, not results."""
    return "ignored" in (folder / "compare.py").read_text(encoding="utf-8")


def host_scalars(folder: Path) -> dict[str, int]:
    text = (folder / "main.cpp").read_text(encoding="utf-8")
    return {v: int(n) for v, n in re.findall(r"int32_t (v\d+) = (\d+);", text)}


def host_files(folder: Path, made: Path) -> tuple[Arrays, Arrays]:
    """Run golden.py; its input files and its golden files by name, all f32."""
    _run(folder / "golden.py", made)
    files = {p.stem: np.fromfile(p, np.float32) for p in sorted(made.glob("*.bin"))}
    golden = {k.removeprefix("golden_"): v for k, v in files.items() if k.startswith("golden_")}
    return {k: v for k, v in files.items() if not k.startswith("golden_")}, golden


def from_host_folder(launch: Launch, folder: Path, made: Path) -> Case:
    """A program whose arguments are v1, v2, ... of the host program."""
    files, golden = host_files(folder, made)
    given = host_scalars(folder)
    names = {a.name: f"v{i + 1}" for i, a in enumerate(launch.arguments)}
    buffers = [a for a in launch.arguments if isinstance(a.type, PtrType)]
    size = next(iter(golden.values())).size
    return Case(
        str((folder / "golden.py").relative_to(ROOT)),
        {a.name: files.get(names[a.name], np.zeros(size, np.float32)) for a in buffers},
        {n: given[v] for n, v in names.items() if v in given},
        {n: golden[v] for n, v in names.items() if v in golden},
        lambda _: compare_eps(folder),
        folder / "compare.py",
        made,
    )


def compare_eps(folder: Path) -> float:
    """The tolerance of a host program's compare script."""
    found = re.search(r"np\.float32, ([\d.e-]+)\)", (folder / "compare.py").read_text(encoding="utf-8"))
    assert found is not None
    return float(found[1])


def chain(folder: Path) -> tuple[list[tuple[str, list[str]]], dict[str, str]]:
    """The launches of a host program: entry names with the buffers they get, and the buffers' file names."""
    text = (folder / "main.cpp").read_text(encoding="utf-8")
    files = {
        host.replace("Host", "Device"): v
        for v, host in re.findall(r'(?:Read|Write)File\("\./(v\d+)\.bin",.*?(\w+Host\d)', text)
    }
    calls = re.findall(r"^\s*Launch(\w+)\((.*), stream\);", text, re.MULTILINE)
    return [(name[0].lower() + name[1:], args.split(", ")) for name, args in calls], files


# -- FIFO programs, whose host program is C++ ---------------------------------------------------------


def from_fifo_host(launch: Launch) -> Case | None:
    """Inputs and result of a TPushTPop host program that checks its result.

    Its elements are given by one expression per operand, its result is the old output plus the product.
    """
    source = launch.path.parent / "main.cpp"
    text = source.read_text(encoding="utf-8") if source.is_file() else ""
    values = dict(
        re.findall(r"float (\w+)Value\(int row, int col\) \{\s*return static_cast<float>\((.*?)\);", text)
    )
    if set(values) != {"lhs", "rhs"}:
        return None
    pointers = {a.name: a.type.dtype.numpy for a in launch.arguments if isinstance(a.type, PtrType)}
    extents = {
        k: eval(n, {"__builtins__": {}}) for k, n in re.findall(r"constexpr int (\w+) = ([\d* ]+);", text)
    }
    m, k, n = extents.values() if len(extents) == 3 else (0, 0, 0)
    lhs, rhs = _grid(values["lhs"], m, k), _grid(values["rhs"], k, n)
    out, out_name = np.ones((m, n), np.float32), next(iter(pointers))
    given = dict(zip(pointers, (out, lhs, rhs), strict=True))
    tolerance = re.search(r"std::fabs\(.*\) > ([\d.e-]+)f", text)
    assert tolerance is not None
    limit = float(tolerance[1])
    return Case(
        str(source.relative_to(ROOT)),
        {name: value.astype(pointers[name]).reshape(-1) for name, value in given.items()},
        {},
        {out_name: (out + lhs @ rhs).reshape(-1)},
        lambda _: limit,
    )


def _grid(expression: str, rows: int, cols: int) -> NDArray[np.float32]:
    """An expression of row and col, in which only numbers and operators may stand."""
    assert re.fullmatch(r"[\d\s()+*%-]|(?:row|col|[\d\s()+*%-])+", expression), expression
    row, col = np.mgrid[:rows, :cols]
    return np.asarray(eval(expression, {"__builtins__": {}}, {"row": row, "col": col}), np.float32)


def printing_inputs(launch: Launch) -> Arrays | None:
    """Inputs of a TPushTPop program that prints: a product with the identity, whose values are known.

    The first operand of a product is the identity and block i of the second is full of i + 1; a round
    trip sends 0, 1, 2 ... through it.
    """
    if "TPushTPop" not in launch.path.parts or not launch.prints:
        return None
    eye = np.eye(16, dtype=np.float32).reshape(-1)
    found: Arrays = {}
    for a in launch.arguments:
        if a.name in ("gm_a", "gm_identity"):
            found[a.name] = eye
        elif a.name == "gm_src":
            found[a.name] = np.arange(256, dtype=np.float32)
        elif a.name == "gm_slot_buffer":
            found[a.name] = np.zeros(2048, np.float32)
        else:
            found[a.name] = np.repeat(np.arange(1, 5, dtype=np.float32), 256)
    return found


def ulps(found: NDArray[Any], expected: NDArray[Any]) -> int:
    """Largest distance of two bf16 arrays in units of the last place."""

    def ordered(x: NDArray[Any]) -> NDArray[np.int64]:
        bits = x.view(np.int16).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFF), bits)

    assert found.dtype == expected.dtype == ml_dtypes.bfloat16
    return int(np.max(np.abs(ordered(found) - ordered(expected)), initial=0))
