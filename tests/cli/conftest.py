"""Commands in this process, with what they printed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pto_jax.cli.main import main

TILE = "!pto.tile_buf<vec, 4x16xf32>"
VIEW, WINDOW = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<4x16xf32>"

#: y = 2 x, four rows per trip, through a function; line 5 holds the product, line 18 the loop.
DOUBLED = f"""\
module attributes {{"pto.target_arch" = "a3"}} {{
  func.func @double(%t: {TILE}, %u: {TILE}) attributes {{private}} {{
    %two = arith.constant 2.0 : f32
    // the product
    pto.tmuls ins(%t, %two : {TILE}, f32) outs(%u : {TILE})
    return
  }}
  func.func @main(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) attributes {{pto.entry}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %xv = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    %yv = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    %t = pto.alloc_tile : {TILE}
    %u = pto.alloc_tile : {TILE}

    scf.for %i = %c0 to %n step %c1 {{
      %r = arith.muli %i, %c4 : index
      %xp = pto.partition_view %xv, offsets = [%r, %c0], sizes = [%c4, %c16] : {VIEW} -> {WINDOW}
      %yp = pto.partition_view %yv, offsets = [%r, %c0], sizes = [%c4, %c16] : {VIEW} -> {WINDOW}
      pto.tload ins(%xp : {WINDOW}) outs(%t : {TILE})
      func.call @double(%t, %u) : ({TILE}, {TILE}) -> ()
      pto.tstore ins(%u : {TILE}) outs(%yp : {WINDOW})
    }}
    return
  }}
}}
"""


@dataclass
class Commands:
    """Runs commands and keeps what they printed; files are in ``folder``, the current one."""

    capsys: pytest.CaptureFixture[str]
    folder: Path
    main: Callable[[Sequence[str]], int] = main
    out: str = ""
    err: str = ""

    def __call__(self, *args: object) -> int:
        status = self.main([str(a) for a in args])
        self.out, self.err = self.capsys.readouterr()
        return status

    def file(self, name: str, content: str) -> Path:
        (self.folder / name).write_text(content)
        return Path(name)


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(capsys, tmp_path)


@pytest.fixture
def doubled() -> str:
    return DOUBLED
