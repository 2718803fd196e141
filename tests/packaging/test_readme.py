"""What the README shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_python_examples_print_what_their_comments_say(tmp_path: Path) -> None:
    """In a file, because kernels find their names in their source."""
    script = tmp_path / "readme.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)))
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    shape, error, distance, dtype, layer, one = run.stdout.splitlines()
    assert (shape, dtype, one) == ("(1000, 16, 64)", "float16", "1.0")
    assert layer == "True float16 (1000, 16, 64)"
    assert error.startswith("<text>:1:13: error: tadd: operand src0: src0 has element type f16")
    assert 0 < float(distance) < 4e-7


def test_its_two_commands_are_there_once() -> None:
    lines = [x for x in README.read_text().splitlines() if x.startswith("python3 -m venv .venv")]
    assert len(lines) == 2 and "--example" in lines[0] and "-m pytest" in lines[1]
