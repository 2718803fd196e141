"""Conversions of logical registers to wider floats that saturate: NaN is 0, infinities the largest number."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

TEXT = """module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%x: !pto.ptr<{name}>, %r: !pto.ptr<f32>) {{
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %first = arith.constant 0 : index
    %at = arith.constant 4096 : i64
    %size = arith.constant 256 : i64
    %from = pto.castptr %zero : i64 -> !pto.ptr<{name}, ub>
    %to = pto.castptr %at : i64 -> !pto.ptr<f32, ub>
    pto.mte_gm_ub %x, %from, %zero, %size nburst(%one, %size, %size)
      : !pto.ptr<{name}>, !pto.ptr<{name}, ub>, i64, i64, i64, i64, i64
    pto.vecscope {{
      %a = pto.vmi.vload %from[%first] : !pto.ptr<{name}, ub> -> !pto.vmi.vreg<64x{name}>
      %b = pto.vmi.extf %a {{saturate = "{saturate}"}} : !pto.vmi.vreg<64x{name}> -> !pto.vmi.vreg<64xf32>
      pto.vmi.vstore %b, %to[%first] : !pto.vmi.vreg<64xf32>, !pto.ptr<f32, ub>
    }}
    pto.mte_ub_gm %to, %r, %size nburst(%one, %size, %size)
      : !pto.ptr<f32, ub>, !pto.ptr<f32>, i64, i64, i64, i64
    return
  }}
}}"""


@pytest.mark.parametrize("saturate", ["SAT", "NOSAT"])
@pytest.mark.parametrize(
    ("name", "dtype"), [("f16", np.float16), ("f8E4M3FN", ml_dtypes.float8_e4m3fn)], ids=["f16", "f8"]
)
def test_extf_saturates_as_it_is_declared(name: str, dtype: Any, saturate: str) -> None:
    x: Any = np.resize(np.array([np.nan, 1.5, -2, 0, np.inf, -np.inf], np.float32), 256).astype(dtype)
    program, r = pto.parse(TEXT.format(name=name, saturate=saturate)), np.zeros(64, np.float32)
    wide = x[:64].astype(np.float32)
    if saturate == "SAT":
        wide = np.nan_to_num(wide, nan=0.0)
    wanted = np.where(np.isnan(wide), np.uint32(0x7FC00000), wide.view(np.uint32))
    for found in (oracle.run(program, {"x": x, "r": r}, profile="a5"), pto.compile(program, "a5")(x, r)):
        np.testing.assert_array_equal(np.asarray(found["r"]).view(np.uint32), wanted)
