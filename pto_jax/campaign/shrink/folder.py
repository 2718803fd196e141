"""Failure folders: everything that shows a failure, in files that need no generator to be read.

=========================== ==========================================================================
``shrunk.pto``              the minimal program; ``original.pto`` the one it was found with
``inputs.npz``              arguments of the minimal program; ``original-inputs.npz`` those of the other
``expected.npz``            what the reference machine gives for the minimal program, where it gives something
``got.npz``                 what the tested machine gives
``report.json``             identity, machines, versions, the instruction, the first element that differs
=========================== ==========================================================================

Arrays are described in :mod:`..devices.exchange`; ``pto-jax run`` reads them too.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ... import __version__
from ...extension import loaded
from ...files import folder_replacing, write_text
from ...generate.programs import VERSION, Case
from ..devices.exchange import program_text, save_inputs, save_outputs
from ..failures import first_difference
from ..machine_names import device_options
from .search import Finding

SHRUNK, ORIGINAL, REPORT = "shrunk.pto", "original.pto", "report.json"
INPUTS, ORIGINAL_INPUTS = "inputs.npz", "original-inputs.npz"
EXPECTED, GOT = "expected.npz", "got.npz"
#: Variables of the environment that may change what is computed.
_FLAGS = re.compile(r"XLA_|LIBTPU_|OMP_|CUDA_VISIBLE|NVIDIA_TF32|JAX_(?!.*(CACHE|TRACEBACK))")


def save(
    parent: Path,
    original: Case,
    finding: Finding,
    instruction: str,
    cause: str,
    reference: str,
    tested: str,
) -> Path:
    """Write the folder of a failure into the folder of its cause; the folder's path.

    One of the same case is replaced as a whole.
    """
    case, outcome = finding.case, finding.outcome
    final = parent / slug(cause) / f"seed{original.seed}-{original.index}"
    added = [word for file in loaded() for word in ("--extension", file)]
    report = {
        "id": original.id,
        "seed": original.seed,
        "index": original.index,
        "generator": VERSION,
        "profile": original.profile.name,
        "reference": reference,
        "tested": tested,
        "kind": outcome.kind,
        "instruction": instruction,
        "cause": cause,
        "message": outcome.message,
        "signature": finding.signature,
        "first": _first(finding),
        "shrunk": _execution(case),
        "original": _execution(original),
        "versions": versions(),
        "device": device(),
        "flags": {k: v for k, v in sorted(os.environ.items()) if _FLAGS.match(k)},
        "command": shlex.join(["pto-jax", "replay", str(final), *device_options(reference, tested), *added]),
    }
    with folder_replacing(final) as folder:
        write_text(folder / SHRUNK, program_text(case))
        write_text(folder / ORIGINAL, program_text(original))
        save_inputs(folder / INPUTS, case)
        save_inputs(folder / ORIGINAL_INPUTS, original)
        for file, run in ((EXPECTED, finding.wanted), (GOT, finding.found)):
            if run is not None:
                save_outputs(folder / file, case, run)
        write_text(folder / REPORT, json.dumps(report, indent=1) + "\n")
    return final


def slug(text: str) -> str:
    """A cause as the name of a folder.

    >>> slug("tcvt f32->i8 rmode=floor: saturation")
    'tcvt-f32-i8-rmode-floor-saturation-9c8d'
    """
    words = re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:80]
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{words}-{digest[:4]}"


def versions() -> dict[str, str]:
    """Versions of what computes."""
    return {
        "pto_jax": __version__,
        "jax": jax.__version__,
        "jaxlib": version("jaxlib"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def device() -> str:
    """The device that JAX uses."""
    first = jax.devices()[0]
    return f"{first.platform}: {first.device_kind}"


def _first(finding: Finding) -> dict[str, Any] | None:
    """The first element that differs: bits on both machines, its row and column (indices of any rank)."""
    differs = finding.outcome.mismatch
    comparison = differs.comparison if differs is not None else None
    element = first_difference(comparison, "output", "expected", "got")
    if not element or finding.wanted is None:
        return None
    shape = finding.wanted.outputs[element["output"]].words.shape
    return {**element, "position": [int(n) for n in np.unravel_index(element["index"], shape)]}


def _execution(case: Case) -> dict[str, Any]:
    return {"entry": case.entry, "grid": case.grid, "ulp": dict(case.ulp)}
