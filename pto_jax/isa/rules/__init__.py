"""Constraints that declarations are made of."""
