"""Instructions by name: a choice of simple ones, and those that need something of their own to be generated.

What is generated of an instruction is a choice of this package, no fact about the instruction; other names
stand where generators build the operations.
"""

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
}
#: Executable instructions that no generated program has, and why.
REASONS = {
    "trap": "stops the program: no result to compare",
    **dict.fromkeys(
        "tprefetch_async make_prefetch_async_context get_prefetch_async_session wait_async_event "
        "test_async_event cmo.cacheinvalid fence.barrier_all get_buf_dyn rls_buf_dyn set_cross_block "
        "wait_cross_block set_intra_block wait_intra_block".split(),
        "without an effect on values: no machine could differ",
    ),
    **dict.fromkeys(
        "ptrtoint inttoptr tile_buf_addr pointer_cast".split(),
        "addresses as numbers: machines choose their own",
    ),
    **dict.fromkeys(
        "declare_global talloc talloc_to_aic talloc_to_aiv".split(),
        "not generated yet: slots of pipes in global memory",
    ),
}
