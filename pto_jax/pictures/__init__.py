"""Pictures of tiles, memory, pipes, layouts and blocks as SVG text, without further packages."""

from .cells import array as array, tile as tile
from .memory import memory as memory
from .svg import Picture as Picture

__all__ = ["Picture", "array", "memory", "tile"]
