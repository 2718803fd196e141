"""What the reader and the verifier say of micro-operations."""

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import NotExecutableError, ParseError, isa, oracle
from pto_jax.manual.topics import program
from tests.micro.programs import executed, kernel

LOAD = "%v = pto.vlds %x_ub[%c0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>"
MASK = '%m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>'


def findings(body: str, lines: str = "") -> list[str]:
    """The errors of a kernel around some lines."""
    found = pto.verify(pto.parse(kernel(body, {"x": "f32"}, lines)), profile="a5")
    return [f"{d.rule}: {d.message}" for d in found if d.severity == "error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            f'{LOAD}\n%m = pto.pset_b16 "PAT_ALL" : !pto.mask<b16>\n'
            "%w = pto.vabs %v, %m : !pto.vreg<64xf32>, !pto.mask<b16> -> !pto.vreg<64xf32>",
            "types: mask is mask<b16>; allowed: !pto.mask<b32>, for elements of f32",
        ),
        (
            '%m = pto.pset_b32 "PAT_VL5" : !pto.mask<b32>',
            'choices: got pattern = "PAT_VL5"; allowed: PAT_ALL',
        ),
        (
            "%v = pto.vlds %x[%c0] : !pto.ptr<f32, gm> -> !pto.vreg<64xf32>",
            "types: base is ptr<f32, gm>; allowed: a pointer into ub",
        ),
        (
            "pto.vecscope {\n}",
            "scope: a vector scope in another one; allowed: scopes one after the other",
        ),
        (
            "%a = pto.vldas %x_ub : !pto.ptr<f32, ub> -> !pto.align\n"
            "%v, %b = pto.vldus %x_ub, %a : !pto.ptr<f32, ub>, !pto.align -> !pto.vreg<64xf32>, !pto.align\n"
            "%w, %c = pto.vldus %x_ub, %a : !pto.ptr<f32, ub>, !pto.align -> !pto.vreg<64xf32>, !pto.align",
            "align: %a is used a second time",
        ),
        (
            '%w = pto.vlds %x_ub[%c0] {dits = "BRC_B32"} : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>',
            "choices: got the attribute dits; allowed: dist; did you mean dist?",
        ),
        (
            "%n = arith.constant 5 : i32\n%m = pto.plt_b32 %n : i32 -> !pto.mask<b32>",
            "results: has 1 result(s); allowed: 2 (mask, rest)",
        ),
        (
            f"{LOAD}\n{MASK}\n%w = pto.vmi.vadd %v, %v, %m : !pto.vreg<64xf32>, !pto.vreg<64xf32>,"
            " !pto.mask<b32> -> !pto.vreg<64xf32>",
            "types: lhs is vreg<64xf32>; allowed: a register, as in !pto.vmi.vreg<64xf32>",
        ),
    ],
)
def test_errors(body: str, message: str) -> None:
    assert any(found.startswith(message) for found in findings(body)), findings(body)


def test_registers_belong_into_a_scope() -> None:
    ends = "pto.barrier #pto.pipe<PIPE_ALL>"
    uses = "pto.vsts %v, %x_ub[%c0], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>"
    assert any("outside a vector scope" in m for m in findings("", f"{LOAD}\n{ends}\n{MASK}\n{uses}"))
    assert not findings(f"{LOAD}\n{MASK}")


def test_a_strict_scope_sees_what_it_captures_only() -> None:
    body = (
        "pto.strict_vecscope(%x_ub{more}) {{\n^bb0(%p: !pto.ptr<f32, ub>{args}):\n"
        "%v = pto.vlds %p[{offset}] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>\n"
        "}} : (!pto.ptr<f32, ub>{types}) -> ()"
    )
    legal = body.format(more=", %c0", args=", %i: index", offset="%i", types=", index")
    wrong = body.format(more="", args="", offset="%c0", types="")
    for text, expected in ((legal, []), (wrong, ["%c0 is used in a strict scope that does not capture it"])):
        whole = kernel("", {"x": "f32"}, text)
        assert str(pto.parse(str(pto.parse(whole)))) == str(pto.parse(whole))
        found = [d.message.partition(";")[0] for d in pto.verify(pto.parse(whole)) if d.severity == "error"]
        assert found == expected


def test_other_profiles_have_no_micro_operations() -> None:
    found = pto.verify(pto.parse(kernel(LOAD, {"x": "f32"})), profile="a2a3")
    assert any("has no micro-operations; allowed: a5" in d.message for d in found)


def test_distributions_without_a_meaning_are_refused_where_they_are_executed() -> None:
    text = kernel(LOAD.replace("[%c0]", '[%c0] {dist = "SPLT2CHN_B16"}'), {"x": "f32"})
    assert not [d for d in pto.verify(pto.parse(text)) if d.severity == "error"]
    with pytest.raises(NotExecutableError, match='"SPLT2CHN_B16", of which no source says'):
        oracle.run(pto.parse(text), {"x": np.zeros(1024, np.float32)})


@pytest.mark.parametrize(
    ("t", "printed"),
    [
        ("!pto.vreg<64xsi32>", ""),
        ("!pto.vreg<256x!pto.hif8>", ""),
        ("!pto.vreg<64x!pto.bf16x2>", ""),
        ("!pto.vreg<256x!pto.f4E2M1x2>", ""),
        ("!pto.vreg<128xui16>", ""),
        ("!pto.mask<b8>", ""),
        ("!pto.align", ""),
        ("!pto.vmi.vreg<512xf32>", ""),
        ("!pto.vmi.mask<12xpred>", ""),
        ("!pto.vmi.mask<12>", "!pto.vmi.mask<12xpred>"),
        ("!pto.vmi.mask<8xb32>", ""),
        ("!pto.vmi.vreg<8xf32, #pto.vmi.layout<contiguous, lane_stride = 4>>", ""),
        ("!pto.ptr<si16, ub>", "!pto.ptr<si16, vec>"),
    ],
)
def test_types_are_printed_as_they_are_written(t: str, printed: str) -> None:
    text = f"func.func private @f({t})"
    assert str(pto.parse(text)).strip() == text.replace(t, printed or t)


def test_short_pointers_are_pointers() -> None:
    text = "%q = pto.addptr %p, %n : <i8, ub> -> <i8, ub>"
    assert "!pto.ptr<i8, vec>" in str(pto.parse(text))


@pytest.mark.parametrize("wrong", ["vreg<32xf32>", "mask<b64>", "vreg<f32>", "vmi.mask<xpred>"])
def test_types_of_other_sizes_are_errors(wrong: str) -> None:
    with pytest.raises(ParseError, match="allowed"):
        pto.parse(f"func.func private @f(!pto.{wrong})")


def test_loops_may_be_scopes() -> None:
    loop = (
        "scf.for %i = %c0 to %c128 step %c64 {\n"
        f"{LOAD.replace('%c0', '%i')}\n{MASK}\n"
        "pto.vsts %v, %x_ub[%i], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>\n"
        "} {llvm.loop.aivector_scope}"
    )
    text = kernel("", {"x": "f32"}, loop)
    assert "{llvm.loop.aivector_scope" in str(pto.parse(text))
    executed(text, {"x": np.arange(1024, dtype=np.float32)})


def test_declarations_say_what_the_text_has() -> None:
    for operation in isa.micro_operations().values():
        parts = [w for part in operation.types.split("->") for w in part.split()]
        assert len(parts) == len(operation.names), operation.name
        assert operation.summary.endswith("."), operation.name
        assert {p.pointer for p in operation.places} <= set(operation.operands), operation.name


def test_flags_order_transfers_and_scopes() -> None:
    text = program("micro")
    unordered = "\n".join(line for line in text.splitlines() if "PIPE_MTE3" not in line)
    assert not pto.verify(pto.parse(text))
    found = [d.message for d in pto.verify(pto.parse(unordered))]
    assert any("reads %ub (bytes [0, 4096) of the vec buffer) on PIPE_MTE3" in m for m in found), found


@pytest.mark.parametrize("kind", ["tensor", "vector"])
def test_a_listed_mask_is_a_tensor_or_a_vector(kind: str) -> None:
    value = f"{{value = dense<[true, false]> : {kind}<2xi1>}}"
    assert not findings("", f'%m = "pto.vmi.constant_mask"() {value} : () -> !pto.vmi.mask<2xpred>')
