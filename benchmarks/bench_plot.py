"""A picture of a run's ratios (``python -m benchmarks --plot FILE``), by matplotlib."""

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from benchmarks.bench_run import Figure
from pto_jax.errors import ArgumentError
from pto_jax.files import write_bytes

SUFFIXES = ("pdf", "png", "svg")


def require(path: str) -> None:
    """Raise ArgumentError where a picture could not be drawn, before anything is measured."""
    if Path(path).suffix.removeprefix(".") not in SUFFIXES:
        listed = ", ".join(f".{s}" for s in SUFFIXES)
        raise ArgumentError(f"--plot {path}: allowed: a file that ends in {listed}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ArgumentError("--plot needs matplotlib; try: pip install 'pto_jax[plot]'")


def draw(path: str, figures: Iterable[Figure], title: str) -> None:
    """Write a picture: the ratios of each unit as bars, with what the design asks for as a mark on them."""
    import io

    from matplotlib.figure import Figure as Canvas

    groups: dict[str, list[Figure]] = {}
    for f in figures:
        if f.better:
            groups.setdefault(f.unit, []).append(f)
    if not groups:
        raise ArgumentError("--plot: got no ratios; try: name a benchmark that has some")
    heights = [len(g) + 2 for g in groups.values()]
    canvas = Canvas(figsize=(9, 0.28 * sum(heights)), layout="constrained")
    canvas.suptitle(title)
    axes = canvas.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (unit, group) in zip(axes, groups.items(), strict=True):
        places = range(len(group))
        bars = ax.barh(places, [f.value for f in group], color="tab:blue")
        ax.bar_label(bars, fmt="%.2f", padding=3)
        for place, f in zip(places, group, strict=True):
            wanted = f.target.rpartition(" ")[2]
            if wanted:
                ax.plot([float(wanted)] * 2, [place - 0.4, place + 0.4], color="tab:red")
        ax.set_yticks(places, [f.name for f in group])
        ax.invert_yaxis()
        ax.margins(x=0.1)
        ax.set_xlabel(f"{unit} ({group[0].better} is better; red: wanted)")
    content = io.BytesIO()
    canvas.savefig(content, format=Path(path).suffix.removeprefix("."))
    write_bytes(path, content.getvalue())
