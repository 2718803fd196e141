"""Rules and samples of stores from accumulators, and of atomic stores."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...ir import AtomicType, AttrValue, Loc, PartitionViewType, ReluPreMode, ScalarType, TileType, dtype
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..declare import Attribute, AttrMap, Constraint, Finding, Instruction, Site
from ..samples.operations import Sample
from . import fixpipe, fixpipe_words, typesets
from .constraints import HARDWARE, HEADERS, element_type
from .forbid import Types, forbid
from .quantisation import SIMULATED_SCALAR, STORED_PLAIN, STORED_QUANTISED

#: Most columns that the accumulator's store path transfers.
MOST_COLUMNS = 4095
_HARDWARE_ADDS = ("f16", "f32", "i16", "i32", "i8", "bf16")
ADDS: Mapping[ProfileName, tuple[str, ...]] = {
    "cpu_sim": typesets.STANDARD,
    "a2a3": _HARDWARE_ADDS,
    "a5": _HARDWARE_ADDS,
}
ATOMIC = Attribute(
    "atomicType", AtomicType, AtomicType.ATOMIC_NONE, "overwrite or add", ("atomicType", "atomic_type")
)


def _added(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    d = element_type(types["dst"])
    attrs["atomicType"] = AtomicType.ATOMIC_ADD
    return d is not None and d.name not in ADDS[profile.name]


def atomic_types(profiles: tuple[ProfileName, ...] = PROFILE_NAMES) -> Constraint:
    """Element types of the window that an atomic store can add to."""
    statement = f"atomic_add on {', '.join(_HARDWARE_ADDS)}; on cpu_sim on every integer and f32, f16, bf16"

    @forbid("atomic-type", statement, profiles, invalid_if=_added)
    def rule(site: Site) -> Iterator[Finding]:
        d, allowed = element_type(site.types.get("dst")), ADDS[site.profile.name]
        if site.attrs.get("atomicType") == AtomicType.ATOMIC_ADD and d is not None and d.name not in allowed:
            yield "dst", f"atomic_add on {d}; allowed on {site.profile.name}: {', '.join(allowed)}"

    return rule


def _wide(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    t, view = types["src"], types["dst"]
    if not isinstance(t, TileType) or t.loc != Loc.ACC or not isinstance(view, PartitionViewType):
        return False
    types["src"] = replace(t, rows=1, cols=MOST_COLUMNS + 1, v_row=1, v_col=16)
    types["dst"] = replace(view, dims=(1, 16))
    return True


@forbid(
    "acc-columns",
    f"acc tiles of at most {MOST_COLUMNS} columns",
    HARDWARE,
    source=f"{HEADERS}; {fixpipe_words.VERIFIER}",
    invalid_if=_wide,
)
def accumulator_extent(site: Site) -> Iterator[Finding]:
    """An accumulator's store path has a limited number of columns."""
    t = site.tile("src")
    if t is not None and t.loc == Loc.ACC and t.cols > MOST_COLUMNS:
        yield "src", f"src has {t.cols} columns; allowed from acc on {site.profile.name}: {MOST_COLUMNS}"


def used_words(site: Site) -> int | None:
    """How many parameter words a store reads: one per column, on cpu_sim one per row of a col_major tile."""
    t, (rows, cols) = site.tile("src"), site.region("src")
    return rows if t is not None and indexed_by_row(t, site.profile.name) else cols


def indexed_by_row(t: TileType, profile: str) -> bool:
    """Whether a store takes the parameter word of the element's row."""
    return profile == "cpu_sim" and t.blayout.name == "COL_MAJOR"


def stores(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """Conversions of accumulators and their modes."""
    add = {"atomicType": AtomicType.ATOMIC_ADD}
    for index, pair in enumerate(STORED_PLAIN.get(profile.name, STORED_PLAIN["a5"])):
        yield Sample(instruction, _stored(pair), ("src",), _relu(index))
    yield Sample(instruction, _stored(("f16", "f32")), ("src",), {**_relu(1), **add})
    yield Sample(
        instruction, {"dst": PartitionViewType((8, 16), dtype("i16")), "src": TileType(dtype("i16"), 8, 16)},
        ("src",), add,
    )  # fmt: skip
    word = {"preQuantScalar": ScalarType(dtype("u64"))}
    for index, pair in enumerate(STORED_QUANTISED.get(profile.name, SIMULATED_SCALAR)):
        yield Sample(instruction, _stored(pair) | word, ("src", "preQuantScalar"), _relu(index))


def stores_by_column(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """A store with a row of words for each pair of element types."""
    for index, (d, s) in enumerate(instruction.types[profile.name]):
        types = _stored((d, s)) | {"fp": fixpipe.parameters()}
        yield Sample(instruction, types, ("src", "fp"), _relu(index))


def _relu(index: int) -> dict[str, AttrValue]:
    """Every second sample clamps."""
    return {"reluPreMode": ReluPreMode(index % 2)}


def _stored(pair: tuple[str, ...]) -> Types:
    return {"dst": PartitionViewType((16, 32), dtype(pair[0])), "src": fixpipe.accumulator(pair[1])}
