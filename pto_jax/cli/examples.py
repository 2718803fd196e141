"""Instructions in Python as pages and help show them: a call with what it prints."""

import contextlib
import io
import linecache
from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum
from typing import Any

from .. import errors, isa
from ..ir import PtrType, ScalarType, Symbol, TileType, Type
from ..isa.samples.operations import Sample, legal_samples, to_program
from ..profiles import PROFILES
from ..runtime import op_examples, op_functions
from ..runtime.op_types import python_name, spelled
from ..text.type_text import print_type

#: The file that Python names in errors of an example.
_FILE = "<example>"


def statements(instruction: isa.Instruction) -> tuple[str, ...]:
    r"""Statements that call an instruction: on arrays where it is one of ``pto.ops``, else in a kernel.

    Each is one string, that of a kernel with its body. () for an instruction without a legal operation.

    >>> print(*statements(isa.instructions()["set_flag"]), sep="\n")
    @pto.kernel
    def k():
        pto.set_flag(src="S", dst="V", event=0)
    print(k)
    """
    if op_functions.is_function(instruction):
        call = op_examples.example(instruction)
        if call is not None:
            return call.statements
    for profile in (PROFILES["a2a3"], PROFILES["a5"], PROFILES["cpu_sim"]):
        for sample in legal_samples(instruction, profile):
            for typed in ("", "type=", "first"):
                lines = (_kernel(sample, typed), "print(k)")
                if _prints(lines, instruction.name):
                    return lines
    return _refused(instruction) if instruction.row else ()


def _refused(instruction: isa.Instruction) -> tuple[str, ...]:
    """A kernel with an instruction that no profile has, and what the verifier says of it."""
    later = replace(instruction, types={"a5": (instruction.row,)})
    sample = next(legal_samples(later, PROFILES["a5"]))
    return _kernel(sample, ""), 'print(pto.verify(k.program, profile="a5")[0].message)'


def session(instruction: isa.Instruction) -> str:
    """The statements as a session of Python, with what they print; "" for an instruction without any.

    >>> session(isa.instructions()["tneg"]).splitlines()[1:3]
    ['>>> print(pto.ops.tneg(src))', 'vec 1x8xf32']
    """
    lines = statements(instruction)
    if not lines:
        return ""
    try:
        printed = executed(lines)[1]
    except errors.PtoError as error:  # An added instruction may refuse the numbers.
        printed = errors.brief(error)
    return "\n".join([*map(_prompted, lines), printed.rstrip("\n")])


def executed(lines: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """The names that statements define, and what they print."""
    import numpy as np

    import pto_jax as pto

    source = "\n".join(lines)
    linecache.cache[_FILE] = (len(source), None, source.splitlines(keepends=True), _FILE)
    names: dict[str, Any] = {"np": np, "pto": pto}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, _FILE, "exec"), names)
    return names, printed.getvalue()


def _prompted(statement: str) -> str:
    return ">>> " + statement.replace("\n", "\n... ")


def _prints(lines: tuple[str, ...], name: str) -> bool:
    """Whether a kernel is built from its call, and holds the operation."""
    try:
        names, _ = executed(lines)
    except (errors.PtoError, TypeError):
        return False
    return any(op.name == name for op in names["k"].program.walk())


def _kernel(sample: Sample, typed: str) -> str:
    """A kernel whose body is the operation of a sample; ``typed`` is where the call has types of results."""
    instruction = sample.instruction
    items = next(op for op in reversed(list(to_program(sample).walk())) if op.name == instruction.name)
    results = [o.name for o in instruction.destinations if o.name in sample.types]
    operands = [*(results if items.outs else []), *sample.form]
    arguments = {n: _type(sample.types[n]) for n in operands if n not in sample.constants}
    types = ", ".join(f'"{n}": {t}' for n, t in arguments.items())
    head = f"@pto.kernel(types={{{types}}})" if types else "@pto.kernel"
    call = [*_arguments(sample, operands)]
    if typed:
        result_types = ", ".join(_type(sample.types[n]) for n in results)
        result_types = result_types if len(results) == 1 else f"[{result_types}]"
        call = [result_types, *call] if typed == "first" else [*call, f"type={result_types}"]
    target = "value = " if items.results else ""
    line = f"{target}pto.{python_name(instruction)}({', '.join(call)})"
    return f"{head}\ndef k({', '.join(arguments)}):\n    {line}"


def _arguments(sample: Sample, names: list[str]) -> Iterator[str]:
    for name in names:
        numbers = sample.constants.get(name, ())
        value = repr(list(numbers)) if len(numbers) > 1 else repr(numbers[0]) if numbers else name
        yield f"{name}={value}"
    for key, chosen in sample.attrs.items():
        attribute = sample.instruction.attribute(key)
        if attribute is not None and chosen != attribute.default:
            yield f"{key}={_word(chosen)}"


def _word(value: object) -> str:
    if isinstance(value, IntEnum | Symbol):
        return f'"{value.name}"'
    return repr(list(value)) if isinstance(value, tuple) else repr(value).replace("'", '"')


def _type(t: Type) -> str:
    """A type as an expression."""
    if isinstance(t, TileType) and t.conv is None:
        return spelled(t).replace("'", '"')
    if isinstance(t, PtrType) and print_type(t) == f"!pto.ptr<{t.dtype}>":
        return f'pto.ptr("{t.dtype}")'
    return f'"{t.dtype}"' if isinstance(t, ScalarType) else f"'{print_type(t)}'"
