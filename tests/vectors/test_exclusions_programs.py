"""Which instructions of programs the simulator's properties exclude, each with one that they do not."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from pto_jax import oracle
from pto_jax.api import parse
from pto_jax.interpreter import Execution
from pto_jax.ir import PartitionViewType, ScalarType, TensorViewType, TileType
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.oracle.step import Policy
from pto_jax.vectors.exclusions import PROGRAM_EXCLUSIONS, Executed, OtherNans

NAN, SIGNALLING = 0x7FC00000, 0x7F800001


def spelled(text: str) -> str:
    """``vec:i32:8x16`` and ``vec:i32:8x16:4x16`` as tile types; columns of an accumulator come first."""

    def tile(found: re.Match[str]) -> str:
        loc, dtype, rows, cols, v_rows, v_cols = found.groups()
        boxed = loc in ("acc", "left")
        layout = ("col_major", "row_major", 1024 if loc == "acc" else 512) if boxed else None
        blayout, slayout, fractal = layout or ("row_major", "none_box", 512)
        return (
            f"!pto.tile_buf<loc={loc}, dtype={dtype}, rows={rows}, cols={cols}, v_row={v_rows or rows}, "
            f"v_col={v_cols or cols}, blayout={blayout}, slayout={slayout}, fractal={fractal}, pad=0>"
        )

    return re.sub(r"\b(vec|acc|mat|left|scaling):(\w+):(\d+)x(\d+)(?::(\d+)x(\d+))?", tile, text)


def run(text: str, words: dict[str, int], machine: Any) -> dict[str, Any]:
    """Execute a fragment; its arguments hold one word everywhere, 1 where none is given."""
    program = parse(spelled(text))
    given: dict[str, Any] = {}
    for a in program.functions[0].args:
        word, t = words.get(a.name, 1), a.type
        if isinstance(t, TileType):
            given[a.name] = oracle.OracleTile(t, np.full(t.shape, word, t.dtype.word))
        elif isinstance(t, PartitionViewType | TensorViewType):
            shape = [n or 0 for n in t.dims or ()]
            given[a.name] = np.full(shape, word, t.dtype.word).view(t.dtype.numpy)
        else:
            assert isinstance(t, ScalarType)
            given[a.name] = np.asarray(word, t.dtype.word).view(t.dtype.numpy)[()]
    return oracle.run(program, given, profile="cpu_sim", machine=machine)


class Excluding(ReferenceMachine):
    """The interpreter, collecting the ids of the entries that apply to what it executes."""

    def __init__(
        self, policy: Policy, buffers: Mapping[str, Any], max_steps: int = 1_000_000, *, found: set[str]
    ) -> None:
        super().__init__(policy, buffers, max_steps)
        self.found = found

    def execute(self, execution: Execution) -> dict[str, Any]:
        """Execute an instruction, and add the ids of the entries that apply to it to ``found``."""
        executed = Executed(execution, self)
        self.found.update(x.id for x in PROGRAM_EXCLUSIONS if x.applies(executed))
        return super().execute(execution)


def excluded(text: str, **words: int) -> set[str]:
    found: set[str] = set()
    run(text, words, partial(Excluding, found=found))
    return found


I32, F32, F16, SMALL = "vec:i32:8x16", "vec:f32:8x16", "vec:f16:8x32", "vec:f8E4M3FN:8x32"
SORT = "pto.tsort32 ins(%a, %i : vec:{0}:4x{1}, vec:ui32:4x{1}) outs(%d : vec:{0}:4x{2})"
JOIN = (
    "pto.tconcat ins(%a, %b, %i, %j : vec:i32:8x8, vec:i32:8x8, vec:i32:8x8:8x1, vec:i32:8x8:8x1) "
    "outs(%d : vec:i32:8x16)"
)
MOVE = (
    "pto.tinsert_fp ins(%a, %p, %n, %n : acc:f32:16x32, scaling:ui64:1x32:1x{0}, index, index) "
    "outs(%d : mat:i8:32x64)"
).replace("mat:i8:32x64", "MAT")
MAT = (
    "!pto.tile_buf<loc=mat, dtype=i8, rows=32, cols=64, v_row=32, v_col=64, blayout=col_major, "
    "slayout=row_major, fractal=512, pad=0>"
)
SCATTER = (
    "pto.mscatter ins(%a, %i : vec:f8E4M3FN:8x32, vec:i32:8x32) outs(%g : !pto.partition_tensor_view<"
    "8x32xf8E4M3FN>) {{coalesce = #pto<coalesce elem>, scatterAtomicOp = #pto<scatter_atomic_op {0}>, "
    "scatterOob = #pto<scatter_oob wrap>}}"
)
GATHER = (
    "pto.mgather ins(%g, %i : !pto.partition_tensor_view<5x32xf32>, vec:i32:8x16) outs(%d : vec:f32:8x16) "
    "{{coalesce = #pto<coalesce elem>, gatherOob = #pto<gather_oob {0}>}}"
)
#: Elements behind the table are elements of its buffer.
FIRST_ROWS = (
    "%c0 = arith.constant 0 : index\n%c5 = arith.constant 5 : index\n%c32 = arith.constant 32 : index\n"
    "%g = pto.partition_view %t, offsets = [%c0, %c0], sizes = [%c5, %c32] : "
    "!pto.tensor_view<8x32xf32> -> !pto.partition_tensor_view<5x32xf32>\n"
)


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        (f"pto.tadd ins(%a, %b : {I32}, {I32}) outs(%d : {I32})", {}, None),
        (f"pto.tadd ins(%a, %b : {SMALL}, {SMALL}) outs(%d : {SMALL})", {}, "fp8-arithmetic-encoder"),
        (f"pto.tmov ins(%a : {SMALL}) outs(%d : {SMALL})", {}, None),
        (f"pto.tcvt ins(%a : vec:f32:8x32) outs(%d : {SMALL})", {}, "fp8-conversion-encoder"),
        (f"pto.tcvt ins(%a : {F32}) outs(%d : {I32})", {"a": 0x42280000}, None),
        (f"pto.tcvt ins(%a : {F32}) outs(%d : {I32})", {"a": NAN}, "conversion-range"),
        (f"pto.tcvt ins(%a : {F32}) outs(%d : {I32})", {"a": 0x4F000000}, "conversion-range"),
        (f"pto.tcvt ins(%a : {SMALL}) outs(%d : vec:f32:8x32)", {"a": 0x7E}, None),
        (f"pto.tcvt ins(%a : {SMALL}) outs(%d : vec:f32:8x32)", {"a": 0x7F}, "fp8-decoder"),
        (f"pto.tcvt ins(%a : {SMALL}) outs(%d : vec:f32:8x32)", {"a": 0x80}, "fp8-decoder"),
        (f"pto.tdivs ins(%a, %s : {I32}, i32) outs(%d : {I32})", {"s": 3}, None),
        (f"pto.tdivs ins(%a, %s : {I32}, i32) outs(%d : {I32})", {"s": 0}, "integer-division"),
        (f"pto.tshls ins(%a, %s : {I32}, i32) outs(%d : {I32})", {"s": 31}, None),
        (f"pto.tshls ins(%a, %s : {I32}, i32) outs(%d : {I32})", {"s": 32}, "shift-count"),
        (f"pto.trelu ins(%a : {I32}) outs(%a : {I32})", {}, None),
        ("pto.ttrans ins(%a : vec:i32:8x8) outs(%a : vec:i32:8x8)", {}, "overlapping-operands"),
        (f"pto.trem ins(%a, %b : {F32}, {F32}) outs(%a : {F32})", {}, None),
        (f"pto.trem ins(%a, %b : {F32}, {F32}) outs(%b : {F32})", {}, "overlapping-operands"),
        (SCATTER.format("none"), {}, None),
        (SCATTER.format("min"), {}, "fp8-arithmetic-encoder"),
        (SORT.format("f16", 32, 128), {}, None),
        (SORT.format("f32", 32, 64).replace("4x64)", "2x64)"), {}, "sort-row"),
        (SORT.format("f16", 64, 256), {}, "sort-16-bit-blocks"),
        (SORT.format("f32", 32, 64), {"a": NAN}, "sort-nan"),
        (SORT.format("f32", 64, 64), {}, "sort-row"),
        (JOIN, {"i": 32, "j": 32}, None),
        (JOIN, {"i": 32, "j": 36}, "concatenation-range"),
        (JOIN.replace("tconcat", "tconcatidx"), {"i": 32, "j": 32}, None),
        (JOIN.replace("tconcat", "tconcatidx"), {"i": 2**32 - 12, "j": 32}, "concatenation-range"),
        (GATHER.format("clamp"), {"i": 160}, None),
        (GATHER.format("undefined"), {"i": 159}, None),
        (f"{FIRST_ROWS}{GATHER.format('undefined')}", {"i": 160}, "index-range"),
        (MOVE.format(32), {"n": 0}, None),
        (MOVE.format(32).replace("MAT", MAT.replace("i8", "f8E4M3FN")), {"n": 0}, "fp8-conversion-encoder"),
        (MOVE.format(16), {"n": 0}, "quantisation-parameters"),
        ("pto.ttri ins(%s {upperOrLower = 1 : i32} : i32) outs(%d : vec:i32:8x16)", {}, None),
        (
            "pto.ttri ins(%s {upperOrLower = 1 : i32} : i32) outs(%d : vec:i32:8x16)",
            {"s": 2**31 - 1},
            "triangle-diagonal",
        ),
        ("pto.tprefetch ins(%g : !pto.partition_tensor_view<4x16xf32>) outs(%d : vec:f32:4x16)", {}, None),
        (
            "pto.tprefetch ins(%g : !pto.partition_tensor_view<4x16xf32>) outs(%d : vec:f32:8x16)",
            {},
            "prefetch-size",
        ),
    ],
)
def test_instructions_that_the_simulator_is_no_reference_for(
    text: str, words: dict[str, int], expected: str | None
) -> None:
    assert excluded(text.replace("MAT", MAT), **words) == ({expected} if expected else set())


def test_entries_have_names_and_reasons_of_their_own() -> None:
    ids, reasons = [x.id for x in PROGRAM_EXCLUSIONS], [x.reason for x in PROGRAM_EXCLUSIONS]
    assert len(ids) == len(set(ids)) == len(set(reasons)) and all(reasons)


def test_other_nans_show_what_depends_on_the_bits_of_one() -> None:
    text = f"pto.tadds ins(%a, %s : {F32}, f32) outs(%d : {F32})\n%b = pto.bitcast %d : {F32} -> {I32}"
    for word, same in ((0x3F800000, True), (SIGNALLING, False)):
        plain = run(text, {"a": word, "s": 0}, ReferenceMachine)
        other = run(text, {"a": word, "s": 0}, OtherNans)
        assert np.array_equal(plain["b"].data, other["b"].data) == same
