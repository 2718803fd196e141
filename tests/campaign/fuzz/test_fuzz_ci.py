"""Campaigns in continuous integration: baselines, new causes, time limits, stores that know their plan."""

import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pto_jax.failures.folders import read_known, write_known


def machines(against: str, tested: str) -> list[str]:
    return [
        *("--against", f"python:fuzz_machines:{against}", "--tested", f"python:fuzz_machines:{tested}"),
        *("--preset", "aliases", "--profile", "a5", "--shrink-seconds", "0"),
    ]


NAMED = machines("right", "wrong")[:4]


def test_a_campaign_without_a_case_is_no_success(fuzz: Any) -> None:
    assert fuzz(*machines("right", "steady"), "--minutes", 1e-6, "--junit", "out.xml") == 1
    assert "0 of 0 cases were compared; --min-compared is 1" in fuzz.err
    assert ElementTree.parse("out.xml").getroot()[0].get("failures") == "1"


@pytest.mark.nightly
@pytest.mark.slow
def test_only_new_causes_fail(fuzz: Any) -> None:
    options = [*machines("right", "wrong"), "--count", 15, "--batch", 5, "--quiet"]
    assert fuzz(*options, "--junit", "out.xml") == 1
    causes = [line.strip() for line in fuzz.out.splitlines() if " different: " in line]
    assert len(causes) == 2
    tests = ElementTree.parse("out.xml").getroot()[0]
    assert [len(t) for t in tests] == [0, 1, 1] and tests.get("failures") == "2"
    assert tests[0].get("name") == "15 programs: 15 compared, 13 equal"
    first = str(tests[1].get("name"))
    Path("known.txt").write_text(f"# one of two\n\n{first}\n")
    assert fuzz(*options, "--known", "known.txt", "--junit", "out.xml") == 1
    assert fuzz.out.count("(known)") == 1
    tests = ElementTree.parse("out.xml").getroot()[0]
    assert (tests.get("failures"), tests.get("skipped")) == ("1", "1")
    write_known("known.txt", [first, str(tests[2].get("name"))])
    assert fuzz(*options, "--known", "known.txt") == 0 and fuzz.out.count("(known)") == 2
    # Known failures do not end a campaign.
    assert fuzz(*options, "--known", "known.txt", "--max-failures", 1) == 0


@pytest.mark.slow
def test_a_report_writes_the_baseline(fuzz: Any) -> None:
    from pto_jax.cli.main import main

    options = [*machines("right", "wrong"), "--count", 15, "--store", "s.db", "--quiet"]
    assert fuzz(*options) == 1
    assert main(["report", "s.db", "--known", "known.txt"]) == 0
    assert len(read_known("known.txt")) == 2
    assert fuzz("--resume", "--store", "s.db", *NAMED, "--known", "known.txt") == 0
    assert "without shrinking all wrong values of a result are one group for --known" in fuzz.err


@pytest.mark.slow
def test_the_first_new_cause_ends_a_campaign(fuzz: Any) -> None:
    options = [*machines("right", "wrong"), "--count", 400, "--batch", 5, "--store", "s.db"]
    assert fuzz(*options, "--first-new") == 1
    assert "stopped at a new cause" in fuzz.err
    assert len(fuzz.rows("s.db")["failure"]) == 1


@pytest.mark.slow
@pytest.mark.nightly
def test_a_campaign_ends_after_its_minutes(fuzz: Any) -> None:
    began = time.monotonic()
    options = [*machines("right", "steady"), "--batch", 5, "--store", "s.db", "--max-failures", 0]
    assert fuzz(*options, "--minutes", 0.15) == 1
    assert time.monotonic() - began < 60
    assert "stopped after --minutes; to continue: pto-jax fuzz --tested" in fuzz.err
    done = sum(row[1] for row in fuzz.rows("s.db")["batch"])
    assert done and fuzz("--resume", "--store", "s.db", "--trust", "--minutes", 0.15) == 1
    assert sum(row[1] for row in fuzz.rows("s.db")["batch"]) > done


@pytest.mark.nightly
@pytest.mark.slow
def test_a_store_knows_its_campaign_and_can_be_extended(fuzz: Any) -> None:
    options = [*machines("right", "wrong"), "--seed", 7, "--batch", 10, "--quiet"]
    assert fuzz(*options, "--count", 25, "--store", "s.db") == 1
    assert fuzz("--resume", "--store", "s.db", *NAMED, "--count", 42) == 1
    assert "42 cases: 38 equal, 4 different" in fuzz.out and "seed 7" in fuzz.out
    assert fuzz(*options, "--count", 42, "--store", "whole.db") == 1
    assert fuzz.rows("s.db") == fuzz.rows("whole.db")
    assert fuzz("--resume", "--store", "s.db", *NAMED) == 1 and "42 cases" in fuzz.out


WRONG: tuple[tuple[list[Any], str], ...] = (
    ([], "got python:fuzz_machines:right from s.db only"),
    (NAMED[2:], "got python:fuzz_machines:right from s.db only"),
    ([*NAMED, "--count", 3], "--count: got 3 for the campaign in s.db; allowed: 5 or more"),
    (["--tested", "jit"], "got jit for the campaign in s.db; allowed: python:fuzz_machines:wrong, "),
    (
        [*NAMED, "--failures", "elsewhere"],
        "--failures: got elsewhere for the campaign in s.db; allowed: failures",
    ),
    ([*machines("right", "wrong"), "--count", 5, "--seed", 3], "s.db: got another campaign: seed: 0, not 3"),
    (["--minutes", 0], "--minutes: got 0; allowed: more than 0"),
    ([*NAMED, "--known", "none.txt"], "none.txt: no such file"),
)


@pytest.mark.slow
def test_what_a_store_does_not_allow_is_one_line(fuzz: Any) -> None:
    assert fuzz(*machines("right", "wrong"), "--count", 5, "--store", "s.db", "--quiet") == 1
    before = fuzz.rows("s.db")
    for options, message in WRONG:
        assert fuzz("--resume", "--store", "s.db", *options) == 2, options
        assert message in fuzz.err and len(fuzz.err.strip().splitlines()) == 1
        assert fuzz.rows("s.db") == before


@pytest.mark.slow
def test_failures_that_a_store_puts_elsewhere_are_agreed_to(fuzz: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "kept")
    options = [*machines("right", "wrong"), "--count", 5, "--quiet", "--failures", folder]
    assert fuzz(*options, "--store", "s.db") == 1
    assert fuzz("--resume", "--store", "s.db", *NAMED, "--count", 9) == 2
    assert f"got the folder {folder} from s.db only; try: --failures {folder}" in fuzz.err
    assert fuzz("--resume", "--store", "s.db", *NAMED, "--count", 9, "--failures", folder) == 1
