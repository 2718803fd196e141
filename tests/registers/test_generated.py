"""Random kernels of micro-operations, written from the declarations; equal seeds give equal texts.

The engine, alone and in a batch, and the interpreter give equal bits.
"""

import random
import re
import warnings
from collections.abc import Mapping

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.ir import dtype
from pto_jax.isa import registers_convert
from pto_jax.isa.micro import MicroOperation
from pto_jax.oracle.interpret import run
from pto_jax.text import print_program

from .calls import data
from .expansion import Micro, Tile, program, scope, words

ROWS = 6
_WIDTH = re.compile(r"m(\d+)")
TILES: Mapping[str, Tile] = {"a": Tile("i32", ROWS, 64, ROWS, 64), "d": Tile("i32", ROWS, 64, ROWS, 64)}
#: How element types that have a sign are spelled in signatures of operations.
SPELLED = {"i8": "si8", "i16": "si16", "i32": "si32", "i64": "si64",
           "u8": "ui8", "u16": "ui16", "u32": "ui32", "u64": "ui64",
           "f8e4m3": "f8E4M3FN", "f8e5m2": "f8E5M2", "hif8": "!pto.hif8",
           "f4e2m1_pair": "!pto.f4E2M1x2", "f4e1m2_pair": "!pto.f4E1M2x2"}  # fmt: skip
#: Operations whose operands are no registers and masks alone, or whose types are not those of a signature.
APART = ("vci", "vbr", "vdup", "vsunpack", "vzunpack", "vcvt", "vmulscvt", "vexpdif", "vbitcast", "vpack",
         "vcadd", "dhistv2", "chistv2", "plt", "pltm", "vselr", "vshl", "vshr")  # fmt: skip


def candidates() -> list[MicroOperation]:
    """Operations on registers and masks of one element type, and on scalars of it."""
    found = []
    for operation in isa.micro_operations().values():
        plain = operation.kind == "register" and "." not in operation.name
        if plain and operation.name.split("_b")[0] not in APART:
            found.append(operation)
    return found


class Generator:
    """Writes one scope; ``masks`` and ``registers`` are what has been made, by width and by type."""

    def __init__(self, seed: int, out: Micro) -> None:
        self.random = random.Random(seed)
        self.out = out
        self.registers: list[tuple[str, str]] = []
        self.masks: dict[int, list[str]] = {8: [], 16: [], 32: []}

    def register(self, t: str) -> str:
        """A register of an element type: one that there is, by its bits."""
        name, given = self.random.choice(self.registers)
        if given == t:
            return name
        return str(self.out.op(f"vbitcast {name}", f"{vreg(given)} -> {vreg(t)}"))

    def mask(self, bits: int) -> str:
        """A mask of a width: one that there is, or of a pattern."""
        if self.masks[bits] and self.random.random() < 0.6:
            return self.random.choice(self.masks[bits])
        pattern = self.random.choice(("ALL", "H", "VL3", "M3", "VL64", "Q"))
        made = str(self.out.op(f'pset_b{bits} "PAT_{pattern}"', f"!pto.mask<b{bits}>"))
        self.masks[bits].append(made)
        return made

    def scalar(self, t: str) -> str:
        if dtype(t).is_float:
            return self.out.constant(self.random.choice(("1.5", "-0.25", "3.0e+01")), t)
        return self.out.constant(self.random.randrange(-3, 9), f"i{dtype(t).bits}")

    def step(self, operation: MicroOperation) -> None:
        """One operation with operands that fit it."""
        letters = {
            a: SPELLED.get(t, t)
            for a, names in operation.elements.items()
            for t in [self.random.choice(names)]
        }
        width = (
            int(found[1]) if (found := _WIDTH.search(operation.types)) else self.random.choice((8, 16, 32))
        )
        before, _, after = operation.types.partition("->")
        shown, types = [], []
        for word, kind in zip(operation.words[0], before.split(), strict=True):
            if word.startswith('"'):
                shown.append(f'"{self.random.choice(operation.choices[word[1:-1]])}"')
                continue
            value, t = self.operand(kind, letters, width)
            shown.append(value)
            types.append(t)
        results = [self.type_of(kind, letters, width) for kind in after.split()]
        arrow = f"{', '.join(types)} -> " if types else ""
        made = self.out.op(f"{operation.name} {', '.join(shown)}", arrow + ", ".join(results), len(results))
        for name, kind, t in zip([made] if len(results) == 1 else made, after.split(), results, strict=True):
            self.keep(name, kind, letters, t)

    def operand(self, kind: str, letters: Mapping[str, str], width: int) -> tuple[str, str]:
        if kind[0] == "s":
            t = letters[kind[1:]]
            return self.scalar(t), t if dtype(t).is_float else f"i{dtype(t).bits}"
        if kind == "i16":
            return self.out.constant(self.random.randrange(8), "i16"), "i16"
        t = self.type_of(kind, letters, width)
        if kind in letters:
            return self.register(letters[kind]), t
        return self.mask(int(t[t.index("<b") + 2 : -1])), t

    def type_of(self, kind: str, letters: Mapping[str, str], width: int) -> str:
        if kind in letters:
            return vreg(letters[kind])
        if kind == "M":
            return f"!pto.mask<b{min(dtype(plain(letters['T'])).word_bits, 32)}>"
        return f"!pto.mask<b{width}>"

    def keep(self, name: str, kind: str, letters: Mapping[str, str], t: str) -> None:
        if kind in letters:
            self.registers.append((name, letters[kind]))
        else:
            self.masks[int(t[t.index("<b") + 2 : -1])].append(name)

    def conversion(self) -> None:
        """A conversion of the table with all of its attributes."""
        (s, t), pair = self.random.choice(sorted(registers_convert.PAIRS.items()))
        source, target = SPELLED.get(s, s), SPELLED.get(t, t)
        parts = {1: (), 2: ("EVEN", "ODD"), 4: ("P0", "P1", "P2", "P3")}[pair.parts]
        given = {
            "rnd": self.random.choice(pair.letters) if pair.letters else "",
            "sat": self.random.choice(("SAT", "NOSAT")) if pair.saturates else "",
            "part": self.random.choice(parts) if parts else "",
        }
        how = ", ".join(f'{k} = "{v}"' for k, v in given.items() if v)
        bits = min(dtype(plain(source)).word_bits, 32)
        types = f"{vreg(source)}, !pto.mask<b{bits}> -> {vreg(target)}"
        made = self.out.op(
            f"vcvt {self.register(source)}, {self.mask(bits)}", types, attributes=f" {{{how}}}" if how else ""
        )
        self.registers.append((made, target))


def plain(t: str) -> str:
    """An element type without the prefix of its dialect."""
    return t.removeprefix("!pto.")


def vreg(t: str) -> str:
    bits = 8 if t.startswith("!pto.f4") else dtype(plain(t)).word_bits
    return f"!pto.vreg<{2048 // bits}x{t}>"


def kernel(seed: int, steps: int = 24) -> str:
    """A kernel that loads registers, computes some steps, and stores the registers that it made last."""

    def write(m: Micro) -> None:
        generator = Generator(seed, m)
        for row in range(ROWS):
            generator.registers.append((m.load("a", row, 0), "i32"))
        operations = candidates()
        for _ in range(steps):
            if generator.random.random() < 0.2:
                generator.conversion()
            else:
                generator.step(generator.random.choice(operations))
        every = m.op('pset_b32 "PAT_ALL"', "!pto.mask<b32>")
        for row, (name, t) in enumerate(generator.registers[-ROWS:]):
            value = name if t == "i32" else m.op(f"vbitcast {name}", f"{vreg(t)} -> {vreg('i32')}")
            m.store(value, "d", row, 0, every)

    return program(TILES, 1, scope(TILES, write))


def agree(seed: int) -> None:
    text = kernel(seed)
    assert text == kernel(seed)
    inputs = [data(pto.dtype("i32"), ROWS * 64, (seed, k)).reshape(-1, 64).view(np.int32) for k in range(3)]
    before = np.zeros((ROWS, 64), np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.PtoWarning)
        program = pto.parse(text)
        compiled = pto.compile(program, profile="a5")
        expected = [run(program, {"a_g": a, "d_g": before}, profile="a5")["d_g"] for a in inputs]
        got = jax.vmap(lambda a: compiled(a, before)["d_g"])(np.stack(inputs))
        alone = compiled(inputs[0], before)["d_g"]
    np.testing.assert_array_equal(words(got), words(np.stack(expected)), text)
    np.testing.assert_array_equal(words(alone), words(expected[0]), text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_generated_kernel_gives_equal_bits_everywhere(seed: int) -> None:
    agree(seed)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 42))
def test_generated_kernels_give_equal_bits_everywhere(seed: int) -> None:
    agree(seed)


def test_generated_kernels_print_as_they_are_read() -> None:
    for seed in range(20):
        program = pto.parse(kernel(seed))
        shown = print_program(program)
        assert print_program(pto.parse(shown)) == shown
