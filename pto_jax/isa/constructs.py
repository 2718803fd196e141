"""Changes of the language that are about no instruction, and names that no version after them reads."""

from .changes import Change, new, removed

#: Constructs by what programs call them.
CONSTRUCTS: tuple[tuple[str, Change], ...] = (
    ("memref", removed("tile, view and pointer types; arguments of memref type are still read")),
    ("materialize_tile", removed("alloc_tile, or the tile itself")),
    ("slot_marker", removed("nothing: the assembler placed it")),
    ("declare_tile_memref", removed("a declared tile")),
    (
        "!pto.f4E2M1x2, !pto.f4E1M2x2",
        new("bytes of two numbers in vec and global memory; f4e2m1x2 and f4e1m2x2 are one number each"),
    ),
)


def gone(name: str) -> Change | None:
    """What became of a name that is read in no version any more, None for other names.

    >>> gone("slot_marker").kind
    'removed'
    """
    return next((change for construct, change in CONSTRUCTS if construct == name), None)
