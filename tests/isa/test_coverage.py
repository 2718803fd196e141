"""Every instruction of the documentation is declared, and says why where it is not executed."""

import json

import pytest

from pto_jax.isa import find, instructions
from pto_jax.isa.reference import matrix, operands_text, types_text
from pto_jax.profiles import PROFILE_NAMES
from pto_jax.text.names import instruction_names
from tests.tables import every

TABLE = instructions()
_EXPANDED = [f"expand{operation}" for operation in ("", *"add sub mul div max min expdif".split())]
_REDUCED = "sum prod max min argmax argmin".split()
#: The instructions of the pages, by the class they are listed under.
DOCUMENTED = {
    "elementwise": (
        "tadd tsub tmul tdiv tmax tmin tand tor txor tshl tshr trem tfmod tpow tabs tneg tnot trelu texp "
        "tlog tsqrt trsqrt trecip tcmp tsel tprelu taddc tsubc tmuladddst tfusedmuladd tfusedmuladdrelu "
        "tsubrelu taddreluconv tsubreluconv tadddeqrelu tcvt"
    ),
    "tile_scalar": (
        "tadds tsubs tmuls tdivs tmaxs tmins tands tors txors tshls tshrs trems tfmods tpows tlrelu taxpy "
        "texpands tcmps tsels taddsc tsubsc"
    ),
    "reduce_expand": " ".join(
        ["tpairreducesum", *(f"t{a}{name}" for a in ("row", "col") for name in (*_REDUCED, *_EXPANDED))]
    ),
    "memory": "tload tstore tstore_fp tprefetch tprefetch_async mgather mscatter",
    "layout": (
        "tmov tmov_fp ttrans treshape textract textract_fp tinsert tinsert_fp tconcat tpack tfillpad "
        "tfillpad_inplace tfillpad_expand timg2col tinterleave tdeinterleave"
    ),
    "matrix": " ".join(
        f"{base}{kind}"
        for base in ("tmatmul", "tgemv", "tmatmul_mx", "tgemv_mx")
        for kind in ("", "_acc", "_bias", *(["_hif4"] if base == "tmatmul_mx" else []))
    ),
    "irregular": (
        "tci ttri tsort32 tmrgsort tgather tgatherb tscatter tquant tquant.mx tquant_dn tquant_hif4 tdequant "
        "thistogram trandom tpartadd tpartmul tpartmax tpartmin tpartargmax tpartargmin tprint hashfind "
        "tpush tpop talloc tfree grid_tpush"
    ),
    "sync_config": (
        "tassign tsync syncall talias sethf32mode settf32mode setfmatrix set_img2col_rpt set_img2col_padding "
        "tsubview tget_scale_addr set_quant_scalar set_quant_vector record_event wait_event set_flag "
        "wait_flag barrier barrier_sync sync_set sync_wait get_buf rls_buf alloc_tile declare_tile "
        "make_tensor_view partition_view get_tensor_view_dim get_tensor_view_stride tensor_view_addr "
        "set_validshape subset tile_buf_addr addptr castptr pointer_cast bitcast load_scalar store_scalar "
        "tgetval tsetval"
    ),
    "communication": (
        "tput tget tput_async tget_async tnotify twait ttest comm_tgather comm_tscatter tbroadcast treduce"
    ),
}
NAMES = [n for listed in DOCUMENTED.values() for n in listed.split()]
#: Pages of their own for a form of an instruction: an overload, or an attribute it is chosen by.
FORMS = {
    "tmrgsort.multi": ("tmrgsort", ("src0", "src1", "tmp"), None),
    "tgather.mask": ("tgather", ("src",), "maskPattern"),
    "tgather.cmp": ("tgather", ("src", "kValue"), "cmpMode"),
    "tscatter.mask": ("tscatter", ("src",), "maskPattern"),
}
#: Read and verified, never executed, beside communication: what only a later header or neighbouring
#: processors use.
VERIFIED_ONLY = {"tmatmul.mx.hif4", "tquant.hif4", "grid_tpush"}


def test_the_pages_list_as_many_instructions() -> None:
    assert len(NAMES) == len(set(NAMES)) == 201
    assert [len(DOCUMENTED[c].split()) for c in ("elementwise", "tile_scalar", "reduce_expand")] == [
        36,
        21,
        29,
    ]


@pytest.mark.parametrize(("name", "form", "key"), FORMS.values(), ids=FORMS.keys())
def test_documented_forms_are_declared(name: str, form: tuple[str, ...], key: str | None) -> None:
    assert form in TABLE[name].forms
    assert key is None or TABLE[name].attribute(key) is not None


@every("name", NAMES)
def test_documented_instructions_are_declared_and_listed(name: str) -> None:
    instruction = find(name)
    assert instruction is not None
    assert find(f"pto.{name.upper()}") is instruction
    listed = json.loads(matrix([instruction], "json"))[instruction.name]
    assert listed["class"] == instruction.cls and listed["status"] in ("executed", "verified only")
    assert set(listed["types"]) == set(PROFILE_NAMES) and len(listed["operands"]) == len(instruction.operands)


def test_the_reader_knows_what_is_declared() -> None:
    assert instruction_names() == TABLE.keys()


def test_the_list_shows_class_status_operands_and_types() -> None:
    text, markdown = (matrix(TABLE.values(), style) for style in ("text", "markdown"))
    for instruction in TABLE.values():
        status = "executed" if instruction.executable else "verified only"
        assert f"\n{instruction.name:<24}{instruction.cls}, {status}\n" in f"\n{text}"
        cells = [instruction.name, instruction.cls, status, operands_text(instruction)]
        cells += [types_text(instruction, p) for p in PROFILE_NAMES]
        assert f"| {' | '.join(cells)} |" in markdown


def test_only_what_is_named_here_is_not_executed() -> None:
    assert {n for n, i in TABLE.items() if not i.executable} == VERIFIED_ONLY
    for instruction in TABLE.values():
        stated = any("executed" in d.question or "executed" in d.choice for d in instruction.decisions)
        absent = not any(instruction.types.values()) and instruction.type_vars
        assert instruction.executable or stated or absent, instruction.name
