"""Reports of a store: what they count, the text, the JSON, the page, and stores that are none."""

import contextlib
import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pto_jax.campaign.fuzz.batch import Failure
from pto_jax.campaign.report.coverage import coverage
from pto_jax.campaign.report.html import page
from pto_jax.campaign.report.model import Block, CampaignReport, Contents, command, read, report, throughput
from pto_jax.campaign.report.text import text
from pto_jax.cases.ulp import Histograms
from pto_jax.cli.main import main
from pto_jax.errors import ArgumentError, FileError

TABLES = """
CREATE TABLE campaign(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE batch(start INTEGER PRIMARY KEY, count INTEGER, worker TEXT, seconds REAL, finished REAL,
  kinds TEXT, coverage TEXT, ulp TEXT);
CREATE TABLE failure(case_index INTEGER PRIMARY KEY, case_id TEXT, start INTEGER, kind TEXT, profile TEXT,
  instruction TEXT, cause TEXT, message TEXT, folder TEXT, detail TEXT);
"""
CAMPAIGN = {
    "schema": 1, "seed": 5, "start": 0, "count": 640, "reference": "oracle", "tested": "jit",
    "presets": ["straight"],
    "profiles": ["a5"], "programs": {}, "versions": {"pto_jax": "1.0", "jax": "0.10"}, "started": 1.7e9,
    "device": "cpu: <cpu>",
}  # fmt: skip
CELLS = {
    "tadd|f32|-|full|row": 1234, "tadd|f16|-|partial|col": 2, "tcvt|f16|rmode=TRUNC|dynamic|row": 7,
    "texp|f32|-|empty|nz": 1,
}  # fmt: skip
#: A message that must not become part of the page's structure.
HOSTILE = "a<script>alert(1)</script> & \"b\" 'c'\x00\nsecond line"
VOID = {"meta", "br", "hr", "img", "input", "link"}


def histograms() -> Histograms:
    found = Histograms()
    found.add("texp", "f32", [0] * 90 + [1] * 9 + [100], nan=1)
    return found


def batch(start: int, **more: Any) -> tuple[Any, ...]:
    given = {"count": 64, "worker": "0.0", "seconds": 2.0, "finished": 1.7e9 + start / 32, **more}
    found = [given[k] for k in ("count", "worker", "seconds", "finished")]
    kinds = {"equal": 62, "different": 2} if start == 0 else {"equal": 64}
    return (start, *found, json.dumps(kinds), json.dumps(CELLS), histograms().to_json())


FAILURES = [
    (3, "0003", 0, "different", "a5", "tadd", "different: tadd", HOSTILE, None, "{}"),
    (9, "0009", 0, "different", "a5", "tadd", "different: tadd", "x", "found/it 9", '{"ulp": 3}'),
]


def written(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.executescript(TABLES)
    database.executemany(
        "INSERT INTO campaign VALUES (?, ?)", [(k, json.dumps(v)) for k, v in CAMPAIGN.items()]
    )
    database.executemany("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [batch(0), batch(64)])
    database.executemany("INSERT INTO failure VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", FAILURES)
    database.commit()
    return database


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    database = written(tmp_path / "store.sqlite")
    yield tmp_path / "store.sqlite"
    database.close()


@pytest.fixture
def made(store: Path) -> CampaignReport:
    return report(read(store))


class Balanced(HTMLParser):
    """Collects texts and attributes, and complains about tags that do not balance."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        assert not {"src", "onclick", "onload"} & set(given)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if given.get("href"):
            self.links.append(str(given["href"]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def parsed(html: str) -> Balanced:
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser


def test_counts_are_those_of_the_store(made: CampaignReport) -> None:
    assert (made.cases, made.blocks, made.workers) == (128, 2, 1)
    assert dict(made.kinds) == {"equal": 126, "different": 2}
    (cause,) = made.causes
    assert (cause.cause, cause.count, cause.instructions) == ("different: tadd", 2, ("tadd",))
    assert cause.first.index == 9 and cause.command == "pto-jax replay 'found/it 9'"
    (texp,) = made.ulp
    assert texp.histogram.elements == 202 and texp.histogram.worst == 100 and not texp.within
    row = next(r for r in made.coverage.rows if r.instruction == "tadd")
    assert dict(row.dtypes) == {"f32": 2468, "f16": 4}
    assert made.throughput.points and 20 < made.throughput.mean < 40


def test_what_was_never_reached_follows_from_the_declarations() -> None:
    everywhere, on_a5 = coverage(CELLS), coverage(CELLS, ["a5"])
    all_add, a5_add = (next(r for r in c.rows if r.instruction == "tadd") for c in (everywhere, on_a5))
    assert "i64" in all_add.missing_dtypes and "i64" not in a5_add.missing_dtypes
    assert {"f32", "f16"}.isdisjoint(a5_add.missing_dtypes) and "bf16" in a5_add.missing_dtypes
    assert a5_add.missing_regions == ["odd", "empty", "dynamic"]
    tcvt = next(r for r in on_a5.rows if r.instruction == "tcvt")
    assert "rmode=FLOOR" in tcvt.missing_attributes and "rmode=TRUNC" not in tcvt.missing_attributes
    reached, declared = on_a5.pairs
    assert reached == 4 and declared > 500 and on_a5.reached == 3


def test_instructions_of_other_versions_have_a_row() -> None:
    found = coverage({"tnew|f32|-|full|row": 1})
    assert [r.cls for r in found.rows if r.instruction == "tnew"] == ["unknown"]


def test_a_failure_without_a_folder_is_generated_again() -> None:
    failure = Failure(3, "", "different", "", "", "", "", None, {})
    words = command(CAMPAIGN, failure).split()
    assert words[:8] == "pto-jax fuzz --seed 5 --start 3 --count 1".split()
    given = dict(zip(words[8::2], words[9::2], strict=True))
    assert given == {"--against": "oracle", "--tested": "jit", "--profile": "a5", "--preset": "straight"}


def test_pauses_are_left_out_and_rates_are_those_of_the_work() -> None:
    first = [Block(1000.0 + n, 10, 1.0, "0") for n in range(30)]
    later = [Block(90000.0 + n, 20, 1.0, "0") for n in range(30)]
    found = throughput(first + later)
    assert found.seconds == pytest.approx(60.0) and len(found.pauses) == 1
    assert found.pauses[0] == pytest.approx(30.0)
    assert found.points[5][1] == pytest.approx(10.0) and found.points[-5][1] == pytest.approx(20.0)
    assert throughput([]).points == () and throughput([]).mean == 0.0
    assert throughput([Block(5.0, 10, 2.0, "0")]).mean == pytest.approx(5.0)


def test_two_workers_at_once_count_twice() -> None:
    blocks = [Block(10.0 * n, 100, 10.0, w) for n in range(1, 9) for w in "ab"]
    assert throughput(blocks).mean == pytest.approx(20.0)


def test_the_page_is_one_balanced_document_without_scripts(made: CampaignReport) -> None:
    html = page(made)
    found = parsed(html)
    assert "script" not in found.tags and {"svg", "table", "section", "main"} <= found.tags
    assert len(found.ids) == len(set(found.ids))
    assert found.links and all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    assert not re.search(r"https?:|url\(|@import", html)
    shown = "".join(found.texts)
    for part in ("different: tadd", "pto-jax replay 'found/it 9'", "2.5k", "rmode=TRUNC", "cpu: <cpu>"):
        assert part in shown, part
    assert 'lang="en"' in html and "prefers-color-scheme" in html


def test_without_jinja2_the_page_is_one_clear_error(
    made: CampaignReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ArgumentError, match=r"needs Jinja2.*pip install 'pto_jax\[report\]'"):
        page(made)


def test_hostile_text_stays_text(store: Path) -> None:
    contents = read(store)
    only = Contents(HOSTILE, {**contents.campaign, "tested": HOSTILE}, failures=contents.failures[:1])
    found = parsed(page(report(only)))
    assert "script" not in found.tags and "alert(1)" in "".join(found.texts)


def test_text_and_json_have_the_same_tables(made: CampaignReport) -> None:
    plain = json.loads(json.dumps(made.plain()))
    lines = text(made)
    assert plain["kinds"] == {"equal": 126, "different": 2} and "126 equal, 2 different" in lines
    assert plain["failures"][0]["command"] in lines
    assert plain["ulp"][0]["buckets"] == {"0": 180, "1": 18, "64-127": 2}
    rows = {r["instruction"]: r for r in plain["coverage"]["rows"]}
    assert rows["tadd"]["dtypes"] == {"f16": 4, "f32": 2468}
    assert re.search(r"^tadd +2\.5k +4 ", lines, re.MULTILINE)
    assert rows["tsub"]["dtypes"] == {} and "f32" in rows["tsub"]["never"]["dtypes"]


def test_a_new_campaign_has_a_report() -> None:
    made = report(Contents("new", dict(CAMPAIGN)))
    parsed(page(made))
    assert "none finished" in text(made)
    json.dumps(made.plain())


def test_a_store_that_is_being_written_is_read(store: Path) -> None:
    writer = sqlite3.connect(store, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?, ?, ?)", batch(128))
    assert report(read(store)).cases == 128
    writer.execute("COMMIT")
    assert report(read(store)).cases == 192
    writer.close()


def test_reading_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    written(path).close()
    before = path.read_bytes()
    read(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 something else", "is no SQLite file"),
        (b"SQLite format 3\x00" + bytes(100), "no store of a campaign"),
        (None, "no such store"),
    ],
)
def test_what_is_no_store_is_one_clear_error(tmp_path: Path, contents: bytes | None, message: str) -> None:
    path = tmp_path / "odd.sqlite"
    if contents is not None:
        path.write_bytes(contents)
    with pytest.raises(FileError, match=message):
        read(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE batch",
        "UPDATE campaign SET value = '9' WHERE key = 'schema'",
        "UPDATE batch SET coverage = '{\"tadd|'",
        "UPDATE batch SET kinds = '[1]'",
        "UPDATE batch SET ulp = '{\"texp\": 1}'",
        "UPDATE batch SET finished = 'yesterday'",
        "UPDATE failure SET detail = '{'",
        "UPDATE batch SET coverage = '{\"tadd\": 1}'",
    ],
)
def test_damaged_stores_are_one_clear_error(
    store: Path, statement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as database:
        database.execute(statement)
    assert main(["report", str(store)]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("pto-jax report: error: ") and printed.count("\n") == 1


def test_the_command_writes_page_and_json(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html, out = tmp_path / "out.html", tmp_path / "out.json"
    assert main(["report", str(store), "--html", str(html), "--json", str(out)]) == 0
    assert "failures: 2 of 1 causes" in capsys.readouterr().out
    parsed(html.read_text(encoding="utf-8"))
    assert json.loads(out.read_text(encoding="utf-8"))["cases"] == 128
    assert main(["report", str(store), "--html", str(tmp_path / "no" / "out.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["a.sqlite", "b.sqlite"]])
def test_stores_are_needed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *arguments]) == 2
    assert capsys.readouterr().err.count("error") == 1
