"""Micro-operations that sort and merge records of a score and an index in the unified buffer."""

from collections.abc import Mapping

from .declare import Decision
from .micro import MicroCall, MicroOperation, Place, Span, micro
from .rules import micro_types

_PAGE = "micro-isa chapter 13"
_FIELDS = Decision(
    "What are the fields of the count and of the configuration of a merge?",
    "Four lengths of 16 bits; repeats in bits 0 to 7, a bit per list from bit 8 on, and in bit 12 whether "
    "the merge ends with the first list that ends. One repeat is executed.",
    f"pto-isa headers (TMrgSort.hpp) for the same hardware; {_PAGE} says nothing",
)
_TIES = Decision(
    "Which record stands first where scores are equal?",
    "The one that stands first in the input, that of the lowest list.",
    _PAGE,
)
#: Lists that a merge takes.
LISTS = 4
#: Records that one repeat of a sort makes, and bytes of a record.
GROUP, RECORD = 32, 8


def _sorted(size: int) -> Span:
    def span(call: MicroCall, numbers: Mapping[str, int | None]) -> int | None:
        repeats = numbers["repeats"]
        return None if repeats is None else GROUP * size * repeats

    return span


_SOURCES = " ".join(f"src{k}" for k in range(LISTS))

OPERATIONS: tuple[MicroOperation, ...] = (
    micro(
        "vbitsort",
        "Sort of groups of 32 scores, in descending order, into records of a score and an index.",
        "dst src idx repeats",
        "p* p* p* x",
        kind="memory",
        between_scopes=True,
        places=(
            Place("dst", "write", span=_sorted(RECORD)),
            Place("src", "read", span=_sorted(4)),
            Place("idx", "read", span=_sorted(4)),
        ),
        decisions=(_TIES,),
        source=_PAGE,
    ),
    micro(
        "vmrgsort4",
        "Merge of up to four lists of records, in descending order.",
        f"dst {_SOURCES} count config",
        "p* p* p* p* p* i64 i64",
        kind="memory",
        between_scopes=True,
        rules=(micro_types.records,),
        places=(Place("dst", "write"), *(Place(name, "read") for name in _SOURCES.split())),
        decisions=(_FIELDS, _TIES),
        source=_PAGE,
    ),
    micro(
        "get_vms4_sr",
        "Records of each list that the last merge has taken.",
        "-> list0 list1 list2 list3",
        "-> i16 i16 i16 i16",
        kind="memory",
        source=_PAGE,
    ),
)
