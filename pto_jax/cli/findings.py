"""Findings of the verifier for other tools: annotations of GitHub, JSON and SARIF."""

import json
import re
from collections.abc import Container, Sequence
from typing import Any

from .. import __version__
from ..errors import Diagnostic

FORMATS = ("text", "github", "json", "sarif")
_LEVELS = {"error": "error", "warning": "warning"}
#: What a finding without a rule is called.
_NO_RULE = "verifier"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def placed(diagnostic: Diagnostic, file: str | None) -> str:
    """A finding with its place in the text, or at least its file."""
    text = as_options(diagnostic.render())
    return text if diagnostic.span or file is None else f"{file}: {text}"


def github(diagnostic: Diagnostic, file: str) -> str:
    r"""A finding as a command of GitHub's workflows, which shows it at its line.

    >>> github(Diagnostic("error", "100% wrong\nhere", rule="tadd.types"), "a,b.pto")
    '::error file=a%2Cb.pto,title=tadd.types::100%25 wrong%0Ahere'
    """
    span = diagnostic.span
    place = f",line={span.line},col={span.col}" if span is not None else ""
    name = _property(span.file if span is not None else file)
    level = _LEVELS.get(diagnostic.severity, "notice")
    title = _property(_rule(diagnostic))
    return f"::{level} file={name}{place},title={title}::{_data(_text(diagnostic))}"


def as_json(findings: Sequence[tuple[str, Diagnostic]]) -> str:
    """Findings, each with the name of its file, as a JSON list of their parts."""
    return json.dumps([d.to_json(file) for file, d in findings], indent=1)


def sarif(findings: Sequence[tuple[str, Diagnostic]]) -> str:
    """Findings, each with the name of its file, as a SARIF log."""
    rules = sorted({_rule(d) for _, d in findings})
    driver = {
        "name": "pto-jax",
        "version": __version__,
        "rules": [{"id": rule} for rule in rules],
    }
    results = [_result(file, d, rules) for file, d in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _result(file: str, diagnostic: Diagnostic, rules: Sequence[str]) -> dict[str, Any]:
    span, rule = diagnostic.span, _rule(diagnostic)
    place: dict[str, Any] = {"artifactLocation": {"uri": span.file if span is not None else file}}
    if span is not None:
        place["region"] = {"startLine": span.line, "startColumn": span.col}
    parts = {k: v for k, v in diagnostic.to_json().items() if k in ("got", "allowed", "fix") and v}
    return {
        "properties": parts,
        "ruleId": rule,
        "ruleIndex": rules.index(rule),
        "level": _LEVELS.get(diagnostic.severity, "note"),
        "message": {"text": _text(diagnostic)},
        "locations": [{"physicalLocation": place}],
    }


#: Arguments of functions that commands have in another form.
_OPTIONS = (
    (r'context=\{"(\w+)": "(\w+)"\}', r"--context \1=\2"),
    (r'peers=\{"(\w+)": \["(\w+)", (\d+)\]\}', r"--peer \1=\2:\3"),
)


def as_options(text: str, options: Container[str] = ("profile", "ranks", "grid")) -> str:
    """A message whose fix is an argument of a function of Python, with the option of the command instead.

    >>> as_options('element type hif8 does not exist on a2a3; try: profile="a5"')
    'element type hif8 does not exist on a2a3; try: --profile a5'
    """
    for fix, option in _OPTIONS:
        text = re.sub(f"; try: {fix}", f"; try: {option}", text)
    text = re.sub(r"; try: shared=\[([^]]*)\]", lambda m: f"; try: --shared {_bare(m[1])}", text)

    def named(fix: re.Match[str]) -> str:
        name = fix[1].replace("_", "-")
        return f"; try: --{name} {fix[2]}" if fix[1] in options else fix[0]

    return re.sub(r'; try: (\w+)="?([\w.-]+)"?(?: \(--grid \d+\))?(?=$|\n)', named, text)


def _bare(names: str) -> str:
    return re.sub(r"['\s]", "", names)


def _text(diagnostic: Diagnostic) -> str:
    about = [part for part in (diagnostic.instruction, diagnostic.operand) if part]
    return f"{': '.join(about)}: {diagnostic.message}" if about else diagnostic.message


def _rule(diagnostic: Diagnostic) -> str:
    return diagnostic.rule or _NO_RULE


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
