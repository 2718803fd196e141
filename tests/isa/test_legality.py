"""Accepted and rejected operations generated from the declarations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pto_jax.isa import Constraint, Instruction, instructions
from pto_jax.isa.samples import Sample, legal_samples, to_program
from pto_jax.profiles import PROFILE_NAMES, ProfileName, profile
from pto_jax.verifier import verify_program

TABLE = instructions()
NAMES = sorted(TABLE)


def samples(name: str, profile_name: str) -> list[Sample]:
    return list(legal_samples(TABLE[name], profile(profile_name)))


def constraints(instruction: Instruction, profile_name: ProfileName) -> list[Constraint]:
    return [c for c in instruction.constraints if profile_name in c.profiles and c.breaks is not None]


def broken(sample: Sample, constraint: Constraint, profile_name: str) -> Sample | None:
    types, attrs = dict(sample.types), dict(sample.attrs)
    assert constraint.breaks is not None
    if not constraint.breaks(types, attrs, profile(profile_name)):
        return None
    assert (types, attrs) != (dict(sample.types), dict(sample.attrs))
    return replace(sample, types=types, attrs=attrs)


@pytest.mark.parametrize("profile_name", PROFILE_NAMES)
@pytest.mark.parametrize("name", NAMES)
def test_samples_are_accepted(name: str, profile_name: str) -> None:
    found = samples(name, profile_name)
    assert bool(found) == exists(TABLE[name], profile_name)
    for sample in found:
        errors = [
            d for d in verify_program(to_program(sample), profile(profile_name)) if d.severity == "error"
        ]
        assert not errors, (sample.types, errors)


def exists(instruction: Instruction, profile_name: str) -> bool:
    """Whether a profile has the instruction: its type table, where there is one, has a row."""
    return not instruction.types or bool(instruction.types.get(profile(profile_name).name))


@pytest.mark.parametrize("name", [n for n in NAMES if not all(exists(TABLE[n], p) for p in PROFILE_NAMES)])
def test_what_a_profile_does_not_have_is_rejected_there(name: str) -> None:
    legal = [s for p in PROFILE_NAMES for s in samples(name, p)]
    for profile_name in PROFILE_NAMES:
        if not exists(TABLE[name], profile_name):
            for sample in legal:
                assert "types" in {d.rule for d in verify_program(to_program(sample), profile(profile_name))}


@pytest.mark.parametrize("profile_name", PROFILE_NAMES)
@pytest.mark.parametrize("name", NAMES)
def test_every_constraint_rejects_what_breaks_it(name: str, profile_name: ProfileName) -> None:
    for constraint in constraints(TABLE[name], profile_name) if exists(TABLE[name], profile_name) else ():
        cases = [
            b for s in samples(name, profile_name) if (b := broken(s, constraint, profile_name)) is not None
        ]
        if not cases:
            assert not applies(TABLE[name], constraint, profile_name), constraint.rule
            continue
        assert any(rejected(case, constraint, profile_name) for case in cases), (
            constraint.rule,
            cases[0].types,
        )


def rejected(case: Sample, constraint: Constraint, profile_name: str) -> bool:
    """Whether the verifier reports this rule, and no error of another one."""
    found = verify_program(to_program(case), profile(profile_name))
    errors = {d.rule for d in found if d.severity == "error"}
    return (constraint.rule, constraint.severity) in {(d.rule, d.severity) for d in found} and errors <= {
        constraint.rule
    }


def applies(instruction: Instruction, constraint: Constraint, profile_name: ProfileName) -> bool:
    """Whether an operation can break the rule at all: every type that exists on cpu_sim and a2a3 moves,
    and the simulator's stores convert between sizes."""
    moves = instruction.name in ("tload", "tstore", "tmov") and constraint.rule == "types"
    converts = (instruction.name, constraint.rule) == ("tstore", "element-size") and profile_name == "cpu_sim"
    return not (converts or (moves and profile_name != "a5"))


def test_messages_say_what_is_allowed() -> None:
    for instruction in TABLE.values():
        for constraint in instruction.constraints:
            assert constraint.allowed, (instruction.name, constraint.rule)
            assert constraint.source, (instruction.name, constraint.rule)


#: Rules on constants and lists of operands, whose rejected programs are written out in tests/verify.
WRITTEN_OUT = {
    "address-aligned", "address-range", "types-equal", "valid-operands", "valid-range", "valid-dynamic",
    "ranks", "extents", "window", "view-layout", "dimension", "profile",
}  # fmt: skip


def test_every_constraint_has_a_rejected_program() -> None:
    missing = {
        (i.name, c.rule)
        for i in TABLE.values()
        for c in i.constraints
        if c.breaks is None and not (i.cls == "sync_config" and c.rule in WRITTEN_OUT)
    }
    assert not missing
