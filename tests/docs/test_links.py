"""Links of the pages that are read without the site, and of the site's sources, lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.test_words import GENERATED

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
