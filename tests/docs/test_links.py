"""Links of pages, of the sources and files of the site, and those to the glossary, lead somewhere."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

from tests.docs.test_words import GENERATED
from tools import site_check

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(p for p in (ROOT / "docs").rglob("*.md") if not set(p.parts) & set(GENERATED)),
    ]
)
_LINK = re.compile(r"\]\(([^()\s]*)\)|(?:src|href)=\"([^\"]*)\"|<(https?://[^>\s]*)>")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What headings of a page are called in links, as GitHub and the site make it."""
    headings = re.findall(r"^#+ (.*)$", _CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def broken(page: Path, text: str) -> list[str]:
    """Links of a page that lead nowhere."""
    found = []
    for target in ("".join(groups) for groups in _LINK.findall(_CODE.sub("", text))):
        url = urlsplit(target)
        if url.scheme:
            right = url.scheme == "https" and re.fullmatch(r"[\w-]+(\.[\w-]+)+", url.netloc) is not None
        else:
            file = (page.parent / url.path) if url.path else page
            right = file.exists() or file.parent.name in GENERATED
            right = right and (not url.fragment or url.fragment in anchors(file))
        found += [] if right else [target]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text(encoding="utf-8")) == []


def test_broken_links_are_found() -> None:
    page = ROOT / "README.md"
    wrong = ["none.md", "docs/index.md#none", "http://example.org", "https://example", "#nothing"]
    assert broken(page, " ".join(f"[x]({target})" for target in wrong)) == wrong
    right = ["#run-it", "docs/index.md", "https://example.org/a#b", "CHANGELOG.md#changelog"]
    assert broken(page, " ".join(f"[x]({target})" for target in right)) == []


DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def terms() -> ModuleType:
    spec = importlib.util.spec_from_file_location("terms", DOCS / "terms.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_terms_are_those_of_the_glossary(terms: ModuleType) -> None:
    words = terms.words()
    assert {"tile", "valid region", "profile", "event", "barrier", "ULP"} <= set(words)
    assert words.index("valid region") < words.index("tile") and "program" not in words


def test_the_first_use_in_prose_is_a_link(terms: ModuleType) -> None:
    page = "# A tile\n\n```text\na tile\n```\n\nSee [tile](x.md), `tile`; a tile, tiles.\n\n| tile |\n"
    assert terms.linked(page, ["tile"]) == page.replace("; a tile", "; a {term}`tile`")
    assert terms.linked("profiles of pipelines", ["profile", "pipe"]) == (
        "{term}`profiles <profile>` of pipelines"
    )
    assert terms.linked("the valid region of a tile", ["valid region", "tile"]) == (
        "the {term}`valid region` of a {term}`tile`"
    )


def test_most_pages_have_links(terms: ModuleType) -> None:
    pages = [*DOCS.glob("how-to/*.md"), *DOCS.glob("tutorials/*.md"), *DOCS.glob("explanation/*.md")]
    texts = [terms.linked(p.read_text(), terms.words()) for p in pages]
    assert sum("{term}`" in text for text in texts) >= len(pages) - 3


def test_the_table_of_facts_has_the_modules_of_its_package() -> None:
    table = (
        (ROOT / "docs/architecture.md")
        .read_text()
        .partition("| file of `analysis/` |")[2]
        .partition("\n\n")[0]
    )
    named = set(re.findall(r"^\| `(\w+\.py)` \|", table, re.MULTILINE))
    modules = {path.name for path in (ROOT / "pto_jax/analysis").glob("*.py")}
    # The text above the table is about the module that gives the facts.
    assert named == modules - {"__init__.py", "resolve.py"}


def test_links_to_missing_files_and_anchors_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here"></a><a href="https://x.org/y"></a><a href="#top"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"></p><img src="none.svg"><a href="a.html#none"></a>')
    assert sorted(site_check.broken_links(tmp_path)) == [
        "a.html: #top leads nowhere",
        "b.html: a.html#none leads nowhere",
        "b.html: none.svg leads nowhere",
    ]


def test_without_a_site_nothing_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert site_check.main([str(tmp_path)]) == 2
    assert "are needed" in capsys.readouterr().err
