"""Enumerations and attribute dictionaries: reading and printing from one table."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from .. import ir
from .lexer import Cursor, Kind
from .names import suggestion

E = TypeVar("E", bound=IntEnum)


@dataclass(frozen=True)
class EnumText:
    """How an enumeration is written: ``#pto.layout<nd>`` (dotted) or ``#pto<cmp eq>``.

    ``prefix`` stands before every member's name, ``aliases`` are further names of members (or of the
    enumeration itself, under the key "").
    """

    cls: type[IntEnum]
    mnemonic: str
    dotted: bool = False
    upper: bool = False
    prefix: str = ""
    also: tuple[str, ...] = ()

    def word(self, value: IntEnum) -> str:
        """A member's name as programs write it."""
        name = value.name if self.upper else value.name.lower()
        return self.prefix + name

    def text(self, value: IntEnum) -> str:
        """A member as an attribute of a program."""
        if self.dotted:
            return f"#pto.{self.mnemonic}<{self.word(value)}>"
        return f"#pto<{self.mnemonic} {self.word(value)}>"


ENUMERATIONS = (
    EnumText(ir.RoundMode, "round_mode", upper=True),
    EnumText(ir.SaturationMode, "saturation_mode", upper=True),
    EnumText(ir.CmpMode, "cmp"),
    EnumText(ir.ReluPreMode, "relu_pre_mode"),
    EnumText(ir.AtomicType, "atomic_type"),
    EnumText(ir.StPhase, "st_phase"),
    EnumText(ir.AccPhase, "acc_phase"),
    EnumText(
        ir.Precision,
        "precision",
        also=tuple(f"{f}_precision" for f in "div exp fmod log pow recip rem rsqrt sqrt".split()),
    ),
    EnumText(ir.QuantType, "quant_type", upper=True),
    EnumText(ir.MxQuantAlg, "mx_alg", upper=True),
    EnumText(ir.QuantScaleAlg, "quant_scale_alg"),
    EnumText(ir.MxGroupAxis, "mx_group_axis"),
    EnumText(ir.VecStoreMode, "vec_store_mode"),
    EnumText(ir.GatherAxis, "gather_axis", upper=True),
    EnumText(ir.ScatterAxis, "scatter_axis", upper=True),
    EnumText(ir.HistByte, "hist_byte", upper=True),
    EnumText(ir.Coalesce, "coalesce"),
    EnumText(ir.GatherOob, "gather_oob"),
    EnumText(ir.ScatterOob, "scatter_oob"),
    EnumText(ir.ScatterAtomicOp, "scatter_atomic_op"),
    EnumText(ir.ScatterConflict, "scatter_conflict"),
    EnumText(ir.PrintFormat, "print_format"),
    EnumText(ir.AccToVecMode, "acc_to_vec_mode", dotted=True),
    EnumText(ir.MaskPattern, "mask_pattern", dotted=True, upper=True),
    EnumText(ir.GlobalLayout, "layout", dotted=True),
    EnumText(ir.AddressSpace, "address_space", dotted=True),
    EnumText(ir.KernelKind, "kernel_kind", dotted=True),
    EnumText(ir.Pipe, "pipe", dotted=True, upper=True, prefix="PIPE_"),
    EnumText(ir.PipeEventType, "pipe_event_type", dotted=True, upper=True, also=("sync_op_type",)),
    EnumText(ir.BLayout, "blayout", dotted=True),
    EnumText(ir.SLayout, "slayout", dotted=True),
    EnumText(ir.Pad, "pad_value", dotted=True, also=("pad",)),
    EnumText(ir.Compact, "compact_mode", dotted=True, also=("compact",)),
    EnumText(ir.Loc, "loc", dotted=True),
    EnumText(ir.NotifyOp, "notify_op"),
    EnumText(ir.ReduceOp, "reduce_op"),
    EnumText(ir.WaitCmp, "wait_cmp"),
    EnumText(ir.PushLayout, "fixpipe_layout"),
    EnumText(ir.PushQuant, "fixpipe_quant"),
    EnumText(ir.PushRelu, "fixpipe_relu"),
    EnumText(ir.FenceScope, "fence_scope", dotted=True),
    EnumText(ir.SyncMode, "sync_all_mode", dotted=True),
    EnumText(ir.CoreType, "sync_core_type", dotted=True),
)
BY_MNEMONIC = {name: e for e in ENUMERATIONS for name in (e.mnemonic, *e.also)}
BY_CLASS = {e.cls: e for e in ENUMERATIONS}
#: Names of members that differ from the member's own by more than case and underscores.
_OTHER_NAMES: dict[tuple[type[IntEnum], str], str] = {
    (ir.RoundMode, "castrint"): "RINT",
    (ir.RoundMode, "castnone"): "NONE",
    **{(ir.RoundMode, f"cast{m.name.lower()}"): m.name for m in ir.RoundMode},
    (ir.AddressSpace, "ub"): "VEC",
    (ir.AddressSpace, "l1"): "MAT",
    (ir.AddressSpace, "l0a"): "LEFT",
    (ir.AddressSpace, "l0b"): "RIGHT",
    (ir.AddressSpace, "l0c"): "ACC",
    (ir.AddressSpace, "bt"): "BIAS",
    (ir.AddressSpace, "fb"): "SCALING",
}
#: Enumerations of at most so many members are listed where one is expected.
_FEW = 12
EVENT_PREFIX = "EVENT_ID"
MAX_EVENT = 63


def member(cls: type[E], text: str) -> E | None:
    """The member called ``text`` in any case, with or without underscores and prefix.

    >>> member(ir.SLayout, "NoneBox"), member(ir.Pipe, "PIPE_MTE2")
    (<SLayout.NONE_BOX: 0>, <Pipe.MTE2: 4>)
    """
    name = text.replace("_", "").lower()
    name = _OTHER_NAMES.get((cls, name), name).lower()
    prefix = BY_CLASS[cls].prefix.replace("_", "").lower() if cls in BY_CLASS else ""
    if prefix:
        name = name.removeprefix(prefix)
    return next((m for m in cls if m.name.replace("_", "").lower() == name.replace("_", "")), None)


def words(cls: type[IntEnum]) -> str:
    """The members of an enumeration as messages list them."""
    style = BY_CLASS.get(cls)
    return ", ".join(style.word(m) if style else m.name for m in cls)


def named_member(cursor: Cursor, cls: type[E], role: str, *, text: str, start: int) -> E:
    """The member called ``text``, or an error at ``start`` that lists the members."""
    result = member(cls, text)
    if result is None:
        style = BY_CLASS.get(cls)
        spellings = [style.word(m) if style else m.name for m in cls]
        upper = style is None or style.upper
        close = suggestion(text.upper() if upper else text.lower(), spellings)
        cursor.fail(
            f"got the unknown {role} '{text}'{close}; allowed: {words(cls)}",
            start=start,
            end=start + len(text),
            fix="" if close else spellings[spellings[0].upper() == "NONE"],
        )
    return result


def enumeration(cursor: Cursor, cls: type[E], role: str) -> E:
    """A member at the cursor: a word, a number, ``<word>``, ``#pto.x<word>`` or ``#pto<x word>``."""
    c = cursor
    if c.kind in (Kind.INTEGER_LIT, Kind.MINUS):
        start = c.start
        number = c.integer(f"a {role}")
        if number not in [int(m) for m in cls]:
            numbers = ", ".join(str(int(m)) for m in cls)
            c.fail_since(start, f"got the unknown {role} {number}; allowed: {numbers}")
        return cls(number)
    if c.kind in (Kind.BARE_IDENT, Kind.STRING_LIT):
        start = c.start
        text = c.take() if c.kind is Kind.BARE_IDENT else c.string(f"a {role}")
        return named_member(c, cls, role, text=text, start=start)
    text, start = _bracketed(c, role, cls)
    return named_member(c, cls, role, text=text, start=start)


def _bracketed(c: Cursor, role: str, cls: type[IntEnum] | None) -> tuple[str, int]:
    """The word inside ``<word>``, ``#pto.x<word>`` or ``#pto<x word>``, and its place."""
    expected = f"a {role}" + (f" ({words(cls)})" if cls is not None and len(cls) <= _FEW else "")
    if c.kind is Kind.HASH_IDENT:
        enumeration = BY_MNEMONIC.get(c.text.removeprefix("#pto."))
        if c.text != "#pto" and (cls is None or enumeration is not BY_CLASS[cls]):
            c.unexpected(expected)
        two_words = c.take() == "#pto"
    else:
        two_words = False
    opened = c.start
    if not c.accept(Kind.LESS):
        c.unexpected(expected)
    if two_words:
        if cls is None or BY_MNEMONIC.get(c.text) is not BY_CLASS[cls]:
            c.unexpected(expected)
        c.advance()
    start = c.start
    text = c.expect(Kind.BARE_IDENT, expected)
    c.close(Kind.GREATER, opened)
    return text, start


def event(cursor: Cursor) -> int:
    """``<EVENT_ID3>``, ``#pto.event<EVENT_ID3>``, ``EVENT_ID3`` or ``3``."""
    c = cursor
    start = c.start
    if c.kind is Kind.INTEGER_LIT:
        number = c.integer("an event number")
        text = ""
    else:
        if c.kind is Kind.HASH_IDENT and c.text in ("#pto.event", "#pto"):
            two_words = c.take() == "#pto"
            opened = c.open(Kind.LESS)
            if two_words:
                c.expect_word("event")
            text = c.expect(Kind.BARE_IDENT, "an event, as in EVENT_ID0")
            c.close(Kind.GREATER, opened)
        elif c.kind is Kind.BARE_IDENT:
            text = c.take()
        elif c.kind is Kind.STRING_LIT:
            text = c.string("an event")
        else:
            text, start = _bracketed(c, "event, as in <EVENT_ID0>", None)
        digits = text.removeprefix(EVENT_PREFIX)
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 4 else -1
        if not text.startswith(EVENT_PREFIX):
            number = -1
    if not 0 <= number <= MAX_EVENT:
        label = text or str(number)
        c.fail_since(
            start, f"got the unknown event '{label}'; allowed: {EVENT_PREFIX}0 to {EVENT_PREFIX}{MAX_EVENT}"
        )
    return number


#: The attribute that says what a pipe does to accumulators, and the enumerations of its keys.
EPILOGUE = "acc_push_epilogue"
_EPILOGUE: dict[str, type[IntEnum]] = {
    "layout": ir.PushLayout,
    "quant": ir.PushQuant,
    "relu": ir.PushRelu,
}


def epilogue(cursor: Cursor) -> ir.AccPushEpilogue:
    """``<layout = nz2nd, quant = no_convert, relu = no_relu>``, each key once."""
    c = cursor
    table: dict[str, IntEnum] = {}
    opened = c.open(Kind.LESS, f"after #pto.{EPILOGUE}")
    while True:
        start, key = c.start, c.expect(Kind.BARE_IDENT, "layout, quant or relu")
        if key not in _EPILOGUE or key in table:
            left = ", ".join(k for k in _EPILOGUE if k not in table)
            c.fail_since(start, f"got the key '{key}'; allowed: {left}")
        c.expect(Kind.EQUAL)
        start = c.start
        table[key] = named_member(c, _EPILOGUE[key], key, text=c.expect(Kind.BARE_IDENT, key), start=start)
        if not c.accept(Kind.COMMA):
            break
    if len(table) < len(_EPILOGUE):
        c.unexpected(f"',' and {', '.join(k for k in _EPILOGUE if k not in table)}")
    c.close(Kind.GREATER, opened)
    return ir.AccPushEpilogue(
        ir.PushLayout(table["layout"]), ir.PushQuant(table["quant"]), ir.PushRelu(table["relu"])
    )


def print_epilogue(value: ir.AccPushEpilogue) -> str:
    """The attribute as it is read."""
    said = ", ".join(f"{key} = {BY_CLASS[type(v)].word(v)}" for key, v in value._asdict().items())
    return f"#pto.{EPILOGUE}<{said}>"


_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")


def print_key(key: str) -> str:
    """An attribute key, quoted where it is not an identifier."""
    return key if _PLAIN_KEY.fullmatch(key) else quoted(key)


def quoted(text: str) -> str:
    """A string literal."""
    out = []
    for character in text:
        if character in '"\\':
            out.append("\\" + character)
        elif character == "\n":
            out.append("\\n")
        elif character == "\t":
            out.append("\\t")
        elif ord(character) < 0x20 or ord(character) == 0x7F:
            out.append(f"\\{ord(character):02X}")
        else:
            out.append(character)
    return '"' + "".join(out) + '"'
