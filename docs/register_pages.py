"""The pages of micro-operations: one for each family, with kernels, types and pictures of moved lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from instruction_pages import wrapped

from pto_jax import api, isa, oracle
from pto_jax.ir import DType, find_dtype
from pto_jax.isa.micro import MicroOperation
from pto_jax.manual.micro import FAMILIES, MicroKernel, distributions, kernel_of, operation_page
from pto_jax.manual.topics import Part
from pto_jax.pictures.cells import array_cells, draw
from pto_jax.pictures.svg import Canvas

FOLDER = "reference/registers"
#: Lanes of each register that pictures show.
_LANES = 16
#: Families whose operations move lanes, and operations of others.
_MOVING = ("registers_moves", "ub_memory")
_COMPACT = (
    "vcvt",
    "vmi.vintlv",
    "vmi.vdintlv",
    "vmi.vselr",
    "vcmp",
    "vsel",
    "vmi.vsel",
    "plt_b32",
    "pset_b32",
)


def pages() -> Iterator[tuple[str, str]]:
    """The pages and pictures of all families, and an index."""
    lines = ["# Registers and the cube unit", "", "`pto-jax isa vadd` prints the same facts.", ""]
    for family, operations in sorted(isa.micro_families().items(), key=lambda f: [*FAMILIES].index(f[0])):
        drawn = {o.name: svg for o in operations if (svg := picture(o, moves=family in _MOVING))}
        for name, svg in drawn.items():
            yield f"{FOLDER}/{name}.svg", svg
        body = "\n".join(_section(o, drawn) for o in operations)
        yield f"{FOLDER}/{family}.md", f"---\norphan: true\n---\n\n# {FAMILIES[family]}\n\n{_head()}\n{body}"
        lines += [f"## {FAMILIES[family]}", ""]
        lines += [f"- [{o.name}]({family}.md#{_anchor(o)}): {o.summary}" for o in operations]
        lines.append("")
    yield f"{FOLDER}/index.md", "\n".join(lines)


def _head() -> str:
    return "Operations of A5; [](../language/micro.md) explains the types and the letters.\n"


def _anchor(operation: MicroOperation) -> str:
    """What links call the heading of an operation."""
    return operation.name.replace(".", "")


def _section(operation: MicroOperation, drawn: dict[str, str]) -> str:
    """The page of an operation one level deeper, its kernel folded, with its picture."""
    page = operation_page(operation)
    page = replace(page, parts=tuple(_narrow(p) for p in page.parts if p.heading != "See also"))
    lines = page.page("markdown").splitlines()
    body = (f"**{line[3:]}**" if line.startswith("## ") else line for line in lines[1:])
    text = "\n".join([f"## {operation.name}", "", operation.summary, *body])
    text = text.replace(
        "**Kernel**\n\n```mlir", "::::{dropdown} Kernel, " + f"{operation.name}.pto\n\n```pto"
    )
    if "::::{dropdown} Kernel" in text:
        head, _, tail = text.partition("::::{dropdown} Kernel")
        kernel, _, rest = tail.partition("\n```\n")
        text = f"{head}::::{{dropdown}} Kernel{kernel}\n```\n::::\n{rest}"
    shown = (
        f"\n\n![Lanes of the operands and results]({operation.name}.svg)" if operation.name in drawn else ""
    )
    return f"{text}{shown}\n"


def _narrow(part: Part) -> Part:
    """A part whose programs have narrow lines."""
    if part.kind != "program":
        return part
    return replace(part, items=[i if i.startswith(">>>") else wrapped(i) for i in part.items])


def picture(operation: MicroOperation, *, moves: bool) -> str:
    """The first lanes of operands and results, for each distribution or part; "" where no lane moves."""
    if not moves and operation.name not in _COMPACT:
        return ""
    variants = list(distributions(operation))
    plain = kernel_of(operation)
    if not variants and plain is not None:
        variants = [("", plain)]
    if not variants:
        return ""
    canvas, top = Canvas(480, f"{operation.name}: the first lanes"), 0.0
    shown = set[tuple[str, bytes]]()
    for word, kernel in variants:
        for name, array, d in _arrays(kernel):
            key = (name, array.tobytes())
            if word and name.endswith("_in") and key in shown:
                continue
            shown.add(key)
            label = f"{word} {name}".strip()
            top = draw(canvas, array_cells(label, array[None, :_LANES], d), top)
    return canvas.picture(top + 8).svg


def _arrays(kernel: MicroKernel) -> Iterator[tuple[str, np.ndarray, DType]]:
    """The arguments of a kernel before it and what it has written, with their element types."""
    given = {a.name: eval(a.array(), {"np": np}) for a in kernel.arguments}
    written = oracle.run(api.parse(kernel.text()), given, profile="a5")
    for a in kernel.arguments:
        d = find_dtype(a.dtype.removeprefix("s") if a.dtype.startswith("si") else a.dtype.replace("ui", "u"))
        if d is not None:
            yield a.name, np.asarray(written[a.name] if a.written else given[a.name]), d
