"""Syntax entries of operations with their own syntax, one line each, for the reader and the printer.

An entry is a sequence of items separated by blanks:

``$name``       one operand                     ``$name*``     operands separated by commas
``$name>``      the operand that is written
``!name``       the type of that operand        ``!name*``     the types of those operands
``!a&b&^``      one type for several (``^``: the result)
``^*``          the types of several results, separated by commas
``^``           the type of the result          ``{}``         an attribute dictionary, may be absent
``{+}``         a further dictionary, which is read and never printed
``{~}``         words of MLIR that change no defined result (:data:`FLAGS`), read and never printed
``@name:kind``  an attribute in its own place   ``@a:int|$b``  an attribute or an operand
``(? ... ?)``   may be absent; ``(?r``: printed when there is a result, ``(?n``: when there is none, and
                where the type differs from :data:`OPERAND_TYPES`, ``(?b``: always; ``(?t``: present exactly
                where the operands of its types are; ``(?m``: read for the last operand of the text,
                printed when its type is a mask; ``(?a,b|c,d,e``: operands in their order, or by the names
                of one of these forms in any order, as in ``b(%y), a(%x)``
``(& ... &)``   parts separated by ``;``: any of them, in any order, with commas between
``=i64``        the result has this type, which is not written; ``=$a``: the type of operand ``a``;
                ``=part``: a window of the sizes that are constants; ``=window``: that of the first operand
                with the given sizes and valid sizes; ``=indices``: two results of type index
anything else   itself

The last part has names of the languages below tile programs, which programs of the assembler contain too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, TypeAlias

from ..ir import I1, I64, INDEX, ScalarType


@dataclass(frozen=True, slots=True)
class LiteralItem:
    """A text that stands as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class OperandItem:
    """``$name``: one operand, or (``many``) operands separated by commas; ``out`` is one that is written."""

    name: str
    many: bool
    out: bool = False


@dataclass(frozen=True, slots=True)
class TypeItem:
    """The type of operands; ``^`` among the targets is the result."""

    targets: tuple[str, ...]
    many: bool


@dataclass(frozen=True, slots=True)
class DictItem:
    """``{}``: an attribute dictionary, which may be absent; a ``further`` one is not printed."""

    further: bool = False


@dataclass(frozen=True, slots=True)
class FlagsItem:
    """``{~}``: words of :data:`FLAGS`, any of them or none."""


@dataclass(frozen=True, slots=True)
class AttrItem:
    """An attribute; where ``operand`` is given an operand may stand in its place."""

    name: str
    kind: str
    operand: str = ""


@dataclass(frozen=True, slots=True)
class ImpliedItem:
    """How the type of a result that is not written follows."""

    rule: str


@dataclass(frozen=True, slots=True)
class OptionalItem:
    """``(? ... ?)``: items that may be absent; ``when`` is the condition under which they are printed."""

    items: tuple[Item, ...]
    when: str


@dataclass(frozen=True, slots=True)
class AnyOrderItem:
    """``(& ... &)``: parts that begin with a word each, separated by commas, in any order."""

    parts: tuple[tuple[Item, ...], ...]


Item: TypeAlias = (
    LiteralItem
    | OperandItem
    | TypeItem
    | DictItem
    | FlagsItem
    | AttrItem
    | ImpliedItem
    | OptionalItem
    | AnyOrderItem
)

#: What MLIR's arithmetic lets a compiler assume, each with the words that it lists in angle brackets.
FLAGS = {
    "overflow": ("nsw", "nuw", "none"),
    "fastmath": ("none", "reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "fast"),
    "exact": (),
    "nneg": (),
}


def items_of(syntax: str) -> tuple[Item, ...]:
    """The items of a line.

    >>> items_of("$view , $index {}")[0]
    OperandItem(name='view', many=False, out=False)
    """
    return _read(syntax.split())


def _item(text: str) -> Item:
    if text in ("{}", "{+}"):
        return DictItem(further=text == "{+}")
    if text == "{~}":
        return FlagsItem()
    if text in ("^", "^*"):
        return TypeItem(("^",), many=text == "^*")
    match text[0], text[1:]:
        case "$", name if name:
            return OperandItem(name.rstrip("*>"), name.endswith("*"), name.endswith(">"))
        case "!", name if name:
            return TypeItem(tuple(name.removesuffix("*").split("&")), name.endswith("*"))
        case "=", rule if rule:
            return ImpliedItem(rule)
        case "@", rest:
            attribute, _, operand = rest.partition("|$")
            name, _, kind = attribute.partition(":")
            return AttrItem(name, kind, operand)
        case _:
            return LiteralItem(text)


def _read(words: list[str]) -> tuple[Item, ...]:
    items: list[Item] = []
    while words:
        word = words.pop(0)
        if word in ("?)", "&)", ";"):
            break
        if word == "(&":
            items.append(_any_order(words))
            continue
        items.append(OptionalItem(_read(words), word[2:]) if word.startswith("(?") else _item(word))
    return tuple(items)


def _any_order(words: list[str]) -> AnyOrderItem:
    parts, count = [], words.index("&)") + 1
    inside, words[:] = words[:count], words[count:]
    while inside:
        parts.append(_read(inside))
    return AnyOrderItem(tuple(parts))


_VIEW = "$view {} : !view -> ^"
_PIPE_INIT = (
    "{} ( (& gm_slot_buffer = $gm_slot_buffer : !gm_slot_buffer "
    "; gm_slot_tensor = $gm_slot_tensor : !gm_slot_tensor "
    "; c2v_consumer_buf = $c2v_consumer_buf : !c2v_consumer_buf "
    "; v2c_consumer_buf = $v2c_consumer_buf : !v2c_consumer_buf &) ) {+}"
)
_SUBBLOCK = "(? aiv_subblockid ( $aiv_subblockid ) ?)"
_FLAG = "[ @src:pipe , @dst:pipe , @event:event ] {}"
_FLAG_DYN = "[ @src:pipe , @dst:pipe , $event ] {}"
_EVENT = "[ @src_op:sync_op , @dst_op:sync_op , @event:event ] {}"
_BUFFER = "(?b [ ?) @op_type:token , @buf:int (? , @mode:int ?) (?b ] ?) {}"
_BUFFER_DYN = "(?b [ ?) @op_type:token , $buf (? , @mode:int ?) (?b ] ?) {}"
_CORE_FLAG = "@pipe:pipe , @event:int|$event {}"
_TILES = "$staging (? , $pong ?)"
_TILE_TYPES = "!staging (?t , !pong ?)"
_COPY = f"( $dst> , $src , buf ( {_TILES} ) : !dst , !src , {_TILE_TYPES} ) {{}}"
_SIGNAL = "( $signal , $value : !signal , !value ) {}"
_MEMBERS = f"recv ( {_TILES} ) , group ( $members* ) : "
_ASYNC_COPY = "( $dst , $src , $session : !dst , !src , !session ) {} -> ^"
_ASYNC_EVENT = "( $event , $session : !event , !session ) {} -> ^"
_POP = "(? ( $valid_row , $valid_col ) ?) {} {+} -> ^"
_POP_HALF = f"(? ( $valid_row , $valid_col ) ?) {{}} {_SUBBLOCK} {{+}} -> ^"
_FREE = "(? ( $entry : !entry ) ?) {} {+}"
_BINARY = "$lhs , $rhs {~} {} : !lhs&rhs&^"
_CAST = "$value {~} {} : !value to ^"
_COMPARE = "@predicate:word , $lhs , $rhs {~} {} : !lhs&rhs =i1"

# Instructions by name: the syntax of each operation is a line of its own.
_SYNTAX = {
    "make_tensor_view": "$ptr , shape = [ $shape* ] , strides = [ $strides* ] {} : ^",
    "partition_view": "$view , offsets = [ $offsets* ] , sizes = [ $sizes* ] {} : !view (?r -> ^ ?) =part",
    "global_subview": "$view , offsets = [ $offsets* ] , sizes = @sizes:integers {} : !view -> ^",
    "get_tensor_view_dim": "$view , $index {} : !view -> ^",
    "get_tensor_view_stride": "$view , $index {} : !view -> ^",
    "get_validshape": "$tile {} : !tile =indices",
    "tile_valid_rows": "$tile {} : !tile -> ^",
    "tile_valid_cols": "$tile {} : !tile -> ^",
    "tensor_view_addr": _VIEW,
    "tile_buf_addr": "$tile {} : !tile -> ^",
    "addptr": "$ptr , $offset {} : !ptr -> ^",
    "castptr": "$addr {} : !addr -> ^",
    "ptrtoint": "$ptr {} : !ptr -> ^",
    "inttoptr": "$addr {} : !addr -> ^",
    "alloc_tile": "(? addr = $addr ?) (? valid_row = $valid_row ?) (? valid_col = $valid_col ?) {} : ^",
    "declare_tile": "{} -> ^",
    "alloc_multi_tile": "(? addr = $addr ?) (? valid_row = $valid_row ?) (? valid_col = $valid_col ?) {} : ^",
    "multi_tile_get": "$tiles [ $slot ] {} : !tiles -> ^",
    "declare_local_array": "{} -> ^",
    "local_array_get": "$array [ $indices* ] {} : !array -> ^",
    "local_array_set": "$array [ $indices* ] , $value {} : !array , !value",
    "declare_struct": "{} -> ^",
    "struct_get": "$struct [ @path:numbers ] {} : !struct -> ^",
    "struct_set": "$struct [ @path:numbers ] , $value {} : !struct , !value",
    "bind_tile": "$source (? , $valid_row , $valid_col ?) {} : !source -> ^",
    "pointer_cast": "( $addrs* ) (? $valid_row , $valid_col ?) {} : ^",
    "set_validshape": "$tile , $row , $col {} : !tile",
    "subset": "$tile [ $offsets* ] sizes @sizes:integers {} : !tile =window",
    "subview": (
        "$tile [ $offsets* ] sizes @sizes:integers (? valid [ $valid_row , $valid_col ] ?) {} "
        ": !tile (?r -> ^ ?) =window"
    ),
    "treshape": "$tile {} : !tile (?r -> ^ ?) =$tile",
    "bitcast": "$tile {} : !tile -> ^",
    "tassign": "$tile , $addr {} : !tile (?n , !addr ?) (?r -> ^ ?) =$tile",
    "tgetval": "ins ( $tile , $offset : !tile , !offset ) outs : ^ {}",
    "load_scalar": "$ptr [ $offset ] {} : !ptr -> ^",
    "store_scalar": "$value , $ptr [ $offset ] {} : !ptr , !value",
    "print": "ins ( @format:string , $scalar : !scalar ) {}",
    "trap": "{}",
    "get_block_idx": "{} =i64",
    "get_block_num": "{} =i64",
    "get_subblock_idx": "{} =i64",
    "get_subblock_num": "{} =i64",
    "barrier": "@pipe:pipe {}",
    "barrier_sync": "[ @op_type:sync_op ] {}",
    "set_flag": _FLAG,
    "wait_flag": _FLAG,
    "set_flag_dyn": _FLAG_DYN,
    "wait_flag_dyn": _FLAG_DYN,
    "record_event": _EVENT,
    "wait_event": _EVENT,
    **dict.fromkeys(
        "sync.set sync.wait set_cross_block wait_cross_block set_intra_block wait_intra_block".split(),
        _CORE_FLAG,
    ),
    "syncall": "( (? $values* : !values* ?) ) mode = @mode:value , core_type = @core:value {}",
    "cmo.cacheinvalid": "(? all @space:value ?) (? $addr single_cache_line : !addr ?) {}",
    "fence.barrier_all": "@scope:value {}",
    "get_buf": _BUFFER,
    "rls_buf": _BUFFER,
    "get_buf_dyn": _BUFFER_DYN,
    "rls_buf_dyn": _BUFFER_DYN,
    "set_ffts": "$ffts {} : !ffts",
    "declare_eventid_array": "{} -> ^",
    "eventid_array_get": "$array [ $index ] {} : !array =index",
    "eventid_array_set": "$array [ $index ] , $value {} : !array",
    "tput": _COPY,
    "tget": _COPY,
    "tnotify": _SIGNAL,
    "twait": _SIGNAL,
    "ttest": f"{_SIGNAL} -> ^",
    "tbroadcast": f"( $src , {_MEMBERS} !src , {_TILE_TYPES} , !members* ) {{}}",
    "comm.tscatter": f"( $src , {_MEMBERS} !src , {_TILE_TYPES} , !members* ) {{}}",
    "comm.tgather": f"( $dst> , {_MEMBERS} !dst , {_TILE_TYPES} , !members* ) {{}}",
    "treduce": (
        "( $dst> , $acc , recv ( $recv (? , $pong ?) ) , group ( $members* ) : "
        "!dst , !acc , !recv (?t , !pong ?) , !members* ) {}"
    ),
    "build_async_session": "( $scratch , $workspace : !scratch , !workspace ) {} -> ^",
    "tput_async": _ASYNC_COPY,
    "tget_async": _ASYNC_COPY,
    "wait_async_event": _ASYNC_EVENT,
    "test_async_event": _ASYNC_EVENT,
    "make_prefetch_async_context": "( $workspace : !workspace ) {} -> ^",
    "tprefetch_async": "( $src , $context : !src , !context ) {} -> ^",
    "get_prefetch_async_session": "$context {} : !context -> ^",
    "reserve_buffer": "{} -> ^",
    "import_reserved_buffer": "{} -> ^",
    "aic_initialize_pipe": _PIPE_INIT,
    "aiv_initialize_pipe": _PIPE_INIT,
    "initialize_l2g2l_pipe": (
        "{} ( $gm_addr : !gm_addr (? , $local_addr : !local_addr ?) "
        "(? , $peer_local_addr : !peer_local_addr ?) ) -> ^"
    ),
    "initialize_l2l_pipe": (
        "{} ( $local_addr : !local_addr (? , $peer_local_addr : !peer_local_addr ?) ) -> ^"
    ),
    "talloc_to_aiv": "{} {+} -> ^",
    "talloc_to_aic": "{} {+} -> ^",
    "tpush_to_aiv": "( $tile : !tile ) {} {+}",
    "tpush_to_aic": f"( $tile : !tile ) {{}} {_SUBBLOCK} {{+}}",
    "tpop_from_aic": _POP_HALF,
    "tpop_from_aiv": _POP,
    "tfree_from_aic": _FREE,
    "tfree_from_aiv": _FREE,
    "declare_global": "{} -> ^",
    "talloc": "( (? $view , ?) $pipe : (?t !view , ?) !pipe ) {} (?r -> ^ ?)",
    "tpush": f"( $tile , $pipe : !tile , !pipe ) {{}} {_SUBBLOCK} {{+}}",
    "tpop": f"( $tile , $pipe : !tile , !pipe ) {{}} {_SUBBLOCK} {{+}}",
    "tfree": "( $values* : !values* ) {}",
    "set_quant_scalar": "( $scale : !scale ) {} {+}",
    "set_quant_vector": "( $scale : !scale ) {} {+}",
    "memref.alloc": "( ) {} : ^",
    "memref.dealloc": "$memref {} : !memref",
    "memref.reinterpret_cast": (
        "$source to offset : [ $offsets* ] , sizes : [ $sizes* ] , strides : [ $strides* ] {} : !source to ^"
    ),
    "arith.cmpi": _COMPARE,
    "arith.cmpf": _COMPARE,
    "arith.select": "$condition , $lhs , $rhs {} : !lhs&rhs&^",
    "arith.negf": "$value {~} {} : !value&^",
    **dict.fromkeys(
        """
        arith.addi arith.subi arith.muli arith.divsi arith.divui arith.ceildivsi arith.ceildivui
        arith.floordivsi arith.remsi arith.remui arith.andi arith.ori arith.xori arith.shli arith.shrsi
        arith.shrui arith.minsi arith.minui arith.maxsi arith.maxui arith.addf arith.subf arith.mulf
        arith.divf arith.remf arith.minimumf arith.maximumf arith.minnumf arith.maxnumf
        """.split(),
        _BINARY,
    ),
    **dict.fromkeys(
        """
        arith.index_cast arith.index_castui arith.extsi arith.extui arith.extf arith.trunci arith.truncf
        arith.sitofp arith.uitofp arith.fptosi arith.fptoui arith.bitcast
        """.split(),
        _CAST,
    ),
    "builtin.unrealized_conversion_cast": _CAST,
    "scf.condition": "( $condition ) (? $values* : !values* ?)",
    "scf.yield": "(? $values* : !values* ?)",
    "return": "(? $values* : !values* ?)",
}

#: Operations with optional or repeated operands whose ``ins`` need no names: their order says all.
UNGROUPED = frozenset(
    """
    scf.condition scf.yield return sync.set sync.wait initialize_l2l_pipe
    tpush_to_aic tfree_from_aic tfree_from_aiv tpush tpop tfree syncall cmo.cacheinvalid
    set_cross_block wait_cross_block set_intra_block wait_intra_block
    """.split()
)
#: Operands in the order of the generic form, where the syntax has another one.
GENERIC_ORDER = {"store_scalar": ("ptr", "offset", "value")}
#: Operations that are also written as tile instructions.
TWO_SPELLINGS = frozenset(
    """
    talloc tpush tpop tfree set_quant_scalar set_quant_vector syncall tprefetch_async
    tput tget tnotify twait ttest tbroadcast treduce comm.tgather comm.tscatter
    """.split()
)
#: A name of three operations; brackets behind the first operand, ``offsets``, or neither tell which is meant.
OVERLOADED = {"subview": ("subview", "global_subview", "tsubview")}
#: In the generic form: what such a name means where the first operand is no tile.
OF_VIEWS = {"subview": "global_subview"}
#: Operations that share their name in the text with others.
SPELLED = {
    "global_subview": "subview",
    **{
        name: f"comm.{name}"
        for name in """
        tput tget tnotify twait ttest tbroadcast treduce build_async_session tput_async tget_async
        wait_async_event test_async_event
        """.split()
    },
}
#: Operands whose type may be left out: what a name without a definition (fragments) is taken as.
OPERAND_TYPES = {
    **dict.fromkeys(
        "shape strides offsets sizes index indices slot offset row col valid_row valid_col event buf".split(),
        ScalarType(INDEX),
    ),
    "addr": ScalarType(I64),
    "aiv_subblockid": ScalarType(I64),
    "condition": ScalarType(I1),
}
#: Types of results by the rules that name them.
IMPLIED_TYPES = {"i64": ScalarType(I64), "i1": ScalarType(I1), "index": ScalarType(INDEX)}
PREDICATES = {
    "arith.cmpi": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "arith.cmpf": (
        "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
        "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "false", "true",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Format:
    """The syntax of one operation."""

    name: str
    items: tuple[Item, ...]

    @cached_property
    def flat(self) -> tuple[Item, ...]:
        """The parts, those of optional parts in their place."""
        return tuple(_flat(self.items))

    @cached_property
    def grouped(self) -> bool:
        """Whether operations of this syntax name the parts of their operands."""
        return self.name not in UNGROUPED and any(
            isinstance(i, AnyOrderItem)
            or (isinstance(i, OperandItem) and i.many)
            or (isinstance(i, OptionalItem) and any(isinstance(j, OperandItem) for j in i.items))
            for i in self.items
        )

    @cached_property
    def operands(self) -> tuple[tuple[str, Literal["one", "optional", "many"]], ...]:
        """The operands by name in the order of the generic form, and how many values each may be."""
        result = dict(result for i in self.items for result in _operands(i, "one"))
        return tuple((n, result[n]) for n in GENERIC_ORDER.get(self.name, self.order))

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The operands by name as the syntax has them."""
        return tuple(dict(operand for i in self.items for operand in _operands(i, "one")))

    @cached_property
    def clauses(self) -> tuple[str, ...]:
        """The words that begin optional parts in front of the types, in their order."""
        clauses: list[str] = []
        for item in self.items:
            match item:
                case OptionalItem((LiteralItem(","), LiteralItem(word), *_), _):
                    clauses.append(word)
                case OptionalItem((LiteralItem(word), *_), _) if word.isidentifier():
                    clauses.append(word)
                case OptionalItem((LiteralItem(","), AttrItem(name, "word"), *_), _) | OptionalItem(
                    (AttrItem(name, "word"), *_), _
                ):
                    clauses += self.words(name)
        return tuple(clauses)

    def words(self, attribute: str) -> tuple[str, ...]:
        """The words that may stand for an attribute."""
        if self.name in PREDICATES:
            return PREDICATES[self.name]
        from ..isa import find_micro

        operation = find_micro(self.name)
        assert operation is not None, self.name
        return operation.clauses.get(attribute) or operation.choices[attribute]

    @cached_property
    def outs(self) -> frozenset[str]:
        """The operands that operations of this syntax write."""
        return frozenset(i.name for i in self.items if isinstance(i, OperandItem) and i.out)

    @cached_property
    def lists_results(self) -> bool:
        """Whether operations of this syntax have as many results as they give types."""
        return any(isinstance(i, TypeItem) and i.many and "^" in i.targets for i in self.flat)

    @cached_property
    def results(self) -> int:
        """How many results operations of this syntax have."""
        if ImpliedItem("indices") in self.flat:
            return 2
        return int(
            any(
                isinstance(i, ImpliedItem) or (isinstance(i, TypeItem) and "^" in i.targets)
                for i in self.flat
            )
        )


def _flat(items: tuple[Item, ...]) -> Iterator[Item]:
    for item in items:
        yield from _flat(item.items) if isinstance(item, OptionalItem) else (item,)


def _operands(
    item: Item, count: Literal["one", "optional"]
) -> Iterator[tuple[str, Literal["one", "optional", "many"]]]:
    match item:
        case OperandItem(name, many, _):
            yield name, "many" if many else count
        case AttrItem(_, _, operand) if operand:
            yield operand, "optional"
        case OptionalItem(items, when):
            yield from (
                pair for inner in items for pair in _operands(inner, count if "|" in when else "optional")
            )
        case AnyOrderItem(parts):
            yield from (pair for part in parts for inner in part for pair in _operands(inner, "optional"))


@cache
def find_format(name: str) -> Format | None:
    """The syntax of an operation, None for those without an entry."""
    syntax = _SYNTAX.get(name)
    if syntax is None and is_micro_operation(name):
        from ..isa import find_micro

        match = find_micro(name)
        syntax = None if match is None else match.syntax
    return None if syntax is None else Format(name, items_of(syntax))


def format_names() -> tuple[str, ...]:
    """Every operation that has an entry."""
    return tuple(_SYNTAX)


#: Operations of vector scopes, of data paths below tiles, and of threads.
_OPERATIONS = frozenset(
    """
    absf atomic_add atomic_and atomic_cas atomic_exch atomic_max atomic_min atomic_or atomic_sub atomic_xor
    ceil chistv2 convert copy_cbuf_to_bt copy_cbuf_to_fbuf copy_cbuf_to_ubuf copy_gm_to_cbuf
    copy_gm_to_cbuf_multi_dn2nz copy_gm_to_cbuf_multi_nd2nz copy_gm_to_ubuf copy_matrix_cc_to_cbuf
    copy_matrix_cc_to_gm copy_matrix_cc_to_ub copy_ubuf_to_cbuf copy_ubuf_to_gm copy_ubuf_to_ubuf cos
    create_cbuf_matrix dcci dhistv2 dsb exp floor fma fmax fmin get_block_dim_x get_block_dim_y
    get_block_dim_z get_block_idx_x get_block_idx_y get_block_idx_z get_clock32 get_clock64 get_ctrl
    get_grid_dim_x get_grid_dim_y get_grid_dim_z get_laneid get_lanemask_eq get_lanemask_ge get_lanemask_gt
    get_lanemask_le get_lanemask_lt get_tid_x get_tid_y get_tid_z get_veccoreid get_vms4_sr init_align keep
    ld_dev ldg load load_cbuf_to_ca load_cbuf_to_ca_mx load_cbuf_to_ca_s4 load_cbuf_to_cb load_cbuf_to_cb_mx
    load_cbuf_to_cb_s4 log mad mad_acc mad_bias mad_bias_raw mad_mx mad_mx_acc mad_mx_bias mad_mx_bias_raw
    mad_mx_raw mad_raw mem_bar mte_gm_l1 mte_gm_l1_frac mte_gm_ub mte_l0c_gm mte_l0c_l1 mte_l0c_ub mte_l1_bt
    mte_l1_fb mte_l1_l0a mte_l1_l0a_mx mte_l1_l0b mte_l1_l0b_mx mte_l1_ub mte_ub_gm mte_ub_l1 mte_ub_ub
    mul_i32toi64 mulhi pand pbitcast pdintlv_b16 pdintlv_b32 pdintlv_b8 pge_b16 pge_b32 pge_b8 pintlv_b16
    pintlv_b32 pintlv_b8 pldi plds plt_b16 plt_b32 plt_b8 pltm_b16 pltm_b32 pltm_b8 pnot por pow ppack prmt
    psel pset_b16 pset_b32 pset_b8 psti psts pstu punpack pxor raw_fill_l1 redux_add redux_max redux_min
    resume rint round sbitset0 sbitset1 set_atomic_add set_atomic_bf16 set_atomic_f16 set_atomic_f32
    set_atomic_max set_atomic_min set_atomic_none set_atomic_s16 set_atomic_s32 set_atomic_s8
    set_channel_para set_ctrl set_fix_clip_relu set_fpc set_loop1_stride_outtol1 set_loop1_stride_outtoub
    set_loop1_stride_ubtoout set_loop2_stride_outtol1 set_loop2_stride_outtoub set_loop2_stride_ubtoout
    set_loop3_para set_loop_size_outtol1 set_loop_size_outtoub set_loop_size_ubtoout set_mov_pad_val
    set_mte2_nz_para set_pad_val_outtol1 set_quant_pre set_relu_alpha set_store_atomic_cfg shuffle_bfly
    shuffle_down shuffle_idx shuffle_up simt_launch sin sprclr sprsti sprsts sqrt st_dev stg store
    store_vfsimt_info strict_vecscope syncthreads threadfence threadfence_block uvld vabs vadd vaddc vaddcs
    vaddreluconv vadds vand vaxpy vbitcast vbitsort vbr vcadd vcbmax vcbmin vcgadd vcgmax vcgmin vci vcmax
    vcmin vcmp vcmps vcpadd vcvt vdintlv vdintlvv2 vdiv vdup vecscope vexp vexpdif vgather2 vgather2_bc
    vgatherb vintlv vintlvv2 vldas vlds vldsx2 vldus vln vlrelu vmadd vmax vmaxs vmin vmins vmrgsort4 vmul
    vmula vmulconv vmull vmuls vmulscvt vneg vnot vor vote_all vote_any vote_ballot vote_uni vpack vprelu
    vrelu vrsqrt vscatter vsel vselr vselrv2 vshl vshls vshr vshrs vsldb vsqrt vsqz vsstb vstar vstas vsts
    vstsx2 vstur vstus vsub vsubc vsubcs vsunpack vtrc vusqz vxor vzunpack
    """.split()
)
#: Registers of cube code, and vector operations that are declared by the assembler and explained nowhere.
_CONFIGURES_CUBE = frozenset(
    """
    set_channel_para set_fix_clip_relu set_fpc set_loop1_stride_outtol1 set_loop2_stride_outtol1
    set_loop3_para set_loop_size_outtol1 set_mte2_nz_para set_pad_val_outtol1 set_quant_pre
    set_relu_alpha
    """.split()
)
_VECTOR_ONLY = frozenset("uvld vselrv2 vintlvv2 vdintlvv2 vcbmax vcbmin vaddreluconv vmulconv".split())
_PREFIXES = ("vmi.", "ub.")
_SECTIONS = ("section.simt",)
_TYPES = ("vreg", "mask", "align", "vmi.vreg", "vmi.mask")


def is_micro_operation(name: str) -> bool:
    """Whether an operation, named without ``pto.``, belongs to code below tile programs.

    >>> is_micro_operation("vlds"), is_micro_operation("vmi.add"), is_micro_operation("tadd")
    (True, True, False)
    """
    return name in _OPERATIONS or name in _SECTIONS or name.startswith(_PREFIXES)


def is_register_type(name: str) -> bool:
    """Whether a type, named without ``!pto.``, is one of registers."""
    return name in _TYPES


#: How the names of cube operations begin and which parts they have.
_CUBE = re.compile(
    r"mad\b|mad_|mte_\w*(l1|l0)|copy_(?!gm_to_ubuf|ubuf_to_(gm|ubuf))|load_cbuf|create_cbuf|raw_fill"
)


def outside(spelled: str) -> str:
    """The message for one of these that has no declaration: what it is of, and what there is instead.

    >>> outside("pto.mad_raw").partition(";")[0]
    "got 'pto.mad_raw' of cube code, which is not executed"
    """
    name, allowed = spelled.removeprefix("pto."), "the operations of `pto-jax isa`"
    if name.startswith("ub."):
        what, allowed = "the A3 form of vector code", "tile instructions, or micro-operations of a5"
    elif name.startswith("vmi."):
        what = "VMI code"
    elif _CUBE.match(name) or name in _CONFIGURES_CUBE:
        what, allowed = (
            "cube code",
            "those of `pto-jax isa micro`, and matrix instructions on tiles",
        )
    elif name in _VECTOR_ONLY:
        what = "vector code of unknown meaning"
    else:
        what, allowed = "SIMT code", "tile instructions and micro-operations"
    return f"got '{spelled}' of {what}, which is not executed; allowed: {allowed}"
