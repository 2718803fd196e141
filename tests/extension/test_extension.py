"""A user's file of instructions: everything that built-in ones do, without a change anywhere else."""

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.cases.comparison import compare_case
from pto_jax.cli.main import main
from pto_jax.devices.cpp.host import translate
from pto_jax.devices.machines import machine
from pto_jax.errors import ArgumentError, FileError
from pto_jax.extension.lanes import VARIABLE
from pto_jax.failures.folder import About, save
from pto_jax.failures.reduce import shrink
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, generate
from pto_jax.generate.state import Input
from pto_jax.ir import TileType, dtype
from pto_jax.isa.samples.operations import Sample, legal_samples, to_program
from pto_jax.lockstep import opcodes
from pto_jax.lowering import rules
from pto_jax.profiles import PROFILES, ProfileName

FILE = Path(__file__).with_name("own_instructions.py")
OWN = ("tcosh", "tclampadd")
PROFILE_NAMES: tuple[ProfileName, ...] = ("cpu_sim", "a2a3", "a5")
CLAMP = "%d = tclampadd %a, %b, %s : (T, T, {0}) -> T".replace("T", "!pto.tile<{0}, 8, 32>")


def _forget() -> None:
    for name in OWN:
        pto.extension.unregister(name)
    sys.modules.pop("pto_jax_extension_own_instructions", None)
    os.environ.pop(VARIABLE, None)


@pytest.fixture(scope="module", autouse=True)
def own() -> Iterator[None]:
    """The instructions of the file, for the tests of this module only."""
    pto.extension.load(FILE)
    yield
    _forget()
    assert not set(OWN) & isa.instructions().keys()


def values(rng: np.random.Generator, t: Any) -> Any:
    """Ordinary numbers and a few specials, of a tile's or scalar's type."""
    d, shape = t.dtype, t.shape if isinstance(t, TileType) else ()
    if d.is_integer:
        return np.asarray(rng.integers(-100, 100, shape), d.numpy)
    found = np.asarray(rng.standard_normal(shape) * 4)
    if shape:
        found.flat[:5] = [np.nan, np.inf, -np.inf, -0.0, 1e-8]
    return found.astype(d.numpy)


def samples() -> list[tuple[ProfileName, Sample]]:
    """One sample per instruction, profile and element type."""
    pto.extension.load(FILE)
    found = {
        (name, profile, s.types["dst"].dtype.name): (profile, s)  # type: ignore[union-attr]
        for name in OWN
        for profile in PROFILE_NAMES
        for s in legal_samples(isa.instructions()[name], PROFILES[profile])
    }
    _forget()
    return list(found.values())


def interpreted(sample: Sample, profile: str, arguments: dict[str, Any]) -> Any:
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        t = sample.types[name]
        if isinstance(t, TileType):
            given[name] = pto.oracle.OracleTile(t, value)
        else:
            given[name] = value[()]
    return pto.oracle.run(to_program(sample), given, profile=profile)["dst"].data


def apart(sample: Sample, found: Any, expected: Any) -> int:
    """The distance of two results in ULP; NaN equals NaN."""
    t = sample.types["dst"]
    assert isinstance(t, TileType)
    found, expected = np.asarray(found), np.asarray(expected).view(t.dtype.numpy)
    if t.dtype.is_integer:
        return int((found != expected).sum())
    both = np.isnan(found) & np.isnan(expected)
    words = [np.where(both, 0, x.view(f"i{x.itemsize}").astype(np.int64)) for x in (found, expected)]
    return int(np.abs(words[0] - words[1]).max())


@pytest.mark.variants(1)
@pytest.mark.parametrize(("profile", "sample"), samples(), ids=lambda p: str(getattr(p, "types", p))[:60])
def test_eager_jitted_and_interpreted_results_agree(profile: ProfileName, sample: Sample) -> None:
    rng = np.random.default_rng(1)
    arguments = {n: values(rng, sample.types[n]) for n in sample.form}
    kernel = pto.compile(to_program(sample), profile=profile, warn=False)
    t = sample.types["dst"]
    assert isinstance(t, TileType)
    arguments["dst"] = np.zeros(t.shape, t.dtype.numpy)
    expected = interpreted(sample, profile, arguments)
    bound = sample.instruction.ulp.get(t.dtype.name, 0)
    quick = kernel(**arguments)["dst"]
    assert apart(sample, quick.array, expected) <= bound
    eager = kernel.eager(**arguments)["dst"]
    np.testing.assert_array_equal(np.asarray(eager.words), np.asarray(quick.words))


@pytest.mark.parametrize("name", OWN)
def test_a_batch_with_ragged_valid_sizes_is_what_each_tile_gives(name: str) -> None:
    text = {
        "tcosh": "%d = tcosh %a : !pto.tile<...>",
        "tclampadd": "%d = tclampadd %a, %b, %s : !pto.tile<...>",
    }[name]
    kernel = pto.compile(pto.parse(text), profile="a5")
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, 3, 8, 16)).astype(np.float32)
    rows = np.array([8, 0, 5])

    def one(a: Any, b: Any, r: Any) -> Any:
        tiles = [pto.tile(x, valid=(r, 16)) for x in ((a, b) if name == "tclampadd" else (a,))]
        return kernel(*tiles, *((np.float32(0.5),) if name == "tclampadd" else ()))["d"]

    found = jax.vmap(one)(a, b, rows)
    for i, r in enumerate(rows):
        sum_ = np.where(a[i] + b[i] > 0.5, np.float32(0.5), a[i] + b[i])
        expected = np.cosh(a[i].astype(np.float64)).astype(np.float32) if name == "tcosh" else sum_
        np.testing.assert_array_max_ulp(np.asarray(found.array)[i, :r], expected[:r], maxulp=1)


@pytest.mark.parametrize("form", ["as", "ssa", "dps"])
@pytest.mark.parametrize("name", OWN)
def test_programs_print_and_are_read_back(name: str, form: str) -> None:
    from pto_jax.text import print_program

    sample = next(iter(legal_samples(isa.instructions()[name], PROFILES["a5"])))
    program = to_program(sample)
    printed = print_program(program, form=form)  # type: ignore[arg-type]
    assert name in printed and print_program(pto.parse(printed), form=form) == printed  # type: ignore[arg-type]


def test_types_are_verified_per_profile() -> None:
    def rules_of(d: str, profile: str) -> set[str | None]:
        return {x.rule for x in pto.verify(pto.parse(CLAMP.format(d)), profile=profile)}

    assert rules_of("f16", "a2a3") == set() and rules_of("f16", "a5") == {"types"}
    assert rules_of("i8", "a5") == set() and rules_of("i8", "a2a3") == {"types"}


def test_ops_and_builder_have_the_functions() -> None:
    x = np.linspace(-2, 2, 128, dtype=np.float32).reshape(8, 16)
    expected = np.cosh(x, dtype=np.float64).astype(np.float32)
    np.testing.assert_array_max_ulp(np.asarray(pto.ops.function("tcosh")(x).array), expected, maxulp=1)
    assert all(getattr(pto.ops, name) is pto.ops.function(name) for name in OWN)
    assert "tclampadd" in dir(pto.ops) and hasattr(pto, "tclampadd")


def test_a_second_version_under_the_same_name_replaces_the_first() -> None:
    """As in a notebook: kernels, array functions and the interpreter compute what is registered now."""
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 8)
    text = "%d = tscaled %a : !pto.tile<f32, 1, 8>"

    def results(power: int) -> list[Any]:
        pto.extension.instruction(
            "tscaled",
            "A power of a tile.",
            f"dst[i,j] = src[i,j] ** {power}",
            types=("f32",),
            jax=lambda a: a**power,
            numpy=lambda a: a**power,
        )
        try:
            program, tile_type = pto.parse(text), pto.tile(x).type
            return [
                pto.compile(program)(x)["d"].array,
                pto.compile(program).eager(x)["d"].array,
                pto.ops.function("tscaled")(x).array,
                pto.oracle.run(program, {"a": pto.oracle.OracleTile(tile_type, x)})["d"].data,
            ]
        finally:
            pto.extension.unregister("tscaled")

    for power in (2, 3):
        for result in results(power):
            np.testing.assert_array_equal(np.asarray(result).view(np.float32), x**power)


def test_the_reference_has_pages_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["isa", "tclampadd", "--extension", str(FILE)]) == 0
    page = capsys.readouterr().out
    assert "at most a limit" in page and "cpu_sim: f32 f16 i32 i8" in page
    assert main(["isa", "--extension", str(FILE)]) == 0
    assert "tcosh" in capsys.readouterr().out


def generated(name: str, profile: ProfileName, seed: int = 3) -> Case:
    """A small generated program with the instruction."""
    options = replace(PRESETS["straight"], only=frozenset({name}), profiles=(profile,))
    cases = (generate(seed, i, options) for i in range(50))
    return next(c for c in cases if any(op.name == name for op in c.program.walk()))


def fragment(profile: ProfileName, d: str = "f32") -> Case:
    """One tclampadd as a case."""
    program, rng = pto.parse(CLAMP.format(d)), np.random.default_rng(4)
    inputs = {
        a.name: Input(a.type, values(rng, a.type).view(a.type.dtype.word))  # type: ignore[arg-type, union-attr]
        for a in program.functions[0].args
    }
    return Case("0" * 16, 0, 0, PROFILES[profile], program, inputs, {})


@pytest.mark.slow
def test_generated_programs_of_the_standard_preset_have_them() -> None:
    names = {op.name for i in range(150) for op in generate(1, i, PRESETS["straight"]).program.walk()}
    assert set(OWN) <= names


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", OWN)
def test_the_campaign_judges_them_equal(name: str) -> None:
    outcome = compare_case(generated(name, "a5"), machine("oracle"), machine("eager"))
    assert outcome.kind == "equal", outcome


def test_lockstep_has_their_opcodes() -> None:
    assert {"tclampadd", "tcosh"} <= set(opcodes.names("a5"))
    found = compare_case(fragment("a5"), machine("oracle"), machine("lockstep"))
    assert found.kind == "equal", found


def test_undefined_lanes_are_followed_through_them() -> None:
    t = TileType(dtype("f32"), 1, 8)
    program = pto.parse("%d = tclampadd %a, %b, %s : !pto.tile<1x8xf32>, !pto.tile<1x8xf32>, f32")
    part, full = (pto.oracle.OracleTile(t, np.zeros((1, 8), np.float32), 1, n) for n in (6, 8))
    report = pto.sanitize(program, {"a": part, "b": full, "s": 0.5})
    assert "%d, 2 of 8 lanes, row 0, columns 6 to 7" in str(report)


@pytest.mark.slow
def test_a_wrong_rule_is_found_shrunk_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = rules.RULES["tclampadd"]

    def wrong(context: rules.Context, inputs: rules.Inputs) -> Any:
        return {n: w ^ w.dtype.type(1) for n, w in right(context, inputs).items()}

    monkeypatch.setitem(rules.RULES, "tclampadd", wrong)
    rules.jitted.cache_clear()
    case = generated("tclampadd", "a5")
    small = shrink(case, machine("oracle"), machine("eager"), seconds=20)
    assert small.outcome.kind == "different" and small.instruction == "tclampadd"
    folder = save(tmp_path, case, small.finding, About(small.instruction, "wrong", "oracle", "eager"))
    command = json.loads((folder / "report.json").read_text())["command"]
    assert command.endswith(f"--extension {FILE}")
    assert main(["replay", str(folder), "--extension", str(FILE)]) == 1
    assert "tclampadd" in capsys.readouterr().out
    monkeypatch.undo()
    rules.jitted.cache_clear()
    assert main(["replay", str(folder), "--extension", str(FILE)]) == 0


def test_the_cost_model_counts_the_declared_cycles() -> None:
    report = pto.cost(pto.parse(CLAMP.format("f32")), "a2a3")
    # 32 repeats: 14 + 19 + 2 * 32 + 31 * 18.
    assert report.lines[0].figure.cycles == 655


def test_cases_are_emitted_as_intrinsics() -> None:
    assert "TCLAMPADD(d, a, b, s);" in translate(fragment("cpu_sim"), ("d",), "auto").device


@pytest.mark.nightly
@pytest.mark.slow
def test_a_campaign_in_other_processes_loads_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "s.sqlite"
    given = "fuzz --seed 1 --count 60 --tested oracle --preset straight --profile a5 --workers 1".split()
    assert main([*given, "--extension", str(FILE), "--store", str(store), "--quiet"]) == 0
    with sqlite3.connect(store) as database:
        (stored,) = database.execute("SELECT value FROM campaign WHERE key = 'extensions'").fetchone()
    assert list(json.loads(stored)) == [str(FILE)]
    out = tmp_path / "r.json"
    assert main(["report", str(store), "--json", str(out), "--extension", str(FILE)]) == 0
    rows = {r["instruction"]: r for r in json.loads(out.read_text())["coverage"]["rows"]}
    assert rows["tclampadd"]["dtypes"] or rows["tcosh"]["dtypes"]
    capsys.readouterr()


# -- wrong use -----------------------------------------------------------------------------------------


def declared(**more: Any) -> Any:
    given: dict[str, Any] = {"types": ("f32",), "jax": abs, "numpy": abs, **more}
    return pto.extension.instruction(given.pop("name", "tnew"), "x", "y", **given)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"name": "tadd"}, "there is an instruction tadd; try: another name"),
        ({"name": "cosh"}, "got the name 'cosh'; allowed: 't', then"),
        ({"scalars": ("s",)}, "got the scalar 's'; allowed: src"),
        ({"types": ("f31",)}, "f31"),
        ({"types": {"a6": ("f32",)}}, "got the profile 'a6'; allowed: cpu_sim, a2a3, a5"),
    ],
)
def test_wrong_declarations_are_one_clear_error(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        declared(**more)
    assert message in str(error.value) and "tnew" not in isa.instructions()


def test_wrong_files_are_one_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileError, match=r"none\.py: no such file"):
        pto.extension.load(tmp_path / "none.py")
    bad = tmp_path / "bad.py"
    bad.write_text("import pto_jax as pto\npto.extension.instruction('tadd')\n")
    assert main(["isa", "--extension", str(bad)]) == 2
    assert capsys.readouterr().err.startswith(f"pto-jax isa: error: {bad}:2: TypeError: ")


def test_a_file_may_have_any_suffix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one of a program in its place is an error of its first line."""
    program = tmp_path / "k.pto"
    program.write_text("%d = tadd %a, %b : !pto.tile<16x16xf32>\n")
    assert main(["verify", str(program), "--extension", str(program)]) == 2
    assert capsys.readouterr().err.startswith(f"pto-jax verify: error: {program}:1: SyntaxError: ")
