"""Constraints that many instructions share, and the fixes that messages propose.

The constraints concern element types, memories, layouts and valid regions. A fix can be pasted: programs that
Python code built get Python code, all others PTO text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from itertools import pairwise

from ...ir import TILE_DTYPES, BLayout, DType, Language, Loc, Pad, TileType, Type, element_order, find_dtype
from ...profiles import Profile, ProfileName
from ..declare import AttrMap, Breaker, Constraint, Finding, Operand, RegionRule, Site
from .forbid import HEADERS as HEADERS, Types, edit, first_tile, forbid, retype, shrunk
from .require import require
from .typesets import (
    Rows,
    TypeTable,
    element_type as element_type,
    same_element as same_element,
    with_dtype as with_dtype,
)

#: Bits of a block of 32 bytes.
BLOCK_BITS = 256
#: Types and pairs of types that one message lists.
MOST_LISTED = 12
#: The fix of types that A5 alone has.
ON_A5 = 'profile="a5"'
#: What stands in messages between what is allowed and the fix.
USUAL = "; try: "


def spelled(t: TileType) -> str:
    """A tile type as programs write it, without the parameters that have their default.

    >>> from pto_jax.ir import F32
    >>> spelled(TileType(F32, 16, 1, v_row=None, blayout=BLayout.COL_MAJOR))
    '!pto.tile_buf<vec, 16x1xf32, valid=?x1, blayout=col_major>'
    """
    parts = [t.loc.name.lower(), f"{t.rows}x{t.cols}x{t.dtype}"]
    if not t.is_full:
        parts.append("valid=" + "x".join(map(size, t.valid)))
    default = TileType(t.dtype, t.rows, t.cols)
    for key in ("blayout", "slayout", "fractal", "pad", "compact"):
        value = getattr(t, key)
        if value != getattr(default, key):
            parts.append(f"{key}={value.name.lower() if isinstance(value, IntEnum) else value}")
    return f"!pto.tile_buf<{', '.join(parts)}>"


def in_python(t: TileType) -> str:
    """The arguments of the builder's ``alloc_tile`` and ``tile_type`` that give a tile type.

    >>> from pto_jax.ir import F32
    >>> in_python(TileType(F32, 16, 1, v_row=13, blayout=BLayout.COL_MAJOR))
    '"f32", 16, 1, valid=(13, 1), blayout="col_major"'
    """
    parts = [f'"{t.dtype}"', str(t.rows), str(t.cols)]
    if not t.is_full:
        parts.append(f"valid={t.valid}")
    outer, inner, box = element_order(t.loc)
    default = TileType(t.dtype, t.rows, t.cols, slayout=inner, blayout=outer, fractal=box)
    layout = ("slayout", "blayout") if (t.blayout, t.slayout) != (outer, inner) else ()
    if layout:
        default = replace(
            default, blayout=TileType(t.dtype, 1, 1).blayout, slayout=TileType(t.dtype, 1, 1).slayout
        )
    for key in ("loc", "blayout", "slayout", "fractal", "pad", "compact"):
        value = getattr(t, key)
        if value != getattr(default, key):
            parts.append(f'{key}="{value.name.lower()}"' if isinstance(value, IntEnum) else f"{key}={value}")
    return ", ".join(parts)


def row_major_instead(site: Site, operand: str) -> str | None:
    """How a tile that is not row_major is handed to an instruction that takes row_major tiles only.

    The bytes of a column of numbers are those of a row: ``treshape`` names them anew and nothing moves.
    """
    t, value = site.tile(operand), site.values.get(operand)
    if t is None or value is None or t.boxed or t.conv is not None:
        return None
    python = site.op.span is not None and site.op.span.python
    if t.cols != 1 or t.rows == 1 or site.instruction.lanes != "same":
        wide = replace(t, cols=_whole(t.cols, t), blayout=BLayout.ROW_MAJOR)
        return _allocated(value.name, wide) if python else f"allocate {value} as {spelled(wide)}"
    if t.rows % _unit(t):
        row = _row(t, _whole(t.rows, t))
        return (
            _allocated(value.name, row) if python else f"allocate {value} as a row of numbers, {spelled(row)}"
        )
    row = _row(t, t.rows)
    line = (
        f"{value.name}_row = pto.treshape({value.name}, type=pto.tile_type({in_python(row)}))"
        if python
        else f"{value}_row = pto.treshape {value} : {spelled(t)} -> {spelled(row)}"
    )
    return f"compute on the same bytes as a row: {line}"


def made_anew(t: TileType) -> str:
    """The expression that makes a tile; a type where sizes are given beside it."""
    arguments = in_python(t)
    return f"its type as pto.tile_type({arguments})" if None in t.valid else f"pto.alloc_tile({arguments})"


def _allocated(name: str, t: TileType) -> str:
    """The statement that allocates a tile; one of a dynamic region is allocated by its type."""
    if None in t.valid:
        return f"allocate {name} by its type, pto.tile_type({in_python(t)})"
    return f"{name} = {made_anew(t)}"


def with_pad(site: Site, operand: str) -> str | None:
    """The allocation of a tile whose type names the number that fills it."""
    t, value = site.tile(operand), site.values.get(operand)
    if t is None or value is None:
        return None
    padded = replace(t, pad=Pad.ZERO)
    python = site.op.span is not None and site.op.span.python
    return _allocated(value.name, padded) if python else f"{value} : {spelled(padded)}"


def _row(column: TileType, cols: int) -> TileType:
    """A row for the numbers of a column."""
    valid = column.v_row if column.is_static else cols
    return replace(column, rows=1, cols=cols, v_row=1, v_col=valid, blayout=BLayout.ROW_MAJOR)


def aligned(t: TileType) -> str:
    """Physical sizes whose rows or columns are whole blocks of 32 bytes, the data in a part of them.

    >>> from pto_jax.ir import F32
    >>> aligned(TileType(F32, 13, 37))
    'cols=40 with v_col=37'
    >>> aligned(TileType(F32, 13, 1))
    'one number per row is a column: blayout=col_major, rows=16 with v_row=13'
    """
    if t.cols == 1 and t.rows > 1:
        column = "" if t.layout == "DN" else "one number per row is a column: blayout=col_major, "
        return (column + _rounded("rows", t.rows, t.v_row, t)).removesuffix(", ")
    if t.layout == "ND" or t.rows == 1:
        return _rounded("cols", t.cols, t.v_col, t)
    return _rounded("rows", t.rows, t.v_row, t)


def in_blocks(t: TileType) -> TileType:
    """The tile type that :func:`aligned` describes."""
    if t.cols == 1 and t.rows > 1:
        return replace(t, rows=_whole(t.rows, t), blayout=BLayout.COL_MAJOR)
    if t.layout == "ND" or t.rows == 1:
        return replace(t, cols=_whole(t.cols, t))
    return replace(t, rows=_whole(t.rows, t))


def in_boxes(t: TileType) -> TileType:
    """A tile of whole boxes, the data in a part of it."""
    rows, cols = t.box
    return replace(t, rows=-(-t.rows // rows) * rows if t.rows != 1 else 1, cols=-(-t.cols // cols) * cols)


def _rounded(axis: str, n: int, valid: int | None, t: TileType) -> str:
    size = _whole(n, t)
    if size == n:
        return ""
    return f"{axis}={size}" + (f" with v_{axis[:3]}={valid}" if valid is not None else "")


def _unit(t: TileType) -> int:
    """Elements in a block of 32 bytes; 4-bit elements count a byte each, as in the header."""
    return BLOCK_BITS // t.dtype.word_bits


def _whole(n: int, t: TileType) -> int:
    """A number of elements rounded up to whole blocks."""
    return -(-n // _unit(t)) * _unit(t)


def largest(t: TileType, capacity: int) -> str | None:
    """The largest tile of the same columns that fits into so many bytes, else of the same rows.

    >>> from pto_jax.ir import F32
    >>> largest(TileType(F32, 1024, 64), 196608), largest(TileType(F32, 1, 65536), 196608)
    ('768x64', '1x49152')
    """
    if t.conv is not None or t.rows < 1 or t.cols < 1:
        return None
    elements = capacity * 8 // t.dtype.storage_bits
    column_major = not t.boxed and t.blayout == BLayout.COL_MAJOR
    row_step, col_step = t.box if t.boxed else (_unit(t), 1) if column_major else (1, _unit(t))
    rows = elements // t.cols // row_step * row_step
    if rows:
        return f"{rows}x{t.cols}"
    cols = elements // t.rows // col_step * col_step
    return f"{t.rows}x{cols}" if cols else None


HARDWARE: tuple[ProfileName, ...] = ("a2a3", "a5")
SIMULATOR: tuple[ProfileName, ...] = ("cpu_sim",)
OVERVIEW = "Tile Instruction Set overview"


def bind_vars(site: Site) -> tuple[dict[str, tuple[str, DType]], list[Finding]]:
    """The element type of every type variable, and tile operands that contradict each other."""
    bound: dict[str, tuple[str, DType]] = {}
    clashes: list[Finding] = []
    for operand in site.instruction.operands:
        d = element_type(site.types.get(operand.name))
        if d is None or operand.kind == "scalar" or operand.dtype not in site.instruction.type_vars:
            continue
        first, expected = bound.setdefault(operand.dtype, (operand.name, d))
        if d != expected:
            clashes.append(
                (
                    operand.name,
                    f"{operand.name} has element type {d}, {first} has {expected}; allowed: one element type "
                    "for both (no implicit conversion)",
                )
            )
    return bound, clashes


def _allowed_types(site: Site, bound: Mapping[str, tuple[str, DType]], legal: Rows) -> str:
    """The types that the first operand may have beside the others, else the rows, and another profile."""
    variables, instruction = site.instruction.type_vars, site.instruction
    have = tuple(bound[v][1].name if v in bound else None for v in variables)
    beside = [r[0] for r in legal if all(h in (None, x) for h, x in zip(have[1:], r[1:], strict=True))]
    if len(variables) > 1 and beside:
        sources = ", ".join(str(bound[v][1]) for v in variables[1:] if v in bound)
        allowed = f"allowed from {sources}: {_listed(beside, instruction.name)}"
    else:
        allowed = f"allowed: {describe_rows(site, legal)}"
    profiles = [
        name
        for name, rows in instruction.types.items()
        if name in HARDWARE
        and any(all(h in (None, x) for h, x in zip(have, row, strict=True)) for row in rows)
    ]
    profile = "a5" if "a5" in profiles else next(iter(profiles), "")
    fix = f'profile="{profile}"' if profile else ""
    return f"{allowed}; try: {fix}" if fix else allowed


def _listed(names: Sequence[str], instruction: str) -> str:
    """Names, of many of them the first ones."""
    names = list(dict.fromkeys(names))
    more = (
        f" and {len(names) - MOST_LISTED} more (pto-jax isa {instruction})"
        if len(names) > MOST_LISTED
        else ""
    )
    return ", ".join(names[:MOST_LISTED]) + more


def describe_rows(site: Site, legal: Rows) -> str:
    """The type rows in words, in the order of the type variables."""
    if not legal:
        return "nothing (the instruction does not exist there)"
    if len(site.instruction.type_vars) == 1:
        return _listed([r[0] for r in legal], site.instruction.name)
    names = "/".join(_representative(site, v) for v in site.instruction.type_vars)
    return f"{names} = " + _listed(["/".join(r) for r in legal], site.instruction.name)


def _representative(site: Site, var: str) -> str:
    return next((o.name for o in site.instruction.operands if o.dtype == var and o.kind != "scalar"), var)


def _tile_operands(operands: tuple[Operand, ...]) -> dict[str, list[str]]:
    by_var: dict[str, list[str]] = {}
    for operand in operands:
        if operand.kind != "scalar" and operand.dtype is not None:
            by_var.setdefault(operand.dtype, []).append(operand.name)
    return by_var


def _breaks_same_types(operands: tuple[Operand, ...]) -> Breaker:
    shared = [names for names in _tile_operands(operands).values() if len(names) > 1]

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        for names in shared:
            present = [n for n in names if isinstance(types.get(n), TileType)]
            if len(present) > 1:
                return retype(present[-1], "f16", "f32")(types, attrs, profile)
        return False

    return breaks


def _breaks_type_row(operands: tuple[Operand, ...], variables: tuple[str, ...], table: TypeTable) -> Breaker:
    by_var = _tile_operands(operands)

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        legal = table.get(profile.name, ())
        now = [element_type(types.get(by_var[v][0])) for v in variables]
        for i, var in enumerate(variables):
            for d in TILE_DTYPES:
                row = tuple(d.name if j == i else str(x) for j, x in enumerate(now))
                if row in legal or d.packed or not profile.has_dtype(d):
                    continue
                for operand in operands:
                    if operand.dtype == var and operand.name in types:
                        types[operand.name] = with_dtype(types[operand.name], d)
                return True
        return False

    return breaks


def same_types(operands: tuple[Operand, ...]) -> Constraint:
    """Tile operands of one type variable have one element type."""

    @forbid(
        "types-equal",
        "tile operands of one type variable have one element type",
        source=f"{OVERVIEW}; instruction page",
        invalid_if=_breaks_same_types(operands),
    )
    def rule(site: Site) -> Iterator[Finding]:
        yield from bind_vars(site)[1]

    return rule


def type_row(operands: tuple[Operand, ...], variables: tuple[str, ...], table: TypeTable) -> Constraint:
    """The element types are a row of the instruction's type table."""

    @forbid(
        "types",
        "the element types are a row of the type table of the profile",
        source=f"instruction page; {HEADERS}; recorded simulator vectors",
        invalid_if=_breaks_type_row(operands, variables, table),
    )
    def rule(site: Site) -> Iterator[Finding]:
        bound, clashes = bind_vars(site)
        legal = site.instruction.types.get(site.profile.name, ())
        if clashes or not bound:
            return
        names = [bound[v][1].name if v in bound else None for v in site.instruction.type_vars]
        if any(all(f in (None, r) for f, r in zip(names, row, strict=True)) for row in legal):
            return
        where = ", ".join(f"{bound[v][0]}: {bound[v][1]}" for v in site.instruction.type_vars if v in bound)
        got = f"element types ({where}) are not supported on {site.profile.name}"
        yield next(iter(bound.values()))[0], f"{got}; {_allowed_types(site, bound, legal)}"

    return rule


def _scalar_expected(site: Site, operand: Operand) -> tuple[str, DType] | None:
    fixed = find_dtype(operand.dtype) if operand.dtype else None
    if fixed is not None:
        return "the instruction", fixed
    return bind_vars(site)[0].get(operand.dtype or "")


def _another(operand: Operand, other: Type | None) -> Breaker:
    """A type that a scalar operand may not have."""
    d = element_type(other)
    if operand.converts and d is not None:
        return retype(operand.name, "i32" if d.is_float else "f32")
    return retype(operand.name, "f16", "f32")


def scalar_types(operands: tuple[Operand, ...]) -> Constraint:
    """Scalars have the element type of the tiles they are combined with."""
    scalars = [o for o in operands if o.kind == "scalar" and o.dtype is not None]

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        return any(_another(o, types.get(o.name))(types, attrs, profile) for o in scalars)

    @forbid(
        "scalar-type",
        "a scalar has the element type of the tiles it is combined with",
        source="instruction pages (common constraints)",
        invalid_if=breaks,
        fix=_call_with_scalar,
    )
    def rule(site: Site) -> Iterator[Finding]:
        for operand in site.instruction.operands:
            d = element_type(site.types.get(operand.name))
            if operand.kind != "scalar" or operand.dtype is None or d is None:
                continue
            expected = _scalar_expected(site, operand)
            if expected is None or same_element(d, expected[1]):
                continue
            if not (operand.converts and d.is_float == expected[1].is_float):
                of = expected[0] if expected[0] == "the instruction" else f"type of {expected[0]}"
                allowed = f"a scalar of type {expected[1]}, the {of}"
                yield operand.name, f"{_scalar_name(operand)} has type {d}", allowed

    return rule


def _call_with_scalar(site: Site, name: str) -> str | None:
    """The Python call of an operation with a scalar of the type that its tiles ask for."""
    span, expected = site.op.span, _scalar_expected(site, site.instruction.operand(name))
    if span is None or not span.python or expected is None:
        return None
    try:
        call = ast.parse(span.text[span.col - 1 : span.col - 1 + span.length], mode="eval").body
    except SyntaxError:
        return None
    order = [o.name for o in site.instruction.destinations if o.name in site.values]
    order += [n for form in site.instruction.forms if set(form) <= set(site.values) for n in form]
    at = order.index(name) if name in order else -1
    if not isinstance(call, ast.Call) or not 0 <= at < len(call.args):
        return None
    match call.args[at]:
        case ast.Call(ast.Attribute(_, "constant"), [number, *_]):
            call.args[at] = number
        case other:
            call.args[at] = ast.Call(
                ast.Attribute(ast.Name("pto"), "cast"), [other, ast.Constant(str(expected[1]))], []
            )
    return ast.unparse(call)


def _scalar_name(operand: Operand) -> str:
    return operand.name if operand.name == "scalar" else f"scalar {operand.name}"


def fixed_type(
    name: str,
    allowed: tuple[str, ...],
    profiles: tuple[ProfileName, ...],
    source: str,
    since: Language | None = None,
) -> Constraint:
    """An operand outside the type table (a mask, a scratch tile) has one of some element types."""
    wrong = next(d.name for d in TILE_DTYPES if d.name not in allowed and d.bits >= 8)
    words, invalid = f"({', '.join(allowed)},)", retype(name, wrong)

    return require(
        f"{name}-type", f"{name}.dtype in {words}", profiles, source=source, invalid_if=invalid, since=since
    )


def same_as(
    other: str, profiles: tuple[ProfileName, ...], source: str, since: Language | None = None
) -> Constraint:
    """The scratch tile has the element type of another operand."""
    return require("tmp-type", f"tmp.dtype == {other}.dtype", profiles, source=source, since=since)


def one_element(a: str, b: str, source: str) -> Constraint:
    """Two operands of any kind have one element type."""
    return require("types-equal", f"{b}.element == {a}.element", source=source)


def _tiles(operands: tuple[Operand, ...]) -> tuple[str, ...]:
    return tuple(o.name for o in operands if o.kind == "tile")


def in_vec(operands: tuple[Operand, ...], profiles: tuple[ProfileName, ...] = HARDWARE) -> Constraint:
    """Tile operands live in the unified buffer (location vec)."""
    return place(operands, (Loc.VEC,), profiles)


def place(
    operands: tuple[Operand, ...], locs: tuple[Loc, ...], profiles: tuple[ProfileName, ...]
) -> Constraint:
    """Tile operands live in one of some places."""
    words, names = f"({', '.join(loc.name.lower() for loc in locs)},)", _tiles(operands)
    elsewhere = next(p for p in (Loc.MAT, Loc.ACC, Loc.LEFT) if p not in locs)

    return require(
        "location",
        f"it.loc in {words}",
        profiles,
        it=names,
        source=f"instruction pages; {HEADERS}",
        invalid_if=first_tile(names, lambda t: replace(t, loc=elsewhere)),
    )


def row_major(operands: tuple[Operand, ...], profiles: tuple[ProfileName, ...] = HARDWARE) -> Constraint:
    """Tile operands have the block layout row_major; the inner layout is not restricted."""
    names = _tiles(operands)

    return require(
        "layout",
        "it.blayout == row_major",
        profiles,
        it=names,
        source=f"pto.tadd page (target-profile restrictions); {HEADERS}",
        fix=row_major_instead,
    )


def equal_valid(operands: tuple[str, ...], source: str) -> Constraint:
    """All operands named have the same valid region; checked again on run-time sizes."""

    @forbid(
        "valid-equal",
        f"{', '.join(operands)}: equal valid regions",
        stage="run-time",
        source=source,
        invalid_if=shrunk(operands[-1], rows=1),
        region=RegionRule("equal-valid", operands),
    )
    def rule(site: Site) -> Iterator[Finding]:
        present = [n for n in operands if n in site.valid]
        for a, b in pairwise(present):
            (ra, ca), (rb, cb) = one, other = _in_numbers(site, a), _in_numbers(site, b)
            differ = (None not in (ra, rb) and ra != rb) or (None not in (ca, cb) and ca != cb)
            if differ and _could_cover(site.tile(a), other) and _could_cover(site.tile(b), one):
                (ra, ca), (rb, cb) = site.valid[a], site.valid[b]
                here, there = f"{size(rb)}x{size(cb)}", f"{size(ra)}x{size(ca)}"
                paired = " in numbers, two to an element of a pair" * _pairs_with_others(site, a, b)
                yield b, f"{b} has valid region {here}, {a} has {there}; allowed: equal valid regions{paired}"

    return rule


def _pairs_with_others(site: Site, *names: str) -> bool:
    """Whether elements of some operands are pairs and those of others are not."""
    return len({t.dtype.numbers for _, t in site.named(*names)}) > 1


def _in_numbers(site: Site, name: str) -> tuple[int | None, int | None]:
    """The valid region of an operand, with two columns for an element that is a pair."""
    (rows, cols), t = site.valid[name], site.tile(name)
    return rows, cols if cols is None or t is None else cols * t.dtype.numbers


def _could_cover(t: TileType | None, region: tuple[int | None, int | None]) -> bool:
    """Whether a tile has so many rows and numbers in a row; where not, a rule on shapes reports it."""
    return t is not None and t.rows >= (region[0] or 0) and t.cols * t.dtype.numbers >= (region[1] or 0)


def non_empty(operands: tuple[str, ...], source: str) -> Constraint:
    """The operands have at least one valid lane; checked again on run-time sizes."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        for name, t in types.items():
            if isinstance(t, TileType):
                types[name] = t.with_valid(0, t.v_col)
        return True

    @forbid(
        "non-empty",
        "at least one valid row and column",
        stage="run-time",
        source=source,
        invalid_if=breaks,
        region=RegionRule("non-empty", operands),
    )
    def rule(site: Site) -> Iterator[Finding]:
        for name in operands:
            r, c = site.region(name)
            if r == 0 or c == 0:
                yield (
                    name,
                    f"{name} has the empty valid region {size(r)}x{size(c)}; allowed: at least one "
                    "row and column",
                )

    return rule


def no_half(operands: tuple[str, ...], source: str) -> Constraint:
    """The operands have valid lanes, or neither valid rows nor columns; checked again on run-time sizes."""

    @forbid(
        "no-half",
        "valid rows and columns, or neither",
        stage="run-time",
        source=source,
        invalid_if=edit(operands[-1], lambda t: t.with_valid(t.v_row, 0)),
        region=RegionRule("no-half", operands),
    )
    def rule(site: Site) -> Iterator[Finding]:
        for name in operands:
            r, c = site.valid.get(name, (1, 1))
            if (r == 0) != (c == 0) and None not in (r, c):
                yield name, f"{name} has the valid region {size(r)}x{size(c)}; allowed: 0x0 or no 0"

    return rule


def size(n: int | None) -> str:
    """A valid size in words: ``?`` when it is only known at run time."""
    return "?" if n is None else str(n)
