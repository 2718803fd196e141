"""Two versions of a program: the order that is lost or gained between its instructions, and its effect."""

import json
from pathlib import Path

import pytest

import pto_jax as pto
from pto_jax.cli.main import main
from pto_jax.order import Changes
from pto_jax.schedules import order_changes
from tests.order.texts import BARRIER, HEAD, add, load, loop, section, set_, store, sync, wait

TAIL = "return\n}"
STEP = load("a") + sync("MTE2", "V") + add("d", "a") + sync("V", "MTE3") + store("d")
CREDIT = sync("V", "MTE2", 1) + sync("MTE3", "V", 2)


def changes(old: str, new: str, profile: str = "a2a3") -> Changes:
    return order_changes(pto.parse(HEAD + old + TAIL), pto.parse(HEAD + new + TAIL), profile)  # type: ignore[arg-type]


def told(found: Changes) -> list[str]:
    """Edges in short."""
    ends = [("->".join(f"{x.operation} {x.pipe[5:]}" for x in (e.first, e.second)), e) for e in found.edges]
    return [f"{e.change} {between}: {e.effect}" for between, e in ends]


#: By name: the old body, the new one, and what differs.
CASES: dict[str, tuple[str, str, list[str]]] = {
    "the same": (STEP, STEP, []),
    "a needed flag is lost": (
        STEP,
        STEP.replace(sync("MTE2", "V"), ""),
        ["lost tload MTE2->tadd V: race now"],
    ),
    "a flag is repaired": (
        STEP.replace(sync("MTE2", "V"), ""),
        STEP,
        ["gained tload MTE2->tadd V: race before"],
    ),
    "a flag that nothing needs is lost": (
        load("a") + sync("MTE2", "V", 3) + add("e", "b"),
        load("a") + add("e", "b"),
        ["lost tload MTE2->tadd V: redundant"],
    ),
    "another number": (STEP, STEP.replace("EVENT_ID0", "EVENT_ID5"), []),
    "a barrier instead of a flag": (STEP, STEP.replace(sync("MTE2", "V"), BARRIER), []),
    "one barrier more": (
        STEP + load("b"),
        STEP + BARRIER + load("b"),
        ["gained tstore MTE3->tload MTE2: stricter"],
    ),
    "a wait that comes too late": (
        STEP,
        STEP.replace(wait("MTE2", "V") + add("d", "a"), add("d", "a") + wait("MTE2", "V")),
        ["lost tload MTE2->tadd V: race now"],
    ),
    "the back edge of a loop": (
        loop(STEP + CREDIT),
        loop(STEP),
        [
            "lost tadd V->tload MTE2: race now",
            "lost tstore MTE3->tadd V: race now",
        ],
    ),
    "between cores": (
        section("cube", "pto.sync.set <PIPE_FIX>, 1\n"),
        section("cube", "pto.sync.set <PIPE_FIX>, 2\n"),
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_edges_that_differ_have_their_effect(name: str) -> None:
    old, new, expected = CASES[name]
    found = changes(old, new)
    assert told(found) == expected


def test_a_lost_flag_between_cores_is_a_race() -> None:
    from tests.order.test_catalogue import LOAD_H, STORE_ACC

    reads = LOAD_H.replace("L", "pto.sync.wait <PIPE_MTE2>, 2\n")
    old = section("cube", STORE_ACC + "pto.sync.set <PIPE_FIX>, 2\n") + section("vector", reads)
    new = section("cube", STORE_ACC) + section("vector", LOAD_H.replace("L", ""))
    (edge,) = changes(old, new).edges
    assert (edge.effect, edge.first.core, edge.second.core) == ("race now", "cube", "vector0")
    assert " of core cube before tload" in str(edge)


def test_barriers_of_the_vector_pipe_count_where_one_version_has_them() -> None:
    steps = sync("MTE2", "V") + add("d", "a") + "pto.barrier <PIPE_V>\n" + add("e", "d")
    assert told(changes(steps, steps.replace("pto.barrier <PIPE_V>\n", ""))) == [
        "lost tadd V->tadd V: race now"
    ]
    assert told(changes(steps, steps.replace("pto.barrier <PIPE_V>\n", ""), "a5")) == []


def test_a_lost_signal_is_a_finding_of_the_new_version_only() -> None:
    found = changes(STEP, STEP.replace(set_("V", "MTE3"), ""))
    assert [f.kind for f in found.findings if f.kind != "race"] == ["deadlock"]
    assert changes(STEP.replace(set_("V", "MTE3"), ""), STEP).findings == []
    assert found.operations["set_flag"] == (2, 1)


def test_instructions_of_one_version_only_are_counted() -> None:
    assert changes(STEP, STEP + add("e", "b")).apart == (0, 1)


def _written(tmp_path: Path, old: str, new: str) -> tuple[str, str]:
    for name, body in (("old", old), ("new", new)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "k.pto").write_text(HEAD + body + TAIL)
    return str(tmp_path / "old"), str(tmp_path / "new")


@pytest.mark.parametrize(("worse", "status"), [(True, 1), (False, 0)])
def test_the_command_compares_two_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], worse: bool, status: int
) -> None:
    short = STEP.replace(sync("MTE2", "V"), "")
    old, new = _written(tmp_path, STEP if worse else short, short if worse else STEP)
    assert main(["diff", "--sync", f"{old}/k.pto", f"{new}/k.pto"]) == status
    out = capsys.readouterr().out
    assert f"1 edge {'lost (1 race now)' if worse else 'gained (1 race before)'}; set_flag" in out


def test_folders_have_a_summary_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = _written(tmp_path, STEP, STEP.replace(sync("MTE2", "V"), ""))
    (tmp_path / "old" / "bad.cpp").write_text("int main() {}\n")
    (tmp_path / "new" / "bad.cpp").write_text("int main() {}\n")
    (tmp_path / "old" / "gone.pto").write_text(HEAD + STEP + TAIL)
    (tmp_path / "new" / "other.pto").write_text(HEAD + STEP + TAIL)
    assert main(["diff", "--sync", old, new, "--json", str(tmp_path / "out.json")]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        "3 programs: 1 with other order, 1 with new findings, 1 not compared, 1 skipped, 1 only in the new "
        "folder; 1 edge lost (1 race now)"
    )
    report = json.loads((tmp_path / "out.json").read_text())
    (program,) = [p for p in report["programs"] if "edges" in p]
    (edge,) = program["edges"]
    assert edge["effect"] == "race now" and edge["races"][0]["kind"] == "race"
    assert edge["first"]["old_line"] > 0 and report["summary"] == {"lost, race now": 1}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "got one file or folder; allowed: two"),
        (["b.pto", "--count", "3"], ""),
        (["b.pto", "--corpus"], "--corpus with --sync"),
        (["b.pto", "c.pto"], "a third file with --sync"),
        (["b.pto", "--arg", "n=3"], "--arg with --sync"),
    ],
)
def test_options_of_other_comparisons_are_refused(
    more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "--sync", "a.pto", *more]) == 2
    assert message in capsys.readouterr().err
