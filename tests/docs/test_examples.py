"""Every example of the site's pages is executed, page by page, each in a folder of its own."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pto_jax.cli.main import main
from tests.docs.test_words import GENERATED

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if not set(p.parts) & set(GENERATED))
#: Languages of blocks that are no examples of this package, and of what they are.
OTHER = {
    "console": "installing",
    "text": "what commands print, and commands on files that a page does not have",
    "lua": "settings of an editor",
    "toml": "settings of an editor",
    "{toctree}": "the order of pages",
    "{eval-rst}": "what Sphinx makes of docstrings, whose examples the doctests execute",
    "{generated}": "a table that the build makes",
    "{include}": "a part that the build makes",
}
#: Folders and pages that need no example.
WITHOUT = ("docs", "project", "reference", "python", "related_tools")
#: A page whose Python changes the process that executes it.
_ALONE = "<!-- executed in a process of its own -->"
_FENCE = re.compile(
    r"^```(\{[\w-]+\}|\w+)[ ]*(\w*)\n((?::\w+:[^\n]*\n)*)(.*?)^```$", re.MULTILINE | re.DOTALL
)
#: What a line prints stands behind it, or on the next line if it is long.
_PRINTED = re.compile(r"^(?:    )*print\(.*\)(?:  |\n)# (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of a page; one with a caption is the file of that name."""

    language: str
    text: str
    line: int
    file: str | None = None
    before: str = ""


def blocks(page: Path) -> Iterator[Block]:
    source = page.read_text(encoding="utf-8")
    assert source.count("```") == 2 * len(_FENCE.findall(source)), f"{page}: a block that is not understood"
    for match in _FENCE.finditer(source):
        kind, argument, options, text = match.groups()
        caption = re.search(r"^:caption: (\S+)$", options, re.MULTILINE)
        line = source.count("\n", 0, match.start()) + 1
        language = argument if kind == "{code-block}" else kind
        before = source[: match.start()].rstrip().rpartition("\n")[2]
        yield Block(language, text.strip("\n") + "\n", line, caption and caption[1], before)


def printed_by(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints; commands of other programs, which make files, are executed by a shell."""
    if not command.startswith("pto-jax "):
        return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    main(shlex.split(command)[1:])
    said = capsys.readouterr()
    return said.out + said.err


def assert_shown(place: str, shown: str, output: str) -> None:
    """Compare an output with what a page shows: other line breaks, and ``...`` for what is left out."""
    rest = " ".join(output.split())
    for part in filter(str.strip, re.split(r"(?<!\S)\.\.\.(?!\S)", shown)):
        words = " ".join(part.split())
        assert words in rest, f"{place}: {words!r} is not in {output!r}"
        rest = rest.partition(words)[2]


def transcript(place: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Execute the commands of a terminal, which begin with ``$``, and compare what follows each."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        assert_shown(place, shown, printed_by(command, capsys))


def is_output(text: str) -> bool:
    """Whether a block below commands is what they print, and no list of other commands."""
    return not re.match(r"\$ |pto-jax |python3? |\S+/python ", text)


def execute(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Write the files of a page and execute its other blocks; how many were executed."""
    names: dict[str, object] = {}
    count, output = 0, ""
    for block in blocks(page):
        place = f"{page.name}:{block.line}"
        if block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            # In a file, because kernels find their names in their source.
            script = folder / f"block{block.line}.py"
            script.write_text(block.text, encoding="utf-8")
            if _ALONE in page.read_text(encoding="utf-8"):
                done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{place}: {done.stderr}"
                printed = done.stdout.splitlines()
            else:
                names |= runpy.run_path(str(script), names)
                printed = capsys.readouterr().out.splitlines()
            expected = _PRINTED.findall(block.text)
            assert printed == expected, f"{place}: {printed}"
            count += 1
        elif block.language == "sh":
            output = ""
            for command in block.text.replace("\\\n", "").splitlines():
                words = shlex.split(command)
                assert words[0] == "pto-jax", f"{place}: {command}"
                status = main(words[1:])
                said = capsys.readouterr()
                assert status == 0 and said.out, f"{place}: {command}: {said}"
                output += said.out
            count += 1
            continue
        elif block.language == "text" and block.text.startswith("$ "):
            transcript(place, block.text, capsys)
        elif block.language == "text" and output and is_output(block.text):
            assert_shown(place, block.text, output)
        elif shown := re.search(r"`print\((\w+)\)` writes:$", block.before):
            assert_shown(place, block.text, str(names[shown[1]]))
        else:
            assert block.language in OTHER, f"{place}: {block.language} is not executed"
        output = ""
    return count


#: Pages whose examples take seconds; ``.ci/run`` has them among its slow tests.
SLOW = ("random_testing", "layers", "connect_a_device", "add_an_instruction", "quantised_layer")
_EACH = [
    pytest.param(p, marks=[pytest.mark.slow] * (p.stem in SLOW), id=str(p.relative_to(DOCS))) for p in PAGES
]


@pytest.mark.parametrize("page", _EACH)
def test_examples_of_the_pages(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # The interpreter that `python` is in the commands of a page has the package.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(DOCS.parent), prepend=os.pathsep)
    executed = execute(page, tmp_path, capsys)
    assert executed or page.parent.name in WITHOUT or page.stem in WITHOUT


def test_a_wrong_example_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    for text in (
        "```python\nprint(1)  # 2\n```\n",
        "```sh\npto-jax verify none.pto\n```\n",
        "```sh\nrm -r x\n```\n",
        "```rust\nlet x = 1;\n```\n",
        "```python\n```\n```\n",
        "```sh\npto-jax isa tadd\n```\n\n```text\ntsub: a difference\n```\n",
        "```text\n$ pto-jax isa tad\nno error\n```\n",
        "```python\nx = 3\n```\n\n`print(x)` writes:\n\n```text\n4\n```\n",
    ):
        page.write_text(text)
        with pytest.raises(AssertionError):
            execute(page, tmp_path, capsys)
