"""Pages, help and messages use the words of the glossary (docs/reference/glossary.md)."""

import argparse
import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pto_jax.cli.commands import parser
from pto_jax.devices import contract
from pto_jax.isa import instructions
from pto_jax.manual import manual, topics

ROOT = Path(__file__).parents[2]
GENERATED = ("instructions", "registers", "language", "tables", "commands", "gallery")
PAGES, HELP, MESSAGES = "page", "help", "message"
_SUBJECTS = "texts?|sources?|programs?|names?|pages?|headers?|execution|XLA"

#: Where, what, and what to write instead.
WORDS = (
    ((PAGES, HELP, MESSAGES), r"\b(house|room|attic)s?\b(?! for)", "package, architecture"),
    ((PAGES, HELP, MESSAGES), r"\b[Mm]achines?\b(?! code| epsilon)", "executor, computer"),
    ((PAGES, HELP, MESSAGES), r"\b(meet|meets|meeting)\b", "synchronise, join, share"),
    ((PAGES, HELP, MESSAGES), r"\b(told|tells|nobody|handed (out|on|over)|at its word)\b", "who does what"),
    (
        (PAGES, HELP, MESSAGES),
        rf"\b({_SUBJECTS}) (say|says|know|knows|likes?|wants?|asks?|reads? well)\b",
        "the subject that acts",
    ),
    (
        (PAGES, HELP, MESSAGES),
        r"(^|[.;:|(] )[Ww]hat [a-z ]{2,40}\b(is|are|has|says|follows)\b(?![^.|]*\?)",
        "the noun",
    ),
    (
        (PAGES, HELP),
        r"\b(no idea|get through|as it should be|come, go|made small|goes on)\b",
        "a positive verb",
    ),
    ((PAGES, HELP, MESSAGES), r"\bhands? (it |them |a \w+ )?(on|over|out)\b", "pass, return"),
    (
        (PAGES, HELP),
        r"\bof (one's|your|its|their) own\b|\bby (itself|themselves)\b",
        "custom, your, alone",
    ),
    (
        (HELP,),
        r"\b[Ww]hat (an?|the|its?|each|every|no|programs|generated|versions|orders|stands|is|follows|two)\b",
        "the noun",
    ),
    ((HELP,), r"\b(knows?|come and go|made of)\b", "the noun, or the subject that acts"),
    ((MESSAGES,), r"\bfound\b(?! in\b)", "got"),
    ((MESSAGES,), r"\b([a-z]{2,}) \1\b|\ba (index|i8|i16|i32|i64|u8|f\d+)\b", "the right article, one word"),
)
_WAIVER = re.compile(r"<!-- word: .+ -->")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
#: Columns of code, of the output of commands, and of commands, which phones show without scrolling.
_LONG, _LONG_OUTPUT, _LONG_COMMAND = 88, 96, 44


def problems(kind: str, source: str, text: str) -> Iterator[str]:
    """Words of a text that the glossary has another word for, with their line."""
    for number, line in enumerate(text.splitlines(), 1):
        if _WAIVER.search(line):
            continue
        for kinds, word, instead in WORDS:
            if kind in kinds and (match := re.search(word, line)):
                yield f"{source}:{number}: {match[0].strip(' .;:|(')!r}; write: {instead}"


def prose(page: Path) -> str:
    """A page without its code, line by line."""
    return CODE.sub(lambda m: "\n" * m[0].count("\n") or "`code`", page.read_text(encoding="utf-8"))


def pages() -> list[Path]:
    docs = (p for p in (ROOT / "docs").rglob("*.md") if not set(p.parts) & set(GENERATED))
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(docs)]


def notebooks() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def cells(notebook: Path) -> str:
    """The text between the code of a notebook."""
    listed = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(c["source"]) for c in listed if c["cell_type"] == "markdown")


def helps(sub: argparse.ArgumentParser, name: str = "pto-jax") -> Iterator[tuple[str, str]]:
    """The descriptions and option texts of a parser and of its commands."""
    yield name, f"{sub.description or ''}\n{sub.epilog or ''}"
    for group in sub._action_groups:
        yield f"{name} group", group.title or ""
    for action in sub._actions:
        if action.help and action.help != argparse.SUPPRESS:
            yield f"{name} {'/'.join(action.option_strings) or action.dest}", action.help
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield f"{name} {choice.dest}", choice.help or ""
            for command, below in action.choices.items():
                yield from helps(below, f"{name} {command}")


def messages() -> Iterator[tuple[str, str]]:
    """The constant parts of texts in calls of errors and diagnostics."""
    for file in sorted([*(ROOT / "pto_jax").rglob("*.py"), *(ROOT / "lowering").rglob("*.py")]):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                function = node.func
                name = getattr(function, "id", getattr(function, "attr", ""))
                if name.endswith("Error") or name in ("Diagnostic", "error", "warning"):
                    parts = [" ".join(_constants(a)) for a in (*node.args, *(k.value for k in node.keywords))]
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", "; ".join(parts)


def _constants(argument: ast.expr) -> Iterator[str]:
    for part in ast.walk(argument):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_use_the_words_of_the_glossary(page: Path) -> None:
    assert list(problems(PAGES, page.name, prose(page))) == []


def test_pages_of_instructions_use_the_words_of_the_glossary() -> None:
    for name in (*instructions(), *topics()):
        # Names of rules are identifiers: mask-room.
        text = re.sub(r"\w+-room\b", "rule", CODE.sub("`code`", manual(name, "markdown")))
        assert list(problems(PAGES, name, text)) == []


@pytest.mark.parametrize("notebook", notebooks(), ids=lambda p: p.stem)
def test_notebooks_use_the_words_of_the_glossary(notebook: Path) -> None:
    text = CODE.sub("`code`", cells(notebook))
    assert len(text) > 1000
    assert list(problems(PAGES, notebook.name, text)) == []


def test_help_uses_the_words_of_the_glossary() -> None:
    assert [p for name, text in helps(parser()) for p in problems(HELP, name, text)] == []
    assert list(problems(HELP, "--help-dut", contract.text())) == []


@pytest.mark.slow
def test_messages_use_the_words_of_the_glossary() -> None:
    assert [p for name, text in messages() for p in problems(MESSAGES, name, text)] == []


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_code_of_pages_fits_a_narrow_window(page: Path) -> None:
    wide = []
    text = page.read_text(encoding="utf-8")
    for language, block in re.findall(r"^```(\S*)(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        command = language == "sh" and "docs" in page.parts
        limit = _LONG_OUTPUT if language == "text" else _LONG_COMMAND if command else _LONG
        # One-line set-up commands, output that a comment quotes, and words in quotes that cannot be parted.
        lines = (x for x in block.splitlines() if not x.startswith(("python3 -m venv", "# ")))
        lines = (x for x in lines if not command or "'" not in x)
        wide += [line for line in lines if len(line) > limit]
    assert wide == []


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_print_values_that_can_be_checked(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^\s*print\(.*\)\s+# (?:True|False)$", text, re.MULTILINE) == []


def test_each_word_is_noticed() -> None:
    planted = (
        "all rooms",
        "two machines",
        "blocks that meet",
        "it is told",
        "the text says",
        "What a profile has",
        "it goes on",
        "hands them on",
        "by itself",
        "what a campaign found",
        "a store that knows its options",
        "found 3",
        "the the",
    )
    for (kinds, _, instead), text in zip(WORDS, planted, strict=True):
        assert [p for p in problems(kinds[0], "x", text) if p.endswith(instead)], text
    assert not list(problems(PAGES, "x", "machine code by itself <!-- word: a name -->"))
    assert list(problems(PAGES, "x", "machine code")) == []
