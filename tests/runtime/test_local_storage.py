"""Arrays, structures, windows and multi tiles in the sanitizer and in the Python front end."""

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import builder as b
from tests.programs.cases import Case, load
from tests.programs.cases_handles import CASES

ARRAY = "!pto.local_array<4xf32>"
TILE = "!pto.tile_buf<vec, 4x8xf32>"


def program(body: str) -> pto.Program:
    return pto.parse(f"""func.func @f(%y: !pto.ptr<f32>, %n: index) attributes {{pto.entry}} {{
      %c0 = arith.constant 0 : index
      %c2 = arith.constant 2 : index
      %one = arith.constant 1.0 : f32
      {body}
      return
    }}""")


@pytest.mark.parametrize("written", [True, False])
def test_elements_that_were_never_written_are_undefined(written: bool) -> None:
    text = f"""%a = pto.declare_local_array -> {ARRAY}
    pto.local_array_set %a[%{"n" if written else "c0"}], %one : {ARRAY}, f32
    %v = pto.local_array_get %a[%c2] : {ARRAY} -> f32
    pto.store_scalar %v, %y[%c0] : !pto.ptr<f32>, f32"""
    report = pto.sanitize(program(text), {"y": np.zeros(4, np.float32), "n": 2})
    assert bool(report.findings) != written


def test_what_surrounds_a_window_stays_undefined() -> None:
    window = "!pto.tile_buf<vec, 2x4xf32>"
    text = f"""%t = pto.alloc_tile : {TILE}
    %s = pto.subview %t[%c2, %c0] sizes [2, 4] : {TILE}
    pto.texpands ins(%one : f32) outs(%s : {window})
    %at = arith.constant {{}} : index
    %v = pto.tgetval ins(%t, %at : {TILE}, index) outs : f32
    pto.store_scalar %v, %y[%c0] : !pto.ptr<f32>, f32"""
    arguments = {"y": np.zeros(4, np.float32), "n": 0}
    assert not pto.sanitize(program(text.format(16)), arguments).findings
    assert pto.sanitize(program(text.format(20)), arguments).findings


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_the_small_programs_use_no_undefined_data(case: Case) -> None:
    for arguments in case.arguments():
        report = pto.sanitize(load(case.program), arguments, entry=case.entry)
        assert not report.findings, report


def test_programs_are_built_in_python() -> None:
    builder = pto.Builder()
    with builder.function("f", {"y": pto.ptr("f32"), "n": "index"}) as f:
        y, n = f.args
        tiles = b.alloc_multi_tile(type="!pto.multi_tile_buf<vec, 4x8xf32, count=2>")
        tile = b.multi_tile_get(tiles, n, type=TILE)
        part = b.subview(tile, [0, 0], [2, 8], n, 8)
        rows, cols = b.get_validshape(part)
        array = b.declare_local_array(type=ARRAY)
        b.local_array_set(array, [rows], 2.0)
        b.store_scalar(b.local_array_get(array, [rows], type="f32"), y, cols)
    made = builder.program
    assert pto.parse(str(made)) == made
    (window,) = (op.results[0].type for op in made.walk() if op.name == "subview")
    assert str(window) == "vec 2x8xf32 valid ?x8"
