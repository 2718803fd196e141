"""The campaign notices every wrong spot that is put into the lowering."""

import pytest

from pto_jax.ir import F32
from pto_jax.lowering import formulas, region
from tests.mutation import code
from tests.mutation.campaign import campaign, verdict
from tests.mutation.mutants import Mutant, TableError, applied, read_table, table

#: Modules that compute nothing of their own, or that the campaign does not execute: another machine
#: (``lockstep``), other numerics, large batches (``doubts``, which tests/numerics/test_doubts.py compares),
#: traces executed by NumPy (``numpy_steps``, which tests/campaign/test_code.py compares).
_NOTHING_TO_CHANGE = set(
    "canary doubts lockstep numpy_steps platforms primitives rules scalars machine.block_numbers "
    "machine.grid machine.planning machine.ranges machine.pieces machine.ranks".split()
)
#: The level below tiles: tests/registers and tests/micro compare its rules with formulas, one by one.
_BELOW_TILES = set(
    "cube machine.affine machine.local_memory machine.strided machine.together micro registers ub_memory "
    "vmi".split()
)


def test_the_table_has_mutants_of_every_module_each_at_one_spot() -> None:
    names = [m.name for m in table()]
    assert len(names) >= 60 and len(set(names)) == len(names)
    assert set(code.modules()) - {m.module for m in table()} <= _NOTHING_TO_CHANGE | _BELOW_TILES
    for mutant in table():
        assert mutant.spot[0] == mutant.module
        assert mutant.old != mutant.new


@pytest.mark.nightly
@pytest.mark.slow
def test_the_campaign_kills_every_mutant() -> None:
    verdicts = [verdict(m, campaign()) for m in table()]
    print("\n".join(map(str, verdicts)))
    alive = [v for v in verdicts if v.entry is None and not v.mutant.survives]
    assert not alive, "\n".join(map(str, alive))
    noticed = [v for v in verdicts if v.entry is not None and v.mutant.survives]
    assert not noticed, "\n".join(map(str, noticed))
    assert not [str(v) for v in verdicts if v.leaks]


@pytest.mark.slow
def test_a_mutant_is_put_in_place_and_taken_back() -> None:
    mutant = Mutant("x", "saturating", "getattr(a, operation)(a.decode(x), a.decode(y))", "1 / 0")
    before = formulas.saturating.__code__
    with applied(mutant):
        assert formulas.saturating.__code__ is not before
        with pytest.raises(ZeroDivisionError):
            formulas.saturating(None, "add", None, None)  # type: ignore[arg-type]
    assert formulas.saturating.__code__ is before


@pytest.mark.slow
def test_watched_code_tells_the_statements_it_executes() -> None:
    with code.watched() as reached:
        region.all_ones(F32)
    lines = code.text("region").splitlines()
    assert [lines[line - 1].split()[0] for _, line, _ in sorted(reached)] == ['"""The', "word:", "return"]


@pytest.mark.parametrize(
    ("function", "old", "message"),
    [
        ("all_ones", "no_such_name", "0 times"),
        ("no_such_function", "word", "0 times"),
        ("all_ones", "dtype", "times in functions of this name"),
        ("all_ones", "return (", "neither one expression nor one statement"),
    ],
)
def test_edits_that_have_not_one_place_are_refused(function: str, old: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        _ = Mutant("x", function, old, "None").spot


def test_layout_of_text_does_not_matter() -> None:
    mutant = Mutant("x", "saturating", "getattr( a,operation )(a.decode(x), (a.decode(y)))", "1 / 0")
    assert mutant.module == formulas.__name__.removeprefix("pto_jax.lowering.")


def test_a_malformed_table_is_refused() -> None:
    with pytest.raises(TableError, match="allowed: lines"):
        read_table("region: x\nno mark\n")
    with pytest.raises(TableError, match="not a mutant"):
        read_table("region: x\n- old\n")
