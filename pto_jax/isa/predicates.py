"""Micro-operations that make masks of a pattern or of a count."""

from .declare import Decision
from .micro import MicroCall, MicroOperation, Numbers, micro

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

_FRACTIONS = {"ALL": 1, "H": 2, "Q": 4}


def _lanes(call: MicroCall) -> int:
    bits = call.results[0]
    assert isinstance(bits, int)
    return 2048 // bits


def _pattern(call: MicroCall, numbers: Numbers) -> int | None:
    """Lanes that a pattern sets, where these are the first ones."""
    pattern, lanes = str(call.attributes["pattern"]).removeprefix("PAT_"), _lanes(call)
    if pattern.startswith("VL"):
        return min(int(pattern[2:]), lanes)
    return 0 if pattern == "ALLF" else lanes // _FRACTIONS[pattern] if pattern in _FRACTIONS else None


def _below(call: MicroCall, numbers: Numbers) -> int | None:
    count = numbers["count"]
    return None if count is None else min(count & 0xFFFFFFFF, _lanes(call))


def _remaining(call: MicroCall, numbers: Numbers) -> int | None:
    count = numbers["count"]
    return None if count is None else max(0, (count & 0xFFFFFFFF) - _lanes(call))


def _left(call: MicroCall, numbers: Numbers) -> int | None:
    trip, bound, lanes = numbers["trip"], numbers["bound"], _lanes(call)
    return None if trip is None or bound is None else min(max(0, bound - trip * lanes), lanes)


OPERATIONS: tuple[MicroOperation, ...] = tuple(
    operation
    for bits in (8, 16, 32)
    for operation in (
        *(micro(f"{name}_b{bits}", "Mask of a pattern.", '"pattern" -> mask', f"- -> m{bits}",
                choices={"pattern": PATTERNS}, decisions=(_LOWEST,), source=_PAGE, known={"mask": _pattern})
          for name in ("pset", "pge")),
        micro(f"plt_b{bits}", "Mask of the lanes below a count, and how many remain.", "count -> mask rest",
              f"i32 -> m{bits} i32", decisions=(_UNSIGNED,), counts_down="count", source=_PAGE,
              known={"mask": _below, "rest": _remaining}),
        micro(f"pltm_b{bits}", "Mask of the lanes that a loop has left.", "trip bound -> mask",
              f"i16 i32 -> m{bits}", source=_PAGE, known={"mask": _left}),
    )
)  # fmt: skip
