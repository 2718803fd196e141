"""Thousands of different programs at once, as data of one compiled interpreter."""
