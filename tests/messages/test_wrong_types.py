"""Values of wrong types where a program, a file, a number or an array belongs: one error that names them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax
import pto_jax.nn
import pto_jax.runner

#: Without their types, which exclude these calls.
pto: Any = pto_jax
nn: Any = pto_jax.nn
runner: Any = pto_jax.runner
PROGRAM = pto.parse("%z = tadd %x, %y : !pto.tile<f32, 4, 8>")
X = np.ones((4, 8), np.float32)

#: What is called, and what the message says.
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    f"{name} of {what}": (partial(f, value), message)
    for name, f in (
        ("compile", pto.compile),
        ("verify", pto.verify),
        ("races", pto.races),
        ("cost", pto.cost),
        ("sanitize", pto.sanitize),
    )
    for what, value, message in (
        ("a file", Path("k.pto"), "program: got the name of a file, 'k.pto'; allowed: a program"),
        ("nothing", None, "program: got None"),
        ("a list", [PROGRAM], "program: got a list"),
        ("an array", X, "program: got an ndarray"),
        ("a kernel", pto.compile(PROGRAM, "a5"), "try: kernel.program"),
    )
}
WRONG |= {
    "parse of a file": (lambda: pto.parse(Path("k.pto")), 'try: pto.load("k.pto")'),
    "parse of bytes": (lambda: pto.parse(b"x"), "parse: got a bytes; allowed: text; try: text.decode()"),
    "parse of a program": (lambda: pto.parse(PROGRAM), "parse: got a Program"),
    "load of a number": (lambda: pto.load(3), "path: got an int"),
    "scalars in a list": (
        lambda: pto.compile(PROGRAM, "a5", scalars=[1]),
        'scalars: got a list; allowed: numbers by the names of arguments; try: scalars={"rows": 200}',
    ),
    "checks of text": (
        lambda: pto.compile(PROGRAM, "a5", checks="all"),
        "checks: got 'all'; allowed: None, False, True",
    ),
    "an entry of a list": (lambda: pto.compile(PROGRAM, "a5", entry=[]), "entry: got []"),
    "numerics of an array": (
        lambda: pto.compile(PROGRAM, "a5", numerics=X),
        "allowed: exact, fast",
    ),
    "platforms of text": (
        lambda: pto.compile(PROGRAM, "a5").export(platforms="cuda"),
        "platforms: got 'cuda'; allowed: names of platforms",
    ),
    "inputs of races in a list": (
        lambda: pto.races(PROGRAM, inputs=[X]),
        "inputs: got a list",
    ),
    "blocks of races as text": (
        lambda: pto.races(PROGRAM, grid="2"),
        "grid: got '2'; allowed: a number from 1 up",
    ),
    "an axis of text": (lambda: nn.quantise(X, axis="rows"), "axis: got 'rows'; allowed: a number"),
    "axes that are one": (
        lambda: nn.quantise(X, axis=(1, -1)),
        "axis: got (1, -1); allowed: each axis once",
    ),
    "an axis of codes as text": (
        lambda: nn.dequantise(*nn.quantise(X, format="mx"), axis="rows"),
        "dequantise: axis: got 'rows'; allowed: a number",
    ),
    "a percentile of text": (
        lambda: nn.calibrate(X, percentile="99"),
        "percentile: got '99'; allowed: 0 to 100",
    ),
    "a format in a list": (lambda: nn.quantise(X, format=["int8"]), "format: got ['int8']"),
    "a layer of programs": (lambda: nn.linear([PROGRAM], X), "linear: x: got a list"),
    "weights in a list": (lambda: nn.save_weights("w", [X]), "save_weights: got a list"),
    "a file of weights as a number": (lambda: nn.load_weights(3), "path: got an int"),
    "a step in a number": (lambda: runner.read_step(3), "path: got an int"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_value_of_a_wrong_type_is_one_clear_error(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(pto_jax.PtoError) as raised:
        call()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
