"""Positions of the extreme values of rows and columns, alone or together with the values."""

from jax import lax

from . import folds, reduce_expand, region
from .rules import Context, Inputs, Outputs, rule


def _positions(name: str, along: reduce_expand.Along, largest: bool) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> Outputs:
        source, unless_empty = c.dtype("src"), c.profile != "cpu_sim"
        lines, size = reduce_expand.source_lines(c, inputs, along)
        index, value = folds.first_extreme(lines, source, largest, size)
        words = lax.convert_element_type(index, c.dtype("dst").word)
        results = {"dst": reduce_expand.store_line(c, inputs, along, words, unless_empty=unless_empty)}
        if c.has("dstVal"):
            value = region.flush(c, value, source)
            results["dstVal"] = reduce_expand.store_line(c, inputs, along, value, "dstVal", unless_empty)
        return results


_positions("trowargmax", "row", largest=True)
_positions("trowargmin", "row", largest=False)
_positions("tcolargmax", "col", largest=True)
_positions("tcolargmin", "col", largest=False)
