"""PTO text for editors that take TextMate grammars (VS Code, Sublime Text, JetBrains, GitHub).

``python -m tools.textmate`` writes ``pto.tmLanguage.json`` beside this file from the reader's
tokens and tables; a test holds the committed file against it.
"""

import json
import re
from collections.abc import Iterable
from importlib.resources import files

from pto_jax.editors.highlighting import SIZES, Category, constants, instructions, keywords, operations
from pto_jax.files import write_text
from pto_jax.ir import DTYPE_NAMES
from pto_jax.text.attributes import EVENT_PREFIX
from pto_jax.text.lexer import PATTERNS, Kind

GRAMMAR = files("pto_jax.editors") / "pto.tmLanguage.json"
#: The scope of each category; what has none is shown as other text.
SCOPES = {
    Category.COMMENT: "comment.line.pto",
    Category.STRING: "string.quoted.double.pto",
    Category.NUMBER: "constant.numeric.pto",
    Category.VALUE: "variable.other.pto",
    Category.SYMBOL: "entity.name.function.pto",
    Category.TYPE: "storage.type.pto",
    Category.ATTRIBUTE: "support.type.attribute.pto",
    Category.LABEL: "entity.name.label.pto",
    Category.INSTRUCTION: "support.function.instruction.pto",
    Category.OPERATION: "keyword.control.pto",
    Category.KEYWORD: "keyword.other.pto",
    Category.CONSTANT: "constant.language.pto",
    Category.NAME: "variable.parameter.pto",
    Category.PUNCTUATION: "punctuation.pto",
    Category.ERROR: "invalid.illegal.pto",
}
_NAME = PATTERNS[Kind.BARE_IDENT]
_WORD_ENDS = r"(?![a-zA-Z0-9_$.])"
#: Tokens in the order in which they are tried: the longer of two that begin alike stands first.
_TOKENS = (
    (Category.STRING, (Kind.STRING_LIT, Kind.BYTES_LIT)),
    (Category.SYMBOL, (Kind.AT_IDENT,)),
    (Category.VALUE, (Kind.PERCENT_IDENT,)),
    (Category.TYPE, (Kind.EXCLAMATION_IDENT,)),
    (Category.PUNCTUATION, (Kind.METADATA_BEGIN, Kind.METADATA_END)),
    (Category.ATTRIBUTE, (Kind.HASH_IDENT,)),
    (Category.LABEL, (Kind.CARET_IDENT,)),
    (Category.NUMBER, (Kind.FLOAT_LIT, Kind.INTEGER_LIT)),
)


def rules() -> list[tuple[Category, str]]:
    """Categories and regular expressions, the first of which that matches at a place counts.

    An expression for each token and each table of words, then any word, punctuation, and any other character.
    """
    listed = [(Category.COMMENT, r"//.*$"), (Category.COMMENT, r"^[ \t]*#(?=[ \t#]|$).*$")]
    listed += [(c, "|".join(PATTERNS[kind] for kind in kinds)) for c, kinds in _TOKENS]
    known = {kind for _, kinds in _TOKENS for kind in kinds} | {Kind.BARE_IDENT}
    listed += [
        (Category.NUMBER, SIZES),
        (Category.INSTRUCTION, _words(instructions(), r"(?:pto\.)?")),
        (Category.OPERATION, _words(operations(), r"(?:pto\.)?")),
        (Category.KEYWORD, _words(keywords())),
        (Category.CONSTANT, f"{_words(constants())}|{EVENT_PREFIX}[0-9]+{_WORD_ENDS}"),
        (Category.TYPE, "(?i:" + _words(DTYPE_NAMES) + ")"),
        (Category.NAME, _NAME),
        (Category.PUNCTUATION, "|".join(p for kind, p in PATTERNS.items() if kind not in known)),
        (Category.ERROR, r"[^ \t]"),
    ]
    return listed


def _words(names: Iterable[str], prefix: str = "") -> str:
    return f"{prefix}(?:{'|'.join(re.escape(n) for n in sorted(names))}){_WORD_ENDS}"


def grammar() -> str:
    """The grammar as JSON."""
    record = {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "PTO",
        "scopeName": "source.pto",
        "fileTypes": ["pto"],
        "patterns": [{"match": pattern, "name": SCOPES[category]} for category, pattern in rules()],
    }
    return json.dumps(record, indent=1) + "\n"


if __name__ == "__main__":
    write_text(str(GRAMMAR), grammar())
