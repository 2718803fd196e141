"""C++ that the assembler emits, read as a program: the file, its kernels, its entry."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath
from typing import NoReturn

from .. import ir
from .cpp_statements import Statements
from .cpp_tokens import Words
from .cpp_values import ELEMENTS, SCALARS, Number, Pointer

_SECTIONS = {"__DAV_CUBE__": ir.KernelKind.CUBE, "__DAV_VEC__": ir.KernelKind.VECTOR}
_SECTION = re.compile(r"#\s*(?:if defined\s*\(?\s*|ifdef\s+)(__DAV_(?:CUBE|VEC)__)\s*\)?\Z")
#: Functions that the assembler writes around kernels.
_HELPERS = frozenset({"ptoas_auto_sync_tail", "PTOAS__DCCI_SINGLE_CACHE_LINE", "PTOAS__GLOBAL_TENSOR_DATA"})
#: A variable that the entry sets.
_LANE = "pypto_runtime_subblock_id"
_ENTRY, _SUBBLOCK = "kernel_entry", "__pypto_spmd_subblock_idx"
_SIMULATED = re.compile(r"#\s*(?:if defined\s*\(?\s*|ifdef\s+)__CPU_SIM\b")
_CORE = frozenset({"__aicore__", "AICORE", "__global__"})


def read_cpp(text: str, file: str) -> ir.Program:
    """The program of a file that the assembler emitted; ParseError for what it does not write."""
    return _File(text, file).program()


class _File:
    """The declarations of a file."""

    def __init__(self, text: str, file: str) -> None:
        self.words = Words(text, file)
        #: Kernels by name: the word of their name.
        self._kernels: dict[str, int] = {}
        #: The names that the entry gives to the arguments of the kernel that it calls.
        self._given: tuple[str, ...] = ()
        #: Inline functions, which kernels call.
        self._inline: set[str] = set()

    def program(self) -> ir.Program:
        """The whole file."""
        words = self.words
        while words.text:
            self._declaration()
        if not self._kernels:
            words.fail("got no kernel; allowed: functions 'static __aicore__ void NAME(...) { ... }'")
        earlier: dict[str, ir.Function] = {}
        readers = []
        for name, at in self._kernels.items():
            readers.append(_Kernel(words, name, at, self._names(name)))
            readers[-1].functions = earlier
            earlier[name] = readers[-1].function()
        functions = tuple(replace(f, private=f.name in self._inline) for f in earlier.values())
        architecture = _architecture(words.file) or next((a for r in readers if (a := r.architecture)), None)
        attributes = (("pto.target_arch", architecture),) if architecture else ()
        return ir.Program(
            functions,
            attributes,
            source=words.file,
            emitted=True,
            language=ir.PRESENT,
            tiles="tile_buf",
        )

    def _names(self, kernel: str) -> tuple[str, ...]:
        """The names of a kernel's arguments.

        Both kernels of a mixed program have the same arguments; that of the vector core has one more, which
        says which core of the block it is.
        """
        return (*self._given, _SUBBLOCK) if kernel not in self._inline and self._given else ()

    # -- declarations --------------------------------------------------------------------------------

    def _declaration(self) -> None:
        """One declaration at the level of the file."""
        words = self.words
        text = words.text
        if text[:1] == "#":
            self._directive()
        elif text in (";", "using", "typedef"):
            while words.take() not in (";", ""):
                pass
        elif text == "enum":
            while words.text not in ("{", ""):
                words.take()
            words.go(words.closing(words.index) + 1)
            words.accept(";")
        elif text == "[" and words.texts[words.index + 7 : words.index + 9] == [_LANE, ";"]:
            words.go(words.index + 9)
        else:
            self._function()

    def _directive(self) -> None:
        """A line of the preprocessor; what is for the simulator is left out."""
        words = self.words
        depth = 0
        simulated = _SIMULATED.match(words.text) is not None
        while words.text:
            line = words.take()
            depth += line.startswith("#if") - line.startswith("#endif")
            if not simulated or depth == 0 or (depth == 1 and line.startswith("#else")):
                return

    def _function(self) -> None:
        """A helper of the assembler, the entry, or a kernel."""
        words = self.words
        start = at = words.index
        while (ends := words.texts[at] in (";", "{", "}", "")) or (
            words.texts[at + 1] != "(" or words.texts[at] == "__attribute__"
        ):
            if ends:
                self._other(start)
            at += words.texts[at] == "__attribute__"
            at = 1 + (words.closing(at) if words.texts[at] in ("<", "(") else at)
        name, head = words.texts[at], words.texts[start:at]
        after = words.closing(at + 1) + 1
        while words.texts[after] not in ("{", ";", ""):
            after += 1
        if words.texts[after] != "{":
            self._other(start)
        end = words.closing(after)
        if name == _ENTRY:
            self._entry(after, end)
        elif name not in _HELPERS:
            if (head[-1:] != ["void"] and head[-2:-1] != ["void"]) or not _CORE & set(head):
                self._other(start)
            self._kernels[name] = at
            if "inline" in head:
                self._inline.add(name)
        words.go(end + 1)

    def _other(self, start: int) -> NoReturn:
        words = self.words
        text = " ".join(words.texts[start : start + 8])
        words.fail(f"got '{text}', which is no declaration that the assembler writes", start)

    # -- the entry -----------------------------------------------------------------------------------

    def _entry(self, opened: int, end: int) -> None:
        """The entry unpacks arguments and calls a kernel, whose arguments get names so.

        What else it computes is no part of the program, whose arguments are those of the kernel.
        """
        words = self.words
        for index in range(opened, end):
            name = words.texts[index]
            if name in self._kernels and words.texts[index + 1] == "(":
                words.go(index + 2)
                names = words.listed(self._argument, ")")
                self._given = tuple(names[:-1] if names[-1:] == [_SUBBLOCK] else names)

    def _argument(self) -> str:
        """The name of an argument, "" where it is an expression."""
        words = self.words
        name = words.text if words.is_name() and words.peek() in (",", ")") else ""
        depth = 0
        while words.text and (depth or words.text not in (",", ")")):
            depth += (words.text in ("(", "<", "{")) - (words.text in (")", ">", "}"))
            words.take()
        return name


class _Kernel(Statements):
    """One kernel function."""

    def __init__(self, words: Words, name: str, at: int, names: tuple[str, ...]) -> None:
        super().__init__(words)
        self._kernel, self._at, self._argument_names = name, at, iter(names)
        #: The profile that the layout of the tiles for the left operand hints at.
        self.architecture: str | None = None

    def function(self) -> ir.Function:
        """The function with its operations."""
        words = self.words
        words.go(self._at + 2)
        words.depth = 0
        args = tuple(words.listed(self._parameter, ")"))
        words.expect("{")
        while words.text != "}":
            if _SECTION.match(words.text):
                self._section()
            elif words.text == "return" and words.peek() == ";" and words.peek(2) == "}":
                words.go(words.index + 2)
            elif not words.text:
                words.unexpected("'}'")
            else:
                self.statement()
        ops = (*self.constants, *self.ops, ir.Op("return", span=words.place(words.index)))
        left = next((t for t in self.types.values() if t.loc == ir.Loc.LEFT), None)
        if left is not None:
            self.architecture = "a2a3" if left.blayout is ir.BLayout.ROW_MAJOR else "a5"
        attributes = (("pto.kernel_kind", self.kind),) if self.kind is not None else ()
        span = words.place(self._at)
        return ir.Function(self._kernel, args, ir.Region(ops), attributes=attributes, span=span)

    def _section(self) -> None:
        """``#if defined(__DAV_VEC__) ... #endif``: what one kind of core executes."""
        words = self.words
        match = _SECTION.match(words.text)
        assert match is not None
        if self.kind is not None:
            words.fail("got a second section of a kernel; allowed: one")
        self.kind = _SECTIONS[match[1]]
        words.take()
        while not words.text.startswith("#endif"):
            if not words.text or words.text == "}":
                words.unexpected("'#endif'")
            self.statement()
        words.take()

    def _parameter(self) -> ir.Value:
        """``__gm__ T *v`` or ``T v``."""
        words = self.words
        at = words.index
        is_pointer = words.accept("__gm__")
        kind = words.name()
        while words.accept("*"):
            is_pointer = True
        place = words.index
        name = words.name()
        named = next(self._argument_names, None)
        element, scalar = ELEMENTS.get(kind), SCALARS.get(kind)
        t: ir.Type
        if is_pointer and element is not None:
            t = ir.PtrType(element)
        elif not is_pointer and scalar is not None:
            t = ir.ScalarType(scalar.dtype)
        else:
            words.fail(f"got an argument of type '{kind}'; allowed: scalars, pointers '__gm__ T *'", at)
        value = ir.Value(self.fresh(named, name), t, words.place(place))
        self.known[name] = Pointer(value) if is_pointer else Number(scalar or SCALARS["int"], value)
        return value


def _architecture(file: str) -> str | None:
    """The profile that the folders of a file name."""
    parts = [part.lower() for part in PurePath(file).parts[:-1]]
    return next((a for a in ("a2a3", "a5") if a in parts), None)
