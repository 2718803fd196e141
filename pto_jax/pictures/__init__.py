"""Pictures of tiles, memory, pipes, layouts and blocks as SVG text, without further packages."""

from .cells import array as array, tile as tile
from .memory import memory as memory
from .svg import Picture as Picture
from .timeline import Timeline as Timeline, timeline as timeline

__all__ = ["Picture", "Timeline", "array", "memory", "tile", "timeline"]
