"""The instruction set: one declaration per instruction, one file per class of the overview page."""

from __future__ import annotations

from functools import cache

from .bind import Bound as Bound, bind as bind
from .declare import (
    Attribute as Attribute,
    Constraint as Constraint,
    Decision as Decision,
    Instruction as Instruction,
    Operand as Operand,
    Site as Site,
)

#: Class files, in the order of the overview page.
CLASSES = (
    "sync_config",
    "views",
    "elementwise",
    "elementwise_fused",
    "elementwise_select",
    "tile_scalar",
    "memory",
    "layout",
)


@cache
def instructions() -> dict[str, Instruction]:
    """Every declared instruction by name, in the overview page's class order."""
    from importlib import import_module

    table: dict[str, Instruction] = {}
    for cls in CLASSES:
        for instruction in import_module(f".{cls}", __name__).INSTRUCTIONS:
            if instruction.name in table:
                raise RuntimeError(f"instruction {instruction.name} is declared twice")
            table[instruction.name] = instruction
    return table


def find(name: str) -> Instruction | None:
    """The declaration of an instruction, by its text name with or without ``pto.``, any case."""
    return instructions().get(name.lower().removeprefix("pto."))
