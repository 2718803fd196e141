"""The manual: every program on its pages is accepted, and every name is found or corrected."""

import json
import re
from functools import partial
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.ir import TILE_DTYPES, BLayout, Compact, Loc, Pad, Pipe, PipeEventType, SLayout
from pto_jax.isa import instructions
from pto_jax.manual import example, manual, topics
from pto_jax.manual.topics import program
from pto_jax.profiles import PROFILES
from pto_jax.verifier.programs import WITHOUT_FIXES, verify_program
from tests.cli.conftest import Commands, commands as commands
from tests.tables import every
from tools import stubs

PROGRAMS = [(topic.name, profile, text) for topic in topics().values() for profile, text in topic.programs()]


@pytest.mark.parametrize(("name", "profile", "text"), PROGRAMS, ids=lambda v: v[:20])
def test_programs_of_the_pages_are_accepted_without_warnings(name: str, profile: str, text: str) -> None:
    assert pto.verify(pto.parse(text), profile) == []
    assert text.splitlines()[0] in manual(name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "profile", "text"), PROGRAMS, ids=lambda v: v[:20])
def test_programs_of_the_pages_are_executed(
    name: str, profile: str, text: str, tmp_path: Path, commands: Commands
) -> None:
    (tmp_path / "k.pto").write_text(text)
    assert commands("run", tmp_path / "k.pto", "--trace", "--profile", profile) == 0, (name, commands.err)


@pytest.mark.slow
def test_the_softmax_of_the_grammar_page_is_a_softmax() -> None:
    kernel = pto.compile(pto.parse(program("softmax_13x37")))
    x = np.random.default_rng(3).standard_normal((13, 37)).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(kernel(x, np.zeros_like(x))["y"], e / e.sum(1, keepdims=True), rtol=1e-6)


def test_the_three_spellings_are_one_operation() -> None:
    adds = [op for op in pto.parse(program("spellings")).walk() if op.name == "tadd"]
    assert len(adds) == 3 and len({op.form for op in adds}) == 3
    assert len({tuple(v.type for v in op.ins) for op in adds}) == 1


def test_the_spellings_of_a_tile_type_are_one_type() -> None:
    tiles = [op.results[0].type for op in pto.parse(program("tile_spellings")).walk()]
    assert len(tiles) == 4 and len(set(tiles)) == 1


@pytest.mark.slow
@every("name", sorted(instructions()))
def test_the_example_on_an_instruction_page_is_accepted(name: str) -> None:
    text = example(instructions()[name])
    if text is None:
        assert name.endswith(".hif4"), "only HiF4 products exist on no profile"
        return
    assert indent(text, "  ") in manual(name)
    parsed = pto.parse(text)
    assert name in [op.name for op in parsed.walk()]
    found = [[d for d in pto.verify(parsed, p) if d.severity == "error"] for p in PROFILES]
    assert not all(found), found[0]


#: Why the operation of a page is no program by itself.
ALONE = (
    r"allowed: a pointer, memref, tile or scalar type, as the",  # handles of other operations
    r"got a pipe without a",
    r"got a memref that is an argument",
    r"got an address in",
    r"the program stops here",
    r"which no other core provides",  # a signal
    r"elements inside the buffer",  # indexes are any numbers
)


def _accepts(text: str, profile: str) -> bool:
    findings = verify_program(pto.parse(text), PROFILES[profile], limits=WITHOUT_FIXES)
    return all(d.severity != "error" for d in findings)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_examples_on_instruction_pages_are_executed(tmp_path: Path, commands: Commands) -> None:
    executed = 0
    for name, instruction in instructions().items():
        text = example(instruction)
        if text is None or not instruction.executable:
            continue
        file = tmp_path / f"{name}.pto"
        file.write_text(text)
        if commands("run", file, "--trace", "--profile", next(filter(partial(_accepts, text), PROFILES))):
            assert re.search("|".join(ALONE), commands.err), commands.err
        else:
            executed += 1
    assert executed > 200


@pytest.mark.parametrize(
    ("spelled", "page"),
    [
        ("tile_buf", "tile"), ("!pto.tile_buf", "tile"), ("TILE", "tile"), ("ptr", "types"),
        ("grammar", "grammar"), ("scf", "grammar"), ("profiles", "profiles"), ("a5", "profiles"),
        ("events", "events"), ("flags", "events"), ("barrier", "barrier"),
        ("pto.TADD", "tadd"), ("tmatmul_mx", "tmatmul.mx"), ("pto.tmatmul_acc", "tmatmul.acc"),
    ],
)  # fmt: skip
def test_names_are_found_in_any_spelling(spelled: str, page: str) -> None:
    assert manual(spelled) == manual(page) and manual(page).startswith(f"{page}: ")


@pytest.mark.parametrize(
    ("name", "near"),
    [("tad", "tadd"), ("tile_bug", "tile_buf"), ("gramar", "grammar"), ("profils", "profiles")],
)
def test_unknown_names_get_near_ones(name: str, near: str) -> None:
    with pytest.raises(
        pto.ArgumentError, match=f"no instruction or page is called '{name}'; allowed: .*{near}.*; try: "
    ):
        manual(name)


def test_pages_name_everything_of_the_tables() -> None:
    """Element types, layouts, places, capacities and enumerations of the code stand on their pages."""
    assert {d.name for d in TILE_DTYPES} <= set(manual("types").split())
    tile, profiles = manual("tile"), manual("profiles")
    for cls in (Loc, BLayout, SLayout, Pad, Compact):
        assert all(m.name.lower() in tile for m in cls)
    assert {"ND", "DN", "NZ", "ZN", "ZZ", "NN"} <= set(tile.split())
    row = next(line for line in profiles.splitlines() if line.startswith("  vec "))
    assert re.findall(r"(\d+) KiB", row) == [str(p.capacity[Loc.VEC] // 1024) for p in PROFILES.values()]
    assert "#pto<round_mode NONE>: NONE, RINT, ROUND, FLOOR, CEIL, TRUNC, ODD" in manual("grammar")


def test_the_page_on_events_has_every_pipe_class_and_instruction_of_order() -> None:
    page = " ".join(manual("events").split())
    assert all(f"PIPE_{p.name} " in page for p in Pipe)
    assert all(f" {e.name} PIPE_" in page for e in PipeEventType)
    ordering = [i for i in instructions().values() if i.traits.order is not None]
    assert len(ordering) > 15 and all(re.search(rf"\b{re.escape(i.name)}\b", page) for i in ordering)


def test_no_page_hides_an_instruction() -> None:
    named = {key for t in topics().values() for key in (t.name, *t.also)}
    assert not named & set(instructions())


def test_pages_in_other_styles() -> None:
    assert manual("tile", "markdown").startswith("# tile: ") and "```mlir" in manual("tile", "markdown")
    record = json.loads(manual("tile", "json"))
    assert record["name"] == "tile" and any(s["kind"] == "program" for s in record["sections"])
    assert set(json.loads(manual(style="json"))) == set(instructions())
    assert "example" in json.loads(manual("tadd", "json"))
    assert manual().splitlines()[-1].startswith("contradictions ")


@pytest.mark.slow
def test_every_micro_operation_has_a_page() -> None:
    for name, operation in isa.micro_operations().items():
        if isa.find(name) is not None:
            continue
        page = json.loads(manual(f"pto.{name}", "json"))
        assert (page["name"], page["summary"]) == (name, operation.summary)
        sections = {s["heading"]: " ".join(s["items"]) for s in page["sections"]}
        assert operation.types in sections["Operands and their types"] or not operation.types, name
        for words in (*operation.elements.values(), *operation.choices.values()):
            assert all(word in " ".join(sections.values()) for word in words), name
    with pytest.raises(pto.ArgumentError, match=r"'vaddd'; allowed: vadd"):
        manual("vaddd")


def test_micro_operations_stand_by_their_purpose_and_have_an_example() -> None:
    page = manual("micro")
    assert "chapter" not in page.partition("Decisions where")[0]
    assert all(f"\n  {name} " in page for name in isa.micro_operations())
    for name in ("vadd", "vmi.vadd", "mad", "mte_l0c_gm", "vsts"):
        shown = manual(name).partition("\nExample\n  ")[2].splitlines()[0]
        assert f"pto.{name} %" in shown and not re.search(r"%\w*\d\d", shown), shown
        assert all(f"%{operand}" in shown for operand in isa.micro_operations()[name].operands[:2])


@pytest.mark.parametrize(
    "step", [12, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.nightly])], ids=["some", "all"]
)
def test_examples_of_micro_operations_are_those_of_the_generator(step: int) -> None:
    text, operations = stubs.MICRO_EXAMPLES.read_text(encoding="utf-8"), isa.micro_operations()
    stored = json.loads(text)
    made = {name: stubs.micro_example(operations[name]) for name in list(operations)[::step]}
    wrong = {name: line for name, line in made.items() if stored.get(name, "") != line}
    assert not wrong, "python -m tools.stubs --sessions writes them"
    assert text == json.dumps(stored, indent=1, sort_keys=True) + "\n"
    assert operations.keys() - stored.keys() == {"dsb", "dcci"} and stored.keys() <= operations.keys()
