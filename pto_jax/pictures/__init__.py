"""Pictures of tiles, memory, pipes, layouts and blocks as SVG text, without further packages."""

from .blocks import grid as grid
from .cells import array as array, tile as tile
from .layouts import layout as layout
from .memory import memory as memory
from .ranks import ranks as ranks
from .svg import Picture as Picture
from .timeline import Timeline as Timeline, timeline as timeline

__all__ = ["Picture", "Timeline", "array", "grid", "layout", "memory", "ranks", "tile", "timeline"]
