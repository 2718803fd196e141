"""The lowering with its annotations held against every call: element types and axes of arrays included.

Run as a program, in a process of its own, so that no other test executes the checked functions: instructions
and small programs are traced, and what contradicts an annotation is printed. ``--only`` names instructions,
``--change`` gives a module of the lowering, a text of it, and what to read instead.
"""

import argparse
import ast
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import chain
from types import CodeType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from beartype import BeartypeConf, beartype
from jaxtyping import jaxtyped

PACKAGE = "pto_jax.lowering"
#: What is traced: its label, a kernel, and the kernel's arguments.
Traced: TypeAlias = tuple[str, Any, Mapping[str, Any]]


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that holds its arguments and its result against its annotations.

    These are looked up when it is first called: by then every name they need is defined.
    """
    made: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(_made(function, get_type_hints(function)))
        return made[0](*args, **kwargs)

    return call


def checked_class(cls: Any) -> Any:
    """A class whose instances are made of what the annotations of its fields say."""
    name = "__init__" if is_dataclass(cls) else "__new__"
    if not is_dataclass(cls) and not hasattr(cls, "_fields"):
        return cls
    plain = getattr(cls, name)
    made: list[Callable[..., Any]] = []

    @functools.wraps(plain)
    def make(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(_made(plain, get_type_hints(cls)))
        return made[0](*args, **kwargs)

    setattr(cls, name, make)
    return cls


def _made(function: Callable[..., Any], hints: dict[str, Any]) -> Callable[..., Any]:
    function.__annotations__ = {n: _checkable(h) for n, h in hints.items()}
    made: Callable[..., Any] = jaxtyped(function, typechecker=_typechecker)
    return made


#: An integer counts as a float, as type checkers have it.
_typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))


def _checkable(hint: Any) -> Any:
    """A type that instances can be held against: any for a protocol."""
    if getattr(hint, "_is_protocol", False):
        return Any
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(map(_checkable, get_args(hint)))]  # noqa: UP007 # of members made here
    return hint


class _Checks(ast.NodeTransformer):
    """Puts the checks into a module, and what its annotations name."""

    def visit_If(self, node: ast.If) -> ast.AST:
        """Imports for type checkers are made."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.test = ast.Constant(True)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """A name for a type that stands in quotes stands for the type."""
        match node:
            case ast.AnnAssign(annotation=ast.Name("TypeAlias"), value=ast.Constant(str(text))):
                node.value = ast.parse(text, mode="eval").body
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Checks come before other decorators, which may hide the annotations."""
        node.decorator_list.append(_name("checked"))
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Checks come after other decorators: these make dataclasses."""
        node.decorator_list.insert(0, _name("checked_class"))
        return self.generic_visit(node)


def _name(decorator: str) -> ast.expr:
    return ast.parse(f"__import__('tests.numerics.annotated', fromlist=['_']).{decorator}", mode="eval").body


class _Loader(SourceFileLoader):
    """Loads a module with checks; ``changed`` is a text of it and what to read in its place."""

    changed: tuple[str, str] = ("", "")

    def get_code(self, fullname: str) -> CodeType:
        """The code of the source: stored code has no checks."""
        text = self.get_data(self.path).decode()
        if self.changed[0]:
            assert text.count(self.changed[0]) == 1, f"{fullname}: {text.count(self.changed[0])} times"
            text = text.replace(*self.changed)
        tree = ast.fix_missing_locations(_Checks().visit(ast.parse(text)))
        code: CodeType = compile(tree, self.path, "exec", dont_inherit=True)
        return code


class _Finder(MetaPathFinder):
    """Finds the modules of the lowering, of which one may be changed."""

    def __init__(self, module: str, changed: tuple[str, str]) -> None:
        self.module, self.changed = module, changed

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """The module with a loader that puts the checks into it; None for other modules."""
        if not f"{name}.".startswith(f"{PACKAGE}."):
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None and spec.origin is not None, name
        spec.loader = loader = _Loader(name, spec.origin)
        if name == f"{PACKAGE}.{self.module}":
            loader.changed = self.changed
        return spec


def contradictions(only: Sequence[str]) -> Iterator[str]:
    """One line for each program that an annotation is wrong for; of the instructions, or of ``only`` some."""
    # What uses the lowering is imported after it can be found with its checks.
    from pto_jax.lowering import MEMORY_RULES, RULES

    traced = chain.from_iterable(map(_samples, only or (*RULES, *MEMORY_RULES)))
    for label, kernel, arguments in traced if only else chain(traced, _programs()):
        try:
            _trace(kernel, arguments)
        except Exception as error:
            yield f"{label}: {type(error).__name__}: {error}"


def _samples(name: str) -> Iterator[Traced]:
    """An instruction in every profile: on its first legal types, on others, and on its last ones.

    Under fast numerics its valid regions are those of the types, else only known when it is executed.
    """
    from pto_jax.isa import instructions
    from pto_jax.isa.samples.operations import legal_samples, to_program
    from pto_jax.profiles import PROFILES
    from pto_jax.runtime.kernel import Kernel, choices
    from pto_jax.testing.differential import arguments, inputs, open_regions

    legal = ((p, list(legal_samples(instructions()[name], p))) for p in PROFILES.values())
    found = [(profile, samples) for profile, samples in legal if samples]
    assert found, f"{name} has no sample"
    for i, (profile, samples) in enumerate(found):
        sample, numerics = samples[i * (len(samples) - 1) // 2], ("exact", "fast", "exact")[i]
        program = to_program(sample) if numerics == "fast" else open_regions(to_program(sample))
        kernel = Kernel(program, program.functions[0].name, choices(profile, numerics, None, "keep"))
        given = inputs(np.random.default_rng(0), program, instructions()[name])
        yield f"{program} {profile.name} {numerics}", kernel, arguments(given, 0)


def _programs() -> Iterator[Traced]:
    """The small programs, with the checks of run-time rules."""
    import pto_jax as pto
    from tests.programs.test_programs import CASES

    for case in CASES:
        kernel = pto.compile(case.parsed, entry=case.entry, grid=case.grid, checks=True, warn=False)
        yield case.name, kernel, next(case.arguments())


def _trace(kernel: Any, arguments: Mapping[str, Any]) -> None:
    import jax

    from pto_jax.lowering.bits import x64

    with x64():
        jax.eval_shape(lambda: kernel(**arguments))


def main(arguments: Sequence[str]) -> int:
    """Print the contradictions; 1 if there are any."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--change", nargs=3, metavar=("MODULE", "OLD", "NEW"), default=("", "", ""))
    options = parser.parse_args(arguments)
    module, *change = options.change
    sys.meta_path.insert(0, _Finder(module, (change[0], change[1])))
    found = list(contradictions(options.only))
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
