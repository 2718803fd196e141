"""Memory: hints that a window of global memory will be read."""

from __future__ import annotations

from collections.abc import Iterator

from ..dtypes import F16, F32
from ..profiles import Profile
from ..types import Loc, MemRefType, PartitionViewType, Pipe, TileType, Type
from .constraints import element_type, place
from .declare import AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .handle_rules import Shown, sampler

_PAGE = "page tprefetch; PTOAS verifier"
_DST = Operand("dst", "out", dtype=None, note="scratch tile; its contents mean nothing afterwards")


def _element_sizes() -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        d, s = element_type(site.types.get("dst")), element_type(site.types.get("src"))
        if d is not None and s is not None and d.storage_bits != s.storage_bits:
            yield "dst", f"dst has element type {d}, src has {s}; allowed: elements of one size"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        t = types["dst"]
        types["dst"] = t.with_dtype(F16) if isinstance(t, TileType) else t
        return True

    return Constraint("element-size", "elements of one size", check, source=_PAGE, breaks=breaks)


def _a_window() -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        t = site.types.get("src")
        if isinstance(t, PartitionViewType | MemRefType) and any(n is not None and n < 1 for n in t.dims):
            yield "src", f"src is {t}; allowed: extents of 1 or more"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        types["src"] = PartitionViewType((0, 64), F32)
        return True

    return Constraint("window-size", "a window with elements", check, source=_PAGE, breaks=breaks)


INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction(
        "tprefetch",
        "memory",
        "Hint that a window of global memory will be read.",
        "The window may be brought closer through the scratch tile dst, whose contents are undefined then.",
        (_DST, Operand("src", "in", "gm", None)),
        {},
        (),
        (),
        (_element_sizes(), _a_window(), place((_DST,), (Loc.VEC, Loc.MAT), ("cpu_sim", "a2a3", "a5"))),
        (("src",),),
        "none",
        Pipe.MTE2,
        decisions=(
            Decision(
                "What does dst hold afterwards?",
                "Nothing to rely on: the simulator copies with dst's own pitch, hardware packs the rows.",
                "public CPU simulator; pto-isa headers",
            ),
            Decision(
                "Is the hint executed?",
                "No: a program that reaches it ends with an error that says so.",
                "the contents of dst are not defined",
            ),
        ),
        sources=("page tprefetch", "pto-isa headers", "PTOAS verifier"),
        executable=False,
        sampler=sampler(
            Shown({"dst": TileType(F32, 16, 64), "src": PartitionViewType((16, 64), F32)}, ("src",))
        ),
    ),
)
