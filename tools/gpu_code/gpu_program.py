"""The program that XLA made for a GPU: its instructions, and how many kernels a call launches."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Instructions that are launched, when they stand in a scheduled computation.
KERNELS = frozenset(
    "fusion custom-call sort copy copy-start dynamic-update-slice dynamic-slice transpose reduce concatenate "
    "scatter gather memset".split()
)
#: Bytes of an element of the types whose names do not say it.
BYTES = {"pred": 1, "token": 0, "s4": 1, "u4": 1, "f8e4m3fn": 1, "f8e5m2": 1, "bf16": 2}
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,]*)\](\{[^}]*\})?")
_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_LINE = re.compile(r"^  (ROOT )?%?([\w.\-]+) = (.*)$")
_NAMES = re.compile(r"%([\w.\-]+)")
_OPERANDS = re.compile(r"%([\w.\-]+(?:#\d+)?)")


@dataclass(frozen=True)
class Step:
    """One instruction: its name, type and operation, its operands' names, and its attributes as text."""

    name: str
    type: str
    operation: str
    operands: tuple[str, ...]
    arguments: str
    attributes: str
    is_root: bool

    def computation(self, attribute: str) -> str:
        """The computation that an attribute names."""
        match = re.search(rf"\b{attribute}=%?([\w.\-]+)", self.attributes)
        assert match is not None, (attribute, self.attributes)
        return match.group(1)

    @property
    def branches(self) -> tuple[str, ...]:
        """The computations of a conditional."""
        several = re.search(r"branch_computations=\{([^}]*)\}", self.attributes)
        if several is not None:
            return tuple(_NAMES.findall(several.group(1)))
        return self.computation("true_computation"), self.computation("false_computation")

    @property
    def trips(self) -> int | None:
        """How often a loop is executed, None where that is not known."""
        known = re.search(r'known_trip_count":\{"n":"(\d+)"', self.attributes)
        return int(known.group(1)) if known is not None else None


@dataclass(frozen=True)
class Program:
    """Scheduled computations by name; ``entry`` is the one that a call executes."""

    computations: dict[str, tuple[Step, ...]]
    entry: str

    def launches(self, computation: str | None = None) -> int:
        """Kernels per call; loops whose trip count is not known count once, conditionals by their longest."""
        return sum(map(self._launched, self.computations[computation or self.entry]))

    def _launched(self, step: Step) -> int:
        match step.operation:
            case "while":
                once = sum(self.launches(step.computation(part)) for part in ("body", "condition"))
                return once * (step.trips or 1)
            case "conditional":
                return max(map(self.launches, step.branches))
            case "call":
                return self.launches(step.computation("to_apply"))
        return int(step.operation in KERNELS)

    def steps(self) -> Iterator[Step]:
        """The instructions of all computations."""
        for steps in self.computations.values():
            yield from steps


def read(text: str) -> Program:
    """The program of a text in XLA's notation."""
    computations: dict[str, tuple[Step, ...]] = {}
    entry, name, steps = "", "", list[Step]()
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head is not None:
            name, steps = head.group(2), []
            entry = name if head.group(1) else entry
        elif line == "}":
            computations[name] = tuple(steps)
        else:
            match = _LINE.match(line)
            if match is not None and name:
                step = _step(*match.groups())
                steps += [*_members(step, steps), step]
    return Program(computations, entry)


def _step(root: str | None, name: str, rest: str) -> Step:
    end = _closed(rest, 0) if rest.startswith("(") else rest.index(" ")
    type_, rest = rest[:end], rest[end:].lstrip()
    operation, _, rest = rest.partition("(")
    end = _closed("(" + rest, 0) - 1
    arguments, attributes = rest[: end - 1], rest[end:]
    return Step(
        name, type_, operation, tuple(_OPERANDS.findall(arguments)), arguments, attributes, root is not None
    )


def _members(step: Step, before: list[Step]) -> Iterator[Step]:
    """Steps for operands ``NAME#NUMBER``, as JAX 0.12 writes a member of a tuple."""
    earlier = {s.name: s for s in before}
    for operand in step.operands:
        name, mark, number = operand.partition("#")
        if mark and operand not in earlier:
            member = list(_ARRAY.finditer(earlier[name].type))[int(number)][0]
            yield Step(operand, member, "get-tuple-element", (name,), f"%{name}", f"index={number}", False)


def shapes(type_: str) -> list[tuple[str, tuple[int, ...], int]]:
    """Element type, dimensions and bytes per element of the arrays of a type."""
    text = re.sub(r"/\*.*?\*/", "", type_)
    result = []
    for name, dims, _ in _ARRAY.findall(text):
        width = BYTES.get(name) if name in BYTES else int(name.lstrip("fsuc")) // 8
        assert width is not None
        result.append((name, tuple(int(d) for d in dims.split(",") if d), width))
    return result


def layout(type_: str) -> tuple[int, ...]:
    """The dimensions of the one array of a type from the outermost in memory to the innermost."""
    ((_, dims, order),) = _ARRAY.findall(type_)
    inner_first = [int(i) for i in re.findall(r"\d+", order)]
    return tuple(reversed(inner_first)) if inner_first else tuple(range(len(dims.split(","))))


def _closed(text: str, start: int) -> int:
    """The position behind the parenthesis that closes the one at ``start``."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if not depth:
            return i + 1
    raise ValueError(f"no closing parenthesis: {text[:80]}")
