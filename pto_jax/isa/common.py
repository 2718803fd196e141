"""Parts that most declarations of tile instructions share: operands, decisions, and two builders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

from ..ir import DType, Precision
from ..profiles import PROFILE_NAMES, ProfileName
from . import declare
from .rules import regions, typesets
from .rules.constraints import in_vec, row_major, same_types, scalar_types, type_row
from .rules.regions import MASK, OPEN
from .semantics import Facts, Lanes

DST = declare.Operand("dst", "out")
OPEN_DST = replace(DST, extent=OPEN)
MASK_DST = declare.Operand(
    "dst",
    "out",
    dtype="M",
    note="packed mask, bit 0 is the lowest column",
    extent=MASK,
    default=("u8",),
    holds="mask",
)
ACCUMULATOR = declare.Operand("dst", "inout", note="its old value is an input")
SRC = declare.Operand("src", "in")
SRC0 = declare.Operand("src0", "in")
SRC1 = declare.Operand("src1", "in")
SCALAR = declare.Operand("scalar", "in", "scalar")
UNARY = (DST, SRC)
BINARY = (DST, SRC0, SRC1)
TILE_SCALAR = (DST, SRC, SCALAR)


PRECISION = declare.Attribute(
    "precision",
    Precision,
    Precision.DEFAULT,
    "algorithm on A5; no effect on the other profiles",
    ("precisionType", "precision"),
)


def _of_function(attribute: declare.Attribute, name: str, cls: declare.InstructionClass) -> declare.Attribute:
    """The attribute of an instruction: the assembler calls precisions by the function that has them."""
    if attribute is not PRECISION:
        return attribute
    function = re.sub("^t(?:(?:row|col)expand)?", "", name)
    return replace(
        attribute, mnemonic=f"{function.removesuffix('s' if cls == 'tile_scalar' else '')}_precision"
    )


PAGES = "PTO ISA instruction pages"
HEADER_LISTS = "pto-isa headers: type lists of the A2/A3 and A5 backends"
SIMULATOR_VALUES = "public CPU simulator, recorded vectors"


def formal(
    question: str,
    choice: str,
    source: str,
    other: str,
    path: str,
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES,
) -> declare.Contradiction:
    """A decision that the formal specification contradicts, at a path of PTO-ISA/pto-spec."""
    there = f"PTO-ISA/pto-spec {path}"
    return declare.Contradiction(question, choice, source, other=other, other_source=there, profiles=profiles)


OUT_OF_REGION = declare.Decision(
    "What does a source lane outside the source's valid region read as?",
    "All-one bytes on a2a3 and a5, the stored bits on cpu_sim (option out_of_region).",
    "pto.tadd page; Tile Instruction Set overview (valid region model)",
)
REGIONS_MAY_DIFFER = declare.Decision(
    "Must the valid regions of sources and destination be equal?",
    "No: the destination's valid region is the iteration domain; a difference is a warning. Debug "
    "assertions of "
    "the headers are not rules. A lane beyond the physical source is an error (no implicit broadcasting).",
    "Tile Instruction Set overview (valid region model, shared constraints)",
)
TYPES_BY_HEADER = declare.Decision(
    "Which element types exist per profile, where overview, pages and headers disagree?",
    "The instruction's own page where it lists them, else the header's list; cpu_sim: what its "
    "vectors record.",
    f"{HEADER_LISTS}; {SIMULATOR_VALUES}",
)
SIMULATOR_SAME_TYPE = declare.Decision(
    "The simulator's template wants one C++ tile type for all operands; is that a rule?",
    "No: values are defined for differing physical shapes and layouts.",
    SIMULATOR_VALUES,
)
DIVISION_TRAPS = formal(
    "What does an integer division by zero give?",
    "No trap: the quotient is all ones, the remainder is the dividend; of 64-bit integers on a5 both are 0. "
    "The sanitizer reports it.",
    "instruction pages leave it to the target; the simulator traps; a5 headers mask zero divisors",
    "illegal before any effect",
    "decision 0080 (060, 061)",
)
SOFTWARE_REMAINDER = formal(
    "Which sign has the remainder of 64-bit integers on a5?",
    "The dividend's: the routine that stands for the missing instruction truncates (-7 rem 3 is -1). Every "
    "other type and profile takes the divisor's sign.",
    "a5 headers and system tests (trem, trems)",
    "the divisor's",
    "decision 0080 (061)",
    ("a5",),
)
SHIFT_COUNTS = formal(
    "What does a shift count of the element width or more give?",
    "The count is taken modulo 32 (64 for 64-bit types) after promotion, as recorded; the sanitizer "
    "reports it.",
    "instruction pages forbid it; public CPU simulator, recorded vectors",
    "modulo the element width, of 8 and 16 bits too",
    "asl/tile/model/execution/elementwise.asl",
)
SCRATCH_OPTIONAL = declare.Decision(
    "Pages print the instruction without tmp, the C++ interface requires it; which spelling is legal?",
    "Both. tmp is never read or written as far as values go.",
    f"{PAGES}; pto_instr.hpp; {SIMULATOR_VALUES}",
)
REGION_DECISIONS = (OUT_OF_REGION, REGIONS_MAY_DIFFER)
#: How often sums of three round.
ROUNDED_SUMS = (
    "f32 rounds after each of the two operations, f16 and bf16 compute both in f32 and round to their type "
    "once, 8-bit floats round once"
)
#: ULP bound of instructions evaluated as a correctly rounded function of a real argument.
ONE_ULP = {"f32": 1, "f16": 1, "bf16": 1}


def divides_in_software(profile: str, d: DType) -> bool:
    """Whether a profile divides integers of an element type by a routine: zero divisors give 0."""
    return profile == "a5" and d.is_integer and d.bits == 64


class TileParts(Facts, total=False):
    """What :func:`tile_instruction` takes by name, as builders of families hand it on."""

    type_vars: tuple[str, ...]
    attributes: tuple[declare.Attribute, ...]
    forms: tuple[tuple[str, ...], ...]
    domain: declare.Domain
    reads: tuple[str, ...] | None
    extra: tuple[declare.Constraint, ...]
    sources: tuple[str, ...]
    sampler: declare.Sampler | None


def tile_instruction(
    name: str,
    summary: str,
    semantics: str,
    operands: tuple[declare.Operand, ...],
    types: typesets.TypeTable,
    *,
    cls: declare.InstructionClass = "elementwise",
    type_vars: tuple[str, ...] = ("T",),
    attributes: tuple[declare.Attribute, ...] = (),
    forms: tuple[tuple[str, ...], ...] = (),
    domain: declare.Domain = "dst",
    reads: tuple[str, ...] | None = None,
    placement: tuple[declare.Constraint, ...] | None = None,
    extra: tuple[declare.Constraint, ...] = (),
    decisions: tuple[declare.Decision, ...] = (),
    sources: tuple[str, ...] = (),
    sampler: declare.Sampler | None = None,
    intrinsic: str = "",
    cycles: declare.Cycles | None = None,
    **facts: Unpack[Facts],
) -> declare.Instruction:
    """Declare a tile instruction with the common rules for types, places and valid regions.

    ``reads`` names the sources read at the lanes of the destination (default: every tile source);
    ``placement`` replaces the rule "vec and row_major on A2/A3 and A5". Where ``facts`` does not say them,
    lanes and in_place are those of the class.
    """
    if facts.setdefault("lanes", _LANES.get(cls, "other")) == "same":
        facts.setdefault("in_place", {"cpu_sim": read_in_step(operands)})
    if reads is None:
        reads = tuple(o.name for o in operands if o.role == "in" and o.kind == "tile")
    checks: list[declare.Constraint] = []
    if any(o.kind == "tile" and o.dtype in type_vars for o in operands):
        if _repeated(operands, type_vars):
            checks.append(same_types(operands))
        checks.append(type_row(operands, type_vars, types))
    if any(o.kind == "scalar" for o in operands):
        checks.append(scalar_types(operands))
    checks += placement if placement is not None else (in_vec(operands), row_major(operands))
    lanes = "src0" if domain == "src0" else "dst"
    lane_sources = tuple(r for r in reads if r != lanes)
    if lane_sources and domain != "custom":
        equal_regions = any(c.rule == "valid-equal" for c in extra)
        checks += regions.covers(lane_sources, lanes)[: 1 if equal_regions else None]
    return declare.Instruction(
        name,
        cls,
        summary,
        semantics,
        operands,
        types,
        type_vars,
        tuple(_of_function(a, name, cls) for a in attributes),
        (*checks, *extra),
        forms,
        domain,
        decisions=(*decisions, TYPES_BY_HEADER, *(REGION_DECISIONS if lane_sources else ())),
        sources=sources or (f"page {name}", "pto-isa headers", SIMULATOR_VALUES),
        sampler=sampler,
        intrinsic=intrinsic,
        cycles=cycles,
        **facts,
    )


#: What is true of every instruction of a class.
_LANES: Mapping[declare.InstructionClass, Lanes] = {
    "elementwise": "same",
    "tile_scalar": "same",
    "reduce_expand": "line",
}


def read_in_step(operands: tuple[declare.Operand, ...]) -> tuple[str, ...]:
    """The tile sources of which a lane is read when that lane of the destination is written."""
    return tuple(o.name for o in operands if o.kind == "tile" and o.role == "in" and o.holds != "mask")


def _repeated(operands: tuple[declare.Operand, ...], type_vars: tuple[str, ...]) -> bool:
    names = [o.dtype for o in operands if o.kind == "tile" and o.dtype in type_vars]
    return len(names) != len(set(names))
