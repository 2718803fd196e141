"""Micro-operations that make masks of a pattern or of a count."""

from .declare import Decision
from .micro import MicroOperation, micro

_PAGE = "micro-isa chapter 04"
_VENDOR = "Ascend C 9.0, register level, page 0315"
PATTERNS = "PAT_ALL PAT_ALLF PAT_M3 PAT_M4 PAT_H PAT_Q " + " ".join(
    f"PAT_VL{n}" for n in (1, 2, 3, 4, 8, 16, 32, 64, 128)
)
_LOWEST = Decision(
    "Which lanes do the patterns of a half and of a quarter set?",
    "The lowest ones.",
    f"{_VENDOR}; micro-isa chapter 05 says the upper ones",
)
_UNSIGNED = Decision(
    "Has the count of remaining lanes a sign?",
    "No: -1 gives all lanes.",
    f"{_VENDOR}; micro-isa chapter 05 does not say",
)

OPERATIONS: tuple[MicroOperation, ...] = tuple(
    operation
    for bits in (8, 16, 32)
    for operation in (
        *(
            micro(
                f"{name}_b{bits}",
                "Mask of a pattern.",
                '"pattern" -> mask',
                f"- -> m{bits}",
                choices={"pattern": PATTERNS},
                decisions=(_LOWEST,),
                source=_PAGE,
            )
            for name in ("pset", "pge")
        ),
        micro(
            f"plt_b{bits}",
            "Mask of the lanes below a count, and how many remain.",
            "count -> mask rest",
            f"i32 -> m{bits} i32",
            decisions=(_UNSIGNED,),
            counts_down="count",
            source=_PAGE,
        ),
        micro(
            f"pltm_b{bits}",
            "Mask of the lanes that a loop has left.",
            "trip bound -> mask",
            f"i16 i32 -> m{bits}",
            source=_PAGE,
        ),
    )
)
