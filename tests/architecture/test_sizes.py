"""Sizes that can be read at once: functions of up to 40 lines, files of 60 lines and more, or a reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.graph import ROOT, modules, write_tree

#: Lines of a function without its docstring, and the fewest lines of a file.
MOST, LEAST = 40, 60

#: Longer functions by what makes them long.
LONG = {
    "one option after the other": "cli.commands.parser cli.fuzz.add cli.races.add cli.replay.add_emit",
    "one field of a declaration after the other": (
        "isa.common.tile_instruction isa.communication._collective isa.fixpipe._moving "
        "isa.layout_extract._window isa.matrix.product isa.micro.micro isa.pipes._initialize "
        "isa.reduce_expand_index._positions isa.reference.record isa.rules.handles.custom "
        "isa.rules.windows.window_fits extension.lanes.instruction"
    ),
    "one handler after the other": (
        "editors.language_server._answer_edits editors.language_server.make_server "
        "text.printer.Printer._op text.types.TypeReader._dispatch"
    ),
    "one keyword after the other": (
        "nn.layers.linear oracle.interpret.run oracle.interpret.run_ranks runtime.kernel.compile "
        "runtime.rank_launches.launches"
    ),
    "functions that JAX traces, and what they close over": (
        "lowering.machine.control_flow._looped lowering.machine.control_flow.branch"
    ),
    "one step of a command or a search after the other": (
        "cases.comparison._alone cli.fuzz._fuzz cli.run.run "
        "failures.folder.write interpreter.rank_calls.bind interpreter.together._enter "
        "isa.samples.operations.to_program vectors.cases.case_program"
    ),
}
#: Shorter files by what they are alone for.
SHORT = {
    "a command": "__main__ cli.conformance cli.lsp cli.step",
    "a family of instructions, as in the other packages": "interpreter.memory_indexed sanitizer.matrix",
    "a public module": "builder.functions examples.ranks",
    "what several packages read and none of them owns": (
        "builder.instructions cases.code cases.identity cases.shown garbage text.names"
    ),
}


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    first = function.body[0]
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1)


def functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    """Functions and methods below a node by their dotted names, with their lines."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}.{child.name}"
            yield name, length(child)
            yield from functions(child, name)
        else:
            name = f"{prefix}.{child.name}" if isinstance(child, ast.ClassDef) else prefix
            yield from functions(child, name)


def long_functions(root: Path) -> set[str]:
    """Functions of more lines than can be read at once."""
    every = (functions(m.tree, m.name.removeprefix("pto_jax.")) for m in modules(root).values())
    return {name for found in every for name, lines in found if lines > MOST}


def short_files(root: Path) -> set[str]:
    """Modules of few lines, but those that make a folder a package."""
    return {
        m.name.removeprefix("pto_jax.")
        for m in modules(root).values()
        if not m.file.endswith("__init__.py") and len((root / m.file).read_text().splitlines()) < LEAST
    }


def listed(table: dict[str, str]) -> set[str]:
    return {name for names in table.values() for name in names.split()}


@pytest.mark.parametrize(("found", "table"), [(long_functions, LONG), (short_files, SHORT)])
def test_what_is_too_long_or_too_short_has_a_reason(found: object, table: dict[str, str]) -> None:
    assert callable(found)
    sizes = found(ROOT)
    assert not sizes - listed(table), "to be divided or joined, or given a reason"
    assert not listed(table) - sizes, "to be deleted from the table"


def test_a_long_function_and_a_short_file_are_seen(tmp_path: Path) -> None:
    body = "\n".join(f"        x = {n}" for n in range(MOST))
    text = f'class C:\n    def long(self):\n        """One.\n\n        Two."""\n{body}\n'
    short = "def short():\n" + "    pass\n" * (MOST - 1)
    root = write_tree(tmp_path, {"pto_jax/a/b.py": text + "\n" * LEAST, "lowering/c.py": short})
    assert long_functions(root) == {"a.b.C.long"}
    assert short_files(root) == {"lowering.c"}
