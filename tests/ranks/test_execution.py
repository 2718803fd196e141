"""Programs on 2, 4 and 8 ranks: both engines give what NumPy gives, in every order."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from tests.ranks.protocols import (
    Text,
    all_gather,
    collective,
    compiled,
    exchange,
    members,
    read,
    reduce_scatter,
    ring,
    text,
    values,
    where,
)

RANKS = (2, 4, 8)
SHAPE = (1, 64)


def outputs(k: Text, n: int, given: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The results, the same from both engines and in a few orders."""
    found: dict[str, Any] = compiled(k, n, **more)(**given)
    for seed in range(3):
        other = compiled(k, n, schedule=seed, **more)(**given)
        assert all(np.array_equal(found[name], other[name]) for name in found), seed
    traced = compiled(k, n, "compiled", **more)(**given)
    assert {name: np.asarray(a).tobytes() for name, a in traced.items()} == {
        name: a.tobytes() for name, a in found.items()
    }
    return found


@pytest.mark.instructions("tput", "tnotify", "twait")
@pytest.mark.variants(2)
@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("shape", [(1, 64), (8, 24), (5, 16)])
def test_a_ring_moves_every_part_to_the_next_rank(n: int, shape: tuple[int, int]) -> None:
    k, size = ring(shape), shape[0] * shape[1]
    given = values(k, n)
    found = outputs(k, n, given)
    assert (found["y"][:, :size] == np.roll(given["x"][:, :size], 1, 0)).all() and (
        found["s"][:, 0] == 1
    ).all()


@pytest.mark.parametrize("tile", [(1, 64), (2, 32), (3, 8), (4, 64)])
def test_pieces_of_a_copy_have_no_effect_on_it(tile: tuple[int, int]) -> None:
    k = ring((12, 64), tile=tile)
    given = values(k, 2)
    assert (outputs(k, 2, given)["y"][:, :768] == given["x"][::-1, :768]).all()


@pytest.mark.variants(2)
@pytest.mark.parametrize("n", RANKS)
def test_blocks_of_a_ring_each_move_their_part(n: int) -> None:
    k = ring((4, 64), blocks=True)
    given = values(k, n)
    found = outputs(k, n, given, grid=4)
    assert (found["y"] == np.roll(given["x"], 1, 0)).all() and (found["s"][:, :4] == 1).all()


@pytest.mark.instructions("tput")
@pytest.mark.variants(2)
@pytest.mark.parametrize("n", RANKS)
def test_views_of_several_dimensions_with_strides_are_copied_by_their_indices(n: int) -> None:
    k = text("z")
    own = k.index("%rank")
    peer = k.of("remui", k.of("addi", own, 1), n)
    shape = (2, 1, 3, 4, 8)
    there, here = (192, 96, 32, 8, 1), (16, 8, 128, 32, 1)
    dst, src = k.view(k.peer("%y", peer), "f32", shape, 5, there), k.view("%x", "f32", shape, 3, here)
    k.put(dst, src, shape, "f32", k.tile(4, 8), (4, 8))
    given = values(k, n)
    found = outputs(k, n, given)["y"]
    expected = np.zeros_like(found)
    at = [sum(i * s for i, s in zip(index, there, strict=True)) + 5 for index in np.ndindex(*shape)]
    of = [sum(i * s for i, s in zip(index, here, strict=True)) + 3 for index in np.ndindex(*shape)]
    expected[:, at] = np.roll(given["x"], 1, 0)[:, of]
    assert (found == expected).all()


@pytest.mark.variants(0)
@pytest.mark.parametrize("n", RANKS)
def test_every_rank_sends_another_number_of_rows(n: int) -> None:
    """Rank m sends m + 1 rows to rank 0, each at a place of its own."""
    k = text("z")
    own = k.index("%rank")
    k.add(f"scf.for %i = {k.number(0)} to {k.of('addi', own, 1)} step {k.number(1)} {{")
    at = k.of("addi", k.of("muli", own, n), "%i")
    dst = k.view(k.peer("%y", k.number(0)), "f32", (1, 8), k.of("muli", at, 8))
    src = k.view("%x", "f32", (1, 8), k.of("muli", "%i", 8))
    k.put(dst, src, (1, 8), "f32", k.tile(1, 8), (1, 8))
    k.fence()
    k.notify(k.peer("%s", k.number(0)), 0)
    k.add("}")
    with where(k, k.equal(own, 0)):
        k.wait("%s", 0, n * (n + 1) // 2)
        for row in range(n * n):
            t = k.tile(1, 8)
            k.load(k.view("%y", "f32", (1, 8), 8 * row), (1, 8), "f32", t)
            k.store(t, k.view("%z", "f32", (1, 8), 8 * row), (1, 8), "f32")
    given = values(k, n)
    expected = np.zeros((n, n, 8), np.float32)
    for m in range(n):
        expected[m, : m + 1] = given["x"][m, : 8 * (m + 1)].reshape(-1, 8)
    assert (outputs(k, n, given)["z"][0, : 8 * n * n] == expected.reshape(-1)).all()


@pytest.mark.instructions("tput")
@pytest.mark.variants(2)
@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("t", ["i32", "f32"])
def test_additions_of_all_ranks_meet_in_one_place(n: int, t: str) -> None:
    k = text("z")
    k.pointers = {name: t if name in "xyz" else d for name, d in k.pointers.items()}
    add = "{atomicType = #pto<atomic_type atomic_add>}"
    dst = k.view(k.peer("%y", k.number(0)), t, SHAPE)
    k.put(dst, k.view("%x", t, SHAPE), SHAPE, t, k.tile(*SHAPE, t), SHAPE, add)
    given = values(k, n)
    found = outputs(k, n, given)["y"]
    assert (found[0, :64] == given["x"][:, :64].sum(0)).all() and not found[1:].any()


@pytest.mark.instructions("tget")
@pytest.mark.variants(2)
@pytest.mark.parametrize("n", RANKS)
def test_gets_read_from_every_rank(n: int) -> None:
    if n == 4:
        k = all_gather()
        given = values(k, n)
        assert (outputs(k, n, given)["z"][:, :256] == given["x"][:, :64].reshape(-1)).all()
    k = text("z")
    own = k.index("%rank")
    peer = k.of("remui", k.of("addi", own, n - 1), n)
    k.get(
        k.view("%z", "f32", SHAPE),
        k.view(k.peer("%y", peer), "f32", SHAPE),
        SHAPE,
        "f32",
        k.tile(*SHAPE),
        SHAPE,
    )
    given = values(k, n)
    given["y"] = given["x"].copy()
    assert (outputs(k, n, given)["z"][:, :64] == np.roll(given["y"], 1, 0)[:, :64]).all()


def rooted(
    n: int, root: int, lines: Callable[[Text, list[str], str], None], shape: tuple[int, ...] = SHAPE
) -> Text:
    """A collective over the windows y that its root calls."""
    k = text("z")
    own = k.index("%rank")
    with where(k, k.equal(own, root)):
        lines(k, members(k, "%y", shape, n), k.type(shape, "f32"))
    return k


@pytest.mark.instructions("treduce")
@pytest.mark.variants(2)
@pytest.mark.parametrize("n", (1, *RANKS))
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_a_reduction_starts_with_its_root(n: int, op: str) -> None:
    root = min(1, n - 1)

    def lines(k: Text, group: list[str], t: str) -> None:
        acc, recv = k.tile(*SHAPE), k.tile(*SHAPE)
        more = f"reduceOp = #pto<reduce_op {op}>, root = {root} : i32"
        collective(k, "treduce", k.view("%z", "f32", SHAPE), group, recv, (t, t), more, acc)

    k = rooted(n, root, lines)
    given = values(k, n)
    rng = np.random.default_rng(3)
    given["y"] = rng.standard_normal(given["y"].shape).astype(np.float32)
    fold = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]
    expected = given["y"][root]
    for r in (r for r in range(n) if r != root):
        expected = fold(expected, given["y"][r])
    found = outputs(k, n, given)["z"]
    assert (found[root, :64] == expected[:64]).all() and not np.delete(found, root, 0).any()


@pytest.mark.instructions("comm.tgather", "comm.tscatter")
@pytest.mark.variants(2)
@pytest.mark.parametrize("n", RANKS)
def test_a_gather_concatenates_and_a_scatter_splits(n: int) -> None:
    shape, whole = (2, 32), (2 * n, 32)

    def gather(k: Text, group: list[str], t: str) -> None:
        types = k.type(whole, "f32"), t
        collective(
            k,
            "comm.tgather".removeprefix("comm."),
            k.view("%z", "f32", whole),
            group,
            k.tile(1, 64),
            types,
            "root = 0 : i32",
        )

    def scatter(k: Text, group: list[str], t: str) -> None:
        types = k.type(whole, "f32"), t
        collective(k, "tscatter", k.view("%x", "f32", whole), group, k.tile(1, 64), types, "root = 0 : i32")

    k = rooted(n, 0, gather, shape)
    given = values(k, n)
    given["y"] = given["x"] + 1
    assert (outputs(k, n, given)["z"][0, : 64 * n] == given["y"][:, :64].reshape(-1)).all()
    k = rooted(n, 0, scatter, shape)
    given = values(k, n)
    assert (outputs(k, n, given)["y"][:, :64] == given["x"][0, : 64 * n].reshape(n, 64)).all()


@pytest.mark.variants(2)
@pytest.mark.parametrize("n", RANKS)
def test_a_reduce_scatter_adds_rows(n: int) -> None:
    if n == 4:
        k = reduce_scatter()
        given = values(k, n)
        rows = given["x"][:, : 64 * n].reshape(n, n, 64)
        assert (outputs(k, n, given)["z"][:, :64] == rows.sum(0)).all()


@pytest.mark.variants(2)
@pytest.mark.parametrize("n", RANKS)
def test_a_wait_looks_at_a_matrix_of_signals_with_strides(n: int) -> None:
    """Everyone sets its column of a matrix in rank 0, which waits for all, then for a part."""
    k = text("z")
    own = k.index("%rank")
    put = k.view(k.peer("%y", k.number(0)), "f32", (1, 8), k.of("muli", own, 8))
    k.put(put, k.view("%x", "f32", (1, 8)), (1, 8), "f32", k.tile(1, 8), (1, 8))
    k.fence()
    for row in range(3):
        k.notify(k.peer("%s", k.number(0)), k.of("addi", own, 16 * row), row + 1, "set")
    with where(k, k.equal(own, 0)):
        k.wait("%s", 0, 1, "ge", (3, n), (16, 1))
        k.wait("%s", 16, 2, "ge", (2, n), (16, 1))
        k.wait("%s", 32, 3, "eq", (1, n), (16, 1))
        for p in range(n):
            t = k.tile(1, 8)
            k.load(k.view("%y", "f32", (1, 8), 8 * p), (1, 8), "f32", t)
            k.store(t, k.view("%z", "f32", (1, 8), 8 * p), (1, 8), "f32")
    given = values(k, n)
    assert (outputs(k, n, given)["z"][0, : 8 * n] == given["x"][:, :8].reshape(-1)).all()


@pytest.mark.instructions("ttest")
@pytest.mark.parametrize(
    ("how", "value", "holds"),
    [("eq", 5, True), ("ne", 5, False), ("gt", 5, False), ("ge", 5, True), ("lt", 6, True), ("le", 4, False)],
)
def test_a_test_compares_as_its_name_says(how: str, value: int, holds: bool) -> None:
    k = text("z")
    answer = k.test("%s", 0, value, how)
    wide = k.new()
    k.add(f"{wide} = arith.extui {answer} : i1 to i32")
    k.add(f"pto.store_scalar {wide}, %s[{k.number(1)}] : !pto.ptr<i32>, i32")
    given = values(k, 2)
    given["s"][:, 0] = 5
    assert (outputs(k, 2, given)["s"][:, 1] == holds).all()


def _test(k: Text) -> str:
    return k.test("%s", 0)


def _both(k: Text) -> str:
    first, second, both = k.test("%s", 0), k.test("%s", 1), k.new()
    k.add(f"{both} = arith.andi {first}, {second} : i1")
    return both


def _read(k: Text) -> str:
    word, holds = k.new(), k.new()
    k.add(
        f"{word} = pto.load_scalar %s[{k.number(0)}] : !pto.ptr<i32> -> i32",
        f"{holds} = arith.cmpi sge, {word}, {k.number(1, 'i32')} : i32",
    )
    return holds


def _polls(k: Text, look: Callable[[Text], str], place: str) -> None:
    """Ask again and again: in the condition, in the body, or with a number that counts or that is kept."""
    carried = {"body": ("%true", "i1"), "counter": (k.number(0, "i32"), "i32")}.get(place)
    types = f"({carried[1]}) -> {carried[1]}" if carried else "() -> ()"
    k.add(f"%again = scf.while (%g = {carried[0]}) : {types} {{" if carried else f"scf.while : {types} {{")
    more = k.new()
    if place == "body":
        k.add("scf.condition(%g) %g : i1", "} do {", "^bb0(%h : i1):")
        k.add(f"{more} = arith.xori {look(k)}, %true : i1", f"scf.yield {more} : i1", "}")
        return
    k.add(f"{more} = arith.xori {look(k)}, %true : i1")
    k.add(f"scf.condition({more}) %g : i32" if carried else f"scf.condition({more})", "} do {")
    if carried:
        k.add("^bb0(%h : i32):")
        k.add(f"scf.yield {k.of('addi', '%h', k.number(1, 'i32'), t='i32')} : i32", "}")
        return
    if place == "work":
        k.add(f"pto.store_scalar {k.number(1, 'i32')}, %s[{k.number(9)}] : !pto.ptr<i32>, i32")
    k.add("scf.yield", "}")


def polling(
    look: Callable[[Text], str] = _test, place: str = "condition", asks: int = 1, come: bool = True
) -> Text:
    """One rank asks again and again whether the other one has come."""
    k = text("z")
    own = k.index("%rank")
    with where(k, k.equal(own, 1 - asks)):
        for cell in range(2 * come):
            k.notify(k.peer("%s", k.number(asks)), cell)
    with where(k, k.equal(own, asks)):
        _polls(k, look, place)
        read(k, "%x")
    k.lines.insert(0, "%true = arith.constant true")
    return k


@pytest.mark.variants(4)
@pytest.mark.parametrize("look", [_test, _both, _read])
@pytest.mark.parametrize("place", ["condition", "body", "counter", "work"])
@pytest.mark.parametrize("asks", [0, 1])
def test_a_rank_that_polls_goes_on_once_the_signal_has_come(
    look: Callable[[Text], str], place: str, asks: int
) -> None:
    k = polling(look, place, asks)
    given = values(k, 2)
    for seed in (None, 0, 1, 2):
        assert (compiled(k, 2, schedule=seed)(**given)["z"][asks, :64] == given["x"][asks, :64]).all()
    found = compiled(k, 2).judge(given, schedules=2)
    # A loop that only asks whether a signal has come is a wait for it.
    waits = look is _test and place == "condition"
    expected = set[tuple[str, str]]() if waits else {("schedule", "tnotify")}
    assert {(f.kind, f.first.name) for f in found.findings} == expected
    assert "error" not in found.witness
    if look is _read:
        with pytest.raises(pto.NotExecutableError, match=r"scf\.while: a loop reads a signal until another"):
            compiled(k, 2, "compiled")
    else:
        z = compiled(k, 2, "compiled")(**given)["z"]
        assert (np.asarray(z)[asks, :64] == given["x"][asks, :64]).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize("look", [_test, _both])
@pytest.mark.parametrize("place", ["condition", "body", "counter"])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_rank_that_only_polls_is_a_deadlock(
    look: Callable[[Text], str], place: str, seed: int | None
) -> None:
    k = polling(look, place, come=False)
    with pytest.raises(
        pto.PtoError, match=r"deadlock: 1 of 2 ranks waits for ever\n.*only looks at s\[.\] of rank 1 ge 1"
    ):
        compiled(k, 2, schedule=seed)(**values(k, 2))


@pytest.mark.instructions("tput_async", "tget_async", "build_async_session")
@pytest.mark.parametrize("moves", ["issue", "wait"])
def test_asynchronous_copies_are_there_after_the_wait(moves: str) -> None:
    k = text("z")
    k.pointers = {**k.pointers, "ws": "i8"}
    own = k.index("%rank")
    peer = k.of("remui", k.of("addi", own, 1), 2)
    flat, t, s = "!pto.partition_tensor_view<64xf32>", k.new(), k.new()
    k.add(
        f"{t} = pto.alloc_tile : !pto.tile_buf<vec, 1x256xi8>",
        f"{s} = pto.comm.build_async_session({t}, %ws : !pto.tile_buf<vec, 1x256xi8>, !pto.ptr<i8>) "
        "{sync_id = 0 : i32} -> !pto.async_session",
    )
    events = []
    for at in (0, 64):
        e = k.new()
        dst, src = k.view(k.peer("%y", peer), "f32", (64,), at), k.view("%x", "f32", (64,), at)
        k.add(
            f"{e} = pto.comm.tput_async({dst}, {src}, {s} : {flat}, {flat}, !pto.async_session) "
            "-> !pto.async_event"
        )
        events.append(e)
    done = k.new()
    k.add(
        f"{done} = pto.comm.wait_async_event({events[-1]}, {s} : !pto.async_event, !pto.async_session) -> i1"
    )
    k.fence()
    k.notify(k.peer("%s", peer), 0)
    k.wait("%s", 0)
    read(k, "%y")
    given = {**values(k, 2), "ws": np.zeros((2, 1024), np.int8)}
    found = outputs(k, 2, given, moves=moves)
    assert (found["y"][:, :128] == given["x"][::-1, :128]).all()
    assert (found["z"][:, :64] == given["x"][::-1, :64]).all()


@pytest.mark.instructions("tput_async", "wait_async_event")
@pytest.mark.parametrize("moves", ["issue", "wait"])
def test_an_asynchronous_copy_may_move_its_data_at_once_or_at_its_wait(moves: str) -> None:
    """A read between the two sees the one or the other: both are executed, so that such a race shows."""
    k = text("z")
    k.pointers = {**k.pointers, "ws": "i8"}
    flat, t, s, e, done = "!pto.partition_tensor_view<64xf32>", *(k.new() for _ in range(4))
    dst, src = k.view("%y", "f32", (64,)), k.view("%x", "f32", (64,))
    k.add(
        f"{t} = pto.alloc_tile : !pto.tile_buf<vec, 1x256xi8>",
        f"{s} = pto.comm.build_async_session({t}, %ws : !pto.tile_buf<vec, 1x256xi8>, !pto.ptr<i8>) "
        "{sync_id = 0 : i32} -> !pto.async_session",
        f"{e} = pto.comm.tput_async({dst}, {src}, {s} : {flat}, {flat}, !pto.async_session) "
        "-> !pto.async_event",
    )
    read(k, "%y")
    k.add(f"{done} = pto.comm.wait_async_event({e}, {s} : !pto.async_event, !pto.async_session) -> i1")
    given = {**values(k, 2), "ws": np.zeros((2, 1024), np.int8)}
    after = outputs(k, 2, given, moves=moves)
    assert (after["y"][:, :64] == given["x"][:, :64]).all()
    assert (after["z"][:, :64] == given["x" if moves == "issue" else "y"][:, :64]).all()


@pytest.mark.instructions("tget_async", "test_async_event")
@pytest.mark.parametrize("end", ["wait", "test"])
def test_asynchronous_gets_are_there_after_the_wait(end: str) -> None:
    k = text("z")
    k.pointers = {**k.pointers, "ws": "i8"}
    peer = k.of("remui", k.of("addi", k.index("%rank"), 1), 2)
    flat, t, s, e, done, word = "!pto.partition_tensor_view<64xf32>", *(k.new() for _ in range(5))
    dst, src = k.view("%z", "f32", (64,)), k.view(k.peer("%y", peer), "f32", (64,))
    k.add(
        f"{t} = pto.alloc_tile : !pto.tile_buf<vec, 1x256xi8>",
        f"{s} = pto.comm.build_async_session({t}, %ws : !pto.tile_buf<vec, 1x256xi8>, !pto.ptr<i8>) "
        "{sync_id = 0 : i32} -> !pto.async_session",
        f"{e} = pto.comm.tget_async({dst}, {src}, {s} : {flat}, {flat}, !pto.async_session) "
        "-> !pto.async_event",
        f"{done} = pto.comm.{end}_async_event({e}, {s} : !pto.async_event, !pto.async_session) -> i1",
        f"{word} = arith.extui {done} : i1 to i32",
        f"pto.store_scalar {word}, %s[{k.number(0)}] : !pto.ptr<i32>, i32",
    )
    given = {**values(k, 2), "ws": np.zeros((2, 1024), np.int8)}
    given["y"] = given["x"] + np.float32(1)
    found = outputs(k, 2, given)
    assert (found["z"][:, :64] == given["y"][::-1, :64]).all() and found["s"][:, 0].all()


def test_the_engine_of_collectives_that_runs_beside_the_cores_is_refused_by_name() -> None:
    def lines(k: Text, group: list[str], t: str) -> None:
        more = "engine = CCU, root = 0 : i32"
        collective(k, "tbroadcast", k.view("%x", "f32", SHAPE), group, k.tile(*SHAPE), (t, t), more)

    with pytest.raises(pto.NotExecutableError, match="got engine=CCU"):
        k = rooted(2, 0, lines)
        compiled(k, 2)(**values(k, 2))


def test_the_compiled_form_is_a_function_for_jit_and_for_batches() -> None:
    k = ring()
    kernel, given = compiled(k, 4, "compiled"), values(k, 4)
    number = {"rank": given.pop("rank"), "n": given.pop("n")}
    expected = kernel(**given, **number)

    def call(x: Any) -> Any:
        return kernel(**{**given, "x": x}, **number)["y"]

    assert (np.asarray(jax.jit(call)(given["x"])) == np.asarray(expected["y"])).all()
    two = np.stack([given["x"], given["x"] + 1])
    assert (np.asarray(jax.vmap(call)(two))[1] == np.asarray(call(two[1]))).all()


def test_what_depends_on_data_is_refused_and_says_who_executes_it() -> None:
    k = text("z")
    bound = k.new()
    k.add(f"{bound} = pto.load_scalar %s[{k.number(5)}] : !pto.ptr<i32> -> i32")
    k.add(f"pto.store_scalar {bound}, %s[{k.number(0)}] : !pto.ptr<i32>, i32")
    f = k.new()
    k.add(f"{f} = pto.load_scalar %x[{k.number(0)}] : !pto.ptr<f32> -> f32")
    g = k.new()
    k.add(
        f"{g} = arith.fptosi {f} : f32 to i32",
        f"pto.store_scalar {g}, %s[{k.number(0)}] : !pto.ptr<i32>, i32",
    )
    k.wait("%s", 0, 0)
    given = values(k, 2)
    given["x"] = abs(given["x"])
    compiled(k, 2)(**given)
    with pytest.raises(pto.NotExecutableError, match=r'twait: waits for a signal(.|\n)*engine="interpreter"'):
        compiled(k, 2, "compiled")(**given)
    k = exchange()
    with pytest.raises(pto.NotExecutableError, match=r'which rank is the peer.*engine="interpreter"'):
        compiled(k, 4, "compiled")(**values(k, 4))
    k = text("z")
    answer = k.test("%y", 0)
    assert answer
    many = k.new()
    k.add(f"{many} = pto.load_scalar %z[{k.number(0)}] : !pto.ptr<i32> -> i32")
    k.pointers = {**k.pointers, "y": "i32", "z": "i32"}
    k.add(f"scf.for %i = {k.number(0)} to {k.index(many)} step {k.number(1)} {{")
    k.notify("%s", 0)
    k.add("}")
    with pytest.raises(pto.NotExecutableError, match=r"scf\.for: data decides how often ranks communicate"):
        compiled(k, 2, "compiled")(**values(k, 2))


def _counted(k: Text) -> str:
    """A number that data say."""
    k.pointers = {"count": "i32", **k.pointers}
    n = k.new()
    k.add(f"{n} = pto.load_scalar %count[{k.number(0)}] : !pto.ptr<i32> -> i32")
    return n


def _loop(k: Text) -> None:
    k.add(f"scf.for %i = {k.number(0)} to {k.index(_counted(k))} step {k.number(1)} {{")
    k.notify("%s", 0)
    k.add("}")


def _branch(k: Text) -> None:
    k.if_(k.equal(k.index(_counted(k)), 1))
    k.wait("%s", 0)
    k.end()


def _peer(k: Text) -> None:
    k.notify(k.peer("%s", k.index(_counted(k))), 0)


def _waited(k: Text) -> None:
    k.wait("%s", 0, _counted(k))


@pytest.mark.parametrize(
    ("made", "place", "message"),
    [
        (_loop, "scf.for %i", "scf.for: data decides how often ranks communicate here"),
        (_branch, "scf.if", "scf.if: data decides how often ranks communicate here"),
        (_peer, "load_scalar %ctx[%b]", "load_scalar: data decides which rank is the peer"),
        (_waited, "comm.twait", "twait: data decides what a rank waits for"),
    ],
)
def test_what_data_decides_is_refused_where_it_is_compiled(
    made: Callable[[Text], None], place: str, message: str
) -> None:
    k = text("z")
    made(k)
    line = next(i for i, t in enumerate(str(k).splitlines(), 1) if place in t)
    expected = f"k.pto:{line}:5: error: {message}"
    ways: tuple[Callable[[], object], ...] = (
        lambda: compiled(k, 2, "compiled"),
        lambda: pto.launches([compiled(k, 2)], ranks=2, engine="compiled"),
    )
    for compile_it in ways:
        with pytest.raises(pto.NotExecutableError) as caught:
            compile_it()
        shown = str(caught.value)
        assert expected in shown and "allowed: numbers of the text, scalars and signals" in shown
        assert 'try: engine="interpreter"' in shown
    assert compiled(k, 2).engine == "interpreter"


@pytest.mark.variants(3)
@pytest.mark.parametrize("shape", [(1, 64), (1, 8), (5, 24)])
@pytest.mark.parametrize("n", [2, 4])
def test_windows_are_put_together_from_rows_and_signals_from_numbers(shape: tuple[int, int], n: int) -> None:
    """Rows of a common length, or elements where there is none; cells that nobody changes stay."""
    k = ring(shape, blocks=True)
    size = shape[0] * shape[1]
    kernel = compiled(k, n, "compiled", grid=3)
    rng = np.random.default_rng(1)
    given: dict[str, Any] = {
        "x": rng.standard_normal((n, 3 * size + 5)).astype(np.float32),
        "y": rng.standard_normal((n, 3 * size + 5)).astype(np.float32),
        "s": np.full((n, 9), 7, np.int32),
        "rank": np.arange(n),
        "n": n,
    }
    given["s"][:, :3] = 0
    expected = {"y": given["y"].copy(), "s": given["s"].copy()}
    expected["y"][:, : 3 * size] = np.roll(given["x"], 1, 0)[:, : 3 * size]
    expected["s"][:, :3] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = jax.jit(lambda s: kernel(**{**given, "s": s}))(given["s"])
    for found in (kernel(**given), traced):
        for name, array in expected.items():
            np.testing.assert_array_equal(np.asarray(found[name]), array)
