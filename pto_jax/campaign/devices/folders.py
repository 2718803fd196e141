"""A case as a folder: program text, inputs, and what else executing it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...files import write_text
from ...generate.programs import Case
from ...ir.types import TileType
from .contract import INPUTS, MANIFEST, PROGRAM
from .exchange import program_text, save_inputs


def write_case(folder: Path, case: Case, **more: Any) -> None:
    """Write the files of a case into a folder that exists; ``more`` are further entries of its manifest."""
    write_text(folder / PROGRAM, program_text(case))
    save_inputs(folder / INPUTS, case)
    write_text(folder / MANIFEST, json.dumps({**manifest(case), **more}, indent=1) + "\n")


def manifest(case: Case) -> dict[str, Any]:
    """What a case is: identity, profile, blocks, and the arguments in order."""
    return {
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


def _kind(t: object) -> str:
    return type(t).__name__.removesuffix("Type").removesuffix("View").lower()
