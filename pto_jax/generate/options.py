"""Options of generated programs, and the instructions that the generator treats specially.

These names are choices of the generator, not facts about instructions; further names stand where generators
build the operations.
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from ..ir import LayoutName, TileType
from ..isa.declare import InstructionClass
from ..isa.micro import MicroOperation
from ..isa.vmi import OLD_CONVERSIONS
from ..profiles import PROFILE_NAMES, ProfileName
from . import values

# Instructions by name: which ones programs have is a choice of the generator.
#: Simple instructions, which are most of those inside loops, branches and calls.
SIMPLE = frozenset(
    "tadd tsub tmax tadds tmuls trelu tmov tand tcvt trowsum tcolexpand tload tstore textract tinsert".split()
)
#: Executable instructions that need more than operands of their own: output on the terminal, a handle
#: (:mod:`.handles`), a position inside a tile.
APART = frozenset({"tprint", "talias", "tsetval"})
#: Instructions with a syntax of their own that need nothing but operands.
SETTINGS = frozenset(
    "set_quant_scalar set_quant_vector setfmatrix set_img2col_rpt set_img2col_padding set_ffts syncall "
    "tget_scale_addr".split()
)
#: The cast of pointers.
CASTPTR = "castptr"
#: Those with a form for each of many pairs of types.
MANY_FORMS = ("tcvt",)


def _made(names: str, **more: float) -> dict[str, dict[str, float]]:
    return dict.fromkeys(names.split(), more)


#: Operations on handles, memory, pipes and scalars, which statements make and no sample: the options of the
#: generator with which programs have them.
MADE = {
    **_made("alloc_tile", functions=0.5, tile_arguments=0.0),
    **_made("load_scalar store_scalar addptr castptr", overlaps=0.5, memory=0.5, functions=1.0),
    **_made(
        "make_tensor_view partition_view global_subview tensor_view_addr get_tensor_view_dim "
        "get_tensor_view_stride bind_tile memref.alloc memref.dealloc memref.reinterpret_cast",
        memory=0.6,
        functions=1.0,
    ),
    **_made("get_block_idx get_block_num", blocks=1.0, functions=1.0),
    **_made("treshape bitcast talias tassign tsubview", aliasing=0.5, addresses=0.5),
    **_made("subset", aliasing=0.6),
    **_made("subview alloc_multi_tile multi_tile_get", aliasing=0.5, storage=0.4),
    **_made("set_validshape", aliasing=0.5, dynamic=1.0),
    **_made("tgetval tsetval", scalars=0.5),
    **_made(
        "declare_local_array local_array_get local_array_set declare_struct struct_get struct_set "
        "get_validshape tile_valid_rows tile_valid_cols",
        scalars=0.5,
        storage=1.0,
    ),
    **_made(
        "barrier barrier_sync set_flag wait_flag set_flag_dyn wait_flag_dyn record_event wait_event get_buf "
        "rls_buf sync.set sync.wait tsync declare_eventid_array eventid_array_get eventid_array_set",
        sync=1.0,
        functions=0.7,
        memory=0.2,
    ),
    **_made(
        "aic_initialize_pipe aiv_initialize_pipe initialize_l2l_pipe initialize_l2g2l_pipe declare_tile "
        "reserve_buffer import_reserved_buffer tfree tfree_from_aic tfree_from_aiv tpop tpop_from_aic "
        "tpop_from_aiv tpush tpush_to_aic tpush_to_aiv get_subblock_idx get_subblock_num",
        cores=1.0,
    ),
    **_made("print tprint", output=0.5),
    **_made(
        "tput tget tnotify twait tbroadcast treduce comm.tgather comm.tscatter tput_async "
        "build_async_session",
        ranks=1.0,
    ),
}
#: How the element types of two registers of a micro-operation belong together, where a rule of execution
#: demands more than the declared types.
RELATIONS = {
    "vpack": "narrowed",
    **dict.fromkeys("vsunpack vzunpack".split(), "widened"),
    "vgather2": "gathered",
    "vscatter": "scattered",
    "vgather2_bc": "wide offsets",
    "vbitcast": "any",
    "vmi.vselr": "indices",
    "vmi.vinterpret_cast": "any",
    **dict.fromkeys("vmi.vgather vmi.vgatherb vmi.vscatter".split(), "positions"),
}


def converts(operation: MicroOperation) -> bool:
    """Whether the attributes of a micro-operation follow from its two element types."""
    return operation.name.removeprefix("vmi.") in ("vcvt", *OLD_CONVERSIONS)


#: Micro-operations that move data between memories, sort it there, or set how that is done: between scopes.
TRANSFERS = frozenset(
    "mte_gm_ub mte_ub_gm mte_ub_ub copy_gm_to_ubuf copy_ubuf_to_gm vbitsort vmrgsort4 get_vms4_sr "
    "set_loop_size_outtoub set_loop1_stride_outtoub set_loop2_stride_outtoub set_loop_size_ubtoout "
    "set_loop1_stride_ubtoout set_loop2_stride_ubtoout set_mov_pad_val set_atomic_add set_atomic_max "
    "set_atomic_min set_atomic_none set_atomic_f32 set_atomic_f16 set_atomic_bf16 set_atomic_s32 "
    "set_atomic_s16 set_atomic_s8 ld_dev st_dev".split()
)


#: Micro-operations of the cube unit.
CUBE_UNIT = (
    "mte_gm_l1 mte_l1_ub mte_ub_l1 copy_gm_to_cbuf copy_ubuf_to_cbuf copy_cbuf_to_ubuf mte_gm_l1_frac "
    "mte_l1_l0a mte_l1_l0b load_cbuf_to_ca load_cbuf_to_cb mte_l1_l0a_mx mte_l1_l0b_mx mte_l1_bt mte_l1_fb "
    "raw_fill_l1 mad mad_acc mad_bias mad_mx mad_mx_acc mad_mx_bias mte_l0c_l1 mte_l0c_gm mte_l0c_ub "
    "get_ctrl set_ctrl sbitset0 sbitset1"
).split()

_WITHOUT_EFFECT = "without an effect on values: no machine could differ"
#: Micro-operations that no generated kernel has, and why.
MICRO_REASONS: dict[str, str] = {
    **dict.fromkeys(("dsb", "dcci"), _WITHOUT_EFFECT),
    **dict.fromkeys(CUBE_UNIT, "in kernels of the cube unit: --preset cube"),
}


def micro_reason(name: str) -> str | None:
    """Why no generated kernel has a micro-operation; None for those that some have.

    >>> micro_reason("vadd"), micro_reason("dsb")
    (None, 'without an effect on values: no machine could differ')
    """
    return MICRO_REASONS.get(name)


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
    (``sync``), or only where operations depend on each other (``ordered``: all programs that do not do the
    former, or none), that it is one for a cube core and vector cores that meet in pipes or through flags
    (``cores``), that it reads and writes the same memory again and again (``overlaps``), that a function on
    one block has tiles as arguments (``tile_arguments``), that it is one for several processors (``ranks``),
    and that such a one lacks something that it needs (``mutants``).
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
    ordered: bool = False
    cores: float = 0.0
    overlaps: float = 0.0
    output: float = 0.0
    storage: float = 0.0
    functions: float = 0.0
    tile_arguments: float = 0.5
    blocks: float = 0.0
    ranks: float = 0.0
    mutants: float = 0.0
    depth: int = 2
    defined: bool = False
    micro: bool = False
    cube: bool = False


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
_MOSTLY_SIMPLE = tuple((name, 12.0) for name in sorted(SIMPLE))
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
#: Kept apart from campaigns of all presets: programs for the check of order.
ORDERED = replace(
    CONTROL,
    ordered=True,
    control=0.3,
    aliasing=0.05,
    memory=0.05,
    dynamic=0.3,
    functions=1.0,
    cores=0.2,
    statements=12,
    tile_arguments=0.0,
    elements=1024,
    weights=SYNC.weights,
)
#: Kept apart, too: programs on several processors, which few executors take.
RANKS = replace(STRAIGHT, ranks=1.0, mutants=0.25)
#: Kept apart too: kernels of another level, on one profile.
MICRO = replace(STRAIGHT, micro=True, control=0.3, statements=12, turns=5, profiles=("a5",))
CUBE = replace(STRAIGHT, cube=True, profiles=("a5",))
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
    "ordered": ORDERED,
    "ranks": RANKS,
    "micro": MICRO,
    "cube": CUBE,
}
#: The presets that campaigns and strategies take in turn where none is named.
IN_TURN = tuple(name for name in PRESETS if name not in ("ordered", "ranks", "micro", "cube"))
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
    "ordered": "flags, events and barriers between dependent operations only (for races)",
    "ranks": "2 to 4 processors: copies, signals, collectives; a quarter are mutants (for races)",
    "micro": "kernels of micro-operations: registers, masks, loads, stores, transfers (a5)",
    "cube": "kernels of the cube unit: fractals, products, stores of accumulators (a5)",
}
