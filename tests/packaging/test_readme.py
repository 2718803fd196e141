"""What the README shows is what happens, and its numbers are those of their sources."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pto_jax.cli.main import main
from pto_jax.examples import EXAMPLES, ON_RANKS
from pto_jax.vectors.conformance import unsupported_reason
from pto_jax.vectors.exclusions import exclusion, not_required
from pto_jax.vectors.manifest import load_file, vector_files

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = "\n".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
#: Programs that were measured beside jnp, by numerics.
TABLE = json.loads((ROOT / "benchmarks/bench_table.json").read_text(encoding="utf-8"))["rows"]


def test_the_python_examples_print_what_their_comments_say(tmp_path: Path) -> None:
    """In a file, because kernels find their names in their source."""
    script = tmp_path / "readme.py"
    script.write_text(PYTHON)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    printed = re.findall(r"^print\(.*\)(?:  |\n)# (.*)$", PYTHON, re.MULTILINE)
    assert run.stdout.splitlines() == printed and len(printed) == PYTHON.count("print(")


def test_its_command_prints_what_stands_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    command, shown = re.findall(r"```sh\n.*&& \S*pto-jax (.*)\n```\n\n```text\n(.*?)```", TEXT, re.DOTALL)[0]
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out == shown


def test_its_two_commands_are_there_once() -> None:
    lines = [x for x in TEXT.splitlines() if x.startswith("python3 -m venv .venv")]
    assert len(lines) == 2 and "--example" in lines[0] and "-m pytest" in lines[1]


def test_the_first_screen_is_short_and_shows_a_result() -> None:
    assert len(TEXT.split()) <= 900
    assert "# [2.0, 0.0, 65504.0, nan]" in "\n".join(TEXT.splitlines()[:20])
    assert re.search(r"^!\[.*\]\(docs/_static/tile.svg\)$", TEXT, re.MULTILINE)


def ratios(numerics: str) -> str:
    """The least and the largest time over jnp, as the README writes them."""
    values = [row["value"] for name, row in TABLE.items() if name.endswith(f" {numerics} over jnp")]
    assert len(values) == len(EXAMPLES)
    least, most = (f"{v:.1f}" if v < 1 else f"{v:.0f}" for v in (min(values), max(values)))
    return f"{least} to {most} times"


def test_its_numbers_are_those_of_their_sources() -> None:
    exact, fast = ratios("exact"), ratios("fast")
    assert f"{exact} as long as hand-written `jax.numpy` in exact numerics and {fast} in" in TEXT
    assert f"`pto-jax run --example list` shows {len({**EXAMPLES, **ON_RANKS}) - 1} more" in TEXT
    recorded = re.findall(r"([\d,]+) (?:recorded )?results of the public CPU simulator", TEXT)
    page = (ROOT / "docs/how-to/conformance.md").read_text(encoding="utf-8")
    recorded += re.findall(r"([\d,]+) results of the public CPU simulator", page)
    assert recorded == [f"{_required():,}"] * 2


#: The numbers up to twenty, as pages write them.
_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()


def test_the_numbers_of_the_page_on_speed_are_those_of_the_table() -> None:
    page = (ROOT / "docs/how-to/speed.md").read_text(encoding="utf-8").partition("## Kernels that miss")[2]
    times = {n: tuple(TABLE[f"{n} {k} over jnp"]["value"] for k in ("fast", "exact")) for n in EXAMPLES}
    missing = {name for name, (fast, exact) in times.items() if fast > 1.5 or exact > 4}
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([^|]+) \|", page, re.MULTILINE)
    assert {name for name, _, _ in rows} == missing
    reached, every = _WORDS[len(times) - len(missing)], _WORDS[len(times)]
    assert f" {reached} of {every} examples reach both" in page
    for name, fast, exact in rows:
        assert fast == f"{times[name][0]:.1f}", name
        least, _, most = exact.partition(" to ")
        assert float(least) - 0.5 <= times[name][1] <= float(most or least) + 0.5, name
    longer = TABLE["exact / fast, chain of 8"]["value"]
    assert f"in a row take {longer:.1f} times as long in exact as in fast" in page
    assert f"`topk` takes {times['topk'][1]:.1f} times the time of `jnp`" in page


def _required() -> int:
    """The recorded cases that are a requirement."""
    cases = [case for file in vector_files([ROOT / "tests/golden"]) for case in load_file(file)]
    return sum(not (unsupported_reason(c) or exclusion(c) or not_required(c)) for c in cases)
