"""Formatting, references, new names, outline, hints of types, and fixes as edits."""

import pytest

import pto_jax as pto
from pto_jax.editors import edits
from pto_jax.editors.documents import Document, Settings
from pto_jax.examples import EXAMPLES

SETTINGS = Settings(profile="a2a3")
TEXT = """func.func @inner(%a: index) {
  return
}
func.func @k(%n: index) attributes {pto.entry} {
  %c = arith.constant 1 : index // one
  scf.for %i = %c to %n step %c {
    %d = arith.addi %i, %c : index
  }
  func.call @inner(%c) : (index) -> ()
  return
}
"""


@pytest.fixture
def document() -> Document:
    return Document("k.pto", TEXT)


def test_formatting_indents_by_brackets_and_keeps_comments() -> None:
    ragged = TEXT.replace("  ", "").replace(" = ", "  =   ").replace("}\nfunc.func", "}\n\n\n\nfunc.func")
    assert edits.formatted(ragged) == TEXT.replace("}\nfunc.func", "}\n\nfunc.func")


@pytest.mark.parametrize("name", EXAMPLES)
def test_formatting_changes_no_program_and_is_stable(name: str) -> None:
    source = EXAMPLES[name].path.read_text(encoding="utf-8")
    once = edits.formatted(source)
    assert pto.parse(once) == pto.parse(source) and edits.formatted(once) == once
    assert once.count("//") == source.count("//")


def test_a_text_with_errors_is_not_formatted() -> None:
    assert edits.formatted("%a =   tabs %x {") == "%a =   tabs %x {"


def test_references_are_the_mentions_of_one_definition(document: Document) -> None:
    at = TEXT.index("%c = ")
    found = edits.references(document, at)
    assert len(found) == TEXT.count("%c") == 5 and found[0].start == at
    assert len(edits.references(document, TEXT.index("@inner"))) == 2


def test_a_new_name_stands_everywhere(document: Document) -> None:
    made = edits.renamed(document, TEXT.index("%c = "), "one")
    assert edits.applied(TEXT, made) == TEXT.replace("%c", "%one")
    made = edits.renamed(document, TEXT.index("@inner"), "@helper")
    assert edits.applied(TEXT, made) == TEXT.replace("@inner", "@helper")


@pytest.mark.parametrize(
    ("at", "name", "message"),
    [
        ("%c = ", "n", "%n is taken"),
        ("%c = ", "a b", "allowed: letters"),
        ("arith", "x", "a place without a"),
    ],
)
def test_a_name_that_cannot_be_is_refused(at: str, name: str, message: str, document: Document) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        edits.renamed(document, TEXT.index(at), name)


def test_the_outline_has_functions_with_their_values(document: Document) -> None:
    inner, k = edits.symbols(document)
    assert (inner.name.text, [c.name.text for c in inner.children]) == ("@inner", ["%a"])
    assert (k.name.text, [c.name.text for c in k.children]) == ("@k", ["%n", "%c", "%i", "%d"])
    assert TEXT[: k.end].endswith("return\n}") and k.children[1].detail == "index"


def test_types_stand_beside_values_that_have_none_there(document: Document) -> None:
    found = list(edits.hints(document, 0, len(TEXT)))
    assert [(TEXT[at - 2 : at], hint) for at, hint in found] == [
        ("%c", ": index"),
        ("%i", ": index"),
        ("%d", ": index"),
    ]


@pytest.mark.parametrize(
    ("source", "fixed"),
    [
        ("%d = tadx %a, %b : !pto.tile<16x16xf32>", "%d = tadd %a, %b : !pto.tile<16x16xf32>"),
        (
            "%t = pto.alloc_tile : !pto.tile<16x1xf32>",
            "%t = pto.alloc_tile : !pto.tile<16x1xf32, blayout=col_major>",
        ),
    ],
)
def test_a_fix_is_an_edit_that_removes_the_error(source: str, fixed: str) -> None:
    document = Document("k.pto", source)
    (diagnostic, *_) = document.diagnostics(SETTINGS)
    results = [edits.applied(source, a.edits) for a in edits.actions(document, diagnostic, SETTINGS)]
    assert fixed in results
    assert Document("k.pto", fixed).diagnostics(SETTINGS) == []
