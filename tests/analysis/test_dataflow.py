"""The solvers by themselves: a problem that only notes which operations an execution may have met."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pto_jax.analysis.dataflow import Forward, raise_values
from pto_jax.api import parse
from pto_jax.ir import Op, Value


class Met:
    """The numbers of the constants on every path so far, and how often one was met at most."""

    def __init__(self, always: frozenset[int] = frozenset()) -> None:
        self.always = always

    def fork(self, defined: Sequence[Value] = ()) -> Met:
        return Met(self.always)

    def adopt(self, path: Met) -> None:
        self.always = path.always

    def weaken(self, other: Met) -> bool:
        before, self.always = self.always, self.always & other.always
        return self.always != before

    def kept(self) -> Met:
        return self.fork()


class Problem(Forward[Met]):
    """Which constants are met on every way to an operation."""

    def __init__(self, once: bool = False) -> None:
        super().__init__()
        self.once = once
        self.passes: dict[int, int] = {}
        self.before: dict[int, frozenset[int]] = {}

    def transfer(self, op: Op, state: Met) -> None:
        number = op.attrs.get("value")
        if isinstance(number, int):
            self.passes[number] = self.passes.get(number, 0) + 1
            self.before[number] = state.always
            state.always |= {number}

    def at_least_once(self, op: Op, state: Met) -> bool:
        return self.once


def k(number: int) -> str:
    return f"%k{number} = arith.constant {number} : index\n"


def solved(body: str, once: bool = False) -> Problem:
    """The solution for a function with some constants in its regions."""
    text = f"func.func @f(%n: index, %c: i1) {{\n{body}return\n}}"
    problem = Problem(once)
    problem.block(parse(text).functions[0].body, Met())
    return problem


def loop(body: str, name: str = "i") -> str:
    return f"scf.for %{name} = %n to %n step %n {{\n{body}}}\n"


def test_operations_are_met_in_order() -> None:
    assert solved(k(1) + k(2) + k(3)).before[3] == {1, 2}


@pytest.mark.parametrize(
    ("body", "met"),
    [
        (f"scf.if %c {{\n{k(1)}}}\n", set()),
        (f"scf.if %c {{\n{k(1)}}} else {{\n{k(2)}}}\n", set()),
        (f"scf.execute_region {{\n{k(1)}scf.yield\n}}\n", {1}),
        (f"section.vector {{\n{k(1)}}}\n", {1}),
        (loop(k(1)), set()),
        (f"scf.while : () -> () {{\n{k(1)}scf.condition(%c)\n}} do {{\n{k(2)}scf.yield\n}}\n", {1}),
    ],
    ids=["if", "if else", "region", "section", "for", "while"],
)
def test_what_holds_behind_regions_holds_on_every_path(body: str, met: set[int]) -> None:
    assert solved(body + k(9)).before[9] == met


def test_both_branches_begin_with_what_is_before_them() -> None:
    found = solved(k(1) + f"scf.if %c {{\n{k(2)}}} else {{\n{k(3)}}}\n").before
    assert found[2] == found[3] == {1}


def test_a_loop_that_certainly_executes_leaves_what_its_body_does() -> None:
    assert solved(loop(k(1)) + k(9), once=True).before[9] == {1}


def test_the_last_pass_over_a_loop_is_one_with_what_holds_on_every_trip() -> None:
    class Alternating(Problem):
        """The second constant takes away what the first one noted, so that a second pass knows less."""

        def transfer(self, op: Op, state: Met) -> None:
            super().transfer(op, state)
            if op.attrs.get("value") == 2:
                state.always -= {1}

    problem = Alternating()
    text = f"func.func @f(%n: index) {{\n{k(1)}{loop(k(3) + k(2))}return\n}}"
    problem.block(parse(text).functions[0].body, Met())
    assert problem.before[3] == set() and problem.passes[3] == 2


def test_passes_grow_with_the_depth_of_a_nest_and_not_exponentially() -> None:
    class Forgetting(Problem):
        """The innermost operation takes away one constant after the other."""

        def transfer(self, op: Op, state: Met) -> None:
            super().transfer(op, state)
            if op.attrs.get("value") == 99:
                state.always -= {max(state.always - {99}, default=0)}

    depth = 12
    body = k(99)
    for level in range(depth):
        body = loop(body, f"i{level}")
    problem = Forgetting()
    text = f"func.func @f(%n: index) {{\n{''.join(map(k, range(1, 4)))}{body}return\n}}"
    problem.block(parse(text).functions[0].body, Met())
    assert problem.before[99] == set()
    assert problem.passes[99] < 10 * depth


def test_values_rise_until_none_changes() -> None:
    """The longest way from the first node, against the order in which the edges are listed."""
    length = dict.fromkeys("abcd", 0)
    edges = [("c", "d"), ("b", "c"), ("a", "b"), ("a", "d")]
    seen = []

    def transfer(edge: tuple[str, str]) -> bool:
        seen.append(edge)
        source, target = edge
        before, length[target] = length[target], max(length[target], length[source] + 1)
        return length[target] != before

    raise_values(edges, transfer)
    assert length == {"a": 0, "b": 1, "c": 2, "d": 3} and len(seen) == 16
