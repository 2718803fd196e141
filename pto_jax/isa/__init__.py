"""The instruction set: one declaration per instruction, one file per class of the overview page."""

from functools import cache, lru_cache

from .aliases import ALIASES as ALIASES
from .bind import Bound as Bound, bind as bind
from .declare import (
    Attribute as Attribute,
    Constraint as Constraint,
    Decision as Decision,
    Instruction as Instruction,
    Operand as Operand,
    Site as Site,
)
from .registry import added

#: Class files, in the order of the overview page.
CLASSES = (
    "sync_config",
    "sync_modes",
    "sync_handles",
    "sync_events",
    "sync_memory",
    "views",
    "memrefs",
    "reinterpret",
    "subviews",
    "multi_tiles",
    "local_storage",
    "queries",
    "tile_queries",
    "pointers",
    "memory_scalar",
    "elementwise",
    "elementwise_fused",
    "elementwise_select",
    "tile_scalar",
    "reduce_expand",
    "reduce_expand_index",
    "reduce_expand_binary",
    "memory",
    "memory_layouts",
    "memory_indexed",
    "layout",
    "layout_exponents",
    "layout_rearrange",
    "layout_fill",
    "layout_extract",
    "fixpipe",
    "layout_img2col",
    "matrix",
    "matrix_mx",
    "irregular",
    "irregular_sort",
    "irregular_gather",
    "irregular_index",
    "irregular_quant",
    "irregular_quant_mx",
    "irregular_partial",
    "hash_table",
    "pipes",
    "pipe_handles",
    "communication",
    "communication_async",
)


@cache
def instructions() -> dict[str, Instruction]:
    """Every declared instruction by name, in the overview page's class order.

    Those that were added (:mod:`pto_jax.extension`) come last.
    """
    from importlib import import_module

    table: dict[str, Instruction] = {}
    for cls in CLASSES:
        for instruction in import_module(f".{cls}", __name__).INSTRUCTIONS:
            if instruction.name in table:
                raise RuntimeError(f"instruction {instruction.name} is declared twice")
            table[instruction.name] = instruction
    return table | added()


def load_class_files(room: str) -> None:
    """Import those files of a room, a package by its name, that are class files: they register its rules."""
    import sys
    from importlib import import_module
    from pkgutil import iter_modules

    there = {file.name for file in iter_modules(sys.modules[room].__path__)}
    for cls in CLASSES:
        if cls in there:
            import_module(f"{room}.{cls}")


@lru_cache(maxsize=4096)
def find(name: str) -> Instruction | None:
    """The declaration of an instruction by its text name or its Python name; None for other names.

    Text names are taken with or without ``pto.``, in any case.

    >>> find("pto.TMATMUL_ACC").name, find("memref_alloc").name
    ('tmatmul.acc', 'memref.alloc')
    """
    key = name.lower().removeprefix("pto.")
    found = instructions().get(ALIASES.get(key, key))
    return found or (instructions().get(_dotted().get(key, "")) if "_" in key else None)


@cache
def _dotted() -> dict[str, str]:
    """Names with dots by their spelling in Python."""
    return {name.replace(".", "_"): name for name in instructions() if "." in name}
