"""The rules of an instruction, or its handler, stand in the files of its family in every package."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from pto_jax import isa, lowering, oracle, sanitizer
from pto_jax.interpreter import HANDLERS, executes
from pto_jax.interpreter.interpreter import MICRO
from pto_jax.oracle.step import RULES as ORACLE_RULES, rule as oracle_rule
from pto_jax.sanitizer import machine as machine
from pto_jax.sanitizer.step import SHADOW_RULES, shadow_rule

Table = Mapping[str, Callable[..., Any]]

#: Where the interpreter has what is no instruction: structured control flow, calls, scalar arithmetic.
CONTROL_FLOW = ("control_flow",)
#: Families whose name no class name begins with.
FAMILY = {
    **dict.fromkeys(("sync_handles", "sync_events"), "sync_config"),
    **dict.fromkeys(("multi_tiles", "local_storage", "hash_table"), "views"),
    **dict.fromkeys(("queries", "memory_scalar"), "views"),
    "tile_scalar": "elementwise",
    "fixpipe": "matrix",
}


def family(cls: str) -> str:
    """The family of a class; a large one is cut into files whose names begin with it."""
    return FAMILY.get(cls) or next(f for f in isa.FAMILIES if cls == f or cls.startswith(f"{f}_"))


@dataclass(frozen=True)
class Rooms:
    """The class file of every declared instruction, the executable ones, and the tables of the rooms."""

    declared: Mapping[str, str]
    executable: frozenset[str]
    rules: Mapping[str, Table]
    handlers: Table


def rooms() -> Rooms:
    """What the tree has."""
    found = {cls: import_module(f"pto_jax.isa.{cls}").INSTRUCTIONS for cls in isa.CLASSES}
    return Rooms(
        {i.name: cls for cls, instructions in found.items() for i in instructions},
        frozenset(i.name for i in isa.instructions().values() if i.executable),
        {
            "lowering": {**lowering.RULES, **lowering.MEMORY_RULES},
            "oracle": dict(ORACLE_RULES),
            "sanitizer": dict(SHADOW_RULES),
        },
        dict(HANDLERS),
    )


def violations(tree: Rooms) -> list[str]:
    """One line for every rule or handler that is missing, superfluous or in a file of another name."""
    found = []
    for name, cls in tree.declared.items():
        if name in tree.handlers:
            found += _misplaced(name, "interpreter", cls, tree.handlers)
            found += [f"{name} has a handler and a rule in {r}" for r, t in tree.rules.items() if name in t]
        elif name in tree.executable:
            for room, table in tree.rules.items():
                found += _misplaced(name, room, cls, table)
    called = {name for name in tree.executable if name not in tree.handlers}
    for room, table in tree.rules.items():
        found += [f"{name} has a rule in {room} that nobody calls" for name in sorted(table.keys() - called)]
    for name in tree.handlers.keys() - tree.executable:
        places = [f"pto_jax.interpreter.{file}" for file in CONTROL_FLOW]
        if name == MICRO or name in isa.micro_operations():
            continue
        if name in tree.declared or tree.handlers[name].__module__ not in places:
            found.append(f"{name} has a handler and is no executable instruction")
    return found


def _misplaced(name: str, room: str, cls: str, table: Table) -> list[str]:
    if name not in table:
        return [f"{name} has nothing in {room}"]
    where, expected = table[name].__module__, f"pto_jax.{room}.{family(cls)}"
    files = (expected, *(f"pto_jax.{room}.{f}" for f in isa.FAMILIES if f.startswith(f"{family(cls)}_")))
    return [] if where in files else [f"{name} stands in {where}, declared in {cls}"]


def test_every_executable_instruction_stands_in_the_files_of_its_family() -> None:
    tree = rooms()
    assert len(tree.executable) > 150 and tree.executable <= tree.declared.keys()
    assert not violations(tree), "\n".join(violations(tree))


def test_the_packages_have_the_same_instructions_and_families() -> None:
    tree = rooms()
    first, *others = (table.keys() for table in tree.rules.values())
    assert all(other == first for other in others)
    expected = {family(tree.declared[name]) for name in first}
    for package in (lowering, oracle, sanitizer):
        files = {f for f in isa.FAMILIES if isinstance(vars(package).get(f), ModuleType)}
        assert files >= expected and {family(f) for f in files} == expected


def _elsewhere(*args: Any) -> Any:
    """Stands for a rule or a handler in a file that is no class file."""


@pytest.mark.parametrize("room", ["lowering", "oracle", "sanitizer"])
def test_a_rule_in_another_file_is_a_violation(room: str) -> None:
    tree = rooms()
    rules = {**tree.rules, room: {**tree.rules[room], "tadd": _elsewhere}}
    assert violations(replace(tree, rules=rules)) == [f"tadd stands in {__name__}, declared in elementwise"]
    swapped = {**tree.rules[room], "tadd": tree.rules[room]["tload"]}
    assert violations(replace(tree, rules={**tree.rules, room: swapped})) == [
        f"tadd stands in pto_jax.{room}.memory, declared in elementwise"
    ]


@pytest.mark.parametrize("room", ["lowering", "oracle", "sanitizer"])
def test_a_missing_or_superfluous_rule_is_a_violation(room: str) -> None:
    tree = rooms()
    table = {name: rule for name, rule in tree.rules[room].items() if name != "tload"}
    assert violations(replace(tree, rules={**tree.rules, room: table})) == [f"tload has nothing in {room}"]
    table = {**tree.rules[room], "tnothing": _elsewhere}
    assert violations(replace(tree, rules={**tree.rules, room: table})) == [
        f"tnothing has a rule in {room} that nobody calls"
    ]


def test_a_misplaced_handler_is_a_violation() -> None:
    tree = rooms()
    handlers = {**tree.handlers, "alloc_tile": tree.handlers["treshape"]}
    assert violations(replace(tree, handlers=handlers)) == [
        "alloc_tile stands in pto_jax.interpreter.reinterpret, declared in views"
    ]
    handlers = {**tree.handlers, "tadd": _elsewhere, "scf.nothing": _elsewhere}
    found = "\n".join(violations(replace(tree, handlers=handlers)))
    assert "tadd has a handler and a rule in lowering" in found
    assert "scf.nothing has a handler and is no executable instruction" in found


def test_a_rule_knows_the_file_it_is_registered_from(monkeypatch: pytest.MonkeyPatch) -> None:
    from pto_jax.lowering.region import elementwise, numeric
    from pto_jax.lowering.rules import memory_rule, rule

    tables: list[tuple[dict[str, Any], Any]] = [
        (lowering.RULES, rule),
        (lowering.RULES, elementwise),
        (lowering.RULES, numeric),
        (lowering.MEMORY_RULES, memory_rule),
        (ORACLE_RULES, oracle_rule),
        (SHADOW_RULES, shadow_rule),
        (HANDLERS, executes),
    ]
    for table, register in tables:
        with monkeypatch.context() as patch:
            patch.setitem(table, "tplanted", None)
            patch.delitem(table, "tplanted")
            register("tplanted")(_elsewhere)
            assert table["tplanted"].__module__ == __name__
            with pytest.raises(RuntimeError, match="tplanted"):
                register("tplanted")(_elsewhere)
            assert violations(rooms())
