"""The pages that are made when the site is built: one for each declaration, topic and command."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pto_jax import isa
from pto_jax.cli.commands import parser
from pto_jax.cli.examples import session
from pto_jax.examples import EXAMPLES
from pto_jax.isa import instructions
from pto_jax.manual import topics
from tests.docs.test_words import CODE, PAGES, problems

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        spec.loader.exec_module(module)
    return module


#: Instructions whose pictures are drawn in every run: their calls are compiled.
DRAWN = (
    *("trowsum", "tcolexpand", "tgather", "tsort32", "tfillpad", "ttrans", "tmatmul", "tcvt"),
    *("tload", "tstore", "mgather", "mscatter"),
)


@pytest.fixture(scope="module")
def pages(generated: ModuleType) -> dict[str, str]:
    """All pages, with the pictures of :data:`DRAWN`, and of instructions that have none."""
    module = generated.instruction_pages
    draw = module.picture
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "picture", lambda i: draw(i) if i.name in DRAWN or i.lanes == "same" else "")
        return dict(generated.pages())


@pytest.mark.nightly
@pytest.mark.slow
def test_everything_has_a_page_that_its_index_lists(generated: ModuleType) -> None:
    pages = dict(generated.pages())
    assert all(name.startswith(generated.FOLDERS) for name in pages)
    index = pages["reference/instructions/index.md"]
    for name, instruction in instructions().items():
        page = pages[f"reference/instructions/{name}.md"]
        assert page.startswith(f"---\norphan: true\n---\n\n# {name}\n\n{instruction.summary}\n")
        assert f"[{name}]({name}.md)" in index
        assert page.count("\n## ") >= 2 and ("```pycon" in page) == bool(session(instruction))
        assert "\n## Types\n" in page
    for name, topic in topics().items():
        heading = topic.title or name.capitalize()
        assert pages[f"reference/language/{name}.md"].startswith(f"# {heading}\n")
    usage = parser().format_help()
    for command in re.findall(r"^    (\w+) ", usage, re.MULTILINE):
        assert f"usage: pto-jax {command} " in pages[f"reference/commands/{command}.md"]
        assert f"[{command}]({command}.md)" in pages["reference/commands/index.md"]


def test_pages_show_pictures_where_lanes_move_and_matrices_of_types(pages: dict[str, str]) -> None:
    for name in DRAWN:
        assert f"({name}.svg)" in pages[f"reference/instructions/{name}.md"]
        assert pages[f"reference/instructions/{name}.svg"].startswith("<svg ")
    assert "reference/instructions/tadd.svg" not in pages
    for name in instructions():
        page = pages[f"reference/instructions/{name}.md"]
        assert "## Types\n\n" in page and ("## PTO text\n" in page or name.endswith("hif4")), name
        # Two products of HiF4 are verified and not built in Python.
        assert "## Python\n\n```pycon\n>>> " in page or name.endswith("hif4"), name
    page = pages["reference/instructions/tcvt.md"]
    assert "| *S* \\ *D* | f32 | f16 |" in page and page.count(":::{tab-item}") == 6
    assert "| a2a3 | x | x | x |" in pages["reference/instructions/tadd.md"]
    # Signs of a declaration mean nothing in Markdown.
    assert r"column 32\*b\*R of dst" in pages["reference/instructions/tsort32.md"]
    assert r"src[r,c] \<mode> kValue" in pages["reference/instructions/tgather.md"]
    assert "disagrees: Does tadd take 64-bit integers on a5?" in pages["reference/instructions/tadd.md"]


def test_layouts_and_regions_are_drawn(pages: dict[str, str]) -> None:
    for name in ("ND", "DN", "NZ", "ZN", "ZZ", "NN"):
        assert f"(layout-{name}.svg)" in pages["reference/tables/layouts.md"]
        assert f"layout {name}" in pages[f"reference/tables/layout-{name}.svg"]
    missing = pages["reference/tables/region-2-a2a3.svg"], pages["reference/tables/region-2-cpu_sim.svg"]
    # The lanes that the source lacks: NaN on hardware, the stored numbers in the simulator.
    assert [">NaN<" in picture for picture in missing] == [True, False]
    assert pages["reference/tables/regions.md"].count(".svg)") == 6


def test_tables_are_those_of_the_declarations(pages: dict[str, str]) -> None:
    accuracy = pages["reference/tables/accuracy.md"]
    bounded = [i for i in instructions().values() if i.ulp]
    assert bounded and accuracy.count("instructions/") == sum(len(set(i.ulp.values())) for i in bounded)
    micro = [o for o in isa.micro_operations().values() if o.ulp]
    assert micro and all(f"| `{o.name}` | " in accuracy for o in micro)
    exactness = (DOCS / "explanation/exactness.md").read_text(encoding="utf-8")
    listed = exactness.partition("no correctly rounded definition")[2].partition("within")[0]
    names = {i.name for i in bounded} | {o.name.removeprefix("vmi.") for o in micro}
    assert set(re.findall(r"`(\w+)`", listed)) == names
    # One word for each in the README.
    assert names == {n for n in names if re.search("exp|log|ln|pow", n)}
    assert "| `tcvt` | default |" in pages["reference/tables/changes.md"].replace("2026-08 | ", "")


def test_tables_use_the_words_of_the_glossary(pages: dict[str, str]) -> None:
    tables = {n: text for n, text in pages.items() if n.startswith("reference/tables/") and n.endswith(".md")}
    assert len(tables) == 6
    for name, text in tables.items():
        assert list(problems(PAGES, name, CODE.sub("`code`", text))) == []


def test_performance_is_what_was_measured(
    generated: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "BENCH_TABLE", tmp_path / "table.json")
    assert "No table is committed" in generated.performance()
    ratios = {"softmax fast": 1.5, "softmax exact": 8.79, "topk fast": 1.2, "topk exact": 3.0}
    rows = {f"{name} over jnp": {"value": v} for name, v in ratios.items()}
    rows["call of a kernel"] = {"value": 1.9451}
    table = {"platform": "cpu", "machine": "two cores", "versions": {"jax": "0.10"}, "date": "2026-11-23"}
    (tmp_path / "table.json").write_text(json.dumps({**table, "rows": rows}))
    page = generated.performance()
    assert "two cores; jax 0.10" in page and "1 of 2 kernels reach both" in page
    assert (
        "| [softmax](../../gallery/softmax.md) | 1.50 | ok |" in page
        and '| 8.79 | <span class="missed">MISS</span> |' in page
    )
    assert "| call of a kernel | 1.95 |" in page


def test_every_measured_ratio_stands_on_the_page(generated: ModuleType) -> None:
    rows = json.loads(generated.BENCH_TABLE.read_text())["rows"]
    assert rows and not [
        n for n, row in rows.items() if f"| {row['value']:.2f} |" not in generated.performance()
    ]


def test_an_earlier_build_leaves_nothing(
    generated: ModuleType, pages: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "pages", lambda: pages.items())
    monkeypatch.setattr(generated, "gallery", lambda: ())
    old = tmp_path / "reference" / "instructions" / "tgone.md"
    old.parent.mkdir(parents=True)
    old.touch()
    generated.write(tmp_path)
    assert not old.exists() and (tmp_path / "reference/instructions/tadd.md").exists()


@pytest.mark.nightly
@pytest.mark.slow
def test_the_gallery_has_a_page_with_three_pictures_for_each_example(generated: ModuleType) -> None:
    files = dict(generated.gallery())
    for name in EXAMPLES:
        page = files[f"gallery/{name}.md"]
        for picture in ("result", "memory", "timeline"):
            assert f"({name}-{picture}.svg)" in page
            assert files[f"gallery/{name}-{picture}.svg"].startswith("<svg ")
        assert f":link: gallery/{name}\n" in files["gallery/cards.md"]
        assert f"`pto-jax run --example {name}`" in files["gallery/cards.md"]
    page = files["gallery/rmsnorm.md"]
    assert "a2a3 | 12 instructions | 4 blocks | vec 49 of 192 KiB | time over jnp: fast " in page


def test_generated_folders_are_ignored(generated: ModuleType) -> None:
    ignored = (DOCS.parent / ".gitignore").read_text().split()
    assert {f"docs/{folder}/" for folder in generated.FOLDERS} <= set(ignored)
    assert "generated" not in sys.modules
