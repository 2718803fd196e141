"""Notebooks are committed as they were executed: in order, with outputs, without errors and places."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def faults(notebook: dict[str, Any]) -> list[str]:
    """What is wrong with a notebook that is to be committed."""
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    outputs = [o for c in cells for o in c["outputs"]]
    kinds = {o["output_type"] for o in outputs}
    said = json.dumps(outputs)
    found = {
        "cells were executed in another order": [c["execution_count"] for c in cells]
        != [*range(1, len(cells) + 1)],
        "an error": "error" in kinds,
        "times of cells": any("execution" in c["metadata"] for c in cells),
        "no figure": not any("image/png" in o.get("data", {}) for o in outputs),
        "warnings": any(o.get("name") == "stderr" for o in outputs),
        "a path of a machine": re.search(r"/(home|work|root|tmp|Users)/", said) is not None,
    }
    return [what for what, is_so in found.items() if is_so]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_outputs_are_committed(path: Path) -> None:
    assert faults(json.loads(path.read_text(encoding="utf-8"))) == []


def test_a_notebook_without_outputs_is_found() -> None:
    notebook = json.loads(NOTEBOOKS[0].read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell |= {"outputs": [], "execution_count": None}
    assert faults(notebook) == ["cells were executed in another order", "no figure"]
    stream = {"output_type": "stream", "name": "stderr", "text": ["/tmp/x.py:1: Warning"]}
    notebook["cells"][1]["outputs"] = [stream, {"output_type": "error"}]
    notebook["cells"][1]["metadata"] = {"execution": {}}
    assert {"an error", "warnings", "a path of a machine", "times of cells"} <= set(faults(notebook))
