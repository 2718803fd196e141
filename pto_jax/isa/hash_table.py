"""Looking keys up in a hash table in global memory."""

from collections.abc import Iterator
from math import prod

from ..ir import I32, PartitionViewType, TensorViewType, Type
from . import declare, traits
from .rules import constraints, handles, typesets
from .rules.forbid import forbid, give

_SOURCE = "public CPU simulator, test hashfind"
_HASH_TYPES = typesets.table(("i32",), (), ())
_HASH_FORM = ("table_keys", "table_vals", "queries")
_HASH_OPERANDS = (
    declare.Operand("dst", "out", "gm", dtype="T"),
    *(declare.Operand(name, "in", "gm", dtype="T") for name in _HASH_FORM),
)


def _elements(t: Type | None) -> int | None:
    """How many elements a view has, None where its type leaves that open."""
    if not isinstance(t, TensorViewType | PartitionViewType):
        return None
    extents = [n for n in t.dims if n is not None]
    return prod(extents) if len(extents) == len(t.dims) else None


@forbid(
    "capacity",
    "a power of two, as many values as keys, as many results as queries",
    source=_SOURCE,
    invalid_if=give("table_keys", PartitionViewType((24,), I32)),
)
def _capacity(site: declare.Site) -> Iterator[declare.Finding]:
    counts = {name: _elements(site.types.get(name)) for name in ("dst", *_HASH_FORM)}
    slots = counts["table_keys"]
    if slots is not None and (slots < 1 or slots & (slots - 1)):
        yield "table_keys", f"table_keys has {slots} slots; allowed: a power of two"
    for name, other in (("table_vals", "table_keys"), ("dst", "queries")):
        if None not in (counts[name], counts[other]) and counts[name] != counts[other]:
            yield name, f"{name} has {counts[name]} elements, {other} {counts[other]}; allowed: as many"


INSTRUCTIONS: tuple[declare.Instruction, ...] = (
    handles.custom(
        "hashfind",
        "Look keys up in a hash table with linear probing.",
        "Per query: the value at the first of 64 slots whose key is equal; -1 where none has it, or an "
        "empty one (its key is -2^31) comes first. The slots are (hash + p) mod capacity, p from 0; the "
        "capacity is the number of keys. hash of 32 bits x without sign: x ^= x >> 16, x *= 0x7feb352d, "
        "x ^= x >> 15, x *= 0x846ca68b, x ^= x >> 16. Elements of views count row by row.",
        _HASH_OPERANDS,
        (
            handles.Shown(
                {
                    **dict.fromkeys(("dst", "queries"), PartitionViewType((4, 8), I32)),
                    **dict.fromkeys(("table_keys", "table_vals"), PartitionViewType((16,), I32)),
                },
                _HASH_FORM,
                profiles=("cpu_sim",),
            ),
        ),
        constraints=(constraints.type_row(_HASH_OPERANDS, ("T",), _HASH_TYPES), _capacity),
        decisions=(
            declare.Decision(
                "Is it an instruction?",
                "Of this engine: its source is a test program of tile instructions, whose values it has.",
                _SOURCE,
            ),
        ),
        sources=(_SOURCE,),
        syntax="tile",
        types=_HASH_TYPES,
        traits=traits.Traits(
            (
                traits.Effect("write", "global", "dst"),
                # Any slot may be the one that a hash names.
                *(traits.Effect("read", "global", name) for name in _HASH_FORM),
            )
        ),
    ),
)
