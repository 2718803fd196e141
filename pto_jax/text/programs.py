"""Program text to program: modules, functions and statements."""

import re
from collections.abc import Callable
from dataclasses import replace

from .. import ir, isa
from ..errors import objection
from ..isa import changes, history, traits
from . import control, custom, formats, reader, tile_syntax
from .control import CONTROL as STRUCTURED
from .formats import OVERLOADED, TWO_SPELLINGS, Format, find_format, format_names
from .lexer import Kind, TokenKind
from .names import canonical, instruction_names, suggestion

#: How programs spell operations whose canonical name is another.
SPELLED = {"func.call": "call", "func.return": "return"}
CONTROL = {**STRUCTURED, traits.BRANCH: control.read_branch, traits.BRANCH_IF: control.read_branch_if}
#: What the generic form calls a module and a function.
_QUOTED = {"module": '"builtin.module"', "func.func": '"func.func"'}
_DIALECTS = ("arith.", "scf.", "memref.", "func.", "math.", "cf.", "builtin.")
#: More results of one operation (``%r:N``) than any program has.
_MAX_RESULTS = 1024


def _values(text: str) -> str:
    """A list of names, each with its %."""
    return re.sub(r"(?<![%\w.#@\"'])([A-Za-z_]\w*)", r"%\1", text)


class ProgramReader(reader.Reader):
    """Reads the program of one text."""

    def __init__(self, text: str, file: str, language: ir.Language | None = None) -> None:
        super().__init__(text, file, language)
        self._statements = reader.Statements(self.cursor)

    def program(self) -> ir.Program:
        """The whole text."""
        whole, spelled = self._program(), self.types.spelled
        if not whole.fragment:
            self.cursor.refuse_page_comments()
        return replace(whole, tiles="tile_buf" if spelled == {"tile_buf"} else "tile") if spelled else whole

    def _program(self) -> ir.Program:
        c = self.cursor
        if c.kind is Kind.EOF:
            c.unexpected("a module, a function or instructions")
        self._aliases()
        if self._at("module"):
            return self._module()
        if self._at("func.func"):
            functions = self._functions(Kind.EOF)
            return ir.Program(functions, has_module=False, source=c.file, language=self.language)
        return self._fragment(Kind.EOF)

    def _at(self, word: str) -> bool:
        """Whether a module or function begins here, in the generic form or not."""
        c = self.cursor
        return c.at_word(word) or (c.kind is Kind.STRING_LIT and c.text == _QUOTED[word])

    def _aliases(self) -> None:
        """Names of types, ``!row = TYPE``, and of locations, ``#loc = loc(...)``, which are skipped."""
        c = self.cursor
        while c.kind in (Kind.EXCLAMATION_IDENT, Kind.HASH_IDENT) and c.peek()[0] is Kind.EQUAL:
            if c.kind is Kind.EXCLAMATION_IDENT:
                self.types.read_alias()
                continue
            c.advance()
            c.advance()
            self.location()

    def _module(self) -> ir.Program:
        c = self.cursor
        start = c.start
        head, close = self._module_head()
        attributes = dict(head)
        self.named_language(attributes, start)
        if self._at("module"):
            program = self._children()
        # A fragment stands in a module where it needs attributes; without, what is here must be functions.
        elif head and c.kind not in (Kind.R_BRACE, Kind.EOF) and not self._at("func.func"):
            program = self._fragment(Kind.R_BRACE)
        else:
            program = ir.Program(self._functions(Kind.R_BRACE), source=c.file, language=self.language)
        close()
        self._aliases()
        if c.kind is not Kind.EOF:
            c.unexpected("end of text after the module")
        return replace(program, attributes=_sorted(attributes), has_module=True)

    def _module_head(self) -> tuple[dict[str, ir.AttrValue], Callable[[], None]]:
        """The attributes of a module whose body is entered, and what reads on behind the body."""
        c = self.cursor
        if c.kind is Kind.STRING_LIT:
            return self._generic_module_head()
        table: dict[str, ir.AttrValue] = {}
        c.advance()
        c.accept(Kind.AT_IDENT)
        if c.accept_word("attributes"):
            self.attributes.dictionary(table, {}, None)
        opened = c.open(Kind.L_BRACE, "to open the module")

        def close() -> None:
            c.close(Kind.R_BRACE, opened)
            self.location()

        return table, close

    def _generic_module_head(self) -> tuple[dict[str, ir.AttrValue], Callable[[], None]]:
        """As above for ``"builtin.module"() ({ ... }) {key = value} : () -> ()``.

        What stands behind the body is read first: it may say which language the body is in.
        """
        c = self.cursor
        table: dict[str, ir.AttrValue] = {}
        c.advance()
        c.enclosed(Kind.L_PAREN, self.mention)
        if c.kind is Kind.LESS:
            opened = c.open(Kind.LESS)
            self.attributes.dictionary(table, {}, None)
            c.close(Kind.GREATER, opened)
        body = c.start
        c.open(Kind.L_PAREN, "to open the module")
        c.seek(body)
        c.skip_brackets()
        if c.kind is Kind.L_BRACE:
            self.attributes.dictionary(table, {}, None)
        table.pop("sym_name", None)
        c.seek(body)
        outer = c.open(Kind.L_PAREN)
        inner = c.open(Kind.L_BRACE, "to open the module")

        def close() -> None:
            c.close(Kind.R_BRACE, inner)
            c.close(Kind.R_PAREN, outer)
            if c.kind is Kind.L_BRACE:
                self.attributes.dictionary({}, {}, None)
            c.expect(Kind.COLON, "before the type of the module")
            self.type_list()
            c.expect(Kind.ARROW)
            self.type_list()
            self.location()

        return table, close

    def _children(self) -> ir.Program:
        """The modules of a module, which has nothing else."""
        c = self.cursor
        functions: list[ir.Function] = []
        children: list[ir.Attrs] = []
        while self._at("module"):
            head, close = self._module_head()
            functions += [replace(f, child=len(children)) for f in self._functions(Kind.R_BRACE)]
            close()
            children.append(_sorted(head))
        if c.kind is not Kind.R_BRACE:
            c.unexpected("'module' or '}' (a module of modules has no functions of its own)")
        return ir.Program(tuple(functions), source=c.file, children=tuple(children), language=self.language)

    def _functions(self, end: TokenKind) -> tuple[ir.Function, ...]:
        c = self.cursor
        functions: dict[str, ir.Function] = {}
        while c.kind is not end and self._at("func.func"):
            start = c.start
            function = self._generic_function() if c.kind is Kind.STRING_LIT else self._function()
            self.location()
            first = functions.setdefault(function.name, function)
            if first is not function:
                line = first.span.line if first.span else 0
                c.fail(
                    f"got a second function @{function.name} (first on line {line})",
                    start=start,
                    end=start + len("func.func"),
                )
        if c.kind not in (end, Kind.R_BRACE):
            c.unexpected("'func.func'" + ("" if end is Kind.EOF else " or '}'"))
        if c.kind is not end:
            c.unexpected("'func.func' or end of text")
        return tuple(functions.values())

    def _generic_function(self) -> ir.Function:
        # Few texts have the generic form.
        from .generic_structure import read_function

        return read_function(self)

    def _function(self) -> ir.Function:
        c = self.cursor
        start = c.start
        c.advance()
        private = c.accept_word("private")
        if not private and not c.accept_word("public"):
            c.accept_word("nested")
        name = self.attributes.symbol().name
        span = c.span(start, c.last_end)
        self.scopes = reader.Scopes(c, open_names=False)
        self._arguments = 0
        opened = c.open(Kind.L_PAREN, "to open the arguments")
        has_names = c.kind in (Kind.PERCENT_IDENT, Kind.R_PAREN)
        args = tuple(c.listed(self.argument if has_names else self._unnamed, Kind.R_PAREN))
        c.close(Kind.R_PAREN, opened)
        results = tuple(self.type_list()) if c.accept(Kind.ARROW) else ()
        table: dict[str, ir.AttrValue] = {}
        if c.accept_word("attributes"):
            self.attributes.dictionary(table, {}, None)
        # A declaration ends here; the body of a function whose arguments have no names is missing.
        external = private and c.kind is not Kind.L_BRACE
        body = ir.Region(()) if external else self.region([])
        return ir.Function(name, args, body, results, _sorted(table), private, span, external)

    def _unnamed(self) -> ir.Value:
        """The type of an argument of a declaration."""
        c = self.cursor
        start = c.start
        t = self.types.read()
        self._arguments += 1
        return self.scopes.define(reader.Mention(f"arg{self._arguments - 1}", start, c.last_end), t)

    def _fragment(self, end: TokenKind) -> ir.Program:
        c = self.cursor
        ops: list[ir.Op] = []
        while c.kind not in (Kind.EOF, end):
            ops.append(self.statement())
            self.location()
        parameters = self.scopes.parameters()
        span = ops[0].span
        function = ir.Function(ir.FRAGMENT, parameters, ir.Region(tuple(ops)), span=span)
        results = ir.fragment_results(ops, {p.name for p in parameters})
        return ir.Program(
            (function,),
            fragment=True,
            fragment_results=results,
            has_module=False,
            source=c.file,
            language=self.language,
        )

    # -- statements ----------------------------------------------------------------------------------

    def statement(self) -> ir.Op:
        """One operation with the names it binds."""
        statements, around = self._statements, self.types.spelled
        line = statements.line()
        if line is None:
            return self._statement()
        statements.select(self._asked, self.language, self.types.has_aliases)
        repeated = statements.again(line, self.scopes, around)
        if repeated is not None:
            return repeated
        types = [self.scopes.known_type(name) for name in line.names]
        self.scopes.numbers_asked, self.types.spelled = False, set()
        op = self._statement()
        # The readers of control flow do more than to look up operands and to define results.
        if (op.name not in CONTROL or op.name == reader.CONSTANT) and not self.scopes.numbers_asked:
            statements.remember(line, types, op, self.types.spelled)
        self.types.spelled |= around
        return op

    def _statement(self) -> ir.Op:
        c = self.cursor
        start = c.start
        results = self._bound_names()
        name_start = c.start
        if c.kind is Kind.STRING_LIT:
            return self._generic(results, start)
        if c.kind is not Kind.BARE_IDENT:
            c.unexpected("an operation" if results else "an operation or '%name ='")
        spelled = c.text
        name = SPELLED.get(spelled) or canonical(spelled)
        if name in OVERLOADED:
            name = self._overload(*OVERLOADED[name])
        fmt = find_format(name)
        control = CONTROL.get(name)
        if control is not None:
            c.advance()
            return control(self, results, start)
        if fmt is None and name not in instruction_names():
            self._unknown(spelled, name_start)
        if self._asked not in (None, ir.PRESENT):
            self._in_language(name, spelled, name_start)
        c.advance()
        if fmt is not None and not self._tile_spelling(fmt):
            return custom.read_custom(self, fmt, results, start)
        head = tile_syntax.TileOp(name, results, start)
        return tile_syntax.read_tile_op(self, head, prefixed=spelled.startswith("pto."))

    def _tile_spelling(self, fmt: Format) -> bool:
        """Whether an operation with its own syntax stands in a tile instruction's spelling here."""
        c = self.cursor
        if c.at_word("ins") and fmt.items[:1] != (formats.LiteralItem("ins"),):
            return True
        return fmt.name in TWO_SPELLINGS and c.kind is not Kind.L_PAREN

    def blocks(self, first: list[ir.Op]) -> ir.Op:
        """The blocks of a body of several, of which the operations of the first one are read."""
        return control.read_blocks(self, first)

    def _overload(self, bracketed: str, offsets: str, other: str) -> str:
        """Which operation of a shared name is meant, by what follows its first operand."""
        c = self.cursor
        position = c.start
        c.advance()
        if c.kind is Kind.PERCENT_IDENT:
            self.mention()
        result = bracketed if c.kind is Kind.L_SQUARE else other
        if c.accept(Kind.COMMA) and c.at_word("offsets"):
            result = offsets
        c.seek(position)
        return result

    def _generic(self, results: list[reader.Mention], start: int) -> ir.Op:
        from . import generic_structure

        c = self.cursor
        name_start = c.start
        spelled = c.string("")
        name = SPELLED.get(spelled) or canonical(spelled)
        if name in CONTROL or find_format(name):
            parts = generic_structure.read_parts(self, name, results, start)
            return generic_structure.read_structure(self, parts)
        if name not in instruction_names():
            self._unknown(spelled, name_start)
        return generic_structure.read_generic(self, tile_syntax.TileOp(name, results, start))

    def _in_language(self, name: str, spelled: str, start: int) -> None:
        """Report an instruction that only later versions have than the one that the user says.

        What a text says of itself is how the unwritten is to be read: programs are printed so that have both.
        """
        instruction = isa.find(name)
        first = history.since(instruction) if instruction is not None else self.language
        if first > self.language:
            self.cursor.fail(
                f"got '{spelled}', which the language has since {first}; this text is read as "
                f"{self.language}; try: read it as {first}",
                start=start,
                end=start + len(spelled),
            )

    def _gone(self, spelled: str, start: int, change: changes.Change) -> None:
        """Report a name that a version removed."""
        self.cursor.fail(
            f"got '{spelled}', which the language of {change.language} removed; allowed: {change.after}",
            start=start,
            end=start + len(spelled),
        )

    def _unknown(self, spelled: str, start: int) -> None:
        """Report a name that is no operation, with the closest ones there are."""
        end = start + len(spelled)
        change = history.gone(spelled.removeprefix("pto."))
        if change is not None:
            self._gone(spelled, start, change)
        if spelled.startswith(_DIALECTS):
            dialect_names = [n for n in (*format_names(), *CONTROL, *SPELLED) if n.startswith(_DIALECTS)]
            self.cursor.fail(
                f"unknown operation '{spelled}'{suggestion(spelled, dialect_names)}", start=start, end=end
            )
        if spelled in ("ins", "outs") and self.cursor.source[end : end + 1] == "(":
            order = "ins(...) before outs(...), after the name of an instruction"
            self.cursor.fail(f"got '{spelled}'", start=start, end=end, allowed=order)
        self._bare_name(spelled, start, end)
        plain = spelled.removeprefix("pto.")
        if plain != spelled and formats.is_micro_operation(plain):
            self.cursor.fail(formats.outside(spelled), start=start, end=end)
        dialect_names = [*instruction_names(), *format_names(), *CONTROL, *isa.micro_operations()]
        names = [n for n in dialect_names if not n.startswith(_DIALECTS)]
        meant = suggestion(plain.lower(), names, spelled[: -len(plain)])
        # MLIR's operations without the name of their dialect: func, for, addi.
        whole = next((n for n in (*CONTROL, "func.func", *format_names()) if n.endswith(f".{spelled}")), "")
        meant = f" (did you mean '{whole}'?)" if whole and not meant else meant
        self.cursor.fail(f"unknown instruction '{spelled}'{meant}", start=start, end=end)

    def _bare_name(self, spelled: str, start: int, end: int) -> None:
        """Report the name of a value that is written without %."""
        source = self.cursor.source
        first = source.rfind("\n", 0, start) + 1
        before, rest = source[first:start], source[end:].partition("\n")[0]
        if not before.strip() and not re.match(r"\s*(,[\s\w,%]*)?=(?!=)", rest):
            return
        if ":" in before and rest.lstrip().startswith("!"):
            self.cursor.fail(
                f"got '{spelled}' between two types", start=start, end=end, allowed="->", fix="->"
            )
        names, equals, call = (before + spelled + rest).partition("=")
        operation, _, operands = (call if equals else names).strip().partition(" ")
        if before.strip() and (isa.find(operation.removeprefix("pto.")) is None or "(" in operands):
            return
        called = re.fullmatch(r"\s*([\w.]+)\((.*)\)\s*", call)
        if called and equals:
            operation, operands = called[1], called[2]
        values, colon, types = operands.partition(":")
        fix = f"{operation} {_values(values)}{colon}{types}" if "(" not in values and operation else ""
        fix = f"{_values(names).rstrip()} = {fix}" if equals and fix else fix
        self.cursor.fail(
            objection(f"got the name '{spelled}'", "values, which start with %", fix.strip()),
            start=start,
            end=end,
        )

    def _bound_names(self) -> list[reader.Mention]:
        """``%a, %b =`` or ``%r:2 =``, or nothing."""
        c = self.cursor
        if c.kind is not Kind.PERCENT_IDENT:
            return []
        first = self.name()
        names = [first]
        if c.accept(Kind.COLON):
            start = c.start
            if not c.text[:1].isdigit():
                name = f"%{first.name}"
                c.unexpected(f"a number of results after {name}:, or a comma before an operand {name}")
            count = c.integer("the number of results")
            if not 1 <= count <= _MAX_RESULTS:
                c.fail_since(start, f"got {count} results; allowed: 1 to {_MAX_RESULTS}")
            if count > 1:
                names = [reader.Mention(f"{first.name}#{i}", first.start, first.end) for i in range(count)]
        while c.accept(Kind.COMMA):
            names.append(self.name())
        c.expect(Kind.EQUAL, "after the names of the results")
        return names


def _sorted(attributes: dict[str, ir.AttrValue]) -> ir.Attrs:
    return tuple(sorted(attributes.items()))
