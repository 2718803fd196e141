"""Generated programs: the same everywhere, legal, and with everything in them that can be executed."""

import hashlib
import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.analysis.resolve import resolve
from pto_jax.cli.fuzz_plan import device_presets
from pto_jax.generate import selection
from pto_jax.generate.options import OUTPUT, PRESETS, STRAIGHT
from pto_jax.generate.programs import VERSION, Case, cases, generate
from pto_jax.generate.values import RECIPES, Recipe, words
from pto_jax.ir import TILE_DTYPES, Pipe, Program
from pto_jax.isa.effects import EVENT_PIPES
from pto_jax.isa.rules.block_scales import along_rows
from pto_jax.isa.rules.constraints import element_type
from pto_jax.order import judge
from pto_jax.profiles import PROFILE_NAMES, ProfileName
from pto_jax.verifier.programs import verify_program

ALL = {**PRESETS, "output": OUTPUT}
#: Texts and inputs of the first programs of every preset, by the version of the generator.
DIGESTS = {"9": "07ce90038d7c0b95"}


def _errors(case: Case) -> list[str]:
    return [str(d) for d in verify_program(case.program, case.profile) if d.severity == "error"]


@pytest.mark.slow
def test_a_case_is_a_function_of_seed_and_index() -> None:
    first, again = generate(3, 5), generate(3, 5)
    assert (first.id, first.program, first.profile) == (again.id, again.program, again.profile)
    assert all((first.inputs[n].words == again.inputs[n].words).all() for n in first.inputs)
    assert len({case.program for case in cases(3, 20)}) == 20


@pytest.mark.slow
def test_a_version_makes_the_programs_that_it_made() -> None:
    """Ids of failures and stores of campaigns mean their programs: other programs need another version."""
    state = hashlib.sha256()
    for name, options in PRESETS.items():
        for case in cases(1, 6, options):
            state.update(f"{name} {case.profile.name} {case.grid} {case.program}\n".encode())
            for argument, made in case.inputs.items():
                state.update(argument.encode() + made.words.tobytes())
    assert state.hexdigest()[:16] == DIGESTS.get(VERSION), f"other programs than those of {VERSION}"


@pytest.mark.variants(0)
@pytest.mark.parametrize("name", list(ALL))
def test_programs_are_legal_and_their_text_says_the_same(name: str) -> None:
    """``PTO_GENERATED`` is the number of programs, over all presets together."""
    count = int(os.environ.get("PTO_GENERATED", 300)) // len(ALL)
    for case in cases(11, count, ALL[name]):
        assert not _errors(case), (case.index, _errors(case))
        if case.index < 40:
            assert pto.parse(str(case.program)) == case.program, case.index


@pytest.mark.parametrize(("name", "index"), [("memory", 2424), ("sync", 227), ("everything", 1059)])
def test_no_single_element_of_four_bits_is_read(name: str, index: int) -> None:
    assert not _errors(generate(11, index, ALL[name]))


@pytest.mark.instructions("tquant.mx")
def test_groups_of_every_direction_are_generated_for_every_pair_of_types() -> None:
    """Along columns, down rows, and down rows with exponents in pairs, which a5 alone has."""
    directions: dict[ProfileName, set[bool]] = {"cpu_sim": {False}, "a5": {False, True}}
    for profile, interleaved in directions.items():
        rows = [r for r in isa.instructions()["tquant.mx"].types[profile] if r[0] != "u8"]
        expected = {(r, False, False) for r in rows} | {(r, True, i) for r in rows for i in interleaved}
        samples = selection.catalogue(profile, STRAIGHT.elements)["tquant.mx"]
        types = [(element_type(s.types["dst"]), element_type(s.types["src"])) for s in samples]
        made = {
            ((str(d), str(t)), along_rows({"grp_axis": 1, **s.attrs}), bool(s.attrs.get("interleave")))
            for (d, t), s in zip(types, samples, strict=True)
        }
        assert expected <= made, expected - made


#: Executable instructions that no generated program has, and why.
REASONS = {
    "trap": "stops the program: no result to compare",
    **dict.fromkeys(
        "tprefetch_async make_prefetch_async_context get_prefetch_async_session wait_async_event "
        "test_async_event cmo.cacheinvalid fence.barrier_all get_buf_dyn rls_buf_dyn set_cross_block "
        "wait_cross_block set_intra_block wait_intra_block".split(),
        "without an effect on values: no machine could differ",
    ),
    **dict.fromkeys(
        "ptrtoint inttoptr tile_buf_addr pointer_cast".split(),
        "addresses as numbers: machines choose their own",
    ),
    **dict.fromkeys(
        "declare_global talloc talloc_to_aic talloc_to_aiv".split(),
        "not generated yet: slots of pipes in global memory",
    ),
    **dict.fromkeys(
        "tget_async ttest".split(),
        "not generated yet: programs on several processors that ask, or fetch beside their cores",
    ),
}


@pytest.mark.nightly
@pytest.mark.slow
def test_every_instruction_is_in_about_one_of_a_hundred_programs() -> None:
    """Of those that campaigns make where machines have no limits of their own."""
    count, presets = 3000, [PRESETS[name] for name in device_presets()]
    having = Counter[str]()
    for index in range(count):
        having.update({op.name for op in generate(6, index, presets[index % len(presets)]).program.walk()})
    # Those between processors are in the preset of their own, which few devices take.
    here = {n for n, i in isa.instructions().items() if i.executable and i.cls != "communication"}
    executed = here - set(REASONS) - PRINTING
    assert not {n: having[n] / count for n in executed if having[n] < count * 0.009}


@pytest.mark.slow
@pytest.mark.nightly
def test_a_thousand_programs_have_most_pairs_of_an_instruction_and_a_type() -> None:
    """Of the presets that campaigns take in turn, over all profiles."""
    samples = (
        s for p in PROFILE_NAMES for n in selection.catalogue(p, STRAIGHT.elements).values() for s in n
    )
    pairs = {
        (s.instruction.name, d.name) for s in samples for t in s.types.values() if (d := element_type(t))
    }
    made, presets = set(), [PRESETS[name] for name in device_presets()]
    for index in range(1000):
        for op in generate(6, index, presets[index % len(presets)]).program.walk():
            types = (element_type(v.type) for v in (*op.ins, *op.destinations))
            made |= {(op.name, d.name) for d in types if d is not None}
    assert len(pairs & made) >= 0.95 * len(pairs), sorted(pairs - made)


@pytest.mark.nightly
@pytest.mark.slow
def test_every_executable_instruction_and_type_is_there() -> None:
    names, types = Counter[str](), set[str]()
    for case in cases(2, 600, replace(STRAIGHT, weights=tuple((c, 1.0) for c, _ in STRAIGHT.weights))):
        for op in case.program.walk():
            names[op.name] += 1
            types |= {d.name for v in (*op.ins, *op.destinations) if (d := element_type(v.type)) is not None}
    expected = {n for p in PROFILE_NAMES for n in selection.catalogue(p, STRAIGHT.elements)}
    assert expected <= set(names), expected - set(names)
    assert {d.name for d in TILE_DTYPES} <= types


#: Machines differ in where they print: these are in the preset ``output`` only.
PRINTING = {"print", "tprint"}
#: Presets that reach instructions with a syntax of their own, most of them in few programs.
INVENTORY = {
    "memory": 100,
    "aliases": 60,
    "sync": 60,
    "cores": 40,
    "everything": 60,
    "output": 10,
    "overlaps": 60,
    "ranks": 200,
}


@pytest.mark.nightly
@pytest.mark.slow
def test_some_preset_reaches_every_executable_instruction() -> None:
    found = {n for p in PROFILE_NAMES for n in selection.catalogue(p, STRAIGHT.elements)}
    for name, count in INVENTORY.items():
        found |= {op.name for case in cases(5, count, ALL[name]) for op in case.program.walk()}
    executed = {n for n, i in isa.instructions().items() if i.executable}
    # Programs on ranks have these two, which have no effect on values anywhere else.
    assert executed - found == set(REASONS) - {"wait_async_event", "fence.barrier_all"}
    control = "for if while index_switch execute_region".split()
    assert {f"scf.{name}" for name in control} | {"call", "section.cube", "section.vector"} <= found


def in_steps(program: Program) -> bool:
    """Whether an operation runs on several pipes, or on another one than its places say."""
    names = {op.name for op in program.walk()}
    return any(i is not None and i.phases is not None for i in map(isa.find, names))


@pytest.mark.slow
def test_what_orders_pipes_leaves_no_hazard() -> None:
    # The generator orders operations by their one pipe.
    for case in (c for c in cases(3, 40, PRESETS["sync"]) if not in_steps(c.program)):
        assert not judge(resolve(case.program)), case.index


@pytest.mark.slow
def test_every_pipe_that_executes_tiles_has_flags_and_barriers() -> None:
    pipes, made = {Pipe.S, *EVENT_PIPES.values()}, Counter[tuple[str, Pipe]]()
    for case in cases(3, 150, PRESETS["sync"]):
        for op in case.program.walk():
            if op.name in ("barrier", "set_flag", "set_flag_dyn"):
                made.update((key, value) for key, value in op.attributes if isinstance(value, Pipe))
    for key in ("pipe", "src", "dst"):
        assert {pipe for k, pipe in made if k == key} >= pipes, key


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_give_words_of_the_type(recipe: Recipe) -> None:
    for d in TILE_DTYPES:
        found = words(np.random.default_rng(0), d, (4, 8), recipe)
        assert found.dtype == d.word and found.shape == (4, 8) and int(found.max()) < 1 << d.bits


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_operands_that_must_not_share_bytes_are_made_apart(profile: str) -> None:
    """Among instructions that say so, with addresses and handles over bytes of other tiles."""
    apart = frozenset(n for n, i in isa.instructions().items() if i.apart and i.executable)
    options = replace(
        PRESETS["aliases"], profiles=(profile,), only=apart | {"tmov", "bitcast", "treshape"}, reuse=1.0
    )
    made = 0
    for case in cases(4, 40, options):
        assert not _errors(case), (case.index, _errors(case))
        made += sum(op.name in apart for op in case.program.walk())
    assert made > 40
