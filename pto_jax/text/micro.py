"""Names of the languages below tile programs, which texts of the assembler have beside them."""

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
    set_channel_para set_fix_clip_relu set_fpc set_loop1_stride_outtol1 set_loop1_stride_outtoub
    set_loop1_stride_ubtoout set_loop2_stride_outtol1 set_loop2_stride_outtoub set_loop2_stride_ubtoout
    set_loop3_para set_loop_size_outtol1 set_loop_size_outtoub set_loop_size_ubtoout set_mov_pad_val
    set_mte2_nz_para set_pad_val_outtol1 set_quant_pre set_relu_alpha set_store_atomic_cfg shuffle_bfly
    shuffle_down shuffle_idx shuffle_up simt_launch sin sprclr sprsti sprsts sqrt st_dev stg store
    store_vfsimt_info strict_vecscope syncthreads threadfence threadfence_block uvld vabs vadd vaddc vaddcs
    vaddreluconv vadds vand vaxpy vbitcast vbitsort vbr vcadd vcbmax vcbmin vcgadd vcgmax vcgmin vci vcmax
    vcmin vcmp vcmps vcpadd vcvt vdintlv vdintlvv2 vdiv vdup vecscope vexp vexpdif vgather2 vgather2_bc
    vgatherb vintlv vintlvv2 vldas vlds vldsx2 vldus vln vlrelu vmadd vmax vmaxs vmin vmins vmrgsort4 vmul
    vmula vmulconv vmull vmuls vmulscvt vneg vnot vor vote_all vote_any vote_ballot vote_uni vpack vprelu
    vrelu vscatter vsel vselr vselrv2 vshl vshls vshr vshrs vsldb vsqrt vsqz vsstb vstar vstas vsts vstsx2
    vstur vstus vsub vsubc vsubcs vsunpack vtrc vusqz vxor vzunpack
    """.split()
)
_PREFIXES = ("vmi.", "ub.")
_SECTIONS = ("section.simt",)
_TYPES = ("vreg", "mask", "align")


def is_micro_operation(name: str) -> bool:
    """Whether an operation, named without ``pto.``, belongs to code below tile programs.

    >>> is_micro_operation("vlds"), is_micro_operation("vmi.add"), is_micro_operation("tadd")
    (True, True, False)
    """
    return name in _OPERATIONS or name in _SECTIONS or name.startswith(_PREFIXES)


def is_micro_type(name: str) -> bool:
    """Whether a type, named without ``!pto.``, belongs to code below tile programs."""
    return name in _TYPES or name.startswith(_PREFIXES)


def outside(what: str) -> str:
    """The message for one of these: that tile programs do not have it."""
    return f"found {what} of vector, SIMT or VMI code, which is not part of tile programs"
