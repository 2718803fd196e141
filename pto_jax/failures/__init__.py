"""Failures: their folders, the instruction at fault, shrinking, and failure groups."""

from .reduce import SECONDS, Shrunk, shrink

__all__ = ["SECONDS", "Shrunk", "shrink"]
