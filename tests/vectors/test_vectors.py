"""Reading vector files: every recorded file, and every way a file can be wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pto_jax.errors import FileError
from pto_jax.ir import F32, GlobalLayout, Loc, Pad, SLayout
from pto_jax.vectors.manifest import (
    Case,
    GmOperand,
    Rule,
    ScalarOperand,
    TileOperand,
    load_file,
    vector_files,
)

GOLDEN = Path(__file__).parents[1] / "golden"
TILE = {"role": "in", "loc": "vec", "dtype": "f32", "rows": 2, "cols": 8, "v_row": 2, "v_col": 8}


def case_entry(**changes: Any) -> dict[str, Any]:
    operands = [{**TILE, "name": "dst", "role": "out"}, {**TILE, "name": "src"}]
    return {"id": "t0", "instruction": "TNEG", "attrs": {}, "operands": operands, **changes}


def write(path: Path, manifest: object, **arrays: Any) -> Path:
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    tile = np.zeros(64, np.uint8)
    held = {"t0/dst/before": tile, "t0/dst/after": tile, "t0/src/before": tile, **arrays}
    np.savez(path, manifest=np.array(text), **{k: v for k, v in held.items() if v is not None})
    return path


@pytest.mark.slow
def test_every_recorded_case_is_read(golden: list[Case], recorded_cases: int) -> None:
    assert len(golden) == recorded_cases > 3000
    assert len({c.id for c in golden}) == len(golden)
    assert {c.instruction for c in golden} == {p.stem for p in GOLDEN.glob("*.npz")}
    assert all(c.outputs for c in golden)


def test_operand_kinds_carry_their_metadata() -> None:
    load = next(c for c in load_file(GOLDEN / "tload.npz") if c.label == "nd_pad_max")
    source, tile = load.operand("src"), load.operand("dst")
    assert isinstance(source, GmOperand) and isinstance(tile, TileOperand)
    assert source.layout == GlobalLayout.ND and len(source.shape) == len(source.strides) == 5
    assert source.before.size == source.elements * source.dtype.bits // 8
    assert tile.type.pad == Pad.MAX and tile.type.loc == Loc.VEC
    nz = next(c for c in load_file(GOLDEN / "tadd.npz") if c.label.endswith("_nz")).operand("dst")
    assert isinstance(nz, TileOperand) and nz.type.slayout == SLayout.ROW_MAJOR and nz.type.layout == "NZ"


def test_scalars_come_from_their_bits() -> None:
    values = {c.label: c.operand("scalar") for c in load_file(GOLDEN / "tmuls.npz")}
    scalar = values["f32_full"]
    assert isinstance(scalar, ScalarOperand) and scalar.dtype == F32 and scalar.value == 1.5
    assert all(isinstance(s, ScalarOperand) and not isinstance(s.value, str) for s in values.values())


def test_comparison_rules_are_read(golden: list[Case]) -> None:
    rules = {c.instruction: c.rule for c in golden if c.label == "f32_full"}
    assert rules["tadd"] == Rule(0, True) and rules["texp"] == Rule(1, True)
    assert {c.rule for c in golden if c.instruction == "tand"} == {Rule(0, False)}
    moves = {c.rule for c in golden if c.instruction == "tload"}
    assert moves == {Rule(0, True)}


def test_undefined_lanes_are_one_flag_per_element(golden: list[Case]) -> None:
    marked = [o for c in golden for o in c.operands if isinstance(o, TileOperand) and o.undef is not None]
    assert len(marked) == 230
    assert all(o.undef is not None and o.undef.shape == (o.type.elements,) for o in marked)


def test_arrays_are_read_only(tmp_path: Path) -> None:
    case = load_file(write(tmp_path / "a.npz", [case_entry()]))[0]
    with pytest.raises(ValueError, match="read-only"):
        case.outputs[0].before[0] = 1  # type: ignore[index]


MALFORMED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda d: d / "none.npz", r"none\.npz: no such file"),
    "empty folder": (lambda d: d, "no .npz vector files"),
    "not a zip": (lambda d: _bytes(d, b"hello"), "not an .npz file"),
    "empty file": (lambda d: _bytes(d, b""), "not an .npz file"),
    "npy": (lambda d: _npy(d), "not an .npz file"),
    "truncated": (lambda d: _truncated(d), r"x\.npz: "),
    "pickled": (lambda d: _savez(d, manifest=np.array([{}], object)), "holds Python objects"),
    "no manifest": (lambda d: _savez(d, other=np.zeros(3)), "no array called 'manifest'.*other"),
    "manifest of numbers": (lambda d: _savez(d, manifest=np.zeros(3)), "'manifest': got float64"),
    "bad json": (lambda d: write(d / "x.npz", "[{"), "'manifest': not JSON: "),
    "deep json": (lambda d: write(d / "x.npz", "[" * 100_000), "nested more than 64 levels"),
    "json object": (lambda d: write(d / "x.npz", {"id": 1}), "list of objects"),
    "no id": (lambda d: write(d / "x.npz", [{}]), "case 0: entry 'id': got nothing; allowed: str"),
    "id is a number": (lambda d: write(d / "x.npz", [case_entry(id=3)]), "entry 'id': got 3; allowed: str"),
    "no operands": (lambda d: write(d / "x.npz", [case_entry(operands=[])]), "list of objects"),
    "operands are text": (lambda d: write(d / "x.npz", [case_entry(operands=["a"])]), "list of objects"),
    "unknown type": (lambda d: _tile(d, dtype="f31"), "operand dst: entry 'dtype': got 'f31'"),
    "unknown layout": (lambda d: _tile(d, blayout="diagonal"), "entry 'blayout': got 'diagonal'"),
    "no columns": (lambda d: _tile(d, cols=0), "a tile of 2x0"),
    "huge tile": (lambda d: _tile(d, rows=10**9, cols=10**9), "allowed: 1 to 1073741824 elements"),
    "rows are text": (lambda d: _tile(d, rows="two"), "entry 'rows': got 'two'; allowed: int"),
    "region too large": (lambda d: _tile(d, v_row=3), "got a valid region of 3x8; allowed: 0x0 to 2x8"),
    "wrong size": (lambda d: _tile(d, cols=16), "got 64 bytes; allowed: 128"),
    "no before": (
        lambda d: write(d / "x.npz", [case_entry()], **{"t0/src/before": None}),
        "array 't0/src/before' is missing",
    ),
    "no after": (
        lambda d: write(d / "x.npz", [case_entry()], **{"t0/dst/after": None}),
        "array 't0/dst/after' is missing",
    ),
    "floats for bytes": (
        lambda d: write(d / "x.npz", [case_entry()], **{"t0/src/before": np.zeros(16, np.float32)}),
        "allowed: raw bytes .uint8.",
    ),
    "same name twice": (
        lambda d: write(d / "x.npz", [case_entry(operands=[{**TILE, "name": "src"}] * 2)]),
        "same name",
    ),
    "same id twice": (
        lambda d: write(d / "x.npz", [case_entry(), case_entry()]),
        r"x\.npz: several cases have the id 't0'; allowed: one each",
    ),
    "nothing to compare": (
        lambda d: write(d / "x.npz", [case_entry(operands=[{**TILE, "name": "src"}])]),
        "nothing to compare",
    ),
    "misspelt entry": (
        lambda d: write(d / "x.npz", [case_entry(attributes={})]),
        "case t0: an entry has the key 'attributes'; allowed: attrs, compare",
    ),
    "misspelt rule": (
        lambda d: write(d / "x.npz", [case_entry(compare={"mode": "ulp", "ulps": 1})]),
        "'compare' has the key 'ulps'; allowed: mode, nan",
    ),
    "misspelt region": (lambda d: _tile(d, vrow=1), "operand dst: the tile has the key 'vrow'; allowed: "),
    "pad that is no number": (lambda d: _tile(d, pad="custom:x"), "entry 'pad': got 'x'; allowed: a hexad"),
    "unknown mode": (
        lambda d: write(d / "x.npz", [case_entry(compare={"mode": "about"})]),
        "allowed: the modes bit-exact and ulp",
    ),
    "negative ulp": (
        lambda d: write(d / "x.npz", [case_entry(compare={"mode": "ulp", "ulp": -1})]),
        "0 or more",
    ),
    "scalar without bits": (lambda d: _scalar(d), "entry 'bits': got nothing"),
    "scalar bits": (lambda d: _scalar(d, bits="zz"), "hexadecimal"),
    "scalar too wide": (lambda d: _scalar(d, bits="0x100000000"), "allowed: 32 bits of f32"),
}


def test_files_that_are_named_twice_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "x.npz", [case_entry()])
    assert vector_files(["x.npz", tmp_path, ".", file]) == [Path("x.npz")]


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files_are_refused_with_one_clear_error(name: str, tmp_path: Path) -> None:
    make, message = MALFORMED[name]
    with pytest.raises(FileError, match=message) as caught:
        for path in vector_files([make(tmp_path)]):
            load_file(path)
    assert "\n" not in str(caught.value)


def _bytes(folder: Path, content: bytes) -> Path:
    (folder / "x.npz").write_bytes(content)
    return folder / "x.npz"


def _npy(folder: Path) -> Path:
    np.save(folder / "x.npy", np.zeros(3))
    return folder / "x.npy"


def _savez(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "x.npz", **arrays)
    return folder / "x.npz"


def _truncated(folder: Path) -> Path:
    whole = write(folder / "whole.npz", [case_entry()]).read_bytes()
    return _bytes(folder, whole[: len(whole) // 2])


def _tile(folder: Path, **changes: Any) -> Path:
    operands = [{**TILE, "name": "dst", "role": "out", **changes}, {**TILE, "name": "src"}]
    return write(folder / "x.npz", [case_entry(operands=operands)])


def _scalar(folder: Path, **changes: Any) -> Path:
    scalar = {"name": "scalar", "role": "scalar", "dtype": "f32", **changes}
    return write(folder / "x.npz", [case_entry(operands=[{**TILE, "name": "dst", "role": "out"}, scalar])])
