"""Constants of LLVM's newer text form, spelled as every version reads them: as bits."""

import re

import numpy as np


def respelled(text: str) -> str:
    """The module with every float constant as bits."""
    text = re.sub(r"\bf0x([0-9A-F]{16})\b", r"0x\1", text)
    text = re.sub(r"\bhalf f0x([0-9A-F]{4})\b", r"half 0xH\1", text)
    text = re.sub(r"\bbfloat f0x([0-9A-F]{4})\b", r"bfloat 0xR\1", text)
    text = re.sub(r"\bf0x([0-9A-F]{8})\b", lambda m: _as_double(m.group(1)), text)
    return "\n".join(_spelled(line) for line in text.split("\n"))


def _as_double(word: str) -> str:
    """A float constant as the bits of the double of its value."""
    value = np.frombuffer(bytes.fromhex(word), ">f4")[0]
    return f"0x{int(np.float64(value).view(np.uint64)):016X}"


_NUMBER = re.compile(
    r"\b(?P<kind>double|float|half|bfloat|i\d+|ptr)\b"
    r"|(?<![\w%@.])(?P<sign>[+-]?)(?:(?P<nan>q?nan)(?:\(0x(?P<payload>[0-9A-Fa-f]+)\))?"
    r"|(?P<value>inf|\d+\.\d+(?:e[+-]?\d+)?))(?![\w.])"
)
#: Fraction bits of a type, and how far they are shifted in a double.
_FRACTION = {"double": (52, 0), "float": (23, 29)}
#: How bits of a narrow type begin, its fraction bits, and its infinity.
_NARROW = {"half": ("0xH", 10, 0x7C00), "bfloat": ("0xR", 7, 0x7F80)}


def _spelled(line: str) -> str:
    """Decimal constants, infinities and NaNs of a line as bits, rounded to the type named before them."""
    if "=" not in line and "store" not in line and "ret" not in line:
        return line
    kind = "double"

    def one(match: re.Match[str]) -> str:
        nonlocal kind
        if match["kind"]:
            kind = match["kind"]
        if match["kind"]:
            return match[0]
        if kind in _NARROW and (match["nan"] or match["value"] == "inf"):
            start, fraction, infinity = _NARROW[kind]
            quiet = int(match["payload"] or "0", 16) | 1 << (fraction - 1) if match["nan"] else 0
            return f"{start}{(match['sign'] == '-') << 15 | infinity | quiet:04X}"
        if kind not in _FRACTION:
            return match[0]
        fraction, shift = _FRACTION[kind]
        sign = (match["sign"] == "-") << 63
        if match["nan"]:
            payload = int(match["payload"] or "0", 16) | 1 << (fraction - 1)
            return f"0x{sign | 0x7FF << 52 | payload << shift:016X}"
        value = np.float64(match["value"]) if kind == "double" else np.float64(np.float32(match["value"]))
        return f"0x{sign | int(value.view(np.uint64)):016X}"

    return _NUMBER.sub(one, line)
