"""The packages of ``pto_jax`` as a table and a picture, from the imports of their modules.

``python -m tools.architecture`` writes both into ``docs``; a test compares them with the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.architecture.graph import ROOT, imports, room

#: Bands of the picture from top to bottom: a style and a title. Packages use those of their band and below.
BANDS = {
    "test": "Testing compilers, simulators and boards",
    "write": "Writing and inspecting programs",
    "execute": "Execution",
    "check": "What follows from the text",
    "program": "What a program is",
}
#: Band (empty: not drawn) and content of every package.
PACKAGES = {
    "__main__": ("", "the entry point of the command"),
    "cli": ("test", "the command pto-jax"),
    "campaign": ("test", "seeded random testing, reports"),
    "system_tests": ("test", "the assembler's system tests"),
    "validation": ("test", "programs before and after a pass"),
    "failures": ("test", "failure folders, shrinking, groups"),
    "devices": ("test", "devices under test, C++ emission"),
    "cases": ("test", "cases, executors, comparison"),
    "testing": ("test", "checks of a device, assertions"),
    "lockstep": ("test", "many programs in one function"),
    "generate": ("test", "random programs and inputs"),
    "vectors": ("test", "recorded results"),
    "pto_jax": ("", "the public names"),
    "builder": ("write", "kernels in Python"),
    "nn": ("write", "quantised layers, gradients"),
    "ops": ("write", "instructions as functions"),
    "editors": ("write", "highlighting, language server"),
    "manual": ("write", "pages of the reference"),
    "examples": ("", "shipped programs"),
    "runner": ("write", "kernels of a model step in order"),
    "pictures": ("execute", "tiles, memory, pipes as SVG"),
    "runtime": ("execute", "compiled kernels, tiles, traces"),
    "extension": ("execute", "instructions of users"),
    "lowering": ("execute", "JAX rules and executor"),
    "sanitizer": ("execute", "rules of undefined bits"),
    "oracle": ("execute", "NumPy rules and executor"),
    "grids": ("execute", "the blocks that a program needs"),
    "schedules": ("execute", "races, legal orders of pipes"),
    "cost": ("check", "cycle models"),
    "api": ("check", "load, parse, verify"),
    "verifier": ("check", "rules across operations"),
    "order": ("check", "happens-before, tokens"),
    "interpreter": ("check", "control flow, handles, pipes"),
    "analysis": ("check", "resolved programs, dataflow"),
    "text": ("program", "reader and printer of PTO text"),
    "isa": ("program", "one declaration per instruction"),
    "ir": ("program", "operations, types, values"),
    "profiles": ("", "what distinguishes the hardware"),
    "files": ("", "bounded reading, atomic writing"),
    "errors": ("", "exceptions and diagnostics"),
    "garbage": ("", "fewer collections of garbage"),
}
PAGE, PICTURE = ROOT / "docs/architecture.md", ROOT / "docs/_static/packages.svg"
BEGIN, END = "<!-- written by python -m tools.architecture -->", "<!-- until here -->"
_STYLE = """\
.band { fill: #f7f8fb; stroke: #c9d0de; }
.box { stroke: #5b6b8c; stroke-width: 1.3; }
.test { fill: #fdf3dc; } .write { fill: #fbe9e2; } .execute { fill: #e3efe6; }
.check { fill: #e6ecf7; } .program { fill: #f1e8f4; }
text { fill: #1c2333; text-anchor: middle; font-weight: 600; }
.small { font-size: 12px; fill: #44506b; font-weight: 400; }
.title { font-size: 13px; fill: #44506b; font-weight: 400; }
path { stroke: #5b6b8c; stroke-width: 1.5; fill: none; marker-end: url(#tip); }
.paper { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
.paper { fill: #161b23; } .band { fill: #1c222c; stroke: #3b4554; }
.test { fill: #43371b; } .write { fill: #4a2a1d; } .execute { fill: #1f3a2c; }
.check { fill: #223350; } .program { fill: #3a2746; }
text { fill: #e6eaf1; } .small, .title { fill: #b6bfcd; }
}
"""
_WIDTH, _BOX, _ROW = 480, 216, 52


def uses(root: Path) -> Mapping[str, set[str]]:
    """The packages that the modules of each package import."""
    direct: dict[str, set[str]] = {}
    for one in imports(root):
        source, target = room(one.source), room(one.target)
        direct.setdefault(target, set())
        direct.setdefault(source, set()).update({target} - {source})
    return direct


def table(root: Path) -> str:
    """A row per package, each above those that it uses; without those that it reaches through another."""
    direct = uses(root)

    @cache
    def below(name: str) -> frozenset[str]:
        return frozenset(direct[name].union(*(below(r) for r in direct[name])))

    lines = ["| package | content | uses |", "|---|---|---|"]
    order = list(PACKAGES)
    for name in sorted(direct, key=lambda n: (-len(below(n)), order.index(n))):
        through = frozenset().union(*(below(r) for r in direct[name]))
        shown = ", ".join(f"`{r}`" for r in order if r in direct[name] - through)
        lines.append(f"| `{name}` | {PACKAGES[name][1]} | {shown} |")
    return "\n".join(lines)


def page(root: Path, text: str) -> str:
    """The architecture page with the table of a tree."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table(root)}\n\n{END}{rest.partition(END)[2]}"


def picture() -> str:
    """The bands and their packages, two in a row, as SVG."""
    drawn, top = [], 10
    for style, title in BANDS.items():
        names = [name for name, (band, _) in PACKAGES.items() if band == style]
        height = 36 + _ROW * -(-len(names) // 2)
        drawn.append(f'<rect class="band" x="6" y="{top}" width="{_WIDTH - 12}" height="{height}" rx="8"/>')
        drawn.append(f'<text class="title" x="{_WIDTH // 2}" y="{top + 20}">{title}</text>')
        drawn += _boxes(names, style, top + 30)
        top += height
        drawn.append(f'<path d="M{_WIDTH // 2} {top}V{top + 22}"/>')
        top += 24
    drawn.pop()  # Nothing is below the last band.
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top - 14}" width="{_WIDTH}" '
        'font-family="sans-serif" font-size="14" role="img" aria-label="The packages in '
        f'{len(BANDS)} bands, each of which uses those below it">\n<style>\n{_STYLE}</style>\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#5b6b8c;stroke:none;marker-end:none"/></marker>'
        f'</defs>\n<rect class="paper" width="{_WIDTH}" height="{top - 14}"/>\n'
    )
    return head + "\n".join(drawn) + "\n</svg>\n"


def _boxes(names: list[str], style: str, top: int) -> Iterator[str]:
    """The boxes of a band; a last one without a neighbour stands in the middle."""
    for i, name in enumerate(names):
        alone = i == len(names) - 1 and i % 2 == 0
        x = (_WIDTH - _BOX) // 2 if alone else (18, _WIDTH - 18 - _BOX)[i % 2]
        y, middle = top + _ROW * (i // 2), x + _BOX // 2
        yield f'<rect class="box {style}" x="{x}" y="{y}" width="{_BOX}" height="44" rx="6"/>'
        yield f'<text x="{middle}" y="{y + 19}">{name}</text>'
        yield f'<text class="small" x="{middle}" y="{y + 35}">{PACKAGES[name][1]}</text>'


def main() -> None:
    """Write the table and the picture."""
    PAGE.write_text(page(ROOT, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
