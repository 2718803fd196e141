"""The extension for VS Code: its files fit the language server, the grammar and the package."""

import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pto_jax
from pto_jax.editors.documents import _ALLOWED, Settings
from pto_jax.ir import TEXT_LANGUAGES
from pto_jax.profiles import PROFILE_NAMES
from tools.textmate import GRAMMAR

FOLDER = Path(__file__).parents[2] / "tools/vscode"
PACKAGE: dict[str, Any] = json.loads((FOLDER / "package.json").read_text())
PROPERTIES = PACKAGE["contributes"]["configuration"]["properties"]


def test_settings_are_those_of_the_server() -> None:
    names = {f.name for f in fields(Settings)}
    assert set(PROPERTIES) == {"pto.command", *(f"pto.{name}" for name in names)}
    for name in names:
        setting = PROPERTIES[f"pto.{name}"]
        allowed = setting.get("enum", [False, True])
        assert sorted(map(str, allowed)) == sorted(map(str, _ALLOWED[name])), name
        assert Settings().changed({name: setting["default"]}) == Settings()
    assert PROPERTIES["pto.profile"]["enum"][1:] == list(PROFILE_NAMES)
    assert PROPERTIES["pto.language"]["enum"][1:] == list(TEXT_LANGUAGES)
    client = (FOLDER / "extension.js").read_text()
    sent = re.search(r"SETTINGS = \[(.*)\]", client)
    assert sent is not None and set(re.findall(r'"(\w+)"', sent[1])) == names


def test_language_and_grammar_are_those_of_the_package() -> None:
    (language,) = PACKAGE["contributes"]["languages"]
    (grammar,) = PACKAGE["contributes"]["grammars"]
    source = json.loads(GRAMMAR.read_text())
    assert grammar["scopeName"] == source["scopeName"] and grammar["language"] == language["id"] == "pto"
    assert language["extensions"] == [f".{name}" for name in source["fileTypes"]]
    # The build copies the one grammar; no second one is kept.
    assert not list(FOLDER.glob("*.tmLanguage.json")) and "editors/pto.tmLanguage.json" in (
        (FOLDER / "build.js").read_text()
    )
    assert PACKAGE["version"] == pto_jax.__version__ and PROPERTIES["pto.command"]["default"] == [
        "pto-jax", "lsp",
    ]  # fmt: skip


def test_words_and_brackets_are_those_of_the_language() -> None:
    configuration = json.loads((FOLDER / language_file()).read_text())
    word = re.compile(configuration["wordPattern"])
    for text in ("%dst", "@main", "!pto.tile_buf", "pto.tadd", "tmatmul.mx.acc", "%0"):
        assert (match := word.match(text)) is not None and match[0] == text
    assert configuration["comments"] == {"lineComment": "//"}


def language_file() -> str:
    """The language configuration that the manifest names."""
    (language,) = PACKAGE["contributes"]["languages"]
    return str(language["configuration"])


def test_scripts_are_scripts() -> None:
    node = shutil.which("node")
    for name in ("extension.js", "build.js") if node else ():
        subprocess.run([str(node), "--check", FOLDER / name], check=True, timeout=60)
