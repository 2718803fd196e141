"""Loops and branches of a program as C++ statements."""

from collections.abc import Callable, Sequence

from ...ir import Op, Region, TileType, Value
from .spelling import refuse
from .writer import Writer

Handler = Callable[[Writer, Op], None]


def _for(writer: Writer, op: Op) -> None:
    lower, upper, step = (writer.of(op.group(g)[0]) for g in ("lb", "ub", "step"))
    body = op.regions[0]
    counter, *carried = body.args
    names = writer.variables(op, op.results, op.group("inits"))
    index, kind = writer.fresh_name("i"), writer.type(counter.type)
    with writer.braces(f"for ({kind} {index} = {lower}; {index} < {upper}; {index} += {step})", loop=True):
        writer.line(f"{kind} {writer.bind(counter)} = {index};")
        writer.copies(carried, names, op.results)
        writer.hand_on(op, names, writer.block(body))


def _while(writer: Writer, op: Op) -> None:
    before, after = op.regions
    starts = writer.variables(op, op.ins, op.ins, renamed=True)
    results = writer.variables(op, op.results)
    with writer.braces("while (true)", loop=True):
        writer.copies(before.args, starts, op.ins)
        go, *passed = writer.block(before)
        with writer.braces(f"if (!({writer.of(go)}))"):
            writer.hand_on(op, results, passed)
            writer.line("break;")
        writer.copies(after.args, [writer.of(v) for v in passed], passed)
        writer.hand_on(op, starts, writer.block(after))


def _if(writer: Writer, op: Op) -> None:
    names = writer.variables(op, op.results)
    heads = [f"if ({writer.of(op.ins[0])})", "else"]
    _arms(writer, op, names, heads, op.regions)


def _switch(writer: Writer, op: Op) -> None:
    names = writer.variables(op, op.results)
    cases = op.attrs.get("cases")
    assert isinstance(cases, tuple)
    value = writer.of(op.ins[0])
    tests = [f"{value} == {n}" for n in cases]
    heads = [f"{'else ' if i else ''}if ({t})" for i, t in enumerate(tests)]
    # The default is the last region; without cases it is all there is.
    _arms(writer, op, names, [*heads, "else" if heads else ""], op.regions)


def _execute(writer: Writer, op: Op) -> None:
    _arms(writer, op, writer.variables(op, op.results), [""], op.regions)


def _section(writer: Writer, op: Op) -> None:
    raise refuse(op, "is one core's part of a program, which is not written in C++")


def _arms(
    writer: Writer, op: Op, names: Sequence[str], heads: Sequence[str], regions: Sequence[Region]
) -> None:
    """Regions of which one is executed and hands values on."""
    depths: dict[str, int] = {}
    for head, region in zip(heads, regions, strict=False):
        with writer.braces(head):
            passed = writer.block(region)
            writer.hand_on(op, names, passed)
            for result, value in zip(op.results, passed, strict=True):
                _same_type(op, result, value)
                depths[result.name] = max(depths.get(result.name, 0), writer.scope.depths.get(value.name, 0))
    writer.scope.depths.update(depths)


def _same_type(op: Op, result: Value, value: Value) -> None:
    if isinstance(result.type, TileType) and result.type != value.type:
        raise refuse(op, f"hands on {value} of type {value.type} as {result.type}")


CONTROL: dict[str, Handler] = {
    "scf.for": _for,
    "scf.while": _while,
    "scf.if": _if,
    "scf.index_switch": _switch,
    "scf.execute_region": _execute,
    "section.cube": _section,
    "section.vector": _section,
}
