"""Failure folders: files that show a failure without the generator, and the commands that use them.

=========================== ==========================================================================
``shrunk.pto``              the minimal program; ``original.pto`` the program before
``inputs.npz``              arguments of the minimal program; ``original-inputs.npz`` those of the other
``expected.npz``            results of the reference executor for the minimal program, if there are any
``got.npz``                 results of the tested executor
``output.txt``              output of the tested device, if there is any
``report.json``             identity, executors, versions, the instruction, the first element that differs
=========================== ==========================================================================

Arrays have the form of :mod:`..devices.exchange`, which ``pto-jax run`` reads too. A failure in a folder can
be read, executed again, and shrunk further.
"""

import json
import math
import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .. import ir
from ..analysis.provenance import GlobalTypes
from ..api import parse
from ..cases import comparison, identity, kernels
from ..cases.edits import entry_of
from ..cases.identity import device, versions
from ..cases.shown import marked
from ..cases.targets import Run, Target
from ..devices.exchange import load_outputs, program_text, save_inputs, save_outputs
from ..devices.machines import DUT_TIMEOUT, machine
from ..errors import FileError, with_article
from ..extension import loaded
from ..files import folder_replacing, load_arrays, read_json, read_text, write_text
from ..files.read import reason
from ..files.terminal import one_line
from ..generate.programs import VERSION, Case, Ranks
from ..generate.state import Input
from ..interpreter.operands import BLOCK_NUMBERS
from ..profiles import PROFILE_NAMES, profile
from ..runtime.array_files import REGION
from . import folders, reduce, search
from .isolation import depends, varied
from .search import Finding

SHRUNK, ORIGINAL, REPORT = "shrunk.pto", "original.pto", "report.json"
INPUTS, ORIGINAL_INPUTS = "inputs.npz", "original-inputs.npz"
EXPECTED, GOT, OUTPUT = "expected.npz", "got.npz", "output.txt"
_FILES = (SHRUNK, ORIGINAL, REPORT, INPUTS, ORIGINAL_INPUTS, EXPECTED, GOT, OUTPUT)
#: Variables of the environment that may change what is computed.
_FLAGS = re.compile(r"XLA_|LIBTPU_|OMP_|CUDA_VISIBLE|NVIDIA_TF32|JAX_(?!.*(CACHE|TRACEBACK))")


@dataclass(frozen=True)
class About:
    """What is known of a failure beside its programs.

    The instruction at fault, its cause, the names of the machines, and what becomes of it where something
    else is chosen (:mod:`.isolation`).
    """

    instruction: str
    cause: str
    reference: str
    tested: str
    variants: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def save(parent: Path, original: Case, finding: Finding, about: About) -> Path:
    """Write the folder of a failure into the folder of its cause; the folder's path."""
    return write(
        parent / slug(about.cause) / f"seed{original.seed}-{original.index}", original, finding, about
    )


def write(final: Path, original: Case, finding: Finding, about: About) -> Path:
    """Write the folder of a failure, over the one of that name; what others put there stays."""
    case, outcome = finding.case, finding.outcome
    devices = identity.device_options(about.reference, about.tested)
    added = [word for file in loaded() for word in ("--extension", file)]
    report = {
        "id": original.id,
        "seed": original.seed,
        "index": original.index,
        "generator": VERSION,
        "profile": original.profile.name,
        "reference": about.reference,
        "tested": about.tested,
        "kind": outcome.kind,
        "instruction": about.instruction,
        "cause": about.cause,
        "message": outcome.message,
        "origin": list(original.origin),
        "signature": finding.signature,
        "first": _first(finding),
        "variants": {what: dict(conditions) for what, conditions in about.variants.items()},
        "only": depends(about.variants),
        "shrunk": _execution(case),
        "original": _execution(original),
        "versions": versions(("jax", "jaxlib", "numpy")),
        "device": device(),
        "flags": {k: v for k, v in sorted(os.environ.items()) if _FLAGS.match(k)},
        "command": shlex.join(["pto-jax", "replay", str(final), *devices, *added]),
    }
    with folder_replacing(final) as folder:
        write_text(folder / SHRUNK, program_text(case))
        write_text(folder / ORIGINAL, program_text(original))
        save_inputs(folder / INPUTS, case)
        save_inputs(folder / ORIGINAL_INPUTS, original)
        for file, run in ((EXPECTED, finding.wanted), (GOT, finding.found)):
            if run is not None:
                save_outputs(folder / file, case, run)
        if outcome.output:
            write_text(folder / OUTPUT, outcome.output)
        write_text(folder / REPORT, json.dumps(report, indent=1) + "\n")
        _keep_others(final, folder)
    return final


def _keep_others(old: Path, new: Path) -> None:
    """Link what a folder holds beside the files of a failure into the one that takes its place."""
    if not old.is_dir():
        return
    try:
        ours = shutil.ignore_patterns(*_FILES)
        shutil.copytree(
            old,
            new,
            symlinks=True,
            ignore=lambda folder, names: ours(folder, names) if Path(folder) == old else (),
            copy_function=_linked,
            dirs_exist_ok=True,
        )
    except (OSError, shutil.Error) as error:
        got = f"{old}: got files that are not ours: {reason(error)}"
        raise FileError(got, allowed="files that can be linked or copied") from None


def _linked(file: str, to: str) -> None:
    try:
        os.link(file, to, follow_symlinks=False)
    except OSError:  # File systems without hard links.
        shutil.copy2(file, to, follow_symlinks=False)


def slug(text: str) -> str:
    """A cause as the name of a folder.

    >>> slug("tcvt f32->i8 rmode=floor: saturation")
    'tcvt-f32-i8-rmode-floor-saturation-9c8d'
    """
    words = re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:80]
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{words}-{digest[:4]}"


def _first(finding: Finding) -> dict[str, Any] | None:
    """The first element that differs: bits on both machines, its row and column (indices of any rank)."""
    differs = finding.outcome.mismatch
    comparison = differs.comparison if differs is not None else None
    element = folders.first_difference(comparison, "output", "expected", "got")
    if not element or finding.wanted is None:
        return None
    shape = finding.wanted.outputs[element["output"]].words.shape
    return {**element, "position": [int(n) for n in np.unravel_index(element["index"], shape)]}


def _execution(case: Case) -> dict[str, Any]:
    ranks = {} if case.ranks is None else {"ranks": asdict(case.ranks)}
    return {"entry": case.entry, "grid": case.grid, "ulp": dict(case.ulp), **ranks}


def _ranks(document: Mapping[str, Any]) -> Ranks | None:
    """The processors of a case in a report; None for one. ValueError for what says neither."""
    ranks = document.get("ranks")
    return None if ranks is None else Ranks.of_json(ranks)


Held = (
    ir.TileType
    | ir.ScalarType
    | ir.PtrType
    | ir.MemRefType
    | ir.PartitionViewType
    | ir.TensorViewType
    | ir.VectorType
)
#: Characters of a wrong value that are shown.
_LINE = 80
_KEYS: dict[str, type] = {
    "id": str,
    "seed": int,
    "index": int,
    "profile": str,
    "reference": str,
    "tested": str,
    "kind": str,
    "instruction": str,
    "signature": str,
    "shrunk": dict,
    "original": dict,
}


@dataclass(frozen=True)
class Failure:
    """What a folder holds: the minimal case or the original one, and the report."""

    case: Case
    report: Mapping[str, Any]


def read_folders(path: str | Path) -> list[Path]:
    """A failure folder, those in the folder of a cause, or those of all causes in a folder."""
    reports = (p for pattern in ("*", "*/*") for p in Path(path).glob(f"{pattern}/{REPORT}"))
    inside = sorted(p.parent for p in reports if not p.parent.name.startswith("."))
    return [Path(path)] if (Path(path) / REPORT).exists() or not inside else inside


def read(path: str | Path, original: bool = False) -> Failure:
    """The failure in a folder; FileError says what is wrong with it."""
    folder = Path(path)
    if not folder.is_dir():
        raise FileError(f"{folder}: is not a folder" if folder.exists() else f"{folder}: no such folder")
    report = _report(folder / REPORT)
    execution = report["original" if original else "shrunk"]
    file = folder / (ORIGINAL if original else SHRUNK)
    program = parse(read_text(file, regular=True), str(file))
    if execution["entry"] is not None and program.function(execution["entry"]) is None:
        raise FileError(
            f"{folder}: {REPORT}: entry: got {execution['entry']!r}",
            allowed=", ".join(g.name for g in program.functions) or "none",
        )
    if execution["entry"] is None and len(program.entries) != 1:
        raise FileError(
            f"{folder}: {REPORT}: entry: got null for a program of {len(program.entries)} entries",
            allowed="the name of one of them",
        )
    case = _case(report, execution, program)
    records = {record for record, _ in case.ranks.context} if case.ranks is not None else set()
    file = folder / (ORIGINAL_INPUTS if original else INPUTS)
    arrays = load_arrays(file)
    peers = {name for name, *_ in case.ranks.peers} if case.ranks is not None else set()
    bound = records | peers | set(BLOCK_NUMBERS) - arrays.keys()
    arguments = [a for a in entry_of(case).args if a.name not in bound]
    arguments += case.ranks.unnamed(entry_of(case)) if case.ranks is not None else []
    return Failure(
        replace(case, inputs={a.name: _input(file, a, arrays, case.ranks) for a in arguments}), report
    )


def _case(report: Mapping[str, Any], execution: Mapping[str, Any], program: ir.Program) -> Case:
    """The case that a report describes, without inputs."""
    return Case(
        report["id"],
        report["seed"],
        report["index"],
        profile(report["profile"]),
        program,
        {},
        execution["ulp"],
        execution["grid"],
        execution["entry"],
        # On several processors a mutant is judged as one.
        origin=tuple(map(str, report.get("origin", ()))) if execution.get("ranks") else (),
        ranks=_ranks(execution),
    )


def _report(path: Path) -> dict[str, Any]:
    report = read_json(path, regular=True)
    if not isinstance(report, dict):
        raise FileError(f"{path}: got {with_article(type(report).__name__)}", allowed="an object")
    for key, kind in _KEYS.items():
        if type(report.get(key)) is not kind:
            raise FileError(f"{path}: {key}: got {_shown(report.get(key))}", allowed=kind.__name__)
    if report["profile"] not in PROFILE_NAMES:
        allowed = " ".join(PROFILE_NAMES)
        raise FileError(f"{path}: profile: got {report['profile']!r}", allowed=allowed)
    for part in ("shrunk", "original"):
        if not _is_execution(report[part]):
            raise FileError(
                f"{path}: {part}: got {_shown(report[part])}",
                allowed="entry (a name or null), grid (1 or more), ulp (numbers by name) and, on several "
                "processors, ranks (count, shared, context, peers)",
            )
    return report


def _is_execution(document: dict[str, Any]) -> bool:
    ulp, grid = document.get("ulp"), document.get("grid")
    try:
        _ranks(document)
    except ValueError:
        return False
    bounds = isinstance(ulp, dict) and all(type(n) is int and n >= 0 for n in ulp.values())
    return bounds and type(grid) is int and grid > 0 and isinstance(document.get("entry"), str | None)


def _shown(value: Any) -> str:
    """A value in an error, at most a line of it."""
    text = repr(value)
    return text if len(text) <= _LINE else text[:_LINE] + "..."


def _input(
    path: Path, argument: ir.Value, arrays: Mapping[str, NDArray[Any]], ranks: Ranks | None = None
) -> Input:
    """The input that an array is for an argument."""
    name, t = argument.name, argument.type
    if name not in arrays:
        held = ", ".join(arrays) or "nothing"
        raise FileError(
            f"{path}: got no array {name}; it holds {held}", allowed=f"one for each argument ({name}: {t})"
        )
    if not isinstance(t, Held):
        raise FileError(f"{path}: argument {name} is {with_article(t)}, which no folder holds")
    array, d = arrays[name], t.dtype
    if not _holds(array.dtype, d):
        raise FileError(f"{path}: {name}: got {array.dtype}", allowed=f"{d}, or its words as {d.word}")
    words: NDArray[Any] = (
        np.ascontiguousarray(array)
        .view(d.word)
        .reshape(() if isinstance(t, ir.ScalarType) and array.size == 1 else array.shape)
    )
    if d.packed and isinstance(t, GlobalTypes):
        words = ir.unpack_pairs(words)
    if not _fits(t, words.shape if ranks is None else words.shape[1:]):
        raise FileError(f"{path}: {name} has the shape {words.shape}", allowed=f"{t}")
    if not isinstance(t, ir.TileType) or t.is_static:
        return Input(t, words)
    return Input(t, words, _region(path, name, t, arrays.get(name + REGION)))


def _holds(dtype: np.dtype[Any], d: ir.DType) -> bool:
    """Whether an array type is that of elements or their words; ``.npz`` has no names for some types."""
    if dtype.itemsize != d.word.itemsize:
        return False
    return dtype in (d.numpy, d.word) or dtype.kind == "V" or (d.is_integer and dtype.kind in "iu")


def _fits(t: Held, shape: tuple[int, ...]) -> bool:
    if isinstance(t, ir.PtrType | ir.MemRefType):
        return True
    dims = () if isinstance(t, ir.ScalarType) else t.shape if isinstance(t, ir.TileType) else t.dims
    return len(dims) == len(shape) and all(n in (None, m) for n, m in zip(dims, shape, strict=True))


def _region(path: Path, name: str, t: ir.TileType, array: NDArray[Any] | None) -> tuple[int, int]:
    if array is None:
        return t.shape
    if array.shape != (2,) or array.dtype.kind not in "iu":
        raise FileError(
            f"{path}: {name}{REGION}: got {array.dtype}{list(array.shape)}", allowed="two integers"
        )
    rows, cols = (int(n) for n in array)
    if not (0 <= rows <= t.rows and 0 <= cols <= t.cols):
        raise FileError(f"{path}: {name}{REGION}: got {rows}x{cols}", allowed=f"{t}")
    return rows, cols


Verdict = Literal["reproduced", "different", "gone", "refused", "withheld"]


@dataclass(frozen=True)
class Replay:
    """What a failure is now, in one word and in a text.

    ``withheld`` are the machines that were not executed because only the folder names them.
    """

    verdict: Verdict
    text: str
    withheld: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """What a machine gave when the failure was found, in place of the machine."""

    machine: str
    file: Path

    @property
    def name(self) -> str:
        """The machine whose results they are."""
        return f"recorded results of {self.machine}"

    def run(self, case: Case) -> Run:
        """The recorded results; DeviceError where the file cannot be read as such."""
        return load_outputs(self.file, case)


def replay(
    path: str | Path,
    against: str | None = None,
    tested: str | None = None,
    original: bool = False,
    dut_timeout: float = DUT_TIMEOUT,
    trust: bool = False,
) -> Replay:
    """Execute the failure in a folder on both machines.

    The machines are those of the folder's report where none are named. Command lines and modules are
    executed only where they are named here, or with ``trust``; otherwise the results that the folder keeps
    of them are compared, and without such results (crashes, the ``original`` program) nothing is executed.
    ``different`` is a failure in another way. Raises FileError for a folder that cannot be read,
    ArgumentError for an unknown machine.
    """
    failure = read(path, original)
    report = failure.report
    withheld: list[str] = []
    targets: list[Target] = []
    for key, named, results in (("reference", against, EXPECTED), ("tested", tested, GOT)):
        name = report[key] if named is None else named
        if trust or named is not None or not identity.is_device(name):
            targets.append(machine(name, dut_timeout))
            continue
        withheld.append(name)
        if not original and (Path(path) / results).is_file():
            targets.append(Recorded(name, Path(path) / results))
    names = (against or report["reference"], tested or report["tested"])
    if len(targets) < len(names):
        return Replay("withheld", _text(failure.case, names, "not executed", report), tuple(withheld))
    first, second = targets
    finding = search.Machines(first, second).run(failure.case)
    outcome = finding.outcome
    verdict = _verdict(finding, report["kind"], report["signature"])
    said = f"{_TITLES[verdict]}: {outcome.kind}" + (f": {outcome.message}" if outcome.message else "")
    only = report.get("only")
    said += f"\n{one_line(only)}" if isinstance(only, str) and only and not original else ""
    shown = [t.name if isinstance(t, Recorded) else n for t, n in zip(targets, names, strict=True)]
    text = _text(failure.case, shown, "\n".join([said, *_first_difference(outcome, finding)]), report)
    return Replay(verdict, text, tuple(withheld))


def _verdict(finding: search.Finding, kind: str, signature: str) -> Verdict:
    outcome = finding.outcome
    if outcome.kind == "refused":
        return "refused"
    if not outcome.is_failure:
        return "gone"
    return "reproduced" if (outcome.kind, finding.signature) == (kind, signature) else "different"


_TITLES: dict[str, str] = {
    "reproduced": "reproduced",
    "different": "fails in another way",
    "gone": "does not show any more",
    "refused": "cannot be executed",
}


def _text(case: Case, names: Sequence[str], said: str, report: Mapping[str, Any]) -> str:
    reference, tested = names
    head = f"case {case.id} (seed {case.seed}, index {case.index}), profile {case.profile.name}"
    lines = [f"{head}: {tested} against {reference}", said, "", *_program(case, report["instruction"])]
    return "\n".join(lines)


def _first_difference(outcome: comparison.Outcome, finding: search.Finding) -> list[str]:
    """The first element that differs, with its place and both values."""
    first = outcome.first
    if first is None or finding.wanted is None:
        return []
    shape = finding.wanted.outputs[first.operand].words.shape
    place = tuple(int(n) for n in np.unravel_index(first.index, shape))
    return [str(first).replace(f"element {first.index}", str(place), 1)]


def _program(case: Case, instruction: str) -> list[str]:
    """The program's text, the lines of the instruction at fault marked."""
    return [f"{'>' if at_fault else ' '} {line}" for at_fault, line in marked(str(case.program), instruction)]


@dataclass(frozen=True)
class Further:
    """What became of a failure: its folder is replaced where it is ``smaller``, or ``as small`` but examined.

    ``gone``: it does not show any more; ``different``: it fails in another way than the folder says, as with
    a device that does not start; ``withheld``: a machine was not executed, because only the folder names it.
    Then the folder stays as it is.
    """

    verdict: Literal["smaller", "as small", "gone", "different", "withheld"]
    text: str


def shrink_folder(
    path: str | Path,
    calls: int,
    seconds: float = math.inf,
    *,
    against: str | None = None,
    tested: str | None = None,
    trust: bool = False,
    timeout: float = 60.0,
) -> Further:
    """Go on with the failure in a folder, for some cases on both machines.

    The machines are those of the folder's report where none are named; devices are executed only where they
    are named here, or with ``trust``. FileError for a folder that cannot be read.
    """
    failure, original = read(path), read(path, original=True)
    report = failure.report
    names = (against or report["reference"], tested or report["tested"])
    for named, name in zip((against, tested), names, strict=True):
        if named is None and not trust and identity.is_device(name):
            return Further("withheld", name)
    first, second = (machine(name, timeout) for name in names)
    form = kernels.form_for(failure.case, *names)
    machines = search.Machines(first, second, time.monotonic() + seconds, calls, form=form)
    finding = machines.run(failure.case)
    verdict = _verdict(finding, report["kind"], report["signature"])
    if verdict != "reproduced":
        said = f"{finding.outcome.kind}: {finding.outcome.message}".rstrip(": ")
        return Further("different" if verdict == "different" else "gone", said)
    blame = reduce.blamed(machines, failure.case)
    result = reduce.reduced(machines, blame)
    variants = varied(machines, result.finding)
    about = About(blame.instruction or report["instruction"], report["cause"], *names, variants)
    smaller = search.in_form(machines, result.finding)
    write(Path(path), original.case, smaller, about)
    before, after = size(failure.case), size(smaller.case)
    said = f"{_said(before)} -> {_said(after)} in {result.steps} cases"
    only = depends(variants)
    return Further("smaller" if after < before else "as small", f"{said}; {only}" if only else said)


def size(case: Case) -> tuple[int, int, int]:
    """How large a case is: operations, elements of its arguments, elements that are not zero."""
    words = [i.words for i in case.inputs.values()]
    operations = sum(1 for _ in case.program.walk())
    return operations, sum(w.size for w in words), sum(int((w != 0).sum()) for w in words)


def _said(size: tuple[int, int, int]) -> str:
    operations, elements, filled = size
    return f"{operations} operations on {elements} elements, {filled} not zero"
