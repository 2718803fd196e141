"""The ``isa`` command: instruction reference and support matrix, derived from the declarations."""

from __future__ import annotations

import difflib
import json
from typing import Any

from . import isa
from .errors import ArgumentError
from .isa import Attribute, Instruction
from .profiles import PROFILE_NAMES


def reference(name: str | None, *, as_json: bool = False) -> str:
    """One instruction's reference page, or the support matrix of all instructions."""
    if name is None:
        every = list(isa.instructions().values())
        return json.dumps([record(i) for i in every], indent=1) if as_json else matrix(every)
    instruction = isa.find(name)
    if instruction is None:
        near = difflib.get_close_matches(name.lower(), isa.instructions(), n=3)
        hint = f"; close: {', '.join(near)}" if near else ""
        raise ArgumentError(f"no instruction is called {name!r}{hint}; `pto-jax isa` lists all")
    return json.dumps(record(instruction), indent=1) if as_json else page(instruction)


def combinations(instruction: Instruction, profile: str) -> list[str]:
    """The legal element types under a profile, ``dst<-src`` where they differ."""
    rows = instruction.types.get(profile, ())  # type: ignore[call-overload]
    return ["<-".join(dict.fromkeys(row)) for row in rows]


def matrix(instructions: list[Instruction]) -> str:
    """A line per instruction: class, number of legal type combinations per profile, accuracy."""
    rows = [["instruction", "class", *PROFILE_NAMES, "ulp", "summary"]]
    for i in instructions:
        counts = [str(len(combinations(i, p))) if i.types else "-" for p in PROFILE_NAMES]
        ulp = str(max(i.ulp.values())) if i.ulp else "0"
        rows.append([i.name, i.cls, *counts, ulp if i.executable else "-", i.summary])
    widths = [max(len(r[c]) for r in rows) for c in range(len(rows[0]) - 1)]
    lines = ["  ".join([*(cell.ljust(w) for cell, w in zip(r, widths, strict=False)), r[-1]]) for r in rows]
    legend = (
        "Columns of profiles count the legal combinations of element types; `pto-jax isa NAME` lists them."
    )
    return "\n".join([*lines, "", legend])


def page(i: Instruction) -> str:
    """Everything the declaration of one instruction says, as text."""
    lines = [f"{i.name}: {i.summary}", f"  class {i.cls}, pipe {i.pipe.name}", "", f"  {i.semantics}", ""]
    lines.append("operands")
    for o in i.operands:
        optional = ", optional" if o.optional else ""
        note = f": {o.note}" if o.note else ""
        lines.append(f"  {o.name}  {o.role} {o.kind} {o.dtype or 'any type'}{optional}{note}")
    if i.forms:
        lines.append("source operands in the text")
        lines += [f"  ({', '.join(f)})" for f in i.forms]
    if i.attributes:
        lines.append("attributes")
        lines += [f"  {_attribute(a)}" for a in i.attributes]
    if i.types:
        lines.append(f"element types ({', '.join(i.type_vars)})")
        lines += [f"  {p}: {' '.join(combinations(i, p)) or 'none'}" for p in PROFILE_NAMES]
    lines.append(f"iterates over the valid region of: {i.domain}")
    if i.constraints:
        lines.append("constraints")
        for c in i.constraints:
            where = "" if set(c.profiles) == set(PROFILE_NAMES) else f" [{', '.join(c.profiles)}]"
            lines.append(f"  {c.rule} ({c.severity}, {c.stage}){where}: {c.allowed}")
    accuracy = ", ".join(f"{t} {n} ULP" for t, n in i.ulp.items())
    lines.append(f"accuracy: {accuracy or 'correctly rounded, or exact'}")
    if i.decisions:
        lines.append("decisions")
        lines += [f"  {d.question} {d.choice} [{d.source}]" for d in i.decisions]
    if i.sources:
        lines += ["sources", *(f"  {s}" for s in i.sources)]
    return "\n".join(lines)


def _attribute(a: Attribute) -> str:
    members = getattr(a.type, "__members__", None)
    values = " | ".join(members) if members else a.type.__name__
    default = getattr(a.default, "name", a.default)
    return f"{a.name}: {values}, default {default}" + (f": {a.meaning}" if a.meaning else "")


def record(i: Instruction) -> dict[str, Any]:
    """A declaration as JSON data."""
    return {
        "name": i.name,
        "class": i.cls,
        "summary": i.summary,
        "semantics": i.semantics,
        "pipe": i.pipe.name,
        "executable": i.executable,
        "operands": [
            {"name": o.name, "role": o.role, "kind": o.kind, "dtype": o.dtype, "optional": o.optional}
            for o in i.operands
        ],
        "forms": [list(f) for f in i.forms],
        "attributes": [
            {
                "name": a.name,
                "values": list(getattr(a.type, "__members__", ())) or a.type.__name__,
                "default": getattr(a.default, "name", a.default),
            }
            for a in i.attributes
        ],
        "type_vars": list(i.type_vars),
        "types": {p: [list(row) for row in i.types.get(p, ())] for p in PROFILE_NAMES},
        "domain": i.domain,
        "constraints": [
            {
                "rule": c.rule,
                "allowed": c.allowed,
                "profiles": list(c.profiles),
                "stage": c.stage,
                "severity": c.severity,
                "source": c.source,
            }
            for c in i.constraints
        ],
        "ulp": dict(i.ulp),
        "decisions": [{"question": d.question, "choice": d.choice, "source": d.source} for d in i.decisions],
        "sources": list(i.sources),
    }
