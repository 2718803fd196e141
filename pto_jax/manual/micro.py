"""Pages of the manual on micro-operations: all of them by their purpose, and one for each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

import numpy as np

from .. import isa
from ..errors import PtoError
from ..isa.micro import MicroOperation
from ..profiles import PROFILES
from ..text import parse
from ..verifier.programs import verify_program
from .topics import Part, Topic, program, table

_BYTES = 256
#: Space of an argument in the unified buffer: a register, or what the widest access of one reaches.
_SPACE = 1024
_LINE = re.compile(r"(?:(?P<results>%[^=]+) = )?pto\.(?P<name>[\w.]+)(?P<rest>.*)")
_REGISTER = re.compile(r"!pto\.(?:vmi\.)?vreg<(\d+)x([\w.!]+)>")
_MASK = re.compile(r"!pto\.(?:mask<b(\d+)>|vmi\.mask<(\d+)xpred>)")
_POINTER = re.compile(r"!pto\.ptr<(\w+), (?:vec|ub)>")
#: Patterns of masks, the first one where lanes are computed and all of them where masks or lanes move.
_PATTERNS = ("PAT_M3", "PAT_H", "PAT_ALL")
_MOVING = ("registers_moves", "registers_reduce")
#: Numbers of operands by name, 1 for others.
_NUMBERS = {"offset": 0, "count": 5, "block_stride": 2, "repeat_stride": 0, "part": 0, "bin": 0, "value": 7,
            "trip": 0, "bound": 5, "index": 3}  # fmt: skip


# -- kernels around one micro-operation --------------------------------------------------------------


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel: its element type in the text, and how many elements are shown."""

    name: str
    dtype: str
    count: int
    written: bool = False
    first: int = 0

    @property
    def numpy(self) -> str:
        """The element type of the array: floats of 8 bits are bytes."""
        word = self.dtype.removeprefix("s") if self.dtype.startswith("si") else self.dtype
        kinds = {"f32": "float32", "f16": "float16", "i": "int", "ui": "uint"}
        kind, bits = re.sub(r"\d+$", "", word), re.sub(r"^\D+", "", word)
        return kinds.get(word) or f"{kinds[kind]}{bits}"

    def array(self) -> str:
        """The Python expression of its contents."""
        if self.written:
            return f"np.zeros({self.count}, np.{self.numpy})"
        return f"np.arange({self.first}, {self.first + self.count}).astype(np.{self.numpy})"


@dataclass
class MicroKernel:
    """The text of a kernel and its arguments."""

    operation: MicroOperation
    line: str
    arguments: list[Argument] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The program."""
        listed = ", ".join(f"%{a.name}: !pto.ptr<{_stored(a.dtype)}, gm>" for a in self.arguments)
        copies, results = list[str](), list[str]()
        for i, a in enumerate(self.arguments):
            t, size = _stored(a.dtype), a.count * np.dtype(a.numpy).itemsize
            moved = f"nburst(%one, %size{i}, %size{i})"
            types = f"!pto.ptr<{t}, gm>, !pto.ptr<{t}, ub>, i64, i64, i64, i64, i64"
            back = f"!pto.ptr<{t}, ub>, !pto.ptr<{t}, gm>, i64, i64, i64, i64"
            copies += [
                f"%at{i} = arith.constant {i * _SPACE} : i64",
                f"%size{i} = arith.constant {size} : i64",
                f"%{a.name}_ub = pto.castptr %at{i} : i64 -> !pto.ptr<{t}, ub>",
                f"pto.mte_gm_ub %{a.name}, %{a.name}_ub, %zero, %size{i} {moved} : {types}",
            ]
            if a.written:
                results.append(f"pto.mte_ub_gm %{a.name}_ub, %{a.name}, %size{i} {moved} : {back}")
        inner = [f"  {line}" for line in (*self.before, *self.loads, self.line, *self.stores)]
        body = [
            "%c0 = arith.constant 0 : index",
            "%zero = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            *copies,
            'pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]',
            'pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]',
            "pto.vecscope {",
            *inner,
            "}",
            'pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]',
            'pto.wait_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]',
            *results,
            "return",
        ]
        lines = [
            'module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {',
            f"  func.func @example({listed}) attributes {{pto.kernel}} {{",
            *(f"    {line}" for line in body),
            "  }",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def session(self) -> Iterator[str]:
        """The Python lines that call the kernel, the last one an expression."""
        for a in self.arguments:
            yield f"{a.name} = {a.array()}"
        yield f'kernel = pto.compile(pto.load("{self.operation.name}.pto"), profile="a5")'
        yield f"results = kernel({', '.join(a.name for a in self.arguments)})"
        yield "{name: array[:16].tolist() for name, array in results.items()}"


@cache
def examples() -> dict[str, str]:
    """A line of a program for each operation that generated kernels have: written by tools.stubs."""
    stored = resources.files("pto_jax.manual") / "micro.json"
    lines: dict[str, str] = json.loads(stored.read_text(encoding="utf-8"))
    return lines


@cache
def micro_sessions() -> dict[str, str]:
    """Calls of the kernels in Python with what they print: written by tools.stubs."""
    stored = resources.files("pto_jax.manual") / "micro_sessions.json"
    shown: dict[str, str] = json.loads(stored.read_text(encoding="utf-8"))
    return shown


def _stored(dtype: str) -> str:
    """The element type of pointers: integers of the text without a sign."""
    return dtype.removeprefix("s") if dtype.startswith("si") else dtype


def distributions(operation: MicroOperation) -> Iterator[tuple[str, MicroKernel]]:
    """The kernels of the distributions and parts of an operation that are executed, by their words."""
    plain = kernel_of(operation)
    key = next((k for k in ("dist", "part") if k in operation.choices), None)
    if plain is None or key is None:
        return
    line = re.sub(r"_ub(?=\[)", "", plain.line)
    for word in operation.choices[key]:
        if word in operation.refused:
            continue
        chosen = re.sub(r'"\w+"', f'"{word}"', line, count=1)
        if '"' not in line:
            chosen = re.sub(r" : ", f' {{{key} = "{word}"}} : ', line, count=1)
        bits = re.search(r"_?B(\d+)$", word)
        kernel = _kernel(operation, _of_width(chosen, int(bits[1])) if bits is not None else chosen)
        if kernel is not None:
            yield word, kernel


def _of_width(line: str, bits: int) -> str:
    """The line on integers of a width."""
    line = _REGISTER.sub(f"!pto.vreg<{_BYTES * 8 // bits}xsi{bits}>", line)
    line = re.sub(r"!pto\.ptr<\w+,", f"!pto.ptr<i{bits},", line)
    return re.sub(r"!pto\.mask<b\d+>", f"!pto.mask<b{bits}>", line)


def kernels() -> dict[str, MicroKernel]:
    """The kernels by operation."""
    made = ((name, kernel_of(operation)) for name, operation in isa.micro_operations().items())
    return {name: kernel for name, kernel in made if kernel is not None}


@cache
def _kernel_of(name: str) -> MicroKernel | None:
    return kernel_with(isa.micro_operations()[name], examples().get(name, ""))


def kernel_of(operation: MicroOperation) -> MicroKernel | None:
    """The kernel of an operation, None where there is none."""
    return _kernel_of(operation.name)


def kernel_with(operation: MicroOperation, line: str) -> MicroKernel | None:
    """The kernel around a line of an operation, on lanes of f32 where they may be that; None without one."""
    kernels = (_kernel(operation, shown) for shown in (_plain(operation, line), line))
    return next((k for k in kernels if k is not None), None)


def _kernel(operation: MicroOperation, line: str) -> MicroKernel | None:
    match = _LINE.fullmatch(line)
    family = next(f for f, ops in isa.micro_families().items() if operation in ops)
    if match is None or family in ("cube", "cube_stores", "ub_transfers"):
        return None
    kernel = MicroKernel(operation, match[0])
    operands, types = _operands(match)
    if len(operands) != len(types):
        return None
    masks = iter(_PATTERNS if family in _MOVING or "mask" not in operation.operands else ("PAT_ALL",) * 3)
    try:
        for name, t in zip(operands, types, strict=True):
            _operand(kernel, name, t, masks)
        for name, t in zip(*_results(match), strict=True):
            _result(kernel, name, t)
        findings = verify_program(parse(kernel.text()), PROFILES["a5"])
    except (LookupError, StopIteration, PtoError):
        return None
    legal = not any(d.severity == "error" for d in findings)
    return kernel if legal and any(a.written for a in kernel.arguments) else None


def _plain(operation: MicroOperation, line: str) -> str:
    """The line on lanes of f32 where all its registers have one type and may have that one."""
    registers = {m[0] for m in _REGISTER.finditer(line)}
    if (
        len(registers) == 1
        and "!pto.ptr" not in line
        and "f32" in operation.elements.get("T", ("f32",))
        and "vreg" in line.partition("->")[0]
    ):
        logical = "vmi." in next(iter(registers))
        lanes = 16 if logical else 64
        line = _REGISTER.sub(f"!pto.{'vmi.' if logical else ''}vreg<{lanes}xf32>", line)
        line = re.sub(r"!pto\.mask<b\d+>", "!pto.mask<b32>", line)
        line = re.sub(r"!pto\.vmi\.mask<\d+xpred>", f"!pto.vmi.mask<{lanes}xpred>", line)
        line = re.sub(r", (?:ui|si|i|f|bf)\d+(?=, !pto\.(?:vmi\.)?mask)", ", f32", line)
    return line


def _operands(match: re.Match[str]) -> tuple[list[str], list[str]]:
    """The operands of a line and their types."""
    head, _, types = match["rest"].partition(" : ")
    names, listed = re.findall(r"%(\w+)", head), _listed(types.partition(" -> ")[0])
    # Texts leave out that offsets, and parts of registers, are indexes.
    for at, name in enumerate(names):
        if len(listed) < len(names) and (f"[%{name}]" in head or at == len(listed)):
            listed.insert(at, "index")
    return names, listed if names else []


def _results(match: re.Match[str]) -> tuple[list[str], list[str]]:
    names = re.findall(r"%(\w+)", match["results"] or "")
    types = match["rest"].partition(" : ")[2]
    return names, _listed(types.partition(" -> ")[2] or types) if names else []


def _listed(types: str) -> list[str]:
    return [t.strip() for t in re.findall(r"(?:[^,<]|<[^>]*>)+", types)]


def _operand(kernel: MicroKernel, name: str, t: str, masks: Iterator[str]) -> None:
    """What an operand needs: an argument that is loaded, a mask of a pattern, a number."""
    register, mask, pointer = _REGISTER.fullmatch(t), _MASK.fullmatch(t), _POINTER.fullmatch(t)
    if register is not None:
        count, dtype = int(register[1]), register[2]
        first = sum(not a.written for a in kernel.arguments) * (100 if dtype[:1] == "f" else 1)
        kernel.arguments.append(Argument(f"{name}_in", dtype, count, first=first))
        how = "vmi.load" if ".vmi." in t else "vlds"
        kernel.loads.append(f"%{name} = pto.{how} %{name}_in_ub[%c0] : !pto.ptr<{_stored(dtype)}, ub> -> {t}")
    elif mask is not None:
        made, pattern = f"pset_b{mask[1]}" if mask[1] else "vmi.pset", next(masks)
        if mask[2] and pattern != _PATTERNS[-1]:
            made, pattern = "vmi.pge", f"PAT_VL{int(mask[2]) // 2 or 1}"
        kernel.before.append(f'%{name} = pto.{made} "{pattern}" : {t}')
    elif pointer is not None:
        access = next(p.access for p in kernel.operation.places if p.pointer == name)
        count = 2 * _BYTES // np.dtype(Argument(name, pointer[1], 1).numpy).itemsize
        kernel.arguments.append(Argument(name, pointer[1], count, written=access != "read"))
        kernel.line = re.sub(rf"%{name}(?!\w)", f"%{name}_ub", kernel.line)
    else:
        number = _NUMBERS.get(name, 2)
        value = f"{number}.0" if t in ("f32", "f16", "bf16") else str(number)
        signless, cast = t.removeprefix("u"), f"builtin.unrealized_conversion_cast %{name}_bits"
        made = f"%{name}" if signless == t else f"%{name}_bits"
        kernel.before.append(f"{made} = arith.constant {value} : {signless}")
        if signless != t:
            kernel.before.append(f"%{name} = {cast} : {signless} to {t}")


def _result(kernel: MicroKernel, name: str, t: str) -> None:
    """How a result is stored: a register as it is, a mask as ones and zeros."""
    register, mask = _REGISTER.fullmatch(t), _MASK.fullmatch(t)
    if mask is not None:
        bits = int(mask[1] or 32)
        count = int(mask[2] or _BYTES * 8 // bits)
        word, kind = f"i{bits}", "vmi.vreg" if mask[2] else "vreg"
        broadcast, t = ("vmi.vbrc" if mask[2] else "vbr"), f"!pto.{kind}<{count}xsi{bits}>"
        for number in (0, 1):
            kernel.before.append(f"%i{number}_{name} = arith.constant {number} : {word}")
            kernel.before.append(f"%r{number}_{name} = pto.{broadcast} %i{number}_{name} : {word} -> {t}")
        chosen = f"%r1_{name}, %r0_{name}, %{name} : {t}, {t}, {mask[0]}"
        if mask[2]:
            chosen = f"%{name}, %r1_{name}, %r0_{name} : {mask[0]}, {t}, {t}"
        select = "vmi.vsel" if mask[2] else "vsel"
        kernel.stores.append(f"%{name}_lanes = pto.{select} {chosen} -> {t}")
        _stored_register(kernel, f"{name}_lanes", t, f"si{bits}", count)
    elif register is not None:
        _stored_register(kernel, name, t, register[2], int(register[1]))


def _stored_register(kernel: MicroKernel, name: str, t: str, dtype: str, count: int) -> None:
    argument = Argument(f"{name}_out", dtype, count, written=True)
    kernel.arguments.append(argument)
    pointer = f"!pto.ptr<{_stored(dtype)}, ub>"
    if ".vmi." in t:
        kernel.stores.append(f"pto.vmi.store %{name}, %{name}_out_ub[%c0] : {t}, {pointer}")
        return
    bits = np.dtype(argument.numpy).itemsize * 8
    mask = f"!pto.mask<b{min(bits, 32)}>"
    kernel.stores.append(f'%all_{name} = pto.pset_b{min(bits, 32)} "PAT_ALL" : {mask}')
    kernel.stores.append(f"pto.vsts %{name}, %{name}_out_ub[%c0], %all_{name} : {t}, {pointer}, {mask}")


#: Where the operations of each module of declarations stand on the page.
FAMILIES = {
    "predicates": "Masks of a pattern or a count",
    "registers": "Arithmetic, logic, comparison, selection",
    "registers_moves": "Moves of lanes and of bits of masks",
    "registers_reduce": "Reductions and histograms",
    "registers_convert": "Conversions",
    "ub_memory": "Loads and stores of registers and masks",
    "ub_transfers": "Transfers of the unified buffer, sorting, settings",
    "cube": "Cube unit: staging, factors, products",
    "cube_stores": "Cube unit: stores of accumulators",
    "vmi": "Logical registers",
}
_SHORT = [
    "Micro-operations are the level of the A5 vector core below tile instructions. Values are registers of "
    "256 bytes, predicates of 256 bits and addresses of the unified buffer, which tiles share with them by "
    "bytes. A program may hold both. Everything that makes or takes a register stands in one pto.vecscope; "
    "where a text has none, operations in a row share one, as the assembler makes it.",
    "The same operations with the prefix vmi. work on any number of logical lanes.",
    "Operations of the cube unit stage matrices in L1, load fractals of both factors, multiply and store "
    "accumulators. They stand outside of vector scopes.",
    "Compilers write such programs, and `pto.parse` reads them. SIMT code, raw forms of cube code and the A3 "
    "form (pto.ub) are rejected.",
]
_TYPES = [
    ["!pto.vreg<64xf32>", "256 bytes as lanes of an element type; i16 has no sign, si16 and ui16 have one"],
    ["!pto.mask<b32>", "a bit per byte of a register; lane i of a b32 mask is bit 4 i"],
    ["!pto.align", "what an unaligned stream keeps between its operations"],
    ["!pto.ptr<f32, ub>", "a byte address in the unified buffer; addptr counts elements"],
    ["!pto.vmi.vreg<512xf32>", "logical lanes; !pto.vmi.mask<512xpred> has a bit for each"],
]
_LETTERS = [
    ["T, U, D", "a register; the operation's page has its element types"],
    ["M, MD", "a mask for the lanes of T, of D"],
    ["m, m16", "a mask of any width, of one bit per 16 bits"],
    ["sT", "a scalar of the element type of T"],
    ["p*, pT", "a pointer into the unified buffer; g*, gT into global memory, @l1 into that memory"],
    ["al, as", "the state of a stream of unaligned loads, of stores"],
    ["x, n, i32", "an index, any integer, that scalar"],
    ["-", "anything, also words in quotes"],
    ["?", "behind a name: it may be absent"],
]
_RULES = [
    "Inactive lanes of a result are zero; bytes of inactive lanes are not stored.",
    "Floats round to nearest even once per operation and keep subnormals; integers wrap.",
    "The post-update form returns a second pointer: it accesses the given one and returns it moved.",
    "Contents of the unified buffer before the first write are undefined; `--sanitize` reports their use.",
]


# -- pages -------------------------------------------------------------------------------------------


def _families() -> list[Part]:
    heads = ["operation", "meaning", "operands", "types"]
    return [
        Part(
            FAMILIES[family],
            table(heads, [[o.name, o.summary, o.text or "-", o.types or "-"] for o in operations]),
            "table",
        )
        for family, operations in sorted(isa.micro_families().items(), key=lambda f: [*FAMILIES].index(f[0]))
    ]


def _decisions() -> list[str]:
    decisions = {d: None for o in isa.micro_operations().values() for d in o.decisions}
    return [f"{d.question} {d.choice} ({d.source})" for d in decisions]


def operation_page(operation: MicroOperation) -> Topic:
    """The page of one micro-operation.

    >>> print(operation_page(isa.micro_operations()["vadd"]).page().splitlines()[0])
    vadd: Sum of lanes.
    """
    shown = [examples()[operation.name]] if operation.name in examples() else []
    kernel = kernel_of(operation)
    session = micro_sessions().get(operation.name)
    words = [[name, " ".join(types)] for name, types in operation.choices.items()]
    parts = (
        Part("Meaning", [operation.semantics] if operation.semantics else []),
        Part("Operands and their types", [operation.text, operation.types]),
        Part("Example", shown, "program", "a5"),
        Part("Kernel", [kernel.text().rstrip()] if kernel is not None and session else [], "program", "a5"),
        Part("Python", [session] if session else [], "program"),
        Part("Element types", type_matrix(operation), "table"),
        Part("Attributes and strings", table(["name", "values"], words) if words else [], "table"),
        Part("Not executed", [f"{word}: no source states its result" for word in operation.refused]),
        Part("Accuracy", [f"within {operation.ulp} ULP"] if operation.ulp else []),
        Part("Decisions", [f"{d.question} {d.choice} ({d.source})" for d in operation.decisions]),
        Part("Source", [operation.source] if operation.source else []),
        Part("See also", ["`pto-jax isa micro`: types, rules of all operations, a kernel"]),
    )
    return Topic(operation.name, operation.summary, tuple(p for p in parts if p.items))


def type_matrix(operation: MicroOperation) -> list[str]:
    """A row for each letter of the types of an operation, a column for each element type."""
    types = list(dict.fromkeys(t for listed in operation.elements.values() for t in listed))
    rows = [
        [letter, *("x" if t in listed else "-" for t in types)]
        for letter, listed in operation.elements.items()
    ]
    return table(["letter", *types], rows) if rows else []


def micro_topic() -> Topic:
    """The page."""
    return Topic(
        "micro",
        "Operations of A5 below tiles: vector registers, masks, addresses, the cube unit.",
        (
            Part("In short", _SHORT, "prose"),
            Part("A kernel", [program("micro")], "program", "a5"),
            Part("Types", table(["type", "meaning"], _TYPES), "table"),
            Part("Letters of the lists below", table(["letter", "meaning"], _LETTERS), "table"),
            Part("Rules of all operations", _RULES),
            *_families(),
            Part("Decisions where sources are silent or differ", _decisions()),
        ),
        ("vpto", "vmi", "vreg", "mask", "vecscope", "registers", "micro-operations", "cube"),
        "Micro-operations",
    )
