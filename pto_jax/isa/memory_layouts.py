"""Memory and data movement: layouts of global memory, and the prefetch hint."""

from collections.abc import Iterator

from ..ir import GlobalLayout, Loc, PartitionViewType, Pipe, TileType, dtype
from ..profiles import Profile
from .assembly import Assembly
from .common import PAGES, SIMULATOR_VALUES
from .declare import Attribute, Decision, Instruction, Operand
from .rules.constraints import HEADERS, place, type_row
from .rules.typesets import BYTE_FLOATS, NIBBLE_FLOATS, STANDARD, table
from .rules.windows import same_size
from .samples.operations import Sample

#: How a window's elements are counted, after its dimensions d0..d4 (missing leading ones are 1).
LAYOUT_TEXT = (
    "Element (r, c) of a window with dimensions d0..d4 (missing leading ones are 1) has the indices: nd "
    "(r/(d1 d2 d3), r/(d2 d3) % d1, r/d3 % d2, r % d3, c); dn (c/(d1 d2 d4), c/(d2 d4) % d1, c/d4 % d2, r, "
    "c % d4); nz, q = c/d4: (q/d1, q % d1, r/d3, r % d3, c % d4); mx_a_zz (0, r/16, c/2, r%16, c%2); "
    "mx_a_nd (0, 0, r, c/2, c%2); mx_a_dn (0, 0, c/2, r, c%2); mx_b_nn (0, c/16, r/2, c%16, r%2); mx_b_nd "
    "(0, 0, r/2, c, r%2); mx_b_dn (0, 0, c, r/2, r%2); nc1hwc0 (r/(d2 d3), c/d4, r/d3 % d2, r % d3, c % d4); "
    "ndc1hwc0 (r/(d3 d4), c/(d2 C0), c/C0 % d2, r/d4 % d3, r % d4) and c % C0 elements further; nhwc as nd; "
    "nchw (0, r/(d3 d4), c, r/d4 % d3, r % d4); ncdhw (r/(d2 d3 d4), c, r/(d3 d4) % d2, r/d4 % d3, r % d4)."
)
LAYOUT_DECISIONS = (
    Decision(
        "Must a window's layout be known?",
        "No: a view without one is taken as nd by values, and rules on pairs of layouts do not apply.",
        "PTOAS (layouts are inferred)",
    ),
    Decision(
        "Do scales load into scaleleft and scaleright tiles directly?",
        "On cpu_sim, as recorded; hardware loads mat tiles.",
        f"{SIMULATOR_VALUES}; {HEADERS}",
    ),
    Decision(
        "Which layouts may meet in a tile of a single row or column?",
        "nd and dn both: the bytes are the same.",
        HEADERS,
    ),
)


_PREFETCH = (
    Operand("dst", "out", note="scratch tile; programs may not rely on its contents"),
    Operand("src", "in", "gm", dtype=None),
)


def _prefetched(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = dtype(name)
        cols = 2 * 256 // d.storage_bits
        t = TileType(d, 4, cols, v_col=cols - 1 if i % 2 else cols, loc=Loc.MAT if i % 3 == 2 else Loc.VEC)
        yield Sample(instruction, {"dst": t, "src": PartitionViewType((5, cols), d)}, ("src",))


_PREFETCHED = table(STANDARD, STANDARD, (*STANDARD, *BYTE_FLOATS, *NIBBLE_FLOATS))
TPREFETCH = Instruction(
    "tprefetch",
    "memory",
    "Hint that a window of global memory will be read, with a tile for the data.",
    "a2a3 and a5: no effect on values. cpu_sim: element (r * cols + c) of the stored dst, cols its physical "
    "columns, becomes element (r * cols + c) of the buffer from the start of src on, for r, c in the valid "
    "region of dst; shape, strides and layout of src and the layout of dst are not consulted, and what lies "
    "beyond the buffer leaves dst as it is.",
    _PREFETCH,
    _PREFETCHED,
    ("T",),
    (
        Attribute("layout", GlobalLayout, None, "layout of the view; no effect"),
        Attribute("inferred_layout", bool, None, "mark of the assembler", ("pto.inferred_layout",)),
    ),
    (
        type_row(_PREFETCH, ("T",), _PREFETCHED),
        place((_PREFETCH[0],), (Loc.VEC, Loc.MAT), ("cpu_sim", "a2a3", "a5")),
        same_size("dst", "src"),
    ),
    (("src",),),
    "dst",
    Pipe.MTE2,
    decisions=(
        Decision(
            "The page says a full load on cpu_sim; its code copies linearly. What does the tile hold?",
            "On cpu_sim what was recorded, the linear copy.",
            SIMULATOR_VALUES,
        ),
        Decision(
            "What does the tile hold on hardware, where rows are packed and may overwrite each other?",
            "What it held before: it is scratch, and its contents are not defined.",
            f"{PAGES}; {HEADERS}",
        ),
    ),
    sources=("page tprefetch", HEADERS, SIMULATOR_VALUES),
    sampler=_prefetched,
    lanes="open",
    assembly=Assembly(indexed=("src",)),
)

INSTRUCTIONS: tuple[Instruction, ...] = (TPREFETCH,)
