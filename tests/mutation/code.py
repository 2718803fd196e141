"""The lowering's functions and their code: replaced in place, and watched statement by statement."""

import ast
import gc
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias, TypeVar

import jax

import pto_jax.lowering
from pto_jax.lowering import memory, numpy_steps
from pto_jax.runtime import kernel

FOLDER = Path(pto_jax.lowering.__file__).parent
#: A function: qualified name and first line.
Place: TypeAlias = tuple[str, int]
#: A statement or lambda: module, line, column.
Spot: TypeAlias = tuple[str, int, int]
_Node = TypeVar("_Node", ast.stmt, ast.Lambda)
#: Name of the function that watched code calls.
_REACHED = "__reached__"


@cache
def modules() -> Mapping[str, ModuleType]:
    """The modules of the lowering by name, those of its packages with dots."""
    names = sorted(_name(f) for f in FOLDER.rglob("*.py") if f.stem != "__init__")
    return {name: importlib.import_module(f"pto_jax.lowering.{name}") for name in names}


def _name(file: Path) -> str:
    return ".".join(file.relative_to(FOLDER).with_suffix("").parts)


def _file(module: str) -> Path:
    return FOLDER.joinpath(*module.split(".")).with_suffix(".py")


@cache
def text(module: str) -> str:
    return _file(module).read_text()


# -- replaced code -----------------------------------------------------------------------------------


def functions_of(code: CodeType) -> dict[Place, CodeType]:
    """All code inside of some code."""
    found: dict[Place, CodeType] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found[constant.co_qualname, constant.co_firstlineno] = constant
            found |= functions_of(constant)
    return found


def compiled(module: str, edited: ast.Module) -> dict[Place, CodeType]:
    """The functions of a module's edited syntax tree."""
    return functions_of(compile(edited, str(_file(module)), "exec"))


@cache
def _functions() -> Mapping[str, list[FunctionType]]:
    """The functions of each module that exist since import."""
    found: dict[str, list[FunctionType]] = {name: [] for name in modules()}
    gc.unfreeze()  # Objects of the collection are frozen, and then not among all objects.
    for f in gc.get_objects():
        if isinstance(f, FunctionType) and (file := Path(f.__code__.co_filename)).is_relative_to(FOLDER):
            found.setdefault(_name(file), []).append(f)
    return found


@contextmanager
def replaced(module: str, new: Mapping[Place, CodeType]) -> Iterator[None]:
    """The functions of a module with other code, nothing computed before in them, and nothing left after."""
    saved = [(f, f.__code__) for f in _functions()[module]]
    try:
        for f, code in saved:
            f.__code__ = new[code.co_qualname, code.co_firstlineno]
        forget()
        yield
    finally:
        for f, code in saved:
            f.__code__ = code
        forget()


_ACCUMULATE: Any = memory._accumulate.__wrapped__  # type: ignore[attr-defined]


def forget() -> None:
    """Drop everything that the lowering keeps of earlier traces."""
    for module in modules().values():
        for value in vars(module).values():
            clear: Callable[[], None] | None = getattr(value, "cache_clear", None)
            if clear is not None:
                clear()
    numpy_steps.traced.cache_clear()
    # What is jitted of a program that has run before is found again.
    for cached in (kernel._jitted, kernel._kernel):
        cached.cache_clear()
    # A jitted function keeps its traces as long as the function it wraps lives.
    f = _ACCUMULATE
    copy = FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    memory._accumulate = jax.jit(copy, static_argnums=(0, 1, 5))


# -- watched code ------------------------------------------------------------------------------------


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(text(module))


@cache
def definitions() -> Mapping[str, list[tuple[str, ast.FunctionDef]]]:
    """Functions and methods by name (``function``, ``Class.method``), each with its module."""
    functions: dict[str, list[tuple[str, ast.FunctionDef]]] = {}

    def visit(module: str, node: ast.Module | ast.ClassDef, prefix: str) -> None:
        for child in node.body:
            if isinstance(child, ast.FunctionDef):
                functions.setdefault(prefix + child.name, []).append((module, child))
            elif isinstance(child, ast.ClassDef):
                visit(module, child, f"{prefix}{child.name}.")

    for module in modules():
        visit(module, tree(module), "")
    return functions


def spot(module: str, node: ast.AST) -> Spot:
    """The innermost statement of a function (or lambda) that has a node."""
    parents = {child: parent for parent in ast.walk(tree(module)) for child in ast.iter_child_nodes(parent)}
    while not isinstance(node, ast.stmt | ast.Lambda):
        node = parents[node]
    return module, node.lineno, node.col_offset


class _Watching(ast.NodeTransformer):
    """Makes every statement of a function, and every lambda, tell that it is executed."""

    def __init__(self, module: str) -> None:
        self.module, self.inside = module, False

    def _call(self, node: ast.stmt | ast.Lambda) -> ast.Call:
        parts: list[ast.expr] = [ast.Constant(x) for x in (self.module, node.lineno, node.col_offset)]
        return ast.Call(ast.Name(_REACHED, ast.Load()), [ast.Tuple(parts, ast.Load())], [])

    def generic_visit(self, node: ast.AST) -> ast.AST:
        outside, self.inside = self.inside, self.inside or isinstance(node, ast.FunctionDef)
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if self.inside and isinstance(statements, list):
                setattr(node, name, [s for old in statements for s in self._watched(old)])
        self.inside = outside
        return node

    def _watched(self, statement: ast.stmt) -> list[ast.stmt]:
        told = ast.copy_location(ast.Expr(self._call(statement)), statement)
        return [told, statement]

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        pair = ast.Tuple([self._call(node), node.body], ast.Load())
        node.body = ast.Subscript(pair, ast.Constant(1), ast.Load())
        return node


@cache
def _watching(module: str) -> Mapping[Place, CodeType]:
    watching = _Watching(module).visit(ast.parse(text(module)))
    return compiled(module, ast.fix_missing_locations(watching))


@contextmanager
def watched() -> Iterator[set[Spot]]:
    """The lowering telling which of its statements are executed."""
    reached: set[Spot] = set()
    with ExitStack() as stack:
        for name, module in modules().items():
            vars(module)[_REACHED] = reached.add
            stack.enter_context(replaced(name, _watching(name)))
        yield reached
