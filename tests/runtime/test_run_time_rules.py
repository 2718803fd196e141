"""Valid regions that only a call knows: empty ones, ones that do not fit, and how they are reported."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.ir import TileType

Source = Callable[..., Any]
Agree = Callable[..., dict[str, Any]]
X = np.arange(1, 65, dtype=np.float32)


def summed(source: Source) -> pto.Program:
    """z = x + x + x by taddsc, whose tiles must agree on their valid region; %r and %q may not."""
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %r: index, %q: index")
    s.view("%a", "%x", (8, 8), (8, 1)).view("%b", "%z", (8, 8), (8, 1))
    s.tile("%t", "f32", 8, 8, valid=("%r", 8)).tile("%u", "f32", 8, 8, valid=("%q", 8))
    s.do("%k = arith.constant 1.0 : f32").load("%a", "%t").load("%a", "%u")
    program: pto.Program = s.op("taddsc", "%t", "%k: f32", "%u", out="%t").store("%t", "%b").program
    return program


def same(got: Any, expected: Any) -> None:
    assert np.asarray(got).tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("valid", [(0, 8), (0, 0), (3, 0)])
@pytest.mark.parametrize("arch", ["a3", "cpu_sim"])
def test_empty_valid_regions(source: Source, agree: Agree, valid: tuple[int, int], arch: str) -> None:
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %r: index, %c: index", arch=arch)
    s.view("%a", "%x", (8, 8), (8, 1)).view("%b", "%z", (8, 8), (8, 1))
    s.tile("%t", "f32", 8, 8, valid=("%r", "%c")).load("%a", "%t")
    s.op("tadd", "%t", "%t", out="%t").store("%t", "%b")
    assert (agree(s.program, X, -X, *valid)["z"] == -X).all()


def test_a_broken_rule_is_reported_with_its_place(source: Source) -> None:
    kernel = pto.compile(summed(source), checks=True)
    out, report = kernel(X, 0 * X, 4, 4)
    assert not report.problems() and (np.asarray(out["z"])[:32] == 2 * X[:32] + 1).all()
    _, report = kernel(X, 0 * X, 4, 3)
    (problem,) = report.problems()
    assert problem.instruction == "taddsc" and problem.rule == "valid-equal"
    line = summed(source).functions[0].body.ops[-3].span
    assert problem.span == line and "batch" not in problem.message
    with pytest.raises(pto.ExecutionError, match="taddsc"):
        report.raise_if_broken()


@pytest.mark.slow
def test_a_report_names_batch_elements(source: Source) -> None:
    kernel = pto.compile(summed(source), checks=True)
    rows = np.array([1, 2, 3, 4])
    _, report = jax.jit(jax.vmap(kernel, in_axes=(None, None, 0, None)))(X, 0 * X, rows, 3)
    (problem,) = report.problems()
    assert problem.message.endswith("; batch index 0, 1, 3")
    _, report = jax.vmap(kernel, in_axes=(None, None, 0, None))(X, 0 * X, np.arange(1, 13) % 8, 9)
    assert "and 4 more" in " ".join(d.message for d in report.problems())
    grid = jax.vmap(jax.vmap(kernel, in_axes=(None, None, 0, None)), in_axes=(None, None, None, 0))
    _, report = grid(X, 0 * X, rows[:2], rows[:2])
    assert [d.message.rsplit("index ")[-1] for d in report.problems()] == ["(0, 1), (1, 0)"]


def test_without_checks_the_formula_is_computed(source: Source) -> None:
    plain, checked = pto.compile(summed(source)), pto.compile(summed(source), checks=True)
    for q in (3, 4):
        same(plain(X, X, 4, q)["z"], checked(X, X, 4, q)[0]["z"])
    with pytest.raises(pto.ExecutionError, match="taddsc"):
        plain.eager(X, X, 4, 3)
    with pytest.raises(pto.ExecutionError, match="taddsc"):
        plain.with_state(X, X, 4, 3)
    same(plain.eager_unchecked(X, X, 4, 3)["z"], plain(X, X, 4, 3)["z"])


@pytest.mark.parametrize(("r", "q"), [(9, 9), (-1, -1), (2**32 + 4, 2**32 + 4)])
def test_valid_sizes_beyond_the_tile_are_reported(source: Source, r: int, q: int) -> None:
    _, report = pto.compile(summed(source), checks=True)(X, 0 * X, r, q)
    found = [(d.instruction, d.rule) for d in report.problems()]
    assert found[:2] == [("alloc_tile", "region")] * 2
    with pytest.raises(pto.ExecutionError, match="a valid region within 8x8"):
        pto.compile(summed(source)).eager(X, 0 * X, r, q)


def test_static_valid_sizes_beyond_the_tile_are_rejected(source: Source) -> None:
    s = source("%x: !pto.ptr<f32>").tile("%t", "f32", 8, 8, valid=(9, 8)).op("tneg", "%t", out="%t")
    with pytest.raises(pto.PtoError, match="9"):
        pto.compile(s.program)


def test_valid_sizes_of_tile_arguments_are_checked() -> None:
    text = "%d = tadd %a, %b : !pto.tile<4x8xf32, valid=?x?>"
    made = pto.tile(np.ones((4, 8), np.float32))
    rows = jnp.array([4, 5], np.int32)
    batch = jax.vmap(lambda r: pto.tile(np.ones((4, 8), np.float32), valid=(r, 8)))(rows)
    _, report = jax.vmap(pto.compile(pto.parse(text), checks=True), in_axes=(0, None))(batch, made)
    assert [d.message.rsplit("; ")[-1] for d in report.problems()] == ["batch index 1"]


def test_concrete_tiles_given_to_an_instruction_are_checked() -> None:
    a = pto.tile(np.ones((4, 8), np.float32), valid=(3, 8))
    b = pto.tile(np.ones((4, 8), np.float32), valid=(2, 8))
    with pytest.raises(pto.ExecutionError, match="taddsc"):
        pto.ops.taddsc(a, 1.0, b)
    jax.jit(lambda a, b: pto.ops.taddsc(a, 1.0, b))(a, b)
    small = TileType(pto.dtype("f32"), 2, 8, None, None)
    for source in (a, pto.tile(np.ones((4, 8), np.float32))):
        with pytest.raises(pto.ExecutionError, match="a valid region within 2x8"):
            pto.ops.tadd(source, source, dst=small)


DATA = np.ones((4, 8), np.float32)


def of_rows(rows: Any) -> pto.Tile:
    made: pto.Tile = pto.tile(DATA, valid=(rows, 8))
    return made


def test_functions_report_broken_rules_like_kernels() -> None:
    """The rules of an instruction and the valid sizes of its tiles, with batch indices."""

    def call(rows: Any) -> Any:
        return pto.ops.taddsc(of_rows(rows), 1.0, of_rows(3), checks=True)

    out, report = jax.jit(call)(3)
    assert not report.problems() and (np.asarray(out)[:3] == 3).all()
    _, report = jax.jit(jax.vmap(call))(np.array([3, 2, 5, -1]))
    found = [(d.instruction, d.rule, d.message.rsplit("; ")[-1]) for d in report.problems()]
    assert found == [
        ("taddsc", "region", "batch index 2, 3"),
        ("taddsc", "valid-equal", "batch index 1, 2, 3"),
    ]
    assert "within 4x8 of src0" in report.problems()[0].message
    assert repr(report) == "<Report: 2 of 3 run-time rules broken: taddsc region, taddsc valid-equal>"
    with pytest.raises(pto.ExecutionError, match="of src0"):
        report.raise_if_broken()


@pytest.mark.parametrize("rows", [5, -1, 2**31 - 1])
def test_traced_valid_sizes_outside_a_tile_raise_where_they_are_known(rows: int) -> None:
    made = jax.jit(of_rows)(rows)
    with pytest.raises(pto.ExecutionError, match="a valid region within 4x8 of src0"):
        pto.ops.tadd(made, made)
    kernel = pto.compile(pto.parse("%d = tadd %a, %b : !pto.tile<4x8xf32, valid=?x?>"))
    with pytest.raises(pto.ExecutionError, match="a valid region within 4x8"):
        kernel.eager(made, made)
    checked = pto.compile(kernel.program, checks=True)
    assert {d.rule for d in checked(made, made)[1].problems()} == {"region"}


def test_valid_sizes_wider_than_32_bits_do_not_wrap_into_a_tile() -> None:
    with jax.enable_x64(True):
        made = jax.jit(of_rows)(np.int64(2**32 + 4))
    assert int(made.valid_rows) == 2**31 - 1


NESTED_BRANCHES = """
module attributes {pto.target_arch = "a3"} {
  func.func @f(%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %r: index, %q: index, %a: i1, %b: i1) {
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %k = arith.constant 1.0 : f32
    %v = pto.make_tensor_view %x, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<8x8xf32>
    %w = pto.make_tensor_view %z, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<8x8xf32>
    %t = pto.alloc_tile valid_row = %r : TILE
    %u = pto.alloc_tile valid_row = %q : TILE
    pto.tload ins(%v : !pto.tensor_view<8x8xf32>) outs(%t : TILE)
    pto.tload ins(%v : !pto.tensor_view<8x8xf32>) outs(%u : TILE)
    cf.cond_br %a, ^outer, ^done
  ^outer:
    pto.taddsc ins(%t, %k, %u : TILE, f32, TILE) outs(%t : TILE)
    cf.cond_br %b, ^inner, ^other
  ^inner:
    pto.taddsc ins(%t, %k, %u : TILE, f32, TILE) outs(%t : TILE)
    cf.br ^done
  ^other:
    cf.br ^done
  ^done:
    pto.tstore ins(%t : TILE) outs(%w : !pto.tensor_view<8x8xf32>)
    return
  }
}
""".replace("TILE", "!pto.tile_buf<vec, 8x8xf32, valid=?x8>")


def test_rules_of_branches_inside_branches_between_blocks_are_reported() -> None:
    kernel = pto.compile(pto.parse(NESTED_BRANCHES), checks=True)
    lines = [i for i, line in enumerate(NESTED_BRANCHES.split("\n"), 1) if "taddsc" in line]
    for outer, inner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        _, report = kernel(X, 0 * X, 4, 3, bool(outer), bool(inner))
        assert [p.span.line for p in report.problems() if p.span] == lines[: outer + outer * inner]
        _, report = kernel(X, 0 * X, 4, 4, bool(outer), bool(inner))
        assert not report.problems()


def test_rules_of_a_switch_of_several_cases_are_reported(source: Source) -> None:
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %r: index, %q: index, %which: index")
    s.view("%a", "%x", (8, 8), (8, 1)).view("%b", "%z", (8, 8), (8, 1))
    s.tile("%t", "f32", 8, 8, valid=("%r", 8)).tile("%u", "f32", 8, 8, valid=("%q", 8))
    s.do("%k = arith.constant 1.0 : f32").load("%a", "%t").load("%a", "%u")
    s.do("scf.index_switch %which")
    for case in ("case 1", "case 2", "case 5", "default"):
        s.do(f"{case} {{").op("taddsc", "%t", "%k: f32", "%u", out="%t")
        s.do("scf.yield").do("}")
    kernel = pto.compile(s.store("%t", "%b").program, checks=True)
    places = set()
    for which in (1, 2, 5, 0):
        _, report = kernel(X, 0 * X, 4, 4, which)
        assert not report.problems()
        _, report = kernel(X, 0 * X, 4, 3, which)
        (problem,) = report.problems()
        places.add(problem.span)
    assert len(places) == 4
