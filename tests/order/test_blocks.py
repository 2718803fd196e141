"""Blocks of one launch beside each other: global memory that they share, barriers of all cores, whole lines.

Numbers are those of the catalogue of :mod:`tests.order.test_catalogue`.
"""

import json
from pathlib import Path

import pytest

import pto_jax as pto
from pto_jax.cli.main import main
from pto_jax.order import Finding
from tests.order import test_catalogue
from tests.order.test_catalogue import SCALAR
from tests.order.texts import (
    BARRIER,
    FENCE,
    HEAD,
    T,
    W,
    add,
    branch,
    load,
    loop,
    section,
    store,
    sync,
    told,
)
from tests.ranks import test_verdicts

SYNCALL = "pto.syncall () mode = hard, core_type = aiv_only\n"
NUMBER = "%blk64 = pto.get_block_idx\n%blk = arith.index_cast %blk64 : i64 to index\n"
FIRST = NUMBER + "%first = arith.cmpi eq, %blk, %c0 : index\n"
ROWS = NUMBER + "%row = arith.muli %blk, %c16 : index\n"
WHOLE = (
    "%all = pto.make_tensor_view %q, shape = [%n, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>\n"
)


def window(name: str, row: str = "%row") -> str:
    """16 rows of the whole output, from one on."""
    return (
        f"%{name} = pto.partition_view %all, offsets = [{row}, %c0], sizes = [%c16, %c64] : "
        f"!pto.tensor_view<?x?xf32> -> {W}\n"
    )


OWN = ROWS + WHOLE + window("own")
NEXT = (
    "%one64 = arith.addi %blk, %c1 : index\n%up = arith.remsi %one64, %c2 : index\n"
    "%other = arith.muli %up, %c16 : index\n" + window("far", "%other")
)
DRAIN = sync("MTE3", "S")


def only_first(body: str) -> str:
    return FIRST + f"scf.if %first {{\n{body}}}\n"


#: By number and name: the body, the blocks, and what is found.
WRONG: dict[str, tuple[str, int | None, list[str]]] = {
    "every block writes the same rows": (store("a"), 2, ["race MTE3->MTE3"]),
    "one block reads what the next one writes": (
        OWN + NEXT + store("a", "own") + load("b", "far"),
        2,
        ["race MTE3->MTE2", "race MTE2->MTE3"],
    ),
    "30 stored, met, loaded": (
        OWN + NEXT + store("a", "own") + SYNCALL + load("b", "far"),
        None,
        ["race MTE3->MTE2"],
    ),
    "30 drained and not published": (
        OWN + NEXT + store("a", "own") + DRAIN + SYNCALL + load("b", "far"),
        None,
        ["race MTE3->MTE2"],
    ),
    "30 met before it is read": (
        OWN + NEXT + load("b", "far") + SYNCALL + store("a", "own"),
        None,
        ["race MTE2->MTE3"],
    ),
    "29 met under a branch of one block": (only_first(SYNCALL), None, ["deadlock"]),
    "29 met once more by one block": (SYNCALL + only_first(SYNCALL), None, ["deadlock"]),
    "blocks in the middle of a launch": (
        NUMBER
        + WHOLE
        + "%b1 = arith.cmpi eq, %blk, %c1 : index\n%b2 = arith.cmpi eq, %blk, %c2 : index\n"
        + "%any = arith.ori %b1, %b2 : i1\n"
        + branch(window("own", "%c0") + store("a", "own"), condition="%any"),
        4,
        ["race MTE3->MTE3"],
    ),
    "rows by half a number": (
        NUMBER
        + WHOLE
        + "%half = arith.divsi %blk, %c2 : index\n%row = arith.muli %half, %c16 : index\n"
        + window("own")
        + store("a", "own"),
        4,
        ["race MTE3->MTE3"],
    ),
    "a barrier too few in every trip": (
        OWN + NEXT + loop(store("a", "own") + FENCE + SYNCALL + load("b", "far"), "%c4"),
        2,
        ["race MTE2->MTE3"],
    ),
    "38 one line by two blocks": (
        NUMBER + "pto.store_scalar %one, %words[%blk] : !pto.ptr<i32>, i32\n",
        2,
        ["race S->S"],
    ),
}


def races(body: str, grid: int | None, sync: str = "as-written") -> list[Finding]:
    """Findings about a launch; of None blocks: those that are chosen where nothing is said."""
    return pto.races(pto.parse(HEAD + body + "return\n}", "k.pto"), "a2a3", sync=sync, grid=grid)


def found(body: str, grid: int | None, sync: str = "as-written") -> list[str]:
    return told(races(body, grid, sync))


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("mode", ["as-written", "inserted"])
def test_a_wrong_launch_is_found(name: str, mode: str) -> None:
    body, grid, expected = WRONG[name]
    assert set(expected) <= set(found(body, grid, mode)), found(body, grid, mode)


RIGHT: dict[str, tuple[str, int | None]] = {
    "rows of their own": (OWN + store("a", "own"), 4),
    "one block of a program without a number": (store("a"), 1),
    "one block that waits for all": (store("a") + SYNCALL, 1),
    "all blocks read the same": (load("a"), 4),
    "stored, published, met, loaded": (
        OWN + NEXT + store("a", "own") + FENCE + SYNCALL + load("b", "far"),
        None,
    ),
    "read, drained, met, stored": (
        OWN + NEXT + load("b", "far") + BARRIER + SYNCALL + store("a", "own"),
        None,
    ),
    "a flag of the storing pipe to all blocks": (
        OWN
        + NEXT
        + store("a", "own")
        + "pto.set_cross_block <PIPE_MTE3>, 3\npto.wait_cross_block <PIPE_MTE3>, 3\n"
        + load("b", "far"),
        None,
    ),
    "two barriers in every trip": (
        OWN + NEXT + loop(store("a", "own") + FENCE + SYNCALL + load("b", "far") + BARRIER + SYNCALL, "%c4"),
        2,
    ),
    "met as often": (SYNCALL + SYNCALL, 3),
    "sums in one step": (
        f"pto.tstore ins(%a : {T}) outs(%o : {W}) {{atomicType = #pto<atomic_type atomic_add>}}\n",
        2,
    ),
    "lines of their own": (
        NUMBER
        + "%at = arith.muli %blk, %c16 : index\npto.store_scalar %one, %words[%at] : !pto.ptr<i32>, i32\n",
        3,
    ),
    "one block stores": (only_first(SCALAR), 3),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_correct_launch_is_not_reported(name: str) -> None:
    body, grid = RIGHT[name]
    assert [str(f) for f in races(body, grid)] == []


def test_the_message_names_both_blocks_and_the_way_to_order_them() -> None:
    body, grid, _ = WRONG["one block reads what the next one writes"]
    _, first = races(body, grid)
    assert "of block 1 and nothing orders it after tstore" in first.diagnostic.message
    assert "on PIPE_MTE3 of block 0; allowed: a fence and a barrier of all cores" in first.diagnostic.message
    assert first.missing == (
        "PIPE_MTE3 -> PIPE_MTE2 from block 0 to block 1; try: fence.barrier_all and syncall behind tstore"
    )


def test_a_later_line_of_another_block_is_no_earlier_pass_of_a_loop() -> None:
    first = FIRST.removeprefix(NUMBER)
    read = branch(window("far", "%c16") + load("b", "far"), condition="%first")
    found = races(OWN + store("a", "own") + first + read, 2)
    assert told(found) == ["race MTE2->MTE3"]
    assert "earlier pass" not in found[0].diagnostic.message


def test_what_is_complete_and_not_published_says_so() -> None:
    body, grid, _ = WRONG["30 drained and not published"]
    first, *_ = races(body, grid)
    assert "and is not published; allowed: fence.barrier_all before the barrier" in first.diagnostic.message


def test_cores_of_blocks_meet_too() -> None:
    body = section("cube", "pto.sync.set <PIPE_FIX>, 1\n") + section(
        "vector", "%s = pto.get_subblock_idx\npto.sync.wait <PIPE_MTE2>, 1\n" + SYNCALL
    )
    assert found(body, 2) == []
    assert "deadlock" in found(FIRST + body.replace(SYNCALL, only_first(SYNCALL).replace(FIRST, "")), 2)


def test_numbers_of_blocks_may_be_arguments() -> None:
    head = HEAD.replace("%n: index", "%__pypto_spmd_block_idx: i32, %n: index")
    own = OWN.replace(NUMBER, "%blk = arith.index_cast %__pypto_spmd_block_idx : i32 to index\n")
    body = own + NEXT + store("a", "own") + load("b", "far")
    program = pto.parse(head + body + "return\n}", "k.pto")
    assert "race MTE3->MTE2" in told(pto.races(program, "a2a3", sync="as-written", grid=2))
    assert told(pto.races(program, "a2a3", sync="as-written")) == []
    right = pto.parse(head + own + store("a", "own") + "return\n}", "k.pto")
    assert pto.races(right, "a2a3", sync="as-written", grid=2) == []


def test_the_command_takes_the_blocks_of_a_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.pto").write_text(HEAD + store("a") + add("d", "b") + "return\n}")
    assert main(["races", str(tmp_path / "k.pto")]) == 0
    given = ["races", str(tmp_path / "k.pto"), "--grid", "4", "--json", str(tmp_path / "out.json")]
    assert main(given) == 1
    (finding,) = json.loads((tmp_path / "out.json").read_text())
    assert (finding["first"]["core"], finding["second"]["core"]) == ("block 0", "block 1")
    capsys.readouterr()


def test_every_number_of_the_catalogue_is_in_the_name_of_a_test() -> None:
    tests = (*vars(test_catalogue), *vars(test_verdicts))
    named = [*test_catalogue.WRONG, *test_catalogue.RIGHT_ONES, *WRONG]
    named += [name.removeprefix("test_").replace("_", " ") for name in tests]
    numbers = {int(name.split()[0]) for name in named if name.split() and name.split()[0].isdigit()}
    assert numbers >= set(range(1, 47)), set(range(1, 47)) - numbers
