"""Damage to program text: characters, tokens, lines, brackets, numbers, sizes.

Every mutation takes a random number generator, a text and a second text to take pieces from.

>>> import random
>>> mutate(random.Random(3), "%d = tadd %a, %b", "") != "%d = tadd %a, %b"
True
"""

import random
import re
from collections.abc import Callable
from functools import cache

Mutation = Callable[[random.Random, str, str], str]
#: Texts are not made longer than this, so that time in proportion to their length stays far from the limit.
MAX_CHARACTERS = 96_000
_TOKEN = re.compile(r'"[^"\n]*"|[%!#@^]?[\w.$-]+|\s+|->|.', re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])-?\d[\w.]*(?:[eE][+-]?\d+)?")
_OPEN, _CLOSE = "([{<", ")]}>"
_NESTING = (*_OPEN, "[[", "{a = ", "<x=", "!pto.event<", "array<", "tuple<", "#x<", "((", "-> (")

#: Numbers at and beyond the limits of the types, and what only looks like one.
NUMBERS = (
    *"0 -0 -1 1 2 3 7 16 31 32 63 64 65 127 128 255 256 1023 1024 4095 65535 65536 99999".split(),
    *(str((1 << n) + d) for n in (31, 32, 53, 62, 63, 64, 65, 127) for d in (-1, 0, 1)),
    *(str(-(1 << n) - d) for n in (31, 63) for d in (0, 1)),
    "9" * 19, "9" * 20, "9" * 21, "9" * 4301, "0" * 4400 + "1", "-" + "9" * 40, "1" + "0" * 300,
    "0x0", "0xffffffff", "0xFFFFFFFFFFFFFFFF", "0x10000000000000000", "0x", "0xg", "0X1F", "0b1", "0o7",
    "1_000",
    "1.5", "-0.0", "1.", ".5", "1e5", "1.0e308", "1.0e309", "-1.0e400", "1.0e-400", "1.0e+", "1.5e99999999",
    "1." + "3" * 5000, "0x7F800000", "0xFFC00000", "0x7FC0", "nan", "inf", "-inf", "infinity", "true",
    "?", "00",
    "٣", "²", "Ⅷ", "\uff11\uff12", "1٣", "0x٣", "1.٣", "1e٣", "१", "½", "\U0001d7d7",
)  # fmt: skip
#: Sizes that tiles and views have, and some that they may not have.
SIZES = (0, 1, 2, 3, 7, 8, 15, 16, 17, 32, 64, 128, 256, 4095, 4096, 65536, 1 << 20)
#: Characters with a meaning somewhere, invisible ones, and such as no encoding has.
CHARACTERS = (
    *"<>{}()[]%\"'#!@^:,=?-\\.;/*`~&|$+_ \t\n\r\x00\x07\x0b\x0c\x1b\x1c\x1f\x7f\x85\xa0",
    "é", "ß", "İ", "\u0131", "²", "٣", "\u200b", "\u200e", "\u2028", "\u2029", "\ufeff", "\uffff", "\ufffd",
    "\ud800",
    "\U0001f600", "\U0010ffff", "a\u0300", "ﬁ", "ªº",
)  # fmt: skip
#: Pieces of the grammar, also in places where they do not belong.
PIECES = (
    "->", "...", "<...>", "dtype", "//", "# ", "/*", "%r:2 =", "%r:1024 =", "%a#1", "%a#0", "%0", "%_",
    "_", "::",
    "!pto.tile<", "!pto.tile_buf<", "!pto.ptr<", "!pto.event<", "!pto.memref<", "!pto.tensor_view<?x",
    "memref<",
    "tuple<", "vector<4x", "tensor<", "complex<f32>", "none", "index", "i1", "i0", "i65536",
    "i999999999", "f8",
    "#pto.", "#pto<", "#x<", "{-#", "#-}", "strided<[1]>", "strided<[?], offset: ?>",
    "affine_map<(d0) -> (d0)>",
    "dense<", "dense<[1, 2]>", "array<i32: 1>", "array<i32>", "unit", "loc(unknown)",
    'loc("a":1:1)', "loc(#x)",
    "scf.for", "scf.if", "scf.while", "scf.yield", "scf.condition", "scf.index_switch", "func.func",
    "func.call",
    "module", "module {", "return", "attributes {", "ins(", "outs(", "iter_args(", "to", "step",
    "else {", "do {",
    "case 0 {", "default {", "^bb0:", "^bb0(%z: i32):", "cf.br ^bb0", "private", "public", "@f",
    '@"f g"', '@"',
    "rows=", "cols=", "v_row=?", "blayout=", "valid=", "loc=", "pad=", "fractal=", "compact=", "conv=",
    "location=",
    'b"', '"\\', '"\\0', '"\\zz"', '"\\00"', '"\\FF"', '"\\n"', '""', "offsets = [", "sizes = [",
    "strides = [",
    "true", "false", "pto.section.cube {", "pto.section.vector {", "1x", "x1", "0x", "1x1x1x1x1x1x1x1",
    "?x?", "4x?x",
)  # fmt: skip


def mutate(rng: random.Random, text: str, other: str) -> str:
    """The text after one to six mutations, half of the time only such as may leave a program."""
    mutations = MUTATIONS if rng.random() < 0.5 else GENTLE
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        changed = rng.choice(mutations)(rng, text, other)
        text = changed if len(changed) <= MAX_CHARACTERS else changed[:MAX_CHARACTERS]
    return text


# -- characters ------------------------------------------------------------------------------------------


def _span(rng: random.Random, size: int, longest: int = 20) -> tuple[int, int]:
    start = rng.randint(0, size)
    return start, min(size, start + rng.randint(1, longest))


def _character(rng: random.Random, text: str, other: str) -> str:
    start, end = _span(rng, len(text), 1)
    new = rng.choice(CHARACTERS) if rng.random() < 0.8 else chr(rng.randrange(0x3000))
    return text[:start] + new + text[end if rng.random() < 0.5 else start :]


def _bytes(rng: random.Random, text: str, other: str) -> str:
    """Bits turned in the encoded text; what is no UTF-8 afterwards is replaced."""
    data = bytearray(text.encode("utf-8", "replace"))
    for _ in range(rng.choice((1, 2, 8))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data.decode("utf-8", "replace")


def _delete(rng: random.Random, text: str, other: str) -> str:
    start, end = _span(rng, len(text), rng.choice((1, 4, 60)))
    return text[:start] + text[end:]


def _copy(rng: random.Random, text: str, other: str) -> str:
    start, end = _span(rng, len(text), rng.choice((4, 60)))
    at = rng.randint(0, len(text))
    return text[:at] + text[start:end] + text[at:]


def _cut(rng: random.Random, text: str, other: str) -> str:
    at = rng.randint(0, len(text))
    return text[:at] if rng.random() < 0.7 else text[at:]


# -- tokens ----------------------------------------------------------------------------------------------


def _tokens(text: str) -> list[str]:
    return [m[0] for m in _TOKEN.finditer(text)]


def _token(rng: random.Random, text: str, other: str) -> str:
    """A token deleted, repeated, replaced or exchanged."""
    tokens = _tokens(text)
    if not tokens:
        return rng.choice(PIECES)
    a, b = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    match rng.randrange(5):
        case 0:
            del tokens[a]
        case 1:
            tokens.insert(b, tokens[a])
        case 2:
            tokens[a] = tokens[b]
        case 3:
            tokens[a], tokens[b] = tokens[b], tokens[a]
        case _:
            taken = _tokens(other)
            tokens[a] = rng.choice(taken) if taken else ""
    return "".join(tokens)


def _piece(rng: random.Random, text: str, other: str) -> str:
    tokens = _tokens(text)
    at = rng.randint(0, len(tokens))
    tokens[at : at + rng.randrange(2)] = [rng.choice((" ", "")), rng.choice(PIECES), rng.choice((" ", ""))]
    return "".join(tokens)


def _word(rng: random.Random, text: str, other: str) -> str:
    """A name replaced by another name of the same kind: a value, an instruction, a type, a key."""
    tokens = _tokens(text)
    places = [i for i, t in enumerate(tokens) if t[0] in "%!#@^" or t[0].isalpha()]
    if not places:
        return text
    at = rng.choice(places)
    kind = tokens[at][0] if tokens[at][0] in "%!#@^" else ""
    pool = [t for t in tokens if t.startswith(kind) and (kind or t[0].isalpha())]
    tokens[at] = rng.choice(pool) if rng.random() < 0.6 or kind == "%" else kind + rng.choice(_names())
    return "".join(tokens)


@cache
def _names() -> tuple[str, ...]:
    from pto_jax.ir import ALL_DTYPES
    from pto_jax.isa import instructions

    attributes = (a.name for i in instructions().values() for a in i.attributes)
    names = (
        *instructions(),
        *(f"pto.{n}" for n in instructions()),
        *(d.name for d in ALL_DTYPES),
        *attributes,
    )
    return tuple(dict.fromkeys(names))


def _number(rng: random.Random, text: str, other: str) -> str:
    numbers = list(_NUMBER.finditer(text))
    sized = list(re.finditer(r"\d+", text))
    places = numbers if numbers and rng.random() < 0.5 else sized
    if not places:
        return text
    place = rng.choice(places)
    return text[: place.start()] + rng.choice(NUMBERS) + text[place.end() :]


def _replaced(text: str, old: str, new: str) -> str:
    """The text with a whole word replaced wherever it stands."""
    return re.sub(rf"(?<![A-Za-z0-9_%]){re.escape(old)}(?![A-Za-z0-9_])", lambda _: new, text)


def _size(rng: random.Random, text: str, other: str) -> str:
    """A size replaced wherever it stands, so that the types of one value stay equal."""
    sizes = re.findall(r"(?<=[=x, ])\d+(?=[x,>])", text)
    new = str(rng.choice(SIZES)) if rng.random() < 0.8 else rng.choice(("?", *NUMBERS))
    return _replaced(text, rng.choice(sizes), new) if sizes else text


def _type(rng: random.Random, text: str, other: str) -> str:
    """An element type replaced wherever it stands."""
    from pto_jax.ir import ALL_DTYPES, find_dtype

    there = [
        word
        for word in dict.fromkeys(re.findall(r"(?<![\w%.])(?:\d*x)?([a-z]\w*)", text))
        if find_dtype(word)
    ]
    if not there:
        return text
    old, new = rng.choice(there), rng.choice(ALL_DTYPES).name
    return re.sub(rf"(?<![A-Za-z%.])((?:\d+x)?){old}(?![A-Za-z0-9_])", rf"\g<1>{new}", text)


def _instruction(rng: random.Random, text: str, other: str) -> str:
    """An instruction replaced by one with as many operands, in one place."""
    from pto_jax.isa import instructions

    table = instructions()
    places = [m for m in re.finditer(r"(?<![\w%.])(?:pto\.)?(t[a-z.]+)", text) if m[1] in table]
    if not places:
        return text
    place = rng.choice(places)
    operands = len(table[place[1]].operands)
    alike = [name for name, i in table.items() if len(i.operands) == operands]
    return text[: place.start(1)] + rng.choice(alike) + text[place.end(1) :]


def _value(rng: random.Random, text: str, other: str) -> str:
    """One use of a value replaced by another value."""
    uses = list(re.finditer(r"%[\w#]+(?!\w*(?:, %\w+)* =)", text))
    if not uses:
        return text
    place = rng.choice(uses)
    return text[: place.start()] + rng.choice(uses)[0] + text[place.end() :]


# -- lines -----------------------------------------------------------------------------------------------


def _line(rng: random.Random, text: str, other: str) -> str:
    """A line deleted, repeated, moved or exchanged, or one of the other text."""
    lines = text.split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[a]
        case 1:
            lines.insert(b, lines[a])
        case 2:
            lines.insert(min(b, len(lines) - 1), lines.pop(a))
        case 3:
            lines[a], lines[b] = lines[b], lines[a]
        case _:
            lines.insert(a, rng.choice(other.split("\n")))
    return "\n".join(lines)


def _splice(rng: random.Random, text: str, other: str) -> str:
    """The head of a text and the tail of the other, cut between lines or anywhere."""
    if rng.random() < 0.5:
        return text[: rng.randint(0, len(text))] + other[rng.randint(0, len(other)) :]
    lines, others = text.split("\n"), other.split("\n")
    return "\n".join(lines[: rng.randint(0, len(lines))] + others[rng.randint(0, len(others)) :])


def _many_lines(rng: random.Random, text: str, other: str) -> str:
    """A line, or a few in a row, many times."""
    lines = text.split("\n")
    start, end = _span(rng, len(lines), 3)
    block = lines[start:end]
    times = min(rng.choice((10, 100, 1000)), 40_000 // max(1, sum(map(len, block))))
    if rng.random() < 0.5:
        block = [line.replace("%", f"%r{n}_") for n in range(times) for line in block]
    else:
        block = block * times
    return "\n".join(lines[:start] + block + lines[end:])


# -- structure -------------------------------------------------------------------------------------------


def _brackets(text: str) -> list[tuple[int, int]]:
    """Places of matching brackets, of whatever kind."""
    open_at: list[int] = []
    pairs: list[tuple[int, int]] = []
    for i, c in enumerate(text):
        if c in _OPEN:
            open_at.append(i)
        elif c in _CLOSE and not text.startswith("->", i - 1) and open_at:
            pairs.append((open_at.pop(), i + 1))
    return pairs


def _group(rng: random.Random, text: str, other: str) -> str:
    """What stands in brackets deleted, repeated, exchanged with other brackets, or wrapped in more."""
    pairs = _brackets(text)
    if not pairs:
        return text
    (a, b), (c, d) = rng.choice(pairs), rng.choice(pairs)
    match rng.randrange(5):
        case 0:
            return text[:a] + text[b:]
        case 1:
            return text[:b] + text[a:b] * rng.choice((1, 2, 50)) + text[b:]
        case 2:
            return text[:a] + text[c:d] + text[b:]
        case 3:
            return text[: a + 1] + text[b - 1 :]
        case _:
            return text[:a] + text[a] * 2 + text[a + 1 : b] + text[b - 1] + text[b:]


def _nested(rng: random.Random, text: str, other: str) -> str:
    """Deep nesting: of brackets, closed or not, and of regions around a line."""
    depth = rng.choice((3, 30, 63, 64, 65, 200, 2000))
    if rng.random() < 0.5:
        opening: str = rng.choice(_NESTING)
        closing = "".join(_CLOSE[_OPEN.index(c)] for c in reversed(opening) if c in _OPEN)
        at = rng.randint(0, len(text))
        return text[:at] + opening * depth + (closing * depth if rng.random() < 0.5 else "") + text[at:]
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    head, tail = rng.choice(
        (
            ("scf.if %q {", "}"),
            ("scf.for %i = %a to %a step %a {", "}"),
            ("scf.while : () -> () {", "}"),
            ("pto.section.vector {", "}"),
            ("func.func @f() {", "}"),
            ("module {", "}"),
        )
    )
    return "\n".join(lines[:at] + [head] * depth + [lines[at]] + [tail] * depth + lines[at + 1 :])


def _long(rng: random.Random, text: str, other: str) -> str:
    """A very long token, list or run of blanks."""
    size = rng.choice((300, 5000, 30_000))
    unit = rng.choice(
        (
            "a",
            "9",
            "_",
            ".",
            "%a, ",
            "1, ",
            "1x",
            "?x",
            " ",
            "\t",
            "\n",
            "\\",
            '\\"',
            "-",
            "#",
            "//\n",
            "# \n",
        )
    )
    lead = rng.choice(("", "", "%", "!pto.", "#", "@", '"', "[", "<", "{", "1", "0x"))
    tokens = _tokens(text)
    at = rng.randint(0, len(tokens))
    tokens[at : at + rng.randrange(2)] = [lead + unit * (size // len(unit))]
    return "".join(tokens)


GENTLE: tuple[Mutation, ...] = (_size, _size, _type, _type, _instruction, _instruction, _value, _value, _line)
MUTATIONS: tuple[Mutation, ...] = (
    *(_character, _bytes, _delete, _copy, _cut),
    *(_token, _token, _piece, _piece, _word, _word, _number, _number),
    *(_line, _splice, _many_lines, _group, _group, _nested, _long),
)
