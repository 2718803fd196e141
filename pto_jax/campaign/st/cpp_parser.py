"""Reading C++ of plain kind: declarations and statements."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from . import cpp_expressions, cpp_program, cpp_tokens, cpp_values


def read_program(program: cpp_program.Program, text: str, place: str) -> None:
    """Add what a text defines to a program; FileError where it is not read."""
    _Reader(cpp_tokens.tokens(text), program, place).unit()


class _Reader(cpp_expressions.Expressions):
    """Declarations and statements."""

    def unit(self) -> None:
        """Everything at the level of the file, up to its end or the end of a namespace."""
        while self.token.kind != "end" and not self.at("}"):
            if self.accept(";"):
                continue
            if self.at("using") or self.at("typedef"):
                self._alias()
            elif self.accept("namespace"):
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
                self.types[self.name()] = cpp_values.CType("void")

    def _alias(self) -> None:
        """Another name of a type; names of function types stand for what can be called."""
        if self.next().text == "using" and not self.accept("namespace"):
            name = self.name()
            self.expect("=")
            known = self.is_type() and self.peek().text in (";", "*")
            self.types[name] = self.type() if known else cpp_values.CType("void", 1)
        self.skip(";")

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
            self.types[name] = cpp_values.CType(name, fields=tuple(fields))
            self.expect(";")
            return True
        return False

    def _enumeration(self, name: str) -> None:
        self.types[name] = cpp_values.CType("int")
        if self.accept(":"):
            self.type()
        self.expect("{")
        number = 0
        while not self.accept("}"):
            key = self.name()
            if self.accept("="):
                number = self.constant()
            for known in (key, f"{name}::{key}"):
                self.constants[known] = number
            number += 1
            self.accept(",")
        self.expect(";")

    def _fields(self) -> list[cpp_values.Field]:
        self.expect("{")
        fields: list[cpp_values.Field] = []
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
                fields.append(cpp_values.Field(name, full, value))
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
        found = []
        while not self.accept(")"):
            kind = self.type()
            named = self.token.kind == "name" or self.at("(")
            name, full, sizes = self.declarator(kind) if named else (None, kind, [])
            if sizes:
                full = replace(full, pointers=full.pointers + 1)
            if not (full.name == "void" and not full.pointers and name is None):
                found.append(cpp_program.Parameter(name, full))
            self.accept(",")
        return tuple(found)

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
            scope.names[name] = cpp_values.Cell(full, full.converted(value(scope)))
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

    def _declared(self, kind: cpp_values.CType) -> cpp_program.Run:
        """Variables of one type, up to the semicolon."""
        runs = [self._variable(kind)]
        while self.accept(","):
            stars = 0
            while self.accept("*"):
                stars += 1
            runs.append(self._variable(cpp_values.CType(kind.name, stars, False, kind.fields)))
        self.expect(";")

        def run(scope: cpp_program.Scope) -> None:
            for make in runs:
                make(scope)

        return run

    def _variable(self, kind: cpp_values.CType) -> cpp_program.Run:
        name, full, sizes = self.declarator(kind)
        given: cpp_program.Run | None = None
        arguments: list[cpp_program.Expression] | None = None
        if self.accept("=") or self.at("{"):
            given = self.initial()
        elif self.at("("):
            arguments = self.arguments()

        def run(scope: cpp_program.Scope) -> None:
            if arguments is not None:
                maker = scope.find(full.name) if full.scalar is None else None
                value = maker(scope, arguments) if maker is not None else arguments[0].run(scope)
            else:
                value = None if given is None else given(scope)
            if sizes:
                counts = [None if n is None else int(n(scope)) for n in sizes]
                value = cpp_program.array(full, counts, value, scope)
            elif value is not None:
                value = cpp_program.made(full, value, scope)
            scope.names[name] = cpp_values.Cell(full, value)

        return run
