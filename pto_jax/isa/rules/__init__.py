"""Constraints of declarations."""
