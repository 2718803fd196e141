"""What generated programs are made of: one set of options."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from ..ir import LayoutName, TileType
from ..isa.declare import InstructionClass
from ..profiles import PROFILE_NAMES, ProfileName
from . import instructions, values

#: Kinds of valid regions; those of ``dynamic`` ones only execution knows.
Region: TypeAlias = Literal["full", "partial", "odd", "empty", "dynamic"]
#: How the two orders without boxes are called; the boxed ones keep their names, in small letters.
_LAYOUTS = {"ND": "row", "DN": "col"}
LAYOUT_NAMES = tuple(str(_LAYOUTS.get(name) or name.lower()) for name in get_args(LayoutName))
Weights: TypeAlias = tuple[tuple[InstructionClass, float], ...]
DEFAULT_WEIGHTS: Weights = (
    ("elementwise", 4.0),
    ("tile_scalar", 3.0),
    ("reduce_expand", 3.0),
    ("layout", 3.0),
    ("memory", 2.0),
    ("matrix", 1.0),
    ("irregular", 2.0),
    ("sync_config", 0.2),
)


@dataclass(frozen=True)
class Options:
    """Weights, sizes and feature switches of the generator.

    ``statements`` bounds the statements of a program, ``elements`` those of a tile, ``depth`` the nesting of
    regions and functions. ``only``, ``dtypes`` and ``layouts`` restrict the instructions to some names, and
    to operands of which one at least has one of the element types or layouts (none: all); by a pair
    ``f32->i32`` a source and a result have. ``regions`` restricts the valid regions, as far as an instruction
    takes them. ``weights`` are those of the classes of instructions, ``factors`` multiply those of
    instructions or classes by name. ``having`` are names of which every program has one, as far as some
    attempts make it; ``turns`` is the number of instructions that the index of a program chooses, so that a
    campaign soon has every pair of an instruction and an element type; ``grid`` is the number of blocks of
    programs that run on several. ``defined`` programs read no undefined lane: contents come before reads,
    valid regions cover what is read, and no divisor, shift count or index is out of range.

    The other numbers are probabilities.

    Of operands: that a source is a tile there already (``reuse``), that a valid region is only known at run
    time (``dynamic``), is partial (``partial``) or different from those of the operation's other tiles
    (``uneven``), that a shape or an attribute differs from the sample's (``shapes``, ``attributes``), that a
    result is bound instead of written (``results``), that a tile has an address (``addresses``).

    Of statements: that one is a loop or branch (``control``), a call (``calls``), makes another handle over
    bytes of a tile (``aliasing``), computes with scalars (``scalars``), uses global memory through pointers
    and views of its own (``memory``), prints a tile or scalar (``output``). Of handles and scalars: that one
    is a slot, a window with a valid region, an element of local storage or a valid size (``storage``).

    Of programs: that one is a module of functions and no fragment (``functions``; only these have calls,
    pointers and blocks), that it runs on several blocks (``blocks``), that it orders its pipes itself
    (``sync``), that it is one for a cube core and vector cores that meet in pipes or through flags
    (``cores``), that it reads and writes the same memory again and again (``overlaps``), that a function on
    one block has tiles as arguments (``tile_arguments``).
    """

    profiles: tuple[ProfileName, ...] = PROFILE_NAMES
    statements: int = 10
    elements: int = 4096
    only: frozenset[str] = frozenset()
    having: frozenset[str] = frozenset()
    turns: int = 4
    grid: int | None = None
    dtypes: frozenset[str] = frozenset()
    layouts: frozenset[str] = frozenset()
    regions: tuple[Region, ...] = ()
    weights: Weights = DEFAULT_WEIGHTS
    factors: tuple[tuple[str, float], ...] = ()
    recipes: tuple[values.Recipe, ...] = values.MOSTLY_MIXED
    reuse: float = 0.7
    dynamic: float = 0.5
    partial: float = 0.7
    uneven: float = 0.05
    shapes: float = 0.2
    attributes: float = 0.5
    control: float = 0.0
    calls: float = 0.0
    aliasing: float = 0.0
    scalars: float = 0.1
    memory: float = 0.0
    results: float = 0.2
    addresses: float = 0.0
    sync: float = 0.0
    cores: float = 0.0
    overlaps: float = 0.0
    output: float = 0.0
    storage: float = 0.0
    functions: float = 0.0
    tile_arguments: float = 0.5
    blocks: float = 0.0
    depth: int = 2
    defined: bool = False


def on_blocks(options: Options, grid: int | None) -> Options:
    """Options whose programs run on a number of blocks; None: on one or some."""
    if grid is None:
        return options
    # Tiles that are arguments, and fragments, belong to one block.
    return replace(
        options, grid=grid, blocks=float(grid > 1), functions=1.0 if grid > 1 else options.functions
    )


def layout_name(t: TileType) -> str:
    """What the layout of a tile is called where programs are counted or chosen by it.

    >>> from pto_jax.ir import F32
    >>> layout_name(TileType(F32, 16, 16))
    'row'
    """
    return _LAYOUTS.get(t.layout, t.layout.lower())


#: Simple instructions are more than half of what stands inside loops, branches and calls.
_MOSTLY_SIMPLE = tuple((name, 12.0) for name in sorted(instructions.SIMPLE))
STRAIGHT = Options()
CONTROL = replace(
    STRAIGHT,
    factors=_MOSTLY_SIMPLE,
    control=0.35,
    scalars=0.2,
    shapes=0.0,
    attributes=0.0,
    reuse=0.9,
    elements=2048,
)
ALIASES = replace(STRAIGHT, storage=0.2, aliasing=0.3, addresses=0.5, factors=_MOSTLY_SIMPLE, reuse=0.9)
EVERYTHING = replace(
    CONTROL,
    storage=0.3,
    aliasing=0.15,
    addresses=0.3,
    calls=0.1,
    functions=0.5,
    blocks=0.4,
    memory=0.1,
    sync=0.1,
    cores=0.05,
)
DEFINED = replace(
    STRAIGHT,
    defined=True,
    uneven=0.0,
    control=0.15,
    calls=0.05,
    aliasing=0.1,
    addresses=0.3,
    memory=0.1,
    functions=0.3,
    blocks=0.3,
)
MEMORY = replace(
    STRAIGHT,
    memory=0.5,
    factors=_MOSTLY_SIMPLE,
    control=0.1,
    calls=0.05,
    scalars=0.15,
    functions=0.8,
    blocks=0.2,
    reuse=0.9,
)
SYNC = replace(
    STRAIGHT,
    sync=1.0,
    control=0.15,
    calls=0.05,
    aliasing=0.1,
    addresses=0.6,
    memory=0.1,
    functions=0.5,
    weights=tuple(
        (c, {"sync_config": 1.0, "matrix": 2.0, "layout": 4.0}.get(c, w)) for c, w in DEFAULT_WEIGHTS
    ),
)
CORES = replace(STRAIGHT, cores=1.0, blocks=0.3, reuse=0.9, partial=0.0, dynamic=0.2)
OVERLAPS = replace(STRAIGHT, overlaps=1.0, blocks=0.4, statements=3)
#: Printing programs: kept apart from the presets, machines differ in where they print.
OUTPUT = replace(STRAIGHT, output=0.3, functions=0.5)
#: Options that campaigns take turns in, by name.
PRESETS = {
    "straight": STRAIGHT,
    "control": CONTROL,
    "aliases": ALIASES,
    "memory": MEMORY,
    "sync": SYNC,
    "cores": CORES,
    "overlaps": OVERLAPS,
    "everything": EVERYTHING,
    "defined": DEFINED,
}
#: What the programs of each preset are for.
DESCRIPTIONS = {
    "straight": "instructions one after the other, of all types, attributes and valid regions",
    "control": "loops, branches and scalars around simple instructions",
    "aliases": "tiles that share bytes: addresses, windows, reshapes, slots",
    "memory": "views of any rank and layout, pointers, memrefs, single elements",
    "sync": "flags, events, tokens and barriers between the pipes",
    "cores": "a cube core and vector cores that meet in pipes or through flags",
    "overlaps": "the same memory read and written: in place, in loops, on several blocks",
    "everything": "all of them in one program",
    "defined": "no undefined lane is read (for the sanitizer)",
}
