"""What a system test's host program does: which kernel a case launches, and which file is which argument.

Host programs are C++ of one manner: files are read into host memory, copied to device memory, a wrapper
launches the kernel, results are copied back and written. Only these calls are read, the way of each buffer
is followed by the names of variables, and what does not fit is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from ...errors import FileError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CASE = re.compile(r'\{\s*"(?P<case>[^"]+)"(?P<row>[^{}]*)\}')
_WRAPPER = re.compile(r"\bvoid\s+(?P<name>\w+)\s*\((?P<parameters>[^)]*)\)\s*\{")
_KERNEL = re.compile(r"\b(?P<name>\w+)\s*<<<[^>]*>>>\s*\(")
_CONSTANT = re.compile(r"\bconst(?:expr)?\s+[\w\s]*?(?P<name>\w+)\s*=\s*(?P<value>[-\w.+]+)\s*;")
_CALL = re.compile(r"\b(?P<name>\w[\w.]*(?:->\w+)?)\s*\(")
_FILE = re.compile(r'"/?(?P<name>[\w.]+\.bin)"')
_CAST = re.compile(
    r"^(?:\(\s*(?:__gm__\s+)?[\w\s:]+\**\s*\)(?=\s*[\w(&])|(?:static|reinterpret|const)_cast<[^>]*>)\s*"
)
#: A pointer of the wrapper under another name, or a number that is copied from where one points to.
_ALIAS = re.compile(r"\b(?P<type>\w+)\s*\*\s*(?P<name>\w+)\s*=\s*(?:\([^()]*\)\s*)?(?P<of>\w+)\s*;")
_COPIED = re.compile(r"\bmemcpy\(\s*&(?P<name>\w+)\s*,\s*(?P<of>\w+)\s*,")
_POINTER = re.compile(r"^(?P<name>\w+)\s*\+\s*(?P<count>[\d\s*+()]+)$")
_BITS = re.compile(r"^\w*bits\w*\(\s*(?P<bits>0x[0-9A-Fa-f]+)[uU]?\s*\)$")
_MACRO = re.compile(
    r"^[ \t]*#define\s+(?P<name>\w+)\((?P<parameter>\w+)\)(?P<body>(?:.*\\\n)*.*)$", re.MULTILINE
)
#: Bytes of C++ scalar types, by a part of their names.
_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "short": 2, "half": 2, "char": 1, "float": 4, "int": 4}
_NAME = re.compile(r"[A-Za-z_]\w*(?:\[\w+\])?")


@dataclass(frozen=True)
class Launch:
    """How a case launches its kernel.

    ``arguments`` has, per argument of the kernel, the file it is read from and those it is written to, or a
    number as the text has it.
    """

    kernel: str
    arguments: tuple[Buffer | str, ...]


@dataclass(frozen=True)
class Buffer:
    """Memory that a kernel gets: the file that fills it and the file it ends in, where there are such.

    ``offset`` is the number of bytes from its start to where the argument points.
    """

    name: str
    source: str | None = None
    target: str | None = None
    offset: int = 0


@dataclass(frozen=True)
class _Call:
    """A call of the text."""

    name: str
    arguments: tuple[str, ...]


@dataclass
class _Segment:
    """Reads, copies and writes around one launch, by the names of the variables."""

    launch: _Call
    read: dict[str, str] = field(default_factory=dict)
    to_device: dict[str, str] = field(default_factory=dict)
    to_host: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether a file is known for an argument."""
        buffers = (self.buffer(_plain(a)) for a in self.launch.arguments)
        return any(b.source or b.target for b in buffers)

    def buffer(self, device: str) -> Buffer:
        """What becomes of a variable of device memory, or of a host variable that is passed itself."""
        host = self.to_device.get(device, device)
        back = [h for h, d in self.to_host.items() if d == device]
        target = next((self.written[h] for h in back if h in self.written), None)
        return Buffer(device, self.read.get(host), target)


def launches(main: str, wrappers: str, cases: Sequence[str], place: str) -> dict[str, Launch | FileError]:
    """The launch of each case, by its name.

    ``main`` is the text of the host program, ``wrappers`` that of the launch wrappers. A case that has no
    wrapper, or whose buffers cannot be followed, has the error that says so, with ``place``.
    """
    main, wrappers = _COMMENT.sub("", main), _expanded(_COMMENT.sub("", wrappers))
    kernels = _kernels(wrappers)
    rows = {m["case"]: m["row"] for m in _CASE.finditer(main)}
    segments = list(_segments(main))
    table: dict[str, Launch | FileError] = {}
    for case in cases:
        try:
            table[case] = _launch(case, rows.get(case, ""), kernels, segments, place)
        except FileError as error:
            table[case] = error
    return table


def _expanded(text: str) -> str:
    """The text with macros of one parameter written out."""
    for macro in list(_MACRO.finditer(text)):
        body = macro["body"].replace("\\\n", "\n")

        def written_out(use: re.Match[str], body: str = body, parameter: str = macro["parameter"]) -> str:
            joined = re.sub(rf"\s*##\s*{parameter}\b|\b{parameter}\s*##\s*", use[1], body)
            return re.sub(rf"\b{parameter}\b", use[1], joined)

        text = re.sub(rf"^{macro['name']}\((\w+)\)", written_out, text, flags=re.MULTILINE)
    return text


@dataclass(frozen=True)
class _Wrapper:
    """A launch wrapper: the kernel, the wrapper's parameters, and what it passes on.

    ``passed`` has a parameter with the bytes that it is moved by, or a number.
    """

    kernel: str
    parameters: tuple[str, ...]
    passed: tuple[tuple[str, int], ...]


def _kernels(text: str) -> dict[str, _Wrapper]:
    constants = {m["name"]: m["value"] for m in _CONSTANT.finditer(text)}
    table = {}
    for m in _WRAPPER.finditer(text):
        body = text[m.end() : _closing(text, m.end() - 1, "{}")]
        kernel = _KERNEL.search(body)
        if kernel is None:
            continue
        inside = body[kernel.end() : _closing(body, kernel.end() - 1, "()")]
        types = {name: kind for kind, name in re.findall(r"(\w+)\s*\*+\s*(\w+)", m["parameters"])}
        types |= {a["name"]: a["type"] for a in _ALIAS.finditer(body)}
        same = {a["name"]: a["of"] for a in (*_ALIAS.finditer(body), *_COPIED.finditer(body))}
        passed = []
        for expression in map(_plain, _split(inside)):
            moved = _POINTER.match(expression)
            name = moved["name"] if moved else expression
            count = _product(moved["count"]) * _size(types.get(name, "")) if moved else 0
            passed.append((constants.get(name, same.get(name, name)), count))
        parameters = tuple(re.split(r"[\s*]+", p.strip())[-1] for p in _split(m["parameters"]))
        table[m["name"]] = _Wrapper(kernel["name"], parameters, tuple(passed))
    return table


def _product(text: str) -> int:
    """The value of sums of products of numbers."""
    terms = (re.findall(r"\d+", term) for term in text.split("+"))
    return sum(prod(map(int, factors)) for factors in terms)


def _size(kind: str) -> int:
    """The bytes of a C++ scalar type."""
    return next((n for part, n in _SIZES.items() if part in kind), 1)


def _launch(
    case: str, row: str, kernels: Mapping[str, _Wrapper], segments: Sequence[_Segment], place: str
) -> Launch:
    named = next((n for n in re.findall(r"\w+", row) if n in kernels), None)
    name = named or next((n for n in kernels if n.lower().endswith(f"_{case.lower()}")), None)
    if name is None:
        raise FileError(f"{place}: case {case}: no launch wrapper; known: {', '.join(kernels) or 'none'}")
    wrapper = kernels[name]
    segment = _segment(name, wrapper, segments)
    if segment is None:
        raise FileError(
            f"{place}: case {case}: no call that launches {name} with {len(wrapper.parameters)} arguments"
        )
    given = dict(zip(wrapper.parameters, map(_plain, segment.launch.arguments), strict=True))
    arguments = [
        replace(segment.buffer(given[p]), offset=n) if p in given else _number(p) for p, n in wrapper.passed
    ]
    lost = [a for a in arguments if isinstance(a, str) and not re.match(r"^-?[\d.]", a)]
    if lost:
        raise FileError(f"{place}: case {case}: the value of {', '.join(lost)} is not in the text")
    if not any(isinstance(a, Buffer) and a.target for a in arguments):
        raise FileError(f"{place}: case {case}: no result of {wrapper.kernel} is followed to a file")
    return Launch(wrapper.kernel, tuple(arguments))


def _number(text: str) -> str:
    """A number as the text has it; the bits of a float are written in hexadecimal."""
    bits = _BITS.match(text)
    return bits["bits"] if bits else text


def _segment(name: str, wrapper: _Wrapper, segments: Sequence[_Segment]) -> _Segment | None:
    """The launch by the wrapper's name or through a pointer, with as many arguments, best with files."""
    fitting = [s for s in segments if len(s.launch.arguments) == len(wrapper.parameters)]
    fitting.sort(key=lambda s: (not s.known, s.launch.name != name))
    return next((s for s in fitting if s.launch.name == name or "launch" in s.launch.name), None)


def _segments(text: str) -> Iterator[_Segment]:
    """Every launch with what is read before it and written after it."""
    calls = list(_calls(text))
    at = [i for i, c in enumerate(calls) if _is_launch(c)]
    for n, i in enumerate(at):
        segment = _Segment(calls[i])
        start = _start(calls, at[n - 1] + 1 if n else 0, i)
        end = at[n + 1] if n + 1 < len(at) else len(calls)
        for call in calls[start:i]:
            _collect(segment, call)
        for call in calls[i + 1 : end]:
            if segment.written and _transfer(call) == "read":
                break
            _collect(segment, call)
        if not segment.written and n + 1 < len(at):
            for call in calls[at[-1] + 1 :]:
                _collect(segment, call)
        yield segment


def _start(calls: Sequence[_Call], start: int, launch: int) -> int:
    """Where the reads of a launch begin: behind the writes of the launch before it.

    Launches in the branches of one host function share the reads before the first of them.
    """
    between = [i for i in range(start, launch) if _transfer(calls[i]) == "read"]
    return between[0] if between else 0


def _transfer(call: _Call) -> Literal["read", "write", None]:
    if not any(_FILE.search(a) for a in call.arguments):
        return None
    last = call.name.rpartition(".")[2].lower()
    return "write" if "write" in last else None if last.endswith("printf") else "read"


def _collect(segment: _Segment, call: _Call) -> None:
    kind = _transfer(call)
    if kind is not None:
        file = next((m["name"] for a in call.arguments if (m := _FILE.search(a))), "")
        for argument in call.arguments[1:]:
            variable = _plain(argument)
            if _NAME.fullmatch(variable):
                (segment.read if kind == "read" else segment.written).setdefault(variable, file)
        if len(call.arguments) == 2 and "::" in call.arguments[1]:
            segment.read[call.name] = file
    elif call.name.endswith(".read") and call.name.rpartition(".")[0] in segment.read:
        segment.read[_plain(call.arguments[0])] = segment.read[call.name.rpartition(".")[0]]
    elif call.name == "aclrtMemcpy" and len(call.arguments) == 5:
        target, source = _plain(call.arguments[0]), _plain(call.arguments[2])
        if "HOST_TO_DEVICE" in call.arguments[4]:
            segment.to_device.setdefault(target, source)
        else:
            segment.to_host.setdefault(target, source)


def _is_launch(call: _Call) -> bool:
    return bool(call.arguments) and call.arguments[-1] == "stream" and "aunch" in call.name


def _calls(text: str) -> Iterator[_Call]:
    """Calls inside functions, innermost ones too, in the order of the text."""
    for m in _CALL.finditer(text):
        end = _closing(text, m.end() - 1, "()")
        if end > 0:
            yield _Call(m["name"], tuple(_split(text[m.end() : end])))


def _closing(text: str, start: int, pair: str) -> int:
    """Where the bracket that opens at ``start`` closes, or -1."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    return -1


def _split(text: str) -> Iterator[str]:
    """The parts between the commas that stand in no bracket."""
    depth, part = 0, ""
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += c
    if part.strip():
        yield part.strip()


def _plain(expression: str) -> str:
    """An expression without casts, brackets around it, and the address operator."""
    e = expression.strip()
    while True:
        if m := _CAST.match(e):
            e = e[m.end() :].strip()
        elif e.startswith("(") and _closing(e, 0, "()") == len(e) - 1:
            e = e[1:-1].strip()
        elif e.startswith("&"):
            e = e[1:].strip()
        else:
            return e
