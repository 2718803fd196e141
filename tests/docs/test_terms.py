"""Links to the glossary, which the build of the site adds to pages."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

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
