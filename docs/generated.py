"""The pages of the site that are made from the declarations, the manual and the command line.

They are written beside the others when the site is built, and are not kept under version control.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import drawings
import instruction_pages
import register_pages
from instruction_pages import table

from pto_jax import isa
from pto_jax.api import load, resolve_profile
from pto_jax.cli import commands as command_line
from pto_jax.cli.main import main as command_line_main
from pto_jax.examples import EXAMPLES
from pto_jax.examples.describe import Example
from pto_jax.isa.history import changes
from pto_jax.isa.reference import record, types_text
from pto_jax.manual import manual, topics
from pto_jax.pictures import memory, timeline
from pto_jax.profiles import PROFILE_NAMES

#: What is written, relative to the folder of the site.
FOLDERS = (
    "reference/instructions",
    "reference/registers",
    "reference/language",
    "reference/tables",
    "reference/commands",
    "gallery",
)

#: What `python -m benchmarks --update` writes.
BENCH_TABLE = Path(__file__).parents[1] / "benchmarks/bench_table.json"
#: A page that its index lists, and not the navigation of every page, which would cost a minute.
_ALONE = "---\norphan: true\n---\n\n"


def write(site: Path) -> None:
    """Write all pages; those of an earlier build are gone."""
    for folder in FOLDERS:
        shutil.rmtree(site / folder, ignore_errors=True)
    for name, text in (*pages(), *gallery()):
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def pages() -> Iterator[tuple[str, str]]:
    """Every page with its name."""
    yield from _instructions()
    yield from register_pages.pages()
    for topic in topics().values():
        body = manual(topic.name, "markdown").partition("\n")[2]
        title = f"# {topic.title or topic.name.capitalize()}\n\n{topic.summary}"
        yield f"reference/language/{topic.name}.md", f"{title}\n{body}\n"
    yield "reference/tables/changes.md", _changes()
    yield "reference/tables/accuracy.md", _accuracy()
    yield "reference/tables/types.md", _types()
    yield "reference/tables/performance.md", performance()
    yield from drawings.pages()
    yield from _commands()


# -- gallery -------------------------------------------------------------------------------------------


def gallery() -> Iterator[tuple[str, str]]:
    """A page and pictures for each shipped example, which is executed, and the cards that lead there."""
    cards = ["::::{grid} 1 2 2 3", ":gutter: 2", ""]
    for example in EXAMPLES.values():
        pictures = dict(_pictures(example.name))
        for name, picture in pictures.items():
            yield f"gallery/{example.name}-{name}.svg", picture
        output, result = _executed(example.name)
        yield f"gallery/{example.name}-result.svg", result
        yield f"gallery/{example.name}.md", _example_page(example, output, pictures)
        card = [f":::{{grid-item-card}} {example.name}", f":link: gallery/{example.name}", ":link-type: doc"]
        cards += [
            *card,
            f":img-bottom: gallery/{example.name}-result.svg",
            "",
            f"{example.summary}.",
            "",
            _facts(example),
            "",
            f"`pto-jax run --example {example.name}`",
            ":::",
            "",
        ]
    yield "gallery/cards.md", "\n".join([*cards, "::::", ""])


def _pictures(name: str) -> Iterator[tuple[str, str]]:
    program = load(EXAMPLES[name].path)
    yield "memory", memory(program).svg
    yield "timeline", timeline(program).svg


def _facts(example: Example) -> str:
    """Profile, instructions, blocks, cores, memory used and measured ratios of an example in one line."""
    program = load(example.path)
    found = (isa.find(op.name) for op in program.walk())
    count = sum(i is not None and i.pipe.name != "S" for i in found)
    cores = sorted({op.name.partition(".")[2] for op in program.walk() if op.name.startswith("section.")})
    blocks = f"{example.grid} block{'s' if example.grid > 1 else ''}"
    facts = [resolve_profile(program).name, f"{count} instructions", blocks]
    facts += [f"{' and '.join(cores)} cores"] if cores else []
    facts += [memory(program).label.partition(": ")[2]]
    ratios = _ratios(example.name)
    return " | ".join([*facts, *([f"time over jnp: {ratios}"] if ratios else [])])


def _ratios(name: str) -> str:
    """The measured times over hand-written jnp, as far as there are any."""
    rows = json.loads(BENCH_TABLE.read_text(encoding="utf-8"))["rows"] if BENCH_TABLE.exists() else {}
    pairs = ((n, rows.get(f"{name} {n} over jnp")) for n in _TARGETS)
    return ", ".join(f"{n} {row['value']:.2f}" for n, row in pairs if row is not None)


def _executed(name: str) -> tuple[str, str]:
    """What ``pto-jax run`` prints of an example, and the picture of its first result."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        status = command_line_main(["run", "--example", name, "--pictures", folder])
        assert status == 0, printed.getvalue()
        first = min(Path(folder).glob("*.svg"))
        lines = [line for line in printed.getvalue().splitlines() if not line.startswith("pictures:")]
        return "\n".join(lines), first.read_text(encoding="utf-8")


def _example_page(example: Example, output: str, pictures: Iterable[str]) -> str:
    program = example.path.read_text(encoding="utf-8")
    titles = {"memory": "On-chip memory", "timeline": "Pipes over time"}
    parts = [f"{_ALONE}# {example.name}", f"{example.summary}.", _facts(example)]
    parts += [f"```console\n$ pto-jax run --example {example.name}\n```", f"```text\n{output}\n```"]
    parts += [f"![The result of {example.name}]({example.name}-result.svg)"]
    for name in pictures:
        parts += [f"## {titles[name]}", f"![{titles[name]} of {example.name}]({example.name}-{name}.svg)"]
    parts += ["## Program", f"```pto\n{program}```"]
    return "\n\n".join(parts) + "\n"


# -- instructions --------------------------------------------------------------------------------------


def _instructions() -> Iterator[tuple[str, str]]:
    for instruction in isa.instructions().values():
        folder, name = "reference/instructions", instruction.name
        picture = instruction_pages.picture(instruction)
        if picture:
            yield f"{folder}/{name}.svg", picture
        body = instruction_pages.page(instruction, f"{name}.svg" if picture else "")
        yield f"{folder}/{name}.md", f"{_ALONE}{body}"
    yield "reference/instructions/index.md", instruction_pages.index()


# -- tables --------------------------------------------------------------------------------------------


def _changes() -> str:
    head = (
        "# Changes of the language\n\nThe changes from one version of the text language to the next; "
        "`pto-jax isa --changes` prints them.\n"
    )
    rows = [[c.language, f"`{name}`", c.kind, _code(c.before), _code(c.after)] for name, c in changes()]
    return "\n".join([head, *table(["since", "of", "kind", "before", "after"], rows), ""])


def _accuracy() -> str:
    head = (
        "# Accuracy\n\nResults are exact: bits are moved, or each documented step is rounded once. The table "
        "has the exceptions, with the largest distance to the correctly rounded value. "
        "`pto-jax report --ulp` measures them on your computer.\n"
    )
    rows = []
    for i in isa.instructions().values():
        for bound in dict.fromkeys(i.ulp.values()):
            types = ", ".join(str(d) for d, n in i.ulp.items() if n == bound)
            rows.append([_link(i), types, f"{bound} ULP"])
    micro = [o for o in isa.micro_operations().values() if o.ulp]
    rows += [[f"`{o.name}`", ", ".join(o.elements["T"]), f"{o.ulp} ULP"] for o in micro]
    return "\n".join([head, *table(["instruction", "element types", "at most"], rows), ""])


def _types() -> str:
    head = (
        "# Element types per profile\n\nThe types of an instruction's type variables, joined by `<-`; `any`: "
        "no type matters, `-`: the profile does not have the instruction. The pages of instructions have the "
        "full lists.\n"
    )
    rows = [
        [_link(i), *(f"`{types_text(i, p, limit=12)}`" for p in PROFILE_NAMES)]
        for i in isa.instructions().values()
        if record(i)["type_vars"] and i.types
    ]
    return "\n".join([head, *table(["instruction", *PROFILE_NAMES], rows), ""])


#: The times over jnp that are wanted, by numerics.
_TARGETS = {"fast": 1.5, "exact": 4.0}
#: Names of rows that say little.
_IN_WORDS = {"tmul tadd": "tmul, then tadd", "chain of 8": "a chain of 8 instructions"}
#: Tables below that of the kernels: their title, and the end or the beginning of their rows' names.
_FURTHER = (
    ("Kernels whose sizes are known when they are compiled", re.compile(r"(.*) over jnp, sizes known")),
    ("One instruction, exact over fast numerics", re.compile(r"exact / fast, (.*)")),
    ("Share of the copy bandwidth, load to store", re.compile(r"(add_relu_convert (?:exact|fast))")),
    ("Cost of a call over a call of a jitted jnp function", re.compile(r"(call of .*)")),
    ("Cost of checked accesses over unchecked ones", re.compile(r"(.*), accesses checked")),
    ("A sum by loops of vector registers over a sum of tiles", re.compile(r"registers (.*)")),
    ("Growth: compile time, and cost per tile and per instruction", re.compile(r"(.*(?:first|cost|cold).*)")),
)


def performance() -> str:
    """The committed table of measured ratios, as far as there is one."""
    head = "# Performance\n\nRatios inside one run of `python -m benchmarks`, comparable between computers.\n"
    if not BENCH_TABLE.exists():
        return (
            f"{head}\nNo table is committed; `python -m benchmarks --json OUT` measures on your computer.\n"
        )
    measured = json.loads(BENCH_TABLE.read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
    when = f"Measured on {measured['date']}: {measured['platform']}, {measured['machine']}; {versions}.\n"
    values = {name: row["value"] for name, row in measured["rows"].items()}
    parts = [head, when, *_kernels(values)]
    for title, named in _FURTHER:
        rows = [
            [_IN_WORDS.get(match[1], match[1]), f"{v:.2f}"]
            for name, v in values.items()
            if (match := named.fullmatch(name))
        ]
        parts += [f"\n## {title}\n", *table(["case", "ratio"], rows)] if rows else []
    return "\n".join([*parts, ""])


def _kernels(values: dict[str, float]) -> Iterator[str]:
    """The shipped kernels beside hand-written jnp: ratio, target and a bar for each kind of numerics."""
    rows, reached = [], 0
    for name in dict.fromkeys(n.split()[0] for n in values if n.endswith(" over jnp")):
        cells = [(values.get(f"{name} {numerics} over jnp"), t) for numerics, t in _TARGETS.items()]
        reached += all(value is not None and value <= target for value, target in cells)
        kernel = f"[{name}](../../gallery/{name}.md)" if name in EXAMPLES else f"`{name}`"
        rows.append([kernel, *(part for value, target in cells for part in _judged(value, target))])
    if not rows:
        return
    wanted = " and ".join(f"{target:g} in {numerics} numerics" for numerics, target in _TARGETS.items())
    yield "## Kernels, time relative to hand-written jnp\n"
    yield f"Lower is better; the targets are {wanted}. {reached} of {len(rows)} kernels reach both.\n"
    header = ["kernel", *(part for numerics in _TARGETS for part in (numerics, "target", ""))]
    yield from table(header, rows)
    yield "\n[Why kernels miss a target](../../how-to/speed.md#kernels-that-miss-their-target)."


def _judged(value: float | None, target: float) -> tuple[str, str, str]:
    """A ratio, whether it reaches its target, and a bar whose mark is the target."""
    if value is None:
        return "", "", ""
    ok = value <= target
    width, scale = min(value / target, 3), 24
    bar = (
        f'<svg width="{3 * scale}" height="12" role="img" aria-label="{value / target:.1f} of the target">'
        f'<rect class="{"reached" if ok else "missed"}" width="{width * scale:.0f}" height="12"/>'
        f'<path class="target" d="M{scale} 0v12"/></svg>'
    )
    return f"{value:.2f}", "ok" if ok else '<span class="missed">MISS</span>', bar


def _link(i: isa.Instruction) -> str:
    return f"[{i.name}](../instructions/{i.name}.md)"


def _code(text: str) -> str:
    return f"`{text}`" if text and "`" not in text else text


# -- commands ------------------------------------------------------------------------------------------


def _commands() -> Iterator[tuple[str, str]]:
    """A page for each command, with its options as its help shows them."""
    commands = next(a for a in command_line.parser()._actions if isinstance(a, argparse._SubParsersAction))
    index = ["# Commands", "", "`pto-jax COMMAND --help` prints the same.", ""]
    summaries = {a.dest: a.help or "" for a in commands._choices_actions}
    rows = [[f"[{name}]({name}.md)", summary] for name, summary in summaries.items()]
    index += [*table(["command", ""], rows), ""]
    yield "reference/commands/index.md", "\n".join(index)
    for name, sub in commands.choices.items():
        sub.prog = f"pto-jax {name}"
        yield (
            f"reference/commands/{name}.md",
            f"{_ALONE}# pto-jax {name}\n\n```text\n{sub.format_help()}```\n",
        )
