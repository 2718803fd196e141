"""Undefined data: a shadow beside every memory, and reports of its uses."""
