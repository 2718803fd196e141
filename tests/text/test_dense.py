"""Dense attributes are kept with their type."""

from __future__ import annotations

import pto_jax as pto
from pto_jax.text import print_program

TEXT = """module attributes {pto.target_arch = "a5"} {
  func.func @k(%p: !pto.ptr<f32, gm>) attributes {pto.kernel} {
    pto.vecscope {
%m = "pto.vmi.constant_mask"() {value = dense<[true, false]> : tensor<2xi1>} : () -> !pto.vmi.mask<2xpred>
    }
    return
  }
}"""


def test_a_dense_attribute_is_printed_as_it_was_read() -> None:
    program = pto.parse(TEXT)
    shown = print_program(program)
    assert "dense<[true, false]> : tensor<2xi1>" in shown.replace("[ ", "[").replace(" ]", "]")
    assert print_program(pto.parse(shown)) == shown
