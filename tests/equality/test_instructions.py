"""One row for every instruction that executes: what the engine and the interpreter make of it.

``pytest -k NAME`` selects the row of an instruction, and any error in its lowering or in its rule of the
interpreter makes the row fail. A row has up to three parts: samples of the declaration, on random data and
partial valid regions, compared with the interpreter; recordings of the public simulator, for
both; and a program of ``tests/programs`` that contains the instruction, with the result that NumPy gives.
Recordings and programs show errors that the engine and the interpreter have in common.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa, oracle
from pto_jax.cases.code import executed
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Engine, Oracle
from pto_jax.generate.options import MADE, STRAIGHT
from pto_jax.generate.programs import generate
from pto_jax.ir import Symbol, TileType
from pto_jax.isa.samples.operations import Sample, legal_samples, to_program
from pto_jax.lowering.bits import x64
from pto_jax.profiles import PROFILES
from pto_jax.testing.differential import (
    BATCH,
    Case,
    Given,
    arguments,
    computes,
    differing,
    make_case,
    result_words,
)
from pto_jax.vectors import manifest
from pto_jax.vectors.cases import case_instruction
from pto_jax.vectors.conformance import run_case, run_case_oracle, run_cases_engine
from pto_jax.verifier.programs import WITHOUT_FIXES, verify_program
from tests.covering import modes_shown, types_shown
from tests.equality.test_products import moderate
from tests.programs import cases as programs
from tests.programs.test_programs import CASES as PROGRAMS, check
from tests.runtime.test_sync_config import IDLE, given as values, program as synchronised

GOLDEN = Path(__file__).parents[1] / "golden"
TABLE = isa.instructions()
#: Every program is executed once: compiling it would take most of the time. What compilers do to the bits is
#: compared in test_modes.py and in tests/conformance.
NUMPY = partial(executed, "numpy")
#: Most samples, samples with another attribute, and recordings that the engine executes of an instruction;
#: the interpreter executes all recordings.
SAMPLES, MODES, RECORDED = 3, 4, 8
#: Samples of an instruction with a rule of its own for many pairs of types.
CONVERSIONS = 8
#: Programs of the generator, for an instruction that has nothing else.
SEED, GENERATED = 1, 2
#: Programs that show what recordings or the shortest program do not: atomic stores, sizes, boxes.
BESIDES = {"tstore": "atomic", "alloc_multi_tile": "multi_tiles", "subview": "subviews"}
#: Wider tiles than those of samples, with their valid columns: a second chunk of columns.
WIDER = {"trandom": (4, 512, 511)}
_T = TypeVar("_T")


def spread(items: Sequence[_T], count: int) -> list[_T]:
    """So many of the items, evenly spaced, the first and the last among them."""
    if len(items) <= count:
        return list(items)
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]


# -- samples -----------------------------------------------------------------------------------------


def _kinds(sample: Sample, profile: str) -> set[object]:
    """What rules branch by: the profile, and whether elements are floats or integers."""
    return {profile, *(t.dtype.is_float for t in sample.types.values() if isinstance(t, TileType))}


def _features(sample: Sample, profile: str) -> set[object]:
    types = types_shown(sample)
    apart = {(profile, feature) for feature in (*types, *sample.attrs.items())}
    return {profile, *modes_shown(sample), *types, *apart}


@cache
def sampled(name: str) -> tuple[tuple[Sample, str], ...]:
    """A few samples with their profiles, each the one that shows most of what those before it do not."""
    instruction = TABLE[name]
    plain = [(s, p) for p in ("a5", "a2a3", "cpu_sim") for s in legal_samples(instruction, PROFILES[p])]
    chosen = _covering(plain, CONVERSIONS if instruction.converts else SAMPLES)
    if name in WIDER:
        chosen += [(_wider(s), p) for s, p in chosen]
    modes = [(moded, p) for s, p in chosen for moded in _moded(s, p)]
    return (*chosen, *spread(_covering(modes, len(modes)), MODES))


def _wider(sample: Sample) -> Sample:
    rows, cols, valid = WIDER[sample.instruction.name]
    types = {
        name: replace(t, rows=rows, cols=cols, v_row=rows, v_col=valid) if isinstance(t, TileType) else t
        for name, t in sample.types.items()
    }
    return replace(sample, types=types)


def _covering(pairs: Sequence[tuple[Sample, str]], count: int) -> list[tuple[Sample, str]]:
    candidates = [(pair, _kinds(*pair), _features(*pair)) for pair in pairs]
    chosen, shown, kinds = list[tuple[Sample, str]](), set[object](), set[object]()
    while candidates and len(chosen) < count:
        pair, kind, features = max(candidates, key=lambda c: (len(c[1] - kinds), len(c[2] - shown)))
        if features <= shown:
            break
        chosen.append(pair)
        shown |= features
        kinds |= kind
    return chosen


def _moded(sample: Sample, profile: str) -> Iterator[Sample]:
    """A sample with one attribute changed, where that is legal."""
    for attribute in sample.instruction.attributes:
        values: Sequence[Any] = (False, True) if attribute.type is bool else ()
        if issubclass(attribute.type, IntEnum):
            values = list(attribute.type)
        for value in values:
            moded = replace(sample, attrs={**sample.attrs, attribute.name: value})
            program, on = to_program(moded), PROFILES[profile]
            diagnostics = verify_program(program, on, limits=WITHOUT_FIXES)
            if not [d for d in diagnostics if d.severity == "error"]:
                yield moded


def _with_moderate(given: Mapping[str, Given]) -> dict[str, Given]:
    """The batch, and again with float values near 1, so that rounding decides and no NaN hides it."""
    rng = np.random.default_rng(11)
    twice = dict[str, Given]()
    for name, g in given.items():
        near = moderate(rng, g.type.dtype, g.words.shape) if g.type.dtype.is_float else g.words
        regions = None if g.regions is None else np.concatenate([g.regions] * 2)
        twice[name] = replace(g, words=np.concatenate([g.words, near]), regions=regions)
    return twice


def _check_samples(name: str) -> None:
    drawn = [make_case(sample, PROFILES[profile]) for sample, profile in sampled(name)]
    # One of floats again, where subnormal numbers are zeros.
    floats = (case for case in drawn if any(g.type.dtype.is_float for g in case.given.values()))
    drawn += [replace(case, subnormals="flush") for case in islice(floats, 1)]
    cases = [replace(case, given=_with_moderate(case.given)) for case in drawn]

    def execute(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [case.kernel(**one) for case, one in zip(cases, given, strict=True)]

    with x64():
        results = NUMPY(jax.vmap(execute), [arguments(case.given) for case in cases])
    for case, result in zip(cases, results, strict=True):
        _compare(case, result)


def _compare(case: Case, result: Mapping[str, Any]) -> None:
    for b in range(2 * BATCH):
        for name, expected in case.reference(b).items():
            got = result_words(case.dtype(name), result[name], b)
            lanes = np.argwhere(differing(case.dtype(name), got, expected, case.ulp(name)))
            assert not len(lanes), (
                f"{case.label} [{case.profile.name}], batch {b}: {len(lanes)} lanes of {name} differ, "
                f"first {tuple(lanes[0])}: engine {got[tuple(lanes[0])]:#x}, "
                f"interpreter {expected[tuple(lanes[0])]:#x}"
            )


# -- recordings --------------------------------------------------------------------------------------


@cache
def recordings(name: str) -> tuple[manifest.Case, ...]:
    """The recorded cases of an instruction, which are in a file of its name or of its base form's."""
    stem = name.replace(".", "_")
    stems = {stem, stem.removesuffix("_acc"), stem.removesuffix("_bias"), name.partition(".")[0]}
    files = [path for s in sorted(stems) if (path := GOLDEN / f"{s}.npz").exists()]
    return tuple(case for path in files for case in manifest.load_file(path) if _name(case) == name)


def _name(case: manifest.Case) -> str | None:
    instruction = case_instruction(case)
    return None if instruction is None else instruction.name


def _various(cases: Sequence[manifest.Case]) -> list[manifest.Case]:
    """A few cases, each the one that shows most attributes and types that those before it do not."""
    chosen, shown = list[manifest.Case](), set[str]()
    features = {case.id: {f"{n}={v}" for n, v in case.attrs.items()} | {case.label} for case in cases}
    while len(chosen) < RECORDED and (left := [c for c in cases if features[c.id] - shown]):
        best = max(left, key=lambda c: len(features[c.id] - shown))
        chosen.append(best)
        shown |= features[best.id]
    return chosen


def _check_recordings(name: str) -> None:
    cases = recordings(name)
    results = [run_case(case, run_case_oracle) for case in cases]
    failures = [str(r) for r in results if r.status == "fail"]
    assert not failures, failures[:3]
    few = _various([case for case, r in zip(cases, results, strict=True) if r.status == "pass"])
    for case, after in zip(few, run_cases_engine(few, apply=NUMPY), strict=True):
        result = run_case(case, lambda _, after=after: after)  # type: ignore[misc]
        assert result.status == "pass", f"engine: {result}"


# -- programs ----------------------------------------------------------------------------------------


#: Programs that other rows of this process have executed.
_PASSED = set[str]()


@cache
def containing() -> Mapping[str, tuple[programs.Case, ...]]:
    """The programs that execute an operation, by its name, the shortest first."""
    found: dict[str, list[programs.Case]] = {}
    executed = [(case, _operations(case)) for case in PROGRAMS]
    for case, names in sorted(executed, key=lambda pair: len(pair[1])):
        for name in set(names):
            found.setdefault(name, []).append(case)
    return {name: tuple(cases) for name, cases in found.items()}


def shown_by(name: str) -> list[programs.Case]:
    """The programs of a row: those named for it, or the shortest, which recordings replace."""
    if name in BESIDES:
        return [case for case in containing()[name] if case.program == BESIDES[name]]
    return [] if recordings(name) else list(containing().get(name, ())[:1])


def _operations(case: programs.Case) -> list[str]:
    """Names of the operations in the functions that a program's entry calls or starts."""
    functions = {f.name: f for f in case.parsed.functions}
    if case.entry is None:
        return [op.name for op in case.parsed.walk()]
    names, reached, left = list[str](), set[str](), {case.entry}
    while left:
        function = left.pop()
        reached.add(function)
        for op in functions[function].walk():
            names.append(op.name)
            left |= {v.name for v in op.attrs.values() if isinstance(v, Symbol)} - reached
    return names


# -- synchronisation ---------------------------------------------------------------------------------


def _check_idle(name: str) -> None:
    """An instruction that changes no value does not, behind those that it may wait for."""
    names = list(IDLE)
    lines = [IDLE[before] for before in names[: names.index(name) + 1]]
    program, given = synchronised("\n".join(lines)), values()
    expected = np.abs(given["x"] + given["x"])
    for profile in PROFILES:
        np.testing.assert_array_equal(oracle.run(program, given, profile=profile)["y"], expected, profile)
    np.testing.assert_array_equal(pto.compile(program, profile="a5", warn=False)(**given)["y"], expected)


# -- generated programs ------------------------------------------------------------------------------


def _check_generated(name: str) -> None:
    """Programs of the generator that contain an instruction, on engine and interpreter."""
    options = replace(STRAIGHT, statements=6, elements=256, **MADE.get(name, {}))
    if name not in MADE:
        options = replace(options, only=frozenset({name, "tmov", "tmov.fp"}))
    cases = (generate(SEED, number, options) for number in range(100))
    containing = (case for case in cases if any(op.name == name for op in case.program.walk()))
    chosen = list(islice(containing, GENERATED))
    assert chosen
    for case in chosen:
        outcome = compare_case(case, Oracle(), Engine("jit", code="numpy"))
        assert outcome.kind == "equal", str(outcome)


# -- rows --------------------------------------------------------------------------------------------

ROWS = sorted(name for name, instruction in TABLE.items() if instruction.executable)
#: Instructions that tests with the marker ``instructions`` execute.
MARKED = frozenset(
    "build_async_session comm.tgather comm.tscatter declare_global get_prefetch_async_session "
    "make_prefetch_async_context talloc talloc_to_aic talloc_to_aiv tbroadcast tget tget_async tnotify "
    "tprefetch_async tput tput_async trap treduce test_async_event ttest twait wait_async_event".split()
)


@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize("name", [name for name in ROWS if name not in MARKED])
def test_engine_and_interpreter_give_the_expected_bits(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if recordings(name):
        _check_recordings(name)
    if computes(TABLE[name]) and sampled(name):
        _check_samples(name)
    if name in IDLE:
        _check_idle(name)
    for case in shown_by(name):
        if case.name not in _PASSED:
            check(case, capsys, "numpy")
            _PASSED.add(case.name)
    if not (recordings(name) or computes(TABLE[name]) or name in IDLE or name in containing()):
        _check_generated(name)


def test_every_instruction_that_executes_has_a_test_and_every_recording_a_row() -> None:
    assert sum(len(recordings(name)) for name in ROWS) == 6233
    assert set(ROWS) >= MARKED
