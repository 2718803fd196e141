"""Failures made small: the instruction at fault found, program and inputs reduced, the cause named."""

from .reduce import SECONDS, Shrunk, shrink

__all__ = ["SECONDS", "Shrunk", "shrink"]
