"""Hundreds of damaged programs: one clear finding with its place each, never a traceback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pto_jax.cli.main import main
from pto_jax.examples import example

CUTS = 40
SMALL = ("vector_add", "add_relu_convert", "masked_tile", "conversion_chain")
#: Replacements that make every shipped example illegal.
DAMAGE: dict[str, tuple[str, str]] = {
    "unknown dialect": ("pto.tload", "pta.tload"),
    "unknown instruction": ("pto.tload", "pto.tlaod"),
    "unknown type": ("!pto.ptr<f32>", "!pto.pointer<f32>"),
    "unknown element type": ("dtype=f32", "dtype=f33"),
    "no rows": ("rows=", "lines="),
    "fractional rows": (" rows=", " rows=0."),
    "negative rows": (" rows=", " rows=-"),
    "endless rows": (" rows=", " rows=9999999999999999999"),
    "unknown location": ("loc=vec", "loc=moon"),
    "other location": ("loc=vec", "loc=acc"),
    "unknown layout": ("blayout=row_major", "blayout=slanted"),
    "column order": ("blayout=row_major", "blayout=col_major"),
    "unknown fractal": ("fractal=512", "fractal=513"),
    "unknown pad": ("pad=0", "pad=9"),
    "function defined twice": ("  func.func @", "  func.func @d() { return }\n" * 2 + "  func.func @"),
    "undefined value": ("make_tensor_view %x,", "make_tensor_view %nowhere,"),
    "value defined twice": ("%c1 = arith", "%c0 = arith"),
    "no offsets": ("offsets = [%c", "sizes = [%c"),
    "rank mismatch": ("strides = [", "strides = [%c1, "),
    "no closing angle": ("!pto.ptr<f32>", "!pto.ptr<f32"),
    "no outs": (" outs(", " out("),
    "no colon": (" = pto.alloc_tile", " pto.alloc_tile"),
    "text for a number": ("arith.constant 1 ", 'arith.constant "one" '),
    "return of nothing": ("    return", "    return %c0"),
    "stray brace": ("    return", "    }\n    return"),
    "stray characters": ("    return", "    @@@ ???\n    return"),
    "control characters": ("    return", "    \x00\x07\n    return"),
}


def cut_programs() -> Iterator[tuple[str, str]]:
    for name in SMALL:
        text = example(name).path.read_text().rstrip()
        start = text.index("module")
        for i in range(CUTS):
            yield f"{name}-cut-{i}", text[: start + 1 + (len(text) - start - 2) * i // CUTS]


def damaged_programs() -> Iterator[tuple[str, str]]:
    for name in SMALL:
        text = example(name).path.read_text()
        for damage, (old, new) in DAMAGE.items():
            assert old in text, (name, damage)
            yield f"{name}-{damage}", text.replace(old, new)


PROGRAMS = dict([*cut_programs(), *damaged_programs()])


def test_there_are_hundreds() -> None:
    assert len(PROGRAMS) >= 250


@pytest.mark.variants(90)
@pytest.mark.parametrize("name", PROGRAMS)
def test_damaged_programs_are_rejected_with_a_place(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "damaged.pto"
    path.write_text(PROGRAMS[name])
    status = main(["verify", str(path)])
    printed = "".join(capsys.readouterr())
    assert status == 1, printed
    assert "damaged.pto:" in printed and "error: " in printed and "Traceback" not in printed
