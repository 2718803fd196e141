"""What a device has room for: capacities, addresses, and the orders its memories hold tiles in."""

from collections.abc import Callable

import pytest

from pto_jax.errors import Diagnostic

Check = Callable[..., list[Diagnostic]]
#: Bytes per memory; 0 where the profile has none.
CAPACITY = {
    "a2a3": {
        "vec": 196608, "mat": 524288, "left": 65536, "right": 65536, "acc": 131072, "bias": 1024,
        "scaling": 2048, "scaleleft": 0, "scaleright": 0,
    },
    "a5": {
        "vec": 262144, "mat": 524288, "left": 65536, "right": 65536, "acc": 262144, "bias": 4096,
        "scaling": 4096, "scaleleft": 4096, "scaleright": 4096,
    },
    "cpu_sim": {
        "vec": 524288, "mat": 524288, "left": 65536, "right": 65536, "acc": 262144, "bias": 524288,
        "scaling": 524288, "scaleleft": 4096, "scaleright": 4096,
    },
}  # fmt: skip
#: Element type, bytes of a row of 32 bytes or of boxes, and the order of a tile of each memory.
_NZ = ", blayout=col_major, slayout=row_major"
SHAPES = {
    "vec": ("f32", 16, ""),
    "mat": ("f16", 16, _NZ),
    "left": ("f16", 16, _NZ),
    "right": ("f16", 16, ", slayout=col_major"),
    "acc": ("f32", 16, f"{_NZ}, fractal=1024"),
    "bias": ("f32", 1, ""),
    "scaling": ("ui64", 1, ""),
    "scaleleft": ("f8e8m0", 16, ", slayout=row_major, fractal=32"),
    "scaleright": ("f8e8m0", 2, ", blayout=col_major, slayout=col_major, fractal=32"),
}
BYTES = {"f32": 4, "f16": 2, "ui64": 8, "f8e8m0": 1}
#: Bytes of a tile of whole boxes in every memory.
_PART = 1024
PLACES = [(p, loc) for p in CAPACITY for loc in SHAPES]


def tile(loc: str, size: int) -> str:
    """A tile of a memory with a number of bytes."""
    d, rows, order = SHAPES[loc]
    cols, rest = divmod(size, rows * BYTES[d])
    assert not rest
    return f"!pto.tile_buf<{loc}, {rows}x{cols}x{d}{order}>"


def errors(found: list[Diagnostic]) -> list[Diagnostic]:
    return [d for d in found if d.severity == "error"]


def at(address: int, t: str) -> str:
    return f"%a = arith.constant {address} : i64\n%t = pto.alloc_tile addr = %a : {t}"


@pytest.mark.parametrize(("profile", "loc"), PLACES)
def test_a_tile_fits_into_its_memory(check: Check, profile: str, loc: str) -> None:
    capacity = CAPACITY[profile][loc]
    if capacity:
        assert errors(check(f"%t = pto.alloc_tile : {tile(loc, capacity)}", profile)) == []
    found = check(f"%t = pto.alloc_tile : {tile(loc, capacity + _PART)}", profile)
    # Compilers print scaling tiles as large as the data they scale, hardware tests have right tiles of twice
    # the buffer: a warning, for these tiles only.
    warned = loc == "scaling" or (profile, loc) == ("a2a3", "right")
    found = found if warned else errors(found)
    assert {d.severity for d in found} == {"warning" if warned else "error"}
    if not capacity:
        found = [d for d in found if d.rule != "type-exists"]
    assert [d.rule for d in found] == ["tile-capacity"] and profile in found[0].message
    assert f"{loc} buffer of {profile}: {capacity}" in found[0].message or not capacity


@pytest.mark.parametrize(("profile", "loc"), [p for p in PLACES if CAPACITY[p[0]][p[1]]])
def test_addresses_are_aligned_and_tiles_end_inside_their_memory(
    check: Check, profile: str, loc: str
) -> None:
    t, end = tile(loc, _PART), CAPACITY[profile][loc]
    assert errors(check(at(end - _PART, t), profile)) == []
    for address, rule in (
        (16, "address-aligned"),
        (33, "address-aligned"),
        (end - _PART + 32, "address-range"),
        (end, "address-range"),
        (-32, "address-range"),
    ):
        found = errors(check(at(address, t), profile))
        assert found[0].rule == rule and str(address) in found[0].message
        assert len(found) == 1 or end == _PART


LEFT, RIGHT, ACC = (tile(loc, 16 * 16 * n) for loc, n in (("left", 2), ("right", 2), ("acc", 4)))
VEC = "!pto.tile_buf<vec, 16x16xf32>"


def product(left: str = LEFT, right: str = RIGHT, acc: str = ACC) -> str:
    return f"pto.tmatmul ins(%a, %b : {left}, {right}) outs(%c : {acc})"


def total(src: str = VEC, dst: str = VEC) -> str:
    return f"pto.tadd ins(%a, %b : {src}, {src}) outs(%c : {dst})"


ND, DN, BOXED = "", ", blayout=col_major", _NZ
ZN, NN = ", slayout=col_major", ", blayout=col_major, slayout=col_major"


@pytest.mark.parametrize("profile", CAPACITY)
@pytest.mark.parametrize(
    ("text", "rule", "operand"),
    [
        *((product(left=f"!pto.tile_buf<left, 16x16xf16{o}>"), "layout", "a") for o in (ND, DN, ZN, NN)),
        *((product(right=f"!pto.tile_buf<right, 16x16xf16{o}>"), "layout", "b") for o in (ND, DN, BOXED, NN)),
        *((product(acc=f"!pto.tile_buf<acc, 16x16xf32{o}>"), "layout", "dst") for o in (ND, DN, ZN, NN)),
        (product(left=LEFT.replace("left", "mat")), "location", "a"),
        (product(right=RIGHT.replace("right", "left")), "location", "b"),
        (product(acc=ACC.replace("acc", "vec")), "location", "dst"),
    ],
)
def test_an_order_or_place_that_the_instruction_does_not_take(
    check: Check, text: str, rule: str, operand: str, profile: str
) -> None:
    found = errors(check(text, profile))
    assert (rule, operand) in {(d.rule, d.operand) for d in found}
    assert {d.rule for d in found} == {rule}
    assert all("allowed" in d.message for d in found)


@pytest.mark.parametrize("profile", ["a2a3", "a5"])
def test_vector_instructions_of_hardware_take_row_major_tiles_of_vec(check: Check, profile: str) -> None:
    for order in (DN, BOXED, NN):
        t = VEC.replace(">", f"{order}>")
        assert {d.rule for d in errors(check(total(t, t), profile))} == {"layout"}
        assert errors(check(total(t, t), "cpu_sim")) == []
    for text, operand in ((total(VEC.replace("vec", "mat")), "src0"), (total(dst=ACC), "dst")):
        found = {(d.rule, d.operand) for d in errors(check(text, profile))}
        assert ("location", operand) in found
