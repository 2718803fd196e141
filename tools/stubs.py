"""Stub files: the functions that are made from declarations, as type checkers and editors read them.

``python -m tools.stubs`` writes ``ops.pyi`` and ``builder/functions.pyi`` of this package, and with
``--sessions`` the examples that the manual shows, which takes half a minute; tests compare the files.
"""

import json
import keyword
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from pto_jax import api, isa, oracle
from pto_jax.builder.calls import signatures
from pto_jax.builder.instructions import names as operation_names
from pto_jax.generate import options
from pto_jax.generate.programs import Case, cases
from pto_jax.ir import Op, Program, Region
from pto_jax.isa.micro import MicroOperation
from pto_jax.manual import micro
from pto_jax.runtime import op_functions, op_types
from pto_jax.text.formats import TWO_SPELLINGS, find_format

PACKAGE = Path(isa.__file__).parents[1]
_OPS = '''"""Every instruction as a function on tiles and arrays.

Written by ``python -m tools.stubs`` from the declarations.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, Unpack, overload

import jax
import numpy as np

from .ir import DType
from .ir import TileType
from .profiles import OutOfRegion, Profile, ProfileName, Subnormals
from .runtime.state import Report
from .runtime.tiles import Tile

class _Foreign(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

class _Options(TypedDict, total=False):
    profile: ProfileName | Profile
    numerics: Literal["exact", "fast"]
    out_of_region: OutOfRegion | None
    subnormals: Subnormals

_Tile: TypeAlias = Tile | jax.Array | np.ndarray[Any, Any] | _Foreign
_Number: TypeAlias = float | np.generic | jax.Array | np.ndarray[Any, Any]
_Element: TypeAlias = Tile | TileType | jax.Array | np.ndarray[Any, Any] | DType | str | type | np.dtype[Any]
_Destination: TypeAlias = _Element | tuple[_Element | None, ...] | None

def names() -> tuple[str, ...]: ...
def function(name: str) -> Callable[..., Any]: ...
'''
_BUILDER = '''"""Every operation as a function that builds it.

Written by ``python -m tools.stubs`` from the declarations.
"""

from enum import IntEnum
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

from .values import Handle

class _Options(TypedDict, total=False):
    wait: Any
    type: Any
    named: str | None
    offsets: Any

_Number: TypeAlias = Handle | float
'''


def ops_stub() -> str:
    """The text of ``ops.pyi``."""
    functions = [i for i in isa.instructions().values() if op_functions.is_function(i)]
    lines = [line for i in functions for line in _op(i)]
    return "\n".join([_OPS, *_enumerations(functions, lower=False), "", *lines]) + "\n"


def builder_stub() -> str:
    """The text of ``builder/functions.pyi``."""
    operations = operation_names()
    declared = [isa.instructions()[n] for n in operations.values() if n in isa.instructions()]
    lines = [line for python, name in operations.items() for line in _built(python, name)]
    return "\n".join([_BUILDER, *_enumerations(declared, lower=True), "", *lines]) + "\n"


def stubs() -> dict[Path, str]:
    """The stub files by their paths."""
    return {PACKAGE / "ops.pyi": ops_stub(), PACKAGE / "builder" / "functions.pyi": builder_stub()}


# -- types of attributes -------------------------------------------------------------------------------


def _enumerations(instructions: Iterable[isa.Instruction], *, lower: bool) -> list[str]:
    """An alias for the members of each enumeration that attributes have."""
    kinds = {k for i in instructions for a in i.attributes if (k := _enumeration(a)) is not None}
    lines = []
    for kind in sorted(kinds, key=lambda k: k.__name__):
        members = list(kind.__members__)
        listed = [*members, *(n.lower() for n in members if lower and n.lower() not in members)]
        lines.append(f"_{kind.__name__}: TypeAlias = Literal[{', '.join(map(_quoted, listed))}] | IntEnum")
    return lines


def _enumeration(attribute: isa.Attribute) -> type[IntEnum] | None:
    kind = attribute.type
    return kind if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum else None


def _quoted(text: str) -> str:
    return f'"{text}"'


def _annotation(attribute: isa.Attribute) -> str:
    enumeration = _enumeration(attribute)
    if enumeration is not None:
        return f"_{enumeration.__name__}"
    if attribute.type in (bool, int, str):
        return attribute.type.__name__
    return "Any"


def _keywords(instruction: isa.Instruction, *, every_key: bool) -> list[str]:
    """The attributes of an instruction as parameters; with ``every_key`` under all their names."""
    listed: dict[str, str] = {}
    taken = {o.name for o in instruction.operands}
    for a in instruction.attributes:
        for key in (a.name, *a.keys) if every_key else (a.name,):
            if key.isidentifier() and not keyword.iskeyword(key) and key not in taken:
                listed.setdefault(key, f"{key}: {_annotation(a)} = ...")
    return list(listed.values())


def _defined(name: str, listed: Sequence[str], overloads: Sequence[tuple[Sequence[str], str]]) -> list[str]:
    """A function with a signature, or an overload for each of several."""
    lines = []
    for parameters, result in overloads:
        text = ", ".join([*parameters, *listed, "**options: Unpack[_Options]"])
        lines += ["@overload"] if len(overloads) > 1 else []
        lines.append(f"def {name}({text}) -> {result}: ...")
    return lines


def _with_defaults(signatures: Iterable[tuple[str, ...]]) -> Iterator[list[str]]:
    """Results with operands; those that have one operand more than others are these with a default for it."""
    known = dict.fromkeys(signatures)
    longer: dict[tuple[str, ...], tuple[str, ...]] = {}
    for signature in known:
        longer.setdefault(signature[:-1], signature)
    for signature in known:
        if signature[:-1] not in known or longer[signature[:-1]] != signature:
            joined, end = [*signature], longer.get(signature)
            while end is not None:
                joined.append(f"{end[-1]} = ...")
                end = longer.get(end)
            yield joined


# -- functions on tiles and arrays ---------------------------------------------------------------------


def _op(instruction: isa.Instruction) -> Iterator[str]:
    """The function of an instruction on tiles: sources by position, all else by keyword."""
    keywords = ["dst: _Destination = ...", *_keywords(instruction, every_key=False)]
    overloads = []
    signatures = (
        (_result(instruction, form), *(f"{n}: {_source(instruction.operand(n))}" for n in form))
        for form in dict.fromkeys(op_functions.call_forms(instruction))
    )
    for result, *sources in _with_defaults(signatures):
        leading = [*sources, *(["/"] if sources else []), "*", *keywords]
        for checks, signature in (
            ("Literal[False] = ...", result),
            ("Literal[True]", f"tuple[{result}, Report]"),
        ):
            overloads.append(([*leading, f"checks: {checks}"], signature))
    yield from _defined(op_types.python_name(instruction), (), overloads)


def _source(operand: isa.Operand) -> str:
    return "_Tile" if operand.kind == "tile" else "_Number"


def _result(instruction: isa.Instruction, form: tuple[str, ...]) -> str:
    """What a call gives: a tile, or several; how many may depend on ``dst``."""
    written = instruction.destinations_of(form)
    if len(written) < len(instruction.destinations) or any(o.kind != "tile" for o in written):
        return "Any"
    if len(written) < 2:
        return "Tile" if written else "None"
    return f"tuple[{', '.join(['Tile'] * len(written))}]"


# -- functions that build operations -------------------------------------------------------------------


def _built(python: str, name: str) -> Iterator[str]:
    """The functions of an operation: its own, and that of the C++ intrinsic."""
    instruction = isa.instructions().get(name)
    if not python.isidentifier() or keyword.iskeyword(python):
        return
    own_syntax = find_format(name) is not None and name not in TWO_SPELLINGS
    if instruction is None or own_syntax or any(len({*f}) < len(f) for f in instruction.forms):
        yield f"def {python}(*args: Any, **kwargs: Any) -> Any: ..."
        yield from _intrinsic(python, instruction)
        return
    forms = (f for destinations, form in signatures(instruction) for f in ((*destinations, *form), form))
    operands = (tuple(f"{n}: {_operand(instruction.operand(n))}" for n in form) for form in forms)
    joined = _with_defaults(("Any", *listed) for listed in operands)
    overloads = [([*listed, *_star(instruction)], result) for result, *listed in joined]
    yield from _defined(python, _keywords(instruction, every_key=True), overloads)
    yield from _intrinsic(python, instruction)


def _intrinsic(python: str, instruction: isa.Instruction | None) -> Iterator[str]:
    """The name of the C++ intrinsic."""
    if instruction is not None and isa.find(python.upper()) is not None:
        yield f"{python.upper()} = {python}"


def _star(instruction: isa.Instruction) -> list[str]:
    return ["*"] if _keywords(instruction, every_key=True) else []


def _operand(operand: isa.Operand) -> str:
    return "_Number" if operand.kind in ("scalar", "index") else "Any"


# -- sessions of the manual ----------------------------------------------------------------------------

SESSIONS = PACKAGE / "manual" / "sessions.json"
MICRO_EXAMPLES = PACKAGE / "manual" / "micro.json"
MICRO_SESSIONS = PACKAGE / "manual" / "micro_sessions.json"
#: Lines of a micro-operation with different operands of which one is chosen.
_TRIES = 60
#: Generated kernels among which an example is looked for.
_CASES = 80


def sessions() -> str:
    """What ``pto-jax isa`` shows of Python on the page of each instruction; all calls are executed."""
    from pto_jax.cli.examples import session

    shown = {name: session(instruction) for name, instruction in isa.instructions().items()}
    return json.dumps({name: text for name, text in shown.items() if text}, indent=1, sort_keys=True) + "\n"


def micro_examples() -> str:
    """The line of each micro-operation that ``pto-jax isa`` shows."""
    lines = {name: micro_example(operation) for name, operation in isa.micro_operations().items()}
    return json.dumps({name: line for name, line in lines.items() if line}, indent=1, sort_keys=True) + "\n"


def micro_example(operation: MicroOperation) -> str:
    """A micro-operation in a generated kernel, its operands by the names of the declaration; "" if in none.

    One with different operands is preferred, and of those, among a few, one that a kernel is made of.
    """
    chosen = replace(options.MICRO, only=frozenset({operation.name}))
    first, lines = "", list[str]()
    for case in chain(cases(1, _CASES, chosen), _of_the_cube_unit()):
        op = next((op for op in case.program.walk() if op.name == operation.name), None)
        different = op is not None and len({v.name for v in op.ins}) == len(op.ins)
        if op is None or (first and not different):
            continue
        line = _line(operation, op, case.program)
        first = first or line
        if different:
            if line not in lines and micro.kernel_with(operation, line) is not None:
                return line
            lines.append(line)
            if len(lines) == _TRIES:
                break
    return next(iter(lines), first)


@cache
def _of_the_cube_unit() -> tuple[Case, ...]:
    return tuple(cases(1, _CASES, options.CUBE))


def _line(operation: MicroOperation, op: Op, program: Program) -> str:
    """The line of an operation of a program, with the names of the declaration."""
    # The others would be printed for nothing.
    alone = replace(program.functions[0], body=Region((op,)))
    text = str(replace(program, functions=(alone,)))
    operands = [name for name, count in op.groups if count] or operation.operands
    names = dict(zip((v.name for v in op.results), operation.results, strict=False))
    names |= dict(zip((v.name for v in op.ins), operands, strict=False))
    line = next(x for x in text.splitlines() if re.search(rf"pto\.{re.escape(op.name)}(?![\w.])", x))
    return re.sub(r"%(\w+)", lambda m: "%" + names.get(m[1], m[1]), line.strip())


def micro_sessions() -> str:
    """Calls of the kernels of micro-operations in Python with what they print."""
    shown = {name: micro_session(kernel) for name, kernel in micro.kernels().items()}
    return json.dumps(shown, indent=1, sort_keys=True) + "\n"


def micro_session(kernel: micro.MicroKernel) -> str:
    """The session of one kernel, which the oracle executes; tests compare it with the engine."""
    arguments = {a.name: eval(a.array(), {"np": np}) for a in kernel.arguments}
    results = oracle.run(api.parse(kernel.text()), arguments, profile="a5")
    lines = [f">>> {line}" for line in kernel.session()]
    return "\n".join([*lines, str({name: array[:16].tolist() for name, array in results.items()})])


def main(arguments: Sequence[str]) -> None:
    """Write the stub files, or with ``--sessions`` what the manual shows of Python."""
    if "--sessions" in arguments:
        SESSIONS.write_text(sessions(), encoding="utf-8")
        MICRO_EXAMPLES.write_text(micro_examples(), encoding="utf-8")
        MICRO_SESSIONS.write_text(micro_sessions(), encoding="utf-8")
        return
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
