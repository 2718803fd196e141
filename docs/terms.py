"""Links from the first use of each word of the glossary on a page, made when the site is built.

The Markdown sources stay without them, so that they can be read where no site is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

GLOSSARY = Path(__file__).parent / "reference/glossary.md"
#: Words that are more often used in their general meaning.
_GENERAL = frozenset({"case", "decision", "program", "rank", "shrink", "golden", "level 1, 2, 3"})
#: What is no prose: fences, directives, headings, tables, links, code, markup.
_BLOCK = re.compile(r"^(?:(```|:::+)[^\n]*\n.*?^\1|#[^\n]*|\|[^\n]*|---\n.*?^---)$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"\{[a-z:-]+\}`[^`]*`|`[^`\n]*`|!?\[[^\]\n]*\]\([^)\n]*\)|<[^>\n]*>|\*\*?[^*\n]*\*\*?")


def words() -> list[str]:
    """The terms of the glossary that pages link, the longest first."""
    text = GLOSSARY.read_text(encoding="utf-8").partition(":::{glossary}\n")[2]
    terms = [line for line in text.splitlines() if line and line[0] not in " :"]
    return sorted(set(terms) - _GENERAL, key=len, reverse=True)


def linked(page: str, terms: Iterable[str]) -> str:
    """A page whose first use of each term in prose is a link to the glossary.

    >>> linked("`tile` and tiles, a tile", ["tile"])
    '`tile` and {term}`tiles <tile>`, a tile'
    """
    for term in terms:
        kept = [m.span() for pattern in (_BLOCK, _INLINE) for m in pattern.finditer(page)]
        for match in re.finditer(rf"(?<![\w/.-]){re.escape(term)}s?(?![\w/-])", page):
            if not any(start < match.end() and match.start() < end for start, end in kept):
                role = match[0] if match[0] == term else f"{match[0]} <{term}>"
                page = f"{page[: match.start()]}{{term}}`{role}`{page[match.end() :]}"
                break
    return page
