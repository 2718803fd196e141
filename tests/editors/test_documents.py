"""What a language server answers about a text."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import pto_jax as pto
from pto_jax.editors.documents import Document, Names, Settings
from pto_jax.examples import EXAMPLES
from pto_jax.ir import Op, Value
from tests.text.emitted import file, tile

PROGRAMS = sorted(
    [
        *(Path(str(e.path)) for e in EXAMPLES.values()),
        *(p for p in (Path(__file__).parents[1] / "programs").glob("*.pto") if p.name != "rejected.pto"),
    ]
)
KERNEL = """\
func.func @double(%x: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
  scf.for %i = %c0 to %n step %c1 {
    pto.tadd ins(%t, %t : TILE, TILE) outs(%t : TILE)
    func.call @other(%t) : (!pto.tile_buf<vec, 16x64xf32>) -> ()
  }
  return
}
func.func private @other(%t: !pto.tile_buf<vec, 16x64xf32>) {
  // a comment
  return
}
""".replace("TILE", "!pto.tile_buf<vec, 16x64xf32>")


def at(text: str, nth: int = 0, source: str = KERNEL) -> int:
    """The character in the middle of the nth occurrence of a text."""
    position = -1
    for _ in range(nth + 1):
        position = source.index(text, position + 1)
    return position + len(text) // 2


# -- definitions ---------------------------------------------------------------------------------------


def _uses(source: str) -> Iterable[tuple[int, str, int]]:
    """The place of every use of a value, its name, and the place where the reader has it defined."""
    starts = [0, *(i + 1 for i, c in enumerate(source) if c == "\n")]

    def place(value: Value) -> int | None:
        return None if value.span is None else starts[value.span.line - 1] + value.span.col - 1

    def walk(ops: Iterable[Op], known: dict[str, int | None]) -> Iterable[tuple[int, str, int]]:
        for op in ops:
            for value in (*op.ins, *op.outs):
                use, defined = place(value), known.get(value.name)
                if use is not None and defined is not None:
                    yield use, value.name, defined
            for region in op.regions:
                yield from walk(region.ops, {**known, **{a.name: place(a) for a in region.args}})
            known.update((v.name, place(v)) for v in op.results)

    for function in pto.parse(source).functions:
        yield from walk(function.body.ops, {a.name: place(a) for a in function.args})


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: str(p.stem))
def test_definitions_are_those_of_the_reader(path: Path) -> None:
    source = path.read_text()
    names, uses = Names.of(source), list(_uses(source))
    assert uses or path.stem == "custom"
    for use, text, expected in uses:
        name = names.at(use + 1)
        assert name is not None
        found = names.definition(name)
        assert found is not None and found.start == expected, (path.name, text, use)


def test_functions_and_fragments_have_definitions_too() -> None:
    found = Document("k", KERNEL).definition(at("@other"))
    assert found is not None and found.start == KERNEL.index("@other", KERNEL.index("private"))
    fragment = Document("k", "%a = tabs %x\n%b = tadd %a, %x")
    found = fragment.definition(at("%x", 1, fragment.source))
    assert found is not None and found.start == fragment.source.index("%x")
    assert fragment.definition(at("tadd", 0, fragment.source)) is None


def test_definitions_are_found_in_texts_that_cannot_be_read() -> None:
    broken = Document("k", KERNEL.replace("return\n}\nfunc", "%z = pto.nonsense(((\n}\nfunc"))
    assert broken.diagnostics(Settings())[0].severity == "error"
    found = broken.definition(at("%c1", 1))
    assert found is not None and found.start == KERNEL.index("%c1")
    assert Document("k", "%a = tabs %b }}} ; % func.func @").names.mentions


# -- diagnostics and settings --------------------------------------------------------------------------


def test_diagnostics_are_those_of_the_verifier_under_the_settings() -> None:
    text = "%d = tadd %a, %b : !pto.tile<16x16xu64>"
    for profile in pto.PROFILES:
        found = Document("k", text).diagnostics(Settings(profile=profile))  # type: ignore[arg-type]
        assert found == pto.verify(pto.parse(text, "k"), profile)  # type: ignore[arg-type]
    assert [d.rule for d in Document("k", KERNEL).diagnostics(Settings())] == ["stores-nothing"]
    unplaced = Document("k", KERNEL).diagnostics(Settings(level=3))
    assert unplaced and unplaced == pto.verify(pto.parse(KERNEL, "k"), level=3)


def test_unknown_settings_are_named() -> None:
    assert Settings().changed({"portable": True, "profile": None}) == Settings(portable=True)
    with pytest.raises(pto.ArgumentError, match=r"setting profile: got .a9.; allowed: null, cpu_sim, a2a3"):
        Settings().changed({"profile": "a9"})
    with pytest.raises(pto.ArgumentError, match="unknown setting 'profil'; allowed: profile, level"):
        Settings().changed({"profil": "a5"})
    with pytest.raises(pto.ArgumentError, match="setting level: got True; allowed: null, 1, 2, 3"):
        Settings().changed({"level": True})


# -- hover and completion ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nth", "begins"),
    [
        ("pto.tadd", 0, "# tadd: "),
        ("!pto.tile_buf", 0, "# tile: "),
        ("%t", 1, "`%t: !pto.tile_buf<vec, 16x64xf32>`\n\n```pto\n%t = pto.alloc_tile"),
        ("%n", 1, "`%n: index`\n\n```pto\nfunc.func @double("),
        ("@other", 0, "```pto\nfunc.func private @other("),
        ("vec", 0, "`address_space`: "),
    ],
)
def test_hover(text: str, nth: int, begins: str) -> None:
    shown = Document("k", KERNEL).hover(at(text, nth))
    assert shown is not None and shown.startswith(begins)


def test_nothing_is_said_of_what_has_no_page() -> None:
    document = Document("k", KERNEL)
    assert document.hover(at("a comment")) is None and document.hover(len(KERNEL) + 5) is None
    assert document.hover(at("return")) is None and document.hover(at("%undefined", 0, "%undefined")) is None


def test_completions_suit_the_place() -> None:
    def offered(line: str) -> dict[str, str]:
        source = KERNEL.replace("  // a comment", line)
        position = source.index(line) + len(line)
        return {c.text: c.kind for c in Document("k", source).completions(position)}

    assert offered("  pto.ta")["pto.tadd"] == "instruction" and "arith.addi" not in offered("  pto.ta")
    assert {"tadd": "instruction", "arith.addi": "operation"}.items() <= offered("  %d = ").items()
    assert list(offered("  pto.tabs ins(%")) == ["%t"]
    assert offered("  pto.tcvt ins(%t {rm")["rmode"] == "attribute"
    assert offered("  pto.tcvt ins(%t {rmode = #pto<round_mode F")["FLOOR"] == "constant"
    assert offered("  // pto.ta") == {} and offered('  pto.x "pto.ta') != {}
    assert {"%x", "%n", "%c0", "%c1", "%t", "%i"} == {
        c.text for c in Document("k", KERNEL).completions(at("ins(%t", 0) + 2)
    }


# -- long texts, and the first one ---------------------------------------------------------------------


@pytest.mark.variants(2)
@pytest.mark.parametrize("asked", ["diagnostics", "hover", "definition", "completions"])
def test_a_thousand_lines_are_answered(asked: str) -> None:
    """All examples as one file; a benchmark has the time."""
    source = "module {\n" + "\n".join(e.path.read_text() for e in EXAMPLES.values()) + "}\n"
    position = source.rindex("%out_window") + 2
    assert source.count("\n") > 1000
    assert getattr(Document("k", source), asked)(Settings() if asked == "diagnostics" else position)


_READY = """
from lsprotocol import types as lsp
from pto_jax.editors.documents import Document, Settings
from pto_jax.editors.language_server import make_server

server = make_server(Settings(), "1")
server.protocol.fm.features[lsp.INITIALIZED](lsp.InitializedParams())
document = Document("k", "%d = tmul %a, %b : !pto.tile<16x16xf16>")
print(document.diagnostics(Settings()), document.hover(7) is None)
"""


@pytest.mark.slow
def test_the_first_text_of_a_server_is_answered() -> None:
    done = subprocess.run([sys.executable, "-c", _READY], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]


def test_hover_in_emitted_cpp_shows_instructions_and_values() -> None:
    text = file(tile("v10") + "TMULS(v10, v10, v94);")
    document = Document("file:///kernels/k.cpp", text)
    assert {d.severity for d in document.diagnostics(Settings())} == {"warning"}
    call = text.index("TMULS(")
    assert (document.hover(call + 2) or "").startswith("# tmuls")
    assert (document.hover(text.index("v94)", call)) or "").startswith("`%v94: f32`")
    assert document.hover(text.index("using T")) is None
    assert document.completions(call + 3) == []
    assert document.definition(call) is None
    broken = Document("k.cpp", text.replace("TMULS", "TWHAT"))
    (finding,) = broken.diagnostics(Settings())
    assert finding.message.startswith("got the unknown intrinsic 'TWHAT'")
