"""Combining two tiles of which each may be valid in a part of the destination only."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from ..ir import TileType, Type, dtype
from ..profiles import Profile, ProfileName
from . import common, declare, semantics
from .elementwise import NAN_FIRST, ZERO_FIRST
from .rules import irregular, regions
from .rules.constraints import HARDWARE, HEADERS, SIMULATOR, in_vec, row_major, size
from .rules.forbid import Types, edit, forbid
from .rules.regions import covers, equal_shape
from .rules.typesets import FLOATS, INT32, INTS, Rows, TypeTable, pairs, table
from .samples.operations import Sample

_SIMULATED = ("i32", "i16", "f16", "bf16", "f32", "i8", "u8")
_A2A3 = ("i32", "i16", "f16", "f32")
_DST, _SRC0, _SRC1 = (
    declare.Operand("dst", "out", extent=regions.LARGER),
    declare.Operand("src0", "in"),
    declare.Operand("src1", "in", lacking=(1, 3)),
)

NEITHER_VALID = declare.Decision(
    "What does a lane hold that is valid in neither source?",
    "Zero bits, but for tpartmax and tpartmin on a5: the finite number that never wins. Pages leave it open.",
    f"{common.SIMULATOR_VALUES}; PTOAS tile templates and system tests (a5)",
)


def _exceeds(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    (r, c), (r0, c0), (r1, c1) = (sizes[n] for n in ("dst", "src0", "src1"))
    return (r0 > r) | (c0 > c) | (r1 > r) | (c1 > c)


def _broken(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    (r, c), (r0, c0), (r1, c1) = (sizes[n] for n in ("dst", "src0", "src1"))
    differ0, differ1 = (r0 != r) | (c0 != c), (r1 != r) | (c1 != c)
    return (differ0 & differ1) | _exceeds(sizes, types)


def _both_shorter(types: Types, attrs: declare.AttrMap, profile: Profile) -> bool:
    for name in ("src0", "src1", "src0Idx", "src1Idx"):
        edit(name, lambda t: t.with_valid(t.rows - 1, t.cols))(types, attrs, profile)
    return True


def _part_region(
    profiles: tuple[ProfileName, ...], broken: declare.RegionTest, breaks: declare.Breaker, allowed: str
) -> declare.Constraint:
    @forbid(
        "part-region",
        f"valid regions of the sources: {allowed.format('that of dst')}",
        profiles,
        stage="run-time",
        invalid_if=breaks,
        region=declare.RegionRule("custom", ("dst", "src0", "src1"), broken),
    )
    def rule(site: declare.Site) -> Iterator[declare.Finding]:
        regions = [site.region(n) for n in ("dst", "src0", "src1")]
        if any(n is None for region in regions for n in region):
            return
        if broken(dict(zip(("dst", "src0", "src1"), regions, strict=True)), {}):
            got = " and ".join(f"{size(r)}x{size(c)}" for r, c in regions[1:])
            whole = "the {}x{} of dst".format(*map(size, regions[0]))
            yield (
                "src0",
                f"the valid regions of src0 and src1 are {got}; allowed: {allowed.format(whole)}",
            )

    return rule


def _dst_shorter(types: Types, attrs: declare.AttrMap, profile: Profile) -> bool:
    for name in ("dst", "dstIdx"):
        edit(name, lambda t: t.with_valid(t.rows - 1, t.cols))(types, attrs, profile)
    return True


_ONE_EQUAL = "one equal to {}, the other within it"
_PART_REGIONS = (
    _part_region(("a2a3",), _broken, _both_shorter, _ONE_EQUAL),
    _part_region(("a5",), _exceeds, _dst_shorter, "within {}"),
)


def _samples(instruction: declare.Instruction, profile: Profile) -> Iterator[Sample]:
    for (name,) in instruction.types[profile.name]:
        tile = TileType(dtype(name), 8, irregular.row_cols(dtype(name), 2))
        yield irregular.sample(instruction, ("src0", "src1"), {"src0": tile, "src1": tile, "dst": tile})


def _partial(
    operation: str, summary: str, both: str, a5: tuple[str, ...], *decisions: declare.Decision
) -> declare.Instruction:
    operands = (_DST, _SRC0, _SRC1)
    return common.tile_instruction(
        f"tpart{operation}",
        summary,
        f"Over the valid region of dst: {both} where both sources are valid, the source's bits where only "
        "one is, zero bits where neither is (on a5 the finite number that never wins, for tpartmax and "
        "tpartmin). Lanes of a source outside its own valid region are not read.",
        operands,
        table(_SIMULATED, _A2A3, a5),
        cls="irregular",
        reads=(),
        placement=(in_vec(operands), row_major(operands)),
        extra=_PART_REGIONS,
        decisions=(NEITHER_VALID, *decisions),
        sampler=_samples,
        formulas=(semantics.of_two(operation),),
        in_place={"cpu_sim": ("src0", "src1")},
    )


TPARTADD = _partial(
    "add",
    "Sum of two partially valid tiles.",
    "src0 + src1 in the element type (floats round once, integers wrap)",
    (*INTS, *FLOATS),
)
TPARTMUL = _partial(
    "mul",
    "Product of two partially valid tiles.",
    "src0 * src1 in the element type (floats round once, integers wrap)",
    (*INT32, *FLOATS),
)
TPARTMAX = _partial(
    "max",
    "Maximum of two partially valid tiles.",
    "src1 where src0 < src1, else src0,",
    (*INTS, *FLOATS),
    NAN_FIRST,
    ZERO_FIRST,
)
TPARTMIN = _partial(
    "min",
    "Minimum of two partially valid tiles.",
    "src1 where src1 < src0, else src0,",
    (*INTS, *FLOATS),
    NAN_FIRST,
    ZERO_FIRST,
)

# -- with indices ------------------------------------------------------------------------------------

_VALUES = ("i32", "i16", "f16", "bf16", "f32", "i8", "u8")
_INDICES = ("i32", "u32", "i16", "u16")
_ARG_HARDWARE: Rows = (("f32", "i32"), ("f32", "u32"), *(("f16", i) for i in _INDICES))
_ARG_TYPES: TypeTable = pairs(tuple((v, i) for v in _VALUES for i in _INDICES), _ARG_HARDWARE, _ARG_HARDWARE)
_ARG_OPERANDS = (
    _DST,
    declare.Operand("dstIdx", "out", dtype="I"),
    _SRC0,
    _SRC1,
    declare.Operand("src0Idx", "in", dtype="I"),
    declare.Operand("src1Idx", "in", dtype="I", lacking=(1, 3)),
)


#: When src0 wins: where it is better only, also where both are equal, or unless src1 is better.
SRC0_WINS: Mapping[str, Literal["better", "equal", "unless worse"]] = {
    "cpu_sim": "better",
    "a2a3": "equal",
    "a5": "unless worse",
}


def _arg_samples(instruction: declare.Instruction, profile: Profile) -> Iterator[Sample]:
    for value, index in instruction.types[profile.name]:
        cols = max(irregular.row_cols(dtype(value)), irregular.row_cols(dtype(index)))
        values, indices = TileType(dtype(value), 16, cols), TileType(dtype(index), 16, cols)
        types: dict[str, Type] = dict.fromkeys(("src0", "src1", "dst"), values)
        types |= dict.fromkeys(("src0Idx", "src1Idx", "dstIdx"), indices)
        yield irregular.sample(instruction, ("src0", "src1", "src0Idx", "src1Idx"), types)


_PAIRED = (("dst", "dstIdx"), ("src0", "src0Idx"), ("src1", "src1Idx"))


def _partial_arg(name: str, relation: str, summary: str) -> declare.Instruction:
    return common.tile_instruction(
        name,
        summary,
        f"Over the valid region of dst: value and index of src0 where both sources are valid and src0 "
        f"{relation} src1 (on a2a3 and a5 also where they are equal, on a5 also where one is NaN), of src1 "
        "where both are valid otherwise; "
        "of the valid source where only one is; zero bits where neither is. The valid regions of the value "
        "tiles decide for the index tiles too.",
        _ARG_OPERANDS,
        _ARG_TYPES,
        cls="irregular",
        type_vars=("T", "I"),
        reads=(),
        placement=(in_vec(_ARG_OPERANDS), row_major(_ARG_OPERANDS)),
        extra=(
            _part_region(HARDWARE, _broken, _both_shorter, _ONE_EQUAL),
            *(rule for v, i in _PAIRED for rule in _beside(v, i)),
        ),
        decisions=(
            NEITHER_VALID,
            declare.Decision(
                "Which pair is taken when values are equal or one is NaN?",
                "On cpu_sim that of src1: src0 is taken on a strict comparison only. On a2a3 and a5 equal "
                "values take src0; with a NaN in either a2a3 takes src1, a5 src0.",
                f"{common.SIMULATOR_VALUES}; {HEADERS} (comparisons) and system tests",
            ),
        ),
        sampler=_arg_samples,
    )


def _beside(value: str, index: str) -> tuple[declare.Constraint, ...]:
    """An index tile has the shape of its value tile; on hardware a lane for each of its valid ones."""
    same = equal_shape(value, index, SIMULATOR, HEADERS, f"{index}-shape")
    enough = replace(covers((index,), value)[0], rule=f"{index}-lanes", profiles=HARDWARE)
    return same, enough


TPARTARGMAX = _partial_arg("tpartargmax", ">", "Maximum of two partially valid tiles, with indices.")
TPARTARGMIN = _partial_arg("tpartargmin", "<", "Minimum of two partially valid tiles, with indices.")

INSTRUCTIONS: tuple[declare.Instruction, ...] = (
    TPARTADD,
    TPARTMUL,
    TPARTMAX,
    TPARTMIN,
    TPARTARGMAX,
    TPARTARGMIN,
)
