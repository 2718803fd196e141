"""A parser of a plain subset of C++: types, expressions, statements, declarations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import FileError
from . import cpp_program
from .cpp_program import (
    Cell,
    CType,
    Expression,
    Function,
    Place,
    Pointer,
    Run,
    Scope,
    assigned,
    element,
    load,
    member,
    size_of,
    store,
)
from .cpp_tokens import IGNORED, Reader, number_of, text_of, tokens

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


def _call(callee: Expression, arguments: Sequence[Expression]) -> Expression:
    def run(scope: Scope) -> Any:
        scope.program.count()
        function = callee.run(scope)
        if not callable(function):
            raise FileError(f"{scope.program.place}: a value is called that is no function")
        return function(scope, arguments)

    return Expression(run)


def _indexed(value: Run, index: Run) -> Expression:
    def place(scope: Scope) -> Place:
        return element(value(scope), index(scope))

    def run(scope: Scope) -> Any:
        result = value(scope)
        return (
            ord((result + "\0")[index(scope)])
            if isinstance(result, str)
            else load(element(result, index(scope)))
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


def read_program(program: cpp_program.Program, text: str, place: str) -> None:
    """Add what a text defines to a program; FileError where it is not read."""
    _Reader(tokens(text.removeprefix("\ufeff")), program, place).unit()


class _Reader(Reader):
    """Declarations, statements, and expressions at a position in the words of a text."""

    def unit(self) -> None:
        """Everything at the level of the file, up to its end or the end of a namespace."""
        while self.token.kind != "end" and not self.at("}"):
            if self.accept(";"):
                continue
            if self.at("using") or self.at("typedef"):
                self._alias()
            elif self.accept("namespace"):
                if not self.at("{"):
                    self.name()
                self._braced_unit()
            elif self.at("extern") and self.peek().kind == "text":
                self.next()
                self.next()
                if self.at("{"):
                    self._braced_unit()
            elif self.accept("template"):
                self._template()
            elif not self._definition():
                self._top()

    def _braced_unit(self) -> None:
        self.expect("{")
        self.unit()
        self.expect("}")

    def _template(self) -> None:
        """Names of types that a template leaves open stand for nothing more than pointers to them."""
        self.expect("<")
        while not self.accept(">"):
            if self.next().text in ("typename", "class"):
                self.types[self.name()] = cpp_program.CType("void")

    def _alias(self) -> None:
        """Another name of a type; names of function types stand for what can be called."""
        if self.next().text == "using" and not self.accept("namespace"):
            name = self.name()
            self.expect("=")
            is_type = self.is_type() and self.peek().text in (";", "*")
            self.types[name] = self.type() if is_type else cpp_program.CType("void", 1)
        while not self.accept(";"):
            if self.at("{"):
                self.brackets("{", "}")
            else:
                self.next()

    def _definition(self) -> bool:
        """A struct or an enumeration."""
        if self.accept("enum"):
            self.accept("class")
            self._enumeration(self.name())
            return True
        if self.at("struct") and self.peek(2).text == "{":
            self.next()
            name = self.name()
            fields = self._fields()
            self.types[name] = cpp_program.CType(name, fields=tuple(fields))
            self.expect(";")
            return True
        return False

    def _enumeration(self, name: str) -> None:
        self.types[name] = cpp_program.CType("int")
        if self.accept(":"):
            self.type()
        self.expect("{")
        number = 0
        while not self.accept("}"):
            key = self.name()
            if self.accept("="):
                number = self.constant()
            for constant in (key, f"{name}::{key}"):
                self.constants[constant] = number
            number += 1
            self.accept(",")
        self.expect(";")

    def _fields(self) -> list[cpp_program.Field]:
        self.expect("{")
        fields: list[cpp_program.Field] = []
        while not self.accept("}"):
            if self.accept("union"):
                begin = len(fields)
                fields += [replace(f, choice=begin) for f in self._fields()]
                self.expect(";")
                continue
            kind = self.type()
            while not self.accept(";"):
                name, full, _ = self.declarator(kind)
                value = self.initial() if self.accept("=") else None
                fields.append(cpp_program.Field(name, full, value))
                self.accept(",")
        return fields

    def _top(self) -> None:
        """A function or variables."""
        kind = self.type()
        if self.peek().text == "(" and self.token.kind == "name":
            name = self.name()
            parameters = self.parameters()
            if self.at("{"):
                self.program.functions[name] = cpp_program.Function(name, parameters, self.body())
            else:
                self.expect(";")
                self.program.functions.setdefault(name, cpp_program.Function(name, parameters, None))
            return
        self.program.variables.append(self._declared(kind))

    def parameters(self) -> tuple[cpp_program.Parameter, ...]:
        """The parameters of a function in their brackets."""
        self.expect("(")
        result = []
        while not self.accept(")"):
            kind = self.type()
            has_name = self.token.kind == "name" or self.at("(")
            name, full, sizes = self.declarator(kind) if has_name else (None, kind, [])
            if sizes:
                full = replace(full, pointers=full.pointers + 1)
            if not (full.name == "void" and not full.pointers and name is None):
                result.append(cpp_program.Parameter(name, full))
            self.accept(",")
        return tuple(result)

    def body(self) -> cpp_program.Run:
        """Statements in braces."""
        self.expect("{")
        statements, labels = self._statements()
        return cpp_program.block(statements, labels)

    def _statements(self) -> tuple[list[cpp_program.Run], dict[str, int]]:
        statements: list[cpp_program.Run] = []
        labels: dict[str, int] = {}
        while not self.accept("}"):
            if self.token.kind == "name" and self.peek().text == ":" and not self.at("default"):
                labels[self.name()] = len(statements)
                self.expect(":")
                continue
            statements.append(self.statement())
        return statements, labels

    def statement(self) -> cpp_program.Run:
        """One statement."""
        read = self._keywords().get(self.token.text) if self.token.kind == "name" else None
        if read is not None:
            self.next()
            return read()
        if self.at("{"):
            return self.body()
        if self.accept(";"):
            return lambda scope: None
        if self.is_type() and (self.peek().kind == "name" or self.peek().text in ("*", "&", "<")):
            return self._declared(self.type())
        run = self.expression().run
        self.expect(";")
        return run

    def _keywords(self) -> dict[str, Callable[[], cpp_program.Run]]:
        return {
            "if": self._if,
            "for": self._for,
            "while": self._while,
            "do": self._do,
            "switch": self._switch,
            "return": self._return,
            "break": lambda: self._stops(cpp_program.Left()),
            "continue": lambda: self._stops(cpp_program.Continued()),
            "goto": lambda: self._stops(cpp_program.Jumped(self.name())),
        }

    def _stops(self, signal: Exception) -> cpp_program.Run:
        self.expect(";")

        def run(scope: cpp_program.Scope) -> None:
            raise signal

        return run

    def _return(self) -> cpp_program.Run:
        value = None if self.at(";") else self.expression().run
        self.expect(";")

        def run(scope: cpp_program.Scope) -> None:
            raise cpp_program.Returned(None if value is None else value(scope))

        return run

    def _condition(self) -> cpp_program.Run:
        """A test in its brackets, which may declare what it tests."""
        self.expect("(")
        if not ((self.is_type() and self.peek(1).text in ("*",)) or self.at("const")):
            test = self.expression().run
            self.expect(")")
            return test
        name, full, _ = self.declarator(self.type())
        self.expect("=")
        value = self.expression().run
        self.expect(")")

        def run(scope: cpp_program.Scope) -> Any:
            scope.names[name] = cpp_program.Cell(full, full.converted(value(scope)))
            return scope.names[name].value

        return run

    def _if(self) -> cpp_program.Run:
        test = self._condition()
        then = self.statement()
        other = self.statement() if self.accept("else") else None

        def run(outer: cpp_program.Scope) -> None:
            scope = cpp_program.Scope(outer.program, outer)
            if test(scope):
                then(scope)
            elif other is not None:
                other(scope)

        return run

    def _for(self) -> cpp_program.Run:
        self.expect("(")
        start: cpp_program.Run | None = None
        if self.is_type() or self.at("const"):
            kind = self.type()
            if self.peek().text == ":":
                name = self.name()
                self.expect(":")
                over = self.expression().run
                self.expect(")")
                return cpp_program.each(name, kind, over, self.statement())
            start = self._declared(kind)
        elif not self.accept(";"):
            start = self.expression().run
            self.expect(";")
        test = None if self.at(";") else self.expression().run
        self.expect(";")
        step = None if self.at(")") else self.expression().run
        self.expect(")")
        return cpp_program.loop(start, test, step, self.statement())

    def _while(self) -> cpp_program.Run:
        return cpp_program.loop(None, self._condition(), None, self.statement())

    def _do(self) -> cpp_program.Run:
        body = self.statement()
        self.expect("while")
        test = self._condition()
        self.accept(";")
        return cpp_program.loop(None, test, None, body, first=True)

    def _switch(self) -> cpp_program.Run:
        value = self._condition()
        self.expect("{")
        cases: list[tuple[cpp_program.Run | None, int]] = []
        statements: list[cpp_program.Run] = []
        while not self.accept("}"):
            if self.accept("case"):
                cases.append((self.ternary().run, len(statements)))
                self.expect(":")
            elif self.accept("default"):
                cases.append((None, len(statements)))
                self.expect(":")
            else:
                statements.append(self.statement())
        return cpp_program.choice(value, cases, statements)

    def _declared(self, kind: cpp_program.CType) -> cpp_program.Run:
        """Variables of one type, up to the semicolon."""
        runs = [self._variable(kind)]
        while self.accept(","):
            stars = 0
            while self.accept("*"):
                stars += 1
            runs.append(self._variable(cpp_program.CType(kind.name, stars, False, kind.fields)))
        self.expect(";")

        def run(scope: cpp_program.Scope) -> None:
            for make in runs:
                make(scope)

        return run

    def _variable(self, kind: cpp_program.CType) -> cpp_program.Run:
        name, full, sizes = self.declarator(kind)
        initial: cpp_program.Run | None = None
        arguments: list[cpp_program.Expression] | None = None
        if self.accept("=") or self.at("{"):
            initial = self.initial()
        elif self.at("("):
            arguments = self.arguments()

        def run(scope: cpp_program.Scope) -> None:
            if arguments is not None:
                maker = scope.find(full.name) if full.scalar is None else None
                value = maker(scope, arguments) if maker is not None else arguments[0].run(scope)
            else:
                value = None if initial is None else initial(scope)
            if sizes:
                counts = [None if n is None else int(n(scope)) for n in sizes]
                value = cpp_program.array(full, counts, value, scope)
            elif value is not None:
                value = cpp_program.made(full, value, scope)
            scope.names[name] = cpp_program.Cell(full, value)

        return run

    # -- expressions -----------------------------------------------------------------------------------

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
        result = self.assignment()
        while self.accept(","):
            first, second = result.run, self.assignment()

            def run(scope: Scope, first: Run = first, second: Run = second.run) -> Any:
                first(scope)
                return second(scope)

            result = Expression(run)
        return result

    def assignment(self) -> Expression:
        """An expression that may be an assignment."""
        left = self.ternary()
        change = _CHANGES.get(self.token.text)
        if not self.at("=") and change is None:
            return left
        line = self.next().line
        if left.place is None:
            raise FileError(f"{self.place}:{line}: got an assignment to what has no place")
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
        expression = self._both()
        while self.accept("||"):
            expression = _either(expression.run, self._both().run)
        return expression

    def _both(self) -> Expression:
        expression = self._binary(0)
        while self.accept("&&"):
            expression = _both(expression.run, self._binary(0).run)
        return expression

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        expression = self._binary(level + 1)
        while self.token.kind == "mark":
            mark = self.token.text
            if mark == ">" and self.peek().text == ">" and self.peek().joined:
                mark = ">>"
            if mark not in _LEVELS[level]:
                break
            self.index += len(mark) if mark == ">>" else 1
            expression = _computed(_LEVELS[level][mark], expression.run, self._binary(level + 1).run)
        return expression

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
        return word.kind == "name" and (word.text in self.types or word.text in IGNORED)

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
            number = number_of(token)
            if number is None:
                got = f"{self.place}:{token.line}: got the number {token.text!r}"
                raise FileError(got, allowed="numbers of C++, as in 12, 0x1fu, 1.5f")
            return Expression(lambda scope: number)
        if token.kind == "text":
            text = text_of(token)
            while self.token.kind == "text":
                text += text_of(self.next())
            value: Any = ord(text) if token.text.startswith("'") else text
            return Expression(lambda scope: value)
        if token.text == "(":
            expression = self.expression()
            self.expect(")")
            return expression
        if token.text == "[":
            return self._lambda()
        if token.kind != "name":
            raise FileError(f"{self.place}:{token.line}: got {token.text!r}", allowed="an expression")
        if token.text in _CASTS:
            self.expect("<")
            kind = self.type()
            if self.at("("):
                self._function_type()
            self.expect(">")
            self.expect("(")
            expression = self.expression()
            self.expect(")")
            return _cast(kind, expression)
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
            result = scope.find(name)
            return result.value if isinstance(result, Cell) else result

        return Expression(run, place)

    def _launch(self, kernel: str) -> Expression:
        """The launch of a kernel: the environment gets its name, its arguments and the number of blocks."""
        self.expect("<<<")
        blocks = self.assignment()
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
            return scope.program.environment["<<<"](kernel, values, blocks.run(scope))

        return Expression(run)

    def _lambda(self) -> Expression:
        self.skip("]")
        parameters, body = self.parameters(), self.body()
        return Expression(lambda scope: Function("a function of its own", parameters, body, scope))

    def arguments(self) -> list[Expression]:
        """The arguments of a call in their brackets."""
        self.expect("(")
        expressions = []
        while not self.accept(")"):
            expressions.append(self.assignment())
            self.accept(",")
        return expressions

    def _postfix(self, operand: Expression) -> Expression:
        while self.token.kind == "mark":
            if self.at("("):
                operand = _call(operand, self.arguments())
            elif self.accept("["):
                operand = _indexed(operand.run, self.expression().run)
                self.expect("]")
            elif self.at(".") or self.at("->"):
                self.next()
                operand = self._member(operand)
            elif self.at("++") or self.at("--"):
                operand = _after(self._place(operand), 1 if self.next().text == "++" else -1)
            else:
                break
        return operand

    def _member(self, operand: Expression) -> Expression:
        name, value, place = self.name(), operand.run, self.place
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
