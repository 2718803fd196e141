"""Calls and loops in each other, whose executions are exponentially many; targets that nobody knows."""

from collections.abc import Callable

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cost import cost
from pto_jax.errors import Diagnostic
from pto_jax.oracle.interpret import run as interpret
from pto_jax.text import print_program

X = "%x: !pto.ptr<f32>"
STORE = "%v = arith.constant 1.0 : f32\npto.store_scalar %v, %x[%c0] : !pto.ptr<f32>, f32\n"
BOUNDS = "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%c2 = arith.constant {} : index\n"


def call(name: str) -> str:
    return f"func.call @{name}(%x) : (!pto.ptr<f32>) -> ()\n"


def loop(body: str, counter: str = "%i") -> str:
    return f"scf.for {counter} = %c0 to %c2 step %c1 {{\n{body}}}\n"


def tree(depth: int, body: Callable[[str], str], trips: int = 2) -> str:
    """Functions of which each calls the next one."""
    text = ""
    for i in range(depth + 1):
        head = f"@f{i}({X}) attributes {{pto.entry}}" if i == 0 else f"private @f{i}({X})"
        inside = body(f"f{i + 1}") if i < depth else STORE
        text += f"func.func {head} {{\n{BOUNDS.format(trips)}{inside}return\n}}\n"
    return f"module {{\n{text}}}"


def nest(depth: int, trips: int = 2) -> str:
    body = STORE
    for i in range(depth):
        body = loop(body, f"%i{i}")
    return f"func.func @f({X}) {{\n{BOUNDS.format(trips)}{body}return\n}}"


MANY = {
    "calls": tree(40, lambda name: call(name) * 2),
    "calls in branches": tree(
        40, lambda n: f"%q = arith.cmpi eq, %c0, %c1 : index\nscf.if %q {{\n{call(n)}}}\n{call(n)}"
    ),
    "loops": nest(40),
    "loops in called functions": tree(40, lambda name: loop(call(name))),
    "long loops": nest(3, 100_000),
}


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", MANY)
def test_exponentially_many_calls_and_trips_are_one_error(name: str) -> None:
    program = pto.parse(MANY[name])
    (found,) = [d for d in pto.verify(program, level=3) if d.severity == "error"]
    assert found.rule == "limits" and "allowed: " in found.message
    assert ("calls" in found.message) == name.startswith("calls")
    with pytest.raises(pto.VerifyError, match="allowed: "):
        pto.compile(program)
    assert print_program(program)


def test_costs_and_results_of_exponentially_many_calls_are_one_error() -> None:
    with pytest.raises(pto.VerifyError, match="makes 2199023255550 calls; allowed: 10000"):
        cost(pto.parse(MANY["calls"]))
    with pytest.raises(pto.VerifyError, match="makes 2199023255550 calls; allowed: 10000"):
        interpret(pto.parse(MANY["calls"]), [np.zeros(1, np.float32)])


def test_calls_and_trips_of_usual_numbers_are_accepted() -> None:
    for text in (
        tree(8, lambda name: call(name) * 2),
        nest(5, 64),
        tree(5, lambda name: loop(call(name)), 8),
    ):
        assert [d for d in pto.verify(pto.parse(text)) if d.severity == "error"] == []


def _target(attributes: str, profile: str | None = None) -> list[Diagnostic]:
    text = f"module attributes {{{attributes}}} {{\nfunc.func @f({X}) {{\nreturn\n}}\n}}"
    return pto.verify(pto.parse(text), profile)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attributes", "profile", "message"),
    [
        (
            'pto.target_arch = "a6"',
            None,
            'unknown pto.target_arch = "a6", so that profile a2a3 is used; allowed: a2,',
        ),
        ('pto.target_arch = "banana"', "a5", "so that profile a5 is used"),
        ("pto.target_arch = 5 : i32", None, "unknown pto.target_arch = 5"),
        ('"pto.device-spec" = "Ascend1"', None, "allowed: names that begin with Ascend910B"),
    ],
)
def test_an_unknown_target_is_a_warning_with_what_is_used(
    attributes: str, profile: str | None, message: str
) -> None:
    (found,) = _target(attributes, profile)
    assert (found.severity, found.rule) == ("warning", "target") and message in found.message


def test_targets_that_are_known_give_no_warning() -> None:
    for name in ("a2", "a2a3", "a3", "a5", "A5", "cpu_sim"):
        assert _target(f'pto.target_arch = "{name}"') == []
    for name in ("Ascend910B1", "Ascend910_9391", "Ascend910_9599", "Ascend950"):
        assert _target(f'"pto.device-spec" = "{name}"') == []


def test_the_case_of_an_architecture_does_not_matter() -> None:
    program = pto.parse(
        f'module attributes {{pto.target_arch = "A5"}} {{\nfunc.func @f({X}) {{\nreturn\n}}\n}}'
    )
    assert pto.compile(program).profile.name == "a5"
