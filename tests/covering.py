"""Samples that show what others do not."""

from collections.abc import Collection, Iterable, Iterator

from pto_jax.ir import PartitionViewType, ScalarType, TileType, VectorType
from pto_jax.isa.samples.operations import Sample
from pto_jax.testing.differential import label


def covering(
    samples: Iterable[Sample], first: Collection[str] = (), known: Collection[object] = ()
) -> list[Sample]:
    """Samples that together show every element type, form, attribute value and order of tiles.

    They need not show every combination. Those whose :func:`label` is in ``first`` are taken first;
    :func:`types_shown` that are ``known`` need no sample of their own.
    """
    seen: set[object] = set(known)
    kept = []
    for sample in sorted(samples, key=lambda s: label(s) not in first):
        shown = {*modes_shown(sample), *types_shown(sample, pairs=not known)}
        if not shown <= seen:
            kept.append(sample)
            seen |= shown
    return kept


def types_shown(sample: Sample, pairs: bool = True) -> set[object]:
    """The element types of a sample; those of a conversion as a pair as well."""
    bound = {
        sample.instruction.operand(name).dtype or name: t.dtype
        for name, t in sample.types.items()
        if isinstance(t, TileType | ScalarType | VectorType | PartitionViewType)
    }
    both = {tuple(bound.items())} if pairs and sample.instruction.converts else set()
    return {*bound.items(), *both}


def modes_shown(sample: Sample) -> Iterator[object]:
    """The overload, orders of tiles, kinds of shapes and attribute values of a sample."""
    tiles = {name: t for name, t in sample.types.items() if isinstance(t, TileType)}
    order = ((n, t.loc, t.blayout, t.slayout, t.fractal, t.pad, t.compact) for n, t in tiles.items())
    yield sample.form, tuple(order)
    yield from ((name, t.is_full, t.rows == 1, t.cols == 1) for name, t in tiles.items())
    yield from sample.attrs.items()
