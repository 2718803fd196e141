"""Programs with one use of undefined data each, and the same programs repaired.

A line is an allocation ``a = f32 8x8 more``, an argument ``x : f32 8x8``, an instruction ``tadd a b -> c
{attributes}``, or text after a bar, where ``$a`` is the type of ``%a``. Lines after ``-`` stand in the
program with the defect only, those after ``+`` in the repaired one only; ``!`` at the end marks the line
that is reported. Scalars that every program has: ``i0`` to ``i8`` (index), ``one`` (f32), ``zero``, ``two``,
``wide`` (i32 0, 2, 32).
"""

import re
from dataclasses import dataclass
from pathlib import Path

_SCALARS = {
    **{f"i{n}": ("index", str(n)) for n in range(9)},
    "one": ("f32", "1.0"),
    "zero": ("i32", "0"),
    "two": ("i32", "2"),
    "wide": ("i32", "32"),
}


@dataclass(frozen=True)
class Planted:
    """A defect: what is reported (instruction, lanes, origin: parts of the message), and the text."""

    name: str
    instruction: str
    lanes: str
    origin: str
    text: str
    profile: str = "a5"

    def program(self, *, repaired: bool) -> tuple[str, int]:
        """The program's text and the line that is reported."""
        types = {name: t for name, (t, _) in _SCALARS.items()}
        arguments: list[str] = []
        body = [f"%{n} = arith.constant {v} : {t}" for n, (t, v) in _SCALARS.items()]
        marked = 0
        for line in self.text.strip().splitlines():
            line = line.strip()
            if line[0] in "+-":
                if (line[0] == "+") != repaired:
                    continue
                line = line[1:].strip()
            if line.endswith("!"):
                line, marked = line[:-1].strip(), len(body) + 2
            _translate(line, types, arguments, body)
        head = f"func.func @main({', '.join(arguments)}) attributes {{pto.entry}} {{"
        return "\n".join([head, *body, "return", "}"]), marked


def _translate(line: str, types: dict[str, str], arguments: list[str], body: list[str]) -> None:
    if line.startswith("|"):
        line = line[1:].strip()
        written = re.sub(r"\$(\w+)", lambda m: types[m[1]], line)
        if bound := re.match(r"%(\w+) = .*?(!pto[^>]*>|: \w+)$", written):
            types[bound[1]] = bound[2].removeprefix(": ")
        body.append(written)
    elif found := re.match(r"(\w+) : (\w+) (\w+)$", line):
        types[found[1]] = f"!pto.partition_tensor_view<{found[3]}x{found[2]}>"
        arguments.append(f"%{found[1]}: {types[found[1]]}")
    elif found := re.match(r"(\w+) = (?:(mat|left|right|acc|bias) )?(\w+) (\d+x\d+)((?: [\w=?]+)*)$", line):
        name, loc, dtype, shape, more = found.groups()
        given = dict(word.split("=") for word in more.split())
        address = given.pop("addr", None)
        fields = "".join(f", {key}={value}" for key, value in given.items())
        types[name] = f"!pto.tile_buf<{loc or 'vec'}, {shape}x{dtype}{fields}>"
        if address is not None:
            body.append(f"%at_{name} = arith.constant {address} : i64")
        where = "" if address is None else f" addr = %at_{name}"
        body.append(f"%{name} = pto.alloc_tile{where} : {types[name]}")
    else:
        match = re.match(r"([\w.]+) (.*?)-> ([\w ]+?)( \{.*\})?$", line)
        assert match, line
        name, ins, outs, attributes = match.groups()
        body.append(f"pto.{name} ins({_typed(ins, types)}) outs({_typed(outs, types)}){attributes or ''}")


def _typed(names: str, types: dict[str, str]) -> str:
    listed = names.split()
    return f"{', '.join(f'%{n}' for n in listed)} : {', '.join(types[n] for n in listed)}"


def defects() -> tuple[Planted, ...]:
    """The programs of ``planted.txt``: a name, the profile where it is not a5, what is reported, the text."""
    found = []
    blocks = Path(__file__).with_name("planted.txt").read_text().split("== ")
    for block in blocks[1:]:
        head, reported, text = block.split("\n", 2)
        name, _, profile = head.rstrip(")").partition(" (")
        instruction, lanes, origin = reported.split(" | ")
        found.append(Planted(name, instruction, lanes, origin, text, profile or "a5"))
    return tuple(found)
