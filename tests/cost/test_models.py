"""Cycle models: the reference points, shapes as arrays, and what has no data."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cost import MODELS, Figure, cycles, estimate
from pto_jax.cost.analytic_legacy import binary_repeats, tile_scalar_repeats, unary_repeats
from pto_jax.cost.work import Work
from pto_jax.ir import dtype
from tests.tables import every

POINTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "reference_points.json").read_text(encoding="utf-8")
)
#: The recorded tile-scalar tests use tiles with run-time valid sizes.
RUN_TIME_SIZES = ("TADDS", "TMULS", "TMINS", "TDIVS")


def figure_of(point: dict[str, Any], *, arrays: bool = False) -> Figure:
    shape = point["shape"]
    sizes: tuple[Any, Any]
    name, options = point["instruction"], dict[str, Any](static=point["instruction"] not in RUN_TIME_SIZES)
    if "M" in shape:
        sizes = (shape["M"], shape["N"])
        options["k"] = shape["K"]
    elif "blockLen" in shape:
        sizes = (1, shape["cols"])
        options["block"] = shape["blockLen"]
    elif "lists" in shape:
        sizes, name = (1, shape["cols_each"]), "TMRGSORT"
        options["lists"] = shape["lists"]
    else:
        sizes = (shape.get("valid_rows", shape.get("rows")), shape.get("valid_cols", shape.get("cols")))
        options |= {"rows": shape.get("rows"), "cols": shape.get("cols")}
    options["binary"] = shape.get("binary", False)
    options["route"] = shape.get("path", f"GM->{shape['loc']}" if "loc" in shape else "")
    if arrays:
        sizes = (np.array([sizes[0]] * 2), np.array([sizes[1]] * 2))
        options |= {k: np.array([options[k]] * 2) for k in ("rows", "cols", "k") if options.get(k)}
    return estimate(name, point["dtype"], *sizes, model=point["model"], **options)


def test_every_reference_point_is_here() -> None:
    assert [p["id"] for p in POINTS] == list(range(1, 145))
    # One takes figures of the others, one has micro-operations only (test_programs.py).
    assert {p["model"] for p in POINTS} == set(MODELS) - {"tables", "vfsim"}


@every("point", POINTS, ids=lambda p: f"{p['id']}-{p['model']}-{p['instruction']}")
def test_reference_point(point: dict[str, Any]) -> None:
    figure = figure_of(point)
    assert figure.model == point["model"]
    assert figure.cycles == point["cycles"] and type(figure.cycles) is int
    if "profiled" in point:
        reached = 1 - abs(figure.cycles - point["profiled"]) / point["profiled"]
        assert reached >= point["precision"] - 1e-4


@every("point", POINTS, ids=lambda p: str(p["id"]))
def test_reference_point_with_arrays_for_sizes(point: dict[str, Any]) -> None:
    found = figure_of(point, arrays=True).cycles
    assert np.broadcast_to(found, (2,)).tolist() == [point["cycles"]] * 2


def test_the_default_model_is_the_documented_formula() -> None:
    figure = estimate("TADD", "f32", 16, 64)
    assert figure.cycles == cycles("pto.tadd", "f32", 16, 64) == 2575
    assert figure.model == "doc_formula" and str(figure) == "2575 cycles (doc_formula)"


@pytest.mark.parametrize("model", MODELS)
def test_what_a_model_does_not_cover_is_said_and_never_zero(model: str) -> None:
    figure = estimate("tcvt", "f32", 16, 64, model=model)
    assert figure.cycles is None and model in figure.note and "tcvt" in figure.note
    with pytest.raises(pto.ArgumentError, match=f"no cycles: {model} has no figure for tcvt"):
        cycles("tcvt", "f32", 16, 64, model=model)


@pytest.mark.parametrize(
    ("name", "element", "model", "what"),
    [
        ("tdiv", "i32", "doc_formula", "on i32"),
        ("texp", "bf16", "doc_formula", "on bf16"),
        ("tload", "f32", "doc_formula", "tload"),
        ("trowsum", "f32", "doc_formula", "valid region 64x128"),
        ("trowsum", "f16", "doc_formula", "on f32"),
        ("tmatmul", "f8e4m3", "analytic_legacy", "on f8e4m3"),
        ("texp", "bf16", "analytic_legacy", "on bf16"),
        ("tscatter", "i8", "analytic_legacy", "on i8"),
        ("tmul", "i16", "fit", "on i16"),
        ("tmul", "f32", "fit", "with 32, 64, 80, 96"),
        ("tmatmul", "i8", "fit", "on i8"),
        ("tmatmul", "f16", "a5_fit", "tmatmul"),
    ],
)
def test_types_shapes_and_routes_without_data(name: str, element: str, model: str, what: str) -> None:
    figure = estimate(name, element, 3, 5, model=model)
    assert figure.cycles is None and what in figure.note


def test_profiles_of_other_hardware_have_no_data() -> None:
    for model, described in MODELS.items():
        for profile in pto.PROFILES:
            figure = estimate("tadd", "f32", 16, 64, model=model, profile=profile)
            known = profile in described.profiles and "tadd" in described.instructions
            assert (figure.cycles is not None) == known
            if profile not in described.profiles:
                assert f"no data for {profile}" in figure.note


def test_wrong_names_say_what_there_is() -> None:
    with pytest.raises(pto.ArgumentError, match="unknown cost model 'best'; allowed: doc_formula"):
        cycles("tadd", "f32", 16, 64, model="best")
    with pytest.raises(pto.ArgumentError, match="got the instruction 'tad'"):
        cycles("tad", "f32", 16, 64)
    with pytest.raises(pto.ArgumentError, match="unknown layout 'diagonal'; allowed: ND"):
        cycles("tadd", "f32", 16, 64, layout="diagonal")


def work(rows: Any, cols: Any, valid_row: Any, valid_col: Any, *, static: bool = True) -> Work:
    return Work("tadd", dtype("f32"), valid_row, valid_col, rows, cols, static=static)


@pytest.mark.parametrize(
    ("sizes", "repeats"),
    [
        ((16, 64, 16, 64), 16),
        ((255, 32, 200, 32), 200),
        ((256, 32, 256, 32), 128),
        ((16, 72, 16, 72), 1),
        ((256, 64, 256, 64), 1),
        ((1, 128, 1, 100), 2),
        ((16, 128, 16, 64), 16),
        ((16, 128, 16, 65), 32),
        ((1, 256, 1, 256), 4),
        ((2, 64, 2, 40), 2),
        ((2, 192, 2, 128), 4),
        ((3, 192, 3, 100), 3),
        ((5, 320, 5, 256), 20),
    ],
)
def test_repeats_of_a_tile_tile_instruction(sizes: tuple[int, int, int, int], repeats: int) -> None:
    assert binary_repeats(work(*sizes)) == repeats
    as_arrays = binary_repeats(work(*(np.array([s]) for s in sizes)))
    assert as_arrays.tolist() == [repeats]


def test_counter_mode_adds_no_repeats_where_the_model_says_so() -> None:
    assert tile_scalar_repeats(work(16, 72, 16, 72)) == 0
    assert tile_scalar_repeats(work(16, 72, 16, 72, static=False)) == 32
    assert unary_repeats(work(256, 64, 256, 64)) == 0
    assert unary_repeats(work(255, 64, 255, 64)) == 255


#: Instruction, result, source, valid rows and columns, physical columns; cycles measured on A5 and the share
#: that the public tests of the tables demand (tests/costmodel/st_a5_fit of pto-isa).
A5_MEASURED: tuple[tuple[Any, ...], ...] = (
    ("tsel", "i8", None, 1, 1280, 1280, 64, 0.9843),
    ("tsel", "i8", None, 2, 512, 640, 66, 0.9242),
    ("tsel", "i8", None, 3, 512, 640, 77, 0.8831),
    ("tsel", "f32", None, 1, 64, 64, 60, 0.8666),
    ("tsel", "f32", None, 1, 320, 320, 91, 0.9120),
    ("tsel", "f32", None, 1, 1280, 1280, 97, 0.9896),
    ("tsel", "f32", None, 10, 640, 672, 791, 0.8748),
    ("tcvt", "f16", "f32", 1, 320, 320, 60, 0.9833),
    ("tcvt", "f16", "f32", 3, 384, 448, 83, 0.9518),
    ("tcvt", "bf16", "f32", 10, 1280, 1344, 288, 0.9895),
    ("tcvt", "f8e4m3", "f32", 1, 640, 640, 178, 1.0),
    ("tcvt", "f8e4m3", "f32", 3, 1280, 1344, 2549, 0.9992),
    ("tcvt", "f8e4m3", "f32", 10, 384, 448, 2829, 0.8260),
    ("tcvt", "f4e1m2x2", "bf16", 1, 1280, 1280, 179, 0.9944),
    ("tcvt", "f4e1m2x2", "bf16", 3, 384, 448, 893, 0.7917),
)


@every("point", A5_MEASURED, ids=lambda p: "-".join(map(str, p[:5])))
def test_figures_of_a5_reach_the_share_that_public_tests_demand(point: tuple[Any, ...]) -> None:
    name, element, source, rows, columns, physical, measured, share = point
    figure = estimate(name, element, rows, columns, cols=physical, source=source, model="a5_fit")
    assert figure.cycles is not None
    assert 1 - abs(figure.cycles - measured) / measured >= share - 1e-4


def test_types_of_a5_have_lines_of_their_own() -> None:
    assert cycles("texp", "f32", 64, 64, model="a5_fit") == round(1.9670711 * 64 + 62.656846)
    assert cycles("texp", "f16", 64, 128, model="a5_fit") == round(3.7622951 * 64 + 65.934426)
    figure = estimate("tadd", "i32", 64, 64, model="a5_fit")
    assert figure.cycles is None and "on i32" in figure.note
    falling = estimate("tcvt", "f32", 64, 64, source="f16", model="a5_fit")
    assert falling.cycles is None and "from f16 to f32" in falling.note


@pytest.mark.parametrize(
    ("name", "element", "columns", "expected"),
    [
        ("trowsum", "f16", 128, 0.0547 * 64 * 128 + 47),
        ("tcolmax", "f32", 32, 0.5391 * 64 * 32 + 16),
        ("trowexpand", "f16", 96, 0.1458 * 64 * 96 + 37),
        ("tmins", "f16", 64, 0.0078 * 64 * 64 + 23),
    ],
)
def test_reductions_and_expansions_have_the_lines_of_the_table(
    name: str, element: str, columns: int, expected: float
) -> None:
    assert cycles(name, element, 64, columns, model="fit") == round(expected)


def test_expansions_and_conversions_are_counted_by_their_calls() -> None:
    # A broadcast, a barrier, then 64 repeats for each half of a row.
    assert cycles("trowexpandmul", "f32", 64, 128, model="cce_stub") == 18 + 1 + 10 + 2 * 128 + 15
    assert cycles("trowexpandsub", "f16", 16, 96, model="cce_stub") == 18 + 1 + 10 + 2 * 16 + 14 + 18
    assert estimate("trowexpandmul", "f32", 1, 128, model="cce_stub").cycles is None
    down = estimate("tcvt", "f16", 32, 128, source="f32", model="cce_stub")
    assert down.cycles == 14 + 2 * 32 * 2 + 18
    assert estimate("tcvt", "i8", 32, 128, source="f32", model="cce_stub").cycles is None


def test_the_tables_name_the_model_of_each_figure() -> None:
    found = {n: estimate(n, "f32", 64, 64, model="tables").model for n in ("trowmax", "tabs", "tscatter")}
    assert found == {"trowmax": "fit", "tabs": "cce_stub", "tscatter": "analytic_legacy"}


def test_an_empty_valid_region_costs_nothing_by_the_pages() -> None:
    assert cycles("tadd", "f32", 0, 64) == cycles("tmatmul", "f16", 16, 0, k=16) == 0
    assert estimate("tadd", "f32", 0, 64).terms["repeats"] == 0


def test_missing_figures_of_arrays_are_nan() -> None:
    found = estimate("tmul", "f32", 64, np.array([64, 65]), model="fit")
    assert found.cycles[0] == 154 and np.isnan(found.cycles[1]) and "nan" in found.note
    rows = estimate("trowsum", "f32", np.array([64, 65]), 128)
    assert rows.cycles[0] == cycles("trowsum", "f32", 64, 128) and np.isnan(rows.cycles[1])


@pytest.mark.parametrize(
    ("rows", "cols", "sequence"),
    [(64, 128, (128, 8, 8)), (32, 256, (128, 8, 4, 4)), (16, 512, (128, 16, 2)), (8, 1024, (128, 16, 8, 8))],
)
def test_row_sums_are_the_sum_of_their_sequence(rows: int, cols: int, sequence: tuple[int, ...]) -> None:
    steps = sum(19 + 2 * r + 18 * (r - 1) for r in sequence)
    assert cycles("trowsum", "f32", rows, cols) == 13 + steps


@pytest.mark.parametrize(
    ("rows", "cols", "expected"),
    [(64, 128, 337), (32, 256, 355), (16, 512, 341), (8, 1024, 359)],
)
def test_row_sums_of_the_call_sequences(rows: int, cols: int, expected: int) -> None:
    assert cycles("trowmax", "f32", rows, cols, model="analytic_legacy") == expected


def test_transfers_go_by_bandwidth() -> None:
    assert cycles("tload", "f32", 128, 128, route="GM->Vec") == 512
    assert cycles("tload", "f32", 128, 128, route="GM->Mat") == 256
    assert cycles("tload", "i8", 1, 129, route="GM->Vec") == 2
    assert cycles("tload", "i8", 1, 129, route="GM->Vec", model="analytic_legacy") == 1
    assert cycles("tload", "f32", 128, 128, route="GM->Vec", model="cce_stub") == 1119
    assert cycles("tmov", "f32", 64, 128, route="Mat->Left") == 128
    assert cycles("tstore", "f32", 64, 64, route="Acc->GM", model="fit") == 403
    assert cycles("tinsert", "f32", 64, 64, route="Vec->Vec") == 128
    for moved, route in (("tmov", "Acc->Mat"), ("textract", "Acc->Mat"), ("tinsert", "Acc->Mat")):
        for model in ("doc_formula", "analytic_legacy", "cce_stub", "fit"):
            plain = cycles(moved, "f32", 64, 64, route=route, model=model)
            quantised = "tmov.fp" if moved == "tmov" else f"{moved}_fp"
            assert cycles(quantised, "f32", 64, 64, route=route, model=model) == plain
    assert cycles("tstore_fp", "f32", 64, 64, route="Acc->GM", model="fit") == 403


def test_every_model_says_where_it_comes_from() -> None:
    for name, model in MODELS.items():
        assert model.name == name and model.title and model.source
        assert all(re.fullmatch(r"[a-z][a-z0-9_.]*", i) for i in model.instructions)


def test_a_search_space_is_one_evaluation_under_jit() -> None:
    import jax
    import jax.numpy as jnp

    rows = jnp.arange(0, 256, 5)

    def total(r: Any) -> Any:
        return sum(
            cycles("tadd", "f32", r, 64, model=m, rows=256, cols=64)
            for m in ("doc_formula", "analytic_legacy", "cce_stub", "a5_fit")
        )

    found = jax.jit(total)(rows)
    assert found.tolist() == [total(int(r)) for r in rows]
