"""What spans the functions of a program: entries, calls, kernels, and the level it is built at."""

from collections import Counter
from collections.abc import Iterator

from .. import ir
from ..analysis.pipes import uses
from ..errors import Diagnostic, Span
from ..isa.check import EXPLICIT
from ..isa.effects import placed, traits_in, traits_of
from ..isa.multi_tiles import SUBVIEW
from ..isa.traits import Traits

#: Levels of a build: from 3 on the program places its tiles and orders its pipes itself.
LEVELS = (1, 2, 3)
#: Attributes of functions that are written for single lanes or threads.
HELPERS = ("pto.tileop.helper", "pto.simt_entry", "pto.persistent")
#: Attributes of child modules and of functions: what builds them, and what those who call them call them.
BACK_END, LOGICAL_NAME = "pto.backend", "pto.ptodsl.logical_name"
BACK_ENDS = ("emitc", "vpto")
#: Spellings in which an instruction binds its destination.
BINDING = ("as", "ssa")


def same_use(defined: ir.Type, used: ir.Type) -> bool:
    """Whether a mention of a value may carry this type; valid sizes are checked where they matter."""
    if defined is used or isinstance(defined, ir.UnknownType) or isinstance(used, ir.UnknownType):
        return True
    if isinstance(defined, ir.TileType) and isinstance(used, ir.TileType):
        place = defined.loc == used.loc and (defined.loc == ir.Loc.LEFT or defined.layout == used.layout)
        return place and defined.shape == used.shape and defined.dtype == used.dtype
    return defined == used


def callees(function: ir.Function) -> Iterator[tuple[str, ir.Op]]:
    """The functions that a function calls."""
    if not any(traits.calls for traits in traits_in(function)):
        return
    for op in function.walk():
        callee = op.attrs.get("callee") if traits_of(op).calls else None
        if isinstance(callee, ir.Symbol):
            yield callee.name, op


def function_findings(program: ir.Program, level: int | None, auto_sync: bool) -> Iterator[Diagnostic]:
    """Everything that is wrong between functions or with what the level allows."""
    yield from _names(program)
    yield from _entries(program)
    yield from _call_cycles(program)
    yield from _back_ends(program)
    for function in program.functions:
        yield from _signature(function)
        yield from _peers(program, function)
        yield from _kernel(function)
        yield from _manual_buffers(program, function)
        # Without a level or a tool, a program may place its tiles or not.
        for op in function.walk() if level is not None or auto_sync else ():
            yield from _level(program, op, level, auto_sync)
            yield from _of_argument(program, function, op, level)


def _error(rule: str, message: str, span: Span | None, instruction: str | None = None) -> Diagnostic:
    return Diagnostic("error", message, span, instruction, rule=rule)


def _names(program: ir.Program) -> Iterator[Diagnostic]:
    names = set[tuple[int | None, str]]()
    bodies = Counter(f.name for f in program.functions if not f.external)
    for function in program.functions:
        if (function.child, function.name) in names:
            yield _error(
                "function", f"a second function @{function.name}; allowed: one per name", function.span
            )
        elif not function.external and bodies[function.name] > 1 and program.children:
            got = f"{bodies[function.name]} child modules define @{function.name}"
            yield _error("function", f"{got}; allowed: one definition of each name", function.span)
        elif function.external and function.child is not None:
            yield from _declared(program, function)
        names.add((function.child, function.name))


def _declared(program: ir.Program, function: ir.Function) -> Iterator[Diagnostic]:
    """A declaration in a child module stands for the public function of another one."""
    defined = program.function(function.name)
    if defined is None or defined.external or defined.private:
        got = "is private" if defined is not None and not defined.external else "has no definition"
        message = f"@{function.name} {got} in the other child modules; allowed: a public function of one"
        yield _error("function", message, function.span)
    elif [a.type for a in defined.args] != [a.type for a in function.args]:
        types = ", ".join(str(a.type) for a in defined.args)
        message = f"declared with other arguments than @{function.name} has; allowed: ({types})"
        yield _error("function", message, function.span)


def _entries(program: ir.Program) -> Iterator[Diagnostic]:
    """What is wrong with entries; a lone function is one without a mark in texts of April 2026."""
    alone = program.language == "2026-04" and len(program.functions) == 1
    for function in () if program.fragment else program.functions:
        if not function.is_entry and not alone:
            continue
        if function.external:
            message = f"entry @{function.name} has no body; allowed: a definition"
            yield _error("entry", message, function.span)
        if function.results:
            results = ", ".join(str(t) for t in function.results)
            got = f"entry @{function.name} returns {results}; allowed: an entry returns nothing"
            last = function.body.ops[-1] if function.body.ops else None
            place = last.span if last is not None and last.span is not None else function.span
            yield Diagnostic("error", got, place, rule="entry", fix=_without_results(function, place))


def _without_results(function: ir.Function, place: Span | None) -> str:
    """The end of an entry that returns nothing; of one in Python a store of the tile into its last buffer."""
    buffers = [a.name for a in function.args if isinstance(a.type, ir.PtrType)]
    values = function.body.ops[-1].ins if function.body.ops else ()
    tiles = [v for v in values if isinstance(v.type, ir.TileType)]
    if place is None or not place.python or not buffers or not tiles or not tiles[0].name.isidentifier():
        return "return"
    return f"pto.tstore(pto.GlobalTensor({buffers[-1]}, {tiles[0].type.shape}), {tiles[0].name})"  # type: ignore[union-attr]


def _signature(function: ir.Function) -> Iterator[Diagnostic]:
    """What no function of tile programs is, or returns."""
    mark = next((m for m in HELPERS if m in function.attrs), None)
    if mark is not None:
        message = f"@{function.name} is marked {mark}: it is not part of tile programs, and not read further"
        yield _error("tile-program", message, function.span)
    struct = next((t for t in function.results if isinstance(t, ir.StructType)), None)
    if struct is not None:
        message = f"@{function.name} returns {struct}; allowed: a structure is used where it is declared"
        yield _error("direct", message, function.span)


def _peers(program: ir.Program, function: ir.Function) -> Iterator[Diagnostic]:
    """A function of another child module that a buffer is imported from is a public one."""
    for op in function.walk() if program.children else ():
        peer = op.attrs.get("peer_func")
        target = program.function(peer.name) if isinstance(peer, ir.Symbol) else None
        if target is not None and target.private and target.child != function.child:
            message = f"@{target.name} is private in another child module; allowed: a public function"
            yield op.error("peer-function", message)


def _back_ends(program: ir.Program) -> Iterator[Diagnostic]:
    """What the assembler demands of modules that name a back end, and of children with different ones."""
    for name in (dict(module).get(BACK_END) for module in (program.attributes, *program.children)):
        if name is not None and name not in BACK_ENDS:
            yield _error("back-end", f'got {BACK_END} = "{name}"; allowed: {", ".join(BACK_ENDS)}', None)
    if len({dict(child).get(BACK_END) for child in program.children}) < 2:
        return
    for function in program.functions:
        yield from _logical_names(program, function)
        for op in function.walk():
            yield from _whole_peer(program, function, op)


def _logical_names(program: ir.Program, function: ir.Function) -> Iterator[Diagnostic]:
    """Wrappers of functions for other back ends have the logical names of these."""
    called: dict[ir.AttrValue, str] = {}
    for name, op in callees(function):
        target = program.function(name)
        logical = target.attrs.get(LOGICAL_NAME) if target is not None and not target.private else None
        if logical is not None and called.setdefault(logical, name) != name:
            got = f"@{called[logical]} and @{name} have the logical name {logical} beside another back end"
            yield _error("back-end", f"{got}; allowed: one public function of a name", op.span, "call")


def _whole_peer(program: ir.Program, function: ir.Function, op: ir.Op) -> Iterator[Diagnostic]:
    """A peer of another child module is taken over without what it calls."""
    peer = op.attrs.get("peer_func")
    target = program.function(peer.name) if isinstance(peer, ir.Symbol) else None
    if target is None or target.child == function.child:
        return
    for name, _ in callees(target):
        got = f"@{target.name}, of a module of another back end, calls @{name}"
        yield _error("back-end", f"{got}; allowed: a peer that calls nothing", op.span, op.name)
        return


def _call_cycles(program: ir.Program) -> Iterator[Diagnostic]:
    """Calls that lead back to the function they are in."""
    calls = {f.name: list(callees(f)) for f in program.functions}

    def reaches(start: str, goal: str) -> bool:
        pending, visits = [start], set[str]()
        while pending:
            name = pending.pop()
            if name == goal:
                return True
            if name not in visits:
                visits.add(name)
                pending += [callee for callee, _ in calls.get(name, [])]
        return False

    for caller, called in calls.items():
        for callee, op in called:
            if reaches(callee, caller):
                got = f"the call of @{callee} in @{caller} is recursive; allowed: calls without cycles"
                yield _error("recursion", got, op.span, "call")


def _kernel(function: ir.Function) -> Iterator[Diagnostic]:
    """A function is a kernel of one core kind, or has sections, one after another."""
    kind = function.attrs.get("pto.kernel_kind")
    if kind is not None and not isinstance(kind, ir.KernelKind):
        kinds = ", ".join(k.name.lower() for k in ir.KernelKind)
        yield _error(
            "kernel-kind", f"kernel_kind = {kind} of @{function.name}; allowed: {kinds}", function.span
        )
    for op in function.walk() if any(map(_of_section, traits_in(function))) else ():
        if not _is_section(op):
            continue
        if isinstance(kind, ir.KernelKind) and traits_of(op).core != kind:
            got = f"in the {kind.name.lower()} kernel @{function.name}"
            message = f"{got}; allowed: sections of its own kind, or functions without kernel_kind"
            yield op.error("kernel-kind", message)
        for inner in op.walk():
            if inner is not op and _is_section(inner):
                got = f"inside {op.name}; allowed: sections one after another"
                yield inner.error("kernel-kind", got)


def _is_section(op: ir.Op) -> bool:
    return _of_section(traits_of(op))


def _of_section(traits: Traits) -> bool:
    return traits.regions is not None and traits.core is not None


def _manual_buffers(program: ir.Program, function: ir.Function) -> Iterator[Diagnostic]:
    """A buffer at a fixed place is not compatible with tiles that a tool places."""
    manual = [op for op in uses(function, "reserve") if op.attrs.get("auto") is False]
    for op in function.walk() if manual else ():
        if _is_unplaced(program, op):
            where = f" ({manual[0].span})" if manual[0].span else ""
            yield op.error(
                "manual-buffer",
                f"no address, beside reserve_buffer{where} with auto = false; allowed: auto = true, or an "
                "address for every tile",
            )


def _is_unplaced(program: ir.Program, op: ir.Op) -> bool:
    """Whether a tool would have to place a tile.

    That is an allocation without an address, or an instruction that binds its destination as a result. In
    fragments all tiles are the caller's.
    """
    place = placed(op)
    if place is not None and _allocates(op):
        return place[1] is None
    return (
        not program.fragment
        and op.form in BINDING
        and any(isinstance(v.type, ir.TileType) for v in op.results)
    )


def _allocates(op: ir.Op) -> bool:
    placement = traits_of(op).placement
    return placement is not None and placement.allocates


def _level(program: ir.Program, op: ir.Op, level: int | None, auto_sync: bool) -> Iterator[Diagnostic]:
    if traits_of(op).fifo == "reserve" and level is not None:
        yield from _reserved(op, level)
    place, allocates = placed(op), _allocates(op)
    # The address of a local memref is nothing that a program at some level writes.
    a_tile = place is None or isinstance(place[0].type, ir.TileType | ir.MultiTileType)
    if allocates and a_tile and place is not None and place[1] and level is not None and level < EXPLICIT:
        yield op.error("level", f"addr at level {level}; allowed: at level 3")
    if level == EXPLICIT and a_tile and _is_unplaced(program, op):
        got = "no addr" if allocates else "a tile as result, which has no address,"
        yield op.error("level", f"{got} at level 3; allowed: addr = %address for every tile")
    if place is not None and not allocates:
        if level is not None and level < EXPLICIT:
            yield op.error("level", f"at level {level}; allowed: at level 3")
        if auto_sync:
            got = "beside automatic synchronisation; allowed: without, as it cannot see run-time addresses"
            yield op.error("level", got)


def _of_argument(
    program: ir.Program, function: ir.Function, op: ir.Op, level: int | None
) -> Iterator[Diagnostic]:
    """At level 3 windows are addresses, which the tiles of a function's arguments do not have yet."""
    if level == EXPLICIT and op.name == SUBVIEW and not program.fragment and op.ins[0] in function.args:
        message = f"a window of the argument {op.ins[0]} at level 3; allowed: of a tile that has an address"
        yield op.error("level", message)


def _reserved(op: ir.Op, level: int) -> Iterator[Diagnostic]:
    """A tool places buffers below level 3, the program from there on."""
    auto, based = op.attrs.get("auto"), op.attrs.get("base") is not None
    if level == EXPLICIT and (auto is not False or not based):
        got = "auto = true" if auto is not False else "no base"
        yield op.error("level", f"{got} at level 3; allowed: auto = false with base = N")
    elif level < EXPLICIT and (auto is not True or based):
        got = "auto = false" if auto is not True else "base"
        yield op.error("level", f"{got} at level {level}; allowed: auto = true without base")


def call_findings(program: ir.Program, op: ir.Op) -> Iterator[Diagnostic]:
    """What is wrong with one call."""
    callee = op.attrs.get("callee")
    function = program.function(callee.name) if isinstance(callee, ir.Symbol) else None
    if function is None:
        names = ", ".join(f"@{f.name}" for f in program.functions)
        text = f"@{callee.name}" if isinstance(callee, ir.Symbol) else "a function"
        yield _error("callee", f"call of unknown {text}; allowed: {names}", op.span, "call")
        return
    if len(op.ins) != len(function.args) or len(op.results) != len(function.results):
        yield _error(
            "callee",
            f"call of @{function.name} with {len(op.ins)} argument(s) and {len(op.results)} "
            f"result(s); allowed: {len(function.args)} and {len(function.results)}",
            op.span,
            "call",
        )
        return
    for argument, expected in zip(op.ins, function.args, strict=True):
        if not same_use(expected.type, argument.type):
            got = f"{argument} is {argument.type}; "
            got += f"allowed for %{expected.name} of @{function.name}: {expected.type}"
            yield _error("callee", got, argument.span or op.span, "call")
    for result, t in zip(op.results, function.results, strict=True):
        if not same_use(t, result.type):
            got = f"{result} is {result.type}; allowed: {t}, the result of @{function.name}"
            yield _error("callee", got, result.span or op.span, "call")


def return_findings(program: ir.Program, function: ir.Function, op: ir.Op) -> Iterator[Diagnostic]:
    """What is wrong with one return."""
    expected = function.results
    if program.fragment:
        return
    if len(op.ins) != len(expected):
        got = f"return of {len(op.ins)} value(s) in @{function.name}; allowed: {len(expected)}"
        yield _error("return", got, op.span, "return")
        return
    for value, t in zip(op.ins, expected, strict=True):
        if not same_use(t, value.type):
            yield _wrong_return(function, value, t, op)


def _wrong_return(function: ir.Function, value: ir.Value, t: ir.Type, op: ir.Op) -> Diagnostic:
    got = f"{value} is {value.type}; allowed in @{function.name}: {t}"
    return _error("return", got, value.span or op.span, "return")
