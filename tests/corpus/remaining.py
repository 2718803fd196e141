"""Files of the checkout that are not judged as their builds say, each with its reason.

Files whose first message says that they are not part of tile programs need none.
"""

from __future__ import annotations

_PAIRS = "tiles of 4-bit elements: the assembler counts pairs of them, this engine counts elements"
_BACK_ENDS = "a limit of the assembler's back ends, not of the language"
_OPTIONS = "tests an option of the assembler, whatever the program"
_REGIONS = "valid regions may differ: the overview of the ISA, which is before the assembler, has a warning"
_SPELLINGS = "f8E4M3 and f8E4M3FN are one element type here, which block-scaled products take"
_SIGNLESS = "i8 and si8 are one element type here, which converting pipes give"
_SEED_PAGE = "the page of trowexpandadd has no scratch for blocks of rows on any chip, the assembler on A2/A3"
_X_TO_ZZ = "the move of exponents into boxes of boxes (tmov with a third tile that is no scale) is not read"
_MX = "pairs of 4-bit floats, padded sources and the form that reorders its exponents are not quantised to"
_QUANTISED = "a pair of element types that no quantisation mode of the headers has"
_FILLED_SCALES = "fills of 8-bit floats have no values of their own: the headers have none"
_PRODUCT = "mat tiles in a product, which the assembler rejects too"

REMAINING: dict[str, str] = {
    "accepting/mgather_mscatter_base_a3_emitc.pto": (
        "a scatter without coalesce: valid columns of its indices decide there, physical ones in the headers"
    ),
    "accepting/mx_noalias_plan_memory.pto": _X_TO_ZZ,
    "accepting/tcvt_low_precision_a5_valid.pto": _PAIRS,
    "accepting/textract_tinsert_low_precision_a5_emitc.pto": _QUANTISED,
    "accepting/tmov_x2zz_emitc.pto": _X_TO_ZZ,
    "accepting/tquant_mx_a5_emitc.pto": _MX,
    "accepting/tquant_mx_grp_axis_emitc.pto": _MX,
    "accepting/tquant_mx_source_effects.pto": _MX,
    "accepting/tquant_mxfp8_a5.pto": _MX,
    "accepting/trowexpandadd_tmp_emitc.pto": _SEED_PAGE,
    "accepting/tstore_fp_insert_sync_effects.pto": _QUANTISED,
    "rejecting/backend_partitioned_reject_ambiguous_in_child_logical_wrapper.pto": _BACK_ENDS,
    "rejecting/backend_partitioned_reject_transitive_imported_peer_closure.pto": _BACK_ENDS,
    "rejecting/bufid_sync_a5_auto.pto": _OPTIONS,
    "rejecting/fixpipe_frontend_verify_additional_invalid.pto": _SIGNLESS,
    "rejecting/plan_memory_impl_invalid_level3.pto": _OPTIONS,
    "rejecting/tadds_validrow_mismatch.pto": _REGIONS,
    "rejecting/tcvt_low_precision_packed_shape_invalid_a5.pto": _PAIRS,
    "rejecting/tgemv_mx_emitc.pto": _SPELLINGS,
    "rejecting/tgemv_mx_variants_emitc.pto": _SPELLINGS,
    "rejecting/tquant_verify_invalid_src_dst_valid_shape.pto": _REGIONS,
    "rejecting/tquant_mx_grp_axis_invalid.pto": _PAIRS,
    "samples/Gemvmx/gemvmx-pto.pto": _FILLED_SCALES,
    "samples/MatmulMxLowPrecision/matmul_mx_low_precision-pto.pto": _FILLED_SCALES,
    "samples/Movfp/movfp_fixpipe_reuse-pto.pto": "a load into a scaling tile; headers fill it from L1 only",
    "samples/TquantMx/tquant_mx.pto": _X_TO_ZZ,
    "samples/TquantMxDn/tquant_mx_dn.pto": _MX,
    "system/testcase/tcvt/tcvt.pto": _PAIRS,
    "system/testcase/tload_mat/tload_mat.pto": _PRODUCT,
    "system/testcase/tquant_mx_dn/tquant_mx_dn.pto": _MX,
    "system/testcase/tstore_acc2gm/tstore_acc2gm.pto": _PRODUCT,
}

#: Files that are rejected, but for another reason than the one that they test.
OTHER_REASON: dict[str, str] = {
    "alloc_tile_addr_alignment_invalid.pto": "built at a level without addresses, which is told first",
    "mx_noalias_plan_memory.pto": _X_TO_ZZ,
    "tmov_x2zz_invalid.pto": _X_TO_ZZ,
    "tquant_mx_grp_axis_invalid.pto": _MX,
}
