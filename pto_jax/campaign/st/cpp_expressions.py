"""Reading C++ of plain kind: expressions."""

import operator
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import FileError
from . import cpp_reader, cpp_tokens
from .cpp_program import Expression, Function, Parameter, Run, Scope, assigned, element, member
from .cpp_values import Cell, CType, Place, Pointer, load, size_of, store

_CASTS = ("static_cast", "reinterpret_cast", "const_cast")


def _divided(a: Any, b: Any) -> Any:
    return a // b if isinstance(a, int) and isinstance(b, int) else a / b


def _moved(a: Any, b: Any) -> Any:
    return a.moved(b) if isinstance(a, Pointer) else b.moved(a) if isinstance(b, Pointer) else a + b


def _taken(a: Any, b: Any) -> Any:
    return a.moved(-b) if isinstance(a, Pointer) else a - b


#: Binary operators by how strongly they bind, loosest first.
_LEVELS: Sequence[Mapping[str, Callable[[Any, Any], Any]]] = (
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge},
    {"<<": operator.lshift, ">>": operator.rshift},
    {"+": _moved, "-": _taken},
    {"*": operator.mul, "/": _divided, "%": operator.mod},
)
_CHANGES = {f"{k}=": f for level in (*_LEVELS[:3], *_LEVELS[5:]) for k, f in level.items()}


_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "!": operator.not_,
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
}


class Expressions(cpp_reader.Reader):
    """Expressions at a place in the words of a text."""

    def initial(self) -> Run:
        """What a variable begins with: an expression, or braces with names and values."""
        if not self.at("{"):
            return self.assignment().run
        self.expect("{")
        parts: list[tuple[str | None, Run]] = []
        while not self.accept("}"):
            name = None
            if self.accept("."):
                name = self.name()
                self.expect("=")
            parts.append((name, self.initial()))
            self.accept(",")
        return lambda scope: [(name, part(scope)) for name, part in parts]

    def constant(self) -> int:
        """The value of an expression without variables."""
        return int(self.ternary().run(Scope(self.program)))

    def expression(self) -> Expression:
        """An expression; of several with commas the last one counts."""
        found = self.assignment()
        while self.accept(","):
            first, second = found.run, self.assignment()

            def run(scope: Scope, first: Run = first, second: Run = second.run) -> Any:
                first(scope)
                return second(scope)

            found = Expression(run)
        return found

    def assignment(self) -> Expression:
        """An expression that may be an assignment."""
        left = self.ternary()
        change = _CHANGES.get(self.token.text)
        if not self.at("=") and change is None:
            return left
        line = self.next().line
        if left.place is None:
            raise FileError(f"{self.place}:{line}: found an assignment to what has no place")
        return Expression(assigned(left.place, self.assignment().run, change), left.place)

    def ternary(self) -> Expression:
        """An expression that may choose between two."""
        test = self._either()
        if not self.accept("?"):
            return test
        yes = self.assignment().run
        self.expect(":")
        no = self.assignment().run
        return Expression(lambda scope: yes(scope) if test.run(scope) else no(scope))

    def _either(self) -> Expression:
        found = self._both()
        while self.accept("||"):
            found = _either(found.run, self._both().run)
        return found

    def _both(self) -> Expression:
        found = self._binary(0)
        while self.accept("&&"):
            found = _both(found.run, self._binary(0).run)
        return found

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        found = self._binary(level + 1)
        while self.token.kind == "mark":
            mark = self.token.text
            if mark == ">" and self.peek().text == ">" and self.peek().joined:
                mark = ">>"
            if mark not in _LEVELS[level]:
                break
            self.index += len(mark) if mark == ">>" else 1
            found = _computed(_LEVELS[level][mark], found.run, self._binary(level + 1).run)
        return found

    def _unary(self) -> Expression:
        mark = self.token.text if self.token.kind == "mark" else ""
        if mark == "(" and self._is_cast():
            self.next()
            kind = self.type()
            if self.at("("):
                self._function_type()
            self.expect(")")
            return _cast(kind, self._unary())
        if mark in _UNARY:
            self.next()
            value = self._unary().run
            compute = _UNARY[mark]
            return Expression(lambda scope: compute(value(scope)))
        if mark in ("++", "--"):
            self.next()
            target = self._place(self._unary())
            one: Run = lambda scope: 1  # noqa: E731
            return Expression(assigned(target, one, _moved if mark == "++" else _taken), target)
        if mark == "&":
            self.next()
            return Expression(self._place(self._unary()))
        if mark == "*":
            self.next()
            pointed = self._unary().run
            return Expression(lambda scope: load(pointed(scope)), pointed)
        if self.accept("sizeof"):
            return self._sizeof()
        return self._postfix(self._primary())

    def _is_cast(self) -> bool:
        word = self.peek()
        return word.kind == "name" and (word.text in self.types or word.text in cpp_reader.IGNORED)

    def _function_type(self) -> None:
        self.brackets()
        if self.at("("):
            self.brackets()

    def _place(self, target: Expression) -> Callable[[Scope], Place]:
        if target.place is None:
            value = target.run
            return lambda scope: Cell(CType("void", 1), value(scope))
        return target.place

    def _sizeof(self) -> Expression:
        self.expect("(")
        if self.is_type():
            size = self.type().size
            self.expect(")")
            return Expression(lambda scope: size)
        target = self.expression()
        self.expect(")")
        place = target.place
        return Expression(lambda scope: size_of(place(scope) if place is not None else target.run(scope)))

    def _primary(self) -> Expression:
        token = self.next()
        if token.kind == "number":
            number = cpp_tokens.number_of(token)
            return Expression(lambda scope: number)
        if token.kind == "text":
            text = cpp_tokens.text_of(token)
            while self.token.kind == "text":
                text += cpp_tokens.text_of(self.next())
            value: Any = ord(text) if token.text.startswith("'") else text
            return Expression(lambda scope: value)
        if token.text == "(":
            found = self.expression()
            self.expect(")")
            return found
        if token.text == "[":
            return self._lambda()
        if token.kind != "name":
            raise FileError(f"{self.place}:{token.line}: found {token.text!r}; expected an expression")
        if token.text in _CASTS:
            self.expect("<")
            kind = self.type()
            if self.at("("):
                self._function_type()
            self.expect(">")
            self.expect("(")
            found = self.expression()
            self.expect(")")
            return _cast(kind, found)
        return self._named(token.text)

    def _named(self, name: str) -> Expression:
        if name in self.constants:
            value = self.constants[name]
            return Expression(lambda scope: value)
        if self.at("<<<"):
            return self._launch(name)
        if self.at("<") and (name in self.program.functions or name in self.types):
            self.brackets("<", ">")

        def place(scope: Scope) -> Any:
            return scope.find(name)

        def run(scope: Scope) -> Any:
            found = scope.find(name)
            return found.value if isinstance(found, Cell) else found

        return Expression(run, place)

    def _launch(self, kernel: str) -> Expression:
        """The launch of a kernel: the environment gets its name, its parameters and the arguments."""
        self.skip(">")
        self.expect(">")
        self.expect(">")
        arguments = self.arguments()
        functions = self.program.functions

        def run(scope: Scope) -> Any:
            values = [a.run(scope) for a in arguments]
            declared = functions.get(kernel)
            if declared is not None:
                types = [p.type for p in declared.parameters]
                values = [t.converted(v) for t, v in zip(types, values, strict=True)]
            return scope.program.environment["<<<"](kernel, values)

        return Expression(run)

    def _lambda(self) -> Expression:
        self.skip("]")
        parameters, body = self.parameters(), self.body()
        return Expression(lambda scope: Function("a function of its own", parameters, body, scope))

    def arguments(self) -> list[Expression]:
        """The arguments of a call in their brackets."""
        self.expect("(")
        found = []
        while not self.accept(")"):
            found.append(self.assignment())
            self.accept(",")
        return found

    def _postfix(self, found: Expression) -> Expression:
        while self.token.kind == "mark":
            if self.at("("):
                found = _call(found, self.arguments())
            elif self.accept("["):
                found = _indexed(found.run, self.expression().run)
                self.expect("]")
            elif self.at(".") or self.at("->"):
                self.next()
                found = self._member(found)
            elif self.at("++") or self.at("--"):
                found = _after(self._place(found), 1 if self.next().text == "++" else -1)
            else:
                break
        return found

    def _member(self, found: Expression) -> Expression:
        name, value, place = self.name(), found.run, self.place
        if self.at("("):
            arguments = self.arguments()

            def run(scope: Scope) -> Any:
                of = value(scope)
                if isinstance(of, dict):
                    return member(of, name, place).value(scope, arguments)
                return scope.find(f".{name}")(of, scope, arguments)

            return Expression(run)

        def at(scope: Scope) -> Cell:
            return member(value(scope), name, place)

        return Expression(lambda scope: at(scope).value, at)

    @abstractmethod
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of a function."""

    @abstractmethod
    def body(self) -> Run:
        """Statements in braces."""


def _either(a: Run, b: Run) -> Expression:
    return Expression(lambda scope: bool(a(scope)) or bool(b(scope)))


def _both(a: Run, b: Run) -> Expression:
    return Expression(lambda scope: bool(a(scope)) and bool(b(scope)))


def _computed(compute: Callable[[Any, Any], Any], a: Run, b: Run) -> Expression:
    return Expression(lambda scope: compute(a(scope), b(scope)))


def _cast(kind: CType, target: Expression) -> Expression:
    return Expression(
        lambda scope: kind.converted(target.run(scope)), target.place if kind.pointers else None
    )


def _call(found: Expression, arguments: Sequence[Expression]) -> Expression:
    def run(scope: Scope) -> Any:
        scope.program.count()
        function = found.run(scope)
        if not callable(function):
            raise FileError(f"{scope.program.place}: a value is called that is no function")
        return function(scope, arguments)

    return Expression(run)


def _indexed(value: Run, index: Run) -> Expression:
    def place(scope: Scope) -> Place:
        return element(value(scope), index(scope))

    def run(scope: Scope) -> Any:
        found = value(scope)
        return (
            ord((found + "\0")[index(scope)])
            if isinstance(found, str)
            else load(element(found, index(scope)))
        )

    return Expression(run, place)


def _after(target: Callable[[Scope], Place], step: int) -> Expression:
    """The value before it changes."""

    def run(scope: Scope) -> Any:
        place = target(scope)
        old = load(place)
        store(place, _moved(old, step))
        return old

    return Expression(run)
