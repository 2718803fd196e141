"""The instruction set: one declaration per instruction, alternative names, and instructions of users."""

import re
import sys
from collections.abc import Callable
from functools import cache, lru_cache

from ..errors import ArgumentError
from ..ir import Op
from .bind import Bound as Bound, bind as bind
from .declare import (
    Attribute as Attribute,
    Constraint as Constraint,
    Decision as Decision,
    Instruction as Instruction,
    Operand as Operand,
    Site as Site,
)
from .micro import MicroOperation as MicroOperation
from .traits import structural_traits

_ADDED: dict[str, Instruction] = {}
_PACKAGE = __name__.partition(".")[0]
_Cache = type(lru_cache(lambda: None))
_NAME = re.compile(r"t[a-z][a-z0-9_]*")


def added() -> dict[str, Instruction]:
    """The instructions that were added, by name."""
    return _ADDED


def add(instruction: Instruction, known: Callable[[], dict[str, Instruction]]) -> None:
    """Add an instruction to the table that ``known`` gives.

    Raises ArgumentError where the name is no name of an instruction, or is one already.
    """
    name = instruction.name
    if not _NAME.fullmatch(name):
        raise ArgumentError(
            f"got the name {name!r}", allowed="'t', then lowercase letters, digits and underscores (tcosh)"
        )
    if name in known():
        raise ArgumentError(f"there is an instruction {name}", fix="another name")
    _ADDED[name] = instruction
    forget()


def remove(name: str) -> None:
    """Take an added instruction out of the table again."""
    del _ADDED[name]
    forget()


def forget() -> None:
    """Drop what functions of the package remember.

    Legal samples, compiled kernels, names and all else may have been made with another table.
    """
    for name, module in list(sys.modules.items()):
        if name == _PACKAGE or name.startswith(f"{_PACKAGE}."):
            for value in vars(module).values():
                if isinstance(value, _Cache):
                    value.cache_clear()


# Instructions by name: spellings of the documentation are data of their own.
#: Spellings of the documentation that mean the name on the right.
ALIASES = {
    **{
        f"t{base}{mx}_{kind}": f"t{base}{dotted}.{kind}"
        for base in ("matmul", "gemv")
        for mx, dotted in (("", ""), ("_mx", ".mx"))
        for kind in ("acc", "bias")
    },
    "tmatmul_mx": "tmatmul.mx",
    "tmatmul_mx_hif4": "tmatmul.mx.hif4",
    "tgemv_mx": "tgemv.mx",
    "tmov_fp": "tmov.fp",
    "tmov_zz": "tmov.zz",
    **{f"tmov.{route}": "tmov" for route in ("m2l", "m2r", "m2b", "m2s", "a2v", "v2v", "s2d")},
    "tstore.fp": "tstore_fp",
    "textract.fp": "textract_fp",
    "tinsert.fp": "tinsert_fp",
    "tquant_mx": "tquant.mx",
    "tquant_hif4": "tquant.hif4",
    "sync_set": "sync.set",
    "sync_wait": "sync.wait",
    "get_scale_addr": "tget_scale_addr",
    **{
        f"comm.{name}": name
        for name in (
            "tput tget tput_async tget_async tnotify twait ttest tbroadcast treduce "
            "build_async_session wait_async_event test_async_event".split()
        )
    },
    "comm_tgather": "comm.tgather",
    "comm_tscatter": "comm.tscatter",
}


#: Class files, in the order of the overview page.
CLASSES = (
    "sync_config",
    "sync_handles",
    "sync_events",
    "views",
    "reinterpret",
    "multi_tiles",
    "local_storage",
    "queries",
    "memory_scalar",
    "elementwise",
    "elementwise_select",
    "tile_scalar",
    "reduce_expand",
    "reduce_expand_index",
    "reduce_expand_binary",
    "memory",
    "memory_indexed",
    "layout",
    "layout_rearrange",
    "layout_fill",
    "layout_extract",
    "fixpipe",
    "layout_img2col",
    "matrix",
    "irregular",
    "irregular_sort",
    "irregular_gather",
    "irregular_quant",
    "irregular_partial",
    "hash_table",
    "pipes",
    "communication",
)
#: Files of the packages that execute instructions: one per family of classes, as far as a package needs it.
FAMILIES = (
    "sync_config",
    "views",
    "reinterpret",
    "elementwise",
    "reduce_expand",
    "memory",
    "memory_layouts",
    "memory_indexed",
    "layout",
    "matrix",
    "irregular",
    "irregular_sort",
    "irregular_quant",
    "pipes",
    "communication",
)


#: Files with micro-operations, and of the packages that execute them; nobody loads them before the first one.
MICRO_FAMILIES = (
    "predicates",
    "registers",
    "registers_moves",
    "registers_reduce",
    "registers_convert",
    "vmi",
    "ub_memory",
    "ub_transfers",
    "cube",
    "cube_stores",
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


def load_families(package: str, families: tuple[str, ...] = FAMILIES) -> None:
    """Import the files of families that a package, by its name, has: they register its rules."""
    import sys
    from importlib import import_module
    from pkgutil import iter_modules

    there = {file.name for file in iter_modules(sys.modules[package].__path__)}
    for family in families:
        if family in there:
            import_module(f"{package}.{family}")


@lru_cache(maxsize=4096)
def find(name: str) -> Instruction | None:
    """The declaration of an instruction by its text name or its Python name; None for other names.

    Text names are taken with or without ``pto.``, in any case.

    >>> find("pto.TMATMUL_ACC").name, find("memref_alloc").name
    ('tmatmul.acc', 'memref.alloc')
    """
    key = name.lower().removeprefix("pto.")
    declaration = instructions().get(ALIASES.get(key, key))
    return declaration or (instructions().get(_dotted().get(key, "")) if "_" in key else None)


@cache
def micro_operations() -> dict[str, MicroOperation]:
    """Every declared micro-operation by name."""
    operations = [operation for family in micro_families().values() for operation in family]
    table = {operation.name: operation for operation in operations}
    if len(table) < len(operations):
        raise RuntimeError("a micro-operation is declared twice")
    return table


@cache
def micro_families() -> dict[str, tuple[MicroOperation, ...]]:
    """The declared micro-operations by the module that declares them."""
    from importlib import import_module

    return {name: tuple(import_module(f".{name}", __name__).OPERATIONS) for name in MICRO_FAMILIES}


def find_micro(name: str) -> MicroOperation | None:
    """The declaration of a micro-operation, named without ``pto.``; None for other names.

    >>> find_micro("vlds").operands, find_micro("tadd")
    (('base', 'offset'), None)
    """
    return micro_operations().get(name)


def micro_operation(op: Op) -> MicroOperation | None:
    """The declaration of an operation that is a micro-operation; None for others."""
    other = structural_traits(op.name) is not None or find(op.name) is not None
    return None if other else find_micro(op.name)


@cache
def _dotted() -> dict[str, str]:
    """Names with dots by their spelling in Python."""
    return {name.replace(".", "_"): name for name in instructions() if "." in name}
