"""Rules on what goes through one end of a pipe: halves of an odd number, and slots in global memory."""

from collections.abc import Iterator

from ..analysis.pipes import End
from ..errors import Diagnostic
from ..ir import KernelKind, Op, TensorViewType, TileType, Value
from ..isa.effects import traits_of
from ..profiles import Profile
from .errors import error_of

#: Splits of an odd number of rows and of columns.
_ODD = (3, 4)


def entry_findings(end: End, uses: list[Op], profile: Profile) -> Iterator[Diagnostic]:
    """What is wrong with the operations that go through an end of a pipe."""
    for op in uses:
        entry = _entry(op, end)
        if isinstance(entry.type if entry else None, TensorViewType):
            yield from _view(end, op, entry)
        if op.attrs.get("split") in _ODD:
            yield from (_odd if end.core is not None else _odd_handle)(end, op, entry, profile)
        if end.core is None:
            continue
        if traits_of(op).fifo == "push" and end.core is KernelKind.CUBE:
            yield from _parity(op, entry)


def _entry(op: Op, end: End) -> Value | None:
    """The tile or view that an operation pushes, gets or frees."""
    handles = {v.name for v in end.op.results}
    values = [v for v in (*op.results, *op.ins) if v.name not in handles]
    return next((v for v in values if isinstance(v.type, TileType | TensorViewType)), None)


def _odd(end: End, op: Op, entry: Value | None, profile: Profile) -> Iterator[Diagnostic]:
    split, names = op.attrs["split"], [name for name, size in end.op.groups if size]
    memory = "gm_slot_tensor" in names or (profile.name != "a5" and "gm_slot_buffer" in names)
    if end.mask != 1 or not memory or "c2v_consumer_buf" not in names:
        yield error_of(
            op,
            "pipe-odd",
            f"split = {split} on a pipe of dir_mask = {end.mask} with {', '.join(names) or 'no slots'}; "
            "allowed: dir_mask = 1, c2v_consumer_buf, and gm_slot_tensor (gm_slot_buffer on a2a3)",
        )
    if entry is not None and isinstance(entry.type, TensorViewType):
        yield error_of(op, "pipe-odd", f"split = {split} of a view; allowed: of a tile", entry)
    elif traits_of(op).fifo == "pop" and not op.group("valid_row"):
        yield error_of(
            op,
            "pipe-odd",
            f"split = {split} without valid_row and valid_col; allowed: those of the core's part",
        )


def _odd_handle(end: End, op: Op, entry: Value | None, profile: Profile) -> Iterator[Diagnostic]:
    if end.mask != 1 or not (end.op.group("gm_addr") and end.op.group("local_addr")):
        yield error_of(
            op,
            "pipe-odd",
            f"split = {op.attrs['split']} on a pipe of dir_mask = {end.mask} made by {end.op.name}; allowed: "
            "dir_mask = 1, with slots in global and in local memory",
        )


def _parity(op: Op, entry: Value | None) -> Iterator[Diagnostic]:
    """Halves are those of an even number where the split says so, and of an odd one where it says that."""
    split = op.attrs.get("split", 0)
    if not isinstance(split, int) or not 1 <= split <= 4 or entry is None:
        return
    t, axis = entry.type, (split - 1) % 2
    sizes = t.valid if isinstance(t, TileType) else t.dims if isinstance(t, TensorViewType) else ()
    size = sizes[axis] if len(sizes) == 2 else None
    if size is not None and (size % 2 == 1) != (split in _ODD):
        what = ("rows", "columns")[axis]
        other = split + 2 if split < 3 else split - 2
        yield error_of(
            op,
            "pipe-parity",
            f"split = {split} of {size} valid {what}; allowed: an {'odd' if split in _ODD else 'even'} "
            f"number of {what}; usual fix: split = {other}",
            entry,
        )


def _view(end: End, op: Op, entry: Value | None) -> Iterator[Diagnostic]:
    """A slot in global memory has the element type and the extents of the view that describes slots."""
    assert entry is not None
    assert isinstance(entry.type, TensorViewType)
    memory = end.memory
    if end.core is not None and (memory is None or memory.type == entry.type):
        if memory is None:
            message = f"{entry} is a view, and id = {end.number} has no gm_slot_tensor; allowed: a tile"
            yield error_of(op, "pipe-slot", message, entry)
        return
    slot = memory.type if memory is not None else None
    if not isinstance(slot, TensorViewType) or (end.core is None and op.attrs.get("split", 0) != 0):
        return
    if slot.dtype != entry.type.dtype or len(slot.dims) != len(entry.type.dims):
        yield error_of(op, "pipe-slot", f"{entry} is {entry.type}; allowed: {slot} as gm_slot_tensor", entry)
        return
    for axis, (have, want) in enumerate(zip(entry.type.dims, slot.dims, strict=True)):
        if None not in (have, want) and have != want:
            yield error_of(
                op,
                "pipe-slot",
                f"dimension {axis} of {entry} has {have}; allowed: {want}, that of gm_slot_tensor",
                entry,
            )
