"""Names of instructions beside the canonical ones."""

# Instructions by name: spellings of the documentation are data of their own.
#: Spellings of the documentation that mean the name on the right.
ALIASES = {
    **{
        f"t{base}{mx}_{kind}": f"t{base}{dotted}.{kind}"
        for base in ("matmul", "gemv")
        for mx, dotted in (("", ""), ("_mx", ".mx"))
        for kind in ("acc", "bias")
    },
    "tmatmul_mx": "tmatmul.mx",
    "tmatmul_mx_hif4": "tmatmul.mx.hif4",
    "tgemv_mx": "tgemv.mx",
    "tmov_fp": "tmov.fp",
    "tmov_zz": "tmov.zz",
    **{f"tmov.{route}": "tmov" for route in ("m2l", "m2r", "m2b", "m2s", "a2v", "v2v", "s2d")},
    "tstore.fp": "tstore_fp",
    "textract.fp": "textract_fp",
    "tinsert.fp": "tinsert_fp",
    "tquant_mx": "tquant.mx",
    "tquant_hif4": "tquant.hif4",
    "sync_set": "sync.set",
    "sync_wait": "sync.wait",
    "get_scale_addr": "tget_scale_addr",
    **{
        f"comm.{name}": name
        for name in (
            "tput tget tput_async tget_async tnotify twait ttest tbroadcast treduce "
            "build_async_session wait_async_event test_async_event".split()
        )
    },
    "comm_tgather": "comm.tgather",
    "comm_tscatter": "comm.tscatter",
}
