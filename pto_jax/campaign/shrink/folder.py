"""Failure folders: everything that shows a failure, in files that need no generator to be read.

=========================== ==========================================================================
``shrunk.pto``              the minimal program; ``original.pto`` the one it was found with
``inputs.npz``              arguments of the minimal program; ``original-inputs.npz`` those of the other
``expected.npz``            what the reference machine gives for the minimal program, where it gives something
``got.npz``                 what the tested machine gives
``output.txt``              what the tested device said, where it said anything
``report.json``             identity, machines, versions, the instruction, the first element that differs
=========================== ==========================================================================

Arrays are described in :mod:`..devices.exchange`; ``pto-jax run`` reads them too.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import FileError
from ...extension import loaded
from ...files import folder_replacing, write_text
from ...files.read import reason
from ...generate.programs import VERSION, Case
from .. import failures, machine_names
from ..devices.exchange import program_text, save_inputs, save_outputs
from ..fuzz.identity import device, versions
from .search import Finding
from .variants import depends

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
    else is chosen (:mod:`.variants`).
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
    devices = machine_names.device_options(about.reference, about.tested)
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
        "variants": {what: dict(found) for what, found in about.variants.items()},
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
        raise FileError(f"{old}: what else it holds cannot be kept: {reason(error)}") from None


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
    element = failures.first_difference(comparison, "output", "expected", "got")
    if not element or finding.wanted is None:
        return None
    shape = finding.wanted.outputs[element["output"]].words.shape
    return {**element, "position": [int(n) for n in np.unravel_index(element["index"], shape)]}


def _execution(case: Case) -> dict[str, Any]:
    return {"entry": case.entry, "grid": case.grid, "ulp": dict(case.ulp)}
