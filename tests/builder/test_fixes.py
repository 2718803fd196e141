"""The fixes of programs in Python are Python, and the program with the fix in its place is accepted."""

import linecache
import re
from itertools import count

import pytest

import pto_jax as pto
from pto_jax.errors import Diagnostic

_FILES = count()


def verified(body: str, profile: str = "a2a3") -> list[Diagnostic]:
    """What is said of a kernel whose file holds these lines."""
    file = f"fixes_{next(_FILES)}.py"
    lines = ["import pto_jax as pto", "def kernel(p, q, n):", *(f"    {line}" for line in body.splitlines())]
    source = "\n".join(lines) + "\n"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, object] = {}
    exec(compile(source, file, "exec"), names)
    made = pto.kernel(types=(pto.ptr("f32"), pto.ptr("f32"), "index"))(names["kernel"])  # type: ignore[call-overload]
    return [d for d in pto.verify(made.program, profile) if d.severity == "error"]


def fix_of(body: str, rule: str, profile: str = "a2a3") -> str:
    [found] = {d.message.partition("; try: ")[2] for d in verified(body, profile) if d.rule == rule}
    assert found
    assert "%" not in found
    assert "!pto" not in found
    return found


@pytest.mark.parametrize(
    "made",
    [
        'pto.alloc_tile("f32", 13, 37)',
        'pto.Tile("vec", "f32", 13, 37)',
        'pto.alloc_tile("f16", 13, 37, valid=(13, 30))',
        'pto.alloc_tile("f32", 16, 1)',
        'pto.alloc_tile("f32", 13, 1)',
        'pto.alloc_tile("f32", 13, 16, blayout="col_major")',
        'pto.alloc_tile("f32", 16, 30, loc="mat")',
        'pto.alloc_tile("f32", 13, 32, loc="mat", pad="zero")',
        'pto.alloc_tile("f32", 13, 30, loc="acc", fractal=1024)',
    ],
)
def test_sizes_of_whole_blocks_and_boxes(made: str) -> None:
    rules = {d.rule for d in verified(f"t = {made}")}
    assert rules <= {"tile-alignment", "tile-boxes"}
    for rule in rules:
        assert verified(f"t = {fix_of(f't = {made}', str(rule))}") == []


def test_a_column_is_named_as_a_row() -> None:
    column = 't = pto.alloc_tile("f32", 16, 1, blayout="col_major")\n'
    fix = fix_of(column + "pto.tadds(t, t, 2.0)", "layout")
    line = fix.removeprefix("compute on the same bytes as a row: ")
    assert line.startswith("t_row = pto.treshape(t, type=")
    assert verified(f"{column}{line}\npto.tadds(t_row, t_row, 2.0)") == []


def test_a_column_of_a_dynamic_region_is_named_as_a_row() -> None:
    column = 't = pto.alloc_tile("f32", 16, 1, valid=(n, 1), blayout="col_major")\n'
    line = fix_of(column + "pto.tadds(t, t, 2.0)", "layout").removeprefix(
        "compute on the same bytes as a row: "
    )
    assert verified(f"{column}{line}\npto.tadds(t_row, t_row, 2.0)") == []


@pytest.mark.parametrize("rows, cols", [(16, 8), (8, 5), (8, 16)])
def test_other_tiles_are_allocated_row_major(rows: int, cols: int) -> None:
    made = f't = pto.alloc_tile("f32", {rows}, {cols}, blayout="col_major")\n'
    fix = fix_of(made + "pto.tadds(t, t, 2.0)", "layout")
    assert verified(f"{fix}\npto.tadds(t, t, 2.0)") == []


def test_a_tile_of_a_dynamic_region_is_allocated_by_its_type() -> None:
    made = 't = pto.alloc_tile("f32", 16, 8, valid=(n, 8), blayout="col_major")\n'
    fix = fix_of(made + "pto.tadds(t, t, 2.0)", "layout").removeprefix("allocate t by its type, ")
    assert verified(f"t = pto.alloc_tile({fix}, valid_row=n)\npto.tadds(t, t, 2.0)") == []


def test_whole_blocks_of_a_dynamic_region() -> None:
    fix = fix_of('t = pto.alloc_tile("f32", 13, 37, valid=(n, 37))', "tile-alignment")
    assert verified(f"t = pto.alloc_tile({fix.removeprefix('its type as ')}, valid_row=n)") == []


def test_types_of_another_profile_name_it() -> None:
    body = 't = pto.alloc_tile("f8e4m3", 16, 64)'
    named = re.match(r'profile="(\w+)"', fix_of(body, "type-exists"))
    assert named is not None
    assert verified(body, named.group(1)) == []
