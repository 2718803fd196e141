"""Campaigns of micro-operations: kernels of everything that executes, equal bits, planted bugs, devices."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.analysis.resolve import resolve
from pto_jax.campaign.fuzz import coverage
from pto_jax.campaign.fuzz.focus import Focus, generated_micro
from pto_jax.campaign.fuzz.goal import Aimed, parse_goal
from pto_jax.campaign.refusals import Refusals
from pto_jax.cases import edits
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.expectation import open_bits
from pto_jax.cases.kernels import kernel, kernels_only
from pto_jax.cases.recording import numbered, record
from pto_jax.cases.targets import Batched, Engine, Oracle, Output, Run, Sanitizer, mismatch
from pto_jax.cli.fuzz_plan import device_presets
from pto_jax.cli.main import main
from pto_jax.devices.exchange import program_text
from pto_jax.errors import ArgumentError, Diagnostic, NotExecutableError
from pto_jax.failures.reduce import shrink
from pto_jax.generate.micro_samples import catalogue, select_micro
from pto_jax.generate.options import MICRO, MICRO_REASONS, STRAIGHT, micro_reason
from pto_jax.generate.programs import Case, cases, generate
from pto_jax.isa.micro import Lanes, MicroCall, opens_scope
from pto_jax.lowering import micro as engine
from pto_jax.lowering.bits import x64
from pto_jax.lowering.rules import Semantics
from pto_jax.oracle import micro as oracle
from pto_jax.profiles import profile
from pto_jax.sanitizer.micro import shadow_of_results
from pto_jax.verifier.programs import verify_program

engine.load_rules()
oracle.load_rules()
SEMANTICS = Semantics(profile("a5"))


@cache
def programs(count: int) -> list[Case]:
    return list(cases(1, count, MICRO))


def names_of(case: Case) -> set[str]:
    return {op.name for op in case.program.walk()}


@pytest.mark.slow
def test_kernels_are_legal_functions_over_pointers_and_their_text_says_the_same() -> None:
    for case in programs(60)[:12]:
        assert not [str(d) for d in verify_program(case.program, case.profile) if d.severity == "error"]
        assert pto.parse(str(case.program)) == case.program, case.index
        # A text may leave its scopes to the assembler.
        scoped = resolve(case.program, case.profile).program
        assert case.profile.name == "a5" and any(map(opens_scope, scoped.walk()))
    forms = {op.name for case in programs(60) for op in case.program.walk() if opens_scope(op)}
    assert forms == {"vecscope", "scf.for"}
    assert kernel(1, 0, kernels_only(MICRO)).program == programs(60)[0].program


@pytest.mark.slow
def test_every_micro_operation_that_executes_is_generated_or_has_its_reason() -> None:
    found = {name for case in programs(400) for name in names_of(case)}
    every = isa.micro_operations().keys()
    assert {n for n in every if micro_reason(n) is None} == found & every
    assert MICRO_REASONS.keys() <= every


@pytest.mark.slow
def test_a_lap_of_turns_has_every_pair_of_an_operation_and_its_element_types() -> None:
    pairs = select_micro(MICRO).pairs
    assert len(pairs) == sum(map(len, catalogue().values())) > 1500
    lap = -(-len(pairs) // MICRO.turns)
    expected = {(s.name, s.shown) for s in pairs if s.types}
    cells = {cell for case in programs(400)[:lap] for cell in coverage.of_program(case.program)}
    made = {(c.split("|")[0], c.split("|")[1]) for c in cells}
    assert len(expected - made) <= 0.02 * len(expected), sorted(expected - made)


def test_conversions_have_all_parts_roundings_and_saturations() -> None:
    options = Focus(only=("vcvt",)).options(MICRO)
    found = {c.split("|")[2] for i in range(60) for c in coverage.of_program(generate(2, i, options).program)
             if c.startswith("vcvt|")}  # fmt: skip
    parts = {f"part={p}" for p in ("EVEN", "ODD", "P0", "P1", "P2", "P3")}
    assert found >= parts | {f"rnd={r}" for r in "RAFCZOH"} | {"sat=SAT", "sat=NOSAT"}


def test_goals_of_micro_operations_are_reached_where_loops_carry_registers() -> None:
    text = '[[bins]]\ninstruction = ["vadd", "vlds", "mem_bar", "vgather2"]\ntype = "*"\ncontrol = "loop"'
    bins = parse_goal(text, "g.toml")
    assert len(bins) > 30
    source = Aimed(1, (STRAIGHT, MICRO), bins)
    for number, b in list(enumerate(bins))[::4]:
        assert any(map(b.has, coverage.of_program(source.case(number).program))), str(b)
    with pytest.raises(ArgumentError, match="declared"):
        parse_goal('[[bins]]\ninstruction = "vadd"\nregion = "odd"', "g.toml")


@pytest.mark.slow
def test_a_focus_names_micro_operations_alone_and_beside_tiles(capsys: Any, tmp_path: Path) -> None:
    options = Focus(only=("vadd", "vcvt")).options(STRAIGHT)
    assert options.micro and options.only == {"vadd", "vcvt"} and options.profiles == ("a5",)
    mixed = Focus(only=("tadd", "vadd"))
    assert mixed.options(STRAIGHT).only == {"tadd"} and mixed.options(MICRO).only == {"vadd"}
    for focus, options in ((Focus(only=("tadd",)), MICRO), (Focus(only=("vadd",), layouts=("row",)), MICRO)):
        with pytest.raises(ArgumentError, match="no micro-operation has such operands"):
            focus.options(options)
    with pytest.raises(ArgumentError, match="a2a3 have no micro-operations; allowed: a5"):
        Focus().options(replace(MICRO, profiles=("a2a3",)))
    command = f"fuzz --only vadd,vcvt --tested sanitizer --count 1 --workers 1 --quiet --failures {tmp_path}"
    assert main(command.split()) in (0, 1)
    assert "1 cases" in capsys.readouterr().out


def test_other_campaigns_have_the_presets_that_they_had() -> None:
    assert "micro" not in device_presets() and not generated_micro() & isa.instructions().keys()


# -- executors -----------------------------------------------------------------------------------------


def agree(index: int) -> None:
    case = generate(21, index, MICRO)
    for machine in (Engine("eager"), Engine("jit"), Batched()):
        outcome = compare_case(case, Oracle(), machine)
        assert outcome.kind == "equal", (index, machine.name, outcome.message)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(2))
def test_a_kernel_gives_equal_bits_on_every_executor(index: int) -> None:
    agree(index)


@pytest.mark.slow
def test_a_kernel_gives_equal_bits_operation_by_operation() -> None:
    outcome = compare_case(generate(21, 0, MICRO), Oracle(), Engine("eager"))
    assert outcome.kind == "equal", outcome.message


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("block", range(10))
def test_kernels_give_equal_bits_on_every_executor(block: int) -> None:
    for index in range(2 + 20 * block, 22 + 20 * block):
        agree(index)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_many_kernels_give_equal_bits_without_optimisations(block: int) -> None:
    """By turns alone and in a batch; ``fuzz --preset micro --tested jit:numpy`` goes on from here."""
    for index in range(50 * block, 50 * (block + 1)):
        machine = Batched(code="o0") if index % 2 else Engine("jit", code="o0")
        outcome = compare_case(generate(31, index, MICRO), Oracle(), machine)
        assert outcome.kind == "equal", (index, machine.name, outcome.message)


# -- planted bugs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bug:
    """A wrong rule of one operation: what becomes of its first result."""

    name: str
    what: str
    change: Callable[[Any, Any], Any]

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


def _last_lane(call: Any, words: Any) -> Any:
    return words.at[-1].set(words.dtype.type(0))


def _of_type(name: str, change: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda call, words: change(call, words) if call.results[0].dtype.name == name else words


def _odd_part(call: Any, words: Any) -> Any:
    return words[::-1] if str(call.attributes.get("part")).endswith("P3") else words


def _saturated(call: Any, words: Any) -> Any:
    top = words.dtype.type((1 << words.dtype.itemsize * 8 - 1) - 1)
    return (words & top) if call.attributes.get("sat") == "SAT" else words


BUGS = (
    Bug("vmula", "the sign of f32 is lost", _of_type("f32", lambda c, w: w & w.dtype.type(0x7FFFFFFF))),
    Bug("vmi.vcvt", "the last lane is zero", _last_lane),
    Bug("vpack", "the other half is kept", lambda call, words: words | words[::-1]),
    Bug("vcvt", "the sign is lost where it saturates", _saturated),
    Bug("vcvt", "part P3 is in the reverse order", _odd_part),
    Bug("vsub", "the last lane of bf16 is zero", _of_type("bf16", _last_lane)),
    Bug("vcgmax", "f16: the last result is zero", _of_type("f16", lambda c, w: w.at[7].set(w.dtype.type(0)))),
    Bug("vshr", "the last lane of u8 is zero", _of_type("u8", _last_lane)),
    Bug("vintlv", "the last lane of i64 is zero", _of_type("i64", _last_lane)),
    Bug("vusqz", "the first lane counts itself", lambda c, w: w + w.dtype.type(1)),
    Bug("vcadd", "f16 sums have no sign", _of_type("f16", lambda c, w: w & w.dtype.type(0x7FFF))),
    Bug("vmi.vdintlv", "the last lane is zero", _last_lane),
    Bug(
        "vmi.vcadd",
        "f32: the first group is zero",
        _of_type("f32", lambda c, w: w.at[0].set(w.dtype.type(0))),
    ),
    Bug("vmi.vaddcs", "the carry is lost", lambda call, words: words & words.dtype.type(0xFFFFFFFE)),
    Bug("vmi.create_group_mask", "the first group is active", lambda call, words: words.at[0].set(True)),
    Bug("vcadd", "the last bit of f16 sums is lost", _of_type("f16", lambda c, w: w & w.dtype.type(0xFFFE))),
)


@contextmanager
def planted(bug: Bug) -> Iterator[Callable[[Case], Run]]:
    """Executes cases with the bug: the interpreter takes the compiled rule of that operation alone."""
    right, plain = engine.RULES[bug.name], oracle.RULES[bug.name]

    def wrong(call: Any, *operands: Any) -> tuple[Any, ...]:
        first, *rest = right(call, *operands)
        return bug.change(call, first), *rest

    def lowered(call: MicroCall, *operands: Any) -> tuple[Any, ...]:
        with x64():
            return tuple(np.asarray(v) for v in engine.computed(call, SEMANTICS, *operands))

    def run(case: Case) -> Run:
        oracle.RULES[bug.name] = lowered
        try:
            return Oracle().run(case)
        finally:
            oracle.RULES[bug.name] = plain

    engine.RULES[bug.name] = wrong
    engine.jitted.cache_clear()
    try:
        yield run
    finally:
        engine.RULES[bug.name] = right
        engine.jitted.cache_clear()


def found(bug: Bug, seed: int, count: int) -> int | None:
    """The first program of a seed that shows a bug; others than those with its operation cannot."""
    with planted(bug) as run:
        for index in range(count):
            case = generate(seed, index, MICRO)
            if bug.name in names_of(case):
                expected, given = Oracle().run(case).outputs, run(case).outputs
                if any(mismatch(case, n, given[n], o, "") for n, o in expected.items()):
                    return index
    return None


@pytest.mark.variants(0)
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_campaign_finds_a_wrong_rule_of_the_lowering_unsteered(bug: Bug) -> None:
    assert found(bug, 5, 4000) is not None


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_every_seed_finds_it(bug: Bug, seed: int) -> None:
    assert found(bug, seed, 4000) is not None


# -- devices -------------------------------------------------------------------------------------------


@dataclass
class Device:
    """The interpreter behind the text that devices receive; ``wrong`` changes what it gives."""

    wrong: Callable[[Case, str, Output], Output] = lambda case, name, output: output
    lacking: str = ""
    name: str = "device"

    def run(self, case: Case) -> Run:
        text = program_text(case)
        if self.lacking and f"pto.{self.lacking} " in text:
            raise NotExecutableError(Diagnostic("error", f"the device declines: {self.lacking}"))
        sent = replace(case, program=pto.parse(text))
        outputs = Oracle().run(sent).outputs
        return Run({n: self.wrong(case, n, o) for n, o in outputs.items()})


def test_devices_receive_text_that_means_the_same() -> None:
    for case in programs(60)[:6]:
        assert compare_case(case, Oracle(), Device()).kind in ("equal", "undefined"), case.index


def _shifts() -> Case:
    """A kernel whose shifts have counts beyond the width."""
    options = replace(MICRO, only=frozenset({"vshl"}), statements=2, turns=1, control=0.0)
    drawn = (generate(3, i, options) for i in range(40))
    return next(c for c in drawn if "undefined" in compare_case(c, Oracle(), Sanitizer()).message)


def test_lanes_that_nothing_defines_are_not_compared() -> None:
    case = _shifts()
    bits = open_bits(case).bits
    assert any(b.any() for b in bits.values()) and not all(b.all() for b in bits.values())

    def other(case: Case, name: str, output: Output) -> Output:
        return replace(output, words=output.words ^ (bits[name] & output.words.dtype.type(0x55)))

    def wrong(case: Case, name: str, output: Output) -> Output:
        return replace(output, words=output.words ^ (~bits[name] & output.words.dtype.type(1)))

    assert compare_case(case, Oracle(), Device(other)).kind == "equal"
    assert compare_case(case, Oracle(), Device(wrong)).kind == "different"


def test_floats_without_an_integer_are_open_where_nothing_saturates() -> None:
    f32, i32 = (Lanes(pto.dtype(name), lanes=64) for name in ("f32", "i32"))
    words = np.zeros(64, np.float32)
    words[:5] = 2.0**31, -(2.0**31), np.nan, np.inf, 2.0**31 - 128
    for sat, open_lanes in (("NOSAT", [0, 2, 3]), ("SAT", [])):
        call = MicroCall("vcvt", (f32, 32), (i32,), {"rnd": "R", "sat": sat})
        shadow = shadow_of_results(call, (words.view(np.uint32), np.ones(256, bool)), None)
        assert (np.flatnonzero(shadow[0]).tolist() if shadow is not None else []) == open_lanes


@pytest.mark.slow
def test_an_operation_that_a_device_declines_is_left_out() -> None:
    case = next(c for c in programs(60) if {"vabs", "vcmp", "vshl"} & names_of(c))
    name = sorted({"vabs", "vcmp", "vshl"} & names_of(case))[0]
    device = Device(lacking=name)
    outcome = compare_case(case, Oracle(), device)
    assert outcome.kind == "refused"
    less = Refusals(device).compared(outcome, Oracle(), device)
    assert less.kind == "equal" and name not in names_of(less.case)


@pytest.mark.slow
def test_a_failure_is_made_small_and_names_its_operation() -> None:
    def wrong(case: Case, name: str, output: Output) -> Output:
        seen = "vcvt" in names_of(case)
        return replace(output, words=output.words ^ output.words.dtype.type(seen))

    def needed(case: Case) -> Case | None:
        """Without the operations whose results nothing uses, which shrinking leaves out first."""
        return edits.closed(numbered(case), record(numbered(case)))

    case = next(c for c in map(needed, programs(60)) if c is not None and "vcvt" in names_of(c))
    small = shrink(case, Oracle(), Device(wrong), seconds=60).case
    left = Counter(op.name for op in small.program.walk())
    assert left["vcvt"] == 1 and left.total() < sum(1 for _ in case.program.walk()) / 3, left
