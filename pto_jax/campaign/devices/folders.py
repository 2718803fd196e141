"""A case as a folder: program text, inputs, and what else executing it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...files import write_text
from ...testing.generate import Case
from ...types import TileType
from ..results import Output, Run
from .exchange import program_text, save_inputs, save_outputs

PROGRAM, INPUTS, OUTPUTS, EXPECTED = "case.pto", "inputs.npz", "outputs.npz", "expected.npz"
MANIFEST = "manifest.json"
#: A device's way to say, for one case of many, that it does not execute it.
DECLINE_FILE = "declined.txt"


def write_case(folder: Path, case: Case, expected: Run | None = None) -> None:
    """Write the files of a case into a folder that exists."""
    write_text(folder / PROGRAM, program_text(case))
    save_inputs(folder / INPUTS, case)
    if expected is not None:
        save_outputs(folder / EXPECTED, case, expected)
    write_text(folder / MANIFEST, json.dumps(manifest(case, expected), indent=1) + "\n")


def manifest(case: Case, expected: Run | None = None) -> dict[str, Any]:
    """What a case is: identity, profile, blocks, and the arguments in order."""
    found: dict[str, Any] = {
        "id": case.id,
        "seed": case.seed,
        "index": case.index,
        "profile": case.profile.name,
        "entry": case.entry,
        "grid": case.grid,
        "arguments": [
            {
                "name": name,
                "kind": _kind(i.type),
                "dtype": i.type.dtype.name,
                "shape": list(i.words.shape),
                **({"valid": list(i.valid or i.words.shape)} if isinstance(i.type, TileType) else {}),
            }
            for name, i in case.inputs.items()
        ],
    }
    if expected is not None:
        found["results"] = [_result(case, name, output) for name, output in expected.outputs.items()]
    return found


def _result(case: Case, name: str, output: Output) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "dtype": output.dtype.name, "shape": list(output.words.shape)}
    if output.valid is not None:
        found["valid"] = list(output.valid)
    return found | ({"ulp": case.ulp[name]} if case.ulp.get(name) else {})


def _kind(t: object) -> str:
    return type(t).__name__.removesuffix("Type").removesuffix("View").lower()
