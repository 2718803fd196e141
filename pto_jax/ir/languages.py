"""Versions of the text language, called by the month of the assembler that defines them."""

from typing import Literal, TypeAlias, get_args

Language: TypeAlias = Literal["2026-04", "2026-08"]
#: Every version, oldest first.
LANGUAGES: tuple[Language, ...] = get_args(Language)
#: The version of a text that does not say which it is in.
PRESENT: Language = LANGUAGES[-1]
#: The attribute of a module that says which version its text is in.
LANGUAGE_KEY = "pto.language"


def language(name: object) -> Language | None:
    """The version of a name, None where there is none.

    >>> language("2026-04"), language("2025-01")
    ('2026-04', None)
    """
    return next((version for version in LANGUAGES if version == name), None)
