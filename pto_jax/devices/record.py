"""Executed instructions as test vectors, in the format ``pto-jax conformance`` reads."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import isa
from ..analysis.addresses import scalar_dtype
from ..cases import targets
from ..files import save_arrays
from ..generate.programs import Case
from ..interpreter import Execution, TileRef, View
from ..ir import Compact, DType, GlobalLayout, Value
from ..oracle.machine import ReferenceMachine
from ..oracle.numbers import Array, encode
from ..oracle.step import Step
from ..vectors import cases, exclusions


@dataclass
class Recording:
    """Vectors of the instructions that some cases execute, by file."""

    entries: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    arrays: dict[str, dict[str, Array]] = field(default_factory=dict)

    def run(self, case: Case) -> targets.Run:
        """Execute a case on the reference interpreter and record its instructions."""
        return targets.Oracle(machine=partial(_Machine, self, case)).run(case)

    def add(self, name: str, entry: dict[str, Any], arrays: Mapping[str, Array]) -> None:
        """Add a vector of the file ``name``: its manifest entry, with the case's id, and its arrays."""
        entries = self.entries.setdefault(name, [])
        identity = f"{name}_{entry['case']}_{len(entries):04d}"
        entries.append({"id": identity, **{k: v for k, v in entry.items() if k != "case"}})
        held = self.arrays.setdefault(name, {})
        held.update({f"{identity}/{key}": array for key, array in arrays.items()})

    def save(self, folder: Path) -> Counter[str]:
        """Write a file per instruction; gives the number of vectors in each."""
        for name, entries in self.entries.items():
            manifest = {"manifest": np.array(json.dumps(entries))}
            save_arrays(str(folder / f"{name}.npz"), {**manifest, **self.arrays[name]})
        return Counter({name: len(entries) for name, entries in self.entries.items()})


class _Machine(ReferenceMachine):
    """A reference machine that records what its instructions read and write."""

    def __init__(self, recording: Recording, case: Case, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.recording, self.case = recording, case

    def compute(self, execution: Execution, step: Step) -> None:
        name = _file(execution)
        described = _described(execution, step) if name is not None else None
        if name is None or described is None:
            super().compute(execution, step)
            return
        entries, attributes = described
        stored = [n for n, entry in entries.items() if entry["role"] != "scalar"]
        before = {n: self.stored_bytes(execution.operands[n], step) for n in stored}
        super().compute(execution, step)
        arrays = {f"{n}/before": b for n, b in before.items()}
        for n in before:
            if _role(entries[n]) in ("out", "inout"):
                arrays[f"{n}/after"] = self.stored_bytes(execution.operands[n], step)
        d = _element(execution.operands[next(iter(before))])
        ulp = execution.instruction.ulp.get(d.name, 0)
        entry = {
            "case": self.case.id,
            "instruction": name.upper(),
            "attrs": attributes,
            "operands": list(entries.values()),
            "compare": {"mode": "ulp" if ulp else "bit-exact", "ulp": ulp, "nan": "any-nan-equal"},
        }
        self.recording.add(name, entry, arrays)

    def stored_bytes(self, operand: TileRef | View, step: Step) -> Array:
        """The bytes of a tile, or of global memory from a view's first element on."""
        if isinstance(operand, TileRef):
            return cases.to_physical(operand.type, self.stored(operand))
        memory = step.memory(operand.buffer)
        start = int(operand.offset) * operand.dtype.storage_bits // 8
        return np.array(memory[start:], np.uint8)


def _file(execution: Execution) -> str | None:
    """The name of the file an instruction's vectors are in; None where the format has no such case."""
    instruction = execution.instruction
    name = instruction.name.replace(".", "_")
    if name in exclusions.OTHER_FORMS or execution.vectors or isa.find(name) is not instruction:
        return None
    return name


def _described(execution: Execution, step: Step) -> tuple[dict[str, dict[str, Any]], dict[str, Any]] | None:
    """The manifest's entries of the operands and attributes; None where it has no words for them."""
    attributes = _attributes(execution)
    if attributes is None:
        return None
    entries: dict[str, dict[str, Any]] = {}
    for operand in execution.instruction.operands:
        if operand.name not in execution.operands:
            continue
        value = execution.operands[operand.name]
        if isinstance(value, TileRef):
            entry = _tile(operand.name, operand.role, value)
        elif isinstance(value, View):
            entry = _view(operand.name, operand.role, value, step)
        elif operand.kind == "index":
            attributes[operand.name] = int(value)
            continue
        else:
            entry = _scalar(operand.name, execution.bound.values[operand.name], value)
        if entry is None:
            return None
        entries[operand.name] = entry
    return entries, attributes


def _attributes(execution: Execution) -> dict[str, Any] | None:
    keys = {declared: key for key, declared in cases.attributes_of(execution.instruction).items()}
    attributes: dict[str, Any] = {}
    for written, value in execution.op.attributes:
        attribute = execution.instruction.attribute(written)
        name = attribute.name if attribute else written
        if name in ("layout", "inferred_layout", "init_out_buffer", "stPhase", "accPhase"):
            continue
        if name not in keys:
            return None
        attributes[keys[name]] = value.name if isinstance(value, IntEnum) else value
    return attributes


def _tile(name: str, role: str, ref: TileRef) -> dict[str, Any] | None:
    t = ref.type
    if t.conv is not None or t.compact != Compact.NULL:
        return None
    return {
        "name": name,
        "role": role,
        "loc": t.loc.name.lower(),
        "dtype": t.dtype.name,
        "rows": t.rows,
        "cols": t.cols,
        "v_row": int(ref.v_row),
        "v_col": int(ref.v_col),
        "blayout": t.blayout.name.lower(),
        "slayout": t.slayout.name.lower(),
        "fractal": t.fractal,
        "pad": t.pad.name.lower(),
    }


def _view(name: str, role: str, view: View, step: Step) -> dict[str, Any] | None:
    start = int(view.offset) * view.dtype.storage_bits
    if start % 8:
        return None
    size = len(step.memory(view.buffer)) - start // 8
    asked = step.attrs.get("layout")
    layout = asked if isinstance(asked, GlobalLayout) else view.layout or GlobalLayout.ND
    return {
        "name": name,
        "role": "gm",
        "gm_role": role,
        "loc": "gm",
        "dtype": view.dtype.name,
        "shape": [int(n) for n in view.shape],
        "strides": [int(n) for n in view.strides],
        "layout": layout.name.lower(),
        "elements": size // (view.dtype.word_bits // 8),
    }


def _scalar(name: str, value: Value, number: Any) -> dict[str, Any] | None:
    d = scalar_dtype(value.type)
    if d.kind == "index":
        return None
    if d.is_float:
        array = np.asarray(number)
        same = array.dtype == d.word and d.numpy != d.word
        bits = int(array.reshape(-1)[0]) if same else int(encode(np.full(1, number, np.float64), d)[0])
    else:
        bits = int(number) & ((1 << d.word_bits) - 1)
    return {"name": name, "role": "scalar", "dtype": d.name, "bits": f"{bits:#x}"}


def _role(entry: Mapping[str, Any]) -> str:
    return str(entry.get("gm_role", entry["role"]))


def _element(operand: TileRef | View) -> DType:
    return operand.type.dtype if isinstance(operand, TileRef) else operand.dtype
