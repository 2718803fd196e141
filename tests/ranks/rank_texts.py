"""Programs on several ranks: a ring in some forms."""

from __future__ import annotations

from pto_jax.generate.rank_texts import FENCE as FENCE, Text as Text


def ring(shape: tuple[int, int] = (1, 64), blocks: bool = False, tile: tuple[int, int] | None = None) -> Text:
    """Every rank puts its part into the next one's, says so, and waits for that of the one before."""
    pointers = {"x": "f32", "y": "f32", "s": "i32", "ctx": "i64"}
    scalars = {"rank": "i32", "n": "i32"} | ({"__pypto_spmd_block_idx": "i32"} if blocks else {})
    k = Text(pointers, scalars, name="ring")
    own, n = k.index("%rank"), k.index("%n")
    peer = k.of("remui", k.of("addi", own, 1), n)
    block = k.index("%__pypto_spmd_block_idx") if blocks else 0
    at = k.of("muli", block, shape[0] * shape[1]) if blocks else 0
    size = tile or shape
    staging = k.tile(*size)
    dst, src = k.view(k.peer("%y", peer), "f32", shape, at), k.view("%x", "f32", shape, at)
    k.put(dst, src, shape, "f32", staging, size)
    k.fence()
    k.notify(k.peer("%s", peer), block)
    k.wait("%s", block)
    return k
