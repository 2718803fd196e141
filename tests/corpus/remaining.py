"""Files of the checkout that are not judged as their builds say, each with its reason.

Files whose first message says that they are not part of tile programs need none.
"""

from __future__ import annotations

_OPTIONS = "tests an option of the assembler, whatever the program"
_REGIONS = "valid regions may differ: the overview of the ISA, which is before the assembler, has a warning"
_SPELLINGS = "f8E4M3 and f8E4M3FN are one element type here, which block-scaled products take"
_SIGNLESS = "i8 and si8 are one element type here, which converting pipes give"
_SEED_PAGE = "the page of trowexpandadd has no scratch for blocks of rows on any chip, the assembler on A2/A3"
_QUANTISED = "a pair of element types that no quantisation mode of the headers has"
_FILLED_SCALES = "fills of 8-bit floats have no values of their own: the headers have none"
_SCALES = "f32 in a scaling tile: headers move one row of 64-bit words, the assembler has a template"
_EMPTY = "an empty valid region is legal in products of rows as of matrices: the assembler takes the latter"
_PRODUCT = "mat tiles in a product, which the assembler rejects too"

REMAINING: dict[str, str] = {
    "accepting/mgather_mscatter_base_a3_emitc.pto": (
        "a scatter without coalesce: valid columns of its indices decide there, physical ones in the headers"
    ),
    "accepting/textract_tinsert_low_precision_a5_emitc.pto": _QUANTISED,
    "accepting/trowexpandadd_tmp_emitc.pto": _SEED_PAGE,
    "accepting/tstore_fp_insert_sync_effects.pto": _QUANTISED,
    "rejecting/bufid_sync_a5_auto.pto": _OPTIONS,
    "rejecting/fixpipe_frontend_verify_additional_invalid.pto": _SIGNLESS,
    "rejecting/issue708_zero_valid_tgemv_invalid.pto": _EMPTY,
    "rejecting/plan_memory_impl_invalid_level3.pto": _OPTIONS,
    "rejecting/tadds_validrow_mismatch.pto": _REGIONS,
    "rejecting/tgemv_mx_emitc.pto": _SPELLINGS,
    "rejecting/tgemv_mx_variants_emitc.pto": _SPELLINGS,
    "samples/Gemvmx/gemvmx-pto.pto": _FILLED_SCALES,
    "samples/MatmulMxLowPrecision/matmul_mx_low_precision-pto.pto": _FILLED_SCALES,
    "samples/Movfp/movfp_fixpipe_reuse-pto.pto": "a load into a scaling tile; headers fill it from L1 only",
    "samples/TquantMx/tquant_mx.pto": "one row of a tile is stored to 16 rows; headers copy rows to rows",
    "system/testcase/tload_mat/tload_mat.pto": _PRODUCT,
    "system/testcase/tmov2scale/tmov2scale.pto": _SCALES,
    "system/testcase/tmov_fp/tmov_fp.pto": _SCALES,
    "system/testcase/tstore_acc2gm/tstore_acc2gm.pto": _PRODUCT,
}

#: Files that are rejected, but for another reason than the one that they test.
OTHER_REASON: dict[str, str] = {
    "alloc_tile_addr_alignment_invalid.pto": "built at a level without addresses, which is told first",
    "retired_memref_bridge_ops_invalid.pto": "pto.bind_tile, which is still read, has no operands",
    "tmov_x2zz_invalid.pto": "scratch that is the source itself also has too few bytes, which is told first",
}
