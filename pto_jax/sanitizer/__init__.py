"""Undefined data: a shadow beside every memory, and reports of where it matters."""
