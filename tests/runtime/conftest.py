"""A writer of program text, so that tests show only what matters in their programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

Size = int | str


class Source:
    """Builds the text of one entry function; integers become constants of the type they are used as."""

    def __init__(self, args: str, *, before: str = "", arch: str = "a3") -> None:
        self.args, self.before, self.arch = args, before, arch
        self.lines: list[str] = []
        self.types: dict[str, str] = {}
        self._elements: dict[str, str] = {}
        self._pointers = dict(re.findall(r"(%\w+): !pto\.ptr<(\w+)>", args))

    def _name(self, value: Size, kind: str) -> str:
        if isinstance(value, str):
            return value
        name = f"%{kind}_{value}".replace("-", "m")
        line = f"{name} = arith.constant {value} : {kind}"
        if line not in self.lines:
            self.lines.append(line)
        return name

    def _list(self, values: tuple[Size, ...]) -> str:
        return "[" + ", ".join(self._name(v, "index") for v in values) + "]"

    def do(self, line: str) -> Source:
        """A line as it is."""
        self.lines.append(line)
        return self

    def tile(
        self,
        name: str,
        d: str,
        rows: int,
        cols: int,
        *,
        at: Size | None = None,
        valid: tuple[Size, Size] | None = None,
        layout: str = "row_major",
        pad: int = 0,
    ) -> Source:
        """``alloc_tile``; valid sizes given as names are run-time values."""
        v_row, v_col = valid or (rows, cols)
        shown = ["?" if isinstance(v, str) else str(v) for v in (v_row, v_col)]
        t = (
            f"!pto.tile_buf<loc=vec, dtype={d}, rows={rows}, cols={cols}, v_row={shown[0]}, "
            f"v_col={shown[1]}, blayout={layout}, slayout=none_box, fractal=512, pad={pad}>"
        )
        given = "" if at is None else f" addr = {self._name(at, 'i64')}"
        given += f" valid_row = {v_row}" if isinstance(v_row, str) else ""
        given += f" valid_col = {v_col}" if isinstance(v_col, str) else ""
        self.types[name] = t
        return self.do(f"{name} = pto.alloc_tile{given} : {t}")

    def view(
        self,
        name: str,
        pointer: str,
        shape: tuple[Size, ...],
        strides: tuple[Size, ...],
        layout: str = "nd",
    ) -> Source:
        """``make_tensor_view``, and the window that covers all of it as ``name``."""
        d = self._pointers[pointer]
        t = f"!pto.tensor_view<{'?x' * len(shape)}{d}>"
        shapes, steps = self._list(shape), self._list(strides)
        self.types[f"{name}v"] = t
        self._elements[f"{name}v"] = d
        self.do(
            f"{name}v = pto.make_tensor_view {pointer}, shape = {shapes}, strides = {steps} "
            f"{{layout = #pto.layout<{layout}>}} : {t}"
        )
        return self.window(name, f"{name}v", (0,) * len(shape), shape)

    def window(self, name: str, view: str, offsets: tuple[Size, ...], sizes: tuple[Size, ...]) -> Source:
        """``partition_view``."""
        source, d = self.types[view], self._elements[view]
        dims = "x".join("?" if isinstance(n, str) else str(n) for n in sizes)
        t = f"!pto.partition_tensor_view<{dims}x{d}>"
        starts, counts = self._list(offsets), self._list(sizes)
        self.types[name] = t
        self._elements[name] = d
        return self.do(
            f"{name} = pto.partition_view {view}, offsets = {starts}, sizes = {counts} : {source} -> {t}"
        )

    def load(self, window: str, tile: str) -> Source:
        return self.do(f"pto.tload ins({window} : {self.types[window]}) outs({tile} : {self.types[tile]})")

    def store(self, tile: str, window: str) -> Source:
        return self.do(f"pto.tstore ins({tile} : {self.types[tile]}) outs({window} : {self.types[window]})")

    def op(self, name: str, *operands: str, out: str) -> Source:
        """``pto.name``; scalar operands are written with their type, as ``%s: f32``."""
        split = [o.split(": ") if ": " in o else [o, self.types[o]] for o in operands]
        names, types = (", ".join(part[i] for part in split) for i in (0, 1))
        return self.do(f"pto.{name} ins({names} : {types}) outs({out} : {self.types[out]})")

    @property
    def text(self) -> str:
        body = "\n    ".join(self.lines)
        return (
            f'module attributes {{pto.target_arch = "{self.arch}"}} {{\n{self.before}\n'
            f"  func.func @main({self.args}) attributes {{pto.entry}} {{\n    {body}\n    return\n  }}\n}}\n"
        )

    @property
    def program(self) -> pto.Program:
        return pto.parse(self.text)


def _raw(x: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(x)
    return array.view(f"u{array.dtype.itemsize}")


def _assert_same(got: Mapping[str, Any], expected: Mapping[str, Any], what: str) -> None:
    assert set(got) == set(expected), what
    for name, value in expected.items():
        assert np.asarray(got[name]).dtype == value.dtype and np.asarray(got[name]).shape == value.shape
        np.testing.assert_array_equal(_raw(got[name]), _raw(value), err_msg=f"{what}: {name}")


def _agree(program: pto.Program, *args: Any, eager: bool = True, **options: Any) -> dict[str, Any]:
    """The outputs, after checking that jit, eager execution and the interpreter give the same bits."""
    expected: dict[str, Any] = oracle.run(program, args, **options)
    kernel = pto.compile(program, **options)
    _assert_same(kernel(*args), expected, "jit")
    if eager:
        _assert_same(kernel.eager(*args), expected, "eager")
    return expected


@pytest.fixture(name="source")
def _source() -> Callable[..., Any]:
    return Source


@pytest.fixture(name="agree")
def _agree_fixture() -> Callable[..., dict[str, Any]]:
    return _agree
