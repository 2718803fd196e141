"""Batches without elements, products without rows, columns or steps, reductions without valid lanes."""

from dataclasses import replace
from itertools import islice
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa, oracle
from pto_jax.ir import Program, Region, TileType, Value
from pto_jax.isa.samples.operations import legal_samples, to_program
from pto_jax.profiles import A5, PROFILES
from pto_jax.runtime.kernel import Kernel, choices
from pto_jax.testing.differential import arguments, computes, make_case
from pto_jax.text.type_text import print_type

PRODUCTS = [
    f"{base}{mx}{form}"
    for base in ("tmatmul", "tgemv")
    for mx in ("", ".mx")
    for form in ("", ".acc", ".bias")
]


def _resized(program: Program, sizes: dict[str, tuple[int, int]]) -> Program:
    """The program of one operation with static valid regions."""

    def sized(v: Value) -> Value:
        if v.name not in sizes:
            return v
        assert isinstance(v.type, TileType)
        return replace(v, type=v.type.with_valid(*sizes[v.name]))

    (function,) = program.functions
    (op,) = function.body.ops
    op = replace(op, ins=tuple(map(sized, op.ins)), outs=tuple(map(sized, op.outs)))
    args = tuple(map(sized, function.args))
    return replace(program, functions=(replace(function, args=args, body=Region((op,))),))


@pytest.mark.variants(2)
@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("empty", ["M", "K", "N"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_mapped_products_of_empty_static_regions(name: str, empty: str, numerics: Any) -> None:
    program = to_program(next(legal_samples(isa.instructions()[name], A5)))
    shapes = {v.name: v.type.shape for v in program.functions[0].args if isinstance(v.type, TileType)}
    m, (k, n) = (1 if "gemv" in name else 16), shapes["b"]
    m, k, n = (0 if what == empty else size for what, size in zip("MKN", (m, k, n), strict=True))
    program = _resized(program, {"a": (m, k), "b": (k, n), "dst": (m, n), "acc": (m, n)})
    kernel = Kernel(program, program.functions[0].name, choices(A5, numerics, None, "keep"))
    rng = np.random.default_rng(0)
    types = {v.name: v.type for v in program.functions[0].args if isinstance(v.type, TileType)}
    # Fast numerics take subnormal numbers for zero: sums are of ordinary ones.
    data = {
        n: x.astype(t.dtype.numpy) if t.dtype.bits == 32 else x.astype(t.dtype.word).view(t.dtype.numpy)
        for n, t in types.items()
        for x in (rng.integers(1, 60, (3, *t.shape)),)
    }
    mapped = np.asarray(jax.vmap(lambda tiles: kernel(**tiles)["dst"].array)(data))
    assert jax.vmap(jax.vmap(lambda tiles: kernel(**tiles)["dst"].array))(
        {n: x[None] for n, x in data.items()}
    ).shape == (1, *mapped.shape)
    for i, got in enumerate(mapped):
        given = {n: oracle.OracleTile(t, data[n][i].copy()) for n, t in types.items()}
        expected = oracle.run(program, given, profile="a5")["dst"].data
        np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("profile", ["a2a3", "a5"])
@pytest.mark.parametrize("name", ["tmatmul", "tgemv.acc"])
def test_empty_products_have_one_verdict(name: str, profile: Any) -> None:
    program = to_program(next(legal_samples(isa.instructions()[name], PROFILES[profile])))
    sizes = {"a": (0, 16), "dst": (0, 16), "acc": (0, 16)}
    found = [d for d in pto.verify(_resized(program, sizes), profile=profile) if d.rule == "empty"]
    assert [d.severity for d in found] == ["warning"]
    assert "M is 0" in found[0].message


@pytest.mark.variants(3)
@pytest.mark.parametrize("name", [n for n, i in isa.instructions().items() if computes(i)])
def test_a_batch_of_no_elements(name: str) -> None:
    for profile in ("a5", "cpu_sim"):
        for sample in islice(legal_samples(isa.instructions()[name], PROFILES[profile]), 1):
            case = make_case(sample, PROFILES[profile])
            none = jax.tree.map(lambda x: x[:0], arguments(case.given))
            for result in jax.tree.leaves(jax.vmap(lambda tiles, k=case.kernel: k(**tiles))(none)):
                assert result.shape[0] == 0


SIDE = 8
NAMES = [f"t{a}{o}" for a in ("row", "col") for o in ("sum", "prod", "max", "min", "argmax")]


@pytest.mark.variants(4)
@pytest.mark.parametrize("profile", ["cpu_sim", "a5"])
@pytest.mark.parametrize("name", [*NAMES, "tpairreducesum"])
def test_engine_and_interpreter_agree(name: str, profile: str) -> None:
    src = pto.TileType(pto.dtype("f32"), SIDE, SIDE, None, None)
    dst = pto.TileType(pto.dtype("i32" if "arg" in name else "f32"), SIDE, SIDE, None, None)
    program = pto.parse(f"pto.{name} ins(%s : {print_type(src)}) outs(%d : {print_type(dst)})")
    kernel = pto.compile(program, profile=profile)
    data = np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE) + 3
    old = np.full((SIDE, SIDE), 9, dst.dtype.numpy)
    for rows, cols in ((SIDE, 0), (0, SIDE), (0, 0), (3, 5)):
        region = (rows, 1) if name.startswith("trow") else (1, cols)
        region = (rows, cols) if name == "tpairreducesum" else region
        out = kernel(pto.tile(data, valid=(rows, cols)), pto.tile(old, valid=region))["d"]
        given = {"s": oracle.OracleTile(src, data, rows, cols), "d": oracle.OracleTile(dst, old, *region)}
        expected = oracle.run(program, given, profile=profile)["d"].data
        np.testing.assert_array_equal(np.asarray(out), expected, f"{rows}x{cols}")
