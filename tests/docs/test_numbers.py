"""Numbers of pages that are measured, counted or bounded are those of their sources, listed here."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pto_jax import isa
from pto_jax.files.arrays import MAX_ARRAYS
from pto_jax.files.read import MAX_TEXT
from pto_jax.ir import Loc
from pto_jax.order.walk import LIMIT, MEETING
from pto_jax.profiles import PROFILES
from pto_jax.runtime.debug.inspection import Collector

ROOT = Path(__file__).parents[2]
#: Pages that are written by hand; the other ones are made of declarations and tables.
PAGES = ["README.md"] + [
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if not re.search(r"docs/gallery/|docs/reference/(?!glossary|support)", path.as_posix())
]
NUMBER = re.compile(
    r"(?<![\w.])\d[\d,.]*(?: to \d[\d.]*)? (?:ms|s|ns|seconds|minutes|hours|times|million|[KMG]iB|launches|"
    r"kernels|operations|steps|results|ULP|percent|vector operations)\b"
)
#: Tests that compare a number in its sentence.
README = "tests/packaging/test_readme.py"


def ulp() -> str:
    """The largest declared distance of a result from the exact one."""
    declared = [i.accuracy.text for i in isa.instructions().values() if "ULP" in i.accuracy.text]
    bounds = {int(n) for text in declared for n in re.findall(r"(\d+) ULP", text)}
    return f"{max(bounds | {o.ulp for o in isa.micro_operations().values()})} ULP"


def _capacity() -> str:
    return f"{PROFILES['a2a3'].capacity[Loc.VEC] >> 10} KiB"


def _target(numerics: str) -> str:
    text = (ROOT / "docs/generated.py").read_text(encoding="utf-8")
    (targets,) = re.findall(r"^_TARGETS = (\{.*\})$", text, re.MULTILINE)
    return f"{ast.literal_eval(targets)[numerics]:g} times"


def _steps() -> str:
    return f"{Collector.__dataclass_fields__['limit'].default:,} steps"


#: The source of each number, or the file with the test of its sentence.
SOURCES: dict[tuple[str, str], Callable[[], str] | str] = {
    **{(page, "1 ULP"): ulp for page in (
        "README.md", "docs/index.md", "docs/explanation/exactness.md", "docs/reference/support.md")},
    ("README.md", "0.6 to 5 times"): README,
    ("README.md", "0.6 to 3 times"): README,
    ("docs/how-to/conformance.md", "5,976 results"): README,
    ("docs/how-to/speed.md", "1.6 times"): README,
    ("docs/how-to/speed.md", "1.2 times"): README,
    ("docs/how-to/speed.md", "1.5 times"): lambda: _target("fast"),
    ("docs/how-to/speed.md", "4 times"): lambda: _target("exact"),
    ("docs/how-to/debug_a_kernel.md", "1,000 steps"): _steps,
    ("docs/how-to/find_a_missing_barrier.md", "8,000 operations"): lambda: f"{MEETING:,} operations",
    ("docs/how-to/find_a_missing_barrier.md", "40,000 operations"): lambda: f"{LIMIT:,} operations",
    ("docs/how-to/pictures.md", "192 KiB"): _capacity,
    ("docs/how-to/run_a_program.md", "64 MiB"): lambda: f"{MAX_TEXT >> 20} MiB",
    ("docs/how-to/run_a_program.md", "1 GiB"): lambda: f"{MAX_ARRAYS >> 30} GiB",
}  # fmt: skip


def numbers(text: str) -> list[str]:
    """The numbers of a page outside of blocks of code."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return list(dict.fromkeys(m[0] for m in NUMBER.finditer(prose)))


@pytest.mark.parametrize("page", PAGES)
def test_every_number_of_a_page_has_a_source(page: str) -> None:
    shown = numbers((ROOT / page).read_text(encoding="utf-8"))
    assert set(shown) == {number for where, number in SOURCES if where == page}
    for number in shown:
        source = SOURCES[page, number]
        if callable(source):
            assert source() == number
        else:
            assert (ROOT / source).is_file()


def test_a_number_without_a_source_is_seen() -> None:
    assert numbers("A call takes 40 ms.\n```\n7 steps\n```\nand 3.8 times as long.") == ["40 ms", "3.8 times"]
