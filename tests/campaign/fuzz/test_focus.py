"""What the options of a campaign say of its programs, and that its programs are so."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pto_jax.campaign.fuzz.executor_cases import Generated
from pto_jax.campaign.fuzz.explanation import explain
from pto_jax.campaign.fuzz.focus import Focus
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cli.fuzz_plan import device_presets
from pto_jax.cli.main import main
from pto_jax.errors import ArgumentError
from pto_jax.generate.options import DESCRIPTIONS, IN_TURN, PRESETS, STRAIGHT, layout_name
from pto_jax.generate.selection import select
from pto_jax.ir import Op, TileType, dtype
from pto_jax.isa.rules.constraints import element_type
from pto_jax.lockstep.tables import REGIONS, Tables
from pto_jax.profiles import PROFILE_NAMES, ProfileName


def _operations(name: str, count: int = 60, **focus: Any) -> Iterator[Op]:
    source = Generated.of(Plan(seed=4, presets=("straight",), focus=Focus(only=(name,), **focus)))
    for index in range(count):
        yield from (op for op in source.case(index).program.walk() if op.name == name)


def _tiles(op: Op) -> list[TileType]:
    return [v.type for v in (*op.destinations, *op.ins) if isinstance(v.type, TileType)]


@pytest.mark.slow
def test_only_some_instructions_with_an_operand_of_some_type_and_layout() -> None:
    for op in _operations("tcvt", dtypes=("bf16",)):
        assert "bf16" in {d.name for v in (*op.ins, *op.destinations) if (d := element_type(v.type))}
    for op in _operations("textract", layouts=("nz",)):
        assert "nz" in map(layout_name, _tiles(op))


@pytest.mark.slow
def test_kinds_of_valid_regions() -> None:
    assert all(t.is_full for op in _operations("tadd", regions=("full",)) for t in _tiles(op))
    odd = [t.valid for op in _operations("tadd", regions=("odd",)) for t in _tiles(op)]
    assert odd and all(n is not None and n % 2 for valid in odd for n in valid)
    assert any(0 in t.valid for op in _operations("tadd", regions=("empty",)) for t in _tiles(op))
    assert not any(t.is_static for op in _operations("tadd", regions=("dynamic",)) for t in _tiles(op))


def test_values_come_from_the_recipes() -> None:
    focus = Focus(only=("tadd",), values=("constant",))
    case = Generated.of(Plan(seed=1, presets=("straight",), focus=focus)).case(0)
    tiles = [i.words for i in case.inputs.values() if isinstance(i.type, TileType)]
    assert tiles and all(len(set(words.reshape(-1).tolist())) == 1 for words in tiles)


def test_weights_multiply_those_of_instructions_and_classes() -> None:
    def share(name: str, *weights: str) -> float:
        table = select("a5", Focus(weights=weights).options(STRAIGHT))
        previous = dict(zip(table.names, (0.0, *table.cumulative), strict=False))
        return (dict(zip(table.names, table.cumulative, strict=True))[name] - previous[name]) / (
            table.cumulative[-1]
        )

    assert share("tcvt", "tcvt=5") > 3 * share("tcvt")
    assert "tmatmul" not in select("a5", Focus(weights=("matrix=0",)).options(STRAIGHT)).names


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_every_instruction_has_its_share(profile: ProfileName) -> None:
    """One of a hundred programs of the plainest preset at least, by what is drawn of 4.5 statements."""
    table = select(profile, replace(STRAIGHT, profiles=(profile,)))
    shares = [b - a for a, b in zip((0.0, *table.cumulative), table.cumulative, strict=False)]
    assert len(table.names) > 100 and 450 * min(shares) / table.cumulative[-1] >= 1


@pytest.mark.slow
def test_optional_operands_are_as_often_absent_as_there() -> None:
    forms = [len(op.ins) for op in _operations("taddc", 150)]
    assert {2, 3} <= set(forms) and 0.3 < forms.count(2) / len(forms) < 0.7


@pytest.mark.nightly
@pytest.mark.slow
def test_lockstep_follows_what_it_can() -> None:
    table = Tables(("a5",), 20, ("tcvt", "tadd"), ("f16",), ("partial", "empty")).of(0)
    assert {o.name for o in table.opcodes} <= {"tcvt", "tadd"}
    assert all("f16" in {k.type.dtype.name for k in o.kinds} for o in table.opcodes)
    assert {REGIONS[n] for n in table.region_shares} == {"partial", "empty"}
    large = Tables(("a5",), None, ("tcvt",)).of(1 << 14)
    assert {o.name for o in large.opcodes} == {"tcvt"} and len(large.opcodes) > 10
    with pytest.raises(ArgumentError, match="tadd has no f8e8m0 on a5; allowed: f32"):
        Tables(("a5",), 20, ("tadd",), ("f8e8m0",)).of(0)
    assert Focus(only=("tadd",)).in_lockstep(()) and not Focus(only=("tmatmul",)).in_lockstep(())
    assert not Focus(layouts=("nz",)).in_lockstep(()) and not Focus(regions=("odd",)).in_lockstep(())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": ("tadds", "tcvtt")}, "--only tcvtt: no generated instruction (did you mean 'tcvt'?)"),
        ({"dtypes": ("float32",)}, "--dtype float32; allowed: "),
        ({"layouts": ("rows",)}, "--layout rows; allowed: row col nz"),
        ({"regions": ("none",)}, "--region none; allowed: full partial odd empty dynamic"),
        ({"values": ("random",)}, "--values random; allowed: uniform"),
        ({"weights": ("tcvt=-1",)}, "--weight tcvt=-1; allowed: NAME=FACTOR"),
        ({"weights": ("matrixx=1",)}, "no instruction or class matrixx"),
    ],
)
def test_unknown_names_say_what_is_allowed(options: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        Focus(**options)
    assert message in str(error.value)


def test_a_focus_without_programs_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="tmatmul has no i64 on cpu_sim; allowed: f32"):
        Focus(only=("tmatmul",), dtypes=("i64",)).options(STRAIGHT)


@pytest.mark.nightly
@pytest.mark.slow
def test_explanations_count_what_programs_are_made_of() -> None:
    text = explain(Plan(seed=2, presets=IN_TURN, focus=Focus(only=("tadd", "tcvt"))))
    head, *lines = text.splitlines()
    assert head.startswith("400 programs") and "valid region: 6" in lines
    assert any(line.split()[0] == "tcvt" and float(line.split()[1]) > 30 for line in lines if "tcvt" in line)


@pytest.mark.nightly
@pytest.mark.slow
def test_programs_have_what_bugs_hide_in() -> None:
    """Odd regions, absent operands, ties and special values are no rarities; control flow is there."""
    shares: dict[str, dict[str, float]] = {}
    for line in explain(Plan(seed=2, presets=device_presets())).splitlines()[1:]:
        if not line.startswith(" "):
            part = shares.setdefault(line.partition(":")[0], {})
        elif line.endswith("%"):
            name, _, share = line.strip().removesuffix(" %").rpartition("  ")
            part[name.strip()] = float(share)
    regions, operands, values = (
        shares[p] for p in ("valid region", "optional operands", "elements of f32 arguments")
    )
    programs, lines = shares["programs"], shares["lines of f32 tiles that are arguments"]
    assert programs["steps of a view known at run time"] > 8
    assert lines["one or two"] > 5 and lines["no NaN or infinity"] > 20
    assert (
        regions["odd"] > 8
        and regions["partial"] > 3
        and regions["empty"] > 2
        and regions["full"] > 15
        and regions["dynamic"] > 20
    )
    assert operands["none"] > 20 and set(shares["surrounded by"]) == {"straight", "loop", "branch", "call"}
    assert values["tie between two of f16"] > 1 and values["tie between two of bf16"] > 1
    assert all(values[name] > 0.5 for name in ("zero", "NaN", "infinity", "subnormal"))


@pytest.mark.slow
def test_a_pair_of_types_is_that_of_a_source_and_a_result() -> None:
    made = list(_operations("tcvt", 20, dtypes=("f32->i32",)))
    pairs = {(element_type(op.ins[0].type), element_type(op.destinations[0].type)) for op in made}
    assert pairs == {(dtype("f32"), dtype("i32"))}
    with pytest.raises(ArgumentError, match="--dtype q; allowed: f32"):
        Focus(dtypes=("f32->q",))
    assert not Focus(dtypes=("f32->i32",)).in_lockstep(())


def test_a_focus_holds_where_presets_make_other_programs() -> None:
    """Programs for cube and vector cores have instructions of their own choice."""
    source = Generated.of(Plan(presets=("cores", "overlaps"), focus=Focus(("tcvt",), ("f32->i32",))))
    assert all(any(op.name == "tcvt" for op in source.case(i).program.walk()) for i in range(12))


@pytest.mark.nightly
@pytest.mark.slow
def test_an_explanation_is_whole_or_short(capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["fuzz", "--explain", "--preset", "overlaps", "--count", "5"]
    shown = []
    for more in ([], ["--full"], ["--json"]):
        assert main([*plan, *more]) == 0
        shown.append(capsys.readouterr().out)
    short, full, made = *shown[:2], json.loads(shown[2])
    counts = made["properties"]["programs with the instruction"]["counts"]
    assert "..." in short and "..." not in full and all(f"  {name} " in full for name in counts)
    assert (
        main(["fuzz", "--json"]) == 2
        and "got --json alone; allowed: with --explain" in capsys.readouterr().err
    )


def test_presets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--list-presets"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(PRESETS)
    assert DESCRIPTIONS.keys() == PRESETS.keys()
