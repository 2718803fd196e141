"""Program texts that the fuzzer of the parser starts from, by number.

Shipped examples, one program per sample of every declaration, and generated programs, in every spelling;
with folders also their ``.pto`` files, and the program texts among the string constants of their Python
files. Texts are made when they are asked for.
"""

import ast
import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Literal

from pto_jax.examples import EXAMPLES
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import generate
from pto_jax.ir import Program
from pto_jax.isa import instructions
from pto_jax.isa.samples.operations import legal_samples, to_program
from pto_jax.profiles import PROFILES
from pto_jax.text import print_program

Form = Literal["as", "ssa", "dps"]
SPELLINGS: tuple[Form, ...] = ("as", "ssa", "dps")
#: Spellings to print in; None keeps the one each instruction was read in.
FORMS: tuple[Form | None, ...] = (None, *SPELLINGS)
#: Longer texts are left out: reading them takes a share of the time limit by itself.
MAX_TEXT = 48_000
_SEED = 0


class Corpus:
    """Texts by number, the same on every machine (as far as the folders are).

    >>> corpus = Corpus(generated=10)
    >>> "pto.tload" in corpus[0], len(corpus) > 500
    (True, True)
    """

    def __init__(self, generated: int = 1000, folders: Sequence[Path] = ()) -> None:
        self._made: list[Callable[[], str]] = [*_examples(), *_samples(), *_generated(generated)]
        self._made += [partial(str, text) for folder in folders for text in _found(folder)]

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, number: int) -> str:
        return self._made[number]()

    def choose(self, rng: random.Random) -> str:
        """One of the texts; each kind of source has a fair share."""
        return self[rng.randrange(min(len(self), 60) if rng.random() < 0.25 else len(self))]


def _examples() -> list[Callable[[], str]]:
    return [partial(_example, name, form) for name in EXAMPLES for form in FORMS]


@cache
def _example(name: str, form: Form | None) -> str:
    from pto_jax.text import parse

    text = EXAMPLES[name].path.read_text(encoding="utf-8")
    return text if form is None else print_program(parse(text), form)


def _samples() -> list[Callable[[], str]]:
    return [partial(_sample, name, form) for name in instructions() for form in SPELLINGS]


@cache
def _sample(name: str, form: Form) -> str:
    """One legal operation of an instruction, the sample with the most operands."""
    samples = [s for p in PROFILES.values() for s in legal_samples(instructions()[name], p)]
    return (
        print_program(to_program(max(samples, key=lambda s: len(s.types))), form) if samples else f"{name} %a"
    )


def _generated(count: int) -> list[Callable[[], str]]:
    return [partial(_printed, index, form) for index in range(count) for form in SPELLINGS]


def _printed(index: int, form: Form) -> str:
    text = print_program(_program(index), form)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT]


@cache
def _program(index: int) -> Program:
    presets = list(PRESETS.values())
    return generate(_SEED, index, presets[index % len(presets)]).program


def _found(folder: Path) -> list[str]:
    """The program texts of a folder, in the order of their files."""
    texts: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".pto", ".py") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        texts += [text] if path.suffix == ".pto" else _constants(text)
    return [text for text in texts if len(text) <= MAX_TEXT]


def _constants(source: str) -> list[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    strings = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return [text for text in strings if "%" in text and (" = " in text or "pto." in text)]
