"""Blocks of a campaign's cases as one, and a program that breaks a run-time rule on some inputs."""

from collections.abc import Iterable

from pto_jax.campaign.fuzz.batch import Batch, Tally


def joined(parts: Iterable[Batch]) -> Batch:
    """Adjoining blocks as one; at least one."""
    ordered = sorted(parts, key=lambda b: b.start)
    tally = Tally(ordered[0].start)
    for part in ordered:
        tally.add(part)
    return tally.batch()


#: Stores a row whose number is an argument: outside the buffer for some.
ROW = """\
module {
  func.func @row(%y: !pto.ptr<f32>, %r: index) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %v = pto.make_tensor_view %y, shape = [%c4, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
    %w = pto.partition_view %v, offsets = [%r, %c0], sizes = [%c1, %c8]
      : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x8xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
    %n = arith.constant 2.5 : f32
    pto.texpands ins(%n : f32) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
    pto.tstore ins(%t : !pto.tile_buf<vec, 1x8xf32>) outs(%w : !pto.partition_tensor_view<1x8xf32>)
    return
  }
}
"""
