"""Whole programs against a hardware profile."""
