"""Which tile instructions the text knows, and how they are spelled."""

from __future__ import annotations

from collections.abc import Iterable

from .. import isa
from ..isa.aliases import ALIASES

#: Instructions that bind no result and name their sources first, each with the number of destinations
#: that follow; every other instruction without a result names its destination first.
SOURCE_FIRST = {
    "tstore": 1,
    "tstore_fp": 1,
    "mscatter": 1,
    "tprint": 0,
    "tsync": 0,
    "syncall": 0,
    "sethf32mode": 0,
    "settf32mode": 0,
    "setfmatrix": 0,
    "set_img2col_rpt": 0,
    "set_img2col_padding": 0,
    "set_quant_scalar": 0,
    "set_quant_vector": 0,
    **dict.fromkeys(("treduce", "comm.tgather"), 1),
    **dict.fromkeys(("tpush", "tpop", "tfree", "talloc", "grid_tpush"), 0),
    **dict.fromkeys(("tnotify", "twait", "ttest", "comm.tscatter", "tbroadcast", "tprefetch_async"), 0),
}

#: Instructions that name their destination as the second operand in the assembly spelling.
DESTINATION_SECOND = frozenset({"mscatter"})

#: Instructions whose operand ``%v[%r, %c]`` names a place in global memory; the read operands before
#: the indices, by name. Elsewhere the indices are operands like any other (``textract``).
INDEXED: dict[str, tuple[str, ...]] = {
    "tload": ("src",),
    "tprefetch": ("src",),
    "tstore": ("src",),
    "tstore_fp": ("src", "fp"),
}


@isa.derived
def instruction_names() -> frozenset[str]:
    """Every tile instruction the reader accepts, by canonical name."""
    return frozenset(isa.instructions())


def canonical(spelled: str) -> str:
    """The name without ``pto.`` and with documentation spellings replaced.

    >>> canonical("pto.tmatmul_mx_acc")
    'tmatmul.mx.acc'
    """
    name = spelled.removeprefix("pto.")
    return ALIASES.get(name, name)


def suggestion(name: str, known: Iterable[str], prefix: str = "") -> str:
    """`` (did you mean 'x' or 'y'?)``, or nothing when no known name is close."""
    import difflib

    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.7)
    if not close:
        return ""
    return " (did you mean " + " or ".join(f"'{prefix}{c}'" for c in close) + "?)"
